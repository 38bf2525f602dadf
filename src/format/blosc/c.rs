//! The C library c-blosc behind safe functions: with the memory map, the only unsafe code.
//!
//! Only the functions that take all they need as arguments are called, with one thread each: they
//! share nothing and take no lock, and their output is the same every time. The C library gets no
//! chunk that [`validate`] has not passed; what is left to trust is that its decoders stay within a
//! stream and an output whose lengths are passed in.
#![expect(unsafe_code, reason = "calls into C; the contract stands above")]

use std::ffi::{CStr, c_int};

use super::header::{HEADER, Header, NOT_SPLIT, WORD, to_bytes};
use super::validate::{block, validate};
use super::{Codec, EncodeError, Params, Scratch, Shuffle};
use crate::format::FormatError;

/// Where the block begins in a chunk that has only one.
const BLOCKS: usize = HEADER + WORD;

/// Whether chunks of this codec are decompressed here.
///
/// Snappy is C++, and the library is built without it. Zlib it has, but Rust's is several times
/// as fast.
pub(super) fn reads(codec: Codec) -> bool {
    !matches!(codec, Codec::Snappy | Codec::Zlib)
}

/// Whether chunks of this codec are written here.
pub(super) fn writes(codec: Codec) -> bool {
    codec != Codec::Snappy
}

/// Decompresses a chunk into all of `out`.
pub(super) fn decompress(chunk: &[u8], out: &mut [u8]) -> Result<(), FormatError> {
    let header = validate(chunk)?;
    super::expect_length(&header, out.len())?;
    // SAFETY: `validate` has passed the chunk, and the length of `out` was compared.
    unsafe { call(chunk, out) }.ok_or_else(|| damaged(&header, HEADER, out.len()))
}

/// Decompresses one block of a chunk, which is [`whole`](super::validate::whole) and not copied,
/// into all of `out`.
///
/// The library decompresses chunks, not blocks: it gets a chunk of this block alone. To copy the
/// compressed bytes costs little compared with decompressing them. (Its own `blosc_getitem` counts
/// in elements, allocates three blocks a call, and never writes to the output directly.)
pub(super) fn decompress_block(
    chunk: &[u8],
    header: &Header,
    index: usize,
    out: &mut [u8],
    buffer: &mut Vec<u8>,
) -> Result<(), FormatError> {
    let block = block(chunk, header, index)?;
    assert_eq!(out.len(), header.block(index).len(), "the output is not of the block's length");
    buffer.clear();
    buffer.extend_from_slice(&head_of_block(header, index, block.bytes.len()));
    buffer.extend_from_slice(&(BLOCKS as u32).to_le_bytes());
    buffer.extend_from_slice(block.bytes);
    // SAFETY: the chunk has one block, which begins where the one position says; `block` has
    // checked the lengths in it, for as many splits as the new header makes of it. Only one rule
    // for chunks may be broken, that they grow by no more than their header, and C does not rely
    // on it. The length of `out` was compared.
    unsafe { call(buffer, out) }.ok_or_else(|| damaged(header, block.at, out.len()))
}

/// The header of a chunk that holds this block alone, which has this many compressed bytes.
///
/// A last block that is short would become whole by this, and whole blocks may be split: so unless
/// it is split, the new header says that nothing is.
fn head_of_block(header: &Header, index: usize, compressed: usize) -> [u8; HEADER] {
    let size = header.block(index).len();
    let split = if header.splits(index) > 1 { 0 } else { NOT_SPLIT };
    let flags = header.flags & !NOT_SPLIT | split;
    to_bytes(flags, header.typesize, size, size, BLOCKS + compressed)
}

/// Lets C decompress a chunk into all of `out`; `None` if it cannot.
///
/// # Safety
///
/// The chunk must be as long as its header says and hold `out.len()` bytes. All positions and
/// lengths in it must lie within it, and no BloscLZ stream may be longer than [`validate`] allows.
unsafe fn call(chunk: &[u8], out: &mut [u8]) -> Option<()> {
    // SAFETY: C reads no further than the chunk says that it is long, and writes at most
    // `out.len()` bytes to `out`, which are initialised, so even a partial write leaves valid
    // bytes. Both lengths fit an i32, since a chunk's do. With one thread neither pointer is kept
    // beyond the call.
    let written = unsafe {
        blosc_src::blosc_decompress_ctx(
            chunk.as_ptr().cast(),
            out.as_mut_ptr().cast(),
            out.len(),
            1,
        )
    };
    (usize::try_from(written) == Ok(out.len())).then_some(())
}

fn damaged(header: &Header, position: usize, len: usize) -> FormatError {
    let expected = format!("blocks of {} that hold {len} bytes", header.codec());
    FormatError::new(position as u64, expected, "damaged ones")
}

/// Appends a chunk of parameters that were checked.
pub(super) fn compress(
    params: &Params,
    bytes: &[u8],
    out: &mut Vec<u8>,
    _: &mut Scratch,
) -> Result<usize, EncodeError> {
    params.check(bytes.len())?;
    let shuffle: c_int = match params.shuffle {
        Shuffle::None => 0,
        Shuffle::Byte => 1,
        Shuffle::Bit => 2,
    };
    // A chunk is never longer than this: the library copies what does not compress.
    let room = bytes.len() + HEADER;
    out.reserve(room);
    let spare = out.spare_capacity_mut();
    // SAFETY: C reads `bytes.len()` bytes of `bytes` and writes at most `room` bytes to `spare`,
    // which has that many; they do not overlap. The name is a C string without end of life. With
    // one thread no pointer is kept beyond the call. The parameters are in the ranges that C
    // accepts, and the sizes fit an i32: `check` has seen to both.
    let written = unsafe {
        blosc_src::blosc_compress_ctx(
            c_int::from(params.level),
            shuffle,
            params.typesize,
            bytes.len(),
            bytes.as_ptr().cast(),
            spare.as_mut_ptr().cast(),
            room,
            name(params.codec).as_ptr(),
            params.blocksize.unwrap_or(0),
            1,
        )
    };
    match usize::try_from(written) {
        Ok(written) if (HEADER..=room).contains(&written) => {
            // SAFETY: that many bytes of the spare capacity are there, see above, and C has
            // written them all: the header, the positions of the blocks and the blocks stand
            // without gaps.
            unsafe { out.set_len(out.len() + written) };
            Ok(written)
        }
        // It fails only for codecs that it does not have, which `writes` excludes.
        _ => Err(EncodeError::Unsupported(params.codec)),
    }
}

fn name(codec: Codec) -> &'static CStr {
    match codec {
        Codec::BloscLz => c"blosclz",
        Codec::Lz4 => c"lz4",
        Codec::Lz4hc => c"lz4hc",
        Codec::Snappy => c"snappy",
        Codec::Zlib => c"zlib",
        Codec::Zstd => c"zstd",
    }
}
