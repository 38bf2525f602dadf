//! The hashes that `.lookup` is made from where they are there already.

use crate::error::Result;
use crate::format::FormatError;
use crate::format::dataset::key_hashes::{self, SALT, Salt};
use crate::storage::Source;

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
