//! Summaries of the newest version in `meta/`, for people and other tools.
//!
//! Nothing depends on them: our readers use only the version's own file.

use std::path::Path;

use serde_json::{Value, json};

use crate::format::chunked::{Version, names};
use crate::storage::Storage;
use crate::value::{DType, DTypeKind as Kind, NdArray};

/// The summaries in `meta/`: name and content.
pub(crate) fn summaries(version: &Version, dtype: &DType) -> [(&'static str, String); 3] {
    let item = dtype.item_size() as u64;
    let nbytes = version.shape.iter().fold(item, |bytes, len| bytes.saturating_mul(*len));
    let sizes = json!({ "shape": version.shape, "nbytes": nbytes, "cbytes": cbytes(version) });
    let mut storage = serde_json::to_value(&version.storage).unwrap_or_default();
    if let (Some(storage), Some(fill)) = (storage.as_object_mut(), number(version, dtype)) {
        storage.insert("dflt".to_owned(), fill);
    }
    let attributes = Value::Object(version.attributes.clone());
    [
        (names::SIZES, format!("{sizes}\n")),
        (names::STORAGE, format!("{storage}\n")),
        (names::ATTRIBUTES, format!("{attributes}\n")),
    ]
}

/// The summaries that are not the same of these two versions of an array.
pub(crate) fn outdated(old: &Version, new: &Version) -> impl Iterator<Item = &'static str> {
    let sizes = old.shape != new.shape || cbytes(old) != cbytes(new);
    let attributes = old.attributes != new.attributes;
    let changed = [(names::SIZES, sizes), (names::ATTRIBUTES, attributes)];
    changed.into_iter().filter_map(|(name, differs)| differs.then_some(name))
}

/// The bytes of all stored chunks; a damaged version may record any numbers.
fn cbytes(version: &Version) -> u64 {
    version.columns.iter().fold(0, |sum, column| sum.saturating_add(column.cbytes))
}

/// The fill value as a number, where JSON has it.
fn number(version: &Version, dtype: &DType) -> Option<Value> {
    let fill = NdArray::new(dtype.clone(), [], &version.storage.fill[..]).ok()?;
    macro_rules! as_number {
        ($number:ty) => {
            fill.to_ndarray::<$number>().ok()?.first().map(|n| Value::from(*n))
        };
    }
    match (dtype.kind(), dtype.item_size()) {
        (Kind::Bool, _) => as_number!(bool),
        (Kind::Int, 1) => as_number!(i8),
        (Kind::Int, 2) => as_number!(i16),
        (Kind::Int, 4) => as_number!(i32),
        (Kind::Int, 8) => as_number!(i64),
        (Kind::UInt, 1) => as_number!(u8),
        (Kind::UInt, 2) => as_number!(u16),
        (Kind::UInt, 4) => as_number!(u32),
        (Kind::UInt, 8) => as_number!(u64),
        (Kind::Float, 4) => as_number!(f32),
        (Kind::Float, 8) => as_number!(f64),
        _ => None,
    }
}

/// The content of a summary, if it can be read and is no longer than any of ours.
pub(crate) fn read_summary(storage: &dyn Storage, path: &Path) -> Option<Vec<u8>> {
    let source = storage.open(path).ok()?;
    let len = Some(source.len()).filter(|len| *len <= crate::format::chunked::MAX_VERSION_BYTES)?;
    source.read(0..len).ok().map(|bytes| bytes.into_owned())
}
