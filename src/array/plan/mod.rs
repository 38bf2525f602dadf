//! What to copy from where to where, decided before any data are touched.
//!
//! A [`Layout`] knows for each chunk of the grid its [`Place`]: a slab, and a slot in it. Slab 0 is
//! the full slab, one chunk of the fill value that is never written; then come base slabs, which are
//! read only, then staged slabs. A plan is made from a layout and a request alone. It consists of
//! transfers, and, where it changes anything, of a [`Patch`] to the layout; the layout itself stays
//! as it is until the data have been moved. So a plan can be looked at, printed and tested by
//! itself, and an operation that fails half-way has changed nothing.
//!
//! Plans print as versioned-hdf5 prints them. Chunks go in the order of their places, so that a
//! slab on a disk is read forwards.
//!
//! Transfers are written down as chunks only; their rows follow from the [`Touch`] when asked for.

use std::collections::HashMap;
use std::fmt;
use std::ops::Range;

use crate::array::grid::{ChunkGrid, Touch, too_many_chunks};
use crate::array::selection::{Resolved, Selection, View, invalid};
use crate::error::{Error, ErrorKind, Result};

mod print;
mod read;
mod resize;

pub(crate) use read::ReadPlan;
pub use resize::ResizePlan;

/// Where a chunk is: in a slot of a slab. Slab 0 has one slot, full of the fill value.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// The number of the slab.
    pub slab: u32,
    /// The number of the slot in it.
    pub slot: u32,
}

/// What a slab is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SlabKind {
    /// The fill value.
    Full,
    /// Read only, from below.
    Base,
    /// In memory, written.
    Staged,
    /// Written earlier, and since then moved out of memory: read only.
    Spilled,
    /// There is no such slab any more; its number is not used again.
    Dropped,
}

/// What plans know of a slab.
#[derive(Debug, Clone)]
pub(crate) struct SlabInfo {
    pub(crate) kind: SlabKind,
    /// How many chunks it has room for.
    pub(crate) slots: u32,
    /// How many slots were given away; the rest is free.
    pub(crate) used: u32,
    /// How many chunks of the grid are there.
    pub(crate) live: usize,
    /// Whether what is beyond the edge of the array is the fill value.
    pub(crate) padded: bool,
}

/// Where new chunks are put.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Placement {
    /// Into free slots of the last slab, then into a new slab of twice the size. Many small writes
    /// and appends share a few slabs, and reading does not get slower by them.
    #[default]
    Open,
    /// Into a new slab for each step of each plan, as versioned-hdf5 does.
    PerPlan,
}

/// Bytes of the first slab and of the largest that [`Placement::Open`] makes ahead of need.
const SMALLEST: usize = 64 << 10;
const LARGEST: usize = 64 << 20;

/// Where all chunks of an array are.
#[derive(Debug, Clone)]
pub(crate) struct Layout {
    pub(crate) grid: ChunkGrid,
    pub(crate) places: Vec<Place>,
    pub(crate) slabs: Vec<SlabInfo>,
    pub(crate) placement: Placement,
    /// Bytes of a slot.
    pub(crate) slot_bytes: usize,
}

/// What a plan changes in a layout, once its data have been moved.
#[derive(Debug, Clone, Default)]
pub(crate) struct Patch {
    /// The grid, if it becomes another one; the cells below are those of the new one.
    pub(crate) grid: Option<ChunkGrid>,
    /// The slots of each new slab.
    pub(crate) append: Vec<u32>,
    /// How many slots of which slab are given away.
    pub(crate) used: Vec<(u32, u32)>,
    /// The new places of cells.
    pub(crate) places: Vec<(usize, Place)>,
    /// The slabs that no chunk is on any more.
    pub(crate) drop: Vec<u32>,
}

/// One end of a transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
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
    /// Which of the [`Moves::touches`] says what is touched.
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

/// A part of a transfer: evenly spaced positions of one end, and as many of the other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// For each axis, what is read.
    pub from: Vec<Span>,
    /// For each axis, what is written.
    pub to: Vec<Span>,
}

/// Evenly spaced positions on one axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// The first.
    pub start: usize,
    /// How many.
    pub count: usize,
    /// How far apart.
    pub step: usize,
}

/// A chunk that a selection touches, and where it is.
#[derive(Clone, Copy)]
struct Found {
    place: Place,
    at: usize,
    cell: usize,
}

impl Layout {
    /// All chunks full of the fill value.
    pub(crate) fn new(grid: ChunkGrid, item_size: usize) -> Result<Layout> {
        let chunk: usize = grid.chunk_shape().iter().product();
        let slot_bytes = chunk.checked_mul(item_size).filter(|&n| isize::try_from(n).is_ok());
        let slot_bytes = slot_bytes.ok_or_else(|| {
            Error::new(ErrorKind::Limit, format!("a chunk of {chunk} elements is beyond memory"))
        })?;
        let mut places = Vec::new();
        places.try_reserve_exact(grid.len()).map_err(|_| too_many_chunks(grid.len()))?;
        places.resize(grid.len(), Place::default());
        let full = SlabInfo { kind: SlabKind::Full, slots: 1, used: 1, live: 0, padded: true };
        Ok(Layout { grid, places, slabs: vec![full], placement: Placement::default(), slot_bytes })
    }

    /// Whether chunks of this slab can be changed where they are.
    fn is_writable(&self, slab: u32) -> bool {
        self.slabs.get(slab as usize).is_some_and(|slab| slab.kind == SlabKind::Staged)
    }

    /// Makes the changes of a plan.
    pub(crate) fn apply(&mut self, patch: Patch) {
        self.slabs.extend(patch.append.iter().map(|&slots| SlabInfo {
            kind: SlabKind::Staged,
            slots,
            used: 0,
            live: 0,
            padded: false,
        }));
        for (slab, used) in patch.used {
            self.slabs[slab as usize].used = used;
        }
        if let Some(grid) = patch.grid {
            self.regrid(grid);
        }
        for (cell, place) in patch.places {
            let old = std::mem::replace(&mut self.places[cell], place);
            self.leave(old);
            self.slabs[place.slab as usize].live += 1;
        }
        for slab in patch.drop {
            self.slabs[slab as usize].kind = SlabKind::Dropped;
        }
    }

    fn leave(&mut self, place: Place) {
        if place.slab > 0 {
            self.slabs[place.slab as usize].live -= 1;
        }
    }

    /// Takes another grid; chunks that both have stay where they are.
    fn regrid(&mut self, grid: ChunkGrid) {
        let counts = self.grid.counts();
        if counts.get(1..) == grid.counts().get(1..) {
            for at in grid.len()..self.places.len() {
                self.leave(self.places[at]);
            }
            self.places.resize(grid.len(), Place::default());
        } else {
            let regrid = Regrid::new(&self.grid, &grid);
            let mut places = vec![Place::default(); grid.len()];
            for (cell, place) in self.places.iter().enumerate().filter(|(_, p)| p.slab > 0) {
                match regrid.forward(cell) {
                    Some(cell) => places[cell] = *place,
                    None => self.slabs[place.slab as usize].live -= 1,
                }
            }
            self.places = places;
        }
        self.grid = grid;
    }

    /// The chunks that a selection touches, in the order of their places.
    fn find(&self, touch: &Touch) -> Vec<Found> {
        let mut found = Vec::with_capacity(touch.len());
        visit(touch, &self.grid, |at, cell, _| {
            found.push(Found { place: self.places[cell], at, cell });
        });
        sort(&mut found);
        found
    }

    /// The first row of a slot, as versioned-hdf5 counts offsets.
    fn offset(&self, slot: u32) -> usize {
        slot as usize * self.grid.chunk_shape().first().copied().unwrap_or(1)
    }

    fn slab_shape(&self, slots: u32) -> Vec<usize> {
        let mut shape = self.grid.chunk_shape().to_vec();
        if let Some(rows) = shape.first_mut() {
            *rows *= slots as usize;
        }
        shape
    }
}

/// Most slabs hold chunks in the order of the grid, so that mostly there is nothing to sort. Chunks
/// with one place stay in the order of the grid.
fn sort(found: &mut [Found]) {
    let key = |found: &Found| (u64::from(found.place.slab) << 32) | u64::from(found.place.slot);
    if !found.is_sorted_by_key(key) {
        found.sort_by_key(key);
    }
}

/// Calls `with` for each chunk that is touched: which one in the order of the product, the number
/// of its cell, and whether all of it is touched.
fn visit(touch: &Touch, grid: &ChunkGrid, mut with: impl FnMut(usize, usize, bool)) {
    let steps = grid.steps();
    let Some((last, outer)) = touch.groups.split_last() else {
        // An array without axes is one chunk.
        return with(0, 0, true);
    };
    let cell_of = |group: &crate::array::grid::Group, at: usize| -> usize {
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

/// Numbers cells of one grid as another one numbers them.
struct Regrid {
    old: Vec<usize>,
    new: Vec<usize>,
    steps: Vec<usize>,
}

impl Regrid {
    fn new(old: &ChunkGrid, new: &ChunkGrid) -> Regrid {
        let counts = |grid: &ChunkGrid| grid.counts().to_vec();
        Regrid { old: counts(old), new: counts(new), steps: new.steps() }
    }

    fn forward(&self, cell: usize) -> Option<usize> {
        let mut rest = cell;
        let mut to = 0;
        for axis in (0..self.old.len()).rev() {
            let at = rest % self.old[axis];
            rest /= self.old[axis];
            if at >= self.new[axis] {
                return None;
            }
            to += at * self.steps[axis];
        }
        Some(to)
    }
}

/// Gives slots away, without touching the layout.
struct Room<'a> {
    layout: &'a Layout,
    append: Vec<u32>,
    used: Vec<(u32, u32)>,
}

impl<'a> Room<'a> {
    fn new(layout: &'a Layout) -> Room<'a> {
        Room { layout, append: Vec::new(), used: Vec::new() }
    }

    /// The first of `n` free slots, side by side in one slab.
    fn take(&mut self, n: usize) -> Result<Place> {
        let n = u32::try_from(n).map_err(|_| too_many_chunks(n))?;
        if let Some((place, slots)) = self.open() {
            if slots - place.slot >= n {
                self.note(place.slab, place.slot + n);
                return Ok(place);
            }
        }
        let slab = self.layout.slabs.len() + self.append.len();
        let slab = u32::try_from(slab).map_err(|_| too_many_chunks(slab))?;
        self.append.push(n.max(self.ahead()));
        self.note(slab, n);
        Ok(Place { slab, slot: 0 })
    }

    /// The last slab: its first free slot, and all of its slots.
    fn open(&self) -> Option<(Place, u32)> {
        if self.layout.placement == Placement::PerPlan {
            return None;
        }
        let last = self.layout.slabs.len() + self.append.len() - 1;
        let slab = u32::try_from(last).ok()?;
        let noted = self.used.iter().find(|(noted, _)| *noted == slab).map(|&(_, used)| used);
        match self.append.last() {
            Some(&slots) => Some((Place { slab, slot: noted? }, slots)),
            None if self.layout.is_writable(slab) => {
                let info = &self.layout.slabs[last];
                Some((Place { slab, slot: noted.unwrap_or(info.used) }, info.slots))
            }
            None => None,
        }
    }

    fn note(&mut self, slab: u32, used: u32) {
        self.used.retain(|(noted, _)| *noted != slab);
        self.used.push((slab, used));
    }

    /// How many slots a new slab should have at least.
    fn ahead(&self) -> u32 {
        if self.layout.placement == Placement::PerPlan {
            return 0;
        }
        let slot = self.layout.slot_bytes.max(1);
        let last = self.layout.slabs.iter().rev().find(|slab| slab.kind == SlabKind::Staged);
        let double = last.map_or(0, |slab| slab.slots.saturating_mul(2));
        let most = u32::try_from(LARGEST / slot).unwrap_or(u32::MAX);
        double.min(most).max(u32::try_from(SMALLEST / slot).unwrap_or(u32::MAX))
    }

    fn patch(self, places: Vec<(usize, Place)>) -> Patch {
        Patch { append: self.append, used: self.used, places, ..Patch::default() }
    }
}

impl Moves {
    /// Adds transfers, one for each slab that the chunks are on or, where they are given new places
    /// from `to` on, come from.
    fn add(&mut self, found: &[Found], touch: usize, how: How) {
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

    fn touch(&mut self, touch: Touch) -> usize {
        self.touches.push(touch);
        self.touches.len() - 1
    }
}

/// Which way data go.
#[derive(Clone, Copy)]
enum How {
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
fn move_to(found: &mut [Found], first: Place) {
    for (found, slot) in found.iter_mut().zip(first.slot..) {
        found.place = Place { slab: first.slab, slot };
    }
}

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
pub struct GetItemPlan<'a> {
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
            let found = layout.find(&touch);
            moves.moves.reserve(found.len());
            let touch = moves.touch(touch);
            moves.add(&found, touch, How::Read);
        }
        Ok(GetItemPlan { layout, moves, out: selected.into() })
    }

    /// The shape of the result.
    pub fn shape(&self) -> &[usize] {
        &self.out.shape
    }
}

/// Assigns to a selection.
///
/// Chunks that are not staged and of which only a part is assigned are staged first, as they are.
/// Those of which everything is assigned get a new slot, and what they held is never read.
#[derive(Debug, Clone)]
pub struct SetItemPlan<'a> {
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

    /// The shape that the value is repeated to.
    pub fn shape(&self) -> &[usize] {
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

/// Stages every chunk of a base slab.
#[derive(Debug, Clone)]
pub struct LoadPlan<'a> {
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
        let mut found = layout.find(&touch);
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

/// Where each chunk is, for whoever commits: a chunk on a staged slab is new, one on a base slab is
/// as it was, one on the full slab is nothing but the fill value.
#[derive(Debug, Clone)]
pub struct ChangesPlan<'a> {
    layout: &'a Layout,
}

/// Whether a chunk was changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChunkChange {
    /// The number of the chunk, the last axis of the grid fastest.
    pub cell: usize,
    /// Where it is.
    pub place: Place,
    /// What kind of slab that is; never [`SlabKind::Dropped`].
    pub kind: SlabKind,
}

impl<'a> ChangesPlan<'a> {
    pub(crate) fn new(layout: &'a Layout) -> ChangesPlan<'a> {
        ChangesPlan { layout }
    }

    /// Every chunk of the grid, in order.
    pub fn iter(&self) -> impl Iterator<Item = ChunkChange> + use<'a> {
        let layout = self.layout;
        layout.places.iter().enumerate().map(|(cell, &place)| ChunkChange {
            cell,
            place,
            kind: layout.slabs[place.slab as usize].kind,
        })
    }

    /// The chunks that are there and what they cover.
    pub fn grid(&self) -> &'a ChunkGrid {
        &self.layout.grid
    }
}

macro_rules! plans {
    ($($name:ident)+) => {$(
        impl $name<'_> {
            /// The transfers, in the order in which they are made.
            pub fn transfers(&self) -> impl Iterator<Item = TransferRows<'_>> {
                let moves = &self.moves;
                moves.transfers.iter().map(|transfer| TransferRows { layout: self.layout, moves, transfer })
            }
        }
    )+};
}
plans!(GetItemPlan SetItemPlan ResizePlan LoadPlan);

macro_rules! changing_plans {
    ($($name:ident)+) => {$(
        impl $name<'_> {
            /// The shapes of the slabs that are made, chunks stacked along the first axis.
            pub fn appended(&self) -> Vec<Vec<usize>> {
                self.patch.append.iter().map(|&slots| self.layout.slab_shape(slots)).collect()
            }

            /// The slabs that are dropped, because no chunk is on them any more.
            pub fn dropped(&self) -> &[u32] {
                &self.patch.drop
            }

            /// Where all chunks are afterwards.
            pub fn places(&self) -> Vec<Place> {
                let mut after = self.layout.clone();
                after.apply(self.patch.clone());
                after.places
            }
        }
    )+};
}
changing_plans!(SetItemPlan ResizePlan LoadPlan);

/// A transfer: everything that goes from one slab or the value to one slab or the result.
#[derive(Debug, Clone, Copy)]
pub struct TransferRows<'a> {
    layout: &'a Layout,
    moves: &'a Moves,
    transfer: &'a Transfer,
}

impl<'a> TransferRows<'a> {
    /// Where data come from.
    pub fn from(&self) -> End {
        self.transfer.from
    }

    /// Where they go to.
    pub fn to(&self) -> End {
        self.transfer.to
    }

    /// What goes where. Positions in a slab count its chunks as stacked along the first axis.
    pub fn rows(&self) -> impl Iterator<Item = Row> + use<'a> {
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

/// What a resize to another number of axes is told.
fn same_axes(expected: usize, shape: &[usize]) -> Result<()> {
    if shape.len() == expected {
        return Ok(());
    }
    Err(invalid(format!("expected a shape of {expected} axes, found {shape:?}")))
}
