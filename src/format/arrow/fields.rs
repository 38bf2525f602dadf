//! The fields of samples as columns: what they are in one sample, and whether they fit other samples.

use super::kinds::{Entry, Type};
use crate::error::{Error, ErrorKind, Result};
use crate::format::find::{Distinct, Finder};
use crate::format::msgpack::{Cursor, Kind, sample};

/// The types of the fields of a sample, or of those with these names; or the error of one of them.
pub(crate) fn entries_of(
    packed: &[u8],
    names: Option<&[String]>,
) -> Result<Result<Vec<Entry>, Error>> {
    let flaw = |name: &str, message: String| {
        Ok(Err(Error::new(ErrorKind::Invalid, message).with_field(name)))
    };
    let (mut entries, mut seen) = (Vec::new(), Distinct::default());
    for field in sample::fields(packed)? {
        let (name, value) = field?;
        let mut name = Cursor::new(name);
        if names.is_some() && name.peek()? != Kind::Str {
            continue;
        }
        let name = name.read_str()?;
        if names.is_some_and(|names| !names.iter().any(|wanted| wanted == name)) {
            continue;
        }
        if !seen.insert(name) {
            return flaw(name, "the field occurs twice".to_owned());
        }
        match Type::of(&mut Cursor::new(value), 0)? {
            Ok(of) => entries.push(Entry {
                name: name.to_owned(),
                nil: of == Type::Nil,
                of,
                missing: false,
            }),
            Err(expected) => return flaw(name, format!("expected {expected}")),
        }
    }
    Ok(Ok(entries))
}

/// Whether these columns can hold these fields.
pub(crate) fn takes(known: &[Entry], found: &[Entry]) -> bool {
    conflicting(known, found, true).is_none()
}

/// The error of the first field that does not fit the columns.
fn conflicting<'a>(
    known: &'a [Entry],
    found: &'a [Entry],
    settled: bool,
) -> Option<(Option<&'a Entry>, &'a Entry)> {
    let mut known = Finder::new(known, Entry::name);
    found.iter().find_map(|found| {
        let entry = known.find(&found.name);
        let fits = match (entry, settled) {
            (Some(entry), true) => entry.of.takes(&found.of),
            (Some(entry), false) => entry.of.merge(&found.of).is_some(),
            (None, settled) => !settled,
        };
        (!fits).then_some((entry, found))
    })
}

/// The error of the first field that does not fit the columns, which are settled or may still change.
pub(crate) fn conflict(known: &[Entry], found: &[Entry], settled: bool) -> Error {
    let invalid = |message: String| Error::new(ErrorKind::Invalid, message);
    match conflicting(known, found, settled) {
        Some((Some(Entry { name, of, .. }), found)) => {
            invalid(format!("expected {of} as in the first samples, found {}", found.of))
                .with_field(name)
        }
        Some((None, found)) => {
            let message = "expected the fields of the first samples, found another";
            invalid(message.to_owned()).with_field(&found.name)
        }
        None => invalid("expected the fields of the first samples, found others".to_owned()),
    }
}

/// Fails for a column that cannot be, although each value could be in one.
pub(crate) fn check_flaws(entries: &[Entry]) -> Result<()> {
    for entry in entries {
        if let Some(flaw) = entry.of.flaw() {
            let message = format!("expected {flaw}");
            return Err(Error::new(ErrorKind::Invalid, message).with_field(&entry.name));
        }
    }
    Ok(())
}
