//! What a text may cost before it is parsed: a look at its bytes that allocates nothing.

use super::problem::{Place, Problem};
use crate::error::ErrorKind;

/// The bytes of a recipe.
pub(crate) const MAX_BYTES: usize = 16 << 20;
/// The names, values and signs of a recipe: the parser needs some 100 bytes for each.
pub(super) const MAX_TOKENS: usize = 1 << 20;
/// The brackets around a value.
const MAX_BRACKETS: usize = 40;
/// The names of a key with dots in it, and of a header.
const MAX_DOTS: usize = 16;

/// Fails, with the byte, if the text is larger or nested deeper than a recipe may be.
pub(super) fn check(text: &str) -> Result<(), (usize, Problem)> {
    let limit = |at: usize, expected: String, found: &str| {
        let problem = Problem::new(&Place::default(), expected, found);
        Err((at, problem.of_kind(ErrorKind::Limit)))
    };
    if text.len() > MAX_BYTES {
        let found = format!("{} bytes", text.len());
        return limit(0, format!("a recipe of at most {MAX_BYTES} bytes"), &found);
    }
    let bytes = text.as_bytes();
    let (mut at, mut tokens, mut brackets, mut dots) = (0, 0, 0_usize, 0);
    while let Some(&byte) = bytes.get(at) {
        let start = at;
        at += 1;
        match byte {
            b'#' => at = line_end(bytes, at),
            b'"' | b'\'' => at = string_end(bytes, start),
            b' ' | b'\t' => at = run_end(bytes, at, |byte| matches!(byte, b' ' | b'\t')),
            b'[' | b'{' => (brackets, dots) = (brackets + 1, 0),
            b']' | b'}' => (brackets, dots) = (brackets.saturating_sub(1), 0),
            b'.' => dots += 1,
            b'\n' | b'=' | b',' => dots = 0,
            _ if is_plain(byte) => at = run_end(bytes, at, is_plain),
            _ => {}
        }
        tokens += 1;
        if brackets > MAX_BRACKETS {
            return limit(start, format!("at most {MAX_BRACKETS} brackets around a value"), "more");
        }
        if dots >= MAX_DOTS {
            return limit(start, format!("at most {MAX_DOTS} names in a key"), "more");
        }
        if tokens > MAX_TOKENS {
            let expected = format!("at most {MAX_TOKENS} names, values and signs");
            return limit(start, expected, "more");
        }
    }
    Ok(())
}

fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'+' | b':')
}

fn run_end(bytes: &[u8], at: usize, is_in: impl Fn(u8) -> bool) -> usize {
    bytes[at..].iter().position(|&byte| !is_in(byte)).map_or(bytes.len(), |len| at + len)
}

fn line_end(bytes: &[u8], at: usize) -> usize {
    run_end(bytes, at, |byte| byte != b'\n')
}

/// Where the text ends whose first quote is here. One that has no end takes the line, or all the rest.
fn string_end(bytes: &[u8], start: usize) -> usize {
    let quote = bytes[start];
    let has_escapes = quote == b'"';
    let is_long = bytes[start..].starts_with(&[quote; 3]);
    let mut at = start + if is_long { 3 } else { 1 };
    while let Some(&byte) = bytes.get(at) {
        at += 1;
        match byte {
            b'\\' if has_escapes && (is_long || bytes.get(at) != Some(&b'\n')) => at += 1,
            b'\n' if !is_long => return at - 1,
            _ if byte == quote && !is_long => return at,
            _ if byte == quote && bytes[at - 1..].starts_with(&[quote; 3]) => {
                // One or two more belong to the text.
                let quotes = run_end(bytes, at, |byte| byte == quote) - at;
                return at + quotes.min(4);
            }
            _ => {}
        }
    }
    bytes.len()
}
