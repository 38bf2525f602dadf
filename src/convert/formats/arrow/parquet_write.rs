//! Samples to Parquet files.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_schema::Schema;
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterPropertiesBuilder};
use parquet::schema::types::ColumnPath;

use super::table::Table;
use crate::convert::formats::new_file::NewFile;
use crate::error::{Error, ErrorKind, Result};

/// Bytes of a row group, compressed.
const ROW_GROUP: usize = 64 << 20;

/// Writes samples to a Parquet file for pyarrow, pandas and Hugging Face `datasets`. Feature `parquet`.
///
/// The fields of the first 1024 samples, or of the first 64 MiB of them, say what the columns are; the
/// key is the column `key`. Numbers, texts and bytes are columns of such, maps are structs, lists are
/// lists. Arrays of NumPy are lists of lists, which `datasets` gets back as arrays of their shape where
/// only the first of two to five axes varies. Bytes that are images in all of these samples are images
/// for `datasets`, and `label` has the [names of the labels](Self::labels).
///
/// [`ParquetReader`](super::ParquetReader) reads the same samples again, to the byte, if the key comes first in
/// them and the other fields in the order of the first ones. Where nil and no field at all both occur,
/// they become one of the two. What no column can have is refused: complex numbers, arrays of
/// texts, of structures or with the higher byte first, values of different types in one field, empty
/// maps alone.
///
/// The same samples make the same bytes. Pages are compressed by Zstandard, but for those of images.
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
    /// Whose columns are not known yet, or are.
    file: Option<NewFile>,
    writer: Option<ArrowWriter<NewFile>>,
}

impl ParquetWriter {
    /// Begins a file that must not exist yet.
    pub fn create(path: impl AsRef<Path>) -> Result<ParquetWriter> {
        let path = path.as_ref().to_path_buf();
        let file = Some(NewFile::create(&path)?);
        Ok(ParquetWriter { table: Table::new(), row_group: ROW_GROUP, path, file, writer: None })
    }

    /// The names of the labels, whose numbers are in this field. Before the first sample.
    pub fn labels(mut self, field: &str, names: &[String]) -> Self {
        self.table.set_labels(field, names);
        self
    }

    /// A row group ends after about so many bytes, which are in memory until then. Default: 64 MiB.
    pub fn row_group_bytes(mut self, bytes: usize) -> Self {
        self.row_group = bytes.max(1);
        self
    }

    /// Adds a packed sample.
    ///
    /// # Errors
    ///
    /// [`Invalid`](ErrorKind::Invalid) for what no column can have, and for fields that are not like
    /// those of the first samples. Then nothing has been kept of the sample.
    pub fn write_packed(&mut self, packed: &[u8]) -> Result<()> {
        match self.table.add(packed)? {
            true => self.write_batch(),
            false => Ok(()),
        }
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Makes the file durable and visible.
    pub fn finish(mut self) -> Result<()> {
        self.write_batch()?;
        let Some(writer) = self.writer.take() else { return Ok(()) };
        let file = writer.into_inner().map_err(|error| blame(&self.path, error))?;
        file.finish()
    }

    fn write_batch(&mut self) -> Result<()> {
        let schema = self.table.schema().map_err(|error| error.at(&self.path))?;
        let at = |error| blame(&self.path, error);
        if let Some(file) = self.file.take() {
            let properties = properties(&schema, &self.table).map_err(at)?;
            self.writer = Some(ArrowWriter::try_new(file, schema, Some(properties)).map_err(at)?);
        }
        let batch = self.table.take().map_err(|error| error.at(&self.path))?;
        let Some(writer) = &mut self.writer else { return Ok(()) };
        writer.write(&batch).map_err(at)?;
        if writer.in_progress_size() >= self.row_group {
            writer.flush().map_err(at)?;
        }
        Ok(())
    }
}

fn properties(
    schema: &Arc<Schema>,
    table: &Table,
) -> Result<WriterProperties, parquet::errors::ParquetError> {
    // Those who do not read the schema of Arrow find the same here.
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

/// Bytes that neither repeat nor are asked for by their order.
fn opaque(properties: WriterPropertiesBuilder, column: &ColumnPath) -> WriterPropertiesBuilder {
    properties
        .set_column_dictionary_enabled(column.clone(), false)
        .set_column_statistics_enabled(column.clone(), EnabledStatistics::None)
}

fn blame(path: &Path, error: parquet::errors::ParquetError) -> Error {
    Error::new(ErrorKind::Io, error.to_string()).at(path)
}
