//! Decides whether a key that was not found is absent, or a file is damaged.
//!
//! A key that is not found counts as absent only if a second witness agrees: the Bloom filter
//! says so too, or the hashes or `.lookup` were compared with their digests, or the list of all keys was read.
//! So a flipped bit or a file of another dataset is an error and never a wrong answer.

use std::sync::atomic::Ordering::Relaxed;

use crate::error::{Error, ErrorKind, Result};
use crate::format::dataset::{SideFile, lookup};
use crate::format::md5::Md5;
use crate::storage::Source;

use super::super::index::digest_into;
use super::accelerators::{Filter, Lookup};
use super::hashes::{Hashes, Wanted};
use super::open::OpenDataset;
use super::search::{Asked, Search};

impl Search {
    /// The filter says that a key is absent, but it may be damaged: asks the hashes too.
    pub(super) fn doubt_filter(
        &self,
        files: &OpenDataset,
        filter: &Filter,
        key: &str,
    ) -> Result<bool> {
        let before = self.work.load(Relaxed);
        let hashes = self.hashes(files)?;
        if let Some(index) = self.find_hash(files, hashes, Wanted::new(hashes, key))? {
            return Err(filter.lacks(files, index, key));
        }
        // A look-up in the table passes a handful of entries but costs as much as a few hundred.
        let passed = self.work.load(Relaxed).saturating_sub(before).max(1000);
        // A byte of the filter takes MD5 as long as a search takes for some fifteen entries.
        if self.doubt.fetch_add(passed, Relaxed) > filter.source.len() * 15 {
            self.doubt.store(0, Relaxed);
            self.trust_filter(files, filter)?;
        }
        Ok(false)
    }

    /// The hashes say that a key is absent, but they may be damaged; or the accelerator says so,
    /// which may be that of another dataset: then the index is found here.
    pub(super) fn check_absent(
        &self,
        files: &OpenDataset,
        hashes: &Hashes,
        wanted: Wanted<'_>,
        asked: Asked,
    ) -> Result<Option<usize>> {
        if asked == Asked::No {
            if let Some(filter) = self.filter(files)? {
                if !filter.contains(wanted.key)? {
                    return Ok(None);
                }
            }
        }
        // The filter is wrong about one absent key in N for N samples, so what follows
        // is rare; without a filter it is not, and the digest has to say that the hashes are right.
        if self.table.get().is_none() && self.lookup(files)?.is_some() {
            if let Some(index) = search_all(files, hashes, wanted)? {
                self.drop_lookup();
                return Ok(Some(index));
            }
        }
        if hashes.trusted.load(Relaxed) {
            return Ok(None);
        }
        let Some(bytes) = files.key_list()? else {
            self.trust_hashes(files, hashes)?;
            return match hashes.trusted.load(Relaxed) {
                true => Ok(None),
                // No other file can tell, so the samples have to.
                false => {
                    for index in 0..files.len {
                        if files.has_key(index, wanted.key)? {
                            return Err(hashes.lacks(files, index, wanted));
                        }
                    }
                    Ok(None)
                }
            };
        };
        for (index, listed) in files.listed_keys(&bytes)?.enumerate() {
            if listed.map_err(|e| files.damaged_keys(e))? == wanted.key {
                return Err(hashes.lacks(files, index, wanted));
            }
        }
        let passed = self.doubt.fetch_add(files.len as u64 * 20, Relaxed);
        if passed > files.len as u64 * 150 {
            self.doubt.store(0, Relaxed);
            self.trust_hashes(files, hashes)?;
        }
        Ok(None)
    }

    fn trust_hashes(&self, files: &OpenDataset, hashes: &Hashes) -> Result<()> {
        if let (Some(source), false) = (hashes.file(), hashes.trusted.load(Relaxed)) {
            hashes.trusted.store(has_its_digest(files, SideFile::KeyHashes, source)?, Relaxed);
        }
        Ok(())
    }

    pub(super) fn trust_filter(&self, files: &OpenDataset, filter: &Filter) -> Result<()> {
        if filter.trusted.load(Relaxed) {
            return Ok(());
        }
        // Filter and digests may both be of another dataset: some of the keys tell.
        for index in (0..files.len).step_by(files.len / 32 + 1) {
            // A sample that cannot be read is another matter.
            let Ok(key) = files.key(index) else { continue };
            if !filter.contains(&key)? {
                return Err(filter.lacks(files, index, &key));
            }
        }
        filter.trusted.store(has_its_digest(files, SideFile::Filter, &filter.source)?, Relaxed);
        Ok(())
    }

    /// Trusts the accelerator if it is whole and `.md5` says that it is of these keys, so that it alone says of a key that
    /// it is absent.
    #[inline(never)]
    pub(super) fn trust_lookup(&self, files: &OpenDataset) -> Result<()> {
        if files.data.is_remote() {
            return Ok(());
        }
        let Some(lookup) = self.lookup(files)? else { return Ok(()) };
        let Some(hashes) = self.hashes(files)?.file() else { return Ok(()) };
        if lookup.trusted.load(Relaxed) {
            return Ok(());
        }
        let Some(of_hashes) = files.recorded_digest(SideFile::KeyHashes)? else { return Ok(()) };
        match lookup.has_md5(&of_hashes) && lookup.is_whole(hashes)? && has_some(files, lookup)? {
            true => lookup.trusted.store(true, Relaxed),
            false => self.drop_lookup(),
        }
        Ok(())
    }

    /// Does without the accelerator from here on.
    pub(super) fn drop_lookup(&self) {
        self.lookup_is_wrong.store(true, Relaxed);
        if let Some(Some(lookup)) = self.lookup.get() {
            lookup.trusted.store(false, Relaxed);
        }
    }
}

/// Whether an accelerator leads to some of the samples: it and the digests may both be of another dataset.
fn has_some(files: &OpenDataset, lookup: &Lookup) -> Result<bool> {
    for index in (0..files.len).step_by(files.len / 32 + 1) {
        // A sample that cannot be read is another matter.
        let Ok(key) = files.key(index) else { continue };
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

/// Compares a file with its digest. `false` where there is none.
fn has_its_digest(files: &OpenDataset, file: SideFile, source: &Source) -> Result<bool> {
    let path = file.path(&files.path);
    let Some(expected) = files.recorded_digest(file)? else { return Ok(false) };
    let mut md5 = Md5::new();
    digest_into(&mut md5, source, 0..source.len())?;
    if md5.finish() != expected {
        let message = "the file does not match its MD5";
        return Err(Error::new(ErrorKind::Damaged, message).at(path));
    }
    Ok(true)
}

/// The sample with this key, by a search through all hashes.
#[cold]
fn search_all(files: &OpenDataset, hashes: &Hashes, wanted: Wanted<'_>) -> Result<Option<usize>> {
    let mut from = 0;
    while let Some(at) = hashes.search(from, wanted.hash)? {
        if files.has_key(at, wanted.key)? {
            return Ok(Some(at));
        }
        hashes.refuse_damaged(files, at, wanted)?;
        from = at + 1;
    }
    Ok(None)
}
