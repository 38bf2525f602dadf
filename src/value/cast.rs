//! Conversion of elements to another type, as NumPy's `astype`.
//!
//! [`Casting`] says which conversions are allowed; that is decided from the types alone;
//! then the results are NumPy's, bit for bit, except where NumPy depends on the machine:
//!
//! * a NaN, an infinity, or a float out of range becomes no integer but an error;
//! * a time that the new unit has no room for is an error, where NumPy wraps it around;
//! * the bits of a NaN are unspecified.
//!
//! Absent on purpose: numbers from text and text from numbers, spans of time from floats, spans
//! from points in time, months from days as spans (NumPy takes an average), and the long double of
//! C, which is another number on each machine.

use std::fmt;
use std::str::FromStr;

use half::f16;
use num_complex::Complex;

use super::array::{NdArray, Order};
use super::dtype::{ByteOrder, DType, Field, TimeUnit, Unit};
use super::element::Element;
use super::kind::DTypeKind;
use crate::error::{Error, ErrorKind, Result};

/// How careful a conversion is. Each level also allows what the ones before it do.
///
/// ```
/// use kiste::value::{Casting, DType, NdArray};
///
/// let [i4, f4, f8] = ["<i4", "<f4", "<f8"].map(|name| name.parse::<DType>().unwrap());
/// assert!(i4.can_cast(&f8, Casting::Safe));
/// assert!(f8.can_cast(&f4, Casting::SameKind) && !f8.can_cast(&f4, Casting::Safe));
/// assert!(!f4.can_cast(&i4, Casting::SameKind));
///
/// let array = NdArray::from_ndarray(&ndarray::array![1.5_f64, -2.5]).into_owned();
/// assert_eq!(array.astype(&i4, Casting::Unsafe)?.view::<i32>()?, ndarray::array![1, -2].into_dyn());
/// assert!(array.astype(&i4, Casting::SameKind).is_err());
/// # Ok::<(), kiste::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Casting {
    /// Nothing changes.
    No,
    /// Only the byte order may change.
    Equiv,
    /// Every value is preserved. (NumPy counts large integers that become floats as such.)
    Safe,
    /// Also within a kind, rounded or truncated: float64 to float32, int64 to int8.
    #[default]
    SameKind,
    /// Everything that can be converted: floats to integers, signed integers to unsigned ones.
    Unsafe,
}

impl FromStr for Casting {
    type Err = Error;

    fn from_str(name: &str) -> Result<Casting> {
        [Casting::No, Casting::Equiv, Casting::Safe, Casting::SameKind, Casting::Unsafe]
            .into_iter()
            .find(|casting| casting.to_string() == name)
            .ok_or_else(|| {
                let message = format!("expected safe, same_kind or unsafe, found {name:?}");
                Error::new(ErrorKind::Invalid, message)
            })
    }
}

impl fmt::Display for Casting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Casting::No => "no",
            Casting::Equiv => "equiv",
            Casting::Safe => "safe",
            Casting::SameKind => "same_kind",
            Casting::Unsafe => "unsafe",
        })
    }
}

impl DType {
    /// Whether elements of this type may be converted to another, as `numpy.can_cast` says.
    /// Pairs that are never converted are `false` at any level.
    pub fn can_cast(&self, to: &DType, casting: Casting) -> bool {
        level(self, to).is_some_and(|needed| needed <= casting)
    }

    /// Fails where elements may not be converted: before there are any.
    pub(crate) fn expect_cast(&self, to: &DType, casting: Casting) -> Result<()> {
        match level(self, to) {
            Some(needed) if needed <= casting => Ok(()),
            Some(_) => {
                let message = format!(
                    "expected elements that can be converted to {to} ({casting}), found {self}"
                );
                Err(Error::new(ErrorKind::Invalid, message))
            }
            None => {
                let message = format!("elements of {self} cannot be converted to {to}");
                Err(Error::new(ErrorKind::Unsupported, message))
            }
        }
    }
}

impl NdArray<'_> {
    /// A copy with elements of another type, as NumPy makes it; see [`Casting`].
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`] if the conversion is not as careful as asked for, or an element has
    /// no counterpart: a NaN as an integer, `ä` as a byte. [`ErrorKind::Unsupported`] for pairs of
    /// types that are not converted.
    pub fn astype(&self, dtype: &DType, casting: Casting) -> Result<NdArray<'static>> {
        self.dtype().expect_cast(dtype, casting)?;
        if self.dtype() == dtype {
            return Ok(self.clone().into_owned());
        }
        let too_large = || Error::new(ErrorKind::Limit, "the array does not fit in memory");
        let size = self.len().checked_mul(dtype.item_size());
        let size = size.filter(|size| isize::try_from(*size).is_ok()).ok_or_else(too_large)?;
        let mut out = vec![0; size];
        if dtype.is_struct() {
            self.convert_fields(dtype, &mut out)?;
            return NdArray::with_order(dtype.clone(), self.shape(), Order::C, out);
        }
        if !out.is_empty() {
            convert(self.dtype(), dtype, self.bytes(), &mut out)?;
        }
        NdArray::with_order(dtype.clone(), self.shape(), self.order(), out)
    }

    /// Converts field by field, the first to the first and so on.
    fn convert_fields(&self, dtype: &DType, out: &mut [u8]) -> Result<()> {
        for (from, to) in named(self.dtype()).zip(named(dtype)) {
            let column = self.field(from.name())?.astype(to.dtype(), Casting::Unsafe)?;
            let Some((offset, _)) = dtype.field(to.name()) else { continue };
            let size = column.bytes().len().checked_div(self.len()).unwrap_or(0);
            if size == 0 {
                continue;
            }
            let elements = out.chunks_exact_mut(dtype.item_size());
            for (element, field) in elements.zip(column.bytes().chunks_exact(size)) {
                element[offset..offset + size].copy_from_slice(field);
            }
        }
        Ok(())
    }
}

/// The fields that are not padding.
fn named(dtype: &DType) -> impl Iterator<Item = &Field> {
    dtype.fields().iter().filter(|field| !field.name().is_empty())
}

/// The least careful level that a conversion needs; `None` if it is impossible.
fn level(from: &DType, to: &DType) -> Option<Casting> {
    if from == to {
        return Some(Casting::No);
    }
    if from.is_struct() || to.is_struct() {
        return level_of_fields(from, to);
    }
    if from.clone().with_byte_order(to.byte_order()) == *to {
        return Some(Casting::Equiv);
    }
    if is_number(from) && is_number(to) {
        return Some(level_of_numbers(from, to));
    }
    let by_len =
        |from: usize, to: usize| Some(if from <= to { Casting::Safe } else { Casting::SameKind });
    let integer =
        |dtype: &DType| matches!(dtype.kind(), DTypeKind::Bool | DTypeKind::Int | DTypeKind::UInt);
    match (from.kind(), to.kind()) {
        (DTypeKind::DateTime, DTypeKind::DateTime)
        | (DTypeKind::TimeDelta, DTypeKind::TimeDelta) => {
            level_of_times(from.kind(), from.time_unit()?, to.time_unit()?)
        }
        (_, DTypeKind::TimeDelta) if integer(from) => {
            Some(level_of_numbers(from, &DType::of::<i64>()))
        }
        (_, DTypeKind::DateTime) if integer(from) => Some(Casting::Unsafe),
        (DTypeKind::DateTime | DTypeKind::TimeDelta, _) if integer(to) => Some(Casting::Unsafe),
        (DTypeKind::Bytes, DTypeKind::Bytes)
        | (DTypeKind::Text, DTypeKind::Text)
        | (DTypeKind::Void, DTypeKind::Void) => by_len(from.item_size(), to.item_size()),
        (DTypeKind::Bytes, DTypeKind::Text) => by_len(from.item_size(), to.item_size() / 4),
        (DTypeKind::Text, DTypeKind::Bytes) => Some(Casting::Unsafe),
        _ => None,
    }
}

/// Structures are converted by position; other names are as good, but not the same.
fn level_of_fields(from: &DType, to: &DType) -> Option<Casting> {
    let alike = from.is_struct() && to.is_struct() && named(from).count() == named(to).count();
    if !alike {
        return None;
    }
    let mut needed = Casting::Equiv;
    for (from, to) in named(from).zip(named(to)) {
        if from.shape() != to.shape() {
            return None;
        }
        needed = needed.max(level(from.dtype(), to.dtype())?);
        if from.name() != to.name() {
            needed = needed.max(Casting::Safe);
        }
    }
    // The same fields at other places.
    let moved = from.item_size() != to.item_size();
    Some(if moved { needed.max(Casting::Safe) } else { needed })
}

/// Whether elements are numbers of types that Rust has.
fn is_number(dtype: &DType) -> bool {
    match dtype.kind() {
        DTypeKind::Bool | DTypeKind::Int | DTypeKind::UInt => true,
        DTypeKind::Float => dtype.item_size() <= 8,
        DTypeKind::Complex => dtype.item_size() <= 16,
        _ => false,
    }
}

fn level_of_numbers(from: &DType, to: &DType) -> Casting {
    // The largest integer, in bytes, that a float of this size holds. NumPy counts 8 bytes as
    // holding all.
    let (a, b) = (from.item_size(), to.item_size());
    let held = |integer: usize, float: usize| integer < float || float == 8;
    let safe = match (from.kind(), to.kind()) {
        (DTypeKind::Bool, _) => true,
        (DTypeKind::Int, DTypeKind::Int) | (DTypeKind::UInt, DTypeKind::UInt) => a <= b,
        (DTypeKind::UInt, DTypeKind::Int) => a < b,
        (DTypeKind::Int | DTypeKind::UInt, DTypeKind::Float) => held(a, b),
        (DTypeKind::Int | DTypeKind::UInt, DTypeKind::Complex) => held(a, b / 2),
        (DTypeKind::Float, DTypeKind::Float) | (DTypeKind::Complex, DTypeKind::Complex) => a <= b,
        (DTypeKind::Float, DTypeKind::Complex) => a <= b / 2,
        _ => false,
    };
    let rank = |dtype: &DType| match dtype.kind() {
        DTypeKind::Bool => 0,
        DTypeKind::UInt => 1,
        DTypeKind::Int => 2,
        DTypeKind::Float => 3,
        _ => 4,
    };
    match (safe, rank(from) <= rank(to)) {
        (true, _) => Casting::Safe,
        (false, true) => Casting::SameKind,
        (false, false) => Casting::Unsafe,
    }
}

fn level_of_times(kind: DTypeKind, from: TimeUnit, to: TimeUnit) -> Option<Casting> {
    if from.unit == Unit::Generic {
        return Some(Casting::Safe);
    }
    if to.unit == Unit::Generic {
        return Some(Casting::Unsafe);
    }
    // For NumPy, seven days are not a week: a step to a coarser unit is never safe.
    let finer = from.unit as u8 <= to.unit as u8;
    let divides = |(from, to): (i128, i128)| match finer && from % to == 0 {
        true => Casting::Safe,
        false => Casting::SameKind,
    };
    match (months(from), months(to)) {
        (Some(from), Some(to)) => Some(divides((from, to))),
        (None, None) => Some(divides((attoseconds(from), attoseconds(to)))),
        // There is a calendar for points in time alone.
        (Some(_), None) if kind == DTypeKind::DateTime => Some(Casting::Safe),
        (None, Some(_)) if kind == DTypeKind::DateTime => Some(Casting::SameKind),
        _ => None,
    }
}

/// The months of a unit, if it is one of months or years.
fn months(unit: TimeUnit) -> Option<i128> {
    match unit.unit {
        Unit::Year => Some(12 * i128::from(unit.count)),
        Unit::Month => Some(unit.count.into()),
        _ => None,
    }
}

/// The length of any other unit.
fn attoseconds(unit: TimeUnit) -> i128 {
    const SECOND: i128 = 1_000_000_000_000_000_000;
    let one = match unit.unit {
        Unit::Week => 7 * 86_400 * SECOND,
        Unit::Day => 86_400 * SECOND,
        Unit::Hour => 3600 * SECOND,
        Unit::Minute => 60 * SECOND,
        Unit::Second => SECOND,
        Unit::Millisecond => SECOND / 1000,
        Unit::Microsecond => SECOND / 1_000_000,
        Unit::Nanosecond => SECOND / 1_000_000_000,
        Unit::Picosecond => 1_000_000,
        Unit::Femtosecond => 1000,
        Unit::Attosecond | Unit::Generic | Unit::Year | Unit::Month => 1,
    };
    one * i128::from(unit.count)
}

/// Converts elements that are not structures and can be converted.
fn convert(from: &DType, to: &DType, source: &[u8], out: &mut [u8]) -> Result<()> {
    if from.clone().with_byte_order(to.byte_order()) == *to {
        return swap(from, source, out);
    }
    let same_kind = from.kind() == to.kind();
    let is_time =
        |dtype: &DType| matches!(dtype.kind(), DTypeKind::DateTime | DTypeKind::TimeDelta);
    let as_number = |dtype: &DType| match is_time(dtype) {
        true => DType::of::<i64>().with_byte_order(dtype.byte_order()),
        false => dtype.clone(),
    };
    match from.kind() {
        DTypeKind::DateTime | DTypeKind::TimeDelta if same_kind => {
            convert_times(from, to, source, out)
        }
        DTypeKind::Bytes | DTypeKind::Void if same_kind => {
            let (from, to) = (from.item_size(), to.item_size());
            if from > 0 {
                cut(source.chunks_exact(from), out.chunks_exact_mut(to));
            }
            Ok(())
        }
        DTypeKind::Bytes | DTypeKind::Text => convert_text(from, to, source, out),
        _ => convert_numbers(&as_number(from), &as_number(to), source, out),
    }
}

/// Turns the bytes of each number around: of both parts of a complex one, of each character.
fn swap(dtype: &DType, source: &[u8], out: &mut [u8]) -> Result<()> {
    let size = match dtype.kind() {
        DTypeKind::Complex => dtype.item_size() / 2,
        DTypeKind::Text => 4,
        _ => dtype.item_size(),
    };
    out.copy_from_slice(source);
    out.chunks_exact_mut(size.max(1)).for_each(<[u8]>::reverse);
    Ok(())
}

/// Copies as much of each element as there is room for.
fn cut<'a>(from: impl Iterator<Item = &'a [u8]>, to: impl Iterator<Item = &'a mut [u8]>) {
    for (from, to) in from.zip(to) {
        let len = from.len().min(to.len());
        to[..len].copy_from_slice(&from[..len]);
    }
}

/// Characters, of one byte or of four, to such.
fn convert_text(from: &DType, to: &DType, source: &[u8], out: &mut [u8]) -> Result<()> {
    let width = |dtype: &DType| if dtype.kind() == DTypeKind::Text { 4 } else { 1 };
    let (a, b) = (width(from), width(to));
    if from.item_size() == 0 {
        return Ok(());
    }
    let elements = source.chunks_exact(from.item_size()).zip(out.chunks_exact_mut(to.item_size()));
    for (index, (from_item, to_item)) in elements.enumerate() {
        for (from_char, to_char) in from_item.chunks_exact(a).zip(to_item.chunks_exact_mut(b)) {
            let code = match *from_char {
                [one] => u32::from(one),
                [p, q, r, s] if from.byte_order() == ByteOrder::Big => {
                    u32::from_be_bytes([p, q, r, s])
                }
                [p, q, r, s] => u32::from_le_bytes([p, q, r, s]),
                _ => 0,
            };
            if a != b && code > 127 {
                let message =
                    format!("element {index}: expected a character of ASCII, found {code:#x}");
                return Err(Error::new(ErrorKind::Invalid, message));
            }
            match (b, to.byte_order()) {
                (1, _) => to_char[0] = code as u8,
                (_, ByteOrder::Big) => to_char.copy_from_slice(&code.to_be_bytes()),
                _ => to_char.copy_from_slice(&code.to_le_bytes()),
            }
        }
    }
    Ok(())
}

fn convert_times(from: &DType, to: &DType, source: &[u8], out: &mut [u8]) -> Result<()> {
    let units = from.time_unit().zip(to.time_unit());
    let (a, b) = units.unwrap_or((TimeUnit::GENERIC, TimeUnit::GENERIC));
    let (from_swapped, to_swapped) = (!from.is_native(), !to.is_native());
    // Without a unit there is no telling how long after 1970 it is.
    let nowhere = from.kind() == DTypeKind::DateTime && a.unit == Unit::Generic && a != b;
    for (index, (from_item, to_item)) in
        source.chunks_exact(8).zip(out.chunks_exact_mut(8)).enumerate()
    {
        let read = i64::from_memory(from_item);
        let time = if from_swapped { read.swap_bytes() } else { read };
        // Not a time stays that.
        let made = match time {
            i64::MIN => Some(time),
            _ if nowhere => None,
            _ => in_unit(time, a, b),
        };
        let made = made.ok_or_else(|| {
            let message = format!("element {index}: expected a time within {to}, found {time}");
            Error::new(ErrorKind::Invalid, message)
        })?;
        let made = if to_swapped { made.swap_bytes() } else { made };
        to_item.copy_from_slice(bytemuck::bytes_of(&made));
    }
    Ok(())
}

/// A number of units as one of others, rounded down. `None` if there is no room for it.
fn in_unit(time: i64, from: TimeUnit, to: TimeUnit) -> Option<i64> {
    if from.unit == Unit::Generic || to.unit == Unit::Generic {
        return Some(time);
    }
    i64::try_from(in_any_range(time, from, to)?).ok().filter(|made| *made != i64::MIN)
}

/// Nanoseconds since 1970 of a time that is one, rounded down. `None` without a unit.
pub(crate) fn nanoseconds(time: i64, unit: TimeUnit) -> Option<i128> {
    const NANOSECOND: TimeUnit = TimeUnit { count: 1, unit: Unit::Nanosecond };
    if unit.unit == Unit::Generic { None } else { in_any_range(time, unit, NANOSECOND) }
}

/// A number of units as one of others, rounded down, where both are known.
fn in_any_range(time: i64, from: TimeUnit, to: TimeUnit) -> Option<i128> {
    const DAY: TimeUnit = TimeUnit { count: 1, unit: Unit::Day };
    let scaled = |time: i128, from: i128, to: i128| {
        let common = common_divisor(from, to);
        time.checked_mul(from / common).map(|time| time.div_euclid(to / common))
    };
    let time = i128::from(time);
    match (months(from), months(to)) {
        (Some(from), Some(to)) => scaled(time, from, to),
        (None, None) => scaled(time, attoseconds(from), attoseconds(to)),
        (Some(from), None) => {
            let days = days_of_month(time.checked_mul(from)?);
            scaled(days, attoseconds(DAY), attoseconds(to))
        }
        (None, Some(to)) => {
            let days = scaled(time, attoseconds(from), attoseconds(DAY))?;
            Some(month_of_days(days).div_euclid(to))
        }
    }
}

fn common_divisor(a: i128, b: i128) -> i128 {
    if b == 0 { a.max(1) } else { common_divisor(b, a % b) }
}

/// Days of 400 years.
const ERA: i128 = 146_097;
/// Days from the first of March of the year 0 to 1970.
const EPOCH: i128 = 719_468;

/// The first day of a month, both counted from 1970. Years begin in March here, so that the day
/// that comes every four years is the last.
fn days_of_month(month: i128) -> i128 {
    let month = month + 1970 * 12 - 2;
    let (year, month) = (month.div_euclid(12), month.rem_euclid(12));
    let (era, year) = (year.div_euclid(400), year.rem_euclid(400));
    era * ERA + year * 365 + year / 4 - year / 100 + (153 * month + 2) / 5 - EPOCH
}

/// The month of a day, both counted from 1970.
fn month_of_days(days: i128) -> i128 {
    let days = days + EPOCH;
    let (era, day) = (days.div_euclid(ERA), days.rem_euclid(ERA));
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    (era * 400 + year) * 12 + month + 2 - 1970 * 12
}

/// A number in the widest type of its kind.
#[derive(Debug, Clone, Copy)]
enum Wide {
    Int(i64),
    UInt(u64),
    Float(f64),
    Complex(f64, f64),
}

impl fmt::Display for Wide {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Wide::Int(number) => write!(f, "{number}"),
            Wide::UInt(number) => write!(f, "{number}"),
            Wide::Float(number) => write!(f, "{number}"),
            Wide::Complex(re, im) => write!(f, "{re}+{im}j"),
        }
    }
}

/// A number that others are made into, and that is made into others.
trait Cast: Element {
    fn widen(self) -> Wide;
    /// `None` if it has no such number.
    fn narrow(wide: Wide) -> Option<Self>;
}

macro_rules! cast_integers {
    ($($type:ty, $wide:ident;)*) => {$(
        impl Cast for $type {
            #[inline]
            fn widen(self) -> Wide {
                Wide::$wide(self.into())
            }

            #[inline]
            fn narrow(wide: Wide) -> Option<$type> {
                match wide {
                    Wide::Int(number) => Some(number as $type),
                    Wide::UInt(number) => Some(number as $type),
                    Wide::Float(number) | Wide::Complex(number, _) => {
                        let whole = number.trunc();
                        // The first float beyond, which is a power of two and exact.
                        let end = (<$type>::MAX as f64 + 1.0).trunc();
                        (whole >= <$type>::MIN as f64 && whole < end).then_some(whole as $type)
                    }
                }
            }
        }
    )*};
}

cast_integers! {
    i8, Int; i16, Int; i32, Int; i64, Int;
    u8, UInt; u16, UInt; u32, UInt; u64, UInt;
}

macro_rules! cast_floats {
    ($($type:ty, $widen:expr, $from_int:expr, $from_uint:expr, $from_float:expr;)*) => {$(
        impl Cast for $type {
            #[inline]
            fn widen(self) -> Wide {
                Wide::Float($widen(self))
            }

            #[inline]
            fn narrow(wide: Wide) -> Option<$type> {
                Some(match wide {
                    Wide::Int(number) => $from_int(number),
                    Wide::UInt(number) => $from_uint(number),
                    Wide::Float(number) | Wide::Complex(number, _) => $from_float(number),
                })
            }
        }
    )*};
}

cast_floats! {
    // Not with the instructions of the machine, which round twice on the way from double precision;
    // integers do become single precision first, as in NumPy.
    f16, f16::to_f64_const, |n: i64| f16::from_f32_const(n as f32),
        |n: u64| f16::from_f32_const(n as f32), half_of;
    f32, f64::from, |n: i64| n as f32, |n: u64| n as f32, |n: f64| n as f32;
    f64, std::convert::identity, |n: i64| n as f64, |n: u64| n as f64, std::convert::identity;
}

/// Rounded once: the single precision in between is rounded to an odd last digit where it is not
/// exact, which leaves the decision to the second step. (The conversion of `half` takes only the
/// upper digits into account.)
fn half_of(number: f64) -> f16 {
    let single = number as f32;
    let between = f64::from(single) != number && single.is_finite() && single.to_bits() % 2 == 0;
    let odd = match between {
        true if f64::from(single).abs() < number.abs() => f32::from_bits(single.to_bits() + 1),
        true => f32::from_bits(single.to_bits() - 1),
        false => single,
    };
    f16::from_f32_const(odd)
}

macro_rules! cast_complexes {
    ($($part:ty;)*) => {$(
        impl Cast for Complex<$part> {
            #[inline]
            fn widen(self) -> Wide {
                Wide::Complex(self.re.into(), self.im.into())
            }

            #[inline]
            fn narrow(wide: Wide) -> Option<Complex<$part>> {
                let im = if let Wide::Complex(_, im) = wide { im } else { 0.0 };
                Some(Complex::new(<$part>::narrow(wide)?, im as $part))
            }
        }
    )*};
}

cast_complexes! { f32; f64; }

impl Cast for bool {
    #[inline]
    fn widen(self) -> Wide {
        Wide::UInt(self.into())
    }

    #[inline]
    fn narrow(wide: Wide) -> Option<bool> {
        Some(match wide {
            Wide::Int(number) => number != 0,
            Wide::UInt(number) => number != 0,
            Wide::Float(number) => number != 0.0,
            Wide::Complex(re, im) => re != 0.0 || im != 0.0,
        })
    }
}

/// Does something with the type of Rust that a type of numbers is.
macro_rules! with_type {
    ($dtype:expr, $type:ident => $body:expr) => {
        match ($dtype.kind(), $dtype.item_size()) {
            (DTypeKind::Bool, 1) => with_type!(@ $type = bool, $body),
            (DTypeKind::Int, 1) => with_type!(@ $type = i8, $body),
            (DTypeKind::Int, 2) => with_type!(@ $type = i16, $body),
            (DTypeKind::Int, 4) => with_type!(@ $type = i32, $body),
            (DTypeKind::Int, 8) => with_type!(@ $type = i64, $body),
            (DTypeKind::UInt, 1) => with_type!(@ $type = u8, $body),
            (DTypeKind::UInt, 2) => with_type!(@ $type = u16, $body),
            (DTypeKind::UInt, 4) => with_type!(@ $type = u32, $body),
            (DTypeKind::UInt, 8) => with_type!(@ $type = u64, $body),
            (DTypeKind::Float, 2) => with_type!(@ $type = f16, $body),
            (DTypeKind::Float, 4) => with_type!(@ $type = f32, $body),
            (DTypeKind::Float, 8) => with_type!(@ $type = f64, $body),
            (DTypeKind::Complex, 8) => with_type!(@ $type = Complex<f32>, $body),
            (DTypeKind::Complex, 16) => with_type!(@ $type = Complex<f64>, $body),
            _ => {
                let message = format!("expected a type of numbers, found {}", $dtype);
                Err(Error::new(ErrorKind::Unsupported, message))
            }
        }
    };
    (@ $type:ident = $rust:ty, $body:expr) => {{
        type $type = $rust;
        $body
    }};
}

fn convert_numbers(from: &DType, to: &DType, source: &[u8], out: &mut [u8]) -> Result<()> {
    with_type!(from, T => convert_from::<T>(from, to, source, out))
}

fn convert_from<T: Cast>(from: &DType, to: &DType, source: &[u8], out: &mut [u8]) -> Result<()> {
    let swapped = (!from.is_native(), !to.is_native());
    let done: Result<(), (usize, Wide)> =
        with_type!(to, U => Ok(convert_each::<T, U>(source, out, swapped)))?;
    done.map_err(|(index, wide)| {
        let message = format!("element {index}: expected a number within {to}, found {wide}");
        Error::new(ErrorKind::Invalid, message)
    })
}

/// Converts each; if one has no counterpart, says which.
fn convert_each<T: Cast, U: Cast>(
    source: &[u8],
    out: &mut [u8],
    (from_swapped, to_swapped): (bool, bool),
) -> Result<(), (usize, Wide)> {
    let elements = source.chunks_exact(size_of::<T>()).zip(out.chunks_exact_mut(size_of::<U>()));
    for (index, (from, to)) in elements.enumerate() {
        let read = T::from_memory(from);
        let wide = if from_swapped { read.swap_bytes() } else { read }.widen();
        let made = U::narrow(wide).ok_or((index, wide))?;
        let made = if to_swapped { made.swap_bytes() } else { made };
        to.copy_from_slice(bytemuck::bytes_of(&made));
    }
    Ok(())
}
