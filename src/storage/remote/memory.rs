//! Fetched bytes of the objects of a storage that are still in memory: one budget for all objects.

use std::collections::BTreeMap;
use std::ops::Range;

use bytes::Bytes;

/// Bytes of what was read that stay in memory.
pub(super) const KEPT: usize = 64 << 20;
/// Bytes of what was fetched ahead and not read yet.
pub(super) const AHEAD: usize = 512 << 20;

/// The same of what was fetched ahead and read, all that it was fetched for: few of it are read again.
const DONE: usize = 16 << 20;

/// Segments that are looked at for some bytes.
const SEARCHED: usize = 64;

/// An object that is open: its number in this storage.
pub(super) type Object = u64;

/// Fetched bytes.
#[derive(Default)]
pub(super) struct Memory {
    /// By object, and where they begin.
    segments: BTreeMap<(Object, u64), Segment>,
    /// Bytes of each sort.
    held: [usize; 3],
    clock: u64,
}

/// Why a segment is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sort {
    /// It was read.
    Kept = 0,
    /// It was fetched ahead, and not all of it was read yet.
    Ahead = 1,
    /// It was fetched ahead and read.
    Done = 2,
}

impl Sort {
    /// Bytes of it that are kept.
    fn limit(self) -> usize {
        match self {
            Sort::Kept => KEPT,
            Sort::Ahead => AHEAD,
            Sort::Done => DONE,
        }
    }
}

struct Segment {
    bytes: Bytes,
    used: u64,
    sort: Sort,
    unread: Unread,
}

/// The unread bytes of a segment that was fetched ahead.
#[derive(Debug, Default)]
struct Unread {
    left: u64,
    /// Ranges that were read, from end to begin: neighbours are merged.
    read: BTreeMap<u64, u64>,
}

impl Unread {
    /// Notes a read. Only what is read for the first time counts.
    fn pass(&mut self, range: Range<u64>) {
        let (mut start, mut end, mut new) = (range.start, range.end, range.end - range.start);
        while let Some((&last, &first)) = self.read.range(start..).next().filter(|r| *r.1 <= end) {
            new -= range.end.min(last).saturating_sub(range.start.max(first));
            (start, end) = (start.min(first), end.max(last));
            self.read.remove(&last);
        }
        self.read.insert(end, start);
        self.left = self.left.saturating_sub(new);
    }

    /// Counts these bytes as unread again: they will be read once more.
    fn again(&mut self, range: Range<u64>) {
        while let Some((&last, &first)) =
            self.read.range(range.start + 1..).next().filter(|r| *r.1 < range.end)
        {
            self.read.remove(&last);
            self.left += last.min(range.end) - first.max(range.start);
            if first < range.start {
                self.read.insert(range.start, first);
            }
            if range.end < last {
                self.read.insert(last, range.end);
            }
        }
    }
}

impl Memory {
    /// The segments that these bytes are in, one behind the other, if all are there. One that begins far
    /// before, with many others between, is not found: then the bytes are fetched again.
    fn find(&self, object: Object, range: &Range<u64>) -> Option<Vec<u64>> {
        let mut found = Vec::new();
        let mut at = range.start;
        while at < range.end {
            let before = self.segments.range((object, 0)..=(object, at)).rev().take(SEARCHED);
            // Any of several would do; the one that reaches farthest is not looked for.
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

    /// Whether these bytes are there, and then they stay until they are read: else what was read before would
    /// make room for what is fetched with them.
    pub(super) fn claim(&mut self, object: Object, range: &Range<u64>) -> bool {
        let Some(found) = self.find(object, range) else { return false };
        for start in found {
            let Some(segment) = self.segments.get_mut(&(object, start)) else { continue };
            let len = segment.bytes.len() as u64;
            if segment.sort != Sort::Ahead {
                self.held[segment.sort as usize] -= segment.bytes.len();
                self.held[Sort::Ahead as usize] += segment.bytes.len();
                segment.sort = Sort::Ahead;
                segment.unread = Unread { left: 0, read: BTreeMap::from([(len, 0)]) };
            }
            let (from, to) = (range.start.max(start), range.end.min(start + len));
            segment.unread.again(from - start..to - start);
        }
        true
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
            pieces.push(segment.bytes.slice((at - start) as usize..(end - start) as usize));
            if segment.sort == Sort::Ahead {
                segment.unread.pass(at - start..end - start);
                // All of it was read, as expected. It may still be read once more, as when a key
                // was compared before.
                if segment.unread.left == 0 {
                    (segment.sort, segment.unread) = (Sort::Done, Unread::default());
                    self.held[Sort::Ahead as usize] -= segment.bytes.len();
                    self.held[Sort::Done as usize] += segment.bytes.len();
                }
            }
            at = end;
        }
        self.evict(Sort::Done);
        Some(pieces)
    }

    /// Keeps what was read.
    pub(super) fn keep(&mut self, object: Object, at: u64, bytes: Bytes) {
        self.add(object, at, bytes, Sort::Kept, 0);
    }

    /// Keeps what was fetched ahead, until this many bytes of it were read.
    pub(super) fn keep_ahead(&mut self, object: Object, at: u64, bytes: Bytes, unread: u64) {
        self.add(object, at, bytes, Sort::Ahead, unread);
    }

    /// Forgets an object, which is closed.
    pub(super) fn forget(&mut self, object: Object) {
        let of_object = self.segments.range((object, 0)..=(object, u64::MAX));
        let found: Vec<u64> = of_object.map(|(&(_, at), _)| at).collect();
        found.into_iter().for_each(|at| self.remove((object, at)));
    }

    fn add(&mut self, object: Object, at: u64, bytes: Bytes, sort: Sort, left: u64) {
        self.clock += 1;
        let is_longer = |other: &Segment| other.bytes.len() >= bytes.len();
        if bytes.is_empty() || self.segments.get(&(object, at)).is_some_and(is_longer) {
            return;
        }
        self.remove((object, at));
        self.held[sort as usize] += bytes.len();
        let unread = Unread { left, ..Unread::default() };
        self.segments.insert((object, at), Segment { bytes, used: self.clock, sort, unread });
        self.evict(sort);
    }

    fn remove(&mut self, place: (Object, u64)) {
        if let Some(segment) = self.segments.remove(&place) {
            self.held[segment.sort as usize] -= segment.bytes.len();
        }
    }

    /// Drops the oldest of one sort until the rest fits, with some room, so that this is rare.
    fn evict(&mut self, sort: Sort) {
        let limit = sort.limit();
        if self.held[sort as usize] <= limit {
            return;
        }
        let of_sort = self.segments.iter().filter(|(_, segment)| segment.sort == sort);
        let mut oldest: Vec<_> = of_sort.map(|(&place, s)| (s.used, place)).collect();
        oldest.sort_unstable();
        for (_, place) in oldest {
            if self.held[sort as usize] <= limit - limit / 8 {
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
        assert_eq!((memory.segments.len(), memory.held), (0, [0; 3]));
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
        assert_eq!(memory.held, [0, 8, 0]);
        assert_eq!(memory.get(1, &(0..6)).unwrap().concat(), b"abcdef");
        assert_eq!(memory.held, [0, 2, 6]);
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
        assert!(memory.segments.values().all(|segment| segment.sort != Sort::Ahead));
        let held: usize = memory.segments.values().map(|segment| segment.bytes.len()).sum();
        assert_eq!(memory.held.iter().sum::<usize>(), held);
    }

    #[test]
    fn what_is_read_twice_counts_once() {
        let mut memory = Memory::default();
        memory.keep_ahead(0, 100, Bytes::from_static(b"abcdefghij"), 10);
        // As when a sample is read, and then its key.
        for range in [102..104, 102..104, 103..106, 100..101, 101..103, 108..110, 107..109] {
            assert!(memory.get(0, &range).is_some());
        }
        assert_eq!(memory.held, [0, 10, 0]);
        assert_eq!(memory.segments[&(0, 100)].unread.left, 1);
        memory.get(0, &(106..107)).unwrap();
        assert_eq!(memory.held, [0, 0, 10]);
    }

    #[test]
    fn what_is_read_again_stays() {
        let mut memory = Memory::default();
        let piece = Bytes::from(vec![7; 1 << 20]);
        memory.keep_ahead(0, 0, piece.clone(), 1 << 20);
        memory.get(0, &(0..1 << 20)).unwrap();
        // In the next epoch, before much else.
        assert!(memory.claim(0, &(100..200)) && memory.claim(0, &(300..400)));
        assert!(memory.claim(0, &(150..250)) && !memory.claim(0, &(1 << 20..(1 << 20) + 1)));
        assert_eq!((memory.held, memory.segments[&(0, 0)].unread.left), ([0, 1 << 20, 0], 250));
        for at in 1..40 {
            memory.keep_ahead(0, at << 20, piece.clone(), 1 << 20);
            memory.get(0, &(at << 20..(at + 1) << 20)).unwrap();
        }
        for range in [100..250, 0..50, 300..399] {
            memory.get(0, &range).unwrap();
            assert_eq!(memory.held[1], 1 << 20, "{range:?}");
        }
        memory.get(0, &(399..400)).unwrap();
        assert_eq!(memory.held[1], 0);
    }

    #[test]
    fn what_a_loader_has_read_makes_room_soon() {
        let mut memory = Memory::default();
        let piece = Bytes::from(vec![7; 1 << 20]);
        for at in 0..40 {
            memory.keep_ahead(0, at << 20, piece.clone(), 1 << 20);
            memory.get(0, &(at << 20..(at + 1) << 20)).unwrap();
            assert!(memory.held[2] <= DONE);
        }
        // It may be asked for once more.
        assert!(memory.contains(0, &(39 << 20..40 << 20)) && !memory.contains(0, &(0..1)));
    }
}
