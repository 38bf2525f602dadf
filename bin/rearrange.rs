//! What the commands share that make datasets of datasets.

use std::path::{Path, PathBuf};
use std::time::Instant;

use kiste::convert::{Conversion, is_same};
use kiste::dataset::{labels_path, read_labels};
use kiste::reader::Reader;
use kiste::rearrange;
use kiste::text::units;
use kiste::{Writer, WriterOptions};
use serde::Serialize;

use crate::exit::{Failure, Outcome};
use crate::output::Output;
use crate::{file, interrupt};

/// What is written of a dataset, and how.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Writing {
    /// Leave out the digests: faster for large samples ("kiste index" can make them later)
    #[arg(long)]
    no_md5: bool,
    /// Also write .lookup, which makes the first look-ups among millions of keys fast
    #[arg(long)]
    lookup: bool,
    /// Also write .crc, with which verify names the samples that are damaged
    #[arg(long)]
    crc: bool,
    /// Do not wait for the disk: faster, but a power failure can lose what was written
    #[arg(long)]
    no_sync: bool,
}

impl Writing {
    pub(crate) fn options(&self) -> WriterOptions {
        let options = Writer::options().digests(!self.no_md5).lookup(self.lookup);
        options.checksums(self.crc).durable(!self.no_sync)
    }

    /// The conversion with these options.
    pub(crate) fn apply(&self, conversion: Conversion) -> Conversion {
        let conversion = conversion.digests(!self.no_md5).lookup(self.lookup);
        conversion.checksums(self.crc).durable(!self.no_sync)
    }
}

/// How to write, and what to print about it.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Making {
    /// Replace a dataset that exists
    #[arg(long, short = 'f', short_alias = 'y')]
    pub(crate) force: bool,
    #[command(flatten)]
    writing: Writing,
    /// Print one JSON object that says what was written
    #[arg(long)]
    pub(crate) json: bool,
}

/// A dataset that was made.
#[derive(Debug, Serialize)]
pub(crate) struct Made {
    pub(crate) file: PathBuf,
    pub(crate) samples: u64,
    pub(crate) bytes: u64,
    pub(crate) labels: Option<PathBuf>,
    pub(crate) seconds: f64,
}

/// A dataset that was made from some samples of a larger one.
#[derive(Serialize)]
pub(crate) struct MadeOf {
    #[serde(flatten)]
    pub(crate) made: Made,
    pub(crate) of: u64,
    /// What they were drawn by.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) seed: Option<u64>,
}

impl Making {
    /// Fails if a dataset cannot be made here of these: before anything is read or written.
    pub(crate) fn check(&self, inputs: &[&Path], out: &Path) -> Outcome<()> {
        file::check_is_data(out)?;
        if let Some(input) = inputs.iter().find(|input| is_same(input, out)) {
            let message = format!("{}: is both read and written", file::shown(input));
            return Err(Failure::trouble(message).hint("write to another file, then rename it"));
        }
        if !self.force && out.symlink_metadata().is_ok() {
            let message = format!("{}: the dataset exists already", out.display());
            return Err(Failure::trouble(message).hint("--force replaces it"));
        }
        let labels = labels_path(out);
        if !self.force && labels.exists() {
            let message = format!("{}: the file exists already", labels.display());
            return Err(Failure::trouble(message).hint("--force replaces it"));
        }
        interrupt::writing(out);
        Ok(())
    }

    /// Makes a dataset of what `fill` writes, and names its labels as those of its only input.
    pub(crate) fn make(
        &self,
        inputs: &[&Path],
        out: &Path,
        output: &Output,
        fill: impl FnOnce(&mut Writer) -> Outcome<()>,
    ) -> Outcome<Made> {
        self.check(inputs, out)?;
        let labels = match inputs {
            [input] => read_labels(input)?,
            _ => None,
        };
        self.make_with(labels.as_deref(), inputs, out, output, fill)
    }

    /// Makes a dataset whose labels have these names.
    pub(crate) fn make_with(
        &self,
        labels: Option<&[String]>,
        inputs: &[&Path],
        out: &Path,
        output: &Output,
        fill: impl FnOnce(&mut Writer) -> Outcome<()>,
    ) -> Outcome<Made> {
        let start = Instant::now();
        self.check(inputs, out)?;
        let mut writer = self.writing.options().overwrite(self.force).create(out)?;
        if let Err(failure) = fill(&mut writer) {
            // The first error is the one to tell.
            let _ = writer.abort();
            return Err(failure);
        }
        // None would be those of the dataset that is replaced.
        writer.set_labels(labels)?;
        let stats = writer.finish()?;
        let seconds = start.elapsed().as_secs_f64();
        let (samples, bytes) = (stats.samples, stats.bytes);
        let labels = labels.map(|_| labels_path(out));
        let made = Made { file: out.to_path_buf(), samples, bytes, labels, seconds };
        made.tell(output);
        interrupt::written(out);
        Ok(made)
    }

    /// Makes a dataset of some samples of another one.
    pub(crate) fn make_of(
        &self,
        input: &Path,
        reader: &dyn Reader,
        indices: Vec<usize>,
        out: &Path,
        output: &Output,
    ) -> Outcome<Made> {
        self.make(&[input], out, output, |writer| {
            let progress =
                output.progress(format!("writing {}", out.display()), Some(indices.len() as u64));
            rearrange::copy(reader, indices, writer, |n| progress.reaches(n))?;
            progress.say("finishing");
            Ok(())
        })
    }
}

impl Made {
    fn tell(&self, output: &Output) {
        let time = std::time::Duration::from_secs_f64(self.seconds);
        output.note(format_args!(
            "{}: {}, {} in {} ({}, {})",
            self.file.display(),
            units::counted(self.samples, "sample"),
            units::bytes(self.bytes),
            units::duration(time),
            units::sample_rate(self.samples, time),
            units::byte_rate(self.bytes, time),
        ));
    }
}

/// Says which seed was used: with it, all of it can be made again.
pub(crate) fn tell_seed(path: &Path, seed: impl std::fmt::Display, output: &Output) {
    output.note(format_args!("{}: drawn with --seed {seed}", path.display()));
}
