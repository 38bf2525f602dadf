use std::path::PathBuf;

use super::convert;
use crate::exit::{Exit, Outcome};
use crate::output::Output;

/// Join the parts of a conversion that was divided with "kiste convert --part"
///
/// All parts must be finished; missing parts are listed, with exit code 1. The parts are joined in
/// their order, so the result has the same bytes as one run, however many parts there are. Duplicate
/// keys, shuffling and splitting follow the options of the parts. DST.parts is removed at the end.
///
/// For a dataset of many files, NAME.shards.json on a disk or at a URL, the parts have written their shards
/// already, and the manifest is written. With --skip-duplicates or --limit, shards that hold too many samples are
/// rewritten without them.
///
/// If it is killed, run it again.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The output that the parts belong to
    #[arg(value_name = "DST")]
    dataset: PathBuf,
    /// Print one JSON object that says what was written
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  kiste commit photos.msgpack
  seq 16 | xargs -P 8 -I {} kiste convert photos/ photos.msgpack --part {}/16 &&
    kiste commit photos.msgpack

Exit code 1 if parts are missing, or if the dataset was written but bad input was left out.";

impl Args {
    pub(crate) fn run(self, output: &Output) -> Outcome<Exit> {
        convert::commit(&self.dataset, None, self.json, output)
    }
}
