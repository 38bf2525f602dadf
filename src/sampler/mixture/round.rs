//! [`Round`]: which source comes when, as one short schedule that is taken up again and again.

use std::sync::Arc;

use crate::error::{Error, ErrorKind, Result};
use crate::sampler::permutation::Purpose;
use crate::sampler::rng::{StableRng, stable_hash};

/// Minimum positions of a round, so that sources alternate at random.
const ROUND: u64 = 256;

/// Maximum positions of a round: their sources are held in memory.
pub(super) const MAX_ROUND: u64 = 1 << 20;

/// One round.
pub(super) struct Round {
    /// As asked for, divided by their greatest common divisor.
    quotas: Vec<u64>,
    /// The source of each slot.
    sources: Vec<u32>,
    /// For each slot: how many slots before it have the same source.
    ranks: Vec<u32>,
    /// The slots of each source, ascending.
    slots: Vec<Vec<u32>>,
}

impl Round {
    pub(super) fn new(quotas: &[u64], seed: u64) -> Result<Round> {
        let (quotas, sum) = reduced(quotas)?;
        let times = Round::len_of(sum) / sum;
        let mut sources = Vec::new();
        for (source, quota) in quotas.iter().enumerate() {
            sources.extend((0..quota * times).map(|_| source as u32));
        }
        StableRng::new(&[Purpose::Mixture as u64, seed]).shuffle(&mut sources);
        let mut slots = vec![Vec::new(); quotas.len()];
        let mut ranks = Vec::with_capacity(sources.len());
        for (slot, &source) in sources.iter().enumerate() {
            ranks.push(slots[source as usize].len() as u32);
            slots[source as usize].push(slot as u32);
        }
        Ok(Round { quotas, sources, ranks, slots })
    }

    /// The slots of a round of quotas with this sum.
    pub(super) fn len_of(sum: u64) -> u64 {
        ROUND.next_multiple_of(sum)
    }

    pub(super) fn len(&self) -> u64 {
        self.sources.len() as u64
    }

    pub(super) fn quotas(&self) -> &[u64] {
        &self.quotas
    }

    /// How many of its positions a source has.
    pub(super) fn quota(&self, source: usize) -> u64 {
        self.slots[source].len() as u64
    }

    pub(super) fn sources(&self) -> &[u32] {
        &self.sources
    }

    /// How many slots before this one have the source.
    fn before(&self, source: usize, slot: u64) -> u64 {
        self.slots[source].partition_point(|&s| u64::from(s) < slot) as u64
    }
}

/// Quotas divided by their greatest common divisor, and their sum, which is above 0 and small.
pub(super) fn reduced(quotas: &[u64]) -> Result<(Vec<u64>, u64)> {
    let common = quotas.iter().copied().fold(0, gcd);
    if common == 0 {
        return Err(Error::new(ErrorKind::Invalid, "no source has a quota"));
    }
    let sum: u128 = quotas.iter().map(|&quota| u128::from(quota / common)).sum();
    if sum > u128::from(MAX_ROUND) {
        let message = format!("quotas sum up to {sum}, at most {MAX_ROUND} is possible");
        return Err(Error::new(ErrorKind::Limit, message));
    }
    Ok((quotas.iter().map(|quota| quota / common).collect(), sum as u64))
}

pub(super) fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// A round repeated without end, from another slot on each time. Positions are counted from where
/// the first one starts.
#[derive(Clone)]
pub(super) struct Rounds {
    pub(super) round: Arc<Round>,
    rotation: u64,
}

impl Rounds {
    /// Two of one seed have the same rounds, but start them at other slots, if the numbers differ.
    pub(super) fn new(round: Arc<Round>, seed: u64, number: Option<u64>) -> Rounds {
        let rotation = match number {
            None => stable_hash(&[Purpose::Rotation as u64, seed]),
            Some(number) => stable_hash(&[Purpose::Rotation as u64, seed, number]),
        };
        Rounds { round, rotation }
    }

    /// The slot with which a round starts.
    fn first_slot(&self, round: u64) -> u64 {
        stable_hash(&[self.rotation, round]) % self.round.len()
    }

    /// The sources from this position on.
    pub(super) fn sources_from(&self, position: u64) -> impl Iterator<Item = usize> + '_ {
        let len = self.round.len();
        let (round, within) = (position / len, position % len);
        (round..).zip(std::iter::once(within).chain(std::iter::repeat(0))).flat_map(
            move |(round, within)| {
                let first = self.first_slot(round) as usize;
                let (before, after) = self.round.sources.split_at(first);
                after.iter().chain(before).skip(within as usize).map(|&source| source as usize)
            },
        )
    }

    /// The source at a position, and how often it came before.
    pub(super) fn at(&self, position: u64) -> (usize, u64) {
        let Round { sources, ranks, .. } = &*self.round;
        let (round, within) = (position / self.round.len(), position % self.round.len());
        let first = self.first_slot(round);
        let slot = (first + within) % self.round.len();
        let source = sources[slot as usize] as usize;
        let quota = self.round.quota(source);
        let rank = u64::from(ranks[slot as usize]) + quota - self.round.before(source, first);
        (source, round * quota + rank % quota)
    }

    /// How often a source comes before a position.
    pub(super) fn count(&self, source: usize, position: u64) -> u64 {
        let len = self.round.len();
        let (round, within) = (position / len, position % len);
        let quota = self.round.quota(source);
        let first = self.first_slot(round);
        let end = first + within;
        let (wraps, end) = if end < len { (0, end) } else { (1, end - len) };
        let before = |slot| self.round.before(source, slot);
        round * quota + (wraps * quota + before(end) - before(first))
    }

    /// Where a source comes that came so often before: the inverse of [`at`](Rounds::at). `None`
    /// if it never does, or not within 64 bits.
    pub(super) fn position_of(&self, source: usize, nth: u64) -> Option<u64> {
        let (len, quota) = (self.round.len(), self.round.quota(source));
        let round = nth.checked_div(quota)?;
        let first = self.first_slot(round);
        let rank = (self.round.before(source, first) + nth % quota) % quota;
        let slot = u64::from(self.round.slots[source][rank as usize]);
        round.checked_mul(len)?.checked_add((slot + len - first) % len)
    }
}
