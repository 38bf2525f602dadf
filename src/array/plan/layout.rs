//! Where all chunks of an array are, and what changes that.

use crate::array::grid::{ChunkGrid, too_many_chunks};
use crate::error::{Error, ErrorKind, Result};

/// Where a chunk is: in a slot of a slab. Slab 0 has one slot, full of the fill value.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// The number of the slab.
    pub slab: u32,
    /// The number of the slot in it.
    pub slot: u32,
}

/// The kind of a slab.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SlabKind {
    /// The fill value.
    Full,
    /// Read only, from below.
    Base,
    /// In memory, written.
    Staged,
    /// Written earlier, and since then moved out of memory: read only.
    Spilled,
    /// There is no such slab any more; its number is not reused.
    Dropped,
}

/// A slab as plans see it.
#[derive(Debug, Clone)]
pub(crate) struct SlabInfo {
    pub(crate) kind: SlabKind,
    /// How many chunks it has room for.
    pub(crate) slots: u32,
    /// How many slots are in use; the rest are free.
    pub(crate) used: u32,
    /// How many chunks of the grid are there.
    pub(crate) live: usize,
    /// Whether chunks hold the fill value beyond the edge of the array.
    pub(crate) padded: bool,
}

/// Where new chunks are put.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Placement {
    /// Into free slots of the last slab, then into a new slab of twice the size. Many small writes
    /// and appends share a few slabs, and do not slow down reading.
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

/// The changes that a plan makes to a layout, once its data have been moved.
#[derive(Debug, Clone, Default)]
pub(crate) struct Patch {
    /// The new grid, if it changes; the cells below belong to the new one.
    pub(crate) grid: Option<ChunkGrid>,
    /// The slots of each new slab.
    pub(crate) append: Vec<u32>,
    /// How many slots of which slab are handed out.
    pub(crate) used: Vec<(u32, u32)>,
    /// The new places of cells.
    pub(crate) places: Vec<(usize, Place)>,
    /// The slabs that no chunk is on any more.
    pub(crate) drop: Vec<u32>,
}

impl Layout {
    /// All chunks full of the fill value.
    pub(crate) fn new(grid: ChunkGrid, item_size: usize) -> Result<Layout> {
        let chunk: usize = grid.chunk_shape().iter().product();
        let slot_bytes = chunk.checked_mul(item_size).filter(|&n| isize::try_from(n).is_ok());
        let slot_bytes = slot_bytes.ok_or_else(|| {
            Error::new(
                ErrorKind::Limit,
                format!("a chunk of {chunk} elements does not fit in memory"),
            )
        })?;
        let mut places = Vec::new();
        places.try_reserve_exact(grid.len()).map_err(|_| too_many_chunks(grid.len()))?;
        places.resize(grid.len(), Place::default());
        let full = SlabInfo { kind: SlabKind::Full, slots: 1, used: 1, live: 0, padded: true };
        Ok(Layout { grid, places, slabs: vec![full], placement: Placement::default(), slot_bytes })
    }

    /// Whether chunks of this slab can be changed where they are.
    pub(super) fn is_writable(&self, slab: u32) -> bool {
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

    pub(super) fn leave(&mut self, place: Place) {
        if place.slab > 0 {
            self.slabs[place.slab as usize].live -= 1;
        }
    }

    /// Takes another grid; chunks that both have stay where they are.
    pub(super) fn regrid(&mut self, grid: ChunkGrid) {
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

    /// The first row of a slot, as versioned-hdf5 counts offsets.
    pub(super) fn offset(&self, slot: u32) -> usize {
        slot as usize * self.grid.chunk_shape().first().copied().unwrap_or(1)
    }

    pub(super) fn slab_shape(&self, slots: u32) -> Vec<usize> {
        let mut shape = self.grid.chunk_shape().to_vec();
        if let Some(rows) = shape.first_mut() {
            *rows *= slots as usize;
        }
        shape
    }
}

/// Numbers cells of one grid as another one numbers them.
pub(super) struct Regrid {
    old: Vec<usize>,
    new: Vec<usize>,
    steps: Vec<usize>,
}

impl Regrid {
    pub(super) fn new(old: &ChunkGrid, new: &ChunkGrid) -> Regrid {
        let counts = |grid: &ChunkGrid| grid.counts().to_vec();
        Regrid { old: counts(old), new: counts(new), steps: new.steps() }
    }

    pub(super) fn forward(&self, cell: usize) -> Option<usize> {
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

/// Assigns slots, without touching the layout.
pub(super) struct Room<'a> {
    layout: &'a Layout,
    append: Vec<u32>,
    used: Vec<(u32, u32)>,
}

impl<'a> Room<'a> {
    pub(super) fn new(layout: &'a Layout) -> Room<'a> {
        Room { layout, append: Vec::new(), used: Vec::new() }
    }

    /// The first of `n` free slots, side by side in one slab.
    pub(super) fn take(&mut self, n: usize) -> Result<Place> {
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

    pub(super) fn patch(self, places: Vec<(usize, Place)>) -> Patch {
        Patch { append: self.append, used: self.used, places, ..Patch::default() }
    }
}
