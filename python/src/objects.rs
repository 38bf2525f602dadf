//! Objects of Python made and filled the fastest way that a build allows. A build for one version of Python
//! uses its full interface, one for all versions (feature `abi3`) the stable one; both do the same.
//!
//! Nothing here calls back into Python between making an object and completing it, other than through its
//! allocator. Every function says why it is sound.
#![allow(unsafe_code, reason = "what is faster than safe wrappers is Python's own interface")]

use std::ops::Range;

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyMemoryView};

/// A list of known length whose items are not all there yet.
pub(crate) struct Filling<'py> {
    list: Bound<'py, PyList>,
    /// Items that the list has room for.
    room: usize,
    filled: usize,
}

impl<'py> Filling<'py> {
    /// More items are appended one by one. A packed list may claim one for each byte, and so may each of
    /// many lists in one another.
    const MOST: usize = 1024;

    /// Begins a list of this many items.
    #[inline]
    pub(crate) fn new(py: Python<'py>, len: usize) -> PyResult<Filling<'py>> {
        let room = if len <= Self::MOST { len } else { 0 };
        // SAFETY: the result is null with an exception set, or a new reference to a list. Its items are
        // null, which no code of Python may see. Only this struct has the list, and once the garbage
        // collector does not track it, `gc.get_objects` does not find it either. It is tracked again in
        // `finish`; one that is dropped before is released as it is, which is allowed for untracked lists
        // and for items that are null.
        let list = unsafe {
            let made = ffi::PyList_New(room as ffi::Py_ssize_t);
            let list = Bound::from_owned_ptr_or_err(py, made)?;
            ffi::PyObject_GC_UnTrack(made.cast());
            list.cast_into_unchecked()
        };
        Ok(Filling { list, room, filled: 0 })
    }

    /// Adds the next item.
    #[inline]
    pub(crate) fn push(&mut self, item: Bound<'py, PyAny>) -> PyResult<()> {
        if self.filled == self.room {
            self.room += 1;
            self.filled += 1;
            return self.list.append(item);
        }
        let (list, at) = (self.list.as_ptr(), self.filled as ffi::Py_ssize_t);
        // SAFETY: the list has this index, its item there is null, and nothing else refers to the list.
        // The reference to the item is given away.
        #[cfg(not(any(Py_LIMITED_API, PyPy, GraalPy)))]
        unsafe {
            ffi::PyList_SET_ITEM(list, at, item.into_ptr());
        }
        // SAFETY: as above; it cannot fail, as it is a list and has this index.
        #[cfg(any(Py_LIMITED_API, PyPy, GraalPy))]
        unsafe {
            ffi::PyList_SetItem(list, at, item.into_ptr());
        }
        self.filled += 1;
        Ok(())
    }

    /// The list.
    ///
    /// # Panics
    ///
    /// Panics if an item is missing.
    #[inline]
    pub(crate) fn finish(self) -> Bound<'py, PyList> {
        assert!(self.filled == self.room, "{} of {} items", self.filled, self.room);
        // SAFETY: all items are set, and `new` ended tracking.
        unsafe { ffi::PyObject_GC_Track(self.list.as_ptr().cast()) };
        self.list
    }
}

/// Sets an item of a dict. PyO3's own function is the same, but not inlined.
#[inline]
pub(crate) fn set_item<'py>(
    dict: &Bound<'py, PyDict>,
    key: &Bound<'py, PyAny>,
    value: &Bound<'py, PyAny>,
) -> PyResult<()> {
    // SAFETY: all three are alive and stay so, being borrowed; it takes references of its own.
    match unsafe { ffi::PyDict_SetItem(dict.as_ptr(), key.as_ptr(), value.as_ptr()) } {
        0 => Ok(()),
        _ => Err(PyErr::fetch(dict.py())),
    }
}

/// `memoryview(whole)[range]`, for a memoryview or another buffer of bytes.
#[inline]
pub(crate) fn slice<'py>(
    whole: &Bound<'py, PyAny>,
    range: Range<usize>,
) -> PyResult<Bound<'py, PyAny>> {
    #[cfg(not(any(Py_LIMITED_API, Py_3_15, PyPy, GraalPy)))]
    if let Some(made) = direct::slice(whole, &range)? {
        return Ok(made);
    }
    let slice = pyo3::types::PySlice::new(whole.py(), range.start as isize, range.end as isize, 1);
    PyMemoryView::from(whole)?.get_item(slice)
}

/// Slices without an object for the slice and its two numbers.
#[cfg(not(any(Py_LIMITED_API, Py_3_15, PyPy, GraalPy)))]
mod direct {
    use super::*;

    /// The beginning of `PyMemoryViewObject`, which is the same from Python 3.11 to 3.14. Its header declares it
    /// for the sake of `PyMemoryView_GET_BUFFER`, a documented macro that PyO3 lacks.
    #[repr(C)]
    struct Object {
        base: ffi::PyVarObject,
        managed: *mut ffi::PyObject,
        hash: ffi::Py_hash_t,
        flags: std::ffi::c_int,
        exports: ffi::Py_ssize_t,
        view: ffi::Py_buffer,
    }

    /// `None` for what is not a plain row of bytes that has this range.
    pub(super) fn slice<'py>(
        whole: &Bound<'py, PyAny>,
        range: &Range<usize>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        // SAFETY: the result is null with an exception set, or a new reference to a memoryview: another one of
        // the same memory, which keeps its owner.
        let made = unsafe {
            let made = ffi::PyMemoryView_FromObject(whole.as_ptr());
            Bound::from_owned_ptr_or_err(whole.py(), made)?
        };
        // SAFETY: it is a memoryview, nothing else refers to it yet, and this borrow ends with the block. The
        // macro that this stands for gives the same pointer. With one dimension, `shape` points to one number
        // in the object itself. What is written is what Python's own slicing writes (`init_slice` and
        // `init_len` in memoryobject.c): the range lies in the memory, so the pointer does too. The flags say
        // that the memory is contiguous, which it stays.
        unsafe {
            let view = &mut (*made.as_ptr().cast::<Object>()).view;
            let is_plain = view.ndim == 1
                && view.itemsize == 1
                && !view.shape.is_null()
                && view.suboffsets.is_null()
                && !view.strides.is_null()
                && *view.strides == 1;
            let len = usize::try_from(view.len).unwrap_or(0);
            if !is_plain || range.start > range.end || range.end > len {
                return Ok(None);
            }
            let part = (range.end - range.start) as ffi::Py_ssize_t;
            view.buf = view.buf.cast::<u8>().add(range.start).cast();
            view.len = part;
            *view.shape = part;
        }
        Ok(Some(made))
    }
}

/// Asks the processor for the first bytes of these, and does not wait. They are where the names and the small values of
/// a sample are, and rarely begin at the start of a cache line: two lines.
#[inline]
pub(crate) fn prefetch(bytes: &[u8]) {
    for at in [0, LINE] {
        ask(bytes, at);
    }
}

/// Asks for the beginning of each page that these bytes reach into: what the processor foresees ends with a page, and
/// finding the memory of each one takes as long as copying it.
#[inline]
pub(crate) fn prefetch_pages(bytes: &[u8]) {
    let to_the_next = bytes.as_ptr().addr().wrapping_neg() % PAGE;
    for at in (to_the_next..bytes.len()).step_by(PAGE).take(PAGES) {
        ask(bytes, at);
        ask(bytes, at + LINE);
    }
}

/// Bytes of a cache line.
const LINE: usize = 64;
/// Bytes of the smallest page.
const PAGE: usize = 4096;
/// More the processor does not keep waiting.
const PAGES: usize = 8;

/// Asks for the line that this byte is in.
#[inline]
fn ask(bytes: &[u8], at: usize) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: every processor of this kind has the instruction, which reads nothing that a program
        // could see and faults for no address; `wrapping_add` needs none that is in bounds.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(bytes.as_ptr().wrapping_add(at).cast()) };
    }
    // Elsewhere a load is the only way, and its latency is partly hidden.
    #[cfg(not(target_arch = "x86_64"))]
    std::hint::black_box(bytes.get(at).copied());
}
