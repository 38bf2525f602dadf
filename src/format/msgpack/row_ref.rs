//! [`RowRef`]: a field that is a row of an array, kept elsewhere.

use std::fmt;

use serde::de::{Deserializer, MapAccess, Visitor};
use serde::ser::{SerializeMap, Serializer};
use serde::{Deserialize, Serialize};

use super::{Cursor, Kind, Value};
use crate::format::FormatError;

const ARRAY: &[u8] = b"array";
const ROW: &[u8] = b"row";
const VERSION: &[u8] = b"version";

/// A field whose value is a row of an array, which is kept in a directory or file of its own.
///
/// In a sample this is a map with **binary** keys, as msgpack-numpy's maps for arrays have them, so
/// that no map of text keys is taken for one:
///
/// | key | value | |
/// | --- | --- | --- |
/// | `array` | text | the path of the array from the dataset's directory, `/` between its parts |
/// | `row` | integer, not negative | the entry of the first axis |
/// | `version` | integer, 1 or more | the version of a chunked array; if absent, the newest |
///
/// They may come in any order; a map with any other key is not a reference. In Python:
/// `{b"array": "embeddings", b"row": 17}`. Readers that do not know references see this map.
/// [`WithArrays`](crate::reader::WithArrays) puts the row in its place, and says which paths it
/// follows.
///
/// ```
/// use kiste::format::msgpack::{RowRef, to_vec};
///
/// #[derive(serde::Serialize)]
/// struct Sample {
///     key: String,
///     embedding: RowRef,
/// }
/// let sample = Sample { key: "a".into(), embedding: RowRef::new("embeddings", 17) };
///
/// let packed = to_vec(&sample.embedding.to_value())?;
/// assert_eq!(RowRef::decode(&packed)?, Some(sample.embedding));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RowRef {
    /// The path of the array from the dataset's directory.
    pub array: String,
    /// The entry of the first axis.
    pub row: u64,
    /// The version of a chunked array.
    pub version: Option<u64>,
}

impl RowRef {
    /// A row of the newest version.
    pub fn new(array: impl Into<String>, row: u64) -> RowRef {
        RowRef { array: array.into(), row, version: None }
    }

    /// The same row of this version.
    #[must_use]
    pub fn at_version(self, version: u64) -> RowRef {
        RowRef { version: Some(version), ..self }
    }

    /// The map.
    pub fn to_value(&self) -> Value {
        let key = |name: &[u8]| Value::from(name);
        let mut entries =
            vec![(key(ARRAY), (&*self.array).into()), (key(ROW), Value::from(self.row))];
        entries.extend(self.version.map(|version| (key(VERSION), version.into())));
        Value::Map(entries)
    }

    /// Reads a packed value; `None` if it is something else.
    ///
    /// A map with just these keys whose values are not of the right kind is an error.
    pub fn decode(bytes: &[u8]) -> Result<Option<RowRef>, FormatError> {
        let mut cursor = Cursor::new(bytes);
        if cursor.peek()? != Kind::Map {
            return Ok(None);
        }
        let (mut array, mut row, mut version) = (None, None, None);
        for _ in 0..cursor.read_map_len()? {
            if cursor.peek()? != Kind::Bin {
                return Ok(None);
            }
            let slot = match cursor.read_bin()? {
                ARRAY => &mut array,
                ROW => &mut row,
                VERSION => &mut version,
                _ => return Ok(None),
            };
            *slot = Some(cursor.clone());
            cursor.skip()?;
        }
        let (Some(mut array), Some(mut row)) = (array, row) else { return Ok(None) };
        let version = version.map(|mut version| version.read_u64()).transpose()?;
        Ok(Some(RowRef { array: array.read_str()?.to_owned(), row: row.read_u64()?, version }))
    }
}

impl Serialize for RowRef {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let len = 2 + usize::from(self.version.is_some());
        let mut map = serializer.serialize_map(Some(len))?;
        map.serialize_entry(&Name(ARRAY), &self.array)?;
        map.serialize_entry(&Name(ROW), &self.row)?;
        if let Some(version) = self.version {
            map.serialize_entry(&Name(VERSION), &version)?;
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for RowRef {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<RowRef, D::Error> {
        deserializer.deserialize_map(RowRefVisitor)
    }
}

/// A key, which is bytes and not a list of numbers.
struct Name<'a>(&'a [u8]);

impl Serialize for Name<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(self.0)
    }
}

struct RowRefVisitor;

impl<'de> Visitor<'de> for RowRefVisitor {
    type Value = RowRef;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a reference to a row: a map with the binary keys array and row")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<RowRef, M::Error> {
        use serde::de::Error;
        let (mut array, mut row, mut version) = (None, None, None);
        while let Some(key) = map.next_key::<Key>()? {
            match key {
                Key::Array => array = Some(map.next_value()?),
                Key::Row => row = Some(map.next_value()?),
                Key::Version => version = Some(map.next_value()?),
            }
        }
        Ok(RowRef {
            array: array.ok_or_else(|| M::Error::missing_field("array"))?,
            row: row.ok_or_else(|| M::Error::missing_field("row"))?,
            version,
        })
    }
}

enum Key {
    Array,
    Row,
    Version,
}

impl<'de> Deserialize<'de> for Key {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Key, D::Error> {
        deserializer.deserialize_bytes(KeyVisitor)
    }
}

struct KeyVisitor;

impl Visitor<'_> for KeyVisitor {
    type Value = Key;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("one of the binary keys array, row and version")
    }

    fn visit_bytes<E: serde::de::Error>(self, bytes: &[u8]) -> Result<Key, E> {
        match bytes {
            ARRAY => Ok(Key::Array),
            ROW => Ok(Key::Row),
            VERSION => Ok(Key::Version),
            other => Err(E::invalid_value(serde::de::Unexpected::Bytes(other), &self)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::to_vec;
    use super::*;

    #[test]
    fn the_map_is_what_python_would_write() {
        let reference = RowRef::new("e", 17);
        let packed = b"\x82\xc4\x05array\xa1e\xc4\x03row\x11";
        assert_eq!(rmp_serde::to_vec_named(&reference).unwrap(), packed);
        assert_eq!(to_vec(&reference.to_value()).unwrap(), packed);
        let with_version = reference.clone().at_version(3);
        let longer = rmp_serde::to_vec_named(&with_version).unwrap();
        assert_eq!(longer, to_vec(&with_version.to_value()).unwrap());
        for (reference, packed) in [(reference, &packed[..]), (with_version, &longer)] {
            assert_eq!(RowRef::decode(packed).unwrap().as_ref(), Some(&reference));
            assert_eq!(rmp_serde::from_slice::<RowRef>(packed).unwrap(), reference);
        }
    }

    #[test]
    fn other_maps_are_other_maps_and_wrong_ones_errors() {
        let bin = |name: &str| Value::from(name.as_bytes());
        let (array, row) = ((bin("array"), "e".into()), (bin("row"), 1.into()));
        let map = |entries: &[(Value, Value)]| to_vec(&Value::Map(entries.to_vec())).unwrap();
        let decode = |entries: &[(Value, Value)]| RowRef::decode(&map(entries));
        let expected = Some(RowRef::new("e", 1));
        assert_eq!(decode(&[row.clone(), array.clone()]).unwrap(), expected);
        let nothing = [
            vec![],
            vec![array.clone()],
            vec![array.clone(), row.clone(), (bin("nd"), true.into())],
            vec![("array".into(), "e".into()), ("row".into(), 1.into())],
        ];
        for entries in nothing {
            assert_eq!(decode(&entries).unwrap(), None, "{entries:?}");
        }
        assert_eq!(RowRef::decode(&to_vec(&1.into()).unwrap()).unwrap(), None);
        assert!(decode(&[array.clone(), (bin("row"), (-1).into())]).is_err());
        assert!(decode(&[(bin("array"), 5.into()), row.clone()]).is_err());
        let whole = map(&[array, row]);
        for len in 0..whole.len() {
            assert!(RowRef::decode(&whole[..len]).is_err(), "{len}");
        }
    }
}
