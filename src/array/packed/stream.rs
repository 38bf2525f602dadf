//! Containers written and read as streams of `std::io`, with one chunk in memory at a time.

use std::io::{self, Read, Seek, SeekFrom, Write};

use serde_json::Value;

use crate::error::{Error, ErrorKind, Result};
use crate::format::FormatError;
use crate::format::blosc::{HEADER as CHUNK_HEADER, Header as ChunkHeader, Params, Scratch};
use crate::format::bloscpack::header::{HEADER, HEADER_V1};
use crate::format::bloscpack::{
    ArrayMetadata, Checksum, Encoder, Header, MAX_RATIO, MetadataHeader, metadata, offsets,
};
use crate::format::numpy::npy;

use super::pack::{PackOptions, refused};
use super::workers::{on_threads, pipeline, window};

/// Writes a container of bytes whose number is not known in advance.
///
/// The header, which contains that number, is written last, so the output must be able to seek. If
/// the writer is dropped without [`finish`](PackedWriter::finish), readers either refuse the
/// container or see it end where the output does. To write a file safely, use
/// [`PackOptions::write_bytes`].
///
/// ```
/// use std::io::{Cursor, Read, Write};
/// use kiste::array::{PackOptions, PackedReader, PackedWriter};
///
/// let mut writer = PackedWriter::new(Cursor::new(Vec::new()), &PackOptions::default(), None)?;
/// for line in 0..1000 {
///     writeln!(writer, "{line}")?;
/// }
/// let file = writer.finish()?.into_inner();
///
/// let mut text = String::new();
/// PackedReader::new(&file[..])?.read_to_string(&mut text)?;
/// assert!(text.starts_with("0\n1\n") && text.ends_with("999\n"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[must_use = "a container is incomplete until `finish` is called"]
pub struct PackedWriter<W: Write + Seek> {
    to: W,
    /// Where in the output the container begins.
    start: u64,
    encoder: Encoder,
    params: Params,
    chunk_size: usize,
    pending: Vec<u8>,
    chunk: Vec<u8>,
    scratch: Scratch,
}

impl<W: Write + Seek> PackedWriter<W> {
    /// Begins a container at the current position of the output.
    ///
    /// Offsets are written only if [`max_app_chunks`](PackOptions::max_app_chunks) gives the total
    /// number of chunks; more chunks than that are an error.
    pub fn new(
        mut to: W,
        options: &PackOptions,
        metadata: Option<&Value>,
    ) -> Result<PackedWriter<W>> {
        let (header, params, section) = options.stream(metadata)?;
        let mut head = Vec::new();
        let encoder = Encoder::start(header, &section, &mut head).map_err(refused)?;
        let start = to.stream_position().map_err(io_error)?;
        to.write_all(&head).map_err(io_error)?;
        let chunk_size = header.chunk_size.unwrap_or_default() as usize;
        let (pending, chunk, scratch) = (Vec::new(), Vec::new(), Scratch::default());
        Ok(PackedWriter { to, start, encoder, params, chunk_size, pending, chunk, scratch })
    }

    /// Writes the remaining bytes and the header, and returns the output, positioned at the end of
    /// the container.
    pub fn finish(mut self) -> Result<W> {
        if !self.pending.is_empty() || self.encoder.count() == 0 {
            self.push().map_err(io_error)?;
        }
        let ending = self.encoder.finish().map_err(refused)?;
        let mut patch = || {
            let end = self.to.stream_position()?;
            self.to.seek(SeekFrom::Start(self.start + ending.offsets_at))?;
            self.to.write_all(&ending.offsets)?;
            self.to.seek(SeekFrom::Start(self.start))?;
            self.to.write_all(&ending.header)?;
            self.to.seek(SeekFrom::Start(end))?;
            self.to.flush()
        };
        patch().map_err(io_error)?;
        Ok(self.to)
    }

    /// Writes the pending bytes as a chunk.
    fn push(&mut self) -> io::Result<()> {
        self.chunk.clear();
        let done = self.scratch.compress(&self.params, &self.pending, &mut self.chunk);
        done.map_err(|error| io::Error::other(Error::from(error)))?;
        let digest =
            self.encoder.push(&self.chunk).map_err(|error| io::Error::other(refused(error)))?;
        self.pending.clear();
        self.to.write_all(&self.chunk)?;
        self.to.write_all(digest.as_slice())
    }
}

impl<W: Write + Seek> Write for PackedWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // A full chunk waits for the next byte, as it may be the last one.
        if self.pending.len() == self.chunk_size && !bytes.is_empty() {
            self.push()?;
        }
        let taken = bytes.len().min(self.chunk_size - self.pending.len());
        self.pending.extend_from_slice(&bytes[..taken]);
        Ok(taken)
    }

    /// Flushes the output. Bytes that do not fill a chunk stay buffered.
    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

/// Reads the content of a container from any reader: a pipe, a socket.
///
/// Each chunk is verified before any of its bytes are returned. If the container says how many
/// chunks it has, nothing after the last one is read.
#[derive(Debug)]
pub struct PackedReader<R: Read> {
    from: R,
    header: Header,
    metadata: Option<Value>,
    /// Chunks so far.
    count: u64,
    /// Whether a shorter chunk has been seen, behind which there must be none.
    short: bool,
    /// Uncompressed bytes of the last chunk so far.
    last: usize,
    at: u64,
    chunk: Vec<u8>,
    content: Vec<u8>,
    given: usize,
    failed: bool,
    scratch: Scratch,
}

impl<R: Read> PackedReader<R> {
    /// Reads everything before the first chunk.
    pub fn new(mut from: R) -> Result<PackedReader<R>> {
        let mut head = Vec::new();
        read_more(&mut from, &mut head, HEADER_V1)?;
        if head.get(4) != Some(&1) {
            read_more(&mut from, &mut head, HEADER - HEADER_V1)?;
        }
        let header = Header::parse(&head)?;
        let mut metadata = None;
        if header.metadata {
            let at = head.len();
            read_more(&mut from, &mut head, metadata::HEADER)?;
            if let Some(bytes) = head.get(at..).and_then(|section| section.first_chunk()) {
                let section = MetadataHeader::parse(bytes, at as u64)?;
                // A size beyond memory is beyond the end of the input too.
                let size = (section.max_size as usize).saturating_add(section.checksum.size());
                read_more(&mut from, &mut head, size)?;
            }
            metadata = Some(metadata::Metadata::parse(&head, at)?.value()?);
        }
        let mut at = head.len() as u64;
        // Offsets are not needed: chunks are contiguous.
        let skipped = header.slots().saturating_mul(offsets::ENTRY as u64);
        let found =
            io::copy(&mut from.by_ref().take(skipped), &mut io::sink()).map_err(io_error)?;
        if found < skipped {
            return Err(cut(at + found, &format!("{} offsets", header.slots())));
        }
        at += skipped;
        let (chunk, content, scratch) = (Vec::new(), Vec::new(), Scratch::default());
        let (count, short, last, given, failed) = (0, false, 0, 0, false);
        Ok(PackedReader {
            from,
            header,
            metadata,
            count,
            short,
            last,
            at,
            chunk,
            content,
            given,
            failed,
            scratch,
        })
    }

    /// The header.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// The metadata, if there is any.
    pub fn metadata(&self) -> Option<&Value> {
        self.metadata.as_ref()
    }

    /// Writes everything that has not been read yet, decoded on this many threads (0: rayon's
    /// pool), with a few chunks in memory at a time. Returns the number of bytes.
    ///
    /// Everything before a damaged chunk is written, nothing after it.
    pub fn copy_to(&mut self, to: &mut (dyn Write + Send), threads: usize) -> Result<u64>
    where
        R: Send,
    {
        let rest = &self.content[self.given..];
        to.write_all(rest).map_err(io_error)?;
        let mut copied = rest.len() as u64;
        self.given = self.content.len();
        let checksum = self.header.checksum;
        on_threads(threads, || {
            pipeline(
                || self.next_chunks(),
                |scratch, chunk: RawChunk, out| chunk.decode(checksum, scratch, out),
                |bytes| {
                    copied += bytes.len() as u64;
                    to.write_all(bytes).map_err(io_error)
                },
            )
        })?;
        Ok(copied)
    }

    /// The array that the container holds, as its metadata describe it.
    ///
    /// # Errors
    ///
    /// [`Damaged`](ErrorKind::Damaged) if they describe none, or one of another size.
    pub fn array(&self) -> Result<ArrayMetadata> {
        let text = self.metadata.as_ref().map_or("null".into(), ToString::to_string);
        let array = ArrayMetadata::parse(&text).map_err(|error| {
            let FormatError { expected, found, .. } = error;
            Error::new(ErrorKind::Damaged, format!("expected {expected}, found {found}"))
        })?;
        self.header.nbytes().map_or(Ok(()), |found| check_size(&array, found))?;
        Ok(array)
    }

    /// As [`copy_to`](Self::copy_to), for an array that becomes a `.npy` file.
    ///
    /// # Errors
    ///
    /// The errors of [`copy_to`](Self::copy_to) and of [`array`](Self::array).
    pub fn copy_npy_to(&mut self, to: &mut (dyn Write + Send), threads: usize) -> Result<u64>
    where
        R: Send,
    {
        let array = self.array()?;
        let ArrayMetadata { dtype, shape, order } = array.clone();
        to.write_all(&npy::encode_header(&npy::Header { dtype, shape, order }))
            .map_err(io_error)?;
        let copied = self.copy_to(to, threads)?;
        check_size(&array, copied)?;
        Ok(copied)
    }

    /// Some chunks, not decoded; none at the end.
    fn next_chunks(&mut self) -> Result<Vec<RawChunk>> {
        let mut chunks: Vec<RawChunk> = Vec::new();
        let size = self.header.chunk_size.map(|size| size as usize);
        while chunks.len() < window(size.unwrap_or_else(|| chunks.first().map_or(1, |c| c.nbytes)))
        {
            match self.unless_failed(|reader| reader.read_chunk(Vec::new()))? {
                Some(chunk) => chunks.push(chunk),
                None => break,
            }
        }
        Ok(chunks)
    }

    /// Reads and decodes the next chunk: false at the end.
    fn next_chunk(&mut self) -> Result<bool> {
        self.unless_failed(|reader| {
            let buffer = std::mem::take(&mut reader.chunk);
            let Some(chunk) = reader.read_chunk(buffer)? else { return Ok(false) };
            reader.given = 0;
            reader.content.clear();
            chunk.decode(reader.header.checksum, &mut reader.scratch, &mut reader.content)?;
            reader.chunk = chunk.bytes;
            Ok(true)
        })
    }

    /// After an error every call fails, so that later bytes are not mistaken for the content.
    fn unless_failed<T>(&mut self, work: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        if self.failed {
            let message = "an earlier part of the container could not be read";
            return Err(Error::new(ErrorKind::Damaged, message));
        }
        self.failed = true;
        let found = work(self)?;
        self.failed = false;
        Ok(found)
    }

    /// Reads the next chunk into this buffer.
    fn read_chunk(&mut self, mut bytes: Vec<u8>) -> Result<Option<RawChunk>> {
        if self.header.nchunks == Some(self.count) {
            return Ok(None);
        }
        bytes.clear();
        let found = read_up_to(&mut self.from, &mut bytes, CHUNK_HEADER)?;
        if found == 0 && self.header.nchunks.is_none() {
            return self.check_stream_end().map(|()| None);
        }
        let (at, index) = (self.at, self.count);
        let header = ChunkHeader::parse(&bytes).map_err(|error| shifted(error, at, index))?;
        self.check_size(&header)?;
        let (size, nbytes) = (header.chunk_len(), header.nbytes());
        read_more(&mut self.from, &mut bytes, size - CHUNK_HEADER + self.header.checksum.size())?;
        self.short = self.header.chunk_size.is_some_and(|size| nbytes < size as usize);
        (self.last, self.count) = (nbytes, index + 1);
        self.at += bytes.len() as u64;
        Ok(Some(RawChunk { index, at, size, nbytes, bytes }))
    }

    /// Whether a chunk has as many bytes as the header says.
    fn check_size(&self, chunk: &ChunkHeader) -> Result<()> {
        let is_last = self.header.nchunks.map(|count| self.count + 1 == count);
        let (whole, last) = (self.header.chunk_size, self.header.last_chunk);
        let (found, most) = (chunk.nbytes() as u64, whole.map_or(u64::MAX, u64::from));
        let exact = match is_last {
            Some(true) => last,
            Some(false) => whole,
            None => None,
        };
        let fits = exact.is_none_or(|size| u64::from(size) == found) && found <= most;
        let is_dense = found / MAX_RATIO > chunk.chunk_len() as u64;
        if fits && !self.short && !is_dense {
            return Ok(());
        }
        let expected = format!("as many bytes in chunk {} as the header says", self.count);
        Err(FormatError::new(self.at + 4, expected, found.to_string()).into())
    }

    /// The last chunk of a stream is known only at its end.
    fn check_stream_end(&self) -> Result<()> {
        match self.header.last_chunk {
            Some(size) if self.count > 0 && self.last != size as usize => {
                let expected = format!("{size} bytes in the last chunk");
                let found = self.last.to_string();
                Err(FormatError::new(self.at, expected, found).into())
            }
            _ => Ok(()),
        }
    }
}

impl<R: Read> Read for PackedReader<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if out.is_empty() {
            return Ok(0);
        }
        while self.given == self.content.len() {
            if !self.next_chunk().map_err(io::Error::other)? {
                return Ok(0);
            }
        }
        let len = out.len().min(self.content.len() - self.given);
        out[..len].copy_from_slice(&self.content[self.given..self.given + len]);
        self.given += len;
        Ok(len)
    }
}

/// A chunk as it was read, with its digest.
struct RawChunk {
    index: u64,
    at: u64,
    /// Bytes before the digest.
    size: usize,
    nbytes: usize,
    bytes: Vec<u8>,
}

impl RawChunk {
    /// Verifies the chunk, and decodes it to the end of `out`.
    fn decode(&self, checksum: Checksum, scratch: &mut Scratch, out: &mut Vec<u8>) -> Result<()> {
        let (bytes, digest) = self.bytes.split_at_checked(self.size).ok_or_else(|| {
            cut(self.at + self.bytes.len() as u64, &format!("a chunk of {} bytes", self.size))
        })?;
        let found = checksum.digest(bytes);
        if found.as_slice() != digest {
            let expected = format!("chunk {} of another {checksum} checksum", self.index);
            return Err(FormatError::new(self.at, expected, format!("{found:?}")).into());
        }
        let start = out.len();
        out.resize(start + self.nbytes, 0);
        let done = scratch.decompress_into(bytes, &mut out[start..]);
        done.map(drop).map_err(|error| shifted(error, self.at, self.index).into())
    }
}

/// An error of a chunk's decoder, at its place in the container.
fn shifted(error: FormatError, at: u64, index: u64) -> FormatError {
    let expected = format!("{} in chunk {index}", error.expected);
    FormatError::new(at + error.position, expected, error.found)
}

/// Appends up to `len` bytes. Memory grows with what arrives, not with what a header promises.
pub(crate) fn read_up_to(from: &mut impl Read, to: &mut Vec<u8>, len: usize) -> Result<usize> {
    from.take(len as u64).read_to_end(to).map_err(io_error)
}

/// Appends `len` bytes.
fn read_more(from: &mut impl Read, to: &mut Vec<u8>, len: usize) -> Result<()> {
    let found = read_up_to(from, to, len)?;
    match found == len {
        true => Ok(()),
        false => Err(cut(to.len() as u64, &format!("{} bytes more", len - found))),
    }
}

fn cut(at: u64, expected: &str) -> Error {
    FormatError::new(at, expected, "the end").into()
}

/// An error of a stream, which has no name.
pub(crate) fn io_error(error: io::Error) -> Error {
    match error.downcast::<Error>() {
        Ok(ours) => ours,
        Err(error) => Error::new(ErrorKind::Io, error.to_string()).with_source(error),
    }
}

fn check_size(array: &ArrayMetadata, found: u64) -> Result<()> {
    if array.nbytes() == Some(found) {
        return Ok(());
    }
    let ArrayMetadata { dtype, shape, .. } = array;
    let message =
        format!("expected the bytes of an array {dtype} of shape {shape:?}, found {found}");
    Err(Error::new(ErrorKind::Damaged, message))
}
