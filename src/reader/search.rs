//! From a key to the index of its sample.
//!
//! Three ways, each taken when the one before has cost as much as it would: a search through the
//! mapped hashes, which needs no preparation; a table in memory; and, where there is a `.lookup`
//! file, that instead of both. Whatever finds a hash, the key of the sample decides.
//!
//! A key that is not found is said to be absent only if a second witness agrees: the Bloom filter
//! says so too, or the hashes were compared with their digest, or the list of all keys was read.
//! So a flipped bit or a file of another dataset is an error and never a wrong answer.
//!
//! Nothing here waits for another thread, so a fork at any moment leaves the child with something
//! that works.

use std::borrow::Cow;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;

use md5::{Digest as _, Md5};

use super::dataset::Inner;
use super::table;
use crate::error::{Error, ErrorKind, Result};
use crate::format::FormatError;
use crate::format::dataset::key_hashes::{self, Salt};
use crate::format::dataset::{Digests, SideFile, filter, lookup};
use crate::index;
use crate::storage::Source;

/// What building the table costs, in searches through all hashes: measured, some fifty to seventy
/// at 1, 10 and 100 million keys.
const TABLE_COST: u64 = 50;
/// From how many entries on a search uses all cores: below, starting a thread costs more.
const PARALLEL: usize = 1 << 21;
/// Bytes read at a time where hashes are not mapped.
const STEP: u64 = 1 << 20;

#[derive(Default)]
pub(super) struct Search {
    hashes: OnceLock<Hashes>,
    filter: OnceLock<Option<Filter>>,
    lookup: OnceLock<Option<Lookup>>,
    /// Whether the accelerator was found to be wrong, so that this does without.
    lookup_is_wrong: AtomicBool,
    table: OnceLock<(lookup::Shape, Vec<u32>)>,
    /// Entries passed by searches so far.
    work: AtomicU64,
    building: AtomicBool,
    /// Entries passed because the filter or the hashes are not trusted yet.
    doubt: AtomicU64,
}

impl Search {
    pub(super) fn find(&self, inner: &Inner, key: &str) -> Result<Option<usize>> {
        match self.find_hash(inner, key)? {
            Some(index) => Ok(Some(index)),
            None => self.check_absent(inner, key),
        }
    }

    pub(super) fn contains(&self, inner: &Inner, key: &str) -> Result<bool> {
        if let Some(filter) = self.filter(inner)? {
            if !filter.contains(key).map_err(|e| e.at(SideFile::Filter.path(&inner.path)))? {
                if filter.trusted.load(Relaxed) {
                    return Ok(false);
                }
                return self.doubt_filter(inner, filter, key);
            }
        }
        Ok(self.find(inner, key)?.is_some())
    }

    pub(super) fn prepare(&self, inner: &Inner) -> Result<()> {
        let hashes = self.hashes(inner)?;
        if self.lookup(inner)?.is_none() && self.table.get().is_none() {
            let table = table::build(hashes)?;
            self.table.get_or_init(|| table);
        }
        if let Some(filter) = self.filter(inner)? {
            self.trust_filter(inner, filter)?;
        }
        Ok(())
    }

    /// Looks only at the hashes, and at the samples whose hash is right.
    fn find_hash(&self, inner: &Inner, key: &str) -> Result<Option<usize>> {
        let hashes = self.hashes(inner)?;
        let wanted = key_hashes::hash(&hashes.salt, key.as_bytes());
        if let Some(table) = self.table.get() {
            let (shape, slots) = table;
            let slot = |slot: u64| Ok(slots.get(slot as usize).copied().unwrap_or(lookup::EMPTY));
            return probe(inner, hashes, *shape, slot, wanted, key);
        }
        if let Some(lookup) = self.lookup(inner)? {
            let found = probe(inner, hashes, lookup.shape, |slot| lookup.slot(slot), wanted, key);
            match found {
                // A slot that makes no sense: the file holds nothing that cannot be had without.
                Err(e) if e.kind() == ErrorKind::Damaged && e.path().is_none() => {
                    self.lookup_is_wrong.store(true, Relaxed);
                }
                found => return found.map_err(|e| e.at(SideFile::Lookup.path(&inner.path))),
            }
        }
        self.build_when_due(hashes)?;
        let mut from = 0;
        loop {
            let found = hashes.search(from, wanted).map_err(|e| at_hashes(inner, e))?;
            let passed = found.map_or(hashes.len(), |at| at + 1) - from;
            self.work.fetch_add(passed as u64, Relaxed);
            match found {
                None => return Ok(None),
                Some(at) if inner.has_key(at, key)? => return Ok(Some(at)),
                Some(at) => from = at + 1,
            }
        }
    }

    fn build_when_due(&self, hashes: &Hashes) -> Result<()> {
        let due = self.work.load(Relaxed) > TABLE_COST * hashes.len() as u64;
        if due && !self.building.swap(true, Relaxed) {
            match table::build(hashes) {
                // Nobody has to build it again: that flag stays.
                Ok(table) => drop(self.table.set(table)),
                Err(error) => {
                    self.building.store(false, Relaxed);
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    /// The filter says that a key is absent, but it may be damaged: asks the hashes too.
    fn doubt_filter(&self, inner: &Inner, filter: &Filter, key: &str) -> Result<bool> {
        let before = self.work.load(Relaxed);
        if let Some(index) = self.find_hash(inner, key)? {
            return Err(filter.lacks(inner, index, key));
        }
        // A look-up in the table passes a handful of entries but costs as much as a few hundred.
        let passed = self.work.load(Relaxed).saturating_sub(before).max(1000);
        // A byte of the filter takes MD5 as long as a search takes for some fifteen entries.
        if self.doubt.fetch_add(passed, Relaxed) > filter.source.len() * 15 {
            self.doubt.store(0, Relaxed);
            self.trust_filter(inner, filter)?;
        }
        Ok(false)
    }

    /// The hashes say that a key is absent, but they may be damaged; or the accelerator says so,
    /// which may be that of another dataset: then the index is found here.
    fn check_absent(&self, inner: &Inner, key: &str) -> Result<Option<usize>> {
        let hashes = self.hashes(inner)?;
        if let Some(filter) = self.filter(inner)? {
            if !filter.contains(key).map_err(|e| e.at(SideFile::Filter.path(&inner.path)))? {
                return Ok(None);
            }
        }
        // The filter is wrong about one absent key in as many as there are samples, so what follows
        // is rare; without a filter it is not, and the digest has to say that the hashes are right.
        if self.table.get().is_none() && self.lookup(inner)?.is_some() {
            if let Some(index) = search_all(inner, hashes, key)? {
                self.lookup_is_wrong.store(true, Relaxed);
                return Ok(Some(index));
            }
        }
        if hashes.trusted.load(Relaxed) {
            return Ok(None);
        }
        let Some(bytes) = inner.key_list()? else {
            self.trust_hashes(inner, hashes)?;
            return match hashes.trusted.load(Relaxed) {
                true => Ok(None),
                // No other file can tell, so the samples have to.
                false => {
                    for index in 0..inner.len {
                        if inner.has_key(index, key)? {
                            return Err(self.lacks(inner, hashes, index, key));
                        }
                    }
                    Ok(None)
                }
            };
        };
        for (index, listed) in inner.listed_keys(&bytes)?.enumerate() {
            if listed.map_err(|e| inner.damaged_keys(e))? == key {
                return Err(self.lacks(inner, hashes, index, key));
            }
        }
        let passed = self.doubt.fetch_add(inner.len as u64 * 20, Relaxed);
        if passed > inner.len as u64 * 150 {
            self.doubt.store(0, Relaxed);
            self.trust_hashes(inner, hashes)?;
        }
        Ok(None)
    }

    /// A key that is there by the list, or by the samples, but was not found by its hash.
    #[cold]
    fn lacks(&self, inner: &Inner, hashes: &Hashes, index: usize, key: &str) -> Error {
        let wanted = key_hashes::hash(&hashes.salt, key.as_bytes());
        let error = match hashes.get(index) {
            // The hash led here, but the sample has another key.
            Ok(hash) if hash == wanted => {
                let message = "expected a sample with this key, found another one";
                Error::new(ErrorKind::Damaged, message).at(&inner.path)
            }
            _ => {
                let message = "the hashes lack this key";
                let path = SideFile::KeyHashes.path(&inner.path);
                Error::new(ErrorKind::Damaged, message).at(path)
            }
        };
        error.with_index(index as u64).with_key(key)
    }

    fn trust_hashes(&self, inner: &Inner, hashes: &Hashes) -> Result<()> {
        if let (HashBytes::File(source), false) = (&hashes.bytes, hashes.trusted.load(Relaxed)) {
            hashes.trusted.store(self.has_its_digest(inner, SideFile::KeyHashes, source)?, Relaxed);
        }
        Ok(())
    }

    fn trust_filter(&self, inner: &Inner, filter: &Filter) -> Result<()> {
        if filter.trusted.load(Relaxed) {
            return Ok(());
        }
        // Filter and digests may both be of another dataset: some of the keys tell.
        for index in (0..inner.len).step_by(inner.len / 32 + 1) {
            // A sample that cannot be read is another matter.
            let Ok(key) = inner.key(index) else { continue };
            if !filter.contains(&key)? {
                return Err(filter.lacks(inner, index, &key));
            }
        }
        filter
            .trusted
            .store(self.has_its_digest(inner, SideFile::Filter, &filter.source)?, Relaxed);
        Ok(())
    }

    /// Compares a file with its digest. `false` where there is none.
    fn has_its_digest(&self, inner: &Inner, file: SideFile, source: &Source) -> Result<bool> {
        let path = file.path(&inner.path);
        let Some(digests) = inner.side_file(SideFile::Md5)? else { return Ok(false) };
        let md5_path = SideFile::Md5.path(&inner.path);
        let text = digests.read(0..digests.len())?;
        let digests = Digests::parse(&text).map_err(|e| Error::from(e).at(&md5_path))?;
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let Some(expected) = digests.get(&name).copied() else { return Ok(false) };
        let mut md5 = Md5::new();
        index::digest_into(&mut md5, source, 0..source.len())?;
        if <[u8; 16]>::from(md5.finalize()) != expected {
            let message = "the file does not match its MD5";
            return Err(Error::new(ErrorKind::Damaged, message).at(path));
        }
        Ok(true)
    }

    fn hashes(&self, inner: &Inner) -> Result<&Hashes> {
        match self.hashes.get() {
            Some(hashes) => Ok(hashes),
            None => {
                let hashes = Hashes::open(inner)?;
                Ok(self.hashes.get_or_init(|| hashes))
            }
        }
    }

    fn filter(&self, inner: &Inner) -> Result<Option<&Filter>> {
        match self.filter.get() {
            Some(filter) => Ok(filter.as_ref()),
            None => {
                let filter = Filter::open(inner)?;
                Ok(self.filter.get_or_init(|| filter).as_ref())
            }
        }
    }

    fn lookup(&self, inner: &Inner) -> Result<Option<&Lookup>> {
        if self.lookup_is_wrong.load(Relaxed) {
            return Ok(None);
        }
        match self.lookup.get() {
            Some(lookup) => Ok(lookup.as_ref()),
            None => {
                let lookup = Lookup::open(inner, self.hashes(inner)?)?;
                Ok(self.lookup.get_or_init(|| lookup).as_ref())
            }
        }
    }
}

/// The sample with this key, by a search through all hashes.
#[cold]
fn search_all(inner: &Inner, hashes: &Hashes, key: &str) -> Result<Option<usize>> {
    let wanted = key_hashes::hash(&hashes.salt, key.as_bytes());
    let mut from = 0;
    while let Some(at) = hashes.search(from, wanted).map_err(|e| at_hashes(inner, e))? {
        if inner.has_key(at, key)? {
            return Ok(Some(at));
        }
        from = at + 1;
    }
    Ok(None)
}

/// Goes through the samples whose hash is the wanted one, until one has the key.
#[inline]
fn probe(
    inner: &Inner,
    hashes: &Hashes,
    shape: lookup::Shape,
    slot: impl Fn(u64) -> Result<u32>,
    wanted: u64,
    key: &str,
) -> Result<Option<usize>> {
    let mut candidates = shape.probe(wanted);
    let hash = |index: u32| hashes.get(index as usize).map_err(|e| at_hashes(inner, e));
    while let Some(index) = candidates.next_candidate(&slot, hash)? {
        if inner.has_key(index as usize, key)? {
            return Ok(Some(index as usize));
        }
    }
    Ok(None)
}

/// The hashes of all keys, from `.key_hashes` or made from the keys.
pub(super) struct Hashes {
    salt: Salt,
    len: usize,
    bytes: HashBytes,
    trusted: AtomicBool,
}

enum HashBytes {
    File(Source),
    Made(Vec<u8>),
}

/// The bytes of `.key_hashes` before the first hash.
const SALT: u64 = 8;

impl Hashes {
    fn open(inner: &Inner) -> Result<Hashes> {
        let Some(file) = inner.side_file(SideFile::KeyHashes)? else {
            return Hashes::make(inner);
        };
        let path = SideFile::KeyHashes.path(&inner.path);
        let damaged = |e: FormatError| Error::from(e).at(&path);
        let count = key_hashes::count(file.len()).map_err(damaged)?;
        if count != inner.len as u64 {
            let e = FormatError::new(SALT, format!("{} hashes", inner.len), count.to_string());
            return Err(damaged(e));
        }
        let salt = file.read(0..SALT)?;
        let salt = Salt(<[u8; 8]>::try_from(&*salt).unwrap_or_default());
        let trusted = AtomicBool::new(false);
        let hashes = Hashes { salt, len: inner.len, bytes: HashBytes::File(file), trusted };
        // A wrong salt would make every key absent: one key of the dataset tells.
        if inner.len > 0 {
            let key = inner.key(0)?;
            let (expected, found) = (key_hashes::hash(&salt, key.as_bytes()), hashes.get(0)?);
            if expected != found {
                let expected = format!("{expected:016x}, the hash of {key:?}");
                return Err(damaged(FormatError::new(SALT, expected, format!("{found:016x}"))));
            }
        }
        Ok(hashes)
    }

    /// There is no such file: hashes the keys.
    fn make(inner: &Inner) -> Result<Hashes> {
        let salt = Salt::of_try(0);
        let mut bytes = Vec::with_capacity(inner.len * 8);
        let mut batch: Vec<Cow<'_, str>> = Vec::new();
        let mut hashes = Vec::new();
        for start in (0..inner.len).step_by(4096) {
            batch.clear();
            for index in start..inner.len.min(start + 4096) {
                batch.push(inner.key(index)?);
            }
            let keys: Vec<&[u8]> = batch.iter().map(|key| key.as_bytes()).collect();
            hashes.resize(keys.len(), 0);
            key_hashes::hash_many(&salt, &keys, &mut hashes);
            hashes.iter().for_each(|hash| bytes.extend_from_slice(&hash.to_be_bytes()));
        }
        // Made just now from the keys themselves: nothing to doubt.
        let trusted = AtomicBool::new(true);
        Ok(Hashes { salt, len: inner.len, bytes: HashBytes::Made(bytes), trusted })
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    #[inline]
    fn get(&self, index: usize) -> Result<u64> {
        let at = index * 8;
        let whole = |bytes: &[u8]| bytes.try_into().map(u64::from_be_bytes).unwrap_or_default();
        match &self.bytes {
            HashBytes::Made(bytes) => Ok(bytes.get(at..at + 8).map_or(0, whole)),
            HashBytes::File(Source::Mapped(map)) => {
                let at = at + SALT as usize;
                Ok(map.bytes().get(at..at + 8).map_or(0, whole))
            }
            HashBytes::File(file) => {
                let at = at as u64 + SALT;
                Ok(whole(&file.read(at..at + 8)?))
            }
        }
    }

    /// Calls `with` on all hashes from `from` on, in parts with the index of their first, until
    /// it says `Some`.
    fn scan_from<T>(
        &self,
        from: usize,
        mut with: impl FnMut(usize, &[u8]) -> Option<T>,
    ) -> Result<Option<T>> {
        match &self.bytes {
            HashBytes::Made(bytes) => Ok(with(from, &bytes[from * 8..])),
            HashBytes::File(file) => {
                let range = SALT + from as u64 * 8..SALT + self.len as u64 * 8;
                let part = |bytes: &[u8], at: u64| with(((at - SALT) / 8) as usize, bytes);
                file.scan(range, STEP, part)
            }
        }
    }

    pub(super) fn scan<T>(&self, with: impl FnMut(usize, &[u8]) -> Option<T>) -> Result<Option<T>> {
        self.scan_from(0, with)
    }

    /// The first index from `from` on with this hash.
    fn search(&self, from: usize, wanted: u64) -> Result<Option<usize>> {
        self.scan_from(from, |first, bytes| {
            let found = if bytes.len() / 8 >= PARALLEL {
                search_parallel(bytes, wanted)
            } else {
                key_hashes::search(bytes, wanted)
            };
            found.map(|at| first + at)
        })
    }
}

#[cold]
fn at_hashes(inner: &Inner, error: Error) -> Error {
    error.at(SideFile::KeyHashes.path(&inner.path))
}

/// A search on all cores. What it gains is mostly page faults side by side.
fn search_parallel(bytes: &[u8], wanted: u64) -> Option<usize> {
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let per_thread = (bytes.len() / 8).div_ceil(threads);
    thread::scope(|scope| {
        let parts = bytes.chunks(per_thread * 8).enumerate();
        let start = |(i, part)| {
            let search = move || key_hashes::search(part, wanted).map(|at| i * per_thread + at);
            scope.spawn(search)
        };
        let workers: Vec<_> = parts.map(start).collect();
        let join = |worker: thread::ScopedJoinHandle<'_, _>| {
            worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        workers.into_iter().filter_map(join).min()
    })
}

/// An open `.lookup` that was made from these hashes.
struct Lookup {
    shape: lookup::Shape,
    source: Source,
}

impl Lookup {
    fn open(inner: &Inner, hashes: &Hashes) -> Result<Option<Lookup>> {
        let Some(source) = inner.side_file(SideFile::Lookup)? else { return Ok(None) };
        let header = source.read(0..source.len().min(lookup::HEADER as u64))?;
        // Damaged, or of another dataset, as after Python rewrote this one: all that is in it can
        // be had without it, and verifying tells.
        let Ok(header) = lookup::Header::parse(&header, source.len()) else { return Ok(None) };
        let last = hashes.len().saturating_sub(1);
        let now = lookup::Source {
            count: hashes.len() as u64,
            salt: hashes.salt,
            first: if hashes.len() > 0 { hashes.get(0)? } else { 0 },
            last: if hashes.len() > 0 { hashes.get(last)? } else { 0 },
        };
        if header.check_source(&now).is_err() {
            return Ok(None);
        }
        Ok(Some(Lookup { shape: header.shape(), source }))
    }

    #[inline]
    fn slot(&self, slot: u64) -> Result<u32> {
        let at = lookup::HEADER as u64 + slot * lookup::SLOT;
        let bytes = self.source.read(at..at + lookup::SLOT)?;
        Ok(lookup::slot(&bytes, 0).unwrap_or(lookup::EMPTY))
    }
}

/// An open `.filter`.
struct Filter {
    params: filter::Params,
    source: Source,
    trusted: AtomicBool,
}

impl Filter {
    fn open(inner: &Inner) -> Result<Option<Filter>> {
        let path = SideFile::Filter.path(&inner.path);
        let Some(source) = inner.side_file(SideFile::Filter)? else { return Ok(None) };
        let damaged = |e: FormatError| Error::from(e).at(&path);
        let header = source.read(0..source.len().min(filter::HEADER as u64))?;
        let params = filter::Params::parse(&header, source.len()).map_err(damaged)?;
        let expected = filter::Params::for_len(inner.len as u64);
        if params.elements() != expected.elements() {
            let (expected, found) = (expected.elements(), params.elements());
            let e =
                FormatError::new(16, format!("a filter for {expected} keys"), found.to_string());
            return Err(damaged(e));
        }
        Ok(Some(Filter { params, source, trusted: AtomicBool::new(false) }))
    }

    #[cold]
    fn lacks(&self, inner: &Inner, index: usize, key: &str) -> Error {
        let message = "the filter lacks this key";
        Error::new(ErrorKind::Damaged, message)
            .at(SideFile::Filter.path(&inner.path))
            .with_index(index as u64)
            .with_key(key)
    }

    #[inline]
    fn contains(&self, key: &str) -> Result<bool> {
        let pair = filter::pair(key.as_bytes());
        match self.source.mapped().and_then(|bytes| bytes.get(filter::HEADER..)) {
            Some(body) => Ok(self.params.contains(body, pair)),
            None => self.params.contains_with(pair, |at| {
                let at = filter::HEADER as u64 + at;
                let byte = self.source.read(at..at + 1);
                let byte = byte.map_err(|e| {
                    Error::new(ErrorKind::Io, format!("the filter cannot be read: {e}"))
                })?;
                Ok(byte.first().copied().unwrap_or_default())
            }),
        }
    }
}
