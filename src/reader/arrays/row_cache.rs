//! Decoded rows of arrays, kept for a while and shared by threads.
//!
//! A block is a run of rows that are stored together. A thread that wants a row of a block that is
//! being decoded waits for it, so no block is decoded twice. Beyond the limit, the least recently
//! used block is dropped; one block is always kept.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::array::Rows;
use crate::error::Result;
use crate::format::msgpack::numpy::{Special, encode_array, encode_scalar};
use crate::value::NdArray;

/// The default limit, in bytes.
pub(crate) const USUAL: usize = 256 << 20;

/// The minimum size of a block where the array is large enough: finding the least recently used one
/// looks at all of them.
const LEAST: usize = 64 << 10;

/// Blocks of any number of arrays, which have numbers.
pub(crate) struct Blocks {
    limit: usize,
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    blocks: HashMap<(usize, usize), Block>,
    bytes: usize,
    clock: u64,
}

struct Block {
    slot: Slot,
    /// 0 while it is being decoded.
    bytes: usize,
    used: u64,
}

type Slot = Arc<Mutex<Option<Arc<NdArray<'static>>>>>;

/// A row, and the block that it is in.
pub(crate) struct Row {
    block: Arc<NdArray<'static>>,
    at: usize,
}

impl Blocks {
    pub(crate) fn new(limit: usize) -> Blocks {
        Blocks { limit, kept: Mutex::default() }
    }

    /// A row of the array of this number. The row must exist.
    pub(crate) fn row(&self, array: usize, rows: &dyn Rows, index: usize) -> Result<Row> {
        let len = block_len(rows);
        let number = index / len;
        let slot = self.slot((array, number));
        // Threads that want the same block wait for the one that decodes it, and for no other.
        let mut decoded = slot.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(block) = &*decoded {
            return Ok(Row { block: block.clone(), at: index % len });
        }
        let count = rows.shape().first().copied().unwrap_or(0);
        let start = number * len;
        let read = rows.read_rows(start..start.saturating_add(len).min(count));
        let block = match read {
            Ok(block) => Arc::new(block),
            Err(error) => {
                self.forget((array, number), &slot);
                return Err(error);
            }
        };
        *decoded = Some(block.clone());
        drop(decoded);
        self.keep((array, number), &slot, block.bytes().len());
        Ok(Row { block, at: index % len })
    }

    fn kept(&self) -> std::sync::MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn slot(&self, id: (usize, usize)) -> Slot {
        let mut kept = self.kept();
        kept.clock += 1;
        let used = kept.clock;
        let new = || Block { slot: Slot::default(), bytes: 0, used };
        let block = kept.blocks.entry(id).or_insert_with(new);
        block.used = used;
        block.slot.clone()
    }

    /// Threads that wait for this block try again.
    fn forget(&self, id: (usize, usize), slot: &Slot) {
        let mut kept = self.kept();
        if kept.blocks.get(&id).is_some_and(|block| Arc::ptr_eq(&block.slot, slot)) {
            kept.blocks.remove(&id);
        }
    }

    /// Counts a block that was decoded, and makes room for it.
    fn keep(&self, id: (usize, usize), slot: &Slot, bytes: usize) {
        let mut kept = self.kept();
        let Kept { blocks, bytes: total, .. } = &mut *kept;
        match blocks.get_mut(&id) {
            // At least 1, as 0 says that it is being decoded, and such blocks are never dropped.
            Some(block) if Arc::ptr_eq(&block.slot, slot) => block.bytes = bytes.max(1),
            _ => return,
        }
        *total += bytes.max(1);
        while *total > self.limit {
            let others = blocks.iter().filter(|(other, block)| **other != id && block.bytes > 0);
            let Some(oldest) = others.min_by_key(|(_, block)| block.used).map(|(id, _)| *id) else {
                break;
            };
            *total -= blocks.remove(&oldest).map_or(0, |block| block.bytes);
        }
    }
}

/// Rows in a block: whole steps of the array.
fn block_len(rows: &dyn Rows) -> usize {
    let item = rows.dtype().item_size();
    let row = rows.shape().iter().skip(1).fold(item, |bytes, len| bytes.saturating_mul(*len));
    let step = rows.step().max(1);
    LEAST.div_ceil(row.max(1)).div_ceil(step).max(1).saturating_mul(step)
}

impl Row {
    /// Appends it as msgpack-numpy packs it: numbers of an array of one axis as NumPy scalars,
    /// everything else as arrays.
    pub(crate) fn pack(&self, out: &mut Vec<u8>) -> Result<()> {
        let (dtype, shape) = (self.block.dtype(), &self.block.shape()[1..]);
        let size = self.block.bytes().len() / self.block.shape()[0].max(1);
        let bytes = &self.block.bytes()[self.at * size..(self.at + 1) * size];
        if shape.is_empty() {
            if let Some(Special::Scalar(scalar)) = Special::scalar(dtype.clone(), bytes) {
                return Ok(encode_scalar(&scalar, out)?);
            }
        }
        Ok(encode_array(&NdArray::new(dtype.clone(), shape, bytes)?, out)?)
    }
}
