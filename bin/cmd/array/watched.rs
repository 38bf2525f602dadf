//! Rows that move a progress bar when they are read, and stop at Ctrl-C.

use std::ops::Range;

use kiste::array::Rows;
use kiste::value::{DType, NdArray};

use crate::output::Output;
use crate::progress::Progress;

/// Rows of another source, and a bar that says how many of them were read.
pub(super) struct Watched<'a> {
    rows: &'a dyn Rows,
    progress: Progress,
}

impl<'a> Watched<'a> {
    pub(super) fn new(rows: &'a dyn Rows, doing: &str, output: &Output) -> Watched<'a> {
        let len = rows.shape().first().map(|len| *len as u64);
        Watched { rows, progress: output.progress_rows(doing, len) }
    }
}

impl Rows for Watched<'_> {
    fn dtype(&self) -> &DType {
        self.rows.dtype()
    }

    fn shape(&self) -> &[usize] {
        self.rows.shape()
    }

    fn step(&self) -> usize {
        self.rows.step()
    }

    fn read_rows(&self, rows: Range<usize>) -> kiste::Result<NdArray<'static>> {
        self.progress.reaches(rows.start as u64)?;
        self.rows.read_rows(rows)
    }
}
