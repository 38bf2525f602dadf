//! [`SamplerOptions`]: a sampler by its name and numbers, as a command line or a file of settings has
//! them.

use std::fmt;
use std::str::FromStr;

use super::{BlockShuffle, DatadingsQuasiShuffle, DatadingsShuffle, Sampler, Sequential, Shuffle};
use crate::error::{Error, ErrorKind, Result};

/// The samplers that [`SamplerOptions`] can make.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum SamplerName {
    /// [`Sequential`]: `sequential`.
    Sequential,
    /// [`Shuffle`]: `shuffle`.
    #[default]
    Shuffle,
    /// [`BlockShuffle`]: `block`.
    Block,
    /// [`DatadingsShuffle`]: `datadings-shuffle`.
    DatadingsShuffle,
    /// [`DatadingsQuasiShuffle`]: `datadings-quasi`.
    DatadingsQuasi,
}

impl SamplerName {
    /// All of them.
    pub const ALL: [SamplerName; 5] = [
        SamplerName::Sequential,
        SamplerName::Shuffle,
        SamplerName::Block,
        SamplerName::DatadingsShuffle,
        SamplerName::DatadingsQuasi,
    ];

    /// The name in text.
    pub fn name(self) -> &'static str {
        match self {
            SamplerName::Sequential => "sequential",
            SamplerName::Shuffle => "shuffle",
            SamplerName::Block => "block",
            SamplerName::DatadingsShuffle => "datadings-shuffle",
            SamplerName::DatadingsQuasi => "datadings-quasi",
        }
    }
}

impl fmt::Display for SamplerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for SamplerName {
    type Err = Error;

    fn from_str(text: &str) -> Result<SamplerName> {
        SamplerName::ALL.into_iter().find(|known| known.name() == text).ok_or_else(|| {
            let names = SamplerName::ALL.map(SamplerName::name).join(", ");
            invalid(format!("expected one of {names}, found {text:?}"))
        })
    }
}

/// A sampler by its name and numbers.
///
/// ```
/// use kiste::sampler::{SamplerName, SamplerOptions};
///
/// let options = SamplerOptions::new(SamplerName::Block).seed(7).block(8).buffer(0.5);
/// let sampler = options.sampler(100)?;
/// assert_eq!(sampler.order(0)?.len(), 100);
/// # Ok::<(), kiste::Error>(())
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq)]
#[must_use]
pub struct SamplerOptions {
    name: SamplerName,
    seed: Option<i128>,
    buffer: Option<f64>,
    block: Option<u64>,
}

/// The default numbers of samples in a block and in a window of a block shuffle.
const BLOCK: u64 = 256;
const WINDOW: f64 = 65536.0;
/// The defaults of Python's quasi-shuffle.
const CHUNK: u64 = 16;
const SHARE: f64 = 0.01;

impl SamplerOptions {
    /// The sampler of this name, with the defaults of its numbers.
    pub fn new(name: SamplerName) -> SamplerOptions {
        SamplerOptions { name, ..SamplerOptions::default() }
    }

    /// Another seed is another order. Default: 0, or what Python takes for its samplers.
    pub fn seed(mut self, seed: impl Into<i128>) -> SamplerOptions {
        self.seed = Some(seed.into());
        self
    }

    /// Samples in the window of a block shuffle (default: 65,536) or the buffer of Python's
    /// quasi-shuffle (default: 0.01). A number below 1 is that part of all samples.
    pub fn buffer(mut self, samples: f64) -> SamplerOptions {
        self.buffer = Some(samples);
        self
    }

    /// Samples in a block of a block shuffle (default: 256) or a chunk of Python's quasi-shuffle
    /// (default: 16).
    pub fn block(mut self, samples: u64) -> SamplerOptions {
        self.block = Some(samples);
        self
    }

    /// The sampler for this many samples.
    ///
    /// # Errors
    ///
    /// [`Invalid`](ErrorKind::Invalid) for a number that this sampler does not have: that would be a
    /// misunderstanding. And for one that makes no sense.
    pub fn sampler(&self, samples: u64) -> Result<Box<dyn Sampler>> {
        let sized = matches!(self.name, SamplerName::Block | SamplerName::DatadingsQuasi);
        if !sized && (self.buffer.is_some() || self.block.is_some()) {
            let message = "buffer and chunk sizes are for the samplers block and datadings-quasi";
            return Err(invalid(message));
        }
        if self.name == SamplerName::Sequential && self.seed.is_some() {
            return Err(invalid("the sampler sequential has no seed"));
        }
        let seed = || {
            let seed = self.seed.unwrap_or(0);
            let expected = || format!("seed {seed}, expected one from 0 to {}", u64::MAX);
            u64::try_from(seed).map_err(|_| invalid(expected()))
        };
        Ok(match self.name {
            SamplerName::Sequential => Box::new(Sequential::new(samples)),
            SamplerName::Shuffle => Box::new(Shuffle::new(samples, seed()?)),
            SamplerName::Block => {
                let block = self.block.unwrap_or(BLOCK);
                let window = self.buffer_of(samples, WINDOW)? as u64;
                let blocks = window.div_ceil(block.max(1)).max(1);
                Box::new(BlockShuffle::new(samples, block, blocks, seed()?)?)
            }
            SamplerName::DatadingsShuffle => Box::new(DatadingsShuffle::new(samples, self.seed)),
            SamplerName::DatadingsQuasi => {
                let chunk = self.block.unwrap_or(CHUNK);
                let buffer = self.buffer_of(samples, SHARE)?;
                Box::new(DatadingsQuasiShuffle::new(samples, buffer, chunk, self.seed)?)
            }
        })
    }

    /// The seed that is used, given or not. Python's samplers have one of their own, which is no number.
    pub fn seed_in_use(&self) -> Option<i128> {
        match self.name {
            SamplerName::Sequential => None,
            SamplerName::Shuffle | SamplerName::Block => Some(self.seed.unwrap_or(0)),
            SamplerName::DatadingsShuffle | SamplerName::DatadingsQuasi => self.seed,
        }
    }

    /// The buffer in samples.
    fn buffer_of(&self, samples: u64, default: f64) -> Result<f64> {
        let buffer = self.buffer.unwrap_or(default);
        if !buffer.is_finite() || buffer <= 0.0 {
            let message = format!("{buffer}, expected a positive number");
            return Err(invalid(message).with_option("buffer"));
        }
        Ok(if buffer < 1.0 { (buffer * samples as f64).ceil() } else { buffer.floor() })
    }
}

fn invalid(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::Invalid, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_back() {
        for name in SamplerName::ALL {
            assert_eq!(name.name().parse::<SamplerName>().unwrap(), name);
            assert!(SamplerOptions::new(name).sampler(10).is_ok(), "{name}");
        }
        assert!("random".parse::<SamplerName>().is_err());
    }

    #[test]
    fn a_number_without_a_meaning_is_refused() {
        let new = SamplerOptions::new;
        for wrong in [
            new(SamplerName::Sequential).seed(1),
            new(SamplerName::Shuffle).buffer(2.0),
            new(SamplerName::DatadingsShuffle).block(2),
            new(SamplerName::Shuffle).seed(-1),
            new(SamplerName::Block).buffer(0.0),
            new(SamplerName::DatadingsQuasi).buffer(f64::NAN),
        ] {
            assert!(wrong.sampler(10).is_err(), "{wrong:?}");
        }
    }
}
