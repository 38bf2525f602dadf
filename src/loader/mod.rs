//! Loading: a reader and a sampler become batches.
//!
//! Threads fetch and decode, a bounded queue holds finished batches, and batches come **in the
//! order of the sampler, the same for any number of threads**. The state of a run is two integers
//! ([`Loader::state`]), because an order is a function of seed, epoch and position, and a fingerprint
//! of that order, so that another one is noticed. A run can resume in the middle of an epoch, with
//! another number of ranks, threads or samples per batch.
//!
//! | kind of batch | made by | for |
//! | --- | --- | --- |
//! | [`Samples<Vec<u8>>`](Samples) | [`LoaderOptions::raw`] | packed bytes, passed through |
//! | [`Samples<T>`](Samples) | [`LoaderOptions::typed`], [`LoaderOptions::map`] | your types, or what a closure returns on the workers |
//! | [`ColumnBatch`] | [`LoaderOptions::columns`] | arrays with one more dimension, in reused buffers |
//!
//! ```
//! use std::sync::Arc;
//! use kiste::loader::{Columns, Loader};
//! use kiste::sampler::Shuffle;
//! use kiste::DatasetReader;
//! # use serde::Serialize;
//! # #[derive(Serialize)] struct Digit { key: String, label: i64 }
//! # let dir = tempfile::tempdir()?;
//! # let path = dir.path().join("digits.msgpack");
//! # let mut writer = kiste::Writer::create(&path)?;
//! # for i in 0..100 { writer.write(&Digit { key: i.to_string(), label: i })?; }
//! # writer.finish()?;
//!
//! let digits = Arc::new(DatasetReader::open(&path)?);
//! let shuffle = Shuffle::new(digits.len() as u64, 42);
//! let options = Loader::options(digits, shuffle).batch_size(32).threads(2).epochs(1);
//! let mut seen = 0;
//! for batch in options.columns(Columns::new().scalar::<i64>("label"))? {
//!     let batch = batch?;
//!     seen += batch.data.array::<i64>("label")?.iter().sum::<i64>();
//! }
//! assert_eq!(seen, 99 * 100 / 2); // each sample once
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Where it stalls
//!
//! [`Loader::report`] says how long the caller waited for batches, how the workers spent that time,
//! and in one sentence what the [limit](Limit) is: the caller, the processor, the storage or the
//! queue.
//!
//! # A sample that cannot be read
//!
//! ends a run only if [`OnError`] says so. Otherwise it is skipped or replaced by a placeholder,
//! and its [`Batch`] lists it once per epoch, with file, index, key and byte range; one that is
//! repeated to fill up the last step is not listed again. The positions of all other samples do not
//! change.
//!
//! A sample with a flipped bit can usually still be decoded. A loader notices it if its reader
//! does: [`ReaderOptions::checksums`](crate::dataset::ReaderOptions::checksums).

mod batch;
#[cfg(feature = "arrays")]
mod columns;
mod fetch_groups;
mod epoch_orders;
mod pool;
mod report;
mod schedule;

use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

use serde::de::DeserializeOwned;

use crate::error::{Error, ErrorKind, Result};
use crate::reader::Reader;
use crate::sampler::batching::Planned;
use crate::sampler::{Sampler, State, Tail};

#[cfg(feature = "arrays")]
pub use crate::value::Element;
pub use batch::{Batch, Failure, OnError, Record, Samples};
#[cfg(feature = "images")]
pub use columns::{Boxes, Labels, Mask, image_header};
#[cfg(feature = "arrays")]
pub use columns::{ColumnBatch, ColumnMemory, Columns, Memory, Packed, PackedRows, Padded, Window};
#[cfg(feature = "images")]
pub(crate) use columns::{ImageClock, ImageTimes};
pub use report::{ConsumerTime, CoreTime, Limit, LoaderReport, QueueDepth, Reporter, WorkerTime};

use batch::{Gather, MapSamples, RawSamples};
#[cfg(feature = "arrays")]
use columns::CollateColumns;
#[cfg(feature = "arrays")]
use columns::FEWEST_SETS;
use pool::Pool;
use schedule::Schedule;

/// How to load.
#[derive(Clone)]
#[must_use = "options do nothing until a loader is started with them"]
pub struct LoaderOptions {
    reader: Arc<dyn Reader>,
    sampler: Arc<dyn Sampler>,
    planned: Option<Planned>,
    batch_size: u64,
    world: u64,
    rank: u64,
    tail: Option<Tail>,
    threads: usize,
    queue: usize,
    queue_bytes: usize,
    epochs: Option<u64>,
    until: Option<State>,
    start: State,
    on_error: OnError,
    prefetch: bool,
}

impl LoaderOptions {
    /// Samples in a batch. Default: 64.
    pub fn batch_size(mut self, samples: u64) -> Self {
        self.batch_size = samples;
        self
    }

    /// This rank and the number of ranks; each gets different batches of the same epoch. Default: 0
    /// of 1.
    pub fn rank(mut self, rank: u64, world: u64) -> Self {
        self.rank = rank;
        self.world = world;
        self
    }

    /// How to treat samples that do not fill the last step of all ranks. Default:
    /// [`Tail::Uneven`] for one rank, whose last batch may be short; [`Tail::Pad`] for several, so
    /// that all of them have the same steps.
    pub fn tail(mut self, tail: Tail) -> Self {
        self.tail = Some(tail);
        self
    }

    /// Threads that fetch and decode; 0 uses the thread of the caller. Default: one per core.
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = threads;
        self
    }

    /// Batches that may be finished or in progress. Default, and 0: twice the threads.
    pub fn queue(mut self, batches: usize) -> Self {
        self.queue = batches;
        self
    }

    /// Bytes of finished batches: while there are more, only the batch that the caller waits for is
    /// started. Packed samples and columns are counted exactly. The heap memory of other types is
    /// unknown, so they count as much as their packed samples. That is about right for
    /// [`typed`](Self::typed); decoded images are larger, so give their size with
    /// [`map_sized`](Self::map_sized). Default: 1 GiB.
    pub fn queue_bytes(mut self, bytes: usize) -> Self {
        self.queue_bytes = bytes;
        self
    }

    /// How many epochs, counting the one that is started or resumed; [`until`](Self::until) counts
    /// from the start of the training. Default: no end.
    pub fn epochs(mut self, epochs: u64) -> Self {
        self.epochs = Some(epochs);
        self
    }

    /// Where the training ends, wherever it is resumed: with the step that reaches this position of
    /// this epoch. `State::new(10, 0)` is after ten epochs. For a number of steps take a sampler that
    /// does not end ([`Cycle`](crate::sampler::Cycle)), and `State::new(0, steps * ranks * batch_size)`.
    /// Default: no end; the first end counts if there are [`epochs`](Self::epochs) as well.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// use kiste::loader::Loader;
    /// use kiste::sampler::{Shuffle, State};
    /// # let samples = ["a", "b", "c"].map(|key| std::collections::BTreeMap::from([("key", key)]));
    /// # let reader = Arc::new(kiste::reader::ListReader::pack(samples)?);
    ///
    /// let options = Loader::options(reader, Shuffle::new(3, 42)).batch_size(1);
    /// let options = options.until(State::new(2, 0));
    /// let mut loader = options.clone().raw()?;
    /// assert_eq!(loader.by_ref().take(4).count(), 4);
    /// let resumed = options.resume(loader.state()).raw()?; // there is no epoch to subtract
    /// assert_eq!(resumed.count(), 2);
    /// # Ok::<(), kiste::Error>(())
    /// ```
    pub fn until(mut self, end: State) -> Self {
        self.until = Some(end);
        self
    }

    /// Continues where another loader of the same sampler stopped. Ranks, threads and batch size
    /// may differ; another sampler, length or seed is an error when the loader starts, unless the
    /// state is [of any order](State::new). Default: the beginning of epoch 0.
    pub fn resume(mut self, state: State) -> Self {
        self.start = state;
        self
    }

    /// How to treat a sample that cannot be read. Default: [`OnError::Raise`].
    pub fn on_error(mut self, policy: OnError) -> Self {
        self.on_error = policy;
        self
    }

    /// Tells the storage which samples come next ([`Reader::prefetch`]): pays off when reads are
    /// slow, costs time when the data is in memory. Default: no.
    ///
    /// Samples of a [remote](crate::Reader::is_remote) reader are always fetched ahead, for several batches
    /// together: about 16 MiB at a time, neighbours in one request, until 256 MiB are in flight or wait to be
    /// read.
    pub fn prefetch(mut self, yes: bool) -> Self {
        self.prefetch = yes;
        self
    }

    /// Batches of packed samples, copied out of the reader.
    pub fn raw(self) -> Result<Loader<Samples<Vec<u8>>>> {
        self.refuse_placeholder()?;
        self.start(Arc::new(RawSamples))
    }

    /// Batches of your own type. Arrays in it own their elements: see
    /// [`PackedArray::deserialize_owned`](crate::array::PackedArray::deserialize_owned) and
    /// [`NdArray::deserialize_owned`](crate::value::NdArray::deserialize_owned).
    pub fn typed<T: DeserializeOwned + Send + 'static>(self) -> Result<Loader<Samples<T>>> {
        self.map(|record| record.get_as())
    }

    /// Batches of what `decode` returns for each sample. It runs on the workers, so decoding an
    /// image belongs here. Errors of other crates come in by [`Error::other`], and are kept as the cause:
    ///
    /// ```
    /// use kiste::Error;
    /// use kiste::loader::Loader;
    /// use kiste::reader::ListReader;
    /// use kiste::sampler::Sequential;
    ///
    /// let samples = ["1", "two"].map(|key| std::collections::BTreeMap::from([("key", key)]));
    /// let options = Loader::options(ListReader::pack(samples)?, Sequential::new(2));
    /// let mut loader = options.map(|record| record.key()?.parse::<u64>().map_err(Error::other))?;
    /// let error = loader.next().unwrap().unwrap_err();
    /// assert_eq!((error.index(), error.key()), (Some(1), Some("two")));
    /// assert!(error.get_ref().unwrap().is::<std::num::ParseIntError>());
    /// # Ok::<(), kiste::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Invalid`](ErrorKind::Invalid) for [`OnError::Placeholder`], which needs
    /// [`map_or_else`](Self::map_or_else); for invalid options; and for a sampler that asks for
    /// more samples than the reader has.
    pub fn map<T: Send + 'static>(
        self,
        decode: impl Fn(&Record<'_>) -> Result<T> + Send + Sync + 'static,
    ) -> Result<Loader<Samples<T>>> {
        self.mapped(decode, None::<fn(&T) -> usize>)
    }

    /// As [`map`](Self::map), with the bytes that a sample owns on the heap, so that
    /// [`queue_bytes`](Self::queue_bytes) bounds them.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// use kiste::loader::Loader;
    /// # use kiste::{reader::ListReader, sampler::Shuffle};
    /// # let list = ListReader::pack([std::collections::BTreeMap::from([("key", "a")])])?;
    /// let options = Loader::options(Arc::new(list), Shuffle::new(1, 0)).queue_bytes(100 << 20);
    /// // At most about 200 of these are in the queue, however small their packed samples are.
    /// let loader = options.map_sized(|_| Ok(vec![0u8; 512 << 10]), |pixels| pixels.capacity())?;
    /// assert_eq!(loader.take(3).count(), 3);
    /// # Ok::<(), kiste::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`map`](Self::map).
    pub fn map_sized<T: Send + 'static>(
        self,
        decode: impl Fn(&Record<'_>) -> Result<T> + Send + Sync + 'static,
        owned: impl Fn(&T) -> usize + Send + Sync + 'static,
    ) -> Result<Loader<Samples<T>>> {
        self.mapped(decode, Some(owned))
    }

    fn mapped<T: Send + 'static>(
        self,
        decode: impl Fn(&Record<'_>) -> Result<T> + Send + Sync + 'static,
        owned: Option<impl Fn(&T) -> usize + Send + Sync + 'static>,
    ) -> Result<Loader<Samples<T>>> {
        self.refuse_placeholder()?;
        let gather = MapSamples { decode, placeholder: None::<fn(&Failure) -> T>, owned };
        self.start(Arc::new(gather))
    }

    fn refuse_placeholder(&self) -> Result<()> {
        if self.on_error == OnError::Placeholder {
            let message = "a placeholder has to come from somewhere: map_or_else says which";
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        Ok(())
    }

    /// As [`map`](Self::map), with a placeholder for each sample that cannot be read, in the order of
    /// [`Result::map_or_else`]. Overrides [`on_error`](Self::on_error).
    ///
    /// ```
    /// # use std::sync::Arc;
    /// use kiste::loader::Loader;
    /// use kiste::reader::ListReader;
    /// use kiste::sampler::Sequential;
    ///
    /// let samples = [("a", "7"), ("b", "seven")];
    /// let samples = samples.map(|(key, n)| std::collections::BTreeMap::from([("key", key), ("n", n)]));
    /// let options = Loader::options(ListReader::pack(samples)?, Sequential::new(2)).epochs(1);
    /// let mut loader = options.map_or_else(
    ///     |_failure| 0,
    ///     |record| {
    ///         let sample = record.get()?;
    ///         sample["n"].as_str().unwrap_or("").parse().map_err(kiste::Error::other)
    ///     },
    /// )?;
    /// let batch = loader.next().unwrap()?;
    /// assert_eq!(batch.data, [7, 0]);
    /// assert_eq!(batch.failures.len(), 1);
    /// # Ok::<(), kiste::Error>(())
    /// ```
    #[doc(alias = "map_or")]
    pub fn map_or_else<T: Send + 'static>(
        mut self,
        placeholder: impl Fn(&Failure) -> T + Send + Sync + 'static,
        decode: impl Fn(&Record<'_>) -> Result<T> + Send + Sync + 'static,
    ) -> Result<Loader<Samples<T>>> {
        self.on_error = OnError::Placeholder;
        let owned = None::<fn(&T) -> usize>;
        self.start(Arc::new(MapSamples { decode, placeholder: Some(placeholder), owned }))
    }

    /// Batches of columns: each field an array with one more dimension, or bytes of any length. A
    /// placeholder is zeros, or no bytes.
    ///
    /// # Errors
    ///
    /// As [`map`](Self::map), with any policy; and [`Invalid`](ErrorKind::Invalid) for two columns
    /// of one name.
    #[cfg(feature = "arrays")]
    pub fn columns(self, columns: Columns) -> Result<Loader<ColumnBatch>> {
        columns.check()?;
        let queue = self.batches();
        self.start(Arc::new(CollateColumns::new(columns, queue)))
    }

    /// As [`columns`](Self::columns), in memory of the caller. With `n` sets of it, at most `n - 2`
    /// batches are made ahead, so the caller may hold one batch when it asks for the next. If it holds
    /// more, a batch may find no memory and is an [`Invalid`](ErrorKind::Invalid) error. Without
    /// [`threads`](Self::threads) none is made ahead, and one set is enough.
    ///
    /// # Errors
    ///
    /// As [`columns`](Self::columns); and [`Invalid`](ErrorKind::Invalid) for batches of more samples
    /// than there is memory for, and for fewer than three sets, if there are threads.
    #[cfg(feature = "arrays")]
    pub fn columns_in(mut self, memory: &ColumnMemory) -> Result<Loader<ColumnBatch>> {
        let most = self.planned.as_ref().map_or(Some(self.batch_size), |it| it.batching().most());
        if most.is_none_or(|most| most > memory.rows as u64) {
            let (size, rows) = (most.unwrap_or(u64::MAX), memory.rows);
            let message = format!("expected memory for batches of {size} samples, found {rows}");
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        let fewest = if self.threads == 0 { 1 } else { FEWEST_SETS };
        if memory.sets < fewest {
            let message =
                format!("expected at least {fewest} sets of memory, found {}", memory.sets);
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        self.queue = self.batches().clamp(1, memory.sets.saturating_sub(2).max(1));
        self.start(Arc::new(CollateColumns::of(memory)))
    }

    /// Batches that may be finished or in progress.
    fn batches(&self) -> usize {
        if self.queue == 0 { 2 * self.threads } else { self.queue }
    }

    fn start<D: Send + 'static>(self, gather: Arc<dyn Gather<Data = D>>) -> Result<Loader<D>> {
        let (have, need) = (self.reader.len() as u64, self.sampler.bound());
        if need > have {
            let message = format!("the sampler orders {need} samples, the reader has {have}");
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        if self.rank >= self.world {
            let message = format!("there is no rank {} of {}", self.rank, self.world);
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        let schedule = Schedule::of(&self)?;
        let state = schedule.start();
        Ok(Loader { pool: Pool::start(self, schedule, gather)?, state })
    }
}

/// An iterator over batches, in order.
///
/// Dropping it stops and joins its threads, also in the middle of an epoch. It waits for what they decode, and
/// not for answers of a remote storage.
#[must_use = "a loader that is dropped stops its threads"]
pub struct Loader<D: Send + 'static> {
    pool: Pool<D>,
    state: State,
}

impl Loader<()> {
    /// The options for a reader and a sampler. An `Arc` of a reader is one too, so that several loaders
    /// can share it, and so is an `Arc` of a sampler.
    pub fn options(
        reader: impl Reader + 'static,
        sampler: impl Sampler + 'static,
    ) -> LoaderOptions {
        // One that is shared already is asked without a detour.
        let mut reader = Some(reader);
        let shared = (&mut reader as &mut dyn Any).downcast_mut::<Option<Arc<dyn Reader>>>();
        let shared = shared.and_then(Option::take);
        let reader = match (shared, reader) {
            (Some(shared), _) => shared,
            (None, Some(reader)) => Arc::new(reader),
            (None, None) => unreachable!("it is taken only if it is shared"),
        };
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        LoaderOptions {
            reader,
            sampler: Arc::new(sampler),
            planned: None,
            batch_size: 64,
            world: 1,
            rank: 0,
            tail: None,
            threads,
            queue: 0,
            queue_bytes: 1 << 30,
            epochs: None,
            until: None,
            start: State::default(),
            on_error: OnError::default(),
            prefetch: false,
        }
    }
}

impl Loader<()> {
    /// The options for batches that are planned by the lengths of samples, in place of batches of one
    /// [size](LoaderOptions::batch_size).
    ///
    /// ```
    /// # use std::sync::Arc;
    /// use kiste::loader::Loader;
    /// use kiste::sampler::Shuffle;
    /// use kiste::sampler::batching::{Planned, TokenBudget};
    /// # use kiste::reader::ListReader;
    /// # let words = ["a", "bcd", "ef", "ghi"].map(|word| std::collections::BTreeMap::from([("key", word)]));
    /// # let reader = Arc::new(ListReader::pack(words)?);
    ///
    /// let lengths = vec![1, 3, 2, 3]; // of four samples
    /// let planned = Planned::new(Shuffle::new(4, 42), lengths, TokenBudget::packed(4))?;
    /// let loader = Loader::planned(reader, planned).epochs(1).raw()?;
    /// let sizes: Vec<usize> = loader.map(|batch| Ok(batch?.data.len())).collect::<kiste::Result<_>>()?;
    /// assert_eq!((sizes.len(), sizes.iter().sum::<usize>()), (3, 4));
    /// # Ok::<(), kiste::Error>(())
    /// ```
    pub fn planned(reader: impl Reader + 'static, planned: Planned) -> LoaderOptions {
        let options = Loader::options(reader, planned.sampler().clone());
        LoaderOptions { planned: Some(planned), ..options }
    }
}

impl<D: Send + 'static> Loader<D> {
    /// Where the run is after the batches returned so far, to save and to pass to
    /// [`LoaderOptions::resume`]: two integers, and what the order is made of.
    ///
    /// It counts the steps of all ranks, so save it when all ranks have done the same step, or
    /// after the last batch of all [`epochs`](LoaderOptions::epochs), when it is the same on each
    /// rank.
    pub fn state(&self) -> State {
        self.state
    }

    /// Takes a batch back when the caller is done with it, so that a later one uses its memory.
    ///
    /// A batch of [columns](LoaderOptions::columns) returns the memory of its columns when it is dropped.
    /// Its list of indices belongs to the caller, and is returned only by this: then batches of images and
    /// scalars need no new memory at all.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use kiste::loader::{Columns, Loader};
    /// # use kiste::{reader::ListReader, sampler::Shuffle};
    /// # #[derive(serde::Serialize)]
    /// # struct Sample { key: String, size: u8 }
    /// # let samples = [1, 2, 3].map(|n| Sample { key: n.to_string(), size: n });
    /// # let reader = Arc::new(ListReader::pack(samples)?);
    /// let options = Loader::options(reader, Shuffle::new(3, 42)).batch_size(2).epochs(1);
    /// let mut loader = options.columns(Columns::new().scalar::<u8>("size"))?;
    /// let mut sum = 0;
    /// while let Some(batch) = loader.next() {
    ///     let batch = batch?;
    ///     sum += batch.data.values::<u8>("size")?.iter().sum::<u8>();
    ///     loader.reuse(batch);
    /// }
    /// assert_eq!(sum, 6);
    /// # Ok::<(), kiste::Error>(())
    /// ```
    pub fn reuse(&self, batch: Batch<D>) {
        self.pool.reuse(batch.indices);
    }

    /// Waits until [`next`](Iterator::next) returns at once, at most this long. Returns whether it does: for callers who
    /// look after something else now and then. Without threads `next` makes the batch, and this waits for nothing.
    ///
    /// ```
    /// # use std::{sync::Arc, time::Duration};
    /// use kiste::loader::Loader;
    /// # use kiste::{reader::ListReader, sampler::Shuffle};
    /// # let samples = ["a", "b"].map(|key| std::collections::BTreeMap::from([("key", key)]));
    /// # let reader = Arc::new(ListReader::pack(samples)?);
    /// let mut loader = Loader::options(reader, Shuffle::new(2, 0)).epochs(1).raw()?;
    /// while !loader.wait(Duration::from_millis(50)) {
    ///     // Was a key pressed?
    /// }
    /// assert_eq!(loader.next().unwrap()?.data.len(), 2);
    /// # Ok::<(), kiste::Error>(())
    /// ```
    pub fn wait(&mut self, at_most: Duration) -> bool {
        self.pool.wait(at_most)
    }

    /// Where the time has gone since the first batch was asked for, and what the limit is. It is counted in
    /// every run, without a lock: the clock is read a few times for each batch. It can be asked for between
    /// any two batches and after the end.
    /// [`LoaderReport::since`] is what happened between two of them, such as in an epoch.
    pub fn report(&self) -> LoaderReport {
        self.pool.report()
    }

    /// Asks for reports from any thread, also while [`next`](Iterator::next) waits: for a display of
    /// progress, and for finding out why nothing comes.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// use kiste::loader::Loader;
    /// # use kiste::{reader::ListReader, sampler::Shuffle};
    /// # let samples = ["a", "b"].map(|key| std::collections::BTreeMap::from([("key", key)]));
    /// # let reader = Arc::new(ListReader::pack(samples)?);
    /// let loader = Loader::options(reader, Shuffle::new(2, 0)).batch_size(1).epochs(1).raw()?;
    /// let reporter = loader.reporter();
    /// let display = std::thread::spawn(move || {
    ///     while reporter.report().batches < 2 {
    ///         std::thread::yield_now();
    ///     }
    /// });
    /// assert_eq!(loader.count(), 2);
    /// display.join().unwrap();
    /// # Ok::<(), kiste::Error>(())
    /// ```
    pub fn reporter(&self) -> Reporter {
        self.pool.reporter()
    }
}

impl<D: Send + 'static> Iterator for Loader<D> {
    type Item = Result<Batch<D>>;

    fn next(&mut self) -> Option<Self::Item> {
        let Some(batch) = self.pool.next() else {
            // The end of all epochs. A run that failed keeps its last state.
            self.state = self.pool.end().unwrap_or(self.state);
            return None;
        };
        match &batch {
            Ok(batch) => self.state = batch.state,
            // Otherwise the run ends here, and can be resumed here.
            Err(failed) => self.state = failed.state.unwrap_or(self.state),
        }
        Some(batch.map_err(|failed| failed.error))
    }
}

impl<D: Send + 'static> std::fmt::Debug for Loader<D> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Loader(epoch {}, position {})", self.state.epoch, self.state.position)
    }
}
