//! Removing versions, and the files that no version needs any more.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::array::chunked::files::is_leftover;
use crate::array::chunked::read::ChunkedArray;
use crate::array::chunked::version::OpenVersion;
use crate::array::chunked::write::compact::Compaction;
use crate::array::chunked::write::directory::Directory;
use crate::array::chunked::write::numbers::Numbers;
use crate::array::chunked::write::ownership::{expect_own, remove_own};
use crate::array::chunked::write::retention::{Keep, Removed};
use crate::error::Result;
use crate::format::chunked::{Version, names};

/// Removes versions and unneeded files. The order matters: versions go before the files that only
/// they need, and a compaction has made the versions that stay name the new files before the old ones
/// go. So a crash in between leaves too many files, never too few.
pub(super) fn collect(
    directory: &Directory,
    numbers: &mut Numbers,
    newest: &mut ChunkedArray,
    keep: &Keep,
    compact: bool,
) -> Result<Removed> {
    directory.expect_own_dirs(newest.core())?;
    let (mut stay, go) = choose(directory, keep)?;
    let mut needed = Needed::by(newest.core(), &stay)?;
    let mut removed = Removed::default();
    let versions: Vec<PathBuf> =
        go.iter().map(|number| directory.files.version_path(*number)).collect();
    // Everything to be removed is checked before anything is.
    for path in unneeded(directory, newest.core(), &needed)? {
        expect_own(&directory.files, &path)?;
    }
    if !versions.is_empty() {
        // A summary of a version that is gone would look damaged.
        directory.renew_summaries(&newest.core().version, &newest.core().dtype);
        directory.sync_dir(&directory.files.path(names::META))?;
    }
    remove_versions(directory, &versions, &mut removed)?;
    removed.versions = go;
    if compact {
        Compaction { directory, numbers, newest, removed: &mut removed }.run(&mut stay)?;
        needed = Needed::by(newest.core(), &stay)?;
    }
    remove(directory, &unneeded(directory, newest.core(), &needed)?, &mut removed)?;
    Ok(removed)
}

/// As [`collect`] of all but the newest version, right after a commit that left the tables of chunks as they
/// were: no other files can have become unneeded. `only` says that there was no version but `old` before.
pub(super) fn remove_older(
    directory: &Directory,
    old: &Version,
    newest: &Version,
    only: bool,
) -> Result<()> {
    let mut numbers = match only {
        true => vec![old.version],
        false => directory.files.version_numbers()?,
    };
    numbers.retain(|number| *number < newest.version);
    directory.remove_summaries(old, newest)?;
    let paths: Vec<PathBuf> =
        numbers.into_iter().map(|number| directory.files.version_path(number)).collect();
    remove_versions(directory, &paths, &mut Removed::default())
}

/// Removes the files of versions whose summaries are gone already.
fn remove_versions(directory: &Directory, paths: &[PathBuf], removed: &mut Removed) -> Result<()> {
    remove(directory, paths, removed)?;
    directory.sync_dir(&directory.files.path(names::VERSIONS))
}

/// The versions that stay, and the numbers of those that go.
fn choose(directory: &Directory, keep: &Keep) -> Result<(Vec<Version>, Vec<u64>)> {
    let files = &directory.files;
    let numbers = files.version_numbers()?;
    let (mut stay, mut go) = (Vec::new(), Vec::new());
    for (i, number) in numbers.iter().enumerate() {
        let from_end = numbers.len() - i;
        let time = || Ok(files.version(*number)?.time);
        let stays = from_end == 1 || keep.keeps(from_end, *number, time)?;
        if stays { stay.push(files.version(*number)?) } else { go.push(*number) }
    }
    Ok((stay, go))
}

/// The files that no version needs, directory by directory.
fn unneeded(directory: &Directory, array: &OpenVersion, needed: &Needed) -> Result<Vec<PathBuf>> {
    let mut unneeded = Vec::new();
    let dirs = array.dirs();
    for name in &dirs {
        let dir = directory.files.path(name);
        let files = directory.files.storage.list(&dir)?;
        unneeded.extend(files.into_iter().filter(|path| needed.is_unneeded(&dirs, name, path)));
    }
    Ok(unneeded)
}

fn remove(directory: &Directory, paths: &[PathBuf], removed: &mut Removed) -> Result<()> {
    remove_own(&directory.files, paths, |len| {
        removed.files += 1;
        removed.bytes = removed.bytes.saturating_add(len);
    })
}

/// The segments and superchunks that some versions name.
struct Needed {
    segments: BTreeSet<u64>,
    superchunks: Vec<BTreeSet<u32>>,
}

impl Needed {
    fn by(newest: &OpenVersion, versions: &[Version]) -> Result<Needed> {
        let columns = newest.columns.len();
        let mut needed =
            Needed { segments: BTreeSet::new(), superchunks: vec![BTreeSet::new(); columns] };
        for version in versions {
            for (column, superchunks) in version.columns.iter().zip(&mut needed.superchunks) {
                // Segments that an earlier one of these versions has are done already.
                let new = column.segments.iter().filter(|(n, _)| !needed.segments.contains(n));
                let new: Vec<(u64, u64)> = new.copied().collect();
                newest.files.table(version.version, &new)?.each_entry(|entry| {
                    superchunks.extend(entry.place.map(|place| place.superchunk));
                });
                needed.segments.extend(new.iter().map(|(number, _)| number));
            }
        }
        Ok(needed)
    }

    /// Whether no version needs a file, which is in the directory that the format calls `dir`.
    fn is_unneeded(&self, dirs: &[String], dir: &str, path: &Path) -> bool {
        let Some(name) = path.file_name().and_then(|name| name.to_str()) else { return false };
        if is_leftover(dir, path) {
            return true;
        }
        if dir == names::MANIFEST {
            return names::number_of(name).is_some_and(|n| !self.segments.contains(&n));
        }
        // The columns are the first directories, in their order.
        let mut columns = dirs.iter().zip(&self.superchunks);
        let needed = columns.find(|(column, _)| *column == dir).map(|(_, needed)| needed);
        let number = names::superchunk_number_of(name);
        needed.zip(number).is_some_and(|(needed, number)| !needed.contains(&number))
    }
}
