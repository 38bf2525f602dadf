//! Conversion: raw data, other formats and datasets to datasets, and datasets to other formats.
//!
//! A [`Conversion`] describes all of it: sources, fields, keys, images, arrays, bad input, splits,
//! and the output. It [runs](Conversion::run) from start to end, or resumes; it runs in
//! [parts](Conversion::run_part) on several machines, which [`commit`] joins; it tells what it
//! [would do](Conversion::plan), and what would happen to
//! [each field](Conversion::dry_run). The command `kiste convert` is a thin layer over it. A
//! [`Monitor`] hears of progress and can stop it, and a [`Report`] says what was done.
//!
//! Below it are the pieces, for programs that want to do one thing differently. What other libraries
//! write is an [`Input`]: it consists of units, such as shards, each of them readable without the
//! others. [`InOrder`] reads them on all cores and makes a [`Source`] of them: batches of packed
//! samples, in an order that depends on nothing but the data. [`Recode`] around a source stores
//! arrays packed or plain; `Images` (feature `images`) resizes and encodes images. At the other end
//! is a [`SampleWriter`].
//!
//! Because the units are the same everywhere, a conversion can be divided and resumed: a part is a
//! run of units, and a log next to an unfinished dataset says which units are complete. Either way
//! the bytes are the same as from one conversion from start to end.
//!
//! | [`Format`] | read | written |
//! | --- | --- | --- |
//! | folders, lists and zip archives of images | yes | folders |
//! | JSON lines | yes, also as a stream | yes |
//! | datasets | yes | [`Writer`](crate::Writer) |
//! | CSV and TSV (feature `formats`) | yes, also as a stream | yes |
//! | CIFAR-10 and -100: pickles and binary files | yes | |
//! | MNIST: idx files | yes | |
//! | MDS: shards of MosaicML Streaming | yes | yes |
//! | npz: archives of NumPy (feature `zip`) | yes | yes |
//! | Parquet and Arrow IPC (feature `parquet`) | yes | yes |
//! | TFRecord of `tf.train.Example` (feature `formats`) | yes | yes |
//! | WebDataset: tar archives | yes, also as a stream | yes |

use crate::array::ArrayTally;
use crate::error::{Error, Result};

mod file_names;
mod encoding;
mod decoded;
mod source_file;
mod signed;
#[cfg(feature = "parquet")]
mod ranged_file;
pub(crate) mod compressed;
mod stale_files;
pub(crate) mod archive;
mod input;
mod in_order;
mod chained;
#[cfg_attr(not(feature = "images"), expect(unreachable_pub, reason = "reached through `Images`"))]
mod changed;
mod loaded;
mod masks;
mod named_labels;
mod split_names;
pub(crate) mod formats;
mod image_choices;
#[cfg(feature = "images")]
mod images;
#[cfg(feature = "download")]
mod fetch;
mod recode;
mod writer;
mod reshape;
mod kept_fields;
mod chained_streams;
mod option_list;
mod read_options;
mod samples;
mod format;
mod carried;
mod split;
mod split_upload;
mod options;
mod conversion;
mod output_checks;
mod source_patterns;
mod layout;
mod in_place;
mod splits;
mod planned_labels;
mod open;
mod monitor;
mod bad_input;
mod same_keys;
mod passing;
mod quarantine;
mod unit_log;
mod job;
mod combined;
mod compared;
mod plan;
mod report;
mod sample_lines;
mod shard_limit;
mod sharded_writer;
mod export_dir;
mod export_form;
mod export;
mod exporting;
#[cfg(feature = "stat")]
mod dry_run;
mod run;
mod scattered;
mod commit_end;
mod commit;
mod appended;
mod part_runs;
mod piece_cutter;
mod piece_home;
mod earlier_keys;
mod pieces;
mod shards;
mod trimmed_shards;
mod unfinished;
mod parted_shuffle;

#[doc(hidden)]
pub use crate::guard::panic_is_caught;
pub use bad_input::BadInput;
pub use carried::{
    Carried, ChangedValues, Extent, Handling, LeftOut, NumberKind, Remark, Remarks, ValueKind,
    ValuePlace,
};
#[doc(hidden)]
pub use chained::Chained;
pub use commit::commit;
pub use conversion::Conversion;
pub use decoded::TextEncoding;
#[cfg(feature = "stat")]
pub use dry_run::{DryRun, FieldOutcome, TriedField};
#[cfg(feature = "download")]
pub use fetch::Fetch;
/// For the fuzzer: a few braces can stand for many names.
#[doc(hidden)]
pub use file_names::expand_braces;
pub use format::Format;
#[doc(hidden)]
pub use format::{check_dataset_name, check_is_dataset};
#[cfg(feature = "parquet")]
#[doc(hidden)]
pub use formats::arrow::{ArrowIpcReader, ArrowIpcWriter, ParquetReader, ParquetWriter};
#[doc(hidden)]
pub use formats::cifar::{CifarLabels, CifarReader};
#[doc(hidden)]
pub use formats::coco::CocoReader;
#[cfg(feature = "formats")]
#[doc(hidden)]
pub use formats::csv::{CsvReader, CsvType, CsvWriter};
#[doc(hidden)]
pub use formats::dataset::DatasetInput;
#[doc(hidden)]
pub use formats::image_folder::{FolderOptions, ImageFolderReader, ImageFolderWriter};
#[doc(hidden)]
pub use formats::jsonl::JsonLinesStream;
#[doc(hidden)]
pub use formats::jsonl::{JsonLinesReader, JsonLinesWriter};
#[doc(hidden)]
pub use formats::mds::{MdsReader, MdsWriter};
#[doc(hidden)]
pub use formats::mnist::{MnistOptions, MnistReader};
#[cfg(feature = "zip")]
#[doc(hidden)]
pub use formats::npz::{NpzOptions, NpzReader, NpzWriter};
#[cfg(feature = "formats")]
#[doc(hidden)]
pub use formats::tfrecord::{TfRecordReader, TfRecordWriter};
#[doc(hidden)]
pub use formats::webdataset::{WebDatasetReader, WebDatasetWriter};
pub use image_choices::{ChromaSubsampling, Resize, StoredAs};
#[cfg(feature = "images")]
pub use images::{ImageOptions, Images};
pub use in_order::InOrder;
pub use in_place::{InPlace, InPlaceReport};
pub use input::{Emit, Input};
pub use job::part::Part;
pub use monitor::{Monitor, Notice, Phase, Progress, Silent, Total};
pub use options::Duplicates;
#[doc(hidden)]
pub use output_checks::{check_data_path, check_finished, is_same};
pub use parted_shuffle::PartedShuffle;
pub use passing::convert;
pub use plan::{Plan, PlannedFile};
#[doc(hidden)]
pub use quarantine::settle_quarantine;
#[doc(hidden)]
pub use recode::Recode;
pub use report::{BadSamples, Report, WrittenOutput};
#[doc(hidden)]
pub use sample_lines::{LineForm, SampleLines, to_json};
pub use split::Split;
#[doc(hidden)]
pub use unfinished::{UnfinishedShards, remove_unfinished_shards, unfinished_shards};
pub use writer::SampleWriter;

pub(crate) use crate::natural::natural_order;
#[doc(hidden)]
pub use crate::regular::open_regular;
use job::{Journal, Place};
use unit_log::UnitLog;

/// Raw data that becomes samples.
pub trait Source: Send {
    /// The next samples, packed, in order; an empty batch is the end. After an error of one
    /// sample the source continues with the next.
    fn next_batch(&mut self) -> Result<Vec<Result<Vec<u8>>>>;

    /// Adds to an error about the `item`-th sample of the last batch where that sample came from.
    fn locate(&self, item: usize, error: Error) -> Error {
        match self.inner() {
            Some(inner) => inner.locate(item, error),
            None => error,
        }
    }

    /// The source that this one wraps, if it does. It answers what this one does not say itself.
    fn inner(&self) -> Option<&dyn Source> {
        None
    }

    /// The unit of an [`Input`] that the last batch is from: all those before it have been handed
    /// out whole, in the batches before. After the last batch it is the one after the last.
    fn unit(&self) -> Option<usize> {
        self.inner()?.unit()
    }

    /// The name in keys of the file that the last batch is from: see [`Input::shard`].
    fn shard(&self) -> Option<&str> {
        self.inner()?.shard()
    }

    /// Counts the arrays so far that are stored otherwise on the way.
    fn arrays(&self) -> Option<&ArrayTally> {
        self.inner()?.arrays()
    }

    /// What was left out or changed on the way to the samples so far: of the units before that of the
    /// last batch, and of that one.
    fn remarks(&self) -> [&Remarks; 2] {
        self.inner().map_or([Remarks::NONE; 2], |inner| inner.remarks())
    }

    /// How many samples there will be, where that is known.
    fn len_hint(&self) -> Option<u64> {
        self.inner()?.len_hint()
    }

    /// The names of the numeric labels, where there are any.
    fn label_names(&self) -> Option<&[String]> {
        self.inner()?.label_names()
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

    fn shard(&self) -> Option<&str> {
        (**self).shard()
    }

    fn arrays(&self) -> Option<&ArrayTally> {
        (**self).arrays()
    }

    fn remarks(&self) -> [&Remarks; 2] {
        (**self).remarks()
    }

    fn len_hint(&self) -> Option<u64> {
        (**self).len_hint()
    }

    fn label_names(&self) -> Option<&[String]> {
        (**self).label_names()
    }
}
