#![doc = include_str!("FORMAT.md")]
//!
//! # The code
//!
//! [`Recipe::parse`] and [`Recipe::print`] are the text, [`KeptSelection`] is the other file. Nothing here opens
//! what a recipe names, and conditions are only texts.

use std::fmt;

use crate::error::{Error, ErrorKind};

mod model;
mod problem;
mod limits;
mod check;
mod parse;
mod print;
mod selection_file;
#[cfg(test)]
mod tests;

pub(crate) use limits::MAX_BYTES;
pub use model::{Base, Exhausted, How, JoinRule, MixtureRule, Output, Phase, Recipe, Source, Step};
pub use selection_file::{Indices, KeptSelection};

/// The version of the format of recipes that is read and written.
pub const VERSION: u64 = 1;

/// How the names of recipes end.
pub const SUFFIX: &str = ".kiste.toml";

/// A text that is no recipe: where, what was expected and what was found.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RecipeError {
    /// The line, from 1.
    pub line: u64,
    /// The character in the line, from 1.
    pub column: u64,
    /// The keys that lead to the place, as in `source.web.path`; empty for the whole text.
    pub place: String,
    /// What the format requires there.
    pub expected: String,
    /// What was found instead.
    pub found: String,
    kind: ErrorKind,
}

impl RecipeError {
    /// [`Unsupported`](ErrorKind::Unsupported) for a newer version of the format, [`Limit`](ErrorKind::Limit) for
    /// a text that is too large, otherwise [`Invalid`](ErrorKind::Invalid).
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }
}

impl fmt::Display for RecipeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}", self.line, self.column)?;
        if !self.place.is_empty() {
            write!(f, ", {}", self.place)?;
        }
        write!(f, ": expected {}, found {}", self.expected, self.found)
    }
}

impl std::error::Error for RecipeError {}

impl From<RecipeError> for Error {
    fn from(error: RecipeError) -> Error {
        Error::new(error.kind, error.to_string())
    }
}
