//! Whether a dataset stayed the same while it was verified.

use std::path::PathBuf;

use crate::error::Result;
use crate::format::dataset::{SideFile, offsets};
use crate::storage::Stat;

use super::super::staging;
use super::Files;

/// Tells whether the files are unchanged.
#[derive(PartialEq)]
pub(super) struct State {
    pub(super) base: Option<staging::Base>,
    half_published: bool,
    files: Vec<Option<Stat>>,
}

impl State {
    pub(super) fn of(files: &Files) -> Result<State> {
        let sides = SideFile::ALL.iter().map(|side| side.path(&files.path));
        let paths: Vec<PathBuf> = std::iter::once(files.path.clone()).chain(sides).collect();
        let stat = |path: &PathBuf| files.storage.stat(path);
        let half_published = staging::is_half_published(&*files.storage, &files.path)?;
        let offsets = stat(&SideFile::Offsets.path(&files.path))?;
        // One that cannot be read is reported as an unfinished write.
        let journal = staging::journal_of(&*files.storage, &files.path).unwrap_or(None);
        // Once the new offsets are there, what was appended belongs to the dataset.
        let base = journal.and_then(|journal| journal.base).filter(|base| {
            let old = base.samples.saturating_add(1).saturating_mul(offsets::ENTRY);
            !half_published || offsets.is_none_or(|offsets| offsets.len == old)
        });
        Ok(State { base, half_published, files: paths.iter().map(stat).collect::<Result<_>>()? })
    }

    /// Whether the dataset, which ends at this byte, stayed the same until this later state.
    pub(super) fn is_same(&self, later: &State, end: u64) -> bool {
        let is_append = |state: &State| state.base.is_some_and(|base| base.bytes == end);
        let data = |state: &State| state.files.first().copied().flatten().map(|stat| stat.id);
        let sides_are_same = self.files[1..] == later.files[1..];
        match is_append(self) || is_append(later) {
            // The data file grows.
            true => data(self) == data(later) && sides_are_same,
            false => self == later,
        }
    }
}
