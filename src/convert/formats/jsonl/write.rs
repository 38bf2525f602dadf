//! Writes samples to JSON lines.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use crate::error::{Error, ErrorKind, Result};
use crate::format::{jsonl, msgpack};

/// Writes samples to a file of JSON lines, which can hold every value of msgpack.
///
/// ```
/// use kiste::convert::JsonLinesWriter;
///
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("numbers.jsonl");
/// let mut writer = JsonLinesWriter::create(&path)?;
/// writer.write_packed(b"\x82\xa3key\xa1a\xa1n\x01")?;
/// writer.finish()?;
/// assert_eq!(std::fs::read_to_string(path)?.trim_end(), r#"{"key":"a","n":1}"#);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "the output is complete once it is finished"]
pub struct JsonLinesWriter {
    path: PathBuf,
    file: BufWriter<File>,
    line: Vec<u8>,
}

impl JsonLinesWriter {
    /// Begins a file, which must not exist yet.
    ///
    /// # Errors
    ///
    /// [`AlreadyExists`](ErrorKind::AlreadyExists) if it does.
    pub fn create(path: impl AsRef<Path>) -> Result<JsonLinesWriter> {
        let path = path.as_ref().to_path_buf();
        let file = File::create_new(&path).map_err(|error| Error::io(&path, error))?;
        Ok(JsonLinesWriter { path, file: BufWriter::new(file), line: Vec::new() })
    }

    /// Adds a packed sample.
    ///
    /// # Errors
    ///
    /// [`Invalid`](ErrorKind::Invalid) for a sample without a key.
    pub fn write_packed(&mut self, packed: &[u8]) -> Result<()> {
        let key = msgpack::check_sample(packed)?;
        self.line.clear();
        jsonl::write(&msgpack::decode(packed)?, &mut self.line)
            .map_err(|error| Error::new(ErrorKind::Invalid, error.to_string()).with_key(key))?;
        self.line.push(b'\n');
        self.file.write_all(&self.line).map_err(|error| Error::io(&self.path, error))
    }

    /// The path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Makes the file durable.
    pub fn finish(self) -> Result<()> {
        let file = self.file.into_inner().map_err(std::io::IntoInnerError::into_error);
        file.and_then(|file| file.sync_all()).map_err(|error| Error::io(&self.path, error))
    }
}
