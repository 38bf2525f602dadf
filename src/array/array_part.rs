//! [`ArrayPart`]: a selection of a chunked array, read piece by piece where that is possible.

use std::io::{self, Write};
use std::ops::Range;

use crate::array::chunked::ChunkedArray;
use crate::array::rows::{Pieces, Rows};
use crate::array::selection::{Index, Selection};
use crate::error::{Error, ErrorKind, Result};
use crate::value::{self, Casting, DType, NdArray};

/// A selection of a [`ChunkedArray`] as an array of its own, in its type or in another one.
///
/// Elements that integers and slices select are read on demand, so the part may be larger than
/// memory. Elements that lists of positions and masks select are read at once. See
/// [`ChunkedArray::part`].
pub struct ArrayPart(Source);

enum Source {
    Window(Window),
    Whole(NdArray<'static>),
}

impl ChunkedArray {
    /// A part of the array, to be read, exported or printed.
    ///
    /// ```
    /// use kiste::array::{ArrayOptions, Rows};
    /// use kiste::value::{Casting, DType, NdArray};
    ///
    /// # let dir = tempfile::tempdir()?;
    /// # let path = dir.path().join("numbers");
    /// let numbers = ndarray::Array1::from_iter(0..1000_i32);
    /// let rows = NdArray::from_ndarray(&numbers);
    /// let store = ArrayOptions::default().create_from(&path, &rows, Default::default(), "made")?;
    /// let short = store.array().part(-3..)?.astype(DType::of::<f32>(), Casting::Safe);
    /// assert!(short.is_err(), "from int32 to float32 digits can be lost");
    /// let last = store.array().part(-3..)?.astype(DType::of::<f64>(), Casting::Safe)?;
    /// assert_eq!(last.shape(), [3]);
    /// assert_eq!(last.to_text()?, "[997. 998. 999.]");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The errors of [`read`](Self::read).
    pub fn part(&self, selection: impl Into<Selection>) -> Result<ArrayPart> {
        let selection = selection.into();
        Ok(ArrayPart(match Window::new(self, &selection)? {
            Some(window) if !window.shape.is_empty() => Source::Window(window),
            _ => Source::Whole(self.read(selection)?),
        }))
    }
}

impl ArrayPart {
    /// The same elements in another type. Those that are read later are converted then.
    ///
    /// # Errors
    ///
    /// [`Invalid`](crate::ErrorKind::Invalid) if the rule does not allow it, and if a value does not
    /// fit, as for [`NdArray::astype`].
    pub fn astype(self, dtype: DType, casting: Casting) -> Result<ArrayPart> {
        Ok(ArrayPart(match self.0 {
            Source::Whole(array) => Source::Whole(array.astype(&dtype, casting)?),
            Source::Window(mut window) => {
                window.to = (dtype, casting);
                // Reads nothing, but fails where the rule forbids it.
                window.read(&vec![0..0; window.shape.len()])?;
                Source::Window(window)
            }
        }))
    }

    /// The elements as NumPy prints them; see [`NdArray::to_text`]. Reads only what is shown.
    pub fn to_text(&self) -> Result<String> {
        match &self.0 {
            Source::Whole(array) => array.to_text(),
            Source::Window(window) => {
                value::print(&window.shape, window.to.0.kind(), |ranges| window.read(ranges))
            }
        }
    }

    /// Writes all elements as JSON: a list of rows, or one value of an array without axes. Values that
    /// JSON lacks, such as NaN and times, become strings. Rows are read some at a time.
    ///
    /// # Errors
    ///
    /// Errors of reading, and of `to`, which name no file.
    pub fn write_json(&self, to: &mut dyn Write) -> Result<()> {
        let failed = |error: serde_json::Error| sink_error(error.into());
        if self.shape().is_empty() {
            return serde_json::to_writer(to, &self.read_rows(0..1)?.to_json()?).map_err(failed);
        }
        to.write_all(b"[").map_err(sink_error)?;
        let mut separator = "";
        for piece in Pieces::of(self, JSON_PIECE)? {
            for row in piece?.to_json()?.as_array().into_iter().flatten() {
                to.write_all(separator.as_bytes()).map_err(sink_error)?;
                serde_json::to_writer(&mut *to, row).map_err(failed)?;
                separator = ",";
            }
        }
        to.write_all(b"]").map_err(sink_error)
    }
}

fn sink_error(error: io::Error) -> Error {
    Error::new(ErrorKind::Io, error.to_string()).with_source(error)
}

/// Bytes of elements that become JSON at a time.
const JSON_PIECE: usize = 4 << 20;

impl Rows for ArrayPart {
    fn dtype(&self) -> &DType {
        match &self.0 {
            Source::Whole(array) => array.dtype(),
            Source::Window(window) => &window.to.0,
        }
    }

    fn shape(&self) -> &[usize] {
        match &self.0 {
            Source::Whole(array) => array.shape(),
            Source::Window(window) => &window.shape,
        }
    }

    fn step(&self) -> usize {
        match &self.0 {
            Source::Whole(array) => array.step(),
            Source::Window(window) => window.step(),
        }
    }

    fn read_rows(&self, rows: Range<usize>) -> Result<NdArray<'static>> {
        match &self.0 {
            Source::Whole(array) => array.read_rows(rows),
            Source::Window(window) => {
                let rest = window.shape.iter().skip(1).map(|len| 0..*len);
                let ranges: Vec<Range<usize>> = std::iter::once(rows).chain(rest).collect();
                window.read(&ranges)
            }
        }
    }
}

/// A box of an array, perhaps with steps. Parts of it are selections of the array.
struct Window {
    array: ChunkedArray,
    /// The type that elements are converted to, and the casting rule.
    to: (DType, Casting),
    axes: Vec<Axis>,
    shape: Vec<usize>,
}

enum Axis {
    At(isize),
    Span { start: isize, step: isize, count: usize },
    New,
}

impl Window {
    /// The window of a selection of integers and slices; `None` for others.
    fn new(array: &ChunkedArray, selection: &Selection) -> Result<Option<Window>> {
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
        let to = (array.dtype().clone(), Casting::default());
        let window = Window { array: array.clone(), to, shape, axes };
        // Integers out of bounds are noticed now.
        let nothing: Vec<Range<usize>> = window.shape.iter().map(|_| 0..0).collect();
        if !nothing.is_empty() {
            window.read(&nothing)?;
        }
        Ok(Some(window))
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

    /// A box of the window.
    fn read(&self, ranges: &[Range<usize>]) -> Result<NdArray<'static>> {
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
