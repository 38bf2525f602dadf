//! Which samples of a remote reader are fetched together: those of several batches, and what lies between
//! them and is needed soon.
//!
//! A request costs as long as a megabyte. A shuffle in blocks takes the samples of a window in any order, so
//! a group of batches that ends within a window takes half of the samples of its blocks, here and there:
//! each would be a request. The other half is needed next, so whole runs are fetched. Nothing is fetched
//! that is not needed.

use std::collections::{BTreeMap, HashSet};
use std::ops::Range;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::JoinHandle;

/// Bytes of the samples of a group, about, and its most batches.
const BYTES: u64 = 64 << 20;
const MOST: u64 = 256;
/// How far ahead of those that batches are made of groups are fetched: two, so that one is on its way while
/// the other one begins.
pub(super) const AHEAD: u64 = 2;
/// The groups behind one whose samples are needed soon.
pub(super) const SOON: u64 = 4;
/// Bytes at either end of a run that are fetched although only later groups need them.
const EDGE: u64 = 4 << 20;
/// Samples that tell how large samples are.
pub(super) const PROBES: usize = 16;

/// Batches whose samples are fetched together.
#[derive(Default)]
pub(super) struct Groups {
    scale: OnceLock<Scale>,
    /// Whether each was fetched, or is being.
    fetched: Mutex<BTreeMap<u64, Arc<OnceLock<()>>>>,
    plans: Mutex<Plans>,
    fetchers: Mutex<Vec<JoinHandle<()>>>,
}

/// What is fetched with which group. Groups are planned in their order, however many are on their way.
#[derive(Default)]
struct Plans {
    next: u64,
    /// Planned, and not asked for yet.
    lists: BTreeMap<u64, Vec<usize>>,
    /// Samples that an earlier group takes along.
    taken: HashSet<usize>,
}

impl Plans {
    /// Adds the next group, of these samples.
    fn add(&mut self, scale: Scale, samples: &[usize], soon: &[usize]) {
        let own: HashSet<usize> = samples.iter().copied().collect();
        let needed: Vec<usize> =
            own.iter().copied().filter(|sample| !self.taken.remove(sample)).collect();
        let free: Vec<usize> =
            soon.iter().copied().filter(|sample| !self.taken.contains(sample)).collect();
        let list = scale.fetched(&needed, &free);
        self.taken.extend(list.iter().filter(|sample| !own.contains(sample)));
        self.lists.insert(self.next, list);
        self.next += 1;
    }
}

/// How many make a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Scale {
    batches: u64,
    /// Samples.
    edge: usize,
}

impl Scale {
    /// For batches of this many samples of about this many bytes.
    pub(super) fn of(samples: usize, bytes: u64) -> Scale {
        let bytes = bytes.max(1);
        let batches = BYTES / bytes.saturating_mul(samples.max(1) as u64).max(1);
        let edge = usize::try_from(EDGE / bytes).unwrap_or(usize::MAX);
        Scale { batches: batches.clamp(1, MOST), edge }
    }

    /// The group of a batch.
    pub(super) fn group(&self, batch: u64) -> u64 {
        batch / self.batches
    }

    /// The batches of a group, and those that come soon after.
    pub(super) fn batches(&self, group: u64) -> (Range<u64>, Range<u64>) {
        let end = (group + 1) * self.batches;
        (group * self.batches..end, end..end + SOON * self.batches)
    }

    /// What is fetched with these samples if those come soon.
    pub(super) fn fetched(&self, samples: &[usize], soon: &[usize]) -> Vec<usize> {
        with_neighbours(samples, soon, self.edge)
    }
}

impl Groups {
    pub(super) fn scale(&self, make: impl FnOnce() -> Scale) -> Scale {
        *self.scale.get_or_init(make)
    }

    pub(super) fn known_scale(&self) -> Option<Scale> {
        self.scale.get().copied()
    }

    /// Set once a group was fetched.
    pub(super) fn of(&self, group: u64) -> Arc<OnceLock<()>> {
        let mut fetched = self.fetched.lock().unwrap_or_else(PoisonError::into_inner);
        // No worker is as far behind.
        *fetched = fetched.split_off(&group.saturating_sub(1024));
        fetched.entry(group).or_default().clone()
    }

    /// The same, but `None` if another thread has it.
    pub(super) fn claim(&self, group: u64) -> Option<Arc<OnceLock<()>>> {
        let mut fetched = self.fetched.lock().unwrap_or_else(PoisonError::into_inner);
        match fetched.contains_key(&group) {
            true => None,
            false => Some(fetched.entry(group).or_default().clone()),
        }
    }

    /// What is fetched with a group, which is asked for once. `samples` are those of a group, and those that
    /// come soon after.
    pub(super) fn plan(
        &self,
        scale: Scale,
        group: u64,
        samples: impl Fn(u64) -> (Vec<usize>, Vec<usize>),
    ) -> Vec<usize> {
        let mut plans = self.plans.lock().unwrap_or_else(PoisonError::into_inner);
        while plans.next <= group {
            let (of_group, soon) = samples(plans.next);
            plans.add(scale, &of_group, &soon);
        }
        plans.lists.remove(&group).unwrap_or_default()
    }

    /// A thread that fetches a group.
    pub(super) fn add_fetcher(&self, fetcher: JoinHandle<()>) {
        let mut fetchers = self.fetchers.lock().unwrap_or_else(PoisonError::into_inner);
        fetchers.retain(|fetcher| !fetcher.is_finished());
        fetchers.push(fetcher);
    }

    /// Waits for the threads that fetch groups.
    pub(super) fn join(&self) {
        let mut fetchers = self.fetchers.lock().unwrap_or_else(PoisonError::into_inner);
        for fetcher in fetchers.drain(..) {
            // Panics are caught in there.
            let _ = fetcher.join();
        }
    }
}

/// These samples, and those of `soon` that lie between them or at most `edge` samples beyond, with nothing
/// else between.
fn with_neighbours(samples: &[usize], soon: &[usize], edge: usize) -> Vec<usize> {
    let now = samples.iter().map(|&index| (index, false));
    let mut all: Vec<(usize, bool)> = now.chain(soon.iter().map(|&index| (index, true))).collect();
    all.sort_unstable();
    // Of two, the one that is needed now.
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
        let at = |at: usize| at.min(order.len());
        let of = |group: u64| {
            let start = 3000 * group as usize;
            let now = order[at(start)..at(start + 3000)].to_vec();
            (now, order[at(start + 3000)..at(start + 15_000)].to_vec())
        };
        let groups = Groups::default();
        let scale = Scale { batches: 1, edge: 400 };
        let mut fetched = vec![0; order.len()];
        let mut runs = 0;
        // Asked for in another order than that in which they are needed.
        for group in [0, 2, 1, 5, 3, 4, 6, 7, 8, 9, 10, 11, 12, 13] {
            let list = groups.plan(scale, group, of);
            list.iter().for_each(|&index| fetched[index] += 1);
            runs += list.chunk_by(|one, next| one + 1 == *next).count();
        }
        assert!(fetched.iter().all(|&times| times == 1));
        // There are 320 blocks.
        assert!(runs <= 330, "{runs}");
    }

    #[test]
    fn groups_have_their_bytes() {
        let scale = Scale::of(256, 10_000);
        assert_eq!(scale.batches(1), (26..52, 52..52 + 4 * 26));
        assert_eq!((scale.group(25), scale.group(26)), (0, 1));
        assert_eq!(Scale::of(256, u64::MAX), Scale { batches: 1, edge: 0 });
        assert_eq!(Scale::of(0, 0).batches(0).0, 0..MOST);
    }
}
