//! The plans of reading and assigning a selection.

use super::layout::{Layout, Patch, Room};
use super::moves::{Found, How, Moves, find, move_to, sort, visit};
use crate::array::grid::Touch;
use crate::array::selection::{Resolved, Selection, View};
use crate::error::Result;

/// How the result or the value of a plan looks.
#[derive(Debug, Clone)]
pub(crate) struct Shown {
    /// Its shape.
    pub(crate) shape: Vec<usize>,
    /// Where in it each axis of the array is.
    pub(crate) views: Vec<View>,
}

impl From<Resolved> for Shown {
    fn from(selected: Resolved) -> Shown {
        Shown { shape: selected.shape, views: selected.views }
    }
}

/// Reads a selection. Changes nothing.
#[derive(Debug, Clone)]
pub(crate) struct GetItemPlan<'a> {
    pub(crate) layout: &'a Layout,
    pub(crate) moves: Moves,
    pub(crate) out: Shown,
}

impl<'a> GetItemPlan<'a> {
    pub(crate) fn new(layout: &'a Layout, selection: &Selection) -> Result<GetItemPlan<'a>> {
        let selected = selection.resolve(layout.grid.shape())?;
        let mut moves = Moves::default();
        if !selected.is_empty() {
            let touch = Touch::new(&layout.grid, &selected);
            let found = find(layout, &touch);
            moves.moves.reserve(found.len());
            let touch = moves.touch(touch);
            moves.add(&found, touch, How::Read);
        }
        Ok(GetItemPlan { layout, moves, out: selected.into() })
    }

    /// The shape of the result.
    pub(crate) fn shape(&self) -> &[usize] {
        &self.out.shape
    }
}

/// Assigns to a selection.
///
/// Chunks that are not staged and only partly assigned are staged first, as they are. Chunks that
/// are assigned entirely get a new slot, and their old content is never read.
#[derive(Debug, Clone)]
pub(crate) struct SetItemPlan<'a> {
    pub(crate) layout: &'a Layout,
    pub(crate) moves: Moves,
    pub(crate) value: Shown,
    pub(crate) patch: Patch,
}

impl<'a> SetItemPlan<'a> {
    pub(crate) fn new(layout: &'a Layout, selection: &Selection) -> Result<SetItemPlan<'a>> {
        let selected = selection.resolve(layout.grid.shape())?;
        let mut moves = Moves::default();
        let mut patch = Patch::default();
        if !selected.is_empty() {
            let touch = Touch::new(&layout.grid, &selected);
            patch = assign(layout, touch, &mut moves)?;
        }
        Ok(SetItemPlan { layout, moves, value: selected.into(), patch })
    }

    /// The shape that the value is broadcast to.
    pub(crate) fn shape(&self) -> &[usize] {
        &self.value.shape
    }
}

fn assign(layout: &Layout, touch: Touch, moves: &mut Moves) -> Result<Patch> {
    let (mut part, mut whole, mut staged) = (Vec::new(), Vec::new(), Vec::new());
    visit(&touch, &layout.grid, |at, cell, all| {
        let place = layout.places[cell];
        let list = match layout.is_writable(place.slab) {
            true => &mut staged,
            false if all => &mut whole,
            false => &mut part,
        };
        list.push(Found { place, at, cell });
    });
    let mut room = Room::new(layout);
    let mut places = Vec::with_capacity(part.len() + whole.len());
    if !part.is_empty() {
        sort(&mut part);
        let first = room.take(part.len())?;
        let entire = moves.touch(touch.entire(&layout.grid));
        moves.add(&part, entire, How::Stage(first));
        move_to(&mut part, first);
    }
    let touch = moves.touch(touch);
    if !whole.is_empty() {
        sort(&mut whole);
        let first = room.take(whole.len())?;
        move_to(&mut whole, first);
        moves.add(&whole, touch, How::Assign);
    }
    places.extend(part.iter().chain(&whole).map(|found| (found.cell, found.place)));
    staged.extend(part);
    sort(&mut staged);
    moves.add(&staged, touch, How::Assign);
    Ok(room.patch(places))
}
