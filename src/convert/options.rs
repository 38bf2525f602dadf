//! The options of a [`Conversion`](super::Conversion), as they are stored in a plan: what is not set is
//! left out.

use serde::{Deserialize, Serialize};

use super::bad_input::BadInput;
use super::format::Format;
use super::read_options::ReadOptions;
use super::split::{Split, is_default};

/// What happens to a sample whose key was there before.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Duplicates {
    /// The conversion stops with an error.
    #[default]
    Refuse,
    /// The first one stays, later ones are skipped and counted.
    Skip,
}

/// Options that change the samples or their files: see `option_list`.
macro_rules! common_options {
    ($make:ident) => {
        $crate::convert::option_list::$make! {
            Options, options,
            /// The format of the sources. Default: what each certainly is, by its name or its first bytes.
            from: value(format: Format),
            /// The format of the output. Default: what its name says, and else a dataset.
            to: value(format: Format),
            ..read: ReadOptions,
            /// Keeps only these fields, and the key. Default: all.
            fields: names,
            /// Leaves these fields out.
            drop: names as drop_fields,
            rename: own(Vec<(String, String)>),
            /// The field that becomes the key: a string, bytes that are one, or an integer. A column of the
            /// source that is called `key` is then a field like others, and stays as `_key`;
            /// [`rename`](Self::rename) and [`drop_fields`](Self::drop_fields) call it `key`.
            key_field: text,
            /// A pattern that keys are made from: text with `{key}`, `{key.stem}` (the key without its
            /// ending), `{key.name}` (its last component), `{key.shard}` (what the file of the sample
            /// is called in keys) and `{FIELD}`. Without the first three, a column `key` stays, as with
            /// [`key_field`](Self::key_field).
            key: text,
            /// Writes at most this many samples, not counting those that are skipped. A part writes up to
            /// as many, and [`commit`](super::commit) takes the first.
            limit: value(samples: u64),
            /// How arrays are stored: `plain`, `blpk` or `blpk:CODEC:LEVEL:SHUFFLE`. See
            /// [`ArrayPolicy`](crate::array::ArrayPolicy). Default: as they are.
            arrays: text,
            /// Packs only arrays of at least this many bytes. Default: 1 KiB.
            arrays_min: value(bytes: usize),
            /// Only the arrays in these fields. Default: in all.
            arrays_fields: names,
            /// What happens to bad input. Default: it stops the conversion.
            bad: plain(bad: BadInput) as on_bad_input,
            /// What happens to samples whose key was there before. Default: they stop the conversion.
            duplicates: plain(duplicates: Duplicates) as on_duplicates,
            /// Distributes samples over several outputs. Default: one.
            split: plain(split: Split),
            /// How many shards there are, where the output is a dataset of many files: runs of the input with as
            /// many samples each, or where their number is not known with about as many bytes. Default: as many as
            /// [`shard_size`](Self::shard_size) and [`shard_samples`](Self::shard_samples) make.
            shards: value(count: usize),
            /// The bytes of a shard, where the output is a dataset of many files, `NAME.shards.json`, or in another
            /// format: a shard ends with the sample that reaches them. In WebDataset they are bytes of the file. In
            /// MDS they are too, and a shard that would get larger ends before the sample. Elsewhere they are bytes
            /// of samples as a dataset has them. JSON lines, TFRecord, CSV, Parquet and Arrow then have the files
            /// `NAME-00000.EXT` and so on.
            ///
            /// Default: for a dataset of many files 2 GiB, and in parts one shard for each part; for WebDataset 1
            /// GiB or 10 000 samples, for MDS 64 MiB, and for other formats one file. With
            /// [`shard_samples`](Self::shard_samples) alone, bytes do not count.
            ///
            /// ```
            /// use kiste::DatasetReader;
            /// use kiste::convert::{Conversion, Silent};
            ///
            /// # let dir = tempfile::tempdir()?;
            /// # let (lines, words) = (dir.path().join("words.jsonl"), dir.path().join("words.shards.json"));
            /// # std::fs::write(&lines, "{\"key\": \"a\"}\n{\"key\": \"b\"}\n")?;
            /// Conversion::new([&lines], &words).shard_size(5).run(&mut Silent)?;
            /// let words = DatasetReader::open(&words)?;
            /// assert_eq!((words.shards(), words.find("b")?), (2, Some(1)));
            /// # Ok::<(), Box<dyn std::error::Error>>(())
            /// ```
            shard_size: value(bytes: u64),
            /// The samples of a shard, for the outputs that [`shard_size`](Self::shard_size) is for: a shard ends
            /// after this many, or with `shard_size` when it reaches one of the two. Samples that are left out do
            /// not count.
            ///
            /// ```
            /// use kiste::convert::{Conversion, Silent};
            ///
            /// # let dir = tempfile::tempdir()?;
            /// # let (lines, words) = (dir.path().join("words.jsonl"), dir.path().join("out.jsonl"));
            /// # std::fs::write(&lines, "{\"key\": \"a\"}\n{\"key\": \"b\"}\n{\"key\": \"c\"}\n")?;
            /// let report = Conversion::new([&lines], &words).shard_samples(2).run(&mut Silent)?;
            /// let shards = ["out-00000.jsonl", "out-00001.jsonl"].map(|name| dir.path().join(name));
            /// assert_eq!(report.outputs[0].files, shards);
            /// # Ok::<(), Box<dyn std::error::Error>>(())
            /// ```
            shard_samples: value(count: u64),
            /// Appends to the dataset that is there; to one of many files new shards. Default: no.
            append: flag,
            /// Replaces an output that is there, when the new one is complete: a dataset, a file, all shards
            /// of the name, or a folder with nothing but shards of MDS. A folder of images is never
            /// replaced, as nothing says that its files came from a conversion. Default: an output that is
            /// there is an error.
            overwrite: flag,
            /// Whether digests are written (`.md5`). Default: yes.
            no_digests: unless as digests,
            lookup: own(Option<bool>),
            /// Whether a checksum of each sample is written (`.crc`). Default: no.
            checksums: flag,
            /// The columns of `.lengths`, such as `len(tokens)`, as a [`LengthOf`](crate::rearrange::LengthOf) says
            /// them: numbers of each sample, for planning batches by length. A sample that has no such number is bad input.
            /// Default: none, and where it [appends](Self::append) those that are there.
            lengths: names,
        }
    };
}

common_options!(fields);
pub(super) use common_options;

/// Options that change neither samples nor files, and so are no part of a plan.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct How {
    pub(super) resume: bool,
    pub(super) keep_cancelled: bool,
    pub(super) durable: bool,
    pub(super) mapped: bool,
    /// Bytes of a piece that is joined later.
    pub(super) piece_bytes: u64,
}

impl Default for How {
    fn default() -> How {
        How {
            resume: false,
            keep_cancelled: false,
            durable: true,
            mapped: true,
            piece_bytes: 256 << 20,
        }
    }
}
