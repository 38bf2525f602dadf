//! Runs that write another format: all samples in one pass, to one output or to those of a split.

use std::path::{Path, PathBuf};

use super::bad_input::{BadInput, Tally};
use super::carried::ChangedValues;
use super::conversion::Conversion;
use super::export::{self, Export};
use super::export_form::ExportForm;
use super::format::{Format, Output};
use super::formats::webdataset;
use super::monitor::{Monitor, Notice, Phase, Total};
use super::open::Opened;
use super::passing::{Passing, starts};
use super::quarantine::Quarantine;
use super::report::{Report, WrittenOutput};
use super::reshape::{Unseen, check_unseen};
use super::split::Assignment;
use super::writer::SampleWriter;
use super::{Duplicates, Journal, Place, Source};
use crate::array::ArrayTally;
use crate::error::{Error, ErrorKind, Result};
use crate::format::msgpack;

/// Changes that are reported one by one.
const REPORTED: usize = 10;

impl Conversion {
    /// Writes another format.
    pub(super) fn run_export(
        &self,
        format: Format,
        opened: Opened,
        monitor: &mut dyn Monitor,
    ) -> Result<Report> {
        let units = opened.samples.as_input();
        let starts = units.map_or_else(Vec::new, |input| starts(input, 0..input.units()));
        let (source, unseen) = self.shaped(opened.samples.into_source())?;
        let names = source.label_names().map(<[String]>::to_vec);
        let mut source = Peeked::new(source, names)?;
        let len = source.len_hint().map(|len| len.min(self.limit_or_max())).or(self.options.limit);
        let total = Total { samples: len, input_bytes: starts.last().copied() };
        monitor.begin(Phase::Converting, total);
        let quarantine = match self.options.bad {
            BadInput::Quarantine => {
                // The quarantine of an earlier run stays if this one cannot begin.
                let form = self.export_form(format);
                export::check_place(form, &self.output, self.options.overwrite)?;
                Some(Quarantine::begin(Quarantine::path_of(&self.output), 0)?)
            }
            _ => None,
        };
        let exporting = Exporting {
            format,
            before: None,
            unseen,
            starts,
            quarantine,
            assignment: self.options.split.assignment()?,
            paths: vec![self.output.clone()],
            parts: None,
        };
        let report = self.export(exporting, &mut source, monitor)?;
        Ok(Report { skipped_files: opened.skipped_files, ..report })
    }

    /// Writes all samples in another format, and publishes them: nothing, if there are none where a
    /// format must have some.
    pub(super) fn export(
        &self,
        exporting: Exporting<'_>,
        source: &mut Peeked,
        monitor: &mut dyn Monitor,
    ) -> Result<Report> {
        let Exporting { format, before, unseen, starts, quarantine, assignment, paths, parts } =
            exporting;
        let form = self.export_form(format);
        let begun = Exports::create(form, assignment, paths, self.options.overwrite, source);
        #[cfg(feature = "stat")]
        let begun = begun.and_then(|exports| {
            let (first, labels) = (&source.first[..], source.label_names());
            super::dry_run::report_changes(format, &self.output, first, labels, monitor)?;
            Ok(exports)
        });
        let mut exports = match begun {
            Ok(exports) => exports,
            Err(error) => {
                quarantine.into_iter().for_each(Quarantine::abort);
                return Err(error);
            }
        };
        if source.label_names().is_some() && !format.keeps_labels() {
            monitor.notice(Notice::LabelsLost);
        }
        if format == Format::Webdataset && source.first.iter().flatten().any(webdataset::is_escaped)
        {
            monitor.notice(Notice::KeysEscaped(self.output.clone()));
        }
        let mut passing = Passing::new(monitor, self.options.bad, Duplicates::Refuse)
            .after(before)
            .unseen(unseen)
            .starts(&starts);
        (passing.limit, passing.quarantine) = (self.limit_or_max(), quarantine);
        // Parts are removed before anyone reads the error.
        passing.locates = parts.is_none();
        let passed = passing.pass(source, &mut exports);
        let changes = exports.changes();
        let (unused, empty) = (exports.unused(), exports.empty().map(Path::to_path_buf));
        let finished = passed.and_then(|()| match empty {
            Some(_) => Ok(Vec::new()),
            None => {
                if parts.is_none() {
                    check_unseen(&passing.tally.unseen)?;
                }
                passing.monitor().begin(Phase::Finishing, Total::default());
                exports.publish(parts)
            }
        });
        let outputs = match finished {
            Ok(outputs) => outputs,
            Err(error) => {
                passing.quarantine.into_iter().for_each(Quarantine::abort);
                return Err(error);
            }
        };
        report_values(&self.output, &changes, passing.monitor());
        if let Some((keys, first)) = unused {
            passing.monitor().notice(Notice::UnusedListKeys { keys, first });
        }
        let Passing { tally, quarantine, .. } = passing;
        let quarantine = quarantine.map(Quarantine::finish).transpose()?.flatten();
        let report = Report { quarantine, changes, ..Report::of(tally) };
        match empty {
            Some(path) => Err(nothing_to_write(&path, &report)),
            None => Ok(Report { outputs, ..report }),
        }
    }
}

/// The state that [`Conversion::export`] continues from.
pub(super) struct Exporting<'a> {
    pub(super) format: Format,
    /// Counts from writing the parts.
    pub(super) before: Option<Tally>,
    pub(super) unseen: Unseen,
    /// Bytes of input before each unit.
    pub(super) starts: Vec<u64>,
    pub(super) quarantine: Option<Quarantine>,
    pub(super) assignment: Assignment,
    /// The outputs of the assignment.
    pub(super) paths: Vec<PathBuf>,
    pub(super) parts: Option<&'a Journal>,
}

/// One output, and what it has so far.
struct Counted {
    path: PathBuf,
    export: Export,
    samples: u64,
    bytes: u64,
}

/// The outputs of one pass; each gets the samples that a split assigns to it.
struct Exports {
    form: ExportForm,
    assignment: Assignment,
    exports: Vec<Counted>,
}

impl Exports {
    fn create(
        form: ExportForm,
        assignment: Assignment,
        paths: Vec<PathBuf>,
        overwrite: bool,
        source: &Peeked,
    ) -> Result<Exports> {
        let begin = |path: PathBuf| {
            let export = Export::create(form, &path, overwrite, source.label_names())?;
            Ok(Counted { path, export, samples: 0, bytes: 0 })
        };
        let exports = paths.into_iter().map(begin).collect::<Result<_>>()?;
        Ok(Exports { form, assignment, exports })
    }

    /// The first output without samples, in a format that must have some.
    fn empty(&self) -> Option<&Path> {
        let may_be_empty = matches!(self.form.format, Format::Jsonl | Format::Csv);
        let empty = self.exports.iter().find(|one| one.samples == 0);
        empty.filter(|_| !may_be_empty).map(|one| &*one.path)
    }

    /// How many keys of the split's lists no sample had, and the first of them.
    fn unused(&self) -> Option<(u64, String)> {
        self.assignment.unused().map(|(keys, first)| (keys, first.to_owned()))
    }

    /// Moves all outputs to their places.
    fn publish(self, parts: Option<&Journal>) -> Result<Vec<WrittenOutput>> {
        let form = self.form;
        let finish = |Counted { path, export, samples, bytes }| {
            let files = export.finish(|from, place| publishing(parts, from, place))?;
            let path = match (form.output(), &files[..]) {
                (Output::Shards, _) => path,
                (_, [file]) => file.clone(),
                _ => path,
            };
            let (added, added_bytes) = (samples, bytes);
            let (is_dataset, labels) = (false, None);
            Ok(WrittenOutput {
                path,
                files,
                samples,
                bytes,
                added,
                added_bytes,
                is_dataset,
                labels,
            })
        };
        self.exports.into_iter().map(finish).collect()
    }
}

impl SampleWriter for Exports {
    fn write_packed(&mut self, packed: &[u8]) -> Result<()> {
        let target = match self.assignment.is_split() {
            true => self.assignment.of(msgpack::check_sample(packed)?),
            false => 0,
        };
        let one = &mut self.exports[target];
        one.export.writer().write_packed(packed)?;
        (one.samples, one.bytes) = (one.samples + 1, one.bytes + packed.len() as u64);
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        self.exports.iter_mut().try_for_each(|one| one.export.writer().flush())
    }

    fn changes(&self) -> Vec<ChangedValues> {
        self.exports.iter().flat_map(|one| one.export.changes()).collect()
    }

    /// They are [published](Exports::publish) instead.
    fn finish(self: Box<Self>) -> Result<Vec<PathBuf>> {
        Ok(Vec::new())
    }
}

/// Reports values that became something else.
fn report_values(path: &Path, changes: &[ChangedValues], monitor: &mut dyn Monitor) {
    for changed in changes.iter().take(REPORTED).cloned() {
        monitor.notice(Notice::ValuesChanged { path: path.to_path_buf(), changed });
    }
    if changes.len() > REPORTED {
        monitor.notice(Notice::MoreFieldsChange);
    }
}

fn nothing_to_write(path: &Path, report: &Report) -> Error {
    let expected = "expected samples to write, found none";
    match report.bad.count {
        0 => Error::new(ErrorKind::Invalid, expected).at(path),
        count => {
            let reasons = report.bad.first.join("; ");
            let message = format!("{expected} that are not bad; {count} are: {reasons}");
            Error::new(ErrorKind::Damaged, message).at(path)
        }
    }
}

/// Notes what is about to be published, so that a commit that is killed recognises it.
fn publishing(parts: Option<&Journal>, from: &Path, place: &Path) -> Result<()> {
    let Some(parts) = parts else { return Ok(()) };
    parts.will_publish(from, place)?;
    // Something else may have come there meanwhile.
    match parts.place(place)? {
        Place::Foreign => Err(export::foreign(place)),
        _ => Ok(()),
    }
}

/// A source whose first batch can be looked at, and whose labels have these names.
pub(super) struct Peeked {
    source: Box<dyn Source>,
    pub(super) first: Vec<Result<Vec<u8>>>,
    names: Option<Vec<String>>,
}

impl Peeked {
    pub(super) fn new(mut source: Box<dyn Source>, names: Option<Vec<String>>) -> Result<Peeked> {
        let first = source.next_batch()?;
        Ok(Peeked { source, first, names })
    }
}

impl Source for Peeked {
    fn next_batch(&mut self) -> Result<Vec<Result<Vec<u8>>>> {
        match self.first.is_empty() {
            true => self.source.next_batch(),
            false => Ok(std::mem::take(&mut self.first)),
        }
    }

    fn label_names(&self) -> Option<&[String]> {
        self.names.as_deref()
    }

    fn arrays(&self) -> Option<&ArrayTally> {
        // The report of another format has none.
        None
    }

    fn inner(&self) -> Option<&dyn Source> {
        Some(&*self.source)
    }
}
