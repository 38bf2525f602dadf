//! Text for people, as the command and the reports print it: numbers with units, and values from
//! datasets without characters that a terminal or a browser takes for something else.
//!
//! Not part of the public interface: what it prints may change in any release.

use std::borrow::Cow;

pub use crate::error::shown_text;

pub mod braces;
pub mod units;

/// Whether a terminal takes this for something else than a character to show: control characters,
/// and those that turn the direction of what follows.
pub fn is_unprintable(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200e}'..='\u{200f}')
        || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// A value as it can be shown: `\n` for a newline, `\u{1b}` for an escape character. Characters that
/// Unicode keeps free are escaped too, as the command uses them for colours.
pub fn escaped(text: &str) -> Cow<'_, str> {
    let is_odd = |c: char| is_unprintable(c) || matches!(c, '\u{fdd0}'..='\u{fdef}');
    if !text.contains(is_odd) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match is_odd(c) {
            true => shown.extend(c.escape_default()),
            false => shown.push(c),
        }
    }
    Cow::Owned(shown)
}

/// As much of a text as this many columns of a terminal have room for, with `…` where it is cut.
#[cfg(feature = "stat")]
pub fn cut(text: &str, columns: usize) -> Cow<'_, str> {
    if width(text) <= columns {
        return Cow::Borrowed(text);
    }
    let mut short = String::new();
    for char in text.chars() {
        short.push(char);
        if width(&short) >= columns {
            short.pop();
            break;
        }
    }
    Cow::Owned(short + "…")
}

/// A value that may have several lines and tabs in it, as it can be shown.
pub fn escaped_lines(text: &str) -> String {
    let line = |line: &str| line.split('\t').map(escaped).collect::<Vec<_>>().join("\t");
    text.split('\n').map(line).collect::<Vec<_>>().join("\n")
}

/// JSON in which nothing is unprintable but the newlines between the lines: what else there is
/// stands in strings, where JSON has another spelling for it.
pub fn escaped_json(json: &str) -> Cow<'_, str> {
    let is_odd = |c: char| c != '\n' && is_unprintable(c);
    if !json.contains(is_odd) {
        return Cow::Borrowed(json);
    }
    // All of them are in the first plane, so one unit of UTF-16 is enough.
    let spelled = |c: char| if is_odd(c) { format!("\\u{:04x}", u32::from(c)) } else { c.into() };
    Cow::Owned(json.chars().map(spelled).collect())
}

/// How many columns of a terminal a text takes: two for each of most characters of Chinese, Japanese and Korean, and for
/// emoji.
#[cfg(feature = "stat")]
pub fn width(text: &str) -> usize {
    unicode_width::UnicodeWidthStr::width(text)
}

/// A text with spaces behind it up to this [`width`].
#[cfg(feature = "stat")]
pub fn padded(text: &str, columns: usize) -> String {
    format!("{text}{}", " ".repeat(columns.saturating_sub(width(text))))
}

/// A text with spaces in front of it up to this [`width`].
#[cfg(feature = "stat")]
pub fn right_aligned(text: &str, columns: usize) -> String {
    format!("{}{text}", " ".repeat(columns.saturating_sub(width(text))))
}

/// A shape as NumPy writes it: `()`, `(2,)`, `(2, 3)`.
pub fn shape(lens: &[usize]) -> String {
    match lens {
        [len] => format!("({len},)"),
        lens => {
            let lens: Vec<String> = lens.iter().map(usize::to_string).collect();
            format!("({})", lens.join(", "))
        }
    }
}

/// Lengths of axes: `100,200`, or `(100, 200)` as NumPy writes them; nothing for an array without axes.
pub fn parse_shape(text: &str) -> Result<Vec<usize>, String> {
    let text = text.trim();
    let inner = text.strip_prefix('(').and_then(|text| text.strip_suffix(')')).unwrap_or(text);
    let inner = inner.trim().trim_end_matches(',');
    if inner.is_empty() {
        return Ok(Vec::new());
    }
    let lens: Result<_, _> = inner.split(',').map(|len| len.trim().parse()).collect();
    lens.map_err(|_| format!("expected lengths such as 100,200, found {text:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_escaped_and_nothing_else() {
        let text = "a\u{1b}[31m\u{7}\r\n\t\u{7f}\u{9b}\u{202e}\u{200e}\u{61c}ä→\\";
        let shown = r"a\u{1b}[31m\u{7}\r\n\t\u{7f}\u{9b}\u{202e}\u{200e}\u{61c}ä→\";
        assert_eq!(escaped(text), shown);
        assert_eq!(escaped("\u{fdd0}"), r"\u{fdd0}");
        assert!(matches!(escaped("plain ä"), Cow::Borrowed(_)));
        assert_eq!(escaped_lines("a\tb\nc\u{1b}\n"), "a\tb\nc\\u{1b}\n");
    }

    #[test]
    #[cfg(feature = "stat")]
    fn wide_characters_take_two_columns() {
        for (text, columns) in
            [("", 0), ("cat", 3), ("猫", 2), ("ねこ", 4), ("고양이", 6), ("🐈", 2), ("e\u{301}", 1)]
        {
            assert_eq!(width(text), columns, "{text}");
            assert_eq!(width(&padded(text, 8)), 8, "{text}");
            assert_eq!(width(&right_aligned(text, 8)), 8, "{text}");
            assert_eq!(padded(text, 0), text);
        }
    }

    #[test]
    fn shapes_are_lengths() {
        assert_eq!(parse_shape("100, 200"), Ok(vec![100, 200]));
        assert_eq!(parse_shape("3,"), Ok(vec![3]));
        assert_eq!(parse_shape(""), Ok(vec![]));
        for text in ["3,-1", "a", "(3", "3)", "((3))", "3,,4"] {
            assert!(parse_shape(text).is_err(), "{text}");
        }
        for lens in [&[][..], &[3], &[3, 4]] {
            assert_eq!(parse_shape(&shape(lens)).as_deref(), Ok(lens));
        }
        assert_eq!([shape(&[]), shape(&[3]), shape(&[3, 4])], ["()", "(3,)", "(3, 4)"]);
    }

    #[test]
    fn json_for_a_terminal_is_the_same_json() {
        let json = serde_json::json!({"a\u{9b}\u{7f}": "\u{202e}\u{1b}"});
        let pretty = serde_json::to_string_pretty(&json).unwrap();
        let shown = escaped_json(&pretty);
        assert!(shown.chars().all(|c| c == '\n' || !is_unprintable(c)), "{shown}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&shown).unwrap(), json);
    }
}
