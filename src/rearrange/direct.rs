//! A shuffle that reads samples directly, from the page cache.
//!
//! Threads take turns: each reads the samples of every n-th unit, which has about a [`CHUNK`] of them, in the order
//! of the file, in which the kernel finds them fastest, and to where they are in the order of the output. The caller writes
//! one unit after the other, so what is written does not depend on the number of threads.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, SyncSender, channel, sync_channel};
use std::thread;

use super::{FEW, STRIDE, damaged};
use crate::dataset::{DatasetReader, Writer};
use crate::error::{Error, Result};
use crate::sampler::Order;
use crate::storage::CachedFile;

/// Bytes of samples that are read before they are written.
const CHUNK: usize = 1 << 20;
/// Threads that read, at most: one call of the kernel for each sample takes longer than writing a small one.
const READERS: usize = 2;
/// Chunks of each that wait to be written.
const QUEUE: usize = 1;
/// Chunks at a time: of each reader one that is read and those that wait, and one that is written; what was written goes
/// back to its reader.
const CHUNKS: u64 = (READERS * (QUEUE + 2)) as u64;
/// One in this many samples may have to be fetched before it ends.
const RARE: u64 = 64;

/// Reads samples from the page cache.
pub(super) struct Direct<'a> {
    reader: &'a DatasetReader,
    order: &'a dyn Order,
    file: &'a CachedFile,
    /// Bytes of a sample, at most.
    largest: u64,
}

/// Samples that were read: their bytes without gaps.
#[derive(Default)]
struct Chunk {
    indices: Vec<u64>,
    ends: Vec<usize>,
    bytes: Vec<u8>,
    /// In which they are read.
    order: Vec<u32>,
    then: Then,
}

/// What comes after a chunk.
#[derive(Debug, Clone, Copy, Default)]
enum Then {
    /// Another one of the same unit, so of the same reader.
    #[default]
    More,
    Next,
    /// Nothing: a sample is too large, or would have to be fetched.
    End,
}

impl<'a> Direct<'a> {
    /// With this much memory for samples; all chunks together take an eighth of it, or 6 MiB.
    pub(super) fn new(
        reader: &'a DatasetReader,
        order: &'a dyn Order,
        file: &'a CachedFile,
        memory: u64,
    ) -> Direct<'a> {
        let largest = (memory / 8 / CHUNKS).max(CHUNK as u64);
        Direct { reader, order, file, largest }
    }

    /// Writes samples for as long as they are in memory, but for a few, and none is too large. Returns how many these
    /// are.
    pub(super) fn run(
        &self,
        writer: &mut Writer,
        mut progress: impl FnMut(u64) -> Result<()>,
    ) -> Result<u64> {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        let threads = cores.min(READERS);
        let fetched = &AtomicU64::new(0);
        thread::scope(|scope| {
            let mut readers = Vec::new();
            for nth in 0..threads {
                let (chunks, received) = sync_channel(QUEUE);
                let (give_back, free) = channel();
                let units = self.units().skip(nth).step_by(threads);
                let thread = thread::Builder::new().name("kiste-read".into());
                let thread = thread.spawn_scoped(scope, move || {
                    if let Err(error) = self.read(units, &chunks, &free, fetched) {
                        // The other side has ended, or hears it.
                        let _ = chunks.send(Err(error));
                    }
                });
                thread.map_err(|e| Error::os("starting a thread that reads", e))?;
                readers.push((received, give_back));
            }
            let mut moved = 0;
            for (received, give_back) in readers.iter().cycle() {
                loop {
                    // A reader ends after its last unit, and they take turns.
                    let Ok(chunk) = received.recv() else { return Ok(moved) };
                    let chunk: Chunk = chunk?;
                    moved = self.write(&chunk, writer, moved, &mut progress)?;
                    let then = chunk.then;
                    // There may be nothing left to read.
                    let _ = give_back.send(chunk);
                    match then {
                        Then::More => {}
                        Then::Next => break,
                        Then::End => return Ok(moved),
                    }
                }
            }
            Ok(moved)
        })
    }

    /// Stretches of positions with about a chunk of samples each.
    fn units(&self) -> impl Iterator<Item = Range<u64>> + use<> {
        let (len, bytes) = (self.order.len(), self.reader.data_len());
        let of_a_chunk = (CHUNK as u64).saturating_mul(len) / bytes.max(1);
        let positions = of_a_chunk.clamp(1, STRIDE as u64);
        let starts = (0..len).step_by(positions as usize);
        starts.map(move |start| start..len.min(start + positions))
    }

    fn write(
        &self,
        chunk: &Chunk,
        writer: &mut Writer,
        mut moved: u64,
        progress: &mut impl FnMut(u64) -> Result<()>,
    ) -> Result<u64> {
        let mut start = 0;
        for (&index, &end) in chunk.indices.iter().zip(&chunk.ends) {
            let (index, sample) = (index as usize, &chunk.bytes[start..end]);
            self.reader.check_read(index, sample)?;
            writer.write_packed(sample).map_err(|error| damaged(self.reader, index, error))?;
            (start, moved) = (end, moved + 1);
            if moved % FEW as u64 == 0 {
                progress(moved)?;
            }
        }
        Ok(moved)
    }

    /// Reads the samples of these units for as long as they are in memory, but for a few, and none is too large.
    fn read(
        &self,
        units: impl Iterator<Item = Range<u64>>,
        chunks: &SyncSender<Result<Chunk>>,
        free: &Receiver<Chunk>,
        fetched: &AtomicU64,
    ) -> Result<()> {
        for mut unit in units {
            while !unit.is_empty() {
                let mut chunk = free.try_recv().unwrap_or_default();
                self.place(&mut chunk, unit.clone())?;
                self.fill(&mut chunk, unit.start, fetched)?;
                unit.start += chunk.indices.len() as u64;
                let ends = matches!(chunk.then, Then::End);
                if chunks.send(Ok(chunk)).is_err() || ends {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Decides which samples of a unit are in a chunk, and where.
    fn place(&self, chunk: &mut Chunk, unit: Range<u64>) -> Result<()> {
        chunk.indices.clear();
        chunk.ends.clear();
        chunk.then = Then::Next;
        self.order.fill(unit, &mut chunk.indices);
        let mut end = 0;
        for (at, &index) in chunk.indices.iter().enumerate() {
            let range = self.reader.byte_range(index as usize)?;
            let len = range.end - range.start;
            if len > self.largest {
                chunk.then = Then::End;
                break;
            }
            if end + len as usize > CHUNK && at > 0 {
                chunk.then = Then::More;
                break;
            }
            end += len as usize;
            chunk.ends.push(end);
        }
        chunk.indices.truncate(chunk.ends.len());
        Ok(())
    }

    /// Reads the samples of a chunk. All of them are left out if too many have to be fetched.
    fn fill(&self, chunk: &mut Chunk, position: u64, fetched: &AtomicU64) -> Result<()> {
        let Chunk { indices, ends, bytes, order, then } = chunk;
        let end = ends.last().map_or(0, |&end| end);
        if bytes.len() < end {
            let size = end.max(CHUNK);
            bytes.reserve_exact(size - bytes.len());
            bytes.resize(size, 0);
        }
        order.clear();
        order.extend(0..indices.len() as u32);
        order.sort_unstable_by_key(|&at| indices[at as usize]);
        for &at in &*order {
            let at = at as usize;
            let start = at.checked_sub(1).map_or(0, |before| ends[before]);
            let from = self.reader.byte_range(indices[at] as usize)?.start;
            let sample = &mut bytes[start..ends[at]];
            if self.file.read_if_cached(sample, from) {
                continue;
            }
            if fetched.fetch_add(1, Relaxed) > position / RARE {
                indices.clear();
                ends.clear();
                *then = Then::End;
                return Ok(());
            }
            self.file.read(sample, from)?;
        }
        Ok(())
    }
}
