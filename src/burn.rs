//! Datasets for [Burn](https://burn.dev): any [`Reader`] as a [`burn_dataset::Dataset`].
//!
//! ```
//! use burn_dataset::Dataset;
//! use kiste::burn::BurnDataset;
//! use kiste::reader::ListReader;
//! use serde::{Deserialize, Serialize};
//!
//! #[derive(Serialize, Deserialize)]
//! struct Item {
//!     key: String,
//!     digit: u8,
//! }
//!
//! let item = |digit: u8| Item { key: format!("{digit}.png"), digit };
//! let reader = ListReader::pack([3, 1, 4].map(item))?; // or a DatasetReader, shards, a range, …
//! let dataset: BurnDataset<_, Item> = BurnDataset::new(reader);
//! assert_eq!(dataset.len(), 3);
//! assert_eq!(dataset.get(2)?.digit, 4);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Burn's own `DataLoader` then makes batches of it, and its transforms (shuffle, map, partial, …)
//! apply. Where a run is to be resumed in the middle of an epoch, or an order to be the same on
//! every machine, the [`loader`](crate::loader) of this crate is the one to use.

use std::marker::PhantomData;

use burn_dataset::{Dataset, DatasetError};
use serde::de::DeserializeOwned;

use crate::error::Result;
use crate::reader::{Reader, ReaderExt};

/// The samples of a reader as items of type `T`, for Burn.
///
/// # Errors
///
/// [`get`](Dataset::get) and [`get_many`](Dataset::get_many) return them: a [`DatasetError`] that
/// prints as the [`Error`](crate::Error) of this crate does, with file, index and byte range, and
/// has it as its [`source`](std::error::Error::source). No sample is passed over and nothing is
/// logged; a batch with one bad sample is an error.
///
/// # Panics
///
/// Both panic for an index that is not below [`len`](Dataset::len), as Burn asks for.
pub struct BurnDataset<R, T> {
    reader: R,
    prefetch: bool,
    item: PhantomData<fn() -> T>,
}

impl<R: Reader, T> BurnDataset<R, T> {
    /// All samples of this reader.
    pub fn new(reader: R) -> BurnDataset<R, T> {
        BurnDataset { reader, prefetch: false, item: PhantomData }
    }

    /// Whether [`get_many`](Dataset::get_many) first tells the storage which samples it is about
    /// to read ([`Reader::prefetch`]): worth it where a read takes long, a loss where the data is
    /// in memory. Default: no.
    pub fn prefetch(mut self, yes: bool) -> Self {
        self.prefetch = yes;
        self
    }

    /// The reader.
    pub fn inner(&self) -> &R {
        &self.reader
    }
}

impl<R: Reader, T: DeserializeOwned> Dataset<T> for BurnDataset<R, T> {
    fn get(&self, index: usize) -> Result<T, DatasetError> {
        let len = self.reader.len();
        assert!(index < len, "index {index} of a dataset of {len}");
        self.reader.get_as(index).map_err(DatasetError::new)
    }

    fn get_many(&self, indexes: Vec<usize>) -> Result<Vec<T>, DatasetError> {
        if self.prefetch {
            self.reader.prefetch(&indexes);
        }
        indexes.into_iter().map(|index| self.get(index)).collect()
    }

    fn len(&self) -> usize {
        self.reader.len()
    }
}

impl<R: Clone, T> Clone for BurnDataset<R, T> {
    fn clone(&self) -> Self {
        let BurnDataset { ref reader, prefetch, item } = *self;
        BurnDataset { reader: reader.clone(), prefetch, item }
    }
}

impl<R: Reader, T> std::fmt::Debug for BurnDataset<R, T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "BurnDataset({} samples)", self.reader.len())
    }
}
