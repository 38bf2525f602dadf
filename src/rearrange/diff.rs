//! How two datasets differ, by key.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use serde::Serialize;

use super::STRIDE;
use crate::error::{Error, Result};
use crate::format::msgpack::{self, Value, sample};
use crate::reader::Reader;

/// Where something is that is in one of two datasets only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Side {
    /// In the first one.
    Left,
    /// In the second one.
    Right,
}

/// A field that is not the same in two samples.
#[derive(Debug, Clone, PartialEq)]
pub struct Changed {
    /// The name of the field.
    pub name: String,
    /// What it is in the first sample, if it is there.
    pub left: Option<Value>,
    /// What it is in the second sample, if it is there.
    pub right: Option<Value>,
}

/// One difference of two datasets.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Difference {
    /// A sample of only one dataset.
    Only {
        /// Which dataset has it.
        side: Side,
        /// Its key.
        key: String,
        /// Its index there.
        index: usize,
    },
    /// A sample of both datasets with other bytes.
    Changed {
        /// Its key.
        key: String,
        /// Its index in the first dataset.
        left: usize,
        /// Its index in the second dataset.
        right: usize,
        /// The fields that have other bytes, in the order of the first sample, then of the second.
        /// Equal values with other bytes are encoded differently. If there are none, the same
        /// fields are in another order.
        fields: Vec<Changed>,
    },
}

/// Tells `found` of each difference, those of the first dataset in its order and then what only
/// the second has. Samples with equal bytes are not decoded. `progress` hears how many samples of
/// both have been looked at. Returns whether the samples that both have are in the same order.
///
/// # Errors
///
/// Those of the readers and of `found`.
pub fn diff<E: From<Error>>(
    left: &dyn Reader,
    right: &dyn Reader,
    mut found: impl FnMut(Difference) -> Result<(), E>,
    mut progress: impl FnMut(u64),
) -> Result<bool, E> {
    let (mut last, mut same_order) = (0, true);
    for index in 0..left.len() {
        if index % STRIDE == 0 {
            progress(index as u64);
        }
        let key = left.key(index)?;
        match find(right, &key, index)? {
            None => {
                found(Difference::Only { side: Side::Left, key: key.into_owned(), index })?;
            }
            Some(other) => {
                same_order &= other >= last;
                last = other;
                if let Some(fields) = compare(left, index, right, other)? {
                    let key = key.into_owned();
                    found(Difference::Changed { key, left: index, right: other, fields })?;
                }
            }
        }
    }
    for index in 0..right.len() {
        if index % STRIDE == 0 {
            progress(left.len() as u64 + index as u64);
        }
        let key = right.key(index)?;
        if find(left, &key, index)?.is_none() {
            found(Difference::Only { side: Side::Right, key: key.into_owned(), index })?;
        }
    }
    Ok(same_order)
}

/// The index of a key, which is often that in the other dataset.
fn find(reader: &dyn Reader, key: &str, guess: usize) -> Result<Option<usize>> {
    if guess < reader.len() && reader.key(guess)? == key {
        return Ok(Some(guess));
    }
    reader.find(key)
}

fn compare(
    left: &dyn Reader,
    l: usize,
    right: &dyn Reader,
    r: usize,
) -> Result<Option<Vec<Changed>>> {
    let (a, b) = (left.get_raw(l)?, right.get_raw(r)?);
    if a == b {
        return Ok(None);
    }
    let (a, b) = (fields(left, l, &a)?, fields(right, r, &b)?);
    let mut changed = Vec::new();
    let (in_a, in_b): (HashMap<_, _>, HashMap<_, _>) =
        (a.iter().copied().collect(), b.iter().copied().collect());
    for (name, value) in &a {
        let other = in_b.get(name).copied();
        if other != Some(value) {
            changed.push(Changed {
                name: text(left, l, name)?,
                left: Some(decode(left, l, value)?),
                right: other.map(|value| decode(right, r, value)).transpose()?,
            });
        }
    }
    for (name, value) in b.iter().filter(|(name, _)| !in_a.contains_key(name)) {
        let right_value = Some(decode(right, r, value)?);
        changed.push(Changed { name: text(right, r, name)?, left: None, right: right_value });
    }
    Ok(Some(changed))
}

type Packed<'a> = Vec<(&'a [u8], &'a [u8])>;

/// The fields of a sample; of two with one name the last, as everywhere.
fn fields<'a>(reader: &dyn Reader, index: usize, raw: &'a [u8]) -> Result<Packed<'a>> {
    let mut fields: Packed<'a> = Vec::new();
    let mut places: HashMap<&[u8], usize> = HashMap::new();
    for field in sample::fields(raw).map_err(|e| damaged(reader, index, e))? {
        let (name, value) = field.map_err(|e| damaged(reader, index, e))?;
        match places.entry(name) {
            Entry::Occupied(place) => fields[*place.get()].1 = value,
            Entry::Vacant(place) => {
                place.insert(fields.len());
                fields.push((name, value));
            }
        }
    }
    Ok(fields)
}

fn decode(reader: &dyn Reader, index: usize, packed: &[u8]) -> Result<Value> {
    msgpack::decode(packed).map_err(|e| damaged(reader, index, e))
}

fn text(reader: &dyn Reader, index: usize, packed: &[u8]) -> Result<String> {
    let name = decode(reader, index, packed)?;
    Ok(name.as_str().map_or_else(|| name.to_string(), str::to_string))
}

fn damaged(reader: &dyn Reader, index: usize, error: crate::format::FormatError) -> Error {
    reader.locate(index).describe(Error::from(error))
}
