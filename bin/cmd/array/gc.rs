use kiste::storage::Shown;
use std::io::Write;
use std::path::PathBuf;
use std::time::SystemTime;

use kiste::array::{At, Keep};
use kiste::text::units;

use super::target::{Explained, open, open_store};
use crate::exit::{Exit, Outcome};
use crate::output::Output;

/// Remove versions, and files that no version needs
///
/// Without options all versions stay, and only files of a killed writer are removed. The newest
/// version always stays. Programs that have a removed version open get errors.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// Directory of the array
    name: PathBuf,
    /// Keep this many of the newest versions
    #[arg(long, value_name = "N", group = "which")]
    keep: Option<usize>,
    /// Keep the versions of this time or later, in UTC
    #[arg(long, value_name = "TIME", value_parser = parse_moment, group = "which")]
    keep_since: Option<SystemTime>,
    /// Remove these versions
    #[arg(long, value_name = "V", group = "which", num_args = 1..)]
    remove: Vec<u64>,
    /// Only print the numbers of the versions that would be removed
    #[arg(long)]
    dry_run: bool,
}

const EXAMPLES: &str = "\
Examples:
  kiste array gc x --keep 5
  kiste array gc x --keep-since 2026-01-31 --dry-run
  kiste array gc x --remove 3 4";

impl Args {
    pub(super) fn run(self, output: &Output) -> Outcome<Exit> {
        let keep = match (self.keep, self.keep_since) {
            (Some(count), _) => Keep::Newest(count),
            (_, Some(time)) => Keep::Since(time),
            _ => Keep::Except(self.remove.clone()),
        };
        let array = open(&self.name, At::Newest)?;
        let versions = array.versions().explained(&self.name)?;
        keep.check(&versions).explained(&self.name)?;
        if self.dry_run {
            let mut out = output.stdout();
            for number in keep.removes(&versions) {
                writeln!(out, "{number}")?;
            }
            out.flush()?;
            return Ok(Exit::Yes);
        }
        let mut store = open_store(&self.name)?;
        let removed = store.gc(&keep).explained(&self.name)?;
        let versions = units::counted(removed.versions.len() as u64, "version");
        let (files, bytes) = (units::counted(removed.files, "file"), units::bytes(removed.bytes));
        let name = Shown::of(&self.name);
        output.note(format_args!("{name}: removed {versions}, {files}, {bytes}"));
        Ok(Exit::Yes)
    }
}

/// A time, or a day, which means its beginning. UTC.
fn parse_moment(text: &str) -> Result<SystemTime, String> {
    match text.parse() {
        Ok(At::Time(time)) => Ok(time),
        _ => Err("expected a time such as 2026-01-31 or 2026-01-31T12:00:00Z".to_owned()),
    }
}
