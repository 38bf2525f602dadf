//! Tar archives: the headers of their entries, read and written.
//!
//! An archive is a row of blocks of [`BLOCK`] bytes: for each entry a header, then its bytes, with
//! zeros up to a whole block; two blocks of zeros are the end. This is what a header holds, after
//! "ustar Interchange Format" and "pax Interchange Format" of POSIX.1-2017 (`pax`):
//!
//! | bytes | |
//! | --- | --- |
//! | 0..100 | name, ended by a zero unless it fills the field |
//! | 124..136 | size in octal digits; of GNU tar also as a number, big end first, under a first byte of 128 |
//! | 148..156 | sum of all bytes of the header, these eight taken for spaces |
//! | 156 | what the entry is: [`Kind`] |
//! | 257..263 | `ustar` and a zero, or of GNU tar `ustar` and a space |
//! | 345..500 | with `ustar` and a zero: what comes before the name, with a slash between |
//!
//! A value that does not fit is stored before its entry, as an entry of its own: a name of GNU
//! tar ([`Kind::LongName`]), or [records](pax_records) (`Kind::Pax`).
//!
//! [`Entries`] goes through the files of an archive in memory, or wherever their bytes come from.
//!
//! Absent on purpose: everything that makes a file more than a name and bytes (owners, times,
//! links), and sparse files. Reading from a file is left to the caller.

mod ahead;
mod entries;

pub(crate) use ahead::Records;
pub(crate) use entries::{ArchiveBytes, Ending, Entries, Entry};

use crate::format::FormatError;

/// Headers and contents take whole blocks of this many bytes.
pub const BLOCK: usize = 512;

/// Archives are filled up with zeros to a multiple of this, as tar and Python do.
pub(crate) const RECORD: usize = 20 * BLOCK;

/// The largest size that a header can hold in octal.
const MAX_OCTAL: u64 = 0o777_7777_7777;

/// The kind of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A file.
    File,
    /// A directory.
    Directory,
    /// A link to another name, or a device: nothing with bytes of its own.
    Special(u8),
    /// The content is the name of the next entry.
    LongName,
    /// The content is records about the next entry.
    Pax,
    /// The content is records about the whole archive.
    GlobalPax,
    /// Anything else, such as a sparse file.
    Other(u8),
}

/// The header of an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    /// The name, which may be any bytes.
    pub name: Vec<u8>,
    /// How many bytes the entry has.
    pub size: u64,
    /// The kind of the entry.
    pub kind: Kind,
}

/// Reads a header; `None` is the end of the archive.
pub fn parse_header(block: &[u8; BLOCK]) -> Result<Option<Header>, FormatError> {
    if block.iter().all(|&byte| byte == 0) {
        return Ok(None);
    }
    let sum = octal(block, 148, 8)?;
    // Very old programs summed the bytes as signed numbers.
    if sum != unsigned_sum(block) && i64::try_from(sum) != Ok(signed_sum(block)) {
        let found = format!("{sum} for bytes that sum up to {}", unsigned_sum(block));
        return Err(FormatError::new(148, "the checksum of a tar header", found));
    }
    let kind = match block[156] {
        // `7` asks for contiguous blocks, which no file system does: a plain file.
        0 | b'0' | b'7' => Kind::File,
        b'5' => Kind::Directory,
        code @ (b'1'..=b'4' | b'6') => Kind::Special(code),
        b'L' => Kind::LongName,
        // Solaris writes `X`.
        b'x' | b'X' => Kind::Pax,
        b'g' => Kind::GlobalPax,
        code => Kind::Other(code),
    };
    let mut name = text(&block[..100]).to_vec();
    // Only of POSIX archives: GNU tar keeps times and sparse maps in these bytes.
    let prefix = text(&block[345..500]);
    if block[257..263] == *b"ustar\0" && !prefix.is_empty() {
        name = [prefix, b"/", &name].concat();
    }
    // Before there was a code for directories, a slash at the end was one.
    let kind = if kind == Kind::File && name.ends_with(b"/") { Kind::Directory } else { kind };
    let size = octal(block, 124, 12)?;
    Ok(Some(Header { name, size, kind }))
}

/// Names and values.
pub(crate) type PaxRecords<'a> = Vec<(&'a [u8], &'a [u8])>;

/// The records of a `Kind::Pax` entry: names and values, in order.
///
/// Each is its own length in decimal digits, a space, the name, `=`, the value and a line feed.
pub fn pax_records(content: &[u8]) -> Result<PaxRecords<'_>, FormatError> {
    let mut records = Vec::new();
    let mut at = 0;
    while at < content.len() {
        let refuse = || FormatError::new(at as u64, "a record of its length", "other bytes");
        let rest = &content[at..];
        let digits = rest.iter().position(|&byte| byte == b' ').ok_or_else(refuse)?;
        let length = std::str::from_utf8(&rest[..digits]).ok();
        let length = length.filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
        let length = length.and_then(|text| text.parse().ok());
        let record = length.and_then(|length: usize| rest.get(digits + 1..length));
        let record = record.and_then(|record| record.strip_suffix(b"\n")).ok_or_else(refuse)?;
        let equals = record.iter().position(|&byte| byte == b'=').ok_or_else(refuse)?;
        records.push((&record[..equals], &record[equals + 1..]));
        at += digits + 1 + record.len() + 1;
    }
    Ok(records)
}

/// How many zero bytes follow this many bytes of content.
pub fn padding(size: u64) -> usize {
    (BLOCK - (size % BLOCK as u64) as usize) % BLOCK
}

/// The header of a file, and before it a `Kind::Pax` entry if the name does not fit in.
///
/// The file is readable by all, has no owner, and is dated to 1970-01-01: the same files
/// make the same archive.
pub fn file_header(name: &str, size: u64) -> Result<Vec<u8>, FormatError> {
    file_header_with(name, size, &[])
}

/// The same, with records about the file in a `Kind::Pax` entry before it.
pub(crate) fn file_header_with(
    name: &str,
    size: u64,
    records: &[(&str, &str)],
) -> Result<Vec<u8>, FormatError> {
    if size > MAX_OCTAL {
        let expected = format!("at most {MAX_OCTAL} bytes in an entry");
        return Err(FormatError::new(0, expected, size.to_string()));
    }
    if name.is_empty() || name.contains('\0') {
        return Err(FormatError::new(0, "a name without zeros", format!("{name:?}")));
    }
    let parts = split(name);
    let path = parts.is_none().then_some(("path", name));
    let records: Vec<_> = path.into_iter().chain(records.iter().copied()).collect();
    let mut out = Vec::new();
    if !records.is_empty() {
        pax_entry(b"././@PaxHeader", b'x', &records, &mut out);
    }
    let start = name.as_bytes();
    let (prefix, rest) = parts.unwrap_or((b"", &start[..start.len().min(100)]));
    out.extend_from_slice(&header(prefix, rest, size, b'0'));
    Ok(out)
}

/// An entry of `Kind::GlobalPax` with these records.
pub(crate) fn global_header(records: &[(&str, &str)]) -> Vec<u8> {
    let mut out = Vec::new();
    pax_entry(b"pax_global_header", b'g', records, &mut out);
    out
}

fn pax_entry(name: &[u8], kind: u8, records: &[(&str, &str)], out: &mut Vec<u8>) {
    let content: Vec<u8> =
        records.iter().flat_map(|(name, value)| pax_record(name, value)).collect();
    out.extend_from_slice(&header(b"", name, content.len() as u64, kind));
    out.extend_from_slice(&content);
    out.resize(out.len() + padding(content.len() as u64), 0);
}

/// A name in two parts that fit, the first of them perhaps empty.
fn split(name: &str) -> Option<(&[u8], &[u8])> {
    let name = name.as_bytes();
    if name.len() <= 100 {
        return Some((b"", name));
    }
    let slashes = (1..name.len().min(156)).filter(|&at| name[at] == b'/');
    let fits = |&at: &usize| (1..=100).contains(&(name.len() - at - 1));
    let at = slashes.rev().find(fits)?;
    Some((&name[..at], &name[at + 1..]))
}

fn pax_record(name: &str, value: &str) -> Vec<u8> {
    let rest = name.len() + value.len() + 3;
    let mut length = rest;
    // The digits count too, and with them there may be one digit more.
    while rest + length.to_string().len() != length {
        length = rest + length.to_string().len();
    }
    format!("{length} {name}={value}\n").into_bytes()
}

fn header(prefix: &[u8], name: &[u8], size: u64, kind: u8) -> [u8; BLOCK] {
    let mut block = [0; BLOCK];
    let mut put = |at: usize, bytes: &[u8]| block[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, name);
    put(100, b"0000444\0");
    put(108, b"0000000\0");
    put(116, b"0000000\0");
    put(124, format!("{size:011o}\0").as_bytes());
    put(136, b"00000000000\0");
    put(156, &[kind]);
    put(257, b"ustar\x0000");
    put(329, b"0000000\0");
    put(337, b"0000000\0");
    put(345, prefix);
    let sum = format!("{:06o}\0 ", unsigned_sum(&block));
    block[148..156].copy_from_slice(sum.as_bytes());
    block
}

fn unsigned_sum(block: &[u8; BLOCK]) -> u64 {
    // Without a condition in the loop, so that many bytes are added at a time.
    let all: u32 = block.iter().map(|&byte| u32::from(byte)).sum();
    let own: u32 = block[148..156].iter().map(|&byte| u32::from(byte)).sum();
    u64::from(all - own + 8 * 32)
}

fn signed_sum(block: &[u8; BLOCK]) -> i64 {
    let bytes = block.iter().enumerate();
    bytes.map(|(at, &byte)| if (148..156).contains(&at) { 32 } else { i64::from(byte as i8) }).sum()
}

/// A field without what follows its first zero.
fn text(field: &[u8]) -> &[u8] {
    &field[..memchr::memchr(0, field).unwrap_or(field.len())]
}

/// The number in a field: octal digits between spaces, or binary under a first byte of 128.
fn octal(block: &[u8; BLOCK], at: usize, len: usize) -> Result<u64, FormatError> {
    let field = &block[at..at + len];
    let refuse = || {
        let found = String::from_utf8_lossy(field).escape_debug().to_string();
        FormatError::new(at as u64, "an octal number", format!("\"{found}\""))
    };
    if let [0x80, rest @ ..] = field {
        let number = rest
            .iter()
            .try_fold(0u64, |number, &byte| Some(number.checked_mul(256)? | u64::from(byte)));
        return number.ok_or_else(refuse);
    }
    let mut digits = text(field);
    while let [b' ', rest @ ..] | [rest @ .., b' '] = digits {
        digits = rest;
    }
    let number = digits.iter().try_fold(0u64, |number, &byte| match byte {
        b'0'..=b'7' => Some(number.checked_mul(8)? | u64::from(byte - b'0')),
        _ => None,
    });
    number.ok_or_else(refuse)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn header_round_trips() -> Result<(), Box<dyn std::error::Error>> {
        use crate::format::tar::{Kind, file_header, parse_header};

        let block = file_header("cat.jpg", 1234)?;
        let header = parse_header(block.last_chunk().unwrap())?.unwrap();
        assert_eq!(
            (&header.name[..], header.size, header.kind),
            (&b"cat.jpg"[..], 1234, Kind::File)
        );
        assert_eq!(parse_header(&[0; 512])?, None);
        Ok(())
    }

    #[test]
    fn names_of_all_lengths() {
        let deep = format!("{}/{}", "d".repeat(155), "n".repeat(100));
        for name in ["a", "ä/b.jpg", &"n".repeat(100), &deep] {
            let block = file_header(name, 8).unwrap();
            let header = parse_header(block.as_slice().try_into().unwrap()).unwrap().unwrap();
            assert_eq!(header, Header { name: name.into(), size: 8, kind: Kind::File });
        }
        for name in ["n".repeat(101), format!("{}/n", "d".repeat(156)), "ä".repeat(60)] {
            let blocks = file_header(&name, 8).unwrap();
            assert_eq!(blocks.len(), 3 * BLOCK);
            let pax = parse_header(blocks.first_chunk().unwrap()).unwrap().unwrap();
            assert_eq!(pax.kind, Kind::Pax);
            let records = pax_records(&blocks[BLOCK..BLOCK + pax.size as usize]).unwrap();
            assert_eq!(records, [(&b"path"[..], name.as_bytes())]);
            let file = parse_header(blocks.last_chunk().unwrap()).unwrap().unwrap();
            assert_eq!((file.size, file.kind), (8, Kind::File));
        }
        assert!(file_header("", 0).is_err() && file_header("a\0b", 0).is_err());
        assert!(file_header("a", MAX_OCTAL).is_ok() && file_header("a", MAX_OCTAL + 1).is_err());
    }

    #[test]
    fn records_count_their_own_digits() {
        for len in (0..1100).step_by(if cfg!(miri) { 99 } else { 1 }) {
            let value = "v".repeat(len);
            let record = pax_record("path", &value);
            assert_eq!(pax_records(&record).unwrap(), [(&b"path"[..], value.as_bytes())]);
        }
        let two = pax_records(b"6 a=b\n9 key=v=\n").unwrap();
        assert_eq!(two, [(&b"a"[..], &b"b"[..]), (b"key", b"v=")]);
        let error = pax_records(b"6 a=b\n7 a=b\n").unwrap_err().to_string();
        assert_eq!(error, "byte 6: expected a record of its length, found other bytes");
        for broken in
            ["5", "5 a=b\n", "0 a=b\n", "1 a=b\n", "99 a=b\n", " a=b\n", "5 ab\n", "+7 a=b\n"]
        {
            assert!(pax_records(broken.as_bytes()).is_err(), "{broken:?}");
        }
    }

    #[test]
    fn every_changed_byte_is_noticed_or_harmless() {
        let block: [u8; BLOCK] = file_header("name.jpg", 12345).unwrap().try_into().unwrap();
        let whole = parse_header(&block).unwrap();
        for at in 0..BLOCK {
            for bit in 0..8 {
                let mut changed = block;
                changed[at] ^= 1 << bit;
                if let Ok(header) = parse_header(&changed) {
                    assert_eq!(header, whole, "{at}");
                    assert!((148..156).contains(&at), "{at}");
                }
            }
        }
    }

    #[test]
    fn sizes_of_gnu_tar() {
        let mut block: [u8; BLOCK] = file_header("a", 0).unwrap().try_into().unwrap();
        let mut sized = |field: [u8; 12]| {
            block[124..136].copy_from_slice(&field);
            let sum = format!("{:06o}\0 ", unsigned_sum(&block));
            block[148..156].copy_from_slice(sum.as_bytes());
            parse_header(&block).map(|header| header.unwrap().size)
        };
        assert_eq!(sized([128, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 1]), Ok((2 << 32) + 1));
        assert_eq!(sized([128, 0, 0, 0, 255, 255, 255, 255, 255, 255, 255, 255]), Ok(u64::MAX));
        assert!(sized([128, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0]).is_err());
        assert!(sized([255; 12]).is_err());
        assert_eq!(sized(*b"        17 \0"), Ok(0o17));
        assert!(sized(*b"00000000018\0").is_err());
        assert!(sized(*b"0000000+017\0").is_err());
    }
}
