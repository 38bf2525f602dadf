//! Servers that are busy, answers that are cut short or stall, and what is not there.

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use super::server::Fault;
use super::*;
use kiste::ErrorKind;

#[test]
fn a_busy_server_is_asked_again() {
    for status in [429, 500, 502, 503, 504] {
        let place = Place::new(200, 100, true);
        // Every third request, and a burst at the start.
        place.server.fail(move |n, _| (n < 4 || n % 3 == 0).then_some(Fault::Status(status, None)));
        assert_same(&place.open(), &place.local);
    }
}

#[test]
fn a_server_that_says_when_is_obeyed() {
    let place = Place::new(20, 100, true);
    let (storage, path) = place.storage();
    place.server.fail(|n, _| (n == 0).then_some(Fault::Status(503, Some(1))));
    let begin = std::time::Instant::now();
    DatasetReader::options().storage(Arc::new(storage.clone())).open(path).unwrap();
    assert!(begin.elapsed() >= Duration::from_secs(1));
    assert_eq!(storage.traffic().retries, 1);
}

#[test]
fn a_server_that_stays_busy_is_given_up_with_its_words() {
    let place = Place::new(20, 100, true);
    place.server.fail(|_, _| Some(Fault::Status(503, None)));
    let error = place.try_open().unwrap_err();
    let message = error.to_string();
    assert_eq!(error.kind(), ErrorKind::Io);
    assert!(message.starts_with(&place.url()), "{message}");
    let words = "the server answers 503 Service Unavailable: SlowDown: Please reduce your rate";
    assert!(message.contains(words), "{message}");
    assert!(message.contains("gave up after 5 tries"), "{message}");
}

#[test]
fn what_will_not_pass_is_not_asked_again() {
    let place = Place::new(20, 100, true);
    place.server.fail(|_, _| Some(Fault::Status(400, None)));
    let error = place.try_open().unwrap_err();
    assert!(error.to_string().contains("the server answers 400 Bad Request"), "{error}");
    assert_eq!(place.server.requests().len(), 7);
}

#[test]
fn answers_that_are_cut_short_are_noticed() {
    for kept in [0, 1, 1000] {
        let place = Place::new(2000, 100, true);
        place.server.fail(move |n, _| (n % 2 == 0).then_some(Fault::Cut(kept)));
        assert_same(&place.open(), &place.local);
    }
    let place = Place::new(2000, 100, true);
    let reader = place.open();
    place.server.fail(|_, _| Some(Fault::Cut(7)));
    let error = reader.get_raw(1000).unwrap_err().to_string();
    assert!(error.contains("/d/set.msgpack"), "{error}");
    assert!(error.contains("after 7 bytes") || error.contains("cut short"), "{error}");
}

#[test]
fn connections_that_end_are_opened_again() {
    let place = Place::new(2000, 100, true);
    place.server.fail(|n, _| (n % 3 == 1).then_some(Fault::Hang));
    assert_same(&place.open(), &place.local);
}

/// The time grows until the machine has it, if others keep it busy.
#[test]
fn answers_that_stall_are_noticed_and_named() {
    let place = Place::new(2000, 100, true);
    let read = |timeout: Duration| {
        place.server.fail(|_, _| None);
        let (storage, path) = RemoteStorage::open(&place.url(), place.options().timeout(timeout))?;
        let reader = DatasetReader::options().storage(Arc::new(storage)).open(path)?;
        place.server.fail(|n, _| (n == 0).then_some(Fault::Stall));
        assert_eq!(reader.get_raw(1000)?, place.local.get_raw(1000).unwrap());
        Ok::<_, kiste::Error>(reader)
    };
    let times = [700, 2800, 11_200].map(Duration::from_millis);
    let (timeout, reader) = (times.into_iter())
        .find_map(|timeout| Some((timeout, read(timeout).ok()?)))
        .expect("an answer after the one that stalls");
    place.server.fail(|_, _| Some(Fault::Stall));
    let range = place.local.byte_range(1500).unwrap();
    let error = reader.get_raw(1500).unwrap_err();
    let message = error.to_string();
    assert!(message.contains(&format!("nothing came for {timeout:?}")), "{message}");
    assert_eq!(error.path().unwrap().to_str(), Some(&*place.url()));
    assert_eq!(error.range(), Some(range));
}

#[test]
fn what_could_not_be_fetched_ahead_is_not_tried_again_when_it_is_read() {
    use kiste::Reader;
    let is_busy = Fault::Status(503, None);
    // The samples, and the offsets that are fetched before them.
    for failing in ["/d/set.msgpack", "/d/set.msgpack.offsets"] {
        let place = Place::new(20_000, 100, true);
        let (storage, path) = place.storage();
        let options = DatasetReader::options().storage(Arc::new(storage));
        let reader = options.open(path).unwrap();
        place.server.fail(move |_, request| (request.path == failing).then_some(is_busy));
        place.server.requests();
        let indices: Vec<usize> = (9_000..9_040).chain(15_000..15_001).collect();
        reader.prefetch(&indices);
        let asked = place.server.requests().len();
        // Five tries each, on two connections.
        assert!((5..=11).contains(&asked), "{asked}");
        // The loader asks once more, for each batch.
        reader.prefetch(&indices[..20]);
        for index in 9_000..9_020 {
            let error = reader.get_raw(index).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Io);
            assert!(error.to_string().contains("gave up after 5 tries"), "{error}");
        }
        assert_eq!(place.server.requests().len(), 0);
        place.server.fail(|_, _| None);
        assert_eq!(reader.get_raw(9_000).unwrap(), place.local.get_raw(9_000).unwrap());
    }
}

#[test]
fn a_batch_that_cannot_be_fetched_takes_its_tries_once() {
    use kiste::loader::Loader;
    use kiste::sampler::Sequential;
    let place = Place::new(20_000, 100, true);
    let reader = place.open();
    place.server.fail(|_, request| {
        let is_sample = request.path == "/d/set.msgpack";
        is_sample.then_some(Fault::Status(503, None))
    });
    // More than opening fetches.
    let options = Loader::options(Arc::new(reader), Sequential::new(20_000)).batch_size(500);
    let mut loader = options.epochs(1).threads(0).raw().unwrap();
    place.server.requests();
    let error = loader.next().unwrap().map(drop).unwrap_err();
    assert_eq!((error.kind(), error.step()), (ErrorKind::Io, Some(0)), "{error}");
    let asked = place.server.requests();
    let asked = asked.iter().filter(|request| request.path == "/d/set.msgpack").count();
    // Once for the first batch, and once for the others that are fetched with it.
    assert!(asked <= 10, "{asked}");
}

#[test]
fn more_than_was_asked_for_is_refused() {
    // Longer than announced is what the next answer begins with, which is no answer.
    let place = Place::new(2000, 100, true);
    place.server.fail(|n, _| (n % 5 == 2).then_some(Fault::More));
    assert_same(&place.open(), &place.local);
}

#[test]
fn a_server_without_ranges_is_an_error_that_says_so() {
    let place = Place::new(2000, 100, true);
    place.server.fail(|_, _| Some(Fault::Whole));
    let error = place.try_open().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    assert!(error.to_string().contains("ignores range requests"), "{error}");
}

#[test]
fn what_is_not_there_is_named() {
    let place = Place::new(20, 100, true);
    place.server.remove("/d/set.msgpack.offsets");
    let error = place.try_open().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert_eq!(error.path().unwrap().to_str(), Some(&*format!("{}.offsets", place.url())));
    place.server.remove("/d/set.msgpack");
    let error = place.try_open().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert_eq!(error.path().unwrap().to_str(), Some(&*place.url()));
}

#[test]
fn side_files_that_may_not_be_listed_are_absent() {
    // S3 answers so for what is not there, to those who may not list the bucket.
    let place = Place::new(200, 100, false);
    place.server.fail(|_, request| {
        let is_absent = request.path.ends_with(".lookup") || request.path.ends_with(".crc");
        is_absent.then_some(Fault::Status(403, None))
    });
    assert_same(&place.open(), &place.local);
    place.server.fail(|_, _| Some(Fault::Status(403, None)));
    let error = place.try_open().unwrap_err();
    assert!(error.to_string().contains("403 Forbidden"), "{error}");
    assert!(error.remedy().is_some());
}

#[test]
fn no_server_at_the_other_end_is_an_error() {
    let place = Place::new(1, 100, false);
    let url = place.url();
    drop(place);
    // Nothing has ever answered there, so it is not tried as often as it may be.
    for (retries, tries) in [(1, 2), (10, 4)] {
        let options = RemoteOptions::default().timeout(Duration::from_millis(300)).retries(retries);
        let (storage, path) = RemoteStorage::open(&url, options).unwrap();
        let error = DatasetReader::options().storage(Arc::new(storage)).open(path).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Io);
        assert!(error.to_string().contains(&format!("gave up after {tries} tries")), "{error}");
    }
}

#[test]
fn random_trouble_ends_in_the_right_bytes_or_an_error() {
    use crate::support::Random;
    let place = Place::new(3000, 60, true);
    let kinds = [
        Fault::Status(503, None),
        Fault::Status(429, Some(0)),
        Fault::Status(500, None),
        Fault::Cut(0),
        Fault::Cut(5),
        Fault::Hang,
        Fault::More,
        Fault::Whole,
        Fault::Stall,
    ];
    let (mut whole, mut failed) = (0, 0);
    for seed in 0..32 * 3 {
        // Until the machine has the time for some, if others keep it busy.
        if seed >= 32 && whole > 0 {
            break;
        }
        let timeout = Duration::from_millis(100) * 4u32.pow(seed as u32 / 32);
        let one_in = [3, 6, 10, 50][seed as usize % 4];
        place.server.fail(move |n, _| {
            let mut random = Random(seed << 32 | n);
            random.next();
            (random.below(one_in) == 0).then(|| kinds[random.below(kinds.len())])
        });
        let options = RemoteOptions::default().timeout(timeout).retries(2);
        let (storage, path) = RemoteStorage::open(&place.url(), options).unwrap();
        let read_some = &|reader: &DatasetReader, start: usize| -> Result<()> {
            for index in start..start + 5 {
                let raw = reader.get_raw(index)?;
                assert_eq!(raw, place.local.get_raw(index).unwrap());
            }
            assert_eq!(reader.find(&key(start as u64))?, Some(start));
            assert_eq!(reader.find("absent")?, None);
            Ok(())
        };
        let read = || -> Result<()> {
            let reader = DatasetReader::options().storage(Arc::new(storage)).open(path)?;
            let mut random = Random(seed);
            let starts = [0; 3].map(|_| random.below(2990));
            std::thread::scope(|scope| {
                let start = |start| {
                    scope.spawn({
                        let reader = &reader;
                        move || read_some(reader, start)
                    })
                };
                let threads = starts.map(start);
                threads.into_iter().try_for_each(|thread| thread.join().unwrap())
            })
        };
        match read() {
            Ok(()) => whole += 1,
            Err(error) => {
                failed += 1;
                assert!(matches!(error.kind(), ErrorKind::Io | ErrorKind::Unsupported), "{error}");
            }
        }
    }
    assert!(whole > 0 && failed > 0, "{whole} {failed}");
}

#[test]
fn a_read_that_waits_can_be_cancelled() {
    let place = Place::new(3000, 60, true);
    let stop = Arc::new(AtomicBool::new(false));
    let options = RemoteOptions::default().stop(stop.clone());
    let (storage, path) = RemoteStorage::open(&place.url(), options).unwrap();
    let reader = DatasetReader::options().storage(Arc::new(storage)).open(path).unwrap();
    // It would wait for an hour, as often as it may.
    let asked = Arc::new(AtomicBool::new(false));
    let heard = asked.clone();
    place.server.fail(move |_, _| {
        heard.store(true, SeqCst);
        Some(Fault::Status(503, Some(3600)))
    });
    let error = std::thread::scope(|scope| {
        let read = scope.spawn(|| reader.get_raw(1500).unwrap_err());
        while !asked.load(SeqCst) {
            std::thread::yield_now();
        }
        stop.store(true, SeqCst);
        read.join().unwrap()
    });
    assert_eq!(error.kind(), ErrorKind::Cancelled, "{error}");
    assert_eq!(reader.get_raw(2500).unwrap_err().kind(), ErrorKind::Cancelled);
}
