//! Samples as tables of Arrow, for DuckDB, polars, pandas, pyarrow and all others that read its C stream.
//!
//! A [`Table`] has the columns of a view, found from some of its samples; its [`batches`](Table::batches) are made while
//! they are read, on threads, a few ahead. Fields that are not asked for are passed over undecoded. Bytes are not copied:
//! a column of them points into the memory map, which it keeps open.
//!
//! | a field of | is a column of |
//! | --- | --- |
//! | nil in all samples | null |
//! | booleans, integers, 32-bit and 64-bit floats | bool, int64 or uint64, float32, float64 |
//! | integers `label` that all have names | dictionary of the names |
//! | strings | utf8 |
//! | bytes | binary view |
//! | NumPy scalars | their type: numbers, date32, timestamp, duration |
//! | NumPy arrays | fixed-size lists, or lists where the length differs or is large |
//! | lists, maps | list, struct |
//!
//! All but the key may be null, which stands for nil and for fields that a sample does not have. A value that a column
//! cannot hold is an error that names the sample, and never another value: of two types in one field, an integer beyond 64
//! bits, complex numbers, a map whose keys are no strings, and what else [Parquet](crate::convert) does not carry.
//!
//! Absent on purpose: queries. A program that reads the stream has them.

mod batches;
mod build;
mod columns;
mod maps;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;
use std::thread;

use arrow_array::RecordBatchReader;
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_schema::SchemaRef;

pub use batches::Batches;
use columns::Columns;
use maps::Maps;

use crate::compose::View;
use crate::error::{Error, Result};
use crate::format::arrow::kinds::Target;
use crate::reader::Reader;

/// Rows of a batch, unless they are large.
const ROWS: usize = 1 << 16;

/// How many samples are looked at to find the columns.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Infer {
    /// The first 1024, and 1024 of all others; 100 and 100 behind a URL.
    #[default]
    Some,
    /// This many: half of them the first ones, the others from all over.
    Samples(usize),
    /// Every one, before the first batch is made.
    All,
}

/// How samples become a table.
#[derive(Debug, Clone)]
#[must_use]
pub struct TableOptions {
    view: View,
    fields: Option<Vec<String>>,
    rows: usize,
    views: bool,
    infer: Infer,
    threads: Option<usize>,
}

impl TableOptions {
    /// The columns, by the names of their fields, in this order. Other fields are not decoded. Default: all.
    pub fn fields<S: Into<String>>(mut self, names: impl IntoIterator<Item = S>) -> Self {
        self.fields = Some(names.into_iter().map(Into::into).collect());
        self
    }

    /// The most rows of a batch. Of large samples it has fewer. Default: 65,536.
    pub fn batch_rows(mut self, rows: usize) -> Self {
        self.rows = rows.max(1);
        self
    }

    /// Whether columns of bytes are views, which point into memory maps. Otherwise bytes are copied, for programs that
    /// do not read views. Bytes in lists are always copied, as pandas reads no lists of views. Default: yes.
    pub fn views(mut self, yes: bool) -> Self {
        self.views = yes;
        self
    }

    /// How many samples are looked at to find the columns.
    pub fn infer(mut self, infer: Infer) -> Self {
        self.infer = infer;
        self
    }

    /// How many threads look at samples, and make batches. Default: as many as there are cores.
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = Some(threads.max(1));
        self
    }

    /// Finds the columns.
    ///
    /// # Errors
    ///
    /// [`Invalid`](crate::ErrorKind::Invalid) for a field that none of the samples has that were looked at, and for
    /// values of them that fit in no column.
    pub fn open(self) -> Result<Table> {
        let reader = self.view.reader().clone();
        let target = Target::Stream { views: self.views };
        let cores = || thread::available_parallelism().map_or(1, usize::from);
        let threads = self.threads.unwrap_or_else(cores);
        let columns = Columns::find(&*reader, self.fields.as_deref(), self.infer, target, threads)?;
        let datasets = self.view.datasets();
        let maps = Maps::new(datasets);
        let shared = Shared { reader, columns, maps, rows: self.rows, threads };
        Ok(Table { shared: Arc::new(shared) })
    }
}

/// The samples of a view as a table.
///
/// ```
/// use kiste::compose::View;
/// use kiste::table::Table;
/// # use std::collections::BTreeMap;
///
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("words.msgpack");
/// # let mut writer = kiste::Writer::create(&path)?;
/// # for (key, word) in [("a", "Kiste"), ("b", "Kasten")] {
/// #     writer.write(&BTreeMap::from([("key", key), ("word", word)]))?;
/// # }
/// # writer.finish()?;
/// let table = Table::options(&View::open(&path)?).fields(["word"]).open()?;
/// assert_eq!(table.to_string(), "word: Utf8");
/// let batches = table.batches().collect::<Result<Vec<_>, _>>()?;
/// assert_eq!(batches[0].num_rows(), 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Table {
    shared: Arc<Shared>,
}

/// An error about a sample, with its key and its place.
fn of_sample(reader: &dyn Reader, index: usize, error: Error) -> Error {
    let error = match (error.key(), reader.key(index)) {
        (None, Ok(key)) => error.with_key(key),
        _ => error,
    };
    reader.locate(index).describe(error)
}

/// What all that make batches need.
struct Shared {
    reader: Arc<dyn Reader>,
    columns: Columns,
    maps: Maps,
    rows: usize,
    threads: usize,
}

impl Table {
    /// The options, to be changed before [`open`](TableOptions::open).
    pub fn options(view: &View) -> TableOptions {
        let (fields, rows, views, infer, threads) = (None, ROWS, true, Infer::Some, None);
        TableOptions { view: view.clone(), fields, rows, views, infer, threads }
    }

    /// The columns.
    pub fn schema(&self) -> SchemaRef {
        self.shared.columns.schema.clone()
    }

    /// How many rows there are: as many as samples.
    pub fn rows(&self) -> usize {
        self.shared.reader.len()
    }

    /// All rows, in order. Each call reads the samples again.
    pub fn batches(&self) -> Batches {
        Batches::new(self.shared.clone())
    }

    /// The same for programs in other languages, by Arrow's C interface.
    pub fn stream(&self) -> FFI_ArrowArrayStream {
        let batches: Box<dyn RecordBatchReader + Send> = Box::new(self.batches());
        FFI_ArrowArrayStream::new(batches)
    }
}

/// One line for each column: its name and its type.
impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, field) in self.shared.columns.schema.fields().iter().enumerate() {
            let line = if at > 0 { "\n" } else { "" };
            write!(f, "{line}{}: {}", field.name(), field.data_type())?;
        }
        Ok(())
    }
}

impl fmt::Debug for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.shared.columns.names();
        write!(f, "Table({} rows, columns {})", self.rows(), names.join(", "))
    }
}
