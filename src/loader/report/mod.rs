//! [`LoaderReport`]: where the time of a loader goes.

mod cores;
mod limit;
mod meter;

use std::fmt;
use std::time::Duration;

use serde_json::{Value, json};

use crate::text::units;

pub use limit::Limit;
pub(super) use meter::{Got, Lane, Look, Meter, Resting, Stage};

/// Where the time of a loader goes, and what its limit is: [`Loader::report`](super::Loader::report).
///
/// Printed, it is a few lines for people; [`to_json`](Self::to_json) is for programs.
///
/// ```
/// # use std::sync::Arc;
/// use kiste::loader::Loader;
/// # use kiste::{reader::ListReader, sampler::Shuffle};
/// # let samples = (0..400).map(|n| std::collections::BTreeMap::from([("key", n.to_string())]));
/// # let reader = Arc::new(ListReader::pack(samples)?);
/// let options = Loader::options(reader, Shuffle::new(400, 7)).batch_size(10).epochs(2);
/// let mut loader = options.map(|record| record.get())?;
/// let mut epoch = loader.report();
/// while let Some(batch) = loader.next() {
///     let batch = batch?;
///     std::thread::sleep(std::time::Duration::from_millis(2)); // a step of training
///     if batch.step == 39 {
///         let report = loader.report();
///         println!("epoch {}: {}", batch.epoch, report.since(&epoch));
///         epoch = report;
///     }
/// }
/// assert_eq!((epoch.batches, epoch.samples), (80, 800));
/// println!("the limit is: {}", epoch.limit().name()); // consumer, on a machine with a core to spare
/// # Ok::<(), kiste::Error>(())
/// ```
///
/// # What counts as what
///
/// The clock starts when the first batch is asked for and stops at the end of the run. Threads start
/// earlier; until then their waiting does not count, but their work does.
///
/// Bytes of a **memory map** come from the disk when they are touched, which is while samples are decoded
/// and not while they are read. Linux counts how long a thread was not on a core and how many page faults
/// waited for a disk, so [`limit`](Self::limit) tells such stalls from decoding. Elsewhere [`cores`](Self::cores)
/// is `None`, and data that is larger than memory counts as slow decoding.
///
/// Reading from a **remote** storage is the time that threads wait for bytes that were fetched ahead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct LoaderReport {
    /// From when the first batch was asked for until now, or the end of the run.
    pub wall: Duration,
    /// Batches that the consumer got, failed ones included.
    pub batches: u64,
    /// Samples in them.
    pub samples: u64,
    /// Samples that were skipped or replaced by a placeholder.
    pub failures: u64,
    /// Bytes of the packed samples in them.
    pub bytes: u64,
    /// The time of the caller.
    pub consumer: ConsumerTime,
    /// The time of all workers together.
    pub workers: WorkerTime,
    /// How long workers were on a core, where the system says.
    pub cores: Option<CoreTime>,
    /// The queue of finished batches.
    pub queue: QueueDepth,
    /// Whether the samples are in a remote storage.
    pub is_remote: bool,
}

/// The time of the caller. The sum is [`wall`](LoaderReport::wall).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConsumerTime {
    /// Waiting for the first batch of the run, which says nothing about all others.
    pub first: Duration,
    /// Waiting for all other batches.
    pub waiting: Duration,
    /// Doing something else.
    pub busy: Duration,
    /// How many batches were not ready when the caller asked for them.
    pub awaited: u64,
}

/// The time of all workers together. Without threads the caller is the worker.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct WorkerTime {
    /// How many there are: [`LoaderOptions::threads`](super::LoaderOptions::threads).
    pub threads: usize,
    /// Fetching the bytes of samples.
    pub reading: Duration,
    /// Decoding samples, into columns or by a closure.
    pub decoding: Duration,
    /// Finding out which samples a batch has, and getting memory for it.
    pub collating: Duration,
    /// Waiting for a place in the queue.
    pub waiting_for_room: Duration,
    /// Waiting because the batches in the queue have
    /// [`queue_bytes`](super::LoaderOptions::queue_bytes).
    pub waiting_for_bytes: Duration,
}

/// How long workers were on a core while they worked, as Linux counts it. A few times a second each worker
/// reads these numbers, so they end a little earlier than all others.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CoreTime {
    /// The time of work that these numbers are about: reading, decoding and collating.
    pub worked: Duration,
    /// On a core.
    pub on_core: Duration,
    /// Ready to run while other threads or programs had the cores.
    pub waiting_for_core: Duration,
    /// Page faults that waited for a disk, such as of a memory map.
    pub page_faults: u64,
}

impl CoreTime {
    /// The time of work on no core and not ready for one: waiting for a disk, a network, a lock, or asleep.
    pub fn blocked(&self) -> Duration {
        self.worked.saturating_sub(self.on_core).saturating_sub(self.waiting_for_core)
    }
}

/// The queue of finished batches.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct QueueDepth {
    /// Batches that may be finished or in progress: [`LoaderOptions::queue`](super::LoaderOptions::queue).
    pub limit: usize,
    /// Batches that are finished now.
    pub ready: usize,
    /// Batches that were finished when a batch was asked for, summed over all batches.
    pub ready_sum: u64,
}

impl WorkerTime {
    fn all(&self) -> Duration {
        self.worked() + self.waiting_for_room + self.waiting_for_bytes
    }

    fn worked(&self) -> Duration {
        self.reading + self.decoding + self.collating
    }
}

/// Asks for the report of a loader while another thread has the loader, such as one that waits for a batch:
/// see [`Loader::reporter`](super::Loader::reporter).
///
/// It stays valid after the loader is gone.
#[derive(Clone)]
pub struct Reporter {
    pub(super) meter: std::sync::Arc<Meter>,
    pub(super) threads: usize,
    pub(super) queue: usize,
    pub(super) is_remote: bool,
}

impl Reporter {
    /// The same as [`Loader::report`](super::Loader::report).
    pub fn report(&self) -> LoaderReport {
        LoaderReport::new(&self.meter, self.threads, self.queue, self.is_remote)
    }
}

impl std::fmt::Debug for Reporter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Reporter({} batches)", self.report().batches)
    }
}

impl LoaderReport {
    fn new(meter: &Meter, threads: usize, queue: usize, is_remote: bool) -> LoaderReport {
        let shown = meter.show();
        let (worker, consumer) =
            (|stage| shown.workers.of(stage), |stage| shown.consumer.of(stage));
        let consumer = ConsumerTime {
            first: consumer(Stage::First),
            waiting: consumer(Stage::Waiting),
            busy: consumer(Stage::Busy),
            awaited: shown.awaited,
        };
        let (worked, threads_of) = shown.cores;
        let cores = (worked > Duration::ZERO).then(|| CoreTime {
            worked,
            on_core: Duration::from_nanos(threads_of.on_core),
            waiting_for_core: Duration::from_nanos(threads_of.for_core),
            page_faults: threads_of.faults,
        });
        LoaderReport {
            wall: consumer.first + consumer.waiting + consumer.busy,
            batches: shown.batches,
            samples: shown.samples,
            failures: shown.failures,
            bytes: shown.bytes,
            consumer,
            workers: WorkerTime {
                threads,
                reading: worker(Stage::Reading),
                decoding: worker(Stage::Decoding),
                collating: worker(Stage::Collating),
                waiting_for_room: worker(Stage::Room),
                waiting_for_bytes: worker(Stage::Bytes),
            },
            cores,
            queue: QueueDepth { limit: queue, ready: shown.ready, ready_sum: shown.ready_sum },
            is_remote,
        }
    }

    /// The difference to an earlier report of the same loader, such as one from the beginning of an epoch.
    /// Batches in the queue were made before they are handed out, so the time of the workers belongs to
    /// slightly later batches.
    #[must_use]
    pub fn since(&self, earlier: &LoaderReport) -> LoaderReport {
        let (consumer, workers) = (&earlier.consumer, &earlier.workers);
        let cores = self.cores.map(|now| {
            let then = earlier.cores.unwrap_or_default();
            CoreTime {
                worked: now.worked.saturating_sub(then.worked),
                on_core: now.on_core.saturating_sub(then.on_core),
                waiting_for_core: now.waiting_for_core.saturating_sub(then.waiting_for_core),
                page_faults: now.page_faults.saturating_sub(then.page_faults),
            }
        });
        LoaderReport {
            wall: self.wall.saturating_sub(earlier.wall),
            batches: self.batches.saturating_sub(earlier.batches),
            samples: self.samples.saturating_sub(earlier.samples),
            failures: self.failures.saturating_sub(earlier.failures),
            bytes: self.bytes.saturating_sub(earlier.bytes),
            consumer: ConsumerTime {
                first: self.consumer.first.saturating_sub(consumer.first),
                waiting: self.consumer.waiting.saturating_sub(consumer.waiting),
                busy: self.consumer.busy.saturating_sub(consumer.busy),
                awaited: self.consumer.awaited.saturating_sub(consumer.awaited),
            },
            workers: WorkerTime {
                threads: self.workers.threads,
                reading: self.workers.reading.saturating_sub(workers.reading),
                decoding: self.workers.decoding.saturating_sub(workers.decoding),
                collating: self.workers.collating.saturating_sub(workers.collating),
                waiting_for_room: self
                    .workers
                    .waiting_for_room
                    .saturating_sub(workers.waiting_for_room),
                waiting_for_bytes: self
                    .workers
                    .waiting_for_bytes
                    .saturating_sub(workers.waiting_for_bytes),
            },
            cores: cores.filter(|cores| cores.worked > Duration::ZERO),
            queue: QueueDepth {
                ready_sum: self.queue.ready_sum.saturating_sub(earlier.queue.ready_sum),
                ..self.queue
            },
            is_remote: self.is_remote,
        }
    }

    /// The part of its time that the caller waited, from 0 to 1, without the first batch of the run.
    pub fn waiting(&self) -> f64 {
        share(self.consumer.waiting, self.consumer.waiting + self.consumer.busy)
    }

    /// How many batches were finished when one was asked for, on average.
    pub fn mean_ready(&self) -> f64 {
        self.queue.ready_sum as f64 / self.batches.max(1) as f64
    }

    /// All of it, with durations in seconds, and what [`limit`](Self::limit) and [`advice`](Self::advice) say.
    pub fn to_json(&self) -> Value {
        let LoaderReport { consumer, workers, queue, .. } = self;
        let cores = self.cores.as_ref().map(|cores| {
            json!({
                "worked": cores.worked.as_secs_f64(),
                "on_core": cores.on_core.as_secs_f64(),
                "waiting_for_core": cores.waiting_for_core.as_secs_f64(),
                "page_faults": cores.page_faults,
            })
        });
        json!({
            "seconds": self.wall.as_secs_f64(),
            "batches": self.batches,
            "samples": self.samples,
            "failures": self.failures,
            "bytes": self.bytes,
            "consumer": {
                "first": consumer.first.as_secs_f64(),
                "waiting": consumer.waiting.as_secs_f64(),
                "busy": consumer.busy.as_secs_f64(),
                "awaited": consumer.awaited,
            },
            "workers": {
                "threads": workers.threads,
                "reading": workers.reading.as_secs_f64(),
                "decoding": workers.decoding.as_secs_f64(),
                "collating": workers.collating.as_secs_f64(),
                "waiting_for_room": workers.waiting_for_room.as_secs_f64(),
                "waiting_for_bytes": workers.waiting_for_bytes.as_secs_f64(),
            },
            "cores": cores,
            "queue": { "limit": queue.limit, "ready": queue.ready, "mean": self.mean_ready() },
            "remote": self.is_remote,
            "limit": self.limit().name(),
            "advice": self.advice(),
        })
    }
}

impl fmt::Display for LoaderReport {
    /// A few lines. The last is [`advice`](LoaderReport::advice).
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let LoaderReport { wall, consumer, workers, queue, .. } = self;
        write!(
            f,
            "{} in {}, {} in {}: {}, {}",
            units::counted(self.samples, "sample"),
            limit::batches(self.batches),
            units::bytes(self.bytes),
            units::duration(*wall),
            units::sample_rate(self.samples, *wall),
            units::byte_rate(self.bytes, *wall),
        )?;
        if self.failures > 0 {
            write!(f, "; {} could not be read", units::counted(self.failures, "sample"))?;
        }
        let both = consumer.waiting + consumer.busy;
        write!(
            f,
            "\nconsumer  waits {}, busy {}; the first batch took {}",
            percent(share(consumer.waiting, both)),
            percent(share(consumer.busy, both)),
            units::duration(consumer.first),
        )?;
        let all = workers.all();
        let part = |time: Duration| percent(share(time, all));
        let who = match workers.threads {
            0 => "no thread".to_owned(),
            threads => units::counted(threads as u64, "thread"),
        };
        write!(
            f,
            "\n{who:<9} read {}, decode {}, collate {}, wait for room {}",
            part(workers.reading),
            part(workers.decoding),
            part(workers.collating),
            part(workers.waiting_for_room + workers.waiting_for_bytes),
        )?;
        if let Some(cores) = &self.cores {
            let part = |time: Duration| percent(share(time, cores.worked));
            write!(
                f,
                "\ncores     {} of that work on a core, {} waiting for one, {} for something else; {}",
                part(cores.on_core),
                part(cores.waiting_for_core),
                part(cores.blocked()),
                units::counted(cores.page_faults, "page fault"),
            )?;
        }
        if workers.threads > 0 {
            let mean = self.mean_ready();
            write!(f, "\nqueue     {mean:.1} of {} batches ready on average", queue.limit)?;
        }
        write!(f, "\nlimit     {}", self.advice())
    }
}

/// A part of a time, from 0 to 1.
fn share(part: Duration, all: Duration) -> f64 {
    let all = all.as_secs_f64();
    if all > 0.0 { (part.as_secs_f64() / all).min(1.0) } else { 0.0 }
}

/// `71 %`
fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}
