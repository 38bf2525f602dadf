//! A sample: one map with a string under `"key"`.
//!
//! These functions look into packed samples without decoding them. Where a name occurs twice the
//! last one counts, as in Python.

use super::cursor::{Cursor, Kind, check, plain_size};
use crate::format::FormatError;

/// The name under which every sample has its key.
pub const KEY: &str = "key";

/// The key of a packed sample, or `None` for a map without one.
///
/// Only as much is checked as is read: the bytes must start with a map, all lengths in it must
/// hold, and the key must be a string. Bytes after the map are not looked at.
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

/// The likely key of a packed sample, in few steps: the one in the first of up to 15 fields, if it
/// is no longer than 255 bytes. It may be no text, or a second key may follow, which counts. Empty
/// if not found.
#[inline(always)]
pub(crate) fn likely_key(bytes: &[u8]) -> &[u8] {
    let key = match bytes {
        [0x81..=0x8f, 0xa3, b'k', b'e', b'y', tag @ 0xa0..=0xbf, rest @ ..] => {
            rest.get(..usize::from(tag & 0x1f))
        }
        [0x81..=0x8f, 0xa3, b'k', b'e', b'y', 0xd9, len, rest @ ..] => {
            rest.get(..usize::from(*len))
        }
        _ => None,
    };
    key.unwrap_or_default()
}

/// Whether this is the key of a packed sample, in few steps: `false` says nothing. `key` is text,
/// so bytes that are the same need no check.
#[inline(always)]
pub(crate) fn has_plain_key(bytes: &[u8], key: &str) -> bool {
    let Some(Some(at)) = find_plain(bytes, |name| name == KEY.as_bytes()) else { return false };
    matches!(Cursor::at(bytes, at).read_str_bytes(), Ok(own) if own == key.as_bytes())
}

/// Checks that these bytes are exactly one well-formed map with a string key, and returns the key.
pub fn check_sample(bytes: &[u8]) -> Result<&str, FormatError> {
    check(bytes)?;
    key(bytes)?.ok_or_else(without_key)
}

fn without_key() -> FormatError {
    FormatError::new(0, "a map with a \"key\"", "a map without one")
}

/// The same, for bytes that are to become a sample: Python and this crate read a map with `b"nd"` or `b"complex"`
/// and `b"data"` as an array or a number, in which the sample is gone. [`new_key`] looks for it on its way.
pub(crate) fn check_new(bytes: &[u8]) -> Result<&str, FormatError> {
    check(bytes)?;
    new_key(bytes)?.ok_or_else(without_key)
}

/// The key of a well-formed map that is to become a sample: see [`check_new`].
#[inline(always)]
pub(crate) fn new_key(bytes: &[u8]) -> Result<Option<&str>, FormatError> {
    let found = match find_plain(bytes, |found| found == KEY.as_bytes()) {
        // All names are text.
        Some(found) => found.map(|at| Cursor::at(bytes, at)),
        None => find_new(bytes)?,
    };
    found.map(|mut at| at.read_str()).transpose()
}

#[inline(never)]
fn find_new(bytes: &[u8]) -> Result<Option<Cursor<'_>>, FormatError> {
    let (mut special, mut has_data) = (None, false);
    let found = walk(bytes, KEY, |name| match name.clone().read_bin() {
        Ok(b"nd" | b"complex") => special = Some(name.clone()),
        Ok(b"data") => has_data = true,
        _ => {}
    })?;
    match special {
        Some(mut name) if has_data => {
            let at = name.position() as u64;
            let name = name.read_bin()?.escape_ascii().to_string();
            let expected = "a sample";
            Err(FormatError::new(
                at,
                expected,
                format!("an array or a number, by its name b\"{name}\""),
            ))
        }
        _ => Ok(found),
    }
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

/// A cursor at the value of the last field of this name. Inlined, so that a name that is known is compared without a
/// call: every sample that is written is searched for its key.
#[inline(always)]
fn find<'a>(bytes: &'a [u8], name: &str) -> Result<Option<Cursor<'a>>, FormatError> {
    match find_plain(bytes, |found| found == name.as_bytes()) {
        Some(found) => Ok(found.map(|at| Cursor::at(bytes, at))),
        None => find_any(bytes, name),
    }
}

/// The same, in the few steps that most samples need: at most 15 fields with short names, and values whose first bytes
/// say where they end. `None` for other samples. While the memory of a sample is waited for, the processor works on
/// what does not depend on it, up to some 450 instructions ahead.
#[inline(always)]
fn find_plain(bytes: &[u8], is_name: impl Fn(&[u8]) -> bool) -> Option<Option<usize>> {
    let fields = bytes.first()?.wrapping_sub(0x80);
    if fields > 0x0f {
        return None;
    }
    let (mut at, mut found) = (1, None);
    for _ in 0..fields {
        let len = bytes.get(at)?.wrapping_sub(0xa0);
        if len > 0x1f {
            return None;
        }
        let value = at + 1 + usize::from(len);
        if is_name(bytes.get(at + 1..value)?) {
            found = Some(value);
        }
        at = value.checked_add(plain_size(bytes.get(value..)?)?)?;
    }
    (at <= bytes.len()).then_some(found)
}

/// Calls `take` with the name of each field and the place of its value, in few steps: see [`find_plain`]. `None` for
/// samples that are not as plain, and if `take` says so: some fields were taken then.
#[inline(always)]
#[cfg(feature = "arrow")]
pub(crate) fn plain_fields(
    bytes: &[u8],
    mut take: impl FnMut(&[u8], usize) -> Option<()>,
) -> Option<()> {
    let fields = bytes.first()?.wrapping_sub(0x80);
    if fields > 0x0f {
        return None;
    }
    let mut at = 1;
    for _ in 0..fields {
        let len = bytes.get(at)?.wrapping_sub(0xa0);
        if len > 0x1f {
            return None;
        }
        let value = at + 1 + usize::from(len);
        take(bytes.get(at + 1..value)?, value)?;
        at = value.checked_add(plain_size(bytes.get(value..)?)?)?;
    }
    (at == bytes.len()).then_some(())
}

#[inline(never)]
fn find_any<'a>(bytes: &'a [u8], name: &str) -> Result<Option<Cursor<'a>>, FormatError> {
    walk(bytes, name, |_| {})
}

/// Over all fields, to the value of the last one of this name. `other` sees the names that are no text.
#[inline(always)]
fn walk<'a>(
    bytes: &'a [u8],
    name: &str,
    mut other: impl FnMut(&Cursor<'a>),
) -> Result<Option<Cursor<'a>>, FormatError> {
    let mut cursor = Cursor::new(bytes);
    let mut found = None;
    for _ in 0..cursor.read_map_len()? {
        if cursor.peek()? != Kind::Str {
            other(&cursor);
            cursor.skip()?;
        } else if cursor.read_str_bytes()? == name.as_bytes() {
            found = Some(cursor.clone());
        }
        cursor.skip()?;
    }
    Ok(found)
}

/// A search for the key of a packed sample that is at hand in parts: the first comes from its start,
/// each further one from [`position`](KeySearch::position).
#[derive(Debug, Default)]
pub(crate) struct KeySearch {
    position: u64,
    /// Fields that were not looked at, once the head of the map was.
    left: Option<u32>,
    /// Values that have to be passed before the next field.
    due: u64,
}

/// The key, or its absence, in a part of a sample.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum KeyStep<'a> {
    /// This is the first field of this name.
    Key(&'a str),
    /// It may be further on.
    Further,
    /// The whole sample has to say: there is no key, or something that makes no sense.
    Unclear,
}

impl KeySearch {
    /// Where the next part has to begin.
    pub(crate) fn position(&self) -> u64 {
        self.position
    }

    /// Looks at a part, which begins at [`position`](Self::position).
    pub(crate) fn step<'a>(&mut self, part: &'a [u8]) -> KeyStep<'a> {
        let begin = self.position;
        match self.walk(part) {
            Some(key) => KeyStep::Key(key),
            None if self.position > begin && (self.due > 0 || self.left != Some(0)) => {
                KeyStep::Further
            }
            None => KeyStep::Unclear,
        }
    }

    fn walk<'a>(&mut self, part: &'a [u8]) -> Option<&'a str> {
        let begin = self.position;
        let at = |position: u64| {
            let within = usize::try_from(position - begin).ok().filter(|&at| at < part.len());
            within.map(|within| Cursor::at(part, within))
        };
        loop {
            if self.due > 0 {
                let (_, len, items) = at(self.position)?.announced()?;
                self.position = self.position.checked_add(len)?;
                self.due = (self.due - 1).checked_add(items)?;
                continue;
            }
            let Some(left) = self.left else {
                let (kind, len, items) = at(0)?.announced()?;
                if kind != Kind::Map {
                    return None;
                }
                self.position = len;
                self.left = u32::try_from(items / 2).ok();
                continue;
            };
            let left = left.checked_sub(1)?;
            let mut cursor = at(self.position)?;
            let is_key = cursor.peek().ok()? == Kind::Str
                && cursor.read_str_bytes().is_ok_and(|name| name == KEY.as_bytes());
            if is_key {
                // If it is no text, its end may be in the next part.
                return cursor.read_str().ok();
            }
            // The name and the value.
            self.left = Some(left);
            self.due = 2;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::dataset::golden;
    use crate::format::msgpack::{Value, to_vec};

    /// The key as parts of this many bytes say it, and how many parts that took.
    fn in_parts(sample: &[u8], len: usize) -> (Option<String>, usize) {
        let mut search = KeySearch::default();
        for parts in 1.. {
            let at = usize::try_from(search.position()).unwrap();
            let part = sample.get(at..sample.len().min(at.saturating_add(len))).unwrap_or_default();
            match search.step(part) {
                KeyStep::Key(key) => return (Some(key.to_owned()), parts),
                KeyStep::Unclear => return (None, parts),
                KeyStep::Further => {}
            }
        }
        unreachable!("every part moves the search on")
    }

    /// Samples of all sorts of names and values, whole and damaged.
    fn samples() -> Vec<Vec<u8>> {
        let bytes = |len| Value::Binary(vec![7; len]);
        let nested = Value::Map(vec![("key".into(), "inner".into()), (1.into(), Value::Nil)]);
        let values = [
            Value::Nil,
            true.into(),
            (-3).into(),
            200.into(),
            70_000.into(),
            u64::MAX.into(),
            Value::F32(0.5),
            0.25.into(),
            "k".into(),
            "x".repeat(40).into(),
            "y".repeat(300).into(),
            bytes(0),
            bytes(255),
            bytes(256),
            bytes(70_000),
            Value::Ext(4, vec![1; 4]),
            Value::Ext(5, vec![1; 9]),
            Value::Array(vec![1.into(); 3]),
            nested,
        ];
        let names: Vec<Value> = [
            "key".into(),
            "kex".into(),
            "".into(),
            "n".repeat(31).into(),
            "n".repeat(32).into(),
            7.into(),
            bytes(3),
        ]
        .to_vec();
        let mut next = golden::random(21);
        let mut any = |of: &[Value]| of[next() as usize % of.len()].clone();
        let mut all = vec![vec![], vec![0x80], vec![0x81], b"\xde\x00\x01\xa3key\xa1k".to_vec()];
        for round in 0..if cfg!(miri) { 20 } else { 600 } {
            let fields = (0..round % 18).map(|_| (any(&names), any(&values)));
            let mut sample = to_vec(&Value::Map(fields.collect())).unwrap();
            if round % 3 == 0 {
                sample.truncate(sample.len() * (round % 7) / 6);
            }
            if let (true, Some(byte)) = (round % 5 == 0, sample.get_mut(round % 11)) {
                *byte = byte.wrapping_add(round as u8);
            }
            all.push(sample);
        }
        all
    }

    #[test]
    fn few_steps_find_what_a_walk_finds() {
        let (mut plain, mut seen) = (0, 0);
        for sample in samples() {
            for name in ["key", "kex", "", "z"] {
                let walked = find_any(&sample, name).map(|at| at.map(|at| at.position()));
                if let Some(found) = find_plain(&sample, |found| found == name.as_bytes()) {
                    assert_eq!(Ok(found), walked, "{sample:?}");
                    plain += 1;
                }
                let found = find(&sample, name).map(|at| at.map(|at| at.position()));
                assert_eq!(found, walked);
            }
            if let Ok(Some(own)) = key(&sample) {
                let is_plain = find_plain(&sample, |found| found == b"key").is_some();
                assert_eq!(has_plain_key(&sample, own), is_plain);
            }
            assert!(!has_plain_key(&sample, "another"));
            // It is the first field if it is anything.
            let likely = likely_key(&sample);
            if !likely.is_empty() {
                // A sample that is cut off later may have no fields.
                let mut cursor = Cursor::new(&sample[1..]);
                assert_eq!(cursor.read_str_bytes(), Ok(&b"key"[..]));
                assert_eq!(cursor.read_str_bytes(), Ok(likely));
                seen += 1;
            }
        }
        assert!(seen > if cfg!(miri) { 0 } else { 10 }, "{seen}");
        for none in [
            &b""[..],
            b"\x80",
            b"\x81\xa3key",
            b"\x81\xa3key\xa2k",
            b"\x81\xa3key\xd9",
            b"\x81\xa3key\xd9\x02k",
            b"\x81\xa3key\xda\0\x01k",
            b"\x81\xa3key\x07",
            b"\x82\xa1v\x07\xa3key\xa1k",
            b"\xde\0\x01\xa3key\xa1k",
        ] {
            assert_eq!(likely_key(none), b"", "{none:?}");
        }
        assert_eq!(likely_key(b"\x82\xa3key\xa2k0\xa1v\x07"), b"k0");
        assert_eq!(likely_key(&[b"\x81\xa3key\xd9\x28", &[b'l'; 40][..]].concat()), [b'l'; 40]);
        assert!(plain > if cfg!(miri) { 0 } else { 100 }, "{plain}");
    }

    #[test]
    fn keys_are_found_without_what_lies_before_and_behind_them() {
        let bytes = || Value::Binary(vec![7; 100_000]);
        let array = Value::Map(vec![("nd".into(), true.into()), ("data".into(), bytes())]);
        let fields = [("image", bytes()), ("array", array), ("key", "k".into()), ("mask", bytes())];
        let fields = fields.map(|(name, value)| (Value::from(name), value)).to_vec();
        let sample = to_vec(&Value::Map(fields)).unwrap();
        assert_eq!(in_parts(&sample, 64), (Some("k".into()), 3));
        assert_eq!(in_parts(&sample, sample.len()), (Some("k".into()), 1));
        // As the last field.
        let fields = vec![("image".into(), bytes()), ("key".into(), "k".into())];
        let sample = to_vec(&Value::Map(fields)).unwrap();
        assert_eq!(in_parts(&sample, 64), (Some("k".into()), 2));
    }

    #[test]
    fn what_reads_back_as_an_array_is_no_new_sample() {
        let bin = |name: &str| Value::Binary(name.into());
        let with = |names: &[Value]| {
            let fields = names.iter().map(|name| (name.clone(), true.into()));
            to_vec(&Value::Map([("key".into(), "k".into())].into_iter().chain(fields).collect()))
        };
        for names in [[bin("nd"), bin("data")], [bin("data"), bin("complex")]] {
            let error = check_new(&with(&names).unwrap()).unwrap_err().to_string();
            assert!(error.contains("expected a sample, found an array or a number"), "{error}");
            let nested = to_vec(&Value::Map(vec![
                ("key".into(), "k".into()),
                ("v".into(), Value::Map(names.map(|name| (name, 1.into())).to_vec())),
            ]));
            assert_eq!(check_new(&nested.unwrap()), Ok("k"));
        }
        // Others are samples, and read back as such.
        for names in [
            vec!["nd".into(), "data".into()],
            vec![bin("nd"), "data".into()],
            vec![bin("nd")],
            vec![bin("data"), bin("type")],
            vec![bin("ndx"), bin("data")],
        ] {
            assert_eq!(check_new(&with(&names).unwrap()), Ok("k"), "{names:?}");
        }
        for none in [&b"\x80"[..], b"\x81\xa3key\x07", b"\x07", b"\x81\xa3key\xa1kx"] {
            assert!(check_new(none).is_err());
        }
    }

    #[test]
    fn what_makes_no_sense_is_left_to_the_whole_sample() {
        let long = "k".repeat(100);
        let sample = to_vec(&Value::Map(vec![("key".into(), long.as_str().into())])).unwrap();
        assert_eq!(in_parts(&sample, 50).0, None);
        assert_eq!(in_parts(&sample, 200).0, Some(long));
        for sample in [
            &b""[..],
            b"\x80",
            b"\x07",
            b"\xc1",
            b"\x81\xa3key\x07",
            b"\x81\xa1v\x07",
            b"\xdf\xff\xff\xff\xff\xdd\xff\xff\xff\xff",
        ] {
            for len in 1..12 {
                assert_eq!(in_parts(sample, len).0, None, "{sample:?} {len}");
            }
        }
        // The first one counts in parts; the last one takes the whole sample.
        assert_eq!(in_parts(b"\x82\xa3key\xa1a\xa3key\xa1b", 100).0, Some("a".into()));
    }
}
