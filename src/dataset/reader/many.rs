//! Many keys or samples at a time: while the memory of one look-up is on its way, the others are asked for too.
//!
//! A look-up waits for memory three times, each time for an address that the last answer gave: the slot of
//! the table, the offset, and the sample. For a group of keys each of these steps is made for all
//! of them before the next one, so that the processor overlaps the waiting. That decides nothing: the
//! look-ups proper come after, one by one, and find everything in the cache.

use std::borrow::Cow;

use crate::error::Result;
use crate::format::dataset::{key_hashes, lookup};

use super::files::Files;
use super::find::Run;
use super::hashes::Wanted;
use super::key_files::Slots;
use super::one::OneFile;
use super::rounds::Fetch;

/// Keys of a group. What they touch has to fit in the first level of the cache.
const GROUP: usize = 32;
/// The same where a group takes three round trips.
const REMOTE_GROUP: usize = 256;

impl OneFile {
    pub(super) fn find_many<K: AsRef<str>>(&self, keys: &[K]) -> Result<Vec<Option<usize>>> {
        let mut found = self.find_first(keys)?;
        let keys = &keys[found.len()..];
        let Some(key) = keys.first() else { return Ok(found) };
        let is_remote = self.is_remote();
        let hashes = match is_remote {
            true => self.fetch_first(key.as_ref(), keys.len())?,
            false => self.hashes()?,
        };
        self.build_for(hashes, keys.len())?;
        let (mut group, mut hashed): (Vec<&str>, _) = (Vec::new(), Vec::new());
        for part in keys.chunks(if is_remote { REMOTE_GROUP } else { GROUP }) {
            group.clear();
            group.extend(part.iter().map(AsRef::as_ref));
            hashed.resize(part.len(), 0);
            key_hashes::hash_many(&hashes.salt, &group, &mut hashed);
            let wanted = group.iter().zip(&hashed).map(|(&key, &hash)| Wanted { key, hash });
            if is_remote {
                let wanted: Vec<_> = wanted.collect();
                found.extend(self.find_in_rounds(hashes, &wanted, Fetch::Key)?);
                continue;
            }
            if let Some(slots) = self.slots()?.filter(Slots::are_mapped) {
                self.touch(&slots, &hashed);
            }
            for wanted in wanted {
                found.push(Run::new(self, hashes, wanted, None)?.finish()?);
            }
        }
        Ok(found)
    }

    /// The first keys, as long as the accelerator is there and turns out to be of use.
    fn find_first<K: AsRef<str>>(&self, keys: &[K]) -> Result<Vec<Option<usize>>> {
        let mut found = Vec::with_capacity(keys.len());
        let mut hashed = Vec::new();
        for part in keys.chunks(GROUP) {
            let Some(lookup) = self.quick_lookup()? else { break };
            hashed.clear();
            hashed.extend(part.iter().map(|key| lookup::hash(key.as_ref().as_bytes())));
            if lookup.is_mapped() {
                self.touch(&Slots::File(lookup), &hashed);
            }
            for (key, &hash) in part.iter().zip(&hashed) {
                let key = key.as_ref();
                found.push(match self.find_quickly(lookup, key, hash).0.end() {
                    Some(found) => found,
                    None => self.find_in_all(key, None, Fetch::Key)?,
                });
            }
        }
        Ok(found)
    }

    /// The packed bytes of these samples. The processor is asked for the offsets of a group, then for the
    /// beginnings of its samples, before the first of them is waited for.
    pub(super) fn raw_many(&self, indices: &[usize]) -> Result<Vec<Cow<'_, [u8]>>> {
        let mut samples = Vec::with_capacity(indices.len());
        for group in indices.chunks(GROUP) {
            group.iter().for_each(|&index| self.prefetch_offsets(index));
            group.iter().for_each(|&index| self.prefetch_sample(index));
            for &index in group {
                samples.push(self.raw(index)?);
            }
        }
        Ok(samples)
    }

    /// Reads step by step what the look-ups by these hashes will read, from memory. What is damaged is not noticed here.
    fn touch(&self, slots: &Slots<'_>, wanted: &[u64]) {
        let shape = slots.shape();
        // The compiler leaves out a read whose result is not used.
        let mut sum = 0;
        for &hash in wanted {
            sum ^= slots.at(shape.home_of(hash)).unwrap_or_default();
        }
        let first = |&hash: &u64| shape.probe(hash).next_candidate(|slot| slots.at(slot)).ok()?;
        let candidates: Vec<usize> =
            wanted.iter().filter_map(first).map(|index| index as usize).collect();
        candidates.iter().for_each(|&index| self.prefetch_offsets(index));
        candidates.iter().for_each(|&index| self.prefetch_sample(index));
        std::hint::black_box(sum);
    }
}
