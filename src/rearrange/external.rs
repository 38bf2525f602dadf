//! A shuffle in two sequential passes, for datasets that are larger than memory.
//!
//! Pass 1 reads the dataset from front to back and scatters its samples to bucket files, each of
//! which is for a stretch of the output that fits in memory. Pass 2 reads one bucket after the
//! other, puts its samples in order in memory and writes them. So every byte is read and written
//! twice, always in long runs.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use super::{STRIDE, put};
use crate::error::{Error, ErrorKind, Result};
use crate::format::dataset::SideFile;
use crate::reader::DatasetReader;
use crate::sampler::Order;
use crate::writer::Writer;

/// A sample in a bucket: its position and its length, before its bytes.
const HEADER: usize = 16;
/// What a sample takes in memory beside its bytes and its header: where it is.
const ENTRY: u64 = 16;
/// More files than this may not be opened in one process everywhere.
const MAX_BUCKETS: usize = 512;
/// What each bucket buffers in pass 1, at most and at least.
const BUFFER: (u64, u64) = (4 << 10, 1 << 20);

/// Writes all samples in this order: the same dataset as [`copy`](super::copy) makes of the same
/// order, byte for byte, but no more than about `memory` bytes of samples are in memory at once.
///
/// The writer has some 10 to 16 bytes a sample on top of that, and the inverse of the order 8. Bucket files, as large as the data together, are in a directory beside the
/// output, which is removed at the end, however it ends. `progress` hears how many samples were
/// moved so far, twice as many as there are at the end.
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
    output: &Path,
    mut progress: impl FnMut(u64),
) -> Result<()> {
    let plan = Plan::new(reader, order, memory)?;
    if plan.ends.len() <= 1 {
        let indices = order.iter().map(|index| index as usize);
        return super::copy(reader, indices, writer, progress);
    }
    let scratch = Scratch::create(output)?;
    scatter(reader, &plan, memory, &scratch, &mut progress)?;
    let mut moved = reader.len() as u64;
    for bucket in 0..plan.ends.len() {
        gather(reader, order, &plan, bucket, &scratch, writer, |n| progress(moved + n))?;
        moved += plan.positions(bucket).end - plan.positions(bucket).start;
    }
    Ok(())
}

/// The position of each sample, if each comes once.
fn invert(order: &dyn Order) -> Result<Vec<u64>> {
    let wrong = || Error::new(ErrorKind::Invalid, "the order does not have each sample once");
    let len = usize::try_from(order.len()).map_err(|_| wrong())?;
    let mut inverse = vec![u64::MAX; len];
    for (position, index) in order.iter().enumerate() {
        let at = usize::try_from(index).ok().and_then(|index| inverse.get_mut(index));
        match at {
            Some(at) if *at == u64::MAX => *at = position as u64,
            _ => return Err(wrong()),
        }
    }
    Ok(inverse)
}

/// Which positions each bucket is for.
struct Plan {
    /// Where each bucket ends.
    ends: Vec<u64>,
    /// The position of each sample.
    inverse: Vec<u64>,
}

impl Plan {
    fn new(reader: &DatasetReader, order: &dyn Order, memory: u64) -> Result<Plan> {
        let inverse = invert(order)?;
        if inverse.len() != reader.len() {
            let message = format!("an order of {} for {} samples", inverse.len(), reader.len());
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        let mut ends = Vec::new();
        let mut held = 0u64;
        for (position, index) in order.iter().enumerate() {
            let range = reader.byte_range(index as usize)?;
            let size = range.end - range.start + HEADER as u64 + ENTRY;
            if held > 0 && held + size > memory {
                ends.push(position as u64);
                held = 0;
            }
            held += size;
        }
        if held > 0 {
            ends.push(order.len());
        }
        if ends.len() > MAX_BUCKETS {
            let message = format!(
                "{memory} bytes of memory for {} bytes of samples, expected at least {}",
                reader.data_len(),
                (reader.data_len() + reader.len() as u64 * (HEADER as u64 + ENTRY))
                    .div_ceil(MAX_BUCKETS as u64 / 2)
            );
            return Err(Error::new(ErrorKind::Limit, message));
        }
        Ok(Plan { ends, inverse })
    }

    fn positions(&self, bucket: usize) -> std::ops::Range<u64> {
        let start = bucket.checked_sub(1).map_or(0, |before| self.ends[before]);
        start..self.ends[bucket]
    }

    fn bucket_of(&self, position: u64) -> usize {
        self.ends.partition_point(|&end| end <= position)
    }
}

/// Pass 1.
fn scatter(
    reader: &DatasetReader,
    plan: &Plan,
    memory: u64,
    scratch: &Scratch,
    progress: &mut impl FnMut(u64),
) -> Result<()> {
    let buffer = (memory / plan.ends.len() as u64).clamp(BUFFER.0, BUFFER.1) as usize;
    let mut buckets = Vec::with_capacity(plan.ends.len());
    for bucket in 0..plan.ends.len() {
        let path = scratch.bucket(bucket);
        let file = File::create_new(&path).map_err(|e| Error::io(&path, e))?;
        buckets.push(BufWriter::with_capacity(buffer, file));
    }
    for (index, sample) in reader.iter_raw(..).enumerate() {
        let sample = sample?;
        let position = plan.inverse[index];
        let bucket = plan.bucket_of(position);
        let file = &mut buckets[bucket];
        let mut header = [0; HEADER];
        header[..8].copy_from_slice(&position.to_le_bytes());
        header[8..].copy_from_slice(&(sample.len() as u64).to_le_bytes());
        let written = file.write_all(&header).and_then(|()| file.write_all(&sample));
        written.map_err(|e| Error::io(scratch.bucket(bucket), e))?;
        if index % STRIDE == 0 {
            progress(index as u64);
        }
    }
    for (bucket, mut file) in buckets.into_iter().enumerate() {
        file.flush().map_err(|e| Error::io(scratch.bucket(bucket), e))?;
    }
    Ok(())
}

/// Pass 2, of one bucket.
fn gather(
    reader: &DatasetReader,
    order: &dyn Order,
    plan: &Plan,
    bucket: usize,
    scratch: &Scratch,
    writer: &mut Writer,
    mut progress: impl FnMut(u64),
) -> Result<()> {
    let path = scratch.bucket(bucket);
    let bytes = fs::read(&path).map_err(|e| Error::io(&path, e))?;
    // Room for the next one, while this one is in memory.
    fs::remove_file(&path).map_err(|e| Error::io(&path, e))?;
    let positions = plan.positions(bucket);
    let mut samples: Vec<&[u8]> = vec![&[]; (positions.end - positions.start) as usize];
    let mut rest = &bytes[..];
    let changed = || Error::new(ErrorKind::Damaged, "the file was changed meanwhile").at(&path);
    while !rest.is_empty() {
        let (header, after) = rest.split_first_chunk::<HEADER>().ok_or_else(changed)?;
        let (position, len) = header.split_at(8);
        let number = |bytes: &[u8]| bytes.try_into().map(u64::from_le_bytes).unwrap_or(u64::MAX);
        let len = usize::try_from(number(len)).map_err(|_| changed())?;
        let (sample, after) = after.split_at_checked(len).ok_or_else(changed)?;
        let at = number(position).checked_sub(positions.start).and_then(|at| at.try_into().ok());
        let at: usize = at.ok_or_else(changed)?;
        *samples.get_mut(at).ok_or_else(changed)? = sample;
        rest = after;
    }
    for (at, (sample, index)) in samples.into_iter().zip(order.range(positions)).enumerate() {
        let index = index as usize;
        put(reader, index, &reader.key(index)?, sample, writer)?;
        if at % STRIDE == 0 {
            progress(at as u64);
        }
    }
    Ok(())
}

/// The directory of the bucket files, removed with all that is in it when it is dropped.
struct Scratch(PathBuf);

impl Scratch {
    fn create(output: &Path) -> Result<Scratch> {
        let mut name = output.file_name().unwrap_or_default().to_os_string();
        name.push(format!(".shuffle-{}", std::process::id()));
        let path = output.with_file_name(name);
        debug_assert!(SideFile::of(&path).is_none());
        fs::create_dir(&path).map_err(|e| Error::io(&path, e))?;
        Ok(Scratch(path))
    }

    fn bucket(&self, number: usize) -> PathBuf {
        self.0.join(number.to_string())
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What cannot be removed is for the eye: its name says what it is.
        let _ = fs::remove_dir_all(&self.0);
    }
}
