//! `stat`: what is in a dataset, for the eye (`text`), as a page (`html`) or as JSON.

mod html;
mod text;
#[cfg(feature = "images")]
mod thumbnail;

use std::path::PathBuf;

use kiste::dataset::read_labels;
use kiste::rearrange::Scalar;
use kiste::stat::{FieldSummary, StatOptions, Summary};
use serde::Serialize;

use crate::exit::{Exit, Outcome};
use crate::file;
use crate::output::Output;

/// Show what is in a dataset: sizes, fields and types, balance of classes, images, arrays
///
/// Every sample is looked at, on all cores; of images and packed arrays the headers alone.
/// Percentiles are exact to within one part in 128, all else is exact.
///
/// Classes are the values of a field of whole numbers, booleans or short strings that has few
/// enough of them. Numbers in the field "label" get their names from FILE.labels.
///
/// The page of --html is one file that needs nothing else: plots and a grid of samples.
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
        let progress = output.progress("looking", Some(reader.len() as u64));
        let summary = options.stat(&reader, |seen| progress.set(seen))?;
        drop(progress);
        let labels = read_labels(&self.file)?;
        let found = Found { labels, file: self.file, summary, asked };
        match self.html {
            Some(page) => {
                let samples = html::pick(&reader, self.show)?;
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
    /// The classes of a field, if its values are such: the largest first. One that all samples or
    /// hardly any share says nothing.
    fn classes(&self, field: &FieldSummary) -> Option<Vec<Row>> {
        let count = field.classes.len();
        let few = count > 1 && (count as u64 * 2 <= field.present || count <= 20);
        if field.name == "key" || count == 0 || !(few || self.asked) {
            return None;
        }
        let names = self.labels.as_deref().filter(|_| field.name == LABEL);
        let name = |class: &Scalar| match (class, names) {
            (Scalar::Whole(number), Some(names)) => {
                let name = usize::try_from(*number).ok().and_then(|number| names.get(number));
                let number = number.to_string();
                match name {
                    Some(name) if *name != number => format!("{number} {name}"),
                    _ => number,
                }
            }
            (class, _) => class.to_string(),
        };
        let sorted = field.classes.sorted().into_iter();
        let mut rows: Vec<Row> =
            sorted.map(|(class, count)| Row { name: name(class), count }).collect();
        // Stable: those that are equally large stay in their order.
        rows.sort_by_key(|row| std::cmp::Reverse(row.count));
        Some(rows)
    }
}

/// How often which, the most frequent first.
fn ranked<K: Clone + Ord>(counts: &std::collections::BTreeMap<K, u64>) -> Vec<(K, u64)> {
    let mut ranked: Vec<(K, u64)> = counts.iter().map(|(kind, &n)| (kind.clone(), n)).collect();
    ranked.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    ranked
}

/// A mean without the digits that only adding up has made.
fn rounded(mean: f64) -> f64 {
    format!("{mean:.6e}").parse().unwrap_or(mean)
}

fn shape(shape: &[usize]) -> String {
    format!("[{}]", shape.iter().map(usize::to_string).collect::<Vec<_>>().join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mean_has_no_digits_of_chance() {
        assert_eq!(rounded(0.1 + 0.2), 0.3);
        assert_eq!(
            [rounded(1_234_567.0), rounded(-2.5e-9), rounded(0.0)],
            [1_234_567.0, -2.5e-9, 0.0]
        );
    }
}
