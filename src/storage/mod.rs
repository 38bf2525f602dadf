//! Bytes: where they live; knows nothing of formats.
//!
//! Everything above reads and writes through [`Storage`], a directory tree with the few operations
//! that a crash-safe writer needs, and [`ReadAt`], one open file that is read by range.
//! [`LocalStorage`] is the file system; [`MemoryStorage`] keeps all in memory, logs what is read
//! and can lose power, so that laziness and crash safety can be asserted by tests; `RemoteStorage`
//! (feature `remote`) reads from object stores and over HTTP, and writes to object stores. [`of`] finds the one that a name leads
//! to.
//!
//! Absent on purpose: buffering, formats, and any idea of which files belong together.

use std::any::Any;
use std::borrow::Cow;
use std::fmt;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use crate::error::Shown;
use crate::error::{Error, ErrorKind, Result};

mod address;
pub(crate) mod read_ahead;
#[cfg(feature = "arrays")]
mod cached;
mod confined;
#[cfg(any(feature = "download", feature = "remote"))]
mod http;
mod read_sizes;
mod local;
mod memory;
mod mmap;
mod opening;
mod owned;
mod parallel;
mod replace;
#[cfg(feature = "remote")]
mod remote;
mod scratch_dir;
mod stamp;

pub use address::is_url;
#[cfg(feature = "convert")]
pub(crate) use address::root;
#[doc(hidden)]
pub use address::shown;
#[cfg(feature = "remote")]
use address::unescape;
#[cfg(feature = "arrays")]
pub(crate) use cached::CachedFile;
pub(crate) use confined::Confined;
#[cfg(any(feature = "download", feature = "remote"))]
pub(crate) use http::{Chance, chance};
pub use local::LocalStorage;
#[doc(hidden)]
pub use memory::LoggedRead;
pub use memory::MemoryStorage;
pub use mmap::Map;
#[cfg(feature = "arrays")]
pub(crate) use mmap::zeroed;
pub(crate) use mmap::{prefer_huge_pages, prefetch};
pub(crate) use opening::fetch_together;
pub use opening::of;
#[doc(hidden)]
pub use owned::expect_ours_if_linked;
#[cfg(feature = "convert")]
pub(crate) use owned::{expect_ours, expect_owned, make_ours};
pub(crate) use parallel::in_parallel;
#[cfg(feature = "remote")]
#[cfg_attr(docsrs, doc(cfg(feature = "remote")))]
pub use remote::cache_trouble;
#[cfg(feature = "remote")]
#[cfg_attr(docsrs, doc(cfg(feature = "remote")))]
pub use remote::{Cache, CacheUsage, RemoteOptions, RemoteStorage, RemoteTraffic};
#[cfg(feature = "arrays")]
pub(crate) use replace::partial_name;
pub(crate) use replace::random;
#[doc(hidden)]
pub use replace::{ReplaceDir, ReplaceFile, ReplaceOptions};
#[cfg(feature = "convert")]
pub(crate) use replace::{remove_all, remove_dead_lock};
#[doc(hidden)]
pub use scratch_dir::ScratchDir;
pub(crate) use stamp::{Stamp, same_content};

/// Files by name.
///
/// Paths are passed through as the caller has them. Every error names its path, and keeps the error
/// of the operating system as its [source](std::error::Error::source). A name that does not exist
/// is [`NotFound`](ErrorKind::NotFound), except where `None` says so; a name that must not exist
/// yet is [`AlreadyExists`](ErrorKind::AlreadyExists).
pub trait Storage: fmt::Debug + Send + Sync {
    /// Opens a file for reading.
    fn open(&self, path: &Path) -> Result<Source>;
    /// Opens a file and others next to it together, where opening one is a round trip over a network:
    /// each with its start, and its end if that is asked for. The first must exist; `None` stands for
    /// another that does not. Default: `None` for all of them, as each is opened more cheaply when it is needed.
    fn open_together(&self, path: &Path, files: &[Announced<'_>]) -> Result<Option<Vec<OpenFile>>> {
        let _ = (path, files);
        Ok(None)
    }
    /// Opens an object whose size and strong entity tag are known, without a request: every read is of
    /// this version, or an error of kind [`Replaced`](ErrorKind::Replaced). Default: `None`, as files are opened otherwise.
    fn open_version(&self, path: &Path, size: u64, tag: &str) -> Result<Option<Source>> {
        let _ = (path, size, tag);
        Ok(None)
    }
    /// Size and identity of a file or directory, `None` where there is nothing of this name. A
    /// symbolic link is followed.
    fn stat(&self, path: &Path) -> Result<Option<Stat>>;
    /// As [`stat`](Self::stat), but of a symbolic link itself. Deleting and overwriting start
    /// here: a link may lead to files that are not ours.
    fn lstat(&self, path: &Path) -> Result<Option<Stat>> {
        self.stat(path)
    }
    /// The properties that distinguish this storage. Default: the same as [`MemoryStorage`].
    fn properties(&self) -> Properties {
        Properties::default()
    }
    /// The one name of an existing file: absolute, and without symbolic links. A storage that has
    /// no links gives the path back.
    fn resolve(&self, path: &Path) -> Result<PathBuf> {
        Ok(path.to_path_buf())
    }
    /// Creates a file that must not exist yet. A storage that has no permissions, numbers of writes or
    /// uploads ignores what `how` says of them. Whether an object exists is known only when the new one
    /// is [finished](Sink::finish).
    fn create_with(&self, path: &Path, how: Create) -> Result<Box<dyn Sink>>;
    /// As [`create_with`](Self::create_with), with nothing more to say.
    fn create(&self, path: &Path) -> Result<Box<dyn Sink>> {
        self.create_with(path, Create::new())
    }
    /// Discards the parts of an upload that was never completed. One that was completed or aborted is
    /// over: then nothing happens.
    fn abort_upload(&self, path: &Path, id: &str) -> Result<()> {
        let _ = (path, id);
        Ok(())
    }
    /// Sets these permission bits of an existing file, where the storage has any.
    fn set_mode(&self, path: &Path, mode: u32) -> Result<()> {
        let _ = (path, mode);
        Ok(())
    }
    /// Opens an existing file for writing; the position is its end. A symbolic link is an error.
    fn reopen(&self, path: &Path) -> Result<Box<dyn Sink>>;
    /// Gives a file or a directory another name, replacing in one step the file that had it.
    fn rename(&self, from: &Path, to: &Path) -> Result<()>;
    /// As [`rename`](Self::rename), where there is nothing of the new name. Otherwise nothing is replaced, and
    /// that is [`AlreadyExists`](ErrorKind::AlreadyExists). Default: looks first, and may miss what comes
    /// into being at the same time.
    fn rename_new(&self, from: &Path, to: &Path) -> Result<()> {
        match self.lstat(to)? {
            None => self.rename(from, to),
            Some(_) => Err(Error::io(to, io::ErrorKind::AlreadyExists.into())),
        }
    }
    /// Removes a file.
    fn remove(&self, path: &Path) -> Result<()>;
    /// Creates one directory that must not exist yet.
    fn create_dir(&self, path: &Path) -> Result<()>;
    /// Removes an empty directory.
    fn remove_dir(&self, path: &Path) -> Result<()>;
    /// The files of a directory, sorted.
    fn list(&self, dir: &Path) -> Result<Vec<PathBuf>>;
    /// Writes a whole file in one step, if what is there now is what is expected: of two that
    /// publish at the same time exactly one wins. Returns the identity of the new file, which
    /// survives a power failure. For small files; readers see the old one or the new one.
    ///
    /// # Errors
    ///
    /// [`AlreadyExists`](ErrorKind::AlreadyExists) if there is a file and
    /// [`Expected::Absent`]; [`Replaced`](ErrorKind::Replaced) if there is not the file of
    /// [`Expected::Version`]. Then nothing has changed.
    fn put_if(&self, path: &Path, bytes: &[u8], expected: Expected) -> Result<FileId> {
        // Under a lock next to the file, which all that write this way take.
        replace::put_if(self, path, bytes, expected)
    }
    /// Makes names that were added to, removed from or changed in a directory survive a power
    /// failure.
    fn sync_dir(&self, dir: &Path) -> Result<()>;
    /// Takes the exclusive lock of this file (created where missing), `None` while
    /// another holds it. It ends with the value or with the process.
    fn lock(&self, path: &Path) -> Result<Option<Lock>>;
    /// Takes the exclusive lock of a file that exists, by any of its names: two names of one file
    /// (links, hard links) share it. `None` while another holds it. Readers take no notice.
    fn lock_file(&self, path: &Path) -> Result<Option<Lock>>;
}

/// Shorter ways to say what the methods of [`Storage`] do.
impl dyn Storage + '_ {
    /// As [`open`](Storage::open), but `None` where there is nothing of this name. A store that lists no
    /// objects may deny what does not exist.
    pub fn open_if_exists(&self, path: &Path) -> Result<Option<Source>> {
        match self.open(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) if self.is_object_store() && error.is_absent_or_denied() => Ok(None),
            opened => opened.map(Some),
        }
    }

    /// Creates a directory and its parents where they are missing. A file of one of these names is an error.
    pub fn create_dir_all(&self, path: &Path) -> Result<()> {
        create_missing(self, path).map(drop)
    }

    /// See [`Properties::user`].
    pub fn user(&self) -> Option<u32> {
        self.properties().user
    }

    /// See [`Properties::allows_outside`].
    pub fn allows_outside(&self) -> bool {
        self.properties().allows_outside
    }

    /// See [`Properties::connections`].
    pub fn connections(&self) -> usize {
        self.properties().connections
    }

    /// See [`Properties::is_object_store`].
    pub fn is_object_store(&self) -> bool {
        self.properties().is_object_store
    }
}

/// The ways in which storages differ: [`Storage::properties`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Properties {
    /// The user on whose behalf files are changed, by the number of [`Stat::owner`]; `None` where
    /// there are no users.
    pub user: Option<u32>,
    /// Whether files that data name may be links out of the folder of these data.
    pub allows_outside: bool,
    /// How many reads at the same time pay off: more than one where each waits for an answer.
    pub connections: usize,
    /// Whether these are objects, which come into being as a whole and stay as they are: they cannot be
    /// renamed, appended to or locked, and there are no directories.
    pub is_object_store: bool,
}

impl Default for Properties {
    fn default() -> Properties {
        Properties { user: None, allows_outside: false, connections: 1, is_object_store: false }
    }
}

/// How [`Storage::create_with`] makes a file.
///
/// ```
/// use kiste::storage::{Create, MemoryStorage, Storage};
/// use std::path::Path;
///
/// let storage = MemoryStorage::new();
/// storage.create_with(Path::new("private"), Create::new().mode(Some(0o600)))?.append(b"bytes")?;
/// # Ok::<(), kiste::Error>(())
/// ```
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct Create {
    /// Permission bits, where the storage has any: the new version of a private file is private from its
    /// first byte on.
    pub mode: Option<u32>,
    /// The number of the write: files that are made with the same one are known to belong together
    /// ([`ReadAt::write_id`]), where the storage records it.
    pub write: Option<u64>,
    /// Where a file goes up in parts, this receives the id of the upload before the first part: by
    /// [`abort_upload`](Storage::abort_upload) another process discards the parts if this one dies. An
    /// error fails the write.
    pub note: Option<UploadNote>,
}

impl Create {
    /// With nothing more to say.
    pub fn new() -> Create {
        Create::default()
    }

    /// See [`mode`](#structfield.mode).
    #[must_use]
    pub fn mode(self, mode: Option<u32>) -> Create {
        Create { mode, ..self }
    }

    /// See [`write`](#structfield.write).
    #[must_use]
    pub fn write(self, write: u64) -> Create {
        Create { write: Some(write), ..self }
    }

    /// See [`note`](#structfield.note).
    #[must_use]
    pub fn note(self, note: UploadNote) -> Create {
        Create { note: Some(note), ..self }
    }
}

impl fmt::Debug for Create {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Create { mode, write, note } = self;
        let note = note.is_some();
        f.debug_struct("Create")
            .field("mode", mode)
            .field("write", write)
            .field("note", &note)
            .finish()
    }
}

/// Receives the id of an upload: [`Create::note`].
pub type UploadNote = Arc<dyn Fn(&str) -> Result<()> + Send + Sync>;

/// A file that [`Storage::open_together`] opens.
#[derive(Debug, Clone, Copy)]
pub struct Announced<'a> {
    /// The suffix of its name after the name of the main file; empty for the main file.
    pub suffix: &'a str,
    /// Whether its end is read as soon as its start.
    pub end: bool,
}

/// A file that [`Storage::open_together`] opened, if there is one of its name.
pub type OpenFile = Option<Arc<dyn ReadAt>>;

/// The state that [`Storage::put_if`] expects before it writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Expected {
    /// No file of this name.
    Absent,
    /// This very file. Keep it open from before it is read until after the call: a file system may
    /// give the identity of a file that is gone to a new one.
    Version(FileId),
    /// Anything: the last one wins.
    Anything,
}

/// Facts about a file that are known without opening it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stat {
    /// Bytes.
    pub len: u64,
    /// Which file it is.
    pub id: FileId,
    /// The kind of file.
    pub kind: FileKind,
    /// How many names the file has; more than one are hard links.
    pub links: u64,
    /// The user who owns it, where there are users.
    pub owner: Option<u32>,
    /// The group that it belongs to, where there are groups.
    pub group: Option<u32>,
    /// Permission bits, where there are any.
    pub mode: Option<u32>,
    /// When its content last changed, in nanoseconds; 0 where that is not known. Renaming a file
    /// does not change it.
    pub modified: i128,
}

impl Stat {
    /// A regular file of this size, with one name.
    pub fn file(len: u64, id: FileId) -> Stat {
        let kind = FileKind::File;
        Stat { len, id, kind, links: 1, owner: None, group: None, mode: None, modified: 0 }
    }

    /// A directory.
    pub fn dir(id: FileId) -> Stat {
        Stat { kind: FileKind::Dir, ..Stat::file(0, id) }
    }

    /// Whether it is a directory.
    pub fn is_dir(&self) -> bool {
        self.kind == FileKind::Dir
    }

    /// Whether it is a regular file.
    pub fn is_file(&self) -> bool {
        self.kind == FileKind::File
    }
}

/// The kind of thing that a name stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum FileKind {
    /// A regular file.
    File,
    /// A directory.
    Dir,
    /// A symbolic link: only [`Storage::lstat`] sees one.
    Link,
    /// A FIFO (named pipe).
    Fifo,
    /// A socket.
    Socket,
    /// A character or block device.
    Device,
    /// Something else.
    Other,
}

impl fmt::Display for FileKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            FileKind::File => "a regular file",
            FileKind::Dir => "a directory",
            FileKind::Link => "a symbolic link",
            FileKind::Fifo => "a FIFO",
            FileKind::Socket => "a socket",
            FileKind::Device => "a device",
            FileKind::Other => "something else",
        })
    }
}

/// The error where a regular file is needed: anything else may block, has no end, or reads as
/// empty.
pub(crate) fn not_regular(found: FileKind) -> io::Error {
    let message = format!("expected a regular file, found {found}");
    io::Error::new(io::ErrorKind::InvalidInput, message)
}

/// Creates a directory, and those above it where they are missing. If `durable`, their names
/// survive a power failure.
pub(crate) fn create_dirs(storage: &dyn Storage, dir: &Path, durable: bool) -> Result<()> {
    let created = create_missing(storage, dir)?;
    let parent = |dir: &Path| dir.parent().unwrap_or(Path::new("")).to_path_buf();
    created.into_iter().filter(|_| durable).try_for_each(|dir| storage.sync_dir(&parent(dir)))
}

/// The same, and which directories were missing.
fn create_missing<'a>(storage: &dyn Storage, path: &'a Path) -> Result<Vec<&'a Path>> {
    let mut missing = Vec::new();
    for dir in path.ancestors().filter(|dir| !dir.as_os_str().is_empty()) {
        match storage.stat(dir)? {
            None => missing.push(dir),
            Some(stat) if stat.is_dir() => break,
            Some(_) => return Err(Error::io(dir, io::ErrorKind::AlreadyExists.into())),
        }
    }
    for dir in missing.iter().rev() {
        match storage.create_dir(dir) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => match storage.stat(dir)? {
                // Another process made it at the same time.
                Some(stat) if stat.is_dir() => {}
                // A link that leads nowhere.
                _ => return Err(error),
            },
            created => created?,
        }
    }
    Ok(missing)
}

/// Device and file number: differs between a file and the one that replaced it.
pub type FileId = (u64, u64);

/// An exclusive lock, held until dropped.
#[must_use = "the lock ends with this value"]
pub struct Lock {
    #[expect(dead_code, reason = "held for its drop")]
    held: Box<dyn Send + Sync>,
    file: Option<FileId>,
}

impl Lock {
    /// The file that is locked, as [`Storage::stat`] has it: as long as its name leads to it, no one else
    /// gets the lock by that name. `None` where a new file may have the identity of one that is still held.
    pub fn file(&self) -> Option<FileId> {
        self.file
    }
}

impl fmt::Debug for Lock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Lock")
    }
}

/// One open file that is read by range, from any number of threads.
pub trait ReadAt: Send + Sync {
    /// Bytes in the file when it was opened.
    fn len(&self) -> u64;
    /// Fills `buf` from byte `at` on. Bytes beyond the end are an error of kind
    /// [`Io`](ErrorKind::Io).
    fn read_exact_at(&self, buf: &mut [u8], at: u64) -> Result<()>;
    /// These bytes. The caller has seen that they are not more than there are.
    #[doc(hidden)]
    fn read_vec(&self, range: Range<u64>) -> Result<Vec<u8>> {
        let len = (range.end - range.start) as usize;
        expect_memory(len).map_err(|error| error.at(self.path()))?;
        let mut bytes = vec![0; len];
        self.read_exact_at(&mut bytes, range.start)?;
        Ok(bytes)
    }
    /// The identity of the file, as [`Storage::stat`] has it.
    fn id(&self) -> FileId;
    /// The name it was opened by.
    fn path(&self) -> &Path;
    /// Whether there is nothing in the file.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// The number of the write that made it, where that is recorded with it:
    /// [`Create::write`].
    fn write_id(&self) -> Option<u64> {
        None
    }
    /// The entity tag of an object, if its server gives a strong one: another version has another tag.
    fn tag(&self) -> Option<&str> {
        None
    }
    /// Whether a read may be a round trip over a network, which [`fetch`](Self::fetch) saves.
    fn is_remote(&self) -> bool {
        false
    }
    /// Announces that these bytes will be read soon. A remote file fetches them now, all in one round,
    /// and keeps them until they were read; ranges beyond its end are passed over. Default: nothing.
    ///
    /// A range that could not be fetched is an error here, and again at its first read, which does
    /// not retry.
    fn fetch(&self, ranges: &[Range<u64>]) -> Result<()> {
        let _ = ranges;
        Ok(())
    }
    /// As [`fetch`](Self::fetch), by a reader that goes through the file in a known order, as loaders do:
    /// what it reads now it needs last, so it takes no room in a cache from what comes sooner.
    fn fetch_in_order(&self, ranges: &[Range<u64>]) -> Result<()> {
        self.fetch(ranges)
    }
    /// Itself, for a storage that fetches several of its files together.
    #[doc(hidden)]
    fn as_any(&self) -> Option<&dyn Any> {
        None
    }
}

impl<R: ReadAt + ?Sized> ReadAt for Arc<R> {
    fn len(&self) -> u64 {
        (**self).len()
    }
    fn read_exact_at(&self, buf: &mut [u8], at: u64) -> Result<()> {
        (**self).read_exact_at(buf, at)
    }
    fn id(&self) -> FileId {
        (**self).id()
    }
    fn path(&self) -> &Path {
        (**self).path()
    }
    fn is_empty(&self) -> bool {
        (**self).is_empty()
    }
    fn write_id(&self) -> Option<u64> {
        (**self).write_id()
    }
    fn tag(&self) -> Option<&str> {
        (**self).tag()
    }
    fn is_remote(&self) -> bool {
        (**self).is_remote()
    }
    fn fetch(&self, ranges: &[Range<u64>]) -> Result<()> {
        (**self).fetch(ranges)
    }
    fn fetch_in_order(&self, ranges: &[Range<u64>]) -> Result<()> {
        (**self).fetch_in_order(ranges)
    }
    fn read_vec(&self, range: Range<u64>) -> Result<Vec<u8>> {
        (**self).read_vec(range)
    }
    fn as_any(&self) -> Option<&dyn Any> {
        (**self).as_any()
    }
}

/// One open file that is written.
pub trait Sink: Send {
    /// Appends at the end.
    fn append(&mut self, bytes: &[u8]) -> Result<()>;
    /// Overwrites bytes that are there already.
    fn write_at(&mut self, bytes: &[u8], at: u64) -> Result<()>;
    /// Cuts the file, or extends it with zeros.
    fn set_len(&mut self, len: u64) -> Result<()>;
    /// Makes the content survive a power failure. Of an object, what was uploaded of it.
    fn sync(&mut self) -> Result<()>;
    /// Nothing more is written. An object is there only now, and survives a power failure; without
    /// this it never is. Of any other file it is there already, and this does nothing.
    fn finish(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}

/// How an open file is read: from a memory map, or by positioned reads.
pub enum Source {
    /// The whole file is mapped; reading is a slice.
    Mapped(Map),
    /// Every read is a call.
    Positioned(Box<dyn ReadAt>),
}

impl Source {
    /// Bytes in the file when it was opened.
    pub fn len(&self) -> u64 {
        match self {
            Source::Mapped(map) => map.bytes().len() as u64,
            Source::Positioned(file) => file.len(),
        }
    }

    /// Whether there is nothing in the file.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Which file it is; its name may have changed.
    pub fn id(&self) -> FileId {
        match self {
            Source::Mapped(map) => map.id(),
            Source::Positioned(file) => file.id(),
        }
    }

    /// The name it was opened by.
    pub fn path(&self) -> &Path {
        match self {
            Source::Mapped(map) => map.path(),
            Source::Positioned(file) => file.path(),
        }
    }

    /// The whole content, if it is mapped.
    #[inline]
    pub fn mapped(&self) -> Option<&[u8]> {
        match self {
            Source::Mapped(map) => Some(map.bytes()),
            Source::Positioned(_) => None,
        }
    }

    /// These bytes: borrowed from the map, or read. A range beyond the end is an error of kind
    /// [`Io`](ErrorKind::Io); nothing is allocated for it.
    #[inline]
    pub fn read(&self, range: Range<u64>) -> Result<Cow<'_, [u8]>> {
        match self {
            Source::Mapped(map) => {
                let range = usize::try_from(range.start).ok().zip(usize::try_from(range.end).ok());
                let bytes = range.and_then(|(start, end)| map.bytes().get(start..end));
                bytes.map(Cow::Borrowed).ok_or_else(|| self.beyond_end())
            }
            Source::Positioned(file) => {
                if range.start > range.end || range.end > file.len() {
                    return Err(self.beyond_end());
                }
                let size =
                    usize::try_from(range.end - range.start).map_err(|_| self.beyond_end())?;
                if size > BELIEVED {
                    return read_in_steps(&**file, range).map(Cow::Owned);
                }
                file.read_vec(range).map(Cow::Owned)
            }
        }
    }

    /// Fills the buffer with the bytes from here on.
    pub(crate) fn read_into(&self, buffer: &mut [u8], at: u64) -> Result<()> {
        match self {
            Source::Mapped(_) => {
                buffer.copy_from_slice(&self.read(at..at.saturating_add(buffer.len() as u64))?);
                Ok(())
            }
            Source::Positioned(file) => file.read_exact_at(buffer, at),
        }
    }

    #[cold]
    fn beyond_end(&self) -> Error {
        Error::io(self.path(), beyond_end())
    }

    /// Whether a read may be a round trip over a network, which [`fetch`](Self::fetch) saves.
    #[inline]
    pub fn is_remote(&self) -> bool {
        match self {
            Source::Mapped(_) => false,
            Source::Positioned(file) => file.is_remote(),
        }
    }

    /// As [`ReadAt::write_id`].
    pub fn write_id(&self) -> Option<u64> {
        match self {
            Source::Mapped(_) => None,
            Source::Positioned(file) => file.write_id(),
        }
    }

    /// As [`ReadAt::tag`].
    pub fn tag(&self) -> Option<&str> {
        match self {
            Source::Mapped(_) => None,
            Source::Positioned(file) => file.tag(),
        }
    }

    /// As [`ReadAt::fetch`]; of a map nothing.
    pub fn fetch(&self, ranges: &[Range<u64>]) -> Result<()> {
        match self {
            Source::Mapped(_) => Ok(()),
            Source::Positioned(file) => file.fetch(ranges),
        }
    }

    /// As [`ReadAt::fetch_in_order`]; of a map nothing.
    pub fn fetch_in_order(&self, ranges: &[Range<u64>]) -> Result<()> {
        match self {
            Source::Mapped(_) => Ok(()),
            Source::Positioned(file) => file.fetch_in_order(ranges),
        }
    }

    /// Announces that these bytes will be read soon: where they are mapped, the kernel begins to
    /// fetch them. Only advice, so it never fails.
    pub fn will_need(&self, range: Range<u64>) {
        if let Source::Mapped(map) = self {
            map.will_need(range);
        }
    }

    /// Announces that these bytes will not be read soon: where they are mapped, they no longer
    /// count as memory of this process. They can still be read. Only advice, so it never fails.
    pub fn release(&self, range: Range<u64>) {
        if let Source::Mapped(map) = self {
            map.release(range);
        }
    }

    /// Calls `with` on consecutive parts of these bytes and their positions, at most `step` at a
    /// time: the whole range in one part where it is mapped. Stops at the first `Some`.
    pub fn scan<T>(
        &self,
        range: Range<u64>,
        step: u64,
        mut with: impl FnMut(&[u8], u64) -> Option<T>,
    ) -> Result<Option<T>> {
        if self.mapped().is_some() {
            let bytes = self.read(range.clone())?;
            return Ok(with(&bytes, range.start));
        }
        let mut at = range.start;
        while at < range.end {
            let end = range.end.min(at.saturating_add(step));
            let bytes = self.read(at..end)?;
            if let Some(found) = with(&bytes, at) {
                return Ok(Some(found));
            }
            at = end;
        }
        Ok(None)
    }
}

/// Bytes for which memory is taken at once. How large a remote file is, is only what a server says, and a
/// local one may have holes larger than the memory.
const BELIEVED: usize = 64 << 20;

/// Fails if there is no memory for so many bytes: asking for it would end the process. A file with a hole, or a
/// shape, can be larger than any memory.
pub(crate) fn expect_memory(bytes: usize) -> Result<()> {
    let mut tried: Vec<u8> = Vec::new();
    if bytes <= BELIEVED || tried.try_reserve_exact(bytes).is_ok() {
        // Otherwise the compiler may leave out what is not used, and take it for granted.
        std::hint::black_box(&tried);
        return Ok(());
    }
    let message = format!("not enough memory for {bytes} bytes");
    Err(Error::new(ErrorKind::Limit, message))
}

#[cold]
fn read_in_steps(file: &dyn ReadAt, range: Range<u64>) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut at = range.start;
    while at < range.end {
        let step = (range.end - at).min(BELIEVED as u64);
        let start = bytes.len();
        // A disk has as many bytes as it says, a server perhaps not.
        let room = if file.is_remote() { step } else { range.end - at };
        bytes.try_reserve(room as usize).map_err(|_| {
            let message = format!("not enough memory for {} bytes", range.end - range.start);
            Error::new(ErrorKind::Limit, message).at(file.path()).with_range(range.clone())
        })?;
        bytes.resize(start + step as usize, 0);
        file.read_exact_at(&mut bytes[start..], at)?;
        at += step;
    }
    Ok(bytes)
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let how = if self.mapped().is_some() { "mapped" } else { "positioned" };
        write!(f, "Source({how}, {} bytes)", self.len())
    }
}

fn beyond_end() -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, "the range lies beyond the end of the file")
}

/// Adds to an error of the operating system the file that it is about.
trait At<T> {
    fn at(self, path: &Path) -> Result<T>;
}

impl<T> At<T> for io::Result<T> {
    fn at(self, path: &Path) -> Result<T> {
        self.map_err(|error| Error::io(path, error))
    }
}
