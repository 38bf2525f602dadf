use kiste::storage::Shown;
use std::io::Write;
use std::path::{Path, PathBuf};

use kiste::array::{At, Report};
use kiste::text::units;
use serde_json::json;

use super::target::{Explained, open};
use crate::exit::{Exit, Outcome, quoted};
use crate::output::Output;

/// Check arrays in all their versions
///
/// Every stored chunk is decompressed and compared with its hash, and every table with what its version
/// records. Prints one line for each problem, and for each chunk that an early kiste may have lost (see the
/// guide to arrays). Versions that another program commits or removes during the check are left out.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// Directories of arrays
    #[arg(required = true, value_name = "NAME")]
    names: Vec<PathBuf>,
    /// Print one JSON list
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  kiste array verify x
  kiste array verify x y --json | jq '.[].problems'

Exit code 1 if there is any problem.";

impl Args {
    pub(super) fn run(self, output: &Output) -> Outcome<Exit> {
        let mut reports = Vec::new();
        let exit = output.for_each(&self.names, |name| {
            let array = open(name, At::Newest)?;
            let report = {
                let _progress = output.progress(format!("verifying {}", Shown::of(&name)), None);
                array.verify().explained(name)?
            };
            let good = report.problems.is_empty();
            if !self.json {
                print(name, &report, output)?;
            }
            if !good && report.writer && array.info().room > 0 {
                output.hint(format_args!(
                    "a program is writing to {}: chunks that it overwrites in place look damaged \
                     until it is done",
                    quoted(name)
                ));
            }
            let mut report = serde_json::to_value(&report)?;
            report["array"] = json!(Shown::of(name));
            report["good"] = good.into();
            reports.push(report);
            Ok(if good { Exit::Yes } else { Exit::No })
        })?;
        if self.json {
            output.json(&reports)?;
        }
        Ok(exit)
    }
}

fn print(name: &Path, report: &Report, output: &Output) -> Outcome<()> {
    let mut out = output.stdout();
    for problem in report.problems.iter().chain(&report.doubts) {
        writeln!(out, "{problem}")?;
    }
    let verdict = match report.problems.len() as u64 {
        0 => output.green("good"),
        problems => output.red(units::counted(problems, "problem")),
    };
    let versions = units::counted(report.versions, "version");
    let chunks = units::counted(report.chunks, "chunk");
    let doubts = match report.doubts.len() as u64 {
        0 => String::new(),
        doubts => format!(", {} in doubt", units::count(doubts)),
    };
    writeln!(out, "{}: {verdict}: {versions}, {chunks} compared{doubts}", Shown::of(&name))?;
    out.flush()?;
    let files = |files: &[PathBuf]| units::counted(files.len() as u64, "file");
    if !report.stale.is_empty() {
        output.hint(format_args!(
            "{} in meta/, for people and tools, not of the newest version: the next write renews \
             them",
            files(&report.stale)
        ));
    }
    if !report.unused.is_empty() {
        let (unused, shell) = (files(&report.unused), quoted(name));
        output.hint(match report.writer {
            true => format!(
                "{unused} no version names: a program is writing to the array, and may commit them"
            ),
            false => format!("{unused} no version needs: \"kiste array gc {shell}\""),
        });
    }
    Ok(())
}
