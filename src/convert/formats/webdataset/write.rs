//! Writes samples to shards of WebDataset.

use std::borrow::Cow;
use std::collections::HashSet;
use std::path::{Path, PathBuf};

use super::Content;
use crate::Value;
use crate::convert::formats::new_file::NewFile;
use crate::error::{Error, ErrorKind, Result};
use crate::format::jsonl;
use crate::format::msgpack::{self, Cursor, Kind, numpy, sample};
use crate::format::numpy::npy;
use crate::format::tar::{BLOCK, RECORD, file_header, padding};

/// Writes samples to shards of WebDataset: `PREFIX-000000.tar` and so on.
///
/// A field becomes a file named by the key, a dot, and the field. If the name of the field does not
/// end in one that [`WebDatasetReader`](super::WebDatasetReader) decodes to the same type, a suffix
/// is added: `.txt` for strings, `.cls` for integers, `.npy` for arrays, `.bin` for bytes, and
/// `.json` for anything else, in the notation of [`format::jsonl`](crate::format::jsonl).
///
/// The same samples make the same bytes. A shard appears under its name when it is complete;
/// existing files are not replaced. Keys must be relative names whose last part has no dot, so that
/// readers find the same keys.
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
/// writer.write_packed(&to_vec(&sample)?)?; // files "a/1.jpg" and "a/1.label.cls"
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
}

struct Shard {
    file: NewFile,
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
        check_key(key).map_err(at)?;
        let bytes = files(key, packed).map_err(at)?;
        let (most, limit) = (self.shard_samples, self.shard_bytes);
        let is_full = |shard: &mut Shard| shard.samples >= most || shard.bytes >= limit;
        if let Some(full) = self.shard.take_if(is_full) {
            self.finished.push(full.finish()?);
        }
        let shard = match &mut self.shard {
            Some(shard) if shard.last_key == key => {
                let message = "two samples of one key in a row would become one";
                return Err(at(Error::new(ErrorKind::DuplicateKey, message)));
            }
            Some(shard) => shard,
            None => {
                let mut name = self.prefix.clone().into_os_string();
                name.push(format!("-{:06}.tar", self.finished.len()));
                let file = NewFile::create(name)?;
                let shard = Shard { file, samples: 0, bytes: 0, last_key: String::new() };
                self.shard.insert(shard)
            }
        };
        shard.file.append(&bytes)?;
        shard.samples += 1;
        shard.bytes += bytes.len() as u64;
        shard.last_key.clear();
        shard.last_key.push_str(key);
        Ok(())
    }

    /// Completes the last shard. Returns the paths of all shards.
    pub fn finish(mut self) -> Result<Vec<PathBuf>> {
        if let Some(last) = self.shard.take() {
            self.finished.push(last.finish()?);
        }
        Ok(self.finished)
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

/// Readers cut a name at the first dot of its last part, and skip some names.
fn check_key(key: &str) -> Result<()> {
    let last = key.rsplit('/').next().unwrap_or_default();
    let flaw = if last.is_empty() || last.contains('.') {
        "expected a key whose last part is neither empty nor has a dot, as readers cut it there"
    } else if key.starts_with('/') || key.split('/').any(|part| part == "..") {
        "expected a key that is a relative name without \"..\""
    } else if super::is_meta(key) || key.contains('\0') {
        "expected a key that does not begin like __this__ and contains no zero byte"
    } else {
        return Ok(());
    };
    Err(Error::new(ErrorKind::Invalid, flaw))
}

/// The files of a sample, with headers and padding.
fn files(key: &str, packed: &[u8]) -> Result<Vec<u8>> {
    let mut out = Vec::with_capacity(packed.len() + 8 * BLOCK);
    let mut names: HashSet<String> = HashSet::new();
    for field in sample::fields(packed)? {
        let (name, value) = field?;
        let Ok(name) = Cursor::new(name).read_str() else {
            let message = "expected fields whose names are strings, found another";
            return Err(Error::new(ErrorKind::Invalid, message));
        };
        if name == sample::KEY {
            continue;
        }
        let (content, data) = content(name, value)?;
        let name = match content {
            Some(suffix) => format!("{name}.{suffix}"),
            None => name.to_owned(),
        };
        if name.is_empty() || name.contains(['/', '\0']) || name != name.to_lowercase() {
            let message = "readers know fields by names in lower case, without slashes";
            return Err(Error::new(ErrorKind::Invalid, message).with_field(name));
        }
        out.extend_from_slice(&file_header(&format!("{key}.{name}"), data.len() as u64)?);
        out.extend_from_slice(&data);
        out.resize(out.len() + padding(data.len() as u64), 0);
        if let Some(name) = names.replace(name) {
            let message = format!("expected fields of different names, found {name:?} twice");
            return Err(Error::new(ErrorKind::Invalid, message));
        }
    }
    match names.is_empty() {
        true => Err(Error::new(ErrorKind::Invalid, "a sample without fields would not be there")),
        false => Ok(out),
    }
}

/// The bytes of a field, and the suffix that its name needs.
fn content<'a>(name: &str, value: &'a [u8]) -> Result<(Option<&'static str>, Cow<'a, [u8]>)> {
    let says = Content::of(name);
    let mut cursor = Cursor::new(value);
    let unless = |content: Content, suffix| (says != content).then_some(suffix);
    match cursor.peek()? {
        // By a name of another type, the bytes would be decoded.
        Kind::Bin if says == Content::Bytes => Ok((None, cursor.read_bin()?.into())),
        Kind::Bin => Ok((Some("bin"), cursor.read_bin()?.into())),
        Kind::Str => Ok((unless(Content::Text, "txt"), cursor.read_str_bytes()?.into())),
        Kind::Map => match numpy::read(&mut cursor) {
            Ok(Some(numpy::Special::Array(array))) => {
                let data = npy::encode(&array)?;
                Ok((unless(Content::Npy, "npy"), data.into()))
            }
            _ => json(says, value),
        },
        _ => match msgpack::decode(value)? {
            Value::Integer(number) => {
                let digits = number.to_string().into_bytes();
                Ok((unless(Content::Integer, "cls"), digits.into()))
            }
            _ => json(says, value),
        },
    }
}

fn json<'a>(says: Content, value: &[u8]) -> Result<(Option<&'static str>, Cow<'a, [u8]>)> {
    let mut text = Vec::new();
    jsonl::write(&msgpack::decode(value)?, &mut text)?;
    Ok(((says != Content::Json).then_some("json"), text.into()))
}
