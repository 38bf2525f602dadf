//! A file of the cache: records, one after the other. Bytes in, values out.
//!
//! | bytes | of a record |
//! | --- | --- |
//! | 0..4 | `KCR1` |
//! | 4..8 | CRC-32C of what follows, up to the bytes that are cached |
//! | 8..16 | where these bytes begin in their object |
//! | 16..20 | how many they are, at most [`MOST`] |
//! | 20..36 | the object: its name and version, hashed |
//! | 36.. | the first 16 bytes of BLAKE3 of each [`BLOCK`] |
//! | | the bytes |
//!
//! Numbers are little-endian. A file ends where no record begins: zeros follow, or a record that a
//! killed process did not finish.

/// Bytes that are checked together.
pub(super) const BLOCK: u64 = 64 << 10;
/// The most bytes of one record.
pub(super) const MOST: u64 = 1 << 20;

const MAGIC: [u8; 4] = *b"KCR1";
/// Bytes before the digests.
const FIXED: usize = 36;
/// The longest header.
pub(super) const LONGEST: usize = FIXED + 16 * (MOST / BLOCK) as usize;

/// The name and the version of an object, hashed.
pub(in super::super) type Object = [u8; 16];
type Digest = [u8; 16];

/// The header before the bytes of a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) object: Object,
    pub(super) at: u64,
    pub(super) len: u32,
    pub(super) digests: Vec<Digest>,
}

/// How long the header of a record of this many bytes is.
pub(super) const fn header_len(len: u64) -> u64 {
    FIXED as u64 + 16 * len.div_ceil(BLOCK)
}

pub(super) fn digest(bytes: &[u8]) -> Digest {
    let whole = blake3::hash(bytes);
    let mut digest = Digest::default();
    digest.copy_from_slice(&whole.as_bytes()[..16]);
    digest
}

impl Header {
    /// The header for these bytes, at most [`MOST`].
    pub(super) fn of(object: Object, at: u64, bytes: &[u8]) -> Header {
        let digests = bytes.chunks(BLOCK as usize).map(digest).collect();
        Header { object, at, len: bytes.len() as u32, digests }
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(FIXED + 16 * self.digests.len());
        bytes.extend_from_slice(&MAGIC);
        bytes.extend_from_slice(&[0; 4]);
        bytes.extend_from_slice(&self.at.to_le_bytes());
        bytes.extend_from_slice(&self.len.to_le_bytes());
        bytes.extend_from_slice(&self.object);
        self.digests.iter().for_each(|digest| bytes.extend_from_slice(digest));
        let checksum = crc32c::crc32c(&bytes[8..]);
        bytes[4..8].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// The header that these bytes begin with, if it is whole and nothing in it was changed.
    pub(super) fn parse(bytes: &[u8]) -> Option<Header> {
        let field = |at: usize, len: usize| bytes.get(at..at + len);
        let number = |at: usize| Some(u32::from_le_bytes(field(at, 4)?.try_into().ok()?));
        if field(0, 4)? != MAGIC {
            return None;
        }
        let len = number(16)?;
        if len == 0 || u64::from(len) > MOST {
            return None;
        }
        let end = header_len(u64::from(len)) as usize;
        if crc32c::crc32c(bytes.get(8..end)?) != number(4)? {
            return None;
        }
        let at = u64::from_le_bytes(field(8, 8)?.try_into().ok()?);
        at.checked_add(u64::from(len))?;
        let digests = bytes[FIXED..end].chunks_exact(16).filter_map(|d| d.try_into().ok());
        Some(Header {
            object: field(20, 16)?.try_into().ok()?,
            at,
            len,
            digests: digests.collect(),
        })
    }

    /// Whether the bytes of these blocks are those that were written. They begin with a block and end with
    /// one, or with the record.
    pub(super) fn matches(&self, first_block: usize, bytes: &[u8]) -> bool {
        let expected = self.digests.get(first_block..).unwrap_or_default();
        let blocks = bytes.chunks(BLOCK as usize);
        blocks.len() <= expected.len() && blocks.zip(expected).all(|(b, e)| digest(b) == *e)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_round_trip_and_show_every_change() {
        for len in [1, 10, BLOCK as usize, BLOCK as usize + 1, MOST as usize] {
            let bytes = vec![7; len];
            let header = Header::of([9; 16], 1 << 40, &bytes);
            let encoded = header.encode();
            assert_eq!(encoded.len() as u64, header_len(len as u64));
            assert_eq!(Header::parse(&encoded), Some(header.clone()));
            assert!(header.matches(0, &bytes));
            assert!(
                header.matches(header.digests.len() - 1, &bytes[bytes.len() / 65537 * 65536..])
            );
            for at in 0..encoded.len().min(80) {
                let mut damaged = encoded.clone();
                damaged[at] ^= 1;
                assert_eq!(Header::parse(&damaged), None, "{at}");
                assert_eq!(Header::parse(&encoded[..at]), None);
            }
            let mut damaged = bytes;
            damaged[len - 1] ^= 0x10;
            assert!(!header.matches(0, &damaged));
        }
        assert_eq!(Header::parse(&[0; LONGEST]), None);
        assert!(!Header::of([0; 16], 0, b"a").matches(1, b"a"));
    }
}
