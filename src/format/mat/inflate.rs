//! Compressed elements, with a bound on what comes out.

use std::io::Read;

use flate2::bufread::ZlibDecoder;

use super::element::Element;
use crate::format::FormatError;

/// Deflate expands one byte to at most this many.
const MAX_RATIO: usize = 1032;

/// This many are allocated up front, enough for nearly every file.
const USUAL_RATIO: usize = 16;

/// The first bytes of what is compressed, `len` of them or all.
pub(super) fn prefix(element: &Element<'_>, len: usize) -> Result<Vec<u8>, FormatError> {
    let mut bytes = Vec::new();
    let mut decoder = ZlibDecoder::new(element.data).take(len as u64);
    decoder.read_to_end(&mut bytes).map_err(|error| damaged(element, &error))?;
    Ok(bytes)
}

/// All that is compressed, which must be `len` bytes and have the right checksum.
///
/// The length is a mere claim: beyond the usual, memory grows with the bytes that really come.
pub(super) fn all(element: &Element<'_>, len: usize) -> Result<Vec<u8>, FormatError> {
    if len / MAX_RATIO > element.data.len() {
        let found = format!("{} bytes compressed", element.data.len());
        return Err(element.error(format!("{len} bytes"), found));
    }
    let mut decoder = ZlibDecoder::new(element.data);
    let usual = element.data.len().saturating_mul(USUAL_RATIO);
    let mut bytes = Vec::with_capacity(len.min(usual));
    let result = decoder.by_ref().take(len as u64).read_to_end(&mut bytes);
    result.map_err(|error| damaged(element, &error))?;
    if bytes.len() < len {
        let found = format!("the end after {}", bytes.len());
        return Err(element.error(format!("{len} bytes compressed"), found));
    }
    // The checksum is looked at when the end is reached, that is when one byte more is asked for.
    match decoder.read(&mut [0]).map_err(|error| damaged(element, &error))? {
        0 => Ok(bytes),
        _ => Err(element.error(format!("{len} bytes compressed"), "more of them")),
    }
}

fn damaged(element: &Element<'_>, error: &std::io::Error) -> FormatError {
    element.error("zlib data", error.to_string())
}
