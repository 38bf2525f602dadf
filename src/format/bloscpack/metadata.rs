//! The metadata section: a header of its own, JSON text that may be compressed, room to grow, and a
//! digest of the stored bytes.

use std::borrow::Cow;
use std::io::{Read, Write};
use std::ops::Range;

use flate2::Compression;
use flate2::bufread::ZlibDecoder;
use flate2::write::ZlibEncoder;

use crate::format::{FormatError, hex};

use super::checksum::Checksum;

/// Bytes of the header of the section.
pub(crate) const HEADER: usize = 32;
/// The format of the text; there is no other.
pub(crate) const MAGIC_FORMAT: [u8; 8] = *b"JSON\0\0\0\0";

/// How the text is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum MetadataCodec {
    /// Uncompressed.
    None,
    /// As one zlib stream.
    #[default]
    Zlib,
}

/// The header of a metadata section.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MetadataHeader {
    /// Option bits. None are defined; they are preserved.
    pub options: u8,
    /// The checksum of the stored bytes.
    pub checksum: Checksum,
    /// How the text is stored.
    pub codec: MetadataCodec,
    /// The compression level, also if the text is stored uncompressed.
    pub level: u8,
    /// Bytes of the text.
    pub size: u32,
    /// The room for the stored text in bytes.
    pub max_size: u32,
    /// Bytes that it takes.
    pub stored_size: u32,
    /// Reserved for user-defined codecs; none is known.
    pub user_codec: [u8; 8],
}

/// A metadata section inside a container.
#[derive(Debug, Clone, Copy)]
pub struct Metadata<'a> {
    header: MetadataHeader,
    at: usize,
    stored: &'a [u8],
    digest: &'a [u8],
}

/// How to write metadata.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MetadataOptions {
    /// The checksum of the stored bytes.
    pub checksum: Checksum,
    /// How the text is stored, unless that makes it longer.
    pub codec: MetadataCodec,
    /// The level of compression, 0 to 9.
    pub level: u8,
    /// How much it may grow in place.
    pub room: Room,
}

/// The room for the stored text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Room {
    /// Exactly its size: only a text that is no longer can replace it in place.
    Tight,
    /// This many times the plain text.
    Times(u32),
    /// This many bytes.
    Bytes(u32),
}

impl Default for MetadataOptions {
    /// The same as bloscpack: adler32, zlib at level 6, ten times the text.
    fn default() -> MetadataOptions {
        MetadataOptions {
            checksum: Checksum::Adler32,
            codec: MetadataCodec::Zlib,
            level: 6,
            room: Room::Times(10),
        }
    }
}

impl MetadataOptions {
    /// As small as possible: no room, and no compression of short text.
    pub const COMPACT: MetadataOptions = MetadataOptions {
        checksum: Checksum::Adler32,
        codec: MetadataCodec::None,
        level: 0,
        room: Room::Tight,
    };
}

impl<'a> Metadata<'a> {
    /// The section that begins at byte `at` of a container. Neither digest nor text is checked.
    pub fn parse(container: &'a [u8], at: usize) -> Result<Metadata<'a>, FormatError> {
        let cut = |expected: String| {
            let end = container.len() as u64;
            FormatError::new(end, expected, format!("the end after {end} bytes"))
        };
        let rest = container.get(at..).unwrap_or_default();
        let header = rest
            .first_chunk()
            .ok_or_else(|| cut(format!("a metadata header of {HEADER} bytes")))?;
        let header = MetadataHeader::parse(header, at as u64)?;
        let body = &rest[HEADER..];
        let (room, digest_size) = (header.max_size as usize, header.checksum.size());
        let digest = body.get(room..).and_then(|after| after.get(..digest_size));
        let digest = digest.ok_or_else(|| {
            cut(format!("metadata of {room} bytes and {digest_size} of their digest"))
        })?;
        // The digest follows the room, not the text, so that the text can be replaced in place.
        let stored = &body[..header.stored_size as usize];
        Ok(Metadata { header, at, stored, digest })
    }

    /// The header of the section.
    pub fn header(&self) -> &MetadataHeader {
        &self.header
    }

    /// The bytes of the container that the section takes.
    pub fn range(&self) -> Range<usize> {
        self.at..self.at + HEADER + self.header.max_size as usize + self.digest.len()
    }

    /// The text, after its digest has been checked.
    pub fn text(&self) -> Result<Cow<'a, str>, FormatError> {
        let found = self.header.checksum.digest(self.stored);
        let (at, checksum) = ((self.at + HEADER) as u64, self.header.checksum);
        if found.as_slice() != self.digest {
            let expected = format!("metadata of {checksum} checksum {}", hex(self.digest));
            return Err(FormatError::new(at, expected, format!("{found:?}")));
        }
        let text = match self.header.codec {
            MetadataCodec::None => Cow::Borrowed(self.stored),
            MetadataCodec::Zlib => Cow::Owned(self.inflate()?),
        };
        // Stricter than Python, which never checks this field.
        if text.len() != self.header.size as usize {
            let expected = format!("metadata of {} bytes", self.header.size);
            return Err(FormatError::new(at, expected, format!("{} bytes", text.len())));
        }
        let utf8 = |position: usize| {
            let found = format!("another byte after {position} of them");
            FormatError::new(at, "metadata in UTF-8", found)
        };
        match text {
            Cow::Borrowed(text) => std::str::from_utf8(text)
                .map(Cow::Borrowed)
                .map_err(|error| utf8(error.valid_up_to())),
            Cow::Owned(text) => String::from_utf8(text)
                .map(Cow::Owned)
                .map_err(|error| utf8(error.utf8_error().valid_up_to())),
        }
    }

    /// The text as a JSON value. `NaN` and the infinities, which Python writes and JSON does not
    /// know, become null.
    pub fn value(&self) -> Result<serde_json::Value, FormatError> {
        parse_json(&self.text()?, (self.at + HEADER) as u64)
    }

    /// The content of the stream, up to one byte more than the header says, to detect that it is
    /// longer.
    fn inflate(&self) -> Result<Vec<u8>, FormatError> {
        let mut text = Vec::new();
        let limit = u64::from(self.header.size) + 1;
        ZlibDecoder::new(self.stored).take(limit).read_to_end(&mut text).map_err(|error| {
            let at = (self.at + HEADER) as u64;
            FormatError::new(at, "metadata that is a zlib stream", error.to_string())
        })?;
        Ok(text)
    }
}

impl MetadataHeader {
    /// The header in these bytes, which are from byte `at` of the container.
    pub fn parse(bytes: &[u8; HEADER], at: u64) -> Result<MetadataHeader, FormatError> {
        let bad = |column: u64, expected: &str, found: String| {
            FormatError::new(at + column, format!("{expected} in the metadata header"), found)
        };
        let format = &bytes[..8];
        // The documentation says that spaces follow, but programs write zeros.
        if format.trim_ascii_end() != b"JSON" && *format != MAGIC_FORMAT {
            return Err(bad(0, "the format \"JSON\"", format!("\"{}\"", format.escape_ascii())));
        }
        let checksum = Checksum::from_id(bytes[9])
            .ok_or_else(|| bad(9, "the number of a checksum, 0 to 8", bytes[9].to_string()))?;
        let codec = match bytes[10] {
            0 => MetadataCodec::None,
            1 => MetadataCodec::Zlib,
            other => return Err(bad(10, "codec 0 or 1", other.to_string())),
        };
        if bytes[11] > 9 {
            return Err(bad(11, "a level from 0 to 9", bytes[11].to_string()));
        }
        let number = |i: usize| u32::from_le_bytes([0, 1, 2, 3].map(|k| bytes[i + k]));
        let (size, max_size, stored_size) = (number(12), number(16), number(20));
        // Python never compares the plain size with the text, but the room bounds what is stored.
        if stored_size > max_size {
            let expected = format!("a stored size of at most {max_size}");
            return Err(bad(20, &expected, stored_size.to_string()));
        }
        let user_codec = [24, 25, 26, 27, 28, 29, 30, 31].map(|i| bytes[i]);
        let (options, level) = (bytes[8], bytes[11]);
        Ok(MetadataHeader {
            options,
            checksum,
            codec,
            level,
            size,
            max_size,
            stored_size,
            user_codec,
        })
    }

    /// The bytes of the header.
    pub fn encode(&self) -> [u8; HEADER] {
        let mut bytes = [0; HEADER];
        bytes[..8].copy_from_slice(&MAGIC_FORMAT);
        let codec = match self.codec {
            MetadataCodec::None => 0,
            MetadataCodec::Zlib => 1,
        };
        bytes[8..12].copy_from_slice(&[self.options, self.checksum.id(), codec, self.level]);
        for (at, number) in [(12, self.size), (16, self.max_size), (20, self.stored_size)] {
            bytes[at..at + 4].copy_from_slice(&number.to_le_bytes());
        }
        bytes[24..].copy_from_slice(&self.user_codec);
        bytes
    }
}

/// Writes a section with this text behind `out`. A text that does not fit its room, or is longer
/// than 4 GiB, is an error, and `out` is as it was.
pub(crate) fn encode(
    text: &str,
    options: &MetadataOptions,
    out: &mut Vec<u8>,
) -> Result<(), FormatError> {
    let start = out.len();
    let too_long = |found: usize, room: u64| {
        FormatError::new(0, format!("metadata of at most {room} bytes"), format!("{found} bytes"))
    };
    let size = u32::try_from(text.len()).map_err(|_| too_long(text.len(), u32::MAX.into()))?;
    let (codec, stored) = match options.codec {
        MetadataCodec::None => (MetadataCodec::None, Cow::Borrowed(text.as_bytes())),
        MetadataCodec::Zlib => compress(text, options.level),
    };
    let max_size = match options.room {
        Room::Tight => stored.len() as u64,
        Room::Times(times) => u64::from(size) * u64::from(times),
        Room::Bytes(bytes) => u64::from(bytes),
    };
    let max_size = u32::try_from(max_size).unwrap_or(u32::MAX);
    let stored_size = u32::try_from(stored.len()).ok().filter(|stored| *stored <= max_size);
    let stored_size = stored_size.ok_or_else(|| too_long(stored.len(), max_size.into()))?;
    let header = MetadataHeader {
        options: 0,
        checksum: options.checksum,
        codec,
        level: options.level.min(9),
        size,
        max_size,
        stored_size,
        user_codec: [0; 8],
    };
    out.extend_from_slice(&header.encode());
    out.extend_from_slice(&stored);
    out.resize(start + HEADER + max_size as usize, 0);
    out.extend_from_slice(options.checksum.digest(&stored).as_slice());
    Ok(())
}

/// The text as a zlib stream, or uncompressed if that is shorter.
fn compress(text: &str, level: u8) -> (MetadataCodec, Cow<'_, [u8]>) {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::new(level.min(9).into()));
    let stream = encoder.write_all(text.as_bytes()).and_then(|()| encoder.finish());
    match stream {
        Ok(stream) if stream.len() <= text.len() => (MetadataCodec::Zlib, Cow::Owned(stream)),
        // Writing to a `Vec` never fails.
        _ => (MetadataCodec::None, Cow::Borrowed(text.as_bytes())),
    }
}

/// A JSON text that may have Python's three tokens in it.
pub(super) fn parse_json(text: &str, at: u64) -> Result<serde_json::Value, FormatError> {
    let not_json =
        |error: serde_json::Error| FormatError::new(at, "metadata in JSON", error.to_string());
    match serde_json::from_str(text) {
        Ok(value) => Ok(value),
        Err(error) => match with_tokens(text, |_| "null") {
            Some(text) => serde_json::from_str(&text).map_err(not_json),
            None => Err(not_json(error)),
        },
    }
}

/// The text with `NaN`, `Infinity` and `-Infinity` outside of strings replaced by valid JSON, if
/// it has any.
pub(in crate::format) fn with_tokens(
    text: &str,
    instead: impl Fn(&str) -> &'static str,
) -> Option<String> {
    let mut out = String::with_capacity(text.len());
    let (mut rest, mut quoted, mut found) = (text, false, false);
    while let Some(first) = rest.chars().next() {
        let token = ["NaN", "Infinity", "-Infinity"].into_iter().find(|t| rest.starts_with(t));
        let taken = match token {
            Some(token) if !quoted => {
                found = true;
                out.push_str(instead(token));
                token.len()
            }
            _ if quoted && first == '\\' => {
                let taken = rest.chars().take(2).map(char::len_utf8).sum();
                out.push_str(&rest[..taken]);
                taken
            }
            _ => {
                quoted ^= first == '"';
                out.push(first);
                first.len_utf8()
            }
        };
        rest = &rest[taken..];
    }
    found.then_some(out)
}

/// Writes a JSON value as Python's `json.dumps(value, separators=(",", ":"))` does: all ASCII.
pub(crate) fn write_json(value: &serde_json::Value, out: &mut String) {
    write_spaced(value, [",", ":"], out);
}

/// As [`write_json`], with these between items, and between a key and its value.
pub(in crate::format) fn write_spaced(
    value: &serde_json::Value,
    separators: [&str; 2],
    out: &mut String,
) {
    use serde_json::Value;
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(flag) => out.push_str(if *flag { "true" } else { "false" }),
        Value::Number(number) => match number.as_f64() {
            Some(float) if number.is_f64() => write_float(float, out),
            _ => out.push_str(&number.to_string()),
        },
        Value::String(text) => write_string(text, out),
        Value::Array(items) => {
            let mut before = "[";
            for item in items {
                out.push_str(before);
                write_spaced(item, separators, out);
                before = separators[0];
            }
            out.push_str(if items.is_empty() { "[]" } else { "]" });
        }
        Value::Object(fields) => {
            let mut before = "{";
            for (key, item) in fields {
                out.push_str(before);
                write_string(key, out);
                out.push_str(separators[1]);
                write_spaced(item, separators, out);
                before = separators[0];
            }
            out.push_str(if fields.is_empty() { "{}" } else { "}" });
        }
    }
}

/// The shortest digits that give this number again, with an exponent where Python has one.
fn write_float(float: f64, out: &mut String) {
    use std::fmt::Write;
    let scientific = format!("{float:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    // A String takes everything.
    let _ = match exponent {
        -4..16 => write!(out, "{float:?}"),
        _ => {
            let sign = if exponent < 0 { '-' } else { '+' };
            write!(out, "{digits}e{sign}{:02}", exponent.unsigned_abs())
        }
    };
}

/// A string in quotes, with everything but printable ASCII escaped.
pub(in crate::format) fn write_string(text: &str, out: &mut String) {
    use std::fmt::Write;
    out.push('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            ' '..='~' => out.push(character),
            _ => {
                for unit in character.encode_utf16(&mut [0; 2]) {
                    let _ = write!(out, "\\u{unit:04x}"); // A String takes everything.
                }
            }
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn section(text: &str, options: &MetadataOptions) -> Vec<u8> {
        let mut out = b"before".to_vec();
        encode(text, options, &mut out).unwrap();
        out
    }

    #[test]
    fn text_round_trips_with_all_options() {
        let long = format!("{{\"a\":\"{}\"}}", "b".repeat(500));
        for text in ["5", "{}", "\"\u{1f600}\"", &long] {
            for checksum in Checksum::ALL {
                for codec in [MetadataCodec::None, MetadataCodec::Zlib] {
                    for room in [Room::Tight, Room::Times(10), Room::Bytes(1000)] {
                        let options = MetadataOptions { checksum, codec, level: 6, room };
                        let bytes = section(text, &options);
                        let metadata = Metadata::parse(&bytes, 6).unwrap();
                        assert_eq!(metadata.text().unwrap(), text);
                        assert_eq!(metadata.range(), 6..bytes.len());
                    }
                }
            }
        }
    }

    #[test]
    fn zlib_is_kept_only_where_it_is_no_longer() {
        let options = MetadataOptions::default();
        let short = section("{\"a\":1}", &options);
        let header = *Metadata::parse(&short, 6).unwrap().header();
        // The level stays as requested, as in Python.
        assert_eq!((header.codec, header.level), (MetadataCodec::None, 6));
        assert_eq!((header.size, header.max_size, header.stored_size), (7, 70, 7));

        let long = section(&format!("\"{}\"", "x".repeat(98)), &options);
        let header = *Metadata::parse(&long, 6).unwrap().header();
        assert_eq!((header.codec, header.size, header.max_size), (MetadataCodec::Zlib, 100, 1000));
        assert!(header.stored_size < 30);
    }

    #[test]
    fn a_text_that_does_not_fit_is_refused_and_nothing_is_written() {
        let options = MetadataOptions { room: Room::Bytes(3), ..MetadataOptions::COMPACT };
        let mut out = vec![1, 2];
        assert!(encode("1234", &options, &mut out).is_err());
        assert_eq!(out, [1, 2]);
    }

    #[test]
    #[cfg_attr(miri, ignore = "takes minutes there")]
    fn a_stream_of_more_than_it_says_is_not_unpacked() {
        let text = format!("\"{}\"", "b".repeat(1 << 20));
        let mut bytes = section(&text, &MetadataOptions::default());
        bytes[6 + 12..6 + 16].copy_from_slice(&100u32.to_le_bytes());
        let error = Metadata::parse(&bytes, 6).unwrap().text().unwrap_err();
        assert_eq!(error.to_string(), "byte 38: expected metadata of 100 bytes, found 101 bytes");
    }

    #[test]
    fn tokens_of_python_become_null() {
        let text = r#"{"x":NaN,"y":[-Infinity,Infinity],"s":"NaN \" Infinity","NaN":1}"#;
        let expected = json!({"x": null, "y": [null, null], "s": "NaN \" Infinity", "NaN": 1});
        assert_eq!(parse_json(text, 0).unwrap(), expected);
        assert!(parse_json("{NaN:1}", 0).is_err());
        assert!(parse_json(&"[".repeat(100_000), 0).is_err());
    }

    #[test]
    fn json_is_written_as_python_writes_it() {
        for (value, text) in [
            (
                json!({"k": "v", "n": [1, 2], "u": "gr\u{fc}n \u{4e2d}"}),
                r#"{"k":"v","n":[1,2],"u":"gr\u00fcn \u4e2d"}"#,
            ),
            (json!("\u{1f600}\u{7f}\u{1}\n\"\\/"), r#""\ud83d\ude00\u007f\u0001\n\"\\/""#),
            (json!([[], {}, null, true, -1]), "[[],{},null,true,-1]"),
            (
                json!([1.0, 3.25, 1e16, 1.5e-5, 1e15, 0.0001, -1e300, 1.25e100]),
                "[1.0,3.25,1e+16,1.5e-05,1000000000000000.0,0.0001,-1e+300,1.25e+100]",
            ),
        ] {
            let mut out = String::new();
            write_json(&value, &mut out);
            assert_eq!(out, text);
        }
    }

    #[test]
    fn damage_never_panics() {
        let bytes = section("{\"a\":[1,2,3]}", &MetadataOptions::default());
        for len in 0..bytes.len() {
            assert!(Metadata::parse(&bytes[..len], 6).is_err());
        }
        for at in 6..bytes.len() {
            for flip in [1, 0x80, 0xff] {
                let mut changed = bytes.clone();
                changed[at] ^= flip;
                let _ = Metadata::parse(&changed, 6).and_then(|metadata| metadata.value());
            }
        }
    }
}
