//! Which keys were written already, in about twelve bytes a key.
//!
//! Not the keys are kept but 32 bits of a hash of each and the index of its sample; the caller
//! confirms a candidate against the real key, which is on disk. The hash is seeded at random, so
//! no one can prepare keys that collide.
//!
//! `hashbrown` would take 13 bytes a slot and doubles at seven eighths: 15 to 30 bytes a key, and
//! half as much again while it grows. Here 256 shards grow one by one, each by a half, and their
//! entries say themselves where they belong.
//!
//! From a million keys on the tables are in no cache, and waiting for their memory would take as long as all else that
//! is done for a small sample. A Bloom filter of eight bits a slot says of nearly every new key that it is new, and the
//! key is stored some samples later, when its slot is at hand.

use std::hash::{BuildHasher, RandomState};

use foldhash::SharedSeed;
use foldhash::quality::SeedableRandomState;

use crate::storage::prefetch;

const SHARDS: usize = 256;
/// How many keys wait for their slots.
const WAITING: usize = 8;

pub(super) struct KeySet {
    shards: Vec<Shard>,
    hasher: SeedableRandomState,
    /// Keys whose slots the processor was asked for, in a ring: the shard, and the entry.
    waiting: [(usize, u64); WAITING],
    /// The one that waits longest.
    oldest: usize,
}

/// An open-addressed table. An entry is a fingerprint and, below it, index + 1; 0 is empty.
#[derive(Default)]
struct Shard {
    slots: Vec<u64>,
    /// A Bloom filter of the fingerprints, those that wait too: a word for eight slots, two bits in it for each.
    seen: Vec<u64>,
    /// Entries, those that wait too.
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
            waiting: [(0, 0); WAITING],
            oldest: 0,
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
        same: impl FnMut(u32) -> Result<bool, E>,
    ) -> Result<Option<u32>, E> {
        match self.shards[hash.shard()].may_have(hash.fingerprint()) {
            true => self.find_seen(hash, same),
            false => Ok(None),
        }
    }

    #[inline(never)]
    fn find_seen<E>(
        &self,
        hash: KeyHash,
        mut same: impl FnMut(u32) -> Result<bool, E>,
    ) -> Result<Option<u32>, E> {
        let waiting = self.waiting.iter().filter(|(shard, _)| *shard == hash.shard());
        let slots = self.shards[hash.shard()].run(hash.fingerprint());
        for entry in waiting.map(|(_, entry)| *entry).chain(slots) {
            if entry == 0 || fingerprint(entry) != hash.fingerprint() {
                continue;
            }
            let index = entry as u32 - 1;
            if same(index)? {
                return Ok(Some(index));
            }
        }
        Ok(None)
    }

    /// Adds a key; the index is below `u32::MAX`.
    #[inline]
    pub(super) fn insert(&mut self, hash: KeyHash, index: u32) {
        let shard = &self.shards[hash.shard()];
        if shard.used + 1 > shard.slots.len() / 8 * 7 {
            self.grow(hash.shard());
        }
        let shard = &mut self.shards[hash.shard()];
        shard.used += 1;
        shard.see(hash.fingerprint());
        prefetch(&shard.slots[shard.home(hash.fingerprint())..]);
        let entry = u64::from(hash.fingerprint()) << 32 | (u64::from(index) + 1);
        self.wait((hash.shard(), entry));
    }

    /// Has an entry wait, and places the one that has waited longest.
    #[inline]
    fn wait(&mut self, entry: (usize, u64)) {
        let (shard, entry) = std::mem::replace(&mut self.waiting[self.oldest], entry);
        if entry != 0 {
            self.shards[shard].place(entry);
        }
        self.oldest = (self.oldest + 1) % WAITING;
    }

    #[cold]
    fn grow(&mut self, shard: usize) {
        for _ in 0..WAITING {
            self.wait((0, 0));
        }
        self.shards[shard].grow();
    }
}

fn fingerprint(entry: u64) -> u32 {
    (entry >> 32) as u32
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

    /// Where a fingerprint is in the filter: the word and its bits.
    #[inline]
    fn bits(&self, fingerprint: u32) -> (usize, u64) {
        let word = (u64::from(fingerprint) * self.seen.len() as u64) >> 32;
        // The word is of the high bits.
        (word as usize, 1 << (fingerprint & 63) | 1 << (fingerprint >> 6 & 63))
    }

    /// `false` if nothing with this fingerprint was added.
    #[inline]
    fn may_have(&self, fingerprint: u32) -> bool {
        let (word, bits) = self.bits(fingerprint);
        self.seen.get(word).is_some_and(|seen| seen & bits == bits)
    }

    #[inline]
    fn see(&mut self, fingerprint: u32) {
        let (word, bits) = self.bits(fingerprint);
        self.seen[word] |= bits;
    }

    /// The entries from the home of a fingerprint to the next empty slot.
    fn run(&self, fingerprint: u32) -> impl Iterator<Item = u64> {
        let (before, from) = self.slots.split_at(self.home(fingerprint));
        from.iter().chain(before).copied().take_while(|entry| *entry != 0)
    }

    #[inline]
    fn place(&mut self, entry: u64) {
        let mut at = self.home(fingerprint(entry));
        while self.slots[at] != 0 {
            at = self.after(at);
        }
        self.slots[at] = entry;
    }

    fn grow(&mut self) {
        let size = (self.slots.len() + self.slots.len() / 2).max(16);
        let old = std::mem::replace(&mut self.slots, vec![0; size]);
        self.seen = vec![0; size.div_ceil(8)];
        for entry in old.into_iter().filter(|entry| *entry != 0) {
            self.see(fingerprint(entry));
            self.place(entry);
        }
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
            // Those that wait are found too.
            let first = i.saturating_sub(WAITING);
            for (recent, at) in keys[first..=i].iter().zip(first..) {
                assert_eq!(find(&set, recent), Some(at as u32));
            }
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
    fn a_key_takes_about_twelve_bytes() {
        let mut set = KeySet::new();
        for i in 0..300_000 {
            set.insert(set.hash(&i.to_string()), i);
        }
        let words = |s: &Shard| s.slots.capacity() + s.seen.capacity();
        let bytes: usize = set.shards.iter().map(|s| words(s) * 8).sum();
        assert!((10..=15).contains(&(bytes / 300_000)), "{bytes}");
    }
}
