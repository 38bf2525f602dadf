//! What is read: the formats of `--from`, and which of them something surely is.

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use kiste::array::parse_size;
#[cfg(feature = "parquet")]
use kiste::convert::{ArrowIpc, Parquet};
use kiste::convert::{
    Chained, Cifar, Csv, DatasetSource, Idx, InOrder, Input, JsonLines, JsonLinesFile, Mds, Npz,
    Source, TfRecords, WebDataset, expand_braces, first_bytes, open_regular,
};
use kiste::format::__private::tfrecord;

use super::chain::Chain;
use super::files::{Files, is_pattern};
use super::images::Images;
use crate::exit::{Failure, Outcome};
use crate::file;

/// What `--from` takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum From {
    Images,
    List,
    Jsonl,
    Dataset,
    Webdataset,
    Tfrecord,
    Mds,
    Cifar10,
    Cifar100,
    Mnist,
    Npz,
    Csv,
    Tsv,
    Parquet,
    Arrow,
}

/// What is said about the input beside its format.
#[derive(Debug, Default, clap::Args)]
#[command(next_help_heading = "Reading")]
pub(super) struct Reading {
    /// What SRC is: images, list, jsonl, dataset, webdataset, tfrecord, mds, cifar10, cifar100,
    /// mnist, npz, csv, tsv, parquet or arrow; guessed only where that is certain
    #[arg(long, value_name = "FORMAT", hide_possible_values = true)]
    from: Option<From>,
    /// Of TFRecord: the features that are texts; others of byte strings stay bytes
    #[arg(long, value_name = "FIELD,...", value_delimiter = ',')]
    texts: Vec<String>,
    /// Of CSV and TSV: take columns of numbers for numbers, which reads the files twice
    #[arg(long)]
    guess_types: bool,
    /// Refuse what is not to be believed: a file, line, row, record, sample of webdataset, page,
    /// batch or shard of more bytes than this once it is decompressed; 1G if not said, for shards of
    /// mds and files of mnist 4G. For npz all arrays together, 16G
    #[arg(long, value_name = "SIZE", value_parser = parse_size, alias = "max-file")]
    max_bytes: Option<usize>,
    #[command(flatten)]
    files: Files,
    #[command(flatten)]
    images: Images,
}

/// Samples to convert, and how many files were passed over on the way to them.
pub(super) struct Opened {
    pub(super) samples: Samples,
    pub(super) skipped_files: u64,
    /// What is read are datasets, which must not be written at the same time.
    pub(super) datasets: bool,
}

/// Samples as they can be had.
pub(super) enum Samples {
    /// In units, each of which can be read without the others.
    Units(Box<dyn Input>),
    /// One after the other, and only once.
    Stream(Box<dyn Source>),
}

impl Samples {
    /// All of them, in order.
    pub(super) fn source(self) -> Box<dyn Source> {
        match self {
            Samples::Units(input) => Box::new(InOrder::new(input)),
            Samples::Stream(source) => source,
        }
    }

    pub(super) fn label_names(&self) -> Option<&[String]> {
        match self {
            Samples::Units(input) => input.label_names(),
            Samples::Stream(source) => source.label_names(),
        }
    }
}

impl Reading {
    /// Reads what is surely of this format.
    pub(super) fn of(from: From) -> Reading {
        Reading { from: Some(from), guess_types: from == From::Csv, ..Reading::default() }
    }

    /// Opens these sources, whose names may have braces. Where keys are made up unless a field is
    /// said to be the key, `key` says which.
    pub(super) fn open(&self, sources: &[PathBuf], key: Option<&str>) -> Outcome<Opened> {
        let paths = expand(sources)?;
        let from = match self.from {
            Some(from) => from,
            None if self.files.has_root() && paths.iter().all(|path| path.is_file()) => From::List,
            None => guess_all(&paths)?,
        };
        if from != From::Jsonl && paths.iter().any(|path| path == Path::new("-")) {
            let message = "standard input is read as JSON lines only";
            let message = format!("-: {message}, but this is to be {}", name(from));
            return Err(Failure::trouble(message).hint("write it to a file and name that"));
        }
        self.check(from)?;
        self.images.check()?;
        let mut skipped_files = 0;
        let datasets = from == From::Dataset;
        let samples = match from {
            From::Images => {
                let folder = self.files.open(&paths, self.max_bytes())?;
                skipped_files = folder.skipped();
                units(folder)
            }
            From::List => {
                let list = only(&paths, "a list of files")?;
                units(self.files.open_list(list, self.max_bytes())?)
            }
            From::Jsonl => each(&paths, |path| lines(path, self.max_bytes()))?,
            From::Dataset => {
                each(&paths, |path| Ok(units(DatasetSource::new(file::open(path)?)?)))?
            }
            From::Mds => each(&paths, |path| {
                let mds = self.within(Mds::open(path)?, Mds::max_bytes);
                Ok(units(with_key(mds, key, Mds::key)))
            })?,
            From::Npz => each(&paths, |path| {
                let npz = match self.max_bytes() {
                    Some(max) => Npz::rows_within(path, max)?,
                    None => Npz::rows(path)?,
                };
                Ok(units(with_key(npz, key, Npz::key)))
            })?,
            From::Mnist => units(mnist(&paths, self.max_bytes())?),
            From::Webdataset => {
                units(self.within(WebDataset::open(texts(&paths)?)?, WebDataset::max_bytes))
            }
            From::Tfrecord => {
                let records = TfRecords::open(texts(&paths)?)?.texts(self.texts.clone());
                units(with_key(self.within(records, TfRecords::max_bytes), key, TfRecords::key))
            }
            From::Cifar10 => units(self.within(Cifar::cifar10(texts(&paths)?)?, Cifar::max_bytes)),
            From::Cifar100 => {
                units(self.within(Cifar::cifar100(texts(&paths)?)?, Cifar::max_bytes))
            }
            From::Csv => self.table(&paths, b',', key)?,
            From::Tsv => self.table(&paths, b'\t', key)?,
            From::Parquet | From::Arrow => self.arrow(from, &paths, key)?,
        };
        Ok(Opened { samples: self.images.on(samples)?, skipped_files, datasets })
    }

    /// An option that would change nothing was meant for something else.
    fn check(&self, from: From) -> Outcome<()> {
        let table = matches!(from, From::Csv | From::Tsv);
        let flaw = match () {
            () if !self.texts.is_empty() && from != From::Tfrecord => "--texts is for tfrecord",
            () if self.max_bytes.is_some() && from == From::Dataset => {
                "--max-bytes is for what others wrote"
            }
            () if self.guess_types && !table => "--guess-types is for csv and tsv",
            () if matches!(from, From::Images | From::List) => return Ok(()),
            () => match self.files.given() {
                Some(option) => &format!("{option} is for images and list"),
                None => return Ok(()),
            },
        };
        Err(Failure::trouble(format!("{flaw}, but this is {}", name(from))))
    }

    fn table(&self, paths: &[PathBuf], delimiter: u8, key: Option<&str>) -> Outcome<Samples> {
        let table = Csv::open(texts(paths)?)?.delimiter(delimiter);
        let table = with_key(self.within(table, Csv::max_bytes), key, Csv::key);
        Ok(units(if self.guess_types { table.guess_types()? } else { table }))
    }

    /// Tables of Arrow.
    #[cfg(feature = "parquet")]
    fn arrow(&self, from: From, paths: &[PathBuf], key: Option<&str>) -> Outcome<Samples> {
        let paths = texts(paths)?;
        Ok(match from {
            From::Parquet => {
                let table = self.within(Parquet::open(paths)?, Parquet::max_bytes);
                units(with_key(table, key, Parquet::key))
            }
            _ => {
                let table = self.within(ArrowIpc::open(paths)?, ArrowIpc::max_bytes);
                units(with_key(table, key, ArrowIpc::key))
            }
        })
    }

    #[cfg(not(feature = "parquet"))]
    fn arrow(&self, from: From, _: &[PathBuf], _: Option<&str>) -> Outcome<Samples> {
        Err(without_parquet(&name(from)))
    }

    fn max_bytes(&self) -> Option<u64> {
        self.max_bytes.map(|bytes| bytes as u64)
    }

    /// The input with the limit that was given.
    fn within<T>(&self, input: T, limit: fn(T, u64) -> T) -> T {
        match self.max_bytes() {
            Some(max) => limit(input, max),
            None => input,
        }
    }
}

/// The input whose keys are this field.
fn with_key<'a, T>(input: T, key: Option<&'a str>, set: fn(T, &'a str) -> T) -> T {
    match key {
        Some(key) => set(input, key),
        None => input,
    }
}

fn name(from: From) -> String {
    from.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
}

/// All names that are meant. One that is there as it is has no braces to expand.
fn expand(sources: &[PathBuf]) -> Outcome<Vec<PathBuf>> {
    let mut paths = Vec::new();
    for source in sources {
        match source.to_str() {
            Some(pattern) if !source.exists() => {
                paths.extend(expand_braces(pattern)?.into_iter().map(PathBuf::from));
            }
            _ => paths.push(source.clone()),
        }
    }
    Ok(paths)
}

fn units(input: impl Input + 'static) -> Samples {
    Samples::Units(Box::new(input))
}

/// One source after the other: in units, if all are.
fn each(paths: &[PathBuf], open: impl Fn(&Path) -> Outcome<Samples>) -> Outcome<Samples> {
    let mut all = paths.iter().map(|path| open(path)).collect::<Outcome<Vec<_>>>()?;
    if all.len() == 1 {
        return Ok(all.remove(0));
    }
    if all.iter().any(|samples| matches!(samples, Samples::Stream(_))) {
        let sources = all.into_iter().map(Samples::source).collect();
        return Ok(Samples::Stream(Box::new(Chain::new(sources))));
    }
    let input = |samples| match samples {
        Samples::Units(input) => Some(input),
        Samples::Stream(_) => None,
    };
    Ok(units(Chained::new(all.into_iter().filter_map(input).collect())?))
}

fn lines(path: &Path, max_bytes: Option<u64>) -> Outcome<Samples> {
    let name = path.display().to_string();
    if name == "-" {
        return Ok(stream(JsonLines::new(io::stdin(), name), max_bytes));
    }
    let file = JsonLinesFile::open(path)?;
    Ok(units(match max_bytes {
        Some(max) => file.max_bytes(max),
        None => file,
    }))
}

fn stream<R: Read + Send + 'static>(lines: JsonLines<R>, max_bytes: Option<u64>) -> Samples {
    Samples::Stream(Box::new(match max_bytes {
        Some(max) => lines.max_bytes(max),
        None => lines,
    }))
}

fn only<'a>(paths: &'a [PathBuf], what: &str) -> Outcome<&'a Path> {
    match paths {
        [path] => Ok(path),
        _ => Err(Failure::trouble(format!("expected {what} alone, found {} names", paths.len()))),
    }
}

/// Names for those who take them as text.
fn texts(paths: &[PathBuf]) -> Outcome<Vec<&str>> {
    let mut texts = Vec::with_capacity(paths.len());
    for path in paths {
        let message = || Failure::trouble(format!("{}: the name is not UTF-8", path.display()));
        texts.push(path.to_str().ok_or_else(message)?);
    }
    Ok(texts)
}

/// Says what is not there, and how to get it.
#[cfg(not(feature = "parquet"))]
pub(super) fn without_parquet(name: &str) -> Failure {
    let message = format!("this kiste was built without {name}");
    Failure::trouble(message).hint("build it with --features parquet")
}

/// Images and perhaps labels, in whichever order: labels have one dimension.
fn mnist(paths: &[PathBuf], max_bytes: Option<u64>) -> Outcome<Idx> {
    let is_labels = |path: &Path| head(path).is_ok_and(|head| head.get(3) == Some(&1));
    let open = |images: &Path, labels| match max_bytes {
        Some(max) => Idx::open_within(images, labels, max),
        None => Idx::open(images, labels),
    };
    Ok(match paths {
        [images] => open(images, None)?,
        [labels, images] if is_labels(labels) && !is_labels(images) => open(images, Some(labels))?,
        [images, labels] => open(images, Some(labels))?,
        _ => {
            let message = "expected a file of images and one of labels, found";
            return Err(Failure::trouble(format!("{message} {} names", paths.len())));
        }
    })
}

/// What all of them surely are.
fn guess_all(paths: &[PathBuf]) -> Outcome<From> {
    let mut known: Option<(From, &Path)> = None;
    for path in paths {
        let found = guess(path)?;
        match known {
            Some((first, at)) if first != found => {
                let (at, first) = (at.display(), name(first));
                let message = format!("{at} is {first}, but {} is {}", path.display(), name(found));
                return Err(Failure::trouble(message).hint("convert one after the other"));
            }
            _ => known = Some((found, path)),
        }
    }
    known.map(|(from, _)| from).ok_or_else(|| Failure::trouble("expected something to read"))
}

/// What this surely is.
fn guess(path: &Path) -> Outcome<From> {
    if path == Path::new("-") {
        return Ok(From::Jsonl);
    }
    if is_pattern(path) {
        return Ok(From::Images);
    }
    if path.is_dir() {
        return guess_folder(path);
    }
    // What comes through a pipe can be read but once.
    let is_file = path.metadata().map_err(|error| Failure::io(path, error))?.is_file();
    let head = if is_file { head(path) } else { Ok(Vec::new()) };
    let head = head.map_err(|error| Failure::io(path, error))?;
    let file_name = path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
    let endings = [".bz2", ".gz", ".zst"];
    let plain = endings.iter().find_map(|ending| file_name.strip_suffix(ending));
    let plain = plain.unwrap_or(&file_name);
    let ends = |suffixes: &[&str]| suffixes.iter().any(|suffix| plain.ends_with(suffix));
    // First those that are known by what is in them.
    if head.first_chunk().is_some_and(|head| tfrecord::parse_header(head).is_ok()) {
        return Ok(From::Tfrecord);
    }
    if matches!(head[..], [0, 0, 8 | 9 | 11..=14, 1..=4, ..]) {
        return Ok(From::Mnist);
    }
    let zip = head.starts_with(b"PK\x03\x04") || head.starts_with(b"PK\x05\x06");
    match () {
        () if head.starts_with(b"PAR1") => Ok(From::Parquet),
        () if head.starts_with(b"ARROW1") => Ok(From::Arrow),
        // A stream begins with a mark and the length of its schema.
        () if file_name.ends_with(".arrow") && head.starts_with(&[0xff; 4]) => Ok(From::Arrow),
        () if file_name.ends_with(".npz") && zip => Ok(From::Npz),
        () if file_name.ends_with(".zip") && zip => Ok(From::Images),
        () if ends(&[".jsonl", ".ndjson"]) => Ok(From::Jsonl),
        () if file_name.ends_with(".msgpack") => Ok(From::Dataset),
        () if ends(&[".tar"]) || file_name.ends_with(".tgz") => Ok(From::Webdataset),
        () if ends(&[".csv"]) => Ok(From::Csv),
        () if ends(&[".tsv"]) => Ok(From::Tsv),
        () => Err(unknown(path, &head, plain)),
    }
}

fn guess_folder(path: &Path) -> Outcome<From> {
    if Mds::open(path).is_ok() {
        return Ok(From::Mds);
    }
    let entries = fs::read_dir(path).map_err(|error| Failure::io(path, error))?;
    for entry in entries {
        let shard = entry.map_err(|error| Failure::io(path, error))?.path();
        let ending = shard.extension().unwrap_or_default();
        if ["parquet", "arrow", "tar", "tfrecord", "mds", "msgpack"]
            .iter()
            .any(|known| ending == *known)
        {
            let (path, shard) = (path.display(), shard.display());
            let message =
                format!("{path}: holds shards such as {shard}, so it is no folder of images");
            let hint = "name the shards instead of the folder, or say what it is with --from images, mds, parquet or arrow";
            return Err(Failure::trouble(message).hint(hint));
        }
    }
    Ok(From::Images)
}

/// Says what it could be.
fn unknown(path: &Path, head: &[u8], plain: &str) -> Failure {
    let size = path.metadata().map_or(0, |metadata| metadata.len());
    let named_tfrecord = plain.contains(".tfrecord");
    let (flaw, hint) = match head {
        _ if named_tfrecord => (
            "named like TFRecord, but its first checksum is not that of one",
            "--from tfrecord reads it all the same, and says where it is damaged",
        ),
        _ if plain.ends_with(".npz") => (
            "named like npz, but it is no zip archive",
            "--from npz reads it all the same, and says what is wrong",
        ),
        [0x80, 2..=5, ..] => {
            ("this is a pickle, which may be CIFAR", "say which with --from cifar10 or cifar100")
        }
        _ if size > 0 && (size % 3073 == 0 || size % 3074 == 0) => {
            ("this may be CIFAR by its size", "say which with --from cifar10 or cifar100")
        }
        _ => (
            "neither its name nor its first bytes say for certain what it is",
            "say it with --from images, list, jsonl, dataset, webdataset, tfrecord, mds, cifar10, \
             cifar100, mnist, npz, csv, tsv, parquet or arrow",
        ),
    };
    Failure::trouble(format!("{}: {flaw}", path.display())).hint(hint)
}

/// The first bytes of a file, decompressed if they are compressed.
fn head(path: &Path) -> io::Result<Vec<u8>> {
    if let Ok(head) = first_bytes(path, tfrecord::HEADER) {
        return Ok(head);
    }
    // What does not decompress is told by its reader.
    let mut head = Vec::new();
    open_regular(path)?.take(tfrecord::HEADER as u64).read_to_end(&mut head).map(|_| head)
}
