//! Which requests to make for some ranges: pure numbers.

use std::ops::Range;

/// Ranges at most this many bytes apart are fetched in one request: what lies between is not more than
/// the headers of another request.
const GAP: u64 = 512;
/// Of what is fetched together a part of this many may lie between: a few hundredths more bytes, and far
/// fewer requests.
const SHARE: u64 = 32;
/// Bytes of one request, at most half as many again: more are fetched over several connections.
pub(super) const PART: u64 = 4 << 20;
/// Bytes of the requests of all connections together, of what a loader fetches ahead: with few connections
/// requests are larger, up to twice as large, so that fewer of them wait for answers to begin.
const IN_FLIGHT: u64 = 128 << 20;
/// Reads shorter than this are of entries of side files, whose neighbours are read soon.
const ENTRY: u64 = 64;
/// What is fetched around an entry.
pub(super) const PAGE: u64 = 4 << 10;
/// How far the first reading ahead goes, and the farthest.
const AHEAD: Range<u64> = 64 << 10..32 << 20;
/// From how far on what is read next is on its way while its reader is busy.
const FLOWING: u64 = 2 * PART;

/// Sorts ranges, and merges neighbours.
pub(super) fn merge(mut ranges: Vec<Range<u64>>) -> Vec<Range<u64>> {
    ranges.retain(|range| range.start < range.end);
    ranges.sort_unstable_by_key(|range| range.start);
    let mut merged: Vec<Range<u64>> = Vec::with_capacity(ranges.len());
    // What may lie between the ranges of the last run, in all.
    let mut spare = 0;
    for range in ranges {
        let len = range.end - range.start;
        if let Some(last) = merged.last_mut() {
            let gap = range.start.saturating_sub(last.end);
            if gap <= GAP.max(spare) {
                spare = (spare + len / SHARE).saturating_sub(gap);
                last.end = last.end.max(range.end);
                continue;
            }
        }
        spare = len / SHARE;
        merged.push(range);
    }
    merged
}

/// Bytes of one request of what is fetched ahead over this many connections.
pub(super) fn part_ahead(connections: usize) -> u64 {
    (IN_FLIGHT / connections.max(1) as u64).clamp(PART, 2 * PART)
}

/// A range in parts of one request each, all about as large: a small rest would take a connection for as
/// long as it waits for the answer to begin.
pub(super) fn parts(range: Range<u64>, part: u64) -> impl Iterator<Item = Range<u64>> {
    let Range { start, end } = range;
    let len = end.saturating_sub(start);
    let count = (len / part + u64::from(len % part > part / 2)).max(1);
    let size = len.div_ceil(count).max(1);
    let starts = (start..end).step_by(usize::try_from(size).unwrap_or(usize::MAX));
    starts.map(move |start| start..end.min(start.saturating_add(size)))
}

/// Recognises reading from front to back, and says how far to read ahead.
#[derive(Debug, Default)]
pub(super) struct ReadAhead {
    /// Where the last read ended, and how far ahead of it is fetched.
    last: Option<(u64, u64)>,
    /// Up to where what lies ahead was asked for, once it flows.
    asked: Option<u64>,
}

impl ReadAhead {
    /// What to fetch for a read that needs these bytes of a file of `len` bytes.
    pub(super) fn fetch(&mut self, wanted: &Range<u64>, len: u64) -> Range<u64> {
        let window = match self.last {
            Some((end, window)) if wanted.start <= end && wanted.end > end => {
                (window * 2).clamp(AHEAD.start, AHEAD.end)
            }
            _ => 0,
        };
        self.last = Some((wanted.end, window));
        self.asked = None;
        if window == 0 && wanted.end - wanted.start < ENTRY {
            return wanted.start / PAGE * PAGE..wanted.end.next_multiple_of(PAGE).min(len);
        }
        // The rest is asked for next, and not waited for.
        let now = if window < FLOWING { window } else { PART };
        let end = wanted.end.max(wanted.start.saturating_add(now)).min(len);
        self.asked = (window >= FLOWING).then_some(end);
        wanted.start..end
    }

    /// What to ask for next without waiting for it, if anything.
    pub(super) fn flow(&mut self, len: u64) -> Option<Range<u64>> {
        let ((at, window), start) = (self.last?, self.asked?);
        let reach = at.saturating_add(window).min(len);
        let end = start.saturating_add(PART).min(len);
        if start >= len || end > reach {
            return None;
        }
        self.asked = Some(end);
        self.last = Some((at, (window + PART).min(AHEAD.end)));
        Some(start..end)
    }

    /// The same for a read that goes beyond what was asked for, and begins before.
    pub(super) fn flow_to(&mut self, wanted: &Range<u64>) -> Option<Range<u64>> {
        let start = self.asked.filter(|asked| wanted.contains(asked))?;
        self.asked = Some(wanted.end);
        Some(start..wanted.end)
    }

    /// Notes a read that needed no request.
    pub(super) fn pass(&mut self, wanted: &Range<u64>) {
        if let Some((end, _)) = &mut self.last {
            if wanted.start <= *end {
                *end = (*end).max(wanted.end);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_merged() {
        let far = 10 + GAP + 1;
        let ranges = vec![far..far + 5, 5..10, 0..5, 3..4, 7..7];
        assert_eq!(merge(ranges), [0..10, far..far + 5]);
        assert_eq!(merge(vec![far - 1..far, 0..10, 2 * far..3 * far]), [0..far, 2 * far..3 * far]);
        assert!(merge(vec![]).is_empty());
    }

    #[test]
    fn little_lies_between_what_is_fetched_together() {
        // Samples of 1000 bytes, some of which are wanted.
        for every in [2, 3, 50] {
            let wanted = |i: &u64| i % every != 0;
            let ranges: Vec<_> =
                (0..1000).filter(wanted).map(|i| i * 1000..i * 1000 + 1000).collect();
            let bytes = |ranges: &[Range<u64>]| ranges.iter().map(|r| r.end - r.start).sum::<u64>();
            let merged = merge(ranges.clone());
            assert!(bytes(&merged) <= bytes(&ranges) * 105 / 100, "{every}");
            assert!(every < 50 || merged.len() < 15, "{}", merged.len());
        }
    }

    #[test]
    fn parts_are_bounded_and_cover_the_range() {
        let all: Vec<_> = parts(7..7 + 2 * PART + 1, PART).collect();
        assert_eq!(all, [7..8 + PART, 8 + PART..8 + 2 * PART]);
        for len in [1, PART, PART + PART / 2, PART + PART / 2 + 1, 5 * PART / 2 + 1, 9 * PART - 1] {
            let all: Vec<_> = parts(5..5 + len, PART).collect();
            assert!(all.iter().all(|part| part.end - part.start <= PART * 3 / 2), "{len}");
            assert!(len < PART || all.iter().all(|part| part.end - part.start >= PART * 3 / 4));
            assert_eq!((all[0].start, all[all.len() - 1].end), (5, 5 + len));
            assert!(all.windows(2).all(|pair| pair[0].end == pair[1].start), "{len}");
        }
        assert_eq!(parts(3..3, PART).count(), 0);
    }

    #[test]
    fn few_connections_send_larger_requests() {
        let parts = [1, 8, 16, 24, 32, 256].map(part_ahead);
        assert_eq!(parts.map(|part| part >> 20), [8, 8, 8, 5, 4, 4]);
    }

    #[test]
    fn random_reads_fetch_what_they_need() {
        let mut ahead = ReadAhead::default();
        let len = 1 << 40;
        assert_eq!(ahead.fetch(&(0..5000), len), 0..5000);
        assert_eq!(ahead.fetch(&(1 << 30..(1 << 30) + 5000), len), 1 << 30..(1 << 30) + 5000);
        // Entries: the page that they are in, and no more than there is.
        assert_eq!(ahead.fetch(&(10_000..10_016), len), 8192..12288);
        assert_eq!(ahead.fetch(&(16_376..16_392), 16_392), 12288..16_392);
    }

    #[test]
    fn reading_in_order_reads_ahead_more_and_more() {
        let (mut ahead, len, mut at, mut requests) = (ReadAhead::default(), 1 << 30, 0, 0);
        while at < len {
            let fetched = ahead.fetch(&(at..at + 1000), len);
            requests += 1;
            assert!(fetched.contains(&at) && fetched.end <= len);
            assert!(fetched.end - fetched.start <= AHEAD.end);
            while at + 1000 <= fetched.end {
                ahead.pass(&(at..at + 1000));
                at += 1000;
            }
            if at + 1000 > len {
                break;
            }
        }
        // Mostly of one part each: what follows is not waited for.
        assert!(requests < 280, "{requests}");
    }

    #[test]
    fn what_is_read_in_order_flows_and_is_bounded() {
        let (mut ahead, len) = (ReadAhead::default(), (300 << 20) + 5);
        let (mut fetched, mut at, mut asked, mut most) = (0, 0, 0, 0);
        while at < len {
            let wanted = at..(at + 100_000).min(len);
            let mut next = ahead.flow_to(&wanted);
            if wanted.end > fetched && next.is_none() {
                fetched = ahead.fetch(&wanted, len).end;
            }
            ahead.pass(&wanted);
            at = wanted.end;
            while let Some(range) = next.take().or_else(|| ahead.flow(len)) {
                assert_eq!(range.start, fetched);
                fetched = range.end;
                asked += 1;
            }
            most = most.max(fetched - at);
        }
        assert_eq!(fetched, len);
        assert!(most <= AHEAD.end + PART && most > AHEAD.end / 2, "{most}");
        assert!((60..90).contains(&asked), "{asked}");
        // Elsewhere nothing lies ahead.
        ahead.fetch(&(1 << 20..2 << 20), len);
        assert_eq!(ahead.flow(len), None);
    }
}
