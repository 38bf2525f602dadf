//! Containers written from a stream, with a few chunks in memory at a time.
//!
//! [`PackOptions::write`] has the array in memory; here it comes as a stream. The header of a
//! container says how many chunks it has. Where the number of bytes is known, that follows; where
//! it is not, as from a pipe, the compressed chunks wait in a temporary file.

use std::borrow::Cow;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use crate::error::{Error, ErrorKind, Result};
use crate::format::blosc::{HEADER as CHUNK_HEADER, Header as ChunkHeader, Params};
use crate::format::bloscpack::{ArrayMetadata, Encoder, Ending};
use crate::storage::{Create, ReplaceFile, Sink, Source, Storage, partial_name};

use super::file::publish;
use super::pack::{Job, PackOptions, refused};
use super::stream::read_up_to;
use super::workers::{compress, on_threads, pipeline, window};
use crate::array::selection::invalid;

/// The permissions of a file that only its owner may read.
const PRIVATE: u32 = 0o600;

impl PackOptions {
    /// Writes the container of bytes read from a stream: `len` of them or, if that is not known,
    /// all of them. `metadata` is JSON, and is written unchanged. Returns the number of bytes.
    ///
    /// The file is the same as [`write_bytes`](PackOptions::write_bytes) writes, except that the
    /// default chunk size is 512 KiB if `len` is not known.
    pub fn write_bytes_from(
        &self,
        storage: &dyn Storage,
        path: impl AsRef<Path>,
        from: &mut (dyn Read + Send),
        len: Option<u64>,
        metadata: Option<&str>,
    ) -> Result<u64> {
        let path = path.as_ref();
        if let Some(len) = len {
            let job = self.job_of_text(to_usize(len)?, metadata)?;
            return self.write_job(storage, path, from, len, &job, false);
        }
        // Errors in the options are found before anything is read.
        let size = self.stream_chunk_size();
        let options = self.clone().chunk_size(size);
        let params = options.job_of_text(size, metadata)?.params;
        let mut total = 0;
        publish(storage, path, self.replace, |file| {
            let mut spool = Spool::create(storage, path)?;
            total = spool.fill(self.threads, &mut Chunks::new(from, size, None), &params)?;
            let job = options.job_of_text(to_usize(total)?, metadata)?;
            spool.move_to(file, &job)
        })?;
        Ok(total)
    }

    /// Writes the container of an array whose elements are read from a stream, in the order of
    /// `array`. More bytes than that are an error.
    pub fn write_array_from(
        &self,
        storage: &dyn Storage,
        path: impl AsRef<Path>,
        from: &mut (dyn Read + Send),
        array: &ArrayMetadata,
    ) -> Result<u64> {
        let path = path.as_ref();
        let Some(len) = array.nbytes() else {
            return Err(Error::new(ErrorKind::Limit, "the array is larger than the address space"));
        };
        let job = self.job_of_array(array, to_usize(len)?)?;
        self.write_job(storage, path, from, len, &job, true)
    }

    fn write_job(
        &self,
        storage: &dyn Storage,
        path: &Path,
        from: &mut (dyn Read + Send),
        len: u64,
        job: &Job,
        to_end: bool,
    ) -> Result<u64> {
        let size = job.header.chunk_size.unwrap_or(0) as usize;
        publish(storage, path, self.replace, |file| {
            let mut chunks = Chunks::new(&mut *from, size, Some(len));
            let mut head = Vec::new();
            let mut encoder =
                Encoder::start(job.header, &job.metadata, &mut head).map_err(refused)?;
            file.append(&head)?;
            on_threads(self.threads, || {
                pipeline(
                    || chunks.next_window(),
                    |scratch, chunk: Vec<u8>, out| compress(&job.params, &chunk, scratch, out),
                    |chunk| {
                        let digest = encoder.push(chunk).map_err(refused)?;
                        chunk.extend_from_slice(digest.as_slice());
                        file.append(chunk)
                    },
                )
            })?;
            if to_end && read_up_to(&mut &mut *from, &mut head, 1)? > 0 {
                return Err(invalid(format!("expected {len} bytes, found more")));
            }
            encoder.finish().map_err(refused)
        })?;
        Ok(len)
    }
}

/// The input, in chunks: at least one, which may be empty.
struct Chunks<'a> {
    from: &'a mut (dyn Read + Send + 'a),
    size: usize,
    /// How many bytes there are to come, if that is known.
    left: Option<u64>,
    total: u64,
    ended: bool,
}

impl<'a> Chunks<'a> {
    fn new(from: &'a mut (dyn Read + Send), size: usize, len: Option<u64>) -> Chunks<'a> {
        Chunks { from, size, left: len, total: 0, ended: false }
    }

    /// Some chunks; none at the end.
    fn next_window(&mut self) -> Result<Vec<Vec<u8>>> {
        let mut chunks = Vec::new();
        while !self.ended && chunks.len() < window(self.size) {
            let mut chunk = Vec::new();
            let wanted = match self.left {
                Some(left) => left.min(self.size as u64) as usize,
                None => self.size,
            };
            let found = read_up_to(&mut self.from, &mut chunk, wanted)?;
            if let Some(left) = &mut self.left {
                if found < wanted {
                    let expected = self.total + *left;
                    let found = self.total + found as u64;
                    return Err(invalid(format!("expected {expected} bytes, found {found}")));
                }
                *left -= found as u64;
            }
            self.ended = self.left.map_or(found < wanted, |left| left == 0);
            if found > 0 || self.total == 0 {
                chunks.push(chunk);
            }
            self.total += found as u64;
        }
        Ok(chunks)
    }
}

/// Compressed chunks in a temporary file.
struct Spool<'a> {
    storage: &'a dyn Storage,
    path: PathBuf,
    sink: Box<dyn Sink>,
}

impl Spool<'_> {
    fn create<'a>(storage: &'a dyn Storage, target: &Path) -> Result<Spool<'a>> {
        let path = partial_name(target);
        // The container may be private, and this file is removed anyway.
        let sink = storage.create_with(&path, Create::new().mode(Some(PRIVATE)));
        let sink = sink?;
        Ok(Spool { storage, path, sink })
    }

    /// Compresses everything into the file. Returns the number of uncompressed bytes.
    fn fill(&mut self, threads: usize, chunks: &mut Chunks<'_>, params: &Params) -> Result<u64> {
        let sink = &mut self.sink;
        on_threads(threads, || {
            pipeline(
                || chunks.next_window(),
                |scratch, chunk: Vec<u8>, out| compress(params, &chunk, scratch, out),
                |chunk| sink.append(chunk),
            )
        })?;
        Ok(chunks.total)
    }

    /// Writes the container of these chunks.
    fn move_to(&self, to: &mut ReplaceFile<'_>, job: &Job) -> Result<Ending> {
        let source = self.storage.open(&self.path)?;
        let mut bytes = Vec::new();
        let mut encoder = Encoder::start(job.header, &job.metadata, &mut bytes).map_err(refused)?;
        let mut at = 0;
        while at < source.len() {
            let chunk = next_spooled(&source, at)?;
            at += chunk.len() as u64;
            let digest = encoder.push(&chunk).map_err(refused)?;
            bytes.extend_from_slice(&chunk);
            bytes.extend_from_slice(digest.as_slice());
            to.append(&bytes)?;
            bytes.clear();
            source.release(0..at);
        }
        encoder.finish().map_err(refused)
    }
}

impl Drop for Spool<'_> {
    fn drop(&mut self) {
        // This process made it. If it cannot be removed, it only takes up space.
        let _ = self.storage.remove(&self.path);
    }
}

/// The chunk at this place.
fn next_spooled(source: &Source, at: u64) -> Result<Cow<'_, [u8]>> {
    let head = source.read(at..at + CHUNK_HEADER as u64)?;
    let header = ChunkHeader::parse(&head)
        .map_err(|error| Error::io(source.path(), io::Error::other(error)))?;
    source.read(at..at + header.chunk_len() as u64)
}

fn to_usize(len: u64) -> Result<usize> {
    usize::try_from(len).map_err(|_| {
        Error::new(ErrorKind::Limit, format!("expected at most {} bytes, found {len}", usize::MAX))
    })
}
