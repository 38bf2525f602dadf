//! The driver of [`search`](super::search) for remote files: what many searches ask is fetched before any of them
//! is answered, so that they share their round trips.
//!
//! With `.lookup` there are three: slots, offsets, and what shows the keys of the samples. Without it all hashes
//! are fetched, once.

use crate::error::Result;
use crate::format::dataset::{SideFile, lookup};
use crate::storage::fetch_together;

use super::accelerators::{lookup_run, slot_bytes};
use super::find::Run;
use super::hashes::{Hashes, Wanted};
use super::key_files::Slots;
use super::one::OneFile;
use super::search::Step;

/// What a request costs, in bytes that could be fetched instead: files that take less than the requests
/// for a part of them are fetched whole.
const REQUEST: u64 = 64 << 10;

/// What of a remote sample is fetched to compare its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fetch {
    /// As much as shows the key of most.
    Key,
    /// All of it, as it will be read.
    Sample,
}

impl OneFile {
    pub(super) fn find_in_rounds(
        &self,
        hashes: &Hashes,
        wanted: &[Wanted<'_>],
        fetch: Fetch,
    ) -> Result<Vec<Option<usize>>> {
        let start = |&wanted| Run::new(self, hashes, wanted, None);
        let mut runs = wanted.iter().map(start).collect::<Result<Vec<_>>>()?;
        while runs.iter().any(|run| run.step.end().is_none()) {
            self.fetch_for(&runs, fetch)?;
            runs.iter_mut().try_for_each(Run::advance)?;
        }
        Ok(runs.into_iter().map(|run| run.step.end().flatten()).collect())
    }

    /// Fetches what the next steps of these searches read, of slots and samples.
    fn fetch_for(&self, runs: &[Run<'_>], fetch: Fetch) -> Result<()> {
        let at_slots = runs.iter().filter(|run| run.step == Step::Slot);
        let keys: Vec<&str> = at_slots.map(|run| run.wanted.key).collect();
        if let (Some(Slots::File(lookup)), false) = (self.slots()?, keys.is_empty()) {
            lookup.fetch_runs(&keys)?;
        }
        let samples = runs.iter().filter_map(|run| match run.step {
            Step::Key(index) => Some(index),
            _ => None,
        });
        let samples: Vec<usize> = samples.collect();
        match fetch {
            _ if samples.is_empty() => Ok(()),
            Fetch::Key => self.fetch_heads(&samples),
            Fetch::Sample => self.fetch(&samples),
        }
    }

    /// The hashes, and what else the searches for this many keys begin with. One of them is given.
    pub(super) fn fetch_first(&self, key: &str, keys: usize) -> Result<&Hashes> {
        let most = keys as u64 * REQUEST;
        let is_whole = match self.any_lookup()? {
            Some(lookup) => lookup.fetch_whole(most)?,
            None => false,
        };
        // The slots of that key need not be fetched once more.
        let hashes = if is_whole { self.hashes()? } else { self.hashes_for(key)? };
        if self.slots()?.is_none() {
            hashes.fetch_whole(most)?;
        }
        Ok(hashes)
    }

    /// The hashes. When they are opened, their salt is compared by the first sample: it is fetched together with the
    /// slots of this key, unless opening the dataset fetched it.
    pub(super) fn hashes_for(&self, key: &str) -> Result<&Hashes> {
        if self.by_key.hashes.get().is_none() {
            self.fetch_salted(key)?;
        }
        self.hashes()
    }

    fn fetch_salted(&self, key: &str) -> Result<()> {
        let open = |file| self.side_file(file);
        let (Some(_), Some(lookup)) = (open(SideFile::KeyHashes)?, open(SideFile::Lookup)?) else {
            return Ok(());
        };
        let header = lookup.read(0..lookup.len().min(lookup::HEADER as u64))?;
        let Ok(header) = lookup::Header::parse(&header, lookup.len()) else { return Ok(()) };
        if self.len == 0 {
            return Ok(());
        }
        let slots = lookup_run(&header.shape(), key);
        if self.records.is_some() {
            lookup.fetch(&[slot_bytes(&slots)])?;
            return self.fetch(&[0]);
        }
        let first = self.head(0)?;
        fetch_together(&[(&lookup, vec![slot_bytes(&slots)]), (&self.data, vec![first])], false)
    }
}
