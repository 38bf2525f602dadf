//! [`Classes`]: how often each value of a field occurs.

use std::cmp::Ordering;
use std::collections::hash_map::Entry;

use foldhash::HashMap;
use serde::ser::{Serialize, Serializer};

use super::distinct;
use crate::format::FormatError;
use crate::format::msgpack::numpy::{self, Special};
use crate::format::msgpack::{Cursor, Kind};
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
/// a little too low: see [`missed`](Self::missed). Values are told apart by hashes of 64 bits, as [`Distinct`] does.
///
/// [`Distinct`]: super::Distinct
#[derive(Debug, Clone, Default)]
pub struct Classes {
    /// By their hash.
    counts: HashMap<u64, (Scalar, u64)>,
    missed: u64,
    /// There are values that are no classes.
    others: bool,
}

/// A value that may be the name of a class. Text is not copied.
#[derive(Debug, Clone, Copy, PartialEq, Hash)]
pub(super) enum Class<'a> {
    Truth(bool),
    Whole(i128),
    Text(&'a str),
}

impl<'a> Class<'a> {
    /// The class that a packed value is, if it is one.
    pub(super) fn read(packed: &'a [u8]) -> Result<Option<Class<'a>>, FormatError> {
        let mut cursor = Cursor::new(packed);
        Ok(match cursor.peek()? {
            Kind::Bool => Some(Class::Truth(cursor.read_bool()?)),
            Kind::Int => Some(Class::Whole(read_whole(&mut cursor)?)),
            Kind::Str => cursor.read_str().ok().map(Class::Text),
            Kind::Map => match numpy::read(&mut cursor)? {
                Some(Special::Scalar(array)) => match Scalar::of_numpy(&array) {
                    Some(Scalar::Truth(truth)) => Some(Class::Truth(truth)),
                    Some(Scalar::Whole(number)) => Some(Class::Whole(number)),
                    _ => None,
                },
                _ => None,
            },
            Kind::Nil | Kind::Float | Kind::Bin | Kind::Array | Kind::Ext => None,
        })
    }

    /// The class that a scalar is, if it is one.
    pub(super) fn of(scalar: &'a Scalar) -> Option<Class<'a>> {
        match scalar {
            Scalar::Truth(truth) => Some(Class::Truth(*truth)),
            Scalar::Whole(number) => Some(Class::Whole(*number)),
            Scalar::Text(text) => Some(Class::Text(text)),
            Scalar::Nothing | Scalar::Float(_) | Scalar::Time(_) => None,
        }
    }

    /// What it is told apart by.
    pub(super) fn hash(&self) -> u64 {
        distinct::hash(self)
    }

    pub(super) fn to_scalar(self) -> Scalar {
        match self {
            Class::Truth(truth) => Scalar::Truth(truth),
            Class::Whole(number) => Scalar::Whole(number),
            Class::Text(text) => Scalar::Text(text.to_owned()),
        }
    }
}

/// An integer, of which each fits.
pub(super) fn read_whole(cursor: &mut Cursor<'_>) -> Result<i128, FormatError> {
    let signed = cursor.clone().read_i64().map(i128::from);
    signed.or_else(|_| cursor.read_u64().map(i128::from))
}

impl Classes {
    /// Counts a value that has this [hash](Class::hash).
    pub(super) fn add(&mut self, hash: u64, class: Class<'_>) {
        self.count(hash, 1, || class.to_scalar());
    }

    /// A value that is no class.
    pub(super) fn other(&mut self) {
        self.others = true;
    }

    fn count(&mut self, hash: u64, count: u64, class: impl FnOnce() -> Scalar) {
        match self.counts.entry(hash) {
            Entry::Occupied(mut known) => known.get_mut().1 += count,
            Entry::Vacant(free) => {
                free.insert((class(), count));
                if self.counts.len() > 2 * CLASSES {
                    self.forget(CLASSES);
                }
            }
        }
    }

    /// Takes one count from every value until no more than this many are left: what Misra and Gries do, so that no
    /// value is missed more often than all counts divided by this number.
    fn forget(&mut self, most: usize) {
        let mut counts: Vec<u64> = self.counts.values().map(|(_, count)| *count).collect();
        let (_, least, _) = counts.select_nth_unstable_by(most, |a, b| b.cmp(a));
        let least = *least;
        self.missed += least;
        self.counts.retain(|_, (_, count)| {
            *count = count.saturating_sub(least);
            *count > 0
        });
    }

    pub(super) fn merge(&mut self, other: Classes) {
        self.others |= other.others;
        self.missed += other.missed;
        for (hash, (class, count)) in other.counts {
            self.count(hash, count, || class);
        }
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

    /// A count is too low by at most this. Values that occur no more often than this may be absent.
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
        let mut classes = self.unsorted();
        classes.sort_unstable_by(|a, b| a.0.natural_cmp(b.0));
        classes
    }

    /// The most frequent values, the first one first; those that are equally frequent in natural order.
    pub fn common(&self, most: usize) -> Vec<(&Scalar, u64)> {
        let mut classes = self.unsorted();
        if most < classes.len() {
            classes.select_nth_unstable_by(most, by_count);
            classes.truncate(most);
        }
        classes.sort_unstable_by(by_count);
        classes
    }

    fn unsorted(&self) -> Vec<(&Scalar, u64)> {
        self.counts.values().map(|(class, count)| (class, *count)).collect()
    }
}

/// The most frequent first.
fn by_count(a: &(&Scalar, u64), b: &(&Scalar, u64)) -> Ordering {
    b.1.cmp(&a.1).then_with(|| a.0.natural_cmp(b.0))
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
                let number = part * 50_000 + n;
                let class = Class::Whole(number.into());
                block.add(class.hash(), class);
                if n % 10 == 0 {
                    block.add(Class::Text("often").hash(), Class::Text("often"));
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
