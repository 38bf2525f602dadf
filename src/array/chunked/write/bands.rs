//! Changes that are made some rows of chunks at a time, so that what is written may be larger than
//! memory.
//!
//! A band is as many rows of chunks as make some megabytes. The rows of the source that belong to it
//! are staged above the chunks that are there, its changed chunks go to the commit, which writes them
//! to files as they come, and then the next band is begun. All of it is one version: nothing is
//! visible before the last band is written, and a crash leaves files that no version names.
//!
//! Not here: selections with lists of positions, whose rows may be anywhere. They are staged in one.

use std::collections::VecDeque;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use serde_json::{Map, Value};

use crate::array::chunked::read::ChunkedArray;
use crate::array::chunked::write::commit::{New, Proposal};
use crate::array::grid::ChunkGrid;
use crate::array::chunked::info::VersionInfo;
use crate::array::chunked::options::ArrayOptions;
use crate::array::plan::Place;
use crate::array::rows::{Rows, row_count};
use crate::array::selection::{Axis, Index, Resolved, Selection, View, invalid};
use crate::array::staged::array::{ChunkState, StagedArray};
use crate::array::chunked::write::store::ArrayStore;
use crate::error::{Error, ErrorKind, Result};
use crate::value::{Casting, NdArray};

/// The bytes of a band, at least: enough for all cores, few enough to forget. Tests have many bands.
const BAND: usize = if cfg!(test) { 100 } else { 16 << 20 };

impl ArrayStore {
    /// Adds all rows of another array at the end of the first axis, as one version. They may be more
    /// than memory holds: some rows of chunks are read, compressed and written at a time.
    ///
    /// Elements of another type are converted where NumPy would
    /// ([`SameKind`](Casting::SameKind)).
    ///
    /// ```
    /// use kiste::array::{ArrayOptions, ChunkedArray, Rows};
    /// use kiste::value::DType;
    ///
    /// # let dir = tempfile::tempdir()?;
    /// # let dir = dir.path();
    /// let zeros = ArrayOptions::default().create(dir.join("a"), DType::of::<i16>(), &[1000, 3])?;
    /// let mut store = ArrayOptions::default().create(dir.join("b"), DType::of::<f32>(), &[0, 3])?;
    /// store.append_rows(zeros.array(), "what is in a")?;
    /// assert_eq!(store.array().shape(), [1000, 3]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn append_rows(&mut self, rows: &dyn Rows, message: &str) -> Result<VersionInfo> {
        self.expect_newest(self.newest.version())?;
        let base = self.newest.clone();
        let attributes = base.attrs().clone();
        self.append_to(base, rows, attributes, message)
    }

    /// Assigns a value to a selection, as one version, and repeats it as NumPy does if it is smaller.
    /// Rows that a slice selects are staged some at a time, so that the selection may be larger than
    /// memory; where there is a list of positions or a mask, all of it is.
    ///
    /// Elements of another type are converted as by [`append_rows`](Self::append_rows).
    pub fn put(
        &mut self,
        selection: impl Into<Selection>,
        value: &NdArray<'_>,
        message: &str,
    ) -> Result<VersionInfo> {
        self.put_source(&selection.into(), &Written::Array(value), message)
    }

    /// The same with the rows of another array, which are read as they are wanted: in order, and each
    /// once, if there are as many as the selection has.
    pub fn put_rows(
        &mut self,
        selection: impl Into<Selection>,
        rows: &dyn Rows,
        message: &str,
    ) -> Result<VersionInfo> {
        self.put_source(&selection.into(), &Written::Rows(rows), message)
    }

    fn put_source(
        &mut self,
        selection: &Selection,
        from: &Written<'_>,
        message: &str,
    ) -> Result<VersionInfo> {
        self.expect_newest(self.newest.version())?;
        let base = self.newest.clone();
        from.expect_castable(&base)?;
        let resolved = selection.resolve(base.shape())?;
        let lines = Lines::of(&resolved).filter(|_| !resolved.is_empty());
        let Some(lines) = lines.filter(|_| from.shape().len() <= resolved.shape.len()) else {
            let mut staged = self.stage()?;
            staged.write(selection.clone(), &from.whole(&base)?)?;
            return self.commit(&mut staged, message);
        };
        let same_rows = !lines.gone
            && from.shape().len() == resolved.shape.len()
            && from.shape().first() == Some(&lines.count);
        let whole = if same_rows { None } else { Some(from.whole(&base)?) };
        let read = |rows: Range<usize>| match &whole {
            Some(whole) => Ok(whole.borrow().into_owned()),
            None => from.rows(rows, &base),
        };
        let (shape, attributes) = (base.shape().to_vec(), base.attrs().clone());
        let bands = Bands::new(&base, &shape, lines, Box::new(read))?;
        let changes = Box::new(bands);
        self.propose(Proposal { base: &base, shape: shape.clone(), attributes, message, changes })
    }

    /// Makes a version of `base` and these rows behind its own.
    fn append_to(
        &mut self,
        base: ChunkedArray,
        rows: &dyn Rows,
        attributes: Map<String, Value>,
        message: &str,
    ) -> Result<VersionInfo> {
        let from = Written::Rows(rows);
        from.expect_castable(&base)?;
        let Some((&old, inner)) = base.shape().split_first() else {
            return Err(invalid("an array without axes has no rows"));
        };
        let count = row_count(rows.shape())?;
        if rows.shape()[1..] != *inner {
            let found = &rows.shape()[1..];
            return Err(invalid(format!("expected rows of shape {inner:?}, found {found:?}")));
        }
        let total = old.checked_add(count).filter(|total| isize::try_from(*total).is_ok());
        let total =
            total.ok_or_else(|| Error::new(ErrorKind::Limit, "more rows than can be counted"))?;
        let shape = [&[total], inner].concat();
        let rest = inner.iter().map(|_| Index::range(None, None, 1)).collect();
        let lines = Lines { first: old, step: 1, count, gone: false, rest };
        let read = |range: Range<usize>| from.rows(range, &base);
        let bands = Bands::new(&base, &shape, lines, Box::new(read))?;
        let changes = Box::new(bands);
        self.propose(Proposal { base: &base, shape: shape.clone(), attributes, message, changes })
    }
}

impl ArrayOptions {
    /// Creates an array of all rows of another one, with these attributes, as version 1. The rows may
    /// be more than memory holds; until the last of them is written there is no version, so that
    /// after a crash there is no array either, and another one may be created there.
    ///
    /// ```
    /// use kiste::array::{ArrayOptions, ChunkedArray};
    /// use kiste::value::NdArray;
    /// use serde_json::Map;
    ///
    /// # let dir = tempfile::tempdir()?;
    /// # let path = dir.path().join("numbers");
    /// let numbers: Vec<u32> = (0..100_000).collect();
    /// let rows = ndarray::Array1::from(numbers);
    /// let rows = NdArray::from_ndarray(&rows);
    /// let store = ArrayOptions::default().create_from(&path, &rows, Map::new(), "imported")?;
    /// assert_eq!(store.array().version(), 1);
    /// assert_eq!(store.array().get::<u32>(99_999)?.sum(), 99_999);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn create_from(
        &self,
        path: impl AsRef<Path>,
        rows: &dyn Rows,
        attributes: Map<String, Value>,
        message: &str,
    ) -> Result<ArrayStore> {
        let (dtype, shape) = (rows.dtype().clone(), rows.shape());
        let mut store = ArrayStore::prepare(self, path.as_ref(), dtype, shape)?;
        let base = store.newest.clone();
        if !shape.is_empty() {
            store.append_to(base, rows, attributes, message)?;
            return Ok(store);
        }
        let element = rows.read_rows(0..1)?.c_bytes().into_owned();
        let changes = Box::new(std::iter::once(Ok((Vec::new(), New::Chunk(element.into())))));
        let shape = Vec::new();
        store.propose(Proposal { base: &base, shape, attributes, message, changes })?;
        Ok(store)
    }
}

/// What is written.
enum Written<'a> {
    Array(&'a NdArray<'a>),
    Rows(&'a dyn Rows),
}

impl Written<'_> {
    fn shape(&self) -> &[usize] {
        match self {
            Written::Array(array) => array.shape(),
            Written::Rows(rows) => rows.shape(),
        }
    }

    /// Fails before anything is read.
    fn expect_castable(&self, base: &ChunkedArray) -> Result<()> {
        let dtype = match self {
            Written::Array(array) => array.dtype(),
            Written::Rows(rows) => rows.dtype(),
        };
        dtype.expect_cast(base.dtype(), Casting::SameKind)
    }

    /// Some of the rows, in the type of the array.
    fn rows(&self, rows: Range<usize>, base: &ChunkedArray) -> Result<NdArray<'static>> {
        let found = match self {
            Written::Array(array) => array.read_rows(rows)?,
            Written::Rows(source) => source.read_rows(rows)?,
        };
        cast(found, base)
    }

    /// All of it, in the type of the array.
    fn whole(&self, base: &ChunkedArray) -> Result<NdArray<'_>> {
        match self {
            Written::Array(array) => cast(array.borrow(), base),
            Written::Rows(rows) => {
                let count = rows.shape().first().copied().unwrap_or(1);
                cast(rows.read_rows(0..count)?, base)
            }
        }
    }
}

fn cast<'a>(array: NdArray<'a>, base: &ChunkedArray) -> Result<NdArray<'a>> {
    match array.dtype() == base.dtype() {
        true => Ok(array),
        false => array.astype(base.dtype(), Casting::SameKind),
    }
}

/// The rows of the array that are written, and what of each.
struct Lines {
    first: usize,
    step: isize,
    count: usize,
    /// Whether it is one row that an integer selects, so that the value has no axis for it.
    gone: bool,
    rest: Vec<Index>,
}

impl Lines {
    /// Those of a selection of integers and slices; `None` for others, and without axes.
    fn of(resolved: &Resolved) -> Option<Lines> {
        let ranges = resolved.axes.iter().filter(|axis| matches!(axis, Axis::Range { .. })).count();
        // With a new axis there are more.
        if ranges != resolved.shape.len() {
            return None;
        }
        let (axis, view) = (resolved.axes.first()?, resolved.views.first()?);
        let (start, count, step, gone) = match *axis {
            Axis::At(at) => (at, 1, 1, true),
            Axis::Range { start, count, step } => (start, count, step, false),
            _ => return None,
        };
        let last = start + count.saturating_sub(1) * step;
        let step = isize::try_from(step).ok()?;
        let (first, step) = if view.flipped { (last, -step) } else { (start, step) };
        let index = |(axis, view): (&Axis, &View)| match *axis {
            Axis::At(at) => Some(Index::At(isize::try_from(at).ok()?)),
            Axis::Range { start, count, step } => {
                let last = start + count.saturating_sub(1) * step;
                match view.flipped {
                    true => slice_of(last, -isize::try_from(step).ok()?, count),
                    false => slice_of(start, isize::try_from(step).ok()?, count),
                }
            }
            _ => None,
        };
        let rest = resolved.axes[1..].iter().zip(&resolved.views[1..]).map(index);
        Some(Lines { first, step, count, gone, rest: rest.collect::<Option<_>>()? })
    }

    /// The row of the array that gets this row of the source.
    fn row(&self, at: usize) -> usize {
        self.first.wrapping_add_signed(self.step * at as isize)
    }
}

/// The slice of so many positions from `first` on.
fn slice_of(first: usize, step: isize, count: usize) -> Option<Index> {
    let first = isize::try_from(first).ok()?;
    if count == 0 {
        return Some(Index::range(Some(0), Some(0), 1));
    }
    let stop = first + step * (count as isize - 1) + step.signum();
    // -1 would be counted from the end.
    Some(Index::range(Some(first), (stop >= 0).then_some(stop), step))
}

/// Some rows of the source.
type Read<'a> = Box<dyn Fn(Range<usize>) -> Result<NdArray<'static>> + 'a>;

/// The changed chunks of an assignment, band after band.
struct Bands<'a> {
    base: &'a ChunkedArray,
    /// The array as it will be.
    grid: ChunkGrid,
    /// Rows of chunks in a band.
    height: usize,
    lines: Lines,
    read: Read<'a>,
    /// Rows of the source that were staged.
    done: usize,
    /// Changed chunks of the band, which the commit has not asked for yet.
    ready: VecDeque<(Vec<u64>, New<'a>)>,
}

impl<'a> Bands<'a> {
    fn new(
        base: &'a ChunkedArray,
        shape: &[usize],
        lines: Lines,
        read: Read<'a>,
    ) -> Result<Bands<'a>> {
        let chunk = base.grid().chunk_shape();
        let grid = ChunkGrid::new(shape, chunk)?;
        let chunk_bytes = chunk.iter().product::<usize>() * base.dtype().item_size();
        let across: usize = grid.counts()[1..].iter().product();
        let height = BAND.div_ceil(chunk_bytes.saturating_mul(across).max(1));
        let (done, ready) = (0, VecDeque::new());
        Ok(Bands { base, grid, height, lines, read, done, ready })
    }

    /// Stages the next band, and takes what has changed in it.
    fn stage(&mut self) -> Result<()> {
        let rows = self.height.saturating_mul(self.grid.chunk_shape()[0]);
        let first = self.lines.row(self.done);
        let band = first / rows;
        let start = band * rows;
        let end = start.saturating_add(rows).min(self.grid.shape()[0]);
        let step = self.lines.step;
        // So many rows of the source are within the band.
        let room = if step > 0 { end - 1 - first } else { first - start };
        let count = (room / step.unsigned_abs() + 1).min(self.lines.count - self.done);
        let mut staged = staged_rows(self.base, &self.grid, start..end)?;
        let first_part = match self.lines.gone {
            true => isize::try_from(first - start).ok().map(Index::At),
            false => slice_of(first - start, step, count),
        };
        let parts = first_part.into_iter().chain(self.lines.rest.iter().cloned());
        let selection: Selection = parts.collect();
        staged.write(selection, &(self.read)(self.done..self.done + count)?)?;
        let top = (band * self.height) as u64;
        for (cell, state) in staged.changes().enumerate() {
            let new = match state? {
                ChunkState::Base(_) => continue,
                ChunkState::Fill => New::Fill,
                ChunkState::Staged(bytes) => New::Chunk(bytes.into_owned().into()),
            };
            let at = staged.grid().coordinates(cell);
            let mut at: Vec<u64> = at.into_iter().map(|i| i as u64).collect();
            at[0] += top;
            self.ready.push_back((at, new));
        }
        self.done += count;
        Ok(())
    }
}

impl<'a> Iterator for Bands<'a> {
    type Item = Result<(Vec<u64>, New<'a>)>;

    fn next(&mut self) -> Option<Self::Item> {
        while self.ready.is_empty() {
            if self.done >= self.lines.count {
                return None;
            }
            if let Err(error) = self.stage() {
                self.done = self.lines.count;
                return Some(Err(error));
            }
        }
        self.ready.pop_front().map(Ok)
    }
}

/// These rows of an array as they are, above the chunks of the base. It has the same chunks as the
/// grid, whose first axis may be longer; the first of the rows is the first of a chunk.
pub(crate) fn staged_rows(
    base: &ChunkedArray,
    grid: &ChunkGrid,
    rows: Range<usize>,
) -> Result<StagedArray> {
    let (counts, chunk) = (grid.counts(), grid.chunk_shape());
    let shape = [&[rows.len()], &grid.shape()[1..]].concat();
    let across: usize = counts[1..].iter().product();
    let (top, height) = (rows.start / chunk[0], rows.len().div_ceil(chunk[0]));
    // Rows of chunks are numbered alike in the base, as only the first axis grows.
    let there = base.grid().len();
    let place = |cell: usize| match u32::try_from(cell) {
        _ if cell >= there => Ok(Place::default()),
        Ok(slot) => Ok(Place { slab: 1, slot }),
        Err(_) => Err(Error::new(ErrorKind::Limit, "more chunks than can be staged")),
    };
    let cells = top * across..(top + height) * across;
    StagedArray::from_base(
        &shape,
        chunk,
        base.dtype().clone(),
        &base.core.version.storage.fill,
        vec![Arc::new(base.clone())],
        cells.map(place).collect::<Result<_>>()?,
    )
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use ndarray::{ArrayD, IxDyn, ShapeBuilder};
    use serde_json::json;

    use super::*;
    use crate::array::chunked::read::At;
    use crate::storage::MemoryStorage;
    use crate::value::DType;

    fn options() -> ArrayOptions {
        let storage = Arc::new(MemoryStorage::new());
        ArrayOptions::default().storage(storage).chunk_shape([3, 2]).superchunk(3).fill(-1_i32)
    }

    fn numbers(shape: &[usize]) -> ArrayD<i32> {
        let mut next = 0;
        ArrayD::from_shape_simple_fn(IxDyn(shape), || {
            next += 1;
            next
        })
    }

    /// Rows that can only be read in order, each once, as those of a pipe.
    struct Pipe(ArrayD<i32>, Vec<usize>, DType, Mutex<usize>);

    impl Pipe {
        fn of(array: ArrayD<i32>) -> Pipe {
            let shape = array.shape().to_vec();
            Pipe(array, shape, DType::of::<i32>(), Mutex::new(0))
        }
    }

    impl Rows for Pipe {
        fn dtype(&self) -> &DType {
            &self.2
        }

        fn shape(&self) -> &[usize] {
            &self.1
        }

        fn step(&self) -> usize {
            1
        }

        fn read_rows(&self, rows: Range<usize>) -> Result<NdArray<'static>> {
            let mut at = self.3.lock().unwrap();
            assert_eq!(*at, rows.start);
            *at = rows.end;
            NdArray::from_ndarray(&self.0).read_rows(rows)
        }
    }

    #[test]
    fn a_selection_gets_what_it_would_get_at_once() {
        let cases: &[(&str, &[usize])] = &[
            ("", &[40, 5]),
            ("", &[5]),
            ("", &[]),
            ("", &[40, 1]),
            ("", &[1, 5]),
            ("", &[1, 1, 40, 5]),
            ("::-1", &[40, 5]),
            ("3:38:7, ::-2", &[5, 3]),
            ("30:2:-3, 1", &[10]),
            ("7", &[5]),
            ("-1, 2", &[]),
            ("..., 0", &[40]),
            (":, 3:1", &[40, 0]),
            ("8:8", &[0, 5]),
            ("None, 3:9", &[6, 5]),
            ("[5, 39, 0]", &[3, 5]),
            (":, [4, 0]", &[40, 2]),
        ];
        for (selection, shape) in cases {
            let selection: Selection = selection.parse().unwrap();
            let value = numbers(shape);
            let value = NdArray::from_ndarray(&value);
            let mut store = options().create("a", DType::of::<i32>(), &[40, 5]).unwrap();
            let start = numbers(&[40, 5]) * 1000;
            store.put(.., &NdArray::from_ndarray(&start), "start").unwrap();
            let mut staged = store.stage().unwrap();
            staged.write(selection.clone(), &value).unwrap();
            let expected = staged.get::<i32>(..).unwrap();
            let version = store.put(selection.clone(), &value, "put").unwrap();
            assert_eq!(version.number, 3, "{selection}");
            assert_eq!(store.array().get::<i32>(..).unwrap(), expected, "{selection} {shape:?}");
            assert!(store.array().verify().unwrap().problems.is_empty());
        }
    }

    #[test]
    fn what_does_not_fit_changes_nothing() {
        let mut store = options().create("a", DType::of::<i32>(), &[40, 5]).unwrap();
        for (selection, shape) in
            [("", &[39, 5][..]), ("", &[40, 4]), ("1", &[2, 5]), ("0:0", &[2, 5])]
        {
            let selection: Selection = selection.parse().unwrap();
            let value = numbers(shape);
            let error = store.put(selection, &NdArray::from_ndarray(&value), "no").unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
        }
        let halves = ndarray::arr1(&[0.5_f32; 5]);
        let error = store.put(.., &NdArray::from_ndarray(&halves), "no").unwrap_err();
        let (to, from) = (DType::of::<i32>(), DType::of::<f32>());
        let expected = format!("converted to {to} (same_kind), found {from}");
        assert!(error.to_string().contains(&expected), "{error}");
        assert!(store.append_rows(&NdArray::from_ndarray(&numbers(&[3, 4])), "no").is_err());
        assert_eq!(store.array().version(), 1);
        let report = store.array().verify().unwrap();
        assert!(report.problems.is_empty() && report.unused.is_empty(), "{report:?}");
    }

    #[test]
    fn rows_of_a_pipe_are_read_in_order_and_once() {
        let mut store = options().create("a", DType::of::<i32>(), &[0, 5]).unwrap();
        let rows = numbers(&[100, 5]);
        for (from, to) in [(0, 1), (1, 40), (40, 40), (40, 100)] {
            let part = rows.slice(ndarray::s![from..to, ..]).to_owned().into_dyn();
            store.append_rows(&Pipe::of(part), "more").unwrap();
        }
        assert_eq!(store.array().get::<i32>(..).unwrap(), rows.clone().into_dyn());
        assert_eq!(store.array().version(), 5);
        let turned: Selection = "::-2".parse().unwrap();
        let half = rows.slice(ndarray::s![50.., ..]).to_owned().into_dyn();
        store.put_rows(turned.clone(), &Pipe::of(half.clone()), "half").unwrap();
        assert_eq!(store.array().get::<i32>(turned).unwrap(), half);
    }

    #[test]
    fn an_array_is_made_with_its_first_version() {
        let rows = ArrayD::from_shape_fn(IxDyn(&[70, 5]).f(), |at| (at[0] * 5 + at[1]) as i32);
        let rows = NdArray::from_ndarray(&rows);
        let attributes = json!({"unit": "m"}).as_object().unwrap().clone();
        let store = options().create_from("a", &rows, attributes.clone(), "made").unwrap();
        let versions = store.versions().unwrap();
        assert_eq!(versions.len(), 1);
        let first = &versions[0];
        assert_eq!((first.number, first.parent, &*first.message), (1, 0, "made"));
        assert_eq!(store.array().attrs(), &attributes);
        assert_eq!(store.array().read(..).unwrap(), rows);
        assert!(store.array().at(At::Version(0)).is_err());
        let report = store.array().verify().unwrap();
        assert!(report.problems.is_empty() && report.unused.is_empty(), "{report:?}");

        let one = ArrayOptions::default().storage(Arc::new(MemoryStorage::new()));
        let store = one.create_from("z", &NdArray::scalar(7_u8), Map::new(), "one").unwrap();
        assert_eq!((store.array().version(), store.array().get::<u8>(()).unwrap().sum()), (1, 7));
        let none = NdArray::from_ndarray(&numbers(&[0, 5])).into_owned();
        let store = options().create_from("e", &none, Map::new(), "none").unwrap();
        assert_eq!((store.array().version(), store.array().shape()), (1, &[0, 5][..]));
    }

    #[test]
    fn elements_of_another_type_are_converted() {
        let mut store = options().create("a", DType::of::<i32>(), &[0, 5]).unwrap();
        let bytes = ndarray::Array2::from_shape_fn((50, 5), |(i, j)| (i + j) as u8);
        store.append_rows(&NdArray::from_ndarray(&bytes), "bytes").unwrap();
        let long = ndarray::arr1(&[-1_i64, 1 << 32, 3, 4, 5]);
        store.put(7, &NdArray::from_ndarray(&long), "long").unwrap();
        let found = store.array().get::<i32>((6..8, ..)).unwrap();
        assert_eq!(found, ndarray::arr2(&[[6, 7, 8, 9, 10], [-1, 0, 3, 4, 5]]).into_dyn());
    }
}
