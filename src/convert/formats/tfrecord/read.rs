//! Reads samples from TFRecord files.

use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::Path;

use crate::Value;
use crate::convert::carried::LeftOut;
use crate::convert::compressed;
use crate::convert::formats::files::{InputFiles, options_of_files, units_are_ranges};
use crate::convert::formats::ranges::{Begin, STEP, end_of_walk};
use crate::convert::input::{Emit, Input};
use crate::convert::source_file::open_regular;
use crate::error::{Error, ErrorKind, Result};
use crate::format::FormatError;
use crate::format::msgpack::numpy::Special;
use crate::format::sample_fields::{Field, Fields, key_from, pack};
use crate::format::tfrecord::example::{Feature, Record};
use crate::format::tfrecord::{FOOTER, HEADER, check_data, is_zlib, parse_header};
use crate::value::{Element, NdArray};

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
    texts: Vec<String>,
    lists: Vec<String>,
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
        let (texts, lists) = (Vec::new(), Vec::new());
        Ok(TfRecordReader { texts, lists, files: InputFiles::open(files)? })
    }

    /// Features whose byte strings are UTF-8 and become strings.
    pub fn texts<S: Into<String>>(mut self, names: impl IntoIterator<Item = S>) -> Self {
        self.texts = names.into_iter().map(Into::into).collect();
        self
    }

    /// Features that stay lists and arrays even if they have one value, as features of varying length
    /// should.
    pub fn lists<S: Into<String>>(mut self, names: impl IntoIterator<Item = S>) -> Self {
        self.lists = names.into_iter().map(Into::into).collect();
        self
    }

    /// The packed sample of a record, and how much of the record it lacks.
    fn pack(&self, key: &Key<'_>, record: &[u8]) -> Result<(Vec<u8>, Lacks)> {
        let record = decode(record)?;
        let lacks =
            [(LeftOut::UnknownField, record.unknown), (LeftOut::ReplacedValue, record.replaced)];
        let mut fields: Fields<'_> = Vec::with_capacity(record.features.len());
        for (name, feature) in record.features {
            let value = match self.files.needs(name) {
                true => self.field(name, feature)?,
                false => DROPPED,
            };
            fields.push((name.into(), value));
        }
        for (name, steps) in record.lists {
            let value = match self.files.needs(name) {
                true => self.steps(name, steps)?,
                false => DROPPED,
            };
            fields.push((name.into(), value));
        }
        fields.sort_by(|(a, _), (b, _)| a.cmp(b));
        let key = match &self.files.key {
            Some(name) => key_from(&fields, name)?,
            None => format!("{}/{:012}", key.stem, key.number),
        };
        Ok((pack(&key, &fields)?, lacks))
    }

    /// The steps of a feature list.
    fn steps<'a>(&self, name: &str, steps: Vec<Feature<'a>>) -> Result<Field<'a>> {
        let stays = self.lists.iter().any(|known| known == name);
        if let Some(numbers) = numbers(&steps).filter(|_| !stays) {
            return Ok(Field::Array(numbers));
        }
        let single = !stays && steps.iter().all(|step| len(step) == Some(1));
        let value = |step| Ok(value_of(self.value(name, step, single)?));
        steps.into_iter().map(value).collect::<Result<_>>().map(Value::Array).map(Field::Value)
    }

    fn field<'a>(&self, name: &str, feature: Feature<'a>) -> Result<Field<'a>> {
        let single = !self.lists.iter().any(|known| known == name);
        self.value(name, feature, single)
    }

    /// A feature: if it has one value and `single` says so, that value.
    fn value<'a>(&self, name: &str, feature: Feature<'a>, single: bool) -> Result<Field<'a>> {
        let is_text = self.texts.iter().any(|known| known == name);
        let value = |bytes: &[u8]| match is_text {
            true => std::str::from_utf8(bytes).map(Value::from).map_err(|_| {
                let message = format!("feature {name:?}: expected UTF-8, found other bytes");
                Error::new(ErrorKind::Damaged, message)
            }),
            false => Ok(Value::from(bytes)),
        };
        Ok(match feature {
            Feature::Empty => Field::Value(Value::Nil),
            Feature::Bytes(strings) => match &strings[..] {
                [one] if single && !is_text => Field::Bytes(one),
                [one] if single => Field::Value(value(one)?),
                all => {
                    let values: Result<_> = all.iter().map(|bytes| value(bytes)).collect();
                    Field::Value(Value::Array(values?))
                }
            },
            Feature::Floats(floats) => match floats[..] {
                // As a NumPy scalar, which keeps the 32 bits.
                [one] if single => Field::Scalar(NdArray::scalar(one)),
                _ => Field::Array(array(&floats)),
            },
            Feature::Ints(ints) => match ints[..] {
                [one] if single => Field::Value(Value::from(one)),
                _ => Field::Array(array(&ints)),
            },
        })
    }
}

/// A field that the conversion drops.
const DROPPED: Field<'static> = Field::Value(Value::Nil);

/// How the record is numbered.
struct Key<'a> {
    stem: &'a str,
    number: u64,
}

/// The content of a record, or an error if it is something else.
fn decode(record: &[u8]) -> Result<Record<'_>> {
    let other = |found: &dyn std::fmt::Display| {
        let expected = "expected a tf.train.Example or SequenceExample";
        // Leaving such records out, which is the usual hint, would lose all of them.
        Error::new(ErrorKind::Unsupported, format!("{expected}, found {found}"))
            .advise("records of other messages are not read: write them as one of these first")
    };
    let found =
        Record::decode(record).map_err(|flaw| other(&format_args!("other data: {flaw}")))?;
    let is_empty = found.features.is_empty() && found.lists.is_empty();
    match is_empty && found.unknown > 0 {
        true => Err(other(&"a message of other fields")),
        false => Ok(found),
    }
}

/// How many values a feature has.
fn len(feature: &Feature<'_>) -> Option<usize> {
    match feature {
        Feature::Empty => None,
        Feature::Bytes(strings) => Some(strings.len()),
        Feature::Floats(floats) => Some(floats.len()),
        Feature::Ints(ints) => Some(ints.len()),
    }
}

/// The numbers of steps that have one each, all of one type.
fn numbers(steps: &[Feature<'_>]) -> Option<NdArray<'static>> {
    let floats = || {
        steps.iter().map(|step| match step {
            Feature::Floats(floats) if floats.len() == 1 => Some(floats[0]),
            _ => None,
        })
    };
    let ints = || {
        steps.iter().map(|step| match step {
            Feature::Ints(ints) if ints.len() == 1 => Some(ints[0]),
            _ => None,
        })
    };
    match steps.first()? {
        Feature::Floats(_) => Some(array(&floats().collect::<Option<Vec<f32>>>()?)),
        Feature::Ints(_) => Some(array(&ints().collect::<Option<Vec<i64>>>()?)),
        _ => None,
    }
}

/// A field within a list.
fn value_of(field: Field<'_>) -> Value {
    match field {
        Field::Value(value) => value,
        Field::Bytes(bytes) => bytes.into(),
        Field::Array(array) => Special::Array(array).to_value(),
        Field::Scalar(number) | Field::Numpy(number) => Special::Scalar(number).to_value(),
    }
}

fn array<T: Element>(numbers: &[T]) -> NdArray<'static> {
    NdArray::from_ndarray(&ndarray::aview1(numbers)).into_owned()
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
