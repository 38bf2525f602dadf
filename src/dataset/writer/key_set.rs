//! Which keys were written already, in about twelve bytes a key, or 16 MB where that is more.
//!
//! Not the keys are kept but 32 bits of a hash of each and the index of its sample; the caller
//! confirms a candidate against the real key, which is on disk. The hash is seeded at random, so
//! no one can prepare keys that collide.
//!
//! `hashbrown` would take 13 bytes a slot and doubles at seven eighths: 15 to 30 bytes a key, and
//! half as much again while it grows. Here more than a million keys are in 256 shards that grow one by one, each by a
//! half. Fewer keys are in one table, which grows in large steps: placing all keys anew took as long as placing them
//! once. Entries say themselves where they belong.
//!
//! Large tables are in no cache, and waiting for their memory would take as long as all else that
//! is done for a small sample. A Bloom filter of eight bits a slot says of nearly every new key that it is new, and the
//! key is stored some samples later, when its slot is at hand.

use std::hash::{BuildHasher, RandomState};

use foldhash::SharedSeed;
use foldhash::quality::SeedableRandomState;

use crate::storage::{prefer_huge_pages, prefetch};

/// Slots of the one table of few keys, one size after the other. Behind the last come the shards.
const SIZES: [usize; 5] = [16, 1 << 10, 1 << 14, 1 << 17, 3 << 19];
const SHARDS: usize = 256;
/// How many keys wait for their slots.
const WAITING: usize = 8;

pub(super) struct KeySet {
    /// One, or all.
    shards: Vec<Shard>,
    hasher: SeedableRandomState,
    /// Entries whose slots the processor was asked for, in a ring; 0 is none.
    waiting: [u64; WAITING],
    /// The one that waits longest.
    oldest: usize,
}

/// An open-addressed table. An entry is a fingerprint and, below it, index + 1; 0 is empty.
#[derive(Default)]
struct Shard {
    /// A Bloom filter of the fingerprints, those that wait too, and behind it the slots: in one piece, which is worth
    /// huge pages earlier. The filter has a word for eight slots, two bits in it for each.
    memory: Vec<u64>,
    /// Words of the filter.
    words: usize,
    /// Entries, those that wait too.
    used: usize,
    /// How many it may have.
    most: usize,
}

/// The hash of a key, for the calls of one [`KeySet`].
#[derive(Clone, Copy)]
pub(super) struct KeyHash(u32);

impl KeySet {
    pub(super) fn new() -> KeySet {
        let random = RandomState::new();
        let seed = SharedSeed::global_random();
        KeySet {
            shards: vec![Shard::default()],
            hasher: SeedableRandomState::with_seed(random.hash_one(0), seed),
            waiting: [0; WAITING],
            oldest: 0,
        }
    }

    #[inline]
    pub(super) fn hash(&self, key: &str) -> KeyHash {
        KeyHash((self.hasher.hash_one(key) >> 32) as u32)
    }

    #[inline]
    pub(super) fn ask(&self, KeyHash(fingerprint): KeyHash) {
        let shard = &self.shards[self.shard(fingerprint)];
        let (word, _) = shard.bits(fingerprint);
        if let Some(w) = shard.memory.get(word..) {
            prefetch(w);
        }
    }

    /// Asks the processor for what [`may_have`](Self::may_have) looks at.
    #[inline]
    pub(super) fn prepare(&self, KeyHash(fingerprint): KeyHash) {
        let shard = &self.shards[self.shard(fingerprint)];
        prefetch(shard.memory.get(shard.bits(fingerprint).0..).unwrap_or_default());
    }

    /// `false` if the key is not there: nearly always, if it is not.
    #[inline]
    pub(super) fn may_have(&self, KeyHash(fingerprint): KeyHash) -> bool {
        self.shards[self.shard(fingerprint)].may_have(fingerprint)
    }

    /// Which shard has a fingerprint: its last bits say it, where a shard goes by the first ones.
    #[inline]
    fn shard(&self, fingerprint: u32) -> usize {
        // A power of two.
        fingerprint as usize & (self.shards.len() - 1)
    }

    /// Whether `same` says yes to an index that may have this key. Asked for the right index if
    /// the key is there, and for another one about once in ten million.
    #[inline]
    pub(super) fn find<E>(
        &self,
        hash: KeyHash,
        same: impl FnMut(u32) -> Result<bool, E>,
    ) -> Result<Option<u32>, E> {
        if self.may_have(hash) { self.find_seen(hash.0, same) } else { Ok(None) }
    }

    #[inline(never)]
    fn find_seen<E>(
        &self,
        wanted: u32,
        mut same: impl FnMut(u32) -> Result<bool, E>,
    ) -> Result<Option<u32>, E> {
        let slots = self.shards[self.shard(wanted)].run(wanted);
        for entry in self.waiting.iter().copied().chain(slots) {
            if entry == 0 || fingerprint(entry) != wanted {
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
    pub(super) fn insert(&mut self, KeyHash(fingerprint): KeyHash, index: u32) {
        let mut at = self.shard(fingerprint);
        if self.shards[at].used == self.shards[at].most {
            self.grow(at);
            at = self.shard(fingerprint);
        }
        let shard = &mut self.shards[at];
        shard.used += 1;
        shard.see(fingerprint);
        prefetch(&shard.memory[shard.home(fingerprint)..]);
        self.wait(u64::from(fingerprint) << 32 | (u64::from(index) + 1));
    }

    /// Has an entry wait, and places the one that has waited longest.
    #[inline]
    fn wait(&mut self, entry: u64) {
        let entry = std::mem::replace(&mut self.waiting[self.oldest], entry);
        if entry != 0 {
            let shard = self.shard(fingerprint(entry));
            self.shards[shard].place(entry);
        }
        self.oldest = (self.oldest + 1) % WAITING;
    }

    #[cold]
    fn grow(&mut self, at: usize) {
        for _ in 0..WAITING {
            self.wait(0);
        }
        let slots = self.shards[at].slots().len();
        if self.shards.len() > 1 {
            self.shards[at].grow(slots + slots / 2);
        } else if let Some(size) = SIZES.iter().find(|size| **size > slots) {
            self.shards[0].grow(*size);
        } else {
            self.divide();
        }
    }

    /// Makes shards of the one table, one by one.
    fn divide(&mut self) {
        let all = std::mem::take(&mut self.shards);
        let entries = || all.iter().flat_map(Shard::entries);
        let mut sizes = [0; SHARDS];
        entries().for_each(|entry| sizes[fingerprint(entry) as usize % SHARDS] += 1);
        self.shards = sizes.iter().map(|used| Shard::new(used + used / 2)).collect();
        for entry in entries() {
            self.shards[fingerprint(entry) as usize % SHARDS].add(entry);
        }
    }
}

fn fingerprint(entry: u64) -> u32 {
    (entry >> 32) as u32
}

impl Shard {
    fn new(slots: usize) -> Shard {
        let slots = slots.max(16);
        let words = slots.div_ceil(8);
        let mut memory = vec![0; words + slots];
        prefer_huge_pages(&mut memory);
        Shard { memory, words, used: 0, most: slots / 8 * 7 }
    }

    fn slots(&self) -> &[u64] {
        &self.memory[self.words..]
    }

    fn entries(&self) -> impl Iterator<Item = u64> {
        self.slots().iter().copied().filter(|entry| *entry != 0)
    }

    /// The place in memory where a fingerprint belongs.
    #[inline]
    fn home(&self, fingerprint: u32) -> usize {
        let slots = (self.memory.len() - self.words) as u64;
        self.words + ((u64::from(fingerprint) * slots) >> 32) as usize
    }

    #[inline]
    fn after(&self, at: usize) -> usize {
        if at + 1 == self.memory.len() { self.words } else { at + 1 }
    }

    /// Where a fingerprint is in the filter: the word and its bits.
    #[inline]
    fn bits(&self, fingerprint: u32) -> (usize, u64) {
        let word = (u64::from(fingerprint) * self.words as u64) >> 32;
        // The word is of the first bits, and the last eight are the same in all of a shard.
        (word as usize, 1 << (fingerprint >> 8 & 63) | 1 << (fingerprint >> 14 & 63))
    }

    /// `false` if nothing with this fingerprint was added.
    #[inline]
    fn may_have(&self, fingerprint: u32) -> bool {
        let (word, bits) = self.bits(fingerprint);
        self.memory.get(word).is_some_and(|seen| seen & bits == bits)
    }

    #[inline]
    fn see(&mut self, fingerprint: u32) {
        let (word, bits) = self.bits(fingerprint);
        self.memory[word] |= bits;
    }

    /// The entries from the home of a fingerprint to the next empty slot.
    fn run(&self, fingerprint: u32) -> impl Iterator<Item = u64> {
        let (before, from) = self.slots().split_at(self.home(fingerprint) - self.words);
        from.iter().chain(before).copied().take_while(|entry| *entry != 0)
    }

    #[inline]
    fn place(&mut self, entry: u64) {
        let mut at = self.home(fingerprint(entry));
        while self.memory[at] != 0 {
            at = self.after(at);
        }
        self.memory[at] = entry;
    }

    /// Places an entry that was not counted yet.
    fn add(&mut self, entry: u64) {
        self.used += 1;
        self.see(fingerprint(entry));
        self.place(entry);
    }

    fn grow(&mut self, slots: usize) {
        let old = std::mem::replace(self, Shard::new(slots));
        old.entries().for_each(|entry| self.add(entry));
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
        let hash = KeyHash(u32::MAX);
        for i in 0..100 {
            set.insert(hash, i);
        }
        for wanted in 0..100 {
            assert_eq!(set.find(hash, |i| Ok::<_, Infallible>(i == wanted)).unwrap(), Some(wanted));
        }
        assert_eq!(set.find(hash, |_| Ok::<_, Infallible>(false)).unwrap(), None);
    }

    /// Bytes of memory.
    fn bytes(set: &KeySet) -> usize {
        set.shards.iter().map(|shard| shard.memory.capacity() * 8).sum()
    }

    #[test]
    #[cfg_attr(miri, ignore = "takes minutes there")]
    fn a_key_takes_about_twelve_bytes() {
        let mut set = KeySet::new();
        let mut most = 0;
        for i in 0..3_000_000 {
            set.insert(set.hash(&i.to_string()), i);
            if i % 100_000 == 0 {
                let bytes = bytes(&set);
                assert!(bytes <= 16 << 20 || bytes <= 15 * i as usize, "{bytes}, {i}");
                most = most.max(bytes);
            }
        }
        assert!((10..=15).contains(&(bytes(&set) / 3_000_000)), "{most}");
        // The same before they were divided and after it.
        for i in (0..3_000_000).step_by(997) {
            let same = |found: u32| Ok::<_, Infallible>(found == i);
            assert_eq!(set.find(set.hash(&i.to_string()), same).unwrap(), Some(i));
            assert_eq!(set.find(set.hash(&format!("not {i}")), same).unwrap(), None);
        }
    }
}
