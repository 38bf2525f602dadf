//! What a folder holds, by the names of its files: images, files of one other format, or folders with an index.

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::convert::carried::{LeftOut, RemarkLog};
use crate::convert::file_names::{Media, is_about};
use crate::convert::format::{self, Format};
use crate::convert::formats::image_folder::is_metadata;
use crate::convert::split_names;
use crate::error::{Error, ErrorKind, Remedy, Result};
use crate::format::dataset::SideFile;
use crate::format::dataset::shards::is_manifest;
use crate::natural::natural_order;
use crate::reader::links::Links;
use crate::regular::open_regular;

/// The contents of a folder.
pub(super) enum Contents {
    /// Files of one format, in natural order.
    Files {
        found: Vec<Found>,
        /// Whether the folder lists its splits, however they are called.
        lists_splits: bool,
    },
    /// Images, in folders of their own perhaps.
    Images,
    /// The folder is read by its format as it is.
    Unread,
}

/// A file, or a folder that its format reads as a whole.
pub(super) struct Found {
    pub(super) path: PathBuf,
    pub(super) format: Format,
    pub(super) split: Option<String>,
}

/// Where Hugging Face `datasets` lists the splits of a saved dataset, which has a folder for each.
const DATASET_DICT: &str = "dataset_dict.json";
/// Where it notes the files of one.
const STATE: &str = "state.json";
/// The most bytes of the list.
const MAX_LIST: u64 = 1 << 20;

#[derive(Deserialize)]
struct DatasetDict {
    splits: Vec<String>,
}

/// The names of the splits that a folder lists.
fn listed(folder: &Path) -> Result<Option<Vec<String>>> {
    let path = folder.join(DATASET_DICT);
    if !path.is_file() {
        return Ok(None);
    }
    let at = |error| Error::io(&path, error);
    let mut json = Vec::new();
    open_regular(&path).map_err(at)?.take(MAX_LIST).read_to_end(&mut json).map_err(at)?;
    let list: DatasetDict = serde_json::from_slice(&json).map_err(|error| {
        let message = format!("expected the names of splits, found something else: {error}");
        Error::new(ErrorKind::Damaged, message).at(&path)
    })?;
    Ok(Some(list.splits))
}

/// The way through a folder.
struct Walk<'a> {
    from: Option<Format>,
    /// Files with their paths below the folder.
    found: Vec<(String, PathBuf, Format)>,
    /// Files of no format.
    others: Vec<PathBuf>,
    has_image: bool,
    listed: &'a [String],
    /// Where links lead that were followed: each folder is read once.
    targets: HashSet<PathBuf>,
}

/// What this folder holds: only files of this format, if one was given. Others are noted.
pub(super) fn contents(root: &Path, from: Option<Format>, remarks: &RemarkLog) -> Result<Contents> {
    if format::of_index(root).is_some_and(|format| from.is_none_or(|from| from == format)) {
        return Ok(Contents::Unread);
    }
    let listed = listed(root)?;
    let mut walk = Walk {
        from,
        found: Vec::new(),
        others: Vec::new(),
        has_image: false,
        listed: listed.as_deref().unwrap_or_default(),
        targets: HashSet::new(),
    };
    walk.folder(root, "", &mut Links::default())?;
    let Walk { mut found, others, has_image, .. } = walk;
    if has_image && from.is_none() {
        return with_images(root, &found, remarks);
    }
    if let Some(missing) = listed.iter().flatten().find(|split| {
        let is_of =
            |(below, ..): &(String, PathBuf, Format)| below.split('/').next() == Some(split);
        !found.iter().any(is_of)
    }) {
        let message = format!("lists a split {missing:?}, but the folder has no files of it");
        return Err(Error::new(ErrorKind::Damaged, message).at(root.join(DATASET_DICT)));
    }
    if found.is_empty() {
        return match from {
            // These say themselves what they miss.
            Some(Format::Mds | Format::Parquet | Format::Arrow) => Ok(Contents::Unread),
            Some(format) => {
                let message = format!("expected files of {format} in the folder, found none");
                Err(Error::new(ErrorKind::Invalid, message).at(root))
            }
            None => Ok(Contents::Images),
        };
    }
    if from.is_none() {
        check_one_format(root, &found)?;
    }
    let place = || others[0].display().to_string();
    remarks.note(0, LeftOut::OtherFile, None, others.len() as u64, place);
    found.sort_by(|(a, ..), (b, ..)| natural_order(a, b));
    let files = found.into_iter().map(|(below, path, format)| {
        let split = match &listed {
            Some(_) => below.split('/').next(),
            None => split_names::of_path(&below),
        };
        Found { split: split.map(str::to_owned), path, format }
    });
    Ok(Contents::Files { found: files.collect(), lists_splits: listed.is_some() })
}

/// Images, unless there are shards next to them as well.
fn with_images(
    root: &Path,
    found: &[(String, PathBuf, Format)],
    remarks: &RemarkLog,
) -> Result<Contents> {
    if let Some((_, shard, format)) = found.iter().find(|(.., format)| !is_table(*format)) {
        let message = format!("holds images, and files of {format} such as {}", shard.display());
        let formats = vec!["images", format.name()];
        return Err(Error::new(ErrorKind::Invalid, message)
            .at(root)
            .with_remedy(Remedy::NameInput(formats)));
    }
    note_tables(root, remarks)?;
    Ok(Contents::Images)
}

fn is_table(format: Format) -> bool {
    matches!(format, Format::Jsonl | Format::Csv | Format::Tsv)
}

/// Notes tables next to images, except those that are known to say something about them.
pub(super) fn note_tables(root: &Path, remarks: &RemarkLog) -> Result<()> {
    let at = |error| Error::io(root, error);
    let mut tables = Vec::new();
    for entry in fs::read_dir(root).map_err(at)? {
        let path = entry.map_err(at)?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
        let format = format::in_folder(&name, &path).filter(|_| !is_metadata(&name));
        if format.is_some_and(is_table) && !name.starts_with('.') {
            tables.push(path);
        }
    }
    let first = || tables.iter().min().map_or_else(String::new, |path| path.display().to_string());
    remarks.note(0, LeftOut::OtherFile, None, tables.len() as u64, first);
    Ok(())
}

/// Fails for files of several formats.
fn check_one_format(root: &Path, found: &[(String, PathBuf, Format)]) -> Result<()> {
    let mut formats: BTreeMap<&str, (u64, &Path)> = BTreeMap::new();
    for (_, path, format) in found {
        formats.entry(format.name()).or_insert((0, path)).0 += 1;
    }
    if formats.len() == 1 {
        return Ok(());
    }
    let each = formats.iter().map(|(name, (count, first))| {
        let more = if *count > 1 { " and others" } else { "" };
        format!("{name} ({}{more})", first.display())
    });
    let message =
        format!("expected files of one format, found {}", each.collect::<Vec<_>>().join(", "));
    let names = formats.into_keys().collect();
    Err(Error::new(ErrorKind::Invalid, message).at(root).with_remedy(Remedy::NameInput(names)))
}

impl Walk<'_> {
    /// Looks at a folder whose path below the root is this, with a slash at its end. Stops at the first image that is
    /// not in the root.
    fn folder(&mut self, dir: &Path, below: &str, links: &mut Links) -> Result<()> {
        let at = |error| Error::io(dir, error);
        let (mut folders, mut names) = (Vec::new(), Vec::new());
        for entry in fs::read_dir(dir).map_err(at)? {
            let entry = entry.map_err(at)?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if name.starts_with('.') {
                continue;
            }
            let kind = entry.file_type().map_err(at)?;
            let is_dir = if kind.is_symlink() { entry.path().is_dir() } else { kind.is_dir() };
            if is_dir {
                folders.push((name, entry.path()))
            } else {
                names.push((name, entry.path()))
            }
        }
        if names.iter().any(|(name, _)| name == STATE) && self.takes(Format::Arrow) {
            let saved = names.iter().any(|(name, _)| name.ends_with(".arrow"));
            if saved {
                let below = format!("{below}{STATE}");
                self.found.push((below, dir.to_path_buf(), Format::Arrow));
                return Ok(());
            }
        }
        if !below.is_empty() && names.iter().any(|(name, _)| name == DATASET_DICT) {
            let message = "has splits of its own, which are not read with other folders";
            return Err(Error::new(ErrorKind::Invalid, message)
                .at(dir)
                .advise("name this folder in place of the one that it is in"));
        }
        if below.is_empty() && !self.listed.is_empty() {
            // Only folders are splits.
            let is_other = |(name, _): &(String, PathBuf)| !is_description(name);
            let files = names.drain(..).filter(is_other);
            self.others.extend(files.map(|(_, path)| path));
        }
        for (name, path) in names {
            self.file(&name, format!("{below}{name}"), path)?;
        }
        folders.sort_by(|(a, _), (b, _)| natural_order(a, b));
        for (name, path) in folders {
            if self.has_image && self.from.is_none() {
                return Ok(());
            }
            if name == "_delta_log" {
                let message = "a Delta table: its log says which of its files are current, and kiste \
                               does not read that";
                return Err(Error::new(ErrorKind::Unsupported, message)
                    .at(dir)
                    .advise("write its rows to files of their own first"));
            }
            let is_listed = !below.is_empty() || self.listed.is_empty();
            if !is_listed && !self.listed.contains(&name) {
                self.others.push(path);
                continue;
            }
            // What Spark has not finished, and where links lead that was read before.
            let is_again = path.is_symlink()
                && path.canonicalize().is_ok_and(|target| !self.targets.insert(target));
            if name.starts_with('_') || is_again {
                self.others.push(path);
                continue;
            }
            let below = format!("{below}{name}");
            match format::of_index(&path).filter(|format| self.takes(*format)) {
                Some(format) => self.found.push((below, path, format)),
                None => links.enter(&path, |links| self.folder(&path, &(below + "/"), links))?,
            }
        }
        Ok(())
    }

    fn file(&mut self, name: &str, below: String, path: PathBuf) -> Result<()> {
        self.has_image |= Media::of(name).is_some_and(|media| media != Media::Text);
        if is_description(name) {
            return Ok(());
        }
        match format::in_folder(&name.to_lowercase(), &path).filter(|format| self.takes(*format)) {
            Some(Format::Mds) => {
                let dir = path.parent().unwrap_or(Path::new(""));
                // An index that cannot be read says why.
                (Format::Mds.def().index)(dir).transpose()?;
                let message =
                    "expected an index.json next to it, as shards of MDS have, found none";
                return Err(Error::new(ErrorKind::Invalid, message).at(path));
            }
            Some(_) if name.starts_with('_') => self.others.push(path),
            _ if is_manifest(name) && self.takes(Format::Dataset) => {
                let message = "lists the shards of a dataset, so the folder is not read";
                return Err(Error::new(ErrorKind::Invalid, message)
                    .at(path)
                    .advise("name this file in place of its folder"));
            }
            Some(format) => self.found.push((below, path, format)),
            // Spark and others leave files that begin so; the others describe a dataset.
            None if name.starts_with('_') => {}
            None if SideFile::of(&path).is_some() => {}
            None => self.others.push(path),
        }
        Ok(())
    }

    fn takes(&self, format: Format) -> bool {
        self.from.is_none_or(|from| from == format)
    }
}

/// Whether a file says something about data and has none.
fn is_description(name: &str) -> bool {
    let known = [DATASET_DICT, STATE, "dataset_info.json", "dataset_infos.json", "index.json"];
    known.contains(&name) || is_about(name)
}
