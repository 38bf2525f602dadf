//! Every way to open or create a chunked array.

use std::path::Path;
use std::sync::Arc;

use serde_json::{Map, Value};

use crate::array::chunked::at::{At, resolve};
use crate::array::chunked::files::Files;
use crate::array::chunked::options::ArrayOptions;
use crate::array::chunked::read::ChunkedArray;
use crate::array::chunked::version::threads_of;
use crate::array::chunked::write::{self, ArrayStore};
use crate::array::on_disk::expect_on_disk;
use crate::array::rows::Rows;
use crate::error::{ErrorKind, Result};
use crate::value::DType;

impl ArrayOptions {
    /// Opens the newest version for reading.
    pub fn open(&self, path: impl AsRef<Path>) -> Result<ChunkedArray> {
        self.open_at(path, At::Newest)
    }

    /// Opens a version for reading.
    pub fn open_at(&self, path: impl AsRef<Path>, at: At) -> Result<ChunkedArray> {
        self.expect_place(path.as_ref())?;
        let files = Arc::new(Files::of(self, path.as_ref()));
        // An array that is not versioned may lose the version between listing and reading it.
        let mut tries = 3;
        loop {
            tries -= 1;
            match resolve(&files, at) {
                Err(e) if e.kind() == ErrorKind::NotFound && tries > 0 && at == At::Newest => {}
                version => return ChunkedArray::of(files, version?, threads_of(self)?),
            }
        }
    }

    /// Opens an array for writing. There is one writer at a time; for a second one the error is
    /// [`ErrorKind::Locked`].
    pub fn open_store(&self, path: impl AsRef<Path>) -> Result<ArrayStore> {
        self.expect_place(path.as_ref())?;
        write::open::open(self, path.as_ref())
    }

    /// Creates an array full of the fill value, and opens it for writing.
    pub fn create(
        &self,
        path: impl AsRef<Path>,
        dtype: DType,
        shape: &[usize],
    ) -> Result<ArrayStore> {
        self.expect_place(path.as_ref())?;
        write::open::create(self, path.as_ref(), dtype, shape)
    }

    /// Fails for a URL, unless there is a storage for it.
    pub(crate) fn expect_place(&self, path: &Path) -> Result<()> {
        if self.on_disk { expect_on_disk(path) } else { Ok(()) }
    }

    /// Creates an array from all rows of another one, with these attributes, as version 1. The rows may
    /// be larger than memory. Until the last one is written there is no version, so after a crash there
    /// is no array either, and another one may be created in its place.
    ///
    /// ```
    /// use kiste::array::{ArrayOptions, ChunkedArray};
    /// use kiste::value::NdArray;
    /// use serde_json::Map;
    ///
    /// # let dir = tempfile::tempdir()?;
    /// # let path = dir.path().join("numbers");
    /// let numbers: Vec<u32> = (0..100_000).collect();
    /// let rows = ndarray::Array1::from(numbers);
    /// let rows = NdArray::from_ndarray(&rows);
    /// let store = ArrayOptions::default().create_from(&path, &rows, Map::new(), "imported")?;
    /// assert_eq!(store.array().version(), 1);
    /// assert_eq!(store.array().get::<u32>(99_999)?.sum(), 99_999);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn create_from(
        &self,
        path: impl AsRef<Path>,
        rows: &dyn Rows,
        attributes: Map<String, Value>,
        message: &str,
    ) -> Result<ArrayStore> {
        self.expect_place(path.as_ref())?;
        write::open::create_from(self, path.as_ref(), rows, attributes, message)
    }
}

impl ChunkedArray {
    /// Opens the newest version.
    pub fn open(path: impl AsRef<Path>) -> Result<ChunkedArray> {
        ArrayOptions::default().open(path)
    }

    /// Opens a version.
    pub fn open_at(path: impl AsRef<Path>, at: At) -> Result<ChunkedArray> {
        ArrayOptions::default().open_at(path, at)
    }

    /// Options for opening an array in other ways.
    pub fn options() -> ArrayOptions {
        ArrayOptions::default()
    }
}

impl ArrayStore {
    /// Opens an array for writing. For a second writer the error is [`ErrorKind::Locked`], also under
    /// another name of the array; the lock ends with the store, or with its process.
    ///
    /// Files that a killed writer left unfinished are removed. The name may be a symbolic link. If
    /// a directory or file inside the array is a link, which only reading follows, the error is
    /// [`ErrorKind::Unsupported`] and nothing is changed.
    pub fn open(path: impl AsRef<Path>) -> Result<ArrayStore> {
        ArrayOptions::default().open_store(path)
    }

    /// Creates an array full of the fill value, and opens it for writing.
    pub fn create(
        path: impl AsRef<Path>,
        dtype: DType,
        shape: &[usize],
        options: &ArrayOptions,
    ) -> Result<ArrayStore> {
        options.create(path, dtype, shape)
    }
}
