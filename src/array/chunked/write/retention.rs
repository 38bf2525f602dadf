//! Which versions a garbage collection keeps, and what it removed.

use std::time::SystemTime;

/// Which versions [`ArrayStore::gc`](crate::array::ArrayStore::gc) keeps. The newest always stays.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Keep {
    /// All versions: only files that no version needs are removed.
    All,
    /// This many of the newest versions.
    Newest(usize),
    /// Versions committed at this time or later.
    Since(SystemTime),
    /// Versions with these numbers.
    Versions(Vec<u64>),
}

/// What [`ArrayStore::gc`](crate::array::ArrayStore::gc) did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Removed {
    /// The numbers of the versions that were removed.
    pub versions: Vec<u64>,
    /// How many files were removed, those of the versions included.
    pub files: u64,
    /// The bytes of these files.
    pub bytes: u64,
    /// How many chunks were moved to other files.
    pub moved: u64,
    /// The bytes that were written for that.
    pub written: u64,
}
