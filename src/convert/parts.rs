//! Parts of a conversion, which are written independently of each other and then joined.
//!
//! All of them are in the directory `NAME.parts` next to the dataset `NAME` that they will become:
//!
//! | file | content |
//! | --- | --- |
//! | `plan.json` | the plan and the number of parts, written by the first of them; in an object store also a number of the conversion, which is in `published` too |
//! | `part-I-of-N.msgpack` … | the samples of a part, a dataset like any other, without digests |
//! | `part-I-of-N.json` | written when the part is finished: the digest of its plan, and what was counted |
//! | `part-I-of-N.shards` | of a dataset of many files: the shards that this part has written next to the manifest, and where the next one begins |
//! | `part-I-of-N.lock` | locked by the process that writes the part |
//! | `commit` | the parts are being joined, and the dataset may be there already: what was in its place before, and what is put there |
//! | `published` | the dataset is there: the rest of the directory can be removed |
//!
//! The digest of the plan identifies a part, so a part of another plan or of other sources is never
//! used by mistake. What the notes say, and how they are read, is in [`part_notes`](super::part_notes).
//!
//! Where the dataset is in an object store, so are these, as objects with names of this form. There
//! are no locks: [`PartObjects`] fences runs off instead, by one object for each part. So
//! `part-I-of-N.shards` says as well that the part is finished, and `published` may also say that the
//! conversion was given up, and that a repair is removing it.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::thread;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value as Json;
use sha2::{Digest as _, Sha256};

use super::Input;
use super::part_notes::{self, Commit, Done, Finished, Seen};
use super::part_objects::{Lost, PartObjects};
use crate::error::{Error, ErrorKind, Result};
use crate::format::hex;
use crate::note;
use crate::regular;
use crate::storage::{self, LocalStorage, Lock, Storage, random};

/// More parts than this are a mistake.
const MAX_PARTS: usize = 1_000_000;
/// As it is in a plan.
const MAX_COUNT: u64 = MAX_PARTS as u64;

/// One of several parts: `3/7` is the third of seven.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    number: usize,
    of: usize,
}

impl Part {
    /// Part `number` of `of`, counted from 1.
    pub fn new(number: usize, of: usize) -> Result<Part> {
        match (1..=of.min(MAX_PARTS)).contains(&number) {
            true => Ok(Part { number, of }),
            false => {
                let message = format!("part {number}/{of}, expected one from 1/{of} to {of}/{of}");
                Err(Error::new(ErrorKind::Invalid, message))
            }
        }
    }

    /// The only part.
    pub fn whole() -> Part {
        Part { number: 1, of: 1 }
    }

    /// All of this many parts.
    pub fn all(of: usize) -> impl Iterator<Item = Part> {
        (1..=of).map(move |number| Part { number, of })
    }

    /// Which one it is, counted from 1.
    pub fn number(self) -> usize {
        self.number
    }

    /// How many parts there are.
    pub fn of(self) -> usize {
        self.of
    }

    /// The units of an input that belong to this part: a run of them, and about as many bytes as
    /// in the other parts where their sizes are known. Empty if there are fewer units than parts.
    pub fn units(self, input: &dyn Input) -> Range<usize> {
        let units = input.units();
        let sizes: Option<Vec<u64>> = (0..units).map(|unit| input.bytes(unit)).collect();
        // One more for each, so that empty units too are dealt out.
        let size = |unit: usize| sizes.as_ref().map_or(1, |sizes| u128::from(sizes[unit]) + 1);
        let total: u128 = (0..units).map(size).sum();
        let (mut start, mut run) = (0u128, 0..0);
        for unit in 0..units {
            let middle = 2 * start + size(unit);
            let part = (middle * self.of as u128 / (2 * total)) as usize + 1;
            start += size(unit);
            if part < self.number {
                run = unit + 1..unit + 1;
            } else if part == self.number {
                run.end = unit + 1;
            }
        }
        run
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.number, self.of)
    }
}

impl FromStr for Part {
    type Err = Error;

    fn from_str(text: &str) -> Result<Part> {
        let numbers = text.split_once('/').and_then(|(number, of)| {
            Some((number.parse::<usize>().ok()?, of.parse::<usize>().ok()?))
        });
        match numbers {
            Some((number, of)) => Part::new(number, of),
            None => {
                let message = format!("expected a part such as 3/7, found {text:?}");
                Err(Error::new(ErrorKind::Invalid, message))
            }
        }
    }
}

/// The sources are a stream, which can neither be divided nor read twice.
pub(super) fn no_units() -> Error {
    let message = "this is read as one stream, so it cannot be divided";
    Error::new(ErrorKind::Invalid, message).advise("name files instead of - or a pipe")
}

/// The directory of the parts of a dataset.
#[derive(Debug)]
pub(super) struct Parts {
    dir: PathBuf,
    plan: Json,
    digest: String,
    /// Where they are objects.
    objects: Option<PartObjects>,
    /// There: a random number of the conversion, by which an end of one is not taken for that of the next;
    /// empty if there is no plan.
    id: String,
    /// Whether this call of [`create`](Self::create) began them.
    is_new: bool,
}

impl Parts {
    /// Begins parts of this plan, or opens those that others have begun.
    ///
    /// # Errors
    ///
    /// [`Invalid`](ErrorKind::Invalid) if there are parts of another plan. [`open`](Self::open)
    /// tells which.
    pub(super) fn create(dataset: &Path, plan: &Json) -> Result<Parts> {
        let text = render(plan);
        let parts = match PartObjects::of(dataset)? {
            Some((objects, dataset)) => {
                let dir = dir_of(&dataset);
                let mut named = plan.clone();
                named[ID] = format!("{:016x}", random()).into();
                let text = note::sealed(&render(&named));
                let is_new = objects.create(&file_in(&dir, "plan.json"), text.as_bytes())?;
                Parts { is_new, ..Parts::read(dir, Some(objects))? }
            }
            None => Parts::create_files(dir_of(dataset), &note::sealed(&text))?,
        };
        match parts.plan == *plan {
            true => Ok(parts),
            false => {
                let message = "there are parts of another plan";
                Err(Error::new(ErrorKind::Invalid, message).at(&parts.dir))
            }
        }
    }

    fn create_files(dir: PathBuf, text: &str) -> Result<Parts> {
        check_dir(&dir)?;
        storage::make_ours(&dir, false)?;
        if let Err(error) = put_plan(&dir, text) {
            if error.kind() != ErrorKind::NotFound {
                return Err(error);
            }
            // A commit has removed the folder, which was still empty.
            storage::make_ours(&dir, false)?;
            put_plan(&dir, text)?;
        }
        Parts::read(dir, None)
    }

    /// Opens the parts that are there, if there are any.
    pub(super) fn open(dataset: &Path) -> Result<Option<Parts>> {
        if let Some((objects, dataset)) = PartObjects::of(dataset)? {
            return match Parts::read(dir_of(&dataset), Some(objects)) {
                Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
                read => read.map(Some),
            };
        }
        let dir = dir_of(dataset);
        match check_dir(&dir)? {
            // No more than the place of a plan.
            true if !dir.join("plan.json").exists() && is_unbegun(&dir)? => Ok(None),
            true => Parts::read(dir, None).map(Some),
            false => Ok(None),
        }
    }

    fn read(dir: PathBuf, objects: Option<PartObjects>) -> Result<Parts> {
        let (digest, id) = (String::new(), String::new());
        let mut parts = Parts { dir, plan: Json::Null, digest, objects, id, is_new: false };
        let path = parts.dir_file("plan.json");
        let text = match parts.read_note(&path) {
            Ok(Some(text)) => text,
            // An earlier removal was interrupted.
            Err(_) if parts.objects.is_none() && parts.end()?.is_some() => b"null".to_vec(),
            Ok(None) if parts.end()?.is_some() => b"null".to_vec(),
            Ok(None) if parts.objects.is_some() => {
                return Err(Error::io(&path, io::ErrorKind::NotFound.into()));
            }
            Ok(None) => return Err(without_plan(&parts.dir)),
            Err(error) => return Err(error),
        };
        parts.plan = part_notes::parse(&text, &path, "the plan of parts")?;
        if parts.objects.is_some() {
            parts.id = id_of(&mut parts.plan);
        }
        parts.digest = digest_of(&parts.plan);
        Ok(parts)
    }

    /// Whether they are objects, which this process has begun or found.
    pub(super) fn are_objects(&self) -> bool {
        self.objects.is_some()
    }

    /// Whether [`create`](Self::create) has found none.
    pub(super) fn are_new(&self) -> bool {
        self.is_new
    }

    fn read_note(&self, path: &Path) -> Result<Option<Vec<u8>>> {
        if let Some(objects) = &self.objects {
            return objects.read(path);
        }
        part_notes::read(path)
    }

    fn dir_file(&self, name: &str) -> PathBuf {
        file_in(&self.dir, name)
    }

    /// The plan.
    pub(super) fn plan(&self) -> &Json {
        &self.plan
    }

    /// How many parts there are. None are left where only the end is to be tidied up.
    ///
    /// # Errors
    ///
    /// [`Damaged`](ErrorKind::Damaged) if the plan does not say so, or no such number.
    pub(super) fn count(&self) -> Result<usize> {
        let found = &self.plan["parts"];
        match found.as_u64() {
            Some(count @ 1..=MAX_COUNT) => Ok(count as usize),
            None if self.plan.is_null() && self.end()?.is_some() => Ok(0),
            _ => {
                let found =
                    format!("parts: expected a number from 1 to {MAX_COUNT}, found {found}");
                Err(part_notes::damaged(&self.dir_file("plan.json"), "the plan of parts", found))
            }
        }
    }

    /// All of them.
    pub(super) fn all(&self) -> Result<Vec<Part>> {
        Ok(Part::all(self.count()?).collect())
    }

    /// The digest of the plan.
    pub(super) fn digest(&self) -> &str {
        &self.digest
    }

    /// The directory.
    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    /// The data file of a part.
    pub(super) fn path(&self, part: Part) -> PathBuf {
        self.file(part, "msgpack")
    }

    /// A file of a part with another ending.
    pub(super) fn file(&self, part: Part, ending: &str) -> PathBuf {
        // With how many there are, so that a part of another division is never taken for one of these.
        self.dir_file(&format!("part-{}-of-{}.{ending}", part.number, part.of))
    }

    /// The note that says that a part is finished.
    pub(super) fn note_of(&self, part: Part) -> PathBuf {
        self.file(part, if self.objects.is_some() { "shards" } else { "json" })
    }

    /// What was noted when the part was finished; `None` if it is not.
    pub(super) fn state(&self, part: Part) -> Result<Option<Done>> {
        let what = if self.objects.is_some() { NOTE } else { "the end of a part" };
        let path = self.note_of(part);
        let Some(text) = self.read_note(&path)? else { return Ok(None) };
        let noted = self.parse(&text, &path, what)?;
        let done = match self.objects {
            Some(_) => noted.finished,
            None => Some(noted.state),
        };
        done.map(|done| part_notes::typed(done, &path, what)).transpose()
    }

    /// Notes how far a part is, which this process has [taken](Self::lock).
    ///
    /// # Errors
    ///
    /// [`Locked`](ErrorKind::Locked) if another run of the part has taken it.
    pub(super) fn note(&self, part: Part, state: &impl Serialize) -> Result<()> {
        let state = serde_json::to_value(state).unwrap_or_default();
        let path = self.file(part, "shards");
        match &self.objects {
            Some(objects) => {
                let replaced = objects.replace(&path, &self.fenced(state, None))?;
                replaced.map_err(|Lost| self.lost(part))
            }
            None => self.write(&path, &self.rendered(state)),
        }
    }

    /// How far a part is, if that was noted.
    pub(super) fn noted<T: DeserializeOwned>(&self, part: Part) -> Result<Option<T>> {
        let path = self.file(part, "shards");
        let Some(text) = self.read_note(&path)? else { return Ok(None) };
        let state = self.parse(&text, &path, NOTE)?.state;
        // Taken, and nothing noted yet.
        if state.is_null() {
            return Ok(None);
        }
        part_notes::typed(state, &path, NOTE).map(Some)
    }

    fn parse(&self, text: &[u8], path: &Path, what: &str) -> Result<Finished> {
        let noted: Finished = part_notes::parse(text, path, what)?;
        match noted.plan == self.digest {
            true => Ok(noted),
            false => Err(Error::new(ErrorKind::Invalid, "a part of another plan").at(path)),
        }
    }

    fn rendered(&self, state: Json) -> String {
        let noted = Finished { plan: self.digest.clone(), state, run: None, finished: None };
        note::sealed(&render(&noted))
    }

    fn fenced(&self, state: Json, finished: Option<Json>) -> String {
        let run = Some(format!("{:016x}", random()));
        note::sealed(&render(&Finished { plan: self.digest.clone(), state, run, finished }))
    }

    /// Keeps other processes from writing this part at the same time: on a disk those that come later,
    /// in an object store those that came before, which may be dead.
    ///
    /// # Errors
    ///
    /// [`Locked`](ErrorKind::Locked) if another process writes it.
    pub(super) fn lock(&self, part: Part) -> Result<Option<Lock>> {
        let Some(objects) = &self.objects else {
            let message = format!("another process makes part {part}");
            let lock = self.lock_file(&self.file(part, "lock"), &message)?;
            // Another process may have removed these before they were locked, to begin its own.
            return match Parts::read(self.dir.clone(), None) {
                Ok(now) if now.digest == self.digest => Ok(Some(lock)),
                _ => Err(Error::new(ErrorKind::Locked, message).at(&self.dir)),
            };
        };
        let path = self.file(part, "shards");
        let taken = objects.take(&path, |before| {
            let before = before.map(|text| self.parse(&text, &path, NOTE)).transpose()?;
            Ok(match before {
                Some(before) => self.fenced(before.state, before.finished),
                None => self.fenced(Json::Null, None),
            })
        })?;
        taken.map(|()| None).map_err(|Lost| self.lost(part))
    }

    /// Fails for a part that was taken after all parts were joined or given up: the process that did that
    /// may not have seen it.
    pub(super) fn check_current(&self, part: Part) -> Result<()> {
        let Some(objects) = &self.objects else { return Ok(()) };
        if self.fate()? == Fate::Open {
            return Ok(());
        }
        objects.remove(&[self.file(part, "shards")])?;
        Err(self.lost(part))
    }

    /// What has happened to them since they were opened, which locks keep from happening on a disk.
    pub(super) fn fate(&self) -> Result<Fate> {
        let Some(objects) = &self.objects else { return Ok(Fate::Open) };
        // Of the two, a removal takes this one last.
        let end = self.end()?;
        Ok(match (end, self.is_there(objects)?) {
            (Some(End::GivenUp), _) => Fate::GivenUp,
            (None, true) => Fate::Open,
            _ => Fate::Removed,
        })
    }

    /// Whether the plan is there, and that of this conversion.
    fn is_there(&self, objects: &PartObjects) -> Result<bool> {
        let Some(text) = objects.read(&self.dir_file("plan.json"))? else { return Ok(false) };
        let plan = serde_json::from_slice::<Json>(&text);
        Ok(plan.is_ok_and(|mut plan| id_of(&mut plan) == self.id))
    }

    /// Fails if another run has taken a part since this one did.
    pub(super) fn check_held(&self, part: Part) -> Result<()> {
        match &self.objects {
            Some(objects) if !objects.holds(&self.file(part, "shards"))? => Err(self.lost(part)),
            _ => Ok(()),
        }
    }

    /// The error of a commit whose shards a repair has removed.
    pub(super) fn given_up(&self) -> Error {
        let message = "a repair has removed this conversion, so nothing was published";
        Error::new(ErrorKind::Interrupted, message).at(&self.dir)
    }

    fn lost(&self, part: Part) -> Error {
        let message = match part.of {
            1 => "another process has continued or repaired this conversion, so this one stopped"
                .into(),
            _ => format!(
                "another process has run or repaired part {part} meanwhile, so this one stopped"
            ),
        };
        Error::new(ErrorKind::Locked, message).at(&self.dir)
    }

    /// Whether a process has begun this part.
    pub(super) fn is_begun(&self, part: Part) -> Result<bool> {
        match &self.objects {
            Some(objects) => Ok(objects.read(&self.file(part, "shards"))?.is_some()),
            None => Ok(self.file(part, "lock").exists()),
        }
    }

    /// Keeps other processes from joining the parts at the same time. In an object store the manifest
    /// is put where it is expected, so there is nothing to keep them from.
    ///
    /// # Errors
    ///
    /// [`Locked`](ErrorKind::Locked) if another process does.
    pub(super) fn lock_all(&self) -> Result<Option<Lock>> {
        match self.objects {
            Some(_) => Ok(None),
            None => self
                .lock_file(&self.dir.join("lock"), "another process joins these parts")
                .map(Some),
        }
    }

    fn lock_file(&self, path: &Path, message: &str) -> Result<Lock> {
        // One that has it for a moment may only find that it came too late.
        for wait in [0, 5, 10, 20, 40] {
            thread::sleep(Duration::from_millis(wait));
            match LocalStorage::mapped().lock(path) {
                Ok(Some(lock)) => return Ok(lock),
                Ok(None) => {}
                // The directory is gone: another process was quicker.
                Err(error) if error.kind() == ErrorKind::NotFound => break,
                Err(error) => return Err(error),
            }
        }
        Err(Error::new(ErrorKind::Locked, message).at(&self.dir))
    }

    /// Notes that a part is finished.
    pub(super) fn finish(&self, part: Part, done: &Done) -> Result<()> {
        let state = serde_json::to_value(done).unwrap_or_default();
        let Some(objects) = &self.objects else {
            return self.write(&self.file(part, "json"), &self.rendered(state));
        };
        let path = self.file(part, "shards");
        let Some(text) = objects.read(&path)? else { return Err(self.lost(part)) };
        let noted = self.parse(&text, &path, NOTE)?;
        let replaced = objects.replace(&path, &self.fenced(noted.state, Some(state)))?;
        replaced.map_err(|Lost| self.lost(part))
    }

    /// Notes that these files or folders are about to be made: from here on they may be there. What
    /// is there now may be replaced, and nothing that comes there later.
    pub(super) fn begin_commit(&self, targets: &[PathBuf]) -> Result<()> {
        let before = targets.iter().map(|path| Ok((name_of(path), Seen::at(path)?)));
        let before = before.collect::<Result<_>>()?;
        let plan = Some(self.digest.clone());
        self.note_commit(&Commit { plan, before, ..Commit::default() })
    }

    /// Notes in which files datasets are being written, each with the name that it will have.
    pub(super) fn are_begun<'a>(
        &self,
        datasets: impl IntoIterator<Item = (PathBuf, &'a PathBuf)>,
    ) -> Result<()> {
        let mut commit = self.read_commit()?;
        for (staged, target) in datasets {
            if let Some(seen) = Seen::at(&staged)?.filter(|seen| seen.id != (0, 0)) {
                commit.begun.entry(name_of(target)).or_default().push(seen.id);
            }
        }
        self.note_commit(&commit)
    }

    /// Notes that what is now at `staged` is about to be renamed to `target`, so that it is known
    /// there.
    pub(super) fn will_publish(&self, staged: &Path, target: &Path) -> Result<()> {
        let mut commit = self.read_commit()?;
        // Published by an earlier run, which had others left to do: it may be replaced.
        let now = Seen::at(target)?;
        if now.is_some() && self.place(target)? == Place::Made {
            commit.before.insert(name_of(target), now);
        }
        if let Some(seen) = Seen::at(staged)? {
            commit.made.insert(name_of(target), seen);
        }
        self.note_commit(&commit)
    }

    /// What is in the place of a file or folder that is made of the parts.
    pub(super) fn place(&self, target: &Path) -> Result<Place> {
        let Some(seen) = Seen::at(target)? else { return Ok(Place::Free) };
        let commit = self.read_commit()?;
        let name = name_of(target);
        Ok(match (commit.made.get(&name), commit.before.get(&name)) {
            (Some(made), _) if seen.is(made) => Place::Made,
            (_, Some(Some(before))) if seen.is(before) => Place::Before,
            _ if commit.begun.get(&name).is_some_and(|begun| begun.contains(&seen.id)) => {
                Place::Begun
            }
            _ => Place::Foreign,
        })
    }

    /// The names of all that was [about to be published](Self::will_publish).
    pub(super) fn made(&self) -> Result<Vec<String>> {
        Ok(self.read_commit()?.made.into_keys().collect())
    }

    fn note_commit(&self, commit: &Commit) -> Result<()> {
        self.write(&self.dir.join("commit"), &note::sealed(&render(commit)))
    }

    fn read_commit(&self) -> Result<Commit> {
        let path = self.dir.join("commit");
        let text = part_notes::read(&path)?.unwrap_or_default();
        // Earlier versions said nothing in it, so nothing is known.
        if text.is_empty() {
            return Ok(Commit::default());
        }
        let commit: Commit = part_notes::parse(&text, &path, "the note of a commit")?;
        match &commit.plan {
            Some(plan) if *plan != self.digest => {
                Err(Error::new(ErrorKind::Invalid, "the commit of another plan").at(&path))
            }
            _ => Ok(commit),
        }
    }

    /// Whether it was begun before.
    pub(super) fn commit_begun(&self) -> bool {
        self.dir.join("commit").exists()
    }

    /// Notes that the dataset is there.
    pub(super) fn published(&self) -> Result<()> {
        let of = if self.objects.is_some() { &self.id } else { &self.digest };
        self.write(&self.dir_file("published"), of)
    }

    /// Whether the dataset is there.
    ///
    /// # Errors
    ///
    /// [`Interrupted`](ErrorKind::Interrupted) if the conversion was given up.
    pub(super) fn is_published(&self) -> Result<bool> {
        match self.end()? {
            Some(End::GivenUp) => {
                let message = "this conversion was given up, and is not removed yet";
                let error = Error::new(ErrorKind::Interrupted, message).at(&self.dir);
                Err(error.advise("\"repair\" removes what it has left"))
            }
            end => Ok(end.is_some()),
        }
    }

    /// Whether it came to its end.
    fn end(&self) -> Result<Option<End>> {
        let path = self.dir_file("published");
        match &self.objects {
            Some(objects) => {
                let Some(text) = objects.read(&path)? else { return Ok(None) };
                let (end, id) = match text.strip_suffix(GIVEN_UP) {
                    Some(id) => (End::GivenUp, id),
                    None => (End::Published, &text[..]),
                };
                // One of an earlier conversion, written late, says nothing.
                Ok(Some(end).filter(|_| self.id.is_empty() || id == self.id.as_bytes()))
            }
            None => self.published_file(&path),
        }
    }

    /// What the file says by which all the rest can be removed. That of an earlier version is empty, and
    /// where the plan is gone it has been believed before.
    fn published_file(&self, path: &Path) -> Result<Option<End>> {
        let Some(text) = part_notes::read(path)? else { return Ok(None) };
        if text.is_empty() || self.plan.is_null() || text == self.digest.as_bytes() {
            return Ok(Some(End::Published));
        }
        let found = "it is of another plan, or was cut short".to_owned();
        Err(part_notes::damaged(path, "the end of these parts", found))
    }

    /// Keeps all who have not begun a part from beginning one, where no lock does.
    pub(super) fn give_up(&self) -> Result<()> {
        match &self.objects {
            Some(objects) => {
                let (path, text) =
                    (self.dir_file("published"), [self.id.as_bytes(), GIVEN_UP].concat());
                // One that is published is only to be tidied up.
                if objects.create(&path, &text)? || self.end()?.is_some() {
                    return Ok(());
                }
                // There is that of an earlier conversion.
                objects.write(&path, &text)
            }
            None => Ok(()),
        }
    }

    /// Removes everything. If it is interrupted, it can be repeated.
    ///
    /// # Errors
    ///
    /// [`Invalid`](ErrorKind::Invalid) if there is a file that is not ours; then nothing is removed.
    pub(super) fn remove(self) -> Result<()> {
        if let Some(objects) = &self.objects {
            if !self.id.is_empty() && !self.is_there(objects)? {
                // Another process has removed it, and what is there now may be of the next conversion.
                return self.remove_end(objects);
            }
            let note = |part: Part| self.file(part, "shards");
            let notes: Vec<PathBuf> = self.all()?.into_iter().map(note).collect();
            objects.remove(&notes)?;
            // By the plan the others are found.
            objects.remove(&[self.dir_file("plan.json")])?;
            return self.remove_end(objects);
        }
        // Another process that came in between may have made a new lock.
        for _ in 0..5 {
            if self.remove_files()? {
                return Ok(());
            }
        }
        let error = io::ErrorKind::DirectoryNotEmpty.into();
        Err(Error::io(&self.dir, error))
    }

    /// Removes a directory with nothing but locks in it, which a removal leaves that lost power at its last
    /// step. One in which a process writes a plan, or that has a lock which is held, stays.
    pub(super) fn remove_empty(dataset: &Path) -> Result<()> {
        let dir = dir_of(dataset);
        if storage::is_url(dataset) || !check_dir(&dir)? {
            return Ok(());
        }
        let at = |error| Error::io(&dir, error);
        let mut locks = Vec::new();
        for entry in fs::read_dir(&dir).map_err(at)? {
            let path = entry.map_err(at)?.path();
            if !is_lock(&path) {
                return Ok(());
            }
            match LocalStorage::mapped().lock(&path) {
                Ok(Some(lock)) => locks.push((path, lock)),
                Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
                _ => return Ok(()),
            }
        }
        // While they are held: who has one open finds that it guards nothing any more.
        for (path, _) in &locks {
            removed(fs::remove_file(path), path)?;
        }
        match fs::remove_dir(&dir) {
            // A process has begun parts meanwhile.
            Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => Ok(()),
            done => removed(done, &dir),
        }
    }

    /// Removes the files of the directory, and then the directory. Says whether it was empty.
    fn remove_files(&self) -> Result<bool> {
        let at = |error| Error::io(&self.dir, error);
        check_dir(&self.dir)?;
        let entries = fs::read_dir(&self.dir).map_err(at)?;
        let paths = entries.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>();
        let paths = paths.map_err(at)?;
        if let Some(other) = paths.iter().find(|path| !is_ours(path)) {
            let message = "expected only files of parts here, found something else; move it away";
            return Err(Error::new(ErrorKind::Invalid, message).at(other));
        }
        // The locks hold as long as there is something that they guard.
        let others = paths.iter().filter(|path| !is_lock(path) && !path.ends_with("published"));
        for path in others.chain(paths.iter().filter(|path| is_lock(path))) {
            // Of a link it is the link that goes.
            let done = match path.symlink_metadata() {
                Ok(found) if found.is_dir() => fs::remove_dir_all(path),
                _ => fs::remove_file(path),
            };
            removed(done, path)?;
        }
        // After a power failure the rest must not be there without it: by it a commit removes the rest.
        sync_dir(&self.dir)?;
        let published = self.dir.join("published");
        removed(fs::remove_file(&published), &published)?;
        match fs::remove_dir(&self.dir) {
            Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => Ok(false),
            done => removed(done, &self.dir).map(|()| true),
        }
    }

    /// Removes what says that it came to its end, if that is of this conversion.
    fn remove_end(&self, objects: &PartObjects) -> Result<()> {
        match self.end()? {
            Some(_) => objects.remove(&[self.dir_file("published")]),
            None => Ok(()),
        }
    }

    fn write(&self, path: &Path, text: &str) -> Result<()> {
        if let Some(objects) = &self.objects {
            return objects.write(path, text.as_bytes());
        }
        let unfinished = unfinished(path);
        let written = write_synced(&unfinished, text.as_bytes());
        written.and_then(|()| fs::rename(&unfinished, path)).map_err(|e| {
            // The first error is the one to report.
            let _ = fs::remove_file(&unfinished);
            Error::io(path, e)
        })?;
        sync_dir(&self.dir)
    }
}

/// Whether nothing but what a process leaves that was killed before it had written a plan is in a directory
/// of parts.
fn is_unbegun(dir: &Path) -> Result<bool> {
    let at = |error| Error::io(dir, error);
    for entry in fs::read_dir(dir).map_err(at)? {
        let path = entry.map_err(at)?.path();
        let name = name_of(&path);
        let is_new = name.starts_with("plan.") && name.ends_with(".new");
        if !is_new && !is_lock(&path) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Whether a file in a directory of parts is a lock.
fn is_lock(path: &Path) -> bool {
    let name = name_of(path);
    name == "lock" || (name.starts_with("part-") && name.ends_with(".lock"))
}

/// The same as an error of ours, unless it was gone.
fn removed(removed: io::Result<()>, path: &Path) -> Result<()> {
    match removed {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Error::io(path, error)),
        _ => Ok(()),
    }
}

/// The error where there are parts, but not what says of which conversion.
fn without_plan(dir: &Path) -> Error {
    let message = "expected plan.json, the plan of the parts in this folder, found none";
    Error::new(ErrorKind::Interrupted, message).at(dir).advise(
        "any of the parts, run once more by the same command, writes it again: parts that are finished stay",
    )
}

/// The number of the conversion in `plan.json` in an object store, which is no part of the plan.
const ID: &str = "conversion_id";

/// Takes the number out of a plan; empty if there is none.
fn id_of(plan: &mut Json) -> String {
    let id = plan.as_object_mut().and_then(|plan| plan.remove(ID));
    id.as_ref().and_then(Json::as_str).unwrap_or_default().to_owned()
}

/// What `part-I-of-N.shards` is.
const NOTE: &str = "a note about a part";

/// The state of parts that another process may have ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    /// Nothing has happened to them.
    Open,
    /// A repair is removing them, and what they have made.
    GivenUp,
    /// They were joined or removed.
    Removed,
}

/// How a conversion in parts ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Published,
    GivenUp,
}

/// What `published` says of a conversion that was given up.
const GIVEN_UP: &[u8] = b"given up";

/// What is in the place of something that is made of parts, since that was begun.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// Nothing.
    Free,
    /// What was there when it was begun.
    Before,
    /// What was made of the parts.
    Made,
    /// What a repair published of a commit that was cut short, and others may have changed since.
    Begun,
    /// Something else.
    Foreign,
}

fn name_of(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// Whether this is the name of something in a directory of parts.
fn is_ours(path: &Path) -> bool {
    let name = name_of(path);
    let number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let part = |rest: &str| {
        let (numbers, _) = rest.split_once('.')?;
        let (part, of) = numbers.split_once("-of-")?;
        (number(part) && number(of)).then_some(())
    };
    let joined = |rest: &str| rest.split_once('.').filter(|(at, _)| number(at)).map(drop);
    let note = name.strip_suffix(".new").and_then(|name| name.split_once('.'));
    matches!(&name[..], "plan.json" | "lock" | "commit" | "published")
        || note.is_some_and(|(of, _)| matches!(of, "plan" | "commit" | "published"))
        || name.strip_prefix("part-").and_then(part).is_some()
        || name.strip_prefix("joined-").and_then(joined).is_some()
}

/// Whether there is a directory of parts: fails if there is something else in its place, such as a
/// link to where others have their files.
fn check_dir(dir: &Path) -> Result<bool> {
    match dir.symlink_metadata() {
        Ok(found) if found.is_dir() => storage::expect_ours(dir),
        Ok(found) => {
            let found = regular::name_of(found.file_type());
            let message = format!("expected a folder of parts, found {found}");
            Err(Error::new(ErrorKind::Invalid, message).at(dir))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(Error::io(dir, error)),
    }
}

/// A file of a directory, or an object whose name begins like that.
fn file_in(dir: &Path, name: &str) -> PathBuf {
    match storage::is_url(dir) {
        true => PathBuf::from(format!("{}/{name}", dir.display())),
        false => dir.join(name),
    }
}

fn dir_of(dataset: &Path) -> PathBuf {
    let mut name = dataset.as_os_str().to_os_string();
    name.push(".parts");
    PathBuf::from(name)
}

/// The name of a file that no other process takes, not even on another machine.
fn unfinished(path: &Path) -> PathBuf {
    path.with_extension(format!("{:016x}.new", random()))
}

fn render(value: &impl Serialize) -> String {
    // Maps with string keys, and finite floats: JSON has all of it.
    let text = serde_json::to_string_pretty(value).unwrap_or_default();
    format!("{text}\n")
}

fn digest_of(plan: &Json) -> String {
    hex(&Sha256::digest(render(plan)))
}

/// Writes the plan, unless there is one. If several processes begin at the same time, the first one wins.
fn put_plan(dir: &Path, text: &str) -> Result<()> {
    let path = dir.join("plan.json");
    if path.exists() {
        return Ok(());
    }
    let unfinished = unfinished(&path);
    let written = write_synced(&unfinished, text.as_bytes());
    let put = written.and_then(|()| match fs::hard_link(&unfinished, &path) {
        // A file system without links.
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            fs::rename(&unfinished, &path)
        }
        _ => fs::remove_file(&unfinished),
    });
    put.map_err(|error| {
        // The first error is the one to report.
        let _ = fs::remove_file(&unfinished);
        Error::io(&path, error)
    })?;
    sync_dir(dir)
}

fn write_synced(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = File::create_new(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

fn sync_dir(dir: &Path) -> Result<()> {
    LocalStorage::mapped().sync_dir(dir)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::convert::Emit;

    struct Sizes(Vec<Option<u64>>);

    impl Input for Sizes {
        fn units(&self) -> usize {
            self.0.len()
        }

        fn read(&self, _unit: usize, _emit: &mut Emit<'_>) -> Result<()> {
            Ok(())
        }

        fn bytes(&self, unit: usize) -> Option<u64> {
            self.0[unit]
        }
    }

    fn ranges(sizes: &[Option<u64>], of: usize) -> Vec<Range<usize>> {
        let input = Sizes(sizes.to_vec());
        Part::all(of).map(|part| part.units(&input)).collect()
    }

    #[test]
    fn every_unit_is_in_one_part_and_in_order() {
        for units in 0..40 {
            for of in 1..45 {
                for sizes in [
                    vec![None; units],
                    vec![Some(0); units],
                    (0..units as u64).map(|unit| Some(unit * unit % 17 * 1000)).collect(),
                ] {
                    let mut next = 0;
                    for range in ranges(&sizes, of) {
                        assert!(range.is_empty() || range.start == next, "{units} {of}");
                        next = next.max(range.end);
                    }
                    assert_eq!(next, units);
                }
            }
        }
    }

    #[test]
    fn parts_are_balanced_by_bytes() {
        assert_eq!(ranges(&[None; 6], 3), [0..2, 2..4, 4..6]);
        let mut sizes = vec![Some(1_000_000)];
        sizes.extend([Some(1000); 1000]);
        assert_eq!(ranges(&sizes, 2), [0..1, 1..1001]);
        let even: Vec<usize> =
            ranges(&[Some(500); 10_000], 7).iter().map(ExactSizeIterator::len).collect();
        assert!(even.iter().all(|len| (1428..=1429).contains(len)), "{even:?}");
    }

    #[test]
    fn parts_are_counted_from_one() {
        assert_eq!("3/7".parse::<Part>().unwrap(), Part { number: 3, of: 7 });
        for wrong in ["0/7", "8/7", "7", "a/b", "-1/7", "1/0", "/", "1/9999999999999999999999"] {
            assert!(wrong.parse::<Part>().is_err(), "{wrong}");
        }
        let error = "0/7".parse::<Part>().unwrap_err();
        assert_eq!(error.to_string(), "part 0/7, expected one from 1/7 to 7/7");
    }

    #[test]
    fn parts_of_another_plan_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let dataset = dir.path().join("x.msgpack");
        assert!(Parts::open(&dataset).unwrap().is_none());
        let plan = serde_json::json!({"a": 1});
        let parts = Parts::create(&dataset, &plan).unwrap();
        let again = Parts::create(&dataset, &plan).unwrap();
        assert!(again.state(Part::whole()).unwrap().is_none());
        parts.finish(Part::whole(), &Done { samples: 7, ..Done::default() }).unwrap();
        assert_eq!(again.state(Part::whole()).unwrap().unwrap().samples, 7);
        let other = serde_json::json!({"a": 2});
        assert_eq!(Parts::create(&dataset, &other).unwrap_err().kind(), ErrorKind::Invalid);
        fs::write(parts.dir().join("plan.json"), "{\"a\":2}").unwrap();
        let changed = Parts::open(&dataset).unwrap().unwrap();
        assert_eq!(changed.state(Part::whole()).unwrap_err().kind(), ErrorKind::Invalid);
        changed.remove().unwrap();
        assert!(!dataset.with_extension("msgpack.parts").exists());
    }

    #[test]
    fn what_is_in_the_place_of_the_result_is_known_again() {
        let dir = tempfile::tempdir().unwrap();
        let dataset = dir.path().join("x.msgpack");
        let parts = Parts::create(&dataset, &Json::Null).unwrap();
        let target = std::slice::from_ref(&dataset);
        fs::write(&dataset, "old").unwrap();
        parts.begin_commit(target).unwrap();
        assert_eq!(parts.place(&dataset).unwrap(), Place::Before);
        let staged = dir.path().join("staged");
        fs::write(&staged, "new").unwrap();
        parts.will_publish(&staged, &dataset).unwrap();
        assert_eq!(parts.place(&dataset).unwrap(), Place::Before);
        fs::rename(&staged, &dataset).unwrap();
        assert_eq!(parts.place(&dataset).unwrap(), Place::Made);
        assert_eq!(parts.made().unwrap(), ["x.msgpack"]);
        fs::remove_file(&dataset).unwrap();
        assert_eq!(parts.place(&dataset).unwrap(), Place::Free);
        fs::write(&dataset, "other").unwrap();
        assert_eq!(parts.place(&dataset).unwrap(), Place::Foreign);
    }

    #[test]
    fn only_what_is_of_parts_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        let dataset = dir.path().join("x.msgpack");
        let open = || Parts::open(&dataset).unwrap().unwrap();
        let parts = Parts::create(&dataset, &Json::Null).unwrap();
        for name in ["part-1-of-2.msgpack", "joined-0.msgpack.keys", "plan.00ff.new", "lock"] {
            fs::write(parts.dir().join(name), "").unwrap();
        }
        fs::create_dir(parts.dir().join("part-2-of-2.msgpack.partial")).unwrap();
        let mine = parts.dir().join("part-of-my-life.txt");
        fs::write(&mine, "precious").unwrap();
        assert_eq!(parts.remove().unwrap_err().path(), Some(&*mine));
        assert_eq!(fs::read(&mine).unwrap(), b"precious");
        fs::remove_file(&mine).unwrap();
        #[cfg(unix)]
        {
            // A link with one of our names goes, and not what it leads to.
            let other = dir.path().join("other");
            fs::create_dir(&other).unwrap();
            fs::write(other.join("file"), "").unwrap();
            let link = open().file(Part::whole(), "msgpack.partial");
            std::os::unix::fs::symlink(&other, link).unwrap();
            open().remove().unwrap();
            assert!(other.join("file").exists());
            std::os::unix::fs::symlink(&other, dir_of(&dataset)).unwrap();
            let error = Parts::open(&dataset).unwrap_err();
            assert!(error.to_string().ends_with("found a symbolic link"), "{error}");
            assert!(Parts::create(&dataset, &Json::Null).is_err());
        }
    }
}
