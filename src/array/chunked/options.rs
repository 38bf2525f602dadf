//! How a chunked array is opened and, when it is created, stored. Data only: the defaults that depend
//! on the array are in `layout`, and what takes these options in `open`.

use std::sync::Arc;

use crate::format::blosc::{Codec, Shuffle};
use crate::format::bloscpack::Checksum;
use crate::storage::{LocalStorage, Storage};
use crate::value::{DType, Element, NdArray};

/// The default for [`ArrayOptions::cache`].
const CACHE: usize = 32 << 20;

/// How much is verified before a chunk is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Check {
    /// The hash of the uncompressed chunk, the first time this array reads it. Finds any change,
    /// malicious ones too, but hashing takes as long as decompressing.
    Hashes,
    /// The checksum of the compressed chunk, the first time this array reads it, which costs next to
    /// nothing. If only some blocks of a chunk are needed, their checksums are compared instead, where the
    /// file has them. Chunks without a checksum (those stored uncompressed) are verified by hash. Chunks
    /// with [room](crate::array::ArrayOptions::room) are verified by hash too, every time: the
    /// checksum may belong to other content that was written over them. Finds all accidental damage,
    /// but not a file replaced by an intact one of the same kind; [`verify`] compares all hashes.
    ///
    /// [`verify`]: crate::array::ChunkedArray::verify
    #[default]
    Checksums,
    /// Nothing: anything the decoder accepts is used.
    Nothing,
}

/// Options of [`ChunkedArray`](crate::array::ChunkedArray) and
/// [`ArrayStore`](crate::array::ArrayStore).
///
/// Options about chunks and compression apply when an array is created; afterwards they are read
/// from the array.
///
/// ```
/// use kiste::array::ArrayOptions;
/// use kiste::format::blosc::Codec;
/// use kiste::value::DType;
///
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("weights");
/// let options = ArrayOptions::default().codec(Codec::Zstd).level(3).chunk_shape([64, 64]);
/// let store = options.create(&path, DType::of::<f32>(), &[1000, 1000])?;
/// assert_eq!(store.array().grid().counts(), [16, 16]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
#[must_use = "options do nothing until an array is opened or created with them"]
pub struct ArrayOptions {
    pub(crate) storage: Arc<dyn Storage>,
    /// Whether that is the local file system, which has no URLs.
    pub(crate) on_disk: bool,
    pub(super) check: Check,
    pub(super) cache: usize,
    pub(super) threads: Option<usize>,
    pub(super) durable: bool,
    pub(super) compact: bool,
    pub(super) chunk_shape: Option<Vec<usize>>,
    pub(crate) expected_len: Option<u64>,
    pub(super) codec: Codec,
    pub(super) level: u8,
    pub(super) shuffle: Shuffle,
    pub(super) fill: Option<(Option<DType>, Vec<u8>)>,
    pub(super) superchunk: Option<u32>,
    pub(super) room: u32,
    pub(super) versioned: bool,
    pub(super) checksum: Checksum,
}

impl Default for ArrayOptions {
    fn default() -> ArrayOptions {
        ArrayOptions {
            storage: Arc::new(LocalStorage::mapped()),
            on_disk: true,
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
    /// Where the files are. Default: the local file system, memory-mapped.
    pub fn storage(mut self, storage: Arc<dyn Storage>) -> Self {
        (self.storage, self.on_disk) = (storage, false);
        self
    }

    /// How much is verified before a chunk is used. Default: [`Check::Checksums`].
    pub fn check(mut self, check: Check) -> Self {
        self.check = check;
        self
    }

    /// About how many bytes of decompressed blocks to cache, for programs that read small pieces in
    /// sequence, such as rows. Default: 32 MiB; 0 turns the cache off.
    pub fn cache(mut self, bytes: usize) -> Self {
        self.cache = bytes;
        self
    }

    /// How many threads compress and decompress chunks. Default: rayon's pool.
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = Some(threads);
        self
    }

    /// Whether a commit waits until everything is on disk. Default: yes. Without it a power failure
    /// may destroy the array.
    pub fn durable(mut self, durable: bool) -> Self {
        self.durable = durable;
        self
    }

    /// Whether [`ArrayStore::gc`](crate::array::ArrayStore::gc) also moves chunks out of files that
    /// are mostly unused, and joins small files. Default: yes.
    pub fn compact(mut self, compact: bool) -> Self {
        self.compact = compact;
        self
    }

    /// Elements of a chunk along each axis. Default: whole rows, enough to make 64 KiB to 1 MiB,
    /// more for larger arrays.
    pub fn chunk_shape(mut self, shape: impl Into<Vec<usize>>) -> Self {
        self.chunk_shape = Some(shape.into());
        self
    }

    /// How long the first axis is expected to grow; used to choose the chunk shape.
    pub fn expected_len(mut self, len: u64) -> Self {
        self.expected_len = Some(len);
        self
    }

    /// The codec that compresses chunks. Default: LZ4.
    pub fn codec(mut self, codec: Codec) -> Self {
        self.codec = codec;
        self
    }

    /// The compression level, 0 to 9. Default: 5. At level 0 chunks are stored uncompressed and can be
    /// used in place; see [`ChunkedArray::chunk_view`](crate::array::ChunkedArray::chunk_view).
    pub fn level(mut self, level: u8) -> Self {
        self.level = level;
        self
    }

    /// How elements are shuffled before compression. Default: by bytes.
    pub fn shuffle(mut self, shuffle: Shuffle) -> Self {
        self.shuffle = shuffle;
        self
    }

    /// The value of elements that were never written. Default: all bytes zero.
    pub fn fill<T: Element>(mut self, value: T) -> Self {
        let value = NdArray::scalar(value);
        self.fill = Some((Some(value.dtype().clone()), value.bytes().to_vec()));
        self
    }

    /// The bytes of elements that were never written, for types that have no Rust equivalent.
    pub fn fill_bytes(mut self, element: impl Into<Vec<u8>>) -> Self {
        self.fill = Some((None, element.into()));
        self
    }

    /// The maximum number of chunks in a file. Default: 32 MiB worth of chunks.
    pub fn superchunk(mut self, chunks: u32) -> Self {
        self.superchunk = Some(chunks);
        self
    }

    /// Spare bytes after each chunk, so that a chunk that grows can be overwritten in place. Only for
    /// arrays that are not [versioned](Self::versioned). Default: 0.
    pub fn room(mut self, bytes: u32) -> Self {
        self.room = bytes;
        self
    }

    /// Whether versions are kept until [`ArrayStore::gc`](crate::array::ArrayStore::gc) removes them.
    /// Default: yes. Otherwise there is only the newest version; with [room](Self::room), chunks are
    /// overwritten in place, **a crash during a commit may destroy these chunks**, and no one may
    /// read the array during a commit.
    pub fn versioned(mut self, versioned: bool) -> Self {
        self.versioned = versioned;
        self
    }

    /// The checksum of compressed chunks. Default: CRC-32.
    pub fn checksum(mut self, checksum: Checksum) -> Self {
        self.checksum = checksum;
        self
    }
}
