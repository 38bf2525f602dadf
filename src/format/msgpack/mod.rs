//! One msgpack message: inspect, check, decode and encode it.
//!
//! * [`Cursor`] walks over packed bytes and copies nothing; [`check`] says whether they are one
//!   well-formed message.
//! * [`sample`] finds the key and single fields of a packed sample.
//! * [`decode`] and [`encode`] convert to and from [`Value`], whole.
//! * [`numpy`] knows the maps in which Python's msgpack-numpy packs arrays, [`timestamp`] the
//!   extension that holds points in time.
//! * [`RowRef`] is a field that refers to a row of an array elsewhere.
//!
//! Encoding gives byte for byte what Python datadings writes. Decoding takes any well-formed
//! msgpack, also hostile input: nothing here panics on it, recurses along it, or trusts a length in
//! it when allocating.
//!
//! [`Value`] comes from the crate `rmpv` 1, which is part of the public interface: a new major
//! version of `rmpv` is a new major version here.
//!
//! More is accepted than Python can represent: map keys that Python cannot hash, extension codes
//! below -1, malformed timestamps. They are preserved unchanged.

mod cursor;
mod decode;
mod encode;
#[cfg(feature = "arrays")]
pub mod numpy;
mod row_ref;
pub mod sample;
#[doc(hidden)]
pub mod timestamp;

#[cfg(all(test, feature = "arrays"))]
pub(super) mod tests;

#[doc(hidden)]
pub use cursor::widen;
pub use cursor::{Cursor, Kind, check};
pub use decode::decode;
pub(crate) use encode::pack_into;
pub use encode::{EncodeError, encode, pack, to_vec};
#[doc(hidden)]
pub use encode::{write_bin, write_map, write_text};
#[cfg(feature = "convert")]
pub(crate) use encode::{write_bin_len, write_list};
pub use rmpv::Value;
pub use row_ref::RowRef;
pub use sample::{check_sample, field, key};

/// How deep containers may be nested, counting the outermost and empty ones: the limit of Python's
/// packer and unpacker.
pub const MAX_DEPTH: usize = 1024;
