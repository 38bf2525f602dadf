//! A storage in memory that logs what is read, can fail at any operation, and can lose power.
//!
//! It is the test double of this crate and of programs that build on it: "lazy" becomes an
//! assertion about [`MemoryStorage::reads`], "crash-safe" a loop over [`MemoryStorage::fail_after`]
//! and [`MemoryStorage::lose_power`].

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use crate::error::Error;

use super::{
    At, Create, FileId, FileKind, Lock, ReadAt, Result, Sink, Source, Stat, Storage, beyond_end,
    not_regular,
};

/// One logged read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoggedRead {
    /// The file, by the name it was opened under.
    pub path: PathBuf,
    /// The bytes.
    pub range: Range<u64>,
}

/// Files in memory. Clones share the content.
///
/// ```
/// use std::path::Path;
/// use kiste::storage::{MemoryStorage, Storage};
///
/// let storage = MemoryStorage::new();
/// storage.create(Path::new("a"))?.append(b"hello")?;
/// assert_eq!(&*storage.open(Path::new("a"))?.read(1..4)?, b"ell");
/// assert_eq!(storage.reads().len(), 1);
///
/// storage.lose_power(0); // nothing was synced, not even the name
/// assert!(storage.open(Path::new("a")).is_err());
/// # Ok::<(), kiste::Error>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct MemoryStorage {
    state: Arc<Mutex<State>>,
}

/// Files by their number; `None` is a directory.
type Names = BTreeMap<PathBuf, Option<u64>>;

#[derive(Debug, Default)]
struct State {
    /// The files as a process sees them.
    names: Names,
    /// The files that are certain to survive a power failure.
    durable: Names,
    /// Changes of names since, in order; a power failure leaves any of them.
    pending: Vec<Change>,
    files: BTreeMap<u64, Content>,
    locked: BTreeSet<u64>,
    reads: Vec<LoggedRead>,
    operations: u64,
    fail_after: Option<u64>,
    fail_once: Option<u64>,
}

#[derive(Debug, Default, Clone)]
struct Content {
    bytes: Vec<u8>,
    synced: Vec<u8>,
    /// When they last changed, in operations.
    modified: u64,
}

#[derive(Debug, Clone)]
enum Change {
    Add(PathBuf, Option<u64>),
    Remove(PathBuf),
    Rename(PathBuf, PathBuf),
}

impl Change {
    /// The directory whose sync makes it durable.
    fn dir(&self) -> Option<&Path> {
        match self {
            Change::Add(path, _) | Change::Remove(path) | Change::Rename(_, path) => path.parent(),
        }
    }

    fn apply(&self, names: &mut Names) {
        match self {
            Change::Add(path, node) => drop(names.insert(path.clone(), *node)),
            Change::Remove(path) => drop(names.remove(path)),
            Change::Rename(from, to) => {
                // Everything in a directory goes along.
                let (moved, rest): (Names, Names) =
                    std::mem::take(names).into_iter().partition(|(name, _)| name.starts_with(from));
                *names = rest;
                for (name, node) in moved {
                    let name = match name.strip_prefix(from) {
                        Ok(rest) if !rest.as_os_str().is_empty() => to.join(rest),
                        _ => to.clone(),
                    };
                    names.insert(name, node);
                }
            }
        }
    }
}

impl MemoryStorage {
    /// An empty storage.
    pub fn new() -> MemoryStorage {
        MemoryStorage::default()
    }

    /// Puts a file there, finished and synced, and the directories it is in.
    pub fn put(&self, path: impl AsRef<Path>, bytes: impl Into<Vec<u8>>) {
        let mut state = self.state();
        let bytes = bytes.into();
        let id = state.add_file(Content { synced: bytes.clone(), bytes, modified: 0 });
        let path = path.as_ref();
        let state = &mut *state;
        for names in [&mut state.names, &mut state.durable] {
            for dir in path.ancestors().skip(1).filter(|dir| !dir.as_os_str().is_empty()) {
                names.insert(dir.to_path_buf(), None);
            }
            names.insert(path.to_path_buf(), Some(id));
        }
    }

    /// The content of a file.
    pub fn get(&self, path: impl AsRef<Path>) -> Option<Vec<u8>> {
        let state = self.state();
        state.file(path.as_ref()).ok().map(|id| state.files[&id].bytes.clone())
    }

    /// All names, sorted.
    pub fn names(&self) -> Vec<PathBuf> {
        self.state().names.keys().cloned().collect()
    }

    /// All reads so far, in order.
    pub fn reads(&self) -> Vec<LoggedRead> {
        self.state().reads.clone()
    }

    /// Forgets the reads so far.
    pub fn clear_reads(&self) {
        self.state().reads.clear();
    }

    /// How many operations changed something so far: creates, writes, syncs, renames, removals.
    pub fn operations(&self) -> u64 {
        self.state().operations
    }

    /// Lets this many more changing operations succeed; all later ones fail, as if the process had
    /// been killed.
    pub fn fail_after(&self, operations: u64) {
        let mut state = self.state();
        state.fail_after = Some(state.operations + operations);
    }

    /// Lets this many more changing operations succeed; the one after them fails, as on a full disk
    /// or at a file that cannot be changed, and all later ones succeed again.
    pub fn fail_once_after(&self, operations: u64) {
        let mut state = self.state();
        state.fail_once = Some(state.operations + operations);
    }

    /// A new process: nothing fails any more and no lock is held. Written files stay.
    pub fn restart(&self) {
        let mut state = self.state();
        (state.fail_after, state.fail_once) = (None, None);
        state.locked.clear();
    }

    /// A power failure and a [`restart`](Self::restart): of what was not synced, each change of a
    /// name and each write survives or not, as `seed` decides. `0` keeps nothing unsynced.
    pub fn lose_power(&self, seed: u64) {
        let mut guard = self.state();
        let state = &mut *guard;
        let mut random = seed;
        let mut coin = move || {
            // Knuth's MMIX generator: any would do.
            random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            seed != 0 && (random >> 40) & 1 == 1
        };
        for change in std::mem::take(&mut state.pending) {
            // A directory cannot go before what is in it.
            let full =
                matches!(&change, Change::Remove(path) if has_children(&state.durable, path));
            if coin() && !full {
                change.apply(&mut state.durable);
            }
        }
        // Entries of a directory whose own name was lost cannot be reached.
        while let Some(lost) = state.durable.keys().find(|p| !is_reachable(&state.durable, p)) {
            let lost = lost.clone();
            state.durable.remove(&lost);
        }
        state.names = state.durable.clone();
        for content in state.files.values_mut() {
            if content.bytes != content.synced {
                match (coin(), coin()) {
                    (true, true) => {}
                    (true, false) => {
                        let kept = content.synced.len().min(content.bytes.len());
                        let half = kept + (content.bytes.len() - kept) / 2;
                        content.bytes.truncate(half);
                    }
                    (false, _) => content.bytes = content.synced.clone(),
                }
                content.synced = content.bytes.clone();
            }
        }
        (state.fail_after, state.fail_once) = (None, None);
        state.locked.clear();
    }

    fn guard(&self, file: u64) -> Lock {
        Lock { held: Box::new(Guard { storage: self.clone(), file }), file: Some((0, file)) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

fn has_children(names: &Names, dir: &Path) -> bool {
    names.keys().any(|name| name.parent() == Some(dir))
}

fn is_reachable(names: &Names, path: &Path) -> bool {
    let parent = path.parent().filter(|p| !p.as_os_str().is_empty());
    parent.is_none_or(|parent| names.get(parent) == Some(&None))
}

impl State {
    fn change(&mut self) -> io::Result<()> {
        if self.fail_after.is_some_and(|limit| self.operations >= limit) {
            return Err(io::Error::other("injected fault"));
        }
        if self.fail_once == Some(self.operations) {
            self.fail_once = None;
            return Err(io::Error::other("injected fault"));
        }
        self.operations += 1;
        Ok(())
    }

    fn add_file(&mut self, content: Content) -> u64 {
        let id = self.files.len() as u64 + 1;
        self.files.insert(id, content);
        id
    }

    fn file(&self, path: &Path) -> io::Result<u64> {
        match self.names.get(path) {
            Some(Some(id)) => Ok(*id),
            Some(None) => Err(not_regular(FileKind::Dir)),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    fn apply(&mut self, change: Change) {
        change.apply(&mut self.names);
        self.pending.push(change);
    }

    fn add(&mut self, path: &Path, node: Option<u64>) -> io::Result<()> {
        if self.names.contains_key(path) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        if !is_reachable(&self.names, path) {
            return Err(io::ErrorKind::NotFound.into());
        }
        self.apply(Change::Add(path.to_path_buf(), node));
        Ok(())
    }
}

impl Storage for MemoryStorage {
    fn open(&self, path: &Path) -> Result<Source> {
        let state = self.state();
        let id = state.file(path).at(path)?;
        let len = state.files[&id].bytes.len() as u64;
        let (storage, path) = (self.clone(), path.to_path_buf());
        Ok(Source::Positioned(Box::new(MemoryFile { storage, path, id, len })))
    }

    fn stat(&self, path: &Path) -> Result<Option<Stat>> {
        let state = self.state();
        Ok(state.names.get(path).map(|node| match node {
            Some(id) => {
                let content = &state.files[id];
                let stat = Stat::file(content.bytes.len() as u64, (0, *id));
                Stat { modified: i128::from(content.modified), ..stat }
            }
            None => Stat::dir((1, 0)),
        }))
    }

    fn create_with(&self, path: &Path, _: Create) -> Result<Box<dyn Sink>> {
        let mut state = self.state();
        state.change().at(path)?;
        let id = state.add_file(Content::default());
        state.add(path, Some(id)).at(path)?;
        Ok(Box::new(MemorySink { storage: self.clone(), path: path.to_path_buf(), id }))
    }

    fn reopen(&self, path: &Path) -> Result<Box<dyn Sink>> {
        let id = self.state().file(path).at(path)?;
        Ok(Box::new(MemorySink { storage: self.clone(), path: path.to_path_buf(), id }))
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        let mut state = self.state();
        state.change().at(to)?;
        match state.names.get(from) {
            None => return Err(Error::io(from, io::ErrorKind::NotFound.into())),
            // As on a file system: only an empty directory gives way to another one.
            Some(None) if has_children(&state.names, to) => return Err(not_empty(to)),
            Some(_) => {}
        }
        state.apply(Change::Rename(from.to_path_buf(), to.to_path_buf()));
        Ok(())
    }

    fn remove(&self, path: &Path) -> Result<()> {
        let mut state = self.state();
        state.change().at(path)?;
        state.file(path).at(path)?;
        state.apply(Change::Remove(path.to_path_buf()));
        Ok(())
    }

    fn create_dir(&self, path: &Path) -> Result<()> {
        let mut state = self.state();
        state.change().at(path)?;
        state.add(path, None).at(path)
    }

    fn remove_dir(&self, path: &Path) -> Result<()> {
        let mut state = self.state();
        state.change().at(path)?;
        if state.names.get(path) != Some(&None) {
            return Err(Error::io(path, io::ErrorKind::NotFound.into()));
        }
        if has_children(&state.names, path) {
            return Err(not_empty(path));
        }
        state.apply(Change::Remove(path.to_path_buf()));
        Ok(())
    }

    fn list(&self, dir: &Path) -> Result<Vec<PathBuf>> {
        let state = self.state();
        Ok(state.names.keys().filter(|name| name.parent() == Some(dir)).cloned().collect())
    }

    fn sync_dir(&self, dir: &Path) -> Result<()> {
        let mut guard = self.state();
        let state = &mut *guard;
        state.change().at(dir)?;
        for change in std::mem::take(&mut state.pending) {
            if change.dir() == Some(dir) {
                change.apply(&mut state.durable);
            } else {
                state.pending.push(change);
            }
        }
        Ok(())
    }

    fn lock(&self, path: &Path) -> Result<Option<Lock>> {
        let mut state = self.state();
        if !state.names.contains_key(path) {
            state.change().at(path)?;
            let id = state.add_file(Content::default());
            state.add(path, Some(id)).at(path)?;
        }
        let id = state.file(path).at(path)?;
        Ok(state.locked.insert(id).then(|| self.guard(id)))
    }

    fn lock_file(&self, path: &Path) -> Result<Option<Lock>> {
        let mut state = self.state();
        let id = state.file(path).at(path)?;
        Ok(state.locked.insert(id).then(|| self.guard(id)))
    }
}

fn not_empty(dir: &Path) -> Error {
    Error::io(dir, io::ErrorKind::DirectoryNotEmpty.into())
}

struct Guard {
    storage: MemoryStorage,
    file: u64,
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.storage.state().locked.remove(&self.file);
    }
}

struct MemoryFile {
    storage: MemoryStorage,
    path: PathBuf,
    id: u64,
    len: u64,
}

impl ReadAt for MemoryFile {
    fn len(&self) -> u64 {
        self.len
    }

    fn id(&self) -> FileId {
        (0, self.id)
    }

    fn path(&self) -> &Path {
        &self.path
    }

    fn read_exact_at(&self, buf: &mut [u8], at: u64) -> Result<()> {
        let mut state = self.storage.state();
        let range = at..at + buf.len() as u64;
        state.reads.push(LoggedRead { path: self.path.clone(), range: range.clone() });
        let bytes = &state.files[&self.id].bytes;
        let found = bytes.get(range.start as usize..range.end as usize);
        let found = found.ok_or_else(beyond_end).at(&self.path)?;
        buf.copy_from_slice(found);
        Ok(())
    }
}

struct MemorySink {
    storage: MemoryStorage,
    path: PathBuf,
    id: u64,
}

impl MemorySink {
    fn change<T>(&mut self, with: impl FnOnce(&mut Content) -> io::Result<T>) -> Result<T> {
        let mut state = self.storage.state();
        state.change().at(&self.path)?;
        let now = state.operations;
        let content = state.files.entry(self.id).or_default();
        content.modified = now;
        with(content).at(&self.path)
    }
}

impl Sink for MemorySink {
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.change(|content| {
            content.bytes.extend_from_slice(bytes);
            Ok(())
        })
    }

    fn write_at(&mut self, bytes: &[u8], at: u64) -> Result<()> {
        self.change(|content| {
            let at = at as usize;
            let target = content.bytes.get_mut(at..at + bytes.len()).ok_or_else(beyond_end)?;
            target.copy_from_slice(bytes);
            Ok(())
        })
    }

    fn set_len(&mut self, len: u64) -> Result<()> {
        self.change(|content| {
            content.bytes.resize(len as usize, 0);
            Ok(())
        })
    }

    fn sync(&mut self) -> Result<()> {
        self.change(|content| {
            content.synced = content.bytes.clone();
            Ok(())
        })
    }
}
