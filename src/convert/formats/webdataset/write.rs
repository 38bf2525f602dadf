//! Writes samples to shards of WebDataset.

use std::borrow::Cow;
use std::collections::HashSet;
use std::path::{Path, PathBuf};

use super::carries;
use crate::Value;
use crate::convert::carried::{self, ChangedValues, Changes};
use crate::convert::formats::new_file::NewFile;
use crate::convert::formats::rows;
use crate::convert::writer::SampleWriter;
use crate::error::{Error, ErrorKind, Result};
use crate::format::jsonl;
use crate::format::msgpack::{self, Cursor, Kind, numpy, sample};
use crate::format::numpy::npy;
use crate::format::tar::{BLOCK, RECORD, file_header_with, global_header, padding};
use crate::format::webdataset::meaning::{self, Form, Meaning, Note};
use crate::format::webdataset::record::{Content, is_meta};

/// Writes samples to shards of WebDataset: `PREFIX-000000.tar` and so on.
///
/// A field becomes a file named by the key, a dot, and the field in lower case, as the package
/// webdataset decodes it: `image` becomes `jpg`, `png` and so on, and an integer `label` becomes
/// `cls`. For other fields a suffix is added unless the name ends in it: the image's, `.txt`
/// for strings, `.cls` for integers, `.npy` for arrays, `.bin` for other bytes where the name means
/// something else, and `.json` for anything else, in the notation of
/// [`format::jsonl`](crate::format::jsonl). NumPy integers are integers, other NumPy scalars arrays
/// without axes.
///
/// The shard notes what the files were, so that [`WebDatasetReader`](super::WebDatasetReader) finds
/// the same samples. In keys, `%` becomes `%25`, and a dot after the last slash becomes `%2E`, as
/// readers cut the key there.
///
/// The same samples make the same bytes. A shard appears under its name when it is complete;
/// existing files are not replaced. Keys must be relative names.
///
/// ```
/// use kiste::Value;
/// use kiste::convert::WebDatasetWriter;
/// use kiste::format::msgpack::to_vec;
///
/// # let dir = tempfile::tempdir()?;
/// let mut writer = WebDatasetWriter::create(dir.path().join("train"))?;
/// let sample = Value::Map(vec![
///     ("key".into(), "a/1".into()),
///     ("jpg".into(), Value::Binary(b"\xff\xd8..".to_vec())),
///     ("label".into(), 3.into()),
/// ]);
/// writer.write_packed(&to_vec(&sample)?)?; // files "a/1.jpg" and "a/1.cls"
/// assert_eq!(writer.finish()?, [dir.path().join("train-000000.tar")]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "the output is complete once it is finished"]
pub struct WebDatasetWriter {
    prefix: PathBuf,
    shard_samples: u64,
    shard_bytes: u64,
    shard: Option<Shard>,
    finished: Vec<PathBuf>,
    /// The meaning of the files written so far.
    note: Note,
    changes: Changes,
}

struct Shard {
    file: NewFile,
    note: Note,
    samples: u64,
    bytes: u64,
    last_key: String,
}

impl WebDatasetWriter {
    /// Begins shards whose names begin with this prefix. No file is made before the first sample.
    ///
    /// # Errors
    ///
    /// None yet.
    pub fn create(prefix: impl AsRef<Path>) -> Result<WebDatasetWriter> {
        Ok(WebDatasetWriter {
            prefix: prefix.as_ref().to_path_buf(),
            shard_samples: 10_000,
            shard_bytes: 1 << 30,
            shard: None,
            finished: Vec::new(),
            note: Note::default(),
            changes: Changes::default(),
        })
    }

    /// The most samples in a shard; 0 is taken for 1. Default: 10 000.
    pub fn shard_samples(mut self, samples: u64) -> WebDatasetWriter {
        self.shard_samples = samples.max(1);
        self
    }

    /// A shard that has this many bytes gets no further sample. Default: 1 GiB.
    pub fn shard_bytes(mut self, bytes: u64) -> WebDatasetWriter {
        self.shard_bytes = bytes;
        self
    }

    /// Adds a packed sample.
    ///
    /// # Errors
    ///
    /// [`Invalid`](ErrorKind::Invalid) for keys and fields that readers would not find again. The
    /// sample is not written then, not even in part.
    pub fn write_packed(&mut self, packed: &[u8]) -> Result<()> {
        let key = msgpack::check_sample(packed)?;
        let at = |error: Error| error.with_key(key);
        let changes = carried::check(carries, packed)?;
        check_key(key).map_err(at)?;
        let files = files(packed).map_err(at)?;
        let (most, limit) = (self.shard_samples, self.shard_bytes);
        let is_full = |shard: &mut Shard| shard.samples >= most || shard.bytes >= limit;
        if let Some(full) = self.shard.take_if(is_full) {
            self.finished.push(full.finish()?);
        }
        let shard = match &mut self.shard {
            Some(shard) if shard.last_key == key => {
                let message = "two samples in a row with the same key would become one";
                return Err(at(Error::new(ErrorKind::DuplicateKey, message)));
            }
            Some(shard) => shard,
            None => {
                let mut name = self.prefix.clone().into_os_string();
                name.push(format!("-{:06}.tar", self.finished.len()));
                // The meanings known by now are noted for all files of the shard.
                files.iter().for_each(|file| self.note.set(&file.name, &file.meaning));
                let note = self.note.clone();
                let front = global_header(&[(meaning::SHARD, &note.to_record())]);
                let mut file = NewFile::create(name)?;
                file.append(&front)?;
                let bytes = front.len() as u64;
                self.shard.insert(Shard { file, note, samples: 0, bytes, last_key: String::new() })
            }
        };
        let mut bytes = Vec::with_capacity(packed.len() + files.len() * 3 * BLOCK);
        for File { name, meaning, data } in &files {
            let name_of_file = format!("{}.{name}", meaning::escape(key));
            let own = match *shard.note.meaning(name) == *meaning {
                true => None,
                false => {
                    self.note.set(name, meaning);
                    Some(meaning.to_json().to_string())
                }
            };
            let records: Vec<_> = own.iter().map(|own| (meaning::FILE, &own[..])).collect();
            let header = file_header_with(&name_of_file, data.len() as u64, &records);
            bytes.extend_from_slice(&header.map_err(|error| at(error.into()))?);
            bytes.extend_from_slice(data);
            bytes.resize(bytes.len() + padding(data.len() as u64), 0);
        }
        shard.file.append(&bytes)?;
        self.changes.add(changes);
        shard.samples += 1;
        shard.bytes += bytes.len() as u64;
        shard.last_key.clear();
        shard.last_key.push_str(key);
        Ok(())
    }

    /// Values that became something else so far, because the format has no exact form for them.
    pub fn changes(&self) -> Vec<ChangedValues> {
        self.changes.list()
    }

    /// Completes the last shard. Returns the paths of all shards.
    pub fn finish(mut self) -> Result<Vec<PathBuf>> {
        if let Some(last) = self.shard.take() {
            self.finished.push(last.finish()?);
        }
        Ok(self.finished)
    }
}

impl SampleWriter for WebDatasetWriter {
    fn write_packed(&mut self, packed: &[u8]) -> Result<()> {
        WebDatasetWriter::write_packed(self, packed)
    }

    fn changes(&self) -> Vec<ChangedValues> {
        WebDatasetWriter::changes(self)
    }

    fn finish(self: Box<Self>) -> Result<Vec<PathBuf>> {
        WebDatasetWriter::finish(*self)
    }
}

impl Shard {
    fn finish(mut self) -> Result<PathBuf> {
        let end = (self.bytes + 2 * BLOCK as u64).next_multiple_of(RECORD as u64) - self.bytes;
        self.file.append(&vec![0; end as usize])?;
        let path = self.file.path().to_path_buf();
        self.file.finish()?;
        Ok(path)
    }
}

/// Readers skip some names.
fn check_key(key: &str) -> Result<()> {
    let flaw = if key.rsplit('/').next().unwrap_or_default().is_empty() {
        "expected a key whose last part is not empty"
    } else if key.starts_with('/') || key.split('/').any(|part| part == "..") {
        "expected a key that is a relative name without \"..\""
    } else if is_meta(&meaning::escape(key)) || key.contains('\0') {
        "expected a key that does not begin like __this__ and contains no zero byte"
    } else {
        return Ok(());
    };
    Err(Error::new(ErrorKind::Invalid, flaw))
}

/// A file of a sample.
struct File<'a> {
    /// The end of its name.
    name: String,
    meaning: Meaning,
    data: Cow<'a, [u8]>,
}

/// The files of a sample.
fn files(packed: &[u8]) -> Result<Vec<File<'_>>> {
    let mut fields = Vec::new();
    for field in sample::fields(packed)? {
        let (name, value) = field?;
        let name = Cursor::new(name).read_str()?;
        if name != sample::KEY {
            fields.push((name, value));
        }
    }
    let taken: HashSet<String> = fields.iter().map(|(name, _)| name.to_lowercase()).collect();
    let mut names: HashSet<String> = HashSet::new();
    let mut files = Vec::with_capacity(fields.len());
    for (field, value) in fields {
        if field.is_empty() || field.contains(['/', '\0']) {
            let message = "expected a name of a field without slashes and zero bytes";
            return Err(Error::new(ErrorKind::Invalid, message).with_field(field));
        }
        let (name, form, data) = content(field, value, &taken)?;
        if !names.insert(name.clone()) {
            let message = format!("two fields would be the file {name:?}");
            return Err(Error::new(ErrorKind::Invalid, message).with_field(field));
        }
        files.push(File { name, meaning: Meaning { field: field.to_owned(), form }, data });
    }
    match files.is_empty() {
        true => Err(Error::new(
            ErrorKind::Invalid,
            "a sample without fields would leave nothing in the archive",
        )),
        false => Ok(files),
    }
}

/// The end of the name of a field, and its bytes.
fn content<'a>(
    field: &str,
    value: &'a [u8],
    taken: &HashSet<String>,
) -> Result<(String, Form, Cow<'a, [u8]>)> {
    let field = field.to_lowercase();
    let says = Content::of(&field);
    let suffixed = |content: Content, suffix: &str| match says == content {
        true => field.clone(),
        false => format!("{field}.{suffix}"),
    };
    let json = || {
        let mut text = Vec::new();
        jsonl::write_python(&msgpack::decode(value)?, &mut text)?;
        Ok((suffixed(Content::Json, "json"), Form::Plain, text.into()))
    };
    let integer = |digits: String, form: Form| {
        let name = match field == "label" && !taken.contains("cls") {
            true => "cls".to_owned(),
            false => suffixed(Content::Integer, "cls"),
        };
        (name, form, digits.into_bytes().into())
    };
    let mut cursor = Cursor::new(value);
    Ok(match cursor.peek()? {
        Kind::Bin => {
            let bytes = cursor.read_bin()?;
            let name = match image_suffix(bytes) {
                Some(suffix) if field == "image" && !taken.iter().any(|name| is_image(name)) => {
                    suffix.to_owned()
                }
                Some(suffix) if says == Content::Bytes && !is_image(&field) => {
                    format!("{field}.{suffix}")
                }
                // By a name of another type, the bytes would be decoded.
                _ => suffixed(Content::Bytes, "bin"),
            };
            (name, Form::Plain, bytes.into())
        }
        Kind::Str => {
            let text = cursor.read_str_bytes()?.into();
            (suffixed(Content::Text, "txt"), Form::Plain, text)
        }
        Kind::Int => {
            let digits = match cursor.read_i64() {
                Ok(number) => number.to_string(),
                Err(_) => cursor.read_u64()?.to_string(),
            };
            integer(digits, Form::Plain)
        }
        Kind::Map => match numpy::read(&mut cursor) {
            Ok(Some(numpy::Special::Array(array))) => {
                (suffixed(Content::Npy, "npy"), Form::Plain, npy::encode(&array)?.into())
            }
            Ok(Some(numpy::Special::Scalar(array))) => match rows::integer(&array) {
                Some(Value::Integer(number)) => {
                    integer(number.to_string(), Form::Digits(array.dtype().clone()))
                }
                _ if array.dtype().has_objects() => return json(),
                _ => (suffixed(Content::Npy, "npy"), Form::Scalar, npy::encode(&array)?.into()),
            },
            _ => return json(),
        },
        _ => return json(),
    })
}

/// The suffixes that webdataset decodes as images.
const IMAGES: [&str; 12] =
    ["jpg", "jpeg", "png", "gif", "webp", "bmp", "tif", "tiff", "ppm", "pgm", "pbm", "pnm"];

fn is_image(name: &str) -> bool {
    IMAGES.contains(&name.rsplit('.').next().unwrap_or_default())
}

/// The suffix of an image of a common format, by its first bytes.
fn image_suffix(bytes: &[u8]) -> Option<&'static str> {
    let starts: [(&[u8], &'static str); 6] = [
        (b"\xff\xd8\xff", "jpg"),
        (b"\x89PNG\r\n\x1a\n", "png"),
        (b"GIF87a", "gif"),
        (b"GIF89a", "gif"),
        (b"II*\0", "tiff"),
        (b"MM\0*", "tiff"),
    ];
    if bytes.starts_with(b"RIFF") && bytes.get(8..12) == Some(b"WEBP") {
        return Some("webp");
    }
    starts.iter().find(|(start, _)| bytes.starts_with(start)).map(|(_, suffix)| *suffix)
}
