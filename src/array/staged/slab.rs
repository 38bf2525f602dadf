//! Slabs in memory: chunks side by side.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use crate::array::plan::Place;
use crate::array::transfer::BaseSlab;
use crate::error::{Error, ErrorKind, Result};
use crate::storage::prefer_huge_pages;

/// A slab by its number; its other properties are in the layout.
#[derive(Debug, Clone)]
pub(crate) enum Slab {
    /// The fill value, or nothing any more.
    None,
    /// Read only.
    Base(Arc<dyn BaseSlab>),
    /// Written; copied first if another array shares it.
    Staged(Arc<Slots>),
}

impl Slab {
    /// Forgets what its chunks are copies of, where they are this array's alone.
    pub(crate) fn forget_copies(&mut self) {
        if let Slab::Staged(slots) = self {
            if let Some(slots) = Arc::get_mut(slots) {
                slots.copies.clear();
            }
        }
    }
}

/// Chunks side by side, where elements of any type may begin.
pub(crate) struct Slots {
    memory: Vec<u128>,
    /// Bytes of one chunk.
    size: usize,
    /// The origin of each chunk, if known; empty if chunks are small.
    copies: Vec<Option<Copied>>,
}

/// A chunk that was copied from a base slab.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Copied {
    /// Where it was.
    pub(crate) from: Place,
    /// The bytes that may have been written since: all others are as they were there.
    pub(crate) written: Range<usize>,
}

/// In chunks of this size and smaller, changed parts are not worth noting. Tests note all of them.
const WORTH_NOTING: usize = if cfg!(test) { 0 } else { 64 << 10 };

impl Slots {
    /// Room for this many chunks. The memory is zero, and not committed until it is written.
    pub(crate) fn new(slots: u32, size: usize) -> Result<Slots> {
        let bytes = (slots as usize).checked_mul(size).filter(|&bytes| fits(bytes));
        let bytes = bytes.ok_or_else(|| {
            let message = format!("{slots} chunks of {size} bytes are more than fit in memory");
            Error::new(ErrorKind::Limit, message)
        })?;
        let copies = if size > WORTH_NOTING { vec![None; slots as usize] } else { Vec::new() };
        Ok(Slots::zeroed(bytes.div_ceil(size_of::<u128>()), size, copies))
    }

    fn zeroed(words: usize, size: usize, copies: Vec<Option<Copied>>) -> Slots {
        let mut memory = vec![0_u128; words];
        prefer_huge_pages(&mut memory);
        Slots { memory, size, copies }
    }

    /// All chunks, and padding that fills the last word.
    pub(crate) fn bytes(&self) -> &[u8] {
        bytemuck::cast_slice(&self.memory)
    }

    /// The same, to write to.
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        bytemuck::cast_slice_mut(&mut self.memory)
    }

    /// One chunk.
    pub(crate) fn slot(&self, slot: usize) -> &[u8] {
        &self.bytes()[slot * self.size..][..self.size]
    }

    /// One chunk, to write to.
    pub(crate) fn slot_mut(&mut self, slot: usize) -> &mut [u8] {
        let size = self.size;
        &mut self.bytes_mut()[slot * size..][..size]
    }

    /// A copy of the first `used` chunks, with the same capacity.
    pub(crate) fn copy(&self, used: u32) -> Slots {
        let mut copy = Slots::zeroed(self.memory.len(), self.size, self.copies.clone());
        let used = used as usize * self.size;
        copy.bytes_mut()[..used].copy_from_slice(&self.bytes()[..used]);
        copy
    }

    /// The origin of a chunk that is a copy, if that was noted.
    pub(crate) fn copied(&self, slot: usize) -> Option<&Copied> {
        self.copies.get(slot)?.as_ref()
    }

    /// Whether anything is noted of these chunks.
    pub(crate) fn takes_notes(&self) -> bool {
        !self.copies.is_empty()
    }

    /// Notes what a chunk is a copy of.
    pub(crate) fn note_copy(&mut self, slot: u32, from: Option<Place>) {
        if let Some(copy) = self.copies.get_mut(slot as usize) {
            *copy = from.map(|from| Copied { from, written: 0..0 });
        }
    }

    /// Notes that these bytes of a chunk were written.
    pub(crate) fn note_written(&mut self, slot: u32, bytes: Range<usize>) {
        if let Some(Some(Copied { written, .. })) = self.copies.get_mut(slot as usize) {
            *written = match (*written).is_empty() {
                true => bytes,
                false => written.start.min(bytes.start)..written.end.max(bytes.end),
            };
        }
    }
}

/// Whether this many bytes can be allocated. `vec![0; n]` gets zeroed memory without touching it,
/// but aborts the program on failure; so large amounts are requested once beforehand.
pub(crate) fn fits(bytes: usize) -> bool {
    const LARGE: usize = 1 << 20;
    if bytes < LARGE {
        return true;
    }
    let mut probe = Vec::<u8>::new();
    let fits = probe.try_reserve_exact(bytes).is_ok();
    // Otherwise the compiler may see that the memory is unused, and skip the allocation.
    std::hint::black_box(&mut probe);
    fits
}

impl fmt::Debug for Slots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Slots({} of {} bytes)", self.slots(), self.size)
    }
}

impl BaseSlab for Slots {
    fn slots(&self) -> usize {
        self.bytes().len().checked_div(self.size).unwrap_or(0)
    }

    fn read(&self, slot: usize, at: usize, into: &mut [u8]) -> Result<()> {
        into.copy_from_slice(&self.slot(slot)[at..at + into.len()]);
        Ok(())
    }

    fn chunk(&self, slot: usize) -> Option<&[u8]> {
        Some(self.slot(slot))
    }

    fn is_padded(&self) -> bool {
        true
    }
}
