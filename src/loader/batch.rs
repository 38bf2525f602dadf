//! One batch: fetching its samples, decoding them, and what happens to those that fail.

use std::borrow::Cow;
use std::cell::Cell;
use std::ops::Range;

use serde::Deserialize;

use super::report::{Lane, Stage};
use crate::error::{Error, ErrorKind, Result};
use crate::format::msgpack::{self, Cursor, Value};
use crate::reader::{FieldContent, Reader, not_of_type};
use crate::sampler::State;
use crate::sampler::rng::StableRng;

/// How to treat a sample that cannot be read or decoded.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnError {
    /// The batch is an error, which also names epoch and step. A caller that continues with the
    /// next batch skips all samples of this one.
    #[default]
    Raise,
    /// The sample is left out: the batch is shorter.
    Skip,
    /// A placeholder takes its place: see [`LoaderOptions::map_or_else`](super::LoaderOptions::map_or_else).
    Placeholder,
}

/// A sample that could not be read or decoded.
#[derive(Debug)]
#[non_exhaustive]
pub struct Failure {
    /// Its position in the epoch.
    pub position: u64,
    /// Its index in the reader.
    pub index: u64,
    /// Its key, if that can be read.
    pub key: Option<String>,
    /// The error, with file, index, key and byte range if known.
    pub error: Error,
}

/// One batch.
#[derive(Debug)]
#[non_exhaustive]
pub struct Batch<D> {
    /// The epoch.
    pub epoch: u64,
    /// The step in that epoch, counted from where it was started or resumed.
    pub step: u64,
    /// Where the run is once all ranks have done this step.
    pub state: State,
    /// The positions of the batch in the epoch, without padding.
    pub positions: Range<u64>,
    /// The number of its bucket or shape, if batches are [planned](super::Loader::planned) with some.
    pub bucket: Option<u32>,
    /// The indices of the samples in `data`, in its order.
    pub indices: Vec<u64>,
    /// The samples.
    pub data: D,
    /// How many samples at the end only fill up the batch ([`Tail::Pad`]). They occur elsewhere in
    /// this epoch, so an evaluation leaves them out.
    ///
    /// [`Tail::Pad`]: crate::sampler::Tail::Pad
    pub padding: u64,
    /// The samples that could not be read. Each is listed once per epoch: one that is repeated as
    /// padding is skipped or replaced without being listed again.
    pub failures: Vec<Failure>,
}

/// Samples one by one.
pub type Samples<T> = Vec<T>;

/// A sample that was fetched, on its way into a batch.
pub struct Record<'a> {
    reader: &'a dyn Reader,
    index: usize,
    epoch: u64,
    position: u64,
    raw: &'a [u8],
}

/// Combined with the seed of [`Record::rng`]. Frozen.
const PURPOSE: u64 = 0x7265_636f_7264;

impl<'a> Record<'a> {
    /// Its index in the reader.
    pub fn index(&self) -> usize {
        self.index
    }

    /// The epoch in which it is seen, counted from 0.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Its position in the epoch, counted from 0 over all ranks.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Random numbers for this sample in this epoch, such as for augmentation. They are a function of
    /// the seed, the epoch and the position alone: the same for any number of threads, workers and
    /// ranks, and after a run is resumed. Another epoch has others.
    ///
    /// The generator is `StableRng::new(&[0x7265636f7264, seed, epoch, position])`, in every release.
    ///
    /// ```
    /// use std::sync::Arc;
    ///
    /// use kiste::loader::Loader;
    /// use kiste::reader::ListReader;
    /// use kiste::sampler::Shuffle;
    ///
    /// let letters = ["a", "b", "c"].map(|key| std::collections::BTreeMap::from([("key", key)]));
    /// let reader = Arc::new(ListReader::pack(letters)?);
    /// let flips = |threads| -> kiste::Result<Vec<bool>> {
    ///     let options = Loader::options(reader.clone(), Shuffle::new(3, 42)).threads(threads);
    ///     let batches = options.epochs(2).map(|record| Ok(record.rng(7).random() < 0.5))?;
    ///     Ok(batches.map(|batch| Ok(batch?.data)).collect::<kiste::Result<Vec<_>>>()?.concat())
    /// };
    /// assert_eq!(flips(0)?, flips(4)?);
    /// # Ok::<(), kiste::Error>(())
    /// ```
    pub fn rng(&self, seed: u64) -> StableRng {
        Record::rng_at(seed, self.epoch, self.position)
    }

    /// The same numbers without a record: for the sample at this position of this epoch.
    pub fn rng_at(seed: u64, epoch: u64, position: u64) -> StableRng {
        StableRng::new(&[PURPOSE, seed, epoch, position])
    }

    /// Its packed bytes.
    pub fn raw(&self) -> &'a [u8] {
        self.raw
    }

    /// Its key.
    pub fn key(&self) -> Result<Cow<'a, str>> {
        self.reader.key(self.index)
    }

    /// All of it, as a dynamic value.
    pub fn get(&self) -> Result<Value> {
        msgpack::decode(self.raw).map_err(Error::from)
    }

    /// All of it, as your own type, which may borrow.
    pub fn get_as<T: Deserialize<'a>>(&self) -> Result<T> {
        let mut cursor = Cursor::new(self.raw);
        cursor.skip()?;
        cursor.expect_end()?;
        rmp_serde::from_slice(self.raw).map_err(|error| not_of_type(self.raw, &error))
    }

    /// One field, packed; an error if the sample has none of this name.
    pub fn field(&self, name: &str) -> Result<&'a [u8]> {
        let field = msgpack::field(self.raw, name)?;
        field.ok_or_else(|| no_field(name))
    }

    /// A field that holds bytes or text.
    pub fn bytes(&self, name: &str) -> Result<&'a [u8]> {
        Ok(Cursor::new(self.field(name)?).read_bytes()?)
    }
}

pub(super) fn no_field(name: &str) -> Error {
    Error::new(ErrorKind::Invalid, format!("there is no field {name:?}"))
}

/// Gathers the samples of a batch.
pub(super) trait Gather: Send + Sync {
    type Data;

    /// Fetches and decodes these samples.
    fn gather(&self, task: &Task<'_>) -> Result<Gathered<Self::Data>>;
}

pub(super) struct Gathered<D> {
    pub(super) fetched: Fetched,
    pub(super) data: D,
    /// Approximate size of the data.
    pub(super) bytes: usize,
}

/// The outcome for the samples of a batch.
#[derive(Default)]
pub(super) struct Fetched {
    /// Indices of the samples in the data.
    pub(super) indices: Vec<u64>,
    /// How many of these are padding.
    pub(super) padding: u64,
    /// Failures of samples that are not padding.
    pub(super) failures: Vec<Failure>,
    /// Bytes of all packed samples.
    pub(super) packed: usize,
}

/// The samples of one batch.
pub(super) struct Task<'a> {
    pub(super) reader: &'a dyn Reader,
    pub(super) epoch: u64,
    pub(super) positions: &'a [u64],
    /// How many of the positions come before those that are padding.
    pub(super) real: usize,
    pub(super) indices: &'a [u64],
    pub(super) on_error: OnError,
    /// How many of the samples each packed row has, if they were planned into rows.
    pub(super) rows: &'a [u32],
    /// Memory for what is fetched.
    pub(super) raws: &'a Cell<Raws<'static>>,
    /// Memory for the indices of the batch.
    pub(super) list: Cell<Vec<u64>>,
    /// Where the thread that does it counts its time. It is reading.
    pub(super) lane: &'a Lane,
}

/// Samples as the reader has them.
pub(super) type Raws<'a> = Vec<Result<Cow<'a, [u8]>>>;

/// Memory that one batch after another uses.
#[derive(Default)]
pub(super) struct Space {
    pub(super) positions: Vec<u64>,
    pub(super) indices: Vec<u64>,
    pub(super) raws: Cell<Raws<'static>>,
}

/// The same memory without elements, for those that borrow from something else. Collecting in place keeps it.
fn emptied<'a>(mut raws: Raws<'_>) -> Raws<'a> {
    raws.clear();
    raws.into_iter().map_while(|_| None).collect()
}

/// How many samples are touched ahead of decoding.
const TOUCHED: usize = 32;

/// Reads the first cache lines of each sample. Nothing else stands between these reads, so the
/// processor waits for all of them together instead of one after another. Measured: small samples
/// in random order take half the time.
fn touch(raws: &[Result<Cow<'_, [u8]>>]) {
    let mut sum = 0;
    for raw in raws.iter().flatten() {
        let at = |at: usize| raw.get(at).copied().unwrap_or_default();
        sum ^= at(0) ^ at(64) ^ at(raw.len().wrapping_sub(1).min(128));
    }
    std::hint::black_box(sum);
}

/// An index of the sampler as one of the reader. Lossless: a loader starts only if the reader has
/// all samples below the bound of the sampler.
#[inline]
pub(super) fn in_reader(index: u64) -> usize {
    index as usize
}

impl Task<'_> {
    /// Calls `begin` with the size of all packed samples, then `decode` on each in order. Failures go to
    /// `failed`, which returns whether a placeholder was added.
    pub(super) fn each<S>(
        &self,
        state: &mut S,
        begin: impl FnOnce(&mut S, usize),
        mut decode: impl FnMut(&mut S, &Record<'_>) -> Result<()>,
        failed: impl FnMut(&mut S, &Failure) -> bool,
    ) -> Result<Fetched> {
        let decode = |state: &mut S, at: usize, raw: Cow<'_, [u8]>| {
            let index = in_reader(self.indices[at]);
            let (reader, epoch, position) = (self.reader, self.epoch, self.positions[at]);
            let record = Record { reader, index, epoch, position, raw: &raw };
            let describe = |e| self.reader.locate(index).describe(e);
            decode(state, &record).map_err(describe)
        };
        self.each_raw(state, begin, decode, failed)
    }

    /// The same with the place of each sample in the batch, and its bytes as the reader has them.
    fn each_raw<S>(
        &self,
        state: &mut S,
        begin: impl FnOnce(&mut S, usize),
        mut take: impl FnMut(&mut S, usize, Cow<'_, [u8]>) -> Result<()>,
        mut failed: impl FnMut(&mut S, &Failure) -> bool,
    ) -> Result<Fetched> {
        let mut fetched = self.fetched();
        // Locate all of them first, then touch their bytes, so that the waits for memory overlap.
        let fetch = |&index: &u64| self.reader.get_raw(in_reader(index));
        let mut raws = emptied(self.raws.take());
        raws.extend(self.indices.iter().map(fetch));
        fetched.packed = raws.iter().flatten().map(|raw| raw.len()).sum();
        self.lane.enter(Stage::Decoding);
        begin(state, fetched.packed);
        for at in 0..self.indices.len() {
            if at % TOUCHED == 0 {
                touch(&raws[at..raws.len().min(at + TOUCHED)]);
            }
            let raw = std::mem::replace(&mut raws[at], Ok(Cow::Borrowed(&[])));
            let result = raw.and_then(|raw| take(state, at, raw));
            self.settle(at, result, &mut fetched, |failure| failed(state, failure))?;
        }
        self.raws.set(emptied(raws));
        Ok(fetched)
    }

    /// As [`each`](Self::each), of a reader that hands out single fields: `take` gets those of these names, numbered
    /// from 0, and `end` is called with their count behind the last one of a sample. `None` if the reader has samples packed.
    pub(super) fn each_of_fields<S>(
        &self,
        names: &[&str],
        state: &mut S,
        begin: impl FnOnce(&mut S, usize),
        (mut take, mut end): (
            impl FnMut(&mut S, usize, &str, FieldContent<'_>),
            impl FnMut(&mut S, usize) -> Result<()>,
        ),
        mut failed: impl FnMut(&mut S, &Failure) -> bool,
    ) -> Result<Option<Fetched>> {
        let Some(&first) = self.indices.first() else { return Ok(None) };
        let mut bytes = 0usize;
        let mut count = |_: &str, field: FieldContent<'_>| {
            bytes = bytes.saturating_add(field.len());
            Ok(())
        };
        if let Ok(false) = self.reader.read_fields(in_reader(first), names, &mut count) {
            return Ok(None);
        }
        let mut fetched = self.fetched();
        begin(state, bytes.saturating_mul(self.indices.len()));
        for (at, &index) in self.indices.iter().enumerate() {
            let index = in_reader(index);
            let mut number = 0;
            let mut take = |name: &str, field: FieldContent<'_>| {
                fetched.packed = fetched.packed.saturating_add(field.len());
                take(state, number, name, field);
                number += 1;
                Ok(())
            };
            let made = self.reader.read_fields(index, names, &mut take);
            let describe = |e| self.reader.locate(index).describe(e);
            let result = made.and_then(|_| end(state, number).map_err(describe));
            self.settle(at, result, &mut fetched, |failure| failed(state, failure))?;
        }
        Ok(Some(fetched))
    }

    /// How many of these samples each packed row has: some may have been left out.
    pub(super) fn planned_rows(&self, taken: &[u64]) -> Cow<'_, [u32]> {
        if taken.len() == self.indices.len() {
            return self.rows.into();
        }
        let (mut wanted, mut taken) = (self.indices.iter(), taken.iter().peekable());
        let count = |row: &u32| {
            let row = wanted.by_ref().take(*row as usize);
            row.filter(|index| taken.next_if(|found| found == index).is_some()).count() as u32
        };
        self.rows.iter().map(count).collect::<Vec<u32>>().into()
    }

    /// Nothing yet.
    fn fetched(&self) -> Fetched {
        let mut indices = self.list.take();
        indices.clear();
        indices.reserve(self.indices.len());
        Fetched { indices, ..Fetched::default() }
    }

    /// Notes what became of a sample.
    fn settle(
        &self,
        at: usize,
        result: Result<()>,
        fetched: &mut Fetched,
        failed: impl FnOnce(&Failure) -> bool,
    ) -> Result<()> {
        let padding = at >= self.real;
        let taken = match result {
            Ok(()) => true,
            Err(error) => {
                let failure = self.failure(at, error)?;
                let replaced = failed(&failure);
                if !padding {
                    fetched.failures.push(failure);
                }
                replaced
            }
        };
        if taken {
            fetched.indices.push(self.indices[at]);
            fetched.padding += u64::from(padding);
        }
        Ok(())
    }

    fn failure(&self, at: usize, error: Error) -> Result<Failure> {
        let index = self.indices[at];
        // Without the bytes of the sample there is no key, and to ask for them again takes as long.
        let is_away = self.reader.is_remote() && is_of_storage(error.kind());
        let key = match is_away {
            true => None,
            false => self.reader.key(in_reader(index)).ok().map(Cow::into_owned),
        };
        let error = match &key {
            Some(key) if error.key().is_none() => error.with_key(key),
            _ => error,
        };
        if self.on_error == OnError::Raise {
            return Err(error);
        }
        Ok(Failure { position: self.positions[at], index, key, error })
    }
}

/// Whether bytes could not be had, rather than understood.
fn is_of_storage(kind: ErrorKind) -> bool {
    use ErrorKind::{Cancelled, Io, NotFound, Replaced, Unsupported};
    matches!(kind, Cancelled | Io | NotFound | Replaced | Unsupported)
}

/// Packed samples, which are copied out of the reader unless they come as copies.
pub(super) struct RawSamples;

impl Gather for RawSamples {
    type Data = Samples<Vec<u8>>;

    fn gather(&self, task: &Task<'_>) -> Result<Gathered<Samples<Vec<u8>>>> {
        let mut data = Vec::with_capacity(task.indices.len());
        let mut bytes = 0usize;
        let take = |data: &mut Vec<Vec<u8>>, _: usize, raw: Cow<'_, [u8]>| {
            bytes = bytes.saturating_add(raw.len());
            data.push(raw.into_owned());
            Ok(())
        };
        let fetched = task.each_raw(&mut data, |_, _| (), take, |_, _| false)?;
        let bytes = std::mem::size_of_val(data.as_slice()).saturating_add(bytes);
        Ok(Gathered { fetched, data, bytes })
    }
}

/// Samples that a closure makes.
pub(super) struct MapSamples<F, P, S> {
    pub(super) decode: F,
    pub(super) placeholder: Option<P>,
    /// Bytes that a sample owns on the heap. If not given, the length of the packed sample is the
    /// estimate.
    pub(super) owned: Option<S>,
}

impl<T, F, P, S> Gather for MapSamples<F, P, S>
where
    T: Send,
    F: Fn(&Record<'_>) -> Result<T> + Send + Sync,
    P: Fn(&Failure) -> T + Send + Sync,
    S: Fn(&T) -> usize + Send + Sync,
{
    type Data = Samples<T>;

    fn gather(&self, task: &Task<'_>) -> Result<Gathered<Samples<T>>> {
        let mut data = Vec::with_capacity(task.indices.len());
        let mut owned = 0usize;
        let fetched = task.each(
            &mut data,
            |_, _| (),
            |data, record| {
                let sample = (self.decode)(record)?;
                let bytes = self.owned.as_ref().map_or(record.raw().len(), |owned| owned(&sample));
                owned = owned.saturating_add(bytes);
                data.push(sample);
                Ok(())
            },
            |data, failure| match &self.placeholder {
                Some(placeholder) => {
                    data.push(placeholder(failure));
                    true
                }
                None => false,
            },
        )?;
        let bytes = std::mem::size_of_val(data.as_slice()).saturating_add(owned);
        Ok(Gathered { fetched, data, bytes })
    }
}
