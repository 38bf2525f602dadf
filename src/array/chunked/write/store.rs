//! `ArrayStore`: the one writer of a chunked array.
//!
//! Each operation makes a [`Proposal`], which `commit` writes; the store only checks that nothing
//! else was committed since, and publishes.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use serde_json::{Map, Value};

use crate::array::chunked::at::At;
use crate::array::chunked::columns;
use crate::array::chunked::files::Files;
use crate::array::chunked::info::VersionInfo;
use crate::array::chunked::options::ArrayOptions;
use crate::array::chunked::read::ChunkedArray;
use crate::array::chunked::version::{OpenVersion, threads_of};
use crate::array::chunked::write::append::Append;
use crate::array::chunked::write::bands::{self, RowSource};
use crate::array::chunked::write::commit::write_version;
use crate::array::chunked::write::directory::Directory;
use crate::array::chunked::write::gc;
use crate::array::chunked::write::numbers::Numbers;
use crate::array::chunked::write::ownership::remove_own;
use crate::array::chunked::write::proposal::Proposal;
use crate::array::chunked::write::retention::{Keep, Removed};
use crate::array::chunked::write::staged_version::StagedVersion;
use crate::array::grid::ChunkGrid;
use crate::array::rows::Rows;
use crate::array::selection::Selection;
use crate::array::staged::StagedArray;
use crate::error::{Error, ErrorKind, Result};
use crate::format::chunked::{Version, names};
use crate::storage::Lock;
use crate::value::{Casting, NdArray};

/// The writer of a chunked array. There is one at a time; readers are not affected.
///
/// Changes are [staged](Self::stage) and [committed](Self::commit). Nothing is visible until a
/// commit returns, and a crash at any moment leaves either the version before or the version after.
/// (Arrays with [room](ArrayOptions::room) are an exception.)
///
/// The copies for people and tools in `meta/` are brought up to date when the writer is dropped.
/// Until then an array without versions may lack them.
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
    directory: Directory,
    numbers: Numbers,
    newest: ChunkedArray,
    /// Whether [`gc`](Self::gc) compacts.
    compact: bool,
    /// The version that the summaries are of.
    summarized: u64,
    /// Whether the newest version is the only one.
    only: bool,
    /// The process that has the lock: a forked one only has a copy of this.
    process: u32,
    lock: Lock,
}

impl ArrayStore {
    /// A writer that holds the lock of an array whose newest version is this.
    pub(super) fn new(
        options: &ArrayOptions,
        files: Arc<Files>,
        newest: Version,
        lock: Lock,
    ) -> Result<ArrayStore> {
        let numbers = Numbers::after(&files, &newest)?;
        let directory = Directory::new(files.clone(), options.durable, &newest)?;
        let newest = ChunkedArray::of(files, newest, threads_of(options)?)?;
        directory.expect_own_dirs(newest.core())?;
        Ok(ArrayStore {
            directory,
            numbers,
            newest,
            compact: options.compact,
            summarized: 0,
            only: false,
            process: std::process::id(),
            lock,
        })
    }

    /// The newest version, for reading.
    pub fn array(&self) -> &ChunkedArray {
        &self.newest
    }

    /// All versions, oldest first.
    pub fn versions(&self) -> Result<Vec<VersionInfo>> {
        self.newest.versions()
    }

    /// Begins changes to the newest version.
    pub fn stage(&self) -> Result<StagedVersion> {
        StagedVersion::new(self.newest.clone(), self.newest.version())
    }

    /// Begins changes to an older version. Once they are committed, the newest version does not
    /// contain what came after the older one; the versions in between still do.
    pub fn stage_at(&self, at: At) -> Result<StagedVersion> {
        StagedVersion::new(self.newest.at(at)?, self.newest.version())
    }

    /// Makes staged changes a new version. Afterwards `staged` has no changes and is based on it.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Replaced`] if another version was committed since the changes were begun. After
    /// any error `staged` is as it was.
    pub fn commit(&mut self, staged: &mut StagedVersion, message: &str) -> Result<VersionInfo> {
        if staged.base().core().files.root != self.directory.files.root {
            let message = "expected changes to this array, found changes to another";
            let root = &self.directory.files.root;
            return Err(Error::new(ErrorKind::Invalid, message).at(root));
        }
        self.expect_newest(staged.newest())?;
        let moved = self.moved_base(staged)?;
        let base = moved.as_ref().unwrap_or(staged.base().core());
        let proposal = Proposal::new(base, message)
            .shape(staged.shape().to_vec())
            .attributes(staged.attrs().clone())
            .changes(staged.changes());
        let info = self.propose(proposal)?;
        staged.rebase(&self.newest);
        Ok(info)
    }

    /// Appends rows along the first axis, as one version. Of the array, only its last chunks are read.
    pub fn append(&mut self, rows: &NdArray<'_>, message: &str) -> Result<VersionInfo> {
        self.expect_newest(self.newest.version())?;
        let base = self.newest.clone();
        let append = Append::new(&base, rows)?;
        let direct = append.direct_chunks();
        let proposal = Proposal::new(base.core(), message)
            .shape(append.shape())
            .changes(append.changes(&direct));
        self.propose(proposal)
    }

    /// Appends all rows of another array along the first axis, as one version. They may be larger than
    /// memory: a few rows of chunks are read, compressed and written at a time.
    ///
    /// Elements of another type are converted where NumPy would
    /// ([`SameKind`](crate::value::Casting::SameKind)).
    ///
    /// ```
    /// use kiste::array::{ArrayOptions, ChunkedArray, Rows};
    /// use kiste::value::DType;
    ///
    /// # let dir = tempfile::tempdir()?;
    /// # let dir = dir.path();
    /// let zeros = ArrayOptions::default().create(dir.join("a"), DType::of::<i16>(), &[1000, 3])?;
    /// let mut store = ArrayOptions::default().create(dir.join("b"), DType::of::<f32>(), &[0, 3])?;
    /// store.append_rows(zeros.array(), "what is in a")?;
    /// assert_eq!(store.array().shape(), [1000, 3]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn append_rows(&mut self, rows: &dyn Rows, message: &str) -> Result<VersionInfo> {
        self.expect_newest(self.newest.version())?;
        let base = self.newest.clone();
        let (shape, changes) = bands::append(&base, RowSource::Rows(rows))?;
        self.propose(Proposal::new(base.core(), message).shape(shape).changes(changes))
    }

    /// Assigns a value to a selection, as one version, and broadcasts it as NumPy does if it is
    /// smaller. Rows that a slice selects are staged a few at a time, so that the selection may be
    /// larger than memory; with a list of positions or a mask, the whole selection is staged.
    ///
    /// Elements of another type are converted as by [`append_rows`](Self::append_rows).
    pub fn put(
        &mut self,
        selection: impl Into<Selection>,
        value: &NdArray<'_>,
        message: &str,
    ) -> Result<VersionInfo> {
        self.assign(&selection.into(), RowSource::Array(value), message)
    }

    /// As [`put`](Self::put), with the rows of another array. If there are as many as the selection
    /// has, they are read in order, each once.
    pub fn put_rows(
        &mut self,
        selection: impl Into<Selection>,
        rows: &dyn Rows,
        message: &str,
    ) -> Result<VersionInfo> {
        self.assign(&selection.into(), RowSource::Rows(rows), message)
    }

    /// As [`put`](Self::put), of one field of a structured type, named as for
    /// [`ChunkedArray::column`]. The other fields of what is selected are read, and stay as they are: the
    /// selection is held in memory.
    pub fn put_field(
        &mut self,
        field: &str,
        selection: impl Into<Selection>,
        value: &NdArray<'_>,
        message: &str,
    ) -> Result<VersionInfo> {
        self.expect_newest(self.newest.version())?;
        let (selection, base) = (selection.into(), self.newest.clone());
        let (dtype, offset) = columns::find(base.dtype(), field)?;
        let there = base.read(selection.clone())?;
        // With the shape of the selection and the type of the field, as NumPy would assign it.
        let chunk: Vec<usize> = there.shape().iter().map(|len| *len.max(&1)).collect();
        let zero = vec![0; dtype.item_size()];
        let cast = match *value.dtype() == dtype {
            true => None,
            false => Some(value.astype(&dtype, Casting::SameKind)?),
        };
        let mut values = StagedArray::new(there.shape(), &chunk, dtype, &zero)?;
        values.write(Selection::all(), cast.as_ref().unwrap_or(value))?;
        let (item, shape) = (base.dtype().item_size(), there.shape().to_vec());
        let mut bytes = there.c_bytes().into_owned();
        columns::put_in(
            values.read(Selection::all())?.bytes(),
            item,
            offset,
            zero.len(),
            &mut bytes,
        );
        let patched = NdArray::new(base.dtype().clone(), shape, bytes)?;
        self.put(selection, &patched, message)
    }

    fn assign(
        &mut self,
        selection: &Selection,
        source: RowSource<'_>,
        message: &str,
    ) -> Result<VersionInfo> {
        self.expect_newest(self.newest.version())?;
        let base = self.newest.clone();
        match bands::assign(&base, selection, source)? {
            Some(changes) => self.propose(Proposal::new(base.core(), message).changes(changes)),
            None => {
                let mut staged = self.stage()?;
                staged.write(selection.clone(), &source.whole(&base)?)?;
                self.commit(&mut staged, message)
            }
        }
    }

    /// Changes the shape, as one version. New elements are the fill value; elements that are cut off do
    /// not come back when the array grows again.
    pub fn resize(&mut self, shape: &[usize], message: &str) -> Result<VersionInfo> {
        let base = self.newest.clone();
        let (old, chunk) = (base.shape(), base.grid().chunk_shape());
        let cut = |((new, old), chunk): ((&usize, &usize), &usize)| new < old && new % chunk != 0;
        if shape.len() != old.len() || shape.iter().zip(old).zip(chunk).any(cut) {
            // Chunks that the new edge cuts through change.
            let mut staged = self.stage()?;
            staged.resize(shape)?;
            return self.commit(&mut staged, message);
        }
        self.expect_newest(base.version())?;
        let shape = ChunkGrid::new(shape, chunk)?.shape().to_vec();
        self.propose(Proposal::new(base.core(), message).shape(shape))
    }

    /// Replaces the user's attributes, as one version.
    pub fn set_attributes(
        &mut self,
        attributes: Map<String, Value>,
        message: &str,
    ) -> Result<VersionInfo> {
        self.expect_newest(self.newest.version())?;
        let base = self.newest.clone();
        self.propose(Proposal::new(base.core(), message).attributes(attributes))
    }

    /// Removes versions, and all files that the remaining ones do not need, including the remains
    /// of a killed writer. A reader that has a removed version open gets an error for missing
    /// files.
    ///
    /// Needed chunks are moved, still compressed, out of superchunks that are less than half
    /// needed, and small superchunks are joined ([`compact`]). Readers of remaining versions are
    /// not disturbed.
    ///
    /// A crash leaves too many files, never too few; the next call removes them. If one of the
    /// remaining versions is damaged, nothing is removed, because the files that it needs are
    /// unknown. Only files with names of the format are removed, and none if one of them, or its
    /// directory, is a symbolic link.
    ///
    /// [`compact`]: crate::array::ArrayOptions::compact
    pub fn gc(&mut self, keep: &Keep) -> Result<Removed> {
        // Where chunks are overwritten in place, the room in superchunks is there on purpose.
        let compact = self.compact && self.newest.core().version.storage.room == 0;
        self.collect(keep, compact)
    }

    fn collect(&mut self, keep: &Keep, compact: bool) -> Result<Removed> {
        self.expect_unchanged()?;
        gc::collect(&self.directory, &mut self.numbers, &mut self.newest, keep, compact)
    }

    /// Commits a proposal. The caller has seen that nothing was committed since its base was read.
    pub(super) fn propose(&mut self, proposal: Proposal<'_>) -> Result<VersionInfo> {
        let mut made = Vec::new();
        let result = self.write_and_publish(proposal, &mut made);
        if result.is_err() {
            // Files that no version names do no harm, but take room.
            for path in made {
                let _ = remove_own(&self.directory.files, &[path], |_| ());
            }
            // Whether the version was committed is for the directory to say, and what else is there.
            self.newest.refresh();
            self.only = false;
        }
        result
    }

    fn write_and_publish(
        &mut self,
        proposal: Proposal<'_>,
        made: &mut Vec<PathBuf>,
    ) -> Result<VersionInfo> {
        let old = self.newest.core().clone();
        let version =
            write_version(&self.directory, &mut self.numbers, &old.version, proposal, made)?;
        let info = VersionInfo::of(&version);
        // From here on the files may belong to a version, even if publishing reports an error.
        made.clear();
        self.publish(version)?;
        if !old.version.storage.versioned {
            // The version is committed; the next commit removes what this cannot.
            self.only = self.remove_older(&old.version).is_ok();
        }
        Ok(info)
    }

    /// Removes all versions but the newest, which was committed after this one, and what they alone need.
    fn remove_older(&mut self, old: &Version) -> Result<()> {
        let newest = &self.newest.core().version;
        if newest.columns == old.columns {
            return gc::remove_older(&self.directory, old, newest, self.only);
        }
        self.directory.files.forget_superchunks();
        self.collect(&Keep::Newest(1), false).map(drop)
    }

    /// Writes a version, whose chunks and tables are there, and makes it the newest: the one step
    /// that counts. No later failure undoes it.
    pub(super) fn publish(&mut self, version: Version) -> Result<()> {
        let name = names::numbered(version.version);
        let bytes = version.encode().map_err(|e| Error::new(ErrorKind::Limit, e.to_string()))?;
        let dir = self.directory.files.path(names::VERSIONS);
        let written = self.directory.write_new(&dir, &name, &[&bytes]);
        written.map_err(|error| match error.kind() {
            // Another writer made it, of whose lock we do not know.
            ErrorKind::AlreadyExists => self.changed(self.newest.version(), version.version),
            _ => error,
        })?;
        self.directory.sync_dir(&dir)?;
        let threads = self.newest.core().threads.clone();
        self.newest = ChunkedArray::of(self.directory.files.clone(), version, threads)?;
        Ok(())
    }

    /// Removes files that a killed writer left unfinished.
    pub(super) fn clean_up(&self) -> Result<()> {
        self.directory.remove_unfinished(self.newest.core())
    }

    /// Brings the summaries in `meta/` up to date, if possible. Done when there is no more to come, and
    /// not in each commit.
    pub(super) fn renew_summaries(&mut self) {
        let core = self.newest.core();
        if self.summarized != core.version.version {
            self.directory.renew_summaries(&core.version, &core.dtype);
            self.summarized = core.version.version;
        }
    }

    /// Fails unless changes that are based on this version are based on the newest one.
    ///
    /// The lock keeps another version from being committed, as long as its file is there. Only where it is
    /// not are all versions listed, which takes longer the more there are. A writer that ignores the lock either
    /// takes the next number, which [`publish`](Self::publish) finds, or removes the newest version.
    fn expect_newest(&self, number: u64) -> Result<()> {
        let files = &self.directory.files;
        let newest = files.version_path(self.newest.version());
        if !self.is_locked()? || files.storage.lstat(&newest)?.is_none() {
            self.expect_unchanged()?;
        }
        match self.newest.version() {
            newest if newest == number => Ok(()),
            newest => Err(self.changed(number, newest)),
        }
    }

    /// Fails if another version was committed.
    fn expect_unchanged(&self) -> Result<()> {
        let newest = self.directory.files.version_numbers()?.pop().unwrap_or(0);
        match self.newest.version() {
            ours if ours == newest => Ok(()),
            ours => Err(self.changed(ours, newest)),
        }
    }

    /// Whether the name of the lock still leads to the one that is held here.
    fn is_locked(&self) -> Result<bool> {
        let files = &self.directory.files;
        let Some(held) = self.lock.file() else { return Ok(false) };
        let found = files.storage.lstat(&files.path(names::LOCK))?;
        Ok(found.is_some_and(|stat| stat.id == held))
    }

    fn changed(&self, base: u64, newest: u64) -> Error {
        let message = format!(
            "the array has changed since you opened it: the changes are based on version {base}, \
             the newest is {newest}"
        );
        Error::new(ErrorKind::Replaced, message).at(&self.directory.files.root)
    }

    /// The base of staged changes, opened again if a compaction moved its chunks. Fails if the base was
    /// removed: files that the new version would share with it may have been removed too.
    fn moved_base(&self, staged: &StagedVersion) -> Result<Option<OpenVersion>> {
        let files = &self.directory.files;
        let base = staged.base();
        let version = files.version(base.version()).map_err(|e| match e.kind() {
            ErrorKind::NotFound => {
                let message = format!("the changes are to version {}", base.version());
                let message = format!("{message}, which was removed since");
                Error::new(ErrorKind::Replaced, message).at(&files.root)
            }
            _ => e,
        })?;
        if version.columns == base.core().version.columns {
            return Ok(None);
        }
        let threads = self.newest.core().threads.clone();
        OpenVersion::new(files.clone(), version, threads).map(Some)
    }
}

impl Drop for ArrayStore {
    fn drop(&mut self) {
        if self.process != std::process::id() || self.newest.version() == 0 {
            return;
        }
        // Not of another array that was made in the place of this one.
        if self.expect_unchanged().is_ok() {
            self.renew_summaries();
        }
    }
}

impl fmt::Debug for ArrayStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ArrayStore({:?})", self.newest)
    }
}
