//! The file system: maps or positioned reads, and the calls that make writes last.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::{FileId, Lock, Map, ReadAt, Sink, Source, Stat, Storage};

/// The local file system.
#[derive(Debug, Clone, Copy)]
pub struct LocalStorage {
    map: bool,
}

impl LocalStorage {
    /// Reads through memory maps: the fastest way, and the default everywhere. See [`Map`] for
    /// its one hazard.
    pub fn mapped() -> LocalStorage {
        LocalStorage { map: true }
    }

    /// Reads by one call per access: for files that another program may truncate, and for file
    /// systems that cannot map.
    pub fn positioned() -> LocalStorage {
        LocalStorage { map: false }
    }
}

impl Storage for LocalStorage {
    fn open(&self, path: &Path) -> io::Result<Source> {
        let file = File::open(path)?;
        let metadata = file.metadata()?;
        if metadata.is_dir() {
            return Err(io::Error::other("is a directory"));
        }
        let (len, id) = (metadata.len(), identity(&metadata));
        if !self.map {
            return Ok(Source::Positioned(Box::new(PlainFile { file, len, id })));
        }
        let len = usize::try_from(len).map_err(|_| io::Error::other("too large to be mapped"))?;
        Ok(Source::Mapped(Map::new(&file, len, id)?))
    }

    fn stat(&self, path: &Path) -> io::Result<Option<Stat>> {
        match fs::metadata(path) {
            Ok(metadata) => {
                let (len, id, is_dir) = (metadata.len(), identity(&metadata), metadata.is_dir());
                Ok(Some(Stat { len, id, is_dir }))
            }
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(e),
        }
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn Sink>> {
        let file = OpenOptions::new().write(true).create_new(true).open(path)?;
        Ok(Box::new(LocalSink { file }))
    }

    fn reopen(&self, path: &Path) -> io::Result<Box<dyn Sink>> {
        let mut file = OpenOptions::new().write(true).open(path)?;
        io::Seek::seek(&mut file, io::SeekFrom::End(0))?;
        Ok(Box::new(LocalSink { file }))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        fs::create_dir(path)
    }

    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        fs::create_dir_all(path)
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        fs::remove_dir(path)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<PathBuf>> {
        let mut paths =
            fs::read_dir(dir)?.map(|e| e.map(|e| e.path())).collect::<io::Result<Vec<_>>>()?;
        paths.sort();
        Ok(paths)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        // Windows has no such call: there a rename lasts when the file system's log says so.
        if cfg!(unix) {
            let dir = if dir.as_os_str().is_empty() { Path::new(".") } else { dir };
            File::open(dir)?.sync_all()?;
        }
        Ok(())
    }

    fn lock(&self, path: &Path) -> io::Result<Option<Lock>> {
        let file = OpenOptions::new().write(true).create(true).truncate(false).open(path)?;
        match fs4::FileExt::try_lock(&file) {
            Ok(()) => {}
            Err(fs4::TryLockError::WouldBlock) => return Ok(None),
            Err(fs4::TryLockError::Error(e)) => return Err(e),
        }
        // Whoever held the lock may have removed the file before letting go, and another one may
        // hold a new file of this name by now: what was locked here guards nothing.
        let id = identity(&file.metadata()?);
        match self.stat(path)? {
            Some(stat) if stat.id == id => Ok(Some(Lock(Box::new(file)))),
            _ => Ok(None),
        }
    }
}

#[cfg(unix)]
fn identity(metadata: &fs::Metadata) -> FileId {
    use std::os::unix::fs::MetadataExt;
    (metadata.dev(), metadata.ino())
}

/// Without file numbers the time of creation has to serve.
#[cfg(not(unix))]
fn identity(metadata: &fs::Metadata) -> FileId {
    let created = metadata.created().ok();
    let since = created.and_then(|t| t.duration_since(std::time::UNIX_EPOCH).ok());
    since.map_or((0, 0), |d| (d.as_secs(), u64::from(d.subsec_nanos())))
}

/// A file read by one call per access; its position is never used, so threads and forked
/// processes may share it.
struct PlainFile {
    file: File,
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

    #[cfg(unix)]
    fn read_exact_at(&self, buf: &mut [u8], at: u64) -> io::Result<()> {
        std::os::unix::fs::FileExt::read_exact_at(&self.file, buf, at)
    }

    #[cfg(windows)]
    fn read_exact_at(&self, mut buf: &mut [u8], mut at: u64) -> io::Result<()> {
        while !buf.is_empty() {
            let n = std::os::windows::fs::FileExt::seek_read(&self.file, buf, at)?;
            if n == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            buf = &mut buf[n..];
            at += n as u64;
        }
        Ok(())
    }
}

struct LocalSink {
    file: File,
}

/// Bytes that are written at once. The page cache takes a call in as few pages as it can, and large
/// ones may be such as a virtual machine has given back to its host: written a megabyte at a time,
/// what is 2 to 3 GB/s in pieces of this size was 0.2 GB/s.
const PIECE: usize = 64 << 10;

impl Sink for LocalSink {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        bytes.chunks(PIECE).try_for_each(|piece| self.file.write_all(piece))
    }

    #[cfg(unix)]
    fn write_at(&mut self, bytes: &[u8], at: u64) -> io::Result<()> {
        std::os::unix::fs::FileExt::write_all_at(&self.file, bytes, at)
    }

    #[cfg(windows)]
    fn write_at(&mut self, mut bytes: &[u8], mut at: u64) -> io::Result<()> {
        use std::io::{Seek, SeekFrom};
        let end = self.file.stream_position()?;
        while !bytes.is_empty() {
            let n = std::os::windows::fs::FileExt::seek_write(&self.file, bytes, at)?;
            bytes = &bytes[n..];
            at += n as u64;
        }
        // A positioned write moves the position here.
        self.file.seek(SeekFrom::Start(end.max(at))).map(drop)
    }

    fn set_len(&mut self, len: u64) -> io::Result<()> {
        self.file.set_len(len)?;
        io::Seek::seek(&mut self.file, io::SeekFrom::End(0)).map(drop)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.file.sync_all()
    }
}
