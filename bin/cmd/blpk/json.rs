//! Metadata as text: validated as JSON, and written as Python does, without spaces and in ASCII.
//!
//! The text is not parsed into values: order and spelling, of large numbers too, stay as they are.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use serde::de::IgnoredAny;

use crate::exit::{Failure, Outcome};

/// The metadata in a file. `null` is no metadata, as in Python.
pub(super) fn read(path: &Path) -> Outcome<Option<String>> {
    let bytes = fs::read(path).map_err(|error| Failure::io(path, error))?;
    let fail = |error: serde_json::Error| {
        Failure::trouble(format_args!("{}: expected metadata in JSON: {error}", path.display()))
    };
    // Python ignores a byte order mark too.
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&bytes);
    let text: &str = match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(_) => {
            let message = format!("{}: expected metadata in JSON, found no text", path.display());
            return Err(Failure::trouble(message));
        }
    };
    serde_json::from_str::<IgnoredAny>(text).map_err(fail)?;
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
