//! TFRecord: records one after the other, each with its length and checksums, and the `Example`s
//! that are in most of them.
//!
//! A record is (TensorFlow, `tensorflow/core/lib/io/record_writer.h`; all numbers low byte first):
//!
//! | bytes | |
//! | --- | --- |
//! | 8 | length of the data |
//! | 4 | masked CRC-32C of these eight bytes |
//! | length | the data |
//! | 4 | masked CRC-32C of the data |
//!
//! A file has no head and no end of its own. [`example`] reads and writes what the data usually
//! are, and [`sample`] makes fields of them. Feature `formats`.

pub mod example;
pub(crate) mod sample;

use crate::format::FormatError;

/// Bytes in front of the data of a record.
pub const HEADER: usize = 12;

/// Bytes after the data of a record.
pub(crate) const FOOTER: usize = 4;

/// Added to a checksum that was turned, so that the checksum of bytes with a checksum in them is no
/// weaker.
const MASK: u32 = 0xa282_ead8;

/// The masked CRC-32C of these bytes.
pub fn checksum(bytes: &[u8]) -> u32 {
    crc32c::crc32c(bytes).rotate_right(15).wrapping_add(MASK)
}

/// Reads what is in front of a record, and checks it: the length of the data.
pub fn parse_header(header: &[u8; HEADER]) -> Result<u64, FormatError> {
    let [length @ .., c0, c1, c2, c3] = *header;
    let found = u32::from_le_bytes([c0, c1, c2, c3]);
    expect(8, &length, found, "the length")?;
    Ok(u64::from_le_bytes(length))
}

/// Whether these first bytes of a file belong to zlib, which compresses whole files, and not to the
/// header of a record.
pub(crate) fn is_zlib(head: &[u8]) -> bool {
    let [method, flags, ..] = *head else { return false };
    let is_zlib = method & 0x8f == 8 && u16::from_be_bytes([method, flags]) % 31 == 0;
    is_zlib && head.first_chunk().is_none_or(|head| parse_header(head).is_err())
}

/// Compares the data of a record with the checksum after it.
pub(crate) fn check_data(data: &[u8], footer: [u8; FOOTER]) -> Result<(), FormatError> {
    expect(HEADER as u64 + data.len() as u64, data, u32::from_le_bytes(footer), "the data")
}

fn expect(position: u64, bytes: &[u8], found: u32, what: &str) -> Result<(), FormatError> {
    let expected = checksum(bytes);
    if expected == found {
        return Ok(());
    }
    let expected = format!("the checksum {expected:08x} of {what}");
    Err(FormatError::new(position, expected, format!("{found:08x}")))
}

/// Appends a record of these data.
pub fn encode(data: &[u8], out: &mut Vec<u8>) {
    let length = (data.len() as u64).to_le_bytes();
    out.extend_from_slice(&length);
    out.extend_from_slice(&checksum(&length).to_le_bytes());
    out.extend_from_slice(data);
    out.extend_from_slice(&checksum(data).to_le_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn record_round_trips() -> Result<(), Box<dyn std::error::Error>> {
        use crate::format::tfrecord::{check_data, encode, parse_header};

        let mut file = Vec::new();
        encode(b"data", &mut file);
        let (header, rest) = file.split_first_chunk().unwrap();
        assert_eq!(parse_header(header)?, 4);
        let (data, footer) = rest.split_last_chunk().unwrap();
        check_data(data, *footer)?;
        Ok(())
    }

    #[test]
    fn every_changed_bit_is_noticed() {
        let mut whole = Vec::new();
        encode(b"some data", &mut whole);
        let read = |bytes: &[u8]| -> Result<(), FormatError> {
            let (header, rest) = bytes.split_first_chunk().unwrap();
            assert_eq!(parse_header(header)?, 9);
            let (data, footer) = rest.split_last_chunk().unwrap();
            check_data(data, *footer)
        };
        read(&whole).unwrap();
        for bit in 0..whole.len() * 8 {
            let mut changed = whole.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert!(read(&changed).is_err(), "{bit}");
        }
    }

    #[test]
    fn the_checksum_is_frozen() {
        // From RFC 3720, B.4: 32 bytes of zeros.
        assert_eq!(crc32c::crc32c(&[0; 32]), 0x8a91_36aa);
        assert_eq!(checksum(&[0; 32]), 0x8a91_36aa_u32.rotate_right(15).wrapping_add(0xa282_ead8));
    }
}
