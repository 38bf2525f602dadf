//! One msgpack message: look into it, check it, decode it, encode it.
//!
//! * [`Cursor`] walks over packed bytes and copies nothing; [`check`] says whether they are one
//!   well-formed message.
//! * [`sample`] finds the key and single fields of a packed sample.
//! * [`decode`] and [`encode`] convert to and from [`Value`], whole.
//! * [`numpy`] knows the maps in which Python's msgpack-numpy hides arrays, [`timestamp`] the
//!   extension that holds points in time.
//! * [`RowRef`] is a field that refers to a row of an array elsewhere.
//!
//! What is encoded is byte for byte what Python datadings would write. What is decoded may be any
//! well-formed msgpack, from hostile hands as well: nothing here panics on it, recurses along it,
//! or allocates on the word of a length in it.
//!
//! On the wire, more is accepted than Python makes sense of: maps under keys that Python cannot
//! hash, extension codes below -1, timestamps that are none. They are kept as they are.

mod cursor;
mod decode;
mod encode;
pub mod numpy;
mod row_ref;
pub mod sample;
pub mod timestamp;

#[cfg(test)]
pub(super) mod tests;

pub use cursor::{Cursor, Kind, check, widen};
pub use decode::decode;
pub(crate) use encode::write_bin_len;
pub use encode::{EncodeError, encode, to_vec, write_bin, write_map, write_text};
pub use rmpv::Value;
pub use row_ref::RowRef;
pub use sample::{check_sample, field, key};

/// How many containers may be in one another, counting the outermost and empty ones: what Python's
/// packer and unpacker can take.
pub const MAX_DEPTH: usize = 1024;
