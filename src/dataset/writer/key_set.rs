//! Which keys were written already, in about twelve bytes a key, or 16 MB where that is more.
//!
//! Not the keys are kept but 40 bits of a hash of each and the index of its sample; the caller
//! confirms a candidate against the real key, which is on disk. The hash is seeded at random, so
//! no one can prepare keys that collide.
//!
//! `hashbrown` would take 13 bytes a slot and doubles at seven eighths: 15 to 30 bytes a key, and
//! half as much again while it grows. Here more than a million keys are in 256 shards that grow one by one, each by a
//! half; which shard it is says 8 of the 40 bits. Fewer keys are in one table, which grows in large steps: moving keys
//! at each growth took as long as placing them once. Entries say themselves where they belong.
//!
//! Large tables are in no cache, and waiting for their memory would take as long as all else that
//! is done for a small sample. A Bloom filter of eight bits a slot says of nearly every new key that it is new, and the
//! key is stored some samples later, when its slot is at hand.

use std::hash::{BuildHasher, RandomState};

use foldhash::SharedSeed;
use foldhash::quality::SeedableRandomState;

use crate::storage::{prefer_huge_pages, prefetch};

/// Slots of the one table of few keys, one size after the other. Behind the last come the shards.
const SIZES: [usize; 6] = [16, 1 << 10, 1 << 14, 1 << 17, 1 << 19, 3 << 19];
const SHARDS: usize = 256;
/// Bits of an index in an entry, while there is one table and afterwards: the others are of the hash.
const INDEX_OF_FEW: u32 = 24;
const INDEX_OF_MANY: u32 = 32;
/// How many keys wait for their slots.
const WAITING: usize = 8;

pub(super) struct KeySet {
    /// One, or all.
    shards: Vec<Shard>,
    /// Bits of an index in their entries.
    index: u32,
    hasher: SeedableRandomState,
    /// Keys whose slots the processor was asked for, in a ring: the shard, and the entry.
    waiting: [(usize, u64); WAITING],
    /// The one that waits longest.
    oldest: usize,
}

/// An open-addressed table. An entry is the first bits of a hash and, below them, index + 1; 0 is empty.
#[derive(Default)]
struct Shard {
    /// A Bloom filter of the hashes, those that wait too, and behind it the slots: in one piece, which is worth
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
pub(super) struct KeyHash(u64);

impl KeySet {
    pub(super) fn new() -> KeySet {
        let random = RandomState::new();
        let seed = SharedSeed::global_random();
        KeySet {
            shards: vec![Shard::default()],
            index: INDEX_OF_FEW,
            hasher: SeedableRandomState::with_seed(random.hash_one(0), seed),
            waiting: [(0, 0); WAITING],
            oldest: 0,
        }
    }

    #[inline]
    pub(super) fn hash(&self, key: &[u8]) -> KeyHash {
        KeyHash(self.hasher.hash_one(key))
    }

    /// The shard of a hash, and the bits of the hash that the shard uses; the first 32 of them give
    /// the place.
    #[inline]
    fn shard(&self, KeyHash(hash): KeyHash) -> (usize, u64) {
        match self.index {
            INDEX_OF_FEW => (0, hash),
            _ => ((hash >> 56) as usize, hash << 8),
        }
    }

    /// Hashes a key, and asks the processor for the memory that [`may_have`](Self::may_have) looks at.
    #[inline]
    pub(super) fn prepare(&self, key: &[u8]) -> KeyHash {
        let hash = self.hash(key);
        let (shard, own) = self.shard(hash);
        let shard = &self.shards[shard];
        prefetch(shard.memory.get(shard.bits(own).0..).unwrap_or_default());
        hash
    }

    /// `false` if the key is not there: nearly always, if it is not.
    #[inline]
    pub(super) fn may_have(&self, hash: KeyHash) -> bool {
        let (shard, hash) = self.shard(hash);
        self.shards[shard].may_have(hash)
    }

    /// Whether `same` says yes to an index that may have this key. Asked for the right index if
    /// the key is there, and for another one about once in a million million pairs of keys.
    #[inline]
    pub(super) fn find<E>(
        &self,
        hash: KeyHash,
        same: impl FnMut(u32) -> Result<bool, E>,
    ) -> Result<Option<u32>, E> {
        if self.may_have(hash) { self.find_seen(hash, same) } else { Ok(None) }
    }

    #[inline(never)]
    fn find_seen<E>(
        &self,
        hash: KeyHash,
        mut same: impl FnMut(u32) -> Result<bool, E>,
    ) -> Result<Option<u32>, E> {
        let (shard, hash) = self.shard(hash);
        let waiting = self.waiting.iter().filter(|(of, _)| *of == shard);
        for entry in waiting.map(|(_, entry)| *entry).chain(self.shards[shard].run(hash)) {
            if entry == 0 || (entry ^ hash) >> self.index != 0 {
                continue;
            }
            let index = (entry & ((1 << self.index) - 1)) as u32 - 1;
            if same(index)? {
                return Ok(Some(index));
            }
        }
        Ok(None)
    }

    /// Adds a key; the index is below `u32::MAX`.
    #[inline]
    pub(super) fn insert(&mut self, key: KeyHash, index: u32) {
        let (mut at, mut hash) = self.shard(key);
        if self.shards[at].used >= self.shards[at].most || u64::from(index) + 1 >= 1 << self.index {
            self.grow(at, index);
            (at, hash) = self.shard(key);
        }
        let shard = &mut self.shards[at];
        shard.used += 1;
        shard.see(hash);
        prefetch(&shard.memory[shard.home(hash)..]);
        let entry = hash >> self.index << self.index | (u64::from(index) + 1);
        self.wait((at, entry));
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

    /// Makes room in a shard, and for this index in its entries.
    #[cold]
    #[inline(never)]
    fn grow(&mut self, at: usize, index: u32) {
        for _ in 0..WAITING {
            self.wait((0, 0));
        }
        let slots = self.shards[at].slots().len();
        if self.index == INDEX_OF_MANY {
            return self.shards[at].grow(slots + slots / 2);
        }
        let fits = u64::from(index) + 1 < 1 << INDEX_OF_FEW;
        match SIZES.iter().find(|size| fits && **size > slots) {
            Some(size) => self.shards[0].grow(*size),
            None => self.divide(),
        }
    }

    /// Makes shards of the one table.
    fn divide(&mut self) {
        let all = std::mem::take(&mut self.shards);
        let entries = || all.iter().flat_map(Shard::entries);
        let shard_of = |entry: u64| (entry >> 56) as usize;
        let mut sizes = [0; SHARDS];
        entries().for_each(|entry| sizes[shard_of(entry)] += 1);
        self.shards = sizes.iter().map(|used| Shard::new(used + used / 2)).collect();
        self.index = INDEX_OF_MANY;
        for entry in entries() {
            let index = entry & ((1 << INDEX_OF_FEW) - 1);
            let hash = entry << 8 >> INDEX_OF_MANY << INDEX_OF_MANY;
            self.shards[shard_of(entry)].add(hash | index);
        }
    }
}

impl Shard {
    fn new(slots: usize) -> Shard {
        let slots = slots.max(SIZES[0]);
        let words = slots.div_ceil(8);
        let mut memory = vec![0; words + slots];
        prefer_huge_pages(&mut memory);
        Shard { memory, words, used: 0, most: slots - words }
    }

    fn slots(&self) -> &[u64] {
        &self.memory[self.words..]
    }

    fn entries(&self) -> impl Iterator<Item = u64> {
        self.slots().iter().copied().filter(|entry| *entry != 0)
    }

    /// The place in memory where a hash belongs, or an entry.
    #[inline]
    fn home(&self, hash: u64) -> usize {
        let slots = (self.memory.len() - self.words) as u64;
        self.words + (((hash >> 32) * slots) >> 32) as usize
    }

    #[inline]
    fn after(&self, at: usize) -> usize {
        if at + 1 == self.memory.len() { self.words } else { at + 1 }
    }

    /// Where a hash is in the filter: the word and its bits.
    #[inline]
    fn bits(&self, hash: u64) -> (usize, u64) {
        let first = hash >> 32;
        let word = (first * self.words as u64) >> 32;
        // The word is of the high bits.
        (word as usize, 1 << (first & 63) | 1 << (first >> 6 & 63))
    }

    /// `false` if nothing with this hash was added.
    #[inline]
    fn may_have(&self, hash: u64) -> bool {
        let (word, bits) = self.bits(hash);
        self.memory.get(word).is_some_and(|seen| seen & bits == bits)
    }

    #[inline]
    fn see(&mut self, hash: u64) {
        let (word, bits) = self.bits(hash);
        self.memory[word] |= bits;
    }

    /// The entries from the home of a hash to the next empty slot.
    fn run(&self, hash: u64) -> impl Iterator<Item = u64> {
        let (before, from) = self.slots().split_at(self.home(hash) - self.words);
        from.iter().chain(before).copied().take_while(|entry| *entry != 0)
    }

    #[inline]
    fn place(&mut self, entry: u64) {
        let mut at = self.home(entry);
        while self.memory[at] != 0 {
            at = self.after(at);
        }
        self.memory[at] = entry;
    }

    /// Places an entry that was not counted yet.
    fn add(&mut self, entry: u64) {
        self.used += 1;
        self.see(entry);
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
            set.find(set.hash(key.as_bytes()), same).unwrap()
        };
        for (i, key) in keys.iter().enumerate() {
            assert_eq!(find(&set, key), None);
            set.insert(set.hash(key.as_bytes()), i as u32);
            // Keys that still wait are found too.
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
            set.insert(set.hash(i.to_string().as_bytes()), i);
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
            assert_eq!(set.find(set.hash(i.to_string().as_bytes()), same).unwrap(), Some(i));
            assert_eq!(set.find(set.hash(format!("not {i}").as_bytes()), same).unwrap(), None);
        }
    }

    #[test]
    fn an_index_of_many_bits_has_room() {
        // As after an append: the first keys have large indices.
        let mut set = KeySet::new();
        let indices = [5, (1 << INDEX_OF_FEW) - 2, (1 << INDEX_OF_FEW) - 1, u32::MAX - 1];
        for index in indices {
            set.insert(set.hash(index.to_string().as_bytes()), index);
        }
        for index in indices {
            let same = |found: u32| Ok::<_, Infallible>(found == index);
            assert_eq!(
                set.find(set.hash(index.to_string().as_bytes()), same).unwrap(),
                Some(index)
            );
        }
    }
}
