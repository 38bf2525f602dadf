//! Samples that come again, by key or by a field.

use super::open::Doing;
use crate::error::Result;
use crate::reader::{Reader, Selection};
use crate::rearrange::{self, DuplicatesBy};

/// Pairs of the first sample with a value and a later one, ascending by the later one.
fn pairs(
    reader: &dyn Reader,
    by: &DuplicatesBy,
    progress: &mut dyn FnMut(Doing<'_>) -> Result<()>,
) -> Result<Vec<(usize, usize)>> {
    let total = reader.len() as u64;
    let groups = rearrange::duplicates(reader, by, |done| {
        progress(Doing { what: "looking for duplicates", done, total })
    })?;
    let later = |group: Vec<usize>| {
        let first = group[0];
        group.into_iter().skip(1).map(move |index| (first, index))
    };
    let mut pairs: Vec<(usize, usize)> = groups.into_iter().flat_map(later).collect();
    pairs.sort_unstable_by_key(|pair| pair.1);
    Ok(pairs)
}

/// The first sample with each value.
pub(super) fn first_of_each(
    reader: &dyn Reader,
    by: Option<&str>,
    progress: &mut dyn FnMut(Doing<'_>) -> Result<()>,
) -> Result<Selection> {
    let len = reader.len();
    if by.is_none() && !reader.may_repeat_keys() {
        return Ok(Selection::of_range(0..len));
    }
    let by = by.map_or(DuplicatesBy::Key, |field| DuplicatesBy::Field(field.to_owned()));
    let later: Vec<usize> = pairs(reader, &by, progress)?.into_iter().map(|pair| pair.1).collect();
    Ok(Selection::all_but(len, &later))
}

pub(super) fn duplicates(
    reader: &dyn Reader,
    progress: &mut dyn FnMut(Doing<'_>) -> Result<()>,
) -> Result<Vec<(usize, usize)>> {
    match reader.may_repeat_keys() {
        true => pairs(reader, &DuplicatesBy::Key, progress),
        false => Ok(Vec::new()),
    }
}
