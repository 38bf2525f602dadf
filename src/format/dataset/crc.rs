//! `.crc`: a checksum of each sample, so that damage can be located. Ours alone, and optional.
//!
//! `.md5` tells that some byte of the data is wrong; this file tells which samples are damaged and
//! proves the others intact. Its [`Header`] identifies the data and holds a checksum of the table
//! after it, so that neither a stale file nor a damaged one is mistaken for damaged samples.

use super::digests::Digest;
use crate::format::FormatError;

/// The first bytes of a `.crc`.
pub const MAGIC: [u8; 8] = *b"KISTECRC";

/// The version that is written, and the only one that is read.
pub const VERSION: u32 = 1;

/// Bytes before the entries.
pub const HEADER: usize = 64;

/// Bytes of an entry.
pub const ENTRY: u64 = 4;

/// The maximum number of samples: the limit of the format.
pub const MAX_COUNT: u64 = u32::MAX as u64;

/// Where the checksum of the header is.
const CHECK: usize = 60;

/// The CRC-32C (Castagnoli) of these bytes.
///
/// ```
/// assert_eq!(kiste::format::dataset::crc::checksum(b"123456789"), 0xe306_9283);
/// ```
#[inline]
pub fn checksum(bytes: &[u8]) -> u32 {
    crc32c::crc32c(bytes)
}

/// The CRC-32C of bytes with this one, followed by these.
#[inline]
pub fn extend(checksum: u32, bytes: &[u8]) -> u32 {
    crc32c::crc32c_append(checksum, bytes)
}

/// Identifies the data that checksums belong to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Source {
    /// The number of samples.
    pub count: u64,
    /// The size of the data file.
    pub data_len: u64,
    /// The MD5 of the data file, where it is known. That of all zeros counts as unknown.
    pub md5: Option<Digest>,
    /// The CRC-32C of the whole of `.offsets`.
    pub offsets: u32,
}

impl Source {
    /// Fails if the present data is other data than this. Positions are those of the numbers in a header.
    pub(super) fn check(&self, now: &Source) -> Result<(), FormatError> {
        let stale = |at, what: &str, now: String, then: String| {
            Err(FormatError::new(at, format!("{what} {now}"), then))
        };
        if self.count != now.count {
            let (now, then) = (now.count.to_string(), self.count.to_string());
            return stale(16, "the number of samples", now, then);
        }
        if self.data_len != now.data_len {
            let (now, then) = (now.data_len.to_string(), self.data_len.to_string());
            return stale(24, "the size of the data", now, then);
        }
        if let (Some(now), Some(then)) = (now.md5.filter(|md5| *md5 != [0; 16]), self.md5) {
            if now != then {
                let (now, then) = (crate::format::hex(&now), crate::format::hex(&then));
                return stale(32, "the MD5 of the data", now, then);
            }
        }
        if self.offsets != now.offsets {
            let (now, then) = (format!("{:08x}", now.offsets), format!("{:08x}", self.offsets));
            return stale(48, "the checksum of .offsets", now, then);
        }
        Ok(())
    }
}

/// The header of a `.crc` file.
///
/// ```
/// use kiste::format::dataset::{crc, offsets};
///
/// let samples = [&b"\x81\xa3key\xa1a"[..], b"\x81\xa3key\xa1b"];
/// let table: Vec<u8> = samples.iter().flat_map(|s| crc::encode(crc::checksum(s))).collect();
/// let ends: Vec<u8> = [0, 7, 14].into_iter().flat_map(offsets::encode).collect();
/// let source =
///     crc::Source { count: 2, data_len: 14, md5: None, offsets: crc::checksum(&ends) };
/// let header = crc::Header::new(source, crc::checksum(&table));
///
/// let file = [&header.encode()[..], &table].concat();
/// let read = crc::Header::parse(&file, file.len() as u64)?;
/// read.check_source(&source)?;
/// read.check_table(crc::checksum(&file[crc::HEADER..]))?;
/// assert_eq!(crc::entry(&file[crc::HEADER..], 1), Some(crc::checksum(samples[1])));
/// # Ok::<(), kiste::format::FormatError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    source: Source,
    table: u32,
}

impl Header {
    /// The header of the checksums of this data; `table` is the checksum of the checksums.
    pub fn new(source: Source, table: u32) -> Header {
        let md5 = source.md5.filter(|md5| *md5 != [0; 16]);
        Header { source: Source { md5, ..source }, table }
    }

    /// The data that the checksums cover.
    pub fn source(&self) -> &Source {
        &self.source
    }

    /// The bytes of the header.
    pub fn encode(&self) -> [u8; HEADER] {
        let Header { source, table } = self;
        let mut header = [0; HEADER];
        let mut put = |at: usize, bytes: &[u8]| header[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, &MAGIC);
        put(8, &VERSION.to_be_bytes());
        put(16, &source.count.to_be_bytes());
        put(24, &source.data_len.to_be_bytes());
        put(32, &source.md5.unwrap_or_default());
        put(48, &source.offsets.to_be_bytes());
        put(52, &table.to_be_bytes());
        let check = checksum(&header[..CHECK]);
        header[CHECK..].copy_from_slice(&check.to_be_bytes());
        header
    }

    /// Parses the first [`HEADER`] bytes of a file of `file_len` bytes.
    ///
    /// The number of samples is checked against the size of the file; the entries are not looked
    /// at.
    pub fn parse(bytes: &[u8], file_len: u64) -> Result<Header, FormatError> {
        let Some(bytes) = bytes.first_chunk::<HEADER>() else {
            let found = format!("{} bytes", bytes.len());
            return Err(FormatError::new(0, "a header of 64 bytes", found));
        };
        if bytes[..8] != MAGIC {
            return Err(FormatError::new(0, "\"KISTECRC\"", "another file"));
        }
        let (version, stored) = (u32_at(bytes, 8), u32_at(bytes, CHECK));
        if version != VERSION {
            return Err(FormatError::new(8, format!("version {VERSION}"), version.to_string()));
        }
        let check = checksum(&bytes[..CHECK]);
        if check != stored {
            let found = format!("{stored:08x}");
            return Err(FormatError::new(60, format!("the checksum {check:08x}"), found));
        }
        for at in [12, 56] {
            let reserved = u32_at(bytes, at);
            if reserved != 0 {
                return Err(FormatError::new(at as u64, "zero", reserved.to_string()));
            }
        }
        let count = u64_at(bytes, 16);
        if count > MAX_COUNT {
            let expected = format!("at most {MAX_COUNT} samples");
            return Err(FormatError::new(16, expected, count.to_string()));
        }
        if HEADER as u64 + count * ENTRY != file_len {
            let expected = format!("as many samples as a file of {file_len} bytes has");
            return Err(FormatError::new(16, expected, count.to_string()));
        }
        let md5 = std::array::from_fn(|i| bytes[32 + i]);
        let (data_len, offsets) = (u64_at(bytes, 24), u32_at(bytes, 48));
        let source = Source { count, data_len, md5: Some(md5), offsets };
        Ok(Header::new(source, u32_at(bytes, 52)))
    }

    /// Checks that the checksums are of this data. An error means that they belong to another
    /// version of it and are useless.
    ///
    /// An MD5 that only one of the two knows is not compared.
    pub fn check_source(&self, now: &Source) -> Result<(), FormatError> {
        self.source.check(now)
    }

    /// Checks the entries by their checksum. An error means that none of them can be trusted.
    pub fn check_table(&self, table: u32) -> Result<(), FormatError> {
        if self.table != table {
            let expected = format!("entries with the checksum {:08x}", self.table);
            return Err(FormatError::new(HEADER as u64, expected, format!("{table:08x}")));
        }
        Ok(())
    }
}

/// The bytes of an entry.
#[inline]
pub const fn encode(checksum: u32) -> [u8; 4] {
    checksum.to_be_bytes()
}

/// The checksum of sample `i`, in these bytes, which begin behind the header.
#[inline]
pub fn entry(entries: &[u8], i: usize) -> Option<u32> {
    let at = i.checked_mul(4)?;
    entries.get(at..)?.first_chunk().copied().map(u32::from_be_bytes)
}

fn u32_at(header: &[u8; HEADER], at: usize) -> u32 {
    header[at..at + 4].iter().fold(0, |number, &byte| number << 8 | u32::from(byte))
}

fn u64_at(header: &[u8; HEADER], at: usize) -> u64 {
    header[at..at + 8].iter().fold(0, |number, &byte| number << 8 | u64::from(byte))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::dataset::{golden, offsets};

    /// CRC-32C bit by bit, from its polynomial alone.
    fn slow(bytes: &[u8]) -> u32 {
        let mut crc = !0u32;
        for &byte in bytes {
            crc ^= u32::from(byte);
            for _ in 0..8 {
                crc = crc >> 1 ^ if crc & 1 == 1 { 0x82f6_3b78 } else { 0 };
            }
        }
        !crc
    }

    #[test]
    fn is_the_crc_of_castagnoli() {
        // RFC 3720, B.4.
        assert_eq!(checksum(&[0; 32]), 0x8a91_36aa);
        assert_eq!(checksum(&[0xff; 32]), 0x62a8_ab43);
        assert_eq!(checksum(&Vec::from_iter(0..32)), 0x46dd_794e);
        assert_eq!(checksum(b""), 0);
        let mut next = golden::random(11);
        let noise: Vec<u8> = (0..9010).map(|_| next() as u8).collect();
        for len in (0..70).chain([255, 256, 257, 767, 768, 1024, 4096, 8191, 8192, 8999]) {
            let part = &noise[len % 7..][..len];
            assert_eq!(checksum(part), slow(part), "{len}");
            let (head, tail) = part.split_at(len / 3);
            assert_eq!(extend(checksum(head), tail), checksum(part), "{len}");
        }
    }

    /// The whole file for these samples.
    fn file(samples: &[&[u8]], md5: Option<Digest>) -> Vec<u8> {
        let mut end = 0;
        let ends = samples.iter().map(|sample| {
            end += sample.len() as u64;
            end
        });
        let ends: Vec<u8> = [0].into_iter().chain(ends).flat_map(offsets::encode).collect();
        let table: Vec<u8> = samples.iter().flat_map(|s| encode(checksum(s))).collect();
        let data_len = samples.iter().map(|sample| sample.len() as u64).sum();
        let count = samples.len() as u64;
        let source = Source { count, data_len, md5, offsets: checksum(&ends) };
        [&Header::new(source, checksum(&table)).encode()[..], &table].concat()
    }

    const SAMPLES: [&[u8]; 3] = [b"\x81\xa3key\xa1a", b"", b"\x82\xa3key\xa1b\xa1v\xc3"];
    const MD5: Digest = *b"\x01\x23\x45\x67\x89\xab\xcd\xef\xfe\xdc\xba\x98\x76\x54\x32\x10";

    #[test]
    fn bytes_are_frozen() {
        let file = file(&SAMPLES, Some(MD5));
        let hex: String = file.iter().map(|byte| format!("{byte:02x}")).collect();
        let wanted = [
            "4b49535445435243",
            "0000000100000000",
            "0000000000000003",
            "0000000000000011",
            "0123456789abcdeffedcba9876543210",
            "3596dfb0",
            "87a482b6",
            "00000000",
            "d5bfab1d",
            "3f8ead7a",
            "00000000",
            "d87e53f6",
        ];
        assert_eq!(hex, wanted.concat());
    }

    #[test]
    fn an_unknown_md5_is_zeros() {
        let known = file(&SAMPLES, Some(MD5));
        for unknown in [None, Some([0; 16])] {
            let unknown = file(&SAMPLES, unknown);
            assert_eq!(unknown[32..48], [0; 16]);
            assert_eq!(unknown[48..60], known[48..60]);
            let header = Header::parse(&unknown, unknown.len() as u64).unwrap();
            assert_eq!(header.source().md5, None);
            // Properties that one of the two does not know cannot differ.
            header.check_source(&Source { md5: Some(MD5), ..*header.source() }).unwrap();
        }
        let header = Header::parse(&known, known.len() as u64).unwrap();
        header.check_source(&Source { md5: None, ..*header.source() }).unwrap();
        header.check_source(&Source { md5: Some([0; 16]), ..*header.source() }).unwrap();
    }

    #[test]
    fn every_change_of_the_header_is_seen() {
        let file = file(&SAMPLES, Some(MD5));
        let len = file.len() as u64;
        Header::parse(&file[..HEADER], len).unwrap();
        for end in 0..HEADER {
            assert!(Header::parse(&file[..end], len).is_err(), "{end}");
        }
        for at in 0..HEADER {
            for bit in 0..8 {
                let mut changed = file.clone();
                changed[at] ^= 1 << bit;
                assert!(Header::parse(&changed, len).is_err(), "{at}");
            }
        }
        for len in [0, 64, len - 4, len - 1, len + 1, len + 4, u64::MAX] {
            assert!(Header::parse(&file, len).is_err(), "{len}");
        }
        golden::damage(&file, |bytes| {
            let _ = Header::parse(bytes, bytes.len() as u64);
        });
    }

    #[test]
    fn every_change_of_the_entries_is_seen() {
        let file = file(&SAMPLES, Some(MD5));
        let header = Header::parse(&file, file.len() as u64).unwrap();
        let table = &file[HEADER..];
        header.check_table(checksum(table)).unwrap();
        for at in 0..table.len() {
            for bit in 0..8 {
                let mut changed = table.to_vec();
                changed[at] ^= 1 << bit;
                assert!(header.check_table(checksum(&changed)).is_err(), "{at}");
            }
        }
        for (i, sample) in SAMPLES.iter().enumerate() {
            assert_eq!(entry(table, i), Some(checksum(sample)));
        }
        assert_eq!((entry(table, 3), entry(table, usize::MAX)), (None, None));
    }

    #[test]
    fn headers_that_no_file_can_have() {
        // With a checksum that is right: made so, not damaged.
        let made = |at: usize, bytes: &[u8], len: u64| {
            let mut header = Header::parse(&file(&[], None), 64).unwrap().encode();
            header[at..at + bytes.len()].copy_from_slice(bytes);
            let check = checksum(&header[..CHECK]);
            header[CHECK..].copy_from_slice(&check.to_be_bytes());
            Header::parse(&header, len)
        };
        made(12, &[0; 4], 64).unwrap();
        made(16, &1u64.to_be_bytes(), 68).unwrap();
        made(16, &MAX_COUNT.to_be_bytes(), 64 + 4 * MAX_COUNT).unwrap();
        assert!(made(16, &(MAX_COUNT + 1).to_be_bytes(), 68 + 4 * MAX_COUNT).is_err());
        assert!(made(16, &(1u64 << 62).to_be_bytes(), 64).is_err());
        assert!(made(16, &u64::MAX.to_be_bytes(), 60).is_err());
        for (at, bytes) in [(8, [0, 0, 0, 2]), (12, [0, 0, 0, 1]), (56, [1, 0, 0, 0])] {
            assert!(made(at, &bytes, 64).is_err(), "{at}");
        }
    }

    #[test]
    fn another_version_of_the_data_is_seen() {
        let file = file(&SAMPLES, Some(MD5));
        let header = Header::parse(&file, file.len() as u64).unwrap();
        let same = *header.source();
        header.check_source(&same).unwrap();
        for (other, at) in [
            (Source { count: 2, ..same }, 16),
            (Source { data_len: 18, ..same }, 24),
            (Source { md5: Some([1; 16]), ..same }, 32),
            (Source { offsets: 0, ..same }, 48),
        ] {
            assert_eq!(header.check_source(&other).unwrap_err().position, at);
        }
        let error = header.check_source(&Source { count: 2, ..same }).unwrap_err();
        assert_eq!(error.to_string(), "byte 16: expected the number of samples 2, found 3");
    }
}
