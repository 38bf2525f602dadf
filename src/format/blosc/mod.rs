//! One Blosc-1 chunk: its header, its blocks, compression and decompression.
//!
//! A chunk is a header of 16 bytes, the positions of its blocks, and the blocks, each compressed on
//! its own:
//!
//! | at | bytes | |
//! | --- | --- | --- |
//! | 0 | 1 | version of the format: 2 |
//! | 1 | 1 | version of the codec: 1 |
//! | 2 | 1 | flags: 0x01 bytes shuffled, 0x02 copied, 0x04 bits shuffled, 0x10 blocks not split; the upper three bits are the codec |
//! | 3 | 1 | bytes of an element |
//! | 4 | 4 | bytes in the chunk, uncompressed |
//! | 8 | 4 | bytes of a block, uncompressed |
//! | 12 | 4 | bytes of the chunk |
//! | 16 | 4 each | where each block begins, counted from the start of the chunk, in any order |
//!
//! A block is one stream, or one for each byte of an element if it is split, each with its length
//! in 4 bytes before it; a stream as long as its content *is* its content. A copied chunk has its
//! content at 16, as it is. Numbers are little-endian.
//!
//! Chunks from [`compress`] are the same bytes as from python-blosc with one thread, if both are
//! linked to the same versions of the codecs. That takes the C library (feature `c-blosc`).
//! Without it, safe Rust reads every codec and writes LZ4 and zlib. Even with it, zlib and LZ4 with
//! shuffled bits are read in Rust, which is faster, and so is Snappy, which would need a C++
//! compiler.
//!
//! [`decompress_range`] decompresses only the blocks that a range touches.
//!
//! Absent on purpose: threads (a caller has many chunks), environment variables such as
//! `BLOSC_CLEVEL`, which python-blosc obeys, Blosc2, and the containers that chunks stand in.

use std::fmt;
use std::ops::Range;
use std::str::FromStr;

use super::FormatError;
use crate::error::{Error, ErrorKind, Remedy};

mod header;
mod validate;
mod patch;
mod shuffle;
mod blosclz;
pub(crate) mod safe;
#[cfg(feature = "c-blosc")]
mod c;
#[cfg(not(feature = "c-blosc"))]
#[path = "no_c.rs"]
mod c;
#[cfg(test)]
mod tests;

pub use header::Header;
#[doc(hidden)]
pub use header::{HEADER, MAX_BLOCK, MAX_CHUNK, MAX_TYPESIZE};
pub use validate::validate;

/// The codec that compresses the blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Codec {
    /// BloscLZ, Blosc's own codec: fast, and the default of bloscpack.
    BloscLz,
    /// LZ4: fastest.
    Lz4,
    /// LZ4 with a slower, better compressor. Chunks are indistinguishable from [`Codec::Lz4`]
    /// chunks.
    Lz4hc,
    /// Snappy: read, never written.
    Snappy,
    /// zlib: slow, for old readers.
    Zlib,
    /// Zstandard: the best compression.
    Zstd,
}

impl Codec {
    /// All of them.
    pub const ALL: [Codec; 6] =
        [Codec::BloscLz, Codec::Lz4, Codec::Lz4hc, Codec::Snappy, Codec::Zlib, Codec::Zstd];

    /// Whether [`compress`] can write chunks of this codec, which depends on the feature `c-blosc`.
    pub fn is_writable(self) -> bool {
        c::writes(self)
    }

    /// The name that python-blosc uses.
    pub fn name(self) -> &'static str {
        match self {
            Codec::BloscLz => "blosclz",
            Codec::Lz4 => "lz4",
            Codec::Lz4hc => "lz4hc",
            Codec::Snappy => "snappy",
            Codec::Zlib => "zlib",
            Codec::Zstd => "zstd",
        }
    }

    fn from_format(number: u8) -> Option<Codec> {
        let codecs = [Codec::BloscLz, Codec::Lz4, Codec::Snappy, Codec::Zlib, Codec::Zstd];
        codecs.get(usize::from(number)).copied()
    }

    /// The number in the flags of a chunk.
    fn format(self) -> u8 {
        match self {
            Codec::BloscLz => 0,
            Codec::Lz4 | Codec::Lz4hc => 1,
            Codec::Snappy => 2,
            Codec::Zlib => 3,
            Codec::Zstd => 4,
        }
    }
}

impl fmt::Display for Codec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Codec {
    type Err = EncodeError;

    fn from_str(name: &str) -> Result<Codec, EncodeError> {
        let codec = Codec::ALL.into_iter().find(|codec| codec.name() == name);
        codec.ok_or_else(|| EncodeError::Codec(name.to_owned()))
    }
}

/// How elements are reordered before compression, so that similar bytes are next to each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Shuffle {
    /// Nothing.
    None,
    /// First the first bytes of all elements, then the second bytes, and so on.
    #[default]
    Byte,
    /// The same with bits: slower, better where the upper bits of a byte vary least.
    Bit,
}

impl Shuffle {
    /// All of them.
    pub const ALL: [Shuffle; 3] = [Shuffle::None, Shuffle::Byte, Shuffle::Bit];

    /// The name of what is reordered: `none`, `byte` or `bit`.
    pub fn name(self) -> &'static str {
        match self {
            Shuffle::None => "none",
            Shuffle::Byte => "byte",
            Shuffle::Bit => "bit",
        }
    }
}

/// How to compress. The default is bloscpack's: BloscLZ at level 7, byte shuffle, elements of
/// 8 bytes; or LZ4 in builds that cannot write BloscLZ.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Params {
    /// The codec.
    pub codec: Codec,
    /// Compression level, from 0 (copy) to 9.
    pub level: u8,
    /// How elements are reordered first.
    pub shuffle: Shuffle,
    /// Bytes of an element, from 1 to 255.
    pub typesize: usize,
    /// Bytes of a block, at most [`MAX_BLOCK`], rounded to whole elements and at least 128. `None`
    /// derives it from codec, level and size.
    pub blocksize: Option<usize>,
}

impl Default for Params {
    fn default() -> Params {
        let codec = if Codec::BloscLz.is_writable() { Codec::BloscLz } else { Codec::Lz4 };
        Params { codec, level: 7, shuffle: Shuffle::Byte, typesize: 8, blocksize: None }
    }
}

impl Params {
    /// Whether this many bytes can be compressed with these parameters.
    pub fn check(&self, len: usize) -> Result<(), EncodeError> {
        if self.level > 9 {
            return Err(EncodeError::Level(self.level));
        }
        if !(1..=MAX_TYPESIZE).contains(&self.typesize) {
            return Err(EncodeError::TypeSize(self.typesize));
        }
        if let Some(size) = self.blocksize.filter(|size| !(1..=MAX_BLOCK).contains(size)) {
            return Err(EncodeError::BlockSize(size));
        }
        if len > MAX_CHUNK {
            return Err(EncodeError::Length(len));
        }
        if !self.codec.is_writable() {
            return Err(EncodeError::Unsupported(self.codec));
        }
        Ok(())
    }
}

/// Why bytes cannot be compressed. Nothing has been appended to the output.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum EncodeError {
    /// There is no codec of this name.
    Codec(String),
    /// This build does not write chunks of this codec: Snappy is never written, and without the
    /// feature `c-blosc` only LZ4 and zlib are written.
    Unsupported(Codec),
    /// A level above 9.
    Level(u8),
    /// Elements of no bytes or of more than 255.
    TypeSize(usize),
    /// Blocks of no bytes or of more than [`MAX_BLOCK`].
    BlockSize(usize),
    /// More bytes than [`MAX_CHUNK`].
    Length(usize),
}

impl fmt::Display for EncodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EncodeError::Codec(name) => {
                let names = Codec::ALL.map(Codec::name).join(", ");
                write!(f, "expected a codec of Blosc ({names}), found {name:?}")
            }
            EncodeError::Unsupported(Codec::Snappy) => {
                write!(f, "expected a codec that can be written, found snappy, which is only read")
            }
            EncodeError::Unsupported(codec) => write!(
                f,
                "expected lz4 or zlib, which are written without the feature c-blosc, found {codec}"
            ),
            EncodeError::Level(level) => write!(f, "expected a level of 0 to 9, found {level}"),
            EncodeError::TypeSize(size) => {
                write!(f, "expected elements of 1 to {MAX_TYPESIZE} bytes, found {size}")
            }
            EncodeError::BlockSize(size) => {
                write!(f, "expected blocks of 1 to {MAX_BLOCK} bytes, found {size}")
            }
            EncodeError::Length(len) => {
                write!(f, "expected at most {MAX_CHUNK} bytes for a chunk, found {len}")
            }
        }
    }
}

impl std::error::Error for EncodeError {}

impl From<EncodeError> for Error {
    fn from(error: EncodeError) -> Error {
        let message = error.to_string();
        match error {
            EncodeError::Unsupported(codec) if codec != Codec::Snappy => {
                Error::new(ErrorKind::Unsupported, message).with_remedy(Remedy::Feature("c-blosc"))
            }
            _ => Error::new(ErrorKind::Invalid, message),
        }
    }
}

/// Appends one chunk to `out` and returns its length, which is at most 16 more than the length of
/// `bytes`.
///
/// ```
/// use kiste::format::blosc::{Params, Shuffle, compress, decompress};
///
/// let numbers: Vec<u8> = (0..1000_u32).flat_map(u32::to_le_bytes).collect();
/// let params = Params { typesize: 4, shuffle: Shuffle::Byte, ..Params::default() };
/// let mut chunk = Vec::new();
/// let length = compress(&params, &numbers, &mut chunk)?;
/// assert_eq!(length, chunk.len());
/// assert!(length < numbers.len() / 2);
/// assert_eq!(decompress(&chunk, 4000)?, numbers);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn compress(params: &Params, bytes: &[u8], out: &mut Vec<u8>) -> Result<usize, EncodeError> {
    Scratch::default().compress(params, bytes, out)
}

/// Decompresses a chunk into `out`, which must have exactly its uncompressed length.
///
/// The chunk is [validated](validate) first. After an error the content of `out` is unspecified.
pub fn decompress_into(chunk: &[u8], out: &mut [u8]) -> Result<Header, FormatError> {
    Scratch::default().decompress_into(chunk, out)
}

/// Decompresses a chunk that holds no more than `limit` bytes.
///
/// A chunk of a few bytes can claim to hold two gigabytes, so the caller sets the limit.
pub fn decompress(chunk: &[u8], limit: usize) -> Result<Vec<u8>, FormatError> {
    let nbytes = Header::parse(chunk)?.nbytes();
    if nbytes > limit {
        let expected = format!("a chunk of at most {limit} bytes");
        return Err(FormatError::new(4, expected, nbytes.to_string()));
    }
    let mut out = vec![0; nbytes];
    decompress_into(chunk, &mut out)?;
    Ok(out)
}

/// Decompresses this range of the uncompressed bytes into all of `out`.
///
/// Only the blocks that the range touches are checked and decompressed.
///
/// ```
/// use kiste::format::blosc::{Params, compress, decompress_range};
///
/// let bytes: Vec<u8> = (0..100_000).map(|i| (i / 1000) as u8).collect();
/// let mut chunk = Vec::new();
/// compress(&Params::default(), &bytes, &mut chunk)?;
/// let mut part = [0; 4];
/// decompress_range(&chunk, 41_998..42_002, &mut part)?;
/// assert_eq!(part, [41, 41, 42, 42]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Panics
///
/// If `out` does not have the length of the range.
pub fn decompress_range(
    chunk: &[u8],
    range: Range<usize>,
    out: &mut [u8],
) -> Result<Header, FormatError> {
    Scratch::default().decompress_range(chunk, range, out)
}

/// Memory that is reused from one chunk to the next. With many small chunks, give each thread one.
///
/// Its buffers grow to the largest block seen.
///
/// ```
/// use kiste::format::blosc::{Params, Scratch};
///
/// let mut scratch = Scratch::default();
/// let mut chunk = Vec::new();
/// for byte in 0..10 {
///     chunk.clear();
///     scratch.compress(&Params::default(), &[byte; 500], &mut chunk)?;
///     let mut out = [0; 500];
///     scratch.decompress_into(&chunk, &mut out)?;
///     assert_eq!(out, [byte; 500]);
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Default)]
pub struct Scratch {
    /// A block before its shuffle is undone.
    shuffled: Vec<u8>,
    /// A block that a range needs only a part of.
    block: Vec<u8>,
    /// A block as a chunk of its own.
    chunk: Vec<u8>,
    codecs: safe::Codecs,
}

impl fmt::Debug for Scratch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self.shuffled.len() + self.block.len() + self.chunk.len();
        f.debug_struct("Scratch").field("bytes", &bytes).finish_non_exhaustive()
    }
}

impl Scratch {
    /// As [`compress()`].
    pub fn compress(
        &mut self,
        params: &Params,
        bytes: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<usize, EncodeError> {
        params.check(bytes.len())?;
        c::compress(params, bytes, out, self)
    }

    /// As [`compress()`], where `before` is a chunk of mostly the same bytes: blocks whose bytes
    /// are unchanged are copied from it instead of being compressed again. Each is decompressed and
    /// compared first, so that no chunk, however damaged, makes the result wrong.
    ///
    /// ```
    /// use kiste::format::blosc::{Params, Scratch};
    ///
    /// let params = Params { blocksize: Some(32 << 10), ..Params::default() };
    /// let mut bytes: Vec<u8> = (0..1 << 20).map(|i: u32| (i / 100) as u8).collect();
    /// let (mut scratch, mut before, mut after) = (Scratch::default(), Vec::new(), Vec::new());
    /// scratch.compress(&params, &bytes, &mut before)?;
    /// bytes[..100].fill(7);
    /// scratch.compress_changed(&params, &before, &bytes, &mut after)?;
    /// assert_eq!(kiste::format::blosc::decompress(&after, bytes.len())?, bytes);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn compress_changed(
        &mut self,
        params: &Params,
        before: &[u8],
        bytes: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<usize, EncodeError> {
        self.compress_again(params, (before, None), bytes, out)
    }

    /// As [`compress_changed`](Self::compress_changed), of a chunk that was decompressed before: outside this
    /// range the bytes are still those that were in it, so that nothing is decompressed to see that.
    pub(crate) fn compress_changed_in(
        &mut self,
        params: &Params,
        before: &[u8],
        bytes: &[u8],
        changed: Range<usize>,
        out: &mut Vec<u8>,
    ) -> Result<usize, EncodeError> {
        self.compress_again(params, (before, Some(changed)), bytes, out)
    }

    fn compress_again(
        &mut self,
        params: &Params,
        before: (&[u8], Option<Range<usize>>),
        bytes: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<usize, EncodeError> {
        params.check(bytes.len())?;
        match patch::compress_changed(params, before, bytes, out, self) {
            Some(len) => Ok(len),
            None => self.compress(params, bytes, out),
        }
    }

    /// As [`decompress_into()`].
    pub fn decompress_into(&mut self, chunk: &[u8], out: &mut [u8]) -> Result<Header, FormatError> {
        let header = Header::parse(chunk)?;
        // Undoing a bit shuffle dominates the time, and the library does it with SSE2 only: for
        // LZ4, safe Rust is faster (`benches/blosc.rs`).
        let bits_of_lz4 = header.codec() == Codec::Lz4 && header.shuffle() == Shuffle::Bit;
        if header.is_memcpyed() || bits_of_lz4 || !c::reads(header.codec()) {
            return safe::decompress_into(chunk, out, self);
        }
        c::decompress(chunk, out)?;
        Ok(header)
    }

    /// As [`decompress_range()`].
    ///
    /// # Panics
    ///
    /// If `out` does not have the length of the range.
    pub fn decompress_range(
        &mut self,
        chunk: &[u8],
        range: Range<usize>,
        out: &mut [u8],
    ) -> Result<Header, FormatError> {
        assert_eq!(out.len(), range.len(), "the range and the output differ in length");
        let header = validate::whole(chunk)?;
        if range.end > header.nbytes() {
            let expected = format!("a chunk of at least {} bytes", range.end);
            return Err(FormatError::new(4, expected, header.nbytes().to_string()));
        }
        if range == (0..header.nbytes()) {
            return self.decompress_into(chunk, out);
        }
        if header.is_memcpyed() {
            out.copy_from_slice(&chunk[HEADER..][range]);
        } else if !range.is_empty() {
            self.decompress_blocks(chunk, &header, range, out)?;
        }
        Ok(header)
    }

    /// Whole blocks are decompressed in place, parts of blocks through a buffer.
    fn decompress_blocks(
        &mut self,
        chunk: &[u8],
        header: &Header,
        range: Range<usize>,
        out: &mut [u8],
    ) -> Result<(), FormatError> {
        let mut rest = out;
        for index in range.start / header.blocksize()..=(range.end - 1) / header.blocksize() {
            let block = header.block(index);
            let part = range.start.max(block.start)..range.end.min(block.end);
            let to;
            (to, rest) = rest.split_at_mut(part.len());
            if part == block {
                self.decompress_block(chunk, header, index, to)?;
            } else {
                let mut buffer = std::mem::take(&mut self.block);
                let whole = safe::sized(&mut buffer, block.len());
                let done = self.decompress_block(chunk, header, index, whole);
                to.copy_from_slice(&whole[part.start - block.start..part.end - block.start]);
                self.block = buffer;
                done?;
            }
        }
        Ok(())
    }

    fn decompress_block(
        &mut self,
        chunk: &[u8],
        header: &Header,
        index: usize,
        out: &mut [u8],
    ) -> Result<(), FormatError> {
        if c::reads(header.codec()) {
            return c::decompress_block(chunk, header, index, out, &mut self.chunk);
        }
        let block = validate::block(chunk, header, index)?;
        safe::decompress_block(&block, header, index, out, self)
    }
}

/// The bytes before the blocks of a chunk: its header, and the positions of the blocks.
pub(crate) fn chunk_head<'a>(chunk: &'a [u8], header: &Header) -> Option<&'a [u8]> {
    chunk.get(..HEADER + header::WORD * header.positions())
}

/// The compressed bytes of this block of a chunk that is not copied.
pub(crate) fn block_bytes<'a>(
    chunk: &'a [u8],
    header: &Header,
    index: usize,
) -> Result<&'a [u8], FormatError> {
    validate::block(chunk, header, index).map(|block| block.bytes)
}

/// A chunk must hold exactly as many bytes as the output.
fn expect_length(header: &Header, len: usize) -> Result<(), FormatError> {
    if header.nbytes() == len {
        return Ok(());
    }
    let expected = format!("a chunk of {len} bytes");
    Err(FormatError::new(4, expected, header.nbytes().to_string()))
}
