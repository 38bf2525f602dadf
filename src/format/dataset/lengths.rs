//! `.lengths`: numbers of each sample by which batches are planned, in named columns. Ours alone, and
//! optional.
//!
//! Numbers are little-endian, unlike those of other side files, and each column begins at a multiple of 8, so
//! that a map of the file is the numbers. The [`Header`] identifies the data that they are of.

use twox_hash::XxHash3_64;

use super::crc::{self, MAX_COUNT, Source};
use crate::format::FormatError;

/// The first bytes of a `.lengths`.
pub const MAGIC: [u8; 8] = *b"KISTELEN";

/// The version that is written, and the only one that is read.
pub const VERSION: u32 = 1;

/// Bytes before the names of the columns.
pub const START: usize = 64;

/// The most columns.
pub const MAX_COLUMNS: usize = 64;

/// The most bytes of the name of a column.
pub const MAX_NAME: usize = 256;

/// Bytes of a number.
pub const ENTRY: u64 = 4;

/// The most bytes of a header: enough to read.
pub const MAX_HEADER: usize = START + MAX_COLUMNS * (NAME_AT + MAX_NAME);

/// Bytes of a column's entry in the header before its name.
const NAME_AT: usize = 8;

/// Where the checksum of the header is.
const CHECK: usize = 60;

/// A column, as the header describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// The CRC-32C of its numbers, and of the zeros behind them.
    pub checksum: u32,
}

/// The header of a `.lengths` file.
///
/// ```
/// use kiste::format::dataset::{crc, lengths};
///
/// let source = crc::Source { count: 2, data_len: 14, md5: None, offsets: 0 };
/// let numbers: Vec<u8> = [5u32, 7].iter().flat_map(|number| number.to_le_bytes()).collect();
/// let column = lengths::Column { name: "len(a)".into(), checksum: crc::checksum(&numbers) };
/// let header = lengths::Header::new(source, vec![column])?;
///
/// let file = [header.encode(), numbers].concat();
/// let read = lengths::Header::parse(&file, file.len() as u64)?;
/// let column = read.find("len(a)").expect("it was written");
/// let range = read.range(column);
/// assert_eq!(lengths::entry(&file[range.start as usize..range.end as usize], 1), Some(7));
/// # Ok::<(), kiste::format::FormatError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    source: Source,
    columns: Vec<Column>,
    /// Its size.
    len: usize,
}

impl Header {
    /// The header of these columns of this data.
    ///
    /// # Errors
    ///
    /// An error for no column, for too many of them, and for a name that is empty, too long or there twice.
    pub fn new(source: Source, columns: Vec<Column>) -> Result<Header, FormatError> {
        check_number(columns.len())?;
        let md5 = source.md5.filter(|md5| *md5 != [0; 16]);
        let mut len = START;
        for (at, column) in columns.iter().enumerate() {
            check_name(len, &column.name, &columns[..at])?;
            len += entry_len(column.name.len());
        }
        Ok(Header { source: Source { md5, ..source }, columns, len })
    }

    /// The data that the numbers are of.
    pub fn source(&self) -> &Source {
        &self.source
    }

    /// The columns, in the order of the file.
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// The names of the columns.
    pub fn names(&self) -> Vec<String> {
        self.columns.iter().map(|column| column.name.clone()).collect()
    }

    /// The number of the column of this name: of exactly this one, or else of the only one that is the same
    /// without spaces and quotes. Of `bytes` only exactly this one.
    pub fn find(&self, name: &str) -> Option<usize> {
        let exact = self.columns.iter().position(|column| column.name == name);
        if exact.is_some() {
            return exact;
        }
        let plain = |name: &str| -> String {
            name.chars().filter(|c| !c.is_whitespace() && !"'\"".contains(*c)).collect()
        };
        let wanted = plain(name);
        // In quotes it is a field.
        if wanted == "bytes" {
            return None;
        }
        let alike = |column: &Column| plain(&column.name) == wanted;
        let mut found = self.columns.iter().enumerate().filter(|(_, column)| alike(column));
        match (found.next(), found.next()) {
            (Some((only, _)), None) => Some(only),
            _ => None,
        }
    }

    /// The bytes of the file that have the numbers of a column.
    pub fn range(&self, column: usize) -> std::ops::Range<u64> {
        let start = self.len as u64 + column as u64 * column_len(self.source.count);
        start..start + self.source.count * ENTRY
    }

    /// The same with the zeros behind it, if there are any.
    pub fn padded(&self, column: usize) -> std::ops::Range<u64> {
        let start = self.range(column).start;
        start..start + column_len(self.source.count)
    }

    /// The size of the file.
    pub fn file_len(&self) -> u64 {
        self.len as u64 + self.columns.len() as u64 * column_len(self.source.count)
    }

    /// A number that tells a column from others, made of what is known without reading it.
    pub fn identity(&self, column: usize) -> u64 {
        let mut bytes = self.start();
        let Column { name, checksum } = &self.columns[column];
        bytes[..12].fill(0);
        bytes[12..16].copy_from_slice(&checksum.to_le_bytes());
        bytes[52..].fill(0);
        XxHash3_64::oneshot(&[&bytes, name.as_bytes()].concat())
    }

    /// Fails if the numbers are of other data than the present one. The checksum of `.offsets` is only asked for
    /// if the MD5 of the data is not known to be the same.
    pub fn check_source<E: From<FormatError>>(
        &self,
        now: &Source,
        offsets: impl FnOnce() -> Result<u32, E>,
    ) -> Result<(), E> {
        let known = self.source.md5.is_some() && now.md5.is_some_and(|md5| md5 != [0; 16]);
        self.source.check(&Source { offsets: self.source.offsets, ..*now })?;
        if !known {
            self.source.check(&Source { offsets: offsets()?, ..*now })?;
        }
        Ok(())
    }

    /// The bytes of the header.
    pub fn encode(&self) -> Vec<u8> {
        let mut header = self.start().to_vec();
        for Column { name, checksum } in &self.columns {
            header.extend(checksum.to_le_bytes());
            header.extend((name.len() as u32).to_le_bytes());
            header.extend(name.as_bytes());
            header.resize(header.len().next_multiple_of(8), 0);
        }
        let check = checked(&header);
        header[CHECK..START].copy_from_slice(&check.to_le_bytes());
        header
    }

    /// What is in front of the names, without the checksum.
    fn start(&self) -> [u8; START] {
        let Source { count, data_len, md5, offsets } = self.source;
        let mut start = [0; START];
        let mut put = |at: usize, bytes: &[u8]| start[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, &MAGIC);
        put(8, &VERSION.to_le_bytes());
        put(12, &(self.columns.len() as u32).to_le_bytes());
        put(16, &count.to_le_bytes());
        put(24, &data_len.to_le_bytes());
        put(32, &md5.unwrap_or_default());
        put(48, &offsets.to_le_bytes());
        put(52, &(self.len as u32).to_le_bytes());
        start
    }

    /// Parses a header, of which these are the first bytes: [`MAX_HEADER`] of them, or all of a smaller file of
    /// `file_len` bytes.
    ///
    /// All numbers in it are checked against the size of the file; the columns are not looked at.
    pub fn parse(bytes: &[u8], file_len: u64) -> Result<Header, FormatError> {
        let Some(start) = bytes.first_chunk::<START>() else {
            let found = format!("{} bytes", bytes.len());
            return Err(FormatError::new(0, "a header of 64 bytes or more", found));
        };
        if start[..8] != MAGIC {
            return Err(FormatError::new(0, "\"KISTELEN\"", "another file"));
        }
        let version = u32_at(start, 8);
        if version != VERSION {
            return Err(FormatError::new(8, format!("version {VERSION}"), version.to_string()));
        }
        let len = u32_at(start, 52) as usize;
        let Some(header) = bytes.get(..len).filter(|_| (START..=MAX_HEADER).contains(&len)) else {
            let most = bytes.len().min(MAX_HEADER);
            let expected = format!("a header of {START} to {most} bytes");
            return Err(FormatError::new(52, expected, len.to_string()));
        };
        let (check, stored) = (checked(header), u32_at(start, CHECK));
        if check != stored {
            let found = format!("{stored:08x}");
            return Err(FormatError::new(60, format!("the checksum {check:08x}"), found));
        }
        let reserved = u32_at(start, 56);
        if reserved != 0 {
            return Err(FormatError::new(56, "zero", reserved.to_string()));
        }
        let number = u32_at(start, 12) as usize;
        check_number(number)?;
        let count = u64_at(start, 16);
        if count > MAX_COUNT {
            let expected = format!("at most {MAX_COUNT} samples");
            return Err(FormatError::new(16, expected, count.to_string()));
        }
        if len as u64 + number as u64 * column_len(count) != file_len {
            let expected = format!("as many samples as a file of {file_len} bytes has");
            return Err(FormatError::new(16, expected, count.to_string()));
        }
        let mut columns = Vec::with_capacity(number);
        let mut at = START;
        for _ in 0..number {
            let column = parse_column(header, at, &columns)?;
            at += entry_len(column.name.len());
            columns.push(column);
        }
        if at != len {
            let expected = format!("{number} names in {} bytes", len - START);
            return Err(FormatError::new(at as u64, expected, "more bytes"));
        }
        let md5 = std::array::from_fn(|i| start[32 + i]);
        let source = Source {
            count,
            data_len: u64_at(start, 24),
            md5: Some(md5),
            offsets: u32_at(start, 48),
        };
        Header::new(source, columns)
    }
}

/// The column whose entry begins here, behind these.
fn parse_column(header: &[u8], at: usize, before: &[Column]) -> Result<Column, FormatError> {
    let damaged = |expected: &str, found: String| Err(FormatError::new(at as u64, expected, found));
    let Some(head) = header.get(at..).and_then(|rest| rest.first_chunk::<NAME_AT>()) else {
        return damaged("a column", "the end of the header".to_owned());
    };
    let (checksum, len) = (u32_at(head, 0), u32_at(head, 4) as usize);
    if len > MAX_NAME {
        return damaged("a name of at most 256 bytes", len.to_string());
    }
    let Some(entry) = header.get(at + NAME_AT..at + entry_len(len)) else {
        return damaged("a name within the header", format!("{len} bytes"));
    };
    let (name, zeros) = entry.split_at(len);
    if zeros.iter().any(|byte| *byte != 0) {
        return damaged("zeros behind the name", "other bytes".to_owned());
    }
    let Ok(name) = std::str::from_utf8(name) else {
        return damaged("a name in UTF-8", "other bytes".to_owned());
    };
    check_name(at, name, before)?;
    Ok(Column { name: name.to_owned(), checksum })
}

fn check_number(number: usize) -> Result<(), FormatError> {
    match (1..=MAX_COLUMNS).contains(&number) {
        true => Ok(()),
        false => Err(FormatError::new(12, "1 to 64 columns", number.to_string())),
    }
}

fn check_name(at: usize, name: &str, before: &[Column]) -> Result<(), FormatError> {
    let at = at as u64;
    if !(1..=MAX_NAME).contains(&name.len()) {
        let found = format!("one of {}", name.len());
        return Err(FormatError::new(at, "a name of 1 to 256 bytes", found));
    }
    match before.iter().any(|column| column.name == name) {
        true => Err(FormatError::new(at, "each name once", format!("{name:?} twice"))),
        false => Ok(()),
    }
}

/// Bytes of the entry of a column whose name has this many.
fn entry_len(name: usize) -> usize {
    (NAME_AT + name).next_multiple_of(8)
}

/// Bytes of a column of this many numbers.
const fn column_len(count: u64) -> u64 {
    (count * ENTRY).next_multiple_of(8)
}

/// The CRC-32C of a header, without its own checksum.
fn checked(header: &[u8]) -> u32 {
    crc::extend(crc::checksum(&header[..CHECK]), &header[START..])
}

/// Number `i` of these bytes, which are those of a column.
#[inline(always)]
pub fn entry(column: &[u8], i: usize) -> Option<u32> {
    let at = i.checked_mul(ENTRY as usize)?;
    column.get(at..)?.first_chunk().copied().map(u32::from_le_bytes)
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes[at..at + 4].iter().rev().fold(0, |number, &byte| number << 8 | u32::from(byte))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    bytes[at..at + 8].iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::dataset::golden;

    const MD5: [u8; 16] = *b"\x01\x23\x45\x67\x89\xab\xcd\xef\xfe\xdc\xba\x98\x76\x54\x32\x10";
    const SOURCE: Source = Source { count: 3, data_len: 17, md5: Some(MD5), offsets: 0x3596_dfb0 };

    fn numbers(numbers: &[u32]) -> Vec<u8> {
        let mut bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        bytes.resize(bytes.len().next_multiple_of(8), 0);
        bytes
    }

    fn file(source: Source, columns: &[(&str, &[u32])]) -> Vec<u8> {
        let bytes: Vec<Vec<u8>> = columns.iter().map(|(_, column)| numbers(column)).collect();
        let column = |((name, _), bytes): (&(&str, &[u32]), &Vec<u8>)| Column {
            name: (*name).to_owned(),
            checksum: crc::checksum(bytes),
        };
        let described = columns.iter().zip(&bytes).map(column).collect();
        [Header::new(source, described).unwrap().encode(), bytes.concat()].concat()
    }

    fn two() -> Vec<u8> {
        file(SOURCE, &[("len(tokens)", &[5, 0, 4_294_967_295]), ("bytes", &[7, 0, 10])])
    }

    #[test]
    fn bytes_are_frozen() {
        let hex: String = two().iter().map(|byte| format!("{byte:02x}")).collect();
        let wanted = [
            "4b495354454c454e",
            "0100000002000000",
            "0300000000000000",
            "1100000000000000",
            "0123456789abcdeffedcba9876543210",
            "b0df9635",
            "68000000",
            "00000000",
            "f84f34e5",
            "8a76af05",
            "0b000000",
            "6c656e28746f6b656e7329",
            "0000000000",
            "66a8cf47",
            "05000000",
            "6279746573",
            "000000",
            "0500000000000000ffffffff00000000",
            "07000000000000000a00000000000000",
        ];
        assert_eq!(hex, wanted.concat());
    }

    #[test]
    fn what_was_written_is_read() {
        let file = two();
        let header = Header::parse(&file, file.len() as u64).unwrap();
        assert_eq!((header.source(), header.file_len()), (&SOURCE, file.len() as u64));
        assert_eq!(header.encode(), file[..header.range(0).start as usize]);
        let read = |column: usize| -> Vec<u32> {
            let range = header.range(column);
            assert_eq!(range.start % 8, 0);
            let bytes = &file[range.start as usize..range.end as usize];
            assert_eq!((entry(bytes, 3), entry(bytes, usize::MAX)), (None, None));
            (0..3).map(|i| entry(bytes, i).unwrap()).collect()
        };
        assert_eq!((read(0), read(1)), (vec![5, 0, u32::MAX], vec![7, 0, 10]));
        for column in 0..2 {
            let range = header.padded(column);
            let bytes = &file[range.start as usize..range.end as usize];
            assert_eq!(crc::checksum(bytes), header.columns()[column].checksum);
        }
        assert_ne!(header.identity(0), header.identity(1));
        // No samples, one, and as many columns and bytes of names as there may be.
        let names: Vec<String> = (0..MAX_COLUMNS).map(|n| format!("{n:0>MAX_NAME$}")).collect();
        for count in [0, 1, 2] {
            let lengths: Vec<u32> = (0..count).collect();
            let columns: Vec<_> = names.iter().map(|name| (name.as_str(), &lengths[..])).collect();
            let file = self::file(Source { count: u64::from(count), ..SOURCE }, &columns);
            let first = &file[..file.len().min(MAX_HEADER)];
            let header = Header::parse(first, file.len() as u64).unwrap();
            assert_eq!((header.columns().len(), header.source().count), (64, u64::from(count)));
        }
    }

    #[test]
    fn names_are_found_without_spaces_and_quotes() {
        let file = file(
            SOURCE,
            &[("len('a-b')", &[0; 3]), ("'bytes'", &[0; 3]), ("a", &[0; 3]), ("'a'", &[0; 3])],
        );
        let header = Header::parse(&file, file.len() as u64).unwrap();
        for (name, found) in [
            ("len('a-b')", Some(0)),
            ("len( a-b )", Some(0)),
            ("len(\"a-b\")", Some(0)),
            ("bytes", None),
            ("'bytes'", Some(1)),
            ("a", Some(2)),
            ("'a'", Some(3)),
            ("\"a\"", None),
            ("len(a)", None),
        ] {
            assert_eq!(header.find(name), found, "{name}");
        }
    }

    #[test]
    fn every_change_of_the_header_is_seen() {
        let file = two();
        let (len, header) = (file.len() as u64, 0x68);
        Header::parse(&file[..header], len).unwrap();
        for end in 0..header {
            assert!(Header::parse(&file[..end], len).is_err(), "{end}");
        }
        for end in 0..file.len() {
            assert!(Header::parse(&file[..end], end as u64).is_err(), "{end}");
        }
        for at in 0..header {
            for bit in 0..8 {
                let mut changed = file.clone();
                changed[at] ^= 1 << bit;
                assert!(Header::parse(&changed, len).is_err(), "{at}");
            }
        }
        for len in [0, 64, len - 8, len - 4, len + 4, len + 8, u64::MAX] {
            assert!(Header::parse(&file, len).is_err(), "{len}");
        }
        golden::damage(&file, |bytes| {
            let _ = Header::parse(bytes, bytes.len() as u64);
        });
    }

    #[test]
    fn headers_that_no_file_can_have() {
        // With a checksum that is right: made so, not damaged.
        let made = |at: usize, bytes: &[u8]| {
            let mut file = two();
            file[at..at + bytes.len()].copy_from_slice(bytes);
            let len = (u32_at(&file, 52) as usize).clamp(START, file.len());
            let check = checked(&file[..len]);
            file[CHECK..START].copy_from_slice(&check.to_le_bytes());
            Header::parse(&file, file.len() as u64).map_err(|error| error.position)
        };
        made(0, b"").unwrap();
        for (at, bytes, position) in [
            (8, &[2][..], 8),
            (12, &[0], 12),
            (12, &[65], 12),
            (12, &[255; 4], 12),
            (12, &[1], 16),
            (12, &[3], 16),
            (16, &[5], 16),
            (16, &[255; 8], 16),
            (16, &[0, 0, 0, 0, 0, 0, 0, 64], 16),
            (52, &[0], 52),
            (52, &[255; 4], 52),
            (52, &[0x60], 16),
            (56, &[1], 56),
            (68, &[0], 64),
            (68, &[255; 4], 64),
            (68, &[200], 64),
            (72, &[0xff], 64),
            (87, &[1], 64),
            (92, &[13], 88),
        ] {
            assert_eq!(made(at, bytes), Err(position), "{at} {bytes:?}");
        }
        // The same name twice, and other columns than may be.
        let column = |name: &str| Column { name: name.to_owned(), checksum: 0 };
        let columns = |names: &[&str]| names.iter().map(|name| column(name)).collect::<Vec<_>>();
        let long = "x".repeat(MAX_NAME + 1);
        for names in [&[][..], &["a", "a"], &[""], &[&long[..]], &["a"; 65]] {
            assert!(Header::new(SOURCE, columns(names)).is_err(), "{names:?}");
        }
    }
}
