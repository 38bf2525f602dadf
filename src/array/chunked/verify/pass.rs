//! One look at all versions of a snapshot, and at all files that they name.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rayon::prelude::*;

use crate::array::chunked::files::{Files, is_leftover};
use crate::array::chunked::options::Check;
use crate::array::chunked::summary::{read_summary, summaries};
use crate::array::chunked::superchunk::SuperchunkFile;
use crate::array::chunked::verify::snapshot::Snapshot;
use crate::array::chunked::verify::superchunks::{Owner, Slots, check_superchunk};
use crate::array::chunked::verify::tables::{grid, in_doubt, other_bytes, other_count};
use crate::array::chunked::verify::{Compared, Problem, Report, described};
use crate::array::chunked::version::OpenVersion;
use crate::error::{Error, Result};
use crate::format::FormatError;
use crate::format::blosc::Scratch;
use crate::format::chunked::segment::{Entry, HASH, Place};
use crate::format::chunked::{Version, names};

pub(super) struct Pass<'a> {
    core: &'a OpenVersion,
    seen: &'a Snapshot,
    /// Files opened for this pass: one that was open before may have changed since.
    fresh: Arc<Files>,
    report: Report,
    columns: Vec<ColumnSeen>,
    doubts: Vec<Doubt>,
    /// Versions that record other bytes than their tables have, by column.
    other_bytes: Vec<(usize, Problem)>,
    needed: BTreeSet<PathBuf>,
}

/// A chunk that a version may have lost.
struct Doubt {
    column: usize,
    chunk: u64,
    /// The hash of the chunk there.
    kept: Option<[u8; HASH]>,
    /// The superchunks that were written since the version before.
    written: Range<u64>,
    /// The message about it.
    problem: Problem,
}

/// The content of a slot, and the number of the chunk for which it was written.
struct Written {
    slot: (u32, u32),
    chunk: u64,
    hash: [u8; HASH],
}

/// The entries of the tables of a column, and the superchunks that they name.
#[derive(Default)]
struct ColumnSeen {
    /// For each slot of a superchunk a chunk, and the versions that have it.
    owners: BTreeMap<(u32, u32), Owner>,
    /// The superchunks that any segment names.
    named: BTreeSet<u32>,
    /// `None` for a superchunk that cannot be read.
    slots: BTreeMap<u32, Option<Slots>>,
    /// Slots where a version has the chunk for which they were written.
    confirmed: HashSet<(u32, u32)>,
}

impl<'a> Pass<'a> {
    pub(super) fn new(core: &'a OpenVersion, seen: &'a Snapshot) -> Pass<'a> {
        let files = &core.files;
        let fresh = Files::new(files.storage.clone(), &files.root, Check::Hashes, 0);
        let columns = core.columns.iter().map(|_| ColumnSeen::default()).collect();
        let (report, doubts, needed) = (Report::default(), Vec::new(), BTreeSet::new());
        let other_bytes = Vec::new();
        Pass { core, seen, fresh: Arc::new(fresh), report, columns, doubts, other_bytes, needed }
    }

    pub(super) fn run(mut self, compared: &mut Compared) -> Result<Report> {
        for (number, version) in &self.seen.versions {
            self.needed.insert(self.core.files.version_path(*number));
            self.report.versions += 1;
            match version.as_ref().map(|version| self.open(version)) {
                Err(error) => self.problem(error, &[*number]),
                Ok(Err(error)) => self.problem(&error, &[*number]),
                Ok(Ok(version)) => self.version(&version),
            }
        }
        for (column, compared) in compared.iter_mut().enumerate() {
            self.superchunks(column, compared)?;
        }
        self.settle_bytes();
        self.lost_chunks();
        self.settle_doubts();
        self.summaries();
        self.unused();
        Ok(self.report)
    }

    fn open(&self, version: &Version) -> Result<OpenVersion> {
        OpenVersion::new(self.fresh.clone(), version.clone(), self.core.threads.clone())
    }

    fn problem(&mut self, error: &Error, versions: &[u64]) {
        let file = error.path().unwrap_or(&self.core.files.root).to_path_buf();
        let (versions, message) = (versions.to_vec(), described(error));
        self.report.problems.push(Problem { file, chunk: None, versions, message });
    }

    /// Checks the tables of a version, and notes which chunks it has.
    fn version(&mut self, version: &OpenVersion) {
        let number = version.version.version;
        if version.columns.len() != self.columns.len() {
            let path = self.core.files.version_path(number);
            let error = FormatError::new(0, "the columns of the other versions", "others");
            return self.problem(&Error::from(error).at(path), &[number]);
        }
        for (column, noted) in version.version.columns.iter().enumerate() {
            let segments = noted.segments.iter().map(|(n, _)| self.core.files.segment_path(*n));
            self.needed.extend(segments);
            let stored = match version.table(column) {
                Ok(table) => {
                    // Also what newer entries replace: a commit may use it again.
                    let named = &mut self.columns[column].named;
                    table.each_entry(|entry| named.extend(entry.place.map(|p| p.superchunk)));
                    table.stored()
                }
                Err(e) => {
                    self.problem(&e, &[number]);
                    continue;
                }
            };
            self.expect_inside(version, column, &stored);
            self.expect_counts(version, column, &stored);
            self.note(version, column, &stored);
            self.doubts(version, column);
        }
    }

    /// Entries outside the grid would come back when the array grows.
    fn expect_inside(&mut self, version: &OpenVersion, column: usize, stored: &[Entry]) {
        let (number, grid) = (version.version.version, grid(version));
        let beyond = stored.iter().find(|e| !version.numbering.is_within(e.chunk, &grid));
        if let Some(beyond) = beyond {
            let segments = &version.version.columns[column].segments;
            let path = self.core.files.segment_path(segments.last().map_or(0, |(n, _)| *n));
            let at = version.numbering.coordinates(beyond.chunk);
            let error = FormatError::new(0, format!("chunks within {grid:?}"), format!("{at:?}"));
            self.problem(&Error::from(error).at(path), &[number]);
        }
    }

    /// Compares the counts in a version with its table.
    fn expect_counts(&mut self, version: &OpenVersion, column: usize, stored: &[Entry]) {
        let (number, noted) = (version.version.version, &version.version.columns[column]);
        let file = self.core.files.version_path(number);
        let problem = |message| Problem { file, chunk: None, versions: vec![number], message };
        if let Some(message) = other_count(noted, stored) {
            self.report.problems.push(problem(message));
        } else if let Some(bytes) = self.bytes_of(column, stored) {
            let held = other_bytes(noted, bytes).map(|message| (column, problem(message)));
            self.other_bytes.extend(held);
        }
    }

    /// Other bytes than are recorded tell something only where no file is damaged.
    fn settle_bytes(&mut self) {
        for (column, problem) in std::mem::take(&mut self.other_bytes) {
            let dir = self.core.files.column_dir(&self.core.columns[column].leaf.path);
            if !self.report.problems.iter().any(|other| other.file.starts_with(&dir)) {
                self.report.problems.push(problem);
            }
        }
    }

    /// The header of the superchunk that a table names, about its slots.
    fn slots(&mut self, column: usize, superchunk: u32) -> Option<&Slots> {
        let (files, path) = (&self.core.files, &self.core.columns[column].leaf.path);
        let read = || Slots::of(&*files.storage, &files.superchunk_path(path, superchunk));
        self.columns[column].slots.entry(superchunk).or_insert_with(read).as_ref()
    }

    /// The bytes of the slots of these chunks; `None` where a file cannot be read.
    fn bytes_of(&mut self, column: usize, stored: &[Entry]) -> Option<u64> {
        let places = stored.iter().filter_map(|entry| entry.place);
        let mut bytes = 0_u64;
        for place in places {
            let slots = self.slots(column, place.superchunk)?;
            bytes = bytes.saturating_add((*slots.lens.get(place.slot as usize)?)?);
        }
        Some(bytes)
    }

    /// Notes where a version has chunks.
    fn note(&mut self, version: &OpenVersion, column: usize, stored: &[Entry]) {
        let number = version.version.version;
        for entry in stored {
            let Some(place) = entry.place else { continue };
            let slots = self.slots(column, place.superchunk);
            let written_for = slots.and_then(|slots| slots.chunks.get(place.slot as usize));
            let is_confirmed = written_for == Some(&entry.chunk);
            let seen = &mut self.columns[column];
            let slot = (place.superchunk, place.slot);
            if is_confirmed {
                seen.confirmed.insert(slot);
            }
            let at = || version.numbering.coordinates(entry.chunk);
            let new = || (place, at(), Vec::new());
            let (_, _, versions) = seen.owners.entry(slot).or_insert_with(new);
            if versions.last() != Some(&number) {
                versions.push(number);
            }
        }
    }

    /// Notes chunks that this version may have lost.
    fn doubts(&mut self, version: &OpenVersion, column: usize) {
        let Some(parent) = self.seen.version(version.version.parent) else { return };
        if parent.extents == version.version.extents {
            return;
        }
        let Ok(parent) = self.open(parent) else { return };
        let tables =
            parent.columns.get(column).map(|_| (parent.table(column), version.table(column)));
        let Some((Ok(old), Ok(new))) = tables else { return };
        let noted = &version.version.columns[column];
        let (number, before) = (version.version.version, parent.version.version);
        for at in in_doubt((&parent, old), (version, new)) {
            let chunk = version.numbering.number(&at);
            let kept = new.find(chunk).map(|place| place.hash);
            let was = match kept {
                Some(_) => format!("as in version {before}"),
                None => "the fill value".to_owned(),
            };
            let problem = Problem {
                file: self.core.files.version_path(number),
                chunk: Some((noted.path.clone(), at)),
                versions: vec![number],
                message: format!(
                    "{was}, or lost: an early writer could lose the chunk of version {number} \
                     there"
                ),
            };
            let written = self.seen.next_before(number, column)..noted.next;
            self.doubts.push(Doubt { column, chunk, kept, written, problem });
        }
    }

    /// Doubts are problems if the lost chunk still exists.
    fn settle_doubts(&mut self) {
        for Doubt { column, chunk, kept, written, problem } in std::mem::take(&mut self.doubts) {
            let same = |other: &Problem| {
                (&other.chunk, &other.versions) == (&problem.chunk, &problem.versions)
            };
            if self.report.problems.iter().any(same) {
                continue;
            }
            match self.unnamed_slot(column, chunk, kept, written) {
                Some(slot) => {
                    let (path, at) = problem.chunk.unwrap_or_default();
                    let lost = self.lost(problem.versions[0], path, slot, at);
                    self.report.problems.push(lost);
                }
                None => self.report.doubts.push(problem),
            }
        }
    }

    /// A slot that was written for this chunk, with something else than is there now, in one of these superchunks
    /// that no version names: where one does, a compaction may have written it.
    fn unnamed_slot(
        &self,
        column: usize,
        chunk: u64,
        kept: Option<[u8; HASH]>,
        written: Range<u64>,
    ) -> Option<(u32, u32)> {
        let (files, path) = (&self.core.files, &self.core.columns[column].leaf.path);
        let (_, listed) = self.seen.listed.get(column)?;
        let names = listed.iter().filter_map(|path| path.file_name()?.to_str());
        let mut unnamed = names.filter_map(names::superchunk_number_of).filter(|number| {
            written.contains(&u64::from(*number)) && !self.columns[column].named.contains(number)
        });
        unnamed.find_map(|superchunk| {
            let slots = Slots::of(&*files.storage, &files.superchunk_path(path, superchunk))?;
            let slot = (0..).zip(&slots.chunks).find(|(_, of)| **of == chunk)?.0;
            let hash = self.hash_of(column, (superchunk, slot))?;
            (Some(hash) != kept).then_some((superchunk, slot))
        })
    }

    /// The problem with a slot that was written for a chunk of a version.
    fn lost(
        &self,
        version: u64,
        column: String,
        (superchunk, slot): (u32, u32),
        at: Vec<u64>,
    ) -> Problem {
        Problem {
            file: self.core.files.superchunk_path(&column, superchunk),
            chunk: Some((column, at)),
            versions: vec![version],
            message: format!(
                "written to slot {slot} for version {version}, which has something else there: the chunk was lost"
            ),
        }
    }

    /// Checks all superchunks of a column, on all threads.
    fn superchunks(
        &mut self,
        column: usize,
        compared: &mut BTreeMap<u32, BTreeSet<u32>>,
    ) -> Result<()> {
        let core = self.core;
        let path = &core.columns[column].leaf.path;
        let owners = std::mem::take(&mut self.columns[column].owners);
        self.report.chunks += owners.len() as u64;
        let mut by_file: BTreeMap<u32, Vec<Owner>> = BTreeMap::new();
        for ((superchunk, _), owner) in owners {
            by_file.entry(superchunk).or_default().push(owner);
        }
        let named = self.columns[column].named.iter();
        self.needed.extend(named.map(|n| core.files.superchunk_path(path, *n)));
        // An earlier pass has seen all of these slots, in a file that never changes.
        let is_new = |number: &u32, owners: &Vec<Owner>| {
            let seen = compared.get(number);
            seen.is_none_or(|seen| owners.iter().any(|(place, ..)| !seen.contains(&place.slot)))
        };
        by_file.retain(|number, owners| is_new(number, owners));
        let content = core.content(column)?;
        let found: Vec<Vec<Problem>> = core.run(|| {
            let check = |(number, owners): (&u32, &Vec<_>)| {
                check_superchunk(core, &content, *number, owners)
            };
            by_file.par_iter().map(check).collect()
        });
        for ((number, owners), problems) in by_file.iter().zip(found) {
            if problems.is_empty() && content.room == 0 {
                let slots = owners.iter().map(|(place, ..)| place.slot);
                compared.entry(*number).or_default().extend(slots);
            }
            self.report.problems.extend(problems);
        }
        Ok(())
    }

    /// Chunks that were written and that no version has, although none was removed.
    fn lost_chunks(&mut self) {
        let Some(history) = self.seen.whole_history() else { return };
        for column in 0..self.columns.len() {
            let mut lost = self.unconfirmed(column);
            for version in &history {
                let segments = version.columns.get(column).map(|column| &column.segments[..]);
                let table = segments.map(|segments| self.fresh.table(version.version, segments));
                // Without a table nothing can be told.
                let Some(Ok(table)) = table else { return };
                lost.retain(|written| {
                    table.find(written.chunk).is_none_or(|place| place.hash != written.hash)
                });
            }
            let problems: Vec<Problem> = lost
                .iter()
                .filter_map(|written| self.lost_chunk(&history, column, written))
                .collect();
            self.report.problems.extend(problems);
        }
    }

    /// The slots where no version has the chunk for which they were written.
    fn unconfirmed(&self, column: usize) -> Vec<Written> {
        let seen = &self.columns[column];
        let slots = seen.slots.iter().flat_map(|(superchunk, slots)| {
            let chunks = slots.iter().flat_map(|slots| &slots.chunks).copied();
            (0..).zip(chunks).map(move |(slot, chunk)| ((*superchunk, slot), chunk))
        });
        let unconfirmed = slots.filter(|(slot, _)| !seen.confirmed.contains(slot));
        let read = |(slot, chunk)| Some(Written { slot, chunk, hash: self.hash_of(column, slot)? });
        unconfirmed.filter_map(read).collect()
    }

    /// The problem with a slot whose content no version has at its chunk.
    fn lost_chunk(
        &self,
        history: &[&Version],
        column: usize,
        written: &Written,
    ) -> Option<Problem> {
        let (superchunk, _) = written.slot;
        let wrote = |version: &&&Version| u64::from(superchunk) < version.columns[column].next;
        let version = history.iter().find(wrote)?;
        let numbering = version.numbering().ok()?;
        if !numbering.is_within(written.chunk, &version.grid()) {
            return None;
        }
        let (number, path) = (version.version, version.columns[column].path.clone());
        Some(self.lost(number, path, written.slot, numbering.coordinates(written.chunk)))
    }

    /// The hash of the content of a slot.
    fn hash_of(&self, column: usize, (superchunk, slot): (u32, u32)) -> Option<[u8; HASH]> {
        let files = &self.core.files;
        let path = files.superchunk_path(&self.core.columns[column].leaf.path, superchunk);
        let file = SuperchunkFile::open(files.storage.open(&path).ok()?, path).ok()?;
        let place = Place { superchunk, slot, hash: [0; HASH] };
        let content = file.read(&place, Check::Nothing, &mut Scratch::default()).ok()?;
        Some(*blake3::hash(&content).as_bytes())
    }

    /// Whether the summaries match the newest version.
    fn summaries(&mut self) {
        let (files, dtype) = (self.core.files.clone(), &self.core.dtype);
        let names = [names::LOCK, names::SIZES, names::STORAGE, names::ATTRIBUTES];
        self.needed.extend(names.map(|name| files.path(name)));
        let Some((newest, Ok(version))) = self.seen.versions.last() else { return };
        for (at, (name, text)) in summaries(version, dtype).into_iter().enumerate() {
            let path = files.path(name);
            let found = read_summary(&*files.storage, &path);
            let says = |text: &str| found.as_deref() == Some(text.as_bytes());
            if says(&text) {
                continue;
            }
            let is_missing = matches!(files.storage.lstat(&path), Ok(None));
            let numbers = files.version_numbers().unwrap_or_default();
            if numbers.last() != Some(newest) {
                // It may belong to a version that was committed since.
                continue;
            }
            // The most recent ones are the most likely.
            let mut older = numbers.iter().rev().filter_map(|n| files.version(*n).ok());
            if is_missing || older.any(|version| says(&summaries(&version, dtype)[at].1)) {
                self.report.stale.push(path);
            } else if self.seen.is_complete() {
                // Else it may be the summary of a version that was removed since.
                let message = "expected the summary of the newest version, found another; the next writer renews it";
                let (chunk, versions, message) = (None, vec![*newest], message.to_owned());
                self.report.problems.push(Problem { file: path, chunk, versions, message });
            }
        }
    }

    fn unused(&mut self) {
        for (dir, files) in &self.seen.listed {
            let numbered = |path: &PathBuf| {
                let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
                names::number_of(name).is_some() || names::superchunk_number_of(name).is_some()
            };
            // A writer may have removed it since it was listed.
            let is_there = |path: &Path| !matches!(self.core.files.storage.lstat(path), Ok(None));
            let unused = files.iter().filter(|path| {
                let is_ours = numbered(path) || is_leftover(dir, path);
                is_ours && !self.needed.contains(*path) && is_there(path)
            });
            self.report.unused.extend(unused.cloned());
        }
    }
}
