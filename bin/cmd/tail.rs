use std::path::PathBuf;

use crate::exit::{Exit, Outcome};
use crate::file;
use crate::output::Output;
use crate::render::{Form, Printer};

/// Print the last samples
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Data files
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// How many samples of each file
    #[arg(short = 'n', long, value_name = "N", default_value_t = 10)]
    count: usize,
    #[command(flatten)]
    form: Form,
}

const EXAMPLES: &str = "\
Examples:
  kiste tail train.msgpack
  kiste tail -n 1 train.msgpack --jsonl | jq";

impl Args {
    pub(crate) fn run(self, output: &Output) -> Outcome<Exit> {
        let mut printer = Printer::new(&self.form, output)?;
        for path in &self.files {
            let reader = file::open(path, output)?;
            printer.print(&*reader, reader.len().saturating_sub(self.count)..reader.len())?;
        }
        printer.finish()?;
        Ok(Exit::Yes)
    }
}
