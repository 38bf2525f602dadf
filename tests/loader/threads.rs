//! Threads and the queue: joined when dropped, bounded, panics passed to the caller.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use kiste::loader::{Columns, Loader, LoaderOptions, OnError, Record, Samples};

use super::{Bytes, bin, in_order, map, place, v, wait_for};

#[test]
fn dropped_in_the_middle_of_an_epoch_no_thread_is_left() {
    let reader = Bytes::count(1000);
    let tasks = Arc::new(Mutex::new(BTreeSet::new()));
    let noted = tasks.clone();
    let decode = move |record: &Record<'_>| {
        assert!(thread::current().name().unwrap().starts_with("kiste-loader-"));
        if let Ok(task) = std::fs::read_link("/proc/thread-self") {
            noted.lock().unwrap().insert(Path::new("/proc").join(task));
        }
        thread::sleep(Duration::from_micros(10));
        v(record)
    };
    let options = in_order(&reader, 5).threads(4).queue(8);
    let mut loader = options.clone().map(decode).unwrap();
    for _ in 0..20 {
        loader.next().unwrap().unwrap();
    }
    assert_eq!(Arc::strong_count(&reader), 2);
    drop(loader);
    let tasks = tasks.lock().unwrap();
    assert_eq!(tasks.is_empty(), !cfg!(target_os = "linux"));
    // A joined thread may be listed a moment longer.
    wait_for("threads are left", || tasks.iter().all(|task| !task.exists()));

    // At once, untouched, at the end, and with the queue full.
    drop(options.clone().raw().unwrap());
    let before = reader.fetched.load(Ordering::SeqCst);
    let loader = options.clone().raw().unwrap();
    wait_for("no batch is made", || reader.fetched.load(Ordering::SeqCst) > before);
    thread::sleep(Duration::from_millis(5));
    drop(loader);
    let mut loader = options.clone().raw().unwrap();
    assert_eq!(loader.by_ref().count(), 200);
    assert!(loader.next().is_none());
    drop(loader);
    drop(options);
    // Threads hold the reader.
    assert_eq!(Arc::strong_count(&reader), 1);
}

#[test]
fn a_loader_goes_from_thread_to_thread() {
    let reader = Bytes::count(30);
    let mut loader = in_order(&reader, 5).threads(2).map(v).unwrap();
    let mut seen = loader.next().unwrap().unwrap().data;
    let (loader, more) = thread::spawn(move || {
        let more = loader.next().unwrap().unwrap().data;
        (loader, more)
    })
    .join()
    .unwrap();
    seen.extend(more);
    assert_eq!(place(loader.state()), (0, 10));
    seen.extend(loader.flat_map(|batch| batch.unwrap().data));
    assert!(seen.into_iter().eq(0..30));
}

#[test]
fn a_panic_of_the_decoding_is_the_callers() {
    let reader = Bytes::count(40);
    for threads in [0, 1, 3] {
        for columns in [false, true] {
            let panic = |record: &Record<'_>| {
                if record.index() == 13 {
                    resume_unwind(Box::new("unlucky"));
                }
                v(record)
            };
            let options = in_order(&reader, 5).threads(threads).on_error(OnError::Skip);
            let mut next: Box<dyn FnMut() -> Option<Vec<u64>>> = if columns {
                let columns = Columns::new().row::<u64>("row", &[], move |record, row| {
                    row[0] = panic(record)?;
                    Ok(())
                });
                let mut loader = options.columns(columns).unwrap();
                Box::new(move || {
                    let batch = loader.next()?.unwrap();
                    Some(batch.data.values::<u64>("row").unwrap().to_vec())
                })
            } else {
                let mut loader = options.map(panic).unwrap();
                Box::new(move || Some(loader.next()?.unwrap().data))
            };
            assert_eq!(next(), Some((0..5).collect()));
            assert_eq!(next(), Some((5..10).collect()));
            let panic = catch_unwind(AssertUnwindSafe(&mut next)).unwrap_err();
            assert_eq!(panic.downcast_ref(), Some(&"unlucky"));
            // The batches after it are none the worse.
            assert_eq!(next(), Some((15..20).collect()));
        }
    }
    assert_eq!(Arc::strong_count(&reader), 1);
}

#[test]
fn a_slow_caller_is_not_run_ahead_of() {
    let reader = Bytes::count(1000);
    for (threads, queue) in [(1, 1), (2, 3), (4, 3), (3, 0)] {
        let fetched = || reader.fetched.load(Ordering::SeqCst);
        let before = fetched();
        let mut loader = in_order(&reader, 5).threads(threads).queue(queue).map(v).unwrap();
        let queue = if queue == 0 { 2 * threads } else { queue };
        for handed_out in 0..5 {
            let expected = (handed_out + queue) * 5;
            wait_for("the queue is not filled", || fetched() - before >= expected);
            thread::sleep(Duration::from_millis(5));
            assert_eq!(fetched() - before, expected, "{threads} threads, queue {queue}");
            loader.next().unwrap().unwrap();
        }
    }
}

#[test]
fn the_bytes_of_a_queue_are_bounded() {
    let sample = |i: u64| map(&[("b", bin(&[i as u8; 1000])), ("v", i.into())]);
    let fetched = |reader: &Bytes| reader.fetched.load(Ordering::SeqCst);
    type Start = fn(LoaderOptions) -> Box<dyn Iterator<Item = Vec<u64>>>;
    #[derive(serde::Deserialize)]
    struct Owned {
        b: serde_bytes::ByteBuf,
    }
    fn indices<T: Send>(loader: Loader<Samples<T>>) -> Box<dyn Iterator<Item = Vec<u64>>> {
        Box::new(loader.map(|batch| batch.unwrap().indices))
    }
    let kinds: [Start; 6] = [
        |options| indices(options.raw().unwrap()),
        |options| {
            let loader = options.typed::<Owned>().unwrap();
            Box::new(loader.map(|batch| {
                let batch = batch.unwrap();
                assert!(batch.data.iter().all(|sample| sample.b.len() == 1000));
                batch.indices
            }))
        },
        |options| indices(options.map(|record| Ok(record.bytes("b")?.to_vec())).unwrap()),
        |options| {
            let decode = |record: &Record<'_>| Ok(record.bytes("b")?.to_vec());
            indices(options.map_or_else(|_| Vec::new(), decode).unwrap())
        },
        // Much more than the packed sample, which only the caller knows.
        |options| {
            let decode = |record: &Record<'_>| Ok(vec![record.bytes("b")?[0]; 100_000]);
            indices(options.queue_bytes(2_500_000).map_sized(decode, Vec::len).unwrap())
        },
        |options| {
            let loader = options.columns(Columns::new().bytes("b")).unwrap();
            Box::new(loader.map(|batch| batch.unwrap().indices))
        },
    ];
    for start in kinds {
        // Ten samples are a batch: the third one fills it up.
        let reader = Bytes::new((0..200).map(sample));
        let options = in_order(&reader, 10).queue(1000).queue_bytes(25_000);
        let mut loader = start(options.threads(1));
        for handed_out in 0..4 {
            wait_for("nothing is made", || fetched(&reader) >= 30 + handed_out * 10);
            thread::sleep(Duration::from_millis(5));
            assert_eq!(fetched(&reader), 30 + handed_out * 10);
            loader.next().unwrap();
        }
        // However little it is, the next batch is made.
        for bytes in [0, 1, 10_000] {
            for threads in [1, 3] {
                let options = in_order(&reader, 10).queue(1000).queue_bytes(bytes);
                assert!(start(options.threads(threads)).flatten().eq(0..200));
            }
        }
    }
}

#[test]
fn the_storage_prefetches_what_comes_next() {
    let reader = Bytes::count(50);
    let options = in_order(&reader, 5).threads(2).queue(3);
    assert_eq!(options.clone().raw().unwrap().count(), 10);
    assert!(reader.prefetched.lock().unwrap().is_empty());
    assert_eq!(options.prefetch(true).raw().unwrap().count(), 10);
    // Of each batch once, if it was not begun before.
    let told = std::mem::take(&mut *reader.prefetched.lock().unwrap());
    assert!(told.windows(2).all(|two| two[0] < two[1]), "{told:?}");
    assert!(told.iter().copied().collect::<BTreeSet<_>>().is_superset(&(10..50).collect()));

    // Before the first batch is fetched, of those after it too: without a queue as well.
    for (threads, queue, ahead) in [(0, 0, 2), (0, 5, 5), (1, 0, 2), (1, 7, 7), (1, 1000, 19)] {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let (log, told) = (seen.clone(), reader.clone());
        let decode = move |record: &Record<'_>| {
            log.lock().unwrap().push((record.index(), told.prefetched.lock().unwrap().len()));
            Ok(())
        };
        reader.prefetched.lock().unwrap().clear();
        let options = in_order(&reader, 5).epochs(2).threads(threads).queue(queue).prefetch(true);
        assert_eq!(options.map(decode).unwrap().count(), 20);
        for (batch, samples) in seen.lock().unwrap().chunks(5).enumerate() {
            let expected = 5 * (batch + 1 + ahead).min(20);
            assert!(samples.iter().all(|(_, told)| *told == expected), "{batch}: {samples:?}");
        }
        let all = (0..50).chain(0..50);
        assert!(reader.prefetched.lock().unwrap().iter().copied().eq(all));
    }
}
