//! Values in memory: element types as NumPy names them, and arrays of them.
//!
//! An [`NdArray`] is a type, a shape and bytes, owned or borrowed from where they were read; it is
//! accessed through `ndarray` and does no arithmetic. A [`DType`] says what the bytes of an
//! element are, an [`Element`] is a type of Rust that such bytes can be.
//!
//! Arrays of the crate `ndarray` 0.17 and types of `half` 2 and `num-complex` 0.4 stand in
//! signatures, so these versions are part of the public interface.
//!
//! Nothing here knows a file format: spellings of types and `.npy` files are in
//! [`format::numpy`](crate::format::numpy), arrays within samples in
//! [`format::msgpack::numpy`](crate::format::msgpack::numpy).

mod array;
mod kind;
mod dtype;
mod element;
mod cast;
mod text;
mod print;
mod show;
pub(crate) mod time;

#[cfg(test)]
mod tests;

pub use array::{AccessError, NdArray, Order};
pub use cast::Casting;
pub(crate) use cast::nanoseconds;
pub use dtype::{ByteOrder, DType, Field, MAX_NESTING, TimeUnit, Unit};
pub use element::{Element, Number};
pub use kind::DTypeKind;
pub(crate) use print::print;
pub(crate) use show::{bracketed, extremes, words};
