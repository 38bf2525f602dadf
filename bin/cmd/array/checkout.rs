use kiste::storage::Shown;
use std::path::PathBuf;

use kiste::array::At;

use super::target::{Explained, committed, open_store};
use crate::exit::{Exit, Outcome};
use crate::output::Output;

/// Make the content of an older version the newest
///
/// Makes a new version whose parent is the older one; those in between stay. Chunks are shared, so
/// it takes almost no space.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// Directory of the array
    name: PathBuf,
    /// Version: a number, -1 for the one before the newest, or a time in UTC
    #[arg(value_name = "V", allow_hyphen_values = true)]
    at: At,
    /// Message of the version, for the log [default: checkout of version V]
    #[arg(long, short, value_name = "TEXT")]
    message: Option<String>,
}

const EXAMPLES: &str = "\
Examples:
  kiste array checkout x -1
  kiste array checkout x 3 -m 'back to before the mistake'";

impl Args {
    pub(super) fn run(self, output: &Output) -> Outcome<Exit> {
        let mut store = open_store(&self.name)?;
        let mut staged = store.stage_at(self.at).explained(&self.name)?;
        let base = staged.base().version();
        if base == store.array().version() {
            let name = Shown::of(&self.name);
            output.note(format_args!("{name}: version {base} is already the newest"));
            return Ok(Exit::Yes);
        }
        let message = self.message.unwrap_or_else(|| format!("checkout of version {base}"));
        let version = store.commit(&mut staged, &message).explained(&self.name)?;
        committed(output, &self.name, &version);
        Ok(Exit::Yes)
    }
}
