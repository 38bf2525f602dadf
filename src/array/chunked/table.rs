//! Chunk tables: from a chunk number, or a hash, to a place in a superchunk.

use std::hash::BuildHasher;
use std::sync::{Arc, OnceLock};

use foldhash::fast::RandomState;

use crate::error::Result;
use crate::format::FormatError;
use crate::format::chunked::segment::{self, Entry, Place, Segment};
use crate::storage::Source;

/// A segment, verified when it was opened.
pub(crate) struct SegmentFile {
    source: Source,
    /// The content, where it is not mapped.
    read: Vec<u8>,
    /// Entries by the first bytes of their hashes; built on first use.
    by_hash: OnceLock<ByHash>,
}

impl SegmentFile {
    pub(super) fn open(source: Source, entries: u64) -> Result<SegmentFile> {
        let around = (segment::HEADER + segment::HASH) as u64;
        let len = entries.checked_mul(segment::ENTRY as u64).and_then(|n| n.checked_add(around));
        if len != Some(source.len()) {
            let expected = format!("a segment of {entries} entries");
            let found = format!("{} bytes", source.len());
            return Err(FormatError::new(0, expected, found).into());
        }
        let read = match source.mapped() {
            Some(_) => Vec::new(),
            None => source.read(0..source.len())?.into_owned(),
        };
        let file = SegmentFile { source, read, by_hash: OnceLock::new() };
        Segment::parse(file.bytes())?;
        Ok(file)
    }

    fn bytes(&self) -> &[u8] {
        self.source.mapped().unwrap_or(&self.read)
    }

    /// A segment that was whole when it was opened stays so; otherwise it has no entries.
    pub(crate) fn entries(&self) -> Option<Segment<'_>> {
        Segment::assume(self.bytes()).ok()
    }

    /// Where a chunk of this hash is: of several places the one that was written last. Of two
    /// hashes with the same first bytes, one is not found.
    fn with_hash(&self, hash: &[u8; segment::HASH]) -> Option<Place> {
        let entries = self.entries()?;
        let by_hash = self.by_hash.get_or_init(|| ByHash::new(&entries));
        let (_, found) = by_hash.find(&entries, hash);
        found.filter(|place| place.hash == *hash)
    }
}

/// The numbers of the entries of a segment, in slots that their hashes choose. The first commit
/// after an array was opened builds it, so it is small: four bytes a slot, and half of the slots
/// are free. A `HashMap` with the same content takes 1.7 times as long to fill with 4,000 entries,
/// and 2.9 times with a million.
struct ByHash {
    slots: Vec<u32>,
    /// Random, so that no file can hold hashes that all go to one place.
    state: RandomState,
}

impl ByHash {
    fn new(entries: &Segment<'_>) -> ByHash {
        let slots = vec![u32::MAX; (entries.len() * 2).next_power_of_two().max(2)];
        let mut made = ByHash { slots, state: RandomState::default() };
        for (number, entry) in (0..u32::MAX).zip(entries.iter()) {
            let Some(place) = entry.place else { continue };
            let (slot, found) = made.find(entries, &place.hash);
            // Content is written again only if the first copy was damaged, and files are
            // numbered in the order of writing.
            let at = |place: &Place| (place.superchunk, place.slot);
            if found.is_none_or(|found| at(&found) < at(&place)) {
                made.slots[slot] = number;
            }
        }
        made
    }

    /// The slot of a hash that begins like this, and the entry in it; or the free slot where it
    /// belongs. There is always one.
    fn find(&self, entries: &Segment<'_>, hash: &[u8; segment::HASH]) -> (usize, Option<Place>) {
        let (beginning, last) = (beginning(hash), self.slots.len() - 1);
        let mut slot = self.state.hash_one(beginning) as usize & last;
        loop {
            let place = entries.get(self.slots[slot] as usize).and_then(|entry| entry.place);
            match place {
                Some(other) if self::beginning(&other.hash) != beginning => {
                    slot = (slot + 1) & last
                }
                found => return (slot, found),
            }
        }
    }
}

fn beginning(hash: &[u8; segment::HASH]) -> u64 {
    let mut number = [0; 8];
    number.copy_from_slice(&hash[..8]);
    u64::from_le_bytes(number)
}

/// The chunk table of a column: its segments from old to new.
pub(crate) struct Table {
    segments: Vec<Arc<SegmentFile>>,
}

impl Table {
    pub(super) fn new(segments: Vec<Arc<SegmentFile>>) -> Table {
        Table { segments }
    }

    /// Where a chunk is, if it is not all fill.
    pub(crate) fn find(&self, chunk: u64) -> Option<Place> {
        let find = |file: &Arc<SegmentFile>| file.entries()?.find(chunk);
        self.segments.iter().rev().find_map(find)?.place
    }

    /// Where a chunk of this hash is, in this version or one that it came from, including entries
    /// that newer ones have replaced: their superchunks exist as long as their segment does. A
    /// chunk that was damaged and written again has several places; one that is `whole` is
    /// returned.
    pub(crate) fn with_hash(
        &self,
        hash: &[u8; segment::HASH],
        whole: impl Fn(&Place) -> bool,
    ) -> Option<Place> {
        self.segments.iter().rev().filter_map(|file| file.with_hash(hash)).find(whole)
    }

    /// All chunks that are stored, ascending.
    pub(crate) fn stored(&self) -> Vec<Entry> {
        self.merged(0, &[], true)
    }

    /// The entries of the segments from this one on, merged with these newer ones.
    pub(crate) fn merged(&self, from: usize, newer: &[Entry], oldest: bool) -> Vec<Entry> {
        let mut merged = newer.to_vec();
        for file in self.segments[from..].iter().rev() {
            let older = file.entries();
            merged = segment::merge(older.iter().flat_map(Segment::iter), merged, false);
        }
        if oldest {
            merged.retain(|entry| entry.place.is_some());
        }
        merged
    }

    /// Calls `with` for every entry of every segment, in no order, including those that newer ones
    /// replace.
    pub(crate) fn each_entry(&self, mut with: impl FnMut(Entry)) {
        for file in &self.segments {
            file.entries().iter().flat_map(Segment::iter).for_each(&mut with);
        }
    }
}
