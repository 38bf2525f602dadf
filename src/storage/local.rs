//! The file system: maps or positioned reads, and the calls that make writes durable.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process;
use std::time::Instant;

use crate::error::Error;

use super::read_sizes::Pieces;
use super::{
    At, Create, FileId, FileKind, Lock, Map, Properties, ReadAt, Result, Sink, Source, Stat,
    Storage, not_regular,
};

/// The local file system.
#[derive(Debug, Clone, Copy)]
pub struct LocalStorage {
    map: bool,
    outside: bool,
}

impl LocalStorage {
    /// Reads through memory maps: the fastest way, and the default everywhere. See [`Map`] for
    /// its one hazard.
    pub const fn mapped() -> LocalStorage {
        LocalStorage { map: true, outside: false }
    }

    /// Reads by one call per access: for files that another program may truncate, and for file
    /// systems that cannot map.
    pub const fn positioned() -> LocalStorage {
        LocalStorage { map: false, outside: false }
    }

    /// Whether files that data name, such as the shards of a manifest, may be links out of the folder of
    /// these data. Default: no.
    pub const fn allow_outside(self, yes: bool) -> LocalStorage {
        LocalStorage { map: self.map, outside: yes }
    }
}

impl Storage for LocalStorage {
    fn open(&self, path: &Path) -> Result<Source> {
        open_source(path, self.map).at(path)
    }

    fn stat(&self, path: &Path) -> Result<Option<Stat>> {
        stat_of(fs::metadata(path)).at(path)
    }

    fn lstat(&self, path: &Path) -> Result<Option<Stat>> {
        stat_of(fs::symlink_metadata(path)).at(path)
    }

    fn properties(&self) -> Properties {
        #[cfg(unix)]
        let user = Some(rustix::process::geteuid().as_raw());
        #[cfg(not(unix))]
        let user = None;
        Properties { user, allows_outside: self.outside, ..Properties::default() }
    }

    fn resolve(&self, path: &Path) -> Result<PathBuf> {
        fs::canonicalize(path).at(path)
    }

    fn create_with(&self, path: &Path, how: Create) -> Result<Box<dyn Sink>> {
        Ok(Box::new(LocalSink::new(create_new(path, how.mode).at(path)?, path, 0)))
    }

    fn set_mode(&self, path: &Path, mode: u32) -> Result<()> {
        File::open(path).and_then(|file| set_mode(&file, Some(mode))).at(path)
    }

    fn reopen(&self, path: &Path) -> Result<Box<dyn Sink>> {
        let mut file = open_ours(OpenOptions::new().write(true), path).at(path)?;
        let end = io::Seek::seek(&mut file, io::SeekFrom::End(0)).at(path)?;
        Ok(Box::new(LocalSink::new(file, path, end)))
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        fs::rename(from, to).map_err(|error| match error.kind() {
            // The target need not exist, so it is the source that is missing.
            io::ErrorKind::NotFound => Error::io(from, error),
            _ => Error::io(to, error),
        })
    }

    fn remove(&self, path: &Path) -> Result<()> {
        fs::remove_file(path).at(path)
    }

    fn create_dir(&self, path: &Path) -> Result<()> {
        fs::create_dir(path).at(path)
    }

    fn remove_dir(&self, path: &Path) -> Result<()> {
        fs::remove_dir(path).at(path)
    }

    fn list(&self, dir: &Path) -> Result<Vec<PathBuf>> {
        let entries = fs::read_dir(dir).at(dir)?.map(|entry| entry.map(|entry| entry.path()));
        let mut paths = entries.collect::<io::Result<Vec<_>>>().at(dir)?;
        // Only the last part differs, so that nothing else need be compared part by part.
        paths.sort_unstable_by(|a, b| a.as_os_str().cmp(b.as_os_str()));
        Ok(paths)
    }

    fn sync_dir(&self, dir: &Path) -> Result<()> {
        // Windows has no such call: there a rename is durable when the file system's log says so.
        if cfg!(unix) {
            // The parent of a name without a directory is empty.
            let dir = if dir.as_os_str().is_empty() { Path::new(".") } else { dir };
            File::open(dir).and_then(|file| file.sync_all()).at(dir)?;
        }
        Ok(())
    }

    fn lock(&self, path: &Path) -> Result<Option<Lock>> {
        let mut options = OpenOptions::new();
        // Never truncated: a file of this name may be someone else's.
        let file = open_ours(options.write(true).create(true).truncate(false), path);
        file.and_then(|file| hold(file, path)).at(path)
    }

    fn lock_file(&self, path: &Path) -> Result<Option<Lock>> {
        // On Windows a lock is not advice: it would keep readers from the file.
        if cfg!(windows) {
            return Ok(Some(Lock { held: Box::new(()), file: None }));
        }
        open_to_lock(path).and_then(|file| hold(file, path)).at(path)
    }
}

/// Opens a regular file to read it. A FIFO of this name is not waited for.
pub(super) fn open_plain(path: &Path) -> io::Result<(File, fs::Metadata)> {
    let file = without_waiting(OpenOptions::new().read(true)).open(path)?;
    let metadata = file.metadata()?;
    match kind_of(&metadata) {
        FileKind::File => {}
        kind => return Err(not_regular(kind)),
    }
    // Reads do wait: some file systems would rather fail.
    #[cfg(unix)]
    rustix::fs::fcntl_setfl(&file, rustix::fs::OFlags::empty())?;
    Ok((file, metadata))
}

fn open_source(path: &Path, map: bool) -> io::Result<Source> {
    let (file, metadata) = open_plain(path)?;
    let (len, id) = (metadata.len(), identity(&metadata));
    // On 32 bits a large file has no room in the address space, so it is read by calls.
    if let (true, Ok(size)) = (map, usize::try_from(len)) {
        match Map::new(&file, path, size, id) {
            Ok(map) => return Ok(Source::Mapped(map)),
            // No room in the address space, or too many maps: reads by calls still work.
            Err(e) if e.kind() == io::ErrorKind::OutOfMemory => {}
            Err(e) => return Err(e),
        }
    }
    Ok(Source::Positioned(Box::new(PlainFile { file, path: path.into(), len, id })))
}

fn create_new(path: &Path, mode: Option<u32>) -> io::Result<File> {
    // Never through a link: a new file is one where there was no name at all.
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    let file = with_mode(&mut options, mode).open(path)?;
    set_mode(&file, mode)?;
    Ok(file)
}

/// Opens an existing file to lock it.
fn open_to_lock(path: &Path) -> io::Result<File> {
    use io::ErrorKind::{PermissionDenied, ReadOnlyFilesystem};
    // Some network file systems lock only what is open for writing.
    let mut options = OpenOptions::new();
    let options = without_waiting(options.read(true));
    let file = match options.clone().write(true).open(path) {
        Err(e) if matches!(e.kind(), PermissionDenied | ReadOnlyFilesystem) => {
            options.open(path)?
        }
        opened => opened?,
    };
    match kind_of(&file.metadata()?) {
        FileKind::File => Ok(file),
        kind => Err(not_regular(kind)),
    }
}

/// Takes the lock of a file, unless another process has it. It ends with this process. `File::try_lock`
/// does the same from Rust 1.89.
#[cfg(unix)]
fn try_lock(file: &File) -> io::Result<bool> {
    use rustix::fs::{FlockOperation, flock};
    match flock(file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(true),
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

#[cfg(not(unix))]
fn try_lock(file: &File) -> io::Result<bool> {
    match fs4::FileExt::try_lock(file) {
        Ok(()) => Ok(true),
        Err(fs4::TryLockError::WouldBlock) => Ok(false),
        Err(fs4::TryLockError::Error(error)) => Err(error),
    }
}

/// Locks an open file, which must still be the one of this name afterwards.
fn hold(file: File, path: &Path) -> io::Result<Option<Lock>> {
    if !try_lock(&file)? {
        return Ok(None);
    }
    // The holder before us may have removed or replaced the file before letting go, and
    // another one may hold a new file of this name by now: what was locked here guards
    // nothing.
    let id = identity(&file.metadata()?);
    match stat_of(fs::metadata(path))? {
        Some(stat) if stat.id == id => {
            let held = Box::new(Held { file, process: process::id() });
            // A time of creation is no identity to rely on.
            Ok(Some(Lock { held, file: cfg!(unix).then_some(id) }))
        }
        _ => Ok(None),
    }
}

/// A file that is locked. A process forked in the meantime has it open as well, so closing it here
/// would not release the lock.
struct Held {
    file: File,
    process: u32,
}

impl Drop for Held {
    fn drop(&mut self) {
        // In a child it is the lock of its parent.
        if self.process == process::id() {
            // Closing it ends the lock where no other process has it open.
            let _ = unlock(&self.file);
        }
    }
}

#[cfg(unix)]
fn unlock(file: &File) -> io::Result<()> {
    Ok(rustix::fs::flock(file, rustix::fs::FlockOperation::Unlock)?)
}

#[cfg(not(unix))]
fn unlock(file: &File) -> io::Result<()> {
    fs4::FileExt::unlock(file)
}

fn stat_of(metadata: io::Result<fs::Metadata>) -> io::Result<Option<Stat>> {
    match metadata {
        Ok(metadata) => Ok(Some(Stat {
            len: metadata.len(),
            id: identity(&metadata),
            kind: kind_of(&metadata),
            links: links_of(&metadata),
            owner: owner_of(&metadata),
            group: group_of(&metadata),
            mode: mode_of(&metadata),
            modified: modified_of(&metadata),
        })),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(e),
    }
}

fn kind_of(metadata: &fs::Metadata) -> FileKind {
    let kind = metadata.file_type();
    if kind.is_file() {
        return FileKind::File;
    }
    if kind.is_dir() {
        return FileKind::Dir;
    }
    if kind.is_symlink() {
        return FileKind::Link;
    }
    #[cfg(unix)]
    {
        use std::os::unix::fs::FileTypeExt;
        if kind.is_fifo() {
            return FileKind::Fifo;
        }
        if kind.is_socket() {
            return FileKind::Socket;
        }
        if kind.is_block_device() || kind.is_char_device() {
            return FileKind::Device;
        }
    }
    FileKind::Other
}

/// Nanoseconds since 1970, by the clock of the file system.
fn modified_of(metadata: &fs::Metadata) -> i128 {
    let Ok(time) = metadata.modified() else { return 0 };
    match time.duration_since(std::time::UNIX_EPOCH) {
        Ok(since) => i128::try_from(since.as_nanos()).unwrap_or(i128::MAX),
        Err(before) => i128::try_from(before.duration().as_nanos()).map_or(i128::MIN, |n| -n),
    }
}

#[cfg(unix)]
fn links_of(metadata: &fs::Metadata) -> u64 {
    std::os::unix::fs::MetadataExt::nlink(metadata)
}

#[cfg(not(unix))]
fn links_of(_: &fs::Metadata) -> u64 {
    1
}

#[cfg(unix)]
fn owner_of(metadata: &fs::Metadata) -> Option<u32> {
    Some(std::os::unix::fs::MetadataExt::uid(metadata))
}

#[cfg(not(unix))]
fn owner_of(_: &fs::Metadata) -> Option<u32> {
    None
}

#[cfg(unix)]
fn group_of(metadata: &fs::Metadata) -> Option<u32> {
    Some(std::os::unix::fs::MetadataExt::gid(metadata))
}

#[cfg(not(unix))]
fn group_of(_: &fs::Metadata) -> Option<u32> {
    None
}

#[cfg(unix)]
fn mode_of(metadata: &fs::Metadata) -> Option<u32> {
    Some(std::os::unix::fs::MetadataExt::mode(metadata) & 0o7777)
}

#[cfg(not(unix))]
fn mode_of(_: &fs::Metadata) -> Option<u32> {
    None
}

#[cfg(unix)]
fn with_mode(options: &mut OpenOptions, mode: Option<u32>) -> &mut OpenOptions {
    use std::os::unix::fs::OpenOptionsExt;
    match mode {
        Some(mode) => options.mode(mode),
        None => options,
    }
}

#[cfg(not(unix))]
fn with_mode(options: &mut OpenOptions, _: Option<u32>) -> &mut OpenOptions {
    options
}

/// Gives back the bits that the umask took.
#[cfg(unix)]
fn set_mode(file: &File, mode: Option<u32>) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    let Some(mode) = mode else { return Ok(()) };
    let now = file.metadata()?.permissions().mode() & 0o7777;
    if now == mode { Ok(()) } else { file.set_permissions(fs::Permissions::from_mode(mode)) }
}

#[cfg(not(unix))]
fn set_mode(_: &File, _: Option<u32>) -> io::Result<()> {
    Ok(())
}

/// Opens without waiting for the other end, as a FIFO would, and takes no terminal.
fn without_waiting(options: &mut OpenOptions) -> &mut OpenOptions {
    #[cfg(unix)]
    {
        let flags = libc::O_NONBLOCK | libc::O_NOCTTY;
        std::os::unix::fs::OpenOptionsExt::custom_flags(options, flags);
    }
    options
}

/// Opens a file of ours: neither waits nor follows a symbolic link.
fn open_ours(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        // A link in the place of our file would have us write to, or lock, another one.
        options.custom_flags(libc::O_NONBLOCK | libc::O_NOFOLLOW);
    }
    let file = options.open(path).map_err(|error| match fs::symlink_metadata(path) {
        // The system speaks of too many levels of links.
        Ok(metadata) if metadata.is_symlink() => not_regular(FileKind::Link),
        _ => error,
    })?;
    match kind_of(&file.metadata()?) {
        FileKind::File => Ok(file),
        kind => Err(not_regular(kind)),
    }
}

#[cfg(unix)]
pub(super) fn identity(metadata: &fs::Metadata) -> FileId {
    use std::os::unix::fs::MetadataExt;
    (metadata.dev(), metadata.ino())
}

/// Without file numbers the time of creation has to serve.
#[cfg(not(unix))]
pub(super) fn identity(metadata: &fs::Metadata) -> FileId {
    let created = metadata.created().ok();
    let since = created.and_then(|t| t.duration_since(std::time::UNIX_EPOCH).ok());
    since.map_or((0, 0), |d| (d.as_secs(), u64::from(d.subsec_nanos())))
}

/// A file read by one call per access; its position is never used, so threads and forked
/// processes may share it.
struct PlainFile {
    file: File,
    path: Box<Path>,
    len: u64,
    id: FileId,
}

impl ReadAt for PlainFile {
    fn len(&self) -> u64 {
        self.len
    }

    fn id(&self) -> FileId {
        self.id
    }

    fn path(&self) -> &Path {
        &self.path
    }

    fn read_exact_at(&self, buf: &mut [u8], at: u64) -> Result<()> {
        read_exact_at(&self.file, buf, at).at(&self.path)
    }
}

#[cfg(unix)]
pub(super) fn read_exact_at(file: &File, buf: &mut [u8], at: u64) -> io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, buf, at)
}

#[cfg(windows)]
pub(super) fn read_exact_at(file: &File, mut buf: &mut [u8], mut at: u64) -> io::Result<()> {
    while !buf.is_empty() {
        let n = std::os::windows::fs::FileExt::seek_read(file, buf, at)?;
        if n == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        buf = &mut buf[n..];
        at += n as u64;
    }
    Ok(())
}

struct LocalSink {
    file: File,
    path: Box<Path>,
    /// The end of the file, if known: only used to divide the bytes.
    end: u64,
    pieces: Pieces,
}

impl LocalSink {
    fn new(file: File, path: &Path, end: u64) -> LocalSink {
        LocalSink { file, path: path.into(), end, pieces: Pieces::new() }
    }
}

impl Sink for LocalSink {
    fn append(&mut self, mut bytes: &[u8]) -> Result<()> {
        while !bytes.is_empty() {
            let (piece, rest) = bytes.split_at(self.pieces.next(self.end, bytes.len()));
            let start = self.pieces.is_telling(piece.len()).then(Instant::now);
            self.file.write_all(piece).at(&self.path)?;
            self.pieces.wrote(piece.len(), start.map(|start| start.elapsed()));
            self.end += piece.len() as u64;
            bytes = rest;
        }
        Ok(())
    }

    fn write_at(&mut self, bytes: &[u8], at: u64) -> Result<()> {
        write_all_at(&mut self.file, bytes, at).at(&self.path)
    }

    fn set_len(&mut self, len: u64) -> Result<()> {
        self.file.set_len(len).at(&self.path)?;
        self.end = io::Seek::seek(&mut self.file, io::SeekFrom::End(0)).at(&self.path)?;
        Ok(())
    }

    fn sync(&mut self) -> Result<()> {
        self.file.sync_all().at(&self.path)
    }
}

#[cfg(unix)]
fn write_all_at(file: &mut File, bytes: &[u8], at: u64) -> io::Result<()> {
    std::os::unix::fs::FileExt::write_all_at(file, bytes, at)
}

#[cfg(windows)]
fn write_all_at(file: &mut File, mut bytes: &[u8], mut at: u64) -> io::Result<()> {
    use std::io::{Seek, SeekFrom};
    let end = file.stream_position()?;
    while !bytes.is_empty() {
        let n = std::os::windows::fs::FileExt::seek_write(file, bytes, at)?;
        bytes = &bytes[n..];
        at += n as u64;
    }
    // A positioned write moves the position here.
    file.seek(SeekFrom::Start(end.max(at))).map(drop)
}
