//! Elements as people read them, one word each.
//!
//! For the eye only: nothing reads these words back. JSON is in `text`.

use half::f16;
use serde_json::Value as Json;

use super::text::elements;
use super::time::{format_datetime, format_timedelta};
use crate::error::Result;
use crate::value::{DTypeKind as Kind, Element, NdArray, TimeUnit};

/// Each element in C order: `0.1`, `true`, `(1+2j)`, `2024-05-01`, `2 h 5 min`, `"text"`, `b"bytes"`, `(1, "a")` for a
/// structure. Void bytes and long doubles, whose bits depend on the machine, are their bytes: `0x01ff`.
pub(crate) fn words(array: &NdArray<'_>) -> Result<Vec<String>> {
    let unit = array.dtype().time_unit().unwrap_or(TimeUnit::GENERIC);
    let times = |form: fn(i64, TimeUnit) -> String| -> Result<Vec<String>> {
        Ok(array.to_ndarray::<i64>()?.iter().map(|time| form(*time, unit)).collect())
    };
    match array.dtype().kind() {
        Kind::DateTime => times(format_datetime),
        Kind::TimeDelta => times(format_timedelta),
        Kind::Float if array.dtype().item_size() == 2 => {
            Ok(array.to_ndarray::<f16>()?.iter().map(|value| half(*value)).collect())
        }
        Kind::Struct if !array.dtype().has_objects() => structures(array),
        kind => Ok(elements(array)?.iter().map(|value| word(value, kind)).collect()),
    }
}

/// Elements in C order as lists of lists: `[[1 2] [3 4]]`.
pub(crate) fn bracketed(words: &[String], shape: &[usize]) -> String {
    match shape.split_first() {
        // There may be too many empty lists.
        _ if words.is_empty() => "[]".to_owned(),
        None => words.first().cloned().unwrap_or_default(),
        Some((&len, inner)) => {
            let each: usize = inner.iter().product();
            let parts = (0..len).map(|at| bracketed(&words[at * each..(at + 1) * each], inner));
            format!("[{}]", parts.collect::<Vec<_>>().join(" "))
        }
    }
}

/// The places of the smallest and the largest element in C order, and whether there are others that have no order: NaN
/// and NaT. The first are none where all are so. `None` for types without an order.
pub(crate) fn extremes(array: &NdArray<'_>) -> Option<(Option<[usize; 2]>, bool)> {
    match (array.dtype().kind(), array.dtype().item_size()) {
        (Kind::Int, 1) => ends::<i8>(array, |_| false),
        (Kind::Int, 2) => ends::<i16>(array, |_| false),
        (Kind::Int, 4) => ends::<i32>(array, |_| false),
        (Kind::Int, 8) => ends::<i64>(array, |_| false),
        (Kind::UInt, 1) => ends::<u8>(array, |_| false),
        (Kind::UInt, 2) => ends::<u16>(array, |_| false),
        (Kind::UInt, 4) => ends::<u32>(array, |_| false),
        (Kind::UInt, 8) => ends::<u64>(array, |_| false),
        (Kind::Float, 2) => ends::<f16>(array, |value| value.is_nan()),
        (Kind::Float, 4) => ends::<f32>(array, |value| value.is_nan()),
        (Kind::Float, 8) => ends::<f64>(array, |value| value.is_nan()),
        (Kind::DateTime | Kind::TimeDelta, _) => ends::<i64>(array, |value| value == i64::MIN),
        _ => None,
    }
}

fn ends<T: Element + PartialOrd>(
    array: &NdArray<'_>,
    is_none: impl Fn(T) -> bool,
) -> Option<(Option<[usize; 2]>, bool)> {
    let (mut ends, mut has_none) = (None, false);
    for (at, value) in array.to_ndarray::<T>().ok()?.iter().enumerate() {
        let (value, here) = (*value, (at, *value));
        if is_none(value) {
            has_none = true;
            continue;
        }
        let [least, most] = ends.get_or_insert([here; 2]);
        if value < least.1 {
            *least = here;
        } else if value > most.1 {
            *most = here;
        }
    }
    Some((ends.map(|ends| ends.map(|(at, _)| at)), has_none))
}

fn structures(array: &NdArray<'_>) -> Result<Vec<String>> {
    let mut rows = vec![Vec::new(); array.len()];
    for field in array.dtype().fields().iter().filter(|field| !field.name().is_empty()) {
        let words = words(&array.field(field.name())?)?;
        let each: usize = field.shape().iter().product();
        for (at, row) in rows.iter_mut().enumerate() {
            row.push(bracketed(&words[at * each..(at + 1) * each], field.shape()));
        }
    }
    Ok(rows.into_iter().map(|row| format!("({})", row.join(", "))).collect())
}

fn word(value: &Json, kind: Kind) -> String {
    match (kind, value) {
        (Kind::Text, text) => text.to_string(),
        (Kind::Bytes, Json::String(text)) => format!("b\"{text}\""),
        (Kind::Complex, Json::Array(parts)) => {
            let [re, im] = [0, 1].map(|part| number(&parts[part]));
            let sign = if im.starts_with('-') { "" } else { "+" };
            format!("({re}{sign}{im}j)")
        }
        (Kind::Float, value) => number(value),
        (_, Json::String(hex)) => format!("0x{hex}"),
        (_, value) => value.to_string(),
    }
}

/// The shortest digits that read back as this float of 16 bits: 0.1 instead of 0.099975586.
fn half(value: f16) -> String {
    let shorter = (0..5).find_map(|digits| {
        let number: f64 = format!("{:.digits$e}", f64::from(value)).parse().ok()?;
        (f16::from_f64(number) == value && number.is_finite()).then_some(number)
    });
    match shorter {
        Some(number) => format!("{number:?}"),
        None => f64::from(value).to_string().to_lowercase(),
    }
}

/// A float: people know `nan` and `inf` better than the words of JSON. Bytes of a long double.
fn number(value: &Json) -> String {
    match value.as_str() {
        Some("NaN") => "nan".to_owned(),
        Some("Infinity") => "inf".to_owned(),
        Some("-Infinity") => "-inf".to_owned(),
        Some(hex) => format!("0x{hex}"),
        None => value.to_string(),
    }
}
