//! The headers that carry the magic `blpk`: what bcolz and bloscpack write, and what the documents
//! before them wanted to.

use std::fmt;

use crate::format::blosc;
use crate::format::bloscpack::{Checksum, header::MAGIC};

/// Bytes before the chunk of a data file.
pub const HEADER: usize = 16;

/// Its only value: the magic and version 1 of bloscpack, three zeros, and 1 as the number of
/// chunks.
pub const HEADER_BYTES: [u8; HEADER] = *b"blpk\x01\0\0\0\x01\0\0\0\0\0\0\0";

/// Bytes of the other headers.
pub(super) const LONG_HEADER: usize = 32;

/// Which header the first bytes of a file are. Printed, it says so in words.
///
/// The drafts have no version numbers that distinguish them, so the fields together decide.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Variant {
    /// 16 bytes, version 1, one chunk: a data file of bcolz.
    ChunkFile,
    /// 16 bytes, version 1, any number of chunks: bloscpack 0.1. `None` is not known.
    V1 {
        /// The number of chunks.
        nchunks: Option<u64>,
    },
    /// 32 bytes, version 2, 8 of them reserved: bloscpack 0.2, which is also the header of the RFC
    /// for bcolz.
    V2,
    /// 32 bytes, version 3: bloscpack since 0.3.
    V3,
    /// 32 bytes with `file-size` and `nchunks` at the end: the proposal for carray.
    Carray {
        /// Whether there are checksums; which, it does not say.
        checksums: bool,
        /// Whether there are offsets.
        indexes: bool,
    },
    /// 32 bytes with `meta-size` at the end, and JSON behind them: the document of Blaze.
    Blaze {
        /// Whether there are offsets.
        offsets: bool,
        /// The checksum after each chunk.
        checksum: Checksum,
        /// Bytes of the JSON.
        meta_size: u32,
    },
    /// No header at all: one Blosc chunk.
    BareChunk,
    /// The magic, followed by fields that fit none of them.
    Unknown {
        /// The byte in the place of the version, if there is one.
        version: Option<u8>,
    },
    /// Not even the magic.
    Foreign,
}

impl Variant {
    /// Whether [`Superchunk`](super::Superchunk) knows what such a file means. Checksums of the
    /// carray proposal are of no known kind, nor is it known where they stand.
    pub fn is_readable(self) -> bool {
        !matches!(
            self,
            Variant::Carray { checksums: true, .. } | Variant::Unknown { .. } | Variant::Foreign
        )
    }
}

impl fmt::Display for Variant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Variant::ChunkFile => f.write_str("a data file of bcolz: version 1, one chunk"),
            Variant::V1 { nchunks: Some(count) } => {
                write!(f, "a header of bloscpack version 1 with {count} chunks")
            }
            Variant::V1 { nchunks: None } => {
                f.write_str("a header of bloscpack version 1 without the number of its chunks")
            }
            Variant::V2 => {
                f.write_str("a header of bloscpack version 2, as the RFC of bcolz has it")
            }
            Variant::V3 => f.write_str("a container of bloscpack version 3"),
            Variant::Carray { checksums, .. } => {
                f.write_str("a superchunk of the carray proposal, with the size of the file")?;
                f.write_str(match checksums {
                    true => " and checksums of an unknown kind",
                    false => "",
                })
            }
            Variant::Blaze { meta_size, .. } => {
                write!(f, "a superchunk of the Blaze document, with {meta_size} bytes of metadata")
            }
            Variant::BareChunk => f.write_str("a Blosc chunk without a header"),
            Variant::Unknown { version: Some(version) } => {
                write!(f, "a blpk header of version {version} that no document describes")
            }
            Variant::Unknown { version: None } => f.write_str("a blpk header that is cut short"),
            Variant::Foreign => f.write_str("neither the magic blpk nor a Blosc chunk"),
        }
    }
}

/// Which header a file begins with. `head` are its first 32 bytes, or all of them if it has fewer;
/// more are not looked at. `len` is the length of the file, which identifies a carray header.
pub fn recognise(head: &[u8], len: u64) -> Variant {
    if head.get(..4) != Some(&MAGIC) {
        return match blosc::Header::parse(head) {
            Ok(header) if header.chunk_len() as u64 == len => Variant::BareChunk,
            _ => Variant::Foreign,
        };
    }
    let needed = if head.get(4) == Some(&1) { 16 } else { LONG_HEADER };
    let version = head.get(4).copied().filter(|_| head.len() >= needed);
    let found = match (version, head.first_chunk::<16>(), head.first_chunk::<LONG_HEADER>()) {
        (Some(1), Some(short), _) => version_1(short),
        (Some(3), _, Some(_)) => Some(Variant::V3),
        // 2 is the number in the RFC; the document of Blaze has none.
        (Some(0 | 2), _, Some(long)) => {
            carray(long, len).or_else(|| version_2(long)).or_else(|| blaze(long, len))
        }
        _ => None,
    };
    found.unwrap_or(Variant::Unknown { version })
}

fn version_1(head: &[u8; 16]) -> Option<Variant> {
    if *head == HEADER_BYTES {
        return Some(Variant::ChunkFile);
    }
    let nchunks = i64_at(head, 8);
    (head[5..8] == [0; 3] && nchunks >= -1)
        .then_some(Variant::V1 { nchunks: u64::try_from(nchunks).ok() })
}

fn version_2(head: &[u8; LONG_HEADER]) -> Option<Variant> {
    let fits = head[4] == 2 && head[5] & !1 == 0 && head[24..] == [0; 8];
    (fits && Checksum::from_id(head[6]).is_some()).then_some(Variant::V2)
}

fn carray(head: &[u8; LONG_HEADER], len: u64) -> Option<Variant> {
    let is_flag = head[5] <= 1 && head[6] <= 1;
    let reserved = head[7] == 0 && head[12..16] == [0; 4];
    let sizes = u64::try_from(i64_at(head, 16)) == Ok(len) && i64_at(head, 24) > 0;
    (is_flag && reserved && sizes)
        .then_some(Variant::Carray { checksums: head[5] == 1, indexes: head[6] == 1 })
}

fn blaze(head: &[u8; LONG_HEADER], len: u64) -> Option<Variant> {
    let meta_size = u32_at(head, 24);
    let has_metadata = head[5] & 2 != 0;
    let fits = head[5] & !3 == 0
        && head[28..] == [0; 4]
        && has_metadata == (meta_size > 0)
        && u64::from(meta_size) + LONG_HEADER as u64 <= len;
    let checksum = Checksum::from_id(head[6])?;
    fits.then_some(Variant::Blaze { offsets: head[5] & 1 != 0, checksum, meta_size })
}

/// The number at a position that is in the header.
pub(super) fn i64_at(head: &[u8], at: usize) -> i64 {
    let bytes = head.get(at..).and_then(|rest| rest.first_chunk());
    bytes.map_or(0, |bytes| i64::from_le_bytes(*bytes))
}

/// The number at a position that is in the header.
pub(super) fn u32_at(head: &[u8], at: usize) -> u32 {
    let bytes = head.get(at..).and_then(|rest| rest.first_chunk());
    bytes.map_or(0, |bytes| u32::from_le_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    #[test]
    fn recognises_a_header() {
        use super::{Variant, recognise};

        let mut head = *b"blpk\x02\0\0\0________________________";
        head[8..12].copy_from_slice(&4096_i32.to_le_bytes()); // chunk-size
        head[12..16].copy_from_slice(&0_i32.to_le_bytes()); // reserved
        head[16..24].copy_from_slice(&5000_i64.to_le_bytes()); // file-size
        head[24..32].copy_from_slice(&3_i64.to_le_bytes()); // nchunks
        let variant = recognise(&head, 5000);
        assert_eq!(variant, Variant::Carray { checksums: false, indexes: false });
        assert_eq!(
            variant.to_string(),
            "a superchunk of the carray proposal, with the size of the file"
        );
    }
}
