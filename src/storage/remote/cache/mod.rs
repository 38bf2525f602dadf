//! Fetched bytes on a local disk: bounded, shared by processes, and verified before use.
//!
//! A directory of files without any order among them. A process appends what it fetched to files of its
//! own, each of which belongs to one version of one object (`record` says what is in them); every process
//! reads all. Nothing is ever changed in place, so there is nothing to agree on but room:
//!
//! * A file gets its full size when it is created, under the lock of the directory, after others have
//!   made room for it. So the sum of all sizes is at most the limit at every moment, also while files fill,
//!   and however many processes there are.
//! * A file is locked by the process that appends to it, and only files without a lock are removed.
//!   The lock of a process that was killed ends with it; what it had written remains of use, and the rest
//!   of its file is not read.
//! * What is not what was written, by its digest, is fetched.
//!
//! **Which files make room.** Those that were not used for the longest time. But a loader reads all
//! samples before it reads one again, so what it has just read it needs last: it removes files of other
//! objects, and if there are none, what it has cached of this one stays and the new bytes are not cached.
//! Removing the oldest would leave nothing for the next epoch wherever the cache is smaller than the data.
//!
//! No error of a disk is one of reading: the first is kept for [`cache_trouble`], and nothing more is written.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use super::super::owned::{expect_ours_if_linked, make_ours};
use super::super::replace::random;
use super::super::{LocalStorage, Lock, Storage};
use super::per_process::PerProcess;
use crate::error::{Error, ErrorKind, Result};

mod record;
mod extents;

use extents::{Extents, Segment};
use record::{BLOCK, Header, LONGEST, MOST, header_len};

pub(super) use extents::{Piece, Record};
pub(super) use record::Object;

/// The smallest limit that makes sense.
const LEAST: u64 = 1 << 20;
/// For how many files a cache has room, at least, and the largest.
const FILES: u64 = 64;
const LARGEST: u64 = 32 << 20;
/// The extension of cache files.
const ENDING: &str = ".seg";
/// Guards the creation and removal of files.
const LOCK: &str = "lock";
/// Tells programs that make backups that this is a cache.
const TAG: &str = "CACHEDIR.TAG";
const TAG_TEXT: &str = "Signature: 8a477f597d28d172789f06886806bc55\n\
    # This directory is a cache of kiste: https://bford.info/cachedir/\n";

/// How long a process waits for the lock, and how often it looks.
const PATIENCE: Duration = Duration::from_millis(500);
const LISTEN: Duration = Duration::from_millis(2);
/// How often the directory is read for what other processes have cached, at most.
const LISTING: Duration = Duration::from_secs(2);
/// For how long nothing is cached after there was no room.
const FULL: Duration = Duration::from_secs(5);
/// How exactly the time of the last use of a file is known.
const TOUCH: Duration = Duration::from_secs(30);
/// Files that a process appends to, at most.
const WRITERS: usize = 32;

/// Bytes of remote reads, kept on a local disk and shared by all processes that name the directory.
///
/// Readers use it by [`RemoteOptions::cache`](super::RemoteOptions::cache) or the environment variable
/// `KISTE_CACHE`; this type looks at it and empties it.
///
/// ```
/// use kiste::storage::Cache;
///
/// # let dir = tempfile::tempdir()?;
/// let cache = Cache::open(dir.path(), 10 << 30)?;
/// assert_eq!(cache.usage()?.bytes, 0);
/// cache.clear()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Cache {
    shared: Arc<Shared>,
}

/// The content of a [`Cache`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct CacheUsage {
    /// Bytes of its files, at most the limit.
    pub bytes: u64,
    /// Files.
    pub files: u64,
    /// Remote files with bytes in the cache.
    pub objects: u64,
}

struct Shared {
    dir: PathBuf,
    limit: u64,
    state: PerProcess<Mutex<State>>,
}

#[derive(Default)]
struct State {
    known: HashMap<Object, Known>,
    /// The one that was used last comes last.
    writers: Vec<Writer>,
    /// The files of each object, as of this moment.
    listing: Option<(Instant, HashMap<Object, Vec<String>>)>,
    full_since: Option<Instant>,
    /// Until when a file counts as used just now.
    touched: HashMap<String, Instant>,
    is_broken: bool,
}

/// The cached state of an object.
#[derive(Default)]
struct Known {
    extents: Extents,
    /// Up to where each file was read.
    read: HashMap<String, (Arc<Segment>, u64)>,
    listed: Option<Instant>,
}

/// A file that is appended to.
struct Writer {
    object: Object,
    segment: Arc<Segment>,
    file: File,
    position: u64,
    size: u64,
    process: u32,
    _lock: Lock,
}

impl Drop for Writer {
    fn drop(&mut self) {
        // In a child it is the file of its parent.
        if self.process == process::id() {
            // Truncates the file to its contents. If that fails, the unused room counts until the
            // file is removed.
            let _ = self.file.set_len(self.position);
        }
    }
}

/// The caches of this process, which readers of one directory share.
static OPEN: PerProcess<Mutex<Vec<Weak<Shared>>>> = PerProcess::new();
/// The first error of a cache in this process.
static TROUBLE: OnceLock<String> = OnceLock::new();

/// The first error of a cache on disk that this process uses. Reads continue without it.
pub fn cache_trouble() -> Option<&'static str> {
    TROUBLE.get().map(String::as_str)
}

impl Cache {
    /// The cache in this directory, which is created when there is something to put in. Its files have at
    /// most `limit` bytes together; of several processes with different limits each keeps to its own when
    /// it adds something.
    ///
    /// # Errors
    ///
    /// [`Invalid`](ErrorKind::Invalid) if the limit is less than 1 MiB.
    pub fn open(dir: impl AsRef<Path>, limit: u64) -> Result<Cache> {
        let dir = dir.as_ref();
        if limit < LEAST {
            let message = format!("expected a cache of at least {LEAST} bytes, found {limit}");
            return Err(Error::new(ErrorKind::Invalid, message).at(dir));
        }
        let mut open = lock(OPEN.get(Mutex::default));
        open.retain(|shared| shared.strong_count() > 0);
        let same = |shared: &Arc<Shared>| shared.dir == dir && shared.limit == limit;
        if let Some(shared) = open.iter().filter_map(Weak::upgrade).find(same) {
            return Ok(Cache { shared });
        }
        let state = PerProcess::new();
        let shared = Arc::new(Shared { dir: dir.to_path_buf(), limit, state });
        open.push(Arc::downgrade(&shared));
        Ok(Cache { shared })
    }

    /// Where it is.
    pub fn dir(&self) -> &Path {
        &self.shared.dir
    }

    /// The most bytes that its files may have.
    pub fn limit(&self) -> u64 {
        self.shared.limit
    }

    /// The contents of the cache. A directory that does not exist is empty.
    pub fn usage(&self) -> Result<CacheUsage> {
        let mut usage = CacheUsage::default();
        let mut objects = Vec::new();
        for entry in self.shared.entries()? {
            if let Some(object) = object_of(&entry.name) {
                usage.bytes += entry.len;
                usage.files += 1;
                objects.push(object);
            }
        }
        objects.sort_unstable();
        objects.dedup();
        usage.objects = objects.len() as u64;
        Ok(usage)
    }

    /// Removes all files that no process appends to, and says what is left.
    pub fn clear(&self) -> Result<CacheUsage> {
        // Files that this process appends to are finished.
        *self.shared.state() = State::default();
        if self.shared.entries()?.is_empty() {
            return Ok(CacheUsage::default());
        }
        let Some(_lock) = self.shared.lock()? else {
            let message = "another process is changing the cache";
            return Err(Error::new(ErrorKind::Locked, message).at(&self.shared.dir));
        };
        for entry in self.shared.entries()? {
            if object_of(&entry.name).is_some() {
                self.shared.remove(&entry.name)?;
            }
        }
        self.usage()
    }

    /// Which of these bytes are cached, and where.
    pub(super) fn plan(&self, object: &Object, range: &Range<u64>) -> Vec<Piece> {
        let mut state = self.shared.state();
        let is_missing = |piece: &Piece| matches!(piece, Piece::Missing(_));
        let pieces = state.known.entry(*object).or_default().extents.plan(range);
        if !pieces.iter().any(is_missing) || !self.shared.refresh(&mut state, object) {
            return pieces;
        }
        state.known.entry(*object).or_default().extents.plan(range)
    }

    /// These bytes of a record, if they are what was written.
    pub(super) fn read(
        &self,
        object: &Object,
        record: &Record,
        range: &Range<u64>,
    ) -> Option<Vec<u8>> {
        let path = self.shared.dir.join(&record.segment.name);
        let bytes = read_record(&path, object, record, range);
        let mut state = self.shared.state();
        match &bytes {
            Some(_) => self.shared.touch(&mut state, &record.segment.name),
            None => {
                let extents = &mut state.known.entry(*object).or_default().extents;
                match path.exists() {
                    true => extents.forget(record),
                    // It made room for another one.
                    false => extents.forget_segment(&record.segment),
                }
            }
        }
        bytes
    }

    /// Keeps these bytes of an object of `len` bytes, if there is room. `in_order` if they are needed last
    /// of all its bytes.
    pub(super) fn store(&self, object: &Object, len: u64, at: u64, bytes: &[u8], in_order: bool) {
        let size = self.shared.file_size();
        let most = MOST.min(size - header_len(MOST)) / BLOCK * BLOCK;
        for (number, part) in bytes.chunks(most as usize).enumerate() {
            let at = at + number as u64 * most;
            let mut state = self.shared.state();
            if state.is_broken || state.full_since.is_some_and(|since| since.elapsed() < FULL) {
                return;
            }
            drop(state);
            let header = Header::of(*object, at, part).encode();
            state = self.shared.state();
            match self.shared.append(&mut state, object, len, &header, at, part, in_order) {
                Ok(true) => {}
                Ok(false) => state.full_since = Some(Instant::now()),
                Err(error) => {
                    state.is_broken = true;
                    state.writers.clear();
                    let _ = TROUBLE.set(error.to_string());
                }
            }
        }
    }
}

impl std::fmt::Debug for Cache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Cache({}, {} bytes)", self.shared.dir.display(), self.shared.limit)
    }
}

/// A file of the directory.
struct Entry {
    name: String,
    len: u64,
    used: SystemTime,
}

impl Shared {
    /// Held while the index is looked at or a record is appended, never while something is fetched.
    fn state(&self) -> MutexGuard<'_, State> {
        lock(self.state.get(Mutex::default))
    }

    /// The size of a file when it is created.
    fn file_size(&self) -> u64 {
        (self.limit / FILES).clamp(BLOCK + LONGEST as u64, LARGEST).next_multiple_of(4096)
    }

    /// All files, including those that other processes wrote.
    fn entries(&self) -> Result<Vec<Entry>> {
        if !expect_ours_if_linked(&self.dir)? {
            return Ok(Vec::new());
        }
        let entries = fs::read_dir(&self.dir).map_err(|e| Error::io(&self.dir, e))?;
        let mut files = Vec::new();
        for entry in entries {
            let entry = entry.map_err(|e| Error::io(&self.dir, e))?;
            // Another process may have removed it since.
            let Ok(metadata) = entry.metadata() else { continue };
            if metadata.is_file() {
                let name = entry.file_name().to_string_lossy().into_owned();
                let used = metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH);
                files.push(Entry { name, len: metadata.len(), used });
            }
        }
        Ok(files)
    }

    /// The lock of the directory; `None` if others hold it for too long.
    fn lock(&self) -> Result<Option<Lock>> {
        let begin = Instant::now();
        loop {
            match LocalStorage::positioned().lock(&self.dir.join(LOCK))? {
                Some(lock) => return Ok(Some(lock)),
                None if begin.elapsed() > PATIENCE => return Ok(None),
                None => thread::sleep(LISTEN),
            }
        }
    }

    /// Removes a file, unless a process appends to it: whether it is gone.
    fn remove(&self, name: &str) -> Result<bool> {
        let path = self.dir.join(name);
        match LocalStorage::positioned().lock_file(&path) {
            Ok(None) => Ok(false),
            Ok(Some(_lock)) => match fs::remove_file(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    Err(Error::io(&path, error))
                }
                _ => Ok(true),
            },
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(true),
            Err(error) => Err(error),
        }
    }

    /// Notes that a file was used.
    fn touch(&self, state: &mut State, name: &str) {
        let is_new = state.touched.get(name).is_some_and(|at| at.elapsed() < TOUCH);
        if !is_new {
            state.touched.insert(name.to_owned(), Instant::now());
            // Otherwise it counts as older than it is.
            let file = OpenOptions::new().write(true).open(self.dir.join(name));
            let _ = file.and_then(|file| file.set_modified(SystemTime::now()));
        }
    }

    /// Reads what other processes have cached of an object, unless that was done just now.
    fn refresh(&self, state: &mut State, object: &Object) -> bool {
        if state.listing.as_ref().is_none_or(|(at, _)| at.elapsed() >= LISTING) {
            let mut files: HashMap<Object, Vec<String>> = HashMap::new();
            // Without a directory there is nothing to read; writing says why.
            let entries = self.entries().unwrap_or_else(|error| {
                // Files that others may have put there are not read, and nothing is added.
                if error.kind() == ErrorKind::Foreign {
                    state.is_broken = true;
                    state.known.clear();
                    let _ = TROUBLE.set(error.to_string());
                }
                Vec::new()
            });
            for entry in entries {
                if let Some(object) = object_of(&entry.name) {
                    files.entry(object).or_default().push(entry.name);
                }
            }
            state.touched.retain(|_, at| at.elapsed() < TOUCH);
            state.listing = Some((Instant::now(), files));
        }
        let Some((listed, files)) = &state.listing else { return false };
        let known = state.known.entry(*object).or_default();
        if known.listed == Some(*listed) {
            return false;
        }
        known.listed = Some(*listed);
        let names = files.get(object).map_or(&[][..], Vec::as_slice);
        let own: Vec<&str> = state.writers.iter().map(|w| w.segment.name.as_str()).collect();
        let is_there = |name: &str| own.contains(&name) || names.iter().any(|other| other == name);
        known.extents.keep(is_there);
        known.read.retain(|name, _| is_there(name));
        for name in names.iter().filter(|name| !own.contains(&name.as_str())) {
            let new = || (Arc::new(Segment { name: name.clone() }), 0);
            let (segment, from) = known.read.entry(name.clone()).or_insert_with(new);
            let (records, end) = scan(&self.dir.join(name), object, segment, *from);
            *from = end;
            records.iter().for_each(|record| known.extents.add(record));
        }
        true
    }

    /// Appends a record; `false` if there is no room.
    #[expect(clippy::too_many_arguments, reason = "what a record is made of")]
    fn append(
        &self,
        state: &mut State,
        object: &Object,
        object_len: u64,
        header: &[u8],
        at: u64,
        bytes: &[u8],
        in_order: bool,
    ) -> Result<bool> {
        let len = (header.len() + bytes.len()) as u64;
        let range = at..at + bytes.len() as u64;
        let known = state.known.entry(*object).or_default();
        if !known.extents.plan(&range).iter().any(|piece| matches!(piece, Piece::Missing(_))) {
            // Another thread was faster.
            return Ok(true);
        }
        let found = state.writers.iter().position(|writer| writer.object == *object);
        let mut writer = found.map(|found| state.writers.remove(found));
        let is_usable = |writer: &Writer| {
            // The directory may have been removed: what goes to its files is of no use.
            writer.size - writer.position >= len && self.dir.join(&writer.segment.name).exists()
        };
        writer = writer.filter(is_usable);
        let mut writer = match writer {
            Some(writer) => writer,
            None => {
                // No more than the rest of the object can need, records of single samples included.
                let most = object_len.saturating_add(object_len / 4).saturating_add(1 << 16);
                let size = self.file_size().min(most.next_multiple_of(4096)).max(len);
                if state.writers.len() >= WRITERS {
                    state.writers.remove(0);
                }
                match self.create(object, size, in_order)? {
                    Some(writer) => writer,
                    None => return Ok(false),
                }
            }
        };
        let mut all = Vec::with_capacity(len as usize);
        all.extend_from_slice(header);
        all.extend_from_slice(bytes);
        let path = self.dir.join(&writer.segment.name);
        writer.file.write_all(&all).map_err(|e| Error::io(&path, e))?;
        let segment = writer.segment.clone();
        let record = Record { segment, position: writer.position, range };
        writer.position += len;
        state.known.entry(*object).or_default().extents.add(&record);
        state.writers.push(writer);
        Ok(true)
    }

    /// Creates a file of this size after making room for it; `None` if that cannot be.
    fn create(&self, object: &Object, size: u64, in_order: bool) -> Result<Option<Writer>> {
        make_ours(&self.dir, true)?;
        let Some(_lock) = self.lock()? else { return Ok(None) };
        let tag = self.dir.join(TAG);
        // Never through a link that someone has put there.
        match private().open(&tag).and_then(|mut file| file.write_all(TAG_TEXT.as_bytes())) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                return Err(Error::io(&tag, error));
            }
            _ => {}
        }
        let mut entries = self.entries()?;
        let mut bytes: u64 = entries.iter().map(|entry| entry.len).sum();
        entries.sort_by_key(|entry| entry.used);
        for Entry { name, len, .. } in entries {
            if bytes.saturating_add(size) <= self.limit {
                break;
            }
            let is_removable = object_of(&name).is_some_and(|of| !in_order || of != *object);
            if is_removable && self.remove(&name)? {
                bytes = bytes.saturating_sub(len);
            }
        }
        if bytes.saturating_add(size) > self.limit {
            return Ok(None);
        }
        let hex: String = object.iter().map(|byte| format!("{byte:02x}")).collect();
        let name = format!("{hex}-{:016x}{ENDING}", random());
        let path = self.dir.join(&name);
        let at = |error| Error::io(&path, error);
        let file = private().open(&path).map_err(at)?;
        let lock = LocalStorage::positioned().lock_file(&path)?;
        let Some(lock) = lock else { return Ok(None) };
        if let Err(error) = file.set_len(size) {
            // Some bytes of it may count already.
            let _ = fs::remove_file(&path);
            return Err(at(error));
        }
        let segment = Arc::new(Segment { name });
        let process = process::id();
        Ok(Some(Writer { object: *object, segment, file, position: 0, size, process, _lock: lock }))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A new file that only this user may read.
fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

/// The object whose bytes are in a file of this name, if it is a name of ours.
fn object_of(name: &str) -> Option<Object> {
    let (hex, number) = name.strip_suffix(ENDING)?.split_once('-')?;
    let is_hex =
        |text: &str| text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
    if hex.len() != 32 || number.len() != 16 || !is_hex(hex) || !is_hex(number) {
        return None;
    }
    let mut object = Object::default();
    for (byte, pair) in object.iter_mut().zip(hex.as_bytes().chunks_exact(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
    }
    Some(object)
}

/// The records of a file from this position on, and where they end.
fn scan(path: &Path, object: &Object, segment: &Arc<Segment>, from: u64) -> (Vec<Record>, u64) {
    let (mut records, mut position) = (Vec::new(), from);
    let Ok(file) = LocalStorage::positioned().open(path) else { return (records, position) };
    while position < file.len() {
        let end = file.len().min(position + LONGEST as u64);
        let header = file.read(position..end).ok().and_then(|bytes| Header::parse(&bytes));
        let Some(header) = header.filter(|header| header.object == *object) else { break };
        let len = u64::from(header.len);
        let next = position + header_len(len) + len;
        if next > file.len() {
            break;
        }
        let range = header.at..header.at + len;
        records.push(Record { segment: segment.clone(), position, range });
        position = next;
    }
    (records, position)
}

/// Some bytes of a record, with the blocks that they are in compared.
fn read_record(
    path: &Path,
    object: &Object,
    record: &Record,
    range: &Range<u64>,
) -> Option<Vec<u8>> {
    let file = LocalStorage::positioned().open(path).ok()?;
    let len = record.range.end - record.range.start;
    let data = record.position.checked_add(header_len(len))?;
    let header = Header::parse(&file.read(record.position..data).ok()?)?;
    if header.object != *object || header.at != record.range.start || u64::from(header.len) != len {
        return None;
    }
    let wanted = range.start.checked_sub(header.at)?..range.end.checked_sub(header.at)?;
    let blocks = wanted.start / BLOCK * BLOCK..len.min(wanted.end.next_multiple_of(BLOCK));
    let mut bytes = file.read(data + blocks.start..data + blocks.end).ok()?.into_owned();
    if !header.matches((blocks.start / BLOCK) as usize, &bytes) {
        return None;
    }
    bytes.truncate((wanted.end - blocks.start) as usize);
    bytes.drain(..(wanted.start - blocks.start) as usize);
    Some(bytes)
}
