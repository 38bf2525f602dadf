//! [`ArrayExport`]: an array as a file of another format.

use std::io::{self, BufWriter, Read, Seek, Write};
use std::path::Path;

use serde_json::{Map, Value};

use super::{ArrayFormat, PIECE, each_piece, refuse_existing, write_npy};
use crate::array::bcolz::BcolzOptions;
use crate::array::chunked::ChunkedArray;
use crate::array::on_disk::expect_on_disk;
use crate::array::packed::PackOptions;
use crate::array::rows::{Pieces, Rows};
use crate::error::{Error, Result};
use crate::format::bloscpack::ArrayMetadata;
use crate::storage::{LocalStorage, ReplaceFile};
use crate::value::{Casting, DType, DTypeKind, NdArray, Order};

/// Writes an array as `.npy`, `.npz`, `.blp` or a bcolz directory. A file appears once it is complete.
///
/// ```
/// use kiste::array::{ArrayExport, ArrayFormat, NpyRows, Rows};
/// use kiste::value::NdArray;
///
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("numbers.npy");
/// let numbers = ndarray::arr1(&[1, 2, 3]);
/// ArrayExport::new(ArrayFormat::Npy).write(&NdArray::from_ndarray(&numbers), &path)?;
/// assert_eq!(NpyRows::open(&path)?.shape(), [3]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
#[must_use]
pub struct ArrayExport {
    format: ArrayFormat,
    overwrite: bool,
    member: String,
    attributes: Map<String, Value>,
    fill: Option<Vec<u8>>,
    expected_len: Option<u64>,
}

impl ArrayExport {
    /// Writes this format.
    pub fn new(format: ArrayFormat) -> ArrayExport {
        let (member, attributes) = ("arr_0".to_owned(), Map::new());
        ArrayExport { format, overwrite: false, member, attributes, fill: None, expected_len: None }
    }

    /// Whether an existing file is replaced; a directory is not. Default: no.
    pub fn overwrite(mut self, overwrite: bool) -> ArrayExport {
        self.overwrite = overwrite;
        self
    }

    /// The name of the array in an `.npz` file. Default: `arr_0`, as in NumPy.
    pub fn member(mut self, name: impl Into<String>) -> ArrayExport {
        self.member = name.into();
        self
    }

    /// Attributes, expected number of rows and fill value of an array, as which elements of this type are
    /// exported. Only bcolz keeps them. A fill value that the type cannot hold is left out, as every element may have one
    /// that it can; and so is one that bcolz does not have.
    pub fn of(self, array: &ChunkedArray, dtype: &DType, casting: Casting) -> Result<ArrayExport> {
        let mut export = self.attributes(array.attrs().clone());
        export.expected_len = array.info().expected_len;
        let own = array.dtype();
        if own.has_objects() || matches!(own.kind(), DTypeKind::Complex | DTypeKind::TimeDelta) {
            return Ok(export);
        }
        let fill = NdArray::new(own.clone(), [], array.fill_bytes())?;
        Ok(match fill.astype(dtype, casting) {
            Ok(fill) => export.fill(fill.bytes()),
            Err(_) => export,
        })
    }

    /// Attributes, which only bcolz keeps.
    pub fn attributes(mut self, attributes: Map<String, Value>) -> ArrayExport {
        self.attributes = attributes;
        self
    }

    /// The bytes of the fill value, which only bcolz keeps. Default: zeros.
    pub fn fill(mut self, element: impl Into<Vec<u8>>) -> ArrayExport {
        self.fill = Some(element.into());
        self
    }

    /// Writes all rows.
    ///
    /// # Errors
    ///
    /// The errors of the rows; [`AlreadyExists`](crate::ErrorKind::AlreadyExists) if there is such a file;
    /// [`Unsupported`](crate::ErrorKind::Unsupported) for elements that the format cannot hold.
    pub fn write(&self, rows: &dyn Rows, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        expect_on_disk(path)?;
        match self.format {
            ArrayFormat::Bcolz => {
                let options = BcolzOptions::default().attrs(self.attributes.clone());
                let options = match &self.fill {
                    Some(fill) => options.fill(fill.clone()),
                    None => options,
                };
                // More rows than were expected choose the chunks themselves.
                let len = rows.shape().first().map_or(0, |rows| *rows as u64);
                let options = match self.expected_len.filter(|expected| *expected > len) {
                    Some(expected) => options.expectedlen(expected),
                    None => options,
                };
                return options.write(path, rows);
            }
            _ if self.overwrite => {}
            _ => refuse_existing(path, "the file exists already")?,
        }
        match self.format {
            ArrayFormat::Npy => self.file(path, |out| write_npy(rows, out)),
            ArrayFormat::Npz => self.npz(path, rows),
            _ => {
                let (dtype, shape) = (rows.dtype().clone(), rows.shape().to_vec());
                let array = ArrayMetadata { dtype, shape, order: Order::C };
                let options = PackOptions::default().overwrite(self.overwrite);
                let mut bytes = RowBytes::of(rows)?;
                options.write_array_from(&LocalStorage::positioned(), path, &mut bytes, &array)?;
                Ok(())
            }
        }
    }

    /// Writes a file with a temporary name until it is complete. Errors of the output name it.
    fn file(&self, path: &Path, content: impl FnOnce(&mut dyn Output) -> Result<()>) -> Result<()> {
        let mut out = BufWriter::new(ReplaceFile::create(path)?);
        content(&mut out).map_err(|error| error.at(path))?;
        let out = out.into_inner().map_err(|error| Error::io(path, error.into_error()))?;
        out.finish()
    }

    /// One member, stored uncompressed, as `numpy.savez` does.
    #[cfg(feature = "zip")]
    fn npz(&self, path: &Path, rows: &dyn Rows) -> Result<()> {
        use crate::error::ErrorKind;
        use zip::result::ZipError;
        use zip::write::SimpleFileOptions;
        use zip::{CompressionMethod, ZipWriter};

        let wrong = |error| match error {
            ZipError::Io(error) => Error::io(path, error),
            error => Error::new(ErrorKind::Io, error.to_string()).at(path).with_source(error),
        };
        self.file(path, |mut out| {
            let mut out = super::ZipSink::new(&mut out);
            let mut zip = ZipWriter::new(&mut out);
            let stored = SimpleFileOptions::default()
                .compression_method(CompressionMethod::Stored)
                .large_file(true);
            zip.start_file(format!("{}.npy", self.member), stored).map_err(wrong)?;
            write_npy(rows, &mut zip)?;
            zip.finish().map_err(wrong)?;
            out.finish().map_err(|error| Error::io(path, error))
        })
    }

    #[cfg(not(feature = "zip"))]
    fn npz(&self, path: &Path, _rows: &dyn Rows) -> Result<()> {
        Err(super::no_npz(path))
    }
}

/// An output that an archive can be written to.
trait Output: Write + Seek {}
impl<T: Write + Seek> Output for T {}

/// The bytes of all elements in C order, read a few rows at a time.
struct RowBytes<'a> {
    pieces: Option<Pieces<'a>>,
    piece: Vec<u8>,
    given: usize,
}

impl<'a> RowBytes<'a> {
    fn of(rows: &'a dyn Rows) -> Result<RowBytes<'a>> {
        if rows.shape().is_empty() {
            let mut piece = Vec::new();
            each_piece(rows, |bytes| {
                piece.extend_from_slice(bytes);
                Ok(())
            })?;
            return Ok(RowBytes { pieces: None, piece, given: 0 });
        }
        Ok(RowBytes { pieces: Some(Pieces::of(rows, PIECE)?), piece: Vec::new(), given: 0 })
    }
}

impl Read for RowBytes<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        while self.given == self.piece.len() {
            let Some(piece) = self.pieces.as_mut().and_then(Iterator::next) else { return Ok(0) };
            self.piece = piece.map_err(io::Error::other)?.into_bytes().into_owned();
            self.given = 0;
        }
        let len = out.len().min(self.piece.len() - self.given);
        out[..len].copy_from_slice(&self.piece[self.given..self.given + len]);
        self.given += len;
        Ok(len)
    }
}
