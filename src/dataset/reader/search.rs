//! From a key to the index of its sample.
//!
//! Where there is a `.lookup` file, its slots lead to the sample. Otherwise there are two ways, the second taken when
//! the first has cost as much as it would: a search through the mapped hashes, which needs no preparation, and a
//! table in memory. Each finds only a hash, or a part of one: the key of the sample decides.
//!
//! What counts as absent is decided in [`absent`](super::absent).
//!
//! Nothing here waits for another thread, so a fork at any moment leaves the child with something
//! that works.

use std::borrow::Cow;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use crate::error::{ErrorKind, Result};
use crate::format::dataset::key_hashes::{self, Salt};
use crate::format::dataset::{SideFile, lookup};
use crate::storage::fetch_together;

use super::accelerators::{Filter, Lookup, lookup_run, slot_bytes};
use super::hashes::{Hashes, Wanted};
use super::open::OpenDataset;
use super::table;

/// What building the table costs, in searches through all hashes: measured, some fifty to seventy
/// at 1, 10 and 100 million keys.
const TABLE_COST: u64 = 50;

/// What the accelerator alone says of a key.
pub(super) enum Quick<'a> {
    /// The sample with this index, and its packed bytes if they were at hand.
    Found(usize, Option<&'a [u8]>),
    Absent,
    /// Other files have to tell.
    Unclear,
}

/// Whether the filter was asked about a key before.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Asked {
    No,
    /// It says that the key may be there.
    Yes,
}

/// From the home slot of a key to indices: a table in memory by the hashes in `.key_hashes`, or `.lookup` by its own.
pub(super) enum Slots<'a> {
    Table(lookup::Shape, &'a [u32]),
    File(&'a Lookup),
}

impl Slots<'_> {
    pub(super) fn shape(&self) -> lookup::Shape {
        match self {
            Slots::Table(shape, _) => *shape,
            Slots::File(lookup) => lookup.shape,
        }
    }

    /// The hash by which these are searched.
    #[inline]
    pub(super) fn hash(&self, wanted: Wanted<'_>) -> u64 {
        match self {
            Slots::Table(..) => wanted.hash,
            Slots::File(_) => lookup::hash(wanted.key.as_bytes()),
        }
    }

    /// Whether reading a slot is an access to memory, and no call.
    pub(super) fn are_mapped(&self) -> bool {
        match self {
            Slots::Table(..) => true,
            Slots::File(lookup) => lookup.is_mapped(),
        }
    }

    #[inline]
    pub(super) fn at(&self, slot: u64) -> Result<u32> {
        match self {
            Slots::Table(_, slots) => {
                Ok(slots.get(slot as usize).copied().unwrap_or(lookup::EMPTY))
            }
            Slots::File(lookup) => lookup.slot(slot),
        }
    }
}

#[derive(Default)]
pub(super) struct Search {
    hashes: OnceLock<Hashes>,
    filter: OnceLock<Option<Filter>>,
    pub(super) lookup: OnceLock<Option<Lookup>>,
    /// Whether it is of the hashes that there are.
    lookup_is_right: OnceLock<bool>,
    /// Whether the accelerator was found to be wrong, so that this does without.
    pub(super) lookup_is_wrong: AtomicBool,
    pub(super) table: OnceLock<(lookup::Shape, Vec<u32>)>,
    /// Entries passed by searches so far.
    pub(super) work: AtomicU64,
    building: AtomicBool,
    /// Entries passed because the filter or the hashes are not trusted yet.
    pub(super) doubt: AtomicU64,
}

impl Search {
    pub(super) fn find(&self, files: &OpenDataset, key: &str) -> Result<Option<usize>> {
        match self.ask_lookup(files, key)? {
            Quick::Found(index, _) => Ok(Some(index)),
            Quick::Absent => Ok(None),
            Quick::Unclear => self.find_after(files, key, Asked::No),
        }
    }

    /// The packed bytes of the sample with this key.
    pub(super) fn raw_by_key<'a>(
        &self,
        files: &'a OpenDataset,
        key: &str,
    ) -> Result<Option<Cow<'a, [u8]>>> {
        let index = match self.ask_lookup(files, key)? {
            Quick::Found(_, Some(raw)) => return Ok(Some(Cow::Borrowed(raw))),
            Quick::Found(index, None) => Some(index),
            Quick::Absent => None,
            Quick::Unclear if files.data.is_remote() => self.find_and_fetch(files, key)?,
            Quick::Unclear => self.find_after(files, key, Asked::No)?,
        };
        index.map(|index| files.raw(index)).transpose()
    }

    /// What the accelerator says, where it answers alone.
    #[inline(always)]
    fn ask_lookup<'a>(&self, files: &'a OpenDataset, key: &str) -> Result<Quick<'a>> {
        let Some(lookup) = self.quick_lookup(files)? else { return Ok(Quick::Unclear) };
        Ok(self.find_quickly(files, lookup, key, lookup::hash(key.as_bytes())))
    }

    /// The accelerator, where it answers alone: not in the rounds of remote files. As long as no hashes were needed, it
    /// may be that of others.
    #[inline(always)]
    pub(super) fn quick_lookup(&self, files: &OpenDataset) -> Result<Option<&Lookup>> {
        let is_right = self.lookup_is_right.get().copied();
        if let (Some(Some(lookup)), true) =
            (self.lookup.get(), is_right.unwrap_or(self.hashes.get().is_none()))
        {
            if !self.lookup_is_wrong.load(Relaxed) && lookup.is_mapped() {
                return Ok(Some(lookup));
            }
        }
        self.open_quick_lookup(files)
    }

    #[inline(never)]
    fn open_quick_lookup(&self, files: &OpenDataset) -> Result<Option<&Lookup>> {
        match (files.data.is_remote(), self.hashes.get()) {
            (true, _) => Ok(None),
            (false, None) => self.any_lookup(files),
            (false, Some(_)) => self.lookup(files),
        }
    }

    /// The key in `.lookup` alone. That file may be damaged or stale, so only a sample that has the key counts, and
    /// what it lacks is absent only if it is trusted.
    #[inline(always)]
    pub(super) fn find_quickly<'a>(
        &self,
        files: &'a OpenDataset,
        lookup: &Lookup,
        key: &str,
        hash: u64,
    ) -> Quick<'a> {
        // Nearly every search ends here. The fewer steps, the further the processor goes ahead to the next search while
        // it waits for the memory of this one.
        match lookup.first_candidate(hash) {
            Some(Some(index)) => {
                if let Some(raw) = files.sample_of_plain_key(index as usize, key) {
                    return Quick::Found(index as usize, Some(raw));
                }
            }
            Some(None) if lookup.trusted.load(Relaxed) => return Quick::Absent,
            _ => {}
        }
        self.find_in_lookup(files, lookup, key, hash)
    }

    #[inline(never)]
    fn find_in_lookup(
        &self,
        files: &OpenDataset,
        lookup: &Lookup,
        key: &str,
        hash: u64,
    ) -> Quick<'static> {
        let mut candidates = lookup.shape.probe(hash);
        let mut is_absent = lookup.trusted.load(Relaxed);
        loop {
            match candidates.next_candidate(|slot| lookup.slot(slot)) {
                Ok(Some(index)) => {
                    if matches!(files.has_key(index as usize, key), Ok(true)) {
                        return Quick::Found(index as usize, None);
                    }
                    // It hardly ever is another sample with the same tag, or it is this one and damaged.
                    is_absent = false;
                }
                Ok(None) if is_absent => return Quick::Absent,
                // The way round says what is wrong, and does without the file if that is all.
                Ok(None) | Err(_) => break,
            }
        }
        if !lookup.trusted.load(Relaxed) && lookup.is_doubted() {
            // If that fails, the way round still answers.
            let _ = self.trust_lookup(files);
        }
        Quick::Unclear
    }

    /// The same for a sample that will be read: a remote one is fetched whole, in the round in which
    /// its key is compared.
    pub(super) fn find_and_fetch(&self, files: &OpenDataset, key: &str) -> Result<Option<usize>> {
        if !files.data.is_remote() {
            return self.find(files, key);
        }
        let hashes = self.hashes_for(files, key)?;
        let wanted = Wanted::new(hashes, key);
        self.fetch(files, wanted)?;
        let candidate = match self.slots(files)? {
            Some(slots) => first(&slots, slots.hash(wanted)),
            None => hashes.search(0, wanted.hash)?,
        };
        files.fetch(candidate.as_slice())?;
        self.find_wanted(files, hashes, wanted, Asked::No)
    }

    pub(super) fn find_after(
        &self,
        files: &OpenDataset,
        key: &str,
        asked: Asked,
    ) -> Result<Option<usize>> {
        let hashes = self.hashes_for(files, key)?;
        let wanted = Wanted::new(hashes, key);
        if files.data.is_remote() {
            self.fetch(files, wanted)?;
        }
        self.find_wanted(files, hashes, wanted, asked)
    }

    /// As [`find`](Self::find), for a key whose hash is known.
    pub(super) fn find_wanted(
        &self,
        files: &OpenDataset,
        hashes: &Hashes,
        wanted: Wanted<'_>,
        asked: Asked,
    ) -> Result<Option<usize>> {
        match self.find_hash(files, hashes, wanted)? {
            Some(index) => Ok(Some(index)),
            None => self.check_absent(files, hashes, wanted, asked),
        }
    }

    /// The table if there is one, else the accelerator: what look-ups use now.
    pub(super) fn slots(&self, files: &OpenDataset) -> Result<Option<Slots<'_>>> {
        match self.table.get() {
            Some((shape, slots)) => Ok(Some(Slots::Table(*shape, slots))),
            None => Ok(self.lookup(files)?.map(Slots::File)),
        }
    }

    /// Builds the table, unless there is one or an accelerator.
    fn build(&self, files: &OpenDataset, hashes: &Hashes) -> Result<()> {
        if self.slots(files)?.is_none() {
            let table = table::build(hashes)?;
            self.table.get_or_init(|| table);
        }
        Ok(())
    }

    /// The same if this many look-ups would cost more without it.
    pub(super) fn build_for(
        &self,
        files: &OpenDataset,
        hashes: &Hashes,
        keys: usize,
    ) -> Result<()> {
        // A search passes half of the entries on average.
        if keys as u64 / 2 > TABLE_COST { self.build(files, hashes) } else { Ok(()) }
    }

    /// Fetches what the look-up of a key will read, in two rounds: slots of `.lookup`, and the offset of the sample in
    /// them. The sample itself is the third. Without `.lookup` all hashes are fetched, once.
    fn fetch(&self, files: &OpenDataset, wanted: Wanted<'_>) -> Result<()> {
        let Some(slots @ Slots::File(lookup)) = self.slots(files)? else { return Ok(()) };
        lookup.fetch_runs(&[wanted.key])?;
        files.fetch_offsets(first(&slots, slots.hash(wanted)).as_slice())
    }

    /// Before the first look-up the salt is compared by the first sample: it is fetched together with
    /// the slots, unless opening fetched it.
    fn fetch_first(&self, files: &OpenDataset, key: &str) -> Result<()> {
        let open = |file| files.side_file(file);
        let (Some(_), Some(lookup)) = (open(SideFile::KeyHashes)?, open(SideFile::Lookup)?) else {
            return Ok(());
        };
        let header = lookup.read(0..lookup.len().min(lookup::HEADER as u64))?;
        let Ok(header) = lookup::Header::parse(&header, lookup.len()) else { return Ok(()) };
        if files.len == 0 {
            return Ok(());
        }
        let slots = lookup_run(&header.shape(), key);
        let first = files.head(0)?;
        fetch_together(&[(&lookup, vec![slot_bytes(&slots)]), (&files.data, vec![first])], false)
    }

    pub(super) fn contains(&self, files: &OpenDataset, key: &str) -> Result<bool> {
        if files.data.is_remote() {
            // The filter takes as many rounds as the look-up.
            return Ok(self.find(files, key)?.is_some());
        }
        match self.ask_lookup(files, key)? {
            Quick::Found(..) => return Ok(true),
            Quick::Absent => return Ok(false),
            Quick::Unclear => {}
        }
        let Some(filter) = self.filter(files)? else { return Ok(self.find(files, key)?.is_some()) };
        if filter.contains(key)? {
            return Ok(self.find_after(files, key, Asked::Yes)?.is_some());
        }
        if filter.trusted.load(Relaxed) {
            return Ok(false);
        }
        self.doubt_filter(files, filter, key)
    }

    pub(super) fn prepare(&self, files: &OpenDataset) -> Result<()> {
        let hashes = self.hashes(files)?;
        self.build(files, hashes)?;
        if let Some(filter) = self.filter(files)? {
            self.trust_filter(files, filter)?;
        }
        self.trust_lookup(files)
    }

    /// Looks only at the hashes, and at the samples whose hash is right.
    pub(super) fn find_hash(
        &self,
        files: &OpenDataset,
        hashes: &Hashes,
        wanted: Wanted<'_>,
    ) -> Result<Option<usize>> {
        match self.slots(files)? {
            Some(slots @ Slots::Table(..)) => return probe(files, hashes, &slots, wanted),
            Some(slots @ Slots::File(_)) => match probe(files, hashes, &slots, wanted) {
                // A slot that makes no sense: the file holds nothing that cannot be had without.
                Err(e) if e.kind() == ErrorKind::Damaged && e.path().is_none() => {
                    self.drop_lookup();
                }
                found => return found.map_err(|e| e.at(SideFile::Lookup.path(&files.path))),
            },
            None => {}
        }
        self.build_when_due(hashes)?;
        let mut from = 0;
        loop {
            let found = hashes.search(from, wanted.hash)?;
            let passed = found.map_or(hashes.len(), |at| at + 1) - from;
            self.work.fetch_add(passed as u64, Relaxed);
            match found {
                None => return Ok(None),
                Some(at) if files.has_key(at, wanted.key)? => return Ok(Some(at)),
                Some(at) => {
                    hashes.refuse_damaged(files, at, wanted)?;
                    from = at + 1;
                }
            }
        }
    }

    fn build_when_due(&self, hashes: &Hashes) -> Result<()> {
        let due = self.work.load(Relaxed) > TABLE_COST * hashes.len() as u64;
        if due && !self.building.swap(true, Relaxed) {
            match table::build(hashes) {
                // It need not be built again: that flag stays.
                Ok(table) => drop(self.table.set(table)),
                Err(error) => {
                    self.building.store(false, Relaxed);
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    /// Whether there is an accelerator of the hashes that there are, as far as is known without reading them.
    pub(super) fn has_lookup(&self, files: &OpenDataset) -> Result<bool> {
        let Some(lookup) = self.lookup(files)? else { return Ok(false) };
        let of_hashes = files.recorded_digest(SideFile::KeyHashes)?;
        Ok(of_hashes.is_none_or(|of_hashes| lookup.has_md5(&of_hashes)))
    }

    /// The same, for the look-up of this key.
    pub(super) fn hashes_for(&self, files: &OpenDataset, key: &str) -> Result<&Hashes> {
        if files.data.is_remote() && self.hashes.get().is_none() {
            self.fetch_first(files, key)?;
        }
        self.hashes(files)
    }

    /// All hashes, if they are of this salt; says whether they are.
    pub(super) fn each_hash(
        &self,
        files: &OpenDataset,
        salt: &Salt,
        with: &mut impl FnMut(usize, u64),
    ) -> Result<bool> {
        let hashes = self.hashes(files)?;
        if hashes.salt.0 != salt.0 {
            return Ok(false);
        }
        hashes.scan(|first, bytes| {
            key_hashes::entries(bytes).zip(first..).for_each(|(hash, at)| with(at, hash));
            None::<()>
        })?;
        Ok(true)
    }

    pub(super) fn hashes(&self, files: &OpenDataset) -> Result<&Hashes> {
        match self.hashes.get() {
            Some(hashes) => Ok(hashes),
            None => {
                let hashes = Hashes::open(files)?;
                Ok(self.hashes.get_or_init(|| hashes))
            }
        }
    }

    pub(super) fn filter(&self, files: &OpenDataset) -> Result<Option<&Filter>> {
        match self.filter.get() {
            Some(filter) => Ok(filter.as_ref()),
            None => {
                let filter = Filter::open(files)?;
                Ok(self.filter.get_or_init(|| filter).as_ref())
            }
        }
    }

    pub(super) fn lookup(&self, files: &OpenDataset) -> Result<Option<&Lookup>> {
        let Some(lookup) = self.any_lookup(files)? else { return Ok(None) };
        let is_right = match self.lookup_is_right.get() {
            Some(is_right) => *is_right,
            None => {
                let is_right = lookup.is_of(self.hashes(files)?)?;
                *self.lookup_is_right.get_or_init(|| is_right)
            }
        };
        Ok(is_right.then_some(lookup))
    }

    /// An accelerator that may have been made from other hashes.
    pub(super) fn any_lookup(&self, files: &OpenDataset) -> Result<Option<&Lookup>> {
        if self.lookup_is_wrong.load(Relaxed) {
            return Ok(None);
        }
        match self.lookup.get() {
            Some(lookup) => Ok(lookup.as_ref()),
            None => {
                let lookup = Lookup::open(files)?;
                Ok(self.lookup.get_or_init(|| lookup).as_ref())
            }
        }
    }
}

/// The sample that most likely is there by this hash. What is damaged is not noticed here.
#[inline]
pub(super) fn first(slots: &Slots<'_>, hash: u64) -> Option<usize> {
    let index = slots.shape().probe(hash).next_candidate(|slot| slots.at(slot));
    Some(index.ok()?? as usize)
}

/// Goes through the samples that may have the wanted hash, until one has the key.
#[inline]
fn probe(
    files: &OpenDataset,
    hashes: &Hashes,
    slots: &Slots<'_>,
    wanted: Wanted<'_>,
) -> Result<Option<usize>> {
    let mut candidates = slots.shape().probe(slots.hash(wanted));
    while let Some(index) = candidates.next_candidate(|slot| slots.at(slot))? {
        let index = index as usize;
        match files.has_key(index, wanted.key) {
            Ok(true) => return Ok(Some(index)),
            Ok(false) if hashes.get(index)? == wanted.hash => {
                hashes.refuse_damaged(files, index, wanted)?;
            }
            Ok(false) => {}
            // A sample with another hash need not be whole.
            Err(error) if hashes.get(index)? == wanted.hash => return Err(error),
            Err(_) => {}
        }
    }
    Ok(None)
}
