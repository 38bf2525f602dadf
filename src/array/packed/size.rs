//! Sizes as people write them.

use std::str::FromStr;

use crate::array::selection::invalid;
use crate::error::{Error, Result};
use crate::format::bloscpack::header::MAX_CHUNK_SIZE;

/// A number of bytes as people write it: `1048576`, `1M`, `0.5G`, or `max` for the largest chunk. The
/// units are powers of 1024.
///
/// ```
/// use kiste::array::ByteSize;
///
/// assert_eq!("512K".parse::<ByteSize>()?, ByteSize(512 << 10));
/// assert_eq!("0.5M".parse::<ByteSize>()?, ByteSize(512 << 10));
/// assert!("12X".parse::<ByteSize>().is_err() && "-1".parse::<ByteSize>().is_err());
/// # Ok::<(), kiste::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ByteSize(pub usize);

impl FromStr for ByteSize {
    type Err = Error;

    fn from_str(text: &str) -> Result<ByteSize> {
        parse(text).map(ByteSize)
    }
}

fn parse(text: &str) -> Result<usize> {
    if text == "max" {
        return Ok(MAX_CHUNK_SIZE as usize);
    }
    let (number, unit) = match text.char_indices().last() {
        Some((at, unit)) if unit.is_ascii_alphabetic() => (&text[..at], unit),
        _ => (text, 'B'),
    };
    let power = "BKMGT".find(unit.to_ascii_uppercase());
    let bytes = match (number.parse::<u64>(), number.parse::<f64>()) {
        (Ok(whole), _) => power.and_then(|power| whole.checked_mul(1 << (10 * power))),
        (_, Ok(part)) if part.is_finite() && part >= 0.0 => power
            .map(|power| (part * (1u64 << (10 * power)) as f64) as u64)
            .filter(|&bytes| bytes < u64::MAX),
        _ => None,
    };
    bytes.and_then(|bytes| usize::try_from(bytes).ok()).ok_or_else(|| {
        invalid(format!("expected a size such as 65536, 512K or 0.5G, found {text:?}"))
    })
}
