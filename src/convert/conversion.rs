//! [`Conversion`]: the description of a conversion, which is also its plan.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::Input;
use super::bad::BadInput;
use super::format::{self, Format};
use super::options::{Duplicates, How, Options};
use super::split::{Split, is_default};
use crate::dataset::{Writer, WriterOptions};
use crate::error::{Error, ErrorKind, Remedy, Result};
use crate::rearrange::check_free;
use crate::storage::{self, LocalStorage, Storage};

/// Describes a conversion: from raw data, other formats or datasets, to a dataset, several datasets, or another
/// format.
///
/// A conversion is a description. Nothing is opened until [`run`](Conversion::run),
/// [`run_part`](Conversion::run_part), [`dry_run`](Conversion::dry_run) or
/// [`plan`](Conversion::plan), which also check it. It can be serialised: that is what a plan
/// contains, and how a part, a resumed run or [`commit`](super::commit) know that they belong
/// together.
///
/// ```
/// use kiste::convert::{BadInput, Conversion, Silent};
///
/// # let dir = tempfile::tempdir()?;
/// # let (lines, words) = (dir.path().join("words.jsonl"), dir.path().join("words.msgpack"));
/// # std::fs::write(&lines, "{\"key\": \"a\", \"n\": 1, \"junk\": 0}\n{\"key\": \"b\", \"n\": 2}\n")?;
/// let report = Conversion::new([&lines], &words)
///     .drop_fields(["junk"])
///     .rename("n", "count")
///     .on_bad_input(BadInput::Skip)
///     .run(&mut Silent)?;
/// assert_eq!(report.outputs[0].samples, 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// A large conversion can be divided: any number of machines run the parts, in any order, and one
/// of them [commits](super::commit). The bytes are those of one run.
///
/// ```
/// use kiste::convert::{Conversion, Part, Silent, commit};
///
/// # let dir = tempfile::tempdir()?;
/// # let (lines, words) = (dir.path().join("words.jsonl"), dir.path().join("words.msgpack"));
/// # std::fs::write(&lines, "{\"key\": \"a\"}\n{\"key\": \"b\"}\n")?;
/// let conversion = Conversion::new([&lines], &words);
/// for part in Part::all(3) {
///     conversion.run_part(part, &mut Silent)?;
/// }
/// assert_eq!(commit(&words, &mut Silent)?.outputs[0].samples, 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[must_use = "a conversion does nothing until it is run"]
pub struct Conversion {
    pub(super) sources: Vec<PathBuf>,
    #[serde(default, skip_serializing_if = "is_default")]
    pub(super) output: PathBuf,
    #[serde(default)]
    pub(super) options: Options,
    #[serde(skip)]
    pub(super) how: How,
    /// Samples that the program provides; `sources` then has their name.
    #[serde(skip)]
    pub(super) input: Option<OwnInput>,
}

/// An input that no file name describes.
#[derive(Clone)]
pub(super) struct OwnInput(pub(super) Arc<dyn Input>);

impl fmt::Debug for OwnInput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OwnInput({} units)", self.0.units())
    }
}

impl PartialEq for OwnInput {
    fn eq(&self, other: &OwnInput) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

fn strings<S: Into<String>>(names: impl IntoIterator<Item = S>) -> Vec<String> {
    names.into_iter().map(Into::into).collect()
}

impl Conversion {
    /// Converts these sources, in this order, to this output.
    ///
    /// A source is a file, a directory, a pattern of images such as `photos/{LABEL}/**`, a pattern of
    /// files of another format such as `train-*.tar`, or `-` for JSON lines from standard input. A source
    /// that does not exist may have braces such as `{000..123}`. The output is the data file of a dataset, or a file or directory of another
    /// [format](Conversion::to).
    pub fn new<P: Into<PathBuf>>(
        sources: impl IntoIterator<Item = P>,
        output: impl AsRef<Path>,
    ) -> Conversion {
        Conversion {
            sources: sources.into_iter().map(Into::into).collect(),
            output: output.as_ref().to_path_buf(),
            options: Options::default(),
            how: How::default(),
            input: None,
        }
    }

    /// Converts the samples of an [`Input`] of the program's own to this output. All options apply, except the
    /// ones for reading files.
    ///
    /// The name stands for the input in a plan, by which a resumed run and the parts recognise each
    /// other: two inputs of one name and output must have the same units. Files that the input
    /// [names](Input::path) or [identifies](Input::identify) are compared by size and time.
    ///
    /// ```
    /// use kiste::convert::{Conversion, Emit, Input, Silent};
    /// use kiste::format::msgpack::to_vec;
    ///
    /// struct Squares;
    ///
    /// impl Input for Squares {
    ///     fn units(&self) -> usize {
    ///         10
    ///     }
    ///
    ///     fn read(&self, unit: usize, emit: &mut Emit<'_>) -> kiste::Result<()> {
    ///         for n in unit * 10..unit * 10 + 10 {
    ///             let fields = [("key", n.to_string().into()), ("square", (n * n).into())];
    ///             let fields = fields.into_iter().map(|(name, value)| (name.into(), value));
    ///             emit(Ok(to_vec(&kiste::Value::Map(fields.collect()))?))?;
    ///         }
    ///         Ok(())
    ///     }
    /// }
    ///
    /// # let dir = tempfile::tempdir()?;
    /// let output = dir.path().join("squares.msgpack");
    /// let report = Conversion::from_input("squares", Squares, &output).run(&mut Silent)?;
    /// assert_eq!(report.outputs[0].samples, 100);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn from_input(
        name: impl Into<PathBuf>,
        input: impl Input + 'static,
        output: impl AsRef<Path>,
    ) -> Conversion {
        let conversion = Conversion::new([name], output);
        Conversion { input: Some(OwnInput(Arc::new(input))), ..conversion }
    }

    // What is read.

    /// The format of the sources. Default: what each certainly is, by its name or its first bytes.
    pub fn from(mut self, format: Format) -> Self {
        self.options.from = Some(format);
        self
    }

    /// The features of TFRecord that are strings. Default: none; byte strings stay bytes.
    pub fn texts<S: Into<String>>(mut self, features: impl IntoIterator<Item = S>) -> Self {
        self.options.read.texts = strings(features);
        self
    }

    /// Whether columns of CSV, TSV and lists that hold numbers become numbers, for which tables are
    /// read twice. Default: no; they are strings.
    pub fn guess_types(mut self, yes: bool) -> Self {
        self.options.read.guess_types = yes;
        self
    }

    /// The byte between the values of a row in CSV, TSV and lists. Default: a tab in TSV and in lists
    /// whose names do not end in `.csv`, else a comma.
    pub fn delimiter(mut self, delimiter: u8) -> Self {
        self.options.read.delimiter = Some(delimiter.into());
        self
    }

    /// Whether quotes around a value of CSV, TSV and lists do not belong to it. Without, a quote is a
    /// character like others, and each line is a row. Default: yes.
    pub fn quotes(mut self, yes: bool) -> Self {
        self.options.read.plain_quotes = !yes;
        self
    }

    /// Whether names that begin with `$` have no meaning in JSON lines, as other programs write them.
    /// Default: no; they have the meaning of [`format::jsonl`](crate::format::jsonl).
    pub fn plain_json(mut self, yes: bool) -> Self {
        self.options.read.plain_json = yes;
        self
    }

    /// Refuses a file, line, row, record, page, batch or shard that is larger than this when
    /// decompressed. Default: 1 GiB; 4 GiB for shards of MDS and files of MNIST, 16 GiB for all
    /// arrays of an npz together.
    pub fn max_bytes(mut self, bytes: u64) -> Self {
        self.options.read.max_bytes = Some(bytes);
        self
    }

    /// The files below a directory, or in a zip archive, that are images: patterns such as
    /// `train/{LABEL}/**`. Default: `{LABEL}/**`.
    pub fn pattern<S: Into<String>>(mut self, patterns: impl IntoIterator<Item = S>) -> Self {
        self.options.read.pattern = strings(patterns);
        self
    }

    /// Only the images that match one of these patterns. Default: all.
    pub fn include<S: Into<String>>(mut self, patterns: impl IntoIterator<Item = S>) -> Self {
        self.options.read.include = strings(patterns);
        self
    }

    /// None of the images that match one of these patterns. Default: none.
    pub fn exclude<S: Into<String>>(mut self, patterns: impl IntoIterator<Item = S>) -> Self {
        self.options.read.exclude = strings(patterns);
        self
    }

    /// The directory that paths in a list are relative to. A source that is a file is a list then.
    /// Default: the directory of the list.
    pub fn root(mut self, dir: impl AsRef<Path>) -> Self {
        self.options.read.root = Some(dir.as_ref().to_path_buf());
        self
    }

    /// Whether names in the sources may lead out of their folder: the files of a list, a table, an index or a
    /// manifest. Then they may be anywhere on this machine, also behind symbolic links, and names in a list
    /// also at URLs. For trusted sources only. Default: no.
    pub fn allow_outside(mut self, yes: bool) -> Self {
        self.options.read.allow_outside = yes;
        self
    }

    /// Whether the first row of a list names the columns. Default: detected.
    pub fn header(mut self, yes: bool) -> Self {
        self.options.read.header = Some(yes);
        self
    }

    /// A file with all labels of images, one per line, in the order of their numbers, from 0. Default: the labels
    /// that occur, in natural order.
    pub fn labels(mut self, file: impl AsRef<Path>) -> Self {
        self.options.read.labels = Some(file.as_ref().to_path_buf());
        self
    }

    /// Whether samples hold labels as strings instead of numbers. Default: no.
    pub fn text_labels(mut self, yes: bool) -> Self {
        self.options.read.text_labels = yes;
        self
    }

    // What happens to images; needs the feature `images`.

    /// Resizes images: `640x480`, `short:256`, `max:1024`. See `Resize`.
    pub fn resize(mut self, size: impl Into<String>) -> Self {
        self.options.read.resize = Some(size.into());
        self
    }

    /// Whether small images become larger too. Default: no.
    pub fn upscale(mut self, yes: bool) -> Self {
        self.options.read.upscale = yes;
        self
    }

    /// Encodes images as `jpeg`, `png`, `webp` or `keep`. See `StoredAs`. Default: `keep`.
    pub fn image_format(mut self, format: impl Into<String>) -> Self {
        self.options.read.image_format = Some(format.into());
        self
    }

    /// The quality of encoded JPEG, 1 to 100. Default: 90.
    pub fn quality(mut self, quality: u8) -> Self {
        self.options.read.quality = Some(quality);
        self
    }

    /// The chroma subsampling of encoded JPEG: `4:4:4`, `4:2:2` or `4:2:0`. Default: `4:2:0`.
    pub fn subsampling(mut self, ratio: impl Into<String>) -> Self {
        self.options.read.subsampling = Some(ratio.into());
        self
    }

    /// Whether all images are decoded, to find those that are damaged. Default: no.
    pub fn verify_images(mut self, yes: bool) -> Self {
        self.options.read.verify_images = yes;
        self
    }

    /// The fields that hold images. Default: all that begin like an image.
    pub fn image_fields<S: Into<String>>(mut self, fields: impl IntoIterator<Item = S>) -> Self {
        self.options.read.image_fields = strings(fields);
        self
    }

    /// Refuses images of more pixels than this. Default: 200 million.
    pub fn max_pixels(mut self, pixels: u64) -> Self {
        self.options.read.max_pixels = Some(pixels);
        self
    }

    // What samples become.

    /// Keeps only these fields, and the key. Default: all.
    pub fn fields<S: Into<String>>(mut self, names: impl IntoIterator<Item = S>) -> Self {
        self.options.fields = strings(names);
        self
    }

    /// Leaves these fields out.
    pub fn drop_fields<S: Into<String>>(mut self, names: impl IntoIterator<Item = S>) -> Self {
        self.options.drop = strings(names);
        self
    }

    /// Renames a field. Call it once for each.
    pub fn rename(mut self, old: impl Into<String>, new: impl Into<String>) -> Self {
        self.options.rename.push((old.into(), new.into()));
        self
    }

    /// The field that becomes the key: a string, bytes that are one, or an integer. A column of the
    /// source that is called `key` is then a field like others, and stays as `_key`;
    /// [`rename`](Self::rename) and [`drop_fields`](Self::drop_fields) call it `key`.
    pub fn key_field(mut self, name: impl Into<String>) -> Self {
        self.options.key_field = Some(name.into());
        self
    }

    /// A pattern that keys are made from: text with `{key}`, `{key.stem}` (the key without its
    /// ending), `{key.name}` (its last component), `{key.shard}` (what the file of the sample
    /// is called in keys) and `{FIELD}`. Without the first three, a column `key` stays, as with
    /// [`key_field`](Self::key_field).
    pub fn key(mut self, pattern: impl Into<String>) -> Self {
        self.options.key = Some(pattern.into());
        self
    }

    /// Writes at most this many samples, not counting those that are skipped. A part writes up to
    /// as many, and [`commit`](super::commit) takes the first.
    pub fn limit(mut self, samples: u64) -> Self {
        self.options.limit = Some(samples);
        self
    }

    /// How arrays are stored: `plain`, `blpk` or `blpk:CODEC:LEVEL:SHUFFLE`. See
    /// [`ArrayPolicy`](crate::array::ArrayPolicy). Default: as they are.
    pub fn arrays(mut self, form: impl Into<String>) -> Self {
        self.options.arrays = Some(form.into());
        self
    }

    /// Packs only arrays of at least this many bytes. Default: 1 KiB.
    pub fn arrays_min(mut self, bytes: usize) -> Self {
        self.options.arrays_min = Some(bytes);
        self
    }

    /// Only the arrays in these fields. Default: in all.
    pub fn arrays_fields<S: Into<String>>(mut self, names: impl IntoIterator<Item = S>) -> Self {
        self.options.arrays_fields = strings(names);
        self
    }

    /// What happens to bad input. Default: it stops the conversion.
    pub fn on_bad_input(mut self, bad: BadInput) -> Self {
        self.options.bad = bad;
        self
    }

    /// What happens to samples whose key was there before. Default: they stop the conversion.
    pub fn on_duplicates(mut self, duplicates: Duplicates) -> Self {
        self.options.duplicates = duplicates;
        self
    }

    // What is written.

    /// The format of the output. Default: what its name says, and else a dataset.
    pub fn to(mut self, format: Format) -> Self {
        self.options.to = Some(format);
        self
    }

    /// Distributes samples over several datasets. Default: one dataset.
    pub fn split(mut self, split: Split) -> Self {
        self.options.split = split;
        self
    }

    /// The bytes of a shard, where the output is a dataset of many files, `NAME.shards.json`: a shard
    /// ends with the sample that reaches them. Default: 2 GiB, and in parts one shard for each part.
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
    pub fn shard_size(mut self, bytes: u64) -> Self {
        self.options.shard_size = Some(bytes);
        self
    }

    /// How many shards there are, where the output is a dataset of many files: runs of the input with as
    /// many samples each, or where their number is not known with about as many bytes. Default: what [`shard_size`](Self::shard_size) makes.
    pub fn shards(mut self, count: usize) -> Self {
        self.options.shards = Some(count);
        self
    }

    /// Appends to the dataset that is there; to one of many files new shards. Default: no.
    pub fn append(mut self, yes: bool) -> Self {
        self.options.append = yes;
        self
    }

    /// Replaces an output that is there, when the new one is complete: a dataset, a file, all shards
    /// of the name, or a folder with nothing but shards of MDS. A folder of images is never
    /// replaced, as nothing says that its files came from a conversion. Default: an output that is
    /// there is an error.
    pub fn overwrite(mut self, yes: bool) -> Self {
        self.options.overwrite = yes;
        self
    }

    /// Whether digests are written (`.md5`). Default: yes.
    pub fn digests(mut self, yes: bool) -> Self {
        self.options.no_digests = !yes;
        self
    }

    /// Whether `.lookup` is written. Default: `None`, which leaves it to the number of samples
    /// ([`WriterOptions::lookup`]).
    pub fn lookup(mut self, yes: impl Into<Option<bool>>) -> Self {
        self.options.lookup = yes.into();
        self
    }

    /// Whether a checksum of each sample is written (`.crc`). Default: no.
    pub fn checksums(mut self, yes: bool) -> Self {
        self.options.checksums = yes;
        self
    }

    // How it runs. None of this is part of the plan.

    /// Continues what an earlier run of the same conversion left, if it did. An error then keeps
    /// what was written for the next run. Default: no.
    pub fn resume(mut self, yes: bool) -> Self {
        self.how.resume = yes;
        self
    }

    /// Whether a conversion that its [monitor](super::Monitor) stops keeps what it has written, for
    /// a later one that [resumes](Self::resume), also if this one did not ask to resume. One that
    /// could not be resumed keeps nothing. Default: no.
    pub fn keep_cancelled(mut self, yes: bool) -> Self {
        self.how.keep_cancelled = yes;
        self
    }

    /// Whether the end waits for the disk. Default: yes.
    pub fn durable(mut self, yes: bool) -> Self {
        self.how.durable = yes;
        self
    }

    /// Whether datasets are read through a memory map. Without one, a file that another program
    /// truncates meanwhile is an error, and not a signal that ends the process. Default: yes.
    pub fn memory_map(mut self, yes: bool) -> Self {
        self.how.mapped = yes;
        self
    }

    /// For tests: the bytes after which a piece ends that is joined later.
    #[doc(hidden)]
    pub fn piece_bytes(mut self, bytes: u64) -> Self {
        self.how.piece_bytes = bytes;
        self
    }

    /// The sources.
    pub fn sources(&self) -> &[PathBuf] {
        &self.sources
    }

    /// The output.
    pub fn output(&self) -> &Path {
        &self.output
    }

    /// The format of the output: the one that was given, or what its name says.
    pub fn output_format(&self) -> Format {
        self.options.to.unwrap_or_else(|| Format::of_output(&self.output))
    }

    pub(super) fn storage(&self) -> Arc<dyn Storage> {
        let outside = self.options.read.allow_outside;
        Arc::new(match self.how.mapped {
            true => LocalStorage::mapped().allow_outside(outside),
            false => LocalStorage::positioned().allow_outside(outside),
        })
    }

    pub(super) fn writer_options(&self) -> WriterOptions {
        Writer::options()
            .digests(!self.options.no_digests)
            .lookup(self.options.lookup)
            .checksums(self.options.checksums)
            .durable(self.how.durable)
    }

    /// Fails if something is in the place of the output that must stay, before any work is done. A
    /// run checks it too, but only when it begins: a program with several conversions can ask all of
    /// them first.
    ///
    /// # Errors
    ///
    /// [`AlreadyExists`](ErrorKind::AlreadyExists), unless the conversion
    /// [overwrites](Self::overwrite), [appends](Self::append) or [resumes](Self::resume).
    pub fn check_output(&self) -> Result<()> {
        if self.options.overwrite || self.options.append || self.how.resume {
            return Ok(());
        }
        let is_dataset = self.output_format() == Format::Dataset;
        let what = if is_dataset { "dataset" } else { "output" };
        check_free(&self.output, false, what)
    }

    /// Whether it writes the samples of its input to a dataset as they are, from start to end.
    #[cfg(feature = "datasets")]
    pub(crate) fn only_copies(&self) -> bool {
        let Options { overwrite, no_digests, lookup, checksums, to, .. } = self.options;
        let plain = Options { overwrite, no_digests, lookup, checksums, to, ..Options::default() };
        self.options == plain && self.output_format() == Format::Dataset && !self.how.resume
    }

    /// How the dataset is written.
    #[cfg(feature = "datasets")]
    pub(crate) fn dataset_options(&self) -> WriterOptions {
        self.writer_options().overwrite(self.options.overwrite)
    }

    pub(super) fn limit_or_max(&self) -> u64 {
        self.options.limit.unwrap_or(u64::MAX)
    }

    /// The field that is the key, if the source itself calls it `key`.
    pub(super) fn own_key(&self) -> Option<&str> {
        let key = self.options.key_field.as_deref();
        key.filter(|name| *name == crate::format::msgpack::sample::KEY)
    }

    /// Fails if the description makes no sense, before anything is opened.
    pub(super) fn check(&self) -> Result<()> {
        let invalid = |message: &str| Error::new(ErrorKind::Invalid, message);
        if self.sources.is_empty() {
            return Err(invalid("expected something to read"));
        }
        if self.output.as_os_str().is_empty() {
            return Err(invalid("expected an output to write"));
        }
        if self.output == Path::new("-") {
            return Err(invalid(
                "expected the name of an output, found -, which stands for a pipe",
            ));
        }
        super::reshape::check(&self.options)?;
        if self.options.to.is_none() {
            format::check_output_name(&self.output)?;
        }
        self.options.split.check()?;
        self.check_shards()?;
        match self.output_format() {
            Format::Dataset => {
                super::place::check_data_path(&self.output)?;
                self.check_url()?;
            }
            format => self.check_export(format)?,
        }
        if self.options.append && self.options.split.is_split() {
            return Err(invalid("cannot be combined with split").with_option("append"));
        }
        Ok(())
    }

    /// Fails for options that an output at a URL does not support: it does not exist before it is finished, and
    /// nothing can be added to it, unless it consists of many files.
    fn check_url(&self) -> Result<()> {
        if !storage::is_url(&self.output) {
            return Ok(());
        }
        let option = match () {
            () if self.options.append && !self.is_sharded() => "append",
            () if self.options.bad == BadInput::Quarantine => "bad",
            () => return Ok(()),
        };
        let message = "is not possible where the output is a URL";
        Err(Error::new(ErrorKind::Unsupported, message).with_option(option))
    }

    /// Fails for options that only datasets have.
    fn check_export(&self, format: Format) -> Result<()> {
        format.check_available()?;
        if storage::is_url(&self.output) {
            let message = format!(
                "expected the name of a file, as only datasets are written to URLs, not {format}"
            );
            return Err(
                Error::new(ErrorKind::Unsupported, message).at(storage::shown(&self.output))
            );
        }
        if format.output() == format::Output::None {
            let message = format!("{format} can be read, but not written");
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        let options = &self.options;
        let only = |option| {
            Error::new(ErrorKind::Invalid, "is for datasets, but the output is of another format")
                .with_option(option)
        };
        if options.split.is_split() {
            return Err(only("split").with_remedy(Remedy::DatasetFirst));
        }
        let option = match () {
            () if options.append => "append",
            () if options.no_digests => "digests",
            () if options.lookup == Some(true) => "lookup",
            () if options.checksums => "checksums",
            () if !self.how.durable => "durable",
            () => return Ok(()),
        };
        Err(only(option).with_remedy(Remedy::WriteDataset))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_description_comes_back_as_it_was() {
        let plain = Conversion::new(["a.jsonl"], "b.msgpack");
        assert_eq!(
            serde_json::to_string(&plain).unwrap(),
            r#"{"sources":["a.jsonl"],"output":"b.msgpack","options":{}}"#
        );
        let split = Split::new().ratio("train", 0.9).ratio("val", 0.1);
        let full = plain
            .from(Format::Csv)
            .guess_types(true)
            .rename("a", "b")
            .arrays("blpk:zstd:5")
            .on_bad_input(BadInput::Quarantine)
            .on_duplicates(Duplicates::Skip)
            .resize("short:256")
            .split(split);
        let text = serde_json::to_string(&full).unwrap();
        assert_eq!(serde_json::from_str::<Conversion>(&text).unwrap(), full);
    }
}
