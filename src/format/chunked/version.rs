//! A version: what the array is, in a line of JSON and the hash of that line.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::names::MAX_NUMBER;
use super::numbering::{MAX_DIMENSIONS, Numbering, grid_of};
use super::parse_time;
use crate::format::FormatError;

/// The version of the format.
pub const FORMAT: u64 = 1;
/// The maximum size of a version's file.
pub const MAX_VERSION_BYTES: u64 = 64 << 20;
/// The maximum bytes of a chunk.
pub const MAX_CHUNK_BYTES: u64 = (1 << 31) - 17;

/// The line with the hash: 64 digits and the line break.
const HASH_LINE: usize = 65;

/// One committed version of an array.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Version {
    kiste_array: u64,
    /// The number of this version.
    pub version: u64,
    /// The version it was made from, 0 for none.
    pub parent: u64,
    /// When it was committed; see [`parse_time`].
    pub time: String,
    /// The commit message.
    pub message: String,
    /// Length of each axis.
    pub shape: Vec<u64>,
    /// How chunks are numbered; see [`Numbering`].
    pub extents: Vec<u64>,
    /// The part that never changes.
    pub storage: Storage,
    /// Attributes of the user.
    pub attributes: Map<String, Value>,
    /// The lowest number that no segment had when this version was written.
    pub next_segment: u64,
    /// Where the chunks are: one, or one for each field.
    pub columns: Vec<Column>,
    /// This version's number, if an axis lost chunks and others got new numbers in one commit, by a writer
    /// that tells the two apart. Early ones, which did not, left it out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub renumbered: Option<u64>,
    /// Members that this version of the crate does not know; they are preserved.
    #[serde(flatten)]
    pub others: Map<String, Value>,
}

/// The properties that an array keeps all its life.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Storage {
    /// The type of the elements, as NumPy describes it.
    pub dtype: String,
    /// Length of a chunk along each axis.
    pub chunkshape: Vec<u64>,
    /// Always `C`.
    pub order: String,
    /// The bytes of an element that was never written.
    #[serde(with = "base64_text")]
    pub fill: Vec<u8>,
    /// The maximum chunks in one file.
    pub superchunk: u32,
    /// How chunks are compressed.
    pub cparams: Compression,
    /// The checksum of compressed chunks, as bloscpack calls it.
    pub checksum: String,
    /// Spare bytes after each chunk.
    pub room: u32,
    /// The expected length of the first axis, if the creator gave one.
    pub expectedlen: Option<u64>,
    /// Whether old versions are kept.
    pub versioned: bool,
    /// Members that this version of the crate does not know; they are preserved.
    #[serde(flatten)]
    pub others: Map<String, Value>,
}

/// The parameters of Blosc.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Compression {
    /// The codec.
    pub cname: String,
    /// 0 stores, 9 takes the most time.
    pub clevel: u8,
    /// 0 none, 1 bytes, 2 bits.
    pub shuffle: u8,
}

/// Where the chunks of an array or of one field of it are.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Column {
    /// The directory below `data`, empty for that itself.
    pub path: String,
    /// The chunk table: number and entries of each segment, from old to new.
    pub segments: Vec<(u64, u64)>,
    /// Chunks that are stored.
    pub chunks: u64,
    /// Their bytes, compressed.
    pub cbytes: u64,
    /// The lowest number that no superchunk had when this version was written.
    pub next: u64,
    /// Members that this version of the crate does not know; they are preserved.
    #[serde(flatten)]
    pub others: Map<String, Value>,
}

impl Version {
    /// The first version of an array: nothing is stored, all of it is fill.
    pub fn first(storage: Storage, shape: Vec<u64>, columns: &[String]) -> Version {
        let column = |path: &String| Column {
            path: path.clone(),
            segments: Vec::new(),
            chunks: 0,
            cbytes: 0,
            next: 1,
            others: Map::new(),
        };
        Version {
            kiste_array: FORMAT,
            version: 1,
            parent: 0,
            time: String::new(),
            message: String::new(),
            extents: vec![1; shape.len().saturating_sub(1)],
            shape,
            storage,
            attributes: Map::new(),
            next_segment: 1,
            columns: columns.iter().map(column).collect(),
            renumbered: None,
            others: Map::new(),
        }
    }

    /// The file: two lines.
    pub fn encode(&self) -> Result<Vec<u8>, FormatError> {
        let unwritable =
            |e: serde_json::Error| FormatError::new(0, "what JSON can say", e.to_string());
        // Most fit, so that the bytes are not moved again and again.
        let mut bytes = Vec::with_capacity(1 << 10);
        serde_json::to_writer(&mut bytes, self).map_err(unwritable)?;
        let hash = blake3::hash(&bytes);
        for part in ["\n", &hash.to_hex(), "\n"] {
            bytes.extend_from_slice(part.as_bytes());
        }
        match bytes.len() as u64 {
            0..=MAX_VERSION_BYTES => Ok(bytes),
            more => {
                let expected = format!("at most {MAX_VERSION_BYTES} bytes in a version");
                Err(FormatError::new(0, expected, more.to_string()))
            }
        }
    }

    /// The version in a file, all of it checked.
    ///
    /// Check [`format_of`] first: another version of the format is not damage.
    pub fn parse(bytes: &[u8]) -> Result<Version, FormatError> {
        let json = checked_line(bytes)?;
        let version: Version = serde_json::from_slice(json).map_err(|e| json_error(&e))?;
        version.check()?;
        Ok(version)
    }

    /// Chunks on each axis.
    pub fn grid(&self) -> Vec<u64> {
        grid_of(&self.shape, &self.storage.chunkshape)
    }

    /// How the chunks are numbered.
    pub fn numbering(&self) -> Result<Numbering, FormatError> {
        Numbering::new(&self.grid(), self.extents.clone())
    }

    fn check(&self) -> Result<(), FormatError> {
        let Version { shape, storage, .. } = self;
        let demand = |holds: bool, expected: &str, found: String| match holds {
            true => Ok(()),
            false => Err(FormatError::new(0, expected, found)),
        };
        demand(self.kiste_array == FORMAT, "format 1", self.kiste_array.to_string())?;
        demand(
            shape.len() <= MAX_DIMENSIONS && shape.len() == storage.chunkshape.len(),
            "at most 32 axes, as many for the chunks",
            format!("{shape:?} and {:?}", storage.chunkshape),
        )?;
        let product = storage.chunkshape.iter().try_fold(1_u64, |p, c| p.checked_mul(*c));
        demand(
            product.is_some_and(|elements| (1..=MAX_CHUNK_BYTES).contains(&elements)),
            "chunks of 1 to 2^31 - 17 bytes",
            format!("{:?}", storage.chunkshape),
        )?;
        demand(storage.order == "C", "the order \"C\"", format!("{:?}", storage.order))?;
        demand(storage.superchunk > 0, "chunks in a superchunk", "none".to_string())?;
        demand(parse_time(&self.time).is_some(), "a moment", format!("{:?}", self.time))?;
        demand(self.parent < self.version, "an older parent", self.parent.to_string())?;
        self.check_numbers()?;
        self.numbering().map(drop)
    }

    /// Numbers that files may have, and the next ones, which may be one more.
    fn check_numbers(&self) -> Result<(), FormatError> {
        let expect = |number: u64, most: u64, what: &str| match (1..=most).contains(&number) {
            true => Ok(()),
            false => {
                let expected = format!("the number of a {what}, 1 to {most}");
                Err(FormatError::new(0, expected, number.to_string()))
            }
        };
        expect(self.version, MAX_NUMBER, "version")?;
        expect(self.next_segment, MAX_NUMBER + 1, "segment")?;
        self.columns.iter().try_for_each(|column| {
            expect(column.next, u64::from(u32::MAX) + 1, "superchunk")?;
            let mut segments = column.segments.iter();
            segments.try_for_each(|(number, _)| expect(*number, MAX_NUMBER, "segment"))
        })
    }
}

/// Which version of the format a file has; nothing else is assumed.
pub fn format_of(bytes: &[u8]) -> Result<u64, FormatError> {
    #[derive(Deserialize)]
    struct Head {
        kiste_array: u64,
    }
    let head: Head = serde_json::from_slice(checked_line(bytes)?).map_err(|e| json_error(&e))?;
    Ok(head.kiste_array)
}

/// The first line, which the second one is the hash of.
fn checked_line(bytes: &[u8]) -> Result<&[u8], FormatError> {
    if bytes.len() as u64 > MAX_VERSION_BYTES {
        let expected = format!("at most {MAX_VERSION_BYTES} bytes in a version");
        return Err(FormatError::new(0, expected, bytes.len().to_string()));
    }
    let split = bytes.len().checked_sub(HASH_LINE + 1);
    let Some((json, [b'\n', digits @ .., b'\n'])) = split.map(|at| bytes.split_at(at)) else {
        let found = format!("{} bytes without one", bytes.len());
        return Err(FormatError::new(0, "a line, and a line with its hash", found));
    };
    if blake3::hash(json).to_hex().as_bytes() != digits {
        let position = json.len() as u64 + 1;
        return Err(FormatError::new(position, "the hash of the first line", "another one"));
    }
    Ok(json)
}

fn json_error(error: &serde_json::Error) -> FormatError {
    FormatError::new(error.column() as u64, "the description of a version", error.to_string())
}

mod base64_text {
    use super::{Engine, STANDARD};
    use serde::{Deserialize, Deserializer, Serializer, de};

    pub(super) fn serialize<S: Serializer>(bytes: &[u8], to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&STANDARD.encode(bytes))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<u8>, D::Error> {
        STANDARD.decode(String::deserialize(from)?).map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version() -> Version {
        let cparams = Compression { cname: "lz4".into(), clevel: 5, shuffle: 1 };
        let storage = Storage {
            dtype: "<f8".into(),
            chunkshape: vec![4, 4],
            order: "C".into(),
            fill: vec![0, 0, 0, 0, 0, 0, 0xf8, 0x7f],
            superchunk: 16,
            cparams,
            checksum: "crc32".into(),
            room: 0,
            expectedlen: None,
            versioned: true,
            others: Map::new(),
        };
        let mut version = Version::first(storage, vec![10, 9], &[String::new()]);
        version.extents = vec![4];
        version.time = "2026-11-21T17:00:00.000000Z".into();
        version.message = "two\nlines, and \"quotes\"".into();
        version.attributes.insert("temperature".into(), 11.4.into());
        version.columns[0].segments = vec![(1, 9), (3, 2)];
        version
    }

    #[test]
    fn comes_back() {
        let bytes = version().encode().unwrap();
        assert_eq!(format_of(&bytes).unwrap(), 1);
        assert_eq!(Version::parse(&bytes).unwrap(), version());
        let text = String::from_utf8(bytes).unwrap();
        let lines: Vec<&str> = text.split('\n').collect();
        assert_eq!(lines.len(), 3);
        assert_eq!(lines[1], blake3::hash(lines[0].as_bytes()).to_hex().as_str());
        assert!(lines[0].starts_with(r#"{"kiste_array":1,"version":1,"parent":0,"time":"2026-"#));
        assert!(lines[0].contains(r#""fill":"AAAAAAAA+H8=""#));
        assert!(lines[0].contains(r#""segments":[[1,9],[3,2]]"#));
    }

    #[test]
    fn every_truncation_and_every_flip_is_noticed() {
        let bytes = version().encode().unwrap();
        for len in 0..bytes.len() {
            assert!(Version::parse(&bytes[..len]).is_err(), "{len}");
        }
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(Version::parse(&flipped).is_err(), "{bit}");
        }
    }

    fn with_hash(json: &str) -> Vec<u8> {
        format!("{json}\n{}\n", blake3::hash(json.as_bytes()).to_hex()).into_bytes()
    }

    #[test]
    fn unknown_members_are_kept() {
        let json = serde_json::to_string(&version()).unwrap();
        let json = json.replace(r#""order""#, r#""later":[1,{}],"order""#);
        let json = json.replace(r#""path""#, r#""soon":null,"path""#);
        let json = json.replacen('{', r#"{"tags":["a"],"#, 1);
        let again = Version::parse(&with_hash(&json)).unwrap().encode().unwrap();
        let again = String::from_utf8(again).unwrap();
        for member in [r#""later":[1,{}]"#, r#""soon":null"#, r#""tags":["a"]"#] {
            assert!(again.contains(member), "{member} in {again}");
        }
    }

    #[test]
    fn another_format_is_told_from_damage() {
        let bytes = with_hash(r#"{"kiste_array":2,"all":"else"}"#);
        assert_eq!(format_of(&bytes).unwrap(), 2);
        assert!(Version::parse(&bytes).is_err());
    }

    #[test]
    fn nonsense_is_refused() {
        let json = serde_json::to_string(&version()).unwrap();
        for (old, new) in [
            (r#""shape":[10,9]"#, r#""shape":[10]"#),
            (r#""shape":[10,9]"#, r#""shape":[10,-1]"#),
            (r#""shape":[10,9]"#, r#""shape":[10,17]"#),
            (r#""shape":[10,9]"#, r#""shape":[18446744073709551615,9]"#),
            (r#""extents":[4]"#, r#""extents":[]"#),
            (r#""chunkshape":[4,4]"#, r#""chunkshape":[4,0]"#),
            (r#""chunkshape":[4,4]"#, r#""chunkshape":[65536,65536]"#),
            (r#""chunkshape":[4,4]"#, r#""chunkshape":[18446744073709551615,2]"#),
            (r#""order":"C""#, r#""order":"F""#),
            (r#""superchunk":16"#, r#""superchunk":0"#),
            (r#""fill":"AAAAAAAA+H8=""#, r#""fill":"?""#),
            (r#""parent":0"#, r#""parent":1"#),
            (r#""time":"2026-11-21T17:00:00.000000Z""#, r#""time":"now""#),
            (r#""kiste_array":1"#, r#""kiste_array":1,"kiste_array":1"#),
            (r#""version":1"#, r#""version":9223372036854775808"#),
            (r#""version":1"#, r#""version":18446744073709551616"#),
            (r#""next_segment":1"#, r#""next_segment":0"#),
            (r#""next_segment":1"#, r#""next_segment":9223372036854775809"#),
            (r#""next_segment":1"#, r#""next_segment":18446744073709551615"#),
            (r#""next":1"#, r#""next":0"#),
            (r#""next":1"#, r#""next":4294967297"#),
            (r#""segments":[[1,9]"#, r#""segments":[[0,9]"#),
            (r#""segments":[[1,9]"#, r#""segments":[[9223372036854775808,9]"#),
        ] {
            assert!(json.contains(old), "{old}");
            assert!(Version::parse(&with_hash(&json.replace(old, new))).is_err(), "{new}");
        }
        let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
        let deep = json.replace(r#""attributes":{"#, &format!(r#""attributes":{{"a":{deep},"#));
        assert!(Version::parse(&with_hash(&deep)).is_err());
    }
}
