//! [`Column`]: numbers of samples that `.lengths` has.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::super::index::{FoundLengths, LengthsFile, stale_lengths};
use super::super::index::{checksum_of, checksum_of_offsets, recorded_md5};
use super::DatasetReader;
use super::open::{Offsets, OpenDataset};
use crate::error::{Error, ErrorKind, Remedy, Result};
use crate::format::dataset::{SideFile, crc, lengths};
use crate::reader::lengths::Concatenated;
use crate::sampler::Lengths;
use crate::sampler::lengths::no_length;
use crate::storage::{Source, in_parallel};

/// Numbers at most so far apart are read as one, from a disk and over a network.
const NEAR: u64 = 1 << 10;
const NEAR_REMOTE: u64 = 1 << 14;
/// Numbers, at most, that are read as one.
const RUN: u64 = 1 << 18;
/// Numbers of a map that are read one by one to learn whether it is in memory, and the time that each of them takes at
/// least if it is not: a page of a disk, which is no fault of a page that is in memory.
const PROBE: usize = 16;
const WAIT: Duration = Duration::from_micros(20);
/// The smallest page of memory.
const PAGE: u64 = 1 << 12;
/// Shards that are asked at the same time, where each may wait for an answer.
const ASKING: usize = 32;

/// A column of an open `.lengths`.
struct Column {
    source: Source,
    range: Range<u64>,
    identity: u64,
}

impl OpenDataset {
    /// The CRC-32C of all offsets.
    pub(super) fn checksum_of_all_offsets(&self) -> Result<u32> {
        match &self.offsets {
            Offsets::File(file) => checksum_of(file, 0),
            Offsets::Derived(ends) => Ok(checksum_of_offsets(ends)),
        }
    }

    /// Describes the data, without the checksum of its offsets.
    fn described(&self) -> Result<crc::Source> {
        let md5 = recorded_md5(&self.storage, &self.path)?;
        Ok(crc::Source { count: self.len as u64, data_len: self.data_len, md5, offsets: 0 })
    }

    /// What there is of a `.lengths`.
    fn find_lengths(&self) -> Result<FoundLengths> {
        let Some(source) = self.side_file(SideFile::Lengths)? else {
            return Ok(FoundLengths::Missing);
        };
        let found = self
            .described()
            .and_then(|now| FoundLengths::look(source, &now, || self.checksum_of_all_offsets()));
        self.check_current()?;
        found
    }

    /// A column of `.lengths`; `None` if there is no such file.
    fn lengths(&self, column: &str) -> Result<Option<Column>> {
        let error = match self.find_lengths()? {
            FoundLengths::Missing => return Ok(None),
            FoundLengths::Current(file) => match Column::of(file, column) {
                Ok(column) => return Ok(Some(column)),
                Err(error) => error,
            },
            FoundLengths::Stale(e, _) => Error::new(ErrorKind::Damaged, stale_lengths(&e)),
            FoundLengths::Damaged(e) => Error::from(e),
        };
        Err(advised(error.at(SideFile::Lengths.path(&self.path)), column, &self.path))
    }
}

fn advised(error: Error, column: &str, data: &Path) -> Error {
    error.with_remedy(Remedy::MakeLengths { column: column.to_owned(), data: data.to_path_buf() })
}

impl DatasetReader {
    /// A column of `.lengths`: numbers of the samples, by which batches are planned without reading these. `None` if
    /// there is no such file. The numbers are mapped where the dataset is, and no more of them is read than what is
    /// asked for. Spaces and quotes in the name do not matter.
    ///
    /// ```
    /// use std::collections::BTreeMap;
    /// use kiste::DatasetReader;
    /// # #[cfg(feature = "arrays")] {
    /// use kiste::index::IndexOptions;
    /// use kiste::rearrange::LengthOf;
    ///
    /// # let dir = tempfile::tempdir()?;
    /// # let path = dir.path().join("words.msgpack");
    /// let mut writer = kiste::Writer::create(&path)?;
    /// for word in ["crate", "a", "box"] {
    ///     writer.write(&BTreeMap::from([("key", word), ("text", word)]))?;
    /// }
    /// writer.finish()?;
    /// assert!(DatasetReader::open(&path)?.lengths("len(text)")?.is_none());
    ///
    /// // As "kiste index --lengths 'len(text)' words.msgpack" does.
    /// IndexOptions::default().lengths([LengthOf::parse("len(text)")?]).build(&path)?;
    ///
    /// let lengths = DatasetReader::open(&path)?.lengths("len(text)")?.expect("it was made");
    /// let mut found = Vec::new();
    /// lengths.gather(&[2, 0], &mut found)?;
    /// assert_eq!(found, [3, 5]);
    /// # }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Damaged`](ErrorKind::Damaged) for a file that is damaged, or of another version of the dataset;
    /// [`NotFound`](ErrorKind::NotFound) if it has other columns, which the error names, and if some shards have it
    /// and others do not.
    pub fn lengths(&self, column: &str) -> Result<Option<Arc<dyn Lengths>>> {
        if self.as_shards().is_none() {
            let found = self.shared.file(0)?.lengths(column)?;
            return Ok(found.map(|column| Arc::new(column) as Arc<dyn Lengths>));
        }
        let numbers: Vec<usize> = (0..self.shards()).collect();
        let threads = if self.shared.is_remote() { ASKING } else { 1 };
        let of_shard = |&number: &usize| -> Result<_> {
            let file = self.shared.file(number)?;
            let found = file.lengths(column)?;
            Ok(found.ok_or_else(|| SideFile::Lengths.path(&file.path)))
        };
        let found: Vec<_> =
            in_parallel(&numbers, threads, of_shard).into_iter().collect::<Result<_>>()?;
        if found.iter().all(|found| found.is_err()) {
            return Ok(None);
        }
        let shard = |found: Result<Column, _>| match found {
            Ok(column) => Ok(Arc::new(column) as Arc<dyn Lengths>),
            Err(path) => {
                let message = "expected this file next to each shard, found none here";
                let error = Error::new(ErrorKind::NotFound, message).at(path);
                Err(advised(error, column, self.path()))
            }
        };
        let shards = found.into_iter().map(shard).collect::<Result<Vec<_>>>()?;
        Ok(Some(Arc::new(Concatenated::new(shards))))
    }

    /// The names of the columns of `.lengths`: of those that all data files have. None of a file that is damaged or of
    /// another version.
    pub fn names_of_lengths(&self) -> Result<Vec<String>> {
        let mut names: Option<Vec<String>> = None;
        for number in 0..self.shards() {
            let found = match self.shared.file(number)?.find_lengths()? {
                FoundLengths::Current(file) => file.header.names(),
                _ => Vec::new(),
            };
            match &mut names {
                Some(names) => names.retain(|name| found.contains(name)),
                None => names = Some(found),
            }
            if names.as_ref().is_some_and(Vec::is_empty) {
                break;
            }
        }
        Ok(names.unwrap_or_default())
    }

    /// What there is of a `.lengths`; of a dataset of one file.
    pub(crate) fn find_lengths(&self) -> Result<FoundLengths> {
        self.shared.file(0)?.find_lengths()
    }

    /// Describes the data of a dataset of one file.
    pub(crate) fn source(&self) -> Result<crc::Source> {
        let file = self.shared.file(0)?;
        Ok(crc::Source { offsets: file.checksum_of_all_offsets()?, ..file.described()? })
    }
}

impl Column {
    fn of(file: LengthsFile, name: &str) -> Result<Column> {
        let LengthsFile { source, header } = file;
        match header.find(name) {
            Some(column) => {
                let (range, identity) = (header.range(column), header.identity(column));
                Ok(Column { source, range, identity })
            }
            None => {
                let all: Vec<&str> = header.columns().iter().map(|own| own.name.as_str()).collect();
                let message = format!("expected a column {name:?}, found {}", all.join(", "));
                Err(Error::new(ErrorKind::NotFound, message))
            }
        }
    }

    /// Where this number is in the file.
    fn place(&self, index: u64) -> Range<u64> {
        let at = self.range.start + index * lengths::ENTRY;
        at..at + lengths::ENTRY
    }

    /// Copies these numbers of a map.
    fn copy(&self, column: &[u8], indices: &[u64], out: &mut Vec<u32>) -> Result<()> {
        for &index in indices {
            let number = usize::try_from(index).ok().and_then(|at| lengths::entry(column, at));
            out.push(number.ok_or_else(|| no_length(index, self.len()))?);
        }
        Ok(())
    }

    /// Has the disk fetch all pages with these numbers, instead of one at a time as each is read.
    fn announce(&self, indices: &[u64]) {
        let known = indices.iter().filter(|index| **index < self.len());
        let mut pages: Vec<u64> = known.map(|index| self.place(*index).start / PAGE).collect();
        pages.sort_unstable();
        pages.dedup();
        pages.iter().for_each(|page| self.source.will_need(page * PAGE..(page + 1) * PAGE));
    }

    /// Reads numbers near each other as one, and no others.
    fn gather_apart(&self, indices: &[u64], out: &mut [u32]) -> Result<()> {
        let near = if self.source.is_remote() { NEAR_REMOTE } else { NEAR };
        let mut sorted: Vec<(u64, usize)> = indices.iter().copied().zip(0..).collect();
        sorted.sort_unstable();
        let mut runs: Vec<&[(u64, usize)]> = Vec::new();
        for run in sorted.chunk_by(|a, b| b.0 - a.0 <= near) {
            let mut rest = run;
            while let Some((first, _)) = rest.first() {
                let (one, more) = rest.split_at(rest.partition_point(|(at, _)| at - first < RUN));
                runs.push(one);
                rest = more;
            }
        }
        let range = |run: &&[(u64, usize)]| {
            let end = run.last().map_or(0, |last| self.place(last.0).end);
            self.place(run[0].0).start..end
        };
        self.source.fetch(&runs.iter().map(range).collect::<Vec<_>>())?;
        for run in &runs {
            let (range, first) = (range(run), run[0].0);
            let bytes = self.source.read(range)?;
            for (index, at) in *run {
                let number = lengths::entry(&bytes, (index - first) as usize);
                out[*at] = number.ok_or_else(|| no_length(*index, self.len()))?;
            }
        }
        Ok(())
    }
}

impl Lengths for Column {
    fn len(&self) -> u64 {
        (self.range.end - self.range.start) / lengths::ENTRY
    }

    fn gather(&self, indices: &[u64], out: &mut Vec<u32>) -> Result<()> {
        let range = self.range.start as usize..self.range.end as usize;
        if let Some(column) = self.source.mapped().and_then(|bytes| bytes.get(range)) {
            out.reserve(indices.len());
            let (probe, rest) = indices.split_at(PROBE.min(indices.len()));
            let began = Instant::now();
            self.copy(column, probe, out)?;
            if !rest.is_empty() && began.elapsed() >= WAIT * PROBE as u32 {
                self.announce(rest);
            }
            return self.copy(column, rest, out);
        }
        if let Some(&index) = indices.iter().find(|&&index| index >= self.len()) {
            return Err(no_length(index, self.len()));
        }
        let start = out.len();
        out.resize(start + indices.len(), 0);
        self.gather_apart(indices, &mut out[start..])
    }

    fn identity(&self) -> u64 {
        self.identity
    }
}
