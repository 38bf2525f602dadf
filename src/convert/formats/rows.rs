//! Arrays whose rows, along the first axis, are samples.

use std::io::Read;
use std::ops::Range;
use std::path::Path;

use crate::Value;
use crate::convert::compressed;
use crate::error::{Error, ErrorKind, Result};
use crate::format::sample_fields::Field;
use crate::value::{ByteOrder, DTypeKind as Kind, NdArray};

/// Rows in a unit.
const RUN: usize = 4096;

/// The decompressed content of a file of up to this many bytes.
pub(super) fn read_file(path: &Path, max_bytes: u64) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let read = compressed::open(path)?.take(max_bytes.saturating_add(1)).read_to_end(&mut bytes);
    read.map_err(|error| compressed::blame(path, error))?;
    if bytes.len() as u64 > max_bytes {
        let message = format!("expected at most {max_bytes} bytes, found more");
        return Err(Error::above_limit("max_bytes", message).at(path));
    }
    Ok(bytes)
}

/// Fails if rows have no bytes: a file of a few bytes could claim any number of them.
pub(super) fn check_rows(array: &NdArray<'_>) -> Result<()> {
    let shape = array.shape();
    if array.bytes().is_empty() && shape.first().is_some_and(|&rows| rows > 0) {
        let message =
            format!("expected samples of at least one byte, found an array of shape {shape:?}");
        return Err(Error::new(ErrorKind::Damaged, message));
    }
    Ok(())
}

/// The number of units of this many rows.
pub(super) fn units(rows: usize) -> usize {
    rows.div_ceil(RUN)
}

/// The rows of a unit.
pub(super) fn run(unit: usize, rows: usize) -> Range<usize> {
    let start = unit.saturating_mul(RUN).min(rows);
    start..start.saturating_add(RUN).min(rows)
}

/// A row of an array in C order: an array of the other axes, or a number if there are none.
pub(super) fn row<'a>(array: &'a NdArray<'_>, index: usize) -> Result<Field<'a>> {
    let shape = array.shape().get(1..).unwrap_or_default();
    let size = shape.iter().product::<usize>() * array.dtype().item_size();
    let bytes = array.bytes().get(index * size..(index + 1) * size).unwrap_or_default();
    let row = NdArray::new(array.dtype().clone(), shape, bytes)?;
    if !shape.is_empty() {
        return Ok(Field::Array(row));
    }
    Ok(match integer(&row) {
        Some(number) => Field::Value(number),
        None => Field::Scalar(row),
    })
}

/// Some rows of an array in C order, as an array.
#[cfg(feature = "zip")]
pub(super) fn stretch<'a>(array: &'a NdArray<'_>, rows: Range<usize>) -> Result<Field<'a>> {
    let inner = array.shape().get(1..).unwrap_or_default();
    let size = inner.iter().product::<usize>() * array.dtype().item_size();
    let bytes = array.bytes().get(rows.start * size..rows.end * size).unwrap_or_default();
    let shape: Vec<usize> = [&[rows.len()], inner].concat();
    Ok(Field::Array(NdArray::new(array.dtype().clone(), shape, bytes)?))
}

/// A plain value of an array without axes, if it is an integer or a boolean.
pub(super) fn integer(array: &NdArray<'_>) -> Option<Value> {
    let bytes = array.bytes();
    let big = array.dtype().byte_order() == ByteOrder::Big;
    let mut number = [0; 8];
    if bytes.len() > number.len() {
        return None;
    }
    for (at, &byte) in bytes.iter().enumerate() {
        number[if big { bytes.len() - 1 - at } else { at }] = byte;
    }
    let number = u64::from_le_bytes(number);
    match array.dtype().kind() {
        Kind::UInt => Some(number.into()),
        Kind::Int => {
            let unused = 64 - 8 * bytes.len() as u32;
            Some((((number << unused) as i64) >> unused).into())
        }
        Kind::Bool => Some((number != 0).into()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_of_all_kinds() {
        for (dtype, bytes, expected) in [
            ("u1", &[200][..], Value::from(200)),
            ("i1", &[200], Value::from(-56)),
            (">i2", &[0xff, 0xfe], Value::from(-2)),
            ("<u4", &[1, 2, 0, 0], Value::from(513)),
            (">u8", &[255; 8], Value::from(u64::MAX)),
            ("<i8", &[255; 8], Value::from(-1)),
            ("?", &[1], Value::from(true)),
        ] {
            let array = NdArray::new(dtype.parse().unwrap(), [], bytes).unwrap();
            assert_eq!(integer(&array), Some(expected), "{dtype}");
        }
        assert_eq!(integer(&NdArray::scalar(1.0f32)), None);
    }

    #[test]
    fn runs_cover_all_rows() {
        for rows in [0, 1, RUN, RUN + 1, 3 * RUN] {
            let found: Vec<usize> = (0..units(rows)).flat_map(|unit| run(unit, rows)).collect();
            assert_eq!(found, (0..rows).collect::<Vec<_>>());
        }
    }
}
