//! `convert`: what is read (`from`), and how it becomes a dataset, or something else (`to`,
//! `export`), with which fields (`fields`).

mod chain;
mod dry_run;
mod export;
mod fields;
mod files;
mod from;
mod images;
mod to;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Instant;

use kiste::array::{ArrayPolicy, ArrayTally, parse_size};
use kiste::convert::{Duplicates, Recode, Source, convert, labels_path};
use kiste::{ErrorKind, Writer};
use serde::Serialize;

use self::fields::Reshape;
use self::from::Opened;
use self::to::To;
use crate::exit::{Exit, Failure, Outcome};
use crate::output::{Output, Progress};
use crate::rearrange::Writing;
use crate::{file, rearrange, units};

/// Make a dataset of raw data or of what other libraries write, or what they read of a dataset
///
/// A folder of images has a folder for each label: {label}/name.ext. Its samples are {"key":
/// "label/name.ext", "image": the file's bytes, "label": number}; the names of the labels go to
/// DST.labels, one a line, in the order of the numbers, which is natural order.
///
/// The label may be elsewhere in the path, as 'photos/{LABEL}/**' says, or in a list of files (--from
/// list): CSV or TSV with path, label and further columns, which become fields. A zip archive of
/// images is read like a folder. Images of a folder without folders have no labels.
///
/// JSON lines are samples as "cat --jsonl" prints them: objects with a "key".
///
/// WebDataset, TFRecord, MDS, CIFAR, MNIST, npz, CSV and TSV have keys made of the name of the file
/// and a number, but for WebDataset, which has its own. What SRC is shows in its name or its first
/// bytes. CIFAR must be named, as nothing in it tells. Several sources come one after the other;
/// those of MNIST are the images and the labels.
///
/// A dataset is copied, with its labels. That is for --arrays, which stores the arrays in samples
/// otherwise: packed as bloscpack containers ("blpk"), which Python gets as bytes for
/// bloscpack.unpack_ndarray_from_bytes, or plain, as Python datadings has them. Values, types and
/// shapes stay the same, and what was packed becomes plain again to the byte.
///
/// Not only datasets are made, see --to: DST is a file, for MDS and images a folder, and for WebDataset what the
/// names of the shards begin with: photos.tar makes photos-000000.tar and so on. What a format has
/// no place for is an error that names the sample and the field. JSON lines lose nothing. Nor does
/// WebDataset, but for the names of fields that do not say what they are: "label" becomes
/// "label.cls". MDS sorts fields. In npz floats become those of NumPy. In TFRecord texts become
/// bytes, floats have 32 bits, and arrays no shape. CSV has only texts, numbers and truth values. The key is a field "key" in these four. A folder
/// of images has files {label}/{key}, with the ending that their bytes ask for, and all else that is
/// known of them in metadata.jsonl.
///
/// Until all is written nothing is published, and an error leaves everything as it was. A kill or
/// a power failure leaves DST.partial behind: see "kiste repair".
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, override_usage = "kiste convert [OPTIONS] <SRC>... <DST>")]
pub(crate) struct Args {
    /// Folders or files to read, whose names may have braces such as {000..123}, and - for standard
    /// input; last what to make of them
    #[arg(required = true, num_args = 1.., value_name = "SRC>... <DST")]
    files: Vec<PathBuf>,
    /// What DST is: dataset, jsonl, webdataset, tfrecord, mds, npz, images or csv. Without this option: what its
    /// name says, or else a dataset
    #[arg(long, value_name = "FORMAT", hide_possible_values = true)]
    to: Option<To>,
    /// Make nothing, but print what becomes of each field of the first samples: its type, the type
    /// that a reader finds, and whether the values are the same
    #[arg(long)]
    dry_run: bool,
    /// How arrays are stored: plain, blpk, or blpk:CODEC:LEVEL:SHUFFLE such as blpk:zstd:5 or
    /// blpk:lz4:9:bitshuffle; what is not said is lz4, 5, shuffle. Without this option: as they are
    #[arg(long, value_name = "FORM")]
    arrays: Option<ArrayPolicy>,
    /// Pack only arrays of at least this many bytes, 1K if not said
    #[arg(long, value_name = "SIZE", requires = "arrays", value_parser = parse_size)]
    arrays_min: Option<usize>,
    /// Only the arrays in these fields
    #[arg(long, value_name = "FIELD,...", requires = "arrays", value_delimiter = ',')]
    arrays_fields: Option<Vec<String>>,
    /// Add to a dataset that exists
    #[arg(long, conflicts_with = "force")]
    append: bool,
    /// Replace a dataset that exists
    #[arg(long)]
    force: bool,
    /// Skip samples whose key was there before, and count them, instead of stopping
    #[arg(long)]
    skip_duplicates: bool,
    #[command(flatten)]
    writing: Writing,
    /// Print one JSON object that says what was written
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    reading: from::Reading,
    #[command(flatten)]
    samples: fields::Shaping,
}

const EXAMPLES: &str = "\
Examples:
  kiste convert photos/ photos.msgpack
  kiste convert 'photos/{LABEL}/**' photos.msgpack --exclude '*/thumbs/*'
  kiste convert photos.zip photos.msgpack --labels names.txt
  kiste convert train.csv train.msgpack --from list --root photos/
  kiste convert photos/ small.msgpack --resize short:256 --quality 85
  kiste convert words.jsonl words.msgpack
  kiste cat old.msgpack --jsonl | jq -c 'del(.junk)' | kiste convert - new.msgpack
  kiste convert shards-{000..123}.tar photos.msgpack
  kiste convert train-*.tfrecord train.msgpack --texts caption
  kiste convert t10k-images-idx3-ubyte.gz t10k-labels-idx1-ubyte.gz test.msgpack
  kiste convert cifar/data_batch_{1..5} train.msgpack --from cifar10
  kiste convert people.csv people.msgpack --guess-types
  kiste convert photos.msgpack photos.tar
  kiste convert train.msgpack train.tfrecord --dry-run
  kiste convert train.msgpack for-streaming --to mds
  kiste convert photos.msgpack photos-again --to images
  kiste convert photos.msgpack labels.csv --drop image
  kiste convert for-streaming mine.msgpack --key-field key
  kiste convert photos-000000.tar photos.msgpack --rename label.cls=label --limit 1000
  kiste convert --append more.jsonl words.msgpack --skip-duplicates
  kiste convert big.msgpack small.msgpack --arrays blpk:zstd:5
  kiste convert small.msgpack big.msgpack --arrays plain";

#[derive(Serialize)]
struct Converted {
    file: PathBuf,
    /// Samples and bytes of the whole dataset, and how many of these are new.
    samples: u64,
    bytes: u64,
    added: u64,
    added_bytes: u64,
    skipped_duplicates: u64,
    /// Files in the folder that are no images.
    skipped_files: u64,
    labels: Option<PathBuf>,
    /// What became of the arrays, if that was asked for.
    arrays: Option<ArrayTally>,
    seconds: f64,
}

impl Args {
    pub(crate) fn run(self, output: &Output) -> Outcome<Exit> {
        let start = Instant::now();
        let (dataset, sources) = self.names()?;
        self.samples.check()?;
        let to = self.to.unwrap_or_else(|| To::guess(dataset));
        match to {
            To::Dataset => file::check_is_data(dataset)?,
            _ => self.check_export(to)?,
        }
        let Opened { source, skipped_files, datasets } = self.reading.open(sources)?;
        if datasets {
            check_is_other(sources, dataset)?;
        }
        let source: Box<dyn Source> = Box::new(Reshape::new(source, &self.samples));
        if self.dry_run {
            return dry_run::dry_run(to, self.recoding(source).as_source(), output);
        }
        if to != To::Dataset {
            return self.export(to, dataset, self.recoding(source).as_source(), output);
        }
        let labels = self.plan_labels(source.label_names())?;
        let mut source = self.recoding(source);
        let mut writer = self.writer()?;
        let (before, bytes_before) = (writer.len(), writer.bytes());
        let progress =
            output.progress("converting", source.as_source().len_hint().map(|len| before + len));
        let skipped_duplicates = match self.copy(source.as_source(), &mut writer, &progress) {
            Ok(skipped) => skipped,
            Err(failure) => {
                // The first error is the one to tell.
                let _ = writer.abort();
                return Err(failure);
            }
        };
        progress.say("finishing");
        let stats = writer.finish()?;
        let labels = self.write_labels(labels)?;
        drop(progress);
        let time = start.elapsed();
        let converted = Converted {
            samples: stats.samples,
            bytes: stats.bytes,
            added: stats.samples - before,
            added_bytes: stats.bytes - bytes_before,
            skipped_duplicates,
            skipped_files,
            labels,
            arrays: source.tally(),
            seconds: time.as_secs_f64(),
            file: dataset.to_path_buf(),
        };
        converted.tell(output, time);
        if self.json {
            output.json(&converted)?;
        }
        Ok(Exit::Yes)
    }

    /// What is made, and what of.
    fn names(&self) -> Outcome<(&Path, &[PathBuf])> {
        let names = self.files.split_last().filter(|(_, sources)| !sources.is_empty());
        let (last, sources) = names.ok_or_else(|| Failure::trouble("expected SRC and DST"))?;
        Ok((last, sources))
    }

    fn dataset(&self) -> &Path {
        self.files.last().map_or(Path::new(""), PathBuf::as_path)
    }

    /// The same source, with its arrays stored as asked for.
    fn recoding(&self, source: Box<dyn Source>) -> Recoding {
        let Some(mut policy) = self.arrays.clone() else { return Recoding::No(source) };
        if let Some(bytes) = self.arrays_min {
            policy = policy.min_bytes(bytes);
        }
        if let Some(names) = &self.arrays_fields {
            policy = policy.fields(names);
        }
        Recoding::Yes(Box::new(Recode::new(source, policy)))
    }

    fn writer(&self) -> Outcome<Writer> {
        let options = self.writing.options().overwrite(self.force);
        let opened = match self.append {
            true => options.append(self.dataset()),
            false => options.create(self.dataset()),
        };
        opened.map_err(|error| {
            let kind = error.kind();
            match (Failure::from(error), kind) {
                (failure, ErrorKind::AlreadyExists) => {
                    failure.hint("--force replaces it, --append adds to it")
                }
                (failure, ErrorKind::NotFound) if self.append => {
                    failure.hint("without --append a new dataset is made")
                }
                (failure, _) => failure,
            }
        })
    }

    /// Writes all samples; how many were skipped because their key was there before.
    fn copy(
        &self,
        source: &mut dyn Source,
        writer: &mut Writer,
        progress: &Progress,
    ) -> Outcome<u64> {
        let duplicates = match self.skip_duplicates {
            true => Duplicates::Skip,
            false => Duplicates::Refuse,
        };
        convert(source, writer, duplicates, |seen| progress.set(seen)).map_err(|error| {
            let kind = error.kind();
            let failure = Failure::from(error);
            match kind {
                ErrorKind::DuplicateKey => {
                    failure.hint("--skip-duplicates passes over such samples")
                }
                _ => failure,
            }
        })
    }

    /// The text of DST.labels, if it is to be written. Checked before anything is.
    fn plan_labels(&self, names: Option<&[String]>) -> Outcome<Option<String>> {
        let path = labels_path(self.dataset());
        let Some(names) = names else { return Ok(None) };
        if let Some(name) = names.iter().find(|name| name.contains(['\n', '\r'])) {
            let message = "a label with a line end in its name cannot be listed one a line";
            return Err(Failure::trouble(format!("{}: {message}", name.escape_debug())));
        }
        let known = match fs::read_to_string(&path) {
            Ok(text) => Some(text),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(Failure::io(&path, error)),
        };
        let text: String = names.iter().map(|name| format!("{name}\n")).collect();
        let file = path.display();
        match (self.append, known) {
            (true, Some(known)) => {
                let lines: Vec<&str> = known.lines().collect();
                let differs = lines.iter().zip(names).position(|(line, name)| line != name);
                match differs {
                    Some(at) => Err(Failure::trouble(format!(
                        "{file}: label {at} is {:?} here but {:?} in the folder, so the numbers \
                         would not mean the same",
                        lines[at], names[at]
                    ))),
                    // What the folder has beyond is added.
                    None => Ok((names.len() > lines.len()).then_some(text)),
                }
            }
            (true, None) => {
                let message = format!("{file}: not there, so nobody knows what the numbers mean");
                Err(Failure::trouble(message).hint("write it: one label a line, that of 0 first"))
            }
            // If the dataset is there as well, the writer objects to that.
            (false, Some(_)) if !self.force && !self.dataset().exists() => {
                let message = format!("{file}: the file exists already");
                Err(Failure::trouble(message).hint("--force replaces it"))
            }
            (false, _) => Ok(Some(text)),
        }
    }

    /// Writes DST.labels after the dataset was published, or removes one that has become wrong.
    fn write_labels(&self, text: Option<String>) -> Outcome<Option<PathBuf>> {
        let path = labels_path(self.dataset());
        match text {
            Some(text) => file::write(&path, text.as_bytes(), true).map(|()| Some(path)),
            None if self.force && path.exists() => {
                fs::remove_file(&path).map_err(|error| Failure::io(&path, error))?;
                Ok(None)
            }
            None => Ok(path.exists().then_some(path)),
        }
    }
}

fn check_is_other(sources: &[PathBuf], dataset: &Path) -> Outcome<()> {
    match sources.iter().find(|source| rearrange::is_same(source, dataset)) {
        Some(source) => {
            let message = format!("{}: is both read and written", source.display());
            Err(Failure::trouble(message).hint("write to another file, then rename it"))
        }
        None => Ok(()),
    }
}

/// Where samples come from, with their arrays as they are or stored otherwise.
enum Recoding {
    No(Box<dyn Source>),
    Yes(Box<Recode>),
}

impl Recoding {
    fn as_source(&mut self) -> &mut dyn Source {
        match self {
            Recoding::No(source) => &mut **source,
            Recoding::Yes(recode) => &mut **recode,
        }
    }

    fn tally(&self) -> Option<ArrayTally> {
        match self {
            Recoding::No(_) => None,
            Recoding::Yes(recode) => Some(recode.tally().clone()),
        }
    }
}

/// How many arrays were recoded, what that did to their size, and why others were left.
fn tell_arrays(tally: &ArrayTally, path: &Path, output: &Output) {
    let path = path.display();
    let arrays = units::counted(tally.recoded, "array");
    let (before, after) = (units::bytes(tally.bytes_before), units::bytes(tally.bytes_after));
    let (ratio, verb) = match tally.ratio() {
        ratio if ratio < 1.0 => (1.0 / ratio, "larger"),
        ratio => (ratio, "smaller"),
    };
    match tally.recoded {
        0 => output.note(format_args!("{path}: no arrays recoded")),
        _ => output.note(format_args!(
            "{path}: {arrays} recoded, {before} before, {after} now: {ratio:.2} times {verb}"
        )),
    }
    for (why, count) in &tally.left {
        let arrays = units::counted(*count, "array");
        output.note(format_args!("{path}: {arrays} left as before: {why}"));
    }
}

impl Converted {
    fn tell(&self, output: &Output, time: std::time::Duration) {
        let path = self.file.display();
        let (samples, bytes) =
            (units::counted(self.added, "sample"), units::bytes(self.added_bytes));
        let rate = units::byte_rate(self.added_bytes, time);
        let samples_rate = units::sample_rate(self.added, time);
        let duration = units::duration(time);
        let total = match self.added == self.samples {
            true => String::new(),
            false => format!(", {} now", units::count(self.samples)),
        };
        output.note(format_args!(
            "{path}: {samples}{total}, {bytes} in {duration} ({samples_rate}, {rate})"
        ));
        if let Some(tally) = &self.arrays {
            tell_arrays(tally, &self.file, output);
        }
        if self.skipped_duplicates > 0 {
            let samples = units::counted(self.skipped_duplicates, "sample");
            output.note(format_args!("{path}: skipped {samples} whose key was there before"));
        }
        if self.skipped_files > 0 {
            let files = units::counted(self.skipped_files, "file");
            output.warn(format_args!("skipped {files} that are no images by their name"));
        }
    }
}
