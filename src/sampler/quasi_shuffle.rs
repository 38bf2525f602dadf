//! The quasi-shuffle of Python datadings.

use std::sync::Arc;

use super::shuffle::{Table, python_random, python_seed};
use super::{Fingerprint, Order, Sampler};
use crate::error::{Error, ErrorKind, Result};

/// The order of Python datadings' `QuasiShuffler`, for the same parameters, seed and pass.
///
/// Chunks of the dataset are read in random order. The first ones fill a buffer; each sample of the
/// others takes the place of a random one in the buffer, which comes next in the order. The rest of
/// the buffer comes last, unshuffled. So the last chunks are hardly mixed, and a dataset that fits
/// into the buffer is not mixed within its chunks at all: [`BlockShuffle`] does better.
///
/// A position is a position of the whole order. (Python's own `seek` doubles one sample and
/// loses another if it falls on the end of a chunk.) An order takes 4 bytes a sample.
///
/// ```
/// use kiste::sampler::{DatadingsQuasiShuffle, Sampler};
///
/// let sampler = DatadingsQuasiShuffle::new(10, 4.0, 2, None)?;
/// let order = sampler.order(0)?;
/// assert_eq!(order.iter().collect::<Vec<_>>(), [2, 8, 3, 9, 0, 6, 4, 1, 7, 5]);
/// # Ok::<(), kiste::Error>(())
/// ```
///
/// [`BlockShuffle`]: super::BlockShuffle
#[doc(alias = "QuasiShuffler")]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DatadingsQuasiShuffle {
    samples: u64,
    buffer: u64,
    chunk: u64,
    seed: i128,
}

impl DatadingsQuasiShuffle {
    /// Python's defaults are a buffer of `0.01` and chunks of `16`.
    ///
    /// The buffer is given in samples and rounded up to whole chunks. **Any** size below 1, even
    /// `0.5`, means one hundredth of the samples, because Python computes it so. Without
    /// a seed it is samples × buffer × chunk, as in Python.
    ///
    /// # Errors
    ///
    /// [`Invalid`](ErrorKind::Invalid) if the buffer is not a number or a chunk has no samples.
    pub fn new(samples: u64, buffer: f64, chunk: u64, seed: Option<i128>) -> Result<Self> {
        if chunk == 0 {
            return Err(Error::new(ErrorKind::Invalid, "a chunk of 0 samples, expected 1 or more"));
        }
        if !buffer.is_finite() {
            let message = format!("a buffer of {buffer} samples, expected a number");
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        // In floating point, as Python computes it.
        let wanted = if buffer < 1.0 { (samples as f64 * 0.01).ceil() } else { buffer.trunc() };
        let buffer = (wanted as u64).div_ceil(chunk).saturating_mul(chunk);
        let product = |a: i128, b: u64| a.wrapping_mul(i128::from(b));
        let seed = seed.unwrap_or_else(|| product(product(samples.into(), buffer), chunk));
        Ok(DatadingsQuasiShuffle { samples, buffer, chunk, seed })
    }

    /// Samples that the buffer has room for: a multiple of the chunk.
    pub fn buffer(&self) -> u64 {
        self.buffer
    }

    /// The samples of a chunk.
    fn chunk(&self, number: u32) -> impl Iterator<Item = u32> + use<> {
        let start = u64::from(number) * self.chunk;
        let end = start.saturating_add(self.chunk).min(self.samples);
        start as u32..end as u32
    }
}

impl Sampler for DatadingsQuasiShuffle {
    fn len(&self) -> u64 {
        self.samples
    }

    fn bound(&self) -> u64 {
        self.samples
    }

    fn fingerprint(&self) -> Fingerprint {
        let name = Fingerprint::new("datadings-quasi", self.samples);
        python_seed(name.with(self.buffer).with(self.chunk), self.seed)
    }

    fn order(&self, epoch: u64) -> Result<Arc<dyn Order>> {
        let mut indices = Table::numbers(self.samples)?;
        let mut chunks = Table::numbers(self.samples.div_ceil(self.chunk))?;
        let mut random = python_random(self.seed, epoch, self.samples);
        random.shuffle(&mut chunks);

        let filling = (self.buffer / self.chunk).min(chunks.len() as u64) as usize;
        let (filling, streamed) = chunks.split_at(filling);
        indices.clear();
        let mut buffer: Vec<u32> = filling.iter().flat_map(|&c| self.chunk(c)).collect();
        for sample in streamed.iter().flat_map(|&c| self.chunk(c)) {
            let place = random.below(buffer.len() as u64) as usize;
            indices.push(std::mem::replace(&mut buffer[place], sample));
        }
        indices.extend(buffer);
        Ok(Arc::new(Table::new(indices)))
    }
}
