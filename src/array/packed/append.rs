//! Appending to a container in place.
//!
//! New chunks go after the last one, and the header is written when all of them are there. If the
//! last chunk is not full it has to grow, and as chunks are contiguous it can only be overwritten.
//! Until the append is done, its old content is kept at the end of the file, in an [`Undo`] record.
//!
//! | step | after a crash in it |
//! | --- | --- |
//! | 1. truncate after the last chunk, append what extends beyond it, and the record; sync | the old container, with meaningless bytes after it |
//! | 2. overwrite the last chunk (and the metadata of an array), write offsets into free slots; sync | every reader can read all but the last chunk; [`recover`], or the next append, restores it |
//! | 3. write the header, 32 bytes; sync | the old or the new container; if only a part of the header was written, the record has the rest, and it is as after step 2 |
//! | 4. truncate the record; sync | the new container |
//!
//! If the last chunk is full and the container holds no array, only the header is overwritten, and
//! step 2 risks nothing. With our reader no byte is ever lost:
//! [`PackedArray`](crate::array::PackedArray) shows the old content even without recovery. With
//! other readers, the last chunk and the header are lost between a crash in step 2 or 3 and the
//! recovery. This relies on a disk that has written what was synced, and that leaves each byte of
//! an interrupted write either old or new.
//!
//! **No other program may have the file open**: a reader that has mapped it would see it change.
//! Two appends exclude each other by a lock on the file itself, which all of its names share.
//! Symbolic links are followed first. A file with several names (hard links) is refused, because
//! all of them would change.
//!
//! An append keeps codec, shuffle and element size unless told otherwise; chunks of one container
//! may differ in them. A container with a single chunk gets the default chunk size, because
//! bloscpack reduces the chunk size of small arrays to their size.

use std::borrow::Cow;
use std::path::Path;

use rayon::prelude::*;

use crate::error::{Error, ErrorKind, Result};
use crate::format::blosc::{Codec, Params, Scratch, Shuffle};
use crate::format::bloscpack::{
    ArrayMetadata, Chunk, Container, Header, Metadata, MetadataCodec, MetadataOptions, Room, Undo,
    metadata, offsets,
};
use crate::storage::{LocalStorage, Storage};
use crate::value::{NdArray, Order};

use super::recover::Locked;
use super::workers::{PARALLEL, compress, on_threads};

use super::pack::PackOptions;
pub use super::recover::{check, recover};
use crate::array::selection::invalid;

/// How appended chunks are compressed. Default: as in the container, at level 5, because the
/// container does not record the level.
///
/// ```
/// use kiste::array::{AppendOptions, PackOptions, PackedArray};
/// use kiste::value::NdArray;
///
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("rows.blp");
/// let rows = ndarray::arr2(&[[1i32, 2], [3, 4]]);
/// PackOptions::default().write(&path, &NdArray::from_ndarray(&rows))?;
/// AppendOptions::default().append(&path, &NdArray::from_ndarray(&ndarray::arr2(&[[5i32, 6]])))?;
/// assert_eq!(PackedArray::open(&path)?.to_ndarray::<i32>()?, ndarray::arr2(&[[1, 2], [3, 4], [5, 6]]).into_dyn());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Default)]
#[must_use = "options do nothing until something is appended with them"]
pub struct AppendOptions {
    codec: Option<Codec>,
    level: Option<u8>,
    shuffle: Option<Shuffle>,
    typesize: Option<usize>,
    metadata: Option<String>,
    threads: usize,
}

impl AppendOptions {
    /// The codec.
    pub fn codec(mut self, codec: Codec) -> AppendOptions {
        self.codec = Some(codec);
        self
    }

    /// The compression level, from 0 (copy) to 9.
    pub fn level(mut self, level: u8) -> AppendOptions {
        self.level = Some(level);
        self
    }

    /// How elements are shuffled before compression.
    pub fn shuffle(mut self, shuffle: Shuffle) -> AppendOptions {
        self.shuffle = Some(shuffle);
        self
    }

    /// Bytes of an element.
    pub fn typesize(mut self, typesize: usize) -> AppendOptions {
        self.typesize = Some(typesize);
        self
    }

    /// Replaces the metadata, which is JSON. It must fit into the space reserved for it; a
    /// container without metadata, or with an array's, is an error.
    pub fn metadata(mut self, text: impl Into<String>) -> AppendOptions {
        self.metadata = Some(text.into());
        self
    }

    /// How many threads compress. Default: 0, for rayon's pool; 1 uses only the calling thread.
    pub fn threads(mut self, threads: usize) -> AppendOptions {
        self.threads = threads;
        self
    }

    /// Appends rows to an array in a file.
    pub fn append(&self, path: impl AsRef<Path>, rows: &NdArray<'_>) -> Result<()> {
        self.append_in(&LocalStorage::mapped(), path, rows)
    }

    /// Appends rows to an array in a file of this storage. Type and other axes must be the same.
    pub fn append_in(
        &self,
        storage: &dyn Storage,
        path: impl AsRef<Path>,
        rows: &NdArray<'_>,
    ) -> Result<()> {
        let path = path.as_ref();
        self.run(storage, path, &rows.c_bytes(), Some(rows))
    }

    /// Appends bytes to a file. If there is an array in it, they must be whole rows.
    pub fn append_bytes(
        &self,
        storage: &dyn Storage,
        path: impl AsRef<Path>,
        bytes: &[u8],
    ) -> Result<()> {
        let path = path.as_ref();
        self.run(storage, path, bytes, None)
    }

    fn run(
        &self,
        storage: &dyn Storage,
        path: &Path,
        bytes: &[u8],
        rows: Option<&NdArray<'_>>,
    ) -> Result<()> {
        let locked = Locked::new(storage, path)?;
        locked.refuse_hard_links(path)?;
        locked.recover(storage)?;
        let path = &*locked.path;
        // Unmapped before the file is written.
        let plan = {
            let source = storage.open(path)?;
            locked.expect(source.id())?;
            let file = source.read(0..source.len())?;
            self.plan(&file, bytes, rows).map_err(|error| error.at(path))?
        };
        if let Some(plan) = plan {
            locked.expect(storage.stat(path)?.map_or((0, 0), |stat| stat.id))?;
            plan.execute(storage, path)?;
        }
        Ok(())
    }

    /// The bytes to write and their positions. `None` if there is nothing to append.
    fn plan(&self, file: &[u8], bytes: &[u8], rows: Option<&NdArray<'_>>) -> Result<Option<Plan>> {
        let container = Container::parse(file)?;
        let header = *container.header();
        let (Some(old_count), true) = (header.nchunks, header.offsets && header.version == 3)
        else {
            let message = "expected a container with offsets to append to, found one without";
            return Err(Error::new(ErrorKind::Unsupported, message));
        };
        let array = grown_array(&container, bytes.len(), rows)?;
        if bytes.is_empty() {
            return Ok(None);
        }
        let last = container.chunk(old_count.saturating_sub(1))?;
        let old = last.to_vec()?;
        let chunk_size = self.chunk_size(&header, &array, old.len() + bytes.len())?;
        let is_full = old.len() == chunk_size;
        let (data_at, first, content) = match is_full {
            true => (last.end(), old_count, Cow::Borrowed(bytes)),
            false => (last.at(), old_count - 1, Cow::Owned([&old, bytes].concat())),
        };
        let count = first + content.len().div_ceil(chunk_size) as u64;
        if count > header.slots() {
            let (room, more) = (header.max_app_chunks, count - old_count);
            let message = format!("expected room for {more} more chunks, found room for {room}");
            return Err(Error::new(ErrorKind::Limit, message));
        }
        let params = self.params(&container, &last)?;
        let (mut data, mut places) = (Vec::new(), Vec::new());
        for chunk in self.compress(&params, &content, chunk_size)? {
            places.push((data_at + data.len()) as u64);
            data.extend_from_slice(&chunk);
            data.extend_from_slice(header.checksum.digest(&chunk).as_slice());
        }
        let short = content.len() % chunk_size;
        let new_header = Header {
            chunk_size: Some(chunk_size as u32),
            last_chunk: Some(if short == 0 { chunk_size } else { short } as u32),
            nchunks: Some(count),
            max_app_chunks: header.slots() - count,
            ..header
        };
        let mut offsets_now = Vec::new();
        offsets::encode(&places, places.len() as u64, &mut offsets_now);
        let offsets_at = container.offsets_at() + first as usize * offsets::ENTRY;
        let mut patches = vec![(offsets_at, offsets_now)];
        if let Some(patch) = self.metadata_patch(&container, array.as_ref())? {
            patches.push(patch);
        }
        Ok(Some(Plan::new(file, last.end(), data_at, data, patches, new_header.encode())))
    }

    /// The chunk size of the container; of one with a single chunk the default, as its chunk size
    /// may have been reduced.
    fn chunk_size(
        &self,
        header: &Header,
        array: &Option<ArrayMetadata>,
        len: usize,
    ) -> Result<usize> {
        let Some(size) = header.chunk_size else {
            return Err(invalid("expected a chunk size to append with, found none"));
        };
        if header.nchunks != Some(1) {
            return Ok(size as usize);
        }
        let item = array.as_ref().map_or(1, |array| array.dtype.item_size().max(1));
        // Large enough that a later append finds a full chunk size.
        let wanted = PackOptions::default().chunk_size_for(len.max(PARALLEL), item, item)?;
        Ok(wanted.max(size as usize))
    }

    /// The new metadata section, if it changes.
    fn metadata_patch(
        &self,
        container: &Container<&[u8]>,
        array: Option<&ArrayMetadata>,
    ) -> Result<Option<(usize, Vec<u8>)>> {
        let Some(text) = &self.metadata else {
            return array.map(|array| shape_patch(container, array)).transpose();
        };
        if array.is_some() {
            return Err(invalid("expected metadata to replace, found metadata of an array"));
        }
        section_patch(container, |_| Ok(text.clone())).map(Some)
    }

    fn params(&self, container: &Container<&[u8]>, last: &Chunk<'_>) -> Result<Params> {
        // A chunk stored uncompressed does not record the shuffle.
        let first = container.chunk(0)?;
        let model = if last.header().is_memcpyed() { &first } else { last };
        let shuffle = match model.header().is_memcpyed() {
            true => Shuffle::default(),
            false => model.header().shuffle(),
        };
        let typesize = usize::from(container.header().typesize.max(1));
        Ok(Params {
            codec: self.codec.unwrap_or(model.header().codec()),
            level: self.level.unwrap_or(5),
            shuffle: self.shuffle.unwrap_or(shuffle),
            typesize: self.typesize.unwrap_or(typesize),
            blocksize: None,
        })
    }

    fn compress(&self, params: &Params, content: &[u8], size: usize) -> Result<Vec<Vec<u8>>> {
        let one = |scratch: &mut Scratch, bytes: &[u8]| {
            let mut chunk = Vec::new();
            compress(params, bytes, scratch, &mut chunk).map(|()| chunk)
        };
        if content.len() < PARALLEL || self.threads == 1 {
            let mut scratch = Scratch::default();
            return content.chunks(size).map(|bytes| one(&mut scratch, bytes)).collect();
        }
        on_threads(self.threads, || {
            content.par_chunks(size).map_init(Scratch::default, one).collect()
        })
    }
}

/// The array after appending `len` bytes, if the container holds one.
fn grown_array(
    container: &Container<&[u8]>,
    len: usize,
    rows: Option<&NdArray<'_>>,
) -> Result<Option<ArrayMetadata>> {
    let is_array = match container.metadata() {
        Some(metadata) => metadata.value()?.get("container").is_some_and(|value| value == "numpy"),
        None => false,
    };
    if !is_array {
        return match rows {
            Some(_) => Err(container
                .array()
                .map(drop)
                .map_err(Error::from)
                .err()
                .unwrap_or_else(|| invalid("expected an array to append to, found none"))),
            None => Ok(None),
        };
    }
    let mut array = container.array()?;
    let Some((&count, axes)) = array.shape.split_first() else {
        return Err(invalid("expected an array with rows, found one without dimensions"));
    };
    if array.order == Order::F && !axes.is_empty() {
        let message = "expected an array in C order to append to, found one in Fortran order";
        return Err(invalid(message));
    }
    let row = ArrayMetadata { shape: axes.to_vec(), ..array.clone() }.nbytes();
    let row = row.and_then(|row| usize::try_from(row).ok()).unwrap_or(0);
    if let Some(rows) = rows {
        let same = rows.dtype() == &array.dtype && rows.shape().get(1..) == Some(axes);
        if !same {
            let (dtype, found) = (&array.dtype, rows.dtype());
            let message = format!(
                "expected rows of {dtype} and shape {axes:?}, found {found} and shape {:?}",
                rows.shape()
            );
            return Err(invalid(message));
        }
    }
    if len > 0 && (row == 0 || len % row != 0) {
        return Err(invalid(format!("expected whole rows of {row} bytes, found {len} bytes")));
    }
    array.shape[0] = count + len.checked_div(row).unwrap_or(0);
    Ok(Some(array))
}

/// The metadata section with another shape.
fn shape_patch(container: &Container<&[u8]>, array: &ArrayMetadata) -> Result<(usize, Vec<u8>)> {
    section_patch(container, |section| Ok(with_shape(&section.text()?, &section.value()?, array)))
}

/// The metadata section with other content, of the same size as before, and where it is.
fn section_patch(
    container: &Container<&[u8]>,
    text: impl FnOnce(&Metadata<'_>) -> Result<String>,
) -> Result<(usize, Vec<u8>)> {
    let Some(section) = container.metadata() else {
        return Err(invalid("expected metadata to replace, found none"));
    };
    let text = text(&section)?;
    let header = section.header();
    let other = match header.codec {
        MetadataCodec::None => MetadataCodec::Zlib,
        MetadataCodec::Zlib => MetadataCodec::None,
    };
    let mut out = Vec::new();
    let mut done = Ok(());
    for codec in [header.codec, other] {
        let (checksum, level, room) =
            (header.checksum, header.level.max(1), Room::Bytes(header.max_size));
        done = metadata::encode(&text, &MetadataOptions { checksum, codec, level, room }, &mut out);
        if done.is_ok() {
            break;
        }
    }
    done.map_err(|error| {
        let message = format!("expected room for {}, found {}", error.expected, error.found);
        Error::new(ErrorKind::Limit, message)
    })?;
    Ok((section.range().start, out))
}

/// The metadata with another shape. Everything else in it stays, in its order.
fn with_shape(text: &str, value: &serde_json::Value, array: &ArrayMetadata) -> String {
    let shape = array.shape.iter().map(usize::to_string).collect::<Vec<_>>().join(",");
    let mut wanted = value.clone();
    wanted["shape"] = array.shape.iter().copied().collect();
    let key = "\"shape\":[";
    let parts = text.split_once(key).and_then(|(before, rest)| {
        rest.split_once(']').map(|(_, after)| format!("{before}{key}{shape}]{after}"))
    });
    let is_right = |text: &String| serde_json::from_str(text).ok().as_ref() == Some(&wanted);
    parts.filter(is_right).unwrap_or_else(|| {
        let mut text = String::new();
        metadata::write_json(&wanted, &mut text);
        text
    })
}

/// The writes of an append.
struct Plan {
    undo: Undo,
    /// Where the new chunks begin: at the last old one, or after it.
    data_at: u64,
    data: Vec<u8>,
    /// Other writes before the header.
    patches: Vec<(u64, Vec<u8>)>,
}

impl Plan {
    fn new(
        file: &[u8],
        old_end: usize,
        data_at: usize,
        data: Vec<u8>,
        patches: Vec<(usize, Vec<u8>)>,
        new_header: [u8; 32],
    ) -> Plan {
        let old = |at: usize, len: usize| (at as u64, file[at..at + len].to_vec());
        let mut before = vec![old(0, new_header.len())];
        before.push(old(data_at, data.len().min(old_end - data_at)));
        before.extend(patches.iter().map(|(at, bytes)| old(*at, bytes.len())));
        let new_end = (data_at + data.len()) as u64;
        let undo = Undo { old_end: old_end as u64, new_end, new_header, patches: before };
        let patches = patches.into_iter().map(|(at, bytes)| (at as u64, bytes)).collect();
        Plan { undo, data_at: data_at as u64, data, patches }
    }

    /// The four steps described at the top of this file.
    fn execute(&self, storage: &dyn Storage, path: &Path) -> Result<()> {
        let Undo { old_end, new_end, new_header, .. } = &self.undo;
        let overlap = self.data.len().min((old_end - self.data_at) as usize);
        let (over, mut behind) = (&self.data[..overlap], self.data[overlap..].to_vec());
        self.undo.encode(&mut behind);
        let write = || {
            let mut sink = storage.reopen(path)?;
            sink.set_len(*old_end)?;
            sink.append(&behind)?;
            sink.sync()?;

            sink.write_at(over, self.data_at)?;
            for (at, bytes) in &self.patches {
                sink.write_at(bytes, *at)?;
            }
            sink.sync()?;

            sink.write_at(new_header, 0)?;
            sink.sync()?;

            sink.set_len(*new_end)?;
            sink.sync()
        };
        write()
    }
}
