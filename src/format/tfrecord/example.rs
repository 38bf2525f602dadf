//! `tf.train.Example`: named lists of byte strings, floats or integers, as a protobuf message; and
//! `tf.train.SequenceExample`, which has lists of these too.
//!
//! The messages (TensorFlow, `tensorflow/core/example/{example,feature}.proto`), field numbers in
//! brackets:
//!
//! | message | |
//! | --- | --- |
//! | `Example` | \[1\] `Features` |
//! | `SequenceExample` | \[1\] `Features`, \[2\] `FeatureLists` |
//! | `FeatureLists` | \[1\] any number of entries: \[1\] the name, \[2\] a `FeatureList` |
//! | `FeatureList` | \[1\] any number of `Feature` |
//! | `Features` | \[1\] any number of entries: \[1\] the name, \[2\] a `Feature` |
//! | `Feature` | one of \[1\] `BytesList`, \[2\] `FloatList`, \[3\] `Int64List`, or nothing |
//! | `BytesList` | \[1\] any number of byte strings |
//! | `FloatList` | \[1\] numbers of four bytes, low byte first: packed into one string, or one by one |
//! | `Int64List` | \[1\] varints: packed into one string, or one by one |
//!
//! The wire format is protobuf's "Encoding": a varint of field number and wire type, then a
//! varint (0), eight bytes (1), a length and that many bytes (2), or four bytes (5). Fields of
//! other numbers are passed over, as protobuf does, and counted; of an entry or message that comes
//! twice the later one counts, or is added to the first, as protobuf does, and what it replaces is
//! counted.
//!
//! Nothing in here recurses, and lists are no longer than their bytes.
//!
//! Absent on purpose: groups, which protobuf itself gave up.

use std::collections::HashMap;

use crate::format::FormatError;

/// The values of a feature.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum Feature<'a> {
    /// Nothing was set.
    #[default]
    Empty,
    /// Byte strings, which may be text.
    Bytes(Vec<&'a [u8]>),
    /// Floats of 32 bits.
    Floats(Vec<f32>),
    /// Integers of 64 bits.
    Ints(Vec<i64>),
}

/// Named features, in the order of the message. No name comes twice.
pub type Features<'a> = Vec<(&'a str, Feature<'a>)>;

/// Named lists of features, in the order of the message. No name comes twice.
pub type FeatureLists<'a> = Vec<(&'a str, Vec<Feature<'a>>)>;

/// The content of a record: an `Example`, or a `SequenceExample`.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct Record<'a> {
    /// The features; of a `SequenceExample`, its context.
    pub features: Features<'a>,
    /// The feature lists of a `SequenceExample`.
    pub lists: FeatureLists<'a>,
    /// Fields of other numbers that were passed over.
    pub unknown: u64,
    /// Values that a later one of the same name replaced.
    pub replaced: u64,
}

impl<'a> Record<'a> {
    /// Reads a message.
    pub fn decode(bytes: &'a [u8]) -> Result<Record<'a>, FormatError> {
        let mut record = Record::default();
        let (mut names, mut lists) = (HashMap::new(), HashMap::new());
        let mut example = Message::new(bytes, 0);
        while let Some((number, field)) = example.next_of(&[1, 2])? {
            let mut map = field.message()?;
            while let Some((_, field)) = map.next_of(&[1])? {
                let mut entry = field.message()?;
                match number {
                    1 => {
                        let (name, feature) = record.entry(&mut entry, Record::read_feature)?;
                        record.replaced += set(&mut record.features, &mut names, name, feature);
                    }
                    _ => {
                        let (name, list) = record.entry(&mut entry, Record::read_list)?;
                        record.replaced += set(&mut record.lists, &mut lists, name, list);
                    }
                }
            }
            record.unknown += map.unknown;
        }
        record.unknown += example.unknown;
        Ok(record)
    }

    /// A name, and what `read` adds up to.
    fn entry<T: Default>(
        &mut self,
        entry: &mut Message<'a>,
        read: impl Fn(&mut Self, Message<'a>, &mut T) -> Result<(), FormatError>,
    ) -> Result<(&'a str, T), FormatError> {
        let (mut name, mut value) = ("", T::default());
        while let Some((number, field)) = entry.next_of(&[1, 2])? {
            match number {
                1 => {
                    let refuse =
                        |_| FormatError::new(field.position, "a name in UTF-8", "other bytes");
                    name = std::str::from_utf8(field.bytes()?).map_err(refuse)?;
                }
                _ => read(self, field.message()?, &mut value)?,
            }
        }
        self.unknown += entry.unknown;
        Ok((name, value))
    }

    fn read_list(
        &mut self,
        mut message: Message<'a>,
        list: &mut Vec<Feature<'a>>,
    ) -> Result<(), FormatError> {
        while let Some((_, field)) = message.next_of(&[1])? {
            let mut feature = Feature::Empty;
            self.read_feature(field.message()?, &mut feature)?;
            list.push(feature);
        }
        self.unknown += message.unknown;
        Ok(())
    }

    /// Adds a message to a feature: another kind of list replaces it, the same kind is appended.
    fn read_feature(
        &mut self,
        mut message: Message<'a>,
        feature: &mut Feature<'a>,
    ) -> Result<(), FormatError> {
        while let Some((number, field)) = message.next_of(&[1, 2, 3])? {
            let mut list = field.message()?;
            let other = match (number, &*feature) {
                (1, Feature::Bytes(_)) | (2, Feature::Floats(_)) | (3, Feature::Ints(_)) => None,
                (1, _) => Some(Feature::Bytes(Vec::new())),
                (2, _) => Some(Feature::Floats(Vec::new())),
                _ => Some(Feature::Ints(Vec::new())),
            };
            if let Some(other) = other {
                self.replaced += u64::from(*feature != Feature::Empty);
                *feature = other;
            }
            while let Some((_, field)) = list.next_of(&[1])? {
                match feature {
                    Feature::Bytes(strings) => strings.push(field.bytes()?),
                    Feature::Floats(floats) => field.floats(floats)?,
                    Feature::Ints(ints) => field.ints(ints)?,
                    Feature::Empty => {}
                }
            }
            self.unknown += list.unknown;
        }
        self.unknown += message.unknown;
        Ok(())
    }
}

/// Sets the value of a name. Returns how many it replaced.
fn set<'a, T>(
    values: &mut Vec<(&'a str, T)>,
    places: &mut HashMap<&'a str, usize>,
    name: &'a str,
    value: T,
) -> u64 {
    let at = *places.entry(name).or_insert(values.len());
    match values.get_mut(at) {
        Some(earlier) => earlier.1 = value,
        None => {
            values.push((name, value));
            return 0;
        }
    }
    1
}

/// Reads the features of a message.
pub fn decode(bytes: &[u8]) -> Result<Features<'_>, FormatError> {
    Ok(Record::decode(bytes)?.features)
}

/// Writes a message. The values of a list are packed.
pub fn encode(features: &[(&str, Feature<'_>)]) -> Vec<u8> {
    let mut map = Vec::new();
    for (name, feature) in features {
        let mut entry = Vec::new();
        put(1, name.as_bytes(), &mut entry);
        put(2, &encode_feature(feature), &mut entry);
        put(1, &entry, &mut map);
    }
    let mut out = Vec::new();
    put(1, &map, &mut out);
    out
}

fn encode_feature(feature: &Feature<'_>) -> Vec<u8> {
    let (mut list, mut out) = (Vec::new(), Vec::new());
    let number = match feature {
        Feature::Empty => return out,
        Feature::Bytes(strings) => {
            strings.iter().for_each(|string| put(1, string, &mut list));
            1
        }
        Feature::Floats(floats) => {
            let packed: Vec<u8> = floats.iter().flat_map(|float| float.to_le_bytes()).collect();
            if !packed.is_empty() {
                put(1, &packed, &mut list);
            }
            2
        }
        Feature::Ints(ints) => {
            let mut packed = Vec::new();
            // Negative ones take ten bytes: protobuf's `int64` knows no better.
            ints.iter().for_each(|&int| put_varint(int as u64, &mut packed));
            if !packed.is_empty() {
                put(1, &packed, &mut list);
            }
            3
        }
    };
    put(number, &list, &mut out);
    out
}

/// Appends a field of bytes.
fn put(number: u8, bytes: &[u8], out: &mut Vec<u8>) {
    out.push(number << 3 | 2);
    put_varint(bytes.len() as u64, out);
    out.extend_from_slice(bytes);
}

fn put_varint(mut number: u64, out: &mut Vec<u8>) {
    while number > 0x7f {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// The fields of a message, one after the other.
struct Message<'a> {
    bytes: &'a [u8],
    /// Where the rest of it is.
    position: u64,
    /// Fields that were passed over.
    unknown: u64,
}

/// The content of a field, and its position.
#[derive(Clone, Copy)]
struct Field<'a> {
    position: u64,
    content: Content<'a>,
}

#[derive(Clone, Copy)]
enum Content<'a> {
    Varint(u64),
    Eight,
    Bytes(&'a [u8]),
    Four([u8; 4]),
}

impl<'a> Message<'a> {
    fn new(bytes: &'a [u8], position: u64) -> Message<'a> {
        Message { bytes, position, unknown: 0 }
    }

    /// The next field of one of these numbers.
    fn next_of(&mut self, wanted: &[u64]) -> Result<Option<(u64, Field<'a>)>, FormatError> {
        while !self.bytes.is_empty() {
            let (number, field) = self.next()?;
            if wanted.contains(&number) {
                return Ok(Some((number, field)));
            }
            self.unknown += 1;
        }
        Ok(None)
    }

    fn next(&mut self) -> Result<(u64, Field<'a>), FormatError> {
        let start = self.position;
        let tag = self.varint()?;
        let (number, position) = (tag >> 3, self.position);
        if number == 0 || number >= 1 << 29 {
            return Err(FormatError::new(start, "a field from 1 to 2^29-1", number.to_string()));
        }
        let content = match tag & 7 {
            0 => Content::Varint(self.varint()?),
            1 => {
                self.take(8)?;
                Content::Eight
            }
            2 => {
                let len = self.varint()?;
                Content::Bytes(self.take(len)?)
            }
            5 => {
                let bytes = self.take(4)?;
                Content::Four([bytes[0], bytes[1], bytes[2], bytes[3]])
            }
            other => {
                let found = format!("wire type {other}");
                return Err(FormatError::new(start, "a varint, bytes, or a number", found));
            }
        };
        // The position that errors within bytes count from.
        let position = match content {
            Content::Bytes(bytes) => self.position - bytes.len() as u64,
            _ => position,
        };
        Ok((number, Field { position, content }))
    }

    fn take(&mut self, len: u64) -> Result<&'a [u8], FormatError> {
        let split = usize::try_from(len).ok().and_then(|len| self.bytes.split_at_checked(len));
        let Some((bytes, rest)) = split else {
            let found = format!("{} bytes", self.bytes.len());
            return Err(FormatError::new(self.position, format!("{len} bytes"), found));
        };
        self.bytes = rest;
        self.position += len;
        Ok(bytes)
    }

    fn varint(&mut self) -> Result<u64, FormatError> {
        let mut number = 0;
        for (at, &byte) in self.bytes.iter().take(10).enumerate() {
            // Only one bit of the tenth byte fits in 64.
            number |= u64::from(byte & 0x7f) << (7 * at);
            if byte < 0x80 {
                self.bytes = &self.bytes[at + 1..];
                self.position += at as u64 + 1;
                return Ok(number);
            }
        }
        let expected = "an integer of at most ten bytes";
        Err(FormatError::new(self.position, expected, "no end of it"))
    }
}

impl<'a> Field<'a> {
    fn bytes(self) -> Result<&'a [u8], FormatError> {
        match self.content {
            Content::Bytes(bytes) => Ok(bytes),
            _ => Err(self.refuse("bytes")),
        }
    }

    fn message(self) -> Result<Message<'a>, FormatError> {
        Ok(Message::new(self.bytes()?, self.position))
    }

    fn floats(self, out: &mut Vec<f32>) -> Result<(), FormatError> {
        match self.content {
            Content::Four(bytes) => out.push(f32::from_le_bytes(bytes)),
            Content::Bytes(bytes) if bytes.len() % 4 == 0 => {
                let number = |bytes: &[u8]| [bytes[0], bytes[1], bytes[2], bytes[3]];
                out.extend(bytes.chunks_exact(4).map(|bytes| f32::from_le_bytes(number(bytes))));
            }
            _ => return Err(self.refuse("floats of four bytes")),
        }
        Ok(())
    }

    fn ints(self, out: &mut Vec<i64>) -> Result<(), FormatError> {
        match self.content {
            Content::Varint(number) => out.push(number as i64),
            Content::Bytes(_) => {
                let mut packed = self.message()?;
                while !packed.bytes.is_empty() {
                    out.push(packed.varint()? as i64);
                }
            }
            _ => return Err(self.refuse("integers")),
        }
        Ok(())
    }

    fn refuse(self, expected: &str) -> FormatError {
        let found = match self.content {
            Content::Varint(_) => "a varint".to_owned(),
            Content::Eight => "eight bytes".to_owned(),
            Content::Bytes(bytes) => format!("a string of {} bytes", bytes.len()),
            Content::Four(_) => "four bytes".to_owned(),
        };
        FormatError::new(self.position, expected, found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn example_round_trips() -> Result<(), Box<dyn std::error::Error>> {
        use crate::format::tfrecord::example::{Feature, decode, encode};

        let features =
            vec![("label", Feature::Ints(vec![7])), ("image", Feature::Bytes(vec![b"\xff\xd8"]))];
        assert_eq!(decode(&encode(&features))?, features);
        Ok(())
    }

    fn nested(numbers: &[u8], inner: &[u8]) -> Vec<u8> {
        numbers.iter().rev().fold(inner.to_vec(), |inner, &number| {
            let mut out = Vec::new();
            put(number, &inner, &mut out);
            out
        })
    }

    fn feature(bytes: &[u8]) -> Result<Feature<'static>, String> {
        let entry = [nested(&[1], b"f"), nested(&[2], bytes)].concat();
        let example: &'static [u8] = nested(&[1, 1], &entry).leak();
        decode(example).map(|mut features| features.remove(0).1).map_err(|error| error.to_string())
    }

    #[test]
    fn all_kinds_there_and_back() {
        let features = vec![
            ("b", Feature::Bytes(vec![b"", b"\xff", &[7; 300]])),
            ("f", Feature::Floats(vec![0.5, -0.0, f32::INFINITY])),
            ("i", Feature::Ints(vec![0, 127, 128, -1, i64::MIN, i64::MAX])),
            ("no b", Feature::Bytes(vec![])),
            ("no f", Feature::Floats(vec![])),
            ("no i", Feature::Ints(vec![])),
            ("", Feature::Empty),
        ];
        assert_eq!(decode(&encode(&features)), Ok(features));
        assert_eq!(decode(b""), Ok(vec![]));
    }

    #[test]
    fn lists_packed_and_not() {
        let packed = nested(&[3, 1], &[1, 0xac, 2]);
        assert_eq!(feature(&packed), Ok(Feature::Ints(vec![1, 300])));
        let single = nested(&[3], &[8, 1, 8, 0xac, 2]);
        assert_eq!(feature(&single), Ok(Feature::Ints(vec![1, 300])));
        assert_eq!(feature(&[packed, single].concat()), Ok(Feature::Ints(vec![1, 300, 1, 300])));
        let float = 1.5f32.to_le_bytes();
        assert_eq!(feature(&nested(&[2, 1], &float)), Ok(Feature::Floats(vec![1.5])));
        let single = [&[13][..], &float, &[13], &float].concat();
        assert_eq!(feature(&nested(&[2], &single)), Ok(Feature::Floats(vec![1.5, 1.5])));
        // The last kind counts, and what is not known is passed over.
        let other =
            [nested(&[1, 1], b"x"), nested(&[9], b"?"), vec![0x78, 1], nested(&[3], &[8, 1])];
        assert_eq!(feature(&other.concat()), Ok(Feature::Ints(vec![1])));
    }

    /// They were passed over without a word.
    #[test]
    fn what_is_left_out_is_counted() {
        let list = |values: &[&[u8]]| -> Vec<u8> {
            values.iter().flat_map(|value| nested(&[1, 1, 1], value)).collect()
        };
        let entry = [nested(&[1], b"frames"), nested(&[2], &list(&[b"a", b"b"]))].concat();
        let context = encode(&[("id", Feature::Ints(vec![9]))]);
        let sequence = [context, nested(&[2, 1], &entry), nested(&[9], b"?")].concat();
        let record = Record::decode(&sequence).unwrap();
        assert_eq!(record.features, vec![("id", Feature::Ints(vec![9]))]);
        let frames = vec![Feature::Bytes(vec![b"a"]), Feature::Bytes(vec![b"b"])];
        assert_eq!(record.lists, vec![("frames", frames)]);
        assert_eq!((record.unknown, record.replaced), (1, 0));
        for end in 1..sequence.len() {
            let _ = Record::decode(&sequence[..end]);
        }
        // If a name has two values, or a feature two kinds, the later one counts.
        let two = [nested(&[1, 1], b"x"), nested(&[3, 1], &[1])].concat();
        let feature = [nested(&[1], b"f"), nested(&[2], &two), nested(&[7], b"")].concat();
        let record = [nested(&[1, 1], &feature), nested(&[1, 1], &feature)].concat();
        let record = Record::decode(&record).unwrap();
        assert_eq!(record.features, vec![("f", Feature::Ints(vec![1]))]);
        assert_eq!((record.unknown, record.replaced), (2, 3));
    }

    #[test]
    fn a_name_that_comes_twice() {
        let entry = |value: u8| {
            let feature = nested(&[2, 3, 1], &[value]);
            nested(&[1, 1], &[nested(&[1], b"f"), feature].concat())
        };
        let twice = [entry(1), entry(2)].concat();
        assert_eq!(decode(&twice), Ok(vec![("f", Feature::Ints(vec![2]))]));
    }

    #[test]
    fn what_is_refused() {
        let table: [(&[u8], &str); 8] = [
            (&[0x0b], "byte 9: expected a varint, bytes, or a number, found wire type 3"),
            (&[0x02, 0], "byte 9: expected a field from 1 to 2^29-1, found 0"),
            (&[0x08, 1], "byte 10: expected bytes, found a varint"),
            (&[0x0a, 5, 1], "byte 11: expected 5 bytes, found 1 bytes"),
            (&[0xff; 12], "byte 9: expected an integer of at most ten bytes, found no end of it"),
            (
                &[0x12, 4, 10, 2, 0, 0],
                "byte 13: expected floats of four bytes, found a string of 2 bytes",
            ),
            (
                &[0x1a, 3, 10, 1, 0x80],
                "byte 13: expected an integer of at most ten bytes, found no end of it",
            ),
            (
                &[0x1a, 9, 9, 0, 0, 0, 0, 0, 0, 0, 0],
                "byte 12: expected integers, found eight bytes",
            ),
        ];
        for (bytes, message) in table {
            assert_eq!(feature(bytes).unwrap_err(), message, "{bytes:?}");
        }
        let name = nested(&[1, 1, 1], b"\xff");
        assert!(decode(&name).unwrap_err().to_string().contains("a name in UTF-8"));
    }

    #[test]
    fn damage_never_panics() {
        let features = vec![
            ("image", Feature::Bytes(vec![b"jpeg"])),
            ("box", Feature::Floats(vec![0.0, 1.0])),
            ("label", Feature::Ints(vec![3, -3])),
        ];
        let whole = encode(&features);
        for end in 1..whole.len() {
            assert!(decode(&whole[..end]).is_err(), "{end}");
        }
        for bit in 0..whole.len() * 8 {
            let mut changed = whole.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            // The checksum of the record would have told; here any answer will do.
            let _ = decode(&changed);
        }
    }
}
