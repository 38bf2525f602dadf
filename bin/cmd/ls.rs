use std::borrow::Cow;
use std::io::Write;
use std::path::{Path, PathBuf};

use kiste::reader::ReaderExt;
use serde::Serialize;

use crate::exit::{Exit, Outcome};
use crate::file;
use crate::output::{Output, Stdout};

/// List keys, one per line
///
/// To a pipe or a file keys are printed unchanged, so a key with a line end takes several lines. On a terminal
/// control characters are escaped. With --jsonl every key is one line.
#[derive(Debug, clap::Args)]
#[command(aliases = ["list", "keys"], after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Data files
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// At most this many keys of each file
    #[arg(short = 'n', long, value_name = "N")]
    count: Option<usize>,
    /// Also print the index and the size in bytes of each sample, before the key
    #[arg(long, short)]
    long: bool,
    /// Print objects {"index", "key", "bytes"}, one per line
    #[arg(long, alias = "json", conflicts_with = "long")]
    jsonl: bool,
}

const EXAMPLES: &str = "\
Examples:
  kiste ls train.msgpack | wc -l
  kiste ls -l train.msgpack | sort -nk 2 | tail -1
  kiste ls a.msgpack b.msgpack | sort | uniq -d";

#[derive(Serialize)]
struct Entry<'a> {
    index: usize,
    key: &'a str,
    bytes: u64,
}

impl Args {
    pub(crate) fn run(self, output: &Output) -> Outcome<Exit> {
        let mut out = output.stdout();
        for path in &self.files {
            let listed = self.list(path, output, &mut out);
            // Lines before an error are printed before it.
            out.flush()?;
            listed?;
        }
        Ok(Exit::Yes)
    }

    fn list(&self, path: &Path, output: &Output, out: &mut Stdout) -> Outcome<()> {
        let reader = file::open(path, output)?;
        let width = reader.len().saturating_sub(1).to_string().len();
        let keys: Box<dyn Iterator<Item = kiste::Result<Cow<'_, str>>>> = match &reader.dataset {
            // Read together.
            Some(dataset) => Box::new(dataset.keys()),
            None => Box::new(reader.keys()),
        };
        for (index, key) in keys.enumerate().take(self.count.unwrap_or(usize::MAX)) {
            let key = key?;
            if self.long || self.jsonl {
                let bytes = reader.raw_len(index)?;
                if self.jsonl {
                    out.json_line(&serde_json::to_vec(&Entry { index, key: &key, bytes })?)?;
                    continue;
                }
                write!(out, "{index:>width$} {bytes:>10} ")?;
            }
            out.key(&key)?;
        }
        Ok(())
    }
}
