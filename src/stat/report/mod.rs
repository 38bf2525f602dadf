//! [`StatReport`]: a summary to be shown, as text or as a page.

use crate::error::Shown;
use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::path::PathBuf;

use serde::Serialize;

use crate::error::Result;
use crate::reader::{Reader, name_of};
use crate::rearrange::Scalar;
use crate::stat::{FieldSummary, Numbers, StatOptions, Summary};
use crate::text::{escaped, units};

mod escape;
mod html;
mod plot;
mod text;
#[cfg(feature = "images")]
mod thumbnail;

pub use html::picture;

/// The field whose numbers `.labels` names.
const LABEL: &str = "label";

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
    /// Every value is shown, of any number of them.
    #[serde(skip)]
    asked: bool,
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
        Ok(StatReport { file, labels, summary, asked: options.fields.is_some() })
    }

    /// The first line of the text, without the file: `5,000 samples, 1.4 MB`.
    pub fn heading(&self) -> String {
        let bytes = u64::try_from(self.summary.bytes.sum()).unwrap_or(u64::MAX);
        format!("{}, {}", units::counted(self.summary.samples, "sample"), units::bytes(bytes))
    }

    /// The text, in sections: sizes, fields, and what is known of each field. None if there are no
    /// samples.
    pub fn sections(&self) -> Vec<StatSection> {
        text::sections(self)
    }

    /// One page that needs nothing else: no scripts, no other files. It shows this many samples,
    /// evenly spread over the dataset.
    ///
    /// # Errors
    ///
    /// The errors of the reader.
    pub fn to_html(&self, reader: &dyn Reader, samples: usize) -> Result<String> {
        Ok(html::page(self, &html::pick(reader, samples, self)?))
    }
}

impl fmt::Display for StatReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}: {}", escaped(&Shown::of(&self.file).to_string()), self.heading())?;
        self.sections()
            .iter()
            .try_for_each(|StatSection { title, text }| write!(f, "\n{title}\n{text}"))
    }
}

/// A class with its name and how many samples have it.
struct Row {
    name: String,
    count: u64,
}

impl StatReport {
    /// The classes of a field, if its values are such: the largest first.
    fn classes(&self, field: &FieldSummary) -> Option<Vec<Row>> {
        let count = field.classes.len();
        let is_label = field.name == LABEL && count > 1;
        let is_asked = self.asked && field.name != "key" && count > 0;
        if !(field.has_classes() || is_label || is_asked) {
            return None;
        }
        let sorted = field.classes.sorted().into_iter();
        let mut rows: Vec<Row> =
            sorted.map(|(class, count)| Row { name: self.name(field, class), count }).collect();
        // Stable: those that are equally large stay in their order.
        rows.sort_by_key(|row| std::cmp::Reverse(row.count));
        Some(rows)
    }

    /// A value of a field, with the name that it has as a label.
    fn name(&self, field: &FieldSummary, class: &Scalar) -> String {
        match class {
            Scalar::Whole(number) if field.name == LABEL => self.label(*number),
            class => class.to_string(),
        }
    }

    /// `3 cat`, or the number alone where it has no name, or is its own.
    fn label(&self, number: i128) -> String {
        let names = self.labels.as_deref().unwrap_or_default();
        let name = usize::try_from(number).ok().and_then(|number| names.get(number));
        let number = number.to_string();
        match name {
            Some(name) if *name != number => format!("{number} {name}"),
            _ => number,
        }
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

fn whole((class, _): (&Scalar, u64)) -> Option<i128> {
    match class {
        Scalar::Whole(number) => Some(*number),
        _ => None,
    }
}

/// Extremes and mean, and what else there is among the numbers of a field.
fn extremes(numbers: &Numbers) -> String {
    let mut text = match numbers.mean() {
        Some(mean) => format!(
            "min {}, mean {}, max {}",
            units::number(numbers.min),
            units::number(mean),
            units::number(numbers.max)
        ),
        None => String::from("none"),
    };
    for (count, what) in [(numbers.nan, "not a number"), (numbers.infinite, "infinite")] {
        if count > 0 {
            text += &format!("; {} {what}", units::count(count));
        }
    }
    text
}

/// How often which, the most frequent first.
fn ranked<K: Clone + Ord>(counts: &BTreeMap<K, u64>) -> Vec<(K, u64)> {
    let mut ranked: Vec<(K, u64)> = counts.iter().map(|(kind, &n)| (kind.clone(), n)).collect();
    ranked.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    ranked
}

fn shape(shape: &[usize]) -> String {
    format!("[{}]", shape.iter().map(usize::to_string).collect::<Vec<_>>().join(", "))
}
