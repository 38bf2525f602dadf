use std::io::Write;
use std::path::{Path, PathBuf};

use kiste::array::{At, Pieces};

use super::chosen::{Chosen, Conversion, write_npy};
use super::target::{Explained, Target, open, parse_at};
use super::{element, text};
use crate::exit::{Exit, Failure, Outcome};
use crate::file;
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
    #[arg(long, value_name = "V", value_parser = parse_at, allow_hyphen_values = true)]
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
        let array = open(&self.target.path, self.at.unwrap_or_default())?;
        let chosen = Chosen::of(&array, &self.target, &self.conversion)?;
        match (&self.npy, self.json) {
            (Some(path), _) => self.npy(path, &chosen, output)?,
            (None, true) => self.json(&chosen, output)?,
            (None, false) => {
                let text = match &chosen {
                    Chosen::Window(window) => text::of_window(window),
                    Chosen::Whole(array) => text::of_array(array),
                };
                output.bytes((text.explained(&self.target.path)? + "\n").as_bytes())?;
            }
        }
        Ok(Exit::Yes)
    }

    fn npy(&self, path: &Path, chosen: &Chosen, output: &Output) -> Outcome<()> {
        let name = &self.target.path;
        if path != Path::new("-") {
            return file::write_with(path, self.force, |out| write_npy(chosen, name, out));
        }
        if output.is_terminal() {
            let failure =
                Failure::trouble("expected a file or a pipe for .npy data, found a terminal");
            return Err(failure.hint("give it a name, or redirect it: --npy - > OUT"));
        }
        let mut out = output.stdout();
        write_npy(chosen, name, &mut out)?;
        Ok(out.flush()?)
    }

    fn json(&self, chosen: &Chosen, output: &Output) -> Outcome<()> {
        let (rows, name) = (chosen.rows(), &self.target.path);
        let mut out = output.stdout();
        let Some((_, inner)) = rows.shape().split_first() else {
            let Chosen::Whole(array) = chosen else { return Ok(()) };
            let elements = element::to_json(array).explained(name)?;
            serde_json::to_writer(&mut out, &element::nested(&elements, &[]))?;
            writeln!(out)?;
            return Ok(out.flush()?);
        };
        let each: usize = inner.iter().product();
        write!(out, "[")?;
        let mut first = true;
        for piece in Pieces::of(rows, PIECE).explained(name)? {
            let piece = piece.explained(name)?;
            let elements = element::to_json(&piece).explained(name)?;
            for row in 0..piece.shape()[0] {
                let own = &elements[row * each..(row + 1) * each];
                write!(out, "{}", if first { "" } else { "," })?;
                serde_json::to_writer(&mut out, &element::nested(own, inner))?;
                first = false;
            }
        }
        writeln!(out, "]")?;
        Ok(out.flush()?)
    }
}

/// Bytes in memory at a time.
const PIECE: usize = 4 << 20;
