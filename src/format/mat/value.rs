//! The values in a file, and how to get at them.

use ndarray::ArrayD;

use super::chars::Chars;
use super::convert::{Mismatch, converted};
use super::sparse::Sparse;
use crate::value::{self, NdArray};

/// An array: everything in MATLAB is one, single numbers and strings too.
///
/// Files nest them deeply and wrap nearly everything in arrays of one element. So each
/// method names the expected kind, and otherwise returns a `Mismatch` with the kind that was found:
/// `array.field("gaze")?.record(0)?.at(2)?.numbers::<f32>()?`.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Array {
    /// Numbers, real or complex, or booleans. They are in Fortran order.
    Numbers(NdArray<'static>),
    /// Characters.
    Chars(Chars),
    /// Arrays of any kind.
    Cells(Cells),
    /// Records, each with the same fields: structs, and objects of MATLAB 5.
    Structs(Structs),
    /// A sparse matrix.
    Sparse(Sparse),
    /// A function handle, with what is stored of it.
    Function(Box<Array>),
    /// An object: only its class is known.
    Opaque(Opaque),
}

/// An array whose elements are arrays of any kind.
#[derive(Debug, Clone, PartialEq)]
pub struct Cells {
    pub(super) shape: Vec<usize>,
    pub(super) cells: Vec<Array>,
}

/// An array of records, which all have the same fields.
#[derive(Debug, Clone, PartialEq)]
pub struct Structs {
    pub(super) class: Option<String>,
    pub(super) shape: Vec<usize>,
    pub(super) count: usize,
    pub(super) fields: Vec<String>,
    /// All fields of the first record, all of the second and so on.
    pub(super) values: Vec<Array>,
}

/// One element of an array of records.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Record<'a> {
    fields: &'a [String],
    values: &'a [Array],
}

/// An object of a class that MATLAB or Java define. Its data is not documented.
#[derive(Debug, Clone, PartialEq)]
pub struct Opaque {
    pub(super) system: String,
    pub(super) class: String,
    pub(super) content: Box<Array>,
}

impl Array {
    /// The length of each dimension. Functions and opaque objects are 1 × 1.
    pub fn shape(&self) -> &[usize] {
        match self {
            Array::Numbers(numbers) => numbers.shape(),
            Array::Chars(chars) => chars.shape(),
            Array::Cells(cells) => &cells.shape,
            Array::Structs(structs) => &structs.shape,
            Array::Sparse(sparse) => sparse.shape(),
            Array::Function(_) | Array::Opaque(_) => &[1, 1],
        }
    }

    /// The numbers as numbers of this type, in the shape that they have. Iteration is in C order,
    /// regardless of the order in memory.
    ///
    /// MATLAB makes nearly everything a double, so any type can be asked for: floats are rounded
    /// to; every other type must be able to hold just these numbers. Zeros are filled into sparse
    /// matrices, see [`Sparse::to_dense`].
    pub fn numbers<T: value::Element>(&self) -> Result<ArrayD<T>, Mismatch> {
        match self {
            Array::Numbers(numbers) => converted(numbers),
            Array::Sparse(sparse) => sparse.to_dense(),
            _ => Err(self.is_not("numbers")),
        }
    }

    /// The numbers along the one dimension that is longer than 1, be it a row or a column.
    pub fn vector<T: value::Element>(&self) -> Result<Vec<T>, Mismatch> {
        if self.shape().iter().filter(|&&len| len != 1).count() > 1 && !self.shape().contains(&0) {
            return Err(self.is_not("numbers in one row or column"));
        }
        Ok(self.numbers()?.into_iter().collect())
    }

    /// The only number.
    pub fn number<T: value::Element>(&self) -> Result<T, Mismatch> {
        if self.shape().iter().any(|&len| len != 1) {
            return Err(self.is_not("one number"));
        }
        self.vector()?.first().copied().ok_or_else(|| self.is_not("one number"))
    }

    /// The text in the only row of characters. An empty array is an empty text, also one of
    /// numbers: it is what MATLAB's `[]` is.
    pub fn text(&self) -> Result<String, Mismatch> {
        match self {
            Array::Numbers(numbers) if numbers.is_empty() => Ok(String::new()),
            Array::Chars(chars) => {
                let mut rows = chars.rows();
                let text = rows.next().unwrap_or_default();
                match rows.next() {
                    None => Ok(text),
                    Some(_) => Err(self.is_not("one row of text")),
                }
            }
            _ => Err(self.is_not("a string")),
        }
    }

    /// The text of each row of characters, or of each cell.
    pub fn strings(&self) -> Result<Vec<String>, Mismatch> {
        match self {
            Array::Chars(chars) => Ok(chars.rows().collect()),
            Array::Cells(cells) => cells.iter().map(Array::text).collect(),
            _ => Err(self.is_not("strings")),
        }
    }

    /// The array in a cell, counted in Fortran order.
    pub fn cell(&self, index: usize) -> Result<&Array, Mismatch> {
        let cell = self.cells()?.cells.get(index);
        cell.ok_or_else(|| self.is_not(format!("more than {index} cells")))
    }

    /// The array as one of cells.
    pub fn cells(&self) -> Result<&Cells, Mismatch> {
        match self {
            Array::Cells(cells) => Ok(cells),
            _ => Err(self.is_not("cells")),
        }
    }

    /// A field of the only record.
    pub fn field(&self, name: &str) -> Result<&Array, Mismatch> {
        let structs = self.structs()?;
        match structs.count {
            1 => structs.record(0)?.field(name),
            _ => Err(self.is_not(format!("one record with a field {name:?}"))),
        }
    }

    /// One of the records, counted in Fortran order.
    pub fn record(&self, index: usize) -> Result<Record<'_>, Mismatch> {
        self.structs()?.record(index)
    }

    /// The array as one of records.
    pub fn structs(&self) -> Result<&Structs, Mismatch> {
        match self {
            Array::Structs(structs) => Ok(structs),
            _ => Err(self.is_not("records")),
        }
    }

    /// The array inside of cells that hold just one array, which may be such a cell again.
    pub fn unwrapped(&self) -> &Array {
        let mut array = self;
        while let Array::Cells(Cells { cells, .. }) = array {
            let [inner] = &cells[..] else {
                break;
            };
            array = inner;
        }
        array
    }

    fn is_not(&self, expected: impl Into<String>) -> Mismatch {
        let shape: Vec<String> = self.shape().iter().map(usize::to_string).collect();
        Mismatch::new(expected, format!("{} of {}", self.what(), shape.join(" x ")))
    }

    fn what(&self) -> String {
        match self {
            Array::Numbers(numbers) => format!("an array of {}", numbers.dtype()),
            Array::Chars(_) => "characters".to_owned(),
            Array::Cells(_) => "cells".to_owned(),
            Array::Structs(structs) => format!("records with the fields {:?}", structs.fields),
            Array::Sparse(_) => "a sparse matrix".to_owned(),
            Array::Function(_) => "a function".to_owned(),
            Array::Opaque(opaque) => format!("an object of class {}", opaque.class),
        }
    }
}

impl Cells {
    /// The length of each dimension.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// How many cells there are.
    pub fn len(&self) -> usize {
        self.cells.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.cells.is_empty()
    }

    /// The contents of the cells, in Fortran order: the first index runs fastest.
    pub fn iter(&self) -> std::slice::Iter<'_, Array> {
        self.cells.iter()
    }
}

impl<'a> IntoIterator for &'a Cells {
    type Item = &'a Array;
    type IntoIter = std::slice::Iter<'a, Array>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl Structs {
    /// The length of each dimension.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// The name of the class, if these are objects.
    pub fn class(&self) -> Option<&str> {
        self.class.as_deref()
    }

    /// The names of the fields. There are files in which one comes twice.
    pub fn fields(&self) -> &[String] {
        &self.fields
    }

    /// How many records there are.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// One of the records, counted in Fortran order.
    pub fn record(&self, index: usize) -> Result<Record<'_>, Mismatch> {
        if index >= self.count {
            let expected = format!("more than {index} records");
            return Err(Mismatch::new(expected, self.count.to_string()));
        }
        let len = self.fields.len();
        let values = &self.values[index * len..(index + 1) * len];
        Ok(Record { fields: &self.fields, values })
    }

    /// All records in Fortran order: the first index runs fastest.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Record<'_>> + '_ {
        let len = self.fields.len();
        (0..self.count).map(move |index| Record {
            fields: &self.fields,
            values: &self.values[index * len..(index + 1) * len],
        })
    }
}

impl<'a> Record<'a> {
    /// The names of the fields.
    pub fn fields(&self) -> &'a [String] {
        self.fields
    }

    /// The array in the field of this name; in the first of them, if there are several.
    pub fn field(&self, name: &str) -> Result<&'a Array, Mismatch> {
        let at = self.fields.iter().position(|field| field == name);
        let value = at.and_then(|at| self.values.get(at));
        value.ok_or_else(|| {
            Mismatch::new(format!("a field {name:?}"), format!("the fields {:?}", self.fields))
        })
    }

    /// The array in the field at this position.
    pub fn at(&self, index: usize) -> Result<&'a Array, Mismatch> {
        self.values.get(index).ok_or_else(|| {
            let expected = format!("more than {index} fields");
            Mismatch::new(expected, format!("the fields {:?}", self.fields))
        })
    }

    /// Name and array of each field.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&'a str, &'a Array)> + use<'a> {
        self.fields.iter().map(String::as_str).zip(self.values)
    }
}

impl Opaque {
    /// Whose class it is: `MCOS` for MATLAB, or `java`.
    pub fn system(&self) -> &str {
        &self.system
    }

    /// The name of the class.
    pub fn class(&self) -> &str {
        &self.class
    }

    /// Its stored content; usually only a reference to the rest.
    pub fn content(&self) -> &Array {
        &self.content
    }
}
