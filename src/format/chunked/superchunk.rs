//! A superchunk: a bloscpack container in which every slot holds one chunk.
//!
//! Chunks are found only by their offsets, so these are checked: an offset must lie between its
//! neighbours, a chunk is followed by its checksum, and the chunk table has its hash.

use std::borrow::Cow;
use std::ops::Range;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

use crate::format::FormatError;
use crate::format::blosc;
use crate::format::bloscpack::{
    Checksum, Header, MAX_RATIO, Metadata, MetadataCodec, MetadataHeader, MetadataOptions, Room,
    header, metadata, offsets,
};

/// The version byte of a container with unused bytes between its chunks: so that no
/// reader of bloscpack walks into them.
pub const ROOMY: u8 = header::WITH_ROOM;
/// The first chunk begins at a multiple of this.
pub const ALIGNMENT: usize = 64;
/// How many bytes [`Superchunk::head_len`] needs.
pub const START: usize = header::HEADER + metadata::HEADER;

/// The kind of content of a superchunk; the same for all superchunks of a column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Content {
    /// The type of the elements, as NumPy describes it.
    pub dtype: String,
    /// Elements of a chunk along each axis.
    pub chunk_shape: Vec<u64>,
    /// The directory of the column.
    pub column: String,
    /// Bytes of an uncompressed chunk.
    pub chunk_bytes: u32,
    /// The element size given to Blosc.
    pub typesize: u8,
    /// The checksum after each chunk.
    pub checksum: Checksum,
    /// Spare bytes after each chunk.
    pub room: u32,
}

/// The metadata, for people and for salvage.
#[derive(Serialize, Deserialize)]
struct About {
    container: String,
    dtype: String,
    chunkshape: Vec<u64>,
    column: String,
    chunks: Vec<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    blocks: Option<Vec<String>>,
}

const CONTAINER: &str = "kiste-superchunk";

impl Content {
    /// The bytes before the first chunk, for chunks with these numbers and compressed lengths.
    pub fn head(&self, numbers: &[u64], lens: &[usize]) -> Result<Vec<u8>, FormatError> {
        self.head_with(numbers, lens, &[])
    }

    /// As [`head`](Self::head), with the [checksums of the blocks](Self::block_digests) of each chunk.
    pub(crate) fn head_with(
        &self,
        numbers: &[u64],
        lens: &[usize],
        blocks: &[Vec<u8>],
    ) -> Result<Vec<u8>, FormatError> {
        let has_blocks = blocks.iter().any(|digests| !digests.is_empty());
        let about = About {
            container: CONTAINER.to_owned(),
            dtype: self.dtype.clone(),
            chunkshape: self.chunk_shape.clone(),
            column: self.column.clone(),
            chunks: numbers.to_vec(),
            blocks: has_blocks.then(|| blocks.iter().map(|one| STANDARD.encode(one)).collect()),
        };
        let text = serde_json::to_string(&about)
            .map_err(|e| FormatError::new(0, "what JSON can say", e.to_string()))?;
        let header = Header {
            offsets: true,
            metadata: true,
            checksum: self.checksum,
            typesize: self.typesize,
            chunk_size: Some(self.chunk_bytes),
            last_chunk: Some(self.chunk_bytes),
            nchunks: Some(lens.len() as u64),
            ..Header::default()
        };
        let mut head = header.encode().to_vec();
        if self.room > 0 {
            head[4] = ROOMY;
        }
        let compact = MetadataOptions::COMPACT;
        let around = START + compact.checksum.size() + lens.len() * offsets::ENTRY;
        let room = (around + text.len()).next_multiple_of(ALIGNMENT) - around;
        let room = Room::Bytes(u32::try_from(room).unwrap_or(u32::MAX));
        metadata::encode(&text, &MetadataOptions { room, ..compact }, &mut head)?;
        let mut at = (head.len() + lens.len() * offsets::ENTRY) as u64;
        let known: Vec<u64> = lens
            .iter()
            .map(|len| {
                let here = at;
                at += self.slot_len(*len);
                here
            })
            .collect();
        offsets::encode(&known, known.len() as u64, &mut head);
        Ok(head)
    }

    /// The checksums of the parts of a chunk, one behind the other: of what comes before its blocks, and of each
    /// block. Empty where there are none: only a CRC-32 is taken, of large chunks of several blocks that are
    /// never overwritten.
    pub(crate) fn block_digests(&self, chunk: &[u8]) -> Vec<u8> {
        let digests = if self.takes_block_digests() { digests_of(chunk) } else { None };
        digests.unwrap_or_default()
    }

    /// Whether blocks get checksums.
    pub(crate) fn takes_block_digests(&self) -> bool {
        self.checksum == Checksum::Crc32 && self.room == 0 && self.chunk_bytes > ONE_BLOCK
    }

    /// The bytes after a chunk: its digest and the room.
    pub fn tail(&self, chunk: &[u8]) -> Vec<u8> {
        let mut tail = self.checksum.digest(chunk).as_slice().to_vec();
        tail.resize(tail.len() + self.room as usize, 0);
        tail
    }

    /// The bytes that a chunk of this compressed length takes.
    pub fn slot_len(&self, len: usize) -> u64 {
        len as u64 + self.checksum.size() as u64 + u64::from(self.room)
    }
}

/// Chunks of no more bytes are read as a whole anyway: their blocks get no checksums.
const ONE_BLOCK: u32 = 64 << 10;
/// The bytes of the checksum of a block.
const BLOCK_DIGEST: usize = 4;

fn digests_of(chunk: &[u8]) -> Option<Vec<u8>> {
    let header = blosc::Header::parse(chunk).ok()?;
    if header.is_memcpyed() || header.blocks() < 2 {
        return None;
    }
    let mut digests = Vec::with_capacity((header.blocks() + 1) * BLOCK_DIGEST);
    let mut add = |part: &[u8]| digests.extend_from_slice(Checksum::Crc32.digest(part).as_slice());
    add(blosc::chunk_head(chunk, &header)?);
    for index in 0..header.blocks() {
        add(blosc::block_bytes(chunk, &header, index).ok()?);
    }
    Some(digests)
}

/// The checksums of the blocks of all chunks of a superchunk: see [`Content::block_digests`].
#[derive(Debug, Clone)]
pub(crate) struct BlockDigests(Vec<Vec<u8>>);

impl BlockDigests {
    /// The digests of a file that begins like this; `None` if it has none. `head` is all bytes
    /// before the first chunk.
    pub(crate) fn parse(head: &[u8]) -> Result<Option<BlockDigests>, FormatError> {
        #[derive(Deserialize)]
        struct About {
            #[serde(default)]
            blocks: Option<Vec<String>>,
        }
        let wrong = |found: String| FormatError::new(START as u64, "checksums of blocks", found);
        let Some(text) = plain_text(head)? else { return Ok(None) };
        let about: About = serde_json::from_str(&text).map_err(|e| wrong(e.to_string()))?;
        let Some(blocks) = about.blocks else { return Ok(None) };
        let decoded: Result<Vec<Vec<u8>>, _> =
            blocks.iter().map(|one| STANDARD.decode(one)).collect();
        decoded.map(|all| Some(BlockDigests(all))).map_err(|e| wrong(e.to_string()))
    }

    /// The digests of a slot, if it has any.
    pub(crate) fn of(&self, slot: u32) -> Option<&[u8]> {
        self.0.get(slot as usize).map(|digests| &digests[..]).filter(|digests| !digests.is_empty())
    }
}

/// The metadata of a superchunk that begins like this. `None` where they are compressed: ours are not, and
/// others could become any size.
fn plain_text(head: &[u8]) -> Result<Option<Cow<'_, str>>, FormatError> {
    let metadata = Metadata::parse(head, header::HEADER)?;
    match metadata.header().codec {
        MetadataCodec::None => metadata.text().map(Some),
        _ => Ok(None),
    }
}

/// The number of the chunk in each slot of a superchunk that begins like this, as it was when the
/// superchunk was written; `None` where that cannot be read.
pub(crate) fn recorded_chunks(head: &[u8]) -> Option<Vec<u64>> {
    #[derive(Deserialize)]
    struct About {
        chunks: Vec<u64>,
    }
    let about: About = serde_json::from_str(&plain_text(head).ok()??).ok()?;
    Some(about.chunks)
}

/// Whether what comes before the blocks of a chunk has the checksum that is recorded for the slot.
pub(crate) fn is_head_intact(digests: &[u8], chunk: &[u8]) -> Result<bool, FormatError> {
    let header = blosc::Header::parse(chunk)?;
    Ok(blosc::chunk_head(chunk, &header).is_some_and(|head| is_recorded(digests, 0, head)))
}

/// Whether a block of a chunk whose [head is intact](is_head_intact) is intact too.
pub(crate) fn is_block_intact(
    digests: &[u8],
    chunk: &[u8],
    index: usize,
) -> Result<bool, FormatError> {
    let header = blosc::Header::parse(chunk)?;
    Ok(is_recorded(digests, index + 1, blosc::block_bytes(chunk, &header, index)?))
}

fn is_recorded(digests: &[u8], at: usize, part: &[u8]) -> bool {
    let recorded = digests.chunks_exact(BLOCK_DIGEST).nth(at);
    recorded == Some(Checksum::Crc32.digest(part).as_slice())
}

/// Where the chunks of a superchunk are.
///
/// ```
/// use kiste::format::blosc::{Params, compress, decompress};
/// use kiste::format::bloscpack::Checksum;
/// use kiste::format::chunked::superchunk::{Content, Superchunk};
///
/// let content = Content {
///     dtype: "<f8".into(),
///     chunk_shape: vec![100],
///     column: "".into(),
///     chunk_bytes: 800,
///     typesize: 8,
///     checksum: Checksum::Crc32,
///     room: 0,
/// };
/// let mut chunk = Vec::new();
/// compress(&Params::default(), &[7; 800], &mut chunk)?;
/// let mut file = content.head(&[3], &[chunk.len()])?;
/// file.extend_from_slice(&chunk);
/// file.extend_from_slice(&content.tail(&chunk));
///
/// let superchunk = Superchunk::parse(&file, file.len() as u64)?;
/// let slot = superchunk.slot(0)?;
/// let bytes = superchunk.chunk(0, &file[slot.start as usize..slot.end as usize])?;
/// assert_eq!(decompress(bytes, 800)?, [7; 800]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct Superchunk {
    checksum: Checksum,
    chunk_bytes: u32,
    roomy: bool,
    head_len: u64,
    /// The length of the file.
    len: u64,
    offsets: Vec<u8>,
}

impl Superchunk {
    /// How many bytes come before the first chunk, from the first [`START`] of them. Unverified:
    /// compare it with the length of the file before reading.
    pub fn head_len(start: &[u8]) -> Result<u64, FormatError> {
        let (header, metadata) = headers(start)?;
        let section = u64::from(metadata.max_size) + metadata.checksum.size() as u64;
        let offsets = header.slots().checked_mul(offsets::ENTRY as u64);
        offsets
            .and_then(|len| len.checked_add(START as u64 + section))
            .ok_or_else(|| FormatError::new(16, "fewer chunks", header.slots().to_string()))
    }

    /// The superchunk of a file of `len` bytes that begins like this.
    pub fn parse(head: &[u8], len: u64) -> Result<Superchunk, FormatError> {
        let (header, metadata) = headers(head)?;
        let head_len = Superchunk::head_len(head)?;
        let at = START as u64 + u64::from(metadata.max_size) + metadata.checksum.size() as u64;
        let section = usize::try_from(at).ok().zip(usize::try_from(head_len).ok());
        let section = section.and_then(|(at, end)| head.get(at..end));
        let section = section.ok_or_else(|| {
            FormatError::new(0, format!("{head_len} bytes before the first chunk"), len.to_string())
        })?;
        let count = header.nchunks.unwrap_or(0);
        if count > u64::from(u32::MAX) || header.max_app_chunks != 0 {
            let found = format!("{count}, and room for {}", header.max_app_chunks);
            return Err(FormatError::new(16, "below 2^32 chunks and no more", found));
        }
        let sizes = (header.chunk_size, header.last_chunk);
        let (Some(chunk_bytes), true) = (header.chunk_size, sizes.0 == sizes.1) else {
            return Err(FormatError::new(8, "chunks of one size", format!("{sizes:?}")));
        };
        let roomy = head[4] == ROOMY;
        let (checksum, offsets) = (header.checksum, section.to_vec());
        Ok(Superchunk { checksum, chunk_bytes, roomy, head_len, len, offsets })
    }

    /// How many slots there are.
    pub fn slots(&self) -> u32 {
        // `parse` has checked that they are below 2^32.
        (self.offsets.len() / offsets::ENTRY) as u32
    }

    /// Bytes of an uncompressed chunk.
    pub fn chunk_bytes(&self) -> u32 {
        self.chunk_bytes
    }

    /// Whether a digest follows each chunk.
    pub fn has_checksums(&self) -> bool {
        self.checksum != Checksum::None
    }

    /// Whether there are unused bytes after the chunks.
    pub fn is_roomy(&self) -> bool {
        self.roomy
    }

    /// The bytes of the file that a slot has: a chunk, its digest, and the room.
    pub fn slot(&self, slot: u32) -> Result<Range<u64>, FormatError> {
        let table = offsets::Offsets::parse(&self.offsets, 0, u64::from(self.slots()))?;
        let start = table.get(u64::from(slot)).filter(|_| slot < self.slots());
        let last = slot.checked_add(1) == Some(self.slots());
        let end = if last { Some(self.len) } else { table.get(u64::from(slot) + 1) };
        // Nothing covers the offsets. One that was changed to point to another chunk is found
        // because it is not between its neighbours.
        let before = slot.checked_sub(1).and_then(|before| table.get(u64::from(before)));
        match (start, end) {
            (Some(start), Some(end))
                if start >= self.head_len
                    && before.is_none_or(|before| before < start)
                    && start < end
                    && end <= self.len =>
            {
                Ok(start..end)
            }
            _ => {
                let entry = u64::from(slot) * offsets::ENTRY as u64;
                let position = self.head_len - self.offsets.len() as u64 + entry;
                let expected = format!("where slot {slot} of {} begins and ends", self.slots());
                Err(FormatError::new(position, expected, format!("{start:?} and {end:?}")))
            }
        }
    }

    /// The chunk in the bytes of a slot, without what follows it.
    pub fn chunk<'a>(&self, slot: u32, bytes: &'a [u8]) -> Result<&'a [u8], FormatError> {
        self.split(slot, bytes).map(|(chunk, _, _)| chunk)
    }

    /// Whether the chunk in the bytes of a slot has the digest that follows it; true where there is
    /// none.
    pub fn is_intact(&self, slot: u32, bytes: &[u8]) -> Result<bool, FormatError> {
        let (chunk, digest, _) = self.split(slot, bytes)?;
        Ok(self.checksum.digest(chunk).as_slice() == digest)
    }

    /// Checks what no reader needs: the digest, and that unused bytes are zero. These are the bytes
    /// of a slot.
    pub fn check_slot(&self, slot: u32, bytes: &[u8]) -> Result<(), FormatError> {
        let (chunk, digest, room) = self.split(slot, bytes)?;
        if self.checksum.digest(chunk).as_slice() != digest {
            let expected = format!("slot {slot} with its {}", self.checksum);
            return Err(FormatError::new(0, expected, "another one"));
        }
        if room.iter().any(|byte| *byte != 0) || (!room.is_empty() && !self.roomy) {
            let position = (chunk.len() + digest.len()) as u64;
            let expected = format!("nothing behind the chunk in slot {slot}");
            return Err(FormatError::new(position, expected, "bytes"));
        }
        Ok(())
    }

    /// Checks what no reader needs: metadata and the order of the slots. These are the bytes
    /// before the first chunk.
    pub fn check_head(&self, content: &Content, head: &[u8]) -> Result<(), FormatError> {
        let (header, raw) = headers(head)?;
        let section = Metadata::parse(head, header::HEADER)?;
        let about: About = serde_json::from_str(&section.text()?).map_err(|e| {
            FormatError::new(START as u64, "what a superchunk holds", e.to_string())
        })?;
        let room = head.get(START + raw.stored_size as usize..START + raw.max_size as usize);
        let right = about.container == CONTAINER
            && (&about.dtype, &about.chunkshape) == (&content.dtype, &content.chunk_shape)
            && about.column == content.column
            && about.chunks.len() == self.slots() as usize
            && about.blocks.is_none_or(|blocks| blocks.len() == self.slots() as usize)
            && header.typesize == content.typesize
            && header.checksum == content.checksum
            && self.roomy == (content.room > 0)
            && (raw.options, raw.user_codec) == (0, [0; 8])
            && (raw.level == 0 || raw.codec != metadata::MetadataCodec::None)
            && room.is_some_and(|room| room.iter().all(|byte| *byte == 0));
        if !right {
            return Err(FormatError::new(0, "the head of a superchunk of this column", "another"));
        }
        let mut next = self.head_len;
        for slot in 0..self.slots() {
            let range = self.slot(slot)?;
            if range.start != next {
                let expected = format!("slot {slot} at {next}");
                return Err(FormatError::new(range.start, expected, "another place"));
            }
            next = range.end;
        }
        Ok(())
    }

    /// Checks what readers of single blocks rely on: the checksums of the blocks match the chunk in
    /// this slot.
    pub(crate) fn check_blocks(
        &self,
        slot: u32,
        bytes: &[u8],
        digests: &[u8],
    ) -> Result<(), FormatError> {
        if digests_of(self.chunk(slot, bytes)?).as_deref() == Some(digests) {
            return Ok(());
        }
        let expected = format!("the blocks of slot {slot} with their checksums");
        Err(FormatError::new(0, expected, "others"))
    }

    /// Chunk, digest and room.
    fn split<'a>(&self, slot: u32, bytes: &'a [u8]) -> Result<Slot<'a>, FormatError> {
        let header = blosc::Header::parse(bytes)?;
        if header.nbytes() as u64 != u64::from(self.chunk_bytes) {
            let expected = format!("a chunk of {} bytes in slot {slot}", self.chunk_bytes);
            return Err(FormatError::new(4, expected, header.nbytes().to_string()));
        }
        let digest_at = header.chunk_len();
        if header.nbytes() as u64 / MAX_RATIO > digest_at as u64 {
            let expected =
                format!("at most {} bytes from {digest_at}", digest_at as u64 * MAX_RATIO);
            return Err(FormatError::new(4, expected, header.nbytes().to_string()));
        }
        let room_at = digest_at.saturating_add(self.checksum.size());
        match (bytes.get(..digest_at), bytes.get(digest_at..room_at), bytes.get(room_at..)) {
            (Some(chunk), Some(digest), Some(room)) => Ok((chunk, digest, room)),
            _ => {
                let expected = format!("at most {} bytes in slot {slot}", bytes.len());
                Err(FormatError::new(12, expected, room_at.to_string()))
            }
        }
    }
}

/// Chunk, digest and room.
type Slot<'a> = (&'a [u8], &'a [u8], &'a [u8]);

/// Both headers. There are offsets and metadata.
fn headers(start: &[u8]) -> Result<(Header, MetadataHeader), FormatError> {
    let cut = || FormatError::new(0, "a superchunk", format!("{} bytes", start.len()));
    let (header, rest) = start.split_first_chunk::<{ header::HEADER }>().ok_or_else(cut)?;
    let mut plain = *header;
    if plain[4] == ROOMY {
        plain[4] = header::VERSION;
    }
    if plain[4] != header::VERSION {
        let expected = format!("version {} or {ROOMY}", header::VERSION);
        return Err(FormatError::new(4, expected, plain[4].to_string()));
    }
    let parsed = Header::parse(&plain)?;
    if !parsed.offsets || !parsed.metadata || parsed.nchunks == Some(0) {
        return Err(FormatError::new(
            5,
            "a container with offsets, metadata and chunks",
            "another",
        ));
    }
    let section = rest.first_chunk::<{ metadata::HEADER }>().ok_or_else(cut)?;
    Ok((parsed, MetadataHeader::parse(section, header::HEADER as u64)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::blosc::{Params, compress, decompress};

    fn content(room: u32) -> Content {
        Content {
            dtype: "<u2".into(),
            chunk_shape: vec![5, 10],
            column: "a/b".into(),
            chunk_bytes: 100,
            typesize: 2,
            checksum: Checksum::Crc32,
            room,
        }
    }

    fn file(content: &Content) -> Vec<u8> {
        let chunks = [1, 2, 3].map(|byte: u8| {
            let mut chunk = Vec::new();
            let params = Params { typesize: 2, ..Params::default() };
            compress(&params, &[byte; 100], &mut chunk).unwrap();
            chunk
        });
        let lens = chunks.each_ref().map(Vec::len);
        let mut file = content.head(&[7, 9, 10], &lens).unwrap();
        for chunk in chunks {
            file.extend_from_slice(&chunk);
            file.extend_from_slice(&content.tail(&chunk));
        }
        file
    }

    /// Everything that can be asked of a file, as one that reads it would.
    fn read(content: &Content, file: &[u8]) -> Result<Vec<Vec<u8>>, FormatError> {
        let len = Superchunk::head_len(file.get(..START).unwrap_or(file))?;
        let head = usize::try_from(len).ok().and_then(|len| file.get(..len));
        let head = head.ok_or_else(|| FormatError::new(0, "a head", "less"))?;
        let superchunk = Superchunk::parse(head, file.len() as u64)?;
        superchunk.check_head(content, head)?;
        let read = |slot| {
            let range = superchunk.slot(slot)?;
            let bytes = &file[range.start as usize..range.end as usize];
            superchunk.check_slot(slot, bytes)?;
            decompress(superchunk.chunk(slot, bytes)?, 100)
        };
        (0..superchunk.slots()).map(read).collect()
    }

    /// Also where a length of 32 bits and a little more is none.
    #[test]
    fn no_length_in_the_head_is_believed() {
        let file = file(&content(0));
        for at in (0..START).step_by(4) {
            for claim in [u32::MAX, u32::MAX - 8, 1 << 31] {
                let mut file = file.clone();
                file[at..at + 4].copy_from_slice(&claim.to_le_bytes());
                let _ = Superchunk::parse(&file, file.len() as u64);
                let _ = read(&content(0), &file);
            }
        }
    }

    #[test]
    fn comes_back_with_and_without_room() {
        for room in [0, 1, 40] {
            let content = content(room);
            let file = file(&content);
            let chunks = read(&content, &file).unwrap();
            assert_eq!(chunks, [vec![1; 100], vec![2; 100], vec![3; 100]]);
            assert_eq!(file[4], if room == 0 { 3 } else { 0x83 });
            let superchunk = Superchunk::parse(&file, file.len() as u64).unwrap();
            assert_eq!(superchunk.slot(0).unwrap().start % ALIGNMENT as u64, 0);
            assert!(superchunk.slot(3).is_err() && superchunk.slot(u32::MAX).is_err());
            assert_eq!(superchunk.is_roomy(), room > 0);
        }
    }

    #[test]
    fn every_truncation_and_every_flip_is_noticed() {
        for room in [0, 5] {
            let content = content(room);
            let file = file(&content);
            // These bytes held nothing.
            for len in 0..file.len() - room as usize {
                assert!(read(&content, &file[..len]).is_err(), "cut to {len}");
            }
            for bit in 0..file.len() * 8 {
                let mut flipped = file.clone();
                flipped[bit / 8] ^= 1 << (bit % 8);
                assert!(read(&content, &flipped).is_err(), "bit {bit}");
            }
        }
    }

    #[test]
    fn claims_are_not_believed() {
        let content = content(0);
        let file = file(&content);
        for (at, claim) in [(16, [0xff; 8]), (16, [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x0f])]
        {
            let mut file = file.clone();
            file[at..at + 8].copy_from_slice(&claim);
            let len = Superchunk::head_len(&file);
            assert!(len.is_err() || len.is_ok_and(|len| len > file.len() as u64));
            assert!(Superchunk::parse(&file, file.len() as u64).is_err());
        }
        let dense = Content { chunk_bytes: 1 << 30, ..content };
        assert_ne!(dense.head(&[0], &[16]).unwrap(), Vec::<u8>::new());
    }
}
