//! [`Old`]: an index that is there. What has not changed since is taken from it.

use std::ops::Range;
use std::path::{Path, PathBuf};

use crate::convert::source_file::storage_of;
use crate::dataset::reader::in_place::read_index;
use crate::dataset::{DatasetReader, Keys};
use crate::error::Result;
use crate::format::dataset::SideFile;
use crate::format::in_place::{Addresses, Frame, Index, Shard};
use crate::storage::is_url;

pub(super) struct Old {
    pub(super) index: Index,
    pub(super) path: PathBuf,
    /// The names of its labels.
    pub(super) labels: Option<Vec<String>>,
    addresses: Addresses,
    /// Its side files, unless one that is needed is gone: then all shards are indexed again.
    reader: Option<DatasetReader>,
}

/// A shard of one of several indexes: the number of the index, and of the shard in it.
pub(super) type Was = (usize, usize);

impl Old {
    pub(super) fn open(path: &Path) -> Result<Old> {
        let (storage, place) = storage_of(path)?;
        let index = read_index(path, &storage.open(&place)?)?;
        let addresses = Addresses::of(&index);
        let is_there = |file: SideFile| storage.lstat(&file.path(&place)).map(|it| it.is_some());
        let reader = match is_there(SideFile::Offsets)? && is_there(SideFile::Keys)? {
            true => Some(DatasetReader::options().storage(storage.clone()).open(&place)?),
            false => None,
        };
        let labels = reader.as_ref().map_or(Ok(None), DatasetReader::labels)?;
        Ok(Old { index, path: path.to_path_buf(), labels, addresses, reader })
    }

    /// Where its shards are.
    pub(super) fn paths(&self) -> impl Iterator<Item = PathBuf> {
        let folder = self.path.parent().unwrap_or(Path::new(""));
        self.index.shards.iter().map(move |shard| match is_url(&shard.name) {
            true => PathBuf::from(&shard.name),
            false => folder.join(&shard.name),
        })
    }

    /// A shard whose samples are known, with its frame.
    pub(super) fn shard(&self, number: usize) -> Option<(&Shard, Option<&Frame>)> {
        self.reader.as_ref()?;
        let shard = self.index.shards.get(number)?;
        Some((shard, shard.frame.and_then(|frame| self.index.frames.get(frame as usize))))
    }

    /// The samples of a shard.
    pub(super) fn samples(&self, shard: usize) -> Option<(&DatasetReader, Range<usize>)> {
        Some((self.reader.as_ref()?, self.addresses.samples(shard)))
    }
}

/// The keys of indexes. Shards mostly come in their order, so that each key is passed once.
#[derive(Default)]
pub(super) struct OldKeys<'a>(Option<(usize, usize, Keys<'a>)>);

impl<'a> OldKeys<'a> {
    /// Those from a sample on, of this index.
    pub(super) fn from(&mut self, old: usize, reader: &'a DatasetReader, first: usize) -> Keys<'a> {
        match self.0.take() {
            Some((known, at, mut keys)) if known == old && at <= first => {
                if first > at {
                    // What is wrong with one of them is reported where it is needed.
                    drop(keys.nth(first - at - 1));
                }
                keys
            }
            _ => {
                let mut keys = reader.keys();
                if first > 0 {
                    drop(keys.nth(first - 1));
                }
                keys
            }
        }
    }

    /// Keeps keys that are read up to a sample.
    pub(super) fn keep(&mut self, old: usize, at: usize, keys: Keys<'a>) {
        self.0 = Some((old, at, keys));
    }
}
