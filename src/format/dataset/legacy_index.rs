//! `.index`: keys and offsets in one msgpack map, as datadings before 3.1 wrote them. Read only.
//!
//! Strings are as in [`keys`]; offsets are accepted in every form that msgpack has for a number
//! that is not negative.

use super::keys;
use crate::format::FormatError;

/// The longest header: a reader that has this many bytes of the file can parse it.
pub const MAX_HEADER: usize = 5;

/// The number of entries, and the length of the header that says so. The number is unverified.
pub fn parse_header(bytes: &[u8]) -> Result<(u64, usize), FormatError> {
    match *bytes {
        [first @ 0x80..=0x8f, ..] => Ok((u64::from(first & 0x0f), 1)),
        [0xde, a, b, ..] => Ok((u64::from(u16::from_be_bytes([a, b])), 3)),
        [0xdf, a, b, c, d, ..] => Ok((u64::from(u32::from_be_bytes([a, b, c, d])), 5)),
        _ => Err(FormatError::new(0, "a map of keys and offsets", keys::found(bytes))),
    }
}

/// Walks over the entries of a whole `.index` file: each key and where its sample begins.
///
/// After an error there are no more items. Bytes after the last entry are also an error.
///
/// ```
/// use kiste::format::dataset::legacy_index::Entries;
///
/// let entries: Result<Vec<_>, _> = Entries::parse(b"\x82\xa2k0\x00\xa2k1\x0b")?.collect();
/// assert_eq!(entries?, [("k0", 0), ("k1", 11)]);
/// # Ok::<(), kiste::format::FormatError>(())
/// ```
#[derive(Debug, Clone)]
#[must_use = "iterators are lazy and do nothing unless consumed"]
pub struct Entries<'a> {
    bytes: &'a [u8],
    at: usize,
    left: u64,
    last: Option<u64>,
    done: bool,
}

impl<'a> Entries<'a> {
    /// The entries of a whole file.
    pub fn parse(file: &'a [u8]) -> Result<Entries<'a>, FormatError> {
        let (left, at) = parse_header(file)?;
        Ok(Entries { bytes: file, at, left, last: None, done: false })
    }

    fn entry(&mut self) -> Result<(&'a str, u64), FormatError> {
        let key = keys::read(self.bytes, &mut self.at)?;
        let position = self.at as u64;
        let offset = read_offset(self.bytes, &mut self.at)?;
        let expected = match self.last.replace(offset) {
            None if offset != 0 => "the first offset to be 0".to_owned(),
            Some(last) if offset < last => format!("an offset of {last} or more"),
            _ => return Ok((key, offset)),
        };
        Err(FormatError::new(position, expected, offset.to_string()))
    }
}

impl<'a> Iterator for Entries<'a> {
    type Item = Result<(&'a str, u64), FormatError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.done {
            return None;
        }
        if self.left == 0 {
            self.done = true;
            return keys::end(self.bytes, self.at).err().map(Err);
        }
        self.left -= 1;
        let entry = self.entry();
        self.done = entry.is_err();
        Some(entry)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        // An entry takes at least two bytes, so a wrong count in the header cannot allocate more.
        let most = self.left.min((self.bytes.len().saturating_sub(self.at) / 2) as u64) as usize;
        (0, Some(most.saturating_add(1)))
    }
}

/// Reads the number at `at`, in any form that msgpack has for it, and steps over it.
fn read_offset(bytes: &[u8], at: &mut usize) -> Result<u64, FormatError> {
    let rest = bytes.get(*at..).unwrap_or_default();
    let (len, signed) = match rest.first() {
        Some(&small @ 0..=0x7f) => {
            *at += 1;
            return Ok(u64::from(small));
        }
        Some(&first @ 0xcc..=0xcf) => (1 << (first - 0xcc), false),
        Some(&first @ 0xd0..=0xd3) => (1 << (first - 0xd0), true),
        Some(0xe0..=0xff) => return Err(negative(*at)),
        _ => return Err(FormatError::new(*at as u64, "an offset", keys::found(rest))),
    };
    let Some(digits) = rest.get(1..1 + len) else {
        return Err(FormatError::new(*at as u64, "an offset", "half an integer"));
    };
    if signed && digits.first().is_some_and(|&first| first >= 0x80) {
        return Err(negative(*at));
    }
    *at += 1 + len;
    Ok(digits.iter().fold(0, |number, &digit| number << 8 | u64::from(digit)))
}

fn negative(at: usize) -> FormatError {
    FormatError::new(at as u64, "an offset", "a negative integer")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::dataset::golden;

    fn collect(file: &[u8]) -> Result<Vec<(&str, u64)>, FormatError> {
        Entries::parse(file)?.collect()
    }

    #[test]
    fn golden_files_have_these_entries() {
        let sets = golden::datasets();
        for legacy in golden::legacy() {
            let file = golden::read(&format!("{}.index", legacy.path));
            let same =
                sets.iter().find(|set| set.path == format!("{}.msgpack", legacy.same_data_as));
            let same = same.unwrap();
            let keys = same.keys.iter().map(|key| &**key);
            let wanted: Vec<_> = keys.zip(same.offsets.iter().copied()).collect();
            assert_eq!(collect(&file).unwrap(), wanted, "{}", legacy.path);
            assert_eq!(parse_header(&file).unwrap().0, wanted.len() as u64);
        }
    }

    #[test]
    fn every_form_of_a_number_is_read() {
        let forms: [(&[u8], u64); 9] = [
            (b"\x7f", 127),
            (b"\xcc\xff", 255),
            (b"\xcd\x01\x00", 256),
            (b"\xce\xff\xff\xff\xff", 0xffff_ffff),
            (b"\xcf\xff\xff\xff\xff\xff\xff\xff\xff", u64::MAX),
            (b"\xd0\x7f", 127),
            (b"\xd1\x01\x00", 256),
            (b"\xd2\x7f\xff\xff\xff", 0x7fff_ffff),
            (b"\xd3\x00\x00\x00\x00\x00\x00\x00\x01", 1),
        ];
        for (bytes, number) in forms {
            let file = [b"\xdf\0\0\0\x02\xa1a\0\xd9\x01b", bytes].concat();
            assert_eq!(collect(&file).unwrap(), [("a", 0), ("b", number)]);
        }
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (file, message) in [
            (&b""[..], "byte 0: expected a map of keys and offsets, found the end of the file"),
            (b"\x91\xa1a", "byte 0: expected a map of keys and offsets, found an array"),
            (b"\x81\xa1a", "byte 3: expected an offset, found the end of the file"),
            (b"\x81\xa1a\x01", "byte 3: expected the first offset to be 0, found 1"),
            (b"\x82\xa1a\0\xa1b\xff", "byte 6: expected an offset, found a negative integer"),
            (b"\x82\xa1a\0\xa1b\xd0\xff", "byte 6: expected an offset, found a negative integer"),
            (b"\x82\xa1a\0\xa1b\xcd\x01", "byte 6: expected an offset, found half an integer"),
            (b"\x83\xa1a\0\xa1b\x09\xa1c\x08", "byte 9: expected an offset of 9 or more, found 8"),
            (b"\x81\x01\0", "byte 1: expected a string, found an integer"),
            (b"\x81\xa1a\0\0", "byte 4: expected the end, found 1 more bytes"),
            (b"\x80\0", "byte 1: expected the end, found 1 more bytes"),
        ] {
            assert_eq!(collect(file).unwrap_err().to_string(), message);
            assert_eq!(Entries::parse(file).map_or(1, |all| all.filter(Result::is_err).count()), 1);
        }
        // An empty sample has the offset of the next one.
        assert_eq!(collect(b"\x82\xa1a\0\xa1b\0").unwrap(), [("a", 0), ("b", 0)]);
        assert_eq!(collect(b"\x80").unwrap(), []);
    }

    #[test]
    fn damage_never_panics() {
        let file = golden::read("legacy/unicode100.msgpack.index");
        golden::damage(&file, |bytes| {
            let _ = collect(bytes);
        });
        for end in 0..file.len() {
            assert!(collect(&file[..end]).is_err(), "{end}");
        }
        let claim = Entries::parse(b"\xdf\xff\xff\xff\xff").unwrap();
        assert_eq!(claim.size_hint(), (0, Some(1)));
    }
}
