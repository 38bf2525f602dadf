//! Tells a dataset from another one of the same size, such as one with other labels.

#[cfg(feature = "arrays")]
use std::path::{Path, PathBuf};

use super::DatasetReader;
use crate::error::Result;
use crate::format::dataset::shards::is_manifest;
use crate::format::hex;
use crate::format::md5::Md5;
use crate::reader::identity::{LOOKED_AT, LOOKED_AT_REMOTE, SAMPLES, add, looked_at};
use crate::storage::Source;

#[cfg(feature = "arrays")]
use super::super::index::digest;
use super::super::index::{digest_into, recorded_md5};

/// How an identity begins: by the MD5 of the data in `.md5`, by the entries of a manifest for all shards, or
/// by some of the samples.
const DIGEST: &str = "md5:";
const MANIFEST: &str = "manifest:";

impl DatasetReader {
    /// A text that tells this dataset from another one under its name, also one of the same size: for those who
    /// keep the name and open it again later, in this process or in another one. It is the MD5 of the data from
    /// `.md5` or of the manifest, or else made of the places and bytes of some samples.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let path = dir.path().join("words.msgpack");
    /// # let write = |sample: &[u8]| -> kiste::Result<()> {
    /// #     let mut writer = kiste::Writer::options().overwrite(true).create(&path)?;
    /// #     writer.write_packed(sample)?;
    /// #     writer.finish().map(drop)
    /// # };
    /// # write(b"\x82\xa3key\xa1a\xa5label\x01")?;
    /// let identity = kiste::DatasetReader::open(&path)?.identity()?;
    /// assert!(kiste::DatasetReader::open(&path)?.has_identity(&identity)?);
    /// # write(b"\x82\xa3key\xa1a\xa5label\x02")?;
    /// // Once someone has replaced it:
    /// assert!(!kiste::DatasetReader::open(&path)?.has_identity(&identity)?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The errors of reading.
    pub fn identity(&self) -> Result<String> {
        match self.recorded()? {
            Some(recorded) => Ok(recorded),
            None if self.shared.is_remote() => self.by_samples(LOOKED_AT_REMOTE),
            None => self.by_samples(LOOKED_AT),
        }
    }

    /// Whether this dataset has this [`identity`](Self::identity).
    ///
    /// # Errors
    ///
    /// The errors of reading.
    pub fn has_identity(&self, identity: &str) -> Result<bool> {
        // Digests that were made since do not make it another one.
        match identity.starts_with(SAMPLES) {
            // A copy on a disk is told by more samples than one behind a URL.
            true => Ok(self.by_samples(LOOKED_AT)? == identity
                || self.by_samples(LOOKED_AT_REMOTE)? == identity),
            false => Ok(self.recorded()?.is_some_and(|recorded| recorded == identity)),
        }
    }

    /// The identity by files that say what the data is.
    fn recorded(&self) -> Result<Option<String>> {
        let path = self.path();
        if self.as_shards().is_none() {
            let md5 = recorded_md5(self.shared.storage(), path)?;
            return Ok(md5.map(|md5| format!("{DIGEST}{}", hex(&md5))));
        }
        if !path.to_str().is_some_and(is_manifest) {
            return Ok(None);
        }
        let manifest = self.shared.storage().open(path)?;
        Ok(Some(format!("{MANIFEST}{}", hex(&md5_of(&manifest)?))))
    }

    /// The MD5 of each data file: the recorded one where there is one, or else of all its bytes.
    #[cfg(feature = "arrays")]
    pub(crate) fn digests(&self) -> Result<Vec<(PathBuf, [u8; 16])>> {
        let storage = self.shared.storage();
        let digest = |path: &Path| -> Result<(PathBuf, [u8; 16])> {
            let recorded = recorded_md5(storage, path)?;
            Ok((path.to_owned(), recorded.map_or_else(|| digest(storage, path), Ok)?))
        };
        self.files().into_iter().map(digest).collect()
    }

    /// The identity that it has as long as no file says what the data is.
    #[cfg(feature = "arrays")]
    pub(crate) fn identity_by_samples(&self) -> Result<String> {
        self.by_samples(if self.shared.is_remote() { LOOKED_AT_REMOTE } else { LOOKED_AT })
    }

    fn by_samples(&self, most: usize) -> Result<String> {
        let indices = looked_at(self, most);
        let mut md5 = Md5::new();
        let mut note = |number: u64| md5.update(&number.to_be_bytes());
        note(self.len() as u64);
        note(self.data_len());
        for index in indices {
            let range = self.byte_range(index)?;
            md5.update(&range.start.to_be_bytes());
            md5.update(&range.end.to_be_bytes());
            let raw = self.get_raw(index)?;
            add(&raw, &mut md5);
        }
        Ok(format!("{SAMPLES}{}", hex(&md5.finish())))
    }
}

fn md5_of(file: &Source) -> Result<[u8; 16]> {
    let mut md5 = Md5::new();
    digest_into(&mut md5, file, 0..file.len())?;
    Ok(md5.finish())
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use super::*;
    use crate::dataset::{Writer, index::IndexOptions};
    use crate::storage::{MemoryStorage, Storage};

    #[test]
    fn other_labels_make_another_dataset() {
        let storage: Arc<dyn Storage> = Arc::new(MemoryStorage::new());
        let path = Path::new("d");
        let written = |digests: bool, label: u8| {
            let options = Writer::options().storage(storage.clone()).overwrite(true);
            let mut writer = options.digests(digests).create(path).unwrap();
            for key in [b'a', b'b', b'c'] {
                writer
                    .write_packed(&[b"\x82\xa3key\xa1", &[key][..], b"\xa1l", &[label]].concat())
                    .unwrap();
            }
            writer.finish().unwrap();
            DatasetReader::options().storage(storage.clone()).open(path).unwrap()
        };
        for (first, second) in [(true, true), (false, false), (true, false), (false, true)] {
            let identity = written(first, 1).identity().unwrap();
            assert_eq!(identity.starts_with(DIGEST), first);
            assert!(!written(second, 2).has_identity(&identity).unwrap());
            assert_eq!(written(second, 1).has_identity(&identity).unwrap(), second || !first);
        }
        // Files that are made of the same data do not make it another one.
        let reader = written(false, 1);
        let identity = reader.identity().unwrap();
        IndexOptions::default().storage(storage.clone()).build(path).unwrap();
        assert!(
            reader.identity().unwrap().starts_with(DIGEST)
                && reader.has_identity(&identity).unwrap()
        );
    }
}
