//! The whole container: where its sections and chunks are, and what they decode to.
//!
//! Chunks follow one another without gaps, so walking from the first finds them all; that is what
//! every reader agrees on. Offsets only save the walk to a chunk in the middle, and are
//! trusted only if the chunk that they lead to ends where the next one begins.

use std::ops::Range;
use std::sync::OnceLock;

use crate::format::blosc::{self, Scratch};
use crate::format::{FormatError, hex};

use super::checksum::Checksum;
use super::header::Header;
use super::metadata::Metadata;
use super::ndarray::ArrayMetadata;
use super::offsets::Offsets;

/// How many times its own size a chunk may unpack to. The densest codec, zstd, reaches half of it;
/// so a small file cannot make a reader allocate gigabytes, no matter what its headers say.
pub const MAX_RATIO: u64 = 1 << 16;

/// A container in memory or in a memory map: in anything that returns the same bytes each time.
/// Parsing reads only header and sections.
///
/// ```
/// use kiste::format::blosc::{Params, compress};
/// use kiste::format::bloscpack::{Checksum, Container, Encoder, Header};
///
/// // Two chunks of five and three bytes.
/// let header = Header {
///     chunk_size: Some(5),
///     last_chunk: Some(3),
///     nchunks: Some(2),
///     checksum: Checksum::Crc32,
///     ..Header::default()
/// };
/// let mut bytes = Vec::new();
/// let mut encoder = Encoder::start(header, b"", &mut bytes)?;
/// for chunk in [&b"abcde"[..], b"fgh"] {
///     let start = bytes.len();
///     compress(&Params::default(), chunk, &mut bytes)?;
///     let digest = encoder.push(&bytes[start..])?;
///     bytes.extend_from_slice(digest.as_slice());
/// }
/// encoder.finish()?.patch(&mut bytes);
///
/// let container = Container::parse(&bytes)?;
/// assert_eq!(container.nbytes()?, 8);
/// assert_eq!(container.chunk(1)?.to_vec()?, b"fgh");
/// assert_eq!(container.to_vec()?, b"abcdefgh");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Container<B> {
    bytes: B,
    header: Header,
    offsets_at: usize,
    data_start: usize,
    /// Where the chunks are, once they have been walked.
    walked: OnceLock<Vec<ChunkPlace>>,
}

/// Where a chunk is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ChunkPlace {
    /// Its first byte in the container.
    pub at: u64,
    /// How many uncompressed bytes come before it.
    pub start: u64,
}

/// One chunk of a container.
#[derive(Debug, Clone, Copy)]
pub struct Chunk<'a> {
    index: u64,
    at: usize,
    header: blosc::Header,
    bytes: &'a [u8],
    checksum: Checksum,
    digest: &'a [u8],
}

impl<B: AsRef<[u8]>> Container<B> {
    /// The container at the start of these bytes. Bytes after its last chunk are ignored:
    /// bloscpack leaves some there when it appends.
    pub fn parse(bytes: B) -> Result<Container<B>, FormatError> {
        let header = Header::parse(bytes.as_ref())?;
        let offsets_at = match header.metadata {
            true => Metadata::parse(bytes.as_ref(), header.size())?.range().end,
            false => header.size(),
        };
        let offsets = Offsets::parse(bytes.as_ref(), offsets_at, header.slots())?;
        let data_start = offsets_at + offsets.len() * super::offsets::ENTRY;
        Ok(Container { bytes, header, offsets_at, data_start, walked: OnceLock::new() })
    }

    /// The header.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// The metadata section, if there is one.
    pub fn metadata(&self) -> Option<Metadata<'_>> {
        match self.header.metadata {
            // Parsed before, so this cannot fail.
            true => Metadata::parse(self.bytes(), self.header.size()).ok(),
            false => None,
        }
    }

    /// The array that the metadata describes. It is an error if the container holds none, or one of
    /// another size.
    pub fn array(&self) -> Result<ArrayMetadata, FormatError> {
        let at = self.header.size() as u64;
        let Some(metadata) = self.metadata() else {
            return Err(FormatError::new(at, "metadata of a NumPy array", "no metadata"));
        };
        let array = ArrayMetadata::parse(&metadata.text()?)
            .map_err(|error| FormatError { position: at, ..error })?;
        let nbytes = self.nbytes()?;
        if array.nbytes() != Some(nbytes) {
            let (dtype, shape) = (&array.dtype, &array.shape);
            let expected = format!("the bytes of an array of {dtype} and shape {shape:?}");
            return Err(FormatError::new(at, expected, format!("{nbytes} bytes")));
        }
        Ok(array)
    }

    /// As [`array`](Container::array), but `None` if the container says itself that it holds
    /// something else: it has no metadata, or another kind of it.
    pub fn array_if_any(&self) -> Result<Option<ArrayMetadata>, FormatError> {
        let Some(metadata) = self.metadata() else { return Ok(None) };
        match self.array() {
            Ok(array) => Ok(Some(array)),
            Err(error) => {
                let metadata = metadata.value()?;
                let kind = metadata.get("container").and_then(|kind| kind.as_str());
                if kind == Some("numpy") { Err(error) } else { Ok(None) }
            }
        }
    }

    /// The offsets as stored; empty if there are none.
    pub fn offsets(&self) -> Offsets<'_> {
        // Parsed before, so this cannot fail.
        Offsets::parse(self.bytes(), self.offsets_at, self.header.slots()).unwrap_or_default()
    }

    /// The bytes as given, including any after the container.
    pub fn bytes(&self) -> &[u8] {
        self.bytes.as_ref()
    }

    /// The bytes that were given to [`parse`](Container::parse).
    pub fn into_inner(self) -> B {
        self.bytes
    }

    /// Where the offsets are, or would be.
    pub fn offsets_at(&self) -> usize {
        self.offsets_at
    }

    /// Where the first chunk is.
    pub fn data_start(&self) -> usize {
        self.data_start
    }

    /// All chunks in order, found by walking. Ends after an error.
    pub fn chunks(&self) -> Chunks<'_, B> {
        Chunks { container: self, index: 0, at: self.data_start, failed: false }
    }

    /// The number of chunks. A streamed container is walked to find out.
    pub fn nchunks(&self) -> Result<u64, FormatError> {
        match self.header.nchunks {
            Some(count) => Ok(count),
            None => Ok(self.places()?.len() as u64),
        }
    }

    /// Uncompressed bytes. Where the header does not say, the container is walked.
    pub fn nbytes(&self) -> Result<u64, FormatError> {
        match self.header.nbytes() {
            Some(nbytes) => Ok(nbytes),
            None => {
                let last = self.places()?.len().checked_sub(1);
                let Some(last) = last.map(|last| last as u64) else { return Ok(0) };
                Ok(self.place(last)?.start + self.chunk(last)?.nbytes() as u64)
            }
        }
    }

    /// Chunk `index`: by its offset if that can be trusted, otherwise by walking.
    pub fn chunk(&self, index: u64) -> Result<Chunk<'_>, FormatError> {
        if index == 0 && self.header.nchunks != Some(0) {
            return self.chunk_at(self.data_start, 0);
        }
        if self.walked.get().is_none() {
            if let Some(chunk) = self.by_offset(index) {
                return Ok(chunk);
            }
        }
        self.chunk_at(self.place(index)?.at as usize, index)
    }

    /// The chunk that holds uncompressed byte `byte`, and where in it.
    pub fn locate(&self, byte: u64) -> Result<(u64, u64), FormatError> {
        match self.header.chunk_size {
            // All chunks but the last have this size, or their headers are errors.
            Some(size) if size > 0 => Ok((byte / u64::from(size), byte % u64::from(size))),
            Some(_) => Ok((0, byte)),
            None => {
                let places = self.places()?;
                let after = places.partition_point(|place| place.start <= byte);
                let index = after.saturating_sub(1);
                let start = places.get(index).map_or(0, |place| place.start);
                Ok((index as u64, byte - start))
            }
        }
    }

    /// Decodes all chunks, one after the other, into a buffer of exactly [`nbytes`](Self::nbytes).
    pub fn read_into(&self, mut out: &mut [u8]) -> Result<(), FormatError> {
        let (whole, mut scratch) = (out.len(), Scratch::default());
        for chunk in self.chunks() {
            let chunk = chunk?;
            let Some((part, rest)) = out.split_at_mut_checked(chunk.nbytes()) else {
                return Err(wrong_total(chunk.at, whole, "more"));
            };
            chunk.read_into(part, &mut scratch)?;
            out = rest;
        }
        match out.is_empty() {
            true => Ok(()),
            false => Err(wrong_total(self.bytes().len(), whole, "fewer")),
        }
    }

    /// All of it, decoded. The headers of all chunks are checked before memory is allocated.
    pub fn to_vec(&self) -> Result<Vec<u8>, FormatError> {
        let mut total = 0;
        for chunk in self.chunks() {
            total += chunk?.nbytes();
        }
        let mut out = vec![0; total];
        self.read_into(&mut out)?;
        Ok(out)
    }

    /// Where all chunks are. The first call walks.
    pub fn places(&self) -> Result<&[ChunkPlace], FormatError> {
        if let Some(places) = self.walked.get() {
            return Ok(places);
        }
        let (mut places, mut start) = (Vec::new(), 0);
        for chunk in self.chunks() {
            let chunk = chunk?;
            places.push(ChunkPlace { at: chunk.at as u64, start });
            start += chunk.nbytes() as u64;
        }
        Ok(self.walked.get_or_init(|| places))
    }

    fn place(&self, index: u64) -> Result<ChunkPlace, FormatError> {
        let places = self.places()?;
        let place = usize::try_from(index).ok().and_then(|index| places.get(index));
        place.copied().ok_or_else(|| {
            let expected = format!("a chunk below {}", places.len());
            FormatError::new(self.bytes().len() as u64, expected, index.to_string())
        })
    }

    /// The chunk at the offset, if there is one that ends where the next begins, and begins where
    /// the one before it ends. So a single wrong offset is always detected.
    fn by_offset(&self, index: u64) -> Option<Chunk<'_>> {
        let count = self.header.nchunks.filter(|&count| index < count)?;
        let offsets = self.offsets();
        let offset = |i| offsets.get(i).and_then(|at| usize::try_from(at).ok());
        let at = offset(index)?;
        let before = self.chunk_at(offset(index - 1)?, index - 1).ok()?;
        let first = index > 1 || before.at == self.data_start;
        let chunk = self.chunk_at(at, index).ok()?;
        let next = index + 1 == count || offset(index + 1)? == chunk.end();
        (first && before.at >= self.data_start && before.end() == at && next).then_some(chunk)
    }

    /// The chunk that begins here, its sizes checked against header and file, its content not.
    fn chunk_at(&self, at: usize, index: u64) -> Result<Chunk<'_>, FormatError> {
        let rest = self.bytes().get(at..).unwrap_or_default();
        let header = blosc::Header::parse(rest).map_err(|error| shifted(error, at, index))?;
        let (size, checksum) = (header.chunk_len(), self.header.checksum);
        let digest = rest.get(size..).and_then(|rest| rest.get(..checksum.size()));
        let Some(digest) = digest else {
            let expected = match checksum {
                Checksum::None => format!("chunk {index} of {size} bytes"),
                _ => format!("chunk {index} of {size} bytes and its {checksum}"),
            };
            let found = format!("the end after {} bytes", self.bytes().len());
            return Err(FormatError::new(at as u64, expected, found));
        };
        let chunk = Chunk { index, at, header, bytes: &rest[..size], checksum, digest };
        self.check_size(&chunk)?;
        Ok(chunk)
    }

    /// Whether a chunk holds as many bytes as the container says.
    fn check_size(&self, chunk: &Chunk<'_>) -> Result<(), FormatError> {
        // A stream has no count, so its last chunk is the one that ends the bytes.
        let is_last = match self.header.nchunks {
            Some(count) => chunk.index + 1 == count,
            None => chunk.end() == self.bytes().len(),
        };
        let (exact, most) = match (is_last, self.header.chunk_size, self.header.last_chunk) {
            (true, _, Some(last)) => (Some(last), None),
            (true, most, None) => (None, most),
            (false, size, _) => (size, None),
        };
        let found = chunk.nbytes() as u64;
        let fits = exact.is_none_or(|size| found == u64::from(size))
            && most.is_none_or(|size| found <= u64::from(size));
        if !fits {
            let expected = match exact {
                Some(size) => format!("{size} uncompressed bytes in chunk {}", chunk.index),
                None => format!("at most the chunk size in chunk {}", chunk.index),
            };
            return Err(FormatError::new(chunk.at as u64 + 4, expected, found.to_string()));
        }
        // Before anyone allocates: a chunk of 20 bytes can claim two gigabytes.
        if found / MAX_RATIO > chunk.bytes.len() as u64 {
            let most = chunk.bytes.len() as u64 * MAX_RATIO;
            let expected = format!("at most {most} bytes from {}", chunk.bytes.len());
            return Err(FormatError::new(chunk.at as u64 + 4, expected, found.to_string()));
        }
        Ok(())
    }
}

/// Iterator over the chunks of a container.
#[derive(Debug)]
#[must_use = "iterators are lazy and do nothing unless consumed"]
pub struct Chunks<'a, B> {
    container: &'a Container<B>,
    index: u64,
    at: usize,
    failed: bool,
}

impl<'a, B: AsRef<[u8]>> Iterator for Chunks<'a, B> {
    type Item = Result<Chunk<'a>, FormatError>;

    fn next(&mut self) -> Option<Self::Item> {
        let is_end = match self.container.header.nchunks {
            Some(count) => self.index == count,
            None => self.at == self.container.bytes().len(),
        };
        if is_end || self.failed {
            return None;
        }
        let chunk = self.container.chunk_at(self.at, self.index);
        match &chunk {
            Ok(chunk) => {
                self.index += 1;
                self.at = chunk.end();
            }
            Err(_) => self.failed = true,
        }
        Some(chunk)
    }
}

impl<'a> Chunk<'a> {
    /// Which chunk it is.
    pub fn index(&self) -> u64 {
        self.index
    }

    /// Where it begins in the container.
    pub fn at(&self) -> usize {
        self.at
    }

    /// Where its digest ends, and so the next chunk begins.
    pub fn end(&self) -> usize {
        self.at + self.bytes.len() + self.digest.len()
    }

    /// Its own header.
    pub fn header(&self) -> &blosc::Header {
        &self.header
    }

    /// Its bytes, compressed, with the header but without the digest.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The digest that follows it; empty without checksums.
    pub fn digest(&self) -> &'a [u8] {
        self.digest
    }

    /// Uncompressed bytes.
    pub fn nbytes(&self) -> usize {
        self.header.nbytes()
    }

    /// Whether the digest matches the bytes.
    pub fn verify(&self) -> Result<(), FormatError> {
        let found = self.checksum.digest(self.bytes);
        if found.as_slice() == self.digest {
            return Ok(());
        }
        let (index, digest) = (self.index, hex(self.digest));
        let expected = format!("chunk {index} of {} checksum {digest}", self.checksum);
        Err(FormatError::new(self.at as u64, expected, format!("{found:?}")))
    }

    /// Verifies and decodes into a buffer of exactly [`nbytes`](Self::nbytes).
    pub fn read_into(&self, out: &mut [u8], scratch: &mut Scratch) -> Result<(), FormatError> {
        self.verify()?;
        let done = scratch.decompress_into(self.bytes, out);
        done.map(drop).map_err(|error| shifted(error, self.at, self.index))
    }

    /// Verifies and decodes these bytes of it, only the blocks in which they are.
    ///
    /// # Panics
    ///
    /// If `out` has not the length of the range.
    pub fn read_range(
        &self,
        range: Range<usize>,
        out: &mut [u8],
        scratch: &mut Scratch,
    ) -> Result<(), FormatError> {
        self.verify()?;
        self.decode_range(range, out, scratch)
    }

    /// As [`read_range`](Chunk::read_range), for those who have verified the chunk already.
    ///
    /// # Panics
    ///
    /// If `out` has not the length of the range.
    pub fn decode_range(
        &self,
        range: Range<usize>,
        out: &mut [u8],
        scratch: &mut Scratch,
    ) -> Result<(), FormatError> {
        let done = scratch.decompress_range(self.bytes, range, out);
        done.map(drop).map_err(|error| shifted(error, self.at, self.index))
    }

    /// All of it, verified and decoded.
    pub fn to_vec(&self) -> Result<Vec<u8>, FormatError> {
        let mut out = vec![0; self.nbytes()];
        self.read_into(&mut out, &mut Scratch::default())?;
        Ok(out)
    }
}

/// An error of a chunk's decoder, at its place in the container.
fn shifted(error: FormatError, at: usize, index: u64) -> FormatError {
    let FormatError { position, expected, found } = error;
    FormatError::new(position + at as u64, format!("{expected} in chunk {index}"), found)
}

fn wrong_total(at: usize, whole: usize, found: &str) -> FormatError {
    FormatError::new(at as u64, format!("chunks of {whole} bytes together"), found)
}
