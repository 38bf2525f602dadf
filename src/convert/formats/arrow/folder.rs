//! Which files of a folder are a table.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fs;
use std::io::{ErrorKind as IoErrorKind, Read};
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::is_leftover;
use crate::convert::carried::{LeftOut, RemarkLog};
use crate::error::{Error, ErrorKind, Result};
use crate::natural::natural_order;
use crate::regular::open_regular;
use crate::storage::{self, Confined};

/// Where `save_to_disk` of Hugging Face `datasets` notes which files are the data.
const STATE: &str = "state.json";
/// The most bytes of it: enough for some hundred thousand files.
const MAX_STATE: u64 = 64 << 20;

/// The notes of `save_to_disk`.
#[derive(Deserialize)]
struct State {
    #[serde(rename = "_data_files")]
    data: Option<Vec<Named>>,
    /// The numbers of the rows, in their order, if these are not all rows of the files.
    #[serde(rename = "_indices_files", alias = "_indices_data_files")]
    indices: Option<Vec<Named>>,
}

#[derive(Deserialize)]
struct Named {
    filename: String,
}

impl State {
    /// The notes in this folder.
    fn of(folder: &Path) -> Result<Option<State>> {
        let path = folder.join(STATE);
        let at = |error| Error::io(&path, error);
        let file = match open_regular(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == IoErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(at(error)),
        };
        let mut json = Vec::new();
        file.take(MAX_STATE).read_to_end(&mut json).map_err(at)?;
        let state: State = serde_json::from_slice(&json).map_err(|error| {
            let message = format!("expected the state of a saved dataset, found others: {error}");
            Error::new(ErrorKind::Damaged, message).at(&path)
        })?;
        if let Some(indices) = state.indices.as_ref().and_then(|files| files.first()) {
            let message = format!(
                "the dataset is the rows of its files that {:?} lists, in that order, and this is \
                 not applied",
                indices.filename
            );
            return Err(Error::new(ErrorKind::Unsupported, message)
                .at(&path)
                .advise("save it again after flatten_indices(), which puts the rows in order"));
        }
        Ok(Some(state))
    }

    /// The files of the data, which are in the folder unless they may be `outside`.
    fn files(&self, folder: &Path, outside: bool) -> Result<Option<Vec<PathBuf>>> {
        let Some(data) = &self.data else { return Ok(None) };
        let state = folder.join(STATE);
        let place = Confined::to(folder).named_in(&state).allow_outside(outside);
        let file = |Named { filename }: &Named| match place.path(filename) {
            Ok(_) => Ok(place.join(filename)),
            Err(error) => Err(error.within(format_args!("file {filename:?}")).shown_at(&state)),
        };
        data.iter().map(file).collect::<Result<_>>().map(Some)
    }
}

fn name_of(path: &Path) -> Cow<'_, str> {
    path.file_name().unwrap_or_default().to_string_lossy()
}

/// Replaces each folder by its files with this ending, in natural order. What a folder does not name as
/// its data is left out and noted; what it names is in it unless it may be `outside`.
pub(in crate::convert) fn expand_folders(
    paths: Vec<PathBuf>,
    ending: &str,
    outside: bool,
    remarks: &RemarkLog,
) -> Result<Vec<PathBuf>> {
    let leave_out = |path: &Path| {
        remarks.note(0, LeftOut::UnlistedFile, None, 1, || path.display().to_string());
    };
    let mut files = Vec::new();
    let mut saved: HashMap<PathBuf, bool> = HashMap::new();
    // All files of a folder may have been named one by one; one alone is meant.
    let (several, mut left_out) = (paths.len() > 1, Vec::new());
    for path in paths {
        if path.is_dir() {
            files.append(&mut files_of(&path, ending, outside, &leave_out)?);
        } else if is_saved(&path, &mut saved)? && several && is_leftover(&name_of(&path)) {
            left_out.push(path);
        } else {
            files.push(path);
        }
    }
    match files.is_empty() {
        true => Ok(left_out),
        false => {
            left_out.iter().for_each(|path| leave_out(path));
            Ok(files)
        }
    }
}

/// Whether a file is in the folder of a saved dataset.
fn is_saved(path: &Path, known: &mut HashMap<PathBuf, bool>) -> Result<bool> {
    if storage::is_url(path) {
        return Ok(false);
    }
    let folder = path.parent().unwrap_or(Path::new(""));
    if let Some(&is_saved) = known.get(folder) {
        return Ok(is_saved);
    }
    let is_saved = State::of(folder)?.is_some();
    known.insert(folder.to_path_buf(), is_saved);
    Ok(is_saved)
}

fn files_of(
    folder: &Path,
    ending: &str,
    outside: bool,
    leave_out: &dyn Fn(&Path),
) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).map_err(|error| Error::io(folder, error))? {
        let file = entry.map_err(|error| Error::io(folder, error))?.path();
        if file.extension().is_some_and(|extension| extension == ending) && file.is_file() {
            found.push(file);
        }
    }
    found.sort_by(|a, b| natural_order(&a.to_string_lossy(), &b.to_string_lossy()));
    let listed = match State::of(folder)? {
        Some(state) if ending == "arrow" => state.files(folder, outside)?,
        _ => None,
    };
    let is_data = |path: &PathBuf| match &listed {
        Some(listed) => listed.contains(path),
        None => !is_leftover(&name_of(path)),
    };
    let (data, others): (Vec<PathBuf>, Vec<PathBuf>) = found.into_iter().partition(is_data);
    let data = listed.unwrap_or(data);
    if data.is_empty() {
        let message = format!("expected files named .{ending} in the folder, found none");
        return Err(Error::new(ErrorKind::Invalid, message).at(folder));
    }
    others.iter().for_each(|path| leave_out(path));
    Ok(data)
}
