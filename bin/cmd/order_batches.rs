//! `order --batches`: batches that are planned by length.

use std::io::Write;
use std::ops::Range;
use std::path::Path;

use kiste::sampler::Sampler;
use kiste::sampler::batching::{self, PlannedBatch, PlannedPartition, Quality};
use kiste::text::units;
use serde::Serialize;

use super::cat::absent;
use super::order::Args;
use crate::exit::{Exit, Failure, Outcome, quoted};
use crate::file::{self, Input};
use crate::output::Output;

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Batches by length")]
pub(super) struct Planned {
    /// Plan batches by the lengths of samples: budget:TOKENS[:packed], rows:LENGTHxROWS[:split],
    /// buckets:LENGTH=SAMPLES,..., equal:BUCKETSxSAMPLES or shapes:WIDTHxHEIGHT=SAMPLES,...; with :most=SAMPLES
    /// and :longer=cut or leave-out
    #[arg(long, value_name = "HOW", requires = "lengths", conflicts_with_all = ["batch_size", "workers", "source"])]
    batches: Option<String>,
    /// The column of lengths, as "kiste index --lengths" made it; of shapes the widths, then the heights
    #[arg(long, value_name = "COLUMN", requires = "batches")]
    lengths: Vec<String>,
    /// Positions that are planned at once
    #[arg(long, value_name = "N", default_value_t = 65_536, requires = "batches")]
    window: u64,
    /// The seed of the order of batches
    #[arg(long, value_name = "S", default_value_t = 0, requires = "batches")]
    batch_seed: u64,
    /// Print how much padding the batches have, how far samples are from their places, and the tokens of each rank
    #[arg(long, requires = "batches", conflicts_with_all = ["find", "step", "indices", "html"])]
    quality: bool,
}

impl Planned {
    pub(super) fn is_asked(&self) -> bool {
        self.batches.is_some()
    }
}

/// Steps, and the positions and indices of their samples.
type Places = (Range<u64>, Vec<(u64, u64)>);

/// Names the sample that an error is about.
fn located(input: &Input, error: kiste::Error) -> kiste::Error {
    kiste::reader::located(input.view.reader(), error)
}

#[derive(Serialize)]
struct Listed {
    epoch: u64,
    rank: u64,
    batches: Vec<Batch>,
}

#[derive(Serialize)]
struct Batch {
    step: u64,
    padding: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    bucket: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    keys: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    indices: Option<Vec<u64>>,
}

#[derive(Serialize)]
struct Found<'a> {
    key: &'a str,
    epoch: u64,
    places: Vec<Place>,
}

#[derive(Serialize)]
struct Place {
    step: u64,
    rank: u64,
}

#[derive(Serialize)]
struct Measured<'a> {
    epoch: u64,
    samples: u64,
    left_out: u64,
    batches: u64,
    tokens: u64,
    padding: f64,
    displacement: f64,
    tokens_by_rank: &'a [u64],
}

impl Args {
    pub(super) fn batches(&self, input: &Input, output: &Output) -> Outcome<Exit> {
        let partition = self.partition(input)?;
        match &self.find {
            Some(key) => self.find_batch(key, input, &partition, output)?,
            None if self.planned.quality => self.measure(input, &partition, output)?,
            None if self.html.is_some() => {
                let (steps, places) = self.planned_places(input, &partition, output)?;
                let batches = self.planned.batches.as_deref().unwrap_or_default();
                self.page(&**input, steps, batches, places.into_iter())?;
            }
            #[cfg(feature = "images")]
            None if self.augment.is_some() => {
                let (_, places) = self.planned_places(input, &partition, output)?;
                self.augmented(&**input, places.into_iter(), output)?;
            }
            None => self.list_batches(input, &partition, output)?,
        }
        Ok(Exit::Yes)
    }

    fn partition(&self, input: &Input) -> Outcome<PlannedPartition> {
        let given = &self.planned;
        let batching = batching::parse(given.batches.as_deref().unwrap_or_default())?;
        let column = |name: &String| {
            let missing = || {
                let message = format!("{}: there are no lengths {name:?}", file::shown(&self.file));
                Failure::trouble(message).hint(format!(
                    "\"kiste index --lengths {} {}\" makes them",
                    quoted(Path::new(name)),
                    quoted(&self.file)
                ))
            };
            input.view.reader().lengths(name)?.ok_or_else(missing)
        };
        let lengths = given.lengths.iter().map(column).collect::<Outcome<Vec<_>>>()?;
        let planned = batching::Planned::with_columns(self.sampler(input)?, lengths, batching)?;
        let planned = planned.window(given.window)?.seed(given.batch_seed);
        let partition = planned.partition(self.world)?;
        Ok(self.tail().into_iter().fold(partition, PlannedPartition::tail))
    }

    fn find_batch(
        &self,
        key: &str,
        input: &Input,
        partition: &PlannedPartition,
        output: &Output,
    ) -> Outcome<()> {
        let indices = input.view.reader().find_all(key)?;
        if indices.is_empty() {
            return Err(absent(&self.file, key));
        }
        let progress = output.progress("counting batches", None);
        let counting = partition.clone().hear(move |done, of| progress.reaches_of(done, of));
        let mut places = Vec::new();
        for index in indices {
            let found = counting.places_of(self.epoch, index as u64);
            places.extend(found.map_err(|e| located(input, e))?);
        }
        drop(counting);
        let epoch = self.epoch;
        if places.is_empty() {
            return Err(Failure::no(format_args!("{key:?}: is in no batch of epoch {epoch}")));
        }
        if self.json {
            let places = places.into_iter().map(|(step, rank)| Place { step, rank }).collect();
            return output.json(&Found { key, epoch, places });
        }
        let mut out = output.stdout();
        for (step, rank) in places {
            writeln!(out, "epoch {epoch} step {step} rank {rank}")?;
        }
        Ok(out.flush()?)
    }

    fn measure(&self, input: &Input, partition: &PlannedPartition, output: &Output) -> Outcome<()> {
        let samples = partition.planned().len();
        let progress = output.progress("planning", Some(samples));
        let hear = |windows: u64| progress.set(samples.min(windows * self.planned.window));
        let found = batching::quality(partition, self.epoch, &hear);
        drop(progress);
        let found = found.map_err(|e| located(input, e))?;
        let (padding, spread) = (found.padding(), found.spread());
        let Quality { samples, left_out, batches, tokens, displacement, tokens_by_rank, .. } =
            &found;
        if self.json {
            return output.json(&Measured {
                epoch: self.epoch,
                samples: *samples,
                left_out: *left_out,
                batches: *batches,
                tokens: *tokens,
                padding,
                displacement: *displacement,
                tokens_by_rank,
            });
        }
        let mut out = output.stdout();
        let (counted, of) = (units::counted(*samples, "sample"), units::count(*batches));
        writeln!(out, "batches       {of}, of {counted}; {} left out", units::count(*left_out))?;
        writeln!(out, "tokens        {}", units::count(*tokens))?;
        writeln!(out, "padding       {:.2} %", 100.0 * padding)?;
        writeln!(out, "displacement  {displacement:.0} positions on average")?;
        let most = tokens_by_rank.iter().max().copied().unwrap_or(0);
        let least = tokens_by_rank.iter().min().copied().unwrap_or(0);
        writeln!(
            out,
            "ranks         {} to {} tokens ({:.2} %)",
            units::count(least),
            units::count(most),
            100.0 * spread
        )?;
        Ok(out.flush()?)
    }

    /// Calls `with` on the batches of the steps that are asked for, as far as there are some.
    fn each_step(
        &self,
        input: &Input,
        partition: &PlannedPartition,
        output: &Output,
        with: &mut dyn FnMut(u64, &PlannedBatch) -> Outcome<()>,
    ) -> Outcome<()> {
        let (first, end) = match self.step {
            None => (0, u64::MAX),
            Some((first, None)) => (first, first + 1),
            Some((first, Some(end))) => (first, end),
        };
        if first > 0 {
            // All windows before it are planned.
            let progress = output.progress("counting batches", None);
            let hear = move |done, of| progress.reaches_of(done, of);
            let counting = partition.clone().hear(hear);
            counting.batch(self.epoch, first, self.rank).map_err(|e| located(input, e))?;
        }
        for step in first..end {
            match partition.batch(self.epoch, step, self.rank).map_err(|e| located(input, e))? {
                Some(batch) => with(step, &batch)?,
                None if self.step.is_some() && (step == first || end != u64::MAX) => {
                    let steps = partition.steps_of(self.epoch, self.rank)?;
                    let message = format!("there is no step {step}: the epoch has {steps}, from 0");
                    return Err(Failure::no(message));
                }
                None => break,
            }
        }
        Ok(())
    }

    /// What is in the steps that are asked for.
    fn planned_places(
        &self,
        input: &Input,
        partition: &PlannedPartition,
        output: &Output,
    ) -> Outcome<Places> {
        let first = self.step.map_or(0, |(first, _)| first);
        let (mut steps, mut places) = (first..first, Vec::new());
        self.each_step(input, partition, output, &mut |step, batch| {
            steps.end = step + 1;
            places.extend(batch.positions().zip(batch.indices().iter().copied()));
            Ok(())
        })?;
        Ok((steps, places))
    }

    /// The samples of batches, with a line for each step if there are several.
    fn list_batches(
        &self,
        input: &Input,
        partition: &PlannedPartition,
        output: &Output,
    ) -> Outcome<()> {
        let key = |index: &u64| Ok(input.key(*index as usize)?.into_owned());
        if self.json {
            let mut listed = Vec::new();
            self.each_step(input, partition, output, &mut |step, batch| {
                let (padding, bucket) = (batch.is_padding(), batch.bucket());
                let (keys, indices) = match self.indices {
                    true => (None, Some(batch.indices().to_vec())),
                    false => {
                        let keys = batch.indices().iter().map(key);
                        (Some(keys.collect::<kiste::Result<Vec<String>>>()?), None)
                    }
                };
                listed.push(Batch { step, padding, bucket, keys, indices });
                Ok(())
            })?;
            let (epoch, rank) = (self.epoch, self.rank);
            return output.json(&Listed { epoch, rank, batches: listed });
        }
        let mut out = output.stdout();
        let several = self.step.is_none_or(|(_, end)| end.is_some());
        self.each_step(input, partition, output, &mut |step, batch| {
            if several {
                let bucket =
                    batch.bucket().map_or(String::new(), |bucket| format!(" bucket {bucket}"));
                let padding = if batch.is_padding() { " padding" } else { "" };
                writeln!(out, "step {step}{bucket}{padding}")?;
            }
            for index in batch.indices() {
                match self.indices {
                    true => writeln!(out, "{index}")?,
                    false => out.key(&input.key(*index as usize)?)?,
                }
            }
            Ok(())
        })?;
        Ok(out.flush()?)
    }
}
