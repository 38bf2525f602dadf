//! The files of a chunked array, each opened once: versions, segments, superchunks.
//!
//! Here bytes become values and errors get their file; which chunk is wanted and why is decided
//! above.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::hash::Hash;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use foldhash::fast::RandomState;

use crate::array::recent::Recent;
use crate::error::{Error, ErrorKind, Result};
use crate::format::FormatError;
use crate::format::blosc::{self, Scratch};
use crate::format::chunked::segment::{self, Entry, Place, Segment};
use crate::format::chunked::superchunk::{START, Superchunk};
use crate::format::chunked::{FORMAT, MAX_VERSION_BYTES, Version, format_of, names};
use crate::storage::{Source, Storage};

/// So many files of a kind are kept open; beyond it those that were opened are forgotten. Each may
/// take a mapping, of which a process has some ten thousands.
const MOST_OPEN: usize = 4096;

/// How many superchunks this process has opened.
static OPENED: AtomicU64 = AtomicU64::new(0);

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
    recent: Recent,
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
        let mut numbers = self.numbers_in(&dir, names::number_of).map_err(|e| match e.kind() {
            ErrorKind::NotFound => {
                let message = "expected a chunked array, found no directory meta/versions";
                Error::new(ErrorKind::NotFound, message).at(&self.root)
            }
            _ => e,
        })?;
        numbers.sort_unstable();
        Ok(numbers)
    }

    /// The numbers in the names of a directory's files.
    pub(crate) fn numbers_in<N>(
        &self,
        dir: &Path,
        number_of: impl Fn(&str) -> Option<N>,
    ) -> Result<Vec<N>> {
        let stat = self.storage.stat(dir).map_err(|e| Error::io(dir, e))?;
        if !stat.is_some_and(|stat| stat.is_dir) {
            return Err(Error::io(dir, io::ErrorKind::NotFound.into()));
        }
        let files = self.storage.list(dir).map_err(|e| Error::io(dir, e))?;
        let name = |path: &PathBuf| number_of(path.file_name()?.to_str()?);
        Ok(files.iter().filter_map(name).collect())
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

/// A superchunk. Its head was looked at when it was opened; its chunks are when they are read.
pub(crate) struct SuperchunkFile {
    pub(crate) path: PathBuf,
    pub(crate) source: Source,
    pub(crate) layout: Superchunk,
    /// Another one each time that a file is opened.
    id: u64,
    /// A bit for each slot whose checksum or hash was found to be right: a file without room never
    /// changes.
    checked: Vec<AtomicU64>,
}

impl SuperchunkFile {
    pub(crate) fn open(source: Source, path: PathBuf) -> Result<SuperchunkFile> {
        let layout = SuperchunkFile::layout(&source, &path).map_err(|e| e.at(&path))?;
        let words = layout.slots().div_ceil(64) as usize;
        let checked = (0..words).map(|_| AtomicU64::new(0)).collect();
        let id = OPENED.fetch_add(1, Ordering::Relaxed);
        Ok(SuperchunkFile { path, source, layout, id, checked })
    }

    fn layout(source: &Source, path: &Path) -> Result<Superchunk> {
        let head = SuperchunkFile::head(source, path)?;
        Ok(Superchunk::parse(&head, source.len())?)
    }

    /// What is before the first chunk.
    pub(crate) fn head<'a>(source: &'a Source, path: &Path) -> Result<Cow<'a, [u8]>> {
        let io = |e| Error::io(path, e);
        let start = source.read(0..source.len().min(START as u64)).map_err(io)?;
        let len = Superchunk::head_len(&start)?;
        if len > source.len() {
            let expected = format!("{len} bytes before the first chunk");
            return Err(FormatError::new(0, expected, source.len().to_string()).into());
        }
        source.read(0..len).map_err(io)
    }

    /// The bytes of the file that a slot has.
    pub(crate) fn slot_len(&self, slot: u32) -> Option<u64> {
        self.layout.slot(slot).ok().map(|range| range.end - range.start)
    }

    /// The uncompressed bytes of a chunk: borrowed where they are mapped and not compressed.
    pub(crate) fn read(
        &self,
        place: &Place,
        check: Check,
        scratch: &mut Scratch,
    ) -> Result<Cow<'_, [u8]>> {
        if let Some(content) = self.plain(place, check)? {
            return Ok(Cow::Borrowed(content));
        }
        let mut content = vec![0; self.layout.chunk_bytes() as usize];
        self.read_into(place, &mut content, check, scratch)?;
        Ok(Cow::Owned(content))
    }

    /// The uncompressed bytes of a chunk from this one on.
    pub(crate) fn read_part(
        &self,
        place: &Place,
        start: usize,
        out: &mut [u8],
        files: &Files,
        scratch: &mut Scratch,
    ) -> Result<()> {
        let (check, range) = (files.check, start..start + out.len());
        if let Some(content) = self.plain(place, check)? {
            out.copy_from_slice(&content[range]);
            return Ok(());
        }
        let slot = self.layout.slot(place.slot).map_err(|e| self.error(e, 0))?;
        let start = slot.start;
        let bytes = self.source.read(slot).map_err(|e| Error::io(&self.path, e))?;
        let wrong = |e| self.error(e, start);
        let seen = self.is_seen(place, &bytes, start, check)?;
        let chunk = self.layout.chunk(place.slot, &bytes).map_err(wrong)?;
        if seen {
            let blocks = self.read_blocks(place.slot, chunk, range, out, &files.recent, scratch);
            return blocks.map_err(wrong);
        }
        let mut content = vec![0; self.layout.chunk_bytes() as usize];
        scratch.decompress_into(chunk, &mut content).map_err(wrong)?;
        self.check_hash(place, &content, start)?;
        out.copy_from_slice(&content[range]);
        Ok(())
    }

    /// This range of a chunk. Blocks of which it takes a part are kept for the next one.
    fn read_blocks(
        &self,
        slot: u32,
        chunk: &[u8],
        range: Range<usize>,
        out: &mut [u8],
        recent: &Recent,
        scratch: &mut Scratch,
    ) -> std::result::Result<(), FormatError> {
        let header = blosc::Header::parse(chunk)?;
        let size = header.blocksize();
        if header.is_memcpyed() || range.is_empty() || !recent.keeps(size) {
            return scratch.decompress_range(chunk, range, out).map(drop);
        }
        let mut rest = out;
        for index in range.start / size..=(range.end - 1) / size {
            let block = header.block(index);
            let part = range.start.max(block.start)..range.end.min(block.end);
            let to;
            (to, rest) = rest.split_at_mut(part.len());
            if part == block {
                scratch.decompress_range(chunk, block, to)?;
                continue;
            }
            let key = (self.id, slot, index as u32);
            let found = recent.get(&key);
            let content = match found {
                Some(content) => content,
                None => {
                    let mut content = vec![0; block.len()];
                    scratch.decompress_range(chunk, block.clone(), &mut content)?;
                    let content = Arc::new(content);
                    recent.put(key, content.clone());
                    content
                }
            };
            to.copy_from_slice(&content[part.start - block.start..part.end - block.start]);
        }
        Ok(())
    }

    /// A chunk where it lies, if it is mapped and not compressed, and is never written over.
    pub(crate) fn plain(&self, place: &Place, check: Check) -> Result<Option<&[u8]>> {
        if self.source.mapped().is_none() || self.layout.is_roomy() {
            return Ok(None);
        }
        let slot = self.layout.slot(place.slot).map_err(|e| self.error(e, 0))?;
        let start = slot.start;
        let bytes = self.source.read(slot).map_err(|e| Error::io(&self.path, e))?;
        let Cow::Borrowed(bytes) = bytes else { return Ok(None) };
        let wrong = |e| self.error(e, start);
        let chunk = self.layout.chunk(place.slot, bytes).map_err(wrong)?;
        let Some(at) = plain_content(chunk) else { return Ok(None) };
        // The hash that is seen once says as much as the checksum would each time.
        let content = &chunk[at..at + self.layout.chunk_bytes() as usize];
        if check != Check::Nothing && !self.is_checked(place.slot) {
            self.check_hash(place, content, start)?;
        }
        Ok(Some(content))
    }

    /// The whole of a chunk, decompressed to where it is wanted.
    pub(crate) fn read_into(
        &self,
        place: &Place,
        out: &mut [u8],
        check: Check,
        scratch: &mut Scratch,
    ) -> Result<()> {
        let slot = self.layout.slot(place.slot).map_err(|e| self.error(e, 0))?;
        let start = slot.start;
        let bytes = self.source.read(slot).map_err(|e| Error::io(&self.path, e))?;
        let wrong = |e| self.error(e, start);
        let unseen = !self.is_seen(place, &bytes, start, check)?;
        let chunk = self.layout.chunk(place.slot, &bytes).map_err(wrong)?;
        scratch.decompress_into(chunk, out).map_err(wrong)?;
        if unseen {
            self.check_hash(place, out, start)?;
        }
        Ok(())
    }

    /// Whether this content can be read from a slot that was written with it. The checksum says so;
    /// where there is none, or it may belong to other content, all bytes are compared.
    pub(crate) fn holds(&self, place: &Place, content: &[u8]) -> bool {
        let look = || -> Result<bool> {
            let slot = self.layout.slot(place.slot)?;
            let bytes = self.source.read(slot).map_err(|e| Error::io(&self.path, e))?;
            let chunk = self.layout.chunk(place.slot, &bytes)?;
            if self.layout.has_checksums() && !self.layout.is_roomy() {
                return Ok(self.layout.is_intact(place.slot, &bytes)?);
            }
            if let Some(at) = plain_content(chunk) {
                return Ok(chunk.get(at..at + content.len()) == Some(content));
            }
            let mut found = vec![0; content.len()];
            Scratch::default().decompress_into(chunk, &mut found)?;
            Ok(found == content)
        };
        self.layout.chunk_bytes() as usize == content.len() && look().unwrap_or(false)
    }

    /// Whether a chunk, in the bytes of its slot, needs no comparison of its hash: because none is
    /// wanted, or it was made before. The checksum is compared here.
    fn is_seen(&self, place: &Place, bytes: &[u8], start: u64, check: Check) -> Result<bool> {
        if check == Check::Nothing || self.is_checked(place.slot) {
            return Ok(true);
        }
        let intact = || self.layout.is_intact(place.slot, bytes).map_err(|e| self.error(e, start));
        if check == Check::Checksums && !intact()? {
            return Err(self.mismatch("checksum", start, bytes.len()));
        }
        let wants_hash = self.wants_hash(check);
        if !wants_hash {
            self.note_checked(place.slot);
        }
        Ok(!wants_hash)
    }

    /// Whether chunks of this file are compared with their hashes.
    fn wants_hash(&self, check: Check) -> bool {
        match check {
            Check::Hashes => true,
            Check::Checksums => !self.layout.has_checksums() || self.layout.is_roomy(),
            Check::Nothing => false,
        }
    }

    fn check_hash(&self, place: &Place, content: &[u8], start: u64) -> Result<()> {
        if *blake3::hash(content).as_bytes() != place.hash {
            return Err(self.mismatch("hash", start, 0));
        }
        self.note_checked(place.slot);
        Ok(())
    }

    /// Not where there is room: what is in a slot now need not be what is there next time.
    fn note_checked(&self, slot: u32) {
        if self.layout.is_roomy() {
            return;
        }
        if let Some(word) = self.checked.get(slot as usize / 64) {
            word.fetch_or(1 << (slot % 64), Ordering::Relaxed);
        }
    }

    fn is_checked(&self, slot: u32) -> bool {
        let word = self.checked.get(slot as usize / 64);
        word.is_some_and(|word| word.load(Ordering::Relaxed) >> (slot % 64) & 1 == 1)
    }

    fn mismatch(&self, what: &str, start: u64, len: usize) -> Error {
        let message = format!("expected content of the recorded {what}, found another");
        let error = Error::new(ErrorKind::Damaged, message).at(&self.path);
        error.with_range(start..start + (len as u64).max(1))
    }

    fn error(&self, error: FormatError, start: u64) -> Error {
        Error::from(error.behind(start)).at(&self.path)
    }
}

/// Where in a chunk its content is as it is, if it was only copied.
fn plain_content(chunk: &[u8]) -> Option<usize> {
    let header = blosc::Header::parse(chunk).ok()?;
    let end = blosc::HEADER.checked_add(header.nbytes())?;
    (header.is_memcpyed() && chunk.len() >= end).then_some(blosc::HEADER)
}

/// An error that is about one chunk.
pub(crate) fn in_chunk(error: Error, column: &str, coordinates: &[u64]) -> Error {
    let column = if column.is_empty() { String::new() } else { format!(" of {column}") };
    let message = format!("chunk {coordinates:?}{column}: {}", error.message());
    let mut told = Error::new(error.kind(), message);
    if let Some(path) = error.path() {
        told = told.at(path);
    }
    match error.range() {
        Some(range) => told.with_range(range),
        None => told,
    }
}
