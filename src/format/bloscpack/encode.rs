//! Writing a container: the beginning, the digest of each chunk, and the patches to the beginning
//! at the end.

use crate::format::FormatError;
use crate::format::blosc;

use super::checksum::Digest;
use super::header::{HEADER, Header, MAX_CHUNK_SIZE, VERSION};
use super::offsets;

/// Writes a container as a stream of bytes: [`start`](Encoder::start), each chunk with its digest,
/// and finally the [`Ending`] of [`finish`](Encoder::finish), which overwrites what was not known
/// before.
///
/// It keeps only the offsets; storing the bytes is up to the caller. There is an example
/// at [`Container`](super::Container).
#[derive(Debug)]
#[must_use = "a container is complete only after `finish`"]
pub struct Encoder {
    header: Header,
    slots: u64,
    offsets_at: u64,
    offsets: Vec<u64>,
    at: u64,
    count: u64,
    last: Option<u32>,
}

/// The final bytes that replace the provisional beginning of a container.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Ending {
    /// The 32 bytes at position 0.
    pub header: [u8; HEADER],
    /// Where the offsets begin.
    pub offsets_at: u64,
    /// All of them; empty if there are none.
    pub offsets: Vec<u8>,
}

impl Encoder {
    /// Writes header, metadata section and unknown offsets behind `out`, which is empty, or ends
    /// where the container begins.
    ///
    /// A header that does not know the number of chunks begins a stream, which only
    /// [`finish`](Encoder::finish) gives offsets: its `max_app_chunks` is the number of offsets to
    /// reserve, including the offsets of the chunks to come.
    pub fn start(
        header: Header,
        metadata: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<Encoder, FormatError> {
        let header = Header { version: VERSION, metadata: !metadata.is_empty(), ..header };
        let slots = match header.offsets {
            true => header.nchunks.unwrap_or(0).saturating_add(header.max_app_chunks),
            false => 0,
        };
        let first = match header.nchunks {
            Some(_) => header,
            None => Header { offsets: false, max_app_chunks: 0, ..header },
        };
        // Nothing is written that a reader would refuse.
        for size in [header.chunk_size, header.last_chunk].into_iter().flatten() {
            if size > MAX_CHUNK_SIZE {
                let expected = format!("chunks of at most {MAX_CHUNK_SIZE} bytes");
                return Err(FormatError::new(8, expected, size.to_string()));
            }
        }
        Header::parse(&first.encode())?;
        out.extend_from_slice(&first.encode());
        out.extend_from_slice(metadata);
        // All -1 until the end, as in Python: a reader of an unfinished container falls back to
        // walking.
        offsets::encode(&[], slots, out);
        let offsets_at = (HEADER + metadata.len()) as u64;
        let at = offsets_at + slots * offsets::ENTRY as u64;
        let (offsets, count, last) = (Vec::new(), 0, None);
        Ok(Encoder { header, slots, offsets_at, offsets, at, count, last })
    }

    /// Registers the chunk that is written next and returns its digest, which is written after it.
    pub fn push(&mut self, chunk: &[u8]) -> Result<Digest, FormatError> {
        let nbytes = blosc::Header::parse(chunk)?.nbytes() as u32;
        self.check_next(nbytes)?;
        if self.header.offsets {
            self.offsets.push(self.at);
        }
        let digest = self.header.checksum.digest(chunk);
        self.at += (chunk.len() + digest.as_slice().len()) as u64;
        self.count += 1;
        self.last = Some(nbytes);
        Ok(digest)
    }

    /// Bytes of the container so far, and so where the next chunk begins.
    pub fn position(&self) -> u64 {
        self.at
    }

    /// Chunks so far.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The final bytes in place of the ones that [`start`](Encoder::start) wrote.
    pub fn finish(self) -> Result<Ending, FormatError> {
        let wanted = self.header.nchunks.unwrap_or(self.count.max(1));
        let short = self.header.last_chunk.is_some_and(|size| Some(size) != self.last);
        if self.count != wanted || short {
            let expected = format!("{wanted} chunks as in the header");
            let found = format!("{}, the last of {} bytes", self.count, self.last.unwrap_or(0));
            return Err(FormatError::new(self.at, expected, found));
        }
        let chunk_size = match self.count {
            // The chunk size of a single chunk is its own size, as in bloscpack.
            1 => self.last,
            _ => self.header.chunk_size,
        };
        let header = Header {
            chunk_size,
            last_chunk: self.last,
            nchunks: Some(self.count),
            max_app_chunks: self.slots.saturating_sub(self.count),
            ..self.header
        };
        let mut known = Vec::new();
        offsets::encode(&self.offsets, self.slots, &mut known);
        Ok(Ending { header: header.encode(), offsets_at: self.offsets_at, offsets: known })
    }

    /// Whether a chunk of this size may be next.
    fn check_next(&self, nbytes: u32) -> Result<(), FormatError> {
        let error = |expected: String, found: String| FormatError::new(self.at, expected, found);
        let size = self.header.chunk_size.unwrap_or(MAX_CHUNK_SIZE);
        if nbytes > size {
            return Err(error(format!("a chunk of at most {size} bytes"), nbytes.to_string()));
        }
        let short = self.last.filter(|&last| self.header.chunk_size.is_some() && last != size);
        if let Some(short) = short {
            let expected = format!("{size} bytes in every chunk but the last");
            return Err(error(expected, format!("another chunk after one of {short}")));
        }
        if self.header.offsets && self.count == self.slots {
            return Err(error(format!("at most {} chunks", self.slots), "one more".into()));
        }
        Ok(())
    }
}

impl Ending {
    /// Applies the patches to a container that is completely in memory.
    ///
    /// # Panics
    ///
    /// If these bytes are not the ones that the [`Encoder`] gave.
    pub fn patch(&self, container: &mut [u8]) {
        let at = self.offsets_at as usize;
        container[at..at + self.offsets.len()].copy_from_slice(&self.offsets);
        container[..HEADER].copy_from_slice(&self.header);
    }
}
