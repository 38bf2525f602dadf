use std::hint::black_box;
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::ValueEnum;
use kiste::DatasetReader;
use kiste::loader::Loader;
use kiste::sampler::{Order, Sampler, Sequential, Shuffle, State};
use kiste::text::units;
use serde::Serialize;

use crate::exit::{Exit, Outcome};
use crate::file;
use crate::output::Output;

/// Measure how fast samples are read
///
/// Every sample is read once a pass and decoded, or with --raw only copied. The first pass may
/// have to wait for the disk, later ones find everything in memory that fits: --passes shows both.
/// All but the loader read on one thread.
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
    /// Threads of the loader [default: one a core]
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
    /// Samples in a batch of the loader
    #[arg(long, value_name = "N", default_value_t = 256)]
    batch_size: u64,
    /// Another seed shuffles otherwise
    #[arg(long, value_name = "S", default_value_t = 0)]
    seed: u64,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  kiste bench train.msgpack
  kiste bench train.msgpack --mode rand --raw --passes 3
  kiste bench train.msgpack --mode key --json
  kiste bench train.msgpack --mode loader --threads 4 --passes 2";

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
enum Mode {
    Seq,
    Rand,
    Key,
    Loader,
}

#[derive(Serialize)]
struct Measured {
    file: PathBuf,
    mode: Mode,
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
}

impl Args {
    pub(crate) fn run(self, output: &Output) -> Outcome<Exit> {
        let reader = file::open(&self.file)?;
        let (samples, bytes) = (reader.len() as u64, reader.data_len());
        let mut passes = Vec::new();
        for pass in 0..self.passes {
            let time = match self.mode {
                Mode::Loader => self.epoch(&reader, pass, output)?,
                _ => self.pass(&reader, pass, output)?,
            };
            if !self.json {
                let mut out = output.stdout();
                writeln!(
                    out,
                    "{}: {}, {} in {}: {}, {}",
                    file::shown(&self.file),
                    units::counted(samples, "sample"),
                    units::bytes(bytes),
                    units::duration(time),
                    units::sample_rate(samples, time),
                    units::byte_rate(bytes, time),
                )?;
                out.flush()?;
            }
            let seconds = time.as_secs_f64();
            let rate = |number: u64| number as f64 / seconds.max(1e-9);
            passes.push(Pass {
                seconds,
                samples_per_second: rate(samples),
                bytes_per_second: rate(bytes),
            });
        }
        if self.json {
            let Args { mode, raw, file, .. } = self;
            output.json(&Measured { file, mode, raw, samples, bytes, passes })?;
        }
        Ok(Exit::Yes)
    }

    /// How long it takes to read all samples, without what is prepared before.
    fn pass(&self, reader: &DatasetReader, pass: u64, output: &Output) -> Outcome<Duration> {
        let samples = reader.len() as u64;
        let order = match self.mode {
            Mode::Seq => Sequential::new(samples).order(pass)?,
            Mode::Rand | Mode::Key | Mode::Loader => {
                Shuffle::new(samples, self.seed).order(pass)?
            }
        };
        let order: &dyn Order = &*order;
        let mut keys = Vec::new();
        if self.mode == Mode::Key {
            for index in order.iter() {
                keys.push(reader.key(index as usize)?.into_owned());
            }
        }
        // A sign of life, but not one for each sample.
        let _progress = output.progress(format!("reading {}", file::shown(&self.file)), None);
        let mut copy = Vec::new();
        let mut read = |index: usize| -> kiste::Result<()> {
            if self.raw {
                copy.clear();
                copy.extend_from_slice(&reader.get_raw(index)?);
                black_box(&copy);
            } else {
                black_box(reader.get(index)?);
            }
            Ok(())
        };
        let start = Instant::now();
        match self.mode {
            Mode::Seq | Mode::Rand | Mode::Loader => {
                for index in order.iter() {
                    read(index as usize)?;
                }
            }
            Mode::Key => {
                for key in &keys {
                    let index = reader.find(key)?;
                    read(index.ok_or_else(|| super::cat::absent(&self.file, key))?)?;
                }
            }
        }
        Ok(start.elapsed())
    }

    /// How long a shuffled epoch takes, its threads included.
    fn epoch(&self, reader: &DatasetReader, pass: u64, output: &Output) -> Outcome<Duration> {
        let shuffle = Shuffle::new(reader.len() as u64, self.seed);
        let mut options = Loader::options(Arc::new(reader.clone()), shuffle)
            .batch_size(self.batch_size)
            .resume(State { epoch: pass, position: 0 })
            .epochs(1);
        if let Some(threads) = self.threads {
            options = options.threads(threads);
        }
        let _progress = output.progress(format!("loading {}", file::shown(&self.file)), None);
        let start = Instant::now();
        if self.raw {
            drain(options.raw()?)?;
        } else {
            drain(options.map(|record| record.get())?)?;
        }
        Ok(start.elapsed())
    }
}

fn drain<D: Send>(loader: Loader<D>) -> kiste::Result<()> {
    for batch in loader {
        black_box(batch?);
    }
    Ok(())
}
