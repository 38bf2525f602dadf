//! Keyed ML sample datasets, fully compatible with the *datadings* format.
//!
//! A dataset is one file of [msgpack](format::msgpack) samples, each a map with a unique string
//! `key`, and side files that make it quick to use: offsets, keys, hashes of the keys, a Bloom
//! filter and MD5 digests. Python datadings reads what this crate writes and the reverse, byte for
//! byte; [`format::dataset`] holds the specification.
//!
//! ```text
//!  raw data ──▶ convert ──▶ Writer ──▶ data.msgpack  + .offsets .keys .key_hashes .filter .md5
//!                                            │
//!                          storage: memory map, positioned reads
//!                                            ▼
//!                                      DatasetReader ──▶ a sample by index, by key, in order
//! ```
//!
//! # Writing and reading
//!
//! ```
//! use std::collections::BTreeMap;
//! use kiste::{DatasetReader, Writer};
//!
//! # let dir = tempfile::tempdir()?;
//! # let path = dir.path().join("words.msgpack");
//! let mut writer = Writer::create(&path)?;
//! for (key, word) in [("en", "crate"), ("de", "Kiste")] {
//!     writer.write(&BTreeMap::from([("key", key), ("word", word)]))?;
//! }
//! writer.finish()?; // until here nothing is visible, from here on all of it
//!
//! let words = DatasetReader::open(&path)?; // touches a few pages, whatever the size
//! let index = words.find("de")?.expect("it was written");
//! assert_eq!(words.get(index)?["word"].as_str(), Some("Kiste"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What is where
//!
//! * [`Writer`], [`WriterOptions`]: create, append, resume; published in one step.
//! * [`DatasetReader`]: lazy, zero-copy, shared by any number of threads.
//! * [`reader`]: shards, lists, directories, archives, and parts and joins of them, behind the one
//!   trait [`Reader`].
//! * [`verify`], [`repair`], [`index`]: is it good, what to do if not, and side files from data.
//! * [`sampler`]: in which order, for which rank; resumable, the same everywhere.
//! * [`loader`]: batches of samples in such an order, made on threads.
//! * `burn`: readers as datasets of Burn (feature `burn`).
//! * [`rearrange`]: shuffle, split, merge and compare datasets, their bytes passed through.
//! * `stat`: what is in a dataset: sizes, types, classes, images, arrays (feature `stat`).
//! * [`mod@array`]: arrays larger than a sample: packed in a file, chunked in a directory with all their
//!   versions, and changes to them.
//! * [`convert`]: image folders, JSON lines, what other libraries write (WebDataset, MDS, TFRecord,
//!   npz, CSV, CIFAR, MNIST), and datasets whose arrays are stored otherwise.
//! * `datasets`: a catalogue of well-known data sets, their archives to datasets (feature
//!   `datasets`).
//! * [`mod@format`]: the formats alone, bytes to values and back, without any I/O.
//! * [`value`]: arrays and element types as NumPy has them; [`serde_ndarray`] for fields of structs.
//! * [`storage`]: where bytes live; a storage in memory for tests.
//!
//! # Quirks
//!
//! * A sample is the *map* that msgpack has: keys may be of any type and come twice; of two fields
//!   with one name the last counts, as in Python.
//! * NumPy arrays, NumPy scalars and complex numbers are maps with the byte-string keys `nd` or
//!   `complex`, as msgpack-numpy writes them; [`format::msgpack::numpy`] reads them. Pickles are
//!   never executed.

pub mod error;
pub mod value;
mod natural;
mod regular;
pub mod storage;
pub mod format;
pub mod reader;
pub mod dataset;
pub mod array;
pub mod sampler;
pub mod loader;
#[cfg(feature = "burn")]
pub mod burn;
pub mod rearrange;
#[cfg(feature = "stat")]
pub mod stat;
pub mod convert;
#[cfg(feature = "datasets")]
#[path = "../datasets/mod.rs"]
pub mod datasets;

pub use dataset::{DatasetReader, Stats, Writer, WriterOptions, index, repair, verify};
pub use error::{Error, ErrorKind, Result};
pub use format::msgpack::numpy::serde_ndarray;
pub use natural::natural_order;
pub use reader::{Reader, ReaderExt};
pub use rmpv::Value;

/// The examples of the README, run as tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

/// The examples of the guide.
#[cfg(doctest)]
#[doc = include_str!("../docs/train.md")]
#[doc = include_str!("../docs/arrays.md")]
struct Guide;
