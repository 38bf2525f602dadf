//! Samples on their way from a source, with their arrays stored otherwise.

use std::borrow::Cow;
use std::collections::VecDeque;

use rayon::prelude::*;

use super::Source;
use crate::array::{ArrayPolicy, ArrayTally};
use crate::error::{Error, Result};

/// Bytes of recoded samples that are in memory at a time, about. Arrays may become hundreds of times
/// larger when they are unpacked, so how many samples that is follows from those before.
const BYTES: usize = 32 << 20;
/// Bytes of samples that are recoded at a time: at first, and at most.
const FIRST: usize = 256 << 10;
const MOST: usize = 8 << 20;

/// Another source, the arrays of whose samples are stored as a policy says. Samples are recoded on
/// all cores and handed on in order.
///
/// ```
/// use kiste::Writer;
/// use kiste::array::ArrayPolicy;
/// use kiste::convert::{DatasetInput, Duplicates, InOrder, Recode, convert};
///
/// # let dir = tempfile::tempdir()?;
/// # let (path, packed_path) = (dir.path().join("a.msgpack"), dir.path().join("b.msgpack"));
/// # let mut writer = Writer::create(&path)?;
/// # let x = kiste::value::NdArray::from_ndarray(&ndarray::Array1::<f64>::zeros(1000)).into_owned();
/// # #[derive(serde::Serialize)]
/// # struct Sample { key: &'static str, x: kiste::value::NdArray<'static> }
/// # writer.write(&Sample { key: "a", x })?;
/// # writer.finish()?;
/// let policy: ArrayPolicy = "blpk:lz4".parse()?;
/// let dataset = InOrder::new(DatasetInput::open(&path)?);
/// let mut source = Recode::new(Box::new(dataset), policy);
/// let mut writer = Writer::create(&packed_path)?;
/// convert(&mut source, &mut writer, Duplicates::Refuse, |_| {})?;
/// assert_eq!(source.tally().recoded, 1);
/// assert!(source.tally().ratio() > 10.0);
/// writer.finish()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Recode {
    source: Box<dyn Source>,
    policy: ArrayPolicy,
    tally: ArrayTally,
    /// The rest of the last batch of the source.
    pending: VecDeque<Result<Vec<u8>>>,
    /// Which samples of that batch the last one of ours began with, and the next one will.
    first: usize,
    next: usize,
    /// Bytes of the next batch before it is recoded.
    budget: usize,
}

impl Recode {
    /// The samples of this source, their arrays stored like this.
    pub fn new(source: Box<dyn Source>, policy: ArrayPolicy) -> Recode {
        let (tally, pending) = (ArrayTally::default(), VecDeque::new());
        Recode { source, policy, tally, pending, first: 0, next: 0, budget: FIRST }
    }

    /// Counts the arrays so far by what was done with them.
    pub fn tally(&self) -> &ArrayTally {
        &self.tally
    }

    /// The samples that are recoded together.
    fn take(&mut self) -> Result<Vec<Result<Vec<u8>>>> {
        if self.pending.is_empty() {
            self.pending = self.source.next_batch()?.into();
            self.next = 0;
        }
        self.first = self.next;
        let (mut batch, mut bytes) = (Vec::new(), 0);
        while bytes < self.budget {
            let Some(sample) = self.pending.pop_front() else { break };
            bytes += sample.as_ref().map_or(0, Vec::len);
            batch.push(sample);
        }
        self.next += batch.len();
        Ok(batch)
    }
}

impl Source for Recode {
    fn next_batch(&mut self) -> Result<Vec<Result<Vec<u8>>>> {
        let batch = self.take()?;
        let len =
            |batch: &[Result<Vec<u8>>]| -> usize { batch.iter().flatten().map(Vec::len).sum() };
        let before = len(&batch);
        let policy = &self.policy;
        let recoded: Vec<(Result<Vec<u8>>, ArrayTally)> =
            batch.into_par_iter().map(|sample| recode(policy, sample)).collect();
        let mut done = Vec::with_capacity(recoded.len());
        for (item, (sample, tally)) in recoded.into_iter().enumerate() {
            self.tally += tally;
            done.push(sample.map_err(|error| self.locate(item, error)));
        }
        // At most twice as many as before: one batch of small arrays says little about the next.
        let growth = len(&done) as f64 / before.max(1) as f64;
        let wanted = (BYTES as f64 / growth.max(1.0)) as usize;
        self.budget = wanted.min(2 * self.budget).clamp(1, MOST);
        Ok(done)
    }

    fn locate(&self, item: usize, error: Error) -> Error {
        self.source.locate(self.first + item, error)
    }

    fn arrays(&self) -> Option<&ArrayTally> {
        Some(&self.tally)
    }

    fn inner(&self) -> Option<&dyn Source> {
        Some(&*self.source)
    }
}

fn recode(policy: &ArrayPolicy, sample: Result<Vec<u8>>) -> (Result<Vec<u8>>, ArrayTally) {
    let mut tally = ArrayTally::default();
    let recoded = sample.and_then(|sample| {
        let recoded = policy.recode(&sample, &mut tally);
        let recoded = recoded.map_err(|error| error.with_raw(&sample[..]));
        let changed = match recoded? {
            Cow::Owned(changed) => Some(changed),
            Cow::Borrowed(_) => None,
        };
        Ok(changed.unwrap_or(sample))
    });
    (recoded, tally)
}
