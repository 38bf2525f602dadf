#![doc = include_str!("FORMAT.md")]
//!
//! # In this module
//!
//! [`Sizes`] and [`Storage`] are the files below `meta`, [`Layout`] is the arithmetic of rows and
//! chunks, [`chunk_in`] splits a data file. [`recognise`] identifies headers of the drafts before
//! bcolz, and [`Superchunk`] reads them.
//!
//! Absent on purpose: directories, which are in [`array::bcolz`](crate::array::bcolz); and what is
//! inside a chunk, which is in [`blosc`](super::blosc).

use serde_json::Value;

use super::FormatError;
use crate::value::DType;

mod layout;
mod meta;
mod dflt;
mod variant;
mod chunk_file;
mod superchunk;
#[cfg(test)]
mod tests;

pub use chunk_file::chunk_in;
pub(crate) use chunk_file::{behind_header, check_ratio, chunk_file_name, superchunk_file_name};
pub use layout::Layout;
pub(crate) use layout::chunklen_for;
pub(crate) use meta::{CParams, MAX_ATTRS_BYTES, MAX_META_BYTES, check_name};
pub use meta::{Sizes, Storage, attrs_to_json, names_to_json, parse_attrs, parse_names};
pub use superchunk::Superchunk;
pub use variant::{HEADER, HEADER_BYTES, recognise};

/// These bytes of an element as JSON, as `dflt` of a [`Storage`].
///
/// An error if JSON cannot hold them: complex numbers and long doubles other than zero, and byte
/// strings that are not UTF-8.
pub fn dflt_of(bytes: &[u8], dtype: &DType) -> Result<Value, FormatError> {
    if bytes.len() != dtype.item_size() {
        let expected = format!("a value of {} bytes for {dtype}", dtype.item_size());
        return Err(FormatError::new(0, expected, format!("{} bytes", bytes.len())));
    }
    dflt::dflt_of(bytes, dtype).ok_or_else(|| {
        FormatError::new(0, "a default value that JSON can say", format!("another one of {dtype}"))
    })
}

/// The element size that bcolz gives to Blosc: what the shuffle takes for one element.
pub(crate) fn typesize(dtype: &DType) -> usize {
    use crate::value::DTypeKind;
    match dtype.kind() {
        DTypeKind::Bytes => 1,
        DTypeKind::Text => 4,
        _ if dtype.item_size() > 255 => 1,
        _ => dtype.item_size().max(1),
    }
}
