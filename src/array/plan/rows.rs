//! Transfers written out, position by position.

use super::layout::Layout;
use super::moves::{End, Move, Moves, Transfer, positions};

/// A part of a transfer: evenly spaced positions of one end, and as many of the other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Row {
    /// For each axis, the positions that are read.
    pub(crate) from: Vec<Span>,
    /// For each axis, the positions that are written.
    pub(crate) to: Vec<Span>,
}

/// Evenly spaced positions on one axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Span {
    /// The first.
    pub(crate) start: usize,
    /// How many.
    pub(crate) count: usize,
    /// How far apart.
    pub(crate) step: usize,
}

/// A transfer: everything that goes from one slab or the value to one slab or the result.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TransferRows<'a> {
    layout: &'a Layout,
    moves: &'a Moves,
    transfer: &'a Transfer,
}

impl<'a> TransferRows<'a> {
    pub(super) fn new(
        layout: &'a Layout,
        moves: &'a Moves,
        transfer: &'a Transfer,
    ) -> TransferRows<'a> {
        TransferRows { layout, moves, transfer }
    }

    /// Where data come from.
    pub(crate) fn from(&self) -> End {
        self.transfer.from
    }

    /// Where they go to.
    pub(crate) fn to(&self) -> End {
        self.transfer.to
    }

    /// The copies to make. Positions in a slab count its chunks as stacked along the first axis.
    pub(crate) fn rows(&self) -> impl Iterator<Item = Row> + use<'a> {
        let this = *self;
        this.moves.moves[this.transfer.moves.clone()].iter().flat_map(move |one| this.rows_of(one))
    }

    fn rows_of(&self, one: &Move) -> Vec<Row> {
        let touch = &self.moves.touches[self.transfer.touch];
        let nd = self.layout.grid.shape().len();
        let nothing = Span { start: 0, count: 1, step: 1 };
        let blank = Row { from: vec![nothing; nd], to: vec![nothing; nd] };
        let mut rows = vec![blank];
        for (group, at) in touch.groups.iter().zip(positions(touch, one.at)) {
            let mut longer = Vec::with_capacity(rows.len());
            for row in &rows {
                for step in group.steps(at) {
                    let mut row = row.clone();
                    for (segment, &axis) in group.step(step).iter().zip(&group.axes) {
                        let count = segment.count;
                        let span = |end, slot| match end {
                            End::Slab(_) => {
                                let start = if axis == 0 { self.layout.offset(slot) } else { 0 };
                                let start = segment.in_chunk + start;
                                Span { start, count, step: segment.chunk_step }
                            }
                            _ => Span { start: segment.in_value, count, step: segment.value_step },
                        };
                        row.from[axis] = span(self.transfer.from, one.from);
                        row.to[axis] = span(self.transfer.to, one.to);
                    }
                    longer.push(row);
                }
            }
            rows = longer;
        }
        rows
    }
}
