//! [`Stamp`]: distinguishes a file from another one of the same name, so that recovery touches only
//! the files that the killed process had touched.

use std::io;
use std::path::Path;

use blake2s_simd::State as Hasher;
use serde::{Deserialize, Serialize};

use super::{FileId, FileKind, Source, Stat, Storage};
use crate::error::Result;

/// Files up to this size are hashed as a whole.
const WHOLE: u64 = 256 << 10;
/// Bytes that are hashed at both ends of larger ones.
const END: u64 = 64 << 10;
/// Pieces in between, and their size.
const PIECES: u64 = 16;
const PIECE: u64 = 4 << 10;

/// A file as it was when it was recorded: its size, a digest of some 200 KiB spread over it, which file it is
/// to the system, and when it last changed.
///
/// A file that is renamed stays the same by all of these. One that is copied keeps size and
/// digest; one that is rewritten under its name keeps at most its number.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Stamp {
    len: u64,
    id: FileId,
    modified: i128,
    sample: String,
}

impl Stamp {
    /// The stamp of the file that has this name, if there is one.
    pub(crate) fn of(storage: &dyn Storage, path: &Path) -> Result<Option<Stamp>> {
        Stamp::of_prefix(storage, path, u64::MAX)
    }

    /// The stamp of the first bytes of this file. A file that is shorter is taken as a whole.
    pub(crate) fn of_prefix(storage: &dyn Storage, path: &Path, len: u64) -> Result<Option<Stamp>> {
        let Some(stat) = storage.lstat(path)? else { return Ok(None) };
        let Stat { id, modified, kind, .. } = stat;
        if !matches!(kind, FileKind::File | FileKind::Link) {
            let sample = kind.to_string();
            return Ok(Some(Stamp { len: stat.len, id, modified, sample }));
        }
        use io::ErrorKind::{NotFound, PermissionDenied};
        // A link has the content of the file that it leads to now.
        let source = match storage.open(path) {
            Ok(source) => source,
            // One that may be replaced but not read, or a link to nowhere: the same as long as no
            // one touches it.
            Err(e) if matches!(e.io_kind(), Some(PermissionDenied | NotFound)) => {
                let sample = format!("unreadable {id:?} {modified}");
                return Ok(Some(Stamp { len: stat.len, id, modified, sample }));
            }
            Err(e) => return Err(e),
        };
        let len = source.len().min(len);
        let sample = sample(&source, len)?;
        Ok(Some(Stamp { len, id, modified, sample }))
    }

    /// The stamp of a file, or of a folder by the names and sizes of its entries at any depth: its
    /// own time changes when it is read.
    #[cfg(feature = "convert")]
    pub(crate) fn of_tree(storage: &dyn Storage, path: &Path) -> Result<Option<Stamp>> {
        match storage.lstat(path)? {
            Some(found) if found.is_dir() => {
                let mut hasher = hasher();
                add_below(storage, path, &mut hasher)?;
                let sample = hasher.finalize().to_hex().to_string();
                Ok(Some(Stamp { len: 0, id: found.id, modified: 0, sample }))
            }
            _ => Stamp::of(storage, path),
        }
    }

    /// From its parts, as an earlier version noted them.
    #[cfg(feature = "convert")]
    pub(crate) fn noted(len: u64, id: FileId, modified: i128, sample: String) -> Stamp {
        Stamp { len, id, modified, sample }
    }

    /// Whether the other one has the same size and digest.
    pub(crate) fn has_content_of(&self, other: &Stamp) -> bool {
        self.len == other.len && self.sample == other.sample
    }

    /// Whether it is the very same file, and unchanged.
    pub(crate) fn is(&self, other: &Stamp) -> bool {
        self == other
    }

    /// Whether this is what was noted: the very same file or folder, or one with the same content, as after the
    /// disk was mounted again under another number, or all was copied.
    #[cfg(feature = "convert")]
    pub(crate) fn is_still(&self, noted: &Stamp) -> bool {
        let is_folder = self.modified == 0;
        // A disk that is mounted again may have another number. Files have a time to compare,
        // folders have not, and the same number on another disk may be another folder.
        let same_device = self.id.0 == noted.id.0 || !is_folder;
        let same_file = same_device && self.id.1 == noted.id.1 && self.modified == noted.modified;
        self.len == noted.len && (same_file || self.sample == noted.sample)
    }

    /// Whether both were written by the same write, maybe on another disk by now.
    #[cfg(feature = "convert")]
    pub(crate) fn is_of_write(&self, noted: &Stamp) -> bool {
        self.has_content_of(noted) && self.modified == noted.modified
    }

    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// Which file it is to the system.
    #[cfg(feature = "convert")]
    pub(crate) fn id(&self) -> FileId {
        self.id
    }
}

/// Whether both are there with the same content, or neither is.
pub(crate) fn same_content(one: Option<&Stamp>, other: Option<&Stamp>) -> bool {
    match (one, other) {
        (Some(one), Some(other)) => one.has_content_of(other),
        (None, None) => true,
        _ => false,
    }
}

fn hasher() -> Hasher {
    blake2s_simd::Params::new().hash_length(16).to_state()
}

/// Adds the names and sizes of all that is in a folder, in the order of the names.
#[cfg(feature = "convert")]
fn add_below(storage: &dyn Storage, dir: &Path, hasher: &mut Hasher) -> Result<()> {
    for path in storage.list(dir)? {
        let Some(found) = storage.lstat(&path)? else { continue };
        let name = path.file_name().unwrap_or_default().as_encoded_bytes();
        // The size of a folder is up to the file system.
        let size = if found.is_dir() { u64::MAX } else { found.len };
        hasher.update(&(name.len() as u64).to_le_bytes());
        hasher.update(name);
        hasher.update(&size.to_le_bytes());
        if found.is_dir() {
            add_below(storage, &path, hasher)?;
            hasher.update(&[0; 8]);
        }
    }
    Ok(())
}

fn sample(source: &Source, len: u64) -> Result<String> {
    let mut hasher = hasher();
    if len <= WHOLE {
        hasher.update(&source.read(0..len)?);
    } else {
        hasher.update(&source.read(0..END)?);
        let step = (len - 2 * END) / (PIECES + 1);
        for piece in 1..=PIECES {
            let start = END + piece * step;
            hasher.update(&source.read(start..start + PIECE)?);
        }
        hasher.update(&source.read(len - END..len)?);
    }
    Ok(hasher.finalize().to_hex().to_string())
}

#[cfg(test)]
mod tests {
    #[cfg(feature = "convert")]
    use std::fs;

    use super::*;
    #[cfg(feature = "convert")]
    use crate::storage::LocalStorage;
    use crate::storage::MemoryStorage;

    #[test]
    fn any_change_of_size_or_of_the_ends_shows() {
        let storage = MemoryStorage::new();
        for len in [0, 1, WHOLE, WHOLE + 1, 3 * WHOLE + 7] {
            let bytes: Vec<u8> = (0..len).map(|i| ((i * 31) >> 3) as u8).collect();
            storage.put("a", bytes.clone());
            storage.put("b", bytes.clone());
            let of = |name| Stamp::of(&storage, Path::new(name)).unwrap().unwrap();
            let (a, b) = (of("a"), of("b"));
            assert!(a.has_content_of(&b) && !a.is(&b) && a.is(&of("a")), "{len}");
            let mut changed = vec![[&bytes[..], b"x"].concat()];
            for at in [0, len / 2, len.saturating_sub(1)] {
                // Between the ends only some bytes of a large file count.
                let in_the_middle = len > WHOLE && at == len / 2;
                if let (Some(_), false) = (bytes.get(at as usize), in_the_middle) {
                    let mut other = bytes.clone();
                    other[at as usize] ^= 1;
                    changed.push(other);
                }
            }
            for other in changed {
                storage.put("b", other);
                assert!(!a.has_content_of(&of("b")), "{len}");
            }
            storage.put("b", [&bytes[..], b"appended"].concat());
            let prefix = Stamp::of_prefix(&storage, Path::new("b"), len).unwrap().unwrap();
            assert!(prefix.has_content_of(&a), "{len}");
        }
    }

    #[cfg(feature = "convert")]
    #[test]
    fn a_copy_is_still_the_same_and_another_file_is_not() {
        let (dir, storage) = (tempfile::tempdir().unwrap(), LocalStorage::positioned());
        let path = |name: &str| dir.path().join(name);
        let of = |name: &str| Stamp::of_tree(&storage, &path(name)).unwrap().unwrap();
        fs::write(path("a"), "some bytes").unwrap();
        fs::copy(path("a"), path("b")).unwrap();
        fs::write(path("c"), "same size!").unwrap();
        assert!(of("a").is_still(&of("a")) && of("b").is_still(&of("a")));
        assert!(!of("c").is_still(&of("a")));
        // After the disk was mounted again, also where no digest was noted.
        let again = Stamp { id: (7, of("a").id.1), ..of("a") };
        assert!(again.is_still(&of("a")));
        assert!(again.is_still(&Stamp { sample: String::new(), ..of("a") }));
        for name in ["one", "two"] {
            fs::create_dir_all(path(name).join("below")).unwrap();
            fs::write(path(name).join("below/x"), "x").unwrap();
        }
        assert!(of("two").is_still(&of("one")));
        fs::write(path("two").join("below/y"), "").unwrap();
        assert!(!of("two").is_still(&of("one")));
        // Without a digest, two folders of two disks are not told from each other by their numbers.
        let noted = Stamp { sample: String::new(), ..of("one") };
        assert!(of("one").is_still(&noted));
        assert!(!Stamp { id: (7, of("one").id.1), ..of("one") }.is_still(&noted));
    }
}
