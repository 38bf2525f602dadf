//! Maps the chunk numbers of one version to the next version's.
//!
//! Where an axis outgrows the [extents](Numbering::extents), the same number stands for one chunk in the
//! old tables and for another in the new ones. So the two are types of their own, and only this file
//! turns one into the other.

use crate::array::chunked::version::OpenVersion;
use crate::error::{Error, ErrorKind, Result};
use crate::format::chunked::segment::{Entry, Place};
use crate::format::chunked::{Numbering, grid_of};

/// The number of a chunk in the tables of the version that is changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct OldNumber(u64);

/// The number of a chunk in the tables of the version to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct NewNumber(u64);

/// How the chunks of a version are numbered, and the chunks of the version that is made from it.
pub(super) struct Renumbering<'a> {
    old: &'a Numbering,
    old_grid: Vec<u64>,
    new: Numbering,
    new_grid: Vec<u64>,
}

impl OldNumber {
    pub(super) fn get(self) -> u64 {
        self.0
    }
}

impl NewNumber {
    pub(super) fn get(self) -> u64 {
        self.0
    }

    /// The entry of a table for this chunk.
    pub(super) fn entry(self, place: Option<Place>) -> Entry {
        Entry { chunk: self.0, place }
    }
}

impl<'a> Renumbering<'a> {
    /// From this version to one of this shape.
    pub(super) fn of(base: &'a OpenVersion, shape: &[u64]) -> Result<Renumbering<'a>> {
        let new_grid = grid_of(shape, &base.version.storage.chunkshape);
        let new = Numbering::of_grid(&new_grid, Some(&base.numbering));
        let new = new.map_err(|e| Error::new(ErrorKind::Limit, e.to_string()))?;
        let old_grid = base.grid.counts().iter().map(|n| *n as u64).collect();
        Ok(Renumbering { old: &base.numbering, old_grid, new, new_grid })
    }

    /// Whether every chunk keeps its number, so that the new tables may share segments with the old.
    pub(super) fn is_same(&self) -> bool {
        *self.old == self.new
    }

    /// Whether an axis has fewer chunks than before.
    pub(super) fn shrinks(&self) -> bool {
        self.old_grid.iter().zip(&self.new_grid).any(|(old, new)| new < old)
    }

    /// The new extents.
    pub(super) fn extents(&self) -> Vec<u64> {
        self.new.extents().to_vec()
    }

    /// The number of a chunk of the new version.
    pub(super) fn new_number(&self, at: &[u64]) -> NewNumber {
        NewNumber(self.new.number(at))
    }

    /// The number that a chunk had, if it was there.
    pub(super) fn old_number(&self, at: &[u64]) -> Option<OldNumber> {
        let inside = at.iter().zip(&self.old_grid).all(|(i, n)| i < n);
        inside.then(|| OldNumber(self.old.number(at)))
    }

    /// The new number of the chunk that an entry of the old table is of; `None` if it is cut off.
    pub(super) fn kept(&self, old: &Entry) -> Option<NewNumber> {
        let at = self.old.coordinates(old.chunk);
        let inside = at.iter().zip(&self.new_grid).all(|(i, n)| i < n);
        inside.then(|| self.new_number(&at))
    }

    /// The number under which the new table has to say that a chunk of the old one was cut off.
    /// `None` where numbers differ: that table is written from the chunks that are kept alone, and
    /// the number may belong to another chunk.
    pub(super) fn cut_off(&self, old: &Entry) -> Option<NewNumber> {
        (self.is_same() && self.kept(old).is_none()).then_some(NewNumber(old.chunk))
    }
}
