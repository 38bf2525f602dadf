//! Arrays of NumPy in and out: every field `array` of a dataset is read and written in three ways.
//!
//! ```sh
//! cargo run --example arrays IN.msgpack OUT.msgpack
//! ```
//!
//! Each sample of the output has `same`, the array as it was read; `turned`, the same elements as an
//! `ndarray` array in Fortran order, where there is a type of Rust for them; `npy`, the file that
//! `numpy.save` would write; and `type`, the text of its element type. `tests/compat/python_arrays.py`
//! compares these with what NumPy and msgpack-numpy make of the same arrays.

use std::error::Error;

use half::f16;
use kiste::format::msgpack::{Cursor, field, numpy};
use kiste::format::numpy::{descr, npy};
use kiste::value::{DTypeKind, Element, NdArray};
use kiste::{DatasetReader, Writer};
use ndarray::{ArrayD, ShapeBuilder};
use num_complex::Complex;
use serde::Serialize;

#[derive(Serialize)]
struct Sample<'a> {
    key: &'a str,
    same: NdArray<'a>,
    turned: Option<NdArray<'a>>,
    #[serde(with = "serde_bytes")]
    npy: Vec<u8>,
    r#type: String,
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let (Some(input), Some(output), None) = (args.next(), args.next(), args.next()) else {
        return Err("usage: arrays IN.msgpack OUT.msgpack".into());
    };
    rewrite(&input, &output)
}

/// Reads the arrays of one dataset and writes another.
pub fn rewrite(input: &str, output: &str) -> Result<(), Box<dyn Error>> {
    let reader = DatasetReader::open(input)?;
    let mut writer = Writer::create(output)?;
    for index in 0..reader.len() {
        let raw = reader.get_raw(index)?;
        let packed = field(&raw, "array")?.ok_or("a sample without an array")?;
        let mut cursor = Cursor::new(packed);
        let array = numpy::read_array(&mut cursor)?;
        let turned = turned(&array)?;
        write(&mut writer, &reader.key(index)?, array, turned)?;
    }
    writer.finish()?;
    Ok(())
}

fn write(
    writer: &mut Writer,
    key: &str,
    same: NdArray<'_>,
    turned: Option<NdArray<'_>>,
) -> Result<(), Box<dyn Error>> {
    let (npy, r#type) = (npy::encode(&same)?, descr::repr(same.dtype()));
    Ok(writer.write(&Sample { key, same, turned, npy, r#type })?)
}

/// The elements as an array of Rust in Fortran order, if there is a type for them.
fn turned(array: &NdArray<'_>) -> Result<Option<NdArray<'static>>, Box<dyn Error>> {
    use DTypeKind::{Bool, Complex as C, Float, Int, UInt};
    Ok(Some(match (array.dtype().kind(), array.dtype().item_size()) {
        (Bool, 1) => fortran::<bool>(array)?,
        (Int, 1) => fortran::<i8>(array)?,
        (Int, 2) => fortran::<i16>(array)?,
        (Int, 4) => fortran::<i32>(array)?,
        (Int, 8) => fortran::<i64>(array)?,
        (UInt, 1) => fortran::<u8>(array)?,
        (UInt, 2) => fortran::<u16>(array)?,
        (UInt, 4) => fortran::<u32>(array)?,
        (UInt, 8) => fortran::<u64>(array)?,
        (Float, 2) => fortran::<f16>(array)?,
        (Float, 4) => fortran::<f32>(array)?,
        (Float, 8) => fortran::<f64>(array)?,
        (C, 8) => fortran::<Complex<f32>>(array)?,
        (C, 16) => fortran::<Complex<f64>>(array)?,
        _ => return Ok(None),
    }))
}

fn fortran<T: Element>(array: &NdArray<'_>) -> Result<NdArray<'static>, Box<dyn Error>> {
    let elements = array.as_array::<T>()?;
    let mut turned = ArrayD::from_elem(elements.raw_dim().f(), T::default());
    turned.assign(&elements);
    Ok(NdArray::from_ndarray(&turned).into_owned())
}
