//! Which bytes to copy from where to where, decided before any data are touched. Pure numbers.
//!
//! A [`Layout`] knows for each chunk of the grid its [`Place`]: a slab, and a slot in it. Slab 0 is
//! the full slab, one chunk of the fill value that is never written; then come base slabs, which are
//! read only, then staged slabs. A plan is made from a layout and a request alone. It consists of
//! transfers and, where it changes anything, of a [`Patch`] to the layout; the layout itself stays
//! as it is until the data have been moved. So a plan can be inspected, printed and tested by
//! itself, and an operation that fails half-way has changed nothing.
//!
//! Plans print as versioned-hdf5 prints them. Chunks go in the order of their places, so that a
//! slab on a disk is read forwards.
//!
//! Transfers are recorded as chunks only; their rows follow from the
//! [`Touch`](crate::array::grid::Touch) on demand.

use std::fmt;

mod layout;
mod moves;
mod rows;
mod select;
mod load;
mod resize;
mod changes;
mod read;
mod print;

pub(crate) use changes::ChangesPlan;
pub(crate) use layout::{Layout, Patch, SlabInfo, SlabKind};
pub use layout::{Place, Placement};
pub(crate) use load::LoadPlan;
pub(crate) use moves::{End, Move, Moves};
pub(crate) use read::ReadPlan;
pub(crate) use resize::ResizePlan;
#[cfg(not(test))]
use rows::TransferRows;
#[cfg(test)]
pub(crate) use rows::{Row, Span, TransferRows};
pub(crate) use select::{GetItemPlan, SetItemPlan, Shown};

/// The moves and changes of an operation on a [`StagedArray`](crate::array::StagedArray), to be
/// printed. Prints as the plans of versioned-hdf5 do.
#[derive(Debug, Clone)]
pub struct Plan<'a>(Planned<'a>);

#[derive(Debug, Clone)]
enum Planned<'a> {
    Get(GetItemPlan<'a>),
    Set(SetItemPlan<'a>),
    Resize(ResizePlan<'a>),
    Load(LoadPlan<'a>),
    Changes(ChangesPlan<'a>),
}

impl Plan<'_> {
    /// The shape of what is read or assigned; of other plans, the shape of the array afterwards.
    pub fn shape(&self) -> &[usize] {
        match &self.0 {
            Planned::Get(plan) => plan.shape(),
            Planned::Set(plan) => plan.shape(),
            Planned::Resize(plan) => plan.patch.grid.as_ref().unwrap_or(&plan.layout.grid).shape(),
            Planned::Load(plan) => plan.layout.grid.shape(),
            Planned::Changes(plan) => plan.layout.grid.shape(),
        }
    }
}

impl fmt::Display for Plan<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Planned::Get(plan) => plan.fmt(f),
            Planned::Set(plan) => plan.fmt(f),
            Planned::Resize(plan) => plan.fmt(f),
            Planned::Load(plan) => plan.fmt(f),
            Planned::Changes(plan) => plan.fmt(f),
        }
    }
}

macro_rules! printable {
    ($($name:ident $variant:ident)+) => {$(
        impl<'a> From<$name<'a>> for Plan<'a> {
            fn from(plan: $name<'a>) -> Plan<'a> {
                Plan(Planned::$variant(plan))
            }
        }
    )+};
}
printable!(GetItemPlan Get SetItemPlan Set ResizePlan Resize LoadPlan Load ChangesPlan Changes);

macro_rules! plans {
    ($($name:ident)+) => {$(
        impl $name<'_> {
            /// The transfers, in the order in which they are made.
            pub(crate) fn transfers(&self) -> impl Iterator<Item = TransferRows<'_>> {
                let moves = &self.moves;
                moves.transfers.iter().map(|one| TransferRows::new(self.layout, moves, one))
            }
        }
    )+};
}
plans!(GetItemPlan SetItemPlan ResizePlan LoadPlan);

#[cfg(test)]
macro_rules! changing_plans {
    ($($name:ident)+) => {$(
        impl $name<'_> {
            /// The shapes of the slabs that are made, chunks stacked along the first axis.
            pub(crate) fn appended(&self) -> Vec<Vec<usize>> {
                self.patch.append.iter().map(|&slots| self.layout.slab_shape(slots)).collect()
            }

            /// The slabs that are dropped, because no chunk is on them any more.
            pub(crate) fn dropped(&self) -> &[u32] {
                &self.patch.drop
            }

            /// Where all chunks are afterwards.
            pub(crate) fn places(&self) -> Vec<Place> {
                let mut after = self.layout.clone();
                after.apply(self.patch.clone());
                after.places
            }
        }
    )+};
}
#[cfg(test)]
changing_plans!(SetItemPlan ResizePlan LoadPlan);
