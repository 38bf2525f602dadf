//! [`ReadBench`]: how fast the samples of a dataset are read.

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::dataset::DatasetReader;
use crate::error::{Error, ErrorKind, Result};
use crate::loader::Loader;
use crate::sampler::{Order, Sampler, Sequential, Shuffle, State};

/// How the samples are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum ReadMode {
    /// One after the other.
    Seq,
    /// Shuffled, by index.
    Rand,
    /// Shuffled, each looked up by its key.
    Key,
    /// Shuffled, in batches, on threads.
    Loader,
}

/// Measures how fast the samples of a dataset are read: each is read once a pass and decoded, or only
/// copied.
///
/// ```
/// use kiste::stat::{ReadBench, ReadMode};
/// use kiste::{DatasetReader, Writer};
///
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("words.msgpack");
/// let mut writer = Writer::create(&path)?;
/// writer.write(&std::collections::BTreeMap::from([("key", "de"), ("word", "Kiste")]))?;
/// writer.finish()?;
///
/// let reader = DatasetReader::open(&path)?;
/// let bench = ReadBench::new(ReadMode::Key).raw(true);
/// let (first, second) = (bench.pass(&reader, 0)?, bench.pass(&reader, 1)?);
/// println!("{first:?} with a cold cache, {second:?} with a warm one");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
#[must_use]
pub struct ReadBench {
    mode: ReadMode,
    raw: bool,
    seed: u64,
    batch_size: u64,
    threads: Option<usize>,
}

impl ReadBench {
    /// Reads in this way.
    pub fn new(mode: ReadMode) -> ReadBench {
        ReadBench { mode, raw: false, seed: 0, batch_size: 256, threads: None }
    }

    /// Whether samples are only copied, and not decoded. Default: no.
    pub fn raw(mut self, yes: bool) -> ReadBench {
        self.raw = yes;
        self
    }

    /// Another seed shuffles differently. Default: 0.
    pub fn seed(mut self, seed: u64) -> ReadBench {
        self.seed = seed;
        self
    }

    /// Samples in a batch of the loader. Default: 256.
    pub fn batch_size(mut self, samples: u64) -> ReadBench {
        self.batch_size = samples;
        self
    }

    /// Threads of the loader. Default: one for each core. Everything else reads on one thread.
    pub fn threads(mut self, threads: usize) -> ReadBench {
        self.threads = Some(threads);
        self
    }

    /// How long it takes to read all samples, in the order of an epoch. What is prepared before, such
    /// as the list of keys, is not measured; the threads of a loader are.
    ///
    /// # Errors
    ///
    /// Those of the reader.
    pub fn pass(&self, reader: &DatasetReader, epoch: u64) -> Result<Duration> {
        if self.mode == ReadMode::Loader {
            return self.epoch(reader, epoch);
        }
        let samples = reader.len() as u64;
        let order = match self.mode {
            ReadMode::Seq => Sequential::new(samples).order(epoch)?,
            _ => Shuffle::new(samples, self.seed).order(epoch)?,
        };
        let order: &dyn Order = &*order;
        let mut keys = Vec::new();
        if self.mode == ReadMode::Key {
            for index in order.iter() {
                keys.push(reader.key(index as usize)?.into_owned());
            }
        }
        let mut copy = Vec::new();
        let mut read = |index: usize| -> Result<()> {
            if self.raw {
                copy.clear();
                copy.extend_from_slice(&reader.get_raw(index)?);
                black_box(&copy);
            } else {
                black_box(reader.get(index)?);
            }
            Ok(())
        };
        let start = Instant::now();
        if self.mode == ReadMode::Key {
            for key in &keys {
                let absent = || {
                    let message =
                        "expected every key of the dataset to be found, found one that is not";
                    Error::new(ErrorKind::Damaged, message).with_key(&**key).at(reader.path())
                };
                read(reader.find(key)?.ok_or_else(absent)?)?;
            }
        } else {
            for index in order.iter() {
                read(index as usize)?;
            }
        }
        Ok(start.elapsed())
    }

    /// How long a shuffled epoch takes.
    fn epoch(&self, reader: &DatasetReader, epoch: u64) -> Result<Duration> {
        let shuffle = Shuffle::new(reader.len() as u64, self.seed);
        let mut options = Loader::options(Arc::new(reader.clone()), shuffle)
            .batch_size(self.batch_size)
            .resume(State { epoch, position: 0 })
            .epochs(1);
        if let Some(threads) = self.threads {
            options = options.threads(threads);
        }
        let start = Instant::now();
        match self.raw {
            true => drain(options.raw()?)?,
            false => drain(options.map(|record| record.get())?)?,
        }
        Ok(start.elapsed())
    }
}

fn drain<D: Send>(loader: Loader<D>) -> Result<()> {
    for batch in loader {
        black_box(batch?);
    }
    Ok(())
}
