//! [`ShardedReader`]: several readers seen as one.

use std::borrow::Cow;
use std::collections::HashMap;
use std::hash::BuildHasher;
use std::sync::Arc;

use super::identity::composed;
use super::lengths::Concatenated;
use super::{FieldContent, Location, Reader, out_of_range};
use crate::error::{Error, ErrorKind, Result};
use crate::format::msgpack::Value;
use crate::sampler::Lengths;
use crate::storage::in_parallel;

/// Several readers seen as one: the samples of the first, then of the second, and so on.
///
/// A dataset of many files is a [`DatasetReader`](crate::DatasetReader), opened by its manifest or a pattern.
/// This is for any other concatenation: `ShardedReader::new(vec![…])` takes readers, `Box<dyn Reader>` of
/// different kinds as well.
/// Shards may be empty. Looking up a key asks the Bloom filter of each shard in turn; of a key
/// that several shards have, the first counts ([`duplicates`](Self::duplicates) finds such keys).
///
/// ```
/// use kiste::reader::{Reader, ShardedReader};
/// use kiste::{DatasetReader, Writer};
///
/// # let dir = tempfile::tempdir()?;
/// let write = |shard: u32| {
///     let path = dir.path().join(format!("shard-{shard}.msgpack"));
///     let mut writer = Writer::create(&path)?;
///     writer.write(&std::collections::BTreeMap::from([("key", format!("from {shard}"))]))?;
///     writer.finish()?;
///     DatasetReader::open(path)
/// };
/// let shards = ShardedReader::new([write(2)?, write(10)?])?;
/// assert_eq!(shards.len(), 2);
/// assert_eq!(shards.key(0)?, "from 2");
/// assert_eq!(shards.find("from 10")?, Some(1));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(alias = "concat")]
#[doc(alias = "chain")]
#[derive(Debug, Clone)]
pub struct ShardedReader<R> {
    shards: Vec<R>,
    /// The index of the first sample of each shard, and the number of all.
    starts: Vec<usize>,
}

/// Shards that are asked at the same time, where each may wait for an answer.
const ASKING: usize = 32;
/// Keys whose hashes are sorted in one go: 256 MB.
const SORTED: usize = 1 << 24;

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
        // If several start here, all but the last are empty.
        let shard = self.starts.partition_point(|&start| start <= index) - 1;
        Ok((shard, index - self.starts[shard]))
    }

    /// All samples whose keys an earlier shard has as well: the indices of the first sample with
    /// that key and of the later one; ascending by the later index.
    ///
    /// Reads every key and sorts their hashes, 16 bytes each; of more than 16 million it takes a
    /// part at a time and reads the keys again for each.
    pub fn duplicates(&self) -> Result<Vec<(usize, usize)>> {
        self.duplicates_in_parts(self.len().div_ceil(SORTED).max(1) as u64)
    }

    fn duplicates_in_parts(&self, parts: u64) -> Result<Vec<(usize, usize)>> {
        let hasher = foldhash::quality::RandomState::default();
        let mut found = Vec::new();
        let mut hashes = Vec::with_capacity(self.len().min(SORTED));
        for part in 0..parts {
            hashes.clear();
            for (shard, start) in self.shards.iter().zip(&self.starts) {
                for index in 0..shard.len() {
                    let hash = hasher.hash_one(&*shard.key(index)?);
                    if hash % parts == part {
                        hashes.push((hash, start + index));
                    }
                }
            }
            hashes.sort_unstable();
            for same in hashes.chunk_by(|a, b| a.0 == b.0).filter(|same| same.len() > 1) {
                self.duplicates_among(same, &mut found)?;
            }
        }
        found.sort_unstable_by_key(|(_, later)| *later);
        Ok(found)
    }

    /// Adds the duplicates among samples whose keys have one hash, in ascending order.
    fn duplicates_among(
        &self,
        same: &[(u64, usize)],
        found: &mut Vec<(usize, usize)>,
    ) -> Result<()> {
        let mut firsts = HashMap::new();
        for &(_, index) in same {
            let first = *firsts.entry(self.key(index)?).or_insert(index);
            // A shard may itself have a key twice: that is its own affair.
            if self.shard_of(first)?.0 < self.shard_of(index)?.0 {
                found.push((first, index));
            }
        }
        Ok(())
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

    fn find_keys(&self, keys: &[&str]) -> Result<Vec<Option<usize>>> {
        let mut found = vec![None; keys.len()];
        let mut left: Vec<usize> = (0..keys.len()).collect();
        for (shard, start) in self.shards.iter().zip(&self.starts) {
            if left.is_empty() {
                break;
            }
            let asked: Vec<&str> = left.iter().map(|&nth| keys[nth]).collect();
            let places = shard.find_keys(&asked)?;
            left = std::mem::take(&mut left)
                .into_iter()
                .zip(places)
                .filter_map(|(nth, place)| match place {
                    Some(index) => {
                        found[nth] = Some(start + index);
                        None
                    }
                    None => Some(nth),
                })
                .collect();
        }
        Ok(found)
    }

    fn may_repeat_keys(&self) -> bool {
        self.shards.len() > 1 || self.shards.iter().any(Reader::may_repeat_keys)
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

    fn get_raw_by_key(&self, key: &str) -> Result<Option<Cow<'_, [u8]>>> {
        for shard in &self.shards {
            if shard.contains_key(key)? {
                if let Some(raw) = shard.get_raw_by_key(key)? {
                    return Ok(Some(raw));
                }
            }
        }
        Ok(None)
    }

    fn field_raw(&self, index: usize, name: &str) -> Result<Option<Cow<'_, [u8]>>> {
        let (shard, index) = self.shard_of(index)?;
        self.shards[shard].field_raw(index, name)
    }

    fn read_fields(
        &self,
        index: usize,
        names: &[&str],
        take: &mut dyn FnMut(&str, FieldContent<'_>) -> Result<()>,
    ) -> Result<bool> {
        let (shard, index) = self.shard_of(index)?;
        self.shards[shard].read_fields(index, names, take)
    }

    fn field(&self, index: usize, name: &str) -> Result<Option<Value>> {
        let (shard, index) = self.shard_of(index)?;
        self.shards[shard].field(index, name)
    }

    /// The labels of the first shard, if no other shard has different ones.
    fn labels(&self) -> Result<Option<Vec<String>>> {
        let Some((first, others)) = self.shards.split_first() else { return Ok(None) };
        let labels = first.labels()?;
        for shard in others {
            if shard.labels()? != labels {
                return Ok(None);
            }
        }
        Ok(labels)
    }

    /// Those of all shards that have samples, or none.
    fn lengths(&self, column: &str) -> Result<Option<Arc<dyn Lengths>>> {
        let shards = self.shards.iter().filter(|shard| shard.len() > 0);
        let all: Option<Vec<_>> =
            shards.map(|shard| shard.lengths(column)).collect::<Result<_>>()?;
        let all = all.filter(|all| !all.is_empty());
        Ok(all.map(|all| Arc::new(Concatenated::new(all)) as Arc<dyn Lengths>))
    }

    fn identity(&self) -> Result<String> {
        composed("shards", self.shards.iter().map(Reader::identity), [])
    }

    /// The index is that in the shard.
    fn locate(&self, index: usize) -> Location {
        match self.shard_of(index) {
            Ok((shard, index)) => self.shards[shard].locate(index),
            Err(_) => Location::new(index as u64),
        }
    }

    fn is_remote(&self) -> bool {
        self.shards.iter().any(Reader::is_remote)
    }

    fn known_len(&self, index: usize) -> Result<Option<u64>> {
        let (shard, index) = self.shard_of(index)?;
        self.shards[shard].known_len(index)
    }

    fn sample_bytes(&self) -> Option<u64> {
        let mut all = 0u128;
        for shard in self.shards.iter().filter(|shard| shard.len() > 0) {
            all += u128::from(shard.sample_bytes()?) * shard.len() as u128;
        }
        u64::try_from(all / self.len().max(1) as u128).ok()
    }

    fn prefetch(&self, indices: &[usize]) {
        let mut of_shard: Vec<Vec<usize>> = vec![Vec::new(); self.shards.len()];
        for (shard, index) in indices.iter().filter_map(|&index| self.shard_of(index).ok()) {
            of_shard[shard].push(index);
        }
        let asked = self.shards.iter().zip(&of_shard).filter(|(_, indices)| !indices.is_empty());
        if !self.is_remote() {
            return asked.for_each(|(shard, indices)| shard.prefetch(indices));
        }
        // Each may wait for an answer before the next is asked.
        let asked: Vec<_> = asked.collect();
        in_parallel(&asked, ASKING, |(shard, indices)| shard.prefetch(indices));
    }
}

#[cfg(all(test, feature = "readers"))]
mod tests {
    use super::*;
    use crate::reader::{ListReader, ReaderExt, SelectReader};
    use crate::sampler::rng::StableRng;

    /// Some of the keys 0 to 30, any of them several times.
    fn shard(rng: &mut StableRng) -> SelectReader<ListReader> {
        let keys = (0..30).map(|i| std::collections::BTreeMap::from([("key", i.to_string())]));
        let all = ListReader::pack(keys).unwrap();
        let chosen: Vec<usize> = (0..rng.below(20)).map(|_| rng.below(30) as usize).collect();
        all.select(chosen).unwrap()
    }

    #[test]
    fn duplicates_are_those_that_a_search_finds() {
        let mut rng = StableRng::new(&[21]);
        let mut number = 0;
        for _ in 0..200 {
            let shards: Vec<_> = (0..2 + rng.below(4)).map(|_| shard(&mut rng)).collect();
            let shards = ShardedReader::new(shards).unwrap();
            let mut expected = Vec::new();
            for index in 0..shards.len() {
                let (number, _) = shards.shard_of(index).unwrap();
                let key = shards.key(index).unwrap();
                expected.extend(shards.find_in(0..number, &key).unwrap().map(|i| (i, index)));
            }
            assert_eq!(shards.duplicates().unwrap(), expected);
            assert_eq!(shards.duplicates_in_parts(7).unwrap(), expected);
            number += expected.len();
        }
        assert!(number > 1000);
    }
}
