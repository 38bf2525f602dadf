//! Numbers converted to the type that a caller asks for, and the error when an array holds
//! something else.

use std::fmt;

use ndarray::ArrayD;
use num_complex::Complex;

use super::numbers::number_as;
use crate::error::{Error, ErrorKind};
use crate::value::{self, DTypeKind, NdArray, Number};

/// An array is not what was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mismatch {
    expected: String,
    found: String,
}

impl Mismatch {
    pub(super) fn new(expected: impl Into<String>, found: impl Into<String>) -> Mismatch {
        Mismatch { expected: expected.into(), found: found.into() }
    }
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "expected {}, found {}", self.expected, self.found)
    }
}

impl std::error::Error for Mismatch {}

impl From<Mismatch> for Error {
    fn from(error: Mismatch) -> Error {
        Error::new(ErrorKind::Damaged, error.to_string())
    }
}

/// Numbers as numbers of another type, without a loss other than rounding to a float.
pub(super) fn converted<T: value::Element>(array: &NdArray<'_>) -> Result<ArrayD<T>, Mismatch> {
    if let Ok(same) = array.to_ndarray::<T>() {
        return Ok(same);
    }
    let signed = Number::Signed;
    match (array.dtype().kind(), array.dtype().item_size()) {
        (DTypeKind::Bool, _) => each::<bool, T>(array, |number| signed(number.into())),
        (DTypeKind::Int, 1) => each::<i8, T>(array, |number| signed(number.into())),
        (DTypeKind::Int, 2) => each::<i16, T>(array, |number| signed(number.into())),
        (DTypeKind::Int, 4) => each::<i32, T>(array, |number| signed(number.into())),
        (DTypeKind::Int, 8) => each::<i64, T>(array, signed),
        (DTypeKind::UInt, 1) => each::<u8, T>(array, |number| signed(number.into())),
        (DTypeKind::UInt, 2) => each::<u16, T>(array, |number| signed(number.into())),
        (DTypeKind::UInt, 4) => each::<u32, T>(array, |number| signed(number.into())),
        (DTypeKind::UInt, 8) => each::<u64, T>(array, Number::Unsigned),
        (DTypeKind::Float, 4) => each::<f32, T>(array, |number| Number::Float(number.into())),
        (DTypeKind::Float, 8) => each::<f64, T>(array, Number::Float),
        (DTypeKind::Complex, _) if T::KIND == DTypeKind::Complex => complex::<T>(array),
        _ => Err(not_of_type::<T>(array)),
    }
}

fn each<S: value::Element, T: value::Element>(
    array: &NdArray<'_>,
    number: impl Fn(S) -> Number,
) -> Result<ArrayD<T>, Mismatch> {
    let stored = array.to_ndarray::<S>().map_err(|_| not_of_type::<T>(array))?;
    let mut other = None;
    let converted = stored.mapv(|stored| {
        let number = number(stored);
        number_as(number).unwrap_or_else(|| {
            other = Some(number);
            T::default()
        })
    });
    match other {
        None => Ok(converted),
        Some(number) => {
            Err(Mismatch::new(format!("numbers that fit {}", T::NAME), number.to_string()))
        }
    }
}

/// Complex numbers converted to the other width.
fn complex<T: value::Element>(array: &NdArray<'_>) -> Result<ArrayD<T>, Mismatch> {
    if let Ok(narrow) = array.to_ndarray::<Complex<f32>>() {
        let wide = |c: Complex<f32>| Complex::new(f64::from(c.re), f64::from(c.im));
        return Ok(narrow.mapv(|c| T::from_memory(bytemuck::bytes_of(&wide(c)))));
    }
    let wide = array.to_ndarray::<Complex<f64>>().map_err(|_| not_of_type::<T>(array))?;
    let narrow = |c: Complex<f64>| Complex::new(c.re as f32, c.im as f32);
    Ok(wide.mapv(|c| T::from_memory(bytemuck::bytes_of(&narrow(c)))))
}

fn not_of_type<T: value::Element>(array: &NdArray<'_>) -> Mismatch {
    Mismatch::new(T::NAME, format!("an array of {}", array.dtype()))
}
