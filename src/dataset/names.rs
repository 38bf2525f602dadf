//! Which files a name stands for: one dataset, or the shards of a manifest or a pattern.

use std::path::{Path, PathBuf};

use super::files::DatasetFile;
use crate::error::{Error, ErrorKind, Result};
use crate::format::dataset::shards::{self, MAX_BYTES, Manifest, SUFFIX};
use crate::format::dataset::{SideFile, shards::MAX_SHARDS};
use crate::storage::{Confined, FileId, Source, Storage, is_url};
use crate::text::braces::expand_braces;

/// The files that a name stands for.
pub(crate) enum Named {
    /// The data file of one dataset.
    Dataset,
    /// A manifest.
    Manifest,
    /// Data files, in order.
    Files(Vec<PathBuf>),
}

impl Named {
    /// A file of exactly this name is that file, with any characters in its name.
    pub(crate) fn find(storage: &dyn Storage, path: &Path) -> Result<Named> {
        let Some(name) = path.to_str() else { return Ok(Named::Dataset) };
        if shards::is_manifest(name) {
            return Ok(Named::Manifest);
        }
        if !is_pattern(name) || (!is_url(path) && storage.stat(path)?.is_some()) {
            return Ok(Named::Dataset);
        }
        let mut files = Vec::new();
        for name in expand_braces(name)? {
            match is_url(&name) || !name.contains(['*', '?', '[']) {
                true => files.push(PathBuf::from(name)),
                false => files.extend(glob(&name)?),
            }
            if files.len() > MAX_SHARDS {
                let message = format!("expected at most {MAX_SHARDS} shards, found more");
                return Err(Error::new(ErrorKind::Limit, message).at(path));
            }
        }
        match &files[..] {
            [only] if only == path => Ok(Named::Dataset),
            _ => Ok(Named::Files(files)),
        }
    }
}

/// Whether a name may stand for several files. In a URL only braces do: objects are not listed.
fn is_pattern(name: &str) -> bool {
    let has_braces = name.contains('{') && name.contains('}');
    has_braces || (!is_url(name) && name.contains(['*', '?', '[']))
}

/// How the names of indices of samples in place end.
pub(crate) const IN_PLACE: &str = ".inplace.json";

/// Whether this is the name of an index of samples in place.
pub(crate) fn names_index(path: &Path) -> bool {
    path.to_str().is_some_and(|name| name.ends_with(IN_PLACE))
}

/// Whether this names a dataset of many files: a manifest, or a pattern where there is no file of
/// that very name.
///
/// ```
/// assert!(kiste::dataset::names_shards("train.shards.json"));
/// assert!(kiste::dataset::names_shards("train-{000..063}.msgpack"));
/// assert!(!kiste::dataset::names_shards("train.msgpack"));
/// ```
pub fn names_shards(path: impl AsRef<Path>) -> bool {
    let path = path.as_ref();
    let is_file = || !is_url(path) && path.symlink_metadata().is_ok();
    path.to_str().is_some_and(|name| shards::is_manifest(name) || (is_pattern(name) && !is_file()))
}

/// The data files that match, in natural order.
#[cfg(feature = "readers")]
pub(crate) fn glob(pattern: &str) -> Result<Vec<PathBuf>> {
    use std::collections::HashSet;

    let found = crate::reader::pattern::PathPattern::parse(pattern)?.glob(Path::new(""))?;
    let mut side_files = HashSet::new();
    for (path, _) in &found {
        let path = Path::new(path);
        side_files.extend(SideFile::ALL.iter().map(|side| side.path(path)));
        side_files.insert(DatasetFile::Labels.path(path));
    }
    let is_data = |path: &PathBuf| {
        let is_manifest = path.to_str().is_some_and(|name| name.ends_with(SUFFIX));
        !is_manifest && !side_files.contains(path)
    };
    let data: Vec<PathBuf> =
        found.into_iter().map(|(path, _)| PathBuf::from(path)).filter(is_data).collect();
    match data.is_empty() {
        true => Err(Error::new(ErrorKind::NotFound, "no file matches this pattern").at(pattern)),
        false => Ok(data),
    }
}

#[cfg(not(feature = "readers"))]
fn glob(pattern: &str) -> Result<Vec<PathBuf>> {
    let message = "expected the name of a file, found a pattern, which this build cannot search";
    let error = Error::new(ErrorKind::Unsupported, message).at(pattern);
    let _ = (SideFile::ALL, SUFFIX, DatasetFile::Labels);
    Err(error.with_remedy(crate::error::Remedy::Feature("readers")))
}

/// A manifest that was read.
#[derive(Debug)]
pub(crate) struct ReadManifest {
    pub(crate) manifest: Manifest,
    /// Keeps its identity from being given to another file.
    pub(crate) file: Source,
}

impl ReadManifest {
    pub(crate) fn open(storage: &dyn Storage, path: &Path) -> Result<ReadManifest> {
        let file = storage.open(path)?;
        if file.len() > MAX_BYTES {
            let message =
                format!("expected a manifest of at most {MAX_BYTES} bytes, found {}", file.len());
            return Err(Error::new(ErrorKind::Limit, message).at(path));
        }
        let text = file.read(0..file.len())?;
        let manifest = Manifest::parse(&text).map_err(|error| Error::from(error).at(path))?;
        drop(text);
        Ok(ReadManifest { manifest, file })
    }

    pub(crate) fn id(&self) -> FileId {
        self.file.id()
    }
}

/// The first data file of a dataset, if it has any.
pub(crate) fn first_file(storage: &dyn Storage, path: &Path) -> Result<Option<PathBuf>> {
    Ok(match Named::find(storage, path)? {
        Named::Dataset => Some(path.to_path_buf()),
        Named::Files(files) => files.into_iter().next(),
        Named::Manifest => {
            let read = ReadManifest::open(storage, path)?;
            read.manifest.shards().first().map(|shard| shard_path(path, &shard.name))
        }
    })
}

/// Where the shards of a manifest may be.
pub(crate) fn shards_of(storage: &dyn Storage, manifest: &Path) -> Confined {
    Confined::next_to(manifest).allow_outside(storage.allows_outside())
}

/// The data file of a shard of this manifest.
pub(crate) fn shard_path(manifest: &Path, name: &str) -> PathBuf {
    // Names have `/` everywhere, and so has a URL.
    match manifest.to_str().filter(|path| is_url(path)).and_then(|path| path.rsplit_once('/')) {
        Some((dir, _)) => PathBuf::from(format!("{dir}/{name}")),
        None => {
            let dir = manifest.parent().unwrap_or(Path::new(""));
            name.split('/').fold(dir.to_path_buf(), |path, part| path.join(part))
        }
    }
}
