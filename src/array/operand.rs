//! The value of an assignment, broadcast to the shape of the selection.

use std::borrow::Cow;

use crate::array::plan::Shown;
use crate::array::selection::{invalid, product};
use crate::array::transfer::c_steps;
use crate::error::Result;
use crate::value::{NdArray, Order};

/// A value in memory.
pub(crate) struct Operand<'a> {
    bytes: &'a [u8],
    shape: Vec<usize>,
    /// The distance of neighbours on each axis, in bytes.
    steps: Vec<isize>,
}

/// A value as transfers see it: one step for each axis of the array.
pub(crate) struct Aimed<'a> {
    pub(crate) bytes: Cow<'a, [u8]>,
    /// Where the first element is.
    pub(crate) start: usize,
    pub(crate) steps: Vec<isize>,
}

impl<'a> Operand<'a> {
    pub(crate) fn scalar(bytes: &'a [u8]) -> Operand<'a> {
        Operand { bytes, shape: Vec::new(), steps: Vec::new() }
    }

    /// The value as an assignment of this shape sees it, broadcast where it is smaller.
    pub(crate) fn aim(&self, shown: &Shown, item: usize) -> Result<Aimed<'a>> {
        let steps = self.repeat(&shown.shape)?;
        if let Some((start, steps)) = aim(shown, &steps) {
            return Ok(Aimed { bytes: Cow::Borrowed(self.bytes), start, steps });
        }
        // Index arrays of several axes, and a value that is broadcast along only some of them.
        let bytes = self.repeated(&shown.shape, &steps, item)?;
        let (start, steps) = aim(shown, &c_steps(&shown.shape, item)).expect("it is in C order");
        Ok(Aimed { bytes: Cow::Owned(bytes), start, steps })
    }

    /// The steps along each axis of a shape; 0 where the value is broadcast.
    fn repeat(&self, shape: &[usize]) -> Result<Vec<isize>> {
        let refused = || {
            let found = &self.shape;
            invalid(format!("expected a value that broadcasts to {shape:?}, found {found:?}"))
        };
        // Unlike arithmetic, assignments allow extra leading axes of length 1.
        let extra = self.shape.len().saturating_sub(shape.len());
        if self.shape[..extra].iter().any(|&size| size != 1) {
            return Err(refused());
        }
        let lead = shape.len() - (self.shape.len() - extra);
        let mut steps = vec![0; shape.len()];
        let own = self.shape[extra..].iter().zip(&self.steps[extra..]);
        for ((to, &wanted), (&size, &step)) in steps[lead..].iter_mut().zip(&shape[lead..]).zip(own)
        {
            match size {
                1 => {}
                size if size == wanted => *to = step,
                _ => return Err(refused()),
            }
        }
        Ok(steps)
    }

    /// All elements of the broadcast value, one by one.
    fn repeated(&self, shape: &[usize], steps: &[isize], item: usize) -> Result<Vec<u8>> {
        let total = product(shape)?;
        let mut bytes = Vec::with_capacity(total.saturating_mul(item));
        for flat in 0..total {
            let mut rest = flat;
            let mut at = 0;
            for (&size, &step) in shape.iter().zip(steps).rev() {
                at += (rest % size) * step as usize;
                rest /= size;
            }
            bytes.extend_from_slice(&self.bytes[at..at + item]);
        }
        Ok(bytes)
    }
}

impl<'a> From<&'a NdArray<'_>> for Operand<'a> {
    fn from(array: &'a NdArray<'_>) -> Operand<'a> {
        let (shape, item) = (array.shape().to_vec(), array.dtype().item_size());
        let steps = match array.order() {
            Order::C => c_steps(&shape, item),
            Order::F => {
                let reversed: Vec<usize> = shape.iter().rev().copied().collect();
                c_steps(&reversed, item).into_iter().rev().collect()
            }
        };
        Operand { bytes: array.bytes(), shape, steps }
    }
}

/// From steps along the axes of a result or value to steps along the axes of the array, and where
/// the first element is. `None` if several axes that are seen as one are not evenly spaced.
pub(crate) fn aim(shown: &Shown, steps: &[isize]) -> Option<(usize, Vec<isize>)> {
    let mut start = 0;
    let mut aimed = vec![0; shown.views.len()];
    for (to, view) in aimed.iter_mut().zip(&shown.views) {
        let mut inner: Option<(isize, usize)> = None;
        for axis in view.axes.clone().rev().filter(|&axis| shown.shape[axis] != 1) {
            let (step, size) = (steps[axis], shown.shape[axis]);
            inner = match inner {
                None => Some((step, size)),
                Some((inner, count)) if step == inner * count as isize => {
                    Some((inner, count * size))
                }
                Some(_) => return None,
            };
        }
        let (step, count) = inner.unwrap_or((0, 1));
        *to = if view.flipped { -step } else { step };
        if view.flipped {
            start += (count.max(1) - 1) * step as usize;
        }
    }
    Some((start, aimed))
}
