use std::collections::HashSet;
use std::path::{Path, PathBuf};

use kiste::reader::{Reader, ReaderExt};
use kiste::rearrange::{SampleRange, check_distinct, duplicates};
use kiste::text::units;

use super::cat::{absent, check_index, read_lines};
use crate::exit::{Exit, Failure, Outcome};
use crate::file;
use crate::output::Output;
use crate::rearrange::{Chosen, InOut};

/// Write chosen samples: by key, by index, or a range
///
/// They are written in the order of the list. A sample cannot be chosen twice, as keys are unique. If a key is
/// missing nothing is written, except with --skip-missing.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, override_usage = "\
    kiste select [OPTIONS] <IN> <OUT> --keys <LIST>
       kiste select [OPTIONS] <IN> <OUT> --range <A..B>
       kiste select [OPTIONS] <IN> <OUT> --indices <LIST>
       kiste select [OPTIONS] <IN> <OUT> --first-of [<FIELD>]")]
#[command(group = clap::ArgGroup::new("what").required(true).args(["keys", "range", "indices", "first_of"]))]
pub(crate) struct Args {
    /// The samples with the keys in this file, one per line; - is standard input
    #[arg(long, value_name = "LIST")]
    keys: Option<PathBuf>,
    /// These samples: 10..20, 10.., ..20 or -3.. for the last three, counted from 0, the end left out
    #[arg(long, value_name = "A..B", allow_hyphen_values = true)]
    range: Option<SampleRange>,
    /// The samples of these indices: 1,5,3, or a file of them, one per line; - is standard input
    #[arg(long, value_name = "LIST")]
    indices: Option<String>,
    /// Of samples that are equal the first one: in this field, or in all but their keys
    #[arg(long, value_name = "FIELD", num_args = 0..=1, default_missing_value = "")]
    first_of: Option<String>,
    /// Skip missing keys and count them
    #[arg(long, requires = "keys")]
    skip_missing: bool,
    #[command(flatten)]
    files: InOut,
}

const EXAMPLES: &str = "\
Examples:
  kiste select train.msgpack first.msgpack --range ..1000
  kiste ls train.msgpack | grep cat/ | kiste select train.msgpack cats.msgpack --keys -
  kiste select train.msgpack once.msgpack --first-of image
  kiste order train.msgpack --indices --epoch 3 | kiste select train.msgpack e3.msgpack --indices -

Exit code 1 if a key is missing.";

impl Args {
    pub(crate) fn run(self, output: &Output) -> Outcome<Exit> {
        let reader = self.files.open(output)?;
        let chosen = match (&self.keys, &self.indices) {
            (Some(list), _) => self.by_keys(&*reader, list, output)?,
            (_, Some(list)) => self.by_indices(&*reader, list)?,
            _ if self.first_of.is_some() => self.first_of_each(&*reader, output)?,
            _ => self.range.unwrap_or(SampleRange::ALL).within(reader.len()).collect(),
        };
        check_distinct(&*reader, &chosen)?;
        let made = self.files.write(&reader, Chosen::Indices(chosen), output)?;
        self.files.making.print(&made, output)
    }

    fn by_keys(&self, reader: &dyn Reader, list: &Path, output: &Output) -> Outcome<Vec<usize>> {
        let keys = read_lines(list)?;
        let found = reader.find_many(&keys)?;
        let absent_key = keys.iter().zip(&found).find(|(_, found)| found.is_none());
        if let Some((key, _)) = absent_key.filter(|_| !self.skip_missing) {
            let failure = absent(&self.files.input, key);
            return Err(failure.hint("--skip-missing passes over it"));
        }
        let chosen: Vec<usize> = found.into_iter().flatten().collect();
        if chosen.len() < keys.len() {
            let missing = units::counted((keys.len() - chosen.len()) as u64, "key");
            let path = file::shown(&self.files.input);
            output.note(format_args!("{path}: {missing} missing, skipped"));
        }
        Ok(chosen)
    }

    fn first_of_each(&self, reader: &dyn Reader, output: &Output) -> Outcome<Vec<usize>> {
        let by = super::stat::duplicates_by(self.first_of.as_deref().unwrap_or_default());
        let progress = output.progress("looking for duplicates", Some(reader.len() as u64));
        let groups = duplicates(reader, &by, |seen| progress.reaches(seen))?;
        let later: HashSet<usize> = groups.iter().flat_map(|group| &group[1..]).copied().collect();
        Ok((0..reader.len()).filter(|index| !later.contains(index)).collect())
    }

    fn by_indices(&self, reader: &dyn Reader, list: &str) -> Outcome<Vec<usize>> {
        let inline = list.starts_with(|c: char| c.is_ascii_digit())
            && list.chars().all(|c| c.is_ascii_digit() || c == ',' || c == ' ');
        let words = match inline {
            true => list.split(',').map(String::from).collect(),
            false => read_lines(Path::new(list))?,
        };
        let index = |word: &str| {
            let index = word.parse().map_err(|_| {
                Failure::trouble(format_args!("{list}: {word:?}: expected an index"))
            })?;
            check_index(&self.files.input, reader, index)
        };
        let words = words.iter().map(|word| word.trim()).filter(|word| !word.is_empty());
        words.map(index).collect()
    }
}
