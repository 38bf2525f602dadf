//! Matrices of level 5: every class of array.

use super::chars::Chars;
use super::element::{Element, Elements, Stored};
use super::memory::Memory;
use super::numbers::{Numbers, convert};
use super::sparse::{self, Sparse};
use super::value::{Array, Cells, Opaque, Structs};
use crate::format::FormatError;
use crate::value::{ByteOrder, DType, NdArray, Order};

/// How deep arrays may be nested.
pub(crate) const MAX_NESTING: usize = 64;

/// How many dimensions an array may have: the limit of NumPy before 2.0, and more than anyone
/// uses.
const MAX_DIMENSIONS: usize = 32;

/// The class of an array.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Class {
    /// Arrays of any kind.
    Cell,
    /// Named fields, each with an array of any kind.
    Struct,
    /// The same with the name of a class, as of MATLAB 5.
    Object,
    /// Characters.
    Char,
    /// Numbers or booleans. Zeros are not stored.
    Sparse,
    /// Numbers of double precision, the usual ones.
    Double,
    /// Numbers of single precision.
    Single,
    /// Integers of 8 bits.
    Int8,
    /// Integers of 8 bits without a sign.
    UInt8,
    /// Integers of 16 bits.
    Int16,
    /// Integers of 16 bits without a sign.
    UInt16,
    /// Integers of 32 bits.
    Int32,
    /// Integers of 32 bits without a sign.
    UInt32,
    /// Integers of 64 bits.
    Int64,
    /// Integers of 64 bits without a sign.
    UInt64,
    /// A function handle.
    Function,
    /// An object of a class that later versions of MATLAB or Java define.
    Opaque,
}

impl Class {
    fn of(code: u32) -> Option<Class> {
        Some(match code {
            1 => Class::Cell,
            2 => Class::Struct,
            3 => Class::Object,
            4 => Class::Char,
            5 => Class::Sparse,
            6 => Class::Double,
            7 => Class::Single,
            8 => Class::Int8,
            9 => Class::UInt8,
            10 => Class::Int16,
            11 => Class::UInt16,
            12 => Class::Int32,
            13 => Class::UInt32,
            14 => Class::Int64,
            15 => Class::UInt64,
            16 => Class::Function,
            17 => Class::Opaque,
            _ => return None,
        })
    }

    /// How its numbers are stored by themselves.
    fn stored(self) -> Option<Stored> {
        Some(match self {
            Class::Double => Stored::Double,
            Class::Single => Stored::Single,
            Class::Int8 => Stored::Int8,
            Class::UInt8 => Stored::UInt8,
            Class::Int16 => Stored::Int16,
            Class::UInt16 => Stored::UInt16,
            Class::Int32 => Stored::Int32,
            Class::UInt32 => Stored::UInt32,
            Class::Int64 => Stored::Int64,
            Class::UInt64 => Stored::UInt64,
            _ => return None,
        })
    }
}

/// The header of a matrix.
#[derive(Debug)]
pub(super) struct Header {
    pub(super) class: Class,
    pub(super) logical: bool,
    pub(super) global: bool,
    pub(super) complex: bool,
    pub(super) shape: Vec<usize>,
    pub(super) name: String,
    /// The product of the shape.
    count: usize,
}

impl Header {
    /// Reads flags, dimensions and name.
    pub(super) fn parse(elements: &mut Elements<'_>) -> Result<Header, FormatError> {
        let flags = elements.next("the flags of an array")?;
        let &[flag_word, _] = &words(&flags, elements.order)?[..] else {
            return Err(flags.error("flags of 8 bytes", format!("{} bytes", flags.data.len())));
        };
        let Some(class) = Class::of(flag_word & 0xff) else {
            return Err(flags.error("a class of 1 to 17", (flag_word & 0xff).to_string()));
        };
        let shape = match class {
            Class::Opaque => vec![1, 1],
            _ => dimensions(&elements.next("the dimensions of an array")?, elements.order)?,
        };
        let count = shape.iter().try_fold(1, |count: usize, &len| count.checked_mul(len));
        let count = count.ok_or_else(|| flags.error("an array that fits in memory", "a larger"))?;
        let name = text(&elements.next("the name of an array")?)?;
        let flag = |bit: u32| flag_word >> bit & 1 == 1;
        let (logical, global, complex) = (flag(9), flag(10), flag(11));
        Ok(Header { class, logical, global, complex, shape, name, count })
    }
}

/// Reads the array in an element of type matrix, with all that is in it.
///
/// `nesting` is how deep the array may be nested, itself included.
pub(super) fn read(
    matrix: &Element<'_>,
    order: ByteOrder,
    memory: &mut Memory,
    nesting: usize,
) -> Result<Array, FormatError> {
    if matrix.stored != Stored::Matrix {
        return Err(matrix.error("an array", format!("data of type {:?}", matrix.stored)));
    }
    let Some(nesting) = nesting.checked_sub(1) else {
        let expected = format!("at most {MAX_NESTING} nested arrays");
        return Err(matrix.error(expected, "more"));
    };
    memory.take(size_of::<Array>(), matrix)?;
    if matrix.data.is_empty() {
        return empty(matrix);
    }
    let mut elements = matrix.elements(order);
    let header = Header::parse(&mut elements)?;
    let mut body = Body { elements, memory, nesting };
    let array = body.array(header)?;
    match body.elements.left() {
        0 => Ok(array),
        left => {
            let position = body.elements.position();
            Err(FormatError::new(position, "the end of the array", format!("{left} more bytes")))
        }
    }
}

fn empty(matrix: &Element<'_>) -> Result<Array, FormatError> {
    let array = NdArray::with_order(DType::of::<f64>(), [0, 0], Order::F, Vec::new());
    array.map(Array::Numbers).map_err(|error| matrix.error("an array", error.to_string()))
}

/// The data after the header.
struct Body<'a, 'm> {
    elements: Elements<'a>,
    memory: &'m mut Memory,
    nesting: usize,
}

impl<'a> Body<'a, '_> {
    fn array(&mut self, header: Header) -> Result<Array, FormatError> {
        match header.class {
            Class::Cell => self.cells(header).map(Array::Cells),
            Class::Struct => self.structs(header, None).map(Array::Structs),
            Class::Object => {
                let class = text(&self.elements.next("the name of a class")?)?;
                self.structs(header, Some(class)).map(Array::Structs)
            }
            Class::Char => {
                let stored = self.elements.next("characters")?;
                let order = self.elements.order;
                Chars::read(&stored, order, header.shape, header.count, self.memory)
                    .map(Array::Chars)
            }
            Class::Sparse => self.sparse(&header).map(Array::Sparse),
            Class::Function => self.inner().map(|inner| Array::Function(Box::new(inner))),
            Class::Opaque => self.opaque().map(Array::Opaque),
            _ => self.numbers(&header).map(Array::Numbers),
        }
    }

    fn inner(&mut self) -> Result<Array, FormatError> {
        let element = self.elements.next("an array")?;
        read(&element, self.elements.order, self.memory, self.nesting)
    }

    /// Reads this many arrays. Each takes at least 8 bytes of the file.
    fn arrays(&mut self, count: Option<usize>) -> Result<Vec<Array>, FormatError> {
        let possible = self.elements.left().div_ceil(8);
        let Some(count) = count.filter(|&count| count <= possible) else {
            let expected = count.map_or("arrays that fit in memory".to_owned(), |count| {
                format!("{count} arrays, of 8 bytes at least")
            });
            let found = format!("{} bytes", self.elements.left());
            return Err(FormatError::new(self.elements.position(), expected, found));
        };
        let mut arrays = Vec::new();
        for _ in 0..count {
            arrays.push(self.inner()?);
        }
        Ok(arrays)
    }

    fn cells(&mut self, header: Header) -> Result<Cells, FormatError> {
        let cells = self.arrays(Some(header.count))?;
        Ok(Cells { shape: header.shape, cells })
    }

    fn structs(&mut self, header: Header, class: Option<String>) -> Result<Structs, FormatError> {
        let len = self.elements.next("the length of a field name")?;
        let names = self.elements.next("field names")?;
        let fields = field_names(&len, &names, self.elements.order)?;
        self.memory.take(fields.len().saturating_mul(size_of::<String>()), &names)?;
        if fields.is_empty() {
            // Elements without fields take no bytes, so nothing else bounds how many there are.
            self.memory.take(header.count, &names)?;
        }
        let values = self.arrays(header.count.checked_mul(fields.len()))?;
        Ok(Structs { class, shape: header.shape, count: header.count, fields, values })
    }

    fn sparse(&mut self, header: &Header) -> Result<Sparse, FormatError> {
        let order = self.elements.order;
        let row_element = self.elements.next("the rows of a sparse matrix")?;
        let start_element = self.elements.next("the columns of a sparse matrix")?;
        let &[height, width] = &header.shape[..] else {
            let found = format!("{} of them", header.shape.len());
            return Err(row_element.error("a sparse matrix of 2 dimensions", found));
        };
        let rows = convert::<u32>(&row_element, order, self.memory)?;
        let starts = convert::<u32>(&start_element, order, self.memory)?;
        let count = starts.get(width).map_or(0, |&end| end as usize);
        let mut values = self.parts(header, Stored::Double)?;
        for part in [Some(&mut values.real), values.imaginary.as_mut()].into_iter().flatten() {
            // There may be room for more values than there are. And MATLAB declares logical values as
            // doubles, though each is stored in a byte.
            if header.logical && part.data.len() == count {
                part.stored = Stored::UInt8;
            }
            let size = count.saturating_mul(part.stored.size());
            part.data = part.data.get(..size).unwrap_or(part.data);
        }
        let values = values.array(&[count], count, self.memory)?;
        self.memory.take(count.saturating_mul(size_of::<(u32, u32)>()), &start_element)?;
        let error = |(expected, found): (String, String)| start_element.error(expected, found);
        let places = sparse::places(width, &rows, &starts).map_err(error)?;
        Sparse::new([height, width], places, values, self.memory.left()).map_err(error)
    }

    fn opaque(&mut self) -> Result<Opaque, FormatError> {
        let system = text(&self.elements.next("a system of classes")?)?;
        let class = text(&self.elements.next("the name of a class")?)?;
        Ok(Opaque { system, class, content: Box::new(self.inner()?) })
    }

    fn numbers(&mut self, header: &Header) -> Result<NdArray<'static>, FormatError> {
        let class = header.class.stored().unwrap_or(Stored::Double);
        self.parts(header, class)?.array(&header.shape, header.count, self.memory)
    }

    fn parts(&mut self, header: &Header, class: Stored) -> Result<Numbers<'a>, FormatError> {
        let real = self.elements.next("numbers")?;
        let imaginary = match header.complex {
            true => Some(self.elements.next("the imaginary parts of numbers")?),
            false => None,
        };
        let order = self.elements.order;
        Ok(Numbers { class, logical: header.logical, order, real, imaginary })
    }
}

fn dimensions(element: &Element<'_>, order: ByteOrder) -> Result<Vec<usize>, FormatError> {
    let words = words(element, order)?;
    if !(1..=MAX_DIMENSIONS).contains(&words.len()) {
        let expected = format!("1 to {MAX_DIMENSIONS} dimensions");
        return Err(element.error(expected, words.len().to_string()));
    }
    let len = |&word: &u32| {
        let len = i32::try_from(word).ok().and_then(|len| usize::try_from(len).ok());
        len.ok_or_else(|| element.error("a length of 0 to 2^31 - 1", (word as i32).to_string()))
    };
    words.iter().map(len).collect()
}

/// Integers of 32 bits, which should be few: more are not read.
fn words(element: &Element<'_>, order: ByteOrder) -> Result<Vec<u32>, FormatError> {
    if !matches!(element.stored, Stored::Int32 | Stored::UInt32) {
        let found = format!("data of type {:?}", element.stored);
        return Err(element.error("integers of 32 bits", found));
    }
    element.len()?;
    let word = |bytes: &[u8]| {
        let bytes = bytes.try_into().expect("chunks of 4 bytes");
        match order {
            ByteOrder::Big => u32::from_be_bytes(bytes),
            _ => u32::from_le_bytes(bytes),
        }
    };
    Ok(element.data.chunks_exact(4).take(MAX_DIMENSIONS + 1).map(word).collect())
}

/// A name: what is before the first zero.
fn text(element: &Element<'_>) -> Result<String, FormatError> {
    if !matches!(element.stored, Stored::Int8 | Stored::UInt8 | Stored::Utf8) {
        return Err(element.error("a name", format!("data of type {:?}", element.stored)));
    }
    name(element.data).map_err(|found| element.error("a name in UTF-8", found))
}

fn name(bytes: &[u8]) -> Result<String, String> {
    let name = bytes.split(|&byte| byte == 0).next().unwrap_or_default();
    let name = std::str::from_utf8(name).map_err(|_| format!("\"{}\"", name.escape_ascii()))?;
    Ok(name.to_owned())
}

fn field_names(
    len: &Element<'_>,
    names: &Element<'_>,
    order: ByteOrder,
) -> Result<Vec<String>, FormatError> {
    let &[size] = &words(len, order)?[..] else {
        return Err(len.error("one length", format!("{} bytes", len.data.len())));
    };
    if !matches!(names.stored, Stored::Int8 | Stored::UInt8 | Stored::Utf8) {
        return Err(names.error("field names", format!("data of type {:?}", names.stored)));
    }
    if names.data.is_empty() {
        return Ok(Vec::new());
    }
    let size = size as usize;
    if size == 0 || names.data.len() % size != 0 {
        let found = format!("{} bytes", names.data.len());
        return Err(names.error(format!("field names of {size} bytes each"), found));
    }
    let fields = names.data.chunks_exact(size).map(name);
    fields.map(|field| field.map_err(|found| names.error("a name in UTF-8", found))).collect()
}
