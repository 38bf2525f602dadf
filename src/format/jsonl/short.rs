//! Values in one line, shortened for display.

use std::borrow::Cow;

use super::write::{is_object, put, write, write_float, write_text};
use crate::Value;
use crate::format::msgpack::numpy::{Special, container_array, is_container, recognise};
use crate::format::msgpack::widen;
use crate::value::{DType, DTypeKind};

/// Containers nested deeper than this are not shown.
const LEVELS: usize = 4;

/// Names of fields are not cut shorter than this.
const NAME: usize = 32;

/// Appends a value in one line as [`write`](super::write) does, but leaves out what is long.
///
/// A string shows its first `max` characters. Binary data and extensions of more than `max` bytes
/// are notes such as `<bytes 12345>`, as are arrays of NumPy: `<array |u1 [32, 32, 3]>`, or `<array
/// |u1 [32, 32, 3] packed>` if it is a container. A list shows its first `max / 8` elements. The
/// outermost map shows `max` of its fields, maps within it the number that a list shows. Values four
/// containers deep are notes as well. The result is for people and cannot be parsed.
///
/// ```
/// use kiste::Value;
/// use kiste::format::jsonl::write_short;
///
/// let sample = Value::Map(vec![
///     ("key".into(), "k0".into()),
///     ("image".into(), Value::Binary(vec![0; 12345])),
///     ("label".into(), 7.into()),
/// ]);
/// let mut line = Vec::new();
/// write_short(&sample, 32, &mut line);
/// assert_eq!(line, br#"{"key":"k0","image":<bytes 12345>,"label":7}"#);
/// ```
pub fn write_short(value: &Value, max: usize, out: &mut Vec<u8>) {
    short(value, max, LEVELS, out);
}

fn short(value: &Value, max: usize, levels: usize, out: &mut Vec<u8>) {
    match value {
        Value::String(text) => match text.as_str() {
            Some(text) => short_text(text, max, out),
            None => put(out, format_args!("<text {} that is not UTF-8>", text.as_bytes().len())),
        },
        Value::Binary(data) if is_container(data) => short_container(data, max, out),
        Value::Binary(data) if data.len() > max => put(out, format_args!("<bytes {}>", data.len())),
        Value::Ext(code, data) if data.len() > max => {
            put(out, format_args!("<ext {code} {}>", data.len()));
        }
        Value::F32(number) => short_float(widen(*number), out),
        Value::F64(number) => short_float(*number, out),
        Value::Array(items) if levels == 0 && !items.is_empty() => {
            put(out, format_args!("<list {}>", items.len()));
        }
        Value::Array(items) => {
            out.push(b'[');
            let shown = items.len().min(few(max));
            for (at, item) in items[..shown].iter().enumerate() {
                separate(at, out);
                short(item, max, levels - usize::from(levels > 0), out);
            }
            rest(shown, items.len(), "list", out);
            out.push(b']');
        }
        Value::Map(entries) => match recognise(value) {
            Some(special) => short_special(&special, out),
            None if levels == 0 && !entries.is_empty() => {
                put(out, format_args!("<map {}>", entries.len()));
            }
            None => short_map(entries, max, levels, out),
        },
        // Other values are short, and writing them cannot fail.
        scalar => drop(write(scalar, out)),
    }
}

fn short_map(entries: &[(Value, Value)], max: usize, levels: usize, out: &mut Vec<u8>) {
    let shown = entries.len().min(if levels == LEVELS { max.max(1) } else { few(max) });
    let plain = is_object(entries);
    out.extend_from_slice(if plain { b"{" } else { b"{\"$map\":[" });
    let below = levels - usize::from(levels > 0);
    for (at, (key, value)) in entries[..shown].iter().enumerate() {
        separate(at, out);
        match key.as_str().filter(|_| plain) {
            Some(name) => {
                short_text(name, max.max(NAME), out);
                out.push(b':');
            }
            None => {
                out.push(b'[');
                short(key, max, below, out);
                out.push(b',');
            }
        }
        short(value, max, below, out);
        if !plain {
            out.push(b']');
        }
    }
    rest(shown, entries.len(), "map", out);
    out.extend_from_slice(if plain { b"}" } else { b"]}" });
}

fn short_special(special: &Special<'_>, out: &mut Vec<u8>) {
    match special {
        Special::Array(array) => {
            put(out, format_args!("<array {} {:?}>", type_name(array.dtype()), array.shape()));
        }
        Special::Scalar(array) => put(out, format_args!("<scalar {}>", type_name(array.dtype()))),
        Special::Complex(re, im) => {
            let repr = crate::format::msgpack::numpy::complex_repr(*re, *im);
            put(out, format_args!("{repr}"));
        }
    }
}

/// The array in a container, or its bytes if it holds no readable array.
fn short_container(data: &[u8], max: usize, out: &mut Vec<u8>) {
    match container_array(data) {
        Ok(Some(array)) => {
            let (name, shape) = (type_name(&array.dtype), &array.shape);
            put(out, format_args!("<array {name} {shape:?} packed>"));
        }
        _ if data.len() > max => put(out, format_args!("<bytes {}>", data.len())),
        // It is short and cannot fail.
        _ => drop(write(&Value::from(data), out)),
    }
}

fn type_name(dtype: &DType) -> Cow<'static, str> {
    match dtype.kind() {
        DTypeKind::Struct | DTypeKind::Void => "struct".into(),
        _ => dtype.to_string().into(),
    }
}

fn short_text(text: &str, max: usize, out: &mut Vec<u8>) {
    match text.char_indices().nth(max) {
        None => write_text(text, out),
        Some((end, _)) => {
            write_text(&text[..end], out);
            put(out, format_args!("<text {}>", text.chars().count()));
        }
    }
}

/// People know `nan` and `inf` better than their bits.
fn short_float(number: f64, out: &mut Vec<u8>) {
    if number.is_finite() {
        write_float(number, out);
    } else if number.is_nan() {
        out.extend_from_slice(b"nan");
    } else {
        out.extend_from_slice(if number > 0.0 { b"inf" } else { b"-inf" });
    }
}

/// How many elements of a list are shown.
fn few(max: usize) -> usize {
    (max / 8).max(1)
}

fn separate(at: usize, out: &mut Vec<u8>) {
    if at > 0 {
        out.push(b',');
    }
}

fn rest(shown: usize, len: usize, noun: &str, out: &mut Vec<u8>) {
    if shown < len {
        put(out, format_args!(",<{noun} {len}>"));
    }
}
