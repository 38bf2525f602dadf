//! The bottleneck of a loader, in a word and in a sentence.

use std::thread::available_parallelism;
use std::time::Duration;

use crate::text::units;

use super::{LoaderReport, percent, share};

/// The bottleneck of a loader and the loop that it feeds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Limit {
    /// Too little has been loaded to say.
    Unknown,
    /// The caller: batches are ready when it asks for them.
    Consumer,
    /// The processor: workers decode or collate all the time, or wait for a core.
    Cpu,
    /// The storage: workers wait for bytes.
    Storage,
    /// The queue: workers wait for room in it although the caller waits for batches.
    Queue,
    /// Decoding waits for something that is neither a core nor a page of a file, such as a lock.
    Decoder,
}

impl Limit {
    /// `unknown`, `consumer`, `cpu`, `storage`, `queue` or `decoder`.
    pub fn name(self) -> &'static str {
        match self {
            Limit::Unknown => "unknown",
            Limit::Consumer => "consumer",
            Limit::Cpu => "cpu",
            Limit::Storage => "storage",
            Limit::Queue => "queue",
            Limit::Decoder => "decoder",
        }
    }
}

/// Fewer batches say nothing: the first ones fill the queue.
const FEWEST: u64 = 3;
/// A caller that waits for a smaller part of its time is the limit.
const LITTLE: f64 = 0.1;
/// Workers that wait for room for this part of their time could work if the queue were longer, although
/// the caller waits even more.
const MUCH: f64 = 0.4;
/// With this part of the work on a core, the processor is what works, in decoding and in reading.
const ON_CORE: f64 = 0.8;
/// Work of a shorter time is too little for what the system counts: it does so a few hundred times a second.
const ENOUGH: Duration = Duration::from_millis(50);
/// Page faults for each second that workers are blocked, from which on these are the reason. A disk takes
/// 0.1 to 10 ms for one; a few come from anything.
const FAULTS: f64 = 20.0;

/// Why: the limit, and what a sentence is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Why {
    TooLittle,
    LoaderKeepsUp,
    QueueIsShort,
    BytesAreFew,
    /// Reading waits.
    Reading,
    /// Decoding waits for pages of a map.
    PageFaults,
    /// Decoding waits for something else.
    Blocked,
    /// Ready to run, and others have the cores.
    CoresAreTaken,
    /// Reading is work of the processor: unpacking, checksums, copies.
    ReadingWorks,
    Decoding,
    Collating,
}

impl LoaderReport {
    /// The bottleneck.
    ///
    /// The caller is the limit if it waits for less than a tenth of its time. Otherwise the workers are
    /// looked at: whether they wait for room in the queue, and what they do most.
    pub fn limit(&self) -> Limit {
        match self.why() {
            Why::TooLittle => Limit::Unknown,
            Why::LoaderKeepsUp => Limit::Consumer,
            Why::QueueIsShort | Why::BytesAreFew => Limit::Queue,
            Why::Reading | Why::PageFaults => Limit::Storage,
            Why::Blocked => Limit::Decoder,
            Why::CoresAreTaken | Why::ReadingWorks | Why::Decoding | Why::Collating => Limit::Cpu,
        }
    }

    fn why(&self) -> Why {
        let waits = self.waiting();
        if self.batches < FEWEST {
            return Why::TooLittle;
        }
        if waits < LITTLE {
            return Why::LoaderKeepsUp;
        }
        let workers = &self.workers;
        let room = workers.waiting_for_room + workers.waiting_for_bytes;
        // Were the queue long enough, workers could work while they wait for room now. If they wait for a
        // larger part of their time than the caller, that is all that is missing.
        if share(room, workers.all()) >= waits.min(MUCH) {
            let is_bytes = workers.waiting_for_bytes > workers.waiting_for_room;
            return if is_bytes { Why::BytesAreFew } else { Why::QueueIsShort };
        }
        let most = workers.reading.max(workers.decoding).max(workers.collating);
        let is_reading = most == workers.reading;
        if let Some(cores) = self.cores.filter(|cores| cores.worked >= ENOUGH) {
            let of_work = |time| share(time, cores.worked);
            if of_work(cores.waiting_for_core) > 1.0 / 3.0 {
                return Why::CoresAreTaken;
            }
            if is_reading && of_work(cores.on_core) > ON_CORE {
                return Why::ReadingWorks;
            }
            if !is_reading && of_work(cores.blocked()) > 0.5 {
                let seconds = cores.blocked().as_secs_f64();
                let is_disk = cores.page_faults as f64 >= FAULTS * seconds;
                return if is_disk { Why::PageFaults } else { Why::Blocked };
            }
        }
        match () {
            () if is_reading => Why::Reading,
            () if most == workers.decoding => Why::Decoding,
            () => Why::Collating,
        }
    }

    /// One sentence: the limit, its figures, and a remedy.
    ///
    /// ```text
    /// the consumer waits 71 % of the time and 1.9 of 2 threads decode: decoding is the limit; more
    /// threads would help (this machine has 16 cores)
    /// ```
    pub fn advice(&self) -> String {
        self.advice_for(available_parallelism().map_or(1, usize::from))
    }

    fn advice_for(&self, cores: usize) -> String {
        let (waits, workers) = (percent(self.waiting()), &self.workers);
        let threads = workers.threads;
        let of_threads = |time| {
            let busy = share(time, workers.all()) * threads as f64;
            // `2 of 2` rather than `2.0 of 2`.
            let busy = format!("{busy:.1}").trim_end_matches(".0").to_owned();
            format!("{busy} of {}", units::counted(threads as u64, "thread"))
        };
        let waits_and = |doing: &str, time| match threads {
            0 => format!(
                "the consumer makes its batches itself, for {waits} of the time, and {} of that is to {doing}",
                percent(share(time, workers.all()))
            ),
            _ => format!("the consumer waits {waits} of the time and {} {doing}", of_threads(time)),
        };
        let core_time = self.cores.unwrap_or_default();
        let of_work = |time| percent(share(time, core_time.worked));
        let more_threads = self.more_threads(cores);
        match self.why() {
            Why::TooLittle => {
                format!("{} so far are too few to say", batches(self.batches))
            }
            Why::LoaderKeepsUp => {
                let waits = if threads == 0 { "makes its batches itself for" } else { "waits" };
                let part = percent(self.waiting());
                format!(
                    "the consumer {waits} {part} of the time: the loader keeps up, and only a faster \
                     consumer would help"
                )
            }
            Why::QueueIsShort => {
                let queue = batches(self.queue.limit as u64);
                format!(
                    "{} for room in a queue of {queue}: the queue is the limit; a longer one would help",
                    waits_and("wait", workers.waiting_for_room)
                )
            }
            Why::BytesAreFew => format!(
                "{} for room below the bytes of the queue: they are the limit; more of them, or smaller \
                 batches, would help",
                waits_and("wait", workers.waiting_for_bytes)
            ),
            Why::Reading => {
                let rate = units::byte_rate(self.bytes, self.wall);
                let begin = waits_and("read", workers.reading);
                match self.is_remote {
                    true => format!(
                        "{begin}: the network is the limit, at {rate}; a cache on disk, more \
                         connections, or an order that reads runs of samples would help"
                    ),
                    false => format!(
                        "{begin}: the storage is the limit, at {rate}; prefetching, an order that reads \
                         runs of samples, or more threads would help"
                    ),
                }
            }
            Why::PageFaults => format!(
                "the consumer waits {waits} of the time, and {} of the work waits for pages of a file ({}): \
                 the storage is the limit; prefetching, an order that reads runs of samples, or more memory \
                 would help",
                of_work(core_time.blocked()),
                units::counted(core_time.page_faults, "page fault"),
            ),
            Why::Blocked => format!(
                "{}, but are on no core for {} of that: decoding waits for something else, such as a lock \
                 or another program; more threads would help if it is not a lock",
                waits_and("decode", workers.decoding),
                of_work(core_time.blocked()),
            ),
            Why::CoresAreTaken => format!(
                "the consumer waits {waits} of the time, and {} of the work waits for a core: the processor \
                 is the limit; fewer threads or other programs on this machine would help (it has {})",
                of_work(core_time.waiting_for_core),
                units::counted(cores as u64, "core"),
            ),
            Why::ReadingWorks => format!(
                "{}, on a core for {} of that: the processor is the limit, which copies, checks or unpacks; \
                 {more_threads}",
                waits_and("read", workers.reading),
                of_work(core_time.on_core),
            ),
            Why::Decoding => {
                let begin = waits_and("decode", workers.decoding);
                format!("{begin}: decoding is the limit; {more_threads}")
            }
            Why::Collating => {
                let begin = waits_and("collate", workers.collating);
                format!(
                    "{begin}: making the order or the memory of batches is the limit; {more_threads}"
                )
            }
        }
    }

    fn more_threads(&self, cores: usize) -> String {
        let machine = format!("this machine has {}", units::counted(cores as u64, "core"));
        match self.workers.threads {
            0 => format!("a thread would load while the consumer works ({machine})"),
            threads if threads < cores => format!("more threads would help ({machine})"),
            _ => {
                format!("less work for each sample would help, more threads would not ({machine})")
            }
        }
    }
}

pub(super) fn batches(number: u64) -> String {
    if number == 1 { "1 batch".to_owned() } else { format!("{} batches", units::count(number)) }
}

#[cfg(test)]
mod tests {
    use super::super::{ConsumerTime, CoreTime, QueueDepth, WorkerTime};
    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    /// The report of a second in which the consumer waits this long.
    fn report(waiting: u64, workers: WorkerTime, cores: Option<CoreTime>) -> LoaderReport {
        let consumer = ConsumerTime {
            first: ms(9),
            waiting: ms(waiting),
            busy: ms(1000 - waiting),
            awaited: 50,
        };
        LoaderReport {
            wall: ms(1009),
            batches: 100,
            samples: 6400,
            failures: 0,
            bytes: 10_000_000,
            consumer,
            workers,
            cores,
            queue: QueueDepth { limit: 4, ready: 1, ready_sum: 150 },
            is_remote: false,
        }
    }

    fn two(reading: u64, decoding: u64, collating: u64, room: u64, bytes: u64) -> WorkerTime {
        WorkerTime {
            threads: 2,
            reading: ms(reading),
            decoding: ms(decoding),
            collating: ms(collating),
            waiting_for_room: ms(room),
            waiting_for_bytes: ms(bytes),
        }
    }

    fn cores(on_core: u64, for_core: u64, page_faults: u64) -> Option<CoreTime> {
        let (on_core, waiting_for_core) = (ms(on_core), ms(for_core));
        Some(CoreTime { worked: ms(2000), on_core, waiting_for_core, page_faults })
    }

    #[test]
    fn figures_have_a_limit_and_a_sentence() {
        let decodes = two(100, 1860, 40, 0, 0);
        let cases = [
            (20, decodes, None, Limit::Consumer, "only a faster consumer"),
            (
                710,
                decodes,
                None,
                Limit::Cpu,
                "1.9 of 2 threads decode: decoding is the limit; more",
            ),
            (710, decodes, cores(1900, 50, 0), Limit::Cpu, "this machine has 16 cores"),
            (710, decodes, cores(900, 900, 0), Limit::Cpu, "45 % of the work waits for a core"),
            (710, decodes, cores(200, 50, 900), Limit::Storage, "(900 page faults)"),
            (710, decodes, cores(200, 50, 9), Limit::Decoder, "on no core for 88 % of that"),
            (710, two(1500, 400, 0, 100, 0), None, Limit::Storage, "1.5 of 2 threads read"),
            (710, two(1500, 400, 0, 100, 0), cores(100, 0, 0), Limit::Storage, "at 9.9 MB/s"),
            (710, two(1500, 400, 0, 100, 0), cores(1900, 0, 0), Limit::Cpu, "on a core for 95 %"),
            (710, two(100, 100, 1800, 0, 0), None, Limit::Cpu, "the order or the memory"),
            (300, two(100, 1100, 0, 800, 0), None, Limit::Queue, "in a queue of 4 batches"),
            (900, two(100, 900, 0, 1000, 0), None, Limit::Queue, "1 of 2 threads wait for room"),
            (900, two(100, 900, 0, 0, 1000), None, Limit::Queue, "the bytes of the queue"),
            // They wait a little, and the caller much more.
            (710, two(100, 1500, 0, 400, 0), None, Limit::Cpu, "1.5 of 2 threads decode"),
        ];
        for (waiting, workers, cores, limit, words) in cases {
            let report = report(waiting, workers, cores);
            let advice = report.advice_for(16);
            assert_eq!(report.limit(), limit, "{advice}");
            assert!(advice.contains(words), "{advice}");
            assert!(advice.contains(&format!("{} %", waiting / 10)), "{advice}");
        }
    }

    #[test]
    fn what_would_not_help_is_not_advised() {
        let busy = report(710, two(0, 2000, 0, 0, 0), None);
        assert!(busy.advice_for(2).contains("more threads would not"));
        let mut alone = busy;
        alone.workers.threads = 0;
        let advice = alone.advice_for(16);
        assert!(advice.contains("makes its batches itself, for 71 % of the time"), "{advice}");
        assert!(advice.contains("a thread would load while"), "{advice}");
        let mut remote = report(710, two(1500, 400, 0, 100, 0), None);
        remote.is_remote = true;
        assert!(remote.advice_for(2).contains("a cache on disk"));
        let mut few = busy;
        few.batches = 1;
        assert_eq!((few.limit(), &few.advice_for(2)[..7]), (Limit::Unknown, "1 batch"));
    }

    #[test]
    fn a_report_reads_well() {
        let report = report(710, two(100, 1860, 40, 0, 0), cores(1900, 50, 3));
        let text = report.to_string();
        let (figures, _) = text.rsplit_once('\n').unwrap();
        assert_eq!(
            figures,
            "6,400 samples in 100 batches, 10 MB in 1.01 s: 6.3 k samples/s, 9.9 MB/s\n\
             consumer  waits 71 %, busy 29 %; the first batch took 9.0 ms\n\
             2 threads read 5 %, decode 93 %, collate 2 %, wait for room 0 %\n\
             cores     95 % of that work on a core, 2 % waiting for one, 2 % for something else; 3 page \
             faults\n\
             queue     1.5 of 4 batches ready on average"
        );
        let json = report.to_json();
        assert_eq!((&json["limit"], &json["workers"]["threads"]), (&"cpu".into(), &2.into()));
        assert_eq!(json["consumer"]["waiting"].as_f64(), Some(0.71));
        let later = report.since(&report);
        assert_eq!((later.wall, later.batches, later.cores), (Duration::ZERO, 0, None));
        assert_eq!(later.limit(), Limit::Unknown);
    }
}
