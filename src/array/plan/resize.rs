//! The plan of a resize: the most involved one, because chunks at the edge change their extent.

use std::collections::HashMap;
use std::ops::Range;

use super::layout::{Layout, Patch, Place, Regrid, Room, SlabInfo, SlabKind};
use super::moves::{Found, How, Moves, move_to, sort, visit};
use crate::array::grid::{ChunkGrid, Touch, too_many_chunks};
use crate::array::selection::invalid;
use crate::error::Result;

/// Changes the shape. New elements have the fill value.
///
/// Chunks that an edge cuts through when the array shrinks are staged, unless they are already: the
/// rest of them differs from their slab, which other versions may need. Chunks at the
/// old edge that now extend further are staged too, and the fill value is written to the new part,
/// unless their base slab guarantees that it is there already.
#[derive(Debug, Clone)]
pub(crate) struct ResizePlan<'a> {
    pub(crate) layout: &'a Layout,
    pub(crate) moves: Moves,
    pub(crate) patch: Patch,
}

impl<'a> ResizePlan<'a> {
    pub(crate) fn new(layout: &'a Layout, shape: &[usize]) -> Result<ResizePlan<'a>> {
        let old = layout.grid.shape();
        same_axes(old.len(), shape)?;
        if old == shape {
            return Ok(ResizePlan { layout, moves: Moves::default(), patch: Patch::default() });
        }
        let grid = ChunkGrid::new(shape, layout.grid.chunk_shape())?;
        let added = grid.len().saturating_sub(layout.places.len());
        if isize::try_from(grid.len().saturating_mul(size_of::<Place>())).is_err()
            || Vec::<Place>::new().try_reserve_exact(added).is_err()
        {
            return Err(too_many_chunks(grid.len()));
        }
        let common: Vec<usize> = old.iter().zip(shape).map(|(&a, &b)| a.min(b)).collect();
        let mut resize = Resize {
            layout,
            back: Regrid::new(&grid, &layout.grid),
            grid,
            room: Room::new(layout),
            moves: Moves::default(),
            placed: HashMap::new(),
        };
        resize.shrink(&common)?;
        resize.enlarge(common)?;
        Ok(resize.finish())
    }
}

struct Resize<'a> {
    layout: &'a Layout,
    /// The new grid.
    grid: ChunkGrid,
    /// From cells of the new grid to cells of the old one.
    back: Regrid,
    room: Room<'a>,
    moves: Moves,
    /// Cells of the new grid that get another place.
    placed: HashMap<usize, Place>,
}

impl<'a> Resize<'a> {
    /// Stages chunks that a new edge cuts through, axis by axis.
    fn shrink(&mut self, common: &[usize]) -> Result<()> {
        for (axis, &size) in common.iter().enumerate() {
            let within = size % self.grid.chunk_shape()[axis];
            if size < self.layout.grid.shape()[axis] && within > 0 {
                self.stage(common, axis, size - within..size, |slab| {
                    matches!(slab.kind, SlabKind::Base | SlabKind::Spilled)
                })?;
            }
        }
        Ok(())
    }

    /// Fills new parts of old chunks, axis by axis; new chunks are on the full slab anyway.
    fn enlarge(&mut self, common: Vec<usize>) -> Result<()> {
        let mut shape = common;
        for axis in 0..shape.len() {
            let (old, new) = (shape[axis], self.grid.shape()[axis]);
            shape[axis] = new;
            let chunk = self.grid.chunk_shape()[axis];
            let edge = old - old % chunk;
            if new == old || edge == old {
                continue;
            }
            self.stage(&shape, axis, edge..old, |slab| {
                !slab.padded && matches!(slab.kind, SlabKind::Base | SlabKind::Spilled)
            })?;
            let end = new.min(edge.saturating_add(chunk));
            let (touch, mut found) = self.find(&shape, axis, old..end)?;
            found.retain(|found| match self.layout.slabs.get(found.place.slab as usize) {
                Some(slab) => slab.kind == SlabKind::Staged,
                None => true,
            });
            if !found.is_empty() {
                let touch = self.moves.touch(touch);
                self.moves.add(&found, touch, How::Fill);
            }
        }
        Ok(())
    }

    /// Stages the chunks of a strip that are on slabs of some kind.
    fn stage(
        &mut self,
        shape: &[usize],
        axis: usize,
        strip: Range<usize>,
        which: impl Fn(&SlabInfo) -> bool,
    ) -> Result<()> {
        let (touch, mut found) = self.find(shape, axis, strip)?;
        found.retain(|f| self.layout.slabs.get(f.place.slab as usize).is_some_and(&which));
        if found.is_empty() {
            return Ok(());
        }
        let first = self.room.take(found.len())?;
        let touch = self.moves.touch(touch);
        self.moves.add(&found, touch, How::Stage(first));
        move_to(&mut found, first);
        self.placed.extend(found.iter().map(|found| (found.cell, found.place)));
        Ok(())
    }

    /// The chunks of a strip of an array of this shape.
    fn find(
        &self,
        shape: &[usize],
        axis: usize,
        strip: Range<usize>,
    ) -> Result<(Touch, Vec<Found>)> {
        let grid = ChunkGrid::new(shape, self.grid.chunk_shape())?;
        let mut ranges: Vec<Range<usize>> = shape.iter().map(|&size| 0..size).collect();
        ranges[axis] = strip;
        if ranges.iter().any(Range::is_empty) {
            return Ok((Touch { groups: Vec::new() }, Vec::new()));
        }
        let touch = Touch::of_box(&grid, &ranges);
        let mut found = Vec::with_capacity(touch.len());
        visit(&touch, &self.grid, |at, cell, _| {
            let place = self.place(cell);
            if place.slab > 0 {
                found.push(Found { place, at, cell });
            }
        });
        sort(&mut found);
        Ok((touch, found))
    }

    /// Where a cell of the new grid is, according to the plan so far.
    fn place(&self, cell: usize) -> Place {
        let old = || self.back.forward(cell).map(|old| self.layout.places[old]);
        self.placed.get(&cell).copied().or_else(old).unwrap_or_default()
    }

    fn finish(self) -> ResizePlan<'a> {
        let drop = self.dropped();
        let mut places: Vec<(usize, Place)> = self.placed.into_iter().collect();
        places.sort_unstable();
        let patch = Patch { grid: Some(self.grid), drop, ..self.room.patch(places) };
        ResizePlan { layout: self.layout, moves: self.moves, patch }
    }

    /// The slabs that no chunk is on any more. Looked for only where chunks are lost.
    fn dropped(&self) -> Vec<u32> {
        let old = &self.layout.grid;
        let lost = || self.grid.counts().iter().zip(old.counts()).any(|(new, old)| new < old);
        if old.is_empty() || !lost() {
            return Vec::new();
        }
        let mut live: Vec<usize> = self.layout.slabs.iter().map(|slab| slab.live).collect();
        let mut leave = |place: Place| {
            if place.slab > 0 {
                live[place.slab as usize] -= 1;
            }
        };
        if old.counts()[1..] == self.grid.counts()[1..] {
            self.layout.places[self.grid.len()..].iter().copied().for_each(&mut leave);
        } else {
            let forward = Regrid::new(old, &self.grid);
            let places = self.layout.places.iter().enumerate();
            places
                .filter(|(cell, _)| forward.forward(*cell).is_none())
                .for_each(|(_, p)| leave(*p));
        }
        for &cell in self.placed.keys() {
            leave(self.back.forward(cell).map_or(Place::default(), |old| self.layout.places[old]));
        }
        let there = (0..).zip(&self.layout.slabs).skip(1);
        there
            .filter(|(_, slab)| slab.kind != SlabKind::Dropped)
            .map(|(number, _)| number)
            .filter(|&number| {
                let gained = self.placed.values().any(|place| place.slab == number);
                live[number as usize] == 0 && !gained
            })
            .collect()
    }
}

/// Fails for a shape with another number of axes.
fn same_axes(expected: usize, shape: &[usize]) -> Result<()> {
    if shape.len() == expected {
        return Ok(());
    }
    Err(invalid(format!("expected a shape of {expected} axes, found {shape:?}")))
}
