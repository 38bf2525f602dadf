use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::ValueEnum;
use kiste::DatasetReader;
use kiste::rearrange::Scalar;
use kiste::sampler::{Order, Sampler, Shuffle};

use crate::exit::{Exit, Outcome};
use crate::output::Output;
use crate::rearrange::{MadeOf, Making, scalars, tell_seed};
use crate::{file, units};

/// Write some samples of a dataset, drawn at random or the first
///
/// random, the default, takes what "kiste shuffle" with this seed has at the front, in that order:
/// a larger sample with the same seed begins with the smaller one. With --stratify each value of a
/// field has the same share of the sample as of the dataset, as closely as whole numbers allow.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Data file to read
    #[arg(value_name = "IN")]
    input: PathBuf,
    /// Data file to make
    #[arg(value_name = "OUT")]
    out: PathBuf,
    /// How many: a number such as 1000, or a share such as 0.1 or 10%
    #[arg(value_name = "N|SHARE", value_parser = parse_amount)]
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
    making: Making,
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

#[derive(Debug, Clone, Copy, PartialEq)]
enum Amount {
    Samples(u64),
    Share(f64),
}

impl Args {
    pub(crate) fn run(self, output: &Output) -> Outcome<Exit> {
        let reader = file::open(&self.input)?;
        self.making.check(&[&self.input], &self.out)?;
        let of = reader.len() as u64;
        let amount = match self.amount {
            Amount::Share(share) => (share * of as f64).round() as u64,
            Amount::Samples(samples) if samples > of => {
                let (file, has) = (file::shown(&self.input), units::counted(of, "sample"));
                output.warn(format_args!("{file}: has only {has}, all of which are taken"));
                of
            }
            Amount::Samples(samples) => samples,
        };
        let chosen = self.choose(&reader, amount, output)?;
        let made = self.making.make_of(&self.input, &reader, chosen, &self.out, output)?;
        let seed = (self.strategy == Strategy::Random).then_some(self.seed);
        if let Some(seed) = seed {
            tell_seed(&made.file, seed, output);
        }
        if self.making.json {
            output.json(&MadeOf { made, of, seed })?;
        }
        Ok(Exit::Yes)
    }

    fn choose(&self, reader: &DatasetReader, amount: u64, output: &Output) -> Outcome<Vec<usize>> {
        let of = reader.len() as u64;
        let order = Shuffle::new(of, self.seed).order(0)?;
        let order: &dyn Order = &*order;
        let candidates: Box<dyn Iterator<Item = usize>> = match self.strategy {
            Strategy::Random => Box::new(order.iter().map(|index| index as usize)),
            Strategy::Sequential => Box::new(0..reader.len()),
        };
        let Some(field) = &self.stratify else {
            return Ok(candidates.take(amount as usize).collect());
        };
        let progress = output.progress(format!("reading {field}"), Some(of));
        let classes = scalars(&self.input, reader, field, &progress)?;
        let mut left = quotas(&classes, amount);
        let take = |index: &usize| match left.get_mut(&classes[*index]) {
            Some(left) if *left > 0 => {
                *left -= 1;
                true
            }
            _ => false,
        };
        Ok(candidates.filter(take).collect())
    }
}

/// How many of each class, so that there are `amount` of all: the largest remainders are rounded
/// up, of equal ones the first.
fn quotas(classes: &[Scalar], amount: u64) -> BTreeMap<&Scalar, u64> {
    let mut counts: BTreeMap<&Scalar, u64> = BTreeMap::new();
    for class in classes {
        *counts.entry(class).or_default() += 1;
    }
    let of = classes.len().max(1) as u128;
    let exact = |count: u64| u128::from(count) * u128::from(amount);
    let mut remainders: Vec<(u128, &Scalar)> =
        counts.iter().map(|(class, count)| (exact(*count) % of, *class)).collect();
    remainders.sort_by_key(|(remainder, _)| std::cmp::Reverse(*remainder));
    for count in counts.values_mut() {
        *count = (exact(*count) / of) as u64;
    }
    let missing = amount.saturating_sub(counts.values().sum()) as usize;
    for (_, class) in remainders.into_iter().take(missing) {
        if let Some(count) = counts.get_mut(class) {
            *count += 1;
        }
    }
    counts
}

fn parse_amount(text: &str) -> Result<Amount, String> {
    let expected = || "expected a number such as 1000, or a share such as 0.1 or 10%".to_string();
    if let Ok(samples) = text.parse() {
        return Ok(Amount::Samples(samples));
    }
    let share = match text.strip_suffix('%') {
        Some(percent) => percent.parse::<f64>().map(|percent| percent / 100.0),
        None => text.parse(),
    };
    match share {
        Ok(share) if (0.0..=1.0).contains(&share) => Ok(Amount::Share(share)),
        Ok(share) => Err(format!("{share} is no share: expected one from 0 to 1")),
        Err(_) => Err(expected()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_numbers_or_shares() {
        assert_eq!(parse_amount("10"), Ok(Amount::Samples(10)));
        assert_eq!(parse_amount("1"), Ok(Amount::Samples(1)));
        assert_eq!(parse_amount("1.0"), Ok(Amount::Share(1.0)));
        assert_eq!(parse_amount("2.5%"), Ok(Amount::Share(0.025)));
        for wrong in ["", "-1", "1.5", "101%", "x", "NaN"] {
            assert!(parse_amount(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn quotas_add_up() {
        let classes: Vec<Scalar> = (0..100).map(|i| Scalar::Whole(i % 7)).collect();
        for amount in 0..=100 {
            assert_eq!(quotas(&classes, amount).values().sum::<u64>(), amount);
        }
        assert!(quotas(&[], 0).is_empty());
    }
}
