//! [`Function`]: numbers that are not in a field but about it.

use std::fmt;

use super::path::Path;
use crate::error::{Error, ErrorKind, Result};
use crate::format::msgpack::Value;
use crate::format::msgpack::numpy::{Special, container_array, is_container, recognise};
#[cfg(feature = "stat")]
use crate::format::picture;
use crate::rearrange::Scalar;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Function {
    /// Characters of text, bytes, items of a list, entries of a map, length of the first axis.
    Len,
    /// Columns of an image, as they are stored.
    Width,
    /// Rows of an image, as they are stored.
    Height,
}

impl Function {
    pub(super) const ALL: [Function; 3] = [Function::Len, Function::Width, Function::Height];

    pub(super) fn name(self) -> &'static str {
        match self {
            Function::Len => "len",
            Function::Width => "width",
            Function::Height => "height",
        }
    }

    pub(super) fn of_name(name: &str) -> Option<Function> {
        Function::ALL.into_iter().find(|function| function.name() == name)
    }

    /// Its result for the value of a field; nothing for nothing.
    pub(super) fn of(self, path: &Path, value: &Value) -> Result<Scalar> {
        if value.is_nil() {
            return Ok(Scalar::Nothing);
        }
        let number = match self {
            Function::Len => len(value),
            Function::Width => size(value)?.map(|(width, _)| width),
            Function::Height => size(value)?.map(|(_, height)| height),
        };
        number.map(|number| Scalar::Whole(number as i128)).ok_or_else(|| {
            let (what, expected) = match self {
                Function::Len => ("length", "text, bytes, a list, a map or an array"),
                Function::Width => ("width", IMAGE),
                Function::Height => ("height", IMAGE),
            };
            let found = Found(value);
            let message =
                format!("field {:?} has no {what}: expected {expected}, found {found}", path.name);
            Error::new(ErrorKind::Invalid, message)
        })
    }
}

const IMAGE: &str = "an image or an array of shape (height, width) or (height, width, channels)";

fn len(value: &Value) -> Option<usize> {
    match (shape(value), value) {
        (Some(shape), _) => shape.first().copied(),
        (None, Value::String(text)) => text.as_str().map(|text| text.chars().count()),
        (None, Value::Binary(bytes)) => Some(bytes.len()),
        (None, Value::Array(items)) => Some(items.len()),
        (None, Value::Map(entries)) if recognise(value).is_none() => Some(entries.len()),
        _ => None,
    }
}

/// Width and height.
fn size(value: &Value) -> Result<Option<(usize, usize)>> {
    Ok(match (shape(value).as_deref(), value) {
        (Some([height, width] | [height, width, _]), _) => Some((*width, *height)),
        (None, Value::Binary(bytes)) => encoded_size(bytes)?,
        _ => None,
    })
}

#[cfg(feature = "stat")]
fn encoded_size(bytes: &[u8]) -> Result<Option<(usize, usize)>> {
    Ok(picture::size(bytes))
}

#[cfg(not(feature = "stat"))]
fn encoded_size(_: &[u8]) -> Result<Option<(usize, usize)>> {
    let message = "the size of an encoded image needs the feature \"stat\", which is off";
    Err(Error::new(ErrorKind::Unsupported, message))
}

/// The shape of an array, in either form.
fn shape(value: &Value) -> Option<Vec<usize>> {
    match value {
        Value::Binary(bytes) if is_container(bytes) => {
            container_array(bytes).ok().flatten().map(|array| array.shape)
        }
        Value::Map(_) => match recognise(value)? {
            Special::Array(array) => Some(array.shape().to_vec()),
            _ => None,
        },
        _ => None,
    }
}

/// What a value is, for messages.
pub(super) struct Found<'a>(pub(super) &'a Value);

impl fmt::Display for Found<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(shape) = shape(self.0) {
            return write!(f, "an array of shape {shape:?}");
        }
        if let Some(kind) = Scalar::of(self.0).and_then(|scalar| scalar.kind()) {
            return kind.fmt(f);
        }
        f.write_str(match self.0 {
            Value::Binary(_) => "bytes",
            Value::Array(_) => "a list",
            Value::Map(_) if recognise(self.0).is_none() => "a map",
            _ => "another value",
        })
    }
}
