//! Notes which units of an unfinished dataset are complete, so that a killed conversion can resume after them.
//!
//! The log is the file `units` in `NAME.partial`, and goes with that directory. Its first line says which plan
//! it belongs to. Each further line says that all samples of the units before one unit are in the first N bytes
//! of the data, and has the CRC-32 of the bytes since the line before. So the disk may lose any of it: units
//! that do not match are converted again, and nothing has to be synced on the way.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::bad_input::Tally;
use super::stale_files::{check_leftover, create_anew};
use crate::dataset::staging::{self, Staging, Unfinished};
use crate::dataset::{DatasetFile, Writer, WriterOptions};
use crate::error::{Error, ErrorKind, Result};
use crate::note::{self, required};
use crate::regular;

/// The version of the log.
const VERSION: u32 = 1;
/// A line is due after this many bytes of data, or this much time.
const BYTES: u64 = 4 << 20;
const TIME: Duration = Duration::from_secs(10);

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Head {
    version: u32,
    plan: String,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    /// The first unit that is not whole.
    unit: usize,
    samples: u64,
    bytes: u64,
    crc32: u32,
    #[serde(deserialize_with = "required")]
    state: Option<Tally>,
    /// Whether there are no more units.
    #[serde(default)]
    finished: bool,
}

/// Notes units as they become whole.
#[derive(Debug)]
pub(super) struct UnitLog {
    path: PathBuf,
    file: File,
    crc: crc32fast::Hasher,
    /// The unit that is being written.
    current: Option<usize>,
    /// Where it began, if that is not noted.
    begun: Option<Box<Entry>>,
    /// Of the last entry.
    unit: usize,
    samples: u64,
    bytes: u64,
    time: Instant,
}

/// The state in which a conversion was interrupted.
#[derive(Debug)]
pub(super) enum Resumption {
    /// Nothing: start from the beginning.
    Nothing,
    /// Resume after the last complete unit.
    GoesOn(Box<Resumed>),
    /// Everything was written; only publishing was interrupted, and is finished now.
    Complete {
        /// Samples of the dataset.
        samples: u64,
        /// Bytes of its data.
        bytes: u64,
        /// The note of the [last](UnitLog::finish) unit.
        state: Option<Tally>,
    },
}

/// A resumed conversion.
#[derive(Debug)]
pub(super) struct Resumed {
    /// Has the samples of all units before `unit`.
    pub(super) writer: Writer,
    /// The log, for further units.
    pub(super) log: UnitLog,
    /// The first unit to convert; `None` if no unit is complete.
    pub(super) unit: Option<usize>,
    /// Its note.
    pub(super) state: Option<Tally>,
}

impl UnitLog {
    /// Begins the log of a writer that has just been created for this dataset. `plan` says what is
    /// converted and how: a run that resumes must have the same.
    pub(super) fn create(dataset: &Path, plan: &str) -> Result<UnitLog> {
        let path = path_of(dataset);
        let at = |error| Error::io(&path, error);
        let mut file = create_anew(&path).map_err(at)?;
        let head = Head { version: VERSION, plan: plan.to_owned() };
        write_line(&mut file, &head).map_err(at)?;
        Ok(UnitLog::new(path, file, 0, (0, 0)))
    }

    fn new(path: PathBuf, file: File, unit: usize, (samples, bytes): (u64, u64)) -> UnitLog {
        let (crc, time) = (crc32fast::Hasher::new(), Instant::now());
        UnitLog { path, file, crc, current: None, begun: None, unit, samples, bytes, time }
    }

    /// A sample was written.
    pub(super) fn written(&mut self, packed: &[u8]) {
        self.crc.update(packed);
    }

    /// A batch of this unit comes next. Whether it is its first, so that the writer has the units
    /// before it and nothing else.
    pub(super) fn begins(&mut self, unit: usize) -> bool {
        self.current.replace(unit) != Some(unit) && unit > self.unit
    }

    /// The writer has this many bytes at the beginning of a unit. Whether that is enough to
    /// [`note`](Self::note) it; else it is [remembered](Self::remember).
    pub(super) fn is_due(&self, bytes: u64) -> bool {
        bytes - self.bytes >= BYTES || self.time.elapsed() >= TIME
    }

    /// As [`note`](Self::note), should the conversion be stopped before another unit begins.
    pub(super) fn remember(&mut self, unit: usize, written: (u64, u64), state: &Tally) {
        let ((samples, bytes), crc32) = (written, self.crc.clone().finalize());
        let state = Some(state.clone());
        let entry = Entry { unit, samples, bytes, crc32, state, finished: false };
        self.begun = Some(Box::new(entry));
    }

    /// The conversion stops. Notes the last beginning of a unit that was remembered, up to which all
    /// samples have been handed to the operating system, and returns how many samples that are.
    pub(super) fn stop(&mut self) -> Result<u64> {
        if let Some(entry) = self.begun.take() {
            write_line(&mut self.file, &entry).map_err(|error| Error::io(&self.path, error))?;
            self.samples = entry.samples;
        }
        Ok(self.samples)
    }

    /// Notes that all samples of the units before this one have been handed to the operating system,
    /// and none of it: this many samples and bytes. With them `state`, which [`resume`] returns.
    pub(super) fn note(&mut self, unit: usize, written: (u64, u64), state: &Tally) -> Result<()> {
        self.write(unit, written, state, false)
    }

    fn write(
        &mut self,
        unit: usize,
        (samples, bytes): (u64, u64),
        state: &Tally,
        finished: bool,
    ) -> Result<()> {
        // Of what came after the line before, so that resuming reads the data once.
        let crc = std::mem::take(&mut self.crc);
        let (crc32, state) = (crc.finalize(), Some(state.clone()));
        let entry = Entry { unit, samples, bytes, crc32, state, finished };
        write_line(&mut self.file, &entry).map_err(|error| Error::io(&self.path, error))?;
        (self.unit, self.samples, self.bytes) = (unit, samples, bytes);
        (self.begun, self.time) = (None, Instant::now());
        Ok(())
    }

    /// Notes that all units have been written, for a later run that only publishes them.
    pub(super) fn finish(
        &mut self,
        units: usize,
        written: (u64, u64),
        state: &Tally,
    ) -> Result<()> {
        self.write(units, written, state, true)?;
        // Other lines need no sync: their checksums tell whether the data have reached the disk too.
        self.file.sync_all().map_err(|error| Error::io(&self.path, error))
    }
}

fn path_of(dataset: &Path) -> PathBuf {
    staging::dir_of(dataset).join("units")
}

fn write_line(file: &mut File, line: &impl Serialize) -> std::io::Result<()> {
    let text = note::sealed(&serde_json::to_string(line)?) + "\n";
    file.write_all(text.as_bytes())
}

/// Which plan a conversion to this dataset had that was cut short, if there is one: with another plan
/// [`resume`] is an error.
pub(super) fn unfinished_plan(dataset: &Path) -> Result<Option<String>> {
    Ok(read(&path_of(dataset))?.map(|(head, _)| head.plan))
}

/// Resumes a conversion to this dataset that was cut short. If it was about to be published, it is
/// published first.
///
/// # Errors
///
/// [`Invalid`](ErrorKind::Invalid) if it was of another plan,
/// [`Interrupted`](ErrorKind::Interrupted) if what was cut short is no such conversion,
/// [`Locked`](ErrorKind::Locked) if it is still at work.
pub(super) fn resume(options: WriterOptions, dataset: &Path, plan: &str) -> Result<Resumption> {
    let storage = options.storage_of().clone();
    let path = path_of(dataset);
    match staging::unfinished(&storage, dataset)? {
        None => return Ok(Resumption::Nothing),
        Some((staging, Unfinished::Uncommitted(journal))) => {
            if !journal.side_files_only && journal.base.is_none() && is_unbegun(&staging, &path)? {
                staging.abort()?;
                return Ok(Resumption::Nothing);
            }
        }
        Some((staging, Unfinished::Committed)) => {
            // Publishing removes the log.
            let log = read(&path)?;
            staging.finish()?;
            return complete(dataset, plan, log);
        }
        Some((staging, Unfinished::Nothing)) => {
            staging.abort()?;
            return Ok(Resumption::Nothing);
        }
    }
    let Some((head, entries)) = read(&path)? else {
        // Samples of a writer that keeps no log: they may be all that there is of them.
        let message = format!(
            "an unfinished write is left in {}, but it is no conversion that can go on",
            staging::dir_of(dataset).display()
        );
        return Err(Error::new(ErrorKind::Interrupted, message).at(dataset));
    };
    if head.plan != plan {
        let message = "the interrupted run had other sources or options";
        return Err(Error::new(ErrorKind::Invalid, message).at(dataset));
    }
    let mut last = None;
    let writer = options.resume_until(dataset, |data| {
        last = last_whole(&entries, data).cloned();
        last.as_ref().map_or(0, |entry| entry.bytes)
    })?;
    let (unit, bytes) = last.as_ref().map_or((0, 0), |entry| (entry.unit, entry.bytes));
    if writer.bytes() != bytes {
        let message = "the samples that were there end elsewhere than the log says";
        return Err(Error::new(ErrorKind::Damaged, message).at(path));
    }
    let log = UnitLog::rewrite(path, &head, &entries, bytes)?;
    let state = last.as_ref().and_then(|entry| entry.state.clone());
    let resumed = Resumed { writer, log, unit: last.map(|_| unit), state };
    Ok(Resumption::GoesOn(Box::new(resumed)))
}

/// Whether nothing is lost by beginning once more: there are no samples yet, or a log in which not
/// one unit was noted, not even the plan. A conversion has its log before its first sample.
fn is_unbegun(staging: &Staging, log: &Path) -> Result<bool> {
    if read(log)?.is_some() {
        return Ok(false);
    }
    match regular::read(log) {
        // A first line that is whole, but of another version, says of units what is not known here.
        Ok(text) if !text.contains(&b'\n') => return Ok(true),
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            return Err(Error::io(log, error));
        }
        _ => {}
    }
    let data = staging.path(DatasetFile::Data);
    match data.symlink_metadata() {
        Ok(found) => Ok(found.len() == 0),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(true),
        Err(error) => Err(Error::io(data, error)),
    }
}

/// The published dataset, if this conversion made it and its log is whole.
fn complete(dataset: &Path, plan: &str, log: Option<(Head, Vec<Entry>)>) -> Result<Resumption> {
    let found = fs::metadata(dataset).map_err(|error| Error::io(dataset, error))?.len();
    let log = log.filter(|(head, _)| head.plan == plan);
    let last = log.and_then(|(_, mut entries)| entries.pop());
    Ok(match last.filter(|entry| entry.finished && entry.bytes == found) {
        Some(Entry { samples, bytes, state, .. }) => Resumption::Complete { samples, bytes, state },
        None => Resumption::Nothing,
    })
}

/// The last line up to which all data are what they were.
fn last_whole<'a>(entries: &'a [Entry], data: &[u8]) -> Option<&'a Entry> {
    let mut start = 0;
    let whole = |entry: &&Entry| {
        let end = usize::try_from(entry.bytes).unwrap_or(usize::MAX);
        let same = data.get(start..end).is_some_and(|new| crc32fast::hash(new) == entry.crc32);
        start = end;
        same
    };
    entries.iter().take_while(whole).last()
}

/// The lines of a log; one that was cut is not counted, nor any after it.
fn read(path: &Path) -> Result<Option<(Head, Vec<Entry>)>> {
    let text = match check_leftover(path).and_then(|()| regular::read(path)) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(Error::io(path, error)),
    };
    let mut lines = text.split_inclusive(|byte| *byte == b'\n');
    let whole = |line: &&[u8]| line.ends_with(b"\n");
    let head = lines.next().filter(whole).and_then(|line| note::parsed::<Head>(line).ok());
    let Some(head) = head.filter(|head| head.version == VERSION) else { return Ok(None) };
    let mut last = (0, 0, 0);
    let entry = |line: &[u8]| {
        let entry = note::parsed::<Entry>(line).ok()?;
        let now = (entry.unit, entry.samples, entry.bytes);
        let follows = now.0 >= last.0 && now.1 >= last.1 && now.2 >= last.2;
        last = now;
        follows.then_some(entry)
    };
    Ok(Some((head, lines.take_while(whole).map_while(entry).collect())))
}

impl UnitLog {
    /// Rewrites the log with the lines up to this many bytes, and continues it.
    fn rewrite(path: PathBuf, head: &Head, entries: &[Entry], bytes: u64) -> Result<UnitLog> {
        let at = |error| Error::io(&path, error);
        let new = path.with_extension("new");
        let kept = entries.iter().take_while(|entry| entry.bytes <= bytes).count();
        let mut file = create_anew(&new).map_err(at)?;
        write_line(&mut file, head).map_err(at)?;
        let (mut unit, mut samples) = (0, 0);
        for entry in &entries[..kept] {
            write_line(&mut file, entry).map_err(at)?;
            (unit, samples) = (entry.unit, entry.samples);
        }
        fs::rename(&new, &path).map_err(at)?;
        Ok(UnitLog::new(path, file, unit, (samples, bytes)))
    }
}
