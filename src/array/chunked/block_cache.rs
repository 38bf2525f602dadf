//! Recently decompressed blocks, for programs that read an array row by row and come to each block
//! many times.
//!
//! Not here: whole blocks that a selection covers, which are decompressed to their destination.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use foldhash::fast::RandomState;

/// A file as it was opened, a slot in it, and a block of the chunk there.
pub(crate) type Key = (u64, u32, u32);

/// The overhead of a block in memory.
const OVERHEAD: usize = 64;

/// Decompressed blocks, of at most about this many bytes.
///
/// When one half is full, the other, which was not used since, is dropped.
pub(crate) struct BlockCache {
    half: usize,
    halves: Mutex<Halves>,
    asked: Mutex<Asked>,
}

/// Blocks that were asked for once, the last of them.
#[derive(Default)]
struct Asked {
    young: HashSet<Key, RandomState>,
    old: HashSet<Key, RandomState>,
}

/// How many blocks that were asked for once are remembered, at least.
const ASKED: usize = 4096;

type Blocks = HashMap<Key, Arc<Vec<u8>>, RandomState>;

#[derive(Default)]
struct Halves {
    young: Blocks,
    old: Blocks,
    /// Bytes of the young ones.
    bytes: usize,
}

impl BlockCache {
    pub(crate) fn new(bytes: usize) -> BlockCache {
        BlockCache { half: bytes / 2, halves: Mutex::default(), asked: Mutex::default() }
    }

    /// Whether a block of this size would be kept.
    pub(crate) fn keeps(&self, len: usize) -> bool {
        len.saturating_add(OVERHEAD) <= self.half
    }

    /// Whether this block was asked for before, not too long ago.
    pub(crate) fn is_asked_again(&self, key: &Key) -> bool {
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        if asked.young.contains(key) || asked.old.contains(key) {
            return true;
        }
        if asked.young.len() >= ASKED {
            asked.old = std::mem::take(&mut asked.young);
        }
        asked.young.insert(*key);
        false
    }

    /// Whether a block is there.
    pub(crate) fn contains(&self, key: &Key) -> bool {
        let halves = self.halves.lock().unwrap_or_else(PoisonError::into_inner);
        halves.young.contains_key(key) || halves.old.contains_key(key)
    }

    /// A block, if it is still there.
    pub(crate) fn get(&self, key: &Key) -> Option<Arc<Vec<u8>>> {
        let mut halves = self.halves.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = halves.young.get(key) {
            return Some(found.clone());
        }
        let found = halves.old.remove(key)?;
        let gone = halves.put(*key, found.clone(), self.half);
        drop(halves);
        drop(gone);
        Some(found)
    }

    /// Keeps a block.
    pub(crate) fn put(&self, key: Key, block: Arc<Vec<u8>>) {
        if self.keeps(block.len()) {
            let mut halves = self.halves.lock().unwrap_or_else(PoisonError::into_inner);
            let gone = halves.put(key, block, self.half);
            drop(halves);
            // Freeing many blocks takes a while; others need not wait for it.
            drop(gone);
        }
    }
}

impl Halves {
    /// Adds a block to the young ones; returns the blocks to drop.
    fn put(&mut self, key: Key, block: Arc<Vec<u8>>, most: usize) -> Blocks {
        let len = block.len() + OVERHEAD;
        let mut gone = Blocks::default();
        if self.bytes + len > most {
            gone = std::mem::replace(&mut self.old, std::mem::take(&mut self.young));
            self.bytes = 0;
        }
        self.bytes += len;
        self.young.insert(key, block);
        gone
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(len: usize) -> Arc<Vec<u8>> {
        Arc::new(vec![1; len])
    }

    #[test]
    fn what_is_asked_for_stays_and_the_rest_goes() {
        let cache = BlockCache::new(2 * 10 * (100 + OVERHEAD));
        cache.put((0, 0, 0), block(100));
        for slot in 1..1000 {
            cache.put((1, slot, 0), block(100));
            assert_eq!(cache.get(&(0, 0, 0)), Some(block(100)), "{slot}");
            let halves = cache.halves.lock().unwrap();
            assert!(halves.young.len() <= 10 && halves.old.len() <= 10);
        }
        assert_eq!(cache.get(&(1, 999, 0)), Some(block(100)));
        assert_eq!(cache.get(&(1, 500, 0)), None);
    }

    #[test]
    fn the_last_blocks_that_were_asked_for_are_remembered() {
        let cache = BlockCache::new(1 << 20);
        assert!(!cache.is_asked_again(&(0, 0, 0)) && cache.is_asked_again(&(0, 0, 0)));
        for slot in 0..3 * ASKED as u32 {
            assert!(!cache.is_asked_again(&(1, slot, 0)));
            assert!(cache.is_asked_again(&(1, slot.saturating_sub(ASKED as u32 / 2), 0)));
        }
        assert!(!cache.is_asked_again(&(0, 0, 0)), "it was long ago");
        let asked = cache.asked.lock().unwrap();
        assert!(asked.young.len() + asked.old.len() <= 2 * ASKED);
    }

    #[test]
    fn what_is_too_large_is_not_kept() {
        for cache in [BlockCache::new(0), BlockCache::new(200)] {
            cache.put((0, 0, 0), block(100));
            assert_eq!(cache.get(&(0, 0, 0)), None);
        }
    }
}
