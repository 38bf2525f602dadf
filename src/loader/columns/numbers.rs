//! Arrays of numbers of any type, as elements of one.

use super::rows::Rows;
use super::{code_of, name_of, parse_array, unfit};
use crate::array::PackedArray;
use crate::error::Result;
use crate::format::msgpack::numpy::is_container;
use crate::format::msgpack::{Cursor, Kind};
use crate::value::{Element, Number};

/// The dtype of an array, and its shape as far as it is known. A list has neither.
fn kind_of(field: &Cursor<'_>, expected: &str) -> Result<Option<(String, Option<Vec<usize>>)>> {
    match field.peek()? {
        Kind::Array => Ok(None),
        Kind::Map => {
            let (dtype, data, mut found) = parse_array(&mut field.clone())?;
            if data.is_some_and(|data| !data.is_empty()) && found.as_deref() == Some(&[0]) {
                found = None;
            }
            Ok(Some((dtype.to_owned(), found)))
        }
        Kind::Bin if is_container(field.clone().read_bin()?) => {
            let packed = PackedArray::from_bytes(field.clone().read_bin()?)?;
            Ok(Some((packed.dtype().to_string(), Some(packed.shape().to_vec()))))
        }
        kind => Err(unfit(expected, name_of(kind))),
    }
}

/// The rows of an array of integers or floats of any type, as elements of this type, each of which has to be
/// one. No more than `most` rows are read; raw bytes are refused, as nothing says what they are.
pub(super) fn read_numbers<T: Element>(
    field: &mut Cursor<'_>,
    row: &[usize],
    most: usize,
    expected: &str,
) -> Result<Vec<T>> {
    let Some((dtype, shape)) = kind_of(field, expected)? else {
        return read_all(field, row, most, Some);
    };
    // An array of an empty list has no second axis.
    if shape.as_deref() == Some(&[0]) {
        return Ok(Vec::new());
    }
    let dtype = dtype.trim_start_matches(['<', '>', '=', '|']);
    if dtype == code_of::<T>() {
        return read_all(field, row, most, Some);
    }
    macro_rules! any {
        ($($code:literal $type:ty, $number:ident, $as:ty;)*) => {
            match dtype {
                $($code => read_all::<$type, T>(field, row, most, |value| {
                    T::from_number(Number::$number(<$as>::from(value)))
                }),)*
                other => Err(unfit(expected, format!("type {other:?}"))),
            }
        };
    }
    any! {
        "b1" u8, Unsigned, u64; "u1" u8, Unsigned, u64; "u2" u16, Unsigned, u64; "u4" u32, Unsigned, u64;
        "u8" u64, Unsigned, u64; "i1" i8, Signed, i64; "i2" i16, Signed, i64; "i4" i32, Signed, i64;
        "i8" i64, Signed, i64; "f2" half::f16, Float, f64; "f4" f32, Float, f64; "f8" f64, Float, f64;
    }
}

fn read_all<S: Element, T: Element>(
    field: &mut Cursor<'_>,
    row: &[usize],
    most: usize,
    convert: impl Fn(S) -> Option<T>,
) -> Result<Vec<T>> {
    let mut rows = Rows::<S>::find(field, row)?;
    let count = rows.len();
    if count > most {
        return Err(unfit(format!("up to {most} rows"), count));
    }
    let mut values = vec![S::default(); count * row.iter().product::<usize>()];
    rows.read(0, count, &mut values)?;
    let convert = |value: S| {
        convert(value).ok_or_else(|| {
            unfit(format!("numbers of type {}", code_of::<T>()), format!("{value:?}"))
        })
    };
    values.into_iter().map(convert).collect()
}
