//! Text as it can be shown on a terminal: control characters escaped, and colours that no value can
//! forge.

use std::borrow::Cow;
use std::fmt::Display;

use kiste::text::is_unprintable;

/// Text on its way to the screen: unprintable characters escaped, and [`paint`] made colour.
pub(crate) fn printable(text: &str, colour: bool) -> Cow<'_, str> {
    if !text.contains(|c| is_unprintable(c) || Paint::of(c).is_some() || c == PLAIN) {
        return Cow::Borrowed(text);
    }
    let (mut shown, mut painted) = (String::with_capacity(text.len() + 16), false);
    for c in text.chars() {
        match Paint::of(c) {
            Some(paint) if colour => {
                shown += paint.code();
                painted = true;
            }
            None if colour && c == PLAIN => {
                shown += RESET;
                painted = false;
            }
            None if !is_unprintable(c) && c != PLAIN => shown.push(c),
            _ => shown.extend(c.escape_default()),
        }
    }
    // A value with the character of a colour in it colours nothing but its line.
    if painted {
        shown += RESET;
    }
    Cow::Owned(shown)
}

/// How text stands out. On its way to [`printable`] it is a character that Unicode keeps free for
/// uses such as this one, so that the codes of a terminal in a value are never taken for ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Paint {
    Bold,
    Dim,
    Red,
    Green,
    Yellow,
    Cyan,
}

/// Ends what [`Paint`] began.
const PLAIN: char = '\u{fdd6}';
const RESET: &str = "\u{1b}[0m";

impl Paint {
    const ALL: [(char, Paint); 6] = [
        ('\u{fdd0}', Paint::Bold),
        ('\u{fdd1}', Paint::Dim),
        ('\u{fdd2}', Paint::Red),
        ('\u{fdd3}', Paint::Green),
        ('\u{fdd4}', Paint::Yellow),
        ('\u{fdd5}', Paint::Cyan),
    ];

    fn of(c: char) -> Option<Paint> {
        Paint::ALL.iter().find(|(own, _)| *own == c).map(|(_, paint)| *paint)
    }

    fn char(self) -> char {
        Paint::ALL[self as usize].0
    }

    fn code(self) -> &'static str {
        match self {
            Paint::Bold => "\u{1b}[1m",
            Paint::Dim => "\u{1b}[2m",
            Paint::Red => "\u{1b}[1m\u{1b}[31m",
            Paint::Green => "\u{1b}[1m\u{1b}[32m",
            Paint::Yellow => "\u{1b}[1m\u{1b}[33m",
            Paint::Cyan => "\u{1b}[1m\u{1b}[36m",
        }
    }
}

pub(crate) fn paint(colour: bool, paint: Paint, text: impl Display) -> String {
    match colour {
        true => format!("{}{text}{PLAIN}", paint.char()),
        false => text.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_escaped_and_nothing_else() {
        let text = "a\u{1b}[31m\u{7}\r\n\t\u{7f}\u{9b}\u{202e}\u{200e}\u{61c}ä→\\";
        let shown = r"a\u{1b}[31m\u{7}\r\n\t\u{7f}\u{9b}\u{202e}\u{200e}\u{61c}ä→\";
        assert_eq!(printable(text, true), shown);
    }

    #[test]
    fn colours_come_from_the_command_alone() {
        let red = paint(true, Paint::Red, "a\u{1b}[0m");
        assert_eq!(printable(&red, true), "\u{1b}[1m\u{1b}[31ma\\u{1b}[0m\u{1b}[0m");
        assert_eq!(printable(&paint(false, Paint::Red, "a"), false), "a");
        // A value that looks like ours is escaped without colours, and ends with its line.
        assert_eq!(printable("\u{fdd0}a", false), "\\u{fdd0}a");
        assert_eq!(printable("\u{fdd0}a", true), "\u{1b}[1ma\u{1b}[0m");
        for (at, (c, paint)) in Paint::ALL.into_iter().enumerate() {
            assert_eq!((paint as usize, paint.char()), (at, c));
        }
    }
}
