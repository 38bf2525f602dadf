//! Where staged chunks go when memory runs out.

use crate::error::Shown;
use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rayon::prelude::*;

use crate::array::transfer::BaseSlab;
use crate::error::{Error, ErrorKind, Result};
use crate::format::blosc::{Codec, MAX_CHUNK, MAX_TYPESIZE, Params, Scratch, Shuffle};
use crate::storage::{Create, Source, Storage, random};

/// Stores staged chunks outside of memory.
pub trait SlabStore: fmt::Debug + Send + Sync {
    /// Stores these chunks, given by slot, and returns them as a slab with the same slots. All have
    /// the same size; their elements have `item` bytes.
    fn store(&self, chunks: &[(usize, &[u8])], item: usize) -> Result<Arc<dyn BaseSlab>>;
}

/// How much may be in memory, and where the rest goes.
#[derive(Debug, Clone)]
pub(super) struct Budget {
    pub(super) bytes: usize,
    pub(super) store: Arc<dyn SlabStore>,
}

/// Stores chunks in temporary files of one directory, compressed with LZ4.
///
/// Only their owner may read the files. A file is removed with the last array that has chunks in
/// it. Files left by a killed program can be removed; their names begin with `spilled-`.
///
/// ```
/// use std::sync::Arc;
/// use kiste::array::{SpillDir, StagedArray};
/// use kiste::storage::LocalStorage;
///
/// # let dir = tempfile::tempdir()?;
/// # let dir = dir.path();
/// let spill = SpillDir::new(Arc::new(LocalStorage::positioned()), dir);
/// let mut array = StagedArray::full(&[1000, 1000], &[100, 1000], 0u64)?
///     .with_budget(2_000_000, Arc::new(spill));
/// for row in 0..1000usize {
///     array.set_scalar(row, row as u64)?;
/// }
/// assert!(array.staged_bytes() < 3_000_000);
/// assert_eq!(array.get::<u64>((17, 5))?.sum(), 17);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
#[must_use]
pub struct SpillDir {
    storage: Arc<dyn Storage>,
    dir: PathBuf,
}

impl SpillDir {
    /// Files in this directory, which must exist.
    pub fn new(storage: Arc<dyn Storage>, dir: impl AsRef<Path>) -> SpillDir {
        SpillDir { storage, dir: dir.as_ref().to_path_buf() }
    }

    /// A name that no other process chooses.
    fn path(&self) -> PathBuf {
        self.dir.join(format!("spilled-{:016x}", random()))
    }
}

/// Chunks that are compressed at a time: enough for all cores, few enough not to double memory use.
const TOGETHER: usize = 32;

impl SlabStore for SpillDir {
    fn store(&self, chunks: &[(usize, &[u8])], item: usize) -> Result<Arc<dyn BaseSlab>> {
        let path = self.path();
        let sink = self.storage.create_with(&path, Create::new().mode(Some(0o600)));
        let mut sink = sink?;
        // From here on the file is removed in any case.
        let mut spilled = Spilled {
            storage: self.storage.clone(),
            path: path.clone(),
            source: None,
            chunks: vec![None; chunks.iter().map(|(slot, _)| slot + 1).max().unwrap_or(0)],
        };
        let mut end = 0;
        for some in chunks.chunks(TOGETHER) {
            let packed: Result<Vec<Vec<u8>>> = some
                .par_iter()
                .map_init(Scratch::default, |scratch, (_, chunk)| compress(scratch, chunk, item))
                .collect();
            for ((slot, _), bytes) in some.iter().zip(packed?) {
                sink.append(&bytes)?;
                let start = end;
                end += bytes.len() as u64;
                spilled.chunks[*slot] = Some(start..end);
            }
        }
        drop(sink);
        spilled.source = Some(self.storage.open(&path)?);
        Ok(Arc::new(spilled))
    }
}

fn compress(scratch: &mut Scratch, chunk: &[u8], item: usize) -> Result<Vec<u8>> {
    let typesize = if item <= MAX_TYPESIZE { item } else { 1 };
    let (level, shuffle) = (5, Shuffle::Byte);
    let params = Params { codec: Codec::Lz4, level, shuffle, typesize, blocksize: None };
    let mut bytes = Vec::new();
    scratch
        .compress(&params, chunk, &mut bytes)
        .map_err(|error| Error::new(ErrorKind::Limit, error.to_string()))?;
    Ok(bytes)
}

/// Whether a chunk of this size can be stored.
pub(crate) fn can_be_spilled(bytes: usize) -> bool {
    bytes <= MAX_CHUNK
}

/// Compressed chunks in a file.
struct Spilled {
    storage: Arc<dyn Storage>,
    path: PathBuf,
    /// Opened once everything is written.
    source: Option<Source>,
    /// Where the chunk of each slot is.
    chunks: Vec<Option<Range<u64>>>,
}

impl BaseSlab for Spilled {
    fn slots(&self) -> usize {
        self.chunks.len()
    }

    fn read(&self, slot: usize, at: usize, into: &mut [u8]) -> Result<()> {
        let range = self.chunks.get(slot).cloned().flatten();
        let (Some(range), Some(source)) = (range, &self.source) else {
            let message = format!("there is no chunk in slot {slot}");
            return Err(Error::new(ErrorKind::Invalid, message).at(&self.path));
        };
        let bytes = source.read(range.clone())?;
        let damaged = |e| Error::from(e).at(&self.path).with_range(range.clone());
        let end = at + into.len();
        Scratch::default().decompress_range(&bytes, at..end, into).map_err(damaged)?;
        Ok(())
    }
}

impl fmt::Debug for Spilled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Spilled({} slots in {})", self.chunks.len(), Shown::of(&self.path))
    }
}

impl Drop for Spilled {
    fn drop(&mut self) {
        // Some systems cannot remove an open file. A file that stays does no harm.
        self.source = None;
        let _ = self.storage.remove(&self.path);
    }
}
