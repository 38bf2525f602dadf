//! [`Buffers`]: memory of the caller that batches are written to.
#![allow(unsafe_code, reason = "memory of arrays of NumPy, which threads of the library write to")]

use std::sync::Arc;

use kiste::loader::{ColumnMemory, Memory};
use numpy::{PyUntypedArray, PyUntypedArrayMethods};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::columns::{Column, Form, all_of};
use crate::errors::{invalid, no_buffer, raise};

/// The memory of an array of NumPy or of a tensor, which batches are written to.
struct Given {
    data: *mut u8,
    len: usize,
    /// Keeps the memory.
    _array: Py<PyAny>,
    /// Keep it where it is: see [`pins`].
    _pins: Vec<Py<PyAny>>,
}

/// Weak references to an array and to those that it is a view of. NumPy resizes no array that has some, also with
/// `refcheck=False`: the memory would move, or be freed.
fn pins(array: &Bound<'_, PyAny>) -> PyResult<Vec<Py<PyAny>>> {
    let weak = array.py().import("weakref")?.getattr("ref")?;
    let (mut pins, mut owner) = (Vec::new(), array.clone());
    while owner.is_instance_of::<PyUntypedArray>() {
        pins.push(weak.call1((&owner,))?.unbind());
        owner = owner.getattr("base")?;
    }
    Ok(pins)
}

// SAFETY: the memory is not bound to a thread. Only the batch that has this set of buffers writes to
// it, and Python sees it through arrays that keep that batch. A caller who uses the array itself in the
// meantime sees it change, as the documentation of `buffers` says.
unsafe impl Send for Given {}
// SAFETY: as above.
unsafe impl Sync for Given {}

impl AsRef<[u8]> for Given {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: `_array` keeps these bytes alive, and they are all initialised memory of an array.
        unsafe { std::slice::from_raw_parts(self.data, self.len) }
    }
}

impl AsMut<[u8]> for Given {
    fn as_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above. The array is writable, and no two buffers of a loader overlap.
        unsafe { std::slice::from_raw_parts_mut(self.data, self.len) }
    }
}

impl Given {
    /// The memory of an array that has the type and shape of a column.
    fn parse(
        column: &Column,
        batch_size: u64,
        set: usize,
        given: &Bound<'_, PyAny>,
    ) -> PyResult<Given> {
        let wrong = |expected: &str, found: &str| {
            let name = &column.name;
            let message =
                format!("buffer {set} of column {name:?}: expected {expected}, found {found}");
            invalid(message)
        };
        let Form::Numbers { dtype, shape, .. } = &column.form else {
            return Err(wrong("none, as rows of any length are in memory of the loader", "one"));
        };
        // A tensor of torch shares its memory with the array that it returns, and is no longer resized. What is detached
        // keeps the memory also when the tensor gets another one.
        let is_tensor = given.hasattr("data_ptr")? && given.hasattr("numpy")?;
        let array = match is_tensor {
            true => given.call_method0("detach")?.call_method0("numpy")?,
            false => given.clone(),
        };
        let Ok(array) = array.cast::<PyUntypedArray>() else {
            let found = given.get_type().name()?.to_string();
            return Err(wrong("an array of NumPy or a tensor on the CPU", &found));
        };
        let found = array.getattr("dtype")?;
        if found.getattr("name")?.extract::<String>()? != *dtype
            || !found.getattr("isnative")?.extract::<bool>()?
        {
            return Err(wrong(&format!("type {dtype}"), &found.repr()?.to_string()));
        }
        let shape: Vec<usize> =
            std::iter::once(batch_size as usize).chain(shape.iter().copied()).collect();
        if array.shape() != shape {
            return Err(wrong(&format!("shape {shape:?}"), &format!("{:?}", array.shape())));
        }
        let flags = array.getattr("flags")?;
        let has = |flag: &str| flags.getattr(flag)?.extract::<bool>();
        if !has("c_contiguous")? || !has("aligned")? {
            return Err(wrong("a contiguous array in C order", "another memory order"));
        }
        if !has("writeable")? {
            return Err(wrong("a writable array", "a read-only one"));
        }
        let len: usize = array.getattr("nbytes")?.extract()?;
        // SAFETY: a valid array of NumPy, whose memory starts there as it is contiguous.
        let data = unsafe { (*array.as_array_ptr()).fields.data.cast::<u8>() };
        let pins = pins(array.as_any())?;
        Ok(Given { data, len, _array: array.clone().unbind().into_any(), _pins: pins })
    }

    /// Has the system provide all of its pages, which takes it less time than to do so for one after the other.
    fn populate(&self) {
        #[cfg(target_os = "linux")]
        {
            // SAFETY: asks for the size of a page. The range lies in the memory of the array, whose content stays as it
            // is. That the system cannot do it is no error.
            unsafe {
                let page = libc::sysconf(libc::_SC_PAGESIZE) as usize;
                let inner = self.data.align_offset(page).min(self.len);
                libc::madvise(
                    self.data.add(inner).cast(),
                    self.len - inner,
                    libc::MADV_POPULATE_WRITE,
                );
            }
        }
    }

    /// Where its bytes are.
    fn span(&self) -> (usize, usize) {
        (self.data as usize, self.data as usize + self.len)
    }
}

/// Memory for labels that a caller sees as names.
struct Labels(Vec<i64>);

impl AsRef<[u8]> for Labels {
    fn as_ref(&self) -> &[u8] {
        bytemuck::cast_slice(&self.0)
    }
}

impl AsMut<[u8]> for Labels {
    fn as_mut(&mut self) -> &mut [u8] {
        bytemuck::cast_slice_mut(&mut self.0)
    }
}

/// The buffers that a caller gives for batches.
pub(crate) struct Buffers {
    pub(crate) memory: ColumnMemory,
    /// One reference is held by each batch that Python has.
    pub(crate) held: Arc<()>,
    process: u32,
}

/// The memory of these sets, each a dict of arrays or tensors by the names of columns. Nothing has written to memory that
/// `is_fresh`.
pub(crate) fn memory_of(
    columns: &[Column],
    batch_size: u64,
    sets: &Bound<'_, PyAny>,
    is_fresh: bool,
) -> PyResult<ColumnMemory> {
    let mut parsed = Vec::new();
    let mut spans = Vec::new();
    for (nth, set) in sets.try_iter()?.enumerate() {
        let set = set?;
        let set = set.cast::<PyDict>()?;
        let mut memory: Vec<(String, Box<dyn Memory>)> = Vec::new();
        for (name, given) in set {
            let name: String = name.extract()?;
            let Some(column) = columns.iter().find(|column| column.name == name) else {
                let message = format!("buffer {nth} of {name:?}: there is no such column");
                return Err(invalid(message));
            };
            let given = Given::parse(column, batch_size, nth, &given)?;
            spans.push(given.span());
            if is_fresh {
                given.populate();
            }
            memory.push((name, Box::new(given)));
        }
        for column in columns.iter().filter(|column| matches!(column.form, Form::Names(_))) {
            let own = Box::new(Labels(vec![0; batch_size as usize]));
            memory.push((column.name.clone(), own));
        }
        parsed.push(memory);
    }
    spans.sort_unstable();
    if spans.windows(2).any(|pair| pair[1].0 < pair[0].1) {
        let message = "expected buffers with memory of their own, found two that overlap";
        return Err(invalid(message));
    }
    ColumnMemory::new(all_of(columns)?, batch_size as usize, parsed).map_err(raise)
}

impl Buffers {
    pub(crate) fn parse(
        columns: &[Column],
        batch_size: u64,
        sets: &Bound<'_, PyAny>,
    ) -> PyResult<Buffers> {
        let memory = memory_of(columns, batch_size, sets, false)?;
        Ok(Buffers { memory, held: Arc::new(()), process: std::process::id() })
    }

    /// Fails in a process that was forked: threads of the other one have some of the buffers, and
    /// maybe the lock of the others.
    pub(crate) fn check_process(&self) -> PyResult<()> {
        if self.process == std::process::id() {
            return Ok(());
        }
        let message = "expected the process that made the loader with these buffers, found one that \
                       was forked from it: make another loader";
        Err(no_buffer(message))
    }

    /// Fails if the caller holds too many batches to leave buffers for the next one.
    pub(crate) fn check_held(&self, queue: usize) -> PyResult<()> {
        let (held, sets) = (Arc::strong_count(&self.held) - 1, self.memory.sets());
        // The queue, one that is handed over, and those that are held.
        let ahead = queue.clamp(1, sets.saturating_sub(2).max(1));
        let free = sets.saturating_sub(1 + ahead);
        if held <= free {
            return Ok(());
        }
        let message = format!(
            "expected at most {free} batches in use with {sets} buffers, found {held}: drop batches \
             and their arrays, or give more buffers"
        );
        Err(no_buffer(message))
    }
}
