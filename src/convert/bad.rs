//! [`BadInput`]: what happens to input that is bad, and what is counted meanwhile.

use crate::error::Shown;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::carried::Remarks;
use crate::Value;
use crate::array::ArrayTally;
use crate::error::{Error, ErrorKind, Result};
use crate::format::jsonl;
use crate::note::required;
use crate::regular::open_regular;
use crate::storage::{self, LocalStorage, Storage};

/// What happens to samples that are damaged, or that the output cannot hold.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum BadInput {
    /// The first one stops the conversion.
    #[default]
    Stop,
    /// They are left out and counted.
    Skip,
    /// They are left out, and `OUTPUT.quarantine.jsonl` lists them with the reasons.
    Quarantine,
}

/// How many reasons a report has.
const REASONS: usize = 5;

/// The counts so far. A resumed run continues from them.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Tally {
    pub(super) skipped_duplicates: u64,
    /// Those of the first among them that differ from the sample that stays.
    #[serde(default)]
    pub(super) different_duplicates: u64,
    /// Samples that are bad, and among them places after which a file could not be read.
    pub(super) bad: u64,
    /// Those among them that may be sound, but are of a kind that cannot be read here.
    #[serde(default)]
    pub(super) unsupported: u64,
    pub(super) cut: u64,
    /// The faults of the first ones, with their places.
    pub(super) first: Vec<String>,
    /// Bytes of the quarantine file.
    pub(super) quarantined: u64,
    #[serde(deserialize_with = "required")]
    pub(super) arrays: Option<ArrayTally>,
    pub(super) unseen: Vec<String>,
    /// Contents of the sources that were left out or changed.
    #[serde(default, skip_serializing_if = "Remarks::is_empty")]
    pub(super) remarks: Remarks,
}

impl Tally {
    pub(super) fn note(&mut self, error: &Error) {
        self.bad += 1;
        self.unsupported += u64::from(error.kind() == ErrorKind::Unsupported);
        self.cut += u64::from(error.ends_unit());
        if self.first.len() < REASONS {
            self.first.push(error.to_string());
        }
    }

    /// Adds what was counted for later samples.
    pub(super) fn add(&mut self, later: Tally) {
        let sum = |sum: &mut u64, more: u64| *sum = sum.saturating_add(more);
        sum(&mut self.skipped_duplicates, later.skipped_duplicates);
        sum(&mut self.different_duplicates, later.different_duplicates);
        sum(&mut self.bad, later.bad);
        sum(&mut self.unsupported, later.unsupported);
        sum(&mut self.cut, later.cut);
        sum(&mut self.quarantined, later.quarantined);
        self.first.extend(later.first);
        self.first.truncate(REASONS);
        if let Some(arrays) = later.arrays {
            *self.arrays.get_or_insert_default() += arrays;
        }
        self.remarks.add(&later.remarks);
        // A field that one part has not seen, another one may have.
        self.unseen.retain(|name| later.unseen.contains(name));
    }
}

/// Bad input as JSON lines. They are collected in a file next to the one of an earlier conversion, which
/// they replace when the new dataset is there. An append adds to the file that is there.
pub(super) struct Quarantine {
    path: PathBuf,
    /// The file that collects them, unless it is the final one.
    beside: Option<PathBuf>,
    file: File,
    /// Bytes that were there before.
    start: u64,
    /// Bytes that are on the disk for certain.
    synced: u64,
}

impl Quarantine {
    /// The name of the file next to a dataset.
    pub(super) fn path_of(dataset: &Path) -> PathBuf {
        let mut name = dataset.as_os_str().to_os_string();
        name.push(".quarantine.jsonl");
        PathBuf::from(name)
    }

    /// Starts a file that replaces the one that is there, or continues one after this many bytes.
    pub(super) fn begin(path: PathBuf, bytes: u64) -> Result<Quarantine> {
        let beside = beside(&path);
        if bytes == 0 {
            remove_file(&beside)?;
        }
        Quarantine::open(path, Some(beside), bytes)
    }

    /// Adds to the file that is there.
    pub(super) fn append(path: PathBuf) -> Result<Quarantine> {
        let bytes = path.metadata().map_or(0, |found| found.len());
        Quarantine::open(path, None, bytes)
    }

    fn open(path: PathBuf, beside: Option<PathBuf>, bytes: u64) -> Result<Quarantine> {
        let own = beside.as_ref().unwrap_or(&path);
        let at = |error| Error::io(own, error);
        let mut options = OpenOptions::new();
        let file = match own.symlink_metadata() {
            // A link here could have been placed by someone else, to have another file written to.
            Ok(found) if !found.is_file() => {
                let message = "expected a regular file, found something else";
                return Err(Error::new(ErrorKind::Foreign, message).at(own));
            }
            Ok(_) => {
                storage::expect_owned(own)?;
                options.append(true).open(own)
            }
            Err(_) => options.append(true).create_new(true).open(own),
        };
        let file = file.map_err(at)?;
        let found = file.metadata().map_err(at)?.len();
        if found < bytes {
            let message =
                format!("expected at least {bytes} bytes to continue after, found {found}");
            return Err(Error::new(ErrorKind::Invalid, message)
                .at(own)
                .advise("restore the file, or start over"));
        }
        // A new file has nothing to cut off, and would stay if that failed.
        if found > bytes {
            file.set_len(bytes).map_err(at)?;
        }
        Ok(Quarantine { path, beside, file, start: bytes, synced: bytes })
    }

    /// Publishes what an earlier run collected and only had left to publish: all of it, or this many
    /// bytes.
    pub(super) fn settle(path: PathBuf, bytes: Option<u64>) -> Result<Option<PathBuf>> {
        let beside = beside(&path);
        match beside.symlink_metadata() {
            Ok(found) => {
                let bytes = bytes.unwrap_or(found.len());
                Quarantine::open(path, Some(beside), bytes)?.finish()
            }
            Err(_) => Ok(Some(path).filter(|path| bytes != Some(0) && path.exists())),
        }
    }

    /// Adds all that is in another file, if it is there.
    pub(super) fn add_all(&mut self, from: &Path) -> Result<()> {
        let mut from = match open_regular(from) {
            Ok(from) => from,
            // Nothing in this part was bad.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(Error::io(from, error)),
        };
        let copied = io::copy(&mut from, &mut self.file);
        copied.map(drop).map_err(|error| Error::io(&self.path, error))
    }

    /// Syncs what was added, before the log counts it: the log must never know more than the disk.
    pub(super) fn sync(&mut self, bytes: u64) -> Result<()> {
        if self.synced != bytes {
            self.file.sync_all().map_err(|error| Error::io(&self.path, error))?;
            self.synced = bytes;
        }
        Ok(())
    }

    /// Adds what is bad; how many bytes that took.
    pub(super) fn add(&mut self, error: &Error) -> Result<u64> {
        let mut fields: Vec<(Value, Value)> = Vec::new();
        if let Some(path) = error.path() {
            fields.push(("file".into(), Shown::of(&path).to_string().into()));
        }
        if let Some(key) = error.key() {
            fields.push(("sample".into(), key.into()));
        }
        fields.push(("reason".into(), error.reason().into()));
        if error.ends_unit() {
            fields.push(("rest_unread".into(), true.into()));
        }
        if let Some(raw) = error.raw() {
            let raw = std::str::from_utf8(raw).map_or_else(|_| raw.into(), Value::from);
            fields.push(("raw".into(), raw));
        }
        let mut line = Vec::new();
        // Strings and bytes alone, and JSON lines can hold all of them.
        let _ = jsonl::write(&Value::Map(fields), &mut line);
        line.push(b'\n');
        self.file.write_all(&line).map_err(|error| Error::io(&self.path, error))?;
        Ok(line.len() as u64)
    }

    /// Syncs it and gives it its name; if nothing was bad, no file is left.
    pub(super) fn finish(self) -> Result<Option<PathBuf>> {
        let at = |error| Error::io(&self.path, error);
        let some = self.file.metadata().map_err(at)?.len() > 0;
        if some {
            self.file.sync_all().map_err(at)?;
        }
        match &self.beside {
            Some(beside) if some => fs::rename(beside, &self.path).map_err(at)?,
            Some(beside) => {
                remove_file(&self.path)?;
                remove_file(beside)?;
            }
            None if some => {}
            None => remove_file(&self.path)?,
        }
        let parent = self.path.parent().unwrap_or(Path::new(""));
        LocalStorage::positioned().sync_dir(parent)?;
        Ok(some.then_some(self.path))
    }

    /// Takes back what was added.
    pub(super) fn abort(self) {
        // If it cannot be removed, the next run replaces it.
        let _ = match (&self.beside, self.start) {
            (Some(beside), _) => fs::remove_file(beside),
            (None, 0) => fs::remove_file(&self.path),
            (None, start) => self.file.set_len(start),
        };
    }
}

fn beside(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_os_string();
    name.push(".new");
    PathBuf::from(name)
}

fn remove_file(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Error::io(path, error)),
        _ => Ok(()),
    }
}

/// Settles the quarantine of a dataset after a [repair](crate::repair): if the write was finished, or
/// its samples kept, the quarantine gets its name; if it was undone, the quarantine is removed.
pub fn settle_quarantine(dataset: &Path, is_undone: bool) -> Result<()> {
    let path = Quarantine::path_of(dataset);
    match beside(&path).symlink_metadata() {
        Ok(found) if found.is_file() && is_undone => remove_file(&beside(&path)),
        Ok(found) if found.is_file() => Quarantine::settle(path, None).map(drop),
        _ => Ok(()),
    }
}
