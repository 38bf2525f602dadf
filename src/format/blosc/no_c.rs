//! In the place of the C library where the feature `c-blosc` is off: safe Rust does what it can.

use super::{Codec, EncodeError, Header, Params, Scratch, safe, validate};
use crate::format::FormatError;

/// Nothing is decompressed here.
pub(super) fn reads(_: Codec) -> bool {
    false
}

/// Whether chunks of this codec can be written.
pub(super) fn writes(codec: Codec) -> bool {
    safe::writes(codec)
}

/// Decompresses a chunk into all of `out`.
pub(super) fn decompress(chunk: &[u8], out: &mut [u8]) -> Result<(), FormatError> {
    safe::decompress_into(chunk, out, &mut Scratch::default()).map(|_| ())
}

/// Decompresses one block of a chunk.
pub(super) fn decompress_block(
    chunk: &[u8],
    header: &Header,
    index: usize,
    out: &mut [u8],
    _: &mut Vec<u8>,
) -> Result<(), FormatError> {
    let block = validate::block(chunk, header, index)?;
    safe::decompress_block(&block, header, index, out, &mut Scratch::default())
}

/// Appends a chunk.
pub(super) fn compress(
    params: &Params,
    bytes: &[u8],
    out: &mut Vec<u8>,
    scratch: &mut Scratch,
) -> Result<usize, EncodeError> {
    safe::compress(params, bytes, out, scratch)
}
