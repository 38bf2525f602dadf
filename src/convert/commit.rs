//! How the parts of a conversion are joined.

use std::path::{Path, PathBuf};
use std::time::Instant;

use super::bad_input::{BadInput, Tally};
use super::commit_end::remove_all_but_output;
use super::compared::{Compared, Noted, not_noted, sizes};
use super::conversion::Conversion;
use super::export;
use super::exporting::{Exporting, Peeked};
use super::format::Format;
use super::job::journal::name_of;
use super::job::{Appends, Done, Made, at_once};
use super::monitor::{Monitor, Notice, Phase, Progress, Total, check_cancelled, kept};
use super::passing::Passing;
use super::piece_home::Home;
use super::plan::Plan;
use super::quarantine::Quarantine;
use super::report::{Report, WrittenOutput};
use super::reshape::{Unseen, check_unseen};
use super::same_keys::Origins;
use super::shards::PublishedShards;
use super::split::Assignment;
use super::writer::SplitWriter;
use super::{DatasetInput, InOrder, Journal, Part, Place, Source};
use crate::dataset::DatasetReader;
use crate::dataset::repair::{Leftover, Repair};
use crate::dataset::staging;
use crate::dataset::{Stats, Writer};
use crate::error::{Error, ErrorKind, Remedy, Result};
use crate::format::dataset::shards::ShardEntry;
use crate::storage::{self, LocalStorage, Storage};

/// Samples between two looks at the monitor.
const FEW: u64 = 1024;

/// Joins the parts of a conversion to this output, which were written by
/// [`run_part`](Conversion::run_part), and removes them. If it is interrupted, it can be repeated.
///
/// ```
/// use kiste::convert::{Conversion, Part, Silent, commit};
///
/// # let dir = tempfile::tempdir()?;
/// # let (lines, output) = (dir.path().join("a.jsonl"), dir.path().join("a.shards.json"));
/// # std::fs::write(&lines, "{\"key\": \"a\"}\n{\"key\": \"b\"}\n")?;
/// // Each part may be run by a process or a machine of its own.
/// for part in Part::all(4) {
///     Conversion::new([&lines], &output).run_part(part, &mut Silent)?;
/// }
/// let report = commit(&output, &mut Silent)?;
/// assert_eq!(report.outputs[0].samples, 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// [`NotFound`](ErrorKind::NotFound) if there are no parts, [`Interrupted`](ErrorKind::Interrupted)
/// if some are missing, with [`MakePart`](Remedy::MakePart);
/// [`Foreign`](ErrorKind::Foreign) or [`AlreadyExists`](ErrorKind::AlreadyExists) for what is in the
/// place of the output.
pub fn commit(output: impl AsRef<Path>, monitor: &mut dyn Monitor) -> Result<Report> {
    Ok(commit_with(output.as_ref(), true, false, monitor)?.told(monitor))
}

/// The same for a run that has made the parts itself, if that is the case.
pub(super) fn commit_with(
    output: &Path,
    durable: bool,
    is_run: bool,
    monitor: &mut dyn Monitor,
) -> Result<Report> {
    let Some(parts) = Journal::open(output)? else {
        Journal::remove_empty(output)?;
        return Err(no_parts(output));
    };
    let lock = parts.lock_all()?;
    if parts.is_published()? {
        monitor.notice(Notice::Joined(output.to_path_buf()));
        remove_all_but_output(parts, lock, output, monitor)?;
        return Ok(Report { was_complete: true, ..Report::default() });
    }
    let plan = Plan::from_json(parts.plan(), output)?;
    let dir = parts.dir().to_path_buf();
    // No option can be given any more, only to new parts.
    let in_new_parts = |error: Error| match error.remedy().cloned() {
        Some(
            remedy @ (Remedy::SkipDuplicates
            | Remedy::SkipBad
            | Remedy::ShardInKey
            | Remedy::PrefixKeys
            | Remedy::KeyField),
        ) if !is_run => error.with_remedy(Remedy::NewParts(Box::new(remedy), dir.clone())),
        _ => error,
    };
    let joining = Joining::of(&parts, plan, durable).map_err(|error| match error.kind() {
        // Where nothing is locked, another process may be removing them.
        ErrorKind::Interrupted if parts.are_objects() => joined_meanwhile(&parts, output, error),
        _ => error,
    })?;
    let joined = joining.run(monitor).map_err(in_new_parts);
    let report = joined.map_err(|error| match error.kind() {
        ErrorKind::Cancelled => {
            kept(error, output, "kept all parts").advise("the same command continues")
        }
        _ => error,
    })?;
    // From here on a repeated commit only removes the parts, and never joins them again.
    parts.published()?;
    remove_all_but_output(parts, lock, output, monitor)?;
    Ok(report)
}

/// The error where there is nothing to join, maybe because that was done.
fn no_parts(output: &Path) -> Error {
    let message = "there are no parts to join";
    let error = Error::new(ErrorKind::NotFound, message).at(output).with_remedy(Remedy::MakeParts);
    match !storage::is_url(output) && output.symlink_metadata().is_ok() {
        true => error.note("the output is there: a commit that is done has removed its parts"),
        false => error,
    }
}

/// The error where parts are missing, which may be because they were joined.
fn joined_meanwhile(parts: &Journal, output: &Path, error: Error) -> Error {
    match (parts.is_published(), Journal::open(output)) {
        (Ok(false), Ok(Some(_))) => error,
        (Err(error), _) | (_, Err(error)) => error,
        _ => Error::new(ErrorKind::Locked, "another process joins these parts").at(parts.dir()),
    }
}

/// All parts, which are finished.
struct Joining<'a> {
    start: Instant,
    parts: &'a Journal,
    plan: Plan,
    conversion: Conversion,
    home: Home,
    all: Vec<Part>,
    /// Their pieces, as they noted them at their ends. In an object store that may be removed at any time.
    made: Vec<Made>,
    pieces: Vec<Noted>,
    samples: u64,
    tally: Tally,
    /// Bytes of bad input in each part.
    quarantined: Vec<u64>,
}

impl<'a> Joining<'a> {
    fn of(parts: &'a Journal, plan: Plan, durable: bool) -> Result<Joining<'a>> {
        let all = parts.all()?;
        let conversion = plan.conversion.clone().durable(durable);
        let (home, start) = (conversion.piece_home(parts)?, Instant::now());
        let (samples, tally, made, pieces) = (0, Tally::default(), Vec::new(), Vec::new());
        let quarantined = Vec::new();
        let mut joining = Joining {
            start,
            parts,
            plan,
            conversion,
            home,
            all,
            made,
            pieces,
            samples,
            tally,
            quarantined,
        };
        let mut missing = Vec::new();
        let states = at_once(&joining.all, |part| parts.done(*part))?;
        for (part, state) in joining.all.clone().into_iter().zip(states) {
            match state {
                Some(done) => joining.add(part, done)?,
                None => missing.push(part),
            }
        }
        check_missing(&joining.conversion.output, &missing, joining.all.len())?;
        Ok(joining)
    }

    /// Adds a part that is finished.
    fn add(&mut self, part: Part, done: Done) -> Result<()> {
        self.samples = self.samples.saturating_add(done.samples);
        self.quarantined.push(done.tally.quarantined);
        match part.number() {
            1 => self.tally = done.tally,
            _ => self.tally.add(done.tally),
        }
        let (noted, is_sharded) = ((done.samples, done.bytes), self.conversion.is_sharded());
        let made = match done.shards {
            Some(made) => made,
            // As an earlier version wrote it.
            None if !is_sharded => {
                let ((samples, bytes), crc32) = (noted, done.crc32);
                self.pieces.push(Noted { path: self.parts.path(part), samples, bytes, crc32 });
                return Ok(());
            }
            None => Vec::new(),
        };
        let sum = |of: fn(&Made) -> u64| made.iter().map(of).fold(0, u64::saturating_add);
        let found = (sum(|made| made.samples), sum(|made| made.bytes));
        if found != noted {
            return Err(not_noted(&self.parts.note_of(part), sizes(noted), sizes(found)));
        }
        for (number, made) in (0..).zip(&made) {
            let expected = self.conversion.piece_name(part, number)?;
            if !is_sharded && made.name != expected {
                let what = format!("a piece {expected:?}");
                return Err(not_noted(&self.parts.note_of(part), what, format!("{:?}", made.name)));
            }
            let (path, crc32) = (self.home.path(&made.name), made.crc32);
            self.pieces.push(Noted { path, samples: made.samples, bytes: made.bytes, crc32 });
        }
        self.made.extend(made);
        Ok(())
    }

    fn run(mut self, monitor: &mut dyn Monitor) -> Result<Report> {
        let format = self.conversion.output_format();
        let form = self.conversion.export_form(format);
        let output = self.conversion.output.clone();
        let begun = self.parts.commit_begun()?;
        // A part cannot know whether another one has seen a field; now all are known.
        check_unseen(&self.tally.unseen)?;
        if self.conversion.is_sharded() {
            return self.shards(monitor);
        }
        let targets = self.conversion.targets();
        let mut is_done = false;
        if begun {
            is_done = match format {
                Format::Dataset => self.is_published()?,
                _ => export::clear_places(form, &targets, self.parts)?,
            };
            // Files there may be replaced: others were refused. In a store the files of this commit are
            // known by the numbers of its writes.
            self.conversion.options.overwrite |=
                !self.home.is_object_store() && !self.conversion.options.append;
        } else {
            self.conversion.check_places(&self.plan).map_err(|error| match error.kind() {
                ErrorKind::AlreadyExists => {
                    error.advise("remove it or rename it, then join the parts again")
                }
                _ => error,
            })?;
            let mut replaced = Vec::new();
            for path in targets.iter().filter(|_| !self.home.is_object_store()) {
                match format {
                    Format::Dataset => replaced.push(path.clone()),
                    _ => replaced.extend(form.files_of(path)?),
                }
            }
            self.parts.begin_commit(&replaced, self.conversion.appends()?)?;
        }
        match format {
            _ if is_done => monitor.notice(Notice::Joined(output.clone())),
            _ => {}
        }
        match format {
            Format::Dataset if is_done => self.found(),
            _ if is_done => {
                let quarantine = Quarantine::settle(Quarantine::path_of(&output), None)?;
                Ok(Report { was_complete: true, quarantine, ..self.report(Vec::new()) })
            }
            Format::Dataset => self.datasets(monitor),
            format => self.export(format, targets, monitor),
        }
    }

    /// Writes the manifest: the shards are in their places.
    fn shards(&self, monitor: &mut dyn Monitor) -> Result<Report> {
        let (conversion, bad) = (&self.conversion, self.conversion.options.bad);
        let is_listed = conversion.options.append && bad == BadInput::Quarantine;
        if is_listed && !self.parts.commit_begun()? {
            let appends = Appends { listed: conversion.listed()?, ..Appends::default() };
            self.parts.begin_commit(&[], appends)?;
        }
        let keys = self.conversion.keys_of(self.plan.format());
        let written = self.conversion.publish_shards(self.parts, &self.made, &keys, monitor)?;
        let PublishedShards { output, was_complete, skipped, different } = written;
        if was_complete {
            monitor.notice(Notice::Joined(self.conversion.output.clone()));
        }
        let quarantine = self.quarantine()?;
        let mut report = Report { quarantine, was_complete, ..self.report(vec![output]) };
        report.skipped_duplicates += skipped;
        report.different_duplicates += different;
        Ok(report)
    }

    /// The samples of all pieces in order, compared with what was noted of each.
    fn source(&self) -> Result<Box<dyn Source>> {
        at_once(&self.pieces, |piece| self.open(piece).map(drop))?;
        let entry = |piece: &Noted| {
            let name = piece.path.file_name().unwrap_or_default().to_string_lossy();
            ShardEntry::new(name, piece.samples, piece.bytes)
        };
        let entries: Vec<ShardEntry> = self.pieces.iter().map(entry).collect();
        let options = DatasetReader::options().storage(self.home.storage.clone());
        let input = DatasetInput::new(options.open_entries(&self.home.manifest, &entries)?)?;
        Ok(Box::new(Compared::new(Box::new(InOrder::new(input)), self.pieces.clone())))
    }

    /// A piece, if it has as many samples and bytes as were noted.
    fn open(&self, piece: &Noted) -> Result<DatasetReader> {
        let reader = self.home.open(&piece.path).map_err(|error| match error.kind() {
            ErrorKind::NotFound => not_noted(&piece.path, "its samples".into(), "none".into()),
            _ => error,
        })?;
        piece.check_size((reader.len() as u64, reader.data_len()))?;
        Ok(reader)
    }

    /// Whether all datasets exist that an earlier run was about to write. Any other dataset in their places
    /// was there before it, or is an error.
    fn is_published(&self) -> Result<bool> {
        let mut all = true;
        if self.home.is_object_store() {
            let writes = self.parts.writes()?;
            for path in self.conversion.targets() {
                let (_, path) = storage::of(&path)?;
                let writes = writes.get(&name_of(&path)).map_or(&[][..], Vec::as_slice);
                all &= self.home.is_written(&path, writes)?;
            }
            return Ok(all);
        }
        for path in self.conversion.targets() {
            // A dataset that had all its files when it was interrupted is finished, not rewritten, and of
            // one that is finished the rest is removed.
            let left = Repair::of(&path).leftover()?;
            if matches!(left, Some(Leftover::Committed | Leftover::Nothing)) {
                Repair::of(&path).finish()?;
            } else if self.conversion.options.append {
                self.conversion.undo_append(self.parts, &path, left)?;
            }
            if self.conversion.options.append {
                // What is in it is compared when it is appended to.
                all = false;
                continue;
            }
            match self.parts.place(&path)? {
                Place::Made => {}
                Place::Free | Place::Before | Place::Begun => all = false,
                Place::Foreign => return Err(export::foreign(&path)),
            }
        }
        Ok(all)
    }

    /// Publishes one of the datasets. The parts recognise it by its data file.
    fn publish(&self, mut writer: Writer, path: &Path) -> Result<Stats> {
        let again =
            |error: Error| error.advise("all parts are kept: the same command joins them again");
        if self.home.is_object_store() || self.conversion.options.append {
            return writer.finish_whole().map_err(again);
        }
        let staged = staged(path);
        let noted = writer.flush().and_then(|()| {
            self.parts.will_publish(&staged, path)?;
            // Something else may have come there meanwhile.
            match self.parts.place(path)? {
                Place::Begun if is_beginning(path, &staged)? => Ok(()),
                Place::Begun | Place::Foreign => Err(export::foreign(path)),
                Place::Free | Place::Before | Place::Made => Ok(()),
            }
        });
        if let Err(error) = noted {
            // The first error is the one to report.
            let _ = writer.abort();
            return Err(error);
        }
        writer.finish_whole().map_err(again)
    }

    /// Notes which files are about to be published, where they are known by their numbers.
    fn are_begun(&self, paths: &[PathBuf]) -> Result<()> {
        match self.home.is_object_store() {
            true => Ok(()),
            false if self.conversion.options.append => {
                self.conversion.will_append(self.parts, paths)
            }
            false => self.parts.are_begun(paths.iter().map(|path| (staged(path), path))),
        }
    }

    /// Which output gets which sample. Fails if a list is another one than when the parts were written.
    fn assignment(&self) -> Result<Assignment> {
        let split = &self.conversion.options.split;
        if split.digests()? != self.plan.split_lists {
            let message = "a list of the split has changed since the parts were written";
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        split.assignment()
    }

    /// Writes one dataset, or several.
    fn datasets(&self, monitor: &mut dyn Monitor) -> Result<Report> {
        let assignment = self.assignment()?;
        let paths = self.conversion.targets();
        let names = self.plan.labels.as_deref();
        let labels = paths.iter().map(|path| self.conversion.plan_labels(path, names));
        let labels: Vec<Option<Vec<String>>> = labels.collect::<Result<_>>()?;
        let written = self.write_split(assignment, &paths, monitor)?;
        let WrittenSplit { assignment, writers, skipped, different } = written;
        let mut written = Vec::new();
        for ((writer, path), labels) in writers.into_iter().zip(&paths).zip(&labels) {
            let Some(mut writer) = writer else {
                let there = DatasetReader::open(path)?;
                written.push((there.len() as u64, there.data_len()));
                continue;
            };
            self.conversion.set_labels(&mut writer, labels.as_deref())?;
            if labels.is_some() {
                // That has changed the journal of an append.
                self.are_begun(std::slice::from_ref(path))?;
            }
            let Stats { samples, bytes, .. } = self.publish(writer, path)?;
            written.push((samples, bytes));
        }
        let quarantine = self.quarantine()?;
        if let Some((keys, first)) = assignment.unused() {
            monitor.notice(Notice::UnusedListKeys { keys, first: first.to_owned() });
        }
        let mut outputs = Vec::with_capacity(paths.len());
        for ((path, (samples, bytes)), labels) in paths.iter().zip(written).zip(&labels) {
            let output = WrittenOutput::written(path, samples, bytes, labels.is_some());
            outputs.push(self.conversion.added(self.parts, path, output)?);
        }
        let mut report = self.report(outputs);
        report.quarantine = quarantine;
        report.skipped_duplicates += skipped;
        report.different_duplicates += different;
        Ok(report)
    }

    /// Copies the parts behind one another to one dataset, which is about to be published. `None` if samples have
    /// to be looked at, because two have the same key.
    fn concatenate(
        &self,
        mut writer: Writer,
        path: &PathBuf,
        monitor: &mut dyn Monitor,
    ) -> Result<Option<Writer>> {
        let noted = self.are_begun(std::slice::from_ref(path));
        let copied = noted.and_then(|()| self.copy_pieces(&mut writer, monitor));
        match copied {
            Ok(()) => return Ok(Some(writer)),
            Err(error) if error.kind() == ErrorKind::DuplicateKey => writer.abort()?,
            Err(error) => {
                // The first error is the one to report.
                let _ = writer.abort();
                return Err(error);
            }
        }
        Ok(None)
    }

    fn copy_pieces(&self, writer: &mut Writer, monitor: &mut dyn Monitor) -> Result<()> {
        let mut far = Progress::default();
        for piece in &self.pieces {
            let reader = self.open(piece)?;
            let mut crc = crc32fast::Hasher::new();
            writer.write_dataset(&reader, |packed| {
                if far.samples % FEW == 0 {
                    check_cancelled(monitor)?;
                    monitor.progress(far);
                }
                crc.update(packed);
                (far.samples, far.bytes) = (far.samples + 1, far.bytes + packed.len() as u64);
                Ok(())
            })?;
            piece.check(crc.finalize())?;
        }
        check_cancelled(monitor)?;
        monitor.progress(far);
        Ok(())
    }

    /// The writers of these datasets. `None` for one that another run has published: it stays, as that run may have
    /// removed the parts by now.
    fn writers(&self, paths: &[PathBuf]) -> Result<Vec<Option<Writer>>> {
        let mut writers: Vec<Option<Writer>> = Vec::with_capacity(paths.len());
        for path in paths {
            match self.writer(path) {
                Ok(writer) => writers.push(writer),
                Err(error) => {
                    // The first error is the one to report.
                    writers.into_iter().flatten().for_each(|writer| drop(writer.abort()));
                    return Err(error);
                }
            }
        }
        Ok(writers)
    }

    fn writer(&self, path: &Path) -> Result<Option<Writer>> {
        let options = self.conversion.writer_options()?;
        if self.conversion.options.append {
            return options.append(path).map(Some);
        }
        let options = options.overwrite(self.conversion.options.overwrite);
        if !self.home.is_object_store() {
            return options.create(path).map(Some);
        }
        let (storage, path) = storage::of(path)?;
        let (write, earlier) = self.parts.begin_write(&path)?;
        let options = options.storage(storage).write_unless_complete(write, earlier.clone());
        match options.create(&path) {
            Err(error)
                if error.kind() == ErrorKind::AlreadyExists
                    && self.home.is_written(&path, &earlier)? =>
            {
                Ok(None)
            }
            created => {
                let writer = created?;
                match self.parts.check_write(&path, write) {
                    Ok(()) => Ok(Some(writer)),
                    Err(error) => {
                        // The first error is the one to report.
                        let _ = writer.abort();
                        Err(error)
                    }
                }
            }
        }
    }

    /// Writes each sample to the dataset that it belongs to. All of them are about to be published.
    fn write_split(
        &self,
        assignment: Assignment,
        paths: &[PathBuf],
        monitor: &mut dyn Monitor,
    ) -> Result<WrittenSplit> {
        let total = Total { samples: Some(self.samples), ..Total::default() };
        monitor.begin(Phase::Joining, total);
        let done = |assignment, writers| {
            Ok(WrittenSplit { assignment, writers, skipped: 0, different: 0 })
        };
        let mut writers = self.writers(paths)?;
        if writers.iter().all(Option::is_none) {
            return done(assignment, writers);
        }
        let there = self.conversion.all_appended(self.parts, paths, &writers);
        let is_more = !matches!(&there, Ok(there) if there.iter().all(Option::is_none));
        let is_noted = self.pieces.iter().all(|piece| piece.crc32.is_some());
        let is_whole = is_noted && self.samples <= self.conversion.limit_or_max() && !is_more;
        if let ([path], true) = (paths, is_whole && !self.conversion.options.split.is_split()) {
            let copied = match writers.pop().flatten() {
                Some(writer) => self.concatenate(writer, path, monitor)?,
                None => None,
            };
            if copied.is_some() {
                monitor.begin(Phase::Finishing, Total::default());
                return done(assignment, vec![copied]);
            }
            writers = self.writers(paths)?;
        }
        let noted = there.and_then(|there| self.are_begun(paths).map(|()| there));
        let begun = noted.and_then(|there| Ok((there, self.source()?)));
        let (there, mut source) = match begun {
            Ok(begun) => begun,
            Err(error) => {
                writers.into_iter().flatten().for_each(|writer| drop(writer.abort()));
                return Err(self.conversion.in_new_parts(self.parts, error));
            }
        };
        let bases = paths.iter().map(|path| self.conversion.samples_before(self.parts, path));
        let bases = bases.collect::<Result<_>>()?;
        let mut writer = SplitWriter { assignment, writers, there, bases };
        let duplicates = self.conversion.options.duplicates;
        let origins = Origins::of_parts(self.conversion.keys_of(self.plan.format()));
        let mut passing = Passing::new(monitor, BadInput::Stop, duplicates).origins(origins);
        passing.limit = self.conversion.limit_or_max();
        let passed = passing.pass(&mut *source, &mut writer).and_then(|()| writer.check_there());
        let skipped = passing.tally.skipped_duplicates;
        let different = passing.tally.different_duplicates;
        passing.monitor().begin(Phase::Finishing, Total::default());
        match passed {
            Ok(()) => {
                let SplitWriter { assignment, writers, .. } = writer;
                Ok(WrittenSplit { assignment, writers, skipped, different })
            }
            Err(error) => {
                writer.abort();
                Err(self.conversion.in_new_parts(self.parts, error))
            }
        }
    }

    /// Writes another format: these outputs.
    fn export(
        &self,
        format: Format,
        paths: Vec<PathBuf>,
        monitor: &mut dyn Monitor,
    ) -> Result<Report> {
        let assignment = self.assignment()?;
        let mut source = Peeked::new(self.source()?, self.plan.labels.clone())?;
        let total = Total { samples: source.len_hint(), ..Total::default() };
        monitor.begin(Phase::Joining, total);
        let quarantine = match self.conversion.options.bad {
            // Samples that this format cannot hold follow those that were bad in the parts.
            BadInput::Quarantine => Some(self.begin_quarantine()?),
            _ => None,
        };
        let exporting = Exporting {
            format,
            before: Some(self.tally.clone()),
            unseen: Unseen::default(),
            starts: Vec::new(),
            quarantine,
            assignment,
            paths,
            parts: Some(self.parts),
        };
        let report = self.conversion.export(exporting, &mut source, monitor)?;
        let skipped_files = self.plan.skipped_files;
        Ok(Report { skipped_files, duration: self.start.elapsed(), resumed: true, ..report })
    }

    /// The output of an earlier run, which only had left to remove the parts.
    fn found(&self) -> Result<Report> {
        let quarantine = self.quarantine()?;
        let mut outputs = Vec::new();
        for path in self.conversion.targets() {
            let reader = DatasetReader::open(&path)?;
            let (samples, bytes) = (reader.len() as u64, reader.data_len());
            let output = WrittenOutput::dataset(path.clone(), samples, bytes);
            outputs.push(self.conversion.added(self.parts, &path, output)?);
        }
        Ok(Report { was_complete: true, quarantine, ..self.report(outputs) })
    }

    fn report(&self, outputs: Vec<WrittenOutput>) -> Report {
        Report {
            outputs,
            skipped_files: self.plan.skipped_files,
            duration: self.start.elapsed(),
            resumed: true,
            ..Report::of(self.tally.clone())
        }
    }

    /// The quarantine files of all parts as one.
    fn quarantine(&self) -> Result<Option<PathBuf>> {
        if self.conversion.options.bad != BadInput::Quarantine {
            return Ok(None);
        }
        let finished = self.begin_quarantine()?.finish()?;
        Ok(finished.map(|_| Quarantine::path_of(&self.conversion.output)))
    }

    /// A quarantine file with the bad input of all parts.
    fn begin_quarantine(&self) -> Result<Quarantine> {
        let (storage, path) = storage::of(Quarantine::path_of(&self.conversion.output))?;
        let mut quarantine = Quarantine::begin_in(&storage, path.clone(), 0)?;
        if self.conversion.options.append {
            quarantine.add_all(&path, self.parts.listed()?)?;
        }
        for (part, bytes) in self.all.iter().zip(&self.quarantined) {
            quarantine.add_all(&self.parts.file(*part, "quarantine.jsonl"), *bytes)?;
        }
        Ok(quarantine)
    }
}

/// Datasets that have their samples, but are not yet published.
struct WrittenSplit {
    assignment: Assignment,
    /// `None` for one that is published.
    writers: Vec<Option<Writer>>,
    skipped: u64,
    different: u64,
}

/// Fails if parts are missing.
fn check_missing(output: &Path, missing: &[Part], all: usize) -> Result<()> {
    let Some(first) = missing.first() else { return Ok(()) };
    let message = match (missing.len(), all) {
        (_, 1) => "the part is not finished".to_owned(),
        (1, all) => format!("1 of {all} parts is missing: {first}"),
        (count, all) => {
            let shown: Vec<String> = missing.iter().take(10).map(Part::to_string).collect();
            let more = if count > 10 { " and more" } else { "" };
            format!("{count} of {all} parts are missing: {}{more}", shown.join(", "))
        }
    };
    Err(Error::new(ErrorKind::Interrupted, message)
        .at(output)
        .with_remedy(Remedy::MakePart { first: first.to_string(), missing: (missing.len(), all) }))
}

/// Where the samples of a dataset are while it is written.
fn staged(dataset: &Path) -> PathBuf {
    staging::dir_of(dataset).join("data")
}

/// Whether the second file begins with all that is in the first.
fn is_beginning(path: &Path, of: &Path) -> Result<bool> {
    let (file, of) = (LocalStorage::mapped().open(path)?, LocalStorage::mapped().open(of)?);
    let mut end = 0;
    while end < file.len() {
        let next = end..file.len().min(end + (1 << 20));
        if next.end > of.len() || file.read(next.clone())? != of.read(next.clone())? {
            return Ok(false);
        }
        end = next.end;
    }
    Ok(true)
}
