//! The changes to a chunk table, written as a segment.

use std::path::PathBuf;

use crate::array::chunked::write::column::ColumnWriter;
use crate::array::chunked::write::directory::Directory;
use crate::array::chunked::write::numbers::Numbers;
use crate::error::Result;
use crate::format::chunked::segment::{self, Entry};
use crate::format::chunked::{Numbering, names};

/// Writes the changes to a column's table as a segment, merged with earlier segments as the format
/// prescribes. Returns the segments of the new table.
pub(super) fn write_table(
    directory: &Directory,
    numbers: &mut Numbers,
    column: &ColumnWriter<'_>,
    grid: &[u64],
    numbering: &Numbering,
    made: &mut Vec<PathBuf>,
) -> Result<Vec<(u64, u64)>> {
    let base = column.base();
    let mut segments = base.version.columns[column.number()].segments.clone();
    let new: Vec<Entry> = column.entries().copied().collect();
    let entries = if *numbering != base.numbering {
        let table = base.table(column.number())?;
        segments.clear();
        let renumbered = renumber(table.stored(), &base.numbering, grid, numbering);
        segment::merge(renumbered, new, true)
    } else if new.is_empty() {
        return Ok(segments);
    } else {
        let table = base.table(column.number())?;
        let mut merged = new.clone();
        while let Some((_, older)) = segments.last() {
            if !segment::is_merged(*older, merged.len() as u64) {
                break;
            }
            segments.pop();
            merged = table.merged(segments.len(), &new, segments.is_empty());
        }
        if segments.is_empty() {
            merged.retain(|entry| entry.place.is_some());
        }
        merged
    };
    if entries.is_empty() {
        return Ok(segments);
    }
    let number = numbers.take_segment(&directory.files)?;
    let dir = directory.files.path(names::MANIFEST);
    directory.write_new(&dir, &names::numbered(number), &[&segment::encode(&entries)])?;
    made.push(directory.files.segment_path(number));
    segments.push((number, entries.len() as u64));
    Ok(segments)
}

/// The entries of a table under the numbers of another numbering, without those outside the grid.
fn renumber(stored: Vec<Entry>, old: &Numbering, grid: &[u64], new: &Numbering) -> Vec<Entry> {
    let renumber = |entry: Entry| {
        let at = old.coordinates(entry.chunk);
        let inside = at.iter().zip(grid).all(|(i, n)| i < n);
        inside.then(|| Entry { chunk: new.number(&at), ..entry })
    };
    let mut entries: Vec<Entry> = stored.into_iter().filter_map(renumber).collect();
    entries.sort_unstable_by_key(|entry| entry.chunk);
    entries
}
