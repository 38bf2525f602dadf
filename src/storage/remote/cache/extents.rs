//! Which bytes of an object are cached, and in which record: pure numbers.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

/// A file of the cache.
#[derive(Debug, PartialEq, Eq)]
pub(in super::super) struct Segment {
    pub(super) name: String,
}

/// Where some bytes of an object are.
#[derive(Debug, Clone)]
pub(in super::super) struct Record {
    pub(super) segment: Arc<Segment>,
    /// Where the record begins in the file.
    pub(super) position: u64,
    /// Its bytes in the object.
    pub(super) range: Range<u64>,
}

/// Bytes that are wanted.
#[derive(Debug, Clone)]
pub(in super::super) enum Piece {
    /// They are in this record.
    Cached(Range<u64>, Record),
    /// They have to be fetched.
    Missing(Range<u64>),
}

impl Piece {
    /// The bytes that are wanted.
    pub(in super::super) fn range(&self) -> &Range<u64> {
        match self {
            Piece::Cached(range, _) | Piece::Missing(range) => range,
        }
    }
}

/// Less than this is fetched with what is missing on both sides of it: a request costs more.
const SMALL: u64 = 16 << 10;

/// The cached bytes of an object. No two overlap.
#[derive(Debug, Default)]
pub(super) struct Extents(BTreeMap<u64, (u64, Record)>);

impl Extents {
    /// The parts of a range, in order.
    pub(super) fn plan(&self, range: &Range<u64>) -> Vec<Piece> {
        let mut pieces: Vec<Piece> = Vec::new();
        let mut at = range.start;
        let before = self.0.range(..range.start).next_back();
        for (&start, (end, record)) in before.into_iter().chain(self.0.range(range.clone())) {
            let (start, end) = (start.max(at), (*end).min(range.end));
            if start >= end {
                continue;
            }
            if at < start {
                add_missing(&mut pieces, at..start);
            }
            pieces.push(Piece::Cached(start..end, record.clone()));
            at = end;
        }
        if at < range.end {
            add_missing(&mut pieces, at..range.end);
        }
        pieces
    }

    /// Adds the bytes of a record that are not there yet.
    pub(super) fn add(&mut self, record: &Record) {
        for piece in self.plan(&record.range) {
            let Piece::Missing(range) = piece else { continue };
            // One that took something small along takes its place.
            let within: Vec<u64> = self.0.range(range.clone()).map(|(&start, _)| start).collect();
            within.iter().for_each(|start| drop(self.0.remove(start)));
            self.0.insert(range.start, (range.end, record.clone()));
        }
    }

    /// Forgets a record, which is damaged or gone.
    pub(super) fn forget(&mut self, gone: &Record) {
        let is_gone = |r: &Record| r.segment == gone.segment && r.position == gone.position;
        self.0.retain(|_, (_, record)| !is_gone(record));
    }

    /// Forgets a file that is gone.
    pub(super) fn forget_segment(&mut self, gone: &Segment) {
        self.0.retain(|_, (_, record)| *record.segment != *gone);
    }

    /// Forgets the records of all other files.
    pub(super) fn keep(&mut self, is_there: impl Fn(&str) -> bool) {
        self.0.retain(|_, (_, record)| is_there(&record.segment.name));
    }
}

/// Adds bytes to fetch, together with what is missing before them if little lies between.
fn add_missing(pieces: &mut Vec<Piece>, range: Range<u64>) {
    let mut between = 0;
    for at in (0..pieces.len()).rev() {
        match &pieces[at] {
            Piece::Cached(cached, _) => between += cached.end - cached.start,
            Piece::Missing(before) => {
                let start = before.start;
                pieces.truncate(at);
                return pieces.push(Piece::Missing(start..range.end));
            }
        }
        if between >= SMALL {
            break;
        }
    }
    pieces.push(Piece::Missing(range));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sampler::rng::StableRng;

    fn record(name: &str, range: Range<u64>) -> Record {
        let segment = Arc::new(Segment { name: name.to_owned() });
        Record { segment, position: range.start, range }
    }

    #[test]
    fn random_records_cover_what_they_cover() {
        let mut rng = StableRng::new(&[3]);
        for _ in 0..200 {
            let mut extents = Extents::default();
            let unit = SMALL / 2;
            let mut cached = [false; 100];
            for _ in 0..rng.below(20) {
                let start = rng.below(90) as usize;
                let end = start + 1 + rng.below(10) as usize;
                extents.add(&record("a", start as u64 * unit..end as u64 * unit));
                cached[start..end].fill(true);
            }
            let range = rng.below(50)..50 + rng.below(50);
            let pieces = extents.plan(&(range.start * unit..range.end * unit));
            let mut at = range.start * unit;
            for piece in &pieces {
                let (found, is_cached) = match piece {
                    Piece::Cached(range, record) => {
                        assert!(record.range.start <= range.start && range.end <= record.range.end);
                        (range, true)
                    }
                    Piece::Missing(range) => (range, false),
                };
                assert_eq!(found.start, at);
                assert!(found.start < found.end);
                at = found.end;
                for unit_at in found.start / unit..found.end / unit {
                    // Only something small is fetched although it is there.
                    assert!(!is_cached || cached[unit_at as usize]);
                }
            }
            assert_eq!(at, range.end * unit);
            let missing = range.clone().filter(|&at| !cached[at as usize]).count() as u64;
            let fetched: u64 = pieces
                .iter()
                .map(|piece| match piece {
                    Piece::Missing(range) => range.end - range.start,
                    Piece::Cached(..) => 0,
                })
                .sum();
            assert!(missing * unit <= fetched);
        }
    }

    #[test]
    fn small_pieces_are_fetched_with_their_neighbours() {
        let mut extents = Extents::default();
        extents.add(&record("a", 100..200));
        assert_eq!(extents.plan(&(100..200)).len(), 1);
        assert_eq!(extents.plan(&(50..200)).len(), 2);
        assert!(
            matches!(&extents.plan(&(50..300))[..], [Piece::Missing(all)] if *all == (50..300))
        );
        extents.add(&record("b", 50..300));
        assert!(
            matches!(&extents.plan(&(60..290))[..], [Piece::Cached(all, _)] if *all == (60..290))
        );
        extents.add(&record("c", 1000..1000 + SMALL));
        assert_eq!(extents.plan(&(900..1100 + SMALL)).len(), 3);
        extents.keep(|name| name != "c");
        extents.forget(&record("b", 50..300));
        assert!(matches!(&extents.plan(&(0..2000))[..], [Piece::Missing(_)]));
    }
}
