use std::io::Write;
use std::path::PathBuf;

use kiste::array::{Added, At, ChunkedArray, VersionInfo};
use kiste::text::units;
use serde::Serialize;

use super::target::{Explained, open, shown};
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

#[derive(Serialize)]
struct Entry {
    version: u64,
    parent: u64,
    time: String,
    message: String,
    shape: Vec<u64>,
    /// Absent where the parent was removed.
    changed: Option<u64>,
    /// Chunks that no older version has, and their bytes.
    added_chunks: u64,
    added_bytes: u64,
    chunks: u64,
    bytes: u64,
}

impl Args {
    pub(super) fn run(self, output: &Output) -> Outcome<Exit> {
        let array = open(&self.name, At::Newest)?;
        let versions = array.history().explained(&self.name)?;
        let entries = versions.into_iter().rev().map(|version| entry(&array, version));
        if self.json {
            let entries: Vec<Entry> =
                entries.collect::<kiste::Result<_>>().explained(&self.name)?;
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
            let Entry { version, parent, time, message, shape, changed, chunks, bytes, .. } = entry;
            let added = units::bytes(entry.added_bytes);
            let shape: Vec<usize> = shape.iter().map(|len| *len as usize).collect();
            let changed = changed.map_or("-".to_owned(), units::count);
            // To the second: all of it is in the JSON.
            let time = format!("{}Z", time.split('.').next().unwrap_or(&time));
            let (bytes, shape) = (units::bytes(bytes), shown(&shape));
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

fn entry(array: &ChunkedArray, (version, added): (VersionInfo, Added)) -> kiste::Result<Entry> {
    let VersionInfo { number, parent, time, message, shape, chunks, cbytes, .. } = version;
    let changed = match array.at(At::Version(parent)) {
        Ok(parent) => Some(array.at(At::Version(number))?.diff(&parent)?.len() as u64),
        Err(_) if parent == 0 => Some(chunks),
        Err(_) => None,
    };
    Ok(Entry {
        version: number,
        parent,
        time,
        message,
        shape,
        changed,
        added_chunks: added.chunks,
        added_bytes: added.bytes,
        chunks,
        bytes: cbytes,
    })
}
