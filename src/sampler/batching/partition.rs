//! [`PlannedPartition`]: which planned batch belongs to which rank.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use foldhash::fast::FixedState;

use super::{Planned, PlannedWindow, invalid};
use crate::error::Result;
use crate::sampler::{Sampler, State, Tail};

/// Deals planned batches out to ranks: step `s` has the batches `s × world` to `s × world + world - 1`, one for each
/// rank.
///
/// The last step of an epoch may have fewer batches than ranks. With [`Tail::Pad`] (and [`Tail::Even`]; the default of
/// several ranks) the last batches of the epoch are repeated, so that all ranks have equally many; with
/// [`Tail::Drop`] that step is dropped; with [`Tail::Uneven`] (the default of one) some ranks have a batch less.
///
/// Any step of an epoch is found by planning the windows up to it; a run that goes forward plans each once.
#[derive(Clone)]
pub struct PlannedPartition {
    planned: Planned,
    world: u64,
    tail: Option<Tail>,
    start: State,
    epochs: Arc<Mutex<HashMap<u64, Counted, FixedState>>>,
    hear: Option<Arc<Hear>>,
}

/// Hears how many positions of an epoch were counted, of how many.
type Hear = dyn Fn(u64, u64) -> Result<()> + Send + Sync;

/// The batches of an epoch that are counted.
#[derive(Default)]
struct Counted {
    /// How many there are before the end of each window, from the one that is begun with.
    ends: Vec<u64>,
    /// Those of the first window that are done.
    done: u64,
}

/// A batch of a rank.
#[derive(Clone)]
pub struct PlannedBatch {
    window: PlannedWindow,
    batch: u64,
    is_padding: bool,
}

impl PlannedBatch {
    /// How many samples it has.
    pub fn len(&self) -> u64 {
        self.indices().len() as u64
    }

    /// Whether it has none: no batch is.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Its positions. Those of padding are positions of another batch, too.
    pub fn positions(&self) -> std::ops::Range<u64> {
        self.window.positions(self.batch)
    }

    /// Its samples.
    pub fn indices(&self) -> &[u64] {
        self.window.indices(self.batch)
    }

    /// Its bucket or shape, if there are some.
    pub fn bucket(&self) -> Option<u32> {
        self.window.bucket(self.batch)
    }

    /// How many samples each of its rows has, if samples are packed into rows.
    pub fn rows(&self) -> Vec<u32> {
        self.window.rows(self.batch)
    }

    /// Whether it is repeated, so that all ranks have a batch in the last step.
    pub fn is_padding(&self) -> bool {
        self.is_padding
    }
}

impl Planned {
    /// Deals the batches out to this many ranks.
    ///
    /// # Errors
    ///
    /// [`Invalid`](crate::ErrorKind::Invalid) for 0.
    pub fn partition(&self, world: u64) -> Result<PlannedPartition> {
        if world == 0 {
            return Err(invalid("0 ranks, expected 1 or more".to_owned()));
        }
        let (planned, start) = (self.clone(), State::default());
        let epochs = Arc::default();
        Ok(PlannedPartition { planned, world, tail: None, start, epochs, hear: None })
    }
}

impl PlannedPartition {
    /// How an epoch ends. Default: [`Tail::Uneven`] for one rank, [`Tail::Pad`] for several.
    #[must_use]
    pub fn tail(mut self, tail: Tail) -> PlannedPartition {
        self.tail = Some(tail);
        self
    }

    /// Calls `hear` where batches are counted, which takes long in an epoch of many windows: with the positions of the
    /// epoch that are counted, and how many there are. Its error ends the count.
    #[must_use]
    pub fn hear(
        mut self,
        hear: impl Fn(u64, u64) -> Result<()> + Send + Sync + 'static,
    ) -> PlannedPartition {
        self.hear = Some(Arc::new(hear));
        self
    }

    /// Where to start or resume: steps of that epoch are counted from there.
    ///
    /// # Errors
    ///
    /// [`Invalid`](crate::ErrorKind::Invalid) if no batch begins there, or it is a place in other batches.
    pub fn start(mut self, state: State) -> Result<PlannedPartition> {
        state.check(&self.planned)?;
        if state.position > self.planned.len() {
            let message = format!(
                "start at position {} of an epoch of {}",
                state.position,
                self.planned.len()
            );
            return Err(invalid(message));
        }
        let mut counted = Counted::default();
        let window = self.planned.window_of(state.position);
        if state.position > 0 && state.position < self.planned.len() {
            let found = self.planned.window_at(state.epoch, window)?.batch_at(state.position);
            counted.done = found.ok_or_else(|| {
                let message = format!(
                    "expected a position at which a batch begins, found {}: another batching?",
                    state.position
                );
                invalid(message)
            })?;
        }
        self.start = state;
        self.epochs = Arc::new(Mutex::new(HashMap::from_iter([(state.epoch, counted)])));
        Ok(self)
    }

    /// How an epoch ends.
    fn end(&self) -> Tail {
        self.tail.unwrap_or(if self.world == 1 { Tail::Uneven } else { Tail::Pad })
    }

    fn epochs(&self) -> MutexGuard<'_, HashMap<u64, Counted, FixedState>> {
        self.epochs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where steps of an epoch are counted from.
    fn begin(&self, epoch: u64) -> u64 {
        if epoch == self.start.epoch { self.start.position } else { 0 }
    }

    /// Counts batches of an epoch until there are more than `number`, or all. Returns how many are counted, and the window
    /// and the place in it of the batch with this number.
    fn find(&self, epoch: u64, number: u64) -> Result<(u64, Option<(u64, u64)>)> {
        let first = self.planned.window_of(self.begin(epoch));
        loop {
            let next = {
                let mut epochs = self.epochs();
                let Counted { ends, done } = epochs.entry(epoch).or_default();
                let counted = ends.last().copied().unwrap_or(0);
                if number < counted {
                    let at = ends.partition_point(|end| *end <= number);
                    let (before, done) =
                        at.checked_sub(1).map_or((0, *done), |before| (ends[before], 0));
                    return Ok((counted, Some((first + at as u64, number - before + done))));
                }
                if first + ends.len() as u64 >= self.planned.windows() {
                    return Ok((counted, None));
                }
                ends.len()
            };
            // Not while others wait for what is counted already.
            let batches = self.planned.batches_in(epoch, first + next as u64)?;
            if let Some(hear) = &self.hear {
                hear(self.planned.end_of(first + next as u64), self.planned.len())?;
            }
            let mut epochs = self.epochs();
            let Counted { ends, done } = epochs.entry(epoch).or_default();
            if ends.len() == next {
                let counted = ends.last().copied().unwrap_or(0);
                let own = if next == 0 { batches.saturating_sub(*done) } else { batches };
                ends.push(counted + own);
            }
        }
    }

    /// Plans the window behind the one of a batch, unless another thread does.
    pub(crate) fn look_ahead(&self, epoch: u64, step: u64, rank: u64) {
        if let Ok(Some(((window, _), _))) = self.locate(epoch, step, rank) {
            self.planned.look_ahead(epoch, window.saturating_add(1));
        }
    }

    /// Forgets what was counted of earlier epochs.
    pub(crate) fn forget_before(&self, epoch: u64) {
        self.epochs().retain(|known, _| *known >= epoch || *known == self.start.epoch);
    }

    /// The batch of a rank in a step; `None` after the end of the epoch.
    ///
    /// # Errors
    ///
    /// As [`Planned::window_at`].
    ///
    /// # Panics
    ///
    /// If there is no such rank.
    pub fn batch(&self, epoch: u64, step: u64, rank: u64) -> Result<Option<PlannedBatch>> {
        assert!(rank < self.world, "rank {rank} of {}", self.world);
        let Some(((window, batch), is_padding)) = self.locate(epoch, step, rank)? else {
            return Ok(None);
        };
        let window = self.planned.window_at(epoch, window)?;
        Ok(Some(PlannedBatch { window, batch, is_padding }))
    }

    /// The window and the place in it of a rank's batch, and whether it is padding.
    fn locate(&self, epoch: u64, step: u64, rank: u64) -> Result<Option<((u64, u64), bool)>> {
        let Some(first) = step.checked_mul(self.world) else { return Ok(None) };
        let last = first.saturating_add(self.world - 1);
        if self.end() == Tail::Drop && self.find(epoch, last)?.1.is_none() {
            return Ok(None);
        }
        let number = first.saturating_add(rank);
        Ok(match self.find(epoch, number)? {
            (_, Some(place)) => Some((place, false)),
            (all, None) if first >= all || self.end() == Tail::Uneven => None,
            // The last ones, backwards.
            (all, None) => {
                let last = self.find(epoch, all - 1 - (number - all) % all)?.1;
                last.map(|place| (place, true))
            }
        })
    }

    /// Whether a rank has a batch in a step, without looking at it.
    pub(crate) fn has_batch(&self, epoch: u64, step: u64, rank: u64) -> Result<bool> {
        Ok(self.locate(epoch, step, rank)?.is_some())
    }

    /// Where the run is after a step of all ranks: the beginning of the next epoch after the last.
    ///
    /// # Errors
    ///
    /// As [`batch`](Self::batch).
    pub fn state_after(&self, epoch: u64, step: u64) -> Result<State> {
        let next = step.saturating_add(1);
        match self.batch(epoch, next, 0)? {
            Some(batch) => Ok(State::of(&self.planned, epoch, batch.positions().start)),
            None => Ok(State::of(&self.planned, epoch.saturating_add(1), 0)),
        }
    }

    /// The steps and ranks whose batches have a sample, from the start of the epoch on and without padding. The windows
    /// up to it are planned for that.
    ///
    /// # Errors
    ///
    /// As [`batch`](Self::batch).
    pub fn places_of(&self, epoch: u64, index: u64) -> Result<Vec<(u64, u64)>> {
        let order = self.planned.sampler().order(epoch)?;
        let begin = self.begin(epoch);
        let first = self.planned.window_of(begin);
        let mut windows: Vec<u64> = order
            .positions_of(index, 0..order.len())
            .map(|position| self.planned.window_of(position))
            .filter(|window| *window >= first)
            .collect();
        windows.dedup();
        let mut places = Vec::new();
        for window in windows {
            let found = self.planned.window_at(epoch, window)?;
            let batches = found.batches_of(index);
            for batch in batches.filter(|batch| found.positions(*batch).start >= begin) {
                let before = self.before(epoch, window)?.wrapping_add(batch);
                let (step, rank) = (before / self.world, before % self.world);
                if self.batch(epoch, step, rank)?.is_some() {
                    places.push((step, rank));
                }
            }
        }
        places.sort_unstable();
        places.dedup();
        Ok(places)
    }

    /// How many batches there are before a window, from the start on; less those of it that were done.
    fn before(&self, epoch: u64, window: u64) -> Result<u64> {
        let at = (window - self.planned.window_of(self.begin(epoch))) as usize;
        let mut number = 0;
        loop {
            {
                let epochs = self.epochs();
                let counted = epochs.get(&epoch);
                let known = counted.filter(|counted| counted.ends.len() >= at);
                if let Some(Counted { ends, done }) = known {
                    // In the first window batches are counted from the one that is begun with.
                    return Ok(match at.checked_sub(1) {
                        Some(before) => ends[before],
                        None => 0u64.wrapping_sub(*done),
                    });
                }
            }
            self.find(epoch, number)?;
            number = self.counted(epoch);
        }
    }

    fn counted(&self, epoch: u64) -> u64 {
        let epochs = self.epochs();
        epochs.get(&epoch).and_then(|counted| counted.ends.last().copied()).unwrap_or(0)
    }

    /// The steps of an epoch in which a rank has a batch, from the start. All windows of the epoch are planned for that.
    ///
    /// # Errors
    ///
    /// As [`batch`](Self::batch).
    pub fn steps_of(&self, epoch: u64, rank: u64) -> Result<u64> {
        let (all, _) = self.find(epoch, u64::MAX)?;
        Ok(match self.end() {
            Tail::Drop => all / self.world,
            Tail::Uneven => all.saturating_sub(rank).div_ceil(self.world),
            Tail::Pad | Tail::Even => all.div_ceil(self.world),
        })
    }

    /// How many ranks there are.
    pub fn world(&self) -> u64 {
        self.world
    }

    /// What the batches are of.
    pub fn planned(&self) -> &Planned {
        &self.planned
    }
}
