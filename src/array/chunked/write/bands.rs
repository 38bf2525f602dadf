//! Rows written some chunks at a time, so that they may be larger than memory.
//!
//! A band is as many rows of chunks as make some megabytes. The source rows that belong to it are
//! staged above the chunks that are there, its changed chunks go to the commit, which writes them to
//! files as they come, and then the next band begins. All bands are one version: nothing is visible
//! before the last one is written, and a crash leaves files that no version names.
//!
//! Not here: selections with lists of positions, whose rows may be anywhere. They are staged as a
//! whole.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use crate::array::chunked::read::ChunkedArray;
use crate::array::chunked::write::proposal::{NewChunk, coordinates};
use crate::array::grid::ChunkGrid;
use crate::array::plan::Place;
use crate::array::rows::{Rows, row_count};
use crate::array::selection::{Axis, Index, Resolved, Selection, View, invalid};
use crate::array::staged::{ChunkState, StagedArray};
use crate::error::{Error, ErrorKind, Result};
use crate::value::{Casting, NdArray};

/// The minimum size of a band: enough work for all cores, little enough memory. Tests use small ones,
/// to have many.
const BAND: usize = if cfg!(test) { 100 } else { 16 << 20 };

/// The changed chunks when a selection is assigned these rows. `None` if it must be staged as a
/// whole: where a list of positions or a mask selects rows.
pub(super) fn assign<'a>(
    base: &'a ChunkedArray,
    selection: &Selection,
    source: RowSource<'a>,
) -> Result<Option<Bands<'a>>> {
    source.expect_castable(base)?;
    let resolved = selection.resolve(base.shape())?;
    let lines = Lines::of(&resolved).filter(|_| !resolved.is_empty());
    let Some(lines) = lines.filter(|_| source.shape().len() <= resolved.shape.len()) else {
        return Ok(None);
    };
    let same_rows = !lines.is_single
        && source.shape().len() == resolved.shape.len()
        && source.shape().first() == Some(&lines.count);
    let whole = if same_rows { None } else { Some(source.whole(base)?) };
    let read = move |rows: Range<usize>| match &whole {
        Some(whole) => Ok(whole.borrow().into_owned()),
        None => source.rows(rows, base),
    };
    Bands::new(base, base.shape(), lines, Box::new(read)).map(Some)
}

/// The shape and the changed chunks when these rows are appended.
pub(super) fn append<'a>(
    base: &'a ChunkedArray,
    source: RowSource<'a>,
) -> Result<(Vec<usize>, Bands<'a>)> {
    source.expect_castable(base)?;
    let Some((&old, inner)) = base.shape().split_first() else {
        return Err(invalid("an array without axes has no rows"));
    };
    let count = row_count(source.shape())?;
    if source.shape()[1..] != *inner {
        let found = &source.shape()[1..];
        return Err(invalid(format!("expected rows of shape {inner:?}, found {found:?}")));
    }
    let total = old.checked_add(count).filter(|total| isize::try_from(*total).is_ok());
    let total =
        total.ok_or_else(|| Error::new(ErrorKind::Limit, "more rows than can be counted"))?;
    let shape = [&[total], inner].concat();
    let rest = inner.iter().map(|_| Index::range(None, None, 1)).collect();
    let lines = Lines { first: old, step: 1, count, is_single: false, rest };
    let read = move |range: Range<usize>| source.rows(range, base);
    let bands = Bands::new(base, &shape, lines, Box::new(read))?;
    Ok((shape, bands))
}

/// The rows that are written.
#[derive(Clone, Copy)]
pub(super) enum RowSource<'a> {
    Array(&'a NdArray<'a>),
    Rows(&'a dyn Rows),
}

impl<'a> RowSource<'a> {
    fn shape(&self) -> &'a [usize] {
        match self {
            RowSource::Array(array) => array.shape(),
            RowSource::Rows(rows) => rows.shape(),
        }
    }

    /// Fails early if the elements cannot be converted.
    fn expect_castable(&self, base: &ChunkedArray) -> Result<()> {
        let dtype = match self {
            RowSource::Array(array) => array.dtype(),
            RowSource::Rows(rows) => rows.dtype(),
        };
        dtype.expect_cast(base.dtype(), Casting::SameKind)
    }

    /// Some of the rows, in the type of the array.
    fn rows(&self, rows: Range<usize>, base: &ChunkedArray) -> Result<NdArray<'static>> {
        let found = match self {
            RowSource::Array(array) => array.read_rows(rows)?,
            RowSource::Rows(source) => source.read_rows(rows)?,
        };
        cast(found, base)
    }

    /// All of it, in the type of the array.
    pub(super) fn whole(&self, base: &ChunkedArray) -> Result<NdArray<'a>> {
        match self {
            RowSource::Array(array) => cast(array.borrow(), base),
            RowSource::Rows(rows) => {
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

/// The rows of the array that are written, and the selection within each.
struct Lines {
    first: usize,
    step: isize,
    count: usize,
    /// Whether an integer selects one row, so that the value has no axis for it.
    is_single: bool,
    rest: Vec<Index>,
}

impl Lines {
    /// The lines of a selection of integers and slices; `None` for others, and without axes.
    fn of(resolved: &Resolved) -> Option<Lines> {
        let ranges = resolved.axes.iter().zip(&resolved.views);
        let ranges = ranges.filter(|(axis, _)| matches!(axis, Axis::Range { .. }));
        // A new axis is one more. A list of even steps is a range too, but next to an integer its axis may be
        // the first of the value, as in NumPy.
        let in_order = ranges.clone().enumerate().all(|(at, (_, view))| view.axes == (at..at + 1));
        if !in_order || ranges.count() != resolved.shape.len() {
            return None;
        }
        let (axis, view) = (resolved.axes.first()?, resolved.views.first()?);
        let (start, count, step, is_single) = match *axis {
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
        Some(Lines { first, step, count, is_single, rest: rest.collect::<Option<_>>()? })
    }

    /// The row of the array that gets this row of the source.
    fn row(&self, at: usize) -> usize {
        self.first.wrapping_add_signed(self.step * at as isize)
    }
}

/// The slice of `count` positions from `first` on.
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
pub(super) struct Bands<'a> {
    base: &'a ChunkedArray,
    /// The array as it will be.
    grid: ChunkGrid,
    /// Rows of chunks in a band.
    height: usize,
    lines: Lines,
    read: Read<'a>,
    /// Rows of the source that were staged.
    done: usize,
    /// Changed chunks of the band that the commit has not taken yet.
    ready: VecDeque<(Vec<u64>, NewChunk<'a>)>,
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

    /// Stages the next band, and collects its changed chunks.
    fn stage(&mut self) -> Result<()> {
        let rows = self.height.saturating_mul(self.grid.chunk_shape()[0]);
        let first = self.lines.row(self.done);
        let band = first / rows;
        let start = band * rows;
        let end = start.saturating_add(rows).min(self.grid.shape()[0]);
        let step = self.lines.step;
        // The source rows within the band.
        let room = if step > 0 { end - 1 - first } else { first - start };
        let count = (room / step.unsigned_abs() + 1).min(self.lines.count - self.done);
        let mut staged = staged_rows(self.base, &self.grid, start..end)?;
        let first_part = match self.lines.is_single {
            true => isize::try_from(first - start).ok().map(Index::At),
            false => slice_of(first - start, step, count),
        };
        let parts = first_part.into_iter().chain(self.lines.rest.iter().cloned());
        let selection: Selection = parts.collect();
        staged.write(selection, &(self.read)(self.done..self.done + count)?)?;
        let top = (band * self.height) as u64;
        let across: usize = self.grid.counts()[1..].iter().product();
        for (cell, state) in staged.changes().enumerate() {
            let new = match state? {
                ChunkState::Base(_) => continue,
                ChunkState::Fill => NewChunk::Fill,
                ChunkState::Staged(bytes) => {
                    // Above are the chunks of the base with the same numbers.
                    let base = band * self.height * across + cell;
                    NewChunk::staged(bytes.into_owned().into(), staged.copied(cell), base)
                }
            };
            let mut at = coordinates(staged.grid().coordinates(cell));
            at[0] += top;
            self.ready.push_back((at, new));
        }
        self.done += count;
        Ok(())
    }
}

impl<'a> Iterator for Bands<'a> {
    type Item = Result<(Vec<u64>, NewChunk<'a>)>;

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

/// These rows of an array, unchanged, above the chunks of the base. The grid is the base's,
/// with a first axis that may be longer; the first row starts a chunk.
pub(super) fn staged_rows(
    base: &ChunkedArray,
    grid: &ChunkGrid,
    rows: Range<usize>,
) -> Result<StagedArray> {
    let (counts, chunk) = (grid.counts(), grid.chunk_shape());
    let shape = [&[rows.len()], &grid.shape()[1..]].concat();
    let across: usize = counts[1..].iter().product();
    let (top, height) = (rows.start / chunk[0], rows.len().div_ceil(chunk[0]));
    // Chunks have the same numbers as in the base, because only the first axis grows.
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
        &base.core().version.storage.fill,
        vec![Arc::new(base.clone())],
        cells.map(place).collect::<Result<_>>()?,
    )
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use ndarray::{ArrayD, IxDyn, ShapeBuilder};
    use serde_json::{Map, json};

    use super::*;
    use crate::array::{ArrayOptions, At};
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

    /// Rows that can only be read in order, each once, as from a pipe.
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
