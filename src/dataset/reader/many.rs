//! Many keys or samples at a time: while the memory of one look-up is on its way, the others are asked for too.
//!
//! A look-up waits for memory three times, each time for an address that the last answer gave: the slot of
//! the table, the offset, and the sample. For a group of keys each of these steps is made for all
//! of them before the next one, so that the processor overlaps the waiting. That decides nothing: the
//! look-ups proper come after, one by one, and find everything in the cache.

use std::borrow::Cow;

use crate::error::Result;
use crate::format::dataset::{key_hashes, lookup};

use super::hashes::Wanted;
use super::open::OpenDataset;
use super::search::{Asked, Quick, Search, Slots, first};

/// Keys of a group. What they touch has to fit in the first level of the cache.
const GROUP: usize = 32;
/// The same where a group takes three round trips.
const REMOTE_GROUP: usize = 256;
/// What a request costs, in bytes that could be fetched instead: files that take less than the requests
/// for a part of them are fetched whole.
const REQUEST: u64 = 64 << 10;

impl Search {
    pub(super) fn find_many<K: AsRef<str>>(
        &self,
        files: &OpenDataset,
        keys: &[K],
    ) -> Result<Vec<Option<usize>>> {
        let mut found = self.find_first(files, keys)?;
        let keys = &keys[found.len()..];
        let Some(key) = keys.first() else { return Ok(found) };
        let is_remote = files.data.is_remote();
        let most = keys.len() as u64 * REQUEST;
        let is_whole = match self.any_lookup(files)? {
            Some(lookup) => lookup.fetch_whole(most)?,
            None => false,
        };
        // The slots of the first key need not be fetched once more.
        let hashes =
            if is_whole { self.hashes(files)? } else { self.hashes_for(files, key.as_ref())? };
        if is_remote && self.slots(files)?.is_none() {
            hashes.fetch_whole(most)?;
        }
        self.build_for(files, hashes, keys.len())?;
        let (mut group, mut hashed): (Vec<&str>, _) = (Vec::new(), Vec::new());
        for part in keys.chunks(if is_remote { REMOTE_GROUP } else { GROUP }) {
            group.clear();
            group.extend(part.iter().map(AsRef::as_ref));
            hashed.resize(part.len(), 0);
            key_hashes::hash_many(&hashes.salt, &group, &mut hashed);
            let wanted: Vec<Wanted<'_>> =
                group.iter().zip(&hashed).map(|(&key, &hash)| Wanted { key, hash }).collect();
            match self.slots(files)? {
                Some(slots) if is_remote => fetch(files, &slots, &wanted)?,
                Some(slots) if slots.are_mapped() => touch(files, &slots, &hashed),
                _ => {}
            }
            for wanted in wanted {
                found.push(self.find_wanted(files, hashes, wanted, Asked::No)?);
            }
        }
        Ok(found)
    }

    /// The first keys, as long as the accelerator is there and turns out to be of use.
    fn find_first<K: AsRef<str>>(
        &self,
        files: &OpenDataset,
        keys: &[K],
    ) -> Result<Vec<Option<usize>>> {
        let mut found = Vec::with_capacity(keys.len());
        let mut hashed = Vec::new();
        for part in keys.chunks(GROUP) {
            let Some(lookup) = self.quick_lookup(files)? else { break };
            hashed.clear();
            hashed.extend(part.iter().map(|key| lookup::hash(key.as_ref().as_bytes())));
            if lookup.is_mapped() {
                touch(files, &Slots::File(lookup), &hashed);
            }
            for (key, &hash) in part.iter().zip(&hashed) {
                let key = key.as_ref();
                found.push(match self.find_quickly(files, lookup, key, hash) {
                    Quick::Found(index, _) => Some(index),
                    Quick::Absent => None,
                    Quick::Unclear => self.find_after(files, key, Asked::No)?,
                });
            }
        }
        Ok(found)
    }
}

/// Fetches what the look-ups of these keys will read, down to what shows the keys of the samples: each step is a
/// round trip, which they share.
fn fetch(files: &OpenDataset, slots: &Slots<'_>, wanted: &[Wanted<'_>]) -> Result<()> {
    if let Slots::File(lookup) = slots {
        lookup.fetch_runs(&wanted.iter().map(|wanted| wanted.key).collect::<Vec<_>>())?;
    }
    let samples = wanted.iter().filter_map(|&wanted| first(slots, slots.hash(wanted)));
    files.fetch_heads(&samples.collect::<Vec<_>>())
}

impl OpenDataset {
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
}

/// Reads step by step what the look-ups by these hashes will read, from memory. What is damaged is not noticed here.
fn touch(files: &OpenDataset, slots: &Slots<'_>, wanted: &[u64]) {
    let shape = slots.shape();
    // The compiler leaves out a read whose result is not used.
    let mut sum = 0;
    for &hash in wanted {
        sum ^= slots.at(shape.home_of(hash)).unwrap_or_default();
    }
    let candidates: Vec<usize> =
        wanted.iter().filter_map(|&hash| first(slots, hash)).filter(|&i| i < files.len).collect();
    candidates.iter().for_each(|&index| files.prefetch_offsets(index));
    candidates.iter().for_each(|&index| files.prefetch_sample(index));
    std::hint::black_box(sum);
}
