//! Names of files: braces, keys, and names that are safe.

use std::path::{Path, PathBuf};

use super::source_file::size_of;
use crate::error::{Error, ErrorKind, Result};
pub use crate::text::braces::expand_braces;

/// Whether a relative name stays inside its folder, on any system.
pub(super) fn stays_within(name: &str) -> bool {
    let is_drive = matches!(name.as_bytes(), [letter, b':', ..] if letter.is_ascii_alphabetic());
    let leads = |part: &str| matches!(part, "" | "." | "..");
    !is_drive && !name.split(['/', '\\']).any(leads) && !name.contains(char::is_control)
}

/// The files of these patterns. All must exist: it is better to know before hours of work.
pub(super) fn files<P: AsRef<Path>>(patterns: impl IntoIterator<Item = P>) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for pattern in patterns {
        let path = pattern.as_ref();
        let names: Vec<PathBuf> = match path.to_str() {
            // A file of exactly this name needs no expansion.
            Some(pattern) if !path.is_file() => {
                expand_braces(pattern)?.into_iter().map(PathBuf::from).collect()
            }
            _ => vec![path.to_path_buf()],
        };
        for name in names {
            size_of(&name).map_err(|error| Error::io(&name, error))?;
            files.push(name);
        }
    }
    match files.is_empty() {
        true => Err(Error::new(ErrorKind::Invalid, "expected files to read, found none")),
        false => Ok(files),
    }
}

/// The name of a file without folders and up to the first dot: `train-00.tar.gz` is `train-00`.
pub(super) fn stem(path: &Path) -> Result<&str> {
    let name = path.file_name().and_then(|name| name.to_str());
    let stem = name.and_then(|name| name.split('.').next()).filter(|stem| !stem.is_empty());
    stem.ok_or_else(|| {
        let message = "expected a file name in UTF-8, as keys begin with it, found another";
        Error::new(ErrorKind::Invalid, message).at(path)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stems() {
        assert_eq!(stem(Path::new("a.b/train-00.tar.gz")).unwrap(), "train-00");
        assert!(stem(Path::new(".tar")).is_err());
    }
}
