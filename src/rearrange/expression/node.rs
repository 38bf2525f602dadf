//! The tree that an expression is, and the error if text or names make none.

use std::fmt;

use crate::error::{Error, ErrorKind};
use crate::reader::NamePattern;
use crate::rearrange::Scalar;

/// The field whose numbers `.labels` names.
const LABEL: &str = "label";

/// A condition, parsed.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Node {
    Or(Box<Node>, Box<Node>),
    And(Box<Node>, Box<Node>),
    Not(Box<Node>),
    Has(String),
    Compare(String, Comparison, Scalar),
    In(String, Vec<Scalar>),
    Matches(String, String),
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
    pub(super) fn fields(&self) -> Vec<&str> {
        match self {
            Node::Or(a, b) | Node::And(a, b) => [a.fields(), b.fields()].concat(),
            Node::Not(a) => a.fields(),
            Node::Has(_) => Vec::new(),
            Node::Compare(name, ..) | Node::In(name, _) | Node::Matches(name, _) => vec![name],
        }
    }

    pub(super) fn with_labels(self, names: &[&str]) -> Result<Node, ExpressionError> {
        let numbered = |is_it: &dyn Fn(&str) -> bool| -> Vec<Scalar> {
            let named = names.iter().enumerate().filter(|(_, name)| is_it(name));
            named.map(|(number, _)| Scalar::Whole(number as i128)).collect()
        };
        let label = |text: String| match numbered(&|name| name == text) {
            numbers if numbers.is_empty() => {
                Err(ExpressionError::new(format!("no label is named {text:?}")))
            }
            // Some datasets have the names in the field itself.
            numbers => Ok([numbers, vec![Scalar::Text(text)]].concat()),
        };
        let both = |a: Node, b: Node| {
            Ok::<_, ExpressionError>((
                Box::new(a.with_labels(names)?),
                Box::new(b.with_labels(names)?),
            ))
        };
        Ok(match self {
            Node::Or(a, b) => both(*a, *b).map(|(a, b)| Node::Or(a, b))?,
            Node::And(a, b) => both(*a, *b).map(|(a, b)| Node::And(a, b))?,
            Node::Not(a) => Node::Not(Box::new(a.with_labels(names)?)),
            Node::Compare(name, Comparison::Equal, Scalar::Text(text)) if name == LABEL => {
                Node::In(name, label(text)?)
            }
            Node::In(name, others) if name == LABEL => {
                let mut all = Vec::new();
                for other in others {
                    match other {
                        Scalar::Text(text) => all.extend(label(text)?),
                        other => all.push(other),
                    }
                }
                Node::In(name, all)
            }
            Node::Matches(name, pattern) if name == LABEL => {
                let parsed = NamePattern::new(&pattern);
                match numbered(&|name| parsed.matches(name)) {
                    none if none.is_empty() => {
                        let message = format!("no label matches {pattern:?}");
                        return Err(ExpressionError::new(message));
                    }
                    numbers => Node::In(name, numbers),
                }
            }
            other => other,
        })
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
