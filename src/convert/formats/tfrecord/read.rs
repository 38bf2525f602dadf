//! Reads samples from TFRecord files.

use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::Path;

use crate::convert::carried::LeftOut;
use crate::convert::compressed;
use crate::convert::formats::files::{InputFiles, options_of_files, units_are_ranges};
use crate::convert::formats::ranges::{Begin, STEP, end_of_walk};
use crate::convert::input::{Emit, Input};
use crate::convert::source_file::open_regular;
use crate::error::{Error, Result};
use crate::format::FormatError;
use crate::format::sample_fields::{key_from, pack};
use crate::format::tfrecord::sample::{Rules, numbered_key};
use crate::format::tfrecord::{FOOTER, HEADER, check_data, is_zlib, parse_header};

/// How much of a record its sample lacks, by kind.
type Lacks = [(LeftOut, u64); 2];

/// Reads TFRecord files of `tf.train.Example` and `tf.train.SequenceExample`. Feature `formats`.
///
/// The features are the fields, sorted by name because records have no order. A list of one value
/// becomes that value, several numbers an array of float32 or int64, and several byte strings a
/// list. An empty list stays an empty list, a feature without a list is nil. Byte strings stay
/// bytes unless they are named [as strings](Self::texts). A key is the name of the file without
/// its ending, a slash and the number of the record in twelve digits; or a [field](Self::key).
///
/// The feature lists of a `SequenceExample` are fields as well: an array if each step has one number,
/// and otherwise a list of the steps; if every step has one value, a step is that value. Fields that
/// neither message knows are [counted](Input::remarks), and a record that is neither is an error.
///
/// Units are ranges of a file, cut between records; a file that is compressed by bzip2, gzip, zlib or
/// Zstandard is one unit. All checksums are compared. A file that was cut between two records
/// cannot be told from a complete one.
///
/// ```no_run
/// use kiste::convert::{InOrder, TfRecordReader};
///
/// let records = TfRecordReader::open("train-{00000..01023}-of-01024")?.texts(["image/class/text"]);
/// let source = InOrder::new(records);
/// # Ok::<(), kiste::Error>(())
/// ```
#[doc(alias = "TfRecords")]
#[must_use]
#[derive(Debug, Clone)]
pub struct TfRecordReader {
    rules: Rules,
    files: InputFiles,
}

impl TfRecordReader {
    options_of_files! {
        /// Opens a file, or all that a name with braces such as `{000..123}` stands for. Nothing is read yet.
        ///
        /// # Errors
        ///
        /// [`NotFound`](ErrorKind::NotFound) if one of them does not exist.
        open,
        /// Refuses records with more bytes than this. Default: 1 GiB.
        max_bytes,
        /// The size of a unit in bytes. Default: 4 MiB.
        unit_bytes,
        /// Takes keys from this feature: a byte string in UTF-8, or an integer.
        key,
    }

    /// Opens several files, which are read in this order.
    ///
    /// # Errors
    ///
    /// Those of [`open`](Self::open), and [`Invalid`](ErrorKind::Invalid) for none at all.
    pub fn open_all<P: AsRef<Path>>(files: impl IntoIterator<Item = P>) -> Result<TfRecordReader> {
        Ok(TfRecordReader { rules: Rules::default(), files: InputFiles::open(files)? })
    }

    /// Features whose byte strings are UTF-8 and become strings.
    pub fn texts<S: Into<String>>(mut self, names: impl IntoIterator<Item = S>) -> Self {
        self.rules.texts = names.into_iter().map(Into::into).collect();
        self
    }

    /// Features that stay lists and arrays even if they have one value, as features of varying length
    /// should.
    pub fn lists<S: Into<String>>(mut self, names: impl IntoIterator<Item = S>) -> Self {
        self.rules.lists = names.into_iter().map(Into::into).collect();
        self
    }

    /// The packed sample of a record, and how much of the record it lacks.
    fn pack(&self, key: &Key<'_>, record: &[u8]) -> Result<(Vec<u8>, Lacks)> {
        let needs = |name: &str| self.files.needs(name);
        let (fields, unknown, replaced) = self.rules.fields(record, &needs)?;
        let lacks = [(LeftOut::UnknownField, unknown), (LeftOut::ReplacedValue, replaced)];
        let key = match &self.files.key {
            Some(name) => key_from(&fields, name)?,
            None => numbered_key(key.stem, key.number),
        };
        Ok((pack(&key, &fields)?, lacks))
    }
}

/// How the record is numbered.
struct Key<'a> {
    stem: &'a str,
    number: u64,
}

impl Input for TfRecordReader {
    units_are_ranges!();

    fn read(&self, unit: usize, emit: &mut Emit<'_>) -> Result<()> {
        let walk =
            |file: usize, from, to| walk(self.files.path(file), self.files.max_bytes, from, to);
        let Some(range) = self.files.ranges.range(unit, walk)? else { return Ok(()) };
        let path = self.files.path(range.file);
        let stem = self.files.name(range.file)?;
        let mut records = Records::open(path, self.files.max_bytes, range.begin.position)?;
        for number in range.begin.number.. {
            let start = records.position;
            if start >= range.end {
                break;
            }
            let Some(record) = records.next()? else { break };
            let packed = record.and_then(|record| {
                let located = |error: Error| {
                    error.within(format_args!("record {number} at byte {start}")).at(path)
                };
                match self.pack(&Key { stem, number }, &record) {
                    Ok((packed, lacks)) => {
                        let place = || format!("{}, record {number}", path.display());
                        let note =
                            |(kind, count)| self.files.remarks.note(unit, kind, None, count, place);
                        lacks.into_iter().for_each(note);
                        Ok(packed)
                    }
                    Err(error) => Err(located(error).with_raw(record)),
                }
            });
            emit(packed)?;
        }
        Ok(())
    }
}

/// The first record that begins at this byte of a file or after it. Only headers are read on the
/// way: they have a checksum of their own, so the lengths can be trusted.
fn walk(path: &Path, max_bytes: u64, from: Begin, to: u64) -> Result<Option<Begin>> {
    let at = |error| Error::io(path, error);
    let mut file = open_regular(path).map_err(at)?;
    let len = file.len().map_err(at)?;
    file.seek(SeekFrom::Start(from.position)).map_err(at)?;
    let mut file = BufReader::with_capacity(STEP, file);
    let mut next = from;
    while next.position < to {
        let mut header = [0; HEADER];
        match file.read_exact(&mut header) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
            read => read.map_err(at)?,
        }
        let length = match parse_header(&header) {
            Ok(length) if length <= max_bytes => length,
            Ok(_) => return Ok(None),
            Err(error) => return end_of_walk(error.into()),
        };
        let rest = length.saturating_add(FOOTER as u64);
        let end = next.position.saturating_add(HEADER as u64).saturating_add(rest);
        let Some(step) = i64::try_from(rest).ok().filter(|_| end < len) else { return Ok(None) };
        file.seek_relative(step).map_err(at)?;
        next = Begin { position: end, number: next.number + 1, ..next };
    }
    Ok(Some(next))
}

/// The bytes, decompressed if they are compressed by zlib as TensorFlow does: other compressions have
/// first bytes of their own, but zlib is told only by what is no header of a record.
fn unzipped(mut input: Box<dyn Read + Send>) -> io::Result<Box<dyn Read + Send>> {
    let mut head = Vec::with_capacity(HEADER);
    input.by_ref().take(HEADER as u64).read_to_end(&mut head)?;
    let is_zlib = is_zlib(&head);
    let whole = io::Cursor::new(head).chain(input);
    Ok(match is_zlib {
        true => Box::new(flate2::read::ZlibDecoder::new(whole)),
        false => Box::new(whole),
    })
}

/// The records of a file.
struct Records<'a> {
    path: &'a Path,
    input: Box<dyn Read + Send>,
    position: u64,
    max_bytes: u64,
}

impl Records<'_> {
    /// The records from this position on, which must be 0 in a compressed file.
    fn open(path: &Path, max_bytes: u64, position: u64) -> Result<Records<'_>> {
        let input = compressed::open_at(path, position)?;
        let input = unzipped(input).map_err(|error| compressed::blame(path, error))?;
        Ok(Records { path, input, position, max_bytes })
    }

    /// The next record. The inner error is about a record whose length is intact, so that the one
    /// after it can be found.
    fn next(&mut self) -> Result<Option<Result<Vec<u8>>>> {
        let header = self.take(HEADER as u64)?;
        if header.is_empty() {
            return Ok(None);
        }
        let header = header.first_chunk().ok_or_else(|| self.truncated(header.len()))?;
        let length = parse_header(header).map_err(|error| self.at(error))?;
        if length > self.max_bytes {
            let message = format!(
                "record at byte {}: expected at most {} bytes, found {length}",
                self.position, self.max_bytes
            );
            return Err(Error::above_limit("max_bytes", message).at(self.path));
        }
        let mut data = self.take(length.saturating_add(FOOTER as u64))?;
        let footer = match data.split_last_chunk() {
            Some((rest, footer)) if rest.len() as u64 == length => *footer,
            _ => return Err(self.truncated(HEADER + data.len())),
        };
        let whole = (HEADER + data.len()) as u64;
        data.truncate(data.len() - FOOTER);
        let checked = check_data(&data, footer).map_err(|error| self.at(error));
        self.position += whole;
        Ok(Some(match checked {
            Ok(()) => Ok(data),
            Err(error) => Err(error.with_raw(data)),
        }))
    }

    /// This many bytes, or fewer at the end of the file.
    fn take(&mut self, len: u64) -> Result<Vec<u8>> {
        let mut bytes = Vec::with_capacity(usize::try_from(len.min(1 << 20)).unwrap_or(0));
        let read = self.input.by_ref().take(len).read_to_end(&mut bytes);
        read.map_err(|error: io::Error| compressed::blame(self.path, error))?;
        Ok(bytes)
    }

    fn at(&self, error: FormatError) -> Error {
        let position = error.position.saturating_add(self.position);
        Error::from(FormatError { position, ..error }).at(self.path)
    }

    fn truncated(&self, found: usize) -> Error {
        let found = format!("the end of file after {found} bytes of it");
        self.at(FormatError::new(0, "a whole record", found))
    }
}
