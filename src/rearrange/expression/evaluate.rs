//! Whether an expression is true of a sample.

use super::node::{Comparison, Node};
use crate::error::Result;
use crate::reader::NamePattern;
use crate::rearrange::Scalar;

/// The fields of one sample.
pub(super) trait Fields {
    /// The value of a field; `None` for one that is missing.
    fn field(&mut self, name: &str) -> Result<Option<Scalar>>;

    /// Whether there is a field, of any kind.
    fn has(&mut self, name: &str) -> Result<bool>;

    /// The value of a field was compared with one of another kind.
    fn mismatch(&mut self, name: &str, found: &Scalar, expected: &Scalar) {
        let _ = (name, found, expected);
    }
}

pub(super) fn holds(node: &Node, fields: &mut dyn Fields) -> Result<bool> {
    Ok(match node {
        Node::Or(a, b) => holds(a, fields)? || holds(b, fields)?,
        Node::And(a, b) => holds(a, fields)? && holds(b, fields)?,
        Node::Not(a) => !holds(a, fields)?,
        Node::Has(name) => fields.has(name)?,
        Node::Compare(name, how, other) => {
            let value = fields.field(name)?.unwrap_or(Scalar::Nothing);
            if !is_alike(&value, other) {
                fields.mismatch(name, &value, other);
            }
            how.holds(&value, other)
        }
        Node::In(name, others) => {
            let value = fields.field(name)?.unwrap_or(Scalar::Nothing);
            if let Some(other) = others.first() {
                if !others.iter().any(|other| is_alike(&value, other)) {
                    fields.mismatch(name, &value, other);
                }
            }
            others.contains(&value)
        }
        Node::Matches(name, pattern) => match fields.field(name)? {
            Some(Scalar::Text(text)) => NamePattern::new(pattern).matches(&text),
            None | Some(Scalar::Nothing) => false,
            Some(value) => {
                fields.mismatch(name, &value, &Scalar::Text(pattern.clone()));
                false
            }
        },
    })
}

/// Null is of the kind of everything.
fn is_alike(a: &Scalar, b: &Scalar) -> bool {
    a.kind().zip(b.kind()).is_none_or(|(a, b)| a == b)
}

impl Comparison {
    fn holds(self, a: &Scalar, b: &Scalar) -> bool {
        let number = |s: &Scalar| matches!(s, Scalar::Whole(_) | Scalar::Float(_));
        let text = |s: &Scalar| matches!(s, Scalar::Text(_));
        let nan = |s: &Scalar| matches!(s, Scalar::Float(number) if number.is_nan());
        let ordered = (number(a) && number(b) && !nan(a) && !nan(b)) || (text(a) && text(b));
        match self {
            Comparison::Equal => a == b,
            Comparison::Less => ordered && a < b,
            Comparison::LessOrEqual => ordered && a <= b,
            Comparison::Greater => ordered && a > b,
            Comparison::GreaterOrEqual => ordered && a >= b,
        }
    }
}
