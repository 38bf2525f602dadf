use std::path::{Path, PathBuf};

use clap::ValueEnum;
use kiste::dataset::{labels_path, read_labels};
use kiste::rearrange::MergedLabels;
use kiste::{DatasetReader, ErrorKind, Writer, rearrange};
use serde::Serialize;

use crate::exit::{Exit, Failure, Outcome};
use crate::output::Output;
use crate::rearrange::{Made, Making, tell_seed};
use crate::{file, units};

/// Write the samples of several datasets to one
///
/// concat, the default, takes one input after the other. random interleaves them, every
/// interleaving as likely as any other; weighted draws an input by --weights for each sample, and
/// leaves out those that are exhausted. Samples of one input stay in their order: "kiste shuffle"
/// changes that.
///
/// All inputs have the same .labels, or none has: otherwise a number would mean two things. With
/// --remap-labels the numbers in the field "label" change to those of one list: the labels of the
/// first input, then names that only later ones have.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, override_usage = "kiste merge [OPTIONS] <IN>... <OUT>")]
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
    /// Of samples with one key take the first that comes, and count the others
    #[arg(long)]
    skip_duplicates: bool,
    /// Number labels by their names in .labels, which may differ
    #[arg(long)]
    remap_labels: bool,
    /// Leave labels as they are and write no .labels, whatever the inputs have
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

/// What the labels of the new dataset are.
enum Labels {
    None,
    /// Those of all inputs.
    Same(Vec<String>),
    Renumbered(MergedLabels),
}

impl Labels {
    fn names(&self) -> Option<&[String]> {
        match self {
            Labels::None => None,
            Labels::Same(names) => Some(names),
            Labels::Renumbered(labels) => Some(labels.names()),
        }
    }
}

#[derive(Serialize)]
struct Merged {
    #[serde(flatten)]
    made: Made,
    skipped_duplicates: u64,
    /// What they were interleaved by.
    seed: Option<u64>,
}

impl Args {
    pub(crate) fn run(self, output: &Output) -> Outcome<Exit> {
        let files = self.files.split_last().filter(|(_, inputs)| !inputs.is_empty());
        let (out, inputs) = files.ok_or_else(|| Failure::trouble("expected IN and OUT"))?;
        let inputs: Vec<&Path> = inputs.iter().map(PathBuf::as_path).collect();
        let readers: Outcome<Vec<DatasetReader>> =
            inputs.iter().map(|input| file::open(input)).collect();
        let readers = readers?;
        let order = self.order(&readers)?;
        let labels = self.labels(&inputs)?;
        let mut skipped = 0;
        let made = self.making.make_with(labels.names(), &inputs, out, output, |writer| {
            let samples: usize = readers.iter().map(DatasetReader::len).sum();
            let progress = output.progress("merging", Some(samples as u64));
            let mut next = vec![0; readers.len()];
            for (seen, input) in order.enumerate() {
                let index = next[input];
                next[input] += 1;
                skipped += u64::from(!self.put(&readers, input, index, &labels, &next, writer)?);
                if seen % 64 == 0 {
                    progress.reaches(seen as u64)?;
                }
            }
            progress.say("finishing");
            Ok(())
        })?;
        if skipped > 0 {
            let samples = units::counted(skipped, "sample");
            let file = made.file.display();
            output.note(format_args!("{file}: skipped {samples} whose key was there before"));
        }
        let seed = (self.strategy() != Strategy::Concat).then_some(self.seed);
        if let Some(seed) = seed {
            tell_seed(&made.file, seed, output);
        }
        if self.making.json {
            output.json(&Merged { made, skipped_duplicates: skipped, seed })?;
        }
        Ok(Exit::Yes)
    }

    /// The labels of all inputs together.
    fn labels(&self, inputs: &[&Path]) -> Outcome<Labels> {
        if self.no_labels {
            return Ok(Labels::None);
        }
        let mut found = Vec::new();
        for input in inputs {
            found.push(read_labels(input)?);
        }
        if self.remap_labels {
            let mut merged = MergedLabels::new();
            for (input, labels) in inputs.iter().zip(&found) {
                // Without names, no sample may have a label.
                let added = merged.add(labels.as_deref().unwrap_or_default());
                let path = labels_path(&kiste::storage::shown(input));
                added.map_err(|e| Failure::trouble(format_args!("{}: {e}", path.display())))?;
            }
            return Ok(Labels::Renumbered(merged));
        }
        let first = found.first().cloned().flatten();
        match found.iter().position(|labels| *labels != first) {
            None => Ok(first.map_or(Labels::None, Labels::Same)),
            Some(at) => {
                let difference =
                    difference(inputs[0], first.as_deref(), inputs[at], found[at].as_deref());
                let hint = "--remap-labels numbers labels by their names, --no-labels leaves the \
                            numbers as they are, without names";
                Err(Failure::trouble(difference).hint(hint))
            }
        }
    }

    fn strategy(&self) -> Strategy {
        let weighted = !self.weights.is_empty();
        self.strategy.unwrap_or(if weighted { Strategy::Weighted } else { Strategy::Concat })
    }

    /// The input of each sample.
    fn order(&self, readers: &[DatasetReader]) -> Outcome<Box<dyn Iterator<Item = usize>>> {
        let lens: Vec<usize> = readers.iter().map(DatasetReader::len).collect();
        let weighted = !self.weights.is_empty();
        match self.strategy() {
            Strategy::Weighted if !weighted => {
                Err(Failure::trouble("--strategy weighted needs --weights"))
            }
            Strategy::Weighted => {
                Ok(Box::new(rearrange::interleave(&lens, Some(&self.weights), self.seed)?))
            }
            _ if weighted => Err(Failure::trouble("--weights are for --strategy weighted")),
            Strategy::Random => Ok(Box::new(rearrange::interleave(&lens, None, self.seed)?)),
            Strategy::Concat => {
                let inputs = lens.into_iter().enumerate();
                Ok(Box::new(inputs.flat_map(|(input, len)| std::iter::repeat_n(input, len))))
            }
        }
    }

    /// Writes a sample; false if it was skipped.
    fn put(
        &self,
        readers: &[DatasetReader],
        input: usize,
        index: usize,
        labels: &Labels,
        next: &[usize],
        writer: &mut Writer,
    ) -> Outcome<bool> {
        let copied = match labels {
            Labels::Renumbered(labels) => labels.copy_one(input, &readers[input], index, writer),
            _ => rearrange::copy_one(&readers[input], index, writer),
        };
        match copied {
            Ok(()) => Ok(true),
            Err(error) if error.kind() != ErrorKind::DuplicateKey => Err(error.into()),
            Err(_) if self.skip_duplicates => Ok(false),
            Err(_) => {
                let reader = &readers[input];
                let key = reader.key(index)?;
                // Where it was written from: another input, or the same one under another name.
                let mut others = readers.iter().enumerate().filter(|(other, _)| *other != input);
                let first = others.find_map(|(other, reader)| {
                    let index = reader.find(&key).ok().flatten()?;
                    (index < next[other]).then(|| place(reader, index))
                });
                let first = first.unwrap_or_else(|| place(reader, index));
                let message =
                    format!("key {key:?} comes twice: {first} and {}", place(reader, index));
                Err(Failure::trouble(message).hint("--skip-duplicates takes the first that comes"))
            }
        }
    }
}

/// How the labels of two inputs differ.
fn difference(a: &Path, names: Option<&[String]>, b: &Path, others: Option<&[String]>) -> String {
    let shown = kiste::storage::shown;
    let (file, other) = (labels_path(&shown(a)), labels_path(&shown(b)));
    let (file, other) = (file.display(), other.display());
    let meaning = "so a number does not mean the same";
    match (names, others) {
        (Some(names), Some(others)) => {
            let at = names.iter().zip(others).position(|(a, b)| a != b);
            let at = at.unwrap_or(names.len().min(others.len()));
            let name =
                |names: &[String]| names.get(at).map_or("none".to_owned(), |n| format!("{n:?}"));
            let (name, another) = (name(names), name(others));
            format!("label {at} is {name} in {file}, but {another} in {other}, {meaning}")
        }
        (Some(_), _) => format!("{file} is there, but {other} is not, {meaning}"),
        _ => format!("{other} is there, but {file} is not, {meaning}"),
    }
}

fn place(reader: &DatasetReader, index: usize) -> String {
    format!("{}: sample {index}", reader.path().display())
}
