//! [`Splits`] and [`Examples`]: what a summary keeps of the labels of samples, next to the facts of the field itself.

use foldhash::HashMap;
use serde::ser::{Serialize, SerializeStruct, Serializer};

use super::LABEL;
use super::classes::{self, Class};
use crate::rearrange::Scalar;

/// Fields that are called so have classes: the first of them is counted for each split, and examples are drawn of each.
pub(super) const CLASS_FIELDS: [&str; 4] = [LABEL, "class", "category", "cls"];
/// Examples that are kept of a class.
pub(super) const EXAMPLES: usize = 6;
/// The most classes with examples.
const EXAMPLE_CLASSES: usize = 4096;
/// The most pairs of a label and a split that are counted.
const PAIRS: usize = 100_000;

/// Some samples of each class, drawn by a hash of their index.
#[derive(Debug, Clone, Default)]
pub(super) struct Examples {
    /// The field of the classes; of samples with another one there are no examples.
    pub(super) field: String,
    /// Hashes and indices, by the hash of the class.
    drawn: HashMap<u64, Vec<(u64, usize)>>,
}

impl Examples {
    pub(super) fn add(&mut self, field: &str, class: Class<'_>, index: usize) {
        if !self.is_of(field) {
            return;
        }
        // The last step of SplitMix64: neighbours are far apart.
        let hash = (index as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let hash = (hash ^ hash >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93);
        self.keep(class.hash(), &[(hash ^ hash >> 32, index)]);
    }

    /// Whether classes are of this field. The first one that comes is it.
    fn is_of(&mut self, field: &str) -> bool {
        if self.field.is_empty() {
            self.field = field.to_owned();
        }
        self.field == field
    }

    fn keep(&mut self, class: u64, more: &[(u64, usize)]) {
        if self.drawn.len() < EXAMPLE_CLASSES || self.drawn.contains_key(&class) {
            let drawn = self.drawn.entry(class).or_default();
            for new in more {
                let is_full = drawn.len() == EXAMPLES;
                if !is_full || Some(new) < drawn.last() {
                    drawn.truncate(EXAMPLES - 1);
                    drawn.insert(drawn.partition_point(|known| known < new), *new);
                }
            }
        }
    }

    /// The indices of samples of a class.
    pub(super) fn of(&self, class: &Scalar) -> impl Iterator<Item = usize> {
        let drawn = Class::of(class).and_then(|class| self.drawn.get(&class.hash()));
        drawn.into_iter().flatten().map(|(_, index)| *index)
    }

    pub(super) fn merge(&mut self, other: Examples) {
        if self.is_of(&other.field) {
            other.drawn.into_iter().for_each(|(class, drawn)| self.keep(class, &drawn));
        }
    }
}

/// How often each label (a value of the field `label`, `class`, `category` or `cls`) occurs with each value of another
/// field, such as `split`.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Splits {
    /// The field of the labels.
    pub of: String,
    /// The other field.
    pub by: String,
    /// By their hashes.
    counts: HashMap<(u64, u64), Pair>,
    /// There are too many pairs.
    given_up: bool,
}

/// A label, a value of the other field, and how many samples have both.
#[derive(Debug, Clone)]
struct Pair {
    label: Scalar,
    split: Scalar,
    count: u64,
}

impl Splits {
    pub(super) fn new(of: &str, by: &str) -> Splits {
        Splits { of: of.to_owned(), by: by.to_owned(), ..Splits::default() }
    }

    pub(super) fn add(&mut self, label: Class<'_>, split: Class<'_>) {
        let pair = || Pair { label: label.to_scalar(), split: split.to_scalar(), count: 0 };
        self.count((label.hash(), split.hash()), 1, pair);
    }

    fn count(&mut self, hashes: (u64, u64), count: u64, pair: impl FnOnce() -> Pair) {
        if !self.given_up {
            self.counts.entry(hashes).or_insert_with(pair).count += count;
            if self.counts.len() > PAIRS {
                self.give_up();
            }
        }
    }

    fn give_up(&mut self) {
        self.counts = HashMap::default();
        self.given_up = true;
    }

    /// Labels of another field are not counted.
    pub(super) fn merge(&mut self, other: Splits) {
        if other.of == self.of {
            if other.given_up {
                self.give_up();
            }
            for (hashes, pair) in other.counts {
                self.count(hashes, pair.count, || Pair { count: 0, ..pair });
            }
        }
    }

    /// The values of the other field in natural order, and of each label how many samples have each of them, labels in
    /// natural order. Empty where there were more than 100,000 pairs.
    pub fn table(&self) -> (Vec<&Scalar>, Vec<(&Scalar, Vec<u64>)>) {
        let sorted = |mut all: Vec<_>| {
            all.sort_by(|a: &&Scalar, b| a.natural_cmp(b));
            all.dedup();
            all
        };
        let splits = sorted(self.counts.values().map(|pair| &pair.split).collect());
        let labels = sorted(self.counts.values().map(|pair| &pair.label).collect());
        let counts = self.counts.values().map(|pair| ((&pair.label, &pair.split), pair.count));
        let counts: HashMap<_, u64> = counts.collect();
        let rows = labels.into_iter().map(|label| {
            let count = |split: &&Scalar| counts.get(&(label, *split)).copied().unwrap_or(0);
            (label, splits.iter().map(count).collect())
        });
        let rows = rows.collect();
        (splits, rows)
    }
}

/// As `{"of", "by", "splits": [...], "labels": [[label, [count, …]], …]}`.
impl Serialize for Splits {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (splits, labels) = self.table();
        let splits: Vec<_> = splits.into_iter().map(classes::json).collect();
        let labels: Vec<_> =
            labels.into_iter().map(|(label, counts)| (classes::json(label), counts)).collect();
        let mut map = serializer.serialize_struct("Splits", 4)?;
        map.serialize_field("of", &self.of)?;
        map.serialize_field("by", &self.by)?;
        map.serialize_field("splits", &splits)?;
        map.serialize_field("labels", &labels)?;
        map.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_of_two_fields_are_not_mixed() {
        let class = |of: &str| {
            let mut examples = Examples::default();
            examples.add(of, Class::Whole(1), 7);
            examples
        };
        let mut examples = class("label");
        examples.add("class", Class::Whole(1), 8);
        examples.merge(class("class"));
        assert_eq!(examples.field, "label");
        assert_eq!(examples.of(&Scalar::Whole(1)).collect::<Vec<_>>(), [7]);
        let mut splits = Splits::new("label", "split");
        splits.add(Class::Whole(1), Class::Whole(0));
        splits.add(Class::Whole(1), Class::Whole(0));
        let mut others = Splits::new("class", "split");
        others.add(Class::Whole(1), Class::Whole(0));
        splits.merge(others);
        assert_eq!(splits.table().1[0].1, [2]);
    }

    #[test]
    fn too_many_pairs_are_none() {
        let mut many = Splits::new("label", "split");
        (0..=PAIRS as i128).for_each(|n| many.add(Class::Whole(n), Class::Whole(0)));
        let mut few = Splits::new("label", "split");
        few.add(Class::Whole(1), Class::Whole(0));
        few.merge(many);
        assert_eq!(few.table(), (Vec::new(), Vec::new()));
    }
}
