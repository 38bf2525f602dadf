//! Runs a conversion: a dataset, or another format, from start to end or from where an earlier run
//! was interrupted.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Instant;

use super::bad_input::{BadInput, Tally};
use super::conversion::Conversion;
use super::format::{self, Format};
use super::job::no_units;
use super::monitor::{Monitor, Notice, Phase, Total, counted, kept};
use super::open::{Opened, Samples};
use super::passing::{Passing, starts};
use super::plan::line_difference;
use super::quarantine::Quarantine;
use super::report::{Report, WrittenOutput};
use super::reshape::{Reshape, Unseen, check_unseen};
use super::same_keys::{KeysOf, Origins};
use super::unit_log::{Resumed, Resumption, UnitLog, resume, unfinished_plan};
use super::{Duplicates, InOrder, Input, Recode, Source};
use crate::array::ArrayPolicy;
use crate::dataset::DatasetReader;
use crate::dataset::{Stats, Writer, WriterOptions};
use crate::error::{Error, ErrorKind, Remedy, Result};
use crate::storage;

impl Conversion {
    /// Runs it. Until everything is written nothing is published, and an error leaves everything as
    /// it was. Only an error of the last step, such as a full disk, keeps the samples in
    /// `OUTPUT.partial`, for [`repair`](crate::repair); and so does any error of a conversion that
    /// [resumes](Self::resume), for its next run.
    ///
    /// # Errors
    ///
    /// [`Invalid`](ErrorKind::Invalid) if the conversion makes no sense,
    /// [`AlreadyExists`](ErrorKind::AlreadyExists), [`Interrupted`](ErrorKind::Interrupted) and
    /// [`Locked`](ErrorKind::Locked) for what is in the place of the output,
    /// [`Cancelled`](ErrorKind::Cancelled) if the monitor stops it, bad input unless
    /// [`on_bad_input`](Self::on_bad_input) leaves it out, and errors of the system.
    pub fn run(&self, monitor: &mut dyn Monitor) -> Result<Report> {
        let start = Instant::now();
        self.check()?;
        let mut opened = self.open()?;
        opened.tell(monitor);
        let is_dataset = self.output_format() == Format::Dataset;
        if self.options.to.is_none() && is_dataset && format::has_other_ending(&self.output) {
            monitor.notice(Notice::OtherEnding(self.output.clone()));
        }
        if self.options.append {
            self.check_older_keys(&opened)?;
        }
        let (is_url, is_split) = (storage::is_url(&self.output), self.options.split.is_split());
        let in_pieces = match self.output_format() {
            Format::Dataset if is_url => {
                self.how.resume || self.options.bad == BadInput::Quarantine
            }
            Format::Dataset => is_split,
            _ => self.how.resume || is_split || self.options.duplicates == Duplicates::Skip,
        };
        let run = match self.output_format() {
            Format::Dataset if self.is_sharded() => self.run_sharded(opened, monitor),
            _ if in_pieces => self.run_in_pieces(opened, monitor),
            Format::Dataset if is_split => self.run_split_to_url(opened, monitor),
            Format::Dataset => self.run_dataset(opened, monitor),
            format => self.run_export(format, opened, monitor),
        };
        let report = run.map_err(|error| kept(error, &self.output, "nothing was written"))?;
        Ok(Report { duration: start.elapsed(), ..report }.told(monitor))
    }

    fn run_dataset(&self, opened: Opened, monitor: &mut dyn Monitor) -> Result<Report> {
        let (dataset, skipped_files) = (&*self.output, opened.skipped_files);
        // A run that resumes may first publish what an earlier one wrote, and its labels with it.
        let plan_labels = || self.plan_labels(dataset, opened.samples.label_names());
        let early = if self.how.resume { None } else { Some(plan_labels()?) };
        let begun = match self.begin(&opened, monitor)? {
            Beginning::Begun(begun) => *begun,
            Beginning::Complete(complete) => {
                let bytes = Some(complete.tally.quarantined);
                let quarantine = Quarantine::settle(Quarantine::path_of(dataset), bytes)?;
                let Complete { samples, bytes, tally } = complete;
                let output = WrittenOutput::dataset(dataset.to_path_buf(), samples, bytes);
                return Ok(Report {
                    outputs: vec![output],
                    quarantine,
                    skipped_files,
                    resumed: true,
                    ..Report::of(tally)
                });
            }
            Beginning::Done => {
                monitor.notice(Notice::Complete(dataset.to_path_buf()));
                return self.report_present(&[dataset.to_path_buf()], skipped_files);
            }
        };
        let labels = early.map_or_else(plan_labels, Ok)?;
        let units = opened.samples.as_input().map(Input::units);
        let (before, bytes_before) = match self.options.append {
            true => (begun.writer.len(), begun.writer.bytes()),
            false => (0, 0),
        };
        let (first, resumed) = (begun.unit.unwrap_or(0), begun.unit.is_some());
        let keys = self.keys_of(opened.format);
        check_unit(first, 0..units.unwrap_or(0), dataset)?;
        let (starts, source, len) = match opened.samples {
            Samples::Units(input) => {
                let (starts, len) = (starts(&*input, 0..input.units()), input.len_hint());
                let rest = first..input.units();
                (starts, Box::new(InOrder::of_units(input, rest)) as Box<dyn Source>, len)
            }
            Samples::Stream(source) => {
                let len = source.len_hint();
                (Vec::new(), source, len)
            }
        };
        let limit = self.options.limit;
        let len = len.map(|len| limit.map_or(len, |limit| limit.min(len))).or(limit);
        // The samples of a run that is resumed or appended to count from its start.
        let total =
            Total { samples: len.map(|len| before + len), input_bytes: starts.last().copied() };
        monitor.begin(Phase::Converting, total);
        let limit = limit.map_or(u64::MAX, |limit| before.saturating_add(limit));
        let quarantine = Quarantine::path_of(dataset);
        let whole = Whole { units, limit, quarantine, starts: &starts, keys };
        let Filled { writer, tally, quarantine } = self.fill(begun, source, whole, monitor)?;
        monitor.begin(Phase::Finishing, Total::default());
        let stats = match self.finish_writer(writer, labels.as_deref()) {
            Ok(stats) => stats,
            Err(error) => {
                let is_kept = self.how.resume || matches!(error.remedy(), Some(Remedy::Repair(_)));
                if let (false, Some(quarantine)) = (is_kept, quarantine) {
                    quarantine.abort();
                }
                return Err(error);
            }
        };
        let quarantine = quarantine.map(Quarantine::finish).transpose()?.flatten();
        let output = WrittenOutput {
            added: stats.samples - before,
            added_bytes: stats.bytes - bytes_before,
            ..WrittenOutput::written(dataset, stats.samples, stats.bytes, labels.is_some())
        };
        Ok(Report {
            outputs: vec![output],
            quarantine,
            skipped_files,
            resumed,
            ..Report::of(tally)
        })
    }

    /// Publishes the output. After an error, output is kept only if it is complete or can be resumed.
    fn finish_writer(&self, mut writer: Writer, labels: Option<&[String]>) -> Result<Stats> {
        if let Err(error) = self.set_labels(&mut writer, labels) {
            if !self.how.resume {
                // The first error is the one to report.
                let _ = writer.abort();
            }
            return Err(error);
        }
        match self.how.resume {
            true => writer
                .finish()
                .map_err(|error| error.with_remedy(Remedy::Resume(self.output.clone()))),
            false => writer.finish_whole(),
        }
    }

    /// Datasets that exist already and get nothing new.
    pub(super) fn report_present(&self, paths: &[PathBuf], skipped_files: u64) -> Result<Report> {
        let mut outputs = Vec::new();
        for path in paths {
            let reader = DatasetReader::open(path)?;
            let output =
                WrittenOutput::dataset(path.clone(), reader.len() as u64, reader.data_len());
            outputs.push(WrittenOutput { added: 0, added_bytes: 0, ..output });
        }
        Ok(Report { outputs, was_complete: true, skipped_files, ..Report::default() })
    }

    /// Writes all samples of a source; an error keeps what was written if it can be resumed.
    fn fill(
        &self,
        begun: Begun,
        source: Box<dyn Source>,
        whole: Whole<'_>,
        monitor: &mut dyn Monitor,
    ) -> Result<Filled> {
        let Begun { mut writer, log, tally, .. } = begun;
        let bytes = tally.as_ref().map_or(0, |tally| tally.quarantined);
        let (mut source, unseen) = self.shaped(source)?;
        // The output of an earlier run of this conversion is not the dataset that it appends to.
        let before = if self.options.append { writer.len() } else { 0 };
        let mut passing = Passing::new(monitor, self.options.bad, self.options.duplicates)
            .after(tally)
            .unseen(unseen)
            .origins(Origins::new(whole.keys, before))
            .starts(whole.starts);
        (passing.log, passing.limit) = (log, whole.limit);
        passing.written = (writer.len(), writer.bytes());
        if self.options.bad == BadInput::Quarantine {
            passing.quarantine = Some(match self.options.append {
                true => Quarantine::append(whole.quarantine)?,
                false => Quarantine::begin(whole.quarantine, bytes)?,
            });
        }
        let passed = passing.pass(&mut *source, &mut writer);
        let passed = passed.and_then(|()| check_unseen(&passing.tally.unseen));
        match passed.and_then(|()| passing.finish(whole.units, &mut writer)) {
            Ok(()) => {
                let Passing { tally, quarantine, .. } = passing;
                Ok(Filled { writer, tally, quarantine })
            }
            Err(error) => {
                let keeps = self.how.resume;
                let (error, is_kept) = match error.kind() {
                    ErrorKind::Cancelled if keeps || self.how.keep_cancelled => {
                        self.stopped(error, &mut passing, &mut writer)?
                    }
                    _ => (error, false),
                };
                if keeps || is_kept {
                    // The writer leaves its files when it is dropped.
                    return Err(error);
                }
                // The first error is the one to report.
                let _ = writer.abort();
                if let Some(quarantine) = passing.quarantine {
                    quarantine.abort();
                }
                Err(error)
            }
        }
    }

    /// Says of a conversion that was stopped how much of it can be resumed, and whether there is
    /// anything.
    fn stopped(
        &self,
        error: Error,
        passing: &mut Passing<'_>,
        writer: &mut Writer,
    ) -> Result<(Error, bool)> {
        if storage::is_url(&self.output) {
            return Ok((error, false));
        }
        let samples = passing.keep(writer)?;
        if samples == 0 {
            return Ok((error, false));
        }
        let samples = counted(samples, "sample");
        let error = kept(error, &self.output, format_args!("kept {samples}"));
        Ok((error.with_remedy(Remedy::Resume(self.output.clone())), true))
    }

    /// The writer of a dataset that is written in one run.
    fn begin(&self, opened: &Opened, monitor: &mut dyn Monitor) -> Result<Beginning> {
        let dataset = &self.output;
        let options = self.writer_options()?.overwrite(self.options.overwrite);
        let plan = match &opened.samples {
            // Where nothing is kept, nothing can be resumed.
            _ if storage::is_url(dataset) => None,
            Samples::Units(_) if !self.options.append => {
                Some(self.plan_of(opened, None)?.to_line()?)
            }
            _ => None,
        };
        let begun = match (&plan, self.options.append, self.how.resume) {
            (_, true, _) => options
                .append(dataset)
                .map(|writer| Begun { writer, log: None, unit: None, tally: None }.into()),
            (None, _, true) => return Err(no_units().with_remedy(Remedy::ResumeFiles)),
            (Some(plan), _, true) => Begun::again(options, dataset, plan),
            (plan, ..) => Begun::new(options, dataset, plan.as_deref()).map(Begun::into),
        };
        if let Ok(Beginning::Begun(begun)) = &begun {
            if begun.unit.is_some() {
                let samples = begun.writer.len();
                monitor.notice(Notice::Resumes { path: dataset.clone(), samples });
            }
        }
        begun.map_err(|error| self.not_begun(plan.as_deref(), error))
    }

    /// Why nothing was begun, and what can be done about it.
    fn not_begun(&self, plan: Option<&str>, error: Error) -> Error {
        let left = || unfinished_plan(&self.output).ok().flatten();
        match error.kind() {
            ErrorKind::AlreadyExists if storage::is_url(&self.output) => {
                error.with_remedy(Remedy::Overwrite)
            }
            ErrorKind::AlreadyExists => error.with_remedy(Remedy::OverwriteOrAppend),
            ErrorKind::Invalid if self.how.resume => {
                let here = plan.unwrap_or_default();
                let error = match left().and_then(|left| line_difference(&left, here)) {
                    Some(difference) => error.note(difference),
                    None => error,
                };
                error.with_remedy(Remedy::StartOver)
            }
            ErrorKind::Interrupted if plan.is_some() && left().as_deref() == plan => {
                error.with_remedy(Remedy::Resume(self.output.clone()))
            }
            ErrorKind::NotFound if self.options.append => error.with_remedy(Remedy::Create),
            _ => error,
        }
    }

    /// The same source, with the fields and arrays that were asked for.
    pub(super) fn shaped(&self, source: Box<dyn Source>) -> Result<(Box<dyn Source>, Unseen)> {
        let reshape = Reshape::new(source, &self.options)?;
        let unseen = reshape.unseen();
        let Some(policy) = self.array_policy()? else { return Ok((Box::new(reshape), unseen)) };
        Ok((Box::new(Recode::new(Box::new(reshape), policy)), unseen))
    }

    fn array_policy(&self) -> Result<Option<ArrayPolicy>> {
        let Some(form) = &self.options.arrays else { return Ok(None) };
        let policy = form.parse::<ArrayPolicy>();
        let mut policy = policy.map_err(|error| error.with_option("arrays"))?;
        if let Some(bytes) = self.options.arrays_min {
            policy = policy.min_bytes(bytes);
        }
        if !self.options.arrays_fields.is_empty() {
            policy = policy.fields(&self.options.arrays_fields);
        }
        Ok(Some(policy))
    }
}

/// Facts about the input for [`Conversion::fill`].
struct Whole<'a> {
    /// The unit after the last one; `None` for a stream.
    units: Option<usize>,
    limit: u64,
    quarantine: PathBuf,
    /// Bytes of input before each unit.
    starts: &'a [u64],
    keys: KeysOf,
}

/// All samples, which are written but not published.
struct Filled {
    writer: Writer,
    tally: Tally,
    quarantine: Option<Quarantine>,
}

/// A writer, and where it continues.
pub(super) struct Begun {
    pub(super) writer: Writer,
    pub(super) log: Option<UnitLog>,
    /// The first unit that is not yet complete.
    pub(super) unit: Option<usize>,
    pub(super) tally: Option<Tally>,
}

impl Begun {
    /// A new dataset. With a plan it can be resumed.
    pub(super) fn new(options: WriterOptions, path: &Path, plan: Option<&str>) -> Result<Begun> {
        let writer = options.create(path)?;
        let log = plan.map(|plan| UnitLog::create(path, plan)).transpose()?;
        Ok(Begun { writer, log, unit: None, tally: None })
    }

    /// Resumes what was interrupted, if anything was.
    pub(super) fn again(options: WriterOptions, path: &Path, plan: &str) -> Result<Beginning> {
        Ok(match resume(options.clone(), path, plan)? {
            Resumption::Nothing => match Begun::new(options, path, Some(plan)) {
                // If what is there cannot be opened, the user has to look at it.
                Err(error) if error.kind() == ErrorKind::AlreadyExists => match is_dataset(path) {
                    true => Beginning::Done,
                    false => return Err(error),
                },
                begun => begun?.into(),
            },
            Resumption::Complete { samples, bytes, state } => {
                Beginning::Complete(Complete { samples, bytes, tally: state.unwrap_or_default() })
            }
            Resumption::GoesOn(resumed) => {
                let Resumed { writer, log, unit, state: tally } = *resumed;
                Begun { writer, log: Some(log), unit, tally }.into()
            }
        })
    }
}

/// Fails for a unit in a log that the source does not have.
pub(super) fn check_unit(unit: usize, units: Range<usize>, dataset: &Path) -> Result<()> {
    if (units.start..=units.end).contains(&unit) {
        return Ok(());
    }
    let message =
        format!("the log of an unfinished conversion has unit {unit}, expected {units:?}");
    Err(Error::new(ErrorKind::Damaged, message).at(dataset).with_remedy(Remedy::StartOver))
}

/// The work that is left.
pub(super) enum Beginning {
    Begun(Box<Begun>),
    /// Nothing: an earlier run had only left to publish it, and now it is published.
    Complete(Complete),
    /// Nothing: the dataset is there.
    Done,
}

impl From<Begun> for Beginning {
    fn from(begun: Begun) -> Beginning {
        Beginning::Begun(Box::new(begun))
    }
}

/// The output of an earlier run.
pub(super) struct Complete {
    pub(super) samples: u64,
    pub(super) bytes: u64,
    pub(super) tally: Tally,
}

/// Whether there is a dataset that can be opened, and its first and last samples read.
pub(super) fn is_dataset(path: &Path) -> bool {
    let ends = |reader: DatasetReader| {
        let last = reader.len().checked_sub(1);
        last.is_none_or(|last| reader.key(0).is_ok() && reader.key(last).is_ok())
    };
    DatasetReader::open(path).is_ok_and(ends)
}
