//! The way in which a finished file or directory takes the place of an older one.
//!
//! Both have a random name next to their target until they are finished. So the target is the old
//! one or the new one, never a part of either, whenever the process is killed or the power fails; and
//! two processes that write the same target never write the same file.
//!
//! A process that is killed leaves its unfinished file behind. Its name ends in `.partial`, no
//! other process will ever take it, and it can be deleted.
//!
//! Absent on purpose: several files that change together. [`Writer`](crate::Writer) has a journal
//! for the files of a dataset.

use std::collections::hash_map::RandomState;
use std::fmt;
use std::hash::BuildHasher;
use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use crate::error::{Error, ErrorKind, Result};

use super::{Create, Expected, FileId, FileKind, LocalStorage, Lock, Sink, Storage};

/// How a new file or directory takes its place.
#[derive(Debug, Clone, Copy)]
#[must_use]
pub struct ReplaceOptions {
    durable: bool,
    overwrite: bool,
    mode: Option<u32>,
}

impl Default for ReplaceOptions {
    fn default() -> ReplaceOptions {
        ReplaceOptions { durable: true, overwrite: true, mode: None }
    }
}

impl ReplaceOptions {
    /// Whether the new content survives a power failure once it is finished. Default: yes.
    pub fn durable(mut self, durable: bool) -> ReplaceOptions {
        self.durable = durable;
        self
    }

    /// Whether a file of that name is replaced; if not, one is an error. Default: yes. A directory
    /// is never replaced.
    pub fn overwrite(mut self, overwrite: bool) -> ReplaceOptions {
        self.overwrite = overwrite;
        self
    }

    /// The permission bits of a new file that replaces none. Default: as for any new file.
    pub fn mode(mut self, mode: Option<u32>) -> ReplaceOptions {
        self.mode = mode;
        self
    }
}

/// A new file that takes the place of an older one, if there is one, when it is finished.
///
/// It is written next to its target and has the permissions of the file it replaces. A target that
/// is a symbolic link stays one: the file it leads to is replaced. Dropped before
/// [`finish`](Self::finish), the file is removed and nothing has changed.
///
/// ```
/// use std::path::Path;
/// use kiste::storage::{MemoryStorage, ReplaceFile, ReplaceOptions};
///
/// let storage = MemoryStorage::new();
/// storage.put("list", "old");
///
/// let options = ReplaceOptions::default();
/// let mut file = ReplaceFile::create_in(&storage, "list", &options)?;
/// file.append(b"new")?;
/// assert_eq!(storage.get("list").unwrap(), b"old");
/// file.finish()?;
/// assert_eq!(storage.get("list").unwrap(), b"new");
/// # Ok::<(), kiste::Error>(())
/// ```
#[must_use = "without `finish` the new file is removed"]
pub struct ReplaceFile<'a> {
    storage: &'a dyn Storage,
    options: ReplaceOptions,
    /// The name that the caller gave.
    shown: PathBuf,
    /// The file that is replaced: not a link.
    target: PathBuf,
    path: PathBuf,
    /// `None` once it is closed: not every system renames an open file.
    sink: Option<Box<dyn Sink>>,
    len: u64,
    position: u64,
    finished: bool,
}

impl ReplaceFile<'static> {
    /// Begins a new file of this name in the file system.
    ///
    /// # Errors
    ///
    /// The errors of [`create_in`](ReplaceFile::create_in).
    pub fn create(target: impl AsRef<Path>) -> Result<ReplaceFile<'static>> {
        ReplaceFile::create_in(&LOCAL, target, &ReplaceOptions::default())
    }
}

impl<'a> ReplaceFile<'a> {
    /// Begins a new file of this name.
    ///
    /// # Errors
    ///
    /// [`AlreadyExists`](ErrorKind::AlreadyExists) if there is one and it must not be overwritten,
    /// [`Invalid`](ErrorKind::Invalid) if the name exists and is not a file.
    pub fn create_in(
        storage: &'a dyn Storage,
        target: impl AsRef<Path>,
        options: &ReplaceOptions,
    ) -> Result<ReplaceFile<'a>> {
        let shown = target.as_ref().to_path_buf();
        let Replaced { target, mode } = Replaced::find(storage, &shown, options)?;
        let path = partial_name(&target);
        // One of this name is not ours: an error, and not removed.
        let sink = storage
            .create_with(&path, Create::new().mode(mode))
            .map_err(|error| error.shown_at(&shown))?;
        let (sink, options) = (Some(sink), *options);
        let (len, position, finished) = (0, 0, false);
        Ok(ReplaceFile { storage, options, shown, target, path, sink, len, position, finished })
    }

    /// Where the new file is until it is finished.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The bytes written so far.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether nothing was written so far.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Writes at the end.
    pub fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.on_sink(|sink| sink.append(bytes))?;
        self.len += bytes.len() as u64;
        Ok(())
    }

    /// Overwrites bytes that are there already.
    pub fn write_at(&mut self, bytes: &[u8], at: u64) -> Result<()> {
        self.on_sink(|sink| sink.write_at(bytes, at))
    }

    /// Gives the new file its name, in place of an older one.
    ///
    /// # Errors
    ///
    /// After an error the older file is there as it was, except if only the sync of the directory
    /// failed: then the new one is there, and a power failure may bring the older one back.
    pub fn finish(mut self) -> Result<()> {
        // Before the rename: after a power failure the name must not lead to a file without its
        // content.
        if self.options.durable {
            self.on_sink(|sink| sink.sync())?;
        }
        self.sink = None;
        // Another process may have created the file since.
        if !self.options.overwrite {
            refuse_existing(self.storage, &self.shown)?;
        }
        let renamed = self.storage.rename(&self.path, &self.target);
        renamed.map_err(|error| error.shown_at(&self.shown))?;
        self.finished = true;
        match self.options.durable {
            true => self.storage.sync_dir(parent_of(&self.target)),
            false => Ok(()),
        }
    }

    fn on_sink(&mut self, with: impl FnOnce(&mut dyn Sink) -> Result<()>) -> Result<()> {
        match &mut self.sink {
            Some(sink) => with(&mut **sink).map_err(|error| error.shown_at(&self.shown)),
            None => Ok(()),
        }
    }
}

impl Drop for ReplaceFile<'_> {
    fn drop(&mut self) {
        if !self.finished {
            self.sink = None;
            // Another error is the one to report, and a leftover file with this name does no harm.
            let _ = self.storage.remove(&self.path);
        }
    }
}

impl fmt::Debug for ReplaceFile<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ReplaceFile").field(&self.shown).finish()
    }
}

/// Writes at the position, which [`io::Seek`] moves: beginning at 0.
impl io::Write for ReplaceFile<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let over = usize::try_from(self.len - self.position).unwrap_or(usize::MAX);
        let (over, new) = bytes.split_at(over.min(bytes.len()));
        if !over.is_empty() {
            self.write_at(over, self.position)?;
            self.position += over.len() as u64;
        }
        if !new.is_empty() {
            self.append(new)?;
            self.position = self.len;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Anywhere in what has been written so far.
impl io::Seek for ReplaceFile<'_> {
    fn seek(&mut self, to: io::SeekFrom) -> io::Result<u64> {
        let position = match to {
            io::SeekFrom::Start(at) => Some(at),
            io::SeekFrom::End(by) => self.len.checked_add_signed(by),
            io::SeekFrom::Current(by) => self.position.checked_add_signed(by),
        };
        let outside = || io::Error::new(io::ErrorKind::InvalidInput, "a seek beyond the end");
        self.position = position.filter(|at| *at <= self.len).ok_or_else(outside)?;
        Ok(self.position)
    }
}

/// A new directory that gets its name when it is finished.
///
/// No file system can exchange one directory for another in one step, so there must be nothing of
/// that name. Files are written into its [`path`](Self::path); dropped before
/// [`finish`](Self::finish), it is removed with everything in it.
///
/// ```
/// use kiste::storage::{MemoryStorage, ReplaceDir, ReplaceOptions, Storage};
///
/// let storage = MemoryStorage::new();
/// let dir = ReplaceDir::create_in(&storage, "images", &ReplaceOptions::default())?;
/// storage.create(&dir.path().join("0.png"))?.append(b"pixels")?;
/// dir.finish()?;
/// assert_eq!(storage.get("images/0.png").unwrap(), b"pixels");
/// # Ok::<(), kiste::Error>(())
/// ```
#[must_use = "without `finish` the new directory is removed"]
pub struct ReplaceDir<'a> {
    storage: &'a dyn Storage,
    options: ReplaceOptions,
    target: PathBuf,
    path: PathBuf,
    finished: bool,
}

impl ReplaceDir<'static> {
    /// Begins a new directory of this name in the file system.
    ///
    /// # Errors
    ///
    /// The errors of [`create_in`](ReplaceDir::create_in).
    pub fn create(target: impl AsRef<Path>) -> Result<ReplaceDir<'static>> {
        ReplaceDir::create_in(&LOCAL, target, &ReplaceOptions::default())
    }
}

impl<'a> ReplaceDir<'a> {
    /// Begins a new directory of this name.
    ///
    /// # Errors
    ///
    /// [`AlreadyExists`](ErrorKind::AlreadyExists) if there is something of this name.
    pub fn create_in(
        storage: &'a dyn Storage,
        target: impl AsRef<Path>,
        options: &ReplaceOptions,
    ) -> Result<ReplaceDir<'a>> {
        // Without a slash at the end, behind which there would be no name.
        let target: PathBuf = target.as_ref().components().collect();
        refuse_existing(storage, &target)?;
        let path = partial_name(&target);
        storage.create_dir(&path).map_err(|error| error.shown_at(&target))?;
        Ok(ReplaceDir { storage, options: *options, target, path, finished: false })
    }

    /// Where the new directory is until it is finished.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Gives the new directory its name. With it everything in it is made durable.
    pub fn finish(mut self) -> Result<()> {
        if self.options.durable {
            sync_all(self.storage, &self.path).map_err(|error| self.shown(error))?;
        }
        // Another process may have created it since.
        refuse_existing(self.storage, &self.target)?;
        let renamed = self.storage.rename(&self.path, &self.target);
        renamed.map_err(|error| error.shown_at(&self.target))?;
        self.finished = true;
        if !self.options.durable {
            return Ok(());
        }
        self.storage.sync_dir(parent_of(&self.target)).inspect_err(|_| {
            // Undone, because nothing was replaced: the new directory would block another try.
            self.finished = self.storage.rename(&self.target, &self.path).is_err();
        })
    }

    /// An error inside, by the name that the file will have: nothing else tells a user anything.
    pub fn shown(&self, error: Error) -> Error {
        match error.path().and_then(|path| path.strip_prefix(&self.path).ok()) {
            Some(inside) if inside.as_os_str().is_empty() => error.shown_at(&self.target),
            Some(inside) => {
                let path = self.target.join(inside);
                error.shown_at(path)
            }
            None => error,
        }
    }
}

impl Drop for ReplaceDir<'_> {
    fn drop(&mut self) {
        if !self.finished {
            // Another error is the one to report, and a leftover file with this name does no harm.
            let _ = remove_all(self.storage, &self.path);
        }
    }
}

impl fmt::Debug for ReplaceDir<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ReplaceDir").field(&self.target).finish()
    }
}

static LOCAL: LocalStorage = LocalStorage::positioned();

/// The file that a new one replaces.
struct Replaced {
    target: PathBuf,
    mode: Option<u32>,
}

impl Replaced {
    fn find<S: Storage + ?Sized>(
        storage: &S,
        path: &Path,
        options: &ReplaceOptions,
    ) -> Result<Replaced> {
        let Some(found) = storage.lstat(path)? else {
            return Ok(Replaced { target: path.to_path_buf(), mode: options.mode });
        };
        if !options.overwrite {
            return Err(exists(path));
        }
        let refused = |found: &dyn fmt::Display| {
            let message = format!("expected a regular file to replace, found {found}");
            Error::new(ErrorKind::Invalid, message).at(path)
        };
        let (target, found) = match found.kind {
            FileKind::Link => {
                let target = storage.resolve(path).map_err(|error| match error.kind() {
                    ErrorKind::NotFound => refused(&"a symbolic link that leads nowhere"),
                    _ => error,
                })?;
                let found = storage.stat(&target)?.unwrap_or(found);
                (target, found)
            }
            _ => (path.to_path_buf(), found),
        };
        match found.is_file() {
            true => Ok(Replaced { target, mode: found.mode.map(|mode| mode & 0o777) }),
            false => Err(refused(&found.kind)),
        }
    }
}

/// [`Storage::put_if`] where there are locks and renames: nothing changes between the look and the
/// rename, as all that write this way take the lock.
pub(super) fn put_if<S: Storage + ?Sized>(
    storage: &S,
    path: &Path,
    bytes: &[u8],
    expected: Expected,
) -> Result<FileId> {
    let options = ReplaceOptions::default().overwrite(expected != Expected::Absent);
    let Replaced { target, mode } = Replaced::find(storage, path, &options)?;
    let new = partial_name(&target);
    // Written and synced first, so that the lock is held for a look and a rename only.
    let written = write_new(storage, &new, mode, bytes).and_then(|id| {
        let (lock, name) = wait_for_lock(storage, &target)?;
        let renamed = rename_if(storage, &new, &target, expected);
        // Removed while it is held: another process that has it open finds that it guards nothing any
        // more. A leftover, as after a crash, does no harm.
        let _ = storage.remove(&name);
        drop(lock);
        renamed.map(|()| id)
    });
    let written = written.map_err(|error| {
        // Another error is the one to report, and a leftover file with this name does no harm.
        let _ = storage.remove(&new);
        error.shown_at(path)
    })?;
    // The caller acts on the new file, so its name has to survive a power failure too.
    storage.sync_dir(parent_of(&target))?;
    Ok(written)
}

/// Writes a whole file that survives a power failure, all but its name.
fn write_new<S: Storage + ?Sized>(
    storage: &S,
    path: &Path,
    mode: Option<u32>,
    bytes: &[u8],
) -> Result<FileId> {
    let mut sink = storage.create_with(path, Create::new().mode(mode))?;
    sink.append(bytes)?;
    sink.sync()?;
    let id = storage.stat(path)?.map(|stat| stat.id);
    id.ok_or_else(|| Error::io(path, io::ErrorKind::NotFound.into()))
}

fn rename_if<S: Storage + ?Sized>(
    storage: &S,
    new: &Path,
    target: &Path,
    expected: Expected,
) -> Result<()> {
    match expected {
        Expected::Anything => {}
        Expected::Absent => refuse_existing(storage, target)?,
        Expected::Version(version) => {
            let message = match storage.stat(target)?.map(|stat| stat.id) {
                Some(found) if found == version => return storage.rename(new, target),
                Some(_) => "another process has replaced it since it was read",
                None => "another process has removed it since it was read",
            };
            return Err(Error::new(ErrorKind::Replaced, message).at(target));
        }
    }
    storage.rename(new, target)
}

/// How long to wait for a lock that is held for one rename.
const PATIENCE: Duration = Duration::from_secs(60);

fn wait_for_lock<S: Storage + ?Sized>(storage: &S, target: &Path) -> Result<(Lock, PathBuf)> {
    let name = lock_of(target);
    let (start, mut pause) = (Instant::now(), Duration::from_millis(1));
    loop {
        // Tried again and again: a call that waits would hang with a holder that hangs.
        if let Some(lock) = storage.lock(&name)? {
            return Ok((lock, name));
        }
        if start.elapsed() > PATIENCE {
            let message = "another process is publishing this file, and does not finish";
            return Err(Error::new(ErrorKind::Locked, message));
        }
        thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(50));
    }
}

fn lock_of(target: &Path) -> PathBuf {
    let mut name = target.as_os_str().to_os_string();
    name.push(".lock");
    PathBuf::from(name)
}

/// Removes the lock next to this file that a killed process left while it [put](put_if) the file. A
/// held lock stays, and so does a file that is not a lock of ours: those are empty.
#[cfg(feature = "convert")]
pub(crate) fn remove_dead_lock(storage: &dyn Storage, path: &Path) -> Result<()> {
    let Ok(Replaced { target, .. }) = Replaced::find(storage, path, &ReplaceOptions::default())
    else {
        return Ok(());
    };
    let name = lock_of(&target);
    if !storage.lstat(&name)?.is_some_and(|found| found.is_file() && found.len == 0) {
        return Ok(());
    }
    let removed = match storage.lock(&name) {
        // Removed while it is held, as after a put.
        Ok(Some(_lock)) => storage.remove(&name),
        locked => locked.map(drop),
    };
    // It may be gone, or belong to another user.
    match removed {
        Err(error) if error.is_absent_or_denied() => Ok(()),
        removed => removed,
    }
}

fn refuse_existing<S: Storage + ?Sized>(storage: &S, path: &Path) -> Result<()> {
    match storage.lstat(path)? {
        Some(_) => Err(exists(path)),
        None => Ok(()),
    }
}

fn exists(path: &Path) -> Error {
    Error::new(ErrorKind::AlreadyExists, "exists already").at(path)
}

/// A name next to this one that no other process takes.
pub(crate) fn partial_name(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_os_string();
    name.push(format!(".{:016x}.partial", random()));
    PathBuf::from(name)
}

/// A number that no other process finds. The process id would not do: in containers and on shared
/// disks two processes have the same one.
pub(crate) fn random() -> u64 {
    RandomState::new().hash_one(std::process::id())
}

fn parent_of(path: &Path) -> &Path {
    path.parent().unwrap_or(Path::new(""))
}

/// Makes a directory and everything in it durable, from the inside out.
fn sync_all(storage: &dyn Storage, dir: &Path) -> Result<()> {
    for path in storage.list(dir)? {
        match storage.lstat(&path)?.map(|stat| stat.kind) {
            // From the inside out, so that no durable name leads to something that is lost.
            Some(FileKind::Dir) => sync_all(storage, &path)?,
            Some(FileKind::File) => storage.reopen(&path)?.sync()?,
            _ => {}
        }
    }
    storage.sync_dir(dir)
}

/// Removes a directory and everything in it. A link is removed, not followed.
pub(crate) fn remove_all(storage: &dyn Storage, dir: &Path) -> Result<()> {
    for path in storage.list(dir)? {
        match storage.lstat(&path)? {
            Some(stat) if stat.is_dir() => remove_all(storage, &path)?,
            _ => storage.remove(&path)?,
        }
    }
    storage.remove_dir(dir)
}
