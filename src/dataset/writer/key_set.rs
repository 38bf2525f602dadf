//! Which keys were written already, in about ten bytes a key.
//!
//! Not the keys are kept but 32 bits of a hash of each and the index of its sample; the caller
//! confirms a candidate against the real key, which is on disk. The hash is seeded at random, so
//! no one can prepare keys that collide.
//!
//! `hashbrown` would take 13 bytes a slot and doubles at seven eighths: 15 to 30 bytes a key, and
//! half as much again while it grows. Here 256 shards grow one by one, each by a half, and their
//! entries say themselves where they belong.

use std::hash::{BuildHasher, RandomState};

use foldhash::SharedSeed;
use foldhash::quality::SeedableRandomState;

const SHARDS: usize = 256;

pub(super) struct KeySet {
    shards: Vec<Shard>,
    hasher: SeedableRandomState,
}

/// An open-addressed table. An entry is a fingerprint and, below it, index + 1; 0 is empty.
#[derive(Default)]
struct Shard {
    slots: Vec<u64>,
    used: usize,
}

/// The hash of a key, for the calls of one [`KeySet`].
#[derive(Clone, Copy)]
pub(super) struct KeyHash(u64);

impl KeyHash {
    fn shard(self) -> usize {
        (self.0 >> 56) as usize
    }

    fn fingerprint(self) -> u32 {
        (self.0 >> 24) as u32
    }
}

impl KeySet {
    pub(super) fn new() -> KeySet {
        let random = RandomState::new();
        let seed = SharedSeed::global_random();
        KeySet {
            shards: std::iter::repeat_with(Shard::default).take(SHARDS).collect(),
            hasher: SeedableRandomState::with_seed(random.hash_one(0), seed),
        }
    }

    #[inline]
    pub(super) fn hash(&self, key: &str) -> KeyHash {
        KeyHash(self.hasher.hash_one(key))
    }

    /// Whether `same` says yes to an index that may have this key. Asked for the right index if
    /// the key is there, and for another one about once in four billion.
    #[inline]
    pub(super) fn find<E>(
        &self,
        hash: KeyHash,
        mut same: impl FnMut(u32) -> Result<bool, E>,
    ) -> Result<Option<u32>, E> {
        let shard = &self.shards[hash.shard()];
        if shard.slots.is_empty() {
            return Ok(None);
        }
        let mut at = shard.home(hash.fingerprint());
        loop {
            let entry = shard.slots[at];
            if entry == 0 {
                return Ok(None);
            }
            let index = entry as u32 - 1;
            if (entry >> 32) as u32 == hash.fingerprint() && same(index)? {
                return Ok(Some(index));
            }
            at = shard.after(at);
        }
    }

    /// Adds a key; the index is below `u32::MAX`.
    #[inline]
    pub(super) fn insert(&mut self, hash: KeyHash, index: u32) {
        let shard = &mut self.shards[hash.shard()];
        if shard.used + 1 > shard.slots.len() / 8 * 7 {
            shard.grow();
        }
        shard.place(u64::from(hash.fingerprint()) << 32 | (u64::from(index) + 1));
        shard.used += 1;
    }
}

impl Shard {
    #[inline]
    fn home(&self, fingerprint: u32) -> usize {
        ((u64::from(fingerprint) * self.slots.len() as u64) >> 32) as usize
    }

    #[inline]
    fn after(&self, at: usize) -> usize {
        if at + 1 == self.slots.len() { 0 } else { at + 1 }
    }

    #[inline]
    fn place(&mut self, entry: u64) {
        let mut at = self.home((entry >> 32) as u32);
        while self.slots[at] != 0 {
            at = self.after(at);
        }
        self.slots[at] = entry;
    }

    #[cold]
    fn grow(&mut self) {
        let size = (self.slots.len() + self.slots.len() / 2).max(16);
        let old = std::mem::replace(&mut self.slots, vec![0; size]);
        old.into_iter().filter(|entry| *entry != 0).for_each(|entry| self.place(entry));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::convert::Infallible;

    #[test]
    fn finds_what_was_inserted_and_nothing_else() {
        let mut set = KeySet::new();
        let keys: Vec<String> = (0..100_000).map(|i| format!("key {i}")).collect();
        let find = |set: &KeySet, key: &str| {
            let same = |i: u32| Ok::<_, Infallible>(keys[i as usize] == key);
            set.find(set.hash(key), same).unwrap()
        };
        for (i, key) in keys.iter().enumerate() {
            assert_eq!(find(&set, key), None);
            set.insert(set.hash(key), i as u32);
        }
        for (i, key) in keys.iter().enumerate() {
            assert_eq!(find(&set, key), Some(i as u32));
        }
        assert_eq!(find(&set, "absent"), None);
    }

    #[test]
    fn keys_with_one_hash_are_told_apart() {
        let mut set = KeySet::new();
        let hash = KeyHash(u64::MAX);
        for i in 0..100 {
            set.insert(hash, i);
        }
        for wanted in 0..100 {
            assert_eq!(set.find(hash, |i| Ok::<_, Infallible>(i == wanted)).unwrap(), Some(wanted));
        }
        assert_eq!(set.find(hash, |_| Ok::<_, Infallible>(false)).unwrap(), None);
    }

    #[test]
    fn a_key_takes_about_ten_bytes() {
        let mut set = KeySet::new();
        for i in 0..300_000 {
            set.insert(set.hash(&i.to_string()), i);
        }
        let bytes: usize = set.shards.iter().map(|s| s.slots.capacity() * 8).sum();
        assert!((8..=14).contains(&(bytes / 300_000)), "{bytes}");
    }
}
