//! The lengths in a Parquet file that must not be trusted: the shape of the schema in the footer,
//! and the sizes in page headers.
//!
//! Both are in Thrift's compact protocol. The other fields are left to the `parquet` crate, which
//! recurses along the schema and allocates pages before it has read them; so these numbers are
//! checked against limits before that crate sees the file.
//!
//! Absent on purpose: everything else. Columns become samples in
//! [`convert`](crate::convert).

use crate::format::FormatError;

/// The first and last bytes of a file.
pub const MAGIC: [u8; 4] = *b"PAR1";

/// The length of the footer and the magic after it.
pub(crate) const TAIL: usize = 8;

/// How deep columns, and structures within footers, may be nested.
pub(crate) const MAX_DEPTH: usize = 64;

/// How long a footer is, from the last bytes of a file.
pub fn parse_tail(tail: &[u8; TAIL]) -> Result<u32, FormatError> {
    let [a, b, c, d, magic @ ..] = *tail;
    match magic == MAGIC {
        true => Ok(u32::from_le_bytes([a, b, c, d])),
        false => Err(FormatError::new(4, "PAR1 at the end of the file", "other bytes")),
    }
}

/// Checks that the structure of a footer is well-formed, and that no more than `MAX_DEPTH` columns
/// are nested.
pub fn check_footer(footer: &[u8]) -> Result<(), FormatError> {
    let mut thrift = Compact { bytes: footer, at: 0 };
    let mut left: Vec<u64> = Vec::new();
    thrift.fields(0, &mut |thrift, id, of| {
        if id != 2 {
            return thrift.skip(of, 1);
        }
        let (item, len) = thrift.list()?;
        for _ in 0..len {
            let mut children = 0;
            thrift.expect(item, STRUCT)?;
            thrift.fields(1, &mut |thrift, id, of| match id {
                5 => thrift.i32(of).map(|found| children = found),
                _ => thrift.skip(of, 2),
            })?;
            if let Some(last) = left.last_mut() {
                *last -= 1;
            }
            let children = u64::try_from(children).unwrap_or(0);
            if children > 0 {
                left.push(children);
            }
            if left.len() > MAX_DEPTH {
                let expected = format!("at most {MAX_DEPTH} nested columns");
                return Err(thrift.flaw(expected, "more"));
            }
            while left.last() == Some(&0) {
                left.pop();
            }
        }
        Ok(())
    })
}

/// The sizes in the header of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageHeader {
    /// The bytes of the header itself.
    pub len: usize,
    /// The bytes of the page after the header.
    pub compressed: u32,
    /// Its bytes when it is decompressed.
    pub uncompressed: u32,
    /// The values in it, if it is a dictionary.
    pub dictionary: Option<u32>,
    /// How many bytes of the page are levels that are never compressed, in front of those that may
    /// be: there are such in pages of version 2.
    pub levels: u32,
}

/// Reads the header of a page, at which these bytes begin.
pub fn parse_page_header(bytes: &[u8]) -> Result<PageHeader, FormatError> {
    let mut thrift = Compact { bytes, at: 0 };
    let (mut compressed, mut uncompressed, mut dictionary) = (None, None, None);
    let mut levels = 0u32;
    thrift.fields(0, &mut |thrift, id, of| match (id, of) {
        (2, _) => thrift.size(of).map(|size| uncompressed = Some(size)),
        (3, _) => thrift.size(of).map(|size| compressed = Some(size)),
        (7, STRUCT) => thrift.fields(1, &mut |thrift, id, of| match id {
            1 => thrift.size(of).map(|values| dictionary = Some(values)),
            _ => thrift.skip(of, 2),
        }),
        (8, STRUCT) => thrift.fields(1, &mut |thrift, id, of| match id {
            5 | 6 => thrift.size(of).map(|len| levels = levels.saturating_add(len)),
            _ => thrift.skip(of, 2),
        }),
        _ => thrift.skip(of, 1),
    })?;
    match (compressed, uncompressed) {
        (Some(compressed), Some(uncompressed)) => {
            Ok(PageHeader { len: thrift.at, compressed, uncompressed, dictionary, levels })
        }
        _ => Err(FormatError::new(0, "the header of a page with its sizes", "one without")),
    }
}

const TRUE: u8 = 1;
const FALSE: u8 = 2;
const BYTE: u8 = 3;
const I16: u8 = 4;
const I32: u8 = 5;
const I64: u8 = 6;
const DOUBLE: u8 = 7;
const BINARY: u8 = 8;
const LIST: u8 = 9;
const SET: u8 = 10;
const MAP: u8 = 11;
const STRUCT: u8 = 12;
const UUID: u8 = 13;

/// Walks over Thrift's compact protocol.
struct Compact<'a> {
    bytes: &'a [u8],
    at: usize,
}

/// Takes a field by its number and type, and must read all of it.
type TakeField<'f, 'a> = dyn FnMut(&mut Compact<'a>, i16, u8) -> Result<(), FormatError> + 'f;

impl<'a> Compact<'a> {
    fn flaw(&self, expected: impl Into<String>, found: impl Into<String>) -> FormatError {
        FormatError::new(self.at as u64, expected.into(), found.into())
    }

    fn take(&mut self, len: u64) -> Result<&'a [u8], FormatError> {
        let len = usize::try_from(len).unwrap_or(usize::MAX);
        let end = self.at.checked_add(len).filter(|end| *end <= self.bytes.len());
        let end = end.ok_or_else(|| self.flaw(format!("{len} more bytes"), "the end"))?;
        let taken = &self.bytes[self.at..end];
        self.at = end;
        Ok(taken)
    }

    fn byte(&mut self) -> Result<u8, FormatError> {
        self.take(1).map(|bytes| bytes[0])
    }

    fn varint(&mut self) -> Result<u64, FormatError> {
        let mut number = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err(self.flaw("a number of at most 64 bits", "a longer one"))
    }

    fn zigzag(&mut self) -> Result<i64, FormatError> {
        let number = self.varint()?;
        Ok((number >> 1) as i64 ^ -((number & 1) as i64))
    }

    fn expect(&self, found: u8, expected: u8) -> Result<(), FormatError> {
        match found == expected {
            true => Ok(()),
            false => Err(self.flaw(format!("type {expected} of Thrift"), found.to_string())),
        }
    }

    fn i32(&mut self, of: u8) -> Result<i32, FormatError> {
        self.expect(of, I32)?;
        let number = self.zigzag()?;
        i32::try_from(number).map_err(|_| self.flaw("a number of 32 bits", number.to_string()))
    }

    fn size(&mut self, of: u8) -> Result<u32, FormatError> {
        let number = self.i32(of)?;
        u32::try_from(number).map_err(|_| self.flaw("a size", number.to_string()))
    }

    /// The type and number of the items of a list. Each item has at least a byte.
    fn list(&mut self) -> Result<(u8, u64), FormatError> {
        let head = self.byte()?;
        let len = match head >> 4 {
            15 => self.varint()?,
            len => len.into(),
        };
        let left = self.bytes.len() - self.at;
        if len > left as u64 {
            return Err(self.flaw(format!("at most {left} items"), len.to_string()));
        }
        Ok((head & 0xf, len))
    }

    fn fields(&mut self, depth: usize, take: &mut TakeField<'_, 'a>) -> Result<(), FormatError> {
        if depth > MAX_DEPTH {
            return Err(self.flaw(format!("at most {MAX_DEPTH} nested structures"), "more"));
        }
        let mut id = 0i16;
        loop {
            let head = self.byte()?;
            if head & 0xf == 0 {
                return Ok(());
            }
            id = match head >> 4 {
                0 => self.zigzag()? as i16,
                delta => id.wrapping_add(delta.into()),
            };
            take(self, id, head & 0xf)?;
        }
    }

    /// Passes over a value of this type, in a structure this deep.
    fn skip(&mut self, of: u8, depth: usize) -> Result<(), FormatError> {
        match of {
            TRUE | FALSE => Ok(()),
            BYTE => self.byte().map(drop),
            I16 | I32 | I64 => self.varint().map(drop),
            DOUBLE => self.take(8).map(drop),
            UUID => self.take(16).map(drop),
            BINARY => {
                let len = self.varint()?;
                self.take(len).map(drop)
            }
            STRUCT => self.fields(depth, &mut |thrift, _, of| thrift.skip(of, depth + 1)),
            LIST | SET => {
                let (item, len) = self.list()?;
                (0..len).try_for_each(|_| self.skip_item(item, depth))
            }
            MAP => {
                let len = self.varint()?;
                let types = if len > 0 { self.byte()? } else { 0 };
                (0..len).try_for_each(|_| {
                    self.skip_item(types >> 4, depth)?;
                    self.skip_item(types & 0xf, depth)
                })
            }
            other => Err(self.flaw("a type of Thrift", other.to_string())),
        }
    }

    /// Within lists and maps booleans have a byte.
    fn skip_item(&mut self, of: u8, depth: usize) -> Result<(), FormatError> {
        if depth > MAX_DEPTH {
            return Err(self.flaw(format!("at most {MAX_DEPTH} nested lists"), "more"));
        }
        match of {
            TRUE | FALSE => self.byte().map(drop),
            of => self.skip(of, depth + 1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_headers() {
        // Type 2, 300 bytes of 7, a dictionary of 5 values.
        let header = [0x15, 4, 0x15, 0xd8, 4, 0x15, 14, 0x4c, 0x15, 10, 0x15, 0, 0, 0, 99];
        let found = parse_page_header(&header).unwrap();
        let (len, dictionary) = (14, Some(5));
        let expected = PageHeader { len, compressed: 7, uncompressed: 300, dictionary, levels: 0 };
        assert_eq!(found, expected);
        for end in 0..14 {
            assert!(parse_page_header(&header[..end]).is_err(), "{end}");
        }
        assert!(parse_page_header(&[0x25, 1, 0x15, 2, 0]).is_err(), "a negative size");
        assert!(parse_page_header(&[0x15, 4, 0]).is_err(), "no sizes");
        // Type 3, of version 2, with levels of 4 and 5 bytes.
        let header = [0x15, 6, 0x15, 40, 0x15, 24, 0x5c, 0x55, 8, 0x15, 10, 0, 0];
        assert_eq!(parse_page_header(&header).unwrap().levels, 9);
    }

    /// A footer with a list of elements that have this many children.
    fn footer(children: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0x29, 0xfc, 0x80 | (children.len() % 128) as u8];
        bytes.push((children.len() / 128) as u8);
        for &count in children {
            bytes.extend([0x55, count * 2, 0]);
        }
        bytes.push(0);
        bytes
    }

    #[test]
    fn deep_schemas_are_refused() {
        check_footer(&footer(&[2, 1, 0, 0])).unwrap();
        check_footer(&footer(&[1; MAX_DEPTH])).unwrap();
        assert!(check_footer(&footer(&[1; MAX_DEPTH + 1])).is_err());
        // Deep structures and lists in fields that no reader needs.
        assert!(check_footer(&[0x3c; 100_000]).is_err());
        assert!(check_footer(&[&[0x39][..], &[0x19; 100_000]].concat()).is_err());
        assert!(check_footer(&[0x29, 0xfc, 0xff, 0xff, 0xff, 0xff, 0x7f]).is_err());
        let wide = footer(&[0; 1000]);
        for end in 0..wide.len() {
            assert!(check_footer(&wide[..end]).is_err());
        }
    }

    #[test]
    fn tails() {
        assert_eq!(parse_tail(b"\x01\x02\0\0PAR1").unwrap(), 513);
        assert!(parse_tail(b"\x01\x02\0\0PARE").is_err());
    }
}
