//! The numbers of chunks: a coordinate for each axis to one number, and back.
//!
//! Numbers must not change while an array grows, or the whole table would be rewritten each time.
//! So the multipliers are not the lengths of the grid but [`extents`](Numbering::extents) with
//! room.

use crate::format::FormatError;

/// The most dimensions of an array.
pub const MAX_DIMENSIONS: usize = 32;

/// Numbers are below this one.
const END: u128 = 1 << 63;

/// How the chunks of a grid are numbered.
///
/// ```
/// use kiste::format::chunked::Numbering;
///
/// let numbering = Numbering::of_grid(&[4, 5], None)?;
/// assert_eq!(numbering.extents(), [8]);
/// assert_eq!(numbering.number(&[1, 2]), 10);
/// assert_eq!(numbering.coordinates(10), [1, 2]);
///
/// // Three more columns of chunks: nothing changes.
/// assert_eq!(Numbering::of_grid(&[4, 8], Some(&numbering))?, numbering);
/// # Ok::<(), kiste::format::FormatError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Numbering {
    /// The extents of all axes but the first.
    extents: Vec<u64>,
    /// Whether there is a first axis at all.
    scalar: bool,
}

impl Numbering {
    /// The numbering of a grid with this many chunks on each axis: the parent's where it suffices,
    /// otherwise powers of two, or where these are too large the grid's own lengths.
    pub fn of_grid(grid: &[u64], parent: Option<&Numbering>) -> Result<Numbering, FormatError> {
        if let Some(parent) = parent {
            if parent.suits(grid) {
                return Ok(parent.clone());
            }
        }
        let rest = grid.get(1..).unwrap_or_default();
        let roomy = rest.iter().map(|n| n.checked_next_power_of_two().unwrap_or(*n).max(1));
        let exact = rest.iter().map(|n| (*n).max(1));
        let roomy = Numbering { extents: roomy.collect(), scalar: grid.is_empty() };
        if roomy.suits(grid) {
            return Ok(roomy);
        }
        Numbering::new(grid, exact.collect())
    }

    /// A numbering as it was recorded for this grid.
    pub fn new(grid: &[u64], extents: Vec<u64>) -> Result<Numbering, FormatError> {
        let numbering = Numbering { extents, scalar: grid.is_empty() };
        if !numbering.suits(grid) {
            let expected =
                format!("at most 32 axes, numbers below 2^63, extents for {grid:?} chunks");
            return Err(FormatError::new(0, expected, format!("{:?}", numbering.extents)));
        }
        Ok(numbering)
    }

    /// One for every axis but the first.
    pub fn extents(&self) -> &[u64] {
        &self.extents
    }

    /// The number of a chunk of the grid that this numbering was made for.
    ///
    /// # Panics
    ///
    /// Panics unless there is one coordinate for each axis.
    pub fn number(&self, coordinates: &[u64]) -> u64 {
        let Some((first, rest)) = coordinates.split_first() else { return 0 };
        assert_eq!(rest.len(), self.extents.len(), "a coordinate for each axis");
        // Inside the grid nothing wraps: `suits` has checked that.
        let step =
            |number: u64, (i, extent): (&u64, &u64)| number.wrapping_mul(*extent).wrapping_add(*i);
        rest.iter().zip(&self.extents).fold(*first, step)
    }

    /// The chunk that has this number.
    pub fn coordinates(&self, number: u64) -> Vec<u64> {
        if self.scalar {
            return Vec::new();
        }
        let mut coordinates = vec![0; self.extents.len() + 1];
        let mut rest = number;
        for (coordinate, extent) in coordinates[1..].iter_mut().zip(&self.extents).rev() {
            *coordinate = rest % extent;
            rest /= extent;
        }
        coordinates[0] = rest;
        coordinates
    }

    /// Where a chunk of this number is in the grid, counted with the last axis fastest; `None` if
    /// it is not there.
    ///
    /// ```
    /// # use kiste::format::chunked::Numbering;
    /// let numbering = Numbering::of_grid(&[4, 5], None)?;
    /// assert_eq!(numbering.index(10, &[4, 5]), Some(7)); // the chunk [1, 2]
    /// assert_eq!(numbering.index(10, &[4, 2]), None);
    /// # Ok::<(), kiste::format::FormatError>(())
    /// ```
    pub fn index(&self, number: u64, grid: &[u64]) -> Option<u64> {
        let Some((first, inner)) = grid.split_first() else { return (number == 0).then_some(0) };
        let (mut rest, mut index, mut step) = (number, 0_u64, 1_u64);
        for (extent, n) in self.extents.iter().zip(inner).rev() {
            let at = rest % extent;
            rest /= extent;
            if at >= *n {
                return None;
            }
            // Inside the grid nothing wraps, as in `number`.
            index = index.wrapping_add(at.wrapping_mul(step));
            step = step.wrapping_mul(*n);
        }
        (rest < *first).then(|| index.wrapping_add(rest.wrapping_mul(step)))
    }

    /// Whether a chunk of this number is in the grid.
    pub fn is_within(&self, number: u64, grid: &[u64]) -> bool {
        self.index(number, grid).is_some()
    }

    fn suits(&self, grid: &[u64]) -> bool {
        let rest = grid.get(1..).unwrap_or_default();
        let enough = grid.len() <= MAX_DIMENSIONS
            && rest.len() == self.extents.len()
            && self.scalar == grid.is_empty()
            && self.extents.iter().zip(rest).all(|(extent, n)| extent >= n && *extent > 0);
        let first = u128::from(grid.first().copied().unwrap_or(1));
        // 2^64 at most to begin with, and never beyond 2^127 before the comparison.
        let product = self.extents.iter().try_fold(first, |product, extent| {
            Some(product * u128::from(*extent)).filter(|product| *product <= END)
        });
        enough && first <= END && product.is_some()
    }
}

/// Chunks on each axis: the shape divided by the chunk shape, rounded up. Both have the same number
/// of axes, and no chunk is of length 0.
pub fn grid_of(shape: &[u64], chunk_shape: &[u64]) -> Vec<u64> {
    shape.iter().zip(chunk_shape).map(|(s, c)| s.div_ceil(*c)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_chunk_has_a_number_of_its_own() {
        for grid in [vec![], vec![7], vec![3, 5], vec![2, 3, 4], vec![1, 1, 6, 2]] {
            let numbering = Numbering::of_grid(&grid, None).unwrap();
            let mut seen = std::collections::BTreeSet::new();
            let total: u64 = grid.iter().product();
            for i in 0..total {
                let mut rest = i;
                let mut at: Vec<u64> = grid.iter().rev().map(|n| (rest % n, rest /= n).0).collect();
                at.reverse();
                let number = numbering.number(&at);
                assert_eq!(numbering.coordinates(number), at);
                assert_eq!(numbering.index(number, &grid), Some(i));
                assert!(numbering.is_within(number, &grid));
                seen.insert(number);
            }
            assert_eq!(seen.len() as u64, total);
        }
    }

    #[test]
    fn numbers_outlast_growth() {
        let first = Numbering::of_grid(&[3, 3, 3], None).unwrap();
        assert_eq!(first.extents(), [4, 4]);
        for grid in [[1000, 3, 3], [3, 4, 4], [0, 0, 0], [1, 1, 1]] {
            assert_eq!(Numbering::of_grid(&grid, Some(&first)).unwrap(), first);
        }
        let wider = Numbering::of_grid(&[3, 5, 3], Some(&first)).unwrap();
        assert_eq!(wider.extents(), [8, 4]);
    }

    #[test]
    fn what_is_too_large_is_refused() {
        let half = 1 << 31;
        assert!(Numbering::of_grid(&[1 << 63], None).is_ok());
        assert!(Numbering::of_grid(&[(1 << 63) + 1], None).is_err());
        // Powers of two would be too large, the lengths are not.
        let tight = Numbering::of_grid(&[half, half + 1], None).unwrap();
        assert_eq!(tight.extents(), [1 << 32]);
        let tight = Numbering::of_grid(&[half + 1, half + 1], None).unwrap();
        assert_eq!(tight.extents(), [half + 1]);
        assert!(Numbering::of_grid(&[1 << 32, half + 1], None).is_err());
        assert!(Numbering::of_grid(&[u64::MAX; 32], None).is_err());
        assert!(Numbering::of_grid(&[1; 32], None).is_ok());
        assert!(Numbering::of_grid(&[1; 33], None).is_err());
        for extents in [vec![], vec![0], vec![2], vec![3, 3], vec![u64::MAX]] {
            assert!(Numbering::new(&[3, 3], extents.clone()).is_err(), "{extents:?}");
        }
        assert!(Numbering::new(&[], vec![1]).is_err());
    }

    #[test]
    fn a_grid_has_a_chunk_for_the_rest() {
        assert_eq!(grid_of(&[0, 1, 10, 11, u64::MAX], &[5, 5, 5, 5, 1]), [0, 1, 2, 3, u64::MAX]);
    }
}
