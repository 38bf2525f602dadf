//! Level 4: variables without a header of the file.

use ndarray::Array1;
use num_complex::Complex;

use super::chars::Chars;
use super::element::{Element, Stored};
use super::matrix::Class;
use super::memory::Memory;
use super::numbers::{Numbers, convert};
use super::sparse::Sparse;
use super::value::Array;
use crate::format::FormatError;
use crate::value::{ByteOrder, NdArray};

/// Five integers.
const HEADER: usize = 20;

/// The digits M, O, P and T are this at most, for any machine.
const MAX_TYPE: u32 = 4999;

/// A variable whose header was read, and no more.
#[derive(Debug, Clone)]
pub(super) struct Matrix<'a> {
    pub(super) name: String,
    pub(super) class: Class,
    pub(super) shape: [usize; 2],
    /// Real parts, and imaginary ones if it is complex.
    real: Element<'a>,
    imaginary: Option<Element<'a>>,
    order: ByteOrder,
}

/// The variables of a file.
pub(super) fn variables(bytes: &[u8]) -> Result<Vec<Matrix<'_>>, FormatError> {
    let mut variables = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        variables.push(variable(bytes, &mut at)?);
    }
    Ok(variables)
}

/// Reads the header of the variable at `at` and steps over its data.
fn variable<'a>(bytes: &'a [u8], at: &mut usize) -> Result<Matrix<'a>, FormatError> {
    let start = *at as u64;
    let header = take(bytes, at, HEADER, "the header of an array of level 4")?;
    let little = u32::from_le_bytes(header[..4].try_into().expect("4 bytes"));
    let order = if little <= MAX_TYPE { ByteOrder::Little } else { ByteOrder::Big };
    let word = |i: usize| {
        let bytes = header[4 * i..4 * i + 4].try_into().expect("4 bytes");
        if order == ByteOrder::Big { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) }
    };
    let (stored, class) = kind(word(0), order)
        .map_err(|(expected, found)| FormatError::new(start, expected, found))?;
    let len = |i: usize| {
        let len = i32::try_from(word(i)).ok().and_then(|len| usize::try_from(len).ok());
        let error = || {
            let found = (word(i) as i32).to_string();
            FormatError::new(start + 4 * i as u64, "a length of 0 to 2^31 - 1", found)
        };
        len.ok_or_else(error)
    };
    let (shape, name_len) = ([len(1)?, len(2)?], len(4)?);
    let name = take(bytes, at, name_len, "a name")?;
    let name = name.split(|&byte| byte == 0).next().unwrap_or_default();
    if name.is_empty() {
        return Err(FormatError::new(start + HEADER as u64, "a name", "none"));
    }
    let name = name.iter().copied().map(char::from).collect();
    let complex = match word(3) {
        0 => false,
        1 => class != Class::Sparse,
        other => return Err(FormatError::new(start + 12, "0 or 1", other.to_string())),
    };
    let size = shape[0].checked_mul(shape[1]).and_then(|count| count.checked_mul(stored.size()));
    let mut part = || {
        let position = *at as u64;
        let size = size.unwrap_or(usize::MAX);
        let data = take(bytes, at, size, "the numbers of an array")?;
        Ok(Element { stored, data, position })
    };
    let real = part()?;
    let imaginary = if complex { Some(part()?) } else { None };
    Ok(Matrix { name, class, shape, real, imaginary, order })
}

fn take<'a>(
    bytes: &'a [u8],
    at: &mut usize,
    len: usize,
    what: &str,
) -> Result<&'a [u8], FormatError> {
    let taken = bytes[*at..].get(..len).ok_or_else(|| {
        let found = format!("{} bytes", bytes.len() - *at);
        FormatError::new(*at as u64, format!("{what}, of {len} bytes"), found)
    })?;
    *at += len;
    Ok(taken)
}

/// The meaning of the four digits of the type; an error has the expected and the found value.
fn kind(digits: u32, order: ByteOrder) -> Result<(Stored, Class), (&'static str, String)> {
    let found = || format!("{digits:04}");
    let machine = match digits / 1000 {
        0 => ByteOrder::Little,
        1 => ByteOrder::Big,
        2..=4 => return Err(("numbers as in IEEE 754", format!("{}, of VAX or Cray", found()))),
        _ => return Err(("the type of an array of level 4", found())),
    };
    let (stored, class) = match digits / 10 % 10 {
        0 => (Stored::Double, Class::Double),
        1 => (Stored::Single, Class::Single),
        2 => (Stored::Int32, Class::Int32),
        3 => (Stored::Int16, Class::Int16),
        4 => (Stored::UInt16, Class::UInt16),
        5 => (Stored::UInt8, Class::UInt8),
        _ => return Err(("a type of numbers of 0 to 5", found())),
    };
    if digits / 100 % 10 != 0 || machine != order {
        return Err(("the type of an array of level 4", found()));
    }
    match digits % 10 {
        0 => Ok((stored, class)),
        1 => Ok((stored, Class::Char)),
        2 => Ok((stored, Class::Sparse)),
        _ => Err(("numbers, text or a sparse array", found())),
    }
}

impl Matrix<'_> {
    /// Reads the array.
    pub(super) fn read(&self, memory: &mut Memory) -> Result<Array, FormatError> {
        match self.class {
            Class::Char => self.chars(memory).map(Array::Chars),
            Class::Sparse => self.sparse(memory).map(Array::Sparse),
            _ => self.numbers(memory).map(Array::Numbers),
        }
    }

    fn numbers(&self, memory: &mut Memory) -> Result<NdArray<'static>, FormatError> {
        let (class, order) = (self.real.stored, self.order);
        let (real, imaginary) = (self.real, self.imaginary);
        let count = self.real.len()?;
        Numbers { class, logical: false, order, real, imaginary }.array(&self.shape, count, memory)
    }

    /// Each character is stored as a number, usually a double.
    fn chars(&self, memory: &mut Memory) -> Result<Chars, FormatError> {
        let units = convert::<u32>(&self.real, self.order, memory)?;
        match units.iter().find(|&&unit| unit > u32::from(char::MAX)) {
            Some(unit) => Err(self.real.error("characters", format!("{unit:#x}"))),
            None => Ok(Chars::new(self.shape.to_vec(), units)),
        }
    }

    fn sparse(&self, memory: &mut Memory) -> Result<Sparse, FormatError> {
        let error = |expected: &str| self.real.error(expected, "another number");
        let numbers = convert::<f64>(&self.real, self.order, memory)?;
        // Sorting them takes as much again.
        memory.take(size_of_val(&numbers[..]), &self.real)?;
        let [height, columns] = self.shape;
        if height == 0 || !matches!(columns, 3 | 4) {
            let found = format!("{height} x {columns}");
            return Err(self.real.error("a matrix of 3 or 4 columns", found));
        }
        let column = |at: usize| &numbers[at * height..(at + 1) * height];
        let index = |number: f64| {
            let whole = number.fract() == 0.0 && (0.0..=f64::from(i32::MAX)).contains(&number);
            whole.then_some(number as u32)
        };
        let last = height - 1;
        let (Some(rows), Some(width)) = (index(column(0)[last]), index(column(1)[last])) else {
            return Err(error("the shape of a sparse matrix"));
        };
        let mut entries = Vec::with_capacity(last);
        for at in 0..last {
            let place = index(column(1)[at]).zip(index(column(0)[at]));
            match place {
                Some((column @ 1.., row @ 1..)) => entries.push(((column - 1, row - 1), at)),
                _ => return Err(error("the place of a value, counted from 1")),
            }
        }
        entries.sort_unstable();
        let (places, order): (Vec<_>, Vec<usize>) = entries.into_iter().unzip();
        let array = if columns == 3 {
            let numbers = order.iter().map(|&at| column(2)[at]);
            NdArray::from_ndarray(&Array1::from_iter(numbers)).into_owned()
        } else {
            let numbers = order.iter().map(|&at| Complex::new(column(2)[at], column(3)[at]));
            NdArray::from_ndarray(&Array1::from_iter(numbers)).into_owned()
        };
        Sparse::new([rows as usize, width as usize], places, array, memory.left())
            .map_err(|(expected, found)| self.real.error(expected, found))
    }
}
