//! Keyed ML sample datasets, fully compatible with the *datadings* format.
//!
//! A dataset is one file of [msgpack](format::msgpack) samples, each a map with a unique string
//! `key`, and side files that make it quick to use: offsets, keys, hashes of the keys, a Bloom
//! filter and MD5 digests. Python datadings reads what this crate writes and the reverse, byte for
//! byte; [`format::dataset`] holds the specification.
//!
//! ```text
//!  raw data, other formats                    N-d arrays
//!         │ convert                               │ array: packed · chunked · staged
//!         ▼                                       ▼
//!      Writer ──▶ data.msgpack + .offsets .keys .key_hashes .filter .md5
//!                       │  storage: memory map · positioned reads · memory · object stores
//!                       ▼
//!    reader: dataset · shards · list · directory · zip ◀──┐
//!                       │                                  ├── loader ──▶ batches for a rank
//!    sampler: which index is next? ───────────────────────┘
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
//! let words = DatasetReader::open(&path)?; // touches a few pages, at any size
//! let index = words.find("de")?.expect("it was written");
//! assert_eq!(words.get(index)?["word"].as_str(), Some("Kiste"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Feeding a training loop
//!
//! A [`sampler`] decides the order, in numbers, and a [`loader`] reads in that order on threads. Two
//! integers, epoch and position, are enough to resume at the exact sample; a fingerprint of the order
//! notices if it is another one.
//!
//! ```
//! use kiste::loader::Loader;
//! use kiste::sampler::Shuffle;
//! use kiste::DatasetReader;
//!
//! # let dir = tempfile::tempdir()?;
//! # let path = dir.path().join("words.msgpack");
//! # let mut writer = kiste::Writer::create(&path)?;
//! # for key in ["a", "b", "c"] {
//! #     writer.write(&std::collections::BTreeMap::from([("key", key)]))?;
//! # }
//! # writer.finish()?;
//! let words = DatasetReader::open(&path)?;
//! let order = Shuffle::new(words.len() as u64, 42);
//! let mut seen = 0;
//! for batch in Loader::options(words, order).batch_size(2).epochs(1).raw()? {
//!     seen += batch?.data.len();
//! }
//! assert_eq!(seen, 3);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Converting
//!
//! A [`Conversion`](convert::Conversion) describes what `kiste convert` does, and runs it: at once,
//! in parts on several machines, or from where it was interrupted.
//!
//! ```
//! use kiste::convert::{Conversion, Silent};
//!
//! # let dir = tempfile::tempdir()?;
//! # let (lines, table) = (dir.path().join("words.jsonl"), dir.path().join("words.msgpack"));
//! # std::fs::write(&lines, "{\"key\": \"de\", \"word\": \"Kiste\"}\n")?;
//! let report = Conversion::new([&lines], &table).rename("word", "text").run(&mut Silent)?;
//! assert_eq!(report.outputs[0].samples, 1);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What is where
//!
//! | | |
//! | --- | --- |
//! | [`Writer`], [`DatasetReader`] | write, append, resume; read by index, by key, in order |
//! | [`dataset`] | the files of a dataset, and all that is done to it: [`verify`], [`repair`], [`index`] |
//! | [`reader`] | the trait [`Reader`]; shards, lists, directories, zip archives, parts, joins |
//! | [`sampler`] | which sample comes next, for which rank; the same everywhere |
//! | [`loader`] | batches of samples in such an order, made on threads |
//! | `image` | images decoded and augmented on their way into a batch (feature `images`) |
//! | [`convert`] | images, WebDataset, MDS, TFRecord, npz, CSV, Parquet and more, in both directions |
//! | [`mod@array`] | arrays larger than a sample: packed in a file, or chunked in a directory with versions |
//! | [`rearrange`] | shuffle, split, merge and compare datasets |
//! | [`compose`] | datasets made of others without a copy: views, joins, mixtures, recipes |
//! | `table` | samples as tables of Arrow, for other programs to query (feature `arrow`) |
//! | `stat` | statistics of a dataset: sizes, types, classes, images (feature `stat`) |
//! | `datasets` | a catalogue of well-known data sets (feature `datasets`) |
//! | [`mod@format`] | the formats alone: bytes to values and back |
//! | [`value`] | arrays and element types as in NumPy; [`serde_ndarray`] for fields of structs |
//! | [`storage`] | where bytes live, and how a new file takes the place of an old one |
//!
//! # Features
//!
//! Without any feature there is what datasets need: [`Writer`], [`DatasetReader`], [`verify`],
//! [`repair`], [`sampler`], [`loader`], from 34 crates and without a C compiler. NumPy arrays in
//! samples are bytes to it, and a deep verification does not decode them. The default features are for
//! the command. A program takes the library without them, and adds what it needs:
//!
//! ```toml
//! kiste = { version = "0.1", default-features = false, features = ["arrays"] }
//! ```
//!
//! | feature | adds |
//! | --- | --- |
//! | `readers` | [`reader::DirectoryReader`], [`reader::ListReader`], [`natural_order`] |
//! | `arrays` | [`mod@array`], [`value`], [`rearrange`], [`loader::Columns`], all of [`mod@format`] |
//! | `convert` | [`convert`]; `formats`, `images`, `parquet` and `zip` add formats |
//! | `arrow`, `stat`, `datasets` | the modules `table`, `stat` and `datasets` |
//! | `remote` | datasets by URL: S3, Google Cloud Storage, Azure, HTTP |
//! | `c-blosc` | Blosc by its C library, which also writes BloscLZ, LZ4HC and Zstandard |
//! | `rand_core` | [`StableRng`](sampler::rng::StableRng) as a generator of `rand` |
//! | `cli` (default) | the command and what it needs |
//!
//! # Costs
//!
//! Opening a dataset reads a few pages, at any size. A sample by index is a look into the map: it is
//! not copied until it is decoded. A sample by key costs one hash, and usually one page. Writing is
//! bound by MD5 for large samples (up to 0.9 GB/s on one core; it can be left out). All errors are one
//! type, [`Error`], that fits a register and names file, sample and position.
//!
//! # Contracts
//!
//! Types of other crates are part of the interface: [`Value`] comes from rmpv 1, arrays in and out
//! from ndarray 0.17, and samples are [serde] types. A memory map shows what other programs do to a
//! file: [`storage`] says what that means, and how to read without one.
//!
//! An index into a reader is a `usize`: a sample has an address. Numbers in an order or in a
//! file is a `u64`, on 32-bit machines too: positions, the indices that a sampler gives, offsets, and
//! the places that errors name. [`sampler`] says how the two meet.
//!
//! [serde]: https://serde.rs
//!
//! # Quirks
//!
//! * A sample is the *map* that msgpack has: keys may be of any type and come twice; of two fields
//!   with one name the last counts, as in Python.
//! * NumPy arrays, NumPy scalars and complex numbers are maps with the byte-string keys `nd` or
//!   `complex`, as msgpack-numpy writes them; [`format::msgpack::numpy`] reads them. Pickles are
//!   never executed.

#![cfg_attr(docsrs, feature(doc_cfg))]
// The documentation links what features add; without them there is nothing to link to.
#![cfg_attr(
    not(all(feature = "cli", feature = "datasets", feature = "remote")),
    allow(
        rustdoc::broken_intra_doc_links,
        rustdoc::private_intra_doc_links,
        reason = "the whole documentation is made with all features"
    )
)]
#![cfg_attr(
    not(feature = "convert"),
    allow(
        dead_code,
        unreachable_pub,
        reason = "some of what all rooms share is for conversion and arrays alone"
    )
)]

pub mod error;
#[cfg(feature = "arrays")]
pub mod value;
#[cfg(feature = "readers")]
mod natural;
mod note;
mod regular;
#[cfg(any(feature = "arrow", feature = "convert"))]
mod guard;
#[doc(hidden)]
pub mod text;
pub mod storage;
pub mod format;
pub mod reader;
pub mod dataset;
#[cfg(feature = "arrays")]
pub mod array;
pub mod sampler;
#[cfg(feature = "images")]
pub mod image;
pub mod loader;
#[cfg(feature = "arrays")]
pub mod rearrange;
#[cfg(feature = "stat")]
pub mod stat;
#[cfg(feature = "convert")]
pub mod convert;
#[cfg(feature = "datasets")]
#[path = "../datasets/mod.rs"]
pub mod datasets;
#[cfg(feature = "arrays")]
pub mod compose;
#[cfg(feature = "arrow")]
pub mod table;
mod open;

pub use dataset::{DatasetReader, Stats, Writer, WriterOptions, index, repair, verify};
pub use error::{Error, ErrorKind, Remedy, Result};
#[cfg(feature = "arrays")]
pub use format::msgpack::numpy::serde_ndarray;
#[cfg(feature = "readers")]
pub use natural::natural_order;
pub use open::open;
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
#[doc = include_str!("../docs/shards.md")]
#[doc = include_str!("../docs/own.md")]
struct Guide;

/// The page about images.
#[cfg(all(doctest, feature = "images"))]
#[doc = include_str!("../docs/images.md")]
struct Images;
