//! Checks of a chunk that need no decompression: enough that no decoder, ours or the C
//! library's, can be led astray by a length or a position.
//!
//! One rule is there for the C library alone. Its BloscLZ decoder adds up the length of a match in
//! an `i32`, which eight and a half million bytes make wrap (c-blosc issue 405); so longer streams
//! are refused. A stream of that length belongs to a block of at least as many bytes, and those
//! that c-blosc itself chooses are no larger than a megabyte.

use super::Codec;
use super::header::{HEADER, Header, WORD, u32_at};
use crate::format::FormatError;

/// The longest BloscLZ stream that cannot make an `i32` wrap: 255 times as much still fits.
const MAX_BLOSCLZ: usize = 8_000_000;

/// Checks a whole chunk: its header, its length, and the position and lengths of every block.
///
/// Positions in errors count from the start of the chunk.
///
/// ```
/// use kiste::format::blosc::{Params, compress, validate};
///
/// let mut chunk = Vec::new();
/// compress(&Params::default(), &[7; 1000], &mut chunk)?;
/// assert_eq!(validate(&chunk)?.nbytes(), 1000);
///
/// chunk.pop();
/// let error = validate(&chunk).unwrap_err();
/// assert_eq!(error.position, 12); // the length in the header is not that of the chunk
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn validate(chunk: &[u8]) -> Result<Header, FormatError> {
    let header = whole(chunk)?;
    for index in 0..header.positions() {
        block(chunk, &header, index)?;
    }
    Ok(header)
}

/// The header of a chunk of just the length that the header says.
pub(super) fn whole(chunk: &[u8]) -> Result<Header, FormatError> {
    let header = Header::parse(chunk)?;
    if header.chunk_len() != chunk.len() {
        let expected = format!("the length of the chunk, {}", chunk.len());
        return Err(FormatError::new(12, expected, header.chunk_len().to_string()));
    }
    Ok(header)
}

/// A compressed block: where it stands in the chunk, and all its splits with their lengths.
pub(super) struct Block<'a> {
    pub(super) at: usize,
    pub(super) bytes: &'a [u8],
}

/// Finds a block of a [`whole`] chunk that is not copied, and checks the lengths of its splits.
pub(super) fn block<'a>(
    chunk: &'a [u8],
    header: &Header,
    index: usize,
) -> Result<Block<'a>, FormatError> {
    let position = HEADER + WORD * index;
    let first = HEADER + WORD * header.positions();
    // Blocks need not stand in order: several threads write them as they get ready.
    let start = u32_at(chunk, position).map_or(0, |start| start as usize);
    if !(first..chunk.len()).contains(&start) {
        let expected = format!("the position of a block, from {first} to {}", chunk.len());
        return Err(FormatError::new(position as u64, expected, start.to_string()));
    }
    let (size, splits) = (header.block(index).len(), header.splits(index));
    if size % splits != 0 {
        let expected = format!("blocks of a multiple of {splits} bytes");
        return Err(FormatError::new(8, expected, size.to_string()));
    }
    let mut at = start;
    for _ in 0..splits {
        at += split(chunk, at, header.codec(), size / splits)?;
    }
    Ok(Block { at: start, bytes: &chunk[start..at] })
}

/// The bytes that the split at this position takes with its length.
fn split(chunk: &[u8], at: usize, codec: Codec, size: usize) -> Result<usize, FormatError> {
    let Some(length) = u32_at(chunk, at) else {
        let found = format!("the end of the chunk at {}", chunk.len());
        return Err(FormatError::new(at as u64, "the length of a block", found));
    };
    let length = length as usize;
    let most = longest(codec, size).min(chunk.len() - at - WORD);
    // A stream of exactly this length is not compressed: it is the bytes themselves.
    let stored = length == size && length <= chunk.len() - at - WORD;
    if stored || (1..=most).contains(&length) {
        return Ok(WORD + length);
    }
    let expected = format!("the length of a block, 1 to {most} bytes");
    Err(FormatError::new(at as u64, expected, length.to_string()))
}

/// The longest stream that this many bytes compress to. Writers store what would become longer as
/// it is, except with Snappy, whose output they let grow.
fn longest(codec: Codec, size: usize) -> usize {
    match codec {
        Codec::Snappy => 32 + size + size / 6,
        Codec::BloscLz => size.min(MAX_BLOSCLZ),
        _ => size,
    }
}
