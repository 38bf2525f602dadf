//! How an array begins: what it is for good, its directories, and its first version.
//!
//! Not here: arrays that are made of rows, which are in [`bands`](super::bands).

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Map;

use crate::array::chunked::columns;
use crate::array::chunked::files::Files;
use crate::array::chunked::options::ArrayOptions;
use crate::array::chunked::write::ownership::real_root;
use crate::array::chunked::write::store::{ArrayStore, now_after, take_lock};
use crate::error::{Error, ErrorKind, Result};
use crate::format::blosc::{Params, Shuffle};
use crate::format::chunked::{
    Compression, MAX_DIMENSIONS, Numbering, Storage as Stored, Version, names,
};
use crate::storage::Storage;
use crate::value::DType;

impl ArrayStore {
    pub(crate) fn create_with(
        options: &ArrayOptions,
        root: &Path,
        dtype: DType,
        shape: &[usize],
    ) -> Result<ArrayStore> {
        let mut store = ArrayStore::prepare(options, root, dtype, shape)?;
        let mut first = store.newest.core.version.clone();
        first.version = 1;
        first.shape = shape.iter().map(|n| *n as u64).collect();
        first.message = "created".to_owned();
        store.publish(first)?;
        Ok(store)
    }

    /// The directory of an array of which no version was published yet. What stands in its place has
    /// the number 0, and no rows.
    pub(crate) fn prepare(
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
        let files = options.files(root);
        refuse_other_things(&files)?;
        make_dirs(&files, &paths, options.durable)?;
        let files = Arc::new(options.files(&real_root(&*options.storage, root)?));
        let lock = take_lock(&files)?;
        if !files.version_numbers()?.is_empty() {
            return Err(Error::new(ErrorKind::AlreadyExists, "there is an array already").at(root));
        }
        first.time = now_after(0);
        first.version = 0;
        if let Some(rows) = first.shape.first_mut() {
            *rows = 0;
        }
        let store = ArrayStore::with_lock(options, files, first, lock)?;
        store.remove_unfinished()?;
        Ok(store)
    }
}

/// What never changes over the life of an array.
fn storage_of(options: &ArrayOptions, dtype: &DType, shape: &[usize]) -> Result<Stored> {
    if shape.len() > MAX_DIMENSIONS {
        let message = format!("expected at most {MAX_DIMENSIONS} axes, found {}", shape.len());
        return Err(Error::new(ErrorKind::Limit, message));
    }
    let chunk = options.chunk_shape_of(dtype.item_size(), shape)?;
    let chunk_bytes = chunk.iter().product::<usize>() * dtype.item_size();
    let params = Params {
        codec: options.codec,
        level: options.level,
        shuffle: options.shuffle,
        ..Params::default()
    };
    params.check(chunk_bytes).map_err(|e| Error::new(ErrorKind::Invalid, e.to_string()))?;
    if options.room > 0 && options.versioned {
        let message = "room is for arrays that are not versioned: chunks of others never change";
        return Err(Error::new(ErrorKind::Invalid, message));
    }
    let shuffle = match options.shuffle {
        Shuffle::None => 0,
        Shuffle::Byte => 1,
        Shuffle::Bit => 2,
    };
    Ok(Stored {
        dtype: dtype.to_string(),
        chunkshape: chunk.iter().map(|n| *n as u64).collect(),
        order: "C".to_owned(),
        fill: options.fill_of(dtype)?,
        superchunk: options.superchunk_of(chunk_bytes)?,
        cparams: Compression {
            cname: options.codec.name().to_owned(),
            clevel: options.level,
            shuffle,
        },
        checksum: options.checksum.name().to_owned(),
        room: options.room,
        expectedlen: options.expected_len,
        versioned: options.versioned,
        others: Map::new(),
    })
}

/// An array is created where there is nothing, or where its creation was cut short.
fn refuse_other_things(files: &Files) -> Result<()> {
    let (storage, root) = (&files.storage, &files.root);
    let at = |e| Error::io(root, e);
    let Some(stat) = storage.stat(root).map_err(at)? else { return Ok(()) };
    let exists = || Error::new(ErrorKind::AlreadyExists, "there is something already").at(root);
    if !stat.is_dir() {
        return Err(exists());
    }
    let known = |path: &PathBuf| path.ends_with("data") || path.ends_with("meta");
    let others = storage.list(root).map_err(at)?.iter().any(|path| !known(path));
    let versions = files.version_numbers().unwrap_or_default();
    if others || !versions.is_empty() { Err(exists()) } else { Ok(()) }
}

/// Makes the directories of an array, so that they last.
fn make_dirs(files: &Files, columns: &[String], durable: bool) -> Result<()> {
    let mut dirs = vec![names::MANIFEST.to_owned(), names::VERSIONS.to_owned()];
    dirs.extend(columns.iter().map(|column| format!("{}/{column}", names::DATA)));
    // Some may be there, of a creation that was cut short: nothing is made behind links.
    files.expect_own_dirs(dirs.iter().map(|dir| dir.trim_end_matches('/')))?;
    let storage = &*files.storage;
    for dir in dirs.iter().map(|dir| files.path(dir)) {
        let missing = missing_dirs(storage, &dir).map_err(|e| Error::io(&dir, e))?;
        storage.create_dir_all(&dir).map_err(|e| Error::io(&dir, e))?;
        if durable {
            for made in missing {
                let parent = made.parent().map(Path::to_path_buf).unwrap_or_default();
                // Above a plain name is a directory without one.
                storage.sync_dir(&parent).map_err(|e| Error::io(made, e))?;
            }
        }
    }
    Ok(())
}

/// A directory and those above it, as far as they may not last yet. That is also those inside the
/// array that exist: whoever made them may have died before they were synced.
fn missing_dirs<'a>(storage: &dyn Storage, dir: &'a Path) -> io::Result<Vec<&'a Path>> {
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
