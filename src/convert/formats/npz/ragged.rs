//! Ragged arrays: values of all samples one after the other, next to the lengths or offsets of the samples.

use std::collections::HashMap;
use std::ops::Range;
use std::path::Path;

use crate::error::{Error, ErrorKind, Result};
use crate::value::NdArray;

type Arrays = Vec<(String, NdArray<'static>)>;

/// The names of an array of lengths, and of one of offsets, behind the name of the values and `_`.
const LENGTHS: &str = "lengths";
const OFFSETS: &str = "offsets";

/// Where the rows of ragged arrays end, by the number of the array. The arrays of their lengths and offsets are taken
/// out. Arrays that have as many rows as lengths are not ragged.
pub(super) fn cut(path: &Path, arrays: &mut Arrays) -> Result<HashMap<usize, Vec<usize>>> {
    let mut ragged: Vec<(String, String, Vec<usize>)> = Vec::new();
    for (name, values) in arrays.iter() {
        let rows = values.shape().first().copied().unwrap_or_default();
        for what in [LENGTHS, OFFSETS] {
            let Some((beside, numbers)) = numbers_of(arrays, name, what) else { continue };
            let is_even = what == LENGTHS && numbers.shape().first() == Some(&rows);
            if is_even || ragged.iter().any(|(known, ..)| known == name) {
                continue;
            }
            let wrong = |message: String| {
                let message = format!("array {beside:?}: {message}");
                Err(Error::new(ErrorKind::Invalid, message).at(path))
            };
            let ends = match ends(numbers, what) {
                Ok(ends) => ends,
                Err(message) => return wrong(message),
            };
            let last = ends.last().copied().unwrap_or_default();
            if last != rows {
                return wrong(format!("expected {rows} values of {name:?} in all, found {last}"));
            }
            ragged.push((name.clone(), beside.to_owned(), ends));
        }
    }
    arrays.retain(|(name, _)| !ragged.iter().any(|(_, beside, _)| beside == name));
    let place = |name: &str| arrays.iter().position(|(known, _)| known == name);
    Ok(ragged.iter().filter_map(|(name, _, ends)| Some((place(name)?, ends.clone()))).collect())
}

/// The values of a row.
pub(super) fn row(ends: &[usize], index: usize) -> Range<usize> {
    let start = index.checked_sub(1).and_then(|before| ends.get(before)).copied().unwrap_or(0);
    start..ends.get(index).copied().unwrap_or(start)
}

/// The lengths or offsets of an array, if they are there.
fn numbers_of<'a>(
    arrays: &'a Arrays,
    name: &str,
    what: &str,
) -> Option<(&'a str, &'a NdArray<'static>)> {
    let own = format!("{name}_{what}");
    let is_own = |found: &str| found == own || (found == what && arrays.len() == 2 && name != what);
    let (name, numbers) = arrays.iter().find(|(found, _)| is_own(found))?;
    Some((name, numbers))
}

/// The end of each row.
fn ends(numbers: &NdArray<'_>, what: &str) -> std::result::Result<Vec<usize>, String> {
    let integers = || {
        if numbers.shape().len() != 1 {
            return None;
        }
        if let Ok(signed) = numbers.to_ndarray::<i64>() {
            return signed.iter().map(|n| usize::try_from(*n).ok()).collect();
        }
        if let Ok(signed) = numbers.to_ndarray::<i32>() {
            return signed.iter().map(|n| usize::try_from(*n).ok()).collect();
        }
        if let Ok(unsigned) = numbers.to_ndarray::<u64>() {
            return unsigned.iter().map(|n| usize::try_from(*n).ok()).collect();
        }
        let unsigned = numbers.to_ndarray::<u32>().ok()?;
        unsigned.iter().map(|n| usize::try_from(*n).ok()).collect::<Option<Vec<usize>>>()
    };
    let Some(numbers) = integers() else {
        return Err(
            "expected integers of 32 or 64 bits that are not negative, found others".to_owned()
        );
    };
    if what == LENGTHS {
        let mut end = 0usize;
        let sums = numbers.iter().map(|length| {
            end = end.saturating_add(*length);
            end
        });
        return Ok(sums.collect());
    }
    match numbers.split_first() {
        Some((0, ends)) if ends.windows(2).all(|pair| pair[0] <= pair[1]) => Ok(ends.to_vec()),
        _ => Err("expected offsets that begin with 0 and do not fall, found others".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn array<T: crate::value::Element>(numbers: &[T]) -> NdArray<'static> {
        NdArray::from_ndarray(&ndarray::aview1(numbers)).into_owned()
    }

    fn named(arrays: &[(&str, NdArray<'static>)]) -> Arrays {
        arrays.iter().map(|(name, array)| ((*name).to_owned(), array.clone())).collect()
    }

    fn cut_of(arrays: &[(&str, NdArray<'static>)]) -> std::result::Result<Vec<Vec<usize>>, String> {
        let found = cut(Path::new("x.npz"), &mut named(arrays)).map_err(|error| error.to_string());
        found.map(|found| found.into_values().collect())
    }

    #[test]
    fn rows_end_where_lengths_or_offsets_say() {
        let values = array(&[1u8, 2, 3, 4, 5]);
        for (name, numbers) in [
            ("x_lengths", array(&[2i64, 0, 3])),
            ("x_lengths", array(&[2u32, 0, 3])),
            ("x_offsets", array(&[0i32, 2, 2, 5])),
            ("lengths", array(&[2u64, 0, 3])),
            ("offsets", array(&[0i64, 2, 2, 5])),
        ] {
            let found = cut_of(&[("x", values.clone()), (name, numbers)]).unwrap();
            assert_eq!(found, [[2, 2, 5]], "{name}");
            assert_eq!(
                (row(&found[0], 0), row(&found[0], 1), row(&found[0], 2)),
                (0..2, 2..2, 2..5)
            );
        }
        // As many lengths as rows: a field like others.
        let even = array(&[1i64, 1, 1, 1, 1]);
        assert_eq!(cut_of(&[("x", values.clone()), ("x_lengths", even)]).unwrap().len(), 0);
        assert_eq!(cut_of(&[("x", values.clone()), ("y", array(&[0i64]))]).unwrap().len(), 0);
        // A field of that name is no length of another one.
        let mut three = named(&[
            ("x", values),
            ("x_lengths", array(&[2i64, 0, 3])),
            ("lengths", array(&[1i64, 2, 3])),
        ]);
        assert_eq!(cut(Path::new("x.npz"), &mut three).unwrap().len(), 1);
        assert_eq!(three.iter().map(|(name, _)| &**name).collect::<Vec<_>>(), ["x", "lengths"]);
    }

    #[test]
    fn lengths_that_do_not_fit_are_an_error() {
        let values = array(&[1u8, 2, 3]);
        for (name, numbers, says) in [
            ("x_lengths", array(&[2i64, 2]), "expected 3 values of \"x\" in all, found 4"),
            (
                "x_lengths",
                array(&[-1i64, 4]),
                "expected integers of 32 or 64 bits that are not negative",
            ),
            ("x_lengths", array(&[i64::MAX, i64::MAX, i64::MAX, 5]), "expected 3 values"),
            ("x_offsets", array(&[1i64, 3]), "expected offsets that begin with 0"),
            ("x_offsets", array(&[0i64, 3, 2, 3]), "expected offsets that begin with 0"),
            ("x_offsets", array(&[0.5f64, 3.0]), "expected integers"),
        ] {
            let error = cut_of(&[("x", values.clone()), (name, numbers)]).unwrap_err();
            assert!(error.contains(says), "{name}: {error}");
        }
    }
}
