//! One array in one container.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;
use std::path::Path;

use bytemuck::Pod;
use ndarray::{ArrayD, ArrayView, Dimension};
use rayon::prelude::*;

use crate::error::{Error, ErrorKind, Result};
use crate::format::FormatError;
use crate::format::blosc::Scratch;
use crate::format::bloscpack::{ArrayMetadata, Chunk, Container};
use crate::storage::{LocalStorage, Source, Storage, zeroed};
use crate::value::{DType, Element, NdArray, Order};

use super::pack::PackOptions;
use super::recover::before_append;
use super::workers::{PARALLEL, with_buffer, with_scratch};
use crate::array::on_disk::expect_on_disk;
use crate::array::rows::Rows;
use crate::array::selection::invalid;

/// An array in a container, in memory or in a file; only the parts that are read are decoded.
///
/// Opening reads header and metadata, checks that the array is as large as its chunks, and decodes
/// nothing. Each chunk's digest is verified whenever it is decoded.
///
/// ```
/// use kiste::array::PackedArray;
/// use ndarray::Array2;
///
/// let table = Array2::from_shape_fn((1000, 10), |(row, column)| (10 * row + column) as i32);
/// let packed = PackedArray::from_view(table.view())?;
/// assert_eq!((packed.shape(), packed.nbytes()), (&[1000, 10][..], 40_000));
/// assert!(packed.ratio() > 2.0);
///
/// let rows = packed.rows(500..502)?; // decodes one block
/// assert_eq!(rows.view::<i32>()?, table.slice(ndarray::s![500..502, ..]).into_dyn());
/// let some = packed.select(&[7, 7, 999])?;
/// assert_eq!(some.view::<i32>()?[[2, 0]], 9990);
/// assert_eq!(packed.to_ndarray::<i32>()?, table.into_dyn());
/// # Ok::<(), kiste::Error>(())
/// ```
pub struct PackedArray<'a> {
    container: Container<Backing<'a>>,
    array: ArrayMetadata,
    nbytes: usize,
}

/// The bytes of a container.
enum Backing<'a> {
    Memory(Cow<'a, [u8]>),
    Mapped(Source),
}

impl AsRef<[u8]> for Backing<'_> {
    #[inline]
    fn as_ref(&self) -> &[u8] {
        match self {
            Backing::Memory(bytes) => bytes,
            // Only mapped files are kept as such.
            Backing::Mapped(source) => source.mapped().unwrap_or_default(),
        }
    }
}

impl PackedArray<'static> {
    /// Opens a file.
    pub fn open(path: impl AsRef<Path>) -> Result<PackedArray<'static>> {
        expect_on_disk(path.as_ref())?;
        PackedArray::open_in(&LocalStorage::mapped(), path)
    }

    /// Opens a file of this storage. A file that is not mapped is read as a whole, and so is one
    /// with an interrupted append: it shows the array as it was before.
    pub fn open_in(storage: &dyn Storage, path: impl AsRef<Path>) -> Result<PackedArray<'static>> {
        let path = path.as_ref();
        let source = storage.open(path)?;
        let backing = match source.mapped() {
            Some(_) => Backing::Mapped(source),
            None => Backing::Memory(source.read(0..source.len())?.into_owned().into()),
        };
        let open = || match before_append(backing.as_ref())? {
            Some(old) => PackedArray::new(Backing::Memory(old.into())),
            None => PackedArray::new(backing),
        };
        open().map_err(|error| error.at(path))
    }

    /// Packs an array of `ndarray` with default [`PackOptions`].
    pub fn from_view<T: Element, D: Dimension>(
        view: ArrayView<'_, T, D>,
    ) -> Result<PackedArray<'static>> {
        PackedArray::from_bytes(PackOptions::default().pack(&NdArray::from_ndarray(&view))?)
    }
}

impl<'a> PackedArray<'a> {
    /// Opens the container in these bytes.
    pub fn from_bytes(bytes: impl Into<Cow<'a, [u8]>>) -> Result<PackedArray<'a>> {
        PackedArray::new(Backing::Memory(bytes.into()))
    }

    fn new(backing: Backing<'a>) -> Result<PackedArray<'a>> {
        let container = Container::parse(backing)?;
        let array = container.array()?;
        let nbytes = usize::try_from(container.nbytes()?).map_err(|_| too_large())?;
        Ok(PackedArray { container, array, nbytes })
    }

    /// The type of the elements.
    pub fn dtype(&self) -> &DType {
        &self.array.dtype
    }

    /// The length of each axis.
    pub fn shape(&self) -> &[usize] {
        &self.array.shape
    }

    /// How the elements follow each other.
    pub fn order(&self) -> Order {
        self.array.order
    }

    /// Bytes of the array.
    pub fn nbytes(&self) -> usize {
        self.nbytes
    }

    /// Bytes of the container, including what an append may have left behind it.
    pub fn cbytes(&self) -> usize {
        self.bytes().len()
    }

    /// The size of the array divided by the size of the container.
    pub fn ratio(&self) -> f64 {
        self.nbytes as f64 / self.cbytes() as f64
    }

    /// The bytes of the container.
    pub fn bytes(&self) -> &[u8] {
        self.container.bytes()
    }

    /// The container: header, metadata, offsets.
    pub fn container(&self) -> &Container<impl AsRef<[u8]> + use<'a>> {
        &self.container
    }

    /// The chunks in order, found by walking.
    pub fn chunks(&self) -> impl Iterator<Item = Result<Chunk<'_>>> + '_ {
        self.container.chunks().map(|chunk| chunk.map_err(Error::from))
    }

    /// The whole array.
    pub fn read(&self) -> Result<NdArray<'static>> {
        // The headers of all chunks are checked before memory is allocated.
        self.chunks().try_for_each(|chunk| chunk.map(drop))?;
        let mut out = zeroed(self.nbytes)?;
        self.read_into(&mut out)?;
        let ArrayMetadata { dtype, shape, order } = self.array.clone();
        NdArray::with_order(dtype, shape, order, out)
    }

    /// The whole array with elements in the byte order of this machine.
    pub fn to_ndarray<T: Element>(&self) -> Result<ArrayD<T>> {
        Ok(self.read()?.to_ndarray()?)
    }

    /// Decodes the whole array into a buffer of exactly [`nbytes`](PackedArray::nbytes), such as the
    /// row of a batch. Small arrays are decoded on this thread, and nothing is allocated then.
    pub fn read_into(&self, out: &mut [u8]) -> Result<()> {
        if out.len() != self.nbytes {
            let message =
                format!("expected a buffer of {} bytes, found {}", self.nbytes, out.len());
            return Err(invalid(message));
        }
        if self.nbytes < PARALLEL {
            return self.read_alone(out);
        }
        let (mut parts, mut rest) = (Vec::new(), out);
        for chunk in self.container.chunks() {
            let chunk = chunk?;
            parts.push((chunk, take(&mut rest, chunk.nbytes())?));
        }
        parts
            .into_par_iter()
            .try_for_each_init(Scratch::default, |scratch, (chunk, part)| {
                chunk.read_into(part, scratch)
            })
            .map_err(Error::from)
    }

    /// Decodes chunk by chunk on this thread.
    fn read_alone(&self, out: &mut [u8]) -> Result<()> {
        let mut rest = out;
        with_scratch(|scratch| {
            for chunk in self.container.chunks() {
                let chunk = chunk?;
                let part = take(&mut rest, chunk.nbytes())?;
                chunk.read_into(part, scratch)?;
            }
            Ok(())
        })
    }

    /// Decodes into the row of a batch: in C order and native byte order. The row has the same
    /// number of elements of the same size; the caller knows that they are of the same kind.
    ///
    /// Uses only this thread: threads that make batches could deadlock on a pool whose threads wait
    /// for them.
    pub(crate) fn read_row<T: Element>(&self, row: &mut [T]) -> Result<()> {
        if size_of_val(row) != self.nbytes {
            let expected = size_of_val(row);
            return Err(invalid(format!("expected {expected} bytes, found {}", self.nbytes)));
        }
        let swaps = !self.dtype().is_native();
        match T::memory_of(row) {
            Some(memory) if self.has_rows_in_place() => self.read_alone(memory)?,
            _ => return with_buffer(self.nbytes, |buffer| self.read_turned(row, buffer)),
        }
        if swaps {
            row.iter_mut().for_each(|element| *element = element.swap_bytes());
        }
        Ok(())
    }

    /// Decodes some rows as [`read_row`](Self::read_row) decodes all of them. Of an array in C order, only the
    /// blocks with these rows are decoded.
    pub(crate) fn read_rows_alone<T: Element>(
        &self,
        first: usize,
        rows: usize,
        out: &mut [T],
    ) -> Result<()> {
        let count = self.row_count()?;
        let end = first.checked_add(rows).filter(|end| *end <= count);
        let end = end.ok_or_else(|| {
            invalid(format!("expected rows within 0..{count}, found {rows} from {first}"))
        })?;
        let row = self.nbytes / count.max(1);
        if size_of_val(out) != rows * row {
            let expected = size_of_val(out);
            return Err(invalid(format!("expected {expected} bytes, found {}", rows * row)));
        }
        let swaps = !self.dtype().is_native();
        let put = |element: &mut T, item: &[u8]| {
            *element = T::from_memory(item);
            if swaps {
                *element = element.swap_bytes();
            }
        };
        if !self.has_rows_in_place() {
            // The headers of all chunks are checked before memory is allocated.
            self.chunks().try_for_each(|chunk| chunk.map(drop))?;
            return with_buffer(self.nbytes, |buffer| {
                self.read_alone(buffer)?;
                let ArrayMetadata { dtype, shape, order } = self.array.clone();
                let array = NdArray::with_order(dtype, shape, order, &*buffer)?;
                let items = array.items().skip(first * out.len() / rows.max(1));
                out.iter_mut().zip(items).for_each(|(element, item)| put(element, item));
                Ok(())
            });
        }
        let pieces = self.pieces(first * row..end * row, 0)?;
        if let Some(memory) = T::memory_of(out) {
            self.gather(pieces, memory)?;
            if swaps {
                out.iter_mut().for_each(|element| *element = element.swap_bytes());
            }
            return Ok(());
        }
        with_buffer(rows * row, |buffer| {
            self.gather(pieces, buffer)?;
            let items = buffer.chunks_exact(size_of::<T>());
            out.iter_mut().zip(items).for_each(|(element, item)| put(element, item));
            Ok(())
        })
    }

    /// Decodes elements that cannot be decoded in place.
    fn read_turned<T: Element>(&self, row: &mut [T], buffer: &mut [u8]) -> Result<()> {
        self.read_alone(buffer)?;
        let swaps = !self.dtype().is_native();
        let ArrayMetadata { dtype, shape, order } = self.array.clone();
        let array = NdArray::with_order(dtype, shape, order, &*buffer)?;
        for (element, item) in row.iter_mut().zip(array.items()) {
            *element = T::from_memory(item);
            if swaps {
                *element = element.swap_bytes();
            }
        }
        Ok(())
    }

    /// Decodes the whole array into elements in native byte order.
    pub fn read_elements<T: Element + Pod>(&self, out: &mut [T]) -> Result<()> {
        let native = self.dtype().clone().with_byte_order(DType::of::<T>().byte_order());
        if native != DType::of::<T>() {
            let found = self.dtype();
            return Err(invalid(format!("expected an array of {}, found one of {found}", T::NAME)));
        }
        self.read_into(bytemuck::cast_slice_mut(out))?;
        if !self.dtype().is_native() {
            out.iter_mut().for_each(|element| *element = element.swap_bytes());
        }
        Ok(())
    }

    /// These rows, which are entries of the first axis. Of an array in C order, only the blocks
    /// with these rows are decoded.
    pub fn rows(&self, rows: Range<usize>) -> Result<NdArray<'static>> {
        let count = self.row_count()?;
        if rows.start > rows.end || rows.end > count {
            let message = format!("expected rows within 0..{count}, found {rows:?}");
            return Err(invalid(message));
        }
        let shape = [&[rows.len()], &self.shape()[1..]].concat();
        if !self.has_rows_in_place() {
            let chosen: Vec<usize> = rows.collect();
            return self.select_from_whole(&chosen);
        }
        let row = self.nbytes / count.max(1);
        let pieces = self.pieces(rows.start * row..rows.end * row, 0)?;
        let mut out = zeroed(rows.len() * row)?;
        match out.len() < PARALLEL {
            true => self.gather(pieces, &mut out)?,
            false => gather_in_order(pieces, &mut out)?,
        }
        NdArray::new(self.dtype().clone(), shape, out)
    }

    /// Chosen rows, in the given order, with repetitions. No block is decoded twice.
    pub fn select(&self, rows: &[usize]) -> Result<NdArray<'static>> {
        let count = self.row_count()?;
        if let Some(beyond) = rows.iter().find(|&&row| row >= count) {
            let message = format!("expected rows below {count}, found {beyond}");
            return Err(invalid(message));
        }
        if !self.has_rows_in_place() {
            return self.select_from_whole(rows);
        }
        let row = self.nbytes / count.max(1);
        let size = rows.len().checked_mul(row).ok_or_else(too_large)?;
        let mut pieces = Vec::with_capacity(rows.len());
        for (i, &index) in rows.iter().enumerate() {
            pieces.extend(self.pieces(index * row..(index + 1) * row, i * row)?);
        }
        let shape = [&[rows.len()], &self.shape()[1..]].concat();
        let mut out = zeroed(size)?;
        self.gather(pieces, &mut out)?;
        NdArray::new(self.dtype().clone(), shape, out)
    }

    fn row_count(&self) -> Result<usize> {
        self.shape()
            .first()
            .copied()
            .ok_or_else(|| invalid("expected an array with rows, found one without dimensions"))
    }

    /// Whether a row is a run of bytes.
    fn has_rows_in_place(&self) -> bool {
        self.order() == Order::C || self.shape().len() < 2
    }

    /// Rows of an array in Fortran order, where every row is spread over the whole array.
    fn select_from_whole(&self, rows: &[usize]) -> Result<NdArray<'static>> {
        let whole = self.read()?;
        let bytes = whole.c_bytes();
        let row = self.nbytes / self.shape()[0].max(1);
        let chosen = rows.iter().flat_map(|&index| &bytes[index * row..(index + 1) * row]).copied();
        let out: Vec<u8> = chosen.collect();
        let shape = [&[rows.len()], &self.shape()[1..]].concat();
        NdArray::new(self.dtype().clone(), shape, out)
    }

    /// The parts of chunks that make up these bytes of the array, which go to `to` in the output.
    fn pieces(&self, bytes: Range<usize>, to: usize) -> Result<Vec<Piece<'_>>> {
        let (mut pieces, mut at) = (Vec::new(), bytes.start);
        while at < bytes.end {
            let (index, within) = self.container.locate(at as u64)?;
            let chunk = self.container.chunk(index)?;
            let start = within as usize;
            let len = chunk.nbytes().saturating_sub(start).min(bytes.end - at);
            if len == 0 {
                return Err(no_more(chunk.at()).into());
            }
            pieces.push(Piece { chunk, range: start..start + len, to: to + at - bytes.start });
            at += len;
        }
        Ok(pieces)
    }

    /// Decodes pieces into their places in the output: chunk by chunk, and in each chunk by runs of
    /// adjacent blocks.
    fn gather(&self, mut pieces: Vec<Piece<'_>>, out: &mut [u8]) -> Result<()> {
        pieces.sort_by_key(|piece| (piece.chunk.index(), piece.range.start));
        with_scratch(|scratch| {
            let mut buffer = Vec::new();
            for of_chunk in pieces.chunk_by(|a, b| a.chunk.index() == b.chunk.index()) {
                let chunk = &of_chunk[0].chunk;
                chunk.verify()?;
                let block = chunk.header().blocksize().max(1);
                let together = |a: &Piece<'_>, b: &Piece<'_>| {
                    b.range.start / block <= (a.range.end - 1) / block
                };
                for run in of_chunk.chunk_by(together) {
                    if let [piece] = run {
                        let part = &mut out[piece.to..piece.to + piece.range.len()];
                        chunk.decode_range(piece.range.clone(), part, scratch)?;
                        continue;
                    }
                    let end = run.iter().map(|piece| piece.range.end).max().unwrap_or(0);
                    let start = run[0].range.start;
                    buffer.resize(end - start, 0);
                    chunk.decode_range(start..end, &mut buffer, scratch)?;
                    for piece in run {
                        let found = &buffer[piece.range.start - start..piece.range.end - start];
                        out[piece.to..piece.to + found.len()].copy_from_slice(found);
                    }
                }
            }
            Ok(())
        })
    }
}

impl Rows for PackedArray<'_> {
    fn dtype(&self) -> &DType {
        PackedArray::dtype(self)
    }

    fn shape(&self) -> &[usize] {
        PackedArray::shape(self)
    }

    fn step(&self) -> usize {
        let count = PackedArray::shape(self).first().copied().unwrap_or(0).max(1);
        if self.order() == Order::F && PackedArray::shape(self).len() > 1 {
            return count;
        }
        let row = (self.nbytes() / count).max(1);
        let chunk = self.container().header().chunk_size.map_or(0, |size| size as usize);
        (chunk / row).max(1)
    }

    fn read_rows(&self, rows: Range<usize>) -> Result<NdArray<'static>> {
        self.rows(rows)
    }
}

impl fmt::Debug for PackedArray<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (dtype, shape, cbytes) = (self.dtype(), self.shape(), self.cbytes());
        write!(f, "PackedArray({dtype}, {shape:?}, {} bytes in {cbytes})", self.nbytes)
    }
}

/// A part of a chunk, and where it goes in the output.
struct Piece<'a> {
    chunk: Chunk<'a>,
    range: Range<usize>,
    to: usize,
}

/// Decodes pieces that are contiguous in the output, on several threads.
fn gather_in_order(pieces: Vec<Piece<'_>>, out: &mut [u8]) -> Result<()> {
    let (mut parts, mut rest) = (Vec::new(), out);
    for piece in pieces {
        let part = take(&mut rest, piece.range.len())?;
        parts.push((piece, part));
    }
    parts
        .into_par_iter()
        .try_for_each_init(Scratch::default, |scratch, (piece, part)| {
            piece.chunk.read_range(piece.range, part, scratch)
        })
        .map_err(Error::from)
}

/// Splits off the first bytes of the remaining output.
fn take<'o>(rest: &mut &'o mut [u8], len: usize) -> Result<&'o mut [u8]> {
    let whole = std::mem::take(rest);
    if len > whole.len() {
        return Err(no_more(0).into());
    }
    let (part, after) = whole.split_at_mut(len);
    *rest = after;
    Ok(part)
}

#[cold]
fn no_more(at: usize) -> FormatError {
    FormatError::new(at as u64, "chunks of the size of the array", "others")
}

#[cold]
fn too_large() -> Error {
    Error::new(ErrorKind::Limit, "the array is larger than the address space")
}
