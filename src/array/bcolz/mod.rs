//! Directories of bcolz: arrays and tables, read and written.
//!
//! [`BcolzArray`] is one array, [`BcolzTable`] one table, [`Bcolz`] either of them.
//! [`BcolzOptions`] writes directories that the real bcolz opens.
//! `src/format/bcolz/FORMAT.md` specifies the files.
//!
//! Deliberately absent: changes in place, which bcolz makes without protection against crashes; and
//! arrays of Python objects, which are pickles.

use std::path::Path;
use std::sync::Arc;

use serde_json::{Map, Value};

use crate::error::{Error, ErrorKind, Result};
use crate::storage::{LocalStorage, Source, Storage};
use crate::value::{DType, NdArray};

use super::rows::Rows;

mod read;
mod table;
mod write;

pub use read::{BcolzArray, BcolzInfo};
pub use table::BcolzTable;
pub use write::BcolzOptions;

/// The contents of a directory of bcolz.
///
/// ```
/// use kiste::array::bcolz::{Bcolz, BcolzOptions};
/// use kiste::array::Rows;
/// use kiste::value::NdArray;
///
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("numbers");
/// let numbers: Vec<i32> = (0..1000).collect();
/// BcolzOptions::default().write(&path, &NdArray::from_ndarray(&ndarray::aview1(&numbers)))?;
///
/// let opened = Bcolz::open(&path)?;
/// assert!(matches!(opened, Bcolz::Array(_)));
/// assert_eq!(opened.shape(), [1000]);
/// assert_eq!(opened.read_rows(998..1000)?.to_ndarray::<i32>()?, ndarray::arr1(&[998, 999]).into_dyn());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub enum Bcolz {
    /// A carray.
    Array(BcolzArray),
    /// A ctable.
    Table(BcolzTable),
}

impl Bcolz {
    /// Opens a table where there is `__rootdirs__`, else an array, as `bcolz.open` does.
    pub fn open(path: impl AsRef<Path>) -> Result<Bcolz> {
        Bcolz::open_in(Arc::new(LocalStorage::mapped()), path)
    }

    /// The same in this storage.
    pub fn open_in(storage: Arc<dyn Storage>, path: impl AsRef<Path>) -> Result<Bcolz> {
        let path = path.as_ref();
        match exists(&*storage, &path.join(ROOTDIRS))? {
            true => BcolzTable::open_in(storage, path).map(Bcolz::Table),
            false => BcolzArray::open_in(storage, path).map(Bcolz::Array),
        }
    }

    /// The user's attributes. A table has its own, separate from its columns.
    pub fn attrs(&self) -> &Map<String, Value> {
        match self {
            Bcolz::Array(array) => array.attrs(),
            Bcolz::Table(table) => table.attrs(),
        }
    }

    /// How many rows were expected, if that is recorded; of the columns of a table the most.
    pub(crate) fn expected_len(&self) -> Option<u64> {
        let rows = match self {
            Bcolz::Array(array) => array.expectedlen(),
            Bcolz::Table(table) => {
                table.columns().map(|(_, column)| column.expectedlen()).max().unwrap_or(0)
            }
        };
        Some(rows).filter(|rows| *rows > 0)
    }

    fn as_rows(&self) -> &dyn Rows {
        match self {
            Bcolz::Array(array) => array,
            Bcolz::Table(table) => table,
        }
    }
}

impl Rows for Bcolz {
    fn dtype(&self) -> &DType {
        self.as_rows().dtype()
    }

    fn shape(&self) -> &[usize] {
        self.as_rows().shape()
    }

    fn step(&self) -> usize {
        self.as_rows().step()
    }

    fn read_rows(&self, rows: std::ops::Range<usize>) -> Result<NdArray<'static>> {
        self.as_rows().read_rows(rows)
    }
}

const ROOTDIRS: &str = "__rootdirs__";
const ATTRS: &str = "__attrs__";

fn exists(storage: &dyn Storage, path: &Path) -> Result<bool> {
    let stat = storage.stat(path)?;
    Ok(stat.is_some())
}

/// A file that may be missing.
fn open_file(storage: &dyn Storage, path: &Path) -> Result<Option<Source>> {
    match storage.open(path) {
        Ok(source) => Ok(Some(source)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// A small file as a whole, if it is there.
fn small_file(storage: &dyn Storage, path: &Path, most: u64) -> Result<Option<Vec<u8>>> {
    let Some(source) = open_file(storage, path)? else { return Ok(None) };
    if source.len() > most {
        let message = format!("expected at most {most} bytes, found {}", source.len());
        return Err(Error::new(ErrorKind::Limit, message).at(path));
    }
    let bytes = source.read(0..source.len())?;
    Ok(Some(bytes.into_owned()))
}

fn damaged(path: &Path, message: String) -> Error {
    Error::new(ErrorKind::Damaged, message).at(path)
}
