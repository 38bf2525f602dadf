//! The types of Rust that elements of arrays can be.

use std::fmt;

use bytemuck::{CheckedBitPattern, NoUninit};
use half::f16;
use num_complex::Complex;

use super::kind::DTypeKind;

/// A type of Rust whose values are elements of arrays.
///
/// These are `bool`, the integers of 8 to 64 bits, [`struct@f16`], `f32`, `f64`, and [`Complex`] of
/// the last two. The trait is sealed: that the bytes of a [`DType`](super::DType) are a valid value
/// of the type is decided here.
pub trait Element:
    sealed::Sealed
    + CheckedBitPattern
    + NoUninit
    + Copy
    + Default
    + PartialEq
    + fmt::Debug
    + Send
    + Sync
    + 'static
{
    /// The kind of type. Its size is the size of the Rust type.
    const KIND: DTypeKind;

    /// NumPy's name, such as `float32`.
    const NAME: &'static str;

    /// The value with its bytes in the opposite order, each of two parts by itself.
    fn swap_bytes(self) -> Self;

    /// The value of these bytes, which must be in native order and exactly those that
    /// the type has. For `bool`, any byte but 0 is true, as in NumPy.
    fn from_memory(bytes: &[u8]) -> Self;

    /// The memory of these values, to be overwritten with other bytes. `None` for `bool`, as not
    /// every byte is one.
    fn memory_of(values: &mut [Self]) -> Option<&mut [u8]>;

    /// From an untyped number, if it is in range. Floats also take integers, round, and refuse a
    /// finite number that would become infinite.
    fn from_number(number: Number) -> Option<Self>;
}

/// An untyped number, as in msgpack.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Number {
    /// An integer of 2^63 or more.
    Unsigned(u64),
    /// Any other integer.
    Signed(i64),
    /// A float of single or double precision.
    Float(f64),
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Number::Unsigned(number) => write!(f, "{number}"),
            Number::Signed(number) => write!(f, "{number}"),
            Number::Float(number) => write!(f, "{number:?}"),
        }
    }
}

pub(crate) mod sealed {
    /// Numbers that a type is known to have, converted without a branch: a loop over many becomes vector instructions.
    pub trait Sealed: Sized {
        fn of_integer(number: i64) -> Self;
        fn of_float(number: f64) -> Self;
    }
}

macro_rules! known {
    ($type:ty, $from_integer:expr, $from_float:expr) => {
        impl sealed::Sealed for $type {
            #[inline]
            fn of_integer(number: i64) -> Self {
                $from_integer(number)
            }

            #[inline]
            fn of_float(number: f64) -> Self {
                $from_float(number)
            }
        }
    };
}

/// The memory of types for which any bytes are a value.
macro_rules! plain_memory {
    () => {
        #[inline]
        fn from_memory(bytes: &[u8]) -> Self {
            bytemuck::pod_read_unaligned(bytes)
        }

        #[inline]
        fn memory_of(values: &mut [Self]) -> Option<&mut [u8]> {
            Some(bytemuck::cast_slice_mut(values))
        }
    };
}

macro_rules! integers {
    ($($type:ty, $kind:ident, $name:literal;)*) => {$(
        known!($type, |number| number as $type, |number| number as $type);

        impl Element for $type {
            const KIND: DTypeKind = DTypeKind::$kind;
            const NAME: &'static str = $name;

            #[inline]
            fn swap_bytes(self) -> Self {
                self.swap_bytes()
            }

            plain_memory!();

            fn from_number(number: Number) -> Option<Self> {
                match number {
                    Number::Unsigned(number) => number.try_into().ok(),
                    Number::Signed(number) => number.try_into().ok(),
                    Number::Float(_) => None,
                }
            }
        }
    )*};
}

integers! {
    u8, UInt, "uint8"; u16, UInt, "uint16"; u32, UInt, "uint32"; u64, UInt, "uint64";
    i8, Int, "int8"; i16, Int, "int16"; i32, Int, "int32"; i64, Int, "int64";
}

macro_rules! floats {
    ($($type:ty, $name:literal, $round:expr;)*) => {$(
        known!($type, $round.1, $round.2);

        impl Element for $type {
            const KIND: DTypeKind = DTypeKind::Float;
            const NAME: &'static str = $name;

            #[inline]
            fn swap_bytes(self) -> Self {
                <$type>::from_bits(self.to_bits().swap_bytes())
            }

            plain_memory!();

            fn from_number(number: Number) -> Option<Self> {
                let (from_unsigned, from_signed, from_float) = $round;
                match number {
                    Number::Unsigned(number) => Some(from_unsigned(number)),
                    Number::Signed(number) => Some(from_signed(number)),
                    Number::Float(number) => Some(from_float(number))
                        .filter(|rounded: &$type| rounded.is_finite() || !number.is_finite()),
                }
                .filter(|rounded: &$type| {
                    rounded.is_finite() || matches!(number, Number::Float(_))
                })
            }
        }
    )*};
}

floats! {
    f16, "float16", (
        // Half precision has no more digits than a double, and its largest number is far below
        // where these conversions lose any.
        |number: u64| f16::from_f64(number as f64),
        |number: i64| f16::from_f64(number as f64),
        f16::from_f64
    );
    f32, "float32", (|number: u64| number as f32, |number: i64| number as f32, |number: f64| number as f32);
    f64, "float64", (|number: u64| number as f64, |number: i64| number as f64, |number: f64| number);
}

macro_rules! complexes {
    ($($part:ty, $name:literal;)*) => {$(
        known!(
            Complex<$part>,
            |number| Complex::new(number as $part, 0.0),
            |number| Complex::new(number as $part, 0.0)
        );

        impl Element for Complex<$part> {
            const KIND: DTypeKind = DTypeKind::Complex;
            const NAME: &'static str = $name;

            #[inline]
            fn swap_bytes(self) -> Self {
                Complex::new(Element::swap_bytes(self.re), Element::swap_bytes(self.im))
            }

            plain_memory!();

            fn from_number(number: Number) -> Option<Self> {
                Some(Complex::new(<$part>::from_number(number)?, 0.0))
            }
        }
    )*};
}

complexes! { f32, "complex64"; f64, "complex128"; }

known!(bool, |number| number != 0, |number| number != 0.0);

impl Element for bool {
    const KIND: DTypeKind = DTypeKind::Bool;
    const NAME: &'static str = "bool";

    #[inline]
    fn swap_bytes(self) -> Self {
        self
    }

    #[inline]
    fn from_memory(bytes: &[u8]) -> Self {
        bytes != [0]
    }

    fn memory_of(_: &mut [Self]) -> Option<&mut [u8]> {
        None
    }

    fn from_number(number: Number) -> Option<Self> {
        match number {
            Number::Signed(0) => Some(false),
            Number::Signed(1) => Some(true),
            _ => None,
        }
    }
}
