//! [`Path`]: which value of a sample is meant, such as `meta.author` or `boxes[-1]`.

use std::borrow::Cow;
use std::fmt;

use super::print::Quoted;
use crate::format::msgpack::Value;
use crate::format::msgpack::numpy::{Special, is_container, recognise, unpack};
use crate::value::NdArray;

/// A field, or a value in it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Path {
    /// All of it: the name of a field that has it literally.
    pub(super) name: String,
    /// The field, and the way to the value in it. None if it can only be a name.
    pub(super) way: Option<(String, Vec<Step>)>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Step {
    /// An entry of a map.
    Name(String),
    /// An item of a list or along the first axis of an array; from the end if it is negative.
    Index(i64),
}

/// Names between dots; none if one is empty.
pub(super) fn names(word: &str) -> Option<Vec<Step>> {
    let names = word.split('.').map(|name| (!name.is_empty()).then(|| Step::Name(name.to_owned())));
    names.collect()
}

impl Path {
    /// A field of this name.
    pub(super) fn literal(name: impl Into<String>) -> Path {
        Path { name: name.into(), way: None }
    }

    /// A path that was typed so. The first step is a name.
    pub(super) fn new(name: String, steps: Vec<Step>) -> Path {
        let mut steps = steps.into_iter();
        let way = match steps.next() {
            Some(Step::Name(field)) if steps.len() > 0 => Some((field, steps.collect())),
            _ => None,
        };
        Path { name, way }
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.way {
            Some(_) => f.write_str(&self.name),
            None => Quoted::name(&self.name).fmt(f),
        }
    }
}

/// The value that these steps lead to.
pub(super) fn follow<'v>(value: &'v Value, steps: &[Step]) -> Option<Cow<'v, Value>> {
    let Some((step, rest)) = steps.split_first() else { return Some(Cow::Borrowed(value)) };
    let next = match (step, value) {
        (Step::Name(name), Value::Map(entries)) => entry(entries, name)?,
        (Step::Index(index), Value::Array(items)) => items.get(place(*index, items.len())?)?,
        (Step::Index(index), Value::Map(_)) => match recognise(value)? {
            Special::Array(array) => return owned(&element(&array, *index)?, rest),
            _ => return None,
        },
        (Step::Index(index), Value::Binary(bytes)) if is_container(bytes) => {
            return owned(&element(&unpack(bytes).ok()?, *index)?, rest);
        }
        _ => return None,
    };
    follow(next, rest)
}

fn owned(value: &Value, steps: &[Step]) -> Option<Cow<'static, Value>> {
    follow(value, steps).map(|value| Cow::Owned(value.into_owned()))
}

/// The entry of this name. Of several the last counts, as in Python.
pub(super) fn entry<'v>(entries: &'v [(Value, Value)], name: &str) -> Option<&'v Value> {
    entries.iter().rev().find(|(own, _)| own.as_str() == Some(name)).map(|(_, value)| value)
}

fn place(index: i64, len: usize) -> Option<usize> {
    let place = if index < 0 { index.checked_add_unsigned(len as u64)? } else { index };
    usize::try_from(place).ok().filter(|place| *place < len)
}

/// What an array has at this place of its first axis: a number or text, or an array.
fn element(array: &NdArray<'_>, index: i64) -> Option<Value> {
    let (&len, shape) = array.shape().split_first()?;
    let at = place(index, len)?;
    let bytes = array.c_bytes();
    let size = bytes.len() / len;
    let item = NdArray::new(array.dtype().clone(), shape, &bytes[at * size..][..size]).ok()?;
    if !shape.is_empty() {
        return Some(Special::Array(item).to_value());
    }
    if let Ok(mut texts) = item.strings() {
        return Some(texts.next()?.ok()?.into());
    }
    Special::scalar(item.dtype().clone(), item.bytes()).map(|special| special.to_value())
}
