//! Columns: the fields of a batch's samples as arrays with one more dimension.

mod buffer;
mod elements;
#[cfg(feature = "images")]
mod boxes;
#[cfg(feature = "images")]
mod image;
#[cfg(feature = "images")]
mod mask;
mod lists;
mod memory;
#[cfg(feature = "images")]
mod numbers;
mod packing;
#[cfg(feature = "images")]
mod picture;
mod rows;
mod sets;
mod window;

use std::cell::RefCell;
use std::fmt::Display;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ndarray::{ArrayViewD, Dimension, IxDyn};

#[cfg(feature = "images")]
pub use self::boxes::{Boxes, Labels};
use self::buffer::{Buffer, Buffers, Fixed, Ragged};
use self::elements::Elements;
#[cfg(feature = "images")]
pub(crate) use self::image::{ImageClock, ImageTimes};
use self::lists::Lists;
pub use self::lists::Padded;
#[cfg(feature = "images")]
pub use self::mask::Mask;
pub use self::memory::Memory;
pub use self::packing::{Packed, PackedRows};
#[cfg(feature = "images")]
pub use self::picture::image_header;
pub use self::sets::ColumnMemory;
pub(super) use self::sets::FEWEST_SETS;
use self::sets::Spare;
pub use self::window::Window;

use super::batch::{Failure, Fetched, Gather, Gathered, OnError, Record, Task, no_field};
use super::report::Stage;
use crate::array::PackedArray;
use crate::error::{Error, ErrorKind, Result};
use crate::format::msgpack::numpy::is_container;
use crate::format::msgpack::{self, Cursor, Kind};
use crate::reader::FieldContent;
use crate::value::{DTypeKind as Type, Element, Number};

/// The columns of a batch and where their values come from. Names must be unique.
///
/// ```
/// use kiste::loader::Columns;
///
/// let columns = Columns::new()
///     .scalar::<i64>("label")              // int64[n]
///     .array::<f32>("embedding", &[128])   // float32[n, 128]: a NumPy array of each sample
///     .bytes("image")                      // the bytes of all samples, and where each begins
///     .ragged::<i32>("tokens", &[])        // int32[total], and where each sample begins
///     .row::<u8>("pixels", &[28, 28], |record, row| {
///         // Runs on the workers, straight into the batch: decode an image here.
///         row.fill(record.bytes("image")?.len() as u8);
///         Ok(())
///     });
/// ```
#[derive(Default, Clone)]
#[must_use = "columns do nothing until a loader is started with them"]
pub struct Columns(Vec<(String, Arc<dyn Column>)>);

impl Columns {
    /// No columns yet.
    pub fn new() -> Columns {
        Columns::default()
    }

    /// A field that is one number, a boolean as 0 or 1, or a NumPy scalar of this type or of one whose
    /// values it has all, such as `u8` for `f32`. A
    /// `bool` column takes booleans and the numbers 0 and 1. Integers must fit; a float column also
    /// takes integers, rounds, and refuses a finite number that would become infinite.
    pub fn scalar<T: Element>(self, field: &str) -> Columns {
        self.with(field, FixedColumn::<T> { shape: Vec::new(), source: Source::Field })
    }

    /// A field that is an array of this shape: a NumPy array of this type (in either byte
    /// order) or of one whose values it has all, binary data of the same length, or a bloscpack container of such an array (also in
    /// either memory order), which is decompressed straight into the batch. Or lists of numbers,
    /// one in another for each dimension, whose numbers are taken as a [`scalar`](Self::scalar) is.
    ///
    /// ```
    /// use std::sync::Arc;
    ///
    /// use kiste::loader::{Columns, Loader};
    /// use kiste::reader::ListReader;
    /// use kiste::sampler::Sequential;
    ///
    /// #[derive(serde::Serialize)]
    /// struct Boxes {
    ///     key: &'static str,
    ///     corners: Vec<Vec<i64>>,
    /// }
    ///
    /// let corners = vec![vec![1, 2], vec![3, 4]];
    /// let reader = Arc::new(ListReader::pack([Boxes { key: "a", corners }])?);
    /// let columns = Columns::new().array::<f32>("corners", &[2, 2]);
    /// let mut batches = Loader::options(reader, Sequential::new(1)).columns(columns)?;
    /// let batch = batches.next().unwrap()?;
    /// assert_eq!(batch.data.values::<f32>("corners")?, [1.0, 2.0, 3.0, 4.0]);
    /// # Ok::<(), kiste::Error>(())
    /// ```
    pub fn array<T: Element>(self, field: &str, shape: &[usize]) -> Columns {
        self.with(field, FixedColumn::<T> { shape: shape.to_vec(), source: Source::Field })
    }

    /// A field that is bytes or text of any length.
    pub fn bytes(self, field: &str) -> Columns {
        self.with(field, BytesColumn)
    }

    /// A column that a closure fills, row by row. Elements are zero at first.
    pub fn row<T: Element>(
        self,
        name: &str,
        shape: &[usize],
        fill: impl Fn(&Record<'_>, &mut [T]) -> Result<()> + Send + Sync + 'static,
    ) -> Columns {
        self.with(
            name,
            FixedColumn { shape: shape.to_vec(), source: Source::Zeros(Box::new(fill)) },
        )
    }

    /// The last column is made of this field, in place of the field of its name. Several columns may be made of one.
    ///
    /// ```
    /// use kiste::loader::Columns;
    ///
    /// let columns = Columns::new().scalar::<f32>("target").of_field("price");
    /// ```
    ///
    /// A column that is made of no field in this way is refused when a loader is started: pictures and closures have
    /// their own way to name one.
    pub fn of_field(mut self, field: &str) -> Columns {
        if let Some((name, column)) = self.0.pop() {
            let renamed = OtherField { field: field.to_owned(), column };
            self.0.push((name, Arc::new(renamed)));
        }
        self
    }

    fn with(mut self, name: &str, column: impl Column + 'static) -> Columns {
        self.0.push((name.to_string(), Arc::new(column)));
        self
    }
}

impl Columns {
    /// Columns are looked up by name, so each name must be unique.
    pub(super) fn check(&self) -> Result<()> {
        for (at, (name, column)) in self.0.iter().enumerate() {
            column.check().map_err(|error| error.within(format_args!("column {name:?}")))?;
            let elements = column.shape().iter().try_fold(16usize, |n, size| n.checked_mul(*size));
            if elements.is_none_or(|bytes| bytes > isize::MAX as usize) {
                let message = format!("column {name:?}: {:?} is no shape", column.shape());
                return Err(Error::new(ErrorKind::Limit, message));
            }
            if self.0[..at].iter().any(|(known, _)| known == name) {
                let message = format!("there are two columns {name:?}");
                return Err(Error::new(ErrorKind::Invalid, message));
            }
        }
        Ok(())
    }
}

impl Columns {
    /// A set of memory for batches of this many rows.
    fn buffers_in(&self, rows: usize, mut set: Vec<(String, Box<dyn Memory>)>) -> Result<Buffers> {
        let invalid = |message: String| Error::new(ErrorKind::Invalid, message);
        let mut buffers = Buffers::new();
        for (name, column) in &self.0 {
            let memory = set.iter().position(|(given, _)| given == name);
            let memory = memory.map(|at| set.swap_remove(at).1);
            let buffer = column.buffer_in(rows, memory);
            buffers.push(buffer.map_err(|message| invalid(format!("column {name:?}: {message}")))?);
        }
        match set.first() {
            None => Ok(buffers),
            Some((name, _)) => {
                let known: Vec<&str> = self.0.iter().map(|(name, _)| name.as_str()).collect();
                let message =
                    format!("expected memory for each of {known:?}, found more for {name:?}");
                Err(invalid(message))
            }
        }
    }
}

/// How one column is made.
trait Column: Send + Sync {
    /// Why the column cannot be made, if it cannot.
    fn check(&self) -> Result<()> {
        Ok(())
    }
    fn empty(&self) -> Box<dyn Buffer>;
    /// In memory of the caller for this many rows.
    fn buffer_in(
        &self,
        rows: usize,
        memory: Option<Box<dyn Memory>>,
    ) -> Result<Box<dyn Buffer>, String>;
    /// The dimensions of a row; none for a number, and for bytes of any length.
    fn shape(&self) -> &[usize] {
        &[]
    }
    /// Whether the column is made of the field of its name.
    fn is_field(&self) -> bool;
    /// The images that other columns can follow.
    #[cfg(feature = "images")]
    fn images(&self) -> Option<&Arc<image::Images>> {
        None
    }
    /// The boxes that other columns can follow.
    #[cfg(feature = "images")]
    fn boxes(&self) -> Option<&Arc<boxes::Moved>> {
        None
    }
    /// Writes row `row` from the packed field at the cursor.
    fn read(&self, buffer: &mut dyn Buffer, row: usize, field: &mut Cursor<'_>) -> Result<()>;
    /// The same from the field as a reader hands it out.
    fn take(&self, buffer: &mut dyn Buffer, row: usize, field: FieldContent<'_>) -> Result<()> {
        match field {
            FieldContent::Packed(packed) => self.read(buffer, row, &mut Cursor::new(packed)),
            FieldContent::Bytes(bytes) => {
                let mut packed = Vec::with_capacity(bytes.len() + 5);
                msgpack::write_bin(bytes, &mut packed)?;
                self.read(buffer, row, &mut Cursor::new(&packed))
            }
        }
    }
    /// Writes row `row` from the sample.
    fn fill(&self, buffer: &mut dyn Buffer, row: usize, record: &Record<'_>) -> Result<()>;
}

type Fill<T> = Box<dyn Fn(&Record<'_>, &mut [T]) -> Result<()> + Send + Sync>;

/// Rows of one shape.
struct FixedColumn<T> {
    shape: Vec<usize>,
    source: Source<T>,
}

/// Where the rows of a column come from.
enum Source<T> {
    /// The field of the column's name.
    Field,
    /// A closure that finds zeros.
    Zeros(Fill<T>),
    /// A closure that writes every element.
    Whole(Fill<T>),
    /// The same, of images that other columns can follow.
    #[cfg(feature = "images")]
    Images(Fill<T>, Arc<image::Images>),
    /// The column cannot be made.
    #[cfg(feature = "images")]
    Refused(Error),
}

impl<T: Element> Column for FixedColumn<T> {
    #[cfg(feature = "images")]
    fn images(&self) -> Option<&Arc<image::Images>> {
        match &self.source {
            Source::Images(_, images) => Some(images),
            _ => None,
        }
    }

    fn check(&self) -> Result<()> {
        match &self.source {
            #[cfg(feature = "images")]
            Source::Refused(error) => Err(error.again()),
            _ => Ok(()),
        }
    }

    fn empty(&self) -> Box<dyn Buffer> {
        Box::new(Fixed::<T>::empty(&self.shape))
    }

    fn buffer_in(
        &self,
        rows: usize,
        memory: Option<Box<dyn Memory>>,
    ) -> Result<Box<dyn Buffer>, String> {
        Fixed::<T>::boxed_in(&self.shape, rows, memory)
    }

    fn shape(&self) -> &[usize] {
        &self.shape
    }

    fn is_field(&self) -> bool {
        matches!(self.source, Source::Field)
    }

    fn read(&self, buffer: &mut dyn Buffer, row: usize, field: &mut Cursor<'_>) -> Result<()> {
        let Some(column) = buffer.as_any_mut().downcast_mut::<Fixed<T>>() else { return Ok(()) };
        let row = column.row(row);
        match field.peek()? {
            Kind::Map => read_array(row, &self.shape, field),
            Kind::Bin if is_container(field.clone().read_bin()?) => {
                read_container(row, &self.shape, field.read_bin()?)
            }
            _ if self.shape.is_empty() => {
                row[0] = read_number(field, T::from_number)?;
                Ok(())
            }
            Kind::Bin => Elements::own().read(row, field.read_bin()?),
            Kind::Array => read_list(row, &self.shape, &self.shape, field, T::from_number),
            kind => Err(unfit("an array", name_of(kind))),
        }
    }

    fn fill(&self, buffer: &mut dyn Buffer, row: usize, record: &Record<'_>) -> Result<()> {
        let Some(column) = buffer.as_any_mut().downcast_mut::<Fixed<T>>() else { return Ok(()) };
        match &self.source {
            Source::Zeros(fill) => fill(record, column.zeros(row)),
            Source::Whole(fill) => fill(record, column.row(row)),
            #[cfg(feature = "images")]
            Source::Images(fill, _) => fill(record, column.row(row)),
            _ => self.check(),
        }
    }
}

/// The sample is well-formed, but does not fit the column.
fn unfit(expected: impl Display, found: impl Display) -> Error {
    Error::new(ErrorKind::Invalid, format!("expected {expected}, found {found}"))
}

fn name_of(kind: Kind) -> &'static str {
    match kind {
        // An array here is one of NumPy, which is a map.
        Kind::Array => "a list",
        kind => kind.noun(),
    }
}

/// Nested lists. These are the lengths of the lists that are still to come.
fn read_list<T: Element>(
    row: &mut [T],
    left: &[usize],
    shape: &[usize],
    field: &mut Cursor<'_>,
    convert: fn(Number) -> Option<T>,
) -> Result<()> {
    let Some((len, inner)) = left.split_first() else {
        row[0] = read_number(field, convert)?;
        return Ok(());
    };
    let expected = || format!("lists of numbers of shape {shape:?}");
    let kind = field.peek()?;
    if kind != Kind::Array {
        return Err(unfit(expected(), name_of(kind)));
    }
    let found = field.read_array_len()? as usize;
    if found != *len {
        return Err(unfit(expected(), format!("a list of {found}")));
    }
    let width: usize = inner.iter().product();
    for at in 0..found {
        read_list(&mut row[at * width..(at + 1) * width], inner, shape, field, convert)?;
    }
    Ok(())
}

fn read_number<T: Element>(field: &mut Cursor<'_>, convert: fn(Number) -> Option<T>) -> Result<T> {
    let number = match field.peek()? {
        Kind::Float => Number::Float(field.read_f64()?),
        Kind::Bool => Number::Signed(i64::from(field.read_bool()?)),
        Kind::Int => match field.clone().read_i64() {
            Ok(_) => Number::Signed(field.read_i64()?),
            // Creating an error is expensive, so only the rare numbers from 2^63 on take this path.
            Err(_) => Number::Unsigned(field.read_u64()?),
        },
        kind => return Err(unfit("a number", name_of(kind))),
    };
    let expected = || unfit(format!("a number of type {}", code_of::<T>()), number);
    convert(number).ok_or_else(expected)
}

/// Type, data and shape of an array as msgpack-numpy packs it.
type Parsed<'a> = (&'a str, Option<&'a [u8]>, Option<Sizes<'a>>);

/// The shape of an array as it is packed, so that no memory is needed for each sample.
struct Sizes<'a> {
    packed: Cursor<'a>,
    count: usize,
}

impl<'a> Sizes<'a> {
    /// Reads all of them once, after which each can be read.
    fn read(field: &mut Cursor<'a>) -> Result<Sizes<'a>> {
        let count = field.read_array_len()? as usize;
        let packed = field.clone();
        (0..count).try_for_each(|_| field.read_u64().map(drop))?;
        Ok(Sizes { packed, count })
    }

    fn iter(&self) -> impl Iterator<Item = u64> + use<'a> {
        let mut packed = self.packed.clone();
        (0..self.count).map_while(move |_| packed.read_u64().ok())
    }

    fn are(&self, shape: &[usize]) -> bool {
        self.iter().eq(shape.iter().map(|&size| size as u64))
    }

    /// Whether it is a column of any number of rows, each of this shape.
    fn has_rows(&self, row: &[usize]) -> bool {
        self.count > 0 && self.iter().skip(1).eq(row.iter().map(|&size| size as u64))
    }
}

impl std::fmt::Debug for Sizes<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

fn parse_array<'a>(field: &mut Cursor<'a>) -> Result<Parsed<'a>> {
    let (mut dtype, mut data, mut found_shape) = ("", None, None);
    for _ in 0..field.read_map_len()? {
        match field.read_bytes()? {
            // For records it is a list.
            b"type" if field.peek()? == Kind::Str => dtype = field.read_str()?,
            b"data" => data = Some(field.read_bytes()?),
            b"shape" => found_shape = Some(Sizes::read(field)?),
            _ => field.skip()?,
        }
    }
    Ok((dtype, data, found_shape))
}

/// An array of another type or shape, in words.
fn found_array(dtype: &str, shape: Option<Sizes<'_>>) -> String {
    match shape {
        Some(shape) => format!("type {dtype:?} and shape {shape:?}"),
        None => format!("type {dtype:?} and shape []"),
    }
}

/// An array as msgpack-numpy packs it.
fn read_array<T: Element>(row: &mut [T], shape: &[usize], field: &mut Cursor<'_>) -> Result<()> {
    let (dtype, data, found_shape) = parse_array(field)?;
    let same_shape = found_shape.as_ref().is_none_or(|found| found.are(shape));
    match (data, Elements::<T>::of(dtype)) {
        (Some(data), Some(elements)) if same_shape => elements.read(row, data),
        _ => {
            let code = code_of::<T>();
            let found = found_array(dtype, found_shape);
            let expected = format!("an array of type {code} and shape {shape:?}");
            Err(unfit(expected, found))
        }
    }
}

/// An array in a container, decompressed on this thread without an intermediate buffer.
fn read_container<T: Element>(row: &mut [T], shape: &[usize], bytes: &[u8]) -> Result<()> {
    let packed = PackedArray::from_bytes(bytes)?;
    let elements = Elements::<T>::of_type(packed.dtype());
    match elements.filter(|_| packed.shape() == shape) {
        Some(elements) => elements.read_packed(&packed, None, row),
        None => {
            let found =
                format!("type {:?} and shape {:?}", packed.dtype().to_string(), packed.shape());
            let expected = format!("an array of type {} and shape {shape:?}", code_of::<T>());
            Err(unfit(expected, found))
        }
    }
}

/// NumPy's letter and size, as in `f4`.
fn code_of<T: Element>() -> &'static str {
    match (T::KIND, size_of::<T>()) {
        (Type::Bool, _) => "b1",
        (Type::Int, 1) => "i1",
        (Type::Int, 2) => "i2",
        (Type::Int, 4) => "i4",
        (Type::Int, _) => "i8",
        (Type::UInt, 1) => "u1",
        (Type::UInt, 2) => "u2",
        (Type::UInt, 4) => "u4",
        (Type::UInt, _) => "u8",
        (Type::Float, 2) => "f2",
        (Type::Float, 4) => "f4",
        (Type::Float, _) => "f8",
        (Type::Complex, 8) => "c8",
        _ => "c16",
    }
}

/// This buffer, for a column whose size is not known before: memory of the caller cannot be used for it.
fn without_memory(
    buffer: Box<dyn Buffer>,
    memory: Option<Box<dyn Memory>>,
    column: &str,
) -> Result<Box<dyn Buffer>, String> {
    match memory {
        None => Ok(buffer),
        Some(_) => Err(format!("expected no memory for {column}, found some")),
    }
}

/// Bytes or text of any length.
struct BytesColumn;

impl Column for BytesColumn {
    fn empty(&self) -> Box<dyn Buffer> {
        Box::new(Ragged { data: Vec::new(), offsets: vec![0] })
    }

    fn buffer_in(
        &self,
        _: usize,
        memory: Option<Box<dyn Memory>>,
    ) -> Result<Box<dyn Buffer>, String> {
        without_memory(self.empty(), memory, "a column of bytes")
    }

    fn is_field(&self) -> bool {
        true
    }

    fn read(&self, buffer: &mut dyn Buffer, row: usize, field: &mut Cursor<'_>) -> Result<()> {
        let Some(column) = buffer.as_any_mut().downcast_mut::<Ragged>() else { return Ok(()) };
        match field.peek()? {
            Kind::Bin | Kind::Str => column.push(row, field.read_bytes()?),
            kind => return Err(unfit("bytes or text", name_of(kind))),
        }
        Ok(())
    }

    fn take(&self, buffer: &mut dyn Buffer, row: usize, field: FieldContent<'_>) -> Result<()> {
        match (field, buffer.as_any_mut().downcast_mut::<Ragged>()) {
            (FieldContent::Bytes(bytes), Some(column)) => column.push(row, bytes),
            (FieldContent::Bytes(_), None) => {}
            (FieldContent::Packed(packed), _) => {
                return self.read(buffer, row, &mut Cursor::new(packed));
            }
        }
        Ok(())
    }

    fn fill(&self, _: &mut dyn Buffer, _: usize, _: &Record<'_>) -> Result<()> {
        Ok(())
    }
}

/// A column that is made of a field of another name.
struct OtherField {
    field: String,
    column: Arc<dyn Column>,
}

impl Column for OtherField {
    fn check(&self) -> Result<()> {
        match self.column.is_field() {
            true => self.column.check(),
            false => {
                let field = &self.field;
                Err(unfit("a column that is made of a field", format!("another, of {field:?}")))
            }
        }
    }

    fn empty(&self) -> Box<dyn Buffer> {
        self.column.empty()
    }

    fn buffer_in(
        &self,
        rows: usize,
        memory: Option<Box<dyn Memory>>,
    ) -> Result<Box<dyn Buffer>, String> {
        self.column.buffer_in(rows, memory)
    }

    fn shape(&self) -> &[usize] {
        self.column.shape()
    }

    fn is_field(&self) -> bool {
        false
    }

    fn read(&self, buffer: &mut dyn Buffer, row: usize, field: &mut Cursor<'_>) -> Result<()> {
        self.column.read(buffer, row, field)
    }

    fn fill(&self, buffer: &mut dyn Buffer, row: usize, record: &Record<'_>) -> Result<()> {
        let mut field = Cursor::new(record.field(&self.field)?);
        let read = self.column.read(buffer, row, &mut field);
        read.map_err(|error| error.with_field(self.field.as_str()))
    }
}

/// A batch of columns. Its memory is reused by a later batch once it is dropped.
pub struct ColumnBatch {
    rows: usize,
    columns: Arc<Columns>,
    buffers: Buffers,
    spare: Arc<Spare>,
}

impl ColumnBatch {
    /// Rows: samples in the batch.
    pub fn len(&self) -> usize {
        self.rows
    }

    /// Whether there are no samples.
    pub fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// A column as an array whose first dimension counts the samples.
    ///
    /// # Errors
    ///
    /// [`Invalid`](ErrorKind::Invalid) if there is no such column, or it holds another type.
    pub fn array<T: Element>(&self, name: &str) -> Result<ArrayViewD<'_, T>> {
        let (shape, values) = match self.buffer::<Lists<T>>(name) {
            Some(lists) => (IxDyn(&lists.shape(self.rows)), lists.values()),
            None => {
                let column = self.numbers::<T>(name)?;
                // Up to four dimensions need no memory.
                let mut shape = IxDyn::zeros(1 + column.shape.len());
                shape[0] = self.rows;
                shape.slice_mut()[1..].copy_from_slice(&column.shape);
                (shape, column.values.get()?)
            }
        };
        ArrayViewD::from_shape(shape, values)
            .map_err(|e| Error::new(ErrorKind::Invalid, format!("column {name:?}: {e}")))
    }

    /// The elements of a column, all samples one after another.
    pub fn values<T: Element>(&self, name: &str) -> Result<&[T]> {
        match self.buffer::<Lists<T>>(name) {
            Some(lists) => Ok(lists.values()),
            None => self.numbers::<T>(name)?.values.get(),
        }
    }

    /// The same, to be changed in place.
    pub fn values_mut<T: Element>(&mut self, name: &str) -> Result<&mut [T]> {
        if self.buffer::<Lists<T>>(name).is_some() {
            let lists = self.buffer_mut::<Lists<T>>(name);
            return Ok(lists.map_or(&mut [], |lists| lists.values_mut()));
        }
        // Found by a shared reference first, whose error lists the columns.
        self.numbers::<T>(name)?;
        let column = self.buffer_mut::<Fixed<T>>(name);
        column.map_or(Ok(&mut []), |column| column.values.get_mut())
    }

    /// A column of bytes: all samples back to back, and the `len() + 1` offsets between them.
    pub fn bytes(&self, name: &str) -> Result<(&[u8], &[u64])> {
        let column = self.ragged(name)?;
        Ok((&column.data, &column.offsets))
    }

    /// The same, with bytes to be changed in place.
    pub fn bytes_mut(&mut self, name: &str) -> Result<(&mut [u8], &[u64])> {
        self.ragged(name)?;
        let column = self.buffer_mut::<Ragged>(name);
        Ok(column.map_or((&mut [], &[]), |column| (&mut column.data[..], &column.offsets[..])))
    }

    /// The `len() + 1` offsets between the samples of a column whose samples have any number of rows: of
    /// bytes, or of the rows of a [ragged](Columns::ragged) or [padded](Columns::padded) column, which are
    /// counted without padding.
    ///
    /// # Errors
    ///
    /// [`Invalid`](ErrorKind::Invalid) for any other column.
    pub fn offsets(&self, name: &str) -> Result<&[u64]> {
        let at = self.columns.0.iter().position(|(known, _)| known == name);
        let buffer = at.and_then(|at| self.buffers.get(at));
        buffer.and_then(|buffer| buffer.offsets()).ok_or_else(|| {
            let message = format!("there is no column {name:?} whose samples have any length");
            Error::new(ErrorKind::Invalid, message)
        })
    }

    /// How many rows each sample of such a column has.
    ///
    /// # Errors
    ///
    /// As for [`offsets`](Self::offsets).
    pub fn lengths(&self, name: &str) -> Result<Vec<u64>> {
        Ok(self.offsets(name)?.windows(2).map(|ends| ends[1] - ends[0]).collect())
    }

    /// A [packed](Columns::packed) column: its rows and what is where in them.
    ///
    /// # Errors
    ///
    /// [`Invalid`](ErrorKind::Invalid) if there is no such column, or it holds another type.
    pub fn packed<T: Element>(&self, name: &str) -> Result<PackedRows<'_, T>> {
        let found = self.buffer::<Lists<T>>(name).and_then(Lists::packed);
        found.ok_or_else(|| self.no_column(name, format!("packed rows of type {}", T::NAME)))
    }

    fn buffer<B: Buffer>(&self, name: &str) -> Option<&B> {
        let at = self.columns.0.iter().position(|(known, _)| known == name)?;
        self.buffers.get(at)?.as_any().downcast_ref::<B>()
    }

    /// Why there is no such column: of this name, or with what is asked for.
    #[cold]
    fn no_column(&self, name: &str, expected: String) -> Error {
        let at = self.columns.0.iter().position(|(known, _)| known == name);
        let message = match at.and_then(|at| self.buffers.get(at)) {
            Some(buffer) => {
                format!("column {name:?}: expected {expected}, found {}", buffer.holds())
            }
            None => {
                let known: Vec<&str> = self.columns.0.iter().map(|(name, _)| &**name).collect();
                format!("there is no column {name:?} among {known:?}")
            }
        };
        Error::new(ErrorKind::Invalid, message)
    }

    fn buffer_mut<B: Buffer>(&mut self, name: &str) -> Option<&mut B> {
        let at = self.columns.0.iter().position(|(known, _)| known == name)?;
        self.buffers.get_mut(at)?.as_any_mut().downcast_mut::<B>()
    }

    fn numbers<T: Element>(&self, name: &str) -> Result<&Fixed<T>> {
        let found = self.buffer(name);
        found.ok_or_else(|| self.no_column(name, format!("values of type {}", T::NAME)))
    }

    fn ragged(&self, name: &str) -> Result<&Ragged> {
        let found = self.buffer(name);
        found.ok_or_else(|| self.no_column(name, "bytes of any length".to_owned()))
    }
}

impl std::fmt::Debug for ColumnBatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<&str> = self.columns.0.iter().map(|(name, _)| name.as_str()).collect();
        write!(f, "ColumnBatch({} samples, {names:?})", self.rows)
    }
}

impl Drop for ColumnBatch {
    fn drop(&mut self) {
        self.spare.put(std::mem::take(&mut self.buffers));
    }
}

/// Collates samples into columns.
pub(super) struct CollateColumns {
    columns: Arc<Columns>,
    spare: Arc<Spare>,
    /// Scratch memory of finished batches.
    scratches: Mutex<Vec<Scratch>>,
}

impl CollateColumns {
    /// For a queue of this many batches.
    pub(super) fn new(columns: Columns, queue: usize) -> CollateColumns {
        // Plus one held by the caller.
        let keep = queue.saturating_add(1);
        CollateColumns::with(Arc::new(columns), Arc::new(Spare::up_to(keep)))
    }

    /// In memory of the caller.
    pub(super) fn of(memory: &ColumnMemory) -> CollateColumns {
        CollateColumns::with(memory.columns.clone(), memory.spare.clone())
    }

    fn with(columns: Arc<Columns>, spare: Arc<Spare>) -> CollateColumns {
        CollateColumns { columns, spare, scratches: Mutex::default() }
    }

    fn scratches(&self) -> MutexGuard<'_, Vec<Scratch>> {
        self.scratches.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn buffers(&self) -> Result<Buffers> {
        self.spare.take(|| self.columns.0.iter().map(|(_, column)| column.empty()).collect())
    }

    /// Writes one row: one walk over the sample for all columns that are fields.
    fn row(
        &self,
        buffers: &mut Buffers,
        row: usize,
        record: &Record<'_>,
        Scratch { layout, found }: &mut Scratch,
    ) -> Result<()> {
        let columns = &self.columns.0;
        begin_row(found, columns.len());
        let mut cursor = Cursor::new(record.raw());
        for entry in 0..cursor.read_map_len()? as usize {
            if cursor.peek()? != Kind::Str {
                // A key of another kind, so not the name of a column.
                cursor.skip()?;
                cursor.skip()?;
                continue;
            }
            let name = cursor.read_str_bytes()?;
            match layout.column(entry, name, columns) {
                Some(at) => {
                    let value = cursor.clone();
                    let read = columns[at].1.read(&mut *buffers[at], row, &mut cursor);
                    if read.is_err() {
                        cursor = value;
                        cursor.skip()?;
                    }
                    // If two fields have one name, the last one counts.
                    found[at] = Some(read);
                }
                None => cursor.skip()?,
            }
        }
        cursor.expect_end()?;
        for (at, (name, column)) in columns.iter().enumerate() {
            if !column.is_field() {
                column.fill(&mut *buffers[at], row, record)?;
            } else {
                end_field(&mut found[at], name)?;
            }
        }
        Ok(())
    }

    /// The next of the fields that a reader hands out for a row.
    fn field(
        &self,
        buffers: &mut Buffers,
        row: usize,
        (number, name, field): (usize, &str, FieldContent<'_>),
        Scratch { layout, found }: &mut Scratch,
    ) {
        if number == 0 {
            begin_row(found, self.columns.0.len());
        }
        if let Some(at) = layout.column(number, name.as_bytes(), &self.columns.0) {
            found[at] = Some(self.columns.0[at].1.take(&mut *buffers[at], row, field));
        }
    }

    /// The end of a row; a reader handed out `count` fields of it.
    fn end_row(&self, count: usize, found: &mut Vec<Option<Result<()>>>) -> Result<()> {
        if count == 0 {
            begin_row(found, self.columns.0.len());
        }
        let mut columns = self.columns.0.iter().zip(found);
        columns.try_for_each(|((name, _), found)| end_field(found, name))
    }
}

fn begin_row(found: &mut Vec<Option<Result<()>>>, columns: usize) {
    found.clear();
    found.resize_with(columns, || None);
}

/// Fails unless the field of this column was found and read.
fn end_field(found: &mut Option<Result<()>>, name: &str) -> Result<()> {
    let read = found.take().ok_or_else(|| no_field(name))?;
    read.map_err(|error| error.with_field(name))
}

/// State shared by the rows of a batch, and of later ones.
#[derive(Default)]
struct Scratch {
    layout: Layout,
    /// The outcome for each column's field in this row.
    found: Vec<Option<Result<()>>>,
}

/// Which column the fields of a sample are for. Samples mostly have the same fields in the same
/// order, so each is compared with the one that the last sample had in its place.
#[derive(Default)]
struct Layout(Vec<(Vec<u8>, Option<usize>)>);

impl Layout {
    #[inline]
    fn column(
        &mut self,
        entry: usize,
        name: &[u8],
        columns: &[(String, Arc<dyn Column>)],
    ) -> Option<usize> {
        match self.0.get(entry) {
            Some((known, column)) if known == name => *column,
            _ => self.learn(entry, name, columns),
        }
    }

    #[cold]
    fn learn(
        &mut self,
        entry: usize,
        name: &[u8],
        columns: &[(String, Arc<dyn Column>)],
    ) -> Option<usize> {
        let wanted = |(known, column): &(String, Arc<dyn Column>)| {
            known.as_bytes() == name && column.is_field()
        };
        let column = columns.iter().position(wanted);
        // Samples with more fields than this are not worth remembering.
        if entry < 256 && name.len() < 256 {
            if entry < self.0.len() {
                self.0[entry] = (name.to_vec(), column);
            } else if entry == self.0.len() {
                self.0.push((name.to_vec(), column));
            }
        }
        column
    }
}

/// The longest of these samples, and its rows.
fn longest(offsets: Option<&[u64]>, indices: &[u64]) -> Option<(u64, u64)> {
    let lengths = offsets?.windows(2).map(|ends| ends[1] - ends[0]);
    indices.iter().copied().zip(lengths).max_by_key(|(_, len)| *len)
}

impl CollateColumns {
    /// From a reader that hands out single fields, if all columns are fields.
    fn gather_fields(
        &self,
        task: &Task<'_>,
        scratch: &mut Scratch,
        batch: &mut ColumnBatch,
        begin: impl FnOnce(&mut ColumnBatch, usize),
        failed: impl FnMut(&mut ColumnBatch, &Failure) -> bool,
    ) -> Result<Option<Fetched>> {
        let columns = &self.columns.0;
        if !columns.iter().all(|(_, column)| column.is_field()) {
            return Ok(None);
        }
        let names: Vec<&str> = columns.iter().map(|(name, _)| &name[..]).collect();
        let scratch = RefCell::new(scratch);
        let take = |batch: &mut ColumnBatch, number: usize, name: &str, field: FieldContent<'_>| {
            let (row, mut scratch) = (batch.rows, scratch.borrow_mut());
            self.field(&mut batch.buffers, row, (number, name, field), &mut scratch);
        };
        let end = |batch: &mut ColumnBatch, count: usize| {
            self.end_row(count, &mut scratch.borrow_mut().found)?;
            batch.rows += 1;
            Ok(())
        };
        task.each_of_fields(&names, batch, begin, (take, end), failed)
    }
}

impl Gather for CollateColumns {
    type Data = ColumnBatch;

    fn gather(&self, task: &Task<'_>) -> Result<Gathered<ColumnBatch>> {
        let (columns, spare) = (self.columns.clone(), self.spare.clone());
        let buffers = self.buffers()?;
        let mut batch = ColumnBatch { rows: 0, columns, buffers, spare };
        batch.buffers.iter_mut().for_each(|buffer| buffer.set_rows(0));
        let zeros = task.on_error == OnError::Placeholder;
        let mut scratch = self.scratches().pop().unwrap_or_default();
        let begin = |batch: &mut ColumnBatch, bytes: usize| {
            task.lane.enter(Stage::Collating);
            let rows = task.indices.len();
            batch.buffers.iter_mut().for_each(|buffer| buffer.reserve(rows, bytes));
            task.lane.enter(Stage::Decoding);
        };
        let failed = |batch: &mut ColumnBatch, _: &Failure| {
            let rows = batch.rows;
            batch.buffers.iter_mut().for_each(|buffer| buffer.set_rows(rows));
            batch.rows += usize::from(zeros);
            let rows = batch.rows;
            batch.buffers.iter_mut().for_each(|buffer| buffer.set_rows(rows));
            zeros
        };
        let fetched = self.gather_fields(task, &mut scratch, &mut batch, begin, failed);
        let fetched = fetched.transpose().unwrap_or_else(|| {
            let row = |batch: &mut ColumnBatch, record: &Record<'_>| {
                self.row(&mut batch.buffers, batch.rows, record, &mut scratch)?;
                batch.rows += 1;
                Ok(())
            };
            task.each(&mut batch, begin, row, failed)
        });
        self.scratches().push(scratch);
        let fetched = fetched?;
        let rows = batch.rows;
        let planned = task.planned_rows(&fetched.indices);
        for (buffer, (name, _)) in batch.buffers.iter_mut().zip(&batch.columns.0) {
            buffer.finish(rows, &planned).map_err(|error| {
                let error = error.within(format_args!("column {name:?}"));
                match longest(buffer.offsets(), &fetched.indices) {
                    Some((index, len)) => {
                        error.note(format_args!("the longest is sample {index} with {len}"))
                    }
                    None => error,
                }
            })?;
        }
        let bytes = batch.buffers.iter().map(|buffer| buffer.bytes()).sum();
        Ok(Gathered { fetched, data: batch, bytes })
    }
}
