//! A dataset of many files as the output of a conversion: shards in their places, the manifest last.
//!
//! Each part of a conversion writes its shards next to the manifest that will list them; a run from
//! start to end is one part. `NAME.shards.json.parts/part-I-of-N.shards` says which shards are
//! complete, which one is being written, and where the next one begins: a later run continues there,
//! and [`unfinished_shards`] finds by it what a run that died has left. To commit is to compare the
//! shards with what was noted, to look for keys that two of them have, and to write the manifest, if
//! what is there is what is expected: no sample is read or copied.
//!
//! All of this is the same behind a URL: [`Home`] and [`Journal`] know what differs.

use std::collections::{BTreeSet, VecDeque};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use serde::{Deserialize, Serialize};

use super::bad::{BadInput, Quarantine, Tally};
use super::conversion::Conversion;
use super::format::Format;
use super::job::{Done, Fate, Made, at_once, no_units};
use super::monitor::{Monitor, Notice, Phase, Total, counted, kept};
use super::open::{Opened, Samples};
use super::options::Duplicates;
use super::passing::{Passing, starts};
use super::plan::Plan;
use super::report::{Report, WrittenOutput};
use super::reshape::check_unseen;
use super::scattered::{is_scattered_to, remove_scattered};
use super::shard_home::{Begun, Home, of_write};
use super::twins::{Earlier, Origins};
use super::{InOrder, Input, Journal, Part, Remarks, Source};
use crate::array::ArrayTally;
use crate::dataset::names::ReadManifest;
use crate::dataset::reader::shards::Shards;
use crate::dataset::{DatasetReader, Writer};
use crate::error::{Error, ErrorKind, Remedy, Result};
use crate::format::dataset::shards::{
    MAX_BYTES, MAX_KEY, MAX_SHARDS, Manifest, SUFFIX, ShardEntry, is_manifest,
};
use crate::format::hex;
use crate::note::required;
use crate::storage::{self, Expected, LocalStorage, Lock};

/// Bytes of a shard, unless the conversion says otherwise.
const SHARD_BYTES: u64 = 2 << 30;

/// How far a part is.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Progress {
    /// The number of the first shard.
    first: u64,
    shards: Vec<Made>,
    /// The shard that is being written.
    #[serde(deserialize_with = "required")]
    begun: Option<Begun>,
    /// Whether all shards are there.
    done: bool,
    /// Where the next shard begins: this unit, and the items of it before that.
    #[serde(deserialize_with = "required")]
    unit: Option<usize>,
    item: u64,
    #[serde(deserialize_with = "required")]
    tally: Option<Tally>,
}

/// Where a shard ends.
enum Cut {
    /// After the sample with which it has this many bytes.
    Bytes(u64),
    /// Before the first of these units that was not reached yet: one shard for each.
    Units(VecDeque<usize>),
    /// After as many samples as the first of these says: one shard for each.
    Samples(VecDeque<u64>),
    /// With the source.
    Never,
}

/// How many samples each of this many shards has, the first ones no fewer than the others. The last has
/// whatever comes.
fn shares(samples: u64, shards: usize) -> impl Iterator<Item = u64> {
    let (whole, more) = (samples / shards.max(1) as u64, samples % shards.max(1) as u64);
    (1..=shards).map(move |shard| match shard {
        last if last == shards => u64::MAX,
        shard => whole + u64::from(shard as u64 <= more),
    })
}

/// A source that ends with each shard, and continues with the next.
struct Cutter {
    source: Box<dyn Source>,
    cut: Cut,
    /// What is left of the last batch of the source, and how many items of it were handed out.
    held: VecDeque<Result<Vec<u8>>>,
    passed: usize,
    /// The start of the batch that was handed out last, in that of the source.
    start: usize,
    unit: Option<usize>,
    /// Items of this unit that were handed out.
    item: u64,
    /// Items that an earlier run has written.
    skip: u64,
    bytes: u64,
    samples: u64,
    is_full: bool,
}

impl Cutter {
    fn new(source: Box<dyn Source>, cut: Cut, unit: Option<usize>, skip: u64) -> Cutter {
        let (held, passed, start) = (VecDeque::new(), 0, 0);
        let (item, bytes, samples, is_full) = (0, 0, 0, false);
        Cutter { source, cut, held, passed, start, unit, item, skip, bytes, samples, is_full }
    }

    /// Has the next batch of the source, if there is one.
    fn fill(&mut self) -> Result<bool> {
        while self.held.is_empty() {
            let batch = self.source.next_batch()?;
            if batch.is_empty() {
                return Ok(false);
            }
            let unit = self.source.unit();
            if unit != self.unit {
                (self.unit, self.item, self.skip) = (unit, 0, 0);
            }
            (self.held, self.passed) = (batch.into(), 0);
            while self.skip > 0 && self.held.pop_front().is_some() {
                self.skip -= 1;
                self.item += 1;
                self.passed += 1;
            }
        }
        Ok(true)
    }

    /// Begins the next shard, if there is one.
    fn next_shard(&mut self) -> Result<bool> {
        (self.bytes, self.samples, self.is_full) = (0, 0, false);
        match &mut self.cut {
            Cut::Never => Ok(false),
            Cut::Units(ends) => Ok(ends.pop_front().is_some() && !ends.is_empty()),
            Cut::Samples(counts) => Ok(counts.pop_front().is_some() && !counts.is_empty()),
            Cut::Bytes(_) => self.fill(),
        }
    }
}

impl Source for Cutter {
    fn next_batch(&mut self) -> Result<Vec<Result<Vec<u8>>>> {
        if self.is_full || !self.fill()? {
            return Ok(Vec::new());
        }
        self.start = self.passed;
        let (most, most_samples) = match &self.cut {
            Cut::Bytes(bytes) => (*bytes, u64::MAX),
            Cut::Units(ends) => match (ends.front(), self.unit) {
                (Some(end), Some(unit)) if unit >= *end => return Ok(Vec::new()),
                _ => (u64::MAX, u64::MAX),
            },
            Cut::Samples(counts) => match counts.front() {
                Some(0) => return Ok(Vec::new()),
                count => (u64::MAX, count.copied().unwrap_or(u64::MAX)),
            },
            Cut::Never => (u64::MAX, u64::MAX),
        };
        let mut batch = Vec::with_capacity(self.held.len());
        while let Some(item) = self.held.pop_front() {
            self.bytes += item.as_ref().map_or(0, |packed| packed.len() as u64);
            self.samples += u64::from(item.is_ok());
            self.item += 1;
            self.passed += 1;
            batch.push(item);
            if self.bytes >= most || self.samples >= most_samples {
                self.is_full = true;
                break;
            }
        }
        Ok(batch)
    }

    fn locate(&self, item: usize, error: Error) -> Error {
        self.source.locate(self.start + item, error)
    }

    fn unit(&self) -> Option<usize> {
        self.unit
    }

    fn arrays(&self) -> Option<&ArrayTally> {
        self.source.arrays()
    }

    fn remarks(&self) -> [&Remarks; 2] {
        self.source.remarks()
    }

    fn shard(&self) -> Option<&str> {
        self.source.shard()
    }

    fn len_hint(&self) -> Option<u64> {
        self.source.len_hint()
    }

    fn label_names(&self) -> Option<&[String]> {
        self.source.label_names()
    }
}

impl Conversion {
    /// Whether the output is a dataset of many files.
    pub(super) fn is_sharded(&self) -> bool {
        let named = self.output.to_str().is_some_and(is_manifest);
        named && self.output_format() == Format::Dataset
    }

    /// Fails for what a dataset of many files cannot be combined with.
    pub(super) fn check_shards(&self) -> Result<()> {
        let options = &self.options;
        let invalid = |option: &'static str, message: &str| {
            Err(Error::new(ErrorKind::Invalid, message).with_option(option))
        };
        let count = match (options.shards, options.shard_size) {
            (Some(_), Some(_)) => return invalid("shards", "cannot be combined with shard_size"),
            (Some(0), _) => return invalid("shards", "expected at least 1"),
            (_, Some(0)) => return invalid("shard_size", "expected at least 1 byte"),
            (Some(_), _) => Some("shards"),
            (_, Some(_)) => Some("shard_size"),
            _ => None,
        };
        if !self.is_sharded() {
            return match count {
                Some(option) => invalid(
                    option,
                    "is for a dataset of many files: name a manifest as output, NAME.shards.json",
                ),
                None => Ok(()),
            };
        }
        let many = "cannot be combined with a dataset of many files";
        if options.split.is_split() {
            return invalid("split", many);
        }
        if options.overwrite {
            let error = Error::new(ErrorKind::Invalid, many).with_option("overwrite");
            return Err(error.advise("write to another name, or remove the dataset first"));
        }
        if options.bad == BadInput::Quarantine {
            return invalid("bad", many);
        }
        if options.shards.is_some_and(|count| count > MAX_SHARDS) {
            return invalid("shards", &format!("expected at most {MAX_SHARDS}"));
        }
        // A name that no manifest can list is known before hours of work.
        let name = self.shard_name(Part::whole(), 0)?;
        let named = Manifest::new(vec![ShardEntry::new(name, 0, 0)]);
        named.map_err(|error| Error::from(error).at(&self.output))?;
        // Keys of two shards meet only when all are there, and a shard that is complete stays.
        if options.duplicates == Duplicates::Skip {
            return invalid("on_duplicates", many);
        }
        Ok(())
    }

    /// Runs a conversion to a dataset of many files from start to end.
    pub(super) fn run_sharded(&self, opened: Opened, monitor: &mut dyn Monitor) -> Result<Report> {
        if self.how.resume && matches!(opened.samples, Samples::Stream(_)) {
            return Err(no_units().with_remedy(Remedy::ResumeFiles));
        }
        let (home, there) = (self.home()?, Journal::open(&self.output)?);
        let exists = || Ok::<bool, Error>(home.storage.stat(&home.manifest)?.is_some());
        if self.how.resume && !self.options.append && there.is_none() && exists()? {
            monitor.notice(Notice::Complete(self.output.clone()));
            let there = std::slice::from_ref(&self.output);
            return self.report_present(there, opened.skipped_files);
        }
        let was_begun = there.is_some();
        if let (false, Some(there)) = (self.how.resume, there) {
            if !there.is_published()? {
                return Err(self.cut_short(&there));
            }
        }
        let plan = self.plan_of(&opened, Some(1))?;
        let parts = self.parts(&plan)?;
        let is_published = parts.is_published()?;
        // Of two that begin at the same time, where nothing is locked.
        if parts.are_objects() && !parts.is_new() && !self.how.resume && !is_published {
            return Err(self.cut_short(&parts));
        }
        let made = match is_published {
            true => Ok(()),
            false => self.write_shards(&parts, Part::whole(), opened, monitor).map(drop),
        };
        let committed =
            made.and_then(|()| super::commit::commit_with(&self.output, self.how.durable, monitor));
        committed.map(|report| Report { resumed: was_begun, ..report }).inspect_err(|error| {
            let keeps = self.how.resume
                || (self.how.keep_cancelled && error.kind() == ErrorKind::Cancelled);
            // A manifest whose fate is not known may list the shards, and another run may have taken them over.
            let unknown = matches!(error.remedy(), Some(Remedy::Resume(_)));
            let is_ours = parts.check_held(Part::whole()).is_ok();
            if !keeps && !unknown && is_ours && error.kind() != ErrorKind::Locked {
                // The first error is the one to report.
                let _ = remove_unfinished_shards(&self.output);
            }
        })
    }

    /// The error where another conversion to this dataset is unfinished.
    fn cut_short(&self, there: &Journal) -> Error {
        let message = match there.are_objects() {
            // An error if it is still at work.
            false => match unfinished_shards(&self.output) {
                Err(error) => return error,
                Ok(_) => "a conversion to this dataset was cut short",
            },
            // A dead process cannot be told from one that is slow.
            true => "a conversion to this dataset is at work, or was cut short",
        };
        let error = Error::new(ErrorKind::Interrupted, message).at(&self.output);
        match there.are_objects() && self.options.append {
            true => error.advise(
                "append once the other conversion is done; if it was given up, \"repair\" removes what it \
                 has left",
            ),
            false => error.with_remedy(self.continued_by()),
        }
    }

    /// Where the manifest and the shards are.
    fn home(&self) -> Result<Home> {
        Home::of(&self.output, self.storage())
    }

    /// Fails if the manifest is there.
    pub(super) fn check_no_manifest(&self) -> Result<()> {
        let home = self.home()?;
        home.check_free(&home.manifest)
    }

    /// Writes the shards of a part.
    pub(super) fn write_shards(
        &self,
        parts: &Journal,
        part: Part,
        opened: Opened,
        monitor: &mut dyn Monitor,
    ) -> Result<Report> {
        let start = Instant::now();
        let skipped_files = opened.skipped_files;
        let (_lock, finished) = self.take_part(parts, part, skipped_files, monitor)?;
        if let Some(report) = finished {
            return Ok(report);
        }
        let home = self.home()?;
        let mut progress = match parts.progress::<Progress>(part)? {
            Some(progress) => progress,
            None => Progress { first: self.first_number(&home)?, ..Progress::default() },
        };
        let resumed = !progress.shards.is_empty();
        let labels = opened.samples.label_names().map(<[String]>::to_vec);
        let keys = self.keys_of(opened.format);
        let (source, cut, units, before) = self.divided(opened.samples, part, &progress)?;
        let (source, unseen) = self.shaped(source)?;
        let mut source = Cutter::new(source, cut, progress.unit, progress.item);
        let phase = if part.of() == 1 { Phase::Converting } else { Phase::Part(part) };
        let len = source.len_hint().filter(|_| progress.shards.is_empty());
        monitor.begin(phase, Total { samples: len, input_bytes: before.last().copied() });
        let written = |made: &[Made]| {
            let sum = |of: fn(&Made) -> u64| made.iter().map(of).fold(0, u64::saturating_add);
            (sum(|made| made.samples), sum(|made| made.bytes))
        };
        let mut passing = Passing::new(monitor, self.options.bad, self.options.duplicates)
            .after(progress.tally.clone())
            .unseen(unseen)
            .origins(Origins::new(keys, 0))
            .starts(&before);
        (passing.limit, passing.written) = (self.limit_or_max(), written(&progress.shards));
        if self.options.bad == BadInput::Quarantine {
            let bytes = progress.tally.as_ref().map_or(0, |tally| tally.quarantined);
            passing.quarantine =
                Some(Quarantine::begin(parts.file(part, "quarantine.jsonl"), bytes)?);
        }
        while !progress.done {
            let number = progress.first + progress.shards.len() as u64;
            if number >= MAX_SHARDS as u64 {
                let message = format!("expected at most {MAX_SHARDS} shards: make them larger");
                return Err(Error::new(ErrorKind::Limit, message).at(&self.output));
            }
            let name = self.shard_name(part, number)?;
            let path = home.path(&name);
            // Another run of the part may have taken it: that is why, whatever it looks like.
            let stopped = |error: Error| match parts.check_held(part) {
                Err(lost) if lost.kind() == ErrorKind::Locked => lost,
                _ => error,
            };
            let mut writer =
                self.begin_shard(&home, parts, part, &mut progress, &name).map_err(stopped)?;
            passing.begin_output();
            let filled = passing.pass(&mut source, &mut writer).and_then(|()| {
                writer.set_labels(labels.as_deref())?;
                writer.finish()
            });
            let stats = filled
                .map_err(|error| self.stopped_shards(unskipped(error), part, progress.shards.len()))
                .map_err(stopped)?;
            let (samples, bytes) = (stats.samples, stats.bytes);
            let (md5, keys) = (stats.md5.map(|md5| hex(&md5)), range_of_keys(&home.open(&path)?)?);
            let write = progress.begun.take().and_then(|begun| begun.writes.last().copied());
            let id = match write {
                Some(write) => of_write(write),
                None => home.id_of(&path)?.unwrap_or_default(),
            };
            progress.shards.push(Made { name, samples, bytes, md5, keys, id });
            // Looks for more only now: what comes next belongs to the next shard.
            let goes_on = passing.written.0 < passing.limit && source.next_shard()?;
            (progress.unit, progress.item) = (source.unit(), source.item);
            if let Some(quarantine) = &mut passing.quarantine {
                quarantine.sync(passing.tally.quarantined)?;
            }
            progress.tally = Some(passing.whole_tally(&source));
            progress.done = !goes_on;
            if let Err(error) = parts.note(part, &progress) {
                if let (Some(write), ErrorKind::Locked) = (write, error.kind()) {
                    // No note knows it any more. The first error is the one to report.
                    let _ = home.remove(&path, &[write]);
                }
                return Err(error);
            }
        }
        if part.of() == 1 {
            check_unseen(&passing.tally.unseen)?;
        }
        passing.finish(units, &mut Nothing)?;
        let tally = passing.tally;
        let (samples, bytes) = written(&progress.shards);
        let shards = &progress.shards;
        let shards_made = Some(shards.clone());
        let done = Done { samples, bytes, tally, crc32: None, shards: shards_made };
        parts.finish(part, &done)?;
        let tally = done.tally;
        let files = shards.iter().map(|made| home.path(&made.name)).collect();
        let output = WrittenOutput {
            files,
            labels: None,
            ..WrittenOutput::dataset(self.output.clone(), samples, bytes)
        };
        let (outputs, duration) = (vec![output], start.elapsed());
        Ok(Report { outputs, skipped_files, duration, resumed, ..Report::of(tally) })
    }

    /// Begins a shard, in the place of what an earlier run of this part has begun.
    fn begin_shard(
        &self,
        home: &Home,
        parts: &Journal,
        part: Part,
        progress: &mut Progress,
        name: &str,
    ) -> Result<Writer> {
        let path = home.path(name);
        let options = self.writer_options();
        let begun = progress.begun.take();
        if home.is_object_store() {
            let continues = begun.map_or_else(Vec::new, |begun| begun.writes);
            let write = storage::random();
            let writes = [&continues[..], &[write]].concat();
            progress.begun = Some(Begun { writes, ..Begun::new(name.to_owned()) });
            parts.note(part, progress)?;
            return options
                .storage(home.storage.clone())
                .write_number(write, continues)
                .create(path);
        }
        if let Some(begun) = &begun {
            home.remove_begun(begun)?;
        }
        home.check_free(&path)?;
        // What is ours is removed: another conversion has left this, and may continue it.
        if begun.is_some() {
            parts.note(part, progress)?;
        }
        home.check_left(&path)?;
        progress.begun = Some(Begun::new(name.to_owned()));
        parts.note(part, progress)?;
        let writer = options.create(&path)?;
        let id = home.staged_id(&path)?;
        progress.begun = Some(Begun { id, ..Begun::new(name.to_owned()) });
        parts.note(part, progress)?;
        Ok(writer)
    }

    /// What helps after a run that was cut short. An append cannot tell its own shards from those that
    /// were there, once it is another append.
    fn continued_by(&self) -> Remedy {
        match self.options.append {
            true => Remedy::Advice("\"repair\" removes what it has left"),
            false => Remedy::Resume(self.output.clone()),
        }
    }

    /// Says of a conversion that was stopped which shards are kept.
    fn stopped_shards(&self, error: Error, part: Part, shards: usize) -> Error {
        let keeps = part.of() > 1 || self.how.resume || self.how.keep_cancelled;
        if error.kind() != ErrorKind::Cancelled || !keeps {
            return error;
        }
        let shards = counted(shards as u64, "shard");
        let error = kept(error, &self.output, format_args!("kept {shards}"));
        match part.of() {
            1 => error.with_remedy(self.continued_by()),
            _ => error.advise("the same command continues"),
        }
    }

    /// The samples of a part from where its next shard begins, where shards end, the end of its units
    /// and the bytes before each.
    #[expect(clippy::type_complexity, reason = "used once")]
    fn divided(
        &self,
        samples: Samples,
        part: Part,
        progress: &Progress,
    ) -> Result<(Box<dyn Source>, Cut, Option<usize>, Vec<u64>)> {
        let cut = |input: Option<&dyn Input>, run: Range<usize>| -> Result<Cut> {
            match (self.options.shards, self.options.shard_size, input) {
                (_, Some(bytes), _) => Ok(Cut::Bytes(bytes)),
                (None, None, _) if part.of() > 1 => Ok(Cut::Never),
                (None, None, _) => Ok(Cut::Bytes(SHARD_BYTES)),
                // Each part is a shard.
                (Some(_), ..) if part.of() > 1 => Ok(Cut::Never),
                (Some(count), _, Some(input)) => {
                    let done = progress.shards.len();
                    if let Some(len) = input.len_hint() {
                        let counts = shares(len.min(self.limit_or_max()), count);
                        return Ok(Cut::Samples(counts.skip(done).collect()));
                    }
                    let ends = Part::all(count).map(|part| part.units(input).end);
                    // A part without units ends where the one before it does.
                    let ends = ends.scan(run.start, |before, end| {
                        *before = end.max(*before);
                        Some(*before)
                    });
                    let mut ends: VecDeque<usize> = ends.skip(done).collect();
                    if let Some(last) = ends.back_mut() {
                        *last = run.end;
                    }
                    Ok(Cut::Units(ends))
                }
                (Some(_), _, None) => Err(no_units().with_option("shards")),
            }
        };
        match samples {
            Samples::Stream(source) => Ok((source, cut(None, 0..0)?, None, Vec::new())),
            Samples::Units(input) => {
                let run = part.units(&*input);
                let (cut, before) =
                    (cut(Some(&*input), run.clone())?, starts(&*input, run.clone()));
                let rest = progress.unit.unwrap_or(run.start)..run.end;
                let source = Box::new(InOrder::of_units(input, rest));
                Ok((source, cut, Some(run.end), before))
            }
        }
    }

    /// The name of a shard: `train-00007.msgpack` for `train.shards.json`, and in a part of several
    /// that may have several shards `train-00003-00007.msgpack`.
    fn shard_name(&self, part: Part, number: u64) -> Result<String> {
        let name = self.output.file_name().and_then(|name| name.to_str());
        let Some(stem) = name.and_then(|name| name.strip_suffix(SUFFIX)) else {
            let message = "expected a name in UTF-8";
            return Err(Error::new(ErrorKind::Invalid, message).at(&self.output));
        };
        let of_part = part.number() - 1;
        Ok(match (part.of(), self.options.shard_size) {
            (1, _) => format!("{stem}-{number:05}.msgpack"),
            (_, None) => format!("{stem}-{of_part:05}.msgpack"),
            (_, Some(_)) => format!("{stem}-{of_part:05}-{number:05}.msgpack"),
        })
    }

    /// The number of the first shard: 0, or that after the shards which are there before an append.
    fn first_number(&self, home: &Home) -> Result<u64> {
        if !self.options.append {
            return Ok(0);
        }
        let there = ReadManifest::open(&*home.storage, &home.manifest)?;
        let number = |entry: &ShardEntry| {
            let stem = entry.name.strip_suffix(".msgpack")?;
            stem.rsplit_once('-')?.1.parse::<u64>().ok()
        };
        let last = there.manifest.shards().iter().filter_map(number).max();
        Ok(last.map_or(0, |last| last.saturating_add(1)))
    }

    /// Writes the manifest of all shards that the parts have made. Says whether it was there before.
    pub(super) fn publish_shards(
        &self,
        parts: &Journal,
        made: &[Made],
    ) -> Result<(WrittenOutput, bool)> {
        let ours: Vec<ShardEntry> = made.iter().map(Made::entry).collect::<Result<_>>()?;
        let home = self.home()?;
        let (storage, manifest_path) = (&home.storage, &home.manifest);
        let there = match storage.stat(manifest_path)? {
            Some(_) => Some(ReadManifest::open(&**storage, manifest_path)?),
            None => None,
        };
        let output = |manifest: &Manifest, old: usize| {
            let path = |entry: &ShardEntry| home.path(&entry.name);
            let new = &manifest.shards()[old..];
            WrittenOutput {
                files: manifest.shards().iter().map(path).collect(),
                added: new.iter().map(|entry| entry.samples).sum(),
                added_bytes: new.iter().map(|entry| entry.bytes).sum(),
                ..WrittenOutput::dataset(self.output.clone(), manifest.samples(), manifest.bytes())
            }
        };
        if let Some(there) = there.as_ref().filter(|there| there.manifest.shards().ends_with(&ours))
        {
            // An earlier run has published it, and only had left to remove the parts.
            let old = there.manifest.shards().len() - ours.len();
            if !ours.is_empty() || !self.options.append {
                return Ok((output(&there.manifest, old), true));
            }
        }
        let (mut entries, expected): (Vec<ShardEntry>, Expected) =
            match (&there, self.options.append) {
                (Some(there), true) => {
                    self.check_known(&there.manifest)?;
                    (there.manifest.shards().to_vec(), Expected::Version(there.id()))
                }
                (None, true) => {
                    let message = "expected a dataset to append to, found none";
                    return Err(Error::new(ErrorKind::NotFound, message)
                        .at(&self.output)
                        .with_remedy(Remedy::Create));
                }
                (_, false) => (Vec::new(), Expected::Absent),
            };
        let old = entries.len();
        entries.extend(ours);
        let manifest =
            Manifest::new(entries).map_err(|error| Error::from(error).at(&self.output))?;
        let options = DatasetReader::options();
        let shards =
            Shards::of_entries(storage.clone(), manifest_path, options, manifest.shards())?;
        shards.check_all()?;
        if home.is_object_store() {
            at_once(made, |made| check_write(&home, made))?;
        }
        self.check_unique(parts, &shards, old)?;
        drop(shards);
        let mut text = manifest.render();
        if text.len() as u64 > MAX_BYTES {
            // The ranges of keys only make look-ups faster.
            let without = |entry: &ShardEntry| ShardEntry { keys: None, ..entry.clone() };
            let entries = manifest.shards().iter().map(without).collect();
            text = Manifest::new(entries).map_err(|e| Error::from(e).at(&self.output))?.render();
        }
        if text.len() as u64 > MAX_BYTES {
            let message = format!("expected a manifest of at most {MAX_BYTES} bytes");
            return Err(Error::new(ErrorKind::Limit, message).at(&self.output));
        }
        let before =
            there.as_ref().map(|there| there.file.read(0..there.file.len())).transpose()?;
        let put = storage.put_if(manifest_path, text.as_bytes(), expected);
        let id = put.map_err(|error| match error.kind() {
            ErrorKind::AlreadyExists => {
                error.advise("another conversion has published it: write to another name")
            }
            ErrorKind::Replaced => error.advise("append to it as it is now"),
            _ if parts.are_objects() => {
                let remedy = Remedy::Resume(self.output.clone());
                error.note("whether the manifest is there is not known").with_remedy(remedy)
            }
            _ => error,
        })?;
        let outcome = match parts.are_objects() {
            true => shards_after(parts, &home, made)?,
            false => Afterwards::There,
        };
        if outcome != Afterwards::There {
            // First the manifest: it must not list shards that are gone.
            match before {
                None => storage.remove(manifest_path)?,
                Some(text) => {
                    storage.put_if(manifest_path, &text, Expected::Version(id)).map(drop)?;
                }
            }
            if outcome == Afterwards::GivenUp {
                at_once(made, |made| home.remove(&home.path(&made.name), &[made.id.1]))?;
            }
            return Err(parts.given_up());
        }
        Ok((output(&manifest, old), false))
    }

    /// Fails if two shards have a key in common, and says why. The first ones were there before.
    fn check_unique(&self, parts: &Journal, shards: &Shards, old: usize) -> Result<()> {
        let Some((first, second, key)) = shards.find_duplicate()? else { return Ok(()) };
        let ((path, one), (other_path, other)) =
            (shards.sample_of(first)?, shards.sample_of(second)?);
        let keys = self.keys_of(Plan::from_json(parts.plan(), &self.output)?.format());
        let earlier = Earlier {
            index: first.1 as u64,
            place: format!("sample {} of {}", first.1, path.display()),
            is_before: first.0 < old,
            is_apart: true,
            is_here: first.0 >= old,
        };
        let error = keys.told(&key, &earlier, Some(&one), &other).error;
        Err(unskipped(error.at(other_path).with_index(second.1 as u64)))
    }

    fn check_known(&self, manifest: &Manifest) -> Result<()> {
        let Some(unknown) = manifest.unknown() else { return Ok(()) };
        let message = format!(
            "expected a manifest of this version of kiste to append to, found one with {unknown:?}, \
             which would be lost"
        );
        Err(Error::new(ErrorKind::Unsupported, message).at(&self.output))
    }
}

/// The shards of a manifest that was just put.
#[derive(PartialEq)]
enum Afterwards {
    There,
    /// A repair is removing them. It may have seen the manifest after all, and then it leaves them.
    GivenUp,
    Removed,
}

/// What happened to the shards of a manifest that was just put: a repair that began before has not seen it,
/// and removes them.
fn shards_after(parts: &Journal, home: &Home, made: &[Made]) -> Result<Afterwards> {
    match parts.fate()? {
        Fate::Open => Ok(Afterwards::There),
        Fate::GivenUp => Ok(Afterwards::GivenUp),
        Fate::Removed => match at_once(made, |made| check_write(home, made)) {
            Err(error) if error.kind() == ErrorKind::Replaced => Ok(Afterwards::Removed),
            checked => checked.map(|_| Afterwards::There),
        },
    }
}

/// Fails for a shard that is not of the write that noted it.
fn check_write(home: &Home, made: &Made) -> Result<()> {
    let path = home.path(&made.name);
    match home.id_of(&path)? {
        // A store that keeps no metadata has no number, and the entry is compared with the shard anyway.
        Some(id) if id == made.id || id == of_write(0) => Ok(()),
        _ => {
            let message = "expected the shard that a part has noted, found another one";
            Err(Error::new(ErrorKind::Replaced, message).at(path))
        }
    }
}

/// The least and the greatest key of a shard, unless one is long.
fn range_of_keys(reader: &DatasetReader) -> Result<Option<(String, String)>> {
    let mut range: Option<(String, String)> = None;
    for key in reader.keys() {
        let key = key?;
        match &mut range {
            None => range = Some((key.clone().into_owned(), key.into_owned())),
            Some((first, _)) if *key < **first => *first = key.into_owned(),
            Some((_, last)) if **last < *key => *last = key.into_owned(),
            Some(_) => {}
        }
    }
    Ok(range.filter(|(first, last)| first.len().max(last.len()) <= MAX_KEY))
}

/// Shards that are complete stay, so a sample that is read twice cannot be skipped.
fn unskipped(error: Error) -> Error {
    match error.remedy() {
        Some(Remedy::SkipDuplicates) => error.advise("leave out one of the sources that have it"),
        _ => error,
    }
}

/// For the end of a pass whose writers are finished.
struct Nothing;

impl super::SampleWriter for Nothing {
    fn write_packed(&mut self, _: &[u8]) -> Result<()> {
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<Vec<PathBuf>> {
        Ok(Vec::new())
    }
}

/// What a conversion to a dataset of many files has left that was cut short.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct UnfinishedShards {
    /// Shards that no manifest lists and that the conversion has written.
    pub shards: Vec<PathBuf>,
    /// Samples in those that are complete.
    pub samples: u64,
    /// Files that the conversion was about to write, but that are not what it has written: they stay.
    pub foreign: Vec<PathBuf>,
    /// Whether the first pass of a shuffle in parts has written something.
    pub is_shuffle: bool,
    /// The directory that it wrote to, if it is not on this machine: nothing in it was removed.
    pub elsewhere: Option<PathBuf>,
}

impl UnfinishedShards {
    /// Of a shuffle whose second pass has not begun.
    fn of_shuffle(manifest: &Path) -> Result<Option<UnfinishedShards>> {
        let is_shuffle = is_scattered_to(manifest)?;
        Ok(is_shuffle.then(|| UnfinishedShards { is_shuffle, ..UnfinishedShards::default() }))
    }
}

/// Finds what a conversion to this manifest has left that was cut short, if there is anything.
///
/// # Errors
///
/// [`Locked`](ErrorKind::Locked) if the conversion is still at work. In an object store that cannot be
/// known.
pub fn unfinished_shards(manifest: impl AsRef<Path>) -> Result<Option<UnfinishedShards>> {
    let manifest = manifest.as_ref();
    match Journal::open(manifest)? {
        Some(parts) => {
            let unfinished = Found::of(&parts, manifest, false)?.unfinished;
            Ok(Some(UnfinishedShards { is_shuffle: is_scattered_to(manifest)?, ..unfinished }))
        }
        None => UnfinishedShards::of_shuffle(manifest),
    }
}

/// Removes what a conversion to this manifest has left that was cut short: shards that are what it has
/// written, and its notes. Shards that the manifest lists stay, and so does what is not its own.
///
/// In an object store it removes what was being uploaded as well, and a conversion that is still at work
/// ends with an error.
///
/// # Errors
///
/// Those of [`unfinished_shards`].
pub fn remove_unfinished_shards(manifest: impl AsRef<Path>) -> Result<Option<UnfinishedShards>> {
    let manifest = manifest.as_ref();
    let Some(parts) = Journal::open(manifest)? else {
        let found = UnfinishedShards::of_shuffle(manifest)?;
        let elsewhere = remove_scattered(manifest)?;
        return Ok(found.map(|found| UnfinishedShards { elsewhere, ..found }));
    };
    parts.give_up()?;
    let found = Found::of(&parts, manifest, true)?;
    at_once(&found.ours, |(path, writes)| found.home.remove(path, writes))?;
    drop(found.locks);
    let elsewhere = remove_scattered(manifest)?;
    parts.remove()?;
    Ok(Some(UnfinishedShards { elsewhere, ..found.unfinished }))
}

/// What the notes of the parts say is theirs, and is.
struct Found {
    home: Home,
    unfinished: UnfinishedShards,
    /// What is to be removed, and in an object store the writes that made it.
    ours: Vec<(PathBuf, Vec<u64>)>,
    /// Which keep all parts from being written.
    locks: Vec<Lock>,
}

/// A shard that a part has noted.
enum Noted {
    /// With these samples, and made by these writes.
    Ours(PathBuf, u64, Vec<u64>),
    Foreign(PathBuf),
}

impl Found {
    /// In an object store the parts are taken from those who write them only if `takes`.
    fn of(parts: &Journal, manifest: &Path, takes: bool) -> Result<Found> {
        let home = Home::of(manifest, Arc::new(LocalStorage::mapped()))?;
        let mut locks: Vec<Lock> = parts.lock_all()?.into_iter().collect();
        let Home { storage, manifest, .. } = &home;
        let listed: BTreeSet<String> = match storage.lstat(manifest)? {
            Some(_) => {
                let read = ReadManifest::open(&**storage, manifest)?;
                read.manifest.shards().iter().map(|entry| entry.name.clone()).collect()
            }
            None => BTreeSet::new(),
        };
        let all = parts.all()?;
        let of_part = |part: &Part| {
            // No process writes it, and none has.
            if !parts.is_begun(*part)? {
                return Ok((None, Vec::new()));
            }
            let lock = if takes { parts.take(*part)? } else { parts.lock(*part)? };
            let noted = match parts.progress::<Progress>(*part)? {
                Some(progress) => noted(&home, &progress, &listed)?,
                None => Vec::new(),
            };
            Ok((lock, noted))
        };
        let (mut unfinished, mut ours) = (UnfinishedShards::default(), Vec::new());
        for (lock, noted) in at_once(&all, of_part)? {
            locks.extend(lock);
            for noted in noted {
                match noted {
                    Noted::Ours(path, samples, writes) => {
                        unfinished.samples += samples;
                        unfinished.shards.push(path.clone());
                        ours.push((path, writes));
                    }
                    Noted::Foreign(path) => unfinished.foreign.push(path),
                }
            }
        }
        Ok(Found { home, unfinished, ours, locks })
    }
}

/// What is there of the shards that a part has noted, but for those that the manifest lists.
fn noted(home: &Home, progress: &Progress, listed: &BTreeSet<String>) -> Result<Vec<Noted>> {
    let mut found = Vec::new();
    for made in progress.shards.iter().filter(|made| !listed.contains(&made.name)) {
        let path = home.path(&made.name);
        match home.is_made(&made.name, made.id, made.md5()?, (made.samples, made.bytes))? {
            Some(true) => found.push(Noted::Ours(path, made.samples, vec![made.id.1])),
            Some(false) => found.push(Noted::Foreign(path)),
            None => {}
        }
    }
    if let Some(begun) = progress.begun.as_ref().filter(|begun| !listed.contains(&begun.name)) {
        let path = home.path(&begun.name);
        if home.is_begun(begun)? {
            found.push(Noted::Ours(path, 0, begun.writes.clone()));
        } else if home.storage.lstat(&path)?.is_some() {
            found.push(Noted::Foreign(path));
        }
    }
    Ok(found)
}
