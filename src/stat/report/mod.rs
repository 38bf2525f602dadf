//! [`StatReport`]: a summary to be shown, as text or as a page.

use crate::error::Shown;
use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::path::PathBuf;

use serde::Serialize;

use crate::error::Result;
use crate::reader::{Reader, name_of};
use crate::rearrange::Scalar;
use crate::stat::{Elements, FieldSummary, Histogram, LABEL, Numbers, StatOptions, Summary, Times};
use crate::text::{escaped, units};

use samples::Shelf;

mod batch;
mod cards;
mod draw;
mod escape;
mod page;
mod plot;
mod samples;
mod text;

pub use batch::SamplePage;
pub use draw::picture;
pub(super) use page::comparison_page;

/// Statistics of a dataset, with the names of its labels: prints as text with histograms, as a page for a
/// browser, or as JSON.
///
/// ```
/// use std::collections::BTreeMap;
/// use kiste::stat::{StatOptions, StatReport};
/// use kiste::{DatasetReader, Writer};
///
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("animals.msgpack");
/// let mut writer = Writer::create(&path)?;
/// for (key, kind) in [("a", "cat"), ("b", "dog"), ("c", "cat")] {
///     writer.write(&BTreeMap::from([("key", key), ("kind", kind)]))?;
/// }
/// writer.finish()?;
///
/// let reader = DatasetReader::open(&path)?;
/// let report = StatReport::of(&reader, &StatOptions::default(), |_| {})?;
/// assert!(report.to_string().contains("field kind: classes"));
/// std::fs::write(dir.path().join("animals.html"), report.to_html(&reader, 2)?)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct StatReport {
    /// The data file, or the name of a reader of other kind; empty if it has none.
    #[serde(serialize_with = "crate::error::serialize_path")]
    pub file: PathBuf,
    /// The names of the numbers in the field `label`, if the dataset has such names.
    pub labels: Option<Vec<String>>,
    /// The statistics.
    #[serde(flatten)]
    pub summary: Summary,
}

/// How a [`StatReport`] is written as text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct StatText {
    /// Columns of a terminal that a line may take.
    pub width: usize,
    /// List every value, size and shape, not the most frequent and the rarest.
    pub all: bool,
}

impl Default for StatText {
    fn default() -> StatText {
        StatText { width: 100, all: false }
    }
}

impl StatText {
    /// Lines of this many columns.
    pub fn width(mut self, columns: usize) -> StatText {
        self.width = columns;
        self
    }

    /// Every value, size and shape, or about a screen for a field.
    pub fn all(mut self, yes: bool) -> StatText {
        self.all = yes;
        self
    }
}

/// A part of the text of a [`StatReport`]. Names and values of the dataset are escaped in it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct StatSection {
    /// The title, such as `field label: classes`.
    pub title: String,
    /// Its lines.
    pub text: String,
}

impl StatReport {
    /// Looks at all samples of a dataset. `progress` hears how many were seen so far.
    ///
    /// # Errors
    ///
    /// The errors of [`StatOptions::stat`], and of reading the labels.
    pub fn of(
        reader: &dyn Reader,
        options: &StatOptions,
        progress: impl FnMut(u64),
    ) -> Result<StatReport> {
        let summary = options.stat(reader, progress)?;
        let labels = reader.labels()?;
        let file = name_of(reader).unwrap_or_default();
        Ok(StatReport { file, labels, summary })
    }

    /// The first line of the text, without the file: `5,000 samples, 1.4 MB`.
    pub fn heading(&self) -> String {
        let bytes = u64::try_from(self.summary.bytes.sum()).unwrap_or(u64::MAX);
        format!("{}, {}", units::counted(self.summary.samples, "sample"), units::bytes(bytes))
    }

    /// The text, in sections: sizes, fields, and what is known of each field. None if there are no
    /// samples.
    pub fn sections(&self, text: StatText) -> Vec<StatSection> {
        text::sections(self, text)
    }

    /// One page that needs nothing else, of at most about 3 MB. It shows this many samples: some of each class, also of
    /// the rarest, or evenly spread over the dataset where there are no classes.
    ///
    /// # Errors
    ///
    /// The errors of the reader.
    pub fn to_html(&self, reader: &dyn Reader, samples: usize) -> Result<String> {
        Ok(page::page(self, &Shelf::pick(reader, samples, self)?))
    }
}

impl fmt::Display for StatReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}: {}", escaped(&Shown::of(&self.file).to_string()), self.heading())?;
        self.sections(StatText::default())
            .iter()
            .try_for_each(|StatSection { title, text }| write!(f, "\n{title}\n{text}"))
    }
}

/// A class with its name and how many samples have it.
#[derive(Clone)]
struct Row {
    name: String,
    count: u64,
}

impl StatReport {
    /// The classes of a field, if its values are such: the largest first.
    fn classes(&self, field: &FieldSummary) -> Option<Vec<Row>> {
        let is_label = field.name == LABEL && field.classes.len() > 1;
        if !(field.has_classes() || is_label) {
            return None;
        }
        Some(self.common(field, usize::MAX))
    }

    /// The most frequent values of a field.
    fn common(&self, field: &FieldSummary, most: usize) -> Vec<Row> {
        let common = field.classes.common(most).into_iter();
        common.map(|(class, count)| Row { name: self.name(field, class), count }).collect()
    }

    /// What is known of all values of a field in a few words: that they are the same, or all different, or how many
    /// different ones there are.
    fn values(&self, field: &FieldSummary) -> String {
        let Some(distinct) = &field.distinct else { return String::new() };
        let count = units::count(distinct.count());
        if field.is_constant() {
            let common = self.common(field, 1);
            let number = field.numbers.as_ref().map(|numbers| units::number(numbers.min));
            let time = field.times.as_ref().and_then(Times::min);
            return match common.into_iter().next().map(|row| row.name).or(number).or(time) {
                Some(value) => format!("always {value}"),
                None if field.nulls > 0 => "always null".to_owned(),
                None => "always the same".to_owned(),
            };
        }
        match (field.is_unique(), distinct.is_exact()) {
            (true, _) => "all different".to_owned(),
            (false, true) => format!("{count} different"),
            (false, false) => format!("about {count} different"),
        }
    }

    /// A value of a field, with the name that it has as a label.
    pub(in crate::stat) fn name(&self, field: &FieldSummary, class: &Scalar) -> String {
        match class {
            Scalar::Whole(number) if field.name == LABEL => self.label(*number),
            class => class.to_string(),
        }
    }

    fn label(&self, number: i128) -> String {
        label(number, self.labels.as_deref())
    }

    /// The labels that have a name but no samples, if the labels of all samples are known.
    fn unused_labels(&self, field: &FieldSummary) -> Vec<String> {
        let names = self.labels.as_deref().unwrap_or_default();
        if field.name != LABEL || field.classes.is_empty() {
            return Vec::new();
        }
        let used: HashSet<i128> = field.classes.sorted().into_iter().filter_map(whole).collect();
        let numbers = (0..names.len() as i128).filter(|number| !used.contains(number));
        numbers.map(|number| self.label(number)).collect()
    }
}

/// `3 cat`, or the number alone where it has no name, or is its own.
fn label(number: i128, names: Option<&[String]>) -> String {
    let name = usize::try_from(number).ok().and_then(|number| names?.get(number));
    let number = number.to_string();
    match name {
        Some(name) if *name != number => format!("{number} {name}"),
        _ => number,
    }
}

fn whole((class, _): (&Scalar, u64)) -> Option<i128> {
    match class {
        Scalar::Whole(number) => Some(*number),
        _ => None,
    }
}

/// A share of a whole in percent: never 100 % of what some lack, nor 0 % of what some have.
pub(super) fn share(count: u64, of: u64) -> String {
    match count == of {
        true => "all".to_owned(),
        false => format!("{:.1} %", (count as f64 / of as f64 * 100.0).clamp(0.1, 99.9)),
    }
}

/// Extremes, quantiles and mean of numbers that are not all the same.
fn quantiles(min: String, at: impl Fn(u8) -> String, max: String, mean: String) -> String {
    let [low, first, median, third, high] = [5, 25, 50, 75, 95].map(at);
    format!(
        "min {min}, 5 % {low}, 25 % {first}, median {median}, 75 % {third}, 95 % {high}, max {max}; mean {mean}"
    )
}

/// The same of a histogram.
fn spread(numbers: &Histogram, form: fn(u64) -> String) -> String {
    let (min, max) = (numbers.min().unwrap_or_default(), numbers.max().unwrap_or_default());
    if min == max {
        return format!("all {}", form(min));
    }
    let at = |percent| form(numbers.percentile(percent).unwrap_or_default());
    let mean = form(numbers.mean().unwrap_or_default().round() as u64);
    quantiles(form(min), at, form(max), mean)
}

/// The same of the numbers of a field, and what else there is among them.
fn extremes(numbers: &Numbers) -> String {
    let text = match numbers.mean() {
        Some(mean) if numbers.min < numbers.max => {
            let at = |percent| units::number(numbers.percentile(percent).unwrap_or_default());
            let [min, max, mean] = [numbers.min, numbers.max, mean].map(units::number);
            quantiles(min, at, max, mean)
        }
        Some(_) => format!("all {}", units::number(numbers.min)),
        None => String::from("none"),
    };
    text + &not_finite(numbers.nan, numbers.infinite)
}

/// Extremes and mean of the elements of arrays, if there are numbers among them.
fn elements(of: &Elements) -> Option<String> {
    let [min, mean, max] = [of.min, of.mean()?, of.max].map(units::number);
    let text = format!("elements: min {min}, mean {mean}, max {max}");
    Some(text + &not_finite(of.nan, of.infinite))
}

fn not_finite(nan: u64, infinite: u64) -> String {
    let counts = [(nan, "not a number"), (infinite, "infinite")].into_iter();
    let counts = counts.filter(|(count, _)| *count > 0);
    counts.map(|(count, what)| format!("; {} {what}", units::count(count))).collect()
}

/// How often which, the most frequent first.
fn ranked<K: Clone + Ord>(counts: &BTreeMap<K, u64>) -> Vec<(K, u64)> {
    let mut ranked: Vec<(K, u64)> = counts.iter().map(|(kind, &n)| (kind.clone(), n)).collect();
    ranked.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    ranked
}

pub(super) fn shape(shape: &[usize]) -> String {
    format!("[{}]", shape.iter().map(usize::to_string).collect::<Vec<_>>().join(", "))
}
