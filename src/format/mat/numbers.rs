//! Numbers: as they are stored, to what their class says.

use num_complex::Complex;

use super::element::{Element, Stored};
use super::memory::Memory;
use crate::format::FormatError;
use crate::value::{self, ByteOrder, DType, NdArray, Number, Order};

/// The numbers of one array: the real parts, perhaps the imaginary ones, and what they are to be.
pub(super) struct Numbers<'a> {
    /// How numbers of the class are stored, unless they are stored in less.
    pub(super) class: Stored,
    pub(super) logical: bool,
    pub(super) order: ByteOrder,
    pub(super) real: Element<'a>,
    pub(super) imaginary: Option<Element<'a>>,
}

impl Numbers<'_> {
    /// The array of this shape, which has `count` elements, in Fortran order.
    pub(super) fn array(
        &self,
        shape: &[usize],
        count: usize,
        memory: &mut Memory,
    ) -> Result<NdArray<'static>, FormatError> {
        for part in [Some(&self.real), self.imaginary.as_ref()].into_iter().flatten() {
            let len = part.len()?;
            if len != count {
                return Err(part.error(format!("{count} numbers"), len.to_string()));
            }
        }
        let (dtype, bytes) = match &self.imaginary {
            None if self.logical => self.truths(count, memory)?,
            None => self.reals(memory)?,
            Some(imaginary) if self.class == Stored::Single => {
                let bytes = self.complexes::<f32>(imaginary, count, memory)?;
                (DType::of::<Complex<f32>>(), bytes)
            }
            // There are complex integers in MATLAB, but nowhere else.
            Some(imaginary) => {
                let bytes = self.complexes::<f64>(imaginary, count, memory)?;
                (DType::of::<Complex<f64>>(), bytes)
            }
        };
        NdArray::with_order(dtype, shape, Order::F, bytes)
            .map_err(|error| self.real.error("an array that fits in memory", error.to_string()))
    }

    fn truths(&self, count: usize, memory: &mut Memory) -> Result<(DType, Vec<u8>), FormatError> {
        memory.take(count, &self.real)?;
        let items = self.real.data.chunks_exact(self.real.stored.size());
        let truths = items.map(|item| u8::from(item.iter().any(|&byte| byte != 0)));
        Ok((DType::of::<bool>(), truths.collect()))
    }

    fn reals(&self, memory: &mut Memory) -> Result<(DType, Vec<u8>), FormatError> {
        match self.class {
            Stored::Int8 => self.reals_of::<i8>(memory),
            Stored::UInt8 => self.reals_of::<u8>(memory),
            Stored::Int16 => self.reals_of::<i16>(memory),
            Stored::UInt16 => self.reals_of::<u16>(memory),
            Stored::Int32 => self.reals_of::<i32>(memory),
            Stored::UInt32 => self.reals_of::<u32>(memory),
            Stored::Int64 => self.reals_of::<i64>(memory),
            Stored::UInt64 => self.reals_of::<u64>(memory),
            Stored::Single => self.reals_of::<f32>(memory),
            Stored::Double => self.reals_of::<f64>(memory),
            other => Err(self.real.error("a class of numbers", format!("data of type {other:?}"))),
        }
    }

    fn reals_of<T: value::Element>(
        &self,
        memory: &mut Memory,
    ) -> Result<(DType, Vec<u8>), FormatError> {
        if self.real.stored == self.class {
            memory.take(self.real.data.len(), &self.real)?;
            return Ok((DType::of::<T>().with_byte_order(self.order), self.real.data.to_vec()));
        }
        let size = reserved::<T>(&self.real, memory)?;
        let mut bytes = Vec::with_capacity(size);
        each(&self.real, self.order, |number: T| {
            bytes.extend_from_slice(bytemuck::bytes_of(&number));
        })?;
        Ok((DType::of::<T>(), bytes))
    }

    fn complexes<T: value::Element>(
        &self,
        imaginary: &Element<'_>,
        count: usize,
        memory: &mut Memory,
    ) -> Result<Vec<u8>, FormatError> {
        let size = reserved::<T>(&self.real, memory)? + reserved::<T>(imaginary, memory)?;
        let mut bytes = vec![0; size];
        for (part, element) in [&self.real, imaginary].into_iter().enumerate() {
            let slots = bytes.chunks_exact_mut(size_of::<T>()).skip(part).step_by(2);
            let mut slots = slots.take(count);
            each(element, self.order, |number: T| {
                let slot = slots.next().expect("both parts are of this many numbers");
                slot.copy_from_slice(bytemuck::bytes_of(&number));
            })?;
        }
        Ok(bytes)
    }
}

/// The numbers of an element as numbers of this type. One that does not fit is an error.
pub(super) fn convert<T: value::Element>(
    element: &Element<'_>,
    order: ByteOrder,
    memory: &mut Memory,
) -> Result<Vec<T>, FormatError> {
    reserved::<T>(element, memory)?;
    let mut numbers = Vec::with_capacity(element.len()?);
    each(element, order, |number| numbers.push(number))?;
    Ok(numbers)
}

/// Counts the bytes that the numbers of an element take as this type.
fn reserved<T>(element: &Element<'_>, memory: &mut Memory) -> Result<usize, FormatError> {
    let size = element.len()?.saturating_mul(size_of::<T>());
    memory.take(size, element)?;
    Ok(size)
}

fn each<T: value::Element>(
    element: &Element<'_>,
    order: ByteOrder,
    mut f: impl FnMut(T),
) -> Result<(), FormatError> {
    // A function for each stored type, not a loop for each pair of types.
    let (size, read): (usize, fn(&[u8]) -> Number) = match element.stored {
        Stored::Int8 => (1, |b| signed(i8::from_le_bytes(array(b)))),
        Stored::UInt8 => (1, |b| signed(u8::from_le_bytes(array(b)))),
        Stored::Int16 => (2, |b| signed(i16::from_le_bytes(array(b)))),
        Stored::UInt16 => (2, |b| signed(u16::from_le_bytes(array(b)))),
        Stored::Int32 => (4, |b| signed(i32::from_le_bytes(array(b)))),
        Stored::UInt32 => (4, |b| signed(u32::from_le_bytes(array(b)))),
        Stored::Int64 => (8, |b| signed(i64::from_le_bytes(array(b)))),
        Stored::UInt64 => (8, |b| Number::Unsigned(u64::from_le_bytes(array(b)))),
        Stored::Single => (4, |b| Number::Float(f32::from_le_bytes(array(b)).into())),
        Stored::Double => (8, |b| Number::Float(f64::from_le_bytes(array(b)))),
        other => return Err(element.error("numbers", format!("data of type {other:?}"))),
    };
    for item in element.data.chunks_exact(size) {
        let mut bytes = [0; 8];
        let bytes = &mut bytes[..size];
        bytes.copy_from_slice(item);
        if order == ByteOrder::Big {
            bytes.reverse();
        }
        let number = read(bytes);
        f(number_as(number).ok_or_else(|| element.error(T::NAME, number.to_string()))?);
    }
    Ok(())
}

fn array<const N: usize>(bytes: &[u8]) -> [u8; N] {
    bytes.try_into().expect("as many bytes as the type has")
}

fn signed(number: impl Into<i64>) -> Number {
    Number::Signed(number.into())
}

/// A number as this type, if that can be done without a loss other than rounding to a float.
pub(super) fn number_as<T: value::Element>(number: Number) -> Option<T> {
    /// Below this every whole double is within `i64`.
    const SAFE: f64 = 9.2e18;
    match number {
        Number::Float(float) => T::from_number(number).or_else(|| {
            let whole = float.fract() == 0.0 && float.abs() < SAFE;
            T::from_number(Number::Signed(float as i64)).filter(|_| whole)
        }),
        // `Unsigned` is for what `Signed` cannot hold.
        Number::Unsigned(unsigned) => {
            T::from_number(i64::try_from(unsigned).map_or(number, Number::Signed))
        }
        Number::Signed(_) => T::from_number(number),
    }
}
