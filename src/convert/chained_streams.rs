//! [`ChainedStreams`]: several streams as one, which are not divided into units.

use super::{Remarks, Source};
use crate::error::{Error, Result};

/// The samples of one source, then the samples of the other. Neither has labels: the only streams are lines.
pub(super) struct ChainedStreams {
    sources: Vec<Box<dyn Source>>,
    /// The source of the last batch, and of the next one.
    at: usize,
    /// Those of the sources before it.
    remarks: Remarks,
}

impl ChainedStreams {
    pub(super) fn new(sources: Vec<Box<dyn Source>>) -> ChainedStreams {
        ChainedStreams { sources, at: 0, remarks: Remarks::default() }
    }
}

impl Source for ChainedStreams {
    fn next_batch(&mut self) -> Result<Vec<Result<Vec<u8>>>> {
        while let Some(source) = self.sources.get_mut(self.at) {
            let batch = source.next_batch()?;
            if !batch.is_empty() {
                return Ok(batch);
            }
            source.remarks().into_iter().for_each(|remarks| self.remarks.add(remarks));
            self.at += 1;
        }
        Ok(Vec::new())
    }

    fn locate(&self, item: usize, error: Error) -> Error {
        match self.sources.get(self.at) {
            Some(source) => source.locate(item, error),
            None => error,
        }
    }

    fn remarks(&self) -> [&Remarks; 2] {
        // A stream has no units, and so all of them in the first place.
        [&self.remarks, self.sources.get(self.at).map_or(Remarks::NONE, |at| at.remarks()[0])]
    }

    fn shard(&self) -> Option<&str> {
        self.sources.get(self.at).and_then(|source| source.shard())
    }

    // No unit: each source counts its own from 0.

    fn len_hint(&self) -> Option<u64> {
        self.sources.iter().try_fold(0u64, |sum, source| sum.checked_add(source.len_hint()?))
    }
}
