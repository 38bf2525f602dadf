//! Values of a dataset in a page.

use std::fmt::Display;

use crate::text::escaped;

/// Text from a dataset in a page: nothing of it is markup, and no character of it is invisible or
/// changes the direction of others.
pub(super) fn escape(text: impl Display) -> String {
    let text = text.to_string();
    let text = escaped(&text);
    let mut html = String::with_capacity(text.len());
    for char in text.chars() {
        match char {
            '&' => html += "&amp;",
            '<' => html += "&lt;",
            '>' => html += "&gt;",
            '"' => html += "&quot;",
            '\'' => html += "&#39;",
            char => html.push(char),
        }
    }
    html
}

/// The same of a name that may be long: it breaks behind slashes and the like before it breaks anywhere else.
pub(super) fn breakable(text: &str) -> String {
    let mut html = String::new();
    for part in text.split_inclusive(['/', '_', '-', '|', ':']) {
        html += &escape(part);
        if part.ends_with(['/', '_', '-', '|', ':']) {
            html += "<wbr>";
        }
    }
    html
}
