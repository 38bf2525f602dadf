//! Which datasets get `.lookup`, and what it is made of where all else is there already.

use std::path::Path;
use std::sync::Arc;

use super::super::reader::DatasetReader;
use super::build::{hash_batch, hash_keys, lookup_file};
use super::collision::collision;
use crate::error::{Error, ErrorKind, Result};
use crate::format::FormatError;
use crate::format::dataset::key_hashes::{self, SALT, Salt};
use crate::format::dataset::lookup::MAX_COUNT;
use crate::format::dataset::{SideFile, keys};
use crate::storage::{Source, Storage};

/// From how many samples on a dataset gets `.lookup` by itself: a pass over the hashes of fewer keys takes some
/// microseconds.
const LOOKUP_FROM: u64 = 1 << 16;

/// Whether a dataset with this many samples gets `.lookup`, if it was asked for, or not to be made, or neither.
pub(crate) fn wants_lookup(asked: Option<bool>, samples: u64) -> bool {
    asked.unwrap_or((LOOKUP_FROM..=MAX_COUNT).contains(&samples))
}

/// Whether the `.lookup` that is there is of the hashes that are there. It is not where Python, which does not know it,
/// rewrote the dataset. What is wrong with a dataset that cannot be opened is for others to say.
pub(super) fn is_current(storage: &Arc<dyn Storage>, path: &Path) -> Result<bool> {
    let reader = DatasetReader::options().storage(storage.clone()).open(path);
    match reader.and_then(|reader| reader.has_lookup()) {
        Err(error) if error.kind() != ErrorKind::Io => Ok(true),
        found => found,
    }
}

/// The content of `.lookup` for the keys and the hashes that are there. These must be of each other: a key that only
/// one of the two files has would be found by some look-ups and not by others.
pub(super) fn made_of(storage: &Arc<dyn Storage>, path: &Path, samples: u64) -> Result<Vec<u8>> {
    let hashes_path = SideFile::KeyHashes.path(path);
    let (salt, hashes) = read_hashes(&storage.open(&hashes_path)?, samples)
        .map_err(|error| error.at(&hashes_path))?;
    let keys_path = SideFile::Keys.path(path);
    let at = |error: FormatError| Error::from(error).at(&keys_path);
    let list = storage.open(&keys_path)?;
    let list = list.read(0..list.len())?;
    let keys = keys::Keys::parse(&list).map_err(at)?.map(|key| Ok(key?.as_bytes()));
    let keys = keys.collect::<Result<Vec<_>, FormatError>>().map_err(at)?;
    if keys.len() != hashes.len() {
        let expected = format!("{} keys", hashes.len());
        return Err(at(FormatError::new(0, expected, keys.len().to_string())));
    }
    let mut expected = vec![0; hashes.len()];
    hash_batch(&salt, &keys, &mut expected, hash_keys);
    if let Some(index) = (0..hashes.len()).find(|&index| hashes[index] != expected[index]) {
        let position = SALT + index as u64 * key_hashes::ENTRY;
        let key = String::from_utf8_lossy(keys[index]);
        let expected = format!("{:016x}, the hash of {key:?}", expected[index]);
        let found = format!("{:016x}", hashes[index]);
        let error = Error::from(FormatError::new(position, expected, found)).at(hashes_path);
        return Err(error.with_index(index as u64));
    }
    if let Some(hash) = collision(&hashes) {
        let message = format!("expected different hashes, found {hash:016x} twice");
        return Err(Error::new(ErrorKind::Damaged, message).at(hashes_path));
    }
    lookup_file(salt, &hashes, &keys)
}

/// The salt and the hashes of a `.key_hashes` of this many samples.
fn read_hashes(file: &Source, samples: u64) -> Result<(Salt, Vec<u64>)> {
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
