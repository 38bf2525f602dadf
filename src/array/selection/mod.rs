//! Selections as NumPy has them, resolved against a shape. Pure numbers.
//!
//! A [`Selection`] is what a caller writes: integers, slices, arrays of integers, masks, an
//! ellipsis, new axes. [`Resolved`] is what it means for an array of some shape.

use std::fmt;
use std::ops::{Range, RangeFrom, RangeFull, RangeInclusive, RangeTo, RangeToInclusive};
use std::str::FromStr;

use crate::error::{Error, ErrorKind, Result};

mod resolve;

pub(crate) use resolve::{Axis, Resolved, View, product};

/// Which elements of an array: one [`Index`] for each axis, the rest in full.
///
/// Tuples, arrays and vectors of anything that makes an [`Index`] make a selection, and so does a
/// single one. Selections in Python's notation can be parsed.
///
/// ```
/// use kiste::array::{Index, Selection};
///
/// let rows = Selection::from(2..5);
/// let corner = Selection::from((0, .., -1));
/// let points = Selection::from((vec![4, 0, 4], Index::range(None, None, -2)));
/// assert_eq!("2:5".parse::<Selection>()?, rows);
/// assert_eq!("0, :, -1".parse::<Selection>()?, corner);
/// assert_eq!("[4, 0, 4], ::-2".parse::<Selection>()?, points);
/// # Ok::<(), kiste::Error>(())
/// ```
///
/// Several arrays of integers are combined point by point, as NumPy does; if a slice stands between
/// them (or between one and an integer), their axis comes first in the result.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[must_use]
pub struct Selection(Vec<Index>);

/// A selection on one axis, or on several by a mask.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Index {
    /// One position; negative ones count from the end. The result does not have the axis.
    At(isize),
    /// Evenly spaced positions, bounds and steps as in Python.
    Slice {
        /// The first position; negative ones count from the end.
        start: Option<isize>,
        /// Where to stop, which is not selected itself.
        stop: Option<isize>,
        /// The distance; may be negative, not 0.
        step: isize,
    },
    /// These positions, in any order and as often as they come.
    Points {
        /// The shape that they have, and give to the result.
        shape: Vec<usize>,
        /// The positions, the last axis of the shape fastest.
        points: Vec<isize>,
    },
    /// Where this is true. It covers as many axes as the mask has, and the sizes must agree.
    Mask {
        /// The shape of the mask.
        shape: Vec<usize>,
        /// Its elements, the last axis fastest.
        mask: Vec<bool>,
    },
    /// As many whole axes as are missing.
    Ellipsis,
    /// A new axis of one element in the result.
    NewAxis,
}

impl Index {
    /// The slice `start:stop:step` of Python.
    pub fn range(start: Option<isize>, stop: Option<isize>, step: isize) -> Index {
        Index::Slice { start, stop, step }
    }

    /// How many axes of the array it takes.
    fn axes(&self) -> usize {
        match self {
            Index::Ellipsis | Index::NewAxis => 0,
            Index::Mask { shape, .. } => shape.len(),
            _ => 1,
        }
    }

    /// Whether NumPy calls it advanced where there is an array at all.
    fn is_advanced(&self) -> bool {
        matches!(self, Index::At(_) | Index::Points { .. } | Index::Mask { .. })
    }

    fn is_array(&self) -> bool {
        matches!(self, Index::Points { .. } | Index::Mask { .. })
    }
}

impl Selection {
    /// Everything.
    pub fn all() -> Selection {
        Selection::default()
    }

    /// The parts, in order.
    pub fn parts(&self) -> &[Index] {
        &self.0
    }

    /// One more part at the end.
    pub fn and(mut self, index: impl Into<Index>) -> Selection {
        self.0.push(index.into());
        self
    }
}

/// A box: these positions on each axis.
impl From<&[Range<usize>]> for Selection {
    fn from(ranges: &[Range<usize>]) -> Selection {
        ranges.iter().cloned().map(Index::from).collect()
    }
}

impl FromIterator<Index> for Selection {
    fn from_iter<I: IntoIterator<Item = Index>>(parts: I) -> Selection {
        Selection(parts.into_iter().collect())
    }
}

impl From<Vec<Index>> for Selection {
    fn from(parts: Vec<Index>) -> Selection {
        Selection(parts)
    }
}

impl<I: Into<Index>> From<I> for Selection {
    fn from(index: I) -> Selection {
        Selection(vec![index.into()])
    }
}

impl From<()> for Selection {
    fn from((): ()) -> Selection {
        Selection::all()
    }
}

macro_rules! tuples {
    ($($name:ident)+) => {
        impl<$($name: Into<Index>),+> From<($($name,)+)> for Selection {
            #[expect(non_snake_case, reason = "the type parameters name the variables too")]
            fn from(($($name,)+): ($($name,)+)) -> Selection {
                Selection(vec![$($name.into()),+])
            }
        }
    };
}
tuples!(A B);
tuples!(A B C);
tuples!(A B C D);
tuples!(A B C D E);
tuples!(A B C D E F);

/// Positions beyond `isize` are beyond every array, and so is what this makes of them.
fn signed(position: usize) -> isize {
    isize::try_from(position).unwrap_or(isize::MAX)
}

macro_rules! from_ranges {
    ($number:ty, $convert:expr) => {
        impl From<$number> for Index {
            fn from(at: $number) -> Index {
                Index::At($convert(at))
            }
        }
        impl From<Range<$number>> for Index {
            fn from(range: Range<$number>) -> Index {
                Index::range(Some($convert(range.start)), Some($convert(range.end)), 1)
            }
        }
        impl From<RangeFrom<$number>> for Index {
            fn from(range: RangeFrom<$number>) -> Index {
                Index::range(Some($convert(range.start)), None, 1)
            }
        }
        impl From<RangeTo<$number>> for Index {
            fn from(range: RangeTo<$number>) -> Index {
                Index::range(None, Some($convert(range.end)), 1)
            }
        }
        impl From<RangeInclusive<$number>> for Index {
            fn from(range: RangeInclusive<$number>) -> Index {
                Index::range(Some($convert(*range.start())), after($convert(*range.end())), 1)
            }
        }
        impl From<RangeToInclusive<$number>> for Index {
            fn from(range: RangeToInclusive<$number>) -> Index {
                Index::range(None, after($convert(range.end)), 1)
            }
        }
        impl From<Vec<$number>> for Index {
            fn from(points: Vec<$number>) -> Index {
                Index::from(&points[..])
            }
        }
        impl From<&[$number]> for Index {
            fn from(points: &[$number]) -> Index {
                let shape = vec![points.len()];
                Index::Points { shape, points: points.iter().map(|&at| $convert(at)).collect() }
            }
        }
        impl<const N: usize> From<[$number; N]> for Index {
            fn from(points: [$number; N]) -> Index {
                Index::from(&points[..])
            }
        }
    };
}
from_ranges!(usize, signed);
from_ranges!(isize, std::convert::identity);
from_ranges!(i32, |at| isize::try_from(at).expect("an address has 32 bits at least"));

/// The end of a range that includes its last position; -1 is the end of the axis.
fn after(last: isize) -> Option<isize> {
    last.checked_add(1).filter(|&end| end != 0)
}

impl From<RangeFull> for Index {
    fn from(_: RangeFull) -> Index {
        Index::range(None, None, 1)
    }
}

impl From<Vec<bool>> for Index {
    fn from(mask: Vec<bool>) -> Index {
        Index::Mask { shape: vec![mask.len()], mask }
    }
}

impl From<&[bool]> for Index {
    fn from(mask: &[bool]) -> Index {
        Index::from(mask.to_vec())
    }
}

impl<D: ndarray::Dimension> From<ndarray::ArrayView<'_, bool, D>> for Index {
    fn from(mask: ndarray::ArrayView<'_, bool, D>) -> Index {
        Index::Mask { shape: mask.shape().to_vec(), mask: mask.iter().copied().collect() }
    }
}

impl<D: ndarray::Dimension> From<ndarray::ArrayView<'_, isize, D>> for Index {
    fn from(points: ndarray::ArrayView<'_, isize, D>) -> Index {
        Index::Points { shape: points.shape().to_vec(), points: points.iter().copied().collect() }
    }
}

/// As Python writes it, without the outer brackets: `2:5, ::-1, [4, 0], ..., None, 7`.
impl FromStr for Selection {
    type Err = Error;

    fn from_str(text: &str) -> Result<Selection> {
        let mut parts = Vec::new();
        let mut rest = text.trim();
        while !rest.is_empty() {
            let inside = rest.strip_prefix('[').and_then(|list| list.split_once(']'));
            let (part, after) = match inside {
                Some((list, after)) => (parse_points(list)?, after.trim_start()),
                None => {
                    let end = rest.find(',').unwrap_or(rest.len());
                    (parse_part(rest[..end].trim())?, &rest[end..])
                }
            };
            parts.push(part);
            rest = match after.strip_prefix(',') {
                Some(more) => more.trim_start(),
                None if after.is_empty() => after,
                None => return Err(not_an_index(after)),
            };
        }
        Ok(Selection(parts))
    }
}

fn not_an_index(text: &str) -> Error {
    invalid(format!("expected an integer, a slice, a list, ... or None, found {text:?}"))
}

fn parse_points(list: &str) -> Result<Index> {
    let items = list.split(',').map(str::trim).filter(|item| !item.is_empty());
    let points: Result<Vec<isize>> =
        items.map(|item| item.parse().map_err(|_| not_an_index(item))).collect();
    Ok(Index::from(points?))
}

fn parse_part(part: &str) -> Result<Index> {
    match part {
        "..." => return Ok(Index::Ellipsis),
        "None" => return Ok(Index::NewAxis),
        _ => {}
    }
    let numbers: Result<Vec<Option<isize>>> = part
        .split(':')
        .map(str::trim)
        .map(|n| match n {
            "" => Ok(None),
            n => n.parse().map(Some).map_err(|_| not_an_index(part)),
        })
        .collect();
    match numbers?[..] {
        [Some(at)] => Ok(Index::At(at)),
        [start, stop] => Ok(Index::range(start, stop, 1)),
        [start, stop, step] => Ok(Index::range(start, stop, step.unwrap_or(1))),
        _ => Err(not_an_index(part)),
    }
}

impl fmt::Display for Selection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, part) in self.0.iter().enumerate() {
            write!(f, "{}{part}", if i == 0 { "" } else { ", " })?;
        }
        Ok(())
    }
}

impl fmt::Display for Index {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let or_nothing = |n: &Option<isize>| n.map_or(String::new(), |n| n.to_string());
        match self {
            Index::At(at) => write!(f, "{at}"),
            Index::Slice { start, stop, step } => {
                write!(f, "{}:{}", or_nothing(start), or_nothing(stop))?;
                if *step == 1 { Ok(()) } else { write!(f, ":{step}") }
            }
            Index::Points { shape, points } if shape.len() == 1 => write!(f, "{points:?}"),
            Index::Points { shape, .. } => write!(f, "points{shape:?}"),
            Index::Mask { shape, .. } => write!(f, "mask{shape:?}"),
            Index::Ellipsis => f.write_str("..."),
            Index::NewAxis => f.write_str("None"),
        }
    }
}

pub(crate) fn invalid(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::Invalid, message)
}
