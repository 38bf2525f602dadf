//! Checks of the lengths in a Parquet file, before its crate sees them.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::Path;

use parquet::basic::Compression;
use parquet::file::metadata::ColumnChunkMetaData;

use crate::error::{Error, ErrorKind, Result};
use crate::format::FormatError;
use crate::format::arrow::limits::MAX_METADATA;
use crate::format::parquet::{TAIL, check_footer, parse_page_header, parse_tail};

/// Bytes that Brotli decompresses at a time.
const BUFFER: usize = 1 << 16;

/// The most bytes of a page header, which may have the smallest and the largest value.
const MAX_HEADER: u64 = 16 << 20;

/// The best compression ratio of gzip and of LZ4 frames.
const GZIP_RATIO: u64 = 1032;
const LZ4_RATIO: u64 = 255;

/// Where the footer of a Parquet file is, which its last bytes say.
pub(super) fn footer_range(path: &Path, file: &mut File) -> Result<Range<u64>> {
    let at = |error| Error::io(path, error);
    let size = file.metadata().map_err(at)?.len();
    let start = size.checked_sub(TAIL as u64).ok_or_else(|| {
        let found = format!("a file of {size} bytes");
        Error::from(FormatError::new(0, "a footer of Parquet", found)).at(path)
    })?;
    let tail = read(file, start, TAIL as u64).map_err(at)?;
    let within = |error| at_offset(path, start, error);
    let tail = tail.first_chunk().copied().unwrap_or_default();
    let len = u64::from(parse_tail(&tail).map_err(within)?);
    let begin = start.checked_sub(len).ok_or_else(|| {
        let expected = format!("a footer within the file of {size} bytes");
        within(FormatError::new(0, expected, format!("one of {len}")))
    })?;
    if len > MAX_METADATA {
        let message = format!("expected a footer of at most {MAX_METADATA} bytes, found {len}");
        return Err(Error::new(ErrorKind::Limit, message).at(path));
    }
    Ok(begin..start)
}

/// Checks the structure of a Parquet footer.
pub(super) fn check_parquet(path: &Path, file: &mut File, footer: Range<u64>) -> Result<()> {
    let bytes = read(file, footer.start, footer.end - footer.start);
    let bytes = bytes.map_err(|error| Error::io(path, error))?;
    check_footer(&bytes).map_err(|error| at_offset(path, footer.start, error))
}

/// The error at this offset in a file.
fn at_offset(path: &Path, offset: u64, error: FormatError) -> Error {
    let position = error.position.saturating_add(offset);
    Error::from(FormatError { position, ..error }).at(path)
}

/// Where the pages of a column are, in a file of this size.
pub(super) fn chunk_range(
    path: &Path,
    chunk: &ColumnChunkMetaData,
    size: u64,
) -> Result<Range<u64>> {
    let data = u64::try_from(chunk.data_page_offset());
    let dictionary = chunk.dictionary_page_offset().map_or(data, u64::try_from);
    let damaged = |at: u64, expected: &str, found: String| {
        Error::from(FormatError::new(at, expected.to_owned(), found)).at(path)
    };
    let (Ok(data), Ok(dictionary), Ok(len)) =
        (data, dictionary, u64::try_from(chunk.compressed_size()))
    else {
        return Err(damaged(0, "a place for each column in the file", "a negative one".to_owned()));
    };
    let start = data.min(dictionary);
    let end = start.checked_add(len).filter(|end| *end <= size);
    let end = end
        .ok_or_else(|| damaged(start, "a column within the file", format!("one of {len} bytes")))?;
    Ok(start..end)
}

/// Checks the sizes in the page headers of a column.
pub(super) fn check_pages(
    path: &Path,
    file: &mut File,
    chunk: &ColumnChunkMetaData,
    range: Range<u64>,
    max_bytes: u64,
) -> Result<()> {
    let damaged = |at: u64, expected: &str, found: String| {
        Error::from(FormatError::new(at, expected.to_owned(), found)).at(path)
    };
    let Range { start: mut at, end } = range;
    while at < end {
        let header = page_header(path, file, at, end)?;
        let data = at + header.len as u64;
        let limit = |found: u64| {
            let message = format!(
                "expected pages of at most {max_bytes} bytes, found one of {found} at byte {at}"
            );
            Err(Error::above_limit("max_bytes", message).at(path))
        };
        if u64::from(header.uncompressed) > max_bytes {
            return limit(header.uncompressed.into());
        }
        // Each value has at least one bit.
        let most = u64::from(header.uncompressed) * 8;
        if header.dictionary.is_some_and(|values| u64::from(values) > most) {
            return Err(damaged(at, "a dictionary with its values", "more values".to_owned()));
        }
        let compressed = u64::from(header.compressed);
        if compressed > end - data {
            return Err(damaged(at, "a page within its column", format!("{compressed} bytes")));
        }
        let levels = u64::from(header.levels);
        if levels > compressed {
            return Err(damaged(at, "levels within their page", format!("{levels} bytes")));
        }
        let values = (data + levels, compressed - levels);
        if decompresses_to_more(file, chunk.compression(), values, max_bytes) {
            return limit(max_bytes + 1);
        }
        at = data + compressed;
    }
    Ok(())
}

fn page_header(
    path: &Path,
    file: &mut File,
    at: u64,
    end: u64,
) -> Result<crate::format::parquet::PageHeader> {
    let mut window = 256;
    loop {
        let bytes = read(file, at, window.min(end - at)).map_err(|error| Error::io(path, error))?;
        match parse_page_header(&bytes) {
            Ok(header) => return Ok(header),
            Err(error) if window >= end - at || window >= MAX_HEADER => {
                let position = error.position.saturating_add(at);
                return Err(Error::from(FormatError { position, ..error }).at(path));
            }
            Err(_) => window *= 8,
        }
    }
}

/// Whether a page decompresses to more bytes than its header says, for decoders that would not stop
/// there.
///
/// A few bytes of Brotli can decompress to any number of bytes, so its pages are decompressed
/// twice.
fn decompresses_to_more(
    file: &mut File,
    compression: Compression,
    (at, len): (u64, u64),
    max_bytes: u64,
) -> bool {
    let ratio = match compression {
        Compression::GZIP(_) => GZIP_RATIO,
        Compression::LZ4 => LZ4_RATIO,
        Compression::BROTLI(_) => u64::MAX,
        _ => return false,
    };
    if len.saturating_mul(ratio) <= max_bytes || file.seek(SeekFrom::Start(at)).is_err() {
        return false;
    }
    let page = BufReader::new(file.take(len));
    let page: Box<dyn Read> = match compression {
        Compression::GZIP(_) => Box::new(flate2::bufread::MultiGzDecoder::new(page)),
        // Without frames, the decoder knows the size of its output.
        Compression::LZ4 => Box::new(lz4_flex::frame::FrameDecoder::new(page)),
        _ => Box::new(brotli_decompressor::Decompressor::new(page, BUFFER)),
    };
    // The reader reports what does not decompress.
    let mut page = page.take(max_bytes.saturating_add(1));
    io::copy(&mut page, &mut io::sink()).is_ok_and(|len| len > max_bytes)
}

fn read(file: &mut File, at: u64, len: u64) -> io::Result<Vec<u8>> {
    file.seek(SeekFrom::Start(at))?;
    let mut bytes = Vec::new();
    file.take(len).read_to_end(&mut bytes).map(|_| bytes)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    /// A page between other bytes.
    fn is_more(compression: Compression, page: &[u8], max_bytes: u64) -> bool {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&[b"before", page, b"after"].concat()).unwrap();
        decompresses_to_more(&mut file, compression, (6, page.len() as u64), max_bytes)
    }

    #[test]
    fn pages_are_not_taken_at_their_word() {
        let zeros = [0; 100_000];
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        encoder.write_all(&zeros).unwrap();
        let gzip = encoder.finish().unwrap();
        let mut encoder = lz4_flex::frame::FrameEncoder::new(Vec::new());
        encoder.write_all(&zeros).unwrap();
        let lz4 = encoder.finish().unwrap();
        // This is what the reference encoder makes of as many zeros.
        let brotli =
            [0x5b, 0x9f, 0x86, 0x81, 0x7f, 2, 0x20, 0x1e, 11, 4, 0xb2, 0xfc, 2, 0].to_vec();
        for (compression, page) in [
            (Compression::GZIP(Default::default()), gzip),
            (Compression::LZ4, lz4),
            (Compression::BROTLI(Default::default()), brotli),
        ] {
            assert!(is_more(compression, &page, 99_999), "{compression}");
            assert!(!is_more(compression, &page, 100_000), "{compression}");
            assert!(!is_more(compression, b"not compressed at all", 10), "{compression}");
            assert!(!is_more(Compression::SNAPPY, &page, 10), "it stops by itself");
        }
    }
}
