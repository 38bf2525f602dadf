//! Samples as they are stored: all of them, or a part.

use std::ops::Range;
use std::sync::Arc;

use super::{Fingerprint, Order, Sampler, check, once, reserve};
use crate::error::Result;

/// The samples as they are stored, all or a range, in every epoch alike.
///
/// ```
/// use kiste::sampler::{Sampler, Sequential};
///
/// let last_two = Sequential::slice(7, -2, None); // as Python's [-2:]
/// let order = last_two.order(0)?;
/// assert_eq!(order.iter().collect::<Vec<_>>(), [5, 6]);
/// # Ok::<(), kiste::Error>(())
/// ```
#[doc(alias = "Range")]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sequential {
    range: Range<u64>,
}

impl Sequential {
    /// All of this many samples.
    pub fn new(samples: u64) -> Sequential {
        Sequential::range(0..samples)
    }

    /// The samples of a range. One that ends before it starts is empty.
    pub fn range(range: Range<u64>) -> Sequential {
        Sequential { range: range.start..range.end.max(range.start) }
    }

    /// A slice of this many samples as in Python: negative numbers count from the end, and
    /// what lies outside is cut off.
    pub fn slice(samples: u64, start: i64, stop: Option<i64>) -> Sequential {
        let resolve = |at: i64| match u64::try_from(at) {
            Ok(at) => at.min(samples),
            Err(_) => samples.saturating_sub(at.unsigned_abs()),
        };
        Sequential::range(resolve(start)..stop.map_or(samples, resolve))
    }
}

impl Sampler for Sequential {
    fn len(&self) -> u64 {
        self.range.end - self.range.start
    }

    fn bound(&self) -> u64 {
        self.range.end
    }

    fn fingerprint(&self) -> Fingerprint {
        Fingerprint::new("sequential", Sampler::len(self)).with(self.range.start)
    }

    fn order(&self, _epoch: u64) -> Result<Arc<dyn Order>> {
        Ok(Arc::new(self.clone()))
    }
}

impl Order for Sequential {
    fn len(&self) -> u64 {
        Sampler::len(self)
    }

    fn index_at(&self, position: u64) -> u64 {
        check(position, Sampler::len(self));
        self.range.start + position
    }

    fn fill(&self, positions: Range<u64>, out: &mut Vec<u64>) {
        if !positions.is_empty() {
            check(positions.end - 1, Sampler::len(self));
            reserve(&positions, out);
            out.extend(positions.start + self.range.start..positions.end + self.range.start);
        }
    }

    fn position_of(&self, index: u64) -> Option<u64> {
        self.range.contains(&index).then(|| index - self.range.start)
    }

    fn positions_of(
        &self,
        index: u64,
        positions: Range<u64>,
    ) -> Box<dyn Iterator<Item = u64> + '_> {
        once(self.position_of(index), positions)
    }
}
