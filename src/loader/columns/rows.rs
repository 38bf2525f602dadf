//! Rows of a field that is an array with any number of them.

use super::elements::Elements;
use super::{code_of, found_array, name_of, parse_array, read_list, unfit};
use crate::array::PackedArray;
use crate::error::{Error, ErrorKind, Result};
use crate::format::msgpack::numpy::is_container;
use crate::format::msgpack::{Cursor, Kind};
use crate::value::{DType, Element, Number};

/// The most bytes of rows in a batch, which an allocation can have on any machine. How many rows there are is in the
/// data, so it is not trusted.
pub(super) const MAX_BYTES: u64 = if usize::BITS > 32 { 4 << 30 } else { isize::MAX as u64 };

/// Bytes of this many rows of this many elements, unless they are more than that.
pub(super) fn bytes_of<T>(rows: usize, width: usize) -> Option<u64> {
    let bytes = (rows as u64).checked_mul(width as u64)?.checked_mul(size_of::<T>() as u64)?;
    (bytes <= MAX_BYTES).then_some(bytes)
}

/// The rows of an array, in any form that a field may have, before they are read.
pub(super) struct Rows<'a, 'r, T> {
    form: Form<'a, T>,
    len: usize,
    row: &'r [usize],
    /// Converts a number of a list to an element.
    number: fn(Number) -> Option<T>,
}

enum Form<'a, T> {
    Bytes(&'a [u8], Elements<T>),
    Packed(Box<PackedArray<'a>>, Elements<T>),
    /// At its first row.
    List(Cursor<'a>),
}

impl<'a, 'r, T: Element> Rows<'a, 'r, T> {
    /// The rows of a field. Each must have the shape `row`. Leaves the cursor somewhere in the
    /// field.
    pub(super) fn find(field: &mut Cursor<'a>, row: &'r [usize]) -> Result<Rows<'a, 'r, T>> {
        let expected = || format!("an array of type {} with rows of shape {row:?}", code_of::<T>());
        let (form, len) = match field.peek()? {
            Kind::Map => {
                let (dtype, data, found) = parse_array(field)?;
                let Some(data) = data else {
                    return Err(unfit(expected(), "an array without data"));
                };
                // NumPy makes an array of float64 without a second axis of an empty list.
                let is_empty =
                    found.as_ref().is_some_and(|found| found.are(&[0])) && data.is_empty();
                if is_empty && dtype.parse::<DType>().is_ok() {
                    let form = Form::Bytes(data, Elements::own());
                    return Ok(Rows { form, len: 0, row, number: T::from_number });
                }
                let elements = Elements::<T>::of(dtype);
                let fits = found.as_ref().is_none_or(|found| found.has_rows(row));
                let (Some(elements), true) = (elements, fits) else {
                    return Err(unfit(expected(), found_array(dtype, found)));
                };
                let len = rows_of(data.len(), row, elements.size)?;
                if let Some(said) = found.and_then(|found| found.iter().next()) {
                    if said != len as u64 {
                        return Err(unfit(format!("data of {said} rows"), len));
                    }
                }
                (Form::Bytes(data, elements), len)
            }
            Kind::Bin if is_container(field.clone().read_bin()?) => {
                let packed = PackedArray::from_bytes(field.read_bin()?)?;
                let elements = Elements::<T>::of_type(packed.dtype());
                match (packed.shape(), elements) {
                    ([0], _) => (Form::Bytes(&[], Elements::own()), 0),
                    ([len, found @ ..], Some(elements)) if found == row => {
                        let len = *len;
                        (Form::Packed(Box::new(packed), elements), len)
                    }
                    (shape, _) => {
                        let dtype = packed.dtype().to_string();
                        let found = format!("type {dtype:?} and shape {shape:?}");
                        return Err(unfit(expected(), found));
                    }
                }
            }
            Kind::Bin => {
                let data = field.read_bin()?;
                let len = rows_of(data.len(), row, size_of::<T>())?;
                (Form::Bytes(data, Elements::own()), len)
            }
            Kind::Array => {
                let len = field.read_array_len()? as usize;
                // Each number takes a byte or more, so that memory is not made for rows that do not follow.
                let numbers = row.iter().try_fold(len, |all, size| all.checked_mul(*size));
                let bytes = field.rest().len();
                if len.max(numbers.unwrap_or(usize::MAX)) > bytes {
                    let expected = format!("lists of numbers of shape {row:?}");
                    return Err(unfit(expected, format!("a list of {len} in {bytes} bytes")));
                }
                (Form::List(field.clone()), len)
            }
            kind => return Err(unfit("an array", name_of(kind))),
        };
        Ok(Rows { form, len, row, number: T::from_number })
    }

    /// The same, with other rules for the numbers of lists.
    #[cfg(feature = "images")]
    pub(super) fn with_numbers(self, number: fn(Number) -> Option<T>) -> Rows<'a, 'r, T> {
        Rows { number, ..self }
    }

    /// How many rows there are.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Checks that memory for this many of them can be taken: the bytes that they are stored in are there.
    pub(super) fn check(&self, wanted: usize) -> Result<()> {
        if bytes_of::<T>(wanted, self.row.iter().product()).is_none() {
            let message = format!("expected up to {} MiB of rows", MAX_BYTES >> 20);
            return Err(Error::new(ErrorKind::Limit, format!("{message}, found {wanted} rows")));
        }
        match &self.form {
            Form::Packed(packed, _) => packed.chunks().try_for_each(|chunk| chunk.map(drop)),
            Form::Bytes(..) | Form::List(_) => Ok(()),
        }
    }

    /// Reads `wanted` rows from `first` on. They must exist.
    pub(super) fn read(&mut self, first: usize, wanted: usize, out: &mut [T]) -> Result<()> {
        let width = out.len() / wanted.max(1);
        match &mut self.form {
            Form::Bytes(data, elements) => {
                let bytes = width * elements.size;
                elements.read(out, &data[first * bytes..(first + wanted) * bytes])
            }
            Form::Packed(packed, elements) => {
                elements.read_packed(packed, Some((first, wanted)), out)
            }
            Form::List(rows) => {
                for _ in 0..first {
                    rows.skip()?;
                }
                // The lists of the rows, each with the shape of one row.
                (0..wanted).try_for_each(|at| {
                    let out = &mut out[at * width..(at + 1) * width];
                    read_list(out, self.row, self.row, rows, self.number)
                })
            }
        }
    }
}

/// How many rows these bytes are.
fn rows_of(bytes: usize, row: &[usize], element: usize) -> Result<usize> {
    let of_row = row.iter().try_fold(element, |bytes, size| bytes.checked_mul(*size));
    match of_row {
        Some(of_row @ 1..) if bytes % of_row == 0 => Ok(bytes / of_row),
        _ => {
            let expected = format!("rows of {row:?} of {element} bytes each");
            Err(unfit(expected, format!("{bytes} bytes")))
        }
    }
}
