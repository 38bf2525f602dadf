//! [`ContainerInfo`]: what a container of bloscpack says about itself.

use std::io::{self, Read};
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::Value;

use super::recover::check;
use super::stream::PackedReader;
use crate::array::on_disk::expect_on_disk;
use crate::error::Result;
use crate::format::bloscpack::{Container, Header, MetadataCodec, MetadataHeader};
use crate::format::{FormatError, blosc, numpy};
use crate::storage::{LocalStorage, Storage};
use crate::value::Order;

/// The description of a container: header, metadata, array, first chunk and ratio. As JSON it is an
/// object of the same names.
///
/// Only the part before the first chunk is read, and the header of that chunk.
///
/// ```
/// use kiste::array::{ContainerInfo, PackOptions};
/// use kiste::value::NdArray;
///
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("numbers.blp");
/// let numbers = ndarray::Array1::from_iter(0..1000_i32);
/// PackOptions::default().write(&path, &NdArray::from_ndarray(&numbers))?;
/// let info = ContainerInfo::of(&path)?;
/// assert_eq!(info.nbytes, Some(4000));
/// assert_eq!(info.array.unwrap().shape, [1000]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ContainerInfo {
    /// The file.
    #[serde(serialize_with = "crate::error::serialize_path")]
    pub file: PathBuf,
    /// Its bytes.
    pub bytes: u64,
    /// The uncompressed bytes, if the header says.
    pub nbytes: Option<u64>,
    /// How many times smaller it is.
    pub ratio: Option<f64>,
    /// Its header.
    pub header: ContainerHeader,
    /// Where the existing chunks begin; none where that is not known.
    pub offsets: Vec<Option<u64>>,
    /// The metadata.
    pub metadata: Option<Value>,
    /// How the metadata are stored.
    pub metadata_header: Option<ContainerMetadata>,
    /// The array, if the metadata describe one.
    pub array: Option<ContainerArray>,
    /// The first chunk.
    pub first_chunk: Option<ContainerChunk>,
    /// Whether every chunk was decoded and compared with its checksum.
    pub verified: bool,
    /// The metadata as they are written.
    #[serde(skip)]
    pub metadata_text: Option<String>,
}

/// The header of a container.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ContainerHeader {
    /// The version of the format.
    pub version: u8,
    /// Whether the positions of chunks are written; without them nothing can be appended.
    pub offsets: bool,
    /// Whether there are metadata.
    pub metadata: bool,
    /// The checksum after each chunk.
    pub checksum: &'static str,
    /// Bytes of an element.
    pub typesize: u8,
    /// Uncompressed bytes of a chunk.
    pub chunk_size: Option<u32>,
    /// Uncompressed bytes of the last chunk.
    pub last_chunk: Option<u32>,
    /// Chunks.
    pub nchunks: Option<u64>,
    /// Chunks that can be appended.
    pub max_app_chunks: u64,
}

/// How the metadata of a container are stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ContainerMetadata {
    /// Option bits, all 0.
    pub options: u8,
    /// Their checksum.
    pub checksum: &'static str,
    /// Their codec, `None` or `zlib`.
    pub codec: &'static str,
    /// The compression level.
    pub level: u8,
    /// Bytes, uncompressed.
    pub size: u32,
    /// Bytes that there is room for.
    pub max_size: u32,
    /// Bytes as stored.
    pub stored_size: u32,
}

/// The array in a container.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ContainerArray {
    /// The name of its type.
    pub dtype: String,
    /// Its type as NumPy writes it.
    pub descr: String,
    /// The length of each axis.
    pub shape: Vec<usize>,
    /// `C` or `F`.
    pub order: &'static str,
}

/// The header of a chunk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ContainerChunk {
    /// Where it begins.
    pub at: usize,
    /// Its codec.
    pub codec: &'static str,
    /// `none`, `byte` or `bit`.
    pub shuffle: &'static str,
    /// Whether it is not compressed.
    pub copied: bool,
    /// Streams of a block; none where there are no blocks.
    pub splits: Option<usize>,
    /// Bytes of an element.
    pub typesize: usize,
    /// Uncompressed bytes.
    pub nbytes: usize,
    /// Uncompressed bytes of a block.
    pub blocksize: usize,
    /// Bytes as stored.
    pub bytes: usize,
}

impl ContainerInfo {
    /// Reads the beginning of a container.
    ///
    /// # Errors
    ///
    /// [`Damaged`](crate::ErrorKind::Damaged) if it is none, and
    /// [`Interrupted`](crate::ErrorKind::Interrupted) if an append to it was interrupted.
    pub fn of(path: impl AsRef<Path>) -> Result<ContainerInfo> {
        let path = path.as_ref();
        expect_on_disk(path)?;
        let failed = |error: FormatError| crate::error::Error::from(error).at(path);
        let storage = LocalStorage::mapped();
        check(&storage, path)?;
        let source = storage.open(path)?;
        let container = Container::parse(source.mapped().unwrap_or_default()).map_err(failed)?;
        let header = container.header();
        let section = container.metadata();
        let text = section.map(|section| section.text()).transpose().map_err(failed)?;
        let value = section.map(|section| section.value()).transpose().map_err(failed)?;
        let is_array = value.as_ref().and_then(|value| value.get("container"));
        let array = match is_array.is_some_and(|container| container == "numpy") {
            true => Some(container.array().map_err(failed)?),
            false => None,
        };
        let (bytes, nbytes) = (source.len(), header.nbytes());
        let first = container.chunks().next().transpose().map_err(failed)?;
        let chunks = header.nchunks.unwrap_or(0).try_into().unwrap_or(usize::MAX);
        Ok(ContainerInfo {
            file: path.to_path_buf(),
            bytes,
            nbytes,
            ratio: nbytes.map(|nbytes| nbytes as f64 / bytes as f64),
            header: ContainerHeader::of(header),
            offsets: container.offsets().iter().take(chunks).collect(),
            metadata: value,
            metadata_header: section.map(|section| ContainerMetadata::of(section.header())),
            array: array.map(|array| ContainerArray {
                dtype: numpy::descr::name(&array.dtype),
                descr: numpy::descr::repr(&array.dtype),
                shape: array.shape,
                order: match array.order {
                    Order::C => "C",
                    Order::F => "F",
                },
            }),
            first_chunk: first.map(|chunk| ContainerChunk::of(chunk.at(), chunk.header())),
            verified: false,
            metadata_text: text.map(|text| text.into_owned()),
        })
    }

    /// Decodes every chunk of the same container from here, and compares it with its checksum. On this
    /// many threads; 0 is one for each core.
    ///
    /// # Errors
    ///
    /// [`Damaged`](crate::ErrorKind::Damaged) for the first chunk that is.
    pub fn verify(&mut self, from: impl Read + Send, threads: usize) -> Result<()> {
        let found = PackedReader::new(from)?.copy_to(&mut io::sink(), threads)?;
        (self.verified, self.nbytes) = (true, Some(found));
        self.ratio = Some(found as f64 / self.bytes as f64);
        Ok(())
    }
}

impl ContainerHeader {
    fn of(header: &Header) -> ContainerHeader {
        ContainerHeader {
            version: header.version,
            offsets: header.offsets,
            metadata: header.metadata,
            checksum: header.checksum.name(),
            typesize: header.typesize,
            chunk_size: header.chunk_size,
            last_chunk: header.last_chunk,
            nchunks: header.nchunks,
            max_app_chunks: header.max_app_chunks,
        }
    }
}

impl ContainerMetadata {
    fn of(header: &MetadataHeader) -> ContainerMetadata {
        ContainerMetadata {
            options: header.options,
            checksum: header.checksum.name(),
            codec: match header.codec {
                MetadataCodec::None => "None",
                MetadataCodec::Zlib => "zlib",
            },
            level: header.level,
            size: header.size,
            max_size: header.max_size,
            stored_size: header.stored_size,
        }
    }
}

impl ContainerChunk {
    fn of(at: usize, header: &blosc::Header) -> ContainerChunk {
        let copied = header.is_memcpyed();
        ContainerChunk {
            at,
            codec: header.codec().name(),
            shuffle: match header.shuffle() {
                blosc::Shuffle::None => "none",
                blosc::Shuffle::Byte => "byte",
                blosc::Shuffle::Bit => "bit",
            },
            copied,
            splits: (!copied && header.blocks() > 0).then(|| header.splits(0)),
            typesize: header.typesize(),
            nbytes: header.nbytes(),
            blocksize: header.blocksize(),
            bytes: header.chunk_len(),
        }
    }
}
