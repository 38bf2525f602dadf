//! The directory of an array as its writer sees it: files are written next to their names and renamed,
//! and made durable.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use crate::array::chunked::files::{Files, is_leftover};
use crate::array::chunked::summary::{outdated, read_summary, summaries};
use crate::array::chunked::version::OpenVersion;
use crate::array::chunked::write::ownership::{expect_own, expect_own_dirs, remove_own};
use crate::error::{Error, ErrorKind, Result};
use crate::format::chunked::{Version, names};
use crate::storage::{Create, Sink};
use crate::value::DType;

/// Smaller parts of a file are written together.
const GATHERED: usize = 64 << 10;

/// Where a writer's files go.
pub(super) struct Directory {
    pub(super) files: Arc<Files>,
    /// Whether files and directories are synced.
    durable: bool,
    /// The permissions of new files, as of the newest version's file.
    mode: Option<u32>,
    /// The summaries that were removed until they are renewed.
    removed: Mutex<Vec<&'static str>>,
}

/// A file to be written.
pub(super) struct NewFile {
    pub(super) dir: PathBuf,
    pub(super) name: String,
    pub(super) parts: Vec<Vec<u8>>,
}

impl Directory {
    /// The directory of an array whose newest version is this.
    pub(super) fn new(files: Arc<Files>, durable: bool, newest: &Version) -> Result<Directory> {
        // The permissions of a link mean nothing, so `stat` follows it.
        let path = files.version_path(newest.version);
        let stat = files.storage.stat(&path)?;
        let mode = stat.and_then(|stat| stat.mode).map(|mode| mode & 0o666 | 0o600);
        Ok(Directory { files, durable, mode, removed: Mutex::default() })
    }

    pub(super) fn is_durable(&self) -> bool {
        self.durable
    }

    /// Fails if files of the array would be written or removed behind a link.
    pub(super) fn expect_own_dirs(&self, array: &OpenVersion) -> Result<()> {
        expect_own_dirs(&self.files, array.dirs().iter().map(|dir| &**dir))
    }

    /// The same of the directories in which every commit writes.
    pub(super) fn expect_own_meta(&self) -> Result<()> {
        expect_own_dirs(&self.files, [names::VERSIONS])
    }

    /// As [`write_file`](Self::write_file), of a name that nothing has yet.
    pub(super) fn write_new(&self, dir: &Path, name: &str, parts: &[&[u8]]) -> Result<()> {
        let rename = |from: &Path, to: &Path| self.files.storage.rename_new(from, to);
        let written = self.put(dir, name, parts, self.mode, rename);
        written.map_err(|error| match error.kind() {
            ErrorKind::AlreadyExists => self.taken(&dir.join(name), error),
            _ => error,
        })
    }

    /// The error for a new file, if it is because something has its name.
    fn taken(&self, path: &Path, error: Error) -> Error {
        match expect_own(&self.files, path) {
            Ok(Some(_)) => Error::new(ErrorKind::AlreadyExists, "the file exists already").at(path),
            Ok(None) => error,
            Err(other_thing) => other_thing,
        }
    }

    /// Writes a file next to its name, and renames it when it is complete. It gets the permissions
    /// of the file it replaces, or else the array's.
    pub(super) fn write_file(&self, dir: &Path, name: &str, parts: &[&[u8]]) -> Result<()> {
        let replaced = expect_own(&self.files, &dir.join(name))?;
        let mode = replaced.and_then(|stat| stat.mode).map(|mode| mode & 0o777).or(self.mode);
        let rename = |from: &Path, to: &Path| self.files.storage.rename(from, to);
        self.put(dir, name, parts, mode, rename)
    }

    fn put(
        &self,
        dir: &Path,
        name: &str,
        parts: &[&[u8]],
        mode: Option<u32>,
        rename: impl FnOnce(&Path, &Path) -> Result<()>,
    ) -> Result<()> {
        let path = dir.join(name);
        let unfinished = dir.join(format!("{name}{}", names::UNFINISHED));
        let storage = &*self.files.storage;
        let mut sink = match storage.create_with(&unfinished, Create::new().mode(mode)) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                remove_own(&self.files, std::slice::from_ref(&unfinished), |_| ())?;
                storage.create_with(&unfinished, Create::new().mode(mode))?
            }
            created => created?,
        };
        let written = append_parts(&mut *sink, parts);
        let synced = written.and_then(|()| if self.durable { sink.sync() } else { Ok(()) });
        drop(sink);
        let done = synced.and_then(|()| rename(&unfinished, &path));
        if done.is_err() {
            // The disk may be full, and this file is useless; the first error is the one to report.
            let _ = storage.remove(&unfinished);
        }
        done
    }

    pub(super) fn write_files(&self, files: &[NewFile], made: &mut Vec<PathBuf>) -> Result<()> {
        files.iter().try_for_each(|file| {
            let parts: Vec<&[u8]> = file.parts.iter().map(|part| &part[..]).collect();
            self.write_new(&file.dir, &file.name, &parts)?;
            // Only now: one that was there already is another writer's.
            made.push(file.dir.join(&file.name));
            Ok(())
        })
    }

    pub(super) fn sync_dir(&self, dir: &Path) -> Result<()> {
        if self.durable {
            self.files.storage.sync_dir(dir)?;
        }
        Ok(())
    }

    /// Rewrites the summaries of the newest version that are out of date. Nothing depends on them, so
    /// nothing fails if they cannot be written, and the next writer tries again.
    pub(super) fn renew_summaries(&self, newest: &Version, dtype: &DType) {
        if self.expect_own_meta().is_err() {
            return;
        }
        self.removed.lock().unwrap_or_else(PoisonError::into_inner).clear();
        for (name, text) in summaries(newest, dtype) {
            let path = self.files.path(name);
            if read_summary(&*self.files.storage, &path).as_deref() == Some(text.as_bytes()) {
                continue;
            }
            let Some((dir, name)) = path.parent().zip(path.file_name().and_then(|n| n.to_str()))
            else {
                continue;
            };
            let _ = self.write_file(dir, name, &[text.as_bytes()]);
        }
    }

    /// Removes the summaries of a version that is about to be removed, unless the newest version
    /// has the same ones: without the version they would look damaged. Removing is faster than
    /// renewing, which happens when the writer ends.
    pub(super) fn remove_summaries(&self, old: &Version, newest: &Version) -> Result<()> {
        let mut removed = self.removed.lock().unwrap_or_else(PoisonError::into_inner);
        let outdated = outdated(old, newest).filter(|name| !removed.contains(name));
        let outdated: Vec<&str> = outdated.collect();
        if outdated.is_empty() {
            return Ok(());
        }
        let paths: Vec<PathBuf> = outdated.iter().map(|name| self.files.path(name)).collect();
        remove_own(&self.files, &paths, |_| ())?;
        self.sync_dir(&self.files.path(names::META))?;
        removed.extend(outdated);
        Ok(())
    }

    /// Removes files that a killed writer left unfinished.
    pub(super) fn remove_unfinished(&self, array: &OpenVersion) -> Result<()> {
        let mut unfinished = Vec::new();
        for name in array.dirs() {
            let dir = self.files.path(&name);
            let files = self.files.storage.list(&dir)?;
            unfinished.extend(files.into_iter().filter(|file| is_leftover(&name, file)));
        }
        remove_own(&self.files, &unfinished, |_| ())
    }
}

/// Appends parts to a file, small ones together.
fn append_parts(sink: &mut dyn Sink, parts: &[&[u8]]) -> Result<()> {
    let mut small = Vec::new();
    for part in parts {
        if small.len() + part.len() > GATHERED {
            sink.append(&small)?;
            small.clear();
        }
        match part.len() > GATHERED {
            true => sink.append(part)?,
            false => small.extend_from_slice(part),
        }
    }
    sink.append(&small)
}
