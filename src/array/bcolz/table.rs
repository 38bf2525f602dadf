//! A table: columns of the same length.

use crate::error::Shown;
use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Map, Value};

use crate::error::{Error, ErrorKind, Result};
use crate::format::bcolz::{MAX_META_BYTES, parse_names};
use crate::storage::{LocalStorage, Storage};
use crate::value::{DType, Field, NdArray};

use super::read::{BcolzArray, attrs};
use super::{ROOTDIRS, damaged, small_file};
use crate::array::rows::{Rows, check_rows};

/// A table in a directory of bcolz, a *ctable*: an array of a structured type whose columns are
/// stored apart. A column is read by itself; rows are put together of all of them.
///
/// ```
/// use kiste::array::bcolz::{BcolzOptions, BcolzTable};
/// use kiste::value::NdArray;
///
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("points");
/// let points = NdArray::new("[('id', '<i2'), ('x', '|u1', (2,))]".parse()?, [2], &[1, 0, 7, 8, 2, 0, 9, 9][..])?;
/// BcolzOptions::default().write(&path, &points)?;
///
/// let table = BcolzTable::open(&path)?;
/// assert_eq!(table.names().collect::<Vec<_>>(), ["id", "x"]);
/// assert_eq!(table.column("x")?.shape(), [2, 2]);
/// assert_eq!(table.rows(0..2)?, points);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct BcolzTable {
    root: PathBuf,
    columns: Vec<(String, BcolzArray)>,
    dtype: DType,
    shape: [usize; 1],
    attrs: Map<String, Value>,
}

impl BcolzTable {
    /// Opens a directory.
    pub fn open(path: impl AsRef<Path>) -> Result<BcolzTable> {
        BcolzTable::open_in(Arc::new(LocalStorage::mapped()), path)
    }

    /// Opens a directory of this storage.
    pub fn open_in(storage: Arc<dyn Storage>, root: impl AsRef<Path>) -> Result<BcolzTable> {
        let root = root.as_ref();
        let path = root.join(ROOTDIRS);
        let Some(bytes) = small_file(&*storage, &path, MAX_META_BYTES)? else {
            return Err(damaged(&path, "expected the columns of a bcolz table, found none".into()));
        };
        let names = parse_names(&bytes).map_err(|error| Error::from(error).at(&path))?;
        let mut columns: Vec<(String, BcolzArray)> = Vec::new();
        for name in names {
            let column = BcolzArray::open_in(storage.clone(), root.join(&name))?;
            let len = columns.first().map_or(column.len(), |(_, first)| first.len());
            if column.len() != len {
                let message = format!("expected a column of {len} rows, found {}", column.len());
                return Err(damaged(&root.join(&name), message));
            }
            columns.push((name, column));
        }
        let fields = columns.iter().map(|(name, column)| {
            Field::new(name.clone(), column.dtype().clone()).with_shape(&column.shape()[1..])
        });
        let dtype =
            DType::structure(fields.collect::<Vec<_>>()).map_err(|error| error.at(&path))?;
        let shape = [columns.first().map_or(0, |(_, column)| column.len())];
        // Columns of one byte may have many rows, and whole rows may exceed memory.
        if shape[0].checked_mul(dtype.item_size()).is_none_or(|size| isize::try_from(size).is_err())
        {
            let message =
                format!("{} rows of {} bytes are more than memory", shape[0], dtype.item_size());
            return Err(Error::new(ErrorKind::Limit, message).at(root));
        }
        let attrs = attrs(&*storage, root)?;
        Ok(BcolzTable { root: root.to_path_buf(), columns, dtype, shape, attrs })
    }

    /// The number of rows.
    pub fn len(&self) -> usize {
        self.shape[0]
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The structured type of a row: a field for each column, with the shape of its rows.
    pub fn dtype(&self) -> &DType {
        &self.dtype
    }

    /// The names of the columns in their order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.columns.iter().map(|(name, _)| name.as_str())
    }

    /// The columns in their order.
    pub fn columns(&self) -> impl Iterator<Item = (&str, &BcolzArray)> {
        self.columns.iter().map(|(name, column)| (name.as_str(), column))
    }

    /// The column of this name.
    pub fn column(&self, name: &str) -> Result<&BcolzArray> {
        let found = self.columns.iter().find(|(column, _)| column == name);
        found.map(|(_, column)| column).ok_or_else(|| {
            let message = format!("the table has no column {name:?}");
            Error::new(ErrorKind::NotFound, message).at(&self.root)
        })
    }

    /// The attributes of the table; columns have some of their own.
    pub fn attrs(&self) -> &Map<String, Value> {
        &self.attrs
    }

    /// These rows of all columns.
    pub fn rows(&self, rows: Range<usize>) -> Result<NdArray<'static>> {
        check_rows(&rows, self.len())?;
        self.joined(rows.len(), |column| column.rows(rows.clone()))
    }

    /// Chosen rows of all columns, in the given order.
    pub fn select(&self, rows: &[usize]) -> Result<NdArray<'static>> {
        self.joined(rows.len(), |column| column.select(rows))
    }

    /// The whole table.
    pub fn read(&self) -> Result<NdArray<'static>> {
        self.rows(0..self.len())
    }

    /// Joins what each column returns into rows.
    fn joined(
        &self,
        count: usize,
        of: impl Fn(&BcolzArray) -> Result<NdArray<'static>>,
    ) -> Result<NdArray<'static>> {
        let size = self.dtype.item_size();
        let too_large = || Error::new(ErrorKind::Limit, "the rows are larger than memory");
        let total = count.checked_mul(size).filter(|&total| isize::try_from(total).is_ok());
        let total = total.ok_or_else(too_large)?;
        // The first column is read before memory is allocated: the row count may be wrong.
        let (mut out, mut offset) = (Vec::new(), 0);
        for (_, column) in &self.columns {
            let values = of(column)?;
            let width = values.bytes().len() / count.max(1);
            if width == 0 {
                // No column has rows of no bytes: there are no rows.
                break;
            }
            out.resize(total, 0);
            for (row, value) in out.chunks_exact_mut(size).zip(values.bytes().chunks_exact(width)) {
                row[offset..offset + width].copy_from_slice(value);
            }
            offset += width;
        }
        NdArray::new(self.dtype.clone(), [count], out)
    }
}

impl Rows for BcolzTable {
    fn dtype(&self) -> &DType {
        &self.dtype
    }

    fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// The chunk length of the column with the largest chunks.
    fn step(&self) -> usize {
        self.columns.iter().map(|(_, column)| column.chunklen()).max().unwrap_or(1)
    }

    fn read_rows(&self, rows: Range<usize>) -> Result<NdArray<'static>> {
        self.rows(rows)
    }
}

impl fmt::Debug for BcolzTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BcolzTable({}: {}, {} rows)", Shown::of(&self.root), self.dtype, self.len())
    }
}
