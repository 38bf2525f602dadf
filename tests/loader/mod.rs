//! Loader: the same batches for any number of threads, resumed anywhere, despite bad samples.

mod columns;
mod errors;
mod lists;
mod order;
mod planned;
pub(crate) mod report;
mod resume;
mod threads;
mod windows;

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use kiste::format::msgpack;
use kiste::loader::{Batch, ColumnBatch, Loader, LoaderOptions, Record, Samples};
use kiste::reader::Reader;
use kiste::sampler::{BlockShuffle, DatadingsShuffle, Sampler, Sequential, Shuffle, State, Tail};
use kiste::storage::MemoryStorage;
use kiste::{DatasetReader, ErrorKind, Result, Value, Writer};

use crate::support::{Random, open_in, packed};

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

    /// This many samples, each with its index as `v`.
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

pub(crate) fn bin(bytes: &[u8]) -> Value {
    Value::Binary(bytes.to_vec())
}

/// An array as msgpack-numpy packs it.
pub(crate) fn nd(dtype: &str, shape: &[u64], data: &[u8]) -> Value {
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

/// Epoch and position alone.
fn place(state: State) -> (u64, u64) {
    (state.epoch, state.position)
}

/// What must not depend on threads.
type Plain = (u64, u64, State, Vec<u64>, Vec<u64>);

fn plain(batches: &[Batch<Samples<u64>>]) -> Vec<Plain> {
    let of =
        |b: &Batch<Samples<u64>>| (b.epoch, b.step, b.state, b.indices.clone(), b.data.clone());
    batches.iter().map(of).collect()
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
    [Tail::Uneven, Tail::Pad, Tail::Drop, Tail::Even][random.below(4)]
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

/// The bytes of each row.
fn rows_of(batch: &ColumnBatch, name: &str) -> Vec<Vec<u8>> {
    let (data, offsets) = batch.bytes(name).unwrap();
    assert_eq!((offsets.len(), offsets[0]), (batch.len() + 1, 0));
    assert_eq!(offsets[batch.len()], data.len() as u64);
    offsets.windows(2).map(|o| data[o[0] as usize..o[1] as usize].to_vec()).collect()
}

/// Waits until it is so. Gives up after minutes, so that a hang has a name.
fn wait_for(what: &str, mut so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !so() {
        assert!(start.elapsed() < Duration::from_secs(300), "{what}");
        thread::sleep(Duration::from_millis(1));
    }
}
