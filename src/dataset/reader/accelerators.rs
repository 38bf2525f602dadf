//! The files that make look-ups by key faster: `.lookup` and `.filter`, open.

use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

use crate::error::{Error, ErrorKind, Result};
use crate::format::FormatError;
use crate::format::dataset::{Digest, SideFile, crc, filter, lookup};
use crate::format::md5::Md5;
use crate::storage::{Source, Storage};

use super::super::index::{digest_into, read_digests};
use super::hashes::Hashes;
use super::once::get_or_open;
use super::open::OpenDataset;

/// An open `.lookup`, of as many samples as there are.
pub(super) struct Lookup {
    pub(super) shape: lookup::Shape,
    header: lookup::Header,
    pub(super) source: Source,
    /// All of a remote file, once enough keys were looked for that this is cheaper.
    whole: OnceLock<Vec<u8>>,
    /// Whether it is whole and of these keys by `.md5`, so that a key that it lacks is absent.
    pub(super) trusted: AtomicBool,
    /// Keys that it lacks, so far.
    doubt: AtomicU64,
}

/// Bytes that are compared with their checksum while other files say of a key that it is absent.
const WITNESS: u64 = 500;
/// Keys that are looked for before anything is compared.
const BEFORE: u64 = 1000;

impl Lookup {
    pub(super) fn open(files: &OpenDataset) -> Result<Option<Lookup>> {
        let Some(source) = files.side_file(SideFile::Lookup)? else { return Ok(None) };
        let header = source.read(0..source.len().min(lookup::HEADER as u64))?;
        // Damaged, or of another dataset, as after Python rewrote this one: all that is in it can
        // be had without it, and verifying tells.
        let Ok(header) = lookup::Header::parse(&header, source.len()) else { return Ok(None) };
        let shape = header.shape();
        if shape.count() != files.len as u64 {
            return Ok(None);
        }
        let (trusted, doubt) = (AtomicBool::new(false), AtomicU64::new(0));
        Ok(Some(Lookup { shape, header, source, whole: OnceLock::new(), trusted, doubt }))
    }

    /// Counts a key that it lacks. Says whether these have taken as long as comparing it and `.key_hashes` would, which
    /// has a byte more for each key.
    pub(super) fn is_doubted(&self) -> bool {
        let due = (2 * self.source.len() / WITNESS).max(BEFORE);
        // Of several threads one compares.
        self.doubt.fetch_add(1, Relaxed) % due == due - 1
    }

    /// Whether it is of the `.key_hashes` with this MD5.
    pub(super) fn has_md5(&self, of_hashes: &Digest) -> bool {
        self.header.sums().md5 == *of_hashes
    }

    /// Whether all slots are as they were written, for hashes that are as they are now.
    pub(super) fn is_whole(&self, hashes: &Source) -> Result<bool> {
        let slots = lookup::HEADER as u64..self.source.len();
        Ok(checksum(&self.source, slots)? == self.header.checksum()
            && checksum(hashes, 0..hashes.len())? == self.header.sums().crc)
    }

    /// Whether it is of these hashes.
    pub(super) fn is_of(&self, hashes: &Hashes) -> Result<bool> {
        let last = hashes.len().saturating_sub(1);
        let now = lookup::Source {
            count: hashes.len() as u64,
            salt: hashes.salt,
            first: if hashes.len() > 0 { hashes.get(0)? } else { 0 },
            last: if hashes.len() > 0 { hashes.get(last)? } else { 0 },
        };
        Ok(self.header.check_source(&now).is_ok())
    }

    pub(super) fn is_mapped(&self) -> bool {
        self.source.mapped().is_some()
    }

    /// Fetches all of a remote file, unless it has more bytes than this. Says whether it is at hand.
    pub(super) fn fetch_whole(&self, most: u64) -> Result<bool> {
        if self.source.is_remote() && self.source.len() <= most {
            let read = || Ok(self.source.read(0..self.source.len())?.into_owned());
            get_or_open(&self.whole, read)?;
        }
        Ok(self.whole.get().is_some())
    }

    /// Fetches the slots where the searches for these keys go.
    pub(super) fn fetch_runs(&self, keys: &[&str]) -> Result<()> {
        if self.whole.get().is_some() {
            return Ok(());
        }
        let run = |key: &&str| slot_bytes(&lookup_run(&self.shape, key));
        self.source.fetch(&keys.iter().map(run).collect::<Vec<_>>())
    }

    /// What a search for this hash gives first, if slots are mapped: [`lookup::Shape::first_candidate`].
    #[inline(always)]
    pub(super) fn first_candidate(&self, hash: u64) -> Option<Option<u32>> {
        let slots = self.source.mapped()?.get(lookup::HEADER..)?;
        Some(self.shape.first_candidate(slots, hash))
    }

    #[inline]
    pub(super) fn slot(&self, slot: u64) -> Result<u32> {
        if let Some(bytes) = self.source.mapped().or_else(|| self.whole.get().map(Vec::as_slice)) {
            let slots = bytes.get(lookup::HEADER..).unwrap_or_default();
            return Ok(lookup::slot(slots, slot).unwrap_or(lookup::EMPTY));
        }
        let at = lookup::HEADER as u64 + slot * lookup::SLOT;
        let bytes = self.source.read(at..at + lookup::SLOT)?;
        Ok(lookup::slot(&bytes, 0).unwrap_or(lookup::EMPTY))
    }
}

/// Compares a file with its digest.
pub(super) fn check_digest(source: &Source, expected: Digest, path: &Path) -> Result<()> {
    let mut md5 = Md5::new();
    digest_into(&mut md5, source, 0..source.len())?;
    match md5.finish() == expected {
        true => Ok(()),
        false => Err(Error::new(ErrorKind::Damaged, "the file does not match its MD5").at(path)),
    }
}

fn checksum(source: &Source, range: Range<u64>) -> Result<u32> {
    let mut checksum = crc::checksum(&[]);
    source.scan::<()>(range, 1 << 20, |part, _| {
        checksum = crc::extend(checksum, part);
        None
    })?;
    Ok(checksum)
}

/// Slots that are fetched for a search: hardly ever are that many taken in a row.
const RUN: u64 = 128;

/// The slots where the search for a key begins.
pub(super) fn lookup_run(shape: &lookup::Shape, key: &str) -> Range<u64> {
    let first = shape.home_of(lookup::hash(key.as_bytes()));
    first..shape.slots().min(first + RUN)
}

/// Where slots are in the file.
pub(super) fn slot_bytes(slots: &Range<u64>) -> Range<u64> {
    let at = |slot: u64| lookup::HEADER as u64 + slot * lookup::SLOT;
    at(slots.start)..at(slots.end)
}

/// Bits of a remote filter that are fetched at once: of a key that is absent, half are not set.
const BITS: usize = 4;

/// An open `.filter`.
pub(super) struct Filter {
    params: filter::Params,
    pub(super) source: Source,
    /// Whether it was compared with its digest.
    pub(super) trusted: AtomicBool,
}

impl Filter {
    pub(super) fn open(files: &OpenDataset) -> Result<Option<Filter>> {
        let source = files.side_file(SideFile::Filter)?;
        source.map(|source| Filter::of(source, &files.path, files.len as u64)).transpose()
    }

    /// The filter of a dataset with this many samples.
    fn of(source: Source, data: &Path, samples: u64) -> Result<Filter> {
        let path = SideFile::Filter.path(data);
        let damaged = |e: FormatError| Error::from(e).at(&path);
        let header = source.read(0..source.len().min(filter::HEADER as u64))?;
        let params = filter::Params::parse(&header, source.len()).map_err(damaged)?;
        let expected = filter::Params::for_len(samples);
        if params.elements() != expected.elements() {
            let (expected, found) = (expected.elements(), params.elements());
            let e =
                FormatError::new(16, format!("a filter for {expected} keys"), found.to_string());
            return Err(damaged(e));
        }
        Ok(Filter { params, source, trusted: AtomicBool::new(false) })
    }

    /// The filter of a shard that is not open. `None` if there is no such file.
    pub(super) fn of_shard(
        storage: &dyn Storage,
        data: &Path,
        samples: u64,
    ) -> Result<Option<Filter>> {
        let source = storage.open_if_exists(&SideFile::Filter.path(data))?;
        source.map(|source| Filter::of(source, data, samples)).transpose()
    }

    /// Whether it holds no file descriptor.
    pub(super) fn is_cheap(&self) -> bool {
        self.source.mapped().is_some() || self.source.is_remote()
    }

    /// Compares the filter of a shard with its digest. `false` if `.md5` lacks it, or is about other data.
    pub(super) fn trust_of_shard(
        &self,
        storage: &Arc<dyn Storage>,
        data: &Path,
        md5_of_data: Digest,
    ) -> Result<bool> {
        let path = SideFile::Md5.path(data);
        if storage.stat(&path)?.is_none() {
            return Ok(false);
        }
        let digests = read_digests(storage, &path)?;
        let name = data.file_name().unwrap_or_default().to_string_lossy();
        let digest_of = |suffix: &str| digests.get_of(&name, suffix).copied();
        let expected = digest_of(SideFile::Filter.suffix());
        let (true, Some(expected)) = (digest_of("") == Some(md5_of_data), expected) else {
            return Ok(false);
        };
        check_digest(&self.source, expected, &SideFile::Filter.path(data))?;
        self.trusted.store(true, Relaxed);
        Ok(true)
    }

    #[cold]
    pub(super) fn lacks(&self, files: &OpenDataset, index: usize, key: &str) -> Error {
        let message = "the filter lacks this key";
        Error::new(ErrorKind::Damaged, message)
            .at(SideFile::Filter.path(&files.path))
            .with_index(index as u64)
            .with_key(key)
    }

    #[inline]
    pub(super) fn contains(&self, key: &str) -> Result<bool> {
        let pair = filter::pair(key.as_bytes());
        match self.source.mapped().and_then(|bytes| bytes.get(filter::HEADER..)) {
            Some(body) => Ok(self.params.contains(body, pair)),
            None if self.source.is_remote() => self.contains_remote(pair),
            None => self.params.contains_with(pair, |at| {
                let at = filter::HEADER as u64 + at;
                let byte = self.source.read(at..at + 1)?;
                Ok(byte.first().copied().unwrap_or_default())
            }),
        }
    }

    fn contains_remote(&self, pair: filter::Pair) -> Result<bool> {
        let place = |bit: &u64| {
            let at = filter::HEADER as u64 + (bit >> 3);
            at..at + 1
        };
        let bits: Vec<u64> = self.params.positions(pair).collect();
        for bits in bits.chunks(BITS) {
            self.source.fetch(&bits.iter().map(place).collect::<Vec<_>>())?;
            for bit in bits {
                let byte = self.source.read(place(bit))?;
                if byte.first().is_some_and(|byte| byte & (1 << (bit & 7)) == 0) {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }
}
