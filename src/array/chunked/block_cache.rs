//! Recently decompressed blocks, for programs that read an array row by row and come to each block
//! many times.
//!
//! Not here: whole blocks that a selection covers, which are decompressed to their destination.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use foldhash::fast::RandomState;

/// A file as it was opened, a slot in it, and a block of the chunk there.
pub(crate) type Key = (u64, u32, u32);

/// The overhead of a block in memory.
const OVERHEAD: usize = 64;

/// Decompressed blocks, of at most about this many bytes.
pub(crate) struct BlockCache {
    blocks: Mutex<Recent<Arc<Vec<u8>>>>,
    /// Blocks that were asked for once, the last of them.
    asked: Mutex<Recent<()>>,
    half: usize,
}

/// How many blocks that were asked for once are remembered, at least.
const ASKED: usize = 4096;

type Values<V> = HashMap<Key, V, RandomState>;

/// The values used last, in two halves. When one is full, the other, which was not used since, is
/// dropped.
struct Recent<V> {
    young: Values<V>,
    old: Values<V>,
    /// The weight of the young half, and its limit.
    weight: usize,
    half: usize,
    weigh: fn(&V) -> usize,
}

impl BlockCache {
    pub(crate) fn new(bytes: usize) -> BlockCache {
        let half = bytes / 2;
        let blocks = Mutex::new(Recent::new(half, |block: &Arc<Vec<u8>>| block.len() + OVERHEAD));
        BlockCache { blocks, asked: Mutex::new(Recent::new(ASKED, |()| 1)), half }
    }

    /// Whether a block of this size would be kept.
    pub(crate) fn keeps(&self, len: usize) -> bool {
        len.saturating_add(OVERHEAD) <= self.half
    }

    /// Whether this block was asked for before, not too long ago.
    pub(crate) fn is_asked_again(&self, key: &Key) -> bool {
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        let again = asked.contains(key);
        if !again {
            asked.put(*key, ());
        }
        again
    }

    /// Whether a block is there.
    pub(crate) fn contains(&self, key: &Key) -> bool {
        self.blocks.lock().unwrap_or_else(PoisonError::into_inner).contains(key)
    }

    /// A block, if it is still there.
    pub(crate) fn get(&self, key: &Key) -> Option<Arc<Vec<u8>>> {
        let mut blocks = self.blocks.lock().unwrap_or_else(PoisonError::into_inner);
        let (found, gone) = blocks.get(key)?;
        drop(blocks);
        drop(gone);
        Some(found)
    }

    /// Keeps a block.
    pub(crate) fn put(&self, key: Key, block: Arc<Vec<u8>>) {
        if self.keeps(block.len()) {
            let mut blocks = self.blocks.lock().unwrap_or_else(PoisonError::into_inner);
            let gone = blocks.put(key, block);
            drop(blocks);
            // Freeing many blocks takes a while; others need not wait for it.
            drop(gone);
        }
    }
}

impl<V: Clone> Recent<V> {
    fn new(half: usize, weigh: fn(&V) -> usize) -> Recent<V> {
        Recent { young: Values::default(), old: Values::default(), weight: 0, half, weigh }
    }

    fn contains(&self, key: &Key) -> bool {
        self.young.contains_key(key) || self.old.contains_key(key)
    }

    /// A value, which is used by this, and the values to drop.
    fn get(&mut self, key: &Key) -> Option<(V, Values<V>)> {
        if let Some(found) = self.young.get(key) {
            return Some((found.clone(), Values::default()));
        }
        let found = self.old.remove(key)?;
        let gone = self.put(*key, found.clone());
        Some((found, gone))
    }

    /// Adds a value to the young ones; returns the values to drop.
    fn put(&mut self, key: Key, value: V) -> Values<V> {
        let weight = (self.weigh)(&value);
        let mut gone = Values::default();
        if self.weight + weight > self.half {
            gone = std::mem::replace(&mut self.old, std::mem::take(&mut self.young));
            self.weight = 0;
        }
        self.weight += weight;
        self.young.insert(key, value);
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
            let blocks = cache.blocks.lock().unwrap();
            assert!(blocks.young.len() <= 10 && blocks.old.len() <= 10);
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
