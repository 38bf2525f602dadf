//! [`Changed`]: the samples of another input or source, each changed by itself, on all cores.

use std::collections::VecDeque;
use std::path::Path;

use rayon::prelude::*;

use super::Source;
use super::carried::Remarks;
use super::input::{Emit, Input};
use crate::error::{Error, Result};

/// A batch ends at this many samples or bytes.
const BATCH: (usize, usize) = (128, 32 << 20);

/// A change of samples. What a sample becomes depends on it and its file alone.
pub trait Change: Send + Sync {
    /// What is known of the file that samples are from.
    type Place: Sync;

    /// Whether samples may become much larger. Then only as many are changed at a time as there are cores.
    const GROWS: bool = false;

    /// Looks at the file of the samples that follow, if they are from one.
    fn place(&self, file: Option<&Path>) -> Self::Place;

    /// Names the files that go into samples, with sizes and times, where they are known.
    fn identify(&self, add: &mut dyn FnMut(&[u8])) {
        let _ = add;
    }

    /// Whether labels are still the numbers that the source has names for.
    fn keeps_label_names(&self) -> bool {
        true
    }

    /// The changed sample. An error has the sample with it.
    fn change(&self, place: &Self::Place, packed: Vec<u8>) -> Result<Vec<u8>>;
}

/// The samples of another [`Input`] or [`Source`], each changed. Samples keep their order.
#[must_use]
pub struct Changed<T, C> {
    inner: T,
    change: C,
    /// Samples of the last batch of a source that are not changed yet, and how many of it are.
    rest: VecDeque<Result<Vec<u8>>>,
    passed: usize,
    /// How many of it were changed before the batch that was handed out.
    before: usize,
}

/// Samples that are changed together.
fn most<C: Change>() -> usize {
    if C::GROWS { rayon::current_num_threads() } else { BATCH.0 }
}

impl<T, C: Change> Changed<T, C> {
    /// Changes the samples of `inner`.
    pub fn new(inner: T, change: C) -> Changed<T, C> {
        Changed { inner, change, rest: VecDeque::new(), passed: 0, before: 0 }
    }

    fn emit(
        &self,
        place: &C::Place,
        batch: &mut Vec<Result<Vec<u8>>>,
        emit: &mut Emit<'_>,
    ) -> Result<()> {
        let samples = std::mem::take(batch).into_par_iter();
        let change = &self.change;
        let changed = samples.map(|sample| change.change(place, sample?));
        changed.collect::<Vec<_>>().into_iter().try_for_each(emit)
    }
}

impl<T: Input, C: Change> Input for Changed<T, C> {
    fn units(&self) -> usize {
        self.inner.units()
    }

    /// A unit may be a whole archive, so the cores share the samples of a unit and not only the
    /// units.
    fn read(&self, unit: usize, emit: &mut Emit<'_>) -> Result<()> {
        let place = self.change.place(self.inner.path(unit));
        let (mut batch, mut bytes) = (Vec::new(), 0);
        let read = self.inner.read(unit, &mut |sample| {
            bytes += sample.as_ref().map_or(0, Vec::len);
            batch.push(sample);
            if batch.len() < most::<C>() && bytes < BATCH.1 {
                return Ok(());
            }
            bytes = 0;
            self.emit(&place, &mut batch, emit)
        });
        // The samples before an error are good.
        self.emit(&place, &mut batch, emit)?;
        read
    }

    fn path(&self, unit: usize) -> Option<&Path> {
        self.inner.path(unit)
    }

    fn bytes(&self, unit: usize) -> Option<u64> {
        self.inner.bytes(unit)
    }

    fn shard(&self, unit: usize) -> Option<&str> {
        self.inner.shard(unit)
    }

    fn identify(&self, add: &mut dyn FnMut(&[u8])) {
        self.inner.identify(add);
        self.change.identify(add);
    }

    fn locate(&self, unit: usize, item: u64, error: Error) -> Error {
        self.inner.locate(unit, item, error)
    }

    fn remarks(&self, unit: usize) -> Remarks {
        self.inner.remarks(unit)
    }

    fn len_hint(&self) -> Option<u64> {
        self.inner.len_hint()
    }

    fn label_names(&self) -> Option<&[String]> {
        self.inner.label_names().filter(|_| self.change.keeps_label_names())
    }
}

impl<T: Source, C: Change> Source for Changed<T, C> {
    fn next_batch(&mut self) -> Result<Vec<Result<Vec<u8>>>> {
        let place = self.change.place(None);
        if self.rest.is_empty() {
            self.rest = self.inner.next_batch()?.into();
            self.passed = 0;
        }
        self.before = self.passed;
        let count = if C::GROWS { most::<C>() } else { self.rest.len() };
        let batch: Vec<_> = self.rest.drain(..count.min(self.rest.len())).collect();
        self.passed += batch.len();
        let change = &self.change;
        let changed = batch.into_par_iter().map(|sample| Ok(change.change(&place, sample?)));
        let changed: Vec<Result<Result<Vec<u8>>>> = changed.collect();
        let located = changed.into_iter().enumerate().map(|(item, sample)| match sample {
            Ok(changed) => changed.map_err(|error| self.inner.locate(self.before + item, error)),
            // An error of the source itself has its place already.
            Err(error) => Err(error),
        });
        Ok(located.collect())
    }

    fn locate(&self, item: usize, error: Error) -> Error {
        self.inner.locate(self.before + item, error)
    }

    fn inner(&self) -> Option<&dyn Source> {
        Some(&self.inner)
    }

    fn label_names(&self) -> Option<&[String]> {
        self.inner.label_names().filter(|_| self.change.keeps_label_names())
    }
}
