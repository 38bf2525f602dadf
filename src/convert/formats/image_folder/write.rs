//! Samples to a folder of images.

use std::collections::{BTreeSet, HashSet};
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};

use super::carries;
use super::metadata::{FILE_NAME, image_in};
use crate::Value;
use crate::convert::carried::{self, Changes};
use crate::convert::file_names::is_image;
use crate::convert::formats::image_bytes::endings;
use crate::convert::writer::sample_writer;
use crate::error::{Error, ErrorKind, Remedy, Result};
use crate::format::jsonl;
use crate::format::msgpack::{self, Cursor, Kind, sample};

/// The file next to the images with their other fields.
const METADATA: &str = "metadata.jsonl";

/// Samples whose files are taken and for which the other sample is looked up: that reads all metadata.
const LOOKED_UP: usize = 5;

/// Writes samples to a folder of images that [`ImageFolderReader`](super::ImageFolderReader) and
/// Hugging Face's `imagefolder` read.
///
/// The image is the field `image`, or else the only field of bytes that begins like an image. Its
/// file is `{label}/{key}`, or just the key if that begins with the label: samples of an
/// `ImageFolderReader` get the files that they were made of. The extension follows from the bytes,
/// such as `.jpg` for JPEG; it is added to the key or replaces a wrong one.
///
/// If a sample has other fields, or fields that the paths cannot express, all samples are listed in
/// `metadata.jsonl` in their order: with the path as `file_name` in place of the image, or as
/// `x_file_name` for an image `x`, and with the name of the label. Values are in the notation of
/// [`format::jsonl`](crate::format::jsonl). An [`ImageFolderReader`](super::ImageFolderReader)
/// makes the same samples of the folder, provided that the names of the labels are in natural
/// order.
///
/// Names that lead out of the folder or have a special meaning on some system are refused. Files
/// are not synced one by one, which would take longer than writing them: sync them before you
/// delete the source.
#[must_use = "the output is complete once it is finished"]
pub struct ImageFolderWriter {
    root: PathBuf,
    labels: Option<Vec<String>>,
    folders: HashSet<String>,
    metadata: BufWriter<File>,
    line: Vec<u8>,
    /// Whether a sample had more than an image, a label, and the key that its path says.
    more: bool,
    /// Labels that are numbers without names.
    numbers: BTreeSet<u64>,
    /// Files that turned out to belong to other samples.
    taken: usize,
    changes: Changes,
}

/// The parts of a sample.
struct Parts<'a> {
    key: &'a str,
    image: &'a [u8],
    label: Option<String>,
    /// The label if it is a number without a name: `Some(None)` for a negative one.
    number: Option<Option<u64>>,
    /// All fields in their order, with the column of the path in place of the image.
    row: Vec<(Value, Value)>,
    /// The index of that column.
    column: usize,
}

impl ImageFolderWriter {
    /// Creates the folder, which must not exist yet.
    ///
    /// # Errors
    ///
    /// [`AlreadyExists`](ErrorKind::AlreadyExists) if it does.
    pub fn create(root: impl AsRef<Path>) -> Result<ImageFolderWriter> {
        let root = root.as_ref().to_path_buf();
        fs::create_dir(&root).map_err(|error| Error::io(&root, error))?;
        let metadata = root.join(METADATA);
        let file = File::create_new(&metadata).map_err(|error| Error::io(metadata, error))?;
        Ok(ImageFolderWriter {
            root,
            labels: None,
            folders: HashSet::new(),
            metadata: BufWriter::new(file),
            line: Vec::new(),
            more: false,
            numbers: BTreeSet::new(),
            taken: 0,
            changes: Changes::default(),
        })
    }

    /// The names of labels that are numbers, which become the names of folders. Default: none, and
    /// the folders are named by the numbers.
    pub fn labels(mut self, names: &[String]) -> ImageFolderWriter {
        self.labels = Some(names.to_vec());
        self
    }

    /// Adds a packed sample.
    ///
    /// # Errors
    ///
    /// [`Invalid`](ErrorKind::Invalid) for a sample without an image or with several, a label that
    /// has no name, and a key or label that cannot be the name of a file;
    /// [`DuplicateKey`](ErrorKind::DuplicateKey) if two samples would be the same file. The
    /// sample is not written then.
    pub fn write_packed(&mut self, packed: &[u8]) -> Result<()> {
        let key = msgpack::check_sample(packed)?;
        let changes = carried::check(carries, packed)?;
        let at = |error: Error| error.with_key(key);
        let parts = self.parts(key, packed).map_err(at)?;
        let name = parts.name().map_err(at)?;
        check_name(&name).map_err(at)?;
        let (image, number) = (parts.image, parts.number);
        let more = name != key || !parts.is_plain();
        self.render_metadata(&name, parts).map_err(at)?;
        self.write_image(&name, image).map_err(at)?;
        self.more |= more || number == Some(None);
        self.numbers.extend(number.flatten());
        let written = self.metadata.write_all(&self.line);
        written.map_err(|error| Error::io(self.root.join(METADATA), error))?;
        self.changes.add(changes);
        Ok(())
    }

    fn parts<'a>(&self, key: &'a str, packed: &'a [u8]) -> Result<Parts<'a>> {
        let field = image_field(packed)?;
        let (row, column) = (Vec::new(), 0);
        let mut parts = Parts { key, image: &[], label: None, number: None, row, column };
        for entry in sample::fields(packed)? {
            let (name, value) = entry?;
            let mut name = msgpack::decode(name)?;
            let value = match name.as_str().unwrap_or_default() {
                text if text == field => {
                    parts.image = Cursor::new(value).read_bin()?;
                    parts.column = parts.row.len();
                    name = column_of(field).into();
                    Value::Nil
                }
                "label" => {
                    let value = msgpack::decode(value)?;
                    parts.label = self.label(&value)?;
                    parts.number = match &value {
                        Value::Integer(number) if self.labels.is_none() => Some(number.as_u64()),
                        _ => None,
                    };
                    let named = parts.label.clone().filter(|_| self.labels.is_some());
                    named.map_or(value, Value::from)
                }
                text if text == column_of(field) || is_path_of_image(text, value)? => {
                    let message = "a column of that name has the path of an image";
                    return Err(Error::new(ErrorKind::Invalid, message).with_field(text));
                }
                _ => msgpack::decode(value)?,
            };
            parts.row.push((name, value));
        }
        Ok(parts)
    }

    fn label(&self, value: &Value) -> Result<Option<String>> {
        let number = match value {
            Value::Nil => return Ok(None),
            Value::Integer(number) => number,
            value => match value.as_str() {
                Some(text) => return Ok(Some(text.to_owned())),
                None => {
                    let message = "field \"label\": expected a number or text, found neither";
                    return Err(Error::new(ErrorKind::Invalid, message));
                }
            },
        };
        let Some(names) = &self.labels else {
            return Ok(Some(number.to_string()));
        };
        let name = number.as_u64().and_then(|n| names.get(usize::try_from(n).ok()?));
        let message = || {
            let message = format!("expected a label below {}, found {number}", names.len());
            Error::new(ErrorKind::Invalid, message)
        };
        Ok(Some(name.ok_or_else(message)?.clone()))
    }

    fn write_image(&mut self, name: &str, image: &[u8]) -> Result<()> {
        let path = self.root.join(name);
        let at = |error| Error::io(&path, error);
        if let Some((folder, _)) = name.rsplit_once('/') {
            if !self.folders.contains(folder) {
                fs::create_dir_all(self.root.join(folder)).map_err(at)?;
                self.folders.insert(folder.to_owned());
            }
        }
        match File::create_new(&path).and_then(|mut file| file.write_all(image)) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(self.taken(name)),
            written => written.map_err(at),
        }
    }

    /// The error for a file that another sample is already: `a.png` and `a.jpg` may be one file. On some systems the names of two files may
    /// differ in case, or in how accents are spelled.
    fn taken(&mut self, name: &str) -> Error {
        self.taken += 1;
        let key = if self.taken <= LOOKED_UP { self.key_of(name) } else { Ok(None) };
        let message = format!("another sample has the file {name:?} already");
        let error = Error::new(ErrorKind::DuplicateKey, message).with_remedy(Remedy::KeyField);
        match key {
            Ok(Some(key)) => error.note(format_args!("its key is {key:?}")),
            _ => error,
        }
    }

    /// The key of the sample that was written to this file: the metadata has all of them.
    fn key_of(&mut self, name: &str) -> Result<Option<String>> {
        let path = self.root.join(METADATA);
        let at = |error| Error::io(&path, error);
        self.metadata.flush().map_err(at)?;
        let (mut alike, folded) = (None, name.to_lowercase());
        for line in BufReader::new(File::open(&path).map_err(at)?).split(b'\n') {
            let Ok(row) = jsonl::parse(&line.map_err(at)?) else { continue };
            let file = row.as_map().and_then(|row| {
                row.iter().find(|(column, _)| column.as_str().and_then(image_in).is_some())
            });
            let file = file.and_then(|(_, file)| file.as_str()).unwrap_or_default();
            let key = || row[sample::KEY].as_str().map(str::to_owned);
            if file == name {
                return Ok(key());
            }
            if alike.is_none() && file.to_lowercase() == folded {
                alike = key();
            }
        }
        Ok(alike)
    }

    /// Renders the row of a sample in the metadata.
    fn render_metadata(&mut self, name: &str, mut parts: Parts<'_>) -> Result<()> {
        parts.row[parts.column].1 = name.into();
        self.line.clear();
        jsonl::write(&Value::Map(parts.row), &mut self.line)
            .map_err(|error| Error::new(ErrorKind::Invalid, error.to_string()))?;
        self.line.push(b'\n');
        Ok(())
    }

    /// Completes the folder. Removes `metadata.jsonl` if the paths say everything.
    pub fn finish(mut self) -> Result<()> {
        let path = self.root.join(METADATA);
        let at = |error| Error::io(&path, error);
        self.metadata.flush().map_err(at)?;
        // A reader numbers folders from 0, so other numbers need the metadata.
        let counted = self.numbers.iter().copied().eq(0..self.numbers.len() as u64);
        match self.more || !counted {
            true => self.metadata.get_ref().sync_all().map_err(at),
            false => fs::remove_file(&path).map_err(at),
        }
    }
}

sample_writer!(ImageFolderWriter, |writer| &writer.root, writer.changes.list());

/// The field of the image: `image`, or else the only field of bytes that begins like one.
fn image_field(packed: &[u8]) -> Result<&str> {
    let mut found: Option<&str> = None;
    for field in sample::fields(packed)? {
        let (name, value) = field?;
        let name = Cursor::new(name).read_str().unwrap_or_default();
        let mut value = Cursor::new(value);
        if value.peek()? != Kind::Bin {
            continue;
        }
        if name == "image" {
            return Ok(name);
        }
        if endings(value.read_bin()?).is_some() {
            if let Some(other) = found {
                let message = format!("expected one image, found {other:?} and {name:?}");
                return Err(Error::new(ErrorKind::Invalid, message));
            }
            found = Some(name);
        }
    }
    let none = "expected a field with the bytes of an image, found none";
    found.ok_or_else(|| Error::new(ErrorKind::Invalid, none))
}

/// Whether a reader of the folder would take this field for the path of another image.
fn is_path_of_image(name: &str, value: &[u8]) -> Result<bool> {
    Ok(image_in(name).is_some() && Cursor::new(value).peek()? == Kind::Str)
}

/// The column for the path of the image in this field.
fn column_of(field: &str) -> String {
    match field {
        "image" => FILE_NAME.to_owned(),
        field => format!("{field}_{FILE_NAME}"),
    }
}

impl Parts<'_> {
    /// Whether the file alone says everything: the key, and the label if that is a folder.
    fn is_plain(&self) -> bool {
        let names = self.row.iter().filter_map(|(name, _)| name.as_str());
        let expected: &[&str] = match self.label {
            Some(_) => &[sample::KEY, FILE_NAME, "label"],
            None => &[sample::KEY, FILE_NAME],
        };
        names.eq(expected.iter().copied()) && (self.label.is_some() || !self.key.contains('/'))
    }

    /// The path of the file.
    fn name(&self) -> Result<String> {
        let name = match &self.label {
            Some(label) if label.contains('/') => {
                let message = format!("expected a label that names a folder, found {label:?}");
                return Err(Error::new(ErrorKind::Invalid, message));
            }
            Some(label) if !starts_with_folder(self.key, label) => format!("{label}/{}", self.key),
            _ => self.key.to_owned(),
        };
        let Some(endings) = endings(self.image) else {
            return match is_image(&name) {
                true => Ok(name),
                false => {
                    let message = "expected an image of a known kind, found other bytes";
                    Err(Error::new(ErrorKind::Invalid, message))
                }
            };
        };
        let has = |ending: &&str| {
            let found = name.rsplit_once('.').map_or("", |(_, ending)| ending);
            found.eq_ignore_ascii_case(ending)
        };
        Ok(match name.rsplit_once('.') {
            _ if endings.iter().any(has) => name,
            Some((stem, _)) if is_image(&name) => format!("{stem}.{}", endings[0]),
            _ => format!("{name}.{}", endings[0]),
        })
    }
}

fn starts_with_folder(key: &str, folder: &str) -> bool {
    key.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'))
}

/// Names that Windows takes for devices, with any extension.
const DEVICES: [&str; 6] = ["con", "prn", "aux", "nul", "com", "lpt"];

/// Fails unless this is the path of a file in the folder, on any system.
fn check_name(name: &str) -> Result<()> {
    let flaw = |part: &str| {
        let stem = part.split('.').next().unwrap_or_default().to_lowercase();
        let device = stem.trim_end_matches(|c: char| c.is_ascii_digit());
        let numbered = stem.len() == device.len() + 1;
        let is_device =
            DEVICES[..4].contains(&&*stem) || (numbered && DEVICES[4..].contains(&device));
        match part {
            "" => Some("an empty part"),
            "." | ".." => Some("a part that leads elsewhere"),
            _ if part.starts_with('.') => Some("a hidden part"),
            _ if part.contains(['\\', ':']) => Some("a backslash or colon"),
            _ if part.chars().any(char::is_control) => Some("a control character"),
            _ if part.ends_with([' ', '.']) => Some("a space or dot at the end of a part"),
            _ if part.len() > 255 => Some("a part of more than 255 bytes"),
            _ if is_device => Some("the name of a device"),
            _ => None,
        }
    };
    match name.split('/').find_map(flaw) {
        Some(found) => {
            let message = format!("expected the path of a file, found {found} in {name:?}");
            Err(Error::new(ErrorKind::Invalid, message))
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_are_refused() {
        let long = "x".repeat(256);
        for name in [
            "",
            "/a",
            "a//b",
            "a/",
            "../a",
            "a/..",
            "./a",
            "a\0b",
            "a\\b",
            "C:/a",
            "a\n",
            ".a",
            "a/.b",
            "nul",
            "a/NUL.jpg",
            "com1.jpg",
            "Lpt9",
            "a ",
            "a.",
            "a. /b",
            &long,
        ] {
            assert!(check_name(name).is_err(), "{name:?}");
        }
        for name in
            ["a", "a/b.jpg", "a..b", "com", "com10", "nullo", "lpt.jpg", "äö/ü ü.png", "con1"]
        {
            assert!(check_name(name).is_ok(), "{name:?}");
        }
    }

    #[test]
    fn names_end_as_the_bytes_ask_for() {
        let table: [(&str, Option<&str>, &[u8], &str); 8] = [
            ("a", None, b"\xff\xd8\xff", "a.jpg"),
            ("a.JPEG", None, b"\xff\xd8\xff", "a.JPEG"),
            ("a.png", None, b"\xff\xd8\xff", "a.jpg"),
            ("a.b", None, b"GIF89a", "a.b.gif"),
            ("a.jpg", None, b"no image", "a.jpg"),
            ("cat/a", Some("cat"), b"P5\n", "cat/a.ppm"),
            ("cats/a", Some("cat"), b"RIFF____WEBP", "cat/cats/a.webp"),
            ("a.pgm", Some("7"), b"P5\n", "7/a.pgm"),
        ];
        for (key, label, image, expected) in table {
            let label = label.map(str::to_owned);
            let (number, row) = (None, Vec::new());
            let parts = Parts { key, image, label, number, row, column: 0 };
            assert_eq!(parts.name().unwrap(), expected);
        }
        let (label, number, row) = (None, None, Vec::new());
        let parts = Parts { key: "a", image: b"Pa", label, number, row, column: 0 };
        assert!(parts.name().is_err());
    }
}
