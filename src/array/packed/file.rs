//! Containers as files that appear, or replace others, as a whole.

use std::io;
use std::path::{Path, PathBuf};

use crate::array::selection::invalid;
use crate::array::temporary::partial_name;
use crate::error::{Error, ErrorKind, Result};
use crate::format::bloscpack::Ending;
use crate::storage::{FileKind, Lock, Sink, Storage};

/// How a file may take the place of another.
#[derive(Debug, Clone, Copy)]
pub(super) struct Replace {
    /// Whether it may at all.
    pub(super) overwrite: bool,
    /// Whether to wait until the file is on disk.
    pub(super) durable: bool,
}

/// Writes a file next to its name, by `work`, and renames it: ending, sync, rename. After an error
/// nothing has changed.
pub(super) fn publish(
    storage: &dyn Storage,
    path: &Path,
    replace: Replace,
    work: impl FnOnce(&mut dyn Sink) -> Result<Ending>,
) -> Result<()> {
    let at = |error| Error::io(path, error);
    let target = Target::of(storage, path, replace.overwrite)?;
    let partial = partial_name(&target.path);
    let sink = storage.create_as(&partial, target.mode);
    let mut sink = sink.map_err(|error| Error::io(&partial, error))?;
    let done = work(&mut *sink).and_then(|ending| {
        let mut end = || {
            sink.write_at(&ending.offsets, ending.offsets_at)?;
            sink.write_at(&ending.header, 0)?;
            if replace.durable {
                sink.sync()?;
            }
            storage.rename(&partial, &target.path)?;
            match replace.durable {
                true => storage.sync_dir(target.path.parent().unwrap_or(Path::new(""))),
                false => Ok(()),
            }
        };
        // Another process may have made it while the chunks were compressed.
        if !replace.overwrite && storage.lstat(path).map_err(at)?.is_some() {
            return Err(exists(path));
        }
        end().map_err(at)
    });
    if done.is_err() {
        // The file is useless; the first error is the one to report.
        let _ = storage.remove(&partial);
    }
    done
}

/// Where a container goes, and the permissions of the file that it replaces, whose lock is held.
struct Target {
    path: PathBuf,
    mode: Option<u32>,
    _lock: Option<Lock>,
}

impl Target {
    /// What a container of this name replaces. Of a symbolic link it is the file that the link leads to;
    /// the link stays.
    fn of(storage: &dyn Storage, path: &Path, overwrite: bool) -> Result<Target> {
        let at = |error| Error::io(path, error);
        let Some(found) = storage.lstat(path).map_err(at)? else {
            return Ok(Target { path: path.to_path_buf(), mode: None, _lock: None });
        };
        if !overwrite {
            return Err(exists(path));
        }
        let refused = |found: &dyn std::fmt::Display| {
            invalid(format!("expected a regular file to replace, found {found}")).at(path)
        };
        let (real, stat) = match found.kind {
            FileKind::Link => {
                let real = storage.resolve(path).map_err(|error| match error.kind() {
                    io::ErrorKind::NotFound => refused(&"a symbolic link that leads nowhere"),
                    _ => at(error),
                })?;
                let stat = storage.stat(&real).map_err(at)?.unwrap_or(found);
                (real, stat)
            }
            _ => (path.to_path_buf(), found),
        };
        if !stat.is_file() {
            return Err(refused(&stat.kind));
        }
        // An append holds the lock of the file, and what it appends would be lost.
        let lock = match storage.lock_file(&real) {
            Ok(None) => {
                let message = "another process is writing this file";
                return Err(Error::new(ErrorKind::Locked, message).at(path));
            }
            // Without permission to open the file, no process of this user appends to it.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => None,
            lock => lock.map_err(at)?,
        };
        let mode = stat.mode.map(|mode| mode & 0o777);
        Ok(Target { path: real, mode, _lock: lock })
    }
}

fn exists(path: &Path) -> Error {
    Error::new(ErrorKind::AlreadyExists, "the file exists").at(path)
}
