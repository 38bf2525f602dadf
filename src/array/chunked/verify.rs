//! Everything that is wrong with a chunked array.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::PathBuf;

use rayon::prelude::*;
use serde::ser::{Serialize, SerializeStruct, Serializer};

use crate::array::chunked::files::{Files, is_leftover};
use crate::array::chunked::options::Check;
use crate::array::chunked::summary::{read_summary, summaries};
use crate::array::chunked::superchunk::SuperchunkFile;
use crate::array::chunked::version::OpenVersion;
use crate::error::{Error, ErrorKind, Result};
use crate::format::FormatError;
use crate::format::blosc::Scratch;
use crate::format::chunked::names;
use crate::format::chunked::segment::Place;
use crate::format::chunked::superchunk::Content;

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Problem {
    /// The file.
    pub file: PathBuf,
    /// The chunk, where it is known: column and coordinates.
    pub chunk: Option<(String, Vec<u64>)>,
    /// The affected versions; empty if they are not known.
    pub versions: Vec<u64>,
    /// What is wrong.
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.file.display())?;
        if let Some((column, at)) = &self.chunk {
            let of = if column.is_empty() { "" } else { " of " };
            write!(f, "chunk {at:?}{of}{column}: ")?;
        }
        f.write_str(&self.message)
    }
}

/// `{"file", "column", "chunk", "versions", "message"}`, column and chunk null where they are not known.
impl Serialize for Problem {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut object = serializer.serialize_struct("Problem", 5)?;
        object.serialize_field("file", &self.file)?;
        object.serialize_field("column", &self.chunk.as_ref().map(|(column, _)| column))?;
        object.serialize_field("chunk", &self.chunk.as_ref().map(|(_, at)| at))?;
        object.serialize_field("versions", &self.versions)?;
        object.serialize_field("message", &self.message)?;
        object.end()
    }
}

/// What [`ChunkedArray::verify`](crate::array::ChunkedArray::verify) found.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct Report {
    /// What is wrong, by file.
    pub problems: Vec<Problem>,
    /// Versions that were checked.
    pub versions: u64,
    /// Stored chunks that were decompressed and compared with their hashes, each once.
    pub chunks: u64,
    /// Files that no version needs, left by a crash. [`gc`](crate::array::ArrayStore::gc) removes
    /// them.
    pub unused: Vec<PathBuf>,
    /// Summaries in `meta/` that are missing or outdated: a writer died before it renewed them. The
    /// next one does, and nothing depends on them.
    pub stale: Vec<PathBuf>,
}

/// Checks every file of every version of an array, of which `core` is one.
pub(super) fn verify(core: &OpenVersion) -> Result<Report> {
    let files = &core.files;
    let places = vec![BTreeMap::new(); core.columns.len()];
    let mut verify = Verify { core, report: Report::default(), places };
    let mut needed = BTreeSet::new();
    let numbers = files.version_numbers()?;
    for number in &numbers {
        needed.insert(files.version_path(*number));
        verify.version(*number, &mut needed);
    }
    for column in 0..core.columns.len() {
        verify.column(column, &mut needed)?;
    }
    verify.summaries(&mut needed, &numbers);
    verify.unused(&needed)?;
    verify.report.problems.sort_by(|a, b| (&a.file, &a.message).cmp(&(&b.file, &b.message)));
    Ok(verify.report)
}

/// What tables say about slots: for each slot of a superchunk a chunk, and the versions that have
/// it.
type Slots = BTreeMap<(u32, u32), Owner>;

/// A chunk, its coordinates, and the versions that have it there.
type Owner = (Place, Vec<u64>, Vec<u64>);

struct Verify<'a> {
    core: &'a OpenVersion,
    report: Report,
    /// What the tables of each column say.
    places: Vec<Slots>,
}

impl Verify<'_> {
    fn problem(&mut self, error: &Error, versions: &[u64]) {
        let root = &self.core.files.root;
        let mut message = error.message().to_owned();
        if let Some(range) = error.range() {
            message = format!("bytes {}..{}: {message}", range.start, range.end);
        }
        self.report.problems.push(Problem {
            file: error.path().unwrap_or(root).to_path_buf(),
            chunk: None,
            versions: versions.to_vec(),
            message,
        });
    }

    /// Checks a version and its tables, and notes which chunks it has.
    fn version(&mut self, number: u64, needed: &mut BTreeSet<PathBuf>) {
        let files = &self.core.files;
        self.report.versions += 1;
        let of = |version| OpenVersion::new(files.clone(), version, self.core.threads.clone());
        let core = match files.version(number).and_then(of) {
            Ok(core) => core,
            Err(e) => return self.problem(&e, &[number]),
        };
        let grid: Vec<u64> = core.grid.counts().iter().map(|n| *n as u64).collect();
        if core.columns.len() != self.places.len() {
            let path = files.version_path(number);
            let error = FormatError::new(0, "the columns of the other versions", "others");
            return self.problem(&Error::from(error).at(path), &[number]);
        }
        for (column, noted) in core.version.columns.iter().enumerate() {
            needed.extend(noted.segments.iter().map(|(n, _)| files.segment_path(*n)));
            // With fresh files: one that is open may have changed since.
            let fresh = Files::new(files.storage.clone(), &files.root, Check::Hashes, 0);
            let table = match fresh.table(number, &noted.segments) {
                Ok(table) => table,
                Err(e) => {
                    self.problem(&e, &[number]);
                    continue;
                }
            };
            let stored = table.stored();
            if let Some(beyond) =
                stored.iter().find(|entry| !core.numbering.is_within(entry.chunk, &grid))
            {
                let path = files.segment_path(noted.segments.last().map_or(0, |(n, _)| *n));
                let at = core.numbering.coordinates(beyond.chunk);
                let error =
                    FormatError::new(0, format!("chunks within {grid:?}"), format!("{at:?}"));
                self.problem(&Error::from(error).at(path), &[number]);
            }
            for entry in stored {
                let Some(place) = entry.place else { continue };
                let slot = self.places[column].entry((place.superchunk, place.slot));
                let at = || core.numbering.coordinates(entry.chunk);
                let (_, _, versions) = slot.or_insert_with(|| (place, at(), Vec::new()));
                if versions.last() != Some(&number) {
                    versions.push(number);
                }
            }
        }
    }

    /// Checks all superchunks of a column, on all threads.
    fn column(&mut self, column: usize, needed: &mut BTreeSet<PathBuf>) -> Result<()> {
        let core = self.core;
        let path = &core.columns[column].leaf.path;
        let slots = std::mem::take(&mut self.places[column]);
        let mut by_file: BTreeMap<u32, Vec<Owner>> = BTreeMap::new();
        for ((superchunk, _), slot) in slots {
            by_file.entry(superchunk).or_default().push(slot);
        }
        needed.extend(by_file.keys().map(|n| core.files.superchunk_path(path, *n)));
        let content = core.content(column)?;
        let found: Vec<Vec<Problem>> = core.run(|| {
            let check =
                |(number, slots): (&u32, &Vec<_>)| check_superchunk(core, &content, *number, slots);
            by_file.par_iter().map(check).collect()
        });
        self.report.chunks += by_file.values().map(|slots| slots.len() as u64).sum::<u64>();
        self.report.problems.extend(found.into_iter().flatten());
        Ok(())
    }

    /// Whether the summaries match the newest version.
    fn summaries(&mut self, needed: &mut BTreeSet<PathBuf>, numbers: &[u64]) {
        let files = &self.core.files;
        needed.insert(files.path(names::LOCK));
        let (files, dtype) = (files.clone(), &self.core.dtype);
        let version = |number: &u64| files.version(*number).ok();
        let Some((newest, older)) = numbers.split_last() else { return };
        let names = [names::SIZES, names::STORAGE, names::ATTRIBUTES];
        needed.extend(names.map(|name| files.path(name)));
        let Some(version) = version(newest) else { return };
        for (at, (name, text)) in summaries(&version, dtype).into_iter().enumerate() {
            let path = files.path(name);
            let found = read_summary(&*files.storage, &path);
            let says = |text: &str| found.as_deref() == Some(text.as_bytes());
            let is_missing = || matches!(files.storage.lstat(&path), Ok(None));
            // The most recent ones are the most likely.
            let is_older = || {
                let mut older = older.iter().rev().filter_map(|n| files.version(*n).ok());
                older.any(|version| says(&summaries(&version, dtype)[at].1))
            };
            if says(&text) {
                continue;
            }
            if is_missing() || is_older() {
                self.report.stale.push(path);
            } else {
                let message = "expected the summary of the newest version, found another; the next writer renews it";
                self.report.problems.push(Problem {
                    file: path,
                    chunk: None,
                    versions: Vec::new(),
                    message: message.to_owned(),
                });
            }
        }
    }

    fn unused(&mut self, needed: &BTreeSet<PathBuf>) -> Result<()> {
        let core = self.core;
        for name in core.dirs() {
            let dir = core.files.path(&name);
            let files = core.files.storage.list(&dir)?;
            let numbered = |path: &PathBuf| {
                let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
                names::number_of(name).is_some() || names::superchunk_number_of(name).is_some()
            };
            let unused = |path: &PathBuf| {
                !needed.contains(path) && (numbered(path) || is_leftover(&name, path))
            };
            self.report.unused.extend(files.into_iter().filter(unused));
        }
        Ok(())
    }
}

/// Everything in a superchunk: chunks that tables name are compared with their hashes, the rest
/// with checksums.
fn check_superchunk(
    core: &OpenVersion,
    content: &Content,
    number: u32,
    slots: &[Owner],
) -> Vec<Problem> {
    let path = core.files.superchunk_path(&content.column, number);
    let mut problems = Vec::new();
    let mut versions: Vec<u64> = slots.iter().flat_map(|(.., v)| v.iter().copied()).collect();
    versions.sort_unstable();
    versions.dedup();
    let mut note = |error: &Error, chunk: Option<&Vec<u64>>, versions: &[u64]| {
        let mut message = error.message().to_owned();
        if let Some(range) = error.range() {
            message = format!("bytes {}..{}: {message}", range.start, range.end);
        }
        let chunk = chunk.map(|at| (content.column.clone(), at.clone()));
        let (file, versions) = (path.clone(), versions.to_vec());
        problems.push(Problem { file, chunk, versions, message });
    };
    let opened = core.files.storage.open(&path).map_err(|e| match e.kind() {
        ErrorKind::NotFound => Error::new(ErrorKind::Damaged, "the file is missing"),
        _ => e,
    });
    let file = match opened.and_then(|source| SuperchunkFile::open(source, path.clone())) {
        Ok(file) => file,
        Err(e) => {
            // None of its chunks can be read, and each gets a line.
            note(&e, None, &versions);
            slots.iter().for_each(|(_, at, versions)| note(&e, Some(at), versions));
            return problems;
        }
    };
    let head = SuperchunkFile::head(&file.source);
    let head = head.and_then(|head| Ok(file.layout.check_head(content, &head)?));
    if let Err(e) = head {
        note(&e, None, &versions);
    }
    let mut scratch = Scratch::default();
    for (place, at, versions) in slots {
        let done = if file.layout.chunk_bytes() != content.chunk_bytes {
            let found = format!("{} bytes", file.layout.chunk_bytes());
            let expected = format!("chunks of {} bytes", content.chunk_bytes);
            Err(FormatError::new(8, expected, found).into())
        } else {
            file.read(place, Check::Hashes, &mut scratch).map(drop)
        };
        if let Err(e) = done {
            note(&e, Some(at), versions);
        }
    }
    for slot in 0..file.layout.slots() {
        let check = || -> Result<()> {
            let range = file.layout.slot(slot)?;
            let start = range.start;
            let bytes = file.source.read(range)?;
            let moved = |e: FormatError| e.behind(start);
            file.layout.check_slot(slot, &bytes).map_err(moved)?;
            match file.block_digests().and_then(|digests| digests.of(slot)) {
                Some(digests) => {
                    Ok(file.layout.check_blocks(slot, &bytes, digests).map_err(moved)?)
                }
                None => Ok(()),
            }
        };
        if let Err(e) = check() {
            let owner = slots.iter().find(|(place, ..)| place.slot == slot);
            match owner {
                Some((_, at, versions)) => note(&e, Some(at), versions),
                None => note(&e, None, &[]),
            }
        }
    }
    problems
}
