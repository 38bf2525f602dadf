//! One array, or bytes, in one [bloscpack](crate::format::bloscpack) container.
//!
//! [`PackedArray`] reads such an array, [`PackOptions`] packs one, [`AppendOptions`] appends to a file
//! in place. [`PackedWriter`] and [`PackedReader`] stream bytes. [`ArrayPolicy`] packs and unpacks the
//! arrays in samples.

pub(crate) mod workers;
mod size;
mod file;
mod info;
mod recover;
pub(crate) mod pack;
pub(crate) mod array;
mod bytes;
mod input;
mod metadata;
mod stream;
pub mod append;
mod serde;
mod policy;

pub use append::AppendOptions;
pub use array::PackedArray;
pub use info::{ContainerArray, ContainerChunk, ContainerHeader, ContainerInfo, ContainerMetadata};
pub use input::{InputBytes, NamedInput};
pub use metadata::read_metadata;
pub use pack::PackOptions;
pub use policy::{ArrayPolicy, ArrayTally, Left};
pub use size::ByteSize;
pub use stream::{PackedReader, PackedWriter};
