//! What a key is looked up in: side files that are opened on first need, and a table in memory where there is no `.lookup`.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use crate::error::Result;
use crate::format::dataset::key_hashes::{self, Salt};
use crate::format::dataset::{SideFile, lookup};

use super::super::index::by_hash;
use super::accelerators::{Filter, Lookup};
use super::files::Files;
use super::hashes::{Hashes, Wanted};
use super::once::get_or_open;
use super::one::OneFile;

/// What building the table costs, in searches through all hashes: measured, some fifty to seventy
/// at 1, 10 and 100 million keys.
const TABLE_COST: u64 = 50;

/// A table in memory, in the layout of `.lookup`.
type Table = (lookup::Shape, Vec<u32>);

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

    /// The hash of a key by the function that these slots use.
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
pub(super) struct KeyFiles {
    pub(super) hashes: OnceLock<Hashes>,
    filter: OnceLock<Option<Filter>>,
    lookup: OnceLock<Option<Lookup>>,
    /// Whether it is of the hashes that there are.
    lookup_is_right: OnceLock<bool>,
    /// Whether the accelerator was found to be wrong, so that this does without.
    lookup_is_wrong: AtomicBool,
    table: OnceLock<Table>,
    /// Entries passed by searches so far.
    pub(super) work: AtomicU64,
    building: AtomicBool,
    /// Entries passed because the filter or the hashes are not trusted yet.
    pub(super) doubt: AtomicU64,
}

impl OneFile {
    pub(super) fn hashes(&self) -> Result<&Hashes> {
        get_or_open(&self.by_key.hashes, || Hashes::open(self))
    }

    pub(super) fn filter(&self) -> Result<Option<&Filter>> {
        get_or_open(&self.by_key.filter, || Filter::open(self)).map(Option::as_ref)
    }

    /// The accelerator, if it is of the hashes that there are.
    pub(super) fn lookup(&self) -> Result<Option<&Lookup>> {
        let Some(lookup) = self.any_lookup()? else { return Ok(None) };
        let is_right = get_or_open(&self.by_key.lookup_is_right, || lookup.is_of(self.hashes()?))?;
        Ok(is_right.then_some(lookup))
    }

    /// An accelerator that may have been made from other hashes.
    pub(super) fn any_lookup(&self) -> Result<Option<&Lookup>> {
        if self.by_key.lookup_is_wrong.load(Relaxed) {
            return Ok(None);
        }
        get_or_open(&self.by_key.lookup, || Lookup::open(self)).map(Option::as_ref)
    }

    /// The accelerator, where it answers alone: not in the rounds of remote files. As long as no hashes were needed, it
    /// may belong to another dataset.
    #[inline(always)]
    pub(super) fn quick_lookup(&self) -> Result<Option<&Lookup>> {
        let by_key = &self.by_key;
        let is_right = by_key.lookup_is_right.get().copied();
        if let (Some(Some(lookup)), true) =
            (by_key.lookup.get(), is_right.unwrap_or(by_key.hashes.get().is_none()))
        {
            if !by_key.lookup_is_wrong.load(Relaxed) && lookup.is_mapped() {
                return Ok(Some(lookup));
            }
        }
        self.open_quick_lookup()
    }

    #[inline(never)]
    fn open_quick_lookup(&self) -> Result<Option<&Lookup>> {
        match (self.is_remote(), self.by_key.hashes.get()) {
            (true, _) => Ok(None),
            (false, None) => self.any_lookup(),
            (false, Some(_)) => self.lookup(),
        }
    }

    /// Does without the accelerator from here on.
    pub(super) fn drop_lookup(&self) {
        self.by_key.lookup_is_wrong.store(true, Relaxed);
        if let Some(Some(lookup)) = self.by_key.lookup.get() {
            lookup.trusted.store(false, Relaxed);
        }
    }

    /// Whether there is an accelerator; if `.md5` has a digest of the hashes, one that was made of them.
    pub(super) fn has_lookup(&self) -> Result<bool> {
        let Some(lookup) = self.lookup()? else { return Ok(false) };
        let of_hashes = self.recorded_digest(SideFile::KeyHashes)?;
        Ok(of_hashes.is_none_or(|of_hashes| lookup.has_md5(&of_hashes)))
    }

    /// The table if there is one, else the accelerator: what look-ups use now.
    pub(super) fn slots(&self) -> Result<Option<Slots<'_>>> {
        match self.by_key.table.get() {
            Some((shape, slots)) => Ok(Some(Slots::Table(*shape, slots))),
            None => Ok(self.lookup()?.map(Slots::File)),
        }
    }

    /// Builds the table, unless there is one or an accelerator.
    fn build(&self, hashes: &Hashes) -> Result<()> {
        if self.slots()?.is_none() {
            get_or_open(&self.by_key.table, || table_of(hashes))?;
        }
        Ok(())
    }

    /// The same if this many look-ups would cost more without it.
    pub(super) fn build_for(&self, hashes: &Hashes, keys: usize) -> Result<()> {
        // A search passes half of the entries on average.
        if keys as u64 / 2 > TABLE_COST { self.build(hashes) } else { Ok(()) }
    }

    /// The same once searches have cost as much. Of several threads one builds it.
    fn build_when_due(&self, hashes: &Hashes) -> Result<()> {
        let KeyFiles { work, building, .. } = &self.by_key;
        let due = work.load(Relaxed) > TABLE_COST * hashes.len() as u64;
        if !due || building.swap(true, Relaxed) {
            return Ok(());
        }
        let built = self.build(hashes);
        // It need not be built again.
        building.store(built.is_ok(), Relaxed);
        built
    }

    /// The first sample from this one on with this hash. A search that is counted brings the table nearer.
    pub(super) fn scan_hashes(
        &self,
        hashes: &Hashes,
        from: usize,
        wanted: u64,
        is_counted: bool,
    ) -> Result<Option<usize>> {
        if is_counted && from == 0 {
            self.build_when_due(hashes)?;
        }
        let found = hashes.search(from, wanted)?;
        if is_counted {
            let passed = found.map_or(hashes.len(), |at| at + 1) - from;
            self.by_key.work.fetch_add(passed as u64, Relaxed);
        }
        Ok(found)
    }

    /// Makes look-ups as fast as they get.
    pub(super) fn prepare(&self) -> Result<()> {
        self.build(self.hashes()?)?;
        if let Some(filter) = self.filter()? {
            self.trust_filter(filter)?;
        }
        self.trust_lookup()
    }

    /// The hash of each key with this salt, in order of the samples.
    pub(super) fn each_hash(&self, salt: &Salt, mut with: impl FnMut(usize, u64)) -> Result<()> {
        let hashes = self.hashes()?;
        if hashes.salt == *salt {
            let part = |first: usize, bytes: &[u8]| {
                key_hashes::entries(bytes).zip(first..).for_each(|(hash, at)| with(at, hash));
                None::<()>
            };
            return hashes.scan(part).map(drop);
        }
        for (index, key) in self.keys().enumerate() {
            with(index, key_hashes::hash(salt, key?.as_bytes()));
        }
        Ok(())
    }
}

fn table_of(hashes: &Hashes) -> Result<Table> {
    let mut placer = lookup::Placer::new(hashes.len() as u64)?;
    by_hash(
        hashes.len(),
        |samples, part| hashes.scan_numbers(samples, part),
        |hash, index| Ok(placer.push(hash, index)?),
    )?;
    Ok(placer.finish()?)
}
