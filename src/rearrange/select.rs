//! Which samples: by key, by index, or a range.

use std::ops::Range;
use std::str::FromStr;

use super::Scalar;
use crate::error::{Error, ErrorKind, Result};
use crate::reader::{Reader, at_reader};

/// A half-open range of samples, whose ends may be open or count from the last sample: `10..20`, `10..`, `..20` or
/// `-3..`, with `..` or `:` between them.
///
/// ```
/// use kiste::rearrange::SampleRange;
///
/// let range: SampleRange = "3..".parse()?;
/// assert_eq!(range.within(5), 3..5);
/// assert_eq!("-2:".parse::<SampleRange>()?.within(5), 3..5);
/// assert!("5..3".parse::<SampleRange>().is_err());
/// # Ok::<(), kiste::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SampleRange {
    start: Edge,
    end: Edge,
}

/// An end of a range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Edge {
    /// This many samples after the start.
    Start(usize),
    /// This many samples before the end.
    End(usize),
}

impl Edge {
    fn within(self, samples: usize) -> usize {
        match self {
            Edge::Start(index) => index.min(samples),
            Edge::End(index) => samples.saturating_sub(index),
        }
    }
}

impl SampleRange {
    /// All samples.
    pub const ALL: SampleRange = SampleRange { start: Edge::Start(0), end: Edge::End(0) };

    /// The samples of this many that are in the range. As slices do in Python, it leaves out what is
    /// beyond the end.
    pub fn within(self, samples: usize) -> Range<usize> {
        let end = self.end.within(samples);
        self.start.within(samples).min(end)..end
    }
}

impl FromStr for SampleRange {
    type Err = Error;

    fn from_str(text: &str) -> Result<SampleRange> {
        let invalid = |message: String| Error::new(ErrorKind::Invalid, message);
        let expected = || invalid("expected A..B, A.., ..B or -N..".to_owned());
        let parts = text.split_once("..").or_else(|| text.split_once(':'));
        let (start, end) = parts.ok_or_else(expected)?;
        let is_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        let number = |text: &str| text.parse().ok().filter(|_: &usize| is_digits(text));
        let edge = |text: &str, open| match (text, text.strip_prefix('-')) {
            ("", _) => Ok(open),
            (digits, None) => number(digits).map(Edge::Start).ok_or_else(expected),
            (_, Some(digits)) => number(digits).map(Edge::End).ok_or_else(expected),
        };
        let SampleRange { start: first, end: last } = SampleRange::ALL;
        let range = SampleRange { start: edge(start, first)?, end: edge(end, last)? };
        match (range.start, range.end) {
            (Edge::Start(a), Edge::Start(b)) if a > b => Err(invalid(format!("{a} is beyond {b}"))),
            (Edge::End(a), Edge::End(b)) if a < b => Err(invalid(format!("-{a} is beyond -{b}"))),
            _ => Ok(range),
        }
    }
}

/// Fails if a sample is chosen twice, which a dataset cannot hold as keys are unique.
///
/// # Errors
///
/// [`Invalid`](ErrorKind::Invalid), with index and key.
pub fn check_distinct(reader: &dyn Reader, indices: &[usize]) -> Result<()> {
    let mut sorted = indices.to_vec();
    sorted.sort_unstable();
    let Some(pair) = sorted.windows(2).find(|pair| pair[0] == pair[1]) else { return Ok(()) };
    let (index, key) = (pair[0], reader.key(pair[0])?);
    let message = format!("sample {index}, key {key:?}, is chosen twice");
    Err(at_reader(reader, Error::new(ErrorKind::Invalid, message)))
}

/// The indices of samples in the order of their values, one for each sample. Those that are equal stay
/// in their order.
///
/// With `natural`, text comes as people sort it, `a2` before `a10`; with `reverse` the largest value is
/// first.
///
/// ```
/// use kiste::rearrange::{Scalar, sorted};
///
/// let names = ["a10", "a2", "b"].map(|name| Scalar::Text(name.into()));
/// assert_eq!(sorted(&names, false, false), [0, 1, 2]);
/// assert_eq!(sorted(&names, true, true), [2, 0, 1]);
/// ```
pub fn sorted(values: &[Scalar], natural: bool, reverse: bool) -> Vec<usize> {
    let mut indices: Vec<usize> = (0..values.len()).collect();
    indices.sort_by(|&a, &b| {
        let (a, b) = (&values[a], &values[b]);
        let order = if natural { a.natural_cmp(b) } else { a.cmp(b) };
        if reverse { order.reverse() } else { order }
    });
    indices
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_half_open() {
        let within = |text: &str| text.parse::<SampleRange>().map(|range| range.within(9)).ok();
        assert_eq!(within("3..5"), Some(3..5));
        assert_eq!(within("3.."), Some(3..9));
        assert_eq!(within("..5"), Some(0..5));
        assert_eq!(within(".."), Some(0..9));
        assert_eq!(within("20..30"), Some(9..9));
        assert_eq!(within("-1..3"), Some(3..3));
        assert_eq!(within("-3:"), Some(6..9));
        assert_eq!(within("2:-2"), Some(2..7));
        assert_eq!(within("-20:-10"), Some(0..0));
        for wrong in ["", "3", "5..3", "-1:-3", "3..=5", "a..b", "--1:", "-:", "1:2:3"] {
            assert_eq!(within(wrong), None, "{wrong}");
        }
    }
}
