//! [`Classes`]: how often each value of a field occurs.

use foldhash::HashMap;
use serde::ser::{Serialize, Serializer};

use crate::rearrange::Scalar;

/// The most values of one field that are counted separately.
const CLASSES: usize = 100_000;
/// A text of more bytes is no name of a class.
pub(super) const MAX_CLASS: usize = 256;
/// In JSON at most this many are listed.
const LISTED: usize = 10_000;

/// How often each value of a field occurs: whole numbers, truth values and texts that are not too long.
///
/// Up to 100,000 different values are counted. Of more, the rarest are forgotten, so that the counts of the others are
/// a little too low: see [`missed`](Self::missed).
#[derive(Debug, Clone, Default)]
pub struct Classes {
    counts: HashMap<Scalar, u64>,
    missed: u64,
    /// Values that are counted here.
    total: u64,
    /// There are values that are no classes.
    others: bool,
}

impl Classes {
    pub(super) fn add(&mut self, class: Scalar) {
        match &class {
            Scalar::Whole(_) | Scalar::Truth(_) | Scalar::Text(_) => self.count(class, 1),
            Scalar::Nothing | Scalar::Float(_) | Scalar::Time(_) => self.others = true,
        }
    }

    /// A value that is no class.
    pub(super) fn other(&mut self) {
        self.others = true;
    }

    fn count(&mut self, class: Scalar, count: u64) {
        self.total += count;
        *self.counts.entry(class).or_default() += count;
        if self.counts.len() > 2 * CLASSES {
            self.forget(CLASSES);
        }
    }

    /// Takes one count from every value until no more than this many are left: what Misra and Gries do, so that no
    /// value is missed more often than all counts divided by this number.
    fn forget(&mut self, most: usize) {
        let mut counts: Vec<u64> = self.counts.values().copied().collect();
        let (_, least, _) = counts.select_nth_unstable_by(most, |a, b| b.cmp(a));
        let least = *least;
        self.missed += least;
        self.counts.retain(|_, count| {
            *count = count.saturating_sub(least);
            *count > 0
        });
    }

    pub(super) fn merge(&mut self, other: Classes) {
        self.others |= other.others;
        self.missed += other.missed;
        let total = self.total + other.total;
        other.counts.into_iter().for_each(|(class, count)| self.count(class, count));
        self.total = total;
    }

    /// Forgets the rarer half.
    pub(super) fn halve(&mut self) {
        self.forget(self.counts.len() / 2);
        self.counts.shrink_to_fit();
    }

    /// Values that are kept.
    pub(super) fn kept(&self) -> usize {
        self.counts.len()
    }

    /// Whether every value of the field is counted here, and none is missed.
    pub fn is_complete(&self) -> bool {
        self.missed == 0 && !self.others
    }

    /// The most by which a count is too low. Values that occur no more often than this may be absent.
    pub fn missed(&self) -> u64 {
        self.missed
    }

    /// How many different values there are; 0 as well if not all of them [are known](Self::is_complete).
    pub fn len(&self) -> usize {
        if self.is_complete() { self.counts.len() } else { 0 }
    }

    /// Whether there are none, or not all of them are known.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All values and how many samples have them, in [natural order](Scalar::natural_cmp); none if not all of them
    /// [are known](Self::is_complete).
    pub fn sorted(&self) -> Vec<(&Scalar, u64)> {
        if !self.is_complete() {
            return Vec::new();
        }
        let mut classes: Vec<_> = self.counts.iter().map(|(class, &n)| (class, n)).collect();
        classes.sort_by(|a, b| a.0.natural_cmp(b.0));
        classes
    }

    /// The most frequent values, the first one first; those that are equally frequent in natural order.
    pub fn common(&self, most: usize) -> Vec<(&Scalar, u64)> {
        let mut classes: Vec<_> = self.counts.iter().map(|(class, &n)| (class, n)).collect();
        let order =
            |a: &(&Scalar, u64), b: &(&Scalar, u64)| b.1.cmp(&a.1).then(a.0.natural_cmp(b.0));
        if most < classes.len() {
            classes.select_nth_unstable_by(most, order);
            classes.truncate(most);
        }
        classes.sort_by(order);
        classes
    }
}

/// As a list of pairs in natural order; at most 10,000, else none.
impl Serialize for Classes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let sorted = if self.len() > LISTED { Vec::new() } else { self.sorted() };
        serializer.collect_seq(sorted.into_iter().map(|(class, count)| (json(class), count)))
    }
}

/// A value as JSON.
pub(super) fn json(class: &Scalar) -> serde_json::Value {
    match class {
        Scalar::Nothing => serde_json::Value::Null,
        Scalar::Truth(truth) => (*truth).into(),
        Scalar::Whole(number) => match (i64::try_from(*number), u64::try_from(*number)) {
            (Ok(number), _) => number.into(),
            (_, Ok(number)) => number.into(),
            _ => (*number as f64).into(),
        },
        Scalar::Float(number) => (*number).into(),
        Scalar::Time(time) => Scalar::Time(*time).to_string().into(),
        Scalar::Text(text) => text.clone().into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frequent_values_are_found_among_any_number_of_rare_ones() {
        let mut classes = Classes::default();
        for part in 0..10u32 {
            let mut block = Classes::default();
            for n in 0..50_000u32 {
                block.add(Scalar::Whole((part * 50_000 + n).into()));
                if n % 10 == 0 {
                    block.add(Scalar::Text("often".into()));
                }
            }
            classes.merge(block);
        }
        assert!(!classes.is_complete() && classes.is_empty());
        let (often, found) = classes.common(1)[0];
        assert_eq!(often, &Scalar::Text("often".into()));
        assert!(found <= 50_000 && found + classes.missed() >= 50_000, "{found}");
        assert!(classes.missed() <= 550_000 / CLASSES as u64, "{}", classes.missed());
    }
}
