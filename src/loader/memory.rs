//! Memory of columns: the loader's own, or the caller's.

use std::sync::{Arc, Mutex, PoisonError};

use super::columns::{Buffers, Columns};
use crate::error::{Error, ErrorKind, Result};
use crate::value::{DTypeKind, Element};

/// Memory of a caller for one column of a batch, such as memory that is pinned for a GPU.
///
/// Both methods return all of it, at the same place each time.
pub trait Memory: AsRef<[u8]> + AsMut<[u8]> + Send + Sync + 'static {}

impl<M: AsRef<[u8]> + AsMut<[u8]> + Send + Sync + 'static> Memory for M {}

/// Sets of memory that batches of columns are written to, in turn: for
/// [`columns_in`](super::LoaderOptions::columns_in).
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
    pub(super) columns: Arc<Columns>,
    pub(super) spare: Arc<Spare>,
    pub(super) rows: usize,
    pub(super) sets: usize,
}

/// With fewer sets none could be written while the caller takes one batch after the other.
const FEWEST_SETS: usize = 3;

impl ColumnMemory {
    /// Sets of memory for batches of up to this many samples.
    ///
    /// # Errors
    ///
    /// [`Invalid`](ErrorKind::Invalid) for fewer than three sets, for a set that does not have memory
    /// for exactly the columns of numbers, and for memory of another size than the column needs, or
    /// at an address where its elements cannot be. Columns of bytes grow as they need, so the caller
    /// cannot give memory for them.
    pub fn new(
        columns: Columns,
        rows: usize,
        sets: Vec<Vec<(String, Box<dyn Memory>)>>,
    ) -> Result<ColumnMemory> {
        columns.check()?;
        let given = sets.len();
        if given < FEWEST_SETS {
            let message = format!("expected at least {FEWEST_SETS} sets of memory, found {given}");
            return Err(Error::new(ErrorKind::Invalid, message));
        }
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
pub(super) struct Spare {
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

/// Elements in memory of the loader or of the caller.
pub(super) enum Values<T> {
    Own(Vec<T>),
    Given {
        memory: Box<dyn Memory>,
        /// Elements that are in use.
        len: usize,
    },
}

impl<T: Element> Values<T> {
    /// Memory of a caller for this many elements.
    pub(super) fn given(memory: Box<dyn Memory>, elements: usize) -> Result<Values<T>, String> {
        let bytes = (*memory).as_ref();
        let expected = elements.saturating_mul(size_of::<T>());
        if bytes.len() != expected {
            return Err(format!("expected {expected} bytes of memory, found {}", bytes.len()));
        }
        if bytes.as_ptr().align_offset(align_of::<T>()) != 0 {
            let align = align_of::<T>();
            return Err(format!("expected memory at a multiple of {align}, found {:p}", bytes));
        }
        Ok(Values::Given { memory, len: 0 })
    }

    pub(super) fn len(&self) -> usize {
        match self {
            Values::Own(values) => values.len(),
            Values::Given { len, .. } => *len,
        }
    }

    /// Truncates, or adds zeros.
    pub(super) fn resize(&mut self, to: usize) {
        match self {
            Values::Own(values) => values.resize(to, T::default()),
            Values::Given { memory, len } => {
                if *len < to {
                    (**memory).as_mut()[*len * size_of::<T>()..to * size_of::<T>()].fill(0);
                }
                *len = to;
            }
        }
    }

    /// These elements, up to which there may be new ones: zeros, if `is_read` says that they will not
    /// all be written.
    pub(super) fn range(&mut self, start: usize, end: usize, is_read: bool) -> &mut [T] {
        match self {
            Values::Own(values) => {
                if values.len() < end {
                    values.resize(end, T::default());
                }
                &mut values[start..end]
            }
            Values::Given { memory, len } => {
                let bytes = &mut (**memory).as_mut()[start * size_of::<T>()..end * size_of::<T>()];
                let is_new = *len < end;
                *len = end.max(*len);
                // The caller may have left bytes there that are no booleans.
                if (is_new && is_read) || T::KIND == DTypeKind::Bool {
                    bytes.fill(0);
                }
                // Cannot fail: address and size were checked, and any bytes are numbers.
                bytemuck::checked::try_cast_slice_mut(bytes).unwrap_or_default()
            }
        }
    }

    pub(super) fn get(&self) -> Result<&[T]> {
        match self {
            Values::Own(values) => Ok(values),
            Values::Given { memory, len } => {
                let bytes = &(**memory).as_ref()[..len * size_of::<T>()];
                bytemuck::checked::try_cast_slice(bytes).map_err(|_| overwritten::<T>())
            }
        }
    }

    pub(super) fn get_mut(&mut self) -> Result<&mut [T]> {
        match self {
            Values::Own(values) => Ok(values),
            Values::Given { memory, len } => {
                let bytes = &mut (**memory).as_mut()[..*len * size_of::<T>()];
                bytemuck::checked::try_cast_slice_mut(bytes).map_err(|_| overwritten::<T>())
            }
        }
    }
}

/// The caller wrote other bytes to memory that a batch is in.
fn overwritten<T: Element>() -> Error {
    Error::new(
        ErrorKind::Invalid,
        format!("expected values of type {}, found other bytes", T::NAME),
    )
}
