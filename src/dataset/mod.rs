//! A dataset: the family of its files, and everything that is done to it as one thing.
//!
//! | to | use |
//! | --- | --- |
//! | read samples by index or key | [`DatasetReader`] |
//! | write a dataset, append to one, resume a write | [`Writer`] |
//! | make side files that are missing | [`index`](index::IndexOptions::build) |
//! | check all files against each other | [`verify`] |
//! | finish or undo an interrupted write, save whole samples | [`repair`] |
//!
//! A publication replaces all files of a dataset in one step: readers see
//! the old dataset or the new one, and after a crash the old one is still there or the new one is
//! finished.
//!
//! A dataset may have many data files: a manifest `NAME.shards.json` lists them, and each is a
//! dataset of its own. A [`DatasetReader`] reads all of them as one.
//!
//! Absent on purpose: the bytes inside the files ([`format::dataset`](crate::format::dataset)).

mod files;
pub(crate) mod names;
mod walk;
mod labels;
mod passes;
mod place;
pub(crate) mod staging;
pub mod index;
pub(crate) mod reader;
pub(crate) mod writer;
pub mod verify;
pub mod repair;

#[doc(hidden)]
pub use files::DatasetFile;
pub use labels::{labels_path, read_labels};
#[doc(hidden)]
pub use names::names_shards;
#[doc(hidden)]
pub use passes::HearBytes;
pub use place::is_dataset;
#[doc(hidden)]
pub use place::{check_data_path, check_finished, is_same};
pub use reader::{DatasetReader, Iter, Keys, RawIter, ReaderOptions};
#[doc(hidden)]
pub use staging::Base;
pub use writer::{Stats, Writer, WriterOptions};
