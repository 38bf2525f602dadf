//! Whether all shards together have each key once.
//!
//! Hashes tell which keys may be equal, and only those keys are read. They are sorted in memory, a
//! range of them at a time where there are many: the hashes of all shards are read once for each.

use std::collections::HashMap;
#[cfg(feature = "convert")]
use std::path::Path;

use super::super::files::Files;
use super::Shards;
use crate::error::{Error, ErrorKind, Result};
use crate::format::dataset::key_hashes::Salt;

/// Hashes that are sorted in one go: 256 MB.
const SORTED: u64 = 1 << 24;

/// A sample: shard and index there.
type Place = (usize, usize);

impl Shards {
    /// Two samples of different shards with the same key, and that key.
    pub(crate) fn find_duplicate(&self) -> Result<Option<(Place, Place, String)>> {
        self.find_duplicate_in_parts(self.parts())
    }

    fn find_duplicate_in_parts(&self, parts: u64) -> Result<Option<(Place, Place, String)>> {
        let mut found = None;
        self.each_in_parts(parts, |first, second, key| {
            found = Some((first, second, key));
            Ok(false)
        })?;
        Ok(found)
    }

    /// Calls this for each sample whose key one before it has, in no particular order: with the first sample that
    /// has the key, with this one, and with the key. Ends early once it returns false.
    #[cfg(feature = "convert")]
    pub(crate) fn each_duplicate(
        &self,
        found: impl FnMut(Place, Place, String) -> Result<bool>,
    ) -> Result<()> {
        self.each_in_parts(self.parts(), found)
    }

    fn parts(&self) -> u64 {
        (self.len() as u64).div_ceil(SORTED).max(1)
    }

    fn each_in_parts(
        &self,
        parts: u64,
        mut found: impl FnMut(Place, Place, String) -> Result<bool>,
    ) -> Result<()> {
        // Nearly all shards have it, and then no key is read.
        let salt = Salt::of_try(0);
        let mut hashes: Vec<(u64, usize)> = Vec::new();
        for part in 0..parts {
            hashes.clear();
            for (number, start) in self.starts.iter().take(self.count()).enumerate() {
                self.open(number)?.each_hash(&salt, |index, hash| {
                    let of = (u128::from(hash) * u128::from(parts)) >> 64;
                    if of == u128::from(part) {
                        hashes.push((hash, start + index));
                    }
                })?;
            }
            hashes.sort_unstable();
            for same in hashes.chunk_by(|a, b| a.0 == b.0).filter(|same| same.len() > 1) {
                let mut firsts = HashMap::new();
                for &(_, index) in same {
                    let (file, own) = self.at(index)?;
                    let key = file.key(own)?.into_owned();
                    let Some(&first) = firsts.get(&key) else {
                        firsts.insert(key, index);
                        continue;
                    };
                    if !found(self.shard_of(first)?, self.shard_of(index)?, key)? {
                        return Ok(());
                    }
                }
            }
        }
        Ok(())
    }

    /// The path of a shard, and the sample of this index in it.
    #[cfg(feature = "convert")]
    pub(crate) fn sample_of(&self, (shard, index): Place) -> Result<(&Path, Vec<u8>)> {
        let packed = self.open(shard)?.raw(index)?.into_owned();
        Ok((&self.shards[shard].path, packed))
    }

    /// Fails if two samples have the same key.
    pub(crate) fn check_unique(&self) -> Result<()> {
        let Some(((first, at), (second, index), key)) = self.find_duplicate()? else {
            return Ok(());
        };
        let (first, second) = (&self.shards[first].path, &self.shards[second].path);
        let message = format!("sample {at} of {} has the same key", first.display());
        let error = Error::new(ErrorKind::DuplicateKey, message).at(second);
        Err(error.with_index(index as u64).with_key(key))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::path::Path;
    use std::sync::Arc;

    use super::*;
    use crate::dataset::{ReaderOptions, Writer};
    use crate::storage::MemoryStorage;

    fn shards(keys: &[&[&str]]) -> Shards {
        let storage = Arc::new(MemoryStorage::new());
        let mut files = Vec::new();
        for (number, keys) in keys.iter().enumerate() {
            let path = Path::new("d").join(number.to_string());
            let mut writer = Writer::options().storage(storage.clone()).create(&path).unwrap();
            for key in *keys {
                writer.write(&BTreeMap::from([("key", key)])).unwrap();
            }
            writer.finish().unwrap();
            files.push(path);
        }
        let options = ReaderOptions::default();
        Shards::of_files(storage, Path::new("d"), options, files).unwrap()
    }

    #[test]
    fn a_key_that_two_shards_have_is_found() {
        for parts in [1, 7, 1000] {
            let different = shards(&[&["a", "b"], &[], &["c"], &["d", "e", ""]]);
            assert_eq!(different.find_duplicate_in_parts(parts).unwrap(), None);
            let equal = shards(&[&["a", "b"], &[], &["c", "b"]]);
            let found = equal.find_duplicate_in_parts(parts).unwrap();
            assert_eq!(found, Some(((0, 1), (2, 1), "b".to_owned())));
            let many = shards(&[&["a", "b"], &["b", "c"], &["c", "b", "d"]]);
            let mut all = Vec::new();
            let each = many.each_in_parts(parts, |first, second, key| {
                all.push((second, first, key));
                Ok(true)
            });
            each.unwrap();
            all.sort_unstable();
            let expected = [((1, 0), (0, 1), "b"), ((2, 0), (1, 1), "c"), ((2, 1), (0, 1), "b")];
            assert_eq!(all, expected.map(|(second, first, key)| (second, first, key.to_owned())));
        }
        let error = shards(&[&["a"], &["a"]]).check_unique().unwrap_err();
        assert_eq!((error.kind(), error.key()), (ErrorKind::DuplicateKey, Some("a")));
    }
}
