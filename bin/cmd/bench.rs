use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use clap::ValueEnum;
#[cfg(feature = "images")]
use kiste::image::Pipeline;
use kiste::stat::{ReadBench, ReadMode, ReadPass};
use kiste::storage::Shown;
use kiste::text::units;
use serde::Serialize;

use crate::cmd::given;
use crate::exit::{Exit, Failure, Outcome};
use crate::file;
use crate::ordering::Ordering;
use crate::output::Output;

/// Measure how fast samples are read, and find the bottleneck
///
/// Every sample is read once a pass and decoded, or with --raw only copied. The first pass may have to wait for
/// the disk; later passes read from memory what fits there: --passes shows both. Only the loader uses several
/// threads.
///
/// --mode loader makes batches on threads, as training does, and says where the time goes: how long the
/// loop waits for batches, what the threads do in that time, and whether the processor, the storage or
/// the queue is the limit. With --step-ms it also says whether the loader keeps up with a training step
/// of that time.
///
/// With --augment the loader decodes images and puts them through a pipeline, as a column of images
/// does, and each stage is measured on the threads of the loader: reading bytes, unpacking msgpack, decoding images,
/// augmenting them, and gathering batches. A table has the time that each takes for one sample, and the rate that
/// all threads would reach with it alone; a sentence names the slowest.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Data file
    file: PathBuf,
    /// seq (one after the other), rand (shuffled), key (shuffled, each looked up by its key) or
    /// loader (shuffled, in batches, on threads)
    #[arg(long, value_name = "MODE", default_value = "seq", hide_possible_values = true)]
    mode: Mode,
    /// Do not decode samples, only copy their bytes
    #[arg(long, short_alias = 'r')]
    raw: bool,
    /// Times to read everything
    #[arg(long, value_name = "N", default_value_t = 1)]
    passes: u64,
    /// Read only the first N samples of each pass; the loader completes its last batch
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
    /// Threads of the loader; 0 loads on the thread of the loop [default: one per core]
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
    /// Samples in a batch of the loader [default: 256]
    #[arg(long, value_name = "N")]
    batch_size: Option<u64>,
    /// Batches of the loader that may be finished or in progress [default: twice the threads]
    #[arg(long, value_name = "N")]
    queue: Option<usize>,
    /// The loader tells the storage which samples come next
    #[arg(long)]
    prefetch: bool,
    /// Milliseconds that a training step takes for each batch of the loader [default: 0]
    #[arg(long, value_name = "MS", value_parser = milliseconds)]
    step_ms: Option<Duration>,
    /// The loader decodes images and puts them through this pipeline, such as "random_resized_crop(224) | hflip"
    #[cfg(feature = "images")]
    #[arg(long, value_name = "PIPELINE", conflicts_with = "raw")]
    augment: Option<Pipeline>,
    /// The field of the images
    #[cfg(feature = "images")]
    #[arg(long, value_name = "NAME", default_value = "image", requires = "augment")]
    field: String,
    #[command(flatten)]
    ordering: Ordering,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  kiste bench train.msgpack
  kiste bench train.msgpack --mode rand --raw --passes 3
  kiste bench train.msgpack --mode key --json
  kiste bench train.msgpack --mode loader --threads 4 --passes 2
  kiste bench train.msgpack --mode loader --step-ms 20 --batch-size 64 --limit 10000
  kiste bench train.msgpack --mode loader --augment 'random_resized_crop(224) | hflip'";

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Mode {
    Seq,
    Rand,
    Key,
    Loader,
}

#[derive(Serialize)]
struct Measured {
    file: Shown,
    mode: ReadMode,
    raw: bool,
    samples: u64,
    bytes: u64,
    passes: Vec<Pass>,
}

#[derive(Serialize)]
struct Pass {
    seconds: f64,
    samples_per_second: f64,
    bytes_per_second: f64,
    /// Of the loader.
    #[serde(skip_serializing_if = "Option::is_none")]
    report: Option<serde_json::Value>,
    /// Of --augment.
    #[serde(skip_serializing_if = "Option::is_none")]
    stages: Option<serde_json::Value>,
}

fn milliseconds(text: &str) -> Result<Duration, String> {
    let expected = || format!("expected milliseconds such as 20 or 0.5, found {text:?}");
    let number: f64 = text.parse().map_err(|_| expected())?;
    Duration::try_from_secs_f64(number / 1e3).map_err(|_| expected())
}

impl Args {
    /// Options for the loader would measure something else than asked for in other modes.
    fn check(&self) -> Outcome<()> {
        let of_loader = [
            ("--threads", self.threads.is_some()),
            ("--batch-size", self.batch_size.is_some()),
            ("--queue", self.queue.is_some()),
            ("--prefetch", self.prefetch),
            ("--step-ms", self.step_ms.is_some()),
        ];
        #[cfg(feature = "images")]
        let augments = self.augment.is_some();
        #[cfg(not(feature = "images"))]
        let augments = false;
        let mut of_loader = of_loader.into_iter().chain([("--augment", augments)]);
        match of_loader.find(|(_, given)| *given && self.mode != Mode::Loader) {
            Some((option, _)) => {
                Err(Failure::trouble(format!("expected --mode loader for {option}")))
            }
            None => Ok(()),
        }
    }

    fn bench(&self, mode: ReadMode) -> ReadBench {
        let bench = ReadBench::new(mode).raw(self.raw).prefetch(self.prefetch);
        let bench = bench.order(self.ordering.options());
        let bench = given(bench, self.limit, ReadBench::limit);
        let bench = given(bench, self.batch_size, ReadBench::batch_size);
        let bench = given(bench, self.queue, ReadBench::queue);
        let bench = given(bench, self.step_ms, ReadBench::step);
        let bench = given(bench, self.threads, ReadBench::threads);
        #[cfg(feature = "images")]
        let bench = given(bench, self.augment.clone(), |bench, pipeline| {
            bench.images(&self.field, pipeline)
        });
        bench
    }

    pub(crate) fn run(self, output: &Output) -> Outcome<Exit> {
        self.check()?;
        let input = file::open(&self.file, output)?;
        let shown = file::shown(&self.file);
        let (mode, doing) = match self.mode {
            Mode::Seq => (ReadMode::Seq, "reading"),
            Mode::Rand => (ReadMode::Rand, "reading"),
            Mode::Key => (ReadMode::Key, "reading"),
            Mode::Loader => (ReadMode::Loader, "loading"),
        };
        let bench = self.bench(mode);
        let samples = input.len() as u64;
        let most = self.limit.map_or(samples, |limit| limit.min(samples));
        // Others only give a sign of life, as each sample would take longer with one.
        let len = (self.mode == Mode::Loader).then_some(most);
        let mut passes = Vec::new();
        let (mut samples, mut bytes) = (0, 0);
        for pass in 0..self.passes {
            let progress = output.progress(format!("{doing} {shown}"), len);
            let loaded = |samples| progress.reaches(samples);
            let read = match &input.dataset {
                Some(dataset) => bench.pass_watched(dataset, pass, loaded)?,
                None => bench.pass_watched(input.view.reader(), pass, loaded)?,
            };
            drop(progress);
            (samples, bytes) = (read.samples, read.bytes);
            if !self.json {
                print(output, &shown, &read)?;
            }
            let seconds = read.time.as_secs_f64();
            let rate = |number: u64| number as f64 / seconds.max(1e-9);
            passes.push(Pass {
                seconds,
                samples_per_second: rate(samples),
                bytes_per_second: rate(bytes),
                report: read.report.map(|report| report.to_json()),
                stages: read.stages.map(|stages| stages.to_json()),
            });
        }
        if self.json {
            let (raw, file) = (self.raw, Shown::of(&self.file));
            output.json(&Measured { file, mode, raw, samples, bytes, passes })?;
        }
        Ok(Exit::Yes)
    }
}

fn print(output: &Output, shown: &str, read: &ReadPass) -> Outcome<()> {
    let mut out = output.stdout();
    match read.report {
        Some(report) => {
            for (at, line) in report.to_string().lines().enumerate() {
                match at {
                    0 => writeln!(out, "{shown}: {line}")?,
                    _ => writeln!(out, "  {line}")?,
                }
            }
        }
        None => writeln!(
            out,
            "{shown}: {}, {} in {}: {}, {}",
            units::counted(read.samples, "sample"),
            units::bytes(read.bytes),
            units::duration(read.time),
            units::sample_rate(read.samples, read.time),
            units::byte_rate(read.bytes, read.time),
        )?,
    }
    if let Some(stages) = read.stages {
        stages.to_string().lines().try_for_each(|line| writeln!(out, "  {line}"))?;
    }
    Ok(out.flush()?)
}
