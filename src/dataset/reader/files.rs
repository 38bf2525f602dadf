//! What a dataset of one data file and one of many have in common.

use std::borrow::Cow;
use std::ops::Deref;
use std::path::Path;
use std::sync::Arc;

use crate::error::Result;
use crate::storage::Storage;

use super::one::OneFile;

/// The files of a dataset: one data file, or many that are read as one.
pub(super) trait Files: Send + Sync {
    fn path(&self) -> &Path;
    fn storage(&self) -> &Arc<dyn Storage>;
    fn len(&self) -> usize;
    fn data_len(&self) -> u64;
    /// Whether offsets come from a walk over the data.
    fn is_walked(&self) -> bool;
    fn is_remote(&self) -> bool;
    /// How many data files.
    fn count(&self) -> usize;
    /// One of the data files, open.
    fn file(&self, number: usize) -> Result<Opened<'_>>;
    /// An error if the dataset was replaced since it was opened.
    fn check_current(&self) -> Result<()>;
    /// See [`Reader::prefetch`](crate::reader::Reader::prefetch).
    fn prefetch(&self, indices: &[usize]);
    /// Fetches the offsets of these samples, where they are remote.
    #[cfg(feature = "convert")]
    fn fetch_offsets(&self, indices: &[usize]) -> Result<()>;
}

/// A data file that stays open, or that may be closed while this is in use.
pub(crate) enum Opened<'a> {
    Kept(&'a OneFile),
    Lent(Arc<OneFile>),
}

impl Deref for Opened<'_> {
    type Target = OneFile;

    #[inline]
    fn deref(&self) -> &OneFile {
        match self {
            Opened::Kept(file) => file,
            Opened::Lent(file) => file,
        }
    }
}

impl<'a> Opened<'a> {
    /// Reads what is borrowed from a file that stays open, and else copied.
    #[inline]
    pub(super) fn read<T: ?Sized + ToOwned>(
        self,
        read: impl for<'f> FnOnce(&'f OneFile) -> Result<Cow<'f, T>>,
    ) -> Result<Cow<'a, T>> {
        match self {
            Opened::Kept(file) => read(file),
            Opened::Lent(file) => Ok(Cow::Owned(read(&file)?.into_owned())),
        }
    }
}
