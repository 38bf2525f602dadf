//! Datasets and tensors for [Burn](https://burn.dev): any [`Reader`] as a [`burn_dataset::Dataset`], and columns of
//! batches as tensors.
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
//! every machine, the [`loader`](crate::loader) of this crate is the one to use:
//! [`ColumnBatch::tensor_data`] is a column of it for a tensor.

use std::marker::PhantomData;

use burn_dataset::{Dataset, DatasetError};
use burn_std::TensorData;
use half::f16;
use serde::de::DeserializeOwned;

use crate::error::{Error, ErrorKind, Result};
use crate::loader::{ColumnBatch, Element};
use crate::reader::{Reader, ReaderExt};

/// The samples of a reader as items of type `T`, for Burn.
///
/// # Errors
///
/// [`get`](Dataset::get) and [`get_many`](Dataset::get_many) return them: a [`DatasetError`] that
/// prints as the [`Error`] of this crate does, with file, index and byte range, and
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

/// Columns as tensors of Burn.
impl ColumnBatch {
    /// A column of numbers for a tensor of Burn, on any device: of images `[n, channels, height, width]` after
    /// `to(…, chw)`, of numbers `[n]`. It has the type of the column; that of `to(bf16)` is bfloat16. This is
    /// the only copy on the way into a tensor in the memory of the processor.
    ///
    /// ```
    /// use std::sync::Arc;
    ///
    /// use burn_std::{DType, TensorData};
    /// use kiste::loader::{Columns, Loader};
    /// use kiste::reader::ListReader;
    /// use kiste::sampler::Sequential;
    ///
    /// # #[derive(serde::Serialize)]
    /// # struct Sample { key: String, point: [f32; 2], label: u8 }
    /// # let samples = (0..3u8).map(|label| Sample { key: label.to_string(), point: [0.5, label.into()], label });
    /// # let reader = Arc::new(ListReader::pack(samples)?);
    /// let columns = Columns::new().array::<f32>("point", &[2]).scalar::<i64>("label");
    /// let mut loader = Loader::options(reader, Sequential::new(3)).columns(columns)?;
    /// let batch = loader.next().unwrap()?.data;
    /// let points: TensorData = batch.tensor_data("point")?;
    /// assert_eq!((&points.shape()[..], points.dtype()), (&[3, 2][..], DType::F32));
    /// # Ok::<(), kiste::Error>(())
    /// ```
    ///
    /// With the crate `burn` and one of its backends these are tensors:
    ///
    /// ```ignore
    /// let images = Tensor::<4>::from_data(batch.tensor_data("image")?, &device);
    /// let labels = Tensor::<1, Int>::from_data(batch.tensor_data("label")?, &device);
    /// ```
    ///
    /// # Errors
    ///
    /// [`Invalid`](ErrorKind::Invalid) if there is no such column, or it holds bytes or complex numbers.
    pub fn tensor_data(&self, name: &str) -> Result<TensorData> {
        fn of<T: Element + burn_std::Element>(
            batch: &ColumnBatch,
            name: &str,
        ) -> Option<TensorData> {
            let array = batch.array::<T>(name).ok()?;
            let shape = array.shape().to_vec();
            Some(TensorData::new(batch.values::<T>(name).ok()?.to_vec(), shape))
        }
        #[cfg(feature = "images")]
        if self.has_bfloat16(name) {
            let shape = self.array::<u16>(name)?.shape().to_vec();
            let values = self.values::<u16>(name)?.iter().map(|&bits| half::bf16::from_bits(bits));
            return Ok(TensorData::new(values.collect(), shape));
        }
        let any = [
            of::<f32>, of::<u8>, of::<i64>, of::<f16>, of::<f64>, of::<i32>, of::<bool>, of::<u16>,
            of::<i16>, of::<i8>, of::<u32>, of::<u64>,
        ];
        any.iter().find_map(|of| of(self, name)).ok_or_else(|| {
            let message = format!("there is no column {name:?} of numbers that tensors have");
            Error::new(ErrorKind::Invalid, message)
        })
    }
}
