//! [`ReadBench`]: how fast the samples of a dataset are read.

use std::hint::black_box;
#[cfg(feature = "images")]
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::Serialize;

use super::stages::LoaderStages;
use crate::dataset::DatasetReader;
use crate::error::{Error, ErrorKind, Result};
use crate::loader::{Loader, LoaderReport};
use crate::reader::{Reader, ReaderExt, at_reader};
use crate::sampler::{Order, Sampler, SamplerName, SamplerOptions, Sequential, State};
#[cfg(feature = "images")]
use crate::{
    image::{Pipeline, PixelType},
    loader::{Columns, ImageClock},
};

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

/// The samples and bytes of one pass, and its duration.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct ReadPass {
    /// From the first sample to the last; the start of a loader's threads is part of it.
    pub time: Duration,
    /// Samples.
    pub samples: u64,
    /// Bytes of the packed samples.
    pub bytes: u64,
    /// Where the time of the [`Loader`](ReadMode::Loader) went.
    pub report: Option<LoaderReport>,
    /// Where the time went stage by stage, if the loader [decodes images](ReadBench::images).
    pub stages: Option<LoaderStages>,
}

/// Measures how fast the samples of a dataset, or of any reader, are read: each is read once a pass and decoded, or only
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
/// println!("{:?} with a cold cache, {:?} with a warm one", first.time, second.time);
/// assert_eq!(second.samples, 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
#[must_use]
pub struct ReadBench {
    mode: ReadMode,
    raw: bool,
    order: SamplerOptions,
    limit: Option<u64>,
    batch_size: u64,
    threads: Option<usize>,
    queue: usize,
    prefetch: bool,
    step: Duration,
    #[cfg(feature = "images")]
    images: Option<(String, Pipeline)>,
}

impl ReadBench {
    /// Reads in this way.
    pub fn new(mode: ReadMode) -> ReadBench {
        ReadBench {
            mode,
            raw: false,
            order: SamplerOptions::new(SamplerName::Shuffle),
            limit: None,
            batch_size: 256,
            threads: None,
            queue: 0,
            prefetch: false,
            step: Duration::ZERO,
            #[cfg(feature = "images")]
            images: None,
        }
    }

    /// Whether samples are only copied, and not decoded. Default: no.
    pub fn raw(mut self, yes: bool) -> ReadBench {
        self.raw = yes;
        self
    }

    /// Another seed shuffles differently. Default: 0.
    pub fn seed(mut self, seed: u64) -> ReadBench {
        self.order = self.order.seed(seed);
        self
    }

    /// The order of all modes but [`Seq`](ReadMode::Seq). Default: an exact shuffle.
    pub fn order(mut self, order: SamplerOptions) -> ReadBench {
        self.order = order;
        self
    }

    /// Reads only this many samples, the first ones of the order; a loader ends its last batch. Default: all.
    pub fn limit(mut self, samples: u64) -> ReadBench {
        self.limit = Some(samples);
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

    /// Batches of the loader that may be finished or in progress. Default, and 0: twice the threads.
    pub fn queue(mut self, batches: usize) -> ReadBench {
        self.queue = batches;
        self
    }

    /// Whether the loader tells the storage which samples come next. Default: no.
    pub fn prefetch(mut self, yes: bool) -> ReadBench {
        self.prefetch = yes;
        self
    }

    /// How long each batch of the loader is used before the next one is asked for, as a step of training
    /// would. Default: not at all.
    pub fn step(mut self, time: Duration) -> ReadBench {
        self.step = time;
        self
    }

    /// The loader decodes the images of this field and puts them through a pipeline into batches, as
    /// [`Columns::image`] does, instead of decoding whole samples. Measures each [stage](ReadPass::stages).
    #[cfg(feature = "images")]
    pub fn images(mut self, field: impl Into<String>, pipeline: Pipeline) -> ReadBench {
        self.images = Some((field.into(), pipeline));
        self
    }

    /// Reads all samples in the order of an epoch. Preparations, such as reading the list of keys,
    /// are not measured.
    ///
    /// # Errors
    ///
    /// The errors of the reader.
    pub fn pass<R>(&self, reader: &R, epoch: u64) -> Result<ReadPass>
    where
        R: Reader + Clone + 'static,
    {
        self.pass_watched(reader, epoch, |_| Ok(()))
    }

    /// The same. A loader calls `loaded` after each batch with the number of samples so far, and ends with
    /// its error.
    ///
    /// # Errors
    ///
    /// The errors of the reader and of `loaded`.
    pub fn pass_watched<R>(
        &self,
        reader: &R,
        epoch: u64,
        loaded: impl FnMut(u64) -> Result<()>,
    ) -> Result<ReadPass>
    where
        R: Reader + Clone + 'static,
    {
        if self.mode == ReadMode::Loader {
            return self.load(reader, epoch, loaded);
        }
        let samples = reader.len() as u64;
        let limit = self.limit.map_or(usize::MAX, |limit| limit.try_into().unwrap_or(usize::MAX));
        let order = match self.mode {
            ReadMode::Seq => Sequential::new(samples).order(epoch)?,
            _ => self.order.sampler(samples)?.order(epoch)?,
        };
        let order: &dyn Order = &*order;
        let mut keys = Vec::new();
        if self.mode == ReadMode::Key {
            for index in order.iter().take(limit) {
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
                    at_reader(reader, Error::new(ErrorKind::Damaged, message).with_key(&**key))
                };
                read(reader.find(key)?.ok_or_else(absent)?)?;
            }
        } else {
            for index in order.iter().take(limit) {
                read(index as usize)?;
            }
        }
        let time = start.elapsed();
        let bytes = match DatasetReader::of(reader).filter(|_| limit >= reader.len()) {
            Some(dataset) => dataset.data_len(),
            None => order.iter().take(limit).map(|index| bytes_of(reader, index)).sum(),
        };
        Ok(ReadPass { time, samples: samples.min(limit as u64), bytes, report: None, stages: None })
    }

    fn load<R: Reader + Clone + 'static>(
        &self,
        reader: &R,
        epoch: u64,
        mut loaded: impl FnMut(u64) -> Result<()>,
    ) -> Result<ReadPass> {
        let sampler = self.order.sampler(reader.len() as u64)?;
        let mut options = Loader::options(reader.clone(), sampler)
            .batch_size(self.batch_size)
            .queue(self.queue)
            .prefetch(self.prefetch)
            .resume(State::new(epoch, 0))
            .epochs(1);
        if let Some(threads) = self.threads {
            options = options.threads(threads);
        }
        let start = Instant::now();
        #[cfg(feature = "images")]
        if let Some((field, pipeline)) = &self.images {
            let clock = Arc::new(ImageClock::default());
            let columns = timed_columns(field, pipeline.clone(), clock.clone());
            let (report, of_all) = self.drain(options.columns(columns)?, &mut loaded)?;
            let stages = Some(LoaderStages::of(&of_all, clock.show()));
            let LoaderReport { samples, bytes, .. } = report;
            return Ok(ReadPass {
                time: start.elapsed(),
                samples,
                bytes,
                report: Some(report),
                stages,
            });
        }
        let (report, _) = match self.raw {
            true => self.drain(options.raw()?, &mut loaded)?,
            false => self.drain(options.map(|record| record.get())?, &mut loaded)?,
        };
        let LoaderReport { samples, bytes, .. } = report;
        Ok(ReadPass { time: start.elapsed(), samples, bytes, report: Some(report), stages: None })
    }

    /// The report of the batches that were asked for, and the report of all work, also for batches ahead of a limit.
    fn drain<D: Send>(
        &self,
        mut loader: Loader<D>,
        loaded: &mut dyn FnMut(u64) -> Result<()>,
    ) -> Result<(LoaderReport, LoaderReport)> {
        let (mut samples, limit) = (0, self.limit.unwrap_or(u64::MAX));
        while samples < limit {
            let Some(batch) = loader.next() else { break };
            let batch = batch?;
            samples += batch.indices.len() as u64;
            black_box(batch.data);
            std::thread::sleep(self.step);
            loaded(samples)?;
        }
        let (report, reporter) = (loader.report(), loader.reporter());
        // Waits for the threads.
        drop(loader);
        Ok((report, reporter.report()))
    }
}

/// A column of the images of a field, with a clock.
#[cfg(feature = "images")]
fn timed_columns(field: &str, pipeline: Pipeline, clock: Arc<ImageClock>) -> Columns {
    let (columns, clock) = (Columns::new(), Some(clock));
    match pipeline.output().0 {
        PixelType::U8 => columns.image_timed::<u8>(field, field, pipeline, clock),
        PixelType::F16 => columns.image_timed::<half::f16>(field, field, pipeline, clock),
        PixelType::Bf16 => columns.image_timed::<u16>(field, field, pipeline, clock),
        PixelType::F32 => columns.image_timed::<f32>(field, field, pipeline, clock),
    }
}

/// The bytes of a packed sample.
fn bytes_of(reader: &dyn Reader, index: u64) -> u64 {
    reader.raw_len(index as usize).unwrap_or(0)
}
