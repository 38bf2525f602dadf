use kiste::rearrange::{self, MadeDataset};
use kiste::sampler::{Order, SamplerName};
use kiste::text::units;
use serde::Serialize;

use crate::exit::{Exit, Failure, Outcome};
use crate::file;
use crate::ordering::Ordering;
use crate::output::Output;
use crate::rearrange::{InOut, tell_seed};

/// Write the samples of a dataset in another order
///
/// The order is that of epoch 0 of the sampler: "kiste order" prints it. Samples are passed
/// through, byte for byte.
///
/// By default samples are read where they are, through the page cache: quick as long as the
/// dataset fits in memory. For larger ones --memory shuffles in two sequential passes, over
/// temporary files in OUT.partial that are as large as the data together; the result is the same.
/// On top of it come buffers, an eighth of it and some 20 MB, and 20 to 30 bytes a sample.
///
/// --compat gives the orders of datadings-shuffle: with --true-shuffle that of Python's Shuffler,
/// else that of its QuasiShuffler for this --buf-size and --chunk-size. Python's command draws a
/// seed for the latter; here it is --seed, or the one that the class takes by itself.
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
    #[command(flatten)]
    files: InOut,
}

const EXAMPLES: &str = "\
Examples:
  kiste shuffle train.msgpack shuffled.msgpack --seed 42
  kiste shuffle huge.msgpack shuffled.msgpack --memory 2G
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
        let reader = file::open(&self.files.input)?;
        let options = self.ordering.options();
        let samples = reader.len() as u64;
        let order = options.sampler(samples)?.order(0)?;
        let InOut { input, out, making } = &self.files;
        making.check(&[input], out)?;
        let made = making.make(reader.labels()?.as_deref(), out, output, |writer| {
            let progress = output.progress("shuffling", Some(samples));
            // In two passes every sample is moved twice, but there are not more of them.
            let hear = |n| match n > samples {
                true => {
                    progress.say("shuffling, second pass");
                    progress.reaches(n - samples)
                }
                false => progress.reaches(n),
            };
            let order: &dyn Order = &*order;
            match self.memory {
                Some(memory) => {
                    rearrange::external_shuffle(&reader, order, memory, writer, hear)?;
                }
                None => {
                    let indices = order.iter().map(|index| index as usize);
                    rearrange::copy(&reader, indices, writer, hear)?;
                }
            }
            progress.say("finishing");
            Ok(())
        })?;
        let seed = options.seed_in_use();
        if let Some(seed) = seed {
            tell_seed(&made.file, seed, output);
        }
        let sampler = self.ordering.sampler.name();
        making.print(&Shuffled { made, sampler, seed }, output)
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
