use kiste::storage::Shown;
use std::path::PathBuf;
use std::time::Instant;

use kiste::convert::{Part, PartedShuffle};
use kiste::rearrange::MadeDataset;
use kiste::sampler::SamplerName;
use kiste::text::units;
use serde::Serialize;

use super::convert;
use crate::exit::{Exit, Failure, Outcome};
use crate::file;
use crate::monitor::Monitor;
use crate::ordering::Ordering;
use crate::output::Output;
use crate::rearrange::{Chosen, InOut, tell_seed};

/// Write the samples of a dataset in another order
///
/// The order is epoch 0 of the sampler: "kiste order" prints it. Samples are passed
/// through, byte for byte.
///
/// By default samples are read in random order, through the page cache: fast as long as the dataset fits in
/// memory. For larger ones --memory reads what the page cache has (on Linux, of a dataset of one file on a
/// disk), and shuffles the rest in two sequential passes, over temporary files in OUT.partial that are as large
/// as that rest; the result is the same. Buffers take another eighth of --memory and some 20 MB, plus 20 to 30
/// bytes per sample.
///
/// For datasets that are too large for one machine, OUT is a manifest, NAME.shards.json, with a number of
/// --shards. Each of the two passes can be divided over processes or machines that share a directory: run
/// --pass 1 --part I/N for all N parts, then --pass 2 --part I/N for all, and then "kiste commit OUT". The
/// order is the same for any number of shards. Pass 1 holds --memory bytes of samples (1G), pass 2 one shard.
/// Both write as many bytes as the data: pass 1 to OUT.scatter or --scatter-dir, pass 2 next to OUT. All of
/// them can be URLs; then machines need no shared disk.
///
/// --compat gives the orders of datadings-shuffle: with --true-shuffle the order of Python's Shuffler, else of
/// its QuasiShuffler with this --buf-size and --chunk-size. Python's command draws a seed for the latter; here
/// it is --seed, or the default of the class.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    ordering: Ordering,
    /// The orders of Python's datadings-shuffle, exactly
    #[arg(long, conflicts_with = "sampler")]
    compat: bool,
    /// With --compat: shuffle in full
    #[arg(long, requires = "compat", conflicts_with_all = ["buf_size", "chunk_size"])]
    true_shuffle: bool,
    /// Hold at most this many bytes of samples in memory, mapped or not (500M, 2G): for datasets
    /// larger than memory
    #[arg(long, value_name = "BYTES", value_parser = units::parse_bytes)]
    memory: Option<u64>,
    /// Write this many shards; OUT is their manifest, NAME.shards.json
    #[arg(long, value_name = "N", conflicts_with_all = ["compat", "part"])]
    shards: Option<usize>,
    /// One part of a pass, of as many parts as there will be shards
    #[arg(long, value_name = "I/N", requires = "pass", conflicts_with = "compat")]
    part: Option<Part>,
    /// Which pass of --part: 1 reads the dataset, 2 writes the shard
    #[arg(long, value_name = "1|2", requires = "part", value_parser = clap::value_parser!(u8).range(1..=2))]
    pass: Option<u8>,
    /// With --shards and --part: where pass 1 writes, a directory that all parts share, or a URL
    /// [default: OUT.scatter]
    #[arg(long, value_name = "DIR")]
    scatter_dir: Option<PathBuf>,
    #[command(flatten)]
    files: InOut,
}

const EXAMPLES: &str = "\
Examples:
  kiste shuffle train.msgpack shuffled.msgpack --seed 42
  kiste shuffle huge.msgpack shuffled.msgpack --memory 2G
  kiste shuffle huge.msgpack shuffled.shards.json --shards 64 --seed 42
  kiste shuffle s3://b/huge.shards.json s3://b/shuffled.shards.json --seed 42 --part 3/64 --pass 1
  kiste shuffle train.msgpack shuffled.msgpack --sampler block --chunk-size 1024
  kiste shuffle train.msgpack shuffled.msgpack --compat --true-shuffle";

#[derive(Serialize)]
struct Shuffled {
    #[serde(flatten)]
    made: MadeDataset,
    sampler: &'static str,
    seed: Option<i128>,
}

impl Args {
    pub(crate) fn run(mut self, output: &Output) -> Outcome<Exit> {
        if self.compat {
            self.choose_compatible(output)?;
        }
        if let Some(parts) = self.part.map(Part::of).or(self.shards) {
            return self.run_parts(parts, output);
        }
        if self.scatter_dir.is_some() {
            return Err(Failure::trouble("--scatter-dir needs --shards or --part"));
        }
        let input = file::open(&self.files.input, output)?;
        let options = self.ordering.options();
        let order = options.sampler(input.len() as u64)?.order(0)?;
        let making = &self.files.making;
        making.check(&[&self.files.input], &self.files.out)?;
        let chosen = Chosen::Order { order: &*order, memory: self.memory };
        let made = self.files.write(&input, chosen, output)?;
        let seed = options.seed_in_use();
        if let Some(seed) = seed {
            tell_seed(&made.file, seed, output);
        }
        let sampler = self.ordering.sampler.name();
        making.print(&Shuffled { made, sampler, seed }, output)
    }

    /// Shuffles into shards, or does one part of that.
    fn run_parts(&self, parts: usize, output: &Output) -> Outcome<Exit> {
        let InOut { input, out, making } = &self.files;
        file::check_is_no_recipe(input)?;
        if self.ordering.sampler != SamplerName::Shuffle {
            return Err(Failure::trouble("--shards and --part need --sampler shuffle"));
        }
        let mut shuffle = PartedShuffle::new(input, out, parts)?.overwrite(making.force);
        if let Some(dir) = &self.scatter_dir {
            shuffle = shuffle.scatter_dir(dir)?;
        }
        if let Some(seed) = self.ordering.options().seed_in_use() {
            let seed = u64::try_from(seed).map_err(|_| {
                Failure::trouble(format_args!(
                    "--seed {seed}: expected a number from 0 to 2^64 - 1"
                ))
            })?;
            shuffle = shuffle.seed(seed);
        }
        if let Some(memory) = self.memory {
            shuffle = shuffle.memory(memory);
        }
        let monitor = &mut Monitor::new(output);
        match (self.part, self.pass) {
            (Some(part), Some(1)) => {
                shuffle.scatter(part, monitor)?;
                monitor.clear();
                output.note(format_args!("{}: part {part} of pass 1 is finished", Shown::of(&out)));
                return Ok(Exit::Yes);
            }
            (Some(part), _) => {
                making.apply(shuffle.conversion()?).run_part(part, monitor)?;
                monitor.clear();
                output.note(format_args!("{}: part {part} of pass 2 is finished", Shown::of(&out)));
                return Ok(Exit::Yes);
            }
            (None, _) => {}
        }
        let begun = Instant::now();
        for part in Part::all(parts) {
            shuffle.scatter(part, monitor)?;
        }
        let conversion = making.apply(shuffle.conversion()?);
        for part in Part::all(parts) {
            conversion.run_part(part, monitor)?;
        }
        convert::commit(out, Some(begun), making.json, output)
    }

    fn choose_compatible(&mut self, output: &Output) -> Outcome<()> {
        if self.true_shuffle {
            self.ordering.sampler = SamplerName::DatadingsShuffle;
            return Ok(());
        }
        let (Some(buffer), Some(_)) = (self.ordering.buf_size, self.ordering.chunk_size) else {
            let message = "--compat needs --true-shuffle, or both --buf-size and --chunk-size";
            return Err(Failure::trouble(message));
        };
        if buffer < 1.0 && buffer != 0.01 {
            output.warn(format_args!(
                "--buf-size {buffer} is that part of all samples; Python takes every number below \
                 1 for 0.01, which gives its order"
            ));
        }
        self.ordering.sampler = SamplerName::DatadingsQuasi;
        Ok(())
    }
}
