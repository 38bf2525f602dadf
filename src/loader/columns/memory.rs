//! Memory of columns: the loader's own, or the caller's.

use crate::error::{Error, ErrorKind, Result};
use crate::storage::prefer_huge_pages;
use crate::value::{DTypeKind, Element};

/// Memory of a caller for one column of a batch, such as memory that is pinned for a GPU.
///
/// Both methods return all of it, at the same place each time.
pub trait Memory: AsRef<[u8]> + AsMut<[u8]> + Send + Sync + 'static {}

impl<M: AsRef<[u8]> + AsMut<[u8]> + Send + Sync + 'static> Memory for M {}

/// Elements in memory of the loader or of the caller.
pub(super) enum Values<T> {
    Own {
        /// Elements in use, then elements that an earlier batch has left, which need not be zeroed
        /// to be overwritten.
        values: Vec<T>,
        /// Elements that are in use.
        len: usize,
    },
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

    /// Memory of the loader, none of it yet.
    pub(super) fn own() -> Values<T> {
        Values::Own { values: Vec::new(), len: 0 }
    }

    pub(super) fn len(&self) -> usize {
        match self {
            Values::Own { len, .. } | Values::Given { len, .. } => *len,
        }
    }

    /// Makes room for this many elements where none is in use: memory that grows with each row would be
    /// copied again and again, and memory whose pages were touched gets no huge ones.
    pub(super) fn reserve(&mut self, elements: usize) {
        if let Values::Own { values, len: 0 } = self {
            if values.len() < elements {
                // Memory that is too small goes first.
                *values = Vec::new();
                *values = vec![T::default(); elements];
                prefer_huge_pages(values);
            }
        }
    }

    /// Truncates, or adds zeros.
    pub(super) fn resize(&mut self, to: usize) {
        match self {
            Values::Own { values, len } => {
                grow(values, to);
                if *len < to {
                    values[*len..to].fill(T::default());
                }
                *len = to;
            }
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
            Values::Own { values, len } => {
                grow(values, end);
                if *len < end && is_read {
                    values[start..end].fill(T::default());
                }
                *len = end.max(*len);
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
            Values::Own { values, len } => Ok(&values[..*len]),
            Values::Given { memory, len } => {
                let bytes = &(**memory).as_ref()[..len * size_of::<T>()];
                bytemuck::checked::try_cast_slice(bytes).map_err(|_| overwritten::<T>())
            }
        }
    }

    pub(super) fn get_mut(&mut self) -> Result<&mut [T]> {
        match self {
            Values::Own { values, len } => Ok(&mut values[..*len]),
            Values::Given { memory, len } => {
                let bytes = &mut (**memory).as_mut()[..*len * size_of::<T>()];
                bytemuck::checked::try_cast_slice_mut(bytes).map_err(|_| overwritten::<T>())
            }
        }
    }
}

/// To at least this many elements; those that are new are zero.
fn grow<T: Element>(values: &mut Vec<T>, to: usize) {
    if values.len() < to {
        values.resize(to, T::default());
    }
}

/// The caller wrote other bytes to memory that a batch is in.
fn overwritten<T: Element>() -> Error {
    Error::new(
        ErrorKind::Invalid,
        format!("expected values of type {}, found other bytes", T::NAME),
    )
}
