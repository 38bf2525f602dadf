use std::io::Write;
use std::path::PathBuf;

use kiste::rearrange::{DuplicatesBy, duplicates};
use kiste::stat::{StatComparison, StatOptions, StatReport, StatText};
use kiste::storage::Shown;
use kiste::text::{escaped, units};
use serde::Serialize;

use crate::exit::{Exit, Outcome};
use crate::file::{self, Input};
use crate::output::Output;

/// Show what is in a dataset: what is missing, how values are spread, what is rare, what occurs twice
///
/// Reads every sample, on all cores, and of images, sound and packed arrays only the headers. Counts are exact;
/// quantiles are exact to within one part in 100, and numbers of different values from a million on.
///
/// Of each field there is about a screen: of numbers and times a histogram, of classes the largest and the rarest, of
/// texts and lists their lengths, of images, sound and arrays what their headers say. Fields that are always the same or
/// all different have a line in the table. --all lists everything. Numbers in the field "label" get their names from
/// FILE.labels, and are counted by the field "split" where there is one (--by).
///
/// --compare says what differs between two datasets, the largest difference first: the share of samples that would
/// have to change, where that is more than chance would make of two draws from one source.
///
/// The page of --html is a single file: samples, plots and tables, in the light or dark theme of the browser.
#[derive(Debug, clap::Args)]
#[command(aliases = ["stats", "summary"], after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Data file
    file: PathBuf,
    /// Only these fields
    #[arg(long = "fields", alias = "field", value_name = "FIELD,...", value_delimiter = ',')]
    field: Vec<String>,
    /// List every value, size and shape
    #[arg(long, conflicts_with_all = ["json", "html"])]
    all: bool,
    /// Count labels by this field instead of by "split"
    #[arg(long, value_name = "FIELD")]
    by: Option<String>,
    /// Say how this other dataset differs
    #[arg(long, value_name = "OTHER")]
    compare: Option<PathBuf>,
    /// List samples that are equal: in this field, or in all but their keys. A line for each group: its keys
    #[arg(long, value_name = "FIELD", num_args = 0..=1, default_missing_value = "")]
    #[arg(conflicts_with_all = ["field", "all", "by", "compare", "html"])]
    duplicates: Option<String>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    /// Write a page for a browser
    #[arg(long, value_name = "PAGE", conflicts_with = "json")]
    html: Option<PathBuf>,
    /// Samples on the page
    #[arg(long, value_name = "N", default_value_t = 48, requires = "html")]
    show: usize,
    /// Replace a page that exists
    #[arg(long, short, requires = "html")]
    force: bool,
}

const EXAMPLES: &str = "\
Examples:
  kiste stat train.msgpack
  kiste stat train.msgpack --fields caption,url
  kiste stat train.msgpack --compare val.msgpack
  kiste stat train.msgpack --duplicates image
  kiste stat train.msgpack --json | jq '.fields[].types'
  kiste stat train.msgpack --html train.html";

/// Differences that are printed.
const DIFFERENCES: usize = 30;

/// Equal samples.
#[derive(Serialize)]
struct Groups {
    /// All of the groups.
    samples: u64,
    groups: Vec<Vec<String>>,
}

impl Args {
    pub(crate) fn run(self, output: &Output) -> Outcome<Exit> {
        let reader = file::open(&self.file, output)?;
        if let Some(field) = &self.duplicates {
            return self.duplicates(&reader, field, output);
        }
        let report = self.report(&reader, &self.file, output)?;
        if let Some(other) = &self.compare {
            let theirs = self.report(&file::open(other, output)?, other, output)?;
            return self.compared(&report, &theirs, output);
        }
        match self.html {
            Some(page) => {
                file::write(&page, report.to_html(&*reader, self.show)?.as_bytes(), self.force)?;
            }
            None if self.json => output.json(&report)?,
            None => {
                let text = StatText::default().width(output.width()).all(self.all);
                print(&report, text, output)?;
            }
        }
        Ok(Exit::Yes)
    }

    fn report(
        &self,
        reader: &Input,
        file: &std::path::Path,
        output: &Output,
    ) -> Outcome<StatReport> {
        let mut options = StatOptions::default();
        if !self.field.is_empty() {
            options = options.fields(&self.field);
        }
        if let Some(by) = &self.by {
            options = options.by(by);
        }
        let progress = output.progress("reading", Some(reader.len() as u64));
        let mut report = StatReport::of(&**reader, &options, |seen| progress.set(seen))?;
        if reader.dataset.is_none() {
            report.file = kiste::storage::shown(file);
        }
        Ok(report)
    }

    fn compared(&self, ours: &StatReport, theirs: &StatReport, output: &Output) -> Outcome<Exit> {
        let compared = StatComparison::of(ours, theirs);
        if let Some(page) = &self.html {
            file::write(page, compared.to_html(ours, theirs).as_bytes(), self.force)?;
            return Ok(Exit::Yes);
        }
        if self.json {
            output.json(&compared)?;
            return Ok(Exit::Yes);
        }
        let mut out = output.stdout();
        for report in [ours, theirs] {
            let name = output.bold(format_args!("{}:", Shown::of(&report.file)));
            writeln!(out, "{name} {}", report.heading())?;
        }
        writeln!(out)?;
        writeln!(out, "{}", output.bold("differences, the largest first"))?;
        for line in compared.text(if self.all { usize::MAX } else { DIFFERENCES }).lines() {
            writeln!(out, "{line}")?;
        }
        out.flush()?;
        Ok(Exit::Yes)
    }

    fn duplicates(&self, reader: &Input, field: &str, output: &Output) -> Outcome<Exit> {
        let by = duplicates_by(field);
        let progress = output.progress("looking for duplicates", Some(reader.len() as u64));
        let found = duplicates(&**reader, &by, |seen| progress.reaches(seen))?;
        drop(progress);
        let samples: usize = found.iter().map(Vec::len).sum();
        let key = |&index: &usize| reader.key(index).map(std::borrow::Cow::into_owned);
        if self.json {
            let keys = |group: &Vec<usize>| group.iter().map(key).collect();
            let groups = found.iter().map(keys).collect::<kiste::Result<Vec<Vec<String>>>>()?;
            output.json(&Groups { samples: samples as u64, groups })?;
            return Ok(Exit::Yes);
        }
        let mut out = output.stdout();
        for group in &found {
            let keys = group.iter().map(key).collect::<kiste::Result<Vec<String>>>()?;
            out.row(&keys.iter().map(String::as_str).collect::<Vec<_>>())?;
        }
        out.flush()?;
        let name = file::shown(&self.file);
        if found.is_empty() {
            output.note(format_args!("{name}: no duplicates"));
            return Ok(Exit::Yes);
        }
        let groups = units::counted(found.len() as u64, "group");
        output.note(format_args!(
            "{name}: {} in {groups}; {} more than one of each",
            units::counted(samples as u64, "sample"),
            units::count((samples - found.len()) as u64),
        ));
        let of = if field.is_empty() { String::new() } else { format!(" {}", escaped(field)) };
        output
            .hint(format_args!("kiste select {name} OUT --first-of{of} writes the first of each"));
        Ok(Exit::Yes)
    }
}

/// What samples are compared by: a field, or all but the key where none is named.
pub(super) fn duplicates_by(field: &str) -> DuplicatesBy {
    match field {
        "" => DuplicatesBy::Content,
        "key" => DuplicatesBy::Key,
        field => DuplicatesBy::Field(field.to_owned()),
    }
}

fn print(report: &StatReport, text: StatText, output: &Output) -> Outcome<()> {
    let mut out = output.stdout();
    let title = output.bold(format_args!("{}:", Shown::of(&report.file)));
    writeln!(out, "{title} {}", report.heading())?;
    for section in report.sections(text) {
        writeln!(out)?;
        writeln!(out, "{}", output.bold(section.title))?;
        for line in section.text.lines() {
            writeln!(out, "{line}")?;
        }
    }
    Ok(out.flush()?)
}
