use std::borrow::Cow;
use std::io::Write;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use clap::ValueEnum;
use kiste::compose::View;
#[cfg(feature = "images")]
use kiste::format::msgpack;
#[cfg(feature = "images")]
use kiste::image::{Pipeline, Plan};
#[cfg(feature = "images")]
use kiste::loader::{Record, image_header};
use kiste::reader::Reader;
use kiste::sampler::{BatchPlace, Order, Partition, Sampler, Tail};
use kiste::stat::SamplePage;
use kiste::storage::Shown;
use serde::Serialize;

use super::cat::absent;
use crate::exit::{Exit, Failure, Outcome};
use crate::file::{self, Input};
use crate::ordering::Ordering;
use crate::output::Output;

/// Print the order in which samples are seen: keys or indices, of an epoch, a rank or a batch
///
/// An order follows from the sampler, the seed, the epoch and the number of samples: it is the same on every
/// machine and in every release. This prints what a training run with these numbers sees, so that you can
/// inspect any batch of it later, or find a sample in it (--find).
///
/// An epoch is cut into batches, which are dealt out to the ranks in turn: in step T, rank R of W has batch T ×
/// W + R. Without --step all batches of a rank are printed, without --world everything.
///
/// A recipe of a mixture has an order of its own, so no sampler can be chosen for it.
///
/// Keys are printed as "ls" prints them: as they are, except on a terminal.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Data file
    pub(super) file: PathBuf,
    #[command(flatten)]
    ordering: Ordering,
    /// Epoch, counted from 0
    #[arg(long, value_name = "E", default_value_t = 0)]
    pub(super) epoch: u64,
    /// Ranks (processes that train together)
    #[arg(long, value_name = "W", default_value_t = 1)]
    pub(super) world: u64,
    /// The batches of this rank, counted from 0
    #[arg(long, value_name = "R", default_value_t = 0)]
    pub(super) rank: u64,
    /// Workers in each rank, which make its batches in turn: --find says which one
    #[arg(long, value_name = "N", default_value_t = 1)]
    workers: u64,
    /// Samples in a batch
    #[arg(long, value_name = "B", default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(u64).range(..=LARGEST_BATCH))]
    batch_size: u64,
    /// Only the batch of this step, counted from 0, or of several steps: 7, 7.. or 7..10
    #[arg(long, value_name = "T|A..B", value_parser = parse_steps)]
    pub(super) step: Option<(u64, Option<u64>)>,
    /// How to treat an incomplete last step: uneven (some batches are shorter), drop, pad (with
    /// samples from the start), or even (all batches are shorter by as much). [default: uneven for one
    /// rank, pad for several]
    #[arg(long, value_name = "HOW", hide_possible_values = true)]
    tail: Option<End>,
    /// Print indices instead of keys
    #[arg(long)]
    pub(super) indices: bool,
    /// Print where each sample comes from: source, file and key
    #[arg(long, conflicts_with_all = ["find", "indices"])]
    source: bool,
    #[command(flatten)]
    pub(super) planned: super::order_batches::Planned,
    /// Say when and where the sample with this key is seen in this epoch: every place, if there are several
    #[arg(long, value_name = "KEY", conflicts_with_all = ["step", "rank", "indices"])]
    pub(super) find: Option<String>,
    /// Print what this pipeline of image columns does to each sample, such as "seed(7) |
    /// random_resized_crop(224) | hflip": position, key and what was drawn. Only headers of images
    /// are decoded
    #[cfg(feature = "images")]
    #[arg(long, value_name = "PIPELINE", conflicts_with_all = ["find", "indices", "quality"])]
    pub(super) augment: Option<Pipeline>,
    /// The field of the images
    #[cfg(feature = "images")]
    #[arg(long, value_name = "NAME", default_value = "image", requires = "augment")]
    field: String,
    /// Write a page of the samples for a browser: as training saw them, with --augment before and after
    #[arg(long, value_name = "PAGE", conflicts_with_all = ["find", "indices", "source", "json"])]
    pub(super) html: Option<PathBuf>,
    /// Replace a page that exists
    #[arg(long, short, requires = "html")]
    force: bool,
    /// Print one JSON object: of --find, or with the list as "keys", "indices" or "samples"
    #[arg(long)]
    pub(super) json: bool,
}

const EXAMPLES: &str = "\
Examples:
  kiste order train.msgpack --seed 42 --epoch 3 --indices
  kiste order train.msgpack --world 4 --rank 1 --batch-size 32 --step 7
  kiste order train.msgpack --world 4 --batch-size 32 --find cat/0001.png
  kiste order mix.kiste.toml --world 8 --rank 3 --batch-size 32 --step 48211 --source
  kiste order train.msgpack --world 4 --batch-size 32 --step 7 --html step.html
  kiste order train.msgpack --epoch 3 --batch-size 32 --step 7 \
    --augment 'seed(7) | random_resized_crop(224) | hflip'
  kiste order texts.msgpack --seed 42 --batches budget:8192 --lengths 'len(tokens)' --quality
  kiste order train.msgpack --sampler datadings-quasi --buf-size 4096 --chunk-size 16

Exit code 1 if --find finds no such key.";

/// A batch is in memory as a whole.
const LARGEST_BATCH: u64 = 1 << 26;

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum End {
    Uneven,
    Drop,
    Pad,
    Even,
}

/// When and where a sample is seen. Step, rank, worker and place are null if it is in no batch.
#[derive(Serialize)]
struct Seen<'a> {
    key: &'a str,
    index: usize,
    epoch: u64,
    position: u64,
    step: Option<u64>,
    rank: Option<u64>,
    worker: Option<u64>,
    place: Option<u64>,
}

/// All places where a key is seen.
#[derive(Serialize)]
struct Places<'a> {
    #[serde(flatten)]
    first: Option<Seen<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    others: Vec<Seen<'a>>,
}

/// Where samples come from.
#[derive(Serialize)]
struct SampleSources {
    epoch: u64,
    samples: Vec<FromSource>,
}

#[derive(Serialize)]
struct FromSource {
    step: u64,
    source: Option<String>,
    file: Option<String>,
    index: u64,
    key: String,
}

/// Steps such as 7, 7..10 or 7..
fn parse_steps(text: &str) -> Result<(u64, Option<u64>), String> {
    let number = |text: &str| {
        text.parse::<u64>().map_err(|_| format!("expected T, A..B or A.., found {text:?}"))
    };
    match text.split_once("..") {
        None => Ok((number(text)?, None)),
        Some((first, "")) => Ok((number(first)?, Some(u64::MAX))),
        Some((first, end)) => {
            let (first, end) = (number(first)?, number(end)?);
            match first < end {
                true => Ok((first, Some(end))),
                false => Err(format!("expected A..B with A below B, found {text:?}")),
            }
        }
    }
}

#[derive(Serialize)]
struct Listed<'a> {
    epoch: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    keys: Option<Vec<Cow<'a, str>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    indices: Option<Vec<u64>>,
}

impl Args {
    pub(crate) fn run(self, output: &Output) -> Outcome<Exit> {
        let reader = file::open(&self.file, output)?;
        if self.rank >= self.world {
            let message = format!("rank {} of {}: they are counted from 0", self.rank, self.world);
            return Err(Failure::trouble(message));
        }
        if self.planned.is_asked() {
            return self.batches(&reader, output);
        }
        let order = self.order(&reader)?;
        let plan = Partition::new(order.len(), self.batch_size)?.world(self.world)?;
        let plan = plan.workers(self.workers)?;
        let plan = self.tail().into_iter().fold(plan, Partition::tail);
        match &self.find {
            Some(key) => self.find(key, &reader.view, &*order, &plan, output)?,
            None if self.html.is_some() => {
                let batches = format!("batches of {}", self.batch_size);
                let steps = self.steps(&plan)?;
                self.page(&*reader, steps.clone(), &batches, self.places(steps, &*order, &plan))?;
            }
            #[cfg(feature = "images")]
            None if self.augment.is_some() => {
                let steps = self.steps(&plan)?;
                self.augmented(&*reader, self.places(steps, &*order, &plan), output)?;
            }
            None if self.source => self.sources(&reader, &*order, &plan, output)?,
            None => self.list(&*reader, &*order, &plan, output)?,
        }
        Ok(Exit::Yes)
    }

    pub(super) fn tail(&self) -> Option<Tail> {
        self.tail.map(|end| match end {
            End::Uneven => Tail::Uneven,
            End::Drop => Tail::Drop,
            End::Pad => Tail::Pad,
            End::Even => Tail::Even,
        })
    }

    fn order(&self, input: &Input) -> Outcome<Arc<dyn Order>> {
        Ok(self.sampler(input)?.order(self.epoch)?)
    }

    /// The orders of the epochs: a mixture has its own.
    pub(super) fn sampler(&self, input: &Input) -> Outcome<Arc<dyn Sampler>> {
        let Some(mixture) = input.view.sampler() else {
            return Ok(self.ordering.options().sampler(input.len() as u64)?.into());
        };
        if self.ordering.is_chosen() {
            let name = file::shown(&self.file);
            let message = format!("{name}: expected no order, as a mixture has its own, found one");
            return Err(Failure::trouble(message));
        }
        Ok(Arc::new(mixture.clone()))
    }

    fn find(
        &self,
        key: &str,
        view: &View,
        order: &dyn Order,
        plan: &Partition,
        output: &Output,
    ) -> Outcome<()> {
        let (epoch, reader) = (self.epoch, view.reader());
        let indices = reader.find_all(key)?;
        if indices.is_empty() {
            return Err(absent(&self.file, key));
        }
        let mut positions = Vec::new();
        for index in indices {
            let of_index: Vec<u64> = match view.sampler() {
                Some(mixture) => mixture.positions_in(epoch, index as u64)?.collect(),
                None => order.position_of(index as u64).into_iter().collect(),
            };
            positions.extend(of_index.into_iter().map(|position| (position, index)));
        }
        positions.sort_unstable();
        if positions.is_empty() {
            return Err(Failure::no(format_args!("{key:?}: is not in the order of epoch {epoch}")));
        }
        let mut all = Vec::new();
        for (position, index) in positions {
            let places: Vec<BatchPlace> = plan.all_seen_at(position).collect();
            let seen = |place: Option<&BatchPlace>| Seen {
                key,
                index,
                epoch,
                position,
                step: place.map(|seen| seen.step),
                rank: place.map(|seen| seen.rank),
                worker: place.map(|seen| seen.worker),
                place: place.map(|seen| seen.place),
            };
            match places.is_empty() {
                true => all.push(seen(None)),
                false => all.extend(places.iter().map(|place| seen(Some(place)))),
            }
        }
        if self.json {
            let mut all = all.into_iter();
            let first = all.next();
            return output.json(&Places { first, others: all.collect() });
        }
        let mut out = output.stdout();
        for Seen { position, step, rank, worker, place, .. } in &all {
            let batch = match (step, rank, worker, place) {
                (Some(step), Some(rank), Some(worker), Some(place)) => {
                    format!("step {step} rank {rank} worker {worker} place {place}")
                }
                _ => "dropped at the end".to_owned(),
            };
            writeln!(out, "epoch {epoch} position {position} {batch}")?;
        }
        Ok(out.flush()?)
    }

    /// The steps that are asked for.
    fn steps(&self, plan: &Partition) -> Outcome<Range<u64>> {
        let Some((first, end)) = self.step else { return Ok(0..plan.steps_of(self.rank)) };
        let steps = plan.steps();
        let last = end.map_or(first, |end| end.saturating_sub(1).max(first));
        if first >= steps || (end != Some(u64::MAX) && last >= steps) {
            let step = if first >= steps { first } else { last };
            let message = format!("there is no step {step}: the epoch has {steps}, from 0");
            return Err(Failure::no(message));
        }
        Ok(first..last.saturating_add(1).min(steps))
    }

    /// Source, file and key of each sample, with a line for each step if there are several.
    fn sources(
        &self,
        input: &Input,
        order: &dyn Order,
        plan: &Partition,
        output: &Output,
    ) -> Outcome<()> {
        let view = &input.view;
        let ends: Vec<(u64, &str)> = view
            .sources()
            .into_iter()
            .flatten()
            .scan(0, |end, (name, view)| {
                *end += view.reader().len() as u64;
                Some((*end, name.as_str()))
            })
            .collect();
        let source = |index: u64| {
            ends.get(ends.partition_point(|(end, _)| *end <= index)).map(|(_, name)| *name)
        };
        let steps = self.steps(plan)?;
        let mut listed = Vec::new();
        let mut out = output.stdout();
        let several = self.step.is_some_and(|(_, end)| end.is_some());
        for step in steps {
            if several && !self.json {
                writeln!(out, "step {step}")?;
            }
            for index in plan.batch(step, self.rank).indices(order) {
                let (key, place) = (input.key(index as usize)?, input.locate(index as usize));
                let file = place
                    .path
                    .as_deref()
                    .map(|path| Shown::of(&kiste::storage::shown(path)).to_string());
                if self.json {
                    let (source, key) = (source(index).map(str::to_owned), key.into_owned());
                    listed.push(FromSource { step, source, file, index, key });
                    continue;
                }
                out.row(&[source(index).unwrap_or("-"), file.as_deref().unwrap_or("-"), &*key])?;
            }
        }
        if self.json {
            return output.json(&SampleSources { epoch: self.epoch, samples: listed });
        }
        Ok(out.flush()?)
    }

    /// The positions and indices of the samples of these steps.
    fn places<'a>(
        &self,
        steps: Range<u64>,
        order: &'a dyn Order,
        plan: &'a Partition,
    ) -> impl Iterator<Item = (u64, u64)> + 'a {
        let rank = self.rank;
        let batches = steps.map(move |step| plan.batch(step, rank));
        batches.flat_map(move |batch| batch.iter().zip(batch.indices(order)))
    }

    /// A page of the samples of these steps, by their positions and indices.
    pub(super) fn page(
        &self,
        reader: &dyn Reader,
        steps: Range<u64>,
        batches: &str,
        places: impl Iterator<Item = (u64, u64)>,
    ) -> Outcome<()> {
        let Some(path) = &self.html else { return Ok(()) };
        let last = steps.end.saturating_sub(1);
        let title = match steps.start == last {
            true => format!("{}: step {last}", file::shown(&self.file)),
            false => format!("{}: steps {} to {last}", file::shown(&self.file), steps.start),
        };
        let mut page = SamplePage::of(reader, title)?;
        for (position, index) in places {
            let index = index as usize;
            #[cfg(feature = "images")]
            if let Some(pipeline) = &self.augment {
                page.add_augmented(index, &self.field, pipeline, (self.epoch, position))?;
                continue;
            }
            #[cfg(not(feature = "images"))]
            let _ = position;
            page.add(index)?;
        }
        let (epoch, rank, world) = (self.epoch, self.rank, self.world);
        let note = format!("epoch {epoch}, rank {rank} of {world}, {batches}");
        file::write(path, page.to_html(&note).as_bytes(), self.force)
    }

    fn list(
        &self,
        reader: &dyn Reader,
        order: &dyn Order,
        plan: &Partition,
        output: &Output,
    ) -> Outcome<()> {
        let indices = self.steps(plan)?.flat_map(|step| plan.batch(step, self.rank).indices(order));
        if self.json {
            let (epoch, indices) = (self.epoch, indices.collect::<Vec<_>>());
            let key = |&index: &u64| reader.key(index as usize);
            let listed = match self.indices {
                true => Listed { epoch, keys: None, indices: Some(indices) },
                false => {
                    let keys = indices.iter().map(key).collect::<kiste::Result<_>>()?;
                    Listed { epoch, keys: Some(keys), indices: None }
                }
            };
            return output.json(&listed);
        }
        let mut out = output.stdout();
        for index in indices {
            match self.indices {
                true => writeln!(out, "{index}")?,
                false => out.key(&reader.key(index as usize)?)?,
            }
        }
        Ok(out.flush()?)
    }
}

/// The effect of a pipeline on a sample.
#[cfg(feature = "images")]
#[derive(Serialize)]
struct Augmented<'a> {
    position: u64,
    index: u64,
    key: Cow<'a, str>,
    #[serde(flatten)]
    outcome: Drawn,
}

#[cfg(feature = "images")]
#[derive(Serialize)]
#[serde(rename_all = "lowercase")]
enum Drawn {
    Plan(Plan),
    /// Why the pipeline failed, such as for an image that is damaged.
    Error(String),
}

#[cfg(feature = "images")]
impl Args {
    pub(super) fn augmented(
        &self,
        reader: &dyn Reader,
        places: impl Iterator<Item = (u64, u64)>,
        output: &Output,
    ) -> Outcome<()> {
        let Some(pipeline) = &self.augment else { return Ok(()) };
        let samples = places.map(|(position, index)| -> kiste::Result<Augmented<'_>> {
            let raw = reader.get_raw(index as usize)?;
            let outcome = match self.drawn(pipeline, &raw, position) {
                Ok(plan) => Drawn::Plan(plan),
                Err(error) => Drawn::Error(error.to_string()),
            };
            Ok(Augmented { position, index, key: reader.key(index as usize)?, outcome })
        });
        let mut out = output.stdout();
        if self.json {
            // One sample in a line, as an epoch of them may be larger than memory.
            write!(out, "{{\"epoch\":{},\"samples\":[", self.epoch)?;
            for (at, sample) in samples.enumerate() {
                out.write_all(if at > 0 { b"," } else { b"\n" })?;
                out.json_line(&serde_json::to_vec(&sample?)?)?;
            }
            out.json_line(b"]}")?;
            return Ok(out.flush()?);
        }
        for sample in samples {
            let Augmented { position, key, outcome, .. } = sample?;
            let text = match outcome {
                Drawn::Plan(plan) => plan.to_string(),
                Drawn::Error(error) => format!("error: {error}"),
            };
            out.row(&[&position.to_string(), &*key, &text])?;
        }
        Ok(out.flush()?)
    }

    fn drawn(&self, pipeline: &Pipeline, raw: &[u8], position: u64) -> kiste::Result<Plan> {
        let field = msgpack::field(raw, &self.field)?;
        let missing = || {
            let message = format!("there is no field {:?}", self.field);
            kiste::Error::new(kiste::ErrorKind::Invalid, message)
        };
        let header = image_header(field.ok_or_else(missing)?)?;
        pipeline.plan(&header, &mut Record::rng_at(pipeline.seed(), self.epoch, position))
    }
}
