//! Arguments: an array, a part of it, a version, a shape.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use kiste::array::{ArrayFormat, ArrayStore, At, ChunkedArray, NpyRows, Selection, VersionInfo};
use kiste::{Error, ErrorKind};

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

/// A time, or a day, which means its beginning. UTC.
pub(super) fn parse_moment(text: &str) -> Result<SystemTime, String> {
    match text.parse() {
        Ok(At::Time(time)) => Ok(time),
        _ => Err("expected a time such as 2026-01-31 or 2026-01-31T12:00:00Z".to_owned()),
    }
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

/// The array of a .npy file; `-` is standard input.
pub(super) fn open_npy(path: &Path) -> Outcome<NpyRows<'static>> {
    Ok(match path == Path::new("-") {
        true => NpyRows::from_reader("standard input", std::io::stdin())?,
        false => NpyRows::open(path)?,
    })
}

/// Opens an array for writing.
pub(super) fn open_store(path: &Path) -> Outcome<ArrayStore> {
    ArrayStore::open(path).map_err(|error| explain(path, error))
}

/// A failure of writing elements: to standard output, if it names no file.
pub(super) fn explain_written(path: &Path, error: Error) -> Failure {
    match (error.path(), error.io_kind()) {
        (None, Some(kind)) => std::io::Error::from(kind).into(),
        _ => explain(path, error),
    }
}

/// Adds hints about arrays: the general ones are about datasets.
pub(super) fn explain(path: &Path, error: Error) -> Failure {
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
            () if ArrayFormat::of_path(path).is_some() => failure("a file")
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
    fn shapes_are_lengths() {
        assert_eq!(parse_shape("100, 200"), Ok(vec![100, 200]));
        assert_eq!(parse_shape("3,"), Ok(vec![3]));
        assert_eq!(parse_shape(""), Ok(vec![]));
        assert!(parse_shape("3,-1").is_err() && parse_shape("a").is_err());
        assert_eq!([shown(&[]), shown(&[3]), shown(&[3, 4])], ["()", "(3,)", "(3, 4)"]);
    }
}
