//! Views of internals for the tests of this room and of others.

use crate::array::plan::{LoadPlan, ResizePlan, SetItemPlan, SlabInfo, SlabKind};
use crate::array::selection::Selection;
use crate::array::staged::array::StagedArray;
use crate::array::staged::slab::Slab;
use crate::error::Result;

impl StagedArray {
    pub(crate) fn set_item_plan(&self, selection: impl Into<Selection>) -> Result<SetItemPlan<'_>> {
        SetItemPlan::new(&self.layout, &selection.into())
    }

    pub(crate) fn resize_plan(&self, shape: &[usize]) -> Result<ResizePlan<'_>> {
        ResizePlan::new(&self.layout, shape)
    }

    pub(crate) fn load_plan(&self) -> Result<LoadPlan<'_>> {
        LoadPlan::new(&self.layout)
    }

    /// The kind of each slab; the number of a slab never changes.
    pub(crate) fn slab_kinds(&self) -> impl Iterator<Item = SlabKind> {
        self.layout.slabs.iter().map(|slab| slab.kind)
    }

    /// The slab of each chunk, in the order of the grid.
    pub(crate) fn slab_indices(&self) -> Vec<u64> {
        self.layout.places.iter().map(|place| place.slab.into()).collect()
    }

    /// The first row of each chunk in its slab, in the order of the grid.
    pub(crate) fn slab_offsets(&self) -> Vec<u64> {
        let rows = self.chunk_shape().first().map_or(1, |&rows| rows as u64);
        self.layout.places.iter().map(|place| u64::from(place.slot) * rows).collect()
    }

    /// The shapes of the slabs, none for those that were dropped.
    pub(crate) fn slab_shapes(&self) -> Vec<Option<Vec<usize>>> {
        let slab = |slab: &SlabInfo| {
            let mut shape = self.chunk_shape().to_vec();
            shape.first_mut().into_iter().for_each(|rows| *rows *= slab.slots as usize);
            (slab.kind != SlabKind::Dropped).then_some(shape)
        };
        self.layout.slabs.iter().map(slab).collect()
    }

    /// Checks the invariants.
    pub(crate) fn check(&self) {
        let layout = &self.layout;
        assert_eq!(layout.places.len(), layout.grid.len());
        assert_eq!(layout.slabs.len(), self.slabs.len());
        let mut live = vec![0; self.slabs.len()];
        let mut staged = std::collections::HashSet::new();
        for &place in &layout.places {
            let info = &layout.slabs[place.slab as usize];
            assert_ne!(info.kind, SlabKind::Dropped, "{place:?}");
            assert!(place.slot < info.slots, "{place:?}");
            live[place.slab as usize] += usize::from(place.slab > 0);
            if info.kind == SlabKind::Staged {
                assert!(place.slot < info.used && info.used <= info.slots, "{place:?}");
                assert!(staged.insert(place), "two chunks are at {place:?}");
            }
        }
        let found: Vec<usize> = layout.slabs.iter().map(|slab| slab.live).collect();
        assert_eq!(found, live);
        for (slab, info) in self.slabs.iter().zip(&layout.slabs) {
            let kind = match slab {
                Slab::None => matches!(info.kind, SlabKind::Full | SlabKind::Dropped),
                Slab::Base(_) => matches!(info.kind, SlabKind::Base | SlabKind::Spilled),
                Slab::Staged(_) => info.kind == SlabKind::Staged,
            };
            assert!(kind, "{info:?}");
        }
    }
}
