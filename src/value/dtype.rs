//! The types that elements of arrays have.

use std::fmt;
use std::sync::Arc;

use super::element::Element;
use super::kind::DTypeKind;
use crate::error::{Error, ErrorKind, Result};

/// How deep structured types may be nested.
pub const MAX_NESTING: usize = 32;

/// The type of an element: what its bytes are.
///
/// The spellings of NumPy are read by [`format::numpy`](crate::format::numpy) and printed by
/// `Display`. Two types are equal if they describe the same bytes; a single byte has no order.
///
/// ```
/// use kiste::value::{DType, Field, DTypeKind};
///
/// let dtype: DType = "<f4".parse()?;
/// assert_eq!((dtype.kind(), dtype.item_size()), (DTypeKind::Float, 4));
///
/// let pixel = DType::structure([
///     Field::new("at", DType::of::<u8>()).with_shape([2]),
///     Field::padding(2),
///     Field::new("light", dtype),
/// ])?;
/// assert_eq!(pixel.item_size(), 8);
/// assert_eq!(pixel.to_string(), "[('at', '|u1', (2,)), ('', '|V2'), ('light', '<f4')]");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct DType {
    kind: DTypeKind,
    order: ByteOrder,
    size: usize,
    detail: Detail,
}

#[derive(Clone, PartialEq, Eq, Hash)]
enum Detail {
    None,
    Time(TimeUnit),
    // Shared, because types are copied with every array that has them.
    Struct(Arc<Struct>),
}

#[derive(PartialEq, Eq, Hash)]
struct Struct {
    fields: Vec<Field>,
    /// Nesting depth of structured types, this one included.
    levels: usize,
    has_objects: bool,
}

/// In which order the bytes of a number are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ByteOrder {
    /// The least significant byte first, `<`.
    Little,
    /// The most significant byte first, `>`.
    Big,
    /// Not applicable, `|`.
    Irrelevant,
}

impl ByteOrder {
    /// The order of this machine.
    pub const NATIVE: ByteOrder =
        if cfg!(target_endian = "big") { ByteOrder::Big } else { ByteOrder::Little };
}

/// The unit in which points and spans of time are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TimeUnit {
    /// How many of the units are one step, as the 25 of `datetime64[25us]`. Never 0.
    pub count: u32,
    /// The unit itself.
    pub unit: Unit,
}

/// A unit of time.
#[expect(missing_docs, reason = "they are units of time")]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Unit {
    /// No unit given.
    Generic,
    Year,
    Month,
    Week,
    Day,
    Hour,
    Minute,
    Second,
    Millisecond,
    Microsecond,
    Nanosecond,
    Picosecond,
    Femtosecond,
    Attosecond,
}

impl TimeUnit {
    /// No unit.
    pub const GENERIC: TimeUnit = TimeUnit { count: 1, unit: Unit::Generic };
}

impl From<Unit> for TimeUnit {
    fn from(unit: Unit) -> TimeUnit {
        TimeUnit { count: 1, unit }
    }
}

/// A field of a structured type.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Field {
    name: String,
    title: Option<String>,
    dtype: DType,
    shape: Vec<usize>,
}

impl Field {
    /// A field with one element of this type.
    pub fn new(name: impl Into<String>, dtype: DType) -> Field {
        Field { name: name.into(), title: None, dtype, shape: Vec::new() }
    }

    /// Unused bytes, as between aligned fields. They have no name.
    pub fn padding(len: usize) -> Field {
        Field::new("", DType::void(len))
    }

    /// The same field with an array of this shape in it.
    #[must_use]
    pub fn with_shape(mut self, shape: impl Into<Vec<usize>>) -> Field {
        self.shape = shape.into();
        self
    }

    /// The same field with a title: NumPy's second name for it.
    #[must_use]
    pub fn with_title(mut self, title: impl Into<String>) -> Field {
        self.title = Some(title.into());
        self
    }

    /// The name, which is empty for padding.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The title, if there is one.
    pub fn title(&self) -> Option<&str> {
        self.title.as_deref()
    }

    /// The type of the element, or of the elements of the array that the field holds.
    pub fn dtype(&self) -> &DType {
        &self.dtype
    }

    /// The shape of the array that the field holds; empty for one element.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// The bytes of the field, or `None` if they are more than can be.
    fn size(&self) -> Option<usize> {
        byte_size(self.dtype.size, &self.shape)
    }
}

/// The bytes of an array, or `None` if they are more than can be in memory. Lengths after one of
/// zero are counted too, as NumPy does: no array has the shape `[0, 2^63, 2^63]`.
pub(super) fn byte_size(item_size: usize, shape: &[usize]) -> Option<usize> {
    let lens = shape.iter().filter(|&&len| len > 0);
    let size = lens.into_iter().try_fold(item_size.max(1), |size, &len| size.checked_mul(len))?;
    isize::try_from(size).ok()?;
    Some(if item_size == 0 || shape.contains(&0) { 0 } else { size })
}

impl DType {
    /// A type that is not structured, or `None` if this kind has no elements of this many bytes.
    ///
    /// Times are without a unit, see [`with_time_unit`](DType::with_time_unit). Where there is
    /// something to order, `Irrelevant` means the order of this machine.
    pub fn new(kind: DTypeKind, size: usize, order: ByteOrder) -> Option<DType> {
        let valid = match kind {
            DTypeKind::Bool => size == 1,
            DTypeKind::Int | DTypeKind::UInt => matches!(size, 1 | 2 | 4 | 8),
            DTypeKind::Float => matches!(size, 2 | 4 | 8 | 12 | 16),
            DTypeKind::Complex => matches!(size, 8 | 16 | 24 | 32),
            DTypeKind::DateTime | DTypeKind::TimeDelta | DTypeKind::Object => size == 8,
            DTypeKind::Text => size % 4 == 0,
            DTypeKind::Bytes | DTypeKind::Void => true,
            DTypeKind::Struct => false,
        };
        let detail = match kind {
            DTypeKind::DateTime | DTypeKind::TimeDelta => Detail::Time(TimeUnit::GENERIC),
            _ => Detail::None,
        };
        let valid = valid && isize::try_from(size).is_ok();
        valid.then_some(DType { kind, order: order_of(kind, size, order), size, detail })
    }

    /// The type of a Rust element, in the byte order of this machine.
    pub fn of<T: Element>() -> DType {
        let (kind, size) = (T::KIND, size_of::<T>());
        let order = order_of(kind, size, ByteOrder::NATIVE);
        DType { kind, order, size, detail: Detail::None }
    }

    /// Byte strings of this length.
    ///
    /// # Panics
    ///
    /// If it is more than fits in memory.
    pub fn bytes(len: usize) -> DType {
        DType::new(DTypeKind::Bytes, len, ByteOrder::Irrelevant).expect("a length of memory")
    }

    /// Text of at most this many characters, in the byte order of this machine.
    ///
    /// # Panics
    ///
    /// If it is more than fits in memory.
    pub fn text(chars: usize) -> DType {
        let size = chars.checked_mul(4);
        let dtype = size.and_then(|size| DType::new(DTypeKind::Text, size, ByteOrder::NATIVE));
        dtype.expect("a length of memory")
    }

    /// Bytes of no known meaning.
    ///
    /// # Panics
    ///
    /// If they are more than fit in memory.
    pub fn void(len: usize) -> DType {
        DType::new(DTypeKind::Void, len, ByteOrder::Irrelevant).expect("a length of memory")
    }

    /// Points in time, in the byte order of this machine.
    pub fn datetime(unit: impl Into<TimeUnit>) -> DType {
        DType { kind: DTypeKind::DateTime, ..DType::timedelta(unit) }
    }

    /// Spans of time, in the byte order of this machine.
    pub fn timedelta(unit: impl Into<TimeUnit>) -> DType {
        let (kind, order) = (DTypeKind::TimeDelta, ByteOrder::NATIVE);
        DType { kind, order, size: 8, detail: Detail::Time(unit.into()) }
    }

    /// Objects of Python.
    pub fn object() -> DType {
        DType {
            kind: DTypeKind::Object,
            order: ByteOrder::Irrelevant,
            size: 8,
            detail: Detail::None,
        }
    }

    /// A structured type. Its fields follow one another without gaps: where there is to be one,
    /// there is a field of [padding](Field::padding).
    ///
    /// Two fields of one name, types nested deeper than [`MAX_NESTING`], and elements too large for
    /// memory are refused.
    pub fn structure(fields: impl Into<Vec<Field>>) -> Result<DType> {
        let fields = fields.into();
        let mut names: Vec<&str> = fields.iter().map(Field::name).collect();
        names.retain(|name| !name.is_empty());
        names.sort_unstable();
        if let Some(pair) = names.windows(2).find(|pair| pair[0] == pair[1]) {
            let message = format!("expected fields of different names, found {:?} twice", pair[0]);
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        let add = |total: usize, field: &Field| total.checked_add(field.size()?);
        let size = fields.iter().try_fold(0, add).filter(|&size| isize::try_from(size).is_ok());
        let size = size.ok_or_else(|| {
            Error::new(ErrorKind::Limit, "expected fields that fit in memory, found larger ones")
        })?;
        let levels = 1 + fields.iter().map(|field| field.dtype.levels()).max().unwrap_or(0);
        if levels > MAX_NESTING {
            let expected = format!("expected at most {MAX_NESTING} nested structured types");
            return Err(Error::new(ErrorKind::Limit, format!("{expected}, found {levels}")));
        }
        let has_objects = fields.iter().any(|field| field.dtype.has_objects());
        let detail = Detail::Struct(Arc::new(Struct { fields, levels, has_objects }));
        Ok(DType { kind: DTypeKind::Struct, order: ByteOrder::Irrelevant, size, detail })
    }

    /// The same type of time with another unit. Other types have no unit and stay as they are.
    #[must_use]
    pub fn with_time_unit(mut self, unit: impl Into<TimeUnit>) -> DType {
        if let Detail::Time(old) = &mut self.detail {
            *old = unit.into();
        }
        self
    }

    /// The same type in another byte order. Types without an order stay as they are, also a
    /// structured type, whose fields have orders of their own.
    #[must_use]
    pub fn with_byte_order(mut self, order: ByteOrder) -> DType {
        self.order = order_of(self.kind, self.size, order);
        self
    }

    /// The kind of the elements.
    pub fn kind(&self) -> DTypeKind {
        self.kind
    }

    /// The bytes of an element.
    pub fn item_size(&self) -> usize {
        self.size
    }

    /// In which order the bytes of an element are.
    pub fn byte_order(&self) -> ByteOrder {
        self.order
    }

    /// Whether elements are in the byte order of this machine, with all fields of theirs.
    pub fn is_native(&self) -> bool {
        self.fields().iter().all(|field| field.dtype.is_native())
            && matches!(self.order, ByteOrder::NATIVE | ByteOrder::Irrelevant)
    }

    /// The unit of a type of time.
    pub fn time_unit(&self) -> Option<TimeUnit> {
        match self.detail {
            Detail::Time(unit) => Some(unit),
            _ => None,
        }
    }

    /// The fields of a structured type, including padding; empty for any other type.
    pub fn fields(&self) -> &[Field] {
        match &self.detail {
            Detail::Struct(inner) => &inner.fields,
            _ => &[],
        }
    }

    /// A field of a structured type, and at which byte of the element it begins.
    pub fn field(&self, name: &str) -> Option<(usize, &Field)> {
        let mut offset = 0;
        for field in self.fields() {
            if field.name == name && !name.is_empty() {
                return Some((offset, field));
            }
            offset += field.size()?;
        }
        None
    }

    /// Whether this is a structured type.
    pub fn is_struct(&self) -> bool {
        self.kind == DTypeKind::Struct
    }

    /// Whether elements are or contain Python objects.
    pub fn has_objects(&self) -> bool {
        match &self.detail {
            Detail::Struct(inner) => inner.has_objects,
            _ => self.kind == DTypeKind::Object,
        }
    }

    /// The preferred alignment of elements in memory. Structured types are packed and have none.
    pub fn alignment(&self) -> usize {
        match self.kind {
            DTypeKind::Bool | DTypeKind::Bytes | DTypeKind::Void | DTypeKind::Struct => 1,
            DTypeKind::Text => 4,
            // A long double of 12 bytes is at multiples of 4.
            DTypeKind::Float if self.size == 12 => 4,
            DTypeKind::Complex if self.size == 24 => 4,
            DTypeKind::Complex => self.size / 2,
            _ => self.size,
        }
    }

    /// Nesting depth of structured types.
    fn levels(&self) -> usize {
        match &self.detail {
            Detail::Struct(inner) => inner.levels,
            _ => 0,
        }
    }
}

impl fmt::Debug for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DType({self})")
    }
}

/// The order that elements have: only what is of several bytes, and one number, has any.
fn order_of(kind: DTypeKind, size: usize, order: ByteOrder) -> ByteOrder {
    match kind {
        DTypeKind::Bool
        | DTypeKind::Bytes
        | DTypeKind::Void
        | DTypeKind::Struct
        | DTypeKind::Object => ByteOrder::Irrelevant,
        DTypeKind::Int | DTypeKind::UInt if size == 1 => ByteOrder::Irrelevant,
        _ if order == ByteOrder::Irrelevant => ByteOrder::NATIVE,
        _ => order,
    }
}
