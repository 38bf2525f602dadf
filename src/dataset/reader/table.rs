//! The table that makes look-ups by key fast: built in memory, in the layout of `.lookup`.

use crate::error::Result;
use crate::format::dataset::lookup;

use super::super::index::by_hash;
use super::hashes::Hashes;

/// Builds the table for these hashes.
pub(super) fn build(hashes: &Hashes) -> Result<(lookup::Shape, Vec<u32>)> {
    let mut placer = lookup::Placer::new(hashes.len() as u64)?;
    by_hash(
        hashes.len(),
        |samples, part| hashes.scan_numbers(samples, part),
        |hash, index| Ok(placer.push(hash, index)?),
    )?;
    Ok(placer.finish()?)
}
