use kiste::storage::Shown;
use std::io::Write;
use std::path::{Path, PathBuf};

use kiste::dataset::labels_path;
use kiste::format::dataset::{SideFile, lengths};
use kiste::text::units;
use kiste::verify::{Cure, Verify, VerifyReport};
use serde::Serialize;

use crate::exit::{Exit, Outcome, quoted};
use crate::file;
use crate::output::{Output, Stdout};

/// Find all problems of a dataset
///
/// Digests, offsets, keys, hashes and filter are compared with the data and with each other, and each sample
/// with its checksum where there is a .crc. All problems are found, not only the first. Each is a line, up to
/// 10 of each kind, followed by how many more there are; --jsonl prints all of them, one JSON object per line.
#[derive(Debug, clap::Args)]
#[command(aliases = ["check", "validate"], after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Data files
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Also decode every sample and its arrays, plain and packed, and compare its key with the list
    #[arg(long)]
    deep: bool,
    /// Print one JSON object with a report on each dataset
    #[arg(long, conflicts_with = "jsonl")]
    json: bool,
    /// Print one JSON object for each problem, and nothing for good datasets
    #[arg(long)]
    jsonl: bool,
}

const EXAMPLES: &str = "\
Examples:
  kiste verify train.msgpack
  kiste verify --deep *.msgpack
  kiste verify train.msgpack --jsonl | jq -r .index | sort -nu

Exit code 1 if there is any problem.";

#[derive(Serialize)]
struct Verdict {
    good: bool,
    datasets: Vec<Dataset>,
}

#[derive(Serialize)]
struct Dataset {
    file: Shown,
    #[serde(flatten)]
    report: VerifyReport,
}

impl Args {
    pub(crate) fn run(self, output: &Output) -> Outcome<Exit> {
        let mut datasets = Vec::new();
        let mut out = output.stdout();
        let exit = output.for_each(&self.files, |path| {
            let (path, report) = self.verify(path, output)?;
            if self.jsonl {
                for problem in &report.problems {
                    serde_json::to_writer(&mut out, problem)?;
                    writeln!(out)?;
                }
            } else if !self.json {
                print(&path, &report, output, &mut out)?;
            }
            out.flush()?;
            warn(&path, &report, output);
            let exit = if report.is_good() { Exit::Yes } else { Exit::No };
            datasets.push(Dataset { file: Shown::of(&path), report });
            Ok(exit)
        })?;
        if self.json {
            output.json(&Verdict { good: exit == Exit::Yes, datasets })?;
        }
        Ok(exit)
    }

    /// The dataset by the name that is shown, and what is wrong with it.
    fn verify(&self, path: &Path, output: &Output) -> Outcome<(PathBuf, VerifyReport)> {
        let (storage, path) = file::locate(path)?;
        let doing = format!("verifying {}", Shown::of(&path));
        let progress = output.progress_bytes(doing, None);
        let verify = Verify::of(&path).storage(storage).deep(self.deep);
        let report = verify.run_with(&|done, of| progress.reaches_of(done, of))?;
        Ok((path, report))
    }
}

fn print(path: &Path, report: &VerifyReport, output: &Output, out: &mut Stdout) -> Outcome<()> {
    for line in report.lines(LISTED) {
        writeln!(out, "{line}")?;
    }
    let samples = units::counted(report.samples, "sample");
    let bytes = units::bytes(report.bytes);
    let digests = units::counted(report.digests.len() as u64, "digest");
    let checksums = match report.checksums {
        0 => String::new(),
        checksums => format!(" and {}", units::counted(checksums, "checksum")),
    };
    let digests = format!("{digests}{checksums}");
    let depth = if report.deep { ", every sample decoded" } else { "" };
    let path = Shown::of(&path);
    let verdict = match report.problems.len() as u64 {
        0 => output.green("good"),
        problems => output.red(units::counted(problems, "problem")),
    };
    writeln!(out, "{path}: {verdict}: {samples}, {bytes}, {digests} compared{depth}")?;
    Ok(())
}

/// Problems of one kind that are listed.
const LISTED: u64 = 10;

/// Warns about parts that could not be checked, and says how to handle problems.
fn warn(path: &Path, report: &VerifyReport, output: &Output) {
    let name = Shown::of(&path);
    if report.being_written {
        output.note(format_args!(
            "{name}: another program is writing to it: this is about the dataset as it was before"
        ));
    }
    if let Some(leftover) = &report.leftover {
        output.note(format_args!(
            "{}: left by a killed writer, and of no use: \"kiste repair {}\" removes it",
            Shown::of(&leftover),
            quoted(path)
        ));
    }
    let md5 = SideFile::Md5.path(path);
    if report.missing.contains(&md5) {
        output.warn(format_args!(
            "{name}: there are no digests (.md5), so a changed byte may go unnoticed"
        ));
    }
    let others = report.missing.iter().filter(|path| **path != md5);
    let others: Vec<&str> = others.filter_map(|p| SideFile::of(p)).map(SideFile::suffix).collect();
    if !others.is_empty() {
        let others = others.join(" ");
        output.warn(format_args!("{name}: missing, so not checked: {others}"));
    }
    report.remarks.iter().for_each(|remark| output.note(remark));
    let concerned = report.concerned();
    for data in concerned.iter().filter(|data| !is_manifest(data)).take(LISTED as usize) {
        if let Some(hint) = cure(data, report) {
            output.hint(hint);
        }
    }
}

fn is_manifest(path: &Path) -> bool {
    path.to_str().is_some_and(kiste::format::dataset::shards::is_manifest)
}

/// The options that make all columns of a `.lengths`, whose names are known if its header is whole.
pub(super) fn lengths_options(data: &Path) -> String {
    let bytes = std::fs::read(SideFile::Lengths.path(data)).unwrap_or_default();
    match lengths::Header::parse(&bytes, bytes.len() as u64) {
        Ok(header) => {
            let option = |name: &String| format!("--lengths {}", quoted(Path::new(name)));
            header.names().iter().map(option).collect::<Vec<_>>().join(" ")
        }
        Err(_) => "--lengths COLUMN".to_owned(),
    }
}

/// The hint how to mend a dataset.
fn cure(data: &Path, report: &VerifyReport) -> Option<String> {
    let path = quoted(data);
    Some(match report.cure(data) {
        Cure::Repair => format!("try: kiste repair {path}"),
        Cure::IndexAgain => {
            format!("\"kiste index --refresh {path}\" indexes again what has changed")
        }
        Cure::Salvage => format!("\"kiste repair {path} -o OUT\" saves all whole samples"),
        Cure::Rebuild(file) => {
            let (options, what) = match file {
                Some(SideFile::Crc) => ("--force --crc".to_owned(), "the checksums"),
                Some(SideFile::Lookup) => ("--lookup".to_owned(), "the lookup"),
                Some(SideFile::Lengths) => (lengths_options(data), "the lengths"),
                _ => ("--force".to_owned(), "the side files"),
            };
            let proven = if report.proves(data) { "nothing is wrong with the data: " } else { "" };
            format!("{proven}\"kiste index {options} {path}\" rebuilds {what}")
        }
        Cure::NameLabels => format!(
            "{} has a line for each label, the first for number 0: add the names that are missing",
            quoted(&labels_path(data))
        ),
        Cure::MakeMissing => format!("\"kiste index {path}\" makes the missing files"),
        _ => return None,
    })
}
