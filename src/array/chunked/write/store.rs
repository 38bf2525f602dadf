//! `ArrayStore`: the one writer of a chunked array.

use std::borrow::Cow;
use std::fmt;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use serde_json::{Map, Value};

use crate::array::chunked::write::bands::staged_rows;
use crate::array::chunked::read::{At, ChunkedArray, resolve};
use crate::array::chunked::write::commit::{New, Proposal};
use crate::array::chunked::summary::{copies, read_small};
use crate::array::chunked::write::chunker::Cut;
use crate::array::chunked::files::Files;
use crate::array::grid::{ChunkGrid, Touch};
use crate::array::chunked::info::VersionInfo;
use crate::array::chunked::options::ArrayOptions;
use crate::array::chunked::write::ownership::real_root;
use crate::array::plan::{Place, SlabKind};
use crate::array::staged::array::{ChunkState, StagedArray};
use crate::array::chunked::write::staged_version::StagedVersion;
use crate::error::{Error, ErrorKind, Result};
use crate::format::chunked::{Column, Version, names};
use crate::storage::{Lock, Sink};
use crate::value::{DType, NdArray};

/// Parts of a file of fewer bytes than this are written together.
const GATHERED: usize = 64 << 10;

/// The writer of a chunked array. There is one at a time; readers need not know of it.
///
/// Changes are [staged](Self::stage) and [committed](Self::commit): until a commit returns, nothing
/// of it is visible, and a crash at any moment leaves the version before or the version after.
///
/// ```
/// use kiste::array::{ArrayOptions, At, ChunkedArray};
/// use kiste::value::DType;
///
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("grid");
/// let mut store = ArrayOptions::default().create(&path, DType::of::<i32>(), &[100, 100])?;
/// let mut staged = store.stage()?;
/// staged.set_scalar((10..20, 5), 7)?;
/// let version = store.commit(&mut staged, "a short line")?;
/// assert_eq!((version.number, version.parent), (2, 1));
///
/// let array = ChunkedArray::open(&path)?;
/// assert_eq!(array.get::<i32>((.., 5))?.sum(), 70);
/// assert_eq!(array.at(At::Version(1))?.get::<i32>((.., 5))?.sum(), 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct ArrayStore {
    pub(crate) options: ArrayOptions,
    pub(crate) files: Arc<Files>,
    pub(crate) newest: ChunkedArray,
    /// The next numbers that no file has: of segments, and of each column's superchunks. They may be
    /// one more than a file may have.
    pub(crate) next_segment: u64,
    pub(crate) next_superchunk: Vec<u64>,
    /// Who may read the array: new files are as private as the newest version's.
    mode: Option<u32>,
    _lock: Lock,
}

impl ArrayStore {
    /// Opens an array for writing. For a second writer the error is [`ErrorKind::Locked`], also under
    /// another name of the array; the lock ends with the store, or with its process.
    ///
    /// What a writer that died had not finished is removed. The name may be a symbolic link; but where
    /// a directory or file in the array is one, which only reading follows, the error is
    /// [`ErrorKind::Unsupported`] and nothing is changed.
    pub fn open(path: impl AsRef<Path>) -> Result<ArrayStore> {
        ArrayOptions::default().open_store(path)
    }

    /// Creates an array, full of the fill value, and opens it for writing.
    pub fn create(
        path: impl AsRef<Path>,
        dtype: DType,
        shape: &[usize],
        options: &ArrayOptions,
    ) -> Result<ArrayStore> {
        options.create(path, dtype, shape)
    }

    pub(crate) fn open_with(options: &ArrayOptions, root: &Path) -> Result<ArrayStore> {
        let files = Arc::new(options.files(&real_root(&*options.storage, root)?));
        files.version_numbers()?;
        let lock = take_lock(&files)?;
        let version = resolve(&files, At::Newest)?;
        let store = ArrayStore::with_lock(options, files, version, lock)?;
        store.remove_unfinished()?;
        store.renew_copies();
        Ok(store)
    }

    pub(crate) fn with_lock(
        options: &ArrayOptions,
        files: Arc<Files>,
        version: Version,
        lock: Lock,
    ) -> Result<ArrayStore> {
        let dir = files.path(names::MANIFEST);
        let segments = files.numbers_in(&dir, names::number_of, names::is_beyond)?;
        let next_segment = version.next_segment.max(segments.into_iter().max().unwrap_or(0) + 1);
        let next = |column: &Column| -> Result<u64> {
            let dir = files.column_dir(&column.path);
            let (number_of, is_beyond) = (names::superchunk_number_of, names::is_superchunk_beyond);
            let numbers = files.numbers_in(&dir, number_of, is_beyond)?;
            Ok(column.next.max(u64::from(numbers.into_iter().max().unwrap_or(0)) + 1))
        };
        // Of a link the permissions say nothing.
        let path = files.version_path(version.version);
        let stat = files.storage.stat(&path).map_err(|e| Error::io(&path, e))?;
        let mode = stat.and_then(|stat| stat.mode).map(|mode| mode & 0o666 | 0o600);
        let next_superchunk = version.columns.iter().map(next).collect::<Result<_>>()?;
        let newest = ChunkedArray::of(files.clone(), version, options.pool()?)?;
        let options = options.clone();
        let store =
            ArrayStore { options, files, newest, next_segment, next_superchunk, mode, _lock: lock };
        store.expect_own_dirs()?;
        Ok(store)
    }

    /// Fails if files of the array would be written, or removed, behind a link.
    pub(crate) fn expect_own_dirs(&self) -> Result<()> {
        self.files.expect_own_dirs(self.dirs().iter().map(|dir| &**dir))
    }

    /// The number of a new segment.
    pub(crate) fn take_segment_number(&mut self) -> Result<u64> {
        let number = self.next_segment;
        if number > names::MAX_NUMBER {
            let message = "more segments than there are numbers";
            let dir = self.files.path(names::MANIFEST);
            return Err(Error::new(ErrorKind::Limit, message).at(dir));
        }
        self.next_segment = number + 1;
        Ok(number)
    }

    /// The newest version, for reading.
    pub fn array(&self) -> &ChunkedArray {
        &self.newest
    }

    /// All versions, the oldest first.
    pub fn versions(&self) -> Result<Vec<VersionInfo>> {
        self.newest.versions()
    }

    /// Begins changes to the newest version.
    pub fn stage(&self) -> Result<StagedVersion> {
        self.stage_on(self.newest.clone())
    }

    /// Begins changes to an older version. When they are committed, what came after it is not in the
    /// newest version any more; it stays in those between.
    pub fn stage_at(&self, at: At) -> Result<StagedVersion> {
        self.stage_on(self.newest.at(at)?)
    }

    fn stage_on(&self, base: ChunkedArray) -> Result<StagedVersion> {
        let core = &base.core;
        let mut places = Vec::new();
        places.try_reserve_exact(core.grid.len()).map_err(|_| {
            Error::new(
                ErrorKind::Limit,
                format!("{} chunks are too many to stage", core.grid.len()),
            )
        })?;
        places.resize(core.grid.len(), Place::default());
        let counts = coordinates(core.grid.counts().to_vec());
        base.with_core(|core| {
            for column in 0..core.columns.len() {
                // A chunk that newer entries say is fill again is read as that where it is.
                core.table(column)?.each_entry(|entry| {
                    let cell = entry.place.and_then(|_| core.numbering.index(entry.chunk, &counts));
                    let Some(Ok(slot)) = cell.map(u32::try_from) else { return };
                    if let Some(place) = places.get_mut(slot as usize) {
                        *place = Place { slab: 1, slot };
                    }
                });
            }
            Ok(())
        })?;
        self.staged_on(base, places)
    }

    /// Changes to a version whose chunks are at these places: on the full slab, or where they are in
    /// the version.
    fn staged_on(&self, base: ChunkedArray, places: Vec<Place>) -> Result<StagedVersion> {
        let array = StagedArray::from_base(
            base.shape(),
            base.core.grid.chunk_shape(),
            base.dtype().clone(),
            &base.core.version.storage.fill,
            vec![Arc::new(base.clone())],
            places,
        )?;
        let (newest, attributes) = (self.newest.version(), base.attrs().clone());
        Ok(StagedVersion { array, base, newest, attributes, shrunk: false })
    }

    /// Makes staged changes a new version. Afterwards `staged` has no changes and is based on it.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Replaced`] if another version was committed since the changes were begun. After
    /// any error `staged` is as it was.
    pub fn commit(&mut self, staged: &mut StagedVersion, message: &str) -> Result<VersionInfo> {
        if staged.base.core.files.root != self.files.root {
            let message = "the changes are to another array";
            return Err(Error::new(ErrorKind::Invalid, message).at(&self.files.root));
        }
        self.expect_newest(staged.newest)?;
        // What it shares with the new version may have gone with it.
        let version = self.files.version(staged.base.version()).map_err(|e| match e.kind() {
            ErrorKind::NotFound => {
                let message = format!("the changes are to version {}", staged.base.version());
                let message = format!("{message}, which was removed since");
                Error::new(ErrorKind::Replaced, message).at(&self.files.root)
            }
            _ => e,
        })?;
        // Its chunks may have been moved.
        let threads = self.newest.core.threads.clone();
        let moved = match version.columns == staged.base.core.version.columns {
            true => None,
            false => Some(ChunkedArray::of(self.files.clone(), version, threads)?),
        };
        let (base, array) = (moved.as_ref().unwrap_or(&staged.base), &staged.array);
        let changes = array.plan_changes().iter().filter_map(|change| {
            let new = match change.kind {
                SlabKind::Base | SlabKind::Dropped => return None,
                // What was cut off and came back as fill; else it was fill before.
                SlabKind::Full if !staged.shrunk => return None,
                SlabKind::Full => New::Fill,
                SlabKind::Staged | SlabKind::Spilled => match array.chunk(change.cell) {
                    Ok(bytes) => New::Chunk(bytes),
                    Err(e) => return Some(Err(e)),
                },
            };
            Some(Ok((coordinates(array.grid().coordinates(change.cell)), new)))
        });
        let attributes = staged.attributes.clone();
        let shape = array.shape().to_vec();
        let proposal = Proposal { base, shape, attributes, message, changes: Box::new(changes) };
        let info = self.propose(proposal)?;
        // What is not fill is in the new version, at the same place of the same grid.
        let place = |(cell, old): (usize, &Place)| match old.slab {
            0 => Ok(Place::default()),
            _ => u32::try_from(cell).map(|slot| Place { slab: 1, slot }),
        };
        let places: std::result::Result<_, _> =
            array.places().iter().enumerate().map(place).collect();
        let next = places.ok().and_then(|places| self.staged_on(self.newest.clone(), places).ok());
        // The changes are committed whatever comes now; a base that is too old is noticed later.
        if let Some(next) = next {
            *staged = next;
        }
        Ok(info)
    }

    /// Adds rows at the end of the first axis, as a version of its own. Only the last chunks of the
    /// array are read.
    pub fn append(&mut self, rows: &NdArray<'_>, message: &str) -> Result<VersionInfo> {
        self.expect_newest(self.newest.version())?;
        let base = self.newest.clone();
        let Some((&old, inner)) = base.shape().split_first() else {
            return Err(Error::new(ErrorKind::Invalid, "an array without axes has no rows"));
        };
        let core = &base.core;
        let chunk = core.grid.chunk_shape()[0];
        let split = SplitRows::of(rows, &base, old);
        // Whole chunks stay; what is staged is the rest, and what comes behind it.
        let kept = old / chunk;
        let mut tail = staged_rows(&base, base.grid(), kept * chunk..old)?;
        tail.append_array(&split.staged)?;
        let changes = tail.changes().enumerate().filter_map(|(cell, state)| match state {
            Ok(ChunkState::Staged(bytes)) => {
                let mut at = coordinates(tail.grid().coordinates(cell));
                at[0] += kept as u64;
                Some(Ok((at, New::Chunk(bytes))))
            }
            Ok(_) => None,
            Err(e) => Some(Err(e)),
        });
        let next = (kept + tail.shape()[0].div_ceil(chunk)) as u64;
        let ranges: Vec<Range<usize>> =
            std::iter::once(split.direct_rows).chain(inner.iter().copied()).map(|n| 0..n).collect();
        let lens: Vec<usize> = ranges.iter().map(Range::len).collect();
        let grid = ChunkGrid::new(&lens, core.grid.chunk_shape())?;
        let touch = Touch::of_box(&grid, &ranges);
        let cut = Cut::new(split.direct, &grid, &touch, &core.version.storage.fill);
        let direct = (0..grid.len()).map(|cell| {
            let mut at = coordinates(grid.coordinates(cell));
            at[0] += next;
            Ok((at, New::Cut(&cut, cell)))
        });
        let mut shape = base.shape().to_vec();
        shape[0] = kept * chunk + tail.shape()[0] + split.direct_rows;
        let attributes = base.attrs().clone();
        let changes = Box::new(changes.chain(direct));
        self.propose(Proposal { base: &base, shape, attributes, message, changes })
    }

    /// Changes the shape, as a version of its own. What is new is the fill value; what is cut off
    /// does not come back when the array grows again.
    pub fn resize(&mut self, shape: &[usize], message: &str) -> Result<VersionInfo> {
        let base = self.newest.clone();
        let (old, chunk) = (base.shape(), base.core.grid.chunk_shape());
        let cut = |((new, old), chunk): ((&usize, &usize), &usize)| new < old && new % chunk != 0;
        if shape.len() != old.len() || shape.iter().zip(old).zip(chunk).any(cut) {
            // Chunks that the new edge cuts through are written anew.
            let mut staged = self.stage()?;
            staged.resize(shape)?;
            return self.commit(&mut staged, message);
        }
        self.expect_newest(base.version())?;
        let shape = ChunkGrid::new(shape, chunk)?.shape().to_vec();
        let (attributes, changes) = (base.attrs().clone(), Box::new(std::iter::empty()));
        self.propose(Proposal { base: &base, shape, attributes, message, changes })
    }

    /// Replaces the user's attributes, as a version of its own.
    pub fn set_attributes(
        &mut self,
        attributes: Map<String, Value>,
        message: &str,
    ) -> Result<VersionInfo> {
        self.expect_newest(self.newest.version())?;
        let base = self.newest.clone();
        let (shape, changes) = (base.shape().to_vec(), Box::new(std::iter::empty()));
        self.propose(Proposal { base: &base, shape, attributes, message, changes })
    }

    /// Fails if there is a newer version than this one.
    pub(crate) fn expect_newest(&self, number: u64) -> Result<()> {
        let newest = self.files.version_numbers()?.pop().unwrap_or(0);
        if newest == number && newest == self.newest.version() {
            return Ok(());
        }
        let message = format!(
            "the array has changed since you opened it: the changes are based on version {number}, \
             the newest is {newest}"
        );
        Err(Error::new(ErrorKind::Replaced, message).at(&self.files.root))
    }

    /// Writes a version, whose chunks and tables are there, and makes it the newest: the one step
    /// that counts. Whatever fails after it does not undo it.
    pub(crate) fn publish(&mut self, version: Version) -> Result<()> {
        let name = names::numbered(version.version);
        let bytes = version.encode().map_err(|e| Error::new(ErrorKind::Limit, e.to_string()))?;
        let dir = self.files.path(names::VERSIONS);
        self.write_file(&dir, &name, &[&bytes])?;
        self.sync_dir(&dir)?;
        let threads = self.newest.core.threads.clone();
        self.newest = ChunkedArray::of(self.files.clone(), version, threads)?;
        self.renew_copies();
        Ok(())
    }

    /// Writes a file next to its name, and gives it that when it is complete. It has the permissions of
    /// the one that it replaces, or those that the array has.
    pub(crate) fn write_file(&self, dir: &Path, name: &str, parts: &[&[u8]]) -> Result<()> {
        let path = dir.join(name);
        let beside = dir.join(format!("{name}{}", names::UNFINISHED));
        let storage = &*self.files.storage;
        let at = |e| Error::io(&beside, e);
        let replaced = self.files.expect_own(&path)?;
        self.files.remove_own(std::slice::from_ref(&beside), |_| ())?;
        let mode = replaced.and_then(|stat| stat.mode).map(|mode| mode & 0o777).or(self.mode);
        let mut sink = storage.create_as(&beside, mode).map_err(at)?;
        let written = append_parts(&mut *sink, parts);
        let synced = written.and_then(|()| if self.options.durable { sink.sync() } else { Ok(()) });
        drop(sink);
        let done = synced
            .map_err(at)
            .and_then(|()| storage.rename(&beside, &path).map_err(|e| Error::io(&path, e)));
        if done.is_err() {
            // The disk may be full, and this is of no use; the error to report is the first.
            let _ = storage.remove(&beside);
        }
        done
    }

    pub(crate) fn sync_dir(&self, dir: &Path) -> Result<()> {
        if self.options.durable {
            self.files.storage.sync_dir(dir).map_err(|e| Error::io(dir, e))?;
        }
        Ok(())
    }

    /// Writes the copies of what the newest version says that are not as they should be. They are
    /// for people: nothing depends on them, so nothing fails if they cannot be written, and the next
    /// writer tries again.
    fn renew_copies(&self) {
        let version = &self.newest.core.version;
        for (name, text) in copies(version, &self.newest.core.dtype) {
            let path = self.files.path(name);
            if read_small(&*self.files.storage, &path).as_deref() == Some(text.as_bytes()) {
                continue;
            }
            let Some((dir, name)) = path.parent().zip(path.file_name().and_then(|n| n.to_str()))
            else {
                continue;
            };
            let _ = self.write_file(dir, name, &[text.as_bytes()]);
        }
    }

    /// Removes what a writer that died had not finished.
    pub(crate) fn remove_unfinished(&self) -> Result<()> {
        let mut unfinished = Vec::new();
        for name in self.dirs() {
            let dir = self.files.path(&name);
            let files = self.files.storage.list(&dir).map_err(|e| Error::io(&dir, e))?;
            unfinished.extend(files.into_iter().filter(|file| is_leftover(&name, file)));
        }
        self.files.remove_own(&unfinished, |_| ())
    }

    /// All directories that have files of ours, by their names in the format.
    pub(crate) fn dirs(&self) -> Vec<String> {
        dirs_of(&self.newest)
    }
}

impl fmt::Debug for ArrayStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ArrayStore({:?})", self.newest)
    }
}

/// Rows to be appended: those that are staged, and others.
struct SplitRows<'a> {
    staged: NdArray<'a>,
    /// Rows that begin where a chunk does: they are cut into chunks where they are.
    direct: &'a [u8],
    direct_rows: usize,
}

impl<'a> SplitRows<'a> {
    fn of(rows: &'a NdArray<'_>, base: &ChunkedArray, old: usize) -> SplitRows<'a> {
        SplitRows::try_of(rows, base, old).unwrap_or_else(|| SplitRows {
            staged: rows.borrow(),
            direct: &[],
            direct_rows: 0,
        })
    }

    fn try_of(rows: &'a NdArray<'_>, base: &ChunkedArray, old: usize) -> Option<SplitRows<'a>> {
        let &chunk = base.grid().chunk_shape().first()?;
        let inner = &base.shape()[1..];
        let (&count, found) = rows.shape().split_first()?;
        let same = rows.dtype() == base.dtype() && found == inner;
        let Cow::Borrowed(bytes) = rows.c_bytes() else { return None };
        let lead = (chunk - old % chunk) % chunk;
        let fits = old.checked_add(count).is_some_and(|end| isize::try_from(end).is_ok());
        if !same || !fits || count < lead + chunk {
            return None;
        }
        let (staged, direct) = bytes.split_at(bytes.len() / count * lead);
        let shape: Vec<usize> = std::iter::once(lead).chain(inner.iter().copied()).collect();
        let staged = NdArray::new(rows.dtype().clone(), shape, staged).ok()?;
        Some(SplitRows { staged, direct, direct_rows: count - lead })
    }
}

/// Appends parts to a file, small ones together.
fn append_parts(sink: &mut dyn Sink, parts: &[&[u8]]) -> io::Result<()> {
    let mut small = Vec::new();
    for part in parts {
        if small.len() + part.len() > GATHERED {
            sink.append(&small)?;
            small.clear();
        }
        match part.len() > GATHERED {
            true => sink.append(part)?,
            false => small.extend_from_slice(part),
        }
    }
    sink.append(&small)
}

/// The moment, not before this one, as a version records it.
pub(crate) fn now_after(micros: i64) -> String {
    let now = crate::array::chunked::read::micros_of(std::time::SystemTime::now());
    crate::format::chunked::format_time(now.max(micros))
}

pub(crate) fn too_many_files(dir: &Path) -> Error {
    Error::new(ErrorKind::Limit, "more superchunks than there are numbers").at(dir)
}

/// Whether this file, in a directory of this name, is what a writer that died had not finished.
pub(crate) fn is_leftover(dir: &str, path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    name.is_some_and(|name| names::is_leftover(dir, name))
}

/// The directories of an array, by their names in the format.
pub(crate) fn dirs_of(array: &ChunkedArray) -> Vec<String> {
    let columns = array.core.columns.iter().map(|column| match &*column.leaf.path {
        "" => names::DATA.to_owned(),
        path => format!("{}/{path}", names::DATA),
    });
    columns.chain([names::META, names::MANIFEST, names::VERSIONS].map(str::to_owned)).collect()
}

fn coordinates(at: Vec<usize>) -> Vec<u64> {
    at.into_iter().map(|i| i as u64).collect()
}

pub(crate) fn take_lock(files: &Files) -> Result<Lock> {
    files.expect_own_dirs([names::META])?;
    let path = files.path(names::LOCK);
    let lock = files.storage.lock(&path).map_err(|e| Error::io(&path, e))?;
    lock.ok_or_else(|| {
        Error::new(ErrorKind::Locked, "another writer is at work on this array").at(&files.root)
    })
}
