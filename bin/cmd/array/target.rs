//! Arguments: an array, a part of it, a version, a shape.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use kiste::array::{ArrayStore, At, ChunkedArray, Selection, VersionInfo};
use kiste::format::chunked::parse_time;
use kiste::{Error, ErrorKind};

use super::export::Format;
use crate::exit::{Failure, Outcome, is_dataset};
use crate::output::Output;

/// An array, or a part of it: `NAME` or `NAME[...]`.
#[derive(Debug, Clone)]
pub(super) struct Target {
    pub(super) path: PathBuf,
    pub(super) selection: Selection,
}

impl Target {
    /// If there is a file whose name ends with a bracket, it is meant.
    pub(super) fn parse(text: &str) -> Result<Target, String> {
        let whole = || Ok(Target { path: text.into(), selection: Selection::all() });
        let Some(inside) = text.strip_suffix(']') else { return whole() };
        let Some((name, inside)) = inside.split_once('[') else { return whole() };
        if Path::new(text).exists() {
            return whole();
        }
        if name.is_empty() {
            return Err("expected NAME before the brackets".to_owned());
        }
        let selection = inside.parse().map_err(|error: Error| error.to_string())?;
        Ok(Target { path: name.into(), selection })
    }
}

/// A version: its number, how far back, or when it was the newest.
pub(super) fn parse_at(text: &str) -> Result<At, String> {
    if text == "newest" {
        return Ok(At::Newest);
    }
    if let Some(back) = text.strip_prefix('-') {
        if let Ok(steps) = back.parse() {
            return Ok(At::Back(steps));
        }
    }
    match text.parse() {
        Ok(number) => Ok(At::Version(number)),
        Err(_) => parse_moment(text).map(At::Time).map_err(|_| {
            let forms = "5, -1 (the one before the newest), 2026-01-31 or 2026-01-31T12:00:00Z";
            format!("expected a version: {forms}")
        }),
    }
}

/// A time, or a day, which means its beginning. UTC.
pub(super) fn parse_moment(text: &str) -> Result<SystemTime, String> {
    let micros = parse_time(text).or_else(|| parse_time(&format!("{text}T00:00:00Z")));
    let micros = micros.ok_or("expected a time such as 2026-01-31 or 2026-01-31T12:00:00Z")?;
    let span = Duration::from_micros(micros.unsigned_abs());
    let epoch = SystemTime::UNIX_EPOCH;
    let moment = if micros < 0 { epoch.checked_sub(span) } else { epoch.checked_add(span) };
    moment.ok_or_else(|| "this time is beyond what the system can count".to_owned())
}

/// Lengths of axes, `100,200`; empty for an array without axes.
pub(super) fn parse_shape(text: &str) -> Result<Vec<usize>, String> {
    let text = text.trim().trim_end_matches(',');
    if text.is_empty() {
        return Ok(Vec::new());
    }
    let len = |part: &str| part.trim().parse();
    text.split(',')
        .map(len)
        .collect::<Result<_, _>>()
        .map_err(|_| format!("expected lengths such as 100,200, found {text:?}"))
}

/// A shape as NumPy writes it: `(100, 200)`.
pub(super) fn shown(shape: &[usize]) -> String {
    match shape {
        [one] => format!("({one},)"),
        _ => {
            let lens: Vec<String> = shape.iter().map(usize::to_string).collect();
            format!("({})", lens.join(", "))
        }
    }
}

/// Opens a version for reading.
pub(super) fn open(path: &Path, at: At) -> Outcome<ChunkedArray> {
    ChunkedArray::open_at(path, at).map_err(|error| explain(path, error))
}

/// Opens an array for writing.
pub(super) fn open_store(path: &Path) -> Outcome<ArrayStore> {
    ArrayStore::open(path).map_err(|error| explain(path, error))
}

/// Adds hints about arrays: the general ones are about datasets.
fn explain(path: &Path, error: Error) -> Failure {
    if error.kind() == ErrorKind::NotFound && !path.exists() {
        return Failure::trouble(format_args!("{}: no such directory", path.display()));
    }
    let name = crate::exit::quoted(path);
    if path.is_file() && error.path().is_none_or(|at| at != path) {
        let expected = format!("{}: expected the directory of an array", path.display());
        let failure = |found| Failure::trouble(format_args!("{expected}, found {found}"));
        return match () {
            () if is_dataset(path) => {
                failure("a dataset").hint(format!("\"kiste info {name}\" says what is in it"))
            }
            () if Format::of(path).is_some() => failure("a file")
                .hint(format!("\"kiste array import {name} NAME\" makes an array of it")),
            () => failure("a file")
                .hint("\"kiste array import\" makes arrays of .npy, .npz and .blp files"),
        };
    }
    let error = error.at(path);
    let dir = path.join("meta/versions");
    let versions = dir.is_dir();
    let is_empty = || dir.read_dir().is_ok_and(|mut files| files.next().is_none());
    let hint = match error.kind() {
        // The path may be an input of the command.
        ErrorKind::Damaged if error.path().is_some_and(|at| !is_within(at, path)) => None,
        ErrorKind::Damaged => Some(format!("try: kiste array verify {name}")),
        ErrorKind::NotFound if versions && is_empty() => {
            Some(format!("nothing was committed to it; to create it again: rm -r {name}"))
        }
        ErrorKind::NotFound if versions => Some(format!("try: kiste array log {name}")),
        ErrorKind::NotFound if path.is_dir() => {
            Some(format!("if it is of bcolz: kiste array import {name} NAME --from bcolz"))
        }
        ErrorKind::Locked => Some("wait until the other program is done".to_owned()),
        _ => None,
    };
    let failure = Failure::from(error);
    match (failure, hint) {
        (Failure::Told { exit, message, .. }, hint) => Failure::Told { exit, message, hint },
        (other, _) => other,
    }
}

/// Whether a file is in this directory, which may be a link.
fn is_within(file: &Path, dir: &Path) -> bool {
    file.starts_with(dir) || dir.canonicalize().is_ok_and(|dir| file.starts_with(dir))
}

/// Adds these hints to errors while an array is read or written.
pub(super) trait Explained<T> {
    fn explained(self, path: &Path) -> Outcome<T>;
}

impl<T> Explained<T> for kiste::Result<T> {
    fn explained(self, path: &Path) -> Outcome<T> {
        self.map_err(|error| explain(path, error))
    }
}

/// Reports the new version on standard error.
pub(super) fn committed(output: &Output, path: &Path, version: &VersionInfo) {
    let shape: Vec<usize> = version.shape.iter().map(|len| *len as usize).collect();
    let number = version.number;
    output.note(format_args!("{}: version {number}, shape {}", path.display(), shown(&shape)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn brackets_hold_a_selection() {
        let target = Target::parse("a/x[0:10, ::2, -1, ...]").unwrap();
        assert_eq!(target.path, Path::new("a/x"));
        assert_eq!(target.selection, "0:10, ::2, -1, ...".parse().unwrap());
        let points = Target::parse("x[[3, 1], :]").unwrap();
        assert_eq!(points.selection, "[3, 1], :".parse().unwrap());
        let whole = |target: Target| target.selection == Selection::all();
        assert!(Target::parse("x").is_ok_and(whole) && Target::parse("x[]").is_ok_and(whole));
        for wrong in ["[1]", "x[a]", "x[1:2:3:4]", "x[[1]"] {
            assert!(Target::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn versions_are_numbers_steps_back_and_times() {
        assert_eq!(parse_at("5"), Ok(At::Version(5)));
        assert_eq!(parse_at("-2"), Ok(At::Back(2)));
        let second = SystemTime::UNIX_EPOCH + Duration::from_secs(1);
        assert_eq!(parse_at("1970-01-01T00:00:01Z"), Ok(At::Time(second)));
        assert_eq!(parse_at("1970-01-01"), Ok(At::Time(SystemTime::UNIX_EPOCH)));
        for wrong in ["", "x", "--1", "1.5", "1970-13-01"] {
            assert!(parse_at(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn shapes_are_lengths() {
        assert_eq!(parse_shape("100, 200"), Ok(vec![100, 200]));
        assert_eq!(parse_shape("3,"), Ok(vec![3]));
        assert_eq!(parse_shape(""), Ok(vec![]));
        assert!(parse_shape("3,-1").is_err() && parse_shape("a").is_err());
        assert_eq!([shown(&[]), shown(&[3]), shown(&[3, 4])], ["()", "(3,)", "(3, 4)"]);
    }
}
