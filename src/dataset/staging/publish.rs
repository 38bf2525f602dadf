//! The steps of a publication: forward, back, and what is still to do of one that was cut short.

use std::path::{Path, PathBuf};

use crate::error::{Error, ErrorKind, Result};
use crate::format::dataset::{Digests, SideFile};
use crate::format::md5::Md5;
use crate::storage::{Stamp, same_content};

use super::super::files::DatasetFile;
use super::journal::{self, Commit, Step, VERSION};
use super::{Change, OLD, Staging, foreign, parent_of, staged_name, staged_path};

/// The files without which a dataset opens neither in Python nor here: the first to go, the last to
/// come.
const GATES: [DatasetFile; 2] =
    [DatasetFile::Side(SideFile::Offsets), DatasetFile::Side(SideFile::Index)];

/// Bytes that are digested in one go.
const STEP: u64 = 1 << 20;

/// A publication, begun or about to be.
pub(super) struct Publication<'a> {
    staging: &'a Staging,
    /// In the order of their suffixes, as `commit` has them.
    steps: Vec<(DatasetFile, Step)>,
    commit: Commit,
}

/// Which file has a name now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Now {
    Nothing,
    Old,
    New,
    /// Neither: another program wrote it.
    Foreign,
}

impl<'a> Publication<'a> {
    /// Plans how the staged files take the place of the present ones.
    pub(super) fn new(
        staging: &'a Staging,
        changes: &[(DatasetFile, Change)],
    ) -> Result<Publication<'a>> {
        let of = |path: PathBuf| Stamp::of(&*staging.storage, &path);
        let mut commit = Commit { version: VERSION, steps: Default::default(), in_place: None };
        for (file, change) in changes {
            let staged = staged_path(&staging.dir, *file);
            let new = match change {
                Change::Publish => of(staged.clone())?,
                Change::Remove => None,
            };
            if *change == Change::Publish && new.is_none() {
                return Err(Error::io(staged, std::io::ErrorKind::NotFound.into()));
            }
            let step = Step { new, old: of(file.path(&staging.target))? };
            commit.steps.insert(file.suffix().to_owned(), step);
        }
        if !commit.steps.contains_key(DatasetFile::Data.suffix()) {
            commit.in_place = of(staging.target.clone())?;
        }
        Publication::of(staging, commit)
    }

    /// The one that was cut short.
    pub(super) fn read(staging: &'a Staging) -> Result<Publication<'a>> {
        let path = staging.dir.join("commit");
        let commit = journal::read_commit(&*staging.storage, &staging.dir)?
            .ok_or_else(|| Error::io(&path, std::io::ErrorKind::NotFound.into()))?;
        Publication::of(staging, commit).map_err(|error| error.at(path))
    }

    fn of(staging: &'a Staging, commit: Commit) -> Result<Publication<'a>> {
        let steps = commit.steps.iter().map(|(suffix, step)| {
            // A suffix becomes part of a path, so only the suffixes of a dataset are accepted.
            let file = DatasetFile::of_suffix(suffix).ok_or_else(|| {
                let message = format!("expected suffixes of side files, found {suffix:?}");
                Error::new(ErrorKind::Damaged, message)
            })?;
            Ok((file, step.clone()))
        });
        let steps = steps.collect::<Result<_>>()?;
        Ok(Publication { staging, steps, commit })
    }

    /// The step for this file, if it changes.
    fn step(&self, file: DatasetFile) -> Option<&Step> {
        self.steps.iter().find(|(other, _)| *other == file).map(|(_, step)| step)
    }

    /// Writes down what is about to be done: from here on a recovery goes forward.
    pub(super) fn record(&self) -> Result<()> {
        self.staging.write_json("commit", &self.commit)
    }

    /// Takes that back, before anything was done.
    pub(super) fn forget(&self) -> Result<()> {
        self.staging.remove_if_there(&self.staging.dir.join("commit"))?;
        self.staging.sync_dir(&self.staging.dir)
    }

    /// Does what is still to do, up to the moment when every reader sees the new dataset.
    pub(super) fn forward(&self) -> Result<()> {
        let (gates, others): (Vec<_>, Vec<_>) =
            self.steps.iter().partition(|(file, _)| GATES.contains(file));
        let old = |steps: &[&(DatasetFile, Step)]| -> Result<()> {
            let mut moved = false;
            for (file, step) in steps {
                moved |= self.set_aside(*file, step)?;
            }
            // A power failure may otherwise keep a later change of a name and lose this one.
            if moved { self.sync() } else { Ok(()) }
        };
        let new = |steps: &[&(DatasetFile, Step)]| -> Result<()> {
            for (file, step) in steps.iter().filter(|(_, step)| step.new.is_some()) {
                self.publish(*file, step)?;
            }
            self.staging.sync_dir(&parent_of(&self.staging.target))
        };
        // Without a gate no reader opens the dataset, so none sees the mixture that begins now.
        old(&gates)?;
        old(&others)?;
        self.check_in_place()?;
        // The gate last: with it every reader sees the new dataset.
        new(&others)?;
        if gates.iter().any(|(_, step)| step.new.is_some()) {
            self.check_in_place()?;
            new(&gates)?;
        }
        Ok(())
    }

    /// Takes back what was done, as long as no reader can have seen the new dataset: then
    /// everything is as if it had never been committed.
    pub(super) fn back(&self) -> Result<()> {
        let (gates, others): (Vec<_>, Vec<_>) =
            self.steps.iter().partition(|(file, _)| GATES.contains(file));
        // The new gate first: without one nothing reads what is in between.
        let mut hidden = false;
        for (file, step) in &gates {
            hidden |= self.unpublish(*file, step)?;
        }
        if hidden {
            self.sync()?;
        }
        // The old gate last: readers open the old dataset again with it.
        for steps in [others, gates] {
            for (file, step) in &steps {
                let path = file.path(&self.staging.target);
                self.unpublish(*file, step)?;
                let aside = self.aside(*file);
                // Never over a file that another program has put there since.
                if self.staging.exists(&aside)? && !self.staging.exists(&path)? {
                    self.rename(&aside, &path)?;
                }
            }
            self.sync()?;
        }
        self.forget()
    }

    /// Whether another program has put a whole dataset of its own there, so that the old files are
    /// of no use any more. Fails if that is not known, as it may still be at work.
    pub(super) fn is_replaced(&self) -> Result<bool> {
        let is_foreign = match self.step(DatasetFile::Data) {
            Some(step) => self.now(DatasetFile::Data, step)? == Now::Foreign,
            None => !self.is_in_place()?,
        };
        let old = self.aside(DatasetFile::Data);
        if !is_foreign || !self.staging.exists(&old)? {
            return Ok(is_foreign);
        }
        // With a gate the other dataset is whole; without one its writer may still be at work.
        for gate in GATES {
            if self.staging.exists(&gate.path(&self.staging.target))? {
                return Ok(true);
            }
        }
        let message = format!(
            "another program has started to write this dataset, but it has no offsets yet: nothing was \
             touched, and the old data file is {}",
            old.display()
        );
        Err(foreign(&self.staging.target, message))
    }

    /// Why neither is possible any more: a file of the dataset is neither the old nor the new one.
    pub(super) fn overtaken(&self) -> Result<Option<String>> {
        if self.is_visible()? {
            return Ok(None);
        }
        for (file, step) in &self.steps {
            if self.now(*file, step)? == Now::Foreign {
                let name = file_name(&file.path(&self.staging.target));
                return Ok(Some(format!("{name} is neither the old file nor the new one")));
            }
        }
        if !self.is_in_place()? {
            let name = file_name(&self.staging.target);
            return Ok(Some(format!("{name} is not the file that the new side files are for")));
        }
        Ok(None)
    }

    /// Whether the data file that stays is still the one that the new side files are for.
    fn is_in_place(&self) -> Result<bool> {
        let in_place = self.commit.in_place.as_ref();
        let found = match in_place {
            Some(_) => Stamp::of(&*self.staging.storage, &self.staging.target)?,
            None => None,
        };
        Ok(same_content(in_place, found.as_ref()))
    }

    fn check_in_place(&self) -> Result<()> {
        match self.is_in_place()? {
            true => Ok(()),
            false => Err(written_meanwhile(&self.staging.target)),
        }
    }

    /// Fails if a new file is neither at its place nor staged as it was written: then what was to
    /// be published was lost.
    pub(super) fn check_staged(&self) -> Result<()> {
        // Staged labels may have been given up.
        for file in DatasetFile::all().filter(|file| *file != DatasetFile::Labels) {
            let is_listed = self.step(file).is_some_and(|step| step.new.is_some());
            let path = staged_path(&self.staging.dir, file);
            if !is_listed && self.staging.exists(&path)? {
                let message = "expected only files that are to be published, found another one: the \
                               publication can only be undone";
                return Err(Error::new(ErrorKind::Damaged, message).at(path));
            }
        }
        for (file, step) in &self.steps {
            let Some(new) = &step.new else { continue };
            let path = staged_path(&self.staging.dir, *file);
            let staged = Stamp::of(&*self.staging.storage, &path)?;
            let whole = match &staged {
                Some(staged) => self.is_new(*file, &path, new, staged)?,
                None => self.now(*file, step)? == Now::New,
            };
            if !whole {
                let found = staged.map_or("nothing".to_owned(), |s| format!("{} others", s.len()));
                let message = format!(
                    "expected the {} bytes that were written, found {found}: the publication can \
                     only be undone",
                    new.len()
                );
                return Err(Error::new(ErrorKind::Damaged, message).at(path));
            }
        }
        Ok(())
    }

    /// Whether the new offsets are at their place, so that readers may have seen the new dataset.
    pub(super) fn is_visible(&self) -> Result<bool> {
        let offsets = DatasetFile::Side(SideFile::Offsets);
        match self.step(offsets) {
            Some(step) => Ok(self.now(offsets, step)? == Now::New),
            None => Ok(false),
        }
    }

    /// Which file has the name of this one.
    fn now(&self, file: DatasetFile, step: &Step) -> Result<Now> {
        let path = file.path(&self.staging.target);
        let Some(found) = Stamp::of(&*self.staging.storage, &path)? else {
            return Ok(Now::Nothing);
        };
        // The very same file first: old and new may have the same content.
        for (known, now) in [(&step.new, Now::New), (&step.old, Now::Old)] {
            if known.as_ref().is_some_and(|known| known.is(&found)) {
                return Ok(now);
            }
        }
        let staged = self.staging.exists(&staged_path(&self.staging.dir, file))?;
        if let (Some(new), false) = (&step.new, staged) {
            if self.is_new(file, &path, new, &found)? {
                return Ok(Now::New);
            }
        }
        let is_old = step.old.as_ref().is_some_and(|old| old.has_content_of(&found));
        Ok(if is_old { Now::Old } else { Now::Foreign })
    }

    /// Whether what was found is this new file: untouched, or at least with its content, as after
    /// all files were copied to another disk.
    fn is_new(&self, file: DatasetFile, path: &Path, new: &Stamp, found: &Stamp) -> Result<bool> {
        if new.is(found) || !new.has_content_of(found) {
            return Ok(new.is(found));
        }
        match self.digest_of(file)? {
            Some(digest) => Ok(digest == self.md5(path)?),
            None => Ok(true),
        }
    }

    /// The MD5 that the new dataset has for one of its files, if it has digests.
    fn digest_of(&self, file: DatasetFile) -> Result<Option<[u8; 16]>> {
        let md5 = DatasetFile::Side(SideFile::Md5);
        let Some(Step { new: Some(recorded), .. }) = self.step(md5) else {
            return Ok(None);
        };
        let places = [staged_path(&self.staging.dir, md5), md5.path(&self.staging.target)];
        for path in places {
            let found = Stamp::of(&*self.staging.storage, &path)?;
            if !found.is_some_and(|found| recorded.has_content_of(&found)) {
                continue;
            }
            let source = self.staging.storage.open(&path)?;
            let text = source.read(0..source.len())?;
            let digests = Digests::parse(&text).map_err(|e| Error::from(e).at(&path))?;
            let name = file.path(&self.staging.target);
            let name = name.file_name().unwrap_or_default().to_string_lossy();
            return Ok(digests.get(&name).copied());
        }
        Ok(None)
    }

    fn md5(&self, path: &Path) -> Result<[u8; 16]> {
        let source = self.staging.storage.open(path)?;
        let mut md5 = Md5::new();
        let all = 0..source.len();
        source.scan(all, STEP, |part, _| {
            md5.update(part);
            None::<()>
        })?;
        Ok(md5.finish())
    }

    /// Where the old file waits until readers can see the new one.
    fn aside(&self, file: DatasetFile) -> PathBuf {
        self.staging.dir.join(format!("{OLD}{}", staged_name(file)))
    }

    /// Moves the old file out of the way, if that was not done already; whether it was done now.
    fn set_aside(&self, file: DatasetFile, step: &Step) -> Result<bool> {
        let path = file.path(&self.staging.target);
        match self.now(file, step)? {
            Now::Nothing | Now::New => Ok(false),
            Now::Old => self.rename(&path, &self.aside(file)).map(|()| true),
            Now::Foreign => Err(written_meanwhile(&path)),
        }
    }

    /// Moves the new file to its place, if that was not done already.
    fn publish(&self, file: DatasetFile, step: &Step) -> Result<()> {
        let path = file.path(&self.staging.target);
        match self.now(file, step)? {
            Now::New => Ok(()),
            Now::Nothing => self.rename(&staged_path(&self.staging.dir, file), &path),
            Now::Old | Now::Foreign => Err(written_meanwhile(&path)),
        }
    }

    /// Moves the new file back from its place, if it is there; whether it was. The note alone is not believed
    /// about which file is new: a staged one cannot be there as well, and the old one waits.
    fn unpublish(&self, file: DatasetFile, step: &Step) -> Result<bool> {
        if self.now(file, step)? != Now::New {
            return Ok(false);
        }
        let (path, staged) =
            (file.path(&self.staging.target), staged_path(&self.staging.dir, file));
        let lacks_old = step.old.is_some() && !self.staging.exists(&self.aside(file))?;
        if lacks_old || self.staging.exists(&staged)? {
            let message = format!(
                "it says that {} is a new file, but no old one was moved away: nothing was touched",
                file_name(&path)
            );
            return Err(Error::new(ErrorKind::Damaged, message).at(self.staging.dir.join("commit")));
        }
        self.rename(&path, &staged)?;
        Ok(true)
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        // Named after the file of the dataset, in both directions.
        let shown = if from.starts_with(&self.staging.dir) { to } else { from };
        self.staging.storage.rename(from, to).map_err(|e| e.shown_at(shown))
    }

    /// Makes changes of names durable, in both directories.
    fn sync(&self) -> Result<()> {
        self.staging.sync_dir(&self.staging.dir)?;
        self.staging.sync_dir(&parent_of(&self.staging.target))
    }
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn written_meanwhile(path: &Path) -> Error {
    foreign(path, "another program has written this file meanwhile")
}
