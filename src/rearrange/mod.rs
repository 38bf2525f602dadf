//! Rearranging: the samples of datasets in another order, or some of them, in new datasets.
//!
//! The order is decided first, as plain numbers; then the packed bytes of the samples are
//! passed through, never decoded and packed again. So a sample is the same, byte for byte, however
//! often it was shuffled, merged and split.
//!
//! | function | what it decides or moves |
//! | --- | --- |
//! | [`NewDataset`] | writes a dataset of the samples of others, or leaves nothing |
//! | [`copy`] | moves the samples of some indices, in their order |
//! | [`external_shuffle`] | moves all of a dataset in any order, in little memory |
//! | [`cut_at`], [`by_class`] | which samples go to which part: at positions, by a field |
//! | [`parts`], [`whole_groups`] | which samples go to which part: by ratio, stratified, groups kept whole |
//! | [`PartsBy`] | the same, with the names of the parts |
//! | [`ByKey`] | the same by nothing but the key of each |
//! | [`SampleRange`], [`sorted`] | some samples by index, all in the order of a field |
//! | [`draw`] | some samples at random, or the first |
//! | [`Merge`] | moves several datasets into one; [`interleave`] is its order |
//! | [`MergedLabels`] | one numbering for the labels of several datasets |
//! | [`diff`] | how two datasets differ, by key |
//! | [`duplicates`] | which samples are equal, by key, by a field or by all they have |
//! | [`Expression`] | which samples meet a condition on their fields |
//! | [`FieldPath`] | which value of a sample is meant: `meta.author` |
//! | [`Scalar`], [`scalars`] | fields that samples can be sorted, grouped and compared by |

use std::borrow::Cow;

use crate::dataset::{DatasetReader, Writer};
use crate::error::{Error, ErrorKind, Result};
use crate::reader::{Reader, ReaderExt};

mod by_key;
mod diff;
mod draw;
mod duplicates;
mod expression;
mod spill;
mod direct;
mod in_order;
mod external;
mod interleave;
mod labels;
mod merge;
mod new_dataset;
mod parts;
mod scalar;
mod select;
mod split;

pub use by_key::ByKey;
pub use diff::{Changed, DiffCounts, Difference, Side, diff};
pub use draw::{Amount, draw};
pub use duplicates::{DuplicatesBy, duplicates};
pub use expression::{Chosen, Expression, ExpressionError, FieldPath, LengthOf, Mismatch};
pub use external::external_shuffle;
pub use interleave::interleave;
pub use labels::MergedLabels;
pub use merge::{Merge, MergeLabels, MergeOrder, MergePlan};
#[cfg(feature = "convert")]
pub(crate) use new_dataset::check_free;
pub use new_dataset::{MadeDataset, NewDataset};
pub use parts::{by_class, cut_at, parts, whole_groups};
pub use scalar::{Scalar, ScalarKind, scalars};
pub use select::SampleRange;
#[doc(hidden)]
pub use select::{check_distinct, sorted};
pub use split::{DatasetPart, PartsBy};
#[doc(hidden)]
pub use split::{check_part_paths, part_path};

/// Samples that a reader may prefetch.
const STRIDE: usize = 1024;
/// Samples between two calls of a progress closure.
const FEW: usize = 64;

/// Writes the samples of these indices, in this order, as the bytes they are. `progress` hears
/// how many were written so far; an error of it ends the copy, and is returned.
///
/// ```
/// use kiste::reader::{ListReader, Reader};
/// use kiste::{DatasetReader, Writer, rearrange};
///
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("chosen.msgpack");
/// let letters = ["a", "b", "c"].map(|key| std::collections::BTreeMap::from([("key", key)]));
/// let letters = ListReader::pack(letters)?;
/// let mut writer = Writer::create(&path)?;
/// rearrange::copy(&letters, [2, 0], &mut writer, |_| Ok(()))?;
/// writer.finish()?;
/// assert_eq!(DatasetReader::open(&path)?.key(0)?, "c");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// The errors of the reader, of [`Writer::write_raw`] and of `progress`. A sample that is not what its reader says is
/// [`Damaged`](ErrorKind::Damaged): it is not passed on.
pub fn copy(
    reader: &dyn Reader,
    indices: impl IntoIterator<Item = usize>,
    writer: &mut Writer,
    mut progress: impl FnMut(u64) -> Result<()>,
) -> Result<()> {
    let mut indices = indices.into_iter();
    let mut written = 0;
    loop {
        let batch: Vec<usize> = indices.by_ref().take(STRIDE).collect();
        if batch.is_empty() {
            return Ok(());
        }
        if !batch.windows(2).all(|pair| pair[1] == pair[0] + 1) {
            // Reading from front to back is read ahead without this.
            reader.prefetch(&batch);
        }
        for few in batch.chunks(FEW) {
            for &index in few {
                copy_one(reader, index, writer)?;
            }
            written += few.len() as u64;
            progress(written)?;
        }
    }
}

/// Writes one sample as the bytes it is.
///
/// # Errors
///
/// As for [`copy`].
pub fn copy_one(reader: &dyn Reader, index: usize, writer: &mut Writer) -> Result<()> {
    let key = reader.key(index)?;
    let packed = reader.get_raw(index)?;
    put(reader, index, &key, &packed, writer)
}

/// The keys of all samples, in order. A dataset reads them together.
fn keys<'a>(reader: &'a dyn Reader) -> Box<dyn Iterator<Item = Result<Cow<'a, str>>> + 'a> {
    match DatasetReader::of(reader) {
        Some(dataset) => Box::new(dataset.keys()),
        None => Box::new(reader.keys()),
    }
}

/// Writes a sample of a reader, whose key and bytes these are.
fn put(
    reader: &dyn Reader,
    index: usize,
    key: &str,
    packed: &[u8],
    writer: &mut Writer,
) -> Result<()> {
    writer.write_raw(key, packed).map_err(|error| damaged(reader, index, error))
}

/// An error about the content of a sample, with the file and the index.
fn at_sample(reader: &dyn Reader, index: usize, error: Error) -> Error {
    let place = reader.locate(index);
    place.path.into_iter().fold(error.with_index(place.index), Error::at)
}

/// What went wrong when this sample was written: if it was no sample, the reader's file is to
/// blame, not the caller.
fn damaged(reader: &dyn Reader, index: usize, error: Error) -> Error {
    if error.kind() != ErrorKind::Invalid {
        return error;
    }
    let mut damaged = Error::new(ErrorKind::Damaged, error.message());
    if let Ok(key) = reader.key(index) {
        damaged = damaged.with_key(&*key);
    }
    reader.locate(index).describe(damaged)
}
