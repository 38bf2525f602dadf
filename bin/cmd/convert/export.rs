//! The other direction: samples to what other libraries read.

use std::path::{Path, PathBuf};
use std::time::Instant;

use kiste::convert::Source;
use serde::Serialize;

use super::Args;
use super::to::{Export, To};
use crate::exit::{Exit, Failure, Outcome};
use crate::output::Output;
use crate::units;

#[derive(Serialize)]
struct Exported {
    files: Vec<PathBuf>,
    samples: u64,
    seconds: f64,
}

impl Args {
    /// Options that only a dataset has.
    pub(super) fn check_export(&self, to: To) -> Outcome<()> {
        let flaw = match self.writing.given() {
            _ if self.append => "--append",
            _ if self.skip_duplicates => "--skip-duplicates",
            Some(option) => option,
            None if self.force && matches!(to, To::Webdataset | To::Mds | To::Images) => {
                let message = "--force replaces datasets and single files only";
                return Err(Failure::trouble(message).hint("remove what is there first"));
            }
            None => return Ok(()),
        };
        let message = format!("{flaw} is for datasets, but something else is made here");
        Err(Failure::trouble(message).hint("--to dataset makes one"))
    }

    pub(super) fn export(
        &self,
        to: To,
        path: &Path,
        source: &mut dyn Source,
        output: &Output,
    ) -> Outcome<Exit> {
        let start = Instant::now();
        let mut export = Export::create(to, path, self.force, source.label_names())?;
        let progress = output.progress("converting", source.len_hint());
        let mut samples = 0;
        loop {
            let batch = source.next_batch()?;
            if batch.is_empty() {
                break;
            }
            for (item, sample) in batch.into_iter().enumerate() {
                export.write(&sample?).map_err(|error| source.locate(item, error))?;
                samples += 1;
            }
            progress.set(samples);
        }
        if samples == 0 && !matches!(to, To::Jsonl | To::Csv) {
            let message = format!("{}: expected samples to write, found none", path.display());
            return Err(Failure::trouble(message));
        }
        progress.say("finishing");
        let files = export.finish()?;
        drop(progress);
        let time = start.elapsed();
        let exported = Exported { files, samples, seconds: time.as_secs_f64() };
        exported.tell(path, to, output);
        if source.label_names().is_some() && to != To::Images {
            output.warn("the names of the labels are left behind, as only datasets have them");
        }
        if self.json {
            output.json(&exported)?;
        }
        Ok(Exit::Yes)
    }
}

impl Exported {
    fn tell(&self, path: &Path, to: To, output: &Output) {
        let samples = units::counted(self.samples, "sample");
        let files = match &self.files[..] {
            [one] => one.display().to_string(),
            all => format!("{}: {}", path.display(), units::counted(all.len() as u64, "shard")),
        };
        output.note(format_args!("{files}: {samples}"));
        if let Some(loses) = to.loses() {
            output.note(format_args!("{}: {loses}", path.display()));
        }
    }
}
