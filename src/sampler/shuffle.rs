//! The exact shuffles: ours and Python datadings'.

use std::ops::Range;
use std::sync::Arc;

use super::permutation::{Key, Permutation, Purpose};
use super::rng::PythonRandom;
use super::{Fingerprint, Order, Sampler, check, once, reserve};
use crate::error::{Error, ErrorKind, Result};

/// A full shuffle without a table in memory: each epoch is a keyed [`Permutation`].
///
/// ```
/// use kiste::sampler::{Sampler, Shuffle};
///
/// let billions = Shuffle::new(1 << 40, 7).order(0)?; // at once: nothing is made or stored
/// let index = billions.index_at(5_000_000_000);
/// assert_eq!(billions.position_of(index), Some(5_000_000_000));
/// # Ok::<(), kiste::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shuffle {
    samples: u64,
    seed: u64,
}

impl Shuffle {
    /// Shuffles this many samples.
    pub fn new(samples: u64, seed: u64) -> Shuffle {
        Shuffle { samples, seed }
    }

    /// The permutation that is the order of an epoch.
    pub fn permutation(&self, epoch: u64) -> Permutation {
        Permutation::keyed(self.samples, Key::new(Purpose::Shuffle, self.seed, epoch))
    }
}

impl Sampler for Shuffle {
    fn len(&self) -> u64 {
        self.samples
    }

    fn bound(&self) -> u64 {
        self.samples
    }

    fn fingerprint(&self) -> Fingerprint {
        Fingerprint::new("shuffle", self.samples).seed(self.seed)
    }

    fn order(&self, epoch: u64) -> Result<Arc<dyn Order>> {
        Ok(Arc::new(self.permutation(epoch)))
    }
}

impl Order for Permutation {
    fn len(&self) -> u64 {
        Permutation::len(self)
    }

    fn index_at(&self, position: u64) -> u64 {
        self.apply(position)
    }

    fn fill(&self, positions: Range<u64>, out: &mut Vec<u64>) {
        if !positions.is_empty() {
            check(positions.end - 1, Permutation::len(self));
            reserve(&positions, out);
            self.apply_range(positions, out);
        }
    }

    fn position_of(&self, index: u64) -> Option<u64> {
        (index < Permutation::len(self)).then(|| self.invert(index))
    }

    fn positions_of(
        &self,
        index: u64,
        positions: Range<u64>,
    ) -> Box<dyn Iterator<Item = u64> + '_> {
        once(self.position_of(index), positions)
    }
}

/// The order of Python datadings' `Shuffler`, for the same seed and pass.
///
/// Epoch `e` is its pass `e`, counted from 0: `Random(seed + e * samples)`. An order takes 4 bytes
/// a sample, and the time of a shuffle to make; where Python's orders do not matter, [`Shuffle`]
/// is better.
///
/// ```
/// use kiste::sampler::{DatadingsShuffle, Sampler};
///
/// let second = DatadingsShuffle::new(10, None).order(1)?;
/// assert_eq!(second.iter().collect::<Vec<_>>(), [5, 3, 0, 7, 8, 9, 6, 1, 4, 2]);
/// # Ok::<(), kiste::Error>(())
/// ```
#[doc(alias = "Shuffler")]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DatadingsShuffle {
    samples: u64,
    seed: i128,
}

impl DatadingsShuffle {
    /// Shuffles this many samples. Without a seed their number is the seed, as in Python.
    pub fn new(samples: u64, seed: Option<i128>) -> DatadingsShuffle {
        DatadingsShuffle { samples, seed: seed.unwrap_or(i128::from(samples)) }
    }
}

impl Sampler for DatadingsShuffle {
    fn len(&self) -> u64 {
        self.samples
    }

    fn bound(&self) -> u64 {
        self.samples
    }

    fn fingerprint(&self) -> Fingerprint {
        python_seed(Fingerprint::new("datadings-shuffle", self.samples), self.seed)
    }

    fn order(&self, epoch: u64) -> Result<Arc<dyn Order>> {
        let mut indices = Table::numbers(self.samples)?;
        python_random(self.seed, epoch, self.samples).shuffle(&mut indices);
        Ok(Arc::new(Table::new(indices)))
    }
}

/// With a seed of Python, which may be none of ours.
pub(super) fn python_seed(fingerprint: Fingerprint, seed: i128) -> Fingerprint {
    match u64::try_from(seed) {
        Ok(seed) => fingerprint.seed(seed),
        Err(_) => fingerprint.with(seed as u64).with((seed >> 64) as u64),
    }
}

/// The generator of a pass: `Random(seed + epoch * samples)`.
///
/// Python's integers are unbounded, these wrap around at 127 bits, which no data set comes near.
pub(super) fn python_random(seed: i128, epoch: u64, samples: u64) -> PythonRandom {
    let offset = u128::from(epoch) * u128::from(samples);
    PythonRandom::new(seed.wrapping_add(offset as i128))
}

/// An order that is stored, 4 bytes a position.
pub(super) struct Table(Box<[u32]>);

impl Table {
    pub(super) fn new(indices: Vec<u32>) -> Table {
        Table(indices.into_boxed_slice())
    }

    /// All numbers below `len`, if there is room for them.
    pub(super) fn numbers(len: u64) -> Result<Vec<u32>> {
        let mut numbers = Vec::new();
        let reserved = u32::try_from(len)
            .ok()
            .map(|len| numbers.try_reserve_exact(len as usize).map(|()| numbers.extend(0..len)));
        match reserved {
            Some(Ok(())) => Ok(numbers),
            Some(Err(_)) => Err(too_many(len, "more than fit in memory")),
            None => Err(too_many(len, "more than a stored order can have")),
        }
    }
}

fn too_many(samples: u64, what: &str) -> Error {
    let message = format!("{samples} samples are {what}; `Shuffle` has no such limit");
    Error::new(ErrorKind::Limit, message)
}

impl Order for Table {
    fn len(&self) -> u64 {
        self.0.len() as u64
    }

    fn index_at(&self, position: u64) -> u64 {
        check(position, self.len());
        u64::from(self.0[position as usize])
    }

    fn fill(&self, positions: Range<u64>, out: &mut Vec<u64>) {
        if !positions.is_empty() {
            check(positions.end - 1, self.len());
            reserve(&positions, out);
            let indices = &self.0[positions.start as usize..positions.end as usize];
            out.extend(indices.iter().map(|&index| u64::from(index)));
        }
    }
}
