//! A shuffle within some memory, for datasets that are larger than that.
//!
//! Samples in the page cache are read from there: they are written one after the other, and nothing
//! else is. From the first ones on that would have to be fetched from all over a disk, and from the first one that
//! is large for the memory, there are two sequential passes over what is left.
//!
//! Pass 1 reads the dataset from front to back and scatters its samples to bucket files, each of
//! which is for a stretch of the output that fits in memory. Pass 2 takes one bucket after the
//! other, picks its samples in their order and writes them. So every byte is read and written
//! twice, always in long runs, except for the first bucket, which waits in memory.
//!
//! A bucket holds nothing but samples, in the order of the dataset: which ones, and how long each
//! is, follows from the order and the offsets. Buckets are scratch files of the writer, so what a
//! dead process leaves of them is removed with the rest of its unfinished dataset.

use std::ops::Range;
use std::path::Path;

use super::direct::Direct;
use super::in_order::{changed, in_order, slice};
use super::spill::Spill;
use super::{FEW, STRIDE, damaged};
use crate::dataset::DatasetReader;
use crate::dataset::Writer;
use crate::dataset::staging::Scratch;
use crate::error::{Error, ErrorKind, Result};
use crate::format::claimed::Claimed;
use crate::reader::{Reader, ReaderExt, name_of};
use crate::sampler::Order;
use crate::storage::{CachedFile, Source, prefer_huge_pages, prefetch};

/// Memory for a sample of the current bucket on top of its bytes: its place.
const ENTRY: u64 = size_of::<Place>() as u64 + 16;
/// More files than this may not be opened in one process everywhere.
const MAX_BUCKETS: usize = 512;
/// Samples after the one that is written whose first bytes are prefetched: they are anywhere in a bucket.
const SOON: usize = 8;

/// Writes all samples in this order: the same dataset as [`copy`](super::copy) makes of the same
/// order, byte for byte, but no more than about `memory` bytes of samples are in memory at a time,
/// including those that are mapped.
///
/// On top of that come buffers, of an eighth of the memory and 20 MB, two bytes a sample here, twelve
/// or more in the writer, and the offsets, eight bytes a sample, which are mapped and looked up in
/// this order.
///
/// On Linux, samples of a dataset of one file on a disk are read directly for as long as they are in the page cache,
/// which takes none of that memory and no room on the disk, up to the first one of more than 1 MiB and 1/48 of the
/// memory. For the others there are bucket files, nearly as large as they are together, where the new dataset is
/// being written, until each has been used.
///
/// A reader that does not know how long its samples are, such as a join, is read once more at the start, and eight bytes
/// a sample are kept of any that is no dataset.
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
    reader: &dyn Reader,
    order: &dyn Order,
    memory: u64,
    writer: &mut Writer,
    mut progress: impl FnMut(u64) -> Result<()>,
) -> Result<()> {
    check(reader, order)?;
    let work = Work { reader, lens: Lens::of(reader, &mut progress)?, order };
    let samples = reader.len() as u64;
    let all = work.lens.all().saturating_add(samples * ENTRY);
    if samples <= 1 || all <= memory {
        let indices = order.iter().map(|index| index as usize);
        return super::copy(reader, indices, writer, |moved| progress(2 * moved));
    }
    if all / (MAX_BUCKETS as u64 / 2 - 1) > memory {
        // Maybe too much for any plan, which is said before anything is written.
        Plan::new(&work, memory, 0)?;
    }
    let moved = directly(reader, order, memory, writer, &mut progress)?;
    if moved < samples {
        let plan = Plan::new(&work, memory, moved)?;
        in_two_passes(&work, memory, plan, writer, &mut progress)?;
    }
    progress(2 * samples)
}

/// What is moved where.
struct Work<'a> {
    reader: &'a dyn Reader,
    lens: Lens<'a>,
    order: &'a dyn Order,
}

/// How many bytes each sample has.
enum Lens<'a> {
    Dataset(&'a DatasetReader),
    /// Of a reader of other kind, and all together.
    List(Vec<u64>, u64),
}

impl Lens<'_> {
    fn of<'a>(
        reader: &'a dyn Reader,
        progress: &mut impl FnMut(u64) -> Result<()>,
    ) -> Result<Lens<'a>> {
        if let Some(dataset) = DatasetReader::of(reader) {
            return Ok(Lens::Dataset(dataset));
        }
        let mut lens = Claimed::new(reader.len() as u64).filled(0)?;
        for start in (0..reader.len()).step_by(FEW) {
            progress(0)?;
            let few = start..reader.len().min(start + FEW);
            if reader.is_remote() && reader.known_len(start)?.is_none() {
                reader.prefetch(&few.clone().collect::<Vec<_>>());
            }
            for index in few {
                lens[index] = reader.raw_len(index)?;
            }
        }
        let all = lens.iter().fold(0, |all: u64, len| all.saturating_add(*len));
        Ok(Lens::List(lens, all))
    }

    fn all(&self) -> u64 {
        match self {
            Lens::Dataset(dataset) => dataset.data_len(),
            Lens::List(_, all) => *all,
        }
    }

    #[inline]
    fn get(&self, index: usize) -> Result<u64> {
        match self {
            Lens::Dataset(dataset) => {
                let range = dataset.byte_range(index)?;
                Ok(range.end - range.start)
            }
            Lens::List(lens, _) => lens.get(index).copied().ok_or_else(changed),
        }
    }

    /// Fails for a sample that was of another length before.
    #[inline]
    fn check(&self, reader: &dyn Reader, index: usize, sample: &[u8]) -> Result<()> {
        match self {
            Lens::List(lens, _) if lens[index] != sample.len() as u64 => {
                Err(reader.locate(index).describe(changed()))
            }
            _ => Ok(()),
        }
    }
}

/// Refuses an order that is not one of all samples, each once.
fn check(reader: &dyn Reader, order: &dyn Order) -> Result<()> {
    if order.len() != reader.len() as u64 {
        let message = format!("an order of {} for {} samples", order.len(), reader.len());
        return Err(Error::new(ErrorKind::Invalid, message));
    }
    let mut seen = Claimed::new(reader.len().div_ceil(64) as u64).filled(0_u64)?;
    for index in order.iter() {
        let (word, bit) = ((index / 64) as usize, 1 << (index % 64));
        let is_new = index < order.len() && seen[word] & bit == 0;
        if !is_new {
            let message = "the order does not have each sample once";
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        seen[word] |= bit;
    }
    Ok(())
}

/// Writes samples from the page cache. Returns how many these are.
fn directly(
    reader: &dyn Reader,
    order: &dyn Order,
    memory: u64,
    writer: &mut Writer,
    progress: &mut impl FnMut(u64) -> Result<()>,
) -> Result<u64> {
    let Some(dataset) = DatasetReader::of(reader) else { return Ok(0) };
    let Some(file) = dataset.data().and_then(CachedFile::of) else { return Ok(0) };
    let direct = Direct::new(dataset, order, &file, memory);
    direct.run(writer, |moved| progress(2 * moved))
}

/// Writes the samples of a plan.
fn in_two_passes(
    work: &Work<'_>,
    memory: u64,
    plan: Plan,
    writer: &mut Writer,
    mut progress: impl FnMut(u64) -> Result<()>,
) -> Result<()> {
    let Some(first) = plan.buckets.first() else { return Ok(()) };
    let (all, start) = (work.reader.len() as u64, first.positions.start);
    let scratch = writer.scratch()?;
    let held = scatter(work, &plan, memory, &scratch, &mut |n| progress(2 * start + n))?;
    let Plan { buckets, bucket_of } = plan;
    drop(bucket_of);
    let mut next = open_ahead(&scratch, 1, buckets.len())?;
    let moved = all + start;
    let name = name_of(work.reader);
    gather(work, &buckets[0], &held, name.as_deref(), writer, |n| progress(moved + n))?;
    drop(held);
    for (number, bucket) in buckets.iter().enumerate().skip(1) {
        let moved = all + bucket.positions.start;
        let Some(file) = next.take() else { break };
        next = open_ahead(&scratch, number + 1, buckets.len())?;
        let path = scratch.path(number);
        let bytes = file.read(0..bucket.bytes)?;
        gather(work, bucket, &bytes, Some(&path), writer, |n| progress(moved + n))?;
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

/// The bucket of each sample in pass 1.
struct Plan {
    buckets: Vec<Bucket>,
    /// The bucket of each sample, or [`NOWHERE`].
    bucket_of: Vec<u16>,
}

/// The bucket of a sample that has been written already.
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
    /// For the samples from a position on.
    fn new(work: &Work<'_>, memory: u64, start: u64) -> Result<Plan> {
        let Work { reader, lens, order } = work;
        let mut bucket_of = Claimed::new(reader.len() as u64).filled(NOWHERE)?;
        let mut buckets: Vec<Bucket> = Vec::new();
        let (mut indices, mut lengths) = (Vec::new(), Vec::new());
        for first in (start..order.len()).step_by(STRIDE) {
            indices.clear();
            order.fill(first..order.len().min(first + STRIDE as u64), &mut indices);
            // Looked up together, so that one does not wait for the other.
            lengths.clear();
            for &index in &indices {
                lengths.push(lens.get(index as usize)?);
            }
            for ((position, &index), &bytes) in (first..).zip(&indices).zip(&lengths) {
                let full = buckets.last().is_none_or(|last| last.memory() + bytes + ENTRY > memory);
                if full && buckets.len() == MAX_BUCKETS {
                    return Err(too_little(work, memory));
                }
                if full {
                    buckets.push(Bucket { positions: position..position, bytes: 0 });
                }
                if let Some(last) = buckets.last_mut() {
                    last.positions.end += 1;
                    last.bytes += bytes;
                }
                bucket_of[index as usize] = buckets.len() as u16 - 1;
            }
        }
        Ok(Plan { buckets, bucket_of })
    }
}

fn too_little(work: &Work<'_>, memory: u64) -> Error {
    let (all, samples) = (work.lens.all(), work.reader.len() as u64);
    let expected = (all + samples * ENTRY).div_ceil(MAX_BUCKETS as u64 / 2);
    let message = format!(
        "{memory} bytes of memory for {all} bytes of samples, expected at least {expected}"
    );
    Error::new(ErrorKind::Limit, message)
}

/// Pass 1. The samples of the first bucket stay in memory, which nothing else needs as yet: for a
/// dataset of twice the memory that is half of what would go to the disk.
fn scatter(
    work: &Work<'_>,
    plan: &Plan,
    memory: u64,
    scratch: &Scratch,
    progress: &mut impl FnMut(u64) -> Result<()>,
) -> Result<Vec<u8>> {
    let mut held = Vec::with_capacity(plan.buckets[0].bytes as usize);
    prefer_huge_pages(held.spare_capacity_mut());
    let bytes = plan.buckets[1..].iter().map(|bucket| bucket.bytes).sum();
    let spill = Spill { files: plan.buckets.len() - 1, bytes, memory: memory / 8 };
    spill.run(
        |file| scratch.create(file + 1),
        |files| {
            let mut moved = 0;
            let bucket_of = &plan.bucket_of;
            in_order(
                work.reader,
                |index| bucket_of[index] != NOWHERE,
                |index, sample| {
                    work.lens.check(work.reader, index, sample)?;
                    match usize::from(bucket_of[index]).checked_sub(1) {
                        Some(file) => files.append(file, sample)?,
                        None => held.extend_from_slice(sample),
                    }
                    moved += 1;
                    if moved % FEW as u64 == 0 { progress(moved) } else { Ok(()) }
                },
            )
        },
    )?;
    Ok(held)
}

/// Pass 2, of one bucket.
fn gather(
    work: &Work<'_>,
    bucket: &Bucket,
    bytes: &[u8],
    path: Option<&Path>,
    writer: &mut Writer,
    mut progress: impl FnMut(u64) -> Result<()>,
) -> Result<()> {
    let Work { reader, order, .. } = work;
    let places = places(work, bucket)?;
    let changed = || path.into_iter().fold(changed(), Error::at);
    for (at, place) in places.iter().enumerate() {
        if let Some(soon) = places.get(at + SOON) {
            slice(bytes, soon.start, soon.len).into_iter().for_each(prefetch);
        }
        let sample = slice(bytes, place.start, place.len).ok_or_else(changed)?;
        writer.write_packed(sample).map_err(|error| {
            let index = order.index_at(bucket.positions.start + at as u64) as usize;
            damaged(*reader, index, error)
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
fn places(work: &Work<'_>, bucket: &Bucket) -> Result<Vec<Place>> {
    let Work { lens, order, .. } = work;
    let mut indices: Vec<(u64, usize)> =
        order.range(bucket.positions.clone()).enumerate().map(|(at, index)| (index, at)).collect();
    indices.sort_unstable();
    let mut places = vec![Place { start: 0, len: 0 }; indices.len()];
    let mut start = 0;
    for (index, at) in indices {
        let len = lens.get(index as usize)?;
        places[at] = Place { start, len };
        start += len;
    }
    Ok(places)
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    use super::super::spill::FEW_BYTES;
    use super::*;
    use crate::reader::FieldNames;
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

    /// The content of the data file of a dataset of this many samples that this fills.
    fn written(path: &Path, samples: u64, fill: impl FnOnce(&mut Writer)) -> Vec<u8> {
        let options = Writer::options().durable(false).digests(false).overwrite(true);
        let mut writer = options.create(path).unwrap();
        fill(&mut writer);
        assert_eq!(writer.finish().unwrap().samples, samples);
        std::fs::read(path).unwrap()
    }

    fn work<'a>(reader: &'a dyn Reader, order: &'a dyn Order) -> Work<'a> {
        Work { reader, lens: Lens::of(reader, &mut |_| Ok(())).unwrap(), order }
    }

    #[test]
    fn views_are_shuffled_as_datasets_are() {
        let dir = tempfile::tempdir().unwrap();
        let (from, to) = (dir.path().join("from"), dir.path().join("to"));
        let reader = dataset(&from);
        let names = FieldNames::all();
        let views: [&dyn Reader; 3] = [
            &(&reader).range(20..290),
            // It does not know how long its samples are.
            &(&reader).range(20..290).with_fields(names),
            &Grows(AtomicUsize::new(0), &reader),
        ];
        for (nth, view) in views.into_iter().enumerate() {
            let samples = view.len() as u64;
            let order = Shuffle::new(samples, 5).order(0).unwrap();
            let buckets = Plan::new(&work(view, &*order), 12_000, 0).unwrap().buckets;
            assert!(buckets.len() > 4, "{}", buckets.len());
            if nth == 2 {
                let options = Writer::options().durable(false).overwrite(true);
                let mut writer = options.create(&to).unwrap();
                let shuffled = external_shuffle(view, &*order, 12_000, &mut writer, |_| Ok(()));
                assert_eq!(shuffled.unwrap_err().kind(), ErrorKind::Damaged);
                writer.abort().unwrap();
                continue;
            }
            let expected = written(&to, samples, |writer| {
                let indices = order.iter().map(|index| index as usize);
                super::super::copy(view, indices, writer, |_| Ok(())).unwrap();
            });
            let found = written(&to, samples, |writer| {
                external_shuffle(view, &*order, 12_000, writer, |_| Ok(())).unwrap();
            });
            assert!(found == expected);
        }
    }

    /// Samples of another length each time that they are read.
    struct Grows<'a>(AtomicUsize, &'a DatasetReader);

    impl Reader for Grows<'_> {
        fn len(&self) -> usize {
            self.1.len()
        }
        fn key(&self, index: usize) -> Result<Cow<'_, str>> {
            self.1.key(index)
        }
        fn find(&self, key: &str) -> Result<Option<usize>> {
            self.1.find(key)
        }
        fn get_raw(&self, index: usize) -> Result<Cow<'_, [u8]>> {
            let mut raw = self.1.get_raw(index)?.into_owned();
            raw.resize(raw.len() + self.0.fetch_add(1, Relaxed), 0);
            Ok(Cow::Owned(raw))
        }
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
        let work = work(&reader, &*order);
        let ends = Plan::new(&work, memory, 0).unwrap().buckets;
        assert!((5..20).contains(&ends.len()), "{}", ends.len());
        let ends = ends.iter().map(|bucket| bucket.positions.end);
        for done in ends.flat_map(|end| [end - 1, end, end + 1]).chain([0, 1]) {
            let done = done.min(300);
            let mut last = 2 * done;
            let found = written(&to, 300, |writer| {
                let first = indices[..done as usize].iter().copied();
                super::super::copy(&reader, first, writer, |_| Ok(())).unwrap();
                let plan = Plan::new(&work, memory, done).unwrap();
                let progress = |moved| {
                    assert!((last..=600).contains(&moved), "{last}, {moved}");
                    last = moved;
                    Ok(())
                };
                in_two_passes(&work, memory, plan, writer, progress).unwrap();
            });
            assert!(found == expected, "{done} samples first");
        }
    }

    #[test]
    fn an_order_of_other_samples_is_refused() {
        struct Of(Vec<u64>);
        impl Order for Of {
            fn len(&self) -> u64 {
                self.0.len() as u64
            }
            fn index_at(&self, position: u64) -> u64 {
                self.0[position as usize]
            }
        }
        let dir = tempfile::tempdir().unwrap();
        let reader = dataset(&dir.path().join("from"));
        let all = 0..300_u64;
        let twice = all.clone().map(|i| if i == 200 { 100 } else { i }).collect();
        let beyond = all.clone().map(|i| if i == 200 { 300 } else { i }).collect();
        let far = all.clone().map(|i| if i == 200 { u64::MAX } else { i }).collect();
        for indices in [twice, beyond, far, (0..299).collect(), (0..301).collect()] {
            let options = Writer::options().durable(false).overwrite(true);
            let mut writer = options.create(dir.path().join("to")).unwrap();
            let shuffled = external_shuffle(&reader, &Of(indices), 12_000, &mut writer, |_| Ok(()));
            assert_eq!(shuffled.unwrap_err().kind(), ErrorKind::Invalid);
            assert!(writer.is_empty());
            writer.abort().unwrap();
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
        let mapped = dataset_of(&from, lengths);
        let expected = written(&to, 60, |writer| {
            super::super::copy(&mapped, indices.iter().copied(), writer, |_| Ok(())).unwrap();
        });
        if let Some(file) = mapped.data().and_then(CachedFile::of) {
            let direct = Direct::new(&mapped, &*order, &file, memory);
            let options = Writer::options().durable(false).overwrite(true);
            let mut writer = options.create(&to).unwrap();
            let moved = direct.run(&mut writer, |_| Ok(())).unwrap();
            assert!(moved <= 4, "{moved}");
            writer.abort().unwrap();
        }
        // Directly up to the first of them; and all in two passes, where threads write in the first.
        let buckets = Plan::new(&work(&mapped, &*order), memory, 0).unwrap().buckets;
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
        // Of several units for each thread that reads.
        let reader = dataset_of(&dir.path().join("from"), (0..5000).map(|i| i * 7 % 600));
        let order = Shuffle::new(5000, 5).order(0).unwrap();
        let Some(file) = reader.data().and_then(CachedFile::of) else { return };
        let direct = Direct::new(&reader, &*order, &file, 12_000);
        let to = dir.path().join("to");
        let mut writer = Writer::options().durable(false).create(&to).unwrap();
        let moved = direct.run(&mut writer, |_| Ok(())).unwrap();
        // All of them, unless the file system does not tell.
        assert_eq!(writer.len(), moved);
        writer.finish().unwrap();
        let made = DatasetReader::open(&to).unwrap();
        assert!(made.len() as u64 == moved && moved <= 5000, "{moved}");
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
