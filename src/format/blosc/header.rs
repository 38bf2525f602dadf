//! The 16 bytes before every chunk, and what follows from them alone.

use std::ops::Range;

use super::{Codec, Shuffle};
use crate::format::FormatError;

/// Bytes of the header.
pub const HEADER: usize = 16;

/// The most bytes a chunk can hold, so that its own length is still an `i32`: 2³¹ − 1 − 16.
pub const MAX_CHUNK: usize = i32::MAX as usize - HEADER;

/// The largest block: three of them, and the lengths of the most splits, are still an `i32`.
pub const MAX_BLOCK: usize = (i32::MAX as usize - MAX_TYPESIZE * 4) / 3;

/// The largest element.
pub const MAX_TYPESIZE: usize = u8::MAX as usize;

/// The version of the format that c-blosc 1.x writes.
const VERSION: u8 = 2;

/// Versions of C-Blosc2, whose chunks are another format.
const BLOSC2: Range<u8> = 3..6;

/// The version of the codec's own format: 1 for all of them.
const CODEC_VERSION: u8 = 1;

/// Bytes of the position of a block and of the length of a split.
pub(super) const WORD: usize = 4;

/// Elements of more bytes than this are not split.
pub(super) const MAX_SPLITS: usize = 16;

/// Below this number of bytes the C library neither splits nor compresses.
pub(super) const MIN_BUFFER: usize = 128;

pub(super) const BYTE_SHUFFLE: u8 = 0x01;
pub(super) const MEMCPYED: u8 = 0x02;
pub(super) const BIT_SHUFFLE: u8 = 0x04;
pub(super) const RESERVED: u8 = 0x08;
pub(super) const NOT_SPLIT: u8 = 0x10;
pub(super) const CODEC_SHIFT: u8 = 5;

/// The fields of a chunk header, checked for contradictions.
///
/// ```
/// use kiste::format::blosc::{Codec, Header, Params, compress};
///
/// let mut chunk = Vec::new();
/// compress(&Params { codec: Codec::Lz4, ..Params::default() }, &[7; 1000], &mut chunk)?;
/// let header = Header::parse(&chunk)?;
/// assert_eq!((header.codec(), header.nbytes()), (Codec::Lz4, 1000));
/// assert_eq!(header.chunk_len(), chunk.len());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    pub(super) flags: u8,
    codec: Codec,
    pub(super) typesize: u8,
    nbytes: u32,
    blocksize: u32,
    ctbytes: u32,
}

impl Header {
    /// Parses the first [`HEADER`] bytes; what follows them is not looked at.
    ///
    /// The sizes are such as go with one another: a chunk is never more than 16 bytes longer than
    /// what is in it, a block lies within its chunk, and the chunk has room for the positions of
    /// its blocks.
    pub fn parse(chunk: &[u8]) -> Result<Header, FormatError> {
        let Some(&[version, codec_version, flags, typesize, ref sizes @ ..]) =
            chunk.first_chunk::<HEADER>()
        else {
            let found = format!("{} bytes", chunk.len());
            return Err(FormatError::new(0, "a Blosc header of 16 bytes", found));
        };
        // First, so that a Blosc2 chunk is named as such instead of failing at a flag it redefines.
        check_versions(version, codec_version, flags)?;
        let Some(codec) = Codec::from_format(flags >> CODEC_SHIFT) else {
            let found = format!("number {}", flags >> CODEC_SHIFT);
            return Err(FormatError::new(2, "a codec of Blosc, a number from 0 to 4", found));
        };
        if typesize == 0 {
            return Err(FormatError::new(3, "elements of at least one byte", "0"));
        }
        let word = |at: usize| u32_at(sizes, at).unwrap_or_default();
        let header = Header {
            flags,
            codec,
            typesize,
            nbytes: word(0),
            blocksize: word(WORD),
            ctbytes: word(2 * WORD),
        };
        header.check_sizes()?;
        Ok(header)
    }

    fn check_sizes(&self) -> Result<(), FormatError> {
        let (nbytes, blocksize, ctbytes) = (self.nbytes(), self.blocksize(), self.chunk_len());
        if nbytes > MAX_CHUNK {
            let expected = format!("at most {MAX_CHUNK} bytes in a chunk");
            return Err(FormatError::new(4, expected, nbytes.to_string()));
        }
        // An empty chunk has no blocks, and programs write any size for them.
        if nbytes > 0 && !(1..=nbytes.min(MAX_BLOCK)).contains(&blocksize) {
            let expected = format!("blocks of 1 to {} bytes", nbytes.min(MAX_BLOCK));
            return Err(FormatError::new(8, expected, blocksize.to_string()));
        }
        // Writers fall back to a plain copy before a chunk becomes longer.
        let most = nbytes + HEADER;
        if self.is_memcpyed() && ctbytes != most {
            let expected = format!("a chunk of {most} bytes, header and copied bytes");
            return Err(FormatError::new(12, expected, ctbytes.to_string()));
        }
        // Neither sum can overflow: there are at most `MAX_CHUNK` blocks in 64 bits.
        let least = HEADER as u64 + WORD as u64 * self.positions() as u64;
        if (ctbytes as u64) < least || ctbytes > most {
            let expected = format!("a chunk of {least} to {most} bytes");
            return Err(FormatError::new(12, expected, ctbytes.to_string()));
        }
        Ok(())
    }

    /// The codec of the blocks. Chunks do not tell LZ4 from LZ4HC; both are [`Codec::Lz4`] here.
    pub fn codec(&self) -> Codec {
        self.codec
    }

    /// The filter applied to the bytes before compression.
    ///
    /// A [copied](Header::is_memcpyed) chunk is never shuffled, even if its flags say so.
    pub fn shuffle(&self) -> Shuffle {
        match self.flags {
            _ if self.is_memcpyed() => Shuffle::None,
            flags if flags & BYTE_SHUFFLE != 0 && self.typesize > 1 => Shuffle::Byte,
            flags if flags & BIT_SHUFFLE != 0 => Shuffle::Bit,
            _ => Shuffle::None,
        }
    }

    /// Whether the bytes stand behind the header as they are.
    pub fn is_memcpyed(&self) -> bool {
        self.flags & MEMCPYED != 0
    }

    /// Bytes of an element.
    pub fn typesize(&self) -> usize {
        usize::from(self.typesize)
    }

    /// Bytes that are in the chunk, uncompressed.
    pub fn nbytes(&self) -> usize {
        self.nbytes as usize
    }

    /// Bytes of each block, uncompressed, but perhaps the last.
    pub fn blocksize(&self) -> usize {
        self.blocksize as usize
    }

    /// Bytes of the whole chunk with its header (`ctbytes`).
    pub fn chunk_len(&self) -> usize {
        self.ctbytes as usize
    }

    /// The number of blocks.
    pub fn blocks(&self) -> usize {
        match self.nbytes {
            0 => 0,
            nbytes => nbytes.div_ceil(self.blocksize) as usize,
        }
    }

    /// The uncompressed bytes that this block holds.
    ///
    /// # Panics
    ///
    /// If there is no such block.
    pub fn block(&self, index: usize) -> Range<usize> {
        assert!(index < self.blocks(), "block {index} of {}", self.blocks());
        let start = index * self.blocksize();
        start..start + self.blocksize().min(self.nbytes() - start)
    }

    /// Into how many streams this block was split: one for each byte of an element, or one.
    ///
    /// # Panics
    ///
    /// If there is no such block.
    pub fn splits(&self, index: usize) -> usize {
        let size = self.block(index).len();
        let split = self.flags & NOT_SPLIT == 0
            && self.typesize() <= MAX_SPLITS
            && size / self.typesize() >= MIN_BUFFER
            && size == self.blocksize();
        if split { self.typesize() } else { 1 }
    }

    /// How many positions of blocks there are behind the header.
    pub(super) fn positions(&self) -> usize {
        if self.is_memcpyed() { 0 } else { self.blocks() }
    }
}

/// Refuses what only other versions of Blosc can read, and says so.
fn check_versions(version: u8, codec_version: u8, flags: u8) -> Result<(), FormatError> {
    if version != VERSION {
        let expected = format!("version {VERSION} of the Blosc format");
        let name = if BLOSC2.contains(&version) { ", which is Blosc2" } else { "" };
        return Err(FormatError::new(0, expected, format!("version {version}{name}")));
    }
    if codec_version != CODEC_VERSION {
        let expected = format!("version {CODEC_VERSION} of the codec");
        return Err(FormatError::new(1, expected, codec_version.to_string()));
    }
    if flags & RESERVED != 0 {
        return Err(FormatError::new(2, "flags of Blosc 1", format!("{flags:#04x}")));
    }
    if flags & (BYTE_SHUFFLE | BIT_SHUFFLE) == BYTE_SHUFFLE | BIT_SHUFFLE {
        let found = "the flags of a Blosc2 header, shuffle by both bytes and bits";
        return Err(FormatError::new(2, "flags of Blosc 1", found));
    }
    Ok(())
}

/// A header. The sizes are at most 2³² − 1, as in every chunk.
pub(super) fn to_bytes(
    flags: u8,
    typesize: u8,
    nbytes: usize,
    blocksize: usize,
    ctbytes: usize,
) -> [u8; HEADER] {
    let mut header = [0; HEADER];
    header[..4].copy_from_slice(&[VERSION, CODEC_VERSION, flags, typesize]);
    for (place, size) in header[4..].chunks_exact_mut(WORD).zip([nbytes, blocksize, ctbytes]) {
        place.copy_from_slice(&(size as u32).to_le_bytes());
    }
    header
}

/// The little-endian number at a position, if there are four bytes.
pub(super) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    let word = bytes.get(at..)?.first_chunk::<WORD>()?;
    Some(u32::from_le_bytes(*word))
}
