//! `dflt`, the value of elements that were never written: between JSON and the bytes of an element.

use half::f16;
use serde_json::Value;

use crate::format::bloscpack::metadata::{write_spaced, write_string};
use crate::value::{ByteOrder, DType, DTypeKind};

/// The bytes of an element of this value, if it is one of the type.
pub(super) fn fill(value: &Value, dtype: &DType) -> Option<Vec<u8>> {
    let size = dtype.item_size();
    let mut bytes = match dtype.kind() {
        DTypeKind::Bool => vec![u8::from(value.as_bool().or_else(|| Some(value.as_u64()? != 0))?)],
        DTypeKind::Int | DTypeKind::DateTime | DTypeKind::TimeDelta => {
            let number = value.as_i64()?.to_le_bytes();
            let fits = i64::from_le_bytes(extended(number, size)) == value.as_i64()?;
            fits.then(|| number[..size].to_vec())?
        }
        DTypeKind::UInt => {
            let number = value.as_u64()?.to_le_bytes();
            number[size..].iter().all(|&byte| byte == 0).then(|| number[..size].to_vec())?
        }
        DTypeKind::Float => float_bytes(float(value)?, size)?,
        // JSON has no complex numbers, so writers put 0 here.
        DTypeKind::Complex => (float(value)? == 0.0).then(|| vec![0; size])?,
        DTypeKind::Bytes | DTypeKind::Void => padded(value.as_str()?.as_bytes().to_vec(), size)?,
        DTypeKind::Text => padded(
            value.as_str()?.chars().flat_map(|c| u32::from(c).to_le_bytes()).collect(),
            size,
        )?,
        DTypeKind::Struct => return struct_fill(value, dtype),
        _ => return None,
    };
    if dtype.byte_order() == ByteOrder::Big {
        let unit = if dtype.kind() == DTypeKind::Text { 4 } else { size };
        bytes.chunks_mut(unit.max(1)).for_each(<[u8]>::reverse);
    }
    Some(bytes)
}

fn struct_fill(value: &Value, dtype: &DType) -> Option<Vec<u8>> {
    let (values, mut bytes) = (value.as_array()?, Vec::new());
    let fields = dtype.fields();
    if values.len() != fields.len() || fields.iter().any(|field| !field.shape().is_empty()) {
        return None;
    }
    for (value, field) in values.iter().zip(fields) {
        bytes.extend(fill(value, field.dtype())?);
    }
    Some(bytes)
}

/// The opposite of [`fill`]: what JSON has for these bytes of an element, if it has anything.
pub(super) fn dflt_of(bytes: &[u8], dtype: &DType) -> Option<Value> {
    let mut bytes = bytes.to_vec();
    if dtype.byte_order() == ByteOrder::Big {
        let unit = if dtype.kind() == DTypeKind::Text { 4 } else { bytes.len() };
        bytes.chunks_mut(unit.max(1)).for_each(<[u8]>::reverse);
    }
    let is_zero = bytes.iter().all(|&byte| byte == 0);
    Some(match dtype.kind() {
        DTypeKind::Bool => Value::from(!is_zero),
        DTypeKind::Int | DTypeKind::DateTime | DTypeKind::TimeDelta => {
            let mut number = [0; 8];
            number[..bytes.len()].copy_from_slice(&bytes);
            Value::from(i64::from_le_bytes(extended(number, bytes.len())))
        }
        DTypeKind::UInt => {
            let mut number = [0; 8];
            number[..bytes.len()].copy_from_slice(&bytes);
            Value::from(u64::from_le_bytes(number))
        }
        DTypeKind::Float => float_value(match *bytes {
            [a, b] => f16::from_le_bytes([a, b]).to_f64(),
            [a, b, c, d] => f32::from_le_bytes([a, b, c, d]).into(),
            [a, b, c, d, e, f, g, h] => f64::from_le_bytes([a, b, c, d, e, f, g, h]),
            _ if is_zero => 0.0,
            _ => return None,
        }),
        DTypeKind::Complex if is_zero => Value::from(0),
        DTypeKind::Bytes => {
            let end = bytes.iter().rposition(|&byte| byte != 0).map_or(0, |at| at + 1);
            Value::from(std::str::from_utf8(&bytes[..end]).ok()?)
        }
        DTypeKind::Void => Value::from(std::str::from_utf8(&bytes).ok()?),
        DTypeKind::Text => {
            let units = bytes.chunks_exact(4).map(|c| u32::from_le_bytes([c[0], c[1], c[2], c[3]]));
            let text: String = units.map(char::from_u32).collect::<Option<_>>()?;
            Value::from(text.trim_end_matches('\0'))
        }
        _ => return None,
    })
}

/// Writes it as Python does, where the numbers that JSON lacks are bare words.
pub(super) fn write_dflt(value: &Value, dtype: &DType, out: &mut String) {
    match (value, dtype.kind()) {
        (Value::String(token), DTypeKind::Float) if float(value).is_some() => out.push_str(token),
        (Value::String(text), _) => write_string(text, out),
        (Value::Array(items), DTypeKind::Struct) if items.len() == dtype.fields().len() => {
            out.push('[');
            for (at, (item, field)) in items.iter().zip(dtype.fields()).enumerate() {
                out.push_str(if at > 0 { ", " } else { "" });
                write_dflt(item, field.dtype(), out);
            }
            out.push(']');
        }
        _ => write_spaced(value, [", ", ": "], out),
    }
}

/// A number of this many bytes, sign-extended.
fn extended(mut number: [u8; 8], size: usize) -> [u8; 8] {
    let sign = if number[size.clamp(1, 8) - 1] & 0x80 == 0 { 0 } else { 0xff };
    number[size.min(8)..].fill(sign);
    number
}

fn float(value: &Value) -> Option<f64> {
    match value.as_str() {
        Some("NaN") => Some(f64::NAN),
        Some("Infinity") => Some(f64::INFINITY),
        Some("-Infinity") => Some(f64::NEG_INFINITY),
        _ => value.as_f64(),
    }
}

fn float_value(number: f64) -> Value {
    match number {
        f64::INFINITY => "Infinity".into(),
        f64::NEG_INFINITY => "-Infinity".into(),
        number if number.is_nan() => "NaN".into(),
        number => number.into(),
    }
}

fn float_bytes(number: f64, size: usize) -> Option<Vec<u8>> {
    match size {
        2 => Some(f16::from_f64(number).to_le_bytes().to_vec()),
        4 => Some((number as f32).to_le_bytes().to_vec()),
        8 => Some(number.to_le_bytes().to_vec()),
        // The only long double with the same bytes on every platform.
        _ => (number == 0.0 && number.is_sign_positive()).then(|| vec![0; size]),
    }
}

fn padded(mut bytes: Vec<u8>, size: usize) -> Option<Vec<u8>> {
    (bytes.len() <= size).then(|| bytes.resize(size, 0)).map(|()| bytes)
}
