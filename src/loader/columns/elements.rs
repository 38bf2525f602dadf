//! [`Elements`]: the elements of a stored array as a column takes them: of its own type, or of a narrower one whose
//! values it has all, such as `int32` for `int64` and `uint8` for `float32`.

use super::{code_of, unfit};
use crate::array::PackedArray;
use crate::error::Result;
use crate::value::{DType, DTypeKind as Kind, Element};

/// Some rows of an array: the first, and how many.
pub(super) type Part = (usize, usize);

/// How elements of a type are read for a column of `T`.
pub(super) struct Elements<T> {
    /// Bytes of one.
    pub(super) size: usize,
    big_endian: bool,
    from_bytes: fn(&mut [T], &[u8], bool),
    from_packed: fn(&PackedArray<'_>, Option<Part>, &mut [T]) -> Result<()>,
}

impl<T: Element> Elements<T> {
    /// The column's own, in the byte order of this machine's files.
    pub(super) fn own() -> Elements<T> {
        Elements::same(false)
    }

    fn same(big_endian: bool) -> Elements<T> {
        Elements {
            size: size_of::<T>(),
            big_endian,
            from_bytes: |out, bytes, swaps| {
                match T::memory_of(out) {
                    Some(memory) => memory.copy_from_slice(bytes),
                    None => out.iter_mut().zip(bytes).for_each(|(to, byte)| {
                        *to = T::from_memory(std::slice::from_ref(byte));
                    }),
                }
                if swaps {
                    out.iter_mut().for_each(|value| *value = value.swap_bytes());
                }
            },
            from_packed: read_packed::<T>,
        }
    }

    /// The elements of a type by NumPy's name for it, as `<f4`. `None` if the column does not have all their values.
    pub(super) fn of(dtype: &str) -> Option<Elements<T>> {
        // Byte order, letter and size. `|` is for what has no byte order.
        let code = dtype.strip_prefix(['|', '<', '>', '='])?;
        let big_endian = dtype.starts_with('>');
        if dtype.starts_with('|') && !code.ends_with('1') {
            return None;
        }
        let own = code_of::<T>();
        if code == own || (code == "b1" && own == "u1") {
            return Some(Elements::same(big_endian));
        }
        macro_rules! any {
            ($($known:literal $type:ty,)*) => {
                match code {
                    $($known if widens::<$type, T>() => Some(Elements::wider::<$type>(big_endian)),)*
                    _ => None,
                }
            };
        }
        narrow_types!(any)
    }

    /// The elements of a container's type, in which they are decoded in the byte order of this machine.
    pub(super) fn of_type(dtype: &DType) -> Option<Elements<T>> {
        let own = DType::of::<T>();
        let is_kind =
            dtype.kind() == T::KIND || (dtype.kind() == Kind::Bool && own == DType::of::<u8>());
        match is_kind && dtype.item_size() == own.item_size() {
            true => Some(Elements::own()),
            false => Elements::of(&dtype.to_string()),
        }
    }

    /// Elements of a narrower type.
    fn wider<S: Narrow>(big_endian: bool) -> Elements<T> {
        Elements {
            size: size_of::<S>(),
            big_endian,
            from_bytes: |out, bytes, swaps| {
                let elements = out.iter_mut().zip(bytes.chunks_exact(size_of::<S>()));
                match swaps {
                    false => elements.for_each(|(to, bytes)| *to = S::from_memory(bytes).wide()),
                    true => elements
                        .for_each(|(to, bytes)| *to = S::from_memory(bytes).swap_bytes().wide()),
                }
            },
            from_packed: |packed, part, out| {
                let mut values = vec![S::default(); out.len()];
                read_packed(packed, part, &mut values)?;
                out.iter_mut().zip(values).for_each(|(to, value)| *to = value.wide());
                Ok(())
            },
        }
    }

    /// Reads as many elements as there is room for.
    pub(super) fn read(&self, out: &mut [T], bytes: &[u8]) -> Result<()> {
        let expected = out.len().saturating_mul(self.size);
        if bytes.len() != expected {
            let expected = format!("{expected} bytes for {} of {}", out.len(), code_of::<T>());
            return Err(unfit(expected, bytes.len()));
        }
        (self.from_bytes)(out, bytes, self.big_endian != cfg!(target_endian = "big"));
        Ok(())
    }

    /// Reads a container, or some of its rows.
    pub(super) fn read_packed(
        &self,
        packed: &PackedArray<'_>,
        part: Option<Part>,
        out: &mut [T],
    ) -> Result<()> {
        (self.from_packed)(packed, part, out)
    }
}

fn read_packed<T: Element>(
    packed: &PackedArray<'_>,
    part: Option<Part>,
    out: &mut [T],
) -> Result<()> {
    match part {
        Some((first, wanted)) => packed.read_rows_alone(first, wanted, out),
        None => packed.read_row(out),
    }
}

/// A type whose values wider ones have.
trait Narrow: Element {
    /// The value in a type that is wider: see [`widens`].
    fn wide<T: Element>(self) -> T;
}

macro_rules! narrow_types {
    ($apply:ident) => {
        $apply! {
            "b1" bool, "u1" u8, "u2" u16, "u4" u32, "i1" i8, "i2" i16, "i4" i32, "f2" half::f16, "f4" f32,
        }
    };
}

use narrow_types;

macro_rules! narrow {
    ($($through:ident, $of:ident: $($type:ty),*;)*) => {$($(
        impl Narrow for $type {
            #[inline]
            fn wide<T: Element>(self) -> T {
                T::$of($through::from(self))
            }
        }
    )*)*};
}

narrow! {
    i64, of_integer: bool, u8, u16, u32, i8, i16, i32;
    f64, of_float: half::f16, f32;
}

/// Whether the second type has all values of the first, and is another one.
fn widens<S: Element, T: Element>() -> bool {
    let bits = |size: usize| 8 * size as u32;
    // Integers have digits besides the sign, floats have a mantissa.
    let digits = |kind: Kind, size: usize| match (kind, size) {
        (Kind::Bool, _) => 1,
        (Kind::Int, size) => bits(size) - 1,
        (Kind::UInt, size) => bits(size),
        (_, 2) => half::f16::MANTISSA_DIGITS,
        (_, 4) => f32::MANTISSA_DIGITS,
        _ => f64::MANTISSA_DIGITS,
    };
    let (from, to) = (digits(S::KIND, size_of::<S>()), digits(T::KIND, size_of::<T>()));
    match (S::KIND, T::KIND) {
        (_, Kind::Bool) | (Kind::Float, Kind::Int | Kind::UInt) | (Kind::Int, Kind::UInt) => false,
        (Kind::Float, Kind::Float) => from < to,
        (Kind::Float, _) | (_, Kind::Complex) => false,
        _ => from <= to,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As NumPy casts safely, but for integers that floats round.
    #[test]
    fn a_wider_type_has_all_values() {
        assert!(widens::<u8, f32>() && widens::<u8, i16>() && widens::<i32, i64>());
        assert!(widens::<i32, f64>() && widens::<f32, f64>() && widens::<half::f16, f32>());
        assert!(widens::<bool, i8>() && widens::<bool, f32>() && widens::<i8, half::f16>());
        assert!(!widens::<i32, f32>() && !widens::<u16, i16>() && !widens::<i8, u64>());
        assert!(!widens::<u16, half::f16>() && !widens::<f64, f32>() && !widens::<f32, i64>());
        assert!(!widens::<u8, bool>() && !widens::<i64, f64>());
    }

    #[test]
    fn every_value_stays_the_same() {
        let bytes: Vec<u8> = (i16::MIN..=i16::MAX).flat_map(i16::to_be_bytes).collect();
        let elements = Elements::<f32>::of(">i2").unwrap();
        let mut out = vec![0.0; 1 << 16];
        elements.read(&mut out, &bytes).unwrap();
        assert!(
            out.iter().zip(i16::MIN..=i16::MAX).all(|(found, value)| *found == f32::from(value))
        );
        let floats = [f32::NAN, f32::INFINITY, -0.0, f32::MIN_POSITIVE / 2.0, f32::MAX];
        let bytes: Vec<u8> = floats.iter().flat_map(|float| float.to_le_bytes()).collect();
        let mut out = [0.0_f64; 5];
        Elements::<f64>::of("<f4").unwrap().read(&mut out, &bytes).unwrap();
        assert!(out[0].is_nan() && out[1..] == floats.map(f64::from)[1..]);
        assert!(out[2].is_sign_negative());
        assert!(Elements::<f64>::of("<f4").unwrap().read(&mut out, &bytes[1..]).is_err());
        assert!(Elements::<i64>::of("|i4").is_none() && Elements::<i64>::of("i4").is_none());
    }
}
