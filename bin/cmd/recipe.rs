//! Recipes: datasets that are made of others by rules in a file.

use std::path::{Path, PathBuf};

use kiste::compose::{LeftOut, View, ViewReport, is_recipe, lock};
use kiste::storage::Shown;
use kiste::text::{self, units};

use crate::exit::{Exit, Failure, Outcome};
use crate::file;
use crate::listing::Listing;
use crate::output::Output;
use crate::view_progress::ViewProgress;

/// Check and lock recipes: datasets that are made of others, in a file *.kiste.toml
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, disable_help_subcommand = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "\
Examples:
  kiste filter train.msgpack cats.kiste.toml 'label == cat'
  kiste recipe check cats.kiste.toml
  kiste stat cats.kiste.toml

A recipe can be read wherever a dataset can. filter, select, sample, sort, merge, split and shuffle write one if the output is named *.kiste.toml.";

#[derive(Debug, clap::Subcommand)]
enum Command {
    Check(Check),
    Lock(Lock),
}

/// Show what a recipe is made of: samples by source, what is left out and why, shares, fields that differ
///
/// It reads all keys, to count those that come more than once, and the first 100 samples of each source.
#[derive(Debug, clap::Args)]
pub(crate) struct Check {
    /// Recipe
    recipe: PathBuf,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Pin the sources of a recipe: write the identity of each and the MD5 of its files into it
///
/// Whenever a locked recipe is opened, its files are compared with these digests: those in .md5, or of all bytes where there
/// is none. All else that is in the recipe stays as it is.
#[derive(Debug, clap::Args)]
pub(crate) struct Lock {
    /// Recipe
    recipe: PathBuf,
}

impl Args {
    pub(crate) fn run(self, output: &Output) -> Outcome<Exit> {
        match self.command {
            Command::Check(args) => args.run(output),
            Command::Lock(args) => args.run(output),
        }
    }
}

fn expect_recipe(path: &Path) -> Outcome<()> {
    match is_recipe(path) {
        true => Ok(()),
        false => {
            let name = file::shown(path);
            let message = format!("{name}: expected a recipe, *.kiste.toml, found another name");
            Err(Failure::trouble(message))
        }
    }
}

impl Lock {
    fn run(self, output: &Output) -> Outcome<Exit> {
        expect_recipe(&self.recipe)?;
        let progress = ViewProgress::new(output);
        let view = lock(&self.recipe, &mut |doing| progress.hear(doing))?;
        drop(progress);
        let samples = units::counted(view.reader().len() as u64, "sample");
        let name = Shown::of(&self.recipe);
        output.note(format_args!("{name}: locked, {samples}"));
        Ok(Exit::Yes)
    }
}

impl Check {
    fn run(self, output: &Output) -> Outcome<Exit> {
        expect_recipe(&self.recipe)?;
        let view = file::open_view(&self.recipe, output)?;
        let progress = ViewProgress::new(output);
        let report = view.report(&mut |doing| progress.hear(doing))?;
        drop(progress);
        match self.json {
            true => output.json(&report)?,
            false => print(&self.recipe, &view, &report, output)?,
        }
        Ok(Exit::Yes)
    }
}

fn print(recipe: &Path, view: &View, report: &ViewReport, output: &Output) -> Outcome<()> {
    let mut list = Listing::new(11, output);
    list.line("recipe", Shown::of(recipe))?;
    list.line("samples", units::count(report.samples))?;
    let widest = report.sources.iter().map(|source| text::width(&source.name)).max().unwrap_or(0);
    let source = |source: &kiste::compose::SourceSamples| {
        let samples = units::counted(source.samples, "sample");
        format!("{}  {samples}: {}", text::padded(&source.name, widest), source.made)
    };
    list.lines("sources", report.sources.iter().map(source))?;
    if let Some(mixture) = view.sampler() {
        use kiste::sampler::Sampler;
        list.line("epoch", units::counted(mixture.len(), "sample"))?;
    }
    let shares = report.phases.iter().map(|phase| {
        let named = report.sources.iter().zip(&phase.shares);
        let shares: Vec<String> = named
            .map(|(source, share)| format!("{} {:.1} %", source.name, 100.0 * share))
            .collect();
        format!("from {}: {}", units::count(phase.from), shares.join(", "))
    });
    list.lines("shares", shares)?;
    list.lines("left out", report.left_out.iter().flat_map(left_out))?;
    if report.duplicates > 0 {
        let duplicates = units::counted(report.duplicates, "sample");
        list.line("duplicates", format!("{duplicates} with a key that comes before"))?;
    }
    let differing = report.differing.iter().map(|field| {
        let types = |types: &Vec<String>| match types.is_empty() {
            true => "missing".to_owned(),
            false => types.join(" or "),
        };
        let named = report.sources.iter().zip(&field.types);
        let all: Vec<String> =
            named.map(|(source, found)| format!("{} in {}", types(found), source.name)).collect();
        format!("{}: {}", field.name, all.join(", "))
    });
    list.lines("differ", differing)?;
    let absent = report.absent.iter().map(|(step, name)| format!("no sample has {name:?}: {step}"));
    list.lines("absent", absent)?;
    list.lines("outside", &report.outside)?;
    list.finish()
}

/// What a step left out, and remarks about it.
fn left_out(step: &LeftOut) -> Vec<String> {
    let LeftOut { step: name, rule, samples, unknown_keys, remarks, .. } = step;
    let samples = match name.as_str() {
        "join" => format!("{} without a partner", units::counted(*samples, "sample")),
        _ => units::counted(*samples, "sample"),
    };
    let mut lines = vec![format!("{samples}: {name} {rule}")];
    if *unknown_keys > 0 {
        lines.push(format!(
            "{}, which no sample has: {name} {rule}",
            units::counted(*unknown_keys, "key")
        ));
    }
    lines.extend(remarks.iter().map(|remark| format!("remark: {remark}")));
    lines
}
