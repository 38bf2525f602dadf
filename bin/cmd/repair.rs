use kiste::storage::Shown;
use std::path::{Path, PathBuf};

use kiste::convert::{check_dataset_name, settle_quarantine};
use kiste::rearrange::LengthOf;
use kiste::repair::{Ending, Leftover, Proof, Repair, RepairAction, RepairPlan, Repaired, Settled};
use kiste::text::units;
use kiste::{DatasetReader, Writer};
use serde::Serialize;
use serde_json::json;

use crate::exit::{Exit, Failure, Outcome, quoted};
use crate::output::Output;
use crate::{file, interrupt};

/// Finish or undo an interrupted write, or save the whole samples of a damaged dataset
///
/// A write that has all its samples is finished. Any other was cut short: the old dataset stays as it was, and
/// if there was none, --undo removes the samples that were written and --finish publishes them, without those
/// that were to follow.
///
/// At a URL, the files of a killed writer are removed; a complete dataset stays. A writer that is still running
/// publishes nothing then.
///
/// For a dataset of many files (NAME.shards.json) it finds the shards of an unfinished conversion
/// that no manifest lists; --undo removes them, unless something else has changed them. At a URL it
/// also aborts incomplete uploads, and a conversion that is still running ends with an error; the
/// same holds for the pieces of one file at a URL.
///
/// With -o nothing is changed in place: every whole sample of a damaged or half-written dataset is copied to a
/// new one, and the samples that could not be saved are listed. A .crc tells which samples are whole; without
/// one, and if the MD5 differs, this is not known. OUT.repair.json lists what was lost and keeps the old
/// digests, as OUT gets new ones.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Data file
    file: PathBuf,
    /// Publish the samples that were written: the beginning, if the write was cut short
    #[arg(long, conflicts_with = "undo")]
    finish: bool,
    /// Remove the unfinished write; an old dataset stays
    #[arg(long)]
    undo: bool,
    /// Save every whole sample to a new dataset
    #[arg(long, short, value_name = "OUT", conflicts_with_all = ["finish", "undo"])]
    output: Option<PathBuf>,
    /// Replace OUT if it exists
    #[arg(long, short, requires = "output")]
    force: bool,
    /// Print one JSON object with the result
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  kiste repair train.msgpack
  kiste repair train.msgpack --finish
  kiste repair damaged.msgpack -o saved.msgpack

Exit code 1 if you have to choose, if --finish published the beginning of a write that was cut
short, if -o could not save everything, or if it saved data that does not match its MD5.";

/// The result, as JSON.
#[derive(Serialize)]
struct Done<'a> {
    file: Shown,
    #[serde(flatten)]
    repaired: &'a Repaired,
}

impl Args {
    pub(crate) fn run(self, output: &Output) -> Outcome<Exit> {
        file::check_is_no_recipe(&self.file)?;
        if self.output.is_some() || !kiste::storage::is_url(&self.file) {
            file::check_is_data(&self.file)?;
        }
        if self.is_manifest() || (kiste::storage::is_url(&self.file) && self.is_in_pieces()?) {
            return self.shards(output);
        }
        match &self.output {
            Some(out) => self.salvage(out, output),
            None => self.in_place(output),
        }
    }

    fn is_manifest(&self) -> bool {
        self.file.to_str().is_some_and(kiste::format::dataset::shards::is_manifest)
    }

    /// Whether a conversion to this dataset was cut short while its samples were in pieces.
    fn is_in_pieces(&self) -> Outcome<bool> {
        Ok(kiste::convert::unfinished_shards(&self.file)?.is_some())
    }

    /// Leftovers of a conversion to many files, or in pieces, that was cut short.
    fn shards(&self, output: &Output) -> Outcome<Exit> {
        let path = file::shown(&self.file);
        if self.output.is_some() || self.finish {
            let message = format!("{path}: each shard is repaired by its own name");
            return Err(Failure::trouble(message));
        }
        let found = match self.undo {
            true => kiste::convert::remove_unfinished_shards(&self.file)?,
            false => kiste::convert::unfinished_shards(&self.file)?,
        };
        let (did, count) = match &found {
            None if !self.exists()? => {
                return Err(Failure::trouble(format_args!("{path}: no such file or directory")));
            }
            None => {
                output.note(format_args!("{path}: no unfinished conversion, so nothing to do"));
                ("nothing", 0)
            }
            Some(found) => {
                for foreign in &found.foreign {
                    let foreign = Shown::of(&foreign);
                    output.warn(format_args!("{foreign}: another program wrote it: it stays"));
                }
                if let Some(dir) = &found.elsewhere {
                    let notice = kiste::convert::Notice::ScatterElsewhere(dir.clone());
                    output.warn(notice);
                }
                ("undone", found.shards.len() as u64)
            }
        };
        let (noun, state) = match self.is_manifest() {
            true => ("shard", "no manifest lists"),
            false => ("piece", "are not joined"),
        };
        let shards = units::counted(count, noun);
        if let Some(found) = found.as_ref().filter(|_| !self.undo) {
            let (message, way) = match found.is_shuffle {
                true => (
                    format!("{path}: a shuffle in parts was started, with {shards} so far"),
                    "its parts, run again, continue",
                ),
                false => (
                    format!("{path}: an unfinished conversion left {shards} that {state}"),
                    "the same conversion with --resume continues",
                ),
            };
            let shell_path = quoted(&self.file);
            let hint = format!("{way}, \"kiste repair {shell_path} --undo\" removes them");
            return Err(Failure::no(message).hint(hint));
        }
        if found.is_some() {
            output.note(format_args!("{path}: undone: {shards} removed"));
        }
        // The file in its place may belong to another program.
        let samples = match self.exists()? {
            true => DatasetReader::open(&self.file).ok().map(|reader| reader.len() as u64),
            false => None,
        };
        if self.json {
            let file = kiste::storage::shown(&self.file);
            let done = json!({"file": file, "did": did, "samples": samples, "dropped_bytes": 0});
            output.json(&done)?;
        }
        Ok(Exit::Yes)
    }

    fn exists(&self) -> Outcome<bool> {
        let (storage, path) = kiste::storage::of(&self.file)?;
        Ok(storage.stat(&path)?.is_some())
    }

    fn in_place(&self, output: &Output) -> Outcome<Exit> {
        let path = file::shown(&self.file);
        let _progress = output.progress(format!("repairing {path}"), None);
        interrupt::ends_with(format!("{path}: interrupted; the same command starts over"));
        let ending = match (self.finish, self.undo) {
            (true, _) => Some(Ending::Finish),
            (_, true) => Some(Ending::Undo),
            _ => None,
        };
        let writer = Writer::options().known_lengths(LengthOf::measure);
        let repair = Repair::of(&self.file).writer(writer);
        let plan = repair.plan(ending)?;
        self.tell(&plan, output)?;
        let repaired = plan.run()?;
        settle_quarantine(&self.file, repaired.did == Settled::Undone)?;
        let did = repaired.did;
        match repaired.samples.map(|samples| units::counted(samples, "sample")) {
            _ if did == Settled::Nothing => {}
            Some(samples) if repaired.cut_short => output.warn(format_args!(
                "{path}: {did}: it has {samples}, but the write was cut short: the rest is missing"
            )),
            Some(samples) => {
                output.note(format_args!("{path}: {did}: the dataset is whole and has {samples}"));
            }
            None => output.note(format_args!("{path}: {did}: nothing is left of it")),
        }
        if self.json {
            output.json(&Done { file: Shown::of(&self.file), repaired: &repaired })?;
        }
        Ok(if repaired.cut_short { Exit::No } else { Exit::Yes })
    }

    /// Says what was found and what happens to it, or why nothing does.
    fn tell(&self, plan: &RepairPlan<'_>, output: &Output) -> Outcome<()> {
        let (path, shell_path) = (file::shown(&self.file), quoted(&self.file));
        let whole = units::counted(plan.whole_samples, "whole sample");
        let found = match &plan.leftover {
            None => {
                output.note(format_args!("{path}: no unfinished write, so nothing to do"));
                if !self.json {
                    output.hint(format_args!("\"kiste verify {shell_path}\" finds damage"));
                }
                return Ok(());
            }
            Some(Leftover::Samples { base, bytes, lengths, .. }) => {
                let lost = lengths.iter().filter(|name| LengthOf::measure(name).is_none());
                let lost: Vec<&str> = lost.map(String::as_str).collect();
                if plan.action == RepairAction::Finish && !lost.is_empty() {
                    let lost = lost.join(", ");
                    output.warn(format_args!("{path}: .lengths will be without {lost}"));
                }
                let what = if base.is_some() { "append" } else { "write" };
                let bytes = units::bytes(*bytes);
                match plan.complete {
                    true => format!(
                        "all of {whole} ({bytes}) were written, only the last steps were missing"
                    ),
                    false => format!("an unfinished {what} of {whole} ({bytes})"),
                }
            }
            Some(Leftover::Foreign { reason }) => reason.clone(),
            Some(Leftover::Committed) if plan.action == RepairAction::Finish => {
                "all was written, only the last step was missing".to_owned()
            }
            Some(_) => return Ok(()),
        };
        match (plan.action, &plan.leftover) {
            (RepairAction::Choose, _) => Err(Failure::no(format_args!(
                "{path}: {found}, which was cut short, and no earlier dataset: it is for you to choose"
            ))
            .hint(format!(
                "\"kiste repair {shell_path} --undo\" removes them, to write all again; \
                 \"kiste repair {shell_path} --finish\" publishes the {whole} without the rest"
            ))),
            (RepairAction::Refuse, _) => Err(Failure::no(format_args!(
                "{path}: another program has written this dataset since a write was cut short, so \
                 nothing was touched: {found}"
            ))
            .hint(format!(
                "\"kiste repair {shell_path} --undo\" removes the files of that write; the dataset \
                 stays unchanged"
            ))),
            (_, Some(Leftover::Foreign { .. })) => {
                output.note(format_args!(
                    "{path}: another program has written it since: only the files of the \
                     unfinished write are removed ({found})"
                ));
                Ok(())
            }
            (RepairAction::Undo { .. }, _) => {
                output.note(format_args!("{path}: {found} will be dropped"));
                Ok(())
            }
            _ => {
                output.note(format_args!("{path}: {found}"));
                Ok(())
            }
        }
    }

    fn salvage(&self, out: &Path, output: &Output) -> Outcome<Exit> {
        file::check_is_data(out)?;
        check_dataset_name(out)?;
        let progress = output.progress(format!("saving {}", Shown::of(&self.file)), None);
        interrupt::ends_with(format!(
            "{0}: interrupted; \"kiste repair {1} --undo\" removes what was written",
            Shown::of(&out),
            quoted(out)
        ));
        let options = Writer::options().overwrite(self.force);
        let saved = Repair::of(&self.file).writer(options).salvage(out)?;
        drop(progress);
        let source = Shown::of(&saved.source);
        for loss in &saved.lost {
            output.note(format_args!("{source}: {loss}"));
        }
        let samples = units::counted(saved.samples, "sample");
        let (bytes, lost) = (units::bytes(saved.bytes), units::bytes(saved.lost_bytes()));
        output.note(format_args!("{}: saved {samples}, {bytes}; lost {lost}", Shown::of(&out)));
        match saved.proof {
            Proof::Doubtful => output.warn(format_args!(
                "{source}: does not match its MD5, and there are no checksums (.crc) to say where: \
                 a saved byte may be wrong"
            )),
            Proof::Checksums if saved.matches_md5 == Some(false) => output.note(format_args!(
                "{source}: does not match its MD5; every sample that was saved matches its checksum"
            )),
            _ => {}
        }
        if let Some(report) = &saved.report {
            output.note(format_args!("{}: what was lost, and the old digests", Shown::of(&report)));
        }
        if self.json {
            output.json(&saved)?;
        }
        Ok(if saved.is_complete() { Exit::Yes } else { Exit::No })
    }
}
