//! Counters of the threads of a loader, updated while they work.
//!
//! Each thread writes to a lane of its own, so that counting needs no lock and no cache line goes from one
//! core to another. A batch costs a few looks at the clock.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use super::cores::{self, OfThread};

/// The activity of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(in crate::loader) enum Stage {
    /// Nothing that counts: before the first batch is asked for, or after the last.
    Idle,
    /// Finding out which samples a batch has, and its memory.
    Collating,
    /// Fetching the bytes of samples.
    Reading,
    Decoding,
    /// Waiting for a place in the queue.
    Room,
    /// Waiting until the batches in the queue have fewer bytes.
    Bytes,
    /// The consumer waits for the first batch of all.
    First,
    /// The consumer waits for another batch.
    Waiting,
    /// The consumer has a batch.
    Busy,
}

use Stage::{Busy, Bytes, Collating, Decoding, First, Idle, Reading, Room, Waiting};

const STAGES: [Stage; 9] = [Idle, Collating, Reading, Decoding, Room, Bytes, First, Waiting, Busy];

/// Bits for a stage.
const BITS: u32 = 4;

/// Between two looks at how long a thread was on a core, which take some microseconds.
const CORES_EVERY: u64 = 100_000_000;

/// The same for the thread of a caller, whose batches are looked at one by one.
const CALLER_EVERY: u64 = CORES_EVERY / 10;

/// The time of one thread, in stages. Only that thread writes.
///
/// A lane has its own cache lines: processors fetch them in pairs.
#[repr(align(128))]
pub(in crate::loader) struct Lane {
    base: Instant,
    /// Nanoseconds in each stage, without the present one.
    ended: [AtomicU64; STAGES.len()],
    /// The present stage, and above it since when, in nanoseconds after `base`.
    now: AtomicU64,
    /// How long the thread was on a core, when it looked last.
    cores: Cores,
}

/// The time in stages of work, and how much of it the thread was on a core.
#[derive(Default)]
struct Cores {
    worked: AtomicU64,
    on_core: AtomicU64,
    for_core: AtomicU64,
    faults: AtomicU64,
}

/// The last time that a thread asked the system how long it was on a core.
#[derive(Default)]
pub(in crate::loader) struct Look {
    /// In nanoseconds after the base of its lane.
    at: u64,
    worked: u64,
    system: OfThread,
}

/// The time in each stage.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Stages([u64; STAGES.len()]);

impl Stages {
    pub(super) fn of(&self, stage: Stage) -> Duration {
        Duration::from_nanos(self.0[stage as usize])
    }

    fn add(&mut self, other: &Stages) {
        self.0.iter_mut().zip(other.0).for_each(|(sum, more)| *sum = sum.saturating_add(more));
    }

    fn work(&self) -> u64 {
        [Collating, Reading, Decoding].iter().map(|&stage| self.0[stage as usize]).sum()
    }
}

/// Adds to a number that only this thread writes.
fn add(number: &AtomicU64, more: u64) {
    number.store(number.load(Relaxed).wrapping_add(more), Relaxed);
}

impl Lane {
    fn new(base: Instant) -> Lane {
        Lane { base, ended: Default::default(), now: AtomicU64::new(0), cores: Cores::default() }
    }

    fn elapsed(&self) -> u64 {
        // More than any process runs.
        u64::try_from(self.base.elapsed().as_nanos()).unwrap_or(u64::MAX) & (u64::MAX >> BITS)
    }

    /// The thread begins with this now.
    pub(in crate::loader) fn enter(&self, stage: Stage) {
        let (was, since) = self.present();
        let at = self.elapsed();
        add(&self.ended[was], at.saturating_sub(since));
        self.now.store((at << BITS) | stage as u64, Relaxed);
    }

    /// The present stage, and since when.
    fn present(&self) -> (usize, u64) {
        let now = self.now.load(Relaxed);
        // Always one of the stages, as nothing else is stored.
        ((now & ((1 << BITS) - 1)) as usize % STAGES.len(), now >> BITS)
    }

    /// Until now.
    fn stages(&self) -> Stages {
        let mut sum = Stages::default();
        // The thread may go to its next stage just now. Then the time of one batch at most would be
        // missing or there twice, so this looks again.
        for _ in 0..8 {
            let before = self.present();
            for (sum, ended) in sum.0.iter_mut().zip(&self.ended) {
                *sum = ended.load(Relaxed);
            }
            let (stage, since) = before;
            let present = self.elapsed().saturating_sub(since);
            sum.0[stage] = sum.0[stage].saturating_add(present);
            if before == self.present() {
                break;
            }
        }
        sum
    }

    /// Notes how long this thread, which the lane is of, was on a core: now and then, or `always`.
    pub(in crate::loader) fn note_cores(&self, last: &mut Look, always: bool) {
        // When the present stage began is recent enough, and needs no look at the clock.
        let (_, at) = self.present();
        if !always && at.saturating_sub(last.at) < CORES_EVERY {
            return;
        }
        last.at = at;
        let Some(system) = cores::of_this_thread() else { return };
        let now = Look { at, worked: self.stages().work(), system };
        let worked = now.worked.saturating_sub(last.worked);
        // The system counts waiting for the queue as well: how long it took to wake up, above all. So no more
        // than the time of work is taken.
        let since = |now: u64, then: u64, most: u64| now.saturating_sub(then).min(most);
        let on_core = since(system.on_core, last.system.on_core, worked);
        let for_core = since(system.for_core, last.system.for_core, worked - on_core);
        add(&self.cores.worked, worked);
        add(&self.cores.on_core, on_core);
        add(&self.cores.for_core, for_core);
        add(&self.cores.faults, system.faults.saturating_sub(last.system.faults));
        *last = now;
    }
}

impl Lane {
    /// Whether what this thread does next is to be noted, with [`note_cores`](Self::note_cores) after it: now and
    /// then, for threads that do other things in between.
    pub(in crate::loader) fn begins_note(&self, last: &mut Look) -> bool {
        let (_, at) = self.present();
        if last.at > 0 && at.saturating_sub(last.at) < CALLER_EVERY {
            return false;
        }
        let Some(system) = cores::of_this_thread() else { return false };
        *last = Look { at: at.max(1), worked: self.stages().work(), system };
        true
    }
}

/// Puts the thread of a lane to rest when it is dropped, also by a panic.
pub(in crate::loader) struct Resting<'a>(pub(in crate::loader) &'a Lane);

impl Drop for Resting<'_> {
    fn drop(&mut self) {
        self.0.enter(Idle);
    }
}

/// The counters of a loader.
pub(in crate::loader) struct Meter {
    workers: Vec<Lane>,
    consumer: Lane,
    /// Totals of the batches that the consumer got. Only the consumer writes.
    got: Counts,
    /// Finished batches in the queue.
    ready: AtomicUsize,
}

/// Totals of the batches that the consumer got.
#[derive(Default)]
struct Counts {
    batches: AtomicU64,
    /// Batches that were not ready when they were asked for.
    awaited: AtomicU64,
    samples: AtomicU64,
    failures: AtomicU64,
    bytes: AtomicU64,
    /// The sum, over all batches, of how many were ready when it was asked for.
    ready: AtomicU64,
}

/// A batch that the consumer gets.
pub(in crate::loader) struct Got {
    pub(in crate::loader) samples: usize,
    pub(in crate::loader) failures: usize,
    /// Bytes of the packed samples.
    pub(in crate::loader) bytes: usize,
}

/// The values that a meter shows.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Shown {
    pub(super) workers: Stages,
    pub(super) consumer: Stages,
    /// Times of the workers, if the system counts them; the first is the time of work that the
    /// others are about.
    pub(super) cores: (Duration, OfThread),
    pub(super) batches: u64,
    pub(super) awaited: u64,
    pub(super) samples: u64,
    pub(super) failures: u64,
    pub(super) bytes: u64,
    pub(super) ready_sum: u64,
    pub(super) ready: usize,
}

impl Meter {
    /// For this many threads; the consumer itself is the one worker of a loader without any.
    pub(in crate::loader) fn new(threads: usize) -> Meter {
        let base = Instant::now();
        Meter {
            workers: (0..threads.max(1)).map(|_| Lane::new(base)).collect(),
            consumer: Lane::new(base),
            got: Counts::default(),
            ready: AtomicUsize::new(0),
        }
    }

    /// The lane of a worker. There is one for each.
    pub(in crate::loader) fn worker(&self, worker: usize) -> &Lane {
        &self.workers[worker % self.workers.len()]
    }

    /// The consumer asks for a batch.
    pub(in crate::loader) fn ask(&self) {
        let is_first = self.got.batches.load(Relaxed) == 0;
        self.consumer.enter(if is_first { First } else { Waiting });
    }

    /// It finds this many in the queue, with or without the one that it wants.
    pub(in crate::loader) fn find(&self, ready: usize, is_there: bool) {
        add(&self.got.ready, ready as u64);
        add(&self.got.awaited, u64::from(!is_there));
    }

    /// It gets a batch, or `None` for an error.
    pub(in crate::loader) fn answer(&self, got: Option<Got>) {
        add(&self.got.batches, 1);
        if let Some(got) = got {
            add(&self.got.samples, got.samples as u64);
            add(&self.got.failures, got.failures as u64);
            add(&self.got.bytes, got.bytes as u64);
        }
        self.consumer.enter(Busy);
    }

    /// There is no other batch.
    pub(in crate::loader) fn end(&self) {
        self.consumer.enter(Idle);
    }

    /// Notes how many finished batches the queue has. The caller has locked it.
    pub(in crate::loader) fn ready(&self, batches: usize) {
        self.ready.store(batches, Relaxed);
    }

    pub(super) fn show(&self) -> Shown {
        let number = |number: &AtomicU64| number.load(Relaxed);
        let mut workers = Stages::default();
        let (mut worked, mut of_threads) = (0, OfThread::default());
        for lane in &self.workers {
            workers.add(&lane.stages());
            worked += number(&lane.cores.worked);
            of_threads.on_core += number(&lane.cores.on_core);
            of_threads.for_core += number(&lane.cores.for_core);
            of_threads.faults += number(&lane.cores.faults);
        }
        Shown {
            workers,
            consumer: self.consumer.stages(),
            cores: (Duration::from_nanos(worked), of_threads),
            batches: number(&self.got.batches),
            awaited: number(&self.got.awaited),
            samples: number(&self.got.samples),
            failures: number(&self.got.failures),
            bytes: number(&self.got.bytes),
            ready_sum: number(&self.got.ready),
            ready: self.ready.load(Relaxed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_a_thread_is_in_its_stages() {
        let meter = Meter::new(1);
        let lane = meter.worker(0);
        let start = Instant::now();
        for stage in STAGES {
            lane.enter(stage);
            assert_eq!(lane.present().0, stage as usize);
            std::thread::sleep(Duration::from_millis(2));
        }
        // The last one has not ended.
        let (stages, most) = (lane.stages(), lane.base.elapsed());
        assert!(STAGES.iter().all(|&stage| stages.of(stage) >= Duration::from_millis(2)));
        let sum: Duration = STAGES.iter().map(|&stage| stages.of(stage)).sum();
        assert!(sum >= start.elapsed() - Duration::from_millis(1) && sum <= most, "{sum:?}");
        assert!(STAGES.len() < 1 << BITS);
    }
}
