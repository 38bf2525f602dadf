//! [`Lengths`]: how long samples are, for batches that are planned by length.

use std::sync::Arc;

use crate::error::{Error, ErrorKind, Result};

/// The lengths of the samples of a dataset, by index: tokens, milliseconds, pixels of a side, bytes.
///
/// They are numbers that are known without the samples, such as those of a side file that is mapped. A vector of numbers is
/// one, too.
///
/// ```
/// use kiste::sampler::Lengths;
///
/// let mut found = Vec::new();
/// vec![5, 9, 2].gather(&[2, 0], &mut found)?;
/// assert_eq!(found, [2, 5]);
/// # Ok::<(), kiste::Error>(())
/// ```
pub trait Lengths: Send + Sync {
    /// How many samples there are.
    fn len(&self) -> u64;

    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Appends the lengths of the samples with these indices, in their order.
    ///
    /// # Errors
    ///
    /// [`Invalid`](ErrorKind::Invalid) for an index that is not below [`len`](Self::len), and the errors of reading.
    fn gather(&self, indices: &[u64], out: &mut Vec<u32>) -> Result<()>;

    /// A number that tells these lengths from others: runs that are resumed compare it.
    fn identity(&self) -> u64;
}

impl Lengths for Vec<u32> {
    fn len(&self) -> u64 {
        self.as_slice().len() as u64
    }

    fn gather(&self, indices: &[u64], out: &mut Vec<u32>) -> Result<()> {
        out.reserve(indices.len());
        for &index in indices {
            let length = usize::try_from(index).ok().and_then(|index| self.get(index));
            out.push(*length.ok_or_else(|| no_length(index, self.as_slice().len() as u64))?);
        }
        Ok(())
    }

    fn identity(&self) -> u64 {
        let mut bytes = Vec::new();
        self.chunks(1 << 12).fold(0, |seed, lengths| {
            bytes.clear();
            lengths.iter().for_each(|length| bytes.extend(length.to_le_bytes()));
            twox_hash::XxHash3_64::oneshot_with_seed(seed, &bytes)
        })
    }
}

impl<L: Lengths + ?Sized> Lengths for Arc<L> {
    fn len(&self) -> u64 {
        (**self).len()
    }

    fn gather(&self, indices: &[u64], out: &mut Vec<u32>) -> Result<()> {
        (**self).gather(indices, out)
    }

    fn identity(&self) -> u64 {
        (**self).identity()
    }
}

/// The error for an index without a length.
#[cold]
pub(crate) fn no_length(index: u64, len: u64) -> Error {
    let message = format!("there is no length of sample {index} among {len}");
    Error::new(ErrorKind::Invalid, message)
}
