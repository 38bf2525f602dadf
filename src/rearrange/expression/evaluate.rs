//! Whether an expression is true of a sample.

use std::borrow::Cow;
use std::cmp::Ordering;

use super::function::Found;
use super::literal::Literal;
use super::node::{Comparison, Node, Term};
use super::path::{Path, follow};
use crate::error::{Error, ErrorKind, Result};
use crate::format::msgpack::Value;
use crate::rearrange::Scalar;

/// One sample. What it is asked for has the names in an expression, which outlives it.
pub(super) trait Sample<'e> {
    /// The value of a field; `None` for one that is missing.
    fn field(&mut self, name: &'e str) -> Result<Option<&Value>>;

    /// Whether there is a value at a path that is compared.
    fn note(&mut self, path: &'e Path, is_there: bool) {
        let _ = (path, is_there);
    }

    /// A value was compared with one of another kind.
    fn mismatch(&mut self, mismatch: Other<'_>) {
        let _ = mismatch;
    }

    /// An error about a value, with the place of the sample.
    fn blamed(&self, error: Error) -> Error {
        error
    }
}

/// A value of another kind than what it was compared with.
pub(super) struct Other<'a> {
    pub(super) term: &'a Term,
    pub(super) found: &'a Scalar,
    pub(super) expected: &'a Literal,
}

pub(super) fn holds<'e>(node: &'e Node, sample: &mut dyn Sample<'e>) -> Result<bool> {
    Ok(match node {
        Node::Any(parts) => {
            for part in parts {
                if holds(part, sample)? {
                    return Ok(true);
                }
            }
            false
        }
        Node::All(parts) => {
            for part in parts {
                if !holds(part, sample)? {
                    return Ok(false);
                }
            }
            true
        }
        Node::Not(inner) => !holds(inner, sample)?,
        Node::Has(path) => find(path, sample)?.is_some(),
        Node::Compare(term, how, other) => {
            let value = scalar(term, sample)?;
            if !other.is_alike(&value) {
                sample.mismatch(Other { term, found: &value, expected: other });
            }
            match how {
                Comparison::Equal => other.is_equal(&value),
                how => other.order(&value).is_some_and(|order| how.holds(order)),
            }
        }
        Node::In(term, others) => {
            let value = scalar(term, sample)?;
            if let Some(expected) = others.first() {
                if !others.iter().any(|other| other.is_alike(&value)) {
                    sample.mismatch(Other { term, found: &value, expected });
                }
            }
            others.iter().any(|other| other.is_equal(&value))
        }
        Node::Matches(term, pattern) => match scalar(term, sample)? {
            Scalar::Text(text) => pattern.matches(&text),
            Scalar::Nothing => false,
            value => {
                // A pattern is text, also where it reads like a time.
                let expected = &Literal::text(&pattern.text);
                sample.mismatch(Other { term, found: &value, expected });
                false
            }
        },
    })
}

impl Comparison {
    fn holds(self, order: Ordering) -> bool {
        match self {
            Comparison::Equal => order.is_eq(),
            Comparison::Less => order.is_lt(),
            Comparison::LessOrEqual => order.is_le(),
            Comparison::Greater => order.is_gt(),
            Comparison::GreaterOrEqual => order.is_ge(),
        }
    }
}

/// The value at a path: of the field that has all of it as its name, or else of one in another.
pub(super) fn find<'s, 'e>(
    path: &'e Path,
    sample: &'s mut dyn Sample<'e>,
) -> Result<Option<Cow<'s, Value>>> {
    let Some((field, steps)) = &path.way else {
        return Ok(sample.field(&path.name)?.map(Cow::Borrowed));
    };
    if sample.field(&path.name)?.is_some() {
        return Ok(sample.field(&path.name)?.map(Cow::Borrowed));
    }
    Ok(sample.field(field)?.and_then(|value| follow(value, steps)))
}

/// What is compared; nothing for what is missing.
fn scalar<'e>(term: &'e Term, sample: &mut dyn Sample<'e>) -> Result<Scalar> {
    let value = find(&term.path, sample)?;
    let is_there = value.is_some();
    let made = match (value, term.function) {
        (None, _) => Ok(Scalar::Nothing),
        (Some(value), Some(function)) => function.of(&term.path, &value),
        (Some(value), None) => Scalar::of(&value).ok_or_else(|| {
            let (name, found) = (&term.path.name, Found(&value));
            let message = format!(
                "field {name:?} is neither a number nor text nor a time nor true, false or null, \
                 but {found}"
            );
            Error::new(ErrorKind::Invalid, message)
        }),
    };
    sample.note(&term.path, is_there);
    made.map_err(|error| sample.blamed(error))
}
