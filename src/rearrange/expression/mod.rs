//! [`Expression`]: conditions on the fields of samples, the small language of `kiste filter`.
//!
//! ```text
//! either    = both { ( "or" | "||" ) both }
//! both      = inverse { ( "and" | "&&" ) inverse }
//! inverse   = ( "not" | "!" ) inverse | "(" either ")" | "has" path | test
//! test      = term ( "==" | "=" | "!=" | "<>" | "<" | "<=" | ">" | ">=" ) VALUE
//!           | term "is" [ "not" ] "null"
//!           | term [ "not" ] "in" list
//!           | term ( "~" | "!~" | "~*" | "!~*" | [ "not" ] ( "like" | "ilike" ) ) PATTERN
//! list      = "(" [ values ] ")" | "[" [ values ] "]" | "{" [ values ] "}" | values
//! values    = VALUE { "," VALUE }
//! term      = path | ( "len" | "width" | "height" ) "(" path ")"
//! path      = QUOTED | NAME { "." NAME | "[" NUMBER "]" }
//! ```
//!
//! A word without quotes has letters, digits and a few signs such as `-` and `/`. Any other sign in it is
//! an error, as it could be meant for something else. Only patterns have signs of their own.
//!
//! `token` cuts text, `parse` makes a tree of it, `print` makes text of the tree, `evaluate` asks the tree
//! about one sample, and `choose` about all samples of a reader. `length` is a number of each sample, which is
//! written like a term. `field_path` is a path alone. In the tree, `path` is which value is meant,
//! `function` a number about it, and `literal` and `pattern` what it is compared with.

use std::str::FromStr;

use self::evaluate::{Sample, holds};
use self::node::{Names, Node};
use self::parse::Parser;
use self::path::entry;
use crate::error::Result;
use crate::format::msgpack::Value;

mod choose;
mod evaluate;
mod field_path;
mod function;
mod length;
mod literal;
mod node;
mod parse;
mod path;
mod pattern;
mod print;
mod token;
#[cfg(test)]
mod tests;

pub use choose::{Chosen, Mismatch};
pub use field_path::FieldPath;
pub use length::LengthOf;
pub use node::ExpressionError;

/// A condition on the fields of a sample.
///
/// | condition | true if |
/// | --- | --- |
/// | `label == 3`, `label != 3` | the values are equal, or not; 3 and 3.0 are equal, `'3'` is text |
/// | `width < 100`, `<=`, `>`, `>=` | numbers are in this order, or times, or text by code points |
/// | `label in (1, 2)`, `label not in 4, 5` | the value is one of these, or none |
/// | `key ~ 'cat/*.png'`, `key !~ '*_x'` | text matches a [pattern](crate::reader::NamePattern), or does not; `~*` and `!~*` ignore case |
/// | `key like 'cat/%'`, `key not ilike '%_X'` | the same with the patterns of SQL; `ilike` ignores case |
/// | `has caption`, `caption is null` | there is such a field; there is none, or it is null |
///
/// `not`, `and`, `or` and parentheses combine conditions; `and` binds closer than `or`. `!`, `&&`, `||`, `=`,
/// `<>` and keywords in capitals mean what they mean elsewhere. Values are numbers, `true`, `false`, `null`
/// and text, which needs quotes only if it looks like a number or contains spaces or signs other than
/// `_-./:+@#%$`. A missing field is null, and NumPy scalars are numbers.
///
/// `meta.author` and `boxes[-1].x` are values in a field, unless a field has just this name; in quotes it is
/// a name in any case. `len(caption)`, `width(image)` and `height(image)` are numbers: of characters, bytes
/// or entries, and the stored size of an image or an array.
///
/// A timestamp of msgpack, a `datetime64` and text such as `2024-05-01` or `2024-05-01T12:00:00+02:00` are
/// times, and two of them are compared as such. Without a zone they are in UTC.
///
/// Values of different kinds are never equal and have no order; [`choose`](Self::choose) reports where that
/// was tried. Printed, an expression is text that makes the same one.
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
/// let long: Expression = "len(caption) > 80 && taken >= 2024-05-01".parse()?;
/// assert_eq!(long.to_string(), "len(caption) > 80 and taken >= '2024-05-01'");
///
/// let error = "width == > 100".parse::<Expression>().unwrap_err();
/// assert_eq!(error.position(), Some(10));
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
    /// [`Invalid`](crate::ErrorKind::Invalid) for a field that is compared and is neither a number nor text
    /// nor a time nor true, false or null, and for one without the length, width or height that is asked for.
    pub fn matches(&self, sample: &Value) -> Result<bool> {
        struct Fields<'a>(&'a [(Value, Value)]);
        impl Sample<'_> for Fields<'_> {
            fn field(&mut self, name: &str) -> Result<Option<&Value>> {
                Ok(entry(self.0, name))
            }
        }
        let fields = sample.as_map().map(Vec::as_slice).unwrap_or_default();
        holds(&self.0, &mut Fields(fields))
    }

    /// Lets names of labels mean their numbers in the field `label`. The first name stands for
    /// number 0, as in [`read_labels`](crate::dataset::read_labels). Accents may be characters of their own in
    /// either (NFD) or not (NFC).
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
        self.0.with_labels(&Names::new(names)).map(Expression)
    }

    /// The fields that are compared, in the order of the text, each as often as it comes: also paths such as
    /// `meta.author`.
    pub fn fields(&self) -> Vec<&str> {
        self.0.paths().into_iter().map(|path| path.name.as_str()).collect()
    }
}
