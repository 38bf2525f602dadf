//! A part of an array that is read piece by piece, so that it may be larger than memory.

use std::ops::Range;

use kiste::array::{ChunkedArray, Index, Rows, Selection};
use kiste::value::{Casting, DType, NdArray};

use crate::output::Output;
use crate::progress::Progress;

/// A box of an array, perhaps with steps. Parts of it are selections of the array.
pub(super) struct Window {
    array: ChunkedArray,
    /// The type that elements are converted to, and the casting rule.
    to: (DType, Casting),
    axes: Vec<Axis>,
    shape: Vec<usize>,
    /// Hears of the rows that are read.
    progress: Option<Box<Progress>>,
}

enum Axis {
    At(isize),
    Span { start: isize, step: isize, count: usize },
    New,
}

impl Window {
    /// Draws how many rows were read, and stops at Ctrl-C.
    pub(super) fn watch(&mut self, doing: &str, output: &Output) {
        let rows = self.shape.first().map(|rows| *rows as u64);
        self.progress = Some(Box::new(output.progress_rows(doing, rows)));
    }

    /// The window of a selection of integers and slices; `None` for others.
    pub(super) fn new(
        array: &ChunkedArray,
        selection: &Selection,
        to: &(DType, Casting),
    ) -> kiste::Result<Option<Window>> {
        // The library reports errors in the selection, and reads nothing here.
        let Some(parts) = expand(selection, array.shape().len()) else { return Ok(None) };
        let mut lens = array.shape().iter();
        let mut axes = Vec::new();
        for part in &parts {
            axes.push(match part {
                Index::At(at) => {
                    lens.next();
                    Axis::At(*at)
                }
                Index::Slice { start, stop, step } if *step != 0 => {
                    let len = lens.next().copied().unwrap_or(0);
                    let (start, count) = span(*start, *stop, *step, len);
                    Axis::Span { start, step: *step, count }
                }
                Index::NewAxis => Axis::New,
                _ => return Ok(None),
            });
        }
        let shape = axes.iter().filter_map(|axis| match axis {
            Axis::At(_) => None,
            Axis::Span { count, .. } => Some(*count),
            Axis::New => Some(1),
        });
        let shape: Vec<usize> = shape.collect();
        let (array, to) = (array.clone(), to.clone());
        let window = Window { array, to, shape, axes, progress: None };
        // Integers out of bounds are noticed now.
        let nothing: Vec<Range<usize>> = window.shape.iter().map(|_| 0..0).collect();
        if !nothing.is_empty() {
            window.read(&nothing)?;
        }
        Ok(Some(window))
    }

    /// A box of the window.
    pub(super) fn read(&self, ranges: &[Range<usize>]) -> kiste::Result<NdArray<'static>> {
        let mut ranges = ranges.iter().cloned();
        let mut next = || ranges.next().unwrap_or(0..0);
        let mut shape = Vec::new();
        let parts = self.axes.iter().filter_map(|axis| match axis {
            Axis::At(at) => Some(Index::At(*at)),
            Axis::New => {
                shape.push(next().len());
                None
            }
            Axis::Span { start, step, .. } => {
                let range = next();
                shape.push(range.len());
                Some(part(*start, *step, &range))
            }
        });
        let selection: Selection = parts.collect();
        let array = self.array.read(selection)?;
        // New axes have one element, or none if the range is empty.
        let bytes = if shape.contains(&0) { Vec::new() } else { array.c_bytes().into_owned() };
        let array = NdArray::new(array.dtype().clone(), shape, bytes)?;
        let (dtype, casting) = &self.to;
        if array.dtype() == dtype { Ok(array) } else { array.astype(dtype, *casting) }
    }
}

impl Rows for Window {
    fn dtype(&self) -> &DType {
        &self.to.0
    }

    fn shape(&self) -> &[usize] {
        &self.shape
    }

    fn step(&self) -> usize {
        match self.axes.first() {
            Some(Axis::Span { step, .. }) => {
                let chunk = self.array.grid().chunk_shape().first().copied().unwrap_or(1);
                (chunk / step.unsigned_abs()).max(1)
            }
            _ => 1,
        }
    }

    fn read_rows(&self, rows: Range<usize>) -> kiste::Result<NdArray<'static>> {
        if let Some(progress) = &self.progress {
            progress.reaches(rows.start as u64)?;
        }
        let rest = self.shape.iter().skip(1).map(|len| 0..*len);
        let ranges: Vec<Range<usize>> = std::iter::once(rows).chain(rest).collect();
        self.read(&ranges)
    }
}

/// The parts with whole axes where there is an ellipsis or nothing; `None` if they are too many.
fn expand(selection: &Selection, axes: usize) -> Option<Vec<Index>> {
    let parts = selection.parts();
    let taken = parts.iter().filter(|part| matches!(part, Index::At(_) | Index::Slice { .. }));
    let missing = axes.checked_sub(taken.count())?;
    let whole = || std::iter::repeat_n(Index::range(None, None, 1), missing);
    let mut expanded = Vec::new();
    let mut seen = false;
    for part in parts {
        match part {
            Index::Ellipsis if seen => return None,
            Index::Ellipsis => {
                seen = true;
                expanded.extend(whole());
            }
            other => expanded.push(other.clone()),
        }
    }
    if !seen {
        expanded.extend(whole());
    }
    Some(expanded)
}

/// Where a slice of Python begins, and how many positions it has.
fn span(start: Option<isize>, stop: Option<isize>, step: isize, len: usize) -> (isize, usize) {
    let n = isize::try_from(len).unwrap_or(isize::MAX);
    let (low, high) = if step < 0 { (-1, n - 1) } else { (0, n) };
    let clip = |at: isize| if at < 0 { (at + n).max(low) } else { at.min(high) };
    let (first, last) = if step < 0 { (high, low) } else { (low, high) };
    let (first, last) = (start.map_or(first, clip), stop.map_or(last, clip));
    let distance = if step < 0 { first - last } else { last - first };
    (first, usize::try_from(distance).unwrap_or(0).div_ceil(step.unsigned_abs()))
}

/// The slice of these positions of a span, which contains them.
fn part(start: isize, step: isize, range: &Range<usize>) -> Index {
    if range.is_empty() {
        return Index::range(Some(0), Some(0), 1);
    }
    let at = |i: usize| start + i as isize * step;
    let stop = at(range.end - 1) + step.signum();
    // -1 would be counted from the end.
    Index::range(Some(at(range.start)), (stop >= 0).then_some(stop), step)
}
