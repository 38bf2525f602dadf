#![doc = include_str!("../README.md")]

use std::marker::PhantomData;

use burn_dataset::{Dataset, DatasetError};
use burn_std::TensorData;
use half::{bf16, f16};
use kiste::loader::{ColumnBatch, Element};
use kiste::reader::{Reader, ReaderExt};
use kiste::{Error, ErrorKind, Result};
use serde::de::DeserializeOwned;

/// The samples of a reader as items of type `T`, for Burn.
///
/// # Errors
///
/// [`get`](Dataset::get) and [`get_many`](Dataset::get_many) return them: a [`DatasetError`] that
/// prints as the [`Error`] of kiste does, with file, index and byte range, and has it as its
/// [`source`](std::error::Error::source). No sample is passed over and nothing is
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

/// A column of numbers for a tensor of Burn, on any device: of images `[n, channels, height, width]` after
/// `to(…, chw)`, of numbers `[n]`. It has the type of the column, bfloat16 for `to(bf16)`. This is
/// the only copy on the way into a tensor in the memory of the processor.
///
/// # Errors
///
/// [`Invalid`](ErrorKind::Invalid) if there is no such column, or it holds bytes or complex numbers.
pub fn tensor_data(batch: &ColumnBatch, name: &str) -> Result<TensorData> {
    if batch.has_bfloat16(name) {
        let shape = batch.array::<u16>(name)?.shape().to_vec();
        let values = batch.values::<u16>(name)?.iter().map(|&bits| bf16::from_bits(bits));
        return Ok(TensorData::new(values.collect(), shape));
    }
    let any = [
        of::<f32>, of::<u8>, of::<i64>, of::<f16>, of::<f64>, of::<i32>, of::<bool>, of::<u16>,
        of::<i16>, of::<i8>, of::<u32>, of::<u64>,
    ];
    any.iter().find_map(|of| of(batch, name)).ok_or_else(|| {
        let message = format!("there is no column {name:?} of numbers that tensors have");
        Error::new(ErrorKind::Invalid, message)
    })
}

fn of<T: Element + burn_std::Element>(batch: &ColumnBatch, name: &str) -> Option<TensorData> {
    let array = batch.array::<T>(name).ok()?;
    let shape = array.shape().to_vec();
    Some(TensorData::new(batch.values::<T>(name).ok()?.to_vec(), shape))
}
