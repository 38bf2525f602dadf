#![doc = include_str!("FORMAT.md")]
//!
//! # Reading
//!
//! [`MatFile::parse`] looks at names, classes and shapes only; what is compressed is inflated when
//! [`MatFile::get`] asks for it. [`Array`] says how to get at what is in there.
//!
//! The calls of Python's `scipy.io.loadmat`, and the same here:
//!
//! | Python | |
//! | --- | --- |
//! | `loadmat(f)["gaze"]` | `MatFile::parse(&bytes)?.get("gaze")?` |
//! | `a["x"][0, 0]` | `a.field("x")?` |
//! | `a[0][i][2]`, `a[0, i]["x"]` of records | `a.record(i)?.at(2)?`, `a.record(i)?.field("x")?` |
//! | `a[0, i]` of cells | `a.cell(i)?` |
//! | `a.astype(np.float32)`, `a.toarray()` | `a.numbers::<f32>()?` |
//! | `a.flatten()` of a row or column | `a.vector::<f32>()?` |
//! | with `squeeze_me=True` | [`unwrapped`](Array::unwrapped), [`number`](Array::number), [`text`](Array::text) |
//!
//! Errors of the format have the position in the file. Within compressed data it is the position of
//! the compressed element, and the message has the byte within it.
//!
//! # Limits
//!
//! A file of a few megabytes can inflate to gigabytes. The memory of a variable is counted against
//! [`Limits`] before it is allocated, and no length is trusted before that many bytes are there.
//!
//! Absent on purpose: writing, version 7.3 (HDF5), and any sense of functions and of objects of
//! later classes.

mod chars;
mod convert;
mod element;
mod header;
mod inflate;
mod level4;
mod matrix;
mod memory;
mod numbers;
mod sparse;
mod value;

pub use sparse::Sparse;
pub use value::{Array, Record, Structs};

use element::{Element, Elements, Stored};
use header::Level;
use matrix::{Class, Header, MAX_NESTING};
use memory::Memory;

use crate::format::FormatError;
use crate::value::ByteOrder;

#[cfg(test)]
mod tests;

/// Where the header of a compressed variable must end.
const MAX_HEADER: usize = 4096;

/// How much is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The bytes of memory that one variable may take, inflated and as values together.
    ///
    /// 4 GiB by default: MATLAB writes no variable of more than 2 GiB into such a file, and while
    /// it is read it is in memory twice.
    pub memory: u64,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { memory: 4 << 30 }
    }
}

/// A MAT file: its variables, which are read when they are asked for.
#[derive(Debug, Clone)]
pub struct MatFile<'a> {
    description: String,
    variables: Vec<Variable<'a>>,
}

impl<'a> MatFile<'a> {
    /// Looks at the bytes of a whole file.
    pub fn parse(bytes: &'a [u8]) -> Result<MatFile<'a>, FormatError> {
        MatFile::with_limits(bytes, Limits::default())
    }

    /// Opens the bytes of a whole file, with other limits than the default.
    pub fn with_limits(bytes: &'a [u8], limits: Limits) -> Result<MatFile<'a>, FormatError> {
        let order = match header::recognise(bytes)? {
            Level::Five(order) => order,
            Level::Four => {
                let variables = level4::variables(bytes)?.into_iter();
                let variables = variables.map(|matrix| Variable::of_level4(matrix, limits));
                return Ok(MatFile { description: String::new(), variables: variables.collect() });
            }
        };
        let mut elements = Elements::new(bytes, header::HEADER, order);
        let mut variables = Vec::new();
        while !elements.is_done() {
            variables.push(Variable::of_level5(elements.next("a variable")?, order, limits)?);
        }
        Ok(MatFile { description: header::description(bytes), variables })
    }

    /// The text that the file begins with. MATLAB says there which version wrote it, and when.
    pub fn description(&self) -> &str {
        &self.description
    }

    /// All variables in the order of the file. One without a name holds what belongs to functions
    /// and objects.
    pub fn variables(&self) -> &[Variable<'a>] {
        &self.variables
    }

    /// Reads the variable of this name; the last of them, if there are several.
    pub fn get(&self, name: &str) -> Result<Array, FormatError> {
        let Some(variable) = self.variables.iter().rfind(|variable| variable.name == name) else {
            let names: Vec<&str> = self.variables.iter().map(Variable::name).collect();
            return Err(FormatError::new(0, format!("a variable {name:?}"), format!("{names:?}")));
        };
        variable.read()
    }
}

/// A variable whose name, class and shape are known; its data has not been read.
#[derive(Debug, Clone)]
pub struct Variable<'a> {
    name: String,
    class: Class,
    shape: Vec<usize>,
    logical: bool,
    global: bool,
    limits: Limits,
    source: Source<'a>,
}

#[derive(Debug, Clone)]
enum Source<'a> {
    Level4(level4::Matrix<'a>),
    Level5(Element<'a>, ByteOrder),
}

impl<'a> Variable<'a> {
    fn of_level4(matrix: level4::Matrix<'a>, limits: Limits) -> Variable<'a> {
        Variable {
            name: matrix.name.clone(),
            class: matrix.class,
            shape: matrix.shape.to_vec(),
            logical: false,
            global: false,
            limits,
            source: Source::Level4(matrix),
        }
    }

    fn of_level5(
        element: Element<'a>,
        order: ByteOrder,
        limits: Limits,
    ) -> Result<Variable<'a>, FormatError> {
        let header = match element.stored {
            Stored::Matrix => Header::parse(&mut element.elements(order))?,
            Stored::Compressed => {
                let start = inflate::prefix(&element, MAX_HEADER)?;
                Elements::new(&start, 0, order)
                    .enter()
                    .and_then(|mut elements| Header::parse(&mut elements))
                    .map_err(|error| within(&element, error))?
            }
            other => return Err(element.error("a variable", format!("data of type {other:?}"))),
        };
        let Header { class, name, shape, logical, global, .. } = header;
        let source = Source::Level5(element, order);
        Ok(Variable { name, class, shape, logical, global, limits, source })
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The class of the array.
    pub fn class(&self) -> Class {
        self.class
    }

    /// The length of each dimension. For a sparse matrix of level 4 it is the shape of the stored
    /// array, which is a list of its values.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// Whether its numbers are booleans.
    pub fn is_logical(&self) -> bool {
        self.logical
    }

    /// Whether it was a global variable.
    pub fn is_global(&self) -> bool {
        self.global
    }

    /// Reads it, with all that is in it.
    pub fn read(&self) -> Result<Array, FormatError> {
        let mut memory = Memory::new(self.limits.memory);
        match &self.source {
            Source::Level4(matrix) => matrix.read(&mut memory),
            Source::Level5(element, order) if element.stored == Stored::Compressed => {
                inflated(element, *order, &mut memory)
            }
            Source::Level5(element, order) => {
                matrix::read(element, *order, &mut memory, MAX_NESTING)
            }
        }
    }
}

/// Inflates and reads the one array of a compressed element.
fn inflated(
    element: &Element<'_>,
    order: ByteOrder,
    memory: &mut Memory,
) -> Result<Array, FormatError> {
    let tag = inflate::prefix(element, 8)?;
    let len = Elements::new(&tag, 0, order).matrix_len().map_err(|error| within(element, error))?;
    let len = len
        .checked_add(8)
        .ok_or_else(|| element.error("an array that fits in memory", "a larger"))?;
    memory.take(len, element)?;
    let bytes = inflate::all(element, len)?;
    Elements::new(&bytes, 0, order)
        .next("an array")
        .and_then(|matrix| matrix::read(&matrix, order, memory, MAX_NESTING))
        .map_err(|error| within(element, error))
}

/// An error in what is compressed, at the compressed element.
fn within(element: &Element<'_>, error: FormatError) -> FormatError {
    let found = format!("{} at byte {} of the compressed data there", error.found, error.position);
    element.error(error.expected, found)
}

#[cfg(test)]
mod example {
    #[test]
    fn reads_a_level_4_variable() -> Result<(), Box<dyn std::error::Error>> {
        use crate::format::mat::MatFile;

        // A file with the level 4 variable `a`: the two numbers 3 and 0.5 in a row.
        let mut bytes = Vec::new();
        bytes.extend([0, 1, 2, 0, 2].map(u32::to_le_bytes).as_flattened());
        bytes.extend(b"a\0");
        bytes.extend([3.0, 0.5].map(f64::to_le_bytes).as_flattened());

        let file = MatFile::parse(&bytes)?;
        assert_eq!(file.variables()[0].name(), "a");
        let a = file.get("a")?;
        assert_eq!(a.shape(), [1, 2]);
        assert_eq!(a.vector::<f32>()?, [3.0, 0.5]);
        assert_eq!(
            a.text().unwrap_err().to_string(),
            "expected a string, found an array of <f8 of 1 x 2"
        );
        Ok(())
    }
}
