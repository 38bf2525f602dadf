//! An open superchunk: its chunks, whole and in part, and which of them are verified.
//!
//! Not here: which chunks are needed, and where they are, which the tables know.

use std::borrow::Cow;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use crate::array::chunked::block_cache::BlockCache;
use crate::array::chunked::options::Check;
use crate::error::{Error, ErrorKind, Result};
use crate::format::FormatError;
use crate::format::blosc::{self, Scratch};
use crate::format::chunked::segment::Place;
use crate::format::chunked::superchunk::{
    BlockDigests, START, Superchunk, is_block_intact, is_head_intact,
};
use crate::storage::Source;

/// Blocks of this size and more are cached when they are asked for again: one row of many needs them once, and
/// memory that was never touched before costs as much as decompressing.
const LARGE: usize = 64 << 10;

/// How many superchunks this process has opened.
static OPENED: AtomicU64 = AtomicU64::new(0);

/// A superchunk. Its head was checked when it was opened; its chunks are when they are read.
pub(crate) struct SuperchunkFile {
    pub(crate) path: PathBuf,
    pub(crate) source: Source,
    pub(crate) layout: Superchunk,
    /// Different each time a file is opened.
    id: u64,
    /// A bit for each slot whose checksum or hash was verified: a file without room never changes.
    checked: Vec<AtomicU64>,
    /// The checksums of blocks, once a part of a chunk was read.
    blocks: OnceLock<Option<BlockDigests>>,
}

impl SuperchunkFile {
    pub(crate) fn open(source: Source, path: PathBuf) -> Result<SuperchunkFile> {
        let layout = SuperchunkFile::layout(&source).map_err(|e| e.at(&path))?;
        let words = layout.slots().div_ceil(64) as usize;
        let checked = (0..words).map(|_| AtomicU64::new(0)).collect();
        let id = OPENED.fetch_add(1, Ordering::Relaxed);
        let blocks = OnceLock::new();
        Ok(SuperchunkFile { path, source, layout, id, checked, blocks })
    }

    fn layout(source: &Source) -> Result<Superchunk> {
        let head = SuperchunkFile::head(source)?;
        Ok(Superchunk::parse(&head, source.len())?)
    }

    /// The bytes before the first chunk.
    pub(crate) fn head(source: &Source) -> Result<Cow<'_, [u8]>> {
        let start = source.read(0..source.len().min(START as u64))?;
        let len = Superchunk::head_len(&start)?;
        if len > source.len() {
            let expected = format!("{len} bytes before the first chunk");
            return Err(FormatError::new(0, expected, source.len().to_string()).into());
        }
        source.read(0..len)
    }

    /// The checksums of blocks, if they are recorded.
    pub(crate) fn block_digests(&self) -> Option<&BlockDigests> {
        // Where they cannot be read, checksums of whole chunks are as good.
        let parse = || BlockDigests::parse(&SuperchunkFile::head(&self.source).ok()?).ok()?;
        self.blocks.get_or_init(parse).as_ref()
    }

    /// The bytes of the file that a slot has.
    pub(crate) fn slot_len(&self, slot: u32) -> Option<u64> {
        self.layout.slot(slot).ok().map(|range| range.end - range.start)
    }

    /// A chunk as it is stored; neither verified nor decompressed.
    pub(crate) fn packed(&self, place: &Place) -> Result<Cow<'_, [u8]>> {
        let slot = self.layout.slot(place.slot).map_err(|e| self.error(e, 0))?;
        let start = slot.start;
        Ok(match self.source.read(slot)? {
            Cow::Borrowed(bytes) => Cow::Borrowed(
                self.layout.chunk(place.slot, bytes).map_err(|e| self.error(e, start))?,
            ),
            Cow::Owned(mut bytes) => {
                let len =
                    self.layout.chunk(place.slot, &bytes).map_err(|e| self.error(e, start))?.len();
                bytes.truncate(len);
                Cow::Owned(bytes)
            }
        })
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
        (check, cache): (Check, &BlockCache),
        scratch: &mut Scratch,
    ) -> Result<()> {
        let range = start..start + out.len();
        if let Some(content) = self.plain(place, check)? {
            out.copy_from_slice(&content[range]);
            return Ok(());
        }
        let slot = self.layout.slot(place.slot).map_err(|e| self.error(e, 0))?;
        let start = slot.start;
        let bytes = self.source.read(slot)?;
        let wrong = |e| self.error(e, start);
        let chunk = self.layout.chunk(place.slot, &bytes).map_err(wrong)?;
        // If a chunk was not read before, only the needed blocks are verified, if that can be done.
        let digests = match check {
            Check::Checksums if !self.is_checked(place.slot) => self.digests_of(place.slot, chunk),
            _ => None,
        };
        if digests.is_some() || self.is_seen(place, &bytes, start, check)? {
            let blocks = Blocks { file: self, slot: place.slot, start, chunk, digests };
            return blocks.read(range, out, cache, scratch);
        }
        let mut content = vec![0; self.layout.chunk_bytes() as usize];
        scratch.decompress_into(chunk, &mut content).map_err(wrong)?;
        self.check_hash(place, &content, start)?;
        out.copy_from_slice(&content[range]);
        Ok(())
    }

    /// Whether the first and the last block of this range are cached.
    pub(crate) fn has_cached(
        &self,
        place: &Place,
        range: Range<usize>,
        cache: &BlockCache,
    ) -> bool {
        let header = || {
            let slot = self.layout.slot(place.slot).ok()?;
            let start = self.source.mapped()?.get(usize::try_from(slot.start).ok()?..)?;
            let header = blosc::Header::parse(start).ok()?;
            // Nothing of it was compared with the layout yet, and a chunk without bytes may have any size of blocks.
            let is_ours = header.nbytes() as u64 == u64::from(self.layout.chunk_bytes());
            (is_ours && !header.is_memcpyed() && header.blocksize() > 0).then_some(header)
        };
        let Some(header) = header().filter(|_| !range.is_empty()) else { return false };
        let size = header.blocksize();
        [range.start / size, (range.end - 1) / size]
            .iter()
            .all(|index| cache.contains(&(self.id, place.slot, *index as u32)))
    }

    /// The checksums of the blocks of this chunk. A file with room has none: its chunks may be others next
    /// time.
    fn digests_of(&self, slot: u32, chunk: &[u8]) -> Option<&[u8]> {
        let header = blosc::Header::parse(chunk).ok()?;
        let may = self.layout.has_checksums() && !self.layout.is_roomy();
        let has_some = may && header.blocks() > 1 && !header.is_memcpyed();
        if has_some { self.block_digests()?.of(slot) } else { None }
    }

    /// A chunk in place, if it is mapped, not compressed, and never overwritten.
    pub(crate) fn plain(&self, place: &Place, check: Check) -> Result<Option<&[u8]>> {
        if self.source.mapped().is_none() || self.layout.is_roomy() {
            return Ok(None);
        }
        let slot = self.layout.slot(place.slot).map_err(|e| self.error(e, 0))?;
        let start = slot.start;
        let bytes = self.source.read(slot)?;
        let Cow::Borrowed(bytes) = bytes else { return Ok(None) };
        let wrong = |e| self.error(e, start);
        let chunk = self.layout.chunk(place.slot, bytes).map_err(wrong)?;
        let Some(at) = plain_content(chunk) else { return Ok(None) };
        // Verifying the hash once is as good as verifying the checksum each time.
        let content = &chunk[at..at + self.layout.chunk_bytes() as usize];
        if check != Check::Nothing && !self.is_checked(place.slot) {
            self.check_hash(place, content, start)?;
        }
        Ok(Some(content))
    }

    /// A whole chunk, decompressed into a buffer.
    pub(crate) fn read_into(
        &self,
        place: &Place,
        out: &mut [u8],
        check: Check,
        scratch: &mut Scratch,
    ) -> Result<()> {
        let slot = self.layout.slot(place.slot).map_err(|e| self.error(e, 0))?;
        let start = slot.start;
        let bytes = self.source.read(slot)?;
        let wrong = |e| self.error(e, start);
        let unseen = !self.is_seen(place, &bytes, start, check)?;
        let chunk = self.layout.chunk(place.slot, &bytes).map_err(wrong)?;
        scratch.decompress_into(chunk, out).map_err(wrong)?;
        if unseen {
            self.check_hash(place, out, start)?;
        }
        Ok(())
    }

    /// Whether this content can be read from a slot that was written with it. The checksum decides;
    /// without one, or if it may belong to other content, all bytes are compared.
    pub(crate) fn holds(&self, place: &Place, content: &[u8]) -> bool {
        let look = || -> Result<bool> {
            let slot = self.layout.slot(place.slot)?;
            let bytes = self.source.read(slot)?;
            let chunk = self.layout.chunk(place.slot, &bytes)?;
            if self.has_own_checksums() {
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

    /// Whether the checksum of a chunk is right now; `false` without one, or if it may belong to
    /// other content.
    pub(crate) fn is_intact(&self, place: &Place) -> bool {
        let look = || -> Result<bool> {
            let bytes = self.source.read(self.layout.slot(place.slot)?)?;
            Ok(self.layout.is_intact(place.slot, &bytes)?)
        };
        self.has_own_checksums() && look().unwrap_or(false)
    }

    /// Whether chunks have checksums that never belong to other content.
    fn has_own_checksums(&self) -> bool {
        self.layout.has_checksums() && !self.layout.is_roomy()
    }

    /// Whether a chunk, in the bytes of its slot, needs no comparison of its hash: because none is
    /// wanted, or it was verified before. The checksum is compared here.
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
            Check::Checksums => !self.has_own_checksums(),
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

    /// Not with room: the content of a slot may be different next time.
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

/// A chunk that is read in part, block by block.
struct Blocks<'a> {
    file: &'a SuperchunkFile,
    slot: u32,
    /// Where the slot begins in the file.
    start: u64,
    chunk: &'a [u8],
    /// The checksums to compare; `None` if the chunk was verified as a whole.
    digests: Option<&'a [u8]>,
}

impl Blocks<'_> {
    /// This range of the chunk. Partly covered blocks are cached for the next one, large ones from the second
    /// time on.
    fn read(
        &self,
        range: Range<usize>,
        out: &mut [u8],
        cache: &BlockCache,
        scratch: &mut Scratch,
    ) -> Result<()> {
        let wrong = |e| self.file.error(e, self.start);
        let header = blosc::Header::parse(self.chunk).map_err(wrong)?;
        let size = header.blocksize();
        self.verify(|digests| is_head_intact(digests, self.chunk))?;
        if header.is_memcpyed() || range.is_empty() || !cache.keeps(size) {
            if !range.is_empty() {
                for index in range.start / size..=(range.end - 1) / size {
                    self.verify(|digests| is_block_intact(digests, self.chunk, index))?;
                }
            }
            return scratch.decompress_range(self.chunk, range, out).map(drop).map_err(wrong);
        }
        let mut rest = out;
        for index in range.start / size..=(range.end - 1) / size {
            let block = header.block(index);
            let part = range.start.max(block.start)..range.end.min(block.end);
            let to;
            (to, rest) = rest.split_at_mut(part.len());
            if part == block {
                self.decompress(index, block, to, scratch)?;
                continue;
            }
            let key = (self.file.id, self.slot, index as u32);
            let found = cache.get(&key);
            let content = match found {
                Some(content) => content,
                None if block.len() >= LARGE && !cache.is_asked_again(&key) => {
                    self.decompress(index, part, to, scratch)?;
                    continue;
                }
                None => {
                    let mut content = vec![0; block.len()];
                    self.decompress(index, block.clone(), &mut content, scratch)?;
                    let content = Arc::new(content);
                    cache.put(key, content.clone());
                    content
                }
            };
            to.copy_from_slice(&content[part.start - block.start..part.end - block.start]);
        }
        Ok(())
    }

    /// This range of the block of this number.
    fn decompress(
        &self,
        index: usize,
        range: Range<usize>,
        to: &mut [u8],
        scratch: &mut Scratch,
    ) -> Result<()> {
        self.verify(|digests| is_block_intact(digests, self.chunk, index))?;
        let done = scratch.decompress_range(self.chunk, range, to);
        done.map(drop).map_err(|e| self.file.error(e, self.start))
    }

    /// Compares checksums, if there are any to compare.
    fn verify(&self, compare: impl FnOnce(&[u8]) -> Result<bool, FormatError>) -> Result<()> {
        let Some(digests) = self.digests else { return Ok(()) };
        match compare(digests) {
            Ok(true) => Ok(()),
            Ok(false) => Err(self.file.mismatch("checksum", self.start, self.chunk.len())),
            Err(e) => Err(self.file.error(e, self.start)),
        }
    }
}

/// Where the content of a chunk is, if it was only copied.
fn plain_content(chunk: &[u8]) -> Option<usize> {
    let header = blosc::Header::parse(chunk).ok()?;
    let end = blosc::HEADER.checked_add(header.nbytes())?;
    (header.is_memcpyed() && chunk.len() >= end).then_some(blosc::HEADER)
}

/// An error that is about one chunk.
pub(crate) fn in_chunk(error: Error, column: &str, coordinates: &[u64]) -> Error {
    let column = if column.is_empty() { String::new() } else { format!(" of {column}") };
    let message = format!("chunk {coordinates:?}{column}: {}", error.message());
    let mut located = Error::new(error.kind(), message);
    if let Some(path) = error.path() {
        located = located.at(path);
    }
    match error.range() {
        Some(range) => located.with_range(range),
        None => located,
    }
}
