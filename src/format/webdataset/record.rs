//! A sample: which files are its, and the fields that they are.

use std::borrow::Cow;
use std::collections::HashSet;

use super::meaning::{self, Form, Meaning, Note};
use crate::Value;
use crate::error::{Error, ErrorKind, Result};
use crate::format::jsonl;
use crate::format::numpy::npy;
use crate::format::sample_fields::{Field, Fields};
use crate::format::tar::{BLOCK, Entries, Entry};

/// The key and field of a file, if it is part of a sample.
pub(crate) fn key_and_field(name: &str) -> Option<(&str, &str)> {
    split(name).filter(|_| !is_meta(name))
}

/// The key and suffix of a name: before and after the first dot of its last part, unless that
/// begins with the dot.
fn split(name: &str) -> Option<(&str, &str)> {
    let last = memchr::memrchr(b'/', name.as_bytes()).map_or(0, |slash| slash + 1);
    let dot = memchr::memchr(b'.', &name.as_bytes()[last..]).filter(|&dot| dot > 0)?;
    Some((&name[..last + dot], &name[last + dot + 1..]))
}

/// Whether the first part is like `__this__`.
pub(crate) fn is_meta(name: &str) -> bool {
    let Some(rest) = name.strip_prefix("__") else { return false };
    rest.split('/').next().is_some_and(|rest| rest.len() >= 2 && rest.ends_with("__"))
}

/// A file of a sample.
pub(crate) struct File<D> {
    /// What its name has after the key and the dot, in lower case.
    pub(crate) suffix: String,
    pub(crate) data: D,
    /// What it is by its own records.
    own: Option<Meaning>,
}

/// The files of a sample, and why it is an error.
pub(crate) struct Group<D> {
    /// What the names of its files have before the dot.
    pub(crate) name: String,
    pub(crate) files: Vec<File<D>>,
    names: HashSet<String>,
    /// The approximate size of its files in the archive.
    bytes: u64,
    pub(crate) flaw: Option<Error>,
}

impl<D> Group<D> {
    pub(crate) fn new(name: &str, flaw: Option<Error>) -> Group<D> {
        Group { name: name.into(), files: Vec::new(), names: HashSet::new(), bytes: 0, flaw }
    }

    /// Makes the sample an error, and drops its files. The first flaw is the one to report.
    pub(crate) fn refuse(&mut self, flaw: Error) {
        self.flaw.get_or_insert(flaw);
        (self.files, self.names) = (Vec::new(), HashSet::new());
    }

    /// Adds a file, with what `read` returns. False if its bytes are not wanted: nothing of a bad sample is
    /// kept, as an endless archive may consist of one key.
    pub(crate) fn add(
        &mut self,
        suffix: &str,
        entry: &Entry,
        max_bytes: u64,
        read: impl FnOnce() -> Result<D>,
    ) -> Result<bool> {
        let suffix = suffix.to_lowercase();
        let noted: usize = entry.records.iter().map(|(name, value)| name.len() + value.len()).sum();
        let size = entry.size.saturating_add(noted as u64);
        if !self.wants(&suffix, size, max_bytes) {
            return Ok(false);
        }
        let data = read()?;
        match meaning::of_file(&entry.records) {
            Ok(own) => self.files.push(File { suffix, data, own }),
            Err(flaw) => self.refuse(flaw),
        }
        Ok(true)
    }

    /// Whether to read one more file, of this many bytes.
    fn wants(&mut self, suffix: &str, size: u64, max_bytes: u64) -> bool {
        self.bytes = self.bytes.saturating_add(size).saturating_add(BLOCK as u64);
        if self.flaw.is_some() {
            return false;
        }
        // A sample of one file is limited by the size of the file alone.
        if self.bytes > max_bytes && !self.files.is_empty() {
            let message = format!("expected a sample of at most {max_bytes} bytes, found more");
            self.refuse(Error::above_limit("max_bytes", message));
        } else if !self.names.insert(suffix.to_owned()) {
            let message = format!("expected one file {suffix:?} of a sample, found two");
            self.refuse(Error::new(ErrorKind::Damaged, message));
        }
        self.flaw.is_none()
    }
}

/// The key of a sample, in an archive with this note.
pub(crate) fn key(name: &str, note: Option<&Note>) -> String {
    match note {
        Some(_) => meaning::unescape(name),
        None => name.to_owned(),
    }
}

/// The fields of a sample, in the order of its files, with nil for those that are not needed. If not
/// `decode`, the files themselves are the fields. Errors come with the index of the file.
pub(crate) fn fields<'a, D: AsRef<[u8]>>(
    files: &'a [File<D>],
    note: Option<&Note>,
    is_decoded: bool,
    needs: &dyn Fn(&str) -> bool,
) -> Result<Fields<'a>, (usize, Error)> {
    let mut fields = Vec::with_capacity(files.len());
    for (index, File { suffix, data, own }) in files.iter().enumerate() {
        let data = data.as_ref();
        if !is_decoded {
            fields.push((suffix.as_str().into(), Field::Bytes(data)));
            continue;
        }
        let meaning = match (own, note) {
            (Some(own), Some(_)) => Cow::Borrowed(own),
            (_, Some(note)) => note.meaning(suffix),
            (_, None) => Cow::Owned(Meaning::plain(suffix)),
        };
        let field = match needs(&meaning.field) {
            true => decode(suffix, data, &meaning.form, note.is_some())
                .map_err(|error| (index, error))?,
            false => Field::Value(Value::Nil),
        };
        fields.push((meaning.into_owned().field.into(), field));
    }
    Ok(fields)
}

/// The files of the first sample in these bytes, which begin with a header, at this position of the
/// archive, and may end after any whole entry.
///
/// What belongs to no sample is passed over. An entry that is refused makes its sample an error.
pub(crate) fn sample<'a>(
    bytes: &'a [u8],
    position: u64,
    max_bytes: u64,
    note: Option<&Note>,
) -> Result<Group<&'a [u8]>> {
    let mut entries = Entries::new(bytes, position, max_bytes).open_end(true);
    let mut group: Option<Group<&[u8]>> = None;
    // An entry that came before the other files of its sample.
    let mut refused: Option<(String, Error)> = None;
    while let Some((entry, flaw)) = entries.next()? {
        // A sample ends with its archive.
        if entries.take_global().is_some() && (group.is_some() || refused.is_some()) {
            break;
        }
        let Some((name, suffix)) = key_and_field(&entry.name) else {
            if flaw.is_none() {
                entries.skip(entry.size)?;
            }
            continue;
        };
        if let Some(flaw) = flaw {
            match (&mut group, &refused) {
                (Some(group), _) if group.name == name => group.refuse(flaw),
                // It is of another sample, and does not split this one.
                (Some(_), _) => {}
                (None, Some((known, _))) if known == name => {}
                (None, Some(_)) => break,
                (None, None) => refused = Some((name.to_owned(), flaw)),
            }
            continue;
        }
        let group = match &mut group {
            Some(group) if group.name == name => group,
            None if refused.as_ref().is_none_or(|(known, _)| known == name) => {
                group.insert(Group::new(name, refused.take().map(|(_, flaw)| flaw)))
            }
            _ => break,
        };
        if !group.add(suffix, &entry, max_bytes, || entries.read(entry.size))? {
            entries.skip(entry.size)?;
        }
    }
    let flaw = |flaw: Error, name: &str| Err(flaw.with_key(key(name, note)));
    match (group, refused) {
        (Some(Group { name, flaw: Some(error), .. }), _) => flaw(error, &name),
        (Some(group), _) => Ok(group),
        (None, Some((name, error))) => flaw(error, &name),
        (None, None) => {
            Err(Error::new(ErrorKind::Damaged, "expected files of a sample, found none"))
        }
    }
}

/// The type of a field, by the last part of its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Content {
    Text,
    Integer,
    Json,
    Npy,
    Bytes,
}

impl Content {
    pub(crate) fn of(name: &str) -> Content {
        match name.rsplit('.').next().unwrap_or_default() {
            "txt" | "text" | "transcript" => Content::Text,
            "cls" | "cls2" | "index" | "inx" | "id" => Content::Integer,
            "json" | "jsn" => Content::Json,
            "npy" => Content::Npy,
            _ => Content::Bytes,
        }
    }
}

/// The value of a file. In shards of kiste, JSON is in the notation of JSON lines.
fn decode<'a>(name: &str, data: &'a [u8], form: &Form, own: bool) -> Result<Field<'a>> {
    let damaged = |expected: &str, found: String| {
        let message = format!("expected {expected}, found {found}");
        Error::new(ErrorKind::Damaged, message).with_field(name)
    };
    let text = || std::str::from_utf8(data).map_err(|_| damaged("UTF-8", "other bytes".to_owned()));
    Ok(match (Content::of(name), form) {
        (Content::Integer, Form::Digits(dtype)) => {
            let digits = text()?.trim();
            let number = meaning::digits(dtype, digits);
            let expected = || damaged(&format!("an integer of {dtype}"), brief(digits));
            Field::Numpy(number.ok_or_else(expected)?)
        }
        (Content::Npy, form) => {
            let array =
                npy::decode(data).map_err(|error| damaged("an array", error.to_string()))?;
            match form {
                Form::Scalar if array.shape().is_empty() => Field::Numpy(array),
                _ => Field::Array(array),
            }
        }
        (Content::Text, _) => Field::Value(Value::from(text()?)),
        (Content::Integer, _) => {
            let digits = text()?.trim();
            let signed = digits.parse::<i64>().map(Value::from);
            let number = signed.or_else(|_| digits.parse::<u64>().map(Value::from));
            let number = number.map_err(|_| damaged("an integer of 64 bits", brief(digits)))?;
            Field::Value(number)
        }
        (Content::Json, _) => {
            let value = if own { jsonl::parse(data) } else { jsonl::parse_plain(data) };
            Field::Value(value.map_err(|error| damaged("JSON", error.to_string()))?)
        }
        (Content::Bytes, _) => Field::Bytes(data),
    })
}

fn brief(text: &str) -> String {
    let start: String = text.chars().take(30).collect();
    format!("{start:?}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::tar::{file_header_with, padding};

    #[test]
    fn names_as_the_real_one_splits_them() {
        assert_eq!(split("a/b.c.D"), Some(("a/b", "c.D")));
        assert_eq!(split("a.b/c"), None);
        assert_eq!(split("./c.d"), Some(("./c", "d")));
        assert_eq!(split("a/.hidden.jpg"), None);
        assert_eq!(split("c."), Some(("c", "")));
        assert!(is_meta("__a__/b.c") && is_meta("____") && is_meta("__.json__"));
        assert!(!is_meta("__a__.json") && !is_meta("x/__a__") && !is_meta("___"));
    }

    fn put(out: &mut Vec<u8>, name: &str, records: &[(&str, &str)], data: &[u8]) {
        out.extend(file_header_with(name, data.len() as u64, records).unwrap());
        out.extend(data);
        out.resize(out.len() + padding(data.len() as u64), 0);
    }

    fn link(out: &mut Vec<u8>, name: &str) {
        let mut block = file_header_with(name, 0, &[]).unwrap();
        block[156] = b'1';
        block[148..156].fill(b' ');
        let sum: u32 = block.iter().map(|&byte| u32::from(byte)).sum();
        block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        out.extend(block);
    }

    /// The key and the suffixes of the first sample, or the error.
    fn first(bytes: &[u8], max_bytes: u64) -> std::result::Result<String, String> {
        match sample(bytes, 0, max_bytes, None) {
            Ok(group) => {
                let files = group.files.iter().map(|file| &file.suffix[..]);
                Ok(format!("{}: {}", group.name, files.collect::<Vec<_>>().join(" ")))
            }
            Err(error) => Err(error.to_string()),
        }
    }

    #[test]
    fn the_first_sample_ends_before_the_next() {
        let mut bytes = Vec::new();
        put(&mut bytes, "README", &[], b"of no sample");
        put(&mut bytes, "a/1.JPG", &[], b"\xff\xd8");
        put(&mut bytes, "__meta__/x.txt", &[], b"");
        link(&mut bytes, "a/2.lnk");
        put(&mut bytes, "a/1.cls", &[], b"7");
        let end = bytes.len();
        put(&mut bytes, "a/2.cls", &[], b"8");
        assert_eq!(first(&bytes, 1 << 20).unwrap(), "a/1: jpg cls");
        assert_eq!(first(&bytes[..end], 1 << 20).unwrap(), "a/1: jpg cls");
        assert!(first(&bytes[..end - 1], 1 << 20).unwrap_err().contains("the end of file"));
        // A sample ends with its archive.
        let mut two = bytes[..end].to_vec();
        two.resize(end + 2 * BLOCK, 0);
        put(&mut two, "a/1.txt", &[], b"x");
        assert_eq!(first(&two, 1 << 20).unwrap(), "a/1: jpg cls");
        let none = "expected files of a sample, found none";
        assert_eq!(first(&bytes[..2 * BLOCK], 1 << 20).unwrap_err(), none);
    }

    #[test]
    fn flaws_of_a_sample() {
        let mut twice = Vec::new();
        put(&mut twice, "a.txt", &[], b"1");
        put(&mut twice, "a.TXT", &[], b"2");
        let error = first(&twice, 1 << 20).unwrap_err();
        assert_eq!(error, "key \"a\": expected one file \"txt\" of a sample, found two");

        let mut large = Vec::new();
        put(&mut large, "a.txt", &[], &[b'x'; 600]);
        put(&mut large, "a.cls", &[], b"1");
        assert!(first(&large, 1200).unwrap_err().contains("a sample of at most 1200 bytes"));
        assert!(first(&large, 599).unwrap_err().contains("at most 599 bytes, found 600"));

        let (mut before, mut behind) = (Vec::new(), Vec::new());
        link(&mut before, "a.txt");
        put(&mut before, "a.cls", &[], b"1");
        put(&mut behind, "a.cls", &[], b"1");
        link(&mut behind, "a.txt");
        for bytes in [before, behind] {
            assert!(first(&bytes, 1 << 20).unwrap_err().contains("found a link"));
        }
        let mut other = Vec::new();
        link(&mut other, "b.txt");
        put(&mut other, "a.cls", &[], b"1");
        assert!(first(&other, 1 << 20).unwrap_err().starts_with("key \"b\""));
        let mut noted = Vec::new();
        put(&mut noted, "a%2Eb.cls", &[("KISTE.field", "[]")], b"1");
        let note = Note::default();
        let error = sample(&noted, 0, 1 << 20, Some(&note)).err().unwrap();
        assert_eq!(error.key(), Some("a.b"));
    }

    #[test]
    fn files_become_fields() {
        let mut bytes = Vec::new();
        put(&mut bytes, "a.cls", &[("KISTE.field", "[\"label\"]")], b" 7\n");
        put(&mut bytes, "a.json", &[], b"{\"$bin\": \"eA==\"}");
        put(&mut bytes, "a.bin", &[], b"x");
        let group = sample(&bytes, 0, 1 << 20, None).unwrap();
        let all = |note: Option<&Note>, is_decoded: bool| {
            let fields = fields(&group.files, note, is_decoded, &|name| name != "bin");
            let fields = fields.map_err(|(index, error)| format!("{index}: {error}"));
            let show = |field| match field {
                Field::Value(value) => value.to_string(),
                Field::Bytes(bytes) => format!("{} bytes", bytes.len()),
                _ => "an array".to_owned(),
            };
            let shown = fields?.into_iter().map(|(name, field)| format!("{name}={}", show(field)));
            Ok::<_, String>(shown.collect::<Vec<_>>())
        };
        let plain = ["cls=7", "json={\"$bin\": \"eA==\"}", "bin=nil"];
        assert_eq!(all(None, true).unwrap(), plain);
        let own = all(Some(&Note::default()), true).unwrap();
        assert_eq!((&own[0][..], own[1].starts_with("json={")), ("label=7", false));
        assert_eq!(all(None, false).unwrap(), ["cls=3 bytes", "json=16 bytes", "bin=1 bytes"]);

        let mut bad = Vec::new();
        put(&mut bad, "a.txt", &[], b"x");
        put(&mut bad, "a.cls", &[], b"x");
        let group = sample(&bad, 0, 1 << 20, None).unwrap();
        let (index, error) = fields(&group.files, None, true, &|_| true).err().unwrap();
        assert_eq!((index, error.field()), (1, Some("cls")));
    }
}
