//! `write`: a data set of the catalogue, from its archives.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use kiste::array::parse_size;
use kiste::dataset::labels_path;
use kiste::datasets::parts::{Limits, Subsampling};
use kiste::datasets::{self, Dataset, File, Opening, Options, Pass, Split, Take, Tally};
use kiste::{Error, ErrorKind, Writer};
use serde::Serialize;
use serde_json::json;

use super::classes::{self, Class};
use crate::exit::{Exit, Failure, Outcome, quoted};
use crate::output::Output;
use crate::rearrange::Writing;
use crate::units;

/// Make datasets of a well-known data set, from the archives that its authors hand out
///
/// NAME is one of those that "kiste datasets" lists; "kiste datasets NAME" says which files are
/// needed, where they come from, and what samples are made of them. The files are looked for in
/// INDIR, and compared with their digests. Each split becomes OUTDIR/SPLIT.msgpack, with
/// OUTDIR/SPLIT.msgpack.labels beside it where classes have names.
///
/// Splits, keys, fields and labels are those of Python's datadings-write. Samples come in the order
/// of the archive unless --shuffle is given, whatever the number of threads; archives that can only
/// be read from front to back are not shuffled, but "kiste shuffle" does that afterwards.
///
/// Until a split is written nothing of it is published, and an error leaves everything as it was.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Which data set; capital letters make no difference
    #[arg(value_name = "NAME")]
    name: String,
    /// Folder with its files
    #[arg(value_name = "INDIR")]
    indir: PathBuf,
    /// Folder for the datasets, made if it is not there; without it INDIR
    #[arg(value_name = "OUTDIR")]
    outdir: Option<PathBuf>,
    /// The same as OUTDIR
    #[arg(long = "outdir", short = 'o', value_name = "DIR", conflicts_with = "outdir")]
    outdir_option: Option<PathBuf>,
    /// Fetch files that are not there, as far as that is allowed without asking anybody; one that
    /// was cut short goes on where it ended
    #[cfg(feature = "download")]
    #[arg(long)]
    download: bool,
    /// Only these splits
    #[arg(long, value_name = "SPLIT,...", value_delimiter = ',')]
    splits: Vec<String>,
    /// Do not compare the files with their digests
    #[arg(long, short)]
    skip_verification: bool,
    /// Write samples in random order
    #[arg(long, help_heading = "Samples")]
    shuffle: bool,
    /// Another seed is another order
    #[arg(
        long,
        value_name = "S",
        help_heading = "Samples",
        requires = "shuffle",
        default_value_t = 0,
        hide_default_value = true
    )]
    seed: u64,
    /// Encode images that are large enough as JPEG of quality Q, 0 to 100; 85 if not said. Those
    /// that are larger still become as small as 500 x 375 pixels
    #[arg(
        long,
        value_name = "Q",
        num_args = 0..=1,
        default_missing_value = "85",
        help_heading = "Samples",
        value_parser = clap::value_parser!(u8).range(0..=100),
    )]
    compress: Option<u8>,
    /// How colours are thinned out in images that are encoded anew: 444, 422 (if not said), 420,
    /// 440, 411 or Gray
    #[arg(long, value_name = "FORM", help_heading = "Samples")]
    subsampling: Option<Subsampling>,
    /// The version of the data set with small images
    #[arg(long, short, help_heading = "Samples")]
    low_res: bool,
    /// The version of the data set with the larger training set
    #[arg(long, short, help_heading = "Samples")]
    challenge: bool,
    /// A list of images to leave out
    #[arg(long, value_name = "FILE", help_heading = "Samples")]
    rejected: Option<PathBuf>,
    /// Refuse files in archives of more bytes than this once they are decompressed; 1G if not said
    #[arg(long, value_name = "SIZE", value_parser = parse_size, alias = "max-file")]
    #[arg(help_heading = "Limits")]
    max_bytes: Option<usize>,
    /// Refuse images of more pixels than this; 268 million if not said
    #[arg(long, value_name = "N", help_heading = "Limits")]
    max_pixels: Option<u64>,
    /// Threads that decode and encode; 0, if not said, is one for each core
    #[arg(long, short, value_name = "N", default_value_t = 0, hide_default_value = true)]
    threads: usize,
    /// Print how many maps each class would fill, and what it is to count for in training: the median
    /// frequency of all classes, divided by its own
    #[arg(long, conflicts_with_all = NOT_WRITING, help_heading = "Instead of writing")]
    calculate_weights: bool,
    /// Print the scenes that the archive knows, in the order of their numbers
    #[arg(long, alias = "scenelabels", conflicts_with_all = NOT_WRITING)]
    #[arg(conflicts_with = "calculate_weights", help_heading = "Instead of writing")]
    scene_labels: bool,
    /// Replace datasets that exist
    #[arg(long, short = 'y')]
    force: bool,
    #[command(flatten)]
    writing: Writing,
    /// Print one JSON object that says what was written, or counted
    #[arg(long)]
    json: bool,
}

/// What makes no sense where nothing is written.
const NOT_WRITING: [&str; 4] = ["outdir", "outdir_option", "shuffle", "force"];

const EXAMPLES: &str = "\
Examples:
  kiste write CIFAR10 downloads/ data/
  kiste write mnist downloads/ --splits test
  kiste write ILSVRC2012 /archive /data/imagenet --compress 90 --threads 16
  kiste write Places365 downloads/ --low-res --skip-verification
  kiste write VOC2012 downloads/ --calculate-weights --splits train";

#[derive(Serialize)]
struct Report {
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
    seconds: f64,
}

impl Args {
    pub(crate) fn run(self, output: &Output) -> Outcome<Exit> {
        let start = Instant::now();
        let dataset = find(&self.name)?;
        let splits: Vec<&str> = self.splits.iter().map(String::as_str).collect();
        let options = self.options();
        let opening = dataset.opening(&self.indir, &splits, &options).map_err(|error| {
            let hint = format!("see: kiste datasets {}", dataset.name);
            Failure::from(error).hint(hint)
        })?;
        self.check_printing(dataset)?;
        if !self.is_printing() {
            self.check_outputs(&opening)?;
        }
        let fetched = self.provide(&opening, output)?;
        if !self.skip_verification {
            verify(&opening, &fetched, output)?;
        }
        let passes = dataset.open(&self.indir, &splits, &options).map_err(failure)?;
        if self.is_printing() {
            return self.print(passes, &opening, output);
        }
        fs::create_dir_all(self.outdir()).map_err(|error| Failure::io(self.outdir(), error))?;
        let mut report = Report { dataset: dataset.name, splits: Vec::new(), seconds: 0.0 };
        for pass in passes {
            report.splits.extend(self.write(pass, &opening, output)?);
        }
        report.seconds = start.elapsed().as_secs_f64();
        if self.json {
            output.json(&report)?;
        }
        Ok(Exit::Yes)
    }

    /// Whether something is printed and nothing written.
    fn is_printing(&self) -> bool {
        self.calculate_weights || self.scene_labels
    }

    fn check_printing(&self, dataset: &Dataset) -> Outcome<()> {
        let asked =
            [(self.calculate_weights, Take::Weights), (self.scene_labels, Take::SceneLabels)];
        for (_, take) in asked.into_iter().filter(|(asked, _)| *asked) {
            dataset.expect(take).map_err(|error| {
                let hint = format!("see: kiste datasets {}", dataset.name);
                Failure::from(error).hint(hint)
            })?;
        }
        Ok(())
    }

    fn print(&self, passes: Vec<Pass>, opening: &Opening<'_>, output: &Output) -> Outcome<Exit> {
        match self.scene_labels {
            true => print_scenes(&passes, self.json, output)?,
            false => print_weights(passes, opening, self.json, output)?,
        }
        Ok(Exit::Yes)
    }

    /// Sees to it that all files are there; which of them were fetched, and so compared with their
    /// digests.
    #[cfg(feature = "download")]
    fn provide(&self, opening: &Opening<'_>, output: &Output) -> Outcome<Vec<&'static File>> {
        let all = opening.missing();
        let (free, others): (Vec<_>, Vec<_>) =
            all.iter().copied().partition(|file| self.download && file.url.is_some());
        if !others.is_empty() {
            return Err(missing(opening, &others));
        }
        for file in &free {
            let progress = output.progress_bytes(format!("fetching {}", file.path), file.size);
            let fetched = file.fetch(opening.dir, |bytes| progress.set(bytes));
            fetched.map_err(|error| match error.kind() {
                ErrorKind::Io => Failure::from(error)
                    .hint("what has arrived is kept: the same command goes on with it"),
                _ => error.into(),
            })?;
        }
        Ok(free)
    }

    /// Sees to it that all files are there.
    #[cfg(not(feature = "download"))]
    fn provide(&self, opening: &Opening<'_>, _output: &Output) -> Outcome<Vec<&'static File>> {
        match opening.missing() {
            all if all.is_empty() => Ok(all),
            all => Err(missing(opening, &all)),
        }
    }

    fn options(&self) -> Options {
        Options {
            shuffle: self.shuffle.then_some(self.seed),
            quality: self.compress,
            subsampling: self.subsampling,
            low_res: self.low_res,
            challenge: self.challenge,
            rejected: self.rejected.clone(),
            limits: self.limits(),
            threads: self.threads,
        }
    }

    fn limits(&self) -> Limits {
        let default = Limits::default();
        Limits {
            bytes: self.max_bytes.map_or(default.bytes, |bytes| bytes as u64),
            pixels: self.max_pixels.unwrap_or(default.pixels),
        }
    }

    fn outdir(&self) -> &Path {
        let given = self.outdir.as_deref().or(self.outdir_option.as_deref());
        given.unwrap_or(&self.indir)
    }

    /// The dataset that a split becomes.
    fn path(&self, split: &Split) -> PathBuf {
        self.outdir().join(format!("{}.msgpack", split.file))
    }

    /// What is there already is told before hours are spent.
    fn check_outputs(&self, opening: &Opening<'_>) -> Outcome<()> {
        let wanted = opening.dataset.splits.iter().filter(|split| opening.wants(split.name));
        for path in wanted.map(|split| self.path(split)) {
            for (path, what) in [(labels_path(&path), "file"), (path, "dataset")] {
                if !self.force && path.symlink_metadata().is_ok() {
                    let message = format!("{}: the {what} exists already", path.display());
                    return Err(Failure::trouble(message).hint("--force replaces it"));
                }
            }
        }
        Ok(())
    }

    fn write(
        &self,
        mut pass: Pass,
        opening: &Opening<'_>,
        output: &Output,
    ) -> Outcome<Vec<Written>> {
        let start = Instant::now();
        let mut writers = Vec::new();
        for split in &pass.splits {
            let options = self.writing.options().overwrite(self.force);
            let writer = opening.wants(split.name).then(|| options.create(self.path(split)));
            match writer.transpose() {
                Ok(writer) => writers.push(writer),
                Err(error) => return Err(give_up(writers, error)),
            }
        }
        let names: Vec<&str> = pass.splits.iter().map(|split| split.name).collect();
        let progress = output.progress(format!("writing {}", names.join(", ")), pass.total);
        let tally = match pass.write(&mut writers, |seen| progress.set(seen)) {
            Ok(tally) => tally,
            Err(error) => return Err(give_up(writers, error)),
        };
        progress.say("finishing");
        let mut written = Vec::new();
        for (split, writer) in pass.splits.iter().zip(writers) {
            if let Some(writer) = writer {
                let labels = pass.labels.clone().or_else(|| opening.dataset.labels());
                written.push(self.finish(split, writer, labels, start)?);
            }
        }
        drop(progress);
        tell(&written, &tally, start.elapsed(), output);
        Ok(written)
    }

    fn finish(
        &self,
        split: &Split,
        mut writer: Writer,
        labels: Option<Vec<String>>,
        start: Instant,
    ) -> Outcome<Written> {
        let path = self.path(split);
        let names = labels.filter(|_| split.labelled);
        let labels = names.is_some().then(|| labels_path(&path));
        // None would be those of the dataset that is replaced.
        writer.set_labels(names.as_deref())?;
        let stats = writer.finish()?;
        Ok(Written {
            split: split.name,
            file: path,
            samples: stats.samples,
            bytes: stats.bytes,
            labels,
            seconds: start.elapsed().as_secs_f64(),
        })
    }
}

/// What was counted in a split.
#[derive(Serialize)]
struct Counted {
    split: &'static str,
    maps: u64,
    classes: Vec<Class>,
}

/// Counts the classes in the maps of all passes, and prints a table for each split.
fn print_weights(
    passes: Vec<Pass>,
    opening: &Opening<'_>,
    json: bool,
    output: &Output,
) -> Outcome<()> {
    let known = opening.dataset.classes.iter().find(|known| known.field == "label_image");
    let mut counted = Vec::new();
    for mut pass in passes {
        let splits = pass.splits.clone();
        let names: Vec<&str> = splits.iter().map(|split| split.name).collect();
        let progress = output.progress(format!("counting {}", names.join(", ")), pass.total);
        let counts = pass.count(opening, |seen| progress.set(seen)).map_err(failure)?;
        let counts = splits.iter().zip(&counts).filter(|(split, _)| opening.wants(split.name));
        counted.extend(counts.map(|(split, counts)| Counted {
            split: split.name,
            maps: counts.maps(),
            classes: classes::counted(counts, known),
        }));
    }
    if json {
        return output.json(&json!({"dataset": opening.dataset.name, "splits": counted}));
    }
    let mut out = output.stdout();
    for (at, Counted { split, maps, classes }) in counted.iter().enumerate() {
        if at > 0 {
            writeln!(out)?;
        }
        writeln!(out, "{}: {}", output.bold(split), units::counted(*maps, "map"))?;
        classes::print(classes, &mut out, output)?;
    }
    Ok(out.flush()?)
}

/// Prints the names of the labels that the archive has, one a line.
fn print_scenes(passes: &[Pass], json: bool, output: &Output) -> Outcome<()> {
    // All splits have the same.
    let scenes = passes.iter().find_map(|pass| pass.labels.as_deref()).unwrap_or_default();
    if json {
        return output.json(&scenes);
    }
    let mut out = output.stdout();
    for scene in scenes {
        writeln!(out, "{scene}")?;
    }
    Ok(out.flush()?)
}

/// Removes what was written. The first error is the one to tell.
fn give_up(writers: Vec<Option<Writer>>, error: Error) -> Failure {
    for writer in writers.into_iter().flatten() {
        let _ = writer.abort();
    }
    failure(error)
}

/// Says with what option a limit can be moved. The library names none, as others use it, too.
fn failure(error: Error) -> Failure {
    let message = error.message();
    let option = match error.kind() {
        ErrorKind::Limit if message.contains(" pixels, found ") => Some("--max-pixels N"),
        ErrorKind::Limit if message.contains(" bytes, found ") => Some("--max-bytes SIZE"),
        _ => None,
    };
    let failure = Failure::from(error);
    match option {
        Some(option) => failure.hint(format!("{option} takes more, if you trust the archive")),
        None => failure,
    }
}

/// The data set of this name.
pub(super) fn find(name: &str) -> Outcome<&'static Dataset> {
    let hint = "kiste datasets lists all there are";
    datasets::find(name).map_err(|error| Failure::from(error).hint(hint))
}

/// What to say of files that are not there and cannot be fetched.
fn missing(opening: &Opening<'_>, missing: &[&File]) -> Failure {
    let dir = opening.dir.display();
    if !opening.dir.exists() {
        let message = format!("{dir}: there is no such folder");
        return Failure::trouble(message).hint(where_to_get(opening.dataset, missing));
    }
    let names: Vec<&str> = missing.iter().map(|file| file.path).collect();
    let message = match &names[..] {
        [name] => format!("{dir}: there is no {name}"),
        names => format!("{dir}: {} files are not there: {}", names.len(), names.join(", ")),
    };
    Failure::trouble(message).hint(where_to_get(opening.dataset, missing))
}

/// Where files can be had: one address a line, if there are several.
fn where_to_get(dataset: &Dataset, files: &[&File]) -> String {
    let addresses: Vec<&str> = files.iter().filter_map(|file| file.url).collect();
    let others = addresses.len() < files.len();
    let page = format!("{} (its authors may want you to register)", dataset.url);
    match &addresses[..] {
        [] => format!("get it from {page}"),
        [one] if !others => {
            let fetched = if cfg!(feature = "download") { ", or with --download" } else { "" };
            format!("get it: curl -LO {}{fetched}", quoted(Path::new(one)))
        }
        _ => {
            let fetched = cfg!(feature = "download") && !others;
            let fetched = if fetched { "--download fetches them from" } else { "get them from" };
            let mut lines = vec![fetched.to_owned()];
            lines.extend(addresses.iter().map(|address| format!("  {address}")));
            lines.extend(others.then(|| format!("  {page}")));
            lines.join("\n")
        }
    }
}

/// Compares all files with their digests.
fn verify(opening: &Opening<'_>, fetched: &[&File], output: &Output) -> Outcome<()> {
    let is_fetched = |file: &File| fetched.iter().any(|fetched| fetched.path == file.path);
    for file in opening.files().into_iter().filter(|file| !is_fetched(file)) {
        let size = opening.dir.join(file.path).metadata().ok().map(|metadata| metadata.len());
        let progress = output.progress_bytes(format!("verifying {}", file.path), size);
        let verified = file.verify(opening.dir, |bytes| progress.set(bytes));
        verified.map_err(|error| {
            let hint = "it is not the file that was published, or not all of it; \
                        --skip-verification takes it all the same";
            Failure::from(error).hint(hint)
        })?;
    }
    Ok(())
}

fn tell(written: &[Written], tally: &Tally, time: Duration, output: &Output) {
    for Written { file, samples, bytes, .. } in written {
        output.note(format_args!(
            "{}: {}, {} in {} ({}, {})",
            file.display(),
            units::counted(*samples, "sample"),
            units::bytes(*bytes),
            units::duration(time),
            units::sample_rate(*samples, time),
            units::byte_rate(*bytes, time),
        ));
    }
    if tally.skipped > 0 {
        let samples = units::counted(tally.skipped, "sample");
        output.warn(format_args!("left out {samples} that cannot be used, such as"));
        tally.notes.iter().for_each(|note| output.note(format_args!("  {note}")));
    }
}
