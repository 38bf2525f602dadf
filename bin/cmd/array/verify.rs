use std::io::Write;
use std::path::{Path, PathBuf};

use kiste::array::At;
use kiste::text::units;
use serde_json::json;

use super::target::{Explained, open};
use crate::exit::{Exit, Outcome, quoted};
use crate::output::Output;

/// Check arrays in all their versions
///
/// Every stored chunk is decompressed and compared with its hash. Prints one line for each problem.
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
        let mut exit = Exit::Yes;
        let mut reports = Vec::new();
        for name in &self.names {
            match self.verify(name, output) {
                Ok((own, report)) => {
                    exit = exit.max(own);
                    reports.push(report);
                }
                Err(failure @ crate::exit::Failure::ClosedPipe) => return Err(failure),
                Err(failure) => exit = exit.max(output.fail(failure)),
            }
        }
        if self.json {
            output.json(&reports)?;
        }
        Ok(exit)
    }

    fn verify(&self, name: &Path, output: &Output) -> Outcome<(Exit, serde_json::Value)> {
        let report = {
            let _progress = output.progress(format!("verifying {}", name.display()), None);
            open(name, At::Newest)?.verify().explained(name)?
        };
        let found = report.problems.len() as u64;
        let exit = if found == 0 { Exit::Yes } else { Exit::No };
        if !self.json {
            let mut out = output.stdout();
            for problem in &report.problems {
                writeln!(out, "{problem}")?;
            }
            let verdict = match found {
                0 => output.green("good"),
                problems => output.red(units::counted(problems, "problem")),
            };
            let versions = units::counted(report.versions, "version");
            let chunks = units::counted(report.chunks, "chunk");
            writeln!(out, "{}: {verdict}: {versions}, {chunks} compared", name.display())?;
            out.flush()?;
            if !report.stale.is_empty() {
                let files = units::counted(report.stale.len() as u64, "file");
                output.hint(format_args!(
                    "{files} in meta/, for people and tools, not of the newest version: the next \
                     write renews what is there"
                ));
            }
            if !report.unused.is_empty() {
                let files = units::counted(report.unused.len() as u64, "file");
                let shell = quoted(name);
                output.hint(format_args!("{files} no version needs: \"kiste array gc {shell}\""));
            }
        }
        let report = json!({
            "array": name,
            "good": found == 0,
            "versions": report.versions,
            "chunks": report.chunks,
            "unused": report.unused,
            "stale": report.stale,
            "problems": report.problems,
        });
        Ok((exit, report))
    }
}
