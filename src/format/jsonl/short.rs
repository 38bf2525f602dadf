//! Values in one line, shortened for display.

use super::bytes::short_bytes;
use super::write::{put, write_text};
use crate::Value;
use crate::format::msgpack::numpy::{Special, complex_repr, container_array, is_container};
use crate::format::msgpack::numpy::{recognise, unpack};
use crate::format::msgpack::timestamp;
use crate::text::units;
use crate::value::time::format_timestamp;
use crate::value::{DType, DTypeKind, NdArray, bracketed, extremes, words};

/// Containers nested deeper than this are not shown.
const LEVELS: usize = 4;

/// Names of fields are not cut shorter than this.
const NAME: usize = 32;

/// Elements of an array of text, of complex numbers or of structures that are shown, if there are more.
const FIRST: usize = 3;

/// Appends a value in one line for people, and leaves out what is long.
///
/// | value | shown as |
/// | --- | --- |
/// | text | `"Once upon a…" (12,345 characters)`: the first `max` characters |
/// | bytes | what they are and how many: `<jpeg 500 x 375, 83 kB>`, `<wav, 2.1 MB>`, `<12,345 bytes>`; few of them as `b"text"` or `<3 bytes 0a1bff>` |
/// | a NumPy scalar, a timestamp | `0.5`, `(1+2j)`, `2024-05-01T12:30:00`, `2 h 5 min`, `NaT` |
/// | an array of up to `max / 8` elements | `[0.1 0.2 0.3] <f4` |
/// | a larger one | its range: `<array <f4 [32, 32], -1.5 to 3.2>`; the first elements of text; only `<array <f4 [32, 32] packed>` of a container |
/// | a list | the first `max / 8` items: `[1,2,…] (1,000 items)` |
/// | a map | `{"a":1,…} (20 fields)`: the outermost has `max` fields, others as many as lists |
///
/// Of what is four lists or maps deep only the length is shown. The result cannot be parsed: [`write()`](super::write()) is
/// for programs.
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
/// assert_eq!(line, br#"{"key":"k0","image":<12,345 bytes>,"label":7}"#);
/// ```
pub fn write_short(value: &Value, max: usize, out: &mut Vec<u8>) {
    short(value, max, LEVELS, out);
}

/// A number, a time or an array of up to `most` elements as [`write_short`] shows it, with all its digits. `None` for
/// anything else, which is better as JSON.
pub fn to_words(value: &Value, most: usize) -> Option<String> {
    let is_word = match (value, recognise(value)) {
        (_, Some(Special::Array(array))) => !array.is_empty() && array.len() <= most,
        (_, Some(_)) | (Value::F32(_) | Value::F64(_), _) => true,
        (Value::Ext(timestamp::CODE, data), _) => timestamp::from_ext(data).is_some(),
        _ => false,
    };
    let mut text = Vec::new();
    if is_word {
        short(value, most.saturating_mul(8), LEVELS, &mut text);
    }
    // Of elements that cannot be shown there is only a note.
    String::from_utf8(text).ok().filter(|text| !text.is_empty() && !text.starts_with('<'))
}

fn short(value: &Value, max: usize, levels: usize, out: &mut Vec<u8>) {
    match value {
        Value::Nil => put(out, format_args!("null")),
        Value::Boolean(truth) => put(out, format_args!("{truth}")),
        Value::Integer(number) => put(out, format_args!("{number}")),
        Value::F32(number) => short_float(f64::from(*number), &format!("{number:?}"), out),
        Value::F64(number) => short_float(*number, &format!("{number:?}"), out),
        Value::String(text) => match text.as_str() {
            Some(text) => short_text(text, max, out),
            None => {
                let bytes = units::counted(text.as_bytes().len() as u64, "byte");
                put(out, format_args!("<text of {bytes} that is not UTF-8>"));
            }
        },
        Value::Binary(data) if is_container(data) => short_container(data, max, out),
        Value::Binary(data) => short_bytes(data, max, out),
        Value::Ext(code, data) => match timestamp::from_ext(data) {
            Some((seconds, nanoseconds)) if *code == timestamp::CODE => {
                put(out, format_args!("{}", format_timestamp(seconds, nanoseconds)));
            }
            _ => {
                let bytes = units::counted(data.len() as u64, "byte");
                put(out, format_args!("<ext {code}, {bytes}>"));
            }
        },
        Value::Array(items) => {
            let shown = shown_of(items.len(), few(max), levels);
            out.push(b'[');
            for (at, item) in items[..shown].iter().enumerate() {
                separate(at, out);
                short(item, max, levels - 1, out);
            }
            rest(shown, items.len(), b']', "item", out);
        }
        Value::Map(entries) => match recognise(value) {
            Some(special) => short_special(&special, max, out),
            None => short_map(entries, max, levels, out),
        },
    }
}

fn short_map(entries: &[(Value, Value)], max: usize, levels: usize, out: &mut Vec<u8>) {
    let most = if levels == LEVELS { max.max(1) } else { few(max) };
    let shown = shown_of(entries.len(), most, levels);
    out.push(b'{');
    for (at, (key, value)) in entries[..shown].iter().enumerate() {
        separate(at, out);
        match key.as_str() {
            Some(name) => short_text(name, max.max(NAME), out),
            None => short(key, max, levels - 1, out),
        }
        out.push(b':');
        short(value, max, levels - 1, out);
    }
    rest(shown, entries.len(), b'}', "field", out);
}

fn short_special(special: &Special<'_>, max: usize, out: &mut Vec<u8>) {
    match special {
        Special::Array(array) => short_array(array, max, out),
        Special::Scalar(array) => match words(array).as_deref() {
            Ok([word]) => put(out, format_args!("{word}")),
            // No scalar is of such a type.
            _ => put(out, format_args!("<scalar {}>", array.dtype())),
        },
        Special::Complex(re, im) => put(out, format_args!("{}", complex_repr(*re, *im))),
    }
}

fn short_array(array: &NdArray<'_>, max: usize, out: &mut Vec<u8>) {
    let (dtype, shape) = (array.dtype(), array.shape());
    if !array.is_empty() && array.len() <= few(max) {
        if let Ok(mut words) = words(array) {
            words.iter_mut().for_each(|word| *word = cut(word, max));
            return put(out, format_args!("{} {}", bracketed(&words, shape), type_name(dtype)));
        }
    }
    let about = if array.is_empty() { None } else { range(array).or_else(|| first(array, max)) };
    let about = about.map_or(String::new(), |about| format!(", {about}"));
    put(out, format_args!("<array {} {shape:?}{about}>", type_name(dtype)));
}

/// What is in an array of numbers or times: `-1.5 to 3.2`, `all 0`, `37 true`.
fn range(array: &NdArray<'_>) -> Option<String> {
    if array.dtype().kind() == DTypeKind::Bool {
        let count = array.items().filter(|item| item.iter().any(|byte| *byte != 0)).count() as u64;
        return Some(format!("{} true", units::count(count)));
    }
    let (ends, has_none) = extremes(array)?;
    let none = match array.dtype().kind() {
        DTypeKind::Float => "nan",
        _ => "NaT",
    };
    let Some(ends) = ends else { return Some(format!("all {none}")) };
    let items = array.to_c_order();
    let (size, bytes) = (items.dtype().item_size(), items.bytes());
    let pair = ends.map(|at| &bytes[at * size..][..size]).concat();
    let words = words(&NdArray::new(items.dtype().clone(), [2], pair).ok()?).ok()?;
    let [least, most] = [0, 1].map(|at| rounded(&words[at]));
    let none = if has_none { format!(" and {none}") } else { String::new() };
    Some(match ends[0] == ends[1] {
        true if none.is_empty() => format!("all {least}"),
        true => format!("{least}{none}"),
        false => format!("{least} to {most}{none}"),
    })
}

/// A float with six digits, as the end of a range; other words as they are.
fn rounded(word: &str) -> String {
    match word.parse::<f64>() {
        Ok(number) if number.is_finite() && word.len() > 8 && word.contains(['.', 'e']) => {
            format!("{number:.5e}")
                .parse::<f64>()
                .map_or_else(|_| word.into(), |short| format!("{short:?}"))
        }
        _ => word.to_owned(),
    }
}

/// The first elements: `"cat" "dog" "emu" …`.
fn first(array: &NdArray<'_>, max: usize) -> Option<String> {
    let size = array.dtype().item_size();
    let shown = array.len().min(FIRST);
    let bytes = array.c_bytes();
    let first = NdArray::new(array.dtype().clone(), [shown], bytes.get(..shown * size)?).ok()?;
    let words: Vec<String> = words(&first).ok()?.iter().map(|word| cut(word, max)).collect();
    let more = if shown < array.len() { " …" } else { "" };
    Some(words.join(" ") + more)
}

/// The array in a container, or its bytes if it holds no readable array.
fn short_container(data: &[u8], max: usize, out: &mut Vec<u8>) {
    let Ok(Some(array)) = container_array(data) else { return short_bytes(data, max, out) };
    let elements = array.shape.iter().fold(1, |n: usize, len| n.saturating_mul(*len));
    let is_short = elements > 0 && elements <= few(max) && array.dtype.item_size() <= max;
    match unpack_if(data, is_short) {
        Some(array) => {
            short_array(&array, max, out);
            put(out, format_args!(" packed"));
        }
        None => {
            let (name, shape) = (type_name(&array.dtype), &array.shape);
            put(out, format_args!("<array {name} {shape:?} packed>"));
        }
    }
}

fn unpack_if(data: &[u8], wanted: bool) -> Option<NdArray<'static>> {
    if wanted { unpack(data).ok() } else { None }
}

fn type_name(dtype: &DType) -> String {
    match dtype.kind() {
        DTypeKind::Struct | DTypeKind::Void => "struct".to_owned(),
        _ => dtype.to_string(),
    }
}

fn short_text(text: &str, max: usize, out: &mut Vec<u8>) {
    match text.char_indices().nth(max) {
        None => write_text(text, out),
        Some((end, _)) => {
            write_text(&format!("{}…", &text[..end]), out);
            put(out, format_args!(" ({} characters)", units::count(text.chars().count() as u64)));
        }
    }
}

/// At most this many characters of a word.
fn cut(word: &str, max: usize) -> String {
    match word.char_indices().nth(max.max(1)) {
        Some((end, _)) => format!("{}…", &word[..end]),
        None => word.to_owned(),
    }
}

/// The shortest digits; people know `nan` and `inf` better than bits.
fn short_float(number: f64, digits: &str, out: &mut Vec<u8>) {
    let text = match () {
        () if number.is_finite() => digits,
        () if number.is_nan() => "nan",
        () if number > 0.0 => "inf",
        () => "-inf",
    };
    out.extend_from_slice(text.as_bytes());
}

/// How many items of a list are shown.
fn few(max: usize) -> usize {
    (max / 8).max(1)
}

/// How many of these are shown in a list or map that has this many levels left.
fn shown_of(len: usize, most: usize, levels: usize) -> usize {
    if levels == 0 { 0 } else { len.min(most) }
}

fn separate(at: usize, out: &mut Vec<u8>) {
    if at > 0 {
        out.push(b',');
    }
}

/// Closes a list or map, and says how long it is if there is more of it.
fn rest(shown: usize, len: usize, close: u8, noun: &str, out: &mut Vec<u8>) {
    if shown < len {
        separate(shown, out);
        out.extend_from_slice("…".as_bytes());
    }
    out.push(close);
    if shown < len {
        put(out, format_args!(" ({})", units::counted(len as u64, noun)));
    }
}
