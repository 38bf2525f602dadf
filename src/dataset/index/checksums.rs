//! `.crc`: compared with the dataset it is to be of, and made from the data.

use std::path::Path;
use std::sync::Arc;

use rayon::prelude::*;

use crate::error::{Error, ErrorKind, Result};
use crate::format::FormatError;
use crate::format::dataset::digests::Digest;
use crate::format::dataset::{Digests, SideFile, crc, offsets};
use crate::format::md5::Md5;
use crate::storage::{Source, Storage};

/// Bytes of data, about, whose checksums are computed in one go.
const PART: u64 = 16 << 20;
/// Samples, at most, whose checksums are computed in one go.
const SAMPLES: usize = 1 << 16;
/// Bytes of side files that are read in one go where they are not mapped.
const STEP: u64 = 1 << 20;

/// The state of a `.crc`.
pub(crate) enum Found {
    Missing,
    /// It is whole, but of another version of the dataset.
    Stale(FormatError),
    Damaged(FormatError),
    Current(Checksums),
}

/// A `.crc` that is whole, and of its dataset.
pub(crate) struct Checksums {
    source: Source,
    header: crc::Header,
}

/// A sample that does not have the checksum it should.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Mismatch {
    expected: u32,
    found: u32,
}

impl std::fmt::Display for Mismatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Mismatch { expected, found } = self;
        write!(f, "expected the checksum {expected:08x}, found {found:08x}")
    }
}

/// Opens the `.crc` of a dataset. `now` describes the present dataset; it is only called if the
/// file exists.
pub(crate) fn open_checksums(
    storage: &dyn Storage,
    data: &Path,
    now: impl FnOnce() -> Result<crc::Source>,
) -> Result<Found> {
    match storage.open_if_exists(&SideFile::Crc.path(data))? {
        Some(source) => Found::look(source, now),
        None => Ok(Found::Missing),
    }
}

impl Found {
    /// The state of this file, compared with the present dataset.
    pub(crate) fn look(source: Source, now: impl FnOnce() -> Result<crc::Source>) -> Result<Found> {
        let header = source.read(0..source.len().min(crc::HEADER as u64))?;
        let header = match crc::Header::parse(&header, source.len()) {
            Ok(header) => header,
            Err(e) => return Ok(Found::Damaged(e)),
        };
        let table = checksum_of(&source, crc::HEADER as u64)?;
        if let Err(e) = header.check_table(table) {
            return Ok(Found::Damaged(e));
        }
        match header.check_source(&now()?) {
            Ok(()) => Ok(Found::Current(Checksums { source, header })),
            Err(e) => Ok(Found::Stale(e)),
        }
    }

    /// The checksums, where they can be believed.
    pub(crate) fn current(self) -> Option<Checksums> {
        match self {
            Found::Current(checksums) => Some(checksums),
            _ => None,
        }
    }

    /// The checksums, or why there are none to compare with.
    pub(crate) fn demand(self, data: &Path) -> Result<Checksums> {
        let error = match self {
            Found::Current(checksums) => return Ok(checksums),
            Found::Missing => {
                let message = "there are no checksums";
                Error::new(ErrorKind::NotFound, message)
            }
            Found::Stale(e) => Error::new(ErrorKind::Damaged, stale(&e)),
            Found::Damaged(e) => Error::new(ErrorKind::Damaged, damaged(&e)),
        };
        Err(error.at(SideFile::Crc.path(data)))
    }
}

/// The message about a `.crc` of another version of its dataset.
pub(crate) fn stale(error: &FormatError) -> String {
    format!("not of this version of the dataset ({error}), so no sample was compared")
}

/// The message about a `.crc` that is damaged itself.
pub(crate) fn damaged(error: &FormatError) -> String {
    format!("{error}, so no sample was compared")
}

impl Checksums {
    /// The dataset that they belong to.
    pub(crate) fn of(&self) -> &crc::Source {
        self.header.source()
    }

    /// The checksum of a sample.
    #[inline]
    pub(crate) fn get(&self, index: usize) -> Result<u32> {
        let at = crc::HEADER as u64 + index as u64 * crc::ENTRY;
        let entry = self.source.read(at..at + crc::ENTRY)?;
        Ok(crc::entry(&entry, 0).unwrap_or_default())
    }

    /// Compares a sample with its checksum: what differs, if it does.
    #[inline]
    pub(crate) fn compare(&self, index: usize, sample: &[u8]) -> Result<Option<Mismatch>> {
        let (expected, found) = (self.get(index)?, crc::checksum(sample));
        Ok((expected != found).then_some(Mismatch { expected, found }))
    }
}

/// The CRC-32C of a file from this byte on.
pub(crate) fn checksum_of(source: &Source, from: u64) -> Result<u32> {
    let mut sum = crc::checksum(&[]);
    source.scan::<()>(from..source.len(), STEP, |part, _| {
        sum = crc::extend(sum, part);
        None
    })?;
    Ok(sum)
}

/// The CRC-32C of an `.offsets` with these entries.
pub(crate) fn checksum_of_offsets(ends: &[u64]) -> u32 {
    let mut part = Vec::with_capacity(8 << 9);
    ends.chunks(1 << 9).fold(crc::checksum(&[]), |sum, ends| {
        part.clear();
        ends.iter().for_each(|end| part.extend_from_slice(&offsets::encode(*end)));
        crc::extend(sum, &part)
    })
}

/// The MD5 that `.md5` has of the data, if there is such a file, it can be read and has a line.
pub(crate) fn recorded_md5(storage: &Arc<dyn Storage>, data: &Path) -> Result<Option<Digest>> {
    let Some(file) = storage.open_if_exists(&SideFile::Md5.path(data))? else { return Ok(None) };
    let text = file.read(0..file.len())?;
    let name = data.file_name().unwrap_or_default().to_string_lossy();
    // One that is damaged says nothing.
    Ok(Digests::parse(&text).ok().and_then(|digests| digests.get_of(&name, "").copied()))
}

/// Samples whose checksums are to be computed.
pub(crate) struct Samples<'a> {
    pub(crate) path: &'a Path,
    pub(crate) data: &'a Source,
    /// The content of `.offsets`.
    pub(crate) offsets: &'a [u8],
}

impl Samples<'_> {
    /// Computes the checksum of each sample, in order, and at the same time the MD5 of all if
    /// `md5`: in one pass over the data.
    pub(crate) fn checksums(
        &self,
        md5: bool,
        mut with: impl FnMut(usize, u32) -> Result<()>,
    ) -> Result<Option<Digest>> {
        let count = offsets::count(self.offsets.len() as u64);
        let damaged = |e| Error::from(e).at(SideFile::Offsets.path(self.path));
        let count = count.map_err(damaged)?;
        let end = |index| offsets::entry(self.offsets, index).unwrap_or_default();
        offsets::check_ends(count, end(0), end(count as usize), self.data.len())
            .map_err(damaged)?;
        let mut digest = Md5::new();
        let mut sums: Vec<u32> = Vec::new();
        let mut first = 0;
        while first < count as usize {
            let ends = self.part(first)?;
            let (start, end) = (ends[0], ends[ends.len() - 1]);
            let bytes = self.data.read(start..end)?;
            let sum = |pair: &[u64]| {
                // `part` saw that they ascend.
                crc::checksum(&bytes[(pair[0] - start) as usize..(pair[1] - start) as usize])
            };
            rayon::join(
                || {
                    if md5 {
                        digest.update(&bytes)
                    }
                },
                || ends.par_windows(2).with_min_len(16).map(sum).collect_into_vec(&mut sums),
            );
            for (index, sum) in (first..).zip(&sums) {
                with(index, *sum)?;
            }
            first += sums.len();
        }
        Ok(md5.then(|| digest.finish()))
    }

    /// Where the samples from this one on begin and end, up to the end of a batch.
    fn part(&self, first: usize) -> Result<Vec<u64>> {
        let mut ends: Vec<u64> = Vec::new();
        for index in first.. {
            let Some(end) = offsets::entry(self.offsets, index) else { break };
            let start = ends.last().copied();
            if start.is_some_and(|start| start > end) || end > self.data.len() {
                let at = index as u64 * offsets::ENTRY;
                let expected = format!("ascending offsets of at most {}", self.data.len());
                let error = FormatError::new(at, expected, end.to_string());
                return Err(Error::from(error).at(SideFile::Offsets.path(self.path)));
            }
            ends.push(end);
            if ends.len() > SAMPLES || ends.len() > 1 && end - ends[0] >= PART {
                break;
            }
        }
        Ok(ends)
    }
}
