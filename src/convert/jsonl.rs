//! JSON lines: one sample a line, in the notation that `kiste cat --jsonl` prints.

use std::io::{BufRead, BufReader, Read};

use rayon::prelude::*;

use super::Source;
use crate::error::{Error, ErrorKind, Result};
use crate::format::{jsonl, msgpack};

/// Bytes of lines that are parsed at a time, at most.
const BATCH: usize = 4 << 20;

/// Reads samples from JSON lines. Empty lines are skipped.
///
/// What has arrived is handed on before more is waited for, so lines that trickle in through a
/// pipe are not held back.
pub struct JsonLines<R> {
    input: BufReader<R>,
    name: String,
    line: u64,
    /// The lines of the last batch.
    batch: Vec<u64>,
}

impl<R: Read + Send> JsonLines<R> {
    /// Reads from `input`; errors call it `name` and give the line, counted from 1.
    pub fn new(input: R, name: impl Into<String>) -> JsonLines<R> {
        let input = BufReader::with_capacity(BATCH, input);
        JsonLines { input, name: name.into(), line: 0, batch: Vec::new() }
    }

    /// One line without its end, `None` at the end of the input.
    fn read_line(&mut self) -> Result<Option<Vec<u8>>> {
        let mut line = Vec::new();
        let read = self.input.read_until(b'\n', &mut line);
        let read = read.map_err(|e| Error::io(&self.name, e))?;
        self.line += 1;
        while line.last().is_some_and(|end| matches!(end, b'\n' | b'\r')) {
            line.pop();
        }
        Ok((read > 0).then_some(line))
    }
}

impl<R: Read + Send> Source for JsonLines<R> {
    fn next_batch(&mut self) -> Result<Vec<Result<Vec<u8>>>> {
        let mut lines = Vec::new();
        let mut bytes = 0;
        while bytes < BATCH {
            let Some(line) = self.read_line()? else { break };
            if !line.iter().all(u8::is_ascii_whitespace) {
                bytes += line.len() + 64;
                lines.push((self.line, line));
            }
            if !lines.is_empty() && self.input.buffer().is_empty() {
                break;
            }
        }
        self.batch = lines.iter().map(|(number, _)| *number).collect();
        let name = &self.name;
        Ok(lines.into_par_iter().map(|(number, line)| pack(name, number, &line)).collect())
    }

    fn locate(&self, item: usize, error: Error) -> Error {
        let Some(line) = self.batch.get(item) else { return error };
        let located = Error::new(error.kind(), format!("line {line}: {}", error.message()));
        let located = located.at(&self.name);
        match error.key() {
            Some(key) => located.with_key(key),
            None => located,
        }
    }
}

fn pack(name: &str, number: u64, line: &[u8]) -> Result<Vec<u8>> {
    let invalid = |e: &dyn std::fmt::Display| {
        Error::new(ErrorKind::Invalid, format!("line {number}: {e}")).at(name)
    };
    let value = jsonl::parse(line).map_err(|e| invalid(&e))?;
    let packed = msgpack::to_vec(&value).map_err(|e| invalid(&e))?;
    msgpack::check_sample(&packed).map_err(|e| invalid(&format_args!("not a sample: {e}")))?;
    Ok(packed)
}
