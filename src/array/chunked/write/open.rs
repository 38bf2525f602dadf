//! Opening and creating arrays for writing: the lock, the directories, the first version.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Map, Value};

use crate::array::chunked::at::{At, now_after, resolve};
use crate::array::chunked::columns;
use crate::array::chunked::files::Files;
use crate::array::chunked::layout::storage_of;
use crate::array::chunked::options::ArrayOptions;
use crate::array::chunked::write::bands::{self, RowSource};
use crate::array::chunked::write::ownership::{expect_own_dirs, real_root};
use crate::array::chunked::write::proposal::{NewChunk, Proposal};
use crate::array::chunked::write::store::ArrayStore;
use crate::array::rows::Rows;
use crate::error::{Error, ErrorKind, Result};
use crate::format::chunked::{Numbering, Version, names};
use crate::storage::{Lock, Storage};
use crate::value::DType;

/// Opens an array for writing, and cleans up after a killed writer.
pub(in crate::array::chunked) fn open(options: &ArrayOptions, root: &Path) -> Result<ArrayStore> {
    let files = Arc::new(Files::of(options, &real_root(&*options.storage, root)?));
    // A directory that is no array gets no lock file.
    files.version_numbers()?;
    let lock = take_lock(&files)?;
    let version = resolve(&files, At::Newest)?;
    let mut store = ArrayStore::new(options, files, version, lock)?;
    store.clean_up()?;
    store.renew_summaries();
    Ok(store)
}

/// Creates an array full of the fill value.
pub(in crate::array::chunked) fn create(
    options: &ArrayOptions,
    root: &Path,
    dtype: DType,
    shape: &[usize],
) -> Result<ArrayStore> {
    let mut store = prepare(options, root, dtype, shape)?;
    let mut first = store.array().core().version.clone();
    first.version = 1;
    first.shape = shape.iter().map(|n| *n as u64).collect();
    first.message = "created".to_owned();
    store.publish(first)?;
    store.renew_summaries();
    Ok(store)
}

/// Creates an array of these rows.
pub(in crate::array::chunked) fn create_from(
    options: &ArrayOptions,
    root: &Path,
    rows: &dyn Rows,
    attributes: Map<String, Value>,
    message: &str,
) -> Result<ArrayStore> {
    let (dtype, shape) = (rows.dtype().clone(), rows.shape());
    let mut store = prepare(options, root, dtype, shape)?;
    let base = store.array().clone();
    let proposal = Proposal::new(base.core(), message).attributes(attributes);
    if shape.is_empty() {
        let element = rows.read_rows(0..1)?.c_bytes().into_owned();
        let changes = std::iter::once(Ok((Vec::new(), NewChunk::Bytes(element.into()))));
        store.propose(proposal.changes(changes))?;
    } else {
        let (shape, changes) = bands::append(&base, RowSource::Rows(rows))?;
        store.propose(proposal.shape(shape).changes(changes))?;
    }
    store.renew_summaries();
    Ok(store)
}

/// The directory of an array that has no version yet. A placeholder with the number 0 and no rows
/// stands in for it.
fn prepare(
    options: &ArrayOptions,
    root: &Path,
    dtype: DType,
    shape: &[usize],
) -> Result<ArrayStore> {
    let paths: Vec<String> = columns::leaves(&dtype)?.into_iter().map(|l| l.path).collect();
    let stored = storage_of(options, &dtype, shape)?;
    let shape: Vec<u64> = shape.iter().map(|n| *n as u64).collect();
    let mut first = Version::first(stored, shape, &paths);
    let numbering = Numbering::of_grid(&first.grid(), None);
    let numbering = numbering.map_err(|e| Error::new(ErrorKind::Limit, e.to_string()))?;
    first.extents = numbering.extents().to_vec();
    let files = Files::of(options, root);
    refuse_other_things(&files)?;
    make_dirs(&files, &paths, options.durable)?;
    let files = Arc::new(Files::of(options, &real_root(&*options.storage, root)?));
    let lock = take_lock(&files)?;
    // Another process may have been faster.
    if !files.version_numbers()?.is_empty() {
        return Err(Error::new(ErrorKind::AlreadyExists, "the array exists already").at(root));
    }
    first.time = now_after(0);
    first.version = 0;
    if let Some(rows) = first.shape.first_mut() {
        *rows = 0;
    }
    let store = ArrayStore::new(options, files, first, lock)?;
    store.clean_up()?;
    Ok(store)
}

/// An array is created where there is nothing, or where its creation was interrupted.
fn refuse_other_things(files: &Files) -> Result<()> {
    let (storage, root) = (&files.storage, &files.root);
    let Some(stat) = storage.stat(root)? else { return Ok(()) };
    let exists = || Error::new(ErrorKind::AlreadyExists, "the path exists already").at(root);
    if !stat.is_dir() {
        return Err(exists());
    }
    let known = |path: &PathBuf| path.ends_with("data") || path.ends_with("meta");
    let others = storage.list(root)?.iter().any(|path| !known(path));
    let versions = files.version_numbers().unwrap_or_default();
    if others || !versions.is_empty() { Err(exists()) } else { Ok(()) }
}

/// Makes the directories of an array, and makes them durable.
fn make_dirs(files: &Files, columns: &[String], durable: bool) -> Result<()> {
    let mut dirs = vec![names::MANIFEST.to_owned(), names::VERSIONS.to_owned()];
    dirs.extend(columns.iter().map(|column| format!("{}/{column}", names::DATA)));
    // Some may exist, from an interrupted creation; nothing is made behind links.
    expect_own_dirs(files, dirs.iter().map(|dir| dir.trim_end_matches('/')))?;
    let storage = &*files.storage;
    for dir in dirs.iter().map(|dir| files.path(dir)) {
        let missing = missing_dirs(storage, &dir)?;
        storage.create_dir_all(&dir)?;
        if durable {
            for made in missing {
                let parent = made.parent().map(Path::to_path_buf).unwrap_or_default();
                // Above a plain name is a directory without one.
                storage.sync_dir(&parent)?;
            }
        }
    }
    Ok(())
}

/// A directory and its parents that may not be durable yet. Directories inside the array count
/// even if they exist: the process that made them may have been killed before it synced them.
fn missing_dirs<'a>(storage: &dyn Storage, dir: &'a Path) -> Result<Vec<&'a Path>> {
    let mut missing = Vec::new();
    for dir in dir.ancestors().filter(|dir| !dir.as_os_str().is_empty()) {
        let inside = missing.len() < 4;
        if !inside && storage.stat(dir)?.is_some() {
            break;
        }
        missing.push(dir);
    }
    Ok(missing)
}

fn take_lock(files: &Files) -> Result<Lock> {
    expect_own_dirs(files, [names::META])?;
    let path = files.path(names::LOCK);
    let lock = files.storage.lock(&path)?;
    lock.ok_or_else(|| {
        Error::new(ErrorKind::Locked, "another writer is working on this array").at(&files.root)
    })
}
