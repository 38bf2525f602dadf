//! The second witness of a key that was not found, and when a file is trusted to be one: [`search`](super::search)
//! says which is asked.

use std::borrow::Cow;
use std::sync::atomic::Ordering::Relaxed;

use crate::error::Result;
use crate::format::dataset::{SideFile, lookup};
use crate::storage::Source;

use super::accelerators::{Filter, Lookup, check_digest};
use super::files::Files;
use super::hashes::{Hashes, Wanted};
use super::one::OneFile;

impl OneFile {
    /// Fails if the hashes lack a key that there is: they may be damaged.
    pub(super) fn confirm_absent(&self, hashes: &Hashes, wanted: Wanted<'_>) -> Result<()> {
        if hashes.trusted.load(Relaxed) {
            return Ok(());
        }
        let Some(bytes) = self.key_list()? else {
            self.trust_hashes(hashes)?;
            // Without a digest no other file can tell, so the samples have to.
            let samples = if hashes.trusted.load(Relaxed) { 0..0 } else { 0..self.len };
            for index in samples {
                if self.has_key(index, wanted.key)? {
                    return Err(hashes.lacks(self, index, wanted));
                }
            }
            return Ok(());
        };
        for (index, listed) in self.listed_keys(&bytes)?.enumerate() {
            if listed.map_err(|e| self.damaged_keys(e))? == wanted.key {
                return Err(hashes.lacks(self, index, wanted));
            }
        }
        let passed = self.by_key.doubt.fetch_add(self.len as u64 * 20, Relaxed);
        if passed > self.len as u64 * 150 {
            self.by_key.doubt.store(0, Relaxed);
            self.trust_hashes(hashes)?;
        }
        Ok(())
    }

    /// The filter and the hashes lack a key. Compares the filter once searches like this one, before which this
    /// many entries had been passed, have cost as much.
    pub(super) fn doubt_filter(&self, filter: &Filter, before: u64) -> Result<()> {
        // A look-up in the table passes a handful of entries but costs as much as a few hundred.
        let passed = self.by_key.work.load(Relaxed).saturating_sub(before).max(1000);
        // A byte of the filter takes MD5 as long as a search takes for some fifteen entries.
        if self.by_key.doubt.fetch_add(passed, Relaxed) > filter.source.len() * 15 {
            self.by_key.doubt.store(0, Relaxed);
            self.trust_filter(filter)?;
        }
        Ok(())
    }

    fn trust_hashes(&self, hashes: &Hashes) -> Result<()> {
        if let (Some(source), false) = (hashes.file(), hashes.trusted.load(Relaxed)) {
            hashes.trusted.store(self.has_its_digest(SideFile::KeyHashes, source)?, Relaxed);
        }
        Ok(())
    }

    pub(super) fn trust_filter(&self, filter: &Filter) -> Result<()> {
        if filter.trusted.load(Relaxed) {
            return Ok(());
        }
        // Filter and digests may both be of another dataset.
        for (index, key) in self.some_keys() {
            if !filter.contains(&key)? {
                return Err(filter.lacks(self, index, &key));
            }
        }
        filter.trusted.store(self.has_its_digest(SideFile::Filter, &filter.source)?, Relaxed);
        Ok(())
    }

    /// Trusts the accelerator if it is whole and `.md5` says that it is of these keys, so that it alone says of a key that
    /// it is absent.
    #[inline(never)]
    pub(super) fn trust_lookup(&self) -> Result<()> {
        if self.is_remote() {
            return Ok(());
        }
        let Some(lookup) = self.lookup()? else { return Ok(()) };
        let Some(hashes) = self.hashes()?.file() else { return Ok(()) };
        if lookup.trusted.load(Relaxed) {
            return Ok(());
        }
        let Some(of_hashes) = self.recorded_digest(SideFile::KeyHashes)? else { return Ok(()) };
        match lookup.has_md5(&of_hashes)
            && lookup.is_whole(hashes)?
            && self.leads_to_some(lookup)?
        {
            true => lookup.trusted.store(true, Relaxed),
            false => self.drop_lookup(),
        }
        Ok(())
    }

    /// Whether an accelerator leads to some of the samples: it and the digests may both be of another dataset.
    fn leads_to_some(&self, lookup: &Lookup) -> Result<bool> {
        for (index, key) in self.some_keys() {
            let mut candidates = lookup.shape.probe(lookup::hash(key.as_bytes()));
            loop {
                match candidates.next_candidate(|slot| lookup.slot(slot))? {
                    Some(found) if found as usize == index => break,
                    Some(_) => {}
                    None => return Ok(false),
                }
            }
        }
        Ok(true)
    }

    /// Some of the keys. A sample that cannot be read is another matter.
    fn some_keys(&self) -> impl Iterator<Item = (usize, Cow<'_, str>)> {
        let indices = (0..self.len).step_by(self.len / 32 + 1);
        indices.filter_map(|index| Some((index, self.key(index).ok()?)))
    }

    /// Compares a file with its digest. `false` where there is none.
    fn has_its_digest(&self, file: SideFile, source: &Source) -> Result<bool> {
        let Some(expected) = self.recorded_digest(file)? else { return Ok(false) };
        check_digest(source, expected, &file.path(&self.path)).map(|()| true)
    }
}
