//! The changes to a chunk table, written as a segment.

use std::path::PathBuf;

use crate::array::chunked::write::column::ColumnWriter;
use crate::array::chunked::write::directory::Directory;
use crate::array::chunked::write::numbers::Numbers;
use crate::array::chunked::write::renumbering::Renumbering;
use crate::error::Result;
use crate::format::chunked::names;
use crate::format::chunked::segment::{self, Entry};

/// Writes the changes to a column's table as a segment, merged with earlier segments as the format
/// prescribes. Returns the segments of the new table.
pub(super) fn write_table(
    directory: &Directory,
    numbers: &mut Numbers,
    column: &ColumnWriter<'_>,
    renumbering: &Renumbering<'_>,
    made: &mut Vec<PathBuf>,
) -> Result<Vec<(u64, u64)>> {
    let base = column.base();
    let mut segments = base.version.columns[column.number()].segments.clone();
    let new: Vec<Entry> = column.entries().collect();
    let entries = if !renumbering.is_same() {
        let table = base.table(column.number())?;
        segments.clear();
        let renumbered = renumbered(&table.stored(), renumbering);
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

/// The entries of a table under their new numbers, without chunks that are cut off.
fn renumbered(stored: &[Entry], renumbering: &Renumbering<'_>) -> Vec<Entry> {
    let kept = |old: &Entry| Some(renumbering.kept(old)?.entry(old.place));
    let mut entries: Vec<Entry> = stored.iter().filter_map(kept).collect();
    entries.sort_unstable_by_key(|entry| entry.chunk);
    entries
}
