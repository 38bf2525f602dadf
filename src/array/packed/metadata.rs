//! Metadata of a container as text: validated as JSON, and written as Python does, without spaces and in
//! ASCII.
//!
//! The text is not parsed into values: order and spelling, of large numbers too, stay as they are.

use std::fmt::Write;
use std::path::Path;

use serde::de::IgnoredAny;

use crate::error::{Error, ErrorKind, Result};

/// The metadata for a container that a file of JSON holds: without spaces between values, and in ASCII.
/// `null` is no metadata, as in Python.
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("about.json");
/// std::fs::write(&path, "{ \"unit\": \"µm\" }")?;
/// let text = kiste::array::read_metadata(&path)?;
/// assert_eq!(text.as_deref(), Some(r#"{"unit":"\u00b5m"}"#));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// [`Invalid`](ErrorKind::Invalid) if it is no JSON, and the errors of the system.
pub fn read_metadata(path: impl AsRef<Path>) -> Result<Option<String>> {
    let path = path.as_ref();
    let bytes = std::fs::read(path).map_err(|error| Error::io(path, error))?;
    let invalid = |found: String| {
        Error::new(ErrorKind::Invalid, format!("expected metadata in JSON{found}")).at(path)
    };
    // Python ignores a byte order mark too.
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&bytes);
    let text = std::str::from_utf8(bytes).map_err(|_| invalid(", found no text".to_owned()))?;
    serde_json::from_str::<IgnoredAny>(text).map_err(|error| invalid(format!(": {error}")))?;
    Ok(Some(minified(text)).filter(|text| text != "null"))
}

/// The same JSON without spaces between values, and with `\u` escapes for everything that is not
/// ASCII.
fn minified(text: &str) -> String {
    let (mut out, mut in_string, mut escaped) = (String::with_capacity(text.len()), false, false);
    for c in text.chars() {
        match c {
            ' ' | '\t' | '\n' | '\r' if !in_string => continue,
            '"' if !escaped => in_string = !in_string,
            _ => {}
        }
        escaped = c == '\\' && !escaped;
        match c.is_ascii() {
            true => out.push(c),
            false => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    // A String takes everything.
                    let _ = write!(out, "\\u{unit:04x}");
                }
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_spaces_go() {
        let text = "{ \"b \\\" c\" : [ 1,\n2 ],\t\"a\": \"\\\\\" , \"\u{fc}\": \"\u{1f600}\" }";
        let expected = r#"{"b \" c":[1,2],"a":"\\","\u00fc":"\ud83d\ude00"}"#;
        assert_eq!(minified(text), expected);
        let values = |text| serde_json::from_str::<serde_json::Value>(text).unwrap();
        assert_eq!(values(text), values(expected));
        assert_eq!(minified("18446744073709551616 "), "18446744073709551616");
    }
}
