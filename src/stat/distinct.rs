//! [`Distinct`]: how many different values a field has, in memory that does not grow with them.

use std::hash::{BuildHasher, Hash};

use foldhash::HashSet;
use foldhash::quality::FixedState;
use serde::ser::{Serialize, SerializeStruct, Serializer};

/// The most hashes that are kept of one field: up to here the number is exact.
const HASHES: usize = 1 << 20;

/// How many different values there are: exactly up to a million of them, beyond to within about one percent.
///
/// Values are told apart by hashes of 64 bits. Once there are too many, only hashes that end in a zero bit are kept,
/// then in two of them, and so on.
#[derive(Debug, Clone, Default)]
pub struct Distinct {
    hashes: HashSet<u64>,
    /// Hashes that are kept end in this many zero bits.
    zeros: u32,
}

impl Distinct {
    /// Adds the [hash](hash) of a value.
    pub(super) fn add(&mut self, hash: u64) {
        if hash.trailing_zeros() >= self.zeros && self.hashes.insert(hash) {
            self.shrink_to(HASHES);
        }
    }

    pub(super) fn merge(&mut self, other: Distinct) {
        if self.zeros < other.zeros {
            self.zeros = other.zeros;
            self.hashes.retain(|hash| hash.trailing_zeros() >= self.zeros);
        }
        other.hashes.into_iter().for_each(|hash| self.add(hash));
    }

    /// Keeps at most this many hashes.
    fn shrink_to(&mut self, most: usize) {
        while self.hashes.len() > most {
            self.zeros += 1;
            self.hashes.retain(|hash| hash.trailing_zeros() >= self.zeros);
        }
    }

    /// Hashes that are kept.
    pub(super) fn len(&self) -> usize {
        self.hashes.len()
    }

    /// Keeps half of what it has.
    pub(super) fn halve(&mut self) {
        self.shrink_to(self.hashes.len() / 2);
        self.hashes.shrink_to_fit();
    }

    /// How many.
    pub fn count(&self) -> u64 {
        (self.hashes.len() as u64) << self.zeros
    }

    /// Whether this is the very number.
    pub fn is_exact(&self) -> bool {
        self.zeros == 0
    }
}

/// As `{"count", "exact"}`.
impl Serialize for Distinct {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_struct("Distinct", 2)?;
        map.serialize_field("count", &self.count())?;
        map.serialize_field("exact", &self.is_exact())?;
        map.end()
    }
}

/// What values are told apart by: the same in every run, so that estimates are.
pub(super) fn hash(value: &(impl Hash + ?Sized)) -> u64 {
    FixedState::default().hash_one(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_are_counted_and_many_are_estimated() {
        let mut few = Distinct::default();
        (0..3000).for_each(|n| few.add(hash(&(n % 1000))));
        assert_eq!((few.count(), few.is_exact()), (1000, true));
        let (mut whole, mut merged) = (Distinct::default(), Distinct::default());
        for part in 0..4u32 {
            let mut block = Distinct::default();
            for n in 0..1_000_000 {
                // Half of the next block comes again.
                let n = part * 500_000 + n;
                whole.add(hash(&n));
                block.add(hash(&n));
            }
            merged.merge(block);
        }
        assert_eq!((merged.count(), merged.zeros), (whole.count(), whole.zeros));
        assert!(!whole.is_exact());
        assert!(whole.count().abs_diff(2_500_000) < 25_000, "{}", whole.count());
    }
}
