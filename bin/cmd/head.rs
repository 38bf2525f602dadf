use std::path::PathBuf;

use crate::exit::{Exit, Outcome};
use crate::file;
use crate::output::Output;
use crate::render::{Form, Printer};

/// Print the first samples
#[derive(Debug, clap::Args)]
#[command(aliases = ["show", "view", "peek"], after_help = EXAMPLES)]
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
  kiste head train.msgpack
  kiste head -n 1 train.msgpack --jsonl | jq";

impl Args {
    pub(crate) fn run(self, output: &Output) -> Outcome<Exit> {
        let mut printer = Printer::new(&self.form, output)?;
        for path in &self.files {
            let reader = file::open(path, output)?;
            printer.print(&*reader, 0..self.count.min(reader.len()))?;
        }
        printer.finish()?;
        Ok(Exit::Yes)
    }
}
