//! [`StatComparison`]: how two datasets differ, the largest differences first.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::report::{shape, share};
use super::{Classes, FieldSummary, Histogram, StatReport};
use crate::text::{escaped, units};

/// How large a difference by chance is, where this is one standard error: in one of 20 comparisons it is larger.
const CHANCE: f64 = 1.36;
/// Classes, sizes and the like that are named in one difference.
const NAMED: usize = 3;

/// What two datasets have in different shares, the largest difference first.
///
/// ```
/// use kiste::Value;
/// use kiste::reader::ListReader;
/// use kiste::stat::{StatComparison, StatOptions, StatReport};
///
/// let report = |labels: &[u8]| {
///     let sample = |(n, &label): (usize, &u8)| {
///         Value::Map(vec![("key".into(), n.to_string().into()), ("label".into(), label.into())])
///     };
///     let reader = ListReader::pack(labels.iter().enumerate().map(sample))?;
///     StatReport::of(&reader, &StatOptions::default(), |_| {})
/// };
/// let (train, val) = (report(&[0; 900].map(|n: u8| n)[..])?, report(&[1; 100].map(|n: u8| n)[..])?);
/// let compared = StatComparison::of(&train, &val);
/// let first = &compared.differences[0];
/// assert_eq!((&first.field[..], first.what, first.distance), ("label", "values", 1.0));
/// # Ok::<(), kiste::Error>(())
/// ```
#[derive(Debug, Clone, serde::Serialize)]
#[non_exhaustive]
pub struct StatComparison {
    /// What differs by more than chance would make of samples from one source.
    pub differences: Vec<StatDifference>,
    /// Fields whose values differ by no more than chance.
    pub alike: Vec<String>,
}

/// The difference of how many samples have a field.
const PRESENT: &str = "present";

/// One difference.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
#[non_exhaustive]
pub struct StatDifference {
    /// The field; empty for whole samples.
    pub field: String,
    /// What differs: `values`, `present`, `null`, `types`, `numbers`, `times`, `characters`, `elements`, `width`, …
    pub what: &'static str,
    /// By how much: the share of all samples that are in the one dataset below a value and in the other above it, or
    /// that have another value; 0 to 1.
    pub distance: f64,
    /// How it is in the first and in the second dataset, in words.
    pub left: String,
    /// The same of the second.
    pub right: String,
}

impl StatComparison {
    /// Compares two reports. Both should have looked at the same fields.
    pub fn of(left: &StatReport, right: &StatReport) -> StatComparison {
        let (a, b) = (&left.summary, &right.summary);
        let mut found = Found { differences: Vec::new(), field: String::new() };
        found.histograms("bytes", Some(&a.bytes), Some(&b.bytes), units::bytes);
        let mut names: Vec<&str> = a.fields.iter().map(|field| &field.name[..]).collect();
        names.extend(
            b.fields.iter().map(|field| &field.name[..]).filter(|name| a.field(name).is_none()),
        );
        let absent = FieldSummary::default();
        for name in &names {
            found.field = (*name).to_owned();
            let (mine, theirs) =
                (a.field(name).unwrap_or(&absent), b.field(name).unwrap_or(&absent));
            found.shares(PRESENT, (mine.present, a.samples), (theirs.present, b.samples));
            if *name != "key" && mine.present > 0 && theirs.present > 0 {
                found.fields(left, mine, right, theirs);
            }
        }
        let mut differences = found.differences;
        differences.sort_by(|a, b| b.distance.total_cmp(&a.distance));
        let different: BTreeSet<&str> = differences.iter().map(|one| &one.field[..]).collect();
        let alike = names.iter().filter(|name| **name != "key" && !different.contains(**name));
        StatComparison { alike: alike.map(|name| (*name).to_owned()).collect(), differences }
    }

    /// One page that needs nothing else, with the differences and what both have in each field side by side.
    pub fn to_html(&self, left: &StatReport, right: &StatReport) -> String {
        super::report::comparison_page(self, left, right)
    }

    /// The lines of the text: the largest differences, at most this many of them.
    pub fn text(&self, most: usize) -> String {
        let mut lines = String::new();
        let name = |one: &StatDifference| match &one.field[..] {
            "" => format!("{} of a sample", one.what),
            field => format!("{}: {}", escaped(field), one.what),
        };
        let shown = &self.differences[..self.differences.len().min(most)];
        let width = shown.iter().map(|one| crate::text::width(&name(one))).max().unwrap_or(0);
        for one in shown {
            let share = format!("{:.1} %", one.distance * 100.0);
            let name = crate::text::padded(&name(one), width);
            let (left, right) = (escaped(&one.left), escaped(&one.right));
            lines += &format!("  {name}  {share:>7}  {left}  →  {right}\n");
        }
        if self.differences.is_empty() {
            lines += "  nothing differs by more than chance\n";
        }
        if shown.len() < self.differences.len() {
            let more = units::count((self.differences.len() - shown.len()) as u64);
            lines += &format!("  and {more} smaller differences\n");
        }
        if !self.alike.is_empty() {
            let names: Vec<_> = self.alike.iter().take(20).map(|name| escaped(name)).collect();
            let more = if self.alike.len() > 20 { ", …" } else { "" };
            lines += &format!("  alike: {}{more}\n", names.join(", "));
        }
        lines
    }
}

impl fmt::Display for StatComparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text(usize::MAX))
    }
}

struct Found {
    differences: Vec<StatDifference>,
    field: String,
}

impl Found {
    fn add(&mut self, what: &'static str, distance: f64, chance: f64, words: [String; 2]) {
        if distance > chance && distance > 0.0 {
            let ([left, right], field) = (words, self.field.clone());
            self.differences.push(StatDifference { field, what, distance, left, right });
        }
    }

    fn shares(&mut self, what: &'static str, a: (u64, u64), b: (u64, u64)) {
        let (of_a, of_b) = (a.1.max(1) as f64, b.1.max(1) as f64);
        let distance = (a.0 as f64 / of_a - b.0 as f64 / of_b).abs();
        let common = (a.0 + b.0) as f64 / (of_a + of_b);
        let chance = match what == PRESENT && a.0.min(b.0) == 0 {
            // That a field is in one of them alone is a fact.
            true => 0.0,
            false => 1.96 * (common * (1.0 - common) * (1.0 / of_a + 1.0 / of_b)).sqrt(),
        };
        let word = |(count, of): (u64, u64)| match count {
            0 => String::from("none"),
            count => share(count, of),
        };
        self.add(what, distance, chance, [word(a), word(b)]);
    }

    fn fields(
        &mut self,
        left: &StatReport,
        a: &FieldSummary,
        right: &StatReport,
        b: &FieldSummary,
    ) {
        self.shares("null", (a.nulls, a.present), (b.nulls, b.present));
        self.kinds("types", a.types.clone(), b.types.clone(), |kind| kind.clone());
        let values = |classes: &Classes, report: &StatReport, field: &FieldSummary| {
            let sorted = classes.sorted().into_iter();
            sorted.map(|(class, count)| (report.name(field, class), count)).collect()
        };
        let is_listed = |field: &FieldSummary| field.has_classes() || field.is_constant();
        if is_listed(a) && is_listed(b) && !a.classes.is_empty() && !b.classes.is_empty() {
            let [a, b] = [values(&a.classes, left, a), values(&b.classes, right, b)];
            self.kinds("values", a, b, |name: &String| name.clone());
        } else if let (Some(a), Some(b)) = (&a.numbers, &b.numbers) {
            let word = |numbers: &super::Numbers| {
                let median = numbers.percentile(50).unwrap_or_default();
                let [min, max] = [numbers.min, numbers.max].map(units::number);
                format!("median {} of {min} to {max}", units::number(median))
            };
            self.add("numbers", a.distance(b), chance(a.count, b.count), [word(a), word(b)]);
        }
        if let (Some(a), Some(b)) = (&a.times, &b.times) {
            let word = |times: &super::Times| {
                format!(
                    "{} to {}",
                    times.min().unwrap_or_default(),
                    times.max().unwrap_or_default()
                )
            };
            self.add("times", a.distance(b), chance(a.count(), b.count()), [word(a), word(b)]);
        }
        // Lengths of listed values say nothing that their shares do not.
        if !(is_listed(a) && is_listed(b)) {
            self.histograms(
                "characters",
                a.characters.as_ref(),
                b.characters.as_ref(),
                units::count,
            );
        }
        self.histograms("elements", a.elements.as_ref(), b.elements.as_ref(), units::count);
        if let (Some(a), Some(b)) = (&a.images, &b.images) {
            self.histograms("width", Some(&a.width), Some(&b.width), units::count);
            self.histograms("height", Some(&a.height), Some(&b.height), units::count);
            self.kinds("modes", a.modes.clone(), b.modes.clone(), |mode| mode.clone());
        }
        if let (Some(a), Some(b)) = (&a.audio, &b.audio) {
            let word = |numbers: &super::Numbers| {
                format!("median {} s", units::number(numbers.percentile(50).unwrap_or_default()))
            };
            let chance = chance(a.seconds.count, b.seconds.count);
            let words = [word(&a.seconds), word(&b.seconds)];
            self.add("seconds", a.seconds.distance(&b.seconds), chance, words);
            self.kinds("rates", a.rates.clone(), b.rates.clone(), |rate| format!("{rate} Hz"));
        }
        if let (Some(a), Some(b)) = (&a.arrays, &b.arrays) {
            self.kinds("shapes", a.shapes.clone(), b.shapes.clone(), |axes| shape(axes));
            let [a, b] = [&a.elements, &b.elements];
            let word = |of: &super::Elements| {
                let [min, max] = [of.min, of.max].map(units::number);
                format!("mean {} of {min} to {max}", units::number(of.mean().unwrap_or_default()))
            };
            // Their spread is not known, so only ranges that lie apart are told.
            let apart = a.count > 0 && b.count > 0 && (a.max < b.min || b.max < a.min);
            self.add("elements of arrays", f64::from(u8::from(apart)), 0.0, [word(a), word(b)]);
        }
    }

    fn histograms(
        &mut self,
        what: &'static str,
        a: Option<&Histogram>,
        b: Option<&Histogram>,
        form: fn(u64) -> String,
    ) {
        let (Some(a), Some(b)) = (a, b) else { return };
        let word = |of: &Histogram| {
            let (min, max) = (of.min().unwrap_or_default(), of.max().unwrap_or_default());
            let median = form(of.percentile(50).unwrap_or_default());
            format!("median {median} of {} to {}", form(min), form(max))
        };
        self.add(what, a.distance(b), chance(a.count(), b.count()), [word(a), word(b)]);
    }

    /// Kinds that have no order: half the sum of the differences of their shares.
    fn kinds<K: Ord + Clone>(
        &mut self,
        what: &'static str,
        a: BTreeMap<K, u64>,
        b: BTreeMap<K, u64>,
        name: impl Fn(&K) -> String,
    ) {
        let [of_a, of_b] = [&a, &b].map(|counts| counts.values().sum::<u64>().max(1) as f64);
        let kinds: BTreeSet<&K> = a.keys().chain(b.keys()).collect();
        let count = |counts: &BTreeMap<K, u64>, kind: &K| counts.get(kind).copied().unwrap_or(0);
        let (mut distance, mut chance, mut changes) = (0.0, 0.0, Vec::new());
        for kind in kinds {
            let (mine, theirs) = (count(&a, kind), count(&b, kind));
            let change = mine as f64 / of_a - theirs as f64 / of_b;
            distance += change.abs() / 2.0;
            let common = (mine + theirs) as f64 / (of_a + of_b);
            // Half the mean distance from zero of what chance makes of a share.
            chance += (common * (1.0 - common) * (1.0 / of_a + 1.0 / of_b)).sqrt()
                / std::f64::consts::TAU.sqrt();
            changes.push((change, kind));
        }
        changes.sort_by(|a, b| b.0.abs().total_cmp(&a.0.abs()));
        let words = |counts: &BTreeMap<K, u64>, of: f64| {
            let changes = changes.iter().take(NAMED).filter(|change| change.0 != 0.0);
            let shares = changes.map(|(_, kind)| match count(counts, kind) {
                0 => format!("no {}", name(kind)),
                count => format!("{} {}", name(kind), share(count, of as u64)),
            });
            shares.collect::<Vec<_>>().join(", ")
        };
        let words = [words(&a, of_a), words(&b, of_b)];
        self.add(what, distance, chance * CHANCE, words);
    }
}

/// The largest distance that chance makes of two sets of this many numbers from one source.
fn chance(a: u64, b: u64) -> f64 {
    CHANCE * (1.0 / a.max(1) as f64 + 1.0 / b.max(1) as f64).sqrt()
}

/// The largest difference between the shares of both that are at most some number: 0 to 1, as Kolmogorov and Smirnov
/// have it.
pub(super) fn distance<K: Ord>(a: BTreeMap<K, u64>, b: BTreeMap<K, u64>) -> f64 {
    let [of_a, of_b] = [&a, &b].map(|counts| counts.values().sum::<u64>());
    if of_a == 0 || of_b == 0 {
        return 0.0;
    }
    let mut steps: Vec<(K, u64, u64)> = a.into_iter().map(|(key, count)| (key, count, 0)).collect();
    steps.extend(b.into_iter().map(|(key, count)| (key, 0, count)));
    steps.sort_by(|a, b| a.0.cmp(&b.0));
    let (mut seen_a, mut seen_b, mut most) = (0, 0, 0f64);
    for same in steps.chunk_by(|a, b| a.0 == b.0) {
        seen_a += same.iter().map(|step| step.1).sum::<u64>();
        seen_b += same.iter().map(|step| step.2).sum::<u64>();
        most = most.max((seen_a as f64 / of_a as f64 - seen_b as f64 / of_b as f64).abs());
    }
    most
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stat::Numbers;

    #[test]
    fn distances_are_those_of_the_sorted_numbers() {
        let numbers = |of: &[f64]| {
            let mut numbers = Numbers::default();
            of.iter().for_each(|number| numbers.add(*number));
            numbers
        };
        let a = numbers(&[1.0, 2.0, 3.0, 4.0]);
        assert_eq!(a.distance(&a), 0.0);
        assert_eq!(a.distance(&numbers(&[3.0, 4.0, 5.0, 6.0])), 0.5);
        assert_eq!(a.distance(&numbers(&[-1000.0])), 1.0);
        let narrow = numbers(&[1.7e9, 1.7e9 + 1.0]);
        assert_eq!(narrow.distance(&numbers(&[1.7e9 + 1.0, 1.7e9 + 2.0])), 0.5);
        let widths: [Histogram; 2] = [(0..100).collect(), (50..150).collect()];
        assert_eq!(widths[0].distance(&widths[1]), 0.5);
    }
}
