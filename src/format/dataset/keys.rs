//! `.keys`: the keys of all samples, in sample order, as one msgpack array of strings.
//!
//! Written in the smallest form that msgpack has, read in any form. A key can only be found by
//! walking over those before it, so there is a fast walk, [`skip`], that reads only lengths.
//! Whether keys are unique is not checked here.

use std::ops::{Deref, Range};

use crate::format::FormatError;

/// The maximum number of keys in the array.
pub const MAX_COUNT: u64 = u32::MAX as u64;

/// The longest header: a reader that has this many bytes of the file can parse it.
pub const MAX_HEADER: usize = 5;

/// The header of a `.keys` file; derefs to its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    bytes: [u8; MAX_HEADER],
    len: usize,
}

impl Deref for Header {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// The header before `n` keys. More than [`MAX_COUNT`] are an error.
///
/// ```
/// use kiste::format::dataset::keys;
///
/// let mut file = keys::header(2).unwrap().to_vec();
/// for key in ["k0", "k1"] {
///     keys::push_key(&mut file, key).unwrap();
/// }
/// assert_eq!(file, b"\x92\xa2k0\xa2k1");
/// ```
pub fn header(n: u64) -> Result<Header, FormatError> {
    let Ok(n) = u32::try_from(n) else {
        return Err(FormatError::new(0, format!("at most {MAX_COUNT} keys"), n.to_string()));
    };
    let [a, b, c, d] = n.to_be_bytes();
    let (bytes, len) = match n {
        0..=0x0f => ([0x90 | d, 0, 0, 0, 0], 1),
        0x10..=0xffff => ([0xdc, c, d, 0, 0], 3),
        _ => ([0xdd, a, b, c, d], 5),
    };
    Ok(Header { bytes, len })
}

/// Appends a key. One of 4 GiB or more is an error.
#[inline]
pub fn push_key(out: &mut Vec<u8>, key: &str) -> Result<(), FormatError> {
    // Most keys are short. Here there is no error to be passed on.
    if key.len() < 0x20 {
        out.push(0xa0 | key.len() as u8);
        out.extend_from_slice(key.as_bytes());
        return Ok(());
    }
    push_long_key(out, key)
}

fn push_long_key(out: &mut Vec<u8>, key: &str) -> Result<(), FormatError> {
    let Ok(len) = u32::try_from(key.len()) else {
        let found = format!("{} bytes", key.len());
        return Err(FormatError::new(0, "a key of less than 4 GiB", found));
    };
    let [a, b, c, d] = len.to_be_bytes();
    match len {
        0..=0xff => out.extend_from_slice(&[0xd9, d]),
        0x100..=0xffff => out.extend_from_slice(&[0xda, c, d]),
        _ => out.extend_from_slice(&[0xdb, a, b, c, d]),
    }
    out.extend_from_slice(key.as_bytes());
    Ok(())
}

/// The number of keys, and the length of the header that says so.
///
/// The number is unverified: compare it with the offsets before allocating.
pub fn parse_header(bytes: &[u8]) -> Result<(u64, usize), FormatError> {
    match *bytes {
        [first @ 0x90..=0x9f, ..] => Ok((u64::from(first & 0x0f), 1)),
        [0xdc, a, b, ..] => Ok((u64::from(u16::from_be_bytes([a, b])), 3)),
        [0xdd, a, b, c, d, ..] => Ok((u64::from(u32::from_be_bytes([a, b, c, d])), 5)),
        _ => Err(FormatError::new(0, "an array of keys", found(bytes))),
    }
}

/// Walks over the keys of a `.keys` file.
///
/// After an error there are no more items. [`Keys::parse`] has the whole file, and so also gives an
/// error when bytes follow the last key; [`Keys::part`] starts at any key.
///
/// ```
/// use kiste::format::dataset::keys::Keys;
///
/// let keys: Result<Vec<&str>, _> = Keys::parse(b"\x92\xa2k0\xa2k1")?.collect();
/// assert_eq!(keys?, ["k0", "k1"]);
///
/// let not_keys = Keys::parse(b"\x92\xa2k0\x01")?.last().unwrap().unwrap_err();
/// assert_eq!(not_keys.to_string(), "byte 4: expected a string, found an integer");
/// # Ok::<(), kiste::format::FormatError>(())
/// ```
#[derive(Debug, Clone)]
#[must_use = "iterators are lazy and do nothing unless consumed"]
pub struct Keys<'a> {
    bytes: &'a [u8],
    at: usize,
    left: u64,
    /// Where in the file `bytes` begin.
    base: u64,
    /// Whether `bytes` are to end with the last key.
    to_end: bool,
}

impl<'a> Keys<'a> {
    /// The keys of a whole file.
    pub fn parse(file: &'a [u8]) -> Result<Keys<'a>, FormatError> {
        let (left, at) = parse_header(file)?;
        Ok(Keys { bytes: file, at, left, base: 0, to_end: true })
    }

    /// `count` keys that begin with the first of these bytes, which are at `position` in the file.
    /// More bytes may follow.
    pub fn part(bytes: &'a [u8], position: u64, count: u64) -> Keys<'a> {
        Keys { bytes, at: 0, left: count, base: position, to_end: false }
    }

    /// The position in the file of the next key, or of the end.
    pub fn position(&self) -> u64 {
        self.base.saturating_add(self.at as u64)
    }

    fn step(&mut self) -> Option<Result<&'a str, FormatError>> {
        if self.left == 0 {
            return self.check_end().err().map(Err);
        }
        self.left -= 1;
        Some(read(self.bytes, &mut self.at))
    }

    fn check_end(&mut self) -> Result<(), FormatError> {
        if std::mem::take(&mut self.to_end) {
            end(self.bytes, self.at)?;
        }
        Ok(())
    }
}

impl<'a> Iterator for Keys<'a> {
    type Item = Result<&'a str, FormatError>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut key = self.step()?;
        if let Err(error) = &mut key {
            error.position = error.position.saturating_add(self.base);
            self.left = 0;
            self.to_end = false;
        }
        Some(key)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        // A key takes at least one byte, so the length of the file caps the claim of the header.
        let most = self.left.min((self.bytes.len().saturating_sub(self.at)) as u64) as usize;
        (0, Some(most.saturating_add(1)))
    }
}

/// Steps over the key at `at`, looking at its length alone: neither UTF-8 nor the bytes are
/// touched.
///
/// On an error `at` stays.
///
/// ```
/// use kiste::format::dataset::keys;
/// let mut at = 1;
/// keys::skip(b"\x92\xa2k0\xa2k1", &mut at)?;
/// assert_eq!(at, 4);
/// # Ok::<(), kiste::format::FormatError>(())
/// ```
#[inline]
pub fn skip(bytes: &[u8], at: &mut usize) -> Result<(), FormatError> {
    if let Some(&first @ 0xa0..=0xbf) = bytes.get(*at) {
        // `at` is below the length of a slice, which is at most isize::MAX: no overflow.
        let end = *at + 1 + usize::from(first & 0x1f);
        if end <= bytes.len() {
            *at = end;
            return Ok(());
        }
    }
    *at = span(bytes, *at)?.end;
    Ok(())
}

/// Reads the string at `at` and steps over it.
pub(super) fn read<'a>(bytes: &'a [u8], at: &mut usize) -> Result<&'a str, FormatError> {
    let text = span(bytes, *at)?;
    let start = text.start;
    let end = text.end;
    let text = std::str::from_utf8(bytes.get(text).unwrap_or_default()).map_err(|err| {
        let position = start as u64 + err.valid_up_to() as u64;
        FormatError::new(position, "UTF-8", "bytes that are none")
    })?;
    *at = end;
    Ok(text)
}

/// Checks that nothing follows.
pub(super) fn end(bytes: &[u8], at: usize) -> Result<(), FormatError> {
    match bytes.len().saturating_sub(at) {
        0 => Ok(()),
        more => Err(FormatError::new(at as u64, "the end", format!("{more} more bytes"))),
    }
}

/// The bytes of the string at `at`, without its header; inside `bytes`.
fn span(bytes: &[u8], at: usize) -> Result<Range<usize>, FormatError> {
    let rest = bytes.get(at..).unwrap_or_default();
    let (header, len) = match *rest {
        [first @ 0xa0..=0xbf, ..] => (1, u32::from(first & 0x1f)),
        [0xd9, a, ..] => (2, u32::from(a)),
        [0xda, a, b, ..] => (3, u32::from(u16::from_be_bytes([a, b]))),
        [0xdb, a, b, c, d, ..] => (5, u32::from_be_bytes([a, b, c, d])),
        _ => return Err(FormatError::new(at as u64, "a string", found(rest))),
    };
    let there = rest.len() - header;
    match usize::try_from(len) {
        Ok(len) if len <= there => Ok(at + header..at + header + len),
        _ => {
            let expected = format!("a string of {len} bytes");
            Err(FormatError::new(at as u64, expected, format!("{there} bytes")))
        }
    }
}

/// Describes the beginning of a message.
#[cold]
pub(super) fn found(bytes: &[u8]) -> &'static str {
    match bytes.first() {
        None => "the end of the file",
        Some(0x00..=0x7f | 0xcc..=0xd3 | 0xe0..=0xff) => "an integer",
        Some(0x80..=0x8f | 0xde | 0xdf) => "a map",
        Some(0x90..=0x9f) => "an array",
        Some(0xdc | 0xdd) => "an array, or the start of one",
        Some(0xa0..=0xbf) => "a string",
        Some(0xd9..=0xdb) => "a string, or the start of one",
        Some(0xc0) => "nil",
        Some(0xc1) => "a byte that msgpack does not use",
        Some(0xc2 | 0xc3) => "a boolean",
        Some(0xc4..=0xc6) => "binary data",
        Some(0xc7..=0xc9 | 0xd4..=0xd8) => "an extension",
        Some(0xca | 0xcb) => "a float",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::dataset::golden;

    fn render(keys: &[impl AsRef<str>]) -> Vec<u8> {
        let mut file = header(keys.len() as u64).unwrap().to_vec();
        for key in keys {
            push_key(&mut file, key.as_ref()).unwrap();
        }
        file
    }

    fn collect(file: &[u8]) -> Result<Vec<&str>, FormatError> {
        Keys::parse(file)?.collect()
    }

    /// Walks by `skip` alone, and gives the positions.
    fn walk(file: &[u8]) -> Result<Vec<usize>, FormatError> {
        let (n, mut at) = parse_header(file)?;
        let mut positions = vec![];
        for _ in 0..n {
            positions.push(at);
            skip(file, &mut at)?;
        }
        end(file, at)?;
        Ok(positions)
    }

    #[test]
    fn golden_files_have_these_keys_and_no_others() {
        for set in golden::datasets() {
            let bytes = set.file(".keys");
            let keys = &set.keys;
            assert_eq!(collect(&bytes).unwrap(), *keys);
            assert_eq!(render(keys), bytes, "{}", set.path);
            let (n, _) = parse_header(&bytes).unwrap();
            assert_eq!(n, keys.len() as u64);
            for (i, at) in walk(&bytes).unwrap().into_iter().enumerate() {
                let key = Keys::part(&bytes[at..], at as u64, 1).next();
                assert_eq!(key, Some(Ok(&*keys[i])));
            }
        }
    }

    #[test]
    fn every_length_has_its_smallest_form() {
        for len in [0, 1, 31, 32, 255, 256, 65535, 65536, 70000] {
            let key = "x".repeat(len);
            let file = render(&[&key]);
            let header = if len < 32 {
                1
            } else if len < 256 {
                2
            } else if len < 65536 {
                3
            } else {
                5
            };
            assert_eq!(file.len(), 1 + header + len);
            assert_eq!(collect(&file).unwrap(), [&key]);
            assert_eq!(walk(&file).unwrap(), [1]);
        }
        for (n, bytes) in [
            (0, &[0x90][..]),
            (15, &[0x9f]),
            (16, &[0xdc, 0, 16]),
            (65535, &[0xdc, 0xff, 0xff]),
            (65536, &[0xdd, 0, 1, 0, 0]),
            (MAX_COUNT, &[0xdd, 0xff, 0xff, 0xff, 0xff]),
        ] {
            assert_eq!(&*header(n).unwrap(), bytes);
            assert_eq!(parse_header(bytes), Ok((n, bytes.len())));
        }
        assert!(header(MAX_COUNT + 1).is_err());
    }

    #[test]
    fn wasteful_forms_are_read() {
        let file = b"\xdd\0\0\0\x04\xa1a\xd9\x01b\xda\0\x01c\xdb\0\0\0\x01d";
        assert_eq!(collect(file).unwrap(), ["a", "b", "c", "d"]);
        assert_eq!(walk(file).unwrap(), [5, 7, 10, 14]);
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (file, message) in [
            (&b""[..], "byte 0: expected an array of keys, found the end of the file"),
            (b"\x81\xa1a\0", "byte 0: expected an array of keys, found a map"),
            (b"\xdc\0", "byte 0: expected an array of keys, found an array, or the start of one"),
            (b"\x91", "byte 1: expected a string, found the end of the file"),
            (b"\x92\xa1a", "byte 3: expected a string, found the end of the file"),
            (b"\x91\xa3ab", "byte 1: expected a string of 3 bytes, found 2 bytes"),
            (b"\x91\xc4\x01a", "byte 1: expected a string, found binary data"),
            (b"\x91\xda\0", "byte 1: expected a string, found a string, or the start of one"),
            (
                b"\x91\xdb\xff\xff\xff\xff",
                "byte 1: expected a string of 4294967295 bytes, found 0 bytes",
            ),
            (b"\x92\xa1a\xa2b\xff", "byte 5: expected UTF-8, found bytes that are none"),
            (b"\x91\xa1ab", "byte 3: expected the end, found 1 more bytes"),
            (b"\xdd\xff\xff\xff\xff\xa0", "byte 6: expected a string, found the end of the file"),
        ] {
            assert_eq!(collect(file).unwrap_err().to_string(), message);
        }
    }

    #[test]
    fn an_error_is_the_last_item() {
        let mut keys = Keys::part(b"\xa1a\x01\xa1b", 100, 3);
        assert_eq!(keys.position(), 100);
        assert_eq!(keys.next(), Some(Ok("a")));
        assert_eq!(keys.position(), 102);
        assert_eq!(keys.next().unwrap().unwrap_err().position, 102);
        assert_eq!(keys.next(), None);
        // Bytes after the last key of a part are not looked at.
        assert_eq!(Keys::part(b"\xa1a\x01", 0, 1).map(Result::unwrap).collect::<Vec<_>>(), ["a"]);
    }

    #[test]
    fn damage_never_panics_and_both_walks_agree() {
        let file = render(&["", "k0", "ä", &"x".repeat(40), &"y".repeat(300)]);
        golden::damage(&file, |bytes| {
            let keys = collect(bytes);
            let walked = walk(bytes);
            if let Ok(keys) = &keys {
                assert_eq!(walked.as_ref().map(Vec::len), Ok(keys.len()));
            }
            if walked.is_err() {
                assert!(keys.is_err());
            }
        });
        for end in 0..file.len() {
            assert!(collect(&file[..end]).is_err(), "{end}");
        }
        let mut at = usize::MAX;
        assert!(skip(&file, &mut at).is_err());
    }

    #[test]
    fn size_hint_does_not_believe_the_header() {
        let keys = Keys::parse(b"\xdd\xff\xff\xff\xff\xa0").unwrap();
        assert_eq!(keys.size_hint(), (0, Some(2)));
        assert!(keys.collect::<Result<Vec<_>, _>>().is_err());
    }
}
