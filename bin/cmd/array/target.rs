//! Arrays that are named on the command line: opened, and errors about them explained.

use std::path::Path;

use kiste::array::{ArrayFormat, ArrayPlace, ArrayStore, At, ChunkedArray, NpyRows, VersionInfo};
use kiste::dataset::is_dataset;
use kiste::storage::Shown;
use kiste::text;
use kiste::{Error, ErrorKind};

use crate::exit::{Failure, Outcome, quoted};
use crate::output::Output;

/// The version that is read.
#[derive(Debug, clap::Args)]
pub(super) struct Moment {
    /// Version: a number, -1 for the one before the newest, or a time in UTC
    #[arg(long, value_name = "V", allow_hyphen_values = true)]
    at: Option<At>,
}

impl Moment {
    /// Opens this version of an array.
    pub(super) fn open(&self, path: &Path) -> Outcome<ChunkedArray> {
        open(path, self.at.unwrap_or_default())
    }

    pub(super) fn is_given(&self) -> bool {
        self.at.is_some()
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
    if [Some(path), error.path()].into_iter().flatten().any(kiste::storage::is_url) {
        return error.into();
    }
    let (shown, name, place) = (Shown::of(&path), quoted(path), ArrayPlace::of(path));
    if error.kind() == ErrorKind::NotFound && place == ArrayPlace::Nothing {
        return Failure::trouble(format_args!("{shown}: no such directory"));
    }
    if error.path().is_none_or(|at| at != path) {
        let (found, hint) = match place {
            ArrayPlace::Exchange(_) | ArrayPlace::File if is_dataset(path) => {
                ("a dataset", format!("\"kiste info {name}\" describes it"))
            }
            ArrayPlace::Exchange(format) => ("a file", exchange_hint(format, &name)),
            ArrayPlace::File => {
                let hint = "\"kiste array import\" makes arrays of .npy, .npz and .blp files";
                ("a file", hint.to_owned())
            }
            _ => ("", String::new()),
        };
        if !found.is_empty() {
            let expected = "expected the directory of an array";
            return Failure::trouble(format_args!("{shown}: {expected}, found {found}")).hint(hint);
        }
    }
    let error = error.at(path);
    let hint = match (error.kind(), place) {
        // The path may be an input of the command.
        (ErrorKind::Damaged, _) if error.path().is_some_and(|at| !is_within(at, path)) => None,
        (ErrorKind::Damaged, ArrayPlace::Array) => Some(format!("try: kiste array verify {name}")),
        (ErrorKind::NotFound, ArrayPlace::Uncommitted) => {
            Some(format!("nothing was committed to it; to create it again: rm -r {name}"))
        }
        (ErrorKind::NotFound, ArrayPlace::Array) => Some(format!("try: kiste array log {name}")),
        (ErrorKind::NotFound, ArrayPlace::Directory) => {
            Some(format!("if it is of bcolz: kiste array import {name} NAME --from bcolz"))
        }
        (ErrorKind::Locked, _) => Some("wait until the other program is done".to_owned()),
        _ => None,
    };
    let failure = Failure::from(error).without_hint();
    match hint {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}

/// The hint for a file where an array is expected.
fn exchange_hint(format: ArrayFormat, name: &str) -> String {
    match format {
        ArrayFormat::Blp => format!(
            "\"kiste array import {name} NAME\" makes an array of it, \"kiste blpk info --verify {name}\" \
             checks it"
        ),
        _ => format!("\"kiste array import {name} NAME\" makes an array of it"),
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
    output.note(format_args!(
        "{}: version {number}, shape {}",
        Shown::of(&path),
        text::shape(&shape)
    ));
}
