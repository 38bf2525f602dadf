use std::io::Write;
use std::path::{Path, PathBuf};

use kiste::array::{ArrayExport, ArrayFormat, ArrayPart, At, Pieces, Rows, write_npy};

use super::chosen::Conversion;
use super::target::{Explained, Target, explain_written, open};
use crate::exit::{Exit, Failure, Outcome};
use crate::output::Output;

/// Print elements, or write them as .npy
///
/// Text is formatted as by NumPy: above 1000 elements only both ends of each axis are shown, and
/// read. --npy and --json write everything. Selections of integers and slices are read piece by
/// piece, those with lists of positions as a whole.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// Array, or a part of it: 'x[0:10, ::2]'
    #[arg(value_name = "NAME[...]", value_parser = Target::parse)]
    target: Target,
    /// Version: a number, -1 for the one before the newest, or a time in UTC
    #[arg(long, value_name = "V", allow_hyphen_values = true)]
    at: Option<At>,
    /// Write a .npy file; - is standard output
    #[arg(long, value_name = "FILE", conflicts_with = "json")]
    npy: Option<PathBuf>,
    /// Replace FILE if it exists
    #[arg(long, short, requires = "npy")]
    force: bool,
    #[command(flatten)]
    conversion: Conversion,
    /// Print JSON lists; values that JSON lacks (NaN, times) become strings
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  kiste array get x
  kiste array get 'x[0:10, ::2]' --npy - > part.npy
  kiste array get 'x[:100]' --dtype '<f2' --npy half.npy
  kiste array get 'x[-1]' --at -1 --json | jq 'max'
  kiste array get 'x[[4, 0, 2]]' --at 2026-01-31T12:00:00Z";

impl Args {
    pub(super) fn run(self, output: &Output) -> Outcome<Exit> {
        let path = &self.target.path;
        let array = open(path, self.at.unwrap_or_default())?;
        let part = self.conversion.part(&array, &self.target)?;
        match &self.npy {
            Some(file) if file == Path::new("-") => {
                if output.is_terminal() {
                    let message = "expected a file or a pipe for .npy data, found a terminal";
                    let hint = "give it a name, or redirect it: --npy - > OUT";
                    return Err(Failure::trouble(message).hint(hint));
                }
                let written = write_npy(&part, &mut output.stdout());
                written.map_err(|error| explain_written(path, error))?;
            }
            Some(file) => {
                let export = ArrayExport::new(ArrayFormat::Npy).overwrite(self.force);
                export.write(&part, file).explained(path)?;
            }
            None if self.json => self.json(&part, output)?,
            None => output.bytes((part.to_text().explained(path)? + "\n").as_bytes())?,
        }
        Ok(Exit::Yes)
    }

    fn json(&self, part: &ArrayPart, output: &Output) -> Outcome<()> {
        let path = &self.target.path;
        let mut out = output.stdout();
        if part.shape().is_empty() {
            let element = part.read_rows(0..1).and_then(|element| element.to_json());
            serde_json::to_writer(&mut out, &element.explained(path)?)?;
        } else {
            let mut separator = "[";
            for piece in Pieces::of(part, PIECE).explained(path)? {
                let rows = piece.and_then(|piece| piece.to_json()).explained(path)?;
                for row in rows.as_array().into_iter().flatten() {
                    write!(out, "{separator}")?;
                    serde_json::to_writer(&mut out, row)?;
                    separator = ",";
                }
            }
            write!(out, "{}]", if separator == "[" { "[" } else { "" })?;
        }
        writeln!(out)?;
        Ok(out.flush()?)
    }
}

/// Bytes in memory at a time.
const PIECE: usize = 4 << 20;
