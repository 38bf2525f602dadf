//! [`Expression`]: conditions on the fields of samples, the small language of `kiste filter`.
//!
//! ```text
//! either    = both { "or" both }
//! both      = inverse { "and" inverse }
//! inverse   = "not" inverse | "(" either ")" | "has" FIELD | test
//! test      = FIELD ( "==" | "!=" | "<" | "<=" | ">" | ">=" ) VALUE
//!           | FIELD [ "not" ] "in" VALUE { "," VALUE }
//!           | FIELD ( "~" | "!~" ) PATTERN
//! ```
//!
//! A word without quotes has letters, digits and a few signs such as `-` and `/`. Any other sign in it is
//! an error: `[a,b]` would be read as `[a` and `b]`. Only patterns have signs of their own.
//!
//! `parse` makes a tree of text, `evaluate` asks the tree about one sample, and `choose` about all
//! samples of a reader.

use std::str::FromStr;

use self::evaluate::{Fields, holds};
use self::node::Node;
use self::parse::Parser;
use super::Scalar;
use crate::error::{Error, ErrorKind, Result};
use crate::format::msgpack::Value;

mod choose;
mod evaluate;
mod node;
mod parse;
#[cfg(test)]
mod tests;

pub use choose::{Chosen, Mismatch};
pub use node::ExpressionError;

/// A condition on the fields of a sample.
///
/// | condition | true if |
/// | --- | --- |
/// | `label == 3`, `label != 3` | the values are equal, or not; 3 and 3.0 are equal, `'3'` is text |
/// | `width < 100`, `<=`, `>`, `>=` | numbers are in this order, or text is, by code points |
/// | `label in 1,2,3`, `label not in 4` | the value is one of these, or none |
/// | `key ~ 'cat/*.png'`, `key !~ '*_x'` | text matches a [pattern](crate::reader::NamePattern), or does not |
/// | `has caption` | there is such a field |
///
/// `not`, `and`, `or` and parentheses combine conditions; `and` binds closer than `or`. Values are
/// numbers, `true`, `false`, `null` and text, which needs quotes only if it looks like a number or contains
/// spaces or signs other than `_-./:+@#%$`. A missing field is null, and NumPy scalars are numbers. Values
/// of different kinds are never equal and have no order; [`choose`](Self::choose) reports where that
/// was tried.
///
/// ```
/// use kiste::Value;
/// use kiste::rearrange::Expression;
///
/// let large: Expression = "width >= 100 and not label in cat,dog".parse()?;
/// let sample = |width: i64, label: &str| {
///     Value::Map(vec![("width".into(), width.into()), ("label".into(), label.into())])
/// };
/// assert!(large.matches(&sample(640, "emu"))?);
/// assert!(!large.matches(&sample(640, "cat"))?);
///
/// let error = "width = 100".parse::<Expression>().unwrap_err();
/// assert_eq!(error.position(), Some(7));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Expression(Node);

impl FromStr for Expression {
    type Err = ExpressionError;

    fn from_str(text: &str) -> Result<Expression, ExpressionError> {
        Expression::parse(text)
    }
}

impl Expression {
    /// Parses a condition.
    ///
    /// # Errors
    ///
    /// An error that says what was expected, what was found and at which character.
    pub fn parse(text: &str) -> Result<Expression, ExpressionError> {
        Parser::parse(text).map(Expression)
    }

    /// Whether it is true of a sample.
    ///
    /// # Errors
    ///
    /// [`Invalid`](ErrorKind::Invalid) for a field that is compared and is neither a number nor text
    /// nor true, false or null.
    pub fn matches(&self, sample: &Value) -> Result<bool> {
        struct Sample<'a>(&'a Value);
        impl Fields for Sample<'_> {
            fn field(&mut self, name: &str) -> Result<Option<Scalar>> {
                let entries = self.0.as_map().map(Vec::as_slice).unwrap_or_default();
                // Of two fields with one name the last counts, as in Python.
                let found = entries.iter().rev().find(|(own, _)| own.as_str() == Some(name));
                found.map(|(_, value)| scalar(name, value)).transpose()
            }

            fn has(&mut self, name: &str) -> Result<bool> {
                let entries = self.0.as_map().map(Vec::as_slice).unwrap_or_default();
                Ok(entries.iter().any(|(own, _)| own.as_str() == Some(name)))
            }
        }
        holds(&self.0, &mut Sample(sample))
    }

    /// Lets names of labels mean their numbers in the field `label`. The first name stands for
    /// number 0, as in [`read_labels`](crate::dataset::read_labels).
    ///
    /// ```
    /// use kiste::rearrange::Expression;
    ///
    /// let cats = Expression::parse("label == cat")?.with_labels(&["dog", "cat"])?;
    /// let sample = kiste::Value::Map(vec![("label".into(), 1.into())]);
    /// assert!(cats.matches(&sample)?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// An error for a name that no label has, and for a pattern that no name matches.
    pub fn with_labels<S: AsRef<str>>(self, names: &[S]) -> Result<Expression, ExpressionError> {
        let names: Vec<&str> = names.iter().map(AsRef::as_ref).collect();
        self.0.with_labels(&names).map(Expression)
    }

    /// The fields that are compared, in the order of the text, each as often as it comes.
    pub fn fields(&self) -> Vec<&str> {
        self.0.fields()
    }
}

/// The value of a field that is compared.
fn scalar(name: &str, value: &Value) -> Result<Scalar> {
    Scalar::of(value).ok_or_else(|| {
        let message =
            format!("field {name:?} is neither a number nor text nor true, false or null");
        Error::new(ErrorKind::Invalid, message)
    })
}
