//! Which batches of an epoch belong to rank r of a world, and to worker w of a rank.

use std::iter::successors;
use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::{Fingerprint, Order, Sampler};
use crate::error::{Error, ErrorKind, Result};

/// Where in the training a position is seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct BatchPlace {
    /// The step, counted from 0.
    pub step: u64,
    /// The rank whose batch it is in.
    pub rank: u64,
    /// The worker of the rank that makes the batch.
    pub worker: u64,
    /// The place in the batch.
    pub place: u64,
}

/// Where a training run is: everything needed to resume it.
///
/// The position is *global*: how many positions of the epoch all ranks together have done. So a
/// run can be resumed with another number of ranks, workers or samples per batch.
///
/// The states of a loader also carry a [`Fingerprint`] of its sampler, up to the position. A run that is
/// resumed with another one (more samples, another seed) is an error then, and not one in which some
/// samples come twice and others never. What changes only later positions, such as another phase of a
/// [`Mixture`](super::Mixture), can be changed. Checkpoints of two integers alone can be read as before, and are not compared.
///
/// ```
/// use kiste::sampler::{Shuffle, State};
///
/// let state = State::of(&Shuffle::new(1000, 42), 3, 500);
/// let saved = serde_json::to_string(&state)?;
/// let state: State = serde_json::from_str(&saved)?;
/// let error = state.check(&Shuffle::new(1300, 42)).unwrap_err();
/// assert!(error.to_string().ends_with("expected 1000 positions an epoch, found 1300"));
///
/// let old: State = serde_json::from_str(r#"{"epoch": 3, "position": 500}"#)?;
/// assert_eq!(old, State::new(3, 500));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub struct State {
    /// The epoch, counted from 0.
    pub epoch: u64,
    /// The next position of that epoch.
    pub position: u64,
    /// The order that the position is one of, if that is known.
    #[serde(default)]
    pub order: Option<Fingerprint>,
}

impl State {
    /// A place in any order.
    pub fn new(epoch: u64, position: u64) -> State {
        State { epoch, position, order: None }
    }

    /// A place in the orders of this sampler.
    pub fn of(sampler: &dyn Sampler, epoch: u64, position: u64) -> State {
        State { epoch, position, order: Some(sampler.fingerprint_before(epoch, position)) }
    }

    /// Whether it is a place in the orders of this sampler, where the fingerprints tell. Loaders ask this
    /// when they resume.
    ///
    /// # Errors
    ///
    /// [`Invalid`](ErrorKind::Invalid), saying what differs.
    pub fn check(&self, sampler: &dyn Sampler) -> Result<()> {
        sampler.check_state(self)
    }
}

/// How an epoch ends if its samples do not fill the last step of all ranks.
///
/// | | batches | ranks | samples | for |
/// | --- | --- | --- | --- | --- |
/// | `Pad` | full | in step | a few twice | training; **the default of several ranks** |
/// | `Even` | the last one short, in all ranks alike | in step | fewer than ranks twice | training, and evaluation that leaves the padding out |
/// | `Drop` | full | in step | a few not in this epoch | training with batches of one size and no sample twice |
/// | `Uneven` | the last one short | one batch more or less | each once | evaluation; **the default of one rank** |
///
/// Ranks that reduce gradients wait for each other in each step. Under `Uneven` some end an epoch a
/// step before the others: if they continue with the next epoch, steps of two epochs meet; if they
/// stop, the others wait forever.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Tail {
    /// Positions from the beginning of the epoch fill it up: all batches are full, all ranks have
    /// equally many, a few samples are seen twice ([`Partition::padded`]).
    Pad,
    /// The remaining samples are dealt out evenly: all ranks have equally many batches, and the last ones are as
    /// short as each other. Fewer samples than there are ranks are seen twice ([`Partition::padded`]).
    Even,
    /// The remaining samples are dropped: all batches are full, all ranks have equally many, a few
    /// samples are not seen ([`Partition::dropped`]); others in each epoch, if it is shuffled.
    Drop,
    /// Each sample is seen once: the last batch may be short, and some ranks may have one batch
    /// less.
    Uneven,
}

/// Cuts an epoch into batches and deals them out to ranks and workers.
///
/// From the start position on, each `batch` positions are a batch; each `world` batches are a
/// step: rank `r` has in step `s` the batch number `s × world + r`. In a rank the steps go round
/// its workers: step `s` is made by worker `s % workers`. So the batches of a step, taken over all
/// ranks, are always one contiguous range of positions, and after it the run is at
/// [`state_after`](Partition::state_after) that step, from which a `Partition` with any other
/// world, number of workers or batch size can continue.
///
/// ```
/// use kiste::sampler::{Partition, Tail};
///
/// let plan = Partition::new(100, 8)?.world(2)?.tail(Tail::Uneven);
/// assert_eq!(plan.batch(0, 1).positions(), 8..16);
/// let state = plan.state_after(0, 2); // epoch 0, three steps done
/// assert_eq!(state.position, 48);
///
/// // Continues with three ranks:
/// let plan = Partition::new(100, 8)?.world(3)?.start(state.position)?;
/// assert_eq!(plan.batch(0, 0).positions(), 48..56);
/// # Ok::<(), kiste::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Partition {
    len: u64,
    batch: u64,
    world: u64,
    workers: u64,
    start: u64,
    /// As asked for; [`Partition::end`] is what holds.
    tail: Option<Tail>,
}

impl Partition {
    /// Batches of `batch` positions of an epoch of `len`, for one rank with one worker.
    ///
    /// # Errors
    ///
    /// [`Invalid`](ErrorKind::Invalid) if a batch has no positions.
    pub fn new(len: u64, batch: u64) -> Result<Partition> {
        let batch = positive(batch, "samples a batch")?;
        Ok(Partition { len, batch, world: 1, workers: 1, start: 0, tail: None })
    }

    /// The number of ranks. Default: 1.
    ///
    /// # Errors
    ///
    /// [`Invalid`](ErrorKind::Invalid) if it is 0.
    pub fn world(mut self, ranks: u64) -> Result<Partition> {
        self.world = positive(ranks, "ranks")?;
        Ok(self)
    }

    /// The number of workers of each rank. Default: 1.
    ///
    /// # Errors
    ///
    /// [`Invalid`](ErrorKind::Invalid) if it is 0.
    pub fn workers(mut self, workers: u64) -> Result<Partition> {
        self.workers = positive(workers, "workers")?;
        Ok(self)
    }

    /// Where to start or resume, in positions. Default: 0.
    ///
    /// # Errors
    ///
    /// [`Invalid`](ErrorKind::Invalid) if the epoch ends before.
    pub fn start(mut self, position: u64) -> Result<Partition> {
        if position > self.len {
            let message = format!("start at position {position} of an epoch of {}", self.len);
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        self.start = position;
        Ok(self)
    }

    /// How an epoch ends. Default: [`Tail::Uneven`] for one rank, [`Tail::Pad`] for several.
    #[must_use]
    pub fn tail(mut self, tail: Tail) -> Partition {
        self.tail = Some(tail);
        self
    }

    /// Steps from the start to the end of the epoch: of the rank with the most, that is rank 0.
    pub fn steps(&self) -> u64 {
        let left = u128::from(self.len - self.start);
        let steps = match self.end() {
            Tail::Drop => left / self.step(),
            Tail::Pad | Tail::Even | Tail::Uneven => left.div_ceil(self.step()),
        };
        steps as u64
    }

    /// Steps from the start to the one that reaches a position, or to the end of the epoch.
    pub(crate) fn steps_to(&self, position: u64) -> u64 {
        let left = u128::from(position.saturating_sub(self.start));
        self.steps().min(u64::try_from(left.div_ceil(self.step())).unwrap_or(u64::MAX))
    }

    /// Steps in which this rank has a batch: [`steps`](Partition::steps), or one less
    /// under [`Tail::Uneven`].
    pub fn steps_of(&self, rank: u64) -> u64 {
        let steps = self.steps();
        match steps.checked_sub(1) {
            Some(last) if self.batch(last, rank).is_empty() => last,
            _ => steps,
        }
    }

    /// The batch of a rank in a step; empty after the end of the epoch.
    ///
    /// # Panics
    ///
    /// If there is no such rank.
    pub fn batch(&self, step: u64, rank: u64) -> BatchPositions {
        assert!(rank < self.world, "rank {rank} of {}", self.world);
        if step >= self.steps() {
            return BatchPositions { start: self.len, end: self.len, padding: 0, len: self.len };
        }
        let size = self.size_in(step);
        let before = u128::from(step) * self.step() + u128::from(rank) * u128::from(size);
        let start = u128::from(self.start) + before;
        let end = start + u128::from(size);
        let len = u128::from(self.len);
        let real = start.min(len) as u64..end.min(len) as u64;
        let padding = match self.end() {
            Tail::Pad | Tail::Even => size - (real.end - real.start),
            Tail::Drop | Tail::Uneven => 0,
        };
        // Padding goes round: a batch that is nothing else starts where the one before it ended.
        let start = if real.is_empty() && padding > 0 { (start % len) as u64 } else { real.start };
        BatchPositions { start, end: start + (real.end - real.start), padding, len: self.len }
    }

    /// The step and the rank whose batch a position is in; `None` if it is in no batch, because it
    /// is before the start or was dropped at the end. Positions that fill up the end are seen
    /// again there.
    pub fn place_of(&self, position: u64) -> Option<(u64, u64)> {
        let seen = self.seen_at(position)?;
        Some((seen.step, seen.rank))
    }

    /// Where in the training a position is seen; `None` as for [`place_of`](Self::place_of).
    ///
    /// ```
    /// use kiste::sampler::Partition;
    ///
    /// let plan = Partition::new(100, 8)?.world(2)?;
    /// let place = plan.seen_at(29).unwrap();
    /// assert_eq!((place.step, place.rank, place.place), (1, 1, 5));
    /// # Ok::<(), kiste::Error>(())
    /// ```
    pub fn seen_at(&self, position: u64) -> Option<BatchPlace> {
        let done = u128::from(position.checked_sub(self.start)?);
        let step = (done / self.step()) as u64;
        if position >= self.len || step >= self.steps() {
            return None;
        }
        Some(self.place(u128::from(position)))
    }

    /// Every place at which a position is seen: first [`seen_at`](Self::seen_at), then as padding at the end of
    /// the epoch. Positions before the start can be padding, too.
    ///
    /// ```
    /// use kiste::sampler::Partition;
    ///
    /// let plan = Partition::new(100, 8)?.world(2)?; // 12 positions pad the last step
    /// let steps = |position| plan.all_seen_at(position).map(|place| place.step).collect::<Vec<_>>();
    /// assert_eq!((steps(3), steps(12)), (vec![0, 6], vec![0]));
    /// # Ok::<(), kiste::Error>(())
    /// ```
    pub fn all_seen_at(&self, position: u64) -> impl Iterator<Item = BatchPlace> + use<'_> {
        // Padding continues behind the end, where position `p` is also `p + len`, and so on.
        let len = u128::from(self.len);
        let first = (position < self.len).then(|| len + u128::from(position));
        let end = len + self.padding();
        let padded = successors(first, move |number| number.checked_add(len));
        let padded = padded.take_while(move |&number| number < end);
        self.seen_at(position).into_iter().chain(padded.map(|number| self.place(number)))
    }

    /// The place of a position of all batches, which is behind the end if it is padding.
    fn place(&self, number: u128) -> BatchPlace {
        let done = number - u128::from(self.start);
        let (step, within) = ((done / self.step()) as u64, done % self.step());
        let size = u128::from(self.size_in(step));
        let (rank, place) = ((within / size) as u64, (within % size) as u64);
        BatchPlace { step, rank, worker: self.worker_of(step), place }
    }

    /// The worker of a rank that makes the batch of a step.
    pub fn worker_of(&self, step: u64) -> u64 {
        step % self.workers
    }

    /// The steps and batches of a worker of a rank.
    ///
    /// # Panics
    ///
    /// If there is no such rank or worker.
    pub fn share(
        &self,
        rank: u64,
        worker: u64,
    ) -> impl Iterator<Item = (u64, BatchPositions)> + '_ {
        assert!(worker < self.workers, "worker {worker} of {}", self.workers);
        let stride = usize::try_from(self.workers).unwrap_or(usize::MAX);
        (worker..self.steps_of(rank))
            .step_by(stride)
            .map(move |step| (step, self.batch(step, rank)))
    }

    /// Where the run is after a step of all ranks: the beginning of the next epoch after the last.
    pub fn state_after(&self, epoch: u64, step: u64) -> State {
        let done = (u128::from(step) + 1) * self.step() + u128::from(self.start);
        if step.saturating_add(1) >= self.steps() {
            State::new(epoch.saturating_add(1), 0)
        } else {
            State::new(epoch, done as u64)
        }
    }

    /// How many positions are repeated to fill up the last step.
    pub fn padded(&self) -> u64 {
        self.padding() as u64
    }

    fn padding(&self) -> u128 {
        let left = u128::from(self.len - self.start);
        match self.end() {
            Tail::Pad => u128::from(self.steps()) * self.step() - left,
            Tail::Even => match left % self.step() {
                0 => 0,
                last => last.next_multiple_of(u128::from(self.world)) - last,
            },
            Tail::Drop | Tail::Uneven => 0,
        }
    }

    /// How many positions at the end are in no batch.
    pub fn dropped(&self) -> u64 {
        match self.end() {
            Tail::Drop => (u128::from(self.len - self.start) % self.step()) as u64,
            Tail::Pad | Tail::Even | Tail::Uneven => 0,
        }
    }

    /// How an epoch ends.
    fn end(&self) -> Tail {
        self.tail.unwrap_or(if self.world == 1 { Tail::Uneven } else { Tail::Pad })
    }

    /// Positions of a batch in a step, padding included.
    fn size_in(&self, step: u64) -> u64 {
        let left = u128::from(self.len - self.start) - u128::from(step) * self.step();
        match self.end() {
            Tail::Even if left < self.step() => left.div_ceil(u128::from(self.world)) as u64,
            _ => self.batch,
        }
    }

    /// Positions in a step of all ranks.
    fn step(&self) -> u128 {
        u128::from(self.world) * u128::from(self.batch)
    }
}

fn positive(number: u64, what: &str) -> Result<u64> {
    if number == 0 {
        return Err(Error::new(ErrorKind::Invalid, format!("0 {what}, expected 1 or more")));
    }
    Ok(number)
}

/// The positions of one batch: a range, and after it what pads it from the epoch's beginning.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BatchPositions {
    start: u64,
    end: u64,
    padding: u64,
    /// The length of the epoch.
    len: u64,
}

impl BatchPositions {
    /// These positions of an epoch, all of which may be padding.
    pub(crate) fn of(positions: Range<u64>, is_padding: bool, len: u64) -> BatchPositions {
        let Range { start, end } = positions;
        match is_padding {
            true => BatchPositions { start, end: start, padding: end - start, len },
            false => BatchPositions { start, end, padding: 0, len },
        }
    }

    /// Positions, padding included.
    pub fn len(&self) -> u64 {
        self.end - self.start + self.padding
    }

    /// Whether there are none: this rank has nothing to do in this step.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The positions that no other batch has.
    pub fn positions(&self) -> Range<u64> {
        self.start..self.end
    }

    /// How many of the positions, the last ones, are also in another batch.
    pub fn padding(&self) -> u64 {
        self.padding
    }

    /// All positions, padding included, in order.
    pub fn iter(&self) -> impl Iterator<Item = u64> + use<> {
        let (len, end) = (self.len, self.end);
        let first = if end == len { 0 } else { end };
        let padding = (0..self.padding)
            .map(move |i| ((u128::from(first) + u128::from(i)) % u128::from(len)) as u64);
        (self.start..end).chain(padding)
    }

    /// The indices of the samples, padding included.
    pub fn indices(&self, order: &dyn Order) -> Vec<u64> {
        let mut indices = Vec::new();
        self.fill(order, &mut indices);
        indices
    }

    /// Appends the indices of the samples, padding included.
    pub fn fill(&self, order: &dyn Order, out: &mut Vec<u64>) {
        order.fill(self.positions(), out);
        out.extend(self.iter().skip((self.end - self.start) as usize).map(|p| order.index_at(p)));
    }
}
