//! What the catalogue has.

use std::io::Write;

use kiste::datasets::{ALL, Classes, Dataset, File};
use kiste::text::units;
use serde_json::json;

use super::table::{Align, print_columns};
use super::{classes, find};
use crate::exit::{Exit, Failure, Outcome, flag};
use crate::listing::{Listing, wrapped};
use crate::output::Output;

/// Lists all data sets, or describes one.
pub(super) fn run(name: Option<&str>, classes: bool, json: bool, output: &Output) -> Outcome<Exit> {
    match name.map(find).transpose()? {
        Some(dataset) if classes => tell_classes(dataset, json, output)?,
        Some(dataset) if json => output.json(dataset)?,
        Some(dataset) => tell(dataset, output)?,
        None if json => output.json(&ALL)?,
        None => list(output)?,
    }
    Ok(Exit::Yes)
}

/// A row for each data set, in columns.
fn list(output: &Output) -> Outcome<()> {
    let row = |dataset: &&Dataset| {
        let splits: Vec<&str> = dataset.splits.iter().map(|split| split.name).collect();
        let free = if dataset.is_free_to_fetch() { "free" } else { "ask" };
        [
            Some(dataset.name.to_owned()),
            Some(splits.join(", ")),
            dataset.samples().map(units::count),
            dataset.size().map(units::bytes),
            Some(free.to_owned()),
            Some(dataset.licence.to_owned()),
        ]
    };
    let columns = [
        ("name", Align::Left),
        ("splits", Align::Left),
        ("samples", Align::Right),
        ("size", Align::Right),
        ("files", Align::Left),
        ("licence", Align::Left),
    ];
    let mut out = output.stdout();
    let rows: Vec<_> = ALL.iter().map(row).collect();
    print_columns(columns, &rows, |name| output.bold(name), output, &mut out)?;
    Ok(out.flush()?)
}

/// The width of text, right of its label.
const WIDTH: usize = 91;

/// All there is to know about one.
fn tell(dataset: &Dataset, output: &Output) -> Outcome<()> {
    let mut list = Listing::new(9, output);
    list.line("dataset", format_args!("{}: {}", dataset.name, dataset.title))?;
    list.line("page", dataset.url)?;
    list.line("licence", dataset.licence)?;
    list.lines("cite", wrapped(dataset.citation, WIDTH))?;
    list.lines(
        "splits",
        dataset.splits.iter().map(|split| {
            let samples = split.samples.map(|samples| units::counted(samples, "sample"));
            let samples = samples.unwrap_or_else(|| "not counted".to_owned());
            format!("{:<12}{}.msgpack: {samples}", split.name, split.file)
        }),
    )?;
    let width = dataset.fields.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    list.lines(
        "fields",
        dataset.fields.iter().map(|(name, what)| format!("{name:<width$}  {what}")),
    )?;
    list.lines("classes", dataset.classes.iter().map(summary))?;
    list.lines("files", dataset.files.iter().flat_map(file_lines))?;
    if !dataset.takes.is_empty() {
        let takes: Vec<String> = dataset.takes.iter().map(|take| flag(take.name())).collect();
        list.line("options", takes.join(", "))?;
    }
    if !dataset.notes.is_empty() {
        list.lines("notes", wrapped(dataset.notes, WIDTH))?;
    }
    list.finish()
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

/// Where a file is expected, where it comes from, and its digest.
fn file_lines(file: &File) -> Vec<String> {
    let size = file.size.map(|size| format!(", {}", units::bytes(size))).unwrap_or_default();
    let mut lines = vec![format!("{}: {}{size}", file.role, file.path)];
    lines.extend(file.url.map(|url| format!("  {url}")));
    lines.extend(file.md5.map(|md5| format!("  MD5 {md5}")));
    lines
}
