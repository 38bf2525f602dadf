//! Sets of buffers that batches have in turn.

use std::sync::{Arc, Mutex, PoisonError};

use super::Columns;
use super::buffer::Buffers;
use super::memory::Memory;
use crate::error::{Error, ErrorKind, Result};

/// Sets of memory that batches of columns are written to, in turn: for
/// [`columns_in`](crate::loader::LoaderOptions::columns_in).
///
/// A set has memory for each column of numbers. A batch has one, and gives it back when it is
/// dropped. A loader with this many sets makes two fewer batches ahead, so that the caller can hold
/// one batch while it asks for the next.
///
/// ```
/// use std::sync::Arc;
///
/// use kiste::loader::{ColumnMemory, Columns, Loader, Memory};
/// use kiste::reader::ListReader;
/// use kiste::sampler::Sequential;
///
/// # #[derive(serde::Serialize)]
/// # struct Sample { key: String, n: u8 }
/// let samples = [1, 2, 3].map(|n| Sample { key: n.to_string(), n });
/// let reader = Arc::new(ListReader::pack(samples)?);
/// let columns = Columns::new().scalar::<u8>("n");
/// // Three sets for batches of two samples.
/// let sets = (0..3).map(|_| vec![("n".to_owned(), Box::new([0u8; 2]) as Box<dyn Memory>)]);
/// let memory = ColumnMemory::new(columns, 2, sets.collect())?;
/// let options = Loader::options(reader, Sequential::new(3)).batch_size(2).epochs(1);
/// let mut sum = 0;
/// for batch in options.columns_in(&memory)? {
///     sum += batch?.data.values::<u8>("n")?.iter().sum::<u8>();
/// }
/// assert_eq!(sum, 6);
/// # Ok::<(), kiste::Error>(())
/// ```
#[derive(Clone)]
pub struct ColumnMemory {
    pub(in crate::loader) columns: Arc<Columns>,
    pub(in crate::loader) spare: Arc<Spare>,
    pub(in crate::loader) rows: usize,
    pub(in crate::loader) sets: usize,
}

/// With fewer sets threads could write none while the caller takes one batch after the other.
pub(in crate::loader) const FEWEST_SETS: usize = 3;

impl ColumnMemory {
    /// Sets of memory for batches of up to this many samples.
    ///
    /// # Errors
    ///
    /// [`Invalid`](ErrorKind::Invalid) for a set that does not have memory for exactly the columns of
    /// numbers, and for memory of another size than the column needs, or at an address where its
    /// elements cannot be. Columns of bytes grow as they need, so the caller cannot give memory for them.
    pub fn new(
        columns: Columns,
        rows: usize,
        sets: Vec<Vec<(String, Box<dyn Memory>)>>,
    ) -> Result<ColumnMemory> {
        columns.check()?;
        let given = sets.len();
        let buffers: Result<Vec<Buffers>> =
            sets.into_iter().map(|set| columns.buffers_in(rows, set)).collect();
        let spare = Arc::new(Spare::of(buffers?));
        Ok(ColumnMemory { columns: Arc::new(columns), spare, rows, sets: given })
    }

    /// How many sets there are.
    pub fn sets(&self) -> usize {
        self.sets
    }
}

impl std::fmt::Debug for ColumnMemory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ColumnMemory({} sets for {} samples)", self.sets, self.rows)
    }
}

/// Buffers that wait for the next batch.
pub(in crate::loader) struct Spare {
    /// Never more than can be in use at once, or a caller who gathers batches for a while would have
    /// all of them kept for ever.
    keep: usize,
    /// Whether there may be no others.
    fixed: bool,
    buffers: Mutex<Vec<Buffers>>,
}

impl Spare {
    /// None yet; up to this many are kept.
    pub(super) fn up_to(keep: usize) -> Spare {
        Spare { keep, fixed: false, buffers: Mutex::default() }
    }

    /// These and no others.
    fn of(buffers: Vec<Buffers>) -> Spare {
        Spare { keep: buffers.len(), fixed: true, buffers: Mutex::new(buffers) }
    }

    /// One that is spare; one that `make` makes, unless there may be no others.
    pub(super) fn take(&self, make: impl FnOnce() -> Buffers) -> Result<Buffers> {
        let spare = self.buffers.lock().unwrap_or_else(PoisonError::into_inner).pop();
        match spare {
            Some(buffers) => Ok(buffers),
            None if !self.fixed => Ok(make()),
            None => {
                let message = format!(
                    "expected memory for another batch, found all {} sets in batches that are not \
                     dropped",
                    self.keep
                );
                Err(Error::new(ErrorKind::Invalid, message))
            }
        }
    }

    pub(super) fn put(&self, buffers: Buffers) {
        let mut spare = self.buffers.lock().unwrap_or_else(PoisonError::into_inner);
        if spare.len() < self.keep {
            spare.push(buffers);
        }
    }
}
