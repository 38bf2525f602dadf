//! `.lengths`: compared with the dataset it is to be of, and made from the samples.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use rayon::prelude::*;

use super::super::names::{Named, ReadManifest, names_index, shard_path, shards_of};
use super::super::passes::{HearBytes, Passes};
use super::super::reader::DatasetReader;
use super::super::staging::{Journal, LengthsWriter, Staging};
use super::{IndexOptions, Indexed};
use crate::error::{Error, ErrorKind, Result};
use crate::format::FormatError;
use crate::format::dataset::lengths::{self, Column, Header};
use crate::format::dataset::{SideFile, crc};
use crate::reader::Reader;
use crate::storage::{self, Sink, Source};

/// Bytes of samples, about, that are measured in one go.
const PART: u64 = 64 << 20;
/// Samples, at most, that are measured in one go.
const SAMPLES: usize = 1 << 16;
/// Bytes of numbers that are read in one go.
const STEP: u64 = 1 << 20;

/// A column of `.lengths`: how each of its numbers is made of a sample.
///
/// `rearrange::LengthOf` is one, by an expression such as `len(tokens)`; this is for what expressions cannot say.
///
/// ```
/// use kiste::index::{IndexOptions, Measure};
///
/// /// Words of the field "text".
/// struct Words;
///
/// impl Measure for Words {
///     fn name(&self) -> String {
///         "words".into()
///     }
///     fn of(&self, sample: &[u8]) -> kiste::Result<u32> {
///         let sample = kiste::format::msgpack::decode(sample)?;
///         Ok(sample["text"].as_str().unwrap_or("").split(' ').count() as u32)
///     }
/// }
///
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("poems.msgpack");
/// let mut writer = kiste::Writer::create(&path)?;
/// writer.write(&std::collections::BTreeMap::from([("key", "a"), ("text", "to be or not")]))?;
/// writer.finish()?;
/// IndexOptions::default().lengths([Words]).build(&path)?;
///
/// let words = kiste::DatasetReader::open(&path)?.lengths("words")?.expect("it was made");
/// let mut found = Vec::new();
/// words.gather(&[0], &mut found)?;
/// assert_eq!(found, [4]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Measure: Send + Sync {
    /// The name of the column: 1 to 256 bytes. The same name is taken for the same numbers.
    fn name(&self) -> String;

    /// The number of a packed sample.
    ///
    /// # Errors
    ///
    /// Any, for a sample that has no such number: nothing is made then. File, index and key are added to it.
    fn of(&self, sample: &[u8]) -> Result<u32>;
}

/// Makes the column of this name, if that is known.
pub type KnownMeasure = fn(&str) -> Option<Arc<dyn Measure>>;

/// The columns of these names, then what else is asked for, and the names of those that are neither asked for nor
/// known.
pub(crate) fn with_known(
    asked: &[Arc<dyn Measure>],
    known: Option<KnownMeasure>,
    names: &[String],
) -> (Vec<Arc<dyn Measure>>, Vec<String>) {
    let (mut columns, mut unknown) = (Vec::new(), Vec::new());
    for name in names {
        let of_name = |column: &Arc<dyn Measure>| column.name() == *name;
        let asked = asked.iter().find(|column| of_name(column)).cloned();
        match asked.or_else(|| known?(name).filter(of_name)) {
            Some(column) => columns.push(column),
            None => unknown.push(name.clone()),
        }
    }
    columns.extend(asked.iter().filter(|column| !names.contains(&column.name())).cloned());
    (columns, unknown)
}

impl fmt::Debug for dyn Measure + '_ {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Measure({:?})", self.name())
    }
}

/// The state of a `.lengths`.
pub(crate) enum FoundLengths {
    Missing,
    /// It is whole, but of another version of the dataset: it has these columns.
    Stale(FormatError, Vec<String>),
    Damaged(FormatError),
    Current(LengthsFile),
}

/// A `.lengths` whose header is whole, and of its dataset.
pub(crate) struct LengthsFile {
    pub(crate) source: Source,
    pub(crate) header: Header,
}

/// The message about a `.lengths` of another version of its dataset.
pub(crate) fn stale_lengths(error: &FormatError) -> String {
    format!("not of this version of the dataset ({error})")
}

impl FoundLengths {
    /// The state of this file, compared with the present dataset; what its `.offsets` has for a checksum is asked for
    /// only where nothing else tells.
    pub(crate) fn look(
        source: Source,
        now: &crc::Source,
        offsets: impl FnOnce() -> Result<u32>,
    ) -> Result<FoundLengths> {
        let first = source.read(0..source.len().min(lengths::MAX_HEADER as u64))?;
        let header = match Header::parse(&first, source.len()) {
            Ok(header) => header,
            Err(e) => return Ok(FoundLengths::Damaged(e)),
        };
        drop(first);
        /// What differs, or what could not be read.
        enum Not {
            Same(FormatError),
            Read(Error),
        }
        impl From<FormatError> for Not {
            fn from(error: FormatError) -> Not {
                Not::Same(error)
            }
        }
        match header.check_source(now, || offsets().map_err(Not::Read)) {
            Ok(()) => Ok(FoundLengths::Current(LengthsFile { source, header })),
            Err(Not::Same(e)) => Ok(FoundLengths::Stale(e, header.names())),
            Err(Not::Read(e)) => Err(e),
        }
    }
}

impl LengthsFile {
    /// Compares a column with its checksum. `with` hears its bytes, and where they are.
    pub(crate) fn scan(
        &self,
        column: usize,
        mut with: impl FnMut(&[u8], u64) -> Result<()>,
    ) -> Result<Result<(), FormatError>> {
        let (range, mut sum) = (self.header.padded(column), crc::checksum(&[]));
        for at in range.clone().step_by(STEP as usize) {
            let bytes = self.source.read(at..range.end.min(at + STEP))?;
            sum = crc::extend(sum, &bytes);
            with(&bytes, at)?;
        }
        let Column { name, checksum } = &self.header.columns()[column];
        if sum == *checksum {
            return Ok(Ok(()));
        }
        let expected = format!("a column {name:?} with the checksum {checksum:08x}");
        Ok(Err(FormatError::new(range.start, expected, format!("{sum:08x}"))))
    }
}

/// What [`IndexOptions::build_with`] does where lengths are asked for.
pub(super) fn build(options: &IndexOptions, path: &Path, hear: &HearBytes<'_>) -> Result<Indexed> {
    if storage::is_url(path) {
        let message = "are not made at a URL: make them next to a copy, and upload the file";
        return Err(Error::new(ErrorKind::Unsupported, message).with_option("lengths").at(path));
    }
    check_names(&options.lengths)?;
    let storage = &*options.storage;
    match Named::find(storage, path)? {
        Named::Dataset => one(options, path, hear),
        Named::Files(files) => each(files.iter().map(|file| one(options, file, hear))),
        Named::Manifest => {
            let read = ReadManifest::open(storage, path)?;
            let folder = shards_of(storage, path);
            each(read.manifest.shards().iter().map(|entry| {
                let shard = shard_path(path, &entry.name);
                folder.resolve(storage, &shard)?;
                one(options, &shard, hear)
            }))
        }
    }
}

/// What was made for several datasets.
fn each(all: impl Iterator<Item = Result<Indexed>>) -> Result<Indexed> {
    let mut together = Indexed { samples: 0, made: Vec::new(), dropped_lengths: Vec::new() };
    for indexed in all {
        let Indexed { samples, made, dropped_lengths } = indexed?;
        together.samples = together.samples.saturating_add(samples);
        together.made.extend(made);
        together.dropped_lengths.extend(dropped_lengths);
    }
    Ok(together)
}

/// Fails for names that a file cannot have.
pub(crate) fn check_names(measures: &[Arc<dyn Measure>]) -> Result<()> {
    if measures.is_empty() {
        return Ok(());
    }
    let columns = measures.iter().map(|of| Column { name: of.name(), checksum: 0 }).collect();
    let source = crc::Source { count: 0, data_len: 0, md5: None, offsets: 0 };
    let invalid = |e: FormatError| {
        let message = format!("expected {}, found {}", e.expected, e.found);
        Error::new(ErrorKind::Invalid, message).with_option("lengths")
    };
    Header::new(source, columns).map(drop).map_err(invalid)
}

/// First what is missing else, then the lengths, as these are of a dataset that can be read.
fn one(options: &IndexOptions, path: &Path, hear: &HearBytes<'_>) -> Result<Indexed> {
    let others = match names_index(path) {
        true => {
            let asked = [
                (options.trust_data, "trust_data"),
                (options.lookup.is_some(), "lookup"),
                (options.checksums, "checksums"),
            ];
            if let Some((_, option)) = asked.into_iter().find(|(asked, _)| *asked) {
                let message = "is for datasets, and the samples of this index are in place";
                let error = Error::new(ErrorKind::Unsupported, message).with_option(option);
                return Err(error.at(path));
            }
            Vec::new()
        }
        false => options.build_others(path, hear)?.made,
    };
    let open = || DatasetReader::options().storage(options.storage.clone()).open(path);
    let reader = open()?;
    let plan = Plan::of(options, &reader)?;
    let made = match plan.wanted.is_empty() {
        true => others,
        false => {
            publish(options, path, hear)?;
            others.into_iter().chain([SideFile::Lengths.path(path)]).collect()
        }
    };
    Ok(Indexed { samples: reader.len() as u64, made, dropped_lengths: plan.dropped })
}

fn publish(options: &IndexOptions, path: &Path, hear: &HearBytes<'_>) -> Result<()> {
    let staging = Staging::begin(options.storage.clone(), path, options.durable)?;
    let stage = || -> Result<Journal> {
        let journal = staging.journal(Journal::side_files(), staging.observe()?)?;
        // Opened and planned again: another writer may have finished before this one had the lock.
        let reader = DatasetReader::options().storage(options.storage.clone()).open(path)?;
        let plan = Plan::of(options, &reader)?;
        let sink = staging.create(SideFile::Lengths)?;
        plan.write(&reader, sink, options.durable, hear)?;
        reader.check_current()?;
        Ok(journal)
    };
    match stage() {
        Ok(journal) => staging.commit(&journal, &[SideFile::Lengths.into()], &[]),
        Err(error) => {
            // The first error is the one to tell.
            let _ = staging.abort();
            Err(error.at(path))
        }
    }
}

/// Columns that stay, those that are made, and the names of those that go.
struct Plan {
    old: Option<LengthsFile>,
    kept: Vec<usize>,
    wanted: Vec<Arc<dyn Measure>>,
    dropped: Vec<String>,
}

impl Plan {
    fn of(options: &IndexOptions, reader: &DatasetReader) -> Result<Plan> {
        let (old, outdated) = match reader.find_lengths()? {
            FoundLengths::Current(file) => (Some(file), Vec::new()),
            FoundLengths::Stale(_, names) => (None, names),
            // Of no use to anyone.
            FoundLengths::Missing | FoundLengths::Damaged(_) => (None, Vec::new()),
        };
        let (mut wanted, dropped) = with_known(&options.lengths, options.known_lengths, &outdated);
        if let (Some(file), false) = (&old, options.force) {
            for (number, column) in file.header.columns().iter().enumerate() {
                let asked = wanted.iter().position(|measure| measure.name() == column.name);
                let Some(asked) = asked else { continue };
                // One that is damaged is made again.
                if file.scan(number, |_, _| Ok(()))?.is_ok() {
                    wanted.remove(asked);
                }
            }
        }
        let columns = old.as_ref().map(|old| old.header.columns()).unwrap_or_default();
        let is_made = |name: &str| wanted.iter().any(|measure| measure.name() == name);
        let kept: Vec<usize> =
            (0..columns.len()).filter(|column| !is_made(&columns[*column].name)).collect();
        if kept.len() + wanted.len() > lengths::MAX_COLUMNS {
            let message = format!(
                "expected at most {} columns, found {} and {} more",
                lengths::MAX_COLUMNS,
                kept.len(),
                wanted.len()
            );
            let path = SideFile::Lengths.path(reader.path());
            return Err(Error::new(ErrorKind::Limit, message).at(path));
        }
        Ok(Plan { old, kept, wanted, dropped })
    }

    /// Writes the file: no more of it is in memory than the numbers of a part of the samples.
    fn write(
        &self,
        reader: &DatasetReader,
        sink: Box<dyn Sink>,
        durable: bool,
        hear: &HearBytes<'_>,
    ) -> Result<()> {
        let known = self.old.as_ref().map(|old| old.header.columns()).unwrap_or_default();
        let kept = self.kept.iter().map(|column| known[*column].name.clone());
        let names = kept.chain(self.wanted.iter().map(|of| of.name()));
        let mut writer = LengthsWriter::new(sink, reader.source()?, names)?;
        for (new, old) in self.kept.iter().enumerate() {
            let Some(file) = &self.old else { break };
            let range = file.header.range(*old);
            let whole = file.scan(*old, |bytes, at| {
                // Without the zeros behind it.
                let numbers = &bytes[..bytes.len().min((range.end - at) as usize)];
                writer.put(new, (at - range.start) / lengths::ENTRY, numbers)
            })?;
            whole.map_err(|e| {
                let error = Error::from(e).at(SideFile::Lengths.path(reader.path()));
                error.advise("remove the file, and make all of its columns again")
            })?;
        }
        let kept = self.kept.len();
        self.measure(reader, hear, |measured, first, numbers| {
            writer.put(kept + measured, first, numbers)
        })?;
        writer.finish(durable)
    }

    /// Hands out the numbers of consecutive samples, of each measure in turn, from the first sample on.
    fn measure(
        &self,
        reader: &DatasetReader,
        hear: &HearBytes<'_>,
        mut with: impl FnMut(usize, u64, &[u8]) -> Result<()>,
    ) -> Result<()> {
        let passes = &Passes::new(reader.data_len(), hear);
        let each = reader.sample_bytes().unwrap_or_default().max(1);
        let step = ((PART / each) as usize).clamp(16, SAMPLES);
        let mut rows: Vec<u32> = Vec::new();
        let mut bytes: Vec<u8> = Vec::new();
        let width = self.wanted.len();
        for first in (0..reader.len()).step_by(step) {
            let part = first..reader.len().min(first + step);
            if reader.is_remote() || reader.is_in_place() {
                reader.prefetch(&part.clone().collect::<Vec<_>>());
            }
            rows.clear();
            rows.resize(part.len() * width, 0);
            let fill = |(row, index): (&mut [u32], usize)| -> Result<()> {
                let range = reader.byte_range(index)?;
                passes.add(range.end - range.start)?;
                self.fill(row, reader, index)
            };
            let failed = rows.par_chunks_mut(width).zip(part).with_min_len(16).filter_map(|row| {
                let index = row.1;
                fill(row).err().map(|error| (index, error))
            });
            // The first sample that is wrong, on any number of threads.
            if let Some((_, error)) = failed.min_by_key(|(index, _)| *index) {
                return Err(error);
            }
            for column in 0..width {
                bytes.clear();
                let numbers = rows.iter().skip(column).step_by(width);
                numbers.for_each(|number| bytes.extend_from_slice(&number.to_le_bytes()));
                with(column, first as u64, &bytes)?;
            }
        }
        Ok(())
    }

    /// The numbers of one sample.
    fn fill(&self, row: &mut [u32], reader: &DatasetReader, index: usize) -> Result<()> {
        let sample = reader.get_raw(index)?;
        for (number, measure) in row.iter_mut().zip(&self.wanted) {
            *number = measure.of(&sample).map_err(|error| {
                let error = match reader.key(index) {
                    Ok(key) if error.key().is_none() => error.with_key(&*key),
                    _ => error,
                };
                reader.locate(index).describe(error)
            })?;
        }
        Ok(())
    }
}
