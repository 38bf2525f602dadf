//! Which rows are in which chunk.

use std::ops::Range;

use crate::format::FormatError;
use crate::format::blosc;

/// How the rows of an array are cut into chunks, validated: every
/// chunk has `chunklen` rows, the last one what is left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    rows: u64,
    chunklen: u64,
    row_bytes: u64,
}

impl Layout {
    /// A layout of this many rows, bytes per row and rows per chunk.
    pub fn new(rows: u64, chunklen: u64, row_bytes: u64) -> Result<Layout, FormatError> {
        let bad = |expected: String, found: String| Err(FormatError::new(0, expected, found));
        if chunklen == 0 {
            return bad("at least one row to a chunk".into(), "a chunklen of 0".into());
        }
        if row_bytes == 0 {
            return bad("rows of at least one byte".into(), "rows of 0 bytes".into());
        }
        let nbytes = rows.checked_mul(row_bytes).and_then(|bytes| isize::try_from(bytes).ok());
        if nbytes.is_none() {
            let found = format!("{rows} rows of {row_bytes} bytes");
            return bad("an array that fits in memory".into(), found);
        }
        let largest = rows.min(chunklen) * row_bytes;
        if largest > blosc::MAX_CHUNK as u64 {
            let expected = format!("at most {} bytes to a chunk", blosc::MAX_CHUNK);
            return bad(expected, largest.to_string());
        }
        Ok(Layout { rows, chunklen, row_bytes })
    }

    /// How many rows there are.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Rows of every chunk but the last.
    pub fn chunklen(&self) -> u64 {
        self.chunklen
    }

    /// Bytes of one row.
    pub fn row_bytes(&self) -> u64 {
        self.row_bytes
    }

    /// How many chunks there are, and so files: none for an array without rows.
    pub fn chunks(&self) -> u64 {
        self.rows.div_ceil(self.chunklen)
    }

    /// The chunk in which a row is.
    pub fn chunk_of(&self, row: u64) -> u64 {
        row / self.chunklen
    }

    /// The rows of a chunk; none beyond the last.
    pub fn rows_of(&self, chunk: u64) -> Range<u64> {
        let start = chunk.saturating_mul(self.chunklen).min(self.rows);
        start..start.saturating_add(self.chunklen).min(self.rows)
    }

    /// Uncompressed bytes of a chunk.
    pub fn nbytes_of(&self, chunk: u64) -> u64 {
        let rows = self.rows_of(chunk);
        (rows.end - rows.start) * self.row_bytes
    }

    /// Whether a chunk may hold this many bytes.
    ///
    /// The last one may hold more rows than the array has of it, up to a full chunk: bcolz writes
    /// chunks first and `meta/sizes` last, and a crash between them leaves such a chunk.
    pub fn check(&self, chunk: u64, nbytes: u64) -> Result<(), FormatError> {
        let expected = self.nbytes_of(chunk);
        let is_last = chunk + 1 == self.chunks();
        let is_longer = nbytes > expected
            && nbytes % self.row_bytes == 0
            && nbytes / self.row_bytes <= self.chunklen;
        if nbytes == expected || (is_last && is_longer) {
            return Ok(());
        }
        let expected = format!("{expected} uncompressed bytes in chunk {chunk}");
        Err(FormatError::new(4, expected, nbytes.to_string()))
    }
}

/// The rows per chunk that bcolz chooses if it expects this many rows of this many bytes: chunks of
/// 16 KiB for the smallest arrays, 256 KiB around a megabyte, 4 MiB for the largest.
pub(crate) fn chunklen_for(expectedlen: u64, row_bytes: u64) -> u64 {
    const MEGABYTE: u128 = 1 << 20;
    let bytes = u128::from(expectedlen) * u128::from(row_bytes);
    // The decimal logarithm of the megabytes, cut towards zero, from -4 to 4.
    let above = (1..=4).filter(|&power| bytes >= MEGABYTE * 10_u128.pow(power)).count();
    let below = (1..=4).filter(|&power| bytes * 10_u128.pow(power) <= MEGABYTE).count();
    let chunk_size: u64 = (256 << 10) << above >> below;
    (chunk_size / row_bytes.max(1)).max(1)
}

#[cfg(test)]
mod tests {
    #[test]
    fn finds_the_chunk_of_a_row() -> Result<(), Box<dyn std::error::Error>> {
        use crate::format::bcolz::Layout;

        let layout = Layout::new(1000, 128, 8)?;
        assert_eq!(layout.chunks(), 8);
        assert_eq!(layout.rows_of(7), 896..1000);
        assert_eq!(layout.nbytes_of(7), 104 * 8);
        assert!(Layout::new(1000, 0, 8).is_err());
        Ok(())
    }

    #[test]
    fn chooses_a_chunk_length_as_bcolz_does() {
        use crate::format::bcolz::chunklen_for;

        assert_eq!(chunklen_for(1000, 8), 8192);
        assert_eq!(chunklen_for(1_000_000_000, 4), 524_288);
        assert_eq!(chunklen_for(10, 1 << 30), 1);
    }
}
