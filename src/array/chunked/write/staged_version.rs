//! `StagedVersion`: changes to one version, until they are committed.

use std::sync::Arc;

use ndarray::{ArrayBase, ArrayD, Data, Dimension};
use serde_json::{Map, Value};

use crate::array::chunked::read::ChunkedArray;
use crate::array::chunked::write::proposal::{NewChunk, coordinates};
use crate::array::plan::{Place, SlabKind};
use crate::array::selection::Selection;
use crate::array::staged::StagedArray;
use crate::error::{Error, ErrorKind, Result};
use crate::value::{Element, NdArray};

/// Changes to one version, in memory, from [`ArrayStore::stage`](crate::array::ArrayStore::stage) to
/// [`ArrayStore::commit`](crate::array::ArrayStore::commit).
///
/// [`array`](Self::array) is the array with the changes, for everything that only reads it. It
/// cannot be taken out or replaced: chunks that did not change belong to the base.
///
/// ```
/// use kiste::array::ArrayOptions;
/// use kiste::value::DType;
///
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("counts");
/// let mut store = ArrayOptions::default().create(&path, DType::of::<i32>(), &[10])?;
/// let mut staged = store.stage()?;
/// staged.set_scalar(3.., 7)?;
/// assert_eq!(staged.get::<i32>(..)?.sum(), 49);
/// assert_eq!(staged.base().get::<i32>(..)?.sum(), 0);
/// store.commit(&mut staged, "sevens")?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
#[must_use = "staged changes are lost unless they are committed"]
pub struct StagedVersion {
    array: StagedArray,
    base: ChunkedArray,
    /// The newest version when this was staged.
    newest: u64,
    attributes: Map<String, Value>,
    /// Whether an axis became shorter at some time.
    shrunk: bool,
}

impl StagedVersion {
    /// No changes yet to `base`, while `newest` is the newest version.
    pub(super) fn new(base: ChunkedArray, newest: u64) -> Result<StagedVersion> {
        let grid = &base.core().grid;
        let mut places = Vec::new();
        places.try_reserve_exact(grid.len()).map_err(|_| {
            Error::new(ErrorKind::Limit, format!("{} chunks are too many to stage", grid.len()))
        })?;
        // Tables are verified here, each once.
        let core = base.core();
        core.with_current(|core| {
            (0..core.columns.len()).try_for_each(|c| core.table(c).map(drop))
        })?;
        // If every chunk is stored, no entry is looked at. (A chunk that the base does not find
        // after all is read as fill.)
        let chunks = grid.len() as u64;
        if let (true, Ok(count)) =
            (core.version.columns.iter().any(|c| c.chunks >= chunks), u32::try_from(chunks))
        {
            places.extend((0..count).map(|slot| Place { slab: 1, slot }));
            return StagedVersion::with_places(base, newest, places);
        }
        places.resize(grid.len(), Place::default());
        let counts = coordinates(grid.counts().to_vec());
        base.core().with_current(|core| {
            for column in 0..core.columns.len() {
                // A chunk that newer entries made fill again may be listed by an older entry; it is
                // then read as fill from the base.
                core.table(column)?.each_entry(|entry| {
                    let cell = entry.place.and_then(|_| core.numbering.index(entry.chunk, &counts));
                    let Some(Ok(slot)) = cell.map(u32::try_from) else { return };
                    if let Some(place) = places.get_mut(slot as usize) {
                        *place = Place { slab: 1, slot };
                    }
                });
            }
            Ok(())
        })?;
        StagedVersion::with_places(base, newest, places)
    }

    /// The same with chunks at these places: on the full slab, or where they are in the version.
    fn with_places(base: ChunkedArray, newest: u64, places: Vec<Place>) -> Result<StagedVersion> {
        let array = StagedArray::from_base(
            base.shape(),
            base.grid().chunk_shape(),
            base.dtype().clone(),
            &base.core().version.storage.fill,
            vec![Arc::new(base.clone())],
            places,
        )?;
        let attributes = base.attrs().clone();
        Ok(StagedVersion { array, base, newest, attributes, shrunk: false })
    }

    /// Forgets the changes, which are committed in `newest` now, and is based on that.
    pub(super) fn rebase(&mut self, newest: &ChunkedArray) {
        // A chunk that is not fill is in the new version, at the same place of the same grid.
        let place = |(cell, old): (usize, &Place)| match old.slab {
            0 => Ok(Place::default()),
            _ => u32::try_from(cell).map(|slot| Place { slab: 1, slot }),
        };
        let places: std::result::Result<_, _> =
            self.array.places().iter().enumerate().map(place).collect();
        let next = places.ok().and_then(|places| {
            StagedVersion::with_places(newest.clone(), newest.version(), places).ok()
        });
        // The commit succeeded in any case; a base that is too old is noticed by the next one.
        if let Some(next) = next {
            *self = next;
        }
    }

    /// The newest version when this was staged.
    pub(super) fn newest(&self) -> u64 {
        self.newest
    }

    /// The chunks that may differ from the base.
    pub(super) fn changes(&self) -> impl Iterator<Item = Result<(Vec<u64>, NewChunk<'_>)>> {
        self.array.changes_plan().iter().filter_map(|change| {
            let new = match change.kind {
                SlabKind::Base | SlabKind::Dropped => return None,
                // Without a shrink it was fill before; else it may have been cut off and come back.
                SlabKind::Full if !self.shrunk => return None,
                SlabKind::Full => NewChunk::Fill,
                SlabKind::Staged | SlabKind::Spilled => match self.array.chunk(change.cell) {
                    Ok(bytes) => {
                        let copied = self.array.copied(change.cell);
                        NewChunk::staged(bytes, copied, self.cell_of_base(change.cell))
                    }
                    Err(e) => return Some(Err(e)),
                },
            };
            Some(Ok((coordinates(self.array.grid().coordinates(change.cell)), new)))
        })
    }

    /// The number that a chunk has in the base, or one that no chunk has.
    fn cell_of_base(&self, cell: usize) -> usize {
        let (at, grid) = (self.array.grid().coordinates(cell), self.base.grid());
        let inside = at.iter().zip(grid.counts()).all(|(i, count)| i < count);
        let cell = at.iter().zip(grid.steps()).map(|(i, step)| i * step).sum();
        if inside { cell } else { usize::MAX }
    }

    /// The version that the changes are made to.
    pub fn base(&self) -> &ChunkedArray {
        &self.base
    }

    /// The array with the changes.
    pub fn array(&self) -> &StagedArray {
        &self.array
    }

    /// The user's attributes, as they will be committed.
    pub fn attrs(&self) -> &Map<String, Value> {
        &self.attributes
    }

    /// The user's attributes, to change them.
    pub fn attrs_mut(&mut self) -> &mut Map<String, Value> {
        &mut self.attributes
    }

    /// The length of each axis.
    pub fn shape(&self) -> &[usize] {
        self.array.shape()
    }

    /// As [`StagedArray::get`].
    pub fn get<T: Element>(&self, selection: impl Into<Selection>) -> Result<ArrayD<T>> {
        self.array.get(selection)
    }

    /// As [`StagedArray::set`].
    pub fn set<T, S, D>(
        &mut self,
        selection: impl Into<Selection>,
        value: &ArrayBase<S, D>,
    ) -> Result<()>
    where
        T: Element,
        S: Data<Elem = T>,
        D: Dimension,
    {
        self.array.set(selection, value)
    }

    /// As [`StagedArray::set_scalar`].
    pub fn set_scalar<T: Element>(
        &mut self,
        selection: impl Into<Selection>,
        value: T,
    ) -> Result<()> {
        self.array.set_scalar(selection, value)
    }

    /// As [`StagedArray::write`].
    pub fn write(&mut self, selection: impl Into<Selection>, value: &NdArray<'_>) -> Result<()> {
        self.array.write(selection, value)
    }

    /// As [`StagedArray::resize`].
    pub fn resize(&mut self, shape: &[usize]) -> Result<()> {
        let shrinks = shape.iter().zip(self.array.shape()).any(|(new, old)| new < old);
        self.array.resize(shape)?;
        self.shrunk |= shrinks;
        Ok(())
    }

    /// As [`StagedArray::append`].
    pub fn append<T, S, D>(&mut self, rows: &ArrayBase<S, D>) -> Result<()>
    where
        T: Element,
        S: Data<Elem = T>,
        D: Dimension,
    {
        self.array.append(rows)
    }

    /// As [`StagedArray::append_array`].
    pub fn append_array(&mut self, rows: &NdArray<'_>) -> Result<()> {
        self.array.append_array(rows)
    }

    /// As [`StagedArray::load`].
    pub fn load(&mut self) -> Result<()> {
        self.array.load()
    }
}
