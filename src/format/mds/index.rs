//! `index.json`: which shards there are, and what their columns are.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::encoding::{Encoding, json_string};
use crate::format::FormatError;
use crate::format::claimed::Claimed;

/// The content of an `index.json`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Index {
    /// The shards, in order.
    pub shards: Vec<ShardInfo>,
}

/// A shard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShardInfo {
    /// The columns, in the order of the samples.
    pub columns: Vec<Column>,
    /// How the file is compressed, if it is: `zstd`, or `gz:9` with a level.
    pub compression: Option<String>,
    /// The names of the digests that were made of the files.
    pub hashes: Vec<String>,
    /// The shard as it is described here.
    pub raw: FileInfo,
    /// The shard compressed.
    pub zip: Option<FileInfo>,
    /// How many samples are in it.
    pub samples: u64,
    /// The intended maximum size of a shard.
    pub size_limit: Option<u64>,
}

/// A column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// The name.
    pub name: String,
    /// How its bytes are encoded.
    pub encoding: Encoding,
    /// The fixed size of a value in bytes, if there is one.
    pub size: Option<u32>,
}

impl Column {
    /// A column of this encoding, which knows its size.
    pub fn new(name: impl Into<String>, encoding: Encoding) -> Column {
        let size = encoding.size();
        Column { name: name.into(), encoding, size }
    }
}

/// A file of a shard.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct FileInfo {
    /// Its name below the folder of the index; checked not to lead anywhere else.
    pub basename: String,
    /// How many bytes it has.
    pub bytes: u64,
    /// Its digests in hexadecimal digits.
    pub hashes: BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct RawIndex {
    version: u64,
    shards: Vec<RawShard>,
}

#[derive(Deserialize)]
struct RawShard {
    column_encodings: Vec<String>,
    column_names: Vec<String>,
    column_sizes: Vec<Option<u32>>,
    compression: Option<String>,
    format: String,
    hashes: Vec<String>,
    raw_data: FileInfo,
    samples: u64,
    size_limit: Option<serde_json::Value>,
    version: u64,
    zip_data: Option<FileInfo>,
}

impl Index {
    /// Reads an index. All shards must be of the format MDS and of version 2, the only one there
    /// is.
    pub fn parse(json: &[u8]) -> Result<Index, FormatError> {
        let index: RawIndex = serde_json::from_slice(json).map_err(|error| {
            FormatError::new(0, "an index of Streaming", format!("other JSON: {error}"))
        })?;
        expect_version(index.version)?;
        let shards = index.shards.into_iter().map(RawShard::check);
        Ok(Index { shards: shards.collect::<Result<_, _>>()? })
    }

    /// The index as Streaming writes it.
    pub fn render(&self) -> String {
        let shards: Vec<String> = self.shards.iter().map(ShardInfo::render).collect();
        format!("{{\"shards\": [{}], \"version\": 2}}", shards.join(", "))
    }
}

impl RawShard {
    fn check(self) -> Result<ShardInfo, FormatError> {
        expect_version(self.version)?;
        if self.format != "mds" {
            return Err(FormatError::new(0, "shards of format \"mds\"", json_string(&self.format)));
        }
        let counts =
            [self.column_names.len(), self.column_encodings.len(), self.column_sizes.len()];
        if counts[0] != counts[1] || counts[0] != counts[2] {
            let expected = "as many names of columns as encodings and sizes";
            return Err(FormatError::new(0, expected, format!("{counts:?}")));
        }
        let names = self.column_names.into_iter().zip(&self.column_encodings);
        let columns = names.zip(self.column_sizes).map(|((name, encoding), size)| {
            let encoding = Encoding::parse(encoding)?;
            // Streaming takes a size of zero for none.
            Ok(Column { name, encoding, size: size.filter(|&size| size > 0) })
        });
        let columns = columns.collect::<Result<Vec<_>, FormatError>>()?;
        for file in [Some(&self.raw_data), self.zip_data.as_ref()].into_iter().flatten() {
            check_name(&file.basename)?;
        }
        // A shard begins with the position of each sample and of the end, of 4 bytes each.
        Claimed::new(self.samples).within(u32::MAX.into(), "samples", 0)?.backed(
            (self.raw_data.bytes, 4),
            "samples",
            0,
        )?;
        Ok(ShardInfo {
            columns,
            compression: self.compression.filter(|compression| !compression.is_empty()),
            hashes: self.hashes,
            raw: self.raw_data,
            zip: self.zip_data,
            samples: self.samples,
            size_limit: self.size_limit.and_then(|limit| limit.as_u64()),
        })
    }
}

fn expect_version(version: u64) -> Result<(), FormatError> {
    match version {
        2 => Ok(()),
        _ => Err(FormatError::new(0, "version 2", version.to_string())),
    }
}

/// Merged indices have folders in their names, but none may lead out of the data set.
fn check_name(name: &str) -> Result<(), FormatError> {
    let is_plain = |part: &str| !part.is_empty() && part != "." && part != "..";
    match name.split('/').all(is_plain) && !name.contains(['\\', ':', '\0']) {
        true => Ok(()),
        false => {
            Err(FormatError::new(0, "a file below the folder of the index", json_string(name)))
        }
    }
}

impl ShardInfo {
    /// The fields that are in a shard as well as in the index, sorted.
    pub(super) fn config(&self) -> String {
        let list = |items: &mut dyn Iterator<Item = String>| items.collect::<Vec<_>>().join(", ");
        let columns = || self.columns.iter();
        let optional = |number: Option<u64>| number.map_or("null".into(), |n: u64| n.to_string());
        format!(
            "\"column_encodings\": [{}], \"column_names\": [{}], \"column_sizes\": [{}], \
             \"compression\": {}, \"format\": \"mds\", \"hashes\": [{}]",
            list(&mut columns().map(|column| json_string(&column.encoding.to_string()))),
            list(&mut columns().map(|column| json_string(&column.name))),
            list(&mut columns().map(|column| optional(column.size.map(u64::from)))),
            self.compression.as_deref().map_or("null".to_owned(), json_string),
            list(&mut self.hashes.iter().map(|name| json_string(name))),
        )
    }

    /// The members after the files, which are the same in both kinds of index.
    pub(super) fn limit(&self) -> String {
        let limit = self.size_limit.map_or("null".to_owned(), |limit| limit.to_string());
        format!("\"size_limit\": {limit}, \"version\": 2")
    }

    fn render(&self) -> String {
        format!(
            "{{{}, \"raw_data\": {}, \"samples\": {}, {}, \"zip_data\": {}}}",
            self.config(),
            self.raw.render(),
            self.samples,
            self.limit(),
            self.zip.as_ref().map_or("null".to_owned(), FileInfo::render),
        )
    }
}

impl FileInfo {
    fn render(&self) -> String {
        let hash = |(name, digits): (&String, &String)| {
            format!("{}: {}", json_string(name), json_string(digits))
        };
        let hashes: Vec<String> = self.hashes.iter().map(hash).collect();
        let (name, bytes) = (json_string(&self.basename), self.bytes);
        let hashes = hashes.join(", ");
        format!("{{\"basename\": {name}, \"bytes\": {bytes}, \"hashes\": {{{hashes}}}}}")
    }
}
