//! Reads samples from JSON lines, in a file or a stream.

use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};

use rayon::prelude::*;

use super::array::AsLines;
use super::notation::Lines;
use crate::convert::decoded::{TextEncoding, decoded};
use crate::convert::encoding;
use crate::convert::file_names::KeyNames;
use crate::convert::formats::files::MAX_BYTES;
use crate::convert::input::{Emit, Input};
use crate::convert::kept_fields::KeptFields;
use crate::convert::source_file::{open_regular, size_of};
use crate::convert::{Source, compressed};
use crate::error::{Error, Result};
use crate::format::jsonl::array;
use crate::format::jsonl::keys::{KeyRule, has_key};
use crate::format::jsonl::lines::{is_empty, numbered_key, trimmed};

/// The most bytes of lines that are parsed at a time.
const BATCH: usize = 4 << 20;

/// Bytes at the start of a file that are looked at, to tell an array.
const HEAD: u64 = array::MAX_HELD as u64;

/// Bytes of a unit: no more than [`InOrder`](crate::convert::InOrder) reads ahead.
const UNIT: u64 = 2 << 20;

/// Reads samples from a stream of JSON lines, such as standard input. Empty lines are skipped.
/// Files are read faster by a [`JsonLinesReader`], which also says what keys are.
///
/// A batch ends when the next read would wait, so lines that trickle in through a pipe are not held
/// back.
///
/// ```
/// use kiste::convert::{JsonLinesStream, Source};
///
/// let lines = &b"{\"key\": \"a\", \"n\": 1}\n{\"key\": \"b\", \"n\": 2}\n"[..];
/// let mut stream = JsonLinesStream::new(lines, "numbers");
/// assert_eq!(stream.next_batch()?.len(), 2);
/// assert!(stream.next_batch()?.is_empty(), "the end");
/// # Ok::<(), kiste::Error>(())
/// ```
#[doc(alias = "JsonLines")]
#[must_use]
pub struct JsonLinesStream<R> {
    input: BufReader<AsLines<R>>,
    name: String,
    names: KeyNames,
    line: u64,
    /// The lines of the last batch.
    batch: Vec<u64>,
    max_bytes: u64,
    notation: Lines,
    rule: KeyRule,
    /// Whether lines are numbered, once the first of them is known.
    numbered: Option<bool>,
}

impl<R: Read + Send> JsonLinesStream<R> {
    /// Reads from `input`. Errors call it `name` and give the line, counted from 1.
    pub fn new(input: R, name: impl Into<String>) -> JsonLinesStream<R> {
        let input = BufReader::with_capacity(BATCH, AsLines::new(input));
        let (name, max_bytes) = (name.into(), MAX_BYTES);
        let names = KeyNames::of(&[if name == "-" { "stdin" } else { &name }]);
        let (rule, numbered) = (KeyRule::default(), None);
        let (line, batch, notation) = (0, Vec::new(), Lines::default());
        JsonLinesStream { input, name, names, line, batch, max_bytes, notation, rule, numbered }
    }

    /// Whether names that begin with `$` have no meaning, as in JSON of other programs. Default: no.
    pub fn plain(mut self, yes: bool) -> Self {
        self.notation.plain = yes;
        self
    }

    /// The encoding of the text. Default: UTF-8.
    pub fn encoding(mut self, encoding: TextEncoding) -> Self {
        self.notation.encoding = encoding.unless_utf8();
        self.input.get_mut().set_encoding(self.notation.encoding);
        self
    }

    /// Takes keys from this field, whose values are strings or integers.
    pub fn key(self, name: impl Into<String>) -> Self {
        self.keys(KeyRule::Field(name.into()))
    }

    pub(in crate::convert) fn keys(mut self, rule: KeyRule) -> Self {
        self.rule = rule;
        self
    }

    /// Reads only the fields that the conversion needs: the others are nil.
    pub(in crate::convert) fn kept(mut self, kept: KeptFields) -> Self {
        self.notation.kept = kept;
        self
    }

    /// Refuses lines with more bytes than this. Default: 1 GiB.
    pub fn max_bytes(mut self, max_bytes: u64) -> Self {
        self.max_bytes = max_bytes;
        self
    }

    /// One line without its end, or an error if it is too long; `None` at the end of the input.
    fn read_line(&mut self) -> Result<Option<Result<Vec<u8>>>> {
        let mut line = Vec::new();
        let read = read_line(&mut self.input, &mut line, self.max_bytes, u64::MAX);
        let (read, whole) = read.map_err(|e| compressed::blame(Path::new(&self.name), e))?;
        self.line += 1;
        Ok((read > 0).then(|| whole.map(|()| line)))
    }
}

impl<R: Read + Send> Source for JsonLinesStream<R> {
    fn next_batch(&mut self) -> Result<Vec<Result<Vec<u8>>>> {
        let mut lines = Vec::new();
        let mut bytes = 0;
        while bytes < BATCH {
            let Some(line) = self.read_line()? else { break };
            if !line.as_ref().is_ok_and(|line| is_empty(line)) {
                bytes += line.as_ref().map_or(0, Vec::len) + 64;
                lines.push((self.line, line));
            }
            if !lines.is_empty() && self.input.buffer().is_empty() {
                break;
            }
        }
        self.batch = lines.iter().map(|(number, _)| *number).collect();
        let (notation, is_array) = (&self.notation, self.input.get_ref().is_array());
        let key = |line: &Result<Vec<u8>>| has_key(line.as_ref().ok()?, notation);
        let objects = || lines.iter().filter_map(|(_, line)| key(line));
        self.numbered = self.numbered.or_else(|| objects().next().map(|has_key| !has_key));
        let (name, rule, numbered) = (&self.name, &self.rule, self.numbered.unwrap_or(false));
        let stem = || self.names.name(0, Path::new(name));
        let pack = |(number, line): (u64, Result<Vec<u8>>)| {
            let located = |error: Error| error.within(place(number, is_array)).at(name);
            let line = line.map_err(located)?;
            let key = || Ok(numbered_key(stem()?, number - 1));
            let packed = rule.pack(&line, notation, || Ok(numbered), key);
            packed.map_err(|error| located(error).with_raw(encoding::raw(&line, notation.encoding)))
        };
        Ok(lines.into_par_iter().map(pack).collect())
    }

    fn shard(&self) -> Option<&str> {
        self.names.get(0)
    }

    fn locate(&self, item: usize, error: Error) -> Error {
        match self.batch.get(item) {
            Some(line) => {
                error.within(place(*line, self.input.get_ref().is_array())).at(&self.name)
            }
            None => error,
        }
    }
}

/// Reads samples from a file of JSON lines, or of an array of objects. Empty lines are skipped.
///
/// A key is the member `key`, which all lines have or none. If none has, it is the name of the file
/// without its ending, a slash and the number of the line, counted from 0; or another
/// [field](Self::key).
///
/// Units are ranges of bytes; a line belongs to the range in which it begins. An array is read as a stream, and its
/// elements count as lines. It is one unit, and so is a file in another [encoding](Self::encoding) than UTF-8, and one
/// that is compressed by gzip, Zstandard or, with the feature `formats`, bzip2. Errors give the line or the element, counted from 1.
///
/// ```
/// use kiste::convert::{InOrder, JsonLinesReader, Source};
///
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("numbers.jsonl");
/// std::fs::write(&path, r#"{"key": "a", "n": 1}"#)?;
/// let mut lines = InOrder::new(JsonLinesReader::open(&path)?);
/// assert_eq!(lines.next_batch()?[0].as_ref().unwrap(), b"\x82\xa3key\xa1a\xa1n\x01");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(alias = "JsonLinesFile")]
#[must_use]
#[derive(Debug)]
pub struct JsonLinesReader {
    path: PathBuf,
    names: KeyNames,
    /// Bytes of the file, if it is read in ranges.
    len: Option<u64>,
    size: u64,
    unit: u64,
    max_bytes: u64,
    notation: Lines,
    rule: KeyRule,
    /// Whether lines are numbered, once the first of them is known.
    numbered: OnceLock<bool>,
    /// For the first units, the lines before each.
    lines: Mutex<Vec<u64>>,
    is_array: bool,
}

impl JsonLinesReader {
    /// Opens a file. Only its first bytes are read yet.
    ///
    /// # Errors
    ///
    /// [`NotFound`](crate::ErrorKind::NotFound) if it does not exist.
    pub fn open(path: impl AsRef<Path>) -> Result<JsonLinesReader> {
        let path = path.as_ref().to_path_buf();
        let size = size_of(&path).map_err(|error| Error::io(&path, error))?.unwrap_or(0);
        let plain = compressed::plain_head(&path, HEAD)?;
        let is_array = match &plain {
            Some(head) => array::begins(head),
            None => compressed::head(&path, HEAD as usize).is_ok_and(|head| array::begins(&head)),
        };
        Ok(JsonLinesReader {
            is_array,
            names: KeyNames::of(&[&path]),
            path,
            len: (plain.is_some() && !is_array).then_some(size),
            size,
            unit: UNIT,
            max_bytes: MAX_BYTES,
            notation: Lines::default(),
            rule: KeyRule::default(),
            numbered: OnceLock::new(),
            lines: Mutex::new(vec![0]),
        })
    }

    /// Takes keys from this field, whose values are strings or integers.
    ///
    /// ```
    /// use kiste::convert::{InOrder, JsonLinesReader, Source};
    ///
    /// # let dir = tempfile::tempdir()?;
    /// # let path = dir.path().join("captions.jsonl");
    /// std::fs::write(&path, r#"{"id": 7, "caption": "a cat"}"#)?;
    /// let mut lines = InOrder::new(JsonLinesReader::open(&path)?.key("id"));
    /// let sample = lines.next_batch()?.remove(0)?;
    /// assert_eq!(kiste::format::msgpack::key(&sample)?, Some("7"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn key(self, name: impl Into<String>) -> JsonLinesReader {
        self.keys(KeyRule::Field(name.into()))
    }

    pub(in crate::convert) fn keys(mut self, rule: KeyRule) -> JsonLinesReader {
        self.rule = rule;
        self
    }

    /// Reads only the fields that the conversion needs: the others are nil.
    pub(in crate::convert) fn kept(mut self, kept: KeptFields) -> JsonLinesReader {
        self.notation.kept = kept;
        self
    }

    /// The name of the file in keys, if it is one of several.
    pub(in crate::convert) fn called(mut self, names: KeyNames) -> JsonLinesReader {
        self.names = names;
        self
    }

    /// Whether names that begin with `$` have no meaning, as in JSON of other programs. Default: no;
    /// they are those of [`format::jsonl`](crate::format::jsonl).
    pub fn plain(mut self, yes: bool) -> JsonLinesReader {
        self.notation.plain = yes;
        self
    }

    /// The encoding of the text. Default: UTF-8.
    pub fn encoding(mut self, encoding: TextEncoding) -> JsonLinesReader {
        self.notation.encoding = encoding.unless_utf8();
        if self.notation.encoding.is_some() {
            let mut head = Vec::new();
            let text =
                compressed::open(&self.path).map(|file| decoded(file, self.notation.encoding));
            // What cannot be read or decoded is reported where it is read.
            let read = text.map(|text| text.take(HEAD).read_to_end(&mut head));
            self.is_array = matches!(read, Ok(Ok(_))) && array::begins(&head);
            self.len = None;
        }
        self
    }

    /// The size of a unit in bytes. Default: 2 MiB.
    pub fn unit_bytes(mut self, bytes: u64) -> JsonLinesReader {
        self.unit = bytes.max(1);
        self
    }

    /// Refuses lines with more bytes than this. Default: 1 GiB.
    pub fn max_bytes(mut self, max_bytes: u64) -> JsonLinesReader {
        self.max_bytes = max_bytes;
        self
    }

    /// The bytes in which the lines of a unit begin.
    fn range(&self, unit: usize) -> (u64, u64) {
        let start = (unit as u64).saturating_mul(self.unit);
        match self.len {
            Some(len) => (start.min(len), start.saturating_add(self.unit).min(len)),
            None => (0, u64::MAX),
        }
    }

    /// Calls `with` for each line of the unit: with its number in the unit, and its content without
    /// the line end. Returns the number of lines.
    fn each_line(
        &self,
        unit: usize,
        mut with: impl FnMut(u64, Result<&[u8]>) -> Result<()>,
    ) -> Result<u64> {
        let at = |error| compressed::blame(&self.path, error);
        let (start, end) = self.range(unit);
        let mut line = Vec::new();
        let mut position = start;
        let mut input: Box<dyn BufRead> = match self.len {
            None => {
                let mut lines = AsLines::new(compressed::open(&self.path)?);
                lines.set_encoding(self.notation.encoding);
                Box::new(BufReader::new(lines))
            }
            Some(_) => {
                let mut file = open_regular(&self.path).map_err(|e| Error::io(&self.path, e))?;
                // One byte earlier, to see whether a line begins exactly here.
                let from = start.saturating_sub(1);
                file.seek(SeekFrom::Start(from)).map_err(at)?;
                file.will_read(from..end);
                let mut input = BufReader::with_capacity(1 << 17, file);
                if start > 0 {
                    // If this line ends after the unit, no line begins in the unit.
                    let within = input.by_ref().take(end - from).skip_until(b'\n');
                    let passed = within.map_err(at)?;
                    position = from + passed as u64;
                }
                Box::new(input)
            }
        };
        let mut number = 0;
        while position < end {
            line.clear();
            let left = end - position;
            let (read, whole) =
                read_line(&mut *input, &mut line, self.max_bytes, left).map_err(at)?;
            if read == 0 {
                break;
            }
            position += read;
            with(number, whole.map(|()| &line[..]))?;
            number += 1;
        }
        Ok(number)
    }

    /// How many lines there are in the units before this one.
    fn lines_before(&self, unit: usize) -> Result<u64> {
        let mut before = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        while before.len() <= unit {
            let last = before.len() - 1;
            let lines = before[last] + self.count_lines(last)?;
            before.push(lines);
        }
        Ok(before[unit])
    }

    /// How many lines begin in a unit: at the front, and after each line end.
    fn count_lines(&self, unit: usize) -> Result<u64> {
        let at = |error| Error::io(&self.path, error);
        let (start, end) = self.range(unit);
        let mut file = open_regular(&self.path).map_err(at)?;
        let from = start.saturating_sub(1);
        file.seek(SeekFrom::Start(from)).map_err(at)?;
        file.will_read(from..end);
        let mut left = file.take(end.saturating_sub(1).saturating_sub(from));
        let mut lines = u64::from(start == 0 && end > 0);
        let mut buffer = vec![0; 1 << 16];
        loop {
            match left.read(&mut buffer) {
                Ok(0) => return Ok(lines),
                Ok(read) => {
                    lines += buffer[..read].iter().filter(|byte| **byte == b'\n').count() as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(at(error)),
            }
        }
    }

    /// Whether lines are numbered, because the first object has no key. It may be this `line` of the
    /// unit: what is not plain is read only once, and has no other unit.
    fn is_numbered(&self, unit: usize, line: &[u8]) -> Result<bool> {
        if let Some(numbered) = self.numbered.get() {
            return Ok(*numbered);
        }
        let has_key = if unit == 0 { has_key(line, &self.notation) } else { self.first_has_key()? };
        // A line that is no object is bad either way.
        let Some(has_key) = has_key else { return Ok(false) };
        Ok(*self.numbered.get_or_init(|| !has_key))
    }

    /// Whether the first object of a plain file has a key.
    fn first_has_key(&self) -> Result<Option<bool>> {
        let at = |error| Error::io(&self.path, error);
        let mut input = BufReader::new(open_regular(&self.path).map_err(at)?);
        let mut line = Vec::new();
        loop {
            line.clear();
            let (read, whole) =
                read_line(&mut input, &mut line, self.max_bytes, u64::MAX).map_err(at)?;
            if read == 0 {
                return Ok(None);
            }
            if let Some(has_key) = whole.ok().and_then(|()| has_key(&line, &self.notation)) {
                return Ok(Some(has_key));
            }
        }
    }

    /// Adds the line to an error.
    fn located(&self, unit: usize, number: u64, error: Error) -> Error {
        match self.lines_before(unit) {
            Ok(before) => error.within(place(before + number + 1, self.is_array)).at(&self.path),
            Err(_) => error.at(&self.path),
        }
    }
}

impl Input for JsonLinesReader {
    fn units(&self) -> usize {
        let units = self.len.map_or(1, |len| len.div_ceil(self.unit));
        usize::try_from(units).unwrap_or(usize::MAX)
    }

    fn read(&self, unit: usize, emit: &mut Emit<'_>) -> Result<()> {
        self.each_line(unit, |number, line| {
            let line = match line {
                Ok(line) if is_empty(line) => return Ok(()),
                Ok(line) => line,
                Err(error) => return emit(Err(self.located(unit, number, error))),
            };
            let key = || {
                let stem = self.names.name(0, &self.path)?;
                Ok(numbered_key(stem, self.lines_before(unit)? + number))
            };
            let packed = self.rule.pack(line, &self.notation, || self.is_numbered(unit, line), key);
            let raw = || encoding::raw(line, self.notation.encoding);
            let located = |error| self.located(unit, number, error).with_raw(raw());
            emit(packed.map_err(located))
        })?;
        Ok(())
    }

    fn path(&self, _unit: usize) -> Option<&Path> {
        Some(&self.path)
    }

    fn shard(&self, _unit: usize) -> Option<&str> {
        self.names.get(0)
    }

    fn bytes(&self, unit: usize) -> Option<u64> {
        let (start, end) = self.range(unit);
        Some(self.len.map_or(self.size, |_| end - start))
    }

    /// Reads the unit again: errors are few.
    fn locate(&self, unit: usize, item: u64, error: Error) -> Error {
        let (mut items, mut found) = (0, None);
        let read = self.each_line(unit, |number, line| {
            if !line.is_ok_and(is_empty) {
                if items == item {
                    found = Some(number);
                }
                items += 1;
            }
            Ok(())
        });
        match (read, found) {
            (Ok(_), Some(number)) => self.located(unit, number, error),
            _ => error.at(&self.path),
        }
    }
}

/// The place of a sample, counted from 1.
fn place(number: u64, is_array: bool) -> String {
    format!("{} {number}", if is_array { "element" } else { "line" })
}

/// Reads a line without its end. Returns the bytes read, and an error if the line has more than
/// `max_bytes`: then the rest of it is skipped, up to `left` bytes in total.
pub(in crate::convert) fn read_line<R: BufRead + ?Sized>(
    input: &mut R,
    line: &mut Vec<u8>,
    max_bytes: u64,
    left: u64,
) -> io::Result<(u64, Result<()>)> {
    // Two more bytes for the line end.
    let most = max_bytes.saturating_add(2);
    let mut read = input.take(most).read_until(b'\n', line)? as u64;
    let ended = line.last() == Some(&b'\n');
    line.truncate(trimmed(line).len());
    if line.len() as u64 <= max_bytes {
        return Ok((read, Ok(())));
    }
    if !ended {
        read += input.take(left.saturating_sub(read)).skip_until(b'\n')? as u64;
    }
    let message = format!("expected at most {max_bytes} bytes, found more");
    Ok((read, Err(Error::above_limit("max_bytes", message))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;
    use crate::format::msgpack;

    fn found(file: &JsonLinesReader) -> Vec<String> {
        let mut found = Vec::new();
        for unit in 0..file.units() {
            let mut items = 0;
            file.read(unit, &mut |sample| {
                found.push(match sample {
                    Ok(packed) => {
                        let error = Error::new(ErrorKind::Invalid, "here");
                        let place = file.locate(unit, items, error).message().to_owned();
                        format!("{place} {}", msgpack::check_sample(&packed)?)
                    }
                    Err(error) => error.message().to_owned(),
                });
                items += 1;
                Ok(())
            })
            .unwrap();
        }
        found
    }

    #[test]
    fn units_of_any_size_have_the_same_lines_with_the_same_numbers() {
        let text = "{\"key\":\"a\"}\n\n \n{\"key\":\"bbbbbbbbbbbbbbbb\"}\r\nx\n\n{\"key\":\"c\"}";
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.jsonl");
        for text in [text.to_owned(), format!("{text}\n")] {
            std::fs::write(&path, &text).unwrap();
            let whole = found(&JsonLinesReader::open(&path).unwrap());
            assert_eq!(whole.len(), 4);
            assert_eq!(whole[1], "line 4: here bbbbbbbbbbbbbbbb");
            assert!(whole[2].starts_with("line 5: "), "{whole:?}");
            assert_eq!(whole[3], "line 7: here c");
            for bytes in 1..=text.len() as u64 + 1 {
                let file = JsonLinesReader::open(&path).unwrap().unit_bytes(bytes);
                assert_eq!(file.units() as u64, (text.len() as u64).div_ceil(bytes));
                assert_eq!(found(&file), whole, "{bytes}");
            }
        }
        std::fs::write(&path, "").unwrap();
        assert_eq!(JsonLinesReader::open(&path).unwrap().units(), 0);
    }

    #[test]
    fn numbered_keys_are_the_same_for_units_of_any_size_and_for_a_stream() {
        let text = "?\n\n{\"n\":1}\n{\"n\":2222222222}\r\n\n{\"key\":\"a\"}\n{\"n\":3}\n{}";
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("words.en.jsonl");
        std::fs::write(&path, text).unwrap();
        let expected = [
            "line 1: byte 0: ",
            "line 3: here words.en/000000002",
            "line 4: here words.en/000000003",
            "line 6: expected no \"key\", as the first line has none, found one",
            "line 7: here words.en/000000006",
            "line 8: here words.en/000000007",
        ];
        let check = |found: &[String]| {
            assert_eq!(found.len(), expected.len(), "{found:?}");
            for (found, expected) in found.iter().zip(expected) {
                assert!(found.starts_with(expected), "{found} {expected}");
            }
        };
        for bytes in 1..=text.len() as u64 + 1 {
            let file = JsonLinesReader::open(&path).unwrap().unit_bytes(bytes);
            check(&found(&file));
            // The last unit alone, as another machine would read it.
            let file = JsonLinesReader::open(&path).unwrap().unit_bytes(bytes);
            let mut last = Vec::new();
            for unit in (0..file.units()).rev() {
                let mut keys = Vec::new();
                let emit = &mut |sample: Result<Vec<u8>>| {
                    keys.extend(
                        sample
                            .ok()
                            .map(|packed| msgpack::check_sample(&packed).unwrap().to_owned()),
                    );
                    Ok(())
                };
                file.read(unit, emit).unwrap();
                last.splice(..0, keys);
            }
            assert_eq!(last, [2, 3, 6, 7].map(|n| format!("words.en/{n:09}")), "{bytes}");
        }
        let mut stream = JsonLinesStream::new(text.as_bytes(), "words.en.jsonl");
        let batch = stream.next_batch().unwrap();
        let found = batch.into_iter().enumerate().map(|(item, sample)| match sample {
            Ok(packed) => {
                let place = stream.locate(item, Error::new(ErrorKind::Invalid, "here"));
                format!("{} {}", place.message(), msgpack::check_sample(&packed).unwrap())
            }
            Err(error) => error.message().to_owned(),
        });
        check(&found.collect::<Vec<_>>());
    }
}
