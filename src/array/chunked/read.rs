//! `ChunkedArray`: one version of an array in a directory, read lazily.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use ndarray::{ArrayD, IxDyn};
use serde_json::{Map, Value};

use crate::array::chunked::at::{At, resolve};
use crate::array::chunked::columns;
use crate::array::chunked::diff::{self, ChunkDiff};
use crate::array::chunked::files::Files;
use crate::array::chunked::history::{self, Added};
use crate::array::chunked::info::{ArrayInfo, VersionInfo};
use crate::array::chunked::verify::{self, Report};
use crate::array::chunked::version::{Column, ColumnChunks, OpenVersion, StoredChunk, Threads};
use crate::array::chunked::view::ChunkView;
use crate::array::grid::{ChunkGrid, Touch};
use crate::array::operand::aim;
use crate::array::plan::{ReadPlan, Shown};
use crate::array::rows::{Rows, check_rows, row_count};
use crate::array::selection::{Resolved, Selection, invalid, product};
use crate::array::transfer::{BaseSlab, Program, Side, Source, c_steps, fill};
use crate::error::{Error, ErrorKind, Result};
use crate::format::chunked::Version;
use crate::storage::{expect_memory, prefer_huge_pages, zeroed};
use crate::value::{DType, Element, NdArray};

/// One version of a chunked array. It never changes.
///
/// Opening reads the version's file; tables and superchunks are opened when they are needed. Clones
/// are cheap and share open files. [`ArrayOptions`](crate::array::ArrayOptions) has options for
/// reading, and [`ArrayStore`](crate::array::ArrayStore) writes.
///
/// ```
/// use kiste::array::{ArrayOptions, ChunkedArray};
/// use kiste::value::DType;
/// use ndarray::{ArrayD, arr2};
///
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("table");
/// let mut store = ArrayOptions::default().create(&path, DType::of::<f32>(), &[0, 2])?;
/// store.append(&(&arr2(&[[1.0_f32, 2.0], [3.0, 4.0]])).into(), "two rows")?;
///
/// let array = ChunkedArray::open(&path)?;
/// assert_eq!(array.shape(), [2, 2]);
/// let column: ArrayD<f32> = array.get((.., 1))?;
/// assert_eq!(column, ndarray::arr1(&[2.0, 4.0]).into_dyn());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct ChunkedArray {
    core: Arc<OpenVersion>,
    /// The type of this view: all fields, or some.
    dtype: DType,
    /// The columns of this view, and where their fields are in an element.
    picks: Vec<Pick>,
}

#[derive(Debug, Clone, Copy)]
struct Pick {
    column: usize,
    offset: usize,
}

impl ChunkedArray {
    /// A version of the array with these files.
    pub(crate) fn of(
        files: Arc<Files>,
        version: Version,
        threads: Threads,
    ) -> Result<ChunkedArray> {
        let core = OpenVersion::new(files, version, threads)?;
        let pick = |(column, c): (usize, &Column)| Pick { column, offset: c.leaf.offset };
        let picks = core.columns.iter().enumerate().map(pick).collect();
        Ok(ChunkedArray { dtype: core.dtype.clone(), core: Arc::new(core), picks })
    }

    /// Length of each axis.
    pub fn shape(&self) -> &[usize] {
        self.core.grid.shape()
    }

    /// Length of the first axis; 1 for an array without axes.
    pub fn len(&self) -> usize {
        self.shape().first().copied().unwrap_or(1)
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.shape().contains(&0)
    }

    /// The type of the elements.
    pub fn dtype(&self) -> &DType {
        &self.dtype
    }

    /// How the array is cut into chunks.
    pub fn grid(&self) -> &ChunkGrid {
        &self.core.grid
    }

    /// The bytes of elements that were never written.
    pub fn fill_bytes(&self) -> Vec<u8> {
        let mut element = vec![0; self.dtype.item_size()];
        if self.dtype == self.core.dtype {
            element.copy_from_slice(&self.core.version.storage.fill);
        }
        for pick in &self.picks {
            let fill = &self.core.columns[pick.column].fill;
            element[pick.offset..pick.offset + fill.len()].copy_from_slice(fill);
        }
        element
    }

    /// The user's attributes.
    pub fn attrs(&self) -> &Map<String, Value> {
        &self.core.version.attributes
    }

    /// The number of this version.
    pub fn version(&self) -> u64 {
        self.core.version.version
    }

    /// When, why and from what this version was committed.
    pub fn version_info(&self) -> VersionInfo {
        VersionInfo::of(&self.core.version)
    }

    /// All versions that exist now, oldest first.
    pub fn versions(&self) -> Result<Vec<VersionInfo>> {
        let files = &self.core.files;
        let numbers = files.version_numbers()?.into_iter();
        numbers.map(|number| Ok(VersionInfo::of(&files.version(number)?))).collect()
    }

    /// The same array at another version.
    pub fn at(&self, at: At) -> Result<ChunkedArray> {
        let files = &self.core.files;
        ChunkedArray::of(files.clone(), resolve(files, at)?, self.core.threads.clone())
    }

    /// Facts about the array that are known without reading its elements. Prints as a table.
    pub fn info(&self) -> ArrayInfo {
        let (version, storage) = (&self.core.version, &self.core.version.storage);
        let columns: Vec<(String, u64, u64)> = self
            .fields()
            .map(|(column, ..)| &version.columns[column])
            .map(|column| (column.path.clone(), column.chunks, column.cbytes))
            .collect();
        let item = self.dtype.item_size() as u64;
        let cparams = &storage.cparams;
        ArrayInfo {
            path: self.core.files.root.clone(),
            version: self.version_info(),
            dtype: self.dtype.clone(),
            shape: self.shape().to_vec(),
            chunk_shape: self.core.grid.chunk_shape().to_vec(),
            grid: self.core.grid.counts().to_vec(),
            fill: self.fill_bytes(),
            nbytes: self.shape().iter().fold(item, |n, len| n.saturating_mul(*len as u64)),
            cbytes: columns.iter().fold(0, |sum, (.., cbytes)| sum.saturating_add(*cbytes)),
            compression: (cparams.cname.clone(), cparams.clevel, cparams.shuffle),
            checksum: storage.checksum.clone(),
            superchunk: storage.superchunk,
            room: storage.room,
            expected_len: storage.expectedlen,
            versioned: storage.versioned,
            columns,
            attributes: version.attributes.clone(),
        }
    }

    /// Checks every file of every version, and finds everything that was changed, truncated or
    /// lost.
    ///
    /// A writer may be running: its commits, moves and removals during the check are no problems. (In an array
    /// with [room](crate::array::ArrayOptions::room) chunks are overwritten in place, and look damaged until
    /// that is done.)
    ///
    /// Early writers could lose chunks in commits that made an array shorter along one axis and longer along
    /// another. Such a loss is a problem where a version contradicts its own counts of chunks and bytes, or
    /// where a chunk that was written is in none of them: found if no version was removed yet, or if its file
    /// has nothing else. Otherwise the chunks that may have been lost are [`doubts`](Report::doubts) while the
    /// version before is there. Without it, and with counts that agree, a loss cannot be told.
    ///
    /// # Errors
    ///
    /// Errors of listing directories. [`Replaced`](ErrorKind::Replaced) if a writer replaces or
    /// moves everything again and again.
    pub fn verify(&self) -> Result<Report> {
        verify::verify(&self.core)
    }

    /// The chunks in which another version differs, found by comparing chunk tables alone; table
    /// segments that both versions share are skipped. Chunks that only one of the shapes has are
    /// included if they were written.
    pub fn diff(&self, other: &ChunkedArray) -> Result<Vec<ChunkDiff>> {
        let columns: Vec<usize> = self.fields().map(|(column, ..)| column).collect();
        diff::diff(&self.core, &other.core, &columns)
    }

    /// All versions, oldest first, each with what it added to the files. Reads every chunk table once,
    /// and no chunk.
    pub fn history(&self) -> Result<Vec<(VersionInfo, Added)>> {
        history::history(&self.core)
    }

    /// One field of a structured type: an array that reads no other column. Names of nested fields
    /// are joined by dots.
    pub fn column(&self, name: &str) -> Result<ChunkedArray> {
        let (dtype, start) = columns::find(&self.dtype, name)?;
        let range = start..start + dtype.item_size();
        let inside = |pick: &&Pick| range.contains(&pick.offset);
        let picks = self.picks.iter().filter(inside);
        let picks = picks.map(|pick| Pick { offset: pick.offset - start, ..*pick }).collect();
        Ok(ChunkedArray { core: self.core.clone(), dtype, picks })
    }

    /// Reads a selection: `2..5`, `(.., -1)`, `(vec![4, 0], ..)`, a [`Selection`].
    ///
    /// Every touched chunk is decompressed once, and only the touched blocks of it; all of it if
    /// its hash is verified ([`Check`](crate::array::Check)). Partly touched blocks are cached for
    /// the next selection ([`ArrayOptions::cache`](crate::array::ArrayOptions::cache)), blocks of 64 KiB
    /// and more when they are needed for the second time, so that reading row by row costs little more
    /// than reading chunk by chunk.
    pub fn get<T: Element>(&self, selection: impl Into<Selection>) -> Result<ArrayD<T>> {
        let resolved = selection.into().resolve(self.shape())?;
        if self.dtype == DType::of::<T>() {
            let count = product(&resolved.shape)?;
            expect_memory(count.saturating_mul(size_of::<T>()))?;
            let mut values = vec![T::default(); count];
            if let Some(bytes) = T::memory_of(&mut values) {
                prefer_huge_pages(bytes);
                self.read_resolved(&resolved, bytes)?;
                let shape = IxDyn(&resolved.shape);
                return ArrayD::from_shape_vec(shape, values).map_err(|e| invalid(e.to_string()));
            }
        }
        Ok(self.read_selected(resolved)?.to_ndarray::<T>()?)
    }

    /// Reads a selection of elements of any type.
    pub fn read(&self, selection: impl Into<Selection>) -> Result<NdArray<'static>> {
        self.read_selected(selection.into().resolve(self.shape())?)
    }

    fn read_selected(&self, resolved: Resolved) -> Result<NdArray<'static>> {
        let len = product(&resolved.shape)?.checked_mul(self.dtype.item_size());
        let len = len
            .filter(|len| isize::try_from(*len).is_ok())
            .ok_or_else(|| Error::new(ErrorKind::Limit, "the selection does not fit in memory"))?;
        let mut bytes = zeroed(len)?;
        self.read_resolved(&resolved, &mut bytes)?;
        NdArray::new(self.dtype.clone(), resolved.shape, bytes)
    }

    /// Reads a selection into a buffer of exactly its size, in C order and the byte order of the
    /// array. Returns the shape.
    pub fn read_into(&self, selection: impl Into<Selection>, out: &mut [u8]) -> Result<Vec<usize>> {
        let resolved = selection.into().resolve(self.shape())?;
        let len = product(&resolved.shape)?.checked_mul(self.dtype.item_size());
        if len != Some(out.len()) {
            let message = format!(
                "expected a buffer for {:?} elements of {} bytes, found {} bytes",
                resolved.shape,
                self.dtype.item_size(),
                out.len()
            );
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        self.read_resolved(&resolved, out)?;
        Ok(resolved.shape)
    }

    /// Becomes the newest version, if that can be read; stays as it is otherwise.
    pub(crate) fn refresh(&mut self) {
        if let Ok(newest) = self.at(At::Newest) {
            *self = newest;
        }
    }

    /// The version as it was opened.
    pub(crate) fn core(&self) -> &Arc<OpenVersion> {
        &self.core
    }

    fn read_resolved(&self, resolved: &Resolved, out: &mut [u8]) -> Result<()> {
        if resolved.is_empty() {
            return Ok(());
        }
        if self.picks.iter().map(|p| self.core.columns[p.column].leaf.size).sum::<usize>()
            < self.dtype.item_size()
        {
            // Padding between fields is not stored.
            fill(out, &self.fill_bytes());
        }
        let touch = Touch::new(&self.core.grid, resolved);
        self.core.with_current(|core| {
            core.run(|| {
                let mut picks = self.picks.iter();
                picks.try_for_each(|pick| self.read_column(core, pick, resolved, &touch, out))
            })
        })
    }

    /// Reads one column: a plan from the chunk table, then the transfers that it asks for.
    fn read_column(
        &self,
        core: &OpenVersion,
        pick: &Pick,
        resolved: &Resolved,
        touch: &Touch,
        out: &mut [u8],
    ) -> Result<()> {
        let column = &core.columns[pick.column];
        let item = column.leaf.size;
        let table = core.table(pick.column)?;
        let plan = ReadPlan::new(touch, |coordinates| {
            let number = core.numbering.number(coordinates);
            table.find(number).map(|place| (number, place))
        });
        let chunks = core.open_chunks(pick.column, plan.places)?;
        let shown = Shown { shape: resolved.shape.clone(), views: resolved.views.clone() };
        let whole = c_steps(&resolved.shape, self.dtype.item_size());
        let (start, to) = aim(&shown, &whole).ok_or_else(|| invalid("expected a selection"))?;
        let to = Side { steps: &to, chunked: false };
        let (slot, start) = (core.chunk_len() * item, start + pick.offset);
        let in_chunk = c_steps(core.grid.chunk_shape(), item);
        // Every position of an unwritten chunk is the one fill element.
        let nowhere = vec![0; in_chunk.len()];
        let from = |steps| Program::new(touch, &Side { steps, chunked: true }, &to, item, slot);
        if !plan.fill.is_empty() {
            let program = from(&nowhere);
            program.to_array(&plan.fill, Source::Flat(&column.fill, 0), (&mut *out, start))?;
        }
        let program = from(&in_chunk);
        program.to_array(&plan.stored, Source::Base(&chunks), (out, start))
    }

    /// One chunk of the grid, without the part beyond the edge of the array.
    pub fn chunk(&self, coordinates: &[usize]) -> Result<NdArray<'static>> {
        let cell = self.cell(coordinates)?;
        self.read(Selection::from(&self.core.grid.region(cell)[..]))
    }

    /// All chunks in order, each with the region that it covers.
    pub fn chunks(
        &self,
    ) -> impl Iterator<Item = Result<(Vec<Range<usize>>, NdArray<'static>)>> + '_ {
        (0..self.core.grid.len()).map(|cell| {
            let region = self.core.grid.region(cell);
            let chunk = self.read(Selection::from(&region[..]))?;
            Ok((region, chunk))
        })
    }

    /// A whole chunk in place in the mapped file, with the fill value beyond the edge of the array:
    /// nothing is copied. `None` if it is compressed, not mapped, all fill, of several columns, or
    /// has [room](crate::array::ArrayOptions::room) and so may be overwritten.
    pub fn chunk_view(&self, coordinates: &[usize]) -> Result<Option<ChunkView>> {
        let cell = self.cell(coordinates)?;
        let [pick] = self.picks[..] else { return Ok(None) };
        self.core.with_current(|core| {
            let number = core.number(cell);
            let Some(StoredChunk { place, file, .. }) = core.chunk(pick.column, number)? else {
                return Ok(None);
            };
            let found = file.plain(&place, core.files.check);
            let found = found.map_err(|e| core.in_chunk(e, pick.column, number))?.is_some();
            let (dtype, shape) = (self.dtype.clone(), core.grid.chunk_shape().to_vec());
            Ok(found.then_some(ChunkView { file, place, dtype, shape }))
        })
    }

    fn cell(&self, coordinates: &[usize]) -> Result<usize> {
        let counts = self.core.grid.counts();
        let inside = coordinates.len() == counts.len()
            && coordinates.iter().zip(counts).all(|(i, count)| i < count);
        if !inside {
            let message = format!("expected a chunk within {counts:?}, found {coordinates:?}");
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        Ok(coordinates.iter().zip(self.core.grid.steps()).map(|(i, step)| i * step).sum())
    }

    /// The columns that are read: number, and offset and size of the field in an element.
    fn fields(&self) -> impl Iterator<Item = (usize, usize, usize)> + '_ {
        self.picks.iter().map(|p| (p.column, p.offset, self.core.columns[p.column].leaf.size))
    }
}

impl fmt::Debug for ChunkedArray {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (shape, version) = (self.shape(), self.version());
        write!(f, "ChunkedArray({} {shape:?}, version {version})", self.dtype)
    }
}

/// The chunks of a version, as the base of staged changes. Slots are the cells of its grid.
impl BaseSlab for ChunkedArray {
    fn slots(&self) -> usize {
        self.core.grid.len()
    }

    fn read(&self, slot: usize, at: usize, into: &mut [u8]) -> Result<()> {
        let item = self.dtype.item_size();
        let alone = matches!(self.picks[..], [p] if self.core.columns[p.column].leaf.size == item);
        if !alone {
            fill(into, &self.fill_bytes());
        }
        self.core.with_current(|core| {
            let number = core.number(slot);
            for (column, offset, size) in self.fields() {
                let chunk = core.chunk(column, number)?;
                if alone && chunk.is_none() {
                    fill(into, &core.columns[column].fill);
                }
                let Some(chunk) = chunk else { continue };
                let wanted = ColumnChunks::new(core, column, vec![chunk]);
                if alone {
                    return wanted.read(0, at, into);
                }
                let (first, count) = (at / item, into.len() / item);
                let mut values = vec![0; count * size];
                wanted.read(0, first * size, &mut values)?;
                columns::put_in(&values, item, offset, size, into);
            }
            Ok(())
        })
    }

    fn is_padded(&self) -> bool {
        true
    }
}

impl Rows for ChunkedArray {
    fn dtype(&self) -> &DType {
        ChunkedArray::dtype(self)
    }

    fn shape(&self) -> &[usize] {
        ChunkedArray::shape(self)
    }

    fn step(&self) -> usize {
        self.core.grid.chunk_shape().first().copied().unwrap_or(1)
    }

    fn read_rows(&self, rows: Range<usize>) -> Result<NdArray<'static>> {
        check_rows(&rows, row_count(ChunkedArray::shape(self))?)?;
        self.read(rows)
    }
}
