//! `.npy` files whose rows are read when they are needed: mapped, or in order from a pipe.

use std::fs::File;
use std::io::{Read, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use super::each_piece;
use crate::array::on_disk::expect_on_disk;
use crate::array::rows::Rows;
use crate::error::{Error, ErrorKind, Result};
use crate::format::numpy::npy;
use crate::storage::{LocalStorage, Source, Storage};
use crate::value::{DType, NdArray, Order};

/// The array of a `.npy` file, as [`Rows`].
///
/// A regular file is mapped. From a pipe, rows come in order and each once; arrays in Fortran order,
/// or without axes, are read at once.
///
/// ```
/// use kiste::array::{NpyRows, Rows};
/// use kiste::value::NdArray;
///
/// let numbers = ndarray::arr2(&[[1_u8, 2], [3, 4]]);
/// let npy = kiste::format::numpy::npy::encode(&NdArray::from_ndarray(&numbers))?;
/// let rows = NpyRows::from_reader("a pipe", std::io::Cursor::new(npy))?;
/// assert_eq!(rows.read_rows(0..1)?.bytes(), [1, 2]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct NpyRows<'a>(Inner<'a>);

enum Inner<'a> {
    Mapped(Mapped),
    Whole(NdArray<'static>),
    Stream(Stream<'a>),
}

impl NpyRows<'static> {
    /// Opens a file, or something else of this name, such as a pipe.
    ///
    /// # Errors
    ///
    /// [`Damaged`](ErrorKind::Damaged) if it is no such file; [`Unsupported`](ErrorKind::Unsupported)
    /// from a pipe if it holds Python objects.
    pub fn open(path: impl AsRef<Path>) -> Result<NpyRows<'static>> {
        let path = path.as_ref();
        expect_on_disk(path)?;
        let at = |error| Error::io(path, error);
        if !std::fs::metadata(path).map_err(at)?.is_file() {
            return NpyRows::from_reader(path, File::open(path).map_err(at)?);
        }
        let source = LocalStorage::mapped().open(path)?;
        let bytes = source.read(0..source.len())?;
        let wrong = |error| Error::from(error).at(path);
        let array = npy::decode(&bytes).map_err(wrong)?;
        if array.dtype().has_objects() {
            return Ok(NpyRows(Inner::Whole(array.into_owned())));
        }
        let (header, start) = npy::decode_header(&bytes).map_err(wrong)?;
        let range = start as u64..(start + array.bytes().len()) as u64;
        drop(array);
        drop(bytes);
        Ok(NpyRows(Inner::Mapped(Mapped { source, header, range })))
    }
}

impl<'a> NpyRows<'a> {
    /// The array that can be read here once, in order. The name is for errors.
    ///
    /// # Errors
    ///
    /// As for [`open`](NpyRows::open).
    pub fn from_reader(
        name: impl AsRef<Path>,
        mut from: impl Read + Send + 'a,
    ) -> Result<NpyRows<'a>> {
        let name = name.as_ref();
        let header = read_npy_header(&mut from).map_err(|error| error.at(name))?;
        let item = header.dtype.item_size();
        let row = header.shape.iter().skip(1).try_fold(item, |n, len| n.checked_mul(*len));
        let total = row.and_then(|row| row.checked_mul(*header.shape.first().unwrap_or(&1)));
        let (Some(row), Some(total)) = (row, total) else {
            return Err(Error::new(ErrorKind::Limit, "no array is so large").at(name));
        };
        if header.dtype.has_objects() {
            let message = "the array holds Python objects as a pickle, which is never executed";
            return Err(Error::new(ErrorKind::Unsupported, message).at(name));
        }
        if header.shape.is_empty() || total == 0 || header.order == Order::F {
            let bytes = read_some(name, &mut from, total)?;
            expect_end(name, &mut from)?;
            let npy::Header { dtype, shape, order } = header;
            return Ok(NpyRows(Inner::Whole(NdArray::with_order(dtype, shape, order, bytes)?)));
        }
        let from: Box<dyn Read + Send + 'a> = Box::new(from);
        let from = Mutex::new((0, from));
        Ok(NpyRows(Inner::Stream(Stream { name: name.to_path_buf(), header, row, from })))
    }
}

impl Rows for NpyRows<'_> {
    fn dtype(&self) -> &DType {
        match &self.0 {
            Inner::Mapped(mapped) => &mapped.header.dtype,
            Inner::Whole(array) => array.dtype(),
            Inner::Stream(stream) => &stream.header.dtype,
        }
    }

    fn shape(&self) -> &[usize] {
        match &self.0 {
            Inner::Mapped(mapped) => &mapped.header.shape,
            Inner::Whole(array) => array.shape(),
            Inner::Stream(stream) => &stream.header.shape,
        }
    }

    fn step(&self) -> usize {
        1
    }

    fn read_rows(&self, rows: Range<usize>) -> Result<NdArray<'static>> {
        match &self.0 {
            Inner::Mapped(mapped) => mapped.read_rows(rows),
            Inner::Whole(array) => array.read_rows(rows),
            Inner::Stream(stream) => stream.read_rows(rows),
        }
    }
}

struct Mapped {
    source: Source,
    header: npy::Header,
    /// The bytes of the elements.
    range: Range<u64>,
}

impl Mapped {
    fn read_rows(&self, rows: Range<usize>) -> Result<NdArray<'static>> {
        let npy::Header { dtype, shape, order } = self.header.clone();
        let bytes = self.source.read(self.range.clone())?;
        NdArray::with_order(dtype, shape, order, bytes)?.read_rows(rows)
    }
}

struct Stream<'a> {
    name: PathBuf,
    header: npy::Header,
    /// Bytes of a row.
    row: usize,
    /// The next row, and the input.
    from: Mutex<(usize, Box<dyn Read + Send + 'a>)>,
}

impl Stream<'_> {
    fn read_rows(&self, rows: Range<usize>) -> Result<NdArray<'static>> {
        let mut from = self.from.lock().unwrap_or_else(PoisonError::into_inner);
        let (at, from) = &mut *from;
        let shape = &self.header.shape;
        if *at != rows.start || rows.end > shape[0] {
            let message = format!("expected rows in order from {at} on, found {rows:?}");
            return Err(Error::new(ErrorKind::Invalid, message).at(&self.name));
        }
        let bytes = read_some(&self.name, from, rows.len() * self.row)?;
        *at = rows.end;
        if *at == shape[0] {
            expect_end(&self.name, from)?;
        }
        let shape = [&[rows.len()], &shape[1..]].concat();
        NdArray::new(self.header.dtype.clone(), shape, bytes)
    }
}

/// Writes a whole `.npy` file, a few rows at a time. An error of `out` names no file.
///
/// # Errors
///
/// The errors of the rows and of `out`.
pub fn write_npy(rows: &dyn Rows, out: &mut (impl Write + ?Sized)) -> Result<()> {
    let (dtype, shape) = (rows.dtype().clone(), rows.shape().to_vec());
    let header = npy::encode_header(&npy::Header { dtype, shape, order: Order::C });
    let failed = |error| Error::os("the array cannot be written", error);
    out.write_all(&header).map_err(failed)?;
    each_piece(rows, |bytes| out.write_all(bytes).map_err(failed))?;
    out.flush().map_err(failed)
}

/// Reads the header of a `.npy` file, and none of the elements. Errors name no file.
///
/// # Errors
///
/// [`Damaged`](ErrorKind::Damaged) if the header is missing or wrong.
pub fn read_npy_header(from: &mut impl Read) -> Result<npy::Header> {
    let mut head = Vec::new();
    let mut read = |head: &mut Vec<u8>, len: u64| {
        from.by_ref().take(len).read_to_end(head).map_err(|error| {
            let error = error.downcast::<Error>();
            error.unwrap_or_else(|error| Error::new(ErrorKind::Damaged, error.to_string()))
        })
    };
    // Magic, version, and the length of the rest: of two bytes in version 1, else of four.
    read(&mut head, 10)?;
    if head.get(6).is_some_and(|version| *version > 1) {
        read(&mut head, 2)?;
    }
    if head.starts_with(npy::MAGIC) {
        let len = match head.get(8..).unwrap_or_default() {
            [a, b] => u64::from(u16::from_le_bytes([*a, *b])),
            [a, b, c, d] => u64::from(u32::from_le_bytes([*a, *b, *c, *d])),
            _ => 0,
        };
        read(&mut head, len)?;
    }
    Ok(npy::decode_header(&head)?.0)
}

/// Reads this many bytes; memory grows with what arrives.
fn read_some(name: &Path, from: &mut impl Read, len: usize) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let found = from.take(len as u64).read_to_end(&mut bytes).map_err(|e| unreadable(name, &e))?;
    if found == len {
        return Ok(bytes);
    }
    let message = format!("expected {len} bytes, found {found}");
    Err(Error::new(ErrorKind::Damaged, message).at(name))
}

/// Reading to the end verifies the checksum of an archive.
fn expect_end(name: &Path, from: &mut impl Read) -> Result<()> {
    match from.read(&mut [0]).map_err(|error| unreadable(name, &error))? {
        0 => Ok(()),
        _ => Err(Error::new(ErrorKind::Damaged, "there is more than the array").at(name)),
    }
}

fn unreadable(name: &Path, error: &std::io::Error) -> Error {
    Error::new(ErrorKind::Damaged, error.to_string()).at(name)
}
