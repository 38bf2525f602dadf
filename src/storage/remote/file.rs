//! One object, read by range: what was fetched stays in memory for a while.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use object_store::path::Path as Name;

use super::super::{FileId, ReadAt, beyond_end};
use super::Shared;
use super::client::{Part, Piece, Pin};
use super::per_process::PerProcess;
use super::plan::{self, ReadAhead};
use crate::error::{Error, Result};

/// Bytes of what was read that stay in memory, for each object.
const KEPT: usize = 64 << 20;
/// Bytes of what was fetched ahead, for each object.
const AHEAD: usize = 256 << 20;

/// An open object: one version of it.
pub(super) struct RemoteFile {
    shared: Arc<Shared>,
    name: Name,
    shown: PathBuf,
    pin: Pin,
    id: FileId,
    memory: PerProcess<Mutex<Memory>>,
}

impl RemoteFile {
    /// The object that these pieces are of, which are of one version.
    pub(super) fn new(
        shared: Arc<Shared>,
        name: Name,
        shown: PathBuf,
        pin: Pin,
        pieces: Vec<Piece>,
    ) -> RemoteFile {
        let id = identity(&shown, &pin);
        let file = RemoteFile { shared, name, shown, pin, id, memory: PerProcess::new() };
        let mut memory = file.memory();
        pieces.into_iter().for_each(|piece| memory.keep(piece.at, piece.bytes));
        drop(memory);
        file
    }

    /// Held for as long as it takes to look, never while something is fetched.
    fn memory(&self) -> MutexGuard<'_, Memory> {
        let memory = self.memory.get(Mutex::default);
        memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Fetches these bytes, over several connections if they are many.
    fn get(&self, range: Range<u64>) -> Result<Bytes> {
        let parts: Vec<Range<u64>> = plan::parts(range.clone()).collect();
        let mut pieces = self.get_all(&parts)?;
        if pieces.len() == 1 {
            return Ok(pieces.remove(0).1);
        }
        let mut all = Vec::with_capacity((range.end - range.start) as usize);
        pieces.iter().for_each(|(_, bytes)| all.extend_from_slice(bytes));
        Ok(all.into())
    }

    /// Fetches each of these ranges.
    fn get_all(&self, ranges: &[Range<u64>]) -> Result<Vec<(u64, Bytes)>> {
        let client = self.shared.client()?;
        let get = |range: &Range<u64>| {
            let part = Part::Range(range.clone());
            let named = |error: Error| error.with_range(range.clone());
            let piece =
                client.get(&self.name, part, Some(&self.pin), &self.shown).map_err(named)?;
            if piece.bytes.len() as u64 != range.end - range.start {
                return Err(named(Error::io(&self.shown, beyond_end())));
            }
            Ok((range.start, piece.bytes))
        };
        client.each(ranges, get).into_iter().collect()
    }
}

/// A number for a version of an object, as file systems have one for a file.
pub(super) fn identity(shown: &Path, pin: &Pin) -> FileId {
    let half = |seed: u8| {
        let mut hasher = DefaultHasher::new();
        (seed, shown, pin.identity()).hash(&mut hasher);
        hasher.finish()
    };
    (half(0), half(1))
}

impl ReadAt for RemoteFile {
    fn len(&self) -> u64 {
        self.pin.size
    }

    fn id(&self) -> FileId {
        self.id
    }

    fn path(&self) -> &Path {
        &self.shown
    }

    fn is_remote(&self) -> bool {
        true
    }

    fn write_id(&self) -> Option<u64> {
        self.pin.write
    }

    fn read_exact_at(&self, buf: &mut [u8], at: u64) -> Result<()> {
        let end = at.checked_add(buf.len() as u64).filter(|&end| end <= self.len());
        let Some(end) = end else { return Err(Error::io(&self.shown, beyond_end())) };
        let wanted = at..end;
        if buf.is_empty() {
            return Ok(());
        }
        let mut memory = self.memory();
        if memory.copy(&wanted, buf) {
            memory.ahead.pass(&wanted);
            return Ok(());
        }
        let fetched = memory.ahead.fetch(&wanted, self.len());
        drop(memory);
        self.shared.traffic.wanted.fetch_add(buf.len() as u64, Relaxed);
        let bytes = self.get(fetched.clone())?;
        let start = (at - fetched.start) as usize;
        buf.copy_from_slice(&bytes[start..start + buf.len()]);
        self.memory().keep(fetched.start, bytes);
        Ok(())
    }

    fn fetch(&self, ranges: &[Range<u64>]) -> Result<()> {
        let memory = self.memory();
        let is_missing = |range: &&Range<u64>| {
            range.start < range.end && range.end <= self.len() && memory.find(range).is_none()
        };
        let missing: Vec<Range<u64>> = ranges.iter().filter(is_missing).cloned().collect();
        drop(memory);
        let wanted: u64 = missing.iter().map(|range| range.end - range.start).sum();
        self.shared.traffic.wanted.fetch_add(wanted, Relaxed);
        let mut room = AHEAD as u64;
        let mut runs = plan::merge(missing.clone());
        // What does not fit is fetched when it is read.
        runs.retain(|run| {
            let len = run.end - run.start;
            let fits = len <= room;
            room -= if fits { len } else { 0 };
            fits
        });
        let parts: Vec<Range<u64>> = runs.iter().cloned().flat_map(plan::parts).collect();
        let mut pieces = self.get_all(&parts)?.into_iter();
        let mut memory = self.memory();
        for run in runs {
            let len = (run.end - run.start) as usize;
            let mut bytes = pieces.next().map(|(_, bytes)| bytes).unwrap_or_default();
            if bytes.len() < len {
                let mut all = Vec::with_capacity(len);
                all.extend_from_slice(&bytes);
                while all.len() < len {
                    let Some((_, more)) = pieces.next() else { break };
                    all.extend_from_slice(&more);
                }
                bytes = all.into();
            }
            let within = |range: &&Range<u64>| run.start <= range.start && range.end <= run.end;
            let unread = missing.iter().filter(within).map(|range| range.end - range.start).sum();
            memory.keep_ahead(run.start, bytes, unread);
        }
        Ok(())
    }
}

/// What was fetched of an object.
#[derive(Default)]
struct Memory {
    segments: Vec<Segment>,
    clock: u64,
    ahead: ReadAhead,
}

struct Segment {
    at: u64,
    bytes: Bytes,
    used: u64,
    /// Bytes that were fetched ahead and not read yet.
    unread: Option<u64>,
}

impl Segment {
    fn covers(&self, range: &Range<u64>) -> bool {
        self.at <= range.start && range.end <= self.at + self.bytes.len() as u64
    }
}

impl Memory {
    fn find(&self, range: &Range<u64>) -> Option<usize> {
        self.segments.iter().position(|segment| segment.covers(range))
    }

    /// Copies these bytes, if all are there.
    fn copy(&mut self, range: &Range<u64>, buf: &mut [u8]) -> bool {
        let Some(found) = self.find(range) else { return false };
        self.clock += 1;
        let segment = &mut self.segments[found];
        segment.used = self.clock;
        let start = (range.start - segment.at) as usize;
        buf.copy_from_slice(&segment.bytes[start..start + buf.len()]);
        if let Some(unread) = &mut segment.unread {
            *unread = unread.saturating_sub(buf.len() as u64);
            // What was fetched for one reading has had it. It may still be asked for once more, as when
            // a key was compared before.
            if *unread == 0 {
                segment.unread = None;
                self.evict(false, KEPT);
            }
        }
        true
    }

    fn keep(&mut self, at: u64, bytes: Bytes) {
        self.add(Segment { at, bytes, used: 0, unread: None });
        self.evict(false, KEPT);
    }

    fn keep_ahead(&mut self, at: u64, bytes: Bytes, unread: u64) {
        self.add(Segment { at, bytes, used: 0, unread: Some(unread) });
        self.evict(true, AHEAD);
    }

    fn add(&mut self, segment: Segment) {
        self.clock += 1;
        if !segment.bytes.is_empty() {
            self.segments.push(Segment { used: self.clock, ..segment });
        }
    }

    /// Drops the oldest of one sort until the rest fits.
    fn evict(&mut self, ahead: bool, limit: usize) {
        let of_sort = |segment: &Segment| segment.unread.is_some() == ahead;
        let mut bytes: usize =
            self.segments.iter().filter(|s| of_sort(s)).map(|s| s.bytes.len()).sum();
        while bytes > limit {
            let sorted = self.segments.iter().enumerate().filter(|(_, s)| of_sort(s));
            let Some((oldest, _)) = sorted.min_by_key(|(_, s)| s.used) else { return };
            bytes -= self.segments.swap_remove(oldest).bytes.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_bounded_and_keeps_what_was_used_last() {
        let mut memory = Memory::default();
        let piece = Bytes::from(vec![7; KEPT / 4]);
        let len = piece.len() as u64;
        for i in 0..4 {
            memory.keep(i * len, piece.clone());
        }
        let mut buf = [0; 3];
        assert!(memory.copy(&(5..8), &mut buf));
        assert_eq!(buf, [7; 3]);
        memory.keep(4 * len, piece.clone());
        assert!(memory.find(&(0..len)).is_some(), "used last");
        assert!(memory.find(&(len..2 * len)).is_none(), "used first");
        assert_eq!(memory.segments.len(), 4);
        // Across two segments is not there.
        assert!(memory.find(&(3 * len - 1..3 * len + 1)).is_none());
    }

    #[test]
    fn what_was_fetched_ahead_stays_until_it_was_read() {
        let mut memory = Memory::default();
        memory.keep_ahead(0, Bytes::from_static(b"abcdef"), 4);
        let piece = Bytes::from(vec![0; KEPT]);
        memory.keep(100, piece.clone());
        memory.keep(1 << 40, piece.clone());
        let mut buf = [0; 2];
        assert!(memory.copy(&(1..3), &mut buf));
        assert_eq!(&buf, b"bc");
        assert!(memory.copy(&(4..6), &mut buf));
        assert!(memory.segments.iter().all(|segment| segment.unread.is_none()));
    }
}
