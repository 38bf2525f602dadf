//! Writes samples to JSON lines.

use std::path::Path;

use super::carries;
use crate::convert::carried::{self, Changes};
use crate::convert::formats::new_file::NewFile;
use crate::convert::writer::sample_writer;
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
    file: NewFile,
    line: Vec<u8>,
    changes: Changes,
}

impl JsonLinesWriter {
    /// Begins a file, which must not exist yet.
    ///
    /// # Errors
    ///
    /// [`AlreadyExists`](ErrorKind::AlreadyExists) if it does.
    pub fn create(path: impl AsRef<Path>) -> Result<JsonLinesWriter> {
        let (file, changes) = (NewFile::create(path.as_ref())?, Changes::default());
        Ok(JsonLinesWriter { file, line: Vec::new(), changes })
    }

    /// Adds a packed sample.
    ///
    /// # Errors
    ///
    /// [`Invalid`](ErrorKind::Invalid) for a sample without a key.
    pub fn write_packed(&mut self, packed: &[u8]) -> Result<()> {
        let key = msgpack::check_sample(packed)?;
        let changes = carried::check(carries, packed)?;
        self.line.clear();
        jsonl::write(&msgpack::decode(packed)?, &mut self.line)
            .map_err(|error| Error::new(ErrorKind::Invalid, error.to_string()).with_key(key))?;
        self.line.push(b'\n');
        self.file.append(&self.line)?;
        self.changes.add(changes);
        Ok(())
    }

    fn next_file(&mut self, path: &Path) -> Result<()> {
        self.file.next(path)
    }

    /// Makes the file durable and gives it its name.
    pub fn finish(self) -> Result<()> {
        self.file.finish()
    }
}

sample_writer!(JsonLinesWriter, |writer| writer.file.path(), writer.changes.list(), next_file);
