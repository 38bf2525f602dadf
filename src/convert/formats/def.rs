//! [`FormatDef`]: all that there is to know about a format. The folder of each format has one, and
//! [`Format`](crate::convert::Format) lists them.

use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::convert::carried::{Carried, Handling, LeftOut, ValueKind, ValuePlace};
use crate::convert::compressed;
use crate::convert::kept_fields::KeptFields;
use crate::convert::monitor::Notice;
use crate::convert::read_options::ReadOptions;
use crate::convert::samples::Samples;
use crate::convert::shard_limit::ShardLimit;
use crate::convert::writer::SampleWriter;
use crate::error::{Error, ErrorKind, Remedy, Result};
use crate::storage::Storage;

/// A format: what it is called, and how it is recognised, read and written. A definition says what is special,
/// and leaves the rest to [`READ`]. It is there also where this build has no reader and writer of the format.
pub(in crate::convert) struct FormatDef {
    pub(in crate::convert) name: &'static str,
    /// Other names that people type for it.
    pub(in crate::convert) aliases: &'static [&'static str],
    /// A description in a few words.
    pub(in crate::convert) title: &'static str,
    /// The feature of the crate that it needs.
    pub(in crate::convert) feature: Option<&'static str>,

    /// Whether it is also read from standard input.
    pub(in crate::convert) is_piped: bool,
    /// Whether the name of a source alone makes it this format.
    pub(in crate::convert) is_called: fn(&Path) -> bool,
    /// Reads the index that says by itself what a folder or a URL holds: an error if that is damaged, and `None`
    /// without an index.
    pub(in crate::convert) index: fn(&Path) -> Option<Result<()>>,
    /// Whether the first bytes of a file show that it is of this format.
    pub(in crate::convert) begins: fn(&Glance<'_>) -> bool,
    /// Whether the name of a file does, if its first bytes show no other.
    pub(in crate::convert) is_named: fn(&Glance<'_>) -> bool,
    /// The hint for a file of no format that is named as if it were of this one.
    pub(in crate::convert) misnamed: fn(&Glance<'_>) -> Option<Hint>,
    /// The same about one that may be of this format by its bytes.
    pub(in crate::convert) resembled: fn(&Glance<'_>) -> Option<Hint>,
    /// How names of its files end, with the dot, that are never empty: one without bytes was cut short.
    pub(in crate::convert) never_empty: &'static [&'static str],
    /// Whether a file in a folder is of this format by its name. `None` for formats that are not found so.
    pub(in crate::convert) in_folder: Option<fn(&Glance<'_>) -> bool>,
    /// The splits that a source has inside it.
    pub(in crate::convert) splits: fn(&Opening<'_>) -> Result<Vec<String>>,

    /// Where the keys of samples come from that are read.
    pub(in crate::convert) keys: Keys,
    /// Contents of sources that samples do not carry.
    pub(in crate::convert) leaves_out: &'static [(LeftOut, Handling)],
    /// Notes for the user about the sources before they are read.
    pub(in crate::convert) notices: fn(&Opening<'_>) -> Result<Vec<Notice>>,
    /// Opens sources.
    pub(in crate::convert) open: fn(&mut Opening<'_>) -> Result<Samples>,

    /// The kind of its output, if it is written.
    pub(in crate::convert) output: Output,
    /// The endings that an output has, without the dot.
    pub(in crate::convert) endings: &'static [&'static str],
    /// Endings that no output has, and why.
    pub(in crate::convert) not_endings: &'static [(&'static str, &'static str)],
    /// Whether it keeps the names of numeric labels.
    pub(in crate::convert) keeps_labels: bool,
    /// How it treats values.
    pub(in crate::convert) carries: fn(ValueKind, ValuePlace) -> Carried,
    /// Whether the key of a sample becomes a field among the others.
    #[cfg_attr(not(feature = "stat"), expect(dead_code, reason = "needed by dry runs"))]
    pub(in crate::convert) key_field: bool,
    /// Suffixes that a writer may append to the name of a field.
    #[cfg_attr(not(feature = "stat"), expect(dead_code, reason = "needed by dry runs"))]
    pub(in crate::convert) suffixes: &'static [&'static str],
    /// Begins an output.
    pub(in crate::convert) create: fn(&NewOutput<'_>) -> Result<Box<dyn SampleWriter>>,
}

/// An output to begin.
pub(in crate::convert) struct NewOutput<'a> {
    /// Its path, or the path before the numbers of its shards.
    pub(in crate::convert) path: &'a Path,
    /// The names of the numeric labels in its samples.
    pub(in crate::convert) labels: Option<&'a [String]>,
    /// Where shards end that its writer makes, if that was asked for.
    pub(in crate::convert) limit: Option<ShardLimit>,
}

/// A format that is only read and has nothing special: what a definition starts from.
pub(super) const READ: FormatDef = FormatDef {
    name: "",
    aliases: &[],
    title: "",
    feature: None,
    is_piped: false,
    is_called: |_| false,
    index: |_| None,
    begins: |_| false,
    is_named: |_| false,
    misnamed: |_| None,
    resembled: |_| None,
    never_empty: &[],
    in_folder: None,
    splits: |_| Ok(Vec::new()),
    keys: Keys::Made,
    leaves_out: &[],
    notices: |_| Ok(Vec::new()),
    open: |_| Err(absent()),
    output: Output::None,
    endings: &[],
    not_endings: &[],
    keeps_labels: false,
    carries: |_, _| Carried::Refused("a format that can be written"),
    key_field: false,
    suffixes: &[""],
    create: |_| Err(absent()),
};

/// Both are asked before: whether this build has a format, and whether that is written.
fn absent() -> Error {
    Error::new(ErrorKind::Unsupported, "this build of kiste does not have the format")
}

/// The form of an output on the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::convert) enum Output {
    File,
    Directory,
    /// Files that are numbered.
    Shards,
    None,
}

/// Where the keys of samples come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::convert) enum Keys {
    /// They are made up: the name of a file and a number.
    Made,
    /// A column `key` where there is one, else they are made up.
    Column,
    /// The source: they are names of files, or what a dataset has.
    Own,
}

/// The name of a file, and its first bytes.
pub(in crate::convert) struct Glance<'a> {
    pub(in crate::convert) path: &'a Path,
    /// Its name in lower case.
    pub(in crate::convert) name: &'a str,
    /// The same without the ending of its compression.
    pub(in crate::convert) plain: &'a str,
    /// Its first bytes, decompressed if they are compressed. None of a pipe, which can be read only once.
    pub(in crate::convert) head: &'a [u8],
    /// Whether it is a file without bytes.
    pub(in crate::convert) is_empty: bool,
}

impl Glance<'_> {
    /// Whether its name ends like this, before the ending of its compression.
    pub(super) fn ends(&self, ending: &str) -> bool {
        self.plain.ends_with(ending)
    }

    /// Whether it is a zip archive of this ending.
    pub(super) fn is_zip(&self, ending: &str) -> bool {
        let magics: [&[u8]; 2] = [b"PK\x03\x04", b"PK\x05\x06"];
        self.name.ends_with(ending) && magics.iter().any(|magic| self.head.starts_with(magic))
    }
}

/// A likely fault of a file, and a remedy.
pub(in crate::convert) type Hint = (&'static str, Remedy);

/// Sources to be opened, and what a conversion asks of them.
pub(in crate::convert) struct Opening<'a> {
    pub(in crate::convert) paths: &'a [PathBuf],
    pub(in crate::convert) read: &'a ReadOptions,
    /// The field that is the key, if the source itself calls it `key`.
    pub(in crate::convert) key: Option<&'a str>,
    /// Whether keys are made of other fields, so that one called `key` is none.
    pub(in crate::convert) replaces_key: bool,
    /// Whether bad input stops the conversion.
    pub(in crate::convert) stops: bool,
    /// Bytes of a unit, where that matters.
    pub(in crate::convert) unit_bytes: Option<u64>,
    /// The only one of its splits that is read.
    pub(in crate::convert) split: Option<&'a str>,
    /// The names of the labels of all splits.
    pub(in crate::convert) labels: Option<&'a [String]>,
    /// Whether files are read by calls, and not through memory maps.
    pub(in crate::convert) by_calls: bool,
    /// Whether files that are of no split are counted here.
    pub(in crate::convert) counts_rest: bool,
    /// The fields that are part of the samples in the end, or of their keys.
    pub(in crate::convert) kept: &'a KeptFields,
    /// Where datasets are read from that are not behind a URL.
    pub(in crate::convert) storage: Arc<dyn Storage>,
    /// How many files of a folder were skipped, once it is open.
    pub(in crate::convert) skipped_files: u64,
}

impl Opening<'_> {
    /// The only path.
    pub(super) fn only(&self, what: &str) -> Result<&Path> {
        match self.paths {
            [path] => Ok(path),
            paths => {
                let message = format!("expected {what} alone, found {} names", paths.len());
                Err(Error::new(ErrorKind::Invalid, message))
            }
        }
    }

    /// Standard input, if that is the source: decompressed if it is compressed.
    pub(super) fn piped(&self) -> Result<Option<Box<dyn Read + Send>>> {
        let stdin = Path::new("-");
        if !self.paths.iter().any(|path| path == stdin) {
            return Ok(None);
        }
        self.only("standard input")?;
        Ok(Some(compressed::piped(stdin, io::stdin())))
    }

    /// The input with the limit of bytes that was given.
    pub(super) fn within<T>(&self, input: T, limit: fn(T, u64) -> T) -> T {
        given(input, self.read.max_bytes, limit)
    }

    /// The input whose keys are the field that was given.
    pub(super) fn with_key<'a, T>(&'a self, input: T, set: fn(T, &'a str) -> T) -> T {
        given(input, self.key, set)
    }
}

/// The input with an option, if that was given.
pub(super) fn given<T, O>(input: T, option: Option<O>, set: fn(T, O) -> T) -> T {
    match option {
        Some(option) => set(input, option),
        None => input,
    }
}
