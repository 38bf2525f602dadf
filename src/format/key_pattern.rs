//! [`KeyPattern`]: what keys are made from.

use std::str::FromStr;

use crate::error::{Error, ErrorKind};

/// Text with places for the old key and for fields: `{key}`, `{key.stem}`, `{key.name}`, `{key.shard}`,
/// `{FIELD}`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KeyPattern(Vec<Piece>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    Text(String),
    /// The old key.
    Key,
    /// The old key without the ending of its last part.
    Stem,
    /// The last part of the old key.
    Name,
    /// The name of the sample's file in keys.
    Shard,
    /// The value of a field.
    Field(String),
}

impl KeyPattern {
    /// The fields that are in it.
    pub(crate) fn fields(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter_map(|piece| match piece {
            Piece::Field(name) => Some(&name[..]),
            _ => None,
        })
    }

    /// Whether the old key is in it.
    pub(crate) fn has_key(&self) -> bool {
        self.0.iter().any(|piece| matches!(piece, Piece::Key | Piece::Stem | Piece::Name))
    }

    /// The key that it makes; `shard` returns what the file of the sample is called, and `field` fields as text.
    pub(crate) fn key<E>(
        &self,
        old: &str,
        shard: impl Fn() -> Result<String, E>,
        mut field: impl FnMut(&str) -> Result<String, E>,
    ) -> Result<String, E> {
        let mut key = String::new();
        for piece in &self.0 {
            match piece {
                Piece::Text(text) => key += text,
                Piece::Key => key += old,
                Piece::Stem => key += stem(old),
                Piece::Name => key += old.rsplit('/').next().unwrap_or_default(),
                Piece::Shard => key += &shard()?,
                Piece::Field(name) => key += &field(name)?,
            }
        }
        Ok(key)
    }
}

/// A key without the ending of its last part, if that has one and something before it.
fn stem(key: &str) -> &str {
    let name = key.rfind('/').map_or(0, |slash| slash + 1);
    match key[name..].rfind('.') {
        Some(dot) if dot > 0 => &key[..name + dot],
        _ => key,
    }
}

impl FromStr for KeyPattern {
    type Err = Error;

    fn from_str(pattern: &str) -> Result<KeyPattern, Error> {
        let invalid = |message: String| Error::new(ErrorKind::Invalid, message);
        let mut pieces = Vec::new();
        let mut rest = pattern;
        while let Some((text, place)) = rest.split_once('{') {
            let flaw = || invalid(format!("expected a closing }} after {{{place}"));
            let (place, after) = place.split_once('}').ok_or_else(flaw)?;
            if !text.is_empty() {
                pieces.push(Piece::Text(text.to_owned()));
            }
            pieces.push(match place {
                "" => return Err(invalid("expected {key} or {FIELD}, found {}".to_owned())),
                "key" => Piece::Key,
                "key.stem" => Piece::Stem,
                "key.name" => Piece::Name,
                "key.shard" => Piece::Shard,
                name => Piece::Field(name.to_owned()),
            });
            rest = after;
        }
        // The values that are the same for all samples, or for all of a shard.
        if pieces.iter().all(|piece| matches!(piece, Piece::Text(_) | Piece::Shard)) {
            let message = "expected {key} or {FIELD} in it, or all keys would be the same";
            return Err(invalid(message.to_owned()));
        }
        if !rest.is_empty() {
            pieces.push(Piece::Text(rest.to_owned()));
        }
        Ok(KeyPattern(pieces))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(pattern: &str, old: &str) -> Result<String, String> {
        let pattern: KeyPattern = pattern.parse().unwrap();
        pattern.key(
            old,
            || Ok("b/s-1".to_owned()),
            |name| match name {
                "id" => Ok("7".to_owned()),
                name => Err(format!("no {name}")),
            },
        )
    }

    #[test]
    fn places_are_filled_in() {
        for (pattern, old, expected) in [
            ("{key}", "a/b.png", "a/b.png"),
            ("{key.stem}", "a/b.c.png", "a/b.c"),
            ("{key.stem}", "a.b/c", "a.b/c"),
            ("{key.stem}", "a/.hidden", "a/.hidden"),
            ("x/{key.name}!", "a/b.png", "x/b.png!"),
            ("{id}-{id}", "a", "7-7"),
            ("{key.shard}/{key}", "0", "b/s-1/0"),
        ] {
            assert_eq!(key(pattern, old).unwrap(), expected, "{pattern} {old}");
        }
        assert_eq!(key("{none}", "a").unwrap_err(), "no none");
        for bad in ["", "same", "{", "{}", "a{id", "{key.shard}", "{key.shard}-x"] {
            assert!(bad.parse::<KeyPattern>().is_err(), "{bad}");
        }
        let pattern: KeyPattern = "{key}{a}{b}".parse().unwrap();
        assert_eq!(pattern.fields().collect::<Vec<_>>(), ["a", "b"]);
        assert!(pattern.has_key() && !"{a}-{b}".parse::<KeyPattern>().unwrap().has_key());
    }
}
