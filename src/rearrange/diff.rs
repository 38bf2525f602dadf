//! How two datasets differ, by key.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use serde::Serialize;
use serde_json::{Value as Json, json};

use super::STRIDE;
use crate::error::{Error, ErrorKind, Result};
use crate::format::jsonl;
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
    /// Its value in the first sample, if it has one.
    pub left: Option<Value>,
    /// Its value in the second sample, if it has one.
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

/// How many differences there are, and how many samples are the same.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct DiffCounts {
    /// Samples that both datasets have, with the same bytes.
    pub same: u64,
    /// Samples that only the first one has.
    pub only_left: u64,
    /// Samples that only the second one has.
    pub only_right: u64,
    /// Samples that both have, with other bytes.
    pub changed: u64,
    /// Whether the samples that both have are in the same order.
    pub same_order: bool,
}

impl DiffCounts {
    /// Compares two datasets as [`diff`] does, and counts what is passed on to `found`.
    ///
    /// # Errors
    ///
    /// The errors of [`diff`].
    pub fn of<E: From<Error>>(
        left: &dyn Reader,
        right: &dyn Reader,
        mut found: impl FnMut(Difference) -> Result<(), E>,
        progress: impl FnMut(u64),
    ) -> Result<DiffCounts, E> {
        let mut counts = DiffCounts::default();
        let count = |difference| {
            match &difference {
                Difference::Only { side: Side::Left, .. } => counts.only_left += 1,
                Difference::Only { side: Side::Right, .. } => counts.only_right += 1,
                Difference::Changed { .. } => counts.changed += 1,
            }
            found(difference)
        };
        counts.same_order = diff(left, right, count, progress)?;
        counts.same = left.len() as u64 - counts.only_left - counts.changed;
        Ok(counts)
    }

    /// Whether there is any difference. Another order is none.
    pub fn differ(&self) -> bool {
        self.only_left + self.only_right + self.changed > 0
    }
}

impl Difference {
    /// One JSON object, with whole values. Keys and fields come in the order of the datasets.
    ///
    /// # Errors
    ///
    /// [`Unsupported`](ErrorKind::Unsupported) for values that have no form in JSON.
    pub fn to_json(&self) -> Result<Vec<u8>> {
        let quoted = |text: &str| Json::from(text).to_string();
        let (key, left, right, fields) = match self {
            Difference::Only { side, key, index } => {
                let line = json!({ "key": key, "change": side, "index": index });
                return Ok(line.to_string().into_bytes());
            }
            Difference::Changed { key, left, right, fields } => (key, left, right, fields),
        };
        let mut line = format!(
            r#"{{"key":{},"change":"fields","left":{left},"right":{right},"fields":{{"#,
            quoted(key)
        )
        .into_bytes();
        for (at, field) in fields.iter().enumerate() {
            let comma = if at > 0 { "," } else { "" };
            line.extend(format!("{comma}{}:{{", quoted(&field.name)).bytes());
            let sides = [("left", &field.left), ("right", &field.right)];
            let sides = sides.into_iter().filter_map(|(name, value)| Some((name, value.as_ref()?)));
            for (at, (side, value)) in sides.enumerate() {
                line.extend(format!("{}\"{side}\":", if at > 0 { "," } else { "" }).bytes());
                jsonl::write(value, &mut line).map_err(|error| {
                    Error::new(ErrorKind::Unsupported, error.to_string()).with_key(&**key)
                })?;
            }
            line.push(b'}');
        }
        line.extend_from_slice(b"}}");
        Ok(line)
    }
}

impl Changed {
    /// `label 3 → 4`, `+caption "a cat"`, `-junk 0`: values are shortened to about this length.
    pub fn shortened(&self, max: usize) -> String {
        let name = &self.name;
        let short = |value: &Value| {
            let mut text = Vec::new();
            jsonl::write_short(value, max, &mut text);
            String::from_utf8_lossy(&text).into_owned()
        };
        match (&self.left, &self.right) {
            (Some(left), Some(right)) if left == right => {
                format!("{name} {} → {}, packed differently", short(left), short(right))
            }
            // The difference was cut off.
            (Some(left), Some(right)) if short(left) == short(right) => {
                format!("{name} {} differs", short(left))
            }
            (Some(left), Some(right)) => format!("{name} {} → {}", short(left), short(right)),
            (Some(left), None) => format!("-{name} {}", short(left)),
            (None, right) => format!("+{name} {}", right.as_ref().map(short).unwrap_or_default()),
        }
    }
}

/// Calls `found` for each difference: in the order of the first dataset, then samples that only the second has.
/// Samples with equal bytes are not decoded. `progress` hears how many samples of both have been looked at.
/// Returns whether the samples that both have are in the same order.
///
/// # Errors
///
/// The errors of the readers and of `found`.
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
