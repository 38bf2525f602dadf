//! [`InPlace`]: keys and places of samples that stay in their files.
//!
//! [`scan`](self::scan) finds where records begin, the decoders of readers say what their keys are, and a writer makes the
//! side files of a dataset, with the [index](crate::format::in_place) as its data file.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rayon::prelude::*;

use self::scan::{Found, Scanned, scan};
use super::Remarks;
use super::carried::{LeftOut, RemarkLog};
use super::file_names::{self, KeyNames};
use super::format::Format;
#[cfg(feature = "parquet")]
use super::formats::arrow::folder::expand_folders;
use super::formats::mds::MdsReader;
use super::layout::{self, Layout};
use super::monitor::{Monitor, Phase, Progress, Total, check_cancelled};
use super::{source_file, source_patterns};
use crate::dataset::names::{IN_PLACE, names_index};
use crate::dataset::reader::in_place::{KeyReader, content_id};
use crate::dataset::{DatasetReader, Keys, Writer};
use crate::error::{Error, ErrorKind, Result};
use crate::format::in_place::{Frame, Index, Kind, MAX_BYTES, MAX_SHARDS, Options, Shard};
use crate::format::jsonl::keys::{Notation, has_key};
use crate::format::jsonl::lines::trimmed;
use crate::storage::{self, Source, is_url};

#[cfg(feature = "parquet")]
mod arrow;
mod scan;

/// Files that are indexed at the same time.
const AT_ONCE: usize = 64;
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
    /// Of these files, folders, patterns or names with braces such as `{000..123}`, or URLs. The output is a name that ends in
    /// `.inplace.json`.
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
    pub fn run(self, monitor: &mut dyn Monitor) -> Result<InPlaceReport> {
        if !names_index(&self.output) {
            let message = format!("expected a name that ends in {IN_PLACE}, found another");
            return Err(Error::new(ErrorKind::Invalid, message).at(&self.output));
        }
        let old = match self.update {
            Update::Nothing => None,
            _ => Some(Old::open(&self.output)?),
        };
        Indexing::new(self, old.as_ref())?.run(old.as_ref(), monitor)
    }
}

/// An index that is there.
struct Old {
    index: Index,
    reader: DatasetReader,
    /// The first sample of each shard.
    firsts: Vec<usize>,
}

impl Old {
    fn open(path: &Path) -> Result<Old> {
        let reader = DatasetReader::open(path)?;
        // By its name it is one.
        let no_index = || Error::new(ErrorKind::Invalid, "expected an index, found none").at(path);
        let index = reader.index_in_place().cloned().ok_or_else(no_index)?;
        let mut firsts = vec![0usize];
        for shard in &index.shards {
            let samples = usize::try_from(shard.samples).unwrap_or(usize::MAX);
            firsts.push(firsts[firsts.len() - 1].saturating_add(samples));
        }
        Ok(Old { index, reader, firsts })
    }
}

/// The columns of an MDS shard, and its samples.
type Columns = (Frame, u64);

/// A file to be indexed.
struct File {
    path: PathBuf,
    /// Its name in the index.
    name: String,
    called: Option<String>,
    /// The columns of an MDS shard, and its samples.
    mds: Option<Columns>,
    /// The shard of the old index that it may still be.
    old: Option<usize>,
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
    fn new(mut given: InPlace, old: Option<&Old>) -> Result<Indexing> {
        let names = |index: &Index| -> Vec<PathBuf> {
            let folder = given.output.parent().unwrap_or(Path::new("")).to_path_buf();
            let at = |shard: &Shard| match is_url(&shard.name) {
                true => PathBuf::from(&shard.name),
                false => folder.join(&shard.name),
            };
            index.shards.iter().map(at).collect()
        };
        let mut paths = Vec::new();
        if let Some(old) = old {
            if given.options != Options::default() && given.options != old.index.options {
                let message = "expected the options of the index, found others: index the files again, without the old index";
                return Err(Error::new(ErrorKind::Invalid, message).at(&given.output));
            }
            given.options = old.index.options.clone();
            if given.update == Update::Append || given.sources.is_empty() {
                paths = names(&old.index);
            }
        }
        let (kind, more) = match (old, given.sources.is_empty()) {
            (Some(old), true) => (old.index.kind, Vec::new()),
            _ => find(&given.sources, given.from)?,
        };
        if let Some(old) = old.filter(|old| old.index.kind != kind) {
            let message =
                format!("expected files of {}, found {}", old.index.kind.name(), kind.name());
            return Err(Error::new(ErrorKind::Invalid, message).at(&given.output));
        }
        let known: HashSet<PathBuf> = paths.iter().cloned().collect();
        paths.extend(more.into_iter().filter(|path| !known.contains(path)));
        if paths.len() > MAX_SHARDS {
            let message = format!("expected at most {MAX_SHARDS} files, found {}", paths.len());
            return Err(Error::new(ErrorKind::Limit, message));
        }
        let files = files(kind, paths, &given, old)?;
        Ok(Indexing { kind, files, given })
    }

    fn run(self, old: Option<&Old>, monitor: &mut dyn Monitor) -> Result<InPlaceReport> {
        let Indexing { kind, files, given } = self;
        let is_there = || -> Result<bool> {
            let (storage, place) = storage::of(&given.output)?;
            Ok(storage.lstat(&place)?.is_some())
        };
        if !given.overwrite && old.is_none() && is_there()? {
            let message = "the index exists already and overwriting it was not asked for";
            return Err(Error::new(ErrorKind::AlreadyExists, message).at(&given.output));
        }
        monitor.begin(Phase::Converting, Total::default());
        let mut writer = Writer::options().create_index(&given.output)?;
        let mut making = Making {
            kind,
            given: &given,
            old,
            keys: None,
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
    old: Option<&'a Old>,
    /// The keys of the old index from this sample on.
    keys: Option<(usize, Keys<'a>)>,
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
        let (kind, given, old) = (self.kind, self.given, self.old);
        let mut rest = files;
        while !rest.is_empty() {
            check_cancelled(monitor)?;
            let (group, later) = rest.split_at(rest.len().min(AT_ONCE));
            rest = later;
            let prepare = |file: &File| prepare(kind, given, file, old);
            let ready: Vec<Result<Ready>> = group.par_iter().map(prepare).collect();
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
        match (reading, self.old, file.old) {
            (Some(mut reading), ..) => {
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
                if self.labels.is_none() {
                    self.labels = scanned.labels().map(<[String]>::to_vec);
                }
                shard.from = match self.kind {
                    Kind::Arrow => 0,
                    _ => adding.from.unwrap_or(shard.bytes),
                };
                shard.samples = adding.samples;
                if let Some(key) = adding.last.take() {
                    let end = self.begin.saturating_add(shard.span(self.kind));
                    self.place(&file.path, writer, &key, end)?;
                }
            }
            (None, Some(old), Some(at)) => {
                self.keep(old, at, &shard, writer)?;
                self.report.kept += 1;
            }
            (None, ..) => {}
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
        let labels = match (self.labels.take(), self.old) {
            (None, Some(old)) => old.reader.labels()?,
            (labels, _) => labels,
        };
        if let Some(labels) = labels {
            writer.set_labels(Some(&labels))?;
        }
        Ok((report, text))
    }

    /// The keys of the old index from this sample on. Shards mostly come in its order, so that each key is passed once.
    fn keys_from(&mut self, old: &'a Old, first: usize) -> Keys<'a> {
        match self.keys.take() {
            Some((at, mut keys)) if at <= first => {
                if first > at {
                    // What is wrong with one of them is reported where it is needed.
                    drop(keys.nth(first - at - 1));
                }
                keys
            }
            _ => {
                let mut keys = old.reader.keys();
                if first > 0 {
                    drop(keys.nth(first - 1));
                }
                keys
            }
        }
    }

    /// Writes the samples of a shard of the old index.
    fn keep(&mut self, old: &'a Old, at: usize, shard: &Shard, writer: &mut Writer) -> Result<()> {
        let samples = old.firsts[at]..old.firsts[at + 1];
        let Some(last) = samples.clone().next_back() else { return Ok(()) };
        let begin = old.reader.byte_range(samples.start)?.start;
        let mut keys = self.keys_from(old, samples.start);
        let missing = || {
            Error::new(ErrorKind::Damaged, "expected a key for each sample in .keys, found fewer")
        };
        for index in samples {
            let key = keys.next().ok_or_else(missing)??;
            let end = match index == last {
                true => shard.span(self.kind),
                false => old.reader.byte_range(index)?.end - begin,
            };
            writer.place(&key, self.begin + end)?;
            self.report.samples += 1;
        }
        self.keys = Some((last + 1, keys));
        Ok(())
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

/// The kind and the files of these sources.
fn find(sources: &[PathBuf], from: Option<Format>) -> Result<(Kind, Vec<PathBuf>)> {
    source_file::check_urls(sources)?;
    let paths = source_patterns::expand(sources, from, false)?;
    source_file::forget_versions(&paths);
    let Layout { format, groups, .. } = Layout::of(&paths, from)?;
    format.check_available()?;
    if let [first, second, ..] = &groups[..] {
        let name = |group: &layout::Group| group.split.clone().unwrap_or_default();
        let message = format!(
            "expected files of one split, found {:?} and {:?}: name the files of one",
            name(first),
            name(second)
        );
        return Err(Error::new(ErrorKind::Invalid, message));
    }
    let kind = kind_of(format)?;
    let paths: Vec<PathBuf> = groups.into_iter().flat_map(|group| group.paths).collect();
    let paths = match kind {
        #[cfg(feature = "parquet")]
        Kind::Arrow => {
            expand_folders(file_names::files(paths)?, "arrow", false, &RemarkLog::default())?
        }
        Kind::Mds => paths,
        _ => file_names::files(paths)?,
    };
    if let Some(path) = paths.iter().find(|path| layout::has_values(path)) {
        let message = "the names of its folders have values, which are not read in place";
        return Err(Error::new(ErrorKind::Unsupported, message).at(path).advise(CONVERT));
    }
    Ok((kind, paths))
}

/// What can be done with files that cannot be read in place.
const CONVERT: &str = "convert it instead: kiste convert";

fn kind_of(format: Format) -> Result<Kind> {
    Ok(match format {
        Format::Webdataset => Kind::WebDataset,
        Format::Jsonl => Kind::Jsonl,
        Format::Mds => Kind::Mds,
        _ => match format.name() {
            "tfrecord" => Kind::TfRecord,
            "arrow" => Kind::Arrow,
            name => {
                let message = format!(
                    "expected files of webdataset, jsonl, tfrecord, mds or arrow, found {name}, whose samples \
                     have no places of their own"
                );
                return Err(Error::new(ErrorKind::Unsupported, message).advise(CONVERT));
            }
        },
    })
}

/// The files of an index, with their names in it.
fn files(kind: Kind, paths: Vec<PathBuf>, given: &InPlace, old: Option<&Old>) -> Result<Vec<File>> {
    let mut found: Vec<(PathBuf, Option<Columns>)> = Vec::new();
    let names = old.map(|old| {
        let names = old.index.shards.iter().enumerate();
        names.map(|(at, shard)| (shard.name.as_str(), at)).collect::<HashMap<_, _>>()
    });
    let old_of = |name: &str| names.as_ref().and_then(|names| names.get(name).copied());
    for path in paths {
        match kind {
            // A shard of an index that is there is not a folder.
            Kind::Mds if !names_mds_shard(&path) => {
                found.extend(mds_shards(&path)?);
            }
            _ => found.push((path, None)),
        }
    }
    let in_keys = given.options.key.as_deref().is_some_and(|key| key.contains("{key.shard}"));
    let paths: Vec<&PathBuf> = found.iter().map(|(path, _)| path).collect();
    let called = KeyNames::of(&paths);
    let mut files = Vec::with_capacity(found.len());
    for (at, (path, mds)) in found.into_iter().enumerate() {
        let name = name_of(&path, &given.output)?;
        let old_at = old_of(&name);
        let before = old_at.and_then(|at| old?.index.shards.get(at));
        let called = match before {
            Some(shard) => shard.called.clone(),
            None if kind == Kind::WebDataset && !in_keys => None,
            None => Some(called.name(at, &path)?.to_owned()),
        };
        files.push(File { path, name, called, mds, old: old_at });
    }
    Ok(files)
}

fn names_mds_shard(path: &Path) -> bool {
    path.to_str().is_some_and(|name| name.ends_with(".mds"))
}

/// The shards of a folder that an `index.json` lists, with their columns.
fn mds_shards(path: &Path) -> Result<Vec<(PathBuf, Option<Columns>)>> {
    let reader = MdsReader::open(path)?;
    let mut shards = Vec::new();
    for (path, info) in reader.shard_files()? {
        let columns = info
            .columns
            .iter()
            .map(|column| (column.name.clone(), column.encoding.to_string(), column.size));
        let frame = Frame { columns: columns.collect(), ..Frame::default() };
        shards.push((path, Some((frame, info.samples))));
    }
    Ok(shards)
}

/// The name of a file in an index: relative to its folder, if it is below it.
fn name_of(path: &Path, output: &Path) -> Result<String> {
    let not_text = || {
        let message = "expected a name in UTF-8, as the index has it, found another";
        Error::new(ErrorKind::Invalid, message).at(path)
    };
    let text = path.to_str().ok_or_else(not_text)?;
    if is_url(path) || is_url(output) {
        let text = text.split(['?', '#']).next().unwrap_or_default();
        let folder = output.to_str().and_then(|output| output.rsplit_once('/'));
        let below = folder.filter(|_| is_url(output)).and_then(|(folder, _)| {
            text.strip_prefix(folder).and_then(|rest| rest.strip_prefix('/'))
        });
        return match (below, is_url(path)) {
            (Some(below), _) => Ok(below.to_owned()),
            (None, true) if !is_url(output) => Ok(text.to_owned()),
            _ => {
                let message =
                    "expected a file next to the index or below its folder, as it is behind a URL";
                Err(Error::new(ErrorKind::Invalid, message).at(path))
            }
        };
    }
    let at = |path: &Path| std::path::absolute(path).map_err(|error| Error::io(path, error));
    let (file, folder) = (at(path)?, at(output)?);
    let folder = folder.parent().unwrap_or(Path::new("/"));
    match file.strip_prefix(folder) {
        Ok(below) => {
            let parts = below.iter().map(|part| part.to_str().ok_or_else(not_text));
            Ok(parts.collect::<Result<Vec<_>>>()?.join("/"))
        }
        Err(_) => file.to_str().map(str::to_owned).ok_or_else(not_text),
    }
}

/// Opens a file and looks for its samples; of a large one the first.
fn prepare(kind: Kind, given: &InPlace, file: &File, old: Option<&Old>) -> Result<Ready> {
    let at = |error: Error| error.shown_at(&file.path);
    let (storage, place) = source_file::storage_of(&file.path)?;
    let source = Arc::new(storage.open(&place).map_err(at)?);
    let id = if source.is_remote() { None } else { Some(content_id(&source).map_err(at)?) };
    let (bytes, name, called) = (source.len(), file.name.clone(), file.called.clone());
    let mut shard = Shard { name, bytes, id, called, ..Shard::default() };
    let ready = |shard, frame| Ready { shard, frame, samples: Vec::new(), reading: None };
    let before = file.old.and_then(|at| old?.index.shards.get(at));
    if let Some(before) = before.filter(|before| before.bytes == bytes && before.id == shard.id) {
        let frame = before.frame.and_then(|frame| old?.index.frames.get(frame as usize)).cloned();
        return Ok(ready(Shard { frame: None, ..before.clone() }, frame));
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

    fn needs(&self, _name: &str) -> bool {
        false
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
