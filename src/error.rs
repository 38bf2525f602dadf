//! Errors: what went wrong, in which file, at which sample, key or byte.
//!
//! One boxed [`Error`] serves the whole crate, so a `Result` stays small. [`ErrorKind`] says who
//! is to blame; the rest of the error says where. Decoders have an error of their own,
//! [`FormatError`](crate::format::FormatError), which knows positions but no files: the layer that
//! read the bytes adds the file.
//!
//! A message says what is wrong, not which command to type: programs with commands choose the hint
//! from the kind and the [`Remedy`].

use std::borrow::Cow;
use std::fmt;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

mod shown;

pub use shown::Shown;
#[cfg(any(feature = "convert", feature = "remote"))]
pub(crate) use shown::is_signature;
#[doc(hidden)]
pub use shown::shown_text;
pub(crate) use shown::{serialize_maybe, serialize_path, serialize_paths};

/// The result of everything in this crate that can fail.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Who is to blame, and so what a caller can do about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A file holds something that it must not: it is truncated, changed, or was never of this
    /// format. [`verify`](crate::verify) lists all such places, [`repair`](crate::repair) saves all whole samples.
    Damaged,
    /// A write to this dataset was cut short. The earlier dataset, if there was one, is intact;
    /// [`repair`](crate::repair) finishes or undoes the write.
    Interrupted,
    /// The dataset was replaced by another one while it was open. Open it again.
    Replaced,
    /// The caller asked for something that makes no sense: an index beyond the end, a sample
    /// without a key, a data file named like a side file.
    Invalid,
    /// A key that the dataset already has was written again. The writer is still usable.
    DuplicateKey,
    /// There is no such file or key.
    NotFound,
    /// The output exists and overwriting was not asked for.
    AlreadyExists,
    /// Another writer is at work on this dataset.
    Locked,
    /// Something is in the way that is not ours: a file or link that no writer made, or a dataset
    /// that another program has written since. Nothing was touched.
    Foreign,
    /// More than the format can hold, or more than an untrusted length is believed.
    Limit,
    /// Valid, but nothing that this version can read.
    Unsupported,
    /// The operating system refused.
    Io,
    /// The caller stopped it, through a [`Monitor`](crate::convert::Monitor).
    Cancelled,
    /// An error of the caller's own code, such as a closure that decodes: see [`Error::other`].
    Other,
}

/// How a caller can fix an error, if known. It is data: the command words it with its options, and
/// another program in its own terms.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Remedy {
    /// Allow the output to be replaced.
    Overwrite,
    /// Allow all files of the output to be replaced.
    OverwriteAll,
    /// Allow the output to be replaced, or append to it.
    OverwriteOrAppend,
    /// Do not append: there is nothing to append to.
    Create,
    /// Allow the output to be replaced, and do not resume.
    StartOver,
    /// Skip samples whose key occurred before: the found one is the same, byte for byte.
    SkipDuplicates,
    /// Put the name of its file in front of each key: samples of two files have the same.
    ShardInKey,
    /// Put a text in front of the appended keys: other samples already have the same keys.
    PrefixKeys,
    /// Make keys as this version does, next to those that an earlier one has made.
    NewKeys,
    /// Skip bad input, or set it aside.
    SkipBad,
    /// Run the same again, and resume; or remove what there is of this output: see [`repair`](crate::repair).
    Resume(PathBuf),
    /// Publish the samples of this dataset, which are all written, or remove them: see
    /// [`repair`](crate::repair).
    Repair(PathBuf),
    /// Read files, not a stream, to resume.
    ResumeFiles,
    /// Allow names in data to lead out of the folder of these data.
    AllowOutside,
    /// Say in which folder the files are that the input names: in this one, if it was found.
    Root(Option<PathBuf>),
    /// Read one of these splits, each of them to an output of its own, or all of them merged.
    ChooseSplit {
        /// The output.
        output: PathBuf,
        /// The names of the splits.
        splits: Vec<String>,
    },
    /// Say what the input is: one of these formats.
    NameInput(Vec<&'static str>),
    /// Read it as this format nevertheless; the reader says where it is damaged.
    ReadAs(&'static str),
    /// Make a dataset of it: it is in another format.
    MakeDataset,
    /// Write a dataset instead.
    WriteDataset,
    /// Make another field the key, or make keys from fields.
    KeyField,
    /// Read the text in this encoding, which its first bytes show.
    Decode(&'static str),
    /// Say which encoding the text is in: this one, if it is text of Western Europe. Without one nothing is known.
    NameEncoding(Option<&'static str>),
    /// Make a copy of the text in UTF-8; this is its encoding, by the name that iconv knows.
    Recode(&'static str),
    /// Read the lines as JSON in which names that begin with `$` have no meaning.
    PlainJson,
    /// Take quotes of a table as characters of the text.
    PlainQuotes,
    /// Resize, encode or verify images.
    EditImages,
    /// Drop this field.
    DropField(String),
    /// Raise this limit, such as `max_bytes`, if the input can be trusted.
    RaiseLimit(&'static str),
    /// Save the whole samples to a new dataset: see [`Repair::salvage`](crate::repair::Repair::salvage).
    Salvage,
    /// The same; or take the data as it is, and replace the files that contradict it: see
    /// [`IndexOptions::trust_data`](crate::index::IndexOptions::trust_data).
    TrustData,
    /// Make this part, and others if there are several missing.
    MakePart {
        /// The first that is missing, such as `3/7`.
        first: String,
        /// How many are missing, of how many.
        missing: (usize, usize),
    },
    /// Make parts first.
    MakeParts,
    /// Remove this directory, if what is in it is not needed.
    RemoveDir(PathBuf),
    /// Build kiste with this feature.
    Feature(&'static str),
    /// The name of the output should end like this; or say what to write.
    NameOutput(&'static str),
    /// Read files with this ending too, such as `.wav`.
    IncludeFiles(String),
    /// Look up which fields the samples have.
    ListFields,
    /// Name one of these arrays of the file.
    NameArray(Vec<String>),
    /// Number labels by their names, or give up the names.
    MergeLabels,
    /// Remove what an unfinished shuffle in parts has written, and start it again: see
    /// [`repair`](crate::repair).
    UndoShuffle,
    /// Finish another shuffle in parts that was started for this output, or remove it.
    OtherShuffle,
    /// Make this column of `.lengths` next to these data: see
    /// [`IndexOptions::lengths`](crate::index::IndexOptions::lengths).
    MakeLengths {
        /// The name of the column.
        column: String,
        /// The data file, or the name of a dataset of many.
        data: PathBuf,
    },
    /// Something else, in words that name no command and no option.
    Advice(&'static str),
    /// The first of these with new parts, after the directory of the old ones is removed.
    NewParts(Box<Remedy>, PathBuf),
}

/// Any error of this crate.
///
/// Prints as one line without a full stop: the file, then the sample, key, bytes or field where
/// these are known, then what is wrong, then the step of a loader.
///
/// ```
/// let err = kiste::DatasetReader::open("no/such.msgpack").unwrap_err();
/// assert_eq!(err.kind(), kiste::ErrorKind::NotFound);
/// assert!(err.to_string().starts_with("no/such.msgpack: "));
/// ```
///
/// # Causes
///
/// The line usually includes the words of the cause, such as the operating system's message.
/// [`source`](std::error::Error::source) is the next cause that is *not* in the line, so that a
/// program that prints the whole chain, as `anyhow` does, prints each cause once. `{:#}` prints
/// that chain as one line. [`get_ref`](Self::get_ref) is the direct cause, in the line or not.
///
/// ```
/// use std::error::Error as _;
///
/// let err = kiste::DatasetReader::open("no/such.msgpack").unwrap_err();
/// assert!(err.source().is_none()); // the line has its words
/// let cause = err.get_ref().and_then(|cause| cause.downcast_ref::<std::io::Error>());
/// assert_eq!(cause.unwrap().kind(), std::io::ErrorKind::NotFound);
/// ```
pub struct Error(Box<Inner>);

struct Inner {
    kind: ErrorKind,
    message: String,
    path: Option<PathBuf>,
    index: Option<u64>,
    key: Option<String>,
    range: Option<Range<u64>>,
    field: Option<String>,
    unit: Option<u64>,
    /// Epoch and step of a loader.
    step: Option<(u64, u64)>,
    /// The place that the field is in, such as a line.
    place: Option<String>,
    raw: Option<Vec<u8>>,
    ends_unit: bool,
    option: Option<&'static str>,
    remedy: Option<Remedy>,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl Error {
    /// An error of this kind. The message is lower case, has no full stop and says what was found
    /// and what was expected.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Error {
        Error(Box::new(Inner {
            kind,
            message: clean(message.into()),
            path: None,
            index: None,
            key: None,
            range: None,
            field: None,
            unit: None,
            step: None,
            place: None,
            raw: None,
            ends_unit: false,
            option: None,
            remedy: None,
            source: None,
        }))
    }

    /// An error of the operating system at a file. One that was made of an error of this crate
    /// becomes that error again.
    pub fn io(path: impl AsRef<Path>, source: io::Error) -> Error {
        Error::of_io(source).at(path)
    }

    /// An error of the operating system that concerns no file; `action` is what failed. One that was made of
    /// an error of this crate becomes that error again.
    pub fn os(action: impl fmt::Display, source: io::Error) -> Error {
        let source = match source.downcast::<Error>() {
            Ok(error) => return error,
            Err(source) => source,
        };
        Error::new(ErrorKind::Io, format!("{action}: {source}")).with_source(source)
    }

    /// Turns any error into one of this crate, such as a decoder's error in a closure of a
    /// [loader](crate::loader::LoaderOptions::map). It is kept as the cause
    /// ([`get_ref`](Self::get_ref)). One of this crate becomes that error again, and one of the
    /// operating system has the kind that [`io`](Self::io) gives it; all others are
    /// [`Other`](ErrorKind::Other).
    ///
    /// ```
    /// use kiste::{Error, ErrorKind};
    ///
    /// fn number(text: &str) -> kiste::Result<u64> {
    ///     text.parse().map_err(Error::other)
    /// }
    /// let error = number("one").unwrap_err();
    /// assert_eq!(error.kind(), ErrorKind::Other);
    /// assert_eq!(error.to_string(), "invalid digit found in string");
    /// assert!(error.get_ref().unwrap().is::<std::num::ParseIntError>());
    /// ```
    pub fn other(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
        let error = match error.into().downcast::<Error>() {
            Ok(error) => return *error,
            Err(error) => error,
        };
        let error = match error.downcast::<io::Error>() {
            Ok(error) => return Error::of_io(*error),
            Err(error) => error,
        };
        Error::new(ErrorKind::Other, error.to_string()).with_source(error)
    }

    /// An error of the operating system that names no file.
    fn of_io(source: io::Error) -> Error {
        let source = match source.downcast::<Error>() {
            Ok(error) => return error,
            Err(source) => source,
        };
        let kind = match source.kind() {
            io::ErrorKind::NotFound => ErrorKind::NotFound,
            io::ErrorKind::AlreadyExists => ErrorKind::AlreadyExists,
            _ => ErrorKind::Io,
        };
        Error::new(kind, source.to_string()).with_source(source)
    }

    /// The same error for another reader of what failed. Its source is not carried along, but its kind.
    #[cfg(any(feature = "images", feature = "remote"))]
    pub(crate) fn again(&self) -> Error {
        let Inner { kind, message, path, index, key, range, field, remedy, .. } = &*self.0;
        let mut error = Error::new(*kind, message.clone());
        error.0.path.clone_from(path);
        error.0.index = *index;
        error.0.key.clone_from(key);
        error.0.range.clone_from(range);
        error.0.field.clone_from(field);
        error.0.remedy.clone_from(remedy);
        match self.io_kind() {
            Some(kind) => error.with_source(io::Error::new(kind, message.clone())),
            None => error,
        }
    }

    /// The same error at this file: its user knows the file by another name than the storage.
    pub(crate) fn shown_at(mut self, path: impl AsRef<Path>) -> Error {
        self.0.path = Some(Shown::of(path.as_ref()).into_path());
        self
    }

    /// The same error with this place in front of its message, and of the field.
    pub(crate) fn within(mut self, place: impl fmt::Display) -> Error {
        match (&self.0.field, self.0.place.take()) {
            (None, _) => self.0.message = clean(format!("{place}: {}", self.0.message)),
            (Some(_), None) => self.0.place = Some(clean(place.to_string())),
            (Some(_), Some(inner)) => self.0.place = Some(clean(format!("{place}: {inner}"))),
        }
        self
    }

    /// The message with the place and the field in front of it, but without file and key.
    pub(crate) fn reason(&self) -> String {
        let Inner { place, field, message, .. } = &*self.0;
        let place = place.as_ref().map_or_else(String::new, |place| format!("{place}: "));
        let field = field.as_ref().map_or_else(String::new, |field| format!("field {field:?}: "));
        format!("{place}{field}{message}")
    }

    /// The same error with this behind its message.
    pub(crate) fn note(mut self, note: impl fmt::Display) -> Error {
        self.0.message = clean(format!("{}; {note}", self.0.message));
        self
    }

    /// Adds the file, unless one is known already. Secrets in a URL are left out: see [`Shown`].
    pub fn at(mut self, path: impl AsRef<Path>) -> Error {
        self.0.path.get_or_insert_with(|| Shown::of(path.as_ref()).into_path());
        self
    }

    /// Adds the index of the sample.
    pub fn with_index(mut self, index: u64) -> Error {
        self.0.index = Some(index);
        self
    }

    /// Adds the key of the sample.
    pub fn with_key(mut self, key: impl Into<String>) -> Error {
        self.0.key = Some(key.into());
        self
    }

    /// Adds the bytes of the file that are concerned.
    pub fn with_range(mut self, range: Range<u64>) -> Error {
        self.0.range = Some(range);
        self
    }

    /// Adds the name of the field of the sample.
    pub fn with_field(mut self, name: impl Into<String>) -> Error {
        self.0.field = Some(name.into());
        self
    }

    /// Adds the unit of the input that was being read, such as a shard or a row group. It is not
    /// printed: the path and the message say where it is.
    pub fn with_unit(mut self, unit: u64) -> Error {
        self.0.unit = Some(unit);
        self
    }

    /// Adds the epoch and the step in which it happened.
    pub fn with_step(mut self, epoch: u64, step: u64) -> Error {
        self.0.step = Some((epoch, step));
        self
    }

    /// Adds the bytes that are wrong, as they were read, for those who set them aside.
    pub fn with_raw(mut self, bytes: impl Into<Vec<u8>>) -> Error {
        self.0.raw = Some(bytes.into());
        self
    }

    /// Marks that what comes after it in its file could not be read either.
    pub fn ending_its_unit(mut self) -> Error {
        self.0.ends_unit = true;
        self
    }

    /// Adds the option that is wrong, by its name in the library. It stands in front of the message,
    /// which continues from there: `guess_types` `is for csv and tsv`.
    pub(crate) fn with_option(mut self, option: &'static str) -> Error {
        self.0.option = Some(option);
        self
    }

    /// Something larger than a limit, which this option raises.
    pub(crate) fn above_limit(option: &'static str, message: impl Into<String>) -> Error {
        Error::new(ErrorKind::Limit, message).with_remedy(Remedy::RaiseLimit(option))
    }

    /// Adds what can be done about it, in place of what is known already.
    pub fn with_remedy(mut self, remedy: Remedy) -> Error {
        self.0.remedy = Some(remedy);
        self
    }

    /// Adds advice in words.
    pub(crate) fn advise(self, advice: &'static str) -> Error {
        self.with_remedy(Remedy::Advice(advice))
    }

    /// Adds the error that this one came from. Its words may be part of the message, and need not.
    pub fn with_source(
        mut self,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Error {
        self.0.source = Some(source.into());
        self
    }

    /// Who is to blame.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The error that this one was made of, if it was made of one: to be downcast.
    /// [`source`](std::error::Error::source) skips it where the message has its words.
    pub fn get_ref(&self) -> Option<&(dyn std::error::Error + Send + Sync + 'static)> {
        self.0.source.as_deref()
    }

    /// The kind of the operating system's error that it came from, if it came from one.
    pub fn io_kind(&self) -> Option<io::ErrorKind> {
        let source = self.0.source.as_ref()?;
        source.downcast_ref::<io::Error>().map(io::Error::kind)
    }

    /// Whether there is nothing of this name, or nothing that may be read: S3 answers the same for both to
    /// those who may not list the bucket.
    pub(crate) fn is_absent_or_denied(&self) -> bool {
        self.kind() == ErrorKind::NotFound
            || self.io_kind() == Some(io::ErrorKind::PermissionDenied)
    }

    /// The message without the place.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// The file, where one is concerned.
    pub fn path(&self) -> Option<&Path> {
        self.0.path.as_deref()
    }

    /// The index of the sample, where one is concerned.
    pub fn index(&self) -> Option<u64> {
        self.0.index
    }

    /// The key, where one is concerned.
    pub fn key(&self) -> Option<&str> {
        self.0.key.as_deref()
    }

    /// The bytes of the file, where they are known.
    pub fn range(&self) -> Option<Range<u64>> {
        self.0.range.clone()
    }

    /// The name of the field, where one is concerned.
    pub fn field(&self) -> Option<&str> {
        self.0.field.as_deref()
    }

    /// The unit of the input, where one was being read.
    pub fn unit(&self) -> Option<u64> {
        self.0.unit
    }

    /// The bytes that are wrong, where they were kept.
    pub fn raw(&self) -> Option<&[u8]> {
        self.0.raw.as_deref()
    }

    /// Whether what comes after it in its file could not be read either.
    pub fn ends_unit(&self) -> bool {
        self.0.ends_unit
    }

    /// The option that is wrong, by its name in the library; the message continues from there.
    pub fn option(&self) -> Option<&'static str> {
        self.0.option
    }

    /// A way to fix the error, if known.
    pub fn remedy(&self) -> Option<&Remedy> {
        self.0.remedy.as_ref()
    }

    /// The epoch, where a loader was at work.
    pub fn epoch(&self) -> Option<u64> {
        self.0.step.map(|(epoch, _)| epoch)
    }

    /// The step of that epoch.
    pub fn step(&self) -> Option<u64> {
        self.0.step.map(|(_, step)| step)
    }
}

/// A message without the secrets in URLs.
fn clean(message: String) -> String {
    let shown = match shown_text(&message) {
        Cow::Owned(shown) => Some(shown),
        Cow::Borrowed(_) => None,
    };
    shown.unwrap_or(message)
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Inner { path, index, key, range, step, option, .. } = &*self.0;
        if let Some(path) = path {
            write!(f, "{}: ", path.display())?;
        }
        if let Some(index) = index {
            write!(f, "sample {index}: ")?;
        }
        if let Some(key) = key {
            write!(f, "key {key:?}: ")?;
        }
        if let Some(range) = range {
            write!(f, "bytes {}..{}: ", range.start, range.end)?;
        }
        if let Some(option) = option {
            write!(f, "{option} ")?;
        }
        f.write_str(&self.reason())?;
        if let Some((epoch, step)) = step {
            write!(f, ", in step {step} of epoch {epoch}")?;
        }
        let mut source = std::error::Error::source(self).filter(|_| f.alternate());
        while let Some(error) = source {
            write!(f, ": {}", shown_text(&error.to_string()))?;
            source = error.source();
        }
        Ok(())
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}({self:#})", self.0.kind)
    }
}

impl std::error::Error for Error {
    /// The next cause that the message does not have the words of.
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        let mut source = self.0.source.as_deref().map(|source| source as _);
        while let Some(error) = source {
            let error: &(dyn std::error::Error + 'static) = error;
            if !self.0.message.contains(&*shown_text(&error.to_string())) {
                return Some(error);
            }
            source = error.source();
        }
        None
    }
}

/// As [`Error::other`], for `?`.
impl From<Box<dyn std::error::Error + Send + Sync>> for Error {
    fn from(error: Box<dyn std::error::Error + Send + Sync>) -> Error {
        Error::other(error)
    }
}

/// For implementations of the traits of [`std::io`]: the kind of the operating system's error
/// stays.
impl From<Error> for io::Error {
    fn from(error: Error) -> io::Error {
        io::Error::new(error.io_kind().unwrap_or(io::ErrorKind::Other), error)
    }
}
