use std::path::PathBuf;

use kiste::convert::to_json;
use kiste::text::escaped_lines;
use kiste::{DatasetReader, Value};

use super::cat::{absent, check_index};
use crate::exit::{Exit, Failure, Outcome};
use crate::file;
use crate::output::Output;

/// Find one sample by its key and print it, or one field of it
///
/// A whole sample is printed as one line of JSON, as "cat --jsonl" does. A field of text or bytes is written as
/// it is, without a line end; any other field is JSON. On a terminal, control characters in text are escaped,
/// except newlines and tabs.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Data file
    file: PathBuf,
    /// Key of the sample
    #[arg(required_unless_present = "index")]
    key: Option<String>,
    /// Take the sample of this index, counted from 0, instead of one by its key
    #[arg(long, value_name = "I", conflicts_with = "key")]
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
  kiste get train.msgpack --index 0 --field caption --json

Exit code 1 if there is no such sample or field.";

impl Args {
    pub(crate) fn run(self, output: &Output) -> Outcome<Exit> {
        let reader = file::open(&self.file, output)?;
        let index = self.locate(&reader)?;
        let (bytes, binary) = match &self.field {
            Some(name) => self.field(&reader, index, name)?,
            None => (line(&reader, index, &reader.get(index)?)?, false),
        };
        if let Some(path) = &self.output {
            file::write(path, &bytes, self.force)?;
            return Ok(Exit::Yes);
        }
        if output.is_terminal() {
            let text = std::str::from_utf8(&bytes).ok().filter(|_| !binary).ok_or_else(|| {
                let failure = Failure::trouble("bytes are not for a terminal");
                failure.hint("add -o OUT, or redirect them")
            })?;
            output.bytes(escaped_lines(text).as_bytes())?;
            return Ok(Exit::Yes);
        }
        output.bytes(&bytes)?;
        Ok(Exit::Yes)
    }

    fn locate(&self, reader: &DatasetReader) -> Outcome<usize> {
        match &self.key {
            Some(key) => reader.find_and_fetch(key)?.ok_or_else(|| absent(&self.file, key)),
            None => check_index(&self.file, reader, self.index.unwrap_or_default()),
        }
    }

    /// The bytes to write for this field, and whether the field is binary.
    fn field(&self, reader: &DatasetReader, index: usize, name: &str) -> Outcome<(Vec<u8>, bool)> {
        match reader.field(index, name)? {
            Some(Value::Binary(bytes)) if !self.json => Ok((bytes, true)),
            Some(Value::String(text)) if !self.json => Ok((text.into_bytes(), false)),
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

fn line(reader: &DatasetReader, index: usize, value: &Value) -> Outcome<Vec<u8>> {
    let mut line = to_json(reader, index, value)?;
    line.push(b'\n');
    Ok(line)
}

fn names(sample: &Value) -> Vec<&str> {
    let entries = sample.as_map().map(Vec::as_slice).unwrap_or_default();
    entries.iter().filter_map(|(name, _)| name.as_str()).collect()
}
