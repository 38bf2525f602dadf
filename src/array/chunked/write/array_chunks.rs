//! An array in memory, split into chunks one at a time, so that it is never copied as a whole.

use crate::array::grid::{ChunkGrid, Touch};
use crate::array::plan::Move;
use crate::array::transfer::{Program, Side, c_steps, fill};

/// The elements of an array in C order, and how they are split.
pub(super) struct ArrayChunks<'a> {
    bytes: &'a [u8],
    program: Program<'a>,
    /// Bytes of a chunk.
    chunk: usize,
    /// Whether each chunk but the last is contiguous.
    whole_rows: bool,
    /// The fill value; only where chunks extend beyond the array.
    fill: Option<&'a [u8]>,
}

impl<'a> ArrayChunks<'a> {
    /// An array of this grid's shape. `touch` is all of it; the elements are of the size of the
    /// fill value.
    pub(super) fn new(
        bytes: &'a [u8],
        grid: &ChunkGrid,
        touch: &'a Touch,
        fill: &'a [u8],
    ) -> ArrayChunks<'a> {
        let (shape, chunk) = (grid.shape(), grid.chunk_shape());
        let from = c_steps(shape, fill.len());
        let to = c_steps(chunk, fill.len());
        let len = chunk.iter().product::<usize>() * fill.len();
        let from = Side { steps: &from, chunked: false };
        let program =
            Program::new(touch, &from, &Side { steps: &to, chunked: true }, fill.len(), len);
        let even = shape.iter().zip(chunk).all(|(n, chunk)| n % chunk == 0);
        let whole_rows = shape.get(1..) == chunk.get(1..);
        ArrayChunks { bytes, program, chunk: len, whole_rows, fill: (!even).then_some(fill) }
    }

    /// Bytes of a chunk.
    pub(super) fn chunk_len(&self) -> usize {
        self.chunk
    }

    /// A chunk of the grid, with the fill value beyond the array: in place, or assembled in this
    /// memory.
    pub(super) fn chunk<'b>(&'b self, cell: usize, memory: &'b mut Vec<u8>) -> &'b [u8] {
        if self.whole_rows {
            if let Some(there) = self.bytes.get(cell * self.chunk..(cell + 1) * self.chunk) {
                return there;
            }
        }
        memory.resize(self.chunk, 0);
        if let Some(element) = self.fill {
            fill(memory, element);
        }
        let one = Move { at: cell, from: 0, to: 0 };
        self.program.gather(&one, self.bytes, memory);
        memory
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::array::Selection;

    #[test]
    fn chunks_are_those_of_the_array() {
        for (shape, chunk) in
            [(vec![5, 4], vec![2, 4]), (vec![5, 7], vec![2, 3]), (vec![4, 3, 2], vec![2, 2, 2])]
        {
            let bytes: Vec<u8> = (0..shape.iter().product::<usize>() as u8).collect();
            let grid = ChunkGrid::new(&shape, &chunk).unwrap();
            let all = Selection::all().resolve(&shape).unwrap();
            let touch = Touch::new(&grid, &all);
            let cut = ArrayChunks::new(&bytes, &grid, &touch, &[99]);
            // Earlier contents must not come through.
            let mut memory = vec![77; 100];
            let whole = ndarray::ArrayViewD::from_shape(shape.clone(), &bytes).unwrap();
            for cell in 0..grid.len() {
                let mut expected = ndarray::ArrayD::from_elem(chunk.clone(), 99);
                let region = grid.region(cell);
                let mut view = whole.view();
                for (axis, range) in region.iter().enumerate() {
                    view.slice_axis_inplace(ndarray::Axis(axis), range.clone().into());
                }
                for (at, byte) in view.indexed_iter() {
                    expected[at.clone()] = *byte;
                }
                let found = cut.chunk(cell, &mut memory);
                assert_eq!(found, expected.as_slice().unwrap(), "{shape:?} {chunk:?} {cell}");
            }
        }
    }
}
