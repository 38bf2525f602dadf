//! The meaning of a sample's files in the shards that kiste writes.
//!
//! Readers of WebDataset know a file by the end of its name: `jpg` is a picture, `cls` an integer.
//! So the field `label` becomes the file `cls`, and `caption` becomes `caption.txt`. What they were
//! is noted in the shard, so that reading gives back the same fields: for the whole shard in a
//! global pax header at its front, and for files that differ from that in a pax header before each.
//! Python's `tarfile`, and so the package webdataset, passes over both.
//!
//! | record | |
//! | --- | --- |
//! | `KISTE.webdataset` | global: `{"version": 1, "fields": {"cls": ["label"], ..}}` |
//! | `KISTE.field` | of one file: `["label"]` |
//!
//! The second item of such a list, if there is one, is `"scalar"` for a NumPy scalar in an `npy`
//! file, or the type of a NumPy integer in digits, such as `"<i8"`. In these shards JSON files are in
//! the notation of [`format::jsonl`](crate::format::jsonl), and keys are [escaped](escape).

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde_json::{Value as Json, json};

use crate::error::{Error, ErrorKind, Result};
use crate::format::tar::Records;
use crate::value::{ByteOrder, DType, DTypeKind, NdArray};

/// The record about a shard.
pub(crate) const SHARD: &str = "KISTE.webdataset";
/// The record about a file.
pub(crate) const FILE: &str = "KISTE.field";
/// The version of both.
const VERSION: u64 = 1;

/// The files that a note may name, and bytes of their names together: a pax header of more than a
/// mebibyte is refused.
const MOST: (usize, usize) = (4096, 1 << 18);

/// The meaning of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Meaning {
    /// The field.
    pub(crate) field: String,
    pub(crate) form: Form,
}

/// How a value is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Form {
    /// As the name of the file says.
    Plain,
    /// A NumPy scalar, as an array without axes.
    Scalar,
    /// A NumPy integer, as digits.
    Digits(DType),
}

impl Meaning {
    /// The meaning of a file without a note.
    pub(crate) fn plain(name: &str) -> Meaning {
        Meaning { field: name.to_owned(), form: Form::Plain }
    }

    pub(crate) fn to_json(&self) -> Json {
        match &self.form {
            Form::Plain => json!([self.field]),
            Form::Scalar => json!([self.field, "scalar"]),
            Form::Digits(dtype) => json!([self.field, dtype.to_string()]),
        }
    }

    fn of(json: &Json) -> Option<Meaning> {
        let items = json.as_array()?;
        let field = items.first()?.as_str()?.to_owned();
        let form = match items.get(1).map(Json::as_str) {
            None => Form::Plain,
            Some(form) if form? == "scalar" => Form::Scalar,
            Some(form) => {
                let dtype = form?.parse::<DType>().ok()?;
                let is_int = matches!(dtype.kind(), DTypeKind::Int | DTypeKind::UInt);
                Form::Digits(Some(dtype).filter(|_| is_int)?)
            }
        };
        (items.len() <= 2).then_some(Meaning { field, form })
    }
}

/// The meanings of the files of a shard, by the ends of their names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Note {
    files: BTreeMap<String, Meaning>,
    bytes: usize,
}

impl Note {
    /// Adds the meaning of files of this name, in place of another one, while there is room.
    pub(crate) fn set(&mut self, name: &str, meaning: &Meaning) {
        if *meaning == Meaning::plain(name) {
            self.files.remove(name);
        } else if self.files.len() < MOST.0 && self.bytes < MOST.1 {
            self.bytes += name.len() + meaning.field.len();
            self.files.insert(name.to_owned(), meaning.clone());
        }
    }

    /// The meaning of a file of this name.
    pub(crate) fn meaning(&self, name: &str) -> Cow<'_, Meaning> {
        match self.files.get(name) {
            Some(meaning) => Cow::Borrowed(meaning),
            None => Cow::Owned(Meaning::plain(name)),
        }
    }

    pub(crate) fn to_record(&self) -> String {
        let files = self.files.iter().map(|(name, meaning)| (name.clone(), meaning.to_json()));
        json!({"version": VERSION, "fields": files.collect::<serde_json::Map<_, _>>()}).to_string()
    }

    /// The note in these records; `None` if another program wrote the shard.
    pub(crate) fn of(records: &Records) -> Result<Option<Note>> {
        if records.is_empty() {
            return Err(damaged(SHARD));
        }
        let Some((_, text)) = records.iter().find(|(name, _)| name == SHARD) else {
            return Ok(None);
        };
        let json: Json = serde_json::from_str(text).map_err(|_| damaged(SHARD))?;
        if json["version"].as_u64() != Some(VERSION) {
            let message = "the shard was written by a newer version of kiste";
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        let mut files = BTreeMap::new();
        for (name, meaning) in json["fields"].as_object().ok_or_else(|| damaged(SHARD))? {
            let meaning = Meaning::of(meaning).ok_or_else(|| damaged(SHARD))?;
            files.insert(name.clone(), meaning);
        }
        Ok(Some(Note { files, bytes: 0 }))
    }
}

/// The meaning of a file by its records.
pub(crate) fn of_file(records: &Records) -> Result<Option<Meaning>> {
    let Some((_, text)) = records.iter().find(|(name, _)| name == FILE) else { return Ok(None) };
    let json: Option<Json> = serde_json::from_str(text).ok();
    json.as_ref().and_then(Meaning::of).map(Some).ok_or_else(|| damaged(FILE))
}

fn damaged(record: &str) -> Error {
    Error::new(ErrorKind::Damaged, format!("expected {record} as kiste writes it, found another"))
}

/// A key as the name of files, which ends at the first dot of its last part: `%` becomes `%25`, and
/// a dot of the last part `%2E`, as in URLs.
pub(crate) fn escape(key: &str) -> Cow<'_, str> {
    let last = key.rfind('/').map_or(0, |slash| slash + 1);
    if !key.contains('%') && !key[last..].contains('.') {
        return Cow::Borrowed(key);
    }
    let (folders, name) = (key[..last].replace('%', "%25"), key[last..].replace('%', "%25"));
    Cow::Owned(folders + &name.replace('.', "%2E"))
}

/// The key of an escaped one.
pub(crate) fn unescape(name: &str) -> String {
    name.replace("%2E", ".").replace("%25", "%")
}

/// The NumPy integer of this type, if the digits are one.
pub(crate) fn digits(dtype: &DType, digits: &str) -> Option<NdArray<'static>> {
    let number: i128 = digits.parse().ok()?;
    let size = dtype.item_size();
    let bytes = number.to_le_bytes();
    let mut data = bytes.get(..size)?.to_vec();
    // The bytes that were cut off say nothing but the sign.
    let sign = if dtype.kind() == DTypeKind::Int && data[size - 1] >= 0x80 { 0xff } else { 0 };
    if bytes[size..].iter().any(|&byte| byte != sign) {
        return None;
    }
    if dtype.byte_order() == ByteOrder::Big {
        data.reverse();
    }
    NdArray::new(dtype.clone(), [], data).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_escaped_so_that_they_read_back() {
        let table = [
            ("a", "a"),
            ("a.b/c", "a.b/c"),
            ("a.b/c.d.e", "a.b/c%2Ed%2Ee"),
            (".hidden", "%2Ehidden"),
            ("100%/50%.x", "100%25/50%25%2Ex"),
            ("%2E.%25", "%252E%2E%2525"),
            ("%252E", "%25252E"),
        ];
        for (key, name) in table {
            assert_eq!(escape(key), name);
            assert_eq!(unescape(name), key);
        }
    }

    #[test]
    fn digits_of_all_types() {
        for (dtype, text, bytes) in [
            ("<i8", "-2", Some(vec![0xfe, 255, 255, 255, 255, 255, 255, 255])),
            ("|u1", "200", Some(vec![200])),
            ("|i1", "200", None),
            ("|i1", "-128", Some(vec![0x80])),
            (">u2", "258", Some(vec![1, 2])),
            ("<u8", "18446744073709551615", Some(vec![255; 8])),
            ("<u8", "-1", None),
            ("<u8", "x", None),
        ] {
            let found = digits(&dtype.parse().unwrap(), text).map(|found| found.bytes().to_vec());
            assert_eq!(found, bytes, "{dtype} {text}");
        }
    }
}
