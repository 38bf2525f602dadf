//! The steps of a publication: forward, back, and what is still to do of one that was cut short.

use std::path::{Path, PathBuf};

use md5::{Digest as _, Md5};

use super::identity::{Identity, same_content};
use super::journal::{self, Commit, Step, VERSION};
use super::{OLD, Staging, file_of, foreign, parent_of, staged_name, staged_path, suffixes};
use crate::error::{Error, ErrorKind, Result};
use crate::format::dataset::{Digests, SideFile};

/// The files without which a dataset opens neither in Python nor here: gone first, there last.
const GATES: [&str; 2] = [SideFile::Offsets.suffix(), SideFile::Index.suffix()];

/// Bytes that are digested at once.
const STEP: u64 = 1 << 20;

/// A publication, begun or about to be.
pub(super) struct Publication<'a> {
    staging: &'a Staging,
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
    /// What is staged takes the place of what is there: suffixes, and whether there is a new file.
    pub(super) fn new(staging: &'a Staging, files: &[(&str, bool)]) -> Result<Publication<'a>> {
        let of = |path: PathBuf| Identity::of(&*staging.storage, &path);
        let mut commit = Commit { version: VERSION, steps: Default::default(), in_place: None };
        for (suffix, is_new) in files {
            let staged = staged_path(&staging.dir, suffix);
            let new = if *is_new { of(staged.clone())? } else { None };
            if *is_new && new.is_none() {
                return Err(Error::io(staged, std::io::ErrorKind::NotFound.into()));
            }
            let step = Step { new, old: of(file_of(&staging.target, suffix))? };
            commit.steps.insert((*suffix).to_owned(), step);
        }
        if !commit.steps.contains_key("") {
            commit.in_place = of(staging.target.clone())?;
        }
        Ok(Publication { staging, commit })
    }

    /// The one that was cut short.
    pub(super) fn read(staging: &'a Staging) -> Result<Publication<'a>> {
        let path = staging.dir.join("commit");
        let commit = journal::read_commit(&*staging.storage, &staging.dir)?
            .ok_or_else(|| Error::io(&path, std::io::ErrorKind::NotFound.into()))?;
        // A suffix becomes part of a path: only ours will do.
        match commit.steps.keys().find(|suffix| !suffixes().any(|known| known == *suffix)) {
            None => Ok(Publication { staging, commit }),
            Some(suffix) => {
                let message = format!("expected suffixes of side files, found {suffix:?}");
                Err(Error::new(ErrorKind::Damaged, message).at(path))
            }
        }
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
            self.commit.steps.iter().partition(|(suffix, _)| GATES.contains(&suffix.as_str()));
        let old = |steps: &[(&String, &Step)]| -> Result<()> {
            let mut moved = false;
            for (suffix, step) in steps {
                moved |= self.set_aside(suffix, step)?;
            }
            // A power failure may otherwise keep a later change of a name and lose this one.
            if moved { self.sync() } else { Ok(()) }
        };
        let new = |steps: &[(&String, &Step)]| -> Result<()> {
            for (suffix, step) in steps.iter().filter(|(_, step)| step.new.is_some()) {
                self.publish(suffix, step)?;
            }
            self.staging.sync_dir(&parent_of(&self.staging.target))
        };
        old(&gates)?;
        old(&others)?;
        self.check_in_place()?;
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
            self.commit.steps.iter().partition(|(suffix, _)| GATES.contains(&suffix.as_str()));
        // The new gate first: without one nothing reads what is in between.
        let mut hidden = false;
        for (suffix, step) in &gates {
            if self.now(suffix, step)? == Now::New {
                let path = file_of(&self.staging.target, suffix);
                self.rename(&path, &staged_path(&self.staging.dir, suffix))?;
                hidden = true;
            }
        }
        if hidden {
            self.sync()?;
        }
        for steps in [others, gates] {
            for (suffix, step) in &steps {
                let path = file_of(&self.staging.target, suffix);
                if self.now(suffix, step)? == Now::New {
                    self.rename(&path, &staged_path(&self.staging.dir, suffix))?;
                }
                let aside = self.aside(suffix);
                if self.staging.exists(&aside)? && !self.staging.exists(&path)? {
                    self.rename(&aside, &path)?;
                }
            }
            self.sync()?;
        }
        self.forget()
    }

    /// Whether another program has put a whole dataset of its own there, so that the old files are of
    /// no use any more. Fails where that cannot be told, as it may still be at work.
    pub(super) fn is_replaced(&self) -> Result<bool> {
        let is_foreign = match self.commit.steps.get_key_value("") {
            Some((suffix, step)) => self.now(suffix, step)? == Now::Foreign,
            None => !self.is_in_place()?,
        };
        let old = self.aside("");
        if !is_foreign || !self.staging.exists(&old)? {
            return Ok(is_foreign);
        }
        for gate in GATES {
            if self.staging.exists(&file_of(&self.staging.target, gate))? {
                return Ok(true);
            }
        }
        let message = format!(
            "another program has begun to write this dataset, but it has no offsets yet: nothing was \
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
        let name =
            |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        for (suffix, step) in &self.commit.steps {
            if self.now(suffix, step)? == Now::Foreign {
                let name = name(&file_of(&self.staging.target, suffix));
                return Ok(Some(format!("{name} is neither the old file nor the new one")));
            }
        }
        if !self.is_in_place()? {
            let name = name(&self.staging.target);
            return Ok(Some(format!("{name} is not the file that the new side files are for")));
        }
        Ok(None)
    }

    /// Whether the data file that stays is still the one that the new side files are for.
    fn is_in_place(&self) -> Result<bool> {
        let in_place = self.commit.in_place.as_ref();
        let found = match in_place {
            Some(_) => Identity::of(&*self.staging.storage, &self.staging.target)?,
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
        for (suffix, step) in &self.commit.steps {
            let Some(new) = &step.new else { continue };
            let path = staged_path(&self.staging.dir, suffix);
            let staged = Identity::of(&*self.staging.storage, &path)?;
            let whole = match &staged {
                Some(staged) => self.is_new(suffix, &path, new, staged)?,
                None => self.now(suffix, step)? == Now::New,
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
        match self.commit.steps.get_key_value(SideFile::Offsets.suffix()) {
            Some((suffix, step)) => Ok(self.now(suffix, step)? == Now::New),
            None => Ok(false),
        }
    }

    /// Which file has the name of this one.
    fn now(&self, suffix: &str, step: &Step) -> Result<Now> {
        let path = file_of(&self.staging.target, suffix);
        let Some(found) = Identity::of(&*self.staging.storage, &path)? else {
            return Ok(Now::Nothing);
        };
        // The very same file first: old and new may have the same content.
        for (known, now) in [(&step.new, Now::New), (&step.old, Now::Old)] {
            if known.as_ref().is_some_and(|known| known.is(&found)) {
                return Ok(now);
            }
        }
        let staged = self.staging.exists(&staged_path(&self.staging.dir, suffix))?;
        if let (Some(new), false) = (&step.new, staged) {
            if self.is_new(suffix, &path, new, &found)? {
                return Ok(Now::New);
            }
        }
        let is_old = step.old.as_ref().is_some_and(|old| old.has_content_of(&found));
        Ok(if is_old { Now::Old } else { Now::Foreign })
    }

    /// Whether what was found is this new file: untouched, or at least with its content, as after
    /// all files were copied to another disk.
    fn is_new(&self, suffix: &str, path: &Path, new: &Identity, found: &Identity) -> Result<bool> {
        if new.is(found) || !new.has_content_of(found) {
            return Ok(new.is(found));
        }
        match self.digest_of(suffix)? {
            Some(digest) => Ok(digest == self.md5(path)?),
            None => Ok(true),
        }
    }

    /// The MD5 that the new dataset has for one of its files, if it has digests.
    fn digest_of(&self, suffix: &str) -> Result<Option<[u8; 16]>> {
        let md5 = SideFile::Md5.suffix();
        let Some(Step { new: Some(recorded), .. }) = self.commit.steps.get(md5) else {
            return Ok(None);
        };
        let places = [staged_path(&self.staging.dir, md5), file_of(&self.staging.target, md5)];
        for path in places {
            let found = Identity::of(&*self.staging.storage, &path)?;
            if !found.is_some_and(|found| recorded.has_content_of(&found)) {
                continue;
            }
            let source = self.staging.storage.open(&path)?;
            let text = source.read(0..source.len())?;
            let digests = Digests::parse(&text).map_err(|e| Error::from(e).at(&path))?;
            let name = file_of(&self.staging.target, suffix);
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
        Ok(md5.finalize().into())
    }

    /// Where the old file waits until readers can see the new one.
    fn aside(&self, suffix: &str) -> PathBuf {
        self.staging.dir.join(format!("{OLD}{}", staged_name(suffix)))
    }

    /// Moves the old file out of the way, if that was not done already; whether it was done now.
    fn set_aside(&self, suffix: &str, step: &Step) -> Result<bool> {
        let path = file_of(&self.staging.target, suffix);
        match self.now(suffix, step)? {
            Now::Nothing | Now::New => Ok(false),
            Now::Old => self.rename(&path, &self.aside(suffix)).map(|()| true),
            Now::Foreign => Err(written_meanwhile(&path)),
        }
    }

    /// Moves the new file to its place, if that was not done already.
    fn publish(&self, suffix: &str, step: &Step) -> Result<()> {
        let path = file_of(&self.staging.target, suffix);
        match self.now(suffix, step)? {
            Now::New => Ok(()),
            Now::Nothing => self.rename(&staged_path(&self.staging.dir, suffix), &path),
            Now::Old | Now::Foreign => Err(written_meanwhile(&path)),
        }
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        // Named after the file of the dataset, whichever way it goes.
        let shown = if from.starts_with(&self.staging.dir) { to } else { from };
        self.staging.storage.rename(from, to).map_err(|e| e.shown_at(shown))
    }

    /// Makes changes of names last, in both directories.
    fn sync(&self) -> Result<()> {
        self.staging.sync_dir(&self.staging.dir)?;
        self.staging.sync_dir(&parent_of(&self.staging.target))
    }
}

fn written_meanwhile(path: &Path) -> Error {
    foreign(path, "another program has written this file meanwhile")
}
