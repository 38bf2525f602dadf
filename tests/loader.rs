//! Loader: the same batches whatever the threads, resumed anywhere, past samples that are bad.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use kiste::format::msgpack;
use kiste::loader::{
    Batch, ColumnBatch, Columns, Element, Loader, LoaderOptions, OnError, Record, Samples,
};
use kiste::reader::{ListReader, Reader, ReaderExt, ShardedReader};
use kiste::sampler::{
    BlockShuffle, Cycle, DatadingsShuffle, Order, Partition, Sampler, Sequential, Shuffle, State,
    Tail,
};
use kiste::storage::{LocalStorage, MemoryStorage};
use kiste::{DatasetReader, ErrorKind, Result, Value, Writer};

use crate::support::{Random, golden, open_in, packed};

/// Samples of any bytes, in memory; counts how often one is fetched.
#[derive(Default)]
struct Bytes {
    samples: Vec<Vec<u8>>,
    fetched: AtomicUsize,
    prefetched: Mutex<Vec<usize>>,
}

impl Bytes {
    fn new(samples: impl IntoIterator<Item = Vec<u8>>) -> Arc<Bytes> {
        Arc::new(Bytes { samples: samples.into_iter().collect(), ..Bytes::default() })
    }

    /// So many samples, each with its index as `v`.
    fn count(n: u64) -> Arc<Bytes> {
        Bytes::new((0..n).map(|i| packed(&format!("k{i}"), i)))
    }

    /// Samples of one field `v`.
    fn of(values: impl IntoIterator<Item = Value>) -> Arc<Bytes> {
        Bytes::new(values.into_iter().map(|value| map(&[("v", value)])))
    }
}

impl Reader for Bytes {
    fn len(&self) -> usize {
        self.samples.len()
    }

    fn key(&self, index: usize) -> Result<Cow<'_, str>> {
        Ok(format!("k{index}").into())
    }

    fn find(&self, key: &str) -> Result<Option<usize>> {
        Ok(key.strip_prefix('k').and_then(|index| index.parse().ok()))
    }

    fn get_raw(&self, index: usize) -> Result<Cow<'_, [u8]>> {
        self.fetched.fetch_add(1, Ordering::SeqCst);
        Ok(Cow::Borrowed(&self.samples[index]))
    }

    fn prefetch(&self, indices: &[usize]) {
        self.prefetched.lock().unwrap().extend_from_slice(indices);
    }
}

fn map(fields: &[(&str, Value)]) -> Vec<u8> {
    let fields = fields.iter().map(|(name, value)| ((*name).into(), value.clone())).collect();
    msgpack::to_vec(&Value::Map(fields)).unwrap()
}

fn bin(bytes: &[u8]) -> Value {
    Value::Binary(bytes.to_vec())
}

/// An array as msgpack-numpy packs it.
fn nd(dtype: &str, shape: &[u64], data: &[u8]) -> Value {
    let shape = shape.iter().map(|&size| size.into()).collect();
    Value::Map(vec![
        (bin(b"nd"), true.into()),
        (bin(b"type"), dtype.into()),
        (bin(b"kind"), bin(b"")),
        (bin(b"shape"), Value::Array(shape)),
        (bin(b"data"), bin(data)),
    ])
}

/// The field `v` of a sample.
fn v(record: &Record<'_>) -> Result<u64> {
    let value = record.get()?["v"].as_u64();
    value.ok_or_else(|| kiste::Error::new(ErrorKind::Invalid, "v is no number"))
}

/// One epoch of these samples as they are stored.
fn in_order(reader: &Arc<impl Reader + 'static>, batch: u64) -> LoaderOptions {
    let sampler = Sequential::new(reader.len() as u64);
    Loader::options(reader.clone(), sampler).batch_size(batch).epochs(1)
}

fn all<D: Send>(loader: Loader<D>) -> Vec<Batch<D>> {
    loader.map(|batch| batch.unwrap()).collect()
}

/// What must not depend on threads.
type Plain = (u64, u64, State, Vec<u64>, Vec<u64>);

fn plain(batches: &[Batch<Samples<u64>>]) -> Vec<Plain> {
    let of =
        |b: &Batch<Samples<u64>>| (b.epoch, b.step, b.state, b.indices.clone(), b.data.clone());
    batches.iter().map(of).collect()
}

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

/// A sampler of some kind.
fn some_sampler(random: &mut Random, n: u64) -> Arc<dyn Sampler> {
    let seed = random.next() % 1000;
    match random.below(4) {
        0 => Arc::new(Shuffle::new(n, seed)),
        1 => Arc::new(BlockShuffle::new(n, 4, 3, seed).unwrap()),
        2 => Arc::new(DatadingsShuffle::new(n, Some(seed.into()))),
        _ => Arc::new(Sequential::new(n)),
    }
}

fn some_tail(random: &mut Random) -> Tail {
    [Tail::Uneven, Tail::Pad, Tail::Drop][random.below(3)]
}

/// The batches of all ranks.
fn ranks(
    options: &LoaderOptions,
    world: u64,
    random: &mut Random,
) -> Vec<Vec<Batch<Samples<u64>>>> {
    let mut of = |rank| {
        let threads = random.below(4);
        let options = options.clone().rank(rank, world).threads(threads).queue(random.below(5));
        let mut loader = options.map(v).unwrap();
        let mut batches = Vec::new();
        while let Some(batch) = loader.next() {
            let batch = batch.unwrap();
            assert_eq!(loader.state(), batch.state);
            batches.push(batch);
        }
        assert!(loader.next().is_none());
        batches
    };
    (0..world).map(&mut of).collect()
}

/// Epoch and position of all samples of all ranks, sorted.
fn positions(ranks: &[Vec<Batch<Samples<u64>>>]) -> Vec<(u64, u64)> {
    let batches = ranks.iter().flatten();
    let mut all: Vec<(u64, u64)> =
        batches.flat_map(|b| b.positions.clone().map(|position| (b.epoch, position))).collect();
    all.sort_unstable();
    all
}

#[test]
fn each_sample_once_an_epoch_and_resumed_anywhere() {
    let reader = Bytes::count(60);
    let mut random = Random(11);
    for case in 0..150 {
        let n = random.below(60) as u64;
        let sampler = some_sampler(&mut random, n);
        let (batch, world) = (1 + random.below(9) as u64, 1 + random.below(4) as u64);
        let (tail, epochs) = (some_tail(&mut random), 1 + random.below(3) as u64);
        let what = format!("case {case}: {n} samples, {batch} × {world}, {tail:?}, {epochs}");
        let options = Loader::options(reader.clone(), sampler.clone()).tail(tail);
        let loaded = ranks(&options.clone().batch_size(batch).epochs(epochs), world, &mut random);

        let plan = Partition::new(n, batch).unwrap().world(world).unwrap().tail(tail);
        let seen = |start: u64, step: u64| match tail {
            Tail::Drop => start + (n - start) / step * step,
            _ => n,
        };
        let epoch = |epoch, positions: std::ops::Range<u64>| positions.map(move |p| (epoch, p));
        let expected: Vec<_> =
            (0..epochs).flat_map(|e| epoch(e, 0..seen(0, batch * world))).collect();
        assert_eq!(positions(&loaded), expected, "{what}");

        for (rank, batches) in loaded.iter().enumerate() {
            for b in batches {
                let order = sampler.order(b.epoch).unwrap();
                let share = plan.batch(b.step, rank as u64);
                assert_eq!(b.positions, share.positions(), "{what}");
                let indices: Vec<u64> = share.iter().map(|p| order.index_at(p)).collect();
                assert_eq!((&b.indices, &b.data), (&indices, &indices), "{what}");
                assert_eq!(b.state, plan.state_after(b.epoch, b.step), "{what}");
                if tail != Tail::Uneven {
                    assert_eq!(b.indices.len() as u64, batch, "{what}");
                }
            }
            let steps =
                (0..epochs).flat_map(|e| (0..plan.steps_of(rank as u64)).map(move |s| (e, s)));
            assert!(batches.iter().map(|b| (b.epoch, b.step)).eq(steps), "{what}");
        }

        // Stop after some step, go on otherwise.
        if loaded[0].is_empty() {
            continue;
        }
        let state = loaded[0][random.below(loaded[0].len())].state;
        let left = epochs.saturating_sub(state.epoch);
        let (batch, world) = (1 + random.below(9) as u64, 1 + random.below(4) as u64);
        let options = options.batch_size(batch).resume(state).epochs(left);
        let resumed = ranks(&options, world, &mut random);
        let mut expected = Vec::new();
        for e in state.epoch..epochs {
            let start = if e == state.epoch { state.position } else { 0 };
            expected.extend(epoch(e, start..seen(start, batch * world)));
        }
        assert_eq!(positions(&resumed), expected, "{what}: resumed at {state:?}");
        for b in resumed.iter().flatten() {
            let order = sampler.order(b.epoch).unwrap();
            let indices = b.positions.clone().map(|p| order.index_at(p));
            let real = (b.positions.end - b.positions.start) as usize;
            assert!(b.indices[..real].iter().copied().eq(indices), "{what}: at {state:?}");
        }
    }
}

/// A thousand samples, ten of them bad in different ways.
fn damaged() -> (Arc<DatasetReader>, PathBuf, BTreeSet<u64>) {
    let (storage, path) = (MemoryStorage::new(), PathBuf::from("bad.msgpack"));
    let options = Writer::options().storage(Arc::new(storage.clone()));
    let mut writer = options.create(&path).unwrap();
    let mut bad = BTreeSet::new();
    for i in 0..1000 {
        let key = format!("k{i}");
        let mut sample = packed(&key, i);
        if i % 100 == 37 {
            bad.insert(i);
            sample = match i / 100 {
                0 => vec![0xc1; 5],
                1 => sample[..sample.len() - 1].to_vec(),
                2 => Vec::new(),
                3 => [sample, vec![0]].concat(),
                4 => map(&[("key", key.as_str().into())]),
                5 => map(&[("key", key.as_str().into()), ("v", "text".into())]),
                6 => vec![0xdf, 0xff, 0xff, 0xff, 0xff],
                7 => vec![0x93, 1, 2, 3],
                8 => vec![0xff; 1000],
                _ => vec![0x81, 0xa1, b'v'],
            };
        }
        writer.write_raw_unchecked(&key, &sample).unwrap();
    }
    writer.finish().unwrap();
    (Arc::new(open_in(&storage, &path).unwrap()), path, bad)
}

#[test]
fn an_error_names_the_sample_and_the_next_batch_is_fine() {
    let (reader, path, bad) = damaged();
    let order = Shuffle::new(1000, 3).order(0).unwrap();
    let plan = Partition::new(1000, 10).unwrap();
    for threads in [0, 2] {
        let options = Loader::options(reader.clone(), Shuffle::new(1000, 3)).batch_size(10);
        let options = options.epochs(1).threads(threads);
        let mut columns = options.clone().columns(Columns::new().scalar::<u64>("v")).unwrap();
        let mut mapped = options.map(v).unwrap();
        for step in 0..100 {
            let positions = step * 10..(step + 1) * 10;
            let first = positions.map(|p| order.index_at(p)).find(|index| bad.contains(index));
            let errors = [columns.next().unwrap().err(), mapped.next().unwrap().err()];
            assert_eq!(columns.state(), plan.state_after(0, step));
            assert_eq!(mapped.state(), plan.state_after(0, step));
            for error in errors {
                assert_eq!(error.is_some(), first.is_some(), "step {step}");
                let (Some(error), Some(index)) = (error, first) else { continue };
                assert_eq!(error.path(), Some(path.as_path()), "{error}");
                assert_eq!(error.index(), Some(index), "{error}");
                assert_eq!(error.key(), Some(format!("k{index}").as_str()), "{error}");
                assert_eq!(error.range(), Some(reader.byte_range(index as usize).unwrap()));
                assert_eq!((error.epoch(), error.step()), (Some(0), Some(step)));
                assert!(error.to_string().ends_with(&format!(", in step {step} of epoch 0")));
            }
        }
        assert!(columns.next().is_none() && mapped.next().is_none());
    }
}

#[test]
fn an_error_at_another_file_keeps_both_places() {
    let (reader, path, _) = damaged();
    // Of a file of its own, of the dataset itself, of the dataset with a place, and of no file.
    type Decode = fn(&Record<'_>) -> Result<u64>;
    let cases: [(Decode, &str, Option<&str>); 4] = [
        (
            |_| {
                let source = std::io::Error::from_raw_os_error(5);
                Err(kiste::Error::io("labels.txt", source))
            },
            "labels.txt: ",
            Some("labels.txt"),
        ),
        (|_| Err(kiste::Error::new(ErrorKind::Io, "text").at("bad.msgpack")), "text", None),
        (
            |record| {
                let error = kiste::Error::new(ErrorKind::Io, "text").at("bad.msgpack");
                Err(error.with_index(record.index() as u64).with_range(1..2))
            },
            "text",
            None,
        ),
        (|_| Err(kiste::Error::new(ErrorKind::Io, "text")), "text", None),
    ];
    for (decode, message, other) in cases {
        let options = in_order(&reader, 2).resume(State { epoch: 0, position: 4 }).epochs(1);
        let raised = options.clone().map(decode).unwrap().next().unwrap().unwrap_err();
        let options = options.on_error(OnError::Skip);
        let listed = options.map(decode).unwrap().next().unwrap().unwrap().failures.remove(0).error;
        assert_eq!((raised.epoch(), raised.step()), (Some(0), Some(0)));
        for error in [raised, listed] {
            assert_eq!((error.kind(), error.path()), (ErrorKind::Io, Some(path.as_path())));
            assert_eq!((error.index(), error.key()), (Some(4), Some("k4")));
            assert!(error.range().is_some());
            assert!(error.message().starts_with(message), "{error}");
            let source = std::error::Error::source(&error);
            let source = source.map(|source| source.downcast_ref::<kiste::Error>().unwrap());
            assert_eq!(source.and_then(kiste::Error::path), other.map(Path::new));
            // And what the operating system said.
            let deepest = source.and_then(|source| std::error::Error::source(source));
            assert_eq!(deepest.is_some(), other.is_some());
        }
    }
    // A reader in memory has no file to be taken for.
    let decode: Decode = |_| Err(kiste::Error::new(ErrorKind::Io, "text").at("labels.txt"));
    let error = in_order(&Bytes::count(3), 3).map(decode).unwrap().next().unwrap().unwrap_err();
    assert_eq!((error.path(), error.index()), (None, Some(0)));
    assert_eq!(error.message(), "labels.txt: text");
}

/// Each bad sample is reported once, and all of it is said.
fn check_failures<D>(reader: &DatasetReader, batches: &[Batch<D>], bad: &BTreeSet<u64>) {
    let order = Shuffle::new(1000, 3).order(0).unwrap();
    let failures: Vec<_> = batches.iter().flat_map(|batch| &batch.failures).collect();
    assert_eq!(failures.len(), bad.len());
    assert_eq!(failures.iter().map(|f| f.index).collect::<BTreeSet<_>>(), *bad);
    for failure in failures {
        let (index, key) = (failure.index, format!("k{}", failure.index));
        assert_eq!(order.index_at(failure.position), index);
        assert_eq!(failure.key.as_ref(), Some(&key));
        assert_eq!(failure.error.path(), Some(reader.path()));
        assert_eq!(failure.error.index(), Some(index));
        assert_eq!(failure.error.key(), Some(key.as_str()));
        assert_eq!(failure.error.range(), Some(reader.byte_range(index as usize).unwrap()));
    }
    for (step, batch) in (0..).zip(batches) {
        assert_eq!(batch.positions, step * 10..(step + 1) * 10);
        assert!(batch.failures.iter().all(|f| batch.positions.contains(&f.position)));
    }
}

/// A reader that the operating system lets down.
struct Broken;

impl Reader for Broken {
    fn len(&self) -> usize {
        3
    }

    fn key(&self, index: usize) -> Result<Cow<'_, str>> {
        Ok(index.to_string().into())
    }

    fn find(&self, _: &str) -> Result<Option<usize>> {
        Ok(None)
    }

    fn get_raw(&self, index: usize) -> Result<Cow<'_, [u8]>> {
        if index == 1 {
            return Err(
                kiste::Error::io("data", std::io::Error::from_raw_os_error(5)).with_index(1)
            );
        }
        Ok(Cow::Owned(packed(&index.to_string(), index as u64)))
    }
}

#[test]
fn what_the_operating_system_said_is_kept() {
    let reader = Arc::new(Broken);
    let options = in_order(&reader, 3).threads(1);
    let raised = options.clone().raw().unwrap().next().unwrap().unwrap_err();
    let mut batch = options.on_error(OnError::Skip).map(v).unwrap().next().unwrap().unwrap();
    assert_eq!(batch.data, [0, 2]);
    for error in [raised, batch.failures.remove(0).error] {
        assert_eq!((error.kind(), error.index(), error.key()), (ErrorKind::Io, Some(1), Some("1")));
        assert_eq!(error.path(), Some(Path::new("data")));
        let source = std::error::Error::source(&error).unwrap();
        let source = source.downcast_ref::<std::io::Error>().unwrap();
        assert_eq!(source.raw_os_error(), Some(5));
    }
}

#[test]
fn bad_samples_are_skipped_and_reported_once() {
    let (reader, _, bad) = damaged();
    let order = Shuffle::new(1000, 3).order(0).unwrap();
    let options = Loader::options(reader.clone(), Shuffle::new(1000, 3)).batch_size(10);
    let options = options.epochs(1).threads(2).on_error(OnError::Skip);
    let mapped = all(options.clone().map(v).unwrap());
    let columns = all(options.columns(Columns::new().scalar::<u64>("v")).unwrap());
    check_failures(&reader, &mapped, &bad);
    check_failures(&reader, &columns, &bad);
    for (mapped, columns) in mapped.iter().zip(&columns) {
        let indices = mapped.positions.clone().map(|p| order.index_at(p));
        let good: Vec<u64> = indices.filter(|index| !bad.contains(index)).collect();
        assert_eq!((&mapped.indices, &mapped.data), (&good, &good));
        assert_eq!(columns.indices, good);
        assert_eq!(columns.data.values::<u64>("v").unwrap(), good);
        assert_eq!(columns.data.len(), good.len());
    }
}

#[test]
fn a_placeholder_takes_the_place_of_a_bad_sample() {
    let (reader, _, bad) = damaged();
    let options = Loader::options(reader.clone(), Shuffle::new(1000, 3)).batch_size(10);
    let options = options.epochs(1).threads(2).on_error(OnError::Placeholder);
    let mapped = all(options.clone().map_or(v, |failure| 10_000 + failure.index).unwrap());
    // The key of some bad samples can be read before `v` cannot.
    let fields = Columns::new().bytes("key").scalar::<u64>("v");
    let fields = fields.row::<u64>("row", &[2], |record, row| {
        row[0] = v(record)?;
        row[1] = row[0];
        Ok(())
    });
    let columns = all(options.clone().columns(fields).unwrap());
    check_failures(&reader, &mapped, &bad);
    check_failures(&reader, &columns, &bad);
    for (mapped, columns) in mapped.iter().zip(&columns) {
        let is_bad = |index: &u64| bad.contains(index);
        let instead = |other: fn(u64) -> u64| {
            let of = |&index: &u64| if is_bad(&index) { other(index) } else { index };
            mapped.indices.iter().map(of).collect::<Vec<u64>>()
        };
        assert_eq!(mapped.indices.len(), 10);
        assert_eq!(mapped.data, instead(|index| index + 10_000));
        assert_eq!(columns.indices, mapped.indices);
        assert_eq!(columns.data.len(), 10);
        assert_eq!(columns.data.values::<u64>("v").unwrap(), instead(|_| 0));
        let twice: Vec<u64> = instead(|_| 0).into_iter().flat_map(|v| [v, v]).collect();
        assert_eq!(columns.data.values::<u64>("row").unwrap(), twice);
        let keys = mapped.indices.iter().map(|index| match is_bad(index) {
            true => Vec::new(),
            false => format!("k{index}").into_bytes(),
        });
        assert!(rows_of(&columns.data, "key").into_iter().eq(keys));
    }
    // Without a placeholder there is none to take.
    let error = options.map(v).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Invalid);
}

#[test]
fn a_bad_sample_that_comes_again_as_padding_is_reported_once() {
    // Of all ranks together, whether it comes again in another rank, batch, or the same batch.
    let bad = BTreeSet::from([0, 1, 5]);
    let sample = |i: u64| if [0, 1, 5].contains(&i) { vec![0xc1] } else { packed("k", i) };
    let reader = Bytes::new((0..10).map(sample));
    for (batch, world) in [(4, 1), (4, 2), (3, 4), (16, 1), (7, 5)] {
        for policy in [OnError::Skip, OnError::Placeholder] {
            let mut reported = Vec::new();
            let mut samples = 0;
            for rank in 0..world {
                let options = in_order(&reader, batch).threads(1).epochs(2).rank(rank, world);
                let options = options.tail(Tail::Pad).on_error(policy);
                for batch in all(options.columns(Columns::new().scalar::<u64>("v")).unwrap()) {
                    let real = batch.indices.len() - batch.padding as usize;
                    let positions: Vec<u64> = batch.positions.clone().collect();
                    let of = |at: &&u64| policy == OnError::Placeholder || !bad.contains(at);
                    // In order, the index is the position.
                    assert!(batch.indices[..real].iter().eq(positions.iter().filter(of)));
                    assert!(batch.failures.iter().all(|f| batch.positions.contains(&f.position)));
                    reported.extend(batch.failures.iter().map(|f| (batch.epoch, f.index)));
                    samples += real;
                }
            }
            reported.sort_unstable();
            let expected = (0..2).flat_map(|epoch| bad.iter().map(move |&index| (epoch, index)));
            assert!(reported.into_iter().eq(expected), "{batch} × {world}, {policy:?}");
            assert_eq!(samples, if policy == OnError::Skip { 14 } else { 20 });
        }
    }
}

/// The bytes of each row.
fn rows_of(batch: &ColumnBatch, name: &str) -> Vec<Vec<u8>> {
    let (data, offsets) = batch.bytes(name).unwrap();
    assert_eq!((offsets.len(), offsets[0]), (batch.len() + 1, 0));
    assert_eq!(offsets[batch.len()], data.len() as u64);
    offsets.windows(2).map(|o| data[o[0] as usize..o[1] as usize].to_vec()).collect()
}

/// The values of a column `v` of these samples, `None` for each that is refused.
fn read<T: Element>(reader: &Arc<Bytes>, shape: Option<&[usize]>) -> Vec<Option<Vec<T>>> {
    let columns = match shape {
        Some(shape) => Columns::new().array::<T>("v", shape),
        None => Columns::new().scalar::<T>("v"),
    };
    let options = in_order(reader, 1).on_error(OnError::Skip).threads(0);
    let one = |batch: Batch<ColumnBatch>| {
        assert_eq!(batch.data.len() + batch.failures.len(), 1);
        (!batch.data.is_empty()).then(|| batch.data.values::<T>("v").unwrap().to_vec())
    };
    all(options.columns(columns).unwrap()).into_iter().map(one).collect()
}

macro_rules! check_integers {
    ($reader:expr, $numbers:expr, $($type:ty)*) => {$({
        let expected: Vec<Option<Vec<$type>>> =
            $numbers.iter().map(|&n| <$type>::try_from(n).ok().map(|n| vec![n])).collect();
        assert_eq!(read::<$type>($reader, None), expected, stringify!($type));
    })*};
}

#[test]
fn scalars_are_told_or_refused() {
    let mut numbers: Vec<i128> = vec![0];
    for bits in [5, 7, 8, 15, 16, 31, 32, 63, 64] {
        let power = 1i128 << bits;
        numbers.extend([power - 1, power, power + 1, -power + 1, -power, -power - 1]);
    }
    numbers.retain(|n| (i64::MIN.into()..=u64::MAX.into()).contains(n));
    let value = |&n: &i128| match u64::try_from(n) {
        Ok(n) => Value::from(n),
        Err(_) => Value::from(n as i64),
    };
    let reader = Bytes::of(numbers.iter().map(value));
    check_integers!(&reader, numbers, u8 u16 u32 u64 i8 i16 i32 i64);
    let floats = |n: &i128| Some(vec![*n as f64]);
    assert_eq!(read::<f64>(&reader, None), numbers.iter().map(floats).collect::<Vec<_>>());
    let floats = |n: &i128| Some(vec![*n as f32]);
    assert_eq!(read::<f32>(&reader, None), numbers.iter().map(floats).collect::<Vec<_>>());

    let others = [
        Value::F64(1.5),
        Value::F32(0.1),
        Value::F64(1e300),
        Value::F64(f64::INFINITY),
        "1".into(),
        Value::Nil,
        Value::Array(vec![1.into()]),
        bin(&[1]),
        bin(&1u64.to_le_bytes()),
        Value::Ext(1, vec![1]),
        Value::Map(vec![]),
        true.into(),
    ];
    let reader = Bytes::of(others);
    // What has no fraction, and is no number at all, is not guessed at.
    let mut expected = vec![None; 12];
    expected[11] = Some(vec![1]);
    assert_eq!(read::<u64>(&reader, None), expected);
    let mut expected = vec![None; 12];
    expected[11] = Some(vec![1]);
    assert_eq!(read::<u8>(&reader, None), expected);
    let found = read::<f64>(&reader, None);
    let expected =
        [1.5, 0.1f32.into(), 1e300, f64::INFINITY].map(|number| Some(vec![number])).to_vec();
    assert_eq!(found[..4], expected);
    assert!(found[4..11].iter().all(Option::is_none));
    let found = read::<f32>(&reader, None);
    // 1e300 is finite and would not be.
    let expected = [Some(vec![1.5]), Some(vec![0.1]), None, Some(vec![f32::INFINITY])];
    assert_eq!(found[..4], expected);
    // NumPy's own scalars are numbers too.
    let reader = Bytes::of([nd("<i4", &[], &7i32.to_le_bytes()), nd("<i4", &[1], &[0; 4])]);
    assert_eq!(read::<i32>(&reader, None), [Some(vec![7]), None]);
}

#[test]
fn a_missing_field_is_an_error() {
    let reader = Bytes::new([map(&[("w", 1.into())]), map(&[("v", 1.into())]), map(&[])]);
    assert_eq!(read::<u8>(&reader, None), [None, Some(vec![1]), None]);
    for columns in [Columns::new().scalar::<u8>("v"), Columns::new().bytes("v")] {
        let mut loader = in_order(&reader, 3).columns(columns).unwrap();
        let error = loader.next().unwrap().unwrap_err();
        assert!(error.to_string().contains("\"v\""), "{error}");
        assert_eq!((error.index(), error.key()), (Some(0), Some("k0")));
    }
    // Also beyond the 64th column.
    let names: Vec<String> = (0..70).map(|i| format!("c{i}")).collect();
    let whole: Vec<(&str, Value)> = names.iter().map(|name| (name.as_str(), 1.into())).collect();
    for missing in [0, 5, 64, 69] {
        let mut part = whole.clone();
        part.remove(missing);
        let reader = Bytes::new([map(&part), map(&whole)]);
        let columns = names.iter().fold(Columns::new(), |columns, name| columns.scalar::<u8>(name));
        let options = in_order(&reader, 2).on_error(OnError::Skip);
        let batch = options.columns(columns).unwrap().next().unwrap().unwrap();
        assert_eq!(batch.indices, [1], "without {missing}");
        assert!(names.iter().all(|name| batch.data.array::<u8>(name).unwrap().sum() == 1));
    }
}

#[test]
fn an_error_of_a_column_says_which_one_and_what_is_wrong() {
    let error = |value: Value, columns: Columns| {
        let reader = Bytes::new([map(&[("w", 1.into()), ("v", value)])]);
        in_order(&reader, 1).columns(columns).unwrap().next().unwrap().unwrap_err()
    };
    let scalar = || Columns::new().scalar::<u8>("v");
    let array = || Columns::new().array::<f32>("v", &[2]);
    // Samples that are fine but not as asked for are not damaged.
    for (value, columns, expected) in [
        (256.into(), scalar(), "field \"v\": expected a number of type u1, found 256"),
        ((-1).into(), scalar(), "field \"v\": expected a number of type u1, found -1"),
        (1.5.into(), scalar(), "field \"v\": expected a number of type u1, found 1.5"),
        ("a".into(), scalar(), "field \"v\": expected a number, found str"),
        (1.into(), Columns::new().bytes("v"), "field \"v\": expected bytes or text, found int"),
        (1.into(), Columns::new().bytes("x"), "there is no field \"x\""),
        (1.into(), array(), "field \"v\": expected an array, found int"),
        (bin(&[1]), array(), "field \"v\": expected 8 bytes for 2 of f4, found 1"),
        (
            nd("<f8", &[2], &[0; 16]),
            array(),
            "field \"v\": expected an array of type f4 and shape [2], \
             found type \"<f8\" and shape [2]",
        ),
    ] {
        let error = error(value, columns);
        assert_eq!((error.kind(), error.message()), (ErrorKind::Invalid, expected));
    }
    // What is no msgpack is.
    let reader = Bytes::new([vec![0x81, 0xa1, b'v', 0xc1]]);
    let error = in_order(&reader, 1).columns(scalar()).unwrap().next().unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Damaged);
}

#[test]
fn arrays_that_python_packed() {
    let reader = Arc::new(DatasetReader::open(golden("arrays")).unwrap());
    fn check<T: Element + PartialEq + std::fmt::Debug>(
        reader: &Arc<DatasetReader>,
        dtypes: &[&str],
    ) {
        for little in dtypes {
            let mut found = Vec::new();
            for dtype in [little.to_string(), little.replace('<', ">")] {
                let key = format!("{dtype} (2, 3)");
                let index = reader.find(&key).unwrap().unwrap();
                let part = Arc::new(reader.clone().select([index]).unwrap());
                let columns = Columns::new().array::<T>("array", &[2, 3]);
                let batch = in_order(&part, 1).columns(columns).unwrap().next().unwrap().unwrap();
                let array = batch.data.array::<T>("array").unwrap();
                assert_eq!(array.shape(), [1, 2, 3]);
                // As NumPy has it: the bytes are in the value.
                let value = reader.get(index).unwrap();
                let Some(msgpack::numpy::Special::Array(data)) =
                    msgpack::numpy::recognise(&value["array"])
                else {
                    panic!("{key} is no array");
                };
                let size = size_of::<T>();
                let foreign = dtype.starts_with('>') == cfg!(target_endian = "little");
                let elements = data.bytes().chunks(size).map(|bytes| {
                    let element = T::from_memory(bytes);
                    if foreign { element.swap_bytes() } else { element }
                });
                assert!(array.iter().copied().eq(elements), "{key}");
                // No other type and no other shape.
                for columns in [
                    Columns::new().array::<T>("array", &[3, 2]),
                    Columns::new().array::<T>("array", &[6]),
                    Columns::new().array::<T>("array", &[2, 3, 1]),
                ] {
                    assert!(in_order(&part, 1).columns(columns).unwrap().next().unwrap().is_err());
                }
                found.push(dtype);
            }
            assert_eq!(found.len(), 2);
        }
    }
    check::<u8>(&reader, &["u1", "?"]);
    check::<i8>(&reader, &["i1"]);
    check::<i16>(&reader, &["<i2"]);
    check::<u16>(&reader, &["<u2"]);
    check::<i32>(&reader, &["<i4"]);
    check::<u32>(&reader, &["<u4"]);
    check::<i64>(&reader, &["<i8"]);
    check::<u64>(&reader, &["<u8"]);
    check::<f32>(&reader, &["<f4"]);
    check::<f64>(&reader, &["<f8"]);
    check::<bool>(&reader, &["?"]);
    check::<half::f16>(&reader, &["<f2"]);
    check::<num_complex::Complex<f32>>(&reader, &["<c8"]);
    check::<num_complex::Complex<f64>>(&reader, &["<c16"]);

    // Whatever else is in there is refused or of this very type; nothing panics.
    let columns = || Columns::new().array::<f32>("array", &[2, 3]);
    let options = in_order(&reader, 7).on_error(OnError::Skip);
    let batches = all(options.columns(columns()).unwrap());
    let read: usize = batches.iter().map(|batch| batch.data.len()).sum();
    let failed: usize = batches.iter().map(|batch| batch.failures.len()).sum();
    assert_eq!(read + failed, reader.len());
    assert!(read >= 2);
}

#[test]
fn arrays_of_both_byte_orders_bytes_and_nothing_else() {
    let little = [1, 0, 0, 0, 2, 0, 0, 0];
    let big = [0, 0, 0, 1, 0, 0, 0, 2];
    let pair = Some(vec![1u32, 2]);
    let list = [
        (nd("<u4", &[2], &little), pair.clone()),
        (nd(">u4", &[2], &big), pair.clone()),
        (nd("=u4", &[2], &little), pair.clone()),
        (bin(&little), pair),
        (nd("|u4", &[2], &little), None),
        (nd("u4", &[2], &little), None),
        (nd("<i4", &[2], &little), None),
        (nd("<f4", &[2], &little), None),
        (nd("<u8", &[2], &[little, big].concat()), None),
        (nd("<u4", &[2, 1], &little), None),
        (nd("<u4", &[1], &little[..4]), None),
        (nd("<u4", &[2], &little[..7]), None),
        (nd("<u4", &[3], &little), None),
        (nd("", &[2], &little), None),
        (nd("ß4", &[2], &little), None),
        (nd("<", &[2], &little), None),
        (nd("xu4", &[2], &little), None),
        (bin(&little[..7]), None),
        (bin(&[]), None),
        ("12345678".into(), None),
        (1.into(), None),
        (Value::Array(vec![1.into(), 2.into()]), None),
        (Value::Map(vec![]), None),
        (Value::Map(vec![(bin(b"data"), bin(&little))]), None),
        (Value::Map(vec![(1.into(), bin(&little))]), None),
        (Value::Nil, None),
    ];
    let reader = Bytes::of(list.iter().map(|(value, _)| value.clone()));
    let found = read::<u32>(&reader, Some(&[2]));
    for ((value, expected), found) in list.iter().zip(found) {
        assert_eq!(&found, expected, "{value}");
    }
    // An array without elements is one.
    let reader = Bytes::of([nd("<u4", &[0, 3], &[]), nd("<u4", &[3, 0], &[])]);
    assert_eq!(read::<u32>(&reader, Some(&[0, 3])), [Some(vec![]), None]);
    let columns = Columns::new().array::<u32>("v", &[0, 3]);
    let options = in_order(&reader, 2).on_error(OnError::Placeholder);
    let batch = options.columns(columns).unwrap().next().unwrap().unwrap();
    assert_eq!(batch.data.array::<u32>("v").unwrap().shape(), [2, 0, 3]);
}

#[test]
fn of_two_fields_with_one_name_the_last_counts() {
    let twice = |a: Value, b: Value| map(&[("v", a), ("w", 5.into()), ("v", b)]);
    let reader = Bytes::new([twice(1.into(), 2.into()), twice(3.into(), 4.into())]);
    let batch = in_order(&reader, 2).columns(Columns::new().scalar::<u8>("v")).unwrap();
    assert_eq!(all(batch)[0].data.values::<u8>("v").unwrap(), [2, 4]);

    // Whatever the first one is.
    let none = [twice("text".into(), 2.into()), twice(2.into(), "text".into())];
    assert_eq!(read::<u8>(&Bytes::new(none), None), [Some(vec![2]), None]);

    let text = |a: &str, b: &str| twice(a.into(), b.into());
    let reader = Bytes::new([text("long", "ab"), text("", "cde"), text("f", ""), text("g", "h")]);
    let columns = Columns::new().bytes("v").scalar::<u8>("w");
    let batches = all(in_order(&reader, 4).columns(columns).unwrap());
    let expected = ["ab", "cde", "", "h"].map(|text| text.as_bytes().to_vec());
    assert_eq!(rows_of(&batches[0].data, "v"), expected);
    // As for one sample.
    let batch = in_order(&reader, 4).map(|record| Ok(record.bytes("v")?.to_vec())).unwrap();
    assert_eq!(all(batch)[0].data, expected);
}

#[test]
fn a_field_whose_name_is_no_text_is_passed_over() {
    let sample = Value::Map(vec![
        (1.into(), 2.into()),
        (bin(b"v"), 3.into()),
        ("v".into(), 4.into()),
        (Value::Array(vec![]), Value::Map(vec![])),
        (bin(b"v"), 5.into()),
    ]);
    let reader = Bytes::new([msgpack::to_vec(&sample).unwrap()]);
    assert_eq!(read::<u8>(&reader, None), [Some(vec![4])]);
}

#[test]
fn bad_rows_leave_the_others_as_they_are() {
    let n = 6;
    let good = |i: usize| {
        let (number, text) = (i as u64 + 1, "x".repeat(i + 1));
        map(&[("t", text.as_str().into()), ("v", number.into())])
    };
    let cases: [&[usize]; 7] = [&[0], &[5], &[2, 3], &[0, 5], &[0, 1, 2, 3, 4, 5], &[], &[4, 5]];
    for policy in [OnError::Skip, OnError::Placeholder] {
        for bad in cases {
            // A batch of good ones between those with bad ones, so that buffers have seen data.
            let sample = |i: usize| match i >= n && i < 2 * n && bad.contains(&(i - n)) {
                // `t` can be read before `v` cannot.
                true => map(&[("t", "garbage".into()), ("v", "no number".into())]),
                false => good(i % n),
            };
            let reader = Bytes::new((0..3 * n).map(sample));
            let columns = Columns::new().bytes("t").scalar::<u32>("v").row::<i64>(
                "row",
                &[3],
                |record, row| {
                    row[0] = -1;
                    row[2] = v(record)? as i64;
                    Ok(())
                },
            );
            let options = in_order(&reader, n as u64).on_error(policy);
            for (step, batch) in (0..).zip(options.threads(0).columns(columns).unwrap()) {
                let batch = batch.unwrap();
                let bad = if step == 1 { bad } else { &[] };
                let rows: Vec<usize> =
                    (0..n).filter(|i| policy == OnError::Placeholder || !bad.contains(i)).collect();
                let is_bad = |i: &usize| bad.contains(i);
                let number = |i: &usize| if is_bad(i) { 0 } else { *i as u32 + 1 };
                let numbers: Vec<u32> = rows.iter().map(number).collect();
                let texts = rows.iter().map(|i| vec![b'x'; number(i) as usize]);
                let of_row = |i: &usize| match is_bad(i) {
                    true => [0; 3],
                    false => [-1, 0, number(i).into()],
                };
                let data = &batch.data;
                assert_eq!(data.len(), rows.len());
                assert_eq!(batch.indices.len(), rows.len());
                assert_eq!(data.array::<u32>("v").unwrap().len(), rows.len());
                assert_eq!(data.values::<u32>("v").unwrap(), numbers, "{policy:?} {bad:?}");
                assert!(rows_of(data, "t").into_iter().eq(texts), "{policy:?} {bad:?}");
                let filled: Vec<i64> = rows.iter().flat_map(of_row).collect();
                assert_eq!(data.values::<i64>("row").unwrap(), filled, "{policy:?} {bad:?}");
                assert_eq!(data.array::<i64>("row").unwrap().shape(), [rows.len(), 3]);
                assert_eq!(batch.failures.len(), bad.len());
            }
        }
    }
}

#[test]
fn a_buffer_that_is_used_again_has_nothing_of_the_batch_before() {
    // Fills nothing for odd samples: what is there then must be zeros, in each batch.
    let reader = Bytes::count(64);
    for threads in [0, 1, 3] {
        let columns = Columns::new().bytes("key").row::<u64>("row", &[4], |record, row| {
            assert_eq!(row, [0; 4]);
            if record.index() % 2 == 0 {
                row.fill(record.index() as u64 + 1);
            }
            Ok(())
        });
        let options = Loader::options(reader.clone(), Shuffle::new(64, 1)).batch_size(7).epochs(5);
        let loader = options.threads(threads).queue(2).columns(columns).unwrap();
        let mut kept = Vec::new();
        let check = |batch: &Batch<ColumnBatch>| {
            let array = batch.data.array::<u64>("row").unwrap();
            for (row, index) in array.outer_iter().zip(&batch.indices) {
                let expected = if index % 2 == 0 { index + 1 } else { 0 };
                assert!(row.iter().all(|&value| value == expected));
            }
            let keys = batch.indices.iter().map(|index| format!("k{index}").into_bytes());
            assert!(rows_of(&batch.data, "key").into_iter().eq(keys));
        };
        for (at, batch) in loader.enumerate() {
            let batch = batch.unwrap();
            check(&batch);
            // Some are held while loading goes on, and must not change.
            if at % 3 == 0 {
                kept.push(batch);
            }
        }
        kept.iter().for_each(check);
    }
}

#[test]
fn a_column_is_asked_for_by_its_name_and_type() {
    let reader = Bytes::count(3);
    let columns = Columns::new().scalar::<u64>("v").bytes("key");
    let batch = all(in_order(&reader, 3).columns(columns).unwrap()).remove(0).data;
    assert_eq!(batch.array::<u64>("v").unwrap().shape(), [3]);
    let errors = [
        batch.array::<u64>("w").unwrap_err(),
        batch.array::<i64>("v").unwrap_err(),
        batch.array::<u8>("key").unwrap_err(),
        batch.values::<f64>("v").unwrap_err(),
        batch.bytes("v").unwrap_err(),
        batch.bytes("nothing").unwrap_err(),
    ];
    for error in errors {
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert!(error.to_string().contains("\"v\", \"key\""), "{error}");
    }
    // No columns at all still counts.
    let batch = all(in_order(&reader, 3).columns(Columns::new()).unwrap()).remove(0);
    assert_eq!((batch.data.len(), batch.indices.len()), (3, 3));
}

#[test]
fn two_columns_of_one_name_are_refused() {
    let reader = Bytes::count(3);
    let row = |columns: Columns| columns.row::<u64>("v", &[], |_, _| Ok(()));
    for columns in [
        Columns::new().scalar::<u64>("v").bytes("v"),
        row(Columns::new().scalar::<u64>("v")),
        row(row(Columns::new())),
    ] {
        let error = in_order(&reader, 3).columns(columns).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert!(error.to_string().contains("\"v\""), "{error}");
    }
}

/// Waits until it is so, at most some seconds.
fn wait_for(what: &str, so: impl Fn() -> bool) {
    let start = Instant::now();
    while !so() {
        assert!(start.elapsed() < Duration::from_secs(10), "{what}");
        thread::sleep(Duration::from_millis(1));
    }
}

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
    assert!(Arc::strong_count(&reader) > 2);
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
    assert_eq!(loader.state(), State { epoch: 0, position: 10 });
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
    refused(options.clone().resume(State { epoch: 0, position: 11 }));
    drop(options);
    assert_eq!(Arc::strong_count(&reader), 1);
}

/// As stored; cannot order the epochs from `fails` on, and waits before it orders those from `waits`
/// on until it is let.
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
            wait_for("nobody lets it go on", || self.go_on.load(Ordering::SeqCst));
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
                assert_eq!(loader.state(), State { epoch: 2, position: 0 });
            }
        }
    }
}

#[test]
fn an_order_in_the_making_keeps_nobody_from_this_epoch() {
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
        assert_eq!(loader.state(), State::default());

        let two = all(options.clone().epochs(2).map(v).unwrap());
        assert_eq!(two.iter().map(|b| b.epoch).collect::<Vec<_>>(), [0, 0, 0, 1, 1, 1]);
        assert_eq!(two[2].state, State { epoch: 1, position: 0 });
        assert_ne!(two[0].indices, two[3].indices);

        let endless: Vec<_> =
            options.clone().map(v).unwrap().take(100).map(|batch| batch.unwrap()).collect();
        assert_eq!(plain(&endless[..6]), plain(&two));
        assert_eq!(endless[99].state, State { epoch: 33, position: 4 });

        // At the very end of an epoch there is nothing of it left, but it counts.
        let end = options.clone().resume(State { epoch: 0, position: 10 });
        assert_eq!(end.clone().epochs(1).map(v).unwrap().count(), 0);
        assert_eq!(plain(&all(end.epochs(2).map(v).unwrap())), plain(&two[3..]));
        // Nor is there where the step that is left is dropped.
        let end = options.clone().tail(Tail::Drop).resume(State { epoch: 0, position: 8 });
        let next = end.clone().map(v).unwrap().next().unwrap().unwrap();
        assert_eq!((next.epoch, next.step, next.positions), (1, 0, 0..4));
        assert_eq!(end.epochs(1).map(v).unwrap().count(), 0);
        // The last epoch that can be counted.
        let last = options.resume(State { epoch: u64::MAX, position: 8 });
        assert_eq!(last.map(v).unwrap().count(), 1);
    }
}

#[test]
fn after_the_last_batch_all_ranks_are_at_the_same_state() {
    // Rank 1 has a batch less than rank 0.
    let reader = Bytes::count(10);
    for epochs in [1, 2] {
        for rank in 0..3 {
            let options = Loader::options(reader.clone(), Shuffle::new(10, 5)).batch_size(2);
            let options = options.rank(rank, 3).tail(Tail::Uneven);
            let mut loader = options.epochs(epochs).map(v).unwrap();
            loader.by_ref().for_each(|batch| drop(batch.unwrap()));
            assert_eq!(loader.state(), State { epoch: epochs, position: 0 }, "rank {rank}");
        }
    }
}

#[test]
fn ranks_stay_in_step_unless_told_otherwise() {
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
            indices(options.map_or(decode, |_| Vec::new()).unwrap())
        },
        // Much more than was packed, and nobody but the caller knows.
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
fn the_storage_is_told_what_comes_next() {
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
    let sharded = || ShardedReader::open(&paths).unwrap();
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

#[test]
fn a_shape_that_no_machine_can_hold_is_refused() {
    let reader = Arc::new(ListReader::new(Vec::<Value>::new()).unwrap());
    let columns = Columns::new().array::<f32>("x", &[usize::MAX / 2, 3]);
    let options = Loader::options(reader, Sequential::new(0));
    assert_eq!(options.columns(columns).unwrap_err().kind(), ErrorKind::Limit);
}
