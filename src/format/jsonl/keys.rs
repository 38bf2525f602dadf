//! [`KeyRule`]: what the key of a line is.

use super::read::{parse_members, parse_plain};
use crate::Value;
use crate::error::{Error, ErrorKind, Remedy, Result};
use crate::format::msgpack::{self, sample::KEY};
use crate::format::sample_fields::{key_text, stored_name};

/// The keys of samples. Samples without a key of their own are numbered by line, not by
/// sample: then a line that is bad or empty changes no other key, and where a file is cut into units
/// makes no difference.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) enum KeyRule {
    /// The member `key`. If the first object has none, no line may have one, and all are numbered:
    /// a line that lost its key is an error, not a sample with a made-up key.
    #[default]
    Own,
    /// This member, whose value is a string or an integer.
    Field(String),
    /// None that stays: another one takes its place later. A member `key` is a field like others then,
    /// `_key`, as in all formats.
    Replaced,
}

/// How lines are written, and what is read of them.
pub(crate) trait Notation {
    /// Whether names that begin with `$` have no meaning.
    fn is_plain(&self) -> bool;

    /// Whether the member of this name is needed. The others are nil.
    fn needs(&self, _name: &str) -> bool {
        true
    }

    /// Why a line that is no JSON cannot be read as text, if that is the reason.
    fn flaw(&self, _line: &[u8]) -> Option<Error> {
        None
    }
}

/// The value on a line.
fn parse(line: &[u8], notation: &impl Notation) -> Result<Value> {
    let plain = notation.is_plain();
    // One called "key" may be the key.
    let wanted = |name: &str| name == KEY || notation.needs(name);
    let parsed = parse_members(line, plain, &wanted);
    parsed.map_err(|flaw| match notation.flaw(line) {
        Some(error) => error,
        None => {
            let error = Error::new(ErrorKind::Damaged, flaw.to_string());
            // Then it is such a name that is wrong.
            let is_plain = !plain && parse_plain(line).is_ok();
            if is_plain { error.with_remedy(Remedy::PlainJson) } else { error }
        }
    })
}

/// Whether this is a line with a key: `None` if it is no object, so that nothing can be told.
pub(crate) fn has_key(line: &[u8], notation: &impl Notation) -> Option<bool> {
    match parse(line, notation) {
        Ok(Value::Map(members)) => Some(members.iter().any(|(name, _)| is_key(name))),
        _ => None,
    }
}

fn is_key(name: &Value) -> bool {
    name.as_str() == Some(KEY)
}

impl KeyRule {
    /// The packed sample of a line. `numbered` says whether lines without a key are numbered, and
    /// `number` makes such a key.
    pub(crate) fn pack(
        &self,
        line: &[u8],
        notation: &impl Notation,
        numbered: impl FnOnce() -> Result<bool>,
        number: impl FnOnce() -> Result<String>,
    ) -> Result<Vec<u8>> {
        let damaged = |e: &dyn std::fmt::Display| Error::new(ErrorKind::Damaged, e.to_string());
        let value = self.value(line, notation, numbered, number)?;
        let packed = msgpack::to_vec(&value).map_err(|e| damaged(&e))?;
        let checked = msgpack::check_sample(&packed).map(drop);
        checked.map_err(|e| damaged(&format_args!("not a sample: {e}")))?;
        Ok(packed)
    }

    /// The same before it is packed: a map with the key and the members, or a value that is no sample.
    pub(crate) fn value(
        &self,
        line: &[u8],
        notation: &impl Notation,
        numbered: impl FnOnce() -> Result<bool>,
        number: impl FnOnce() -> Result<String>,
    ) -> Result<Value> {
        let mut value = parse(line, notation)?;
        if let Value::Map(members) = &mut value {
            match self {
                KeyRule::Own => {
                    let key = members.iter().find(|(name, _)| is_key(name)).map(|(_, key)| key);
                    match (numbered()?, key) {
                        (true, None) => set_key(members, number()?)?,
                        (false, Some(Value::String(_))) => {}
                        (false, Some(_)) => {
                            let message = "expected a string as \"key\", found another value";
                            return Err(without_key(message));
                        }
                        (true, Some(_)) => {
                            let message =
                                "expected no \"key\", as the first line has none, found one";
                            return Err(without_key(message));
                        }
                        (false, None) => {
                            let message =
                                "expected a \"key\", as the first line has one, found none";
                            return Err(without_key(message));
                        }
                    }
                }
                KeyRule::Field(name) => {
                    let key = key_in(members, name)?;
                    if name == KEY {
                        members.retain(|(name, _)| !is_key(name));
                    }
                    set_key(members, key)?;
                }
                KeyRule::Replaced => {
                    let own = members.iter().find(|(name, _)| is_key(name));
                    // Until then errors name the sample by it. Counting lines would take another pass.
                    let key = match own.and_then(|(_, key)| key.as_str()) {
                        Some(key) => key.to_owned(),
                        None => number()?,
                    };
                    set_key(members, key)?;
                }
            }
        }
        Ok(value)
    }
}

fn without_key(message: &str) -> Error {
    Error::new(ErrorKind::Damaged, message).with_remedy(Remedy::KeyField)
}

/// The key in this member.
fn key_in(members: &[(Value, Value)], name: &str) -> Result<String> {
    let invalid = |message: String| Error::new(ErrorKind::Invalid, message);
    let value = members.iter().find(|(found, _)| found.as_str() == Some(name));
    let (_, value) = value
        .ok_or_else(|| invalid(format!("expected a field {name:?} for the key, found none")))?;
    key_text(value).ok_or_else(|| {
        let expected = "expected a string or an integer as the key";
        invalid(format!("{expected} in field {name:?}, found neither"))
    })
}

/// Puts a key in front. A member that is called `key` becomes `_key`.
fn set_key(members: &mut Vec<(Value, Value)>, key: String) -> Result<()> {
    let stored = stored_name(KEY);
    let is_taken = members.iter().any(|(name, _)| name.as_str() == Some(stored));
    if let Some((name, _)) = members.iter_mut().find(|(name, _)| is_key(name)) {
        if is_taken {
            let message = format!("expected fields of different names, found {stored:?} twice");
            return Err(Error::new(ErrorKind::Damaged, message));
        }
        *name = stored.into();
    }
    members.insert(0, (KEY.into(), key.into()));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Ours;

    impl Notation for Ours {
        fn is_plain(&self) -> bool {
            false
        }
    }

    fn packed(rule: &KeyRule, numbered: bool, line: &str) -> Result<Value> {
        let packed = rule.pack(line.as_bytes(), &Ours, || Ok(numbered), || Ok("x/7".to_owned()))?;
        Ok(msgpack::decode(&packed).unwrap())
    }

    fn sample(members: &[(&str, Value)]) -> Value {
        Value::Map(members.iter().map(|(name, value)| ((*name).into(), value.clone())).collect())
    }

    #[test]
    fn keys_come_from_where_the_rule_says() {
        let (own, field) = (KeyRule::Own, |name: &str| KeyRule::Field(name.to_owned()));
        let id = r#"{"id": 5, "n": 1}"#;
        let keyed = r#"{"n": 1, "key": "a"}"#;
        let table = [
            (&own, false, keyed, sample(&[("n", 1.into()), ("key", "a".into())])),
            (&own, true, id, sample(&[("key", "x/7".into()), ("id", 5.into()), ("n", 1.into())])),
            (
                &field("id"),
                true,
                id,
                sample(&[("key", "5".into()), ("id", 5.into()), ("n", 1.into())]),
            ),
            (&field("key"), false, r#"{"key": 5}"#, sample(&[("key", "5".into())])),
            (&field("n"), false, keyed, {
                sample(&[("key", "1".into()), ("n", 1.into()), ("_key", "a".into())])
            }),
            (&KeyRule::Replaced, true, keyed, {
                sample(&[("key", "a".into()), ("n", 1.into()), ("_key", "a".into())])
            }),
            (&KeyRule::Replaced, true, r#"{"key": 5}"#, {
                sample(&[("key", "x/7".into()), ("_key", 5.into())])
            }),
        ];
        for (rule, numbered, line, expected) in table {
            assert_eq!(packed(rule, numbered, line).unwrap(), expected, "{rule:?} {line}");
        }
    }

    #[test]
    fn no_key_is_made_up_or_lost() {
        let field = |name: &str| KeyRule::Field(name.to_owned());
        for (rule, numbered, line, says) in [
            (KeyRule::Own, false, r#"{"n": 1}"#, "as the first line has one, found none"),
            (KeyRule::Own, true, r#"{"key": "a"}"#, "as the first line has none, found one"),
            (KeyRule::Own, false, r#"{"key": 5}"#, "expected a string as \"key\""),
            (field("id"), false, r#"{"n": 1}"#, "expected a field \"id\""),
            (field("id"), false, r#"{"id": [1]}"#, "expected a string or an integer"),
            (KeyRule::Replaced, false, r#"{"key": 5, "_key": 6}"#, "found \"_key\" twice"),
            (KeyRule::Replaced, false, "[1]", "not a sample"),
        ] {
            let error = packed(&rule, numbered, line).unwrap_err();
            assert!(error.message().contains(says), "{rule:?} {line}: {error}");
        }
        let has_key = |line: &str| has_key(line.as_bytes(), &Ours);
        assert_eq!(has_key("{\"key\": 1}"), Some(true));
        assert_eq!(has_key("{}"), Some(false));
        assert_eq!((has_key("[]"), has_key("{")), (None, None));
    }
}
