//! JSON lines to values.
//!
//! Not `serde_json`, because a value of [`MAX_DEPTH`] containers is up to three times as deep
//! in JSON: nothing here recurses, so no line can exhaust the stack. A container becomes a value
//! at its closing bracket, the `$` objects included.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::write::are_distinct;
use crate::Value;
use crate::format::FormatError;
use crate::format::msgpack::numpy::{Special, dtype_from_value, shape_from_value};
use crate::format::msgpack::{MAX_DEPTH, timestamp};
use crate::value::NdArray;

/// A map takes up to three containers of JSON, `{"$map":[[..]]}`, and the innermost value adds at
/// most two.
const MAX_JSON_DEPTH: usize = 3 * MAX_DEPTH + 2;

/// Reads the value on a line. See the [module](super) for the notation.
///
/// White space around it is allowed, a line end included, and a byte-order mark before it, as programs
/// on Windows write one at the start of a file. Positions in errors are bytes of the line.
///
/// ```
/// use kiste::Value;
/// use kiste::format::jsonl::parse;
///
/// assert_eq!(parse(b"[1, 1.0, {\"$bin\": \"eA==\"}]")?, Value::Array(vec![
///     Value::from(1), Value::F64(1.0), Value::Binary(b"x".to_vec()),
/// ]));
/// let err = parse(b"{\"key\": \"a\", \"key\": \"b\"}").unwrap_err();
/// assert_eq!(err.to_string(), "byte 0: expected distinct names, found \"key\" twice");
/// # Ok::<(), kiste::format::FormatError>(())
/// ```
pub fn parse(line: &[u8]) -> Result<Value, FormatError> {
    Reader::new(line, false)?.document()
}

/// Reads a value as other programs write it: names that begin with `$` have no meaning.
///
/// Otherwise like [`parse`], so nothing is read as something else: integers beyond 64 bits, floats
/// beyond the range of 64 bits and objects with the same name twice are refused.
///
/// ```
/// use kiste::Value;
/// use kiste::format::jsonl::parse_plain;
///
/// let value = parse_plain(b"{\"$ref\": NaN}")?;
/// assert!(value["$ref"].as_f64().unwrap().is_nan());
/// assert!(parse_plain(b"18446744073709551616").is_err());
/// # Ok::<(), kiste::format::FormatError>(())
/// ```
pub fn parse_plain(json: &[u8]) -> Result<Value, FormatError> {
    Reader::new(json, true)?.document()
}

/// Reads an object as [`parse`] or `plain` as [`parse_plain`] does, with nil for the members that are not `wanted`: they need
/// be JSON, but may have numbers and names that are refused otherwise. Another value is read whole.
pub(crate) fn parse_members(
    json: &[u8],
    plain: bool,
    wanted: &dyn Fn(&str) -> bool,
) -> Result<Value, FormatError> {
    Reader { wanted: Some(wanted), ..Reader::new(json, plain)? }.document()
}

/// The character that some programs put at the start of a file.
const MARK: char = '\u{feff}';

struct Reader<'a> {
    text: &'a str,
    at: usize,
    /// Whether `$` means nothing.
    plain: bool,
    /// The members of the outermost object to read, if not all.
    wanted: Option<&'a dyn Fn(&str) -> bool>,
    /// Whether such a member is being passed over.
    passes: bool,
}

/// A container whose elements are being read.
struct Open {
    start: usize,
    /// The deepest nesting within the elements so far.
    deepest: usize,
    kind: OpenKind,
}

enum OpenKind {
    Array(Vec<Value>),
    /// The members so far, and the name of the next.
    Object(Vec<(String, Value)>, String),
}

impl Open {
    fn new(start: usize, kind: OpenKind) -> Open {
        Open { start, deepest: 0, kind }
    }

    fn add(&mut self, value: Value, depth: usize) {
        self.deepest = self.deepest.max(depth);
        match &mut self.kind {
            OpenKind::Array(items) => items.push(value),
            OpenKind::Object(members, name) => members.push((std::mem::take(name), value)),
        }
    }

    /// The value of the whole container and its nesting depth.
    fn close(self, plain: bool) -> Result<(Value, usize), FormatError> {
        let depth = self.deepest + 1;
        let (value, depth) = match self.kind {
            OpenKind::Array(items) => (Value::Array(items), depth),
            OpenKind::Object(members, _) => object(members, depth, self.start, plain)?,
        };
        // One more than the limit, as this may be the array of a `$map`.
        if depth > MAX_DEPTH + 1 { Err(too_deep(self.start)) } else { Ok((value, depth)) }
    }
}

impl<'a> Reader<'a> {
    fn new(json: &'a [u8], plain: bool) -> Result<Reader<'a>, FormatError> {
        let text = std::str::from_utf8(json).map_err(|flaw| {
            FormatError::new(flaw.valid_up_to() as u64, "UTF-8", "a byte that is not")
        })?;
        let at = if text.starts_with(MARK) { MARK.len_utf8() } else { 0 };
        Ok(Reader { text, at, plain, wanted: None, passes: false })
    }

    fn document(&mut self) -> Result<Value, FormatError> {
        let mut open: Vec<Open> = Vec::new();
        loop {
            self.skip_space();
            let start = self.at;
            let (mut value, mut depth) = match self.peek() {
                Some(bracket @ (b'[' | b'{')) => {
                    if open.len() == MAX_JSON_DEPTH {
                        return Err(too_deep(start));
                    }
                    self.at += 1;
                    self.skip_space();
                    let mut container = if bracket == b'[' {
                        Open::new(start, OpenKind::Array(Vec::new()))
                    } else {
                        Open::new(start, OpenKind::Object(Vec::new(), String::new()))
                    };
                    if self.peek() == Some(container.bracket()) {
                        self.at += 1;
                        self.close(container)?
                    } else {
                        self.name(&mut container, open.is_empty())?;
                        open.push(container);
                        continue;
                    }
                }
                Some(b'"') => (Value::from(self.string()?), 0),
                // Python's json writes these three, which JSON does not have.
                Some(b'N') => (self.word("NaN", Value::F64(f64::NAN))?, 0),
                Some(b'I') => (self.word("Infinity", Value::F64(f64::INFINITY))?, 0),
                Some(b'-') if self.rest().starts_with(b"-I") => {
                    (self.word("-Infinity", Value::F64(f64::NEG_INFINITY))?, 0)
                }
                Some(b'-' | b'0'..=b'9') => (self.number()?, 0),
                Some(b'n') => (self.word("null", Value::Nil)?, 0),
                Some(b't') => (self.word("true", Value::Boolean(true))?, 0),
                Some(b'f') => (self.word("false", Value::Boolean(false))?, 0),
                _ => return Err(self.error("a JSON value")),
            };
            // A value may be the last of its container, and that the last of its own.
            loop {
                self.skip_space();
                let Some(mut container) = open.pop() else {
                    if self.peek().is_some() {
                        return Err(self.error("end of line"));
                    }
                    return if depth > MAX_DEPTH { Err(too_deep(start)) } else { Ok(value) };
                };
                if self.passes && open.is_empty() {
                    self.passes = false;
                    (value, depth) = (Value::Nil, 0);
                }
                container.add(value, depth);
                let closing = container.bracket();
                match self.peek() {
                    Some(b',') => {
                        self.at += 1;
                        self.name(&mut container, open.is_empty())?;
                        open.push(container);
                        break;
                    }
                    Some(bracket) if bracket == closing => {
                        self.at += 1;
                        (value, depth) = self.close(container)?;
                    }
                    _ if closing == b']' => return Err(self.error("\",\" or \"]\"")),
                    _ => return Err(self.error("\",\" or \"}\"")),
                }
            }
        }
    }

    fn close(&self, container: Open) -> Result<(Value, usize), FormatError> {
        if self.passes { Ok((Value::Nil, 0)) } else { container.close(self.plain) }
    }

    /// Reads the name and colon of the next member, if the container is an object.
    fn name(&mut self, container: &mut Open, is_outermost: bool) -> Result<(), FormatError> {
        let OpenKind::Object(_, name) = &mut container.kind else {
            return Ok(());
        };
        self.skip_space();
        if self.peek() != Some(b'"') {
            return Err(self.error("a name in quotes"));
        }
        *name = self.string()?;
        self.passes |= is_outermost && self.wanted.is_some_and(|wanted| !wanted(name));
        self.skip_space();
        if self.peek() != Some(b':') {
            return Err(self.error("\":\""));
        }
        self.at += 1;
        Ok(())
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn rest(&self) -> &[u8] {
        &self.text.as_bytes()[self.at..]
    }

    fn skip_space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn word(&mut self, word: &str, value: Value) -> Result<Value, FormatError> {
        if !self.rest().starts_with(word.as_bytes()) {
            return Err(self.error("a JSON value"));
        }
        self.at += word.len();
        Ok(value)
    }

    fn digits(&mut self) -> Result<(), FormatError> {
        if !matches!(self.peek(), Some(b'0'..=b'9')) {
            return Err(self.error("a digit"));
        }
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
        Ok(())
    }

    fn number(&mut self) -> Result<Value, FormatError> {
        let start = self.at;
        self.at += usize::from(self.peek() == Some(b'-'));
        if self.peek() == Some(b'0') {
            self.at += 1;
        } else {
            self.digits()?;
        }
        let mut is_float = false;
        if self.peek() == Some(b'.') {
            is_float = true;
            self.at += 1;
            self.digits()?;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            is_float = true;
            self.at += 1;
            self.at += usize::from(matches!(self.peek(), Some(b'+' | b'-')));
            self.digits()?;
        }
        let text = &self.text[start..self.at];
        if self.passes {
            return Ok(Value::Nil);
        }
        let (number, expected) = if is_float {
            let number = text.parse().ok().filter(|number: &f64| number.is_finite());
            (number.map(Value::F64), "a float of 64 bits")
        } else if text.starts_with('-') {
            (text.parse::<i64>().ok().map(Value::from), "an integer from -2^63 to 2^64-1")
        } else {
            (text.parse::<u64>().ok().map(Value::from), "an integer from -2^63 to 2^64-1")
        };
        number.ok_or_else(|| FormatError::new(start as u64, expected, brief(text)))
    }

    /// Reads a string from its opening to its closing quote.
    fn string(&mut self) -> Result<String, FormatError> {
        self.at += 1;
        let mut string = String::new();
        loop {
            let rest = &self.text.as_bytes()[self.at..];
            let run = rest.iter().position(|&byte| byte == b'"' || byte == b'\\' || byte < b' ');
            let run = run.unwrap_or(rest.len());
            // Only ASCII ends a run, so both ends are at characters.
            string.push_str(&self.text[self.at..self.at + run]);
            self.at += run;
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(string);
                }
                Some(b'\\') => string.push(self.escape()?),
                Some(_) => return Err(self.error("an escape for a control character")),
                None => return Err(self.error("a closing quote")),
            }
        }
    }

    fn escape(&mut self) -> Result<char, FormatError> {
        let start = self.at;
        self.at += 1;
        let letter = self.peek();
        self.at += 1;
        Ok(match letter {
            Some(b'"') => '"',
            Some(b'\\') => '\\',
            Some(b'/') => '/',
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => {
                let mut units = vec![self.hex4(start)?];
                let pair = matches!(units[..], [0xd800..=0xdbff]);
                if pair && self.text.as_bytes()[self.at..].starts_with(b"\\u") {
                    self.at += 2;
                    units.push(self.hex4(start)?);
                }
                let one = char::decode_utf16(units).next().and_then(Result::ok);
                one.ok_or_else(|| {
                    FormatError::new(start as u64, "a character", "half of a surrogate pair")
                })?
            }
            _ => {
                let found = "another after the backslash";
                return Err(FormatError::new(start as u64, "an escape of JSON", found));
            }
        })
    }

    fn hex4(&mut self, start: usize) -> Result<u16, FormatError> {
        let digits = self.text.as_bytes().get(self.at..self.at + 4);
        let digits = digits.and_then(|digits| std::str::from_utf8(digits).ok());
        let digits = digits.filter(|digits| digits.bytes().all(|b| b.is_ascii_hexdigit()));
        self.at += 4;
        digits.and_then(|digits| u16::from_str_radix(digits, 16).ok()).ok_or_else(|| {
            FormatError::new(start as u64, "\"\\u\" and four hexadecimal digits", "something else")
        })
    }

    fn error(&self, expected: &str) -> FormatError {
        let found = match self.text.get(self.at..).and_then(|rest| rest.chars().next()) {
            Some(c) => format!("{:?}", c.to_string()),
            None => "end of line".to_owned(),
        };
        FormatError::new(self.at as u64, expected, found)
    }
}

impl Open {
    fn bracket(&self) -> u8 {
        match self.kind {
            OpenKind::Array(_) => b']',
            OpenKind::Object(..) => b'}',
        }
    }
}

fn too_deep(start: usize) -> FormatError {
    let expected = format!("at most {MAX_DEPTH} nested containers");
    FormatError::new(start as u64, expected, "more")
}

/// A map from the members of an object, or the value that a `$` object stands for. The depth is the
/// object's; the value is returned with its own depth.
fn object(
    mut members: Vec<(String, Value)>,
    depth: usize,
    start: usize,
    plain: bool,
) -> Result<(Value, usize), FormatError> {
    if !plain && members.iter().any(|(name, _)| name.starts_with('$')) {
        return match members.pop() {
            Some((name, value)) if members.is_empty() => special(&name, value, depth - 1, start),
            _ => {
                let expected = "a name beginning with \"$\" to be the only one of its object";
                Err(FormatError::new(start as u64, expected, "others next to it"))
            }
        };
    }
    let mut names: Vec<&str> = members.iter().map(|(name, _)| &name[..]).collect();
    if !are_distinct(&mut names) {
        let twice = names.windows(2).find(|pair| pair[0] == pair[1]).map_or("one", |pair| pair[0]);
        let found = format!("{} twice", brief(&format!("{twice:?}")));
        return Err(FormatError::new(start as u64, "distinct names", found));
    }
    let entries = members.into_iter().map(|(name, value)| (Value::from(name), value));
    Ok((Value::Map(entries.collect()), depth))
}

/// The value that a `$` object stands for, from the value under its name and its depth.
///
/// All but `$map` become just as deep as the value they are written with, or become no container.
fn special(
    name: &str,
    value: Value,
    depth: usize,
    start: usize,
) -> Result<(Value, usize), FormatError> {
    let (made, expected) = match name {
        "$map" => (map(value).map(|made| (made, depth.saturating_sub(1).max(1))), "pairs"),
        "$f" => (bits(&value).map(|made| (Value::F64(made), 0)), "16 hexadecimal digits"),
        "$bin" => (base64(&value).map(|made| (Value::Binary(made), 0)), "base64"),
        "$ext" => (ext(&value).map(|made| (made, 0)), "a code from -128 to 127 and base64"),
        "$ts" => (ts(&value).map(|made| (made, 0)), "seconds and nanoseconds below 1000000000"),
        "$c" => (complex(&value).map(|made| (made, depth)), "twice 16 hexadecimal digits"),
        "$nd" => (
            nd(&value).map(|made| (made, depth)),
            "dtype, shape and data, with as much data as dtype and shape call for",
        ),
        "$np" => (
            np(&value).map(|made| (made, depth)),
            "dtype and data, with as much data as the dtype calls for",
        ),
        _ => {
            let expected = "a name of the notation for values that JSON lacks ($map $f $bin $nd $np $c \
                            $ext $ts)";
            let found = brief(&format!("{name:?}"));
            return Err(FormatError::new(start as u64, expected, found));
        }
    };
    made.ok_or_else(|| {
        FormatError::new(start as u64, format!("{expected} under {name:?}"), "something else")
    })
}

fn map(value: Value) -> Option<Value> {
    let Value::Array(pairs) = value else {
        return None;
    };
    let pairs = pairs.into_iter().map(|pair| match pair {
        Value::Array(pair) => <[Value; 2]>::try_from(pair).ok().map(|[key, value]| (key, value)),
        _ => None,
    });
    pairs.collect::<Option<_>>().map(Value::Map)
}

fn bits(value: &Value) -> Option<f64> {
    let digits = value.as_str()?;
    let whole = digits.len() == 16 && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    u64::from_str_radix(digits, 16).ok().filter(|_| whole).map(f64::from_bits)
}

fn base64(value: &Value) -> Option<Vec<u8>> {
    STANDARD.decode(value.as_str()?).ok()
}

fn ext(value: &Value) -> Option<Value> {
    let [code, data] = &value.as_array()?[..] else {
        return None;
    };
    Some(Value::Ext(i8::try_from(code.as_i64()?).ok()?, base64(data)?))
}

fn ts(value: &Value) -> Option<Value> {
    let [seconds, nanoseconds] = &value.as_array()?[..] else {
        return None;
    };
    let nanoseconds = u32::try_from(nanoseconds.as_u64()?).ok()?;
    Some(Value::Ext(timestamp::CODE, timestamp::to_ext(seconds.as_i64()?, nanoseconds)?))
}

fn complex(value: &Value) -> Option<Value> {
    let [re, im] = &value.as_array()?[..] else {
        return None;
    };
    Some(Special::Complex(bits(re)?, bits(im)?).to_value())
}

fn nd(value: &Value) -> Option<Value> {
    let [dtype, shape, data] = members(value, ["dtype", "shape", "data"])?;
    let (dtype, shape) = (dtype_from_value(dtype)?, shape_from_value(shape)?);
    Some(Special::Array(NdArray::new(dtype, shape, base64(data)?).ok()?).to_value())
}

fn np(value: &Value) -> Option<Value> {
    let [dtype, data] = members(value, ["dtype", "data"])?;
    Some(Special::scalar(dtype_from_value(dtype)?, base64(data)?)?.to_value())
}

/// The members of an object that has exactly these, in any order.
fn members<'a, const N: usize>(value: &'a Value, names: [&str; N]) -> Option<[&'a Value; N]> {
    let entries = value.as_map().filter(|entries| entries.len() == N)?;
    let member = |name| entries.iter().find(|(key, _)| key.as_str() == Some(name));
    let found: Option<Vec<&Value>> =
        names.into_iter().map(|name| member(name).map(|(_, value)| value)).collect();
    found?.try_into().ok()
}

/// Enough of a string to recognise it.
fn brief(text: &str) -> String {
    match text.char_indices().nth(40) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", &text[..end]),
    }
}
