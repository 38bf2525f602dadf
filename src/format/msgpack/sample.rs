//! A sample: one map with a string under `"key"`.
//!
//! These functions look into packed samples without decoding them. Where a name occurs twice the
//! last one counts, as in Python.

use super::cursor::{Cursor, Kind, check};
use crate::format::FormatError;

/// The name under which every sample has its key.
pub const KEY: &str = "key";

/// The key of a packed sample, or `None` for a map without one.
///
/// Only as much is checked as is read: the bytes must start with a map, all lengths in it must
/// hold, and the key must be a string. What follows the map is not looked at.
///
/// ```
/// use kiste::format::msgpack::sample::key;
///
/// assert_eq!(key(b"\x82\xa3key\xa2k0\xa1v\x07")?, Some("k0"));
/// assert_eq!(key(b"\x80")?, None);
/// assert!(key(b"\x81\xa3key\x07").is_err());
/// # Ok::<(), kiste::format::FormatError>(())
/// ```
pub fn key(bytes: &[u8]) -> Result<Option<&str>, FormatError> {
    find(bytes, KEY)?.map(|mut at| at.read_str()).transpose()
}

/// Checks that these bytes are exactly one well-formed map with a string key, and returns the key.
pub fn check_sample(bytes: &[u8]) -> Result<&str, FormatError> {
    check(bytes)?;
    key(bytes)?.ok_or_else(|| FormatError::new(0, "a map with a \"key\"", "a map without one"))
}

/// The packed bytes of one field of a packed sample, or `None` where there is no such field.
///
/// Nothing is decoded, and the other fields are only passed over.
///
/// ```
/// use kiste::format::msgpack::sample::field;
///
/// let sample = b"\x82\xa3key\xa2k0\xa1v\x92\x07\x08";
/// assert_eq!(field(sample, "v")?, Some(&b"\x92\x07\x08"[..]));
/// assert_eq!(field(sample, "w")?, None);
/// # Ok::<(), kiste::format::FormatError>(())
/// ```
pub fn field<'a>(bytes: &'a [u8], name: &str) -> Result<Option<&'a [u8]>, FormatError> {
    find(bytes, name)?.map(|mut at| at.skip_raw()).transpose()
}

/// The fields of a packed sample as packed keys and packed values, in the order of the bytes.
///
/// Keys can be of any kind and may repeat.
pub fn fields(bytes: &[u8]) -> Result<Fields<'_>, FormatError> {
    let mut cursor = Cursor::new(bytes);
    let left = cursor.read_map_len()?;
    Ok(Fields { cursor, left })
}

/// The iterator of [`fields`]. After an error it ends.
#[derive(Debug, Clone)]
#[must_use = "iterators are lazy and do nothing unless consumed"]
pub struct Fields<'a> {
    cursor: Cursor<'a>,
    left: u32,
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<(&'a [u8], &'a [u8]), FormatError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let pair = self.cursor.skip_raw().and_then(|key| Ok((key, self.cursor.skip_raw()?)));
        if pair.is_err() {
            self.left = 0;
        }
        Some(pair)
    }
}

impl std::iter::FusedIterator for Fields<'_> {}

/// A cursor at the value of the last field of this name.
fn find<'a>(bytes: &'a [u8], name: &str) -> Result<Option<Cursor<'a>>, FormatError> {
    let mut cursor = Cursor::new(bytes);
    let mut found = None;
    for _ in 0..cursor.read_map_len()? {
        if cursor.peek()? != Kind::Str {
            cursor.skip()?;
        } else if cursor.read_str_bytes()? == name.as_bytes() {
            found = Some(cursor.clone());
        }
        cursor.skip()?;
    }
    Ok(found)
}
