//! [`ShardedReader`]: several readers seen as one.

use std::borrow::Cow;
use std::collections::HashSet;
use std::path::Path;

use super::pattern::PathPattern;
use super::{DatasetReader, Location, Reader, out_of_range};
use crate::error::{Error, ErrorKind, Result};
use crate::format::dataset::SideFile;
use crate::format::msgpack::Value;

/// Several readers seen as one: the samples of the first, then those of the second, and so on.
///
/// For shards, which are datasets that belong together, and for any other concatenation:
/// `ShardedReader::new(vec![…])` takes readers, `Box<dyn Reader>` of different kinds as well.
/// Shards may be empty. Looking up a key asks the Bloom filter of each shard in turn; of a key
/// that several shards have, the first counts ([`duplicates`](Self::duplicates) finds such keys).
///
/// ```
/// use kiste::reader::{Reader, ShardedReader};
/// use kiste::{DatasetReader, Writer};
///
/// # let dir = tempfile::tempdir()?;
/// for shard in [2, 10] {
///     let mut writer = Writer::create(dir.path().join(format!("shard-{shard}.msgpack")))?;
///     writer.write(&std::collections::BTreeMap::from([("key", format!("from {shard}"))]))?;
///     writer.finish()?;
/// }
/// let pattern = format!("{}/shard-*.msgpack", dir.path().display());
/// let shards = ShardedReader::glob(&pattern)?;
/// assert_eq!(shards.len(), 2);
/// assert_eq!(shards.key(0)?, "from 2");
/// assert_eq!(shards.find("from 10")?, Some(1));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(alias = "concat")]
#[doc(alias = "chain")]
#[derive(Debug, Clone)]
pub struct ShardedReader<R = DatasetReader> {
    shards: Vec<R>,
    /// The index of the first sample of each shard, and the number of all.
    starts: Vec<usize>,
}

impl ShardedReader {
    /// Opens the datasets whose paths match a pattern, in [natural order](crate::natural_order):
    /// `shard-2` before `shard-10`. `**` is any number of directories; side files that match are
    /// left aside.
    ///
    /// # Errors
    ///
    /// [`NotFound`](ErrorKind::NotFound) if nothing matches, and those of
    /// [`DatasetReader::open`].
    pub fn glob(pattern: &str) -> Result<ShardedReader> {
        let found = PathPattern::parse(pattern)?.glob(Path::new(""))?;
        let mut side_files = HashSet::new();
        for (path, _) in &found {
            side_files.extend(SideFile::ALL.iter().map(|side| side.path(Path::new(path))));
        }
        let is_data = |path: &&String| !side_files.contains(Path::new(path));
        let data: Vec<&String> = found.iter().map(|(path, _)| path).filter(is_data).collect();
        if data.is_empty() {
            let message = "no file matches this pattern";
            return Err(Error::new(ErrorKind::NotFound, message).at(pattern));
        }
        ShardedReader::open(data)
    }

    /// Opens datasets, in this order.
    pub fn open<P: AsRef<Path>>(paths: impl IntoIterator<Item = P>) -> Result<ShardedReader> {
        let shards: Result<Vec<_>> = paths.into_iter().map(DatasetReader::open).collect();
        ShardedReader::new(shards?)
    }
}

impl<R: Reader> ShardedReader<R> {
    /// These readers, in this order.
    ///
    /// # Errors
    ///
    /// [`Limit`](ErrorKind::Limit) if there are more samples than this machine can count.
    pub fn new(shards: impl IntoIterator<Item = R>) -> Result<ShardedReader<R>> {
        let shards: Vec<R> = shards.into_iter().collect();
        let mut starts = vec![0];
        let mut end = 0usize;
        for shard in &shards {
            end = end.checked_add(shard.len()).ok_or_else(|| {
                Error::new(ErrorKind::Limit, "more samples than this machine can address")
            })?;
            starts.push(end);
        }
        Ok(ShardedReader { shards, starts })
    }

    /// The readers.
    pub fn shards(&self) -> &[R] {
        &self.shards
    }

    /// The number of the shard that a sample is in, and its index there.
    pub fn shard_of(&self, index: usize) -> Result<(usize, usize)> {
        if index >= self.len() {
            return Err(out_of_range(index, self.len()));
        }
        // Of several that start here all but the last are empty.
        let shard = self.starts.partition_point(|&start| start <= index) - 1;
        Ok((shard, index - self.starts[shard]))
    }

    /// All samples whose keys an earlier shard has as well: the index of the first sample with
    /// that key, and that of the later one. Asks for every key; ascending by the later index.
    pub fn duplicates(&self) -> Result<Vec<(usize, usize)>> {
        let mut found = Vec::new();
        for (number, shard) in self.shards.iter().enumerate().skip(1) {
            for index in 0..shard.len() {
                let key = shard.key(index)?;
                if let Some(first) = self.find_in(0..number, &key)? {
                    found.push((first, self.starts[number] + index));
                }
            }
        }
        Ok(found)
    }

    fn find_in(&self, shards: std::ops::Range<usize>, key: &str) -> Result<Option<usize>> {
        for number in shards {
            if self.shards[number].contains_key(key)? {
                if let Some(index) = self.shards[number].find(key)? {
                    return Ok(Some(self.starts[number] + index));
                }
            }
        }
        Ok(None)
    }
}

impl<R: Reader> Reader for ShardedReader<R> {
    fn len(&self) -> usize {
        self.starts[self.shards.len()]
    }

    fn key(&self, index: usize) -> Result<Cow<'_, str>> {
        let (shard, index) = self.shard_of(index)?;
        self.shards[shard].key(index)
    }

    fn find(&self, key: &str) -> Result<Option<usize>> {
        self.find_in(0..self.shards.len(), key)
    }

    fn get_raw(&self, index: usize) -> Result<Cow<'_, [u8]>> {
        let (shard, index) = self.shard_of(index)?;
        self.shards[shard].get_raw(index)
    }

    fn find_all(&self, key: &str) -> Result<Vec<usize>> {
        let mut found = Vec::new();
        for (shard, start) in self.shards.iter().zip(&self.starts) {
            if shard.contains_key(key)? {
                found.extend(shard.find_all(key)?.into_iter().map(|index| start + index));
            }
        }
        Ok(found)
    }

    fn contains_key(&self, key: &str) -> Result<bool> {
        for shard in &self.shards {
            if shard.contains_key(key)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn get(&self, index: usize) -> Result<Value> {
        let (shard, index) = self.shard_of(index)?;
        self.shards[shard].get(index)
    }

    /// The index is that in the shard.
    fn locate(&self, index: usize) -> Location {
        match self.shard_of(index) {
            Ok((shard, index)) => self.shards[shard].locate(index),
            Err(_) => Location { index: index as u64, ..Location::default() },
        }
    }

    fn prefetch(&self, indices: &[usize]) {
        let mut of_shard: Vec<Vec<usize>> = vec![Vec::new(); self.shards.len()];
        for (shard, index) in indices.iter().filter_map(|&index| self.shard_of(index).ok()) {
            of_shard[shard].push(index);
        }
        for (shard, indices) in self.shards.iter().zip(of_shard) {
            if !indices.is_empty() {
                shard.prefetch(&indices);
            }
        }
    }
}
