//! Writes samples to an npz file.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::Path;

use ::zip::result::ZipError;
use ::zip::write::{SimpleFileOptions, ZipWriter};
use ::zip::{CompressionMethod, DateTime};

use super::carries;
use crate::array::ZipSink;
use crate::convert::carried::{self, Changes};
use crate::convert::file_names;
use crate::convert::formats::new_file::NewFile;
use crate::convert::writer::sample_writer;
use crate::error::{Error, ErrorKind, Result};
use crate::format::msgpack::{self, Cursor, numpy, sample};
use crate::format::numpy::npy;
use crate::value::{DType, NdArray};

/// Writes samples to an npz file: one array for each field, whose rows are the samples. Feature
/// `zip`.
///
/// A field must be a number, an array or a string, and have the same type and shape in all samples;
/// strings may have different lengths. Integers become int64, floats float64. Arrays without
/// elements are refused, as their rows would have no bytes, and strings that end in a zero character,
/// which NumPy takes for padding. The key is the array
/// `key`. Names of fields may have slashes, but not lead out of the folder where the archive is
/// unpacked, although NumPy itself accepts any name. The arrays are collected in memory. The same
/// samples make the same bytes, equal to `numpy.savez` except for details of the archive.
///
/// ```
/// use kiste::convert::{NpzReader, NpzWriter, Input};
///
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("numbers.npz");
/// let mut writer = NpzWriter::create(&path)?;
/// writer.write_packed(b"\x82\xa3key\xa1a\xa1n\x01")?;
/// writer.write_packed(b"\x82\xa3key\xa1b\xa1n\x02")?;
/// writer.finish()?;
/// assert_eq!(NpzReader::open(&path)?.len_hint(), Some(2));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "the output is complete once it is finished"]
pub struct NpzWriter {
    file: NewFile,
    columns: Vec<(String, Column)>,
    rows: usize,
    changes: Changes,
}

/// The values of a field so far.
enum Column {
    Numbers { dtype: DType, shape: Vec<usize>, bytes: Vec<u8> },
    Texts(Vec<String>),
}

impl NpzWriter {
    /// Begins a file, which must not exist yet.
    ///
    /// # Errors
    ///
    /// [`AlreadyExists`](ErrorKind::AlreadyExists) if it does.
    pub fn create(path: impl AsRef<Path>) -> Result<NpzWriter> {
        let file = NewFile::create(path.as_ref())?;
        Ok(NpzWriter { file, columns: Vec::new(), rows: 0, changes: Changes::default() })
    }

    /// Adds a packed sample.
    ///
    /// # Errors
    ///
    /// [`Invalid`](ErrorKind::Invalid) for values that are not numbers, arrays or strings, for
    /// names that are not those of files, and for fields that are not like those of the first
    /// sample. The sample is not kept then, not even in part.
    pub fn write_packed(&mut self, packed: &[u8]) -> Result<()> {
        let key = msgpack::check_sample(packed)?;
        let changes = carried::check(carries, packed)?;
        let invalid = |name: &str, message: &str| {
            Error::new(ErrorKind::Invalid, message).with_key(key).with_field(name)
        };
        let mut fields = BTreeMap::new();
        let mut order = Vec::new();
        for field in sample::fields(packed)? {
            let (name, value) = field?;
            let name = Cursor::new(name).read_str()?;
            if !file_names::stays_within(name) {
                return Err(invalid(name, "expected the relative name of a file"));
            }
            let value = value_of(value)?;
            let value =
                value.ok_or_else(|| invalid(name, "expected a number, an array or a string"))?;
            if fields.insert(name, value).is_some() {
                return Err(invalid(name, "the field occurs twice"));
            }
            order.push(name);
        }
        if self.rows == 0 {
            self.columns =
                order.iter().map(|name| ((*name).to_owned(), fields[name].empty())).collect();
        }
        for (name, column) in &self.columns {
            let value = fields.get(&name[..]);
            let value = value.ok_or_else(|| {
                invalid(name, "expected the field as in the first sample, found none")
            })?;
            if !column.takes(value) {
                return Err(invalid(name, "expected the type and shape of the first sample"));
            }
        }
        if fields.len() > self.columns.len() {
            let message = "expected the fields of the first sample, found more";
            return Err(Error::new(ErrorKind::Invalid, message).with_key(key));
        }
        for (name, column) in &mut self.columns {
            if let Some(value) = fields.remove(&name[..]) {
                column.append(value);
            }
        }
        self.rows += 1;
        self.changes.add(changes);
        Ok(())
    }

    /// Writes the file, makes it durable and gives it its name.
    pub fn finish(mut self) -> Result<()> {
        write(&mut self.file, &self.columns, self.rows).map_err(|e| e.at(self.file.path()))?;
        self.file.finish()
    }
}

sample_writer!(NpzWriter, |writer| writer.file.path(), writer.changes.list());

fn write(file: &mut NewFile, columns: &[(String, Column)], rows: usize) -> Result<()> {
    let path = file.path().to_path_buf();
    let io = |error: io::Error| Error::io(&path, error);
    let zip = |error: ZipError| match error {
        ZipError::Io(error) => io(error),
        error => Error::new(ErrorKind::Io, error.to_string()),
    };
    let mut out = ZipSink::new(file);
    let mut archive = ZipWriter::new(&mut out);
    let options = SimpleFileOptions::default()
        .compression_method(CompressionMethod::Stored)
        .last_modified_time(DateTime::default())
        .large_file(true);
    for (name, column) in columns {
        archive.start_file(format!("{name}.npy"), options).map_err(zip)?;
        archive.write_all(&npy::encode(&column.array(rows)?)?).map_err(io)?;
    }
    archive.finish().map_err(zip)?;
    out.finish().map_err(io)
}

/// A packed value as a column of one row, if a column can hold it.
fn value_of(packed: &[u8]) -> Result<Option<Column>> {
    let mut cursor = Cursor::new(packed);
    let number = |array: NdArray<'_>| {
        let (dtype, shape) = (array.dtype().clone(), array.shape().to_vec());
        Column::Numbers { dtype, shape, bytes: array.c_bytes().into_owned() }
    };
    Ok(match cursor.peek()? {
        msgpack::Kind::Str => Some(Column::Texts(vec![cursor.read_str()?.to_owned()])),
        msgpack::Kind::Int => cursor.read_i64().ok().map(|n| number(NdArray::scalar(n))),
        msgpack::Kind::Float => Some(number(NdArray::scalar(cursor.read_f64()?))),
        msgpack::Kind::Bool => Some(number(NdArray::scalar(cursor.read_bool()?))),
        msgpack::Kind::Map => match numpy::read(&mut cursor) {
            Ok(Some(numpy::Special::Array(array) | numpy::Special::Scalar(array)))
                if !array.dtype().has_objects() =>
            {
                Some(number(array))
            }
            _ => None,
        },
        _ => None,
    })
}

impl Column {
    fn empty(&self) -> Column {
        match self {
            Column::Numbers { dtype, shape, .. } => {
                Column::Numbers { dtype: dtype.clone(), shape: shape.clone(), bytes: Vec::new() }
            }
            Column::Texts(_) => Column::Texts(Vec::new()),
        }
    }

    fn takes(&self, value: &Column) -> bool {
        match (self, value) {
            (Column::Texts(_), Column::Texts(_)) => true,
            (
                Column::Numbers { dtype, shape, .. },
                Column::Numbers { dtype: other, shape: found, .. },
            ) => dtype == other && shape == found,
            _ => false,
        }
    }

    fn append(&mut self, value: Column) {
        match (self, value) {
            (Column::Texts(texts), Column::Texts(mut more)) => texts.append(&mut more),
            (Column::Numbers { bytes, .. }, Column::Numbers { bytes: mut more, .. }) => {
                bytes.append(&mut more);
            }
            _ => {}
        }
    }

    fn array(&self, rows: usize) -> Result<NdArray<'_>> {
        let texts = match self {
            Column::Numbers { dtype, shape, bytes } => {
                let shape = [&[rows], &shape[..]].concat();
                return NdArray::new(dtype.clone(), shape, &bytes[..]);
            }
            Column::Texts(texts) => texts,
        };
        // All strings of a NumPy array have the length of the longest, in characters of four bytes.
        let width = texts.iter().map(|text| text.chars().count()).max().unwrap_or(0).max(1);
        let mut bytes = Vec::with_capacity(texts.len() * width * 4);
        for (row, text) in texts.iter().enumerate() {
            bytes.extend(text.chars().flat_map(|c| u32::from(c).to_le_bytes()));
            bytes.resize((row + 1) * width * 4, 0);
        }
        let dtype = DType::text(width).with_byte_order(crate::value::ByteOrder::Little);
        NdArray::new(dtype, [texts.len()], bytes)
    }
}
