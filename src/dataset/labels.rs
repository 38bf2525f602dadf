//! The names of the numeric labels of a dataset: one per line in the file `.labels`.

use std::io;
use std::path::{Path, PathBuf};

use super::files::DatasetFile;
use super::names::{first_file, names_shards};
use crate::error::{Error, ErrorKind, Result};
use crate::regular;
use crate::storage::{self, Storage};

/// The file with the names of the numeric labels of a dataset, one per line: `NAME.labels`.
pub fn labels_path(dataset: &Path) -> PathBuf {
    DatasetFile::Labels.path(dataset)
}

/// The names of the numeric labels of a dataset, or of one at a URL, if their file is there; of a dataset of
/// many files the labels of its first shard.
///
/// # Errors
///
/// [`Damaged`](ErrorKind::Damaged) if they are not UTF-8.
pub fn read_labels(dataset: &Path) -> Result<Option<Vec<String>>> {
    if storage::is_url(dataset) || names_shards(dataset) {
        let (storage, dataset) = storage::of(dataset)?;
        let Some(first) = first_file(&*storage, &dataset)? else { return Ok(None) };
        return read_labels_from(&*storage, &first);
    }
    let path = labels_path(dataset);
    match regular::read(&path) {
        Ok(content) => parse(content).map(Some).map_err(|error| error.at(path)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::io(path, error)),
    }
}

/// The same from any storage.
pub(super) fn read_labels_from(
    storage: &dyn Storage,
    dataset: &Path,
) -> Result<Option<Vec<String>>> {
    let path = labels_path(dataset);
    let Some(file) = storage.open_if_exists(&path)? else { return Ok(None) };
    let content = file.read(0..file.len())?.into_owned();
    parse(content).map(Some).map_err(|error| error.at(path))
}

/// The content of the file for these names, starting with the name of label 0.
///
/// # Errors
///
/// [`Invalid`](ErrorKind::Invalid) for a name with a line end.
pub(super) fn render<S: AsRef<str>>(names: &[S]) -> Result<String> {
    let mut text = String::new();
    for name in names.iter().map(AsRef::as_ref) {
        if name.contains(['\n', '\r']) {
            let message = format!("expected labels of one line each, found {name:?}");
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        text.push_str(name);
        text.push('\n');
    }
    Ok(text)
}

/// The names in the content of the file.
///
/// # Errors
///
/// [`Damaged`](ErrorKind::Damaged) if they are not UTF-8.
pub(super) fn parse(content: Vec<u8>) -> Result<Vec<String>> {
    match String::from_utf8(content) {
        Ok(text) => Ok(text.lines().map(str::to_owned).collect()),
        Err(_) => {
            let message = "expected one label a line in UTF-8, found other bytes";
            Err(Error::new(ErrorKind::Damaged, message))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_rendered_is_parsed() {
        let names = ["cat", "", "a dog"];
        assert_eq!(parse(render(&names).unwrap().into_bytes()).unwrap(), names);
        assert_eq!(render(&["a\nb"]).unwrap_err().kind(), ErrorKind::Invalid);
        assert_eq!(parse(vec![0xff]).unwrap_err().kind(), ErrorKind::Damaged);
    }
}
