//! [`Layout`]: the files of the sources, and how folders divide them.
//!
//! `folder` finds what a folder holds, `placed` gives samples what the names of folders say about them. Absent on
//! purpose: splits inside a source, such as the folders of images and the arrays of an npz, which the formats know.

mod folder;
mod placed;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use self::folder::Contents;
pub(super) use self::placed::Placed;
use super::carried::{LeftOut, RemarkLog};
use super::file_names::KeyNames;
use super::format::{self, Format};
use super::formats::image_folder::is_pattern;
use super::split_names;
use crate::error::{Error, ErrorKind, Remedy, Result};
use crate::storage;

/// Sources in groups that are read one after the other.
pub(super) struct Layout {
    pub(super) format: Format,
    pub(super) groups: Vec<Group>,
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
    is_found: bool,
}

impl Layout {
    /// The files of these sources, which are of this format if one was given.
    pub(super) fn of(paths: &[PathBuf], from: Option<Format>) -> Result<Layout> {
        let (mut files, remarks) = (Vec::new(), RemarkLog::default());
        let mut lists_splits = false;
        for path in paths {
            let is_folder = !storage::is_url(path) && path.is_dir();
            let contents = match is_folder && from.is_none_or(Format::is_in_folders) {
                true => folder::contents(path, from, &remarks)?,
                false => Contents::Unread,
            };
            match contents {
                Contents::Files { found, lists_splits: lists } => {
                    lists_splits |= lists;
                    files.extend(found.into_iter().map(|found| File {
                        split: found.split,
                        format: Some(found.format),
                        path: found.path,
                        is_found: true,
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
        let groups = match files.iter().all(|file| file.is_found) {
            true => divided(files, lists_splits)?,
            false => {
                note_mixed(&files, &remarks);
                let paths: Vec<PathBuf> = files.into_iter().map(|file| file.path).collect();
                let are_patterns = paths.iter().any(|path| is_pattern(path));
                match format == Format::Images && paths.len() > 1 && !are_patterns {
                    true => one_by_one(paths)?,
                    false => vec![Group::of(paths)],
                }
            }
        };
        Ok(Layout { format, groups, remarks })
    }
}

impl Group {
    fn of(paths: Vec<PathBuf>) -> Group {
        Group { split: None, paths, prefix: None }
    }
}

/// Folders of images, whose keys begin with their names.
fn one_by_one(paths: Vec<PathBuf>) -> Result<Vec<Group>> {
    let names = KeyNames::of(&paths);
    let group = |(at, path): (usize, PathBuf)| {
        let prefix = Some(names.name(at, &path)?.to_owned());
        Ok(Group { split: None, paths: vec![path], prefix })
    };
    paths.into_iter().enumerate().map(group).collect()
}

impl File {
    fn named(path: &Path, format: Option<Format>) -> File {
        File { path: path.to_path_buf(), format, split: None, is_found: false }
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

/// A group for each split, if folders have several. If they list them, any names will do.
fn divided(files: Vec<File>, lists_splits: bool) -> Result<Vec<Group>> {
    let names: BTreeSet<&str> = files.iter().filter_map(|file| file.split.as_deref()).collect();
    if !lists_splits && !split_names::divide(names.iter().copied()) {
        let paths = files.into_iter().map(|file| file.path).collect();
        return Ok(vec![Group::of(paths)]);
    }
    if let Some(file) = files.iter().find(|file| file.split.is_none()) {
        let names: Vec<&str> = names.into_iter().collect();
        let message =
            format!("expected a file of one of the splits {}, found another", names.join(", "));
        return Err(Error::new(ErrorKind::Invalid, message)
            .at(&file.path)
            .with_remedy(Remedy::Advice("name the files to read in place of their folder")));
    }
    let mut groups: Vec<Group> = Vec::new();
    for file in files {
        match groups.iter_mut().find(|group| group.split == file.split) {
            Some(group) => group.paths.push(file.path),
            None => groups.push(Group { split: file.split, paths: vec![file.path], prefix: None }),
        }
    }
    Ok(groups)
}

/// Notes that files of several splits were named, which are read as one.
fn note_mixed(files: &[File], remarks: &RemarkLog) {
    if files.len() < 2 {
        return;
    }
    // Folders that all are in say nothing, such as `/dev/shm`.
    let folders = |file: &File| file.path.parent().map_or(0, |dir| dir.components().count());
    let is_shared = |depth: &usize| {
        let folder = |file: &File| {
            file.path.components().nth(*depth).map(|part| part.as_os_str().to_owned())
        };
        files.iter().all(|file| *depth < folders(file) && folder(file) == folder(&files[0]))
    };
    let shared = (0..).take_while(is_shared).count();
    let split_of = |file: &File| {
        let below: PathBuf = file.path.components().skip(shared).collect();
        split_names::of_path(below.to_str()?).map(str::to_owned)
    };
    let splits: Vec<Option<String>> = files.iter().map(split_of).collect();
    let names: BTreeSet<&str> = splits.iter().flatten().map(String::as_str).collect();
    if split_names::divide(names.iter().copied()) {
        let first = splits.iter().position(Option::is_some).unwrap_or_default();
        let place = || storage::shown(&files[first].path).display().to_string();
        remarks.note(0, LeftOut::MixedSplits, None, names.len() as u64, place);
    }
}
