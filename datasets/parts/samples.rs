//! [`Samples`]: the samples of a data set in units that can be made independently.

use std::collections::BTreeMap;
use std::panic;
use std::path::PathBuf;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use rayon::prelude::*;

use crate::error::{Error, ErrorKind, Result};

/// Items of a unit, or of a batch of a unit that is a stream.
const BATCH: usize = 32;
/// No more notes than this are kept.
const NOTES: usize = 20;

/// Takes what was read. Its error says that no more is wanted: return it.
pub type Emit<'a, T> = dyn FnMut(T) -> Result<()> + 'a;

/// The result of making an item.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Made {
    /// A packed sample.
    Sample(Vec<u8>),
    /// Nothing, because the data are useless.
    Skipped {
        /// The key that the sample would have had.
        key: String,
        /// The flaw in the data.
        why: String,
    },
}

impl From<Vec<u8>> for Made {
    fn from(packed: Vec<u8>) -> Made {
        Made::Sample(packed)
    }
}

/// The samples that some files become, in units. A unit can be made as often as necessary, and gives
/// the same samples each time. Nothing is read in advance. Clones are the same samples.
#[derive(Clone)]
pub struct Samples {
    units: Arc<dyn Units>,
    /// Files that the description does not name.
    files: Vec<PathBuf>,
}

/// Takes the place of the split, and what was made or why it could not be.
pub(crate) type EmitMade<'a> = dyn FnMut(usize, Result<Made>) -> Result<()> + 'a;

trait Units: Send + Sync {
    fn count(&self) -> usize;

    /// How many samples there are, where that is known.
    fn samples(&self) -> Option<u64>;

    fn make(&self, unit: usize, split: Option<usize>, emit: &mut EmitMade<'_>) -> Result<()>;

    fn set_batch(&mut self, items: usize);
}

impl Samples {
    /// Makes a sample of each of these items. A unit is a run of them.
    pub fn new<T, M>(
        items: Vec<T>,
        make: impl Fn(T) -> Result<M> + Send + Sync + 'static,
    ) -> Samples
    where
        T: Clone + Send + Sync + 'static,
        M: Into<Made>,
    {
        let make = move |item| make(item).map(Into::into);
        Samples::of(Items { items, make, batch: BATCH })
    }

    /// Makes a sample of each item that `read` emits, while it continues to read. This is for files
    /// that can only be read from front to back: one unit.
    pub fn stream<T, M>(
        read: impl Fn(&mut Emit<'_, T>) -> Result<()> + Send + Sync + 'static,
        make: impl Fn(T) -> Result<M> + Send + Sync + 'static,
    ) -> Samples
    where
        T: Send + 'static,
        M: Into<Made> + 'static,
    {
        Samples::streams(vec![()], move |(), emit| read(emit), make)
    }

    /// The same for several files. Each is a unit.
    pub fn streams<F, T, M>(
        files: Vec<F>,
        read: impl Fn(&F, &mut Emit<'_, T>) -> Result<()> + Send + Sync + 'static,
        make: impl Fn(T) -> Result<M> + Send + Sync + 'static,
    ) -> Samples
    where
        F: Send + Sync + 'static,
        T: Send + 'static,
        M: Into<Made> + 'static,
    {
        let read = move |file: &F, emit: &mut Emit<'_, (usize, T)>| {
            read(file, &mut |item| emit((0, item)))
        };
        Samples::of_streams(files, read, make)
    }

    /// Like [`stream`](Self::stream), with items of several splits: with each item comes the place of
    /// its split.
    pub fn mixed<T, M>(
        read: impl Fn(&mut Emit<'_, (usize, T)>) -> Result<()> + Send + Sync + 'static,
        make: impl Fn(T) -> Result<M> + Send + Sync + 'static,
    ) -> Samples
    where
        T: Send + 'static,
        M: Into<Made> + 'static,
    {
        Samples::of_streams(vec![()], move |(), emit: &mut Emit<'_, (usize, T)>| read(emit), make)
    }

    fn of_streams<F, T, M>(
        files: Vec<F>,
        read: impl Fn(&F, &mut Emit<'_, (usize, T)>) -> Result<()> + Send + Sync + 'static,
        make: impl Fn(T) -> Result<M> + Send + Sync + 'static,
    ) -> Samples
    where
        F: Send + Sync + 'static,
        T: Send + 'static,
        M: Into<Made> + 'static,
    {
        let make = move |item| make(item).map(Into::into);
        let (read, make) = (Box::new(read) as Box<Read<F, T>>, Box::new(make) as Box<Make<T>>);
        Samples::of(Streams { files, read, make, batch: BATCH })
    }

    fn of(units: impl Units + 'static) -> Samples {
        Samples { units: Arc::new(units), files: Vec::new() }
    }

    /// Makes this many samples together. Default: 32, which suits images of usual size.
    pub fn batch(mut self, items: usize) -> Samples {
        let units = Arc::get_mut(&mut self.units).expect("samples that were just created");
        units.set_batch(items.max(1));
        self
    }

    /// Names files that are read although the description does not name them.
    pub fn files(mut self, files: Vec<PathBuf>) -> Samples {
        self.files = files;
        self
    }

    pub(crate) fn further_files(&self) -> &[PathBuf] {
        &self.files
    }

    /// How many units there are.
    pub(crate) fn units(&self) -> usize {
        self.units.count()
    }

    /// How many samples there are, where that is known.
    pub(crate) fn len(&self) -> Option<u64> {
        self.units.samples()
    }

    /// Makes the samples of a unit in their order: all, or only one split. After an error in an
    /// item the next one follows; an error that is returned ends the unit.
    pub(crate) fn make(
        &self,
        unit: usize,
        split: Option<usize>,
        emit: &mut EmitMade<'_>,
    ) -> Result<()> {
        self.units.make(unit, split, emit)
    }
}

/// Items that are known before anything is read.
struct Items<T, M> {
    items: Vec<T>,
    make: M,
    batch: usize,
}

impl<T, M> Units for Items<T, M>
where
    T: Clone + Send + Sync,
    M: Fn(T) -> Result<Made> + Send + Sync,
{
    fn count(&self) -> usize {
        self.items.len().div_ceil(self.batch)
    }

    fn samples(&self) -> Option<u64> {
        Some(self.items.len() as u64)
    }

    fn make(&self, unit: usize, _split: Option<usize>, emit: &mut EmitMade<'_>) -> Result<()> {
        let items = self.items.chunks(self.batch).nth(unit).unwrap_or_default();
        items.iter().try_for_each(|item| emit(0, (self.make)(item.clone())))
    }

    fn set_batch(&mut self, items: usize) {
        self.batch = items;
    }
}

type Read<F, T> = dyn Fn(&F, &mut Emit<'_, (usize, T)>) -> Result<()> + Send + Sync;
type Make<T> = dyn Fn(T) -> Result<Made> + Send + Sync;

/// Files that are read from front to back.
struct Streams<F, T> {
    files: Vec<F>,
    read: Box<Read<F, T>>,
    make: Box<Make<T>>,
    batch: usize,
}

impl<F, T> Units for Streams<F, T>
where
    F: Send + Sync,
    T: Send,
{
    fn count(&self) -> usize {
        self.files.len()
    }

    fn samples(&self) -> Option<u64> {
        None
    }

    /// One thread reads, and all cores make samples of what it has read.
    fn make(&self, unit: usize, split: Option<usize>, emit: &mut EmitMade<'_>) -> Result<()> {
        let (to_make, batches) = sync_channel(1);
        thread::scope(|scope| {
            let reading = scope.spawn(|| self.read(unit, split, to_make));
            // They go before the scope ends, so that the reader notices if no more is wanted.
            let batches = batches;
            for batch in batches.iter() {
                let make = |(split, item)| (split, (self.make)(item));
                let made: Vec<(usize, Result<Made>)> = batch.into_par_iter().map(make).collect();
                made.into_iter().try_for_each(|(split, made)| emit(split, made))?;
            }
            reading.join().unwrap_or_else(|panicked| panic::resume_unwind(panicked))
        })
    }

    fn set_batch(&mut self, items: usize) {
        self.batch = items;
    }
}

/// Items that become samples together, each with its split.
type Batch<T> = Vec<(usize, T)>;

impl<F, T> Streams<F, T> {
    fn read(&self, unit: usize, split: Option<usize>, to_make: SyncSender<Batch<T>>) -> Result<()> {
        let hand_over = |batch: &mut Batch<T>| match batch.is_empty() {
            true => Ok(()),
            false => to_make
                .send(std::mem::take(batch))
                .map_err(|_| Error::new(ErrorKind::Interrupted, "no more samples are wanted")),
        };
        let mut batch = Vec::with_capacity(self.batch);
        let mut emit = |item: (usize, T)| {
            if split.is_none_or(|split| split == item.0) {
                batch.push(item);
            }
            if batch.len() < self.batch { Ok(()) } else { hand_over(&mut batch) }
        };
        let result = (self.read)(&self.files[unit], &mut emit);
        // Samples that were read before an error are good.
        result.and(hand_over(&mut batch))
    }
}

/// Counts what was skipped. Clones count together.
#[derive(Debug, Clone, Default)]
pub(crate) struct SkippedTally(Arc<Mutex<Skipped>>);

/// The first notes are kept by their place, because units are made in any order.
#[derive(Debug, Default)]
struct Skipped {
    count: u64,
    first: BTreeMap<(usize, u64), String>,
}

impl SkippedTally {
    fn lock(&self) -> MutexGuard<'_, Skipped> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes what was skipped as this item of a unit.
    pub(crate) fn note(&self, unit: usize, item: u64, key: &str, why: &str) {
        let mut skipped = self.lock();
        skipped.count += 1;
        skipped.first.insert((unit, item), format!("{key}: {why}"));
        if skipped.first.len() > NOTES {
            skipped.first.pop_last();
        }
    }

    /// How many samples were skipped, and why the first of them.
    pub(crate) fn get(&self) -> (u64, Vec<String>) {
        let skipped = self.lock();
        (skipped.count, skipped.first.values().cloned().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(samples: &Samples, split: Option<usize>) -> Vec<String> {
        let mut found = Vec::new();
        for unit in 0..samples.units() {
            let ended = samples.make(unit, split, &mut |split, made| {
                found.push(match made {
                    Ok(Made::Sample(packed)) => format!("{split} {packed:?}"),
                    Ok(Made::Skipped { key, why }) => format!("{key} {why}"),
                    Err(error) => error.to_string(),
                });
                Ok(())
            });
            if let Err(error) = ended {
                found.push(format!("end: {error}"));
            }
        }
        found
    }

    #[test]
    fn the_order_is_that_of_the_items() {
        let expected: Vec<String> = (0..1000u32).map(|n| format!("0 [{}]", n as u8)).collect();
        for batch in [1, 7, 32, 5000] {
            let samples = Samples::new((0..1000u32).collect(), |n| Ok(vec![n as u8])).batch(batch);
            assert_eq!(samples.units(), 1000usize.div_ceil(batch));
            assert_eq!(samples.len(), Some(1000));
            assert_eq!(all(&samples, None), expected, "{batch}");
            let read = |emit: &mut Emit<'_, u32>| (0..1000).try_for_each(emit);
            let samples = Samples::stream(read, |n| Ok(vec![n as u8])).batch(batch);
            assert_eq!((samples.units(), samples.len()), (1, None));
            // Twice: a unit can be made again.
            assert_eq!(all(&samples, None), expected, "{batch}");
            assert_eq!(all(&samples, Some(0)), expected, "{batch}");
        }
        assert_eq!(Samples::new(Vec::<u8>::new(), |n| Ok(vec![n])).units(), 0);
    }

    #[test]
    fn an_error_comes_in_its_place() {
        let bad = |message: &str| Error::new(ErrorKind::Damaged, message);
        let read = move |emit: &mut Emit<'_, (usize, u8)>| {
            (0..4).try_for_each(|n| emit((usize::from(n / 3), n)))?;
            Err(bad("cut short"))
        };
        let make = move |n: u8| match n {
            1 => Err(bad("broken")),
            2 => Ok(Made::Skipped { key: "k".into(), why: "empty".into() }),
            n => Ok(Made::Sample(vec![n])),
        };
        let samples = Samples::mixed(read, make).batch(3);
        assert_eq!(all(&samples, None), ["0 [0]", "broken", "k empty", "1 [3]", "end: cut short"]);
        assert_eq!(all(&samples, Some(1)), ["1 [3]", "end: cut short"]);
    }

    #[test]
    fn an_end_that_comes_early_ends_the_reading() {
        let read = |emit: &mut Emit<'_, u32>| (0..u32::MAX).try_for_each(emit);
        let samples = Samples::stream(read, |n| Ok(vec![n as u8]));
        let enough = |_, _| Err(Error::new(ErrorKind::Interrupted, "enough"));
        let ended = samples.make(0, None, &mut { enough });
        assert_eq!(ended.unwrap_err().to_string(), "enough");
    }

    #[test]
    #[should_panic(expected = "on purpose")]
    fn a_panic_is_not_the_end() {
        let read = |_: &mut Emit<'_, u8>| panic!("on purpose");
        all(&Samples::stream(read, |n| Ok(vec![n])), None);
    }

    #[test]
    fn the_first_notes_are_kept() {
        let skipped = SkippedTally::default();
        for item in (0..30).rev() {
            skipped.note(1, item, &item.to_string(), "empty");
        }
        skipped.note(0, 9, "first", "empty");
        let (count, notes) = skipped.get();
        assert_eq!((count, notes.len()), (31, NOTES));
        assert_eq!(notes[..2], ["first: empty", "0: empty"]);
    }
}
