//! The one integration-test binary: a folder for each room of the source.

/// The golden files of Python datadings, and scratch copies of them.
mod support;

/// Arrays in containers, in directories, and of bcolz.
mod array;
/// Data sets of the catalogue, on miniatures of their archives.
#[cfg(feature = "datasets")]
mod catalogue;
/// The command as users call it.
#[cfg(feature = "cli")]
mod cli;
/// What Python datadings wrote, read and written again byte for byte.
mod compat;
/// Conversions: every format, one run, parts, shards, and the notes that they write.
mod convert;
/// The files of a dataset: written, damaged, interrupted, repaired, shared.
mod dataset;
/// The guide and the examples do what they say.
mod docs;
/// Single formats against the files of other libraries.
mod format;
/// Images on their way into a batch.
#[cfg(feature = "images")]
mod image;
/// Imports point down only.
mod layers;
/// Batches: the same for any number of threads, resumed anywhere.
mod loader;
/// Readers of all kinds, and one list of questions that all answer alike.
mod reader;
/// How files replace others, and datasets behind URLs.
mod storage;
/// Attacks: files and servers that lie, and names that lead elsewhere.
mod untrusted;
