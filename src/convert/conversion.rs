//! [`Conversion`]: the description of a conversion, which is also its plan.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::Input;
use super::bad_input::BadInput;
use super::decoded::TextEncoding;
use super::format::{self, Format};
#[cfg(feature = "arrow")]
use super::formats::arrow::BatchesInput;
use super::image_choices::{ChromaSubsampling, Resize, StoredAs};
use super::option_list;
use super::options::{self, Duplicates, How, Options};
use super::read_options::{self, ReadOptions};
use super::split::{Split, is_default};
use crate::dataset::{Writer, WriterOptions};
use crate::error::{Error, ErrorKind, Remedy, Result};
use crate::rearrange::{LengthOf, check_free};
use crate::storage::{LocalStorage, Storage};

/// Describes a conversion: from raw data, other formats or datasets, to a dataset or another format, in one output
/// or several.
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
/// of them [commits](super::commit). The bytes are the same as from one run.
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

impl Conversion {
    /// Converts these sources, in this order, to this output.
    ///
    /// A source is a file, a directory, a pattern of images such as `photos/{LABEL}/**`, a pattern of
    /// files of another format such as `train-*.tar`, or `-` for standard input: JSON lines, or CSV, TSV and
    /// WebDataset if [`from`](Self::from) says so. A source that does not exist may have braces such as `{000..123}`. The output is the data file of a dataset, or a file or directory of another
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
    /// The name stands for the input in a plan, so that a resumed run and the parts recognise each
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
        conversion.input(input)
    }

    /// The same, of a conversion that names it as its source.
    #[doc(hidden)]
    pub fn input(self, input: impl Input + 'static) -> Conversion {
        Conversion { input: Some(OwnInput(Arc::new(input))), ..self }
    }

    /// Converts the rows of these batches in place of files: the name of the source stands for them in messages, and in
    /// the keys of rows that have none. Columns become fields as the columns of Parquet do. Feature `arrow`.
    ///
    /// Call it after the options that say what the keys are. The batches are read once, so that such a conversion is
    /// neither resumed nor divided.
    ///
    /// # Errors
    ///
    /// [`Invalid`](ErrorKind::Invalid) for columns that contradict each other.
    #[cfg(feature = "arrow")]
    pub fn batches(
        self,
        batches: Box<dyn arrow_array::RecordBatchReader + Send>,
    ) -> Result<Conversion> {
        let name = self.sources.first().map(|name| name.to_string_lossy().into_owned());
        let own_keys = !self.options.replaces_key();
        let input = BatchesInput::new(&name.unwrap_or_default(), batches, own_keys)?;
        Ok(Conversion { input: Some(OwnInput(Arc::new(input))), ..self })
    }

    options::common_options!(builders);
    read_options::read_options!(builders);

    /// The byte between the values of a row in CSV, TSV and lists. Default: a tab in TSV and in lists
    /// whose names do not end in `.csv`, else a comma.
    pub fn delimiter(mut self, delimiter: u8) -> Self {
        self.options.read.delimiter = Some(delimiter.into());
        self
    }

    /// Renames a field. Call it once for each.
    pub fn rename(mut self, old: impl Into<String>, new: impl Into<String>) -> Self {
        self.options.rename.push((old.into(), new.into()));
        self
    }

    /// Whether `.lookup` is written. Default: `None`, which leaves it to the number of samples
    /// ([`WriterOptions::lookup`]).
    pub fn lookup(mut self, yes: impl Into<Option<bool>>) -> Self {
        self.options.lookup = yes.into();
        self
    }

    /// Sets an option by its name in a plan, the method's unless that says otherwise, to what a plan has
    /// there. One name will do for a list of them. `None` if no option is called so.
    ///
    /// ```
    /// use kiste::convert::Conversion;
    ///
    /// let conversion = Conversion::new(["words.csv"], "words.msgpack");
    /// let by_name = conversion.clone().set("texts", "caption".into())?.unwrap();
    /// assert_eq!(by_name, conversion.clone().texts(["caption"]));
    /// assert!(conversion.set("colour", "red".into())?.is_none());
    /// # Ok::<(), kiste::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Invalid`](ErrorKind::Invalid) for a value of another type.
    pub fn set(mut self, name: &str, value: serde_json::Value) -> Result<Option<Conversion>> {
        let mut names = Options::NAMES.iter().chain(ReadOptions::NAMES).copied();
        let Some(name) = names.find(|known| *known == name) else { return Ok(None) };
        let set = |value| {
            let mut all = serde_json::to_value(&self.options)?;
            all[name] = value;
            serde_json::from_value::<Options>(all)
        };
        let options = set(value.clone()).or_else(|error| set([value].into()).map_err(|_| error));
        self.options = options.map_err(|error| {
            Error::new(ErrorKind::Invalid, format!("has another value: {error}")).with_option(name)
        })?;
        Ok(Some(self))
    }

    // How it runs. None of this is part of the plan.

    option_list::builders! {
        How, how,
        /// Continues what an earlier run of the same conversion left, if it did. An error then keeps
        /// what was written for the next run. Default: no.
        resume: flag,
        /// Whether a conversion that its [monitor](super::Monitor) stops keeps what it has written, for
        /// a later one that [resumes](Self::resume), also if this one did not ask to resume. One that
        /// could not be resumed keeps nothing. Default: no.
        keep_cancelled: flag,
        /// Whether the end waits for the disk. Default: yes.
        durable: flag,
        /// Whether datasets are read through a memory map. Without one, a file that another program
        /// truncates meanwhile is an error, and not a signal that ends the process. Default: yes.
        mapped: flag as memory_map,
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

    pub(super) fn writer_options(&self) -> Result<WriterOptions> {
        Ok(Writer::options()
            .digests(!self.options.no_digests)
            .lookup(self.options.lookup)
            .checksums(self.options.checksums)
            .lengths(self.parsed_lengths()?)
            .known_lengths(LengthOf::measure)
            .durable(self.how.durable))
    }

    fn parsed_lengths(&self) -> Result<Vec<LengthOf>> {
        let invalid = |e| Error::from(e).with_option("lengths");
        self.options.lengths.iter().map(|column| LengthOf::parse(column).map_err(invalid)).collect()
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
        let form = self.export_form(self.output_format());
        if form.is_cut() {
            return super::export::check_place(form, &self.output, false);
        }
        let what = if form.format == Format::Dataset { "dataset" } else { "output" };
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
    pub(crate) fn dataset_options(&self) -> Result<WriterOptions> {
        Ok(self.writer_options()?.overwrite(self.options.overwrite))
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
        self.check_is_one()?;
        self.parsed_lengths()?;
        super::reshape::check(&self.options)?;
        if self.options.to.is_none() {
            format::check_output_name(&self.output)?;
        }
        self.check_split()?;
        self.check_shards()?;
        match self.output_format() {
            Format::Dataset => super::output_checks::check_data_path(&self.output)?,
            format => self.check_export(format)?,
        }
        self.check_combined()
    }

    /// Fails for a split that makes no sense, with its lists, and for outputs that would get in each other's way.
    fn check_split(&self) -> Result<()> {
        let split = &self.options.split;
        split.check()?;
        // Before any work is done: reads the lists.
        split.assignment()?;
        let form = self.export_form(self.output_format());
        let mut names = std::collections::BTreeSet::new();
        for path in self.targets().iter().filter(|_| split.is_split()) {
            for name in form.names_of(path) {
                if !names.insert(name) {
                    let message =
                        "two outputs would have the same name, or one that the other needs";
                    return Err(Error::new(ErrorKind::Invalid, message).with_option("split"));
                }
            }
        }
        Ok(())
    }

    /// Fails for options that only datasets have.
    fn check_export(&self, format: Format) -> Result<()> {
        format.check_available()?;
        if format.output() == format::Output::None {
            let message = format!("{format} can be read, but not written");
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        let options = &self.options;
        let only = |option| {
            Error::new(ErrorKind::Invalid, "is for datasets, but the output is of another format")
                .with_option(option)
        };
        let option = match () {
            () if options.no_digests => "digests",
            () if options.lookup == Some(true) => "lookup",
            () if options.checksums => "checksums",
            () if !options.lengths.is_empty() => "lengths",
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
            .resize(crate::convert::Resize::Short(256))
            .split(split);
        let text = serde_json::to_string(&full).unwrap();
        assert_eq!(serde_json::from_str::<Conversion>(&text).unwrap(), full);
    }
}
