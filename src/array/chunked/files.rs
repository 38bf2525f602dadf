//! The files of a chunked array, each opened once: versions, segments, superchunks.
//!
//! Here bytes become values and errors get their file; which chunk is wanted and why is decided
//! above.

use std::collections::HashMap;
use std::fmt;
use std::hash::Hash;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use foldhash::fast::RandomState;

use crate::array::chunked::block_cache::Recent;
use crate::array::chunked::superchunk::SuperchunkFile;
use crate::error::{Error, ErrorKind, Result};
use crate::format::FormatError;
use crate::format::chunked::segment::{self, Entry, Place, Segment};
use crate::format::chunked::{FORMAT, MAX_VERSION_BYTES, Version, format_of, names};
use crate::storage::{Source, Storage};

/// So many files of a kind are kept open; beyond it those that were opened are forgotten. Each may
/// take a mapping, of which a process has some ten thousands.
const MOST_OPEN: usize = 4096;

/// What is compared before a chunk is believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Check {
    /// The hash of the uncompressed chunk, the first time that this array reads it. Nothing wrong
    /// gets through, also if someone put it there; but hashing takes as long as decompressing.
    Hashes,
    /// The checksum of the compressed chunk, the first time that this array reads it, which costs
    /// next to nothing; the hash where there is none (a chunk that is stored as it is). Where chunks
    /// have [room](crate::array::ArrayOptions::room) the hash too, and each time, as the checksum may
    /// belong to other content that they were written over with. Whatever is damaged by accident is
    /// found, but a file that was replaced by a whole one of the same kind. [`verify`] compares all
    /// hashes.
    ///
    /// [`verify`]: crate::array::ChunkedArray::verify
    #[default]
    Checksums,
    /// Nothing: what the decoder accepts is taken.
    Nothing,
}

/// An array's directory.
pub(crate) struct Files {
    pub(crate) storage: Arc<dyn Storage>,
    pub(crate) root: PathBuf,
    pub(crate) check: Check,
    pub(crate) recent: Recent,
    segments: Mutex<HashMap<u64, Arc<SegmentFile>>>,
    superchunks: Mutex<HashMap<(String, u32), Arc<SuperchunkFile>>>,
}

impl fmt::Debug for Files {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Files").field("root", &self.root).finish_non_exhaustive()
    }
}

impl Files {
    /// `cache`: so many bytes of decompressed blocks are kept.
    pub(crate) fn new(storage: Arc<dyn Storage>, root: &Path, check: Check, cache: usize) -> Files {
        Files {
            storage,
            root: root.to_path_buf(),
            check,
            recent: Recent::new(cache),
            segments: Mutex::default(),
            superchunks: Mutex::default(),
        }
    }

    /// A file or directory by its name in the format.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        name.split('/').filter(|part| !part.is_empty()).fold(self.root.clone(), |p, n| p.join(n))
    }

    pub(crate) fn version_path(&self, number: u64) -> PathBuf {
        self.path(names::VERSIONS).join(names::numbered(number))
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

    /// The numbers in the names of a directory's files. One that is too high is an error: what it is of
    /// must not be passed over.
    pub(crate) fn numbers_in<N>(
        &self,
        dir: &Path,
        number_of: impl Fn(&str) -> Option<N>,
        is_beyond: impl Fn(&str) -> bool,
    ) -> Result<Vec<N>> {
        let stat = self.storage.stat(dir).map_err(|e| Error::io(dir, e))?;
        if !stat.is_some_and(|stat| stat.is_dir()) {
            return Err(Error::io(dir, io::ErrorKind::NotFound.into()));
        }
        let files = self.storage.list(dir).map_err(|e| Error::io(dir, e))?;
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
            io::ErrorKind::NotFound => {
                let message = format!("there is no version {number}");
                Error::new(ErrorKind::NotFound, message).at(&self.root)
            }
            _ => Error::io(&path, e),
        })?;
        // One byte more than a version may have is enough to see that it has too many.
        let len = source.len().min(MAX_VERSION_BYTES + 1);
        let bytes = source.read(0..len).map_err(|e| Error::io(&path, e))?;
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
        Ok(Table { segments: segments.iter().map(open).collect::<Result<_>>()? })
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
            SegmentFile::open(source, &path, entries).map_err(|e| e.at(&path))
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

    /// A file that a version names is not there: the version was removed, or something is wrong.
    fn missing(&self, version: u64, path: &Path, error: io::Error) -> Error {
        if error.kind() != io::ErrorKind::NotFound {
            return Error::io(path, error);
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

    /// Forgets what is in superchunks: they may be written over.
    pub(crate) fn forget_superchunks(&self) {
        self.superchunks.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

/// The value of this key, made if it is not there.
fn kept<K: Eq + Hash, V>(
    map: &Mutex<HashMap<K, Arc<V>>>,
    key: K,
    make: impl FnOnce() -> Result<V>,
) -> Result<Arc<V>> {
    let lock = || map.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(found) = lock().get(&key) {
        return Ok(found.clone());
    }
    // Made outside of the lock, so that others read meanwhile; two may make it, one is kept.
    let made = Arc::new(make()?);
    let mut map = lock();
    if map.len() >= MOST_OPEN {
        map.clear();
    }
    Ok(map.entry(key).or_insert(made).clone())
}

/// A segment, found to be whole when it was opened.
pub(crate) struct SegmentFile {
    source: Source,
    /// The content, where it is not mapped.
    read: Vec<u8>,
    /// Entries by the beginning of their hashes; made when it is asked for.
    by_hash: OnceLock<HashMap<u64, u32, RandomState>>,
}

impl SegmentFile {
    fn open(source: Source, path: &Path, entries: u64) -> Result<SegmentFile> {
        let around = (segment::HEADER + segment::HASH) as u64;
        let len = entries.checked_mul(segment::ENTRY as u64).and_then(|n| n.checked_add(around));
        if len != Some(source.len()) {
            let expected = format!("a segment of {entries} entries");
            let found = format!("{} bytes", source.len());
            return Err(FormatError::new(0, expected, found).into());
        }
        let read = match source.mapped() {
            Some(_) => Vec::new(),
            None => source.read(0..source.len()).map_err(|e| Error::io(path, e))?.into_owned(),
        };
        let file = SegmentFile { source, read, by_hash: OnceLock::new() };
        Segment::parse(file.bytes())?;
        Ok(file)
    }

    fn bytes(&self) -> &[u8] {
        self.source.mapped().unwrap_or(&self.read)
    }

    /// What was whole when it was opened stays so; else it has no entries.
    pub(crate) fn entries(&self) -> Option<Segment<'_>> {
        Segment::assume(self.bytes()).ok()
    }

    /// Where a chunk of this hash is: of several places the one that was written last. Of two hashes
    /// that begin alike one is not found.
    fn with_hash(&self, hash: &[u8; segment::HASH]) -> Option<Place> {
        let entries = self.entries()?;
        let by_hash = self.by_hash.get_or_init(|| {
            let mut by_hash =
                HashMap::with_capacity_and_hasher(entries.len(), RandomState::default());
            let slot_of = |number: u32| {
                let place = entries.get(number as usize)?.place?;
                Some((place.superchunk, place.slot))
            };
            for (number, entry) in (0..u32::MAX).zip(entries.iter()) {
                let Some(place) = entry.place else { continue };
                let found = by_hash.entry(beginning(&place.hash)).or_insert(number);
                // Content is written a second time only where the first was damaged, and files
                // are numbered as they are written.
                if slot_of(*found) < Some((place.superchunk, place.slot)) {
                    *found = number;
                }
            }
            by_hash
        });
        let number = by_hash.get(&beginning(hash))?;
        entries.get(*number as usize)?.place.filter(|place| place.hash == *hash)
    }
}

fn beginning(hash: &[u8; segment::HASH]) -> u64 {
    let mut number = [0; 8];
    number.copy_from_slice(&hash[..8]);
    u64::from_le_bytes(number)
}

/// The chunk table of a column: its segments from old to new.
pub(crate) struct Table {
    segments: Vec<Arc<SegmentFile>>,
}

impl Table {
    /// Where a chunk is, if it is not all fill.
    pub(crate) fn find(&self, chunk: u64) -> Option<Place> {
        let find = |file: &Arc<SegmentFile>| file.entries()?.find(chunk);
        self.segments.iter().rev().find_map(find)?.place
    }

    /// Where a chunk of this hash is, in this version or one that it came from: also what newer
    /// entries have replaced, for its superchunks are there as long as its segment is. Of a chunk
    /// that was damaged and written anew there are several, of which one is wanted that is `whole`.
    pub(crate) fn with_hash(
        &self,
        hash: &[u8; segment::HASH],
        whole: impl Fn(&Place) -> bool,
    ) -> Option<Place> {
        self.segments.iter().rev().filter_map(|file| file.with_hash(hash)).find(whole)
    }

    /// All chunks that are stored, ascending.
    pub(crate) fn stored(&self) -> Vec<Entry> {
        self.merged(0, &[], true)
    }

    /// The entries of the segments from this one on, and these newer ones.
    pub(crate) fn merged(&self, from: usize, newer: &[Entry], oldest: bool) -> Vec<Entry> {
        let mut merged = newer.to_vec();
        for file in self.segments[from..].iter().rev() {
            let older = file.entries();
            merged = segment::merge(older.iter().flat_map(Segment::iter), merged, false);
        }
        if oldest {
            merged.retain(|entry| entry.place.is_some());
        }
        merged
    }

    /// Calls `with` on every entry of every segment, in no order and also on those that newer ones
    /// replace.
    pub(crate) fn each_entry(&self, mut with: impl FnMut(Entry)) {
        for file in &self.segments {
            file.entries().iter().flat_map(Segment::iter).for_each(&mut with);
        }
    }
}
