use kiste::storage::Shown;
use std::io::Write;
use std::path::PathBuf;

use kiste::stat::{StatOptions, StatReport};

use crate::exit::{Exit, Outcome};
use crate::file;
use crate::output::Output;

/// Show statistics of a dataset: sizes, fields and types, balance of classes, images, arrays
///
/// Reads every sample, on all cores, and of images and packed arrays only the headers. Percentiles are exact to
/// within one part in 128, everything else is exact.
///
/// Values are listed as classes where there are few: up to 20 different numbers, or strings that most
/// samples share with others. Other numbers are shown as a histogram. Numbers in the field "label"
/// get their names from FILE.labels.
///
/// The page of --html is a single file: samples, plots and tables, in the light or dark theme of the browser.
#[derive(Debug, clap::Args)]
#[command(aliases = ["stats", "summary"], after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Data file
    file: PathBuf,
    /// Only these fields, with all their values
    #[arg(long = "fields", alias = "field", value_name = "FIELD,...", value_delimiter = ',')]
    field: Vec<String>,
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
  kiste stat train.msgpack --fields label
  kiste stat train.msgpack --json | jq '.fields[].types'
  kiste stat train.msgpack --html train.html";

impl Args {
    pub(crate) fn run(self, output: &Output) -> Outcome<Exit> {
        let reader = file::open(&self.file, output)?;
        let options = match self.field.is_empty() {
            true => StatOptions::default(),
            false => StatOptions::default().fields(&self.field),
        };
        let progress = output.progress("reading", Some(reader.len() as u64));
        let mut report = StatReport::of(&*reader, &options, |seen| progress.set(seen))?;
        if reader.dataset.is_none() {
            report.file = kiste::storage::shown(&self.file);
        }
        drop(progress);
        match self.html {
            Some(page) => {
                file::write(&page, report.to_html(&*reader, self.show)?.as_bytes(), self.force)?;
            }
            None if self.json => output.json(&report)?,
            None => print(&report, output)?,
        }
        Ok(Exit::Yes)
    }
}

fn print(report: &StatReport, output: &Output) -> Outcome<()> {
    let mut out = output.stdout();
    let title = output.bold(format_args!("{}:", Shown::of(&report.file)));
    writeln!(out, "{title} {}", report.heading())?;
    for section in report.sections() {
        writeln!(out)?;
        writeln!(out, "{}", output.bold(section.title))?;
        for line in section.text.lines() {
            writeln!(out, "{line}")?;
        }
    }
    Ok(out.flush()?)
}
