//! [`NamedInput`]: what is packed or unpacked, read once from its start.

use std::borrow::Cow;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};

use crate::array::on_disk::expect_on_disk;
use crate::error::{Error, ErrorKind, Result};
use crate::storage::{LocalStorage, Source, Storage};

/// A file, a pipe or standard input, read once from its start. Its errors name it, and a program can
/// follow how far it is.
///
/// ```
/// use std::io::Read;
/// use kiste::array::NamedInput;
///
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("data");
/// std::fs::write(&path, "12345")?;
/// let mut input = NamedInput::open(&path)?;
/// assert_eq!(input.len(), Some(5));
/// assert_eq!(input.read(&mut [0; 3])?, 3);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct NamedInput {
    from: Box<dyn Read + Send>,
    path: PathBuf,
    len: Option<u64>,
    position: u64,
    progress: Box<dyn FnMut(u64) -> Result<()> + Send>,
}

/// All bytes of an input: mapped, if it is a file.
pub struct InputBytes(Bytes);

enum Bytes {
    Mapped(Source),
    Read(Vec<u8>),
}

impl NamedInput {
    /// Opens a file, or a pipe of this name; `-` is standard input.
    ///
    /// # Errors
    ///
    /// [`Invalid`](ErrorKind::Invalid) for a directory, and the errors of the system.
    pub fn open(path: impl AsRef<Path>) -> Result<NamedInput> {
        let path = path.as_ref();
        let (from, len): (Box<dyn Read + Send>, _) = if path == Path::new("-") {
            (Box::new(io::stdin()), None)
        } else {
            expect_on_disk(path)?;
            let at = |error| Error::io(path, error);
            let file = File::open(path).map_err(at)?;
            let metadata = file.metadata().map_err(at)?;
            if metadata.is_dir() {
                let message = "expected a file, found a directory";
                return Err(Error::new(ErrorKind::Invalid, message).at(path));
            }
            // Some files that claim to be empty are not, such as those in /proc.
            let len = Some(metadata.len()).filter(|len| metadata.is_file() && *len > 0);
            (Box::new(BufReader::with_capacity(64 << 10, file)), len)
        };
        let progress = Box::new(|_| Ok(()));
        Ok(NamedInput { from, path: path.to_path_buf(), len, position: 0, progress })
    }

    /// Calls this with how many bytes were read so far; an error of it ends the read.
    pub fn progress(mut self, hear: impl FnMut(u64) -> Result<()> + Send + 'static) -> NamedInput {
        self.progress = Box::new(hear);
        self
    }

    /// How many bytes there are, if it is a regular file and not empty.
    #[expect(clippy::len_without_is_empty, reason = "of a pipe nothing is known")]
    pub fn len(&self) -> Option<u64> {
        self.len
    }

    /// All bytes: a file is mapped, everything else read to its end.
    ///
    /// # Errors
    ///
    /// The errors of the system, and of [`progress`](Self::progress).
    pub fn into_bytes(mut self) -> Result<InputBytes> {
        if self.len.is_some() {
            return Ok(InputBytes(Bytes::Mapped(LocalStorage::mapped().open(&self.path)?)));
        }
        let mut bytes = Vec::new();
        match self.read_to_end(&mut bytes) {
            Ok(_) => Ok(InputBytes(Bytes::Read(bytes))),
            Err(error) => Err(match error.downcast::<Error>() {
                Ok(named) => named,
                Err(error) => Error::io(&self.path, error),
            }),
        }
    }
}

impl InputBytes {
    /// The bytes, borrowed if they are in memory.
    ///
    /// # Errors
    ///
    /// Errors of reading a file that cannot be mapped.
    pub fn get(&self) -> Result<Cow<'_, [u8]>> {
        match &self.0 {
            Bytes::Mapped(source) => source.read(0..source.len()),
            Bytes::Read(bytes) => Ok(Cow::Borrowed(bytes)),
        }
    }
}

impl Read for NamedInput {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let name = |error: io::Error| match error.kind() {
            io::ErrorKind::Interrupted => error,
            _ => io::Error::other(Error::io(&self.path, error)),
        };
        let found = self.from.read(buf).map_err(name)?;
        self.position += found as u64;
        (self.progress)(self.position).map_err(io::Error::other)?;
        Ok(found)
    }
}
