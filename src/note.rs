//! Notes that this crate writes for itself, and how they are read: as strictly as a file of someone else.
//!
//! Notes decide what is joined, published and removed. So every field is there and of its type, a field
//! that is not known is an error, as a later version may mean something by it, and the last member,
//! `checksum`, is the CRC-32C of all bytes before it. A note without that member is from a build before
//! the first release; it is read by the other rules alone.

use std::borrow::Cow;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};

/// The member that comes last.
const CHECKSUM: &str = "\"checksum\":";
/// Digits of a checksum as text.
const DIGITS: usize = 8;

/// A JSON object with its checksum, which becomes its last member.
pub(crate) fn sealed(json: &str) -> String {
    let json = json.trim_end();
    let Some(head) = json.strip_suffix('}').map(str::trim_end) else { return json.to_owned() };
    let sum = crc32c::crc32c(head.as_bytes());
    let lines = if json.contains('\n') { ["\n  ", " ", "\n"] } else { ["", "", ""] };
    let comma = if head.ends_with('{') { "" } else { "," };
    let [before, space, after] = lines;
    format!("{head}{comma}{before}{CHECKSUM}{space}\"{sum:0DIGITS$x}\"{after}}}")
}

/// The object without its checksum, after comparing it; unchanged if it has none.
///
/// # Errors
///
/// The problem, in words.
pub(crate) fn opened(bytes: &[u8]) -> Result<Cow<'_, [u8]>, String> {
    let Some((head, sum)) = split(bytes) else { return Ok(Cow::Borrowed(bytes)) };
    let found = format!("{:0DIGITS$x}", crc32c::crc32c(head));
    match found.as_bytes() == sum {
        true => Ok(Cow::Owned([head, b"}"].concat())),
        false => {
            let expected = String::from_utf8_lossy(sum);
            Err(format!("expected bytes with the checksum {expected}, found {found}"))
        }
    }
}

/// The content of a note.
///
/// # Errors
///
/// The problem, in words, with the name of the field.
pub(crate) fn parsed<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, String> {
    serde_json::from_slice(&opened(bytes)?).map_err(|error| error.to_string())
}

/// The text before the checksum, and the checksum as text.
fn split(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let member = bytes.trim_ascii_end().strip_suffix(b"}")?.trim_ascii_end();
    let (rest, sum) = member.strip_suffix(b"\"")?.split_last_chunk::<DIGITS>()?;
    let rest = rest.strip_suffix(b"\"")?.trim_ascii_end();
    let rest = rest.strip_suffix(CHECKSUM.as_bytes())?.trim_ascii_end();
    Some((rest.strip_suffix(b",").unwrap_or(rest), &sum[..]))
}

/// For a field that may be `null`, but must be there: serde takes one that is missing for `null`.
pub(crate) fn required<'de, D, T>(from: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    Option::deserialize(from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Note {
        parts: u32,
        #[serde(deserialize_with = "required")]
        base: Option<u32>,
    }

    #[test]
    fn a_byte_that_changed_or_is_missing_shows() {
        for json in ["{\"parts\":3,\"base\":null}", "{\n  \"parts\": 3,\n  \"base\": null\n}\n"] {
            let text = sealed(json);
            let whole = Note { parts: 3, base: None };
            assert_eq!(parsed::<Note>(text.as_bytes()), Ok(Note { parts: 3, base: None }));
            assert_eq!(text.contains('\n'), json.contains('\n'));
            for at in 0..text.len() {
                let cut = parsed::<Note>(&text.as_bytes()[..at]);
                assert!(cut.is_err() || cut == Ok(Note { parts: 3, base: None }), "{at}");
                for other in [b'4', b'"', b'}', b' ', b'x'] {
                    let mut changed = text.clone().into_bytes();
                    changed[at] = other;
                    let found = parsed::<Note>(&changed);
                    assert!(found.is_err() || found == Ok(Note { parts: 3, base: None }), "{at}");
                }
            }
            // Notes of earlier versions have no checksum.
            assert_eq!(parsed(json.as_bytes()), Ok(whole));
        }
        assert_eq!(opened(sealed("{}").as_bytes()).as_deref(), Ok(&b"{}"[..]));
    }

    #[test]
    fn fields_are_neither_missing_nor_unknown() {
        for (json, said) in [
            ("{\"base\":1}", "missing field `parts`"),
            ("{\"parts\":1}", "missing field `base`"),
            ("{\"parts\":1,\"base\":1,\"more\":1}", "unknown field `more`"),
            ("{\"parts\":1,\"parts\":1,\"base\":1}", "duplicate field `parts`"),
            ("{\"parts\":4294967296,\"base\":1}", "4294967296"),
        ] {
            let error = parsed::<Note>(json.as_bytes()).unwrap_err();
            assert!(error.contains(said), "{json}: {error}");
        }
    }
}
