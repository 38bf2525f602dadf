//! Columns of windows: some rows of an array, such as a piece of a sequence or a few slices of a volume.

use super::rows::Rows;
use super::{Columns, FixedColumn, Source, unfit};
use crate::error::Result;
use crate::format::msgpack::Cursor;
use crate::loader::batch::Record;
use crate::value::Element;

/// Which rows of an array a [window](Columns::window) has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Window {
    /// The first ones.
    Start,
    /// Rows in the middle: as many before them as after them, or one less.
    Center,
    /// A run of rows that starts at any place with the same probability, another one in each epoch.
    ///
    /// The first row is `record.rng(seed).below(rows - wanted + 1)`, in every release: the same for any
    /// number of threads and ranks, and after a run is resumed. See [`Record::rng`].
    Random {
        /// Columns with the same seed draw the same numbers, so windows of arrays of one length are aligned.
        seed: u64,
    },
}

impl Window {
    /// The first row of the window, in an array that has at least the wanted rows.
    fn first(self, rows: usize, wanted: usize, record: &Record<'_>) -> usize {
        let left = rows - wanted;
        match self {
            Window::Start => 0,
            Window::Center => left / 2,
            // At most `left`, which is one of `usize`.
            Window::Random { seed } => record.rng(seed).below(left as u64 + 1) as usize,
        }
    }
}

impl Columns {
    /// Some rows of a field that is an array with any number of rows, each of this shape: `[rows,
    /// …]` in the batch. The field has the same forms as for [`array`](Self::array). Of a bloscpack
    /// container in C order only the blocks with these rows are decoded.
    ///
    /// An array with fewer rows is an error: [`OnError`](crate::loader::OnError) says what happens then.
    ///
    /// ```
    /// use std::sync::Arc;
    ///
    /// use kiste::loader::{Columns, Loader, Window};
    /// use kiste::reader::ListReader;
    /// use kiste::sampler::Sequential;
    ///
    /// #[derive(serde::Serialize)]
    /// struct Text {
    ///     key: &'static str,
    ///     tokens: Vec<u32>,
    /// }
    ///
    /// let tokens = (100..200).collect();
    /// let reader = Arc::new(ListReader::pack([Text { key: "a", tokens }])?);
    /// let columns = Columns::new().window::<i32>("tokens", 5, &[], Window::Random { seed: 42 });
    /// let mut batches = Loader::options(reader, Sequential::new(1)).columns(columns)?;
    /// let batch = batches.next().unwrap()?;
    /// assert_eq!(batch.data.array::<i32>("tokens")?.shape(), [1, 5]);
    /// let tokens = batch.data.values::<i32>("tokens")?;
    /// assert_eq!(tokens[4], tokens[0] + 4);
    /// # Ok::<(), kiste::Error>(())
    /// ```
    pub fn window<T: Element>(
        self,
        field: &str,
        rows: usize,
        row: &[usize],
        window: Window,
    ) -> Columns {
        self.window_as::<T>(field, field, rows, row, window)
    }

    /// The same under a name of its own, such as for two windows of one array.
    pub fn window_as<T: Element>(
        self,
        name: &str,
        field: &str,
        rows: usize,
        row: &[usize],
        window: Window,
    ) -> Columns {
        let shape = [&[rows], row].concat();
        let (field, of_window) = (field.to_owned(), shape.clone());
        // The record says which epoch and position it has, so the column is not read as a field.
        let fill = move |record: &Record<'_>, row: &mut [T]| {
            let filled = read_window(row, &of_window, window, record, &field);
            filled.map_err(|error| error.with_field(field.as_str()))
        };
        self.with(name, FixedColumn { shape, source: Source::Whole(Box::new(fill)) })
    }
}

/// Reads the window of a field. `shape` is the shape of the window.
fn read_window<T: Element>(
    out: &mut [T],
    shape: &[usize],
    window: Window,
    record: &Record<'_>,
    field: &str,
) -> Result<()> {
    let (wanted, row) = (shape[0], &shape[1..]);
    let mut rows = Rows::<T>::find(&mut Cursor::new(record.field(field)?), row)?;
    match rows.len() {
        len if len >= wanted => rows.read(window.first(len, wanted, record), wanted, out),
        len => Err(unfit(format!("at least {wanted} rows"), len)),
    }
}
