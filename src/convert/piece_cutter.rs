//! [`Cutter`]: where one piece of a conversion ends and the next begins.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::Source;
use super::shard_limit::ShardLimit;
use crate::error::{Error, Result};

/// A piece that ends [soon](Cut::Soon) takes no longer.
const SOON: Duration = Duration::from_secs(60);

/// Where a piece ends.
pub(super) enum Cut {
    /// After the sample that reaches this.
    Limit(ShardLimit),
    /// After the sample with which it has this many bytes, or after some time: no more than that is lost if the run is killed.
    Soon(u64),
    /// Before the first of these units that was not reached yet: one piece for each.
    Units(VecDeque<usize>),
    /// After as many samples as the first of these says: one piece for each.
    Samples(VecDeque<u64>),
    /// With the source.
    Never,
}

/// How many samples each of this many pieces has, the first ones no fewer than the others. The last one has
/// no limit.
pub(super) fn shares(samples: u64, shards: usize) -> impl Iterator<Item = u64> {
    let (whole, more) = (samples / shards.max(1) as u64, samples % shards.max(1) as u64);
    (1..=shards).map(move |shard| match shard {
        last if last == shards => u64::MAX,
        shard => whole + u64::from(shard as u64 <= more),
    })
}

/// A source that ends with each piece, and continues with the next.
pub(super) struct Cutter {
    source: Box<dyn Source>,
    cut: Cut,
    /// The rest of the last batch of the source, and how many items of it were handed out.
    held: VecDeque<Result<Vec<u8>>>,
    passed: usize,
    /// Where in the batch of the source the last one that was handed out begins.
    start: usize,
    unit: Option<usize>,
    /// Items of this unit that were handed out.
    pub(super) item: u64,
    /// Items that an earlier run has written.
    skip: u64,
    bytes: u64,
    samples: u64,
    begun: Instant,
    is_full: bool,
}

impl Cutter {
    pub(super) fn new(source: Box<dyn Source>, cut: Cut, unit: Option<usize>, skip: u64) -> Cutter {
        let (held, passed, start) = (VecDeque::new(), 0, 0);
        let (item, bytes, samples, begun, is_full) = (0, 0, 0, Instant::now(), false);
        Cutter {
            source,
            cut,
            held,
            passed,
            start,
            unit,
            item,
            skip,
            bytes,
            samples,
            begun,
            is_full,
        }
    }

    /// Has the next batch of the source, if there is one.
    fn fill(&mut self) -> Result<bool> {
        while self.held.is_empty() {
            let batch = self.source.next_batch()?;
            if batch.is_empty() {
                return Ok(false);
            }
            let unit = self.source.unit();
            if unit != self.unit {
                (self.unit, self.item, self.skip) = (unit, 0, 0);
            }
            (self.held, self.passed) = (batch.into(), 0);
            while self.skip > 0 && self.held.pop_front().is_some() {
                self.skip -= 1;
                self.item += 1;
                self.passed += 1;
            }
        }
        Ok(true)
    }

    /// This many samples of the piece were written, and the others were left out and do not count. Returns whether the
    /// piece goes on for that reason.
    pub(super) fn goes_on(&mut self, written: u64) -> bool {
        let Cut::Limit(limit) = self.cut else { return false };
        let goes_on = self.is_full && !limit.is_reached(written, self.bytes);
        if goes_on {
            (self.samples, self.is_full) = (written, false);
        }
        goes_on
    }

    /// Begins the next piece, if there is one.
    pub(super) fn next_piece(&mut self) -> Result<bool> {
        (self.bytes, self.samples, self.is_full) = (0, 0, false);
        self.begun = Instant::now();
        match &mut self.cut {
            Cut::Never => Ok(false),
            Cut::Units(ends) => Ok(ends.pop_front().is_some() && !ends.is_empty()),
            Cut::Samples(counts) => Ok(counts.pop_front().is_some() && !counts.is_empty()),
            Cut::Limit(_) | Cut::Soon(_) => self.fill(),
        }
    }
}

impl Source for Cutter {
    fn next_batch(&mut self) -> Result<Vec<Result<Vec<u8>>>> {
        if self.is_full || !self.fill()? {
            return Ok(Vec::new());
        }
        self.start = self.passed;
        let (most, most_samples) = match &self.cut {
            Cut::Limit(limit) => (limit.bytes, limit.samples),
            Cut::Soon(_) if self.begun.elapsed() >= SOON => (0, u64::MAX),
            Cut::Soon(bytes) => (*bytes, u64::MAX),
            Cut::Units(ends) => match (ends.front(), self.unit) {
                (Some(end), Some(unit)) if unit >= *end => return Ok(Vec::new()),
                _ => (u64::MAX, u64::MAX),
            },
            Cut::Samples(counts) => match counts.front() {
                Some(0) => return Ok(Vec::new()),
                count => (u64::MAX, count.copied().unwrap_or(u64::MAX)),
            },
            Cut::Never => (u64::MAX, u64::MAX),
        };
        let mut batch = Vec::with_capacity(self.held.len());
        while let Some(item) = self.held.pop_front() {
            self.bytes += item.as_ref().map_or(0, |packed| packed.len() as u64);
            self.samples += u64::from(item.is_ok());
            self.item += 1;
            self.passed += 1;
            batch.push(item);
            if self.bytes >= most || self.samples >= most_samples {
                self.is_full = true;
                break;
            }
        }
        Ok(batch)
    }

    fn locate(&self, item: usize, error: Error) -> Error {
        self.source.locate(self.start + item, error)
    }

    fn unit(&self) -> Option<usize> {
        self.unit
    }

    fn inner(&self) -> Option<&dyn Source> {
        Some(&*self.source)
    }
}
