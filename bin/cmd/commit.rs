use std::path::PathBuf;

use super::convert;
use crate::exit::{Exit, Outcome};
use crate::output::Output;

/// Join the parts of a conversion that was divided with "kiste convert --part"
///
/// All parts must be finished; what is missing is listed, with exit code 1. The parts are joined in
/// their order, so the result is the same, byte for byte, as that of a conversion in one go, however
/// many parts there are. Keys that come twice, the order and the split are as the options of the
/// parts said. DST.parts is removed at the end.
///
/// Killed at any moment, it can be done again.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// What the parts are parts of
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

Exit code 1 if parts are missing, or if the dataset was made but bad input was left out of it.";

impl Args {
    pub(crate) fn run(self, output: &Output) -> Outcome<Exit> {
        convert::commit(&self.dataset, self.json, output)
    }
}
