//! Conversion: raw data in, samples out.
//!
//! A [`Source`] hands out batches of packed samples, in an order that depends on nothing but the
//! data; [`convert`] writes them. Reading and packing happen on all cores, writing in order.
//! [`Recode`] around a source stores arrays packed, or plain; `Images` (feature `images`) resizes and
//! encodes images.
//!
//! What other libraries write is an [`Input`]: it falls into units, such as shards, that can be read
//! one without the other. [`InOrder`] makes a [`Source`] of it, [`Chained`] one input of several.
//!
//! Because the units are the same everywhere, a conversion can be cut: [`Parts`] are runs of units
//! that are written one without the other, on other machines too, and joined at the end; a
//! [`UnitLog`] says which units are whole in a dataset whose writer died, so that [`resume`] goes on
//! after them. Either way the bytes are those of one conversion from start to end.
//!
//! | from | |
//! | --- | --- |
//! | folders, lists and zip archives of images | [`ImageFolder`], and folders back with [`ImageFolderWriter`] |
//! | JSON lines | [`JsonLinesFile`], [`JsonLines`] |
//! | datasets | [`DatasetSource`] |
//! | CSV and TSV | `Csv`, and back with `CsvWriter` (feature `formats`) |
//! | CIFAR-10 and -100, MNIST: pickles, binary files, idx | [`Cifar`], [`Idx`] |
//! | MDS: shards of MosaicML's Streaming | [`Mds`], and back with [`MdsWriter`] |
//! | npz: archives of NumPy | `Npz`, and back with `NpzWriter` (feature `zip`) |
//! | Parquet and Arrow IPC, as Hugging Face `datasets` writes them | `Parquet`, `ArrowIpc`, and back with `ParquetWriter`, `ArrowIpcWriter` (feature `parquet`) |
//! | TFRecord of `tf.train.Example` | `TfRecords`, and back with `TfRecordWriter` (feature `formats`) |
//! | WebDataset: tar archives | [`WebDataset`], and back with [`WebDatasetWriter`] |

use std::io;
use std::path::{Path, PathBuf};

use crate::array::ArrayTally;
use crate::dataset::{DatasetFile, labels};
use crate::error::{Error, Result};
use crate::regular;

pub(crate) mod sample;
mod names;
#[cfg(any(feature = "formats", feature = "parquet"))]
mod find;
pub(crate) mod compressed;
mod digest;
mod guard;
mod shard_file;
pub(crate) mod archive;
mod input;
mod in_order;
mod ranges;
mod chained;
mod image_folder;
#[cfg(feature = "images")]
mod images;
mod jsonl;
mod webdataset;
mod mds;
mod rows;
mod idx;
pub(crate) mod cifar;
#[cfg(feature = "zip")]
mod npz;
#[cfg(feature = "formats")]
mod csv;
#[cfg(feature = "formats")]
mod tfrecord;
#[cfg(feature = "parquet")]
mod arrow;
mod dataset;
#[cfg(feature = "download")]
mod fetch;
mod recode;
mod passing;
mod unit_log;
mod parts;

pub use crate::natural::natural_order;
pub use crate::regular::open_regular;
#[cfg(feature = "parquet")]
pub use arrow::{ArrowIpc, ArrowIpcWriter, Parquet, ParquetWriter};
pub use chained::Chained;
pub use cifar::Cifar;
pub use compressed::first_bytes;
#[cfg(feature = "formats")]
pub use csv::{Csv, CsvType, CsvWriter};
pub use dataset::DatasetSource;
#[cfg(feature = "download")]
pub use fetch::Fetch;
pub use idx::Idx;
pub use image_folder::{FolderOptions, ImageFolder, ImageFolderWriter};
#[cfg(feature = "images")]
pub use images::{ImageOptions, Images, Resize, StoredAs, Subsampling};
pub use in_order::InOrder;
pub use input::{Emit, Input};
pub use jsonl::{JsonLines, JsonLinesFile};
pub use mds::{Mds, MdsWriter};
pub use names::expand_braces;
#[cfg(feature = "zip")]
pub use npz::{Npz, NpzWriter};
pub use parts::{Part, Parts, Place};
pub use passing::{Duplicates, Observer, Passed, convert, is_bad_input, pass};
pub use recode::Recode;
#[cfg(feature = "formats")]
pub use tfrecord::{TfRecordWriter, TfRecords};
pub use unit_log::{Resumed, Resumption, UnitLog, resume, unfinished_plan};
pub use webdataset::{ShardOptions, WebDataset, WebDatasetWriter};

/// Raw data that becomes samples.
pub trait Source: Send {
    /// The next samples, packed, in order; an empty batch is the end. After an error of one
    /// sample the source goes on with the next.
    fn next_batch(&mut self) -> Result<Vec<Result<Vec<u8>>>>;

    /// Adds to an error about the `item`-th sample of the last batch where that sample came from.
    fn locate(&self, item: usize, error: Error) -> Error {
        let _ = item;
        error
    }

    /// The unit of an [`Input`] that the last batch is from: all those before it have been handed
    /// out whole, in the batches before. After the last batch it is the one after the last.
    fn unit(&self) -> Option<usize> {
        None
    }

    /// What became of arrays so far that are stored otherwise on the way.
    fn arrays(&self) -> Option<&ArrayTally> {
        None
    }

    /// How many samples there will be, where that is known.
    fn len_hint(&self) -> Option<u64> {
        None
    }

    /// The names of the numeric labels, where there are any.
    fn label_names(&self) -> Option<&[String]> {
        None
    }
}

impl<T: Source + ?Sized> Source for Box<T> {
    fn next_batch(&mut self) -> Result<Vec<Result<Vec<u8>>>> {
        (**self).next_batch()
    }

    fn locate(&self, item: usize, error: Error) -> Error {
        (**self).locate(item, error)
    }

    fn unit(&self) -> Option<usize> {
        (**self).unit()
    }

    fn arrays(&self) -> Option<&ArrayTally> {
        (**self).arrays()
    }

    fn len_hint(&self) -> Option<u64> {
        (**self).len_hint()
    }

    fn label_names(&self) -> Option<&[String]> {
        (**self).label_names()
    }
}

/// The file that holds the names of the numeric labels of a dataset, one a line: `NAME.labels`.
pub fn labels_path(dataset: &Path) -> PathBuf {
    DatasetFile::Labels.path(dataset)
}

/// The names of the numeric labels of a dataset, if the file of them is there.
///
/// # Errors
///
/// [`Damaged`](crate::ErrorKind::Damaged) if they are not UTF-8.
pub fn read_labels(dataset: &Path) -> Result<Option<Vec<String>>> {
    let path = labels_path(dataset);
    match regular::read(&path) {
        Ok(content) => labels::parse(content).map(Some).map_err(|error| error.at(path)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::io(path, error)),
    }
}
