//! [`Loader`] and [`Batch`]: batches from the threads of the library.
#![allow(unsafe_code, reason = "arrays of NumPy that share the memory of a batch")]

use std::sync::Arc;

use kiste::loader::{ColumnBatch, Columns, Element, OnError};
use kiste::reader::Reader;
use kiste::sampler::{Sequential, State, Tail};
use numpy::ndarray::{ArrayViewMutD, IxDyn};
use numpy::{IntoPyArray, PyArray1, PyArrayDyn};
use pyo3::exceptions::{PyIndexError, PyKeyError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString, PyTuple, PyType};

use crate::dataset::{Dataset, shared};
use crate::decode::Decoder;
use crate::errors::{bug, raise};
use crate::sampler::Sampler;

/// Calls a macro with all types that columns have, by the names that NumPy has for them.
macro_rules! with_types {
    ($apply:ident) => {
        $apply! {
            "bool" bool, "int8" i8, "int16" i16, "int32" i32, "int64" i64, "uint8" u8,
            "uint16" u16, "uint32" u32, "uint64" u64, "float16" half::f16, "float32" f32,
            "float64" f64, "complex64" num_complex::Complex32, "complex128" num_complex::Complex64,
        }
    };
}

/// What a column is: bytes of any length, or numbers of one type and shape.
#[derive(Clone)]
enum Form {
    Bytes,
    Numbers { dtype: String, shape: Vec<usize> },
}

#[derive(Clone)]
struct Column {
    name: String,
    form: Form,
}

impl Column {
    /// A column from what a caller gives for it: `bytes`, a type, or a type and a shape.
    fn parse(name: &Bound<'_, PyAny>, given: &Bound<'_, PyAny>) -> PyResult<Column> {
        let name: String = name.extract()?;
        if given.is(given.py().get_type::<pyo3::types::PyBytes>()) {
            return Ok(Column { name, form: Form::Bytes });
        }
        let (dtype, shape) = match given.cast::<PyTuple>() {
            Ok(both) if both.len() == 2 => {
                let shape = both.get_item(1)?;
                let shape = match shape.extract::<usize>() {
                    Ok(one) => vec![one],
                    Err(_) => shape.extract()?,
                };
                (both.get_item(0)?, shape)
            }
            _ => (given.clone(), Vec::new()),
        };
        let numpy = given.py().import("numpy")?;
        let dtype = numpy.call_method1("dtype", (dtype,))?;
        if !dtype.getattr("isnative")?.extract::<bool>()? {
            let message = format!("column {name:?}: expected a native byte order, found {dtype}");
            return Err(PyTypeError::new_err(message));
        }
        let dtype: String = dtype.getattr("name")?.extract()?;
        Ok(Column { name, form: Form::Numbers { dtype, shape } })
    }

    fn add_to(&self, columns: Columns) -> PyResult<Columns> {
        let Form::Numbers { dtype, shape } = &self.form else {
            return Ok(columns.bytes(&self.name));
        };
        macro_rules! add {
            ($($known:literal $type:ty,)*) => {
                match &dtype[..] {
                    $($known if shape.is_empty() => Ok(columns.scalar::<$type>(&self.name)),
                    $known => Ok(columns.array::<$type>(&self.name, shape)),)*
                    other => Err(PyTypeError::new_err(format!(
                        "column {:?}: no column has the type {other}", self.name
                    ))),
                }
            };
        }
        with_types!(add)
    }
}

/// Everything a loader is started with.
struct Settings {
    reader: Arc<dyn Reader>,
    sampler: Arc<dyn kiste::sampler::Sampler>,
    columns: Option<Arc<[Column]>>,
    batch_size: u64,
    rank: u64,
    world: u64,
    threads: Option<usize>,
    queue: usize,
    tail: Option<Tail>,
    on_error: OnError,
    prefetch: bool,
}

/// The threads, while they run.
enum Running {
    Samples(kiste::loader::Loader<Vec<Vec<u8>>>),
    Columns(kiste::loader::Loader<ColumnBatch>),
}

/// Batches of a dataset, read and collated by threads that need no lock of Python, in an order that
/// does not depend on them.
///
/// Each `for` loop is one epoch, or what is left of it; the next one is the next epoch.
/// `state_dict()` is two integers, with which any number of ranks resumes at the exact sample.
#[pyclass(module = "pykiste")]
pub(crate) struct Loader {
    settings: Settings,
    running: Option<Running>,
    /// The process that started the threads. They do not live in one that was forked from it.
    process: u32,
    state: State,
    /// The epoch that the current loop is in, until it ends.
    epoch: Option<u64>,
}

impl Loader {
    fn start(&self) -> PyResult<Running> {
        let set = &self.settings;
        let mut options = kiste::loader::Loader::options(set.reader.clone(), set.sampler.clone())
            .batch_size(set.batch_size)
            .rank(set.rank, set.world)
            .queue(set.queue)
            .on_error(set.on_error)
            .prefetch(set.prefetch)
            .resume(self.state);
        if let Some(threads) = set.threads {
            options = options.threads(threads);
        }
        if let Some(tail) = set.tail {
            options = options.tail(tail);
        }
        Ok(match &set.columns {
            None => Running::Samples(options.raw().map_err(raise)?),
            Some(columns) => {
                let all = columns.iter().try_fold(Columns::new(), |all, one| one.add_to(all))?;
                Running::Columns(options.columns(all).map_err(raise)?)
            }
        })
    }

    /// Ends the threads, if they are those of this process. Waiting for those of another one would not
    /// end: what they own is left alone.
    fn stop(&mut self) {
        let running = self.running.take();
        if self.process != std::process::id() {
            std::mem::forget(running);
        }
    }
}

impl Drop for Loader {
    fn drop(&mut self) {
        self.stop();
    }
}

#[pymethods]
impl Loader {
    #[new]
    #[pyo3(signature = (dataset, sampler=None, *, batch_size=64, columns=None, rank=0, world=1,
        threads=None, queue=0, tail=None, on_error="raise", prefetch=false))]
    #[expect(clippy::too_many_arguments, reason = "keyword arguments of Python")]
    fn new(
        dataset: PyRef<'_, Dataset>,
        sampler: Option<PyRef<'_, Sampler>>,
        batch_size: u64,
        columns: Option<&Bound<'_, PyDict>>,
        rank: u64,
        world: u64,
        threads: Option<usize>,
        queue: usize,
        tail: Option<&str>,
        on_error: &str,
        prefetch: bool,
    ) -> PyResult<Loader> {
        let reader = shared(&dataset)?;
        let sampler = match sampler {
            Some(sampler) => sampler.shared(),
            None => Arc::new(Sequential::new(reader.len() as u64)),
        };
        let columns = match columns {
            None => None,
            Some(given) => {
                let parsed: PyResult<Vec<Column>> =
                    given.iter().map(|(name, form)| Column::parse(&name, &form)).collect();
                Some(parsed?.into())
            }
        };
        let tail = match tail {
            None => None,
            Some("pad") => Some(Tail::Pad),
            Some("drop") => Some(Tail::Drop),
            Some("uneven") => Some(Tail::Uneven),
            Some(other) => {
                let message = format!("tail: expected 'pad', 'drop' or 'uneven', found {other:?}");
                return Err(PyValueError::new_err(message));
            }
        };
        let on_error = match on_error {
            "raise" => OnError::Raise,
            "skip" => OnError::Skip,
            other => {
                let message = format!("on_error: expected 'raise' or 'skip', found {other:?}");
                return Err(PyValueError::new_err(message));
            }
        };
        let settings = Settings {
            reader,
            sampler,
            columns,
            batch_size,
            rank,
            world,
            threads,
            queue,
            tail,
            on_error,
            prefetch,
        };
        let (state, process) = (State::default(), std::process::id());
        let mut loader = Loader { settings, running: None, process, state, epoch: None };
        // Threads start here, so that what cannot work is reported here.
        loader.running = Some(loader.start()?);
        Ok(loader)
    }

    /// Begins an epoch, or goes on with the one that was resumed or left.
    fn __iter__(mut slf: PyRefMut<'_, Self>) -> PyRefMut<'_, Self> {
        slf.epoch = Some(slf.state.epoch);
        slf
    }

    fn __next__(&mut self, py: Python<'_>) -> PyResult<Option<Batch>> {
        if self.process != std::process::id() {
            self.stop();
            self.process = std::process::id();
        }
        let epoch = *self.epoch.get_or_insert(self.state.epoch);
        if self.state.epoch != epoch {
            self.epoch = None;
            return Ok(None);
        }
        let mut running = match self.running.take() {
            Some(running) => running,
            None => self.start()?,
        };
        let columns = self.settings.columns.clone();
        let batch = py.detach(|| match &mut running {
            Running::Samples(loader) => loader.next().map(|batch| batch.map(Batch::of_samples)),
            Running::Columns(loader) => {
                loader.next().map(|batch| batch.map(|batch| Batch::of_columns(batch, columns)))
            }
        });
        self.state = match &running {
            Running::Samples(loader) => loader.state(),
            Running::Columns(loader) => loader.state(),
        };
        self.running = Some(running);
        batch.transpose().map_err(raise)
    }

    /// Where the run is after the batches so far. Save it when all ranks have done the same step.
    fn state_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let state = PyDict::new(py);
        state.set_item("epoch", self.state.epoch)?;
        state.set_item("position", self.state.position)?;
        Ok(state)
    }

    /// Goes on from a state that was saved, with any number of ranks and any size of batches.
    fn load_state_dict(&mut self, py: Python<'_>, state: &Bound<'_, PyDict>) -> PyResult<()> {
        let number = |name: &str| -> PyResult<u64> {
            state.get_item(name)?.ok_or_else(|| PyKeyError::new_err(name.to_owned()))?.extract()
        };
        let state = State { epoch: number("epoch")?, position: number("position")? };
        py.detach(|| self.stop());
        (self.state, self.epoch, self.process) = (state, None, std::process::id());
        self.running = Some(self.start()?);
        Ok(())
    }

    /// Ends the threads. The loader can go on later.
    fn close(&mut self, py: Python<'_>) {
        py.detach(|| self.stop());
        self.process = std::process::id();
    }

    fn __repr__(&self) -> String {
        let State { epoch, position } = self.state;
        format!("pykiste.Loader(epoch {epoch}, position {position})")
    }
}

/// One batch: a column by its name, or a sample by its place.
///
/// Columns are arrays of NumPy in memory of the loader, which a later batch uses again once the batch
/// and all arrays from it are gone.
#[pyclass(module = "pykiste")]
pub(crate) struct Batch {
    epoch: u64,
    step: u64,
    state: State,
    indices: Vec<u64>,
    padding: u64,
    failures: Vec<(u64, Option<String>, String)>,
    data: Data,
}

enum Data {
    Samples(Vec<Vec<u8>>),
    Columns { batch: ColumnBatch, columns: Arc<[Column]> },
}

impl Batch {
    fn new<D>(batch: kiste::loader::Batch<D>, data: impl FnOnce(D) -> Data) -> Batch {
        let failures = batch.failures.into_iter();
        let failures =
            failures.map(|failure| (failure.index, failure.key, failure.error.to_string()));
        Batch {
            epoch: batch.epoch,
            step: batch.step,
            state: batch.state,
            indices: batch.indices,
            padding: batch.padding,
            failures: failures.collect(),
            data: data(batch.data),
        }
    }

    fn of_samples(batch: kiste::loader::Batch<Vec<Vec<u8>>>) -> Batch {
        Batch::new(batch, Data::Samples)
    }

    fn of_columns(
        batch: kiste::loader::Batch<ColumnBatch>,
        columns: Option<Arc<[Column]>>,
    ) -> Batch {
        let columns = columns.unwrap_or_default();
        Batch::new(batch, |batch| Data::Columns { batch, columns })
    }

    fn rows(&self) -> usize {
        match &self.data {
            Data::Samples(samples) => samples.len(),
            Data::Columns { batch, .. } => batch.len(),
        }
    }

    fn sample<'py>(&self, py: Python<'py>, index: isize) -> PyResult<Bound<'py, PyAny>> {
        let Data::Samples(samples) = &self.data else {
            let message = "a batch of columns has no samples: ask for a column by its name";
            return Err(PyTypeError::new_err(message));
        };
        let at = if index < 0 { index.checked_add_unsigned(samples.len()) } else { Some(index) };
        let packed = at.and_then(|at| samples.get(usize::try_from(at).ok()?));
        let packed = packed.ok_or_else(|| {
            PyIndexError::new_err(format!("{index} is out of range for {} samples", samples.len()))
        })?;
        Decoder::new().sample(py, packed, None).map_err(|flaw| flaw.raise(|error| error))
    }
}

/// The array of a column. Its memory is that of the batch, which `owner` is.
fn column<'py, T: Element + numpy::Element>(
    owner: &Bound<'py, Batch>,
    name: &str,
    shape: &[usize],
) -> PyResult<Bound<'py, PyAny>> {
    let mut this = owner.borrow_mut();
    let rows = this.rows();
    let Data::Columns { batch, .. } = &mut this.data else { return Err(bug("no columns")) };
    let values = batch.values_mut::<T>(name).map_err(raise)?;
    let shape: Vec<usize> = std::iter::once(rows).chain(shape.iter().copied()).collect();
    let view = ArrayViewMutD::from_shape(IxDyn(&shape), values).map_err(bug)?;
    // SAFETY: the array keeps `owner` alive, and with it the memory, which does not move: nothing
    // changes the length of a column of a batch that was handed out, and no reference to its elements
    // is kept here. Several arrays of one column alias each other, as views in NumPy do.
    let array = unsafe { PyArrayDyn::borrow_from_array(&view, owner.clone().into_any()) };
    Ok(array.into_any())
}

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
            return slf.borrow().sample(py, item.extract()?);
        };
        let name = name.to_str()?;
        let form = match &slf.borrow().data {
            Data::Columns { columns, .. } => {
                columns.iter().find(|column| column.name == name).map(|column| column.form.clone())
            }
            Data::Samples(_) => None,
        };
        match form {
            None => Err(PyKeyError::new_err(name.to_owned())),
            Some(Form::Bytes) => {
                let this = slf.borrow();
                let Data::Columns { batch, .. } = &this.data else { return Err(bug("no columns")) };
                let (bytes, offsets) = batch.bytes(name).map_err(raise)?;
                let cut = offsets.windows(2).map(|ends| {
                    pyo3::types::PyBytes::new(py, &bytes[ends[0] as usize..ends[1] as usize])
                });
                Ok(PyList::new(py, cut.collect::<Vec<_>>())?.into_any())
            }
            Some(Form::Numbers { dtype, shape }) => {
                macro_rules! view {
                    ($($known:literal $type:ty,)*) => {
                        match &dtype[..] {
                            $($known => column::<$type>(slf, name, &shape),)*
                            other => Err(bug(other)),
                        }
                    };
                }
                with_types!(view)
            }
        }
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

    /// All samples as a list of dicts.
    #[getter]
    fn samples<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let list = PyList::empty(py);
        for index in 0..self.rows() {
            list.append(self.sample(py, index as isize)?)?;
        }
        Ok(list)
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
        let state = PyDict::new(py);
        state.set_item("epoch", self.state.epoch)?;
        state.set_item("position", self.state.position)?;
        Ok(state)
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
