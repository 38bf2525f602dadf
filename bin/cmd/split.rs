use std::path::PathBuf;

use kiste::format::recipe::SUFFIX;
use kiste::rearrange::{DatasetPart, PartsBy, check_part_paths, part_path};
use kiste::text::units;

use super::convert::share;
use crate::exit::{Exit, Failure, Outcome};
use crate::file;
use crate::output::Output;
use crate::rearrange::{Chosen, Making, tell_seed};

/// Cut a dataset into several: at positions, by ratios, or by a field
///
/// POS are the indices at which a new part begins: "split IN 100" makes a part of the first 100
/// samples and one of the rest. With --split the hash of its key decides where a sample goes, as in "kiste
/// convert": it stays there when samples are added. With --ratio samples are dealt out at random, by --seed, in exact
/// numbers. With --by-class each value of a field has a part of its own. Samples stay in their order.
///
/// The parts are ROOT-0.EXT, ROOT-1.EXT and so on for an input ROOT.EXT, ROOT-NAME.EXT with --split, or
/// ROOT-VALUE.EXT with --by-class, where VALUE is the name of a label if it has one. They are published one after the other, each as a whole.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, override_usage = "\
    kiste split [OPTIONS] <IN> <POS>...
       kiste split [OPTIONS] <IN> --split <NAME=RATIO,...>
       kiste split [OPTIONS] <IN> --ratio <LIST>
       kiste split [OPTIONS] <IN> --by-class <FIELD>")]
#[command(group = clap::ArgGroup::new("how").required(true).args(["at", "split", "ratio", "by_class"]))]
pub(crate) struct Args {
    /// Data file to read
    #[arg(value_name = "IN")]
    input: PathBuf,
    /// Where a new part begins: ascending, at least 1, less than there are samples
    #[arg(value_name = "POS")]
    at: Vec<usize>,
    /// Names and shares of the parts, such as train=0.8,val=0.2: the hash of its key decides where a sample goes
    #[arg(long, value_name = "NAME=RATIO,...", value_delimiter = ',', value_parser = share)]
    split: Vec<(String, f64)>,
    /// Shares of the parts, such as 0.8,0.1,0.1 or 8,1,1
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    ratio: Vec<f64>,
    /// A part for each value of this field
    #[arg(long, value_name = "FIELD")]
    by_class: Option<String>,
    /// With --ratio: samples with the same value in this field stay together in one part
    #[arg(long, value_name = "FIELD", requires = "ratio", conflicts_with_all = NOT_RATIO)]
    by_group: Option<String>,
    /// With --ratio: deal out the samples of each value of this field in these shares
    #[arg(long, value_name = "FIELD", requires = "ratio", conflicts_with_all = NOT_RATIO, conflicts_with = "by_group")]
    stratify: Option<String>,
    /// With --ratio: the seed of the split
    #[arg(long, value_name = "S", default_value_t = 0, conflicts_with_all = NOT_RATIO)]
    seed: u64,
    /// Names of the parts, one for each
    #[arg(long, short, visible_alias = "outfiles", value_name = "NAME", num_args = 1..)]
    outputs: Vec<PathBuf>,
    #[command(flatten)]
    making: Making,
}

/// Ways to split that groups, strata and a seed are not for.
const NOT_RATIO: [&str; 3] = ["split", "at", "by_class"];

const EXAMPLES: &str = "\
Examples:
  kiste split all.msgpack 50000 -o train.msgpack test.msgpack
  kiste split all.msgpack --split train=0.9,val=0.1
  kiste split all.msgpack --ratio 0.8,0.1,0.1 --stratify label
  kiste split scans.msgpack --ratio 9,1 --by-group patient
  kiste split all.msgpack --by-class label";

impl Args {
    pub(crate) fn run(self, output: &Output) -> Outcome<Exit> {
        let input = [file::open(&self.input, output)?];
        let [reader] = &input;
        let by = self.parts_by();
        let parts = {
            let reading = by.field().map(|field| {
                output.progress(format!("reading {field}"), Some(reader.len() as u64))
            });
            let hear = |seen| reading.as_ref().map_or(Ok(()), |progress| progress.reaches(seen));
            by.parts(&**reader, hear)?
        };
        let names = self.names(&parts)?;
        for name in &names {
            self.making.check(&[&self.input], name)?;
        }
        let mut made = Vec::new();
        for (part, name) in parts.into_iter().zip(&names) {
            let chosen = Chosen::Indices(part.indices);
            made.push(self.making.write(name, &input, chosen, output)?.made);
        }
        if !self.ratio.is_empty() {
            tell_seed(&self.input, self.seed, output);
        }
        self.making.print(&made, output)
    }

    fn parts_by(&self) -> PartsBy {
        let (ratios, seed) = (self.ratio.clone(), self.seed);
        match (&self.by_class, &self.by_group) {
            (Some(field), _) => PartsBy::Values(field.clone()),
            _ if !self.split.is_empty() => {
                PartsBy::Keys { shares: self.split.clone(), salt: String::new() }
            }
            _ if ratios.is_empty() => PartsBy::Positions(self.at.clone()),
            (_, Some(field)) => PartsBy::Groups { ratios, seed, field: field.clone() },
            _ => PartsBy::Ratios { ratios, seed, stratify: self.stratify.clone() },
        }
    }

    fn names(&self, parts: &[DatasetPart]) -> Outcome<Vec<PathBuf>> {
        let names: Vec<PathBuf> = match &self.outputs[..] {
            [] => {
                // Parts of a recipe are datasets, unless other names are given.
                let stem = self.input.to_str().and_then(|name| name.strip_suffix(SUFFIX));
                let like = stem
                    .map_or_else(|| self.input.clone(), |stem| format!("{stem}.msgpack").into());
                parts.iter().map(|part| part_path(&like, &part.name)).collect()
            }
            names if names.len() == parts.len() => names.to_vec(),
            names => {
                let named = units::counted(names.len() as u64, "name");
                let parts = units::counted(parts.len() as u64, "part");
                let message = format!("{named} for {parts}");
                return Err(Failure::trouble(message));
            }
        };
        let checked = check_part_paths(&names);
        checked.map_err(|error| Failure::from(error).hint("give other names with -o"))?;
        Ok(names)
    }
}
