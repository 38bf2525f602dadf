//! [`TextPattern`]: what the text of a field is compared with by `~`, `~*`, `like` and `ilike`.

use crate::reader::NamePattern;

/// A pattern, ready to be asked.
#[derive(Debug, Clone)]
pub(super) struct TextPattern {
    pub(super) text: String,
    pub(super) style: Style,
    pub(super) ignores_case: bool,
    parsed: NamePattern,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Style {
    /// `*`, `?` and `[a-z]`.
    Glob,
    /// `%` and `_`, as in SQL.
    Like,
}

impl TextPattern {
    pub(super) fn new(text: impl Into<String>, style: Style, ignores_case: bool) -> TextPattern {
        let text = text.into();
        let parsed = match style {
            Style::Glob => NamePattern::new(&text),
            Style::Like => NamePattern::like(&text),
        };
        let parsed = if ignores_case { parsed.ignoring_case() } else { parsed };
        TextPattern { text, style, ignores_case, parsed }
    }

    pub(super) fn matches(&self, text: &str) -> bool {
        self.parsed.matches(text)
    }

    /// The same for another text.
    pub(super) fn with_text(&self, text: impl Into<String>) -> TextPattern {
        TextPattern::new(text, self.style, self.ignores_case)
    }

    /// Its sign or word, and the one for "does not match".
    pub(super) fn signs(&self) -> (&'static str, &'static str) {
        match (self.style, self.ignores_case) {
            (Style::Glob, false) => ("~", "!~"),
            (Style::Glob, true) => ("~*", "!~*"),
            (Style::Like, false) => ("like", "not like"),
            (Style::Like, true) => ("ilike", "not ilike"),
        }
    }
}

impl PartialEq for TextPattern {
    fn eq(&self, other: &TextPattern) -> bool {
        (&self.text, self.style, self.ignores_case)
            == (&other.text, other.style, other.ignores_case)
    }
}
