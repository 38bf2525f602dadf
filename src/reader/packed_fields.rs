//! The fields of a packed sample, to be left out, renamed or put together without decoding them.

use std::borrow::Cow;

use super::pack;
use crate::error::Result;
use crate::format::FormatError;
use crate::format::msgpack::sample::fields;
use crate::format::msgpack::{Cursor, Kind, Value, encode};

/// The fields of a sample, packed, with the text of their names where that is what they have.
pub(super) struct PackedFields<'a>(pub(super) Vec<(Name<'a>, Cow<'a, [u8]>)>);

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Name<'a> {
    Text(Cow<'a, str>),
    Packed(&'a [u8]),
}

impl Name<'_> {
    pub(super) fn is(&self, name: &str) -> bool {
        self.text() == Some(name)
    }

    pub(super) fn text(&self) -> Option<&str> {
        match self {
            Name::Text(text) => Some(text),
            Name::Packed(_) => None,
        }
    }
}

impl<'a> PackedFields<'a> {
    pub(super) fn parse(raw: &'a [u8]) -> Result<PackedFields<'a>, FormatError> {
        let named = |field: Result<(&'a [u8], &'a [u8]), FormatError>| {
            let (name, value) = field?;
            let mut cursor = Cursor::new(name);
            let name = match cursor.peek()? {
                Kind::Str => Name::Text(Cow::Borrowed(cursor.read_str()?)),
                _ => Name::Packed(name),
            };
            Ok((name, Cow::Borrowed(value)))
        };
        let mut cursor = Cursor::new(raw);
        cursor.skip()?;
        cursor.expect_end()?;
        fields(raw)?.map(named).collect::<Result<_, _>>().map(PackedFields)
    }

    /// Gives a field this value. Where two have one name, the last one counts.
    pub(super) fn set(&mut self, name: Name<'a>, value: Cow<'a, [u8]>) {
        match self.0.iter_mut().rev().find(|(known, _)| *known == name) {
            Some(known) => known.1 = value,
            None => self.0.push((name, value)),
        }
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.0.iter().any(|(known, _)| known.is(name))
    }

    pub(super) fn pack(self) -> Result<Vec<u8>> {
        let size: usize = self.0.iter().map(|(_, value)| value.len() + 32).sum();
        let mut out = Vec::with_capacity(size + 8);
        pack::map_len(self.0.len(), &mut out)?;
        for (name, value) in self.0 {
            match name {
                Name::Text(text) => {
                    encode(&Value::from(&*text), &mut out)?;
                }
                Name::Packed(name) => out.extend_from_slice(name),
            }
            out.extend_from_slice(&value);
        }
        Ok(out)
    }
}
