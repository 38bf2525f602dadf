//! Writes samples to Parquet files.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_schema::Schema;
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterPropertiesBuilder};
use parquet::schema::types::ColumnPath;

use super::table::Table;
use crate::convert::formats::new_file::NewFile;
use crate::convert::writer::sample_writer;
use crate::error::{Error, ErrorKind, Result};

/// Default for the compressed bytes of a row group.
const ROW_GROUP: usize = 64 << 20;

/// Writes samples to a Parquet file for pyarrow, pandas and Hugging Face `datasets`. Feature
/// `parquet`.
///
/// The fields of the first 1024 samples, or of the first 64 MiB, decide the columns; the key is the
/// column `key`. Maps become structs, and lists become lists. NumPy arrays become lists of lists,
/// which `datasets` turns into arrays of their shape if they have two to five axes and only the
/// first one varies. Bytes that are images in all of these samples are images for `datasets`, and
/// `label` has the [names of the labels](Self::labels).
///
/// [`ParquetReader`](super::ParquetReader) gives back the same bytes if the key comes first in each
/// sample, and the other fields in the order of the first samples. If some values of a field are
/// nil and others are missing, they all become one of the two. Values that no column can hold are
/// refused: complex numbers; arrays of strings, of structures or in big-endian order; values of
/// different types in one field; fields of nothing but empty maps.
///
/// The same samples make the same bytes. Pages are compressed by Zstandard, except for images.
///
/// ```
/// use kiste::convert::{Input, ParquetReader, ParquetWriter};
///
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("words.parquet");
/// let sample = b"\x82\xa3key\xa2k0\xa4word\xa5Kiste";
/// let mut writer = ParquetWriter::create(&path)?;
/// writer.write_packed(sample)?;
/// writer.finish()?;
///
/// let table = ParquetReader::open(&path)?;
/// table.read(0, &mut |found| Ok(assert_eq!(found?, sample)))?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "the output is complete once it is finished"]
pub struct ParquetWriter {
    table: Table,
    row_group: usize,
    path: PathBuf,
    /// The file until the columns are known; after that, `writer` has it.
    file: Option<NewFile>,
    writer: Option<ArrowWriter<NewFile>>,
}

impl ParquetWriter {
    /// Begins a file, which must not exist yet.
    ///
    /// # Errors
    ///
    /// [`AlreadyExists`](ErrorKind::AlreadyExists) if it does.
    pub fn create(path: impl AsRef<Path>) -> Result<ParquetWriter> {
        let path = path.as_ref().to_path_buf();
        let file = Some(NewFile::create(&path)?);
        Ok(ParquetWriter { table: Table::new(), row_group: ROW_GROUP, path, file, writer: None })
    }

    /// The names of the labels whose numbers are in this field. Call it before the first sample.
    pub fn labels(mut self, field: &str, names: &[String]) -> Self {
        self.table.set_labels(field, names);
        self
    }

    /// The approximate size of a row group in bytes, which is in memory until it ends. Default: 64
    /// MiB.
    pub fn row_group_bytes(mut self, bytes: usize) -> Self {
        self.row_group = bytes.max(1);
        self
    }

    /// Adds a packed sample.
    ///
    /// # Errors
    ///
    /// [`Invalid`](ErrorKind::Invalid) for a value that no column can hold, and for fields that are
    /// not like those of the first samples. The sample is not written then.
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
        let Some(writer) = self.writer.take() else { return Ok(()) };
        let file = writer.into_inner().map_err(|error| blame(&self.path, error))?;
        file.finish()
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
            let properties = properties(&schema, &self.table).map_err(at)?;
            self.writer = Some(ArrowWriter::try_new(file, schema, Some(properties)).map_err(at)?);
        }
        let (batch, next) = self.table.take().map_err(|error| error.at(&self.path))?;
        let Some(writer) = &mut self.writer else { return Ok(next) };
        writer.write(&batch).map_err(at)?;
        if writer.in_progress_size() >= self.row_group {
            writer.flush().map_err(at)?;
        }
        Ok(next)
    }
}

sample_writer!(ParquetWriter, |writer| &writer.path, writer.table.changes(), next_file);

fn properties(schema: &Arc<Schema>, table: &Table) -> Result<WriterProperties, ParquetError> {
    // For readers that ignore the Arrow schema.
    let mut metadata: Vec<KeyValue> = schema
        .metadata()
        .iter()
        .map(|(name, text)| KeyValue::new(name.clone(), text.clone()))
        .collect();
    metadata.sort_by(|a, b| a.key.cmp(&b.key));
    let mut properties = WriterProperties::builder()
        .set_created_by(format!("kiste version {}", env!("CARGO_PKG_VERSION")))
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(3)?))
        .set_key_value_metadata(Some(metadata));
    for name in table.files() {
        let column = ColumnPath::new(vec![name.to_owned(), "bytes".to_owned()]);
        properties =
            opaque(properties, &column).set_column_compression(column, Compression::UNCOMPRESSED);
    }
    for name in table.plain_bytes() {
        properties = opaque(properties, &ColumnPath::new(vec![name.to_owned()]));
    }
    Ok(properties.build())
}

/// A column of bytes that hardly repeat, and that no query compares: without dictionary and
/// statistics.
fn opaque(properties: WriterPropertiesBuilder, column: &ColumnPath) -> WriterPropertiesBuilder {
    properties
        .set_column_dictionary_enabled(column.clone(), false)
        .set_column_statistics_enabled(column.clone(), EnabledStatistics::None)
}

fn blame(path: &Path, error: ParquetError) -> Error {
    match error {
        ParquetError::External(error) => match error.downcast::<io::Error>() {
            Ok(error) => Error::io(path, *error),
            Err(error) => Error::new(ErrorKind::Io, error.to_string()).at(path),
        },
        error => Error::new(ErrorKind::Io, error.to_string()).at(path),
    }
}
