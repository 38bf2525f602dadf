//! `convert`: what is read (`from`), with which fields (`fields`), and how it becomes a dataset, at
//! once (`making`) or in parts (`plan`, `parts`), or several (`split`), or something else (`to`,
//! `export`); and what becomes of what is bad (`bad`).

mod bad;
mod chain;
mod dry_run;
mod export;
mod fields;
mod files;
mod from;
mod images;
mod key;
mod labels;
mod making;
mod parts;
mod plan;
mod room;
mod split;
mod to;

use std::path::{Path, PathBuf};

use clap::ValueEnum;
use kiste::array::{ArrayPolicy, parse_size};
use kiste::convert::Part;

pub(crate) use self::bad::Quarantine;
pub(crate) use self::parts::commit;

use self::bad::Bad;
use self::from::{Opened, Samples};
use self::to::To;
use crate::exit::{Exit, Failure, Outcome, quoted};
use crate::output::Output;
use crate::rearrange::Writing;
use crate::{file, rearrange};

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
/// Not only datasets are made, see --to: DST is a file, for MDS and images a folder, and for
/// WebDataset what the names of the shards begin with: photos.tar makes photos-000000.tar and so
/// on. What a format has no place for is an error that names the sample and the field. JSON lines
/// lose nothing. Nor does WebDataset, but for the names of fields that do not say what they are:
/// "label" becomes "label.cls"; and numbers of NumPy alone, which become maps. MDS sorts fields.
/// In TFRecord texts become bytes, floats have 32 bits, and arrays no shape. CSV has only texts,
/// numbers and truth values. The key is a field "key" in these four. A folder of images has files
/// {label}/{key}, with the ending that their bytes ask for, and all else that is known of them in
/// metadata.jsonl.
///
/// Until all is written nothing is published, and an error leaves everything as it was; only one in
/// the last step, such as a full disk, keeps the samples in DST.partial for "kiste repair". A kill or
/// a power failure leaves DST.partial behind: the same command with --resume goes on with it.
///
/// A large conversion can be divided: the same command with --part 1/64 to 64/64, on as many
/// machines as there are, in any order, and as often as it takes; then "kiste commit DST". What
/// comes of it is the same, byte for byte, as without parts. docs/convert-many.md has examples.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, override_usage = "kiste convert [OPTIONS] <SRC>... <DST>")]
pub(crate) struct Args {
    /// Folders or files to read, whose names may have braces such as {000..123}, and - for JSON
    /// lines from standard input, which is read as nothing else; last what to make of them
    #[arg(required = true, num_args = 1.., value_name = "SRC>... <DST")]
    files: Vec<PathBuf>,
    /// What DST is: dataset, jsonl, webdataset, tfrecord, mds, npz, images, csv, parquet or arrow.
    /// Without this option: what its name says, or else a dataset
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
    /// Print what would be done as JSON: sources with sizes and times, options, units
    #[arg(long, conflicts_with_all = ["part", "resume", "dry_run"])]
    plan: bool,
    /// Make only this part, such as 3/7, in DST.parts. One that is finished is left as it is, one
    /// that was cut short is gone on with, and "kiste commit DST" joins them
    #[arg(long, value_name = "I/N", conflicts_with_all = ["append", "resume", "dry_run", "json"])]
    part: Option<Part>,
    /// Go on where the same command was cut short, if it was. An error then leaves DST.partial for
    /// the next run
    #[arg(long, conflicts_with_all = ["append", "dry_run"])]
    resume: bool,
    /// What becomes of input that is bad: stop (the default), skip it, or quarantine, which sets it
    /// aside in DST.quarantine.jsonl with the reason. If something was left out, the exit code is 1
    #[arg(
        long,
        value_name = "WHAT",
        default_value = "stop",
        hide_possible_values = true,
        hide_default_value = true
    )]
    bad: Bad,
    /// Skip samples whose key was there before, and count them, instead of stopping
    #[arg(long)]
    skip_duplicates: bool,
    #[command(flatten)]
    writing: Writing,
    /// Print one JSON object that says what was written
    #[arg(long)]
    json: bool,
    /// How to show how far it is: bar (the default), only on a terminal, or json, a line every two
    /// seconds on standard error
    #[arg(long, value_name = "FORM", hide_possible_values = true)]
    progress: Option<Showing>,
    #[command(flatten)]
    reading: from::Reading,
    #[command(flatten)]
    samples: fields::Shaping,
    #[command(flatten)]
    splitting: split::Splitting,
    /// The directory of the parts while they are joined: then no option can be given any more.
    #[arg(skip)]
    joined: Option<PathBuf>,
}

/// How to show how far it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Showing {
    Bar,
    Json,
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
  kiste convert photos.msgpack photos.tar --key '{key.stem}'
  kiste convert train.msgpack train.tfrecord --dry-run
  kiste convert train.msgpack for-streaming --to mds
  kiste convert photos.msgpack photos-again --to images
  kiste convert photos.msgpack labels.csv --drop image
  kiste convert for-streaming mine.msgpack --key-field key
  kiste convert photos-000000.tar photos.msgpack --rename label.cls=label --limit 1000
  kiste convert --append more.jsonl words.msgpack --skip-duplicates
  kiste convert crawl.jsonl crawl.msgpack --bad quarantine --resume
  kiste convert 'shards-{000..123}.tar' photos.msgpack --part 3/64
  kiste convert photos.msgpack some.msgpack --split train=0.9,val=0.1 --shuffle
  kiste convert big.msgpack small.msgpack --arrays blpk:zstd:5
  kiste convert small.msgpack big.msgpack --arrays plain

Exit codes: 0 done, 1 done but bad input was left out (--bad), or the input is damaged, 2 wrong \
usage or I/O error. A part that left out bad input is done: 0, and \"kiste commit\" says 1.";

impl Args {
    pub(crate) fn run(self, output: &Output) -> Outcome<Exit> {
        let (dataset, sources) = self.names()?;
        self.samples.check()?;
        if dataset == Path::new("-") {
            let message = "expected a file to make, found -: nothing is written to a pipe";
            return Err(Failure::trouble(message)
                .hint("\"kiste cat --jsonl\" prints the samples of a dataset as JSON lines"));
        }
        if self.to.is_none() {
            To::check_name(dataset)?;
        }
        let to = self.to();
        match to {
            To::Dataset => file::check_is_data(dataset)?,
            _ => self.check_export(to)?,
        }
        if self.append && self.splitting.is_wanted() {
            return Err(Failure::trouble("--append cannot be had with --split or --shuffle"));
        }
        file::check_sources(sources)?;
        let opened = self.reading.open(sources, self.samples.own_key())?;
        if opened.datasets {
            check_is_other(sources, dataset)?;
        }
        match () {
            () if self.plan => self.print_plan(&opened, output),
            () if self.dry_run => {
                let (mut source, _) = self.shaped(opened.samples.source());
                dry_run::dry_run(to, &mut *source, output)
            }
            () if self.part.is_some() || self.splitting.is_wanted() => {
                self.make_parts(opened, output)
            }
            () if to == To::Dataset => self.make(opened, output),
            () => {
                let (source, unseen) = self.shaped(opened.samples.source());
                self.export(to, dataset, source, unseen, output)
            }
        }
    }

    /// What is made, and what of.
    fn names(&self) -> Outcome<(&Path, &[PathBuf])> {
        let names = self.files.split_last().filter(|(_, sources)| !sources.is_empty());
        let (last, sources) = names.ok_or_else(|| Failure::trouble("expected SRC and DST"))?;
        Ok((last, sources))
    }

    fn to(&self) -> To {
        let dataset = self.files.last().map_or(Path::new(""), PathBuf::as_path);
        self.to.unwrap_or_else(|| To::guess(dataset))
    }

    /// A hint that names an option, as somebody has to take it.
    fn option_hint(&self, hint: &str) -> String {
        match &self.joined {
            Some(parts) => {
                format!("{hint}: make the parts anew with it, after rm -r {}", quoted(parts))
            }
            None => hint.to_owned(),
        }
    }

    fn progress_json(&self) -> bool {
        self.progress == Some(Showing::Json)
    }

    fn print_plan(&self, opened: &Opened, output: &Output) -> Outcome<Exit> {
        if let Samples::Stream(_) = opened.samples {
            return Err(parts::no_units());
        }
        output.json(&plan::plan(self, &opened.samples, opened.skipped_files, None)?)?;
        Ok(Exit::Yes)
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
