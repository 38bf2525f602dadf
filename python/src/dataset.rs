//! [`Dataset`]: samples by index and by key.

use std::borrow::Cow;
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use kiste::DatasetReader;
use kiste::compose::{Doing, View};
use kiste::reader::Reader;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyCapsule, PyDict, PyInt, PyList, PySlice, PyString, PyTuple};

use crate::about;
use crate::compose;
use crate::decode::Decoder;
use crate::errors::{bug, invalid, raise, wrong_type};
use crate::forensics;
use crate::indices::{Chosen, Position, are_bytes, find, is_absent, resolve};
use crate::interrupt::watched;
use crate::iterators::{Keys, Samples};
use crate::objects;
use crate::opening::Opening;
use crate::pool;
use crate::sampler::Sampler;
use crate::table::{self, ArrowTable};
use crate::view::Maps;

/// A dataset: a sequence of samples that is also looked up by key.
///
/// `path` is that of a data file, of a manifest or a recipe (`*.kiste.toml`), a pattern of shards, or a URL; or a list of
/// these and of datasets, one after the other.
///
/// Opening touches a few pages, at any size. `dataset[3]` and `dataset["cat/07.jpg"]` are samples,
/// which are dicts; a slice, a list of indices or keys, or a mask is a list of samples. An index is an integer or
/// anything with `__index__`. An index or a key that is not there is an `IndexError` or a `KeyError`, and what is neither
/// a `TypeError`. With `copy=False`, binary data and arrays are read-only views of the memory map, which they keep open.
///
/// `verify=True` compares each sample with its checksum. If another program truncates a file that is mapped, the
/// process dies; `untrusted=True` reads by calls and not through a map, which is slower, and makes that an error.
/// A manifest names files of its folder; `allow_outside=True` reads them also where they are links out of it. `progress`
/// hears how far the conditions of a recipe are evaluated, which happens once.
///
/// Datasets are made of others without a copy: see `range`, `select`, `without`, `where`, `with_fields`, `join`, `dedupe`,
/// `pykiste.concat` and `pykiste.Mixture`. What they make is a dataset as well, and `save` writes a recipe of it.
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
    /// All columns, once a program has asked for them: programs ask several times.
    table: Mutex<Option<Arc<ArrowTable>>>,
    /// The name that it was opened by, if it was.
    path: Option<PathBuf>,
    copy: bool,
    options: Opening,
}

/// An open dataset and its maps.
#[derive(Clone)]
pub(crate) struct Opened {
    view: View,
    /// The maps that samples are views of, with `copy=False`, if there are any.
    maps: Arc<Maps>,
    /// Whether all samples are in memory maps and not compared with checksums.
    is_direct: bool,
}

impl Opened {
    pub(crate) fn reader(&self) -> &Arc<dyn Reader> {
        self.view.reader()
    }

    /// Whether reading a sample is no more than taking its address, unless it is put together.
    pub(crate) fn is_direct(&self) -> bool {
        self.is_direct
    }
}

impl Dataset {
    /// Of a view that was opened with these options, or whose sources were.
    pub(crate) fn of(
        py: Python<'_>,
        view: View,
        copy: bool,
        options: Opening,
        verifies: bool,
    ) -> PyResult<Dataset> {
        let datasets = view.datasets();
        let is_direct = !verifies && datasets.iter().all(|dataset| dataset.mapped().is_some());
        let maps = if copy { Maps::default() } else { Maps::of(py, &datasets)? };
        let path = view.name().map(Path::to_path_buf);
        let opened = Opened { view, maps: Arc::new(maps), is_direct };
        Ok(Dataset::with(opened, path, copy, options))
    }

    fn with(opened: Opened, path: Option<PathBuf>, copy: bool, options: Opening) -> Dataset {
        let (opened, decoder) = (Mutex::new(Some(opened)), Mutex::new(Decoder::new()));
        Dataset { opened, decoder, table: Mutex::new(None), path, copy, options }
    }

    /// The same under the name that it had in another process.
    pub(crate) fn named(self, path: Option<PathBuf>) -> Dataset {
        Dataset { path: path.or(self.path), ..self }
    }

    /// Of the same samples in part or in another form, and of no others.
    fn made(&self, make: impl FnOnce(&View) -> PyResult<View>) -> PyResult<Dataset> {
        let opened = self.opened()?;
        let view = make(&opened.view)?;
        let path = view.name().map(Path::to_path_buf);
        Ok(Dataset::with(Opened { view, ..opened }, path, self.copy, self.options))
    }

    /// The same after work that may take long, which the callback hears of.
    fn made_slowly(
        &self,
        py: Python<'_>,
        progress: Option<Bound<'_, PyAny>>,
        make: impl FnOnce(&View, &mut Hears<'_>) -> kiste::Result<View> + Send + 'static,
    ) -> PyResult<Dataset> {
        self.made(|view| {
            let view = view.clone();
            watched(py, progress, move |messenger| make(&view, &mut |doing| messenger.doing(doing)))
        })
    }

    /// The reader. Clones share one memory map.
    pub(crate) fn reader(&self) -> PyResult<Arc<dyn Reader>> {
        self.with_opened(|opened| opened.reader().clone())
    }

    pub(crate) fn view(&self) -> PyResult<View> {
        self.with_opened(|opened| opened.view.clone())
    }

    pub(crate) fn options(&self) -> Opening {
        self.options
    }

    /// Whether any of its sources compares samples with checksums, or may.
    pub(crate) fn is_direct(&self) -> PyResult<bool> {
        self.with_opened(|opened| opened.is_direct)
    }

    pub(crate) fn copies(&self) -> bool {
        self.copy
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
        let reader = opened.reader();
        let samples = PyList::empty(py);
        let mut rest = indices;
        while !rest.is_empty() {
            let mut some = &rest[..rest.len().min(TOGETHER)];
            let fetched = self.fetch(py, opened, some)?;
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
        opened: &'a Opened,
        indices: &[usize],
    ) -> PyResult<Vec<Cow<'a, [u8]>>> {
        let reader = opened.reader();
        if reader.is_remote() {
            let indices = indices.to_vec();
            return waiting(py, reader, move |reader| {
                let all = reader.get_raw_many(&indices)?;
                Ok(all.into_iter().map(|raw| Cow::Owned(raw.into_owned())).collect())
            });
        }
        if opened.is_direct {
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

    /// The name that it was opened by.
    pub(crate) fn location(&self) -> Option<&Path> {
        self.path.as_deref()
    }
}

/// Rows of a batch of Arrow.
const ROWS: usize = 1 << 16;
/// Samples that are fetched together.
const TOGETHER: usize = 256;
/// Bytes of local samples that are read together.
const MOST: usize = 8 << 20;

/// Reads, without the lock of Python where that may take a round trip over a network, and until Ctrl-C. For
/// memory that is mapped, taking the lock again costs more than reading.
pub(crate) fn waiting<T: Send + 'static>(
    py: Python<'_>,
    reader: &Arc<dyn Reader>,
    read: impl FnOnce(&dyn Reader) -> kiste::Result<T> + Send + 'static,
) -> PyResult<T> {
    if !reader.is_remote() {
        return read(&**reader).map_err(raise);
    }
    let reader = reader.clone();
    pool::apart(py, move || read(&*reader))?.map_err(raise)
}

/// The packed bytes of a sample.
pub(crate) fn raw<'a>(
    py: Python<'_>,
    reader: &'a Arc<dyn Reader>,
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
    decoded(py, opened, index, &raw(py, opened.reader(), index)?, decoder)
}

fn decoded<'py>(
    py: Python<'py>,
    opened: &Opened,
    index: usize,
    raw: &[u8],
    decoder: &mut Decoder,
) -> PyResult<Bound<'py, PyAny>> {
    // The bytes are about to be copied.
    if opened.maps.is_empty() {
        objects::prefetch_pages(raw);
    }
    let decoded = decoder.sample(py, raw, opened.maps.holding(raw));
    decoded.map_err(|flaw| flaw.raise(py, |error| opened.reader().locate(index).describe(error)))
}

#[pymethods]
impl Dataset {
    #[new]
    #[pyo3(signature = (path, *, copy=true, verify=false, untrusted=false, allow_outside=false, progress=None))]
    fn new(
        path: &Bound<'_, PyAny>,
        copy: bool,
        verify: bool,
        untrusted: bool,
        allow_outside: bool,
        progress: Option<Bound<'_, PyAny>>,
    ) -> PyResult<Dataset> {
        let options = Opening { verify, untrusted, allow_outside };
        compose::open(path, copy, options, progress)
    }

    /// The path of the data file or of the recipe, or the URL that was given for it. `None` for a dataset that was made
    /// of others.
    #[getter]
    fn path(&self) -> Option<PathBuf> {
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

    /// Bytes of the data file, or of all data files that the samples come from.
    #[getter]
    fn data_size(&self) -> PyResult<u64> {
        let view = self.view()?;
        let mut seen = HashSet::new();
        let datasets = view.datasets();
        let each = datasets.iter().filter(|dataset| seen.insert(dataset.path()));
        Ok(each.map(DatasetReader::data_len).sum())
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
        about::info(py, self.view()?, self.location())
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
        let reader = opened.reader();
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
        let chosen = Chosen::parse(items, opened.reader().len())?;
        self.samples(py, &opened, &chosen.resolve(py, opened.reader())?)
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
        Ok(Samples::new(self.opened()?))
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
        match resolve(opened.reader(), item) {
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
        let (py, Opened { view, mut maps, .. }) = (item.py(), self.opened()?);
        let reader = view.reader();
        let index = resolve(reader, item)?;
        let raw = raw(py, reader, index)?;
        if copy.unwrap_or(self.copy) {
            maps = Arc::default();
        } else if maps.is_empty() {
            maps = Arc::new(Maps::of(py, &view.datasets())?);
        }
        let view = maps.holding(&raw).map_or(Ok(None), |map| map.slice(py, &raw))?;
        Ok(view.unwrap_or_else(|| PyBytes::new(py, &raw).into_any()))
    }

    /// Asks the operating system to read these samples soon.
    fn prefetch(&self, indices: &Bound<'_, PyAny>) -> PyResult<()> {
        let (py, reader) = (indices.py(), self.reader()?);
        let indices = Chosen::parse(indices, reader.len())?.resolve(py, &reader)?;
        pool::apart(py, move || reader.prefetch(&indices))
    }

    /// Whether it is the dataset that had this identity when it was pickled.
    fn _has_identity(&self, py: Python<'_>, identity: &str) -> PyResult<bool> {
        let identity = identity.to_owned();
        waiting(py, &self.reader()?, move |reader| match DatasetReader::of(reader) {
            Some(dataset) => dataset.has_identity(&identity),
            None => Ok(reader.identity()? == identity),
        })
    }

    /// Some consecutive samples, from `start` up to `stop`: a dataset, as all that is made of others.
    ///
    /// >>> import pykiste as ki
    /// >>> path = getfixture("tmp_path") / "letters.msgpack"
    /// >>> with ki.Writer(path) as writer:
    /// ...     for letter in "abcd":
    /// ...         writer.write({"key": letter})
    /// >>> list(ki.open(path).range(1, 3).keys())
    /// ['b', 'c']
    fn range(&self, start: Position<isize>, stop: Position<isize>) -> PyResult<Dataset> {
        let (start, stop) = (start.0, stop.0);
        self.made(|view| match (usize::try_from(start), usize::try_from(stop)) {
            (Ok(start), Ok(stop)) => view.range(start..stop).map_err(raise),
            _ => {
                let len = view.reader().len();
                Err(invalid(format!("expected a range within 0..{len}, found {start}..{stop}")))
            }
        })
    }

    /// The samples with these keys or indices, in this order, or of a mask: a boolean for each sample. A key or an index
    /// may come more than once; one that is not there is a `KeyError` or an `IndexError`.
    ///
    /// >>> import pykiste as ki
    /// >>> path = getfixture("tmp_path") / "letters.msgpack"
    /// >>> with ki.Writer(path) as writer:
    /// ...     for letter in "abcd":
    /// ...         writer.write({"key": letter})
    /// >>> letters = ki.open(path)
    /// >>> list(letters.select(keys=["d", "a"]).keys()), list(letters.select(indices=[2, -1]).keys())
    /// (['d', 'a'], ['c', 'd'])
    /// >>> list(letters.select(mask=[True, False, False, True]).keys())
    /// ['a', 'd']
    #[pyo3(signature = (*, keys=None, indices=None, mask=None))]
    fn select(
        &self,
        py: Python<'_>,
        keys: Option<&Bound<'_, PyAny>>,
        indices: Option<&Bound<'_, PyAny>>,
        mask: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Dataset> {
        self.made(|view| match (keys, indices, mask) {
            (Some(keys), None, None) => compose::select_keys(py, view, keys),
            (None, Some(indices), None) => compose::select_indices(py, view, indices),
            (None, None, Some(mask)) => compose::select_mask(view, mask),
            _ => Err(invalid("expected one of keys, indices and mask")),
        })
    }

    /// All samples but those with these keys. Keys that no sample has are passed over, and counted in `left_out`.
    ///
    /// >>> import pykiste as ki
    /// >>> path = getfixture("tmp_path") / "letters.msgpack"
    /// >>> with ki.Writer(path) as writer:
    /// ...     for letter in "abcd":
    /// ...         writer.write({"key": letter})
    /// >>> some = ki.open(path).without(["b", "x"])
    /// >>> list(some.keys()), some.left_out[0]["samples"], some.left_out[0]["unknown_keys"]
    /// (['a', 'c', 'd'], 1, 1)
    fn without(&self, py: Python<'_>, keys: &Bound<'_, PyAny>) -> PyResult<Dataset> {
        let keys = compose::texts(keys, "keys")?;
        self.made(|view| {
            let view = view.clone();
            pool::apart(py, move || view.without_keys(keys))?.map_err(raise)
        })
    }

    /// The samples that meet a condition, as `kiste filter` takes it. It is evaluated once, now, and decodes only the
    /// fields that it names; `progress` is called with a dict about four times a second. `left_out` says how many samples do
    /// not meet it, and where it compared values of different kinds.
    ///
    /// >>> import pykiste as ki
    /// >>> path = getfixture("tmp_path") / "numbers.msgpack"
    /// >>> with ki.Writer(path) as writer:
    /// ...     for number in range(10):
    /// ...         writer.write({"key": str(number), "number": number})
    /// >>> some = ki.open(path).where("number >= 7 and key != '8'")
    /// >>> len(some), some.left_out[0]["samples"]
    /// (2, 8)
    #[pyo3(signature = (condition, *, progress=None))]
    fn r#where(
        &self,
        py: Python<'_>,
        condition: String,
        progress: Option<Bound<'_, PyAny>>,
    ) -> PyResult<Dataset> {
        self.made_slowly(py, progress, move |view, hears| view.filter(&condition, hears))
    }

    /// The samples with some of their fields, or with other names for them. `keep` or `drop` come first: `rename` names
    /// what is left, by its old names. The key stays. A field that no sample has is an error.
    ///
    /// >>> import pykiste as ki
    /// >>> path = getfixture("tmp_path") / "pets.msgpack"
    /// >>> with ki.Writer(path) as writer:
    /// ...     writer.write({"key": "a", "class": 1, "seen": 3})
    /// >>> ki.open(path).with_fields(drop=["seen"], rename={"class": "label"})[0]
    /// {'key': 'a', 'label': 1}
    #[pyo3(signature = (*, keep=None, drop=None, rename=None, progress=None))]
    fn with_fields(
        &self,
        py: Python<'_>,
        keep: Option<&Bound<'_, PyAny>>,
        drop: Option<&Bound<'_, PyAny>>,
        rename: Option<&Bound<'_, PyDict>>,
        progress: Option<Bound<'_, PyAny>>,
    ) -> PyResult<Dataset> {
        let names = compose::field_names(keep, drop, rename)?;
        self.made_slowly(py, progress, move |view, hears| view.with_fields(names, hears))
    }

    /// The samples with the fields that another dataset has for their keys. Samples that it does not have are left out;
    /// with `how="left"` they stay, with the values of `missing` or without these fields.
    ///
    /// `other` is a dataset or the name of one, `fields` are those to take from it: all, by default. A name that both have is
    /// an error unless there is a `prefix`, which all names of the other side then get.
    ///
    /// >>> import pykiste as ki
    /// >>> folder = getfixture("tmp_path")
    /// >>> with ki.Writer(folder / "images.msgpack") as writer:
    /// ...     for name in "ab":
    /// ...         writer.write({"key": name, "image": name.encode()})
    /// >>> with ki.Writer(folder / "captions.msgpack") as writer:
    /// ...     writer.write({"key": "b", "caption": "a bee"})
    /// >>> images = ki.open(folder / "images.msgpack")
    /// >>> images.join(folder / "captions.msgpack")[0]
    /// {'key': 'b', 'image': b'b', 'caption': 'a bee'}
    /// >>> images.join(folder / "captions.msgpack", how="left", missing={"caption": None})[0]
    /// {'key': 'a', 'image': b'a', 'caption': None}
    #[pyo3(signature = (other, how="inner", *, fields=None, prefix=None, missing=None, progress=None))]
    #[expect(clippy::too_many_arguments, reason = "keyword arguments of Python")]
    fn join(
        &self,
        py: Python<'_>,
        other: &Bound<'_, PyAny>,
        how: &str,
        fields: Option<&Bound<'_, PyAny>>,
        prefix: Option<String>,
        missing: Option<&Bound<'_, PyDict>>,
        progress: Option<Bound<'_, PyAny>>,
    ) -> PyResult<Dataset> {
        let join = compose::join(how, fields, prefix, missing)?;
        let (left, right) = (self.view()?, compose::Part::parse(other, self.options)?);
        let is_direct = self.is_direct()? && right.is_direct;
        let (view, options) = (right.view, self.options.and(right.options));
        let joined = watched(py, progress, move |messenger| {
            left.join(&view, join, &mut |doing| messenger.doing(doing))
        })?;
        Dataset::of(py, joined, self.copy, options, !is_direct)
    }

    /// The first of all samples with one key, or with one value of the field `by`. Values are compared as they are packed:
    /// 1 and 1.0 differ. Samples without the field stay.
    ///
    /// >>> import pykiste as ki
    /// >>> path = getfixture("tmp_path") / "numbers.msgpack"
    /// >>> with ki.Writer(path) as writer:
    /// ...     for number in range(10):
    /// ...         writer.write({"key": str(number), "class": number % 3})
    /// >>> numbers = ki.open(path)
    /// >>> len(ki.concat([numbers, numbers]).dedupe()), list(numbers.dedupe(by="class").keys())
    /// (10, ['0', '1', '2'])
    #[pyo3(signature = (*, by=None, progress=None))]
    fn dedupe(
        &self,
        py: Python<'_>,
        by: Option<String>,
        progress: Option<Bound<'_, PyAny>>,
    ) -> PyResult<Dataset> {
        self.made_slowly(py, progress, move |view, hears| view.dedupe(by.as_deref(), hears))
    }

    /// Samples whose keys come before, as pairs: the index of the first sample with that key, and of the later one.
    ///
    /// >>> import pykiste as ki
    /// >>> path = getfixture("tmp_path") / "letters.msgpack"
    /// >>> with ki.Writer(path) as writer:
    /// ...     for letter in "abc":
    /// ...         writer.write({"key": letter})
    /// >>> letters = ki.open(path)
    /// >>> letters.duplicates(), ki.concat([letters, letters.range(1, 3)]).duplicates()
    /// ([], [(1, 3), (2, 4)])
    #[pyo3(signature = (*, progress=None))]
    fn duplicates(
        &self,
        py: Python<'_>,
        progress: Option<Bound<'_, PyAny>>,
    ) -> PyResult<Vec<(usize, usize)>> {
        let view = self.view()?;
        watched(py, progress, move |messenger| view.duplicates(&mut |doing| messenger.doing(doing)))
    }

    /// What was left out on the way to these samples, in the order in which it was: dicts with the `step` ("where",
    /// "without", "join", …), the `rule`, the number of `samples`, `unknown_keys` that were named and are not there, and
    /// `remarks`. Of a left join `samples` have no fields of the other side. See `pykiste.reports.LeftOut`.
    #[getter]
    fn left_out<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        compose::left_out(py, &self.view()?)
    }

    /// The samples as a table of Arrow (`pykiste.ArrowTable`), which DuckDB, polars, pandas and pyarrow read as a stream,
    /// a few batches at a time: `duckdb.sql("select … from pets")`, `polars.DataFrame(pets)`,
    /// `pandas.DataFrame.from_arrow(pets)`, `pyarrow.table(pets)`. The dataset itself is such a table of all fields.
    ///
    /// `fields` are the columns, in this order: no other field is decoded. Bytes are not copied: a column of them points
    /// into the memory map, which it keeps open, unless with `views=False`. The integers of `label` become a dictionary
    /// of their names, and NumPy scalars and arrays keep their types; `docs/arrow.md` lists them. Of a mixture there is
    /// each sample of its sources once.
    ///
    /// The columns are found from some 2,000 samples, from `infer` of them, or from `infer="all"`. A field without
    /// a value in any of them is an `InvalidError`, and so is a value that no column can hold. A later value that does not fit
    /// is an error of the stream that names the sample.
    ///
    /// >>> import pykiste as ki
    /// >>> path = getfixture("tmp_path") / "pets.msgpack"
    /// >>> with ki.Writer(path) as writer:
    /// ...     writer.write({"key": "a", "label": 1, "image": b"\xff\xd8"})
    /// ...     writer.set_labels(["cat", "dog"])
    /// >>> print(ki.open(path).to_arrow(["label", "key"]).schema)
    /// label: Dictionary(Int32, Utf8)
    /// key: Utf8
    #[pyo3(signature = (fields=None, *, batch_size=65536, views=true, infer=None))]
    fn to_arrow(
        &self,
        py: Python<'_>,
        fields: Option<Vec<String>>,
        batch_size: usize,
        views: bool,
        infer: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<ArrowTable> {
        let options = table::Options::new(fields, batch_size, views, infer)?;
        ArrowTable::open(py, self.view()?, options)
    }

    /// A stream of all fields by Arrow's C interface: see `to_arrow`.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyCapsule>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let view = self.view()?;
        let known = || self.table.lock().unwrap_or_else(PoisonError::into_inner);
        let found = known().clone();
        let table = match found {
            Some(table) => table,
            None => {
                // Another thread may do the same, and wait for the lock of Python that this one holds.
                let options = table::Options::new(None, ROWS, true, None)?;
                let table = Arc::new(ArrowTable::open(py, view, options)?);
                known().insert(table).clone()
            }
        };
        table.stream(py, requested_schema)
    }

    /// The sources of a mixture or a recipe, by their names; `None` for other datasets.
    ///
    /// >>> import pykiste as ki
    /// >>> path = getfixture("tmp_path") / "letters.msgpack"
    /// >>> with ki.Writer(path) as writer:
    /// ...     for letter in "abc":
    /// ...         writer.write({"key": letter})
    /// >>> letters = ki.open(path)
    /// >>> mixture = ki.Mixture({"all": (letters, 3), "some": (letters.range(0, 2), 1)})
    /// >>> {name: len(source) for name, source in mixture.sources.items()}
    /// {'all': 3, 'some': 2}
    #[getter]
    fn sources<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        let opened = self.opened()?;
        let Some(sources) = opened.view.sources() else { return Ok(None) };
        let dict = PyDict::new(py);
        for (name, view) in sources {
            let verifies = !opened.is_direct;
            let source = Dataset::of(py, view.clone(), self.copy, self.options, verifies)?;
            dict.set_item(name, source)?;
        }
        Ok(Some(dict))
    }

    /// The order in which a `Loader` has the samples unless it is given another one: a mixture's own, or else as they
    /// are stored.
    ///
    /// >>> import pykiste as ki
    /// >>> path = getfixture("tmp_path") / "letters.msgpack"
    /// >>> with ki.Writer(path) as writer:
    /// ...     for letter in "abc":
    /// ...         writer.write({"key": letter})
    /// >>> ki.open(path).sampler()
    /// pykiste.Sampler.sequential(3)
    fn sampler(&self) -> PyResult<Sampler> {
        Sampler::of(&self.view()?)
    }

    /// Where a run sees the samples with this key: tuples of epoch and position, in this epoch or in all of these. The
    /// order is that of `sampler()`. `Loader.where_is` knows steps and ranks as well.
    ///
    /// >>> import pykiste as ki
    /// >>> path = getfixture("tmp_path") / "letters.msgpack"
    /// >>> with ki.Writer(path) as writer:
    /// ...     for letter in "abc":
    /// ...         writer.write({"key": letter})
    /// >>> letters = ki.open(path)
    /// >>> mixture = ki.Mixture({"all": (letters, 3), "one": (letters.range(0, 1), 1)}, samples=8, seed=1)
    /// >>> seen = mixture.where_is("b", epochs=range(2))
    /// >>> all(mixture.key(mixture.sampler().order(epoch)[position]) == "b" for epoch, position in seen)
    /// True
    #[pyo3(signature = (key, epochs=None))]
    fn where_is(
        &self,
        py: Python<'_>,
        key: String,
        epochs: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Vec<(u64, u64)>> {
        forensics::where_is(py, &self.view()?, key, epochs)
    }

    /// Writes a recipe of this dataset, `NAME.kiste.toml`, which `pykiste.open` opens as the same one. It names the datasets
    /// that the samples come from, relative to the recipe where they are in its folder or were opened by a relative path.
    /// What conditions and selections chose is kept in `NAME.kiste.kept` next to it.
    ///
    /// >>> import pykiste as ki
    /// >>> folder = getfixture("tmp_path")
    /// >>> with ki.Writer(folder / "numbers.msgpack") as writer:
    /// ...     for number in range(10):
    /// ...         writer.write({"key": str(number), "number": number})
    /// >>> ki.open(folder / "numbers.msgpack").where("number > 6").save(folder / "some.kiste.toml")
    /// >>> list(ki.open(folder / "some.kiste.toml").keys())
    /// ['7', '8', '9']
    #[pyo3(signature = (path, *, overwrite=false))]
    fn save(&self, py: Python<'_>, path: PathBuf, overwrite: bool) -> PyResult<()> {
        let view = self.view()?;
        pool::apart(py, move || view.save(path, overwrite).map(drop))?.map_err(raise)
    }

    /// Closes it. Views of its memory stay valid: the last of them closes the map. So do datasets that were made of it.
    fn close(&self) -> PyResult<()> {
        let opened = self.opened.lock().map_err(|_| bug("a reader panicked"))?.take();
        let table = self.table.lock().unwrap_or_else(PoisonError::into_inner).take();
        // No longer locked: they may be the last that have the map.
        drop((opened, table));
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
    /// another process opens the same in the same way, or fails. What was made of others has a description.
    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let view = self.view()?;
        let functions = py.import("pykiste._pickle")?;
        let options = PyDict::new(py);
        options.set_item("verify", self.options.verify)?;
        options.set_item("untrusted", self.options.untrusted)?;
        options.set_item("allow_outside", self.options.allow_outside)?;
        let Some(dataset) = view.dataset() else {
            let described = compose::described(py, view, self.copy, &self.path, options)?;
            return (functions.getattr("compose")?, described).into_pyobject(py);
        };
        let identity = waiting(py, view.reader(), |reader| reader.identity())?;
        let (samples, size) = (dataset.len(), dataset.data_len());
        let path = self.path.clone();
        let parts = (path, self.copy, samples, size, options, identity);
        (functions.getattr("reopen")?, parts).into_pyobject(py)
    }

    fn __repr__(&self) -> String {
        let given = [
            (!self.copy, ", copy=False"),
            (self.options.verify, ", verify=True"),
            (self.options.untrusted, ", untrusted=True"),
            (self.options.allow_outside, ", allow_outside=True"),
        ];
        let given: String =
            given.into_iter().filter(|(is_given, _)| *is_given).map(|(_, text)| text).collect();
        // A URL may have a password in it.
        let path = self.path.as_deref().map(kiste::storage::shown);
        let view = self.view().ok();
        let what = match (path, &view) {
            (Some(path), _) => format!("{path:?}, "),
            (None, Some(view)) => format!("{view}, "),
            (None, None) => String::new(),
        };
        match view {
            Some(view) => {
                format!("pykiste.Dataset({what}{} samples{given})", view.reader().len())
            }
            None => format!("pykiste.Dataset({what}closed)"),
        }
    }
}

/// A view of a dataset, as dicts have them.
fn view<'py>(dataset: &Bound<'py, Dataset>, class: &str) -> PyResult<Bound<'py, PyAny>> {
    dataset.py().import("pykiste._views")?.call_method1(class, (dataset,))
}

/// What hears how far a step is.
pub(crate) type Hears<'a> = dyn FnMut(Doing<'_>) -> kiste::Result<()> + 'a;

/// Whether this is a scalar of NumPy, or an array or a tensor without axes.
fn is_scalar(item: &Bound<'_, PyAny>) -> PyResult<bool> {
    item.getattr_opt("ndim")?.map_or(Ok(false), |axes| axes.eq(0))
}
