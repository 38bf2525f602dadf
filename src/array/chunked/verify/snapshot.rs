//! The versions that are there when a pass begins, and whether they still are when it ends.

use std::path::PathBuf;
use std::sync::Arc;

use crate::array::chunked::files::Files;
use crate::array::chunked::verify::Report;
use crate::array::chunked::version::OpenVersion;
use crate::error::{Error, ErrorKind, Result};
use crate::format::chunked::Version;

/// The files at one moment.
pub(super) struct Snapshot {
    files: Arc<Files>,
    /// The files of each directory. Listed before the versions, so that a commit that happens now
    /// adds none.
    pub(super) listed: Vec<(String, Vec<PathBuf>)>,
    /// The versions, oldest first, or why one cannot be read.
    pub(super) versions: Vec<(u64, Result<Version>)>,
}

/// How a version has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Now {
    Same,
    /// Its chunks were moved to other files.
    Moved,
    Removed,
}

impl Snapshot {
    pub(super) fn of(core: &OpenVersion) -> Result<Snapshot> {
        let files = core.files.clone();
        let list = |name: String| -> Result<_> {
            let listed = files.storage.list(&files.path(&name))?;
            Ok((name, listed))
        };
        let listed = core.dirs().into_iter().map(list).collect::<Result<_>>()?;
        let read = |number: u64| match files.version(number) {
            // It was removed since it was listed.
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            version => Some((number, version)),
        };
        let versions = files.version_numbers()?.into_iter().filter_map(read).collect();
        Ok(Snapshot { files, listed, versions })
    }

    /// Whether these are still all versions.
    pub(super) fn is_complete(&self) -> bool {
        let numbers = self.files.version_numbers();
        numbers.is_ok_and(|now| now.iter().eq(self.versions.iter().map(|(number, _)| number)))
    }

    /// A version that could be read.
    pub(super) fn version(&self, number: u64) -> Option<&Version> {
        let at = self.versions.binary_search_by_key(&number, |(number, _)| *number).ok()?;
        self.versions[at].1.as_ref().ok()
    }

    /// The lowest number that no superchunk of a column had when the version before this one was made.
    pub(super) fn next_before(&self, number: u64, column: usize) -> u64 {
        let older = self.versions.iter().rev().filter_map(|(_, version)| version.as_ref().ok());
        let mut older = older.skip_while(|version| version.version >= number);
        older.next().and_then(|version| version.columns.get(column)).map_or(1, |c| c.next)
    }

    /// All versions, if none was ever removed and all can be read.
    pub(super) fn whole_history(&self) -> Option<Vec<&Version>> {
        let versions = (1..).zip(&self.versions).map(|(expected, (number, version))| {
            version.as_ref().ok().filter(|_| *number == expected)
        });
        versions.collect()
    }

    /// The part of a report that is about versions that still exist. `None` if others have to be
    /// looked at once more.
    pub(super) fn settle(&self, mut report: Report) -> Result<Option<Report>> {
        if !self.versions.is_empty() && report.problems.is_empty() && report.unused.is_empty() {
            return Ok(Some(report));
        }
        let is_complete = self.is_complete();
        let now: Vec<Now> = self.versions.iter().map(|one| self.now(one)).collect();
        if is_complete && now.iter().all(|now| *now == Now::Same) {
            return Ok(Some(report));
        }
        // Files may belong to a version that was committed since.
        report.unused.clear();
        let state = |number: &u64| {
            let at = self.versions.binary_search_by_key(number, |(number, _)| *number);
            at.map_or(Now::Same, |at| now[at])
        };
        let mut again = now.iter().all(|now| *now == Now::Removed);
        report.problems.retain_mut(|problem| {
            again |= problem.versions.iter().any(|number| state(number) == Now::Moved);
            let is_known = !problem.versions.is_empty();
            problem.versions.retain(|number| state(number) == Now::Same);
            !(is_known && problem.versions.is_empty())
        });
        report.doubts.retain(|doubt| doubt.versions.iter().all(|n| state(n) == Now::Same));
        Ok((!again).then_some(report))
    }

    fn now(&self, (number, seen): &(u64, std::result::Result<Version, Error>)) -> Now {
        match (self.files.version(*number), seen) {
            (Err(error), _) if error.kind() == ErrorKind::NotFound => Now::Removed,
            (Ok(found), Ok(seen)) if found.columns != seen.columns => Now::Moved,
            (Ok(_), Err(_)) => Now::Moved,
            _ => Now::Same,
        }
    }
}
