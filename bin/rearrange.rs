//! Shared by the commands that make datasets from other datasets.

use kiste::storage::Shown;
use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use kiste::compose::{View, is_recipe};
use kiste::convert::{Conversion, check_dataset_name};
use kiste::reader::Reader;
use kiste::rearrange::{self, LengthOf, MadeDataset, MergePlan, NewDataset, Scalar};
use kiste::sampler::Order;
use kiste::text::units;
use kiste::{Error, ErrorKind, Remedy, Writer, WriterOptions};
use serde::Serialize;

use crate::exit::{Exit, Failure, Outcome};
use crate::file::{self, Input};
use crate::interrupt;
use crate::output::Output;

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
    /// Also write .lengths with this column, such as 'len(tokens)', for planning batches by length: see "kiste index". A
    /// sample without this number is an error. Can be repeated
    #[arg(long, value_name = "COLUMN")]
    lengths: Vec<LengthOf>,
    /// Do not wait for the disk: faster, but a power failure can lose what was written
    #[arg(long)]
    no_sync: bool,
}

impl Writing {
    pub(crate) fn options(&self) -> WriterOptions {
        let options = Writer::options().digests(!self.no_md5).lookup(self.lookup.asked());
        let options = options.lengths(self.lengths.iter().cloned());
        options.checksums(self.crc).durable(!self.no_sync)
    }

    /// The conversion with these options.
    pub(crate) fn apply(&self, conversion: Conversion) -> Conversion {
        let conversion = conversion.digests(!self.no_md5).lookup(self.lookup.asked());
        let conversion = conversion.lengths(self.lengths.iter().map(LengthOf::to_string));
        conversion.checksums(self.crc).durable(!self.no_sync)
    }
}

/// Options for the input and the output.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct InOut {
    /// Data file to read
    #[arg(value_name = "IN")]
    pub(crate) input: PathBuf,
    /// Data file to make, or its URL: s3://bucket/new.msgpack; or a recipe, *.kiste.toml
    #[arg(value_name = "OUT")]
    pub(crate) out: PathBuf,
    #[command(flatten)]
    pub(crate) making: Making,
}

impl InOut {
    /// What is read, after a check that the dataset can be made.
    pub(crate) fn open(&self, output: &Output) -> Outcome<Input> {
        let input = file::open(&self.input, output)?;
        self.making.check(&[&self.input], &self.out)?;
        Ok(input)
    }

    /// Makes a dataset of these samples of the input.
    pub(crate) fn write(
        &self,
        input: &Input,
        chosen: Chosen<'_>,
        output: &Output,
    ) -> Outcome<MadeDataset> {
        Ok(self.making.write(&self.out, std::slice::from_ref(input), chosen, output)?.made)
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

/// The samples of an output, decided but not read yet.
pub(crate) enum Chosen<'a> {
    /// These of the only input.
    Indices(Vec<usize>),
    /// The samples of the only input that meet a condition.
    Met { condition: String, chosen: rearrange::Chosen },
    /// All of the only input, in this order, with at most this many bytes of them in memory.
    Order { order: &'a dyn Order, memory: Option<u64> },
    /// All of several inputs, except duplicates.
    Merged(MergePlan<'a>),
}

impl Chosen<'_> {
    fn samples(&self, inputs: &[Input]) -> u64 {
        match self {
            Chosen::Indices(indices)
            | Chosen::Met { chosen: rearrange::Chosen { indices, .. }, .. } => indices.len() as u64,
            _ => inputs.iter().map(|input| input.len() as u64).sum(),
        }
    }
}

/// What was written.
pub(crate) struct Written {
    pub(crate) made: MadeDataset,
    /// Samples that were skipped because their keys were there before.
    pub(crate) skipped: u64,
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
        if is_recipe(out) {
            return self.check_recipe(inputs, out);
        }
        if !kiste::storage::is_url(out) {
            file::check_is_data(out)?;
        }
        check_dataset_name(out)?;
        self.dataset(out).check(inputs)?;
        interrupt::writing(out);
        self.begun.set(Some(Instant::now()));
        Ok(())
    }

    /// The same for a recipe.
    fn check_recipe(&self, inputs: &[&Path], out: &Path) -> Outcome<()> {
        let invalid =
            |message: String| Failure::trouble(format_args!("{}: {message}", file::shown(out)));
        if let Some(input) = inputs.iter().find(|input| kiste::dataset::is_same(input, out)) {
            let message =
                format!("expected another recipe than {}, which it would name", file::shown(input));
            return Err(invalid(message));
        }
        if !self.writing.lengths.is_empty() {
            let message = "a recipe has the lengths of its sources: --lengths is for datasets";
            return Err(invalid(message.to_owned()));
        }
        let (storage, place) = kiste::storage::of(out)?;
        if !self.force && storage.stat(&place)?.is_some() {
            let error = Error::new(ErrorKind::AlreadyExists, "the file exists already");
            return Err(error.at(out).with_remedy(Remedy::Overwrite).into());
        }
        self.begun.set(Some(Instant::now()));
        Ok(())
    }

    /// Writes a recipe of these samples.
    fn write_recipe(
        &self,
        out: &Path,
        inputs: &[Input],
        chosen: Chosen<'_>,
        output: &Output,
    ) -> kiste::Result<Written> {
        let mut skipped = 0;
        let first = &inputs[0].view;
        let view = match chosen {
            Chosen::Indices(indices) => first.select(indices)?,
            Chosen::Met { condition, chosen } => first.filter_chosen(&condition, &chosen)?,
            Chosen::Order { order, .. } => {
                first.select(order.iter().map(|index| index as usize))?
            }
            Chosen::Merged(plan) => {
                if plan.labels().is_none()
                    && inputs
                        .iter()
                        .any(|input| input.labels().is_ok_and(|labels| labels.is_some()))
                {
                    let message =
                        "a recipe keeps the names of labels, so --no-labels is for datasets alone";
                    return Err(Error::new(ErrorKind::Unsupported, message));
                }
                let all = View::concat(inputs.iter().map(|input| input.view.clone()))?;
                let progress = output.progress("comparing keys", Some(all.reader().len() as u64));
                let (places, duplicates) = plan.places(|seen| progress.reaches(seen))?;
                skipped = duplicates;
                let mut starts = vec![0];
                for input in inputs {
                    starts.push(starts[starts.len() - 1] + input.len());
                }
                let indices: Vec<usize> =
                    places.into_iter().map(|(input, index)| starts[input] + index).collect();
                let is_all = indices.iter().copied().eq(0..all.reader().len());
                if is_all { all } else { all.select(indices)? }
            }
        };
        let made = view.save(out, self.force)?;
        let samples = units::counted(made.samples, "sample");
        output.note(format_args!("{}: {samples}", Shown::of(&made.file)));
        Ok(Written { made, skipped })
    }

    /// Makes what these samples of the inputs are: the one place that writes for all commands that rearrange.
    pub(crate) fn write(
        &self,
        out: &Path,
        inputs: &[Input],
        chosen: Chosen<'_>,
        output: &Output,
    ) -> kiste::Result<Written> {
        if is_recipe(out) {
            return self.write_recipe(out, inputs, chosen, output);
        }
        let labels = match &chosen {
            Chosen::Merged(plan) => plan.labels().map(<[String]>::to_vec),
            _ => inputs[0].labels()?,
        };
        let mut skipped = 0;
        let made = self.make(labels.as_deref(), out, output, |writer| {
            let doing = match &chosen {
                Chosen::Indices(_) | Chosen::Met { .. } => format!("writing {}", file::shown(out)),
                Chosen::Order { .. } => "shuffling".to_owned(),
                Chosen::Merged(_) => "merging".to_owned(),
            };
            let progress = output.progress(doing, Some(chosen.samples(inputs)));
            let reached = |n| progress.reaches(n);
            match chosen {
                Chosen::Indices(indices)
                | Chosen::Met { chosen: rearrange::Chosen { indices, .. }, .. } => {
                    rearrange::copy(&*inputs[0], indices, writer, reached)?;
                }
                Chosen::Order { order, memory: Some(memory) } => {
                    // Each sample is moved twice.
                    let reached = |n| progress.reaches(n / 2);
                    rearrange::external_shuffle(&*inputs[0], order, memory, writer, reached)?;
                }
                Chosen::Order { order, memory: None } => {
                    let indices = order.iter().map(|index| index as usize);
                    rearrange::copy(&*inputs[0], indices, writer, reached)?;
                }
                Chosen::Merged(plan) => skipped = plan.write(writer, reached)?,
            }
            progress.say("finishing");
            Ok(())
        })?;
        Ok(Written { made, skipped })
    }

    /// Makes a dataset of what `fill` writes, whose labels have these names.
    fn make(
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
    reader: &dyn Reader,
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
