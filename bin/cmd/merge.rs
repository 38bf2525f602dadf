use kiste::storage::Shown;
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use kiste::reader::Reader;
use kiste::rearrange::{MadeDataset, Merge, MergeLabels, MergeOrder};
use kiste::text::units;
use kiste::{ErrorKind, Remedy};
use serde::Serialize;

use crate::exit::{Exit, Failure, Outcome};
use crate::file::{self, Input};
use crate::output::Output;
use crate::rearrange::{Chosen, Making, Written, tell_seed};

/// Write the samples of several datasets to one
///
/// concat, the default, takes one input after the other. random interleaves them, every
/// interleaving as likely as any other; weighted draws an input by --weights for each sample, and
/// leaves out those that are exhausted. Samples of one input stay in their order: "kiste shuffle"
/// changes that.
///
/// All inputs must have the same .labels, or none: otherwise a number would mean two things. With
/// --remap-labels the numbers in the field "label" change to one common list: the labels of the
/// first input, then names that only later inputs have.
#[derive(Debug, clap::Args)]
#[command(aliases = ["concat", "join"], after_help = EXAMPLES, override_usage = "kiste merge [OPTIONS] <IN>... <OUT>")]
pub(crate) struct Args {
    /// IN: data files to read. OUT, the last one: the data file to make
    #[arg(required = true, num_args = 1.., value_name = "IN> <OUT")]
    files: Vec<PathBuf>,
    /// concat, random or weighted [default: concat, or weighted with --weights]
    #[arg(long, short, value_name = "NAME", hide_possible_values = true)]
    strategy: Option<Strategy>,
    /// How often each input is drawn, such as 3,1
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    weights: Vec<f64>,
    /// Seed of the interleaving
    #[arg(long, value_name = "S", default_value_t = 0)]
    seed: u64,
    /// Take the first of samples with the same key, and count the others
    #[arg(long)]
    skip_duplicates: bool,
    /// Number labels by their names in .labels, which may differ
    #[arg(long)]
    remap_labels: bool,
    /// Leave labels as they are and write no .labels, even if the inputs have them
    #[arg(long, conflicts_with = "remap_labels")]
    no_labels: bool,
    #[command(flatten)]
    making: Making,
}

const EXAMPLES: &str = "\
Examples:
  kiste merge shard-*.msgpack all.msgpack
  kiste merge day.msgpack night.msgpack both.msgpack --strategy random --seed 42
  kiste merge real.msgpack rendered.msgpack mix.msgpack --weights 3,1
  kiste merge cats.msgpack dogs.msgpack pets.msgpack --remap-labels";

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Strategy {
    Concat,
    Random,
    Weighted,
}

#[derive(Serialize)]
struct Merged {
    #[serde(flatten)]
    made: MadeDataset,
    skipped_duplicates: u64,
    /// The seed of the interleaving.
    seed: Option<u64>,
}

impl Args {
    pub(crate) fn run(self, output: &Output) -> Outcome<Exit> {
        let files = self.files.split_last().filter(|(_, inputs)| !inputs.is_empty());
        let (out, inputs) = files.ok_or_else(|| Failure::trouble("expected IN and OUT"))?;
        let paths: Vec<&Path> = inputs.iter().map(PathBuf::as_path).collect();
        let inputs: Outcome<Vec<Input>> =
            paths.iter().map(|path| file::open(path, output)).collect();
        let inputs = inputs?;
        let readers: Vec<&dyn Reader> = inputs.iter().map(|input| &**input).collect();
        let plan = self.merge()?.plan(&readers)?;
        self.making.check(&paths, out)?;
        let written = self.making.write(out, &inputs, Chosen::Merged(plan), output);
        let Written { made, skipped } = written.map_err(explain)?;
        if skipped > 0 {
            let samples = units::counted(skipped, "sample");
            let file = Shown::of(&made.file);
            output.note(format_args!("{file}: skipped {samples} whose key was there before"));
        }
        let seed = (self.strategy() != Strategy::Concat).then_some(self.seed);
        if let Some(seed) = seed {
            tell_seed(&made.file, seed, output);
        }
        self.making.print(&Merged { made, skipped_duplicates: skipped, seed }, output)
    }

    fn merge(&self) -> Outcome<Merge> {
        let (weights, seed) = (self.weights.clone(), self.seed);
        let weighted = !weights.is_empty();
        let order = match self.strategy() {
            Strategy::Weighted if !weighted => {
                return Err(Failure::trouble("--strategy weighted needs --weights"));
            }
            Strategy::Weighted => MergeOrder::Weighted { weights, seed },
            _ if weighted => {
                return Err(Failure::trouble("--weights are for --strategy weighted"));
            }
            Strategy::Random => MergeOrder::Random { seed },
            Strategy::Concat => MergeOrder::Concat,
        };
        let labels = match (self.remap_labels, self.no_labels) {
            (true, _) => MergeLabels::Remap,
            (_, true) => MergeLabels::Drop,
            _ => MergeLabels::Same,
        };
        let merge = Merge::default().order(order).labels(labels);
        Ok(merge.skip_duplicates(self.skip_duplicates))
    }

    fn strategy(&self) -> Strategy {
        let weighted = !self.weights.is_empty();
        self.strategy.unwrap_or(if weighted { Strategy::Weighted } else { Strategy::Concat })
    }
}

/// Says how to keep samples of two inputs that have the same key.
fn explain(error: kiste::Error) -> Failure {
    let differ = error.remedy() == Some(&Remedy::ShardInKey);
    let is_twice = error.kind() == ErrorKind::DuplicateKey;
    // A sentence about the key.
    let told = error.key().filter(|_| is_twice);
    let told = told.map(|key| format!("key {key:?} {}", error.message()));
    let failure = Failure::from(error);
    let failure = told.into_iter().fold(failure, Failure::telling);
    match differ {
        true => failure.hint(
            "kiste convert IN... OUT --key '{key.shard}/{key}' puts the name of its file in front of \
             each key",
        ),
        false => failure,
    }
}
