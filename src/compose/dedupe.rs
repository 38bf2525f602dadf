//! Samples that come again, by key or by a field.

use std::borrow::Cow;
use std::collections::HashMap;
use std::hash::BuildHasher;

use super::open::Doing;
use crate::error::{Error, ErrorKind, Remedy, Result};
use crate::reader::{Reader, Selection};

/// Samples between two calls of a progress closure.
const STRIDE: usize = 1024;

/// What samples are compared by. `None` for a sample without the field.
fn value<'a>(
    reader: &'a dyn Reader,
    by: Option<&str>,
    index: usize,
) -> Result<Option<Cow<'a, [u8]>>> {
    match by {
        None => Ok(Some(match reader.key(index)? {
            Cow::Borrowed(key) => Cow::Borrowed(key.as_bytes()),
            Cow::Owned(key) => Cow::Owned(key.into_bytes()),
        })),
        Some(field) => reader.field_raw(index, field),
    }
}

/// Pairs of the first sample with a value and a later one, ascending by the later one. Sorts 16 bytes for each sample.
fn pairs(
    reader: &dyn Reader,
    by: Option<&str>,
    progress: &mut dyn FnMut(Doing<'_>) -> Result<()>,
) -> Result<Vec<(usize, usize)>> {
    let hasher = foldhash::quality::RandomState::default();
    let total = reader.len() as u64;
    let mut hashes = Vec::new();
    for index in 0..reader.len() {
        if index % STRIDE == 0 {
            let batch: Vec<usize> = (index..reader.len().min(index + STRIDE)).collect();
            if by.is_some() && reader.is_remote() {
                reader.prefetch(&batch);
            }
            progress(Doing { what: "looking for duplicates", done: index as u64, total })?;
        }
        if let Some(value) = value(reader, by, index)? {
            hashes.push((hasher.hash_one(&*value), index));
        }
    }
    if let Some(field) = by.filter(|_| hashes.is_empty() && !reader.is_empty()) {
        let error = Error::new(ErrorKind::Invalid, format!("no sample has a field {field:?}"));
        return Err(error.with_remedy(Remedy::ListFields));
    }
    hashes.sort_unstable();
    let mut pairs = Vec::new();
    for same in hashes.chunk_by(|a, b| a.0 == b.0).filter(|same| same.len() > 1) {
        let mut firsts = HashMap::new();
        for &(_, index) in same {
            let first = *firsts.entry(value(reader, by, index)?).or_insert(index);
            if first != index {
                pairs.push((first, index));
            }
        }
    }
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
    let later: Vec<usize> = pairs(reader, by, progress)?.into_iter().map(|pair| pair.1).collect();
    Ok(Selection::all_but(len, &later))
}

pub(super) fn duplicates(
    reader: &dyn Reader,
    progress: &mut dyn FnMut(Doing<'_>) -> Result<()>,
) -> Result<Vec<(usize, usize)>> {
    match reader.may_repeat_keys() {
        true => pairs(reader, None, progress),
        false => Ok(Vec::new()),
    }
}
