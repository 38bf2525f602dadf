use std::path::PathBuf;

use kiste::Value;
use kiste::convert::to_json;
use kiste::reader::{Reader, ReaderExt};
use kiste::text::escaped_lines;

use super::cat::{absent, check_index};
use crate::exit::{Exit, Failure, Outcome};
use crate::file::{self, Input};
use crate::output::Output;

/// Find samples by their keys and print them, or one field of them
///
/// A whole sample is printed as one line of JSON, as "cat --jsonl" does. A field of text or bytes is written as
/// it is, without a line end; any other field is JSON. With several keys fields are JSON too, one per line. On a terminal, control characters in text are escaped,
/// except newlines and tabs.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Data file
    file: PathBuf,
    /// Keys of the samples
    #[arg(required_unless_present = "index", value_name = "KEY")]
    keys: Vec<String>,
    /// Take the sample of this index, counted from 0, instead of one by its key
    #[arg(long, value_name = "I", conflicts_with = "keys")]
    index: Option<usize>,
    /// Only this field
    #[arg(long, value_name = "NAME")]
    field: Option<String>,
    /// Print fields of text and bytes as JSON, too
    #[arg(long)]
    json: bool,
    /// Write to this file instead of standard output
    #[arg(long, short, value_name = "OUT")]
    output: Option<PathBuf>,
    /// Replace OUT if it exists
    #[arg(long, short, requires = "output")]
    force: bool,
}

const EXAMPLES: &str = "\
Examples:
  kiste get train.msgpack cat/0001.png | jq .label
  kiste get train.msgpack cat/0001.png --field image -o cat.png
  kiste get train.msgpack cat/0001.png dog/0042.png --field label
  kiste get train.msgpack --index 0 --field caption --json

Exit code 1 if there is no such sample or field.";

impl Args {
    pub(crate) fn run(self, output: &Output) -> Outcome<Exit> {
        let reader = file::open(&self.file, output)?;
        let (mut bytes, mut binary, mut exit) = (Vec::new(), false, Exit::Yes);
        for index in self.locate(&reader)? {
            let found = index.and_then(|index| match &self.field {
                Some(name) => self.field(&*reader, index, name),
                None => Ok((line(&*reader, index, &reader.get(index)?)?, false)),
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
                let index = self.index.unwrap_or_default();
                vec![Ok(check_index(&self.file, &**reader, index)?)]
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

    /// The bytes to write for this field, and whether the field is binary.
    fn field(&self, reader: &dyn Reader, index: usize, name: &str) -> Outcome<(Vec<u8>, bool)> {
        let is_raw = !self.json && self.keys.len() < 2;
        match reader.field(index, name)? {
            Some(Value::Binary(bytes)) if is_raw => Ok((bytes, true)),
            Some(Value::String(text)) if is_raw => Ok((text.into_bytes(), false)),
            Some(value) => Ok((line(reader, index, &value)?, false)),
            None => {
                let path = file::shown(&self.file);
                let message = format!("{path}: sample {index}: there is no field {name:?}");
                let names = names(&reader.get(index)?).join(", ");
                Err(Failure::no(message).hint(format!("its fields: {names}")))
            }
        }
    }
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
