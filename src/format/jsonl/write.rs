//! Values to JSON lines.

use std::io::Write as _;
use std::slice;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::Value;
use crate::format::msgpack::numpy::{Special, dtype_to_value, recognise};
use crate::format::msgpack::{EncodeError, MAX_DEPTH, timestamp, widen};

/// Appends a value in one line, without a line end. See the [module](super) for the notation.
///
/// Any value decoded from msgpack can be written. Errors are for values built by hand that
/// [`encode`](crate::format::msgpack::encode) would also refuse. After an error nothing has been
/// appended.
///
/// ```
/// use kiste::format::{jsonl, msgpack};
///
/// let value = msgpack::decode(b"\x82\xa3key\xa2k0\xa1v\x92\xc4\x01x\xcb\x3f\xf0\0\0\0\0\0\0")?;
/// let mut line = Vec::new();
/// jsonl::write(&value, &mut line).unwrap();
/// assert_eq!(line, br#"{"key":"k0","v":[{"$bin":"eA=="},1.0]}"#);
/// assert_eq!(jsonl::parse(&line)?, value);
/// # Ok::<(), kiste::format::FormatError>(())
/// ```
pub fn write(value: &Value, out: &mut Vec<u8>) -> Result<(), EncodeError> {
    let before = out.len();
    write_all(value, false, out).inspect_err(|_| out.truncate(before))
}

/// Appends a value as [`write()`] does, but NaN and infinities as `NaN`, `Infinity` and `-Infinity`,
/// which Python's `json` reads. A NaN of other bits keeps the notation with `$f`.
pub fn write_python(value: &Value, out: &mut Vec<u8>) -> Result<(), EncodeError> {
    let before = out.len();
    write_all(value, true, out).inspect_err(|_| out.truncate(before))
}

/// A container whose elements are being written.
enum Open<'a> {
    Array(slice::Iter<'a, Value>),
    Object(slice::Iter<'a, (Value, Value)>),
    Pairs(slice::Iter<'a, (Value, Value)>),
    /// The value that a key in `Pairs` stands before, until it is written.
    Pair(Option<&'a Value>),
}

fn write_all(value: &Value, python: bool, out: &mut Vec<u8>) -> Result<(), EncodeError> {
    let mut open: Vec<Open> = Vec::new();
    // Containers of the value, not of JSON.
    let mut depth = 0;
    let mut next = value;
    loop {
        if let Some(container) = write_one(next, python, out)? {
            depth += 1;
            if depth > MAX_DEPTH {
                return Err(EncodeError::TooDeep);
            }
            open.push(container);
        }
        // Every opening bracket makes its element the first, and needs no comma.
        next = loop {
            let Some(container) = open.last_mut() else {
                return Ok(());
            };
            match container {
                Open::Array(items) => {
                    if let Some(item) = items.next() {
                        comma(out);
                        break item;
                    }
                    out.push(b']');
                    depth -= 1;
                }
                Open::Object(entries) => {
                    if let Some((name, value)) = entries.next() {
                        comma(out);
                        write_text(name.as_str().ok_or(EncodeError::NotUtf8)?, out);
                        out.push(b':');
                        break value;
                    }
                    out.push(b'}');
                    depth -= 1;
                }
                Open::Pairs(pairs) => {
                    if let Some((key, value)) = pairs.next() {
                        comma(out);
                        out.push(b'[');
                        open.push(Open::Pair(Some(value)));
                        break key;
                    }
                    out.extend_from_slice(b"]}");
                    depth -= 1;
                }
                Open::Pair(value) => {
                    if let Some(value) = value.take() {
                        out.push(b',');
                        break value;
                    }
                    out.push(b']');
                }
            }
            open.pop();
        };
    }
}

fn comma(out: &mut Vec<u8>) {
    if !matches!(out.last(), Some(b'[' | b'{')) {
        out.push(b',');
    }
}

/// Writes a value, or the opening of a container.
fn write_one<'a>(
    value: &'a Value,
    python: bool,
    out: &mut Vec<u8>,
) -> Result<Option<Open<'a>>, EncodeError> {
    let write_float = |number: f64, out: &mut Vec<u8>| match python.then(|| python_name(number)) {
        Some(Some(name)) => out.extend_from_slice(name),
        _ => write_float(number, out),
    };
    match value {
        Value::Nil => out.extend_from_slice(b"null"),
        Value::Boolean(false) => out.extend_from_slice(b"false"),
        Value::Boolean(true) => out.extend_from_slice(b"true"),
        Value::Integer(number) => put(out, format_args!("{number}")),
        Value::F32(number) => write_float(widen(*number), out),
        Value::F64(number) => write_float(*number, out),
        Value::String(text) => write_text(text.as_str().ok_or(EncodeError::NotUtf8)?, out),
        Value::Binary(data) => {
            out.extend_from_slice(b"{\"$bin\":");
            write_base64(data, out);
            out.push(b'}');
        }
        Value::Ext(code, data) => write_ext(*code, data, out),
        Value::Array(items) => {
            out.push(b'[');
            return Ok(Some(Open::Array(items.iter())));
        }
        Value::Map(entries) => {
            if let Some(special) = recognise(value) {
                write_special(&special, out)?;
            } else if is_object(entries) {
                out.push(b'{');
                return Ok(Some(Open::Object(entries.iter())));
            } else {
                out.extend_from_slice(b"{\"$map\":[");
                return Ok(Some(Open::Pairs(entries.iter())));
            }
        }
    }
    Ok(None)
}

fn write_ext(code: i8, data: &[u8], out: &mut Vec<u8>) {
    match timestamp::from_ext(data) {
        Some((seconds, nanoseconds)) if code == timestamp::CODE => {
            put(out, format_args!("{{\"$ts\":[{seconds},{nanoseconds}]}}"));
        }
        _ => {
            put(out, format_args!("{{\"$ext\":[{code},"));
            write_base64(data, out);
            out.extend_from_slice(b"]}");
        }
    }
}

fn write_special(special: &Special<'_>, out: &mut Vec<u8>) -> Result<(), EncodeError> {
    match special {
        Special::Array(array) => {
            out.extend_from_slice(b"{\"$nd\":{\"dtype\":");
            write_all(&dtype_to_value(array.dtype()), false, out)?;
            out.extend_from_slice(b",\"shape\":[");
            for len in array.shape() {
                comma(out);
                put(out, format_args!("{len}"));
            }
            out.extend_from_slice(b"],\"data\":");
            write_base64(&array.c_bytes(), out);
            out.extend_from_slice(b"}}");
        }
        Special::Scalar(array) => {
            out.extend_from_slice(b"{\"$np\":{\"dtype\":");
            write_all(&dtype_to_value(array.dtype()), false, out)?;
            out.extend_from_slice(b",\"data\":");
            write_base64(array.bytes(), out);
            out.extend_from_slice(b"}}");
        }
        Special::Complex(re, im) => {
            let (re, im) = (re.to_bits(), im.to_bits());
            put(out, format_args!("{{\"$c\":[\"{re:016x}\",\"{im:016x}\"]}}"));
        }
    }
    Ok(())
}

/// Whether a map can be a plain object: its keys are distinct strings without `$` in front.
pub(super) fn is_object(entries: &[(Value, Value)]) -> bool {
    let mut names = Vec::with_capacity(entries.len());
    for (key, _) in entries {
        match key.as_str() {
            Some(name) if !name.starts_with('$') => names.push(name),
            _ => return false,
        }
    }
    are_distinct(&mut names)
}

pub(super) fn are_distinct(names: &mut [&str]) -> bool {
    names.sort_unstable();
    names.windows(2).all(|pair| pair[0] != pair[1])
}

/// The token of Python's `json` for a number that JSON has no digits for.
fn python_name(number: f64) -> Option<&'static [u8]> {
    match () {
        () if number == f64::INFINITY => Some(b"Infinity"),
        () if number == f64::NEG_INFINITY => Some(b"-Infinity"),
        // The bits of the NaN that reading gives back.
        () if number.to_bits() == f64::NAN.to_bits() => Some(b"NaN"),
        () => None,
    }
}

/// The shortest digits that read back as this float, always with `.` or an exponent.
pub(super) fn write_float(number: f64, out: &mut Vec<u8>) {
    if number.is_finite() {
        put(out, format_args!("{number:?}"));
    } else {
        put(out, format_args!("{{\"$f\":\"{:016x}\"}}", number.to_bits()));
    }
}

fn write_base64(data: &[u8], out: &mut Vec<u8>) {
    // Piece by piece, so that a large image is not copied twice. Pieces of
    // three bytes go without padding.
    out.push(b'"');
    let mut piece = [0; 4096];
    for chunk in data.chunks(3072) {
        // It cannot fail: four characters for three bytes.
        let len = STANDARD.encode_slice(chunk, &mut piece).unwrap_or(0);
        out.extend_from_slice(&piece[..len]);
    }
    out.push(b'"');
}

/// Writes a JSON string. In addition to what JSON requires, everything is escaped that could break
/// a line or manipulate a terminal: other control characters, line separators, bidirectional marks.
pub(super) fn write_text(text: &str, out: &mut Vec<u8>) {
    out.push(b'"');
    // Characters that need no escape are copied in runs.
    let mut run = 0;
    for (at, c) in text.char_indices() {
        if !needs_escape(c) {
            continue;
        }
        out.extend_from_slice(&text.as_bytes()[run..at]);
        run = at + c.len_utf8();
        match c {
            '"' => out.extend_from_slice(b"\\\""),
            '\\' => out.extend_from_slice(b"\\\\"),
            '\n' => out.extend_from_slice(b"\\n"),
            '\r' => out.extend_from_slice(b"\\r"),
            '\t' => out.extend_from_slice(b"\\t"),
            c => put(out, format_args!("\\u{:04x}", u32::from(c))),
        }
    }
    out.extend_from_slice(&text.as_bytes()[run..]);
    out.push(b'"');
}

/// All of these are in the basic plane, so that one `\u` is enough.
fn needs_escape(c: char) -> bool {
    match c {
        '"' | '\\' => true,
        ' '..='~' => false,
        '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{200e}' | '\u{200f}' => true,
        c => c.is_control(),
    }
}

pub(super) fn put(out: &mut Vec<u8>, text: std::fmt::Arguments<'_>) {
    // Writing to a vector cannot fail.
    let _ = out.write_fmt(text);
}
