//! The input of a commit: every route (staged changes, appended rows, assigned rows,
//! a new shape, new attributes) makes one of these.

use std::borrow::Cow;
use std::ops::Range;

use serde_json::{Map, Value};

use crate::array::chunked::version::OpenVersion;
use crate::array::chunked::write::array_chunks::ArrayChunks;
use crate::array::plan::Place;
use crate::array::staged::Copied;
use crate::error::Result;

/// A version to be.
pub(super) struct Proposal<'a> {
    /// The version that is changed.
    pub(super) base: &'a OpenVersion,
    pub(super) message: &'a str,
    pub(super) shape: Vec<usize>,
    pub(super) attributes: Map<String, Value>,
    /// `None` where no chunk changes but those that are cut off.
    pub(super) changes: Option<Changes<'a>>,
}

/// Chunks that may differ from the base, each once, with their coordinates.
pub(super) type Changes<'a> = Box<dyn Iterator<Item = Result<(Vec<u64>, NewChunk<'a>)>> + 'a>;

/// The new content of a chunk.
pub(super) enum NewChunk<'a> {
    /// The fill value.
    Fill,
    /// These bytes: the whole chunk, the fill value beyond the edge of the array.
    Bytes(Cow<'a, [u8]>),
    /// The same, where all bytes outside this range are those that the base was read to have.
    Changed(Cow<'a, [u8]>, Range<usize>),
    /// The chunk of this number of an array in memory.
    Of(&'a ArrayChunks<'a>, usize),
}

impl<'a> NewChunk<'a> {
    /// A staged chunk. `base` is its number in the base, which is the first slab above the full one.
    pub(super) fn staged(
        bytes: Cow<'a, [u8]>,
        copied: Option<&Copied>,
        base: usize,
    ) -> NewChunk<'a> {
        let here = |from: &Place| from.slab == 1 && from.slot as usize == base;
        match copied.filter(|copied| here(&copied.from)) {
            Some(copied) => NewChunk::Changed(bytes, copied.written.clone()),
            None => NewChunk::Bytes(bytes),
        }
    }

    pub(super) fn len(&self) -> usize {
        match self {
            NewChunk::Fill => 0,
            NewChunk::Bytes(bytes) | NewChunk::Changed(bytes, _) => bytes.len(),
            NewChunk::Of(chunks, _) => chunks.chunk_len(),
        }
    }
}

impl<'a> Proposal<'a> {
    /// The same array again.
    pub(super) fn new(base: &'a OpenVersion, message: &'a str) -> Proposal<'a> {
        Proposal {
            base,
            message,
            shape: base.grid.shape().to_vec(),
            attributes: base.version.attributes.clone(),
            changes: None,
        }
    }

    pub(super) fn shape(mut self, shape: Vec<usize>) -> Proposal<'a> {
        self.shape = shape;
        self
    }

    pub(super) fn attributes(mut self, attributes: Map<String, Value>) -> Proposal<'a> {
        self.attributes = attributes;
        self
    }

    pub(super) fn changes(
        mut self,
        changes: impl Iterator<Item = Result<(Vec<u64>, NewChunk<'a>)>> + 'a,
    ) -> Proposal<'a> {
        self.changes = Some(Box::new(changes));
        self
    }
}

/// Coordinates of a chunk as tables have them.
pub(super) fn coordinates(at: Vec<usize>) -> Vec<u64> {
    at.into_iter().map(|i| i as u64).collect()
}
