//! [`Dataset`]: samples by index and by key.

use std::borrow::Cow;
use std::ffi::CString;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use kiste::DatasetReader;
use kiste::reader::Reader;
use pyo3::exceptions::{PyKeyError, PyTypeError, PyUserWarning, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyInt, PyList, PySlice, PyString, PyTuple};

use crate::decode::Decoder;
use crate::errors::{bug, out_of_range, raise};
use crate::objects;
use crate::view::Map;

/// A dataset on disk: a sequence of samples that is also looked up by key.
///
/// Opening touches a few pages, at any size. `dataset[3]` and `dataset["cat/07.jpg"]` are samples,
/// which are dicts; a slice or a list of indices or keys is a list of samples. With `copy=False`, binary
/// data and arrays are read-only views of the memory map, which they keep open.
#[pyclass(frozen, sequence, module = "pykiste")]
pub(crate) struct Dataset {
    /// `None` once it is closed.
    opened: Mutex<Option<Opened>>,
    decoder: Mutex<Decoder>,
    path: PathBuf,
    copy: bool,
    verify: bool,
}

/// What an open dataset reads from.
#[derive(Clone)]
struct Opened {
    reader: DatasetReader,
    /// What samples are views of, with `copy=False` and where there is a map.
    map: Option<Arc<Map>>,
}

impl Dataset {
    /// The reader. Clones share one memory map.
    pub(crate) fn reader(&self) -> PyResult<DatasetReader> {
        self.with_opened(|opened| opened.reader.clone())
    }

    fn opened(&self) -> PyResult<Opened> {
        self.with_opened(Opened::clone)
    }

    fn with_opened<T>(&self, read: impl FnOnce(&Opened) -> T) -> PyResult<T> {
        let opened = self.opened.lock().map_err(|_| bug("a reader panicked"))?;
        opened.as_ref().map(read).ok_or_else(|| PyValueError::new_err("the dataset is closed"))
    }

    /// Works with the decoder. Another thread may have it, and wait for the lock of Python that this one
    /// holds: then a new one does.
    fn decoder<T>(&self, work: impl FnOnce(&mut Decoder) -> T) -> T {
        match self.decoder.try_lock() {
            Ok(mut decoder) => work(&mut decoder),
            Err(_) => work(&mut Decoder::new()),
        }
    }

    fn sample<'py>(
        &self,
        py: Python<'py>,
        opened: &Opened,
        index: usize,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.decoder(|decoder| sample(py, opened, index, decoder))
    }

    /// The path of the data file.
    pub(crate) fn location(&self) -> &Path {
        &self.path
    }
}

/// The index that an index or a key stands for.
pub(crate) fn resolve(reader: &DatasetReader, item: &Bound<'_, PyAny>) -> PyResult<usize> {
    if let Ok(key) = item.cast::<PyString>() {
        let text = key.to_str()?;
        let found = waiting(item.py(), reader, || reader.find(text)).map_err(raise)?;
        return found.ok_or_else(|| PyKeyError::new_err(key.clone().unbind()));
    }
    // NumPy's integers too, by `__index__`.
    let index: isize = item.extract().map_err(|_| {
        let name = item.get_type().name().map(|name| name.to_string()).unwrap_or_default();
        PyTypeError::new_err(format!("expected an index or a key, found {name}"))
    })?;
    let len = reader.len();
    let from_end = if index < 0 { index.checked_add_unsigned(len) } else { Some(index) };
    let found = from_end.and_then(|index| usize::try_from(index).ok());
    found.filter(|index| *index < len).ok_or_else(|| out_of_range(index, len))
}

/// The indices that indices or keys stand for. Keys are looked up together.
fn resolve_many(reader: &DatasetReader, items: &[Bound<'_, PyAny>]) -> PyResult<Vec<usize>> {
    let keys: Option<Vec<&str>> =
        items.iter().map(|item| item.cast::<PyString>().ok()?.to_str().ok()).collect();
    let (Some(first), Some(keys)) = (items.first(), keys) else {
        return items.iter().map(|item| resolve(reader, item)).collect();
    };
    let found = waiting(first.py(), reader, || reader.find_many(&keys)).map_err(raise)?;
    let absent = |item: &Bound<'_, PyAny>| PyKeyError::new_err(item.clone().unbind());
    items.iter().zip(found).map(|(item, found)| found.ok_or_else(|| absent(item))).collect()
}

/// Reads, without the lock of Python where that may take a round trip over a network. For memory that is
/// mapped, taking the lock again costs more than reading.
pub(crate) fn waiting<T: Send>(
    py: Python<'_>,
    reader: &DatasetReader,
    read: impl FnOnce() -> kiste::Result<T> + Send,
) -> kiste::Result<T> {
    if reader.is_remote() { py.detach(read) } else { read() }
}

/// A sample as a Python object.
fn sample<'py>(
    py: Python<'py>,
    opened: &Opened,
    index: usize,
    decoder: &mut Decoder,
) -> PyResult<Bound<'py, PyAny>> {
    let reader = &opened.reader;
    let raw = waiting(py, reader, || reader.get_raw(index)).map_err(raise)?;
    let decoded = decoder.sample(py, &raw, opened.map.as_deref());
    decoded.map_err(|flaw| flaw.raise(|error| reader.locate(index).describe(error)))
}

#[pymethods]
impl Dataset {
    #[new]
    #[pyo3(signature = (path, *, copy=true, verify=false))]
    fn new(py: Python<'_>, path: PathBuf, copy: bool, verify: bool) -> PyResult<Dataset> {
        let reader = py.detach(|| DatasetReader::options().checksums(verify).open(&path));
        let (reader, decoder) = (reader.map_err(raise)?, Mutex::new(Decoder::new()));
        if reader.is_walked() {
            let path = kiste::storage::shown(&path);
            let message = format!(
                "{}.offsets not found, so all of the data was read to open it: pykiste.index makes it",
                path.display()
            );
            PyErr::warn(py, &py.get_type::<PyUserWarning>(), &CString::new(message)?, 1)?;
        }
        let map = if copy { None } else { Map::of(py, &reader)?.map(Arc::new) };
        Ok(Dataset {
            opened: Mutex::new(Some(Opened { reader, map })),
            decoder,
            path,
            copy,
            verify,
        })
    }

    /// The path of the data file, or the URL that was given for it.
    #[getter]
    fn path(&self) -> PathBuf {
        self.path.clone()
    }

    /// Whether samples own their memory. Otherwise binary data and arrays are views of the map.
    #[getter]
    fn copy(&self) -> bool {
        self.copy
    }

    /// Bytes of the data file.
    #[getter]
    fn data_size(&self) -> PyResult<u64> {
        Ok(self.reader()?.data_len())
    }

    fn __len__(&self) -> PyResult<usize> {
        Ok(self.reader()?.len())
    }

    fn __getitem__<'py>(&self, item: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let (py, opened) = (item.py(), self.opened()?);
        let reader = &opened.reader;
        if let Ok(slice) = item.cast::<PySlice>() {
            let range = slice.indices(reader.len() as isize)?;
            let samples = PyList::empty(py);
            let mut index = range.start;
            for _ in 0..range.slicelength {
                samples.append(self.sample(py, &opened, index as usize)?)?;
                index += range.step;
            }
            return Ok(samples.into_any());
        }
        let is_one = item.is_instance_of::<PyInt>()
            || item.is_instance_of::<PyString>()
            || item.hasattr("__index__")? && !item.hasattr("__len__")?;
        if is_one {
            let index = resolve(reader, item)?;
            return self.sample(py, &opened, index);
        }
        if item.is_instance_of::<PyBytes>() {
            // Bytes are a sequence of numbers, and were meant for a key.
            return Err(PyTypeError::new_err("expected an index or a key, found bytes"));
        }
        Ok(self.get_many(item)?.into_any())
    }

    /// The samples of these indices or keys, in their order. PyTorch's fetcher calls it.
    fn get_many<'py>(&self, items: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyList>> {
        let (py, opened) = (items.py(), self.opened()?);
        let reader = &opened.reader;
        let items: Vec<Bound<'py, PyAny>> = items.try_iter()?.collect::<PyResult<_>>()?;
        let indices = resolve_many(reader, &items)?;
        if reader.is_remote() {
            py.detach(|| Reader::prefetch(reader, &indices));
        }
        let samples = PyList::empty(py);
        for index in indices {
            samples.append(self.sample(py, &opened, index)?)?;
        }
        Ok(samples)
    }

    fn __getitems__<'py>(&self, items: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyList>> {
        self.get_many(items)
    }

    fn __contains__(&self, key: &Bound<'_, PyAny>) -> PyResult<bool> {
        match key.cast::<PyString>() {
            Ok(key) => {
                let (reader, text) = (self.reader()?, key.to_str()?);
                waiting(key.py(), &reader, || reader.contains_key(text)).map_err(raise)
            }
            Err(_) => Ok(false),
        }
    }

    fn __iter__(&self) -> PyResult<Samples> {
        let opened = self.opened()?;
        let range = 0..opened.reader.len();
        // Otherwise reading a sample is more than an address, and smaller samples the processor foresees.
        let ahead = !self.verify
            && opened.reader.mapped().is_some_and(|map| map.len() / range.len().max(1) >= FAR);
        Ok(Samples { opened, range, ahead, decoder: Decoder::new() })
    }

    /// The index of a key, or `None`.
    fn find(&self, py: Python<'_>, key: &str) -> PyResult<Option<usize>> {
        let reader = self.reader()?;
        waiting(py, &reader, || reader.find(key)).map_err(raise)
    }

    /// The key of a sample.
    fn key(&self, index: &Bound<'_, PyAny>) -> PyResult<String> {
        let (py, reader) = (index.py(), self.reader()?);
        let index = resolve(&reader, index)?;
        let key = waiting(py, &reader, || reader.key(index));
        Ok(key.map_err(raise)?.into_owned())
    }

    /// All keys, in the order of the samples.
    fn keys(&self, py: Python<'_>) -> PyResult<Keys> {
        let reader = self.reader()?;
        let range = 0..reader.len();
        // One by one they would be read from the samples.
        let listed = match reader.is_remote() {
            true => {
                let all = || -> kiste::Result<Vec<String>> {
                    reader.keys().map(|key| key.map(Cow::into_owned)).collect()
                };
                Some(py.detach(all).map_err(raise)?)
            }
            false => None,
        };
        Ok(Keys { reader, range, listed })
    }

    /// A sample, or `default` if there is no such key or index.
    #[pyo3(signature = (item, default=None))]
    fn get<'py>(
        &self,
        item: &Bound<'py, PyAny>,
        default: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        use pyo3::exceptions::PyLookupError;
        let (py, opened) = (item.py(), self.opened()?);
        match resolve(&opened.reader, item) {
            Ok(index) => self.sample(py, &opened, index).map(Some),
            Err(error) if error.is_instance_of::<PyLookupError>(py) => Ok(default),
            Err(error) => Err(error),
        }
    }

    /// The packed bytes of a sample: `bytes`, or a `memoryview` of the map with `copy=False`.
    #[pyo3(signature = (item, *, copy=None))]
    fn raw<'py>(
        &self,
        item: &Bound<'py, PyAny>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (py, Opened { reader, mut map }) = (item.py(), self.opened()?);
        let index = resolve(&reader, item)?;
        let raw = waiting(py, &reader, || reader.get_raw(index)).map_err(raise)?;
        if copy.unwrap_or(self.copy) {
            map = None;
        } else if map.is_none() {
            map = Map::of(py, &reader)?.map(Arc::new);
        }
        let view = map.map_or(Ok(None), |map| map.slice(py, &raw))?;
        Ok(view.unwrap_or_else(|| PyBytes::new(py, &raw).into_any()))
    }

    /// Asks the operating system to read these samples soon.
    fn prefetch(&self, py: Python<'_>, indices: Vec<usize>) -> PyResult<()> {
        let reader = self.reader()?;
        py.detach(|| Reader::prefetch(&reader, &indices));
        Ok(())
    }

    /// Whether it is the dataset that had this identity when it was pickled.
    fn _has_identity(&self, py: Python<'_>, identity: &str) -> PyResult<bool> {
        let reader = self.reader()?;
        waiting(py, &reader, || reader.has_identity(identity)).map_err(raise)
    }

    /// Closes it. Views of its memory stay valid: the last of them closes the map.
    fn close(&self) -> PyResult<()> {
        let opened = self.opened.lock().map_err(|_| bug("a reader panicked"))?.take();
        // No longer locked: it may be the last that has the map.
        drop(opened);
        Ok(())
    }

    fn __enter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    #[pyo3(signature = (*_args))]
    fn __exit__(&self, _args: &Bound<'_, PyTuple>) -> PyResult<()> {
        self.close()
    }

    /// A path, how large the data file was, and what tells it from another one of that size: another process
    /// opens the same, or fails.
    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, PickledDataset)> {
        let reader = self.reader()?;
        let reopen = py.import("pykiste._pickle")?.getattr("reopen")?;
        let identity = waiting(py, &reader, || reader.identity()).map_err(raise)?;
        let size = (reader.len(), reader.data_len());
        Ok((reopen, (self.path.clone(), self.copy, size.0, size.1, None, identity)))
    }

    fn __repr__(&self) -> String {
        // A URL may have a password in it.
        let path = kiste::storage::shown(&self.path);
        match self.reader() {
            Ok(reader) => format!("pykiste.Dataset({path:?}, {} samples)", reader.len()),
            Err(_) => format!("pykiste.Dataset({path:?}, closed)"),
        }
    }
}

/// What a pickled dataset consists of.
type PickledDataset = (PathBuf, bool, usize, u64, Option<bool>, String);

/// All samples in their order.
#[pyclass(module = "pykiste")]
pub(crate) struct Samples {
    opened: Opened,
    range: Range<usize>,
    /// Whether the memory of samples to come is asked for.
    ahead: bool,
    decoder: Decoder,
}

/// From this mean size of samples on, in bytes, the next ones are not in the processor's caches.
const FAR: usize = 1024;

/// How many samples ahead their memory is asked for: decoding takes less time than one access.
const AHEAD: usize = 4;

#[pymethods]
impl Samples {
    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__<'py>(&mut self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let Some(index) = self.range.next() else { return Ok(None) };
        if self.ahead && self.range.len() > AHEAD {
            if let Ok(raw) = self.opened.reader.get_raw(self.range.start + AHEAD) {
                objects::prefetch(&raw);
            }
        }
        sample(py, &self.opened, index, &mut self.decoder).map(Some)
    }

    fn __length_hint__(&self) -> usize {
        self.range.len()
    }
}

/// All keys in the order of their samples.
#[pyclass(module = "pykiste")]
pub(crate) struct Keys {
    reader: DatasetReader,
    range: Range<usize>,
    /// All keys of a remote dataset.
    listed: Option<Vec<String>>,
}

#[pymethods]
impl Keys {
    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__<'py>(&mut self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyString>>> {
        let Some(index) = self.range.next() else { return Ok(None) };
        let listed = self.listed.as_ref().and_then(|keys| keys.get(index));
        let key: Cow<'_, str> = match listed {
            Some(key) => Cow::Borrowed(key),
            None => self.reader.key(index).map_err(raise)?,
        };
        Ok(Some(PyString::new(py, &key)))
    }

    fn __length_hint__(&self) -> usize {
        self.range.len()
    }
}

/// The reader as loaders take it.
pub(crate) fn shared(dataset: &Dataset) -> PyResult<Arc<dyn Reader>> {
    Ok(Arc::new(dataset.reader()?))
}
