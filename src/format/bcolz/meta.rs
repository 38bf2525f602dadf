//! The JSON files: `meta/sizes`, `meta/storage`, `__attrs__` and `__rootdirs__`.

use std::fmt::Write;

use serde_json::{Map, Value};

use crate::format::FormatError;
use crate::format::bloscpack::metadata::{with_tokens, write_spaced, write_string};
use crate::format::numpy::descr;
use crate::value::{ByteOrder, DType, DTypeKind};

use super::dflt::write_dflt;

/// The size limit of `meta/sizes`, `meta/storage` and `__rootdirs__`.
pub(crate) const MAX_META_BYTES: u64 = 1 << 20;
/// The size limit of `__attrs__`.
pub(crate) const MAX_ATTRS_BYTES: u64 = 64 << 20;

/// The default separators of `json.dumps`: between items, and between a key and its value.
const SEPARATORS: [&str; 2] = [", ", ": "];

/// `meta/sizes`: how large the array is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sizes {
    /// The length of each axis.
    pub shape: Vec<usize>,
    /// Bytes of the array.
    pub nbytes: u64,
    /// Bytes of the chunks; the last counts as a full one that is not compressed. So this is not
    /// the size of the files.
    pub cbytes: u64,
}

impl Sizes {
    /// Parses the file.
    pub fn parse(file: &[u8]) -> Result<Sizes, FormatError> {
        let sizes = parse_object(file)?;
        let shape = sizes.get("shape").and_then(Value::as_array).and_then(|shape| {
            shape.iter().map(|len| len.as_u64().and_then(|len| len.try_into().ok())).collect()
        });
        let shape: Vec<usize> =
            shape.ok_or_else(|| wrong("\"shape\": a list of lengths", sizes.get("shape")))?;
        if shape.is_empty() {
            return Err(wrong("\"shape\": at least one axis", sizes.get("shape")));
        }
        let (nbytes, cbytes) = (number(&sizes, "nbytes")?, number(&sizes, "cbytes")?);
        Ok(Sizes { shape, nbytes, cbytes })
    }

    /// The file, as bcolz writes it.
    pub fn to_json(&self) -> String {
        let shape: Vec<_> = self.shape.iter().map(usize::to_string).collect();
        let (shape, Sizes { nbytes, cbytes, .. }) = (shape.join(", "), self);
        format!("{{\"shape\": [{shape}], \"nbytes\": {nbytes}, \"cbytes\": {cbytes}}}\n")
    }
}

/// `meta/storage`: the type of the elements, and how they are stored.
#[derive(Debug, Clone, PartialEq)]
pub struct Storage {
    /// The type of the elements.
    pub dtype: DType,
    /// How they were compressed; each chunk knows its own.
    pub cparams: CParams,
    /// Rows of every chunk but the last.
    pub chunklen: u64,
    /// The number of rows that the writer expected.
    pub expectedlen: u64,
    /// The value of elements that were never written. `NaN` and the infinities are strings of that
    /// name; [`fill`](Storage::fill) has it as bytes.
    pub dflt: Value,
}

/// The parameters of compression. Informative.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CParams {
    /// The level, 0 to 9.
    pub clevel: u8,
    /// 0 none, 1 bytes, 2 bits.
    pub shuffle: u8,
    /// The codec; `blosclz` in files that do not say.
    pub cname: String,
    /// To how many decimal digits floats were rounded before they were compressed; 0 for not at
    /// all.
    pub quantize: u64,
}

impl Default for CParams {
    /// The defaults of bcolz.
    fn default() -> CParams {
        CParams { clevel: 5, shuffle: 1, cname: "lz4".to_owned(), quantize: 0 }
    }
}

impl Storage {
    /// Parses the file.
    pub fn parse(file: &[u8]) -> Result<Storage, FormatError> {
        let storage = parse_object(file)?;
        let Some(dtype) = storage.get("dtype").and_then(Value::as_str) else {
            return Err(wrong("\"dtype\": the name of a type", storage.get("dtype")));
        };
        let chunklen = number(&storage, "chunklen")?;
        let expectedlen = storage.get("expectedlen").and_then(Value::as_u64).unwrap_or(0);
        Ok(Storage {
            dtype: parse_dtype(dtype)?,
            cparams: CParams::from_value(storage.get("cparams")),
            chunklen,
            expectedlen,
            dflt: storage.get("dflt").cloned().unwrap_or(Value::Null),
        })
    }

    /// The file, as bcolz writes it.
    pub fn to_json(&self) -> String {
        let CParams { clevel, shuffle, cname, quantize } = &self.cparams;
        let mut out = String::from("{\"dtype\": ");
        write_string(&dtype_text(&self.dtype), &mut out);
        // A String takes everything.
        let _ = write!(
            out,
            ", \"cparams\": {{\"clevel\": {clevel}, \"shuffle\": {shuffle}, \"cname\": "
        );
        write_string(cname, &mut out);
        let (chunklen, expectedlen) = (self.chunklen, self.expectedlen);
        let _ = write!(out, ", \"quantize\": {quantize}}}, \"chunklen\": {chunklen}");
        let _ = write!(out, ", \"expectedlen\": {expectedlen}, \"dflt\": ");
        write_dflt(&self.dflt, &self.dtype, &mut out);
        out.push_str("}\n");
        out
    }

    /// The bytes of an element that was never written, if `dflt` is a value of the type.
    pub fn fill(&self) -> Option<Vec<u8>> {
        super::dflt::fill(&self.dflt, &self.dtype)
    }
}

impl CParams {
    /// The known parameters: none is needed here, and older files have fewer.
    fn from_value(value: Option<&Value>) -> CParams {
        let get = |key: &str| value.and_then(|value| value.get(key));
        let small = |key: &str| get(key).and_then(Value::as_u64).and_then(|n| u8::try_from(n).ok());
        // The Blaze document has a boolean here.
        let shuffle = get("shuffle").and_then(Value::as_bool).map(u8::from);
        let cname = get("cname").and_then(Value::as_str).unwrap_or("blosclz");
        CParams {
            clevel: small("clevel").unwrap_or(5),
            shuffle: small("shuffle").or(shuffle).unwrap_or(1),
            cname: cname.to_owned(),
            quantize: get("quantize").and_then(Value::as_u64).unwrap_or(0),
        }
    }
}

/// `__rootdirs__`: the columns of a table in their order, each the name of a directory next to this
/// file.
pub fn parse_names(file: &[u8]) -> Result<Vec<String>, FormatError> {
    let object = parse_object(file)?;
    let names = object.get("names").and_then(Value::as_array).and_then(|names| {
        names.iter().map(|name| name.as_str().map(str::to_owned)).collect::<Option<Vec<_>>>()
    });
    let names = names.ok_or_else(|| wrong("\"names\": a list of columns", object.get("names")))?;
    if names.is_empty() {
        return Err(wrong("\"names\": at least one column", object.get("names")));
    }
    let mut sorted: Vec<&String> = names.iter().collect();
    sorted.sort_unstable();
    if let Some(pair) = sorted.windows(2).find(|pair| pair[0] == pair[1]) {
        let found = format!("{:?} twice", pair[0]);
        return Err(FormatError::new(0, "columns of different names", found));
    }
    names.iter().try_for_each(|name| check_name(name))?;
    Ok(names)
}

/// The file `__rootdirs__` of a table with these columns.
pub fn names_to_json(names: &[impl AsRef<str>]) -> String {
    let names = names.iter().map(|name| Value::from(name.as_ref())).collect();
    to_json(&Value::Object(Map::from_iter([("names".to_owned(), Value::Array(names))])))
}

/// Whether a column may have this name. It is also the name of its directory: it must not lead out
/// of the table, nor be a file that the table has.
pub(crate) fn check_name(name: &str) -> Result<(), FormatError> {
    let is_taken = matches!(name, "" | "." | ".." | "__attrs__" | "__rootdirs__");
    if !is_taken && !name.contains(['/', '\\', ':', '\0']) {
        return Ok(());
    }
    let expected = "the name of a column, which is a directory in the table";
    Err(FormatError::new(0, expected, format!("{name:?}")))
}

/// `__attrs__`: attributes of the user. An empty file counts as no attributes.
pub fn parse_attrs(file: &[u8]) -> Result<Map<String, Value>, FormatError> {
    match file.trim_ascii() {
        b"" => Ok(Map::new()),
        text => parse_object(text),
    }
}

/// The file `__attrs__`. Keys come in alphabetical order.
pub fn attrs_to_json(attrs: &Map<String, Value>) -> String {
    to_json(&Value::Object(attrs.clone()))
}

fn to_json(value: &Value) -> String {
    let mut out = String::new();
    write_spaced(value, SEPARATORS, &mut out);
    out.push('\n');
    out
}

/// A type as bcolz spells it. A name without a byte order means little-endian numbers: bcolz used
/// the order of its machine without recording it, and nearly all machines are little-endian.
fn parse_dtype(text: &str) -> Result<DType, FormatError> {
    let dtype = descr::parse(text)?;
    match text.trim_start().starts_with(|first: char| first == '=' || first.is_ascii_alphabetic()) {
        true => Ok(dtype.with_byte_order(ByteOrder::Little)),
        false => Ok(dtype),
    }
}

/// The opposite: `int32` for little-endian numbers, `>i4` for others, wherever this runs.
fn dtype_text(dtype: &DType) -> String {
    match dtype.byte_order() {
        ByteOrder::Big => dtype.to_string(),
        _ if matches!(dtype.kind(), DTypeKind::Text | DTypeKind::Struct) => dtype.to_string(),
        _ => descr::name(&dtype.clone().with_byte_order(ByteOrder::NATIVE)),
    }
}

fn parse_object(file: &[u8]) -> Result<Map<String, Value>, FormatError> {
    let text = std::str::from_utf8(file).map_err(|error| {
        let at = error.valid_up_to() as u64;
        FormatError::new(at, "text of JSON", "bytes that are no text")
    })?;
    let not_json =
        |error: serde_json::Error| FormatError::new(0, "a JSON object", error.to_string());
    match serde_json::from_str(text) {
        Ok(object) => Ok(object),
        Err(error) => match with_tokens(text, quoted) {
            Some(text) => serde_json::from_str(&text).map_err(not_json),
            None => Err(not_json(error)),
        },
    }
}

/// Python's tokens that JSON does not have, as strings.
fn quoted(token: &str) -> &'static str {
    match token {
        "NaN" => "\"NaN\"",
        "Infinity" => "\"Infinity\"",
        _ => "\"-Infinity\"",
    }
}

fn number(object: &Map<String, Value>, key: &str) -> Result<u64, FormatError> {
    let value = object.get(key);
    let number = value.and_then(Value::as_u64);
    number.ok_or_else(|| wrong(&format!("{key:?}: a whole number"), value))
}

fn wrong(expected: &str, found: Option<&Value>) -> FormatError {
    let found = found.map_or("none".to_owned(), |value| {
        let text = value.to_string();
        match text.char_indices().nth(60) {
            Some((end, _)) => format!("{}…", &text[..end]),
            None => text,
        }
    });
    FormatError::new(0, expected, found)
}

#[cfg(test)]
mod tests {
    #[test]
    fn sizes_round_trip() -> Result<(), Box<dyn std::error::Error>> {
        use crate::format::bcolz::Sizes;

        let text = "{\"shape\": [50, 7], \"nbytes\": 1400, \"cbytes\": 907}\n";
        let sizes = Sizes::parse(text.as_bytes())?;
        assert_eq!(sizes.shape, [50, 7]);
        assert_eq!(sizes.to_json(), text);
        Ok(())
    }

    #[test]
    fn storage_round_trips() -> Result<(), Box<dyn std::error::Error>> {
        use crate::format::bcolz::Storage;
        use crate::value::DTypeKind;

        let text = "{\"dtype\": \"int64\", \"cparams\": {\"clevel\": 5, \"shuffle\": 1, \
            \"cname\": \"lz4\", \"quantize\": 0}, \"chunklen\": 8192, \"expectedlen\": 1000, \"dflt\": 7}\n";
        let storage = Storage::parse(text.as_bytes())?;
        assert_eq!((storage.dtype.kind(), storage.chunklen), (DTypeKind::Int, 8192));
        assert_eq!(storage.fill(), Some(vec![7, 0, 0, 0, 0, 0, 0, 0]));
        assert_eq!(storage.to_json(), text);
        Ok(())
    }

    #[test]
    fn names_round_trip() -> Result<(), Box<dyn std::error::Error>> {
        use crate::format::bcolz::{names_to_json, parse_names};

        assert_eq!(parse_names(b"{\"names\": [\"id\", \"val\"]}\n")?, ["id", "val"]);
        assert!(parse_names(b"{\"names\": [\"../secret\"]}").is_err());
        assert_eq!(names_to_json(&["id", "val"]), "{\"names\": [\"id\", \"val\"]}\n");
        Ok(())
    }
}
