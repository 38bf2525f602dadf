//! Columns of windows: some rows of an array, such as a piece of a sequence or a few slices of a volume.

use super::{
    Columns, FixedColumn, Source, byte_order_of, code_of, copy, is_like, name_of, parse_array,
    read_list, unfit,
};
use crate::array::PackedArray;
use crate::error::Result;
use crate::format::msgpack::numpy::is_container;
use crate::format::msgpack::{Cursor, Kind};
use crate::loader::batch::Record;
use crate::value::Element;

/// Which rows of an array a [window](Columns::window) has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Window {
    /// The first ones.
    Start,
    /// Those in the middle: as many rows before them as after them, or one less.
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
    /// Some rows of a field that is an array with any number of rows, each of this shape: `[rows, …]` in the
    /// batch. The forms of the field are those of [`array`](Self::array). Of a bloscpack container in C
    /// order only the blocks with these rows are decoded.
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

/// Reads the window of a field. `shape` is that of the window.
fn read_window<T: Element>(
    out: &mut [T],
    shape: &[usize],
    window: Window,
    record: &Record<'_>,
    field: &str,
) -> Result<()> {
    let (wanted, row) = (shape[0], &shape[1..]);
    let expected = || format!("an array of type {} with rows of shape {row:?}", code_of::<T>());
    let first = |rows: usize| match rows >= wanted {
        true => Ok(window.first(rows, wanted, record)),
        false => Err(unfit(format!("at least {wanted} rows"), rows)),
    };
    let mut field = Cursor::new(record.field(field)?);
    match field.peek()? {
        Kind::Map => {
            let (dtype, data, found) = parse_array(&mut field)?;
            let data = data.unwrap_or_default();
            let big_endian = byte_order_of::<T>(dtype);
            let fits = found.as_deref().is_none_or(|found| found.get(1..) == Some(row));
            let (Some(big_endian), true) = (big_endian, fits) else {
                let found = format!("type {dtype:?} and shape {:?}", found.unwrap_or_default());
                return Err(unfit(expected(), found));
            };
            let rows = rows_of::<T>(data.len(), row)?;
            if let Some(said) = found.and_then(|found| found.first().copied()) {
                if said != rows {
                    return Err(unfit(format!("data of {said} rows"), rows));
                }
            }
            let bytes = size_of_val(out) / wanted.max(1);
            let first = first(rows)?;
            copy(out, &data[first * bytes..(first + wanted) * bytes], big_endian)
        }
        Kind::Bin if is_container(field.clone().read_bin()?) => {
            let packed = PackedArray::from_bytes(field.read_bin()?)?;
            match packed.shape() {
                [rows, found @ ..] if found == row && is_like::<T>(packed.dtype()) => {
                    packed.read_rows_alone(first(*rows)?, wanted, out)
                }
                shape => {
                    let dtype = packed.dtype().to_string();
                    Err(unfit(expected(), format!("type {dtype:?} and shape {shape:?}")))
                }
            }
        }
        Kind::Bin => {
            let data = field.read_bin()?;
            let first = first(rows_of::<T>(data.len(), row)?)?;
            let bytes = size_of_val(out) / wanted.max(1);
            copy(out, &data[first * bytes..(first + wanted) * bytes], false)
        }
        Kind::Array => {
            let rows = field.read_array_len()? as usize;
            for _ in 0..first(rows)? {
                field.skip()?;
            }
            // The lists of the window, each of which has the shape of a row.
            let width = out.len() / wanted.max(1);
            (0..wanted).try_for_each(|at| {
                read_list(&mut out[at * width..(at + 1) * width], row, row, &mut field)
            })
        }
        kind => Err(unfit("an array", name_of(kind))),
    }
}

/// How many rows these bytes are.
fn rows_of<T: Element>(bytes: usize, row: &[usize]) -> Result<usize> {
    let of_row = row.iter().try_fold(size_of::<T>(), |bytes, size| bytes.checked_mul(*size));
    match of_row {
        Some(of_row @ 1..) if bytes % of_row == 0 => Ok(bytes / of_row),
        _ => {
            let expected = format!("rows of {row:?} of {} bytes each", size_of::<T>());
            Err(unfit(expected, format!("{bytes} bytes")))
        }
    }
}
