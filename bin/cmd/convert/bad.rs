//! `--bad`: what becomes of input that is bad; and what is counted on the way.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use kiste::array::ArrayTally;
use kiste::convert::{Observer, Passed, Source, UnitLog, open_regular};
use kiste::format::jsonl;
use kiste::storage::{LocalStorage, Storage};
use kiste::{Error, ErrorKind, Value, Writer};
use serde::{Deserialize, Serialize};

use super::fields::Unseen;
use crate::exit::{Failure, Outcome};
use crate::output::{Output, Progress};
use crate::units;

/// What becomes of bad input.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum Bad {
    #[default]
    Stop,
    Skip,
    Quarantine,
}

/// How many of them are told at the end.
const TOLD: usize = 5;

/// What was counted. It can be put aside, and gone on with.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Tally {
    pub(super) skipped_duplicates: u64,
    /// Samples that are bad, and among them places from which on a file could not be read.
    pub(super) bad: u64,
    /// Those of them that nothing here reads, though they may be whole.
    #[serde(default)]
    unsupported: u64,
    pub(super) cut: u64,
    /// What was wrong with the first ones, and where.
    first: Vec<String>,
    /// Bytes of the quarantine file.
    quarantined: u64,
    pub(super) arrays: Option<ArrayTally>,
    pub(super) unseen: Vec<String>,
}

impl Tally {
    fn note(&mut self, error: &Error) {
        self.bad += 1;
        self.unsupported += u64::from(error.kind() == ErrorKind::Unsupported);
        self.cut += u64::from(error.ends_unit());
        if self.first.len() < TOLD {
            self.first.push(error.to_string());
        }
    }

    /// Bytes of the quarantine file so far.
    pub(super) fn quarantined(&self) -> u64 {
        self.quarantined
    }

    /// Adds what was counted of samples that come later.
    pub(super) fn add(&mut self, later: Tally) {
        self.skipped_duplicates += later.skipped_duplicates;
        self.bad += later.bad;
        self.unsupported += later.unsupported;
        self.cut += later.cut;
        self.first.extend(later.first);
        self.first.truncate(TOLD);
        self.quarantined += later.quarantined;
        if let Some(arrays) = later.arrays {
            *self.arrays.get_or_insert_default() += arrays;
        }
        // What one part has not seen, another one may have.
        self.unseen.retain(|name| later.unseen.contains(name));
    }

    /// How many samples are bad, and what is wrong with the first of them.
    pub(super) fn tell(&self, quarantine: Option<&Path>, output: &Output) {
        if self.bad == 0 {
            return;
        }
        let mut bad = units::counted(self.bad, "bad sample");
        if self.unsupported > 0 {
            bad += &format!(" ({} not damaged but unsupported)", self.unsupported);
        }
        match quarantine {
            Some(path) => output.warn(format_args!("left out {bad}: see {}", path.display())),
            None => output.warn(format_args!("left out {bad}")),
        }
        for place in &self.first {
            output.note(format_args!("  {place}"));
        }
        if self.bad > self.first.len() as u64 {
            let more = self.bad - self.first.len() as u64;
            output.note(format_args!("  and {}", units::counted(more, "other")));
        }
        if self.cut > 0 {
            let places = units::counted(self.cut, "place");
            output.warn(format_args!("from {places} on, the rest of a file could not be read"));
        }
    }
}

/// Bad input as JSON lines. They gather beside the file of an earlier conversion, which they replace
/// when the new dataset is there; those of an append go behind what is in it.
pub(crate) struct Quarantine {
    path: PathBuf,
    /// Where they gather, unless that is the file itself.
    beside: Option<PathBuf>,
    file: File,
    /// Bytes that were there before.
    start: u64,
    /// Bytes that are on the disk for certain.
    synced: u64,
}

impl Quarantine {
    /// The name of the file beside a dataset.
    pub(super) fn path_of(dataset: &Path) -> PathBuf {
        let mut name = dataset.as_os_str().to_os_string();
        name.push(".quarantine.jsonl");
        PathBuf::from(name)
    }

    /// Begins a file that replaces the one that is there, or goes on after so many bytes of it.
    pub(super) fn begin(path: PathBuf, bytes: u64) -> Outcome<Quarantine> {
        let beside = beside(&path);
        if bytes == 0 {
            remove_file(&beside)?;
        }
        Quarantine::open(path, Some(beside), bytes)
    }

    /// Adds to the file that is there.
    pub(super) fn append(path: PathBuf) -> Outcome<Quarantine> {
        let bytes = path.metadata().map_or(0, |found| found.len());
        Quarantine::open(path, None, bytes)
    }

    fn open(path: PathBuf, beside: Option<PathBuf>, bytes: u64) -> Outcome<Quarantine> {
        let own = beside.as_ref().unwrap_or(&path);
        let at = |error| Failure::io(own, error);
        let mut options = OpenOptions::new();
        let file = match own.symlink_metadata() {
            // Whatever is read by its name may be a link to somewhere else.
            Ok(found) if !found.is_file() => {
                let message = format!("{}: expected a regular file, found another", own.display());
                return Err(Failure::trouble(message));
            }
            Ok(_) => options.append(true).open(own),
            Err(_) => options.append(true).create_new(true).open(own),
        };
        let file = file.map_err(at)?;
        let found = file.metadata().map_err(at)?.len();
        if found < bytes {
            let path = own.display();
            let message = format!("{path}: expected {bytes} bytes to go on after, found {found}");
            return Err(Failure::trouble(message).hint("bring back what was there, or begin anew"));
        }
        file.set_len(bytes).map_err(at)?;
        Ok(Quarantine { path, beside, file, start: bytes, synced: bytes })
    }

    /// Publishes what an earlier run has gathered, which had only that left to do: all of it, or so
    /// many bytes.
    pub(super) fn settle(path: PathBuf, bytes: Option<u64>) -> Outcome<Option<PathBuf>> {
        let beside = beside(&path);
        match beside.symlink_metadata() {
            Ok(found) => {
                let bytes = bytes.unwrap_or(found.len());
                Quarantine::open(path, Some(beside), bytes)?.finish()
            }
            Err(_) => Ok(Some(path).filter(|path| bytes != Some(0) && path.exists())),
        }
    }

    /// What was gathered for a dataset that `kiste repair` finished, or left as it is: it gets its
    /// name. For one that was undone it goes.
    pub(crate) fn settle_repaired(dataset: &Path, is_undone: bool) -> Outcome<()> {
        let path = Quarantine::path_of(dataset);
        match beside(&path).symlink_metadata() {
            Ok(found) if found.is_file() && is_undone => remove_file(&beside(&path)),
            Ok(found) if found.is_file() => Quarantine::settle(path, None).map(drop),
            _ => Ok(()),
        }
    }

    /// Adds all that is in another file, if it is there.
    pub(super) fn add_all(&mut self, from: &Path) -> Outcome<()> {
        let mut from = match open_regular(from) {
            Ok(from) => from,
            // Nothing in this part was bad.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(Failure::io(from, error)),
        };
        let copied = io::copy(&mut from, &mut self.file);
        copied.map(drop).map_err(|error| Failure::io(&self.path, error))
    }

    /// Makes it last so far: what is noted of a unit must not be more than what is on the disk.
    fn sync(&mut self, bytes: u64) -> kiste::Result<()> {
        if self.synced != bytes {
            self.file.sync_all().map_err(|error| Error::io(&self.path, error))?;
            self.synced = bytes;
        }
        Ok(())
    }

    /// Adds what is bad; how many bytes that took.
    fn add(&mut self, error: &Error) -> kiste::Result<u64> {
        let mut fields: Vec<(Value, Value)> = Vec::new();
        if let Some(path) = error.path() {
            fields.push(("file".into(), path.display().to_string().into()));
        }
        if let Some(key) = error.key() {
            fields.push(("sample".into(), key.into()));
        }
        fields.push(("reason".into(), error.message().into()));
        if error.ends_unit() {
            fields.push(("rest_unread".into(), true.into()));
        }
        if let Some(raw) = error.raw() {
            let raw = std::str::from_utf8(raw).map_or_else(|_| raw.into(), Value::from);
            fields.push(("raw".into(), raw));
        }
        let mut line = Vec::new();
        // Nothing but texts and bytes, which all have a form in JSON lines.
        let _ = jsonl::write(&Value::Map(fields), &mut line);
        line.push(b'\n');
        self.file.write_all(&line).map_err(|error| Error::io(&self.path, error))?;
        Ok(line.len() as u64)
    }

    /// Makes it last, under its name; where nothing was bad there is no file.
    pub(super) fn finish(self) -> Outcome<Option<PathBuf>> {
        let at = |error| Failure::io(&self.path, error);
        let some = self.file.metadata().map_err(at)?.len() > 0;
        if some {
            self.file.sync_all().map_err(at)?;
        }
        match &self.beside {
            Some(beside) if some => fs::rename(beside, &self.path).map_err(at)?,
            Some(beside) => {
                remove_file(&self.path)?;
                remove_file(beside)?;
            }
            None if some => {}
            None => remove_file(&self.path)?,
        }
        let parent = self.path.parent().unwrap_or(Path::new(""));
        LocalStorage::positioned().sync_dir(parent)?;
        Ok(some.then_some(self.path))
    }

    /// Takes back what was added.
    pub(super) fn abort(self) {
        // What cannot be removed is replaced by the next run.
        let _ = match (&self.beside, self.start) {
            (Some(beside), _) => fs::remove_file(beside),
            (None, 0) => fs::remove_file(&self.path),
            (None, start) => self.file.set_len(start),
        };
    }
}

fn beside(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_os_string();
    name.push(".new");
    PathBuf::from(name)
}

fn remove_file(path: &Path) -> Outcome<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Failure::io(path, error)),
        _ => Ok(()),
    }
}

/// Looks on while samples are passed.
pub(super) struct Watch<'a> {
    pub(super) tally: Tally,
    /// What was counted by the run before this one, if that goes on.
    before: Option<Tally>,
    bad: Bad,
    pub(super) quarantine: Option<Quarantine>,
    pub(super) log: Option<UnitLog>,
    unseen: Unseen,
    progress: &'a Progress,
    /// Bytes of input before each unit.
    starts: &'a [u64],
    /// Whether it was bad input that ended it.
    pub(super) stopped: bool,
}

impl<'a> Watch<'a> {
    /// Goes on counting from here.
    pub(super) fn new(
        bad: Bad,
        before: Option<Tally>,
        unseen: Unseen,
        progress: &'a Progress,
        starts: &'a [u64],
    ) -> Watch<'a> {
        let tally = before.clone().unwrap_or_default();
        let (quarantine, log, stopped) = (None, None, false);
        Watch { tally, before, bad, quarantine, log, unseen, progress, starts, stopped }
    }

    /// So much was written.
    pub(super) fn far(&self, samples: u64, bytes: u64) {
        self.progress.far(samples, bytes, 0);
    }

    /// All was passed: makes it last, before it is published.
    pub(super) fn finish(
        &mut self,
        units: Option<usize>,
        writer: &mut Writer,
    ) -> kiste::Result<()> {
        if let Some(quarantine) = &mut self.quarantine {
            quarantine.sync(self.tally.quarantined)?;
        }
        match (self.log.take(), units) {
            (Some(log), Some(units)) => {
                log.finish(units, writer, serde_json::to_value(&self.tally).unwrap_or_default())
            }
            _ => Ok(()),
        }
    }

    fn unseen(&self) -> Vec<String> {
        let mut unseen = self.unseen.get();
        if let Some(before) = &self.before {
            unseen.retain(|name| before.unseen.contains(name));
        }
        unseen
    }
}

impl Observer for Watch<'_> {
    fn bad(&mut self, error: Error) -> kiste::Result<()> {
        if self.bad == Bad::Stop {
            self.stopped = true;
            return Err(error);
        }
        if let Some(quarantine) = &mut self.quarantine {
            self.tally.quarantined += quarantine.add(&error)?;
        }
        self.tally.note(&error);
        Ok(())
    }

    fn written(&mut self, packed: &[u8]) {
        if let Some(log) = &mut self.log {
            log.written(packed);
        }
    }

    fn passed(
        &mut self,
        source: &dyn Source,
        passed: &Passed,
        writer: &mut Writer,
    ) -> kiste::Result<()> {
        let before = self.before.as_ref();
        let skipped_before = before.map_or(0, |before| before.skipped_duplicates);
        self.tally.skipped_duplicates = skipped_before + passed.skipped;
        self.tally.unseen = self.unseen();
        // The arrays are still those of the batches before this one.
        if let (Some(log), Some(unit)) = (&mut self.log, source.unit()) {
            if log.is_due(unit, writer) {
                if let Some(quarantine) = &mut self.quarantine {
                    quarantine.sync(self.tally.quarantined)?;
                }
                log.note(unit, writer, serde_json::to_value(&self.tally).unwrap_or_default())?;
            }
        }
        if let Some(arrays) = source.arrays() {
            let before = self.before.as_ref().and_then(|before| before.arrays.clone());
            let mut sum = before.unwrap_or_default();
            sum += arrays.clone();
            self.tally.arrays = Some(sum);
        }
        let input = source.unit().and_then(|unit| self.starts.get(unit)).copied();
        self.progress.far(writer.len(), writer.bytes(), input.unwrap_or(0));
        Ok(())
    }
}
