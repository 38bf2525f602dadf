//! What is wrong with a recipe, at a place that has no line yet.

use std::fmt::Write;

use super::RecipeError;
use crate::error::{Error, ErrorKind, shown_text};
use crate::text::{escaped, is_unprintable};

/// A step on the way to a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Part {
    Key(String),
    Item(usize),
}

impl From<&str> for Part {
    fn from(key: &str) -> Part {
        Part::Key(key.to_owned())
    }
}

impl From<usize> for Part {
    fn from(item: usize) -> Part {
        Part::Item(item)
    }
}

/// The way to a value from the top.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Place(pub(super) Vec<Part>);

impl Place {
    pub(super) fn of(keys: &[&str]) -> Place {
        Place(keys.iter().map(|key| Part::from(*key)).collect())
    }

    pub(super) fn to(&self, part: impl Into<Part>) -> Place {
        let mut parts = self.0.clone();
        parts.push(part.into());
        Place(parts)
    }

    /// `source.web.join[1].how`
    fn shown(&self) -> String {
        let mut shown = String::new();
        for part in &self.0 {
            let _ = match part {
                Part::Item(item) => write!(shown, "[{item}]"),
                Part::Key(name) if shown.is_empty() => write!(shown, "{}", key(name)),
                Part::Key(name) => write!(shown, ".{}", key(name)),
            };
        }
        shown_text(&shown).into_owned()
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Problem {
    pub(super) kind: ErrorKind,
    pub(super) place: Place,
    /// Whether the name at the place is wrong, rather than its value.
    pub(super) is_name: bool,
    pub(super) expected: String,
    pub(super) found: String,
}

pub(super) type Checked<T = ()> = Result<T, Problem>;

impl Problem {
    pub(super) fn new(
        place: &Place,
        expected: impl Into<String>,
        found: impl Into<String>,
    ) -> Problem {
        Problem {
            kind: ErrorKind::Invalid,
            place: place.clone(),
            is_name: false,
            expected: expected.into(),
            found: found.into(),
        }
    }

    /// The same, of the name at the place.
    pub(super) fn of_name(self) -> Problem {
        Problem { is_name: true, ..self }
    }

    pub(super) fn of_kind(self, kind: ErrorKind) -> Problem {
        Problem { kind, ..self }
    }

    /// The same, at this byte of the text.
    pub(super) fn at(self, text: &str, byte: usize) -> RecipeError {
        let before = text.get(..byte).unwrap_or(text);
        let line = before.rfind('\n').map_or(0, |at| at + 1);
        RecipeError {
            line: before.bytes().filter(|&byte| byte == b'\n').count() as u64 + 1,
            column: before[line..].chars().count() as u64 + 1,
            place: self.place.shown(),
            expected: self.expected,
            found: self.found,
            kind: self.kind,
        }
    }
}

impl From<Problem> for Error {
    fn from(problem: Problem) -> Error {
        let Problem { kind, place, expected, found, .. } = problem;
        let place = match place.shown() {
            place if place.is_empty() => "the recipe".to_owned(),
            place => place,
        };
        Error::new(kind, format!("{place}: expected {expected}, found {found}"))
    }
}

/// A text between quotes for a message: not too much of it, and of a URL nothing secret.
pub(super) fn quoted(text: &str) -> String {
    let shown = shown_text(text);
    let mut chars = shown.chars();
    let start: String = chars.by_ref().take(60).collect();
    let more = if chars.next().is_some() { "…" } else { "" };
    format!("\"{}{more}\"", escaped(&start))
}

/// A name as TOML spells it.
pub(super) fn key(name: &str) -> String {
    let is_bare = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    match !name.is_empty() && name.chars().all(is_bare) {
        true => name.to_owned(),
        false => string(name),
    }
}

/// A text as TOML spells it: between single quotes if that saves escapes.
pub(super) fn string(text: &str) -> String {
    let is_odd = |c: char| c.is_control() || is_unprintable(c);
    if text.contains(['"', '\\']) && !text.contains('\'') && !text.contains(is_odd) {
        return format!("'{text}'");
    }
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for c in text.chars() {
        let _ = match c {
            '"' | '\\' => write!(quoted, "\\{c}"),
            '\n' => write!(quoted, "\\n"),
            '\t' => write!(quoted, "\\t"),
            '\r' => write!(quoted, "\\r"),
            c if is_odd(c) => write!(quoted, "\\u{:04X}", u32::from(c)),
            c => write!(quoted, "{c}"),
        };
    }
    quoted.push('"');
    quoted
}
