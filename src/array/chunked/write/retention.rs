//! Which versions a garbage collection keeps, and what it removed.

use std::time::SystemTime;

use crate::array::chunked::at::micros_of;
use crate::array::chunked::info::VersionInfo;
use crate::error::{Error, ErrorKind, Result};
use crate::format::chunked::parse_time;

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
    /// All versions but those with these numbers.
    Except(Vec<u64>),
}

impl Keep {
    /// The numbers of the versions that go, of an array that has these, the oldest first. See
    /// [`ChunkedArray::versions`](crate::array::ChunkedArray::versions).
    pub fn removes(&self, versions: &[VersionInfo]) -> Vec<u64> {
        let goes = |(at, version): &(usize, &VersionInfo)| {
            let from_end = versions.len() - at;
            from_end > 1
                && !self
                    .keeps(from_end, version.number, || Ok(version.time.clone()))
                    .unwrap_or(true)
        };
        versions.iter().enumerate().filter(goes).map(|(_, version)| version.number).collect()
    }

    /// Fails if it names a version that is not among these.
    ///
    /// # Errors
    ///
    /// [`NotFound`](ErrorKind::NotFound), with the number.
    pub fn check(&self, versions: &[VersionInfo]) -> Result<()> {
        let (Keep::Versions(named) | Keep::Except(named)) = self else { return Ok(()) };
        match named.iter().find(|named| versions.iter().all(|known| known.number != **named)) {
            Some(absent) => {
                let message = format!("there is no version {absent}");
                Err(Error::new(ErrorKind::NotFound, message))
            }
            None => Ok(()),
        }
    }

    /// Whether a version stays that is so far from the end, the newest having 1, and was committed at
    /// this time.
    pub(super) fn keeps(
        &self,
        from_end: usize,
        number: u64,
        time: impl FnOnce() -> Result<String>,
    ) -> Result<bool> {
        Ok(match self {
            Keep::All => true,
            Keep::Newest(count) => from_end <= *count,
            Keep::Since(since) => parse_time(&time()?) >= Some(micros_of(*since)),
            Keep::Versions(numbers) => numbers.contains(&number),
            Keep::Except(numbers) => !numbers.contains(&number),
        })
    }
}

/// The result of [`ArrayStore::gc`](crate::array::ArrayStore::gc).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Removed {
    /// The numbers of the versions that were removed.
    pub versions: Vec<u64>,
    /// How many files were removed, including version files.
    pub files: u64,
    /// The bytes of these files.
    pub bytes: u64,
    /// How many chunks were moved to other files.
    pub moved: u64,
    /// The bytes that were written for that.
    pub written: u64,
}
