//! Rows in memory appended: only the last, incomplete chunks are staged, and rows that fill whole
//! chunks go to the commit from where they are.

use std::borrow::Cow;
use std::ops::Range;

use crate::array::chunked::read::ChunkedArray;
use crate::array::chunked::write::array_chunks::ArrayChunks;
use crate::array::chunked::write::bands::staged_rows;
use crate::array::chunked::write::proposal::{NewChunk, coordinates};
use crate::array::grid::{ChunkGrid, Touch};
use crate::array::staged::{ChunkState, StagedArray};
use crate::error::{Error, ErrorKind, Result};
use crate::value::NdArray;

/// An append, decided.
pub(super) struct Append<'a> {
    base: &'a ChunkedArray,
    /// Rows of chunks that stay as they are.
    kept: usize,
    /// The last rows of the array that are not kept, and the first new ones.
    tail: StagedArray,
    /// New rows that begin where a chunk does, and how they are split.
    direct: &'a [u8],
    grid: ChunkGrid,
    touch: Touch,
}

impl<'a> Append<'a> {
    pub(super) fn new(base: &'a ChunkedArray, rows: &'a NdArray<'_>) -> Result<Append<'a>> {
        let Some((&old, inner)) = base.shape().split_first() else {
            return Err(Error::new(ErrorKind::Invalid, "an array without axes has no rows"));
        };
        let chunk_shape = base.grid().chunk_shape();
        let split = SplitRows::of(rows, base, old);
        let kept = old / chunk_shape[0];
        let mut tail = staged_rows(base, base.grid(), kept * chunk_shape[0]..old)?;
        tail.append_array(&split.staged)?;
        let ranges: Vec<Range<usize>> =
            std::iter::once(split.direct_rows).chain(inner.iter().copied()).map(|n| 0..n).collect();
        let lens: Vec<usize> = ranges.iter().map(Range::len).collect();
        let grid = ChunkGrid::new(&lens, chunk_shape)?;
        let touch = Touch::of_box(&grid, &ranges);
        Ok(Append { base, kept, tail, direct: split.direct, grid, touch })
    }

    /// The shape of the array with the new rows.
    pub(super) fn shape(&self) -> Vec<usize> {
        let mut shape = self.base.shape().to_vec();
        let chunk = self.base.grid().chunk_shape()[0];
        shape[0] = self.kept * chunk + self.tail.shape()[0] + self.grid.shape()[0];
        shape
    }

    /// The chunks of the rows that are not staged.
    pub(super) fn direct_chunks(&self) -> ArrayChunks<'_> {
        let fill = &self.base.core().version.storage.fill;
        ArrayChunks::new(self.direct, &self.grid, &self.touch, fill)
    }

    /// The changed chunks; `direct` are the [`direct_chunks`](Self::direct_chunks).
    pub(super) fn changes<'b>(
        &'b self,
        direct: &'b ArrayChunks<'b>,
    ) -> impl Iterator<Item = Result<(Vec<u64>, NewChunk<'b>)>> {
        let chunk = self.base.grid().chunk_shape()[0];
        let next = (self.kept + self.tail.shape()[0].div_ceil(chunk)) as u64;
        let staged = self.tail.changes().enumerate().filter_map(|(cell, state)| match state {
            Ok(ChunkState::Staged(bytes)) => {
                let mut at = coordinates(self.tail.grid().coordinates(cell));
                at[0] += self.kept as u64;
                Some(Ok((at, NewChunk::Bytes(bytes))))
            }
            Ok(_) => None,
            Err(e) => Some(Err(e)),
        });
        let direct = (0..self.grid.len()).map(move |cell| {
            let mut at = coordinates(self.grid.coordinates(cell));
            at[0] += next;
            Ok((at, NewChunk::Of(direct, cell)))
        });
        staged.chain(direct)
    }
}

/// Rows to be appended: those that complete a chunk and so are staged, and the others.
struct SplitRows<'a> {
    staged: NdArray<'a>,
    direct: &'a [u8],
    direct_rows: usize,
}

impl<'a> SplitRows<'a> {
    fn of(rows: &'a NdArray<'_>, base: &ChunkedArray, old: usize) -> SplitRows<'a> {
        SplitRows::try_of(rows, base, old).unwrap_or_else(|| SplitRows {
            staged: rows.borrow(),
            direct: &[],
            direct_rows: 0,
        })
    }

    fn try_of(rows: &'a NdArray<'_>, base: &ChunkedArray, old: usize) -> Option<SplitRows<'a>> {
        let &chunk = base.grid().chunk_shape().first()?;
        let inner = &base.shape()[1..];
        let (&count, found) = rows.shape().split_first()?;
        let same = rows.dtype() == base.dtype() && found == inner;
        let Cow::Borrowed(bytes) = rows.c_bytes() else { return None };
        let lead = (chunk - old % chunk) % chunk;
        let fits = old.checked_add(count).is_some_and(|end| isize::try_from(end).is_ok());
        if !same || !fits || count < lead + chunk {
            return None;
        }
        let (staged, direct) = bytes.split_at(bytes.len() / count * lead);
        let shape: Vec<usize> = std::iter::once(lead).chain(inner.iter().copied()).collect();
        let staged = NdArray::new(rows.dtype().clone(), shape, staged).ok()?;
        Some(SplitRows { staged, direct, direct_rows: count - lead })
    }
}
