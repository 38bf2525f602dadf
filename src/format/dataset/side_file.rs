//! The family of files of a dataset: which ones there are and how they are named.
//!
//! A side file has the *whole* name of the data file with a suffix appended: `train.msgpack` has
//! `train.msgpack.offsets`. This module only makes names; it opens nothing.

use std::path::{Path, PathBuf};

/// A file next to a data file.
///
/// ```
/// use kiste::format::dataset::SideFile;
/// use std::path::Path;
///
/// let data = Path::new("sets/train.msgpack");
/// assert_eq!(SideFile::Keys.path(data), Path::new("sets/train.msgpack.keys"));
/// assert_eq!(SideFile::of(Path::new("train.keys")), Some(SideFile::Keys));
/// assert_eq!(SideFile::of(data), None);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum SideFile {
    /// Where each sample begins and ends: [`offsets`](super::offsets).
    Offsets,
    /// The keys, in sample order: [`keys`](super::keys).
    Keys,
    /// The salted hashes of the keys, in sample order: [`key_hashes`](super::key_hashes).
    KeyHashes,
    /// A Bloom filter of the keys: [`filter`](super::filter).
    Filter,
    /// The MD5 digests of the other files: [`Digests`](super::Digests).
    Md5,
    /// Keys and offsets in one file, as datadings before 3.1 wrote them:
    /// [`legacy_index`](super::legacy_index). Read, never written.
    Index,
    /// A hash table over the key hashes. Ours alone, and optional.
    Lookup,
    /// A checksum of each sample: [`crc`](super::crc). Ours alone, and optional.
    Crc,
    /// Numbers of each sample: [`lengths`](super::lengths). Ours alone, and optional.
    Lengths,
}

impl SideFile {
    /// All side files, in order of declaration.
    pub const ALL: [SideFile; 9] = [
        SideFile::Offsets,
        SideFile::Keys,
        SideFile::KeyHashes,
        SideFile::Filter,
        SideFile::Md5,
        SideFile::Index,
        SideFile::Lookup,
        SideFile::Crc,
        SideFile::Lengths,
    ];

    /// The side files that every complete dataset has, in the order in which they are written.
    /// The first four are the order of the lines of `.md5` below the one of the data file.
    pub const WRITTEN: [SideFile; 5] =
        [SideFile::Offsets, SideFile::Keys, SideFile::KeyHashes, SideFile::Filter, SideFile::Md5];

    /// The suffix after the name of the data file, dot included.
    pub const fn suffix(self) -> &'static str {
        match self {
            SideFile::Offsets => ".offsets",
            SideFile::Keys => ".keys",
            SideFile::KeyHashes => ".key_hashes",
            SideFile::Filter => ".filter",
            SideFile::Md5 => ".md5",
            SideFile::Index => ".index",
            SideFile::Lookup => ".lookup",
            SideFile::Crc => ".crc",
            SideFile::Lengths => ".lengths",
        }
    }

    /// The path of this side file of a data file. Names that are not Unicode are preserved.
    pub fn path(self, data: &Path) -> PathBuf {
        let mut path = data.as_os_str().to_owned();
        path.push(self.suffix());
        PathBuf::from(path)
    }

    /// The data file that this name belongs to: the name of a data file or of a side file.
    pub fn data_of(path: &Path) -> PathBuf {
        match SideFile::of(path) {
            Some(_) => path.with_extension(""),
            None => path.to_path_buf(),
        }
    }

    /// The side file with the suffix of this path, if any.
    ///
    /// A *data* file must not be named like this: Python datadings takes such a name for the side
    /// file itself, and so overwrites the data when it writes the index.
    pub fn of(path: &Path) -> Option<SideFile> {
        let extension = path.extension()?.to_str()?;
        SideFile::ALL.into_iter().find(|side| &side.suffix()[1..] == extension)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn appends_to_the_whole_name() {
        for side in SideFile::ALL {
            for data in ["a", "a.b", "x.y/a", "a.keys", "ü.msgpack", "."] {
                let path = side.path(Path::new(data));
                assert_eq!(path.to_str().unwrap(), format!("{data}{}", side.suffix()));
            }
        }
    }

    #[test]
    fn knows_its_own_names_and_no_others() {
        for side in SideFile::ALL {
            assert_eq!(SideFile::of(&side.path(Path::new("dir.d/a.msgpack"))), Some(side));
        }
        // The last two: pathlib sees no suffix there either, so Python appends one.
        for other in
            ["a", "a.msgpack", "keys", "a.KEYS", "a.keys.zst", "x.keys/a", "..", "", ".keys"]
        {
            assert_eq!(SideFile::of(Path::new(other)), None, "{other}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn names_need_not_be_unicode() {
        use std::ffi::OsStr;
        use std::os::unix::ffi::OsStrExt;
        let data = Path::new(OsStr::from_bytes(b"a\xff.msgpack"));
        let keys = SideFile::Keys.path(data);
        assert_eq!(keys.as_os_str().as_bytes(), b"a\xff.msgpack.keys");
        assert_eq!(SideFile::of(&keys), Some(SideFile::Keys));
        assert_eq!(SideFile::of(Path::new(OsStr::from_bytes(b"a.keys\xff"))), None);
    }
}
