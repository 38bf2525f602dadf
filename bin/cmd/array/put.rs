use std::path::PathBuf;

use kiste::value::NdArray;

use super::element;
use super::import::{decode_npy, read_all};
use super::target::{Explained, Target, committed, open_store};
use crate::exit::{Exit, Failure, Outcome};
use crate::output::Output;

/// Write elements, as a new version
///
/// What is written is repeated where it is smaller than the part, as NumPy does; it must have the
/// type of the array.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
#[command(group = clap::ArgGroup::new("what").required(true))]
pub(super) struct Args {
    /// Array, or a part of it: 'x[0:10, 5]'
    #[arg(value_name = "NAME[...]", value_parser = Target::parse)]
    target: Target,
    /// Take the elements of this .npy file; - is standard input
    #[arg(long, value_name = "FILE", group = "what")]
    npy: Option<PathBuf>,
    /// Write this one value everywhere
    #[arg(long, value_name = "VALUE", group = "what", allow_hyphen_values = true)]
    value: Option<String>,
    /// What the log says of it
    #[arg(long, short, value_name = "TEXT", default_value = "put")]
    message: String,
}

const EXAMPLES: &str = "\
Examples:
  kiste array put 'x[0:10]' --npy rows.npy -m 'the first ten anew'
  kiste array put 'x[:, 3]' --value 0
  make-rows | kiste array put x --npy -";

impl Args {
    pub(super) fn run(self, output: &Output) -> Outcome<Exit> {
        let path = &self.target.path;
        let mut store = open_store(path)?;
        let dtype = store.array().dtype().clone();
        let file;
        let value = match (&self.npy, &self.value) {
            (Some(npy), _) => {
                file = read_all(npy)?;
                decode_npy(npy, &file)?
            }
            (None, value) => {
                let text = value.as_deref().unwrap_or_default();
                let bytes = element::parse(&dtype, text).map_err(Failure::trouble)?;
                NdArray::new(dtype, [], bytes)?
            }
        };
        let mut staged = store.stage().explained(path)?;
        let _progress = output.progress(format!("writing to {}", path.display()), None);
        staged.write(self.target.selection.clone(), &value).explained(path)?;
        let version = store.commit(&mut staged, &self.message).explained(path)?;
        committed(output, path, &version);
        Ok(Exit::Yes)
    }
}
