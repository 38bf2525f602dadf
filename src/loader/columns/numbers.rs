//! Arrays of numbers of any type, as elements of one.

use super::rows::Rows;
use super::{code_of, name_of, parse_array, unfit};
use crate::array::PackedArray;
use crate::error::Result;
use crate::format::msgpack::numpy::is_container;
use crate::format::msgpack::{Cursor, Kind};
use crate::value::{DTypeKind, Element, Number};

/// The expected form of an array of numbers.
pub(super) struct Numbers<'a> {
    /// The shape of a row.
    pub(super) row: &'a [usize],
    /// How many rows there have to be; any number if it is not said.
    pub(super) rows: Option<usize>,
    /// Whether plain bytes, which have no type, are accepted as elements.
    pub(super) takes_bytes: bool,
    /// The array in words.
    pub(super) expected: &'a str,
}

/// This number as an element, if it is one: floats do not take integers that they would round.
pub(super) fn exact<T: Element>(number: Number) -> Option<T> {
    let magnitude = match number {
        Number::Unsigned(number) => number,
        Number::Signed(number) => number.unsigned_abs(),
        Number::Float(_) => 0,
    };
    let digits = match (T::KIND, size_of::<T>()) {
        (DTypeKind::Float, 2) => half::f16::MANTISSA_DIGITS,
        (DTypeKind::Float, 4) | (DTypeKind::Complex, 8) => f32::MANTISSA_DIGITS,
        (DTypeKind::Float, _) | (DTypeKind::Complex, _) => f64::MANTISSA_DIGITS,
        _ => u64::BITS,
    };
    // From the first bit that is set to the last.
    let used = magnitude.checked_ilog2().map_or(0, |top| top + 1 - magnitude.trailing_zeros());
    if used > digits {
        return None;
    }
    T::from_number(number)
}

impl Numbers<'_> {
    /// The rows of an array of integers or floats of any type, as elements of this type. It is an
    /// error if a value does not fit. Only floats are rounded, to floats.
    pub(super) fn read<T: Element>(&self, field: &mut Cursor<'_>) -> Result<Vec<T>> {
        let (dtype, shape) = match field.peek()? {
            Kind::Array => return self.convert(field, Some),
            Kind::Map => {
                let (dtype, _, shape) = parse_array(&mut field.clone())?;
                (dtype.to_owned(), shape.map(|shape| shape.iter().collect()))
            }
            Kind::Bin if is_container(field.clone().read_bin()?) => {
                let packed = PackedArray::from_bytes(field.clone().read_bin()?)?;
                let shape: Vec<u64> = packed.shape().iter().map(|&size| size as u64).collect();
                (packed.dtype().to_string(), Some(shape))
            }
            Kind::Bin if self.takes_bytes => return self.convert(field, Some),
            kind => return Err(unfit(self.expected, name_of(kind))),
        };
        if let (Some(rows), Some(found)) = (self.rows, shape) {
            let wanted = [&[rows], self.row].concat();
            if found != [0] && !found.iter().copied().eq(wanted.iter().map(|&size| size as u64)) {
                return Err(unfit(self.expected, format!("shape {found:?}")));
            }
        }
        let dtype = dtype.trim_start_matches(['<', '>', '=', '|']);
        if dtype == code_of::<T>() {
            return self.convert(field, Some);
        }
        macro_rules! any {
            ($($code:literal $type:ty, $number:expr;)*) => {
                match dtype {
                    $($code => self.convert::<$type, T>(field, |value| exact($number(value))),)*
                    other => Err(unfit(self.expected, format!("type {other:?}"))),
                }
            };
        }
        let signed = Number::Signed;
        let float = Number::Float;
        any! {
            "b1" bool, |value| signed(i64::from(value)); "u1" u8, |value| signed(i64::from(value));
            "u2" u16, |value| signed(i64::from(value)); "u4" u32, |value| signed(i64::from(value));
            "u8" u64, of_unsigned; "i1" i8, |value| signed(i64::from(value));
            "i2" i16, |value| signed(i64::from(value)); "i4" i32, |value| signed(i64::from(value));
            "i8" i64, signed; "f2" half::f16, |value| float(f64::from(value));
            "f4" f32, |value| float(f64::from(value)); "f8" f64, float;
        }
    }

    fn convert<S: Element, T: Element>(
        &self,
        field: &mut Cursor<'_>,
        convert: impl Fn(S) -> Option<T>,
    ) -> Result<Vec<T>> {
        let mut rows = Rows::<S>::find(field, self.row)?.with_numbers(exact);
        let count = rows.len();
        if self.rows.is_some_and(|rows| rows != count) {
            return Err(unfit(self.expected, format!("{count} rows")));
        }
        rows.check(count)?;
        let mut values = vec![S::default(); count * self.row.iter().product::<usize>()];
        rows.read(0, count, &mut values)?;
        let convert = |value: S| {
            convert(value).ok_or_else(|| {
                unfit(format!("numbers of type {}", code_of::<T>()), format!("{value:?}"))
            })
        };
        values.into_iter().map(convert).collect()
    }
}

/// As the numbers of msgpack are.
fn of_unsigned(number: u64) -> Number {
    i64::try_from(number).map_or(Number::Unsigned(number), Number::Signed)
}
