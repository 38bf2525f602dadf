use std::ops::Range;
use std::path::{Path, PathBuf};

use kiste::DatasetReader;
use kiste::text::units;

use super::cat::{absent, parse_range, read_lines};
use crate::exit::{Exit, Failure, Outcome};
use crate::file;
use crate::output::Output;
use crate::rearrange::Making;

/// Write chosen samples: by key, by index, or a range
///
/// They come in the order of the list. A sample cannot be chosen twice, as keys are unique. If a
/// key is not there nothing is written, unless --skip-missing says otherwise.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, override_usage = "\
    kiste select [OPTIONS] <IN> <OUT> --keys <LIST>
       kiste select [OPTIONS] <IN> <OUT> --range <A..B>
       kiste select [OPTIONS] <IN> <OUT> --indices <LIST>")]
#[command(group = clap::ArgGroup::new("what").required(true).args(["keys", "range", "indices"]))]
pub(crate) struct Args {
    /// Data file to read
    #[arg(value_name = "IN")]
    input: PathBuf,
    /// Data file to make
    #[arg(value_name = "OUT")]
    out: PathBuf,
    /// The samples with the keys in this file, one a line; - is standard input
    #[arg(long, value_name = "LIST")]
    keys: Option<PathBuf>,
    /// These samples: 10..20, 10.. or ..20, counted from 0, the end left out
    #[arg(long, value_name = "A..B", value_parser = parse_range)]
    range: Option<Range<usize>>,
    /// The samples of these indices: 1,5,3, or a file of them, one a line; - is standard input
    #[arg(long, value_name = "LIST")]
    indices: Option<String>,
    /// Pass over keys that are not there, and count them
    #[arg(long, requires = "keys")]
    skip_missing: bool,
    #[command(flatten)]
    making: Making,
}

const EXAMPLES: &str = "\
Examples:
  kiste select train.msgpack first.msgpack --range ..1000
  kiste ls train.msgpack | grep cat/ | kiste select train.msgpack cats.msgpack --keys -
  kiste order train.msgpack --indices --epoch 3 | kiste select train.msgpack e3.msgpack --indices -

Exit code 1 if a key is not there.";

impl Args {
    pub(crate) fn run(self, output: &Output) -> Outcome<Exit> {
        let reader = file::open(&self.input)?;
        self.making.check(&[&self.input], &self.out)?;
        let chosen = match (&self.keys, &self.indices, &self.range) {
            (Some(list), _, _) => self.by_keys(&reader, list, output)?,
            (_, Some(list), _) => self.by_indices(&reader, list)?,
            (_, _, range) => {
                let Range { start, end } = range.clone().unwrap_or(0..usize::MAX);
                // As slices do in Python: what is beyond the end is left out.
                let end = end.min(reader.len());
                (start.min(end)..end).collect()
            }
        };
        let mut sorted = chosen.clone();
        sorted.sort_unstable();
        if let Some(pair) = sorted.windows(2).find(|pair| pair[0] == pair[1]) {
            let (path, index) = (file::shown(&self.input), pair[0]);
            let key = reader.key(index)?;
            let message = format!("{path}: sample {index}, key {key:?}, is chosen twice");
            return Err(Failure::trouble(message));
        }
        let made = self.making.make_of(&self.input, &reader, chosen, &self.out, output)?;
        if self.making.json {
            output.json(&made)?;
        }
        Ok(Exit::Yes)
    }

    fn by_keys(&self, reader: &DatasetReader, list: &Path, output: &Output) -> Outcome<Vec<usize>> {
        let mut chosen = Vec::new();
        let mut missing = 0;
        for key in read_lines(list)? {
            match reader.find(&key)? {
                Some(index) => chosen.push(index),
                None if self.skip_missing => missing += 1,
                None => return Err(absent(&self.input, &key).hint("--skip-missing passes over it")),
            }
        }
        if missing > 0 {
            let keys = units::counted(missing, "key");
            output.note(format_args!("{}: skipped {keys} not there", file::shown(&self.input)));
        }
        Ok(chosen)
    }

    fn by_indices(&self, reader: &DatasetReader, list: &str) -> Outcome<Vec<usize>> {
        let inline = list.starts_with(|c: char| c.is_ascii_digit())
            && list.chars().all(|c| c.is_ascii_digit() || c == ',' || c == ' ');
        let words = match inline {
            true => list.split(',').map(String::from).collect(),
            false => read_lines(Path::new(list))?,
        };
        let path = file::shown(&self.input);
        let words = words.iter().map(|word| word.trim()).filter(|word| !word.is_empty());
        words
            .map(|word| {
                let index: usize = word.parse().map_err(|_| {
                    Failure::trouble(format!("{list}: {word:?}: expected an index"))
                })?;
                if index >= reader.len() {
                    let samples = units::counted(reader.len() as u64, "sample");
                    let message = format!("{path}: there is no sample {index}: it has {samples}");
                    return Err(Failure::no(message));
                }
                Ok(index)
            })
            .collect()
    }
}
