//! [`scan`]: where the records of a file begin, and the names that tell their keys without their contents.

use std::collections::HashSet;
use std::sync::Arc;

#[cfg(feature = "parquet")]
use super::arrow::{Walked, walk};
use crate::error::{Error, ErrorKind, Result};
use crate::format::FormatError;
use crate::format::in_place::{Frame, Kind};
use crate::format::jsonl::{array, lines};
use crate::format::tar::{ArchiveBytes, BLOCK, Ending, Entries};
#[cfg(feature = "formats")]
use crate::format::tfrecord::{self, FOOTER, HEADER};
use crate::format::webdataset::meaning::Note;
use crate::format::webdataset::record::key_and_field;
use crate::storage::Source;

/// Bytes that are read ahead where a file is not mapped: on a disk, and behind a URL, where a request costs more than
/// this many.
const AHEAD: (u64, u64) = (1 << 16, 1 << 18);
/// Bytes of lines that are looked at together.
const LINES: u64 = 4 << 20;

/// A sample that was found.
#[derive(Debug)]
pub(super) struct Found {
    /// Where it begins: a byte, or of Arrow IPC a row.
    pub(super) at: u64,
    /// The number of its record in the file.
    pub(super) record: u64,
    /// The name that is its key, if the file says so outside of the sample.
    pub(super) name: Option<String>,
    /// Why it is an error.
    pub(super) flaw: Option<Error>,
}

impl Found {
    fn new(at: u64, record: u64) -> Found {
        Found { at, record, name: None, flaw: None }
    }
}

/// A file whose samples are being looked for.
pub(super) struct Scanned {
    way: Way,
    /// What its records need.
    pub(super) frame: Option<Frame>,
    /// What belongs to no sample: how many, and what it is.
    pub(super) outside: u64,
    pub(super) after_end: u64,
    pub(super) no_end_mark: bool,
    done: bool,
}

enum Way {
    Tar(Box<Tar>),
    Lines {
        at: u64,
        record: u64,
        len: u64,
        max_bytes: u64,
    },
    #[cfg(feature = "formats")]
    TfRecord {
        bytes: Forward,
        record: u64,
        max_bytes: u64,
    },
    /// The places of all.
    Known(std::vec::IntoIter<u64>, u64),
    #[cfg(feature = "parquet")]
    Arrow {
        rows: std::ops::Range<u64>,
        batches: Vec<(u64, u64, u64)>,
        labels: Option<Vec<String>>,
    },
}

struct Tar {
    entries: Entries<Forward>,
    note: Option<Note>,
    /// The last name, and where its sample begins; the names of its files.
    group: Option<(Found, HashSet<String>)>,
    refused: Option<(String, u64, Error)>,
}

/// The bytes of a file, forwards.
pub(super) struct Forward {
    source: Arc<Source>,
    at: u64,
    ahead: Vec<u8>,
    ahead_at: u64,
}

impl Forward {
    fn new(source: Arc<Source>) -> Forward {
        Forward { source, at: 0, ahead: Vec::new(), ahead_at: 0 }
    }

    /// The next bytes: as many, or fewer at the end.
    fn next(&mut self, len: u64) -> Result<&[u8]> {
        let end = self.at.saturating_add(len).min(self.source.len());
        let start = self.at.min(end);
        self.at = end;
        if self.source.mapped().is_some() {
            let bytes = self.source.mapped().unwrap_or_default();
            return Ok(&bytes[start as usize..end as usize]);
        }
        let ahead_end = self.ahead_at + self.ahead.len() as u64;
        if start < self.ahead_at || end > ahead_end {
            let is_remote = self.source.is_remote();
            let step = if is_remote { AHEAD.1 } else { AHEAD.0 };
            // A server is read from front to back past small files, so that what comes next is on its way already.
            let is_near = is_remote && (ahead_end..ahead_end.saturating_add(step)).contains(&start);
            let from = if is_near { ahead_end } else { start };
            let until = end.max(from.saturating_add(step)).min(self.source.len());
            self.ahead = self.source.read(from..until)?.into_owned();
            self.ahead_at = from;
        }
        let from = (start - self.ahead_at) as usize;
        Ok(&self.ahead[from..from + (end - start) as usize])
    }
}

impl ArchiveBytes for Forward {
    type Content = Vec<u8>;

    fn fill(&mut self, block: &mut [u8; BLOCK]) -> Result<usize> {
        let bytes = self.next(BLOCK as u64)?;
        block[..bytes.len()].copy_from_slice(bytes);
        Ok(bytes.len())
    }

    fn take(&mut self, size: u64) -> Result<Vec<u8>> {
        self.next(size).map(<[u8]>::to_vec)
    }

    fn pass(&mut self, size: u64) -> Result<u64> {
        let there = self.source.len().saturating_sub(self.at).min(size);
        self.at += there;
        Ok(there)
    }
}

/// Begins with a file of this kind. `stops` says whether a tar archive must have an end mark.
pub(super) fn scan(
    kind: Kind,
    source: &Arc<Source>,
    frame: Option<Frame>,
    max_bytes: u64,
    stops: bool,
) -> Result<Scanned> {
    refuse_others(source, kind)?;
    let (mut frame, mut behind) = (frame, 0);
    let way = match kind {
        Kind::WebDataset => {
            let entries = Entries::new(Forward::new(source.clone()), 0, max_bytes);
            let entries = entries.open_end(!stops);
            Way::Tar(Box::new(Tar { entries, note: None, group: None, refused: None }))
        }
        Kind::Jsonl => Way::Lines { at: 0, record: 0, len: source.len(), max_bytes },
        #[cfg(feature = "formats")]
        Kind::TfRecord => {
            Way::TfRecord { bytes: Forward::new(source.clone()), record: 0, max_bytes }
        }
        Kind::Mds => Way::Known(mds(source, &mut frame)?.into_iter(), 0),
        #[cfg(feature = "parquet")]
        Kind::Arrow => {
            let Walked { schema, batches, labels, after_end: rest } = walk(source, max_bytes)?;
            behind = rest;
            frame = Some(Frame { schema: Some(schema), ..Frame::default() });
            let rows = batches.last().map_or(0, |(_, _, rows)| *rows);
            Way::Arrow { rows: 0..rows, batches, labels }
        }
        #[allow(unreachable_patterns, reason = "unless a feature is off")]
        _ => {
            let message = format!("{} is not in this build", kind.name());
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
    };
    let (outside, after_end, no_end_mark) = (0, std::mem::take(&mut behind), false);
    Ok(Scanned { way, frame, outside, after_end, no_end_mark, done: false })
}

/// Fails for a file whose samples have no places of their own, such as one that is compressed.
fn refuse_others(source: &Source, kind: Kind) -> Result<()> {
    let head = source.read(0..source.len().min(array::MAX_HELD as u64))?;
    let found = match &*head {
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] if kind == Kind::Jsonl => "text in UTF-16",
        head if kind == Kind::Jsonl && array::begins(head) => "one array of objects",
        [0x1f, 0x8b, ..] => "gzip",
        [0x28, 0xb5, 0x2f, 0xfd, ..] => "Zstandard",
        [b'B', b'Z', b'h', b'1'..=b'9', ..] => "bzip2",
        [b'P', b'A', b'R', b'1', ..] => "Parquet",
        _ => return Ok(()),
    };
    let message = format!("expected a file with samples at places of their own, found {found}");
    Err(Error::new(ErrorKind::Unsupported, message).advise("convert it instead: kiste convert"))
}

/// Where the samples of an MDS shard begin.
fn mds(source: &Source, frame: &mut Option<Frame>) -> Result<Vec<u64>> {
    let error = |position: u64, expected: &str, found: String| {
        Error::from(FormatError::new(position, expected, found))
    };
    let word = |bytes: &[u8], at: usize| {
        bytes.get(at..).and_then(|rest| rest.first_chunk().copied()).map(u32::from_le_bytes)
    };
    let head = source.read(0..source.len().min(4))?;
    let count = word(&head, 0).map(u64::from);
    let count =
        count.ok_or_else(|| error(0, "a shard of MDS", format!("{} bytes", source.len())))?;
    let table = 4 * (count + 2);
    if table > source.len() {
        return Err(error(0, "as many samples as the file has room for", count.to_string()));
    }
    let bytes = source.read(4..table)?;
    let mut places = Vec::with_capacity(count as usize);
    let mut last = table;
    for at in 0..=count {
        let place = word(&bytes, at as usize * 4).map_or(0, u64::from);
        if place < last || place > source.len() {
            let expected = format!("an offset from {last} to {}", source.len());
            return Err(error(4 + 4 * at, &expected, place.to_string()));
        }
        last = place;
        if at < count {
            places.push(place);
        }
    }
    if last != source.len() {
        let expected = format!("the end of the last sample at {}", source.len());
        return Err(error(4 + 4 * count, &expected, last.to_string()));
    }
    // What is between the table and the first sample says whether JSON has our notation.
    if let (Some(frame), Some(first)) = (frame.as_mut(), places.first()) {
        let config = source.read(table..*first)?;
        let config: serde_json::Value = serde_json::from_slice(&config).unwrap_or_default();
        frame.notation = config["kiste"]["json"] == 1;
    }
    Ok(places)
}

impl Scanned {
    /// Whether there are no more samples.
    pub(super) fn is_done(&self) -> bool {
        self.done
    }

    /// How many samples there are, where that is known at once.
    pub(super) fn count(&self) -> u64 {
        match &self.way {
            Way::Known(places, before) => places.len() as u64 + before,
            _ => 0,
        }
    }

    /// The batches of Arrow IPC.
    pub(super) fn batches(&self) -> Vec<(u64, u64, u64)> {
        match &self.way {
            #[cfg(feature = "parquet")]
            Way::Arrow { batches, .. } => batches.clone(),
            _ => Vec::new(),
        }
    }

    /// The names of labels that a file knows.
    pub(super) fn labels(&self) -> Option<&[String]> {
        match &self.way {
            #[cfg(feature = "parquet")]
            Way::Arrow { labels, .. } => labels.as_deref(),
            _ => None,
        }
    }

    /// The next samples, about this many.
    pub(super) fn next(&mut self, source: &Source, most: usize) -> Result<Vec<Found>> {
        let mut found = Vec::new();
        while found.len() < most && !self.done {
            self.step(source, most, &mut found)?;
        }
        Ok(found)
    }

    fn step(&mut self, source: &Source, most: usize, found: &mut Vec<Found>) -> Result<()> {
        match &mut self.way {
            Way::Tar(tar) => {
                let more = tar.step(found, &mut self.outside)?;
                if tar.note.is_some() && self.frame.is_none() {
                    self.frame = tar.frame();
                }
                if !more {
                    self.done = true;
                    match tar.entries.ending() {
                        Ending::Marked => {}
                        Ending::Unmarked => self.no_end_mark = true,
                        Ending::Foreign { bytes, .. } => self.after_end = bytes,
                    }
                }
            }
            Way::Lines { at, record, len, max_bytes } => {
                self.done = find_lines(source, (at, record, *len), *max_bytes, found)?;
            }
            #[cfg(feature = "formats")]
            Way::TfRecord { bytes, record, max_bytes } => {
                self.done = !find_record(bytes, record, *max_bytes, found)?;
            }
            Way::Known(places, record) => {
                for at in places.by_ref().take(most) {
                    found.push(Found::new(at, *record));
                    *record += 1;
                }
                self.done = places.len() == 0;
            }
            #[cfg(feature = "parquet")]
            Way::Arrow { rows, .. } => {
                found.extend(rows.by_ref().take(most).map(|row| Found::new(row, row)));
                self.done = rows.is_empty();
            }
        }
        Ok(())
    }
}

impl Tar {
    /// The note of kiste as the frame of the shard.
    fn frame(&self) -> Option<Frame> {
        let note = self.note.as_ref()?.to_record();
        Some(Frame { note: Some(note), ..Frame::default() })
    }

    /// Reads a header. False at the end.
    fn step(&mut self, found: &mut Vec<Found>, outside: &mut u64) -> Result<bool> {
        let Some((entry, flaw)) = self.entries.next()? else {
            self.end(found);
            return Ok(false);
        };
        match self.entries.take_global() {
            Some((0, records)) => self.note = Note::of(&records)?,
            Some((_, records)) => {
                if Note::of(&records).ok().flatten() != self.note {
                    let message = "expected one shard, found several in one archive that differ";
                    return Err(Error::new(ErrorKind::Unsupported, message));
                }
                // A sample ends with its archive.
                self.end(found);
            }
            None => {}
        }
        let Some((key, suffix)) = key_and_field(&entry.name) else {
            match flaw {
                Some(flaw) => found.push(Found { flaw: Some(flaw), ..Found::new(entry.start, 0) }),
                None => {
                    *outside += 1;
                    self.entries.skip(entry.size)?;
                }
            }
            return Ok(true);
        };
        let is_same =
            self.group.as_ref().is_some_and(|(group, _)| group.name.as_deref() == Some(key));
        match (is_same, flaw) {
            (true, Some(flaw)) => self.refuse(flaw),
            (false, Some(flaw)) => {
                if self.refused.as_ref().is_none_or(|(known, ..)| known != key) {
                    self.tell(found);
                    self.refused = Some((key.to_owned(), entry.start, flaw));
                }
            }
            (true, None) => {
                self.tell(found);
                self.add(suffix);
                self.entries.skip(entry.size)?;
            }
            (false, None) => {
                let known = self.refused.take_if(|(known, ..)| known == key);
                self.end(found);
                let (at, flaw) = match known {
                    Some((_, at, flaw)) => (at, Some(flaw)),
                    None => (entry.start, None),
                };
                let group = Found { name: Some(key.to_owned()), flaw, ..Found::new(at, 0) };
                self.group = Some((group, HashSet::new()));
                self.add(suffix);
                self.entries.skip(entry.size)?;
            }
        }
        Ok(true)
    }

    fn refuse(&mut self, flaw: Error) {
        if let Some((group, _)) = &mut self.group {
            group.flaw.get_or_insert(flaw);
        }
    }

    fn add(&mut self, suffix: &str) {
        let Some((_, names)) = &mut self.group else { return };
        if !names.insert(suffix.to_lowercase()) {
            let message = format!("expected one file {suffix:?} of a sample, found two");
            self.refuse(Error::new(ErrorKind::Damaged, message));
        }
    }

    /// Hands out the sample that is complete, and what was refused before it.
    fn end(&mut self, found: &mut Vec<Found>) {
        let note = self.note.as_ref();
        if let Some((mut group, _)) = self.group.take() {
            let key = group.name.take();
            let key = key.map(|name| crate::format::webdataset::record::key(&name, note));
            let flaw = group.flaw.map(|flaw| match &key {
                Some(key) => flaw.with_key(&key[..]),
                None => flaw,
            });
            found.push(Found { name: key, flaw, ..group });
        }
        self.tell(found);
    }

    fn tell(&mut self, found: &mut Vec<Found>) {
        if let Some((key, at, flaw)) = self.refused.take() {
            found.push(Found { flaw: Some(flaw.with_key(key)), ..Found::new(at, 0) });
        }
    }
}

/// The lines that begin in the next bytes. True at the end.
fn find_lines(
    source: &Source,
    (at, record, len): (&mut u64, &mut u64, u64),
    max_bytes: u64,
    found: &mut Vec<Found>,
) -> Result<bool> {
    let mut want = LINES;
    while *at < len {
        let end = at.saturating_add(want).min(len);
        let bytes = source.read(*at..end)?;
        // Lines that are whole.
        let whole = match (memchr::memrchr(b'\n', &bytes), end == len) {
            (_, true) => bytes.len(),
            (Some(last), false) => last + 1,
            (None, false) if want > max_bytes => {
                let message = format!("expected at most {max_bytes} bytes, found more");
                return Err(Error::above_limit("max_bytes", message)
                    .within(format_args!("line {}", *record + 1)));
            }
            (None, false) => {
                want = want.saturating_mul(4);
                continue;
            }
        };
        let mut begin = 0;
        while begin < whole {
            let rest = &bytes[begin..whole];
            let line = memchr::memchr(b'\n', rest).map_or(rest.len(), |end| end + 1);
            if !lines::is_empty(&rest[..line]) {
                found.push(Found::new(*at + begin as u64, *record));
            }
            *record += 1;
            begin += line;
        }
        *at += whole as u64;
        return Ok(*at >= len);
    }
    Ok(true)
}

/// The next record of a TFRecord file, by its header. False at the end.
#[cfg(feature = "formats")]
fn find_record(
    bytes: &mut Forward,
    record: &mut u64,
    max_bytes: u64,
    found: &mut Vec<Found>,
) -> Result<bool> {
    let at = bytes.at;
    let header = bytes.next(HEADER as u64)?;
    if header.is_empty() {
        return Ok(false);
    }
    let cut =
        |found: u64| Error::from(FormatError::new(at, "a whole record", format!("{found} bytes")));
    let header = header.first_chunk::<HEADER>().ok_or_else(|| cut(header.len() as u64))?;
    let length = tfrecord::parse_header(header).map_err(|error| Error::from(error.behind(at)))?;
    let rest = length.saturating_add(FOOTER as u64);
    let there = bytes.pass(rest)?;
    if there < rest {
        return Err(cut(there + HEADER as u64));
    }
    let flaw = (length > max_bytes).then(|| {
        let message = format!("expected a record of at most {max_bytes} bytes, found {length}");
        Error::above_limit("max_bytes", message)
            .within(format_args!("record {record} at byte {at}"))
    });
    found.push(Found { flaw, ..Found::new(at, *record) });
    *record += 1;
    Ok(true)
}
