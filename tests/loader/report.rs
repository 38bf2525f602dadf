//! Reports of a loader: what was counted, and which limit loads of a known kind have.

use std::borrow::Cow;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread::sleep;
use std::time::{Duration, Instant};

use kiste::Result;
use kiste::loader::{
    ColumnMemory, Columns, Limit, Loader, LoaderOptions, LoaderReport, Memory, OnError, Record,
};
use kiste::reader::Reader;
use kiste::sampler::Sequential;

use super::{Bytes, bin, in_order, map, v};

const MS: Duration = Duration::from_millis(1);

/// Takes all batches, each with a step of training, and reports.
fn run<D: Send>(mut loader: Loader<D>, step: Duration) -> LoaderReport {
    for batch in loader.by_ref() {
        drop(batch.unwrap());
        sleep(step);
    }
    loader.report()
}

/// Loads until this is the limit. A run in which other programs take the cores says nothing about it, and where they
/// do so again and again, there is nothing to compare: how limits follow from figures is tested in `limit.rs`.
#[track_caller]
pub(crate) fn reaches(expected: Limit, mut run: impl FnMut() -> LoaderReport) -> LoaderReport {
    let mut report = run();
    let (mut tries, mut busy) = (1, 0);
    while report.limit() != expected && tries < 50 && busy < 5 {
        busy += usize::from(cores_are_taken());
        report = run();
        tries += 1;
    }
    if busy < 5 {
        assert_eq!(report.limit(), expected, "{report}");
    }
    report
}

/// Fails unless a report with this limit gives this advice; where the cores were taken it may have another limit.
#[track_caller]
pub(crate) fn advises(report: &LoaderReport, limit: Limit, advice: &str) {
    assert!(report.limit() != limit || report.advice().contains(advice), "{report}");
}

/// Whether other programs take the cores, where the system tells: this thread waits for one for a tenth of the time,
/// or while it keeps one busy the others are idle for less than half of it.
fn cores_are_taken() -> bool {
    let (thread, machine) = (times_of_thread(), times_of_machine());
    spin(50 * MS);
    let since = |(a, b): (u64, u64), (x, y): (u64, u64)| (x - a, y - b);
    let waits = thread.zip(times_of_thread()).is_some_and(|(before, now)| {
        let (worked, waited) = since(before, now);
        waited * 10 > worked + waited
    });
    let cores = std::thread::available_parallelism().map_or(1, usize::from) as u64;
    let is_full = machine.zip(times_of_machine()).is_some_and(|(before, now)| {
        let (idle, all) = since(before, now);
        idle * 2 * cores < all * (cores - 1)
    });
    waits || is_full
}

/// Nanoseconds for which this thread has worked, and has waited for a core.
fn times_of_thread() -> Option<(u64, u64)> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    let mut times = text.split_whitespace().map(|time| time.parse::<u64>().ok());
    Some((times.next()??, times.next()??))
}

/// Ticks for which the cores were idle, and all ticks.
fn times_of_machine() -> Option<(u64, u64)> {
    let text = std::fs::read_to_string("/proc/stat").ok()?;
    let times = text.lines().next()?.split_whitespace().skip(1).take(8);
    let times: Vec<u64> = times.map(|time| time.parse().ok()).collect::<Option<_>>()?;
    Some((times.get(3)? + times.get(4)?, times.iter().sum()))
}

/// Keeps a core busy.
fn spin(time: Duration) {
    let start = Instant::now();
    while start.elapsed() < time {}
}

/// A reader whose storage takes a while for each sample.
struct Slow(Arc<Bytes>, Duration);

impl Reader for Slow {
    fn len(&self) -> usize {
        self.0.len()
    }

    fn key(&self, index: usize) -> Result<Cow<'_, str>> {
        self.0.key(index)
    }

    fn find(&self, key: &str) -> Result<Option<usize>> {
        self.0.find(key)
    }

    fn get_raw(&self, index: usize) -> Result<Cow<'_, [u8]>> {
        sleep(self.1);
        self.0.get_raw(index)
    }
}

/// The same in all kinds of batches, with this limit.
fn each_kind(expected: Limit, options: impl Fn() -> LoaderOptions, check: impl Fn(LoaderReport)) {
    let columns = || Columns::new().scalar::<u64>("v");
    let sets = (0..6).map(|_| vec![("v".to_owned(), Box::new(Given([0; 5])) as Box<dyn Memory>)]);
    let memory = ColumnMemory::new(columns(), 5, sets.collect()).unwrap();
    check(reaches(expected, || run(options().raw().unwrap(), 4 * MS)));
    check(reaches(expected, || run(options().map(v).unwrap(), 4 * MS)));
    check(reaches(expected, || run(options().columns(columns()).unwrap(), 4 * MS)));
    check(reaches(expected, || run(options().columns_in(&memory).unwrap(), 4 * MS)));
}

struct Given([u64; 5]);

impl AsRef<[u8]> for Given {
    fn as_ref(&self) -> &[u8] {
        bytemuck::cast_slice(&self.0)
    }
}

impl AsMut<[u8]> for Given {
    fn as_mut(&mut self) -> &mut [u8] {
        bytemuck::cast_slice_mut(&mut self.0)
    }
}

#[test]
fn a_slow_consumer_is_the_limit() {
    let reader = Bytes::count(200);
    for threads in [0, 1, 3] {
        each_kind(
            Limit::Consumer,
            || in_order(&reader, 5).threads(threads),
            |report| {
                assert_eq!((report.batches, report.samples, report.failures), (40, 200, 0));
                let packed: usize = reader.samples.iter().map(Vec::len).sum();
                assert_eq!(report.bytes, packed as u64);
                assert!(report.consumer.busy >= 40 * 4 * MS);
                assert_eq!(report.workers.threads, threads);
                // Without threads no batch is ready before it is asked for.
                assert_eq!(report.mean_ready() > 0.0, threads > 0, "{report}");
                assert_eq!(report.consumer.awaited == 40, threads == 0, "{report}");
            },
        );
    }
}

#[test]
fn a_slow_decoder_is_the_limit() {
    let reader = Bytes::count(400);
    for threads in [0, 1, 2] {
        let decode = |record: &Record<'_>| {
            spin(MS);
            v(record)
        };
        let options = || in_order(&reader, 5).threads(threads);
        let report = reaches(Limit::Cpu, || run(options().map(decode).unwrap(), MS / 2));
        assert!(report.workers.decoding >= 400 * MS);
    }
}

#[test]
fn a_decoder_that_waits_is_told_from_one_that_works() {
    let reader = Bytes::count(400);
    let columns = Columns::new().row::<u64>("v", &[], |record, row| {
        sleep(MS);
        row[0] = v(record)?;
        Ok(())
    });
    // Also on the thread of the caller, which does other things in between.
    for threads in [2, 0] {
        let options = || in_order(&reader, 5).threads(threads);
        // Where the system says how long threads were on a core.
        let expected = if cfg!(target_os = "linux") { Limit::Decoder } else { Limit::Cpu };
        let run = || run(options().columns(columns.clone()).unwrap(), MS / 2);
        let report = reaches(expected, run);
        assert_eq!(report.cores.is_some(), cfg!(target_os = "linux"), "{report}");
    }
}

/// Another thread may ask while the caller waits, and after the loader is gone.
#[test]
fn a_report_while_a_batch_is_waited_for() {
    let (begin, asked) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let (begins, waits) = (begin.clone(), asked.clone());
    let mut loader = in_order(&Bytes::count(8), 4)
        .threads(1)
        .map(move |record| {
            begins.store(true, SeqCst);
            super::wait_for("the report", || waits.load(SeqCst));
            v(record)
        })
        .unwrap();
    let reporter = loader.reporter();
    let watch = std::thread::spawn(move || {
        super::wait_for("a batch in progress", || begin.load(SeqCst));
        let report = reporter.report();
        asked.store(true, SeqCst);
        (report, reporter)
    });
    assert_eq!(loader.by_ref().count(), 2);
    let (report, reporter) = watch.join().unwrap();
    assert_eq!((report.batches, report.workers.threads), (0, 1));
    drop(loader);
    assert_eq!((reporter.report().batches, reporter.report().samples), (2, 8));
}

#[test]
fn a_slow_storage_is_the_limit() {
    let reader = Arc::new(Slow(Bytes::count(400), MS));
    for threads in [0, 1, 4] {
        let options = || Loader::options(reader.clone(), Sequential::new(400)).batch_size(5);
        let run = || run(options().epochs(1).threads(threads).map(v).unwrap(), MS / 4);
        let report = reaches(Limit::Storage, run);
        assert!(report.workers.reading >= 400 * MS);
        assert!(!report.is_remote);
        advises(&report, Limit::Storage, "the storage is the limit");
    }
}

#[test]
fn a_short_queue_is_the_limit() {
    let reader = Bytes::count(300);
    let decode = |record: &Record<'_>| {
        sleep(MS);
        v(record)
    };
    let options = || in_order(&reader, 5).threads(4);
    let report = reaches(Limit::Queue, || run(options().queue(1).map(decode).unwrap(), MS / 4));
    advises(&report, Limit::Queue, "in a queue of 1 batch:");
    // One batch in eight is slow, and the others may not be kept meanwhile.
    let decode = |record: &Record<'_>| {
        sleep(if record.index() % 40 == 0 { 20 * MS } else { Duration::ZERO });
        v(record)
    };
    let run = || run(options().queue_bytes(1).map(decode).unwrap(), MS / 4);
    let report = reaches(Limit::Queue, run);
    advises(&report, Limit::Queue, "the bytes of the queue");
}

#[test]
fn waiting_counts_while_it_lasts_and_from_the_first_batch_on() {
    let reader = Bytes::count(1000);
    let mut loader = in_order(&reader, 5).threads(2).raw().unwrap();
    let reporter = loader.reporter();
    super::wait_for("the queue is not filled", || reporter.report().queue.ready == 4);
    let report = loader.report();
    // The queue is full, and nobody has asked yet.
    assert_eq!((report.wall, report.batches), (Duration::ZERO, 0));
    assert_eq!(report.workers.waiting_for_room, Duration::ZERO);
    assert_eq!((report.queue.ready, report.queue.limit), (4, 4));
    assert_eq!(report.limit(), Limit::Unknown);

    loader.next().unwrap().unwrap();
    let before = loader.report();
    super::wait_for("no thread waits for room", || {
        reporter.report().since(&before).workers.waiting_for_room >= 30 * MS
    });
    let report = loader.report().since(&before);
    assert!(report.workers.waiting_for_room >= 30 * MS, "{report:?}");
    // Two threads wait.
    assert!(report.consumer.busy >= 15 * MS);
    assert_eq!((report.batches, report.consumer.waiting), (0, Duration::ZERO));

    // After the end nothing counts any more.
    loader.by_ref().for_each(drop);
    let report = loader.report();
    sleep(5 * MS);
    assert!(loader.next().is_none());
    let later = loader.report();
    assert_eq!((later.wall, later.batches), (report.wall, 200));
    let consumer = later.consumer;
    assert_eq!(consumer.first + consumer.waiting + consumer.busy, later.wall);
}

#[test]
fn failures_are_counted_and_errors_end_no_count() {
    let samples = (0..30).map(|i| map(&[("v", if i % 3 == 0 { bin(b"x") } else { i.into() })]));
    let reader = Bytes::new(samples);
    for threads in [0, 2] {
        let options = || in_order(&reader, 5).threads(threads);
        let report = run(options().on_error(OnError::Skip).map(v).unwrap(), Duration::ZERO);
        assert_eq!((report.batches, report.samples, report.failures), (6, 20, 10));
        assert!(report.to_string().contains("10 samples could not be read"));

        let mut loader = options().map(v).unwrap();
        assert_eq!(loader.by_ref().filter(Result::is_err).count(), 6);
        let report = loader.report();
        assert_eq!((report.batches, report.samples, report.bytes), (6, 0, 0));

        let panics = |_: &Record<'_>| -> Result<u64> { resume_unwind(Box::new("unlucky")) };
        let mut loader = options().map(panics).unwrap();
        assert!(catch_unwind(AssertUnwindSafe(|| loader.next())).is_err());
        let before = loader.report();
        sleep(5 * MS);
        let report = loader.report().since(&before);
        // The caller has the panic, and does not wait.
        assert!(report.consumer.busy >= 5 * MS && report.consumer.first.is_zero(), "{report:?}");
        // Other batches may still panic, but then nothing is being decoded.
        let mut decoding = report.workers.decoding;
        super::wait_for("decoding does not end", || {
            sleep(MS);
            let before = std::mem::replace(&mut decoding, loader.report().workers.decoding);
            before == decoding
        });
    }
}
