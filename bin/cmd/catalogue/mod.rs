//! `catalogue`: well-known data sets, listed, described, or made from their archives.

mod classes;
mod describe;
mod files;
mod table;

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Instant;

use kiste::convert::{Conversion, Format, Report};
use kiste::datasets::{self, Dataset, Limits, Options, Pass, Split, Subsampling, Take};
use kiste::text::units;
use kiste::{Error, Remedy};
use serde::Serialize;

use super::{convert, parse_size};
use crate::exit::{Exit, Failure, Outcome};
use crate::monitor::Monitor;
use crate::output::Output;
use crate::rearrange::{Writing, tell_seed};

/// Well-known data sets: list them, describe one, or make datasets from the archives that its authors publish
///
/// Without a NAME all are listed. NAME alone says which files are needed, where they come from, and what the samples
/// are. With INDIR datasets are made: the files are expected there, and compared with their digests. Each split
/// becomes OUTDIR/SPLIT.msgpack, with OUTDIR/SPLIT.msgpack.labels next to it where classes have names.
///
/// Splits, keys, fields and labels are the same as in Python's datadings-write. Samples come in the
/// order of the archive unless --shuffle is given, for any number of threads. Archives that can
/// only be read from front to back are not shuffled, but "kiste shuffle" does that afterwards.
///
/// Each split is a conversion as with "kiste convert": it can be written in parts, which "kiste commit
/// OUTDIR/SPLIT.msgpack" joins, resumed, or written in another format. DST in the options is
/// OUTDIR/SPLIT.msgpack. An archive that can only be read from front to back is resumed from its
/// start, and belongs to one part. ImageNet21k has both splits in such an archive; with any of these
/// options it is read once for each split.
///
/// A split is published once all of it is written; an error leaves everything as it was.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Which data set; capital letters make no difference
    #[arg(value_name = "NAME")]
    name: Option<String>,
    /// Folder with its files [default: the data set is described]
    #[arg(value_name = "INDIR")]
    indir: Option<PathBuf>,
    /// Folder for the datasets, created if it does not exist [default: INDIR]
    #[arg(value_name = "OUTDIR")]
    outdir: Option<PathBuf>,
    /// The same as OUTDIR
    #[arg(long = "outdir", short = 'o', value_name = "DIR", conflicts_with = "outdir")]
    outdir_option: Option<PathBuf>,
    /// Download missing files, if that needs no registration. Interrupted downloads are resumed
    #[cfg(feature = "download")]
    #[arg(long)]
    download: bool,
    /// Only these splits [default: all]
    #[arg(long, value_name = "SPLIT,...", value_delimiter = ',')]
    splits: Vec<String>,
    /// Do not compare the files with their digests
    #[arg(long, short_alias = 's')]
    skip_verification: bool,
    /// Write samples in random order
    #[arg(long, help_heading = "Samples")]
    shuffle: bool,
    /// Seed of the order
    #[arg(long, value_name = "S", help_heading = "Samples")]
    #[arg(requires = "shuffle", default_value_t = 0)]
    seed: u64,
    /// Encode images that are large enough as JPEG of quality Q, 0 to 100, which is 85 without Q.
    /// Images that are larger still shrink to 500 x 375 pixels
    #[arg(
        long,
        value_name = "Q",
        num_args = 0..=1,
        default_missing_value = "85",
        help_heading = "Samples",
        value_parser = clap::value_parser!(u8).range(0..=100),
    )]
    compress: Option<u8>,
    /// The chroma subsampling of images that are re-encoded: 444, 422, 420, 440, 411 or Gray
    /// [default: 422]
    #[arg(long, value_name = "FORM", help_heading = "Samples")]
    subsampling: Option<Subsampling>,
    /// The version of the data set with small images
    #[arg(long, short_alias = 'l', help_heading = "Samples")]
    low_res: bool,
    /// The version of the data set with the larger training set
    #[arg(long, short_alias = 'c', help_heading = "Samples")]
    challenge: bool,
    /// A list of images to leave out
    #[arg(long, value_name = "FILE", help_heading = "Samples")]
    rejected: Option<PathBuf>,
    /// Refuse files in archives that are larger than this when decompressed [default: 1G]
    #[arg(long, value_name = "SIZE", value_parser = parse_size, alias = "max-file")]
    #[arg(help_heading = "Limits")]
    max_bytes: Option<usize>,
    /// Refuse images of more pixels than this [default: 268 million]
    #[arg(long, value_name = "N", help_heading = "Limits")]
    max_pixels: Option<u64>,
    /// Threads that decode and encode; 0 is one for each core
    #[arg(long, short, value_name = "N", default_value_t = 0)]
    threads: usize,
    /// Print how many maps each class would fill, and its weight for training: the median frequency
    /// of all classes, divided by its own
    #[arg(long, conflicts_with_all = NOT_WRITING, help_heading = "Instead of writing")]
    calculate_weights: bool,
    /// Print the scenes of the archive, in the order of their numbers
    #[arg(long, alias = "scenelabels", conflicts_with_all = NOT_WRITING)]
    #[arg(conflicts_with = "calculate_weights", help_heading = "Instead of writing")]
    scene_labels: bool,
    /// The format to write: dataset, jsonl, webdataset, tfrecord, mds, npz, images, csv, parquet or arrow,
    /// to OUTDIR/SPLIT with the ending of the format [default: dataset]
    #[arg(long, value_name = "FORMAT", value_parser = convert::writable(), hide_possible_values = true)]
    to: Option<Format>,
    #[command(flatten)]
    arrays: convert::Arrays,
    /// Replace datasets that exist
    #[arg(long, short = 'f', short_alias = 'y')]
    force: bool,
    #[command(flatten)]
    running: convert::Running,
    #[command(flatten)]
    writing: Writing,
    /// Print the classes of NAME: numbers, names, colours, how many training images each would fill, and its weight
    /// for training, where known
    #[arg(long, requires = "name", conflicts_with = "indir", help_heading = "Instead of writing")]
    classes: bool,
    /// Print JSON: what was written or counted, the description, or the list of all
    #[arg(long, conflicts_with = "part")]
    json: bool,
    #[command(flatten)]
    samples: convert::Samples,
}

/// The command with all options that are about making datasets bound to INDIR, without which nothing is made. It
/// has two names more, which it was known by.
pub(super) fn with_bound_options(command: clap::Command) -> clap::Command {
    command.aliases(["write", "datasets"]).mut_args(|arg| match arg.get_id().as_str() {
        "name" | "indir" | "classes" | "json" | "help" => arg,
        _ => arg.requires("indir"),
    })
}

/// Options that make no sense if nothing is written.
const NOT_WRITING: [&str; 8] =
    ["outdir", "outdir_option", "shuffle", "force", "to", "part", "resume", "plan"];

const EXAMPLES: &str = "\
Examples:
  kiste catalogue
  kiste catalogue ILSVRC2012
  kiste catalogue VOC2012 --classes
  kiste catalogue --json | jq -r '.[] | select(.free) | .name'
  kiste catalogue CIFAR10 downloads/ data/
  kiste catalogue mnist downloads/ --splits test
  kiste catalogue ILSVRC2012 /archive /data/imagenet --compress 90 --threads 16
  kiste catalogue Places365 downloads/ --low-res --skip-verification
  kiste catalogue VOC2012 downloads/ --to parquet --bad skip
  kiste catalogue Places2017 downloads/ data/ --splits training --part 3/8
  kiste catalogue VOC2012 downloads/ --calculate-weights --splits train

\"free\" means that all files can be downloaded without registration.";

/// Without the hint at `--append`, which this command does not have.
fn failure(error: Error) -> Failure {
    let is_there = matches!(error.remedy(), Some(Remedy::OverwriteOrAppend));
    let failure = Failure::from(error);
    if is_there { failure.hint("--force replaces it") } else { failure }
}

/// The data set of this name.
fn find(name: &str) -> Outcome<&'static Dataset> {
    let hint = "kiste catalogue lists all there are";
    datasets::find(name).map_err(|error| Failure::from(error).hint(hint))
}

/// The result, as JSON.
#[derive(Serialize)]
struct Summary {
    dataset: &'static str,
    splits: Vec<Written>,
    seconds: f64,
}

/// A split that was written.
#[derive(Serialize)]
struct Written {
    split: &'static str,
    file: PathBuf,
    samples: u64,
    bytes: u64,
    labels: Option<PathBuf>,
    bad: u64,
    seconds: f64,
}

impl Args {
    pub(crate) fn run(self, output: &Output) -> Outcome<Exit> {
        let (name, indir) = match (&self.name, &self.indir) {
            (Some(name), Some(indir)) => (name, indir.as_path()),
            (name, _) => return describe::run(name.as_deref(), self.classes, self.json, output),
        };
        let start = Instant::now();
        self.set_threads()?;
        let dataset = find(name)?;
        let splits: Vec<&str> = self.splits.iter().map(String::as_str).collect();
        let options = self.options();
        let see =
            |error| Failure::from(error).hint(format!("see: kiste catalogue {}", dataset.name));
        let opening = dataset.opening(indir, &splits, &options).map_err(see)?;
        for (asked, take) in
            [(self.calculate_weights, Take::Weights), (self.scene_labels, Take::SceneLabels)]
        {
            if asked {
                dataset.expect(take).map_err(see)?;
            }
        }
        let convert::Running { plan, dry_run, part, .. } = self.running;
        let only_prints = self.calculate_weights || self.scene_labels || plan || dry_run;
        let configure = |conversion| self.configure(conversion);
        let outdir = self.outdir(indir);
        if !only_prints && part.is_none() {
            opening.check_outputs(outdir, self.format(), configure)?;
        }
        let fetched = files::provide(&opening, self.downloads(), output)?;
        if !self.skip_verification {
            files::verify(&opening, &fetched, output)?;
        }
        let passes = dataset.open(indir, &splits, &options).map_err(failure)?;
        if self.scene_labels {
            return print_scenes(&passes, self.json, output);
        }
        if self.calculate_weights {
            classes::print_weights(&passes, &opening, self.json, output)?;
            return Ok(Exit::Yes);
        }
        let steps = opening.steps(&passes, outdir, self.format(), configure)?;
        let conversions = steps.iter().flat_map(|step| &step.conversions).map(|(_, each)| each);
        if plan {
            let plans: kiste::Result<Vec<_>> = conversions.map(Conversion::plan).collect();
            match &plans.map_err(failure)?[..] {
                [plan] => output.json(plan)?,
                plans => output.json(&plans)?,
            }
            return Ok(Exit::Yes);
        }
        if !dry_run && !kiste::storage::is_url(outdir) {
            fs::create_dir_all(outdir).map_err(|error| Failure::io(outdir, error))?;
        }
        let mut exit = Exit::Yes;
        let mut summary = Summary { dataset: dataset.name, splits: Vec::new(), seconds: 0.0 };
        for step in &steps {
            let mut monitor = Monitor::new(output).doing(format!("writing {}", step.names()));
            if dry_run || part.is_some() {
                for (_, conversion) in &step.conversions {
                    let done = self.running.run_less(conversion, self.json, &mut monitor, output);
                    exit = exit.max(done.map_err(failure)??);
                }
                continue;
            }
            let reports = step.run(&mut monitor).map_err(failure)?;
            drop(monitor);
            for (split, report) in &reports {
                exit = exit.max(convert::print::report(report, false, output)?);
                summary.add(split, report);
            }
        }
        tell_skipped(&passes, output);
        summary.seconds = start.elapsed().as_secs_f64();
        if self.shuffle && !dry_run {
            tell_seed(outdir, self.seed, output);
        }
        if self.json && !dry_run {
            output.json(&summary)?;
        }
        Ok(exit)
    }

    /// All that decodes and encodes runs in this pool.
    fn set_threads(&self) -> Outcome<()> {
        if self.threads == 0 {
            return Ok(());
        }
        let pool = rayon::ThreadPoolBuilder::new().num_threads(self.threads).build_global();
        pool.map_err(|error| Failure::trouble(format_args!("--threads: {error}")))
    }

    fn downloads(&self) -> bool {
        #[cfg(feature = "download")]
        return self.download;
        #[cfg(not(feature = "download"))]
        false
    }

    fn options(&self) -> Options {
        let mut limits = Limits::default();
        limits.bytes = self.max_bytes.map_or(limits.bytes, |bytes| bytes as u64);
        limits.pixels = self.max_pixels.unwrap_or(limits.pixels);
        Options {
            shuffle: self.shuffle.then_some(self.seed),
            compress: self.compress,
            subsampling: self.subsampling,
            low_res: self.low_res,
            challenge: self.challenge,
            rejected: self.rejected.clone(),
            limits,
        }
    }

    fn outdir<'a>(&'a self, indir: &'a Path) -> &'a Path {
        self.outdir.as_deref().or(self.outdir_option.as_deref()).unwrap_or(indir)
    }

    fn format(&self) -> Format {
        self.to.unwrap_or(Format::Dataset)
    }

    /// The conversion of a split, with all options.
    fn configure(&self, conversion: Conversion) -> Conversion {
        let conversion = self.samples.clone().apply(conversion.overwrite(self.force));
        self.writing.apply(self.running.apply(self.arrays.clone().apply(conversion)))
    }
}

impl Summary {
    fn add(&mut self, split: &Split, report: &Report) {
        self.splits.extend(report.outputs.iter().map(|made| Written {
            split: split.name,
            file: made.path.clone(),
            samples: made.samples,
            bytes: made.bytes,
            labels: made.labels.clone(),
            bad: report.bad.count,
            seconds: report.duration.as_secs_f64(),
        }));
    }
}

/// Says which samples the published data set has that are of no use.
fn tell_skipped(passes: &[Pass], output: &Output) {
    for skipped in passes.iter().map(Pass::skipped).filter(|skipped| skipped.count > 0) {
        let samples = units::counted(skipped.count, "sample");
        output.warn(format_args!("left out {samples} that cannot be used, such as"));
        skipped.first.iter().for_each(|note| output.note(format_args!("  {note}")));
    }
}

/// Prints the names of the labels that the archive has, one per line.
fn print_scenes(passes: &[Pass], json: bool, output: &Output) -> Outcome<Exit> {
    // All splits have the same.
    let scenes = passes.iter().find_map(|pass| pass.labels.as_deref()).unwrap_or_default();
    if json {
        output.json(&scenes)?;
        return Ok(Exit::Yes);
    }
    let mut out = output.stdout();
    for scene in scenes {
        writeln!(out, "{scene}")?;
    }
    out.flush()?;
    Ok(Exit::Yes)
}
