use std::io::Write;
use std::path::{Path, PathBuf};

use kiste::array::{ArrayExport, ArrayFormat, ArrayTarget, write_npy};

use super::chosen::Conversion;
use super::target::{Explained, Moment, explain_written};
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
    /// Array, or a part of it: 'x[0:10, ::2]', 'x["field"][0:10]'
    #[arg(value_name = "NAME[...]")]
    target: ArrayTarget,
    #[command(flatten)]
    moment: Moment,
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
  kiste array get 'people[\"age\"][:10]'
  kiste array get 'x[[4, 0, 2]]' --at 2026-01-31T12:00:00Z";

impl Args {
    pub(super) fn run(self, output: &Output) -> Outcome<Exit> {
        let path = &self.target.path;
        let array = self.target.array(&self.moment.open(path)?).explained(path)?;
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
            None if self.json => {
                let mut out = output.stdout();
                part.write_json(&mut out).map_err(|error| explain_written(path, error))?;
                writeln!(out)?;
                out.flush()?;
            }
            None => output.bytes((part.to_text().explained(path)? + "\n").as_bytes())?,
        }
        Ok(Exit::Yes)
    }
}
