//! The plan of loading everything into memory.

use std::ops::Range;

use super::layout::{Layout, Patch, Room, SlabKind};
use super::moves::{How, Moves, find, move_to};
use crate::array::grid::Touch;
use crate::error::Result;

/// Stages every chunk of a base slab.
#[derive(Debug, Clone)]
pub(crate) struct LoadPlan<'a> {
    pub(crate) layout: &'a Layout,
    pub(crate) moves: Moves,
    pub(crate) patch: Patch,
}

impl<'a> LoadPlan<'a> {
    pub(crate) fn new(layout: &'a Layout) -> Result<LoadPlan<'a>> {
        let is_base = |slab: u32| layout.slabs[slab as usize].kind == SlabKind::Base;
        let drop: Vec<u32> =
            (0..).zip(&layout.slabs).map(|(slab, _)| slab).filter(|&slab| is_base(slab)).collect();
        let mut moves = Moves::default();
        if layout.grid.is_empty() || drop.is_empty() {
            return Ok(LoadPlan { layout, moves, patch: Patch::default() });
        }
        let all: Vec<Range<usize>> = layout.grid.shape().iter().map(|&size| 0..size).collect();
        let touch = Touch::of_box(&layout.grid, &all);
        let mut found = find(layout, &touch);
        found.retain(|found| is_base(found.place.slab));
        let mut room = Room::new(layout);
        if !found.is_empty() {
            let first = room.take(found.len())?;
            let touch = moves.touch(touch);
            moves.add(&found, touch, How::Stage(first));
            move_to(&mut found, first);
        }
        let places = found.iter().map(|found| (found.cell, found.place)).collect();
        Ok(LoadPlan { layout, moves, patch: Patch { drop, ..room.patch(places) } })
    }
}
