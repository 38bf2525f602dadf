//! The parts of a file that are in the page cache.

use std::fs::File;
use std::path::Path;

use super::{Result, Source};
use crate::error::Error;

/// A file that may be partly in memory already, because a program has read or written it.
pub(crate) struct CachedFile {
    file: File,
    path: Box<Path>,
}

impl CachedFile {
    /// The file of a source that is mapped. `None` where it cannot be opened once more, or another has its name by
    /// now, and where the system does not tell what it has in memory.
    pub(crate) fn of(source: &Source) -> Option<CachedFile> {
        if !read::TELLS || source.mapped().is_none() {
            return None;
        }
        let path = source.path();
        let (file, metadata) = super::local::open_plain(path).ok()?;
        let is_same = super::local::identity(&metadata) == source.id();
        is_same.then(|| CachedFile { file, path: path.into() })
    }

    /// Reads these bytes if all of them are in memory.
    pub(crate) fn read_if_cached(&self, buffer: &mut [u8], at: u64) -> bool {
        read::without_waiting(&self.file, buffer, at)
    }

    /// Reads these bytes from wherever they are.
    pub(crate) fn read(&self, buffer: &mut [u8], at: u64) -> Result<()> {
        super::local::read_exact_at(&self.file, buffer, at).map_err(|e| Error::io(&self.path, e))
    }

    /// Announces that it will be read from front to back. Only advice, so it never fails.
    pub(crate) fn sequential(&self) {
        read::sequential(&self.file);
    }
}

#[cfg(target_os = "linux")]
mod read {
    use std::fs::File;
    use std::io::IoSliceMut;

    use rustix::fs::{Advice, fadvise};
    use rustix::io::{Errno, ReadWriteFlags, preadv2};

    pub(super) const TELLS: bool = true;

    /// File systems that do not support this refuse such reads, as do all old kernels.
    pub(super) fn without_waiting(file: &File, buffer: &mut [u8], at: u64) -> bool {
        loop {
            let whole = buffer.len();
            let mut buffers = [IoSliceMut::new(buffer)];
            match preadv2(file, &mut buffers, at, ReadWriteFlags::NOWAIT) {
                Err(Errno::INTR) => {}
                read => return read == Ok(whole),
            }
        }
    }

    pub(super) fn sequential(file: &File) {
        let _ = fadvise(file, 0, None, Advice::Sequential);
    }
}

#[cfg(not(target_os = "linux"))]
mod read {
    use std::fs::File;

    pub(super) const TELLS: bool = false;

    pub(super) fn without_waiting(_: &File, _: &mut [u8], _: u64) -> bool {
        false
    }

    pub(super) fn sequential(_: &File) {}
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use crate::storage::{LocalStorage, Storage as _};

    #[test]
    fn what_was_written_just_now_is_in_memory() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        std::fs::write(&path, b"some bytes").unwrap();
        let source = LocalStorage::mapped().open(&path).unwrap();
        let file = CachedFile::of(&source).unwrap();
        // Other bytes are waited for.
        let flags = rustix::fs::fcntl_getfl(&file.file).unwrap();
        assert!(!flags.contains(rustix::fs::OFlags::NONBLOCK));
        let mut bytes = [0; 5];
        // Some file systems do not tell; none may hand out something else.
        if file.read_if_cached(&mut bytes, 5) {
            assert_eq!(&bytes, b"bytes");
        }
        assert!(!file.read_if_cached(&mut bytes, 6), "beyond the end");
        file.read(&mut bytes, 0).unwrap();
        assert_eq!(&bytes, b"some ");
        assert_eq!(file.read(&mut bytes, 6).unwrap_err().path(), Some(&*path));

        // Another file of this name is not the one that was opened.
        std::fs::write(dir.path().join("new"), b"other ones").unwrap();
        std::fs::rename(dir.path().join("new"), &path).unwrap();
        assert!(CachedFile::of(&source).is_none());
    }
}
