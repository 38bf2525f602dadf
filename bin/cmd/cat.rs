use std::io::BufRead;
use std::ops::Range;
use std::path::{Path, PathBuf};

use crate::exit::{Exit, Failure, Outcome};
use crate::file;
use crate::output::Output;
use crate::render::{Form, Printer};

/// Print samples, one a line: shortened for people, or whole as JSON lines
///
/// Without --jsonl a line is for people: long strings are cut, and bytes and arrays are notes such
/// as <bytes 281>, <array <f4 [32, 32]> or, of an array in a bloscpack container, <array <f4 [32,
/// 32] packed>.
///
/// With --jsonl nothing is left out. A sample is a JSON object with its fields in their order; what
/// JSON has no word for is an object such as {"$bin": "base64"}, which a container is, too. "convert --from jsonl" makes the
/// same values of it again, and the same bytes wherever a program such as Python datadings wrote
/// them: 32-bit floats come back as 64-bit ones, and numbers and lengths in more bytes than needed
/// in the shortest form. If there are any, a note on standard error says so.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Data files
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Only these samples of each file: 10..20, 10.. or ..20, counted from 0, the end left out
    #[arg(long, value_name = "A..B", value_parser = parse_range, conflicts_with = "keys")]
    range: Option<Range<usize>>,
    /// Only the samples with the keys in this file, one a line, in that order; - is standard input
    #[arg(long, value_name = "LIST")]
    keys: Option<PathBuf>,
    #[command(flatten)]
    form: Form,
}

const EXAMPLES: &str = "\
Examples:
  kiste cat train.msgpack --range 100..110
  kiste cat train.msgpack --fields caption,label
  kiste cat train.msgpack --jsonl | jq .label | sort | uniq -c
  kiste cat a.msgpack b.msgpack --jsonl | kiste convert --from jsonl - both.msgpack
  kiste ls train.msgpack | grep cat | kiste cat train.msgpack --keys -";

impl Args {
    pub(crate) fn run(self, output: &Output) -> Outcome<Exit> {
        let keys = self.keys.as_deref().map(read_lines).transpose()?;
        let mut printer = Printer::new(&self.form, output)?;
        let mut exit = Exit::Yes;
        for path in &self.files {
            let reader = file::open(path)?;
            match &keys {
                None => {
                    let Range { start, end } = self.range.clone().unwrap_or(0..usize::MAX);
                    // As slices do in Python: what is beyond the end is left out.
                    let end = end.min(reader.len());
                    printer.print(&reader, start.min(end)..end)?;
                }
                Some(keys) => {
                    let mut indices = Vec::new();
                    for key in keys {
                        match reader.find(key)? {
                            Some(index) => indices.push(index),
                            None => exit = output.fail(absent(path, key)),
                        }
                    }
                    printer.print(&reader, indices)?;
                }
            }
        }
        printer.finish()?;
        Ok(exit)
    }
}

/// A key that is not there.
pub(super) fn absent(path: &Path, key: &str) -> Failure {
    Failure::no(format_args!("{}: there is no sample with the key {key:?}", file::shown(path)))
}

/// The lines of a file, or of standard input.
pub(super) fn read_lines(path: &Path) -> Outcome<Vec<String>> {
    let lines: std::io::Result<Vec<String>> = match path == Path::new("-") {
        true => std::io::stdin().lock().lines().collect(),
        false => kiste::convert::open_regular(path)
            .and_then(|file| std::io::BufReader::new(file).lines().collect()),
    };
    lines.map_err(|error| Failure::io(path, error))
}

/// A half-open range.
pub(super) fn parse_range(text: &str) -> Result<Range<usize>, String> {
    let expected = || "expected A..B, A.. or ..B".to_string();
    let (start, end) = text.split_once("..").ok_or_else(expected)?;
    let number = |text: &str, default| match text {
        "" => Ok(default),
        digits => digits.parse().map_err(|_| expected()),
    };
    let (start, end) = (number(start, 0)?, number(end, usize::MAX)?);
    if start > end {
        return Err(format!("{start} is beyond {end}"));
    }
    Ok(start..end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_half_open() {
        assert_eq!(parse_range("3..5"), Ok(3..5));
        assert_eq!(parse_range("3.."), Ok(3..usize::MAX));
        assert_eq!(parse_range("..5"), Ok(0..5));
        assert_eq!(parse_range(".."), Ok(0..usize::MAX));
        for wrong in ["", "3", "5..3", "-1..3", "3..=5", "a..b"] {
            assert!(parse_range(wrong).is_err(), "{wrong}");
        }
    }
}
