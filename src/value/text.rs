//! Elements as text and as JSON, and from text.

use half::f16;
use num_complex::Complex;
use serde_json::{Value as Json, json};

use crate::error::{Error, ErrorKind, Result};
use crate::value::time::format_time;
use crate::value::{ByteOrder, DType, DTypeKind as Kind, Element, NdArray, Number, Unit};

/// Lists that an array without elements may become: its size says nothing about them.
const MAX_EMPTY_LISTS: usize = 1 << 20;

impl NdArray<'static> {
    /// One element of this type from text, as an array without axes: a number, `true`, `false`, the
    /// characters of a string, or `0` for any type.
    ///
    /// ```
    /// use kiste::value::{DType, NdArray};
    ///
    /// let half = NdArray::parse(&DType::of::<f32>(), "0.5")?;
    /// assert_eq!(half.bytes(), 0.5_f32.to_le_bytes());
    /// assert!(NdArray::parse(&DType::of::<u8>(), "256").is_err());
    /// # Ok::<(), kiste::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Invalid`](ErrorKind::Invalid) for text that is no value of this type.
    pub fn parse(dtype: &DType, text: &str) -> Result<NdArray<'static>> {
        let bytes = parse(dtype, text);
        NdArray::new(dtype.clone(), [], bytes.map_err(|e| Error::new(ErrorKind::Invalid, e))?)
    }
}

impl NdArray<'_> {
    /// The array as JSON: lists of lists along its axes, one value if it has none. Elements are
    /// numbers, booleans and strings; complex numbers and structures are lists; numbers that JSON
    /// lacks, and points in time, are strings.
    ///
    /// ```
    /// use kiste::value::NdArray;
    ///
    /// let array = ndarray::arr2(&[[1.0_f32, f32::NAN], [0.1, 2.0]]);
    /// let json = NdArray::from_ndarray(&array).to_json()?;
    /// assert_eq!(json.to_string(), r#"[[1.0,"NaN"],[0.1,2.0]]"#);
    /// # Ok::<(), kiste::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Unsupported`](ErrorKind::Unsupported) for Python objects; [`Damaged`](ErrorKind::Damaged)
    /// for text that is not Unicode.
    pub fn to_json(&self) -> Result<Json> {
        // An array without elements can have too many empty lists.
        let lists = self.shape().iter().take_while(|len| **len > 0);
        let lists = lists.fold(1, |n: usize, len| n.saturating_mul(*len));
        if self.is_empty() && lists > MAX_EMPTY_LISTS {
            let message = format!("expected at most {MAX_EMPTY_LISTS} empty lists, found {lists}");
            return Err(Error::new(ErrorKind::Limit, message));
        }
        Ok(nested(&elements(self)?, self.shape()))
    }
}

/// Parses one element to its bytes.
fn parse(dtype: &DType, text: &str) -> Result<Vec<u8>, String> {
    let refused = || format!("expected a value of type {dtype}, found {text:?}");
    let number = || -> Option<Number> {
        let text = text.trim();
        match text {
            "true" | "True" => return Some(Number::Signed(1)),
            "false" | "False" => return Some(Number::Signed(0)),
            _ => {}
        }
        let signed = text.parse().map(Number::Signed).ok();
        let unsigned = || text.parse().map(Number::Unsigned).ok();
        signed.or_else(unsigned).or_else(|| text.parse().map(Number::Float).ok())
    };
    let padded = |mut bytes: Vec<u8>| {
        let fits = bytes.len() <= dtype.item_size();
        bytes.resize(dtype.item_size(), 0);
        fits.then_some(bytes)
    };
    let little = dtype.byte_order() != ByteOrder::Big;
    let bytes = match (dtype.kind(), dtype.item_size()) {
        (Kind::Bool, _) => number().and_then(|n| encoded::<bool>(dtype, n)),
        (Kind::Int, 1) => number().and_then(|n| encoded::<i8>(dtype, n)),
        (Kind::Int, 2) => number().and_then(|n| encoded::<i16>(dtype, n)),
        (Kind::Int, 4) => number().and_then(|n| encoded::<i32>(dtype, n)),
        (Kind::Int | Kind::DateTime | Kind::TimeDelta, 8) => {
            number().and_then(|n| encoded::<i64>(dtype, n))
        }
        (Kind::UInt, 1) => number().and_then(|n| encoded::<u8>(dtype, n)),
        (Kind::UInt, 2) => number().and_then(|n| encoded::<u16>(dtype, n)),
        (Kind::UInt, 4) => number().and_then(|n| encoded::<u32>(dtype, n)),
        (Kind::UInt, 8) => number().and_then(|n| encoded::<u64>(dtype, n)),
        (Kind::Float, 2) => number().and_then(|n| encoded::<f16>(dtype, n)),
        (Kind::Float, 4) => number().and_then(|n| encoded::<f32>(dtype, n)),
        (Kind::Float, 8) => number().and_then(|n| encoded::<f64>(dtype, n)),
        (Kind::Complex, 8) => number().and_then(|n| encoded::<Complex<f32>>(dtype, n)),
        (Kind::Complex, 16) => number().and_then(|n| encoded::<Complex<f64>>(dtype, n)),
        (Kind::Bytes, _) => padded(text.as_bytes().to_vec()),
        (Kind::Text, _) => {
            let code = |c: char| {
                let code = u32::from(c);
                if little { code.to_le_bytes() } else { code.to_be_bytes() }
            };
            padded(text.chars().flat_map(code).collect())
        }
        _ if text.trim() == "0" => Some(vec![0; dtype.item_size()]),
        _ => {
            return Err(format!(
                "expected 0, the only value of type {dtype} that can be given as text"
            ));
        }
    };
    bytes.ok_or_else(refused)
}

fn encoded<T: Element>(dtype: &DType, number: Number) -> Option<Vec<u8>> {
    let value = T::from_number(number)?;
    let value = if dtype.is_native() { value } else { value.swap_bytes() };
    Some(NdArray::scalar(value).bytes().to_vec())
}

/// All elements in C order, as JSON: numbers, booleans, strings; complex numbers and structures
/// are lists; numbers that JSON lacks, and times, are strings.
pub(super) fn elements(array: &NdArray<'_>) -> Result<Vec<Json>> {
    let (kind, size) = (array.dtype().kind(), array.dtype().item_size());
    if array.dtype().has_objects() {
        let message = "the array holds Python objects as a pickle, which is never executed";
        return Err(Error::new(ErrorKind::Unsupported, message));
    }
    Ok(match (kind, size) {
        (Kind::Bool, _) => all::<bool>(array, |v| json!(v))?,
        (Kind::Int, 1) => all::<i8>(array, |v| json!(v))?,
        (Kind::Int, 2) => all::<i16>(array, |v| json!(v))?,
        (Kind::Int, 4) => all::<i32>(array, |v| json!(v))?,
        (Kind::Int, 8) => all::<i64>(array, |v| json!(v))?,
        (Kind::UInt, 1) => all::<u8>(array, |v| json!(v))?,
        (Kind::UInt, 2) => all::<u16>(array, |v| json!(v))?,
        (Kind::UInt, 4) => all::<u32>(array, |v| json!(v))?,
        (Kind::UInt, 8) => all::<u64>(array, |v| json!(v))?,
        (Kind::Float, 2) => all::<f16>(array, |v| float(v.into(), v.to_string()))?,
        (Kind::Float, 4) => all::<f32>(array, |v| float(v.into(), v.to_string()))?,
        (Kind::Float, 8) => all::<f64>(array, |v| float(v, v.to_string()))?,
        (Kind::Complex, 8) => all::<Complex<f32>>(array, |v| {
            json!([float(v.re.into(), v.re.to_string()), float(v.im.into(), v.im.to_string())])
        })?,
        (Kind::Complex, 16) => all::<Complex<f64>>(array, |v| {
            json!([float(v.re, v.re.to_string()), float(v.im, v.im.to_string())])
        })?,
        (Kind::DateTime, _) => all::<i64>(array, |v| json!(moment(array.dtype(), v)))?,
        (Kind::TimeDelta, _) => all::<i64>(array, |v| json!(v))?,
        (Kind::Bytes, _) => {
            array.byte_strings()?.map(|text| json!(text.escape_ascii().to_string())).collect()
        }
        (Kind::Text, _) => {
            array.strings()?.map(|text| text.map(Json::from)).collect::<Result<_>>()?
        }
        (Kind::Struct, _) => structures(array)?,
        _ => {
            let bytes = array.c_bytes();
            let hex = |item: &[u8]| item.iter().map(|b| format!("{b:02x}")).collect::<String>();
            match size {
                0 => vec![json!(""); array.len()],
                _ => bytes.chunks_exact(size).map(|item| json!(hex(item))).collect(),
            }
        }
    })
}

fn all<T: Element>(array: &NdArray<'_>, to: impl Fn(T) -> Json) -> Result<Vec<Json>> {
    Ok(array.to_ndarray::<T>()?.iter().copied().map(to).collect())
}

/// The shortest digits: a `float32` needs fewer than the same `float64`.
fn float(value: f64, digits: String) -> Json {
    match digits.parse::<f64>() {
        Ok(short) if value.is_finite() => json!(short),
        _ if value.is_nan() => json!("NaN"),
        _ => json!(if value > 0.0 { "Infinity" } else { "-Infinity" }),
    }
}

fn structures(array: &NdArray<'_>) -> Result<Vec<Json>> {
    let mut rows = vec![Vec::new(); array.len()];
    for field in array.dtype().fields().iter().filter(|field| !field.name().is_empty()) {
        let column = array.field(field.name())?;
        let values = elements(&column)?;
        let each: usize = field.shape().iter().product();
        for (at, row) in rows.iter_mut().enumerate() {
            let own = &values[at * each..(at + 1) * each];
            row.push(nested(own, field.shape()));
        }
    }
    Ok(rows.into_iter().map(Json::Array).collect())
}

/// Elements in C order as lists of lists.
fn nested(elements: &[Json], shape: &[usize]) -> Json {
    match shape.split_first() {
        None => elements.first().cloned().unwrap_or(Json::Null),
        Some((&len, inner)) => {
            let each: usize = inner.iter().product();
            let part = |i: usize| nested(&elements[i * each..(i + 1) * each], inner);
            Json::Array((0..len).map(part).collect())
        }
    }
}

/// A point in time in ISO 8601, or its number of units since 1970.
fn moment(dtype: &DType, value: i64) -> String {
    let Some(unit) = dtype.time_unit() else { return value.to_string() };
    if value == i64::MIN {
        return "NaT".to_owned();
    }
    let (micros, digits) = match unit.unit {
        Unit::Day => (86_400_000_000, 10),
        Unit::Hour => (3_600_000_000, 13),
        Unit::Minute => (60_000_000, 16),
        Unit::Second => (1_000_000, 19),
        Unit::Millisecond => (1000, 23),
        Unit::Microsecond => (1, 26),
        _ => return value.to_string(),
    };
    // Years beyond four digits are clearer as a number.
    let years = -62_167_219_200_000_000..253_402_300_800_000_000;
    let count = i64::from(unit.count).checked_mul(micros);
    match count.and_then(|micros| value.checked_mul(micros)).filter(|at| years.contains(at)) {
        Some(at) => format_time(at)[..digits].to_owned(),
        None => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_that_are_typed_in_have_the_type_of_the_array() {
        for (dtype, text, expected) in [
            ("<i2", "-2", &[0xfe, 0xff][..]),
            (">u4", "258", &[0, 0, 1, 2]),
            ("<f4", "1", &[0, 0, 0x80, 0x3f]),
            ("<f2", "0.5", &[0, 0x38]),
            ("|b1", "true", &[1]),
            ("|S4", "ab", b"ab\0\0"),
            ("<U2", "ä", &[0xe4, 0, 0, 0, 0, 0, 0, 0]),
            ("[('a', '<i2')]", "0", &[0, 0]),
        ] {
            assert_eq!(parse(&dtype.parse().unwrap(), text).unwrap(), expected, "{dtype}");
        }
        let nan = parse(&DType::of::<f64>(), "nan").unwrap();
        assert!(
            NdArray::new(DType::of::<f64>(), [1], nan).unwrap().to_ndarray::<f64>().unwrap()[0]
                .is_nan()
        );
        for (dtype, text) in
            [("|u1", "256"), ("<i4", "1.5"), ("|S1", "ab"), ("<f4", "x"), ("[('a', '<i2')]", "1")]
        {
            assert!(parse(&dtype.parse().unwrap(), text).is_err(), "{dtype} {text}");
        }
    }

    #[test]
    fn elements_are_what_json_has_for_them() {
        let json = |dtype: &str, bytes: &[u8]| {
            elements(&NdArray::new(dtype.parse().unwrap(), [1], bytes).unwrap()).unwrap().remove(0)
        };
        assert_eq!(json("<f4", &0.1_f32.to_le_bytes()), json!(0.1));
        assert_eq!(json("<f8", &f64::NAN.to_le_bytes()), json!("NaN"));
        assert_eq!(json("<c8", &[0, 0, 0x80, 0x3f, 0, 0, 0, 0]), json!([1.0, 0.0]));
        assert_eq!(json("<M8[D]", &1_i64.to_le_bytes()), json!("1970-01-02"));
        assert_eq!(json("<M8[s]", &i64::MIN.to_le_bytes()), json!("NaT"));
        assert_eq!(json("<M8[s]", &i64::MAX.to_le_bytes()), json!(i64::MAX.to_string()));
        assert_eq!(json("|V2", &[1, 255]), json!("01ff"));
        let empty = |shape: &[usize]| NdArray::new(DType::of::<u8>(), shape, vec![]).unwrap();
        assert_eq!(empty(&[2, 0]).to_json().unwrap(), json!([[], []]));
        assert_eq!(empty(&[1 << 40, 0]).to_json().unwrap_err().kind(), ErrorKind::Limit);
        let objects = NdArray::opaque([2], &b"N."[..]);
        assert_eq!(objects.to_json().unwrap_err().kind(), ErrorKind::Unsupported);
        let structure = "[('a', '|u1'), ('b', '|u1', (2,))]";
        assert_eq!(json(structure, &[1, 2, 3]), json!([1, [2, 3]]));
    }
}
