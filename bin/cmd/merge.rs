use std::path::{Path, PathBuf};

use clap::ValueEnum;
use kiste::{DatasetReader, ErrorKind, Writer, rearrange};
use serde::Serialize;

use crate::exit::{Exit, Failure, Outcome};
use crate::output::Output;
use crate::rearrange::{Made, Making};
use crate::{file, units};

/// Write the samples of several datasets to one
///
/// concat, the default, takes one input after the other. random interleaves them, every
/// interleaving as likely as any other; weighted draws an input by --weights for each sample, and
/// leaves out those that are exhausted. Samples of one input stay in their order: "kiste shuffle"
/// changes that.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Data files to read, and the one to make
    #[arg(required = true, num_args = 2.., value_name = "IN> <OUT")]
    files: Vec<PathBuf>,
    /// concat, random or weighted
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
    #[command(flatten)]
    making: Making,
}

const EXAMPLES: &str = "\
Examples:
  kiste merge shard-*.msgpack all.msgpack
  kiste merge day.msgpack night.msgpack both.msgpack --strategy random --seed 42
  kiste merge real.msgpack rendered.msgpack mix.msgpack --weights 3,1";

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Strategy {
    Concat,
    Random,
    Weighted,
}

#[derive(Serialize)]
struct Merged {
    #[serde(flatten)]
    made: Made,
    skipped_duplicates: u64,
}

impl Args {
    pub(crate) fn run(self, output: &Output) -> Outcome<Exit> {
        // Clap sees to it that there are two.
        let Some((out, inputs)) = self.files.split_last() else { return Ok(Exit::Trouble) };
        let inputs: Vec<&Path> = inputs.iter().map(PathBuf::as_path).collect();
        let readers: Outcome<Vec<DatasetReader>> =
            inputs.iter().map(|input| file::open(input)).collect();
        let readers = readers?;
        let order = self.order(&readers)?;
        let mut skipped = 0;
        let made = self.making.make(&inputs, out, output, |writer| {
            let samples: usize = readers.iter().map(DatasetReader::len).sum();
            let progress = output.progress("merging", Some(samples as u64));
            let mut next = vec![0; readers.len()];
            for (seen, input) in order.enumerate() {
                let index = next[input];
                next[input] += 1;
                skipped += u64::from(!self.put(&readers, input, index, &next, writer)?);
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
        if self.making.json {
            output.json(&Merged { made, skipped_duplicates: skipped })?;
        }
        Ok(Exit::Yes)
    }

    /// The input of each sample.
    fn order(&self, readers: &[DatasetReader]) -> Outcome<Box<dyn Iterator<Item = usize>>> {
        let lens: Vec<usize> = readers.iter().map(DatasetReader::len).collect();
        let weighted = !self.weights.is_empty();
        let default = if weighted { Strategy::Weighted } else { Strategy::Concat };
        match self.strategy.unwrap_or(default) {
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
        next: &[usize],
        writer: &mut Writer,
    ) -> Outcome<bool> {
        match rearrange::copy_one(&readers[input], index, writer) {
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

fn place(reader: &DatasetReader, index: usize) -> String {
    format!("{}: sample {index}", reader.path().display())
}
