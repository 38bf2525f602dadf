//! [`WithArrays`]: samples that reference rows of arrays, with the rows in their place.

use crate::error::Shown;
use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use super::row_cache::{Blocks, USUAL};
use crate::array::bcolz::Bcolz;
use crate::array::{ArrayOptions, At, PackedArray, Rows, row_count};
use crate::error::{Error, ErrorKind, Remedy, Result};
use crate::format::chunked::names;
use crate::format::msgpack::sample::fields;
use crate::format::msgpack::{RowRef, Value};
use crate::reader::lengths::About;
use crate::reader::{Location, Reader, pack};
use crate::sampler::Lengths;
use crate::storage::{Confined, Storage};

/// Where referenced arrays are, and how they are read.
///
/// Paths in samples are relative to this directory. A dataset from elsewhere must not make us read
/// arbitrary files, so absolute paths, `..` and symbolic links that lead out of the directory are
/// refused unless they are [allowed](Self::allow_outside).
#[derive(Debug, Clone)]
#[must_use]
pub struct ArraySource {
    dir: PathBuf,
    options: ArrayOptions,
    outside: bool,
    cache: usize,
}

impl ArraySource {
    /// Arrays in this directory, on the local file system.
    pub fn new(dir: impl Into<PathBuf>) -> ArraySource {
        let options = ArrayOptions::default();
        ArraySource { dir: dir.into(), options, outside: false, cache: USUAL }
    }

    /// How chunked arrays are opened, and from which storage.
    pub fn options(mut self, options: ArrayOptions) -> ArraySource {
        self.options = options;
        self
    }

    /// Whether paths may lead out of the directory. Default: no.
    pub fn allow_outside(mut self, allowed: bool) -> ArraySource {
        self.outside = allowed;
        self
    }

    /// How many bytes of decoded rows to cache, as for [`ArrayRows`](super::ArrayRows).
    pub fn cache(mut self, bytes: usize) -> ArraySource {
        self.cache = bytes;
        self
    }

    /// Opens an array: a file is a bloscpack container, a directory is a chunked array or one of
    /// bcolz.
    fn open(&self, name: &str, version: Option<u64>) -> Result<Box<dyn Rows>> {
        let path = Path::new(name);
        let normal = |part: Component<'_>| matches!(part, Component::Normal(_));
        if name.is_empty() || !(self.outside || path.components().all(normal)) {
            let message = "expected a path within the dataset's directory, found another";
            let error = Error::new(ErrorKind::Invalid, message);
            return Err(error.with_remedy(Remedy::AllowOutside));
        }
        let path = self.dir.join(path);
        let storage = &*self.options.storage;
        let outside = self.outside || storage.allows_outside();
        Confined::to(&self.dir).allow_outside(outside).resolve(storage, &path)?;
        let stat = storage.stat(&path)?;
        if stat.is_some_and(|stat| !stat.is_dir()) {
            if version.is_some() {
                let message = "expected a chunked array, which has versions, found a file";
                return Err(Error::new(ErrorKind::Invalid, message).at(&path));
            }
            return Ok(Box::new(PackedArray::open_in(storage, &path)?));
        }
        if version.is_none() && is_bcolz(storage, &path)? {
            return Ok(Box::new(Bcolz::open_in(self.options.storage.clone(), &path)?));
        }
        let at = version.map_or(At::Newest, At::Version);
        Ok(Box::new(self.options.open_at(&path, at)?))
    }
}

/// Whether a directory is one of bcolz: a table, or an array without versions.
fn is_bcolz(storage: &dyn Storage, dir: &Path) -> Result<bool> {
    let has = |name: &str| -> Result<bool> {
        let path = dir.join(name);
        Ok(storage.stat(&path)?.is_some())
    };
    Ok(has("__rootdirs__")? || (has(names::STORAGE)? && !has(names::VERSIONS)?))
}

/// The samples of another reader, with rows of arrays in place of [references](RowRef) to them.
///
/// Only top-level fields are resolved, not values within lists and maps. Everything else is passed
/// through unchanged; a sample without references is not copied. An array is opened at the first
/// reference to it, and stays open: of a chunked array this is the version that was the newest
/// then, so that all samples see the same one. Rows are packed, decoded and cached as by
/// [`ArrayRows`](super::ArrayRows), all arrays in one cache.
///
/// ```
/// use kiste::array::ArrayOptions;
/// use kiste::format::msgpack::RowRef;
/// use kiste::reader::WithArrays;
/// use kiste::value::DType;
/// use kiste::{DatasetReader, Reader, ReaderExt, Writer};
///
/// #[derive(serde::Serialize)]
/// struct Written { key: String, embedding: RowRef }
/// #[derive(serde::Deserialize)]
/// struct Read {
///     #[serde(with = "kiste::serde_ndarray")]
///     embedding: ndarray::Array1<f32>,
/// }
///
/// # let dir = tempfile::tempdir()?;
/// # let dir = dir.path();
/// let mut store = ArrayOptions::default().create(dir.join("embeddings"), DType::of::<f32>(), &[0, 2])?;
/// store.append(&(&ndarray::arr2(&[[1.0_f32, 2.0], [3.0, 4.0]])).into(), "two rows")?;
/// let mut writer = Writer::create(dir.join("words.msgpack"))?;
/// writer.write(&Written { key: "a".into(), embedding: RowRef::new("embeddings", 1) })?;
/// writer.finish()?;
///
/// let words = WithArrays::next_to(DatasetReader::open(dir.join("words.msgpack"))?);
/// assert_eq!(words.get_as::<Read>(0)?.embedding, ndarray::arr1(&[3.0, 4.0]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct WithArrays<R> {
    reader: R,
    source: ArraySource,
    arrays: Mutex<HashMap<Name, Opened>>,
    blocks: Blocks,
}

/// How a reference names an array.
type Name = (String, Option<u64>);

/// An array, and its number among those that were opened.
type Opened = (usize, Arc<dyn Rows>);

impl<R: Reader> WithArrays<R> {
    /// The samples of a reader, whose arrays are there.
    pub fn new(reader: R, source: ArraySource) -> WithArrays<R> {
        let blocks = Blocks::new(source.cache);
        WithArrays { reader, source, arrays: Mutex::default(), blocks }
    }

    /// The reader whose samples these are.
    pub fn inner(&self) -> &R {
        &self.reader
    }

    fn array(&self, name: &Name) -> Result<Opened> {
        // Other threads wait: they mostly want the same array.
        let mut arrays = self.arrays.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(opened) = arrays.get(name) {
            return Ok(opened.clone());
        }
        let opened = (arrays.len(), Arc::from(self.source.open(&name.0, name.1)?));
        arrays.insert(name.clone(), opened.clone());
        Ok(opened)
    }

    /// Appends the referenced row.
    fn pack(&self, reference: RowRef, out: &mut Vec<u8>) -> Result<()> {
        let RowRef { array, row, version } = reference;
        let (number, rows) = self.array(&(array, version))?;
        let count = row_count(rows.shape())?;
        let index = usize::try_from(row).ok().filter(|row| *row < count).ok_or_else(|| {
            Error::new(ErrorKind::Damaged, format!("expected a row below {count}, found {row}"))
        })?;
        self.blocks.row(number, &*rows, index)?.pack(out)
    }

    /// The sample with its rows; `None` if it refers to none.
    fn resolve(&self, raw: &[u8]) -> Result<Option<Vec<u8>>> {
        let entries: Vec<(&[u8], &[u8])> = fields(raw)?.collect::<Result<_, _>>()?;
        let references: Vec<Option<RowRef>> =
            entries.iter().map(|(_, value)| RowRef::decode(value)).collect::<Result<_, _>>()?;
        if references.iter().all(Option::is_none) {
            return Ok(None);
        }
        let mut out = Vec::with_capacity(raw.len());
        pack::map_len(entries.len(), &mut out)?;
        for ((name, value), reference) in entries.into_iter().zip(references) {
            out.extend_from_slice(name);
            let Some(reference) = reference else {
                out.extend_from_slice(value);
                continue;
            };
            let array = reference.array.clone();
            self.pack(reference, &mut out).map_err(|error| {
                let message = format!("field {}: array {array:?}: {error}", shown(name));
                let told = Error::new(error.kind(), message);
                match error.remedy().cloned() {
                    Some(remedy) => told.with_remedy(remedy).with_source(error),
                    None => told.with_source(error),
                }
            })?;
        }
        Ok(Some(out))
    }
}

/// The packed name of a field, for a message.
fn shown(name: &[u8]) -> String {
    match crate::format::msgpack::decode(name) {
        Ok(Value::String(text)) => format!("{:?}", text.as_str().unwrap_or("?")),
        Ok(other) => other.to_string(),
        Err(_) => "?".to_owned(),
    }
}

impl<R: Reader> Reader for WithArrays<R> {
    fn len(&self) -> usize {
        self.reader.len()
    }

    fn key(&self, index: usize) -> Result<Cow<'_, str>> {
        self.reader.key(index)
    }

    fn find(&self, key: &str) -> Result<Option<usize>> {
        self.reader.find(key)
    }

    fn may_repeat_keys(&self) -> bool {
        self.reader.may_repeat_keys()
    }

    fn get_raw(&self, index: usize) -> Result<Cow<'_, [u8]>> {
        let raw = self.reader.get_raw(index)?;
        match self.resolve(&raw).map_err(|error| self.locate(index).describe(error))? {
            Some(resolved) => Ok(Cow::Owned(resolved)),
            None => Ok(raw),
        }
    }

    fn find_all(&self, key: &str) -> Result<Vec<usize>> {
        self.reader.find_all(key)
    }

    fn contains_key(&self, key: &str) -> Result<bool> {
        self.reader.contains_key(key)
    }

    fn find_keys(&self, keys: &[&str]) -> Result<Vec<Option<usize>>> {
        self.reader.find_keys(keys)
    }

    fn labels(&self) -> Result<Option<Vec<String>>> {
        self.reader.labels()
    }

    /// Those of the samples with their references, which have no lengths themselves: not of packed samples.
    fn lengths(&self, column: &str) -> Result<Option<Arc<dyn Lengths>>> {
        match About::of(column) {
            About::Sample => Ok(None),
            _ => self.reader.lengths(column),
        }
    }

    fn sample_bytes(&self) -> Option<u64> {
        self.reader.sample_bytes()
    }

    /// Where the sample is that refers to rows.
    fn locate(&self, index: usize) -> Location {
        self.reader.locate(index)
    }

    fn is_remote(&self) -> bool {
        self.reader.is_remote()
    }

    fn prefetch(&self, indices: &[usize]) {
        self.reader.prefetch(indices);
    }
}

impl<R: fmt::Debug> fmt::Debug for WithArrays<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "WithArrays({:?}, arrays in {})", self.reader, Shown::of(&self.source.dir))
    }
}
