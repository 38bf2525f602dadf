use std::io::Write;
use std::path::PathBuf;

use kiste::array::{At, ChunkDiff};
use kiste::text;
use serde_json::json;

use super::target::{Explained, open};
use crate::exit::{Exit, Outcome};
use crate::output::Output;

/// List the chunks in which two versions differ
///
/// Reads only chunk tables. Exits with 1 if there is any difference, including shape and
/// attributes.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// Directory of the array
    name: PathBuf,
    /// Version: a number, -1 for the one before the newest, or a time in UTC
    #[arg(value_name = "V1", allow_hyphen_values = true)]
    left: At,
    /// The other version [default: the newest]
    #[arg(value_name = "V2", allow_hyphen_values = true)]
    right: Option<At>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  kiste array diff x -1
  kiste array diff x 3 7
  kiste array diff x 2026-01-31 --json | jq '.chunks[].region'";

impl Args {
    pub(super) fn run(self, output: &Output) -> Outcome<Exit> {
        let left = open(&self.name, self.left)?;
        let right = left.at(self.right.unwrap_or_default()).explained(&self.name)?;
        let chunks = left.diff(&right).explained(&self.name)?;
        let shapes = left.shape() != right.shape();
        let attributes = left.attrs() != right.attrs();
        if self.json {
            output.json(&json!({
                "left": left.version(),
                "right": right.version(),
                "shapes": [left.shape(), right.shape()],
                "attributes": attributes,
                "chunks": chunks,
            }))?;
        } else {
            let mut out = output.stdout();
            if shapes {
                writeln!(
                    out,
                    "shape {} and {}",
                    text::shape(left.shape()),
                    text::shape(right.shape())
                )?;
            }
            if attributes {
                writeln!(out, "attributes differ")?;
            }
            for ChunkDiff { column, coordinates, region, .. } in &chunks {
                let region: Vec<String> =
                    region.iter().map(|r| format!("{}:{}", r.start, r.end)).collect();
                let of = if column.is_empty() { "" } else { " of " };
                writeln!(out, "chunk {coordinates:?}{of}{column}: [{}]", region.join(", "))?;
            }
            out.flush()?;
        }
        let same = chunks.is_empty() && !shapes && !attributes;
        Ok(if same { Exit::Yes } else { Exit::No })
    }
}
