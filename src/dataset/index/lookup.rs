//! Which datasets get `.lookup`, and what it is made of where all else is there already.

use std::path::Path;
use std::sync::Arc;

use super::super::reader::DatasetReader;
use super::build::{Belongs, KeyList, hash_batch, hash_keys, place_batch};
use super::collision::collision;
use crate::error::{Error, ErrorKind, Result};
use crate::format::FormatError;
use crate::format::dataset::SideFile;
use crate::format::dataset::key_hashes::{self, SALT, Salt};
use crate::format::dataset::lookup::MAX_COUNT;
use crate::storage::{Source, Storage};

/// From how many samples on a dataset gets `.lookup` by itself. With it an absent key takes a fifth of the
/// time, one that is there half of it, also where all hashes are in a cache; of fewer keys a pass over the
/// hashes takes less than a microsecond, and the file would be small next to its directory entry.
const LOOKUP_FROM: u64 = 1 << 10;

/// Whether a dataset with this many samples gets `.lookup`, if it was asked for, or not to be made, or neither.
pub(crate) fn wants_lookup(asked: Option<bool>, samples: u64) -> bool {
    asked.unwrap_or((LOOKUP_FROM..=MAX_COUNT).contains(&samples))
}

/// Whether `.lookup` belongs to the present hashes. It does not after Python, which does not know
/// the file, has rewritten the dataset. If the dataset cannot be opened, other checks report why.
pub(super) fn is_current(storage: &Arc<dyn Storage>, path: &Path) -> Result<bool> {
    let reader = DatasetReader::options().storage(storage.clone()).open(path);
    match reader.and_then(|reader| reader.has_lookup()) {
        Err(error) if error.kind() != ErrorKind::Io => Ok(true),
        found => found,
    }
}

/// The input of `.lookup`, from the present keys and hashes. These must belong together: a key that
/// only one of the two files has would be found by some look-ups and not by others.
pub(super) fn read(
    storage: &Arc<dyn Storage>,
    path: &Path,
    samples: u64,
) -> Result<(Belongs, Vec<u64>)> {
    let hashes_path = SideFile::KeyHashes.path(path);
    let (salt, hashes) = read_hashes(&storage.open(&hashes_path)?, samples)
        .map_err(|error| error.at(&hashes_path))?;
    let keys_path = SideFile::Keys.path(path);
    let keys_file = storage.open(&keys_path)?;
    let mut places = Vec::with_capacity(hashes.len());
    let mut expected = Vec::new();
    KeyList::read(&keys_path, &keys_file, |list| {
        list.expect(samples)?;
        list.for_batches(0, |first, batch| {
            expected.resize(batch.len(), 0);
            hash_batch(&salt, &batch, &mut expected, hash_keys);
            for (index, (&key, &expected)) in (first..).zip(batch.iter().zip(&expected)) {
                if hashes[index] != expected {
                    let position = SALT + index as u64 * key_hashes::ENTRY;
                    let key = String::from_utf8_lossy(key);
                    let expected = format!("{expected:016x}, the hash of {key:?}");
                    let found = format!("{:016x}", hashes[index]);
                    let error = Error::from(FormatError::new(position, expected, found));
                    return Err(error.at(&hashes_path).with_index(index as u64));
                }
            }
            place_batch(&batch, &mut places);
            Ok(())
        })
    })?;
    if let Some(hash) = collision(&hashes) {
        let message = format!("expected different hashes, found {hash:016x} twice");
        return Err(Error::new(ErrorKind::Damaged, message).at(hashes_path));
    }
    Ok((Belongs::to(salt, &hashes)?, places))
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
