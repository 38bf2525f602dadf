//! Overwriting chunks in place: the weaker crash contract of arrays that are not versioned and have
//! [room](crate::array::ArrayOptions::room).
//!
//! All other arrays only ever gain files, and a crash at any moment leaves the version before or the
//! version after. Here a changed chunk that fits its slot is written over the old one. These writes
//! are the last step before the version is published, so:
//!
//! * a crash before them costs nothing, as everywhere;
//! * **a crash during them, or before the version is published, may leave chunks that belong to
//!   neither version, or are torn.** Their hashes in the old version's table do not match, so reading
//!   them fails (unless checks are off) and `verify` reports them;
//! * only chunks in the slots of this commit are affected. A slot is overwritten only if exactly one
//!   chunk of the base is in it, and only in a regular file that has no other name: a copy of the
//!   array made of hard links stays as it is.
//!
//! Nobody may read during a commit: a reader may see a chunk half written.

use std::collections::{BTreeMap, HashMap};

use crate::array::chunked::version::OpenVersion;
use crate::error::Result;
use crate::format::chunked::segment::Place;
use crate::format::chunked::superchunk::Content;

/// Slots of one column that are to be overwritten.
pub(super) struct InPlace {
    /// How many chunks of the base each slot holds.
    chunks_in: HashMap<(u32, u32), u32>,
    /// Whether a superchunk may be overwritten.
    is_own: HashMap<u32, bool>,
    pending: Vec<(Place, Vec<u8>)>,
}

impl InPlace {
    /// `None` where chunks are never overwritten: in versioned arrays, and in those without room.
    pub(super) fn of(base: &OpenVersion, column: usize) -> Result<Option<InPlace>> {
        let storage = &base.version.storage;
        if storage.versioned || storage.room == 0 {
            return Ok(None);
        }
        let mut chunks_in = HashMap::new();
        for place in base.table(column)?.stored().iter().filter_map(|entry| entry.place) {
            *chunks_in.entry((place.superchunk, place.slot)).or_insert(0) += 1;
        }
        Ok(Some(InPlace { chunks_in, is_own: HashMap::new(), pending: Vec::new() }))
    }

    /// Whether a chunk, with what follows it, may be written to the slot where the old one is, which
    /// has `slot_len` bytes.
    pub(super) fn fits(
        &mut self,
        base: &OpenVersion,
        content: &Content,
        before: &Place,
        len: u64,
        slot_len: u64,
    ) -> bool {
        let is_alone = self.chunks_in.get(&(before.superchunk, before.slot)) == Some(&1);
        // The room is for later growth, and need not be there again.
        let needed = len - u64::from(content.room);
        is_alone && needed <= slot_len && self.is_own(base, content, before.superchunk)
    }

    /// Overwrites a slot later.
    pub(super) fn push(&mut self, place: Place, chunk: Vec<u8>) {
        self.pending.push((place, chunk));
    }

    /// Whether a superchunk is a file that may be overwritten: no link, and without another name, such
    /// as a copy of the array by hard links gives it.
    fn is_own(&mut self, base: &OpenVersion, content: &Content, number: u32) -> bool {
        let files = &base.files;
        let path = files.superchunk_path(&content.column, number);
        *self.is_own.entry(number).or_insert_with(|| {
            let found = files.storage.lstat(&path).ok().flatten();
            // Where that cannot be known the chunk gets a new place, which is always right.
            found.is_some_and(|stat| stat.is_file() && stat.links <= 1)
        })
    }

    /// Overwrites the slots: from the first write until the version is published, a crash may cost
    /// these chunks.
    pub(super) fn write(&self, base: &OpenVersion, content: &Content, durable: bool) -> Result<()> {
        let mut files: BTreeMap<u32, Vec<&(Place, Vec<u8>)>> = BTreeMap::new();
        for overwrite in &self.pending {
            files.entry(overwrite.0.superchunk).or_default().push(overwrite);
        }
        for (number, chunks) in files {
            let file = base.files.superchunk(base.version.version, &content.column, number)?;
            let mut sink = base.files.storage.reopen(&file.path)?;
            for (place, chunk) in chunks {
                let slot = file.layout.slot(place.slot)?;
                let mut bytes = chunk.clone();
                // To the end of the slot, so that nothing of the old chunk is left behind the new one.
                bytes.resize((slot.end - slot.start) as usize, 0);
                sink.write_at(&bytes, slot.start)?;
            }
            if durable {
                sink.sync()?;
            }
        }
        Ok(())
    }
}
