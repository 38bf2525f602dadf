//! [`ChunkedArray`], [`ArrayStore`] and [`StagedVersion`]: arrays in directories, with versions.

use kiste::storage::Shown;
use std::path::PathBuf;
use std::time::SystemTime;

use kiste::array::{self, ArrayOptions, At, Keep, VersionInfo};
use pyo3::prelude::*;
use pyo3::types::{PyDateTime, PyDict, PyList, PyMapping, PyString, PyTuple, PyType};

use crate::errors::{invalid, raise, wrong_type};
use crate::lock::Shared;
use crate::pool;
use crate::select::{
    Selected, elements, parse_attributes, parse_dtype, raise_selection, to_dict, to_numpy_dtype,
};

/// Opens or creates with these options.
fn options(durable: bool) -> ArrayOptions {
    ArrayOptions::default().durable(durable)
}

/// A version of an array as Python names one.
struct Which(At);

impl<'py> FromPyObject<'_, 'py> for Which {
    type Error = PyErr;

    fn extract(given: Borrowed<'_, 'py, PyAny>) -> PyResult<Which> {
        if let Ok(text) = given.extract::<String>() {
            return text.parse().map(Which).map_err(raise);
        }
        if given.is_instance_of::<PyDateTime>() {
            return Ok(Which(At::Time(moment(&given)?)));
        }
        match given.extract::<i64>()? {
            0 => Err(invalid("expected a version from 1, or a negative one, found 0")),
            number if number > 0 => Ok(Which(At::Version(number as u64))),
            back => Ok(Which(At::Back(back.unsigned_abs() as usize))),
        }
    }
}

/// A `datetime` that knows its time zone: without one it could be an hour or a day off.
fn moment(given: &Bound<'_, PyAny>) -> PyResult<SystemTime> {
    if given.call_method0("utcoffset")?.is_none() {
        let message = format!("expected a time with a time zone, found {given}");
        return Err(invalid(message));
    }
    given.extract()
}

fn version_dict<'py>(py: Python<'py>, info: &VersionInfo) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("number", info.number)?;
    dict.set_item("parent", info.parent)?;
    dict.set_item("time", &info.time)?;
    dict.set_item("message", &info.message)?;
    dict.set_item("shape", PyTuple::new(py, &info.shape)?)?;
    dict.set_item("chunks", info.chunks)?;
    dict.set_item("cbytes", info.cbytes)?;
    Ok(dict)
}

fn version_list<'py>(
    py: Python<'py>,
    versions: kiste::Result<Vec<VersionInfo>>,
) -> PyResult<Bound<'py, PyList>> {
    let list = PyList::empty(py);
    for info in versions.map_err(raise)? {
        list.append(version_dict(py, &info)?)?;
    }
    Ok(list)
}

/// The `len` of an array.
fn first(shape: &[usize]) -> PyResult<usize> {
    let unsized_ = || wrong_type("len() of an array without axes");
    shape.first().copied().ok_or_else(unsized_)
}

/// As `numpy.asarray` wants it: all elements, of another type if asked.
fn whole<'py>(
    array: Bound<'py, PyAny>,
    dtype: Option<Bound<'py, PyAny>>,
    copy: Option<bool>,
) -> PyResult<Bound<'py, PyAny>> {
    if copy == Some(false) {
        return Err(invalid("expected copy=True or None: elements are decompressed"));
    }
    match dtype {
        Some(dtype) => array.call_method1("astype", (dtype,)),
        None => Ok(array),
    }
}

/// One version of an array in a directory, for reading.
///
/// `array[...]` reads as NumPy does: integers, slices with steps, ellipsis, `None`, lists of indices and
/// masks. Only the chunks that are touched are decompressed. The result is an array of NumPy with
/// memory of its own.
///
/// >>> import numpy as np
/// >>> import pykiste as ki
/// >>> path = getfixture("tmp_path") / "grid"
/// >>> with ki.ArrayStore.create(path, (1000, 8), "float32", chunks=(100, 8)) as store:
/// ...     store[10:20, ::2] = 1
/// >>> array = ki.ChunkedArray(path)
/// >>> array.shape, array.dtype, array[15, :4], array[[5, 12]].sum()
/// ((1000, 8), dtype('float32'), array([1., 0., 1., 0.], dtype=float32), np.float32(4.0))
#[pyclass(frozen, module = "pykiste")]
pub(crate) struct ChunkedArray {
    array: array::ChunkedArray,
    dtype: Py<PyAny>,
    path: PathBuf,
    /// The fields that were chosen, one in another.
    fields: Vec<String>,
}

/// What tells a version from another one of its number: when it was committed, and how large it is.
type Identity = (String, u64, u64);

fn identity(array: &array::ChunkedArray) -> Identity {
    let info = array.version_info();
    (info.time, info.chunks, info.cbytes)
}

impl ChunkedArray {
    fn of(py: Python<'_>, array: array::ChunkedArray, path: PathBuf) -> PyResult<ChunkedArray> {
        let dtype = to_numpy_dtype(py, array.dtype())?;
        Ok(ChunkedArray { array, dtype, path, fields: Vec::new() })
    }

    fn read<'py>(&self, py: Python<'py>, selected: &Selected) -> PyResult<Bound<'py, PyAny>> {
        let (array, selection) = (self.array.clone(), selected.selection.clone());
        let read = pool::run(py, move || array.read(selection))?;
        selected.result(read.map_err(raise_selection)?, self.dtype.bind(py))
    }
}

#[pymethods]
impl ChunkedArray {
    /// Opens the newest version, or another one: its number, -1 for the one before the newest, or a time
    /// (`datetime` with a time zone, or text such as "2026-01-31" in UTC) for the newest of that time.
    #[new]
    #[pyo3(signature = (path, version=None))]
    fn new(py: Python<'_>, path: PathBuf, version: Option<Which>) -> PyResult<ChunkedArray> {
        let at = version.map_or(At::Newest, |version| version.0);
        let place = path.clone();
        let array = pool::apart(py, move || array::ChunkedArray::open_at(&place, at))?;
        ChunkedArray::of(py, array.map_err(raise)?, path)
    }

    /// Its directory.
    #[getter]
    fn path(&self) -> PathBuf {
        self.path.clone()
    }

    /// The length of each axis.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.array.shape())
    }

    /// The type of the elements.
    #[getter]
    fn dtype(&self, py: Python<'_>) -> Py<PyAny> {
        self.dtype.clone_ref(py)
    }

    /// Elements of a chunk along each axis.
    #[getter]
    fn chunks<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.array.grid().chunk_shape())
    }

    /// How many axes it has.
    #[getter]
    fn ndim(&self) -> usize {
        self.array.shape().len()
    }

    /// How many elements it has.
    #[getter]
    fn size(&self) -> usize {
        self.array.shape().iter().product()
    }

    /// Bytes of all elements, uncompressed.
    #[getter]
    fn nbytes(&self) -> u64 {
        self.array.info().nbytes
    }

    /// Bytes of its chunks, compressed.
    #[getter]
    fn cbytes(&self) -> u64 {
        self.array.info().cbytes
    }

    /// The number of the version.
    #[getter]
    fn version(&self) -> u64 {
        self.array.version()
    }

    /// The attributes, as they are in JSON.
    #[getter]
    fn attrs<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        to_dict(py, self.array.attrs())
    }

    /// All versions, oldest first.
    fn versions<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let array = self.array.clone();
        version_list(py, pool::apart(py, move || array.versions())?)
    }

    /// Another version: by number, -1 for the one before the newest, or the newest of a time.
    fn at(&self, py: Python<'_>, version: Which) -> PyResult<ChunkedArray> {
        let array = self.array.clone();
        let array = pool::apart(py, move || array.at(version.0))?.map_err(raise)?;
        ChunkedArray::of(py, array, self.path.clone())
    }

    /// Compares all chunks of all versions with their hashes. Returns a list of what is wrong.
    fn verify(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        let array = self.array.clone();
        let report = pool::run(py, move || array.verify())?.map_err(raise)?;
        let said =
            |problem: &array::Problem| format!("{}: {}", Shown::of(&problem.file), problem.message);
        Ok(report.problems.iter().map(said).collect())
    }

    fn __len__(&self) -> PyResult<usize> {
        first(self.array.shape())
    }

    /// A selection, or with the name of a field of a structured type an array of that field alone.
    fn __getitem__<'py>(
        &self,
        py: Python<'py>,
        item: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        if let Ok(name) = item.cast::<PyString>() {
            let column = self.array.column(name.to_str()?).map_err(raise_selection)?;
            let mut column = ChunkedArray::of(py, column, self.path.clone())?;
            column.fields = self.fields.iter().cloned().chain([name.to_string()]).collect();
            return Ok(Bound::new(py, column)?.into_any());
        }
        self.read(py, &Selected::parse(item)?)
    }

    #[pyo3(signature = (dtype=None, copy=None))]
    fn __array__<'py>(
        &self,
        py: Python<'py>,
        dtype: Option<Bound<'py, PyAny>>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let all = Selected::parse(py.Ellipsis().bind(py))?;
        whole(self.read(py, &all)?, dtype, copy)
    }

    fn _identity(&self) -> Identity {
        identity(&self.array)
    }

    /// A path, a version, the fields of a column, and what tells the version from another one: another process opens
    /// the same version, or fails.
    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<Pickled<'py>> {
        let open = py.import("pykiste._pickle")?.getattr("chunked")?;
        let fields = PyTuple::new(py, &self.fields)?;
        Ok((open, (self.path.clone(), self.array.version(), self._identity(), fields)))
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        let (shape, dtype) = (self.array.shape(), self.dtype.bind(py));
        let version = self.array.version();
        format!("pykiste.ChunkedArray({:?}, version {version}, {shape:?}, {dtype})", self.path)
    }
}

/// The function that makes a pickled array again, and its arguments.
type Pickled<'py> = (Bound<'py, PyAny>, (PathBuf, u64, Identity, Bound<'py, PyTuple>));

/// The writer of an array in a directory. There is one at a time.
///
/// Every assignment is a version of its own, which readers see as a whole or not at all. `stage()`
/// gathers several changes for one version.
///
/// A store that was pickled reads the version of that moment, and becomes the writer with its first change: a
/// `LockedError` as long as another one is open.
///
/// >>> import numpy as np
/// >>> import pykiste as ki
/// >>> path = getfixture("tmp_path") / "table"
/// >>> store = ki.ArrayStore.create(path, (0, 3), "int16", chunks=(100, 3))
/// >>> store.append([[1, 2, 3], [4, 5, 6]], "two rows")["number"]
/// 2
/// >>> with store.stage("a column of zeros") as staged:
/// ...     staged[:, 1] = 0
/// ...     staged.attrs = {"unit": "m"}
/// >>> store[...].tolist(), store.attrs, store.version
/// ([[1, 0, 3], [4, 0, 6]], {'unit': 'm'}, 3)
/// >>> store.checkout(2)["message"], store[0].tolist()
/// ('checkout of version 2', [1, 2, 3])
/// >>> store.close()
#[pyclass(frozen, module = "pykiste")]
pub(crate) struct ArrayStore {
    /// `None` once it is closed.
    open: Shared<Option<Held>>,
    dtype: Py<PyAny>,
    path: PathBuf,
    durable: bool,
    /// The process that has the lock of the array.
    process: u32,
}

/// What a store has in its hands.
enum Held {
    /// The array, which no other one may change.
    Writer(array::ArrayStore),
    /// The version that was pickled. Nothing is locked until it is changed.
    Reader(array::ChunkedArray, ArrayOptions, PathBuf),
}

impl Held {
    fn array(&self) -> &array::ChunkedArray {
        match self {
            Held::Writer(store) => store.array(),
            Held::Reader(array, ..) => array,
        }
    }

    fn writer(&mut self) -> kiste::Result<&mut array::ArrayStore> {
        if let Held::Reader(_, options, path) = self {
            *self = Held::Writer(options.open_store(path)?);
        }
        match self {
            Held::Writer(store) => Ok(store),
            Held::Reader(..) => unreachable!("it was opened above"),
        }
    }
}

impl Drop for ArrayStore {
    fn drop(&mut self) {
        if self.process != std::process::id() {
            // It would give up the lock of the process that this one was forked from.
            if let Some(mut open) = self.open.try_take() {
                std::mem::forget(open.take());
            }
        }
    }
}

impl ArrayStore {
    fn of(py: Python<'_>, held: Held, path: PathBuf, durable: bool) -> PyResult<ArrayStore> {
        let dtype = to_numpy_dtype(py, held.array().dtype())?;
        let open = Shared::new(Some(held));
        Ok(ArrayStore { open, dtype, path, durable, process: std::process::id() })
    }

    fn check_process(&self) -> PyResult<()> {
        if self.process != std::process::id() {
            let message =
                "expected the process that opened the store, found one that was forked from it";
            return Err(invalid(message));
        }
        Ok(())
    }

    /// Works with the store. After Ctrl-C the work continues: a version is committed as a whole, or not at
    /// all.
    fn with<T: Send + 'static>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut array::ArrayStore) -> kiste::Result<T> + Send + 'static,
    ) -> PyResult<kiste::Result<T>> {
        self.check_process()?;
        let work = |held: &mut Held| held.writer().and_then(work);
        self.open.apart(py, move |open| open.as_mut().map(work))?.ok_or_else(closed)
    }

    /// The newest version.
    fn newest(&self, py: Python<'_>) -> PyResult<array::ChunkedArray> {
        Ok(self.open.take(py)?.as_ref().ok_or_else(closed)?.array().clone())
    }

    fn change<'py>(
        &self,
        py: Python<'py>,
        work: impl FnOnce(&mut array::ArrayStore) -> kiste::Result<VersionInfo> + Send + 'static,
    ) -> PyResult<Bound<'py, PyDict>> {
        version_dict(py, &self.with(py, work)?.map_err(raise)?)
    }
}

fn closed() -> PyErr {
    invalid("the store is closed")
}

#[pymethods]
impl ArrayStore {
    /// Opens an array for writing.
    #[classmethod]
    #[pyo3(signature = (path, *, durable=true))]
    fn open(
        _class: &Bound<'_, PyType>,
        py: Python<'_>,
        path: PathBuf,
        durable: bool,
    ) -> PyResult<ArrayStore> {
        let place = path.clone();
        let store = pool::apart(py, move || options(durable).open_store(&place))?;
        ArrayStore::of(py, Held::Writer(store.map_err(raise)?), path, durable)
    }

    /// A store that was pickled.
    #[classmethod]
    fn _later(
        _class: &Bound<'_, PyType>,
        py: Python<'_>,
        array: PyRef<'_, ChunkedArray>,
        durable: bool,
    ) -> PyResult<ArrayStore> {
        let path = array.path.clone();
        let held = Held::Reader(array.array.clone(), options(durable), path.clone());
        ArrayStore::of(py, held, path, durable)
    }

    /// Its path, the version that is the newest now, and how it is written.
    fn __reduce__<'py>(
        &self,
        py: Python<'py>,
    ) -> PyResult<(Bound<'py, PyAny>, (ChunkedArray, bool))> {
        let reopen = py.import("pykiste._pickle")?.getattr("store")?;
        Ok((reopen, (self.array(py)?, self.durable)))
    }

    /// Creates an array full of `fill`, which is 0 by default, and opens it for writing.
    ///
    /// `chunks` is the shape of a chunk, by default one of about a megabyte. `codec` is "lz4" or "zlib",
    /// `shuffle` is "byte", "bit" or "none". Arrays of the other codecs of Blosc are read.
    #[classmethod]
    #[pyo3(signature = (path, shape, dtype, chunks=None, *, fill=None, codec="lz4", level=5,
        shuffle="byte", versioned=true, attrs=None, durable=true))]
    #[expect(clippy::too_many_arguments, reason = "keyword arguments of Python")]
    fn create(
        _class: &Bound<'_, PyType>,
        py: Python<'_>,
        path: PathBuf,
        shape: &Bound<'_, PyAny>,
        dtype: &Bound<'_, PyAny>,
        chunks: Option<&Bound<'_, PyAny>>,
        fill: Option<&Bound<'_, PyAny>>,
        codec: &str,
        level: u8,
        shuffle: &str,
        versioned: bool,
        attrs: Option<&Bound<'_, PyMapping>>,
        durable: bool,
    ) -> PyResult<ArrayStore> {
        use kiste::format::blosc::Shuffle;
        let sizes = |given: &Bound<'_, PyAny>| match given.extract::<usize>() {
            Ok(one) => Ok(vec![one]),
            Err(_) => given.extract::<Vec<usize>>(),
        };
        let shape = sizes(shape)?;
        let parsed = parse_dtype(dtype)?;
        let shuffle = match shuffle {
            "byte" => Shuffle::Byte,
            "bit" => Shuffle::Bit,
            "none" => Shuffle::None,
            other => {
                let message = format!("shuffle: expected 'byte', 'bit' or 'none', found {other:?}");
                return Err(invalid(message));
            }
        };
        let codec = codec.parse().map_err(|error| invalid(format!("codec: {error}")))?;
        let mut options =
            options(durable).codec(codec).level(level).shuffle(shuffle).versioned(versioned);
        if let Some(chunks) = chunks {
            options = options.chunk_shape(sizes(chunks)?);
        }
        if let Some(fill) = fill {
            let dtype = to_numpy_dtype(py, &parsed)?;
            let one = elements(fill, dtype.bind(py))?;
            if !one.shape().is_empty() {
                return Err(invalid("fill: expected one element, found an array"));
            }
            options = options.fill_bytes(one.c_bytes().into_owned());
        }
        let attributes = attrs.map(parse_attributes).transpose()?;
        let place = path.clone();
        let store = pool::run(py, move || {
            let mut store = options.create(&place, parsed, &shape)?;
            if let Some(attributes) = attributes {
                store.set_attributes(attributes, "attributes")?;
            }
            kiste::Result::Ok(store)
        })?;
        ArrayStore::of(py, Held::Writer(store.map_err(raise)?), path, durable)
    }

    /// Its directory.
    #[getter]
    fn path(&self) -> PathBuf {
        self.path.clone()
    }

    /// The length of each axis.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.newest(py)?.shape())
    }

    /// The type of the elements.
    #[getter]
    fn dtype(&self, py: Python<'_>) -> Py<PyAny> {
        self.dtype.clone_ref(py)
    }

    /// Elements of a chunk along each axis.
    #[getter]
    fn chunks<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.newest(py)?.grid().chunk_shape())
    }

    /// How many axes it has.
    #[getter]
    fn ndim(&self, py: Python<'_>) -> PyResult<usize> {
        Ok(self.newest(py)?.shape().len())
    }

    /// Bytes of all elements, uncompressed.
    #[getter]
    fn nbytes(&self, py: Python<'_>) -> PyResult<u64> {
        Ok(self.newest(py)?.info().nbytes)
    }

    /// The number of the newest version.
    #[getter]
    fn version(&self, py: Python<'_>) -> PyResult<u64> {
        Ok(self.newest(py)?.version())
    }

    /// The attributes, as they are in JSON. Assigning other ones makes a version.
    #[getter]
    fn attrs<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        to_dict(py, self.newest(py)?.attrs())
    }

    #[setter]
    fn set_attrs(&self, py: Python<'_>, attrs: &Bound<'_, PyMapping>) -> PyResult<()> {
        let attributes = parse_attributes(attrs)?;
        self.change(py, move |store| store.set_attributes(attributes, "attributes")).map(drop)
    }

    /// The newest version, for reading.
    #[getter]
    fn array(&self, py: Python<'_>) -> PyResult<ChunkedArray> {
        ChunkedArray::of(py, self.newest(py)?, self.path.clone())
    }

    /// Another version, for reading: by number, -1 for the one before the newest, or the newest of a time.
    fn at(&self, py: Python<'_>, version: Which) -> PyResult<ChunkedArray> {
        self.array(py)?.at(py, version)
    }

    /// All versions, oldest first.
    fn versions<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let newest = self.newest(py)?;
        version_list(py, pool::apart(py, move || newest.versions())?)
    }

    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        first(self.newest(py)?.shape())
    }

    fn __getitem__<'py>(
        &self,
        py: Python<'py>,
        item: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.array(py)?.__getitem__(py, item)
    }

    #[pyo3(signature = (dtype=None, copy=None))]
    fn __array__<'py>(
        &self,
        py: Python<'py>,
        dtype: Option<Bound<'py, PyAny>>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.array(py)?.__array__(py, dtype, copy)
    }

    fn __setitem__(
        &self,
        py: Python<'_>,
        item: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        self.put(py, item, value, "put").map(drop)
    }

    /// Assigns to a selection with a message for the version, and returns the version.
    #[pyo3(signature = (selection, value, message="put"))]
    fn put<'py>(
        &self,
        py: Python<'py>,
        selection: &Bound<'py, PyAny>,
        value: &Bound<'py, PyAny>,
        message: &str,
    ) -> PyResult<Bound<'py, PyDict>> {
        let message = message.to_owned();
        let selected = Selected::parse(selection)?;
        let value = elements(value, self.dtype.bind(py))?;
        let put = self.with(py, move |store| store.put(selected.selection, &value, &message))?;
        version_dict(py, &put.map_err(raise_selection)?)
    }

    /// Appends rows along the first axis, as one version.
    #[pyo3(signature = (rows, message="append"))]
    fn append<'py>(
        &self,
        py: Python<'py>,
        rows: &Bound<'py, PyAny>,
        message: &str,
    ) -> PyResult<Bound<'py, PyDict>> {
        let message = message.to_owned();
        let rows = elements(rows, self.dtype.bind(py))?;
        self.change(py, move |store| store.append(&rows, &message))
    }

    /// Changes the shape, as one version. New elements are the fill value.
    #[pyo3(signature = (shape, message="resize"))]
    fn resize<'py>(
        &self,
        py: Python<'py>,
        shape: Vec<usize>,
        message: &str,
    ) -> PyResult<Bound<'py, PyDict>> {
        let message = message.to_owned();
        self.change(py, move |store| store.resize(&shape, &message))
    }

    /// Begins changes to the newest version, or to an older one. At the end of a `with` block they are
    /// committed with the message, unless it raised an exception.
    #[pyo3(signature = (message="", *, version=None))]
    fn stage(
        slf: &Bound<'_, Self>,
        message: &str,
        version: Option<Which>,
    ) -> PyResult<StagedVersion> {
        let (py, this) = (slf.py(), slf.get());
        let at = version.map_or(At::Newest, |version| version.0);
        let staged = this.with(py, move |store| store.stage_at(at))?.map_err(raise)?;
        Ok(StagedVersion {
            staged: Shared::new(staged),
            store: slf.clone().unbind(),
            dtype: this.dtype.clone_ref(py),
            message: message.to_owned(),
        })
    }

    /// Makes staged changes a new version, and returns it.
    #[pyo3(signature = (staged, message=None))]
    fn commit<'py>(
        &self,
        py: Python<'py>,
        staged: PyRef<'py, StagedVersion>,
        message: Option<&str>,
    ) -> PyResult<Bound<'py, PyDict>> {
        self.check_process()?;
        let message = message.unwrap_or(&staged.message).to_owned();
        let committed = self.open.apart_with(py, &staged.staged, move |open, changes| {
            open.as_mut().map(|held| held.writer()?.commit(changes, &message))
        })?;
        version_dict(py, &committed.ok_or_else(closed)?.map_err(raise)?)
    }

    /// Makes an older version the newest one, and loses none.
    #[pyo3(signature = (version, message=None))]
    fn checkout<'py>(
        &self,
        py: Python<'py>,
        version: Which,
        message: Option<String>,
    ) -> PyResult<Bound<'py, PyDict>> {
        self.change(py, move |store| {
            let mut staged = store.stage_at(version.0)?;
            let number = staged.base().version();
            let message = message.unwrap_or_else(|| format!("checkout of version {number}"));
            store.commit(&mut staged, &message)
        })
    }

    /// Removes all but the newest versions, and all files that none of the others needs. Keeps this many,
    /// or those that were committed `since` a time.
    #[pyo3(signature = (keep=None, *, since=None))]
    fn gc<'py>(
        &self,
        py: Python<'py>,
        keep: Option<usize>,
        since: Option<Which>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let keep = match (keep, since) {
            (Some(keep), None) => Keep::Newest(keep),
            (None, Some(Which(At::Time(time)))) => Keep::Since(time),
            (None, Some(_)) => {
                let message = "expected a time such as \"2026-01-31\", found a version";
                return Err(invalid(message));
            }
            _ => return Err(wrong_type("expected either `keep` or `since`")),
        };
        let removed = self.with(py, move |store| store.gc(&keep))?.map_err(raise)?;
        let dict = PyDict::new(py);
        dict.set_item("versions", removed.versions)?;
        dict.set_item("files", removed.files)?;
        dict.set_item("bytes", removed.bytes)?;
        Ok(dict)
    }

    /// Closes it, so that another one may write. Arrays that were opened from it stay open.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        if self.process != std::process::id() {
            return Ok(());
        }
        let store = self.open.take(py)?.take();
        pool::apart(py, move || drop(store))
    }

    fn __enter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    #[pyo3(signature = (*_args))]
    fn __exit__(&self, py: Python<'_>, _args: &Bound<'_, PyTuple>) -> PyResult<()> {
        self.close(py)
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        match self.newest(py) {
            Ok(array) => {
                let (shape, dtype, version) = (array.shape(), self.dtype.bind(py), array.version());
                format!(
                    "pykiste.ArrayStore({:?}, version {version}, {shape:?}, {dtype})",
                    self.path
                )
            }
            Err(_) => format!("pykiste.ArrayStore({:?}, closed)", self.path),
        }
    }
}

/// Changes to an array that are not committed yet, in memory above a version. It reads and assigns as
/// NumPy does. As a context it commits at its end, and after an exception not at all.
///
/// >>> import pykiste as ki
/// >>> store = ki.ArrayStore.create(getfixture("tmp_path") / "sums", shape=(4,), dtype="int64")
/// >>> with store.stage("the first two") as staged:
/// ...     staged[:2] = [5, 7]
/// ...     print(staged[:].tolist(), store[:].tolist(), staged.has_changes)
/// [5, 7, 0, 0] [0, 0, 0, 0] True
/// >>> store[:].tolist(), store.versions()[-1]["message"]
/// ([5, 7, 0, 0], 'the first two')
#[pyclass(frozen, module = "pykiste")]
pub(crate) struct StagedVersion {
    staged: Shared<array::StagedVersion>,
    store: Py<ArrayStore>,
    dtype: Py<PyAny>,
    message: String,
}

impl StagedVersion {
    fn with<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut array::StagedVersion) -> kiste::Result<T> + Send,
    ) -> PyResult<T> {
        self.staged.with(py, work)?.map_err(raise_selection)
    }

    /// The same for work that may take longer.
    fn apart<T: Send + 'static>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut array::StagedVersion) -> kiste::Result<T> + Send + 'static,
    ) -> PyResult<T> {
        self.staged.apart(py, work)?.map_err(raise_selection)
    }
}

#[pymethods]
impl StagedVersion {
    /// The length of each axis.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let shape = self.with(py, |staged| Ok(staged.shape().to_vec()))?;
        PyTuple::new(py, shape)
    }

    /// The type of the elements.
    #[getter]
    fn dtype(&self, py: Python<'_>) -> Py<PyAny> {
        self.dtype.clone_ref(py)
    }

    /// Elements of a chunk along each axis.
    #[getter]
    fn chunks<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let chunks = self.with(py, |staged| Ok(staged.array().chunk_shape().to_vec()))?;
        PyTuple::new(py, chunks)
    }

    /// How many axes it has.
    #[getter]
    fn ndim(&self, py: Python<'_>) -> PyResult<usize> {
        self.with(py, |staged| Ok(staged.shape().len()))
    }

    /// How many elements it has.
    #[getter]
    fn size(&self, py: Python<'_>) -> PyResult<usize> {
        self.with(py, |staged| Ok(staged.array().len()))
    }

    /// Bytes of all elements, uncompressed.
    #[getter]
    fn nbytes(&self, py: Python<'_>) -> PyResult<usize> {
        self.with(py, |staged| Ok(staged.array().nbytes()))
    }

    /// Reads all chunks into memory, so that nothing is read from the disk later.
    fn load(&self, py: Python<'_>) -> PyResult<()> {
        self.with(py, array::StagedVersion::load)
    }

    /// The copies that reading this selection would make, in the words of versioned-hdf5. Nothing is read.
    fn plan_get(&self, py: Python<'_>, item: &Bound<'_, PyAny>) -> PyResult<String> {
        let selected = Selected::parse(item)?;
        self.with(py, |staged| Ok(staged.array().plan_get(selected.selection)?.to_string()))
    }

    /// The same of assigning to this selection. Nothing is changed.
    fn plan_set(&self, py: Python<'_>, item: &Bound<'_, PyAny>) -> PyResult<String> {
        let selected = Selected::parse(item)?;
        self.with(py, |staged| Ok(staged.array().plan_set(selected.selection)?.to_string()))
    }

    /// The same of `resize`.
    fn plan_resize(&self, py: Python<'_>, shape: Vec<usize>) -> PyResult<String> {
        self.with(py, |staged| Ok(staged.array().plan_resize(&shape)?.to_string()))
    }

    /// The same of `load`.
    fn plan_load(&self, py: Python<'_>) -> PyResult<String> {
        self.with(py, |staged| Ok(staged.array().plan_load()?.to_string()))
    }

    /// Where each chunk of the array is now, and which ones a commit would write.
    fn plan_changes(&self, py: Python<'_>) -> PyResult<String> {
        self.with(py, |staged| Ok(staged.array().plan_changes().to_string()))
    }

    /// Whether there is anything to commit but attributes.
    #[getter]
    fn has_changes(&self, py: Python<'_>) -> PyResult<bool> {
        self.with(py, |staged| Ok(staged.array().has_changes()))
    }

    /// The attributes, as they are in JSON. Assign a dict to change them.
    #[getter]
    fn attrs<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let attributes = self.with(py, |staged| Ok(staged.attrs().clone()))?;
        to_dict(py, &attributes)
    }

    #[setter]
    fn set_attrs(&self, py: Python<'_>, attrs: &Bound<'_, PyMapping>) -> PyResult<()> {
        let attributes = parse_attributes(attrs)?;
        self.with(py, |staged| {
            *staged.attrs_mut() = attributes;
            Ok(())
        })
    }

    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        first(&self.with(py, |staged| Ok(staged.shape().to_vec()))?)
    }

    fn __getitem__<'py>(
        &self,
        py: Python<'py>,
        item: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let selected = Selected::parse(item)?;
        let selection = selected.selection.clone();
        let read = self.apart(py, move |staged| staged.array().read(selection))?;
        selected.result(read, self.dtype.bind(py))
    }

    fn __setitem__(
        &self,
        py: Python<'_>,
        item: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let selected = Selected::parse(item)?;
        let value = elements(value, self.dtype.bind(py))?;
        self.apart(py, move |staged| staged.write(selected.selection, &value))
    }

    #[pyo3(signature = (dtype=None, copy=None))]
    fn __array__<'py>(
        &self,
        py: Python<'py>,
        dtype: Option<Bound<'py, PyAny>>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyAny>> {
        whole(self.__getitem__(py, py.Ellipsis().bind(py).as_any())?, dtype, copy)
    }

    /// Appends rows along the first axis.
    fn append(&self, py: Python<'_>, rows: &Bound<'_, PyAny>) -> PyResult<()> {
        let rows = elements(rows, self.dtype.bind(py))?;
        self.apart(py, move |staged| staged.append_array(&rows))
    }

    /// Changes the shape. New elements are the fill value.
    fn resize(&self, py: Python<'_>, shape: Vec<usize>) -> PyResult<()> {
        self.apart(py, move |staged| staged.resize(&shape))
    }

    fn __enter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    #[pyo3(signature = (class, _error, _traceback))]
    fn __exit__(
        slf: PyRef<'_, Self>,
        class: &Bound<'_, PyAny>,
        _error: &Bound<'_, PyAny>,
        _traceback: &Bound<'_, PyAny>,
    ) -> PyResult<bool> {
        let py = slf.py();
        if class.is_none() {
            let store = slf.store.clone_ref(py);
            store.get().commit(py, slf, None)?;
        }
        Ok(false)
    }
}
