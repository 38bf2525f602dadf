use clap::ValueEnum;
use kiste::rearrange::{self, Amount};
use kiste::text::units;

use crate::exit::{Exit, Outcome};
use crate::file;
use crate::output::Output;
use crate::rearrange::{Chosen, InOut, MadeOf, scalars, tell_seed};

/// Write some samples of a dataset, drawn at random or the first
///
/// random, the default, takes the first samples of "kiste shuffle" with this seed, in that order: a larger
/// sample with the same seed begins with the smaller one. With --stratify each value of a field has the same
/// share of the sample as of the dataset, as closely as whole numbers allow.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// How many: a number such as 1000, or a share such as 0.1 or 10%
    #[arg(value_name = "N|SHARE", index = 3)]
    amount: Amount,
    /// random or sequential
    #[arg(long, short, value_name = "NAME", default_value = "random", hide_possible_values = true)]
    strategy: Strategy,
    /// Draw from each value of this field by its share
    #[arg(long, value_name = "FIELD")]
    stratify: Option<String>,
    /// Seed of the draw
    #[arg(long, value_name = "S", default_value_t = 0)]
    seed: u64,
    #[command(flatten)]
    files: InOut,
}

const EXAMPLES: &str = "\
Examples:
  kiste sample train.msgpack small.msgpack 1000 --seed 42
  kiste sample train.msgpack tenth.msgpack 10% --stratify label
  kiste sample train.msgpack first.msgpack 100 --strategy sequential";

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Strategy {
    Random,
    Sequential,
}

impl Args {
    pub(crate) fn run(self, output: &Output) -> Outcome<Exit> {
        let reader = self.files.open(output)?;
        let of = reader.len() as u64;
        if matches!(self.amount, Amount::Samples(samples) if samples > of) {
            let (file, has) = (file::shown(&self.files.input), units::counted(of, "sample"));
            output.warn(format_args!("{file}: has only {has}, all are taken"));
        }
        let field = self.stratify.as_ref();
        let classes = field.map(|field| scalars(&*reader, field, output)).transpose()?;
        let seed = (self.strategy == Strategy::Random).then_some(self.seed);
        let chosen = rearrange::draw(reader.len(), self.amount, classes.as_deref(), seed)?;
        let made = self.files.write(&reader, Chosen::Indices(chosen), output)?;
        if let Some(seed) = seed {
            tell_seed(&made.file, seed, output);
        }
        self.files.making.print(&MadeOf { made, of, seed }, output)
    }
}
