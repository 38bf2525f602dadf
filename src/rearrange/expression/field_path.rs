//! [`FieldPath`]: a path alone, without a condition.

use std::borrow::Cow;

use super::parse::Parser;
use super::path::{Path, follow};
use crate::error::Result;
use crate::format::msgpack::Value;
use crate::reader::Reader;

/// Which value of a sample is meant, as a condition names it ([`Expression`](super::Expression)): `label`, `meta.author`,
/// `boxes[-1].x`. A field that has all of it as its name comes first, so any text is one.
///
/// ```
/// use kiste::reader::ListReader;
/// use kiste::rearrange::FieldPath;
/// use kiste::Value;
///
/// let meta = Value::Map(vec![("author".into(), "Ada".into())]);
/// let sample = Value::Map(vec![("key".into(), "a".into()), ("meta".into(), meta)]);
/// let reader = ListReader::pack([sample])?;
/// assert_eq!(FieldPath::new("meta.author").find(&reader, 0)?, Some("Ada".into()));
/// assert_eq!(FieldPath::new("meta.title").find(&reader, 0)?, None);
/// # Ok::<(), kiste::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldPath {
    text: String,
    path: Option<Path>,
}

impl FieldPath {
    /// The field or path of this text.
    pub fn new(text: impl Into<String>) -> FieldPath {
        let text = text.into();
        FieldPath { path: Parser::parse_path(&text).ok(), text }
    }

    /// The value in the sample of this index; `None` if it has no such value.
    ///
    /// # Errors
    ///
    /// The errors of the reader.
    pub fn find(&self, reader: &dyn Reader, index: usize) -> Result<Option<Value>> {
        if let Some(value) = reader.field(index, &self.text)? {
            return Ok(Some(value));
        }
        match &self.path {
            Some(Path { way: Some((field, steps)), .. }) => {
                let value = reader.field(index, field)?;
                Ok(value.and_then(|value| follow(&value, steps).map(Cow::into_owned)))
            }
            Some(Path { name, way: None }) if *name != self.text => reader.field(index, name),
            _ => Ok(None),
        }
    }
}
