//! [`SampleLines`]: samples as lines of text, whole or for people.

use std::collections::HashSet;
use std::io::{self, Write};
use std::ops::Range;

use rayon::prelude::*;

use crate::error::{Error, ErrorKind, Result};
use crate::format::jsonl;
use crate::format::msgpack::{self, Value, sample};
use crate::reader::{Reader, at_reader};
use crate::text::{escaped, escaped_json};

/// Samples of the first batch, and at most.
const SAMPLES: Range<usize> = 16..8192;
/// Bytes of packed samples in a batch, if there are more than one.
const BYTES: u64 = 4 << 20;
/// A sample of an unknown length counts as this many.
const UNKNOWN: u64 = 16 << 10;

/// How a sample is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum LineForm {
    /// One JSON object per line, with nothing left out: see [`format::jsonl`](crate::format::jsonl).
    Json,
    /// One line for people, with strings, bytes and lists shortened to about this length.
    Short(usize),
    /// The packed sample as it is, without a line end.
    Raw,
}

/// Writes samples as lines of text.
///
/// They are rendered in batches, each on all cores and written in order while the next one is being
/// rendered. The first batches are small, so that the first line comes at once.
///
/// ```
/// use std::collections::BTreeMap;
/// use kiste::convert::{LineForm, SampleLines};
/// use kiste::{DatasetReader, Writer};
///
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("letters.msgpack");
/// let mut writer = Writer::create(&path)?;
/// writer.write(&BTreeMap::from([("key", "a"), ("letter", "α")]))?;
/// writer.write(&BTreeMap::from([("key", "b"), ("letter", "β")]))?;
/// writer.finish()?;
///
/// let mut text = Vec::new();
/// let mut lines = SampleLines::new(LineForm::Json);
/// lines.write::<Box<dyn std::error::Error + Send + Sync>>(
///     &DatasetReader::open(&path)?, [1], &mut text,
/// )?;
/// assert_eq!(String::from_utf8(text)?, "{\"key\":\"b\",\"letter\":\"β\"}\n");
/// assert_eq!(lines.inexact(), 0);
/// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
/// ```
#[derive(Debug, Clone)]
pub struct SampleLines {
    how: How,
    inexact: u64,
    seen: HashSet<String>,
}

#[derive(Debug, Clone)]
struct How {
    form: LineForm,
    fields: Vec<String>,
    printable: bool,
}

/// Lines of some samples, up to the first error.
#[derive(Default)]
struct Lines {
    text: Vec<u8>,
    inexact: u64,
    seen: HashSet<String>,
    error: Option<Error>,
}

impl SampleLines {
    /// Samples in this form.
    pub fn new(form: LineForm) -> SampleLines {
        let how = How { form, fields: Vec::new(), printable: false };
        SampleLines { how, inexact: 0, seen: HashSet::new() }
    }

    /// Writes only these fields, and the key. Default: all.
    #[must_use]
    pub fn fields<S: Into<String>>(mut self, names: impl IntoIterator<Item = S>) -> SampleLines {
        self.how.fields = names.into_iter().map(Into::into).collect();
        self
    }

    /// Whether characters that a terminal takes for something else are escaped in JSON. Default: no.
    #[must_use]
    pub fn printable(mut self, yes: bool) -> SampleLines {
        self.how.printable = yes;
        self
    }

    /// Writes the samples of these indices, in this order.
    ///
    /// # Errors
    ///
    /// The errors of the reader, after the lines before them; [`Unsupported`](ErrorKind::Unsupported) for
    /// values that have no form in JSON; and those of `to`.
    pub fn write<E: From<Error> + From<io::Error> + Send>(
        &mut self,
        reader: &dyn Reader,
        indices: impl IntoIterator<Item = usize>,
        to: &mut (dyn Write + Send),
    ) -> Result<(), E> {
        let how = self.how.clone();
        let mut indices = indices.into_iter();
        let mut size = SAMPLES.start;
        let unknown = reader.sample_bytes().unwrap_or(UNKNOWN);
        let mut ready = Vec::new();
        loop {
            let mut batch = Vec::new();
            let mut bytes = 0;
            while batch.len() < size && bytes < BYTES {
                let Some(index) = indices.next() else { break };
                bytes += reader.known_len(index).map_or(0, |len| len.unwrap_or(unknown));
                batch.push(index);
            }
            if batch.is_empty() {
                return self.put(ready, to);
            }
            let put = || self.put::<E>(ready, to);
            let (put, rendered) = rayon::join(put, || how.render(reader, &batch));
            put?;
            ready = rendered;
            size = (size * 2).min(SAMPLES.end);
        }
    }

    /// How many of the samples that were written as JSON do not come back byte for byte: they have
    /// 32-bit floats, or other than the shortest encodings.
    pub fn inexact(&self) -> u64 {
        self.inexact
    }

    /// The fields that were asked for, and that no sample had.
    pub fn unseen(&self) -> impl Iterator<Item = &str> {
        let unseen = self.how.fields.iter().filter(|name| !self.seen.contains(*name));
        unseen.map(String::as_str)
    }

    fn put<E: From<Error> + From<io::Error>>(
        &mut self,
        lines: Vec<Lines>,
        to: &mut dyn Write,
    ) -> Result<(), E> {
        for Lines { text, inexact, seen, error } in lines {
            to.write_all(&text)?;
            self.inexact += inexact;
            self.seen.extend(seen);
            if let Some(error) = error {
                to.flush()?;
                return Err(error.into());
            }
        }
        // Slow consumers see what there is: batches are large where there is much.
        Ok(to.flush()?)
    }
}

impl How {
    fn render(&self, reader: &dyn Reader, batch: &[usize]) -> Vec<Lines> {
        let share = batch.len().div_ceil(4 * rayon::current_num_threads()).max(4);
        let lines = |indices: &[usize]| {
            let mut lines = Lines::default();
            for index in indices {
                if let Err(error) = lines.push(self, reader, *index) {
                    lines.error = Some(error);
                    break;
                }
            }
            lines
        };
        batch.par_chunks(share).map(lines).collect()
    }
}

impl Lines {
    fn push(&mut self, how: &How, reader: &dyn Reader, index: usize) -> Result<()> {
        let max = match how.form {
            LineForm::Raw => {
                self.text.extend_from_slice(&reader.get_raw(index)?);
                return Ok(());
            }
            LineForm::Json => None,
            LineForm::Short(max) => Some(max),
        };
        let mut value = reader.get(index)?;
        self.choose(&how.fields, &mut value);
        let mut line = Vec::new();
        if let Some(max) = max {
            jsonl::write_short(&value, max, &mut line);
            self.text.extend_from_slice(escaped(&String::from_utf8_lossy(&line)).as_bytes());
        } else {
            let exact = match how.fields.is_empty() {
                true => is_exact(&value, &reader.get_raw(index)?),
                // These cannot be read back anyway.
                false => !has_short_floats(&value),
            };
            self.inexact += u64::from(!exact);
            let line = to_json(reader, index, &value)?;
            match std::str::from_utf8(&line) {
                Ok(line) if how.printable => {
                    self.text.extend_from_slice(escaped_json(line).as_bytes());
                }
                _ => self.text.extend_from_slice(&line),
            }
        }
        self.text.push(b'\n');
        Ok(())
    }

    /// Keeps only these fields and the key, if any are named.
    fn choose(&mut self, fields: &[String], value: &mut Value) {
        let (false, Value::Map(entries)) = (fields.is_empty(), value) else { return };
        entries.retain(|(name, _)| {
            let Some(name) = name.as_str() else { return false };
            let wanted = fields.iter().any(|field| field == name);
            if wanted && !self.seen.contains(name) {
                self.seen.insert(name.to_owned());
            }
            wanted || name == sample::KEY
        });
    }
}

/// A sample of a reader, or a part of one, as one line of JSON without its end.
///
/// # Errors
///
/// [`Unsupported`](ErrorKind::Unsupported) for values that have no form in JSON.
pub fn to_json(reader: &dyn Reader, index: usize, value: &Value) -> Result<Vec<u8>> {
    let mut line = Vec::new();
    jsonl::write(value, &mut line).map_err(|error| {
        let error = Error::new(ErrorKind::Unsupported, error.to_string());
        match reader.name() {
            Some(_) => at_reader(reader, error).with_index(index as u64),
            None => reader.locate(index).describe(error),
        }
    })?;
    Ok(line)
}

/// Whether these bytes come out again when the JSON is read back.
fn is_exact(value: &Value, raw: &[u8]) -> bool {
    !has_short_floats(value) && msgpack::to_vec(value).is_ok_and(|again| again == raw)
}

fn has_short_floats(value: &Value) -> bool {
    match value {
        Value::F32(_) => true,
        Value::Array(items) => items.iter().any(has_short_floats),
        Value::Map(entries) => {
            entries.iter().any(|(key, value)| has_short_floats(key) || has_short_floats(value))
        }
        _ => false,
    }
}
