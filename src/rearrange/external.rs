//! A shuffle within some memory, for datasets that are larger than that.
//!
//! What the page cache has is read from there: samples are written one after the other, and nothing
//! else is. From the first ones on that would have to be fetched from all over a disk, and from the first one that
//! is large for the memory, there are two sequential passes over what is left.
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
use std::sync::mpsc::{Receiver, SyncSender, channel, sync_channel};
use std::thread;

use super::spill::Spill;
use super::{FEW, STRIDE, damaged};
use crate::dataset::DatasetReader;
use crate::dataset::Writer;
use crate::dataset::staging::Scratch;
use crate::error::{Error, ErrorKind, Result};
use crate::sampler::Order;
use crate::storage::{CachedFile, Source};

/// What a sample of the current bucket takes in memory on top of its bytes: where it is.
const ENTRY: u64 = size_of::<Place>() as u64 + 16;
/// More files than this may not be opened in one process everywhere.
const MAX_BUCKETS: usize = 512;
/// Bytes of samples that are read from the page cache before they are written, and how many times that may wait.
const CHUNK: usize = 1 << 20;
const CHUNKS: usize = 2;
/// One in this many samples may have to be fetched before the rest is shuffled in two passes.
const RARE: u64 = 64;
/// The most of the dataset that pass 1 looks at in one go.
const WINDOW: u64 = 8 << 20;

/// Writes all samples in this order: the same dataset as [`copy`](super::copy) makes of the same
/// order, byte for byte, but no more than about `memory` bytes of samples are in memory at a time,
/// including those that are mapped.
///
/// On top of that come buffers, of an eighth of the memory and 20 MB, two bytes a sample here, ten
/// or more in the writer, and the offsets, eight bytes a sample, which are mapped and looked up in
/// this order.
///
/// On Linux, samples of a dataset of one file on a disk are read directly for as long as they are in the page cache,
/// which takes none of that memory and no room on the disk, up to the first one of more than 1 MiB and 1/32 of the
/// memory. For the others there are bucket files, nearly as large as they are together, where the new dataset is
/// being written, until each has been used.
///
/// `progress` gets how often a sample was moved so far, which is twice the number of samples at the end: one that
/// is read directly counts twice.
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
    let mut plan = Plan::new(reader, order, memory)?;
    if plan.buckets.len() <= 1 {
        let indices = order.iter().map(|index| index as usize);
        return super::copy(reader, indices, writer, |moved| progress(2 * moved));
    }
    if let Some(file) = reader.data().and_then(CachedFile::of) {
        let direct = Direct { reader, order, file, largest: largest(memory) };
        let moved = direct.run(writer, |moved| progress(2 * moved))?;
        plan.skip(reader, order, moved)?;
    }
    in_two_passes(reader, order, memory, plan, writer, &mut progress)?;
    progress(2 * reader.len() as u64)
}

/// Reads samples from the page cache.
struct Direct<'a> {
    reader: &'a DatasetReader,
    order: &'a dyn Order,
    file: CachedFile,
    /// Bytes of a sample, at most.
    largest: u64,
}

/// The most bytes a sample may have to be read directly: with one chunk that is read, one that is written and those
/// that wait, it is an eighth of the memory, or 4 MiB.
fn largest(memory: u64) -> u64 {
    (memory / 8 / (CHUNKS as u64 + 2)).max(CHUNK as u64)
}

/// Samples that were read: their bytes without gaps.
#[derive(Default)]
struct Chunk {
    indices: Vec<u64>,
    ends: Vec<usize>,
    bytes: Vec<u8>,
}

impl Direct<'_> {
    /// Writes samples for as long as they are in memory, but for a few, and none is too large. Returns how many these
    /// are. Another thread reads them.
    fn run(&self, writer: &mut Writer, mut progress: impl FnMut(u64) -> Result<()>) -> Result<u64> {
        thread::scope(|scope| {
            let (chunks, received) = sync_channel(CHUNKS);
            let (give_back, free) = channel();
            let thread = thread::Builder::new().name("kiste-read".into());
            let thread = thread.spawn_scoped(scope, move || {
                if let Err(error) = self.read(&chunks, &free) {
                    // The other side has ended, or hears it.
                    let _ = chunks.send(Err(error));
                }
            });
            thread.map_err(|e| Error::os("starting the thread that reads", e))?;
            let mut moved = 0;
            for chunk in received {
                let chunk: Chunk = chunk?;
                moved = self.write(&chunk, writer, moved, &mut progress)?;
                // There may be nothing left to read.
                let _ = give_back.send(chunk);
            }
            Ok(moved)
        })
    }

    fn write(
        &self,
        chunk: &Chunk,
        writer: &mut Writer,
        mut moved: u64,
        progress: &mut impl FnMut(u64) -> Result<()>,
    ) -> Result<u64> {
        let mut start = 0;
        for (&index, &end) in chunk.indices.iter().zip(&chunk.ends) {
            let (index, sample) = (index as usize, &chunk.bytes[start..end]);
            self.reader.check_read(index, sample)?;
            writer.write_packed(sample).map_err(|error| damaged(self.reader, index, error))?;
            (start, moved) = (end, moved + 1);
            if moved % FEW as u64 == 0 {
                progress(moved)?;
            }
        }
        Ok(moved)
    }

    /// Reads samples for as long as they are in memory, but for a few, and none is too large.
    fn read(&self, chunks: &SyncSender<Result<Chunk>>, free: &Receiver<Chunk>) -> Result<()> {
        let (mut position, mut fetched) = (0, 0);
        while position < self.order.len() {
            let mut chunk = free.try_recv().unwrap_or_default();
            let goes_on = self.read_chunk(&mut chunk, position, &mut fetched)?;
            position += chunk.indices.len() as u64;
            if chunks.send(Ok(chunk)).is_err() || !goes_on {
                break;
            }
        }
        Ok(())
    }

    /// Reads samples from a position on. Returns whether those after them may be read as well.
    fn read_chunk(&self, chunk: &mut Chunk, position: u64, fetched: &mut u64) -> Result<bool> {
        chunk.indices.clear();
        chunk.ends.clear();
        let positions = position..self.order.len().min(position + STRIDE as u64);
        self.order.fill(positions, &mut chunk.indices);
        let mut end = 0;
        for at in 0..chunk.indices.len() {
            let range = self.reader.byte_range(chunk.indices[at] as usize)?;
            let start = end;
            let len = range.end - range.start;
            if len > self.largest {
                chunk.indices.truncate(at);
                return Ok(false);
            }
            end += len as usize;
            if end > CHUNK && at > 0 {
                chunk.indices.truncate(at);
                return Ok(true);
            }
            if chunk.bytes.len() < end {
                let more = end.max(CHUNK) - chunk.bytes.len();
                chunk.bytes.reserve_exact(more);
                chunk.bytes.resize(end.max(CHUNK), 0);
            }
            let sample = &mut chunk.bytes[start..end];
            if !self.file.read_if_cached(sample, range.start) {
                *fetched += 1;
                if *fetched > 1 + (position + at as u64) / RARE {
                    chunk.indices.truncate(at);
                    return Ok(false);
                }
                self.file.read(sample, range.start)?;
            }
            chunk.ends.push(end);
        }
        Ok(true)
    }
}

/// Writes the samples of a plan.
fn in_two_passes(
    reader: &DatasetReader,
    order: &dyn Order,
    memory: u64,
    plan: Plan,
    writer: &mut Writer,
    mut progress: impl FnMut(u64) -> Result<()>,
) -> Result<()> {
    let Some(first) = plan.buckets.first() else { return Ok(()) };
    let (all, start) = (reader.len() as u64, first.positions.start);
    let scratch = writer.scratch()?;
    let held = scatter(reader, &plan, memory, &scratch, &mut |n| progress(2 * start + n))?;
    let Plan { buckets, bucket_of } = plan;
    drop(bucket_of);
    let mut next = open_ahead(&scratch, 1, buckets.len())?;
    let moved = all + start;
    gather(reader, order, &buckets[0], &held, reader.path(), writer, |n| progress(moved + n))?;
    drop(held);
    for (number, bucket) in buckets.iter().enumerate().skip(1) {
        let moved = all + bucket.positions.start;
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
    /// The bucket of each sample, or [`NOWHERE`].
    bucket_of: Vec<u16>,
}

/// The bucket of a sample that has been written.
const NOWHERE: u16 = u16::MAX;

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
        let mut bucket_of = vec![NOWHERE; reader.len()];
        let mut buckets: Vec<Bucket> = Vec::new();
        for (position, index) in order.iter().enumerate() {
            let (position, index) = (position as u64, index as usize);
            if bucket_of.get(index) != Some(&NOWHERE) {
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

    /// Takes out the samples of the first positions, which have been written.
    fn skip(&mut self, reader: &DatasetReader, order: &dyn Order, written: u64) -> Result<()> {
        let is_over = |bucket: &&Bucket| bucket.positions.end <= written;
        let over = self.buckets.iter().take_while(is_over).count();
        self.buckets.drain(..over);
        let Some(first) = self.buckets.first_mut() else { return Ok(()) };
        for index in order.range(first.positions.start..written) {
            let range = reader.byte_range(index as usize)?;
            first.bytes -= range.end - range.start;
            self.bucket_of[index as usize] = NOWHERE;
        }
        first.positions.start = written;
        for bucket in self.bucket_of.iter_mut().filter(|bucket| **bucket != NOWHERE) {
            *bucket = bucket.checked_sub(over as u16).unwrap_or(NOWHERE);
        }
        Ok(())
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
    let mut held = Vec::with_capacity(plan.buckets[0].bytes as usize);
    let bytes = plan.buckets[1..].iter().map(|bucket| bucket.bytes).sum();
    let spill = Spill { files: plan.buckets.len() - 1, bytes, memory: memory / 8 };
    spill.run(
        |file| scratch.create(file + 1),
        |files| {
            let mut window = Window { reader, bytes: Cow::Borrowed(&[]), range: 0..0 };
            let mut moved = 0;
            for (index, &bucket) in plan.bucket_of.iter().enumerate() {
                if bucket == NOWHERE {
                    continue;
                }
                let sample = window.sample(index)?;
                match usize::from(bucket).checked_sub(1) {
                    Some(file) => files.append(file, sample)?,
                    None => held.extend_from_slice(sample),
                }
                moved += 1;
                if moved % FEW as u64 == 0 {
                    progress(moved)?;
                }
            }
            window.release();
            Ok(())
        },
    )?;
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::spill::FEW_BYTES;
    use super::*;
    use crate::sampler::{Sampler as _, Shuffle};
    use crate::storage::LocalStorage;

    /// 300 samples of 20 to 619 bytes.
    fn dataset(path: &Path) -> DatasetReader {
        dataset_of(path, (0..300usize).map(|i| i * 7 % 600))
    }

    /// A sample for each of these lengths of a text.
    fn dataset_of(path: &Path, lengths: impl IntoIterator<Item = usize>) -> DatasetReader {
        let mut writer = Writer::options().durable(false).digests(false).create(path).unwrap();
        for (i, len) in lengths.into_iter().enumerate() {
            let pixels = "x".repeat(len);
            let sample = [("key", i.to_string()), ("pixels", pixels)];
            writer
                .write(&sample.into_iter().collect::<std::collections::BTreeMap<_, _>>())
                .unwrap();
        }
        writer.finish().unwrap();
        DatasetReader::open(path).unwrap()
    }

    /// What is in the data file of a dataset of so many samples that this fills.
    fn written(path: &Path, samples: u64, fill: impl FnOnce(&mut Writer)) -> Vec<u8> {
        let options = Writer::options().durable(false).digests(false).overwrite(true);
        let mut writer = options.create(path).unwrap();
        fill(&mut writer);
        assert_eq!(writer.finish().unwrap().samples, samples);
        std::fs::read(path).unwrap()
    }

    #[test]
    fn two_passes_continue_wherever_the_page_cache_ends() {
        let dir = tempfile::tempdir().unwrap();
        let (from, to) = (dir.path().join("from"), dir.path().join("to"));
        let reader = dataset(&from);
        let order = Shuffle::new(300, 5).order(0).unwrap();
        let indices: Vec<usize> = order.iter().map(|index| index as usize).collect();
        let expected = written(&to, 300, |writer| {
            super::super::copy(&reader, indices.iter().copied(), writer, |_| Ok(())).unwrap();
        });
        let memory = 12_000;
        let ends = Plan::new(&reader, &*order, memory).unwrap().buckets;
        assert!((5..20).contains(&ends.len()), "{}", ends.len());
        let ends = ends.iter().map(|bucket| bucket.positions.end);
        for done in ends.flat_map(|end| [end - 1, end, end + 1]).chain([0, 1]) {
            let done = done.min(300);
            let mut last = 2 * done;
            let found = written(&to, 300, |writer| {
                let first = indices[..done as usize].iter().copied();
                super::super::copy(&reader, first, writer, |_| Ok(())).unwrap();
                let mut plan = Plan::new(&reader, &*order, memory).unwrap();
                plan.skip(&reader, &*order, done).unwrap();
                let progress = |moved| {
                    assert!((last..=600).contains(&moved), "{last}, {moved}");
                    last = moved;
                    Ok(())
                };
                in_two_passes(&reader, &*order, memory, plan, writer, progress).unwrap();
            });
            assert!(found == expected, "{done} samples first");
        }
    }

    #[test]
    fn progress_ends_at_twice_the_samples() {
        let dir = tempfile::tempdir().unwrap();
        let reader = dataset(&dir.path().join("from"));
        let order = Shuffle::new(300, 5).order(0).unwrap();
        // In several buckets, and in one.
        for memory in [12_000, 1 << 20] {
            let mut last = 0u64;
            written(&dir.path().join("to"), 300, |writer| {
                let progress = |moved: u64| {
                    assert!((last..=600).contains(&moved), "{last}, {moved}");
                    last = moved;
                    Ok(())
                };
                external_shuffle(&reader, &*order, memory, writer, progress).unwrap();
            });
            assert_eq!(last, 600, "{memory}");
        }
    }

    #[test]
    fn large_samples_are_left_to_the_two_passes() {
        let dir = tempfile::tempdir().unwrap();
        let (from, to) = (dir.path().join("from"), dir.path().join("to"));
        let order = Shuffle::new(60, 5).order(0).unwrap();
        let indices: Vec<usize> = order.iter().map(|index| index as usize).collect();
        // Every tenth of those that are written is too large to be read directly.
        let memory = 4_000_000;
        let mut lengths = vec![300_000; 60];
        indices.iter().skip(4).step_by(10).for_each(|&index| lengths[index] = 1_200_000);
        assert!(largest(memory) < 1_200_000);
        let mapped = dataset_of(&from, lengths);
        let expected = written(&to, 60, |writer| {
            super::super::copy(&mapped, indices.iter().copied(), writer, |_| Ok(())).unwrap();
        });
        if let Some(file) = mapped.data().and_then(CachedFile::of) {
            let largest = largest(memory);
            let direct = Direct { reader: &mapped, order: &*order, file, largest };
            let options = Writer::options().durable(false).overwrite(true);
            let mut writer = options.create(&to).unwrap();
            let moved = direct.run(&mut writer, |_| Ok(())).unwrap();
            assert!(moved <= 4, "{moved}");
            writer.abort().unwrap();
        }
        // Directly up to the first of them; and all in two passes, the first of which has threads that write.
        let buckets = Plan::new(&mapped, &*order, memory).unwrap().buckets;
        let spilled: u64 = buckets[1..].iter().map(|bucket| bucket.bytes).sum();
        assert!(spilled > FEW_BYTES, "{spilled}");
        let options = DatasetReader::options().storage(Arc::new(LocalStorage::positioned()));
        let positioned = options.open(&from).unwrap();
        for reader in [&mapped, &positioned] {
            let found = written(&to, 60, |writer| {
                external_shuffle(reader, &*order, memory, writer, |_| Ok(())).unwrap();
            });
            assert!(found == expected);
        }
    }

    #[test]
    fn samples_in_the_page_cache_are_written_directly() {
        let dir = tempfile::tempdir().unwrap();
        let reader = dataset(&dir.path().join("from"));
        let order = Shuffle::new(300, 5).order(0).unwrap();
        let Some(file) = reader.data().and_then(CachedFile::of) else { return };
        let direct = Direct { reader: &reader, order: &*order, file, largest: 1000 };
        let to = dir.path().join("to");
        let mut writer = Writer::options().durable(false).create(&to).unwrap();
        let moved = direct.run(&mut writer, |_| Ok(())).unwrap();
        // All of them, unless the file system does not tell.
        assert_eq!(writer.len(), moved);
        writer.finish().unwrap();
        let made = DatasetReader::open(&to).unwrap();
        assert!(made.len() as u64 == moved && moved <= 300, "{moved}");
        for position in 0..made.len() {
            let index = order.index_at(position as u64) as usize;
            assert_eq!(made.get_raw(position).unwrap(), reader.get_raw(index).unwrap());
        }
        // The first error ends it.
        let mut writer = Writer::options().durable(false).overwrite(true).create(&to).unwrap();
        let stop = |_| Err(Error::new(ErrorKind::Interrupted, "stopped"));
        if moved >= FEW as u64 {
            let error = direct.run(&mut writer, stop).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Interrupted);
        }
        writer.abort().unwrap();
    }
}
