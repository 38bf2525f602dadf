//! Which samples of a remote reader are fetched together: the samples of several batches, and the
//! ones between them that are needed soon.
//!
//! A request costs as long as a megabyte. A shuffle in blocks takes the samples of a window in any order, so
//! a group of batches that ends within a window takes half of the samples of its blocks, here and there:
//! each would be a request. The other half is needed next, so whole runs are fetched. Nothing is fetched
//! that is not needed.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};

use foldhash::fast::FixedState;

use crate::storage::read_ahead::{Ahead, LISTEN};

/// Bytes of the samples of a group, which are planned together, and its most batches.
const BYTES: u64 = 64 << 20;
const MOST: u64 = 256;
/// Bytes of the samples of a step: the part of a group that a batch waits for.
const STEP: u64 = 16 << 20;
/// Bytes that are on their way or were not read yet when no further step is begun.
const WINDOW: u64 = 256 << 20;
/// The groups behind one whose samples are needed soon.
const SOON: u64 = 4;
/// Bytes at either end of a run that are fetched although only later groups need them.
const EDGE: u64 = 4 << 20;
/// Samples that tell how large samples are.
pub(super) const PROBES: usize = 16;

/// Batches whose samples are fetched together.
#[derive(Default)]
pub(super) struct Groups {
    scale: OnceLock<Scale>,
    plans: Mutex<Plans>,
    progress: Mutex<Progress>,
    moved: Condvar,
}

/// The samples to fetch with each step. Groups are planned in their order.
#[derive(Default)]
struct Plans {
    /// The next group.
    next: u64,
    /// Planned, and not asked for yet.
    steps: BTreeMap<u64, Step>,
    /// Samples that an earlier group takes along.
    taken: HashSet<usize, FixedState>,
}

/// The samples to fetch with a step.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Step {
    pub(super) samples: Vec<usize>,
    /// How many samples its batches are the first to need.
    pub(super) needed: u64,
}

/// How far fetching and loading have come.
#[derive(Default)]
struct Progress {
    /// Steps that were begun.
    begun: u64,
    /// Begun steps that may not be complete.
    on_their_way: VecDeque<(u64, Arc<Ahead>)>,
    /// There are no more, or none that can be planned.
    ended: bool,
    /// The step of the batch that was taken last.
    reached: u64,
    /// How many samples each step since then is the first to need.
    needed: BTreeMap<u64, u64>,
    /// Samples that were fetched, less those that the steps before were the first to need.
    ahead: u64,
}

impl Plans {
    /// Adds the next group. `now` are the samples of each of its steps.
    fn add(&mut self, scale: Scale, now: &[Vec<usize>], soon: &[usize]) {
        let mut first: HashMap<usize, usize, FixedState> = HashMap::default();
        let mut steps = vec![Step::default(); now.len()];
        for (step, samples) in now.iter().enumerate() {
            for &sample in samples {
                first.entry(sample).or_insert_with(|| {
                    steps[step].needed += 1;
                    step
                });
            }
        }
        let missing: Vec<usize> =
            first.keys().copied().filter(|sample| !self.taken.remove(sample)).collect();
        let free: Vec<usize> =
            soon.iter().copied().filter(|sample| !self.taken.contains(sample)).collect();
        let list = scale.fetched(&missing, &free);
        self.taken.extend(list.iter().filter(|sample| !first.contains_key(sample)));
        // Samples of one request come with the first step that needs one of them.
        let mut last = 0;
        for run in list.chunk_by(|one, next| one + 1 == *next) {
            let (edge, len) = (scale.edge.max(1), run.len());
            // No small rest, which would be a request of its own.
            let parts = (len / edge + usize::from(len % edge > edge / 2)).max(1);
            for part in run.chunks(len.div_ceil(parts)) {
                last = part
                    .iter()
                    .filter_map(|sample| first.get(sample))
                    .min()
                    .copied()
                    .unwrap_or(last);
                if let Some(step) = steps.get_mut(last) {
                    step.samples.extend_from_slice(part);
                }
            }
        }
        let number = self.next * scale.steps;
        self.steps.extend((number..).zip(steps));
        self.next += 1;
    }
}

/// How many batches make a step, and how many steps a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Scale {
    batches: u64,
    steps: u64,
    /// Samples.
    edge: usize,
    /// Bytes of a sample, about.
    bytes: u64,
}

impl Scale {
    /// For batches of this many samples of about this many bytes.
    pub(super) fn of(samples: u64, bytes: u64) -> Scale {
        let bytes = bytes.max(1);
        let batch = bytes.saturating_mul(samples.max(1));
        let batches = (STEP / batch).clamp(1, MOST);
        let steps = (BYTES / batch.saturating_mul(batches)).clamp(1, MOST / batches);
        let edge = usize::try_from(EDGE / bytes).unwrap_or(usize::MAX);
        Scale { batches, steps, edge, bytes }
    }

    /// The step that a batch is of.
    pub(super) fn step(&self, batch: u64) -> u64 {
        batch / self.batches
    }

    /// The batches of a step.
    pub(super) fn batches(&self, step: u64) -> Range<u64> {
        step * self.batches..(step + 1) * self.batches
    }

    /// The batches that come soon after a group.
    fn soon(&self, group: u64) -> Range<u64> {
        let end = (group + 1) * self.steps * self.batches;
        end..end + SOON * self.steps * self.batches
    }

    /// The samples to fetch with these if the ones in `soon` are needed next.
    fn fetched(&self, samples: &[usize], soon: &[usize]) -> Vec<usize> {
        with_neighbours(samples, soon, self.edge)
    }
}

impl Groups {
    pub(super) fn scale(&self, make: impl FnOnce() -> Scale) -> Scale {
        *self.scale.get_or_init(make)
    }

    /// The fetch of a step, to be called once. `samples` belong to some batches: of the group
    /// itself, or of the next ones.
    pub(super) fn plan(
        &self,
        scale: Scale,
        step: u64,
        samples: impl Fn(Range<u64>, bool) -> Vec<usize>,
    ) -> Step {
        let mut plans = self.plans.lock().unwrap_or_else(PoisonError::into_inner);
        while plans.next * scale.steps <= step {
            let first = plans.next * scale.steps;
            let steps = first..first + scale.steps;
            let now: Vec<_> = steps.map(|step| samples(scale.batches(step), false)).collect();
            let soon = samples(scale.soon(plans.next), true);
            plans.add(scale, &now, &soon);
        }
        plans.steps.remove(&step).unwrap_or_default()
    }

    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many steps were begun.
    pub(super) fn begun(&self) -> u64 {
        self.progress().begun
    }

    /// Waits until the next step may begin: its batches are being made, or there is room for its samples.
    /// `false` if it was stopped before.
    pub(super) fn wait_for_room(&self, scale: Scale, stop: &AtomicBool) -> bool {
        let mut progress = self.progress();
        loop {
            if stop.load(Relaxed) {
                return false;
            }
            let ahead = progress.ahead.saturating_mul(scale.bytes);
            if progress.begun <= progress.reached || ahead < WINDOW {
                return true;
            }
            progress = self.wait(progress);
        }
    }

    /// A step is on its way.
    pub(super) fn add(&self, step: &Step, ahead: Arc<Ahead>) {
        let mut progress = self.progress();
        let number = progress.begun;
        progress.begun += 1;
        progress.ahead += step.samples.len() as u64;
        progress.needed.insert(number, step.needed);
        // A loader without threads waits for none of them, so they are dropped here.
        progress.on_their_way.retain(|(_, ahead)| !ahead.is_complete());
        if !ahead.is_complete() {
            progress.on_their_way.push_back((number, ahead));
        }
        drop(progress);
        self.moved.notify_all();
    }

    /// No other step will begin.
    pub(super) fn end(&self) {
        self.progress().ended = true;
        self.moved.notify_all();
    }

    /// A batch of this step is being made: those before need no samples any more.
    pub(super) fn reach(&self, step: u64) {
        let mut progress = self.progress();
        if progress.reached >= step {
            return;
        }
        progress.reached = step;
        let rest = progress.needed.split_off(&step);
        let passed = std::mem::replace(&mut progress.needed, rest);
        progress.ahead = progress.ahead.saturating_sub(passed.values().sum());
        drop(progress);
        self.moved.notify_all();
    }

    /// Waits until the samples of this batch have come or failed.
    pub(super) fn wait_for_batch(&self, batch: u64, stop: &AtomicBool) {
        let mut progress = self.progress();
        let scale = loop {
            if let Some(scale) = self.scale.get() {
                break scale;
            }
            if progress.ended || stop.load(Relaxed) {
                return;
            }
            progress = self.wait(progress);
        };
        drop(progress);
        self.reach(scale.step(batch));
        self.wait_for(scale.step(batch), stop);
    }

    /// The same of this step, and those before.
    fn wait_for(&self, step: u64, stop: &AtomicBool) {
        let mut progress = self.progress();
        while progress.begun <= step && !progress.ended {
            if stop.load(Relaxed) {
                return;
            }
            progress = self.wait(progress);
        }
        progress.on_their_way.retain(|(_, ahead)| !ahead.is_complete());
        let before = progress.on_their_way.iter().take_while(|(number, _)| *number <= step);
        let before: Vec<Arc<Ahead>> = before.map(|(_, ahead)| ahead.clone()).collect();
        drop(progress);
        // Some of the samples may come with earlier ones.
        let _ = before.iter().all(|ahead| ahead.wait());
    }

    fn wait<'a>(&self, progress: MutexGuard<'a, Progress>) -> MutexGuard<'a, Progress> {
        let waited = self.moved.wait_timeout(progress, LISTEN);
        waited.unwrap_or_else(PoisonError::into_inner).0
    }
}

/// These samples, and members of `soon` that lie between them or at most `edge` samples beyond,
/// with nothing else between.
fn with_neighbours(samples: &[usize], soon: &[usize], edge: usize) -> Vec<usize> {
    let now = samples.iter().map(|&index| (index, false));
    let mut all: Vec<(usize, bool)> = now.chain(soon.iter().map(|&index| (index, true))).collect();
    all.sort_unstable();
    // If both have a sample, the one that is needed now stays.
    all.dedup_by_key(|(index, _)| *index);
    let mut fetched = Vec::with_capacity(all.len());
    for run in all.chunk_by(|(one, _), (next, _)| one + 1 == *next) {
        let is_now = |(_, is_soon): &(usize, bool)| !is_soon;
        let (first, last) = (run.iter().position(is_now), run.iter().rposition(is_now));
        let (Some(first), Some(last)) = (first, last) else { continue };
        let end = last.saturating_add(edge).saturating_add(1).min(run.len());
        fetched.extend(run[first.saturating_sub(edge)..end].iter().map(|(index, _)| index));
    }
    fetched
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sampler::{BlockShuffle, Sampler};

    #[test]
    fn runs_are_completed_with_what_comes_soon_and_nothing_else() {
        let fetched = with_neighbours(&[10, 12, 30], &[11, 13, 14, 15, 8, 29, 40, 41], 2);
        assert_eq!(fetched, [10, 11, 12, 13, 14, 29, 30]);
        assert_eq!(with_neighbours(&[5, 5, 1], &[], 9), [1, 5]);
        assert!(with_neighbours(&[], &[1, 2], 9).is_empty());
    }

    #[test]
    fn blocks_come_in_runs_wherever_a_group_ends() {
        // Windows of 2048 samples, groups of 3000.
        let order = BlockShuffle::new(40_960, 128, 16, 3).unwrap().order(0).unwrap();
        let order: Vec<usize> = (0..40_960).map(|at| order.index_at(at) as usize).collect();
        // Batches of 1000 samples, and steps of one batch.
        let of = |batches: Range<u64>, _: bool| {
            let at = |batch: u64| (1000 * batch as usize).min(order.len());
            order[at(batches.start)..at(batches.end)].to_vec()
        };
        let groups = Groups::default();
        let scale = Scale { batches: 1, steps: 3, edge: 400, bytes: 1 };
        let mut fetched = vec![0; order.len()];
        let (mut runs, mut needed) = (0, 0);
        let mut there = HashSet::new();
        for number in 0..41 {
            let step = groups.plan(scale, number, of);
            step.samples.iter().for_each(|&index| fetched[index] += 1);
            runs += step.samples.chunk_by(|one, next| one + 1 == *next).count();
            needed += step.needed;
            there.extend(step.samples);
            // All that a batch needs has come with its step, or before.
            assert!(of(number..number + 1, false).iter().all(|index| there.contains(index)));
        }
        assert!(fetched.iter().all(|&times| times == 1));
        assert_eq!(needed, 40_960);
        // There are 320 blocks.
        assert!(runs <= 330, "{runs}");
    }

    #[test]
    fn what_is_ahead_is_bounded() {
        let groups = Groups::default();
        let scale = Scale { batches: 1, steps: 1, edge: 1, bytes: WINDOW / 10 };
        let (stop, step) = (AtomicBool::new(false), Step { samples: vec![0; 4], needed: 4 });
        let begin = || groups.add(&step, Ahead::new(None));
        for _ in 0..3 {
            assert!(groups.wait_for_room(scale, &stop));
            begin();
        }
        std::thread::scope(|scope| {
            let fourth = scope.spawn(|| groups.wait_for_room(scale, &stop));
            groups.reach(0);
            std::thread::sleep(2 * LISTEN);
            assert!(!fourth.is_finished());
            groups.reach(1);
            assert!(fourth.join().unwrap());
        });
        begin();
        stop.store(true, Relaxed);
        assert!(!groups.wait_for_room(scale, &stop));
        groups.wait_for(9, &stop);
    }

    #[test]
    fn steps_that_are_complete_are_forgotten() {
        let (groups, step) = (Groups::default(), Step { samples: vec![0; 4], needed: 4 });
        for number in 0..100 {
            groups.add(&step, Ahead::new(None));
            groups.reach(number);
        }
        let on_its_way = Ahead::new(None);
        let ticket = on_its_way.ticket();
        groups.add(&step, on_its_way);
        groups.add(&step, Ahead::new(None));
        assert_eq!(groups.progress().on_their_way.len(), 1);
        drop(ticket);
        groups.add(&step, Ahead::new(None));
        let progress = groups.progress();
        assert_eq!((progress.on_their_way.len(), progress.needed.len()), (0, 4));
    }

    #[test]
    fn groups_have_their_bytes() {
        let scale = Scale::of(256, 10_000);
        assert_eq!((scale.batches(1), scale.steps, scale.soon(0)), (6..12, 4, 24..24 + 4 * 24));
        assert_eq!((scale.step(5), scale.step(6)), (0, 1));
        let largest = Scale::of(256, u64::MAX);
        assert_eq!((largest.batches, largest.steps, largest.edge), (1, 1, 0));
        assert_eq!(Scale::of(0, 0).batches(0), 0..MOST);
    }
}
