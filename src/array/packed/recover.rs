//! Appends that were interrupted: undone in the file, or seen through while reading.

use std::path::{Path, PathBuf};

use crate::error::{Error, ErrorKind, Result};
use crate::format::bloscpack::{Undo, UndoState};
use crate::storage::{FileId, Lock, Storage};

/// Fails if an append to this file was interrupted. For programs that read it as a stream, and so
/// do not see its end first; [`PackedArray`](crate::array::PackedArray) shows the old content.
pub fn check(storage: &dyn Storage, path: impl AsRef<Path>) -> Result<()> {
    let path = path.as_ref();
    let source = storage.open(path)?;
    let file = source.read(0..source.len())?;
    check_finished(&file).map_err(|error| error.at(path))
}

/// Finishes or undoes an interrupted append; returns whether there was one. Until then other
/// programs may not be able to read the last chunk. Every append does this first.
pub fn recover(storage: &dyn Storage, path: impl AsRef<Path>) -> Result<bool> {
    let path = path.as_ref();
    Locked::new(storage, path)?.recover(storage)
}

/// Fails if an append has begun and not ended.
fn check_finished(file: &[u8]) -> Result<()> {
    if Undo::find(file).map(|undo| undo.state(file)) == Some(UndoState::Begun) {
        let message = "an append was interrupted: `array::append::recover` restores the end";
        return Err(Error::new(ErrorKind::Interrupted, message));
    }
    Ok(())
}

/// The container as it was before an interrupted append, if there was one.
pub(crate) fn before_append(file: &[u8]) -> Result<Option<Vec<u8>>> {
    let Some(undo) = Undo::find(file).filter(|undo| undo.state(file) == UndoState::Begun) else {
        return Ok(None);
    };
    // `find` has seen that the old container ends within the file.
    let old = &file[..undo.old_end as usize];
    let mut restored = Vec::new();
    restored.try_reserve_exact(old.len()).map_err(|_| {
        let message = "an append was interrupted, and the container before it does not fit in memory: \
                       `array::append::recover` restores it in the file";
        Error::new(ErrorKind::Interrupted, message)
    })?;
    restored.extend_from_slice(old);
    undo.restore(&mut restored);
    Ok(Some(restored))
}

/// A container that this process has locked. The lock is on the file itself, so that all of its
/// names share it.
pub(super) struct Locked {
    /// The name of the file that is not a link.
    pub(super) path: PathBuf,
    id: FileId,
    links: u64,
    _lock: Lock,
}

impl Locked {
    pub(super) fn new(storage: &dyn Storage, target: &Path) -> Result<Locked> {
        let path = storage.resolve(target)?;
        let locked =
            || Error::new(ErrorKind::Locked, "another process is writing this file").at(target);
        let lock = storage.lock_file(&path)?.ok_or_else(locked)?;
        let stat = storage.stat(&path)?.ok_or_else(locked)?;
        // Errors use the name that the caller gave, if it is not a link.
        let is_link = storage.lstat(target)?.is_none_or(|found| found.id != stat.id);
        let path = if is_link { path } else { target.to_path_buf() };
        Ok(Locked { path, id: stat.id, links: stat.links, _lock: lock })
    }

    /// An append would change the file under its other names too.
    pub(super) fn refuse_hard_links(&self, target: &Path) -> Result<()> {
        if self.links <= 1 {
            return Ok(());
        }
        let message = format!(
            "the file has {} names (hard links): appending would change the others too; copy it \
             first",
            self.links
        );
        Err(Error::new(ErrorKind::Invalid, message).at(target))
    }

    /// Fails if this is not the file that is locked.
    pub(super) fn expect(&self, id: FileId) -> Result<()> {
        match self.id == id {
            true => Ok(()),
            false => {
                let message = "another program replaced the file";
                Err(Error::new(ErrorKind::Replaced, message).at(&self.path))
            }
        }
    }

    pub(super) fn recover(&self, storage: &dyn Storage) -> Result<bool> {
        let found = {
            let source = storage.open(&self.path)?;
            self.expect(source.id())?;
            let file = source.read(0..source.len())?;
            Undo::find(&file).map(|undo| (undo.state(&file), undo))
        };
        let Some((state, undo)) = found else { return Ok(false) };
        let mend = || {
            if state == UndoState::Foreign {
                return Ok(false);
            }
            let mut sink = storage.reopen(&self.path)?;
            let end = match state {
                UndoState::Done => undo.new_end,
                UndoState::NotBegun => undo.old_end,
                // The first patch is the header, which may be partly new. The record stays until
                // all patches are durable.
                _ => {
                    for (at, bytes) in &undo.patches {
                        sink.write_at(bytes, *at)?;
                    }
                    sink.sync()?;
                    undo.old_end
                }
            };
            sink.set_len(end)?;
            sink.sync().map(|()| true)
        };
        mend()
    }
}
