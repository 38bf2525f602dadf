//! Files that are converted: on a disk, or behind a URL.
//!
//! A file behind a URL is read by ranges: from front to back with more and more on its way over several
//! connections, and all of one version. A connection that ends is resumed where it ended.

use std::collections::{HashMap, VecDeque};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::slice;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::SystemTime;

use super::signed;
use crate::error::{Error, ErrorKind, Result};
use crate::regular;
use crate::storage::read_ahead::Ahead;
use crate::storage::{self, FileId, LocalStorage, Source, Storage};

/// A file that is read from any position.
pub(in crate::convert) enum SourceFile {
    Local(File),
    Remote(Remote),
}

/// An object, and where it is read next.
pub(in crate::convert) struct Remote {
    source: Source,
    at: u64,
    /// Ranges that will be read and were not requested yet.
    announced: Range<u64>,
    /// Requested ranges, by their ends.
    flights: VecDeque<(u64, Arc<Ahead>)>,
    /// It is not read any more.
    closed: Arc<AtomicBool>,
}

impl Drop for Remote {
    fn drop(&mut self) {
        self.closed.store(true, Relaxed);
    }
}

/// Bytes of what will be read that are on their way or wait to be read, and of one request.
pub(super) const AT_ONCE: u64 = 32 << 20;
const PART: u64 = 4 << 20;

/// Opens a regular file, or an object.
pub(in crate::convert) fn open_regular(path: &Path) -> io::Result<SourceFile> {
    let file = open_once(path)?;
    if let SourceFile::Remote(remote) = &file {
        check_version(path, remote.source.id()).map_err(into_io)?;
    }
    Ok(file)
}

/// The same for a file that a conversion opens once: of its version no note is kept.
pub(in crate::convert) fn open_once(path: &Path) -> io::Result<SourceFile> {
    if !storage::is_url(path) {
        return regular::open_regular(path).map(SourceFile::Local);
    }
    let (storage, path) = storage_of(path).map_err(into_io)?;
    let source = storage.open(&path).map_err(into_io)?;
    let (flights, closed) = (VecDeque::new(), Arc::default());
    Ok(SourceFile::Remote(Remote { source, at: 0, announced: 0..0, flights, closed }))
}

/// The same, and its size.
pub(in crate::convert) fn open_sized(path: &Path) -> io::Result<(SourceFile, u64)> {
    if !storage::is_url(path) {
        return regular::open_sized(path).map(|(file, len)| (SourceFile::Local(file), len));
    }
    let file = open_once(path)?;
    let len = file.len()?;
    Ok((file, len))
}

/// Size and second of the last change of a file; `None` if it does not exist. It shows whether two runs see the same.
pub(in crate::convert) type FileStamp = Option<(u64, u64)>;

pub(in crate::convert) fn stamp(path: &Path) -> FileStamp {
    let found = path.metadata().ok()?;
    let modified = found.modified().ok()?.duration_since(SystemTime::UNIX_EPOCH).ok();
    Some((found.len(), modified.map_or(0, |time| time.as_secs())))
}

/// Adds stamps to what identifies an input.
pub(in crate::convert) fn identify(stamps: &[FileStamp], add: &mut dyn FnMut(&[u8])) {
    for stamp in stamps {
        let (bytes, modified) = stamp.unwrap_or((u64::MAX, 0));
        add(&bytes.to_le_bytes());
        add(&modified.to_le_bytes());
    }
}

/// Reads a whole file behind what `head` makes for its size.
///
/// # Errors
///
/// [`Limit`](ErrorKind::Limit) for more than `max` bytes, and [`Io`](ErrorKind::Io) for a file that is changing.
pub(in crate::convert) fn read_whole(
    path: &Path,
    max: u64,
    head: impl FnOnce(usize) -> Result<Vec<u8>>,
) -> Result<Vec<u8>> {
    let at = |error| Error::io(path, error);
    check_urls(&[path])?;
    let (mut input, len) = open_sized(path).map_err(at)?;
    if len > max {
        let message = format!("expected at most {max} bytes, found {len}");
        return Err(Error::above_limit("max_bytes", message));
    }
    let len = usize::try_from(len).unwrap_or(usize::MAX);
    let mut out = head(len)?;
    let before = out.len();
    // One more byte shows a file that has grown, mostly without another call.
    out.resize(before + len + 1, 0);
    let mut found = 0;
    while found < len || len == 0 {
        match input.read(&mut out[before + found..]) {
            Ok(0) => break,
            Ok(read) => found += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(at(error)),
        }
    }
    out.truncate(before + len);
    if found != len {
        let found = if found > len { "more".into() } else { found.to_string() };
        let message = format!("expected {len} bytes, found {found}: the file is changing");
        return Err(Error::new(ErrorKind::Io, message));
    }
    Ok(out)
}

/// Opens a file that is read by ranges: on a disk it is mapped.
pub(in crate::convert) fn open_source(path: &Path) -> Result<Source> {
    let (storage, path) = storage_of(path)?;
    storage.open(&path)
}

/// The size of a regular file or an object; `None` for what has none or is not there.
pub(in crate::convert) fn size_of(path: &Path) -> io::Result<Option<u64>> {
    if !storage::is_url(path) {
        let found = path.metadata()?;
        return Ok(found.is_file().then_some(found.len()));
    }
    let (storage, path) = storage_of(path).map_err(into_io)?;
    match storage.stat(&path).map_err(into_io)? {
        Some(stat) => {
            check_version(&path, stat.id).map_err(into_io)?;
            Ok(Some(stat.len))
        }
        None => {
            let message = "there is no such object, or it may not be read";
            let error = Error::new(ErrorKind::NotFound, message);
            Err(into_io(error))
        }
    }
}

/// Storages that are in use, by the beginning of their URLs: with one for each file, none would find a
/// connection that is open.
static STORAGES: Mutex<Vec<(String, Arc<dyn Storage>)>> = Mutex::new(Vec::new());

/// A list may name files of any number of servers.
const STORAGES_KEPT: usize = 64;

/// The version of each object since [`forget_versions`]: a conversion opens it again and again.
static VERSIONS: LazyLock<Mutex<HashMap<PathBuf, FileId>>> = LazyLock::new(Mutex::default);

/// Fails for an object that was read in another version before.
pub(super) fn check_version(path: &Path, id: FileId) -> Result<()> {
    let mut versions = VERSIONS.lock().unwrap_or_else(PoisonError::into_inner);
    match *versions.entry(path.to_path_buf()).or_insert(id) == id {
        true => Ok(()),
        false => {
            let message = "the object was replaced while it was read: convert it again";
            Err(Error::new(ErrorKind::Replaced, message))
        }
    }
}

/// A number for the version of an object that a conversion has opened or asked the size of.
pub(super) fn version_of(path: &Path) -> Option<FileId> {
    VERSIONS.lock().unwrap_or_else(PoisonError::into_inner).get(path).copied()
}

/// A new conversion of these begins: what was read before may have been replaced since.
pub(in crate::convert) fn forget_versions(paths: &[PathBuf]) {
    let mut versions = VERSIONS.lock().unwrap_or_else(PoisonError::into_inner);
    for path in paths {
        versions.remove(path);
    }
}

/// Where a file is, and its name there.
pub(in crate::convert) fn storage_of(url: &Path) -> Result<(Arc<dyn Storage>, PathBuf)> {
    if !storage::is_url(url) {
        return Ok((Arc::new(LocalStorage::mapped()), url.to_path_buf()));
    }
    if let Some(storage) = signed::storage_of(url) {
        return Ok((storage, url.to_path_buf()));
    }
    let text = url.to_string_lossy();
    let root = storage::root(&text);
    let mut known = STORAGES.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, storage)) = known.iter().find(|(known, _)| *known == root) {
        return Ok((storage.clone(), url.to_path_buf()));
    }
    let (storage, path) = storage::of(url)?;
    if known.len() == STORAGES_KEPT {
        known.remove(0);
    }
    known.push((root.to_owned(), storage.clone()));
    Ok((storage, path))
}

/// Fails for URLs with what must not be shown: the names of sources are part of errors, plans and
/// reports.
pub(in crate::convert) fn check_urls(paths: &[impl AsRef<Path>]) -> Result<()> {
    for path in paths.iter().map(AsRef::as_ref).filter(|path| storage::is_url(path)) {
        let shown = storage::shown(path);
        if shown != *path {
            let message = "expected a URL without user, password and query, as plans and reports show \
                           the names of sources, found one with them";
            return Err(Error::new(ErrorKind::Unsupported, message).at(shown));
        }
        // Whether it names anything is known before any request.
        storage_of(path)?;
    }
    Ok(())
}

/// The caller adds the file.
fn into_io(error: Error) -> io::Error {
    let kind = match error.kind() {
        ErrorKind::NotFound => io::ErrorKind::NotFound,
        // Not one of those that mean damage.
        _ => error
            .io_kind()
            .filter(|kind| *kind != io::ErrorKind::Other)
            .unwrap_or(io::ErrorKind::ConnectionAborted),
    };
    let kind = match kind {
        io::ErrorKind::UnexpectedEof | io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput => {
            io::ErrorKind::ConnectionAborted
        }
        kind => kind,
    };
    io::Error::new(kind, error.reason())
}

impl SourceFile {
    /// Bytes of the file.
    pub(in crate::convert) fn len(&self) -> io::Result<u64> {
        match self {
            SourceFile::Local(file) => Ok(file.metadata()?.len()),
            SourceFile::Remote(remote) => Ok(remote.source.len()),
        }
    }

    /// Announces that these bytes will be read from front to back, and perhaps a few more: behind a URL
    /// no others are fetched ahead.
    pub(in crate::convert) fn will_read(&mut self, range: Range<u64>) {
        if let SourceFile::Remote(remote) = self {
            remote.flights.clear();
            remote.announced = range.start..range.end.min(remote.source.len());
        }
    }
}

impl Remote {
    /// Asks for more of what was announced, and waits for that which the next byte is of. Returns where that
    /// ends.
    fn fetch_announced(&mut self) -> u64 {
        if self.announced.contains(&self.at) {
            self.announced.start = self.at;
        }
        let reach = self.announced.end.min(self.at.saturating_add(AT_ONCE));
        while self.announced.start < reach {
            let start = self.announced.start;
            // A small rest comes with the part before it.
            let is_last = self.announced.end - start <= PART + PART / 2;
            let end = if is_last { self.announced.end } else { start + PART };
            if end > reach {
                break;
            }
            let ahead = Ahead::new(Some(self.closed.clone()));
            // A failure is reported when the bytes are read.
            let _ = ahead.run(|| self.source.fetch_in_order(slice::from_ref(&(start..end))));
            self.flights.push_back((end, ahead));
            self.announced.start = end;
        }
        while self.flights.front().is_some_and(|(end, _)| *end <= self.at) {
            self.flights.pop_front();
        }
        match self.flights.front() {
            // A read that goes beyond would be of two parts, and fetch all of it once more.
            Some((end, ahead)) => {
                ahead.wait();
                *end
            }
            None => u64::MAX,
        }
    }
}

impl Read for SourceFile {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let remote = match self {
            SourceFile::Local(file) => return file.read(buffer),
            SourceFile::Remote(remote) => remote,
        };
        let end = remote.fetch_announced();
        let left = remote.source.len().min(end).saturating_sub(remote.at);
        let len = left.min(buffer.len() as u64);
        if len == 0 {
            return Ok(0);
        }
        let bytes = remote.source.read(remote.at..remote.at + len).map_err(into_io)?;
        buffer[..bytes.len()].copy_from_slice(&bytes);
        remote.at += len;
        Ok(bytes.len())
    }
}

impl Seek for SourceFile {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let remote = match self {
            SourceFile::Local(file) => return file.seek(to),
            SourceFile::Remote(remote) => remote,
        };
        let at = match to {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::Current(step) => remote.at.checked_add_signed(step),
            SeekFrom::End(step) => remote.source.len().checked_add_signed(step),
        };
        let before_start =
            || io::Error::new(io::ErrorKind::InvalidInput, "a position before the start");
        remote.at = at.ok_or_else(before_start)?;
        Ok(remote.at)
    }
}
