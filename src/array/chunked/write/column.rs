//! One column of a commit: which of its chunks changed, and where they go.
//!
//! Chunks are hashed, compared with those that are stored, and compressed, on all threads. New ones
//! wait for a superchunk to fill, or for the end.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Range;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use foldhash::fast::RandomState;
use rayon::prelude::*;

use crate::array::chunked::columns;
use crate::array::chunked::superchunk::SuperchunkFile;
use crate::array::chunked::table::Table;
use crate::array::chunked::version::OpenVersion;
use crate::array::chunked::write::directory::NewFile;
use crate::array::chunked::write::in_place::InPlace;
use crate::array::chunked::write::numbers::{Numbers, too_many_superchunks};
use crate::array::chunked::write::proposal::NewChunk;
use crate::array::chunked::write::renumbering::{NewNumber, OldNumber, Renumbering};
use crate::error::{Error, ErrorKind, Result};
use crate::format::blosc::{self, Codec, Params, Scratch, Shuffle};
use crate::format::chunked::segment::{Entry, HASH, Place};
use crate::format::chunked::superchunk::Content;
use crate::storage::expect_memory;

/// The target size of a block, and the most splits that Blosc makes of one.
const BLOCK: usize = 128 << 10;
const MOST_SPLITS: usize = 16;

type Digest = [u8; HASH];

/// A chunk that may have changed: its number, the one that it had in the base, and its content.
pub(super) type Change<'a> = (NewNumber, Option<OldNumber>, NewChunk<'a>);

/// The chunks of one column, on their way to files.
pub(super) struct ColumnWriter<'a> {
    base: &'a OpenVersion,
    column: usize,
    params: Params,
    content: Content,
    /// The most chunks in a file.
    superchunk: usize,
    /// Only where chunks are overwritten in place. Equal chunks share a slot in all other arrays.
    in_place: Option<InPlace>,
    /// The changes to the table; `None` is fill.
    entries: BTreeMap<NewNumber, Option<Place>>,
    /// The chunks that were added, by hash, and how many bytes they take.
    new: HashMap<Digest, (Place, u64), RandomState>,
    /// Chunks of the superchunk that is not full yet: each with what follows it in the file.
    pending: Vec<(NewNumber, Vec<u8>)>,
    next: u64,
    chunks: i64,
    /// `None` where that is not known, as a file of the base is damaged.
    cbytes: Option<i64>,
    has_files: bool,
    /// Buffers that threads keep from one chunk to the next, one for each that has worked.
    workers: Mutex<Vec<Worker>>,
}

/// Memory that a chunk goes through.
#[derive(Default)]
struct Worker {
    scratch: Scratch,
    /// The chunk, put together from an array.
    chunk: Vec<u8>,
    /// A column of it.
    field: Vec<u8>,
    packed: Vec<u8>,
}

/// A chunk of one column that changed: its number, where it was, and what it is now.
struct Changed {
    number: NewNumber,
    before: Option<Place>,
    /// `None` is fill.
    hash: Option<Digest>,
    /// Where the base has a chunk of this hash.
    known: Option<Place>,
    /// The compressed chunk; only from the thread that was first to find that the hash is new.
    packed: Option<Vec<u8>>,
}

impl<'a> ColumnWriter<'a> {
    pub(super) fn new(base: &'a OpenVersion, column: usize, next: u64) -> Result<ColumnWriter<'a>> {
        let storage = &base.version.storage;
        let content = base.content(column)?;
        // Spare room is written behind each chunk, and is in memory twice until then.
        expect_memory((content.room as usize).saturating_mul(2))?;
        let unsupported = |what: String| Error::new(ErrorKind::Unsupported, what);
        let cname = &storage.cparams.cname;
        let codec: Codec = cname.parse().map_err(|_| unsupported(format!("codec {cname:?}")))?;
        let shuffle = match storage.cparams.shuffle {
            0 => Shuffle::None,
            1 => Shuffle::Byte,
            2 => Shuffle::Bit,
            other => return Err(unsupported(format!("shuffle {other}"))),
        };
        let (level, typesize) = (storage.cparams.clevel, usize::from(content.typesize));
        let blocksize = block_size(codec, level, typesize);
        let params = Params { codec, level, shuffle, typesize, blocksize };
        Ok(ColumnWriter {
            base,
            column,
            params,
            content,
            superchunk: storage.superchunk as usize,
            in_place: InPlace::of(base, column)?,
            entries: BTreeMap::new(),
            new: HashMap::default(),
            pending: Vec::new(),
            next,
            chunks: 0,
            cbytes: Some(0),
            has_files: false,
            workers: Mutex::default(),
        })
    }

    /// Takes changed chunks: those that are new become pending, all get their entries.
    pub(super) fn add(&mut self, batch: &[Change<'_>]) -> Result<()> {
        if batch.is_empty() {
            return Ok(());
        }
        let base = self.base;
        let table = base.table(self.column)?;
        let seen = Mutex::default();
        let compare = |(number, before, new): &Change<'_>| {
            let before = before.and_then(|before| table.find(before.get()));
            self.compare(*number, before, new, table, &seen).transpose()
        };
        let changed: std::result::Result<Vec<Changed>, blosc::EncodeError> =
            base.run(|| batch.par_iter().filter_map(compare).collect());
        let mut changed = changed?;
        let packed = changed.iter_mut().filter_map(|one| Some((one.hash?, one.packed.take()?)));
        let mut packed: HashMap<Digest, Vec<u8>, RandomState> = packed.collect();
        // In the order of the changes, no matter which thread was first: the files are always the
        // same.
        for Changed { number, before, hash, known, .. } in changed {
            let Some(hash) = hash else {
                self.note(number, before, None);
                continue;
            };
            let found = match (self.new.get(&hash), known) {
                (Some(found), _) => *found,
                (None, Some(place)) => (place, self.len_of(&place).unwrap_or(0)),
                (None, None) => {
                    let chunk = packed.remove(&hash).expect("who saw the hash first packed it");
                    self.place(number, before, hash, chunk)?
                }
            };
            self.new.insert(hash, found);
            self.note(number, before, Some(found));
        }
        Ok(())
    }

    /// The superchunks that are full, and at the end also the one that is not.
    pub(super) fn full_superchunks(
        &mut self,
        numbers: &mut Numbers,
        all: bool,
    ) -> Result<Vec<NewFile>> {
        let mut files = Vec::new();
        let pending = &mut self.pending;
        while pending.len() >= self.superchunk || (all && !pending.is_empty()) {
            let count = pending.len().min(self.superchunk);
            let chunks = pending.drain(..count).map(|(number, chunk)| (number.get(), chunk));
            let chunks = chunks.collect();
            let content = &self.content;
            let (base, column) = (self.base, self.column);
            let made = base.run(|| numbers.superchunk(&base.files, column, content, chunks));
            files.push(made?.1);
            self.has_files = true;
        }
        self.next = numbers.next_superchunk(self.column);
        Ok(files)
    }

    /// Overwrites slots, where chunks are overwritten in place.
    pub(super) fn overwrite(&self, durable: bool) -> Result<()> {
        match &self.in_place {
            Some(in_place) => in_place.write(self.base, &self.content, durable),
            None => Ok(()),
        }
    }

    pub(super) fn base(&self) -> &'a OpenVersion {
        self.base
    }

    /// The number of the column.
    pub(super) fn number(&self) -> usize {
        self.column
    }

    /// The changes to the table, ascending.
    pub(super) fn entries(&self) -> impl Iterator<Item = Entry> {
        self.entries.iter().map(|(number, place)| number.entry(*place))
    }

    /// How many more chunks are stored than in the base.
    pub(super) fn added_chunks(&self) -> i64 {
        self.chunks
    }

    /// How many more bytes they take; `None` where it is not known how many those took that they replace.
    pub(super) fn added_bytes(&self) -> Option<i64> {
        self.cbytes
    }

    /// The known bytes of the chunks in a table.
    pub(super) fn bytes_of(&self, table: &Table) -> u64 {
        let places = table.stored().into_iter().filter_map(|entry| entry.place);
        places.map(|place| self.len_of(&place).unwrap_or(0)).sum()
    }

    /// Whether superchunks were written.
    pub(super) fn has_files(&self) -> bool {
        self.has_files
    }

    /// The directory of the superchunks.
    pub(super) fn dir(&self) -> PathBuf {
        self.base.files.column_dir(&self.content.column)
    }

    /// How a chunk has changed; `None` if it has not. It is hashed and compressed in one go, while
    /// it is in the CPU's cache.
    fn compare(
        &self,
        number: NewNumber,
        before: Option<Place>,
        new: &NewChunk<'_>,
        table: &Table,
        seen: &Mutex<HashSet<Digest, RandomState>>,
    ) -> std::result::Result<Option<Changed>, blosc::EncodeError> {
        let workers = || self.workers.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = workers().pop();
        let mut worker = kept.unwrap_or_default();
        let Worker { scratch, chunk, field, packed } = &mut worker;
        let content = self.content(new, chunk, field).filter(|content| !self.is_fill(content));
        let hash = content.map(|content| *blake3::hash(content).as_bytes());
        let changed = match (content, hash) {
            (Some(content), Some(digest)) if !self.is_held(before, digest, content) => {
                let whole = |place: &Place| self.is_whole(place, content);
                // A chunk that an earlier batch has a place for is not looked up again.
                let placed = self.new.contains_key(&digest);
                let search = self.in_place.is_none() && !placed;
                let known = search.then(|| table.with_hash(&digest, whole)).flatten();
                let first = known.is_none()
                    && !placed
                    && seen.lock().unwrap_or_else(PoisonError::into_inner).insert(digest);
                let pack = || {
                    // Some blocks of a larger chunk may be unchanged.
                    let place = before.filter(|_| content.len() > BLOCK);
                    let file = place.and_then(|place| Some((self.superchunk(&place)?, place)));
                    let old = file.as_ref().and_then(|(file, place)| {
                        let known = self.changed(new).filter(|_| file.is_intact(place));
                        Some((file.packed(place).ok()?, known))
                    });
                    let old = old.as_ref().map(|(old, known)| (&old[..], known.clone()));
                    pack(&self.params, &self.content, content, old, scratch, packed)
                };
                let packed = first.then(pack).transpose()?;
                Some(Changed { number, before, hash, known, packed })
            }
            (None, _) if before.is_some() => {
                Some(Changed { number, before, hash, known: None, packed: None })
            }
            _ => None,
        };
        workers().push(worker);
        Ok(changed)
    }

    /// Whether a chunk is unchanged, and can still be read: one that was damaged since is written
    /// again.
    fn is_held(&self, before: Option<Place>, digest: Digest, content: &[u8]) -> bool {
        before.is_some_and(|place| place.hash == digest && self.is_whole(&place, content))
    }

    /// The file of a chunk of the base.
    fn superchunk(&self, place: &Place) -> Option<Arc<SuperchunkFile>> {
        let (files, version) = (&self.base.files, self.base.version.version);
        files.superchunk(version, &self.content.column, place.superchunk).ok()
    }

    /// Whether this content can be read from where a table says it is.
    fn is_whole(&self, place: &Place, content: &[u8]) -> bool {
        self.superchunk(place).is_some_and(|file| file.holds(place, content))
    }

    /// The column's part of a chunk; `None` is fill.
    fn content<'b>(
        &self,
        new: &'b NewChunk<'_>,
        chunk: &'b mut Vec<u8>,
        field: &'b mut Vec<u8>,
    ) -> Option<&'b [u8]> {
        let bytes = match new {
            NewChunk::Fill => return None,
            NewChunk::Bytes(bytes) | NewChunk::Changed(bytes, _) => bytes,
            NewChunk::Of(chunks, cell) => chunks.chunk(*cell, chunk),
        };
        let leaf = &self.base.columns[self.column].leaf;
        let item = self.base.dtype.item_size();
        if leaf.size == item {
            return Some(bytes);
        }
        field.resize(bytes.len() / item * leaf.size, 0);
        columns::take_out(bytes, item, leaf.offset, leaf.size, field);
        Some(field)
    }

    /// The bytes of the column's part of a chunk that may have changed; `None` where that is not known.
    fn changed(&self, new: &NewChunk<'_>) -> Option<Range<usize>> {
        let NewChunk::Changed(_, bytes) = new else { return None };
        let leaf = &self.base.columns[self.column].leaf;
        let item = self.base.dtype.item_size();
        Some(bytes.start / item * leaf.size..bytes.end.div_ceil(item) * leaf.size)
    }

    fn is_fill(&self, content: &[u8]) -> bool {
        let fill = &self.base.columns[self.column].fill;
        content.chunks_exact(fill.len()).all(|element| element == &fill[..])
    }

    /// Finds a place for a chunk: its own slot, if that may be overwritten, or a new one.
    fn place(
        &mut self,
        number: NewNumber,
        before: Option<Place>,
        hash: Digest,
        chunk: Vec<u8>,
    ) -> Result<(Place, u64)> {
        let len = chunk.len() as u64;
        if let (Some(before), Some(_)) = (before, &self.in_place) {
            let slot_len = self.len_of(&before).unwrap_or(0);
            if let Some(in_place) = &mut self.in_place {
                if in_place.fits(self.base, &self.content, &before, len, slot_len) {
                    let place = Place { hash, ..before };
                    in_place.push(place, chunk);
                    return Ok((place, slot_len));
                }
            }
        }
        let slot = self.pending.len() % self.superchunk;
        let ahead = (self.pending.len() / self.superchunk) as u64;
        let superchunk = u32::try_from(self.next.saturating_add(ahead))
            .map_err(|_| too_many_superchunks(&self.base.files.column_dir(&self.content.column)))?;
        self.pending.push((number, chunk));
        Ok((Place { superchunk, slot: slot as u32, hash }, len))
    }

    /// Records where a chunk is now.
    fn note(&mut self, number: NewNumber, before: Option<Place>, now: Option<(Place, u64)>) {
        if let Some(place) = before {
            self.uncount(&place);
        }
        if let Some((_, len)) = now {
            self.chunks += 1;
            self.cbytes = self.cbytes.map(|bytes| bytes + len as i64);
        }
        self.entries.insert(number, now.map(|(place, _)| place));
    }

    /// A chunk of the base is not one of the new version.
    fn uncount(&mut self, place: &Place) {
        self.chunks -= 1;
        let len = self.len_of(place);
        self.cbytes = self.cbytes.zip(len).map(|(bytes, len)| bytes - len as i64);
    }

    /// The bytes that a chunk takes; `None` if that is unknown because the file is damaged: a commit is a
    /// way to replace what is damaged.
    fn len_of(&self, place: &Place) -> Option<u64> {
        self.superchunk(place).and_then(|file| file.slot_len(place.slot))
    }

    /// Makes chunks outside the new grid fill, so that they do not come back when the array grows.
    pub(super) fn drop_outside(&mut self, numbers: &Renumbering<'_>) -> Result<()> {
        if !numbers.shrinks() {
            return Ok(());
        }
        for entry in self.base.table(self.column)?.stored() {
            if numbers.kept(&entry).is_some() {
                continue;
            }
            if let Some(place) = entry.place {
                self.uncount(&place);
            }
            if let Some(number) = numbers.cut_off(&entry) {
                self.entries.insert(number, None);
            }
        }
        Ok(())
    }
}

/// A chunk compressed, with what follows it in a file. `before` is what it replaces, if anything, with the bytes
/// that may have changed since, where that is known.
fn pack(
    params: &Params,
    content: &Content,
    bytes: &[u8],
    before: Option<(&[u8], Option<Range<usize>>)>,
    scratch: &mut Scratch,
    buffer: &mut Vec<u8>,
) -> std::result::Result<Vec<u8>, blosc::EncodeError> {
    // The compressor needs as much space as the chunk has; the result is copied to memory of the
    // right size. A chunk that is stored uncompressed has that size anyway.
    let mut packed = Vec::new();
    if params.level == 0 {
        packed.reserve_exact(content.slot_len(bytes.len() + blosc::HEADER) as usize);
        scratch.compress(params, bytes, &mut packed)?;
    } else {
        buffer.clear();
        match before {
            Some((before, Some(changed))) => {
                scratch.compress_changed_in(params, before, bytes, changed, buffer)?
            }
            Some((before, None)) => scratch.compress_changed(params, before, bytes, buffer)?,
            None => scratch.compress(params, bytes, buffer)?,
        };
        packed.reserve_exact(content.slot_len(buffer.len()) as usize);
        packed.extend_from_slice(buffer);
    }
    let tail = content.tail(&packed);
    packed.extend_from_slice(&tail);
    Ok(packed)
}

/// The block size, where Blosc's own choice is too large to read single rows of a chunk: all
/// touched blocks are decompressed. (Where Blosc splits blocks, it multiplies the given size by
/// the size of an element.) Above level 6 and with the slower codecs compression matters more, and
/// larger blocks compress a few percent better.
fn block_size(codec: Codec, level: u8, typesize: usize) -> Option<usize> {
    let fast = matches!(codec, Codec::BloscLz | Codec::Lz4) && (1..=6).contains(&level);
    (fast && typesize <= MOST_SPLITS).then(|| BLOCK / typesize)
}
