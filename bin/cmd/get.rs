use std::path::{Path, PathBuf};

use kiste::Value;
use kiste::convert::to_json;
use kiste::format::jsonl;
use kiste::format::msgpack::numpy::{Special, recognise};
use kiste::reader::{Reader, ReaderExt};
use kiste::rearrange::FieldPath;
use kiste::text::{self, escaped, escaped_lines};

use super::cat::{absent, no_such_index};
use crate::exit::{Exit, Failure, Outcome};
use crate::file::{self, Input};
use crate::output::Output;

/// Find samples by their keys and print them, or one field of them
///
/// A whole sample is printed as one line of JSON, as "cat --jsonl" does; on a terminal without --json as a line for
/// each field, shortened. A field of text or bytes is written as it is, without a line end; numbers and times of NumPy
/// are shown as 0.5 or 2024-05-01, and arrays of up to 1,000 elements as [0.1 0.2] <f4. Any other field is JSON. With
/// several keys text and bytes are JSON too, one per line. On a terminal, control characters in text are
/// escaped, except newlines and tabs.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Data file
    file: PathBuf,
    /// Keys of the samples
    #[arg(required_unless_present = "index", value_name = "KEY")]
    keys: Vec<String>,
    /// Take the sample of this index, counted from 0, instead of one by its key; -1 is the last
    #[arg(long, value_name = "I", conflicts_with = "keys", allow_negative_numbers = true)]
    index: Option<i64>,
    /// Only this field, or a value in it: meta.author, boxes[-1].x
    #[arg(long, value_name = "NAME")]
    field: Option<String>,
    /// Print JSON of any value, with nothing left out
    #[arg(long)]
    json: bool,
    /// Write to this file instead of standard output
    #[arg(long, short, value_name = "OUT")]
    output: Option<PathBuf>,
    /// Replace OUT if it exists
    #[arg(long, short, requires = "output")]
    force: bool,
}

/// Elements of an array that is shown by all of them.
const MOST: usize = 1000;
/// Values of a sample on a terminal are shortened to about this length.
const LONG: usize = 256;

const EXAMPLES: &str = "\
Examples:
  kiste get train.msgpack cat/0001.png | jq .label
  kiste get train.msgpack cat/0001.png --field image -o cat.png
  kiste get train.msgpack cat/0001.png dog/0042.png --field label
  kiste get train.msgpack cat/0001.png --field meta.author
  kiste get train.msgpack --index -1 --field caption --json

Exit code 1 if there is no such sample or field.";

impl Args {
    pub(crate) fn run(self, output: &Output) -> Outcome<Exit> {
        let reader = file::open(&self.file, output)?;
        let (mut bytes, mut binary, mut exit) = (Vec::new(), false, Exit::Yes);
        for index in self.locate(&reader)? {
            let found = index.and_then(|index| match &self.field {
                Some(name) => self.field(&*reader, index, name, output),
                None => Ok((self.sample(&*reader, index, output)?, false)),
            });
            match found {
                Ok((found, is_binary)) => {
                    bytes.extend(found);
                    binary |= is_binary;
                }
                // The others are printed.
                Err(failure) if self.keys.len() > 1 => exit = exit.max(output.fail(failure)),
                Err(failure) => return Err(failure),
            }
        }
        // A file has all of them, or stays as it is.
        if self.output.is_some() && exit != Exit::Yes {
            return Ok(exit);
        }
        if let Some(path) = &self.output {
            file::write(path, &bytes, self.force)?;
            return Ok(exit);
        }
        if output.is_terminal() {
            let text = std::str::from_utf8(&bytes).ok().filter(|_| !binary).ok_or_else(|| {
                let failure = Failure::trouble("bytes are not for a terminal");
                failure.hint("add -o OUT, or redirect them")
            })?;
            output.bytes(escaped_lines(text).as_bytes())?;
            return Ok(exit);
        }
        output.bytes(&bytes)?;
        Ok(exit)
    }

    /// The index of each sample that is asked for.
    fn locate(&self, reader: &Input) -> Outcome<Vec<Outcome<usize>>> {
        let absent = |key: &str| {
            let failure = absent(&self.file, key);
            match key.parse::<usize>() {
                Ok(index) if index < reader.len() => {
                    failure.hint(format!("--index {index} takes the sample at this place"))
                }
                _ => failure,
            }
        };
        Ok(match &self.keys[..] {
            [] => {
                vec![Ok(place(&self.file, &**reader, self.index.unwrap_or_default())?)]
            }
            [key] => {
                let found = match &reader.dataset {
                    Some(dataset) => dataset.find_and_fetch(key)?,
                    None => reader.find(key)?,
                };
                vec![Ok(found.ok_or_else(|| absent(key))?)]
            }
            keys => {
                let found = reader.find_many(keys)?;
                let each = keys.iter().zip(found);
                each.map(|(key, found)| found.ok_or_else(|| absent(key))).collect()
            }
        })
    }

    /// A whole sample: as JSON, or for people.
    fn sample(&self, reader: &dyn Reader, index: usize, output: &Output) -> Outcome<Vec<u8>> {
        let sample = reader.get(index)?;
        let fields = sample.as_map().filter(|_| {
            output.is_terminal() && !self.json && self.output.is_none() && self.keys.len() < 2
        });
        match fields {
            Some(fields) => Ok(listed(fields).into_bytes()),
            None => line(reader, index, &sample),
        }
    }

    /// A number, a time or an array for people, if that is wanted; a large array only on a terminal, where its middle is
    /// left out.
    fn words(&self, value: &Value, output: &Output) -> Option<String> {
        if self.json {
            return None;
        }
        let large = || match recognise(value) {
            Some(Special::Array(array)) if output.is_terminal() && self.output.is_none() => {
                array.to_text().ok()
            }
            _ => None,
        };
        jsonl::to_words(value, MOST).or_else(large)
    }

    /// The bytes to write for this field, and whether the field is binary.
    fn field(
        &self,
        reader: &dyn Reader,
        index: usize,
        name: &str,
        output: &Output,
    ) -> Outcome<(Vec<u8>, bool)> {
        let is_raw = !self.json && self.keys.len() < 2;
        match FieldPath::new(name).find(reader, index)? {
            Some(Value::Binary(bytes)) if is_raw => Ok((bytes, true)),
            Some(Value::String(text)) if is_raw => Ok((text.into_bytes(), false)),
            Some(value) => match self.words(&value, output) {
                Some(words) => Ok((format!("{words}\n").into_bytes(), false)),
                None => Ok((line(reader, index, &value)?, false)),
            },
            None => {
                let path = file::shown(&self.file);
                let message = format!("{path}: sample {index}: there is no field {name:?}");
                let names = names(&reader.get(index)?).join(", ");
                Err(Failure::no(message).hint(format!("its fields: {names}")))
            }
        }
    }
}

/// The index of a sample, counted from the end if it is negative.
fn place(path: &Path, reader: &dyn Reader, index: i64) -> Outcome<usize> {
    let len = reader.len();
    let place = if index < 0 { index.checked_add_unsigned(len as u64) } else { Some(index) };
    let place = place.and_then(|place| usize::try_from(place).ok()).filter(|place| *place < len);
    place.ok_or_else(|| no_such_index(path, reader, index))
}

/// A line for each field of a sample.
fn listed(fields: &[(Value, Value)]) -> String {
    let short = |value: &Value| {
        let mut text = Vec::new();
        jsonl::write_short(value, LONG, &mut text);
        escaped(&String::from_utf8_lossy(&text)).into_owned()
    };
    let name = |name: &Value| match name.as_str() {
        Some(name) => escaped(name).into_owned(),
        None => short(name),
    };
    let names: Vec<String> = fields.iter().map(|(own, _)| name(own)).collect();
    let columns = names.iter().map(|name| text::width(name)).max().unwrap_or(0);
    let lines = names.iter().zip(fields);
    lines
        .map(|(name, (_, value))| format!("{}  {}\n", text::padded(name, columns), short(value)))
        .collect()
}

fn line(reader: &dyn Reader, index: usize, value: &Value) -> Outcome<Vec<u8>> {
    let mut line = to_json(reader, index, value)?;
    line.push(b'\n');
    Ok(line)
}

fn names(sample: &Value) -> Vec<&str> {
    let entries = sample.as_map().map(Vec::as_slice).unwrap_or_default();
    entries.iter().filter_map(|(name, _)| name.as_str()).collect()
}
