//! [`Format`]: the registry of what conversions read and write.
//!
//! Each format has one line in the table below: its name, what it is, whether it is read and
//! written, which names and first bytes identify it, which names of outputs ask for it. The
//! command line, its help and the error messages are made from this table. A new format is a line
//! here, its reader in `open.rs` and its writer in `export.rs`.

use std::fmt;
use std::fs;
use std::io::{self, Read};
use std::path::Path;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::names::{is_ending, is_image};
use super::source_file::{open_regular, size_of};
use super::{MdsReader, compressed};
use crate::Value;
use crate::dataset::{check_finished, names_shards};
use crate::error::{Error, ErrorKind, Remedy, Result};
use crate::format::dataset::SideFile;
use crate::format::dataset::shards::is_manifest;
use crate::format::jsonl;
use crate::storage;

/// A format that a conversion reads or writes. As a string: its [`name`](Format::name).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Format {
    /// A dataset of kiste or datadings.
    Dataset,
    /// JSON lines: an object with a `key` in each.
    Jsonl,
    /// A folder of images, patterns of images, or a zip archive of them.
    Images,
    /// A CSV or TSV file that lists images with labels and other columns.
    List,
    /// Tar archives of WebDataset.
    Webdataset,
    /// TFRecord files of `tf.train.Example`.
    Tfrecord,
    /// Shards of MosaicML Streaming.
    Mds,
    /// CIFAR-10, as pickles or binary files.
    Cifar10,
    /// CIFAR-100, as pickles or binary files.
    Cifar100,
    /// The idx files of MNIST: images, and perhaps labels.
    Mnist,
    /// An archive of NumPy arrays.
    Npz,
    /// Comma-separated values.
    Csv,
    /// Tab-separated values.
    Tsv,
    /// Parquet.
    Parquet,
    /// Arrow IPC, as a file or a stream.
    Arrow,
}

/// What there is to know about a format.
struct Description {
    format: Format,
    name: &'static str,
    /// What it is, in a few words.
    title: &'static str,
    reads: bool,
    writes: bool,
    /// Whether it keeps the names of numeric labels.
    keeps_labels: bool,
    /// What its output is: a file, a directory, or several files.
    output: Output,
    /// The endings that an output of this format has, without the dot.
    endings: &'static [&'static str],
    /// The field that has the key of a sample, where the key is a field like others.
    #[cfg_attr(not(feature = "stat"), expect(dead_code, reason = "needed by dry runs"))]
    key_field: bool,
    /// Where the keys of samples come from that are read.
    keys: Keys,
    /// What is appended to the names of fields.
    #[cfg_attr(not(feature = "stat"), expect(dead_code, reason = "needed by dry runs"))]
    suffixes: &'static [&'static str],
    /// The feature of the crate that it needs.
    feature: Option<&'static str>,
}

/// What an output is on the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Output {
    File,
    Directory,
    /// Files that are numbered.
    Shards,
    None,
}

/// Where the keys of samples come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Keys {
    /// They are made up: the name of a file and a number.
    Made,
    /// A column `key` where there is one, else they are made up.
    Column,
    /// The source: they are names of files, or what a dataset has.
    Own,
}

const READ: Description = Description {
    format: Format::Dataset,
    name: "",
    title: "",
    reads: true,
    writes: false,
    keeps_labels: false,
    output: Output::None,
    endings: &[],
    key_field: false,
    keys: Keys::Made,
    suffixes: &[""],
    feature: None,
};
const BOTH: Description = Description { writes: true, output: Output::File, ..READ };

/// All formats, in the order in which they are listed for people.
const FORMATS: [Description; 15] = [
    Description {
        format: Format::Dataset,
        name: "dataset",
        title: "a dataset of kiste or datadings",
        keeps_labels: true,
        keys: Keys::Own,
        endings: &["msgpack"],
        ..BOTH
    },
    Description {
        format: Format::Images,
        name: "images",
        title: "a folder, a zip archive or patterns of images",
        keeps_labels: true,
        output: Output::Directory,
        keys: Keys::Own,
        ..BOTH
    },
    Description {
        format: Format::List,
        name: "list",
        title: "a table that lists images",
        keys: Keys::Own,
        ..READ
    },
    Description {
        format: Format::Jsonl,
        name: "jsonl",
        keys: Keys::Column,
        title: "JSON lines",
        endings: &["jsonl", "ndjson"],
        ..BOTH
    },
    Description {
        format: Format::Webdataset,
        name: "webdataset",
        title: "tar archives of WebDataset",
        output: Output::Shards,
        endings: &["tar"],
        keys: Keys::Own,
        suffixes: &["", ".txt", ".cls", ".npy", ".json", ".bin"],
        ..BOTH
    },
    Description {
        format: Format::Tfrecord,
        name: "tfrecord",
        title: "TFRecord of tf.train.Example",
        endings: &["tfrecord", "tfrecords"],
        key_field: true,
        feature: Some("formats"),
        ..BOTH
    },
    Description {
        format: Format::Mds,
        name: "mds",
        title: "shards of MosaicML Streaming",
        output: Output::Directory,
        key_field: true,
        ..BOTH
    },
    Description {
        format: Format::Cifar10,
        name: "cifar10",
        title: "CIFAR-10",
        keys: Keys::Own,
        ..READ
    },
    Description {
        format: Format::Cifar100,
        name: "cifar100",
        title: "CIFAR-100",
        keys: Keys::Own,
        ..READ
    },
    Description { format: Format::Mnist, name: "mnist", title: "idx files of MNIST", ..READ },
    Description {
        format: Format::Npz,
        name: "npz",
        title: "an archive of NumPy arrays",
        endings: &["npz"],
        key_field: true,
        feature: Some("zip"),
        ..BOTH
    },
    Description {
        format: Format::Csv,
        name: "csv",
        title: "comma-separated values",
        endings: &["csv"],
        key_field: true,
        feature: Some("formats"),
        ..BOTH
    },
    Description {
        format: Format::Tsv,
        name: "tsv",
        title: "tab-separated values",
        feature: Some("formats"),
        ..READ
    },
    Description {
        format: Format::Parquet,
        name: "parquet",
        title: "Parquet",
        keeps_labels: true,
        keys: Keys::Column,
        endings: &["parquet"],
        feature: Some("parquet"),
        ..BOTH
    },
    Description {
        format: Format::Arrow,
        name: "arrow",
        title: "Arrow IPC",
        keeps_labels: true,
        keys: Keys::Column,
        endings: &["arrow", "feather"],
        feature: Some("parquet"),
        ..BOTH
    },
];

impl Format {
    fn description(self) -> &'static Description {
        // Every format is in the table; a test makes sure of it.
        FORMATS.iter().find(|known| known.format == self).unwrap_or(&READ)
    }

    /// All formats that can be read.
    pub fn readable() -> impl Iterator<Item = Format> {
        FORMATS.iter().filter(|known| known.reads).map(|known| known.format)
    }

    /// All formats that can be written.
    pub fn writable() -> impl Iterator<Item = Format> {
        FORMATS.iter().filter(|known| known.writes).map(|known| known.format)
    }

    /// Its name, such as `jsonl`.
    pub fn name(self) -> &'static str {
        self.description().name
    }

    /// What it is, in a few words.
    pub fn title(self) -> &'static str {
        self.description().title
    }

    /// The extension that names of outputs have, without the dot. `None` for directories.
    ///
    /// ```
    /// use kiste::convert::Format;
    ///
    /// assert_eq!(Format::Webdataset.extension(), Some("tar"));
    /// assert_eq!(Format::Mds.extension(), None);
    /// ```
    pub fn extension(self) -> Option<&'static str> {
        self.description().endings.first().copied()
    }

    /// Whether it keeps the names of numeric labels.
    pub fn keeps_labels(self) -> bool {
        self.description().keeps_labels
    }

    /// Whether this build of the crate has it.
    pub fn is_available(self) -> bool {
        let built = [
            ("formats", cfg!(feature = "formats")),
            ("parquet", cfg!(feature = "parquet")),
            ("zip", cfg!(feature = "zip")),
        ];
        let is_built = |feature| built.contains(&(feature, true));
        self.description().feature.is_none_or(is_built)
    }

    pub(super) fn keys(self) -> Keys {
        self.description().keys
    }

    pub(super) fn output(self) -> Output {
        self.description().output
    }

    /// Whether the key of a sample becomes a field among the others.
    #[cfg(feature = "stat")]
    pub(super) fn has_key_field(self) -> bool {
        self.description().key_field
    }

    /// What a writer may append to the name of a field.
    #[cfg(feature = "stat")]
    pub(super) fn suffixes(self) -> &'static [&'static str] {
        self.description().suffixes
    }

    /// Fails if this build of the crate does not have it.
    pub(super) fn check_available(self) -> Result<()> {
        match self.description().feature.filter(|_| !self.is_available()) {
            Some(feature) => {
                let message = format!("this build of kiste has no {}", self.name());
                Err(Error::new(ErrorKind::Unsupported, message)
                    .with_remedy(Remedy::Feature(feature)))
            }
            None => Ok(()),
        }
    }

    /// The format of an output of this name: a dataset, unless its ending says otherwise.
    ///
    /// ```
    /// use kiste::convert::Format;
    ///
    /// assert_eq!(Format::of_output("photos.tar"), Format::Webdataset);
    /// assert_eq!(Format::of_output("photos"), Format::Dataset);
    /// ```
    pub fn of_output(path: impl AsRef<Path>) -> Format {
        if path.as_ref().to_str().is_some_and(is_manifest) {
            return Format::Dataset;
        }
        let ending = ending(path.as_ref());
        let known = FORMATS.iter().find(|known| known.endings.contains(&&ending[..]));
        known.map_or(Format::Dataset, |known| known.format)
    }

    /// The format of this input, if its name or first bytes show it.
    ///
    /// # Errors
    ///
    /// [`Invalid`](ErrorKind::Invalid) if it is ambiguous or unknown.
    pub fn of_input(path: impl AsRef<Path>) -> Result<Format> {
        detect(path.as_ref())
    }

    /// The format of a file that is named like a dataset but is none; `None` for a dataset, and if it is not
    /// certain. Without side files to contradict it, any bytes could be taken for packed values.
    pub fn of_other(path: impl AsRef<Path>) -> Option<Format> {
        let path = path.as_ref();
        if !path.is_file() || has_side_file(path) {
            return None;
        }
        detect(path).ok().filter(|format| *format != Format::Dataset)
    }
}

/// Fails for what cannot be read as a dataset: one that was never finished, a file of another format, and one that does
/// not begin with a sample. Next to side files any bytes are a dataset.
///
/// # Errors
///
/// [`Invalid`](ErrorKind::Invalid), which names the format where that is known; the errors of [`check_finished`].
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("rows.csv");
/// std::fs::write(&path, "a,b\n1,2\n")?;
/// let error = kiste::convert::check_is_dataset(&path).unwrap_err();
/// assert!(error.to_string().ends_with("expected a dataset, found comma-separated values"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn check_is_dataset(path: impl AsRef<Path>) -> Result<()> {
    let path = path.as_ref();
    check_finished(path)?;
    let invalid = |found: &str| {
        Error::new(ErrorKind::Invalid, format!("expected a dataset, found {found}")).at(path)
    };
    if let Some(format) = Format::of_other(path) {
        return Err(invalid(format.title()).with_remedy(Remedy::MakeDataset));
    }
    if has_side_file(path) || !path.is_file() {
        return Ok(());
    }
    let mut first = [0];
    let read = open_regular(path).and_then(|mut file| file.read(&mut first));
    match (read.map_err(|error| Error::io(path, error))?, first[0]) {
        // A map, or nothing at all.
        (0, _) | (_, 0x80..=0x8f | 0xde | 0xdf) => Ok(()),
        _ => Err(invalid("a file that does not begin with a sample")),
    }
}

/// Whether another file describes this one.
fn has_side_file(path: &Path) -> bool {
    SideFile::ALL.iter().any(|file| file.path(path).exists())
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Format {
    type Err = Error;

    fn from_str(name: &str) -> Result<Format> {
        let known = FORMATS.iter().find(|known| known.name == name);
        known.map(|known| known.format).ok_or_else(|| {
            let names: Vec<&str> = FORMATS.iter().map(|known| known.name).collect();
            let message = format!("expected a format ({}), found {name:?}", names.join(", "));
            Error::new(ErrorKind::Invalid, message)
        })
    }
}

/// The ending of a name, in lower case.
pub(super) fn ending(path: &Path) -> String {
    path.extension().unwrap_or_default().to_string_lossy().to_lowercase()
}

/// Fails if the name of an output asks for something that cannot be written: it was not meant for a
/// dataset.
pub(super) fn check_output_name(path: &Path) -> Result<()> {
    if path.to_str().is_some_and(is_manifest) {
        return Ok(());
    }
    let flaw = match &ending(path)[..] {
        "7z" | "bz2" | "gz" | "lz4" | "tbz" | "tbz2" | "tgz" | "txz" | "tzst" | "xz" | "zip"
        | "zst" => "compressed outputs cannot be written",
        "json" => "JSON can only be written as JSON lines, whose names end in .jsonl",
        "npy" => "a single array cannot be written, but npz can",
        "tsv" => "TSV cannot be written, but CSV can",
        "h5" | "hdf5" | "lmdb" | "mat" | "pickle" | "pkl" | "pt" | "safetensors" | "txt"
        | "xls" | "xlsx" => "the name asks for a format that cannot be written",
        "mds" => "MDS is a folder",
        "pq" => "the name of Parquet ends in .parquet",
        "tfrec" => "the name of TFRecord ends in .tfrecord",
        ending => match meant(ending) {
            Some(known) => return Err(misspelled(path, ending, known)),
            None => return Ok(()),
        },
    };
    Err(Error::new(ErrorKind::Invalid, flaw).at(path).with_remedy(Remedy::NameOutput(OUTPUTS)))
}

/// How the names of outputs end.
const OUTPUTS: &str =
    ".msgpack (dataset), .jsonl, .tar (webdataset), .tfrecord, .npz, .csv, .parquet or .arrow";

fn misspelled(path: &Path, ending: &str, known: &str) -> Error {
    let message = format!("expected a known ending such as .{known}, found .{ending}");
    Error::new(ErrorKind::Invalid, message).at(path).with_remedy(Remedy::NameOutput(OUTPUTS))
}

/// The ending that one of an output may be a misspelling of.
fn meant(ending: &str) -> Option<&'static str> {
    let known = || FORMATS.iter().flat_map(|known| known.endings).chain(&["json", "npy", "tsv"]);
    match known().any(|known| *known == ending) {
        true => None,
        false => known().copied().find(|known| is_misspelled(ending, known)),
    }
}

/// Whether two endings differ by a slip: in one letter, in two where they are long; in short ones, where any
/// letter may be meant, only by two that changed places or one that comes twice.
fn is_misspelled(ending: &str, known: &str) -> bool {
    let (a, b) = (ending.as_bytes(), known.as_bytes());
    let swapped = (1..b.len()).any(|at| {
        let mut swapped = b.to_vec();
        swapped.swap(at - 1, at);
        swapped == a
    });
    let doubled = (0..b.len()).any(|at| [&b[..=at], &b[at..]].concat() == a);
    let most = match b.len() {
        ..=3 => 0,
        4..=5 => 1,
        _ => 2,
    };
    a != b && (swapped || doubled || distance(a, b) <= most)
}

/// How many letters have to be added, removed or replaced.
fn distance(a: &[u8], b: &[u8]) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut before = i;
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let replaced = before + usize::from(x != y);
            before = row[j + 1];
            row[j + 1] = replaced.min(before + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

/// Fails if the name of a dataset that is to be made asks for another format, or may be meant to.
///
/// # Errors
///
/// [`Invalid`](ErrorKind::Invalid), with what the name asks for.
pub fn check_dataset_name(path: impl AsRef<Path>) -> Result<()> {
    let path = path.as_ref();
    let advice = "names of datasets end in .msgpack: make one, and convert it to another format";
    let flaw = match Format::of_output(path) {
        Format::Dataset => {
            return check_output_name(path).map_err(|error| error.advise(advice));
        }
        format => format!("the name asks for {format}, but a dataset is made"),
    };
    Err(Error::new(ErrorKind::Invalid, flaw).at(path).advise(advice))
}

/// Whether the name of a dataset has an ending that says nothing.
pub(super) fn has_other_ending(path: &Path) -> bool {
    let ending = ending(path);
    ending != "msgpack" && is_ending(&ending) && !path.to_str().is_some_and(is_manifest)
}

/// Whether this is no file but a pattern of some.
pub(super) fn is_pattern(path: &Path) -> bool {
    let is_name = |_: &&str| !storage::is_url(path) && path.symlink_metadata().is_err();
    let pattern = path.to_str().filter(is_name);
    pattern.is_some_and(|pattern| pattern.contains("{LABEL}") || pattern.contains(['*', '?', '[']))
}

/// The format that all of these certainly are.
pub(super) fn detect_all(paths: &[impl AsRef<Path>]) -> Result<Format> {
    let mut known: Option<(Format, &Path)> = None;
    for path in paths {
        let path = path.as_ref();
        let found = detect(path)?;
        match known {
            Some((first, at)) if first != found => {
                let message =
                    format!("{} is {first}, but {} is {found}", at.display(), path.display());
                return Err(
                    Error::new(ErrorKind::Invalid, message).advise("convert one after the other")
                );
            }
            _ => known = Some((found, path)),
        }
    }
    known
        .map(|(format, _)| format)
        .ok_or_else(|| Error::new(ErrorKind::Invalid, "expected something to read"))
}

/// Bytes at the start of a file that are looked at: no format needs more than the 12 bytes of the
/// header of a TFRecord.
const HEAD: usize = 12;

fn detect(path: &Path) -> Result<Format> {
    if path == Path::new("-") {
        return Ok(Format::Jsonl);
    }
    // A manifest, or a pattern of data files.
    let is_of_data = || path.extension().is_some_and(|ending| ending == "msgpack");
    if path.to_str().is_some_and(is_manifest) || (names_shards(path) && is_of_data()) {
        return Ok(Format::Dataset);
    }
    if is_pattern(path) {
        return Ok(Format::Images);
    }
    if path.is_dir() {
        return detect_directory(path);
    }
    if path.ends_with("index.json") && MdsReader::open(path).is_ok() {
        return Ok(Format::Mds);
    }
    // A pipe can be read only once.
    let is_file = match size_of(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound && storage::is_url(path) => {
            return absent_url(path, error);
        }
        size => size.map_err(|error| Error::io(path, error))?.is_some(),
    };
    let head = if is_file { head(path, HEAD) } else { Ok(Vec::new()) };
    let head = head.map_err(|error| Error::io(path, error))?;
    let file_name = path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
    let plain = uncompressed(&file_name);
    let ends = |endings: &[&str]| endings.iter().any(|ending| plain.ends_with(ending));
    // A file without bytes has no samples, where a format can be without any; else it was cut short.
    if is_file && head.is_empty() {
        let binary = [".arrow", ".feather", ".mds", ".npz", ".parquet", ".tar", ".tgz", ".zip"];
        if plain.contains(".tfrecord") {
            return Ok(Format::Tfrecord);
        }
        if ends(&binary) {
            return Err(Error::new(ErrorKind::Damaged, "the file is empty").at(path));
        }
    }
    // First the formats that their first bytes identify.
    #[cfg(feature = "formats")]
    if head.first_chunk().is_some_and(|head| crate::format::tfrecord::parse_header(head).is_ok()) {
        return Ok(Format::Tfrecord);
    }
    #[cfg(feature = "formats")]
    if plain.contains(".tfrecord") && crate::format::tfrecord::is_zlib(&head) {
        return Ok(Format::Tfrecord);
    }
    if matches!(head[..], [0, 0, 8 | 9 | 11..=14, 1..=4, ..]) {
        return Ok(Format::Mnist);
    }
    let zip = head.starts_with(b"PK\x03\x04") || head.starts_with(b"PK\x05\x06");
    match () {
        () if head.starts_with(b"PAR1") => Ok(Format::Parquet),
        () if head.starts_with(b"ARROW1") => Ok(Format::Arrow),
        // An Arrow stream has no magic: it starts with a continuation marker and the length of its
        // schema.
        () if file_name.ends_with(".arrow") && head.starts_with(&[0xff; 4]) => Ok(Format::Arrow),
        () if file_name.ends_with(".npz") && zip => Ok(Format::Npz),
        () if file_name.ends_with(".zip") && zip => Ok(Format::Images),
        () if ends(&[".jsonl", ".ndjson"]) => Ok(Format::Jsonl),
        () if file_name.ends_with(".msgpack") => Ok(Format::Dataset),
        () if is_tar(&file_name) => Ok(Format::Webdataset),
        () if ends(&[".csv"]) => Ok(Format::Csv),
        () if ends(&[".tsv"]) => Ok(Format::Tsv),
        // Many programs call JSON lines so.
        () if ends(&[".json"]) && begins_with_object(path) => Ok(Format::Jsonl),
        () => Err(unknown(path, &head, plain)),
    }
}

/// A name without the ending of its compression.
fn uncompressed(name: &str) -> &str {
    let plain = [".bz2", ".gz", ".zst"].iter().find_map(|ending| name.strip_suffix(ending));
    plain.unwrap_or(name)
}

/// Whether this name, in lower case, is the name of a tar archive.
fn is_tar(name: &str) -> bool {
    uncompressed(name).ends_with(".tar") || name.ends_with(".tgz")
}

/// Whether a file is read as a tar archive because of its name.
pub(super) fn is_named_tar(path: &Path) -> bool {
    is_tar(&path.file_name().unwrap_or_default().to_string_lossy().to_lowercase())
}

/// What is below a URL at which there is nothing: only MDS says by itself which files it has.
fn absent_url(path: &Path, error: io::Error) -> Result<Format> {
    if MdsReader::open(path).is_ok() {
        return Ok(Format::Mds);
    }
    Err(Error::io(path, error)
        .advise("folders behind URLs are not listed: name the files, such as shard-{000..063}.tar"))
}

fn detect_directory(path: &Path) -> Result<Format> {
    if MdsReader::open(path).is_ok() {
        return Ok(Format::Mds);
    }
    let shards = ["parquet", "arrow", "tar", "tfrecord", "mds", "msgpack"];
    for entry in fs::read_dir(path).map_err(|error| Error::io(path, error))? {
        let shard = entry.map_err(|error| Error::io(path, error))?.path();
        let ending = shard.extension().unwrap_or_default();
        // An index that cannot be read says why.
        if ending == "mds" && path.join("index.json").is_file() {
            return MdsReader::open(path).map(|_| Format::Mds);
        }
        if shards.iter().any(|known| ending == *known) {
            let message =
                format!("holds shards such as {}, so it is no folder of images", shard.display());
            let formats = vec!["images", "mds", "parquet", "arrow"];
            return Err(Error::new(ErrorKind::Invalid, message)
                .at(path)
                .with_remedy(Remedy::NameInput(formats)));
        }
    }
    Ok(Format::Images)
}

/// Bytes of a first line that is looked at.
const FIRST_LINE: usize = 1 << 20;

/// Whether the first line is an object.
fn begins_with_object(path: &Path) -> bool {
    let head = head(path, FIRST_LINE).unwrap_or_default();
    let line = head.split(|byte| *byte == b'\n').next().unwrap_or_default();
    matches!(jsonl::parse(line), Ok(Value::Map(_)))
}

/// Says what it could be.
fn unknown(path: &Path, head: &[u8], plain: &str) -> Error {
    let size = size_of(path).ok().flatten().unwrap_or(0);
    let cifar = || Remedy::NameInput(vec!["cifar10", "cifar100"]);
    let (flaw, remedy) = match head {
        _ if plain.contains(".tfrecord") => {
            ("named like TFRecord, but its first checksum is wrong", Remedy::ReadAs("tfrecord"))
        }
        _ if plain.ends_with(".npz") => {
            ("named like npz, but it is no zip archive", Remedy::ReadAs("npz"))
        }
        _ if is_image(plain) => (
            "this is one image, which is no set of samples",
            Remedy::Advice(
                "images are read from the folder that they are in, a zip archive, a pattern such as \
                 'photos/{LABEL}/**' or a table that lists them",
            ),
        ),
        _ if plain.ends_with(".json") => (
            "named like JSON, but its first line is no object",
            Remedy::Advice(
                "JSON is read as lines of one object each, as jq -c makes of it: '.[]' of an array, \
                 '.' of objects",
            ),
        ),
        [0x80, 2..=5, ..] => ("this is a pickle, which may be CIFAR", cifar()),
        _ if size > 0 && (size % 3073 == 0 || size % 3074 == 0) => {
            ("this may be CIFAR by its size", cifar())
        }
        _ => (
            "its name and first bytes do not show which format it has",
            Remedy::NameInput(Format::readable().map(Format::name).collect()),
        ),
    };
    Error::new(ErrorKind::Invalid, flaw).at(path).with_remedy(remedy)
}

/// The first bytes of a file, decompressed if they are compressed.
pub(super) fn head(path: &Path, len: usize) -> io::Result<Vec<u8>> {
    if let Ok(head) = compressed::first_bytes(path, len) {
        return Ok(head);
    }
    // What cannot be decompressed is reported by its reader.
    let mut head = Vec::new();
    open_regular(path)?.take(len as u64).read_to_end(&mut head).map(|_| head)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endings_that_are_misspelled_are_refused_and_others_are_not() {
        for ending in [
            "parqet", "parquett", "paruqet", "pq", "jsnl", "josnl", "jsonll", "cvs", "csvv", "tra",
            "tfrecods", "tfrec", "arow", "msgpck", "mspack", "nzp", "fether", "json", "PARQET",
        ] {
            let name = format!("out.{ending}");
            assert!(check_output_name(Path::new(&name)).is_err(), "{name}");
            assert!(check_dataset_name(&name).is_err(), "{name}");
        }
        let all = FORMATS.iter().flat_map(|known| known.endings).copied();
        for ending in all.chain(["", "v2", "dat", "data", "bar", "0-train", "train", "db", "array"])
        {
            assert!(check_output_name(Path::new(&format!("out.{ending}"))).is_ok(), "{ending}");
        }
        for name in ["out", "out.msgpack", "out.v2", "out.shards.json", "a.csv/out"] {
            assert!(check_dataset_name(name).is_ok(), "{name}");
        }
        assert!(check_dataset_name("out.csv").is_err());
    }

    #[test]
    fn every_format_is_in_the_table_once() {
        for known in &FORMATS {
            assert_eq!(known.format.description().name, known.name);
            assert_eq!(known.name.parse::<Format>().unwrap(), known.format);
            assert_eq!(serde_json::to_value(known.format).unwrap(), known.name);
            assert!(known.reads || known.writes, "{}", known.name);
            assert_eq!(known.writes, known.output != Output::None, "{}", known.name);
            for ending in known.endings {
                assert_eq!(Format::of_output(format!("x.{ending}")), known.format);
            }
        }
        assert!("hdf5".parse::<Format>().unwrap_err().to_string().contains("jsonl"));
    }
}
