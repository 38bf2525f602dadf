//! One array: its files opened as they are needed.

use crate::error::Shown;
use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rayon::prelude::*;
use serde_json::{Map, Value};

use crate::error::{Error, ErrorKind, Result};
use crate::format::FormatError;
use crate::format::bcolz::{
    CParams, HEADER, Layout, MAX_ATTRS_BYTES, MAX_META_BYTES, Sizes, Storage as StorageMeta,
    Superchunk, behind_header, check_ratio, chunk_file_name, chunk_in, parse_attrs, recognise,
    superchunk_file_name,
};
use crate::format::blosc::{self, Scratch};
use crate::format::bloscpack::Checksum;
use crate::storage::{LocalStorage, Source, Storage};
use crate::value::{AccessError, DType, NdArray};

use super::{ATTRS, ROOTDIRS, damaged, exists, open_file, small_file};
use crate::array::packed::workers::{PARALLEL, with_scratch};
use crate::array::rows::{Rows, check_rows};
use crate::array::selection::invalid;

/// An array in a directory of bcolz, a *carray*. Opening reads the small files; a chunk's file is
/// opened when its rows are asked for, and only the blocks are decoded in which they are.
///
/// ```
/// use kiste::array::bcolz::{BcolzArray, BcolzOptions};
/// use kiste::value::NdArray;
///
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("table");
/// let table = ndarray::Array2::from_shape_fn((1000, 10), |(row, column)| (10 * row + column) as i32);
/// BcolzOptions::default().chunklen(128).write(&path, &NdArray::from_ndarray(&table))?;
///
/// let array = BcolzArray::open(&path)?;
/// assert_eq!((array.shape(), array.chunklen()), (&[1000, 10][..], 128));
/// assert_eq!(array.rows(126..130)?.to_ndarray::<i32>()?[[2, 0]], 1280); // opens two files
/// assert_eq!(array.select(&[999, 0, 0])?.to_ndarray::<i32>()?[[0, 9]], 9999);
/// assert_eq!(array.read()?.to_ndarray::<i32>()?, table.into_dyn());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct BcolzArray {
    storage: Arc<dyn Storage>,
    root: PathBuf,
    sizes: Sizes,
    meta: StorageMeta,
    attrs: Map<String, Value>,
    layout: Layout,
    places: Places,
}

/// Where the chunks are.
enum Places {
    /// Each in a data file of its own.
    Files,
    /// In superchunks, as the document of Blaze has it.
    Superchunks(Vec<Place>),
}

/// A chunk in a superchunk.
struct Place {
    number: u64,
    /// The chunk and the digest behind it.
    range: Range<u64>,
    checksum: Checksum,
}

/// A summary of an array.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct BcolzInfo {
    /// The type of the elements.
    pub dtype: DType,
    /// The length of each axis.
    pub shape: Vec<usize>,
    /// Rows of every chunk but the last.
    pub chunklen: usize,
    /// The number of chunks.
    pub chunks: u64,
    /// Bytes of the array.
    pub nbytes: u64,
    /// Bytes of all data files. (The `cbytes` in `meta/sizes` is something else: bcolz adds the
    /// size of one full chunk.)
    pub cbytes: u64,
    /// Compression parameters, as recorded.
    pub cparams: CParams,
    /// How many rows were expected.
    pub expectedlen: u64,
    /// The value of elements that were never written.
    pub dflt: Value,
}

impl BcolzArray {
    /// Opens a directory.
    pub fn open(path: impl AsRef<Path>) -> Result<BcolzArray> {
        BcolzArray::open_in(Arc::new(LocalStorage::mapped()), path)
    }

    /// Opens a directory of this storage.
    pub fn open_in(storage: Arc<dyn Storage>, root: impl AsRef<Path>) -> Result<BcolzArray> {
        let root = root.as_ref();
        refuse_others(&*storage, root)?;
        let meta = |name: &str| {
            let path = root.join("meta").join(name);
            let bytes = small_file(&*storage, &path, MAX_META_BYTES)?;
            let missing = || damaged(&path, "expected a file of a bcolz array, found none".into());
            bytes.map(|bytes| (path.clone(), bytes)).ok_or_else(missing)
        };
        let (path, bytes) = meta("sizes")?;
        let sizes = Sizes::parse(&bytes).map_err(|error| yaml_or(error, &bytes).at(&path))?;
        let (path, bytes) = meta("storage")?;
        let meta = StorageMeta::parse(&bytes).map_err(|error| yaml_or(error, &bytes).at(&path))?;
        if meta.dtype.has_objects() {
            return Err(Error::from(AccessError::Objects).at(&path));
        }
        let layout = layout(&sizes, &meta).map_err(|error| Error::from(error).at(&path))?;
        let attrs = attrs(&*storage, root)?;
        let root = root.to_path_buf();
        let places = Places::Files;
        let mut array = BcolzArray { storage, root, sizes, meta, attrs, layout, places };
        if array.layout.chunks() > 0 && array.has_superchunks()? {
            array.places = Places::Superchunks(array.find_in_superchunks()?);
        }
        Ok(array)
    }

    /// The type of the elements.
    pub fn dtype(&self) -> &DType {
        &self.meta.dtype
    }

    /// The length of each axis.
    pub fn shape(&self) -> &[usize] {
        &self.sizes.shape
    }

    /// The number of rows.
    pub fn len(&self) -> usize {
        self.sizes.shape[0]
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Rows of every chunk but the last.
    pub fn chunklen(&self) -> usize {
        usize::try_from(self.layout.chunklen()).unwrap_or(usize::MAX)
    }

    /// Bytes of the array.
    pub fn nbytes(&self) -> usize {
        self.len() * self.row_bytes()
    }

    /// How many rows were expected; 0 where that is not recorded.
    pub(crate) fn expectedlen(&self) -> u64 {
        self.meta.expectedlen
    }

    /// The attributes, as JSON.
    pub fn attrs(&self) -> &Map<String, Value> {
        &self.attrs
    }

    /// The bytes of elements that were never written, if the recorded value has the type of the
    /// array.
    pub fn fill(&self) -> Option<Vec<u8>> {
        self.meta.fill()
    }

    /// A summary of the array. Reads the size of each data file.
    pub fn info(&self) -> Result<BcolzInfo> {
        let (mut cbytes, mut last) = (0_u64, None);
        for chunk in 0..self.layout.chunks() {
            let path = self.path_of(chunk);
            if last.as_ref() != Some(&path) {
                let stat = self.storage.stat(&path)?;
                cbytes += stat.map_or(0, |stat| stat.len);
                last = Some(path);
            }
        }
        Ok(BcolzInfo {
            dtype: self.dtype().clone(),
            shape: self.sizes.shape.clone(),
            chunklen: self.chunklen(),
            chunks: self.layout.chunks(),
            nbytes: self.nbytes() as u64,
            cbytes,
            cparams: self.meta.cparams.clone(),
            expectedlen: self.meta.expectedlen,
            dflt: self.meta.dflt.clone(),
        })
    }

    /// The whole array.
    pub fn read(&self) -> Result<NdArray<'static>> {
        self.rows(0..self.len())
    }

    /// These rows.
    pub fn rows(&self, rows: Range<usize>) -> Result<NdArray<'static>> {
        check_rows(&rows, self.len())?;
        let size = rows.len() * self.row_bytes();
        self.check_chunks(self.chunks_of(&rows), size)?;
        let mut out = vec![0; size];
        self.read_into(rows.clone(), &mut out)?;
        let shape = [&[rows.len()], &self.shape()[1..]].concat();
        NdArray::new(self.dtype().clone(), shape, out)
    }

    /// Decodes these rows into a buffer of exactly their size, on several threads if there are
    /// many.
    pub fn read_into(&self, rows: Range<usize>, out: &mut [u8]) -> Result<()> {
        check_rows(&rows, self.len())?;
        if out.len() != rows.len() * self.row_bytes() {
            let expected = rows.len() * self.row_bytes();
            let message = format!("expected a buffer of {expected} bytes, found {}", out.len());
            return Err(invalid(message));
        }
        let is_small = out.len() < PARALLEL;
        let (mut parts, mut rest) = (Vec::new(), out);
        for chunk in self.chunks_of(&rows) {
            let of_chunk = self.layout.rows_of(chunk);
            let start = of_chunk.start.max(rows.start as u64) - of_chunk.start;
            let end = of_chunk.end.min(rows.end as u64) - of_chunk.start;
            let bytes = start as usize * self.row_bytes()..end as usize * self.row_bytes();
            let (part, after) = rest.split_at_mut(bytes.len());
            parts.push((chunk, bytes, part));
            rest = after;
        }
        let read = |scratch: &mut Scratch, (chunk, bytes, part): (u64, Range<usize>, &mut [u8])| {
            self.with_chunk(chunk, |data, _| scratch.decompress_range(data, bytes, part).map(drop))
        };
        if is_small || parts.len() == 1 {
            return with_scratch(|scratch| {
                parts.into_iter().try_for_each(|part| read(scratch, part))
            });
        }
        parts.into_par_iter().try_for_each_init(Scratch::default, read)
    }

    /// Chosen rows, in the given order, with repetitions. No file is opened twice and no block
    /// decoded twice.
    pub fn select(&self, rows: &[usize]) -> Result<NdArray<'static>> {
        if let Some(beyond) = rows.iter().find(|&&row| row >= self.len()) {
            return Err(invalid(format!("expected rows below {}, found {beyond}", self.len())));
        }
        let row = self.row_bytes();
        let too_large = || Error::new(ErrorKind::Limit, "the rows are larger than memory");
        let size = rows.len().checked_mul(row).filter(|&size| isize::try_from(size).is_ok());
        let mut sorted: Vec<(usize, usize)> = rows.iter().copied().zip(0..).collect();
        sorted.sort_unstable();
        let chunk_of = |row: usize| self.layout.chunk_of(row as u64);
        let groups = || sorted.chunk_by(|a, b| chunk_of(a.0) == chunk_of(b.0));
        let size = size.ok_or_else(too_large)?;
        self.check_chunks(groups().map(|group| chunk_of(group[0].0)), size)?;
        let mut out = vec![0; size];
        with_scratch(|scratch| {
            groups().try_for_each(|group| self.select_in_chunk(group, &mut out, scratch))
        })?;
        let shape = [&[rows.len()], &self.shape()[1..]].concat();
        NdArray::new(self.dtype().clone(), shape, out)
    }

    /// The chunks one after the other, each as the array of its rows.
    pub fn chunks(&self) -> impl Iterator<Item = Result<NdArray<'static>>> + '_ {
        (0..self.layout.chunks()).map(|chunk| {
            let rows = self.layout.rows_of(chunk);
            self.rows(rows.start as usize..rows.end as usize)
        })
    }

    /// Rows of one chunk, sorted, each with its place in the output: decoded in runs of blocks that
    /// follow each other.
    fn select_in_chunk(
        &self,
        group: &[(usize, usize)],
        out: &mut [u8],
        scratch: &mut Scratch,
    ) -> Result<()> {
        let (chunk, row) = (self.layout.chunk_of(group[0].0 as u64), self.row_bytes());
        let first = self.layout.rows_of(chunk).start as usize;
        self.with_chunk(chunk, |data, header| {
            let block = header.blocksize().max(1);
            let start_of = |entry: &(usize, usize)| (entry.0 - first) * row;
            let together = |a: &(usize, usize), b: &(usize, usize)| {
                start_of(b) / block <= (start_of(a) + row - 1) / block
            };
            let mut buffer = Vec::new();
            for run in group.chunk_by(together) {
                let start = start_of(&run[0]);
                buffer.resize(start_of(&run[run.len() - 1]) + row - start, 0);
                scratch.decompress_range(data, start..start + buffer.len(), &mut buffer)?;
                for entry in run {
                    let found = &buffer[start_of(entry) - start..][..row];
                    out[entry.1 * row..][..row].copy_from_slice(found);
                }
            }
            Ok(())
        })
    }

    fn row_bytes(&self) -> usize {
        // The layout has seen that even all rows together fit in memory.
        self.layout.row_bytes() as usize
    }

    fn chunks_of(&self, rows: &Range<usize>) -> Range<u64> {
        match rows.is_empty() {
            true => 0..0,
            false => {
                let last = self.layout.chunk_of(rows.end as u64 - 1);
                self.layout.chunk_of(rows.start as u64)..last + 1
            }
        }
    }

    fn path_of(&self, chunk: u64) -> PathBuf {
        let name = match &self.places {
            Places::Files => chunk_file_name(chunk),
            Places::Superchunks(places) => superchunk_file_name(places[chunk as usize].number),
        };
        self.root.join("data").join(name)
    }

    /// Checks the headers of these chunks before memory is allocated, unless it is little.
    fn check_chunks(&self, chunks: impl Iterator<Item = u64>, size: usize) -> Result<()> {
        match size < PARALLEL {
            true => Ok(()),
            false => { chunks }.try_for_each(|chunk| self.check_chunk(chunk)),
        }
    }

    fn check_chunk(&self, chunk: u64) -> Result<()> {
        let (path, source, range, _) = self.open_chunk(chunk)?;
        let skipped = if matches!(self.places, Places::Files) { HEADER as u64 } else { 0 };
        let start = range.start.saturating_add(skipped).min(range.end);
        let end = start.saturating_add(blosc::HEADER as u64).min(range.end);
        let head = source.read(start..end)?;
        let checked = blosc::Header::parse(&head).and_then(|header| {
            if header.chunk_len() as u64 > range.end - start {
                let expected = format!("at most {} bytes for the chunk", range.end - start);
                return Err(FormatError::new(12, expected, header.chunk_len().to_string()));
            }
            check_ratio(&header)?;
            self.layout.check(chunk, header.nbytes() as u64)
        });
        checked.map_err(|error| Error::from(error.behind(start)).at(&path))
    }

    /// The file in which a chunk is, the bytes that it takes with its digest, and the kind of that.
    fn open_chunk(&self, chunk: u64) -> Result<(PathBuf, Source, Range<u64>, Option<Checksum>)> {
        let path = self.path_of(chunk);
        let Some(source) = open_file(&*self.storage, &path)? else {
            let count = self.layout.chunks();
            let message = format!("expected the file of chunk {chunk} of {count}, found none");
            return Err(damaged(&path, message));
        };
        let (range, checksum) = match &self.places {
            Places::Files => (0..source.len(), None),
            Places::Superchunks(places) => {
                let place = &places[chunk as usize];
                (place.range.clone(), Some(place.checksum))
            }
        };
        let most = (HEADER + blosc::HEADER + blosc::MAX_CHUNK) as u64;
        if range.end - range.start > most {
            let found = range.end - range.start;
            return Err(damaged(&path, format!("expected at most {most} bytes, found {found}")));
        }
        Ok((path, source, range, checksum))
    }

    /// Calls `work` with a Blosc chunk and its header, once both are verified.
    fn with_chunk<T>(
        &self,
        chunk: u64,
        work: impl FnOnce(&[u8], &blosc::Header) -> Result<T, FormatError>,
    ) -> Result<T> {
        let (path, source, range, checksum) = self.open_chunk(chunk)?;
        let start = range.start;
        let bytes = source.read(range)?;
        let found = match checksum {
            None => chunk_in(&bytes),
            Some(checksum) => Superchunk::verified(&bytes, checksum),
        };
        let shifted = |error: FormatError| match checksum {
            None => behind_header(error),
            Some(_) => error.behind(start),
        };
        found
            .and_then(|data| {
                let header = blosc::Header::parse(data).map_err(shifted)?;
                self.layout.check(chunk, header.nbytes() as u64).map_err(shifted)?;
                work(data, &header).map_err(shifted)
            })
            .map_err(|error| Error::from(error).at(&path))
    }

    /// Whether the chunks are in superchunks, as the documents before bcolz describe them.
    fn has_superchunks(&self) -> Result<bool> {
        let data = self.root.join("data");
        let first = exists(&*self.storage, &data.join(chunk_file_name(0)))?;
        Ok(!first && exists(&*self.storage, &data.join(superchunk_file_name(1)))?)
    }

    /// Counts the chunks through all superchunks. Each file is walked.
    fn find_in_superchunks(&self) -> Result<Vec<Place>> {
        let mut places = Vec::new();
        for number in 1.. {
            if places.len() as u64 >= self.layout.chunks() {
                break;
            }
            let path = self.root.join("data").join(superchunk_file_name(number));
            let Some(source) = open_file(&*self.storage, &path)? else {
                let count = self.layout.chunks();
                let message = format!("expected {count} chunks, found {} before it", places.len());
                return Err(damaged(&path, message));
            };
            let bytes = source.read(0..source.len())?;
            let found = Superchunk::parse(&bytes).map_err(|error| {
                let kind = match recognise(&bytes, source.len()).is_readable() {
                    true => ErrorKind::Damaged,
                    false => ErrorKind::Unsupported,
                };
                Error::new(kind, error.to_string()).at(&path)
            })?;
            let checksum = found.checksum();
            places.extend(found.chunks().iter().map(|chunk| {
                let range = chunk.start as u64..(chunk.end + checksum.size()) as u64;
                Place { number, range, checksum }
            }));
        }
        Ok(places)
    }
}

impl Rows for BcolzArray {
    fn dtype(&self) -> &DType {
        BcolzArray::dtype(self)
    }

    fn shape(&self) -> &[usize] {
        BcolzArray::shape(self)
    }

    fn step(&self) -> usize {
        self.chunklen()
    }

    fn read_rows(&self, rows: Range<usize>) -> Result<NdArray<'static>> {
        self.rows(rows)
    }
}

impl fmt::Debug for BcolzArray {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (root, chunks) = (Shown::of(&self.root), self.layout.chunks());
        write!(f, "BcolzArray({root}: {}, {:?}, {chunks} chunks)", self.dtype(), self.shape())
    }
}

/// Recognizes directories that are not arrays of bcolz but look similar.
fn refuse_others(storage: &dyn Storage, root: &Path) -> Result<()> {
    let has = |name: &str| exists(storage, &root.join(name));
    let unsupported = |message: &str| Err(Error::new(ErrorKind::Unsupported, message).at(root));
    if !exists(storage, root)? {
        return Err(Error::new(ErrorKind::NotFound, "there is no such directory").at(root));
    }
    if has(ROOTDIRS)? {
        return unsupported("expected an array of bcolz, found a table");
    }
    if has("meta/versions")? {
        return unsupported("expected an array of bcolz, found a chunked array with versions");
    }
    if has("meta/shape")? && !has("meta/sizes")? {
        return unsupported(
            "expected an array of bcolz, found one of the carray proposal, whose storage file has no known grammar",
        );
    }
    Ok(())
}

/// The error about a JSON file, unless it is YAML, as two of the documents have it.
fn yaml_or(error: FormatError, file: &[u8]) -> Error {
    let start = file.trim_ascii_start();
    if start.starts_with(b"shape:") || start.starts_with(b"dtype:") {
        let message = "expected JSON as bcolz writes it, found YAML as the RFC for bcolz has it, \
            which nothing writes";
        return Error::new(ErrorKind::Unsupported, message);
    }
    error.into()
}

/// The layout of an array whose `meta` files agree.
fn layout(sizes: &Sizes, meta: &StorageMeta) -> Result<Layout, FormatError> {
    let row_bytes = sizes.shape[1..]
        .iter()
        .try_fold(meta.dtype.item_size() as u64, |size, &len| size.checked_mul(len as u64));
    let too_large = || {
        let found = format!("{:?} of {}", sizes.shape, meta.dtype);
        FormatError::new(0, "an array that fits in memory", found)
    };
    let layout =
        Layout::new(sizes.shape[0] as u64, meta.chunklen, row_bytes.ok_or_else(too_large)?)?;
    let nbytes = layout.rows() * layout.row_bytes();
    if nbytes != sizes.nbytes {
        let expected = format!("{nbytes} bytes for {:?} of {}", sizes.shape, meta.dtype);
        return Err(FormatError::new(0, expected, format!("{} in meta/sizes", sizes.nbytes)));
    }
    Ok(layout)
}

/// The attributes of an array or a table: as bcolz stores them, else as the Blaze document says,
/// else none.
pub(super) fn attrs(storage: &dyn Storage, root: &Path) -> Result<Map<String, Value>> {
    for name in [ATTRS, "meta/attributes"] {
        let path = root.join(name);
        if let Some(bytes) = small_file(storage, &path, MAX_ATTRS_BYTES)? {
            return parse_attrs(&bytes).map_err(|error| Error::from(error).at(&path));
        }
    }
    Ok(Map::new())
}
