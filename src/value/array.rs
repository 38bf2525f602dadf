//! Arrays: a type, a shape, and bytes.

use std::borrow::Cow;
use std::fmt;

use ndarray::{
    ArrayBase, ArrayD, ArrayViewD, CowArray, Data, Dimension, IxDyn, ShapeBuilder, StrideShape,
};

use super::dtype::{ByteOrder, DType, byte_size};
use super::element::Element;
use super::kind::DTypeKind;
use crate::error::{Error, ErrorKind, Result};

/// An array of any type and shape: its bytes, owned or borrowed from where they were read.
///
/// It is accessed as an `ndarray` array: [`view`](NdArray::view) copies nothing and works where
/// type, byte order and alignment allow it, [`to_ndarray`](NdArray::to_ndarray) copies once,
/// [`as_array`](NdArray::as_array) picks one of the two. Strings and fields of structured types
/// have their own methods. There is no arithmetic here, and no indexing: that is what `ndarray`
/// is for.
///
/// ```
/// use kiste::value::{DType, NdArray};
/// use ndarray::{array, Array2};
///
/// // From any array in any memory order, without a copy where its memory has no gaps.
/// let matrix: Array2<f32> = array![[1.0, 2.0], [3.0, 4.0]];
/// let array = NdArray::from_ndarray(&matrix);
/// assert_eq!((array.dtype(), array.shape()), (&DType::of::<f32>(), &[2, 2][..]));
/// assert_eq!(array.view::<f32>()?, matrix.view().into_dyn());
///
/// // Of bytes as a file has them, here of two numbers with the higher byte first.
/// let array = NdArray::new(">i2".parse()?, [2], &[0, 1, 1, 0][..])?;
/// assert_eq!(array.to_ndarray::<i16>()?, array![1, 256].into_dyn());
/// let err = array.view::<f32>().unwrap_err();
/// assert_eq!(err.to_string(), "expected an array of float32, found one of >i2");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct NdArray<'a> {
    dtype: DType,
    shape: Vec<usize>,
    order: Order,
    data: Cow<'a, [u8]>,
}

/// The maximum number of elements without bytes, such as `S0`. Nothing in a file backs their
/// number, and a caller that collects their strings would run out of memory.
const MAX_WITHOUT_BYTES: usize = 1 << 24;

/// In which order the elements are in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Order {
    /// The last index runs fastest.
    C,
    /// The first index runs fastest.
    F,
}

/// Why an array cannot be accessed as requested.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum AccessError {
    /// Its elements are objects of Python, stored as a pickle, which is a program and is never run.
    Objects,
    /// Its elements are of another type.
    Type {
        /// The requested type.
        expected: &'static str,
        /// The type that they have.
        found: DType,
    },
    /// Its numbers are not in native byte order. A copy would be.
    ByteOrder,
    /// Its bytes are not aligned for the type. A copy would be.
    Alignment,
    /// A boolean is neither 0 nor 1. In a copy it would be true.
    TruthValue,
    /// There is no field of this name.
    NoField(String),
}

impl fmt::Display for AccessError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AccessError::Objects => {
                f.write_str("the array holds Python objects as a pickle, which is never executed")
            }
            AccessError::Type { expected, found } => {
                write!(f, "expected an array of {expected}, found one of {found}")
            }
            AccessError::ByteOrder => f.write_str(
                "expected numbers in the byte order of this machine for a view, found the other",
            ),
            AccessError::Alignment => f.write_str(
                "expected elements at aligned addresses for a view, found them elsewhere",
            ),
            AccessError::TruthValue => {
                f.write_str("expected booleans of 0 and 1 for a view, found others")
            }
            AccessError::NoField(name) => write!(f, "the array has no field {name:?}"),
        }
    }
}

impl std::error::Error for AccessError {}

impl From<AccessError> for Error {
    fn from(error: AccessError) -> Error {
        let kind = match error {
            AccessError::Objects => ErrorKind::Unsupported,
            AccessError::NoField(_) => ErrorKind::NotFound,
            _ => ErrorKind::Invalid,
        };
        Error::new(kind, error.to_string())
    }
}

impl<'a> NdArray<'a> {
    /// An array of these bytes, whose elements are in C order.
    ///
    /// The number of bytes must match type and shape. Python objects are refused, and so are more
    /// than 2^24 elements that take no bytes.
    pub fn new(
        dtype: DType,
        shape: impl Into<Vec<usize>>,
        data: impl Into<Cow<'a, [u8]>>,
    ) -> Result<NdArray<'a>> {
        NdArray::with_order(dtype, shape, Order::C, data)
    }

    /// An array of these bytes, whose elements are in this order.
    pub fn with_order(
        dtype: DType,
        shape: impl Into<Vec<usize>>,
        order: Order,
        data: impl Into<Cow<'a, [u8]>>,
    ) -> Result<NdArray<'a>> {
        let (shape, data) = (shape.into(), data.into());
        if dtype.has_objects() {
            return Err(AccessError::Objects.into());
        }
        let size = byte_size(dtype.item_size(), &shape);
        if size != Some(data.len()) {
            let expected = match size {
                Some(size) => format!("{size} bytes"),
                None => "a shape that fits in memory".to_owned(),
            };
            let found = data.len();
            let message = format!("expected {expected} for {dtype} {shape:?}, found {found} bytes");
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        let array = NdArray { dtype, shape, order, data };
        if array.dtype.item_size() == 0 && array.len() > MAX_WITHOUT_BYTES {
            let expected = format!("at most {MAX_WITHOUT_BYTES} elements without bytes");
            let message = format!("expected {expected}, found {:?}", array.shape);
            return Err(Error::new(ErrorKind::Limit, message));
        }
        Ok(array)
    }

    /// An array of Python objects: this shape, and a pickle that is kept but never looked into.
    /// Every access to its elements is an [`AccessError::Objects`].
    pub fn opaque(shape: impl Into<Vec<usize>>, pickle: impl Into<Cow<'a, [u8]>>) -> NdArray<'a> {
        let (dtype, shape, data) = (DType::object(), shape.into(), pickle.into());
        NdArray { dtype, shape, order: Order::C, data }
    }

    /// An array of one number and no dimensions, like a NumPy scalar.
    pub fn scalar<T: Element>(value: T) -> NdArray<'static> {
        let data = bytemuck::bytes_of(&value).to_vec().into();
        NdArray { dtype: DType::of::<T>(), shape: Vec::new(), order: Order::C, data }
    }

    /// An `ndarray` array in any memory order.
    ///
    /// Memory that is in C or Fortran order without gaps is borrowed, anything else copied into C
    /// order.
    pub fn from_ndarray<T, S, D>(array: &'a ArrayBase<S, D>) -> NdArray<'a>
    where
        T: Element,
        S: Data<Elem = T>,
        D: Dimension,
    {
        let (dtype, shape) = (DType::of::<T>(), array.shape().to_vec());
        if let Some(elements) = array.as_slice() {
            let data = bytemuck::cast_slice(elements).into();
            return NdArray { dtype, shape, order: Order::C, data };
        }
        if array.t().is_standard_layout() {
            // Without gaps, and no axis runs backwards: memory order is Fortran order.
            if let Some(elements) = array.as_slice_memory_order() {
                let data = bytemuck::cast_slice(elements).into();
                return NdArray { dtype, shape, order: Order::F, data };
            }
        }
        let elements: Vec<T> = array.iter().copied().collect();
        let data = bytemuck::cast_slice(&elements).to_vec().into();
        NdArray { dtype, shape, order: Order::C, data }
    }

    /// The type of the elements.
    pub fn dtype(&self) -> &DType {
        &self.dtype
    }

    /// The length of each axis; empty for an array of no dimensions.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// The order of the elements in [`bytes`](NdArray::bytes).
    pub fn order(&self) -> Order {
        self.order
    }

    /// How many elements there are.
    pub fn len(&self) -> usize {
        // The shape of an opaque array is the only one that has not been checked.
        self.shape.iter().fold(1, |len: usize, &axis| len.saturating_mul(axis))
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.shape.contains(&0)
    }

    /// The elements as they are in memory. For Python objects, their pickle.
    pub fn bytes(&self) -> &[u8] {
        &self.data
    }

    /// The elements as they are in memory, borrowed as they were.
    pub fn into_bytes(self) -> Cow<'a, [u8]> {
        self.data
    }

    /// The same array, which no longer borrows.
    pub fn into_owned(self) -> NdArray<'static> {
        let NdArray { dtype, shape, order, data } = self;
        NdArray { dtype, shape, order, data: data.into_owned().into() }
    }

    /// The same array, borrowed from this one.
    pub fn borrow(&self) -> NdArray<'_> {
        let NdArray { dtype, shape, order, data } = self;
        let data = Cow::Borrowed(&**data);
        NdArray { dtype: dtype.clone(), shape: shape.clone(), order: *order, data }
    }

    /// The elements as they are in memory, without a copy.
    ///
    /// The type must be `T`, in the byte order of this machine, and the memory aligned for it: the
    /// error says which of these fails. Times are viewed as `i64`.
    pub fn view<T: Element>(&self) -> Result<ArrayViewD<'_, T>, AccessError> {
        self.expect_type::<T>()?;
        if !self.dtype.is_native() {
            return Err(AccessError::ByteOrder);
        }
        let elements = if self.data.is_empty() {
            &[]
        } else {
            bytemuck::checked::try_cast_slice(&self.data).map_err(|error| match error {
                bytemuck::checked::CheckedCastError::InvalidBitPattern => AccessError::TruthValue,
                bytemuck::checked::CheckedCastError::PodCastError(_) => AccessError::Alignment,
            })?
        };
        let view = ArrayViewD::from_shape(self.stride_shape(), elements);
        Ok(view.expect("the constructor has compared shape and size"))
    }

    /// A copy of the elements, in native byte order.
    pub fn to_ndarray<T: Element>(&self) -> Result<ArrayD<T>, AccessError> {
        self.expect_type::<T>()?;
        let items = self.data.chunks_exact(size_of::<T>()).map(T::from_memory);
        let elements = if self.dtype.is_native() {
            items.collect()
        } else {
            items.map(T::swap_bytes).collect()
        };
        let array = ArrayD::from_shape_vec(self.stride_shape(), elements);
        Ok(array.expect("the constructor has compared shape and size"))
    }

    /// The elements as an array: a [`view`](NdArray::view) where there can be one, else a copy.
    pub fn as_array<T: Element>(&self) -> Result<CowArray<'_, T, IxDyn>, AccessError> {
        match self.view() {
            Ok(view) => Ok(view.into()),
            Err(AccessError::ByteOrder | AccessError::Alignment | AccessError::TruthValue) => {
                Ok(self.to_ndarray()?.into())
            }
            Err(error) => Err(error),
        }
    }

    /// The byte strings of an array of `S`, without trailing zeros, in C order.
    pub fn byte_strings(&self) -> Result<impl Iterator<Item = &[u8]> + '_, AccessError> {
        self.expect_kind(DTypeKind::Bytes, "byte strings")?;
        let strip =
            |bytes: &'_ [u8]| bytes.iter().rposition(|&byte| byte != 0).map_or(0, |at| at + 1);
        Ok(self.items().map(move |item| &item[..strip(item)]))
    }

    /// The strings of an array of `U`, without trailing zeros, in C order.
    ///
    /// An item is an error if a code point is not a character.
    pub fn strings(&self) -> Result<impl Iterator<Item = Result<String>> + '_, AccessError> {
        self.expect_kind(DTypeKind::Text, "text")?;
        let big = self.dtype.byte_order() == ByteOrder::Big;
        Ok(self.items().map(move |item| text_of(item, big)))
    }

    /// A field of a structured type: a copy of that column, in C order. If the field holds an array
    /// itself, its axes come last.
    pub fn field(&self, name: &str) -> Result<NdArray<'static>, AccessError> {
        self.expect_kind(DTypeKind::Struct, "structures")?;
        let no_field = || AccessError::NoField(name.to_owned());
        let (offset, field) = self.dtype.field(name).ok_or_else(no_field)?;
        let size = byte_size(field.dtype().item_size(), field.shape()).ok_or_else(no_field)?;
        let mut data = Vec::new();
        if size > 0 {
            self.items().for_each(|item| data.extend_from_slice(&item[offset..offset + size]));
        }
        let shape = [&self.shape, field.shape()].concat();
        let dtype = field.dtype().clone();
        Ok(NdArray { dtype, shape, order: Order::C, data: data.into() })
    }

    /// The same array with its elements in C order: itself if they are, else a copy.
    pub fn to_c_order(&self) -> NdArray<'_> {
        let (dtype, shape) = (self.dtype.clone(), self.shape.clone());
        NdArray { dtype, shape, order: Order::C, data: self.c_bytes() }
    }

    /// The bytes of the elements in C order, copied only if they are not.
    pub fn c_bytes(&self) -> Cow<'_, [u8]> {
        if self.order == Order::C || self.data.is_empty() || self.shape.len() < 2 {
            return Cow::Borrowed(&self.data);
        }
        let mut data = Vec::with_capacity(self.data.len());
        self.items().for_each(|item| data.extend_from_slice(item));
        data.into()
    }

    /// The bytes of each element, in C order.
    pub(crate) fn items(&self) -> impl Iterator<Item = &[u8]> {
        let mut strides = vec![0; self.shape.len()];
        let mut stride = self.dtype.item_size();
        let mut set = |axis: usize| {
            strides[axis] = stride;
            stride = stride.saturating_mul(self.shape[axis]);
        };
        match self.order {
            Order::C => (0..self.shape.len()).rev().for_each(&mut set),
            Order::F => (0..self.shape.len()).for_each(&mut set),
        }
        let index = vec![0; self.shape.len()];
        Items { array: self, strides, index, offset: 0, left: self.len() }
    }

    fn stride_shape(&self) -> StrideShape<IxDyn> {
        IxDyn(&self.shape).set_f(self.order == Order::F).into()
    }

    fn expect_type<T: Element>(&self) -> Result<(), AccessError> {
        let found = &self.dtype;
        let is_time = matches!(found.kind(), DTypeKind::DateTime | DTypeKind::TimeDelta);
        let same_kind = found.kind() == T::KIND || (is_time && T::KIND == DTypeKind::Int);
        if same_kind && found.item_size() == size_of::<T>() {
            return Ok(());
        }
        Err(self.other_type(T::NAME))
    }

    fn expect_kind(&self, kind: DTypeKind, expected: &'static str) -> Result<(), AccessError> {
        if self.dtype.kind() == kind { Ok(()) } else { Err(self.other_type(expected)) }
    }

    fn other_type(&self, expected: &'static str) -> AccessError {
        if self.dtype.has_objects() {
            return AccessError::Objects;
        }
        AccessError::Type { expected, found: self.dtype.clone() }
    }
}

impl<'a, T, S, D> From<&'a ArrayBase<S, D>> for NdArray<'a>
where
    T: Element,
    S: Data<Elem = T>,
    D: Dimension,
{
    fn from(array: &'a ArrayBase<S, D>) -> NdArray<'a> {
        NdArray::from_ndarray(array)
    }
}

/// Arrays are equal if type, shape and the bytes of each element are, in any memory order. So
/// `-0.0` differs from `0.0`, and a NaN equals itself.
impl PartialEq<NdArray<'_>> for NdArray<'_> {
    fn eq(&self, other: &NdArray<'_>) -> bool {
        self.dtype == other.dtype
            && self.shape == other.shape
            && match self.order == other.order {
                true => self.data == other.data,
                false => self.c_bytes() == other.c_bytes(),
            }
    }
}

impl Eq for NdArray<'_> {}

impl fmt::Debug for NdArray<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        /// Bytes shown by `Debug`.
        const SHOWN: usize = 16;
        let NdArray { dtype, shape, order, data } = self;
        write!(f, "NdArray({dtype} {shape:?} {order:?}, {} bytes", data.len())?;
        let dots = if data.len() > SHOWN { "…" } else { "" };
        write!(f, " {:02x?}{dots})", &data[..data.len().min(SHOWN)])
    }
}

/// The bytes of each element, in C order.
struct Items<'a> {
    array: &'a NdArray<'a>,
    /// The stride of each axis in bytes.
    strides: Vec<usize>,
    index: Vec<usize>,
    offset: usize,
    left: usize,
}

impl<'a> Iterator for Items<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        self.left = self.left.checked_sub(1)?;
        let size = self.array.dtype.item_size();
        if size == 0 {
            return Some(&[]);
        }
        let item = &self.array.data[self.offset..self.offset + size];
        if self.left > 0 {
            self.step();
        }
        Some(item)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl Items<'_> {
    /// Advances to the next index, which must exist.
    fn step(&mut self) {
        let axes = self.index.iter_mut().zip(&self.array.shape).zip(&self.strides);
        for ((index, &len), &stride) in axes.rev() {
            *index += 1;
            self.offset += stride;
            if *index < len {
                return;
            }
            self.offset -= stride * len;
            *index = 0;
        }
    }
}

/// The text of one element of `U`.
fn text_of(item: &[u8], big_endian: bool) -> Result<String> {
    let code = |bytes: &[u8]| {
        let bytes = bytes.try_into().unwrap_or_default();
        if big_endian { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) }
    };
    let len = item.chunks_exact(4).rposition(|bytes| bytes != [0; 4]).map_or(0, |at| at + 1);
    let chars = item[..4 * len].chunks_exact(4).map(|bytes| {
        let code = code(bytes);
        char::from_u32(code).ok_or_else(|| {
            let message = format!("expected the number of a character, found {code:#x}");
            Error::new(ErrorKind::Damaged, message)
        })
    });
    chars.collect()
}
