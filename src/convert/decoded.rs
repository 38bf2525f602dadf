//! [`TextEncoding`]: the encoding of text that is not UTF-8, and [`Decoded`]: such text as UTF-8.
//!
//! Decoding is strict: nothing becomes U+FFFD. Bytes that the encoding does not have are passed on, spelled in bytes
//! that UTF-8 never has (see [`spell`]). They have no line end, delimiter or quote among them. So the line or the row
//! that they are in is bad, its reader finds out from [`TextEncoding::flaw`] what they were, and the next one is read
//! as always.

use std::fmt;
use std::io::{self, Read};
use std::str::FromStr;

use encoding_rs::{DecoderResult, Encoding};
use serde::{Deserialize, Serialize};

use super::encoding::{self, SHOWN};
use crate::error::{Error, ErrorKind, Result};

/// Bytes that are read and decoded at a time.
const STEP: usize = 1 << 16;
/// Bytes that show the mark of any encoding.
const MARK: usize = 4;
/// More bytes than a malformed sequence has, together with those after it that were read to see that.
const LONGEST: usize = 16;

/// The encoding of text. Parsed from the names of the [WHATWG](https://encoding.spec.whatwg.org/#names-and-labels), such
/// as `utf-16`, `cp1252`, `shift_jis` or `gb18030`.
///
/// It is decoded strictly, so a few encodings are what their names say and not what browsers make of them:
/// `latin-1` (ISO-8859-1), `iso-8859-9` and `iso-8859-11` have control characters at 0x80 to 0x9f, and
/// `ascii` has nothing from 0x80 on. The code pages of Windows do not have bytes that Windows leaves undefined, such as 0x81
/// in `cp1252`. `utf-16` needs a byte order mark, `utf-16le` and `utf-16be` do not. A mark is no part of the text.
///
/// ```
/// use kiste::convert::TextEncoding;
///
/// let encoding: TextEncoding = "cp1252".parse()?;
/// assert_eq!(encoding.to_string(), "windows-1252");
/// assert!("utf-7".parse::<TextEncoding>().is_err());
/// # Ok::<(), kiste::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct TextEncoding {
    base: &'static Encoding,
    form: Form,
}

/// What is special about an encoding, next to the tables of the WHATWG.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Plain,
    Utf8,
    /// A mark decides about the order of bytes.
    Marked,
    /// Nothing from 0x80 on.
    Ascii,
    /// Control characters at 0x80 to 0x9f, where the tables have a code page of Windows.
    Iso,
    /// No control characters there: bytes that the tables map to some are undefined.
    CodePage,
}

/// Names that are in use but not among the labels of the WHATWG.
const ALIASES: [(&str, &str); 7] = [
    ("cp932", "shift_jis"),
    ("cp936", "gbk"),
    ("cp949", "euc-kr"),
    ("utf-8-sig", "utf-8"),
    ("utf16", "utf-16"),
    ("utf16le", "utf-16le"),
    ("utf16be", "utf-16be"),
];

impl FromStr for TextEncoding {
    type Err = Error;

    fn from_str(text: &str) -> Result<TextEncoding> {
        let name = text.trim().to_ascii_lowercase();
        let dashed = name.replace('_', "-");
        // `latin-1`, `latin_1` and `latin1` are `l1` there.
        let number =
            dashed.strip_prefix("latin").map(|n| format!("l{}", n.trim_start_matches('-')));
        let alias = ALIASES.iter().find(|(alias, _)| *alias == dashed).map(|(_, name)| *name);
        let labels = [alias, number.as_deref(), Some(&*name), Some(&*dashed)];
        let known = |label: &str| Some((label.to_owned(), Encoding::for_label(label.as_bytes())?));
        let found = labels.into_iter().flatten().find_map(known);
        // Of the first nothing can be read, and the second one means nothing.
        let others = [encoding_rs::REPLACEMENT, encoding_rs::X_USER_DEFINED];
        match found.filter(|(_, base)| !others.contains(base)) {
            Some((label, base)) => Ok(TextEncoding::of(&label, base)),
            None => {
                let expected =
                    "expected the name of an encoding such as utf-16, latin-1, cp1252 or shift_jis";
                Err(Error::new(ErrorKind::Invalid, format!("{expected}, found {text:?}")))
            }
        }
    }
}

impl fmt::Display for TextEncoding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl TryFrom<String> for TextEncoding {
    type Error = Error;

    fn try_from(text: String) -> Result<TextEncoding> {
        text.parse()
    }
}

impl From<TextEncoding> for String {
    fn from(encoding: TextEncoding) -> String {
        encoding.to_string()
    }
}

impl TextEncoding {
    /// The encoding of a label, which the tables have under this name.
    fn of(label: &str, base: &'static Encoding) -> TextEncoding {
        use encoding_rs::{UTF_8, UTF_16LE, WINDOWS_874, WINDOWS_1252, WINDOWS_1254};

        let is_page = label.contains("125") || label.contains("874");
        let form = match base.name() {
            _ if base == UTF_8 => Form::Utf8,
            _ if base == UTF_16LE && label == "utf-16" => Form::Marked,
            _ if base == WINDOWS_1252 && (label.contains("asc") || label.starts_with("ansi")) => {
                Form::Ascii
            }
            _ if [WINDOWS_874, WINDOWS_1252, WINDOWS_1254].contains(&base) && !is_page => Form::Iso,
            name if name.starts_with("windows-") => Form::CodePage,
            _ => Form::Plain,
        };
        TextEncoding { base, form }
    }

    /// Its name in the tables, if they have this encoding as it is.
    fn name(self) -> &'static str {
        match (self.form, self.base.name()) {
            (Form::Marked, _) => "UTF-16",
            (Form::Ascii, _) => "US-ASCII",
            (Form::Iso, "windows-1252") => "ISO-8859-1",
            (Form::Iso, "windows-1254") => "ISO-8859-9",
            (Form::Iso, _) => "ISO-8859-11",
            (_, name) => name,
        }
    }

    /// This one, unless it is UTF-8, which needs no decoding.
    pub(super) fn unless_utf8(self) -> Option<TextEncoding> {
        Some(self).filter(|encoding| encoding.form != Form::Utf8)
    }

    /// The tables of a text that begins like this, and the bytes of its mark.
    fn begin(self, head: &[u8]) -> Result<(&'static Encoding, usize)> {
        use encoding_rs::{GB18030, UTF_16BE, UTF_16LE};

        let (is_marked, base) = (self.form == Form::Marked, self.base);
        let found = match head {
            [0xff, 0xfe, 0, 0, ..] | [0, 0, 0xfe, 0xff, ..] => "UTF-32",
            [0xff, 0xfe, ..] if base == UTF_16LE => return Ok((base, 2)),
            [0xfe, 0xff, ..] if base == UTF_16BE || is_marked => return Ok((UTF_16BE, 2)),
            [0xff, 0xfe, ..] => "UTF-16LE",
            [0xfe, 0xff, ..] => "UTF-16BE",
            [0xef, 0xbb, 0xbf, ..] => "UTF-8",
            [0x84, 0x31, 0x95, 0x33, ..] if base == GB18030 => return Ok((base, 4)),
            // Without a mark it is what the caller says.
            _ if [UTF_16BE, UTF_16LE].contains(&base) && !is_marked => return Ok((base, 0)),
            _ => match encoding::wide(head) {
                Some(found) => found,
                // As UTF-16 any text would be some other text.
                None if is_marked && !head.is_empty() => {
                    let message = "expected UTF-16 with a byte order mark, found text without one";
                    return Err(Error::new(ErrorKind::Unsupported, message)
                        .advise("utf-16le and utf-16be need no byte order mark"));
                }
                None => return Ok((base, 0)),
            },
        };
        Err(encoding::wide_error(self.name(), found))
    }

    /// All of a text.
    ///
    /// # Errors
    ///
    /// The first bytes that the encoding does not have, and their position.
    pub(super) fn text(self, bytes: &[u8]) -> Result<String> {
        let (base, mark) = self.begin(bytes)?;
        let (mut text, mut first) = (Vec::new(), None);
        let mut decoder = Decoder::new(self, base, mark);
        decoder.push(&bytes[mark..], true, &mut text, &mut |at, bad, _| {
            first.get_or_insert_with(|| self.lacks(bad).within(format_args!("byte {at}")));
        });
        match first {
            Some(error) => Err(error),
            None => String::from_utf8(text).map_err(Error::other),
        }
    }

    /// The problem of a line or a row that was decoded: bytes that the encoding does not have.
    pub(super) fn flaw(self, text: &[u8]) -> Option<Error> {
        let start = text.iter().position(is_digit)?;
        let run = text[start..].iter().take_while(|byte| is_digit(byte)).count();
        Some(self.lacks(&unspelled(&text[start..start + run])))
    }

    fn lacks(self, bytes: &[u8]) -> Error {
        let shown = bytes[..bytes.len().min(SHOWN)].escape_ascii();
        Error::new(ErrorKind::Damaged, format!("expected {self}, found \"{shown}\""))
    }
}

/// The first of eight bytes that UTF-8 never has. Each stands for three bits.
const DIGIT: u8 = 0xf8;

fn is_digit(byte: &u8) -> bool {
    *byte >= DIGIT
}

/// Spells bytes that the encoding does not have, three digits for each.
fn spell(bytes: &[u8], out: &mut Vec<u8>) {
    out.extend(bytes.iter().flat_map(|b| [DIGIT | b >> 6, DIGIT | b >> 3 & 7, DIGIT | b & 7]));
}

/// The text with the bytes that such digits stand for.
pub(super) fn unspelled(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(&byte) = rest.first() {
        let digits = rest.get(..3).filter(|digits| digits.iter().all(is_digit));
        out.push(digits.map_or(byte, |d| (d[0] & 3) << 6 | (d[1] & 7) << 3 | d[2] & 7));
        rest = &rest[digits.map_or(1, <[u8]>::len)..];
    }
    out
}

/// Takes the position and the bytes of what the encoding does not have, and the text so far.
type TakeBad<'a> = dyn FnMut(u64, &[u8], &mut Vec<u8>) + 'a;

/// Decodes any pieces of a text.
struct Decoder {
    encoding: TextEncoding,
    inner: encoding_rs::Decoder,
    /// Bytes before the next piece, and the last of them.
    before: u64,
    recent: Vec<u8>,
    scratch: Vec<u8>,
}

impl Decoder {
    /// A decoder of what follows this many bytes.
    fn new(encoding: TextEncoding, base: &'static Encoding, before: usize) -> Decoder {
        let inner = base.new_decoder_without_bom_handling();
        let scratch = vec![0; STEP.min(1 << 12)];
        Decoder { encoding, inner, before: before as u64, recent: Vec::new(), scratch }
    }

    /// Adds the text of a piece to `out`.
    fn push(&mut self, bytes: &[u8], last: bool, out: &mut Vec<u8>, bad: &mut TakeBad<'_>) {
        let form = self.encoding.form;
        let is_special = |byte: &u8| match form {
            Form::Ascii => !byte.is_ascii(),
            Form::Iso | Form::CodePage => (0x80..=0x9f).contains(byte),
            _ => false,
        };
        let mut rest = bytes;
        while !rest.is_empty() {
            let run = rest.iter().position(is_special).unwrap_or(rest.len());
            self.run(&rest[..run], false, out, bad);
            rest = &rest[run..];
            if let Some((&byte, after)) = rest.split_first() {
                match self.special(byte) {
                    Some(char) => out.extend_from_slice(char.encode_utf8(&mut [0; 4]).as_bytes()),
                    None => bad(self.before, &[byte], out),
                }
                self.pass(&[byte]);
                rest = after;
            }
        }
        if last {
            self.run(&[], true, out, bad);
        }
    }

    /// The character of a byte that the tables have otherwise.
    fn special(&self, byte: u8) -> Option<char> {
        match self.encoding.form {
            Form::Iso => Some(char::from(byte)),
            Form::CodePage => {
                let base = self.encoding.base;
                let text = base
                    .decode_without_bom_handling_and_without_replacement(&[byte])
                    .map(String::from);
                text?.chars().next().filter(|char| !char.is_control())
            }
            _ => None,
        }
    }

    /// Adds the text of bytes as the tables have it.
    fn run(&mut self, bytes: &[u8], last: bool, out: &mut Vec<u8>, bad: &mut TakeBad<'_>) {
        let mut at = 0;
        loop {
            let (result, read, written) = self.inner.decode_to_utf8_without_replacement(
                &bytes[at..],
                &mut self.scratch,
                last,
            );
            at += read;
            out.extend_from_slice(&self.scratch[..written]);
            match result {
                DecoderResult::InputEmpty => break,
                DecoderResult::OutputFull => {}
                DecoderResult::Malformed(len, after) => {
                    let (len, after) = (usize::from(len), usize::from(after));
                    // It may have begun in an earlier piece.
                    let from = at.saturating_sub(LONGEST);
                    let known = [&self.recent[..], &bytes[from..at]].concat();
                    let end = known.len().saturating_sub(after);
                    let start = end.saturating_sub(len);
                    let position = self.before + at as u64 - (after + len) as u64;
                    bad(position, &known[start..end], out);
                }
            }
        }
        self.pass(bytes);
    }

    /// Notes bytes that were read.
    fn pass(&mut self, bytes: &[u8]) {
        self.before += bytes.len() as u64;
        self.recent.extend_from_slice(&bytes[bytes.len().saturating_sub(LONGEST)..]);
        self.recent.drain(..self.recent.len().saturating_sub(LONGEST));
    }
}

/// Text as UTF-8, which is decoded piece by piece. UTF-8 itself is passed on as it is.
pub(super) struct Decoded<R> {
    input: R,
    decoding: Option<Decoding>,
}

/// The state of a text that is being decoded.
struct Decoding {
    encoding: TextEncoding,
    /// Once the first bytes were seen.
    decoder: Option<Decoder>,
    buffer: Vec<u8>,
    text: Vec<u8>,
    /// Bytes of `text` that were handed out.
    read: usize,
    is_over: bool,
}

impl<R: Read> Decoded<R> {
    /// A text in this encoding; `None` is UTF-8.
    pub(super) fn new(input: R, encoding: Option<TextEncoding>) -> Decoded<R> {
        let mut decoded = Decoded { input, decoding: None };
        decoded.set(encoding);
        decoded
    }

    /// Sets the encoding before anything was read.
    pub(super) fn set(&mut self, encoding: Option<TextEncoding>) {
        self.decoding = encoding.map(|encoding| Decoding {
            encoding,
            decoder: None,
            buffer: vec![0; STEP],
            text: Vec::new(),
            read: 0,
            is_over: false,
        });
    }
}

impl Decoding {
    /// Decodes more of the text.
    fn fill(&mut self, input: &mut impl Read) -> io::Result<()> {
        self.text.clear();
        self.read = 0;
        let mut len = 0;
        let least = if self.decoder.is_none() { MARK } else { 1 };
        while len < least {
            match input.read(&mut self.buffer[len..]) {
                Ok(0) => break,
                Ok(read) => len += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        let bytes = &self.buffer[..len];
        let (decoder, mark) = match &mut self.decoder {
            Some(decoder) => (decoder, 0),
            None => match self.encoding.begin(bytes) {
                Ok((base, mark)) => {
                    (self.decoder.insert(Decoder::new(self.encoding, base, mark)), mark)
                }
                Err(error) => {
                    self.is_over = true;
                    return Err(io::Error::other(error));
                }
            },
        };
        self.is_over = len == 0;
        decoder
            .push(&bytes[mark..], self.is_over, &mut self.text, &mut |_, bad, out| spell(bad, out));
        Ok(())
    }
}

impl<R: Read> Read for Decoded<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let Some(decoding) = &mut self.decoding else { return self.input.read(out) };
        while decoding.read == decoding.text.len() && !decoding.is_over {
            decoding.fill(&mut self.input)?;
        }
        let left = &decoding.text[decoding.read..];
        let len = left.len().min(out.len());
        out[..len].copy_from_slice(&left[..len]);
        decoding.read += len;
        Ok(len)
    }
}

/// The text of an input in this encoding.
pub(super) fn decoded(
    input: Box<dyn Read + Send>,
    encoding: Option<TextEncoding>,
) -> Box<dyn Read + Send> {
    match encoding {
        Some(_) => Box::new(Decoded::new(input, encoding)),
        None => input,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoding(name: &str) -> TextEncoding {
        name.parse().unwrap()
    }

    /// The text, decoded from pieces of this size.
    fn by_pieces(name: &str, bytes: &[u8], size: usize) -> io::Result<Vec<u8>> {
        struct Pieces<'a>(&'a [u8], usize);
        impl Read for Pieces<'_> {
            fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
                let len = self.0.len().min(self.1).min(out.len());
                let (now, rest) = self.0.split_at(len);
                out[..len].copy_from_slice(now);
                self.0 = rest;
                Ok(len)
            }
        }
        let mut text = Vec::new();
        let read = Decoded::new(Pieces(bytes, size), Some(encoding(name))).read_to_end(&mut text);
        read.map(|_| text)
    }

    fn utf16(text: &str, to: fn(u16) -> [u8; 2]) -> Vec<u8> {
        text.encode_utf16().flat_map(to).collect()
    }

    #[test]
    fn names_are_read_as_they_are_shown() {
        for (name, shown) in [
            ("utf-8", "UTF-8"),
            ("UTF8", "UTF-8"),
            ("utf-8-sig", "UTF-8"),
            ("utf-16", "UTF-16"),
            ("UTF_16", "UTF-16"),
            ("utf16", "UTF-16"),
            ("utf-16le", "UTF-16LE"),
            ("UTF-16BE", "UTF-16BE"),
            ("latin-1", "ISO-8859-1"),
            ("latin_1", "ISO-8859-1"),
            ("Latin1", "ISO-8859-1"),
            ("iso-8859-1", "ISO-8859-1"),
            ("iso8859_1", "ISO-8859-1"),
            ("cp819", "ISO-8859-1"),
            ("cp1252", "windows-1252"),
            ("windows-1252", "windows-1252"),
            ("ascii", "US-ASCII"),
            ("us-ascii", "US-ASCII"),
            ("ansi_x3.4-1968", "US-ASCII"),
            ("latin-5", "ISO-8859-9"),
            ("cp1254", "windows-1254"),
            ("iso-8859-11", "ISO-8859-11"),
            ("windows-874", "windows-874"),
            ("latin-9", "ISO-8859-15"),
            ("iso-8859-15", "ISO-8859-15"),
            ("iso-8859-2", "ISO-8859-2"),
            ("shift_jis", "Shift_JIS"),
            ("shift-jis", "Shift_JIS"),
            ("cp932", "Shift_JIS"),
            ("cp949", "EUC-KR"),
            ("gb18030", "gb18030"),
            ("koi8-r", "KOI8-R"),
            ("mac", "macintosh"),
        ] {
            let found = encoding(name);
            assert_eq!(found.to_string(), shown, "{name}");
            assert_eq!(encoding(shown), found, "{name}");
        }
        for none in ["", "utf-7", "utf-32", "x", "replacement", "iso-2022-kr", "x-user-defined"] {
            let error = none.parse::<TextEncoding>().unwrap_err();
            assert!(error.to_string().contains("expected the name of an encoding"), "{error}");
        }
    }

    /// In pieces of any size the text is the same.
    #[test]
    fn text_is_decoded_in_pieces() {
        let all = "a,ä,€\n日本語\u{1f600}\nz";
        let marked = |mark: &[u8], text: Vec<u8>| [mark, &text[..]].concat();
        let (le, be) = (utf16(all, u16::to_le_bytes), utf16(all, u16::to_be_bytes));
        for (name, bytes, text) in [
            ("utf-16le", le.clone(), all),
            ("utf-16", marked(b"\xff\xfe", le.clone()), all),
            ("utf-16le", marked(b"\xff\xfe", le), all),
            ("utf-16be", be.clone(), all),
            ("utf-16be", marked(b"\xfe\xff", be.clone()), all),
            ("utf-16", marked(b"\xfe\xff", be), all),
            ("cp1252", b"a\x80\x9f\xe9".to_vec(), "a€Ÿé"),
            ("latin-1", b"a\x80\x9f\xe9".to_vec(), "a\u{80}\u{9f}é"),
            ("iso-8859-15", b"\xa4\x80".to_vec(), "€\u{80}"),
            ("iso-8859-9", b"\x80\xfd".to_vec(), "\u{80}ı"),
            ("shift_jis", b"\x93\xfa\x96\x7b\n\xb1".to_vec(), "日本\nｱ"),
            ("euc-kr", b"\xc7\xd1\xb1\xdb".to_vec(), "한글"),
            ("gb18030", b"\x84\x31\x95\x33\xd6\xd0\x94\x39\xfc\x36".to_vec(), "中\u{1f600}"),
            ("iso-2022-jp", b"a\x1b$BF|K\\\x1b(Bz".to_vec(), "a日本z"),
            ("ascii", b"plain".to_vec(), "plain"),
            ("utf-16", Vec::new(), ""),
            ("cp1252", b"x".to_vec(), "x"),
        ] {
            assert_eq!(encoding(name).text(&bytes).unwrap(), text, "{name}");
            for size in [1, 2, 3, 5, 4096] {
                let found = by_pieces(name, &bytes, size).unwrap();
                assert_eq!(String::from_utf8(found).unwrap(), text, "{name} by {size}");
            }
        }
    }

    #[test]
    fn bytes_that_an_encoding_lacks_are_named() {
        let lone =
            [&utf16("ab", u16::to_le_bytes)[..], b"\x00\xd8", &utf16("c\n", u16::to_le_bytes)]
                .concat();
        for (name, bytes, at, found) in [
            ("utf-16le", lone.clone(), 4, "\\x00\\xd8"),
            ("utf-16le", b"a\0\x00\xdcb\0".to_vec(), 2, "\\x00\\xdc"),
            ("utf-16le", b"a\0b".to_vec(), 2, "b"),
            ("utf-16le", b"a\0\x3d\xd8".to_vec(), 2, "=\\xd8"),
            ("utf-16be", b"\0a\xd8\x3d\0".to_vec(), 2, "\\xd8=\\x00"),
            ("utf-16", b"\xff\xfea\0b".to_vec(), 4, "b"),
            ("cp1252", b"ab\x81c".to_vec(), 2, "\\x81"),
            ("cp1253", b"a\xaac".to_vec(), 1, "\\xaa"),
            ("windows-1251", b"\x98".to_vec(), 0, "\\x98"),
            ("ascii", b"a\xc3\xa4".to_vec(), 1, "\\xc3"),
            ("shift_jis", b"a\x93\n".to_vec(), 1, "\\x93"),
            ("shift_jis", b"a\x93".to_vec(), 1, "\\x93"),
            ("euc-kr", b"\xc7\xd1\xff".to_vec(), 2, "\\xff"),
            ("gb18030", b"\x81\x30\x81".to_vec(), 0, "\\x810\\x81"),
        ] {
            let encoding = encoding(name);
            let error = encoding.text(&bytes).unwrap_err();
            let expected = format!("byte {at}: expected {encoding}, found \"{found}\"");
            assert_eq!(error.to_string(), expected, "{name}");
            assert_eq!(error.kind(), ErrorKind::Damaged);
            for size in [1, 2, 3, 4096] {
                let text = by_pieces(name, &bytes, size).unwrap();
                let shown = encoding.flaw(&text).unwrap().to_string();
                assert!(
                    shown.starts_with(&format!("expected {encoding}, found \"{}", &found[..1])),
                    "{shown}"
                );
            }
        }
        // What follows is read as always, and the line end stays.
        let text = by_pieces("utf-16le", &lone, 3).unwrap();
        assert!(text.starts_with(b"ab") && text.ends_with(b"c\n"));
        assert_eq!(unspelled(&text), b"ab\x00\xd8c\n");
        assert_eq!(unspelled("ä".as_bytes()), "ä".as_bytes());
    }

    #[test]
    fn another_encoding_is_recognised_by_its_mark_or_its_zeros() {
        let (le, be) = (utf16("name", u16::to_le_bytes), utf16("name", u16::to_be_bytes));
        for (name, bytes, found) in [
            ("cp1252", b"\xef\xbb\xbfname".to_vec(), "UTF-8"),
            ("utf-16", b"\xef\xbb\xbfname".to_vec(), "UTF-8"),
            ("latin-1", le.clone(), "UTF-16LE"),
            ("utf-16", le.clone(), "UTF-16LE"),
            ("utf-16", be, "UTF-16BE"),
            ("utf-16be", [b"\xff\xfe", &le[..]].concat(), "UTF-16LE"),
            ("utf-16le", b"\xfe\xff\0n".to_vec(), "UTF-16BE"),
            ("shift_jis", b"\xff\xfe\0\0n\0\0\0".to_vec(), "UTF-32"),
        ] {
            let encoding = encoding(name);
            let expected = format!("expected {encoding}, found {found}");
            assert_eq!(encoding.text(&bytes).unwrap_err().to_string(), expected);
            assert_eq!(by_pieces(name, &bytes, 4096).unwrap_err().to_string(), expected);
        }
        let error = encoding("utf-16").text("日本".as_bytes()).unwrap_err();
        assert!(error.to_string().contains("a byte order mark"), "{error}");
    }
}
