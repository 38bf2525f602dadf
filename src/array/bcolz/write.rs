//! Writing: a directory under a temporary name, renamed when it is complete.

use std::path::{Path, PathBuf};

use rayon::prelude::*;
use serde_json::{Map, Value};

use crate::error::{Error, ErrorKind, Result};
use crate::format::bcolz::{
    CParams, HEADER_BYTES, Layout, Sizes, Storage as StorageMeta, attrs_to_json, check_name,
    chunk_file_name, chunklen_for, dflt_of, names_to_json, typesize,
};
use crate::format::blosc::{self, Codec, Params, Scratch, Shuffle};
use crate::storage::{LocalStorage, ReplaceDir, ReplaceOptions, Storage};
use crate::value::{DType, NdArray};

use super::{ATTRS, ROOTDIRS};
use crate::array::packed::pack::refused;
use crate::array::packed::workers::{PARALLEL, compress};
use crate::array::rows::{Pieces, Rows, row_count};
use crate::array::selection::invalid;

/// The minimum number of bytes read from the source at a time.
const PIECE: usize = 4 << 20;

/// How a directory of bcolz is written: codec, chunks, attributes.
///
/// The defaults are bcolz's own: LZ4 at level 5, byte shuffle, chunks of 16 KiB to 4 MiB
/// depending on the size of the array. An array of a structured type becomes a table, because bcolz
/// cannot open such an array; padding fields are left out.
///
/// ```
/// use kiste::array::bcolz::{BcolzArray, BcolzOptions};
/// use kiste::format::blosc::Codec;
/// use kiste::value::NdArray;
///
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("floats");
/// let floats = ndarray::Array1::from_iter((0..1000).map(|i| i as f32));
/// BcolzOptions::default()
///     .codec(Codec::Lz4)
///     .level(9)
///     .fill(f32::NAN.to_le_bytes())
///     .attr("unit", "m")
///     .write(&path, &NdArray::from_ndarray(&floats))?;
/// assert_eq!(BcolzArray::open(&path)?.attrs()["unit"], "m");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Default)]
#[must_use = "options do nothing until something is written with them"]
pub struct BcolzOptions {
    codec: Option<Codec>,
    level: Option<u8>,
    shuffle: Shuffle,
    chunklen: Option<usize>,
    expectedlen: Option<u64>,
    fill: Option<Vec<u8>>,
    attrs: Map<String, Value>,
}

impl BcolzOptions {
    /// The codec. Default: LZ4.
    pub fn codec(mut self, codec: Codec) -> BcolzOptions {
        self.codec = Some(codec);
        self
    }

    /// The compression level, from 0 (copy) to 9. Default: 5.
    pub fn level(mut self, level: u8) -> BcolzOptions {
        self.level = Some(level);
        self
    }

    /// How elements are shuffled before compression. Default: by bytes.
    pub fn shuffle(mut self, shuffle: Shuffle) -> BcolzOptions {
        self.shuffle = shuffle;
        self
    }

    /// Rows in a chunk. Default: as bcolz chooses, for each column separately.
    pub fn chunklen(mut self, rows: usize) -> BcolzOptions {
        self.chunklen = Some(rows);
        self
    }

    /// How many rows there will be after all appends, which the default chunk length depends on.
    /// Default: the number of rows.
    pub fn expectedlen(mut self, rows: u64) -> BcolzOptions {
        self.expectedlen = Some(rows);
        self
    }

    /// The bytes of elements that were never written. Default: zeros.
    pub fn fill(mut self, element: impl Into<Vec<u8>>) -> BcolzOptions {
        self.fill = Some(element.into());
        self
    }

    /// One attribute.
    pub fn attr(mut self, key: impl Into<String>, value: impl Into<Value>) -> BcolzOptions {
        self.attrs.insert(key.into(), value.into());
        self
    }

    /// Adds attributes.
    pub fn attrs(mut self, attrs: impl IntoIterator<Item = (String, Value)>) -> BcolzOptions {
        self.attrs.extend(attrs);
        self
    }

    /// Writes a directory, which must not exist. It has a temporary name until it is complete.
    pub fn write(&self, path: impl AsRef<Path>, rows: &dyn Rows) -> Result<()> {
        self.write_in(&LocalStorage::mapped(), path, rows)
    }

    /// As [`write`](BcolzOptions::write), to this storage.
    pub fn write_in(
        &self,
        storage: &dyn Storage,
        path: impl AsRef<Path>,
        rows: &dyn Rows,
    ) -> Result<()> {
        let path = path.as_ref();
        let plan = Plan::of(self, rows)?;
        // The directory is durable once `finish` returns, not before.
        let dir = ReplaceDir::create_in(storage, path, &ReplaceOptions::default())?;
        plan.write(storage, dir.path(), rows).map_err(|error| dir.shown(error))?;
        dir.finish()
    }
}

/// All columns to write; one without a name for an array that is no table.
struct Plan<'a> {
    options: &'a BcolzOptions,
    columns: Vec<Column>,
    is_table: bool,
}

/// One array that is written.
struct Column {
    name: String,
    meta: StorageMeta,
    shape: Vec<usize>,
    params: Params,
    layout: Layout,
    /// Rows that are not yet a full chunk.
    buffer: Vec<u8>,
    /// Chunks that are written.
    chunks: u64,
    /// Bytes of the full ones, without their headers in the files.
    cbytes: u64,
}

impl<'a> Plan<'a> {
    fn of(options: &'a BcolzOptions, rows: &dyn Rows) -> Result<Plan<'a>> {
        let (dtype, shape) = (rows.dtype(), rows.shape());
        let count = row_count(shape)?;
        if !dtype.is_struct() {
            let fill = options.fill.clone();
            let columns = vec![Column::new(options, "", dtype, shape.to_vec(), fill)?];
            return Ok(Plan { options, columns, is_table: false });
        }
        if shape.len() != 1 {
            let message = format!("expected a table of one axis, found the shape {shape:?}");
            return Err(invalid(message));
        }
        if let Some(fill) = options.fill.as_ref().filter(|fill| fill.len() != dtype.item_size()) {
            let (expected, found) = (dtype.item_size(), fill.len());
            return Err(invalid(format!(
                "expected a fill value of {expected} bytes, found {found}"
            )));
        }
        let mut columns = Vec::new();
        for field in dtype.fields().iter().filter(|field| !field.name().is_empty()) {
            check_name(field.name()).map_err(refused)?;
            let shape = [&[count], field.shape()].concat();
            let at = dtype.field(field.name()).map_or(0, |(offset, _)| offset);
            // bcolz has one fill value for all elements of a column: the first.
            let fill = options
                .fill
                .as_ref()
                .and_then(|fill| fill.get(at..at + field.dtype().item_size()).map(<[u8]>::to_vec));
            columns.push(Column::new(options, field.name(), field.dtype(), shape, fill)?);
        }
        if columns.is_empty() {
            return Err(invalid("expected a table with columns, found one without"));
        }
        Ok(Plan { options, columns, is_table: true })
    }

    fn write(mut self, storage: &dyn Storage, root: &Path, rows: &dyn Rows) -> Result<()> {
        let root_of = |column: &Column| match self.is_table {
            true => root.join(&column.name),
            false => root.to_path_buf(),
        };
        let roots: Vec<PathBuf> = self.columns.iter().map(root_of).collect();
        for dir in &roots {
            if self.is_table {
                storage.create_dir(dir)?;
            }
            storage.create_dir(&dir.join("data"))?;
            storage.create_dir(&dir.join("meta"))?;
        }
        for piece in Pieces::of(rows, PIECE)? {
            let piece = piece?;
            for (column, dir) in self.columns.iter_mut().zip(&roots) {
                match self.is_table {
                    true => column.push(piece.field(&column.name)?, dir, storage)?,
                    false => column.push(piece.borrow(), dir, storage)?,
                }
            }
        }
        let attrs = attrs_to_json(&self.options.attrs);
        for (column, dir) in self.columns.iter_mut().zip(&roots) {
            column.finish(dir, storage)?;
            let own = if self.is_table { attrs_to_json(&Map::new()) } else { attrs.clone() };
            write_file(storage, &dir.join(ATTRS), &[own.as_bytes()])?;
        }
        if self.is_table {
            let names: Vec<&String> = self.columns.iter().map(|column| &column.name).collect();
            write_file(storage, &root.join(ATTRS), &[attrs.as_bytes()])?;
            write_file(storage, &root.join(ROOTDIRS), &[names_to_json(&names).as_bytes()])?;
        }
        Ok(())
    }
}

impl Column {
    fn new(
        options: &BcolzOptions,
        name: &str,
        dtype: &DType,
        shape: Vec<usize>,
        fill: Option<Vec<u8>>,
    ) -> Result<Column> {
        if dtype.is_struct() || dtype.has_objects() {
            let message = format!(
                "expected columns of plain types, which bcolz opens, found {name:?} of {dtype}"
            );
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        let lens = shape[1..].iter();
        let row = lens.fold(dtype.item_size() as u64, |size, &len| size.saturating_mul(len as u64));
        let rows = shape[0] as u64;
        let expectedlen = options.expectedlen.unwrap_or(rows);
        let chunklen = match options.chunklen {
            Some(chunklen) => chunklen as u64,
            None => chunklen_for(expectedlen, row),
        };
        let layout = Layout::new(rows, chunklen, row).map_err(refused)?;
        let level = options.level.unwrap_or(5);
        let codec = options.codec.unwrap_or(Codec::Lz4);
        let params = Params {
            codec,
            level,
            shuffle: options.shuffle,
            typesize: typesize(dtype),
            blocksize: None,
        };
        let largest = rows.min(chunklen) * row;
        params.check(largest as usize)?;
        let shuffle = match options.shuffle {
            Shuffle::None => 0,
            Shuffle::Byte => 1,
            Shuffle::Bit => 2,
        };
        let cparams =
            CParams { clevel: level, shuffle, cname: codec.name().to_owned(), quantize: 0 };
        let fill = fill.unwrap_or_else(|| vec![0; dtype.item_size()]);
        let dflt = dflt_of(&fill, dtype).map_err(refused)?;
        let meta = StorageMeta { dtype: dtype.clone(), cparams, chunklen, expectedlen, dflt };
        let (name, buffer) = (name.to_owned(), Vec::new());
        Ok(Column { name, meta, shape, params, layout, buffer, chunks: 0, cbytes: 0 })
    }

    /// Takes rows, and writes the chunks that are full now.
    fn push(&mut self, rows: NdArray<'_>, dir: &Path, storage: &dyn Storage) -> Result<()> {
        self.buffer.extend_from_slice(&rows.c_bytes());
        // A chunk that never fills up may be larger than memory.
        let full = self.layout.chunklen().saturating_mul(self.layout.row_bytes());
        let Ok(size) = usize::try_from(full) else { return Ok(()) };
        let end = self.buffer.len() / size * size;
        let params = &self.params;
        let one = |scratch: &mut Scratch, bytes: &[u8]| {
            let mut chunk = Vec::new();
            compress(params, bytes, scratch, &mut chunk).map(|()| chunk)
        };
        let chunks: Vec<Vec<u8>> = if end < PARALLEL {
            let mut scratch = Scratch::default();
            self.buffer[..end]
                .chunks(size)
                .map(|bytes| one(&mut scratch, bytes))
                .collect::<Result<_>>()?
        } else {
            self.buffer[..end]
                .par_chunks(size)
                .map_init(Scratch::default, one)
                .collect::<Result<_>>()?
        };
        self.buffer.drain(..end);
        for chunk in chunks {
            self.cbytes += chunk.len() as u64;
            self.write_chunk(&chunk, dir, storage)?;
        }
        Ok(())
    }

    fn write_chunk(&mut self, chunk: &[u8], dir: &Path, storage: &dyn Storage) -> Result<()> {
        let path = dir.join("data").join(chunk_file_name(self.chunks));
        self.chunks += 1;
        write_file(storage, &path, &[&HEADER_BYTES, chunk])
    }

    /// Writes the last chunk and the files in `meta`.
    fn finish(&mut self, dir: &Path, storage: &dyn Storage) -> Result<()> {
        if !self.buffer.is_empty() {
            let mut chunk = Vec::new();
            blosc::compress(&self.params, &self.buffer, &mut chunk)?;
            self.write_chunk(&chunk, dir, storage)?;
        }
        let full = self.layout.chunklen().saturating_mul(self.layout.row_bytes());
        // bcolz counts the full chunks as compressed, and its buffer for the last one uncompressed.
        let sizes = Sizes {
            shape: self.shape.clone(),
            nbytes: self.layout.rows() * self.layout.row_bytes(),
            cbytes: self.cbytes.saturating_add(full),
        };
        write_file(storage, &dir.join("meta").join("storage"), &[self.meta.to_json().as_bytes()])?;
        write_file(storage, &dir.join("meta").join("sizes"), &[sizes.to_json().as_bytes()])
    }
}

fn write_file(storage: &dyn Storage, path: &Path, parts: &[&[u8]]) -> Result<()> {
    let mut sink = storage.create(path)?;
    parts.iter().try_for_each(|part| sink.append(part))
}
