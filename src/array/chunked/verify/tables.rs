//! Checks whether tables have the committed chunks, against other files.
//!
//! A chunk and its hash may be right and yet not be what was committed there: until the numbers of old
//! and of new tables were told apart, a commit that lost chunks along one axis and
//! outgrew the numbers along another could lose entries of other chunks, which then read as before. What
//! tells:
//!
//! * A version records how many chunks its tables have, and their bytes. This holds for later versions too,
//!   as each adds to what its parent recorded.
//! * A superchunk records for which chunk each slot was written. If no version was ever removed, one of them
//!   has that content there.
//! * Where neither contradicts, a version of this kind is still in doubt, as long as its parent is there:
//!   chunks that would have been lost, and are as in the parent.

use crate::array::chunked::table::Table;
use crate::array::chunked::version::OpenVersion;
use crate::format::chunked::segment::Entry;
use crate::format::chunked::{Column, Numbering};

/// The problem if a table has another number of chunks than its version records.
pub(super) fn other_count(noted: &Column, stored: &[Entry]) -> Option<String> {
    let (expected, found, of) = (noted.chunks, stored.len() as u64, of(noted));
    (expected != found).then(|| {
        format!(
            "expected {expected} chunks{of} in the table, as committed, found {found}: some differ \
             from the committed ones"
        )
    })
}

/// The problem if the slots of a table have another number of bytes than its version records.
pub(super) fn other_bytes(noted: &Column, found: u64) -> Option<String> {
    let (expected, of) = (noted.cbytes, of(noted));
    (expected != found).then(|| {
        format!(
            "expected chunks{of} of {expected} bytes in the table, as committed, found {found} \
             bytes: some differ from the committed ones, or replaced damaged ones"
        )
    })
}

fn of(column: &Column) -> String {
    if column.path.is_empty() { String::new() } else { format!(" of {}", column.path) }
}

/// The chunks of a column that an early writer could lose when it made a version from this parent, and that
/// are as in the parent.
pub(super) fn in_doubt(
    parent: (&OpenVersion, &Table),
    version: (&OpenVersion, &Table),
) -> Vec<Vec<u64>> {
    let ((old, old_table), (new, new_table)) = (parent, version);
    // Later writers say that they tell the numbers apart.
    let is_renumbered = new.version.renumbered == Some(new.version.version);
    if old.numbering == new.numbering || is_renumbered {
        return Vec::new();
    }
    let (old_grid, new_grid) = (grid(old), grid(new));
    let inside = |at: &[u64], grid: &[u64]| at.iter().zip(grid).all(|(i, n)| i < n);
    let hash = |table: &Table, numbering: &Numbering, at: &[u64], grid: &[u64]| {
        let place = inside(at, grid).then(|| table.find(numbering.number(at)));
        place.flatten().map(|place| place.hash)
    };
    let stored = old_table.stored().into_iter();
    let cut_off =
        stored.filter(|entry| !inside(&old.numbering.coordinates(entry.chunk), &new_grid));
    cut_off
        .map(|entry| new.numbering.coordinates(entry.chunk))
        .filter(|at| inside(at, &new_grid))
        .filter(|at| {
            hash(old_table, &old.numbering, at, &old_grid)
                == hash(new_table, &new.numbering, at, &new_grid)
        })
        .collect()
}

pub(super) fn grid(version: &OpenVersion) -> Vec<u64> {
    version.grid.counts().iter().map(|n| *n as u64).collect()
}
