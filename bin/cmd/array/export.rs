use kiste::storage::Shown;
use std::path::PathBuf;

use clap::builder::TypedValueParser;
use kiste::array::{ArrayExport, ArrayFormat, ArrayTarget, RowsProgress};

use super::chosen::Conversion;
use super::target::{Explained, Moment, explain};
use crate::cmd::named;
use crate::exit::{Exit, Failure, Outcome};
use crate::output::Output;
use crate::{file, interrupt};

/// Write an array, or a part of it, as .npy, .npz, .blp or a bcolz directory
///
/// Selections of integers and slices are read and written piece by piece, so they may be larger
/// than memory. All formats hold the same elements; only bcolz also keeps attributes.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// Array, or a part of it: 'x[:100]', 'x["field"]'
    #[arg(value_name = "NAME[...]")]
    target: ArrayTarget,
    /// File to write; a directory for bcolz
    dst: PathBuf,
    /// Format: npy, npz, blp or bcolz [default: from the name of DST]
    #[arg(long, value_name = "FORMAT", value_parser = formats(), hide_possible_values = true)]
    to: Option<ArrayFormat>,
    #[command(flatten)]
    moment: Moment,
    #[command(flatten)]
    conversion: Conversion,
    /// Name of the array in an .npz file
    #[arg(long, value_name = "NAME", default_value = "arr_0")]
    member: String,
    /// Replace the file DST if it exists
    #[arg(long, short)]
    force: bool,
}

const EXAMPLES: &str = "\
Examples:
  kiste array export x x.npy
  kiste array export 'x[:100]' part.npz --member x
  kiste array export x x.blp --at -1
  kiste array export x old/x --to bcolz";

impl Args {
    pub(super) fn run(self, output: &Output) -> Outcome<Exit> {
        file::check_is_name(&self.dst)?;
        let Some(format) = self.to.or_else(|| ArrayFormat::of_path(&self.dst)) else {
            let message = format!(
                "{}: expected a name ending in .npy, .npz, .blp or .bcolz",
                Shown::of(&self.dst)
            );
            return Err(Failure::trouble(message).hint("give the format with --to"));
        };
        let path = &self.target.path;
        let array = self.target.array(&self.moment.open(path)?).explained(path)?;
        let part = self.conversion.part(&array, &self.target)?;
        interrupt::writing(&self.dst);
        let progress = output.progress_rows(format!("writing {}", Shown::of(&self.dst)), None);
        let rows = RowsProgress::new(&part, |row, of| progress.reaches_of(row, of));
        let export = ArrayExport::new(format).overwrite(self.force).member(self.member.clone());
        let (dtype, casting) = self.conversion.of(array.dtype());
        let export = export.of(&array, &dtype, casting)?;
        export.write(&rows, &self.dst).map_err(|error| match format {
            ArrayFormat::Npy | ArrayFormat::Npz => explain(path, error),
            _ if error.path().is_some_and(|at| at.starts_with(path)) => explain(path, error),
            _ => explain(&self.dst, error),
        })?;
        Ok(Exit::Yes)
    }
}

/// The values of `--to` and `--from`.
pub(super) fn formats() -> impl TypedValueParser<Value = ArrayFormat> {
    named(ArrayFormat::ALL.map(ArrayFormat::name))
}
