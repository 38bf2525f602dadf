//! Packing: bytes and arrays into containers.

use std::path::Path;

use serde_json::Value;

use crate::error::{Error, ErrorKind, Result};
use crate::format::blosc::{Codec, Params, Shuffle};
use crate::format::bloscpack::header::MAX_CHUNK_SIZE;
use crate::format::bloscpack::{
    ArrayMetadata, Checksum, Encoder, Ending, Header, MetadataOptions, metadata,
};
use crate::storage::{LocalStorage, Storage};
use crate::value::{NdArray, Order};

use super::file::{Replace, publish};
use super::workers::{PARALLEL, compress, on_threads, pipeline, window, with_scratch};
use crate::array::selection::invalid;

/// The automatic chunk size of all but large arrays: such a chunk stays in the second-level cache
/// of a core, and arrays of a few megabytes have work for several cores.
const CHUNK: usize = 512 << 10;
/// The largest automatic chunk size.
const LARGE_CHUNK: usize = 16 << 20;
/// The maximum number of offsets in a container: a gigabyte of them.
const MAX_SLOTS: u64 = 1 << 27;

/// How a container is packed: codec, level, chunks, checksums, room to grow.
///
/// The default is for files: it reserves offsets for ten times the chunks and keeps metadata
/// replaceable, so that bloscpack and [`append`](crate::array::append) can append.
/// [`compact`](PackOptions::compact) is for samples: as few bytes as possible.
///
/// ```
/// use kiste::array::{PackOptions, PackedArray};
/// use kiste::format::blosc::Codec;
/// use kiste::value::NdArray;
///
/// let numbers: Vec<f64> = (0..10).map(f64::from).collect();
/// let array = NdArray::from_ndarray(&ndarray::aview1(&numbers)).into_owned();
/// let bytes = PackOptions::compact().codec(Codec::Lz4).level(5).pack(&array)?;
/// assert!(bytes.len() < 240); // 80 of them are the numbers
/// assert_eq!(PackedArray::from_bytes(bytes)?.to_ndarray::<f64>()?.into_raw_vec_and_offset().0, numbers);
/// # Ok::<(), kiste::Error>(())
/// ```
#[derive(Debug, Clone)]
#[must_use = "options do nothing until something is packed with them"]
pub struct PackOptions {
    params: Params,
    typesize: Option<usize>,
    chunk_size: Option<usize>,
    checksum: Checksum,
    offsets: bool,
    room: Option<u64>,
    metadata: MetadataOptions,
    extra: Vec<(String, Value)>,
    pub(crate) threads: usize,
    pub(super) replace: Replace,
}

impl Default for PackOptions {
    fn default() -> PackOptions {
        PackOptions {
            params: Params { codec: Codec::Lz4, level: 5, ..Params::default() },
            typesize: None,
            chunk_size: None,
            checksum: Checksum::Adler32,
            offsets: true,
            room: None,
            metadata: MetadataOptions::default(),
            extra: Vec::new(),
            threads: 0,
            replace: Replace { overwrite: false, durable: true },
        }
    }
}

impl PackOptions {
    /// Options for containers inside samples: no offsets, no reserved space, short metadata
    /// uncompressed.
    pub fn compact() -> PackOptions {
        PackOptions { offsets: false, metadata: MetadataOptions::COMPACT, ..PackOptions::default() }
    }

    /// The codec. Default: LZ4.
    pub fn codec(mut self, codec: Codec) -> PackOptions {
        self.params.codec = codec;
        self
    }

    /// The compression level, from 0 (copy) to 9. Default: 5.
    pub fn level(mut self, level: u8) -> PackOptions {
        self.params.level = level;
        self
    }

    /// How elements are shuffled before compression. Default: by bytes.
    pub fn shuffle(mut self, shuffle: Shuffle) -> PackOptions {
        self.params.shuffle = shuffle;
        self
    }

    /// Bytes of an element, for the shuffle. Default: the size of the array's type, or 1 if that is
    /// above 255; 8 for plain bytes.
    pub fn typesize(mut self, typesize: usize) -> PackOptions {
        self.typesize = Some(typesize);
        self
    }

    /// Uncompressed bytes of a chunk, rounded down to whole elements.
    /// [`ByteSize`](crate::array::ByteSize) parses sizes such as `512K`.
    ///
    /// Default: 512 KiB. Arrays above 512 MiB get larger chunks, at most 16 MiB, so that there are
    /// about a thousand. Chunks are whole rows if rows are smaller than that.
    pub fn chunk_size(mut self, bytes: usize) -> PackOptions {
        self.chunk_size = Some(bytes);
        self
    }

    /// The checksum after each chunk. Default: Adler-32.
    pub fn checksum(mut self, checksum: Checksum) -> PackOptions {
        self.checksum = checksum;
        self
    }

    /// Whether the positions of chunks are written. Default: yes. Without them nothing can be
    /// appended, and finding a chunk in the middle means walking over all before it.
    pub fn offsets(mut self, offsets: bool) -> PackOptions {
        self.offsets = offsets;
        self
    }

    /// Offsets to reserve for appended chunks. Default: ten times the number of chunks.
    pub fn max_app_chunks(mut self, chunks: u64) -> PackOptions {
        self.room = Some(chunks);
        self
    }

    /// How metadata is stored.
    pub fn metadata_options(mut self, options: MetadataOptions) -> PackOptions {
        self.metadata = options;
        self
    }

    /// Adds a key to the metadata of an array, after those that describe it.
    pub fn metadata(mut self, key: impl Into<String>, value: impl Into<Value>) -> PackOptions {
        self.extra.push((key.into(), value.into()));
        self
    }

    /// How many threads compress. Default: 0, for rayon's pool; 1 uses only the calling thread. The
    /// output is the same for any number.
    pub fn threads(mut self, threads: usize) -> PackOptions {
        self.threads = threads;
        self
    }

    /// Whether [`write`](PackOptions::write) may replace a file. Default: no. The new file gets the
    /// permissions of the old one; if the name is a symbolic link, the file that it leads to is
    /// replaced. The error is [`ErrorKind::Locked`] while something is
    /// [appended](crate::array::append) to it.
    pub fn overwrite(mut self, overwrite: bool) -> PackOptions {
        self.replace.overwrite = overwrite;
        self
    }

    /// Whether writing a file waits until it is on disk. Default: yes. Without it a power failure
    /// soon after may leave an empty file, but writing takes a fraction of the time.
    pub fn durable(mut self, durable: bool) -> PackOptions {
        self.replace.durable = durable;
        self
    }

    /// The container of an array.
    pub fn pack(&self, array: &NdArray<'_>) -> Result<Vec<u8>> {
        let mut out = Vec::new();
        self.pack_into(array, &mut out)?;
        Ok(out)
    }

    /// Appends the container of an array to `out`. After an error `out` is unchanged.
    pub fn pack_into(&self, array: &NdArray<'_>, out: &mut Vec<u8>) -> Result<()> {
        self.to_vec(&self.job_of(array)?, array.bytes(), out)
    }

    /// The container of an array with this metadata.
    pub(crate) fn pack_described(&self, array: &NdArray<'_>, metadata: &str) -> Result<Vec<u8>> {
        let mut out = Vec::new();
        let job = self.job_described(&describe(array), array.bytes().len(), metadata)?;
        self.to_vec(&job, array.bytes(), &mut out)?;
        Ok(out)
    }

    /// The container of plain bytes, with any metadata.
    pub fn pack_bytes(&self, bytes: &[u8], metadata: Option<&Value>) -> Result<Vec<u8>> {
        let mut out = Vec::new();
        self.to_vec(&self.job_of_bytes(bytes.len(), metadata)?, bytes, &mut out)?;
        Ok(out)
    }

    /// Writes the container of an array to a file, under a temporary name that is changed at the
    /// end: the old file, or none, is there until the new one is complete.
    pub fn write(&self, path: impl AsRef<Path>, array: &NdArray<'_>) -> Result<()> {
        self.write_in(&LocalStorage::mapped(), path, array)
    }

    /// As [`write`](PackOptions::write), to this storage.
    pub fn write_in(
        &self,
        storage: &dyn Storage,
        path: impl AsRef<Path>,
        array: &NdArray<'_>,
    ) -> Result<()> {
        let path = path.as_ref();
        self.to_file(storage, path, &self.job_of(array)?, array.bytes())
    }

    /// Writes the container of bytes to a file.
    pub fn write_bytes(
        &self,
        storage: &dyn Storage,
        path: impl AsRef<Path>,
        bytes: &[u8],
        metadata: Option<&Value>,
    ) -> Result<()> {
        let path = path.as_ref();
        self.to_file(storage, path, &self.job_of_bytes(bytes.len(), metadata)?, bytes)
    }

    /// Header, parameters and metadata section of bytes whose number is not known.
    pub(crate) fn stream(&self, metadata: Option<&Value>) -> Result<(Header, Params, Vec<u8>)> {
        let job = self.job_of_bytes(0, metadata)?;
        let chunk_size = self.stream_chunk_size();
        let room = self.room.unwrap_or(0);
        if room > MAX_SLOTS {
            let message = format!("expected at most {MAX_SLOTS} offsets, found {room}");
            return Err(Error::new(ErrorKind::Limit, message));
        }
        let header = Header {
            offsets: self.offsets && room > 0,
            chunk_size: Some(chunk_size as u32),
            last_chunk: None,
            nchunks: None,
            max_app_chunks: room,
            ..job.header
        };
        Ok((header, job.params, job.metadata))
    }

    /// The chunk size for bytes whose number is not known.
    pub(crate) fn stream_chunk_size(&self) -> usize {
        self.chunk_size.map_or(CHUNK, |size| size.min(MAX_CHUNK_SIZE as usize))
    }

    /// The job for an array.
    fn job_of(&self, array: &NdArray<'_>) -> Result<Job> {
        self.job_of_array(&describe(array), array.bytes().len())
    }

    /// The job for an array whose elements take `len` bytes.
    pub(crate) fn job_of_array(&self, array: &ArrayMetadata, len: usize) -> Result<Job> {
        self.job_described(array, len, &array.to_json(&self.extra))
    }

    /// The job for an array with this metadata.
    fn job_described(&self, array: &ArrayMetadata, len: usize, metadata: &str) -> Result<Job> {
        if array.dtype.has_objects() {
            let message = "expected an array of numbers or strings, found one of Python objects";
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        let item = array.dtype.item_size().max(1);
        let rows = array.shape.first().copied().unwrap_or(1).max(1);
        let row = match array.order {
            Order::C => len / rows,
            Order::F => item,
        };
        let typesize = self.typesize.unwrap_or(if item <= 255 { item } else { 1 });
        let section = self.section(Some(metadata))?;
        self.job(len, typesize, item, row, section)
    }

    fn job_of_bytes(&self, len: usize, metadata: Option<&Value>) -> Result<Job> {
        let text = metadata.map(|value| {
            let mut text = String::new();
            metadata::write_json(value, &mut text);
            text
        });
        self.job_of_text(len, text.as_deref())
    }

    /// The job for `len` bytes with this JSON as metadata.
    pub(crate) fn job_of_text(&self, len: usize, metadata: Option<&str>) -> Result<Job> {
        self.job(len, self.typesize.unwrap_or(8), 1, 1, self.section(metadata)?)
    }

    /// The metadata section; empty without metadata.
    fn section(&self, text: Option<&str>) -> Result<Vec<u8>> {
        let mut section = Vec::new();
        if let Some(text) = text {
            metadata::encode(text, &self.metadata, &mut section).map_err(refused)?;
        }
        Ok(section)
    }

    fn job(
        &self,
        len: usize,
        typesize: usize,
        item: usize,
        row: usize,
        metadata: Vec<u8>,
    ) -> Result<Job> {
        let chunk_size = self.chunk_size_for(len, item, row)?;
        let params = Params { typesize, ..self.params.clone() };
        params.check(chunk_size)?;
        let nchunks = len.div_ceil(chunk_size.max(1)).max(1) as u64;
        let header = Header {
            offsets: self.offsets,
            checksum: self.checksum,
            typesize: typesize as u8,
            chunk_size: Some(chunk_size as u32),
            last_chunk: Some((len - (nchunks as usize - 1) * chunk_size) as u32),
            nchunks: Some(nchunks),
            max_app_chunks: match (self.offsets, self.room) {
                (false, _) => 0,
                (true, None) => 10 * nchunks,
                (true, Some(room)) => room,
            },
            ..Header::default()
        };
        if header.slots() > MAX_SLOTS {
            let found = header.slots();
            let message = format!("expected at most {MAX_SLOTS} offsets, found {found}");
            return Err(Error::new(ErrorKind::Limit, message));
        }
        Ok(Job { params, header, metadata })
    }

    /// The chunk size for `len` bytes of such elements and rows: at most `len`, as in bloscpack.
    pub(crate) fn chunk_size_for(&self, len: usize, item: usize, row: usize) -> Result<usize> {
        let wanted = match self.chunk_size {
            Some(0) => return Err(invalid("expected chunks of at least one byte, found 0")),
            Some(size) => size.min(MAX_CHUNK_SIZE as usize),
            None => (len / 1024).clamp(CHUNK, LARGE_CHUNK),
        };
        let unit =
            if self.chunk_size.is_none() && row > item && row <= wanted { row } else { item };
        let size = (wanted / unit).max(1).saturating_mul(unit).min(len);
        if size > MAX_CHUNK_SIZE as usize {
            let message =
                format!("expected elements of at most {MAX_CHUNK_SIZE} bytes, found {item}");
            return Err(Error::new(ErrorKind::Limit, message));
        }
        Ok(size)
    }

    fn to_vec(&self, job: &Job, bytes: &[u8], out: &mut Vec<u8>) -> Result<()> {
        let start = out.len();
        // Enough if nothing compresses, up to a size where growing is cheap.
        let slots = 8 * job.header.slots() as usize;
        out.reserve(32 + job.metadata.len() + slots + bytes.len().min(4096) + 16 + 64);
        let done = self.run(job, bytes, &mut |bytes| {
            out.extend_from_slice(bytes);
            Ok(())
        });
        match done {
            Ok(ending) => {
                ending.patch(&mut out[start..]);
                Ok(())
            }
            Err(error) => {
                out.truncate(start);
                Err(error)
            }
        }
    }

    fn to_file(&self, storage: &dyn Storage, path: &Path, job: &Job, bytes: &[u8]) -> Result<()> {
        publish(storage, path, self.replace, |file| {
            self.run(job, bytes, &mut |bytes| file.append(bytes))
        })
    }

    /// Emits the container piece by piece.
    fn run(
        &self,
        job: &Job,
        bytes: &[u8],
        emit: &mut (dyn FnMut(&[u8]) -> Result<()> + Send),
    ) -> Result<Ending> {
        let mut head = Vec::new();
        let mut encoder = Encoder::start(job.header, &job.metadata, &mut head).map_err(refused)?;
        emit(&head)?;
        let mut push = |chunk: &mut Vec<u8>| {
            let digest = encoder.push(chunk).map_err(refused)?;
            chunk.extend_from_slice(digest.as_slice());
            emit(chunk)
        };
        let size = job.header.chunk_size.unwrap_or(0).max(1) as usize;
        if bytes.len() <= size || bytes.len() < PARALLEL || self.threads == 1 {
            let chunks = bytes.chunks(size);
            let empty = [bytes];
            let empty = if bytes.is_empty() { &empty[..] } else { &[] };
            with_scratch(|scratch| {
                let mut chunk = Vec::new();
                chunks.chain(empty.iter().copied()).try_for_each(|bytes| {
                    chunk.clear();
                    compress(&job.params, bytes, scratch, &mut chunk)?;
                    push(&mut chunk)
                })
            })?;
        } else {
            on_threads(self.threads, || {
                let mut chunks = bytes.chunks(size);
                pipeline(
                    || Ok(chunks.by_ref().take(window(size)).collect()),
                    |scratch, chunk: &[u8], out| compress(&job.params, chunk, scratch, out),
                    push,
                )
            })?;
        }
        encoder.finish().map_err(refused)
    }
}

/// Everything known about a container before its chunks are compressed.
pub(crate) struct Job {
    pub(crate) params: Params,
    pub(crate) header: Header,
    pub(crate) metadata: Vec<u8>,
}

fn describe(array: &NdArray<'_>) -> ArrayMetadata {
    let (dtype, shape) = (array.dtype().clone(), array.shape().to_vec());
    ArrayMetadata { dtype, shape, order: array.order() }
}

/// The error for something that cannot be written, which is not the fault of a file.
pub(crate) fn refused(error: crate::format::FormatError) -> Error {
    invalid(format!("expected {}, found {}", error.expected, error.found))
}
