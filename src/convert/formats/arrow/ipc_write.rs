//! Writes samples to files of Arrow IPC.

use std::path::{Path, PathBuf};

use arrow_ipc::writer::FileWriter;
use arrow_schema::ArrowError;

use super::table::Table;
use crate::convert::formats::new_file::NewFile;
use crate::convert::writer::sample_writer;
use crate::error::{Error, ErrorKind, Result};

/// Writes samples to a file of Arrow IPC, which is also Feather, version 2. Feature `parquet`.
///
/// Columns are as for [`ParquetWriter`](super::ParquetWriter), and the same values are refused.
/// Nothing is compressed, so that the file can be mapped into memory.
#[must_use = "the output is complete once it is finished"]
pub struct ArrowIpcWriter {
    table: Table,
    path: PathBuf,
    /// The file until the columns are known; after that, `writer` has it.
    file: Option<NewFile>,
    writer: Option<FileWriter<NewFile>>,
}

impl ArrowIpcWriter {
    /// Begins a file, which must not exist yet.
    ///
    /// # Errors
    ///
    /// [`AlreadyExists`](ErrorKind::AlreadyExists) if it does.
    pub fn create(path: impl AsRef<Path>) -> Result<ArrowIpcWriter> {
        let path = path.as_ref().to_path_buf();
        let file = Some(NewFile::create(&path)?);
        Ok(ArrowIpcWriter { table: Table::new(), path, file, writer: None })
    }

    /// The names of the labels whose numbers are in this field. Call it before the first sample.
    pub fn labels(mut self, field: &str, names: &[String]) -> Self {
        self.table.set_labels(field, names);
        self
    }

    /// Adds a packed sample.
    ///
    /// # Errors
    ///
    /// Those of [`ParquetWriter::write_packed`](super::ParquetWriter::write_packed).
    pub fn write_packed(&mut self, packed: &[u8]) -> Result<()> {
        match self.table.add(packed)? {
            true => self.write_batches(),
            false => Ok(()),
        }
    }

    /// Makes the file durable and gives it its name.
    pub fn finish(mut self) -> Result<()> {
        self.write_batches()?;
        self.finish_file()
    }

    fn next_file(&mut self, path: &Path) -> Result<()> {
        match self.table.next_file(path) {
            true => self.write_batches(),
            false => Ok(()),
        }
    }

    fn finish_file(&mut self) -> Result<()> {
        let Some(mut writer) = self.writer.take() else { return Ok(()) };
        writer.finish().map_err(|error| blame(&self.path, error))?;
        writer.into_inner().map_err(|error| blame(&self.path, error))?.finish()
    }

    /// Writes all samples so far, each to its file.
    fn write_batches(&mut self) -> Result<()> {
        while let Some(next) = self.write_batch()? {
            self.finish_file()?;
            self.file = Some(NewFile::create(&next)?);
            self.path = next;
        }
        Ok(())
    }

    /// Writes the samples of this file. Returns the next one, if there is one.
    fn write_batch(&mut self) -> Result<Option<PathBuf>> {
        let schema = self.table.schema().map_err(|error| error.at(&self.path))?;
        let at = |error| blame(&self.path, error);
        if let Some(file) = self.file.take() {
            self.writer = Some(FileWriter::try_new(file, &schema).map_err(at)?);
        }
        let (batch, next) = self.table.take().map_err(|error| error.at(&self.path))?;
        if let Some(writer) = self.writer.as_mut().filter(|_| batch.num_rows() > 0) {
            writer.write(&batch).map_err(at)?;
        }
        Ok(next)
    }
}

sample_writer!(ArrowIpcWriter, |writer| &writer.path, writer.table.changes(), next_file);

fn blame(path: &Path, error: ArrowError) -> Error {
    match error {
        ArrowError::IoError(_, error) => Error::io(path, error),
        error => Error::new(ErrorKind::Io, error.to_string()).at(path),
    }
}
