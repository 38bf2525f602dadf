//! A dataset that is written in one go, or gone on with.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use kiste::array::ArrayTally;
use kiste::convert::{
    self, Duplicates, InOrder, Input, Passed, Recode, Resumed, Resumption, Source, UnitLog,
    labels_path,
};
use kiste::{DatasetReader, ErrorKind, Writer, WriterOptions};
use serde::Serialize;

use super::bad::{Bad, Quarantine, Tally, Watch};
use super::fields::{Reshape, Unseen, check_unseen};
use super::from::{Opened, Samples};
use super::to::To;
use super::{Args, plan};
use crate::exit::{Exit, Failure, Outcome, quoted};
use crate::output::{Output, Progress};
use crate::units;

/// What was made.
#[derive(Serialize)]
pub(super) struct Converted {
    pub(super) file: PathBuf,
    /// Samples and bytes of the whole dataset, and how many of these are new.
    pub(super) samples: u64,
    pub(super) bytes: u64,
    pub(super) added: u64,
    pub(super) added_bytes: u64,
    pub(super) skipped_duplicates: u64,
    /// Bad samples that were left out.
    pub(super) bad: u64,
    pub(super) quarantine: Option<PathBuf>,
    /// Files in the folder that are no images.
    pub(super) skipped_files: u64,
    pub(super) labels: Option<PathBuf>,
    /// What became of the arrays, if that was asked for.
    pub(super) arrays: Option<ArrayTally>,
    pub(super) seconds: f64,
    #[serde(skip)]
    pub(super) tally: Tally,
}

/// A writer, and what it goes on with.
pub(super) struct Begun {
    pub(super) writer: Writer,
    pub(super) log: Option<UnitLog>,
    /// The first unit that is not yet whole.
    pub(super) unit: Option<usize>,
    pub(super) tally: Option<Tally>,
}

impl Begun {
    /// Starts anew.
    pub(super) fn anew(
        options: WriterOptions,
        path: &Path,
        plan: Option<&str>,
    ) -> kiste::Result<Begun> {
        let writer = options.create(path)?;
        let log = plan.map(|plan| UnitLog::create(path, plan)).transpose()?;
        Ok(Begun { writer, log, unit: None, tally: None })
    }

    /// Goes on with what was cut short, if there is something.
    pub(super) fn again(
        options: WriterOptions,
        path: &Path,
        plan: &str,
    ) -> kiste::Result<Beginning> {
        Ok(match convert::resume(options.clone(), path, plan)? {
            Resumption::Nothing => match Begun::anew(options, path, Some(plan)) {
                // What cannot be opened is for the user to look at.
                Err(error) if error.kind() == ErrorKind::AlreadyExists => match is_dataset(path) {
                    true => Beginning::Done,
                    false => return Err(error),
                },
                begun => begun?.into(),
            },
            Resumption::Complete { samples, bytes, state } => {
                let tally = serde_json::from_value(state).unwrap_or_default();
                Beginning::Complete(Complete { samples, bytes, tally })
            }
            Resumption::GoesOn(resumed) => {
                let Resumed { writer, log, unit, state } = *resumed;
                let tally = serde_json::from_value(state).ok();
                Begun { writer, log: Some(log), unit, tally }.into()
            }
        })
    }
}

/// What there is to do.
pub(super) enum Beginning {
    Begun(Box<Begun>),
    /// Nothing: an earlier run had only to publish it.
    Complete(Complete),
    /// Nothing at all: the dataset is there.
    Done,
}

impl From<Begun> for Beginning {
    fn from(begun: Begun) -> Beginning {
        Beginning::Begun(Box::new(begun))
    }
}

/// What an earlier run has written.
pub(super) struct Complete {
    pub(super) samples: u64,
    pub(super) bytes: u64,
    pub(super) tally: Tally,
}

impl Args {
    /// Makes a dataset in one go.
    pub(super) fn make(&self, opened: Opened, output: &Output) -> Outcome<Exit> {
        let start = Instant::now();
        let (dataset, _) = self.names()?;
        let Opened { samples, skipped_files, .. } = opened;
        // What is gone on with may have to be published first, and its labels with it.
        let plan_labels = || self.plan_labels(dataset, samples.label_names());
        let early = if self.resume { None } else { Some(plan_labels()?) };
        let begun = match self.begin(dataset, &samples, skipped_files, output)? {
            Beginning::Begun(begun) => *begun,
            Beginning::Complete(complete) => {
                let converted = complete.converted(dataset, skipped_files, start)?;
                return converted.tell(self.json, output);
            }
            Beginning::Done => {
                let name = dataset.display();
                output.note(format_args!("{name}: complete already, nothing to resume"));
                if self.json {
                    output.json(&Converted::found(dataset, skipped_files, start)?)?;
                }
                return Ok(Exit::Yes);
            }
        };
        let labels = early.map_or_else(plan_labels, Ok)?;
        let units = match &samples {
            Samples::Units(input) => Some(input.units()),
            Samples::Stream(_) => None,
        };
        let (before, bytes_before) = match self.append {
            true => (begun.writer.len(), begun.writer.bytes()),
            false => (0, 0),
        };
        let first = begun.unit.unwrap_or(0);
        let limit = self.samples.limit.map_or(u64::MAX, |limit| before.saturating_add(limit));
        let (starts, source, len) = match samples {
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
        let limited = |len: u64| self.samples.limit.map_or(len, |limit| limit.min(len));
        let len = len.map(limited).or(self.samples.limit);
        let progress = output.progress_rates(
            "converting",
            len.map(|len| before + len),
            starts.last().copied(),
            self.progress_json(),
        );
        let quarantine = Quarantine::path_of(dataset);
        let (mut writer, tally, quarantine) =
            self.pass((begun, units), source, limit, quarantine, (&progress, &starts))?;
        progress.say("finishing");
        self.set_labels(&mut writer, labels.as_deref())?;
        let stats = writer.finish().map_err(|error| {
            let repair = format!("kiste repair {}", quoted(dataset));
            Failure::from(error).hint(format!(
                "\"{repair} --finish\" publishes what was written, \"{repair} --undo\" removes it"
            ))
        })?;
        drop(progress);
        let quarantine = quarantine.map(Quarantine::finish).transpose()?.flatten();
        let converted = Converted {
            samples: stats.samples,
            bytes: stats.bytes,
            added: stats.samples - before,
            added_bytes: stats.bytes - bytes_before,
            skipped_duplicates: tally.skipped_duplicates,
            bad: tally.bad,
            quarantine,
            skipped_files,
            labels: named_labels(dataset),
            arrays: tally.arrays.clone(),
            seconds: start.elapsed().as_secs_f64(),
            file: dataset.to_path_buf(),
            tally,
        };
        converted.tell(self.json, output)
    }

    /// Passes all samples; an error leaves what is there if it can be gone on with.
    pub(super) fn pass(
        &self,
        (begun, units): (Begun, Option<usize>),
        source: Box<dyn Source>,
        limit: u64,
        quarantine: PathBuf,
        (progress, starts): (&Progress, &[u64]),
    ) -> Outcome<(Writer, Tally, Option<Quarantine>)> {
        let Begun { mut writer, log, tally, .. } = begun;
        let bytes = tally.as_ref().map_or(0, Tally::quarantined);
        let (mut source, unseen) = self.shaped(source);
        let mut watch = Watch::new(self.bad, tally, unseen, progress, starts);
        watch.log = log;
        if self.bad == Bad::Quarantine {
            watch.quarantine = Some(match self.append {
                true => Quarantine::append(quarantine)?,
                false => Quarantine::begin(quarantine, bytes)?,
            });
        }
        let passed = convert::pass(&mut *source, &mut writer, self.duplicates(), limit, &mut watch);
        let passed: Outcome<Passed> = passed.map_err(|error| self.hint(error, watch.stopped));
        let passed = passed.and_then(|_| match self.part {
            // Another part may have seen it.
            None if !self.splitting.is_wanted() => check_unseen(&watch.tally.unseen),
            _ => Ok(()),
        });
        let passed = passed.and_then(|()| Ok(watch.finish(units, &mut writer)?));
        match passed {
            Ok(()) => Ok((writer, watch.tally, watch.quarantine)),
            // The writer leaves it when it is dropped.
            Err(failure) if self.resume || self.part.is_some() => Err(failure),
            Err(failure) => {
                // The first error is the one to tell.
                let _ = writer.abort();
                if let Some(quarantine) = watch.quarantine {
                    quarantine.abort();
                }
                Err(failure)
            }
        }
    }

    /// What may be done about an error.
    pub(super) fn hint(&self, error: kiste::Error, bad: bool) -> Failure {
        let hint = match error.kind() {
            ErrorKind::DuplicateKey if self.to() == To::Dataset => {
                "--skip-duplicates passes over such samples"
            }
            _ if bad => "--bad skip leaves out what is bad, --bad quarantine sets it aside",
            _ => return error.into(),
        };
        Failure::from(error).hint(self.option_hint(hint))
    }

    /// A writer for a dataset that is made in one go.
    fn begin(
        &self,
        dataset: &Path,
        samples: &Samples,
        skipped_files: u64,
        output: &Output,
    ) -> Outcome<Beginning> {
        let options = self.writing.options().overwrite(self.force);
        let plan = match samples {
            Samples::Units(_) if !self.append => {
                Some(plan::brief(plan::plan(self, samples, skipped_files, None)?))
            }
            _ => None,
        };
        let begun = match (&plan, self.append, self.resume) {
            (_, true, _) => options
                .append(dataset)
                .map(|writer| Begun { writer, log: None, unit: None, tally: None }.into()),
            (None, _, true) => {
                let message = "what comes as a stream cannot be gone on with";
                return Err(Failure::trouble(message).hint("--resume is for files"));
            }
            (Some(plan), _, true) => Begun::again(options, dataset, plan),
            (plan, ..) => Begun::anew(options, dataset, plan.as_deref()).map(Begun::into),
        };
        if let Ok(Beginning::Begun(begun)) = &begun {
            if begun.unit.is_some() {
                let samples = units::counted(begun.writer.len(), "sample");
                output.note(format_args!("{}: going on after {samples}", dataset.display()));
            }
        }
        begun.map_err(|error| self.not_begun(dataset, plan.as_deref(), error))
    }

    /// Why nothing was begun, and what may be done about it.
    fn not_begun(&self, dataset: &Path, plan: Option<&str>, error: kiste::Error) -> Failure {
        let left = || convert::unfinished_plan(dataset).ok().flatten();
        match error.kind() {
            ErrorKind::AlreadyExists => {
                Failure::from(error).hint("--force replaces it, --append adds to it")
            }
            ErrorKind::Invalid if self.resume => {
                let here = plan.unwrap_or_default();
                let difference = left().and_then(|left| plan::brief_difference(&left, here));
                let failure = match difference {
                    Some(difference) => Failure::trouble(format!("{error}: {difference}")),
                    None => error.into(),
                };
                failure.hint("--force without --resume starts anew")
            }
            ErrorKind::Interrupted if plan.is_some() && left().as_deref() == plan => {
                let repair = format!("kiste repair {}", quoted(dataset));
                Failure::from(error).hint(format!(
                    "the same command with --resume goes on with it, or try: {repair}"
                ))
            }
            ErrorKind::NotFound if self.append => {
                Failure::from(error).hint("without --append a new dataset is made")
            }
            _ => error.into(),
        }
    }

    /// The same source, with the fields and arrays that were asked for.
    pub(super) fn shaped(&self, source: Box<dyn Source>) -> (Box<dyn Source>, Unseen) {
        let reshape = Reshape::new(source, &self.samples);
        let unseen = reshape.unseen();
        let Some(mut policy) = self.arrays.clone() else { return (Box::new(reshape), unseen) };
        if let Some(bytes) = self.arrays_min {
            policy = policy.min_bytes(bytes);
        }
        if let Some(names) = &self.arrays_fields {
            policy = policy.fields(names);
        }
        (Box::new(Recode::new(Box::new(reshape), policy)), unseen)
    }

    pub(super) fn duplicates(&self) -> Duplicates {
        match self.skip_duplicates {
            true => Duplicates::Skip,
            false => Duplicates::Refuse,
        }
    }
}

/// Whether there is a dataset that opens, whose first and last samples are such.
pub(super) fn is_dataset(path: &Path) -> bool {
    let ends = |reader: DatasetReader| {
        let last = reader.len().checked_sub(1);
        last.is_none_or(|last| reader.key(0).is_ok() && reader.key(last).is_ok())
    };
    DatasetReader::open(path).is_ok_and(ends)
}

/// Bytes of the units of a range before each unit of the input, and last all of them; none where
/// that is not known.
pub(super) fn starts(input: &dyn Input, range: std::ops::Range<usize>) -> Vec<u64> {
    let (mut starts, mut sum) = (vec![0], 0u64);
    for unit in 0..input.units() {
        if range.contains(&unit) {
            let Some(bytes) = input.bytes(unit) else { return Vec::new() };
            sum = sum.saturating_add(bytes);
        }
        starts.push(sum);
    }
    starts
}

impl Complete {
    /// What an earlier run has made.
    fn converted(self, dataset: &Path, skipped_files: u64, start: Instant) -> Outcome<Converted> {
        let quarantine = Quarantine::path_of(dataset);
        let quarantine = Quarantine::settle(quarantine, Some(self.tally.quarantined()))?;
        Ok(Converted {
            samples: self.samples,
            bytes: self.bytes,
            added: self.samples,
            added_bytes: self.bytes,
            skipped_duplicates: self.tally.skipped_duplicates,
            bad: self.tally.bad,
            quarantine,
            skipped_files,
            labels: named_labels(dataset),
            arrays: self.tally.arrays.clone(),
            seconds: start.elapsed().as_secs_f64(),
            file: dataset.to_path_buf(),
            tally: self.tally,
        })
    }
}

/// The names of the labels of a dataset that has been published.
pub(super) fn named_labels(dataset: &Path) -> Option<PathBuf> {
    Some(labels_path(dataset)).filter(|path| path.exists())
}

/// How many arrays were recoded, what that did to their size, and why others were left.
fn tell_arrays(tally: &ArrayTally, path: &Path, output: &Output) {
    let path = path.display();
    let arrays = units::counted(tally.recoded, "array");
    let (before, after) = (units::bytes(tally.bytes_before), units::bytes(tally.bytes_after));
    let (ratio, verb) = match tally.ratio() {
        ratio if ratio < 1.0 => (1.0 / ratio, "larger"),
        ratio => (ratio, "smaller"),
    };
    match tally.recoded {
        0 => output.note(format_args!("{path}: no arrays recoded")),
        _ => output.note(format_args!(
            "{path}: {arrays} recoded, {before} before, {after} now: {ratio:.2} times {verb}"
        )),
    }
    for (why, count) in &tally.left {
        let arrays = units::counted(*count, "array");
        output.note(format_args!("{path}: {arrays} left as before: {why}"));
    }
}

impl Converted {
    /// What is there already, nothing of which is new.
    fn found(dataset: &Path, skipped_files: u64, start: Instant) -> Outcome<Converted> {
        let reader = DatasetReader::open(dataset)?;
        Ok(Converted {
            samples: reader.len() as u64,
            bytes: reader.data_len(),
            added: 0,
            added_bytes: 0,
            skipped_duplicates: 0,
            bad: 0,
            quarantine: None,
            skipped_files,
            labels: named_labels(dataset),
            arrays: None,
            seconds: start.elapsed().as_secs_f64(),
            file: dataset.to_path_buf(),
            tally: Tally::default(),
        })
    }

    /// Says what was made, and prints it as JSON if so asked.
    fn tell(&self, json: bool, output: &Output) -> Outcome<Exit> {
        self.tell_size(output);
        self.tell_rest(output);
        if json {
            output.json(self)?;
        }
        Ok(if self.bad > 0 { Exit::No } else { Exit::Yes })
    }

    /// Says how large it is.
    pub(super) fn tell_size(&self, output: &Output) {
        let time = Duration::from_secs_f64(self.seconds);
        let (samples, bytes) =
            (units::counted(self.added, "sample"), units::bytes(self.added_bytes));
        let rate = units::byte_rate(self.added_bytes, time);
        let samples_rate = units::sample_rate(self.added, time);
        let duration = units::duration(time);
        let total = match self.added == self.samples {
            true => String::new(),
            false => format!(", {} now", units::count(self.samples)),
        };
        output.note(format_args!(
            "{}: {samples}{total}, {bytes} in {duration} ({samples_rate}, {rate})",
            self.file.display()
        ));
    }

    /// Says what became of arrays, and what was left out.
    pub(super) fn tell_rest(&self, output: &Output) {
        let path = self.file.display();
        if let Some(tally) = &self.arrays {
            tell_arrays(tally, &self.file, output);
        }
        if self.skipped_duplicates > 0 {
            let samples = units::counted(self.skipped_duplicates, "sample");
            output.note(format_args!("{path}: skipped {samples} whose key was there before"));
        }
        self.tally.tell(self.quarantine.as_deref(), output);
        if self.skipped_files > 0 {
            let files = units::counted(self.skipped_files, "file");
            output.warn(format_args!(
                "skipped {files}: no images by name, beside the folders of labels, or not in the metadata"
            ));
        }
    }
}
