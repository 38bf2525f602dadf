//! [`JoinReader`]: two readers joined by key.

use std::borrow::Cow;

use super::identity::composed;
use super::{Location, Reader, out_of_range};
use crate::error::{Error, ErrorKind, Result};
use crate::format::FormatError;
use crate::format::msgpack::sample::{KEY, fields};
use crate::format::msgpack::{Cursor, Kind, Value, encode};

/// How to treat the fields that both samples of a [`JoinReader`] have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Shared {
    /// The right one takes the place of the left one.
    Right,
    /// All fields of the right sample have this in front of their names, shared or not, so that
    /// names do not depend on the sample. A name that is taken even so is replaced.
    Prefix(String),
}

/// The samples of the left reader whose keys the right reader has as well, in the left order,
/// with the fields of both: an inner join.
///
/// Keys are compared when it is opened, which reads every key of the left reader; after that a
/// pair takes two numbers. Fields are merged as packed bytes and not decoded. The key comes from
/// the left sample.
///
/// ```
/// use std::collections::BTreeMap;
/// use kiste::reader::{ListReader, Reader, ReaderExt, Shared};
///
/// let images = ListReader::pack([BTreeMap::from([("key", "a"), ("image", "…"), ("by", "me")])])?;
/// let labels = ListReader::pack([BTreeMap::from([("key", "a"), ("kind", "cat"), ("by", "you")])])?;
/// let joined = images.join(labels, Shared::Prefix("label_".into()))?;
/// let sample = joined.get_by_key("a")?.expect("both have it");
/// assert_eq!(sample["by"].as_str(), Some("me"));
/// assert_eq!(sample["label_by"].as_str(), Some("you"));
/// # Ok::<(), kiste::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct JoinReader<L, R> {
    left: L,
    right: R,
    shared: Shared,
    /// Indices on both sides, ascending on the left.
    pairs: Vec<(usize, usize)>,
}

impl<L: Reader, R: Reader> JoinReader<L, R> {
    /// Joins two readers by key. Of several samples with one key on the right the first counts.
    pub fn new(left: L, right: R, shared: Shared) -> Result<JoinReader<L, R>> {
        let mut pairs = Vec::new();
        for index in 0..left.len() {
            if let Some(other) = right.find(&left.key(index)?)? {
                pairs.push((index, other));
            }
        }
        Ok(JoinReader { left, right, shared, pairs })
    }

    /// The indices of a sample in the left and in the right reader.
    pub fn pair(&self, index: usize) -> Result<(usize, usize)> {
        self.pairs.get(index).copied().ok_or_else(|| out_of_range(index, self.len()))
    }

    fn position(&self, left: usize) -> Option<usize> {
        self.pairs.binary_search_by_key(&left, |pair| pair.0).ok()
    }
}

impl<L: Reader, R: Reader> Reader for JoinReader<L, R> {
    fn len(&self) -> usize {
        self.pairs.len()
    }

    fn key(&self, index: usize) -> Result<Cow<'_, str>> {
        self.left.key(self.pair(index)?.0)
    }

    fn find(&self, key: &str) -> Result<Option<usize>> {
        // All samples with one key are joined, or none is.
        Ok(self.left.find(key)?.and_then(|left| self.position(left)))
    }

    fn get_raw(&self, index: usize) -> Result<Cow<'_, [u8]>> {
        let (left, right) = self.pair(index)?;
        let (left_raw, right_raw) = (self.left.get_raw(left)?, self.right.get_raw(right)?);
        let mut merged = Fields::parse(&left_raw).map_err(|e| self.left.locate(left).damaged(e))?;
        let added = Fields::parse(&right_raw).map_err(|e| self.right.locate(right).damaged(e))?;
        merged.merge(added, &self.shared)?;
        Ok(Cow::Owned(merged.pack()?))
    }

    fn find_all(&self, key: &str) -> Result<Vec<usize>> {
        let all = self.left.find_all(key)?;
        Ok(all.into_iter().filter_map(|left| self.position(left)).collect())
    }

    fn contains_key(&self, key: &str) -> Result<bool> {
        Ok(self.left.contains_key(key)? && self.right.contains_key(key)?)
    }

    /// A field of one of the two samples, the only one that is looked at if it has the field.
    fn field_raw(&self, index: usize, name: &str) -> Result<Option<Cow<'_, [u8]>>> {
        let (left, right) = self.pair(index)?;
        let added = match &self.shared {
            Shared::Right => Some(name),
            Shared::Prefix(prefix) => name.strip_prefix(&**prefix),
        };
        if let Some(added) = added.filter(|&added| added != KEY && name != KEY) {
            if let Some(field) = self.right.field_raw(right, added)? {
                return Ok(Some(field));
            }
        }
        self.left.field_raw(left, name)
    }

    /// The labels of the left reader, unless the right one has some too.
    fn labels(&self) -> Result<Option<Vec<String>>> {
        match (self.left.labels()?, self.right.labels()?) {
            (labels, None) | (None, labels) => Ok(labels),
            (left, right) => Ok(left.filter(|left| right.as_ref() == Some(left))),
        }
    }

    fn identity(&self) -> Result<String> {
        let prefix = match &self.shared {
            Shared::Right => None,
            Shared::Prefix(prefix) => Some(Ok(prefix.clone())),
        };
        let of = [self.left.identity(), self.right.identity()].into_iter().chain(prefix);
        composed("join", of, [self.len()])
    }

    /// Where the left sample comes from.
    fn locate(&self, index: usize) -> Location {
        match self.pair(index) {
            Ok((left, _)) => self.left.locate(left),
            Err(_) => Location::new(index as u64),
        }
    }

    fn is_remote(&self) -> bool {
        self.left.is_remote() || self.right.is_remote()
    }

    fn prefetch(&self, indices: &[usize]) {
        let (left, right): (Vec<_>, Vec<_>) =
            indices.iter().filter_map(|&index| self.pair(index).ok()).unzip();
        self.left.prefetch(&left);
        self.right.prefetch(&right);
    }
}

/// The fields of a sample, packed, with the text of their names where that is what they have.
struct Fields<'a>(Vec<(Name<'a>, &'a [u8])>);

#[derive(PartialEq)]
enum Name<'a> {
    Text(Cow<'a, str>),
    Packed(&'a [u8]),
}

impl<'a> Fields<'a> {
    fn parse(raw: &'a [u8]) -> Result<Fields<'a>, FormatError> {
        let named = |field: Result<(&'a [u8], &'a [u8]), FormatError>| {
            let (name, value) = field?;
            let mut cursor = Cursor::new(name);
            match cursor.peek()? {
                Kind::Str => Ok((Name::Text(Cow::Borrowed(cursor.read_str()?)), value)),
                _ => Ok((Name::Packed(name), value)),
            }
        };
        let mut cursor = Cursor::new(raw);
        cursor.skip()?;
        cursor.expect_end()?;
        fields(raw)?.map(named).collect::<Result<_, _>>().map(Fields)
    }

    fn merge(&mut self, added: Fields<'a>, shared: &Shared) -> Result<()> {
        for (mut name, value) in added.0 {
            if name == Name::Text(Cow::Borrowed(KEY)) {
                continue;
            }
            if let (Shared::Prefix(prefix), Name::Text(text)) = (shared, &mut name) {
                text.to_mut().insert_str(0, prefix);
                if text == KEY {
                    let message = format!("the prefix {prefix:?} makes a second {KEY:?}");
                    return Err(Error::new(ErrorKind::Invalid, message));
                }
            }
            // If two fields have one name, the last one counts.
            match self.0.iter_mut().rev().find(|(known, _)| *known == name) {
                Some(known) => known.1 = value,
                None => self.0.push((name, value)),
            }
        }
        Ok(())
    }

    fn pack(self) -> Result<Vec<u8>> {
        let size: usize = self.0.iter().map(|(_, value)| value.len() + 32).sum();
        let mut out = Vec::with_capacity(size + 8);
        super::pack::map_len(self.0.len(), &mut out)?;
        for (name, value) in self.0 {
            match name {
                Name::Text(text) => {
                    encode(&Value::from(&*text), &mut out)?;
                }
                Name::Packed(name) => out.extend_from_slice(name),
            }
            out.extend_from_slice(value);
        }
        Ok(out)
    }
}
