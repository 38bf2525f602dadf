//! The table that makes look-ups by key fast: built in memory, in the layout of `.lookup`.
//!
//! Threads are started for the one purpose and end with it: a pool would not survive a fork.

use std::thread;

use crate::error::Result;
use crate::format::dataset::lookup;

use super::hashes::Hashes;

/// Entries sorted at a time, which bounds the memory on top of the table: 256 MiB.
const PASS: usize = 1 << 24;

/// Builds the table for these hashes.
pub(super) fn build(hashes: &Hashes) -> Result<(lookup::Shape, Vec<u32>)> {
    let len = hashes.len();
    let threads = thread::available_parallelism().map_or(1, usize::from).min(len / 4096 + 1);
    let passes = len.div_ceil(PASS).max(1);
    let parts = threads * passes;
    let mut placer = lookup::Placer::new(len as u64)?;
    for pass in 0..passes {
        let sorted: Vec<Result<Vec<(u64, u32)>>> = thread::scope(|scope| {
            let start = |worker| {
                let part = pass * threads + worker;
                scope.spawn(move || sorted_part(hashes, part, parts))
            };
            let workers: Vec<_> = (0..threads).map(start).collect();
            let join = |worker: thread::ScopedJoinHandle<'_, _>| {
                worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            };
            workers.into_iter().map(join).collect()
        });
        for part in sorted {
            for (hash, index) in part? {
                placer.push(hash, index)?;
            }
        }
    }
    Ok(placer.finish()?)
}

/// The hashes of one of `parts` equal ranges of values, sorted, with their indices.
fn sorted_part(hashes: &Hashes, part: usize, parts: usize) -> Result<Vec<(u64, u32)>> {
    let bound = |part: usize| (((part as u128) << 64) / parts as u128) as u64;
    let from = bound(part);
    let width = if part + 1 == parts { u64::MAX - from } else { bound(part + 1) - from - 1 };
    let within = |hash: u64| hash.wrapping_sub(from) <= width;
    let each = |bytes: &[u8], with: &mut dyn FnMut(u64)| {
        for hash in bytes.chunks_exact(8) {
            with(u64::from_be_bytes([
                hash[0], hash[1], hash[2], hash[3], hash[4], hash[5], hash[6], hash[7],
            ]));
        }
    };
    let mut count = 0;
    hashes.scan(|_, bytes| {
        each(bytes, &mut |hash| count += usize::from(within(hash)));
        None::<()>
    })?;
    // Every entry is written to the next free place and counts only if it is ours: whether it is
    // cannot be predicted, and a wrong guess costs more than a store.
    let mut entries = vec![(0, 0); count + 1];
    let mut next = 0;
    hashes.scan(|first, bytes| {
        let mut index = first as u32;
        each(bytes, &mut |hash| {
            entries[next] = (hash, index);
            next = (next + usize::from(within(hash))).min(count);
            index += 1;
        });
        None::<()>
    })?;
    entries.truncate(count);
    entries.sort_unstable();
    Ok(entries)
}
