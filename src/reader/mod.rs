//! Access: a sample by index or by key.
//!
//! [`DatasetReader`] opens a dataset without reading it: the data file and its offsets are mapped,
//! every other side file is opened when it is first needed, and none is ever loaded whole.
//!
//! # Where Python datadings is silently wrong
//!
//! | case | Python 3.4.7 | here |
//! | --- | --- | --- |
//! | `get(-1)`, `get(-2)` | an error; the last sample | no negative indices |
//! | `.offsets` cut short, too long, or not of this data | the first samples, then an error; or nothing | an error on opening |
//! | data cut short | short samples, without an error when raw | an error on opening |
//! | `.keys` missing | cannot be opened | keys are taken from the samples |
//! | `.filter` cut short or cleared | keys that are there are absent | an error |
//! | `.key_hashes` cut short, or of another salt | keys that are there are absent | an error |
//! | two keys with one hash | the wrong sample | the key of the sample decides |
//! | `.filter` missing | `in` fails | the hashes answer |
//! | files of two datasets after a crash | a mixture | refused until repaired |
//!
//! A key is said to be absent only when two files agree on it, or one of them was compared with
//! its MD5: see [`DatasetReader::contains_key`].

mod dataset;
mod iter;
mod search;
mod table;

pub use dataset::{DatasetReader, ReaderOptions};
pub use iter::{Iter, Keys, RawIter};
