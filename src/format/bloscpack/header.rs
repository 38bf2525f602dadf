//! The first 32 bytes: what the container is made of. Version 1 has 16.

use crate::format::FormatError;
use crate::format::blosc;

use super::checksum::Checksum;

/// The first four bytes of every version.
pub(crate) const MAGIC: [u8; 4] = *b"blpk";
/// The version that is written.
pub(crate) const VERSION: u8 = 3;
/// The version of a container with unused bytes between its chunks, which is no container to bloscpack: see the
/// FORMAT of [`format::chunked`](crate::format::chunked).
pub(crate) const WITH_ROOM: u8 = VERSION | 0x80;
/// Bytes of a header of version 2 or 3.
pub(crate) const HEADER: usize = 32;
/// Bytes of a header of version 1.
pub(crate) const HEADER_V1: usize = 16;
/// The option bit that says there are offsets.
pub(crate) const OPTION_OFFSETS: u8 = 0x01;
/// The option bit that says there is metadata.
pub(crate) const OPTION_METADATA: u8 = 0x02;
/// The largest chunk: what fits a Blosc chunk of 2³¹ − 1 bytes with its header.
pub(crate) const MAX_CHUNK_SIZE: u32 = blosc::MAX_CHUNK as u32;

/// A container's header. `None` is the −1 of the format: not known when it was written.
///
/// ```
/// use kiste::format::bloscpack::{Checksum, Header};
///
/// let header = Header { nchunks: Some(3), chunk_size: Some(24), last_chunk: Some(8), ..Header::default() };
/// assert_eq!(Header::parse(&header.encode())?, header);
/// assert_eq!(header.nbytes(), Some(2 * 24 + 8));
/// # Ok::<(), kiste::format::FormatError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// 3 for everything that is written today, 1 and 2 in old files.
    pub version: u8,
    /// Whether there is an offsets section.
    pub offsets: bool,
    /// Whether there is a metadata section.
    pub metadata: bool,
    /// The checksum after each chunk.
    pub checksum: Checksum,
    /// The element size given to Blosc. Informative: each chunk has its own.
    pub typesize: u8,
    /// Uncompressed bytes of every chunk but the last.
    pub chunk_size: Option<u32>,
    /// Uncompressed bytes of the last chunk.
    pub last_chunk: Option<u32>,
    /// The number of chunks.
    pub nchunks: Option<u64>,
    /// Offsets with room for this many more chunks.
    pub max_app_chunks: u64,
}

impl Default for Header {
    /// Version 3, nothing optional, nothing known.
    fn default() -> Header {
        Header {
            version: VERSION,
            offsets: false,
            metadata: false,
            checksum: Checksum::None,
            typesize: 1,
            chunk_size: None,
            last_chunk: None,
            nchunks: None,
            max_app_chunks: 0,
        }
    }
}

impl Header {
    /// The header at the start of these bytes.
    pub fn parse(bytes: &[u8]) -> Result<Header, FormatError> {
        let magic = bytes.first_chunk().ok_or_else(|| cut(bytes, HEADER))?;
        if *magic != MAGIC {
            let found = format!("\"{}\"", magic.escape_ascii());
            return Err(FormatError::new(0, "the magic \"blpk\" of a bloscpack container", found));
        }
        match bytes.get(4) {
            None => Err(cut(bytes, HEADER)),
            Some(1) => parse_v1(bytes.first_chunk().ok_or_else(|| cut(bytes, HEADER_V1))?),
            Some(2 | 3) => parse_v2_v3(bytes.first_chunk().ok_or_else(|| cut(bytes, HEADER))?),
            Some(other) => {
                let what = match *other {
                    WITH_ROOM => {
                        "a file of an array with spare room, which bloscpack does not support"
                    }
                    _ => "perhaps of a Blaze or carray draft, which no release wrote",
                };
                Err(FormatError::new(
                    4,
                    "a bloscpack version from 1 to 3",
                    format!("{other} ({what})"),
                ))
            }
        }
    }

    /// The 32 bytes of a header of version 3, also if it was read from another version.
    pub fn encode(&self) -> [u8; HEADER] {
        let size = |size: Option<u32>| size.map_or(-1, |size| size as i32).to_le_bytes();
        let mut bytes = [0; HEADER];
        bytes[..4].copy_from_slice(&MAGIC);
        bytes[4] = VERSION;
        bytes[5] = if self.offsets { OPTION_OFFSETS } else { 0 };
        bytes[5] |= if self.metadata { OPTION_METADATA } else { 0 };
        bytes[6] = self.checksum.id();
        bytes[7] = self.typesize;
        bytes[8..12].copy_from_slice(&size(self.chunk_size));
        bytes[12..16].copy_from_slice(&size(self.last_chunk));
        let nchunks = self.nchunks.map_or(-1, |count| count as i64);
        bytes[16..24].copy_from_slice(&nchunks.to_le_bytes());
        bytes[24..].copy_from_slice(&(self.max_app_chunks as i64).to_le_bytes());
        bytes
    }

    /// Bytes of the header itself.
    pub fn size(&self) -> usize {
        if self.version == 1 { HEADER_V1 } else { HEADER }
    }

    /// Uncompressed bytes of all chunks, where the header knows.
    pub fn nbytes(&self) -> Option<u64> {
        let (chunk, last, count) = (self.chunk_size?, self.last_chunk?, self.nchunks?);
        match count {
            0 => Some(0),
            _ => (count - 1).checked_mul(u64::from(chunk))?.checked_add(u64::from(last)),
        }
    }

    /// How many offsets there are, the unused ones included.
    pub fn slots(&self) -> u64 {
        match (self.offsets, self.nchunks) {
            (true, Some(count)) => count.saturating_add(self.max_app_chunks),
            _ => 0,
        }
    }
}

/// A header of bloscpack 0.1, and of every chunk file of bcolz: the magic, the version, the number
/// of chunks and nothing else.
fn parse_v1(bytes: &[u8; HEADER_V1]) -> Result<Header, FormatError> {
    if bytes[5..8] != [0; 3] {
        let expected = "three reserved bytes of 0 in a header of bloscpack version 1";
        return Err(FormatError::new(5, expected, format!("{:?}", &bytes[5..8])));
    }
    let nchunks = count(bytes, 8, "the number of chunks")?;
    Ok(Header { version: 1, typesize: 0, nchunks, ..Header::default() })
}

fn parse_v2_v3(bytes: &[u8; HEADER]) -> Result<Header, FormatError> {
    let (version, options) = (bytes[4], bytes[5]);
    if version == 2 && (options & OPTION_METADATA != 0 || bytes[24..] != [0; 8]) {
        // The Blaze draft has its metadata size at 24, and the carray proposal the number of
        // chunks; neither says which version number it would have.
        return Err(FormatError::new(
            4,
            "no metadata and a reserved field of 0 in bloscpack version 2",
            "a header of another version or of a Blaze or carray draft, which no release wrote",
        ));
    }
    if options & !(OPTION_OFFSETS | OPTION_METADATA) != 0 {
        return Err(bad(5, "options without unknown bits", format!("{options:#04x}")));
    }
    let checksum = Checksum::from_id(bytes[6])
        .ok_or_else(|| bad(6, "the number of a checksum, 0 to 8", bytes[6]))?;
    let chunk_size = size(bytes, 8, "a chunk size")?;
    let last_chunk = size(bytes, 12, "a size of the last chunk")?;
    if let (Some(chunk), Some(last)) = (chunk_size, last_chunk) {
        if last > chunk {
            return Err(bad(12, &format!("a last chunk of at most {chunk} bytes"), last));
        }
    }
    let nchunks = count(bytes, 16, "the number of chunks")?;
    let header = Header {
        version,
        offsets: options & OPTION_OFFSETS != 0,
        metadata: options & OPTION_METADATA != 0,
        checksum,
        typesize: bytes[7],
        chunk_size,
        last_chunk,
        nchunks,
        max_app_chunks: room(bytes)?,
    };
    check_together(&header)?;
    Ok(header)
}

/// Checks fields against each other.
fn check_together(header: &Header) -> Result<(), FormatError> {
    let Some(nchunks) = header.nchunks else {
        return match header.offsets || header.max_app_chunks != 0 {
            true => Err(bad(16, "a known number of chunks where there are offsets", -1)),
            false => Ok(()),
        };
    };
    let room = header.max_app_chunks;
    if room != 0 && !header.offsets {
        return Err(bad(24, "no room for offsets where there are none", room));
    }
    if nchunks.checked_add(room).is_none_or(|sum| sum > i64::MAX as u64) {
        return Err(bad(24, "fewer than 2^63 offsets", format!("{nchunks} and {room} more")));
    }
    let is_empty = |size: Option<u32>| size.is_none_or(|size| size == 0);
    if nchunks == 0 && !(is_empty(header.chunk_size) && is_empty(header.last_chunk)) {
        return Err(bad(16, "at least one chunk where chunks have a size", 0));
    }
    if nchunks > 1 && header.chunk_size == Some(0) {
        return Err(bad(16, "one chunk where there is no data", nchunks));
    }
    Ok(())
}

/// A size of a chunk, −1 if it is not known.
fn size(bytes: &[u8], at: usize, what: &str) -> Result<Option<u32>, FormatError> {
    let value = i32::from_le_bytes(field(bytes, at));
    match u32::try_from(value) {
        Ok(size) if size <= MAX_CHUNK_SIZE => Ok(Some(size)),
        Err(_) if value == -1 => Ok(None),
        _ => Err(bad(at, &format!("{what} from -1 to {MAX_CHUNK_SIZE}"), value)),
    }
}

/// A number of chunks, −1 if it is not known.
fn count(bytes: &[u8], at: usize, what: &str) -> Result<Option<u64>, FormatError> {
    let value = i64::from_le_bytes(field(bytes, at));
    match u64::try_from(value) {
        Ok(count) => Ok(Some(count)),
        Err(_) if value == -1 => Ok(None),
        Err(_) => Err(bad(at, &format!("{what}, or -1"), value)),
    }
}

fn room(bytes: &[u8]) -> Result<u64, FormatError> {
    let value = i64::from_le_bytes(field(bytes, 24));
    u64::try_from(value).map_err(|_| bad(24, "room for a number of offsets", value))
}

/// `N` bytes of a header that is known to be long enough.
fn field<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut field = [0; N];
    field.copy_from_slice(&bytes[at..at + N]);
    field
}

fn bad(at: usize, expected: &str, found: impl ToString) -> FormatError {
    FormatError::new(at as u64, format!("{expected} in the bloscpack header"), found.to_string())
}

#[cold]
fn cut(bytes: &[u8], expected: usize) -> FormatError {
    let found = format!("the end after {} bytes", bytes.len());
    FormatError::new(bytes.len() as u64, format!("a bloscpack header of {expected} bytes"), found)
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXAMPLE: [u8; 32] = *b"blpk\x03\x03\x01\x08\x18\0\0\0\x18\0\0\0\
        \x01\0\0\0\0\0\0\0\x0a\0\0\0\0\0\0\0";

    fn with(at: usize, bytes: &[u8]) -> [u8; 32] {
        let mut header = EXAMPLE;
        header[at..at + bytes.len()].copy_from_slice(bytes);
        header
    }

    #[test]
    fn the_header_of_three_floats() {
        let header = Header::parse(&EXAMPLE).unwrap();
        let expected = Header {
            offsets: true,
            metadata: true,
            checksum: Checksum::Adler32,
            typesize: 8,
            chunk_size: Some(24),
            last_chunk: Some(24),
            nchunks: Some(1),
            max_app_chunks: 10,
            ..Header::default()
        };
        assert_eq!(header, expected);
        assert_eq!(header.encode(), EXAMPLE);
        assert_eq!((header.slots(), header.nbytes(), header.size()), (11, Some(24), 32));
    }

    #[test]
    fn older_versions_are_read() {
        let old = *b"blpk\x01\0\0\0\x02\0\0\0\0\0\0\0";
        let header = Header::parse(&old).unwrap();
        assert_eq!((header.version, header.nchunks, header.size()), (1, Some(2), 16));
        assert_eq!((header.checksum, header.nbytes()), (Checksum::None, None));

        let mut second = with(4, &[2, 1]);
        second[24] = 0;
        let header = Header::parse(&second).unwrap();
        assert_eq!((header.version, header.offsets, header.slots()), (2, true, 1));
        assert_eq!(header.encode()[4], 3);
    }

    #[test]
    fn what_is_wrong_is_said() {
        let found = |bytes: &[u8]| Header::parse(bytes).unwrap_err().to_string();
        for (header, message) in [
            (with(0, b"BLPK"), "byte 0: expected the magic \"blpk\""),
            (with(4, &[0]), "byte 4: expected a bloscpack version from 1 to 3, found 0"),
            (with(4, &[1]), "byte 5: expected three reserved bytes of 0"),
            (with(4, &[2]), "byte 4: expected no metadata and a reserved field of 0"),
            (with(5, &[4]), "byte 5: expected options without unknown bits"),
            (with(6, &[9]), "byte 6: expected the number of a checksum, 0 to 8"),
            (with(8, &(-2i32).to_le_bytes()), "byte 8: expected a chunk size from -1"),
            (with(8, &i32::MAX.to_le_bytes()), "byte 8: expected a chunk size from -1"),
            (with(12, &[25]), "byte 12: expected a last chunk of at most 24 bytes"),
            (with(16, &(-2i64).to_le_bytes()), "byte 16: expected the number of chunks, or -1"),
            (with(16, &(-1i64).to_le_bytes()), "byte 16: expected a known number of chunks"),
            (with(16, &[0]), "byte 16: expected at least one chunk"),
            (with(24, &(-1i64).to_le_bytes()), "byte 24: expected room"),
            (with(24, &i64::MAX.to_le_bytes()), "byte 24: expected fewer than 2^63 offsets"),
            (with(5, &[2]), "byte 24: expected no room for offsets where there are none"),
        ] {
            assert!(found(&header).starts_with(message), "{}", found(&header));
        }
        for len in 0..32 {
            assert!(Header::parse(&EXAMPLE[..len]).is_err());
        }
    }
}
