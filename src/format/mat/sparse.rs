//! Sparse matrices.

use ndarray::{ArrayD, IxDyn, ShapeBuilder};

use super::convert::{Mismatch, converted};
use crate::value::{self, NdArray};

/// A matrix that stores only the values other than zero, column after column.
#[derive(Debug, Clone, PartialEq)]
pub struct Sparse {
    shape: [usize; 2],
    /// Column and row of each value, ascending.
    places: Vec<(u32, u32)>,
    values: NdArray<'static>,
    /// How many bytes the whole matrix may take.
    limit: u64,
}

impl Sparse {
    /// Checks places, which are within memory that has been counted; the error is what was
    /// expected and what was found.
    pub(super) fn new(
        shape: [usize; 2],
        places: Vec<(u32, u32)>,
        values: NdArray<'static>,
        limit: u64,
    ) -> Result<Sparse, (String, String)> {
        let [height, width] = shape;
        let within =
            |&(column, row): &(u32, u32)| (row as usize) < height && (column as usize) < width;
        if let Some((column, row)) = places.iter().find(|place| !within(place)) {
            let found = format!("a value at {row}, {column}");
            return Err((format!("a sparse matrix of {height} x {width}"), found));
        }
        if let Some(pair) = places.windows(2).find(|pair| pair[0] >= pair[1]) {
            let found = format!("row {} after {}", pair[1].1, pair[0].1);
            return Err(("rows that ascend in each column".to_owned(), found));
        }
        if places.len() != values.len() {
            return Err((
                format!("the places of {} values", values.len()),
                places.len().to_string(),
            ));
        }
        Ok(Sparse { shape, places, values, limit })
    }

    /// How many rows and columns it has.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// The values that are stored: numbers of double precision, complex ones or booleans.
    pub fn values(&self) -> &NdArray<'static> {
        &self.values
    }

    /// Row, column and value of each that is stored, column after column.
    pub fn entries<T: value::Element>(
        &self,
    ) -> Result<impl Iterator<Item = (usize, usize, T)> + '_, Mismatch> {
        let values = converted::<T>(&self.values)?;
        let places = self.places.iter().map(|&(column, row)| (row as usize, column as usize));
        Ok(places.zip(values).map(|((row, column), value)| (row, column, value)))
    }

    /// The whole matrix, with zeros where nothing is stored.
    ///
    /// A few bytes can describe a very large one, so it must be within the
    /// [limit](super::Limits) that the file was read with.
    pub fn to_dense<T: value::Element>(&self) -> Result<ArrayD<T>, Mismatch> {
        let entries = self.entries::<T>()?;
        let size = self.shape.iter().try_fold(size_of::<T>(), |size, &len| size.checked_mul(len));
        if size.is_none_or(|size| size as u64 > self.limit) {
            let [height, width] = self.shape;
            let found = format!("a sparse one of {height} x {width}");
            return Err(Mismatch::new(format!("a matrix of at most {} bytes", self.limit), found));
        }
        let mut dense = ArrayD::from_elem(IxDyn(&self.shape).f(), T::default());
        for (row, column, value) in entries {
            dense[[row, column]] = value;
        }
        Ok(dense)
    }
}

/// The place of each value, from the row of each and where each column begins.
///
/// The error is what was expected and what was found.
pub(super) fn places(
    width: usize,
    rows: &[u32],
    starts: &[u32],
) -> Result<Vec<(u32, u32)>, (String, String)> {
    let Some(starts) = starts.get(..=width) else {
        return Err((format!("the beginnings of {width} columns"), starts.len().to_string()));
    };
    let (first, count) = (starts[0], starts[width] as usize);
    if first != 0 || count > rows.len() || starts.windows(2).any(|pair| pair[0] > pair[1]) {
        let expected = format!("columns that ascend from 0 to at most {}", rows.len());
        return Err((expected, format!("others from {first} to {count}")));
    }
    let columns = starts.windows(2).zip(0..);
    let places = columns.flat_map(|(ends, column)| {
        rows[ends[0] as usize..ends[1] as usize].iter().map(move |&row| (column, row))
    });
    Ok(places.collect())
}
