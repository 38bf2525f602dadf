//! The family of the files of a dataset, in one enum.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::format::dataset::SideFile;

/// A file of a dataset: the data file itself, or one next to it.
///
/// The data file has the name of the dataset; each other file has that name with a suffix.
///
/// | file | suffix | written | content |
/// | --- | --- | --- | --- |
/// | [`Data`](Self::Data) | | always | the samples, one after the other |
/// | [`SideFile::Offsets`] | `.offsets` | always | where each sample begins and ends |
/// | [`SideFile::Keys`] | `.keys` | always | the keys, in sample order |
/// | [`SideFile::KeyHashes`] | `.key_hashes` | always | the salted hashes of the keys |
/// | [`SideFile::Filter`] | `.filter` | always | a Bloom filter of the keys |
/// | [`SideFile::Md5`] | `.md5` | unless not wanted | the MD5 digests of the files above |
/// | [`SideFile::Lookup`] | `.lookup` | from 1,024 samples on, or on request | a hash table of the keys |
/// | [`SideFile::Crc`] | `.crc` | on request | a checksum of each sample |
/// | [`SideFile::Lengths`] | `.lengths` | on request | numbers of each sample, by which batches are planned |
/// | [`SideFile::Index`] | `.index` | never | keys and offsets, as datadings before 3.1 wrote them |
/// | [`Labels`](Self::Labels) | `.labels` | if there are names | the names of the numeric labels, one a line |
///
/// The side files belong to the datadings format, except the labels, which Python datadings does not know.
///
/// ```
/// use std::path::Path;
/// use kiste::dataset::DatasetFile;
/// use kiste::format::dataset::SideFile;
///
/// let data = Path::new("sets/train.msgpack");
/// assert_eq!(DatasetFile::Data.path(data), data);
/// assert_eq!(DatasetFile::from(SideFile::Keys).path(data), Path::new("sets/train.msgpack.keys"));
/// assert_eq!(DatasetFile::Labels.path(data), Path::new("sets/train.msgpack.labels"));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum DatasetFile {
    /// The samples.
    Data,
    /// A file that is made from the data.
    Side(SideFile),
    /// The names of the numeric labels.
    Labels,
}

impl DatasetFile {
    /// The files whose content says which dataset it is: all others follow from these.
    pub(crate) const DEFINING: [DatasetFile; 3] = [
        DatasetFile::Data,
        DatasetFile::Side(SideFile::Offsets),
        DatasetFile::Side(SideFile::Index),
    ];

    /// All files that a dataset may have.
    pub fn all() -> impl Iterator<Item = DatasetFile> {
        [DatasetFile::Data, DatasetFile::Labels]
            .into_iter()
            .chain(SideFile::ALL.into_iter().map(DatasetFile::Side))
    }

    /// The suffix after the name of the data file, dot included.
    pub const fn suffix(self) -> &'static str {
        match self {
            DatasetFile::Data => "",
            DatasetFile::Side(file) => file.suffix(),
            DatasetFile::Labels => ".labels",
        }
    }

    /// The path of this file of a dataset, whose data file is `data`.
    pub fn path(self, data: &Path) -> PathBuf {
        let mut path = data.as_os_str().to_owned();
        path.push(self.suffix());
        PathBuf::from(path)
    }

    /// The file with this suffix.
    pub(crate) fn of_suffix(suffix: &str) -> Option<DatasetFile> {
        DatasetFile::all().find(|file| file.suffix() == suffix)
    }
}

impl From<SideFile> for DatasetFile {
    fn from(file: SideFile) -> DatasetFile {
        DatasetFile::Side(file)
    }
}

/// Its suffix; of the data file "data".
impl fmt::Display for DatasetFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DatasetFile::Data => f.write_str("data"),
            _ => f.write_str(self.suffix()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suffixes_are_told_apart() {
        for file in DatasetFile::all() {
            assert_eq!(DatasetFile::of_suffix(file.suffix()), Some(file));
        }
        assert_eq!(DatasetFile::all().count(), 11);
        assert_eq!(DatasetFile::of_suffix(".partial"), None);
    }

    #[test]
    fn what_defines_a_dataset_is_frozen() {
        // Journals in the wild name these.
        assert_eq!(DatasetFile::DEFINING.map(DatasetFile::suffix), ["", ".offsets", ".index"]);
    }
}
