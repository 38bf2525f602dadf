use std::path::PathBuf;

use kiste::text::parse_shape;

use super::target::{Explained, committed, open_store};
use crate::exit::{Exit, Outcome};
use crate::output::Output;

/// Change the shape, as a new version
///
/// New elements are the fill value; elements that are cut off remain in older versions.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// Directory of the array
    name: PathBuf,
    /// Length of each axis, such as 100,200
    #[arg(value_name = "N,N", value_parser = parse_shape)]
    shape: std::vec::Vec<usize>,
    /// Message of the version, for the log
    #[arg(long, short, value_name = "TEXT", default_value = "resize")]
    message: String,
}

const EXAMPLES: &str = "\
Examples:
  kiste array resize grid 100,200
  kiste array resize rows 0,128 -m 'begin again'";

impl Args {
    pub(super) fn run(self, output: &Output) -> Outcome<Exit> {
        let mut store = open_store(&self.name)?;
        let version = store.resize(&self.shape, &self.message).explained(&self.name)?;
        committed(output, &self.name, &version);
        Ok(Exit::Yes)
    }
}
