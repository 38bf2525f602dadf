//! Names for files that are not finished, or are removed again.

use std::hash::{BuildHasher, RandomState};
use std::path::{Path, PathBuf};

/// A name next to this one that no other writer chooses. A process number would not do: two processes
/// in different containers, or on different machines with a shared disk, may have the same.
pub(crate) fn partial_name(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_os_string();
    name.push(format!(".{:016x}.partial", random()));
    PathBuf::from(name)
}

/// A number that no other process finds.
pub(crate) fn random() -> u64 {
    RandomState::new().hash_one(std::process::id())
}
