//! One open version: its files, columns and tables, and the chunks that are found in them.
//!
//! Not here: selections, and views of single fields, which are in
//! [`ChunkedArray`](crate::array::ChunkedArray).

use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use crate::array::chunked::columns::{self, Leaf, Spelling};
use crate::array::chunked::files::Files;
use crate::array::chunked::options::ArrayOptions;
use crate::array::chunked::superchunk::{SuperchunkFile, in_chunk};
use crate::array::chunked::table::Table;
use crate::array::grid::ChunkGrid;
use crate::array::transfer::BaseSlab;
use crate::error::{Error, ErrorKind, Result};
use crate::format::FormatError;
use crate::format::blosc::Scratch;
use crate::format::bloscpack::Checksum;
use crate::format::chunked::segment::Place;
use crate::format::chunked::superchunk::Content;
use crate::format::chunked::{MAX_CHUNK_BYTES, Numbering, Version, names};
use crate::value::DType;

/// State shared by all views of one version.
pub(crate) struct OpenVersion {
    pub(crate) files: Arc<Files>,
    pub(crate) version: Version,
    pub(crate) dtype: DType,
    pub(crate) grid: ChunkGrid,
    pub(crate) numbering: Numbering,
    pub(crate) columns: Vec<Column>,
    pub(crate) threads: Threads,
    /// The same version after a compaction moved its chunks to other files, once that was noticed.
    pub(crate) moved: OnceLock<Arc<OpenVersion>>,
}

/// A pool of the array's own; `None` is rayon's.
pub(crate) type Threads = Option<Arc<rayon::ThreadPool>>;

/// The threads that the options ask for.
pub(crate) fn threads_of(options: &ArrayOptions) -> Result<Threads> {
    let Some(threads) = options.threads else { return Ok(None) };
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads.max(1)).build();
    let pool = pool.map_err(|e| Error::new(ErrorKind::Io, e.to_string()))?;
    Ok(Some(Arc::new(pool)))
}

/// One column of one version.
pub(crate) struct Column {
    pub(crate) leaf: Leaf,
    /// The fill value.
    pub(crate) fill: Vec<u8>,
    table: OnceLock<Table>,
}

impl OpenVersion {
    pub(crate) fn new(
        files: Arc<Files>,
        version: Version,
        threads: Threads,
    ) -> Result<OpenVersion> {
        let path = || files.version_path(version.version);
        let damaged = |expected: &str, found: String| {
            let message = format!("expected {expected}, found {found}");
            Error::new(ErrorKind::Damaged, message).at(path())
        };
        let storage = &version.storage;
        let dtype: DType =
            storage.dtype.parse().map_err(|e: FormatError| Error::from(e).at(path()))?;
        // The older spelling works too, if the file system tells it apart.
        let recorded = || version.columns.iter().map(|column| &column.path);
        let mut leaves = columns::leaves(&dtype).map_err(|e| e.at(path()))?;
        if !leaves.iter().map(|leaf| &leaf.path).eq(recorded()) {
            leaves = columns::leaves_spelled(&dtype, Spelling::Plain).map_err(|e| e.at(path()))?;
        }
        if !leaves.iter().map(|leaf| &leaf.path).eq(recorded()) {
            return Err(damaged("the columns of the type", format!("{:?}", version.columns)));
        }
        let item = dtype.item_size();
        let elements: u64 = storage.chunkshape.iter().product();
        if elements.checked_mul(item as u64).is_none_or(|bytes| bytes > MAX_CHUNK_BYTES) {
            return Err(damaged(
                "chunks of at most 2^31 - 17 bytes",
                format!("{elements} elements"),
            ));
        }
        if storage.fill.len() != item {
            return Err(damaged("the bytes of one element", format!("{}", storage.fill.len())));
        }
        let sizes = |sizes: &[u64]| -> Result<Vec<usize>> {
            let sizes = sizes.iter().map(|n| usize::try_from(*n)).collect::<Result<_, _>>();
            sizes.map_err(|_| Error::new(ErrorKind::Limit, "more elements than can be counted"))
        };
        let grid = ChunkGrid::new(&sizes(&version.shape)?, &sizes(&storage.chunkshape)?);
        let grid = grid.map_err(|e| e.at(path()))?;
        let numbering = version.numbering().map_err(|e| Error::from(e).at(path()))?;
        let column = |leaf: Leaf| {
            let fill = storage.fill[leaf.offset..leaf.offset + leaf.size].to_vec();
            Column { leaf, fill, table: OnceLock::new() }
        };
        let columns = leaves.into_iter().map(column).collect();
        let moved = OnceLock::new();
        Ok(OpenVersion { files, dtype, grid, numbering, columns, threads, moved, version })
    }

    /// The chunk table of a column; opened on first use.
    pub(crate) fn table(&self, column: usize) -> Result<&Table> {
        let slot = &self.columns[column].table;
        if let Some(table) = slot.get() {
            return Ok(table);
        }
        let segments = &self.version.columns[column].segments;
        let table = self.files.table(self.version.version, segments)?;
        Ok(slot.get_or_init(|| table))
    }

    /// The same version with new tables, if its file names other segments than it did.
    pub(crate) fn moved(&self) -> Option<&OpenVersion> {
        let version = self.files.version(self.version.version).ok()?;
        if version.columns == self.version.columns {
            return None;
        }
        let core = OpenVersion::new(self.files.clone(), version, self.threads.clone()).ok()?;
        Some(self.moved.get_or_init(|| Arc::new(core)))
    }

    /// The number of a chunk in the tables.
    pub(crate) fn number(&self, cell: usize) -> u64 {
        let at: Vec<u64> = self.grid.coordinates(cell).into_iter().map(|i| i as u64).collect();
        self.numbering.number(&at)
    }

    /// Elements of a chunk.
    pub(crate) fn chunk_len(&self) -> usize {
        self.grid.chunk_shape().iter().product()
    }

    /// Runs on the threads of this array.
    pub(crate) fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        match &self.threads {
            Some(pool) => pool.install(work),
            None => work(),
        }
    }

    fn open(&self, column: usize, place: &Place) -> Result<Arc<SuperchunkFile>> {
        let path = &self.columns[column].leaf.path;
        let file = self.files.superchunk(self.version.version, path, place.superchunk)?;
        let expected = self.chunk_len() * self.columns[column].leaf.size;
        if file.layout.chunk_bytes() as usize != expected {
            let found = file.layout.chunk_bytes();
            let message = format!("expected chunks of {expected} bytes, found {found}");
            return Err(Error::new(ErrorKind::Damaged, message).at(&file.path));
        }
        Ok(file)
    }

    /// A stored chunk of a column; `None` if it is all fill.
    pub(crate) fn chunk(&self, column: usize, number: u64) -> Result<Option<StoredChunk>> {
        let Some(place) = self.table(column)?.find(number) else { return Ok(None) };
        let file = self.open(column, &place).map_err(|e| self.in_chunk(e, column, number))?;
        Ok(Some(StoredChunk { number, place, file }))
    }

    /// Opens chunks of a column that are at these places.
    pub(crate) fn open_chunks(
        &self,
        column: usize,
        places: Vec<(u64, Place)>,
    ) -> Result<ColumnChunks<'_>> {
        let mut chunks: Vec<StoredChunk> = Vec::with_capacity(places.len());
        for (number, place) in places {
            // Neighbours mostly share a file.
            let last = chunks.last().filter(|last| last.place.superchunk == place.superchunk);
            let file = match last {
                Some(last) => last.file.clone(),
                None => self.open(column, &place).map_err(|e| self.in_chunk(e, column, number))?,
            };
            chunks.push(StoredChunk { number, place, file });
        }
        Ok(ColumnChunks::new(self, column, chunks))
    }

    /// The content of the superchunks of a column.
    pub(crate) fn content(&self, column: usize) -> Result<Content> {
        let storage = &self.version.storage;
        let leaf = &self.columns[column].leaf;
        let checksum = Checksum::from_name(&storage.checksum).ok_or_else(|| {
            let message = format!("expected a checksum of bloscpack, found {:?}", storage.checksum);
            Error::new(ErrorKind::Unsupported, message)
        })?;
        Ok(Content {
            dtype: leaf.dtype.to_string(),
            chunk_shape: storage.chunkshape.clone(),
            column: leaf.path.clone(),
            // The version was checked: a chunk has fewer than 2^31 bytes.
            chunk_bytes: (self.chunk_len() * leaf.size) as u32,
            typesize: leaf.typesize,
            checksum: if storage.cparams.clevel == 0 { Checksum::None } else { checksum },
            room: storage.room,
        })
    }

    /// The directories of the array, as the format names them; columns come first.
    pub(crate) fn dirs(&self) -> Vec<String> {
        let columns = self.columns.iter().map(|column| match &*column.leaf.path {
            "" => names::DATA.to_owned(),
            path => format!("{}/{path}", names::DATA),
        });
        columns.chain([names::META, names::MANIFEST, names::VERSIONS].map(str::to_owned)).collect()
    }

    /// Runs `work` with the current tables of this version. If `work` fails because a compaction moved
    /// chunks to other files since the version was opened, runs it again with the new tables.
    pub(crate) fn with_current<T>(
        &self,
        mut work: impl FnMut(&OpenVersion) -> Result<T>,
    ) -> Result<T> {
        let mut current = self;
        while let Some(moved) = current.moved.get() {
            current = moved;
        }
        loop {
            match work(current) {
                Err(e) if matches!(e.kind(), ErrorKind::Damaged | ErrorKind::Replaced) => {
                    current = current.moved().ok_or(e)?;
                }
                done => return done,
            }
        }
    }

    pub(crate) fn in_chunk(&self, error: Error, column: usize, number: u64) -> Error {
        in_chunk(error, &self.columns[column].leaf.path, &self.numbering.coordinates(number))
    }
}

/// A chunk that is stored, and its file.
pub(crate) struct StoredChunk {
    pub(crate) number: u64,
    pub(crate) place: Place,
    pub(crate) file: Arc<SuperchunkFile>,
}

/// The chunks of one column that one operation reads, one for each slot.
pub(crate) struct ColumnChunks<'a> {
    core: &'a OpenVersion,
    column: usize,
    chunks: Vec<StoredChunk>,
    /// Memory that decoders keep between chunks, one for each thread that has read.
    scratches: Mutex<Vec<Scratch>>,
}

impl fmt::Debug for ColumnChunks<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ColumnChunks({} chunks)", self.chunks.len())
    }
}

impl ColumnChunks<'_> {
    pub(crate) fn new(
        core: &OpenVersion,
        column: usize,
        chunks: Vec<StoredChunk>,
    ) -> ColumnChunks<'_> {
        ColumnChunks { core, column, chunks, scratches: Mutex::default() }
    }

    pub(crate) fn read(&self, slot: usize, at: usize, into: &mut [u8]) -> Result<()> {
        let StoredChunk { number, place, file } = &self.chunks[slot];
        let scratches = || self.scratches.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = scratches().pop();
        let mut scratch = kept.unwrap_or_default();
        let whole = into.len() == file.layout.chunk_bytes() as usize;
        let done = match whole {
            true => file.read_into(place, into, self.core.files.check, &mut scratch),
            false => {
                let files = &self.core.files;
                file.read_part(place, at, into, (files.check, &files.blocks), &mut scratch)
            }
        };
        scratches().push(scratch);
        done.map_err(|e| self.core.in_chunk(e, self.column, *number))
    }
}

impl BaseSlab for ColumnChunks<'_> {
    fn slots(&self) -> usize {
        self.chunks.len()
    }

    fn read(&self, slot: usize, at: usize, into: &mut [u8]) -> Result<()> {
        self.read(slot, at, into)
    }

    fn chunk(&self, slot: usize) -> Option<&[u8]> {
        let StoredChunk { place, file, .. } = &self.chunks[slot];
        // `read`, which is called next, reports the error.
        file.plain(place, self.core.files.check).ok().flatten()
    }

    fn is_ready(&self, slot: usize, at: usize, len: usize) -> bool {
        let StoredChunk { place, file, .. } = &self.chunks[slot];
        file.has_cached(place, at..at + len, &self.core.files.blocks)
    }

    fn is_padded(&self) -> bool {
        true
    }
}
