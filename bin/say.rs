//! Lines on standard error.

use std::io::{self, IsTerminal, Write};

use kiste::text::{escaped, shown_text};

/// A line of text from a thread that does not run the command, in place of a bar that it may draw.
pub(crate) fn say_aside(line: &str) {
    let clear = if io::stderr().is_terminal() { "\r\u{1b}[K" } else { "" };
    say(&format!("{clear}{}", escaped(line)));
}

/// A line that needs no escapes. Secrets in URLs are left out.
pub(crate) fn say(line: &str) {
    // In one piece, so that lines of several processes do not mix.
    let _ = io::stderr().write_all(format!("{}\n", shown_text(line)).as_bytes());
}
