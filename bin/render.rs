//! Samples on standard output: shortened for people, as JSON lines, or as they are.
//!
//! Samples are rendered in batches, each on all cores and written in order while the next one is
//! being rendered. The first batches are small, so that `head -1` has its line at once.

use std::collections::HashSet;
use std::io::Write;
use std::ops::Range;

use kiste::format::msgpack::sample;
use kiste::format::{jsonl, msgpack};
use kiste::text::{escaped, escaped_json, units};
use kiste::{DatasetReader, Value};
use rayon::prelude::*;

use crate::exit::{Failure, Outcome};
use crate::output::{Output, Stdout};

/// Samples of the first batch, and at most.
const SAMPLES: Range<usize> = 16..8192;
/// Bytes of packed samples in a batch, if there are more than one.
const BYTES: u64 = 4 << 20;

/// How to print samples.
#[derive(Debug, clap::Args)]
pub(crate) struct Form {
    /// Print one JSON object a line with nothing left out: "convert --from jsonl" reads it back
    #[arg(long, alias = "json", conflicts_with = "raw")]
    pub(crate) jsonl: bool,
    /// Print the packed samples as they are, one after another: a data file without side files
    #[arg(long)]
    pub(crate) raw: bool,
    /// Only these fields, and the key
    #[arg(long, value_name = "FIELD,...", value_delimiter = ',', conflicts_with = "raw")]
    fields: Vec<String>,
    /// Shorten strings, bytes and lists for the eye to about this length
    #[arg(long, value_name = "N", default_value_t = 64, conflicts_with_all = ["jsonl", "raw"])]
    max: usize,
}

/// Prints samples of any number of datasets.
pub(crate) struct Printer<'a> {
    form: &'a Form,
    output: &'a Output,
    out: Stdout,
    inexact: u64,
    /// The fields that were asked for and have been seen.
    seen: HashSet<String>,
}

/// Lines of some samples, up to the first error.
#[derive(Default)]
struct Lines {
    text: Vec<u8>,
    inexact: u64,
    seen: HashSet<String>,
    error: Option<kiste::Error>,
}

impl<'a> Printer<'a> {
    pub(crate) fn new(form: &'a Form, output: &'a Output) -> Outcome<Printer<'a>> {
        if form.raw && output.is_terminal() {
            let failure = Failure::trouble("packed samples are not for a terminal");
            return Err(failure.hint("redirect them: kiste cat --raw FILE > OUT"));
        }
        let (out, seen) = (output.stdout(), HashSet::new());
        Ok(Printer { form, output, out, inexact: 0, seen })
    }

    /// Prints the samples of these indices, in this order.
    pub(crate) fn print(
        &mut self,
        reader: &DatasetReader,
        indices: impl IntoIterator<Item = usize>,
    ) -> Outcome<()> {
        let mut indices = indices.into_iter().peekable();
        let mut size = SAMPLES.start;
        let mut ready = Vec::new();
        loop {
            let mut batch = Vec::new();
            let mut bytes = 0;
            while batch.len() < size && bytes < BYTES && indices.peek().is_some() {
                let Some(index) = indices.next() else { break };
                bytes += reader.byte_range(index).map_or(0, |range| range.end - range.start);
                batch.push(index);
            }
            if batch.is_empty() {
                return self.write(ready);
            }
            let form = (self.form, self.output.is_terminal());
            let write = || self.write(ready);
            let (written, next) = rayon::join(write, || render(form, reader, &batch));
            written?;
            ready = next;
            size = (size * 2).min(SAMPLES.end);
        }
    }

    fn write(&mut self, lines: Vec<Lines>) -> Outcome<()> {
        for Lines { text, inexact, seen, error } in lines {
            self.out.write_all(&text)?;
            self.inexact += inexact;
            self.seen.extend(seen);
            if let Some(error) = error {
                self.out.flush()?;
                return Err(error.into());
            }
        }
        // Slow consumers see what there is: batches are large where there is much.
        Ok(self.out.flush()?)
    }

    /// Says what was lost, if anything.
    pub(crate) fn finish(mut self) -> Outcome<()> {
        self.out.flush()?;
        for name in self.form.fields.iter().filter(|name| !self.seen.contains(*name)) {
            self.output.warn(format_args!("no sample that was printed has a field {name:?}"));
        }
        if self.inexact > 0 {
            let samples = units::counted(self.inexact, "sample");
            self.output.note(format_args!(
                "note: {samples} with 32-bit floats or other than the shortest encodings: read \
                 back, the values are the same but not the bytes"
            ));
        }
        Ok(())
    }
}

fn render(form: (&Form, bool), reader: &DatasetReader, batch: &[usize]) -> Vec<Lines> {
    let share = batch.len().div_ceil(4 * rayon::current_num_threads()).max(4);
    let lines = |indices: &[usize]| {
        let mut lines = Lines::default();
        for index in indices {
            if let Err(error) = lines.push(form, reader, *index) {
                lines.error = Some(error);
                break;
            }
        }
        lines
    };
    batch.par_chunks(share).map(lines).collect()
}

impl Lines {
    fn push(
        &mut self,
        (form, terminal): (&Form, bool),
        reader: &DatasetReader,
        index: usize,
    ) -> kiste::Result<()> {
        if form.raw {
            self.text.extend_from_slice(&reader.get_raw(index)?);
            return Ok(());
        }
        let mut value = reader.get(index)?;
        self.choose(&form.fields, &mut value);
        if form.jsonl {
            let exact = match form.fields.is_empty() {
                true => is_exact(&value, &reader.get_raw(index)?),
                // What is left out cannot be read back anyway.
                false => !has_short_floats(&value),
            };
            self.inexact += u64::from(!exact);
            let line = json(reader, index, &value)?;
            match std::str::from_utf8(&line) {
                Ok(line) if terminal => self.text.extend_from_slice(escaped_json(line).as_bytes()),
                _ => self.text.extend_from_slice(&line),
            }
        } else {
            let mut line = Vec::new();
            jsonl::write_short(&value, form.max, &mut line);
            self.text.extend_from_slice(escaped(&String::from_utf8_lossy(&line)).as_bytes());
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

/// A sample, or a part of one, in one line of JSON.
pub(crate) fn json(reader: &DatasetReader, index: usize, value: &Value) -> kiste::Result<Vec<u8>> {
    let mut line = Vec::new();
    jsonl::write(value, &mut line).map_err(|e| {
        let error = kiste::Error::new(kiste::ErrorKind::Unsupported, e.to_string());
        error.at(reader.path()).with_index(index as u64)
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
