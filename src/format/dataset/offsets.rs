//! `.offsets`: where each sample begins and ends in the data file.
//!
//! n + 1 numbers for n samples: sample i is the range from entry i to entry i + 1. Nothing here
//! reads the file as a whole: a reader needs two entries per sample, and [`pair`] checks only
//! those.

use std::ops::Range;

use crate::format::FormatError;
use crate::format::claimed::Claimed;
use crate::format::dataset::keys;

/// Bytes of an entry.
pub const ENTRY: u64 = 8;

/// The number of samples of an `.offsets` file of this size.
///
/// ```
/// use kiste::format::dataset::offsets;
/// assert_eq!(offsets::count(24), Ok(2));
/// assert!(offsets::count(0).is_err() && offsets::count(23).is_err());
/// ```
pub fn count(file_len: u64) -> Result<u64, FormatError> {
    if file_len < ENTRY || file_len % ENTRY != 0 {
        return Err(FormatError::new(
            file_len,
            "offsets of 8 bytes each, at least one",
            format!("{file_len} bytes"),
        ));
    }
    Ok(file_len / ENTRY - 1)
}

/// Samples that may be empty, as only samples that were written raw can be; also where the data were cut.
const MAX_EMPTY: u64 = 1 << 24;

/// The number of samples of an `.offsets` file of this size, if the format allows it and the data file can
/// hold as many.
pub(crate) fn count_within(file_len: u64, data_len: u64) -> Result<u64, FormatError> {
    let claimed = Claimed::new(count(file_len)?).within(keys::MAX_COUNT, "samples", file_len)?;
    claimed.backed((data_len.max(MAX_EMPTY), 1), "samples", file_len)
}

/// The offset in these bytes.
#[inline]
pub const fn decode(entry: &[u8; 8]) -> u64 {
    u64::from_be_bytes(*entry)
}

/// The bytes of this offset.
#[inline]
pub const fn encode(offset: u64) -> [u8; 8] {
    offset.to_be_bytes()
}

/// Entry `i` of the content of an `.offsets` file.
#[inline]
pub fn entry(bytes: &[u8], i: usize) -> Option<u64> {
    bytes.get(i.checked_mul(8)?..)?.first_chunk().map(decode)
}

/// Checks the first and the last of the offsets of `count` samples against the data file.
pub fn check_ends(count: u64, first: u64, last: u64, data_len: u64) -> Result<(), FormatError> {
    if first != 0 {
        return Err(FormatError::new(0, "the first offset to be 0", first.to_string()));
    }
    if last != data_len {
        return Err(FormatError::new(
            count.saturating_mul(ENTRY),
            format!("the last offset to be the size of the data file, {data_len}"),
            last.to_string(),
        ));
    }
    Ok(())
}

/// The bytes of a sample in the data file.
///
/// `bytes` are the two entries of the sample, 16 bytes, and `position` is where in the `.offsets`
/// file they are from: eight times the index of the sample.
///
/// ```
/// use kiste::format::dataset::offsets;
/// let entries = [offsets::encode(3), offsets::encode(5)].concat();
/// assert_eq!(offsets::pair(&entries, 0, 5), Ok(3..5));
/// // The data file has been truncated.
/// assert!(offsets::pair(&entries, 0, 4).is_err());
/// ```
#[inline]
pub fn pair(bytes: &[u8], position: u64, data_len: u64) -> Result<Range<u64>, FormatError> {
    let Ok(bytes) = <&[u8; 16]>::try_from(bytes) else {
        return Err(not_a_pair(bytes.len(), position));
    };
    let both = u128::from_be_bytes(*bytes);
    let (start, end) = ((both >> 64) as u64, both as u64);
    if start > end || end > data_len {
        return Err(bad_pair(start, end, position, data_len));
    }
    Ok(start..end)
}

#[cold]
fn not_a_pair(len: usize, position: u64) -> FormatError {
    FormatError::new(position, "two offsets of 8 bytes each", format!("{len} bytes"))
}

#[cold]
fn bad_pair(start: u64, end: u64, position: u64, data_len: u64) -> FormatError {
    let expected = format!("offsets that do not descend and end by {data_len}");
    FormatError::new(position, expected, format!("{start} and {end}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::dataset::golden;

    #[test]
    fn golden_files_have_these_offsets_and_no_others() {
        for set in golden::datasets() {
            let bytes = set.file(".offsets");
            let offsets = &set.offsets;
            assert_eq!(count(bytes.len() as u64), Ok(set.keys.len() as u64));
            assert_eq!(offsets.iter().copied().flat_map(encode).collect::<Vec<_>>(), bytes);
            for (i, &offset) in offsets.iter().enumerate() {
                assert_eq!(entry(&bytes, i), Some(offset));
            }
            assert_eq!(entry(&bytes, offsets.len()), None);
            let data_len = set.file("").len() as u64;
            let last = *offsets.last().unwrap();
            check_ends(set.keys.len() as u64, offsets[0], last, data_len).unwrap();
            for (i, two) in offsets.windows(2).enumerate() {
                let range = pair(&bytes[8 * i..8 * i + 16], 8 * i as u64, data_len);
                assert_eq!(range, Ok(two[0]..two[1]));
            }
        }
    }

    #[test]
    fn sizes_that_no_file_can_have() {
        for len in (0..64).chain([u64::MAX, u64::MAX - 7]) {
            assert_eq!(count(len).is_ok(), len >= 8 && len % 8 == 0, "{len}");
        }
        assert_eq!(count(u64::MAX - 7), Ok((1 << 61) - 2));
    }

    #[test]
    fn pairs_are_checked() {
        let two = |a, b| [encode(a), encode(b)].concat();
        assert_eq!(pair(&two(7, 7), 0, 7), Ok(7..7));
        assert_eq!(pair(&two(0, u64::MAX), 0, u64::MAX), Ok(0..u64::MAX));
        let error = pair(&two(7, 6), 40, 9).unwrap_err();
        assert_eq!(error.position, 40);
        assert_eq!(
            error.to_string(),
            "byte 40: expected offsets that do not descend and end by 9, found 7 and 6"
        );
        assert!(pair(&two(7, 10), 0, 9).is_err());
        for len in (0..32).filter(|&len| len != 16) {
            assert!(pair(&vec![0; len], 0, 9).is_err(), "{len}");
        }
        assert_eq!(entry(&[0; 64], usize::MAX), None);
        assert_eq!(entry(&[0; 15], 1), None);
    }

    #[test]
    fn ends_are_checked() {
        assert_eq!(check_ends(0, 0, 0, 0), Ok(()));
        assert_eq!(check_ends(2, 1, 9, 9).unwrap_err().position, 0);
        assert_eq!(check_ends(2, 0, 8, 9).unwrap_err().position, 16);
        assert!(check_ends(u64::MAX, 0, 8, 9).is_err());
    }
}
