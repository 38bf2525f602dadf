//! Several datasets in one order, with exact shares.

mod source;
mod round;
mod quotas;
mod phases;
mod epoch;
#[cfg(test)]
mod tests;

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

pub use quotas::{TokenWeight, exact_quotas, quotas, quotas_by_tokens};
pub use source::{Exhausted, MixtureSource};

use self::epoch::Mixed;
use self::phases::{Cap, End, Phases};
use super::fingerprint::other_order;
use super::repeat::{Passes, too_late};
use super::rng::stable_hash;
use super::{Fingerprint, Order, Sampler, Shuffle, State, check};
use crate::error::{Error, ErrorKind, Result};

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
/// Shares can change on the way: [`phase`](Mixture::phase) says from which position on, and a source
/// with [`max_passes`](MixtureSource::max_passes) leaves its share to the others when it is used up. In
/// each phase rounds start afresh, and each source continues where it was.
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
    sources: Arc<[Source]>,
    len: u64,
    phases: Arc<Phases>,
    /// Without what the phases after the first one change.
    schedule_hash: u64,
    fingerprint: Fingerprint,
}

/// From some position of the run on, these quotas hold: one entry of [`Mixture::phases`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct MixturePhase {
    /// The first position, counted from the very first of the run.
    pub from: u64,
    /// The quota of each source, divided by their greatest common divisor.
    pub quotas: Vec<u64>,
    /// The positions of a round, in which each source has exactly its share.
    pub round_len: u64,
    /// The source that is used up here, if that is why the phase starts.
    pub used_up: Option<usize>,
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
    /// indices beyond its samples, if it has at most 0 passes, or if no source has a quota;
    /// [`Limit`](ErrorKind::Limit) if the sum of quotas, divided by their greatest common divisor, is
    /// more than 2²⁰.
    pub fn new(sources: Vec<MixtureSource>, len: u64, seed: u64) -> Result<Mixture> {
        let quotas: Vec<u64> = sources.iter().map(|source| source.quota).collect();
        let invalid = |message| Err(Error::new(ErrorKind::Invalid, message));
        let mut base: u64 = 0;
        let mut built = Vec::with_capacity(sources.len());
        let mut caps = Vec::with_capacity(sources.len());
        for (number, source) in sources.into_iter().enumerate() {
            let MixtureSource { samples, sampler, max_passes, exhausted, .. } = source;
            let sampler = sampler.unwrap_or_else(|| {
                Arc::new(Shuffle::new(samples, stable_hash(&[seed, number as u64])))
            });
            if sampler.bound() > samples {
                return invalid(format!(
                    "source {number} has {samples} samples, its sampler expects {}",
                    sampler.bound()
                ));
            }
            if max_passes == Some(0) {
                return invalid(format!(
                    "source {number} has at most 0 passes, expected 1 or more"
                ));
            }
            let passes = [max_passes, sampler.epochs()].into_iter().flatten().min();
            // More samples than there are positions are no limit.
            let most = passes.and_then(|passes| passes.checked_mul(sampler.len()));
            let others = exhausted == Exhausted::Others;
            caps.push(most.map(|samples| Cap { samples, others }));
            built.push(Source { samples, base, sampler });
            base = base.checked_add(samples).ok_or_else(|| {
                Error::new(ErrorKind::Limit, "more samples than an index can tell apart")
            })?;
        }
        check_quotas(&built, &quotas)?;
        let phases = Phases::new(&quotas, caps, seed)?;

        let sizes = built.iter().flat_map(|s| [s.samples, s.sampler.len()]);
        let round = &phases.list()[0].rounds.round;
        let round = round.sources().iter().map(|&source| u64::from(source));
        let all: Vec<u64> = [seed, len].into_iter().chain(sizes).chain(round).collect();
        let schedule_hash = stable_hash(&all);
        let name = Fingerprint::new("mixture", len).seed(seed).with(schedule_hash);
        let samplers = built.iter().map(|source| source.sampler.fingerprint());
        let fingerprint = samplers.fold(name, Fingerprint::of);
        let phases = Arc::new(phases);
        Ok(Mixture { sources: built.into(), len, phases, schedule_hash, fingerprint })
    }

    /// From this position of the whole run on, these quotas hold, one for each source. It is counted
    /// from the very first: position `p` of epoch `e` is `e * len + p`. All positions before it stay
    /// as they are, so a run can get a phase when it has already begun.
    ///
    /// A source with a quota of 0 pauses; later it continues where it was.
    ///
    /// ```
    /// use kiste::sampler::{Mixture, MixtureSource, Sampler, State};
    ///
    /// let web = MixtureSource::new(10_000, 3);
    /// let books = MixtureSource::new(500, 1);
    /// let start = Mixture::new(vec![web, books], 2560, 42)?;
    /// let checkpoint = State::of(&start, 1, 100);
    ///
    /// // More books from the third epoch on, and only books at the end.
    /// let mixture = start.phase(2 * 2560, &[1, 1])?.phase(4 * 2560, &[0, 1])?;
    /// assert_eq!(mixture.counts(1, 0..2560)?, [1920, 640]);
    /// assert_eq!(mixture.counts(2, 0..2560)?, [1280, 1280]);
    /// assert_eq!(mixture.counts(4, 0..2560)?, [0, 2560]);
    /// checkpoint.check(&mixture)?;
    /// # Ok::<(), kiste::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Invalid`](ErrorKind::Invalid) if it does not start after the phase that was added before it,
    /// or starts after the [end](Mixture::end) of the run, and for quotas as in [`new`](Mixture::new);
    /// [`Limit`](ErrorKind::Limit) for more than 1,000 phases, or if the rounds of all phases have
    /// more than 2²⁴ slots.
    pub fn phase(mut self, from: u64, quotas: &[u64]) -> Result<Mixture> {
        check_quotas(&self.sources, quotas)?;
        Arc::make_mut(&mut self.phases).add(from, quotas)?;
        Ok(self)
    }

    /// All phases: the first, the added ones, and those which start where a source is used up.
    pub fn phases(&self) -> impl ExactSizeIterator<Item = MixturePhase> + '_ {
        self.phases.list().iter().map(|phase| MixturePhase {
            from: phase.from,
            quotas: phase.rounds.round.quotas().to_vec(),
            round_len: phase.rounds.round.len(),
            used_up: phase.used_up,
        })
    }

    /// Where the run ends because a source is used up, or all are: it has as many positions. `None`
    /// if it has no end.
    pub fn end(&self) -> Option<u64> {
        self.phases.end().map(|end| end.position)
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
        Ok(self.phases.at(self.start(epoch)? + position).0)
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
            let before = |position| self.phases.count(source, start + position);
            before(positions.end) - before(positions.start)
        };
        Ok((0..self.sources.len()).map(count).collect())
    }

    /// All positions of an epoch at which this sample is seen, ascending.
    ///
    /// ```
    /// use kiste::sampler::{Mixture, MixtureSource, Sampler};
    ///
    /// let sources = vec![MixtureSource::new(1000, 3), MixtureSource::new(50, 1)];
    /// let mixture = Mixture::new(sources, 4096, 42)?;
    /// let order = mixture.order(7)?;
    /// let seen = mixture.positions_in(7, 1010)?; // sample 10 of the second source, all of which has 1024 positions
    /// let times = seen.inspect(|&position| assert_eq!(order.index_at(position), 1010)).count();
    /// assert!((20..=21).contains(&times));
    /// # Ok::<(), kiste::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`Sampler::order`].
    pub fn positions_in(
        &self,
        epoch: u64,
        index: u64,
    ) -> Result<impl Iterator<Item = u64> + use<'_>> {
        let start = self.start(epoch)?;
        let seen = self.positions_of(index, start..start + self.len)?;
        Ok(seen.map(move |position| position - start))
    }

    /// All positions in this part of the whole run at which this sample is seen, ascending: position
    /// `p` of epoch `e` is `e * len + p`. Nothing is searched if the sampler of its source has a fast
    /// inverse: each pass through the source is one step.
    ///
    /// ```
    /// use kiste::sampler::{Mixture, MixtureSource};
    ///
    /// let sources = vec![MixtureSource::new(1000, 3), MixtureSource::new(50, 1)];
    /// let mixture = Mixture::new(sources, 4096, 42)?;
    /// // The first three times at which sample 10 of the second source is seen from epoch 5 on:
    /// let seen: Vec<u64> = mixture.positions_of(1010, 5 * 4096..u64::MAX)?.take(3).collect();
    /// assert!(seen[0] / 4096 == 5 && seen.is_sorted());
    /// # Ok::<(), kiste::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`Sampler::order`] of a source. A run that [ends](Mixture::end) before is no error.
    pub fn positions_of(
        &self,
        index: u64,
        run: Range<u64>,
    ) -> Result<impl Iterator<Item = u64> + use<'_>> {
        let end = self.end().map_or(run.end, |end| end.min(run.end));
        let run = run.start.min(end)..end;
        let number = self.source_of(index);
        let passes = number.map_or(Ok(None), |number| self.passes(number, &run))?;
        let seen = number.zip(passes).map(|(number, passes)| self.seen(number, passes, index, run));
        Ok(seen.into_iter().flatten())
    }

    /// Where the run sees this index, which is of this source.
    fn seen(
        &self,
        number: usize,
        passes: Arc<Passes>,
        index: u64,
        run: Range<u64>,
    ) -> impl Iterator<Item = u64> + use<'_> {
        let index = index - self.sources[number].base;
        let count = |position| self.phases.count(number, position);
        let mut nth = count(run.start)..count(run.end);
        std::iter::from_fn(move || {
            let found = passes.next_position_of(0, index, nth.clone())?;
            nth.start = found + 1;
            self.phases.position_of(number, found)
        })
    }

    /// The source that has this index.
    fn source_of(&self, index: u64) -> Option<usize> {
        let number = self.sources.partition_point(|source| source.base <= index).checked_sub(1)?;
        (index - self.sources[number].base < self.sources[number].samples).then_some(number)
    }

    /// The passes through a source, if it comes in this part of the run.
    fn passes(&self, number: usize, run: &Range<u64>) -> Result<Option<Arc<Passes>>> {
        let sampler = &self.sources[number].sampler;
        let first = self.phases.count(number, run.start);
        if first == self.phases.count(number, run.end) {
            return Ok(None);
        }
        let passes = Passes::new(Arc::clone(sampler), first / sampler.len())?;
        Ok(Some(Arc::new(passes)))
    }

    /// The positions of a round, in which each source has exactly its share: of the first phase, if
    /// there are several.
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
        self.phases.list()[0].rounds.round.len()
    }

    /// The share that each source is to have in the first phase, as a fraction of 1.
    pub fn shares(&self) -> Vec<f64> {
        let round = &self.phases.list()[0].rounds.round;
        let share = |source| round.quota(source) as f64 / round.len() as f64;
        (0..self.sources.len()).map(share).collect()
    }

    /// A number for the whole schedule: which source comes when, of how many samples, with which
    /// seed. Runs that print the same one mix alike. Orders of a source's own sampler are not in
    /// it.
    pub fn schedule_hash(&self) -> u64 {
        match self.phases.hash_before(u64::MAX) {
            None => self.schedule_hash,
            Some(phases) => stable_hash(&[self.schedule_hash, phases]),
        }
    }

    /// The first position of an epoch, counted from the very first.
    fn start(&self, epoch: u64) -> Result<u64> {
        let end = epoch.checked_add(1).and_then(|n| n.checked_mul(self.len));
        let end = end.ok_or_else(|| too_late(epoch))?;
        match self.phases.end() {
            Some(limit) if limit.position < end => Err(self.ended(epoch, limit)),
            _ => Ok(end - self.len),
        }
    }

    fn ended(&self, epoch: u64, End { position, source }: End) -> Error {
        let what = match source {
            Some(source) => format!("source {source} is"),
            None => "all sources with a quota are".to_owned(),
        };
        let message =
            format!("{what} used up at position {position} of the run, before epoch {epoch} ends");
        Error::new(ErrorKind::Invalid, message).advise(
            "allow it more passes, let its share go to the others, give it a quota of 0 from an \
             earlier position on, or end the run there",
        )
    }

    /// A place of the run, counted from the very first position.
    fn run_position(&self, epoch: u64, position: u64) -> u64 {
        epoch.saturating_mul(self.len).saturating_add(position)
    }

    fn fingerprint_with(&self, phases: Option<u64>) -> Fingerprint {
        phases.map_or(self.fingerprint, |phases| self.fingerprint.with(phases))
    }
}

/// Only what has samples can have a quota.
fn check_quotas(sources: &[Source], quotas: &[u64]) -> Result<()> {
    let mut both = sources.iter().zip(quotas);
    match both.position(|(source, &quota)| quota > 0 && source.sampler.is_empty()) {
        None => Ok(()),
        Some(number) => {
            let quota = quotas[number];
            let message = format!("source {number} has a quota of {quota} but no samples");
            Err(Error::new(ErrorKind::Invalid, message))
        }
    }
}

impl Sampler for Mixture {
    fn len(&self) -> u64 {
        self.len
    }

    fn bound(&self) -> u64 {
        self.sources.iter().map(|source| source.samples).sum()
    }

    fn epochs(&self) -> Option<u64> {
        self.end()?.checked_div(self.len)
    }

    fn fingerprint(&self) -> Fingerprint {
        self.fingerprint_with(self.phases.hash_before(u64::MAX))
    }

    fn fingerprint_before(&self, epoch: u64, position: u64) -> Fingerprint {
        let position = self.run_position(epoch, position);
        self.fingerprint_with(self.phases.hash_before(position))
    }

    fn check_state(&self, state: &State) -> Result<()> {
        let Some(saved) = state.order else { return Ok(()) };
        let found = self.fingerprint_before(state.epoch, state.position).check(&saved);
        let position = self.run_position(state.epoch, state.position);
        let is_same = |phases| self.fingerprint_with(phases).check(&saved).is_ok();
        found.map_err(|error| match self.phases.added(position, is_same) {
            None => error,
            Some(phase) => {
                let why = match phase.used_up {
                    None => String::new(),
                    Some(source) => format!(", where source {source} is used up,"),
                };
                other_order(&format!(
                    "expected no phase from position {}{why} before its position {position} of the run",
                    phase.from
                ))
            }
        })
    }

    fn order(&self, epoch: u64) -> Result<Arc<dyn Order>> {
        let start = self.start(epoch)?;
        let run = start..start + self.len;
        let passes = (0..self.sources.len()).map(|number| self.passes(number, &run));
        let passes = passes.collect::<Result<_>>()?;
        Ok(Arc::new(Mixed { mixture: self.clone(), start, passes }))
    }
}

impl fmt::Debug for Mixture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sizes: Vec<u64> = self.sources.iter().map(|source| source.samples).collect();
        write!(f, "Mixture({sizes:?} samples, shares {:?}", self.shares())?;
        match self.phases.list().len() {
            1 => f.write_str(")"),
            phases => write!(f, " in the first of {phases} phases)"),
        }
    }
}
