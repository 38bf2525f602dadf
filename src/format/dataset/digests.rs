//! `.md5`: the MD5 digests of the other files of a dataset, as `md5sum` prints them.
//!
//! Lines are in the order of writing: the data file, then the side files. Only the text is handled
//! here; digests are computed where the bytes are. MD5 detects accidents, not attacks: anyone who
//! can change the data can change this file as well.

use std::collections::HashSet;
use std::fmt::Write;

use super::side_file::SideFile;
use crate::format::FormatError;

/// The MD5 digest of a file.
pub type Digest = [u8; 16];

/// The lines of an `.md5` file: names of files and their digests, in order.
///
/// ```
/// use kiste::format::dataset::Digests;
///
/// let text = "d41d8cd98f00b204e9800998ecf8427e  empty.msgpack\n";
/// let mut digests = Digests::parse(text.as_bytes())?;
/// assert_eq!(digests.get("empty.msgpack").unwrap()[..2], [0xd4, 0x1d]);
/// assert_eq!(digests.get("other.msgpack"), None);
/// assert_eq!(digests.render(), text);
/// # Ok::<(), kiste::format::FormatError>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Digests(Vec<(String, Digest)>);

impl Digests {
    /// No lines.
    pub fn new() -> Digests {
        Digests::default()
    }

    /// Parses the text. Windows line ends and upper-case digits are accepted, and so is a last line
    /// without an end; a name that occurs twice is not.
    pub fn parse(text: &[u8]) -> Result<Digests, FormatError> {
        let mut digests = Vec::new();
        let mut names = HashSet::new();
        let mut at = 0;
        for whole in text.split_inclusive(|&byte| byte == b'\n') {
            let line = whole.strip_suffix(b"\n").unwrap_or(whole);
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            let (name, digest) = parse_line(line, at)?;
            if !names.insert(name) {
                return Err(FormatError::new(at, "each file once", format!("{name:?} again")));
            }
            digests.push((name.to_owned(), digest));
            at += whole.len() as u64;
        }
        Ok(Digests(digests))
    }

    /// The text, in lower case and with `\n` at the end of each line.
    pub fn render(&self) -> String {
        let mut text = String::new();
        for (name, digest) in &self.0 {
            for byte in digest {
                let _ = write!(text, "{byte:02x}"); // A String takes everything.
            }
            text.extend(["  ", name, "\n"]);
        }
        text
    }

    /// The digest of the file of this name.
    pub fn get(&self, name: &str) -> Option<&Digest> {
        self.iter().find(|&(other, _)| other == name).map(|(_, digest)| digest)
    }

    /// The name under which the lines of a dataset stand whose data file has this name now: its own, or
    /// where no line has that, the one of all lines. Those who rename a dataset rename its files, and leave
    /// the lines as they are.
    ///
    /// ```
    /// use kiste::format::dataset::Digests;
    ///
    /// let text = "d41d8cd98f00b204e9800998ecf8427e  old\n\
    ///             d41d8cd98f00b204e9800998ecf8427e  old.keys\n";
    /// let digests = Digests::parse(text.as_bytes())?;
    /// assert_eq!(digests.name_of("new"), "old");
    /// assert_eq!(digests.get_of("new", ".keys"), digests.get("old.keys"));
    /// # Ok::<(), kiste::format::FormatError>(())
    /// ```
    pub fn name_of<'a>(&'a self, data: &'a str) -> &'a str {
        let mut names = self.iter().map(|(name, _)| data_of(name));
        let Some(first) = names.next() else { return data };
        let mut is_first = first == data;
        let mut is_one = true;
        for name in names {
            is_first |= name == data;
            is_one &= name == first;
        }
        if is_one && !is_first { first } else { data }
    }

    /// The digest of a file of a dataset, by the name of its data file now and the suffix of the file,
    /// which is empty for the data file: see [`name_of`](Self::name_of).
    pub fn get_of(&self, data: &str, suffix: &str) -> Option<&Digest> {
        let stem = self.name_of(data);
        self.iter().find(|(name, _)| name.strip_prefix(stem) == Some(suffix)).map(|(_, md5)| md5)
    }

    /// The same lines under the name that the data file has now.
    pub(crate) fn renamed(&self, data: &str) -> Digests {
        let stem = self.name_of(data);
        let renamed = |(name, digest): (&str, &Digest)| match name.strip_prefix(stem) {
            Some(suffix) if data_of(name) == stem => (format!("{data}{suffix}"), *digest),
            _ => (name.to_owned(), *digest),
        };
        Digests(self.iter().map(renamed).collect())
    }

    /// Sets the digest of the file of this name: in place if there is one, else at the end.
    ///
    /// A name that does not fit in a line is an error: an empty one, one with a line feed, or one
    /// that ends with a carriage return.
    pub fn set(&mut self, name: &str, digest: Digest) -> Result<(), FormatError> {
        if name.is_empty() || name.contains('\n') || name.ends_with('\r') {
            return Err(FormatError::new(0, "a file name of one line", format!("{name:?}")));
        }
        match self.0.iter_mut().find(|(other, _)| other == name) {
            Some((_, place)) => *place = digest,
            None => self.0.push((name.to_owned(), digest)),
        }
        Ok(())
    }

    /// The names and digests, in the order of the lines.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Digest)> {
        self.0.iter().map(|(name, digest)| (&**name, digest))
    }

    /// The number of lines.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are no lines.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// The data file that a name belongs to: the name of a data file or of a side file.
fn data_of(name: &str) -> &str {
    SideFile::ALL.iter().find_map(|file| name.strip_suffix(file.suffix())).unwrap_or(name)
}

/// The file name and digest of a line without its end, which begins at `at`.
fn parse_line(line: &[u8], at: u64) -> Result<(&str, Digest), FormatError> {
    let wrong = |column: usize, expected: &str| {
        let found = line.get(column..).unwrap_or_default();
        let found = found.get(..found.len().min(40)).unwrap_or_default().escape_ascii();
        FormatError::new(at + column as u64, expected, format!("\"{found}\""))
    };
    let mut digest = [0; 16];
    for (i, byte) in digest.iter_mut().enumerate() {
        let digit = |at| line.get(at).and_then(|&digit| (digit as char).to_digit(16));
        let (Some(high), Some(low)) = (digit(2 * i), digit(2 * i + 1)) else {
            return Err(wrong(0, "32 hexadecimal digits"));
        };
        *byte = (high << 4 | low) as u8;
    }
    let Some(name) = line.get(32..).and_then(|rest| rest.strip_prefix(b"  ")) else {
        return Err(wrong(32, "two spaces"));
    };
    match std::str::from_utf8(name) {
        Ok("") => Err(wrong(34, "a file name")),
        // One was the line's end; no name that can be set has another.
        Ok(name) if name.ends_with('\r') => Err(wrong(34, "a file name and one line end")),
        Ok(name) => Ok((name, digest)),
        Err(_) => Err(wrong(34, "a file name in UTF-8")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::dataset::golden;
    use crate::format::dataset::side_file::SideFile;
    use std::path::Path;

    const HEX: &str = "00112233445566778899aabbccddeeff";
    const DIGEST: Digest = *b"\x00\x11\x22\x33\x44\x55\x66\x77\x88\x99\xaa\xbb\xcc\xdd\xee\xff";

    fn hex(digits: &str) -> Digest {
        u128::from_str_radix(digits, 16).unwrap().to_be_bytes()
    }

    #[test]
    fn golden_files_are_made_again() {
        for set in golden::datasets() {
            let text = set.file(".md5");
            let parsed = Digests::parse(&text).unwrap();
            assert_eq!(parsed.render().as_bytes(), text, "{}", set.path);
            assert_eq!(parsed.render(), set.md5_file_text);

            let mut made = Digests::new();
            made.set(&set.path, hex(&set.md5["data"])).unwrap();
            for side in &SideFile::WRITTEN[..4] {
                let name = side.path(Path::new(&set.path));
                made.set(name.to_str().unwrap(), hex(&set.md5[side.suffix()])).unwrap();
            }
            assert_eq!(made, parsed);
        }
    }

    #[test]
    fn legacy_files_are_made_again() {
        for set in golden::legacy() {
            let text = golden::read(&format!("{}.md5", set.path));
            assert_eq!(text, set.md5_file_text.as_bytes());
            for text in [&set.md5_file_text, &set.convert_index.md5_file_text_after] {
                assert_eq!(Digests::parse(text.as_bytes()).unwrap().render(), *text);
            }
        }
    }

    #[test]
    fn what_other_hands_make_of_it_is_accepted() {
        let text = format!("{HEX}  a  b\r\n{}   c\n{HEX}  ü", HEX.to_uppercase());
        let digests = Digests::parse(text.as_bytes()).unwrap();
        let names: Vec<_> = digests.iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["a  b", " c", "ü"]);
        assert!(digests.iter().all(|(_, digest)| *digest == DIGEST));
        assert!(Digests::parse(b"").unwrap().is_empty());
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (text, message) in [
            ("\n".to_owned(), "byte 0: expected 32 hexadecimal digits, found \"\""),
            ("zz".to_owned(), "byte 0: expected 32 hexadecimal digits, found \"zz\""),
            (format!("{HEX} a"), "byte 32: expected two spaces, found \" a\""),
            (HEX.to_owned(), "byte 32: expected two spaces, found \"\""),
            (format!("{HEX}  \n"), "byte 34: expected a file name, found \"\""),
            (
                format!("{HEX}  a\n{HEX}  a\n"),
                "byte 36: expected each file once, found \"a\" again",
            ),
            (format!("{HEX}  a\n\n"), "byte 36: expected 32 hexadecimal digits, found \"\""),
        ] {
            assert_eq!(Digests::parse(text.as_bytes()).unwrap_err().to_string(), message);
        }
        let latin = [HEX.as_bytes(), b"  a\xff"].concat();
        assert_eq!(Digests::parse(&latin).unwrap_err().position, 34);
    }

    #[test]
    fn set_replaces_in_place_and_refuses_what_cannot_be_read_back() {
        let mut digests = Digests::new();
        for name in ["b", "a", "b"] {
            digests.set(name, [name.len() as u8; 16]).unwrap();
        }
        digests.set("b", DIGEST).unwrap();
        assert_eq!(digests.len(), 2);
        assert_eq!(digests.get("b"), Some(&DIGEST));
        assert!(digests.render().starts_with(&format!("{HEX}  b\n")));
        for name in ["", "a\nb", "a\r"] {
            assert!(digests.set(name, DIGEST).is_err(), "{name:?}");
        }
        for name in [" ", "a\rb", "*a", "  "] {
            digests.set(name, DIGEST).unwrap();
        }
        assert_eq!(Digests::parse(digests.render().as_bytes()), Ok(digests));
    }

    #[test]
    fn a_renamed_dataset_keeps_its_digests() {
        let lines = |names: &[&str]| {
            let line = |name: &&str| format!("{HEX}  {name}\n");
            Digests::parse(names.iter().map(line).collect::<String>().as_bytes()).unwrap()
        };
        let old = lines(&["old", "old.offsets", "old.key_hashes"]);
        for name in ["new", "old.keys", ""] {
            assert_eq!(old.name_of(name), "old");
            assert_eq!(old.get_of(name, ""), Some(&DIGEST));
            assert_eq!(old.get_of(name, ".key_hashes"), Some(&DIGEST));
            assert_eq!(old.get_of(name, ".keys"), None);
        }
        assert_eq!(old.renamed("new"), lines(&["new", "new.offsets", "new.key_hashes"]));
        assert_eq!((old.name_of("old"), &old.renamed("old")), ("old", &old));
        // Its own lines count before others, and lines of several datasets not at all.
        for names in [&["old", "new.keys"][..], &["new", "old"], &["a", "b"], &[]] {
            let several = lines(names);
            assert_eq!(several.name_of("new"), "new");
            assert_eq!(several.get_of("new", ""), several.get("new"));
            assert_eq!(several.renamed("new"), several);
        }
    }

    #[test]
    fn damage_never_panics() {
        golden::damage(format!("{HEX}  a\r\n{HEX}  ü\n").as_bytes(), |text| {
            let _ = Digests::parse(text);
        });
    }
}
