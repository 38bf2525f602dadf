//! From a key to the index of its sample: the driver of [`search`](super::search) where files are at hand.
//!
//! Where there is a `.lookup` file, its slots lead to the sample. Otherwise there are two ways, the second taken when
//! the first has cost as much as it would: a search through the mapped hashes, which needs no preparation, and a
//! table in memory.
//!
//! Nothing here waits for another thread, so a fork at any moment leaves the child with something
//! that works.

use std::borrow::Cow;
use std::sync::atomic::Ordering::Relaxed;

use crate::error::{ErrorKind, Result};
use crate::format::dataset::{SideFile, lookup};

use super::accelerators::Lookup;
use super::files::Files;
use super::hashes::{Hashes, Wanted};
use super::key_files::Slots;
use super::one::OneFile;
use super::rounds::Fetch;
use super::search::{Search, Step, Way};

/// Where a search in `.lookup` alone ended, and the packed bytes of the sample if they were at hand.
pub(super) type Quick<'a> = (Step, Option<&'a [u8]>);

impl OneFile {
    /// The index of the sample with this key. `fetch` is what of a remote sample is fetched to compare its key.
    pub(super) fn find(&self, key: &str, fetch: Fetch) -> Result<Option<usize>> {
        match self.ask_lookup(key)?.0.end() {
            Some(found) => Ok(found),
            None => self.find_in_all(key, None, fetch),
        }
    }

    /// The packed bytes of the sample with this key.
    pub(super) fn raw_by_key(&self, key: &str) -> Result<Option<Cow<'_, [u8]>>> {
        let (step, raw) = self.ask_lookup(key)?;
        if let Some(raw) = raw {
            return Ok(Some(Cow::Borrowed(raw)));
        }
        let index = match step.end() {
            Some(found) => found,
            None => self.find_in_all(key, None, Fetch::Sample)?,
        };
        index.map(|index| self.raw(index)).transpose()
    }

    pub(super) fn contains(&self, key: &str) -> Result<bool> {
        if let Some(found) = self.ask_lookup(key)?.0.end() {
            return Ok(found.is_some());
        }
        // A remote filter takes as many rounds as the look-up.
        let filter = if self.is_remote() { None } else { self.filter()? };
        let Some(filter) = filter else {
            return Ok(self.find_in_all(key, None, Fetch::Key)?.is_some());
        };
        let may_contain = filter.contains(key)?;
        if !may_contain && filter.trusted.load(Relaxed) {
            return Ok(false);
        }
        // What the filter says may be wrong, so the hashes are asked too.
        let before = self.by_key.work.load(Relaxed);
        match self.find_in_all(key, Some(may_contain), Fetch::Key)? {
            found if may_contain => Ok(found.is_some()),
            Some(index) => Err(filter.lacks(self, index, key)),
            None => self.doubt_filter(filter, before).map(|()| false),
        }
    }

    /// What the accelerator says, where it answers alone.
    #[inline(always)]
    fn ask_lookup(&self, key: &str) -> Result<Quick<'_>> {
        let Some(lookup) = self.quick_lookup()? else { return Ok((Step::Unclear, None)) };
        Ok(self.find_quickly(lookup, key, lookup::hash(key.as_bytes())))
    }

    /// The key in `.lookup` alone. That file may be damaged or stale, so only a sample that has the key counts, and
    /// what it lacks is absent only if it is trusted.
    #[inline(always)]
    pub(super) fn find_quickly(&self, lookup: &Lookup, key: &str, hash: u64) -> Quick<'_> {
        // Nearly every search ends here, without its steps. The fewer there are, the further the processor goes ahead
        // to the next search while it waits for the memory of this one.
        match lookup.first_candidate(hash) {
            Some(Some(index)) => {
                if let Some(raw) = self.sample_of_plain_key(index as usize, key) {
                    return (Step::Found(index as usize), Some(raw));
                }
            }
            Some(None) if lookup.trusted.load(Relaxed) => return (Step::Absent, None),
            _ => {}
        }
        (self.find_in_lookup(lookup, key, hash), None)
    }

    #[inline(never)]
    fn find_in_lookup(&self, lookup: &Lookup, key: &str, hash: u64) -> Step {
        let is_trusted = lookup.trusted.load(Relaxed);
        let (mut search, mut step) = Search::new(Way::Alone { is_trusted }, None);
        let mut slots = lookup.shape.probe(hash);
        loop {
            step = match step {
                Step::Key(index) => {
                    search.compared(index, matches!(self.has_key(index, key), Ok(true)))
                }
                Step::Slot => match slots.next_candidate(|slot| lookup.slot(slot)) {
                    Ok(index) => search.candidate(index.map(|index| index as usize)),
                    // The way round says what is wrong, and does without the file if that is all.
                    Err(_) => search.broken(),
                },
                _ => break,
            };
        }
        if step == Step::Unclear && !is_trusted && lookup.is_doubted() {
            // If that fails, the way round still answers.
            let _ = self.trust_lookup();
        }
        step
    }

    /// The search through all files that can tell. `filter` is what the filter said, if it was asked.
    pub(super) fn find_in_all(
        &self,
        key: &str,
        filter: Option<bool>,
        fetch: Fetch,
    ) -> Result<Option<usize>> {
        if self.is_remote() {
            let hashes = self.hashes_for(key)?;
            let wanted = Wanted::new(hashes, key);
            return Ok(self.find_in_rounds(hashes, &[wanted], fetch)?.pop().flatten());
        }
        let hashes = self.hashes()?;
        Run::new(self, hashes, Wanted::new(hashes, key), filter)?.finish()
    }

    /// Whether a sample that a search was led to has the key. Where it has the wanted hash, it must be as it was
    /// written; one with another hash need not be whole.
    #[inline]
    fn compare_key(&self, hashes: &Hashes, index: usize, wanted: Wanted<'_>) -> Result<bool> {
        match self.has_key(index, wanted.key) {
            Ok(true) => return Ok(true),
            Ok(false) if hashes.get(index)? == wanted.hash => {
                hashes.refuse_damaged(self, index, wanted)?;
            }
            Ok(false) => {}
            Err(error) if hashes.get(index)? == wanted.hash => return Err(error),
            Err(_) => {}
        }
        Ok(false)
    }
}

/// A search that is on its way through the files.
pub(super) struct Run<'a> {
    file: &'a OneFile,
    hashes: &'a Hashes,
    pub(super) wanted: Wanted<'a>,
    slots: Option<(Slots<'a>, lookup::Probe)>,
    search: Search,
    pub(super) step: Step,
}

impl<'a> Run<'a> {
    #[inline]
    pub(super) fn new(
        file: &'a OneFile,
        hashes: &'a Hashes,
        wanted: Wanted<'a>,
        filter: Option<bool>,
    ) -> Result<Run<'a>> {
        let slots = file.slots()?;
        let way = match slots {
            Some(Slots::Table(..)) => Way::Table,
            Some(Slots::File(_)) => Way::Lookup,
            None => Way::Hashes,
        };
        let slots = slots.map(|slots| {
            let probe = slots.shape().probe(slots.hash(wanted));
            (slots, probe)
        });
        let (search, step) = Search::new(way, filter);
        Ok(Run { file, hashes, wanted, slots, search, step })
    }

    #[inline]
    pub(super) fn finish(mut self) -> Result<Option<usize>> {
        loop {
            match self.step.end() {
                Some(found) => return Ok(found),
                None => self.advance()?,
            }
        }
    }

    /// Answers one question, unless the search is at its end.
    #[inline]
    pub(super) fn advance(&mut self) -> Result<()> {
        let (file, hashes, wanted) = (self.file, self.hashes, self.wanted);
        self.step = match self.step {
            Step::Slot => self.next_slot()?,
            Step::Key(index) => {
                let has_key = file.compare_key(hashes, index, wanted)?;
                if has_key && self.search.is_after_lookup() {
                    file.drop_lookup();
                }
                self.search.compared(index, has_key)
            }
            Step::Hash(from) => {
                let is_counted = !self.search.is_after_lookup();
                self.search.candidate(file.scan_hashes(hashes, from, wanted.hash, is_counted)?)
            }
            Step::Filter => {
                let filter = file.filter()?;
                self.search.filtered(filter.map_or(Ok(true), |it| it.contains(wanted.key))?)
            }
            Step::Confirm => {
                file.confirm_absent(hashes, wanted)?;
                Step::Absent
            }
            end => end,
        };
        Ok(())
    }

    #[inline]
    fn next_slot(&mut self) -> Result<Step> {
        let Some((slots, probe)) = &mut self.slots else { return Ok(self.search.broken()) };
        match probe.next_candidate(|slot| slots.at(slot)) {
            Ok(index) => Ok(self.search.candidate(index.map(|index| index as usize))),
            Err(e) if e.kind() == ErrorKind::Damaged && e.path().is_none() => {
                self.file.drop_lookup();
                Ok(self.search.broken())
            }
            Err(e) => Err(e.at(SideFile::Lookup.path(&self.file.path))),
        }
    }
}
