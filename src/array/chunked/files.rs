//! The files of a chunked array, each opened once: versions, segments, superchunks.
//!
//! Here bytes become values and errors get the path; callers decide which chunk is needed.

use std::collections::HashMap;
use std::fmt;
use std::hash::Hash;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use crate::array::chunked::block_cache::BlockCache;
use crate::array::chunked::options::{ArrayOptions, Check};
use crate::array::chunked::superchunk::SuperchunkFile;
use crate::array::chunked::table::{SegmentFile, Table};
use crate::error::{Error, ErrorKind, Result};
use crate::format::FormatError;
use crate::format::chunked::{FORMAT, MAX_VERSION_BYTES, Version, format_of, names};
use crate::storage::Storage;

/// The maximum number of open files of a kind; beyond it all of them are closed. Each may take a
/// mapping, and a process can have some tens of thousands.
const MOST_OPEN: usize = 4096;

/// Room for the name of a file, behind a directory.
const SPARE: usize = 32;

/// An array's directory.
pub(crate) struct Files {
    pub(crate) storage: Arc<dyn Storage>,
    pub(crate) root: PathBuf,
    pub(crate) check: Check,
    /// Recently decompressed blocks.
    pub(crate) blocks: BlockCache,
    segments: Mutex<HashMap<u64, Arc<SegmentFile>>>,
    superchunks: Mutex<HashMap<(String, u32), Arc<SuperchunkFile>>>,
}

impl fmt::Debug for Files {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Files").field("root", &self.root).finish_non_exhaustive()
    }
}

impl Files {
    /// The array in this directory, to be read as the options say.
    pub(super) fn of(options: &ArrayOptions, root: &Path) -> Files {
        Files::new(options.storage.clone(), root, options.check, options.cache)
    }

    /// Caches at most `cache` bytes of decompressed blocks.
    pub(crate) fn new(storage: Arc<dyn Storage>, root: &Path, check: Check, cache: usize) -> Files {
        Files {
            storage,
            root: root.to_path_buf(),
            check,
            blocks: BlockCache::new(cache),
            segments: Mutex::default(),
            superchunks: Mutex::default(),
        }
    }

    /// A file or directory by its name in the format.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        let mut path = PathBuf::with_capacity(self.root.as_os_str().len() + name.len() + SPARE);
        path.push(&self.root);
        path.extend(name.split('/').filter(|part| !part.is_empty()));
        path
    }

    pub(crate) fn version_path(&self, number: u64) -> PathBuf {
        let mut path = self.path(names::VERSIONS);
        path.push(names::numbered(number));
        path
    }

    pub(crate) fn segment_path(&self, number: u64) -> PathBuf {
        self.path(names::MANIFEST).join(names::numbered(number))
    }

    /// The directory of a column's superchunks.
    pub(crate) fn column_dir(&self, column: &str) -> PathBuf {
        self.path(&format!("{}/{column}", names::DATA))
    }

    pub(crate) fn superchunk_path(&self, column: &str, number: u32) -> PathBuf {
        self.column_dir(column).join(names::superchunk(number))
    }

    /// The numbers of the versions that exist, ascending.
    pub(crate) fn version_numbers(&self) -> Result<Vec<u64>> {
        let dir = self.path(names::VERSIONS);
        let numbers = self.numbers_in(&dir, names::number_of, names::is_beyond);
        let mut numbers = numbers.map_err(|e| match e.kind() {
            ErrorKind::NotFound => {
                let message = "expected a chunked array, found no directory meta/versions";
                Error::new(ErrorKind::NotFound, message).at(&self.root)
            }
            _ => e,
        })?;
        numbers.sort_unstable();
        Ok(numbers)
    }

    /// The numbers in the names of a directory's files. One that is too high is an error: its file
    /// must not be overlooked.
    pub(crate) fn numbers_in<N>(
        &self,
        dir: &Path,
        number_of: impl Fn(&str) -> Option<N>,
        is_beyond: impl Fn(&str) -> bool,
    ) -> Result<Vec<N>> {
        let listed = self.storage.list(dir);
        let found_any = listed.as_ref().is_ok_and(|files| !files.is_empty());
        // Where a storage has no directories, one that is not there is empty.
        if !found_any && !self.storage.stat(dir)?.is_some_and(|stat| stat.is_dir()) {
            return Err(Error::io(dir, io::ErrorKind::NotFound.into()));
        }
        let files = listed?;
        let named = files.iter().filter_map(|path| Some((path, path.file_name()?.to_str()?)));
        let mut numbers = Vec::new();
        for (path, name) in named {
            if is_beyond(name) {
                let message = "the number in the name is higher than any that a file may have";
                return Err(Error::new(ErrorKind::Limit, message).at(path));
            }
            numbers.extend(number_of(name));
        }
        Ok(numbers)
    }

    /// Reads a version, all of it checked.
    pub(crate) fn version(&self, number: u64) -> Result<Version> {
        let path = self.version_path(number);
        let source = self.storage.open(&path).map_err(|e| match e.kind() {
            ErrorKind::NotFound => {
                let message = format!("there is no version {number}");
                Error::new(ErrorKind::NotFound, message).at(&self.root)
            }
            _ => e,
        })?;
        // One byte too many is enough to see that the file is too long.
        let len = source.len().min(MAX_VERSION_BYTES + 1);
        let bytes = source.read(0..len)?;
        let damaged = |e: FormatError| Error::from(e).at(&path);
        let format = format_of(&bytes).map_err(damaged)?;
        if format != FORMAT {
            let message = format!("expected version {FORMAT} of the format, found {format}");
            return Err(Error::new(ErrorKind::Unsupported, message).at(&path));
        }
        let version = Version::parse(&bytes).map_err(damaged)?;
        if version.version != number {
            let found = format!("version {}", version.version);
            return Err(damaged(FormatError::new(0, format!("version {number}"), found)));
        }
        Ok(version)
    }

    /// The chunk table of a column of a version.
    pub(crate) fn table(&self, version: u64, segments: &[(u64, u64)]) -> Result<Table> {
        let open = |(number, entries): &(u64, u64)| self.segment(version, *number, *entries);
        Ok(Table::new(segments.iter().map(open).collect::<Result<_>>()?))
    }

    pub(crate) fn segment(
        &self,
        version: u64,
        number: u64,
        entries: u64,
    ) -> Result<Arc<SegmentFile>> {
        kept(&self.segments, number, || {
            let path = self.segment_path(number);
            let source = self.storage.open(&path).map_err(|e| self.missing(version, &path, e))?;
            SegmentFile::open(source, entries).map_err(|e| e.at(&path))
        })
    }

    /// A superchunk of a column of a version.
    pub(crate) fn superchunk(
        &self,
        version: u64,
        column: &str,
        number: u32,
    ) -> Result<Arc<SuperchunkFile>> {
        kept(&self.superchunks, (column.to_owned(), number), || {
            let path = self.superchunk_path(column, number);
            let source = self.storage.open(&path).map_err(|e| self.missing(version, &path, e))?;
            SuperchunkFile::open(source, path)
        })
    }

    /// The error for a missing file that a version names: the version was removed, or something is
    /// wrong.
    fn missing(&self, version: u64, path: &Path, error: Error) -> Error {
        if error.kind() != ErrorKind::NotFound {
            return error;
        }
        match self.storage.stat(&self.version_path(version)) {
            Ok(None) => {
                let message = format!(
                    "version {version} was removed while it was open: open the array again"
                );
                Error::new(ErrorKind::Replaced, message).at(path)
            }
            _ => Error::new(ErrorKind::Damaged, "the file is missing").at(path),
        }
    }

    /// Forgets open superchunks, because they may have been overwritten.
    pub(crate) fn forget_superchunks(&self) {
        self.superchunks.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

/// The value of this key, created if it is not there.
fn kept<K: Eq + Hash, V>(
    map: &Mutex<HashMap<K, Arc<V>>>,
    key: K,
    make: impl FnOnce() -> Result<V>,
) -> Result<Arc<V>> {
    let lock = || map.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(found) = lock().get(&key) {
        return Ok(found.clone());
    }
    // Created outside of the lock, so that others can read at the same time; two threads may create
    // it, and one copy is kept.
    let made = Arc::new(make()?);
    let mut map = lock();
    if map.len() >= MOST_OPEN {
        map.clear();
    }
    Ok(map.entry(key).or_insert(made).clone())
}

/// Whether this file, in the directory that the format calls `dir`, was left unfinished by a killed
/// writer.
pub(super) fn is_leftover(dir: &str, path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    name.is_some_and(|name| names::is_leftover(dir, name))
}
