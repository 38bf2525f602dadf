//! What was fetched of the objects of a storage and is still in memory: one budget for all of them.

use std::collections::BTreeMap;
use std::ops::Range;

use bytes::Bytes;

/// Bytes of what was read that stay in memory.
pub(super) const KEPT: usize = 64 << 20;
/// Bytes of what was fetched ahead and not read yet.
pub(super) const AHEAD: usize = 512 << 20;

/// Segments that are looked at for some bytes.
const SEARCHED: usize = 64;

/// An object that is open: its number in this storage.
pub(super) type Object = u64;

/// What was fetched.
#[derive(Default)]
pub(super) struct Memory {
    /// By object, and where they begin.
    segments: BTreeMap<(Object, u64), Segment>,
    /// Bytes of those that were read, and of those that were fetched ahead.
    held: [usize; 2],
    clock: u64,
}

struct Segment {
    bytes: Bytes,
    used: u64,
    /// Bytes that were fetched ahead and not read yet.
    unread: Option<u64>,
}

impl Memory {
    /// The segments that these bytes are in, one behind the other, if all are there. One that begins far
    /// before, with many others between, is not found: then the bytes are fetched again.
    fn find(&self, object: Object, range: &Range<u64>) -> Option<Vec<u64>> {
        let mut found = Vec::new();
        let mut at = range.start;
        while at < range.end {
            let before = self.segments.range((object, 0)..=(object, at)).rev().take(SEARCHED);
            // Of several the one that reaches farthest would do as well.
            let covers = |&(&(_, start), segment): &(&(Object, u64), &Segment)| {
                at < start + segment.bytes.len() as u64
            };
            let (&(_, start), segment) = before.into_iter().find(covers)?;
            found.push(start);
            at = start + segment.bytes.len() as u64;
        }
        Some(found)
    }

    pub(super) fn contains(&self, object: Object, range: &Range<u64>) -> bool {
        self.find(object, range).is_some()
    }

    /// These bytes in pieces, one behind the other, if all are there.
    pub(super) fn get(&mut self, object: Object, range: &Range<u64>) -> Option<Vec<Bytes>> {
        let found = self.find(object, range)?;
        self.clock += 1;
        let mut pieces = Vec::with_capacity(found.len());
        let mut at = range.start;
        for start in found {
            let segment = self.segments.get_mut(&(object, start))?;
            segment.used = self.clock;
            let end = range.end.min(start + segment.bytes.len() as u64);
            let piece = segment.bytes.slice((at - start) as usize..(end - start) as usize);
            at = end;
            if let Some(unread) = &mut segment.unread {
                *unread = unread.saturating_sub(piece.len() as u64);
                // What was fetched for one reading has had it. It may still be asked for once more, as
                // when a key was compared before.
                if *unread == 0 {
                    segment.unread = None;
                    self.held[1] -= segment.bytes.len();
                    self.held[0] += segment.bytes.len();
                }
            }
            pieces.push(piece);
        }
        self.evict(false, KEPT);
        Some(pieces)
    }

    /// Keeps what was read.
    pub(super) fn keep(&mut self, object: Object, at: u64, bytes: Bytes) {
        self.add(object, at, Segment { bytes, used: 0, unread: None });
        self.evict(false, KEPT);
    }

    /// Keeps what was fetched ahead, until this many bytes of it were read.
    pub(super) fn keep_ahead(&mut self, object: Object, at: u64, bytes: Bytes, unread: u64) {
        self.add(object, at, Segment { bytes, used: 0, unread: Some(unread) });
        self.evict(true, AHEAD);
    }

    /// Forgets an object, which is closed.
    pub(super) fn forget(&mut self, object: Object) {
        let of_object = self.segments.range((object, 0)..=(object, u64::MAX));
        let found: Vec<u64> = of_object.map(|(&(_, at), _)| at).collect();
        found.into_iter().for_each(|at| self.remove((object, at)));
    }

    fn add(&mut self, object: Object, at: u64, segment: Segment) {
        self.clock += 1;
        let is_longer = |other: &Segment| other.bytes.len() >= segment.bytes.len();
        if segment.bytes.is_empty() || self.segments.get(&(object, at)).is_some_and(is_longer) {
            return;
        }
        self.remove((object, at));
        self.held[usize::from(segment.unread.is_some())] += segment.bytes.len();
        self.segments.insert((object, at), Segment { used: self.clock, ..segment });
    }

    fn remove(&mut self, place: (Object, u64)) {
        if let Some(segment) = self.segments.remove(&place) {
            self.held[usize::from(segment.unread.is_some())] -= segment.bytes.len();
        }
    }

    /// Drops the oldest of one sort until the rest fits, with some room, so that this is rare.
    fn evict(&mut self, ahead: bool, limit: usize) {
        let sort = usize::from(ahead);
        if self.held[sort] <= limit {
            return;
        }
        let of_sort = self.segments.iter().filter(|(_, s)| s.unread.is_some() == ahead);
        let mut oldest: Vec<_> = of_sort.map(|(&place, s)| (s.used, place)).collect();
        oldest.sort_unstable();
        for (_, place) in oldest {
            if self.held[sort] <= limit - limit / 8 {
                break;
            }
            self.remove(place);
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
            memory.keep(0, i * len, piece.clone());
        }
        assert_eq!(memory.get(0, &(5..8)).unwrap(), [[7; 3].as_slice()]);
        memory.keep(0, 4 * len, piece.clone());
        assert!(memory.contains(0, &(0..len)), "used last");
        assert!(!memory.contains(0, &(len..2 * len)), "used first");
        assert_eq!(memory.segments.len(), 3);
    }

    #[test]
    fn all_objects_share_the_bound() {
        let mut memory = Memory::default();
        let piece = Bytes::from(vec![7; 1 << 20]);
        for object in 0..600 {
            memory.keep(object, 0, piece.clone());
            memory.keep_ahead(object, 5 << 20, piece.clone(), 1 << 20);
        }
        assert!(memory.held[0] <= KEPT && memory.held[1] <= AHEAD, "{:?}", memory.held);
        assert!(memory.contains(599, &(0..10)) && !memory.contains(0, &(0..10)));
        memory.forget(599);
        assert!(!memory.contains(599, &(0..10)) && memory.contains(598, &(0..10)));
        (0..600).for_each(|object| memory.forget(object));
        assert_eq!((memory.segments.len(), memory.held), (0, [0, 0]));
    }

    #[test]
    fn bytes_of_several_segments_are_found() {
        let mut memory = Memory::default();
        memory.keep_ahead(1, 0, Bytes::from_static(b"abc"), 3);
        memory.keep_ahead(1, 3, Bytes::from_static(b"def"), 3);
        memory.keep_ahead(1, 7, Bytes::from_static(b"h"), 1);
        memory.keep_ahead(2, 6, Bytes::from_static(b"g"), 1);
        assert_eq!(memory.get(1, &(2..5)).unwrap(), [b"c".as_slice(), b"de"]);
        assert!(memory.get(1, &(5..8)).is_none());
        assert_eq!(memory.held, [0, 8]);
        assert_eq!(memory.get(1, &(0..6)).unwrap().concat(), b"abcdef");
        assert_eq!(memory.held, [6, 2]);
    }

    #[test]
    fn what_was_fetched_ahead_stays_until_it_was_read() {
        let mut memory = Memory::default();
        memory.keep_ahead(0, 0, Bytes::from_static(b"abcdef"), 4);
        let piece = Bytes::from(vec![0; KEPT]);
        memory.keep(0, 100, piece.clone());
        memory.keep(0, 1 << 40, piece.clone());
        assert_eq!(memory.get(0, &(1..3)).unwrap(), [b"bc".as_slice()]);
        assert!(memory.get(0, &(4..6)).is_some());
        assert!(memory.segments.values().all(|segment| segment.unread.is_none()));
        let held: usize = memory.segments.values().map(|segment| segment.bytes.len()).sum();
        assert_eq!(memory.held, [held, 0]);
    }
}
