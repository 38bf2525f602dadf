//! A dataset of one data file: its files, and the search for a key in them.

use std::borrow::Cow;
use std::ops::{Deref, Range};
use std::path::Path;
use std::sync::Arc;

use crate::error::Result;
use crate::format::msgpack;
use crate::storage::Storage;

use super::files::{Files, Opened};
use super::key_files::KeyFiles;
use super::keys::FileKeys;
use super::open::{OpenDataset, Room};

/// Samples at most this many bytes apart are fetched as one: they share pages, or nearly.
const NEIGHBOUR: u64 = 4096;

/// How the files of a dataset are opened.
#[derive(Debug, Clone, Default)]
pub(crate) struct Opening {
    /// Whether each sample is compared with its checksum.
    pub(super) checksums: bool,
    /// How many shards stay open.
    pub(super) most_open: Option<usize>,
    /// For the offsets of all shards.
    pub(super) room: Room,
    /// Whether an index names files of its folder alone.
    pub(super) confined: bool,
}

/// A dataset of one data file.
pub(crate) struct OneFile {
    files: OpenDataset,
    pub(super) by_key: KeyFiles,
}

impl Deref for OneFile {
    type Target = OpenDataset;

    #[inline(always)]
    fn deref(&self) -> &OpenDataset {
        &self.files
    }
}

impl OneFile {
    pub(super) fn open(how: &Opening, storage: Arc<dyn Storage>, path: &Path) -> Result<OneFile> {
        let mut files = OpenDataset::open_in(how, storage, path)?;
        if how.checksums {
            files.checksums()?;
            files.check_samples();
        }
        Ok(OneFile { files, by_key: KeyFiles::default() })
    }

    /// The packed bytes of one field.
    pub(super) fn field_raw(&self, index: usize, name: &str) -> Result<Option<Cow<'_, [u8]>>> {
        if let Some(records) = &self.records {
            return Ok(records.field(index, &self.byte_range(index)?, name)?.map(Cow::Owned));
        }
        let damaged = |e| self.damaged_sample(index, e);
        match self.raw(index)? {
            Cow::Borrowed(raw) => {
                Ok(msgpack::field(raw, name).map_err(damaged)?.map(Cow::Borrowed))
            }
            Cow::Owned(raw) => {
                let field = msgpack::field(&raw, name).map_err(damaged)?;
                Ok(field.map(|field| Cow::Owned(field.to_vec())))
            }
        }
    }

    /// Compares a sample with its checksum.
    pub(super) fn check(&self, index: usize) -> Result<()> {
        self.checksums()?;
        let raw = self.data.read(self.byte_range(index)?)?;
        self.compare(index, &raw)
    }

    /// The keys of all samples, in order.
    pub(crate) fn keys(&self) -> FileKeys<'_> {
        FileKeys::new(&self.files)
    }

    pub(super) fn is_mapped(&self) -> bool {
        self.data.mapped().is_some() && self.records.is_none()
    }
}

impl Files for OneFile {
    fn path(&self) -> &Path {
        &self.files.path
    }

    fn storage(&self) -> &Arc<dyn Storage> {
        &self.files.storage
    }

    fn len(&self) -> usize {
        self.files.len
    }

    fn data_len(&self) -> u64 {
        self.files.data_len
    }

    fn is_walked(&self) -> bool {
        self.files.is_walked
    }

    fn is_remote(&self) -> bool {
        self.files.is_remote()
    }

    fn count(&self) -> usize {
        1
    }

    fn file(&self, _number: usize) -> Result<Opened<'_>> {
        Ok(Opened::Kept(self))
    }

    fn check_current(&self) -> Result<()> {
        self.files.check_current()
    }

    /// Advises the kernel, where the data is mapped; neighbours in one call.
    fn prefetch(&self, indices: &[usize]) {
        if self.files.is_remote() {
            // The files keep what failed, for the reads to come.
            let _ = self.fetch_in_order(indices);
            return;
        }
        if let Some(records) = &self.records {
            if let Ok(samples) = self.in_shards(indices) {
                records.will_need(&samples);
            }
        }
        if !self.is_mapped() {
            return;
        }
        let mut ranges: Vec<Range<u64>> =
            indices.iter().filter_map(|&index| self.byte_range(index).ok()).collect();
        ranges.sort_unstable_by_key(|range| range.start);
        let mut ranges = ranges.into_iter();
        let Some(mut run) = ranges.next() else { return };
        for range in ranges {
            if range.start <= run.end.saturating_add(NEIGHBOUR) {
                run.end = run.end.max(range.end);
            } else {
                self.data.will_need(std::mem::replace(&mut run, range));
            }
        }
        self.data.will_need(run);
    }

    #[cfg(feature = "convert")]
    fn fetch_offsets(&self, indices: &[usize]) -> Result<()> {
        self.files.fetch_offsets(indices)
    }
}
