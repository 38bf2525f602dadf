//! [`Dataset`]: samples by index and by key.

use std::borrow::Cow;
use std::ffi::CString;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use kiste::DatasetReader;
use kiste::reader::Reader;
use pyo3::exceptions::PyUserWarning;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyInt, PyList, PySlice, PyString, PyTuple};

use crate::about;
use crate::decode::Decoder;
use crate::errors::{bug, invalid, raise, wrong_type};
use crate::indices::{Chosen, are_bytes, find, is_absent, resolve};
use crate::iterators::{Keys, Samples};
use crate::objects;
use crate::opening::Opening;
use crate::pool;
use crate::view::Map;

/// A dataset on disk: a sequence of samples that is also looked up by key.
///
/// Opening touches a few pages, at any size. `dataset[3]` and `dataset["cat/07.jpg"]` are samples,
/// which are dicts; a slice, a list of indices or keys, or a mask is a list of samples. An index is an integer or
/// anything with `__index__`. An index or a key that is not there is an `IndexError` or a `KeyError`, and what is neither
/// a `TypeError`. With `copy=False`, binary data and arrays are read-only views of the memory map, which they keep open.
///
/// `verify=True` compares each sample with its checksum. If another program truncates a file that is mapped, the
/// process dies; `untrusted=True` reads by calls and not through a map, which is slower, and makes that an error.
/// A manifest names files of its folder; `allow_outside=True` reads them also where they are links out of it.
///
/// >>> import numpy as np
/// >>> import pykiste as ki
/// >>> path = getfixture("tmp_path") / "numbers.msgpack"
/// >>> with ki.Writer(path) as writer:
/// ...     for number in range(10):
/// ...         writer.write({"key": str(number), "label": number})
/// >>> numbers = ki.open(path)
/// >>> numbers[np.int64(3)]["label"], numbers["4"]["label"], [sample["label"] for sample in numbers[-2:]]
/// (3, 4, [8, 9])
#[pyclass(frozen, sequence, module = "pykiste")]
pub(crate) struct Dataset {
    /// `None` once it is closed.
    opened: Mutex<Option<Opened>>,
    decoder: Mutex<Decoder>,
    path: PathBuf,
    copy: bool,
    options: Opening,
}

/// An open dataset and its map.
#[derive(Clone)]
pub(crate) struct Opened {
    pub(crate) reader: DatasetReader,
    /// The map that samples are views of, with `copy=False`, if there is one.
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
        opened.as_ref().map(read).ok_or_else(|| invalid("the dataset is closed"))
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

    /// Many samples, between which Ctrl-C is heard.
    fn samples<'py>(
        &self,
        py: Python<'py>,
        opened: &Opened,
        indices: &[usize],
    ) -> PyResult<Bound<'py, PyList>> {
        let reader = &opened.reader;
        let samples = PyList::empty(py);
        let mut rest = indices;
        while !rest.is_empty() {
            let mut some = &rest[..rest.len().min(TOGETHER)];
            let fetched = self.fetch(py, reader, some)?;
            if !fetched.is_empty() {
                some = &some[..fetched.len()];
            }
            rest = &rest[some.len()..];
            self.decoder(|decoder| {
                for (nth, &index) in some.iter().enumerate() {
                    py.check_signals()?;
                    let raw = match fetched.get(nth) {
                        Some(raw) => Cow::Borrowed(&raw[..]),
                        None => reader.get_raw(index).map_err(raise)?,
                    };
                    samples.append(decoded(py, opened, index, &raw, decoder)?)?;
                }
                PyResult::Ok(())
            })?;
        }
        Ok(samples)
    }

    /// The packed bytes of the first of these samples, where reading is more than taking an address: they are remote,
    /// read by calls, or compared with checksums. Other threads of Python work meanwhile.
    fn fetch<'a>(
        &self,
        py: Python<'_>,
        reader: &'a DatasetReader,
        indices: &[usize],
    ) -> PyResult<Vec<Cow<'a, [u8]>>> {
        if reader.is_remote() {
            let indices = indices.to_vec();
            return waiting(py, reader, move |reader| {
                let all = reader.get_raw_many(&indices)?;
                Ok(all.into_iter().map(|raw| Cow::Owned(raw.into_owned())).collect())
            });
        }
        if reader.mapped().is_some() && !self.options.verify {
            return Ok(Vec::new());
        }
        let read = || {
            let mut bytes = 0;
            let mut all = Vec::new();
            for &index in indices {
                let raw = reader.get_raw(index)?;
                bytes += raw.len();
                all.push(raw);
                // Memory is bounded, and Ctrl-C is heard in between.
                if bytes >= MOST {
                    break;
                }
            }
            Ok(all)
        };
        py.detach(read).map_err(raise)
    }

    /// The path of the data file.
    pub(crate) fn location(&self) -> &Path {
        &self.path
    }
}

/// Samples that are fetched together.
const TOGETHER: usize = 256;
/// Bytes of local samples that are read together.
const MOST: usize = 8 << 20;

/// Reads, without the lock of Python where that may take a round trip over a network, and until Ctrl-C. For
/// memory that is mapped, taking the lock again costs more than reading.
pub(crate) fn waiting<T: Send + 'static>(
    py: Python<'_>,
    reader: &DatasetReader,
    read: impl FnOnce(&DatasetReader) -> kiste::Result<T> + Send + 'static,
) -> PyResult<T> {
    if !reader.is_remote() {
        return read(reader).map_err(raise);
    }
    let reader = reader.clone();
    pool::apart(py, move || read(&reader))?.map_err(raise)
}

/// The packed bytes of a sample.
pub(crate) fn raw<'a>(
    py: Python<'_>,
    reader: &'a DatasetReader,
    index: usize,
) -> PyResult<Cow<'a, [u8]>> {
    match reader.is_remote() {
        true => waiting(py, reader, move |reader| reader.get_raw(index).map(Cow::into_owned))
            .map(Cow::Owned),
        false => reader.get_raw(index).map_err(raise),
    }
}

/// A sample as a Python object.
pub(crate) fn sample<'py>(
    py: Python<'py>,
    opened: &Opened,
    index: usize,
    decoder: &mut Decoder,
) -> PyResult<Bound<'py, PyAny>> {
    decoded(py, opened, index, &raw(py, &opened.reader, index)?, decoder)
}

fn decoded<'py>(
    py: Python<'py>,
    opened: &Opened,
    index: usize,
    raw: &[u8],
    decoder: &mut Decoder,
) -> PyResult<Bound<'py, PyAny>> {
    // The bytes are about to be copied.
    if opened.map.is_none() {
        objects::prefetch_pages(raw);
    }
    let decoded = decoder.sample(py, raw, opened.map.as_deref());
    decoded.map_err(|flaw| flaw.raise(py, |error| opened.reader.locate(index).describe(error)))
}

#[pymethods]
impl Dataset {
    #[new]
    #[pyo3(signature = (path, *, copy=true, verify=false, untrusted=false, allow_outside=false))]
    fn new(
        py: Python<'_>,
        path: PathBuf,
        copy: bool,
        verify: bool,
        untrusted: bool,
        allow_outside: bool,
    ) -> PyResult<Dataset> {
        let options = Opening { verify, untrusted, allow_outside };
        let reader = options.open(py, &path)?;
        if reader.is_walked() {
            let path = kiste::storage::shown(&path);
            let message = format!(
                "{}.offsets not found, so all of the data was read to open it: pykiste.index makes it",
                path.display()
            );
            PyErr::warn(py, &py.get_type::<PyUserWarning>(), &CString::new(message)?, 1)?;
        }
        let map = if copy { None } else { Map::of(py, &reader)?.map(Arc::new) };
        let (opened, decoder) =
            (Mutex::new(Some(Opened { reader, map })), Mutex::new(Decoder::new()));
        Ok(Dataset { opened, decoder, path, copy, options })
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

    /// Whether each sample is compared with its checksum.
    #[getter]
    fn verify(&self) -> bool {
        self.options.verify
    }

    /// Whether files are read by calls, and not through memory maps.
    #[getter]
    fn untrusted(&self) -> bool {
        self.options.untrusted
    }

    /// Whether files that a manifest names may be links out of its folder.
    #[getter]
    fn allow_outside(&self) -> bool {
        self.options.allow_outside
    }

    /// Bytes of the data file.
    #[getter]
    fn data_size(&self) -> PyResult<u64> {
        Ok(self.reader()?.data_len())
    }

    /// The names of numeric labels, from `.labels`: the first is the name of label 0. `None` if there is no such file.
    ///
    /// >>> import pykiste as ki
    /// >>> path = getfixture("tmp_path") / "pets.msgpack"
    /// >>> with ki.Writer(path) as writer:
    /// ...     writer.write({"key": "a", "label": 1})
    /// ...     writer.set_labels(["cat", "dog"])
    /// >>> pets = ki.open(path)
    /// >>> pets.labels[pets["a"]["label"]]
    /// 'dog'
    #[getter]
    fn labels(&self, py: Python<'_>) -> PyResult<Option<Vec<String>>> {
        waiting(py, &self.reader()?, |reader| reader.labels())
    }

    /// The fields, their types and shapes, from the first 100 samples: a `pykiste.schema.Schema`, which is a mapping
    /// of names to fields and says how many samples it is from. Other samples may have more.
    ///
    /// >>> import numpy as np
    /// >>> import pykiste as ki
    /// >>> path = getfixture("tmp_path") / "pets.msgpack"
    /// >>> with ki.Writer(path) as writer:
    /// ...     writer.write({"key": "a", "label": 1, "points": np.zeros((4, 2), "float32")})
    /// >>> pets = ki.open(path)
    /// >>> pets.schema
    /// Schema of all samples (1):
    ///   key     str
    ///   label   int
    ///   points  array float32[4, 2]
    /// >>> pets.schema["points"].shape
    /// (4, 2)
    #[getter]
    fn schema<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        slf.py().import("pykiste.schema")?.getattr("Schema")?.call_method1("of", (slf,))
    }

    /// What `kiste info --json` prints, as a dict (`pykiste.reports.Info`): samples, bytes, the fields and arrays of
    /// the first 100 samples, files, and which side files there are. Behind a URL it fetches these samples and all of
    /// `.offsets`.
    ///
    /// >>> import pykiste as ki
    /// >>> path = getfixture("tmp_path") / "pets.msgpack"
    /// >>> with ki.Writer(path) as writer:
    /// ...     writer.write({"key": "a", "label": 1})
    /// >>> info = ki.open(path).info()
    /// >>> info["samples"], info["fields"], info["digests"], info["files"][0]["file"] == path
    /// (1, {'key': ['str'], 'label': ['int']}, True, True)
    fn info<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        about::info(py, self.reader()?, self.path.clone())
    }

    /// The statistics of the first samples.
    fn _first<'py>(&self, py: Python<'py>, samples: usize) -> PyResult<Bound<'py, PyAny>> {
        about::first(py, self.reader()?, samples)
    }

    /// Whether reading takes round trips over a network.
    fn _is_remote(&self) -> PyResult<bool> {
        Ok(self.reader()?.is_remote())
    }

    fn _repr_html_<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        slf.py().import("pykiste._notebook")?.call_method1("html", (slf,))
    }

    fn _ipython_key_completions_<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        slf.py().import("pykiste._notebook")?.call_method1("completions", (slf,))
    }

    fn __len__(&self) -> PyResult<usize> {
        Ok(self.reader()?.len())
    }

    fn __getitem__<'py>(&self, item: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let (py, opened) = (item.py(), self.opened()?);
        let reader = &opened.reader;
        if let Ok(slice) = item.cast::<PySlice>() {
            let range = slice.indices(reader.len() as isize)?;
            let at = |nth: usize| (range.start + nth as isize * range.step) as usize;
            let indices: Vec<usize> = (0..range.slicelength).map(at).collect();
            return Ok(self.samples(py, &opened, &indices)?.into_any());
        }
        let is_one = item.is_instance_of::<PyInt>()
            || item.is_instance_of::<PyString>()
            || is_scalar(item)?
            || item.hasattr("__index__")? && !item.hasattr("__len__")?;
        if is_one {
            let index = resolve(reader, item)?;
            return self.sample(py, &opened, index);
        }
        if are_bytes(item)? {
            let found = item.get_type().name()?;
            return Err(wrong_type(format!("expected an index or a key, found {found}")));
        }
        Ok(self.get_many(item)?.into_any())
    }

    /// The samples with these indices or keys, in their order, or chosen by a mask: a boolean
    /// for each sample. PyTorch's fetcher calls it.
    fn get_many<'py>(&self, items: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyList>> {
        let (py, opened) = (items.py(), self.opened()?);
        let chosen = Chosen::parse(items, opened.reader.len())?;
        self.samples(py, &opened, &chosen.resolve(py, &opened.reader)?)
    }

    fn __getitems__<'py>(&self, items: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyList>> {
        self.get_many(items)
    }

    fn __contains__(&self, key: &Bound<'_, PyAny>) -> PyResult<bool> {
        match key.cast::<PyString>() {
            Ok(key) => {
                let (reader, text) = (self.reader()?, key.to_str()?.to_owned());
                waiting(key.py(), &reader, move |reader| reader.contains_key(&text))
            }
            Err(_) => Ok(false),
        }
    }

    fn __iter__(&self) -> PyResult<Samples> {
        Ok(Samples::new(self.opened()?, self.options.verify))
    }

    /// The index of a key, or `None`.
    fn find(&self, py: Python<'_>, key: &str) -> PyResult<Option<usize>> {
        find(py, &self.reader()?, key)
    }

    /// The key of a sample.
    fn key(&self, index: &Bound<'_, PyAny>) -> PyResult<String> {
        let (py, reader) = (index.py(), self.reader()?);
        let index = resolve(&reader, index)?;
        waiting(py, &reader, move |reader| reader.key(index).map(Cow::into_owned))
    }

    /// All keys, in the order of the samples: a view, which has a length, and in which a key is looked up. It reads
    /// nothing until then.
    ///
    /// >>> import pykiste as ki
    /// >>> path = getfixture("tmp_path") / "letters.msgpack"
    /// >>> with ki.Writer(path) as writer:
    /// ...     for letter in "abc":
    /// ...         writer.write({"key": letter})
    /// >>> keys = ki.open(path).keys()
    /// >>> len(keys), "b" in keys, list(keys), list(reversed(keys))
    /// (3, True, ['a', 'b', 'c'], ['c', 'b', 'a'])
    fn keys<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        view(slf, "Keys")
    }

    /// All keys with their samples, in order, as pairs: a view, which reads a sample when its turn comes.
    ///
    /// >>> import pykiste as ki
    /// >>> path = getfixture("tmp_path") / "letters.msgpack"
    /// >>> with ki.Writer(path) as writer:
    /// ...     writer.write({"key": "a", "number": 1})
    /// >>> for key, sample in ki.open(path).items():
    /// ...     print(key, sample["number"])
    /// a 1
    fn items<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        view(slf, "Items")
    }

    /// All samples, in order: a view, as `items` is.
    ///
    /// >>> import pykiste as ki
    /// >>> path = getfixture("tmp_path") / "letters.msgpack"
    /// >>> with ki.Writer(path) as writer:
    /// ...     writer.write({"key": "a", "number": 1})
    /// >>> len(ki.open(path).values()), sum(sample["number"] for sample in ki.open(path).values())
    /// (1, 1)
    fn values<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        view(slf, "Values")
    }

    /// The keys one by one.
    fn _keys(&self, py: Python<'_>) -> PyResult<Keys> {
        Keys::new(py, self.reader()?)
    }

    /// A sample, or `default` if there is no such key or index.
    #[pyo3(signature = (item, default=None))]
    fn get<'py>(
        &self,
        item: &Bound<'py, PyAny>,
        default: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let (py, opened) = (item.py(), self.opened()?);
        match resolve(&opened.reader, item) {
            Ok(index) => self.sample(py, &opened, index).map(Some),
            Err(error) if is_absent(py, &error) => Ok(default),
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
        let raw = raw(py, &reader, index)?;
        if copy.unwrap_or(self.copy) {
            map = None;
        } else if map.is_none() {
            map = Map::of(py, &reader)?.map(Arc::new);
        }
        let view = map.map_or(Ok(None), |map| map.slice(py, &raw))?;
        Ok(view.unwrap_or_else(|| PyBytes::new(py, &raw).into_any()))
    }

    /// Asks the operating system to read these samples soon.
    fn prefetch(&self, indices: &Bound<'_, PyAny>) -> PyResult<()> {
        let (py, reader) = (indices.py(), self.reader()?);
        let indices = Chosen::parse(indices, reader.len())?.resolve(py, &reader)?;
        pool::apart(py, move || Reader::prefetch(&reader, &indices))
    }

    /// Whether it is the dataset that had this identity when it was pickled.
    fn _has_identity(&self, py: Python<'_>, identity: &str) -> PyResult<bool> {
        let identity = identity.to_owned();
        waiting(py, &self.reader()?, move |reader| reader.has_identity(&identity))
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

    /// A path, how large the data file was, how it was opened, and what tells it from another one of that size:
    /// another process opens the same in the same way, or fails.
    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<Pickled<'py>> {
        let reader = self.reader()?;
        let reopen = py.import("pykiste._pickle")?.getattr("reopen")?;
        let options = PyDict::new(py);
        options.set_item("verify", self.options.verify)?;
        options.set_item("untrusted", self.options.untrusted)?;
        options.set_item("allow_outside", self.options.allow_outside)?;
        let identity = waiting(py, &reader, |reader| reader.identity())?;
        let (samples, size) = (reader.len(), reader.data_len());
        Ok((reopen, (self.path.clone(), self.copy, samples, size, options, identity)))
    }

    fn __repr__(&self) -> String {
        // A URL may have a password in it.
        let path = kiste::storage::shown(&self.path);
        let given = [
            (!self.copy, ", copy=False"),
            (self.options.verify, ", verify=True"),
            (self.options.untrusted, ", untrusted=True"),
            (self.options.allow_outside, ", allow_outside=True"),
        ];
        let given: String =
            given.into_iter().filter(|(is_given, _)| *is_given).map(|(_, text)| text).collect();
        match self.reader() {
            Ok(reader) => format!("pykiste.Dataset({path:?}, {} samples{given})", reader.len()),
            Err(_) => format!("pykiste.Dataset({path:?}, closed)"),
        }
    }
}

/// A view of a dataset, as dicts have them.
fn view<'py>(dataset: &Bound<'py, Dataset>, class: &str) -> PyResult<Bound<'py, PyAny>> {
    dataset.py().import("pykiste._views")?.call_method1(class, (dataset,))
}

/// The function that makes a pickled dataset again, and its arguments.
type Pickled<'py> = (Bound<'py, PyAny>, (PathBuf, bool, usize, u64, Bound<'py, PyDict>, String));

/// Whether this is a scalar of NumPy, or an array or a tensor without axes.
fn is_scalar(item: &Bound<'_, PyAny>) -> PyResult<bool> {
    item.getattr_opt("ndim")?.map_or(Ok(false), |axes| axes.eq(0))
}

/// The reader as loaders take it.
pub(crate) fn shared(dataset: &Dataset) -> PyResult<Arc<dyn Reader>> {
    Ok(Arc::new(dataset.reader()?))
}
