//! Where people looked: the experiments of the saliency data sets.
//!
//! An experiment is what one person looked at: a map whose `locations` are an array of places, x
//! and y, in pixels of the image. A `map` of them has a field, which no data set
//! uses. Arrays have the type that Python stores.

use std::path::Path;

use ndarray::{ArrayD, Dimension};

use super::Zip;
use crate::Value;
use crate::error::{Error, ErrorKind, Result};
use crate::format::mat::{self, MatFile};
use crate::format::msgpack::numpy::Special;
use crate::value::{Element, NdArray};

/// A map of these fields in this order.
pub(crate) fn map<const N: usize>(fields: [(&str, Value); N]) -> Value {
    Value::Map(fields.map(|(name, value)| (name.into(), value)).to_vec())
}

/// An experiment with nothing but the places.
pub(crate) fn experiment(locations: Value) -> Value {
    map([("locations", locations), ("map", Value::Nil)])
}

/// An array as msgpack-numpy has them.
pub(crate) fn array<T: Element, D: Dimension>(array: &ndarray::Array<T, D>) -> Value {
    Special::Array(NdArray::from_ndarray(array)).to_value()
}

/// Numbers of a MAT file in single precision, in the shape that they have.
pub(crate) fn numbers(numbers: &mat::Array) -> Result<Value> {
    Ok(array(&numbers.numbers::<f32>()?))
}

/// The same as rows of x and y. Nothing at all has two columns too.
pub(crate) fn points(numbers: &mat::Array) -> Result<Value> {
    let numbers: Vec<f32> = numbers.numbers::<f32>()?.into_iter().collect();
    let rows = numbers.len() / 2;
    let points = ArrayD::from_shape_vec(vec![rows, 2], numbers);
    points.map(|points| array(&points)).map_err(|_| {
        Error::new(ErrorKind::Damaged, "expected an even number of coordinates, found an odd one")
    })
}

/// The variable of a file that has only one.
pub(crate) fn only_variable(bytes: &[u8]) -> Result<mat::Array> {
    let file = MatFile::parse(bytes)?;
    let mut named = file.variables().iter().filter(|variable| !variable.name().is_empty());
    match (named.next(), named.next()) {
        (Some(variable), None) => Ok(variable.read()?),
        (variable, _) => {
            let found = if variable.is_some() { "several" } else { "none" };
            let message = format!("expected one variable, found {found}");
            Err(Error::new(ErrorKind::Damaged, message))
        }
    }
}

/// Reads and parses a file in an archive; errors name both.
pub(crate) fn read_with<T>(
    zip: &Zip,
    name: &str,
    make: impl FnOnce(&[u8]) -> Result<T>,
) -> Result<T> {
    make(&zip.read(name)?).map_err(|error| in_file(zip.path(), name, &error))
}

/// An error in a file in an archive.
pub(crate) fn in_file(path: &Path, name: &str, error: &Error) -> Error {
    let located = Error::new(error.kind(), format!("file {name:?}: {error}")).at(path);
    match error.remedy() {
        Some(remedy) => located.with_remedy(remedy.clone()),
        None => located,
    }
}

/// The last two components of a name: the key of most images.
pub(crate) fn last_two(name: &str) -> &str {
    let mut slashes = name.rmatch_indices('/').map(|(at, _)| at + 1);
    slashes.nth(1).map_or(name, |at| &name[at..])
}

/// Whether macOS added this to the archive.
pub(crate) fn is_of_finder(name: &str) -> bool {
    name.starts_with("__MACOSX/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_the_end_of_names() {
        for (name, key) in [
            ("trainSet/Stimuli/Action/001.jpg", "Action/001.jpg"),
            ("ALLSTIMULI/a.jpeg", "ALLSTIMULI/a.jpeg"),
            ("a.jpeg", "a.jpeg"),
            ("/a/b", "a/b"),
        ] {
            assert_eq!(last_two(name), key);
        }
    }
}
