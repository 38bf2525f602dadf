//! How a chunked array is opened and, when it is created, laid out.

use std::path::Path;
use std::sync::Arc;

use crate::array::chunked::read::{At, ChunkedArray};
use crate::array::chunked::files::{Check, Files};
use crate::array::chunked::write::store::ArrayStore;
use crate::error::{Error, ErrorKind, Result};
use crate::format::blosc::{Codec, Shuffle};
use crate::format::bloscpack::Checksum;
use crate::format::chunked::MAX_CHUNK_BYTES;
use crate::storage::{LocalStorage, Storage};
use crate::value::{DType, Element, NdArray};

/// Bytes of a chunk, unless the options say otherwise: these two and what is between.
const SMALL_CHUNK: usize = 64 << 10;
const LARGE_CHUNK: usize = 1 << 20;
/// An array of unknown length has chunks of this size.
const USUAL_CHUNK: usize = 256 << 10;
/// A small array is cut into so many chunks.
const CHUNKS: usize = 256;
/// Bytes of decompressed blocks that are kept.
const CACHE: usize = 32 << 20;
/// Bytes of the chunks in a file, before compression, and how many these are at most.
const SUPERCHUNK: usize = 32 << 20;
const MOST_CHUNKS: usize = 4096;

/// Options of [`ChunkedArray`] and [`ArrayStore`].
///
/// What is about chunks and their compression counts when an array is created and is read from it
/// afterwards.
#[derive(Debug, Clone)]
pub struct ArrayOptions {
    pub(crate) storage: Arc<dyn Storage>,
    pub(crate) check: Check,
    pub(crate) cache: usize,
    pub(crate) threads: Option<usize>,
    pub(crate) durable: bool,
    pub(crate) compact: bool,
    pub(crate) chunk_shape: Option<Vec<usize>>,
    pub(crate) expected_len: Option<u64>,
    pub(crate) codec: Codec,
    pub(crate) level: u8,
    pub(crate) shuffle: Shuffle,
    pub(crate) fill: Option<(Option<DType>, Vec<u8>)>,
    pub(crate) superchunk: Option<u32>,
    pub(crate) room: u32,
    pub(crate) versioned: bool,
    pub(crate) checksum: Checksum,
}

impl Default for ArrayOptions {
    fn default() -> ArrayOptions {
        ArrayOptions {
            storage: Arc::new(LocalStorage::mapped()),
            check: Check::default(),
            cache: CACHE,
            threads: None,
            durable: true,
            compact: true,
            chunk_shape: None,
            expected_len: None,
            codec: Codec::Lz4,
            level: 5,
            shuffle: Shuffle::Byte,
            fill: None,
            superchunk: None,
            room: 0,
            versioned: true,
            checksum: Checksum::Crc32,
        }
    }
}

impl ArrayOptions {
    /// Where the files are. By default the local file system, mapped.
    pub fn storage(mut self, storage: Arc<dyn Storage>) -> Self {
        self.storage = storage;
        self
    }

    /// What is compared before a chunk is believed. By default its checksum; its hash, once, where there
    /// is no checksum.
    pub fn check(mut self, check: Check) -> Self {
        self.check = check;
        self
    }

    /// About how many bytes of decompressed blocks are kept for who reads small pieces one after
    /// another, such as rows. 32 MiB by default; 0 keeps none.
    pub fn cache(mut self, bytes: usize) -> Self {
        self.cache = bytes;
        self
    }

    /// On how many threads chunks are compressed and decompressed. By default on those of rayon.
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = Some(threads);
        self
    }

    /// Whether a commit waits until the disk has everything. By default it does; without it a power
    /// failure may cost the array.
    pub fn durable(mut self, durable: bool) -> Self {
        self.durable = durable;
        self
    }

    /// Whether [`ArrayStore::gc`] also moves chunks out of files of which they are the lesser part, and
    /// joins small files. By default it does.
    pub fn compact(mut self, compact: bool) -> Self {
        self.compact = compact;
        self
    }

    /// Elements of a chunk along each axis. By default whole rows, as many as make some 64 KiB to
    /// 1 MiB, the more the larger the array.
    pub fn chunk_shape(mut self, shape: impl Into<Vec<usize>>) -> Self {
        self.chunk_shape = Some(shape.into());
        self
    }

    /// How long the first axis will become, for the shape of the chunks.
    pub fn expected_len(mut self, len: u64) -> Self {
        self.expected_len = Some(len);
        self
    }

    /// What compresses chunks. LZ4 by default.
    pub fn codec(mut self, codec: Codec) -> Self {
        self.codec = codec;
        self
    }

    /// How hard to compress, 0 to 9; 5 by default. With 0 chunks are stored as they are, and can be
    /// used in place: [`ChunkedArray::chunk_view`].
    pub fn level(mut self, level: u8) -> Self {
        self.level = level;
        self
    }

    /// What is done to elements before they are compressed. By default their bytes are shuffled.
    pub fn shuffle(mut self, shuffle: Shuffle) -> Self {
        self.shuffle = shuffle;
        self
    }

    /// The value of elements that nobody wrote. By default all bytes are zero.
    pub fn fill<T: Element>(mut self, value: T) -> Self {
        let value = NdArray::scalar(value);
        self.fill = Some((Some(value.dtype().clone()), value.bytes().to_vec()));
        self
    }

    /// The bytes of elements that nobody wrote, for types that no type of Rust is.
    pub fn fill_bytes(mut self, element: impl Into<Vec<u8>>) -> Self {
        self.fill = Some((None, element.into()));
        self
    }

    /// The most chunks in a file. By default as many as make 32 MiB.
    pub fn superchunk(mut self, chunks: u32) -> Self {
        self.superchunk = Some(chunks);
        self
    }

    /// Spare bytes after each chunk, in which a chunk that became longer is written over; only
    /// for arrays that are not versioned. None by default.
    pub fn room(mut self, bytes: u32) -> Self {
        self.room = bytes;
        self
    }

    /// Whether versions stay until [`ArrayStore::gc`] removes them. By default they do. Otherwise
    /// there is only the newest, chunks are written over in place, **a crash while that happens may
    /// cost these chunks**, and nobody may read meanwhile.
    pub fn versioned(mut self, versioned: bool) -> Self {
        self.versioned = versioned;
        self
    }

    /// The checksum of compressed chunks. CRC-32 by default.
    pub fn checksum(mut self, checksum: Checksum) -> Self {
        self.checksum = checksum;
        self
    }

    /// Opens the newest version for reading.
    pub fn open(&self, path: impl AsRef<Path>) -> Result<ChunkedArray> {
        self.open_at(path, At::Newest)
    }

    /// Opens a version for reading.
    pub fn open_at(&self, path: impl AsRef<Path>, at: At) -> Result<ChunkedArray> {
        ChunkedArray::open_with(self, path.as_ref(), at)
    }

    /// Opens an array for writing. There is one writer at a time; for a second one the error is
    /// [`ErrorKind::Locked`].
    pub fn open_store(&self, path: impl AsRef<Path>) -> Result<ArrayStore> {
        ArrayStore::open_with(self, path.as_ref())
    }

    /// Creates an array, full of the fill value, and opens it for writing.
    pub fn create(
        &self,
        path: impl AsRef<Path>,
        dtype: DType,
        shape: &[usize],
    ) -> Result<ArrayStore> {
        ArrayStore::create_with(self, path.as_ref(), dtype, shape)
    }

    /// The files of an array in this directory.
    pub(crate) fn files(&self, root: &Path) -> Files {
        Files::new(self.storage.clone(), root, self.check, self.cache)
    }

    /// Threads of its own, if it is not to use those of rayon.
    pub(crate) fn pool(&self) -> Result<Option<Arc<rayon::ThreadPool>>> {
        let Some(threads) = self.threads else { return Ok(None) };
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads.max(1)).build();
        let pool = pool.map_err(|e| Error::new(ErrorKind::Io, e.to_string()))?;
        Ok(Some(Arc::new(pool)))
    }

    /// The bytes of an element that nobody wrote.
    pub(crate) fn fill_of(&self, dtype: &DType) -> Result<Vec<u8>> {
        let Some((given, bytes)) = &self.fill else { return Ok(vec![0; dtype.item_size()]) };
        let same = match given {
            Some(given) => given == dtype,
            None => bytes.len() == dtype.item_size(),
        };
        if !same {
            let found = given.as_ref().map_or(format!("{} bytes", bytes.len()), DType::to_string);
            let message = format!("expected a fill value of type {dtype}, found {found}");
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        Ok(bytes.clone())
    }

    /// The shape of the chunks of an array.
    pub(crate) fn chunk_shape_of(&self, item: usize, shape: &[usize]) -> Result<Vec<usize>> {
        let chunk = match &self.chunk_shape {
            Some(chunk) => chunk.clone(),
            None => self.automatic(item, shape),
        };
        let bytes = chunk.iter().try_fold(item, |bytes, len| bytes.checked_mul(*len));
        let fits = bytes.is_some_and(|bytes| (1..=MAX_CHUNK_BYTES).contains(&(bytes as u64)));
        if chunk.len() != shape.len() || !fits {
            let message = format!(
                "expected chunks of {} axes and 1 to {MAX_CHUNK_BYTES} bytes, found {chunk:?} of \
                 {item} bytes each",
                shape.len()
            );
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        Ok(chunk)
    }

    /// Whole rows, or where one is too long, rows cut along their longest axes.
    fn automatic(&self, item: usize, shape: &[usize]) -> Vec<usize> {
        let Some((&first, rest)) = shape.split_first() else { return Vec::new() };
        let mut chunk: Vec<usize> =
            std::iter::once(1).chain(rest.iter().map(|n| *n.max(&1))).collect();
        let row =
            |chunk: &[usize]| chunk.iter().fold(item, |bytes, len| bytes.saturating_mul(*len));
        let expected =
            self.expected_len.map_or(0, |len| usize::try_from(len).unwrap_or(usize::MAX));
        let target = match first.max(expected) {
            0 => USUAL_CHUNK,
            len => (row(&chunk).saturating_mul(len) / CHUNKS).clamp(SMALL_CHUNK, LARGE_CHUNK),
        };
        while row(&chunk) > target {
            match chunk.iter_mut().max() {
                Some(longest) if *longest > 1 => *longest = longest.div_ceil(2),
                _ => break,
            }
        }
        chunk[0] = (target / row(&chunk)).max(1);
        chunk
    }

    /// The most chunks in a file.
    pub(crate) fn superchunk_of(&self, chunk_bytes: usize) -> Result<u32> {
        match self.superchunk {
            Some(0) => {
                let message = "expected one chunk in a superchunk at least, found 0";
                Err(Error::new(ErrorKind::Invalid, message))
            }
            Some(chunks) => Ok(chunks),
            None => Ok((SUPERCHUNK / chunk_bytes).clamp(1, MOST_CHUNKS) as u32),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_are_rows_of_a_good_size() {
        let options = ArrayOptions::default();
        for (item, shape, expected) in [
            (8, vec![], vec![]),
            (8, vec![0], vec![32 << 10]),
            (8, vec![100], vec![8 << 10]),
            (8, vec![100_000_000], vec![128 << 10]),
            (1, vec![60_000, 28, 28], vec![234, 28, 28]),
            (4, vec![10, 3, 2000, 2000], vec![1, 3, 250, 250]),
            (8, vec![0, 0, 3], vec![10922, 1, 3]),
            (8, vec![usize::MAX, usize::MAX], vec![1, 131072]),
            (3 << 20, vec![7], vec![1]),
        ] {
            assert_eq!(options.chunk_shape_of(item, &shape).unwrap(), expected, "{shape:?}");
        }
        let long = options.expected_len(1 << 40).chunk_shape_of(8, &[0]).unwrap();
        assert_eq!(long, [128 << 10]);
    }

    #[test]
    fn chunks_that_cannot_be_are_refused() {
        for (chunk, shape) in
            [(vec![0], vec![3]), (vec![1, 1], vec![3]), (vec![1 << 30], vec![3]), (vec![1], vec![])]
        {
            let options = ArrayOptions::default().chunk_shape(chunk);
            assert_eq!(options.chunk_shape_of(8, &shape).unwrap_err().kind(), ErrorKind::Invalid);
        }
    }

    #[test]
    fn a_fill_value_has_the_type_of_the_array() {
        let options = ArrayOptions::default().fill(1.5_f32);
        assert_eq!(options.fill_of(&DType::of::<f32>()).unwrap(), bytemuck::bytes_of(&1.5_f32));
        assert!(options.fill_of(&DType::of::<i32>()).is_err());
        let options = ArrayOptions::default().fill_bytes([1, 2]);
        assert_eq!(options.fill_of(&DType::bytes(2)).unwrap(), [1, 2]);
        assert!(options.fill_of(&DType::bytes(3)).is_err());
        assert_eq!(ArrayOptions::default().fill_of(&DType::bytes(3)).unwrap(), [0; 3]);
    }
}
