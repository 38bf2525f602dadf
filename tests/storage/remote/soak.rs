//! Many runs with trouble: each ends, with the right bytes or with an error that says what happened.

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::mpsc;
use std::time::Instant;

use super::server::Fault;
use super::*;
use crate::support::Random;
use kiste::ErrorKind;
use kiste::loader::Loader;
use kiste::sampler::{BlockShuffle, Sampler, Shuffle};

const SAMPLES: u64 = 1500;
/// No run takes as long, on any machine: this one hangs.
const HANGS: Duration = Duration::from_secs(120);

/// What a faulted request gets.
const FAULTS: [Fault; 8] = [
    Fault::Status(503, None),
    Fault::Status(429, Some(0)),
    Fault::Status(500, None),
    Fault::Cut(0),
    Fault::Cut(700),
    Fault::Hang,
    Fault::More,
    Fault::Stall,
];

/// Opens, reads by index and by key, and goes through an epoch of a loader, with or without a cache.
fn run(place: &Place, seed: u64, timeout: Duration, cache: &Path) -> Result<()> {
    let options = RemoteOptions::default().timeout(timeout).retries(3);
    let options = match seed % 2 {
        0 => options,
        _ => options.cache(cache, 2 << 20),
    };
    let (storage, path) = RemoteStorage::open(&place.url(), options)?;
    let reader = DatasetReader::options().storage(Arc::new(storage)).open(path)?;
    let mut random = Random(seed);
    let same = |index: usize, raw: &[u8]| {
        assert_eq!(raw, &*place.local.get_raw(index).unwrap(), "run {seed}, sample {index}");
    };
    for _ in 0..5 {
        let index = random.below(SAMPLES as usize);
        same(index, &reader.get_raw(index)?);
        assert_eq!(reader.find(&key(index as u64))?, Some(index), "run {seed}");
    }
    assert_eq!(reader.find("no such key")?, None, "run {seed}");
    let keys: Vec<String> = (0..20).map(|_| key(random.below(SAMPLES as usize) as u64)).collect();
    for (key, found) in keys.iter().zip(reader.find_many(&keys)?) {
        assert_eq!(place.local.find(key).unwrap(), found, "run {seed}");
    }
    let sampler: Arc<dyn Sampler> = match seed % 3 {
        0 => Arc::new(Shuffle::new(SAMPLES, seed)),
        _ => Arc::new(BlockShuffle::new(SAMPLES, 32, 8, seed).unwrap()),
    };
    let options = Loader::options(Arc::new(reader), sampler).batch_size(50).epochs(1);
    let mut seen = 0;
    for batch in options.threads(seed as usize % 4).raw().unwrap() {
        let batch = batch?;
        seen += batch.data.len();
        for (index, raw) in batch.indices.iter().zip(&batch.data) {
            same(*index as usize, raw);
        }
    }
    assert_eq!(seen, SAMPLES as usize);
    Ok(())
}

/// How many runs were right, and how many ended in an error.
#[expect(clippy::print_stderr, reason = "said before the process is aborted")]
fn soak(runs: u64, timeout: Duration) -> (u64, u64) {
    let next = AtomicU64::new(0);
    let (done, ended) = mpsc::channel::<(u64, Option<String>)>();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            let (next, done) = (&next, done.clone());
            scope.spawn(move || {
                let place = Place::new(SAMPLES, 300, true);
                let cache = tempfile::tempdir().unwrap();
                loop {
                    let seed = next.fetch_add(1, SeqCst);
                    if seed >= runs {
                        return;
                    }
                    let one_in = [4, 10, 30, 100][seed as usize % 4];
                    place.server.fail(move |n, _| {
                        let mut random = Random((seed << 32 | n) + 1);
                        random.next();
                        let is_due = random.below(one_in) == 0;
                        // One stall in ten faults: each takes as long as a time-out.
                        let kinds = if random.below(10) == 0 { 8 } else { 7 };
                        is_due.then(|| FAULTS[random.below(kinds)])
                    });
                    let error = run(&place, seed, timeout, cache.path()).err();
                    if let Some(error) = &error {
                        assert_eq!(error.kind(), ErrorKind::Io, "run {seed}: {error}");
                        let message = error.to_string();
                        assert!(message.contains("/d/set.msgpack"), "run {seed}: {message}");
                    }
                    let _ = done.send((seed, error.map(|error| error.to_string())));
                }
            });
        }
        drop(done);
        let (mut right, mut failed, mut last) = (0, 0, Instant::now());
        while right + failed < runs {
            match ended.recv_timeout(Duration::from_secs(1)) {
                Ok((_, None)) => right += 1,
                Ok((_, Some(_))) => failed += 1,
                // A thread has panicked, which the scope passes on.
                Err(mpsc::RecvTimeoutError::Disconnected) => break,
                Err(mpsc::RecvTimeoutError::Timeout) => {
                    if last.elapsed() > HANGS {
                        eprintln!("a run hangs after {right} right and {failed} failed ones");
                        // The scope would wait for it.
                        std::process::abort();
                    }
                    continue;
                }
            }
            last = Instant::now();
        }
        (right, failed)
    })
}

#[test]
fn faulted_runs_end_right_or_with_a_reason() {
    // The time grows until the machine has it, if others keep it busy.
    let times = [150, 600, 2400].map(Duration::from_millis);
    let mut soaked = times.into_iter().map(|timeout| soak(24, timeout));
    let (right, failed) = soaked.find(|(right, _)| *right > 0).expect("a run that ends right");
    assert_eq!(right + failed, 24, "{right} {failed}");
}

/// `cargo test --features full --test main -- --ignored thousand --nocapture`
#[test]
#[ignore = "takes minutes"]
#[expect(clippy::print_stdout, reason = "the figures")]
fn a_thousand_faulted_runs_end() {
    let (right, failed) = soak(1000, Duration::from_millis(150));
    println!("{right} right, {failed} ended in an error");
    assert!(right > 0 && right + failed == 1000, "{right} {failed}");
}

#[test]
fn busy_answers_cost_as_many_requests_and_no_bytes() {
    let place = Place::new(20_000, 1000, false);
    let epoch = || {
        let (storage, path) = place.storage();
        let options = DatasetReader::options().storage(Arc::new(storage.clone()));
        let reader = options.open(path).unwrap();
        let sampler = Shuffle::new(20_000, 5);
        let options = Loader::options(Arc::new(reader), sampler).batch_size(250).epochs(1);
        let samples = options.threads(2).raw().unwrap().map(|batch| batch.unwrap().data.len());
        assert_eq!(samples.sum::<usize>(), 20_000);
        storage.traffic()
    };
    let calm = epoch();
    // One in twenty.
    place.server.fail(|n, _| (n % 20 == 7).then_some(Fault::Status(503, None)));
    let busy = epoch();
    assert_eq!(calm.retries, 0);
    assert!(busy.retries * 10 < busy.requests && busy.retries > 0, "{busy:?}");
    assert!(busy.requests * 10 < calm.requests * 11, "{calm:?} {busy:?}");
    assert!(busy.bytes <= calm.bytes + calm.bytes / 100, "{calm:?} {busy:?}");
}
