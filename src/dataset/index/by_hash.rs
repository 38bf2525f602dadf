//! Samples in the order of their hashes: the order of `.lookup`, and of the table in memory.
//!
//! Hashes are spread evenly, so their first bits nearly determine their positions. Each thread puts
//! the hashes of its part of the samples into buckets; then each takes some of the buckets, puts
//! their hashes where the next bits say, and mends the order where it is still wrong. All of that
//! takes twelve bytes for each hash. Hashes that someone has made uneven take longer, and up to 24
//! bytes.
//!
//! Threads are started for the one purpose and end with it: a pool would not survive a fork.

use std::ops::Range;
use std::thread;

use crate::error::Result;
use crate::storage::prefer_huge_pages;

/// Entries sorted at a time, which bounds the memory: an eighth of all, but at least and at most these.
const PASS: (usize, usize) = (1 << 20, 1 << 23);
/// Entries of a bucket.
const BUCKET: usize = 512;
/// The most buckets: the ends of more would not fit into the first level of the cache.
const BUCKETS: usize = 4096;
/// The most entries of a bucket that may be in one place, and still be put in order one by one.
const CROWD: u32 = 16;

/// Hashes in the order of the samples, in parts, each with the index of its first.
pub(crate) type EachPart<'a> = dyn FnMut(usize, &[u64]) + 'a;

/// A hash, its upper half first, and its sample: entries compare like numbers and have no padding.
type Entry = [u32; 3];

fn entry(hash: u64, index: u32) -> Entry {
    [(hash >> 32) as u32, hash as u32, index]
}

fn hash_of([high, low, _]: Entry) -> u64 {
    u64::from(high) << 32 | u64::from(low)
}

/// Calls `each` with all hashes and the indices of their samples, in ascending order. `scan` goes
/// over the hashes of some samples.
pub(crate) fn by_hash(
    len: usize,
    scan: impl Fn(Range<usize>, &mut EachPart<'_>) -> Result<()> + Sync,
    mut each: impl FnMut(u64, u32) -> Result<()>,
) -> Result<()> {
    let threads = thread::available_parallelism().map_or(1, usize::from).min(len / 4096 + 1);
    let passes = len.div_ceil((len / 8).clamp(PASS.0, PASS.1)).max(1);
    for pass in 0..passes {
        let buckets = Buckets::new(len, pass, passes);
        let mut parts =
            on_threads((0..threads).collect(), |n| buckets.gather(share(len, n, threads), &scan))?;
        buckets.sort(&mut parts, threads)?;
        for bucket in 0..buckets.count {
            for part in &parts {
                for &found @ [.., index] in part.bucket(bucket) {
                    each(hash_of(found), index)?;
                }
            }
        }
    }
    Ok(())
}

/// The share of one thread in `len` things.
fn share(len: usize, thread: usize, threads: usize) -> Range<usize> {
    let start = |thread| (len as u128 * thread as u128 / threads as u128) as usize;
    start(thread)..start(thread + 1)
}

/// Does each of these on a thread of its own.
fn on_threads<W: Send, T: Send>(
    works: Vec<W>,
    work: impl Fn(W) -> Result<T> + Sync,
) -> Result<Vec<T>> {
    if works.len() == 1 {
        return works.into_iter().map(work).collect();
    }
    thread::scope(|scope| {
        let work = &work;
        let workers: Vec<_> = works.into_iter().map(|one| scope.spawn(move || work(one))).collect();
        let join = |worker: thread::ScopedJoinHandle<'_, _>| {
            worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        workers.into_iter().map(join).collect()
    })
}

/// Equal ranges of values: the buckets of one pass.
struct Buckets {
    count: usize,
    /// Buckets of all passes.
    all: u128,
    /// The first of this pass.
    first: usize,
    /// How many bits after the bucket's own give the position within the bucket.
    bits: u32,
}

/// Hashes of some samples by their buckets.
struct Part {
    entries: Vec<Entry>,
    /// Where each bucket begins, and where the last one ends.
    starts: Vec<usize>,
}

impl Part {
    fn bucket(&self, bucket: usize) -> &[Entry] {
        &self.entries[self.starts[bucket]..self.starts[bucket + 1]]
    }
}

impl Buckets {
    fn new(len: usize, pass: usize, passes: usize) -> Buckets {
        let count = (len / passes / BUCKET).clamp(1, BUCKETS);
        let size = (len / passes / count).max(2).next_power_of_two();
        let all = (passes * count) as u128;
        Buckets { count, all, first: pass * count, bits: size.ilog2().min(12) }
    }

    /// The bucket of a hash; `count` stands for hashes of other passes. Which hashes are ours
    /// cannot be predicted, and a wrong guess costs more than a store, so the others are counted
    /// and stored as well.
    #[inline]
    fn of(&self, hash: u64) -> usize {
        let bucket = ((u128::from(hash) * self.all) >> 64) as usize;
        bucket.wrapping_sub(self.first).min(self.count)
    }

    /// Where in its bucket a hash belongs, of two to the power of `bits` places.
    #[inline]
    fn place(&self, hash: u64) -> usize {
        ((u128::from(hash) * self.all) as u64 >> (64 - self.bits)) as usize
    }

    fn gather(
        &self,
        samples: Range<usize>,
        scan: impl Fn(Range<usize>, &mut EachPart<'_>) -> Result<()>,
    ) -> Result<Part> {
        let mut next = vec![0; self.count + 1];
        scan(samples.clone(), &mut |_, hashes| {
            hashes.iter().for_each(|hash| next[self.of(*hash)] += 1);
        })?;
        let mut len = 0;
        for place in &mut next[..self.count] {
            (*place, len) = (len, len + *place);
        }
        next[self.count] = len;
        let starts = next.clone();

        // The last one takes the hashes of other passes.
        let mut entries = entries_of(len + 1);
        scan(samples, &mut |first, hashes| {
            for (index, hash) in (first as u32..).zip(hashes) {
                let bucket = self.of(*hash);
                // Both hold unless the file changes during the scan.
                if let Some(place) = entries.get_mut(next[bucket]) {
                    *place = entry(*hash, index);
                }
                next[bucket] += usize::from(bucket < self.count);
            }
        })?;
        entries.truncate(len);
        Ok(Part { entries, starts })
    }

    /// Puts the entries of each bucket in order, over all parts, where they are.
    fn sort(&self, parts: &mut [Part], threads: usize) -> Result<()> {
        let ranges = (0..threads).map(|thread| share(self.count, thread, threads));
        let mut works: Vec<_> = ranges.map(|buckets| (buckets, Vec::new())).collect();
        for Part { entries, starts } in parts {
            let mut left = &mut entries[..];
            for (buckets, pieces) in &mut works {
                let len = starts[buckets.end] - starts[buckets.start];
                let (now, later) = std::mem::take(&mut left).split_at_mut(len);
                pieces.push((now, &starts[buckets.start..=buckets.end]));
                left = later;
            }
        }
        on_threads(works, |(buckets, pieces)| {
            self.sort_some(buckets.len(), pieces);
            Ok(())
        })?;
        Ok(())
    }

    /// The same for as many buckets as all of these pieces have: their entries, and where each bucket starts and the
    /// last one ends.
    fn sort_some(&self, count: usize, mut pieces: Vec<(&mut [Entry], &[usize])>) {
        let (mut ends, mut sorted) = (vec![0_u32; 1 << self.bits], Vec::new());
        for bucket in 0..count {
            let within =
                |starts: &[usize]| starts[bucket] - starts[0]..starts[bucket + 1] - starts[0];
            let parts = pieces.iter().map(|(piece, starts)| &piece[within(starts)]);
            sorted.resize(parts.clone().map(<[Entry]>::len).sum(), [0; 3]);
            self.sort_one(parts, &mut sorted, &mut ends);
            let mut left = &sorted[..];
            for (piece, starts) in &mut pieces {
                let piece = &mut piece[within(starts)];
                let (now, later) = left.split_at(piece.len());
                piece.copy_from_slice(now);
                left = later;
            }
        }
    }

    /// The entries of one bucket, which are in several parts, in order; `ends` is memory for it.
    fn sort_one<'a>(
        &self,
        parts: impl Iterator<Item = &'a [Entry]> + Clone,
        sorted: &mut [Entry],
        ends: &mut [u32],
    ) {
        ends.fill(0);
        for &entry in parts.clone().flatten() {
            ends[self.place(hash_of(entry))] += 1;
        }
        let (mut end, mut largest) = (sorted.len() as u32, 0);
        for place in ends.iter_mut().rev() {
            largest = largest.max(*place);
            (*place, end) = (end, end - *place);
        }
        for &entry in parts.flatten() {
            let place = &mut ends[self.place(hash_of(entry))];
            *place -= 1;
            sorted[*place as usize] = entry;
        }
        match largest <= CROWD {
            true => insertion_sort(sorted),
            false => sorted.sort_unstable(),
        }
    }
}

/// Memory for this many, in huge pages where that is much.
fn entries_of(len: usize) -> Vec<Entry> {
    let mut entries = vec![[0; 3]; len];
    prefer_huge_pages(&mut entries);
    entries
}

/// For entries that are nearly in order.
fn insertion_sort(entries: &mut [Entry]) {
    for i in 1..entries.len() {
        let entry = entries[i];
        let mut at = i;
        while at > 0 && entries[at - 1] > entry {
            entries[at] = entries[at - 1];
            at -= 1;
        }
        entries[at] = entry;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::dataset::golden;

    /// Goes over these hashes in small parts.
    fn scan_of(hashes: &[u64]) -> impl Fn(Range<usize>, &mut EachPart<'_>) -> Result<()> + Sync {
        |range, part| {
            for (i, hashes) in hashes[range.clone()].chunks(1000).enumerate() {
                part(range.start + i * 1000, hashes);
            }
            Ok(())
        }
    }

    fn expected(hashes: &[u64]) -> Vec<(u64, u32)> {
        let mut expected: Vec<_> = hashes.iter().copied().zip(0..).collect();
        expected.sort_unstable();
        expected
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
                let mut all = Vec::new();
                by_hash(hashes.len(), scan_of(&hashes), |hash, index| {
                    all.push((hash, index));
                    Ok(())
                })
                .unwrap();
                assert!(all == expected(&hashes), "{n}");
            }
        }
    }

    #[test]
    fn parts_and_passes_join_to_the_whole() {
        let mut next = golden::random(9);
        let hashes: Vec<u64> = (0..3000).map(|_| next()).collect();
        let scan = scan_of(&hashes);
        for (passes, threads) in [(1, 1), (1, 3), (2, 1), (3, 2), (7, 5), (16, 16)] {
            let mut all = Vec::new();
            for pass in 0..passes {
                let buckets = Buckets::new(hashes.len(), pass, passes);
                let samples = (0..threads).map(|thread| share(hashes.len(), thread, threads));
                let mut parts: Vec<Part> =
                    samples.map(|samples| buckets.gather(samples, &scan).unwrap()).collect();
                buckets.sort(&mut parts, threads).unwrap();
                for bucket in 0..buckets.count {
                    let entries = parts.iter().flat_map(|part| part.bucket(bucket));
                    all.extend(entries.map(|&entry| (hash_of(entry), entry[2])));
                }
            }
            assert!(all == expected(&hashes), "{passes} passes, {threads} threads");
        }
    }

    #[test]
    fn hashes_that_change_meanwhile_do_no_harm() {
        let calls = std::cell::Cell::new(0);
        let scan = |_: Range<usize>, part: &mut EachPart<'_>| {
            calls.set(calls.get() + 1);
            part(0, &[if calls.get() == 1 { 5_u64 } else { u64::MAX }; 100]);
            Ok(())
        };
        let buckets = Buckets::new(2000, 0, 1);
        let part = buckets.gather(0..100, scan).unwrap();
        // Some of them, in several parts that more threads sort than there are buckets.
        let some = |_: Range<usize>, part: &mut EachPart<'_>| {
            calls.set(calls.get() + 1);
            let hash = |i: u64| if calls.get() % 2 == 0 && i % 3 == 0 { !i } else { i << 54 };
            part(0, &(0..100).map(hash).collect::<Vec<_>>());
            Ok(())
        };
        let mut several: Vec<_> = (0..3).map(|_| buckets.gather(0..100, some).unwrap()).collect();
        buckets.sort(&mut several, 7).unwrap();
        assert!(several.iter().all(|part| part.entries.len() == 100));
        let mut parts = [part];
        buckets.sort(&mut parts, 1).unwrap();
        assert_eq!(parts[0].entries.len(), 100);
    }
}
