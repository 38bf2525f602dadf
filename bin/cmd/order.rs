use std::io::Write;
use std::path::PathBuf;

use clap::ValueEnum;
use kiste::DatasetReader;
use kiste::sampler::{Order, Partition, Tail};
use serde::Serialize;

use super::cat::absent;
use crate::exit::{Exit, Failure, Outcome};
use crate::file;
use crate::ordering::Ordering;
use crate::output::Output;

/// Print the order in which samples are seen: keys or indices, of an epoch, a rank or a batch
///
/// An order follows from the sampler, the seed, the epoch and the number of samples: it is the
/// same on every machine and in every release. This prints what a training run with these numbers
/// sees, so that any batch of it can be looked at later, or a sample be found in it (--find).
///
/// From its start an epoch is cut into batches, which are dealt out to the ranks in turn: in step
/// T rank R of W has the batch number T × W + R. Without --step all batches of a rank are printed,
/// without --world everything.
///
/// Keys are printed as "ls" prints them: as they are, except on a terminal.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Data file
    file: PathBuf,
    #[command(flatten)]
    ordering: Ordering,
    /// Epoch, counted from 0
    #[arg(long, value_name = "E", default_value_t = 0)]
    epoch: u64,
    /// Ranks (processes that train together)
    #[arg(long, value_name = "W", default_value_t = 1)]
    world: u64,
    /// The batches of this rank, counted from 0
    #[arg(long, value_name = "R", default_value_t = 0)]
    rank: u64,
    /// Workers in each rank, which make its batches in turn: --find says which one
    #[arg(long, value_name = "N", default_value_t = 1)]
    workers: u64,
    /// Samples in a batch
    #[arg(long, value_name = "B", default_value_t = 1)]
    batch_size: u64,
    /// Only the batch of this step, counted from 0
    #[arg(long, value_name = "T")]
    step: Option<u64>,
    /// What happens to an end that is not a whole step: uneven (the last batches are shorter),
    /// drop, or pad (with samples from the start). [default: uneven for one rank, pad for several]
    #[arg(long, value_name = "HOW", hide_possible_values = true)]
    tail: Option<End>,
    /// Print indices instead of keys
    #[arg(long)]
    indices: bool,
    /// Say when and where the sample with this key is seen in this epoch
    #[arg(long, value_name = "KEY", conflicts_with_all = ["step", "rank", "indices"])]
    find: Option<String>,
    /// Print one JSON object: of --find, or with the list as "keys" or "indices"
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  kiste order train.msgpack --seed 42 --epoch 3 --indices
  kiste order train.msgpack --world 4 --rank 1 --batch-size 32 --step 7
  kiste order train.msgpack --world 4 --batch-size 32 --find cat/0001.png
  kiste order train.msgpack --sampler datadings-quasi --buf-size 4096 --chunk-size 16

Exit code 1 if --find finds no such key.";

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum End {
    Uneven,
    Drop,
    Pad,
}

/// When and where a sample is seen.
#[derive(Serialize)]
struct Seen<'a> {
    key: &'a str,
    index: usize,
    epoch: u64,
    position: u64,
    /// These are null if the sample is in no batch of this epoch.
    step: Option<u64>,
    rank: Option<u64>,
    worker: Option<u64>,
    /// The place in the batch.
    place: Option<u64>,
}

#[derive(Serialize)]
struct Listed<'a, T> {
    epoch: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    keys: Option<&'a [T]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    indices: Option<&'a [u64]>,
}

impl Args {
    pub(crate) fn run(self, output: &Output) -> Outcome<Exit> {
        let reader = file::open(&self.file)?;
        let sampler = self.ordering.sampler(reader.len() as u64)?;
        let order = sampler.order(self.epoch)?;
        let plan = Partition::new(order.len(), self.batch_size)?.world(self.world)?;
        let plan = plan.workers(self.workers)?;
        let plan = match self.tail {
            Some(End::Uneven) => plan.tail(Tail::Uneven),
            Some(End::Drop) => plan.tail(Tail::Drop),
            Some(End::Pad) => plan.tail(Tail::Pad),
            None => plan,
        };
        if self.rank >= self.world {
            let message = format!("rank {} of {}: they are counted from 0", self.rank, self.world);
            return Err(Failure::trouble(message));
        }
        match &self.find {
            Some(key) => self.find(key, &reader, &*order, &plan, output),
            None => self.list(&reader, &*order, &plan, output),
        }
    }

    fn find(
        &self,
        key: &str,
        reader: &DatasetReader,
        order: &dyn Order,
        plan: &Partition,
        output: &Output,
    ) -> Outcome<Exit> {
        let index = reader.find(key)?.ok_or_else(|| absent(&self.file, key))?;
        let position = order.position_of(index as u64).ok_or_else(|| {
            Failure::no(format_args!("{key:?}: is not in the order of epoch {}", self.epoch))
        })?;
        let place = plan.place_of(position);
        let seen = Seen {
            key,
            index,
            epoch: self.epoch,
            position,
            step: place.map(|(step, _)| step),
            rank: place.map(|(_, rank)| rank),
            worker: place.map(|(step, _)| plan.worker_of(step)),
            place: place.map(|_| position % self.batch_size),
        };
        if self.json {
            output.json(&seen)?;
            return Ok(Exit::Yes);
        }
        let mut text = format!("epoch {} position {position}", self.epoch);
        text += &match place {
            Some((step, rank)) => format!(
                " step {step} rank {rank} worker {} place {}",
                plan.worker_of(step),
                position % self.batch_size
            ),
            None => " dropped at the end".to_string(),
        };
        let mut out = output.stdout();
        writeln!(out, "{text}")?;
        out.flush()?;
        Ok(Exit::Yes)
    }

    fn list(
        &self,
        reader: &DatasetReader,
        order: &dyn Order,
        plan: &Partition,
        output: &Output,
    ) -> Outcome<Exit> {
        if let Some(step) = self.step.filter(|step| *step >= plan.steps()) {
            let steps = plan.steps();
            let message = format!("there is no step {step}: the epoch has {steps}, from 0");
            return Err(Failure::no(message));
        }
        let steps = self.step.map_or(0..plan.steps_of(self.rank), |step| step..step + 1);
        let batches = steps.map(|step| plan.batch(step, self.rank).indices(order));
        if self.json {
            let indices: Vec<u64> = batches.flatten().collect();
            let epoch = self.epoch;
            if self.indices {
                output.json(&Listed::<String> { epoch, keys: None, indices: Some(&indices) })?;
                return Ok(Exit::Yes);
            }
            let keys: kiste::Result<Vec<_>> =
                indices.iter().map(|&index| reader.key(index as usize)).collect();
            output.json(&Listed { epoch, keys: Some(&keys?), indices: None })?;
            return Ok(Exit::Yes);
        }
        let mut out = output.stdout();
        for index in batches.flatten() {
            match self.indices {
                true => writeln!(out, "{index}")?,
                false => out.key(&reader.key(index as usize)?)?,
            }
        }
        out.flush()?;
        Ok(Exit::Yes)
    }
}
