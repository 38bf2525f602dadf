//! `stat`: what is in a dataset, for the eye (`text`), as a page (`html`) or as JSON.

mod html;
mod plot;
mod text;
#[cfg(feature = "images")]
mod thumbnail;

use std::collections::HashSet;
use std::path::PathBuf;

use kiste::dataset::read_labels;
use kiste::rearrange::Scalar;
use kiste::stat::{FieldSummary, Numbers, StatOptions, Summary};
use serde::Serialize;

use crate::exit::{Exit, Outcome};
use crate::output::Output;
use crate::{file, units};

/// Show what is in a dataset: sizes, fields and types, balance of classes, images, arrays
///
/// Every sample is looked at, on all cores; of images and packed arrays the headers alone.
/// Percentiles are exact to within one part in 128, all else is exact.
///
/// Values are listed as classes where there are few: up to 20 different numbers, or texts that most
/// samples share with others. Other numbers are shown as a histogram. Numbers in the field "label"
/// get their names from FILE.labels.
///
/// The page of --html is one file that needs nothing else: samples, plots and tables, in the light
/// or dark theme of the browser.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Data file
    file: PathBuf,
    /// Look at these fields alone, and show all their values
    #[arg(long = "fields", alias = "field", value_name = "FIELD,...", value_delimiter = ',')]
    field: Vec<String>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    /// Write a page for a browser
    #[arg(long, value_name = "PAGE", conflicts_with = "json")]
    html: Option<PathBuf>,
    /// How many samples the page shows
    #[arg(long, value_name = "N", default_value_t = 48, requires = "html")]
    show: usize,
    /// Replace a page that exists
    #[arg(long, short, requires = "html")]
    force: bool,
}

const EXAMPLES: &str = "\
Examples:
  kiste stat train.msgpack
  kiste stat train.msgpack --fields label
  kiste stat train.msgpack --json | jq '.fields[].types'
  kiste stat train.msgpack --html train.html";

/// The field whose numbers FILE.labels names.
const LABEL: &str = "label";

/// What was found, and what it is called.
#[derive(Serialize)]
struct Found {
    file: PathBuf,
    /// The names of the numbers in the field "label".
    labels: Option<Vec<String>>,
    #[serde(flatten)]
    summary: Summary,
    /// Every value is wanted, of however many.
    #[serde(skip)]
    asked: bool,
}

impl Args {
    pub(crate) fn run(self, output: &Output) -> Outcome<Exit> {
        let reader = file::open(&self.file)?;
        let asked = !self.field.is_empty();
        let options = match asked {
            true => StatOptions::default().fields(&self.field),
            false => StatOptions::default(),
        };
        let progress = output.progress("reading", Some(reader.len() as u64));
        let summary = options.stat(&reader, |seen| progress.set(seen))?;
        drop(progress);
        let labels = read_labels(&self.file)?;
        let found = Found { labels, file: kiste::storage::shown(&self.file), summary, asked };
        match self.html {
            Some(page) => {
                let samples = html::pick(&reader, self.show, &found)?;
                file::write(&page, html::page(&found, &samples).as_bytes(), self.force)?;
            }
            None if self.json => output.json(&found)?,
            None => text::print(&found, output)?,
        }
        Ok(Exit::Yes)
    }
}

/// A class with its name and how many samples have it.
struct Row {
    name: String,
    count: u64,
}

impl Found {
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

    /// The labels that have a name but no samples, if those of all samples are known.
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
fn ranked<K: Clone + Ord>(counts: &std::collections::BTreeMap<K, u64>) -> Vec<(K, u64)> {
    let mut ranked: Vec<(K, u64)> = counts.iter().map(|(kind, &n)| (kind.clone(), n)).collect();
    ranked.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    ranked
}

fn shape(shape: &[usize]) -> String {
    format!("[{}]", shape.iter().map(usize::to_string).collect::<Vec<_>>().join(", "))
}
