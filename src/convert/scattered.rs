//! The files between the two passes of a shuffle in parts: their names, and their end.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::Part;
use crate::error::{Error, Result};
use crate::storage;

/// Where they are.
pub(super) fn dir_of(output: &Path) -> PathBuf {
    let mut name = output.as_os_str().to_os_string();
    name.push(".scatter");
    name.into()
}

/// Removes what the first pass of a shuffle to this manifest wrote, if there was one.
pub(super) fn remove_scattered(output: &Path) -> Result<()> {
    if storage::is_url(output) {
        return Ok(());
    }
    let dir = dir_of(output);
    let entries = match fs::read_dir(&dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries.map_err(|error| Error::io(&dir, error))?,
    };
    for entry in entries {
        let entry = entry.map_err(|error| Error::io(&dir, error))?;
        let name = entry.file_name();
        if name.to_str().is_some_and(is_scattered) {
            fs::remove_file(entry.path()).map_err(|error| Error::io(entry.path(), error))?;
        }
    }
    // Something that is not ours may be there.
    let _ = fs::remove_dir(&dir);
    Ok(())
}

/// Whether the first pass gives a file this name: `part-3-of-8.samples`, and while it is written
/// `part-3-of-8.samples.0123456789abcdef.partial`, which a pass that is killed leaves.
fn is_scattered(name: &str) -> bool {
    let unfinished = name.strip_suffix(".partial").and_then(|name| name.rsplit_once('.'));
    let is_number = |text: &str| text.len() == 16 && text.bytes().all(|b| b.is_ascii_hexdigit());
    let name = unfinished.filter(|(_, number)| is_number(number)).map_or(name, |(name, _)| name);
    let middle = |ending| name.strip_prefix("part-")?.strip_suffix(ending);
    let numbers = middle(".samples").or_else(|| middle(".json")).and_then(|m| m.split_once("-of-"));
    numbers.is_some_and(|(part, of)| format!("{part}/{of}").parse::<Part>().is_ok())
}
