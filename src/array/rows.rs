//! Arrays whose rows can be read in order, however they are stored.

use std::ops::Range;

use crate::error::Result;
use crate::value::{DType, NdArray, Order};

use crate::array::selection::invalid;

/// An array whose rows can be read: the source of an import and of an export.
///
/// Rows are the entries of the first axis; an array without axes has none.
///
/// ```
/// use kiste::array::{Pieces, Rows};
/// use kiste::value::NdArray;
///
/// let numbers = ndarray::Array2::from_shape_fn((10, 3), |(i, j)| (3 * i + j) as i32);
/// let array = NdArray::from_ndarray(&numbers);
/// let source: &dyn Rows = &array;
/// let pieces: Vec<_> = Pieces::of(source, 48)?.collect::<Result<_, _>>()?;
/// assert_eq!(pieces.iter().map(|piece| piece.shape()[0]).collect::<Vec<_>>(), [4, 4, 2]);
/// # Ok::<(), kiste::Error>(())
/// ```
pub trait Rows: Send + Sync {
    /// The type of the elements.
    fn dtype(&self) -> &DType;
    /// The length of each axis.
    fn shape(&self) -> &[usize];
    /// How many rows are stored together: reading a multiple of it is cheapest.
    fn step(&self) -> usize;
    /// These rows, in C order. Of an array without axes, row 0 is all of it.
    fn read_rows(&self, rows: Range<usize>) -> Result<NdArray<'static>>;
}

/// Iterator over all rows of an array, a few at a time.
#[must_use = "iterators are lazy"]
pub struct Pieces<'a> {
    rows: &'a dyn Rows,
    count: usize,
    step: usize,
    at: usize,
}

impl<'a> Pieces<'a> {
    /// Pieces of at least this many bytes, rounded up to a multiple of [`step`](Rows::step). The
    /// last one may be smaller.
    pub fn of(rows: &'a dyn Rows, bytes: usize) -> Result<Pieces<'a>> {
        let count = row_count(rows.shape())?;
        let row = rows.shape()[1..]
            .iter()
            .fold(rows.dtype().item_size(), |size, &len| size.saturating_mul(len));
        let step = rows.step().max(1);
        let step = bytes.div_ceil(row.max(1)).div_ceil(step).max(1).saturating_mul(step);
        Ok(Pieces { rows, count, step, at: 0 })
    }
}

impl Iterator for Pieces<'_> {
    type Item = Result<NdArray<'static>>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.at >= self.count {
            return None;
        }
        let range = self.at..self.at.saturating_add(self.step).min(self.count);
        self.at = range.end;
        Some(self.rows.read_rows(range))
    }
}

/// The length of the first axis.
pub(crate) fn row_count(shape: &[usize]) -> Result<usize> {
    let none = "expected an array with rows, found one without dimensions";
    shape.first().copied().ok_or_else(|| invalid(none))
}

/// Fails unless these are rows of an array with `count` rows.
pub(crate) fn check_rows(rows: &Range<usize>, count: usize) -> Result<()> {
    match rows.start <= rows.end && rows.end <= count {
        true => Ok(()),
        false => Err(invalid(format!("expected rows within 0..{count}, found {rows:?}"))),
    }
}

impl Rows for NdArray<'_> {
    fn dtype(&self) -> &DType {
        NdArray::dtype(self)
    }

    fn shape(&self) -> &[usize] {
        NdArray::shape(self)
    }

    fn step(&self) -> usize {
        1
    }

    fn read_rows(&self, rows: Range<usize>) -> Result<NdArray<'static>> {
        if NdArray::shape(self).is_empty() {
            return Ok(self.borrow().into_owned());
        }
        let count = row_count(NdArray::shape(self))?;
        check_rows(&rows, count)?;
        let shape = [&[rows.len()], &NdArray::shape(self)[1..]].concat();
        let part = match self.order() == Order::F && NdArray::shape(self).len() > 1 {
            true => gather_rows(self, rows),
            false => {
                let row = self.bytes().len() / count.max(1);
                self.bytes()[rows.start * row..rows.end * row].to_vec()
            }
        };
        NdArray::new(NdArray::dtype(self).clone(), shape, part)
    }
}

/// Some rows of an array in Fortran order, where each row is spread over the whole array. Only the
/// wanted parts are read, as the array may be a mapped file.
fn gather_rows(array: &NdArray<'_>, rows: Range<usize>) -> Vec<u8> {
    let (item, shape) = (NdArray::dtype(array).item_size(), NdArray::shape(array));
    let (count, inner) = (shape[0], &shape[1..]);
    let row: usize = inner.iter().product();
    let mut out = vec![0; rows.len() * row * item];
    if out.is_empty() {
        return out;
    }
    let mut index = vec![0; inner.len()];
    for column in array.bytes().chunks_exact(count * item) {
        let at = index.iter().zip(inner).fold(0, |at, (i, len)| at * len + i);
        let wanted = column[rows.start * item..rows.end * item].chunks_exact(item);
        for (line, element) in out.chunks_exact_mut(row * item).zip(wanted) {
            line[at * item..(at + 1) * item].copy_from_slice(element);
        }
        for (i, len) in index.iter_mut().zip(inner) {
            *i += 1;
            if *i < *len {
                break;
            }
            *i = 0;
        }
    }
    out
}
