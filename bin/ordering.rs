//! An order of samples, as it is asked for on the command line.

use clap::ValueEnum;
use kiste::sampler::{
    BlockShuffle, DatadingsQuasiShuffle, DatadingsShuffle, Sampler, Sequential, Shuffle,
};

use crate::exit::{Failure, Outcome};

/// The default numbers of samples in a block and in a window of a block shuffle.
const BLOCK: u64 = 256;
const WINDOW: f64 = 65536.0;

/// Which order.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Ordering {
    /// sequential, shuffle, block, datadings-shuffle or datadings-quasi
    ///
    /// shuffle is exact and takes no memory. block shuffles blocks of --chunk-size samples, then
    /// the samples in each window of --buf-size samples, so that reads stay in runs.
    /// datadings-shuffle and datadings-quasi are the orders of Python's Shuffler and
    /// QuasiShuffler.
    #[arg(long, value_name = "NAME", default_value = "shuffle", hide_possible_values = true)]
    pub(crate) sampler: Name,
    /// Another seed is another order; without one 0, or what Python takes for its samplers
    #[arg(long, value_name = "S", allow_negative_numbers = true)]
    pub(crate) seed: Option<i128>,
    /// Samples in the window (block, 65536) or buffer (datadings-quasi, 0.01); a number below 1
    /// is that part of all samples; Python always takes 0.01
    #[arg(long, value_name = "B")]
    pub(crate) buf_size: Option<f64>,
    /// Samples in a block (block, 256) or chunk (datadings-quasi, 16)
    #[arg(long, value_name = "C")]
    pub(crate) chunk_size: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Name {
    Sequential,
    Shuffle,
    Block,
    DatadingsShuffle,
    DatadingsQuasi,
}

impl Ordering {
    /// The sampler for this many samples.
    pub(crate) fn sampler(&self, samples: u64) -> Outcome<Box<dyn Sampler>> {
        self.check()?;
        let seed = || {
            let seed = self.seed.unwrap_or(0);
            u64::try_from(seed).map_err(|_| {
                Failure::trouble(format_args!("seed {seed}, expected one from 0 to {}", u64::MAX))
            })
        };
        Ok(match self.sampler {
            Name::Sequential => Box::new(Sequential::new(samples)),
            Name::Shuffle => Box::new(Shuffle::new(samples, seed()?)),
            Name::Block => {
                let block = self.chunk_size.unwrap_or(BLOCK);
                let window = self.buffer(samples, WINDOW)? as u64;
                let blocks = window.div_ceil(block.max(1)).max(1);
                Box::new(BlockShuffle::new(samples, block, blocks, seed()?)?)
            }
            Name::DatadingsShuffle => Box::new(DatadingsShuffle::new(samples, self.seed)),
            Name::DatadingsQuasi => {
                let chunk = self.chunk_size.unwrap_or(16);
                let buffer = self.buffer(samples, 0.01)?;
                Box::new(DatadingsQuasiShuffle::new(samples, buffer, chunk, self.seed)?)
            }
        })
    }

    /// The seed, given or not. Python's samplers have one of their own, which is no number.
    pub(crate) fn seed_in_use(&self) -> Option<i128> {
        match self.sampler {
            Name::Sequential => None,
            Name::Shuffle | Name::Block => Some(self.seed.unwrap_or(0)),
            Name::DatadingsShuffle | Name::DatadingsQuasi => self.seed,
        }
    }

    /// The buffer in samples.
    fn buffer(&self, samples: u64, default: f64) -> Outcome<f64> {
        let buffer = self.buf_size.unwrap_or(default);
        if !buffer.is_finite() || buffer <= 0.0 {
            let message = format!("--buf-size {buffer}, expected a positive number");
            return Err(Failure::trouble(message));
        }
        Ok(if buffer < 1.0 { (buffer * samples as f64).ceil() } else { buffer.floor() })
    }

    /// An option without a meaning is a misunderstanding.
    fn check(&self) -> Outcome<()> {
        let sized = matches!(self.sampler, Name::Block | Name::DatadingsQuasi);
        if !sized && (self.buf_size.is_some() || self.chunk_size.is_some()) {
            let message = "--buf-size and --chunk-size are for the samplers block and \
                           datadings-quasi";
            return Err(Failure::trouble(message));
        }
        if self.sampler == Name::Sequential && self.seed.is_some() {
            return Err(Failure::trouble("the sampler sequential has no seed"));
        }
        Ok(())
    }
}
