use std::io::Write;
use std::path::PathBuf;

use kiste::array::{At, LogEntry};
use kiste::text::{self, units};

use super::target::{Explained, open};
use crate::exit::{Exit, Outcome};
use crate::output::Output;

/// List the versions, newest first
///
/// CHANGED is the number of chunks that differ from the parent version, ADDED the compressed bytes
/// of chunks that no older version has, STORED the number of chunks in total, and BYTES their size.
/// Chunks that versions share are stored once.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// Directory of the array
    name: PathBuf,
    /// Print one JSON list
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  kiste array log x | head
  kiste array log x --json | jq '.[0].version'";

impl Args {
    pub(super) fn run(self, output: &Output) -> Outcome<Exit> {
        let array = open(&self.name, At::Newest)?;
        let entries = array.log().explained(&self.name)?;
        if self.json {
            let entries: Vec<_> = entries.collect::<kiste::Result<_>>().explained(&self.name)?;
            output.json(&entries)?;
            return Ok(Exit::Yes);
        }
        let mut out = output.stdout();
        let heading = format!(
            "{:>7} {:>6}  {:<20}  {:>7} {:>8} {:>7} {:>8}  {:<16}  MESSAGE",
            "VERSION", "PARENT", "TIME", "CHANGED", "ADDED", "STORED", "BYTES", "SHAPE"
        );
        writeln!(out, "{}", output.bold(heading))?;
        for entry in entries {
            let entry = entry.explained(&self.name)?;
            let LogEntry { version, parent, time, message, shape, changed, chunks, bytes, .. } =
                entry;
            let added = units::bytes(entry.added_bytes);
            let shape: Vec<usize> = shape.iter().map(|len| *len as usize).collect();
            let changed = changed.map_or("-".to_owned(), units::count);
            // To the second: all of it is in the JSON.
            let time = format!("{}Z", time.split('.').next().unwrap_or(&time));
            let (bytes, shape) = (units::bytes(bytes), text::shape(&shape));
            let message = message.escape_debug();
            writeln!(
                out,
                "{version:>7} {parent:>6}  {time:<20}  {changed:>7} {added:>8} {chunks:>7} {bytes:>8}  \
                 {shape:<16}  {message}"
            )?;
        }
        out.flush()?;
        Ok(Exit::Yes)
    }
}
