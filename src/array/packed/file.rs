//! Containers as files that appear, or replace others, as a whole.

use std::io;
use std::path::Path;

use crate::error::{Error, ErrorKind, Result};
use crate::format::bloscpack::Ending;
use crate::storage::{Lock, ReplaceFile, ReplaceOptions, Storage};

/// How a file may take the place of another.
#[derive(Debug, Clone, Copy)]
pub(super) struct Replace {
    /// Whether it may at all.
    pub(super) overwrite: bool,
    /// Whether to wait until the file is on disk.
    pub(super) durable: bool,
}

/// Writes a container by `work`, then its ending, and replaces the file of this name. After an error
/// nothing has changed.
pub(super) fn publish(
    storage: &dyn Storage,
    path: &Path,
    replace: Replace,
    work: impl FnOnce(&mut ReplaceFile<'_>) -> Result<Ending>,
) -> Result<()> {
    let Replace { overwrite, durable } = replace;
    let _lock = if overwrite { lock_replaced(storage, path)? } else { None };
    let options = ReplaceOptions::default().overwrite(overwrite).durable(durable);
    let mut file = ReplaceFile::create_in(storage, path, &options)?;
    let ending = work(&mut file)?;
    file.write_at(&ending.offsets, ending.offsets_at)?;
    file.write_at(&ending.header, 0)?;
    file.finish()
}

/// The lock of the file that is to be replaced: an append holds it, and what it appends would be lost.
fn lock_replaced(storage: &dyn Storage, path: &Path) -> Result<Option<Lock>> {
    let found = storage.stat(path)?;
    if found.is_none_or(|stat| !stat.is_file()) {
        // There is nothing to lock; what cannot be replaced is refused later.
        return Ok(None);
    }
    match storage.lock_file(&storage.resolve(path)?) {
        Ok(None) => {
            let message = "another process is writing this file";
            Err(Error::new(ErrorKind::Locked, message).at(path))
        }
        // Without permission to open the file, no process of this user appends to it.
        Err(error) if error.io_kind() == Some(io::ErrorKind::PermissionDenied) => Ok(None),
        lock => lock,
    }
}
