//! The notes in a [directory of parts](super::parts): JSON that is read in full or not at all.
//!
//! Each has the digest of the plan that it belongs to, so that one of another conversion is refused, and a
//! [checksum](crate::note) of its own. A note that has fields which are not known here is of a later version,
//! and refused too. Parts of builds before the first release have notes without checksums, `crc32`, `content`
//! and the plan in `commit`: of these the rest is compared.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;
use std::time::SystemTime;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;
use sha2::{Digest as _, Sha256};

use super::bad::Tally;
use super::shards::Made;
use crate::dataset::staging::Identity;
use crate::error::{Error, ErrorKind, Result};
use crate::format::hex;
use crate::note;
use crate::regular::open_regular;
use crate::storage::{FileId, LocalStorage};

/// The most bytes of a note: a part of as many shards as a manifest may list has fewer.
pub(super) const MAX_NOTE: u64 = 128 << 20;

/// The note of a finished part, or of its progress.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Finished {
    pub(super) plan: String,
    pub(super) state: Json,
    /// The run of the part that notes it, where that is fenced: no two notes of two runs are alike,
    /// as a store may tell them apart by nothing but their bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) run: Option<String>,
    /// The note of the finished part.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) finished: Option<Json>,
}

/// The kind of a finished part.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Done {
    pub(super) samples: u64,
    pub(super) bytes: u64,
    pub(super) tally: Tally,
    /// The CRC-32 of its samples, one behind the other, where it is no shards.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) crc32: Option<u32>,
    /// Its shards.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) shards: Option<Vec<Made>>,
}

/// The content of `commit`, by the names of the files and folders.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Commit {
    /// The digest of the plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) plan: Option<String>,
    pub(super) before: BTreeMap<String, Option<Seen>>,
    pub(super) made: BTreeMap<String, Seen>,
    /// The numbers of the files in which each dataset was written, by one run after the other: a repair may
    /// have published one.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) begun: BTreeMap<String, Vec<FileId>>,
}

/// Identifies a file or folder. Renaming does not change it.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Seen {
    /// The numbers of the device and the file, where the system has any.
    pub(super) id: FileId,
    bytes: u64,
    /// Seconds and nanoseconds.
    modified: (u64, u32),
    /// A digest of some of the bytes of a file, or of the names and sizes in a folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    content: Option<String>,
}

/// The content of a note.
pub(super) fn parse<T: DeserializeOwned>(text: &[u8], path: &Path, what: &str) -> Result<T> {
    note::parsed(text).map_err(|found| damaged(path, what, found))
}

/// The same of a part of a note.
pub(super) fn typed<T: DeserializeOwned>(state: Json, path: &Path, what: &str) -> Result<T> {
    serde_json::from_value(state).map_err(|error| damaged(path, what, error.to_string()))
}

pub(super) fn damaged(path: &Path, what: &str, found: String) -> Error {
    let error = Error::new(ErrorKind::Damaged, format!("not {what}: {found}")).at(path);
    error.advise("nothing was touched: restore the file, or make these parts again elsewhere")
}

/// The text of a note, if there is one.
pub(super) fn read(path: &Path) -> Result<Option<Vec<u8>>> {
    let at = |error| Error::io(path, error);
    let file = match open_regular(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file.map_err(at)?,
    };
    let mut text = Vec::new();
    io::Read::read_to_end(&mut io::Read::take(file, MAX_NOTE + 1), &mut text).map_err(at)?;
    if text.len() as u64 > MAX_NOTE {
        let message = format!("expected at most {MAX_NOTE} bytes, found more");
        return Err(Error::new(ErrorKind::Limit, message).at(path));
    }
    Ok(Some(text))
}

impl Seen {
    pub(super) fn at(path: &Path) -> Result<Option<Seen>> {
        let found = match path.symlink_metadata() {
            Ok(found) => found,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(Error::io(path, error)),
        };
        #[cfg(unix)]
        let id = {
            use std::os::unix::fs::MetadataExt;
            (found.dev(), found.ino())
        };
        #[cfg(not(unix))]
        let id = (0, 0);
        if found.is_dir() {
            // Its time changes when its content is read, or moved with it.
            let mut digest = Sha256::new();
            digest_below(path, &mut digest).map_err(|error| Error::io(path, error))?;
            let content = Some(hex(&digest.finalize()));
            return Ok(Some(Seen { id, bytes: 0, modified: (0, 0), content }));
        }
        let modified = found.modified().ok();
        let since = modified.and_then(|time| time.duration_since(SystemTime::UNIX_EPOCH).ok());
        let modified = since.map_or((0, 0), |since| (since.as_secs(), since.subsec_nanos()));
        let identity = Identity::of(&LocalStorage::positioned(), path)?;
        let content = identity.map(|identity| identity.digest().to_owned());
        Ok(Some(Seen { id, bytes: found.len(), modified, content }))
    }

    /// Whether this is the noted file: the very same, or one with the same content, as after the disk was
    /// mounted again under another number, or all was copied.
    pub(super) fn is(&self, noted: &Seen) -> bool {
        let is_folder = self.modified == (0, 0);
        let same_device = self.id.0 == noted.id.0 || !is_folder;
        let same_file = same_device && self.id.1 == noted.id.1 && self.modified == noted.modified;
        let same_content = noted.content.is_some() && self.content == noted.content;
        self.bytes == noted.bytes && (same_file || same_content)
    }
}

/// Adds the names and sizes of all that is in a folder, in the order of the names.
fn digest_below(dir: &Path, digest: &mut Sha256) -> io::Result<()> {
    let entries = fs::read_dir(dir)?.map(|entry| Ok(entry?.path()));
    let mut paths = entries.collect::<io::Result<Vec<_>>>()?;
    paths.sort();
    for path in paths {
        let found = path.symlink_metadata()?;
        let name = path.file_name().unwrap_or_default().as_encoded_bytes();
        let size = if found.is_dir() { u64::MAX } else { found.len() };
        digest.update((name.len() as u64).to_le_bytes());
        digest.update(name);
        digest.update(size.to_le_bytes());
        if found.is_dir() {
            digest_below(&path, digest)?;
            digest.update([0; 8]);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_is_known_by_its_content_and_another_file_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        let seen = |name: &str| Seen::at(&path(name)).unwrap().unwrap();
        fs::write(path("a"), "some bytes").unwrap();
        fs::copy(path("a"), path("b")).unwrap();
        fs::write(path("c"), "same size!").unwrap();
        assert!(seen("a").is(&seen("a")) && seen("b").is(&seen("a")) && !seen("c").is(&seen("a")));
        // After the disk was mounted again.
        let again = Seen { id: (7, seen("a").id.1), ..seen("a") };
        assert!(again.is(&seen("a")));
        assert!(Seen { content: None, ..again }.is(&Seen { content: None, ..seen("a") }));
        for name in ["one", "two"] {
            fs::create_dir_all(path(name).join("below")).unwrap();
            fs::write(path(name).join("below/x"), "x").unwrap();
        }
        assert!(seen("two").is(&seen("one")));
        fs::write(path("two").join("below/y"), "").unwrap();
        assert!(!seen("two").is(&seen("one")));
        // Without a digest, two folders of two disks are not told from each other by their numbers.
        let noted = Seen { content: None, ..seen("one") };
        assert!(seen("one").is(&noted));
        assert!(!Seen { id: (7, seen("one").id.1), ..seen("one") }.is(&noted));
    }
}
