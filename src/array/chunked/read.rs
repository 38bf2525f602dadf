//! `ChunkedArray`: one version of an array in a directory, read lazily.

use std::fmt;
use std::ops::{Deref, Range};
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use ndarray::{ArrayD, IxDyn};
use serde_json::{Map, Value};

use crate::array::chunked::columns;
use crate::array::chunked::files::{Check, Files};
use crate::array::grid::{ChunkGrid, Touch};
use crate::array::chunked::info::{ArrayInfo, VersionInfo};
use crate::array::chunked::version::{Column, Core, Stored, Threads, Wanted};
use crate::array::chunked::options::ArrayOptions;
use crate::array::plan::Shown;
use crate::array::rows::{Rows, check_rows, row_count};
use crate::array::selection::{Resolved, Selection, invalid, product};
use crate::array::chunked::superchunk::SuperchunkFile;
use crate::array::transfer::{BaseSlab, Program, Side, Source, c_steps, fill};
use crate::array::operand::aim;
use crate::error::{Error, ErrorKind, Result};
use crate::format::chunked::Version;
use crate::format::chunked::segment::Place;
use crate::storage::{prefer_huge_pages, zeroed};
use crate::value::{DType, Element, NdArray};

/// Which version of an array.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum At {
    /// The last one that was committed.
    #[default]
    Newest,
    /// The one before it, or the one so many before.
    Back(usize),
    /// The one of this number.
    Version(u64),
    /// The last one that was committed by then.
    Time(SystemTime),
}

/// One version of a chunked array, as it was committed and will stay.
///
/// Opening reads the version's file; tables and superchunks are opened when they are needed. Clones
/// are cheap and share what was opened. [`ArrayOptions`] say how to read, and
/// [`ArrayStore`](crate::array::ArrayStore) writes.
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
    pub(crate) core: Arc<Core>,
    /// The type of what is looked at: all fields, or some.
    dtype: DType,
    /// The columns that are looked at, and where their fields are in an element.
    picks: Vec<Pick>,
}

#[derive(Debug, Clone, Copy)]
struct Pick {
    column: usize,
    offset: usize,
}

impl ChunkedArray {
    /// Opens the newest version.
    pub fn open(path: impl AsRef<Path>) -> Result<ChunkedArray> {
        ArrayOptions::default().open(path)
    }

    /// Opens a version.
    pub fn open_at(path: impl AsRef<Path>, at: At) -> Result<ChunkedArray> {
        ArrayOptions::default().open_at(path, at)
    }

    /// Other ways to open one.
    pub fn options() -> ArrayOptions {
        ArrayOptions::default()
    }

    pub(crate) fn open_with(options: &ArrayOptions, path: &Path, at: At) -> Result<ChunkedArray> {
        let files = Arc::new(options.files(path));
        // An array that is not versioned may lose the version between listing and reading it.
        let mut tries = 3;
        loop {
            tries -= 1;
            match resolve(&files, at) {
                Err(e) if e.kind() == ErrorKind::NotFound && tries > 0 && at == At::Newest => {}
                version => return ChunkedArray::of(files, version?, options.pool()?),
            }
        }
    }

    pub(crate) fn of(
        files: Arc<Files>,
        version: Version,
        threads: Threads,
    ) -> Result<ChunkedArray> {
        let core = Core::new(files, version, threads)?;
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

    /// The bytes of an element that nobody wrote.
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

    /// All versions that exist now, the oldest first.
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

    /// What there is to know about the array without reading its elements. Prints as a table.
    pub fn info(&self) -> ArrayInfo {
        ArrayInfo::of(self)
    }

    /// One field of a structured type: an array that reads no other column. Fields within fields are
    /// named with a dot between.
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
    /// Every chunk that is touched is decompressed once, and only as far as it is touched; all of it
    /// where its hash is compared ([`Check`](crate::array::Check)). Blocks that are touched in part
    /// are kept for the next selection ([`ArrayOptions::cache`]), so that reading row by row costs
    /// little more than reading chunk by chunk.
    pub fn get<T: Element>(&self, selection: impl Into<Selection>) -> Result<ArrayD<T>> {
        let resolved = selection.into().resolve(self.shape())?;
        if self.dtype == DType::of::<T>() {
            let mut values = vec![T::default(); product(&resolved.shape)?];
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
        let mut bytes = zeroed(len);
        self.read_resolved(&resolved, &mut bytes)?;
        NdArray::new(self.dtype.clone(), resolved.shape, bytes)
    }

    /// Reads a selection to where it is wanted: the elements in C order, in their byte order. The
    /// buffer must have just their length. Returns the shape.
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

    /// Does this with the tables of this version; again, if that fails because its chunks were moved
    /// to other files since it was opened.
    pub(crate) fn with_core<T>(&self, mut work: impl FnMut(&Core) -> Result<T>) -> Result<T> {
        let mut core = &*self.core;
        while let Some(moved) = core.moved.get() {
            core = moved;
        }
        loop {
            match work(core) {
                Err(e) if matches!(e.kind(), ErrorKind::Damaged | ErrorKind::Replaced) => {
                    core = core.moved().ok_or(e)?;
                }
                done => return done,
            }
        }
    }

    fn read_resolved(&self, resolved: &Resolved, out: &mut [u8]) -> Result<()> {
        if resolved.is_empty() {
            return Ok(());
        }
        if self.picks.iter().map(|p| self.core.columns[p.column].leaf.size).sum::<usize>()
            < self.dtype.item_size()
        {
            // Padding between fields is stored nowhere.
            fill(out, &self.fill_bytes());
        }
        let touch = Touch::new(&self.core.grid, resolved);
        self.with_core(|core| {
            core.run(|| {
                let mut picks = self.picks.iter();
                picks.try_for_each(|pick| self.read_pick(core, pick, resolved, &touch, out))
            })
        })
    }

    fn read_pick(
        &self,
        core: &Core,
        pick: &Pick,
        resolved: &Resolved,
        touch: &Touch,
        out: &mut [u8],
    ) -> Result<()> {
        let column = &core.columns[pick.column];
        let item = column.leaf.size;
        let (stored, unwritten, chunks) = core.find(pick.column, touch)?;
        let shown = Shown { shape: resolved.shape.clone(), views: resolved.views.clone() };
        let whole = c_steps(&resolved.shape, self.dtype.item_size());
        let (start, to) = aim(&shown, &whole).ok_or_else(|| invalid("expected a selection"))?;
        let to = Side { steps: &to, chunked: false };
        let (slot, start) = (core.chunk_len() * item, start + pick.offset);
        let nowhere = vec![0; core.grid.shape().len()];
        let in_chunk = c_steps(core.grid.chunk_shape(), item);
        let from = |steps| Program::new(touch, &Side { steps, chunked: true }, &to, item, slot);
        if !unwritten.is_empty() {
            // From one and the same element, wherever one is.
            let program = from(&nowhere);
            program.to_array(&unwritten, Source::Flat(&column.fill, 0), (&mut *out, start))?;
        }
        let wanted = Wanted::new(core, pick.column, chunks);
        let program = from(&in_chunk);
        program.to_array(&stored, Source::Base(&wanted), (out, start))
    }

    /// What is in one chunk of the grid, without what is beyond the edge of the array.
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

    /// A whole chunk where it lies in the file, with the fill value beyond the edge of the array:
    /// nothing is copied. `None` if it is compressed, not mapped, all fill, of several columns, or has
    /// [room](ArrayOptions::room) and so may be written over.
    pub fn chunk_view(&self, coordinates: &[usize]) -> Result<Option<ChunkView>> {
        let cell = self.cell(coordinates)?;
        let [pick] = self.picks[..] else { return Ok(None) };
        self.with_core(|core| {
            let number = core.number(cell);
            let Some(Stored { place, file, .. }) = core.chunk(pick.column, number)? else {
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

    /// The places of the columns that are looked at, in the type that they make up.
    pub(crate) fn fields(&self) -> impl Iterator<Item = (usize, usize, usize)> + '_ {
        self.picks.iter().map(|p| (p.column, p.offset, self.core.columns[p.column].leaf.size))
    }
}

impl fmt::Debug for ChunkedArray {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (shape, version) = (self.shape(), self.version());
        write!(f, "ChunkedArray({} {shape:?}, version {version})", self.dtype)
    }
}

/// The chunks of a version, for those that stage changes to it. Slots are the cells of its grid.
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
        self.with_core(|core| {
            let number = core.number(slot);
            for (column, offset, size) in self.fields() {
                let chunk = core.chunk(column, number)?;
                if alone && chunk.is_none() {
                    fill(into, &core.columns[column].fill);
                }
                let Some(chunk) = chunk else { continue };
                let wanted = Wanted::new(core, column, vec![chunk]);
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

/// A chunk in a mapped file; see [`ChunkedArray::chunk_view`]. Derefs to its bytes.
pub struct ChunkView {
    file: Arc<SuperchunkFile>,
    place: Place,
    dtype: DType,
    shape: Vec<usize>,
}

impl ChunkView {
    /// The chunk as an array that borrows from the file.
    pub fn array(&self) -> Result<NdArray<'_>> {
        NdArray::new(self.dtype.clone(), self.shape.clone(), &**self)
    }
}

impl Deref for ChunkView {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // It was found there before, and the file does not change.
        let found = self.file.plain(&self.place, Check::Nothing);
        found.ok().flatten().unwrap_or_default()
    }
}

impl fmt::Debug for ChunkView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ChunkView({} {:?})", self.dtype, self.shape)
    }
}

/// The version that is meant.
pub(crate) fn resolve(files: &Files, at: At) -> Result<Version> {
    let numbers = files.version_numbers()?;
    let none = |message: String| Error::new(ErrorKind::NotFound, message).at(&files.root);
    let Some(newest) = numbers.last() else {
        return Err(none("expected a version, found none: it was never finished".into()));
    };
    match at {
        At::Newest => files.version(*newest),
        At::Version(number) => files.version(number),
        At::Back(steps) => match numbers.iter().nth_back(steps) {
            Some(number) => files.version(*number),
            None => Err(none(format!("there are only {} versions", numbers.len()))),
        },
        At::Time(time) => {
            let micros = micros_of(time);
            // Times never go back, so the first that is too late can be searched.
            let (mut low, mut high) = (0, numbers.len());
            let mut found = None;
            while low < high {
                let middle = low + (high - low) / 2;
                let version = files.version(numbers[middle])?;
                if crate::format::chunked::parse_time(&version.time) <= Some(micros) {
                    found = Some(version);
                    low = middle + 1;
                } else {
                    high = middle;
                }
            }
            found.ok_or_else(|| none("all versions are younger".into()))
        }
    }
}

/// Microseconds after 1970.
pub(crate) fn micros_of(time: SystemTime) -> i64 {
    let micros = |d: std::time::Duration| i64::try_from(d.as_micros()).unwrap_or(i64::MAX);
    match time.duration_since(SystemTime::UNIX_EPOCH) {
        Ok(after) => micros(after),
        Err(before) => -micros(before.duration()),
    }
}
