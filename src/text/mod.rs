//! Text for people, as the command and the reports print it: numbers with units, and values from
//! datasets without characters that a terminal or a browser takes for something else.
//!
//! Not part of the public interface: what it prints may change in any release.

use std::borrow::Cow;

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
    }
}
