//! .npy files whose rows are read on demand: mapped, or in order from a pipe.

use std::fs::File;
use std::io::Read;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use kiste::array::Rows;
use kiste::format::numpy::npy;
use kiste::storage::{LocalStorage, Storage};
use kiste::value::{DType, NdArray, Order};
use kiste::{Error, ErrorKind};

use crate::exit::{Failure, Outcome};

/// Runs `with` on the array of a .npy file; `-` is standard input. A regular file is mapped; a pipe
/// yields its rows in order, each once.
pub(super) fn with_npy<T>(path: &Path, with: impl FnOnce(&dyn Rows) -> Outcome<T>) -> Outcome<T> {
    if path == Path::new("-") {
        return with(&*stream(Path::new("standard input"), std::io::stdin())?);
    }
    let at = |error| Failure::io(path, error);
    if !std::fs::metadata(path).map_err(at)?.is_file() {
        return with(&*stream(path, File::open(path).map_err(at)?)?);
    }
    let source = LocalStorage::mapped().open(path)?;
    let bytes = source.read(0..source.len())?;
    let array = npy::decode(&bytes);
    with(&array.map_err(|error| Failure::no(format_args!("{}: {error}", path.display())))?)
}

/// The array of a .npy file that can only be read once, in order. Arrays in Fortran order, or
/// without axes, are read as a whole.
pub(super) fn stream<'a>(
    what: &Path,
    mut from: impl Read + Send + 'a,
) -> Outcome<Box<dyn Rows + 'a>> {
    let open = || -> kiste::Result<Box<dyn Rows + 'a>> {
        let npy::Header { dtype, shape, order } = read_header(what, &mut from)?;
        let item = dtype.item_size();
        let row = shape.iter().skip(1).try_fold(item, |n, len| n.checked_mul(*len));
        let total = row.and_then(|row| row.checked_mul(*shape.first().unwrap_or(&1)));
        let (Some(row), Some(total)) = (row, total) else {
            return Err(Error::new(ErrorKind::Limit, "no array is so large").at(what));
        };
        if dtype.has_objects() {
            let message = "the array holds Python objects as a pickle, which is never executed";
            return Err(Error::new(ErrorKind::Unsupported, message).at(what));
        }
        if shape.is_empty() || total == 0 || order == Order::F {
            let bytes = read_some(what, &mut from, total)?;
            expect_end(what, &mut from)?;
            return Ok(Box::new(NdArray::with_order(dtype, shape, order, bytes)?));
        }
        let (what, from) = (what.to_path_buf(), Mutex::new((0, from)));
        Ok(Box::new(Stream { what, dtype, shape, row, from }))
    };
    Ok(open()?)
}

struct Stream<R> {
    what: PathBuf,
    dtype: DType,
    shape: Vec<usize>,
    /// Bytes of a row.
    row: usize,
    /// The next row, and the input.
    from: Mutex<(usize, R)>,
}

impl<R: Read + Send> Rows for Stream<R> {
    fn dtype(&self) -> &DType {
        &self.dtype
    }

    fn shape(&self) -> &[usize] {
        &self.shape
    }

    fn step(&self) -> usize {
        1
    }

    fn read_rows(&self, rows: Range<usize>) -> kiste::Result<NdArray<'static>> {
        let mut from = self.from.lock().unwrap_or_else(PoisonError::into_inner);
        let (at, from) = &mut *from;
        if *at != rows.start || rows.end > self.shape[0] {
            let message = format!("expected rows in order from {at} on, found {rows:?}");
            return Err(Error::new(ErrorKind::Invalid, message).at(&self.what));
        }
        let bytes = read_some(&self.what, from, rows.len() * self.row)?;
        *at = rows.end;
        if *at == self.shape[0] {
            expect_end(&self.what, from)?;
        }
        let shape = [&[rows.len()], &self.shape[1..]].concat();
        NdArray::new(self.dtype.clone(), shape, bytes)
    }
}

fn read_header(what: &Path, from: &mut impl Read) -> kiste::Result<npy::Header> {
    // Version 1 has its length in two bytes, all others in four.
    let mut bytes = read_some(what, from, 10)?;
    if bytes[6] > 1 {
        bytes.extend(read_some(what, from, 2)?);
    }
    let len = match bytes[8..] {
        [a, b] => usize::from(u16::from_le_bytes([a, b])),
        [a, b, c, d] => u32::from_le_bytes([a, b, c, d]) as usize,
        _ => 0,
    };
    if bytes.starts_with(npy::MAGIC) {
        bytes.extend(read_some(what, from, len)?);
    }
    Ok(npy::decode_header(&bytes).map_err(|error| Error::from(error).at(what))?.0)
}

/// Reads this many bytes; memory grows with what arrives.
fn read_some(what: &Path, from: &mut impl Read, len: usize) -> kiste::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let found = from.take(len as u64).read_to_end(&mut bytes).map_err(|e| unreadable(what, &e))?;
    if found == len {
        return Ok(bytes);
    }
    let message = format!("expected {len} bytes, found {found}");
    Err(Error::new(ErrorKind::Damaged, message).at(what))
}

/// Reading to the end verifies the checksum of an archive.
fn expect_end(what: &Path, from: &mut impl Read) -> kiste::Result<()> {
    match from.read(&mut [0]).map_err(|error| unreadable(what, &error))? {
        0 => Ok(()),
        _ => Err(Error::new(ErrorKind::Damaged, "there is more than the array").at(what)),
    }
}

fn unreadable(what: &Path, error: &std::io::Error) -> Error {
    Error::new(ErrorKind::Damaged, error.to_string()).at(what)
}
