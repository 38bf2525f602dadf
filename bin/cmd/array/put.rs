use kiste::storage::Shown;
use std::path::PathBuf;

use kiste::array::{ArrayTarget, Rows, RowsProgress};
use kiste::value::NdArray;

use super::target::{Explained, committed, open_npy, open_store};
use crate::exit::{Exit, Outcome};
use crate::interrupt;
use crate::output::Output;

/// Assign elements, as a new version
///
/// The value is broadcast if it is smaller than the part, as NumPy does, and converted to the type
/// of the array if NumPy allows it (same_kind). It is read and written piece by piece, as one
/// version, so it may be larger than memory; with lists of positions, and for a field of a structured
/// type, it is read as a whole.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, override_usage = "\
    kiste array put [OPTIONS] <NAME[...]> --npy <FILE>
       kiste array put [OPTIONS] <NAME[...]> --value <VALUE>")]
#[command(group = clap::ArgGroup::new("what").required(true))]
pub(super) struct Args {
    /// Array, or a part of it: 'x[0:10, 5]', 'x["field"][0:10]'
    #[arg(value_name = "NAME[...]")]
    target: ArrayTarget,
    /// Read the elements from this .npy file; - is standard input
    #[arg(long, value_name = "FILE", group = "what")]
    npy: Option<PathBuf>,
    /// Write this one value everywhere
    #[arg(long, value_name = "VALUE", group = "what", allow_hyphen_values = true)]
    value: Option<String>,
    /// Message of the version, for the log
    #[arg(long, short, value_name = "TEXT", default_value = "put")]
    message: String,
}

const EXAMPLES: &str = "\
Examples:
  kiste array put 'x[0:10]' --npy rows.npy -m 'new first ten'
  kiste array put 'x[:, 3]' --value 0
  make-rows | kiste array put x --npy -";

impl Args {
    pub(super) fn run(self, output: &Output) -> Outcome<Exit> {
        let path = &self.target.path;
        let mut store = open_store(path)?;
        let doing = format!("writing to {}", Shown::of(&path));
        let selection = self.target.selection.clone();
        let version = match (&self.npy, &self.value) {
            (Some(npy), _) => {
                let rows = open_npy(npy)?;
                interrupt::writing(path);
                let progress = output.progress_rows(doing, None);
                let hear = |row, of| progress.reaches_of(row, of);
                let rows = &RowsProgress::new(&rows, hear);
                match &self.target.field {
                    Some(field) => {
                        let count = rows.shape().first().copied().unwrap_or(1);
                        let value = rows.read_rows(0..count)?;
                        store.put_field(field, selection, &value, &self.message)
                    }
                    None => store.put_rows(selection, rows, &self.message),
                }
                .explained(path)?
            }
            (None, value) => {
                let _progress = output.progress(doing, None);
                interrupt::ends_with(format!(
                    "{}: interrupted; it stays at its newest version; the same command starts over",
                    Shown::of(&path)
                ));
                let text = value.as_deref().unwrap_or_default();
                let array = self.target.array(store.array()).explained(path)?;
                let value = NdArray::parse(array.dtype(), text)?;
                match &self.target.field {
                    Some(field) => store.put_field(field, selection, &value, &self.message),
                    None => store.put(selection, &value, &self.message),
                }
                .explained(path)?
            }
        };
        committed(output, path, &version);
        Ok(Exit::Yes)
    }
}
