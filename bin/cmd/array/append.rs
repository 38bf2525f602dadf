use kiste::storage::Shown;
use std::path::PathBuf;

use kiste::array::RowsProgress;

use super::target::{Explained, committed, open_npy, open_store};
use crate::exit::{Exit, Outcome};
use crate::interrupt;
use crate::output::Output;

/// Append rows along the first axis, as a new version
///
/// Rows are read and written piece by piece, as one version, so they may be larger than memory.
/// They are converted to the type of the array if NumPy allows it (same_kind).
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// Directory of the array
    name: PathBuf,
    /// Read the rows from this .npy file; - is standard input
    #[arg(long, value_name = "FILE", required = true)]
    npy: PathBuf,
    /// Message of the version, for the log
    #[arg(long, short, value_name = "TEXT", default_value = "append")]
    message: String,
}

const EXAMPLES: &str = "\
Examples:
  kiste array append embeddings --npy today.npy -m 'of today'
  make-rows | kiste array append embeddings --npy -";

impl Args {
    pub(super) fn run(self, output: &Output) -> Outcome<Exit> {
        let mut store = open_store(&self.name)?;
        interrupt::writing(&self.name);
        let doing = format!("appending to {}", Shown::of(&self.name));
        let rows = open_npy(&self.npy)?;
        let progress = output.progress_rows(doing, None);
        let rows = RowsProgress::new(&rows, |row, of| progress.reaches_of(row, of));
        let version = store.append_rows(&rows, &self.message).explained(&self.name)?;
        committed(output, &self.name, &version);
        Ok(Exit::Yes)
    }
}
