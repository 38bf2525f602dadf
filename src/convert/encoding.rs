//! Text that is not UTF-8: which encoding it seems to be in.
//!
//! Text is read as UTF-8, unless the caller names another [`TextEncoding`]. Other text is refused, and the error names
//! the likely encoding: where a whole file is in another encoding, each bad line of it is sound.

use super::decoded::{TextEncoding, unspelled};
use crate::error::{Error, ErrorKind, Remedy};

/// Pairs of bytes at the start of a text that are looked at.
const PAIRS: usize = 64;
/// Bytes of a text that an error shows.
pub(super) const SHOWN: usize = 24;
/// In the encodings of Western Europe letters with accents stand alone, or in pairs as in `Größe`.
const RUN: usize = 2;

/// The encoding of 16 or 32 bits that a text begins in, if it is one. Of its first bytes ASCII would be
/// read as text with zeros in it.
pub(super) fn wide(head: &[u8]) -> Option<&'static str> {
    match head {
        [0xff, 0xfe, 0, 0, ..] | [0, 0, 0xfe, 0xff, ..] => return Some("UTF-32"),
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => return Some("UTF-16"),
        _ => {}
    }
    let pairs = head.chunks_exact(2).take(PAIRS);
    let (mut little, mut big, total) = (0, 0, pairs.len());
    for pair in pairs {
        little += usize::from(pair[0] != 0 && pair[1] == 0);
        big += usize::from(pair[0] == 0 && pair[1] != 0);
    }
    let most = |count: usize| total >= 2 && count * 4 >= total * 3;
    match () {
        () if most(little) => Some("UTF-16LE"),
        () if most(big) => Some("UTF-16BE"),
        () => None,
    }
}

/// The error of a text that begins in another encoding than this one, as a mark or zeros show.
pub(super) fn wide_error(expected: &str, found: &'static str) -> Error {
    let message = format!("expected {expected}, found {found}");
    Error::new(ErrorKind::Unsupported, message).with_remedy(match found {
        "UTF-8" => Remedy::Decode("utf-8"),
        "UTF-16" => Remedy::Decode("utf-16"),
        "UTF-16LE" => Remedy::Decode("utf-16le"),
        "UTF-16BE" => Remedy::Decode("utf-16be"),
        other => Remedy::Recode(other),
    })
}

/// The problem of a text, if it has bytes that this encoding does not have. Without an encoding: if it is not UTF-8, or
/// begins in a wider encoding.
pub(super) fn flaw(text: &[u8], encoding: Option<TextEncoding>) -> Option<Error> {
    if let Some(encoding) = encoding {
        return encoding.flaw(text);
    }
    if let Some(encoding) = wide(text) {
        return Some(wide_error("UTF-8", encoding));
    }
    let at = std::str::from_utf8(text).err()?.valid_up_to();
    let from = text[..at].len().saturating_sub(SHOWN / 2);
    let shown = &text[from..text.len().min(from + SHOWN)];
    let message = format!("expected UTF-8, found \"{}\"", shown.escape_ascii());
    let error = Error::new(ErrorKind::Damaged, message);
    Some(match narrow(text) {
        // A byte among others that are UTF-8 was damaged.
        Narrow::No => error,
        Narrow::Unknown => error.with_remedy(Remedy::NameEncoding(None)),
        Narrow::Western => {
            error.note("as in WINDOWS-1252").with_remedy(Remedy::NameEncoding(Some("cp1252")))
        }
    })
}

/// A text as it is shown to the user: bytes that the encoding does not have are themselves again.
pub(super) fn raw(text: &[u8], encoding: Option<TextEncoding>) -> Vec<u8> {
    if encoding.is_some() { unspelled(text) } else { text.to_vec() }
}

/// Whether a text that is not UTF-8 seems to be in an encoding of 8 bits.
#[derive(Debug, PartialEq, Eq)]
enum Narrow {
    No,
    Unknown,
    Western,
}

fn narrow(text: &[u8]) -> Narrow {
    if text.utf8_chunks().any(|chunk| !chunk.valid().is_ascii()) {
        return Narrow::No;
    }
    let longest = text.split(u8::is_ascii).map(<[u8]>::len).max().unwrap_or(0);
    // Bytes that the encoding leaves out.
    let is_left_out = |byte: &u8| matches!(byte, 0x81 | 0x8d | 0x8f | 0x90 | 0x9d);
    match longest > RUN || text.iter().any(is_left_out) {
        true => Narrow::Unknown,
        false => Narrow::Western,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn utf16(text: &str, to: fn(u16) -> [u8; 2]) -> Vec<u8> {
        text.encode_utf16().flat_map(to).collect()
    }

    #[test]
    fn wide_encodings_are_known_by_their_mark_or_their_zeros() {
        let text = "name,text\nä,b\n";
        let (little, big) = (utf16(text, u16::to_le_bytes), utf16(text, u16::to_be_bytes));
        assert_eq!(wide(&little), Some("UTF-16LE"));
        assert_eq!(wide(&big), Some("UTF-16BE"));
        assert_eq!(wide(&[b"\xff\xfe", &little[..]].concat()), Some("UTF-16"));
        assert_eq!(wide(&[b"\xfe\xff", &big[..]].concat()), Some("UTF-16"));
        assert_eq!(wide(b"\xff\xfe\0\0n\0\0\0"), Some("UTF-32"));
        for other in [&b""[..], b"n", b"name,text\n", b"a\0,b\n1,2\n", b"\xef\xbb\xbfname\n"] {
            assert_eq!(wide(other), None, "{other:?}");
        }
    }

    #[test]
    fn narrow_encodings_are_guessed() {
        for (text, expected) in [
            (&b"M\xfcller,b"[..], Narrow::Western),
            (b"Gr\xf6\xdfe", Narrow::Western),
            // Text of another script has runs of such bytes.
            (b"\xcf\xf0\xe8\xe2\xe5\xf2", Narrow::Unknown),
            (b"\x83\x81", Narrow::Unknown),
            ("é".as_bytes().iter().chain(b"\xff").copied().collect::<Vec<_>>().leak(), Narrow::No),
        ] {
            assert_eq!(narrow(text), expected, "{text:?}");
        }
        let error = flaw(b"x,M\xfcller", None).unwrap();
        assert_eq!(error.to_string(), "expected UTF-8, found \"x,M\\xfcller\"; as in WINDOWS-1252");
        assert!(flaw("é".as_bytes(), None).is_none());
    }
}
