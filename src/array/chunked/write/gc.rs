//! Removing versions, and the files that nobody needs any more.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::array::chunked::read::micros_of;
use crate::array::chunked::write::store::{ArrayStore, is_leftover};
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
    /// of the versions that stay is damaged, nothing is removed: it is not known what it needs. Only
    /// files of the names that the format has are removed, and nothing if one of them is a symbolic
    /// link, or the directory that it is in.
    ///
    /// [`compact`]: crate::array::ArrayOptions::compact
    pub fn gc(&mut self, keep: &Keep) -> Result<Removed> {
        // Where chunks are written over in place there is room that is meant to be there.
        let compact = self.options.compact && self.newest.core.version.storage.room == 0;
        self.collect(keep, compact)
    }

    pub(crate) fn collect(&mut self, keep: &Keep, compact: bool) -> Result<Removed> {
        self.expect_own_dirs()?;
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
        let versions: Vec<PathBuf> =
            go.iter().map(|number| self.files.version_path(*number)).collect();
        // All that is to go is looked at before anything goes.
        for path in self.useless(&needed)? {
            self.files.expect_own(&path)?;
        }
        self.remove(&versions, &mut removed)?;
        self.sync_dir(&self.files.path(names::VERSIONS))?;
        removed.versions = go;
        if compact {
            self.compact(&mut stay, &mut removed)?;
            needed = Needed::by(self, &stay)?;
        }
        self.remove(&self.useless(&needed)?, &mut removed)?;
        Ok(removed)
    }

    /// The files that no version needs, directory by directory.
    fn useless(&self, needed: &Needed) -> Result<Vec<PathBuf>> {
        let mut useless = Vec::new();
        for name in self.dirs() {
            let dir = self.files.path(&name);
            let files = self.files.storage.list(&dir).map_err(|e| Error::io(&dir, e))?;
            useless.extend(files.into_iter().filter(|path| needed.is_useless(self, &name, path)));
        }
        Ok(useless)
    }

    fn remove(&self, paths: &[PathBuf], removed: &mut Removed) -> Result<()> {
        self.files.remove_own(paths, |len| {
            removed.files += 1;
            removed.bytes = removed.bytes.saturating_add(len);
        })
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

    /// Whether a file in the directory of this name is one.
    fn is_useless(&self, store: &ArrayStore, dir: &str, path: &Path) -> bool {
        let Some(name) = path.file_name().and_then(|name| name.to_str()) else { return false };
        if is_leftover(dir, path) {
            return true;
        }
        if dir == names::MANIFEST {
            return names::number_of(name).is_some_and(|n| !self.segments.contains(&n));
        }
        // The columns are the first directories, in their order.
        let dirs = store.dirs();
        let mut columns = dirs.iter().zip(&self.superchunks);
        let needed = columns.find(|(column, _)| *column == dir).map(|(_, needed)| needed);
        let number = names::superchunk_number_of(name);
        needed.zip(number).is_some_and(|(needed, number)| !needed.contains(&number))
    }
}
