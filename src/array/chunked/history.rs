//! The chunks that each version added to the files.

use std::collections::HashSet;

use crate::array::chunked::info::VersionInfo;
use crate::array::chunked::version::OpenVersion;
use crate::error::Result;
use crate::format::chunked::segment::Segment;

/// The chunks of a version that no older remaining version has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Added {
    /// Chunks of all columns; equal ones count once.
    pub chunks: u64,
    /// Their compressed bytes.
    pub bytes: u64,
}

/// Segments and slots of older versions.
struct Seen {
    segments: HashSet<u64>,
    slots: Vec<HashSet<(u32, u32)>>,
}

/// All versions of an array, oldest first, each with what it added.
pub(super) fn history(any: &OpenVersion) -> Result<Vec<(VersionInfo, Added)>> {
    let slots = vec![HashSet::new(); any.columns.len()];
    let mut seen = Seen { segments: HashSet::new(), slots };
    let versions = any.files.version_numbers()?.into_iter().map(|number| {
        let version = any.files.version(number)?;
        let info = VersionInfo::of(&version);
        let version = OpenVersion::new(any.files.clone(), version, any.threads.clone())?;
        let added = version.with_current(|current| seen.add(current))?;
        Ok((info, added))
    });
    versions.collect()
}

impl Seen {
    /// Adds a version, and returns what is new in it.
    fn add(&mut self, core: &OpenVersion) -> Result<Added> {
        let mut added = Added::default();
        let number = core.version.version;
        for (column, slots) in core.version.columns.iter().zip(&mut self.slots) {
            for (segment, entries) in &column.segments {
                if self.segments.contains(segment) {
                    continue;
                }
                let file = core.files.segment(number, *segment, *entries)?;
                let found = file.entries();
                for place in found.iter().flat_map(Segment::iter).filter_map(|entry| entry.place) {
                    if slots.insert((place.superchunk, place.slot)) {
                        let file = core.files.superchunk(number, &column.path, place.superchunk);
                        let len = file.ok().and_then(|file| file.slot_len(place.slot));
                        added.chunks += 1;
                        // The size is unknown if the file is damaged.
                        added.bytes += len.unwrap_or(0);
                    }
                }
                self.segments.insert(*segment);
            }
        }
        Ok(added)
    }
}
