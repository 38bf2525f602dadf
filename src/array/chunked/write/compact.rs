//! Compaction: chunks that versions still need move out of superchunks that are mostly unneeded, and
//! small superchunks become one. How the versions learn of it, and why a crash costs nothing, is in
//! the FORMAT of [`format::chunked`](crate::format::chunked).
//!
//! Compressed chunks are copied as they are, after their checksum was compared. The superchunk of a
//! damaged chunk stays, so that it can still be repaired by hand.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::array::chunked::options::Check;
use crate::array::chunked::read::ChunkedArray;
use crate::array::chunked::superchunk::SuperchunkFile;
use crate::array::chunked::write::directory::Directory;
use crate::array::chunked::write::numbers::Numbers;
use crate::array::chunked::write::retention::Removed;
use crate::error::{Error, ErrorKind, Result};
use crate::format::blosc::Scratch;
use crate::format::chunked::segment::{self, Entry, HASH, Place, Segment};
use crate::format::chunked::superchunk::Content;
use crate::format::chunked::{Version, names};

/// The minimum number of small superchunks to join: each compaction rewrites the file of every
/// version.
const FEW: usize = 4;

/// The slots of each superchunk that some version needs: the chunk in each, and its number in the
/// newest of these versions.
type Needed = BTreeMap<u32, BTreeMap<u32, (Place, u64)>>;

/// The superchunks of a column that are given up, and where their chunks are now.
#[derive(Default)]
struct Moved {
    given_up: BTreeSet<u32>,
    places: HashMap<(u32, u32), (u32, u32)>,
}

/// The replacements of rewritten segments: number and entries, or `None` if no entries were left.
type Rewritten = BTreeMap<u64, Option<(u64, u64)>>;

/// A compaction, under way.
pub(super) struct Compaction<'a> {
    pub(super) directory: &'a Directory,
    pub(super) numbers: &'a mut Numbers,
    pub(super) newest: &'a mut ChunkedArray,
    /// Counts what is moved and written.
    pub(super) removed: &'a mut Removed,
}

impl Compaction<'_> {
    /// Moves chunks, and makes these versions, which are all there are, name the new files. The old
    /// ones may be removed afterwards.
    pub(super) fn run(mut self, versions: &mut [Version]) -> Result<()> {
        let mut moved = Vec::new();
        for column in 0..self.newest.core().columns.len() {
            moved.push(self.move_chunks(column, versions)?);
        }
        if moved.iter().all(|moved| moved.given_up.is_empty()) {
            return Ok(());
        }
        let rewritten = self.rewrite_segments(versions, &moved)?;
        let done = self.rewrite_versions(versions, &rewritten);
        // Some versions may have been rewritten even if that failed.
        self.directory.files.forget_superchunks();
        self.newest.refresh();
        done
    }

    fn move_chunks(&mut self, column: usize, versions: &[Version]) -> Result<Moved> {
        let mut moved = Moved::default();
        let mut content = self.newest.core().content(column)?;
        content.room = 0;
        let most = self.newest.core().version.storage.superchunk as usize;
        let needed = self.needed_slots(column, versions)?;
        let mut pending: Vec<(Place, u64, Vec<u8>)> = Vec::new();
        let worth = self.worth_moving(column, &needed, most);
        // A crash may have left a chunk where it was and where it was moved to.
        let staying = needed.iter().filter(|(number, _)| !worth.contains(number));
        let staying: HashMap<[u8; HASH], Place> = staying
            .flat_map(|(_, slots)| slots.values().map(|(place, _)| (place.hash, *place)))
            .collect();
        for number in worth {
            let slots = &needed[&number];
            let Some(chunks) = self.take_chunks(&content, number, slots) else { continue };
            moved.given_up.insert(number);
            for (place, chunk, bytes) in chunks {
                let twin = staying.get(&place.hash);
                match twin.filter(|twin| self.is_same(&content, twin, &bytes)) {
                    Some(twin) => {
                        let to = (twin.superchunk, twin.slot);
                        moved.places.insert((place.superchunk, place.slot), to);
                    }
                    None => pending.push((place, chunk, bytes)),
                }
            }
            while pending.len() >= most {
                let chunks = pending.drain(..most).collect();
                self.write_moved(column, &content, chunks, &mut moved)?;
            }
        }
        if !pending.is_empty() {
            self.write_moved(column, &content, pending, &mut moved)?;
        }
        if !moved.places.is_empty() {
            self.directory.sync_dir(&self.directory.files.column_dir(&content.column))?;
        }
        Ok(moved)
    }

    /// The slots that the versions need of every superchunk that their segments name: none of some
    /// superchunks, where newer entries replaced all that name it.
    fn needed_slots(&self, column: usize, versions: &[Version]) -> Result<Needed> {
        let mut needed = Needed::new();
        let mut last = None;
        for version in versions {
            let segments = &version.columns[column].segments;
            if last == Some(segments) {
                continue;
            }
            let table = self.directory.files.table(version.version, segments)?;
            table.each_entry(|entry| {
                if let Some(place) = entry.place {
                    needed.entry(place.superchunk).or_default();
                }
            });
            for Entry { chunk, place } in table.stored() {
                let Some(place) = place else { continue };
                let slots = needed.entry(place.superchunk).or_default();
                slots.insert(place.slot, (place, chunk));
            }
            last = Some(segments);
        }
        Ok(needed)
    }

    /// The superchunks that are less than half needed, and the small ones if joining them pays.
    fn worth_moving(&self, column: usize, needed: &Needed, most: usize) -> Vec<u32> {
        let (mut worth, mut small) = (Vec::new(), Vec::new());
        let (path, version) =
            (&self.newest.core().columns[column].leaf.path, self.newest.version());
        for (&number, slots) in needed {
            if slots.is_empty() {
                worth.push(number);
                continue;
            }
            let Ok(file) = self.directory.files.superchunk(version, path, number) else { continue };
            let len = |slot: &u32| file.slot_len(*slot).unwrap_or(0);
            let live: u64 = slots.keys().map(len).sum();
            let all: u64 = (0..file.layout.slots()).map(|slot| len(&slot)).sum();
            if live < all - live.min(all) {
                worth.push(number);
            } else if slots.len() <= most / 2 {
                small.push((slots.len(), number));
            }
        }
        small.sort_unstable();
        let joined = worth_joining(&small);
        worth.extend(small[..joined].iter().map(|(_, number)| number));
        worth.sort_unstable();
        worth
    }

    /// The chunks in these slots of a superchunk, each with what will follow it; `None` if one of
    /// them is damaged.
    fn take_chunks(
        &self,
        content: &Content,
        number: u32,
        slots: &BTreeMap<u32, (Place, u64)>,
    ) -> Option<Vec<(Place, u64, Vec<u8>)>> {
        if slots.is_empty() {
            return Some(Vec::new());
        }
        let file =
            self.directory.files.superchunk(self.newest.version(), &content.column, number).ok()?;
        let mut scratch = Scratch::default();
        let take = |(place, chunk): &(Place, u64)| {
            let bytes = intact(&file, place, &mut scratch)?;
            let tail = content.tail(&bytes);
            Some((*place, *chunk, [bytes, tail].concat()))
        };
        slots.values().map(take).collect()
    }

    /// Whether the chunk in another place is identical, byte by byte.
    fn is_same(&self, content: &Content, place: &Place, bytes: &[u8]) -> bool {
        let version = self.newest.version();
        let file = self.directory.files.superchunk(version, &content.column, place.superchunk);
        let found = file.ok().and_then(|file| intact(&file, place, &mut Scratch::default()));
        found.is_some_and(|chunk| bytes.starts_with(&chunk))
    }

    fn write_moved(
        &mut self,
        column: usize,
        content: &Content,
        chunks: Vec<(Place, u64, Vec<u8>)>,
        moved: &mut Moved,
    ) -> Result<()> {
        let from: Vec<(u32, u32)> =
            chunks.iter().map(|(place, ..)| (place.superchunk, place.slot)).collect();
        let chunks = chunks.into_iter().map(|(_, chunk, bytes)| (chunk, bytes)).collect();
        let (numbers, files) = (&mut *self.numbers, &self.directory.files);
        let made = || numbers.superchunk(files, column, content, chunks);
        let (number, file) = self.newest.core().run(made)?;
        self.removed.moved += from.len() as u64;
        self.removed.written += file.parts.iter().map(|part| part.len() as u64).sum::<u64>();
        self.directory.write_files(&[file], &mut Vec::new())?;
        let to = (0..).map(|slot| (number, slot));
        moved.places.extend(from.into_iter().zip(to));
        Ok(())
    }

    /// Rewrites the segments that name superchunks that are given up.
    fn rewrite_segments(&mut self, versions: &[Version], moved: &[Moved]) -> Result<Rewritten> {
        let mut rewritten = Rewritten::new();
        let mut seen = BTreeSet::new();
        let dir = self.directory.files.path(names::MANIFEST);
        for version in versions {
            for (column, moved) in version.columns.iter().zip(moved) {
                for segment in column.segments.iter().filter(|(number, _)| seen.insert(*number)) {
                    let file =
                        self.directory.files.segment(version.version, segment.0, segment.1)?;
                    let entries = file.entries();
                    let Some(entries) = moved.entries(entries.iter().flat_map(Segment::iter))
                    else {
                        continue;
                    };
                    let mut now = None;
                    if !entries.is_empty() {
                        let number = self.numbers.take_segment(&self.directory.files)?;
                        let bytes = segment::encode(&entries);
                        self.directory.write_new(&dir, &names::numbered(number), &[&bytes])?;
                        self.removed.written += bytes.len() as u64;
                        now = Some((number, entries.len() as u64));
                    }
                    rewritten.insert(segment.0, now);
                }
            }
        }
        self.directory.sync_dir(&dir)?;
        Ok(rewritten)
    }

    /// Replaces the files of versions by ones that name the new segments. The newest comes first,
    /// because it records which numbers are taken.
    fn rewrite_versions(&mut self, versions: &mut [Version], rewritten: &Rewritten) -> Result<()> {
        let dir = self.directory.files.path(names::VERSIONS);
        let newest = self.newest.version();
        for version in versions.iter_mut().rev() {
            let old = version.clone();
            for column in &mut version.columns {
                let now = |segment: &(u64, u64)| {
                    rewritten.get(&segment.0).copied().unwrap_or(Some(*segment))
                };
                column.segments = column.segments.iter().filter_map(now).collect();
            }
            if version.version == newest {
                self.numbers.record(version);
            }
            if *version != old {
                let bytes =
                    version.encode().map_err(|e| Error::new(ErrorKind::Limit, e.to_string()))?;
                self.directory.write_file(&dir, &names::numbered(version.version), &[&bytes])?;
                self.removed.written += bytes.len() as u64;
            }
        }
        self.directory.sync_dir(&dir)
    }
}

impl Moved {
    /// The new entries of a segment, if any of them changed. Entries of chunks that were not moved
    /// belong to no version any more.
    fn entries(&self, entries: impl Iterator<Item = Entry> + Clone) -> Option<Vec<Entry>> {
        let is_given_up = |place: &Place| self.given_up.contains(&place.superchunk);
        if !entries.clone().any(|entry| entry.place.as_ref().is_some_and(is_given_up)) {
            return None;
        }
        let now = |entry: Entry| {
            let Some(place) = entry.place.filter(is_given_up) else { return Some(entry) };
            let (superchunk, slot) = *self.places.get(&(place.superchunk, place.slot))?;
            Some(Entry { place: Some(Place { superchunk, slot, ..place }), ..entry })
        };
        Some(entries.filter_map(now).collect())
    }
}

/// How many of these, in ascending order of chunks, are joined: the largest number for which each
/// chunk gets into a file with at least twice its chunks. So no chunk is moved often.
fn worth_joining(small: &[(usize, u32)]) -> usize {
    let (mut joined, mut sum) = (0, 0);
    for (i, (chunks, _)) in small.iter().enumerate() {
        if *chunks <= sum {
            joined = i + 1;
        }
        sum += chunks;
    }
    if joined < FEW { 0 } else { joined }
}

/// A chunk in compressed form, if it is intact.
fn intact(file: &SuperchunkFile, place: &Place, scratch: &mut Scratch) -> Option<Vec<u8>> {
    let bytes = file.source.read(file.layout.slot(place.slot).ok()?).ok()?;
    let chunk = file.layout.chunk(place.slot, &bytes).ok()?;
    let is_intact = match file.layout.has_checksums() {
        true => file.layout.is_intact(place.slot, &bytes).ok()?,
        false => file.read(place, Check::Hashes, scratch).is_ok(),
    };
    is_intact.then(|| chunk.to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chunk_is_moved_a_few_times_at_most() {
        let join = |sizes: &[usize]| {
            let small: Vec<(usize, u32)> = sizes.iter().map(|n| (*n, 1)).collect();
            worth_joining(&small)
        };
        assert_eq!(join(&[]), 0);
        assert_eq!(join(&[1, 1, 1]), 0);
        assert_eq!(join(&[1, 1, 1, 1]), 4);
        assert_eq!(join(&[1, 1, 1, 1, 5]), 4);
        assert_eq!(join(&[1, 1, 1, 2, 5]), 5);
        // A commit of one chunk and a compaction, over and over.
        let (mut files, mut moves) = (Vec::new(), 0);
        for _ in 0..10_000 {
            files.push(1);
            files.sort_unstable();
            let joined = join(&files);
            if joined > 0 {
                let sum: usize = files.drain(..joined).sum();
                moves += sum;
                files.push(sum);
            }
        }
        assert!(moves <= 10_000 * 14, "{moves}");
        assert!(files.len() < 20, "{files:?}");
    }
}
