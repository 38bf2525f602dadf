//! The content of columns.

use std::any::Any;

use super::memory::{Memory, Values};
use crate::error::Result;
use crate::storage::prefer_huge_pages;
use crate::value::Element;

/// All columns of a batch.
pub(super) type Buffers = Vec<Box<dyn Buffer>>;

/// The content of one column.
pub(super) trait Buffer: Any + Send + Sync {
    /// Makes room for this many rows, which take at most this many bytes if they have no fixed size. There
    /// are no rows yet.
    fn reserve(&mut self, rows: usize, bytes: usize);
    /// Sets the number of rows: truncates, or adds zeros.
    fn set_rows(&mut self, rows: usize);
    /// Completes the batch; no more rows come. `_planned` counts the samples of each packed row, if rows were planned.
    fn finish(&mut self, _rows: usize, _planned: &[u32]) -> Result<()> {
        Ok(())
    }
    /// The offsets between samples, if samples have any number of rows.
    fn offsets(&self) -> Option<&[u64]> {
        None
    }
    fn bytes(&self) -> usize;
    /// Describes the content, for a message.
    fn holds(&self) -> String;
    fn as_any(&self) -> &dyn Any;
    fn as_any_mut(&mut self) -> &mut dyn Any;
}

/// Rows of one shape.
pub(super) struct Fixed<T> {
    pub(super) shape: Vec<usize>,
    pub(super) width: usize,
    pub(super) values: Values<T>,
}

impl<T: Element> Fixed<T> {
    pub(super) fn empty(shape: &[usize]) -> Fixed<T> {
        Fixed::with(shape, Values::own())
    }

    pub(super) fn with(shape: &[usize], values: Values<T>) -> Fixed<T> {
        Fixed { shape: shape.to_vec(), width: shape.iter().product(), values }
    }

    pub(super) fn boxed_in(
        shape: &[usize],
        rows: usize,
        memory: Option<Box<dyn Memory>>,
    ) -> Result<Box<dyn Buffer>, String> {
        let memory = memory.ok_or("expected memory for it, found none")?;
        let elements = shape.iter().try_fold(rows, |n, size| n.checked_mul(*size));
        let elements = elements.ok_or_else(|| format!("{rows} rows of {shape:?} are too many"))?;
        Ok(Box::new(Fixed::<T>::with(shape, Values::given(memory, elements)?)))
    }

    /// A row, which is overwritten as a whole.
    pub(super) fn row(&mut self, row: usize) -> &mut [T] {
        self.values.range(row * self.width, (row + 1) * self.width, false)
    }

    /// A row of zeros.
    pub(super) fn zeros(&mut self, row: usize) -> &mut [T] {
        self.values.range(row * self.width, (row + 1) * self.width, true)
    }
}

impl<T: Element> Buffer for Fixed<T> {
    fn reserve(&mut self, rows: usize, _: usize) {
        self.values.reserve(rows.saturating_mul(self.width));
    }

    fn set_rows(&mut self, rows: usize) {
        self.values.resize(rows * self.width);
    }

    fn bytes(&self) -> usize {
        self.values.len() * size_of::<T>()
    }

    fn holds(&self) -> String {
        format!("values of type {}", T::NAME)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}

/// Bytes of all rows, back to back.
pub(super) struct Ragged {
    pub(super) data: Vec<u8>,
    pub(super) offsets: Vec<u64>,
}

impl Ragged {
    pub(super) fn push(&mut self, row: usize, bytes: &[u8]) {
        self.set_rows(row);
        self.data.extend_from_slice(bytes);
        self.offsets.push(self.data.len() as u64);
    }
}

impl Buffer for Ragged {
    fn reserve(&mut self, rows: usize, bytes: usize) {
        self.offsets.reserve(rows);
        if self.data.capacity() < bytes {
            self.data = Vec::new();
            // Batches differ a little, and what is never touched costs nothing.
            self.data = Vec::with_capacity(bytes.saturating_add(bytes / 4));
            prefer_huge_pages(self.data.spare_capacity_mut());
        }
    }

    fn set_rows(&mut self, rows: usize) {
        let end = self.data.len() as u64;
        self.offsets.resize(rows + 1, end);
        self.data.truncate(self.offsets[rows] as usize);
    }

    fn offsets(&self) -> Option<&[u64]> {
        Some(&self.offsets)
    }

    fn bytes(&self) -> usize {
        self.data.len() + self.offsets.len() * 8
    }

    fn holds(&self) -> String {
        "bytes of any length".to_owned()
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}
