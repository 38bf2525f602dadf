//! Blosc in safe Rust: reads every chunk, and writes LZ4 and zlib.
//!
//! It is what there is without the feature `c-blosc`, it is a second opinion on what the C library
//! does, and it reads the codecs that Rust reads faster (zlib) or that the C library here is built
//! without (Snappy).
//!
//! Absent: encoders for BloscLZ, LZ4HC, Snappy and Zstandard. Absent too: a bound on the memory
//! that a hostile Zstandard frame takes. Its window is bounded here, but the decoder in Rust writes
//! a block of a frame to memory of its own before it looks at how long it became. The C library,
//! which reads Zstandard by default, writes to the output alone.

use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress, Status};

use super::header::{
    self, BIT_SHUFFLE, BYTE_SHUFFLE, CODEC_SHIFT, HEADER, Header, MAX_SPLITS, MEMCPYED, MIN_BUFFER,
    NOT_SPLIT, WORD, u32_at,
};
use super::validate::{Block, block, validate};
use super::{Codec, EncodeError, Params, Scratch, Shuffle, blosclz, shuffle};
use crate::format::FormatError;

/// The largest window of a Zstandard frame that is believed: what RFC 8878 asks every decoder to
/// support.
const MAX_WINDOW: u64 = 8 << 20;

/// The first bytes of a Zstandard frame.
const ZSTD_MAGIC: [u8; 4] = [0x28, 0xB5, 0x2F, 0xFD];

/// Decompresses a chunk into all of `out`, never with the C library, even if it is compiled in.
///
/// Otherwise as [`super::decompress_into`].
pub fn decompress_into(
    chunk: &[u8],
    out: &mut [u8],
    scratch: &mut Scratch,
) -> Result<Header, FormatError> {
    let header = validate(chunk)?;
    super::expect_length(&header, out.len())?;
    if header.is_memcpyed() {
        out.copy_from_slice(&chunk[HEADER..]);
    }
    for index in 0..header.positions() {
        let block = block(chunk, &header, index)?;
        decompress_block(&block, &header, index, &mut out[header.block(index)], scratch)?;
    }
    Ok(header)
}

/// Decompresses this block of a chunk that is not copied.
pub(super) fn decompress_block(
    block: &Block<'_>,
    header: &Header,
    index: usize,
    out: &mut [u8],
    scratch: &mut Scratch,
) -> Result<(), FormatError> {
    let (codec, splits) = (header.codec(), header.splits(index));
    let shuffle = header.shuffle();
    let typesize = header.typesize();
    if shuffle == Shuffle::None || out.len() < typesize {
        return decode(block, codec, splits, out, &mut scratch.codecs);
    }
    let Scratch { shuffled, codecs, .. } = scratch;
    let shuffled = sized(shuffled, out.len());
    decode(block, codec, splits, shuffled, codecs)?;
    match shuffle {
        Shuffle::Bit => shuffle::unshuffle_bits(typesize, shuffled, out),
        _ => shuffle::unshuffle(typesize, shuffled, out),
    }
    Ok(())
}

/// The first `len` bytes of a buffer that grows if need be and never shrinks.
pub(super) fn sized(buffer: &mut Vec<u8>, len: usize) -> &mut [u8] {
    if buffer.len() < len {
        buffer.resize(len, 0);
    }
    &mut buffer[..len]
}

/// Decoders that are dear to make, kept for the next block.
#[derive(Default)]
pub(super) struct Codecs {
    zlib: Option<Decompress>,
    zstd: Option<Box<ruzstd::decoding::FrameDecoder>>,
}

/// Decompresses the splits of a block, one behind the other.
fn decode(
    block: &Block<'_>,
    codec: Codec,
    splits: usize,
    out: &mut [u8],
    codecs: &mut Codecs,
) -> Result<(), FormatError> {
    let size = out.len() / splits;
    let mut at = 0;
    for out in out.chunks_exact_mut(size) {
        let length = u32_at(block.bytes, at).unwrap_or_default() as usize;
        at += WORD;
        let stream = &block.bytes[at..at + length];
        if length == size {
            out.copy_from_slice(stream);
        } else if codecs.decode(codec, stream, out).is_none() {
            let position = (block.at + at) as u64;
            let expected = format!("a stream of {codec} that holds {size} bytes");
            return Err(FormatError::new(position, expected, "a damaged one"));
        }
        at += length;
    }
    Ok(())
}

impl Codecs {
    /// Decompresses a stream into all of `out`; `None` if it is damaged or of another length.
    fn decode(&mut self, codec: Codec, stream: &[u8], out: &mut [u8]) -> Option<()> {
        let written = match codec {
            Codec::BloscLz => return blosclz::decompress(stream, out),
            Codec::Lz4 | Codec::Lz4hc => lz4_flex::block::decompress_into(stream, out).ok()?,
            Codec::Snappy => {
                // The decoder itself compares this length with the stream only later.
                if snap::raw::decompress_len(stream).ok()? != out.len() {
                    return None;
                }
                snap::raw::Decoder::new().decompress(stream, out).ok()?
            }
            Codec::Zlib => self.zlib(stream, out)?,
            Codec::Zstd => self.zstd(stream, out)?,
        };
        (written == out.len()).then_some(())
    }

    fn zlib(&mut self, stream: &[u8], out: &mut [u8]) -> Option<usize> {
        let zlib = self.zlib.get_or_insert_with(|| Decompress::new(true));
        zlib.reset(true);
        match zlib.decompress(stream, out, FlushDecompress::Finish) {
            Ok(Status::StreamEnd) => usize::try_from(zlib.total_out()).ok(),
            _ => None,
        }
    }

    fn zstd(&mut self, stream: &[u8], out: &mut [u8]) -> Option<usize> {
        if window(stream)? > MAX_WINDOW.max(out.len() as u64) {
            return None;
        }
        let zstd = self.zstd.get_or_insert_default();
        zstd.decode_all(stream, out).ok()
    }
}

/// The window for which a Zstandard frame makes its decoder allocate memory.
fn window(stream: &[u8]) -> Option<u64> {
    let rest = stream.strip_prefix(&ZSTD_MAGIC)?;
    let (&descriptor, rest) = rest.split_first()?;
    let single_segment = descriptor & 0x20 != 0;
    if !single_segment {
        let window = *rest.first()?;
        let base = 1_u64 << (10 + (window >> 3));
        return Some(base + base / 8 * u64::from(window & 7));
    }
    // Such a frame has its own length in place of a window.
    let dictionary = [0, 1, 2, 4][usize::from(descriptor & 3)];
    let size = rest.get(dictionary..)?;
    match descriptor >> 6 {
        0 => size.first().map(|size| u64::from(*size)),
        1 => size.first_chunk().map(|size| u64::from(u16::from_le_bytes(*size)) + 256),
        2 => size.first_chunk().map(|size| u64::from(u32::from_le_bytes(*size))),
        _ => size.first_chunk().map(|size| u64::from_le_bytes(*size)),
    }
}

/// Whether chunks of this codec can be written without the C library.
pub(super) fn writes(codec: Codec) -> bool {
    matches!(codec, Codec::Lz4 | Codec::Zlib)
}

/// Appends a chunk, never with the C library: LZ4 and zlib only.
///
/// The blocks are those that the C library would choose; the streams in them may differ.
pub fn compress(
    params: &Params,
    bytes: &[u8],
    out: &mut Vec<u8>,
    scratch: &mut Scratch,
) -> Result<usize, EncodeError> {
    params.check(bytes.len())?;
    if !writes(params.codec) {
        return Err(EncodeError::Unsupported(params.codec));
    }
    let start = out.len();
    let layout = Layout::new(params, bytes.len());
    out.extend_from_slice(&[0; HEADER]);
    let compressed = params.level > 0
        && bytes.len() >= MIN_BUFFER
        && compress_blocks(params, &layout, bytes, out, scratch);
    let mut flags = layout.flags;
    if !compressed {
        flags |= MEMCPYED;
        out.truncate(start + HEADER);
        out.extend_from_slice(bytes);
    }
    let length = out.len() - start;
    let typesize = params.typesize as u8; // `check` has seen that it fits
    let header = header::to_bytes(flags, typesize, bytes.len(), layout.blocksize, length);
    out[start..start + HEADER].copy_from_slice(&header);
    Ok(length)
}

/// How a chunk is cut into blocks and these into splits.
struct Layout {
    flags: u8,
    blocksize: usize,
}

impl Layout {
    fn new(params: &Params, len: usize) -> Layout {
        let blocksize = blocksize(params, len);
        let shuffle = match params.shuffle {
            Shuffle::None => 0,
            Shuffle::Byte => BYTE_SHUFFLE,
            Shuffle::Bit => BIT_SHUFFLE,
        };
        let split = if is_split(params, blocksize) { 0 } else { NOT_SPLIT };
        Layout { flags: shuffle | split | params.codec.format() << CODEC_SHIFT, blocksize }
    }
}

/// The size of blocks that the C library chooses: larger for slower levels and codecs, and such
/// that the splits of a block are as large as a block that is not split would be.
fn blocksize(params: &Params, len: usize) -> usize {
    const L1: usize = 32 << 10;
    let typesize = params.typesize;
    if len < typesize {
        return 1;
    }
    let mut size = match params.blocksize {
        Some(size) => size.max(MIN_BUFFER),
        None if len < L1 => len,
        None => {
            // Codecs that gain more from larger blocks.
            let double = matches!(params.codec, Codec::Lz4hc | Codec::Zlib | Codec::Zstd);
            let l1 = if double { 2 * L1 } else { L1 };
            match params.level {
                0 => l1 / 4,
                1 => l1 / 2,
                2 => l1,
                3 => l1 * 2,
                4 | 5 => l1 * 4,
                9 if double => l1 * 16,
                _ => l1 * 8,
            }
        }
    };
    if params.level > 0 && is_split(params, size) {
        size = (size.min(256 << 10) * typesize).clamp(64 << 10, 1 << 20);
    }
    size = size.min(len);
    if size > typesize { size / typesize * typesize } else { size }
}

fn is_split(params: &Params, blocksize: usize) -> bool {
    params.codec != Codec::Zstd
        && params.typesize <= MAX_SPLITS
        && blocksize / params.typesize >= MIN_BUFFER
}

/// Appends positions and blocks; false if they would be longer than the bytes as they are.
fn compress_blocks(
    params: &Params,
    layout: &Layout,
    bytes: &[u8],
    out: &mut Vec<u8>,
    scratch: &mut Scratch,
) -> bool {
    let start = out.len() - HEADER;
    let most = start + HEADER + bytes.len();
    let blocks = bytes.chunks(layout.blocksize);
    let positions = out.len();
    if positions + WORD * blocks.len() > most {
        return false;
    }
    out.resize(positions + WORD * blocks.len(), 0);
    for (index, block) in blocks.enumerate() {
        let position = ((out.len() - start) as u32).to_le_bytes();
        out[positions + WORD * index..][..WORD].copy_from_slice(&position);
        let whole = block.len() == layout.blocksize && layout.flags & NOT_SPLIT == 0;
        let splits = if whole { params.typesize } else { 1 };
        let shuffled = shuffled(params, block, &mut scratch.shuffled);
        for split in shuffled.chunks_exact(block.len() / splits) {
            encode(params, split, out, &mut scratch.block);
            if out.len() > most {
                return false;
            }
        }
    }
    true
}

/// The block as the codec gets it.
fn shuffled<'a>(params: &Params, block: &'a [u8], buffer: &'a mut Vec<u8>) -> &'a [u8] {
    match params.shuffle {
        Shuffle::Byte if params.typesize > 1 => {
            let to = sized(buffer, block.len());
            shuffle::shuffle(params.typesize, block, to);
            to
        }
        Shuffle::Bit if block.len() >= params.typesize => {
            let to = sized(buffer, block.len());
            shuffle::shuffle_bits(params.typesize, block, to);
            to
        }
        _ => block,
    }
}

/// Appends a split with its length: a stream if it is shorter than the bytes, or else these.
fn encode(params: &Params, split: &[u8], out: &mut Vec<u8>, buffer: &mut Vec<u8>) {
    let written = match params.codec {
        Codec::Zlib => {
            let to = sized(buffer, split.len());
            let mut zlib = Compress::new(Compression::new(params.level.into()), true);
            let end = zlib.compress(split, to, FlushCompress::Finish);
            matches!(end, Ok(Status::StreamEnd)).then(|| zlib.total_out() as usize)
        }
        _ => {
            // This encoder takes no less room than its output could need at worst.
            let to = sized(buffer, lz4_flex::block::get_maximum_output_size(split.len()));
            lz4_flex::block::compress_into(split, to).ok()
        }
    };
    let stream = match written {
        Some(written) if written < split.len() => &buffer[..written],
        _ => split,
    };
    out.extend_from_slice(&(stream.len() as u32).to_le_bytes());
    out.extend_from_slice(stream);
}
