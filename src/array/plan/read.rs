//! The plan of reading an array whose chunks are found by a table instead of by a [`Layout`](super::Layout).

use super::moves::{Move, positions};
use crate::array::grid::Touch;

/// Which touched chunks are stored, and which are nothing but the fill value. `P` is where a chunk is
/// stored; no plan looks into it.
#[derive(Debug)]
pub(crate) struct ReadPlan<P> {
    /// Moves from the stored chunks, which are numbered as in `places`.
    pub(crate) stored: Vec<Move>,
    /// Moves from the fill value.
    pub(crate) fill: Vec<Move>,
    /// The places of the stored chunks.
    pub(crate) places: Vec<P>,
}

impl<P> ReadPlan<P> {
    /// Looks up every touched chunk by its coordinates.
    pub(crate) fn new(touch: &Touch, find: impl Fn(&[u64]) -> Option<P>) -> ReadPlan<P> {
        let mut plan = ReadPlan { stored: Vec::new(), fill: Vec::new(), places: Vec::new() };
        let mut coordinates = vec![0; touch.groups.iter().map(|group| group.axes.len()).sum()];
        for at in 0..touch.len() {
            for (group, position) in touch.groups.iter().zip(positions(touch, at)) {
                for (&axis, &chunk) in group.axes.iter().zip(group.chunk(position)) {
                    coordinates[axis] = chunk as u64;
                }
            }
            match find(&coordinates) {
                Some(place) => {
                    plan.stored.push(Move { at, from: plan.places.len() as u32, to: 0 });
                    plan.places.push(place);
                }
                None => plan.fill.push(Move { at, from: 0, to: 0 }),
            }
        }
        plan
    }
}
