//! [`ZipReader`]: files in a zip archive.

use std::borrow::Cow;
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ::zip::ZipArchive;
use ::zip::result::ZipError;

use super::files::{FileEntry, FileOptions, Files, too_large};
use super::pattern::{Filter, NamePattern, PathPattern};
use super::{Location, Reader, pack};
use crate::error::{Error, ErrorKind, Result};
use crate::format::msgpack::Value;
use crate::storage::{LocalStorage, Source, Storage};

/// Files in a zip archive as samples, in the order of its central directory: see [`FileOptions`]
/// for what is in them. Feature `zip`.
///
/// **Patterns** are matched against whole names by [`NamePattern`](super::NamePattern): `*` goes over `/`
/// and hidden files too. `{LABEL}` as a whole component is `*`, and the component of that number
/// is the label. **Keys** are names from the label on; whole names where there is no `{LABEL}`. In an
/// archive whose names have backslashes and no slash, as old tools on Windows write them, backslashes
/// are read as slashes.
///
/// Opening reads the central directory and nothing else. Entries are stored or deflated, and their
/// checksums compared whenever they are read. Nothing an archive says about sizes is believed
/// further than its own bytes can bear out.
///
/// ```no_run
/// use kiste::reader::{Reader, ZipReader};
///
/// let images = ZipReader::open("photos.zip", ["{LABEL}/*.jpg"])?;
/// println!("{} images of {} kinds", images.len(), images.label_values().len());
/// # Ok::<(), kiste::Error>(())
/// ```
pub struct ZipReader {
    directory: ZipDirectory,
    /// The number in the archive of each sample.
    members: Vec<usize>,
    files: Files,
    max_bytes: u64,
}

/// An archive whose central directory was read. Clones share it.
#[derive(Clone)]
pub(crate) struct ZipDirectory {
    path: PathBuf,
    source: Arc<Source>,
    archive: ZipArchive<Cursor>,
    /// The names of the members with slashes, where the archive has backslashes in their place.
    slashed: Option<Arc<[Box<str>]>>,
    /// Where the members are, or nothing if the directory is too large or makes no sense that way.
    extents: Arc<[Extent]>,
}

/// Where a member is, by the central directory alone.
struct Extent {
    /// From its header up to the next one.
    range: Range<u64>,
    /// The bytes of its content.
    compressed: u64,
}

/// Larger central directories are not read into memory.
const LARGEST_DIRECTORY: u64 = 1 << 30;

/// Bytes of remote members that are fetched together.
const TOGETHER: u64 = 64 << 20;

/// A pattern of names, and the component of it that is the label.
pub(crate) struct LabelPattern {
    names: NamePattern,
    label: Option<usize>,
}

impl ZipReader {
    /// The files of an archive that match any of these patterns. See [`FileOptions::open_zip`].
    pub fn open<S: AsRef<str>>(
        path: impl AsRef<Path>,
        patterns: impl IntoIterator<Item = S>,
    ) -> Result<ZipReader> {
        ZipReader::options().open_zip(path, patterns)
    }

    /// The options, to be changed before [`open_zip`](FileOptions::open_zip).
    pub fn options() -> FileOptions {
        FileOptions::default()
    }

    /// The path of the archive.
    pub fn path(&self) -> &Path {
        &self.directory.path
    }

    /// All labels by their numbers.
    pub fn label_values(&self) -> &[Value] {
        self.files.labels.labels()
    }

    /// The files.
    pub fn entries(&self) -> &[FileEntry] {
        &self.files.entries
    }

    /// The names of the files in the archive that are none of these.
    #[cfg(feature = "convert")]
    pub(crate) fn others(&self) -> Vec<&str> {
        let own: std::collections::HashSet<usize> = self.members.iter().copied().collect();
        let others = (0..self.directory.archive.len()).filter(|number| !own.contains(number));
        let names = others.filter_map(|number| self.directory.archive.name_for_index(number));
        names.filter(|name| !name.ends_with('/')).collect()
    }

    /// The bytes of the archive that a sample takes. Reads the header in front of them.
    fn range(&self, index: usize) -> Option<Range<u64>> {
        let mut archive = self.directory.archive.clone();
        let member = archive.by_index_raw(*self.members.get(index)?).ok()?;
        let start = member.data_start()?;
        Some(start..start.checked_add(member.compressed_size())?)
    }

    /// Whether reading a file may be a round trip over a network, which [`fetch`](Self::fetch) saves.
    pub(crate) fn is_remote(&self) -> bool {
        self.directory.source.is_remote()
    }

    /// Fetches the first of these files together, if the archive is remote: as many as have
    /// [`TOGETHER`] bytes, and at least one. Returns how many.
    pub(crate) fn fetch(&self, files: Range<usize>) -> Result<usize> {
        let mut ranges: Vec<Range<u64>> = Vec::with_capacity(files.len());
        let mut bytes = 0u64;
        for &member in &self.members[files] {
            let Some(range) = self.directory.extents.get(member).map(|of| of.range.clone()) else {
                break;
            };
            bytes = bytes.saturating_add(range.end - range.start);
            if bytes > TOGETHER && !ranges.is_empty() {
                break;
            }
            ranges.push(range);
        }
        self.directory.source.fetch(&ranges)?;
        Ok(ranges.len().max(1))
    }

    /// Fails if the files take more bytes than the archive has: then some share theirs, which no
    /// one does who does not want a small archive to fill disks.
    pub(crate) fn check_sizes(&self) -> Result<()> {
        let mut archive = self.directory.archive.clone();
        let mut sum = 0u64;
        for &member in &self.members {
            if let Some(of) = self.directory.extents.get(member) {
                sum = sum.saturating_add(of.compressed);
                continue;
            }
            let member = archive.by_index_raw(member).map_err(|e| blame(e).at(self.path()))?;
            sum = sum.saturating_add(member.compressed_size());
        }
        let len = self.directory.source.len();
        if sum > len {
            let message = format!("expected files that share no bytes, found {sum} bytes in {len}");
            return Err(Error::new(ErrorKind::Damaged, message).at(self.path()));
        }
        Ok(())
    }

    /// The bytes of a file.
    pub(crate) fn read(&self, index: usize) -> Result<Vec<u8>> {
        let entry = self.files.entry(index)?;
        let read = self.directory.read(self.members[index], self.max_bytes);
        read.map_err(|error| error.at(self.path()).with_key(&entry.key))
    }

    /// These members of an archive with these keys, in this order.
    #[cfg(feature = "convert")]
    pub(crate) fn of_members(
        directory: ZipDirectory,
        chosen: impl IntoIterator<Item = (usize, String)>,
        max_bytes: u64,
    ) -> Result<ZipReader> {
        let entry = |(member, key): (usize, String)| {
            let path = directory.name(member).unwrap_or_default().to_owned();
            (member, FileEntry { key, label: None, path, extra: Vec::new() })
        };
        let (members, entries) = chosen.into_iter().map(entry).unzip();
        let mut options = ZipReader::options().numeric_labels(false).max_bytes(max_bytes);
        let files = options.finish(entries).map_err(|e| e.at(&directory.path))?;
        Ok(ZipReader { max_bytes: options.max_bytes, directory, members, files })
    }
}

/// How much longer than its input the output of deflate can be, and some more for stored bytes.
const MAX_RATIO: u64 = 1040;

impl FileOptions {
    /// Lists the files of an archive that match any of these patterns; the first that does
    /// decides. No file is no error.
    ///
    /// # Errors
    ///
    /// [`Damaged`](ErrorKind::Damaged) if it is not an archive, or has one name twice;
    /// [`Unsupported`](ErrorKind::Unsupported) for encryption and archives in several parts; and
    /// the errors of [`open`](Self::open). Compression that is not supported is an error when an
    /// entry is read.
    pub fn open_zip<S: AsRef<str>>(
        self,
        path: impl AsRef<Path>,
        patterns: impl IntoIterator<Item = S>,
    ) -> Result<ZipReader> {
        self.open_zip_in(&LocalStorage::mapped(), path, patterns)
    }

    /// As [`open_zip`](Self::open_zip), of an archive on another storage.
    pub fn open_zip_in<S: AsRef<str>>(
        self,
        storage: &dyn Storage,
        path: impl AsRef<Path>,
        patterns: impl IntoIterator<Item = S>,
    ) -> Result<ZipReader> {
        let patterns = LabelPattern::all(patterns)?;
        self.open_directory(ZipDirectory::open(storage, path.as_ref())?, &patterns)
    }

    /// The same of an archive whose directory was read before.
    pub(crate) fn open_directory(
        mut self,
        directory: ZipDirectory,
        patterns: &[LabelPattern],
    ) -> Result<ZipReader> {
        let listed = directory.list(patterns, &self.filter);
        let (members, entries) =
            listed.map(|(number, name, label)| (number, entry(name, label))).unzip();
        let max_bytes = self.max_bytes;
        let files = self.finish(entries).map_err(|e| e.at(&directory.path))?;
        Ok(ZipReader { directory, members, files, max_bytes })
    }
}

impl ZipDirectory {
    pub(crate) fn open(storage: &dyn Storage, path: &Path) -> Result<ZipDirectory> {
        let source = storage.open(path)?;
        let source = Arc::new(source);
        let end = End::find(&source).map_err(|e| e.at(path))?;
        let directory = end.directory.clone();
        if source.is_remote() {
            // With some bytes around it, which are looked at as well.
            let around = directory.start.saturating_sub(MARGIN)..source.len();
            source.fetch(std::slice::from_ref(&around))?;
        }
        let archive = open_archive(&source, end).map_err(|e| e.at(path))?;
        let mut extents = Vec::new();
        let start = archive.central_directory_start();
        // Without them remote members are only fetched one by one, and all sizes are read from the headers in front of
        // the members.
        if directory.end.saturating_sub(start) <= LARGEST_DIRECTORY {
            // If this fails, the entries are read without being fetched before.
            if let Ok(bytes) = source.read(start..directory.end.max(start)) {
                let found = extents_of(&bytes, start, archive.offset());
                extents = found.filter(|found| found.len() == archive.len()).unwrap_or_default();
            }
        }
        let (path, extents, slashed) = (path.to_path_buf(), extents.into(), slashed(&archive));
        Ok(ZipDirectory { path, source, archive, slashed, extents })
    }

    /// The path of the archive.
    #[cfg(feature = "convert")]
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The name of a member.
    pub(crate) fn name(&self, number: usize) -> Option<&str> {
        match &self.slashed {
            Some(names) => names.get(number).map(|name| &**name),
            None => self.archive.name_for_index(number),
        }
    }

    /// How many names had backslashes that were read as slashes, and the first of them.
    #[cfg(feature = "convert")]
    pub(crate) fn backslashed(&self) -> Option<(u64, &str)> {
        self.slashed.as_ref()?;
        let names = (0..self.archive.len()).filter_map(|at| self.archive.name_for_index(at));
        let mut names = names.filter(|name| name.contains('\\'));
        let count = names.clone().count() as u64;
        names.next().map(|first| (count, first))
    }

    /// The bytes of a member.
    pub(crate) fn read(&self, number: usize, max_bytes: u64) -> Result<Vec<u8>> {
        let mut archive = self.archive.clone();
        let member = archive.by_index(number).map_err(blame)?;
        let size = member.size();
        if size > max_bytes {
            return Err(too_large(size, max_bytes));
        }
        // The claimed size, but not more than the compressed bytes can become.
        let bound = member.compressed_size().saturating_mul(MAX_RATIO).min(size);
        let mut data = Vec::with_capacity(usize::try_from(bound).unwrap_or(0));
        member.take(size + 1).read_to_end(&mut data).map_err(blame_io)?;
        if data.len() as u64 != size {
            let found =
                if data.len() as u64 > size { "more".into() } else { data.len().to_string() };
            let message = format!("expected {size} bytes, found {found}");
            return Err(Error::new(ErrorKind::Damaged, message));
        }
        Ok(data)
    }

    /// The files that match any of the patterns and that the filter keeps: number and name, and the
    /// component of the name that is the label.
    pub(crate) fn list(
        &self,
        patterns: &[LabelPattern],
        filter: &Filter,
    ) -> impl Iterator<Item = (usize, &str, Option<usize>)> {
        (0..self.archive.len()).filter_map(move |number| {
            let name = self.name(number)?;
            let matching = patterns.iter().find(|pattern| pattern.names.matches(name))?;
            // Directories have names that end like this.
            let kept = !name.ends_with('/') && filter.keeps(name);
            kept.then_some((number, name, matching.label))
        })
    }
}

/// The names of an archive with slashes in place of backslashes. Those were meant as such if there are no
/// slashes: the format has no others.
fn slashed(archive: &ZipArchive<Cursor>) -> Option<Arc<[Box<str>]>> {
    let names = || (0..archive.len()).map(|at| archive.name_for_index(at).unwrap_or_default());
    let is_meant =
        names().any(|name| name.contains('\\')) && !names().any(|name| name.contains('/'));
    is_meant.then(|| names().map(|name| name.replace('\\', "/").into()).collect())
}

impl LabelPattern {
    pub(crate) fn all<S: AsRef<str>>(
        patterns: impl IntoIterator<Item = S>,
    ) -> Result<Vec<LabelPattern>> {
        let parse = |pattern: S| {
            let pattern = PathPattern::parse(pattern.as_ref())?;
            let names = NamePattern::new(&pattern.components().join("/"));
            Ok(LabelPattern { names, label: pattern.label() })
        };
        patterns.into_iter().map(parse).collect()
    }
}

/// The entry of a name that matched a pattern with the label at this component.
fn entry(name: &str, label: Option<usize>) -> FileEntry {
    let path = name.to_string();
    let Some(at) = label else {
        return FileEntry { key: path.clone(), label: None, path, extra: vec![] };
    };
    // The pattern has as many slashes before the label, so the name does.
    let key = name.splitn(at + 1, '/').nth(at).unwrap_or(name).to_string();
    let label = key.split('/').next().map(str::to_string);
    FileEntry { key, label, path, extra: vec![] }
}

/// Where the members are by these entries of the central directory, which begins at `directory`; `offset`
/// bytes are in front of the archive. `None` if the entries make no sense.
fn extents_of(entries: &[u8], directory: u64, offset: u64) -> Option<Vec<Extent>> {
    let mut found = Vec::new();
    let mut rest = entries;
    while rest.starts_with(b"PK\x01\x02") {
        let short = |at: usize| Some(u16::from_le_bytes(*rest.get(at..)?.first_chunk()?).into());
        let long = |at: usize| Some(u64::from(u32::from_le_bytes(*rest.get(at..)?.first_chunk()?)));
        let [name, extra, comment]: [usize; 3] = [short(28)?, short(30)?, short(32)?];
        let (size, mut compressed, mut start) = (long(24)?, long(20)?, long(42)?);
        let extras = MIN_HEADER as usize + name;
        let mut more = rest.get(extras..extras + extra)?;
        while let Some(&[id0, id1, len0, len1]) = more.first_chunk() {
            let len = usize::from(u16::from_le_bytes([len0, len1]));
            let mut values = more.get(4..4 + len)?.chunks_exact(8);
            if [id0, id1] == [1, 0] {
                // Only what does not fit in its field, in this order.
                let mut larger = |field: u64| match field {
                    0xffff_ffff => Some(u64::from_le_bytes(values.next()?.try_into().ok()?)),
                    field => Some(field),
                };
                larger(size)?;
                (compressed, start) = (larger(compressed)?, larger(start)?);
            }
            more = &more[4 + len..];
        }
        let start = start.checked_add(offset).filter(|start| *start < directory)?;
        found.push(Extent { range: start..directory, compressed });
        rest = rest.get(extras + extra + comment..)?;
    }
    let mut starts: Vec<u64> = found.iter().map(|extent| extent.range.start).collect();
    starts.sort_unstable();
    for extent in &mut found {
        let next = starts.partition_point(|start| *start <= extent.range.start);
        extent.range.end = starts.get(next).copied().unwrap_or(directory);
    }
    Some(found)
}

/// Opens the archive, once its end promises no more than can be there.
fn open_archive(source: &Arc<Source>, end: End) -> Result<ZipArchive<Cursor>> {
    let (promised, opening) = (end.entries, Arc::new(AtomicBool::new(true)));
    let ends = Arc::new(Ends { only: end, opening: opening.clone() });
    let cursor = Cursor { source: source.clone(), position: 0, ends };
    let archive = ZipArchive::new(cursor).map_err(blame)?;
    opening.store(false, Ordering::Relaxed);
    // If entries share a name, only the last would be there.
    if archive.len() as u64 != promised {
        let found = archive.len();
        let message = format!("expected {promised} entries of different names, found {found}");
        return Err(Error::new(ErrorKind::Damaged, message));
    }
    Ok(archive)
}

/// Bytes in front of the central directory that are fetched with it: a mark may begin there.
const MARGIN: u64 = 4;
/// The least bytes of an entry in the central directory.
const MIN_HEADER: u64 = 46;
/// The record at the end without its comment, which is at most 65535 bytes.
const END_LEN: usize = 22;
const END_MAGIC: &[u8] = b"PK\x05\x06";
const LOCATOR_LEN: usize = 20;
const END64_MAGIC: &[u8] = b"PK\x06\x06";

/// That record is at least so long.
const END64_LEN: u64 = 56;

/// The end of an archive.
struct End {
    /// How many entries it promises. Memory is reserved for as many, so they must fit in the file.
    entries: u64,
    /// Where its record is.
    at: u64,
    /// Where the longer one of large archives is.
    at64: Option<u64>,
    /// Where the central directory should be, by its length.
    directory: Range<u64>,
}

impl End {
    fn find(source: &Source) -> Result<End> {
        let none = || Error::new(ErrorKind::Damaged, "expected a zip archive, found no end of one");
        let len = source.len();
        let tail = (END_LEN + LOCATOR_LEN + usize::from(u16::MAX)) as u64;
        let start = len.saturating_sub(tail);
        let tail = source.read(start..len)?;
        let at = (0..=tail.len().checked_sub(END_LEN).ok_or_else(none)?)
            .rev()
            .find(|&at| tail[at..].starts_with(END_MAGIC))
            .ok_or_else(none)?;
        let mut end = End {
            entries: u64::from(u16::from_le_bytes([tail[at + 10], tail[at + 11]])),
            at: start + at as u64,
            at64: None,
            directory: 0..0,
        };
        let size = u32::from_le_bytes([tail[at + 12], tail[at + 13], tail[at + 14], tail[at + 15]]);
        end.directory = end.at.saturating_sub(size.into())..end.at;
        let locator = at.checked_sub(LOCATOR_LEN).map(|from| &tail[from..at]);
        if let Some([b'P', b'K', 6, 7, _, _, _, _, o0, o1, o2, o3, o4, o5, o6, o7, ..]) = locator {
            let offset = u64::from_le_bytes([*o0, *o1, *o2, *o3, *o4, *o5, *o6, *o7]);
            // Where the locator says; or, if something was put in front of the archive, at the end.
            let last = end.at.checked_sub(LOCATOR_LEN as u64 + END64_LEN);
            for at in [Some(offset), last].into_iter().flatten() {
                let bytes = at.checked_add(48).and_then(|end| source.read(at..end).ok());
                let Some(record) = bytes.filter(|record| record.starts_with(END64_MAGIC)) else {
                    continue;
                };
                let number = |bytes: &[u8]| bytes.try_into().ok().map(u64::from_le_bytes);
                end.entries = record.get(32..40).and_then(number).ok_or_else(none)?;
                let size = record.get(40..48).and_then(number).ok_or_else(none)?;
                end.directory = at.saturating_sub(size)..at;
                end.at64 = Some(at);
                break;
            }
        }
        match end.entries.checked_mul(MIN_HEADER) {
            Some(size) if size <= len => Ok(end),
            _ => {
                let entries = end.entries;
                let message = format!("{entries} entries do not fit in an archive of {len} bytes");
                Err(Error::new(ErrorKind::Damaged, message))
            }
        }
    }
}

/// While an archive is opened there is no other end than the one whose promise was looked at: where
/// that one is wrong, the archive library would try others, and believe them.
struct Ends {
    only: End,
    opening: Arc<AtomicBool>,
}

impl Ends {
    /// Removes all others from these bytes.
    fn hide(&self, source: &Source, from: u64, bytes: &mut [u8]) -> io::Result<()> {
        if !self.opening.load(Ordering::Relaxed) {
            return Ok(());
        }
        // A mark may begin before them, or end after them.
        let start = from.saturating_sub(3);
        let end = from.saturating_add(bytes.len() as u64 + 3).min(source.len());
        let around = source.read(start..end)?;
        for (at, mark) in (start..).zip(around.windows(4)) {
            let other = (mark == END_MAGIC && at != self.only.at)
                || (mark == END64_MAGIC && Some(at) != self.only.at64);
            if other {
                for at in (at..at + 4).filter_map(|at| at.checked_sub(from)) {
                    if let Some(byte) = bytes.get_mut(at as usize) {
                        *byte = 0;
                    }
                }
            }
        }
        Ok(())
    }
}

impl Reader for ZipReader {
    fn len(&self) -> usize {
        self.files.entries.len()
    }

    fn key(&self, index: usize) -> Result<Cow<'_, str>> {
        self.files.key(index)
    }

    fn find(&self, key: &str) -> Result<Option<usize>> {
        Ok(self.files.find(key))
    }

    fn may_repeat_keys(&self) -> bool {
        false
    }

    fn get_raw(&self, index: usize) -> Result<Cow<'_, [u8]>> {
        Ok(Cow::Owned(self.files.pack(index, &self.read(index)?)?))
    }

    /// Only `data` needs the file.
    fn field_raw(&self, index: usize, name: &str) -> Result<Option<Cow<'_, [u8]>>> {
        if name != "data" {
            return self.files.field(index, name);
        }
        let data = self.read(index)?;
        let mut out = Vec::with_capacity(data.len() + 8);
        pack::bin(&data, &mut out)?;
        Ok(Some(Cow::Owned(out)))
    }

    fn labels(&self) -> Result<Option<Vec<String>>> {
        Ok(self.files.label_names())
    }

    /// The bytes are those that the file takes in the archive.
    fn locate(&self, index: usize) -> Location {
        let path = Some(self.directory.path.clone());
        Location { path, index: index as u64, range: self.range(index) }
    }

    fn prefetch(&self, indices: &[usize]) {
        for &index in indices {
            if let Some(range) = self.range(index) {
                self.directory.source.will_need(range);
            }
        }
    }
}

fn blame(error: ZipError) -> Error {
    let kind = match error {
        ZipError::Io(e) => return blame_io(e),
        ZipError::UnsupportedArchive(_) => ErrorKind::Unsupported,
        _ => ErrorKind::Damaged,
    };
    Error::new(kind, error.to_string())
}

/// An error of the storage below stays what it is.
fn blame_io(error: io::Error) -> Error {
    error.downcast().unwrap_or_else(|error| Error::new(kind_of(&error), error.to_string()))
}

/// Bytes that end too early or do not decompress are the fault of the file.
fn kind_of(error: &io::Error) -> ErrorKind {
    match error.kind() {
        io::ErrorKind::InvalidData
        | io::ErrorKind::InvalidInput
        | io::ErrorKind::UnexpectedEof
        | io::ErrorKind::Other => ErrorKind::Damaged,
        _ => ErrorKind::Io,
    }
}

/// A position in an archive that many share.
#[derive(Clone)]
struct Cursor {
    source: Arc<Source>,
    position: u64,
    ends: Arc<Ends>,
}

impl Read for Cursor {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let left = self.source.len().saturating_sub(self.position);
        let len = usize::try_from(left).unwrap_or(usize::MAX).min(buf.len());
        if len == 0 {
            return Ok(0);
        }
        let bytes = self.source.read(self.position..self.position + len as u64)?;
        buf[..len].copy_from_slice(&bytes);
        self.ends.hide(&self.source, self.position, &mut buf[..len])?;
        self.position += len as u64;
        Ok(len)
    }
}

impl Seek for Cursor {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let position = match to {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::End(by) => self.source.len().checked_add_signed(by),
            SeekFrom::Current(by) => self.position.checked_add_signed(by),
        };
        let outside = || io::Error::new(io::ErrorKind::InvalidInput, "a seek beyond all bounds");
        self.position = position.ok_or_else(outside)?;
        Ok(self.position)
    }
}
