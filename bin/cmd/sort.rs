use kiste::rearrange::sorted;

use crate::exit::{Exit, Outcome};
use crate::output::Output;
use crate::rearrange::{Chosen, InOut, scalars};

/// Write the samples of a dataset sorted by key or by a field
///
/// Numbers are sorted by value, before text, which is sorted by code points: a10 before a2, except with
/// --natural. Equal samples stay in their order.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Field to sort by: key or another
    #[arg(long, value_name = "FIELD", default_value = "key")]
    by: String,
    /// Text as people sort it: a2 before a10
    #[arg(long)]
    natural: bool,
    /// Largest first
    #[arg(long, short)]
    reverse: bool,
    #[command(flatten)]
    files: InOut,
}

const EXAMPLES: &str = "\
Examples:
  kiste sort train.msgpack sorted.msgpack --natural
  kiste sort train.msgpack sorted.msgpack --by label
  kiste sort train.msgpack best.msgpack --by score --reverse";

impl Args {
    pub(crate) fn run(self, output: &Output) -> Outcome<Exit> {
        let reader = self.files.open(output)?;
        let values = scalars(&*reader, &self.by, output)?;
        let indices = sorted(&values, self.natural, self.reverse);
        let made = self.files.write(&reader, Chosen::Indices(indices), output)?;
        self.files.making.print(&made, output)
    }
}
