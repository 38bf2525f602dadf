//! Several datasets in one order, with exact shares.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use super::permutation::Purpose;
use super::repeat::{Passes, too_late};
use super::rng::{StableRng, stable_hash};
use super::{Fingerprint, Order, Sampler, Shuffle, check, reserve};
use crate::error::{Error, ErrorKind, Result};

/// Minimum positions of a round, so that sources alternate at random.
const ROUND: u64 = 256;

/// Maximum positions of a round: their sources are held in memory.
const MAX_ROUND: u64 = 1 << 20;

/// A dataset of a [`Mixture`].
#[derive(Clone)]
#[must_use = "a source does nothing until it is part of a `Mixture`"]
pub struct MixtureSource {
    samples: u64,
    quota: u64,
    sampler: Option<Arc<dyn Sampler>>,
}

impl MixtureSource {
    /// This many samples, shuffled, with this share: quotas 3 and 1 are three quarters and one.
    pub fn new(samples: u64, quota: u64) -> MixtureSource {
        MixtureSource { samples, quota, sampler: None }
    }

    /// Another order than a [`Shuffle`]. Epoch `p` of the sampler is the pass `p` through
    /// this source.
    pub fn sampler(mut self, sampler: impl Sampler + 'static) -> MixtureSource {
        self.sampler = Some(Arc::new(sampler));
        self
    }
}

/// A mixture of datasets in which each has its share, exactly so in each whole round.
///
/// Quotas are whole numbers. Each *round* of as many positions as their sum (or a small multiple,
/// at least 256: [`round_len`](Mixture::round_len)) has each source exactly as often as its quota
/// says, at random places; so the shares are right over any long stretch, not just on average.
/// Within a round they are not: an epoch has exact shares if it has whole rounds, and of several
/// ranks that share the batches of a round, all together see them and none by itself. The samples
/// of a source come without replacement: all of them in the order of its pass 0, then all in the
/// order of pass 1, and so on, across epochs: an epoch is a number of positions, and the next one
/// continues where it ended. Everything is random access and follows from seed, epoch and position.
///
/// An index counts through the concatenated datasets, in the order given.
///
/// ```
/// use kiste::sampler::{Mixture, MixtureSource, Sampler};
///
/// let books = MixtureSource::new(1000, 3);
/// let news = MixtureSource::new(50, 1); // is seen many times, and evenly
/// let mixture = Mixture::new(vec![books, news], 4096, 42)?;
///
/// assert_eq!(mixture.counts(0, 0..4096)?, [3072, 1024]);
/// let index = mixture.order(0)?.index_at(0);
/// assert_eq!(mixture.source_at(0, 0)?, usize::from(index >= 1000));
/// println!("schedule {:016x}", mixture.schedule_hash());
/// # Ok::<(), kiste::Error>(())
/// ```
#[derive(Clone)]
pub struct Mixture {
    sources: Vec<Source>,
    len: u64,
    seed: u64,
    round: Arc<Round>,
}

#[derive(Clone)]
struct Source {
    samples: u64,
    /// Index of its first sample.
    base: u64,
    sampler: Arc<dyn Sampler>,
}

impl Mixture {
    /// Mixes these sources, `len` positions an epoch.
    ///
    /// # Errors
    ///
    /// [`Invalid`](ErrorKind::Invalid) if a source has a quota but no samples, if its sampler has
    /// indices beyond its samples, or if no source has a quota; [`Limit`](ErrorKind::Limit) if the
    /// sum of quotas, divided by their greatest common divisor, is more than 2²⁰.
    pub fn new(sources: Vec<MixtureSource>, len: u64, seed: u64) -> Result<Mixture> {
        let quotas: Vec<u64> = sources.iter().map(|source| source.quota).collect();
        let round = Arc::new(Round::new(&quotas, seed)?);
        let mut base: u64 = 0;
        let mut built = Vec::with_capacity(sources.len());
        for (number, MixtureSource { samples, quota, sampler }) in sources.into_iter().enumerate() {
            let sampler = sampler.unwrap_or_else(|| {
                Arc::new(Shuffle::new(samples, stable_hash(&[seed, number as u64])))
            });
            if quota > 0 && sampler.is_empty() {
                let message = format!("source {number} has a quota of {quota} but no samples");
                return Err(Error::new(ErrorKind::Invalid, message));
            }
            if sampler.bound() > samples {
                let message = format!(
                    "source {number} has {samples} samples, its sampler expects {}",
                    sampler.bound()
                );
                return Err(Error::new(ErrorKind::Invalid, message));
            }
            built.push(Source { samples, base, sampler });
            base = base.checked_add(samples).ok_or_else(|| {
                Error::new(ErrorKind::Limit, "more samples than an index can tell apart")
            })?;
        }
        Ok(Mixture { sources: built, len, seed, round })
    }

    /// The source of a position, counted from 0.
    ///
    /// # Errors
    ///
    /// As [`Sampler::order`].
    ///
    /// # Panics
    ///
    /// If the position is not below the length of an epoch.
    pub fn source_at(&self, epoch: u64, position: u64) -> Result<usize> {
        check(position, self.len);
        Ok(self.round.at(self.start(epoch)? + position).0)
    }

    /// How often each source comes at these positions: the observed shares, computed without
    /// visiting the positions.
    ///
    /// # Errors
    ///
    /// As [`Sampler::order`]; [`Invalid`](ErrorKind::Invalid) if the epoch has no such positions.
    pub fn counts(&self, epoch: u64, positions: Range<u64>) -> Result<Vec<u64>> {
        let start = self.start(epoch)?;
        if positions.start > positions.end || positions.end > self.len {
            let message = format!("positions {positions:?} of an epoch of {}", self.len);
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        let count = |source| {
            let before = |position| self.round.count(source, start + position);
            before(positions.end) - before(positions.start)
        };
        Ok((0..self.sources.len()).map(count).collect())
    }

    /// The positions of a round, in which each source has exactly its share.
    ///
    /// ```
    /// use kiste::sampler::{Mixture, MixtureSource, Sampler};
    ///
    /// let sources = || vec![MixtureSource::new(1000, 2), MixtureSource::new(50, 1)];
    /// let round = Mixture::new(sources(), 1, 42)?.round_len();
    /// assert_eq!(round, 258); // the smallest multiple of 3 that is not below 256
    /// let mixture = Mixture::new(sources(), 10 * round, 42)?;
    /// assert_eq!(mixture.counts(7, 0..10 * round)?, [1720, 860]);
    /// # Ok::<(), kiste::Error>(())
    /// ```
    pub fn round_len(&self) -> u64 {
        self.round.len()
    }

    /// The share that each source is to have, as a fraction of 1.
    pub fn shares(&self) -> Vec<f64> {
        let round = self.round.len() as f64;
        self.round.slots.iter().map(|slots| slots.len() as f64 / round).collect()
    }

    /// A number for the whole schedule: which source comes when, of how many samples, with which
    /// seed. Runs that print the same one mix alike. Orders of a source's own sampler are not in
    /// it.
    pub fn schedule_hash(&self) -> u64 {
        let sizes = self.sources.iter().flat_map(|s| [s.samples, s.sampler.len()]);
        let round = self.round.sources.iter().map(|&source| u64::from(source));
        let all: Vec<u64> = [self.seed, self.len].into_iter().chain(sizes).chain(round).collect();
        stable_hash(&all)
    }

    /// The first position of an epoch, counted from the very first.
    fn start(&self, epoch: u64) -> Result<u64> {
        let end = epoch.checked_add(1).and_then(|n| n.checked_mul(self.len));
        end.map(|end| end - self.len).ok_or_else(|| too_late(epoch))
    }
}

impl Sampler for Mixture {
    fn len(&self) -> u64 {
        self.len
    }

    fn bound(&self) -> u64 {
        self.sources.iter().map(|source| source.samples).sum()
    }

    fn fingerprint(&self) -> Fingerprint {
        let name = Fingerprint::new("mixture", self.len).seed(self.seed);
        let sources = self.sources.iter().map(|source| source.sampler.fingerprint());
        sources.fold(name.with(self.schedule_hash()), Fingerprint::of)
    }

    fn order(&self, epoch: u64) -> Result<Arc<dyn Order>> {
        let start = self.start(epoch)?;
        let mut sources = Vec::with_capacity(self.sources.len());
        for (number, source) in self.sources.iter().enumerate() {
            let passes = if source.sampler.is_empty() {
                None
            } else {
                let first = self.round.count(number, start) / source.sampler.len();
                Some(Passes::new(Arc::clone(&source.sampler), first)?)
            };
            sources.push((source.base, passes));
        }
        Ok(Arc::new(Mixed { sources, start, len: self.len, round: Arc::clone(&self.round) }))
    }
}

/// An epoch of a mixture.
struct Mixed {
    /// The first index and the passes of each source; a source without samples has no passes.
    sources: Vec<(u64, Option<Passes>)>,
    start: u64,
    len: u64,
    round: Arc<Round>,
}

impl Order for Mixed {
    fn len(&self) -> u64 {
        self.len
    }

    fn index_at(&self, position: u64) -> u64 {
        check(position, self.len);
        let (source, nth) = self.round.at(self.start + position);
        let (base, passes) = &self.sources[source];
        let passes = passes.as_ref().expect("a source with a quota has samples");
        base + passes.get(nth / passes.len()).index_at(nth % passes.len())
    }

    fn fill(&self, mut positions: Range<u64>, out: &mut Vec<u64>) {
        if positions.is_empty() {
            return;
        }
        check(positions.end - 1, self.len);
        reserve(&positions, out);
        while !positions.is_empty() {
            let end = positions.end.min(positions.start.saturating_add(TOGETHER));
            let numbers = self.start + positions.start..self.start + end;
            if numbers.end - numbers.start < self.sources.len() as u64 {
                out.extend((positions.start..end).map(|position| self.index_at(position)));
            } else {
                self.fill_together(numbers, out);
            }
            positions.start = end;
        }
    }
}

/// Positions of a mixture that are filled at once.
const TOGETHER: u64 = 4096;

impl Mixed {
    /// Appends the indices at these positions, counted from the very first: the indices of one
    /// source come in its order, so they are taken together and then dealt out.
    fn fill_together(&self, positions: Range<u64>, out: &mut Vec<u64>) {
        let take = |(number, (base, passes)): (usize, &(u64, Option<Passes>))| {
            let mut indices = Vec::new();
            if let Some(passes) = passes {
                let nth = |position| self.round.count(number, position);
                passes.fill(0, nth(positions.start)..nth(positions.end), &mut indices);
                indices.iter_mut().for_each(|index| *index += base);
            }
            indices.into_iter()
        };
        let mut of_source: Vec<_> = self.sources.iter().enumerate().map(take).collect();
        let slots = self.round.slots_from(positions.start);
        let sources = slots.take((positions.end - positions.start) as usize);
        out.extend(sources.map(|source| {
            of_source[source].next().expect("a source comes as often as it is counted")
        }));
    }
}

/// Which source comes when: one round, which each later round takes up at another place.
struct Round {
    /// The source of each slot.
    sources: Vec<u32>,
    /// For each slot: how many slots before it have the same source.
    ranks: Vec<u32>,
    /// The slots of each source, ascending.
    slots: Vec<Vec<u32>>,
    rotation: u64,
}

impl Round {
    fn new(quotas: &[u64], seed: u64) -> Result<Round> {
        let common = quotas.iter().copied().fold(0, gcd);
        if common == 0 {
            return Err(Error::new(ErrorKind::Invalid, "no source has a quota"));
        }
        let sum: u128 = quotas.iter().map(|&quota| u128::from(quota / common)).sum();
        if sum > u128::from(MAX_ROUND) {
            let message = format!("quotas sum up to {sum}, at most {MAX_ROUND} is possible");
            return Err(Error::new(ErrorKind::Limit, message));
        }
        let times = ROUND.div_ceil(sum as u64);
        let mut sources = Vec::new();
        for (source, quota) in quotas.iter().enumerate() {
            sources.extend((0..quota / common * times).map(|_| source as u32));
        }
        StableRng::new(&[Purpose::Mixture as u64, seed]).shuffle(&mut sources);
        let mut slots = vec![Vec::new(); quotas.len()];
        let mut ranks = Vec::with_capacity(sources.len());
        for (slot, &source) in sources.iter().enumerate() {
            ranks.push(slots[source as usize].len() as u32);
            slots[source as usize].push(slot as u32);
        }
        let rotation = stable_hash(&[Purpose::Rotation as u64, seed]);
        Ok(Round { sources, ranks, slots, rotation })
    }

    fn len(&self) -> u64 {
        self.sources.len() as u64
    }

    /// The slot with which a round starts.
    fn first_slot(&self, round: u64) -> u64 {
        stable_hash(&[self.rotation, round]) % self.len()
    }

    /// The sources from this position on.
    fn slots_from(&self, position: u64) -> impl Iterator<Item = usize> + '_ {
        let (round, within) = (position / self.len(), position % self.len());
        (round..).zip(std::iter::once(within).chain(std::iter::repeat(0))).flat_map(
            move |(round, within)| {
                let (before, after) = self.sources.split_at(self.first_slot(round) as usize);
                after.iter().chain(before).skip(within as usize).map(|&source| source as usize)
            },
        )
    }

    /// How many slots before this one have the source.
    fn before(&self, source: usize, slot: u64) -> u64 {
        self.slots[source].partition_point(|&s| u64::from(s) < slot) as u64
    }

    /// The source at a position, and how often it came before.
    fn at(&self, position: u64) -> (usize, u64) {
        let (round, within) = (position / self.len(), position % self.len());
        let first = self.first_slot(round);
        let slot = (first + within) % self.len();
        let source = self.sources[slot as usize] as usize;
        let quota = self.slots[source].len() as u64;
        let rank = u64::from(self.ranks[slot as usize]) + quota - self.before(source, first);
        (source, round * quota + rank % quota)
    }

    /// How often a source comes before a position.
    fn count(&self, source: usize, position: u64) -> u64 {
        let (round, within) = (position / self.len(), position % self.len());
        let quota = self.slots[source].len() as u64;
        let first = self.first_slot(round);
        let end = first + within;
        let (wraps, end) = if end < self.len() { (0, end) } else { (1, end - self.len()) };
        round * quota + wraps * quota + self.before(source, end) - self.before(source, first)
    }
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// Whole quotas that sum up to `sum` and are as close to these weights as whole numbers can be:
/// the largest remainders are rounded up, of equal ones the first.
///
/// ```
/// assert_eq!(kiste::sampler::quotas(&[0.5, 0.25, 0.25], 10)?, [5, 3, 2]);
/// # Ok::<(), kiste::Error>(())
/// ```
///
/// # Errors
///
/// [`Invalid`](ErrorKind::Invalid) if a weight is negative or no number, all are 0, or a positive
/// weight is so small that its quota would be 0.
pub fn quotas(weights: &[f64], sum: u64) -> Result<Vec<u64>> {
    let total: f64 = weights.iter().sum();
    let good = |weight: &f64| weight.is_finite() && *weight >= 0.0;
    if !weights.iter().all(good) || !total.is_finite() || total <= 0.0 {
        let message = format!("weights {weights:?}, expected positive numbers");
        return Err(Error::new(ErrorKind::Invalid, message));
    }
    let exact = |weight: &f64| weight / total * sum as f64;
    let mut quotas: Vec<u64> = weights.iter().map(|weight| exact(weight) as u64).collect();
    let mut order: Vec<usize> = (0..weights.len()).collect();
    order.sort_by(|&a, &b| exact(&weights[b]).fract().total_cmp(&exact(&weights[a]).fract()));
    let given: u64 = quotas.iter().sum();
    for &source in order.iter().cycle().take(sum.saturating_sub(given) as usize) {
        quotas[source] += 1;
    }
    match weights.iter().zip(&quotas).position(|(&weight, &quota)| weight > 0.0 && quota == 0) {
        None => Ok(quotas),
        Some(source) => {
            let message = format!("weight {} is nothing of {sum}: ask for more", weights[source]);
            Err(Error::new(ErrorKind::Invalid, message))
        }
    }
}

impl fmt::Debug for MixtureSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MixtureSource({} samples, quota {})", self.samples, self.quota)
    }
}

impl fmt::Debug for Mixture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sizes: Vec<u64> = self.sources.iter().map(|source| source.samples).collect();
        write!(f, "Mixture({sizes:?} samples, shares {:?})", self.shares())
    }
}
