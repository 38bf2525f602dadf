//! Ragged arrays: values of all samples one after the other, next to the lengths or offsets of the samples.

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::path::Path;

use crate::convert::formats::rows;
use crate::error::{Error, ErrorKind, Remedy, Result};
use crate::format::sample_fields::Field;
use crate::value::NdArray;

type Arrays = Vec<(String, NdArray<'static>)>;

/// The names of an array of lengths, and of one of offsets, behind the name of the values and `_`.
const LENGTHS: &str = "lengths";
const OFFSETS: &str = "offsets";

/// Where the rows of ragged arrays end, by the number of the array. The arrays of their lengths and offsets are taken
/// out. Arrays that do not fit and have as many rows as the values are fields like others.
pub(super) fn cut(path: &Path, arrays: &mut Arrays) -> Result<HashMap<usize, Vec<usize>>> {
    let places: HashMap<&str, usize> =
        arrays.iter().enumerate().map(|(at, (name, _))| (&**name, at)).collect();
    let (mut ragged, mut beside) = (Vec::new(), HashSet::new());
    for (name, values) in arrays.iter().filter(|(name, _)| !is_beside(name)) {
        let rows = values.shape().first().copied().unwrap_or_default();
        let mut found: Option<Vec<usize>> = None;
        for what in [LENGTHS, OFFSETS] {
            let own = format!("{name}_{what}");
            let alone = places.get(what).filter(|_| places.len() == 2);
            let Some(&at) = places.get(&*own).or(alone) else { continue };
            let (other, numbers) = &arrays[at];
            let ends = ends(numbers, what);
            let fits = ends.as_ref().is_ok_and(|ends| ends.last().copied().unwrap_or(0) == rows);
            let agrees = ends.as_ref().ok().zip(found.as_ref()).is_none_or(|(a, b)| a == b);
            match ends {
                Ok(ends) if fits && agrees => found = Some(ends),
                _ if numbers.shape().first() == Some(&rows) => continue,
                ends => {
                    let flaw = match ends {
                        Err(message) => message,
                        Ok(_) if fits => {
                            format!("expected what the lengths of {name:?} say, found others")
                        }
                        Ok(ends) => {
                            let last = ends.last().copied().unwrap_or(0);
                            format!("expected {rows} values of {name:?} in all, found {last}")
                        }
                    };
                    let message = format!("array {other:?}: {flaw}");
                    let error = Error::new(ErrorKind::Invalid, message).at(path);
                    return Err(error.with_remedy(Remedy::DropField(other.clone())));
                }
            }
            beside.insert(other.clone());
        }
        ragged.extend(found.map(|ends| (name.clone(), ends)));
    }
    drop(places);
    arrays.retain(|(name, _)| !beside.contains(name));
    let places: HashMap<&str, usize> =
        arrays.iter().enumerate().map(|(at, (name, _))| (&**name, at)).collect();
    Ok(ragged.into_iter().filter_map(|(name, ends)| Some((*places.get(&*name)?, ends))).collect())
}

/// Whether an array is called like lengths or offsets.
fn is_beside(name: &str) -> bool {
    [LENGTHS, OFFSETS].iter().any(|what| {
        name == *what || name.strip_suffix(what).is_some_and(|rest| rest.ends_with('_'))
    })
}

/// The values of a row.
pub(super) fn row(ends: &[usize], index: usize) -> Range<usize> {
    let start = index.checked_sub(1).and_then(|before| ends.get(before)).copied().unwrap_or(0);
    start..ends.get(index).copied().unwrap_or(start)
}

/// The end of each row.
fn ends(numbers: &NdArray<'_>, what: &str) -> std::result::Result<Vec<usize>, String> {
    let other = || "expected a list of integers that are not negative, found others".to_owned();
    let [len] = numbers.shape() else { return Err(other()) };
    let number = |at| match rows::row(numbers, at) {
        Ok(Field::Value(value)) => value.as_u64().and_then(|n| usize::try_from(n).ok()),
        _ => None,
    };
    let numbers = (0..*len).map(number).collect::<Option<Vec<usize>>>().ok_or_else(other)?;
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
        // Also where there are as many lengths as values; unless they do not fit: then it is a field like others.
        let even = array(&[2i16, 0, 1, 1, 1]);
        let found = cut_of(&[("x", values.clone()), ("x_lengths", even)]).unwrap();
        assert_eq!(found, [[2, 2, 3, 4, 5]]);
        let other = array(&[7i64, 1, 1, 1, 1]);
        assert_eq!(cut_of(&[("x", values.clone()), ("x_lengths", other)]).unwrap().len(), 0);
        let both = [("x_lengths", array(&[2u8, 3])), ("x_offsets", array(&[0i64, 2, 5]))];
        let [lengths, offsets] = both;
        assert_eq!(cut_of(&[("x", values.clone()), lengths, offsets]).unwrap(), [[2, 5]]);
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
            ("x_lengths", array(&[-1i64, 4]), "expected a list of integers that are not negative"),
            ("x_lengths", array(&[i64::MAX, i64::MAX, i64::MAX, 5]), "expected 3 values"),
            ("x_offsets", array(&[1i64, 3]), "expected offsets that begin with 0"),
            ("x_offsets", array(&[0i64, 3, 2, 3]), "expected offsets that begin with 0"),
            ("x_offsets", array(&[0.5f64, 3.0]), "expected a list of integers"),
        ] {
            let error = cut_of(&[("x", values.clone()), (name, numbers)]).unwrap_err();
            assert!(error.contains(says), "{name}: {error}");
        }
    }
}
