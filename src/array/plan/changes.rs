//! Where each chunk is when changes are committed.

use super::layout::{Layout, Place, SlabKind};

/// Where each chunk is, for a commit: a chunk on a staged slab is new, one on a base slab is
/// unchanged, one on the full slab is only the fill value.
#[derive(Debug, Clone)]
pub(crate) struct ChangesPlan<'a> {
    pub(super) layout: &'a Layout,
}

/// Whether a chunk was changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ChunkChange {
    /// The number of the chunk, the last axis of the grid fastest.
    pub(crate) cell: usize,
    /// Where it is.
    pub(crate) place: Place,
    /// The kind of the slab; never [`SlabKind::Dropped`].
    pub(crate) kind: SlabKind,
}

impl<'a> ChangesPlan<'a> {
    pub(crate) fn new(layout: &'a Layout) -> ChangesPlan<'a> {
        ChangesPlan { layout }
    }

    /// Every chunk of the grid, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = ChunkChange> + use<'a> {
        let layout = self.layout;
        layout.places.iter().enumerate().map(|(cell, &place)| ChunkChange {
            cell,
            place,
            kind: layout.slabs[place.slab as usize].kind,
        })
    }
}
