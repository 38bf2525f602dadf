//! Arrays formatted as by NumPy: in brackets, aligned, shortened if long.

use std::ops::Range;

use serde_json::Value as Json;

use super::show::words;
use super::text::elements;
use crate::error::Result;
use crate::value::{DTypeKind as Kind, NdArray};

/// More elements than this are shortened.
const MANY: usize = 1000;
/// This many elements are shown at both ends of an axis then.
const EDGE: usize = 3;
/// Lines are broken beyond this.
const WIDTH: usize = 75;

impl NdArray<'_> {
    /// The array as NumPy prints it. Above 1000 elements, only both ends of each axis are shown.
    ///
    /// ```
    /// use kiste::value::NdArray;
    ///
    /// let array = ndarray::arr2(&[[1.0, 2.5], [-3.0, 4.0]]);
    /// assert_eq!(NdArray::from_ndarray(&array).to_text()?, "[[ 1.   2.5]\n [-3.   4. ]]");
    /// # Ok::<(), kiste::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As for [`to_json`](NdArray::to_json).
    pub fn to_text(&self) -> Result<String> {
        let whole = self.to_c_order();
        print(self.shape(), self.dtype().kind(), |ranges| Ok(cut(&whole, ranges)))
    }
}

/// Formats an array of this shape and kind; reads only the boxes that are shown.
pub(crate) fn print(
    shape: &[usize],
    kind: Kind,
    read: impl Fn(&[Range<usize>]) -> Result<NdArray<'static>>,
) -> Result<String> {
    Text::new(shape, kind, read).map(|text| text.print())
}

/// A box of an array in C order.
fn cut(array: &NdArray<'_>, ranges: &[Range<usize>]) -> NdArray<'static> {
    let item = array.dtype().item_size();
    let mut bytes = Vec::new();
    let mut starts = vec![0];
    for (axis, range) in ranges.iter().enumerate() {
        let len = array.shape()[axis];
        starts = starts.iter().flat_map(|at| range.clone().map(move |i| at * len + i)).collect();
    }
    starts.iter().for_each(|at| bytes.extend_from_slice(&array.bytes()[at * item..][..item]));
    let shape: Vec<usize> = ranges.iter().map(ExactSizeIterator::len).collect();
    NdArray::new(array.dtype().clone(), shape, bytes).expect("as many bytes as elements were taken")
}

struct Text {
    /// The shape of the shown elements.
    shape: Vec<usize>,
    /// Whether the middle of an axis is left out.
    cut: Vec<bool>,
    elements: Vec<String>,
    empty: bool,
}

impl Text {
    fn new(
        shape: &[usize],
        kind: Kind,
        read: impl Fn(&[Range<usize>]) -> Result<NdArray<'static>>,
    ) -> Result<Text> {
        let total = shape.iter().fold(1usize, |n, len| n.saturating_mul(*len));
        let cut: Vec<bool> =
            shape.iter().map(|len| total > MANY && *len > 2 * EDGE && total > 0).collect();
        let runs: Vec<Vec<Range<usize>>> = shape
            .iter()
            .zip(&cut)
            .map(|(&len, cut)| {
                if *cut {
                    [0..EDGE, len - EDGE..len].into()
                } else {
                    std::iter::once(0..len).collect()
                }
            })
            .collect();
        let lens = runs.iter().map(|runs| runs.iter().map(ExactSizeIterator::len).sum());
        let shown: Vec<usize> = lens.collect();
        let empty = total == 0;
        let mut values = vec![Json::Null; if empty { 0 } else { shown.iter().product() }];
        if !empty {
            fill(&runs, &shown, &read, &mut values)?;
        }
        let elements = aligned(&values, kind);
        Ok(Text { shape: shown, cut, elements, empty })
    }

    fn print(&self) -> String {
        if self.empty {
            return format!("[], shape {:?}", self.shape);
        }
        let mut out = String::new();
        self.axis(0, 0, &mut out);
        out
    }

    /// Prints the entries of an axis, starting with this element.
    fn axis(&self, axis: usize, first: usize, out: &mut String) {
        let Some(&len) = self.shape.get(axis) else {
            out.push_str(self.elements[first].trim());
            return;
        };
        let each: usize = self.shape[axis + 1..].iter().product();
        let inner = axis + 1 < self.shape.len();
        let depth = self.shape.len() - axis - 1;
        let gap = if inner { "\n".repeat(depth) + &" ".repeat(axis + 1) } else { " ".to_owned() };
        out.push('[');
        let mut column = axis + 1;
        let mut word = |text: &str, first: bool, out: &mut String| {
            let width = text.chars().count();
            if !first && column + 1 + width > WIDTH {
                out.push('\n');
                out.push_str(&" ".repeat(axis + 1));
                column = axis + 1;
            } else if !first {
                out.push(' ');
                column += 1;
            }
            out.push_str(text);
            column += width;
        };
        for i in 0..len {
            let dots = self.cut[axis] && i == EDGE;
            if inner {
                if dots {
                    out.push_str(&gap);
                    out.push_str("...");
                }
                if i > 0 {
                    out.push_str(&gap);
                }
                self.axis(axis + 1, first + i * each, out);
            } else {
                if dots {
                    word("...", false, out);
                }
                word(&self.elements[first + i], i == 0, out);
            }
        }
        out.push(']');
    }
}

/// The elements; times as words.
fn to_print(array: &NdArray<'_>) -> Result<Vec<Json>> {
    match array.dtype().kind() {
        Kind::DateTime | Kind::TimeDelta => Ok(words(array)?.into_iter().map(Json::from).collect()),
        _ => elements(array),
    }
}

/// Reads each combination of runs, and puts its elements into place.
fn fill(
    runs: &[Vec<Range<usize>>],
    shown: &[usize],
    read: &impl Fn(&[Range<usize>]) -> Result<NdArray<'static>>,
    values: &mut [Json],
) -> Result<()> {
    let boxes: usize = runs.iter().map(Vec::len).product();
    for number in 0..boxes {
        let mut rest = number;
        let mut ranges = Vec::new();
        let mut offsets = Vec::new();
        for runs in runs.iter().rev() {
            let run = rest % runs.len();
            rest /= runs.len();
            ranges.insert(0, runs[run].clone());
            offsets.insert(0, runs[..run].iter().map(ExactSizeIterator::len).sum::<usize>());
        }
        for (at, value) in to_print(&read(&ranges)?)?.into_iter().enumerate() {
            let mut rest = at;
            let (mut to, mut step) = (0, 1);
            for axis in (0..shown.len()).rev() {
                let len = ranges[axis].len();
                to += (offsets[axis] + rest % len) * step;
                rest /= len;
                step *= shown[axis];
            }
            values[to] = value;
        }
    }
    Ok(())
}

/// The elements as words of one width.
fn aligned(values: &[Json], kind: Kind) -> Vec<String> {
    let words: Vec<String> = match kind {
        Kind::Float => return floats(values),
        _ => values.iter().map(|value| word(value, kind)).collect(),
    };
    let width = words.iter().map(|word| word.chars().count()).max().unwrap_or(0);
    let left = matches!(kind, Kind::Text | Kind::Bytes | Kind::Struct);
    let pad = |word: String| if left { word } else { format!("{word:>width$}") };
    words.into_iter().map(pad).collect()
}

fn word(value: &Json, kind: Kind) -> String {
    match (kind, value) {
        (Kind::Bool, Json::Bool(yes)) => (if *yes { "True" } else { "False" }).to_owned(),
        (Kind::Text, Json::String(text)) => format!("'{}'", text.escape_debug()),
        (Kind::Bytes, Json::String(text)) => format!("b'{text}'"),
        (Kind::Complex, Json::Array(parts)) => {
            let parts: Vec<String> = parts.iter().map(|part| number(part, false)).collect();
            let sign = if parts[1].starts_with('-') { "" } else { "+" };
            format!("{}{sign}{}j", parts[0], parts[1])
        }
        (Kind::Struct, Json::Array(fields)) => {
            let fields: Vec<String> = fields.iter().map(|f| word(f, Kind::Void)).collect();
            format!("({})", fields.join(", "))
        }
        (_, Json::String(text)) => text.clone(),
        (_, other) => other.to_string(),
    }
}

/// Floats aligned at the decimal point, or all with exponents.
fn floats(values: &[Json]) -> Vec<String> {
    let sizes = values.iter().filter_map(Json::as_f64).map(f64::abs).filter(|v| *v > 0.0);
    let exponents = sizes.into_iter().any(|v| !(1e-4..1e8).contains(&v));
    let words: Vec<String> = values.iter().map(|value| number(value, exponents)).collect();
    let before = |word: &str| word.find('.').unwrap_or(word.len());
    let left = words.iter().map(|w| before(w)).max().unwrap_or(0);
    let right = words.iter().map(|w| w.len() - before(w)).max().unwrap_or(0);
    let pad = |word: String| {
        let (head, tail) = word.split_at(before(&word));
        format!("{head:>left$}{tail:<right$}")
    };
    words.into_iter().map(pad).collect()
}

/// At most eight decimals; a whole number has the point and none.
fn number(value: &Json, exponent: bool) -> String {
    let Some(value) = value.as_f64() else {
        return match value.as_str() {
            Some("NaN") => "nan".to_owned(),
            Some("Infinity") => "inf".to_owned(),
            _ => "-inf".to_owned(),
        };
    };
    if exponent {
        let text = format!("{value:e}");
        let (digits, power) = text.split_once('e').unwrap_or((&text, "0"));
        let long = digits.len() > 10;
        return if long { format!("{value:.8e}") } else { format!("{digits}e{power}") };
    }
    let (short, long) = (value.to_string(), format!("{value:.8}"));
    let text = if short.len() < long.len() { short } else { long };
    match text.contains('.') {
        true => text.trim_end_matches('0').to_owned(),
        false => text + ".",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ndarray::{Array3, ArrayD, IxDyn, arr0, arr1, arr2};

    fn text<D: ndarray::Dimension, T: crate::value::Element>(
        array: ndarray::Array<T, D>,
    ) -> String {
        NdArray::from_ndarray(&array).to_text().unwrap()
    }

    #[test]
    fn arrays_are_printed_as_numpy_prints_them() {
        assert_eq!(text(arr2(&[[1, 20], [300, 4]])), "[[  1  20]\n [300   4]]");
        assert_eq!(text(arr1(&[1.0, 2.5, -0.125])), "[ 1.     2.5   -0.125]");
        assert_eq!(text(arr1(&[1e10, f64::NAN])), "[1e10  nan]");
        assert_eq!(text(arr1(&[0.1_f32])), "[0.1]");
        assert_eq!(text(arr0(7_u8)), "7");
        assert_eq!(text(arr1(&[true, false])), "[ True False]");
        let days = [1_i64, i64::MIN].map(i64::to_le_bytes).concat();
        let days = |dtype: &str| NdArray::new(dtype.parse().unwrap(), [2], days.clone()).unwrap();
        assert_eq!(days("<M8[D]").to_text().unwrap(), "[1970-01-02        NaT]");
        assert_eq!(days("<m8[h]").to_text().unwrap(), "[1 h NaT]");
        assert_eq!(text(ArrayD::<f32>::zeros(IxDyn(&[0, 3]))), "[], shape [0, 3]");
        assert_eq!(
            text(Array3::from_shape_fn((2, 1, 2), |(i, _, j)| i * 2 + j).mapv(|v| v as i64)),
            "[[[0 1]]\n\n [[2 3]]]"
        );
    }

    #[test]
    fn much_is_shortened_and_long_lines_are_broken() {
        let long = ndarray::Array1::from_iter(0..2000_i32);
        assert_eq!(text(long), "[   0    1    2 ... 1997 1998 1999]");
        let wide = ndarray::Array2::from_shape_fn((100, 100), |(i, j)| (i * 100 + j) as i32);
        let shown = text(wide);
        assert_eq!(shown.lines().count(), 7, "{shown}");
        assert_eq!(shown.lines().nth(3), Some(" ..."));
        assert!(shown.ends_with(" [9900 9901 9902 ... 9997 9998 9999]]"), "{shown}");
        let lines = text(ndarray::Array1::from_iter(0..100_i64));
        assert!(lines.lines().count() > 1 && lines.lines().all(|line| line.len() <= WIDTH + 1));
    }
}
