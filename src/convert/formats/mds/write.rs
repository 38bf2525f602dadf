//! Writes samples to a folder of MDS shards.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use super::MAX_SHARD;
use super::carries;
use super::digest::digest;
use crate::convert::carried::{self, Changes};
use crate::convert::formats::new_file::NewFile;
use crate::convert::writer::sample_writer;
use crate::error::{Error, ErrorKind, Result};
use crate::format::mds::{
    Column, Decoded, Encoding, FileInfo, Index, ShardInfo, encode_sample, encode_shard, scalar,
};
use crate::format::msgpack::{self, Cursor, Kind, numpy, sample};

/// The size limit of a shard, as Streaming's `MDSWriter` has it.
const SHARD_BYTES: u64 = 1 << 26;

/// Writes samples to a folder for the `StreamingDataset` of MosaicML Streaming.
///
/// The bytes equal those from Streaming's `MDSWriter`, except for spaces in JSON, and without the empty
/// shard that it writes before a first sample beyond the size limit.
///
/// The first sample decides the columns, sorted by name; the key is the column `key`. Bytes become
/// `bytes`, strings `str`, integers `int` (or `str_int` if they are beyond its 64 bits with a sign),
/// floats `float64`, NumPy arrays `ndarray`, NumPy numbers the encoding of their type, and anything
/// else `json` in the notation of [`format::jsonl`](crate::format::jsonl), which
/// [`MdsReader`](super::MdsReader) reads back. Later samples must have the same fields of the same
/// kinds.
///
/// A shard appears under its name when it is complete, and `index.json` comes last: a folder
/// without it was abandoned. The index has the SHA-1 digests of the shards.
///
/// ```
/// use kiste::convert::{Input, MdsReader, MdsWriter};
///
/// # let dir = tempfile::tempdir()?;
/// let sample = b"\x82\xa3key\xa1a\xa4word\xa5Kiste";
/// let mut writer = MdsWriter::create(dir.path())?.shard_bytes(1 << 20);
/// writer.write_packed(sample)?;
/// writer.finish()?;
///
/// let reader = MdsReader::open(dir.path())?.key("key");
/// assert_eq!((reader.units(), reader.len_hint()), (1, Some(1)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "the output is complete once it is finished"]
pub struct MdsWriter {
    root: PathBuf,
    size_limit: u64,
    shard_samples: u64,
    columns: Option<Vec<Column>>,
    /// Bytes of a shard without samples.
    head: u64,
    samples: Vec<Vec<u8>>,
    bytes: u64,
    shards: Vec<ShardInfo>,
    changes: Changes,
}

impl MdsWriter {
    /// Creates the folder if it does not exist. It must have no `index.json` yet.
    ///
    /// # Errors
    ///
    /// [`AlreadyExists`](ErrorKind::AlreadyExists) if there is one.
    pub fn create(root: impl AsRef<Path>) -> Result<MdsWriter> {
        let root = root.as_ref().to_path_buf();
        fs::create_dir_all(&root).map_err(|error| Error::io(&root, error))?;
        let index = root.join("index.json");
        if index.try_exists().map_err(|error| Error::io(&index, error))? {
            let message = "the file exists already";
            return Err(Error::new(ErrorKind::AlreadyExists, message).at(index));
        }
        Ok(MdsWriter {
            root,
            size_limit: SHARD_BYTES,
            shard_samples: u64::MAX,
            columns: None,
            head: 0,
            samples: Vec::new(),
            bytes: 0,
            shards: Vec::new(),
            changes: Changes::default(),
        })
    }

    /// The size limit of a shard, which only a single sample may exceed. Default: 64 MiB, as for
    /// Streaming. The format allows for no more than 4 GiB.
    pub fn shard_bytes(mut self, bytes: u64) -> MdsWriter {
        self.size_limit = bytes.min(MAX_SHARD);
        self
    }

    /// The most samples in a shard; 0 is taken for 1. Default: as many as the size limit allows.
    pub fn shard_samples(mut self, samples: u64) -> MdsWriter {
        self.shard_samples = samples.max(1);
        self
    }

    /// Adds a packed sample.
    ///
    /// # Errors
    ///
    /// [`Invalid`](ErrorKind::Invalid) for other fields than the first sample has, and for
    /// arrays that MDS cannot hold. The sample is not written then, not even in part.
    pub fn write_packed(&mut self, packed: &[u8]) -> Result<()> {
        let key = msgpack::check_sample(packed)?;
        let changes = carried::check(carries, packed)?;
        let invalid = |message: &str| Error::new(ErrorKind::Invalid, message).with_key(key);
        let mut fields = BTreeMap::new();
        for field in sample::fields(packed)? {
            let (name, value) = field?;
            if fields.insert(Cursor::new(name).read_str()?, decoded(value)?).is_some() {
                return Err(invalid("expected fields of different names, found one twice"));
            }
        }
        if let Some(columns) = &self.columns {
            // A column of integers with as many digits as they need takes all of them.
            for column in columns.iter().filter(|column| column.encoding == Encoding::TextInt) {
                if let Some((encoding @ Encoding::Int, _)) = fields.get_mut(&column.name[..]) {
                    *encoding = Encoding::TextInt;
                }
            }
        }
        let columns = self.columns.take().unwrap_or_else(|| {
            fields
                .iter()
                .map(|(name, (encoding, _))| Column::new(*name, encoding.clone()))
                .collect()
        });
        let same = columns.len() == fields.len()
            && columns.iter().zip(&fields).all(|(column, (name, (encoding, _)))| {
                column.name == **name && column.encoding == *encoding
            });
        let kinds: Vec<(&str, Encoding)> =
            fields.iter().map(|(name, (encoding, _))| (*name, encoding.clone())).collect();
        let values: Vec<Decoded<'_>> = fields.into_values().map(|(_, value)| value).collect();
        let sample = match encode_sample(&columns, &values).filter(|_| same) {
            Some(sample) => sample,
            None => {
                let error = match misfit(&columns, &values) {
                    _ if !same => match other_kind(&columns, &kinds) {
                        Some((name, expected, found)) => invalid(&format!(
                            "expected {expected} as in the first sample, found {found}"
                        ))
                        .with_field(name),
                        None => invalid("expected the fields of the first sample, found others"),
                    },
                    Some(name) => invalid("expected a value that MDS can hold").with_field(name),
                    None => invalid("the sample is longer than MDS can hold"),
                };
                // A first sample that is refused does not decide the columns.
                let known = !self.samples.is_empty() || !self.shards.is_empty();
                self.columns = Some(columns).filter(|_| known);
                return Err(error);
            }
        };
        self.columns = Some(columns);
        if self.head == 0 {
            self.head = encode_shard(&self.info(), &[]).map_or(0, |shard| shard.len() as u64);
        }
        let size = sample.len() as u64 + 4;
        let is_full = self.samples.len() as u64 >= self.shard_samples
            || self.size_limit < self.head + self.bytes + size;
        if !self.samples.is_empty() && is_full {
            self.flush()?;
        }
        self.bytes += size;
        self.samples.push(sample);
        self.changes.add(changes);
        Ok(())
    }

    /// Writes the last shard and the index.
    pub fn finish(mut self) -> Result<()> {
        if !self.samples.is_empty() {
            self.flush()?;
        }
        let mut index = NewFile::create(self.root.join("index.json"))?;
        index.append(Index { shards: self.shards }.render().as_bytes())?;
        index.finish()
    }

    fn info(&self) -> ShardInfo {
        let basename = format!("shard.{:05}.mds", self.shards.len());
        ShardInfo {
            columns: self.columns.clone().unwrap_or_default(),
            compression: None,
            hashes: vec!["sha1".to_owned()],
            raw: FileInfo { basename, bytes: 0, hashes: BTreeMap::new() },
            zip: None,
            samples: self.samples.len() as u64,
            size_limit: Some(self.size_limit),
        }
    }

    fn flush(&mut self) -> Result<()> {
        let mut info = self.info();
        let path = self.root.join(&info.raw.basename);
        let shard = encode_shard(&info, &self.samples).ok_or_else(|| {
            Error::new(ErrorKind::Limit, "a sample is too long for a shard").at(&path)
        })?;
        info.raw.bytes = shard.len() as u64;
        info.raw.hashes.extend(digest("sha1", &shard).map(|digits| ("sha1".to_owned(), digits)));
        let mut file = NewFile::create(path)?;
        file.append(&shard)?;
        file.finish()?;
        self.shards.push(info);
        self.samples.clear();
        self.bytes = 0;
        Ok(())
    }
}

sample_writer!(MdsWriter, |writer| &writer.root, writer.changes.list());

/// The first column that has another encoding, and both.
fn other_kind<'a>(
    columns: &'a [Column],
    found: &'a [(&str, Encoding)],
) -> Option<(&'a str, &'a Encoding, &'a Encoding)> {
    columns.iter().find_map(|column| {
        let (_, encoding) = found.iter().find(|(name, _)| column.name == *name)?;
        (*encoding != column.encoding).then_some((&*column.name, &column.encoding, encoding))
    })
}

/// The first column whose value MDS cannot hold.
fn misfit<'a>(columns: &'a [Column], values: &[Decoded<'_>]) -> Option<&'a str> {
    let alone = columns.chunks(1).zip(values.chunks(1));
    let mut misfits = alone.filter(|(column, value)| encode_sample(column, value).is_none());
    misfits.next().map(|(column, _)| &*column[0].name)
}

/// A packed value, and its encoding.
fn decoded(packed: &[u8]) -> Result<(Encoding, Decoded<'_>)> {
    let mut cursor = Cursor::new(packed);
    let float64 = || Encoding::parse("float64");
    Ok(match cursor.peek()? {
        Kind::Bin => (Encoding::Bytes, Decoded::Bytes(cursor.read_bin()?)),
        Kind::Map => match numpy::read(&mut cursor) {
            Ok(Some(numpy::Special::Array(array))) => {
                (Encoding::Array(None, None), Decoded::Array(array))
            }
            Ok(Some(numpy::Special::Scalar(array))) => match scalar(array.dtype()) {
                Some(encoding) => (encoding, Decoded::Scalar(array)),
                // Dates, complex numbers and others.
                None => (Encoding::Json, Decoded::Value(msgpack::decode(packed)?)),
            },
            _ => (Encoding::Json, Decoded::Value(msgpack::decode(packed)?)),
        },
        Kind::Float => (float64()?, Decoded::Value(cursor.read_f64()?.into())),
        kind => {
            let encoding = match kind {
                Kind::Str => Encoding::Text,
                Kind::Int if cursor.read_i64().is_err() => Encoding::TextInt,
                Kind::Int => Encoding::Int,
                _ => Encoding::Json,
            };
            (encoding, Decoded::Value(msgpack::decode(packed)?))
        }
    })
}
