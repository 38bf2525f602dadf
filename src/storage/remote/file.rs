//! One object, read by range: what was fetched stays in memory for a while.

use std::collections::VecDeque;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use object_store::path::Path as Name;

use super::super::read_ahead::{self, Ahead, Ticket};
use super::super::{FileId, ReadAt, beyond_end};
use super::Shared;
use super::cache::{self, Cache, Piece};
use super::client::{Fetched, Part, Pin};
use super::memory::{self, Memory};
use super::per_process::PerProcess;
use super::plan::{self, ReadAhead};
use super::queue::{Job, Urgency};
use crate::error::{Error, ErrorKind, Result};

/// An open object: one version of it.
pub(super) struct RemoteFile(Arc<Inner>);

struct Inner {
    shared: Arc<Shared>,
    name: Name,
    shown: PathBuf,
    pin: Pin,
    id: FileId,
    cache: Option<(Cache, cache::Object)>,
    /// Identifies it in the memory of the storage.
    object: memory::Object,
    state: PerProcess<Mutex<State>>,
}

impl Drop for RemoteFile {
    fn drop(&mut self) {
        // It will not be read.
        self.0.state().land(&(0..u64::MAX));
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.memory().forget(self.object);
    }
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
        let object = shared.opened.fetch_add(1, Relaxed);
        let state = PerProcess::new();
        let file = Inner { shared, name, shown, pin, id, cache, object, state };
        let mut memory = file.memory();
        pieces.into_iter().for_each(|piece| memory.keep(object, piece.at, piece.bytes));
        drop(memory);
        RemoteFile(Arc::new(file))
    }
}

impl Inner {
    /// Held for as long as it takes to look, never while something is fetched.
    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.shared.here().memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The same.
    fn state(&self) -> MutexGuard<'_, State> {
        let state = self.state.get(Mutex::default);
        state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn len(&self) -> u64 {
        self.pin.size
    }

    /// Fetches these bytes in one request, on this thread.
    fn get(&self, range: &Range<u64>) -> Result<Bytes> {
        let part = Part::Range(range.clone());
        let client = self.shared.client()?;
        let piece = client.get(&self.name, part, Some(&self.pin), &self.shown);
        let piece = piece.map_err(|error| error.with_range(range.clone()))?;
        match piece.bytes.len() as u64 == range.end - range.start {
            true => Ok(piece.bytes),
            false => Err(Error::io(&self.shown, beyond_end()).with_range(range.clone())),
        }
    }

    /// These bytes, from the cache or the server.
    fn get_piece(&self, piece: &Piece, in_order: bool) -> Result<Bytes> {
        let range = piece.range();
        let Some((cache, object)) = &self.cache else { return self.get(range) };
        if let Piece::Cached(range, record) = piece {
            if let Some(bytes) = cache.read(object, record, range) {
                self.shared.traffic.cached.fetch_add(bytes.len() as u64, Relaxed);
                return Ok(bytes.into());
            }
        }
        let bytes = self.get(range)?;
        cache.store(object, self.len(), range.start, &bytes, in_order);
        Ok(bytes)
    }

    /// The pieces of these bytes that are fetched one by one.
    fn pieces(&self, range: Range<u64>, part: u64) -> Vec<Piece> {
        let parts = plan::parts(range, part);
        match &self.cache {
            None => parts.map(Piece::Missing).collect(),
            Some((cache, object)) => parts.flat_map(|part| cache.plan(object, &part)).collect(),
        }
    }

    /// The missing parts of these ranges, sorted, and the error if an earlier fetch of them failed.
    /// If the reader goes in a known order, bytes that are in memory are kept for it.
    fn missing(&self, ranges: &[Range<u64>], in_order: bool) -> (Vec<Range<u64>>, Option<Error>) {
        let mut memory = self.memory();
        let mut missing: Vec<Range<u64>> = ranges
            .iter()
            .filter(|range| range.start < range.end && range.end <= self.len())
            .filter(|range| match in_order {
                true => !memory.claim(self.object, range),
                false => !memory.contains(self.object, range),
            })
            .cloned()
            .collect();
        drop(memory);
        let mut state = self.state();
        if in_order {
            missing = plan::without(missing, &state.on_their_way());
        }
        state.forget_stale();
        // It was tried, and reading it says why it is not there.
        let failure = missing.iter().find_map(|range| state.failure(range));
        missing.retain(|range| !state.has_failed(range));
        missing.sort_unstable_by_key(|range| range.start);
        (missing, failure)
    }
}

/// Ranges of files of one storage that are fetched together. Once one has failed for good, no other is
/// begun: each would try for as long.
#[derive(Default)]
struct Together {
    failure: Mutex<Option<Error>>,
}

impl Together {
    fn failure(&self) -> Option<Error> {
        let failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        failure.as_ref().map(Error::again)
    }

    /// Fetches a piece of a file into memory.
    fn fetch(&self, file: &Inner, piece: &Piece, unread: u64, in_order: bool) {
        let range = piece.range();
        // After a failure the remaining requests are not tried: each of them would be waited for.
        if let Some(error) = self.failure() {
            return file.state().note_failure(range.clone(), error);
        }
        // It may have come since it was asked for.
        let mut memory = file.memory();
        let is_there = match in_order {
            true => memory.claim(file.object, range),
            false => memory.contains(file.object, range),
        };
        drop(memory);
        if is_there {
            return;
        }
        match file.get_piece(piece, in_order) {
            Ok(bytes) => file.memory().keep_ahead(file.object, range.start, bytes, unread),
            Err(error) => {
                let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
                failure.get_or_insert_with(|| error.again());
                drop(failure);
                file.state().note_failure(range.clone(), error);
            }
        }
    }
}

/// Fetches what is missing of these ranges of files of one storage, all in one round. See
/// [`ReadAt::fetch`] and [`ReadAt::fetch_in_order`].
pub(super) fn fetch_together(
    wanted: &[(&RemoteFile, &[Range<u64>])],
    in_order: bool,
) -> Result<()> {
    if in_order {
        wanted.iter().for_each(|(RemoteFile(file), ranges)| file.state().ahead.announce(ranges));
    }
    fetch_all(wanted, in_order)
}

fn fetch_all(wanted: &[(&RemoteFile, &[Range<u64>])], in_order: bool) -> Result<()> {
    let Some((RemoteFile(first), _)) = wanted.first() else { return Ok(()) };
    let shared = first.shared.clone();
    // The next batches do not wait for those that are behind them.
    let later = read_ahead::ahead().filter(|_| in_order);
    let part = match later {
        Some(_) => plan::part_ahead(shared.options.connections),
        None => plan::PART,
    };
    let together = Arc::new(Together::default());
    let mut failure = None;
    let mut room = memory::AHEAD as u64;
    let mut jobs: Vec<Box<dyn FnOnce(Ticket) -> Job>> = Vec::new();
    for &(RemoteFile(file), ranges) in wanted {
        let (missing, failed) = file.missing(ranges, in_order);
        failure = failure.or(failed);
        let wanted: u64 = missing.iter().map(|range| range.end - range.start).sum();
        shared.traffic.wanted.fetch_add(wanted, Relaxed);
        for run in plan::merge(missing.clone()) {
            let len = run.end - run.start;
            // The rest is fetched when it is read.
            if len > room {
                continue;
            }
            room -= len;
            for piece in file.pieces(run, part) {
                let unread = wanted_of(&missing, piece.range());
                let (together, file) = (together.clone(), file.clone());
                jobs.push(Box::new(move |ticket| {
                    Box::new(move || {
                        let fetch = || together.fetch(&file, &piece, unread, in_order);
                        ticket.of().run(fetch);
                        // The file goes before the waiting thread is woken.
                        drop((together, file, ticket));
                    })
                }));
            }
        }
    }
    if let Some(later) = later {
        let jobs = jobs.into_iter().map(|job| job(later.ticket()));
        shared.here().queue.add(Urgency::Later, jobs.collect::<Vec<_>>());
        return failure.map_or(Ok(()), Err);
    }
    let now = Ahead::new(read_ahead::stop());
    let mut jobs: Vec<Job> = jobs.into_iter().map(|job| job(now.ticket())).collect();
    // This thread sends a request as well, unless it may have to leave at any moment.
    let own = if read_ahead::stop().is_some() { None } else { jobs.pop() };
    shared.here().queue.add(Urgency::Now, jobs);
    if let Some(own) = own {
        own();
    }
    if !now.wait() {
        return Err(Error::new(ErrorKind::Cancelled, "the request was cancelled"));
    }
    together.failure().or(failure).map_or(Ok(()), Err)
}

/// How many bytes of these sorted ranges are within another one.
fn wanted_of(ranges: &[Range<u64>], within: &Range<u64>) -> u64 {
    let first = ranges.partition_point(|range| range.end <= within.start);
    let overlapping = ranges[first..].iter().take_while(|range| range.start < within.end);
    overlapping
        .map(|range| range.end.min(within.end).saturating_sub(range.start.max(within.start)))
        .sum()
}

/// A number for a version of an object, as file systems have one for a file.
pub(super) fn identity(shown: &Path, pin: &Pin) -> FileId {
    let (size, tag, modified) = pin.identity();
    // It is part of plans, so another release has to give the same.
    let mut hasher = blake3::Hasher::new();
    for bytes in [shown.as_os_str().as_encoded_bytes(), tag.unwrap_or_default().as_bytes()] {
        hasher.update(&(bytes.len() as u64).to_le_bytes()).update(bytes);
    }
    hasher.update(&size.to_le_bytes()).update(&modified.to_le_bytes());
    let digest = hasher.finalize();
    let half = |at: usize| {
        let bytes = digest.as_bytes()[at..].first_chunk().copied();
        u64::from_le_bytes(bytes.unwrap_or_default())
    };
    (half(0), half(8))
}

impl ReadAt for RemoteFile {
    fn len(&self) -> u64 {
        self.0.len()
    }

    fn id(&self) -> FileId {
        self.0.id
    }

    fn path(&self) -> &Path {
        &self.0.shown
    }

    fn is_remote(&self) -> bool {
        true
    }

    fn write_id(&self) -> Option<u64> {
        self.0.pin.write
    }

    fn tag(&self) -> Option<&str> {
        self.0.pin.strong()
    }

    fn read_exact_at(&self, buf: &mut [u8], at: u64) -> Result<()> {
        let mut filled = 0;
        self.read_pieces(at, buf.len() as u64, |piece| {
            buf[filled..filled + piece.len()].copy_from_slice(piece);
            filled += piece.len();
        })
    }

    fn read_vec(&self, range: Range<u64>) -> Result<Vec<u8>> {
        let len = range.end - range.start;
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(len as usize).map_err(|_| {
            let message = format!("not enough memory for {len} bytes");
            Error::new(ErrorKind::Limit, message).at(self.path()).with_range(range.clone())
        })?;
        self.read_pieces(range.start, len, |piece| bytes.extend_from_slice(piece))?;
        Ok(bytes)
    }

    fn fetch(&self, ranges: &[Range<u64>]) -> Result<()> {
        fetch_together(&[(self, ranges)], false)
    }

    fn fetch_in_order(&self, ranges: &[Range<u64>]) -> Result<()> {
        fetch_together(&[(self, ranges)], true)
    }

    fn as_any(&self) -> Option<&dyn std::any::Any> {
        Some(self)
    }
}

impl RemoteFile {
    /// Whether both are of one storage.
    pub(super) fn is_next_to(&self, other: &RemoteFile) -> bool {
        Arc::ptr_eq(&self.0.shared, &other.0.shared)
    }

    /// Asks for what is read next by who reads from front to back, and does not wait for it.
    fn flow(&self, first: Option<Range<u64>>) {
        let file = &*self.0;
        let mut next = first;
        loop {
            let mut state = file.state();
            let Some(range) = next.take().or_else(|| state.ahead.flow(file.len())) else { return };
            let stop = Arc::default();
            let ahead = Ahead::new(Some(Arc::clone(&stop)));
            // It is not complete before all of it is asked for.
            let begun = ahead.ticket();
            state.flights.retain(|before| !before.ahead.is_complete());
            state.flights.push_back(Flight { range: range.clone(), ahead: ahead.clone(), stop });
            drop(state);
            // A failure is reported when the bytes are read.
            let _ = ahead.run(|| fetch_all(&[(self, std::slice::from_ref(&range))], true));
            drop(begun);
        }
    }

    /// These bytes if they are on their way, once they have come.
    fn arrived(&self, wanted: &Range<u64>) -> Result<Option<Vec<Bytes>>> {
        let file = &*self.0;
        let mut state = file.state();
        if !state.flights.iter().any(|flight| overlap(&flight.range, wanted)) {
            return Ok(None);
        }
        let rest = state.ahead.flow_to(wanted);
        drop(state);
        if rest.is_some() {
            self.flow(rest);
        }
        let state = file.state();
        let of_wanted = state.flights.iter().filter(|flight| overlap(&flight.range, wanted));
        let of_wanted: Vec<Arc<Ahead>> = of_wanted.map(|flight| flight.ahead.clone()).collect();
        drop(state);
        if !of_wanted.iter().all(|ahead| ahead.wait()) && read_ahead::is_stopped() {
            return Err(Error::new(ErrorKind::Cancelled, "the request was cancelled"));
        }
        Ok(file.memory().get(file.object, wanted))
    }

    /// Calls `with` on these bytes, in pieces one behind the other.
    fn read_pieces(&self, at: u64, len: u64, mut with: impl FnMut(&[u8])) -> Result<()> {
        let file = &*self.0;
        let end = at.checked_add(len).filter(|&end| end <= file.len());
        let Some(end) = end else { return Err(Error::io(&file.shown, beyond_end())) };
        let wanted = at..end;
        if wanted.is_empty() {
            return Ok(());
        }
        let mut found = file.memory().get(file.object, &wanted);
        if found.is_none() {
            found = self.arrived(&wanted)?;
        }
        if let Some(pieces) = found {
            file.state().ahead.pass(&wanted);
            self.flow(None);
            pieces.iter().for_each(|piece| with(piece));
            return Ok(());
        }
        let mut state = file.state();
        if let Some(error) = state.take_failure(&wanted) {
            return Err(error);
        }
        let fetched = state.ahead.fetch(&wanted, file.len());
        if let Some(range) = state.ahead.forgotten() {
            state.land(&range);
        }
        drop(state);
        self.flow(None);
        file.shared.traffic.wanted.fetch_add(len, Relaxed);
        let is_ahead = fetched.end - wanted.end > plan::PAGE;
        let planned = file.pieces(fetched, plan::PART);
        let pieces: Vec<Bytes> = match &planned[..] {
            [piece] => vec![file.get_piece(piece, false)?],
            planned => {
                let client = file.shared.client()?;
                let pieces = client.each(planned, |piece| file.get_piece(piece, false));
                pieces.into_iter().collect::<Result<_>>()?
            }
        };
        let mut memory = file.memory();
        for (piece, bytes) in planned.iter().zip(&pieces) {
            let Range { start, end } = *piece.range();
            match end.saturating_sub(start.max(wanted.end)) {
                // Bytes ahead are read next, so bytes that were read are evicted before them.
                unread if unread > 0 && is_ahead => {
                    memory.keep_ahead(file.object, start, bytes.clone(), unread);
                }
                _ => memory.keep(file.object, start, bytes.clone()),
            }
        }
        drop(memory);
        for (piece, bytes) in planned.iter().zip(&pieces) {
            let Range { start, end } = *piece.range();
            let (from, to) = (wanted.start.max(start), wanted.end.min(end));
            if from < to {
                with(&bytes[(from - start) as usize..(to - start) as usize]);
            }
        }
        Ok(())
    }
}

/// Access patterns of an object, and requests in flight.
#[derive(Default)]
struct State {
    ahead: ReadAhead,
    /// Requests in flight for a reader that goes from front to back.
    flights: VecDeque<Flight>,
    /// Failed fetches ahead, to be reported by later reads: none overlap.
    failures: Vec<Failure>,
}

struct Flight {
    range: Range<u64>,
    ahead: Arc<Ahead>,
    /// Set to end the requests.
    stop: Arc<AtomicBool>,
}

struct Failure {
    range: Range<u64>,
    error: Error,
    since: Instant,
}

/// How many failures are kept, and for how long. Older ones are tried again.
const FAILURES: usize = 1024;
const STALE: Duration = Duration::from_secs(300);

fn overlap(one: &Range<u64>, other: &Range<u64>) -> bool {
    one.start < other.end && other.start < one.end
}

impl State {
    /// Nothing that is on its way is needed of these bytes.
    fn land(&mut self, range: &Range<u64>) {
        self.flights.retain(|flight| {
            let lands = overlap(&flight.range, range);
            if lands {
                flight.stop.store(true, Relaxed);
            }
            !lands
        });
    }

    /// Ranges in flight for other threads.
    fn on_their_way(&self) -> Vec<Range<u64>> {
        let own = read_ahead::ahead();
        let is_own =
            |flight: &Flight| own.as_ref().is_some_and(|own| Arc::ptr_eq(own, &flight.ahead));
        let others = self.flights.iter().filter(|flight| !is_own(flight));
        let others = others.filter(|flight| !flight.ahead.is_complete());
        others.map(|flight| flight.range.clone()).collect()
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
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_said_once_to_each_part() {
        let mut state = State::default();
        state.note_failure(10..50, Error::new(ErrorKind::Io, "down"));
        state.note_failure(60..70, Error::new(ErrorKind::Cancelled, "stopped"));
        assert!(!state.has_failed(&(0..10)) && !state.has_failed(&(50..100)));
        let error = state.take_failure(&(20..30)).unwrap();
        assert_eq!((error.kind(), error.message()), (ErrorKind::Io, "down"));
        assert!(state.take_failure(&(20..30)).is_none());
        assert!(state.take_failure(&(0..11)).is_some());
        assert!(state.take_failure(&(49..80)).is_some());
        assert!(state.take_failure(&(0..11)).is_none());
        assert!(state.has_failed(&(11..12)) && state.has_failed(&(30..49)));
    }
}
