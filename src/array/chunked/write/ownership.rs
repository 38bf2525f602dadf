//! Which files belong to the array, so that they may be removed or replaced: regular files with names
//! of the format, in directories below its root. Nothing is ever removed or overwritten behind a
//! symbolic link, which may lead to files of another array, or to foreign files.
//!
//! Readers follow links; none of this applies to them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::array::chunked::files::Files;
use crate::error::{Error, ErrorKind, Result};
use crate::storage::{FileKind, Stat, Storage};

/// The directory of an array that is to be written: the one that the name leads to now, wherever a
/// link in it may lead later. Without links it is the name as it was given.
pub(super) fn real_root(storage: &dyn Storage, root: &Path) -> Result<PathBuf> {
    // Without a slash at the end, which would follow a link.
    let plain: PathBuf = root.components().collect();
    for dir in plain.ancestors().filter(|dir| !dir.as_os_str().is_empty()) {
        let found = storage.lstat(dir)?;
        if found.is_some_and(|stat| stat.kind == FileKind::Link) {
            return storage.resolve(&plain);
        }
    }
    Ok(plain)
}

/// Fails if one of these directories, or one between them and the root, is there and is no
/// directory of the array's own.
pub(super) fn expect_own_dirs<'a>(
    files: &Files,
    dirs: impl IntoIterator<Item = &'a str>,
) -> Result<()> {
    let mut seen = BTreeSet::new();
    for dir in dirs {
        let ends = dir.match_indices('/').map(|(end, _)| end).chain([dir.len()]);
        // `data` is above every column.
        for path in ends.filter(|end| seen.insert(&dir[..*end])).map(|end| files.path(&dir[..end]))
        {
            let found = files.storage.lstat(&path)?;
            if let Some(stat) = found.filter(|stat| !stat.is_dir()) {
                let message = format!(
                    "expected a directory, found {}: an array is written only where all of it \
                     is below its own directory",
                    stat.kind
                );
                return Err(Error::new(ErrorKind::Unsupported, message).at(path));
            }
        }
    }
    Ok(())
}

/// The metadata of a file that is to be removed or replaced; `None` if it does not exist. Fails if
/// something else has this name.
pub(super) fn expect_own(files: &Files, path: &Path) -> Result<Option<Stat>> {
    let found = files.storage.lstat(path)?;
    match found.filter(|stat| !stat.is_file()) {
        None => Ok(found),
        Some(stat) => {
            let message = format!(
                "expected a file of the array, found {}, which is neither removed nor replaced",
                stat.kind
            );
            Err(Error::new(ErrorKind::Unsupported, message).at(path))
        }
    }
}

/// Removes files of the array. Nothing is removed if one of them is not its own. Calls `removed`
/// with the size of each.
pub(super) fn remove_own(
    files: &Files,
    paths: &[PathBuf],
    mut removed: impl FnMut(u64),
) -> Result<()> {
    let stats: Vec<Option<Stat>> =
        paths.iter().map(|path| expect_own(files, path)).collect::<Result<_>>()?;
    for (path, stat) in paths.iter().zip(stats) {
        if let Some(stat) = stat {
            files.storage.remove(path)?;
            removed(stat.len);
        }
    }
    Ok(())
}
