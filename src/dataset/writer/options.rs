//! How to write a dataset.

use std::path::{Path, PathBuf};
use std::sync::Arc;

#[cfg(feature = "arrays")]
use crate::array::ArrayPolicy;
use crate::error::Result;
use crate::storage::{self, LocalStorage, Storage};

use super::super::index::{self, HashMany, KnownMeasure, Measure};

/// How to write: what to make, and whether an existing dataset may be replaced.
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("train.msgpack");
/// let mut writer = kiste::Writer::options().overwrite(true).digests(false).create(&path)?;
/// writer.write_raw("a", b"\x81\xa3key\xa1a")?;
/// assert_eq!(writer.finish()?.samples, 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
#[must_use]
pub struct WriterOptions {
    pub(super) overwrite: bool,
    /// Whether an index takes the place of the data.
    pub(super) in_place: bool,
    pub(super) digests: bool,
    /// `None`: by the number of samples ([`index::wants_lookup`]).
    pub(super) lookup: Option<bool>,
    pub(super) checksums: bool,
    pub(super) lengths: Vec<Arc<dyn Measure>>,
    pub(super) known_lengths: Option<KnownMeasure>,
    pub(super) durable: bool,
    #[cfg(feature = "arrays")]
    pub(super) arrays: Option<Arc<ArrayPolicy>>,
    pub(super) storage: Arc<dyn Storage>,
    /// Whether the name says where to write.
    by_name: bool,
    pub(super) hash_many: HashMany,
    /// If another process left the write: whether all of its samples were there.
    pub(super) was_complete: Option<bool>,
    /// The write in an object store.
    pub(super) write: Option<WriteNumber>,
}

/// A write in an object store.
#[derive(Debug, Clone)]
pub(super) struct WriteNumber {
    pub(super) number: u64,
    /// The writes that it continues.
    pub(super) continues: Vec<u64>,
    /// Whether a complete dataset of one of these stays.
    pub(super) keeps_complete: bool,
}

impl WriteNumber {
    pub(super) fn new(number: u64) -> WriteNumber {
        WriteNumber { number, continues: Vec::new(), keeps_complete: false }
    }
}

impl Default for WriterOptions {
    fn default() -> Self {
        WriterOptions {
            overwrite: false,
            in_place: false,
            digests: true,
            lookup: None,
            checksums: false,
            lengths: Vec::new(),
            known_lengths: None,
            durable: true,
            #[cfg(feature = "arrays")]
            arrays: None,
            storage: Arc::new(LocalStorage::mapped()),
            by_name: true,
            hash_many: index::hash_keys,
            was_complete: None,
            write: None,
        }
    }
}

impl WriterOptions {
    /// Replaces an existing dataset when the new one is finished, and discards the remains of a
    /// writer that was killed. Default: no, both are errors.
    pub fn overwrite(mut self, yes: bool) -> Self {
        self.overwrite = yes;
        self
    }

    /// Writes `.md5`. One MD5 stream makes some 600 MB/s, which bounds the writing of large
    /// samples; without it the digests can be added later ([`index`](crate::index)). Default: yes.
    pub fn digests(mut self, yes: bool) -> Self {
        self.digests = yes;
        self
    }

    /// Writes the accelerator `.lookup`, with which a key is found without a pass over the hashes of all keys,
    /// and without the table that readers otherwise build in memory. It takes seven bytes a sample, and Python
    /// ignores it. `None` leaves it to the number of samples, which is the default: datasets have it from 1,024
    /// samples on, and those that are appended to keep it.
    pub fn lookup(mut self, yes: impl Into<Option<bool>>) -> Self {
        self.lookup = yes.into();
        self
    }

    /// Whether a dataset with this many samples gets `.lookup`.
    pub(super) fn wants_lookup(&self, samples: u64) -> bool {
        index::wants_lookup(self.lookup, samples)
    }

    /// Writes `.crc`, a checksum of each sample: where `.md5` says that some byte is wrong, it says
    /// in which samples, and proves the others whole ([`verify`](crate::verify::verify),
    /// [`salvage`](crate::repair::Repair::salvage), [`ReaderOptions::checksums`]). It takes four
    /// bytes a sample, and next to no time. Default: no.
    ///
    /// [`ReaderOptions::checksums`]: crate::dataset::ReaderOptions::checksums
    pub fn checksums(mut self, yes: bool) -> Self {
        self.checksums = yes;
        self
    }

    /// Writes `.lengths` with these columns, as [`IndexOptions::lengths`](crate::index::IndexOptions::lengths) does:
    /// each sample is measured when it is written, and one that has no such number is refused. Default: none.
    ///
    /// ```
    /// # #[cfg(feature = "arrays")] {
    /// use std::collections::BTreeMap;
    /// use kiste::rearrange::LengthOf;
    ///
    /// # let dir = tempfile::tempdir()?;
    /// # let path = dir.path().join("words.msgpack");
    /// let options = kiste::Writer::options().lengths([LengthOf::parse("len(text)")?]);
    /// let mut writer = options.create(&path)?;
    /// writer.write(&BTreeMap::from([("key", "a"), ("text", "crate")]))?;
    /// let error = writer.write(&BTreeMap::from([("key", "b")])).unwrap_err();
    /// assert_eq!((error.key(), error.field()), (Some("b"), Some("text")));
    /// writer.finish()?;
    /// assert!(kiste::DatasetReader::open(&path)?.lengths("len(text)")?.is_some());
    /// # }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn lengths<M: Measure + 'static>(mut self, columns: impl IntoIterator<Item = M>) -> Self {
        let columns = columns.into_iter().map(|column| Arc::new(column) as Arc<dyn Measure>);
        self.lengths.extend(columns);
        self
    }

    /// How columns of `.lengths` are made that are known by their names, such as
    /// [`LengthOf::measure`](crate::rearrange::LengthOf::measure): an [`append`](Self::append) keeps the columns that
    /// the dataset has, and [`resume`](Self::resume) makes the columns of the write that was cut short. Default: none is known.
    pub fn known_lengths(mut self, known: KnownMeasure) -> Self {
        self.known_lengths = Some(known);
        self
    }

    /// Adds these columns, unless they are asked for; the names of those that are not known are returned.
    pub(super) fn add_lengths(&mut self, names: &[String]) -> Vec<String> {
        let (lengths, unknown) = index::with_known(&self.lengths, self.known_lengths, names);
        self.lengths = lengths;
        unknown
    }

    /// The names of the columns of `.lengths`.
    pub(super) fn names_of_lengths(&self) -> Vec<String> {
        self.lengths.iter().map(|column| column.name()).collect()
    }

    /// Syncs files and directories, so that a finished dataset survives a power failure, not only
    /// the death of the process. Default: yes.
    pub fn durable(mut self, yes: bool) -> Self {
        self.durable = yes;
        self
    }

    /// How arrays are stored that are written by value, with [`write`](super::Writer::write) or
    /// [`write_value`](super::Writer::write_value). Arrays that are packed already are passed
    /// through: use [`ArrayPolicy::recode`] for them. Default: as they serialise, which is plain
    /// for all but a [`PackedArray`](crate::array::PackedArray).
    #[cfg(feature = "arrays")]
    pub fn arrays(mut self, policy: ArrayPolicy) -> Self {
        self.arrays = Some(Arc::new(policy));
        self
    }

    /// Where these options write a dataset of a name that is no URL.
    pub(crate) fn storage_of(&self) -> &Arc<dyn Storage> {
        &self.storage
    }

    /// Where to write. Default: where the name leads ([`storage::of`]), which is the local file
    /// system unless it is a URL.
    pub fn storage(mut self, storage: Arc<dyn Storage>) -> Self {
        self.storage = storage;
        self.by_name = false;
        self
    }

    /// The same with the storage that a name leads to, and the name in it.
    pub(crate) fn resolved(self, path: &Path) -> Result<(Self, PathBuf)> {
        if !self.by_name {
            return Ok((self, path.to_path_buf()));
        }
        let (storage, path) = storage::of(path)?;
        Ok((self.storage(storage), path))
    }

    /// Whether it may replace an existing dataset.
    pub(crate) fn overwrites(&self) -> bool {
        self.overwrite
    }

    /// For a repair, which writes no sample: whether all of them were there. If not, what is left of it
    /// stays known as the beginning of a write.
    pub(crate) fn finishing(mut self, was_complete: bool) -> Self {
        self.was_complete = Some(was_complete);
        self
    }

    /// The number of this write, where it goes to an object store, and the numbers of writes that it
    /// continues: it takes their place, and removes what they have left.
    #[cfg(feature = "convert")]
    pub(crate) fn write_number(mut self, write: u64, continues: Vec<u64>) -> Self {
        self.write = Some(WriteNumber { continues, ..WriteNumber::new(write) });
        self
    }

    /// The same, but a complete dataset of one of these writes stays, and is
    /// [`AlreadyExists`](ErrorKind::AlreadyExists): the process that wrote it may have removed its source by now.
    #[cfg(feature = "convert")]
    pub(crate) fn write_unless_complete(self, write: u64, continues: Vec<u64>) -> Self {
        let write = WriteNumber { continues, keeps_complete: true, ..WriteNumber::new(write) };
        WriterOptions { write: Some(write), ..self }
    }

    #[cfg(test)]
    pub(crate) fn hash_many(mut self, hash_many: HashMany) -> Self {
        self.hash_many = hash_many;
        self
    }
}
