use std::path::{Path, PathBuf};

use kiste::repair::{Leftover, Proof, Repair, Salvage};
use kiste::text::units;
use kiste::{DatasetReader, Writer};
use serde::Serialize;

use crate::exit::{Exit, Failure, Outcome, quoted};
use crate::output::Output;
use crate::{file, interrupt};

/// Finish or undo a write that was cut short, or save what is whole
///
/// A write that lacks only its last step is finished. After any other, the dataset that was there
/// before is left as it was; if there was none, --finish or --undo decides what to do with the
/// samples that were written.
///
/// Of a dataset of many files (NAME.shards.json) it finds the shards that an unfinished conversion left
/// and no manifest lists; --undo removes those that are as the conversion wrote them.
///
/// With -o nothing is changed in place: every whole sample of a damaged or half-written dataset is
/// copied to a new one, and what could not be saved is listed. Where there is a .crc, it says which
/// samples are whole; where there is none and the MD5 differs, nothing does. Either way
/// OUT.repair.json keeps what was lost and the old digests, as OUT gets new ones.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Data file
    file: PathBuf,
    /// Publish the samples that were written whole
    #[arg(long, conflicts_with = "undo")]
    finish: bool,
    /// Remove what was written; the dataset that was there before stays
    #[arg(long)]
    undo: bool,
    /// Save every whole sample to a new dataset
    #[arg(long, short, value_name = "OUT", conflicts_with_all = ["finish", "undo"])]
    output: Option<PathBuf>,
    /// Replace OUT if it exists
    #[arg(long, short, requires = "output")]
    force: bool,
    /// Print one JSON object that says what was done
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  kiste repair train.msgpack
  kiste repair train.msgpack --finish
  kiste repair damaged.msgpack -o saved.msgpack

Exit code 1 if it is for you to choose, if -o could not save everything, or if it saved data that does
not match its MD5.";

#[derive(Serialize)]
struct Done {
    file: PathBuf,
    /// "nothing", "finished" or "undone".
    did: &'static str,
    /// Samples of the dataset now; absent where there is none.
    samples: Option<u64>,
    /// Bytes of samples that were removed.
    dropped_bytes: u64,
}

/// What to do about a leftover.
enum Plan {
    Nothing,
    Finish,
    Undo { drops: u64 },
}

impl Args {
    pub(crate) fn run(self, output: &Output) -> Outcome<Exit> {
        file::check_is_data(&self.file)?;
        if self.file.to_str().is_some_and(kiste::format::dataset::shards::is_manifest) {
            return self.shards(output);
        }
        match &self.output {
            Some(out) => self.salvage(out, output),
            None => self.in_place(output),
        }
    }

    /// Of a dataset of many files: what a conversion has left that was cut short.
    fn shards(&self, output: &Output) -> Outcome<Exit> {
        let path = self.file.display();
        if self.output.is_some() || self.finish {
            let message = format!("{path}: each shard is repaired by its own name");
            return Err(Failure::trouble(message));
        }
        let found = match self.undo {
            true => kiste::convert::remove_unfinished_shards(&self.file)?,
            false => kiste::convert::unfinished_shards(&self.file)?,
        };
        let (did, count) = match &found {
            None if !self.file.exists() => {
                return Err(Failure::trouble(format_args!("{path}: no such file or directory")));
            }
            None => {
                output.note(format_args!("{path}: no unfinished conversion, so nothing to do"));
                ("nothing", 0)
            }
            Some(found) => {
                for foreign in &found.foreign {
                    let foreign = foreign.display();
                    output.warn(format_args!("{foreign}: another program wrote it: it stays"));
                }
                ("undone", found.shards.len() as u64)
            }
        };
        let shards = units::counted(count, "shard");
        if found.is_some() && !self.undo {
            let message =
                format!("{path}: an unfinished conversion left {shards} that no manifest lists");
            let shell_path = quoted(&self.file);
            return Err(Failure::no(message).hint(format!(
                "the same conversion with --resume continues, \"kiste repair {shell_path} --undo\" \
                 removes them"
            )));
        }
        if found.is_some() {
            output.note(format_args!("{path}: undone: {shards} removed"));
        }
        let samples = match self.file.exists() {
            true => Some(DatasetReader::open(&self.file)?.len() as u64),
            false => None,
        };
        if self.json {
            output.json(&Done { file: self.file.clone(), did, samples, dropped_bytes: 0 })?;
        }
        Ok(Exit::Yes)
    }

    fn in_place(&self, output: &Output) -> Outcome<Exit> {
        let path = self.file.display();
        let _progress = output.progress(format!("repairing {path}"), None);
        interrupt::ends_with(format!("{path}: interrupted; the same command starts over"));
        let leftover = Repair::of(&self.file).leftover()?;
        if leftover.is_none() && !self.file.exists() {
            return Err(Failure::trouble(format_args!("{path}: no such file or directory")));
        }
        let (did, dropped_bytes) = match self.plan(leftover.as_ref(), output)? {
            Plan::Nothing => {
                output.note(format_args!("{path}: no unfinished write, so nothing to do"));
                if !self.json {
                    let path = quoted(&self.file);
                    output.hint(format_args!("\"kiste verify {path}\" finds damage"));
                }
                ("nothing", 0)
            }
            Plan::Finish => {
                Repair::of(&self.file).finish()?;
                ("finished", 0)
            }
            Plan::Undo { drops } => {
                Repair::of(&self.file).undo()?;
                ("undone", drops)
            }
        };
        kiste::convert::settle_quarantine(&self.file, did == "undone")?;
        let samples = match self.file.exists() {
            true => Some(DatasetReader::open(&self.file)?.len() as u64),
            false => None,
        };
        match samples {
            _ if did == "nothing" => {}
            Some(samples) => {
                let samples = units::counted(samples, "sample");
                output.note(format_args!("{path}: {did}: the dataset is whole and has {samples}"));
            }
            None => output.note(format_args!("{path}: {did}: nothing is left of it")),
        }
        if self.json {
            output.json(&Done { file: self.file.clone(), did, samples, dropped_bytes })?;
        }
        Ok(Exit::Yes)
    }

    fn plan(&self, leftover: Option<&Leftover>, output: &Output) -> Outcome<Plan> {
        let path = self.file.display();
        let (bytes, earlier, what) = match leftover {
            None => return Ok(Plan::Nothing),
            Some(Leftover::Committed) if self.undo => return Ok(Plan::Undo { drops: 0 }),
            Some(Leftover::Committed) => {
                output
                    .note(format_args!("{path}: all was written, only the last step was missing"));
                return Ok(Plan::Finish);
            }
            Some(Leftover::Foreign { reason }) if self.undo => {
                output.note(format_args!(
                    "{path}: another program has written it since: only what the unfinished write \
                     had left is removed ({reason})"
                ));
                return Ok(Plan::Undo { drops: 0 });
            }
            Some(Leftover::Foreign { reason }) => {
                let message = format!(
                    "{path}: another program has written this dataset since a write was cut short, \
                     so nothing was touched: {reason}"
                );
                let path = quoted(&self.file);
                return Err(Failure::no(message).hint(format!(
                    "\"kiste repair {path} --undo\" removes what that write had left, and the \
                     dataset stays as it is now"
                )));
            }
            Some(Leftover::Samples { base, bytes, earlier }) => {
                (*bytes, *earlier, if base.is_some() { "append" } else { "write" })
            }
            Some(_) => return Ok(Plan::Undo { drops: 0 }),
        };
        let whole = Repair::of(&self.file).whole_samples()?;
        let samples = units::counted(whole, "whole sample");
        let found = format!("an unfinished {what} of {samples} ({})", units::bytes(bytes));
        if self.finish && whole > 0 {
            output.note(format_args!("{path}: {found}"));
            return Ok(Plan::Finish);
        }
        if self.undo || earlier || whole == 0 {
            output.note(format_args!("{path}: {found} will be dropped"));
            return Ok(Plan::Undo { drops: bytes });
        }
        let shell_path = quoted(&self.file);
        let message = format!("{path}: {found}, and no earlier dataset: it is for you to choose");
        Err(Failure::no(message).hint(format!(
            "\"kiste repair {shell_path} --finish\" publishes the {samples}, \
             \"kiste repair {shell_path} --undo\" removes them"
        )))
    }

    fn salvage(&self, out: &Path, output: &Output) -> Outcome<Exit> {
        file::check_is_data(out)?;
        let progress = output.progress(format!("saving {}", self.file.display()), None);
        interrupt::ends_with(format!(
            "{0}: interrupted; \"kiste repair {1} --undo\" removes what was written",
            out.display(),
            quoted(out)
        ));
        let options = Writer::options().overwrite(self.force);
        let saved = Repair::of(&self.file).writer(options).salvage(out)?;
        drop(progress);
        for loss in &saved.lost {
            let (source, range) = (saved.source.display(), &loss.bytes);
            let (start, end) = (range.start, range.end);
            let index = loss.index.map_or(String::new(), |index| format!("sample {index}: "));
            let key = loss.key.as_ref().map_or(String::new(), |key| format!("key {key:?}: "));
            output.note(format_args!(
                "{source}: {index}{key}bytes {start}..{end}: lost: {}",
                loss.reason
            ));
        }
        let lost: u64 = saved.lost.iter().map(|loss| loss.bytes.end - loss.bytes.start).sum();
        let samples = units::counted(saved.samples, "sample");
        let (out, bytes, lost) = (out.display(), units::bytes(saved.bytes), units::bytes(lost));
        output.note(format_args!("{out}: saved {samples}, {bytes}; lost {lost}"));
        tell_proof(&saved, output);
        if self.json {
            output.json(&saved)?;
        }
        Ok(if saved.is_complete() { Exit::Yes } else { Exit::No })
    }
}

/// What is known of the samples that were saved, and where that is kept.
fn tell_proof(saved: &Salvage, output: &Output) {
    let source = saved.source.display();
    match saved.proof {
        Proof::Doubtful => output.warn(format_args!(
            "{source}: does not match its MD5, and there are no checksums (.crc) to say where: a \
             byte of what was saved may be wrong"
        )),
        Proof::Checksums if saved.matches_md5 == Some(false) => output.note(format_args!(
            "{source}: does not match its MD5; every sample that was saved matches its checksum"
        )),
        _ => {}
    }
    if let Some(report) = &saved.report {
        output.note(format_args!("{}: what was lost, and the old digests", report.display()));
    }
}
