//! [`InPlace`]: keys and places of samples that stay in their files.
//!
//! [`scan`](self::scan) finds where records begin, the decoders of readers say what their keys are, and a writer makes the
//! side files of a dataset, with the [index](crate::format::in_place) as its data file.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rayon::prelude::*;

use self::old::{Old, OldKeys, Was};
use self::scan::{Found, Scanned, scan};
use self::sources::{CONVERT, File, files, find};
use super::Remarks;
use super::carried::{LeftOut, RemarkLog};
use super::format::Format;
use super::monitor::{Monitor, Phase, Progress, Total, check_cancelled};
use super::signed::Signed;
use super::source_file;
use crate::dataset::Writer;
use crate::dataset::names::{IN_PLACE, names_index};
use crate::dataset::reader::in_place::{KeyReader, has_id, id_of};
use crate::error::{Error, ErrorKind, Result};
use crate::format::in_place::{Frame, Index, Kind, MAX_BYTES, MAX_SHARDS, Options, Shard};
use crate::format::jsonl::keys::{Notation, has_key};
use crate::format::jsonl::lines::trimmed;
use crate::storage::{self, Source, in_parallel, is_url};

#[cfg(feature = "parquet")]
mod arrow;
mod old;
mod scan;
mod sources;

/// Files that are indexed at the same time.
const AT_ONCE: usize = 64;
const REMOTE_AT_ONCE: usize = 16;
/// Samples of a file whose keys are read at the same time.
const KEYS: usize = 1 << 14;
/// Default for the most bytes of a sample, as of conversions.
const MAX_SAMPLE: u64 = 1 << 30;

/// Makes a dataset of samples that stay where they are: in tar archives of WebDataset, JSON lines, TFRecord files, MDS
/// shards or Arrow IPC files. None of their bytes are copied. The output, `NAME.inplace.json` with its side files, is
/// opened by its name like any dataset, and each sample is, value for value, the one that
/// [`Conversion`](super::Conversion) would write.
///
/// ```
/// use kiste::convert::{InPlace, Silent};
///
/// # let dir = tempfile::tempdir()?;
/// # let (lines, index) = (dir.path().join("a.jsonl"), dir.path().join("a.inplace.json"));
/// std::fs::write(&lines, "{\"key\": \"a\", \"n\": 1}\n{\"key\": \"b\", \"n\": 2}\n")?;
/// let report = InPlace::new([&lines], &index).run(&mut Silent)?;
/// assert_eq!((report.samples, report.shards), (2, 1));
///
/// let numbers = kiste::open(&index)?;
/// assert_eq!(numbers.get_by_key("b")?.map(|sample| sample["n"].clone()), Some(2.into()));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
#[must_use]
pub struct InPlace {
    sources: Vec<PathBuf>,
    output: PathBuf,
    from: Option<Format>,
    options: Options,
    skips_bad: bool,
    overwrite: bool,
    update: Update,
}

/// What of an index that is there stays.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Update {
    #[default]
    Nothing,
    /// Shards that have not changed.
    Refresh,
    /// All, with new shards behind them.
    Append,
}

/// What an index has.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct InPlaceReport {
    /// Samples.
    pub samples: u64,
    /// Files that have them.
    pub shards: usize,
    /// Bytes of these files.
    pub bytes: u64,
    /// Shards that were not read again, as they had not changed.
    pub kept: usize,
    /// Samples that were left out as they are bad.
    pub bad: u64,
    /// The reasons for the first ones.
    pub first: Vec<String>,
    /// What was left out of the files, and is no sample.
    pub remarks: Remarks,
}

impl InPlace {
    /// Of these files, folders, patterns or names with braces such as `{000..123}`, or URLs; or of indexes, whose samples
    /// the output has one after the other: a part of the files can be indexed on each of several machines. The output is a
    /// name that ends in `.inplace.json`. URLs may be signed: what follows `?` and a password are sent, and not stored.
    pub fn new<P: Into<PathBuf>>(
        sources: impl IntoIterator<Item = P>,
        output: impl Into<PathBuf>,
    ) -> InPlace {
        InPlace {
            sources: sources.into_iter().map(Into::into).collect(),
            output: output.into(),
            from: None,
            options: Options::default(),
            skips_bad: false,
            overwrite: false,
            update: Update::Nothing,
        }
    }

    /// The format of the files. Default: as they look.
    pub fn from(mut self, format: Format) -> InPlace {
        self.from = Some(format);
        self
    }

    /// A pattern of keys, as [`Conversion::key`](super::Conversion::key) has it: `{key.shard}/{key}` where each shard counts
    /// its samples from 0.
    pub fn key(mut self, pattern: impl Into<String>) -> InPlace {
        self.options.key = Some(pattern.into());
        self
    }

    /// The field that becomes the key, as of [`Conversion::key_field`](super::Conversion::key_field).
    pub fn key_field(mut self, name: impl Into<String>) -> InPlace {
        self.options.key_field = Some(name.into());
        self
    }

    /// Features of TFRecord that are text.
    pub fn texts<S: Into<String>>(mut self, names: impl IntoIterator<Item = S>) -> InPlace {
        self.options.texts = names.into_iter().map(Into::into).collect();
        self
    }

    /// Features of TFRecord that stay lists even if they have one value.
    pub fn lists<S: Into<String>>(mut self, names: impl IntoIterator<Item = S>) -> InPlace {
        self.options.lists = names.into_iter().map(Into::into).collect();
        self
    }

    /// Whether names that begin with `$` have no meaning in JSON lines. Default: no.
    pub fn plain_json(mut self, yes: bool) -> InPlace {
        self.options.plain = yes;
        self
    }

    /// The most bytes of a sample. Default: 1 GiB.
    pub fn max_bytes(mut self, bytes: u64) -> InPlace {
        self.options.max_bytes = Some(bytes);
        self
    }

    /// Whether samples that are bad are left out and counted. Only what places and keys are made of is looked at; a
    /// sample may turn out to be bad when it is read. Default: the first one is an error.
    pub fn skip_bad(mut self, yes: bool) -> InPlace {
        self.skips_bad = yes;
        self
    }

    /// Whether an index of this name may be replaced. Default: no.
    pub fn overwrite(mut self, yes: bool) -> InPlace {
        self.overwrite = yes;
        self
    }

    /// Indexes again what has changed since. Without sources they are the shards of the index. Options are those of the
    /// index.
    pub fn refresh(mut self) -> InPlace {
        self.update = Update::Refresh;
        self
    }

    /// Adds these sources to the index that is there.
    pub fn append(mut self) -> InPlace {
        self.update = Update::Append;
        self
    }

    /// Makes the index.
    ///
    /// # Errors
    ///
    /// [`AlreadyExists`](ErrorKind::AlreadyExists) without [`overwrite`](Self::overwrite);
    /// [`Unsupported`](ErrorKind::Unsupported) for files that cannot be read in place, such as compressed ones: they have to be
    /// converted; [`DuplicateKey`](ErrorKind::DuplicateKey) if two samples have one key; and the errors of reading.
    pub fn run(mut self, monitor: &mut dyn Monitor) -> Result<InPlaceReport> {
        if !names_index(&self.output) {
            let message = format!("expected a name that ends in {IN_PLACE}, found another");
            return Err(Error::new(ErrorKind::Invalid, message).shown_at(&self.output));
        }
        let shown = storage::shown(&self.output);
        if shown != self.output {
            let message = "expected a URL without user, password and query, found one with them";
            return Err(Error::new(ErrorKind::Invalid, message).at(shown));
        }
        let (sources, _signed) = Signed::of(self.sources)?;
        let (indexes, files): (Vec<PathBuf>, Vec<PathBuf>) =
            sources.into_iter().partition(|source| names_index(source));
        if !indexes.is_empty() && !files.is_empty() {
            let message = format!(
                "expected files or indexes of some, found both: {} and {}",
                storage::shown(&files[0]).display(),
                storage::shown(&indexes[0]).display()
            );
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        self.sources = files;
        let own = (self.update != Update::Nothing).then_some(&self.output);
        let olds = own.into_iter().chain(&indexes).map(|path| Old::open(path));
        let olds = olds.collect::<Result<Vec<_>>>()?;
        Indexing::new(self, &olds)?.run(&olds, monitor)
    }
}

/// What is known of a file before its samples are written.
struct Ready {
    shard: Shard,
    frame: Option<Frame>,
    /// The samples, with their keys; of a large file the first.
    samples: Vec<(Found, Result<String>)>,
    /// The file, unless it is as the old index has it.
    reading: Option<Reading>,
}

struct Indexing {
    kind: Kind,
    files: Vec<File>,
    given: InPlace,
}

impl Indexing {
    fn new(mut given: InPlace, olds: &[Old]) -> Result<Indexing> {
        let mut paths = Vec::new();
        for (number, old) in olds.iter().enumerate() {
            if number == 0 && given.options == Options::default() {
                given.options = old.index.options.clone();
            }
            if given.options != old.index.options {
                let message = "expected the options of the index, found others: index the files again, without the old index";
                return Err(Error::new(ErrorKind::Invalid, message).at(&old.path));
            }
            let is_own = number == 0 && given.update != Update::Nothing;
            let is_alone = given.sources.is_empty() && olds.len() == 1;
            if !is_own || is_alone || given.update == Update::Append {
                paths.extend(old.paths());
            }
        }
        let (kind, more) = match (olds.first(), given.sources.is_empty()) {
            (Some(old), true) => (old.index.kind, Vec::new()),
            _ => find(&given.sources, given.from)?,
        };
        // The first index has a say in what the others and the files are.
        let expected = olds.first().map_or(kind, |old| old.index.kind);
        let mut kinds = olds.iter().map(|old| (old.index.kind, &old.path));
        let found = kinds.find(|(found, _)| *found != expected);
        let found = found.or_else(|| (kind != expected).then_some((kind, &given.output)));
        if let Some((found, path)) = found {
            let message = format!("expected files of {}, found {}", expected.name(), found.name());
            return Err(Error::new(ErrorKind::Invalid, message).at(path));
        }
        paths.extend(more);
        let mut known = HashSet::new();
        paths.retain(|path| known.insert(path.clone()));
        if paths.len() > MAX_SHARDS {
            let message = format!("expected at most {MAX_SHARDS} files, found {}", paths.len());
            return Err(Error::new(ErrorKind::Limit, message));
        }
        let files = files(kind, paths, &given, olds)?;
        Ok(Indexing { kind, files, given })
    }

    fn run(self, olds: &[Old], monitor: &mut dyn Monitor) -> Result<InPlaceReport> {
        let Indexing { kind, files, given } = self;
        let is_there = || -> Result<bool> {
            let (storage, place) = storage::of(&given.output)?;
            Ok(storage.lstat(&place)?.is_some())
        };
        if !given.overwrite && given.update == Update::Nothing && is_there()? {
            let message = "the index exists already and overwriting it was not asked for";
            return Err(Error::new(ErrorKind::AlreadyExists, message).at(&given.output));
        }
        monitor.begin(Phase::Converting, Total::default());
        let mut writer = Writer::options().create_index(&given.output)?;
        let mut making = Making {
            kind,
            given: &given,
            olds,
            keys: OldKeys::default(),
            report: InPlaceReport::default(),
            frames: Vec::new(),
            known: HashMap::new(),
            shards: Vec::new(),
            begin: 0,
            labels: None,
            remarks: RemarkLog::default(),
        };
        let written = making.write_all(&files, &mut writer, monitor).and_then(|()| {
            monitor.begin(Phase::Finishing, Total::default());
            making.finish(&mut writer)
        });
        match written {
            Ok((report, text)) => writer.finish_index(text.as_bytes()).map(|_| report),
            Err(error) => {
                // Nothing of it is of use.
                let _ = writer.abort();
                Err(error)
            }
        }
    }
}

/// An index on its way.
struct Making<'a> {
    kind: Kind,
    given: &'a InPlace,
    olds: &'a [Old],
    keys: OldKeys<'a>,
    report: InPlaceReport,
    frames: Vec<Frame>,
    known: HashMap<Frame, u32>,
    shards: Vec<Shard>,
    /// The address of the next shard.
    begin: u64,
    labels: Option<Vec<String>>,
    remarks: RemarkLog,
}

impl<'a> Making<'a> {
    fn write_all(
        &mut self,
        files: &[File],
        writer: &mut Writer,
        monitor: &mut dyn Monitor,
    ) -> Result<()> {
        let (kind, given, olds) = (self.kind, self.given, self.olds);
        let mut rest = files;
        while !rest.is_empty() {
            check_cancelled(monitor)?;
            let (group, later) = rest.split_at(rest.len().min(AT_ONCE));
            rest = later;
            let prepare = |file: &File| prepare(kind, given, file, olds);
            // Behind URLs most of the time is waiting.
            let ready: Vec<Result<Ready>> = match group.iter().any(|file| is_url(&file.path)) {
                true => in_parallel(group, REMOTE_AT_ONCE, prepare),
                false => group.par_iter().map(prepare).collect(),
            };
            for (file, ready) in group.iter().zip(ready) {
                self.add(file, ready?, writer, monitor)?;
                let (samples, bytes) = (self.report.samples, self.report.bytes);
                monitor.progress(Progress { samples, bytes: 0, input_bytes: bytes });
            }
        }
        Ok(())
    }

    /// Writes the samples of a file.
    fn add(
        &mut self,
        file: &File,
        ready: Ready,
        writer: &mut Writer,
        monitor: &mut dyn Monitor,
    ) -> Result<()> {
        let Ready { mut shard, frame, samples, reading } = ready;
        let before = self.report.samples;
        match (reading, file.was) {
            (Some(mut reading), _) => {
                let mut adding = Adding::default();
                self.put(&mut adding, &mut shard, samples, &file.path, writer)?;
                // A large one in pieces.
                while !reading.is_done() {
                    check_cancelled(monitor)?;
                    let samples =
                        reading.more(&shard).map_err(|error| error.shown_at(&file.path))?;
                    self.put(&mut adding, &mut shard, samples, &file.path, writer)?;
                }
                let scanned = &reading.scanned;
                self.remark(scanned, &file.path);
                self.add_labels(scanned.labels(), &file.path)?;
                shard.from = match self.kind {
                    Kind::Arrow => 0,
                    _ => adding.from.unwrap_or(shard.bytes),
                };
                shard.samples = adding.samples;
                if shard.samples == 0 {
                    // Addresses without samples would belong to the sample before.
                    shard.batches.clear();
                }
                if let Some(key) = adding.last.take() {
                    let end = self.begin.saturating_add(shard.span(self.kind));
                    self.place(&file.path, writer, &key, end)?;
                }
            }
            (None, Some(was)) => {
                self.keep(was, &shard, writer)?;
                self.report.kept += 1;
            }
            (None, None) => {}
        }
        shard.frame = frame.map(|frame| self.frame(frame));
        debug_assert_eq!(self.report.samples - before, shard.samples);
        self.begin = self.begin.saturating_add(shard.span(self.kind));
        self.report.bytes = self.report.bytes.saturating_add(shard.bytes);
        self.shards.push(shard);
        Ok(())
    }

    fn frame(&mut self, frame: Frame) -> u32 {
        if let Some(&known) = self.known.get(&frame) {
            return known;
        }
        let number = self.frames.len() as u32;
        self.known.insert(frame.clone(), number);
        self.frames.push(frame);
        number
    }

    /// What was found, and the text of the index.
    fn finish(&mut self, writer: &mut Writer) -> Result<(InPlaceReport, String)> {
        let mut report = std::mem::take(&mut self.report);
        report.remarks = self.remarks.take(0);
        report.shards = self.shards.len();
        let index = Index {
            kind: self.kind,
            options: self.given.options.clone(),
            frames: std::mem::take(&mut self.frames),
            shards: std::mem::take(&mut self.shards),
            samples: report.samples,
        };
        let output = &self.given.output;
        index.check().map_err(|error| Error::from(error).at(output))?;
        let text = index.render();
        if text.len() as u64 > MAX_BYTES {
            let message =
                format!("expected an index of at most {MAX_BYTES} bytes, found {}", text.len());
            return Err(Error::new(ErrorKind::Limit, message).at(output));
        }
        if let Some(labels) = &self.labels {
            writer.set_labels(Some(labels))?;
        }
        Ok((report, text))
    }

    /// Writes the samples of a shard of the old index.
    fn keep(&mut self, (old, at): Was, shard: &Shard, writer: &mut Writer) -> Result<()> {
        let known: &'a Old = &self.olds[old];
        let Some((reader, samples)) = known.samples(at) else { return Ok(()) };
        self.add_labels(known.labels.as_deref(), &known.path)?;
        let Some(last) = samples.clone().next_back() else { return Ok(()) };
        let begin = reader.byte_range(samples.start)?.start;
        let mut keys = self.keys.from(old, reader, samples.start);
        let missing = || {
            Error::new(ErrorKind::Damaged, "expected a key for each sample in .keys, found fewer")
                .advise("index the files again, with --force in place of --refresh")
        };
        for index in samples {
            let key = keys.next().ok_or_else(missing)??;
            let end = match index == last {
                true => shard.span(self.kind),
                false => reader.byte_range(index)?.end - begin,
            };
            writer.place(&key, self.begin + end)?;
            self.report.samples += 1;
        }
        self.keys.keep(old, last + 1, keys);
        Ok(())
    }

    /// The names of labels that a file or an index has. All that have some must have the same.
    fn add_labels(&mut self, labels: Option<&[String]>, path: &Path) -> Result<()> {
        match (&self.labels, labels) {
            (Some(known), Some(found)) if known != found => {
                let message =
                    "expected the names of labels that the files before it have, found others";
                Err(Error::new(ErrorKind::Unsupported, message).at(path).advise(CONVERT))
            }
            (None, labels) => {
                self.labels = labels.map(<[String]>::to_vec);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Writes samples, each when the next one says where it ends.
    fn put(
        &mut self,
        adding: &mut Adding,
        shard: &mut Shard,
        samples: Vec<(Found, Result<String>)>,
        path: &Path,
        writer: &mut Writer,
    ) -> Result<()> {
        for (Found { at, record, flaw, .. }, key) in samples {
            let key = match flaw.map_or(key, Err) {
                Ok(key) => key,
                Err(error) => {
                    self.bad(error.shown_at(path))?;
                    continue;
                }
            };
            let from = match self.kind {
                Kind::Arrow => 0,
                _ => *adding.from.get_or_insert(at),
            };
            if let Some(last) = adding.last.replace(key) {
                self.place(path, writer, &last, self.begin + (at - from))?;
            }
            // The first row is where the rows before it end, if these are bad.
            let ahead = record.saturating_sub(adding.samples);
            if ahead != adding.gap && self.kind != Kind::WebDataset {
                adding.gap = ahead;
                shard.gaps.push((adding.samples, record));
            }
            adding.samples += 1;
        }
        Ok(())
    }

    /// Writes a sample, and says what can be done about a key that two have.
    fn place(&mut self, path: &Path, writer: &mut Writer, key: &str, end: u64) -> Result<()> {
        self.report.samples += 1;
        writer.place(key, end).map_err(|error| match error.kind() {
            ErrorKind::DuplicateKey => {
                let error = error.at(path);
                match self.kind {
                    Kind::WebDataset => error.advise(
                        "if each archive counts from 0, --key '{key.shard}/{key}' tells samples apart; \
                         files of one sample must be next to each other",
                    ),
                    _ => error.advise("--key '{key.shard}/{key}' tells samples of files apart"),
                }
            }
            _ => error,
        })
    }

    fn bad(&mut self, error: Error) -> Result<()> {
        if !self.given.skips_bad {
            return Err(error.advise("--skip-bad leaves out bad samples, and counts them"));
        }
        self.report.bad += 1;
        if self.report.first.len() < 5 {
            self.report.first.push(error.to_string());
        }
        Ok(())
    }

    /// Counts what is in the file and in no sample.
    fn remark(&mut self, scanned: &Scanned, path: &Path) {
        let mark = u64::from(scanned.no_end_mark);
        for (kind, count) in [
            (LeftOut::OutsideSamples, scanned.outside),
            (LeftOut::AfterEnd, scanned.after_end),
            (LeftOut::NoEndMark, mark),
        ] {
            if count > 0 {
                self.remarks
                    .note(0, kind, None, count, || storage::shown(path).display().to_string());
            }
        }
    }
}

/// The samples of a file that were written.
#[derive(Default)]
struct Adding {
    /// The key of the last one, whose end is not known yet.
    last: Option<String>,
    /// Where the first one begins.
    from: Option<u64>,
    /// How far numbers of records are ahead of numbers of samples.
    gap: u64,
    samples: u64,
}

/// Opens a file and looks for its samples; of a large one the first.
fn prepare(kind: Kind, given: &InPlace, file: &File, olds: &[Old]) -> Result<Ready> {
    let at = |error: Error| error.shown_at(&file.path);
    let (storage, place) = source_file::storage_of(&file.path)?;
    let source = Arc::new(storage.open(&place).map_err(at)?);
    let ready = |shard, frame| Ready { shard, frame, samples: Vec::new(), reading: None };
    let (bytes, name) = (source.len(), file.name.clone());
    if let Some((before, frame)) = file.was.and_then(|(old, at)| olds[old].shard(at)) {
        let has_id = |id: &String| has_id(&source, id).map_err(at);
        let is_same = before.id.as_ref().map(has_id).transpose()?.flatten();
        if is_same == Some(true) && before.bytes == bytes {
            return Ok(ready(Shard { frame: None, name, ..before.clone() }, frame.cloned()));
        }
    }
    let (id, called) = (Some(id_of(&source).map_err(at)?), file.called.clone());
    let mut shard = Shard { name, bytes, id, called, ..Shard::default() };
    if kind == Kind::Mds && file.mds.is_none() {
        let message = "expected an index.json next to the shard that lists it, found none";
        return Err(at(Error::new(ErrorKind::NotFound, message)));
    }
    let max_bytes = given.options.max_bytes.unwrap_or(MAX_SAMPLE);
    let frame = file.mds.as_ref().map(|(frame, _)| frame.clone());
    let mut scanned = scan(kind, &source, frame, max_bytes, !given.skips_bad).map_err(at)?;
    let first = scanned.next(&source, KEYS).map_err(at)?;
    if kind == Kind::Jsonl {
        let numbered = is_numbered(&source, &first, given.options.plain).map_err(at)?;
        scanned.frame = numbered.then(|| Frame { numbered: true, ..Frame::default() });
    }
    if let Some((_, samples)) = &file.mds {
        let found = if scanned.is_done() { first.len() as u64 } else { scanned.count() };
        if found != *samples {
            let message = format!("expected {samples} samples, as index.json says, found {found}");
            return Err(at(Error::new(ErrorKind::Damaged, message)));
        }
    }
    let frame = scanned.frame.clone();
    shard.frame = frame.as_ref().map(|_| 0);
    shard.batches = scanned.batches();
    let keys = KeyReader::new(kind, &given.options, frame.as_ref()).map_err(at)?;
    let mut reading = Reading { source, scanned, keys, next: None };
    let samples = reading.keys(first, &shard);
    Ok(Ready { samples, reading: Some(reading), ..ready(shard, frame) })
}

/// Whether lines are numbered: the first object has no key.
fn is_numbered(source: &Source, first: &[Found], plain: bool) -> Result<bool> {
    for (at, found) in first.iter().enumerate() {
        let end = first.get(at + 1).map_or(source.len(), |next| next.at);
        let bytes = source.read(found.at..end)?;
        let line = memchr::memchr(b'\n', &bytes).map_or(&bytes[..], |end| &bytes[..end]);
        if let Some(has_key) = has_key(trimmed(line), &PlainLines(plain)) {
            return Ok(!has_key);
        }
    }
    Ok(false)
}

struct PlainLines(bool);

impl Notation for PlainLines {
    fn is_plain(&self) -> bool {
        self.0
    }

    // A line that a conversion cannot read does not decide.
    fn needs(&self, _name: &str) -> bool {
        true
    }
}

/// A file whose keys are being read.
struct Reading {
    source: Arc<Source>,
    scanned: Scanned,
    keys: KeyReader,
    /// A sample whose end is not known yet.
    next: Option<Found>,
}

impl Reading {
    fn is_done(&self) -> bool {
        self.scanned.is_done() && self.next.is_none()
    }

    /// The next samples, with their keys.
    fn more(&mut self, shard: &Shard) -> Result<Vec<(Found, Result<String>)>> {
        let found = self.scanned.next(&self.source, KEYS)?;
        Ok(self.keys(found, shard))
    }

    fn keys(&mut self, found: Vec<Found>, shard: &Shard) -> Vec<(Found, Result<String>)> {
        let mut all: Vec<Found> = self.next.take().into_iter().chain(found).collect();
        if !self.scanned.is_done() {
            self.next = all.pop();
        }
        let end = self.next.as_ref().map_or(self.source.len(), |next| next.at);
        let ends: Vec<u64> = all.iter().skip(1).map(|found| found.at).chain([end]).collect();
        let (source, keys) = (&self.source, &self.keys);
        // Numbers in keys are those of records here.
        let shard = &Shard { gaps: Vec::new(), ..shard.clone() };
        let key = |(found, end): (&Found, &u64)| match found.flaw {
            Some(_) => Ok(String::new()),
            None => keys.key(source, shard, found.record, found.at..*end, found.name.as_deref()),
        };
        let read: Vec<Result<String>> = all.par_iter().zip(&ends).map(key).collect();
        all.into_iter().zip(read).collect()
    }
}
