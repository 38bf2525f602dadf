//! Which samples a batch has: the same for any number of threads, for each rank, epoch after epoch.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use kiste::format::msgpack;
use kiste::loader::{Batch, Columns, Loader, LoaderOptions, OnError, Record, Samples};
use kiste::reader::{ListReader, Reader, ReaderExt, ShardedReader};
use kiste::sampler::rng::StableRng;
use kiste::sampler::{Cycle, Order, Sampler, Sequential, Shuffle, State, Tail};
use kiste::storage::LocalStorage;
use kiste::{DatasetReader, ErrorKind, Result, Value, Writer};

use super::{Bytes, all, in_order, place, plain, rows_of, v, wait_for};
use crate::support::packed;

#[test]
fn batches_do_not_depend_on_threads_or_queue() {
    let reader = Bytes::count(101);
    let load = |threads, queue| {
        let slow = move |record: &Record<'_>| {
            // Later batches overtake earlier ones unless they are put in order.
            if record.index() % 13 == 0 {
                thread::sleep(Duration::from_micros(200));
            }
            v(record)
        };
        let options = Loader::options(reader.clone(), Shuffle::new(101, 7)).batch_size(8).epochs(2);
        plain(&all(options.threads(threads).queue(queue).map(slow).unwrap()))
    };
    let expected = load(0, 0);
    assert_eq!(expected.len(), 26);
    for threads in [0, 1, 2, 3, 8] {
        for queue in [0, 1, 2, 3, 16, 1000] {
            assert_eq!(load(threads, queue), expected, "{threads} threads, queue {queue}");
        }
    }
}

#[test]
fn options_that_make_no_sense_are_refused() {
    let reader = Bytes::count(10);
    let sampler = |n| Shuffle::new(n, 0);
    let refused = |options: LoaderOptions| {
        assert_eq!(options.clone().raw().err().unwrap().kind(), ErrorKind::Invalid);
        assert_eq!(options.columns(Columns::new()).err().unwrap().kind(), ErrorKind::Invalid);
    };
    refused(Loader::options(reader.clone(), sampler(11)));
    let options = Loader::options(reader.clone(), sampler(10));
    refused(options.clone().batch_size(0));
    refused(options.clone().rank(0, 0));
    refused(options.clone().rank(2, 2));
    refused(options.clone().resume(State::new(0, 11)));
    drop(options);
    assert_eq!(Arc::strong_count(&reader), 1);
}

/// As stored; cannot order the epochs from `fails` on, and waits before it orders those from
/// `waits` on until it is let.
struct Orders {
    samples: u64,
    fails: u64,
    waits: u64,
    go_on: AtomicBool,
    /// The epochs that were asked for.
    asked: Mutex<Vec<u64>>,
}

impl Sampler for Orders {
    fn len(&self) -> u64 {
        self.samples
    }

    fn bound(&self) -> u64 {
        self.samples
    }

    fn order(&self, epoch: u64) -> Result<Arc<dyn Order>> {
        self.asked.lock().unwrap().push(epoch);
        if epoch >= self.waits {
            wait_for("the test to let it continue", || self.go_on.load(Ordering::SeqCst));
        }
        if epoch >= self.fails {
            return Err(kiste::Error::new(ErrorKind::Limit, format!("no epoch {epoch}")));
        }
        Sequential::new(self.samples).order(epoch)
    }
}

fn orders(fails: u64, waits: u64) -> Arc<Orders> {
    let (go_on, asked) = (AtomicBool::new(false), Mutex::default());
    Arc::new(Orders { samples: 40, fails, waits, go_on, asked })
}

#[test]
fn a_run_ends_with_an_epoch_that_has_no_order() {
    let reader = Bytes::count(40);
    for (threads, queue) in [(0, 0), (1, 1), (3, 4), (2, 100)] {
        for prefetch in [false, true] {
            let options = Loader::options(reader.clone(), orders(2, u64::MAX)).batch_size(4);
            let options = options.threads(threads).queue(queue).prefetch(prefetch);
            for epochs in [None, Some(5)] {
                let options = epochs.map_or(options.clone(), |n| options.clone().epochs(n));
                let mut loader = options.map(v).unwrap();
                let seen: Vec<u64> =
                    loader.by_ref().take(20).flat_map(|b| b.unwrap().data).collect();
                assert!(seen.into_iter().eq((0..40).chain(0..40)));
                let error = loader.next().unwrap().unwrap_err();
                assert_eq!((error.kind(), error.message()), (ErrorKind::Limit, "no epoch 2"));
                assert_eq!((error.epoch(), error.step()), (Some(2), Some(0)));
                assert!(loader.next().is_none() && loader.next().is_none());
                // There it can be resumed, with another sampler, say.
                assert_eq!(place(loader.state()), (2, 0));
            }
        }
    }
}

#[test]
fn making_an_order_does_not_block_the_current_epoch() {
    let reader = Bytes::count(40);
    let sampler = orders(9, 1);
    let options = Loader::options(reader.clone(), sampler.clone()).batch_size(4).epochs(3);
    let mut loader = options.threads(2).queue(4).map(v).unwrap();
    // One worker waits for the next order all the time.
    let seen: Vec<u64> = loader.by_ref().take(5).flat_map(|batch| batch.unwrap().data).collect();
    wait_for("no order is made ahead", || sampler.asked.lock().unwrap().contains(&1));
    let rest = loader.by_ref().take(5).flat_map(|batch| batch.unwrap().data);
    assert!(seen.into_iter().chain(rest).eq(0..40));
    sampler.go_on.store(true, Ordering::SeqCst);
    assert_eq!(loader.map(|batch| batch.unwrap().data.len()).sum::<usize>(), 80);
    // Each was made once.
    let mut asked = sampler.asked.lock().unwrap().clone();
    asked.sort_unstable();
    assert_eq!(asked, [0, 1, 2]);
}

#[test]
fn orders_are_made_once_when_the_queue_is_longer_than_an_epoch() {
    let reader = Bytes::count(40);
    for threads in [0, 1, 3] {
        let sampler = orders(99, 99);
        let options = Loader::options(reader.clone(), sampler.clone()).batch_size(20).epochs(9);
        let options = options.threads(threads).queue(16).prefetch(true);
        assert_eq!(options.raw().unwrap().count(), 18);
        let mut asked = sampler.asked.lock().unwrap().clone();
        asked.sort_unstable();
        assert!(asked.into_iter().eq(0..9));
    }
}

#[test]
fn epochs_none_some_and_without_end() {
    let reader = Bytes::count(10);
    for threads in [0, 2] {
        let options = Loader::options(reader.clone(), Shuffle::new(10, 5)).batch_size(4);
        let options = options.threads(threads);
        let mut loader = options.clone().epochs(0).map(v).unwrap();
        assert!(loader.next().is_none());
        assert_eq!(place(loader.state()), (0, 0));

        let two = all(options.clone().epochs(2).map(v).unwrap());
        assert_eq!(two.iter().map(|b| b.epoch).collect::<Vec<_>>(), [0, 0, 0, 1, 1, 1]);
        assert_eq!(place(two[2].state), (1, 0));
        assert_ne!(two[0].indices, two[3].indices);

        let endless: Vec<_> =
            options.clone().map(v).unwrap().take(100).map(|batch| batch.unwrap()).collect();
        assert_eq!(plain(&endless[..6]), plain(&two));
        assert_eq!(place(endless[99].state), (33, 4));

        // At the very end of an epoch there is nothing of it left, but it counts.
        let end = options.clone().resume(State::new(0, 10));
        assert_eq!(end.clone().epochs(1).map(v).unwrap().count(), 0);
        assert_eq!(plain(&all(end.epochs(2).map(v).unwrap())), plain(&two[3..]));
        // Nor is there where the step that is left is dropped.
        let end = options.clone().tail(Tail::Drop).resume(State::new(0, 8));
        let next = end.clone().map(v).unwrap().next().unwrap().unwrap();
        assert_eq!((next.epoch, next.step, next.positions), (1, 0, 0..4));
        assert_eq!(end.epochs(1).map(v).unwrap().count(), 0);
        // The last epoch that can be counted.
        let last = options.resume(State::new(u64::MAX, 8));
        assert_eq!(last.map(v).unwrap().count(), 1);
    }
}

#[test]
fn ranks_stay_in_step_by_default() {
    // Ten samples in steps of three batches of two: the last step is four short.
    let reader = Bytes::count(10);
    let options = |rank, world| {
        let options = Loader::options(reader.clone(), Shuffle::new(10, 5)).batch_size(2);
        options.threads(1).rank(rank, world)
    };
    let steps = |options: LoaderOptions| {
        let batches = options.map(v).unwrap().take(100).map(|batch| batch.unwrap());
        batches.map(|b| (b.epoch, b.step, b.state)).collect::<Vec<_>>()
    };
    let first = steps(options(0, 3));
    assert_eq!(first.len(), 100);
    assert!((1..3).all(|rank| steps(options(rank, 3)) == first));
    // With more ranks than batches all of them have one.
    assert!((0..9).all(|rank| steps(options(rank, 9)) == steps(options(0, 9))));
    // A rank of its own repeats nothing.
    let alone = all(options(0, 1).batch_size(4).epochs(1).map(v).unwrap());
    assert_eq!(alone.iter().map(|b| b.data.len()).collect::<Vec<_>>(), [4, 4, 2]);
    // Told otherwise, rank 2 is an epoch ahead after some steps.
    let uneven = |rank| steps(options(rank, 3).tail(Tail::Uneven));
    assert_ne!(uneven(2)[1].0, uneven(0)[1].0);
}

#[test]
fn nothing_to_load_is_no_error() {
    let reader = Bytes::count(0);
    for threads in [0, 2] {
        let options = Loader::options(reader.clone(), Shuffle::new(0, 5)).threads(threads);
        assert!(options.clone().raw().unwrap().next().is_none());
        assert!(options.clone().epochs(2).raw().unwrap().next().is_none());
        assert!(options.tail(Tail::Pad).columns(Columns::new()).unwrap().next().is_none());
    }
    // An epoch that never ends is a stream.
    let reader = Bytes::count(10);
    let cycle = Cycle::new(Shuffle::new(10, 5));
    let options = Loader::options(reader, cycle).batch_size(4).threads(2);
    let seen: Vec<u64> =
        options.map(v).unwrap().take(5).flat_map(|batch| batch.unwrap().data).collect();
    let once: BTreeSet<u64> = seen[..10].iter().copied().collect();
    assert!(once.into_iter().eq(0..10) && seen.len() == 20);
}

#[test]
fn what_a_batch_is_made_of() {
    #[derive(serde::Deserialize, Debug, PartialEq)]
    struct Sample {
        key: String,
        v: u64,
    }
    let reader = Bytes::count(4);
    let typed = all(in_order(&reader, 4).typed::<Sample>().unwrap()).remove(0).data;
    let expected = |i| Sample { key: format!("k{i}"), v: i };
    assert!(typed.into_iter().eq((0..4).map(expected)));
    assert_eq!(all(in_order(&reader, 4).raw().unwrap())[0].data, reader.samples);
    let check = |record: &Record<'_>| {
        assert_eq!(record.key()?, format!("k{}", record.index()));
        assert_eq!(
            record.raw(),
            record.get_as::<Value>().and_then(|v| {
                msgpack::to_vec(&v)
                    .map_err(|e| kiste::Error::new(ErrorKind::Invalid, e.to_string()))
            })?
        );
        assert_eq!(record.bytes("key")?, format!("k{}", record.index()).as_bytes());
        assert!(record.field("w").is_err() && record.bytes("v").is_err());
        Ok(())
    };
    assert_eq!(all(in_order(&reader, 4).map(check).unwrap())[0].data.len(), 4);
}

#[test]
fn any_reader_is_loaded() {
    let dir = tempfile::tempdir().unwrap();
    let mut paths = Vec::new();
    for shard in 0..3 {
        let path = dir.path().join(format!("shard-{shard}.msgpack"));
        let mut writer = Writer::create(&path).unwrap();
        for i in shard * 40..(shard + 1) * 40 {
            writer.write_packed(&packed(&format!("k{i}"), i)).unwrap();
        }
        writer.finish().unwrap();
        paths.push(path);
    }
    let load = |reader: Arc<dyn Reader>| {
        let n = reader.len() as u64;
        let options = Loader::options(reader, Shuffle::new(n, 9)).batch_size(16).epochs(1);
        let options = options.threads(2).prefetch(true);
        let columns = Columns::new().scalar::<u64>("v").bytes("key");
        let mapped = all(options.clone().map(v).unwrap());
        for (mapped, columns) in mapped.iter().zip(options.columns(columns).unwrap()) {
            let columns = columns.unwrap();
            assert_eq!(columns.indices, mapped.indices);
            assert_eq!(columns.data.values::<u64>("v").unwrap(), mapped.data);
            let keys = mapped.data.iter().map(|v| format!("k{v}").into_bytes());
            assert!(rows_of(&columns.data, "key").into_iter().eq(keys));
        }
        let pairs = |b: Batch<Samples<u64>>| b.indices.into_iter().zip(b.data).collect::<Vec<_>>();
        mapped.into_iter().flat_map(pairs).collect::<Vec<_>>()
    };
    let expected = |n: u64, of: fn(u64) -> u64| {
        let order = Shuffle::new(n, 9).order(0).unwrap();
        (0..n).map(|p| order.index_at(p)).map(|index| (index, of(index))).collect::<Vec<_>>()
    };
    let open = |path| DatasetReader::open(path).unwrap();
    let sharded = || ShardedReader::new(paths.iter().map(open)).unwrap();
    assert_eq!(load(Arc::new(sharded())), expected(120, |index| index));
    let select = sharded().select((0..120).rev().step_by(2)).unwrap();
    assert_eq!(load(Arc::new(select)), expected(60, |index| 119 - 2 * index));
    let list = sharded().iter(..).map(|sample| sample.unwrap()).collect::<Vec<_>>();
    let list = ListReader::new(list).unwrap();
    assert_eq!(load(Arc::new(list)), expected(120, |index| index));
    let options = DatasetReader::options().storage(Arc::new(LocalStorage::positioned()));
    let positioned = options.open(&paths[1]).unwrap();
    assert_eq!(load(Arc::new(positioned)), expected(40, |index| 40 + index));
    // A bad sample of a shard is named by the shard's file and its place there.
    let data = std::fs::read(&paths[1]).unwrap();
    let range = DatasetReader::open(&paths[1]).unwrap().byte_range(7).unwrap();
    let mut broken = data.clone();
    broken[range.start as usize] = 0xc1;
    std::fs::write(&paths[1], broken).unwrap();
    let options = in_order(&Arc::new(sharded()), 120).on_error(OnError::Skip);
    let batch = options.map(v).unwrap().next().unwrap().unwrap();
    let [failure] = &batch.failures[..] else { panic!("{:?}", batch.failures) };
    assert_eq!((failure.position, failure.index, failure.key.as_deref()), (47, 47, Some("k47")));
    assert_eq!(failure.error.path(), Some(paths[1].as_path()));
    assert_eq!((failure.error.index(), failure.error.range()), (Some(7), Some(range)));
}

/// What augments a sample depends on the seed, the epoch and the position alone.
#[test]
fn random_numbers_of_a_sample_are_those_of_its_place() {
    let reader = Bytes::count(10);
    let drawn = |threads, ranks, rank, start: State| {
        let options = Loader::options(reader.clone(), Shuffle::new(10, 7)).batch_size(3).epochs(2);
        let options = options.threads(threads).rank(rank, ranks).resume(start);
        let map = |record: &Record<'_>| {
            let place = (record.epoch(), record.position());
            Ok((place, record.rng(42).next_u64()))
        };
        let batches = all(options.map(map).unwrap());
        batches.into_iter().flat_map(|batch| batch.data).collect::<BTreeSet<_>>()
    };
    let places = (0..2).flat_map(|epoch| (0..10).map(move |position| (epoch, position)));
    let of = |(epoch, position)| {
        let rng = &mut StableRng::new(&[0x7265_636f_7264, 42, epoch, position]);
        ((epoch, position), rng.next_u64())
    };
    let expected: BTreeSet<_> = places.map(of).collect();
    let start = State::new(0, 0);
    assert_eq!(drawn(0, 1, 0, start), expected);
    assert_eq!(drawn(4, 1, 0, start), expected);
    let ranks = (0..2).flat_map(|rank| drawn(2, 2, rank, start)).collect::<BTreeSet<_>>();
    assert_eq!(ranks, expected);
    let mut rest = drawn(1, 1, 0, State::new(1, 3));
    rest.retain(|((epoch, _), _)| *epoch == 1);
    assert_eq!(
        rest,
        expected.into_iter().filter(|((epoch, at), _)| *epoch == 1 && *at >= 3).collect()
    );
}
