//! The files of a tar archive, read as a stream.

use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use super::compressed;
use super::source_file::{SourceFile, open_regular};
use crate::error::{Error, Result};
use crate::format::tar::{ArchiveBytes, BLOCK, Ending, Entries, Entry, Records};

/// The files of an archive, one after the other.
pub(crate) struct Archive<'a> {
    entries: Entries<Blamed<'a>>,
}

/// The bytes of an archive.
pub(crate) trait Bytes: Read + Send {
    /// Skips up to this many bytes. Returns how many there were.
    fn pass(&mut self, size: u64) -> io::Result<u64>;
}

/// Bytes that can be skipped only by reading them.
struct Stream<'a>(Box<dyn Read + Send + 'a>);

impl Read for Stream<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }
}

impl Bytes for Stream<'_> {
    fn pass(&mut self, size: u64) -> io::Result<u64> {
        io::copy(&mut self.0.by_ref().take(size), &mut io::sink())
    }
}

/// A file, in which bytes are skipped without reading them.
struct Plain {
    file: BufReader<SourceFile>,
    position: u64,
    len: u64,
}

impl Read for Plain {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read(buffer)?;
        self.position += read as u64;
        Ok(read)
    }
}

impl Bytes for Plain {
    fn pass(&mut self, size: u64) -> io::Result<u64> {
        let there = self.len.saturating_sub(self.position).min(size);
        // A relative seek keeps what is in the buffer; small files would be read again and again.
        match i64::try_from(there) {
            Ok(step) => self.file.seek_relative(step)?,
            Err(_) => drop(self.file.seek(SeekFrom::Start(self.position + there))?),
        }
        self.position += there;
        Ok(there)
    }
}

/// The bytes of the archive at this path, which errors name.
struct Blamed<'a> {
    path: PathBuf,
    input: Box<dyn Bytes + 'a>,
}

impl ArchiveBytes for Blamed<'_> {
    type Content = Vec<u8>;

    fn fill(&mut self, block: &mut [u8; BLOCK]) -> Result<usize> {
        let mut len = 0;
        while len < BLOCK {
            match self.input.read(&mut block[len..]) {
                Ok(0) => break,
                Ok(read) => len += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(compressed::blame(&self.path, error)),
            }
        }
        Ok(len)
    }

    fn take(&mut self, size: u64) -> Result<Vec<u8>> {
        // Reserve no more than a small file needs: the size is not to be trusted.
        let mut data = Vec::with_capacity(usize::try_from(size.min(1 << 20)).unwrap_or(0));
        let read = self.input.by_ref().take(size).read_to_end(&mut data);
        read.map_err(|error| compressed::blame(&self.path, error))?;
        Ok(data)
    }

    fn pass(&mut self, size: u64) -> Result<u64> {
        self.input.pass(size).map_err(|error| compressed::blame(&self.path, error))
    }
}

impl<'a> Archive<'a> {
    /// Opens an archive, which may be compressed. Files of more than `max_bytes` are errors.
    pub(crate) fn open(path: &Path, max_bytes: u64) -> Result<Archive<'static>> {
        let input = Box::new(Stream(compressed::open(path)?));
        Ok(Archive::new(path, input, 0, max_bytes))
    }

    /// The archive of this name, whose bytes come from a stream.
    pub(super) fn of_stream(
        path: &Path,
        input: Box<dyn Read + Send>,
        max_bytes: u64,
    ) -> Archive<'static> {
        Archive::new(path, Box::new(Stream(input)), 0, max_bytes)
    }

    fn new<'b>(
        path: &Path,
        input: Box<dyn Bytes + 'b>,
        position: u64,
        max_bytes: u64,
    ) -> Archive<'b> {
        let bytes = Blamed { path: path.to_path_buf(), input };
        Archive { entries: Entries::new(bytes, position, max_bytes) }
    }

    /// Lets the file end after a whole entry, without an end mark.
    pub(super) fn open_end(mut self, open_end: bool) -> Self {
        self.entries = self.entries.open_end(open_end);
        self
    }

    /// Opens an archive that is not compressed, at the first header of an entry. `at_once` bytes
    /// are read at a time.
    pub(super) fn open_at(
        path: &Path,
        position: u64,
        at_once: usize,
        max_bytes: u64,
    ) -> Result<Archive<'static>> {
        let at = |error| Error::io(path, error);
        let mut file = open_regular(path).map_err(at)?;
        let len = file.len().map_err(at)?;
        file.seek(SeekFrom::Start(position)).map_err(at)?;
        let file = BufReader::with_capacity(at_once, file);
        let input = Box::new(Plain { file, position, len });
        Ok(Archive::new(path, input, position, max_bytes))
    }

    /// The archive at this path, whose bytes come from `input`.
    #[cfg(feature = "datasets")]
    pub(crate) fn over(path: &Path, input: Box<dyn Bytes + 'a>, max_bytes: u64) -> Archive<'a> {
        Archive::new(path, input, 0, max_bytes)
    }

    /// Reads the file that [`next`](Self::next) returned as an archive, without holding it in
    /// memory.
    #[cfg(feature = "datasets")]
    pub(crate) fn nested<T>(
        &mut self,
        entry: &Entry,
        max_bytes: u64,
        read: impl FnOnce(&mut Archive<'_>) -> Result<T>,
    ) -> Result<T> {
        let path = self.path().join(&entry.name);
        let mut content = self.entries.bytes_mut().input.by_ref().take(entry.size);
        let input = Box::new(Stream(Box::new(&mut content)));
        let done = read(&mut Archive::over(&path, input, max_bytes))?;
        // The inner archive ends before its file does: padding and what follows were not read.
        let left = content.limit();
        self.entries.skip_rest(entry.size, left).map_err(|error| error.at(self.path()))?;
        Ok(done)
    }

    /// The file.
    pub(super) fn path(&self) -> &Path {
        &self.entries.bytes().path
    }

    /// The position of the next bytes of the file that [`next`](Self::next) returned.
    pub(crate) fn position(&self) -> u64 {
        self.entries.position()
    }

    /// Our own records about the whole archive: those of [`Entries::take_global`].
    pub(super) fn take_global(&mut self) -> Option<(u64, Records)> {
        self.entries.take_global()
    }

    /// How the file ended, once it has.
    pub(super) fn ending(&self) -> Ending {
        self.entries.ending()
    }

    /// The next file; directories are skipped. Call [`read`](Self::read) or [`skip`](Self::skip)
    /// for its bytes before the next one.
    ///
    /// The inner error is about one entry, which has been skipped.
    #[cfg(feature = "datasets")]
    pub(crate) fn next(&mut self) -> Result<Option<Result<Entry>>> {
        let found = self.next_or_refused()?;
        Ok(found.map(|(entry, flaw)| match flaw {
            Some(error) => Err(error),
            None => Ok(entry),
        }))
    }

    /// The same, with the name and the position of a refused entry, which has been skipped.
    pub(super) fn next_or_refused(&mut self) -> Result<Option<(Entry, Option<Error>)>> {
        self.entries
            .next()
            .map_err(|error| error.at(self.path()))
            .map(|found| found.map(|(entry, flaw)| (entry, flaw.map(|flaw| flaw.at(self.path())))))
    }

    /// The bytes of the file that [`next`](Self::next) returned.
    pub(crate) fn read(&mut self, size: u64) -> Result<Vec<u8>> {
        self.entries.read(size).map_err(|error| error.at(self.path()))
    }

    /// Skips this many bytes, and the padding after them.
    pub(crate) fn skip(&mut self, size: u64) -> Result<()> {
        self.entries.skip(size).map_err(|error| error.at(self.path()))
    }
}
