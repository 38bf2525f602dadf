//! [`RowsProgress`]: rows whose reading is reported.

use std::ops::Range;

use crate::array::rows::Rows;
use crate::error::Result;
use crate::value::{DType, NdArray};

/// Rows of another array, and a closure that hears which are read: for progress bars, and to stop
/// what reads them.
///
/// The closure is called before rows are read, with the number of the first one and how many rows
/// there are. Its error ends the reading.
///
/// ```
/// use std::sync::atomic::{AtomicU64, Ordering};
/// use kiste::array::{Rows, RowsProgress};
/// use kiste::value::NdArray;
///
/// let numbers = ndarray::arr1(&[1, 2, 3]);
/// let array = NdArray::from_ndarray(&numbers);
/// let seen = AtomicU64::new(0);
/// let rows = RowsProgress::new(&array, |row, _| Ok(seen.store(row, Ordering::Relaxed)));
/// rows.read_rows(2..3)?;
/// assert_eq!(seen.into_inner(), 2);
/// # Ok::<(), kiste::Error>(())
/// ```
pub struct RowsProgress<'a, F> {
    rows: &'a dyn Rows,
    progress: F,
}

impl<'a, F: Fn(u64, u64) -> Result<()> + Send + Sync> RowsProgress<'a, F> {
    /// Reports which of these rows are read.
    pub fn new(rows: &'a dyn Rows, progress: F) -> RowsProgress<'a, F> {
        RowsProgress { rows, progress }
    }
}

impl<F: Fn(u64, u64) -> Result<()> + Send + Sync> Rows for RowsProgress<'_, F> {
    fn dtype(&self) -> &DType {
        self.rows.dtype()
    }

    fn shape(&self) -> &[usize] {
        self.rows.shape()
    }

    fn step(&self) -> usize {
        self.rows.step()
    }

    fn read_rows(&self, rows: Range<usize>) -> Result<NdArray<'static>> {
        let len = self.shape().first().copied().unwrap_or(0);
        (self.progress)(rows.start as u64, len as u64)?;
        self.rows.read_rows(rows)
    }
}
