//! [`ArrayRows`]: rows of arrays as samples.

use std::borrow::Cow;
use std::fmt;

use super::row_cache::{Blocks, USUAL};
use crate::array::{Rows, row_count};
use crate::error::{Error, ErrorKind, Result};
use crate::format::msgpack::sample::KEY;
use crate::format::msgpack::{Value, encode};
use crate::reader::{Reader, out_of_range, pack};

/// Digits of a key. Larger numbers get more.
const DIGITS: usize = 12;

/// Rows of arrays as samples, `{"key": "000000000012", FIELD: row, …}`, so that a loader reads
/// arrays as it reads datasets.
///
/// All arrays have the same number of rows, which are the entries of their first axis. A row is
/// packed as msgpack-numpy does: as an array, or as a NumPy scalar if the array has one axis. Keys
/// are row numbers in twelve digits, so they sort like the rows; looking one up reads nothing.
///
/// **Costs.** Rows are decoded in blocks of rows that are stored together (in a chunked array, the
/// chunks of one step along the first axis), at least 64 KiB. A limited number of blocks is
/// [cached](Self::cache) and shared by all threads. In order, every block is decoded once. In a
/// full shuffle of arrays larger than the cache, nearly every row costs a block. With a
/// [`BlockShuffle`](crate::sampler::BlockShuffle) whose blocks are a multiple of these rows, every
/// block is decoded once per epoch if two windows fit in the cache.
///
/// ```
/// use kiste::reader::{ArrayRows, Reader, ReaderExt};
/// use kiste::value::NdArray;
/// use ndarray::{Array2, arr1};
///
/// let images = Array2::from_shape_fn((3, 4), |(i, j)| (10 * i + j) as f32);
/// let rows = ArrayRows::new()
///     .field("image", NdArray::from_ndarray(&images).into_owned())?
///     .field("label", NdArray::from_ndarray(&arr1(&[7_i64, 8, 9])).into_owned())?;
/// assert_eq!((rows.len(), rows.find("000000000002")?), (3, Some(2)));
///
/// #[derive(serde::Deserialize)]
/// struct Sample {
///     #[serde(with = "kiste::serde_ndarray")]
///     image: ndarray::Array1<f32>,
/// }
/// assert_eq!(rows.get_as::<Sample>(2)?.image, arr1(&[20.0, 21.0, 22.0, 23.0]));
/// # Ok::<(), kiste::Error>(())
/// ```
#[must_use]
pub struct ArrayRows {
    fields: Vec<(String, Box<dyn Rows>)>,
    len: usize,
    blocks: Blocks,
}

impl Default for ArrayRows {
    fn default() -> ArrayRows {
        ArrayRows::new()
    }
}

impl ArrayRows {
    /// A reader without fields, which has no samples.
    pub fn new() -> ArrayRows {
        ArrayRows { fields: Vec::new(), len: 0, blocks: Blocks::new(USUAL) }
    }

    /// Adds a field: the rows of an array.
    ///
    /// # Errors
    ///
    /// [`Invalid`](ErrorKind::Invalid) if the array has no axes, or a different number of rows than
    /// earlier ones, or if there is such a field already. `key` is always taken.
    pub fn field(mut self, name: &str, array: impl Rows + 'static) -> Result<ArrayRows> {
        let invalid = |message: String| Err(Error::new(ErrorKind::Invalid, message));
        if name == KEY || self.fields.iter().any(|(known, _)| known == name) {
            return invalid(format!("there is a field {name:?} already"));
        }
        let count = row_count(array.shape())?;
        if !self.fields.is_empty() && count != self.len {
            let len = self.len;
            return invalid(format!("field {name:?}: expected {len} rows, found {count}"));
        }
        self.len = count;
        self.fields.push((name.to_owned(), Box::new(array)));
        Ok(self)
    }

    /// How many bytes of decoded blocks to cache. Default: 256 MiB. At least one block is cached.
    pub fn cache(mut self, bytes: usize) -> ArrayRows {
        self.blocks = Blocks::new(bytes);
        self
    }

    /// The names of the fields, in their order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.fields.iter().map(|(name, _)| &**name)
    }

    /// Appends a row of the array of this field.
    fn pack_row(&self, number: usize, index: usize, out: &mut Vec<u8>) -> Result<()> {
        let (name, array) = &self.fields[number];
        let row = self.blocks.row(number, &**array, index);
        row.and_then(|row| row.pack(out)).map_err(|error| {
            let message = format!("field {name:?}: {error}");
            let error = Error::new(error.kind(), message).with_source(error);
            error.with_index(index as u64)
        })
    }

    fn check(&self, index: usize) -> Result<()> {
        if index < self.len { Ok(()) } else { Err(out_of_range(index, self.len)) }
    }
}

impl Reader for ArrayRows {
    fn len(&self) -> usize {
        self.len
    }

    fn key(&self, index: usize) -> Result<Cow<'_, str>> {
        self.check(index)?;
        Ok(Cow::Owned(key_of(index)))
    }

    fn find(&self, key: &str) -> Result<Option<usize>> {
        let index = key.parse().ok().filter(|index| *index < self.len);
        // Only the one spelling that is the key.
        Ok(index.filter(|index| key_of(*index) == key))
    }

    fn may_repeat_keys(&self) -> bool {
        false
    }

    fn get_raw(&self, index: usize) -> Result<Cow<'_, [u8]>> {
        self.check(index)?;
        let mut out = Vec::new();
        pack::map_len(self.fields.len() + 1, &mut out)?;
        encode(&Value::from(KEY), &mut out)?;
        encode(&Value::from(key_of(index)), &mut out)?;
        for (number, (name, _)) in self.fields.iter().enumerate() {
            encode(&Value::from(&**name), &mut out)?;
            self.pack_row(number, index, &mut out)?;
        }
        Ok(Cow::Owned(out))
    }

    /// Only the row of this array is read.
    fn field_raw(&self, index: usize, name: &str) -> Result<Option<Cow<'_, [u8]>>> {
        self.check(index)?;
        let mut out = Vec::new();
        if name == KEY {
            encode(&Value::from(key_of(index)), &mut out)?;
            return Ok(Some(Cow::Owned(out)));
        }
        let Some(number) = self.fields.iter().position(|(known, _)| known == name) else {
            return Ok(None);
        };
        self.pack_row(number, index, &mut out)?;
        Ok(Some(Cow::Owned(out)))
    }
}

impl fmt::Debug for ArrayRows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.names().collect();
        write!(f, "ArrayRows({names:?}, {} rows)", self.len)
    }
}

fn key_of(index: usize) -> String {
    format!("{index:0DIGITS$}")
}
