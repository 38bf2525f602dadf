//! The files of a tar archive, read as a stream.
//!
//! Archives that were concatenated are read one after the other, as Python's `tarfile` and GNU tar
//! with `--ignore-zeros` read them.

use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use super::compressed;
use super::source_file::{SourceFile, open_regular};
use crate::error::{Error, ErrorKind, Remedy, Result};
use crate::format::FormatError;
use crate::format::tar::{BLOCK, Header, Kind, padding, parse_header, pax_records};

/// The most bytes of a long name, or of the records, before an entry.
const MAX_EXTRA: u64 = 1 << 20;

/// The files of an archive, one after the other.
pub(crate) struct Archive<'a> {
    path: PathBuf,
    input: Box<dyn Bytes + 'a>,
    position: u64,
    max_bytes: u64,
    /// The last of our own records about the whole archive, and where their entry begins; none if they
    /// are damaged.
    pub(super) global: Option<(u64, Records)>,
    /// Whether the file may end without an end mark.
    open_end: bool,
    /// How the file ended, once it has.
    pub(super) ending: Ending,
}

/// How a file of archives ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    /// With an end mark, and perhaps zeros after it.
    Marked,
    /// After a whole entry, without an end mark.
    Unmarked,
    /// With this many bytes that are no archive, from this position on.
    Foreign { position: u64, bytes: u64 },
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

/// A file whose bytes come next in the archive.
pub(crate) struct Entry {
    /// Where its first header begins.
    pub(super) start: u64,
    pub(crate) name: String,
    pub(crate) size: u64,
    /// Records about it whose names begin with [`OWN`].
    pub(super) records: Records,
}

/// The prefix of our own records' names.
pub(super) const OWN: &str = "KISTE.";

/// Names and values of our own records.
pub(super) type Records = Vec<(String, String)>;

/// Headers before an entry that describe it.
#[derive(Default)]
struct Ahead {
    name: Option<Vec<u8>>,
    size: Option<u64>,
    records: Records,
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
        let (path, ending) = (path.to_path_buf(), Ending::Marked);
        Archive { path, input, position, max_bytes, global: None, open_end: false, ending }
    }

    /// Lets the file end after a whole entry, without an end mark.
    pub(super) fn open_end(mut self, open_end: bool) -> Self {
        self.open_end = open_end;
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
        let mut content = self.input.by_ref().take(entry.size);
        let input = Box::new(Stream(Box::new(&mut content)));
        let done = read(&mut Archive::over(&self.path.join(&entry.name), input, max_bytes))?;
        // The inner archive ends before its file does: padding and what follows were not read.
        let left = content.limit();
        self.position += entry.size - left;
        self.pass(left)?;
        self.pass(padding(entry.size) as u64)?;
        Ok(done)
    }

    /// The file.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The position of the next bytes of the file that [`next`](Self::next) returned.
    pub(crate) fn position(&self) -> u64 {
        self.position
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
        let mut ahead = Ahead::default();
        let mut start = self.position;
        loop {
            let Some(header) = self.header()? else {
                return Ok(None);
            };
            match header.kind {
                Kind::File => {
                    let size = ahead.size.unwrap_or(header.size);
                    let raw = ahead.name.unwrap_or(header.name);
                    let name = lossy(&raw);
                    let flaw = self.check(raw, size, start).err();
                    if flaw.is_some() {
                        self.skip(size)?;
                    }
                    let records = ahead.records;
                    return Ok(Some((Entry { start, name, size, records }, flaw)));
                }
                Kind::LongName => {
                    let mut name = self.extra(&header)?;
                    name.truncate(name.iter().position(|&byte| byte == 0).unwrap_or(name.len()));
                    ahead.name = Some(name);
                    continue;
                }
                Kind::Pax => {
                    let content = self.extra(&header)?;
                    self.pax(&content, start, &mut ahead)?;
                    continue;
                }
                // Those of other programs may be longer, and do not matter.
                Kind::GlobalPax if header.size <= MAX_EXTRA => {
                    let content = self.read(header.size)?;
                    let own_name = |bytes: &[u8]| bytes == OWN.as_bytes();
                    let records = match pax_records(&content) {
                        Ok(records) => records,
                        // Ours say what files are called, so they must be whole.
                        Err(error) if content.windows(OWN.len()).any(own_name) => {
                            self.global = Some((start, Records::new()));
                            return Err(self.format_error(start + BLOCK as u64, error));
                        }
                        Err(_) => Vec::new(),
                    };
                    let own: Records =
                        records.into_iter().filter_map(|(name, value)| own(name, value)).collect();
                    if !own.is_empty() {
                        self.global = Some((start, own));
                    }
                }
                Kind::Directory | Kind::GlobalPax => self.skip(header.size)?,
                Kind::Special(code) | Kind::Other(code) => {
                    let what = match code {
                        b'1' | b'2' => "a link".to_owned(),
                        b'3' | b'4' | b'6' => "a device".to_owned(),
                        b'S' => "a sparse file".to_owned(),
                        code => format!("an entry of type {:?}", char::from(code)),
                    };
                    let name = lossy(&ahead.name.unwrap_or(header.name));
                    let message = format!("expected files and directories, found {what}");
                    let error = self.error(ErrorKind::Unsupported, start, &name, &message);
                    self.skip(header.size)?;
                    let entry = Entry { start, name, size: header.size, records: Records::new() };
                    return Ok(Some((entry, Some(error))));
                }
            }
            ahead = Ahead::default();
            start = self.position;
        }
    }

    /// Fails unless the name and the size of a file are acceptable.
    fn check(&self, name: Vec<u8>, size: u64, start: u64) -> Result<()> {
        let name = self.check_name(name, start)?;
        if size > self.max_bytes {
            let message = format!("expected at most {} bytes, found {size}", self.max_bytes);
            let error = self.error(ErrorKind::Limit, start, &name, &message);
            return Err(error.with_remedy(Remedy::RaiseLimit("max_bytes")));
        }
        Ok(())
    }

    /// The bytes of the file that [`next`](Self::next) returned.
    pub(crate) fn read(&mut self, size: u64) -> Result<Vec<u8>> {
        // Reserve no more than a small file needs: the size is not to be trusted.
        let mut data = Vec::with_capacity(usize::try_from(size.min(1 << 20)).unwrap_or(0));
        let read = self.input.by_ref().take(size).read_to_end(&mut data);
        read.map_err(|error| compressed::blame(&self.path, error))?;
        self.position += data.len() as u64;
        if (data.len() as u64) < size {
            return Err(self.truncated());
        }
        self.pass(padding(size) as u64)?;
        Ok(data)
    }

    /// Skips this many bytes, and the padding after them.
    pub(crate) fn skip(&mut self, size: u64) -> Result<()> {
        self.pass(size)?;
        self.pass(padding(size) as u64)
    }

    fn pass(&mut self, size: u64) -> Result<()> {
        let passed = self.input.pass(size);
        let passed = passed.map_err(|error| compressed::blame(&self.path, error))?;
        self.position += passed;
        if passed < size { Err(self.truncated()) } else { Ok(()) }
    }

    /// The next header; after an end mark it is the first one of the next archive.
    fn header(&mut self) -> Result<Option<Header>> {
        let start = self.position;
        let mut block = [0; BLOCK];
        let read = self.block(&mut block)?;
        // A writer that was not closed leaves no end mark, or a part of it.
        if read < BLOCK && (start == 0 || block != [0; BLOCK]) {
            return Err(self.truncated());
        }
        if read < BLOCK && !self.open_end {
            let flaw = FormatError::new(start, "the end mark of a tar archive", "the end of file");
            return Err(Error::from(flaw).at(&self.path));
        }
        if read < BLOCK {
            self.ending = Ending::Unmarked;
            return Ok(None);
        }
        match parse_header(&block).map_err(|error| self.format_error(start, error))? {
            Some(header) => Ok(Some(header)),
            None => self.next_archive(),
        }
    }

    /// The first header after an end mark, if another archive follows.
    fn next_archive(&mut self) -> Result<Option<Header>> {
        let mut block = [0; BLOCK];
        loop {
            let start = self.position;
            let read = self.block(&mut block)?;
            if read == BLOCK && block == [0; BLOCK] {
                continue;
            }
            if let (BLOCK, Ok(Some(header))) = (read, parse_header(&block)) {
                // Remarks on the previous archive do not apply to this one.
                self.global = Some((start, Records::new()));
                return Ok(Some(header));
            }
            if block[..read].iter().any(|&byte| byte != 0) {
                // To the end: a compressed file has its checksum there.
                let rest = self.input.pass(u64::MAX);
                let rest = rest.map_err(|error| compressed::blame(&self.path, error))?;
                self.position += rest;
                self.ending = Ending::Foreign { position: start, bytes: self.position - start };
            }
            return Ok(None);
        }
    }

    /// Reads a block, or what is left of the file, with zeros after it. Returns how many bytes there
    /// were.
    fn block(&mut self, block: &mut [u8; BLOCK]) -> Result<usize> {
        *block = [0; BLOCK];
        let mut len = 0;
        while len < BLOCK {
            match self.input.read(&mut block[len..]) {
                Ok(0) => break,
                Ok(read) => len += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(compressed::blame(&self.path, error)),
            }
        }
        self.position += len as u64;
        Ok(len)
    }

    fn extra(&mut self, header: &Header) -> Result<Vec<u8>> {
        if header.size > MAX_EXTRA {
            let message = format!("expected at most {MAX_EXTRA} bytes, found {}", header.size);
            return Err(self.error(ErrorKind::Limit, self.position, "(name)", &message));
        }
        self.read(header.size)
    }

    fn pax(&self, content: &[u8], start: u64, ahead: &mut Ahead) -> Result<()> {
        let begin = start + BLOCK as u64;
        let records = pax_records(content).map_err(|error| self.format_error(begin, error))?;
        for (name, value) in records {
            match name {
                b"path" => ahead.name = Some(value.to_vec()),
                b"size" => {
                    let number = std::str::from_utf8(value).ok().and_then(|text| text.parse().ok());
                    let flaw = || FormatError::new(0, "a size in digits", "something else");
                    let number = number.ok_or_else(|| self.format_error(begin, flaw()))?;
                    ahead.size = Some(number);
                }
                name if name.starts_with(b"GNU.sparse.") => {
                    let message = "expected files and directories, found a sparse file";
                    return Err(self.error(ErrorKind::Unsupported, start, "(records)", message));
                }
                _ => ahead.records.extend(own(name, value)),
            }
        }
        Ok(())
    }

    /// A name in UTF-8 that does not lead out of the archive.
    fn check_name(&self, name: Vec<u8>, start: u64) -> Result<String> {
        let name = String::from_utf8(name).map_err(|error| {
            let name = lossy(error.as_bytes());
            self.error(ErrorKind::Invalid, start, &name, "the name is not UTF-8")
        })?;
        if name.contains('\0') {
            return Err(self.error(
                ErrorKind::Invalid,
                start,
                &name,
                "the name contains a zero byte",
            ));
        }
        if name.starts_with('/') || name.split('/').any(|part| part == "..") {
            let message = "expected a relative name without \"..\", found another";
            return Err(self.error(ErrorKind::Invalid, start, &name, message));
        }
        Ok(name)
    }

    fn error(&self, kind: ErrorKind, start: u64, name: &str, message: &str) -> Error {
        Error::new(kind, format!("entry {name:?} at byte {start}: {message}")).at(&self.path)
    }

    fn format_error(&self, start: u64, error: FormatError) -> Error {
        let position = error.position.saturating_add(start);
        Error::from(FormatError { position, ..error }).at(&self.path)
    }

    fn truncated(&self) -> Error {
        let flaw = FormatError::new(self.position, "the rest of a tar archive", "the end of file");
        Error::from(flaw).at(&self.path)
    }
}

/// A record of ours.
fn own(name: &[u8], value: &[u8]) -> Option<(String, String)> {
    let text = |bytes: &[u8]| std::str::from_utf8(bytes).ok().map(str::to_owned);
    Some((text(name).filter(|name| name.starts_with(OWN))?, text(value)?))
}

/// A name for messages.
fn lossy(name: &[u8]) -> String {
    String::from_utf8_lossy(name).into_owned()
}
