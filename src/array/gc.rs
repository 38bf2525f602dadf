//! Removing versions, and the files that nobody needs any more.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::array::chunked::micros_of;
use crate::array::store::{ArrayStore, is_unfinished};
use crate::error::{Error, Result};
use crate::format::chunked::{Version, names, parse_time};

/// Which versions [`ArrayStore::gc`] keeps. The newest stays whatever is said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Keep {
    /// All of them: only files that no version needs are removed.
    All,
    /// So many of the newest.
    Newest(usize),
    /// Those that were committed then or later.
    Since(SystemTime),
    /// Those with these numbers.
    Versions(Vec<u64>),
}

/// What [`ArrayStore::gc`] did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Removed {
    /// The numbers of the versions that were removed.
    pub versions: Vec<u64>,
    /// How many files were removed, those of the versions included.
    pub files: u64,
    /// The bytes of these files.
    pub bytes: u64,
    /// How many chunks were moved to other files.
    pub moved: u64,
    /// The bytes of files that were written for that.
    pub written: u64,
}

impl ArrayStore {
    /// Removes versions, and all files that those that stay do not need: also what a writer left that
    /// died. Whoever has a removed version open gets an error where a file is gone.
    ///
    /// Chunks that are needed are moved, as they are compressed, out of superchunks of which they are
    /// less than half, and small superchunks become one ([`compact`]). Whoever has one of the versions
    /// that stay open goes on reading it.
    ///
    /// A crash in between leaves files too many, never too few; the next call removes them. If one
    /// of the versions that stay is damaged, nothing is removed: it is not known what it needs.
    ///
    /// [`compact`]: crate::array::ArrayOptions::compact
    pub fn gc(&mut self, keep: &Keep) -> Result<Removed> {
        // Where chunks are written over in place there is room that is meant to be there.
        let compact = self.options.compact && self.newest.core.version.storage.room == 0;
        self.collect(keep, compact)
    }

    pub(crate) fn collect(&mut self, keep: &Keep, compact: bool) -> Result<Removed> {
        let numbers = self.files.version_numbers()?;
        let (mut stay, mut go) = (Vec::new(), Vec::new());
        for (i, number) in numbers.iter().enumerate() {
            let from_end = numbers.len() - i;
            let stays = from_end == 1
                || match keep {
                    Keep::All => true,
                    Keep::Newest(count) => from_end <= *count,
                    Keep::Since(time) => {
                        let version = self.files.version(*number)?;
                        parse_time(&version.time) >= Some(micros_of(*time))
                    }
                    Keep::Versions(numbers) => numbers.contains(number),
                };
            if stays { stay.push(self.files.version(*number)?) } else { go.push(*number) }
        }
        let mut needed = Needed::by(self, &stay)?;
        let mut removed = Removed::default();
        let versions = go.iter().map(|number| self.files.version_path(*number)).collect();
        self.remove(versions, &mut removed)?;
        self.sync_dir(&self.files.path(names::VERSIONS))?;
        removed.versions = go;
        if compact {
            self.compact(&mut stay, &mut removed)?;
            needed = Needed::by(self, &stay)?;
        }
        for dir in self.dirs() {
            let files = self.files.storage.list(&dir).map_err(|e| Error::io(&dir, e))?;
            let useless = files.into_iter().filter(|path| needed.is_useless(self, path)).collect();
            self.remove(useless, &mut removed)?;
        }
        Ok(removed)
    }

    fn remove(&self, paths: Vec<PathBuf>, removed: &mut Removed) -> Result<()> {
        for path in paths {
            let at = |e| Error::io(&path, e);
            let len = self.files.storage.stat(&path).map_err(at)?.map_or(0, |stat| stat.len);
            self.files.storage.remove(&path).map_err(at)?;
            removed.files += 1;
            removed.bytes += len;
        }
        Ok(())
    }
}

/// The segments and superchunks that some versions name.
struct Needed {
    segments: BTreeSet<u64>,
    superchunks: Vec<BTreeSet<u32>>,
}

impl Needed {
    fn by(store: &ArrayStore, versions: &[Version]) -> Result<Needed> {
        let columns = store.newest.core.columns.len();
        let mut needed =
            Needed { segments: BTreeSet::new(), superchunks: vec![BTreeSet::new(); columns] };
        for version in versions {
            for (column, superchunks) in version.columns.iter().zip(&mut needed.superchunks) {
                // Segments that an earlier version of these has were looked at already.
                let new = column.segments.iter().filter(|(n, _)| !needed.segments.contains(n));
                let new: Vec<(u64, u64)> = new.copied().collect();
                store.files.table(version.version, &new)?.each_entry(|entry| {
                    superchunks.extend(entry.place.map(|place| place.superchunk));
                });
                needed.segments.extend(new.iter().map(|(number, _)| number));
            }
        }
        Ok(needed)
    }

    fn is_useless(&self, store: &ArrayStore, path: &Path) -> bool {
        let (Some(dir), Some(name)) = (path.parent(), path.file_name().and_then(|n| n.to_str()))
        else {
            return false;
        };
        if is_unfinished(path) {
            return true;
        }
        if dir == store.files.path(names::MANIFEST) {
            return names::number_of(name).is_some_and(|n| !self.segments.contains(&n));
        }
        let columns = store.newest.core.columns.iter().zip(&self.superchunks);
        let mut of_column =
            columns.filter(|(column, _)| dir == store.files.column_dir(&column.leaf.path));
        let number = names::superchunk_number_of(name);
        of_column.any(|(_, needed)| number.is_some_and(|n| !needed.contains(&n)))
    }
}
