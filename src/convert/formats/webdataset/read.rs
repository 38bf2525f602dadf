//! Reads samples from shards of WebDataset.

use std::io::Read;
use std::path::Path;

use crate::convert::archive::Archive;
use crate::convert::carried::LeftOut;
use crate::convert::file_names::is_image_extension;
use crate::convert::formats::files::{InputFiles, options_of_files, units_are_ranges};
use crate::convert::formats::image_bytes::flaw;
use crate::convert::formats::ranges::{Begin, Range, STEP, end_of_walk};
use crate::convert::formats::streamed::Steps;
use crate::convert::input::{Emit, Input};
use crate::error::{Error, ErrorKind, Result};
use crate::format::sample_fields::{pack, stored_name};
use crate::format::tar::Ending;
use crate::format::webdataset::meaning::Note;
use crate::format::webdataset::record::{Group, fields, key, key_and_field};

/// Bytes read from the disk at a time.
const AT_ONCE: usize = 1 << 17;

/// Reads shards of WebDataset.
///
/// The key of a sample is its `__key__`: the name in the archive up to the first dot of its last
/// part. The rest of the name, in lower case, is the name of the field. By default fields are
/// decoded as by `decode()` of webdataset without arguments:
///
/// | name ends in | value |
/// | --- | --- |
/// | `txt`, `text`, `transcript` | text |
/// | `cls`, `cls2`, `index`, `inx`, `id` | integer |
/// | `json`, `jsn` | the value |
/// | `npy` | array |
/// | anything else | bytes |
///
/// NaN and infinities in JSON are read as Python writes them. Integers of more than 64 bits are an
/// error, as are objects with two members of one name.
///
/// Shards of [`WebDatasetWriter`](super::WebDatasetWriter) note what their files were, so that the
/// samples come back with the same keys, fields and values.
///
/// Units are ranges of a shard, cut between samples. A shard that is compressed by gzip, Zstandard
/// or, with the feature `formats`, bzip2 is one unit.
///
/// Directories are skipped. Files whose names have no dot, are hidden or begin with a part like
/// `__this__` belong to no sample: they are left out and [counted](Input::remarks). A link, a device,
/// a file that is too long or a name that leads out of the archive makes its whole sample an error.
///
/// Archives that were concatenated are read one after the other. Bytes after the last one that are no
/// archive are counted, and an archive without an end mark is an error unless
/// [`may_lack_end`](Self::may_lack_end) says otherwise.
/// Pickles stay bytes.
///
/// ```no_run
/// use kiste::Writer;
/// use kiste::convert::{Duplicates, InOrder, WebDatasetReader, convert};
///
/// let shards = WebDatasetReader::open("photos-{000..123}.tar")?;
/// let mut writer = Writer::create("photos.msgpack")?;
/// convert(&mut InOrder::new(shards), &mut writer, Duplicates::Refuse, |_| ())?;
/// writer.finish()?;
/// # Ok::<(), kiste::Error>(())
/// ```
#[doc(alias = "WebDataset")]
#[must_use]
#[derive(Debug, Clone)]
pub struct WebDatasetReader {
    decode: bool,
    shard_in_key: bool,
    may_lack_end: bool,
    files: InputFiles,
}

impl WebDatasetReader {
    options_of_files! {
        /// Opens a shard, or all that a name with braces such as `{000..123}` stands for. Nothing is read yet.
        ///
        /// # Errors
        ///
        /// [`NotFound`](ErrorKind::NotFound) if one of them does not exist.
        open,
        /// Refuses files with more bytes than this, and samples whose files and their headers have more
        /// bytes together. Default: 1 GiB.
        max_bytes,
        /// The size of a unit in bytes. Default: 4 MiB.
        unit_bytes,
    }

    /// Opens several shards, which are read in this order.
    ///
    /// # Errors
    ///
    /// Those of [`open`](Self::open), and [`Invalid`](ErrorKind::Invalid) for none at all.
    pub fn open_all<P: AsRef<Path>>(
        shards: impl IntoIterator<Item = P>,
    ) -> Result<WebDatasetReader> {
        Ok(WebDatasetReader::of(InputFiles::open(shards)?))
    }

    /// A reader of standard input, for its stream.
    pub(super) fn piped() -> WebDatasetReader {
        WebDatasetReader::of(InputFiles::piped())
    }

    fn of(files: InputFiles) -> WebDatasetReader {
        WebDatasetReader { decode: true, shard_in_key: false, may_lack_end: false, files }
    }

    /// Whether fields are decoded by their names. If not, all are bytes. Default: yes.
    pub fn decode(mut self, decode: bool) -> Self {
        self.decode = decode;
        self
    }

    /// Whether keys begin with the name of the shard without its ending, and a slash: for shards that
    /// each number their samples from 0. Shards of one name are told apart by their folders. Default: no.
    pub fn shard_in_key(mut self, shard_in_key: bool) -> Self {
        self.shard_in_key = shard_in_key;
        self
    }

    /// Whether an archive may end after a whole file without an end mark, as one does whose writer was
    /// not closed. Its last sample may lack files. Default: no.
    pub fn may_lack_end(mut self, may_lack_end: bool) -> Self {
        self.may_lack_end = may_lack_end;
        self
    }

    /// The first file that begins a sample, at this byte of a shard or after it.
    fn walk(&self, shard: usize, from: Begin, to: u64) -> Result<Option<Begin>> {
        let path = self.files.path(shard);
        let mut archive = Archive::open_at(path, from.position, STEP, self.files.max_bytes)?;
        let mut last: Option<String> = None;
        let mut refused: Option<(String, u64)> = None;
        loop {
            let (entry, flaw) = match archive.next_or_refused() {
                Ok(Some(found)) => found,
                Ok(None) => return Ok(None),
                Err(error) => return end_of_walk(error),
            };
            if let Some((_, records)) = archive.take_global().filter(|(start, _)| *start > 0) {
                // The unit that reads this far reports archives that differ.
                if Note::of(&records).ok().flatten() != self.note(path)? {
                    return Ok(None);
                }
                (last, refused) = (None, None);
            }
            match (key_and_field(&entry.name).map(|(key, _)| key), &flaw) {
                (Some(key), _) if last.as_deref() == Some(key) => refused = None,
                (Some(key), Some(_)) => {
                    if refused.as_ref().is_none_or(|(known, _)| known != key) {
                        refused = Some((key.to_owned(), entry.start));
                    }
                }
                (Some(key), None) => {
                    // A sample begins with the first of its files, even if that is refused.
                    let known = refused.take().filter(|(known, _)| known == key);
                    let position = known.map_or(entry.start, |(_, start)| start);
                    if position >= to {
                        return Ok(Some(Begin { position, ..from }));
                    }
                    last = Some(key.to_owned());
                }
                (None, _) => {}
            }
            if flaw.is_some() {
                continue;
            }
            if let Err(error) = archive.skip(entry.size) {
                return end_of_walk(error);
            }
        }
    }

    fn pack(&self, unit: usize, note: Option<&Note>, group: Group<Vec<u8>>) -> Result<Vec<u8>> {
        let number = self.files.ranges.file(unit);
        let shard = self.files.path(number);
        let key = key(&group.name, note);
        if let Some(flaw) = group.flaw {
            return Err(flaw.at(shard).with_key(key));
        }
        let key = match self.shard_in_key {
            true => format!("{}/{key}", self.files.name(number)?),
            false => key,
        };
        let needs = |name: &str| self.files.needs(name);
        let fields = fields(&group.files, note, self.decode, &needs).map_err(|(file, error)| {
            error.at(shard).with_key(&key).with_raw(&group.files[file].data[..])
        })?;
        let packed = pack(&key, &fields).map_err(|error| error.at(shard))?;
        for (file, (field, _)) in group.files.iter().zip(&fields) {
            let is_image = is_image_extension(file.suffix.rsplit('.').next().unwrap_or_default());
            let is_image = is_image && self.files.needs(field);
            if let Some(flaw) = Some(&file.data).filter(|_| is_image).and_then(|data| flaw(data)) {
                let place = || format!("{}, sample {key:?}", shard.display());
                self.files.remarks.note(unit, flaw, Some(stored_name(field)), 1, place);
            }
        }
        Ok(packed)
    }

    /// Notes what is unusual about the end of a shard.
    fn remark_on_end(&self, unit: usize, archive: &Archive<'_>) {
        let (kind, count, position) = match archive.ending() {
            Ending::Marked => return,
            Ending::Unmarked => (LeftOut::NoEndMark, 1, archive.position()),
            Ending::Foreign { position, bytes } => (LeftOut::AfterEnd, bytes, position),
        };
        let shard = archive.path().display();
        self.files.remarks.note(unit, kind, None, count, || format!("{shard}, byte {position}"));
    }

    /// The meaning of the files by the record at the front of the shard, if kiste wrote it.
    fn note(&self, shard: &Path) -> Result<Option<Note>> {
        let mut front = Archive::open(shard, self.files.max_bytes)?;
        // An error is reported by the unit that reads this far.
        drop(front.next_or_refused());
        match front.take_global() {
            Some((0, records)) => Note::of(&records).map_err(|error| error.at(shard)),
            _ => Ok(None),
        }
    }
}

/// A refused entry that came before the other files of its sample, by its key. It makes a bad
/// sample of the next files if they have the same key; a link in the middle of another sample does
/// not split that sample.
#[derive(Default)]
struct Refused(Option<(String, Error)>);

impl Refused {
    /// Adds an entry; only the first one of a key is reported.
    fn add(&mut self, key: &str, flaw: Error, emit: &mut Emit<'_>) -> Result<()> {
        if self.0.as_ref().is_some_and(|(known, _)| known == key) {
            return Ok(());
        }
        self.tell(emit)?;
        self.0 = Some((key.to_owned(), flaw));
        Ok(())
    }

    /// The flaw of the sample that begins here. The flaw of another sample is reported.
    fn of(&mut self, key: &str, emit: &mut Emit<'_>) -> Result<Option<Error>> {
        match self.0.take_if(|(known, _)| known == key) {
            Some((_, flaw)) => Ok(Some(flaw)),
            None => self.tell(emit).map(|()| None),
        }
    }

    /// Reports the entry as a sample of its own.
    fn tell(&mut self, emit: &mut Emit<'_>) -> Result<()> {
        match self.0.take() {
            Some((key, flaw)) => emit(Err(flaw.with_key(key))),
            None => Ok(()),
        }
    }
}

impl Input for WebDatasetReader {
    units_are_ranges!();

    fn read(&self, unit: usize, emit: &mut Emit<'_>) -> Result<()> {
        let walk = |shard, from, to| self.walk(shard, from, to);
        let Some(range) = self.files.ranges.range(unit, walk)? else { return Ok(()) };
        let Range { begin, end, .. } = range;
        let shard = self.files.path(range.file);
        let archive = match range.size.is_some() {
            true => Archive::open_at(shard, begin.position, AT_ONCE, self.files.max_bytes)?,
            false => Archive::open(shard, self.files.max_bytes)?,
        };
        let mut reading = Reading::new(archive.open_end(self.may_lack_end), end);
        // The first unit reads it itself.
        if begin != Begin::FRONT {
            reading.note = self.note(shard)?;
        }
        while self.step(unit, &mut reading, emit)? {}
        Ok(())
    }
}

/// A shard, or a part of one, that is being read.
struct Reading {
    archive: Archive<'static>,
    /// Where it ends.
    end: u64,
    /// The meaning of its files, if kiste wrote it.
    note: Option<Note>,
    /// The sample that is not complete yet.
    group: Option<Group<Vec<u8>>>,
    refused: Refused,
}

impl Reading {
    fn new(archive: Archive<'static>, end: u64) -> Reading {
        Reading { archive, end, note: None, group: None, refused: Refused::default() }
    }
}

impl WebDatasetReader {
    /// Reads one file. False at the end, when the last sample was handed out.
    fn step(&self, unit: usize, reading: &mut Reading, emit: &mut Emit<'_>) -> Result<bool> {
        if self.entry(unit, reading, emit)? {
            return Ok(true);
        }
        reading.refused.tell(emit)?;
        if let Some(group) = reading.group.take() {
            emit(self.pack(unit, reading.note.as_ref(), group))?;
        }
        Ok(false)
    }

    /// The same, without the last sample.
    fn entry(&self, unit: usize, reading: &mut Reading, emit: &mut Emit<'_>) -> Result<bool> {
        let Reading { archive, end, note, group, refused } = reading;
        if archive.position() >= *end {
            return Ok(false);
        }
        let (entry, flaw) = match archive.next_or_refused() {
            Ok(Some(found)) => found,
            Ok(None) => {
                self.remark_on_end(unit, archive);
                return Ok(false);
            }
            Err(error) => {
                refused.tell(emit)?;
                return Err(error);
            }
        };
        match archive.take_global() {
            Some((0, records)) => {
                *note = Note::of(&records).map_err(|error| error.at(archive.path()))?;
            }
            Some((_, records)) => {
                if Note::of(&records).ok().flatten() != *note {
                    let message = "expected one shard, found several in one archive that differ";
                    return Err(Error::new(ErrorKind::Unsupported, message).at(archive.path()));
                }
                // A sample ends with its archive.
                refused.tell(emit)?;
                if let Some(done) = group.take() {
                    emit(self.pack(unit, note.as_ref(), done))?;
                }
            }
            None => {}
        }
        // There were directories between the ranges.
        if entry.start >= *end {
            return Ok(false);
        }
        let Some((key, suffix)) = key_and_field(&entry.name) else {
            match flaw {
                Some(flaw) => emit(Err(flaw))?,
                None => {
                    let shard = archive.path().display();
                    let place = || format!("{shard}, file {:?}", entry.name);
                    self.files.remarks.note(unit, LeftOut::OutsideSamples, None, 1, place);
                    archive.skip(entry.size)?;
                }
            }
            return Ok(true);
        };
        let same = group.as_mut().filter(|group| group.name == key);
        match (same, flaw) {
            (Some(group), Some(flaw)) => {
                refused.tell(emit)?;
                group.refuse(flaw);
                return Ok(true);
            }
            (None, Some(flaw)) => {
                refused.add(key, flaw, emit)?;
                return Ok(true);
            }
            (Some(_), None) => refused.tell(emit)?,
            (None, None) => {
                let flaw = refused.of(key, emit)?;
                if let Some(done) = group.replace(Group::new(key, flaw)) {
                    emit(self.pack(unit, note.as_ref(), done))?;
                }
            }
        }
        let group = group.get_or_insert_with(|| Group::new(key, None));
        let max_bytes = self.files.max_bytes;
        if !group.add(suffix, &entry, max_bytes, || archive.read(entry.size))? {
            archive.skip(entry.size)?;
        }
        Ok(true)
    }
}

/// The files of an archive that is read once.
pub(super) struct WebDatasetSteps {
    reader: WebDatasetReader,
    reading: Reading,
}

impl WebDatasetSteps {
    /// Reads an archive as this reader does.
    pub(super) fn new(reader: WebDatasetReader, input: Box<dyn Read + Send>) -> WebDatasetSteps {
        let files = &reader.files;
        let archive = Archive::of_stream(files.path(0), input, files.max_bytes);
        let reading = Reading::new(archive.open_end(reader.may_lack_end), u64::MAX);
        WebDatasetSteps { reader, reading }
    }
}

impl Steps for WebDatasetSteps {
    fn files(&self) -> &InputFiles {
        &self.reader.files
    }

    fn step(&mut self, emit: &mut Emit<'_>) -> Result<bool> {
        self.reader.step(0, &mut self.reading, emit)
    }
}
