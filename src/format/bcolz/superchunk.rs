//! Files of many chunks, as the documents before bcolz describe them.

use std::ops::Range;

use crate::format::FormatError;
use crate::format::blosc;
use crate::format::bloscpack::{Checksum, Container};

use super::chunk_file::check_ratio;
use super::variant::{LONG_HEADER, Variant, i64_at, recognise, u32_at};

/// Where the chunks of a superchunk are, for each readable `Variant`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Superchunk {
    variant: Variant,
    checksum: Checksum,
    metadata: Option<Range<usize>>,
    chunks: Vec<Range<usize>>,
}

impl Superchunk {
    /// Finds the chunks in a whole file and looks at their headers. Variants that are not readable
    /// are an error that says which header it is.
    pub fn parse(file: &[u8]) -> Result<Superchunk, FormatError> {
        let variant = recognise(file, file.len() as u64);
        let found =
            Superchunk { variant, checksum: Checksum::None, metadata: None, chunks: vec![] };
        match variant {
            Variant::ChunkFile | Variant::V1 { .. } | Variant::V2 | Variant::V3 => {
                found.of_container(file)
            }
            Variant::Carray { checksums: false, indexes } => found.of_carray(file, indexes),
            Variant::Blaze { offsets, checksum, meta_size } => {
                let start = LONG_HEADER + meta_size as usize;
                let metadata = (meta_size > 0).then_some(LONG_HEADER..start);
                Superchunk { checksum, metadata, ..found }.of_blaze(file, start, offsets)
            }
            Variant::BareChunk => {
                let chunks = std::iter::once(0..file.len()).collect();
                Ok(Superchunk { chunks, ..found })
            }
            _ => {
                let expected = "a superchunk of a known kind";
                Err(FormatError::new(0, expected, variant.to_string()))
            }
        }
    }

    /// Which header it has.
    pub fn variant(&self) -> Variant {
        self.variant
    }

    /// The number of chunks.
    pub fn len(&self) -> usize {
        self.chunks.len()
    }

    /// Whether there are no chunks.
    pub fn is_empty(&self) -> bool {
        self.chunks.is_empty()
    }

    /// Where the metadata is, which is JSON (of a container of bloscpack, the section with its own
    /// header).
    pub fn metadata(&self) -> Option<Range<usize>> {
        self.metadata.clone()
    }

    /// The checksum after each chunk.
    pub fn checksum(&self) -> Checksum {
        self.checksum
    }

    /// Where the chunks are in the file, without what follows each.
    pub fn chunks(&self) -> &[Range<usize>] {
        &self.chunks
    }

    /// A chunk of this file, once its digest is right.
    pub fn chunk<'a>(&self, file: &'a [u8], index: usize) -> Result<&'a [u8], FormatError> {
        let missing = || {
            let expected = format!("a chunk below {} in the file", self.chunks.len());
            FormatError::new(file.len() as u64, expected, index.to_string())
        };
        let range = self.chunks.get(index).ok_or_else(missing)?;
        let rest = file.get(range.start..).ok_or_else(missing)?;
        let end = range.len() + self.checksum.size();
        let with_digest = rest.get(..end).ok_or_else(missing)?;
        Superchunk::verified(with_digest, self.checksum)
            .map_err(|error| error.behind(range.start as u64))
    }

    /// The chunk in these bytes, which end with its digest, once that is right.
    pub fn verified(with_digest: &[u8], checksum: Checksum) -> Result<&[u8], FormatError> {
        let end = with_digest.len().saturating_sub(checksum.size());
        let (chunk, digest) = with_digest.split_at(end);
        match checksum.digest(chunk).as_slice() == digest {
            true => Ok(chunk),
            false => {
                let expected = format!("a chunk that agrees with its {checksum}");
                Err(FormatError::new(0, expected, "another one"))
            }
        }
    }

    fn of_container(mut self, file: &[u8]) -> Result<Superchunk, FormatError> {
        let container = Container::parse(file)?;
        self.checksum = container.header().checksum;
        self.metadata = container.metadata().map(|metadata| metadata.range());
        for chunk in container.chunks() {
            let chunk = chunk?;
            self.chunks.push(chunk.at()..chunk.at() + chunk.bytes().len());
        }
        Ok(self)
    }

    fn of_carray(mut self, file: &[u8], indexes: bool) -> Result<Superchunk, FormatError> {
        // It has a size of all chunks alone, which the last may fall short of.
        let expected = Sizes {
            count: u64::try_from(i64_at(file, 24)).ok(),
            chunk: known(u32_at(file, 8)),
            last: None,
        };
        self.chunks = walk(file, LONG_HEADER, indexes, Checksum::None, expected)?;
        Ok(self)
    }

    fn of_blaze(
        mut self,
        file: &[u8],
        start: usize,
        offsets: bool,
    ) -> Result<Superchunk, FormatError> {
        let metadata = file.get(LONG_HEADER..start).unwrap_or_default();
        let is_json = serde_json::from_slice::<serde_json::Value>(metadata).is_ok();
        if !metadata.is_empty() && !is_json {
            let found = "bytes that are none";
            return Err(FormatError::new(LONG_HEADER as u64, "metadata in JSON", found));
        }
        let expected = Sizes {
            count: u64::try_from(i64_at(file, 16)).ok(),
            chunk: known(u32_at(file, 8)),
            last: known(u32_at(file, 12)),
        };
        self.chunks = walk(file, start, offsets, self.checksum, expected)?;
        Ok(self)
    }
}

/// The sizes in a header; `None` is not known.
struct Sizes {
    count: Option<u64>,
    chunk: Option<u32>,
    last: Option<u32>,
}

/// A size; -1 means that it is not known.
fn known(size: u32) -> Option<u32> {
    (size <= i32::MAX as u32).then_some(size)
}

/// Walks over the chunks: by the offsets if there are any, because these formats allow spare bytes
/// after a chunk, otherwise without gaps. An offset of -1 was never filled in.
fn walk(
    file: &[u8],
    start: usize,
    has_offsets: bool,
    checksum: Checksum,
    sizes: Sizes,
) -> Result<Vec<Range<usize>>, FormatError> {
    let most = (file.len().saturating_sub(start) / blosc::HEADER) as u64;
    if let Some(count) = sizes.count.filter(|&count| count > most) {
        let found = format!("{count} chunks in {} bytes", file.len());
        return Err(FormatError::new(start as u64, format!("at most {most} chunks"), found));
    }
    let count = match (sizes.count, has_offsets) {
        (None, true) => {
            let found = "an unknown number of them";
            return Err(FormatError::new(start as u64, "as many offsets as chunks", found));
        }
        (count, _) => count,
    };
    // There are no more of them than chunks of sixteen bytes would fit: no overflow.
    let slots = if has_offsets { count.unwrap_or(0) as usize } else { 0 };
    let (mut chunks, mut at) = (Vec::new(), start + 8 * slots);
    while count.map_or(at < file.len(), |count| (chunks.len() as u64) < count) {
        let index = chunks.len();
        if index < slots {
            at = offset(file, start + 8 * index, at)?;
        }
        let rest = file.get(at..).unwrap_or_default();
        let in_file = |error: FormatError| FormatError {
            position: error.position + at as u64,
            expected: format!("{} in chunk {index}", error.expected),
            ..error
        };
        let header = blosc::Header::parse(rest).map_err(in_file)?;
        check_ratio(&header).map_err(in_file)?;
        let end = header.chunk_len() + checksum.size();
        if end > rest.len() {
            let found = format!("{} up to the end of the file", rest.len());
            let expected = format!("{end} bytes for chunk {index}");
            return Err(FormatError::new(at as u64, expected, found));
        }
        let is_last = match count {
            Some(count) => index as u64 + 1 == count,
            None => end == rest.len(),
        };
        check_size(&header, is_last, &sizes).map_err(in_file)?;
        chunks.push(at..at + header.chunk_len());
        at += end;
    }
    Ok(chunks)
}

/// Where the next chunk begins by its offset, at or behind where the one before it ends.
fn offset(file: &[u8], at: usize, end: usize) -> Result<usize, FormatError> {
    let Some(bytes) = file.get(at..).and_then(|rest| rest.first_chunk()) else {
        return Err(FormatError::new(at as u64, "an offset", "the end of the file"));
    };
    match i64::from_le_bytes(*bytes) {
        -1 => Ok(end),
        found => match usize::try_from(found) {
            Ok(start) if (end..file.len()).contains(&start) => Ok(start),
            _ => {
                let expected = format!("an offset from {end} to {}", file.len());
                Err(FormatError::new(at as u64, expected, found.to_string()))
            }
        },
    }
}

fn check_size(header: &blosc::Header, is_last: bool, sizes: &Sizes) -> Result<(), FormatError> {
    let (exact, most) = match (is_last, sizes.last) {
        (true, Some(last)) => (Some(last), None),
        (true, None) => (None, sizes.chunk),
        (false, _) => (sizes.chunk, None),
    };
    let found = header.nbytes() as u64;
    let fits = exact.is_none_or(|size| found == u64::from(size))
        && most.is_none_or(|size| found <= u64::from(size));
    if fits {
        return Ok(());
    }
    let expected = match exact {
        Some(size) => format!("{size} uncompressed bytes"),
        None => format!("at most {} uncompressed bytes", most.unwrap_or(0)),
    };
    Err(FormatError::new(4, expected, found.to_string()))
}

#[cfg(test)]
mod tests {
    #[test]
    fn reads_a_superchunk() -> Result<(), Box<dyn std::error::Error>> {
        use crate::format::bcolz::{Superchunk, variant::Variant};
        use crate::format::blosc::{Params, compress, decompress};

        // Two chunks behind a header of the Blaze document.
        let mut file = b"blpk\x02\0\0\x01".to_vec();
        file.extend([1000_u32, 300].map(u32::to_le_bytes).as_flattened()); // chunk-size, last-chunk
        file.extend([2_u64, 0].map(u64::to_le_bytes).as_flattened()); // nchunks; meta-size, reserved
        file[5] = 2;
        let metadata = br#"{"dtype": "uint8"}"#;
        file[24] = metadata.len() as u8;
        file.extend(metadata);
        compress(&Params::default(), &[1; 1000], &mut file)?;
        compress(&Params::default(), &[2; 300], &mut file)?;

        let superchunk = Superchunk::parse(&file)?;
        assert!(matches!(superchunk.variant(), Variant::Blaze { .. }));
        assert_eq!(superchunk.metadata(), Some(32..50));
        assert_eq!(decompress(superchunk.chunk(&file, 1)?, 300)?, [2; 300]);
        Ok(())
    }
}
