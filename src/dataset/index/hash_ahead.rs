//! Keys that are hashed while samples are still written, so `finish` has little left to hash.
//!
//! How many bits the filter has depends on the number of keys, so the bits are set at the end; the slow part is
//! hashing.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};

use crate::format::dataset::key_hashes::Salt;
use crate::format::dataset::{filter, lookup};
use crate::storage::prefer_huge_pages;

use super::build::HashMany;

/// Keys that are hashed at a time, and bytes of keys.
const BATCH: (usize, usize) = (1 << 12, 1 << 18);
/// Batches that wait for the thread.
const QUEUE: usize = 16;
/// The most keys whose hashes are kept in memory, which takes 32 bytes each. The others are hashed at the end.
const MOST: usize = if cfg!(test) { 1 << 16 } else { 1 << 21 };

/// The hashes of the first keys of a dataset: under the first salt, for `.lookup`, and for the filter.
#[derive(Default)]
pub(crate) struct Hashed {
    pub(super) hashes: Vec<u64>,
    pub(super) places: Vec<u64>,
    pub(super) pairs: Vec<filter::Pair>,
}

/// Takes the keys of a dataset in their order. There is no thread before there are enough keys for it, and none
/// where it would have no core of its own.
pub(crate) struct Ahead {
    hash_many: HashMany,
    batch: Batch,
    taken: usize,
    state: State,
}

enum State {
    NotStarted,
    Running(SyncSender<Batch>, JoinHandle<Hashed>),
    /// It takes no more keys.
    Ended(Option<JoinHandle<Hashed>>),
}

#[derive(Default)]
struct Batch {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Ahead {
    pub(crate) fn new(hash_many: HashMany) -> Ahead {
        Ahead { hash_many, batch: Batch::default(), taken: 0, state: State::NotStarted }
    }

    #[inline]
    pub(crate) fn push(&mut self, key: &str) {
        if self.batch.ends.len() >= BATCH.0 || self.batch.bytes.len() >= BATCH.1 {
            self.hand_over();
        }
        if key.len() > BATCH.1 {
            // As many of them would wait in memory as there are batches.
            self.end();
        }
        if matches!(self.state, State::Ended(_)) {
            return;
        }
        self.batch.bytes.extend_from_slice(key.as_bytes());
        self.batch.ends.push(self.batch.bytes.len());
    }

    /// Takes back the key that was pushed last.
    pub(crate) fn take_back(&mut self) {
        // Nothing is there of a key that was not taken.
        self.batch.ends.pop();
        self.batch.bytes.truncate(self.batch.ends.last().copied().unwrap_or(0));
    }

    /// Gives the batch to the thread. If that fails, its keys are hashed at the end.
    #[inline(never)]
    fn hand_over(&mut self) {
        if matches!(self.state, State::NotStarted) {
            self.state = start(self.hash_many);
        }
        let State::Running(batches, _) = &self.state else { return self.end() };
        // The next one is about as large.
        let next = Batch {
            bytes: Vec::with_capacity(self.batch.bytes.len() + 1024),
            ends: Vec::with_capacity(BATCH.0),
        };
        let batch = std::mem::replace(&mut self.batch, next);
        self.taken += batch.ends.len();
        let is_passed = batches.send(batch).is_ok();
        if !is_passed || self.taken >= MOST {
            self.end();
        }
    }

    fn end(&mut self) {
        self.batch = Batch::default();
        self.state = match std::mem::replace(&mut self.state, State::Ended(None)) {
            State::Running(_, thread) => State::Ended(Some(thread)),
            State::Ended(thread) => State::Ended(thread),
            State::NotStarted => State::Ended(None),
        };
    }

    /// The hashes of the first keys, or of none.
    pub(crate) fn finish(mut self) -> Hashed {
        if matches!(self.state, State::Running(..)) {
            self.hand_over();
            self.end();
        }
        match self.state {
            // A panic there would come again where the keys are hashed at the end.
            State::Ended(Some(thread)) => thread.join().unwrap_or_default(),
            _ => Hashed::default(),
        }
    }
}

fn start(hash_many: HashMany) -> State {
    if thread::available_parallelism().map_or(1, usize::from) < 2 {
        return State::Ended(None);
    }
    let (batches, work) = sync_channel(QUEUE);
    let thread = thread::Builder::new().name("kiste-keys".into());
    match thread.spawn(move || hash_all(&work, hash_many)) {
        Ok(thread) => State::Running(batches, thread),
        Err(_) => State::Ended(None),
    }
}

fn hash_all(batches: &Receiver<Batch>, hash_many: HashMany) -> Hashed {
    let salt = Salt::of_try(0);
    let Hashed { mut hashes, mut places, mut pairs } = Hashed::default();
    for batch in batches {
        let keys: Vec<&[u8]> = batch.keys().collect();
        let first = hashes.len();
        let all = first + keys.len();
        make_room(&mut hashes, all);
        make_room(&mut places, all);
        make_room(&mut pairs, all);
        hashes.resize(all, 0);
        pairs.resize(all, (0, 0));
        hash_many(&salt, &keys, &mut hashes[first..]);
        places.extend(keys.iter().map(|key| lookup::hash(key)));
        filter::pair_many(&keys, &mut pairs[first..]);
    }
    Hashed { hashes, places, pairs }
}

/// Makes room for this many, in huge pages where that is much: in small ones their first touch would take half as long
/// as hashing.
fn make_room<T>(memory: &mut Vec<T>, len: usize) {
    if len > memory.capacity() {
        let more = (4 * len).min(MOST.max(len)) - memory.len();
        memory.reserve_exact(more);
        prefer_huge_pages(memory.spare_capacity_mut());
    }
}

impl Batch {
    fn keys(&self) -> impl Iterator<Item = &[u8]> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, &end)| &self.bytes[start..end])
    }
}

#[cfg(test)]
mod tests {
    use super::super::hash_keys;
    use super::*;
    use crate::format::dataset::key_hashes;

    fn hashed(keys: &[String]) -> Hashed {
        let mut ahead = Ahead::new(hash_keys);
        keys.iter().for_each(|key| ahead.push(key));
        ahead.finish()
    }

    fn check(keys: &[String], hashed: &Hashed) {
        let Hashed { hashes, places, pairs } = hashed;
        assert_eq!((hashes.len(), hashes.len()), (places.len(), pairs.len()));
        let salt = Salt::of_try(0);
        for (i, (key, hash)) in keys.iter().zip(hashes).enumerate() {
            assert_eq!(*hash, key_hashes::hash(&salt, key.as_bytes()), "{key}");
            assert_eq!(places[i], lookup::hash(key.as_bytes()), "{key}");
            assert_eq!(pairs[i], filter::pair(key.as_bytes()), "{key}");
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "takes minutes there")]
    fn keys_are_hashed_in_their_order() {
        let parallel = thread::available_parallelism().map_or(1, usize::from) > 1;
        let more = BATCH.0 + 1;
        for (n, expected) in [(0, 0), (more - 1, 0), (more, more), (20_000, 20_000)] {
            let keys: Vec<String> = (0..n).map(|i| format!("{}", i * i)).collect();
            let hashed = hashed(&keys);
            assert_eq!(hashed.hashes.len(), if parallel { expected } else { 0 });
            check(&keys, &hashed);
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "takes minutes there")]
    fn keys_that_are_taken_back_are_not_hashed() {
        let keys: Vec<String> = (0..3 * BATCH.0).map(|i| format!("key {i}")).collect();
        let mut ahead = Ahead::new(hash_keys);
        for key in &keys {
            // Also where the batch is full, or empty again.
            ahead.push("not this one");
            ahead.take_back();
            ahead.push(key);
        }
        check(&keys, &ahead.finish());
    }

    #[test]
    #[cfg_attr(miri, ignore = "takes minutes there")]
    fn long_keys_make_small_batches() {
        let keys: Vec<String> = (0..9).map(|i| format!("{i}").repeat(BATCH.1 / 3)).collect();
        let mut ahead = Ahead::new(hash_keys);
        for key in &keys {
            ahead.push(key);
            assert!(ahead.batch.bytes.len() < BATCH.1 + key.len());
        }
        check(&keys, &ahead.finish());
    }

    #[test]
    #[cfg_attr(miri, ignore = "takes minutes there")]
    fn a_key_that_is_too_long_to_wait_is_the_last_one() {
        let parallel = thread::available_parallelism().map_or(1, usize::from) > 1;
        for before in [0, 5, BATCH.0 + 5] {
            let mut keys: Vec<String> = (0..before + 3 * BATCH.0).map(|i| format!("{i}")).collect();
            keys[before] = "l".repeat(BATCH.1 + 1);
            let mut ahead = Ahead::new(hash_keys);
            for key in &keys {
                ahead.push(key);
                assert!(ahead.batch.bytes.len() <= BATCH.1);
            }
            ahead.take_back();
            let hashed = ahead.finish();
            assert_eq!(hashed.hashes.len(), if parallel && before > BATCH.0 { BATCH.0 } else { 0 });
            check(&keys, &hashed);
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "takes minutes there")]
    fn there_is_an_end_to_what_is_kept() {
        fn none(_: &Salt, _: &[&[u8]], out: &mut [u64]) {
            out.fill(1);
        }
        let mut ahead = Ahead::new(none);
        for _ in 0..MOST + 3 * BATCH.0 {
            ahead.push("");
        }
        assert!(matches!(ahead.state, State::Ended(_)) && ahead.batch.bytes.capacity() == 0);
        let kept = ahead.finish().hashes.len();
        assert!(kept == MOST || kept == 0, "{kept}");
    }

    #[test]
    fn a_thread_that_dies_leaves_the_keys_to_the_end() {
        fn dies(_: &Salt, _: &[&[u8]], _: &mut [u64]) {
            std::panic::resume_unwind(Box::new(()));
        }
        let mut ahead = Ahead::new(dies);
        for i in 0..10 * BATCH.0 {
            ahead.push(if i % 2 == 0 { "a" } else { "b" });
        }
        assert!(ahead.finish().hashes.is_empty());
    }
}
