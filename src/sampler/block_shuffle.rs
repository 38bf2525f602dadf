//! A shuffle whose reads stay in runs.

use std::ops::Range;
use std::sync::Arc;

use super::permutation::{Grid, Key, Purpose};
use super::{Fingerprint, Order, Sampler, check, once, reserve};
use crate::error::{Error, ErrorKind, Result};

/// Shuffles blocks of neighbouring samples, then the samples within each window of blocks.
///
/// The dataset is cut into blocks of `block` samples; the last may be shorter. Blocks are put in
/// random order and taken `window` at a time; the samples of one window come in random order. So a
/// loader reads `window` runs of `block` samples, wherever they are, and then serves `block ×
/// window` samples from memory. Every window is a random choice of blocks: unlike a shuffle buffer
/// it mixes the end of an epoch as well as its beginning.
///
/// **Which sizes?** A block should be long enough that reading it dwarfs finding it: 64 KB on
/// a solid-state disk, 1 MB on a spinning one, 8 MB in an object store. A window should have many
/// more blocks than the data have classes if they are sorted by class; then
/// [`quality`](super::quality) finds label runs close to a full shuffle's.
///
/// ```
/// use kiste::sampler::{BlockShuffle, Sampler};
///
/// let sampler = BlockShuffle::new(100_000, 256, 64, 42)?;
/// let epoch = sampler.blocks(0);
/// // The blocks to read for the first window, and the order of its samples:
/// assert_eq!(epoch.reads(0).count(), 64);
/// let window = epoch.window(0);
/// assert_eq!(window, 0..256 * 64);
/// # Ok::<(), kiste::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockShuffle {
    samples: u64,
    block: u64,
    window: u64,
    seed: u64,
}

impl BlockShuffle {
    /// Blocks of `block` samples, windows of `window` blocks.
    ///
    /// # Errors
    ///
    /// [`Invalid`](ErrorKind::Invalid) if either is 0.
    pub fn new(samples: u64, block: u64, window: u64, seed: u64) -> Result<BlockShuffle> {
        if block == 0 || window == 0 {
            let message = format!("{window} blocks of {block} samples, expected 1 or more of each");
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        // More than there are makes no difference, and cannot overflow below.
        let block = block.min(samples.max(1));
        let window = window.min(samples.div_ceil(block).max(1));
        Ok(BlockShuffle { samples, block, window, seed })
    }

    /// The order of an epoch, which also knows its windows.
    pub fn blocks(&self, epoch: u64) -> BlockOrder {
        let blocks = self.samples.div_ceil(self.block);
        let mut order = BlockOrder {
            samples: self.samples,
            block: self.block,
            window: self.window,
            blocks: Grid::new(blocks),
            count: blocks,
            block_key: Key::new(Purpose::Blocks, self.seed, epoch),
            sample_key: Key::new(Purpose::Window, self.seed, epoch),
            missing: (self.block - self.samples % self.block) % self.block,
            short: 0,
        };
        if blocks > 0 {
            order.short = order.block_key.invert(&order.blocks, 0, blocks - 1);
        }
        order
    }
}

impl Sampler for BlockShuffle {
    fn len(&self) -> u64 {
        self.samples
    }

    fn bound(&self) -> u64 {
        self.samples
    }

    fn fingerprint(&self) -> Fingerprint {
        let name = Fingerprint::new("block", self.samples).seed(self.seed);
        name.with(self.block).with(self.window)
    }

    fn order(&self, epoch: u64) -> Result<Arc<dyn Order>> {
        Ok(Arc::new(self.blocks(epoch)))
    }
}

/// An epoch of a [`BlockShuffle`].
///
/// Blocks lie in *slots*, the places of the shuffled sequence of blocks. The short block is
/// `missing` samples short and lies in the slot `short`: what comes after it moves up.
#[derive(Debug, Clone)]
pub struct BlockOrder {
    samples: u64,
    block: u64,
    window: u64,
    blocks: Grid,
    count: u64,
    block_key: Key,
    sample_key: Key,
    missing: u64,
    short: u64,
}

impl BlockOrder {
    /// Windows of this epoch.
    pub fn windows(&self) -> u64 {
        self.count.div_ceil(self.window)
    }

    /// The positions of a window; empty for one beyond the end.
    pub fn window(&self, window: u64) -> Range<u64> {
        let start = |window: u64| match window.checked_mul(self.window) {
            Some(slot) if slot < self.count => self.start_of(slot),
            _ => self.samples,
        };
        start(window)..start(window.saturating_add(1))
    }

    /// The window of a position.
    pub fn window_of(&self, position: u64) -> u64 {
        check(position, self.samples);
        self.slot_of(position).0 / self.window
    }

    /// The runs of indices that a window is made of, in the order of their slots.
    pub fn reads(&self, window: u64) -> impl Iterator<Item = Range<u64>> + '_ {
        let first = window.saturating_mul(self.window).min(self.count);
        let last = first.saturating_add(self.window).min(self.count);
        (first..last).map(|slot| {
            let start = self.block_key.apply(&self.blocks, 0, slot) * self.block;
            start..start.saturating_add(self.block).min(self.samples)
        })
    }

    /// Where a slot starts in the sequence of blocks.
    fn start_of(&self, slot: u64) -> u64 {
        slot * self.block - if slot > self.short { self.missing } else { 0 }
    }

    /// The index at a position of a window, whose samples the grid permutes.
    #[inline]
    fn index_in(&self, number: u64, window: &Range<u64>, grid: &Grid, position: u64) -> u64 {
        let place = window.start + self.sample_key.apply(grid, number, position - window.start);
        let (slot, within) = self.slot_of(place);
        self.block_key.apply(&self.blocks, 0, slot) * self.block + within
    }

    /// Appends the indices at these positions, all of one window.
    fn fill_in(&self, number: u64, window: &Range<u64>, positions: Range<u64>, out: &mut Vec<u64>) {
        let grid = Grid::new(window.end - window.start);
        let count = positions.end - positions.start;
        if count < self.window {
            out.extend(positions.map(|p| self.index_in(number, window, &grid, p)));
            return;
        }
        // As many samples as the window has blocks: worth finding all of its blocks at once.
        let first = number * self.window;
        let mut blocks: Vec<u64> = (first..self.count.min(first + self.window)).collect();
        self.block_key.apply_all(&self.blocks, 0, &mut blocks);
        let filled = out.len();
        out.extend(positions.start - window.start..positions.end - window.start);
        self.sample_key.apply_all(&grid, number, &mut out[filled..]);
        for index in &mut out[filled..] {
            let (slot, within) = self.slot_of(window.start + *index);
            *index = blocks[(slot - first) as usize] * self.block + within;
        }
    }

    /// The slot of a place in the sequence of blocks, and where in the slot that is.
    fn slot_of(&self, place: u64) -> (u64, u64) {
        let (slot, within) = divide(place, self.block);
        let whole = self.block - self.missing;
        if slot < self.short || slot == self.short && within < whole {
            (slot, within)
        } else if within < whole {
            (slot, within + self.missing)
        } else {
            (slot + 1, within - whole)
        }
    }
}

/// Quotient and remainder. Short division takes a third of the time of a long one.
#[inline]
fn divide(number: u64, by: u64) -> (u64, u64) {
    match (u32::try_from(number), u32::try_from(by)) {
        (Ok(number), Ok(by)) => (u64::from(number / by), u64::from(number % by)),
        _ => (number / by, number % by),
    }
}

impl Order for BlockOrder {
    fn len(&self) -> u64 {
        self.samples
    }

    fn index_at(&self, position: u64) -> u64 {
        let number = self.window_of(position);
        let window = self.window(number);
        self.index_in(number, &window, &Grid::new(window.end - window.start), position)
    }

    fn fill(&self, mut positions: Range<u64>, out: &mut Vec<u64>) {
        if positions.is_empty() {
            return;
        }
        check(positions.end - 1, self.samples);
        reserve(&positions, out);
        while !positions.is_empty() {
            let number = self.window_of(positions.start);
            let window = self.window(number);
            let end = positions.end.min(window.end);
            self.fill_in(number, &window, positions.start..end, out);
            positions.start = end;
        }
    }

    fn position_of(&self, index: u64) -> Option<u64> {
        if index >= self.samples {
            return None;
        }
        let slot = self.block_key.invert(&self.blocks, 0, index / self.block);
        let place = self.start_of(slot) + index % self.block;
        let number = slot / self.window;
        let window = self.window(number);
        let grid = Grid::new(window.end - window.start);
        Some(window.start + self.sample_key.invert(&grid, number, place - window.start))
    }

    fn positions_of(
        &self,
        index: u64,
        positions: Range<u64>,
    ) -> Box<dyn Iterator<Item = u64> + '_> {
        once(self.position_of(index), positions)
    }
}
