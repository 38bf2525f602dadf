//! The report of a conversion, in words and as JSON.

use kiste::storage::Shown;
use std::io::Write;
use std::path::Path;

use kiste::array::ArrayTally;
use kiste::convert::{DryRun, FieldOutcome, Report, WrittenOutput};
use kiste::text::units;

use crate::exit::{Exit, Outcome};
use crate::output::Output;

/// Prints the report of a conversion, or of joined parts.
pub(in crate::cmd) fn report(report: &Report, json: bool, output: &Output) -> Outcome<Exit> {
    if !report.was_complete {
        for made in &report.outputs {
            match made.is_dataset {
                true => dataset_line(made, report, output),
                false => export_line(made, output),
            }
        }
        remarks(report, output);
    }
    if let Some(json) = report.to_json().filter(|_| json) {
        output.json(&json)?;
    }
    Ok(if report.bad.count > 0 { Exit::No } else { Exit::Yes })
}

/// Prints the report of a part. Its bad samples make a commit exit with 1, not the part.
pub(in crate::cmd) fn part(report: &Report, name: &str, output: &Output) -> Exit {
    if let Some(made) = report.outputs.first().filter(|_| !report.was_complete) {
        let samples = units::counted(made.samples, "sample");
        let (bytes, time) = (units::bytes(made.bytes), units::duration(report.duration));
        output.note(format_args!("{name}: {samples}, {bytes} in {time}"));
        bad_samples(report, None, output);
    }
    Exit::Yes
}

fn dataset_line(made: &WrittenOutput, report: &Report, output: &Output) {
    let (samples, bytes) = (units::counted(made.added, "sample"), units::bytes(made.added_bytes));
    let time = units::duration(report.duration);
    // With several outputs, or after earlier runs, the time is not the time of this output.
    let pace = match (report.resumed, report.outputs.len()) {
        (true, _) => format!("; this run took {time}"),
        (_, 1) => {
            let rate = units::byte_rate(made.added_bytes, report.duration);
            format!(" in {time} ({}, {rate})", units::sample_rate(made.added, report.duration))
        }
        _ => String::new(),
    };
    let total = match made.added == made.samples {
        true => String::new(),
        false => format!(", {} now", units::count(made.samples)),
    };
    output.note(format_args!("{}: {samples}{total}, {bytes}{pace}", Shown::of(&made.path)));
}

fn export_line(made: &WrittenOutput, output: &Output) {
    let samples = units::counted(made.samples, "sample");
    let files = match &made.files[..] {
        [one] => Shown::of(&one).to_string(),
        all => {
            format!("{}: {}", Shown::of(&made.path), units::counted(all.len() as u64, "shard"))
        }
    };
    output.note(format_args!("{files}: {samples}"));
}

/// Remarks about arrays, and about parts that were left out.
fn remarks(report: &Report, output: &Output) {
    let Some(last) = report.outputs.last() else { return };
    if let Some(tally) = &report.arrays {
        arrays(tally, &last.path, output);
    }
    if report.skipped_duplicates > 0 {
        let samples = units::counted(report.skipped_duplicates, "sample");
        let path = Shown::of(&last.path);
        output.note(format_args!("{path}: skipped {samples} whose key was there before"));
    }
    if report.different_duplicates > 0 {
        let samples = units::counted(report.different_duplicates, "skipped sample");
        let path = Shown::of(&last.path);
        output.warn(format_args!("{path}: at least {samples} differed from the one that stays"));
    }
    bad_samples(report, report.quarantine.as_deref(), output);
    if report.is_empty() {
        output.warn(format_args!("{}: the input has no samples", Shown::of(&last.path)));
    }
    if report.skipped_files > 0 {
        let files = units::counted(report.skipped_files, "file");
        output.warn(format_args!(
            "skipped {files}: not named like images, outside of the folders of labels, or not in \
             the metadata"
        ));
    }
}

fn bad_samples(report: &Report, quarantine: Option<&Path>, output: &Output) {
    let bad = &report.bad;
    if bad.count == 0 {
        return;
    }
    let mut left_out = units::counted(bad.count, "bad sample");
    if bad.unsupported > 0 {
        left_out += &format!(" ({} not damaged but unsupported)", bad.unsupported);
    }
    match quarantine {
        Some(path) => output.warn(format_args!("left out {left_out}: see {}", Shown::of(&path))),
        None => output.warn(format_args!("left out {left_out}")),
    }
    for place in &bad.first {
        output.note(format_args!("  {place}"));
    }
    if bad.count > bad.first.len() as u64 {
        let more = bad.count - bad.first.len() as u64;
        output.note(format_args!("  and {}", units::counted(more, "other")));
    }
    if bad.unread_places > 0 {
        let places = units::counted(bad.unread_places, "place");
        output.warn(format_args!("from {places} on, the rest of a file could not be read"));
    }
}

/// How many arrays were stored differently, what that did to their size, and why others were not.
fn arrays(tally: &ArrayTally, path: &Path, output: &Output) {
    let path = Shown::of(&path);
    let arrays = units::counted(tally.recoded, "array");
    let (before, after) = (units::bytes(tally.bytes_before), units::bytes(tally.bytes_after));
    let (ratio, verb) = match tally.ratio() {
        ratio if ratio < 1.0 => (1.0 / ratio, "larger"),
        ratio => (ratio, "smaller"),
    };
    match tally.recoded {
        0 => output.note(format_args!("{path}: no arrays recoded")),
        _ => output.note(format_args!(
            "{path}: {arrays} recoded, {before} before, {after} now: {ratio:.2} times {verb}"
        )),
    }
    for (why, count) in &tally.left {
        let arrays = units::counted(*count, "array");
        output.note(format_args!("{path}: {arrays} left as before: {why}"));
    }
}

/// Prints a table of what would happen to each field.
pub(in crate::cmd) fn dry_run(tried: DryRun, json: bool, output: &Output) -> Outcome<Exit> {
    if json {
        output.json(&tried)?;
        return tried.error.map_or(Ok(Exit::Yes), |error| Err(error.into()));
    }
    let mut out = output.stdout();
    out.row(&["field", "type", "becomes", "note"].map(|name| output.bold(name)))?;
    for field in &tried.fields {
        let (name, types) = (&field.name[..], &field.types[..]);
        match &field.becomes {
            FieldOutcome::Field { name: new, types: now, is_same, is_key } => {
                let values = match (is_same, &field.changes[..]) {
                    (true, _) => "unchanged".to_owned(),
                    (false, []) => "changed".to_owned(),
                    (false, changes) => format!("changed: {}", changes.join("; ")),
                };
                let note = match name == new {
                    true => values,
                    false if *is_key => "the key again with --key-field key".to_owned(),
                    false => format!("{values}, named {new}"),
                };
                out.row(&[name, types, now, &note])?;
            }
            FieldOutcome::Lost => out.row(&[name, types, "-", "is lost"])?,
            FieldOutcome::Refused(reason) => {
                out.row(&[name, types, "-", &format!("cannot be carried: {reason}")])?;
            }
            _ => out.row(&[name, types, "-", "not tried"])?,
        }
    }
    out.flush()?;
    tried.remarks.iter().for_each(|remark| output.warn(remark));
    match tried.error {
        Some(error) => Err(error.into()),
        None => Ok(Exit::Yes),
    }
}
