//! An order of samples, as it is asked for on the command line.

use kiste::sampler::{SamplerName, SamplerOptions};

use crate::cmd::{given, named};

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
    #[arg(value_parser = named::<SamplerName>(SamplerName::ALL.map(SamplerName::name)))]
    pub(crate) sampler: SamplerName,
    /// Seed of the order [default: 0, or Python's default for its samplers]
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

impl Ordering {
    /// Whether anything but the default was asked for.
    pub(crate) fn is_chosen(&self) -> bool {
        let is_default = self.sampler == SamplerName::Shuffle;
        !is_default || self.seed.is_some() || self.buf_size.is_some() || self.chunk_size.is_some()
    }

    pub(crate) fn options(&self) -> SamplerOptions {
        let options = SamplerOptions::new(self.sampler);
        let options = given(options, self.seed, SamplerOptions::seed);
        let options = given(options, self.buf_size, SamplerOptions::buffer);
        given(options, self.chunk_size, SamplerOptions::block)
    }
}
