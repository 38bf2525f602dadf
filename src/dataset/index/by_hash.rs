//! Samples in the order of their hashes: the order of `.lookup`, and of the table in memory.
//!
//! Hashes are spread evenly, so their first bits say nearly where they belong: each thread puts those of its
//! range into buckets that fit into the first level of the cache, and sorts these. Hashes that someone has made
//! uneven take longer, and up to 16 bytes each.
//!
//! Threads are started for the one purpose and end with it: a pool would not survive a fork.

use std::thread;

use crate::error::Result;
use crate::format::dataset::key_hashes;

/// Entries sorted at a time, which bounds the memory: an eighth of all, but at least and at most these.
const PASS: (usize, usize) = (1 << 20, 1 << 24);
/// Entries of a bucket.
const BUCKET: usize = 512;
/// The most buckets of a thread: more would not fit into the first level of the cache.
const BUCKETS: usize = 4096;

/// Hashes as they are in `.key_hashes`, in parts, each with the index of its first: for what reads them twice.
pub(crate) type EachPart<'a> = dyn FnMut(usize, &[u8]) + 'a;

/// Calls `each` with all hashes and the indices of their samples, in ascending order and part by part. `scan` goes
/// over them in the order of the samples.
pub(crate) fn by_hash(
    len: usize,
    scan: impl Fn(&mut EachPart<'_>) -> Result<()> + Sync,
    mut each: impl FnMut(&[(u64, u32)]) -> Result<()>,
) -> Result<()> {
    let threads = thread::available_parallelism().map_or(1, usize::from).min(len / 4096 + 1);
    let passes = len.div_ceil((len / 8).clamp(PASS.0, PASS.1)).max(1);
    let parts = threads * passes;
    for pass in 0..passes {
        let sorted: Vec<Result<Vec<(u64, u32)>>> = thread::scope(|scope| {
            let start = |worker| {
                let scan = &scan;
                scope.spawn(move || sorted_part(len, scan, pass * threads + worker, parts))
            };
            let workers: Vec<_> = (0..threads).map(start).collect();
            let join = |worker: thread::ScopedJoinHandle<'_, _>| {
                worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            };
            workers.into_iter().map(join).collect()
        });
        for part in sorted {
            each(&part?)?;
        }
    }
    Ok(())
}

/// The hashes of one of `parts` equal ranges of values, sorted, with their indices.
fn sorted_part(
    len: usize,
    scan: impl Fn(&mut EachPart<'_>) -> Result<()>,
    part: usize,
    parts: usize,
) -> Result<Vec<(u64, u32)>> {
    let buckets = (len / parts / BUCKET).clamp(1, BUCKETS);
    let (all, first) = ((parts * buckets) as u128, part * buckets);
    // That of a hash; the last one stands for those of other parts. Which are ours cannot be predicted, and a
    // wrong guess costs more than a store, so they are counted and stored like the others.
    let bucket = |hash: u64| {
        let bucket = (u128::from(hash) * all) >> 64;
        (bucket as usize).wrapping_sub(first).min(buckets)
    };
    let mut next = vec![0; buckets + 1];
    scan(&mut |_, bytes| key_hashes::entries(bytes).for_each(|hash| next[bucket(hash)] += 1))?;
    let mut count = 0;
    for place in &mut next[..buckets] {
        (*place, count) = (count, count + *place);
    }
    next[buckets] = count;
    let starts = next.clone();

    let mut entries = vec![(0, 0); count + 1];
    scan(&mut |first, bytes| {
        for (index, hash) in (first as u32..).zip(key_hashes::entries(bytes)) {
            let bucket = bucket(hash);
            // Both hold unless the file changes meanwhile.
            if let Some(entry) = entries.get_mut(next[bucket]) {
                *entry = (hash, index);
            }
            next[bucket] += usize::from(bucket < buckets);
        }
    })?;
    entries.truncate(count);
    for range in starts.windows(2) {
        entries[range[0]..range[1]].sort_unstable();
    }
    Ok(entries)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::dataset::golden;

    fn sorted(hashes: &[u64]) -> Vec<(u64, u32)> {
        let bytes: Vec<u8> = hashes.iter().flat_map(|hash| hash.to_be_bytes()).collect();
        let scan = |part: &mut EachPart<'_>| {
            for (i, bytes) in bytes.chunks(8 * 1000).enumerate() {
                part(i * 1000, bytes);
            }
            Ok(())
        };
        let mut all = Vec::new();
        by_hash(hashes.len(), scan, |part| {
            all.extend_from_slice(part);
            Ok(())
        })
        .unwrap();
        all
    }

    #[test]
    fn sorts_as_the_standard_library_does() {
        let mut next = golden::random(8);
        let sizes = if cfg!(miri) { [0, 1, 2, 100, 600] } else { [0, 1, 2, 5000, 40_000] };
        for n in sizes {
            let even: Vec<u64> = (0..n).map(|_| next()).collect();
            let few: Vec<u64> = (0..n).map(|_| (next() % 7) << 61).collect();
            let near: Vec<u64> = (0..n).map(|_| u64::MAX - next() % 9).collect();
            let ends: Vec<u64> = (0..n).map(|i| if i % 2 == 0 { 0 } else { u64::MAX }).collect();
            for hashes in [even, few, near, ends] {
                let mut expected: Vec<_> = hashes.iter().copied().zip(0..).collect();
                expected.sort_unstable();
                assert!(sorted(&hashes) == expected, "{n}");
            }
        }
    }

    #[test]
    fn parts_join_to_the_whole() {
        let mut next = golden::random(9);
        let hashes: Vec<u64> = (0..3000).map(|_| next()).collect();
        let bytes: Vec<u8> = hashes.iter().flat_map(|hash| hash.to_be_bytes()).collect();
        let scan = |part: &mut EachPart<'_>| {
            part(0, &bytes);
            Ok(())
        };
        let mut expected: Vec<_> = hashes.iter().copied().zip(0..).collect();
        expected.sort_unstable();
        for parts in [1, 2, 3, 7, 16] {
            let all: Vec<_> =
                (0..parts).flat_map(|part| sorted_part(3000, scan, part, parts).unwrap()).collect();
            assert!(all == expected, "{parts} parts");
        }
    }

    #[test]
    fn hashes_that_change_meanwhile_do_no_harm() {
        let calls = std::cell::Cell::new(0);
        let scan = |part: &mut EachPart<'_>| {
            calls.set(calls.get() + 1);
            let hash = if calls.get() == 1 { 5_u64 } else { u64::MAX };
            part(0, &[hash; 100].map(u64::to_be_bytes).concat());
            Ok(())
        };
        assert_eq!(sorted_part(100, scan, 0, 1).unwrap().len(), 100);
    }
}
