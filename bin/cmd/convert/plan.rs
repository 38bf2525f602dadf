//! What a conversion will do, as JSON: the same on every machine that sees the same sources and is
//! given the same options.

use std::path::Path;
use std::time::SystemTime;

use clap::ArgMatches;
use clap::parser::ValueSource;
use kiste::convert::Input;
use serde_json::{Value as Json, json};
use sha2::{Digest as _, Sha256};

use super::Args;
use super::from::Samples;
use crate::cmd::{Command, command_line, parse_from};
use crate::exit::{Failure, Outcome};

/// Options that change nothing about what is made.
const IDLE: &[&str] =
    &["plan", "part", "resume", "json", "progress", "dry_run", "no_sync", "quiet", "color"];

/// What is made of these, in so many parts. Of a stream nothing can be said.
pub(super) fn plan(
    args: &Args,
    samples: &Samples,
    skipped_files: u64,
    parts: Option<usize>,
) -> Outcome<Json> {
    let (_, sources) = args.names()?;
    let sources: Outcome<Vec<&str>> = sources.iter().map(|source| text(source)).collect();
    let input = match samples {
        Samples::Units(input) => Some(&**input),
        Samples::Stream(_) => None,
    };
    let (files, bytes) = input.map_or(Ok((Vec::new(), None)), files)?;
    let mut others = Sha256::new();
    let mut add = |name: &[u8]| {
        others.update((name.len() as u64).to_le_bytes());
        others.update(name);
    };
    if let Some(input) = input {
        input.identify(&mut add);
    }
    Ok(json!({
        "version": env!("CARGO_PKG_VERSION"),
        "sources": sources?,
        "options": options()?,
        "parts": parts,
        "units": input.map(Input::units),
        "samples": input.and_then(Input::len_hint),
        "bytes": bytes,
        "labels": samples.label_names(),
        "skipped_files": skipped_files,
        "split_lists": args.splitting.digests()?,
        "files": files,
        "other_files": hex(&others.finalize()),
    }))
}

/// A plan as it is kept beside what is made, by which one that was begun is known again. Of its files,
/// which may be many, there is a digest.
pub(super) fn brief(mut plan: Json) -> String {
    plan["files"] = hex(&Sha256::digest(plan["files"].to_string())).into();
    plan.to_string()
}

/// What differs between two plans that were kept so, in words.
pub(super) fn brief_difference(there: &str, here: &str) -> Option<String> {
    let (there, here) = (serde_json::from_str(there).ok()?, serde_json::from_str(here).ok()?);
    (there != here).then(|| difference(&there, &here))
}

/// A digest as it is in plans.
pub(super) fn hex(digest: &[u8]) -> String {
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// What differs between two plans, in words.
pub(super) fn difference(there: &Json, here: &Json) -> String {
    let fields = there.as_object().into_iter().flatten();
    let mut differing = fields.filter(|(name, value)| here[name.as_str()] != **value);
    match differing.next() {
        Some((name, value))
            if ["parts", "version", "units", "options", "sources"].contains(&&name[..]) =>
        {
            format!("{name} {value} there, {} here", here[name.as_str()])
        }
        Some((name, _)) if name == "files" || name == "other_files" => {
            "the files have changed since".to_owned()
        }
        Some((name, _)) => format!("{name} differs"),
        None => "it says more".to_owned(),
    }
}

/// The files that units are from, in order, with sizes and times; and the bytes of all units.
fn files(input: &dyn Input) -> Outcome<(Vec<Json>, Option<u64>)> {
    let (mut files, mut bytes, mut last) = (Vec::new(), Some(0u64), None);
    for unit in 0..input.units() {
        bytes = bytes.zip(input.bytes(unit)).map(|(sum, more)| sum.saturating_add(more));
        let Some(path) = input.path(unit).filter(|path| last != Some(*path)) else { continue };
        last = Some(path);
        let name = text(path)?;
        // What is compressed may be there under another name only.
        let found = path.metadata().ok();
        let modified = found.as_ref().and_then(|found| found.modified().ok());
        let modified = modified.and_then(|at| at.duration_since(SystemTime::UNIX_EPOCH).ok());
        files.push(json!({
            "name": name,
            "bytes": found.map(|found| found.len()),
            "modified": modified.map(|time| time.as_secs()),
        }));
    }
    Ok((files, bytes))
}

fn text(path: &Path) -> Outcome<&str> {
    path.to_str().ok_or_else(|| {
        Failure::trouble(format!(
            "{}: the name is not UTF-8, so no plan can have it",
            path.display()
        ))
    })
}

/// The options that were given and matter, in one order however they were given.
fn options() -> Outcome<Vec<String>> {
    let command_line = command_line();
    let Some(command) = command_line.find_subcommand("convert") else { return Ok(Vec::new()) };
    let matches = command_line.clone().try_get_matches();
    let matches = matches.map_err(|error| Failure::trouble(error.kind()))?;
    let Some(matches) = matches.subcommand_matches("convert") else { return Ok(Vec::new()) };
    let mut options = Vec::new();
    for arg in command.get_arguments() {
        let id = arg.get_id().as_str();
        let given = matches.try_contains_id(id).is_ok()
            && matches.value_source(id) == Some(ValueSource::CommandLine);
        let Some(name) = arg.get_long().filter(|_| given && !IDLE.contains(&id)) else { continue };
        match arg.get_action().takes_values() {
            false => options.push(format!("--{name}")),
            true => {
                for value in values(matches, id)? {
                    options.push(format!("--{name}={value}"));
                }
            }
        }
    }
    Ok(options)
}

/// The values of each time that an option was given.
fn values(matches: &ArgMatches, id: &str) -> Outcome<Vec<String>> {
    let mut values = Vec::new();
    for occurrence in matches.get_raw_occurrences(id).into_iter().flatten() {
        let texts: Option<Vec<&str>> = occurrence.map(|value| value.to_str()).collect();
        let texts = texts.ok_or_else(|| {
            Failure::trouble(format!(
                "--{}: not UTF-8, so no plan can have it",
                id.replace('_', "-")
            ))
        })?;
        values.push(texts.join(","));
    }
    Ok(values)
}

/// The arguments that a plan was made from.
pub(super) fn arguments(plan: &Json, dataset: &Path) -> Outcome<Args> {
    let texts = |name: &str| plan[name].as_array().into_iter().flatten().filter_map(Json::as_str);
    let damaged =
        || Failure::no(format!("{}: expected the plan of a conversion", dataset.display()));
    let mut line = vec!["kiste", "convert"];
    line.extend(texts("options"));
    line.push("--");
    line.extend(texts("sources"));
    line.push(text(dataset)?);
    match parse_from(line).map(|args| args.command) {
        Ok(Command::Convert(args)) => Ok(*args),
        _ => Err(damaged()),
    }
}
