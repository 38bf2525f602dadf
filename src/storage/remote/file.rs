//! One object, read by range: what was fetched stays in memory for a while.

use std::collections::BTreeMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use object_store::path::Path as Name;

use super::super::{FileId, ReadAt, beyond_end};
use super::Shared;
use super::cache::{Cache, Object, Piece};
use super::client::{Client, Fetched, Part, Pin};
use super::per_process::PerProcess;
use super::plan::{self, ReadAhead};
use crate::error::{Error, ErrorKind, Result};

/// Bytes of what was read that stay in memory, for each object.
const KEPT: usize = 64 << 20;
/// Bytes of what was fetched ahead, for each object.
const AHEAD: usize = 512 << 20;

/// An open object: one version of it.
pub(super) struct RemoteFile {
    shared: Arc<Shared>,
    name: Name,
    shown: PathBuf,
    pin: Pin,
    id: FileId,
    cache: Option<(Cache, Object)>,
    memory: PerProcess<Mutex<Memory>>,
}

impl RemoteFile {
    /// The object that these pieces are of, which are of one version.
    pub(super) fn new(
        shared: Arc<Shared>,
        name: Name,
        shown: PathBuf,
        pin: Pin,
        pieces: Vec<Fetched>,
    ) -> RemoteFile {
        let id = identity(&shown, &pin);
        let cache = shared.cache_of(&name, &pin);
        let memory = PerProcess::new();
        let file = RemoteFile { shared, name, shown, pin, id, cache, memory };
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
        // Those that were not tried come with the error of another one.
        let pieces: Result<Vec<Bytes>> =
            self.try_all(&parts, false)?.into_iter().flatten().collect();
        let mut pieces = pieces?;
        if pieces.len() == 1 {
            return Ok(pieces.remove(0));
        }
        let mut all = Vec::with_capacity((range.end - range.start) as usize);
        pieces.iter().for_each(|bytes| all.extend_from_slice(bytes));
        Ok(all.into())
    }

    /// Fetches each of these ranges. Once one has failed for good, no other is begun: `None`. Each would
    /// try for as long.
    fn try_all(&self, ranges: &[Range<u64>], in_order: bool) -> Result<Vec<Option<Result<Bytes>>>> {
        let client = self.shared.client()?;
        let failed = AtomicBool::new(false);
        let get = |range: &Range<u64>| {
            if failed.load(Relaxed) {
                return None;
            }
            let result = self.get_part(client, range).map_err(|e| e.with_range(range.clone()));
            failed.fetch_or(result.is_err(), Relaxed);
            Some(result)
        };
        let Some((cache, object)) = &self.cache else { return Ok(client.each(ranges, get)) };
        let planned: Vec<Vec<Piece>> = ranges.iter().map(|r| cache.plan(object, r)).collect();
        let pieces: Vec<&Piece> = planned.iter().flatten().collect();
        let done = client.each(&pieces, |piece| {
            let range = match piece {
                Piece::Missing(range) => range,
                Piece::Cached(range, record) => {
                    if let Some(bytes) = cache.read(object, record, range) {
                        self.shared.traffic.cached.fetch_add(bytes.len() as u64, Relaxed);
                        return Some(Ok(bytes.into()));
                    }
                    range
                }
            };
            let result = get(range);
            if let Some(Ok(bytes)) = &result {
                cache.store(object, self.len(), range.start, bytes, in_order);
            }
            result
        });
        let mut done = done.into_iter();
        Ok(planned.iter().map(|pieces| joined(done.by_ref().take(pieces.len()))).collect())
    }

    fn get_part(&self, client: &Client, range: &Range<u64>) -> Result<Bytes> {
        let part = Part::Range(range.clone());
        let piece = client.get(&self.name, part, Some(&self.pin), &self.shown)?;
        match piece.bytes.len() as u64 == range.end - range.start {
            true => Ok(piece.bytes),
            false => Err(Error::io(&self.shown, beyond_end())),
        }
    }
}

/// The pieces of a range behind one another. An error of one is one of all.
fn joined(mut pieces: impl Iterator<Item = Option<Result<Bytes>>>) -> Option<Result<Bytes>> {
    let mut all = pieces.next()?;
    for piece in pieces {
        all = match (all, piece) {
            (Some(Ok(before)), Some(Ok(bytes))) => {
                let mut joined = Vec::from(before);
                joined.extend_from_slice(&bytes);
                Some(Ok(joined.into()))
            }
            (Some(Err(error)), _) | (_, Some(Err(error))) => Some(Err(error)),
            _ => None,
        };
    }
    all
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
        if let Some(bytes) = memory.get(&wanted) {
            memory.ahead.pass(&wanted);
            drop(memory);
            buf.copy_from_slice(&bytes);
            return Ok(());
        }
        if let Some(error) = memory.take_failure(&wanted) {
            return Err(error);
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
        self.fetch_all(ranges, false)
    }

    fn fetch_in_order(&self, ranges: &[Range<u64>]) -> Result<()> {
        self.fetch_all(ranges, true)
    }
}

impl RemoteFile {
    /// See [`ReadAt::fetch`] and [`ReadAt::fetch_in_order`].
    fn fetch_all(&self, ranges: &[Range<u64>], in_order: bool) -> Result<()> {
        let mut memory = self.memory();
        memory.forget_stale();
        let is_missing = |range: &&Range<u64>| {
            range.start < range.end && range.end <= self.len() && memory.find(range).is_none()
        };
        let (failed, mut missing): (Vec<Range<u64>>, Vec<Range<u64>>) =
            ranges.iter().filter(is_missing).cloned().partition(|range| memory.has_failed(range));
        // It was tried, and reading it says why it is not there.
        let failure = failed.first().and_then(|range| memory.failure(range));
        drop(memory);
        missing.sort_unstable_by_key(|range| range.start);
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
        let mut pieces = self.try_all(&parts, in_order)?.into_iter();
        let mut memory = self.memory();
        let mut first = None;
        let mut untried = Vec::new();
        for run in runs {
            let mut bytes = Bytes::new();
            let mut is_whole = true;
            for part in plan::parts(run.clone()) {
                match pieces.next().flatten() {
                    Some(Ok(piece)) if part == run => bytes = piece,
                    Some(Ok(piece)) if is_whole => {
                        let mut all = Vec::from(bytes);
                        all.reserve_exact((run.end - part.start) as usize);
                        all.extend_from_slice(&piece);
                        bytes = all.into();
                    }
                    Some(Err(error)) => {
                        first.get_or_insert_with(|| error.again());
                        memory.note_failure(part, error);
                        is_whole = false;
                    }
                    // Of no use without another one, which failed.
                    Some(Ok(_)) => {}
                    None => {
                        untried.push(part);
                        is_whole = false;
                    }
                }
            }
            if is_whole {
                let first = missing.partition_point(|range| range.start < run.start);
                let within = missing[first..].iter().take_while(|range| range.start < run.end);
                let lens = within.map(|range| range.end - range.start);
                memory.keep_ahead(run.start, bytes, lens.sum());
            }
        }
        // What was not tried after a failure is not waited for one by one.
        if let Some(error) = &first {
            untried.into_iter().for_each(|part| memory.note_failure(part, error.again()));
        }
        first.or(failure).map_or(Ok(()), Err)
    }
}

/// What was fetched of an object.
#[derive(Default)]
struct Memory {
    /// By where they begin.
    segments: BTreeMap<u64, Segment>,
    /// Bytes of those that were read, and of those that were fetched ahead.
    held: [usize; 2],
    clock: u64,
    ahead: ReadAhead,
    /// What was fetched ahead in vain, for the reads to come: none overlap.
    failures: Vec<Failure>,
}

struct Failure {
    range: Range<u64>,
    error: Error,
    since: Instant,
}

/// Failures that are kept, and for how long. What is older is tried again.
const FAILURES: usize = 1024;
const STALE: Duration = Duration::from_secs(300);

/// Segments that are looked at for some bytes.
const SEARCHED: usize = 64;

fn overlap(one: &Range<u64>, other: &Range<u64>) -> bool {
    one.start < other.end && other.start < one.end
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
    /// Where the segment begins that these bytes are in. One that begins far before, with many others
    /// between, is not found: then the bytes are fetched again.
    fn find(&self, range: &Range<u64>) -> Option<u64> {
        let mut before = self.segments.range(..=range.start).rev().take(SEARCHED);
        before.find(|(_, segment)| segment.covers(range)).map(|(&at, _)| at)
    }

    fn has_failed(&self, range: &Range<u64>) -> bool {
        self.failures.iter().any(|failure| overlap(&failure.range, range))
    }

    fn failure(&self, range: &Range<u64>) -> Option<Error> {
        let found = self.failures.iter().find(|failure| overlap(&failure.range, range));
        found.map(|failure| failure.error.again())
    }

    /// Notes why these bytes could not be fetched ahead.
    fn note_failure(&mut self, range: Range<u64>, error: Error) {
        // The caller will want nothing any more.
        if error.kind() == ErrorKind::Cancelled {
            return;
        }
        if self.failures.len() >= FAILURES {
            self.failures.remove(0);
        }
        self.failures.push(Failure { range, error, since: Instant::now() });
    }

    fn forget_stale(&mut self) {
        self.failures.retain(|failure| failure.since.elapsed() < STALE);
    }

    /// Why bytes that are read now could not be fetched ahead. Said once: reading them again tries again.
    fn take_failure(&mut self, range: &Range<u64>) -> Option<Error> {
        self.forget_stale();
        let error = self.failure(range)?;
        for Failure { range: failed, error, since } in std::mem::take(&mut self.failures) {
            let before = failed.start..failed.end.min(range.start);
            let behind = failed.start.max(range.end)..failed.end;
            let rest = [before, behind].into_iter().filter(|rest| rest.start < rest.end);
            let again = |range| Failure { range, error: error.again(), since };
            self.failures.extend(rest.map(again));
        }
        Some(error)
    }

    /// These bytes, if all are there.
    fn get(&mut self, range: &Range<u64>) -> Option<Bytes> {
        let found = self.find(range)?;
        self.clock += 1;
        let segment = self.segments.get_mut(&found)?;
        segment.used = self.clock;
        let start = (range.start - segment.at) as usize;
        let bytes = segment.bytes.slice(start..start + (range.end - range.start) as usize);
        if let Some(unread) = &mut segment.unread {
            *unread = unread.saturating_sub(bytes.len() as u64);
            // What was fetched for one reading has had it. It may still be asked for once more, as when
            // a key was compared before.
            if *unread == 0 {
                segment.unread = None;
                self.held[1] -= segment.bytes.len();
                self.held[0] += segment.bytes.len();
                self.evict(false, KEPT);
            }
        }
        Some(bytes)
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
        let is_longer = |other: &Segment| other.bytes.len() >= segment.bytes.len();
        if segment.bytes.is_empty() || self.segments.get(&segment.at).is_some_and(is_longer) {
            return;
        }
        self.remove(segment.at);
        self.held[usize::from(segment.unread.is_some())] += segment.bytes.len();
        self.segments.insert(segment.at, Segment { used: self.clock, ..segment });
    }

    fn remove(&mut self, at: u64) {
        if let Some(segment) = self.segments.remove(&at) {
            self.held[usize::from(segment.unread.is_some())] -= segment.bytes.len();
        }
    }

    /// Drops the oldest of one sort until the rest fits, with some room, so that this is rare.
    fn evict(&mut self, ahead: bool, limit: usize) {
        let sort = usize::from(ahead);
        if self.held[sort] <= limit {
            return;
        }
        let of_sort = self.segments.values().filter(|s| s.unread.is_some() == ahead);
        let mut oldest: Vec<(u64, u64)> = of_sort.map(|s| (s.used, s.at)).collect();
        oldest.sort_unstable();
        for (_, at) in oldest {
            if self.held[sort] <= limit - limit / 8 {
                break;
            }
            self.remove(at);
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
        assert_eq!(memory.get(&(5..8)).unwrap(), [7; 3].as_slice());
        memory.keep(4 * len, piece.clone());
        assert!(memory.find(&(0..len)).is_some(), "used last");
        assert!(memory.find(&(len..2 * len)).is_none(), "used first");
        assert_eq!(memory.segments.len(), 3);
        // Across two segments is not there.
        assert!(memory.find(&(3 * len - 1..3 * len + 1)).is_none());
    }

    #[test]
    fn a_failure_is_said_once_to_each_part() {
        let mut memory = Memory::default();
        memory.note_failure(10..50, Error::new(ErrorKind::Io, "down"));
        memory.note_failure(60..70, Error::new(ErrorKind::Cancelled, "stopped"));
        assert!(!memory.has_failed(&(0..10)) && !memory.has_failed(&(50..100)));
        let error = memory.take_failure(&(20..30)).unwrap();
        assert_eq!((error.kind(), error.message()), (ErrorKind::Io, "down"));
        assert!(memory.take_failure(&(20..30)).is_none());
        assert!(memory.take_failure(&(0..11)).is_some());
        assert!(memory.take_failure(&(49..80)).is_some());
        assert!(memory.take_failure(&(0..11)).is_none());
        assert!(memory.has_failed(&(11..12)) && memory.has_failed(&(30..49)));
    }

    #[test]
    fn what_was_fetched_ahead_stays_until_it_was_read() {
        let mut memory = Memory::default();
        memory.keep_ahead(0, Bytes::from_static(b"abcdef"), 4);
        let piece = Bytes::from(vec![0; KEPT]);
        memory.keep(100, piece.clone());
        memory.keep(1 << 40, piece.clone());
        assert_eq!(memory.get(&(1..3)).unwrap(), b"bc".as_slice());
        assert!(memory.get(&(4..6)).is_some());
        assert!(memory.segments.values().all(|segment| segment.unread.is_none()));
        let held: usize = memory.segments.values().map(|segment| segment.bytes.len()).sum();
        assert_eq!(memory.held, [held, 0]);
    }
}
