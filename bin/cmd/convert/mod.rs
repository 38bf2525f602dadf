//! `convert`: arguments to a [`Conversion`], which the library runs, and its report to the terminal.

pub(in crate::cmd) mod format;
pub(super) mod print;
mod reading;

use kiste::storage::Shown;
use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::ValueEnum;
use kiste::array::ArrayPolicy;
use kiste::convert::{BadInput, Conversion, Duplicates, Format, Part, Split};

#[cfg(feature = "datasets")]
pub(super) use self::format::writable;
use crate::cmd::{given, parse_size};
use crate::exit::{Exit, Failure, Outcome};
use crate::file;
use crate::monitor::Monitor;
use crate::output::Output;
use crate::rearrange::Writing;

/// Convert raw data, other formats or datasets to a dataset; or a dataset to another format
///
/// A folder of images has one folder per label: {label}/name.ext. Its samples are {"key":
/// "label/name.ext", "image": the file's bytes, "label": number}. DST.labels lists the names of the
/// labels, one per line, in the order of their numbers, which is natural order.
///
/// The label may also be elsewhere in the path ('photos/{LABEL}/**'), or in a list of files (--from list): CSV
/// or TSV with path, label and further columns, which become fields. A zip archive of images is read like a
/// folder. Images of a folder without folders have no labels.
///
/// JSON lines are samples as "cat --jsonl" prints them: objects with a "key". Lines without one get the name of
/// the file and the number of the line as key.
///
/// WebDataset brings its own keys. TFRecord, MDS, CIFAR, MNIST, npz, CSV and TSV have none: their keys
/// are the name of the file without its ending and a number, unless --key-field or --key says
/// otherwise. Where two files have the same name, keys begin with the paths below the folder that has
/// all of them.
///
/// The format of SRC is detected from its name or first bytes, except for CIFAR, which needs --from. Several
/// sources are read one after the other; MNIST takes two, the images and the labels.
///
/// A dataset is copied, with its labels. That is useful with --arrays, which changes how arrays are
/// stored: packed as bloscpack containers ("blpk"), which Python gets as bytes for
/// bloscpack.unpack_ndarray_from_bytes, or plain, as Python datadings stores them. Values, types and
/// shapes stay the same, and packing and unpacking again gives the same bytes.
///
/// --to writes other formats: DST is then a file; for MDS and images a folder; and for WebDataset the start of
/// the names of the shards: photos.tar makes photos-000000.tar and so on. A value that the format cannot hold
/// is an error that names the sample and the field; values that change are counted at the end. JSON lines and
/// WebDataset lose nothing; in WebDataset fields are named by what they are, such as jpg, cls and
/// "caption.txt". MDS sorts fields. In TFRecord strings become bytes, floats have 32 bits, and arrays lose
/// their shape. CSV holds only strings, numbers and truth values. In these four formats the key is a field
/// "key". A folder of images has files {label}/{key}, with the ending of their format, and metadata.jsonl with
/// all other fields.
///
/// Nothing is published until everything is written, and an error leaves everything as it was. Only
/// an error in the last step, such as a full disk, keeps the samples in DST.partial for "kiste
/// repair". A kill or a power failure leaves DST.partial or DST.parts: the same command with
/// --resume continues from it.
///
/// A large conversion can be divided: run the same command with --part 1/64 to 64/64, on any number of
/// machines, in any order, as often as needed; then "kiste commit DST", whose help has examples. The result has
/// the same bytes as one run.
///
/// DST may be a dataset of many files: NAME.shards.json, which lists its shards NAME-00000.msgpack and so on.
/// The list is written last. Every command that reads a dataset takes its name. Parts write their shards next
/// to it, and "kiste commit" writes the list; --append adds shards. DST may be a URL of an object store:
/// then parts need no shared disk.
#[derive(Debug, clap::Args)]
#[command(aliases = ["import", "export"], override_usage = "kiste convert [OPTIONS] <SRC>... <DST>")]
pub(crate) struct Args {
    /// SRC: folders or files to read, whose names may have braces such as {000..123} or be patterns
    /// such as 'train-*.tar', or - for standard input: JSON lines, or csv, tsv or webdataset with
    /// --from. DST, the last one: the output
    #[arg(required = true, num_args = 1.., value_name = "SRC> <DST")]
    files: Vec<PathBuf>,
    /// DST, in place of the last name
    #[arg(long, short, value_name = "DST")]
    output: Option<PathBuf>,
    /// The format of DST: dataset, jsonl, webdataset, tfrecord, mds, npz, images, csv, parquet or arrow
    /// [default: from its name, else dataset]
    #[arg(long, value_name = "FORMAT", value_parser = format::writable(), hide_possible_values = true)]
    to: Option<Format>,
    #[command(flatten)]
    arrays: Arrays,
    /// Append to a dataset that exists
    #[arg(long, conflicts_with_all = ["force", "resume", "dry_run"])]
    append: bool,
    /// Replace a dataset or file that exists
    #[arg(long, short)]
    force: bool,
    #[command(flatten)]
    running: Running,
    #[command(flatten)]
    writing: Writing,
    /// Print one JSON object that says what was written, or with --dry-run what would be
    #[arg(long, conflicts_with = "part")]
    json: bool,
    #[command(flatten)]
    reading: reading::Reading,
    #[command(flatten)]
    samples: Samples,
    #[command(flatten)]
    splitting: Splitting,
}

/// How arrays are stored.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct Arrays {
    /// How arrays are stored: plain, blpk, or blpk:CODEC:LEVEL:SHUFFLE such as blpk:zstd:5 or
    /// blpk:lz4:9:bitshuffle; blpk is blpk:lz4:5:shuffle [default: as they are]
    #[arg(long, value_name = "FORM", value_parser = array_form)]
    arrays: Option<String>,
    /// Pack only arrays of at least this many bytes [default: 1K]
    #[arg(long, value_name = "SIZE", requires = "arrays", value_parser = parse_size)]
    arrays_min: Option<usize>,
    /// Only the arrays in these fields
    #[arg(long, value_name = "FIELD,...", requires = "arrays", value_delimiter = ',')]
    arrays_fields: Vec<String>,
}

/// Which part of a conversion runs, and how.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct Running {
    /// Write nothing, but print what would happen to each field of the first samples: its type, the
    /// type that a reader finds, and whether the values are the same
    #[arg(long, conflicts_with_all = ["plan", "part", "resume"])]
    pub(super) dry_run: bool,
    /// Print the plan as JSON and write nothing: sources with sizes and times, options, units
    #[arg(long, conflicts_with_all = ["part", "resume"])]
    pub(super) plan: bool,
    /// Write only this part, such as 3/7, to DST.parts. Finished parts are skipped, interrupted ones resumed;
    /// "kiste commit DST" joins them
    #[arg(long, value_name = "I/N", conflicts_with = "resume")]
    pub(super) part: Option<Part>,
    /// Continue where the same command was interrupted, or start it. After an error DST.partial or DST.parts stays
    /// for the next run
    #[arg(long)]
    pub(super) resume: bool,
    /// How to treat bad input: stop; skip it; or quarantine: write it to DST.quarantine.jsonl with
    /// the reason. If anything was left out, the exit code is 1
    #[arg(long, value_name = "WHAT", default_value = "stop", hide_possible_values = true)]
    bad: Bad,
    /// Skip and count samples with a key that came before, instead of stopping. The first 1000 are compared
    /// with the sample that is kept; those that differ are counted
    #[arg(long)]
    skip_duplicates: bool,
}

/// How to treat bad input.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Bad {
    Stop,
    Skip,
    Quarantine,
}

/// How samples are changed.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Samples")]
pub(super) struct Samples {
    /// Only these fields, by their names in SRC, and the key
    #[arg(long, value_name = "FIELD,...", value_delimiter = ',', conflicts_with = "drop")]
    fields: Vec<String>,
    /// Leave out these fields. They are not decoded, so nothing in them is bad input
    #[arg(long, value_name = "FIELD,...", value_delimiter = ',')]
    drop: Vec<String>,
    /// Rename fields
    #[arg(long, value_name = "OLD=NEW,...", value_delimiter = ',', value_parser = renaming)]
    rename: Vec<(String, String)>,
    /// The field to use as key: a string, bytes that are UTF-8, or an integer. "key" is the column that kiste
    /// writes to MDS, npz and TFRecord. With any other field, a column "key" of SRC is kept as "_key"; --rename
    /// key=NAME names it
    #[arg(long, value_name = "FIELD")]
    key_field: Option<String>,
    /// A pattern for keys: text with {key}, {key.stem} (the key without its ending), {key.name} (its last
    /// component), {key.shard} (the name of the sample's file) and {FIELD}
    #[arg(long, value_name = "PATTERN", conflicts_with = "key_field")]
    key: Option<String>,
    /// Write at most this many samples, not counting skipped ones. Each part has up to this many, and "kiste
    /// commit" takes the first
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
}

/// Which output a sample goes to.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Splitting")]
struct Splitting {
    /// Write several outputs in these ratios, such as train=0.9,val=0.1: DST-train.EXT and so on. A hash of
    /// its key decides where a sample goes
    #[arg(long, value_name = "NAME=RATIO,...", value_delimiter = ',', value_parser = share)]
    split: Vec<(String, f64)>,
    /// Samples whose keys are in this file, one per line, go to DST-NAME; the others as --split says,
    /// or to DST-rest. Can be repeated
    #[arg(long, value_name = "NAME=FILE", value_parser = list)]
    split_list: Vec<(String, PathBuf)>,
    /// Text mixed into the hash; change it for a different split
    #[arg(long, value_name = "TEXT", requires = "split", default_value = "")]
    split_salt: String,
    /// Size of a shard: it ends with the sample that reaches SIZE. DST is NAME.shards.json, the manifest of a
    /// dataset of many files, which are written next to it [default: 2G, or with --part one shard per part]; or
    /// another format: tar and MDS have shards of SIZE [default: 1G and 64M], and x.jsonl, .tfrecord, .csv,
    /// .parquet or .arrow becomes x-00000.jsonl and so on. In tar and MDS, SIZE is the size of the file; elsewhere the
    /// bytes of the samples in a dataset
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    shard_size: Option<usize>,
    /// Samples in a shard, where --shard-size would do: with both, a shard ends when it reaches one of the two. Samples
    /// that are left out do not count
    #[arg(long, value_name = "N")]
    shard_samples: Option<u64>,
    /// Number of shards of a dataset of many files, with equally many samples each; where the number of samples is
    /// not known, with about as many bytes of SRC
    #[arg(long, value_name = "N", conflicts_with_all = ["shard_size", "shard_samples"])]
    shards: Option<usize>,
}

/// The options that most people need, which the short help lists.
const BRIEF: [&str; 11] = [
    "files",
    "to",
    "from",
    "fields",
    "key_field",
    "splits",
    "limit",
    "bad",
    "resume",
    "force",
    "dry_run",
];

const FEW_EXAMPLES: &str = "\
Examples:
  kiste convert photos/ photos.msgpack
  kiste convert 'shards-{000..123}.tar' photos.msgpack
  kiste convert captions.jsonl captions.msgpack --key-field id
  kiste convert photos.msgpack photos.tar

\"kiste convert --help\" lists all options: for images, tables, keys, splits, shards and parts.";

/// The command with a short help of one screen.
pub(in crate::cmd) fn with_short_help(command: clap::Command) -> clap::Command {
    let is_brief = |arg: &clap::Arg| BRIEF.contains(&arg.get_id().as_str());
    let command =
        command.mut_args(|arg| if is_brief(&arg) { arg } else { arg.hide_short_help(true) });
    command.after_help(FEW_EXAMPLES).after_long_help(EXAMPLES)
}

const EXAMPLES: &str = "\
Examples:
  kiste convert photos/ photos.msgpack
  kiste convert 'photos/{LABEL}/**' photos.msgpack --exclude '*/thumbs/*'
  kiste convert train.csv train.msgpack --from list --root photos/
  kiste convert photos/ small.msgpack --resize short:256 --quality 85
  kiste convert captions.jsonl captions.msgpack --key-field id
  kiste cat old.msgpack --jsonl | jq -c 'del(.junk)' | kiste convert - new.msgpack
  kiste convert shards-{000..123}.tar photos.msgpack
  kiste convert train-*.tfrecord train.msgpack --texts caption
  kiste convert t10k-images-idx3-ubyte.gz t10k-labels-idx1-ubyte.gz test.msgpack
  kiste convert cifar/data_batch_{1..5} train.msgpack --from cifar10
  kiste convert photos.msgpack photos.tar
  kiste convert captions.msgpack captions.parquet --shard-samples 100000
  kiste convert train.msgpack for-streaming --to mds
  kiste convert photos.msgpack labels.csv --drop image
  kiste convert photos-000000.tar photos.msgpack --rename jpg=image,cls=label --limit 1000
  kiste convert --append more.jsonl words.msgpack --skip-duplicates
  kiste convert crawl.jsonl crawl.msgpack --bad quarantine --resume
  kiste convert 'shards-{000..123}.tar' photos.msgpack --part 3/64
  kiste convert 'crawl-{000..999}.tar' crawl.shards.json --shard-size 2G --resume
  kiste convert photos.msgpack some.msgpack --split train=0.9,val=0.1
  kiste convert big.msgpack small.msgpack --arrays blpk:zstd:5

Exit codes: 0 done; 1 done but bad input was left out (--bad), or the input is damaged; 2 wrong \
usage or I/O error. A part that left out bad input exits with 0, and \"kiste commit\" with 1.";

impl Args {
    pub(crate) fn run(self, output: &Output) -> Outcome<Exit> {
        let (json, running) = (self.json, self.running.clone());
        let mut monitor = Monitor::new(output);
        let conversion = self.conversion()?;
        if running.plan {
            output.json(&conversion.plan()?)?;
            return Ok(Exit::Yes);
        }
        if running.dry_run {
            return running.run_less(&conversion, json, &mut monitor, output)?;
        }
        let each = conversion.each_split()?;
        if running.part.is_some() {
            let mut worst = Exit::Yes;
            for one in &each {
                worst = worst.max(running.run_less(one, json, &mut monitor, output)??);
            }
            return Ok(worst);
        }
        if each.len() > 1 {
            // Before any of them is written.
            each.iter().try_for_each(Conversion::check_output)?;
        }
        if let [one] = &each[..] {
            let report = one.run(&mut monitor)?;
            drop(monitor);
            return print::report(&report, json, output);
        }
        let (mut worst, mut reports) = (Exit::Yes, Vec::new());
        for one in &each {
            let report = one.run(&mut monitor)?;
            monitor.clear();
            worst = worst.max(print::report(&report, false, output)?);
            reports.extend(report.to_json());
        }
        if json {
            output.json(&reports)?;
        }
        Ok(worst)
    }

    /// The conversion that the arguments describe.
    fn conversion(self) -> Outcome<Conversion> {
        let (dst, sources) = match &self.output {
            Some(dst) => (dst, &self.files[..]),
            None => {
                let names = self.files.split_last().filter(|(_, sources)| !sources.is_empty());
                names.ok_or_else(|| Failure::trouble("expected SRC and DST"))?
            }
        };
        file::check_is_name(dst).map_err(|failure| {
            failure.hint("\"kiste cat --jsonl\" prints the samples of a dataset as JSON lines")
        })?;
        let conversion = Conversion::new(sources, dst)
            .append(self.append)
            .overwrite(self.force)
            .memory_map(!file::reads_by_calls());
        let size = self.splitting.shard_size.map(|size| size as u64);
        let conversion = given(conversion, size, Conversion::shard_size);
        let conversion = given(conversion, self.splitting.shard_samples, Conversion::shard_samples);
        let conversion = given(conversion, self.splitting.shards, Conversion::shards);
        let conversion = conversion.split(self.splitting.split());
        let conversion = self.writing.apply(self.samples.apply(self.reading.apply(conversion)));
        let conversion = self.running.apply(self.arrays.apply(conversion));
        Ok(given(conversion, self.to, Conversion::to))
    }
}

/// Joins the parts of a conversion. `begun` is when this run began to write them, if it did.
pub(super) fn commit(
    dataset: &Path,
    begun: Option<Instant>,
    json: bool,
    output: &Output,
) -> Outcome<Exit> {
    let mut monitor = Monitor::new(output);
    let mut report = kiste::convert::commit(dataset, &mut monitor)?;
    if let Some(begun) = begun {
        (report.duration, report.resumed) = (begun.elapsed(), false);
    }
    drop(monitor);
    print::report(&report, json, output)
}

impl Arrays {
    /// The conversion with these options.
    pub(super) fn apply(self, conversion: Conversion) -> Conversion {
        let conversion = conversion.arrays_fields(self.arrays_fields);
        let conversion = given(conversion, self.arrays, Conversion::arrays);
        given(conversion, self.arrays_min, Conversion::arrays_min)
    }
}

impl Running {
    /// Runs less than all of a conversion: one part, or a dry run. An error of the conversion is the
    /// outer one.
    pub(super) fn run_less(
        &self,
        conversion: &Conversion,
        json: bool,
        monitor: &mut Monitor<'_>,
        output: &Output,
    ) -> kiste::Result<Outcome<Exit>> {
        let Some(part) = self.part else {
            let mut tried = conversion.dry_run()?;
            let notices = tried.notices.drain(..);
            notices.for_each(|notice| kiste::convert::Monitor::notice(monitor, notice));
            return Ok(print::dry_run(tried, json, output));
        };
        let report = conversion.run_part(part, monitor)?;
        monitor.clear();
        let name = format!("{}: part {part}", Shown::of(&conversion.output()));
        Ok(Ok(print::part(&report, &name, output)))
    }

    /// The conversion with these options.
    pub(super) fn apply(&self, conversion: Conversion) -> Conversion {
        conversion
            .resume(self.resume)
            .keep_cancelled(true)
            .on_bad_input(match self.bad {
                Bad::Stop => BadInput::Stop,
                Bad::Skip => BadInput::Skip,
                Bad::Quarantine => BadInput::Quarantine,
            })
            .on_duplicates(match self.skip_duplicates {
                true => Duplicates::Skip,
                false => Duplicates::Refuse,
            })
    }
}

impl Samples {
    /// The conversion with these options.
    pub(super) fn apply(self, conversion: Conversion) -> Conversion {
        let conversion = conversion.fields(self.fields).drop_fields(self.drop);
        let renamed = self.rename.into_iter();
        let conversion = renamed.fold(conversion, |all, (old, new)| all.rename(old, new));
        let conversion = given(conversion, self.key_field, Conversion::key_field);
        let conversion = given(conversion, self.key, Conversion::key);
        given(conversion, self.limit, Conversion::limit)
    }
}

impl Splitting {
    fn split(self) -> Split {
        let split = Split::new().salt(self.split_salt);
        let split = self.split.into_iter().fold(split, |all, (name, share)| all.ratio(name, share));
        let lists = self.split_list.into_iter();
        lists.fold(split, |all, (name, file)| all.list(name, file))
    }
}

fn renaming(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((old, new)) if !old.is_empty() && !new.is_empty() && new != "key" => {
            Ok((old.to_owned(), new.to_owned()))
        }
        Some((_, "key")) => Err("--key-field says which field is the key".to_owned()),
        _ => Err("expected OLD=NEW".to_owned()),
    }
}

/// The form in which arrays are stored, checked but kept as it was given.
fn array_form(text: &str) -> Result<String, kiste::Error> {
    text.parse::<ArrayPolicy>().map(|_| text.to_owned())
}

pub(super) fn share(text: &str) -> Result<(String, f64), String> {
    let pair = text.split_once('=').and_then(|(name, share)| Some((name, share.parse().ok()?)));
    match pair {
        Some((name, share)) if Split::new().ratio(name, share).check().is_ok() => {
            Ok((name.to_owned(), share))
        }
        _ => Err("expected NAME=RATIO such as train=0.9".to_owned()),
    }
}

fn list(text: &str) -> Result<(String, PathBuf), String> {
    match text.split_once('=') {
        Some((name, path)) if Split::new().list(name, path).check().is_ok() && !path.is_empty() => {
            Ok((name.to_owned(), PathBuf::from(path)))
        }
        _ => Err("expected NAME=FILE such as val=val-keys.txt".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_shares() {
        assert_eq!(share("train=0.9"), Ok(("train".to_owned(), 0.9)));
        for wrong in ["train", "=1", "a/b=1", "train=-1", "train=0", "train=nan", "train=inf"] {
            assert!(share(wrong).is_err(), "{wrong}");
        }
        assert!(list("val=a=b").is_ok() && list("val=").is_err());
    }
}
