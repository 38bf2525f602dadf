//! The files of a tar archive, read as a stream.

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

/// What the names of our own records begin with.
pub(super) const OWN: &str = "KISTE.";

/// Names and values of our own records.
pub(super) type Records = Vec<(String, String)>;

/// What headers before an entry say about it.
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
        Ok(Archive { path: path.to_path_buf(), input, position: 0, max_bytes, global: None })
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
        Ok(Archive { path: path.to_path_buf(), input, position, max_bytes, global: None })
    }

    /// The archive at this path, whose bytes come from `input`.
    #[cfg(feature = "datasets")]
    pub(crate) fn over(path: &Path, input: Box<dyn Bytes + 'a>, max_bytes: u64) -> Archive<'a> {
        Archive { path: path.to_path_buf(), input, position: 0, max_bytes, global: None }
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

    /// The position of the next bytes: those of the file that [`next`](Self::next) returned.
    pub(crate) fn position(&self) -> u64 {
        self.position
    }

    /// The next file; directories are skipped. Call [`read`](Self::read) or [`skip`](Self::skip)
    /// for its bytes before the next one.
    ///
    /// The inner error is that of one entry, which has been skipped.
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

    fn header(&mut self) -> Result<Option<Header>> {
        let start = self.position;
        let mut block = [0; BLOCK];
        self.input.read_exact(&mut block).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => self.truncated(),
            _ => compressed::blame(&self.path, error),
        })?;
        self.position += BLOCK as u64;
        let header = parse_header(&block).map_err(|error| self.format_error(start, error))?;
        if header.is_none() {
            // The checksum of a compressed file is at its end.
            self.input.pass(u64::MAX).map_err(|error| compressed::blame(&self.path, error))?;
        }
        Ok(header)
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

    /// Every archive has an end mark, so one without it was cut short.
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
