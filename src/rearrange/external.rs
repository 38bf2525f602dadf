//! A shuffle in two sequential passes, for datasets that are larger than memory.
//!
//! Pass 1 reads the dataset from front to back and scatters its samples to bucket files, each of
//! which is for a stretch of the output that fits in memory. Pass 2 takes one bucket after the
//! other, picks its samples in their order and writes them. So every byte is read and written
//! twice, always in long runs, except those of the first bucket, which waits in memory.
//!
//! A bucket holds nothing but samples, in the order of the dataset: which ones, and how long each
//! is, follows from the order and the offsets. Buckets are scratch files of the writer, so what a
//! dead process leaves of them is removed with the rest of its unfinished dataset.

use std::borrow::Cow;
use std::ops::Range;
use std::path::Path;

use super::{FEW, damaged};
use crate::dataset::DatasetReader;
use crate::dataset::Writer;
use crate::dataset::staging::Scratch;
use crate::error::{Error, ErrorKind, Result};
use crate::sampler::Order;
use crate::storage::{Sink, Source};

/// What a sample of the current bucket takes in memory on top of its bytes: where it is.
const ENTRY: u64 = size_of::<Place>() as u64 + 16;
/// More files than this may not be opened in one process everywhere.
const MAX_BUCKETS: usize = 512;
/// What each bucket gathers in pass 1 before it is written, at least and at most; between these, an
/// eighth of the memory is for all of them. The page cache takes a megabyte at a time well.
const BUFFER: (u64, u64) = (4 << 10, 1 << 20);
/// The most of the dataset that pass 1 looks at in one go.
const WINDOW: u64 = 8 << 20;

/// Writes all samples in this order: the same dataset as [`copy`](super::copy) makes of the same
/// order, byte for byte, but no more than about `memory` bytes of samples are in memory at a time,
/// including those that are mapped.
///
/// On top of that come buffers, of an eighth of the memory and 20 MB, two bytes a sample here, ten
/// or more in the writer, and the offsets, eight bytes a sample, which are mapped and looked up in
/// this order. Bucket files, nearly as large as the data together, are where the new dataset is
/// being written until each has been used. `progress` gets the number of samples moved so far,
/// which is twice the number of samples at the end.
///
/// # Errors
///
/// [`Invalid`](ErrorKind::Invalid) if the order is not one of all samples, each once;
/// [`Limit`](ErrorKind::Limit) if the memory is less than 1/512 of the data; and as
/// [`copy`](super::copy).
pub fn external_shuffle(
    reader: &DatasetReader,
    order: &dyn Order,
    memory: u64,
    writer: &mut Writer,
    mut progress: impl FnMut(u64) -> Result<()>,
) -> Result<()> {
    let plan = Plan::new(reader, order, memory)?;
    if plan.buckets.len() <= 1 {
        let indices = order.iter().map(|index| index as usize);
        return super::copy(reader, indices, writer, progress);
    }
    let scratch = writer.scratch()?;
    let held = scatter(reader, &plan, memory, &scratch, &mut progress)?;
    let Plan { buckets, bucket_of } = plan;
    drop(bucket_of);
    let mut moved = reader.len() as u64;
    let mut next = open_ahead(&scratch, 1, buckets.len())?;
    gather(reader, order, &buckets[0], &held, reader.path(), writer, |n| progress(moved + n))?;
    drop(held);
    for (number, bucket) in buckets.iter().enumerate().skip(1) {
        moved = reader.len() as u64 + bucket.positions.start;
        let Some(file) = next.take() else { break };
        next = open_ahead(&scratch, number + 1, buckets.len())?;
        let path = scratch.path(number);
        let bytes = file.read(0..bucket.bytes)?;
        gather(reader, order, bucket, &bytes, &path, writer, |n| progress(moved + n))?;
        // Its room on the disk is needed for the output, and what never got there is spared it.
        drop(bytes);
        drop(file);
        scratch.remove(number)?;
    }
    Ok(())
}

/// Opens a bucket, if there is one of this number, which is fetched while the one before it is
/// written.
fn open_ahead(scratch: &Scratch, number: usize, buckets: usize) -> Result<Option<Source>> {
    if number >= buckets {
        return Ok(None);
    }
    let file = scratch.open(number)?;
    file.will_need(0..file.len());
    Ok(Some(file))
}

/// What goes where in pass 1.
struct Plan {
    buckets: Vec<Bucket>,
    /// The bucket of each sample.
    bucket_of: Vec<u16>,
}

/// A stretch of the output.
struct Bucket {
    positions: Range<u64>,
    bytes: u64,
}

impl Bucket {
    fn memory(&self) -> u64 {
        self.bytes + (self.positions.end - self.positions.start) * ENTRY
    }
}

impl Plan {
    fn new(reader: &DatasetReader, order: &dyn Order, memory: u64) -> Result<Plan> {
        if order.len() != reader.len() as u64 {
            let message = format!("an order of {} for {} samples", order.len(), reader.len());
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        let mut bucket_of = vec![u16::MAX; reader.len()];
        let mut buckets: Vec<Bucket> = Vec::new();
        for (position, index) in order.iter().enumerate() {
            let (position, index) = (position as u64, index as usize);
            if bucket_of.get(index) != Some(&u16::MAX) {
                let message = "the order does not have each sample once";
                return Err(Error::new(ErrorKind::Invalid, message));
            }
            let range = reader.byte_range(index)?;
            let bytes = range.end - range.start;
            let full = buckets.last().is_none_or(|last| last.memory() + bytes + ENTRY > memory);
            if full && buckets.len() == MAX_BUCKETS {
                return Err(too_little(reader, memory));
            }
            if full {
                buckets.push(Bucket { positions: position..position, bytes: 0 });
            }
            if let Some(last) = buckets.last_mut() {
                last.positions.end += 1;
                last.bytes += bytes;
            }
            bucket_of[index] = buckets.len() as u16 - 1;
        }
        Ok(Plan { buckets, bucket_of })
    }
}

fn too_little(reader: &DatasetReader, memory: u64) -> Error {
    let expected =
        (reader.data_len() + reader.len() as u64 * ENTRY).div_ceil(MAX_BUCKETS as u64 / 2);
    let message = format!(
        "{memory} bytes of memory for {} bytes of samples, expected at least {expected}",
        reader.data_len(),
    );
    Error::new(ErrorKind::Limit, message)
}

/// Pass 1. The samples of the first bucket stay in memory, which nothing else needs as yet: for a
/// dataset of twice the memory that is half of what would go to the disk.
fn scatter(
    reader: &DatasetReader,
    plan: &Plan,
    memory: u64,
    scratch: &Scratch,
    progress: &mut impl FnMut(u64) -> Result<()>,
) -> Result<Vec<u8>> {
    let capacity = (memory / 8 / plan.buckets.len() as u64).clamp(BUFFER.0, BUFFER.1) as usize;
    let mut held = Vec::with_capacity(plan.buckets[0].bytes as usize);
    let mut files = Vec::with_capacity(plan.buckets.len());
    for number in 1..plan.buckets.len() {
        files.push(BucketFile::create(scratch, number, capacity)?);
    }
    let mut window = Window { reader, bytes: Cow::Borrowed(&[]), range: 0..0 };
    for (index, &bucket) in plan.bucket_of.iter().enumerate() {
        let sample = window.sample(index)?;
        match usize::from(bucket).checked_sub(1) {
            Some(file) => files[file].append(sample)?,
            None => held.extend_from_slice(sample),
        }
        if index % FEW == 0 {
            progress(index as u64)?;
        }
    }
    window.release();
    files.into_iter().try_for_each(BucketFile::finish)?;
    Ok(held)
}

/// The part of the dataset that pass 1 is at. What is behind it is no longer in memory, what comes
/// next is being fetched.
struct Window<'a> {
    reader: &'a DatasetReader,
    bytes: Cow<'a, [u8]>,
    range: Range<u64>,
}

impl<'a> Window<'a> {
    /// The bytes of a sample, none of which comes before the last one.
    fn sample(&mut self, index: usize) -> Result<&[u8]> {
        let Some(data) = self.reader.data() else {
            // Of many files: each is read where it is.
            self.bytes = self.reader.get_raw(index)?;
            return Ok(&self.bytes);
        };
        let range = self.reader.byte_range(index)?;
        if range.end > self.range.end {
            self.move_to(data, range.clone())?;
        }
        let start = range.start.wrapping_sub(self.range.start);
        let sample = slice(&self.bytes, start, range.end - range.start)
            .ok_or_else(|| changed(self.reader.path()))?;
        self.reader.check_read(index, sample)?;
        Ok(sample)
    }

    /// Lets go of these bytes, and of those before them: a page that is touched at the start of a
    /// window may have brought neighbours from before it, up to megabytes.
    fn release(&self) {
        if let Some(data) = self.reader.data() {
            data.release(self.range.start.saturating_sub(WINDOW)..self.range.end);
        }
    }

    /// Begins at this range, and has all of it.
    fn move_to(&mut self, data: &'a Source, range: Range<u64>) -> Result<()> {
        self.release();
        let most = range.start.saturating_add(WINDOW).min(self.reader.data_len());
        self.range = range.start..range.end.max(most);
        self.bytes = data.read(self.range.clone())?;
        data.will_need(self.range.end..self.range.end.saturating_add(WINDOW));
        Ok(())
    }
}

/// A bucket that is being filled, in large writes.
struct BucketFile {
    sink: Box<dyn Sink>,
    buffer: Vec<u8>,
    capacity: usize,
}

impl BucketFile {
    fn create(scratch: &Scratch, number: usize, capacity: usize) -> Result<BucketFile> {
        let sink = scratch.create(number)?;
        Ok(BucketFile { sink, buffer: Vec::with_capacity(capacity), capacity })
    }

    fn append(&mut self, mut bytes: &[u8]) -> Result<()> {
        while self.buffer.len() + bytes.len() > self.capacity {
            let (now, later) = bytes.split_at(self.capacity - self.buffer.len());
            self.buffer.extend_from_slice(now);
            self.write()?;
            bytes = later;
        }
        self.buffer.extend_from_slice(bytes);
        Ok(())
    }

    fn write(&mut self) -> Result<()> {
        self.sink.append(&self.buffer)?;
        self.buffer.clear();
        Ok(())
    }

    fn finish(mut self) -> Result<()> {
        self.write()
    }
}

/// Pass 2, of one bucket.
fn gather(
    reader: &DatasetReader,
    order: &dyn Order,
    bucket: &Bucket,
    bytes: &[u8],
    path: &Path,
    writer: &mut Writer,
    mut progress: impl FnMut(u64) -> Result<()>,
) -> Result<()> {
    for (at, place) in places(reader, order, bucket)?.into_iter().enumerate() {
        let sample = slice(bytes, place.start, place.len).ok_or_else(|| changed(path))?;
        writer.write_packed(sample).map_err(|error| {
            let index = order.index_at(bucket.positions.start + at as u64) as usize;
            damaged(reader, index, error)
        })?;
        if at % FEW == 0 {
            progress(at as u64)?;
        }
    }
    Ok(())
}

/// Where a sample is in its bucket.
#[derive(Clone, Copy)]
struct Place {
    start: u64,
    len: u64,
}

/// The places of the samples of a bucket, in the order of the output.
fn places(reader: &DatasetReader, order: &dyn Order, bucket: &Bucket) -> Result<Vec<Place>> {
    let mut indices: Vec<(u64, usize)> =
        order.range(bucket.positions.clone()).enumerate().map(|(at, index)| (index, at)).collect();
    indices.sort_unstable();
    let mut places = vec![Place { start: 0, len: 0 }; indices.len()];
    let mut start = 0;
    for (index, at) in indices {
        let range = reader.byte_range(index as usize)?;
        let len = range.end - range.start;
        places[at] = Place { start, len };
        start += len;
    }
    Ok(places)
}

/// `None` where these bytes are not there.
fn slice(bytes: &[u8], start: u64, len: u64) -> Option<&[u8]> {
    let (start, len) = (usize::try_from(start).ok()?, usize::try_from(len).ok()?);
    bytes.get(start..start.checked_add(len)?)
}

fn changed(path: &Path) -> Error {
    Error::new(ErrorKind::Damaged, "the file was changed meanwhile").at(path)
}
