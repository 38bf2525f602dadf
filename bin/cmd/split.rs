use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use kiste::DatasetReader;
use kiste::rearrange::{self, Scalar};

use crate::exit::{Exit, Failure, Outcome};
use crate::file;
use crate::output::Output;
use crate::rearrange::{Making, scalars, tell_seed};

/// Cut a dataset into several: at positions, by ratios, or by a field
///
/// POS are the indices at which a new part begins: "split IN 100" makes a part of the first 100
/// samples and one of the rest. With --ratio samples are dealt out at random, by --seed; in each
/// part they stay in their order. With --by-class each value of a field has a part of its own.
///
/// The parts are ROOT-0.EXT, ROOT-1.EXT and so on for an input ROOT.EXT, or ROOT-VALUE.EXT with
/// --by-class. They are published one after the other, each as a whole.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, override_usage = "\
    kiste split [OPTIONS] <IN> <POS>...
       kiste split [OPTIONS] <IN> --ratio <LIST>
       kiste split [OPTIONS] <IN> --by-class <FIELD>")]
#[command(group = clap::ArgGroup::new("how").required(true).args(["at", "ratio", "by_class"]))]
pub(crate) struct Args {
    /// Data file to read
    #[arg(value_name = "IN")]
    input: PathBuf,
    /// Where a new part begins: ascending, at least 1, less than there are samples
    #[arg(value_name = "POS")]
    at: Vec<usize>,
    /// Shares of the parts, such as 0.8,0.1,0.1 or 8,1,1
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    ratio: Vec<f64>,
    /// A part for each value of this field
    #[arg(long, value_name = "FIELD")]
    by_class: Option<String>,
    /// With --ratio: samples with the same value in this field stay together in one part
    #[arg(long, value_name = "FIELD", requires = "ratio")]
    by_group: Option<String>,
    /// With --ratio: deal out the samples of each value of this field in these shares
    #[arg(long, value_name = "FIELD", requires = "ratio", conflicts_with = "by_group")]
    stratify: Option<String>,
    /// With --ratio: the seed of the split
    #[arg(long, value_name = "S", default_value_t = 0)]
    seed: u64,
    /// Names of the parts, one for each
    #[arg(long, short, visible_alias = "outfiles", value_name = "NAME", num_args = 1..)]
    outputs: Vec<PathBuf>,
    #[command(flatten)]
    making: Making,
}

const EXAMPLES: &str = "\
Examples:
  kiste split all.msgpack 50000 -o train.msgpack test.msgpack
  kiste split all.msgpack --ratio 0.8,0.1,0.1 --stratify label
  kiste split scans.msgpack --ratio 9,1 --by-group patient
  kiste split all.msgpack --by-class label";

/// A part: what its name ends in, and its samples.
struct Part {
    suffix: String,
    indices: Vec<usize>,
}

impl Args {
    pub(crate) fn run(self, output: &Output) -> Outcome<Exit> {
        let reader = file::open(&self.input)?;
        let parts = self.parts(&reader, output)?;
        let names = self.names(&parts)?;
        for name in &names {
            self.making.check(&[&self.input], name)?;
        }
        let mut made = Vec::new();
        for (part, name) in parts.into_iter().zip(&names) {
            made.push(self.making.make_of(&self.input, &reader, part.indices, name, output)?);
        }
        if !self.ratio.is_empty() {
            tell_seed(&self.input, self.seed, output);
        }
        if self.making.json {
            output.json(&made)?;
        }
        Ok(Exit::Yes)
    }

    fn parts(&self, reader: &DatasetReader, output: &Output) -> Outcome<Vec<Part>> {
        let field = |name: &str| {
            let progress = output.progress(format!("reading {name}"), Some(reader.len() as u64));
            scalars(&self.input, reader, name, &progress)
        };
        if let Some(name) = &self.by_class {
            return Ok(by_class(field(name)?));
        }
        if self.ratio.is_empty() {
            return self.at_positions(reader.len());
        }
        let part_of = match &self.by_group {
            Some(name) => rearrange::whole_groups(&field(name)?, &self.ratio, self.seed)?,
            None => {
                let classes = self.stratify.as_deref().map(field).transpose()?;
                rearrange::parts(reader.len(), &self.ratio, classes.as_deref(), self.seed)?
            }
        };
        let mut parts: Vec<Part> = (0..self.ratio.len()).map(Part::numbered).collect();
        for (index, part) in part_of.into_iter().enumerate() {
            parts[part].indices.push(index);
        }
        Ok(parts)
    }

    fn at_positions(&self, samples: usize) -> Outcome<Vec<Part>> {
        let mut start = 0;
        let mut parts = Vec::new();
        for &end in self.at.iter().chain([&samples]) {
            if end <= start || (end == samples && parts.len() < self.at.len()) {
                let wrong = self.at.get(parts.len()).copied().unwrap_or(start);
                let message = format!(
                    "position {wrong}: expected ascending positions from 1 to {}, as {} has {samples} \
                     samples",
                    samples.saturating_sub(1),
                    file::shown(&self.input)
                );
                return Err(Failure::trouble(message));
            }
            let mut part = Part::numbered(parts.len());
            part.indices = (start..end).collect();
            parts.push(part);
            start = end;
        }
        Ok(parts)
    }

    fn names(&self, parts: &[Part]) -> Outcome<Vec<PathBuf>> {
        let names: Vec<PathBuf> = match self.outputs.as_slice() {
            [] => parts.iter().map(|part| beside(&self.input, &part.suffix)).collect(),
            names if names.len() == parts.len() => names.to_vec(),
            names => {
                let message = format!("{} names for {} parts", names.len(), parts.len());
                return Err(Failure::trouble(message));
            }
        };
        for (at, name) in names.iter().enumerate() {
            if names[..at].contains(name) {
                let message = format!("{}: two parts would have this name", name.display());
                return Err(Failure::trouble(message).hint("give other names with -o"));
            }
        }
        Ok(names)
    }
}

impl Part {
    fn numbered(number: usize) -> Part {
        Part { suffix: number.to_string(), indices: Vec::new() }
    }
}

fn by_class(classes: Vec<Scalar>) -> Vec<Part> {
    let mut members: BTreeMap<Scalar, Vec<usize>> = BTreeMap::new();
    for (index, class) in classes.into_iter().enumerate() {
        members.entry(class).or_default().push(index);
    }
    // Nothing that has a meaning in a path or in a shell.
    let plain = |c: char| if c.is_alphanumeric() || "._-+".contains(c) { c } else { '_' };
    let part = |(class, indices): (Scalar, _)| Part {
        suffix: class.to_string().chars().map(plain).collect(),
        indices,
    };
    members.into_iter().map(part).collect()
}

/// `dir/ROOT-SUFFIX.EXT` for `dir/ROOT.EXT`.
fn beside(input: &Path, suffix: &str) -> PathBuf {
    let mut name = input.file_stem().unwrap_or_default().to_os_string();
    name.push(format!("-{suffix}"));
    if let Some(extension) = input.extension() {
        name.push(".");
        name.push(extension);
    }
    input.with_file_name(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_named_as_in_python() {
        assert_eq!(beside(Path::new("a/b.c.msgpack"), "0"), Path::new("a/b.c-0.msgpack"));
        assert_eq!(beside(Path::new("b"), "12"), Path::new("b-12"));
    }
}
