use std::fmt::Display;
use std::io::BufRead;
use std::path::{Path, PathBuf};

use kiste::reader::{Reader, ReaderExt};
use kiste::rearrange::SampleRange;
use kiste::text::units;

use crate::exit::{Exit, Failure, Outcome};
use crate::file;
use crate::output::Output;
use crate::render::{Form, Printer};

/// Print samples, one per line: shortened for people, or whole as JSON lines
///
/// Without --jsonl a line is for people. Numbers and times of NumPy are shown as 0.5, 2024-05-01 or 2 h 5 min. Long text
/// is cut, with its length behind it, and so are lists and maps. Bytes are shown as what they are, such as <png 28 x 28,
/// 281 B>. Short arrays are shown as [0.1 0.2] <f4, larger ones by their range, <array <f4 [32, 32], -1.5 to 3.2>,
/// or, in a bloscpack container, <array <f4 [32, 32] packed>.
///
/// With --jsonl nothing is left out. A sample is a JSON object with its fields in their order; values that JSON
/// lacks, such as bytes and containers, are objects such as {"$bin": "base64"}. "convert --from jsonl" makes
/// the same values again, and the same bytes if a program such as Python datadings wrote them. 32-bit floats
/// come back as 64-bit ones, and numbers and lengths in more bytes than needed in the shortest form; a note on
/// standard error says if there are any.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Data files
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Only these samples of each file: 10..20, 10.., ..20 or -3.. for the last three, counted from 0, the end left out
    #[arg(long, value_name = "A..B", conflicts_with = "keys", allow_hyphen_values = true)]
    range: Option<SampleRange>,
    /// Only the samples with the keys in this file, one per line, in that order; - is standard input
    #[arg(long, value_name = "LIST")]
    keys: Option<PathBuf>,
    /// At most this many samples of each file
    #[arg(short = 'n', long, value_name = "N", conflicts_with = "keys")]
    count: Option<usize>,
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
            let reader = file::open(path, output)?;
            match &keys {
                None => {
                    let range = self.range.unwrap_or(SampleRange::ALL);
                    let count = self.count.unwrap_or(usize::MAX);
                    printer.print(&*reader, range.within(reader.len()).take(count))?;
                }
                Some(keys) => {
                    let found = reader.find_many(keys)?;
                    for (key, _) in keys.iter().zip(&found).filter(|(_, found)| found.is_none()) {
                        exit = output.fail(absent(path, key));
                    }
                    printer.print(&*reader, found.into_iter().flatten())?;
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

/// The index, if there is such a sample.
pub(super) fn check_index(path: &Path, reader: &dyn Reader, index: usize) -> Outcome<usize> {
    (index < reader.len()).then_some(index).ok_or_else(|| no_such_index(path, reader, index))
}

pub(super) fn no_such_index(path: &Path, reader: &dyn Reader, index: impl Display) -> Failure {
    let samples = units::counted(reader.len() as u64, "sample");
    let path = file::shown(path);
    Failure::no(format_args!("{path}: there is no sample {index}: it has {samples}"))
}

/// The lines of a file, or of standard input.
pub(super) fn read_lines(path: &Path) -> Outcome<Vec<String>> {
    let lines: std::io::Result<Vec<String>> = match path == Path::new("-") {
        true => std::io::stdin().lock().lines().collect(),
        false => kiste::convert::open_regular(path)
            .and_then(|file| std::io::BufReader::new(file).lines().collect()),
    };
    let mut lines = lines.map_err(|error| Failure::io(path, error))?;
    // The byte-order mark of programs on Windows.
    if let Some(first) = lines.first_mut().filter(|first| first.starts_with('\u{feff}')) {
        first.replace_range(..'\u{feff}'.len_utf8(), "");
    }
    Ok(lines)
}
