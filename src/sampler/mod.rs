//! Order: which sample comes next. Pure numbers: no files, no samples, no clock, no threads.
//!
//! A [`Sampler`] is a configuration: a number of samples and a seed. For each epoch it gives an
//! [`Order`], which answers "which index is at this position?" for *any* position. So a training
//! run is resumed from two integers, epoch and position; nothing has to be replayed and no generator
//! has to be saved. A [`State`] has both, and a [`Fingerprint`] of the sampler, so that a run is not
//! resumed in another order unnoticed. The same configuration, seed, epoch and position give the
//! same index on every machine, **and in every release**: golden tests freeze the orders.
//!
//! | sampler | use it | memory | one index | inverse |
//! | --- | --- | --- | --- | --- |
//! | [`Sequential`] | as stored; a part of a dataset | none | O(1) | O(1) |
//! | [`Shuffle`] | **the default**: data in memory or on a fast disk | none | O(1) | O(1) |
//! | [`BlockShuffle`] | slow disks and object stores: reads stay in runs | none | O(1) | O(1) |
//! | [`Mixture`] | several datasets with exact shares | one short round for each phase | O(1) | as its samplers |
//! | [`Repeat`], [`Cycle`] | several passes in one epoch; endless | two passes' orders | as its sampler | as its sampler |
//! | [`DatadingsShuffle`] | exactly the order of Python datadings' `Shuffler` | 4 bytes a sample | O(1) after O(n) | search |
//! | [`DatadingsQuasiShuffle`] | exactly the order of its `QuasiShuffler` | 4 bytes a sample | O(1)
//! after O(n) | search |
//!
//! "Memory" is for one order; nothing is shared between orders. [`Partition`] gives each rank
//! and worker its batches of an epoch, [`torch_shard`] does the same as datadings' torch dataset,
//! [`quality`] measures how well an order mixes, [`rng`] holds the generators.
//!
//! ```
//! use kiste::sampler::{Partition, Sampler, Shuffle, Tail};
//!
//! let sampler = Shuffle::new(1_000_000, 42);
//! let order = sampler.order(3)?; // the fourth epoch
//! let index = order.index_at(123_456);
//! assert_eq!(order.position_of(index), Some(123_456));
//!
//! // Step 7 of rank 1 of 4, batches of 32 samples:
//! let plan = Partition::new(order.len(), 32)?.world(4)?.tail(Tail::Drop);
//! let batch: Vec<u64> = plan.batch(7, 1).indices(&*order);
//! assert_eq!(batch.len(), 32);
//! # Ok::<(), kiste::Error>(())
//! ```
//!
//! # Number types
//!
//! Samplers count in `u64`, readers in `usize`. A position may be far beyond what memory can
//! address (an endless order has `u64::MAX` of them), and an order must be the same on 32-bit
//! machines. An index into a reader is always addressable. [`bound`](Sampler::bound) is the bridge:
//! a loader refuses a sampler whose bound exceeds the length of its reader, and from there on the
//! conversion of an index to `usize` is lossless.
//!
//! Absent on purpose: samplers with state. Position and epoch belong to the caller.

pub mod batching;
pub mod rng;
mod permutation;
mod range;
mod repeat;
mod shuffle;
mod block_shuffle;
mod quasi_shuffle;
mod mixture;
mod partition;
mod fingerprint;
pub(crate) mod lengths;
mod torch;
mod options;
pub mod quality;
#[cfg(test)]
mod golden;
#[cfg(test)]
mod properties;

use std::ops::Range;
use std::sync::Arc;

use crate::error::Result;

pub use block_shuffle::{BlockOrder, BlockShuffle};
pub use fingerprint::Fingerprint;
pub use lengths::Lengths;
pub use mixture::{
    Exhausted, Mixture, MixturePhase, MixtureSource, TokenWeight, exact_quotas, quotas,
    quotas_by_tokens,
};
pub use options::{SamplerName, SamplerOptions};
pub use partition::{BatchPlace, BatchPositions, Partition, State, Tail};
pub use permutation::Permutation;
pub use quasi_shuffle::DatadingsQuasiShuffle;
pub use range::Sequential;
pub use repeat::{Cycle, Repeat};
pub use shuffle::{DatadingsShuffle, Shuffle};
pub use torch::{TorchWorker, torch_shard};

/// A way to order the samples of a dataset, for every epoch.
///
/// `order(e)` is a pure function: call it twice and the orders are equal. A sampler fails for all
/// epochs or for none of those whose positions, counted from the very first, fit in 64 bits, and
/// which come before its [`epochs`](Sampler::epochs) end.
pub trait Sampler: Send + Sync {
    /// Positions in one epoch. [`u64::MAX`] if it never ends.
    fn len(&self) -> u64;

    /// All indices are below this: how many samples the dataset must have at least.
    fn bound(&self) -> u64;

    /// The order of one epoch, counted from 0.
    ///
    /// # Errors
    ///
    /// [`Limit`](crate::ErrorKind::Limit) where the numbers do not fit, because the epoch is
    /// absurdly late or there are more samples than this sampler can order;
    /// [`Invalid`](crate::ErrorKind::Invalid) if [`epochs`](Sampler::epochs) says that there is no such epoch.
    fn order(&self, epoch: u64) -> Result<Arc<dyn Order>>;

    /// Describes the orders, for [`State`]: a resume with other orders is an error.
    /// Default: the length alone.
    fn fingerprint(&self) -> Fingerprint {
        Fingerprint::new("", self.len())
    }

    /// As [`fingerprint`](Sampler::fingerprint), of what comes before this position of this epoch: what
    /// changes only later positions, such as a phase that a [`Mixture`] gets, is not in it.
    /// Default: the fingerprint of all orders.
    fn fingerprint_before(&self, epoch: u64, position: u64) -> Fingerprint {
        let _ = (epoch, position);
        self.fingerprint()
    }

    /// Whether a state is a place in these orders: what [`State::check`] asks. Default: compares the
    /// [fingerprints](Sampler::fingerprint_before) up to the place.
    ///
    /// # Errors
    ///
    /// [`Invalid`](crate::ErrorKind::Invalid), saying what differs.
    fn check_state(&self, state: &State) -> Result<()> {
        let found = || self.fingerprint_before(state.epoch, state.position);
        state.order.map_or(Ok(()), |saved| found().check(&saved))
    }

    /// How many epochs there are, if they end. Default: they do not.
    fn epochs(&self) -> Option<u64> {
        None
    }

    /// Whether an epoch has no positions.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The order of one epoch: a function from positions to indices.
pub trait Order: Send + Sync {
    /// Positions. [`u64::MAX`] if it never ends.
    fn len(&self) -> u64;

    /// The index of the sample at a position.
    ///
    /// # Panics
    ///
    /// If the position is not below [`len`](Order::len), as slices do.
    fn index_at(&self, position: u64) -> u64;

    /// Appends the indices at these positions; faster than one by one.
    ///
    /// # Panics
    ///
    /// If a position is not below [`len`](Order::len).
    fn fill(&self, positions: Range<u64>, out: &mut Vec<u64>) {
        reserve(&positions, out);
        out.extend(positions.map(|position| self.index_at(position)));
    }

    /// The first position at which this sample is seen; `None` if it never is.
    ///
    /// Takes constant time where the table of the [module](self) says O(1). Otherwise it searches,
    /// and an endless order may search forever for a sample that it does not have.
    fn position_of(&self, index: u64) -> Option<u64> {
        (0..self.len()).find(|&position| self.index_at(position) == index)
    }

    /// All of these positions at which this sample is seen, ascending. Each takes as long as
    /// [`position_of`](Order::position_of).
    fn positions_of(
        &self,
        index: u64,
        positions: Range<u64>,
    ) -> Box<dyn Iterator<Item = u64> + '_> {
        let positions = positions.start..positions.end.min(self.len());
        Box::new(positions.filter(move |&position| self.index_at(position) == index))
    }

    /// Whether there are no positions.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl dyn Order + '_ {
    /// All indices in order.
    pub fn iter(&self) -> Indices<'_> {
        self.range(0..self.len())
    }

    /// The indices at these positions; what comes after a resume, for example.
    ///
    /// # Panics
    ///
    /// The iterator does if a position is not below [`len`](Order::len).
    pub fn range(&self, positions: Range<u64>) -> Indices<'_> {
        Indices { order: self, positions, chunk: Vec::new(), next: 0 }
    }
}

/// Iterator over the indices of an [`Order`].
#[must_use = "iterators are lazy and do nothing unless consumed"]
pub struct Indices<'a> {
    order: &'a dyn Order,
    /// Positions that are not in the chunk yet.
    positions: Range<u64>,
    chunk: Vec<u64>,
    next: usize,
}

impl Iterator for Indices<'_> {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        /// Large enough to amortise what an order prepares once per call of `fill`.
        const CHUNK: u64 = 1024;
        if self.next == self.chunk.len() {
            let start = self.positions.start;
            let end = self.positions.end.min(start.saturating_add(CHUNK));
            if start >= end {
                return None;
            }
            self.chunk.clear();
            self.next = 0;
            self.order.fill(start..end, &mut self.chunk);
            self.positions.start = end;
        }
        self.next += 1;
        Some(self.chunk[self.next - 1])
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.positions.end.saturating_sub(self.positions.start);
        let total =
            usize::try_from(left).ok().and_then(|n| n.checked_add(self.chunk.len() - self.next));
        (total.unwrap_or(usize::MAX), total)
    }
}

/// Makes room for the indices at these positions.
fn reserve(positions: &Range<u64>, out: &mut Vec<u64>) {
    let wanted = positions.end.saturating_sub(positions.start);
    out.reserve(usize::try_from(wanted).expect("more indices than can be addressed"));
}

/// The positions of an index in an order that has it once, if it is in this range.
fn once(position: Option<u64>, positions: Range<u64>) -> Box<dyn Iterator<Item = u64> + 'static> {
    Box::new(position.filter(|position| positions.contains(position)).into_iter())
}

/// Panics as slices do if the position is too large.
#[inline]
#[track_caller]
fn check(position: u64, len: u64) {
    assert!(position < len, "position {position} of an order of {len}");
}

impl<S: Sampler + ?Sized> Sampler for Arc<S> {
    fn len(&self) -> u64 {
        (**self).len()
    }

    fn bound(&self) -> u64 {
        (**self).bound()
    }

    fn order(&self, epoch: u64) -> Result<Arc<dyn Order>> {
        (**self).order(epoch)
    }

    fn fingerprint(&self) -> Fingerprint {
        (**self).fingerprint()
    }

    fn fingerprint_before(&self, epoch: u64, position: u64) -> Fingerprint {
        (**self).fingerprint_before(epoch, position)
    }

    fn check_state(&self, state: &State) -> Result<()> {
        (**self).check_state(state)
    }

    fn epochs(&self) -> Option<u64> {
        (**self).epochs()
    }
}

impl<S: Sampler + ?Sized> Sampler for Box<S> {
    fn len(&self) -> u64 {
        (**self).len()
    }

    fn bound(&self) -> u64 {
        (**self).bound()
    }

    fn order(&self, epoch: u64) -> Result<Arc<dyn Order>> {
        (**self).order(epoch)
    }

    fn fingerprint(&self) -> Fingerprint {
        (**self).fingerprint()
    }

    fn fingerprint_before(&self, epoch: u64, position: u64) -> Fingerprint {
        (**self).fingerprint_before(epoch, position)
    }

    fn check_state(&self, state: &State) -> Result<()> {
        (**self).check_state(state)
    }

    fn epochs(&self) -> Option<u64> {
        (**self).epochs()
    }
}

impl<O: Order + ?Sized> Order for Arc<O> {
    fn len(&self) -> u64 {
        (**self).len()
    }

    fn index_at(&self, position: u64) -> u64 {
        (**self).index_at(position)
    }

    fn fill(&self, positions: Range<u64>, out: &mut Vec<u64>) {
        (**self).fill(positions, out);
    }

    fn position_of(&self, index: u64) -> Option<u64> {
        (**self).position_of(index)
    }

    fn positions_of(
        &self,
        index: u64,
        positions: Range<u64>,
    ) -> Box<dyn Iterator<Item = u64> + '_> {
        (**self).positions_of(index, positions)
    }
}

impl<O: Order + ?Sized> Order for Box<O> {
    fn len(&self) -> u64 {
        (**self).len()
    }

    fn index_at(&self, position: u64) -> u64 {
        (**self).index_at(position)
    }

    fn fill(&self, positions: Range<u64>, out: &mut Vec<u64>) {
        (**self).fill(positions, out);
    }

    fn position_of(&self, index: u64) -> Option<u64> {
        (**self).position_of(index)
    }

    fn positions_of(
        &self,
        index: u64,
        positions: Range<u64>,
    ) -> Box<dyn Iterator<Item = u64> + '_> {
        (**self).positions_of(index, positions)
    }
}
