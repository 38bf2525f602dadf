//! One version as it was opened: its files, columns and tables, and the chunks that are found in
//! them.
//!
//! Not here: selections and the type that is looked at, which are those of
//! [`ChunkedArray`](crate::array::ChunkedArray).

use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use crate::array::chunked::columns::{self, Leaf, Spelling};
use crate::array::chunked::files::{Files, Table};
use crate::array::grid::{ChunkGrid, Touch};
use crate::array::plan::{Move, positions};
use crate::array::chunked::superchunk::{SuperchunkFile, in_chunk};
use crate::array::transfer::BaseSlab;
use crate::error::{Error, ErrorKind, Result};
use crate::format::FormatError;
use crate::format::blosc::Scratch;
use crate::format::chunked::segment::Place;
use crate::format::chunked::{MAX_CHUNK_BYTES, Numbering, Version};
use crate::value::DType;

/// What all views of one version share.
pub(crate) struct Core {
    pub(crate) files: Arc<Files>,
    pub(crate) version: Version,
    pub(crate) dtype: DType,
    pub(crate) grid: ChunkGrid,
    pub(crate) numbering: Numbering,
    pub(crate) columns: Vec<Column>,
    pub(crate) threads: Threads,
    /// The same version after `gc` moved its chunks to other files, once that was noticed.
    pub(crate) moved: OnceLock<Arc<Core>>,
}

/// Threads of its own, or those of rayon.
pub(crate) type Threads = Option<Arc<rayon::ThreadPool>>;

/// One column of one version.
pub(crate) struct Column {
    pub(crate) leaf: Leaf,
    /// One element that nobody wrote.
    pub(crate) fill: Vec<u8>,
    table: OnceLock<Table>,
}

impl Core {
    pub(crate) fn new(files: Arc<Files>, version: Version, threads: Threads) -> Result<Core> {
        let path = files.version_path(version.version);
        let damaged = |expected: &str, found: String| {
            let message = format!("expected {expected}, found {found}");
            Error::new(ErrorKind::Damaged, message).at(&path)
        };
        let storage = &version.storage;
        let dtype: DType =
            storage.dtype.parse().map_err(|e: FormatError| Error::from(e).at(&path))?;
        // The older spelling is as good, where no file system is in its way.
        let recorded = || version.columns.iter().map(|column| &column.path);
        let mut leaves = columns::leaves(&dtype).map_err(|e| e.at(&path))?;
        if !leaves.iter().map(|leaf| &leaf.path).eq(recorded()) {
            leaves = columns::leaves_spelled(&dtype, Spelling::Plain).map_err(|e| e.at(&path))?;
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
        let grid = grid.map_err(|e| e.at(&path))?;
        let numbering = version.numbering().map_err(|e| Error::from(e).at(&path))?;
        let column = |leaf: Leaf| {
            let fill = storage.fill[leaf.offset..leaf.offset + leaf.size].to_vec();
            Column { leaf, fill, table: OnceLock::new() }
        };
        let columns = leaves.into_iter().map(column).collect();
        let moved = OnceLock::new();
        Ok(Core { files, dtype, grid, numbering, columns, threads, moved, version })
    }

    /// The chunk table of a column; opened by who asks first.
    pub(crate) fn table(&self, column: usize) -> Result<&Table> {
        let slot = &self.columns[column].table;
        if let Some(table) = slot.get() {
            return Ok(table);
        }
        let segments = &self.version.columns[column].segments;
        let table = self.files.table(self.version.version, segments)?;
        Ok(slot.get_or_init(|| table))
    }

    /// The same version, if its file names other segments than it did.
    pub(crate) fn moved(&self) -> Option<&Core> {
        let version = self.files.version(self.version.version).ok()?;
        if version.columns == self.version.columns {
            return None;
        }
        let core = Core::new(self.files.clone(), version, self.threads.clone()).ok()?;
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

    /// A chunk of a column, opened; `None` if it is all fill.
    pub(crate) fn chunk(&self, column: usize, number: u64) -> Result<Option<Stored>> {
        let Some(place) = self.table(column)?.find(number) else { return Ok(None) };
        let file = self.open(column, &place).map_err(|e| self.in_chunk(e, column, number))?;
        Ok(Some(Stored { number, place, file }))
    }

    /// The touched chunks that are stored, those that are all fill, and the files of the former.
    pub(crate) fn find(
        &self,
        column: usize,
        touch: &Touch,
    ) -> Result<(Vec<Move>, Vec<Move>, Vec<Stored>)> {
        let table = self.table(column)?;
        let (mut stored, mut unwritten) = (Vec::new(), Vec::new());
        let mut chunks: Vec<Stored> = Vec::new();
        let mut at = vec![0; self.grid.shape().len()];
        for k in 0..touch.len() {
            for (group, position) in touch.groups.iter().zip(positions(touch, k)) {
                for (&axis, &chunk) in group.axes.iter().zip(group.chunk(position)) {
                    at[axis] = chunk as u64;
                }
            }
            let number = self.numbering.number(&at);
            let Some(place) = table.find(number) else {
                unwritten.push(Move { at: k, from: 0, to: 0 });
                continue;
            };
            // Neighbours mostly share a file.
            let last = chunks.last().filter(|last| last.place.superchunk == place.superchunk);
            let file = match last {
                Some(last) => last.file.clone(),
                None => self.open(column, &place).map_err(|e| self.in_chunk(e, column, number))?,
            };
            stored.push(Move { at: k, from: chunks.len() as u32, to: 0 });
            chunks.push(Stored { number, place, file });
        }
        Ok((stored, unwritten, chunks))
    }

    pub(crate) fn in_chunk(&self, error: Error, column: usize, number: u64) -> Error {
        in_chunk(error, &self.columns[column].leaf.path, &self.numbering.coordinates(number))
    }
}

/// A chunk that is stored, and its file.
pub(crate) struct Stored {
    pub(crate) number: u64,
    pub(crate) place: Place,
    pub(crate) file: Arc<SuperchunkFile>,
}

/// The chunks of one column that one operation reads, one for each slot.
pub(crate) struct Wanted<'a> {
    core: &'a Core,
    column: usize,
    chunks: Vec<Stored>,
    /// What decoders keep between chunks, one for each thread that has read.
    scratches: Mutex<Vec<Scratch>>,
}

impl fmt::Debug for Wanted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Wanted({} chunks)", self.chunks.len())
    }
}

impl Wanted<'_> {
    pub(crate) fn new(core: &Core, column: usize, chunks: Vec<Stored>) -> Wanted<'_> {
        Wanted { core, column, chunks, scratches: Mutex::default() }
    }

    pub(crate) fn read(&self, slot: usize, at: usize, into: &mut [u8]) -> Result<()> {
        let Stored { number, place, file } = &self.chunks[slot];
        let scratches = || self.scratches.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = scratches().pop();
        let mut scratch = kept.unwrap_or_default();
        let whole = into.len() == file.layout.chunk_bytes() as usize;
        let done = match whole {
            true => file.read_into(place, into, self.core.files.check, &mut scratch),
            false => file.read_part(place, at, into, &self.core.files, &mut scratch),
        };
        scratches().push(scratch);
        done.map_err(|e| self.core.in_chunk(e, self.column, *number))
    }
}

impl BaseSlab for Wanted<'_> {
    fn slots(&self) -> usize {
        self.chunks.len()
    }

    fn read(&self, slot: usize, at: usize, into: &mut [u8]) -> Result<()> {
        self.read(slot, at, into)
    }

    fn chunk(&self, slot: usize) -> Option<&[u8]> {
        let Stored { place, file, .. } = &self.chunks[slot];
        // What is wrong is told by `read`, which is asked next.
        file.plain(place, self.core.files.check).ok().flatten()
    }

    fn is_padded(&self) -> bool {
        true
    }
}
