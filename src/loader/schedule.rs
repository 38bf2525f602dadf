//! [`Schedule`]: which batch of a run is which. Pure numbers.

use std::borrow::Cow;
use std::sync::{Arc, Mutex, PoisonError};

use super::LoaderOptions;
use crate::error::Result;
use crate::reader::located;
use crate::sampler::batching::{PlannedBatch, PlannedPartition};
use crate::sampler::{BatchPositions, Order, Partition, Sampler, State};

pub(super) struct Schedule {
    cut: Cut,
    rank: u64,
    start: State,
    /// How many there are, if they end.
    epochs: Option<u64>,
}

/// How epochs are cut into batches.
enum Cut {
    /// Into batches of one size.
    Fixed {
        sampler: Arc<dyn Sampler>,
        /// The epoch that is started or resumed.
        first: Partition,
        /// All others.
        plan: Partition,
        /// Where the last epoch ends, if before its own end: after this many steps.
        end: Option<u64>,
    },
    /// As lengths say.
    Planned {
        partition: PlannedPartition,
        /// The steps of the epochs that are passed, counted from the one that is started or resumed.
        passed: Mutex<Vec<u64>>,
        until: Option<State>,
    },
}

/// A batch of a run.
pub(super) struct Share {
    pub(super) epoch: u64,
    pub(super) step: u64,
    pub(super) positions: BatchPositions,
    planned: Option<PlannedBatch>,
}

impl Share {
    /// Whether its samples are in an order that has to be made.
    pub(super) fn needs_order(&self) -> bool {
        self.planned.is_none()
    }

    /// Appends the samples, by an order if it needs one.
    pub(super) fn fill(&self, order: Option<&dyn Order>, indices: &mut Vec<u64>) {
        match (&self.planned, order) {
            (Some(batch), _) => indices.extend_from_slice(batch.indices()),
            (None, Some(order)) => self.positions.fill(order, indices),
            (None, None) => {}
        }
    }

    /// Its bucket, if batches have some.
    pub(super) fn bucket(&self) -> Option<u32> {
        self.planned.as_ref().and_then(PlannedBatch::bucket)
    }

    /// How many samples each of its packed rows has.
    pub(super) fn rows(&self) -> Cow<'_, [u32]> {
        self.planned.as_ref().map_or(Cow::Borrowed(&[]), |batch| batch.rows().into())
    }
}

impl Schedule {
    pub(super) fn of(options: &LoaderOptions) -> Result<Schedule> {
        let LoaderOptions { sampler, world, rank, start, epochs, until, tail, .. } = options;
        if let Some(planned) = &options.planned {
            let partition = planned.partition(*world)?;
            let partition = match tail {
                Some(tail) => partition.tail(*tail),
                None => partition,
            };
            let named = |error| located(&*options.reader, error);
            let partition = partition.start(*start).map_err(named)?;
            let start = State::of(planned, start.epoch, start.position);
            let cut = Cut::Planned { partition, passed: Mutex::default(), until: *until };
            return Ok(Schedule { cut, rank: *rank, start, epochs: *epochs });
        }
        let mut plan = Partition::new(sampler.len(), options.batch_size)?.world(*world)?;
        if let Some(tail) = tail {
            plan = plan.tail(*tail);
        }
        start.check(&**sampler)?;
        let first = plan.clone().start(start.position)?;
        let start = State::of(&**sampler, start.epoch, start.position);
        let cut = Cut::Fixed { sampler: sampler.clone(), first, plan, end: None };
        let mut schedule = Schedule { cut, rank: *rank, start, epochs: *epochs };
        schedule.end_at(*until);
        Ok(schedule)
    }

    /// Where the run starts.
    pub(super) fn start(&self) -> State {
        self.start
    }

    /// Ends with the step that reaches this place, unless the epochs end before.
    fn end_at(&mut self, until: Option<State>) {
        let (Cut::Fixed { first, plan, end, .. }, Some(until)) = (&mut self.cut, until) else {
            return;
        };
        let Some(whole) = until.epoch.checked_sub(self.start.epoch) else {
            self.epochs = Some(0);
            return;
        };
        let last = if whole == 0 { first } else { plan };
        let steps = last.steps_to(until.position);
        // An epoch that is begun counts.
        let epochs = if steps == 0 { whole } else { whole.saturating_add(1) };
        if self.epochs.is_none_or(|known| epochs <= known) {
            *end = (steps > 0 && steps < last.steps()).then_some(steps);
            self.epochs = Some(epochs);
        }
    }

    /// Where the run is after all epochs, if there are any and they end.
    pub(super) fn end(&self) -> Option<State> {
        let epochs = self.epochs.filter(|&epochs| epochs > 0)?;
        let after = self.start.epoch.saturating_add(epochs);
        Some(match &self.cut {
            Cut::Fixed { sampler, first, plan, end: Some(steps) } => {
                let last = if epochs == 1 { first } else { plan };
                let State { epoch, position, .. } = last.state_after(after - 1, steps - 1);
                State::of(&**sampler, epoch, position)
            }
            Cut::Fixed { sampler, .. } => State::of(&**sampler, after, 0),
            // Its last batch says where it is.
            Cut::Planned { until: Some(_), .. } => return None,
            Cut::Planned { partition, .. } => State::of(partition.planned(), after, 0),
        })
    }

    /// Where the run is after this step of all ranks.
    pub(super) fn state_after(&self, epoch: u64, step: u64) -> Result<State> {
        match &self.cut {
            Cut::Fixed { sampler, first, plan, .. } => {
                let plan = if epoch == self.start.epoch { first } else { plan };
                let State { epoch, position, .. } = plan.state_after(epoch, step);
                Ok(State::of(&**sampler, epoch, position))
            }
            Cut::Planned { partition, .. } => partition.state_after(epoch, step),
        }
    }

    /// Epoch and step of the batch with this number, counted from the start or resume; `None` after the last. A batch
    /// that cannot be planned is there, and fails when it is asked for.
    pub(super) fn at(&self, number: u64) -> Option<(u64, u64)> {
        match &self.cut {
            Cut::Fixed { first, plan, end, .. } => {
                let steps = first.steps_of(self.rank);
                let (passed, step) = if number < steps {
                    (0, number)
                } else {
                    let each = plan.steps_of(self.rank);
                    let after = number - steps;
                    (after.checked_div(each)? + 1, after % each)
                };
                if let Some(epochs) = self.epochs {
                    let is_last = passed.checked_add(1) == Some(epochs);
                    if passed >= epochs || is_last && end.is_some_and(|steps| step >= steps) {
                        return None;
                    }
                }
                Some((self.start.epoch.checked_add(passed)?, step))
            }
            Cut::Planned { partition, passed, until } => {
                let (epoch, step) = self.planned_at(partition, passed, number)?;
                let Some(until) = until else { return Some((epoch, step)) };
                let begin = partition.batch(epoch, step, 0).ok().flatten();
                let position = begin.map_or(0, |batch| batch.positions().start);
                let is_before = (epoch, position) < (until.epoch, until.position);
                is_before.then_some((epoch, step))
            }
        }
    }

    /// The same without the end.
    fn planned_at(
        &self,
        partition: &PlannedPartition,
        passed: &Mutex<Vec<u64>>,
        number: u64,
    ) -> Option<(u64, u64)> {
        let mut step = number;
        for pass in 0.. {
            if self.epochs.is_some_and(|epochs| pass >= epochs) {
                return None;
            }
            let epoch = self.start.epoch.checked_add(pass)?;
            let passed = || passed.lock().unwrap_or_else(PoisonError::into_inner);
            let known = passed().get(pass as usize).copied();
            let steps = match known {
                Some(steps) => steps,
                None => match partition.has_batch(epoch, step, self.rank) {
                    Ok(false) => {
                        // All of its windows are known now.
                        let Ok(steps) = partition.steps_of(epoch, self.rank) else {
                            return Some((epoch, step));
                        };
                        let mut passed = passed();
                        if passed.len() as u64 == pass {
                            passed.push(steps);
                        }
                        steps
                    }
                    Ok(true) | Err(_) => return Some((epoch, step)),
                },
            };
            if step < steps {
                return Some((epoch, step));
            }
            // An epoch without any batch is followed by others like it.
            if steps == 0 && (pass > 0 || self.start.position == 0) {
                return None;
            }
            step -= steps;
        }
        None
    }

    /// The batch with this number.
    pub(super) fn share(&self, number: u64) -> Result<Option<Share>> {
        self.at(number).map_or(Ok(None), |at| self.share_at(at))
    }

    /// The batch of this epoch and step.
    pub(super) fn share_at(&self, (epoch, step): (u64, u64)) -> Result<Option<Share>> {
        match &self.cut {
            Cut::Fixed { first, plan, .. } => {
                let plan = if epoch == self.start.epoch { first } else { plan };
                let positions = plan.batch(step, self.rank);
                Ok(Some(Share { epoch, step, positions, planned: None }))
            }
            Cut::Planned { partition, .. } => {
                let batch = partition.batch(epoch, step, self.rank)?;
                Ok(batch.map(|batch| {
                    let len = partition.planned().len();
                    let positions = BatchPositions::of(batch.positions(), batch.is_padding(), len);
                    Share { epoch, step, positions, planned: Some(batch) }
                }))
            }
        }
    }

    /// Plans what comes after this batch, while other threads make batches.
    pub(super) fn look_ahead(&self, number: u64) {
        if let (Cut::Planned { partition, .. }, Some((epoch, step))) = (&self.cut, self.at(number))
        {
            partition.look_ahead(epoch, step, self.rank);
        }
    }

    /// Forgets what is only needed for epochs before this one.
    pub(super) fn forget_before(&self, epoch: u64) {
        if let Cut::Planned { partition, .. } = &self.cut {
            partition.forget_before(epoch);
        }
    }
}
