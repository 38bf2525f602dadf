//! [`NewFile`]: the file of a writer, which gets its name when it is finished.

use std::io::{self, BufWriter, IntoInnerError, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::storage::{LocalStorage, ReplaceFile, ReplaceOptions};

/// Bytes that are written with one call of the system.
const BUFFER: usize = 1 << 17;

static LOCAL: LocalStorage = LocalStorage::positioned();

/// A buffered new file. Dropped before [`finish`](Self::finish), it is removed.
pub(super) struct NewFile {
    path: PathBuf,
    file: BufWriter<ReplaceFile<'static>>,
}

impl NewFile {
    /// Begins a file, which must not exist yet.
    pub(super) fn create(path: impl Into<PathBuf>) -> Result<NewFile> {
        let path = path.into();
        let options = ReplaceOptions::default().overwrite(false);
        let file = ReplaceFile::create_in(&LOCAL, &path, &options)?;
        Ok(NewFile { path, file: BufWriter::with_capacity(BUFFER, file) })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Writes all of these bytes. Unlike [`Write`]'s, its error names the file.
    pub(super) fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.file.write_all(bytes).map_err(|error| Error::io(&self.path, error))
    }

    /// Finishes this file, and begins another one in its stead, which must not exist yet.
    pub(super) fn next(&mut self, path: &Path) -> Result<()> {
        let next = NewFile::create(path)?;
        std::mem::replace(self, next).finish()
    }

    /// Makes the file durable and gives it its name.
    pub(super) fn finish(self) -> Result<()> {
        let file = self.file.into_inner().map_err(IntoInnerError::into_error);
        file.map_err(|error| Error::io(&self.path, error))?.finish()
    }
}

impl Write for NewFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Seek for NewFile {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.file.seek(to)
    }
}
