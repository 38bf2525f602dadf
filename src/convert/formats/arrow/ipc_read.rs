//! Reads samples from Arrow IPC: streams, and files, which are streams with an index at the end.

use std::io::{BufReader, Read, Seek, SeekFrom};
use std::path::Path;

use arrow_array::RecordBatch;
use arrow_buffer::Buffer;
use arrow_ipc::MessageHeader;
use arrow_ipc::reader::StreamDecoder;

use super::decoder::guarded;
use super::folder::expand_folders;
use super::lacks::{note_batch, note_flaw, note_schema};
use super::named_files::Files;
use super::parquet_read::emit_batch;
use crate::convert::carried::{LeftOut, RemarkLog};
use crate::convert::file_names::{self, is_image};
use crate::convert::formats::files::{InputFiles, MAX_BYTES, options_of_files, units_are_ranges};
use crate::convert::formats::ranges::{Begin, end_of_walk};
use crate::convert::input::{Emit, Input};
use crate::convert::source_file::{SourceFile, open_regular};
use crate::error::{Error, ErrorKind, Result};
use crate::format::FormatError;
use crate::format::arrow::decoder::Flaw;
use crate::format::arrow::form::Plan;
use crate::format::arrow::limits::{MAX_METADATA, check_len, check_message};
use crate::format::arrow::messages::{
    self, CONTINUATION, MAGIC, MAX_PADDING, TAIL, body_len, has_dictionaries, parse_message,
};
use crate::format::arrow::rows::{Images, Rows};
use crate::storage;

/// Reads files and streams of Arrow IPC, such as those in the cache of Hugging Face `datasets`
/// (`data-00000-of-00002.arrow`). Units are ranges of a file, cut between batches; a file with
/// dictionaries is one unit, because they may change between batches. Feature `parquet`.
///
/// Columns become fields as in [`ParquetReader`](super::ParquetReader), and keys are the same. The
/// size of a batch, which is read into memory, is [limited](Self::max_bytes). A stream may end
/// after any batch, because not all writers mark its end; a file must have the mark. Files are read
/// from the front, and their index is ignored.
///
/// Of a folder that `save_to_disk` wrote, the files that its `state.json` names are read. Files of
/// caches (`cache-*.arrow`, `indices.arrow`) are no data: they are left out and
/// [counted](Input::remarks). A dataset whose rows are in the order of indices is refused. Names in
/// `state.json` lead to files of its folder;
/// [`Conversion::allow_outside`](crate::convert::Conversion::allow_outside) reads others.
///
/// ```no_run
/// use kiste::convert::{ArrowIpcReader, InOrder};
///
/// let source = InOrder::new(ArrowIpcReader::open("imdb/data-{00000..00001}-of-00002.arrow")?);
/// # Ok::<(), kiste::Error>(())
/// ```
#[doc(alias = "ArrowIpc")]
#[must_use]
#[derive(Debug, Clone)]
pub struct ArrowIpcReader {
    labels: Option<Vec<String>>,
    files: InputFiles,
}

impl ArrowIpcReader {
    options_of_files! {
        /// Opens a file, all that a name with braces such as `{000..123}` stands for, or the files of a folder whose
        /// names end in `.arrow`, in natural order. Their schemas are read.
        ///
        /// # Errors
        ///
        /// [`NotFound`](ErrorKind::NotFound) if one of them does not exist, and
        /// [`Invalid`](ErrorKind::Invalid) if they differ in labels, or if `state.json` names a file that is not
        /// in its folder.
        open,
        /// Takes keys from this field: strings, bytes in UTF-8, or integers.
        key,
        /// Refuses batches with more bytes than this once they are decompressed. Default: 1 GiB.
        max_bytes,
        /// Whether an image that a row has only the path of may be outside of the folder. Default: no.
        allow_outside,
        /// The size of a unit in bytes. Default: 4 MiB.
        unit_bytes,
    }

    /// Opens several files or folders, which are read in this order.
    ///
    /// # Errors
    ///
    /// Those of [`open`](Self::open), and [`Invalid`](ErrorKind::Invalid) for none at all.
    pub fn open_all<P: AsRef<Path>>(files: impl IntoIterator<Item = P>) -> Result<ArrowIpcReader> {
        ArrowIpcReader::open_from(files, false)
    }

    /// The same, with files that are `outside` of the folder that names them.
    pub(in crate::convert) fn open_from<P: AsRef<Path>>(
        files: impl IntoIterator<Item = P>,
        outside: bool,
    ) -> Result<ArrowIpcReader> {
        let remarks = RemarkLog::default();
        let files = expand_folders(file_names::files(files)?, "arrow", outside, &remarks)?;
        let mut first: Option<Plan> = None;
        for path in &files {
            let plan = Batches::open(path, MAX_BYTES)?.plan;
            note_schema(&plan.lacks, path, &remarks);
            match &first {
                Some(first) if first.contradicts(&plan) => {
                    let message =
                        format!("expected the labels of {}, found others", files[0].display());
                    return Err(Error::new(ErrorKind::Invalid, message).at(path));
                }
                // One without labels has nothing to compare with.
                Some(first) if first.labels.is_some() => {}
                _ => first = Some(plan),
            }
        }
        let labels = first.and_then(|plan| plan.labels);
        Ok(ArrowIpcReader { labels, files: InputFiles::of(files, remarks) }.allow_outside(outside))
    }
}

impl Input for ArrowIpcReader {
    units_are_ranges!();

    fn read(&self, unit: usize, emit: &mut Emit<'_>) -> Result<()> {
        let walk =
            |file: usize, from, to| walk(self.files.path(file), self.files.max_bytes, from, to);
        let Some(range) = self.files.ranges.range(unit, walk)? else { return Ok(()) };
        let path = self.files.path(range.file);
        let mut batches = Batches::open(path, self.files.max_bytes)?;
        batches.go_to(range.begin)?;
        batches.will_read(range.end);
        let mut plan = batches.plan.clone();
        plan.key = plan.key.filter(|_| self.files.own_keys);
        let stem = self.files.name(range.file)?;
        let files = Files::next_to(path, self.files.outside, self.files.max_bytes);
        let files = &|name: &str| files.read(name);
        let log = (path, unit, &self.files.remarks);
        let look_at = &|image: &[u8], column: &str, at| note_flaw(log, image, column, at);
        let images = Some(Images { is_image, look_at });
        let key = self.files.key.as_deref();
        let rows = Rows { plan: &plan, key, unread: &[], stem, files, images, needs: &|_| true };
        let mut number = range.begin.number;
        let mut note = |kind, name: &str, count, place: &dyn Fn() -> String| {
            self.files.remarks.note(unit, kind, Some(name), count, place);
        };
        while let Some(batch) = batches.next(range.end)? {
            note_batch(path, &plan.columns, &batch, number, &mut note);
            emit_batch(path, &rows, &batch, number, emit)?;
            number += batch.num_rows() as u64;
        }
        let (rest, at) = (batches.rest()?, batches.position);
        let place = || format!("{}, byte {at}", path.display());
        self.files.remarks.note(unit, LeftOut::AfterEnd, None, rest, place);
        Ok(())
    }

    fn label_names(&self) -> Option<&[String]> {
        self.labels.as_deref()
    }
}

/// The first batch that begins at this byte of a file or after it. Only headers are read on the
/// way.
fn walk(path: &Path, max_bytes: u64, from: Begin, to: u64) -> Result<Option<Begin>> {
    let mut batches = match Batches::open(path, max_bytes) {
        Ok(batches) if !batches.has_dictionaries() => batches,
        Ok(_) => return Ok(None),
        Err(error) => return end_of_walk(error),
    };
    batches.go_to(from)?;
    let mut rows = from.number;
    loop {
        let position = batches.position;
        let (more, body) = match batches.head() {
            Ok(Some(batch)) => batch,
            Ok(None) => return Ok(None),
            Err(error) => return end_of_walk(error),
        };
        if position >= to {
            return Ok(Some(Begin { position, number: rows, line: 1 }));
        }
        rows = rows.saturating_add(more);
        if let Err(error) = batches.pass(body) {
            return end_of_walk(error);
        }
    }
}

/// The batches of a stream.
struct Batches<'a> {
    path: &'a Path,
    input: BufReader<SourceFile>,
    /// The position in the file, and the length of the file.
    position: u64,
    size: u64,
    decoder: StreamDecoder,
    plan: Plan,
    max_bytes: u64,
    /// Whether a mark must come before the end, as in a file.
    marked: bool,
    ended: bool,
}

impl Batches<'_> {
    fn open(path: &Path, max_bytes: u64) -> Result<Batches<'_>> {
        let file = open_regular(path).map_err(|error| Error::io(path, error))?;
        let size = file.len().map_err(|error| Error::io(path, error))?;
        let plan = Plan::default();
        let decoder = StreamDecoder::new();
        let input = BufReader::new(file);
        let (position, marked, ended) = (0, true, false);
        let mut batches =
            Batches { path, input, position, size, decoder, plan, max_bytes, marked, ended };
        let start = batches.take(MAGIC.len() as u64)?;
        let is_file = start == MAGIC;
        match is_file {
            true => batches.skip_padding()?,
            false => batches.back(start.len())?,
        }
        batches.message()?;
        batches.marked = is_file;
        // The decoder decodes a schema only when it sees the next message.
        batches.decode(CONTINUATION.to_vec())?;
        let schema = batches.decoder.schema();
        let schema = schema.ok_or_else(|| batches.flaw("a schema", "another message"))?;
        batches.plan = Plan::of(&schema).map_err(|error| error.at(path))?;
        Ok(batches)
    }

    /// Some writers begin the stream in a file at a multiple of 64 bytes.
    fn skip_padding(&mut self) -> Result<()> {
        while self.position < MAX_PADDING {
            let word = self.take(MAGIC.len() as u64)?;
            if word != [0; MAGIC.len()] {
                return self.back(word.len());
            }
        }
        Ok(())
    }

    fn back(&mut self, len: usize) -> Result<()> {
        self.position -= len as u64;
        self.input.seek_relative(-(len as i64)).map_err(|error| Error::io(self.path, error))
    }

    /// Seeks to a batch, unless it is the first one.
    fn go_to(&mut self, begin: Begin) -> Result<()> {
        if begin != Begin::FRONT {
            let found = self.input.seek(SeekFrom::Start(begin.position));
            self.position = found.map_err(|error| Error::io(self.path, error))?;
        }
        Ok(())
    }

    /// Announces that everything up to this position will be read.
    fn will_read(&mut self, end: u64) {
        let range = self.position..end.min(self.size);
        self.input.get_mut().will_read(range);
    }

    fn has_dictionaries(&self) -> bool {
        self.decoder.schema().is_none_or(|schema| has_dictionaries(&schema))
    }

    /// The rows of the next batch, and the bytes of its body; `None` if something else comes next,
    /// or a body without bytes, which the decoder would not notice.
    fn head(&mut self) -> Result<Option<(u64, u64)>> {
        let mut head = self.take(4)?;
        if head == CONTINUATION {
            head = self.take(4)?;
        }
        let len = head.first_chunk().map_or(0, |len| u32::from_le_bytes(*len));
        let metadata = self.exactly(len.into(), MAX_METADATA)?;
        let Ok(message) = arrow_ipc::root_as_message(&metadata) else { return Ok(None) };
        if message.header_type() != MessageHeader::RecordBatch {
            return Ok(None);
        }
        let rows = message.header_as_record_batch().map(|batch| u64::try_from(batch.length()));
        let body = u64::try_from(message.bodyLength());
        let body = body.ok().filter(|&body| 0 < body && body <= self.max_bytes);
        Ok(rows.and_then(Result::ok).zip(body))
    }

    /// Skips a body.
    fn pass(&mut self, body: u64) -> Result<()> {
        let there = self.size.saturating_sub(self.position);
        match i64::try_from(body) {
            Ok(step) if body <= there => {
                self.input.seek_relative(step).map_err(|error| Error::io(self.path, error))?;
                self.position += body;
                Ok(())
            }
            _ => Err(self.flaw("a body", "the end of the file")),
        }
    }

    /// The next batch, if it begins before this byte.
    fn next(&mut self, end: u64) -> Result<Option<RecordBatch>> {
        while !self.ended && self.position < end {
            if let Some(batch) = self.message()? {
                return Ok(Some(batch));
            }
        }
        Ok(None)
    }

    /// Reads a message. Returns the batch in it, or the one before it.
    fn message(&mut self) -> Result<Option<RecordBatch>> {
        let start = self.position;
        let mut head = self.take(4)?;
        if head.is_empty() && !self.marked {
            return self.end();
        }
        if head == CONTINUATION {
            head = self.take(4)?;
        }
        let Some(len) = head.first_chunk() else {
            return Err(self.flaw("the end of the stream", "the end of the file"));
        };
        let len = u32::from_le_bytes(*len);
        if len == 0 {
            return self.end();
        }
        let metadata = self.exactly(len.into(), MAX_METADATA)?;
        let at = |error: FormatError| Error::from(error).at(self.path);
        let message = parse_message(&metadata, start).map_err(at)?;
        let body = body_len(&message, self.position).map_err(at)?;
        let body = self.exactly(body, self.max_bytes)?;
        check_message(&message, &body, self.max_bytes).map_err(|error| {
            let message = format!("message at byte {start}: {}", error.message());
            Error::new(error.kind(), message).at(self.path)
        })?;
        // Older streams have no mark before the length.
        let before = self.decode([&len.to_le_bytes()[..], &metadata].concat())?;
        // The body gets a buffer of its own, so that it can be viewed in place.
        let batch = self.decode(body)?;
        Ok(before.or(batch))
    }

    /// Ends the stream. The decoder returns a batch without bytes only now.
    fn end(&mut self) -> Result<Option<RecordBatch>> {
        self.ended = true;
        self.decode(vec![0; 4])
    }

    /// How many bytes follow the end of the stream, but for the index that is at the end of a file.
    fn rest(&self) -> Result<u64> {
        let rest = self.size.saturating_sub(self.position);
        if !self.ended || !self.marked || rest < TAIL || storage::is_url(self.path) {
            return Ok(if self.ended && !self.marked { rest } else { 0 });
        }
        let at = |error| Error::io(self.path, error);
        let mut file = open_regular(self.path).map_err(at)?;
        let mut tail = [0; TAIL as usize];
        file.seek(SeekFrom::Start(self.size - TAIL)).map_err(at)?;
        file.read_exact(&mut tail).map_err(at)?;
        let [a, b, c, d, magic @ ..] = tail;
        let index = u64::from(u32::from_le_bytes([a, b, c, d])).saturating_add(TAIL);
        Ok(if magic == MAGIC[..6] { rest.saturating_sub(index) } else { rest })
    }

    fn decode(&mut self, bytes: Vec<u8>) -> Result<Option<RecordBatch>> {
        let mut buffer = Buffer::from_vec(bytes);
        let (decoder, mut found) = (&mut self.decoder, None);
        guarded(self.path, || {
            while !buffer.is_empty() {
                found = decoder.decode(&mut buffer)?.or(found.take());
            }
            Ok::<_, Flaw>(found)
        })
    }

    /// This many bytes, or fewer at the end of the file.
    fn take(&mut self, len: u64) -> Result<Vec<u8>> {
        let mut bytes =
            Vec::with_capacity(len.min(self.size.saturating_sub(self.position)) as usize);
        let read = self.input.by_ref().take(len).read_to_end(&mut bytes);
        read.map_err(|error| Error::io(self.path, error))?;
        self.position += bytes.len() as u64;
        Ok(bytes)
    }

    fn exactly(&mut self, len: u64, max_bytes: u64) -> Result<Vec<u8>> {
        let path = self.path;
        let at = |error: Error| error.at(path);
        check_len(len, max_bytes, self.position).map_err(at)?;
        let bytes = self.take(len)?;
        match bytes.len() as u64 == len {
            true => Ok(bytes),
            false => Err(at(messages::cut(len, bytes.len() as u64, self.position).into())),
        }
    }

    fn flaw(&self, expected: &str, found: &str) -> Error {
        let flaw = FormatError::new(self.position, expected.to_owned(), found.to_owned());
        Error::from(flaw).at(self.path)
    }
}
