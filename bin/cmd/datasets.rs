//! `datasets`: what the catalogue has.

use std::io::Write;

use kiste::datasets::{ALL, Classes, Dataset, File};
use kiste::text::units;
use serde_json::json;

use super::catalogue::find;
use super::classes;
use crate::exit::{Exit, Failure, Outcome, flag};
use crate::output::{Output, Stdout};

/// List the data sets that "kiste write" knows, or print all about one
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Which one [default: all are listed]
    #[arg(value_name = "NAME")]
    name: Option<String>,
    /// Print all of its classes: their numbers, names and colours, how many training images each
    /// would fill, and its weight for training, where that was counted
    #[arg(long, requires = "name")]
    classes: bool,
    /// Print JSON: an object, or a list of them
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  kiste datasets
  kiste datasets ILSVRC2012
  kiste datasets VOC2012 --classes
  kiste datasets --json | jq -r '.[] | select(.free) | .name'

\"free\" means that all files can be downloaded without registration.";

impl Args {
    pub(crate) fn run(self, output: &Output) -> Outcome<Exit> {
        match self.name.as_deref().map(find).transpose()? {
            Some(dataset) if self.classes => tell_classes(dataset, self.json, output)?,
            Some(dataset) if self.json => output.json(dataset)?,
            Some(dataset) => tell(dataset, output)?,
            None if self.json => {
                output.json(&ALL)?;
            }
            None => list(output)?,
        }
        Ok(Exit::Yes)
    }
}

/// A row for each data set, in columns.
fn list(output: &Output) -> Outcome<()> {
    let mut rows =
        vec![["name", "splits", "samples", "size", "files", "licence"].map(str::to_owned)];
    rows.extend(ALL.iter().map(|dataset| {
        let splits: Vec<&str> = dataset.splits.iter().map(|split| split.name).collect();
        let free = if dataset.is_free_to_fetch() { "free" } else { "ask" };
        [
            dataset.name.to_owned(),
            splits.join(", "),
            dataset.samples().map_or_else(|| "-".to_owned(), units::count),
            size(dataset).map_or_else(|| "-".to_owned(), units::bytes),
            free.to_owned(),
            dataset.licence.to_owned(),
        ]
    }));
    let mut out = output.stdout();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
    let widths: Vec<usize> = (0..6).map(|column| width(column).unwrap_or(0)).collect();
    for (at, [name, splits, samples, size, free, licence]) in rows.iter().enumerate() {
        let name = format!("{name:<0$}", widths[0]);
        let rest = format!(
            "{splits:<0$}  {samples:>1$}  {size:>2$}  {free:<3$}  {licence}",
            widths[1], widths[2], widths[3], widths[4]
        );
        match at {
            0 => writeln!(out, "{}", output.dim(format_args!("{name}  {rest}")))?,
            _ => writeln!(out, "{}  {rest}", output.bold(name))?,
        }
    }
    Ok(out.flush()?)
}

/// The bytes of all files, if they are known. Where there are versions, of all together.
fn size(dataset: &Dataset) -> Option<u64> {
    match dataset.files {
        [] => None,
        files => files.iter().map(|file| file.size).sum(),
    }
}

/// All there is to know about one.
fn tell(dataset: &Dataset, output: &Output) -> Outcome<()> {
    let mut out = output.stdout();
    let label = |text: &str| output.bold(format_args!("{text:<9}"));
    writeln!(out, "{}{}: {}", label("dataset"), dataset.name, dataset.title)?;
    writeln!(out, "{}{}", label("page"), dataset.url)?;
    writeln!(out, "{}{}", label("licence"), dataset.licence)?;
    tell_text(dataset.citation, &label("cite"), &mut out)?;
    for (at, split) in dataset.splits.iter().enumerate() {
        let label = label(if at == 0 { "splits" } else { "" });
        let samples = split.samples.map(|samples| units::counted(samples, "sample"));
        let samples = samples.unwrap_or_else(|| "not counted".to_owned());
        writeln!(out, "{label}{:<12}{}.msgpack: {samples}", split.name, split.file)?;
    }
    let width = dataset.fields.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    for (at, (name, what)) in dataset.fields.iter().enumerate() {
        writeln!(out, "{}{name:<width$}  {what}", label(if at == 0 { "fields" } else { "" }))?;
    }
    for (at, classes) in dataset.classes.iter().enumerate() {
        writeln!(out, "{}{}", label(if at == 0 { "classes" } else { "" }), summary(classes))?;
    }
    for (at, file) in dataset.files.iter().enumerate() {
        tell_file(file, &label(if at == 0 { "files" } else { "" }), &mut out)?;
    }
    if !dataset.takes.is_empty() {
        let takes: Vec<String> = dataset.takes.iter().map(|take| flag(take.name())).collect();
        writeln!(out, "{}{}", label("options"), takes.join(", "))?;
    }
    if !dataset.notes.is_empty() {
        tell_text(dataset.notes, &label("notes"), &mut out)?;
    }
    Ok(out.flush()?)
}

/// A table for each field that has classes.
fn tell_classes(dataset: &Dataset, json: bool, output: &Output) -> Outcome<()> {
    if dataset.classes.is_empty() {
        return Err(Failure::trouble(format!("{} has no classes", dataset.name)));
    }
    let tables = dataset.classes.iter().map(|known| (known.field, known.table()));
    if json {
        let tables = tables.map(|(field, rows)| json!({"field": field, "classes": rows}));
        return output.json(&tables.collect::<Vec<_>>());
    }
    let mut out = output.stdout();
    for (at, (field, rows)) in tables.enumerate() {
        if at > 0 {
            writeln!(out)?;
        }
        writeln!(out, "{}: {} classes", output.bold(field), units::count(rows.len() as u64))?;
        classes::print(&rows, &mut out, output)?;
    }
    Ok(out.flush()?)
}

/// A text in lines of up to a hundred characters, below each other and right of the label.
fn tell_text(text: &str, label: &str, out: &mut Stdout) -> Outcome<()> {
    for (at, line) in wrapped(text).iter().enumerate() {
        writeln!(out, "{}{line}", if at == 0 { label } else { "         " })?;
    }
    Ok(())
}

fn wrapped(text: &str) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.is_empty() => line.push_str(word),
            Some(line) if line.chars().count() + 1 + word.chars().count() <= 91 => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// How many classes, and the first of them.
fn summary(classes: &Classes) -> String {
    let names = classes.names.to_vec();
    if names.is_empty() {
        let count = units::count((classes.counts)().len() as u64);
        return format!("{}: {count} in training images; no names", classes.field);
    }
    let first: Vec<&str> = names.iter().take(3).map(String::as_str).collect();
    let more = if names.len() > first.len() { ", ..." } else { "" };
    let colours = if classes.colours.is_empty() { "" } else { ", with colours" };
    let count = units::count(names.len() as u64);
    format!("{}: {count}{colours}: {}{more}", classes.field, first.join(", "))
}

fn tell_file(file: &File, label: &str, out: &mut Stdout) -> Outcome<()> {
    let size = file.size.map(|size| format!(", {}", units::bytes(size))).unwrap_or_default();
    writeln!(out, "{label}{}: {}{size}", file.role, file.path)?;
    let digest = file.md5.map(|md5| format!("MD5 {md5}"));
    for line in file.url.map(str::to_owned).into_iter().chain(digest) {
        writeln!(out, "{:<11}{line}", "")?;
    }
    Ok(())
}
