//! [`Batch`]: what a loader hands out.
#![allow(unsafe_code, reason = "arrays of NumPy that share memory with a batch")]

use std::sync::{Arc, OnceLock};

use kiste::loader::{ColumnBatch, Element, PackedRows};
use kiste::reader::Reader;
use kiste::sampler::State;
use numpy::ndarray::{ArrayViewMutD, IxDyn};
use numpy::{IntoPyArray, PyArray1, PyArrayDyn, PyArrayMethods};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PySlice, PyString, PyType};

use crate::columns::{Column, Form, with_types};
use crate::decode::Decoder;
use crate::errors::{bug, invalid, no_index, no_key, raise, wrong_type};
use crate::indices::Position;
use crate::pool;
use crate::run_state::Mark;

fn no_column(name: &str) -> PyErr {
    no_key(format!("there is no such column: {name:?}"))
}

/// The keys of the samples of these indices, which may have to be fetched.
pub(crate) fn keys_of(
    py: Python<'_>,
    reader: &Arc<dyn Reader>,
    indices: Vec<u64>,
) -> PyResult<Vec<String>> {
    let reader = reader.clone();
    let keys = pool::run(py, move || {
        let key = |index: u64| {
            let index = usize::try_from(index).unwrap_or(usize::MAX);
            Ok(reader.key(index)?.into_owned())
        };
        indices.into_iter().map(key).collect::<kiste::Result<_>>()
    });
    keys?.map_err(raise)
}

/// What a batch has besides its data.
pub(crate) struct With {
    pub(crate) reader: Arc<dyn Reader>,
    pub(crate) columns: Option<Arc<[Column]>>,
    pub(crate) held: Option<Arc<()>>,
    pub(crate) mark: Arc<Mark>,
}

/// One batch: a column by its name, or a sample by its place.
///
/// Columns are arrays of NumPy in memory of the loader, or in the buffers that it was given, which a
/// later batch uses again once the batch and all arrays from it are gone.
///
/// >>> import pykiste as ki
/// >>> path = getfixture("tmp_path") / "numbers.msgpack"
/// >>> with ki.Writer(path) as writer:
/// ...     for number in range(10):
/// ...         writer.write({"key": str(number), "label": number})
/// >>> batch = next(iter(ki.Loader(ki.open(path), batch_size=4, columns={"label": "int64"})))
/// >>> len(batch), batch["label"].tolist(), batch.sample_keys, batch.state["position"]
/// (4, [0, 1, 2, 3], ['0', '1', '2', '3'], 4)
/// >>> batch = next(iter(ki.Loader(ki.open(path), batch_size=4)))    # without columns it has samples
/// >>> batch[-1], len(batch.samples)
/// ({'key': '3', 'label': 3}, 4)
#[pyclass(module = "pykiste")]
pub(crate) struct Batch {
    epoch: u64,
    step: u64,
    state: State,
    indices: Vec<u64>,
    padding: u64,
    bucket: Option<u32>,
    failures: Vec<(u64, Option<String>, String)>,
    data: Data,
    /// The samples, once they have been asked for.
    samples: OnceLock<Py<PyList>>,
    reader: Arc<dyn Reader>,
    mark: Arc<Mark>,
    /// Counts it among those that have buffers of the caller.
    _held: Option<Arc<()>>,
    /// The process that it was made in.
    process: u32,
}

impl Drop for Batch {
    fn drop(&mut self) {
        // In a process that was forked, the lock of the spare buffers may be held for ever by a thread
        // that is not there.
        if self.process != std::process::id() {
            std::mem::forget(std::mem::replace(&mut self.data, Data::Samples(Vec::new())));
        }
    }
}

enum Data {
    Samples(Vec<Vec<u8>>),
    Columns { batch: ColumnBatch, columns: Arc<[Column]> },
}

impl Batch {
    /// A batch, and the error of the first of its samples that could not be read.
    fn new<D>(
        batch: kiste::loader::Batch<D>,
        with: With,
        data: impl FnOnce(D) -> Data,
    ) -> (Batch, Option<kiste::Error>) {
        let mut first = None;
        let failures = batch.failures.into_iter().map(|failure| {
            let said = (failure.index, failure.key, failure.error.to_string());
            first.get_or_insert(failure.error);
            said
        });
        let failures = failures.collect();
        let made = Batch {
            epoch: batch.epoch,
            step: batch.step,
            state: batch.state,
            indices: batch.indices,
            padding: batch.padding,
            bucket: batch.bucket,
            failures,
            data: data(batch.data),
            samples: OnceLock::new(),
            reader: with.reader,
            mark: with.mark,
            _held: with.held,
            process: std::process::id(),
        };
        (made, first)
    }

    pub(crate) fn of_samples(
        batch: kiste::loader::Batch<Vec<Vec<u8>>>,
        with: With,
    ) -> (Batch, Option<kiste::Error>) {
        Batch::new(batch, with, Data::Samples)
    }

    pub(crate) fn of_columns(
        batch: kiste::loader::Batch<ColumnBatch>,
        mut with: With,
    ) -> (Batch, Option<kiste::Error>) {
        let columns = with.columns.take().unwrap_or_default();
        Batch::new(batch, with, |batch| Data::Columns { batch, columns })
    }

    fn form(&self, name: &str) -> Option<Form> {
        let Data::Columns { columns, .. } = &self.data else { return None };
        columns.iter().find(|column| column.name == name).map(|column| column.form.clone())
    }

    /// A copy: what divides the rows must not change with an array.
    fn offsets(&self, name: &str) -> PyResult<Vec<i64>> {
        let unknown = |_| no_column(name);
        let Data::Columns { batch, .. } = &self.data else { return Err(unknown(())) };
        let offsets = batch.offsets(name).map_err(|_| unknown(()))?;
        Ok(offsets.iter().map(|&offset| offset as i64).collect())
    }

    fn rows(&self) -> usize {
        match &self.data {
            Data::Samples(packed) => packed.len(),
            Data::Columns { batch, .. } => batch.len(),
        }
    }

    fn sample<'py>(
        &self,
        py: Python<'py>,
        index: isize,
        decoder: &mut Decoder,
    ) -> PyResult<Bound<'py, PyAny>> {
        let Data::Samples(packed) = &self.data else {
            let message = "a batch of columns has no samples: ask for a column by its name";
            return Err(wrong_type(message));
        };
        let at = if index < 0 { index.checked_add_unsigned(packed.len()) } else { Some(index) };
        let at = at.and_then(|at| usize::try_from(at).ok()).filter(|at| *at < packed.len());
        let Some(at) = at else {
            return Err(no_index(format!("{index} is out of range for {} samples", packed.len())));
        };
        let place = |error| match self.indices.get(at) {
            Some(&index) => self.reader.locate(index as usize).describe(error),
            None => error,
        };
        decoder.sample(py, &packed[at], None).map_err(|flaw| flaw.raise(py, place))
    }
}

/// The positions in packed rows, as arrays of their own.
struct Parts<'py> {
    positions: Bound<'py, PyAny>,
    documents: Bound<'py, PyAny>,
    cu_seqlens: Bound<'py, PyArray1<i32>>,
    max: usize,
}

impl<'py> Parts<'py> {
    fn of<T>(py: Python<'py>, packed: &PackedRows<'_, T>) -> PyResult<Parts<'py>> {
        let rows = |values: &[i32]| -> PyResult<Bound<'py, PyAny>> {
            let values = values.to_vec().into_pyarray(py);
            Ok(values.reshape([packed.rows(), packed.length])?.into_any())
        };
        Ok(Parts {
            positions: rows(packed.positions)?,
            documents: rows(packed.documents)?,
            cu_seqlens: packed.cu_seqlens.to_vec().into_pyarray(py),
            max: packed.max_seqlen,
        })
    }
}

/// The array of a column. Its memory belongs to the batch, which `owner` is.
fn column<'py, T: Element + numpy::Element>(
    owner: &Bound<'py, Batch>,
    name: &str,
) -> PyResult<Bound<'py, PyAny>> {
    let mut this = owner.borrow_mut();
    let Data::Columns { batch, .. } = &mut this.data else { return Err(bug("no columns")) };
    let shape = batch.array::<T>(name).map_err(raise)?.shape().to_vec();
    let values = batch.values_mut::<T>(name).map_err(raise)?;
    let view = ArrayViewMutD::from_shape(IxDyn(&shape), values).map_err(bug)?;
    // SAFETY: the array keeps `owner` alive, and with it the memory, which does not move: nothing
    // changes the length of a column of a batch that was handed out, and no reference to its elements
    // is kept here. Several arrays of one column alias each other, as views in NumPy do.
    let array = unsafe { PyArrayDyn::borrow_from_array(&view, owner.clone().into_any()) };
    Ok(array.into_any())
}

/// The same for a type by its name.
fn view<'py>(owner: &Bound<'py, Batch>, name: &str, dtype: &str) -> PyResult<Bound<'py, PyAny>> {
    macro_rules! view {
        ($($known:literal $type:ty,)*) => {
            match dtype {
                $($known => column::<$type>(owner, name),)*
                other => Err(bug(other)),
            }
        };
    }
    with_types!(view)
}

/// The rows of a column, and the offsets that divide them.
type Ragged<'py> = (Bound<'py, PyAny>, Bound<'py, PyArray1<i64>>);

#[pymethods]
impl Batch {
    fn __len__(&self) -> usize {
        self.rows()
    }

    fn __getitem__<'py>(
        slf: &Bound<'py, Self>,
        item: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        let Ok(name) = item.cast::<PyString>() else {
            let Position(index) = item.extract::<Position<isize>>()?;
            return slf.borrow().sample(py, index, &mut Decoder::new());
        };
        let name = name.to_str()?;
        let form = slf.borrow().form(name);
        match form {
            None => Err(no_column(name)),
            Some(Form::Bytes { is_text }) => {
                let this = slf.borrow();
                let Data::Columns { batch, .. } = &this.data else { return Err(bug("no columns")) };
                let (bytes, offsets) = batch.bytes(name).map_err(raise)?;
                let cut = offsets.windows(2).map(|ends| {
                    py.check_signals()?;
                    let bytes = &bytes[ends[0] as usize..ends[1] as usize];
                    if !is_text {
                        return Ok(PyBytes::new(py, bytes).into_any());
                    }
                    let text = std::str::from_utf8(bytes).map_err(|_| {
                        invalid(format!(
                            "column {name:?}: expected text, found bytes that are not UTF-8"
                        ))
                    })?;
                    Ok(PyString::new(py, text).into_any())
                });
                Ok(PyList::new(py, cut.collect::<PyResult<Vec<_>>>()?)?.into_any())
            }
            Some(Form::Names(names)) => {
                let this = slf.borrow();
                let Data::Columns { batch, .. } = &this.data else { return Err(bug("no columns")) };
                let labels = batch.values::<i64>(name).map_err(raise)?;
                let named = labels.iter().zip(&this.indices).map(|(&label, index)| {
                    usize::try_from(label).ok().and_then(|at| names.get(at)).ok_or_else(|| {
                        invalid(format!(
                            "column {name:?}: expected a label of 0 to {}, found {label} in sample {index}",
                            names.len().saturating_sub(1)
                        ))
                    })
                });
                Ok(PyList::new(py, named.collect::<PyResult<Vec<_>>>()?)?.into_any())
            }
            Some(Form::Lists { dtype, is_ragged: true, .. }) => {
                let (data, offsets) = (view(slf, name, &dtype)?, slf.borrow().offsets(name)?);
                let cut = offsets.windows(2).map(|ends| {
                    py.check_signals()?;
                    data.get_item(PySlice::new(py, ends[0] as isize, ends[1] as isize, 1))
                });
                Ok(PyList::new(py, cut.collect::<PyResult<Vec<_>>>()?)?.into_any())
            }
            Some(Form::Numbers { dtype, .. } | Form::Lists { dtype, .. }) => {
                view(slf, name, &dtype)
            }
        }
    }

    /// A column of bytes or of `Ragged` without a copy: all of them back to back as one array in the memory of
    /// the batch, and the `len(batch) + 1` offsets between the samples.
    ///
    /// >>> import pykiste as ki
    /// >>> path = getfixture("tmp_path") / "words.msgpack"
    /// >>> with ki.Writer(path) as writer:
    /// ...     for word in ["one", "two", "three"]:
    /// ...         writer.write({"key": word, "word": word.encode()})
    /// >>> [batch] = ki.Loader(ki.open(path), columns={"word": bytes}, tail="uneven")
    /// >>> data, offsets = batch.ragged("word")
    /// >>> bytes(data), offsets.tolist()
    /// (b'onetwothree', [0, 3, 6, 11])
    fn ragged<'py>(slf: &Bound<'py, Self>, name: &str) -> PyResult<Ragged<'py>> {
        let py = slf.py();
        let form = slf.borrow().form(name);
        if let Some(Form::Lists { dtype, is_ragged: true, .. }) = form {
            let offsets = slf.borrow().offsets(name)?;
            return Ok((view(slf, name, &dtype)?, offsets.into_pyarray(py)));
        }
        let mut this = slf.borrow_mut();
        let Data::Columns { batch, .. } = &mut this.data else {
            return Err(no_column(name));
        };
        let (bytes, offsets) = batch.bytes_mut(name).map_err(raise)?;
        // A copy: what divides the bytes must not change with the array.
        let offsets: Vec<i64> = offsets.iter().map(|&offset| offset as i64).collect();
        let view = ArrayViewMutD::from_shape(IxDyn(&[bytes.len()]), bytes).map_err(bug)?;
        // SAFETY: as in `column`.
        let data = unsafe { PyArrayDyn::borrow_from_array(&view, slf.clone().into_any()) };
        Ok((data.into_any(), offsets.into_pyarray(py)))
    }

    /// How many rows each sample has in a column of any number of rows, without padding.
    fn lengths<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyArray1<i64>>> {
        let offsets = self.offsets(name)?;
        let lengths: Vec<i64> = offsets.windows(2).map(|ends| ends[1] - ends[0]).collect();
        Ok(lengths.into_pyarray(py))
    }

    /// A column of `Packed`, with what is where in it: see `pykiste.columns.PackedTokens`.
    fn packed<'py>(slf: &Bound<'py, Self>, name: &str) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        let Some(Form::Lists { dtype, .. }) = slf.borrow().form(name) else {
            return Err(no_column(name));
        };
        let tokens = view(slf, name, &dtype)?;
        let this = slf.borrow();
        let Data::Columns { batch, .. } = &this.data else { return Err(bug("no columns")) };
        macro_rules! parts {
            ($($known:literal $type:ty,)*) => {
                match &dtype[..] {
                    $($known => batch.packed::<$type>(name).map(|packed| Parts::of(py, &packed)),)*
                    other => return Err(bug(other)),
                }
            };
        }
        let Parts { positions, documents, cu_seqlens, max } =
            with_types!(parts).map_err(|_| no_column(name))??;
        let class = py.import("pykiste.columns")?.getattr("PackedTokens")?;
        class.call1((tokens, positions, documents, cu_seqlens, max))
    }

    fn __contains__(&self, name: &str) -> bool {
        self.keys().iter().any(|known| known == name)
    }

    /// The names of the columns.
    fn keys(&self) -> Vec<String> {
        match &self.data {
            Data::Columns { columns, .. } => {
                columns.iter().map(|column| column.name.clone()).collect()
            }
            Data::Samples(_) => Vec::new(),
        }
    }

    /// All samples as a list of dicts: the same list each time.
    #[getter]
    fn samples<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        if let Some(samples) = self.samples.get() {
            return Ok(samples.bind(py).clone());
        }
        let list = PyList::empty(py);
        let mut decoder = Decoder::new();
        for index in 0..self.rows() {
            py.check_signals()?;
            list.append(self.sample(py, index as isize, &mut decoder)?)?;
        }
        Ok(self.samples.get_or_init(|| list.unbind()).bind(py).clone())
    }

    /// The keys of the samples, in the order of `indices`. They are looked up when they are asked for.
    #[getter]
    fn sample_keys(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        keys_of(py, &self.reader, self.indices.clone())
    }

    /// The epoch, counted from 0.
    #[getter]
    fn epoch(&self) -> u64 {
        self.epoch
    }

    /// The step in the epoch, counted from where it was started or resumed.
    #[getter]
    fn step(&self) -> u64 {
        self.step
    }

    /// Where the run is once all ranks have done this step.
    #[getter]
    fn state<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        self.mark.dict(py, &self.state)
    }

    /// The indices of the samples, in their order.
    #[getter]
    fn indices<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<u64>> {
        self.indices.clone().into_pyarray(py)
    }

    /// How many samples at the end only fill up the batch: an evaluation leaves them out.
    #[getter]
    fn padding(&self) -> u64 {
        self.padding
    }

    /// The number of its bucket or shape, if batches are planned with some.
    #[getter]
    fn bucket(&self) -> Option<u32> {
        self.bucket
    }

    /// Samples that could not be read: index, key and what is wrong.
    #[getter]
    fn failures(&self) -> Vec<(u64, Option<String>, String)> {
        self.failures.clone()
    }

    #[classattr]
    fn __hash__() -> Option<Py<PyType>> {
        None
    }
}
