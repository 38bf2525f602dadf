use std::io::Write;
use std::path::PathBuf;

use clap::ValueEnum;
use kiste::stat::{ReadBench, ReadMode};
use kiste::text::units;
use serde::Serialize;

use crate::cmd::given;
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

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Mode {
    Seq,
    Rand,
    Key,
    Loader,
}

#[derive(Serialize)]
struct Measured {
    file: PathBuf,
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
}

impl Args {
    pub(crate) fn run(self, output: &Output) -> Outcome<Exit> {
        let reader = file::open(&self.file)?;
        let shown = file::shown(&self.file);
        let (samples, bytes) = (reader.len() as u64, reader.data_len());
        let (mode, doing) = match self.mode {
            Mode::Seq => (ReadMode::Seq, "reading"),
            Mode::Rand => (ReadMode::Rand, "reading"),
            Mode::Key => (ReadMode::Key, "reading"),
            Mode::Loader => (ReadMode::Loader, "loading"),
        };
        let bench = ReadBench::new(mode).raw(self.raw).seed(self.seed).batch_size(self.batch_size);
        let bench = given(bench, self.threads, ReadBench::threads);
        let mut passes = Vec::new();
        for pass in 0..self.passes {
            // A sign of life, but not one for each sample.
            let progress = output.progress(format!("{doing} {shown}"), None);
            let time = bench.pass(&reader, pass)?;
            drop(progress);
            if !self.json {
                let mut out = output.stdout();
                writeln!(
                    out,
                    "{shown}: {}, {} in {}: {}, {}",
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
            let (samples_per_second, bytes_per_second) = (rate(samples), rate(bytes));
            passes.push(Pass { seconds, samples_per_second, bytes_per_second });
        }
        if self.json {
            let Args { raw, file, .. } = self;
            output.json(&Measured { file, mode, raw, samples, bytes, passes })?;
        }
        Ok(Exit::Yes)
    }
}
