//! [`Distinct`]: the keys of the shards that are complete, so that the next ones get none of them again.

use std::collections::HashSet;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::path::PathBuf;

use super::piece_home::Home;
use super::writer::SampleWriter;
use crate::dataset::{DatasetReader, Writer};
use crate::error::{Error, ErrorKind, Result};
use crate::format::msgpack;

/// The keys of all shards but the one that is being written: 8 bytes of each, so that most samples need no look
/// into the shards.
pub(super) struct Distinct {
    home: Home,
    hashing: RandomState,
    hashes: HashSet<u64>,
    /// Each with the number of samples before it, and open once a sample of it was looked for.
    shards: Vec<(PathBuf, u64, Option<DatasetReader>)>,
    samples: u64,
}

impl Distinct {
    pub(super) fn new(home: Home) -> Distinct {
        let (hashing, hashes) = (RandomState::new(), HashSet::new());
        Distinct { home, hashing, hashes, shards: Vec::new(), samples: 0 }
    }

    /// Adds a shard that is complete.
    pub(super) fn add(&mut self, name: &str) -> Result<()> {
        let path = self.home.path(name);
        let reader = self.home.open(&path)?;
        for key in reader.keys() {
            self.hashes.insert(self.hashing.hash_one(&*key?));
        }
        self.shards.push((path, self.samples, None));
        self.samples += reader.len() as u64;
        Ok(())
    }

    /// Samples of all of these shards.
    pub(super) fn len(&self) -> u64 {
        self.samples
    }

    /// A writer of the next shard that refuses keys of these, too.
    pub(super) fn before<'a>(&'a mut self, writer: &'a mut Writer) -> DistinctWriter<'a> {
        DistinctWriter { writer, before: self }
    }

    /// The sample with this key: its index, counted from the first shard, its shard, and its index there.
    fn find(&mut self, key: &str) -> Result<Option<(u64, &DatasetReader, usize)>> {
        if !self.hashes.contains(&self.hashing.hash_one(key)) {
            return Ok(None);
        }
        for (path, before, open) in &mut self.shards {
            let reader = match open {
                Some(reader) => reader,
                None => open.insert(self.home.open(path)?),
            };
            if let Some(index) = reader.find(key)? {
                return Ok(Some((*before + index as u64, reader, index)));
            }
        }
        Ok(None)
    }
}

/// Writes a shard. Indices count from the first shard.
pub(super) struct DistinctWriter<'a> {
    writer: &'a mut Writer,
    before: &'a mut Distinct,
}

impl SampleWriter for DistinctWriter<'_> {
    fn write_packed(&mut self, packed: &[u8]) -> Result<()> {
        // A sample without a key is refused by the writer, with a better error.
        if let Ok(key) = msgpack::check_sample(packed) {
            if let Some((index, ..)) = self.before.find(key)? {
                let message = format!("sample {index} has the same key");
                return Err(Error::new(ErrorKind::DuplicateKey, message).with_key(key));
            }
        }
        self.writer.write_packed(packed)
    }

    fn flush(&mut self) -> Result<()> {
        SampleWriter::flush(self.writer)
    }

    fn refuses(&self, error: &Error, packed: &[u8]) -> bool {
        SampleWriter::refuses(self.writer, error, packed)
    }

    fn earlier(&mut self, key: &str) -> Result<Option<(u64, Option<Vec<u8>>)>> {
        if let Some((index, shard, at)) = self.before.find(key)? {
            return Ok(Some((index, Some(shard.get_raw(at)?.into_owned()))));
        }
        let found = self.writer.earlier(key)?;
        Ok(found.map(|(index, bytes)| (self.before.len() + index, bytes)))
    }

    /// The shard is finished by its own writer.
    fn finish(self: Box<Self>) -> Result<Vec<PathBuf>> {
        Ok(Vec::new())
    }
}
