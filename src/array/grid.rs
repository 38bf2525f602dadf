//! The chunk grid, and which part of which chunk a selection touches. Pure numbers.
//!
//! A [`Touch`] answers, for each axis on its own, which chunks are touched, which of them entirely,
//! and in which [`Segment`]s: evenly spaced positions in the chunk that go with evenly spaced
//! positions in the value. The product of the axes is touched in all dimensions together. It is
//! never written down, so the size of a touch is the sum over the axes. Axes whose index arrays are
//! taken together point by point are one [`Group`] of the product.

use std::ops::Range;

use crate::array::selection::{Axis, Resolved, invalid, product};
use crate::error::{Error, ErrorKind, Result};

/// An array's shape, divided into chunks of one shape; those at the far edges may be smaller.
///
/// ```
/// use kiste::array::ChunkGrid;
///
/// let grid = ChunkGrid::new(&[10, 4], &[3, 4])?;
/// assert_eq!(grid.counts(), [4, 1]);
/// assert_eq!(grid.region(3), [9..10, 0..4]);
/// # Ok::<(), kiste::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChunkGrid {
    shape: Vec<usize>,
    chunk: Vec<usize>,
    counts: Vec<usize>,
    len: usize,
}

impl ChunkGrid {
    /// The grid of an array. Chunks have as many axes as the array, and one element at least.
    pub fn new(shape: &[usize], chunk: &[usize]) -> Result<ChunkGrid> {
        if shape.len() != chunk.len() {
            return Err(invalid(format!(
                "expected chunks of {} axes, found {}",
                shape.len(),
                chunk.len()
            )));
        }
        if chunk.contains(&0) {
            return Err(invalid(format!("expected chunks that are not empty, found {chunk:?}")));
        }
        product(chunk)?;
        // Indices are signed, and sums of two positions must not overflow.
        if product(shape)?.max(shape.iter().copied().max().unwrap_or(0)) > isize::MAX as usize {
            let message = format!("more elements than can be indexed: {shape:?}");
            return Err(Error::new(ErrorKind::Limit, message));
        }
        let counts: Vec<usize> = shape.iter().zip(chunk).map(|(n, c)| n.div_ceil(*c)).collect();
        let len = product(&counts)?;
        Ok(ChunkGrid { shape: shape.to_vec(), chunk: chunk.to_vec(), counts, len })
    }

    /// The shape of the array.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// The shape of a whole chunk.
    pub fn chunk_shape(&self) -> &[usize] {
        &self.chunk
    }

    /// How many chunks there are along each axis.
    pub fn counts(&self) -> &[usize] {
        &self.counts
    }

    /// How many chunks there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no chunks.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The coordinates of a chunk. Chunks are numbered with the last axis fastest.
    pub fn coordinates(&self, cell: usize) -> Vec<usize> {
        let mut rest = cell;
        let mut at = vec![0; self.counts.len()];
        for (at, &count) in at.iter_mut().zip(&self.counts).rev() {
            *at = rest % count;
            rest /= count;
        }
        at
    }

    /// The part of the array that is in a chunk.
    pub fn region(&self, cell: usize) -> Vec<Range<usize>> {
        let at = self.coordinates(cell);
        (0..at.len())
            .map(|axis| {
                let start = at[axis] * self.chunk[axis];
                start..start + self.extent(axis, at[axis])
            })
            .collect()
    }

    /// How far apart chunks that are neighbours on an axis are numbered.
    pub(crate) fn steps(&self) -> Vec<usize> {
        let mut step = 1;
        let mut steps = vec![0; self.counts.len()];
        for (to, &count) in steps.iter_mut().zip(&self.counts).rev() {
            *to = step;
            step *= count;
        }
        steps
    }

    /// How much of a chunk is within the array.
    pub(crate) fn extent(&self, axis: usize, chunk: usize) -> usize {
        self.chunk[axis].min(self.shape[axis] - chunk * self.chunk[axis])
    }
}

/// Evenly spaced positions of one axis of a chunk, and where they are in the value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Segment {
    /// The first position, counted from the start of the chunk.
    pub(crate) in_chunk: usize,
    /// The first position in the value.
    pub(crate) in_value: usize,
    /// How many positions.
    pub(crate) count: usize,
    /// How far apart they are in the chunk.
    pub(crate) chunk_step: usize,
    /// How far apart they are in the value.
    pub(crate) value_step: usize,
}

/// The parts that a selection touches, as a product of groups of axes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Touch {
    pub(crate) groups: Vec<Group>,
}

/// Axes that are selected together: one, unless index arrays are zipped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Group {
    /// The axes of the array, ascending.
    pub(crate) axes: Vec<usize>,
    /// The chunks that are touched: as many coordinates as there are axes for each of them.
    pub(crate) chunks: Vec<usize>,
    /// Whether every element of the chunk is touched, on these axes.
    pub(crate) whole: Vec<bool>,
    /// Where the segments of each chunk begin, and the end; empty if each has one.
    pub(crate) first: Vec<usize>,
    /// All segments, one for each axis in each step.
    pub(crate) segments: Vec<Segment>,
}

impl Group {
    /// How many chunks are touched.
    pub(crate) fn len(&self) -> usize {
        self.whole.len()
    }

    /// The steps that the segments of a chunk are.
    pub(crate) fn steps(&self, at: usize) -> Range<usize> {
        if self.first.is_empty() { at..at + 1 } else { self.first[at]..self.first[at + 1] }
    }

    /// The segments of one step, one for each axis.
    pub(crate) fn step(&self, step: usize) -> &[Segment] {
        let n = self.axes.len();
        &self.segments[step * n..step * n + n]
    }

    /// The coordinates of a chunk on the axes of this group.
    pub(crate) fn chunk(&self, at: usize) -> &[usize] {
        let n = self.axes.len();
        &self.chunks[at * n..at * n + n]
    }

    fn one(axis: usize, capacity: usize) -> Group {
        Group {
            axes: vec![axis],
            chunks: Vec::with_capacity(capacity),
            whole: Vec::with_capacity(capacity),
            first: Vec::new(),
            segments: Vec::with_capacity(capacity),
        }
    }

    fn push(&mut self, chunk: usize, whole: bool, segment: Segment) {
        self.chunks.push(chunk);
        self.whole.push(whole);
        self.segments.push(segment);
    }
}

impl Touch {
    /// The touch of a selection, which must not be empty.
    pub(crate) fn new(grid: &ChunkGrid, selected: &Resolved) -> Touch {
        let zipped: Vec<usize> = (0..selected.axes.len())
            .filter(|&axis| matches!(selected.axes[axis], Axis::Zipped(_)))
            .collect();
        let mut groups = Vec::with_capacity(selected.axes.len());
        for (axis, index) in selected.axes.iter().enumerate() {
            match index {
                Axis::At(at) => groups.push(point(grid, axis, *at)),
                Axis::Range { start, count, step } => {
                    groups.push(range(grid, axis, *start, *count, *step));
                }
                Axis::Points(points) => groups.push(Points { grid, axis, points }.group()),
                Axis::Zipped(_) if zipped[0] == axis => groups.push(zip(grid, selected, &zipped)),
                Axis::Zipped(_) => {}
            }
        }
        Touch { groups }
    }

    /// The box of these positions.
    pub(crate) fn of_box(grid: &ChunkGrid, ranges: &[Range<usize>]) -> Touch {
        let group = |(axis, r): (usize, &Range<usize>)| range(grid, axis, r.start, r.len(), 1);
        Touch { groups: ranges.iter().enumerate().map(group).collect() }
    }

    /// The same chunks, each with everything that is in it.
    pub(crate) fn entire(&self, grid: &ChunkGrid) -> Touch {
        let entire = |group: &Group| {
            let axes = group.axes.iter().cycle();
            let segment = |(&chunk, &axis): (&usize, &usize)| Segment {
                in_chunk: 0,
                in_value: chunk * grid.chunk[axis],
                count: grid.extent(axis, chunk),
                chunk_step: 1,
                value_step: 1,
            };
            Group {
                axes: group.axes.clone(),
                chunks: group.chunks.clone(),
                whole: vec![true; group.len()],
                first: Vec::new(),
                segments: group.chunks.iter().zip(axes).map(segment).collect(),
            }
        };
        Touch { groups: self.groups.iter().map(entire).collect() }
    }

    /// How many chunks are touched.
    pub(crate) fn len(&self) -> usize {
        self.groups.iter().map(Group::len).product()
    }
}

fn point(grid: &ChunkGrid, axis: usize, at: usize) -> Group {
    let size = grid.chunk[axis];
    let (chunk, in_chunk) = (at / size, at % size);
    let mut group = Group::one(axis, 1);
    let segment = Segment { in_chunk, in_value: 0, count: 1, chunk_step: 1, value_step: 1 };
    group.push(chunk, grid.extent(axis, chunk) == 1, segment);
    group
}

fn range(grid: &ChunkGrid, axis: usize, start: usize, count: usize, step: usize) -> Group {
    let size = grid.chunk[axis];
    let most = if count == 0 { 0 } else { ((count - 1) * step + start) / size - start / size + 1 };
    let mut group = Group::one(axis, most.min(count));
    let mut value = 0;
    let mut at = start;
    while value < count {
        let (chunk, in_chunk) = (at / size, at % size);
        let extent = grid.extent(axis, chunk);
        // Most calls go along whole axes in unit steps; a division for each chunk would show.
        let here = if step == 1 { extent - in_chunk } else { (extent - in_chunk).div_ceil(step) };
        let here = here.min(count - value);
        let segment =
            Segment { in_chunk, in_value: value, count: here, chunk_step: step, value_step: 1 };
        group.push(chunk, here == extent, segment);
        value += here;
        at += here * step;
    }
    group
}

/// Positions of one axis in any order.
struct Points<'a> {
    grid: &'a ChunkGrid,
    axis: usize,
    points: &'a [usize],
}

impl Points<'_> {
    fn group(&self) -> Group {
        let size = self.grid.chunk[self.axis];
        let order = order_by_chunk(self.points, size, self.grid.counts[self.axis]);
        let mut group = Group::one(self.axis, 0);
        let mut seen = Vec::new();
        let mut rest = &order[..];
        while let Some(&first) = rest.first() {
            let chunk = self.points[first] / size;
            let base = chunk * size;
            let n = rest.iter().take_while(|&&at| self.points[at] / size == chunk).count();
            let (here, others) = rest.split_at(n);
            rest = others;
            group.first.push(group.segments.len());
            runs(here, |at| self.points[at] - base, &mut group.segments);
            let extent = self.grid.extent(self.axis, chunk);
            let covers = n >= extent
                && distinct(here.iter().map(|&at| self.points[at]), &mut seen) == extent;
            group.chunks.push(chunk);
            group.whole.push(covers);
        }
        group.first.push(group.segments.len());
        if group.segments.len() == group.len() {
            group.first.clear();
        }
        group
    }
}

/// The numbers of the points, by chunk, and in each chunk as they come.
fn order_by_chunk(points: &[usize], size: usize, chunks: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..points.len()).collect();
    if points.windows(2).all(|pair| pair[0] / size <= pair[1] / size) {
        return order;
    }
    // Counting costs a pass over all chunks of the axis, so a few points of many are sorted.
    if chunks / 4 > points.len() {
        order.sort_by_key(|&at| points[at] / size);
        return order;
    }
    let mut starts = vec![0; chunks + 1];
    for point in points {
        starts[point / size + 1] += 1;
    }
    for chunk in 0..chunks {
        starts[chunk + 1] += starts[chunk];
    }
    for (at, point) in points.iter().enumerate() {
        let next = &mut starts[point / size];
        order[*next] = at;
        *next += 1;
    }
    order
}

/// How many distinct numbers there are.
fn distinct(points: impl Iterator<Item = usize>, seen: &mut Vec<usize>) -> usize {
    seen.clear();
    seen.extend(points);
    seen.sort_unstable();
    seen.dedup();
    seen.len()
}

/// Splits points into segments. A segment lasts as long as the positions in the value and in the
/// chunk rise by the steps that its second point fixed.
///
/// A segment of one point does not begin to stride if the next two points are neighbours, so that
/// stretches stay whole.
fn runs(here: &[usize], in_chunk: impl Fn(usize) -> usize, into: &mut Vec<Segment>) {
    let rise = |i: usize| {
        let (at, next) = (*here.get(i)?, *here.get(i + 1)?);
        let by = in_chunk(next).checked_sub(in_chunk(at)).filter(|&by| by > 0)?;
        Some((next - at, by))
    };
    let mut i = 0;
    while i < here.len() {
        let mut segment = Segment {
            in_chunk: in_chunk(here[i]),
            in_value: here[i],
            count: 1,
            chunk_step: 1,
            value_step: 1,
        };
        if let Some((value_step, chunk_step)) = rise(i) {
            let next = rise(i + 1);
            let splits = |own: usize, next: Option<usize>| own > 1 && next == Some(1);
            let value_next = (i + 2 < here.len()).then(|| here[i + 2] - here[i + 1]);
            if !splits(value_step, value_next) && !splits(chunk_step, next.map(|by| by.1)) {
                (segment.value_step, segment.chunk_step) = (value_step, chunk_step);
                while rise(i + segment.count - 1) == Some((value_step, chunk_step)) {
                    segment.count += 1;
                }
            }
        }
        i += segment.count;
        into.push(segment);
    }
}

/// The axes whose index arrays are taken together, point by point.
///
/// A segment runs along the last of these axes, at one position of the others; the points are an
/// axis of the value, the one of that last axis.
fn zip(grid: &ChunkGrid, selected: &Resolved, axes: &[usize]) -> Group {
    let points: Vec<&[usize]> = axes
        .iter()
        .map(|&axis| match &selected.axes[axis] {
            Axis::Zipped(points) => &points[..],
            _ => &[],
        })
        .collect();
    let chunk_of = |at: usize, k: usize| points[k][at] / grid.chunk[axes[k]];
    let cells: Vec<usize> = (0..points[0].len())
        .map(|at| (0..axes.len()).fold(0, |cell, k| cell * grid.counts[axes[k]] + chunk_of(at, k)))
        .collect();
    let mut order: Vec<usize> = (0..cells.len()).collect();
    order.sort_by_key(|&at| cells[at]);

    let last = axes.len() - 1;
    let mut group = Group { axes: axes.to_vec(), ..Group::one(0, 0) };
    let mut seen = Vec::new();
    let mut runs_here = Vec::new();
    let mut rest = &order[..];
    while let Some(&first) = rest.first() {
        let n = rest.iter().take_while(|&&at| cells[at] == cells[first]).count();
        let (mut here, others) = rest.split_at(n);
        rest = others;
        group.first.push(group.segments.len() / axes.len());
        let start = |k: usize| chunk_of(first, k) * grid.chunk[axes[k]];
        let extent: usize =
            (0..axes.len()).map(|k| grid.extent(axes[k], chunk_of(first, k))).product();
        let flat = |at: &usize| {
            (0..axes.len())
                .fold(0, |flat, k| flat * grid.chunk[axes[k]] + points[k][*at] - start(k))
        };
        group.whole.push(n >= extent && distinct(here.iter().map(flat), &mut seen) == extent);
        group.chunks.extend((0..axes.len()).map(|k| chunk_of(first, k)));
        while let Some(&head) = here.first() {
            let together = |at: &&usize| (0..last).all(|k| points[k][**at] == points[k][head]);
            let (line, others) = here.split_at(here.iter().take_while(together).count());
            here = others;
            runs_here.clear();
            runs(line, |at| points[last][at] - start(last), &mut runs_here);
            for run in &runs_here {
                let fixed = |k: usize| Segment {
                    in_chunk: points[k][head] - start(k),
                    in_value: 0,
                    count: 1,
                    chunk_step: 1,
                    value_step: 1,
                };
                group.segments.extend((0..last).map(fixed));
                group.segments.push(*run);
            }
        }
    }
    group.first.push(group.segments.len() / axes.len());
    group
}

/// More chunks than memory has room for.
pub(crate) fn too_many_chunks(chunks: usize) -> Error {
    Error::new(ErrorKind::Limit, format!("{chunks} chunks are more than fit in memory"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::array::{Index, Selection};
    use serde_json::Value as Json;

    fn group_of(size: usize, chunk: usize, index: Index) -> Option<Group> {
        let grid = ChunkGrid::new(&[size], &[chunk]).unwrap();
        let selected = Selection::from(index).resolve(&[size]).unwrap();
        (!selected.is_empty()).then(|| Touch::new(&grid, &selected).groups.swap_remove(0))
    }

    fn numbers(json: &Json) -> Vec<usize> {
        json.as_array().unwrap().iter().map(|n| n.as_u64().unwrap() as usize).collect()
    }

    fn index(json: &Json) -> Index {
        if let Some(at) = json.as_i64() {
            return Index::At(at as isize);
        }
        if let Some(text) = json.as_str() {
            return text.parse::<Selection>().unwrap().parts()[0].clone();
        }
        if let Some(points) = json.get("i") {
            let points = points.as_array().unwrap();
            return points.iter().map(|n| n.as_i64().unwrap() as isize).collect::<Vec<_>>().into();
        }
        numbers(&json["m"]).iter().map(|&n| n == 1).collect::<Vec<_>>().into()
    }

    /// Every mapper of the golden file, segment by segment.
    #[test]
    fn touches_what_the_original_touches() {
        let path =
            concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/versioned-hdf5-2.0.0/mappers.json");
        let golden: Json = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
        let cases = golden["cases"].as_array().unwrap();
        assert_eq!(cases.len(), 260);
        for case in cases {
            let size = case["size"].as_u64().unwrap() as usize;
            let chunk = case["chunk"].as_u64().unwrap() as usize;
            let group = group_of(size, chunk, index(&case["idx"]));
            let Some(group) = group else {
                assert_eq!(case["empty"], true, "{case}");
                continue;
            };
            assert_eq!(group.chunks, numbers(&case["chunk_indices"]), "{case}");
            let row =
                |s: &Segment| vec![s.in_chunk, s.in_value, s.count, s.chunk_step, s.value_step];
            let expected: Vec<_> = case["slices"].as_array().unwrap().iter().map(numbers).collect();
            assert_eq!(group.segments.iter().map(row).collect::<Vec<_>>(), expected, "{case}");
            match &case["chunk_to_slices"] {
                Json::Null => assert_eq!(group.segments.len(), group.len(), "{case}"),
                starts => assert_eq!(group.first, numbers(starts), "{case}"),
            }
            let whole: Vec<usize> = (0..group.len()).filter(|&at| group.whole[at]).collect();
            let expected = match &case["whole_idxidx"] {
                range @ Json::Array(_) => {
                    let range = numbers(range);
                    (range[0]..range[1]).step_by(range[2]).collect()
                }
                list => numbers(&list["i"]),
            };
            assert_eq!(whole, expected, "{case}");
            let grid = ChunkGrid::new(&[size], &[chunk]).unwrap();
            let entire = &Touch { groups: vec![group] }.entire(&grid).groups[0];
            let expected: Vec<_> = case["entire"].as_array().unwrap().iter().map(numbers).collect();
            let pair = |s: &Segment| vec![s.in_chunk, s.count];
            assert_eq!(entire.segments.iter().map(pair).collect::<Vec<_>>(), expected, "{case}");
        }
    }

    /// The two ways to bring points in the order of their chunks agree.
    #[test]
    fn few_points_of_many_chunks_are_sorted() {
        let points = [90, 3, 91, 4, 3, 50];
        let counted = order_by_chunk(&points, 10, 10);
        assert_eq!(counted, [1, 3, 4, 5, 0, 2]);
        assert_eq!(order_by_chunk(&points, 10, 1000), counted);
    }

    /// Points on two axes: a chunk that they cover is whole, in any order.
    #[test]
    fn zipped_points_cover_chunks() {
        let grid = ChunkGrid::new(&[3, 3], &[2, 2]).unwrap();
        let selection = Selection::from((vec![1, 0, 2, 1, 0, 1], vec![1, 0, 2, 0, 1, 1]));
        let touch = Touch::new(&grid, &selection.resolve(&[3, 3]).unwrap());
        let group = &touch.groups[0];
        assert_eq!((group.len(), group.chunk(0), group.chunk(1)), (2, &[0, 0][..], &[1, 1][..]));
        assert_eq!(group.whole, [true, true]);
        let points: usize = (0..group.len())
            .flat_map(|at| group.steps(at))
            .map(|step| group.step(step).iter().map(|s| s.count).product::<usize>())
            .sum();
        assert_eq!(points, 6);
    }
}
