//! [`duplicates`]: samples that come again, by key, by a field or by all they have.

use std::borrow::Cow;
use std::collections::HashMap;
use std::hash::BuildHasher;

use rayon::prelude::*;

use crate::error::Result;
use crate::format::msgpack::sample::fields;
use crate::reader::{Reader, no_field};

/// Samples that one thread reads in one go.
const BLOCK: usize = 256;
/// Such blocks between two calls of a progress closure.
const BLOCKS: usize = 16;

/// What samples are compared by.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum DuplicatesBy {
    /// Their keys.
    Key,
    /// The packed value of a field: 1 and 1.0 differ. Samples without the field are no duplicates.
    Field(String),
    /// All fields but the key, packed, in their order.
    Content,
}

impl DuplicatesBy {
    /// What is compared of a sample.
    fn value<'a>(&self, reader: &'a dyn Reader, index: usize) -> Result<Option<Cow<'a, [u8]>>> {
        match self {
            DuplicatesBy::Key => Ok(Some(match reader.key(index)? {
                Cow::Borrowed(key) => Cow::Borrowed(key.as_bytes()),
                Cow::Owned(key) => Cow::Owned(key.into_bytes()),
            })),
            DuplicatesBy::Field(name) => reader.field_raw(index, name),
            DuplicatesBy::Content => {
                let raw = reader.get_raw(index)?;
                let damaged = |error| reader.locate(index).damaged(error);
                let mut content = Vec::with_capacity(raw.len());
                for field in fields(&raw).map_err(damaged)? {
                    let (name, value) = field.map_err(damaged)?;
                    if name != b"\xa3key" {
                        content.extend_from_slice(name);
                        content.extend_from_slice(value);
                    }
                }
                Ok(Some(Cow::Owned(content)))
            }
        }
    }
}

/// Groups of samples that are equal: the indices of each ascending, groups by their first one. Sorts 16 bytes for each
/// sample, then compares those whose hashes are equal byte by byte. `progress` hears how many samples were read so far;
/// an error of it is returned.
///
/// ```
/// use std::collections::BTreeMap;
/// use kiste::reader::ListReader;
/// use kiste::rearrange::{DuplicatesBy, duplicates};
///
/// let sample = |(key, word)| BTreeMap::from([("key", key), ("word", word)]);
/// let words = [("a", "box"), ("b", "crate"), ("c", "box")].map(sample);
/// let same = duplicates(&ListReader::pack(words)?, &DuplicatesBy::Field("word".into()), |_| Ok(()))?;
/// assert_eq!(same, [[0, 2]]);
/// # Ok::<(), kiste::Error>(())
/// ```
///
/// # Errors
///
/// The errors of the reader and of `progress`; [`Invalid`](crate::ErrorKind::Invalid) for a field that no sample has.
pub fn duplicates(
    reader: &dyn Reader,
    by: &DuplicatesBy,
    mut progress: impl FnMut(u64) -> Result<()>,
) -> Result<Vec<Vec<usize>>> {
    let hasher = foldhash::quality::RandomState::default();
    let hash = |index: usize| -> Result<Option<(u64, usize)>> {
        Ok(by.value(reader, index)?.map(|value| (hasher.hash_one(&*value), index)))
    };
    let mut hashes = Vec::new();
    for start in (0..reader.len()).step_by(BLOCK * BLOCKS) {
        progress(start as u64)?;
        let indices = start..reader.len().min(start + BLOCK * BLOCKS);
        if *by != DuplicatesBy::Key && reader.is_remote() {
            reader.prefetch(&indices.clone().collect::<Vec<_>>());
        }
        let found = indices.into_par_iter().with_min_len(BLOCK).map(hash);
        hashes.extend(found.collect::<Result<Vec<_>>>()?.into_iter().flatten());
    }
    if let DuplicatesBy::Field(name) = by {
        if hashes.is_empty() && !reader.is_empty() {
            return Err(no_field(reader, name));
        }
    }
    hashes.par_sort_unstable();
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for same in hashes.chunk_by(|a, b| a.0 == b.0).filter(|same| same.len() > 1) {
        let mut equal: HashMap<Option<Cow<'_, [u8]>>, Vec<usize>> = HashMap::new();
        for &(_, index) in same {
            equal.entry(by.value(reader, index)?).or_default().push(index);
        }
        groups.extend(equal.into_values().filter(|group| group.len() > 1));
    }
    groups.sort_unstable_by_key(|group| group[0]);
    Ok(groups)
}
