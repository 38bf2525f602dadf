//! Runs of a conversion whose samples are in pieces first: one part of several, or all as one part that is joined
//! immediately.

use std::path::PathBuf;

use serde_json::Value as Json;

use super::commit::commit_with;
use super::conversion::Conversion;
use super::export;
use super::format::Format;
use super::job::journal::name_of;
use super::job::no_units;
use super::monitor::{Monitor, Notice, kept};
use super::open::{Opened, Samples};
use super::output_checks;
use super::plan::{Plan, difference};
use super::report::Report;
use super::unfinished::remove_unfinished_shards;
use super::{Journal, Part};
use crate::error::{Error, ErrorKind, Remedy, Result};
use crate::storage;

impl Conversion {
    /// Runs one part, in the directory `OUTPUT.parts`. A part that is finished is left as it is, and
    /// one that was interrupted is resumed. When all parts are finished, [`commit`](super::commit()) joins them; the
    /// bytes are the same as from one run.
    ///
    /// At a URL a part that runs again takes the place of its earlier run, which may be dead; if it is not, it
    /// ends with [`Locked`](ErrorKind::Locked).
    ///
    /// # Errors
    ///
    /// Those of [`run`](Self::run); [`Invalid`](ErrorKind::Invalid) if there are parts of another
    /// [plan](Self::plan), or the source is a stream; [`Locked`](ErrorKind::Locked) if another
    /// process runs this part.
    pub fn run_part(&self, part: Part, monitor: &mut dyn Monitor) -> Result<Report> {
        self.check()?;
        if let Some(count) = self.options.shards.filter(|count| *count != part.of()) {
            let message = format!("is {count}, but there are {} parts", part.of());
            return Err(Error::new(ErrorKind::Invalid, message).with_option("shards"));
        }
        let mut opened = self.open()?;
        opened.tell(monitor);
        if let Samples::Stream(_) = opened.samples {
            return Err(no_units());
        }
        if self.options.append {
            self.check_older_keys(&opened)?;
        }
        let plan = self.plan_of(&opened, Some(part.of()))?;
        let parts = self.parts(&plan)?;
        // The parts of a result that is there are about to be removed, and must not be written again.
        if parts.is_published()? {
            return Ok(Report { was_complete: true, ..Report::default() });
        }
        let written = self.write_pieces(&parts, part, opened, monitor);
        let written = written.map_err(|error| match self.is_sharded() {
            // Its shards stay where they are: a part that continues finds them.
            true => error,
            false => kept(error, &self.output, "nothing was written"),
        });
        Ok(written?.told(monitor))
    }

    /// Runs a conversion whose samples are in pieces first: as one part, which is then joined. Several outputs
    /// and other formats are resumed in this way, and in other formats keys that come twice are found.
    pub(super) fn run_in_pieces(
        &self,
        opened: Opened,
        monitor: &mut dyn Monitor,
    ) -> Result<Report> {
        let there = Journal::open(&self.output);
        let was_begun = matches!(there, Ok(Some(_)));
        if self.how.resume && matches!(opened.samples, Samples::Stream(_)) {
            return Err(no_units().with_remedy(Remedy::ResumeFiles));
        }
        let is_dataset = self.output_format() == Format::Dataset;
        let may_be_done = !self.options.overwrite && !self.options.append;
        if self.how.resume && is_dataset && may_be_done && there?.is_none() {
            // Parts are removed last, so without them an earlier run may have come to its end.
            let targets = self.targets();
            if targets.iter().all(|path| super::run::is_dataset(path)) {
                monitor.notice(Notice::Complete(self.output.clone()));
                return self.report_present(&targets, opened.skipped_files);
            }
        }
        let plan = self.plan_of(&opened, Some(1))?;
        let parts = self.parts(&plan)?;
        let made = match parts.is_published()? {
            true => Ok(()),
            false => self.write_pieces(&parts, Part::whole(), opened, monitor).map(drop),
        };
        let joined = made.and_then(|()| commit_with(&self.output, self.how.durable, true, monitor));
        joined.map(|report| Report { resumed: was_begun, ..report }).inspect_err(|error| {
            let keeps = self.how.resume
                || (self.how.keep_cancelled && error.kind() == ErrorKind::Cancelled);
            // What an earlier run has left stays, and what another one may have taken over.
            let is_ours = parts.is_new() && parts.check_held(Part::whole()).is_ok();
            let is_locked = error.kind() == ErrorKind::Locked;
            if !keeps && !is_locked && is_ours && matches!(self.is_partly_there(&parts), Ok(false))
            {
                // The first error is the one to report.
                let _ = remove_unfinished_shards(&self.output);
            }
        })
    }

    /// Whether a commit has published one of the outputs, or was about to: then a run that continues it makes the rest.
    fn is_partly_there(&self, parts: &Journal) -> Result<bool> {
        if !parts.are_objects() {
            return match self.options.append {
                true => self.has_appended(parts),
                false => Ok(!parts.made()?.is_empty()),
            };
        }
        let (home, writes) = (self.piece_home(parts)?, parts.writes()?);
        for path in self.targets() {
            let (_, path) = storage::of(&path)?;
            if home.is_written(&path, writes.get(&name_of(&path)).map_or(&[][..], Vec::as_slice))? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The directory of the parts, created if it is not there.
    pub(super) fn parts(&self, plan: &Plan) -> Result<Journal> {
        let mut there = Journal::open(&self.output).ok().flatten();
        // All but the sign that they were published was removed before.
        let mut is_published = there.as_ref().map_or(Ok(false), Journal::is_published)?;
        if is_published && there.as_ref().is_some_and(|there| there.plan().is_null()) {
            if let Some(there) = there.take() {
                drop(there.lock_all()?);
                there.remove()?;
            }
            is_published = false;
        }
        // Once the commit has begun, what is in the place of the result may be its own.
        // An earlier run may have come as far as the manifest: the commit sees whether it is its own.
        let continues = self.is_sharded() && self.how.resume && there.is_some();
        let begun = there.as_ref().map_or(Ok(false), Journal::commit_begun)?;
        if !is_published && !begun && !continues {
            self.check_places(plan)?;
        }
        let plan = plan.to_json()?;
        // All of it is one part.
        let is_stream =
            |plan: &Json| plan.get("units").is_some_and(Json::is_null) && plan["parts"] == 1;
        let is_begun = |there: &Journal| is_stream(there.plan()) && !there.are_objects();
        if let Some(there) = there.filter(|there| is_begun(there) && is_stream(&plan)) {
            // A stream that was read in part cannot be read again. In an object store its reader may be alive;
            // here it is not if nothing is locked.
            let _locks = (there.lock(Part::whole())?, there.lock_all()?);
            // Parts of another plan than the one that is there are not given up.
            there.done(Part::whole())?;
            there.remove()?;
        }
        Journal::create(&self.output, &plan).map_err(|error| {
            let there = Journal::open(&self.output).ok().flatten();
            match there.filter(|_| error.kind() == ErrorKind::Invalid) {
                Some(there) => {
                    let message = format!(
                        "there are parts of another plan: {}",
                        difference(there.plan(), &plan)
                    );
                    let error = Error::new(ErrorKind::Invalid, message).at(there.dir());
                    error.with_remedy(Remedy::RemoveDir(there.dir().to_path_buf()))
                }
                None => error,
            }
        })
    }

    /// Fails if something is in the place of the result, before any work is done.
    pub(super) fn check_places(&self, plan: &Plan) -> Result<()> {
        let format = self.output_format();
        if format != Format::Dataset {
            let (form, overwrite) = (self.export_form(format), self.options.overwrite);
            let targets = self.targets();
            return targets.iter().try_for_each(|path| export::check_place(form, path, overwrite));
        }
        if self.is_sharded() {
            return match self.options.append || self.options.overwrite {
                true => Ok(()),
                false => self.check_no_manifest(),
            };
        }
        for path in self.targets() {
            match self.options.append {
                true => drop(self.base_of(&path)?),
                false => output_checks::check_dataset(&path, self.options.overwrite)?,
            }
            self.plan_labels(&path, plan.labels.as_deref())?;
        }
        Ok(())
    }

    /// The outputs: of a split, each of its own.
    pub(super) fn targets(&self) -> Vec<PathBuf> {
        self.options.split.paths(&self.output)
    }
}
