//! [`Layout`]: the files of the sources, and how folders divide them.
//!
//! `folder` finds what a folder holds, `placed` gives samples what the names of folders say about them. Absent on
//! purpose: splits inside a source, such as the folders of images and the arrays of an npz, which the formats know.

mod folder;
mod placed;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use self::folder::Contents;
pub(super) use self::placed::{PathValues, Placed};

/// Whether the names of folders have values.
pub(super) fn has_values(path: &Path) -> bool {
    let folder = path.parent().unwrap_or(Path::new(""));
    folder.components().any(placed::has_value)
}
use super::carried::{LeftOut, RemarkLog};
use super::file_names::KeyNames;
use super::format::{self, Format};
use super::formats::image_folder::is_pattern;
use super::{natural_order, split_names};
use crate::error::{Error, ErrorKind, Remedy, Result};
use crate::storage;

/// Sources in groups that are read one after the other.
pub(super) struct Layout {
    pub(super) format: Format,
    pub(super) groups: Vec<Group>,
    /// The folder that all sources are in: what is below it says something about them.
    pub(super) root: PathBuf,
    /// What was noted about the folders.
    pub(super) remarks: RemarkLog,
}

/// Sources of one split, or all.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Group {
    pub(super) split: Option<String>,
    pub(super) paths: Vec<PathBuf>,
    /// The text that comes before keys, where two groups could have the same.
    pub(super) prefix: Option<String>,
}

/// A source as it was named, or a file of a folder.
struct File {
    path: PathBuf,
    /// Its format, where the folder shows it.
    format: Option<Format>,
    /// Its split, if a folder has it.
    split: Option<String>,
}

impl Layout {
    /// The files of these sources, which are of this format if one was given.
    pub(super) fn of(paths: &[PathBuf], from: Option<Format>) -> Result<Layout> {
        let (mut files, remarks) = (Vec::new(), RemarkLog::default());
        let (mut lists_splits, mut is_divided) = (false, false);
        let root = shared_folder(paths);
        for path in paths {
            let is_folder = !storage::is_url(path) && path.is_dir();
            let contents = match is_folder && from.is_none_or(Format::is_in_folders) {
                true => folder::contents(path, from, &remarks)?,
                false => Contents::Unread,
            };
            match contents {
                Contents::Files { found, lists_splits: lists } => {
                    lists_splits |= lists;
                    let splits = found.iter().filter_map(|file| file.split.as_deref());
                    is_divided |= lists || split_names::divide(splits);
                    files.extend(found.into_iter().map(|found| File {
                        split: found.split,
                        format: Some(found.format),
                        path: found.path,
                    }));
                }
                Contents::Images => files.push(File::named(path, Some(Format::Images))),
                Contents::Unread => {
                    if is_folder && from == Some(Format::Images) {
                        folder::note_tables(path, &remarks)?;
                    }
                    files.push(File::named(path, None));
                }
            }
        }
        let format = match from {
            Some(format) => format,
            None => format_of(&files)?,
        };
        if format.is_in_folders() && root.components().any(placed::has_value) {
            let place = || storage::shown(&root).display().to_string();
            remarks.note(0, LeftOut::PathValue, None, 1, place);
        }
        let groups = match is_divided {
            true => divided(files, &root, lists_splits)?,
            false => {
                note_mixed(&files, &root, &remarks);
                let paths: Vec<PathBuf> = files.into_iter().map(|file| file.path).collect();
                let are_patterns = paths.iter().any(|path| is_pattern(path));
                match format == Format::Images && paths.len() > 1 && !are_patterns {
                    true => one_by_one(paths)?,
                    false => vec![Group::of(paths)],
                }
            }
        };
        Ok(Layout { format, groups, root, remarks })
    }
}

impl Group {
    fn of(paths: Vec<PathBuf>) -> Group {
        Group { split: None, paths, prefix: None }
    }
}

/// Folders of images, whose keys begin with their names.
fn one_by_one(paths: Vec<PathBuf>) -> Result<Vec<Group>> {
    // `.` and `..` are no names.
    let full = |path: &PathBuf| path.canonicalize().unwrap_or_else(|_| path.clone());
    let names = KeyNames::of(&paths.iter().map(full).collect::<Vec<_>>());
    let group = |(at, path): (usize, PathBuf)| {
        let prefix = Some(names.name(at, &path)?.to_owned());
        Ok(Group { split: None, paths: vec![path], prefix })
    };
    paths.into_iter().enumerate().map(group).collect()
}

impl File {
    fn named(path: &Path, format: Option<Format>) -> File {
        File { path: path.to_path_buf(), format, split: None }
    }
}

/// The one format of all files.
fn format_of(files: &[File]) -> Result<Format> {
    let mut known: Option<(Format, &Path)> = None;
    for file in files {
        let found = file.format.map_or_else(|| format::detect(&file.path), Ok)?;
        match known {
            Some((first, at)) if first != found => {
                let (at, path) = (at.display(), file.path.display());
                let message = format!("{at} is {first}, but {path} is {found}");
                return Err(
                    Error::new(ErrorKind::Invalid, message).advise("convert one after the other")
                );
            }
            _ => known = Some((found, &file.path)),
        }
    }
    let none = || Error::new(ErrorKind::Invalid, "expected something to read");
    known.map(|(format, _)| format).ok_or_else(none)
}

/// A group for each split, as a folder has several: each file must be of one. If folders list them, any names will do.
fn divided(mut files: Vec<File>, root: &Path, lists_splits: bool) -> Result<Vec<Group>> {
    for file in &mut files {
        if file.split.is_none() && !lists_splits {
            file.split = split_of(&file.path, root);
        }
    }
    let names: BTreeSet<&str> = files.iter().filter_map(|file| file.split.as_deref()).collect();
    if let Some(file) = files.iter().find(|file| file.split.is_none()) {
        let names: Vec<&str> = names.into_iter().collect();
        let message =
            format!("expected a file of one of the splits {}, found another", names.join(", "));
        return Err(Error::new(ErrorKind::Invalid, message)
            .at(&file.path)
            .with_remedy(Remedy::Advice("name the files to read in place of their folder")));
    }
    let mut groups: BTreeMap<Option<String>, Vec<PathBuf>> = BTreeMap::new();
    for file in files {
        groups.entry(file.split).or_default().push(file.path);
    }
    let group = |(split, paths)| Group { split, paths, prefix: None };
    let mut groups: Vec<Group> = groups.into_iter().map(group).collect();
    let name = |group: &Group| group.split.clone().unwrap_or_default();
    groups.sort_by(|a, b| natural_order(&name(a), &name(b)));
    Ok(groups)
}

/// The folder that all of these are in, as they are named; of one folder that one.
fn shared_folder(paths: &[PathBuf]) -> PathBuf {
    let folder = |path: &PathBuf| match storage::is_url(path) || !path.is_dir() {
        true => path.parent().unwrap_or(Path::new("")).to_path_buf(),
        false => path.clone(),
    };
    let mut folders = paths.iter().map(folder);
    let first = folders.next().unwrap_or_default();
    folders.fold(first, |shared, other| {
        let pairs = shared.components().zip(other.components());
        pairs.take_while(|(a, b)| a == b).map(|(part, _)| part).collect()
    })
}

/// The split of a file by its path below this folder.
fn split_of(path: &Path, root: &Path) -> Option<String> {
    let below = path.strip_prefix(root).unwrap_or(path);
    split_names::of_path(below.to_str()?).map(str::to_owned)
}

/// Notes that files of several splits were named, which are read as one.
fn note_mixed(files: &[File], root: &Path, remarks: &RemarkLog) {
    let splits: Vec<Option<String>> = files.iter().map(|file| split_of(&file.path, root)).collect();
    let names: BTreeSet<&str> = splits.iter().flatten().map(String::as_str).collect();
    if split_names::divide(names.iter().copied()) {
        let first = splits.iter().position(Option::is_some).unwrap_or_default();
        let place = || storage::shown(&files[first].path).display().to_string();
        remarks.note(0, LeftOut::MixedSplits, None, names.len() as u64, place);
    }
}
