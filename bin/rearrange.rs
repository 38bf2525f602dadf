//! Shared by the commands that make datasets from other datasets.

use kiste::storage::Shown;
use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use kiste::convert::{Conversion, check_dataset_name};
use kiste::rearrange::{self, MadeDataset, NewDataset, Scalar};
use kiste::text::units;
use kiste::{DatasetReader, Writer, WriterOptions};
use serde::Serialize;

use crate::exit::{Exit, Outcome};
use crate::output::Output;
use crate::{file, interrupt};

/// Whether there is to be .lookup.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Lookup {
    /// Write .lookup, which speeds up finding keys, for few samples too [default: from 1,024 samples on]
    #[arg(long, overrides_with = "no_lookup")]
    lookup: bool,
    /// Never write .lookup
    #[arg(long)]
    no_lookup: bool,
}

impl Lookup {
    /// `None` if the number of samples decides.
    pub(crate) fn asked(&self) -> Option<bool> {
        (self.lookup || self.no_lookup).then_some(self.lookup)
    }
}

/// Options for writing a dataset.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Writing {
    /// Leave out the digests: faster for large samples ("kiste index" can make them later)
    #[arg(long)]
    no_md5: bool,
    #[command(flatten)]
    lookup: Lookup,
    /// Also write .crc, so that verify can name the damaged samples
    #[arg(long)]
    crc: bool,
    /// Do not wait for the disk: faster, but a power failure can lose what was written
    #[arg(long)]
    no_sync: bool,
}

impl Writing {
    pub(crate) fn options(&self) -> WriterOptions {
        let options = Writer::options().digests(!self.no_md5).lookup(self.lookup.asked());
        options.checksums(self.crc).durable(!self.no_sync)
    }

    /// The conversion with these options.
    pub(crate) fn apply(&self, conversion: Conversion) -> Conversion {
        let conversion = conversion.digests(!self.no_md5).lookup(self.lookup.asked());
        conversion.checksums(self.crc).durable(!self.no_sync)
    }
}

/// Options for the input and the output.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct InOut {
    /// Data file to read
    #[arg(value_name = "IN")]
    pub(crate) input: PathBuf,
    /// Data file to make, or its URL: s3://bucket/new.msgpack
    #[arg(value_name = "OUT")]
    pub(crate) out: PathBuf,
    #[command(flatten)]
    pub(crate) making: Making,
}

impl InOut {
    /// The dataset that is read, after a check that the other one can be made.
    pub(crate) fn open(&self, output: &Output) -> Outcome<DatasetReader> {
        let reader = file::open(&self.input, output)?;
        self.making.check(&[&self.input], &self.out)?;
        Ok(reader)
    }

    /// Makes a dataset of some samples.
    pub(crate) fn make(
        &self,
        reader: &DatasetReader,
        indices: Vec<usize>,
        output: &Output,
    ) -> Outcome<MadeDataset> {
        self.making.make_of(reader, indices, &self.out, output)
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
    /// When the work for the next output began: its samples may be chosen before they are written.
    #[arg(skip)]
    begun: Cell<Option<Instant>>,
}

/// A dataset that was made from some samples of a larger one.
#[derive(Serialize)]
pub(crate) struct MadeOf {
    #[serde(flatten)]
    pub(crate) made: MadeDataset,
    pub(crate) of: u64,
    /// The seed of the drawing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) seed: Option<u64>,
}

impl Making {
    /// The conversion with the options of what is written.
    pub(crate) fn apply(&self, conversion: Conversion) -> Conversion {
        self.writing.apply(conversion)
    }

    fn dataset(&self, out: &Path) -> NewDataset {
        NewDataset::new(out).overwrite(self.force).writer(self.writing.options())
    }

    /// Fails if a dataset cannot be made here of these: before anything is read or written.
    pub(crate) fn check(&self, inputs: &[&Path], out: &Path) -> Outcome<()> {
        if !kiste::storage::is_url(out) {
            file::check_is_data(out)?;
        }
        check_dataset_name(out)?;
        self.dataset(out).check(inputs)?;
        interrupt::writing(out);
        self.begun.set(Some(Instant::now()));
        Ok(())
    }

    /// Makes a dataset of what `fill` writes, whose labels have these names.
    pub(crate) fn make(
        &self,
        labels: Option<&[String]>,
        out: &Path,
        output: &Output,
        fill: impl FnOnce(&mut Writer) -> kiste::Result<()>,
    ) -> kiste::Result<MadeDataset> {
        // If there are several outputs, the last one was checked, and this one is written.
        interrupt::writing(out);
        let mut made = self.dataset(out).make(labels, fill)?;
        if let Some(begun) = self.begun.replace(Some(Instant::now())) {
            made.seconds = begun.elapsed().as_secs_f64();
        }
        let time = Duration::from_secs_f64(made.seconds);
        output.note(format_args!(
            "{}: {}, {} in {} ({}, {})",
            Shown::of(&made.file),
            units::counted(made.samples, "sample"),
            units::bytes(made.bytes),
            units::duration(time),
            units::sample_rate(made.samples, time),
            units::byte_rate(made.bytes, time),
        ));
        interrupt::written(out);
        Ok(made)
    }

    /// Makes a dataset of some samples of another one.
    pub(crate) fn make_of(
        &self,
        reader: &DatasetReader,
        indices: Vec<usize>,
        out: &Path,
        output: &Output,
    ) -> Outcome<MadeDataset> {
        Ok(self.make(reader.labels()?.as_deref(), out, output, |writer| {
            let samples = Some(indices.len() as u64);
            let progress = output.progress(format!("writing {}", file::shown(out)), samples);
            rearrange::copy(reader, indices, writer, |n| progress.reaches(n))?;
            progress.say("finishing");
            Ok(())
        })?)
    }

    /// Prints what was made as JSON, if that was asked for.
    pub(crate) fn print(&self, made: &impl Serialize, output: &Output) -> Outcome<Exit> {
        if self.json {
            output.json(made)?;
        }
        Ok(Exit::Yes)
    }
}

/// A field of each sample, to sort or group by.
pub(crate) fn scalars(
    reader: &DatasetReader,
    field: &str,
    output: &Output,
) -> kiste::Result<Vec<Scalar>> {
    let progress = output.progress(format!("reading {field}"), Some(reader.len() as u64));
    rearrange::scalars(reader, field, |seen| progress.reaches(seen))
}

/// Says which seed was used: with it, all of it can be made again.
pub(crate) fn tell_seed(path: &Path, seed: impl std::fmt::Display, output: &Output) {
    output.note(format_args!("{}: drawn with --seed {seed}", file::shown(path)));
}
