use std::cmp::Ordering;
use std::path::PathBuf;

use kiste::rearrange::{self, Scalar};

use crate::exit::{Exit, Outcome};
use crate::file;
use crate::output::Output;
use crate::rearrange::Making;

/// Write the samples of a dataset sorted by key or by a field
///
/// Numbers come by value, before text, which comes by code points: a10 before a2, unless --natural
/// says otherwise. Samples that are equal stay in their order.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Data file to read
    #[arg(value_name = "IN")]
    input: PathBuf,
    /// Data file to make
    #[arg(value_name = "OUT")]
    out: PathBuf,
    /// What to sort by: key or another field
    #[arg(long, value_name = "FIELD", default_value = "key")]
    by: String,
    /// Text as people sort it: a2 before a10
    #[arg(long)]
    natural: bool,
    /// Largest first
    #[arg(long, short)]
    reverse: bool,
    #[command(flatten)]
    making: Making,
}

const EXAMPLES: &str = "\
Examples:
  kiste sort train.msgpack sorted.msgpack --natural
  kiste sort train.msgpack sorted.msgpack --by label
  kiste sort train.msgpack best.msgpack --by score --reverse";

impl Args {
    pub(crate) fn run(self, output: &Output) -> Outcome<Exit> {
        let reader = file::open(&self.input)?;
        self.making.check(&[&self.input], &self.out)?;
        let len = Some(reader.len() as u64);
        let progress = output.progress(format!("reading {}", self.by), len);
        let fields = rearrange::scalars(&reader, &self.by, |seen| progress.reaches(seen))?;
        progress.say("sorting");
        let mut indices: Vec<usize> = (0..reader.len()).collect();
        indices.sort_by(|&a, &b| self.compare(&fields[a], &fields[b]));
        drop(progress);
        let made = self.making.make_of(&self.input, &reader, indices, &self.out, output)?;
        if self.making.json {
            output.json(&made)?;
        }
        Ok(Exit::Yes)
    }

    fn compare(&self, a: &Scalar, b: &Scalar) -> Ordering {
        let order = if self.natural { a.natural_cmp(b) } else { a.cmp(b) };
        if self.reverse { order.reverse() } else { order }
    }
}
