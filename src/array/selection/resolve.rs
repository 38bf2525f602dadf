//! The meaning of a selection for an array of some shape: for each axis of the array the selected
//! points, and for each such axis its place in the result.
//!
//! Everything that can be wrong with a selection is found here, before anything is planned. Slices
//! run upwards once they are resolved; one that ran downwards is marked as flipped, so that no layer
//! below knows of negative steps.

use std::ops::Range;

use super::{Index, Selection, invalid};
use crate::error::{Error, ErrorKind, Result};

/// The meaning of a selection for an array of one shape.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Resolved {
    /// The selected positions, for each axis of the array.
    pub(crate) axes: Vec<Axis>,
    /// The shape of the result.
    pub(crate) shape: Vec<usize>,
    /// Where each axis of the array is found in the result.
    pub(crate) views: Vec<View>,
}

/// The positions that are selected on one axis, all of them within the array.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Axis {
    /// One position; the axis is not in the result.
    At(usize),
    /// `count` positions from `start` on, `step` apart.
    Range { start: usize, count: usize, step: usize },
    /// These positions.
    Points(Vec<usize>),
    /// These positions, taken together with the positions of all other zipped axes.
    Zipped(Vec<usize>),
}

/// Where one axis of the array is found in the result: in these axes of it taken as one, and in
/// which direction. None for integers, and for all but the last of zipped axes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct View {
    pub(crate) axes: Range<usize>,
    pub(crate) flipped: bool,
}

impl Resolved {
    /// Whether nothing is selected.
    pub(crate) fn is_empty(&self) -> bool {
        self.shape.contains(&0)
    }
}

impl Selection {
    /// Resolves the selection for an array of this shape.
    pub(crate) fn resolve(&self, shape: &[usize]) -> Result<Resolved> {
        let taken: usize = self.0.iter().map(Index::axes).sum();
        let n = shape.len();
        if taken > n {
            return Err(invalid(format!(
                "too many indices: the array has {n} axes, but {taken} were indexed"
            )));
        }
        let ellipses = self.0.iter().filter(|part| matches!(part, Index::Ellipsis)).count();
        if ellipses > 1 {
            return Err(invalid(format!("expected one ellipsis at most, found {ellipses}")));
        }
        let mut resolver = Resolver { shape, axes: Vec::with_capacity(n), arrays: Vec::new() };
        let mut places = Vec::with_capacity(n);
        let advanced = self.0.iter().any(Index::is_array);
        let mut blocks = Blocks::default();
        for part in &self.0 {
            if advanced {
                blocks.see(part.is_advanced(), places.len());
            }
            match part {
                Index::Ellipsis => {
                    (0..n - taken).try_for_each(|_| resolver.whole(&mut places))?;
                }
                Index::NewAxis => places.push(Place::New),
                other => resolver.part(other, &mut places)?,
            }
        }
        while resolver.axes.len() < n {
            resolver.whole(&mut places)?;
        }
        let together = if blocks.count == 1 { blocks.first } else { 0 };
        resolver.finish(places, together)
    }
}

/// One axis of the result, before arrays are placed.
enum Place {
    /// This axis of the array, in this direction.
    Axis {
        axis: usize,
        flipped: bool,
    },
    New,
}

/// Whether the advanced indices stand side by side, and where the first of them is in the result.
#[derive(Default)]
struct Blocks {
    count: usize,
    inside: bool,
    first: usize,
}

impl Blocks {
    fn see(&mut self, advanced: bool, at: usize) {
        if advanced && !self.inside {
            self.count += 1;
            if self.count == 1 {
                self.first = at;
            }
        }
        self.inside = advanced;
    }
}

/// An array index: its axis, shape and positions.
struct Array {
    axis: usize,
    shape: Vec<usize>,
    points: Vec<usize>,
}

struct Resolver<'a> {
    shape: &'a [usize],
    axes: Vec<Axis>,
    arrays: Vec<Array>,
}

impl Resolver<'_> {
    fn whole(&mut self, places: &mut Vec<Place>) -> Result<()> {
        self.part(&Index::range(None, None, 1), places)
    }

    fn part(&mut self, part: &Index, places: &mut Vec<Place>) -> Result<()> {
        let axis = self.axes.len();
        let size = self.shape.get(axis).copied().unwrap_or(0);
        match part {
            Index::At(at) => self.axes.push(Axis::At(position(*at, axis, size)?)),
            Index::Slice { start, stop, step } => {
                let (range, flipped) = slice(*start, *stop, *step, size)?;
                self.axes.push(range);
                places.push(Place::Axis { axis, flipped });
            }
            Index::Points { shape, points } => {
                check_len(shape, points.len())?;
                let points: Result<Vec<usize>> =
                    points.iter().map(|&at| position(at, axis, size)).collect();
                self.array(shape.clone(), points?);
            }
            Index::Mask { shape, mask } => self.mask(shape, mask)?,
            Index::Ellipsis | Index::NewAxis => {}
        }
        Ok(())
    }

    fn array(&mut self, shape: Vec<usize>, points: Vec<usize>) {
        self.arrays.push(Array { axis: self.axes.len(), shape, points });
        self.axes.push(Axis::Points(Vec::new()));
    }

    /// A mask becomes one array for each of its axes: the coordinates of true elements.
    fn mask(&mut self, shape: &[usize], mask: &[bool]) -> Result<()> {
        check_len(shape, mask.len())?;
        if shape.is_empty() {
            return Err(Error::new(ErrorKind::Unsupported, "a mask has one axis at least"));
        }
        let first = self.axes.len();
        for (axis, (&size, &expected)) in shape.iter().zip(&self.shape[first..]).enumerate() {
            if size != expected {
                return Err(invalid(format!(
                    "expected a mask of {expected} on axis {}, found {size}",
                    first + axis
                )));
            }
        }
        let trues: Vec<usize> =
            mask.iter().enumerate().filter(|(_, on)| **on).map(|(at, _)| at).collect();
        let mut inner = mask.len();
        for &size in shape {
            inner /= size.max(1);
            let points = trues.iter().map(|at| at / inner.max(1) % size.max(1)).collect();
            self.array(vec![trues.len()], points);
        }
        Ok(())
    }

    /// Puts the axes of the result together; those that arrays make come `together`th.
    fn finish(mut self, places: Vec<Place>, together: usize) -> Result<Resolved> {
        let broadcast = broadcast(self.arrays.iter().map(|array| &array.shape[..]))?;
        let mut views = vec![View { axes: 0..0, flipped: false }; self.shape.len()];
        let mut shape = Vec::with_capacity(places.len() + broadcast.len());
        for (at, place) in places.iter().enumerate() {
            if at == together {
                shape.extend(&broadcast);
            }
            match *place {
                Place::Axis { axis, flipped } => {
                    views[axis] = View { axes: shape.len()..shape.len() + 1, flipped };
                    shape.push(self.axes[axis].len());
                }
                Place::New => shape.push(1),
            }
        }
        if together >= places.len() {
            shape.extend(&broadcast);
        }
        self.place_arrays(&broadcast, together, &mut views)?;
        Ok(Resolved { axes: self.axes, shape, views })
    }

    fn place_arrays(&mut self, full: &[usize], first: usize, views: &mut [View]) -> Result<()> {
        let arrays = std::mem::take(&mut self.arrays);
        let view = |axes: Range<usize>| View {
            axes: first + axes.start..first + axes.end,
            flipped: false,
        };
        if let Some(own) = independent(&arrays, full) {
            for (array, axes) in arrays.into_iter().zip(own) {
                views[array.axis] = view(axes);
                self.axes[array.axis] = points_axis(array.points);
            }
            return Ok(());
        }
        let last = arrays.iter().map(|array| array.axis).max();
        for array in arrays {
            if Some(array.axis) == last {
                views[array.axis] = view(0..full.len());
            }
            self.axes[array.axis] = Axis::Zipped(expand(&array, full)?);
        }
        Ok(())
    }
}

impl Axis {
    /// How many positions there are.
    pub(crate) fn len(&self) -> usize {
        match self {
            Axis::At(_) => 1,
            Axis::Range { count, .. } => *count,
            Axis::Points(points) | Axis::Zipped(points) => points.len(),
        }
    }
}

/// An increasing arithmetic progression is a slice, however it was written.
fn points_axis(points: Vec<usize>) -> Axis {
    let count = points.len();
    let start = points.first().copied().unwrap_or(0);
    if count < 2 {
        return Axis::Range { start, count, step: 1 };
    }
    let even =
        |step: usize| points.windows(2).all(|pair| pair[1].checked_sub(pair[0]) == Some(step));
    match points[1].checked_sub(start) {
        Some(step) if step > 0 && even(step) => Axis::Range { start, count, step },
        _ => Axis::Points(points),
    }
}

/// Which axes of the common shape each array alone varies along, where no two share one and each
/// has its own side by side: then every array is an axis of its own, and nothing is zipped. So it is
/// for a single array, and for the open meshes of `numpy.ix_`.
fn independent(arrays: &[Array], full: &[usize]) -> Option<Vec<Range<usize>>> {
    let mut owned = vec![false; full.len()];
    let mut own = Vec::with_capacity(arrays.len());
    for array in arrays {
        let lead = full.len() - array.shape.len();
        let mut range = 0..0;
        for (at, &size) in array.shape.iter().enumerate() {
            let alone = arrays.len() == 1;
            if size == 1 && !alone {
                continue;
            }
            let at = lead + at;
            if owned[at] || (!range.is_empty() && range.end != at) {
                return None;
            }
            owned[at] = true;
            range = if range.is_empty() { at..at + 1 } else { range.start..at + 1 };
        }
        own.push(range);
    }
    // An axis along which no array varies has one point, unless an empty shape hides in there.
    full.iter().zip(&owned).all(|(&size, &owned)| owned || size == 1).then_some(own)
}

/// The positions of an array, repeated to the common shape.
fn expand(array: &Array, full: &[usize]) -> Result<Vec<usize>> {
    let total = product(full)?;
    if array.shape == full {
        return Ok(array.points.clone());
    }
    let lead = full.len() - array.shape.len();
    let mut steps = vec![0; full.len()];
    let mut step = 1;
    for (at, &size) in array.shape.iter().enumerate().rev() {
        steps[lead + at] = if size == 1 { 0 } else { step };
        step *= size;
    }
    let mut points = Vec::with_capacity(total);
    for flat in 0..total {
        let mut rest = flat;
        let mut at = 0;
        for (&size, &step) in full.iter().zip(&steps).rev() {
            at += rest % size * step;
            rest /= size;
        }
        points.push(array.points[at]);
    }
    Ok(points)
}

/// The shape that all these shapes can be repeated to.
fn broadcast<'a>(shapes: impl Iterator<Item = &'a [usize]>) -> Result<Vec<usize>> {
    let mut full: Vec<usize> = Vec::new();
    for shape in shapes {
        while full.len() < shape.len() {
            full.insert(0, 1);
        }
        let lead = full.len() - shape.len();
        for (have, &size) in full[lead..].iter_mut().zip(shape) {
            if *have != size && *have != 1 && size != 1 {
                return Err(invalid(format!(
                    "index arrays of {have} and {size} elements cannot be taken together"
                )));
            }
            if size != 1 {
                *have = size;
            }
        }
    }
    Ok(full)
}

/// The positions of `start:stop:step`, upwards, and whether they were downwards.
fn slice(
    start: Option<isize>,
    stop: Option<isize>,
    step: isize,
    size: usize,
) -> Result<(Axis, bool)> {
    if step == 0 {
        return Err(invalid("expected a step other than 0"));
    }
    let down = step < 0;
    // Positions are between -1, where a slice that runs downwards ends, and the size.
    let n = isize::try_from(size).unwrap_or(isize::MAX);
    let (low, high) = if down { (-1, n - 1) } else { (0, n) };
    let clip = |at: isize| if at < 0 { (at + n).max(low) } else { at.min(high) };
    let first = start.map_or(if down { high } else { low }, clip);
    let end = stop.map_or(if down { low } else { high }, clip);
    let distance = if down { first - end } else { end - first };
    let step = step.unsigned_abs();
    let count = usize::try_from(distance).unwrap_or(0).div_ceil(step);
    // With a single point or none the step may be beyond the array, and means nothing.
    let step = if count > 1 { step } else { 1 };
    let back = if down && count > 0 { (count - 1) * step } else { 0 };
    let start = usize::try_from(first).unwrap_or(0).saturating_sub(back);
    Ok((Axis::Range { start, count, step }, down && count > 1))
}

fn position(at: isize, axis: usize, size: usize) -> Result<usize> {
    let found = if at < 0 { size.checked_sub(at.unsigned_abs()) } else { usize::try_from(at).ok() };
    found.filter(|&found| found < size).ok_or_else(|| {
        invalid(format!("index {at} is out of bounds for axis {axis} with size {size}"))
    })
}

fn check_len(shape: &[usize], found: usize) -> Result<()> {
    let expected = product(shape)?;
    if expected == found {
        return Ok(());
    }
    Err(invalid(format!(
        "expected {expected} elements in an index of shape {shape:?}, found {found}"
    )))
}

/// How many elements a shape has.
pub(crate) fn product(shape: &[usize]) -> Result<usize> {
    if shape.contains(&0) {
        return Ok(0);
    }
    shape.iter().try_fold(1usize, |n, &size| n.checked_mul(size)).ok_or_else(|| {
        Error::new(ErrorKind::Limit, format!("more elements than can be counted: {shape:?}"))
    })
}
