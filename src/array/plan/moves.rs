//! The transfers of a plan: which chunks go from where to where.

use std::ops::Range;

use super::layout::{Layout, Place};
use crate::array::grid::{ChunkGrid, Group, Touch};

/// One end of a transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// The slab of this number.
    Slab(u32),
    /// The value that is assigned.
    Value,
    /// The result that is read.
    Out,
}

/// A chunk of a transfer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Move {
    /// Which of all touched chunks, in the order of the product of the groups.
    pub(crate) at: usize,
    /// The slot that is read, if the source is a slab.
    pub(crate) from: u32,
    /// The slot that is written, if the destination is a slab.
    pub(crate) to: u32,
}

/// Chunks from one slab or the value to one slab or the result.
#[derive(Debug, Clone)]
pub(crate) struct Transfer {
    pub(crate) from: End,
    pub(crate) to: End,
    /// Which of the [`Moves::touches`] has its positions.
    pub(crate) touch: usize,
    pub(crate) moves: Range<usize>,
}

/// The transfers of a plan, in the order in which they must be made.
#[derive(Debug, Clone, Default)]
pub(crate) struct Moves {
    pub(crate) touches: Vec<Touch>,
    pub(crate) moves: Vec<Move>,
    pub(crate) transfers: Vec<Transfer>,
}

/// A chunk that a selection touches, and where it is.
#[derive(Clone, Copy)]
pub(super) struct Found {
    pub(super) place: Place,
    pub(super) at: usize,
    pub(super) cell: usize,
}

/// The chunks that a selection touches, in the order of their places.
pub(super) fn find(layout: &Layout, touch: &Touch) -> Vec<Found> {
    let mut found = Vec::with_capacity(touch.len());
    visit(touch, &layout.grid, |at, cell, _| {
        found.push(Found { place: layout.places[cell], at, cell });
    });
    sort(&mut found);
    found
}

/// Most slabs hold chunks in the order of the grid, so that mostly there is nothing to sort. Chunks
/// with one place stay in the order of the grid.
pub(super) fn sort(found: &mut [Found]) {
    let key = |found: &Found| (u64::from(found.place.slab) << 32) | u64::from(found.place.slot);
    if !found.is_sorted_by_key(key) {
        found.sort_by_key(key);
    }
}

/// Calls `with` for each chunk that is touched: which one in the order of the product, the number
/// of its cell, and whether all of it is touched.
pub(super) fn visit(touch: &Touch, grid: &ChunkGrid, mut with: impl FnMut(usize, usize, bool)) {
    let steps = grid.steps();
    let Some((last, outer)) = touch.groups.split_last() else {
        // An array without axes is one chunk.
        return with(0, 0, true);
    };
    let cell_of = |group: &Group, at: usize| -> usize {
        group.chunk(at).iter().zip(&group.axes).map(|(chunk, &axis)| chunk * steps[axis]).sum()
    };
    let inner: Vec<usize> = (0..last.len()).map(|at| cell_of(last, at)).collect();
    let mut odometer = vec![0; outer.len()];
    let mut at = 0;
    for _ in 0..outer.iter().map(|group| group.len()).product() {
        let positions = || odometer.iter().zip(outer);
        let cell: usize = positions().map(|(&k, group)| cell_of(group, k)).sum();
        let whole = positions().all(|(&k, group)| group.whole[k]);
        for (k, inner) in inner.iter().enumerate() {
            with(at, cell + inner, whole && last.whole[k]);
            at += 1;
        }
        for (k, group) in odometer.iter_mut().zip(outer).rev() {
            *k += 1;
            if *k < group.len() {
                break;
            }
            *k = 0;
        }
    }
}

impl Moves {
    /// Adds transfers, one for each slab that the chunks are on or, where they are given new places
    /// from `to` on, come from.
    pub(super) fn add(&mut self, found: &[Found], touch: usize, how: How) {
        let mut number = 0;
        for run in found.chunk_by(|a, b| a.place.slab == b.place.slab) {
            let start = self.moves.len();
            let slab = End::Slab(run[0].place.slab);
            let (from, to) = match how {
                How::Read => (slab, End::Out),
                How::Assign => (End::Value, slab),
                How::Fill => (End::Slab(0), slab),
                How::Stage(to) => (slab, End::Slab(to.slab)),
            };
            for found in run {
                let slot = found.place.slot;
                let (from, to) = match how {
                    How::Read => (slot, 0),
                    How::Assign | How::Fill => (0, slot),
                    How::Stage(to) => (slot, to.slot + number),
                };
                self.moves.push(Move { at: found.at, from, to });
                number += 1;
            }
            self.transfers.push(Transfer { from, to, touch, moves: start..self.moves.len() });
        }
    }

    pub(super) fn touch(&mut self, touch: Touch) -> usize {
        self.touches.push(touch);
        self.touches.len() - 1
    }
}

/// The direction of a transfer.
#[derive(Clone, Copy)]
pub(super) enum How {
    /// From slabs to the result.
    Read,
    /// From the value to slabs.
    Assign,
    /// From the fill value to slabs.
    Fill,
    /// From slabs to slots of one slab, beginning with this one.
    Stage(Place),
}

/// The places of chunks that move to free slots, beginning with `first`.
pub(super) fn move_to(found: &mut [Found], first: Place) {
    for (found, slot) in found.iter_mut().zip(first.slot..) {
        found.place = Place { slab: first.slab, slot };
    }
}

/// Which chunk of each group a touched chunk is.
pub(crate) fn positions(touch: &Touch, at: usize) -> Vec<usize> {
    let mut rest = at;
    let mut positions = vec![0; touch.groups.len()];
    for (position, group) in positions.iter_mut().zip(&touch.groups).rev() {
        *position = rest % group.len();
        rest /= group.len();
    }
    positions
}
