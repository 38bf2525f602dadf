//! Several passes as one epoch, or endless passes.

use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use super::{Fingerprint, Order, Sampler, check, reserve};
use crate::error::{Error, ErrorKind, Result};

/// Several passes of a sampler in one epoch, each in its own order.
///
/// Epoch `e` has the passes `e * times .. (e + 1) * times`: with several passes an epoch, a
/// shuffle does not repeat itself.
#[doc(alias = "Repeater")]
#[derive(Clone)]
pub struct Repeat {
    sampler: Arc<dyn Sampler>,
    times: u64,
    len: u64,
}

impl Repeat {
    /// # Errors
    ///
    /// [`Limit`](ErrorKind::Limit) if there are more than `u64::MAX` positions.
    pub fn new(sampler: impl Sampler + 'static, times: u64) -> Result<Repeat> {
        let len = sampler.len().checked_mul(times).ok_or_else(|| {
            let message = format!("{times} passes of {} samples are too many", sampler.len());
            Error::new(ErrorKind::Limit, message)
        })?;
        Ok(Repeat { sampler: Arc::new(sampler), times, len })
    }

    fn fingerprint_of(&self, passes: Fingerprint) -> Fingerprint {
        Fingerprint::new("repeat", self.len).with(self.times).of(passes)
    }
}

impl Sampler for Repeat {
    fn len(&self) -> u64 {
        self.len
    }

    fn bound(&self) -> u64 {
        self.sampler.bound()
    }

    fn fingerprint(&self) -> Fingerprint {
        self.fingerprint_of(self.sampler.fingerprint())
    }

    fn fingerprint_before(&self, epoch: u64, position: u64) -> Fingerprint {
        let first = epoch.saturating_mul(self.times);
        self.fingerprint_of(fingerprint_before(&self.sampler, first, position))
    }

    fn epochs(&self) -> Option<u64> {
        self.sampler.epochs()?.checked_div(self.times)
    }

    fn order(&self, epoch: u64) -> Result<Arc<dyn Order>> {
        // Then the last pass fits as well.
        if epoch.checked_add(1).and_then(|n| n.checked_mul(self.len)).is_none() {
            return Err(too_late(epoch));
        }
        let first = epoch.checked_mul(self.times).ok_or_else(|| too_late(epoch))?;
        if let Some(epochs) = self.epochs().filter(|&epochs| epochs <= epoch) {
            let message =
                format!("there is no epoch {epoch}: the passes end after {epochs} epochs");
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        let passes = Passes::new(Arc::clone(&self.sampler), first)?;
        Ok(Arc::new(Run { passes, first, len: self.len }))
    }
}

/// A sampler's passes without end, each in its own order: one endless epoch, number 0.
///
/// Position `p` is position `p % n` of epoch `p / n` of the sampler, so one number is the whole
/// state.
#[doc(alias = "Cycler")]
#[derive(Clone)]
pub struct Cycle {
    sampler: Arc<dyn Sampler>,
}

impl Cycle {
    /// Cycles a sampler; one without samples stays empty.
    pub fn new(sampler: impl Sampler + 'static) -> Cycle {
        Cycle { sampler: Arc::new(sampler) }
    }
}

impl Sampler for Cycle {
    fn len(&self) -> u64 {
        if self.sampler.is_empty() { 0 } else { u64::MAX }
    }

    fn bound(&self) -> u64 {
        self.sampler.bound()
    }

    fn fingerprint(&self) -> Fingerprint {
        Fingerprint::new("cycle", self.len()).of(self.sampler.fingerprint())
    }

    fn fingerprint_before(&self, epoch: u64, position: u64) -> Fingerprint {
        let passes = fingerprint_before(&self.sampler, epoch, position);
        Fingerprint::new("cycle", self.len()).of(passes)
    }

    fn order(&self, epoch: u64) -> Result<Arc<dyn Order>> {
        if epoch > 0 {
            let message = format!("a cycle never ends, so there is no epoch {epoch}");
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        if let Some(passes) = self.sampler.epochs() {
            let message = format!("a cycle never ends, but its sampler does after {passes} passes");
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        let passes = Passes::new(Arc::clone(&self.sampler), 0)?;
        Ok(Arc::new(Run { passes, first: 0, len: self.len() }))
    }
}

/// Of passes before this position, counted from the beginning of the pass `first`.
fn fingerprint_before(sampler: &dyn Sampler, first: u64, position: u64) -> Fingerprint {
    let pass = position.checked_div(sampler.len()).unwrap_or(0);
    let within = position.checked_rem(sampler.len()).unwrap_or(0);
    sampler.fingerprint_before(first.saturating_add(pass), within)
}

pub(super) fn too_late(epoch: u64) -> Error {
    Error::new(ErrorKind::Limit, format!("epoch {epoch} is too late: its numbers do not fit"))
}

/// Passes one after the other.
struct Run {
    passes: Passes,
    first: u64,
    len: u64,
}

impl Order for Run {
    fn len(&self) -> u64 {
        self.len
    }

    fn index_at(&self, position: u64) -> u64 {
        check(position, self.len);
        let n = self.passes.len();
        self.passes.get(self.first + position / n).index_at(position % n)
    }

    fn fill(&self, positions: Range<u64>, out: &mut Vec<u64>) {
        if !positions.is_empty() {
            check(positions.end - 1, self.len);
            reserve(&positions, out);
            self.passes.fill(self.first, positions, out);
        }
    }

    fn position_of(&self, index: u64) -> Option<u64> {
        self.positions_of(index, 0..self.len).next()
    }

    fn positions_of(
        &self,
        index: u64,
        positions: Range<u64>,
    ) -> Box<dyn Iterator<Item = u64> + '_> {
        let mut left = positions.start..positions.end.min(self.len);
        Box::new(std::iter::from_fn(move || {
            let found = self.passes.next_position_of(self.first, index, left.clone())?;
            left.start = found + 1;
            Some(found)
        }))
    }
}

/// The orders of a sampler's passes, made when needed; the last two are kept, since batches reach
/// over from one pass into the next.
pub(super) struct Passes {
    sampler: Arc<dyn Sampler>,
    recent: Mutex<[(u64, Arc<dyn Order>); 2]>,
}

impl Passes {
    /// Fails if the first pass cannot be ordered.
    pub(super) fn new(sampler: Arc<dyn Sampler>, first: u64) -> Result<Passes> {
        let order = sampler.order(first)?;
        let recent = Mutex::new([(first, Arc::clone(&order)), (first, order)]);
        Ok(Passes { sampler, recent })
    }

    pub(super) fn len(&self) -> u64 {
        self.sampler.len()
    }

    pub(super) fn get(&self, pass: u64) -> Arc<dyn Order> {
        // Nothing can go wrong in the middle of an update, so a poisoned lock is as good.
        let mut recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        if recent[0].0 != pass {
            recent.swap(0, 1);
        }
        if recent[0].0 != pass {
            let order = self.sampler.order(pass).expect("samplers fail at once or never");
            recent[0] = (pass, order);
        }
        Arc::clone(&recent[0].1)
    }

    /// The first of these positions that has the index, counted from the beginning of the pass `first`.
    pub(super) fn next_position_of(
        &self,
        first: u64,
        index: u64,
        mut positions: Range<u64>,
    ) -> Option<u64> {
        let n = self.len();
        while !positions.is_empty() {
            let (pass, start) = (positions.start / n, positions.start % n);
            let count = (n - start).min(positions.end - positions.start);
            let order = self.get(first + pass);
            let found = order.positions_of(index, start..start + count).next();
            if let Some(found) = found {
                return Some(pass * n + found);
            }
            positions.start += count;
        }
        None
    }

    /// Appends the indices at these positions, counted from the beginning of the pass `first`.
    pub(super) fn fill(&self, first: u64, mut positions: Range<u64>, out: &mut Vec<u64>) {
        let n = self.len();
        while !positions.is_empty() {
            let (pass, start) = (positions.start / n, positions.start % n);
            let count = (n - start).min(positions.end - positions.start);
            self.get(first + pass).fill(start..start + count, out);
            positions.start += count;
        }
    }
}

impl fmt::Debug for Repeat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Repeat({} samples, {} times)", self.sampler.len(), self.times)
    }
}

impl fmt::Debug for Cycle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Cycle({} samples)", self.sampler.len())
    }
}
