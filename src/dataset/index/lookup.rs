//! Which datasets get `.lookup`, and the hashes that it is made from where they are there already.

use std::path::Path;
use std::sync::Arc;

use super::super::reader::DatasetReader;
use crate::error::{ErrorKind, Result};
use crate::format::FormatError;
use crate::format::dataset::key_hashes::{self, SALT, Salt};
use crate::format::dataset::lookup::MAX_COUNT;
use crate::storage::{Source, Storage};

/// From how many samples on a dataset gets `.lookup` by itself: a pass over the hashes of fewer keys takes some
/// microseconds.
const LOOKUP_FROM: u64 = 1 << 16;

/// Whether a dataset with this many samples gets `.lookup`, if it was asked for, or not to be made, or neither.
pub(crate) fn wants_lookup(asked: Option<bool>, samples: u64) -> bool {
    asked.unwrap_or((LOOKUP_FROM..=MAX_COUNT).contains(&samples))
}

/// Whether the `.lookup` that is there was made from the hashes that are there. It was not where Python, which does not
/// know it, rewrote the dataset. What is wrong with a dataset that cannot be opened is for others to say.
pub(super) fn is_current(storage: &Arc<dyn Storage>, path: &Path) -> Result<bool> {
    let reader = DatasetReader::options().storage(storage.clone()).open(path);
    match reader.and_then(|reader| reader.has_lookup()) {
        Err(error) if error.kind() != ErrorKind::Io => Ok(true),
        found => found,
    }
}

/// The salt and the hashes of a `.key_hashes` of this many samples.
pub(super) fn read_hashes(file: &Source, samples: u64) -> Result<(Salt, Vec<u64>)> {
    let count = key_hashes::count(file.len())?;
    if count != samples {
        let (expected, found) = (format!("{samples} hashes"), count.to_string());
        return Err(FormatError::new(SALT, expected, found).into());
    }
    let bytes = file.read(0..file.len())?;
    let (salt, entries) = bytes.split_at(SALT as usize);
    let hashes = (0..count as usize).map_while(|index| key_hashes::entry(entries, index));
    Ok((Salt::parse(salt)?, hashes.collect()))
}
