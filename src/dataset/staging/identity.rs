//! Telling a file from another one that has its name: so that a recovery touches only what the
//! writer that died had touched.

use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::error::Result;
use crate::storage::{FileId, FileKind, Source, Stat, Storage};

/// Files up to this size are hashed as a whole.
const WHOLE: u64 = 256 << 10;
/// Bytes that are hashed at both ends of larger ones.
const END: u64 = 64 << 10;
/// Pieces in between, and their size.
const PIECES: u64 = 16;
const PIECE: u64 = 4 << 10;

/// What a file was when it was recorded: its size, a digest of some 200 KiB spread over it, and,
/// which file it is to the system, and when it last changed.
///
/// A file that is renamed stays the same by all of these. One that is copied keeps size and
/// digest; one that is rewritten under its name keeps at most its number.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Identity {
    len: u64,
    id: FileId,
    modified: i128,
    sample: String,
}

impl Identity {
    /// Of the file that has this name, if there is one.
    pub(crate) fn of(storage: &dyn Storage, path: &Path) -> Result<Option<Identity>> {
        Identity::of_prefix(storage, path, u64::MAX)
    }

    /// Of the first bytes of this file. A file that is shorter is taken as a whole.
    pub(super) fn of_prefix(
        storage: &dyn Storage,
        path: &Path,
        len: u64,
    ) -> Result<Option<Identity>> {
        let Some(stat) = storage.lstat(path)? else { return Ok(None) };
        let Stat { id, modified, kind, .. } = stat;
        if !matches!(kind, FileKind::File | FileKind::Link) {
            let sample = kind.to_string();
            return Ok(Some(Identity { len: stat.len, id, modified, sample }));
        }
        use io::ErrorKind::{NotFound, PermissionDenied};
        // Of a link, the content is that of the file it leads to now.
        let source = match storage.open(path) {
            Ok(source) => source,
            // One that may be replaced but not read, or a link to nowhere: the same as long as no
            // one touches it.
            Err(e) if matches!(e.io_kind(), Some(PermissionDenied | NotFound)) => {
                let sample = format!("unreadable {id:?} {modified}");
                return Ok(Some(Identity { len: stat.len, id, modified, sample }));
            }
            Err(e) => return Err(e),
        };
        let len = source.len().min(len);
        let sample = sample(&source, len)?;
        Ok(Some(Identity { len, id, modified, sample }))
    }

    /// Whether the other one has the same size and digest.
    pub(super) fn has_content_of(&self, other: &Identity) -> bool {
        self.len == other.len && self.sample == other.sample
    }

    /// Whether it is the very same file, and unchanged.
    pub(super) fn is(&self, other: &Identity) -> bool {
        self == other
    }

    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// The digest of its content.
    #[cfg(feature = "convert")]
    pub(crate) fn digest(&self) -> &str {
        &self.sample
    }
}

/// Whether both are there with the same content, or neither is.
pub(super) fn same_content(one: Option<&Identity>, other: Option<&Identity>) -> bool {
    match (one, other) {
        (Some(one), Some(other)) => one.has_content_of(other),
        (None, None) => true,
        _ => false,
    }
}

fn sample(source: &Source, len: u64) -> Result<String> {
    let mut hasher = blake2s_simd::Params::new().hash_length(16).to_state();
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
    use super::*;
    use crate::storage::MemoryStorage;

    #[test]
    fn any_change_of_size_or_of_the_ends_shows() {
        let storage = MemoryStorage::new();
        for len in [0, 1, WHOLE, WHOLE + 1, 3 * WHOLE + 7] {
            let bytes: Vec<u8> = (0..len).map(|i| ((i * 31) >> 3) as u8).collect();
            storage.put("a", bytes.clone());
            storage.put("b", bytes.clone());
            let of = |name| Identity::of(&storage, Path::new(name)).unwrap().unwrap();
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
            let prefix = Identity::of_prefix(&storage, Path::new("b"), len).unwrap().unwrap();
            assert!(prefix.has_content_of(&a), "{len}");
        }
    }
}
