//! A part of a conversion as pieces: datasets that are written whole, one after the other, and noted.
//!
//! The pieces of a dataset of many files are its shards, next to the manifest that will list them. Those of
//! any other output are in the folder of the [`Journal`], until they are joined. The note of the part says
//! which pieces are complete, which one is being written, and where the next one begins: a later run continues
//! there. A run from start to end is one part.
//!
//! All of this is the same behind a URL: [`Home`] and [`Journal`] know what differs.

use std::collections::VecDeque;
use std::ops::Range;
use std::path::PathBuf;
use std::time::Instant;

use serde::{Deserialize, Serialize};

use super::bad_input::{BadInput, Tally};
use super::conversion::Conversion;
use super::earlier_keys::Distinct;
use super::job::{Done, Made, no_units};
use super::monitor::{Monitor, Notice, Phase, Total, counted, kept};
use super::open::{Opened, Samples};
use super::options::Duplicates;
use super::passing::{Passing, starts};
use super::piece_cutter::{Cut, Cutter, shares};
use super::piece_home::{Begun, Home, of_write};
use super::quarantine::Quarantine;
use super::report::{Report, WrittenOutput};
use super::reshape::check_unseen;
use super::same_keys::Origins;
use super::shard_limit::ShardLimit;
use super::{InOrder, Input, Journal, Part, Source};
use crate::dataset::names::ReadManifest;
use crate::dataset::{DatasetReader, Stats, Writer};
use crate::error::{Error, ErrorKind, Result};
use crate::format::dataset::shards::{MAX_KEY, MAX_SHARDS};
use crate::format::hex;
use crate::note::required;
use crate::storage::{self, FileId, Lock};

/// Bytes of a shard, unless the conversion says otherwise.
const SHARD_BYTES: u64 = 2 << 30;

/// How far a part is.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Progress {
    /// The number of the first piece.
    first: u64,
    /// The complete pieces.
    pub(super) shards: Vec<Made>,
    /// The shards that each of them replaces, when parts are joined.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) replaces: Vec<String>,
    /// The piece that is being written.
    #[serde(deserialize_with = "required")]
    pub(super) begun: Option<Begun>,
    /// Whether all pieces are there.
    done: bool,
    /// Where the next piece begins: this unit, and the items of it before that.
    #[serde(deserialize_with = "required")]
    unit: Option<usize>,
    item: u64,
    #[serde(deserialize_with = "required")]
    tally: Option<Tally>,
}

impl Progress {
    /// The number of the next piece.
    pub(super) fn next(&self) -> u64 {
        self.first + self.shards.len() as u64
    }

    /// Samples and bytes of the complete pieces.
    fn written(&self) -> (u64, u64) {
        let sum = |of: fn(&Made) -> u64| self.shards.iter().map(of).fold(0, u64::saturating_add);
        (sum(|made| made.samples), sum(|made| made.bytes))
    }
}

/// Where the samples of a part come from.
struct Divided {
    /// From where its next piece begins.
    source: Box<dyn Source>,
    /// Where pieces end.
    cut: Cut,
    /// Bytes of input before each unit.
    before: Vec<u64>,
}

impl Conversion {
    /// Takes a part for this run; if it was finished before, its report.
    fn take_part(
        &self,
        parts: &Journal,
        part: Part,
        skipped_files: u64,
        monitor: &mut dyn Monitor,
    ) -> Result<(Option<Lock>, Option<Report>)> {
        // Two runs that were given the same part by mistake would mix their samples.
        let lock = match parts.done(part)? {
            None => parts.take(part)?,
            Some(_) => None,
        };
        if parts.done(part)?.is_none() {
            parts.check_current(part)?;
            return Ok((lock, None));
        }
        monitor.notice(Notice::PartFinished { path: self.output.clone(), part });
        let report = Report { was_complete: true, skipped_files, ..Report::default() };
        Ok((lock, Some(report)))
    }

    /// Where the pieces of its parts are.
    pub(super) fn piece_home(&self, parts: &Journal) -> Result<Home> {
        match self.is_sharded() {
            true => Home::of(&self.output, self.storage()),
            false => Ok(Home::of_journal(parts, self.storage())),
        }
    }

    /// Writes the pieces of a part.
    pub(super) fn write_pieces(
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
        let home = self.piece_home(parts)?;
        let progress = self.progress(parts, part, &home)?;
        let resumed = !progress.shards.is_empty();
        let labels = opened.samples.label_names().filter(|_| !home.is_own).map(<[String]>::to_vec);
        let keys = self.keys_of(opened.format);
        let Divided { source, cut, before } = self.divided(opened.samples, part, &progress)?;
        let (distinct, there) = self.distinct(&home, &progress)?;
        let (source, unseen) = self.shaped(source)?;
        let source = Cutter::new(source, cut, progress.unit, progress.item);
        let phase = if part.of() == 1 { Phase::Converting } else { Phase::Part(part) };
        let len = source.len_hint().filter(|_| part.of() == 1 && progress.shards.is_empty());
        monitor.begin(phase, Total { samples: len, input_bytes: before.last().copied() });
        let mut passing = Passing::new(monitor, self.options.bad, self.options.duplicates)
            .after(progress.tally.clone())
            .unseen(unseen)
            .origins(Origins::behind(keys, there))
            .starts(&before);
        (passing.limit, passing.written) = (self.limit_or_max(), progress.written());
        if self.options.append && home.is_own && self.options.duplicates == Duplicates::Skip {
            // Some of them are in the dataset that is appended to, and count only when they are joined.
            passing.limit = u64::MAX;
        }
        let quarantine = parts.file(part, "quarantine.jsonl");
        let quarantined = progress.tally.as_ref().map_or(0, |tally| tally.quarantined);
        let mut settled = None;
        match self.options.bad {
            BadInput::Quarantine if progress.done && !parts.are_objects() => {
                settled = Quarantine::settle(quarantine, Some(quarantined))?;
            }
            BadInput::Quarantine if !progress.done => {
                let storage = parts.notes().storage();
                passing.quarantine = Some(Quarantine::begin_in(storage, quarantine, quarantined)?);
            }
            _ => {}
        }
        let mut run = PartRun {
            conversion: self,
            parts,
            part,
            home,
            progress,
            passing,
            source,
            distinct,
            labels,
        };
        while !run.progress.done {
            run.write_piece()?;
        }
        let report = run.finish(settled)?;
        Ok(Report { skipped_files, duration: start.elapsed(), resumed, ..report })
    }

    /// How far an earlier run has come with a part.
    pub(super) fn progress(&self, parts: &Journal, part: Part, home: &Home) -> Result<Progress> {
        match parts.progress(part)? {
            Some(progress) => Ok(progress),
            None => Ok(Progress { first: self.first_number(home)?, ..Progress::default() }),
        }
    }

    /// The keys of the pieces that are complete, if samples are left out that have one of them, and the samples in
    /// shards that were there before this conversion. So a limit counts no sample that is left out later.
    fn distinct(&self, home: &Home, progress: &Progress) -> Result<(Option<Distinct>, u64)> {
        if self.options.duplicates == Duplicates::Refuse {
            return Ok((None, 0));
        }
        let mut distinct = Distinct::new(home.clone());
        if self.options.append && !home.is_own {
            let there = ReadManifest::open(&*home.storage, &home.manifest)?.manifest;
            there.shards().iter().try_for_each(|entry| distinct.add(&entry.name))?;
        }
        let there = distinct.len();
        progress.shards.iter().try_for_each(|made| distinct.add(&made.name))?;
        Ok((Some(distinct), there))
    }

    /// Begins a piece, in the place of what an earlier run of this part has begun.
    pub(super) fn begin_piece(
        &self,
        home: &Home,
        parts: &Journal,
        part: Part,
        progress: &mut Progress,
        name: &str,
    ) -> Result<Writer> {
        let path = home.path(name);
        let options = match home.is_own {
            // Made when the pieces are joined. Lengths are too, but here they tell which samples have none.
            true => self.writer_options()?.digests(false).lookup(false).checksums(false),
            false => self.shard_options(home)?,
        };
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
        if home.is_own {
            // Anything there is from an earlier run of this part, which has ended.
            return options.overwrite(true).create(path);
        }
        if let Some(begun) = &begun {
            home.remove_begun(begun)?;
        }
        home.check_free(&path)?;
        // Our own files are removed: these are from another conversion, which may continue.
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

    /// Says of a conversion that was stopped which pieces are kept.
    fn stopped_pieces(&self, error: Error, part: Part, progress: &Progress) -> Error {
        let keeps = part.of() > 1 || self.how.resume || self.how.keep_cancelled;
        let (samples, _) = progress.written();
        let kept_what = match self.is_sharded() {
            true => counted(progress.shards.len() as u64, "shard"),
            false if samples == 0 => return error,
            false => counted(samples, "sample"),
        };
        if error.kind() != ErrorKind::Cancelled || !keeps {
            return error;
        }
        let error = kept(error, &self.output, format_args!("kept {kept_what}"));
        match part.of() {
            1 => error.with_remedy(self.continued_by()),
            _ => error.advise("the same command continues"),
        }
    }

    fn divided(&self, samples: Samples, part: Part, progress: &Progress) -> Result<Divided> {
        match samples {
            Samples::Stream(source) => {
                let cut = self.cut(None, part, 0..0, progress)?;
                Ok(Divided { source, cut, before: Vec::new() })
            }
            Samples::Units(input) => {
                let run = part.units(&*input);
                let cut = self.cut(Some(&*input), part, run.clone(), progress)?;
                let before = starts(&*input, run.clone());
                let first = progress.unit.unwrap_or(run.start);
                super::run::check_unit(first, run.clone(), &self.output)?;
                let source = Box::new(InOrder::of_units(input, first..run.end));
                Ok(Divided { source, cut, before })
            }
        }
    }

    /// Where the pieces of a part end, which are a run of the units.
    fn cut(
        &self,
        input: Option<&dyn Input>,
        part: Part,
        run: Range<usize>,
        progress: &Progress,
    ) -> Result<Cut> {
        if !self.is_sharded() {
            return Ok(Cut::Soon(self.how.piece_bytes));
        }
        match (self.options.shards, self.shard_limit(), input) {
            (_, Some(limit), _) => Ok(Cut::Limit(limit)),
            (None, None, _) if part.of() > 1 => Ok(Cut::Never),
            (None, None, _) => Ok(Cut::Limit(ShardLimit::of_bytes(SHARD_BYTES))),
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
    }

    /// The name of a piece.
    pub(super) fn piece_name(&self, part: Part, number: u64) -> Result<String> {
        if number >= MAX_SHARDS as u64 {
            let message = format!("expected at most {MAX_SHARDS} shards: make them larger");
            return Err(Error::new(ErrorKind::Limit, message).at(&self.output));
        }
        match self.is_sharded() {
            true => self.shard_name(part, number),
            false => Ok(format!("part-{}-of-{}.{number:05}.msgpack", part.number(), part.of())),
        }
    }
}

/// A run of a part: piece after piece, each noted once it is whole.
struct PartRun<'a> {
    conversion: &'a Conversion,
    parts: &'a Journal,
    part: Part,
    home: Home,
    progress: Progress,
    passing: Passing<'a>,
    source: Cutter,
    /// The keys of the shards before, where samples that have one of them are left out.
    distinct: Option<Distinct>,
    labels: Option<Vec<String>>,
}

impl PartRun<'_> {
    /// Writes the next piece, and notes it.
    fn write_piece(&mut self) -> Result<()> {
        let name = self.conversion.piece_name(self.part, self.progress.next())?;
        let filled = self.fill(&name);
        let stats = filled.map_err(|error| self.parts.cause(self.part, error))?;
        let begun = self.progress.begun.take();
        let mut made = whole_piece(&self.home, &name, begun, stats)?;
        made.crc32 = self.passing.crc.take().map(crc32fast::Hasher::finalize);
        if let Some(distinct) = &mut self.distinct {
            distinct.add(&name)?;
        }
        let id = made.id;
        self.note(made).map_err(|error| unnoted(&self.home, &name, id, error))
    }

    /// Writes the samples of a piece.
    fn fill(&mut self, name: &str) -> Result<Stats> {
        let (conversion, part) = (self.conversion, self.part);
        let mut writer =
            conversion.begin_piece(&self.home, self.parts, part, &mut self.progress, name)?;
        self.passing.crc = self.home.is_own.then(crc32fast::Hasher::new);
        let passed = self.pass(&mut writer);
        let filled = passed.and_then(|()| {
            writer.set_labels(self.labels.as_deref())?;
            writer.finish()
        });
        filled.map_err(|error| conversion.stopped_pieces(error, part, &self.progress))
    }

    fn pass(&mut self, writer: &mut Writer) -> Result<()> {
        if self.distinct.is_none() {
            self.passing.begin_output();
        }
        let before = self.passing.written.0;
        loop {
            match &mut self.distinct {
                Some(distinct) => self.passing.pass(&mut self.source, &mut distinct.before(writer)),
                None => self.passing.pass(&mut self.source, writer),
            }?;
            if !self.source.goes_on(self.passing.written.0 - before) {
                return Ok(());
            }
        }
    }

    /// Notes a piece that is whole, and where the next one begins, if there is one.
    fn note(&mut self, made: Made) -> Result<()> {
        self.progress.shards.push(made);
        // Looks for more only now: what comes next belongs to the next piece.
        let goes_on = self.passing.written.0 < self.passing.limit && self.source.next_piece()?;
        (self.progress.unit, self.progress.item) = (self.source.unit(), self.source.item);
        self.passing.sync_quarantine()?;
        self.progress.tally = Some(self.passing.whole_tally(&self.source));
        self.progress.done = !goes_on;
        self.parts.note(self.part, &self.progress)
    }

    /// Notes the end of the part, all of whose pieces are noted.
    fn finish(self, settled: Option<PathBuf>) -> Result<Report> {
        let PartRun { conversion, parts, part, home, progress, passing, .. } = self;
        if part.of() == 1 {
            check_unseen(&passing.tally.unseen)?;
        }
        let Passing { tally, quarantine, .. } = passing;
        // Before the part counts as finished: a crash in between would lose what is bad.
        let quarantine = quarantine.map(Quarantine::finish).transpose()?.flatten().or(settled);
        let (samples, bytes) = progress.written();
        let shards = Some(progress.shards.clone());
        let done = Done { samples, bytes, tally, crc32: None, shards };
        parts.finish(part, &done)?;
        let files = progress.shards.iter().map(|made| home.path(&made.name)).collect();
        let output = WrittenOutput {
            files,
            labels: None,
            ..WrittenOutput::dataset(conversion.output.clone(), samples, bytes)
        };
        Ok(Report { outputs: vec![output], quarantine, ..Report::of(done.tally) })
    }
}

/// The note of a piece that is complete now, and was begun like this.
pub(super) fn whole_piece(
    home: &Home,
    name: &str,
    begun: Option<Begun>,
    stats: Stats,
) -> Result<Made> {
    let path = home.path(name);
    let Stats { samples, bytes, md5, .. } = stats;
    let keys = match home.is_own {
        true => None,
        false => range_of_keys(&home.open(&path)?)?,
    };
    let id = match begun.and_then(|begun| begun.writes.last().copied()) {
        Some(write) => of_write(write),
        None => home.id_of(&path)?.unwrap_or_default(),
    };
    let (name, md5) = (name.to_owned(), md5.map(|md5| hex(&md5)));
    Ok(Made { name, samples, bytes, md5, keys, id, crc32: None })
}

/// A complete piece could not be noted: in an object store it goes if another run has taken the part, as no note
/// knows it any more.
pub(super) fn unnoted(home: &Home, name: &str, id: FileId, error: Error) -> Error {
    if home.is_object_store() && error.kind() == ErrorKind::Locked {
        // The first error is the one to report.
        let _ = home.remove(&home.path(name), &[id.1]);
    }
    error
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
