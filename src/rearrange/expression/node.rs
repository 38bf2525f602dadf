//! The tree that an expression is, and the error if text or names make none.

use std::fmt;

use unicode_normalization::UnicodeNormalization;

use super::function::Function;
use super::literal::Literal;
use super::path::Path;
use super::pattern::TextPattern;
use crate::error::{Error, ErrorKind};
use crate::rearrange::Scalar;

/// The field whose numbers `.labels` names.
const LABEL: &str = "label";

/// A condition, parsed. Chains are lists, so the tree is no deeper than the text has parentheses.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Node {
    /// One of several, joined by "or".
    Any(Vec<Node>),
    /// All of several, joined by "and".
    All(Vec<Node>),
    Not(Box<Node>),
    Has(Path),
    Compare(Term, Comparison, Literal),
    In(Term, Vec<Literal>),
    Matches(Term, TextPattern),
}

/// What is compared: a value, or a number about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Term {
    pub(super) function: Option<Function>,
    pub(super) path: Path,
}

impl Term {
    fn is_label(&self) -> bool {
        self.function.is_none() && self.path.name == LABEL
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Comparison {
    Equal,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl Node {
    /// The paths that are compared, in the order of the text.
    pub(super) fn paths(&self) -> Vec<&Path> {
        let mut paths = Vec::new();
        self.add_paths(&mut paths);
        paths
    }

    fn add_paths<'n>(&'n self, paths: &mut Vec<&'n Path>) {
        match self {
            Node::Any(parts) | Node::All(parts) => {
                parts.iter().for_each(|part| part.add_paths(paths));
            }
            Node::Not(inner) => inner.add_paths(paths),
            Node::Has(_) => {}
            Node::Compare(term, ..) | Node::In(term, _) | Node::Matches(term, _) => {
                paths.push(&term.path);
            }
        }
    }

    pub(super) fn with_labels(self, names: &Names<'_>) -> Result<Node, ExpressionError> {
        let all = |parts: Vec<Node>| -> Result<Vec<Node>, ExpressionError> {
            parts.into_iter().map(|part| part.with_labels(names)).collect()
        };
        Ok(match self {
            Node::Any(parts) => Node::Any(all(parts)?),
            Node::All(parts) => Node::All(all(parts)?),
            Node::Not(inner) => Node::Not(Box::new(inner.with_labels(names)?)),
            Node::Compare(term, Comparison::Equal, Literal { scalar: Scalar::Text(text), .. })
                if term.is_label() =>
            {
                Node::In(term, names.named(text)?)
            }
            Node::In(term, others) if term.is_label() => {
                let mut all = Vec::new();
                for other in others {
                    match other.scalar {
                        Scalar::Text(text) => all.extend(names.named(text)?),
                        _ => all.push(other),
                    }
                }
                Node::In(term, all)
            }
            Node::Matches(term, pattern) if term.is_label() => {
                Node::In(term, names.matching(&pattern)?)
            }
            other => other,
        })
    }
}

/// The names of labels, by their numbers.
pub(super) struct Names<'a> {
    names: Vec<&'a str>,
    /// With accents as parts of their letters: `é` is one character, however it was typed.
    composed: Vec<String>,
}

impl<'a> Names<'a> {
    pub(super) fn new<S: AsRef<str>>(names: &'a [S]) -> Names<'a> {
        let names: Vec<&str> = names.iter().map(AsRef::as_ref).collect();
        let composed = names.iter().map(|name| name.nfc().collect()).collect();
        Names { names, composed }
    }

    fn numbers(&self, is_it: impl Fn(&str, &str) -> bool) -> Vec<Literal> {
        let both = self.names.iter().zip(&self.composed).enumerate();
        let found = both.filter(|(_, (name, composed))| is_it(name, composed));
        found.map(|(number, _)| Literal::new(Scalar::Whole(number as i128))).collect()
    }

    fn named(&self, text: String) -> Result<Vec<Literal>, ExpressionError> {
        let typed: String = text.nfc().collect();
        let mut found = self.numbers(|_, composed| composed == typed);
        if found.is_empty() {
            return Err(ExpressionError::new(format!("no label is named {text:?}")));
        }
        // Some datasets have the names in the field itself.
        let mut spellings = vec![text.nfd().collect(), typed, text];
        while let Some(spelling) = spellings.pop() {
            if !spellings.contains(&spelling) {
                found.push(Literal::new(Scalar::Text(spelling)));
            }
        }
        Ok(found)
    }

    fn matching(&self, pattern: &TextPattern) -> Result<Vec<Literal>, ExpressionError> {
        let typed = pattern.with_text(pattern.text.nfc().collect::<String>());
        let found = self.numbers(|name, composed| pattern.matches(name) || typed.matches(composed));
        match found.is_empty() {
            true => Err(ExpressionError::new(format!("no label matches {:?}", pattern.text))),
            false => Ok(found),
        }
    }
}

/// Why text is not an [`Expression`](super::Expression), or why an expression makes no sense for a dataset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExpressionError {
    message: String,
    position: Option<usize>,
}

impl ExpressionError {
    pub(super) fn new(message: impl Into<String>) -> ExpressionError {
        ExpressionError { message: message.into(), position: None }
    }

    pub(super) fn at(position: usize, message: impl Into<String>) -> ExpressionError {
        ExpressionError { message: message.into(), position: Some(position) }
    }

    /// The character that is wrong, counted from 1; none if the expression ends too early, or is
    /// wrong as a whole.
    pub fn position(&self) -> Option<usize> {
        self.position
    }
}

impl fmt::Display for ExpressionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for ExpressionError {}

impl From<ExpressionError> for Error {
    fn from(error: ExpressionError) -> Error {
        Error::new(ErrorKind::Invalid, error.to_string()).with_source(error)
    }
}
