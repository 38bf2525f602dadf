//! [`Pass`]: samples while the files of a data set are read once.

use rayon::ThreadPoolBuilder;
use rayon::prelude::*;

use super::counts::{ClassCounts, shares};
use super::parts::{Made, Samples};
use super::{Opening, Split};
use crate::dataset::Writer;
use crate::error::{Error, ErrorKind, Result};

/// One reading of some files. Most data sets have one for each split; if the samples of several
/// splits lie mixed in an archive, one pass makes them all.
pub struct Pass {
    /// What is made. The number of a [`Made`] sample is a place in here.
    pub splits: Vec<Split>,
    /// How many samples there will be, where that is known.
    pub total: Option<u64>,
    /// The names of the labels, where the files themselves say them; otherwise they are those of
    /// the description.
    pub labels: Option<Vec<String>>,
    /// The samples.
    pub samples: Samples,
}

/// What a pass came to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tally {
    /// Samples that were written.
    pub written: u64,
    /// Samples that were passed over, as their data are good for nothing.
    pub skipped: u64,
    /// The first of these, and why: `KEY: reason`.
    pub notes: Vec<String>,
}

/// No more notes than this are kept.
const NOTES: usize = 20;

impl Pass {
    /// The samples of a split.
    pub fn new(split: &Split, samples: Samples) -> Pass {
        Pass { total: split.samples, splits: vec![*split], labels: None, samples }
    }

    /// The samples of several splits.
    pub fn several(splits: &[Split], samples: Samples) -> Pass {
        let total = splits.iter().map(|split| split.samples).sum();
        Pass { total, splits: splits.to_vec(), labels: None, samples }
    }

    /// The same, with so many samples as have been counted.
    pub fn total(mut self, total: usize) -> Pass {
        self.total = Some(total as u64);
        self
    }

    /// The same, with names of labels that the files have.
    pub fn labels(mut self, names: Vec<String>) -> Pass {
        self.labels = Some(names);
        self
    }

    /// Counts how much of the maps of each split its classes fill, and writes nothing. The order of
    /// the splits is that of `splits`; those that are not wanted stay empty. `progress` hears how
    /// many samples were seen so far.
    ///
    /// # Errors
    ///
    /// [`Damaged`](ErrorKind::Damaged) for maps that cannot be decoded.
    pub fn count(
        &mut self,
        opening: &Opening<'_>,
        mut progress: impl FnMut(u64),
    ) -> Result<Vec<ClassCounts>> {
        let (fields, limits) = (opening.dataset.maps(), opening.options.limits);
        let pool = ThreadPoolBuilder::new().num_threads(opening.options.threads).build();
        let pool = pool.map_err(|_| Error::new(ErrorKind::Limit, "no more threads can be had"))?;
        let of_sample = |made: Result<Made>| match made? {
            Made::Sample { split, packed } if opening.wants(self.splits[split].name) => {
                Ok((split, shares(&packed, &fields, limits)?))
            }
            Made::Sample { split, .. } => Ok((split, Vec::new())),
            Made::Skipped { .. } => Ok((0, Vec::new())),
        };
        let (mut counts, mut seen) = (vec![ClassCounts::default(); self.splits.len()], 0);
        while let Some(batch) = self.samples.next()? {
            seen += batch.len() as u64;
            let found: Vec<Result<_>> =
                pool.install(|| batch.into_par_iter().map(of_sample).collect());
            for found in found {
                let (split, shares) = found?;
                counts[split].add_all(&shares);
            }
            progress(seen);
        }
        Ok(counts)
    }

    /// Writes all samples: to one writer for each split, or nowhere for those that are not wanted.
    /// Stops at the first error. `progress` hears how many samples were seen so far.
    ///
    /// # Errors
    ///
    /// [`Invalid`](ErrorKind::Invalid) if there are not as many writers as splits.
    pub fn write(
        &mut self,
        writers: &mut [Option<Writer>],
        mut progress: impl FnMut(u64),
    ) -> Result<Tally> {
        if writers.len() != self.splits.len() {
            let (splits, writers) = (self.splits.len(), writers.len());
            let message = format!("expected writers for {splits} splits, found {writers}");
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        let (mut tally, mut seen) = (Tally::default(), 0);
        while let Some(batch) = self.samples.next()? {
            for made in batch {
                seen += 1;
                match made? {
                    Made::Sample { split, packed } => {
                        if let Some(writer) = &mut writers[split] {
                            writer.write_packed(&packed)?;
                            tally.written += 1;
                        }
                    }
                    Made::Skipped { key, why } => {
                        tally.skipped += 1;
                        if tally.notes.len() < NOTES {
                            tally.notes.push(format!("{key}: {why}"));
                        }
                    }
                }
            }
            progress(seen);
        }
        Ok(tally)
    }
}
