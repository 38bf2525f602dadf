//! Conversion: raw data in, samples out.
//!
//! A [`Source`] hands out batches of packed samples, in an order that depends on nothing but the
//! data; [`convert`] writes them. Reading and packing happen on all cores, writing in order.
//! [`Recode`] around a source stores arrays packed, or plain; `Images` (feature `images`) resizes and
//! encodes images.
//!
//! What other libraries write is an [`Input`]: it falls into units, such as shards, that can be read
//! one without the other. [`InOrder`] makes a [`Source`] of it.
//!
//! | from | |
//! | --- | --- |
//! | folders, lists and zip archives of images | [`ImageFolder`], and folders back with [`ImageFolderWriter`] |
//! | JSON lines | [`JsonLines`] |
//! | CSV and TSV | `Csv`, and back with `CsvWriter` (feature `formats`) |
//! | CIFAR-10 and -100, MNIST: pickles, binary files, idx | [`Cifar`], [`Idx`] |
//! | MDS: shards of MosaicML's Streaming | [`Mds`], and back with [`MdsWriter`] |
//! | npz: archives of NumPy | `Npz`, and back with `NpzWriter` (feature `zip`) |
//! | TFRecord of `tf.train.Example` | `TfRecords`, and back with `TfRecordWriter` (feature `formats`) |
//! | WebDataset: tar archives | [`WebDataset`], and back with [`WebDatasetWriter`] |

use std::path::PathBuf;

use crate::error::{Error, ErrorKind, Result};
use crate::writer::Writer;

pub(crate) mod sample;
mod names;
pub(crate) mod compressed;
mod shard_file;
pub(crate) mod archive;
mod input;
mod image_folder;
#[cfg(feature = "images")]
mod images;
mod jsonl;
mod webdataset;
mod mds;
mod rows;
mod idx;
mod cifar;
#[cfg(feature = "zip")]
mod npz;
#[cfg(feature = "formats")]
mod csv;
#[cfg(feature = "formats")]
mod tfrecord;
mod dataset;
#[cfg(feature = "download")]
mod fetch;
mod recode;

pub use crate::natural::natural_order;
pub use cifar::Cifar;
#[cfg(feature = "formats")]
pub use csv::{Csv, CsvType, CsvWriter};
pub use dataset::DatasetSource;
#[cfg(feature = "download")]
pub use fetch::Fetch;
pub use idx::Idx;
pub use image_folder::{FolderOptions, ImageFolder, ImageFolderWriter};
#[cfg(feature = "images")]
pub use images::{ImageOptions, Images, Resize, StoredAs, Subsampling};
pub use input::{Emit, InOrder, Input};
pub use jsonl::JsonLines;
pub use mds::{Mds, MdsWriter};
pub use names::expand_braces;
#[cfg(feature = "zip")]
pub use npz::{Npz, NpzWriter};
pub use recode::Recode;
#[cfg(feature = "formats")]
pub use tfrecord::{TfRecordWriter, TfRecords};
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

    fn len_hint(&self) -> Option<u64> {
        (**self).len_hint()
    }

    fn label_names(&self) -> Option<&[String]> {
        (**self).label_names()
    }
}

/// A batch of fewer bytes is from a source that had no more just now: it may be a while until the
/// next one, so what there is goes to the file.
const TRICKLE: u64 = 16 << 10;

/// What becomes of a sample whose key is there already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Duplicates {
    /// The conversion stops with an error.
    Refuse,
    /// The first one stays, later ones are passed over.
    Skip,
}

/// Writes all samples of a source, and says how many were passed over; stops at the first error.
/// `progress` hears how many samples were seen so far.
pub fn convert(
    source: &mut dyn Source,
    writer: &mut Writer,
    duplicates: Duplicates,
    mut progress: impl FnMut(u64),
) -> Result<u64> {
    let (mut seen, mut skipped) = (0, 0);
    loop {
        let batch = source.next_batch()?;
        if batch.is_empty() {
            return Ok(skipped);
        }
        let before = writer.bytes();
        for (item, sample) in batch.into_iter().enumerate() {
            seen += 1;
            match writer.write_packed(&sample?) {
                Ok(()) => {}
                Err(error)
                    if error.kind() == ErrorKind::DuplicateKey
                        && duplicates == Duplicates::Skip =>
                {
                    skipped += 1;
                }
                Err(error) => return Err(source.locate(item, error)),
            }
        }
        if writer.bytes() - before < TRICKLE {
            writer.flush()?;
        }
        progress(seen);
    }
}

/// The file that holds the names of the numeric labels of a dataset, one a line: `NAME.labels`.
pub fn labels_path(dataset: &std::path::Path) -> PathBuf {
    let mut name = dataset.as_os_str().to_os_string();
    name.push(".labels");
    PathBuf::from(name)
}
