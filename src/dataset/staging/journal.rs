//! The content of `journal`, `complete` and `commit`, which are read only in the version that this
//! code writes, as another version may mean other things by the same words.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::{Base, Observed};
use crate::error::{Error, ErrorKind, Result};
use crate::note::{self, required};
use crate::storage::{Stamp, Storage};

/// The version of these. Version 1 did not say which files it was about.
pub(super) const VERSION: u32 = 2;

/// Larger than any that was ever written.
const MAX_BYTES: u64 = 1 << 20;

/// A note of the write in progress.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Journal {
    version: u32,
    /// The process that began it, for people who read this file.
    process: u32,
    /// Present for an append.
    #[serde(deserialize_with = "required")]
    pub(crate) base: Option<Base>,
    /// Whether this only replaces side files: the data file is not touched.
    pub(crate) side_files_only: bool,
    /// Whether a dataset that appears or changes during the write is replaced as well.
    pub(super) replace: bool,
    /// Whether the dataset is to have digests, if another process finishes it.
    pub(crate) digests: bool,
    /// Whether it is to have the accelerator; `null` where its size decides.
    #[serde(deserialize_with = "required")]
    pub(crate) lookup: Option<bool>,
    /// Whether it is to have a checksum of each sample.
    pub(crate) checksums: bool,
    /// The columns that its `.lengths` is to have.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) lengths: Vec<String>,
    /// How the names of the labels change.
    pub(crate) labels: Labels,
    /// The files that made the dataset when this began.
    pub(super) old: Observed,
}

/// How the names of labels change when a dataset is published.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Labels {
    /// The present names are right.
    #[default]
    Stay,
    /// The staged ones take their place.
    Staged,
    /// There are none for this dataset.
    Go,
}

impl Journal {
    /// Samples are written, or appended.
    pub(crate) fn samples(base: Option<Base>, digests: bool, lookup: Option<bool>) -> Journal {
        let (version, process) = (VERSION, std::process::id());
        let (labels, old) = (Labels::Stay, Observed::new());
        let (side_files_only, replace, checksums) = (false, false, false);
        Journal {
            version,
            process,
            base,
            side_files_only,
            replace,
            digests,
            lookup,
            checksums,
            lengths: Vec::new(),
            labels,
            old,
        }
    }

    /// There is to be a checksum of each sample.
    pub(crate) fn checksums(self, yes: bool) -> Journal {
        Journal { checksums: yes, ..self }
    }

    /// `.lengths` is to have these columns.
    pub(crate) fn lengths(self, names: Vec<String>) -> Journal {
        Journal { lengths: names, ..self }
    }

    /// A dataset that appears or changes during the write is replaced as well.
    pub(crate) fn replacing(self, yes: bool) -> Journal {
        Journal { replace: yes, ..self }
    }

    /// Only side files are made.
    pub(crate) fn side_files() -> Journal {
        Journal { side_files_only: true, ..Journal::samples(None, true, Some(false)) }
    }
}

/// All samples of a write are in the data file, and on the disk unless the writer was told not to wait
/// for it: what it has not yet made are side files.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Complete {
    version: u32,
    /// Samples of the dataset, those from before an append included.
    pub(super) samples: u64,
    /// Bytes of the data file.
    pub(super) bytes: u64,
}

impl Complete {
    pub(super) fn new(samples: u64, bytes: u64) -> Complete {
        Complete { version: VERSION, samples, bytes }
    }
}

/// A note of the publication that is about to happen.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Commit {
    pub(super) version: u32,
    /// The step for each file, by its suffix; the data file is "".
    pub(super) steps: BTreeMap<String, Step>,
    /// The data file, where it stays: after an append, or when only side files are made.
    #[serde(deserialize_with = "required")]
    pub(super) in_place: Option<Stamp>,
}

/// The old and the new state of one file.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Step {
    /// The staged file that takes the place; without one the old file goes.
    #[serde(deserialize_with = "required")]
    pub(super) new: Option<Stamp>,
    /// The file that has the place now.
    #[serde(deserialize_with = "required")]
    pub(super) old: Option<Stamp>,
}

/// The journal of this directory, if there is one.
pub(super) fn read_journal(storage: &dyn Storage, dir: &Path) -> Result<Option<Journal>> {
    read_json(storage, &dir.join("journal"))
}

/// The commit of this directory, if there is one.
pub(super) fn read_commit(storage: &dyn Storage, dir: &Path) -> Result<Option<Commit>> {
    read_json(storage, &dir.join("commit"))
}

/// The note that all samples are written, if it is whole. The crash of the writer may have truncated it, so a
/// damaged one says nothing.
pub(super) fn read_complete(storage: &dyn Storage, dir: &Path) -> Result<Option<Complete>> {
    match read_json(storage, &dir.join("complete")) {
        Err(error) if matches!(error.kind(), ErrorKind::Damaged | ErrorKind::Unsupported) => {
            Ok(None)
        }
        read => read,
    }
}

fn read_json<T: for<'a> Deserialize<'a>>(storage: &dyn Storage, path: &Path) -> Result<Option<T>> {
    #[derive(Deserialize)]
    struct Versioned {
        version: u32,
    }
    let Some(source) = storage.open_if_exists(path)? else { return Ok(None) };
    let bytes = source.read(0..source.len().min(MAX_BYTES))?;
    let damaged = |found: String| {
        Error::new(ErrorKind::Damaged, format!("not a journal of kiste: {found}")).at(path)
    };
    let Versioned { version } = note::parsed(&bytes).map_err(damaged)?;
    if version != VERSION {
        let message = format!(
            "expected version {VERSION}, found {version}: the version of kiste that wrote it can \
             finish or undo it"
        );
        return Err(Error::new(ErrorKind::Unsupported, message).at(path));
    }
    note::parsed(&bytes).map_err(damaged).map(Some)
}
