//! Moving: carries out what plans decide, byte by byte, and decides nothing.
//!
//! For each transfer the positions of its [`Touch`] become byte offsets once per axis, so that a
//! chunk costs a few additions. Data that are contiguous at both ends are copied as one run, up to
//! the whole chunk; short runs have loops of their own. Large transfers are divided among threads,
//! each with a part of the destination for itself.

use std::ops::Range;

use rayon::prelude::*;

use crate::array::grid::{Group, Touch};
use crate::array::plan::Move;
use crate::error::Result;

/// Transfers of fewer bytes are not worth another thread.
const WORTH_THREADS: usize = 8 << 20;
/// Nor are chunks smaller than this.
const WORTH_SHARING: usize = 16 << 10;

/// Read-only chunks, wherever they are stored.
///
/// A slot holds one chunk, whole: its elements in C order, those at the edge of the array filled up
/// to the chunk's shape.
pub trait BaseSlab: std::fmt::Debug + Send + Sync {
    /// How many chunks there are.
    fn slots(&self) -> usize;

    /// Reads bytes of a chunk, beginning with byte `at` of it.
    ///
    /// Called with the shortest range that holds everything wanted of the chunk, once for each
    /// chunk and operation; never beyond the end of the chunk.
    fn read(&self, slot: usize, at: usize, into: &mut [u8]) -> Result<()>;

    /// The bytes of a chunk, if they are in memory uncompressed: then they are not copied first.
    fn chunk(&self, slot: usize) -> Option<&[u8]> {
        let _ = slot;
        None
    }

    /// Whether reading these bytes of a chunk takes little more than copying them: then it is not worth another
    /// thread.
    fn is_ready(&self, slot: usize, at: usize, len: usize) -> bool {
        let _ = (slot, at, len);
        false
    }

    /// Whether chunks hold the fill value beyond the edge of the array that they were made for.
    /// Then nothing needs to be copied when such an array grows.
    fn is_padded(&self) -> bool {
        false
    }
}

/// How the axes of an array are found in one end of a transfer.
pub(crate) struct Side<'a> {
    /// The distance of neighbours on each axis, in bytes.
    pub(crate) steps: &'a [isize],
    /// Whether positions are those in a chunk, or those in the value.
    pub(crate) chunked: bool,
}

/// The distances of neighbours in C order, in bytes.
pub(crate) fn c_steps(shape: &[usize], item: usize) -> Vec<isize> {
    let mut step = item as isize;
    let mut steps = vec![0; shape.len()];
    for (to, &size) in steps.iter_mut().zip(shape).rev() {
        *to = step;
        step = step.saturating_mul(size as isize);
    }
    steps
}

/// Where the bytes of a transfer are.
#[derive(Clone, Copy)]
pub(crate) enum Source<'a> {
    /// An array, beginning at this byte.
    Flat(&'a [u8], usize),
    /// Chunks side by side.
    Slots(&'a [u8]),
    /// Chunks elsewhere.
    Base(&'a dyn BaseSlab),
}

/// A transfer, made ready: byte offsets for every touched chunk of every group.
pub(crate) struct Program<'a> {
    groups: Vec<Ready<'a>>,
    axes: usize,
    item: usize,
    /// Bytes of a slot.
    slot: usize,
}

struct Ready<'a> {
    group: &'a Group,
    /// For each step, where it begins at both ends.
    starts: Vec<(isize, isize)>,
    /// For each step and axis, the distances.
    lanes: Vec<Lane>,
}

/// Positions on one axis at both ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Lane {
    count: usize,
    from: isize,
    to: isize,
}

/// State that a thread keeps between chunks.
struct Cursor {
    /// The touched chunk that the positions below are for.
    at: usize,
    positions: Vec<usize>,
    /// Which of its steps each group is at.
    steps: Vec<usize>,
    lanes: Vec<Lane>,
    outer: Vec<Lane>,
    odometer: Vec<usize>,
    scratch: Vec<u8>,
}

impl<'a> Program<'a> {
    pub(crate) fn new(
        touch: &'a Touch,
        from: &Side<'_>,
        to: &Side<'_>,
        item: usize,
        slot: usize,
    ) -> Program<'a> {
        let ready = |group: &'a Group| {
            let n = group.axes.len();
            let mut starts = Vec::with_capacity(group.segments.len() / n);
            let mut lanes = Vec::with_capacity(group.segments.len());
            for step in group.segments.chunks_exact(n) {
                let (mut start_from, mut start_to) = (0, 0);
                for (segment, &axis) in step.iter().zip(&group.axes) {
                    let one = |side: &Side<'_>| {
                        let (at, by) = match side.chunked {
                            true => (segment.in_chunk, segment.chunk_step),
                            false => (segment.in_value, segment.value_step),
                        };
                        (at as isize * side.steps[axis], by as isize * side.steps[axis])
                    };
                    let (from, to) = (one(from), one(to));
                    start_from += from.0;
                    start_to += to.0;
                    lanes.push(Lane { count: segment.count, from: from.1, to: to.1 });
                }
                starts.push((start_from, start_to));
            }
            Ready { group, starts, lanes }
        };
        let groups: Vec<Ready<'a>> = touch.groups.iter().map(ready).collect();
        let axes = touch.groups.iter().map(|group| group.axes.len()).sum();
        Program { groups, axes, item, slot }
    }

    fn cursor(&self) -> Cursor {
        let one = Lane { count: 1, from: 0, to: 0 };
        Cursor {
            at: usize::MAX,
            positions: vec![0; self.groups.len()],
            steps: vec![0; self.groups.len()],
            lanes: vec![one; self.axes],
            outer: Vec::with_capacity(self.axes),
            odometer: Vec::with_capacity(self.axes),
            scratch: Vec::new(),
        }
    }

    /// Goes to a touched chunk; to the next one without a division.
    #[inline]
    fn seek(&self, cursor: &mut Cursor, at: usize) {
        if at == cursor.at.wrapping_add(1) && cursor.at != usize::MAX {
            for (position, ready) in cursor.positions.iter_mut().zip(&self.groups).rev() {
                *position += 1;
                if *position < ready.group.len() {
                    break;
                }
                *position = 0;
            }
        } else {
            let mut rest = at;
            for (position, ready) in cursor.positions.iter_mut().zip(&self.groups).rev() {
                *position = rest % ready.group.len();
                rest /= ready.group.len();
            }
        }
        cursor.at = at;
    }

    /// Copies the touched part of the chunk that the cursor is at.
    #[inline]
    fn copy(&self, cursor: &mut Cursor, from: (&[u8], usize), to: (&mut [u8], usize)) {
        let (mut at_from, mut at_to) = (from.1 as isize, to.1 as isize);
        let mut more = false;
        for (k, ready) in self.groups.iter().enumerate() {
            let steps = ready.group.steps(cursor.positions[k]);
            more |= steps.len() > 1;
            cursor.steps[k] = steps.start;
            let (from, to) = ready.starts[steps.start];
            at_from += from;
            at_to += to;
            ready.set(steps.start, &mut cursor.lanes);
        }
        self.block(cursor, (from.0, at_from), (&mut *to.0, at_to));
        while more && self.next_step(cursor, &mut at_from, &mut at_to) {
            self.block(cursor, (from.0, at_from), (&mut *to.0, at_to));
        }
    }

    /// Advances to the next combination of steps, the last group fastest.
    fn next_step(&self, cursor: &mut Cursor, from: &mut isize, to: &mut isize) -> bool {
        for (k, ready) in self.groups.iter().enumerate().rev() {
            let steps = ready.group.steps(cursor.positions[k]);
            let old = ready.starts[cursor.steps[k]];
            let turned = cursor.steps[k] + 1 == steps.end;
            cursor.steps[k] = if turned { steps.start } else { cursor.steps[k] + 1 };
            let new = ready.starts[cursor.steps[k]];
            *from += new.0 - old.0;
            *to += new.1 - old.1;
            ready.set(cursor.steps[k], &mut cursor.lanes);
            if !turned {
                return true;
            }
        }
        false
    }

    /// Copies one block: all combinations of the lanes.
    #[inline]
    fn block(&self, cursor: &mut Cursor, from: (&[u8], isize), to: (&mut [u8], isize)) {
        // Lanes that continue the inner one merge with it.
        let mut run = self.item;
        let Cursor { lanes, outer, odometer, .. } = cursor;
        outer.clear();
        for lane in lanes.iter().rev().filter(|lane| lane.count != 1) {
            match outer.last_mut() {
                None if lane.from == run as isize && lane.to == run as isize => run *= lane.count,
                Some(inner)
                    if lane.from == inner.from * inner.count as isize
                        && lane.to == inner.to * inner.count as isize =>
                {
                    inner.count *= lane.count;
                }
                _ => outer.push(*lane),
            }
        }
        let (mut at_from, mut at_to) = (from.1 as usize, to.1 as usize);
        let (from, to) = (from.0, to.0);
        let Some((line, outer)) = outer.split_first() else {
            to[at_to..at_to + run].copy_from_slice(&from[at_from..at_from + run]);
            return;
        };
        if outer.is_empty() {
            return copy_line(run, line, from, at_from, to, at_to);
        }
        odometer.clear();
        odometer.resize(outer.len(), 0);
        loop {
            copy_line(run, line, from, at_from, to, at_to);
            let mut turned = 0;
            for (k, lane) in odometer.iter_mut().zip(outer) {
                *k += 1;
                at_from = at_from.wrapping_add_signed(lane.from);
                at_to = at_to.wrapping_add_signed(lane.to);
                if *k < lane.count {
                    break;
                }
                *k = 0;
                let back = -(lane.count as isize);
                at_from = at_from.wrapping_add_signed(lane.from * back);
                at_to = at_to.wrapping_add_signed(lane.to * back);
                turned += 1;
            }
            if turned == outer.len() {
                return;
            }
        }
    }

    /// The range of bytes of the source chunk that is touched.
    fn touched(&self, cursor: &Cursor) -> (usize, usize) {
        self.extent(cursor, |start, lane| (start.0, lane.from))
    }

    /// Calls `with` for each move with the range of bytes of its slot that is written to.
    pub(crate) fn each_written(&self, moves: &[Move], mut with: impl FnMut(&Move, Range<usize>)) {
        let mut cursor = self.cursor();
        for one in moves {
            self.seek(&mut cursor, one.at);
            let (start, end) = self.extent(&cursor, |start, lane| (start.1, lane.to));
            with(one, start..end);
        }
    }

    /// From the first byte to the last at one end.
    fn extent(
        &self,
        cursor: &Cursor,
        which: impl Fn(&(isize, isize), &Lane) -> (isize, isize),
    ) -> (usize, usize) {
        let (mut low, mut high) = (0, self.item as isize);
        for (ready, &position) in self.groups.iter().zip(&cursor.positions) {
            let (first, last) = ready.ends(position, &which);
            low += first;
            high += last;
        }
        (low as usize, high as usize)
    }

    /// Where the touched part of a chunk begins at both ends, if it is one run of `len` bytes at
    /// both: then it need not be copied.
    fn one_run(&self, cursor: &mut Cursor, len: usize) -> Option<(usize, isize)> {
        let (mut from, mut to) = (0, 0);
        for (ready, &position) in self.groups.iter().zip(&cursor.positions) {
            let steps = ready.group.steps(position);
            if steps.len() != 1 {
                return None;
            }
            from += ready.starts[steps.start].0;
            to += ready.starts[steps.start].1;
            ready.set(steps.start, &mut cursor.lanes);
        }
        let mut run = self.item;
        for lane in cursor.lanes.iter().rev().filter(|lane| lane.count != 1) {
            if lane.from != run as isize || lane.to != run as isize {
                return None;
            }
            run *= lane.count;
        }
        (run == len).then_some((from as usize, to))
    }

    /// Copies one chunk. `from` is the slot of a slab.
    #[inline]
    fn chunk(
        &self,
        cursor: &mut Cursor,
        one: &Move,
        source: Source<'_>,
        to: (&mut [u8], usize),
    ) -> Result<()> {
        self.seek(cursor, one.at);
        match source {
            Source::Flat(bytes, start) => self.copy(cursor, (bytes, start), to),
            Source::Slots(bytes) => self.copy(cursor, (bytes, one.from as usize * self.slot), to),
            Source::Base(slab) => match slab.chunk(one.from as usize) {
                Some(bytes) => self.copy(cursor, (bytes, 0), to),
                None => {
                    let (start, end) = self.touched(cursor);
                    if let Some((from, to_start)) = self.one_run(cursor, end - start) {
                        debug_assert_eq!(from, start);
                        let to_start = to.1.wrapping_add_signed(to_start);
                        let into = &mut to.0[to_start..to_start + (end - start)];
                        return slab.read(one.from as usize, start, into);
                    }
                    let mut scratch = std::mem::take(&mut cursor.scratch);
                    if scratch.len() < end {
                        scratch.resize(end, 0);
                    }
                    slab.read(one.from as usize, start, &mut scratch[start..end])?;
                    self.copy(cursor, (&scratch, 0), to);
                    cursor.scratch = scratch;
                }
            },
        }
        Ok(())
    }

    /// Copies chunks to an array that begins at byte `start`.
    pub(crate) fn to_array(
        &self,
        moves: &[Move],
        source: Source<'_>,
        (out, start): (&mut [u8], usize),
    ) -> Result<()> {
        let bands = if self.is_worth_threads(moves, source) { self.bands() } else { None };
        let Some(bands) = bands else {
            let mut cursor = self.cursor();
            let mut all = moves.iter();
            return all.try_for_each(|one| self.chunk(&mut cursor, one, source, (out, start)));
        };
        let mut shares: Vec<Vec<Move>> = vec![Vec::new(); bands.positions.len()];
        for one in moves {
            shares[bands.share(one.at)].push(*one);
        }
        let mut rest = out;
        let mut gone = 0;
        let mut jobs = Vec::with_capacity(shares.len());
        for (share, &(low, high)) in shares.into_iter().zip(&bands.ranges) {
            // Offsets are counted from `start`, and so may be negative before it is added.
            let (low, high) = (start.wrapping_add_signed(low), start.wrapping_add_signed(high));
            let (band, others) = rest.split_at_mut(high - gone);
            rest = others;
            jobs.push((share, band, gone));
            debug_assert!(low >= gone);
            gone = high;
        }
        jobs.into_par_iter().try_for_each(|(share, band, gone)| {
            let mut cursor = self.cursor();
            let start = start.wrapping_sub(gone);
            share.iter().try_for_each(|one| self.chunk(&mut cursor, one, source, (band, start)))
        })
    }

    /// Copies to chunks that are side by side in memory, in rising slots.
    pub(crate) fn to_slots(
        &self,
        moves: &[Move],
        source: Source<'_>,
        slots: &mut [u8],
    ) -> Result<()> {
        if !self.is_worth_threads(moves, source) {
            let mut cursor = self.cursor();
            return moves.iter().try_for_each(|one| {
                self.chunk(&mut cursor, one, source, (slots, one.to as usize * self.slot))
            });
        }
        share_slots(moves, slots, self.slot).into_par_iter().try_for_each_init(
            || self.cursor(),
            |cursor, (one, slot)| self.chunk(cursor, one, source, (slot, 0)),
        )
    }

    /// Copies the touched part of one chunk from an array to a slot.
    pub(crate) fn gather(&self, one: &Move, from: &[u8], slot: &mut [u8]) {
        let mut cursor = self.cursor();
        self.seek(&mut cursor, one.at);
        self.copy(&mut cursor, (from, 0), (slot, 0));
    }

    fn is_worth_threads(&self, moves: &[Move], source: Source<'_>) -> bool {
        let (Some(one), true) = (moves.first(), moves.len() > 1 && self.slot >= WORTH_SHARING)
        else {
            return false;
        };
        // One chunk stands for all of them.
        let mut cursor = self.cursor();
        self.seek(&mut cursor, one.at);
        let (start, end) = self.touched(&cursor);
        let (touched, packed) = match source {
            Source::Flat(..) => (self.slot, false),
            Source::Slots(_) => (end - start, false),
            Source::Base(slab) => {
                let slot = one.from as usize;
                let ready = slab.chunk(slot).is_some() || slab.is_ready(slot, start, end - start);
                (end - start, !ready)
            }
        };
        packed || moves.len().saturating_mul(touched) >= WORTH_THREADS
    }

    /// Splits the destination along the first group that is on more than one chunk, if its chunks
    /// then have the bytes between their first and last to themselves.
    fn bands(&self) -> Option<Bands> {
        let (number, first) = self.groups.iter().enumerate().find(|(_, r)| r.group.len() > 1)?;
        let to = |start: &(isize, isize), lane: &Lane| (start.1, lane.to);
        let (mut low, mut high) = (0, self.item as isize);
        for other in self.groups.iter().enumerate().filter(|(k, _)| *k != number) {
            let ends = (0..other.1.group.len()).map(|at| other.1.ends(at, to));
            low += ends.clone().map(|(first, _)| first).min()?;
            high += ends.map(|(_, last)| last).max()?;
        }
        let mut ranges: Vec<(isize, isize, usize)> = (0..first.group.len())
            .map(|at| {
                let (start, end) = first.ends(at, to);
                (start + low, end + high, at)
            })
            .collect();
        ranges.sort_unstable();
        if ranges.windows(2).any(|pair| pair[0].1 > pair[1].0) {
            return None;
        }
        let mut positions = vec![0; ranges.len()];
        for (band, &(_, _, at)) in ranges.iter().enumerate() {
            positions[at] = band;
        }
        let inner = self.groups[number + 1..].iter().map(|ready| ready.group.len()).product();
        let ranges = ranges.iter().map(|&(low, high, _)| (low, high)).collect();
        Some(Bands { inner, positions, ranges })
    }
}

/// Parts of the destination that chunks have to themselves.
struct Bands {
    /// Touched chunks of the groups behind the one that is split.
    inner: usize,
    /// For each chunk of that group, its band.
    positions: Vec<usize>,
    /// The bytes of each band.
    ranges: Vec<(isize, isize)>,
}

impl Bands {
    fn share(&self, at: usize) -> usize {
        self.positions[at / self.inner % self.positions.len()]
    }
}

impl Ready<'_> {
    /// Puts the lanes of a step where their axes are.
    #[inline]
    fn set(&self, step: usize, lanes: &mut [Lane]) {
        let n = self.group.axes.len();
        for (lane, &axis) in self.lanes[step * n..step * n + n].iter().zip(&self.group.axes) {
            lanes[axis] = *lane;
        }
    }

    /// The first and the last byte offset of a chunk at one end.
    fn ends(
        &self,
        at: usize,
        which: impl Fn(&(isize, isize), &Lane) -> (isize, isize),
    ) -> (isize, isize) {
        let n = self.group.axes.len();
        let (mut low, mut high) = (isize::MAX, isize::MIN);
        for step in self.group.steps(at) {
            let (mut first, mut last) = (0, 0);
            let mut start = 0;
            for lane in &self.lanes[step * n..step * n + n] {
                let (begin, by) = which(&self.starts[step], lane);
                start = begin;
                let way = by * (lane.count as isize - 1);
                first += way.min(0);
                last += way.max(0);
            }
            low = low.min(start + first);
            high = high.max(start + last);
        }
        (low, high)
    }
}

/// Gives each move the slot that it writes.
fn share_slots<'m, 's>(
    moves: &'m [Move],
    slots: &'s mut [u8],
    size: usize,
) -> Vec<(&'m Move, &'s mut [u8])> {
    let mut rest = slots;
    let mut gone = 0;
    let mut shares = Vec::with_capacity(moves.len());
    for one in moves {
        let (_, from_here) = rest.split_at_mut(one.to as usize * size - gone);
        let (slot, others) = from_here.split_at_mut(size);
        shares.push((one, slot));
        rest = others;
        gone = (one.to as usize + 1) * size;
    }
    shares
}

/// Copies whole chunks to slots, including their part beyond the array.
pub(crate) fn stage(
    moves: &[Move],
    slab: &dyn BaseSlab,
    slots: &mut [u8],
    size: usize,
) -> Result<()> {
    let stage = |one: &Move, slot: &mut [u8]| match slab.chunk(one.from as usize) {
        Some(chunk) => {
            slot.copy_from_slice(chunk);
            Ok(())
        }
        None => slab.read(one.from as usize, 0, slot),
    };
    let shares = share_slots(moves, slots, size);
    if moves.len() > 1 && size >= WORTH_SHARING {
        return shares.into_par_iter().try_for_each(|(one, slot)| stage(one, slot));
    }
    shares.into_iter().try_for_each(|(one, slot)| stage(one, slot))
}

/// Fills memory with one element.
pub(crate) fn fill(to: &mut [u8], element: &[u8]) {
    if element.windows(2).all(|pair| pair[0] == pair[1]) {
        if let Some(&byte) = element.first() {
            to.fill(byte);
        }
        return;
    }
    match element.len() {
        2 => fill_with::<2>(to, element),
        4 => fill_with::<4>(to, element),
        8 => fill_with::<8>(to, element),
        16 => fill_with::<16>(to, element),
        n => to.chunks_exact_mut(n).for_each(|to| to.copy_from_slice(element)),
    }
}

fn fill_with<const N: usize>(to: &mut [u8], element: &[u8]) {
    let element: [u8; N] = std::array::from_fn(|i| element[i]);
    for to in to.chunks_exact_mut(N) {
        to.copy_from_slice(&element);
    }
}

/// Copies runs of `run` bytes along one lane.
#[inline]
fn copy_line(run: usize, lane: &Lane, from: &[u8], at_from: usize, to: &mut [u8], at_to: usize) {
    if lane.from == 0 && lane.to == run as isize {
        let element = &from[at_from..at_from + run];
        return fill(&mut to[at_to..at_to + run * lane.count], element);
    }
    match run {
        1 => copy_runs::<1>(lane, from, at_from, to, at_to),
        2 => copy_runs::<2>(lane, from, at_from, to, at_to),
        4 => copy_runs::<4>(lane, from, at_from, to, at_to),
        8 => copy_runs::<8>(lane, from, at_from, to, at_to),
        16 => copy_runs::<16>(lane, from, at_from, to, at_to),
        run => {
            let (mut at_from, mut at_to) = (at_from, at_to);
            for _ in 0..lane.count {
                to[at_to..at_to + run].copy_from_slice(&from[at_from..at_from + run]);
                at_from = at_from.wrapping_add_signed(lane.from);
                at_to = at_to.wrapping_add_signed(lane.to);
            }
        }
    }
}

#[inline]
fn copy_runs<const N: usize>(
    lane: &Lane,
    from: &[u8],
    mut at_from: usize,
    to: &mut [u8],
    mut at_to: usize,
) {
    for _ in 0..lane.count {
        to[at_to..at_to + N].copy_from_slice(&from[at_from..at_from + N]);
        at_from = at_from.wrapping_add_signed(lane.from);
        at_to = at_to.wrapping_add_signed(lane.to);
    }
}
