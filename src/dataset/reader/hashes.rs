//! The hashes of all keys, and the search through them.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::OnceLock;
use std::sync::atomic::AtomicBool;
use std::thread;

use crate::error::{Error, ErrorKind, Result};
use crate::format::FormatError;
use crate::format::dataset::SideFile;
use crate::format::dataset::key_hashes::{self, Salt};
use crate::storage::Source;

use super::once::get_or_open;
use super::open::OpenDataset;

/// From how many entries on a search uses all cores: below, starting a thread costs more.
const PARALLEL: usize = 1 << 21;
/// Up to which size a remote file is fetched whole: 128 million hashes.
const WHOLE: u64 = 1 << 30;
/// Bytes read at a time where hashes are not mapped.
const STEP: u64 = 1 << 20;
/// Hashes made numbers at a time.
const NUMBERS: usize = 4096;

/// The key that is looked for, and its hash with the salt of the dataset.
#[derive(Clone, Copy)]
pub(super) struct Wanted<'a> {
    pub(super) key: &'a str,
    pub(super) hash: u64,
}

impl<'a> Wanted<'a> {
    pub(super) fn new(hashes: &Hashes, key: &'a str) -> Wanted<'a> {
        Wanted { key, hash: hashes.hash(key) }
    }
}

/// The hashes of all keys, from `.key_hashes` or made from the keys.
pub(super) struct Hashes {
    pub(super) salt: Salt,
    len: usize,
    bytes: HashBytes,
    /// Whether they were compared with their digest, or made just now.
    pub(super) trusted: AtomicBool,
}

enum HashBytes {
    File(Source),
    /// A file whose reads are round trips: fetched whole when they are searched.
    Remote(Source, OnceLock<Vec<u8>>),
    Made(Vec<u8>),
}

/// The bytes of `.key_hashes` before the first hash.
const SALT: u64 = 8;

impl Hashes {
    pub(super) fn open(files: &OpenDataset) -> Result<Hashes> {
        let Some(file) = files.side_file(SideFile::KeyHashes)? else {
            return Hashes::make(files);
        };
        let path = SideFile::KeyHashes.path(&files.path);
        let damaged = |e: FormatError| Error::from(e).at(&path);
        let count = key_hashes::count(file.len()).map_err(damaged)?;
        if count != files.len as u64 {
            let e = FormatError::new(SALT, format!("{} hashes", files.len), count.to_string());
            return Err(damaged(e));
        }
        let salt = file.read(0..SALT)?;
        let salt = Salt(<[u8; 8]>::try_from(&*salt).unwrap_or_default());
        let trusted = AtomicBool::new(false);
        let bytes = match file.is_remote() {
            true => HashBytes::Remote(file, OnceLock::new()),
            false => HashBytes::File(file),
        };
        let hashes = Hashes { salt, len: files.len, bytes, trusted };
        // A wrong salt would make every key absent: one key of the dataset tells.
        if files.len > 0 {
            let found = hashes.get(0)?;
            let is_right = |key: &str| key_hashes::hash(&salt, key.as_bytes()) == found;
            if files.data.is_remote() && files.seems(0, is_right)? {
                return Ok(hashes);
            }
            let key = files.key(0)?;
            let expected = key_hashes::hash(&salt, key.as_bytes());
            if expected != found {
                let expected = format!("{expected:016x}, the hash of {key:?}");
                return Err(damaged(FormatError::new(SALT, expected, format!("{found:016x}"))));
            }
        }
        Ok(hashes)
    }

    /// There is no such file: hashes the keys.
    fn make(files: &OpenDataset) -> Result<Hashes> {
        let salt = Salt::of_try(0);
        let mut bytes = Vec::with_capacity(files.len * 8);
        let mut batch: Vec<Cow<'_, str>> = Vec::new();
        let mut hashes = Vec::new();
        for start in (0..files.len).step_by(4096) {
            batch.clear();
            for index in start..files.len.min(start + 4096) {
                batch.push(files.key(index)?);
            }
            let keys: Vec<&[u8]> = batch.iter().map(|key| key.as_bytes()).collect();
            hashes.resize(keys.len(), 0);
            key_hashes::hash_many(&salt, &keys, &mut hashes);
            hashes.iter().for_each(|hash| bytes.extend_from_slice(&hash.to_be_bytes()));
        }
        // Made just now from the keys themselves: nothing to doubt.
        let trusted = AtomicBool::new(true);
        Ok(Hashes { salt, len: files.len, bytes: HashBytes::Made(bytes), trusted })
    }

    /// The file they are in, unless they were made.
    pub(super) fn file(&self) -> Option<&Source> {
        match &self.bytes {
            HashBytes::File(source) | HashBytes::Remote(source, _) => Some(source),
            HashBytes::Made(_) => None,
        }
    }

    /// The hash of a key.
    pub(super) fn hash(&self, key: &str) -> u64 {
        key_hashes::hash(&self.salt, key.as_bytes())
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// All hashes of a remote file, fetched once.
    fn whole<'a>(&self, file: &Source, all: &'a OnceLock<Vec<u8>>) -> Result<&'a [u8]> {
        if all.get().is_none() && file.len() > WHOLE {
            let message = format!("expected at most {WHOLE} bytes to search, found {}", file.len());
            let error = Error::new(ErrorKind::Limit, message).at(file.path());
            return Err(error.advise("a .lookup next to the dataset answers without this file"));
        }
        let read = || Ok(file.read(SALT..SALT + self.len as u64 * 8)?.into_owned());
        get_or_open(all, read).map(Vec::as_slice)
    }

    /// Fetches all hashes of a remote file, unless they take more bytes than this.
    pub(super) fn fetch_whole(&self, most: u64) -> Result<()> {
        match &self.bytes {
            HashBytes::Remote(file, all) if file.len() <= most => self.whole(file, all).map(drop),
            _ => Ok(()),
        }
    }

    #[inline]
    pub(super) fn get(&self, index: usize) -> Result<u64> {
        let at = index * 8;
        let whole = |bytes: &[u8]| bytes.try_into().map(u64::from_be_bytes).unwrap_or_default();
        match &self.bytes {
            HashBytes::Made(bytes) => Ok(bytes.get(at..at + 8).map_or(0, whole)),
            HashBytes::File(Source::Mapped(map)) => {
                let at = at + SALT as usize;
                Ok(map.bytes().get(at..at + 8).map_or(0, whole))
            }
            HashBytes::Remote(_, all) if all.get().is_some() => {
                Ok(all.get().and_then(|all| all.get(at..at + 8)).map_or(0, whole))
            }
            HashBytes::File(file) | HashBytes::Remote(file, _) => {
                let at = at as u64 + SALT;
                Ok(whole(&file.read(at..at + 8)?))
            }
        }
    }

    /// Calls `with` on the hashes of these samples, in parts with the index of their first, until it says `Some`.
    fn scan_some<T>(
        &self,
        samples: Range<usize>,
        mut with: impl FnMut(usize, &[u8]) -> Option<T>,
    ) -> Result<Option<T>> {
        let Range { start, end } = samples;
        match &self.bytes {
            HashBytes::Made(all) => Ok(with(start, &all[start * 8..end * 8])),
            HashBytes::Remote(file, all) => {
                let all = self.whole(file, all)?;
                Ok(with(start, &all[start * 8..end * 8]))
            }
            HashBytes::File(file) => {
                let range = SALT + start as u64 * 8..SALT + end as u64 * 8;
                let part = |bytes: &[u8], at: u64| with(((at - SALT) / 8) as usize, bytes);
                file.scan(range, STEP, part)
            }
        }
    }

    /// The same for all samples.
    pub(super) fn scan<T>(&self, with: impl FnMut(usize, &[u8]) -> Option<T>) -> Result<Option<T>> {
        self.scan_some(0..self.len, with)
    }

    /// Calls `with` on the hashes of these samples as numbers, in parts with the index of their first.
    pub(super) fn scan_numbers(
        &self,
        samples: Range<usize>,
        mut with: impl FnMut(usize, &[u64]),
    ) -> Result<()> {
        let mut numbers = Vec::with_capacity(NUMBERS);
        let scanned = self.scan_some(samples, |first, bytes| {
            for (i, bytes) in bytes.chunks(8 * NUMBERS).enumerate() {
                numbers.clear();
                numbers.extend(key_hashes::entries(bytes));
                with(first + i * NUMBERS, &numbers);
            }
            None::<()>
        });
        scanned.map(drop)
    }

    /// The first index from `from` on with this hash.
    pub(super) fn search(&self, from: usize, wanted: u64) -> Result<Option<usize>> {
        self.scan_some(from..self.len, |first, bytes| {
            let found = if bytes.len() / 8 >= PARALLEL {
                search_parallel(bytes, wanted)
            } else {
                key_hashes::search(bytes, wanted)
            };
            found.map(|at| first + at)
        })
    }

    /// The sample of this index has the wanted hash and another key: two keys may have one hash, but if this one has
    /// another, it is damaged, and was the wanted one.
    #[cold]
    pub(super) fn refuse_damaged(
        &self,
        files: &OpenDataset,
        index: usize,
        wanted: Wanted<'_>,
    ) -> Result<()> {
        let own = files.key(index)?;
        match self.hash(&own) == wanted.hash {
            true => Ok(()),
            false => Err(self.lacks(files, index, wanted)),
        }
    }

    /// A key that is there by the list, or by the samples, but was not found by its hash.
    #[cold]
    pub(super) fn lacks(&self, files: &OpenDataset, index: usize, wanted: Wanted<'_>) -> Error {
        let error = match self.get(index) {
            // The hash led here, but the sample has another key.
            Ok(hash) if hash == wanted.hash => {
                let message = "expected a sample with this key, found another one";
                Error::new(ErrorKind::Damaged, message).at(&files.path)
            }
            _ => {
                let path = SideFile::KeyHashes.path(&files.path);
                Error::new(ErrorKind::Damaged, "the hashes lack this key").at(path)
            }
        };
        error.with_index(index as u64).with_key(wanted.key)
    }
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
