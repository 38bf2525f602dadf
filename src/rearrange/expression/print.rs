//! A tree to text that makes the same tree.

use std::fmt;

use super::Expression;
use super::function::Function;
use super::literal::Literal;
use super::node::{Comparison, Node, Term};
use crate::rearrange::Scalar;

/// Text in quotes, unless it is a name that needs none.
pub(super) struct Quoted<'a> {
    text: &'a str,
    is_bare: bool,
}

impl<'a> Quoted<'a> {
    pub(super) fn text(text: &'a str) -> Quoted<'a> {
        Quoted { text, is_bare: false }
    }

    /// The name of a field. Words with a meaning get quotes, even where they could do without.
    pub(super) fn name(text: &'a str) -> Quoted<'a> {
        const WORDS: [&str; 8] = ["and", "or", "not", "in", "has", "is", "like", "ilike"];
        let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let is_word = WORDS.iter().any(|word| text.eq_ignore_ascii_case(word));
        let is_bare = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && text.chars().all(is_plain)
            && !is_word
            && Function::of_name(text).is_none();
        Quoted { text, is_bare }
    }
}

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_bare {
            return f.write_str(self.text);
        }
        let quote = if self.text.contains('\'') && !self.text.contains('"') { '"' } else { '\'' };
        let doubled = self.text.replace(quote, &String::from(quote).repeat(2));
        write!(f, "{quote}{doubled}{quote}")
    }
}

impl fmt::Display for Literal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.scalar {
            Scalar::Text(text) => Quoted::text(text).fmt(f),
            // Not as digits alone, which would be a whole number.
            Scalar::Float(number) => write!(f, "{number:e}"),
            other => other.fmt(f),
        }
    }
}

impl fmt::Display for Term {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.function {
            Some(function) => write!(f, "{}({})", function.name(), self.path),
            None => self.path.fmt(f),
        }
    }
}

impl Comparison {
    fn sign(self) -> &'static str {
        match self {
            Comparison::Equal => "==",
            Comparison::Less => "<",
            Comparison::LessOrEqual => "<=",
            Comparison::Greater => ">",
            Comparison::GreaterOrEqual => ">=",
        }
    }
}

/// Parts with a word between them. A part that binds no closer gets parentheses.
fn joined(f: &mut fmt::Formatter<'_>, parts: &[Node], word: &str) -> fmt::Result {
    for (index, part) in parts.iter().enumerate() {
        if index > 0 {
            write!(f, " {word} ")?;
        }
        let is_as_loose = match part {
            Node::Any(_) => true,
            Node::All(_) => word == "and",
            _ => false,
        };
        match is_as_loose {
            true => write!(f, "({part})")?,
            false => write!(f, "{part}")?,
        }
    }
    Ok(())
}

impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Node::Any(parts) => joined(f, parts, "or"),
            Node::All(parts) => joined(f, parts, "and"),
            Node::Not(inner) => match &**inner {
                Node::Any(_) | Node::All(_) => write!(f, "not ({inner})"),
                Node::Compare(term, Comparison::Equal, other) => write!(f, "{term} != {other}"),
                Node::In(term, others) => values(f, term, "not in", others),
                Node::Matches(term, pattern) => {
                    write!(f, "{term} {} {}", pattern.signs().1, Quoted::text(&pattern.text))
                }
                inner => write!(f, "not {inner}"),
            },
            Node::Has(path) => write!(f, "has {path}"),
            Node::Compare(term, how, other) => write!(f, "{term} {} {other}", how.sign()),
            Node::In(term, others) => values(f, term, "in", others),
            Node::Matches(term, pattern) => {
                write!(f, "{term} {} {}", pattern.signs().0, Quoted::text(&pattern.text))
            }
        }
    }
}

fn values(f: &mut fmt::Formatter<'_>, term: &Term, word: &str, others: &[Literal]) -> fmt::Result {
    write!(f, "{term} {word} (")?;
    for (index, other) in others.iter().enumerate() {
        write!(f, "{}{other}", if index > 0 { ", " } else { "" })?;
    }
    f.write_str(")")
}

impl fmt::Display for Expression {
    /// Text that [`parse`](Expression::parse) makes the same condition of.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
