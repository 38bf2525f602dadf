//! Which requests to make for some ranges: pure numbers.

use std::collections::VecDeque;
use std::ops::Range;

/// Ranges at most this many bytes apart are fetched in one request: the bytes between are no more than the
/// headers of another request.
const GAP: u64 = 512;
/// The gaps in a request may be one part in this many: a few hundredths more bytes, and far
/// fewer requests.
const SHARE: u64 = 32;
/// Bytes of one request, at most half as many again: more are fetched over several connections.
pub(super) const PART: u64 = 4 << 20;
/// Bytes of the requests of all connections together, of what a loader fetches ahead: with few connections
/// requests are larger, up to twice as large, so that fewer of them wait for answers to begin.
const IN_FLIGHT: u64 = 128 << 20;
/// Reads shorter than this are of entries of side files, whose neighbours are read soon.
const ENTRY: u64 = 64;
/// Bytes fetched around an entry.
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
    // How large a gap the last run may still bridge.
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

/// Readings from front to back that are remembered while a file is read elsewhere.
const ASIDE: usize = 3;

/// Recognises reading from front to back, also of several places in turn, and says how far to read ahead.
#[derive(Debug, Default)]
pub(super) struct ReadAhead {
    /// The reading that the last read belongs to.
    last: Option<Reading>,
    /// Others that may go on, the oldest first.
    aside: VecDeque<Reading>,
    /// Bytes requested ahead for a reading that was forgotten.
    forgotten: Option<Range<u64>>,
}

/// One reading from front to back.
#[derive(Debug)]
struct Reading {
    /// Where its last read ended, and how far ahead of it is fetched.
    end: u64,
    window: u64,
    /// Up to where what lies ahead was asked for, once it flows.
    asked: Option<u64>,
}

impl Reading {
    fn goes_on_with(&self, wanted: &Range<u64>) -> bool {
        wanted.start <= self.end && wanted.end > self.end
    }
}

impl ReadAhead {
    /// The range to fetch for a read that needs these bytes of a file of `len` bytes.
    pub(super) fn fetch(&mut self, wanted: &Range<u64>, len: u64) -> Range<u64> {
        self.turn_to(|reading| reading.goes_on_with(wanted));
        let window = match self.last.take() {
            Some(reading) if reading.goes_on_with(wanted) => {
                (reading.window * 2).clamp(AHEAD.start, AHEAD.end)
            }
            elsewhere => {
                self.put_aside(elsewhere);
                0
            }
        };
        let reading = self.last.insert(Reading { end: wanted.end, window, asked: None });
        if window == 0 && wanted.end - wanted.start < ENTRY {
            return wanted.start / PAGE * PAGE..wanted.end.next_multiple_of(PAGE).min(len);
        }
        // The rest is asked for next, and not waited for.
        let now = if window < FLOWING { window } else { PART };
        let end = wanted.end.max(wanted.start.saturating_add(now)).min(len);
        reading.asked = (window >= FLOWING).then_some(end);
        wanted.start..end
    }

    /// The next range to request without waiting for it, if any.
    pub(super) fn flow(&mut self, len: u64) -> Option<Range<u64>> {
        let reading = self.last.as_mut()?;
        let start = reading.asked?;
        let reach = reading.end.saturating_add(reading.window).min(len);
        let end = start.saturating_add(PART).min(len);
        if start >= len || end > reach {
            return None;
        }
        reading.asked = Some(end);
        reading.window = (reading.window + PART).min(AHEAD.end);
        Some(start..end)
    }

    /// The same for a read that goes beyond what was asked for, and begins before.
    pub(super) fn flow_to(&mut self, wanted: &Range<u64>) -> Option<Range<u64>> {
        let is_beyond = |reading: &Reading| reading.asked.is_some_and(|at| wanted.contains(&at));
        self.turn_to(is_beyond);
        let reading = self.last.as_mut().filter(|reading| is_beyond(reading))?;
        let start = reading.asked.replace(wanted.end)?;
        Some(start..wanted.end)
    }

    /// Notes a read that needed no request.
    pub(super) fn pass(&mut self, wanted: &Range<u64>) {
        self.turn_to(|reading| reading.goes_on_with(wanted));
        if let Some(reading) = self.last.as_mut().filter(|reading| reading.goes_on_with(wanted)) {
            reading.end = wanted.end;
        }
    }

    /// The caller asks for these bytes itself: what would be asked for next is among them.
    pub(super) fn announce(&mut self, ranges: &[Range<u64>]) {
        for reading in self.last.iter_mut().chain(&mut self.aside) {
            let Some(asked) = reading.asked else { continue };
            let reach = asked.saturating_add(AHEAD.end);
            if ranges.iter().any(|range| range.start < reach && reading.end < range.end) {
                reading.asked = None;
            }
        }
    }

    /// Requested bytes that are not expected any more, because too many other places are read.
    pub(super) fn forgotten(&mut self) -> Option<Range<u64>> {
        self.forgotten.take()
    }

    /// Continues this read, if there is one.
    fn turn_to(&mut self, is_it: impl Fn(&Reading) -> bool) {
        if self.last.as_ref().is_some_and(&is_it) {
            return;
        }
        let Some(found) = self.aside.iter().position(is_it) else { return };
        let found = self.aside.remove(found);
        let before = std::mem::replace(&mut self.last, found);
        self.put_aside(before);
    }

    fn put_aside(&mut self, reading: Option<Reading>) {
        // A single read is none.
        self.aside.extend(reading.filter(|reading| reading.window > 0));
        if self.aside.len() > ASIDE {
            let oldest = self.aside.pop_front();
            self.forgotten = oldest.and_then(|oldest| Some(oldest.end..oldest.asked?));
        }
    }
}

/// The parts of these ranges that are in none of the others.
pub(super) fn without(ranges: Vec<Range<u64>>, others: &[Range<u64>]) -> Vec<Range<u64>> {
    others.iter().fold(ranges, |ranges, other| {
        let rest = ranges.into_iter().flat_map(|range| {
            let before = range.start..range.end.min(other.start);
            let behind = range.start.max(other.end)..range.end;
            [before, behind]
        });
        rest.filter(|rest| rest.start < rest.end).collect()
    })
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

    #[test]
    fn reading_in_order_goes_on_after_reads_elsewhere() {
        let (mut ahead, len) = (ReadAhead::default(), 1 << 40);
        let step = |ahead: &mut ReadAhead, at: u64, fetched: &mut u64| {
            let wanted = at..at + (1 << 20);
            match wanted.end > *fetched {
                true => *fetched = ahead.fetch(&wanted, len).end,
                false => ahead.pass(&wanted),
            }
            while let Some(range) = ahead.flow(len) {
                assert_eq!(range.start, *fetched);
                *fetched = range.end;
            }
        };
        let (mut one, mut other) = (0, 1 << 30);
        let all: Vec<u64> = (0..64 << 20).step_by(1 << 20).collect();
        let (begin, rest) = all.split_at(16);
        begin.iter().for_each(|at| step(&mut ahead, *at, &mut one));
        begin.iter().for_each(|at| step(&mut ahead, (1 << 30) + at, &mut other));
        for at in rest {
            step(&mut ahead, *at, &mut one);
            step(&mut ahead, (1 << 30) + at, &mut other);
            let elsewhere = (1 << 34) + 5 * at;
            assert_eq!(ahead.fetch(&(elsewhere..elsewhere + 1000), len).end, elsewhere + 1000);
            assert_eq!((ahead.flow(len), ahead.forgotten()), (None, None));
        }
        assert!(one > 90 << 20 && other > (1 << 30) + (90 << 20), "{one} {other}");
        // Ranges that others requested are not guessed.
        ahead.announce(&[2 << 30..3 << 30, 4 << 30..5 << 30]);
        step(&mut ahead, 64 << 20, &mut one);
        assert!(ahead.last.as_ref().unwrap().asked.is_some());
        ahead.announce(&[2 << 30..3 << 30, one + 5..one + 6]);
        assert_eq!((ahead.last.as_ref().unwrap().asked, ahead.flow(len)), (None, None));
    }

    #[test]
    fn only_some_readings_are_remembered() {
        let (mut ahead, len) = (ReadAhead::default(), 1 << 40);
        let mut forgotten = Vec::new();
        for place in 0..ASIDE as u64 + 2 {
            let mut at = place << 34;
            // Until it flows.
            loop {
                let end = ahead.fetch(&(at..at + 1000), len).end;
                ahead.pass(&(at..end));
                at = end;
                forgotten.extend(ahead.forgotten());
                if ahead.flow(len).is_some() {
                    break;
                }
            }
        }
        assert_eq!(forgotten.len(), 1, "{forgotten:?}");
        assert!(forgotten[0].end < 1 << 30 && forgotten[0].start < forgotten[0].end);
    }

    #[test]
    fn what_is_on_its_way_is_left_out() {
        let ranges = vec![0..10, 20..30, 30..50];
        assert_eq!(without(ranges.clone(), &[]), ranges);
        assert_eq!(without(ranges, &[5..25, 35..40, 0..1]), [1..5, 25..30, 30..35, 40..50]);
        assert!(without(vec![3..4, 6..7], &[6..7, 2..4]).is_empty());
    }
}
