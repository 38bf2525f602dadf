//! [`PartedShuffle`]: a shuffle whose parts are made by different processes or machines.
//!
//! [`Shuffle`] gives the order, which is cut into as many stretches as there are parts. In the first pass
//! part I reads the I-th stretch of the *source* from front to back and writes its samples, sorted by
//! the stretch of the *output* that they belong to. In the second pass part I reads its piece of what
//! each part of the first pass wrote, puts the samples in order and writes them as a shard, as a part of
//! a [`Conversion`] does. So every byte is read and written twice, in long runs, and no process holds
//! more than one shard.
//!
//! The files between the passes are in the directory `NAME.shards.json.scatter`, or another one, on a disk
//! or in an object store:
//!
//! | file | content |
//! | --- | --- |
//! | `part-I-of-N.samples` | samples of the I-th stretch of the source, in runs; each run is sorted by the stretch of the output, and within it in the order of the source |
//! | `part-I-of-N.json` | written when the part is finished: of what it was made, and of each run where its pieces begin, and their checksums |
//!
//! Lengths of samples are not in it: they follow from the order and the offsets of the source.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::job::at_once;
use super::monitor::check_cancelled;
use super::scattered::{Scatter, Scattering};
use super::{Conversion, Emit, Input, Monitor, Part, Phase, Progress, Report, Total, commit};
use crate::dataset::DatasetReader;
use crate::dataset::index::recorded_md5;
use crate::error::{Error, ErrorKind, Remedy, Result};
use crate::format::dataset::shards::is_manifest;
use crate::note;
use crate::sampler::{Order, Sampler, Shuffle};
use crate::storage::{self, Source, fetch_together};

/// Samples between two reports of progress.
const FEW: u64 = 1024;
/// Bytes that the second pass asks for together.
const TOGETHER: u64 = 64 << 20;
/// A sample that waits to be written, on top of its bytes.
const ENTRY: u64 = size_of::<(u32, Range<usize>)>() as u64;

/// Shuffles a dataset that is too large for one machine: two passes, both divided into
/// parts that run independently of each other, in any order, and again after a crash.
///
/// The samples of all shards together are in the order of [`Shuffle`] for this seed, with any number
/// of parts.
///
/// ```
/// use kiste::convert::{Part, PartedShuffle, Silent};
/// use kiste::DatasetReader;
///
/// # let dir = tempfile::tempdir()?;
/// # let (input, output) = (dir.path().join("a.msgpack"), dir.path().join("b.shards.json"));
/// # let mut writer = kiste::Writer::create(&input)?;
/// # for n in 0..100 { writer.write(&serde_json::json!({"key": n.to_string()}))?; }
/// # writer.finish()?;
/// let shuffle = PartedShuffle::new(&input, &output, 4)?.seed(42);
/// for part in Part::all(4) {
///     shuffle.scatter(part, &mut Silent)?;
/// }
/// for part in Part::all(4) {
///     shuffle.gather(part, &mut Silent)?;
/// }
/// shuffle.commit(&mut Silent)?;
/// assert_eq!(DatasetReader::open(&output)?.len(), 100);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
#[must_use]
pub struct PartedShuffle {
    reader: DatasetReader,
    labels: Option<Vec<String>>,
    output: PathBuf,
    /// Where the first pass writes, if not next to the output.
    scatter_dir: Option<PathBuf>,
    parts: usize,
    seed: u64,
    memory: u64,
    overwrite: bool,
}

/// The source and options of a part.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Plan {
    version: u32,
    samples: u64,
    bytes: u64,
    /// Of offsets from all over the source.
    offsets: u32,
    /// Of what is recorded about its content.
    content: u32,
    seed: u64,
    parts: usize,
}

/// A part of the first pass that is finished.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Scattered {
    plan: Plan,
    runs: Vec<Run>,
}

/// Samples that were in memory together.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Run {
    /// The samples of the source, from the first up to but without the second.
    samples: (u64, u64),
    /// Where the piece of each stretch of the output begins, and where the last one ends.
    starts: Vec<u64>,
    /// The CRC-32C of each piece.
    checksums: Vec<u32>,
}

impl Scattered {
    /// Bytes of its samples.
    fn len(&self) -> u64 {
        self.runs.last().and_then(|run| run.starts.last().copied()).unwrap_or(0)
    }
}

impl PartedShuffle {
    /// Shuffles the dataset `input` into as many shards as there are parts, listed in the manifest
    /// `output`.
    ///
    /// # Errors
    ///
    /// [`Invalid`](ErrorKind::Invalid) if the output is not named like a manifest, or there are no parts; and
    /// the errors of opening the input.
    pub fn new(
        input: impl AsRef<Path>,
        output: impl AsRef<Path>,
        parts: usize,
    ) -> Result<PartedShuffle> {
        let output = output.as_ref().to_path_buf();
        let invalid = |message: &str| Err(Error::new(ErrorKind::Invalid, message).at(&output));
        if !output.to_str().is_some_and(is_manifest) {
            return invalid("expected the name of a manifest, NAME.shards.json");
        }
        Part::new(1, parts)?;
        let reader = DatasetReader::open(input)?;
        let labels = reader.labels()?;
        let (seed, memory) = (0, 1 << 30);
        let (scatter_dir, overwrite) = (None, false);
        Ok(PartedShuffle { reader, labels, output, scatter_dir, parts, seed, memory, overwrite })
    }

    /// The directory in which the first pass writes, a URL or one that all parts share. It takes as many
    /// bytes as the samples. The second pass finds it by itself. Default: `OUTPUT.scatter`.
    ///
    /// # Errors
    ///
    /// [`Unsupported`](ErrorKind::Unsupported) for a URL that cannot be written to.
    pub fn scatter_dir(mut self, dir: impl AsRef<Path>) -> Result<Self> {
        let dir = dir.as_ref();
        let given = |error: std::io::Error| Error::io(dir, error);
        self.scatter_dir = Some(match storage::is_url(dir) {
            true if storage::shown(dir) != dir || is_web(dir) => {
                let message = "expected a directory, or a URL of s3://, gs://, az:// or abfss://";
                return Err(Error::new(ErrorKind::Unsupported, message).at(storage::shown(dir)));
            }
            true => {
                // One that is no place is refused before it is noted.
                storage::of(dir)?;
                dir.to_path_buf()
            }
            // The commit may be run from another directory.
            false => std::path::absolute(storage::of(dir)?.1).map_err(given)?,
        });
        Ok(self)
    }

    /// The seed of the order. Default: 0.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// How many bytes of samples the first pass holds. More make longer runs for the second pass to
    /// read; the second pass holds a whole shard. Default: 1 GiB.
    pub fn memory(mut self, bytes: u64) -> Self {
        self.memory = bytes;
        self
    }

    /// Replaces a dataset of many files in the place of the output, as [`Conversion::overwrite`] does; it may be
    /// the one that is shuffled. Default: no.
    pub fn overwrite(mut self, yes: bool) -> Self {
        self.overwrite = yes;
        self
    }

    /// The parts of both passes, and the shards.
    pub fn parts(&self) -> usize {
        self.parts
    }

    /// The first pass, of one part. Nothing happens if it is finished already.
    ///
    /// # Errors
    ///
    /// [`Invalid`](ErrorKind::Invalid) if the part is not one of [`parts`](Self::parts), or there is a
    /// part of another source or seed; [`AlreadyExists`](ErrorKind::AlreadyExists) if the output is
    /// there and is not [overwritten](Self::overwrite); [`Cancelled`](ErrorKind::Cancelled) if the monitor stops it, and errors of reading and
    /// writing.
    pub fn scatter(&self, part: Part, monitor: &mut dyn Monitor) -> Result<()> {
        self.check(part)?;
        let (storage, manifest) = storage::of(&self.output)?;
        if !self.overwrite && storage.stat(&manifest)?.is_some() {
            let error = Error::new(ErrorKind::AlreadyExists, "it exists already").at(&self.output);
            return Err(error.with_remedy(Remedy::Overwrite));
        }
        let plan = self.plan()?;
        let scatter = Scatter::create(&self.output, self.scatter_dir.as_deref(), self.parts)?;
        // Its samples may be gone, as where a store removes what is old.
        let vain = match scattered(&scatter, part, &plan)? {
            Some(there) if scatter.has(part, there.len())? => return Ok(()),
            Some(_) => scatter.note(part)?,
            None => None,
        };
        let order = self.order()?;
        let range = stretch(plan.samples, part);
        let mut output = scatter.begin(part, vain.as_deref())?;
        let mut pending = Pending::default();
        let mut runs = Vec::new();
        let mut begin = range.start;
        let samples = Some(range.end - range.start);
        monitor.begin(Phase::Scattering(part), Total { samples, ..Total::default() });
        for index in range.clone() {
            let raw = self.reader.get_raw(index as usize)?;
            let position = order.position_of(index).ok_or_else(|| {
                let message = format!("the order has no sample {index}");
                Error::new(ErrorKind::Invalid, message)
            })?;
            pending.add(part_of(plan.samples, self.parts, position), &raw);
            let is_last = index + 1 == range.end;
            if is_last || pending.memory() >= self.memory {
                runs.push(pending.write(begin..index + 1, self.parts, &mut output)?);
                begin = index + 1;
            }
            let done = index + 1 - range.start;
            if done % FEW == 0 || is_last {
                check_cancelled(monitor)?;
                let bytes = output.len();
                monitor.progress(Progress { samples: done, bytes, ..Progress::default() });
            }
        }
        let note = serde_json::to_string(&Scattered { plan, runs });
        let note = note.map_err(|error| Error::new(ErrorKind::Invalid, error.to_string()))?;
        output.finish(&note::sealed(&note))
    }

    /// The second pass, of one part: writes its shard. All parts of the first pass must be finished.
    ///
    /// # Errors
    ///
    /// [`Interrupted`](ErrorKind::Interrupted) if a part of the first pass is not finished;
    /// [`Damaged`](ErrorKind::Damaged) if what it wrote has changed since; and those of
    /// [`Conversion::run_part`].
    pub fn gather(&self, part: Part, monitor: &mut dyn Monitor) -> Result<Report> {
        self.check(part)?;
        self.conversion()?.run_part(part, monitor)
    }

    /// The second pass as a conversion, for options of its own: each of its parts writes a shard. All
    /// parts of the first pass must be finished.
    ///
    /// # Errors
    ///
    /// [`Interrupted`](ErrorKind::Interrupted) if a part of the first pass is not finished, and errors
    /// of reading what they wrote.
    pub fn conversion(&self) -> Result<Conversion> {
        let plan = self.plan()?;
        let scatter = Scatter::find(&self.output, self.scatter_dir.as_deref())?;
        let all: Vec<Part> = Part::all(self.parts).collect();
        let parts = at_once(&all, |part| {
            let unfinished = |message: String, path: &Path| {
                let error = Error::new(ErrorKind::Interrupted, message).at(path);
                Err(error.advise("run that part of the first pass"))
            };
            let Some(scattered) = scattered(&scatter, *part, &plan)? else {
                let message = format!("part {part} of the first pass is not finished");
                return unfinished(message, &self.output);
            };
            let samples = match scatter.open(*part) {
                Err(error) if error.kind() == ErrorKind::NotFound => None,
                opened => Some(opened?).filter(|samples| samples.len() == scattered.len()),
            };
            let Some(samples) = samples else {
                let message = format!("the samples of part {part} of the first pass are gone");
                return unfinished(message, &scatter.file(*part, "samples"));
            };
            Ok((samples, scatter.file(*part, "samples"), scattered.runs))
        })?;
        let input = Gathering { shuffle: self.clone(), order: self.order()?, plan, parts };
        let conversion = Conversion::from_input(self.reader.path(), input, &self.output);
        Ok(conversion.shards(self.parts).overwrite(self.overwrite))
    }

    /// Writes the manifest when all shards are there, and removes what the first pass wrote: as
    /// [`commit`](super::commit) does.
    ///
    /// # Errors
    ///
    /// The errors of [`commit`](super::commit).
    pub fn commit(&self, monitor: &mut dyn Monitor) -> Result<Report> {
        commit(&self.output, monitor)
    }

    /// Both passes of all parts, and the manifest.
    ///
    /// # Errors
    ///
    /// The errors of the steps. After one, another run continues.
    pub fn run(&self, monitor: &mut dyn Monitor) -> Result<Report> {
        for part in Part::all(self.parts) {
            self.scatter(part, monitor)?;
        }
        let conversion = self.conversion()?;
        for part in Part::all(self.parts) {
            conversion.run_part(part, monitor)?;
        }
        self.commit(monitor)
    }

    fn order(&self) -> Result<Arc<dyn Order>> {
        Shuffle::new(self.reader.len() as u64, self.seed).order(0)
    }

    fn check(&self, part: Part) -> Result<()> {
        if part.of() == self.parts {
            return Ok(());
        }
        let message = format!("part {part}, expected one of {}", self.parts);
        Err(Error::new(ErrorKind::Invalid, message))
    }

    fn plan(&self) -> Result<Plan> {
        let samples = self.reader.len() as u64;
        // All of them would be as much to read as the offsets of a billion samples.
        let count = samples.min(1024);
        let spread = |at: u64| (u128::from(at) * u128::from(samples) / u128::from(count)) as usize;
        let indices: Vec<usize> = (0..count).map(spread).collect();
        self.reader.fetch_offsets(&indices)?;
        let mut checksum = 0;
        for index in indices {
            let start = self.reader.byte_range(index)?.start;
            checksum = crc32c::crc32c_append(checksum, &start.to_le_bytes());
        }
        let (bytes, seed, parts) = (self.reader.data_len(), self.seed, self.parts);
        let content = self.content()?;
        Ok(Plan { version: 1, samples, bytes, offsets: checksum, content, seed, parts })
    }

    /// Tells two versions of a source apart whose samples have the same lengths: by the manifest, which
    /// has the digests of all shards, or the recorded digest; without one by the version of the object,
    /// or the time of the file.
    fn content(&self) -> Result<u32> {
        let (storage, path) = storage::of(self.reader.path())?;
        if path.to_str().is_some_and(is_manifest) {
            let manifest = storage.open(&path)?;
            return Ok(crc32c::crc32c(&manifest.read(0..manifest.len())?));
        }
        if let Some(digest) = recorded_md5(&storage, &path)? {
            return Ok(crc32c::crc32c(&digest));
        }
        // Files that a pattern names are known by their number and sizes alone.
        let Some(there) = storage.stat(&path)? else { return Ok(0) };
        let version = match storage.is_object_store() {
            true => format!("{:?}", there.id),
            // In seconds, which machines that share a disk agree on.
            false => (there.modified / 1_000_000_000).to_string(),
        };
        Ok(crc32c::crc32c(version.as_bytes()))
    }
}

/// Whether a URL is of a web server or the Hugging Face Hub, which are only read.
fn is_web(url: &Path) -> bool {
    url.to_str()
        .map(str::to_ascii_lowercase)
        .is_some_and(|url| url.starts_with("http") || url.starts_with("hf:"))
}

/// The note of a part of the first pass, if it is finished.
fn scattered(scatter: &Scatter, part: Part, plan: &Plan) -> Result<Option<Scattered>> {
    let Some(text) = scatter.note(part)? else { return Ok(None) };
    let path = scatter.file(part, "json");
    let noted: Scattered = note::parsed(&text).map_err(|found| {
        let message = format!("not the end of a part: {found}");
        Error::new(ErrorKind::Damaged, message).at(&path)
    })?;
    if noted.plan != *plan {
        let message = "it was made of another source, seed or number of parts";
        let error = Error::new(ErrorKind::Invalid, message).at(&path);
        return Err(error.with_remedy(Remedy::OtherShuffle));
    }
    check_runs(&noted.runs, stretch(plan.samples, part), plan.parts)
        .map_err(|message| Error::new(ErrorKind::Damaged, message).at(&path))?;
    Ok(Some(noted))
}

/// Samples of the first pass that wait to be written.
#[derive(Default)]
struct Pending {
    bytes: Vec<u8>,
    samples: Vec<(u32, Range<usize>)>,
}

impl Pending {
    fn add(&mut self, part: usize, raw: &[u8]) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(raw);
        // There are at most a million parts.
        self.samples.push((part as u32, start..self.bytes.len()));
    }

    fn memory(&self) -> u64 {
        self.bytes.len() as u64 + self.samples.len() as u64 * ENTRY
    }

    /// Writes all as a run and forgets them.
    fn write(
        &mut self,
        samples: Range<u64>,
        parts: usize,
        output: &mut Scattering<'_>,
    ) -> Result<Run> {
        // Stable: in a piece they stay in the order of the source.
        self.samples.sort_by_key(|(part, _)| *part);
        let mut run = Run {
            samples: (samples.start, samples.end),
            starts: Vec::with_capacity(parts + 1),
            checksums: Vec::with_capacity(parts),
        };
        let mut waiting = self.samples.drain(..).peekable();
        for part in 0..parts as u32 {
            run.starts.push(output.len());
            let mut checksum = 0;
            while let Some((_, range)) = waiting.next_if(|(of, _)| *of == part) {
                let raw = &self.bytes[range];
                checksum = crc32c::crc32c_append(checksum, raw);
                output.append(raw)?;
            }
            run.checksums.push(checksum);
        }
        run.starts.push(output.len());
        drop(waiting);
        self.bytes.clear();
        Ok(run)
    }
}

/// The output of the first pass, with a unit for each shard.
struct Gathering {
    shuffle: PartedShuffle,
    order: Arc<dyn Order>,
    plan: Plan,
    parts: Vec<(Source, PathBuf, Vec<Run>)>,
}

impl Gathering {
    /// The samples of a shard in its order.
    fn samples(&self, unit: usize, emit: &mut Emit<'_>) -> Result<()> {
        let part = Part::new(unit + 1, self.plan.parts)?;
        let positions = stretch(self.plan.samples, part);
        let mut wanted: Vec<(u64, u64)> =
            positions.clone().map(|position| (self.order.index_at(position), position)).collect();
        wanted.sort_unstable();
        let all = self.parts.iter().flat_map(|(source, path, runs)| {
            runs.iter().map(move |run| (source, path, run, run.starts[unit]..run.starts[unit + 1]))
        });
        let all: Vec<_> = all.collect();
        let mut fetched = 0;
        let mut pieces = Vec::new();
        let mut places = vec![(0usize, 0..0usize); wanted.len()];
        let mut next_wanted = 0;
        for (at, (source, path, run, range)) in all.iter().enumerate() {
            if at == fetched {
                let mut bytes = 0;
                let next = all[at..].iter().take_while(|(.., range)| {
                    let fits = bytes < TOGETHER;
                    bytes += range.end - range.start;
                    fits
                });
                let next: Vec<_> =
                    next.map(|(source, _, _, range)| (*source, vec![range.clone()])).collect();
                fetched += next.len();
                // Of these runs alone: the offsets of the whole source may not fit into memory.
                let end = all[fetched - 1].2.samples.1;
                let of_next = wanted[next_wanted..].iter().take_while(|(index, _)| *index < end);
                let of_next: Vec<usize> = of_next.map(|(index, _)| *index as usize).collect();
                self.shuffle.reader.fetch_offsets(&of_next)?;
                // A failure is reported when the bytes are read.
                let _ = fetch_together(&next, false);
            }
            let bytes = source.read(range.clone()).map_err(|error| error.at(path))?;
            if crc32c::crc32c(&bytes) != run.checksums[unit] {
                return Err(changed(path));
            }
            let mut at = 0;
            let of_run = |(index, _): &&(u64, u64)| *index < run.samples.1;
            while let Some(&(index, position)) = wanted.get(next_wanted).filter(of_run) {
                next_wanted += 1;
                let range = self.shuffle.reader.byte_range(index as usize)?;
                let end = at + (range.end - range.start) as usize;
                places[(position - positions.start) as usize] = (pieces.len(), at..end);
                at = end;
            }
            if at != bytes.len() {
                return Err(changed(path));
            }
            pieces.push(bytes);
        }
        for (piece, range) in places {
            emit(Ok(pieces[piece][range].to_vec()))?;
        }
        Ok(())
    }
}

impl Input for Gathering {
    fn units(&self) -> usize {
        self.plan.parts
    }

    fn read(&self, unit: usize, emit: &mut Emit<'_>) -> Result<()> {
        self.samples(unit, emit)
    }

    fn identify(&self, add: &mut dyn FnMut(&[u8])) {
        // A plan always serialises.
        add(&serde_json::to_vec(&self.plan).unwrap_or_default());
    }

    fn locate(&self, unit: usize, item: u64, error: Error) -> Error {
        let first = match Part::new(unit + 1, self.plan.parts) {
            Ok(part) => stretch(self.plan.samples, part).start,
            Err(_) => return error,
        };
        match first.checked_add(item).filter(|position| *position < self.plan.samples) {
            Some(position) => {
                error.at(self.shuffle.reader.path()).with_index(self.order.index_at(position))
            }
            None => error,
        }
    }

    fn len_hint(&self) -> Option<u64> {
        Some(self.plan.samples)
    }

    fn label_names(&self) -> Option<&[String]> {
        self.shuffle.labels.as_deref()
    }
}

/// The stretch of a part: they differ by one sample at most.
fn stretch(samples: u64, part: Part) -> Range<u64> {
    let cut = |number: usize| (u128::from(samples) * number as u128 / part.of() as u128) as u64;
    cut(part.number() - 1)..cut(part.number())
}

/// In which stretch this is, from 0.
fn part_of(samples: u64, parts: usize, position: u64) -> usize {
    // The last that begins at or before it.
    ((u128::from(position) * parts as u128 + parts as u128 - 1) / u128::from(samples.max(1)))
        as usize
}

/// Fails for runs that do not make up this stretch.
fn check_runs(runs: &[Run], stretch: Range<u64>, parts: usize) -> Result<(), String> {
    let (mut at, mut end) = (stretch.start, 0);
    for run in runs {
        let is_next = run.samples.0 == at && run.samples.0 < run.samples.1;
        let is_whole = run.starts.len() == parts + 1 && run.checksums.len() == parts;
        if !is_next || !is_whole || run.starts[0] != end || !run.starts.is_sorted() {
            return Err(format!("expected a run from sample {at} on, found {:?}", run.samples));
        }
        at = run.samples.1;
        end = run.starts[parts];
    }
    match at == stretch.end {
        true => Ok(()),
        false => Err(format!("expected runs up to sample {}, found {at}", stretch.end)),
    }
}

fn changed(path: &Path) -> Error {
    let message = "the file has changed since the first pass wrote it";
    let error = Error::new(ErrorKind::Damaged, message).at(path);
    error.with_remedy(Remedy::UndoShuffle)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stretches_meet_and_every_position_is_in_its_own() {
        for samples in [0, 1, 2, 7, 64, 1000] {
            for parts in [1, 2, 3, 7, 64, 100] {
                let mut next = 0;
                for part in Part::all(parts) {
                    let range = stretch(samples, part);
                    assert_eq!(range.start, next);
                    next = range.end;
                    for position in range {
                        assert_eq!(part_of(samples, parts, position) + 1, part.number());
                    }
                }
                assert_eq!(next, samples);
            }
        }
    }

    #[test]
    fn runs_that_leave_something_out_are_found() {
        let run = |samples: (u64, u64), starts: &[u64]| Run {
            samples,
            starts: starts.to_vec(),
            checksums: vec![0; starts.len() - 1],
        };
        let good = || vec![run((5, 8), &[0, 10, 20]), run((8, 9), &[20, 20, 30])];
        assert!(check_runs(&good(), 5..9, 2).is_ok());
        assert!(check_runs(&[], 5..5, 2).is_ok());
        assert!(check_runs(&good(), 5..10, 2).is_err());
        assert!(check_runs(&good(), 4..9, 2).is_err());
        assert!(check_runs(&good()[..1], 5..9, 2).is_err());
        assert!(check_runs(&good(), 5..9, 3).is_err());
        let mut wrong = good();
        wrong[1].starts[0] = 19;
        assert!(check_runs(&wrong, 5..9, 2).is_err());
        let mut wrong = good();
        wrong[0].starts[1] = 21;
        assert!(check_runs(&wrong, 5..9, 2).is_err());
    }
}
