//! [`Journal`]: what the runs of one conversion, on one machine or many, know of each other.
//!
//! All of it is in the folder `NAME.parts` next to the output `NAME`, or behind its URL in objects of such
//! names:
//!
//! | file | content |
//! | --- | --- |
//! | `plan.json` | the plan, the number of parts and a number of the conversion, written by the first of them |
//! | `part-I-of-N.json` | how far a part is, and what it has made once it is finished |
//! | `part-I-of-N.msgpack` … | the samples of a part, a dataset like any other, without digests; shards are next to their manifest instead |
//! | `part-I-of-N.lock` | on a disk: locked by the process that writes the part |
//! | `part-(N+1)-of-N.json` and `.lock` | the same of shards that are rewritten when the parts are joined |
//! | `lock` | on a disk: locked by the process that joins the parts |
//! | `commit` | the parts are being joined, and the output may be there already: what was in its place before, and what is put there |
//! | `published` | the output is there: the rest can be removed; or the conversion was given up, and a repair is removing it |
//!
//! The digest of the plan identifies a part, so a part of another plan or of other sources is never
//! used by mistake.
//!
//! The note of a part is a [fence](super::notes): of two runs the later one has the part. Where there are
//! locks, the earlier one keeps it while it lives. A store has none, and cannot be listed: what is to be
//! removed is found by the plan.

use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value as Json;
use sha2::{Digest as _, Sha256};

use super::notes::{Lost, Notes, gone};
use super::part::{MAX_PARTS, Part};
use super::part_note::{Done, PartNote, damaged, parse, render, typed};
use crate::error::{Error, ErrorKind, Result};
use crate::format::hex;
use crate::note;
use crate::storage::{self, LocalStorage, Lock, Storage, random};

/// As it is in a plan.
const MAX_COUNT: u64 = MAX_PARTS as u64;
/// The member of `plan.json` that says which form the other notes have, and the number of the conversion;
/// neither is part of the plan.
const FORM: &str = "journal";
const ID: &str = "conversion_id";
/// The form that this code writes. Earlier versions wrote no number, and the notes of parts to files ending
/// in `.shards` and `.json`.
const VERSION: u64 = 2;
/// The word in `published` for a conversion that was given up, after its number.
const GIVEN_UP: &str = "given up";
/// The name of `part-I-of-N.json` in errors.
const NOTE: &str = "a note about a part";

/// The plan and parts of a conversion.
#[derive(Debug)]
pub(in crate::convert) struct Journal {
    dir: PathBuf,
    notes: Notes,
    plan: Json,
    digest: String,
    /// A random number of the conversion, which its end note begins with: the next conversion has another one.
    /// Empty without a plan, and for a plan of an earlier version on a disk.
    id: String,
    /// Whether an earlier version began it.
    is_older: bool,
    /// Whether this call of [`create`](Self::create) began it.
    is_new: bool,
}

/// The state of parts that another process may have ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::convert) enum Fate {
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

impl Journal {
    /// Begins parts of this plan, or opens those that others have begun.
    ///
    /// # Errors
    ///
    /// [`Invalid`](ErrorKind::Invalid) if there are parts of another plan. [`open`](Self::open)
    /// tells which.
    pub(in crate::convert) fn create(output: &Path, plan: &Json) -> Result<Journal> {
        let (notes, path) = Notes::of(output)?;
        let dir = dir_of(&path);
        let mut named = plan.clone();
        named[ID] = format!("{:016x}", random()).into();
        named[FORM] = VERSION.into();
        let (path, text) = (file_in(&dir, "plan.json"), note::sealed(&render(&named)));
        let is_new = match notes.are_objects() {
            true => notes.create(&path, &text)?,
            false => {
                check_dir(&dir)?;
                storage::make_ours(&dir, false)?;
                match notes.create(&path, &text) {
                    // A commit has removed the folder, which was still empty.
                    Err(error) if error.kind() == ErrorKind::NotFound => {
                        storage::make_ours(&dir, false)?;
                        notes.create(&path, &text)?
                    }
                    created => created?,
                }
            }
        };
        if is_new && !notes.are_objects() {
            // Else a power failure could take the folder away, with parts that are finished.
            notes.storage().sync_dir(dir.parent().unwrap_or(Path::new("")))?;
        }
        let journal = Journal { is_new, ..Journal::read(dir, notes)? };
        match journal.plan == *plan {
            true => Ok(journal),
            false => {
                let message = "there are parts of another plan";
                Err(Error::new(ErrorKind::Invalid, message).at(&journal.dir))
            }
        }
    }

    /// Opens the parts that are there, if there are any.
    pub(in crate::convert) fn open(output: &Path) -> Result<Option<Journal>> {
        let (notes, path) = Notes::of(output)?;
        let dir = dir_of(&path);
        if !notes.are_objects() {
            let is_begun = |notes: &Notes| {
                let plan = notes.storage().lstat(&dir.join("plan.json"))?;
                Ok::<_, Error>(plan.is_some() || !is_unbegun(notes, &dir)?)
            };
            return match check_dir(&dir)? && is_begun(&notes)? {
                true => Journal::read(dir, notes).map(Some),
                // At most the place of a plan.
                false => Ok(None),
            };
        }
        match Journal::read(dir, notes) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            read => read.map(Some),
        }
    }

    fn read(dir: PathBuf, notes: Notes) -> Result<Journal> {
        let (digest, id) = (String::new(), String::new());
        let (is_older, is_new) = (false, false);
        let mut journal = Journal { dir, notes, plan: Json::Null, digest, id, is_older, is_new };
        let path = journal.dir_file("plan.json");
        let text = match journal.notes.read(&path) {
            Ok(Some(text)) => text,
            // An earlier removal was interrupted.
            Err(_) if !journal.are_objects() && journal.end()?.is_some() => b"null".to_vec(),
            Ok(None) if journal.end()?.is_some() => b"null".to_vec(),
            Ok(None) if journal.are_objects() => {
                return Err(Error::io(&path, std::io::ErrorKind::NotFound.into()));
            }
            Ok(None) => return Err(without_plan(&journal.dir)),
            Err(error) => return Err(error),
        };
        journal.plan = parse(&text, &path, "the plan of parts")?;
        journal.id = take(&mut journal.plan, ID).as_str().unwrap_or_default().to_owned();
        journal.is_older = match take(&mut journal.plan, FORM) {
            Json::Null => !journal.plan.is_null(),
            form if form == VERSION => false,
            form => {
                let message = format!("the notes have the form {form}, which is not known here");
                return Err(Error::new(ErrorKind::Unsupported, message)
                    .at(&path)
                    .advise("use the version that wrote them"));
            }
        };
        journal.digest = hex(&Sha256::digest(render(&journal.plan)));
        Ok(journal)
    }

    /// Whether the notes are objects.
    pub(in crate::convert) fn are_objects(&self) -> bool {
        self.notes.are_objects()
    }

    /// Whether [`create`](Self::create) has found none.
    pub(in crate::convert) fn is_new(&self) -> bool {
        self.is_new
    }

    pub(in crate::convert) fn notes(&self) -> &Notes {
        &self.notes
    }

    pub(in crate::convert) fn commit_note(&self) -> PathBuf {
        self.dir_file("commit")
    }

    fn dir_file(&self, name: &str) -> PathBuf {
        file_in(&self.dir, name)
    }

    /// The plan.
    pub(in crate::convert) fn plan(&self) -> &Json {
        &self.plan
    }

    /// All parts. None are left where only the end is to be tidied up.
    ///
    /// # Errors
    ///
    /// [`Damaged`](ErrorKind::Damaged) if the plan does not say how many there are.
    pub(in crate::convert) fn all(&self) -> Result<Vec<Part>> {
        let found = &self.plan["parts"];
        match found.as_u64() {
            Some(count @ 1..=MAX_COUNT) => Ok(Part::all(count as usize).collect()),
            None if self.plan.is_null() && self.end()?.is_some() => Ok(Vec::new()),
            _ => {
                let found =
                    format!("parts: expected a number from 1 to {MAX_COUNT}, found {found}");
                Err(damaged(&self.dir_file("plan.json"), "the plan of parts", found))
            }
        }
    }

    /// The same, and the one that is made when they are joined.
    pub(in crate::convert) fn all_and_joint(&self) -> Result<Vec<Part>> {
        let mut all = self.all()?;
        if let Some(last) = all.last() {
            all.push(Part::joint(last.of()));
        }
        Ok(all)
    }

    /// The digest of the plan.
    pub(in crate::convert) fn digest(&self) -> &str {
        &self.digest
    }

    /// The directory.
    pub(in crate::convert) fn dir(&self) -> &Path {
        &self.dir
    }

    /// The data file of a part.
    pub(in crate::convert) fn path(&self, part: Part) -> PathBuf {
        self.file(part, "msgpack")
    }

    /// A file of a part with another ending.
    pub(in crate::convert) fn file(&self, part: Part, ending: &str) -> PathBuf {
        // With how many there are, so that a part of another division is never taken for one of these.
        self.dir_file(&format!("part-{}-of-{}.{ending}", part.number(), part.of()))
    }

    /// The note of a part.
    pub(in crate::convert) fn note_of(&self, part: Part) -> PathBuf {
        self.file(part, "json")
    }

    fn part_note(&self, part: Part) -> Result<Option<PartNote>> {
        let path = self.note_of(part);
        let text = self.notes.read(&path)?;
        let noted = text.map(|text| self.parse(&text, &path)).transpose()?;
        self.with_older(part, noted)
    }

    /// The note, or what an earlier version noted instead: how far the part is in a file of its own, in an
    /// object store also its end, and on a disk the end in a note without a run. (To be deleted after one
    /// release.)
    fn with_older(&self, part: Part, noted: Option<PartNote>) -> Result<Option<PartNote>> {
        let is_older = noted.as_ref().map_or(self.is_older, |noted| noted.run.is_none());
        if !is_older {
            return Ok(noted);
        }
        let path = self.file(part, "shards");
        let text = self.notes.read(&path)?;
        let before = text.map(|text| self.parse(&text, &path)).transpose()?;
        let Some(PartNote { state: finished, .. }) = noted else { return Ok(before) };
        let state = before.map_or(Json::Null, |before| before.state);
        Ok(Some(PartNote::new(&self.digest, state, Some(finished))))
    }

    fn parse(&self, text: &[u8], path: &Path) -> Result<PartNote> {
        let noted: PartNote = parse(text, path, NOTE)?;
        match noted.plan == self.digest {
            true => Ok(noted),
            false => Err(Error::new(ErrorKind::Invalid, "a part of another plan").at(path)),
        }
    }

    /// The result of a part; `None` if it is not finished.
    pub(in crate::convert) fn done(&self, part: Part) -> Result<Option<Done>> {
        let done = self.part_note(part)?.and_then(|noted| noted.finished);
        done.map(|done| typed(done, &self.note_of(part), NOTE)).transpose()
    }

    /// How far a part is, if that was noted.
    pub(in crate::convert) fn progress<T: DeserializeOwned>(
        &self,
        part: Part,
    ) -> Result<Option<T>> {
        // Null: taken, and nothing noted yet.
        let state = self.part_note(part)?.map(|noted| noted.state).filter(|state| !state.is_null());
        state.map(|state| typed(state, &self.note_of(part), NOTE)).transpose()
    }

    /// Notes how far a part is, which this process has [taken](Self::take).
    ///
    /// # Errors
    ///
    /// [`Locked`](ErrorKind::Locked) if another run of the part has taken it.
    pub(in crate::convert) fn note(&self, part: Part, progress: &impl Serialize) -> Result<()> {
        self.replace(part, serde_json::to_value(progress).unwrap_or_default(), None)
    }

    /// Notes that a part is finished.
    ///
    /// # Errors
    ///
    /// Those of [`note`](Self::note).
    pub(in crate::convert) fn finish(&self, part: Part, done: &Done) -> Result<()> {
        let Some(noted) = self.part_note(part)? else { return Err(self.lost(part)) };
        self.replace(part, noted.state, Some(serde_json::to_value(done).unwrap_or_default()))
    }

    fn replace(&self, part: Part, state: Json, finished: Option<Json>) -> Result<()> {
        let note = PartNote::new(&self.digest, state, finished).render();
        self.notes.replace(&self.note_of(part), &note)?.map_err(|Lost| self.lost(part))
    }

    /// Keeps other processes from writing this part at the same time: on a disk those that come later,
    /// in an object store those that came before, which may be dead.
    ///
    /// # Errors
    ///
    /// [`Locked`](ErrorKind::Locked) if another process writes it.
    pub(in crate::convert) fn take(&self, part: Part) -> Result<Option<Lock>> {
        let lock = self.lock(part)?;
        let path = self.note_of(part);
        let taken = self.notes.take(&path, |text| {
            let noted = text.map(|text| self.parse(&text, &path)).transpose()?;
            let noted = self.with_older(part, noted)?;
            let (state, finished) =
                noted.map_or((Json::Null, None), |noted| (noted.state, noted.finished));
            Ok(PartNote::new(&self.digest, state, finished).render())
        })?;
        taken.map(|()| lock).map_err(|Lost| self.lost(part))
    }

    /// Where there are locks, keeps other processes from writing this part, and says nothing in its note.
    ///
    /// # Errors
    ///
    /// [`Locked`](ErrorKind::Locked) if another process writes it.
    pub(in crate::convert) fn lock(&self, part: Part) -> Result<Option<Lock>> {
        if self.are_objects() {
            return Ok(None);
        }
        let message = match part.is_joint() {
            true => "another process joins these parts".into(),
            false => format!("another process makes part {part}"),
        };
        let lock = self.lock_file(&self.file(part, "lock"), &message)?;
        // Another process may have removed these before they were locked, to begin its own.
        match self.is_there() {
            Ok(true) => Ok(Some(lock)),
            _ => Err(Error::new(ErrorKind::Locked, message).at(&self.dir)),
        }
    }

    /// Where there are locks, keeps other processes from joining the parts at the same time. In an object
    /// store the output is put where it is expected, so there is nothing to keep them from.
    ///
    /// # Errors
    ///
    /// [`Locked`](ErrorKind::Locked) if another process does.
    pub(in crate::convert) fn lock_all(&self) -> Result<Option<Lock>> {
        match self.are_objects() {
            true => Ok(None),
            false => self
                .lock_file(&self.dir.join("lock"), "another process joins these parts")
                .map(Some),
        }
    }

    fn lock_file(&self, path: &Path, message: &str) -> Result<Lock> {
        // One that has it for a moment may only find that it came too late.
        for wait in [0, 5, 10, 20, 40] {
            thread::sleep(Duration::from_millis(wait));
            match self.notes.storage().lock(path) {
                Ok(Some(lock)) => return Ok(lock),
                Ok(None) => {}
                // The directory is gone: another process was quicker.
                Err(error) if error.kind() == ErrorKind::NotFound => break,
                Err(error) => return Err(error),
            }
        }
        Err(Error::new(ErrorKind::Locked, message).at(&self.dir))
    }

    /// Fails for a part that was taken after all parts were joined or given up: the process that did that
    /// may not have seen it.
    pub(in crate::convert) fn check_current(&self, part: Part) -> Result<()> {
        if self.fate()? == Fate::Open {
            return Ok(());
        }
        self.notes.remove(&[self.note_of(part)])?;
        Err(self.lost(part))
    }

    /// Their state, which other processes may have changed since they were opened; on a disk, locks prevent that.
    pub(in crate::convert) fn fate(&self) -> Result<Fate> {
        if !self.are_objects() {
            return Ok(Fate::Open);
        }
        // Of the two, a removal takes this one last.
        let end = self.end()?;
        Ok(match (end, self.is_there()?) {
            (Some(End::GivenUp), _) => Fate::GivenUp,
            (None, true) => Fate::Open,
            _ => Fate::Removed,
        })
    }

    /// Whether there still is a plan, the one of this conversion.
    fn is_there(&self) -> Result<bool> {
        let path = self.dir_file("plan.json");
        let Some(text) = self.notes.read(&path)? else { return Ok(false) };
        let mut plan: Json = parse(&text, &path, "the plan of parts")?;
        let id = take(&mut plan, ID);
        take(&mut plan, FORM);
        Ok(id.as_str().unwrap_or_default() == self.id && plan == self.plan)
    }

    /// Fails if another run has taken a part since this one did.
    pub(in crate::convert) fn check_held(&self, part: Part) -> Result<()> {
        match self.are_objects() && !self.notes.holds(&self.note_of(part))? {
            true => Err(self.lost(part)),
            false => Ok(()),
        }
    }

    /// Why a run of a part failed: if another run has taken the part, that is the cause of any error.
    pub(in crate::convert) fn cause(&self, part: Part, error: Error) -> Error {
        match self.check_held(part) {
            Err(lost) if lost.kind() == ErrorKind::Locked => lost,
            _ => error,
        }
    }

    /// The error of a commit whose shards a repair has removed.
    pub(in crate::convert) fn given_up(&self) -> Error {
        let message = "a repair has removed this conversion, so nothing was published";
        Error::new(ErrorKind::Interrupted, message).at(&self.dir)
    }

    fn lost(&self, part: Part) -> Error {
        let message = match part.of() {
            _ if part.is_joint() => {
                "another process joins or repairs these parts, so this one stopped".into()
            }
            1 => "another process has continued or repaired this conversion, so this one stopped"
                .into(),
            _ => format!(
                "another process has run or repaired part {part} meanwhile, so this one stopped"
            ),
        };
        Error::new(ErrorKind::Locked, message).at(&self.dir)
    }

    /// Whether a process has begun this part.
    pub(in crate::convert) fn is_begun(&self, part: Part) -> Result<bool> {
        let is_locked =
            || Ok::<_, Error>(self.notes.storage().stat(&self.file(part, "lock"))?.is_some());
        Ok(self.part_note(part)?.is_some() || (!self.are_objects() && is_locked()?))
    }

    /// Notes that the output is there.
    pub(in crate::convert) fn published(&self) -> Result<()> {
        self.notes.write(&self.dir_file("published"), self.sign())
    }

    /// The beginning of a note of the end.
    fn sign(&self) -> &str {
        if self.id.is_empty() { &self.digest } else { &self.id }
    }

    /// Whether the output is there.
    ///
    /// # Errors
    ///
    /// [`Interrupted`](ErrorKind::Interrupted) if the conversion was given up.
    pub(in crate::convert) fn is_published(&self) -> Result<bool> {
        match self.end()? {
            Some(End::GivenUp) => {
                let message = "this conversion was given up, and is not removed yet";
                let error = Error::new(ErrorKind::Interrupted, message).at(&self.dir);
                Err(error.advise("\"repair\" removes what it has left"))
            }
            end => Ok(end.is_some()),
        }
    }

    /// The note that the conversion was published or given up, if there is one.
    fn end(&self) -> Result<Option<End>> {
        let path = self.dir_file("published");
        let Some(text) = self.notes.read(&path)? else { return Ok(None) };
        let (end, sign) = match text.strip_suffix(GIVEN_UP.as_bytes()) {
            Some(sign) => (End::GivenUp, sign),
            None => (End::Published, &text[..]),
        };
        // Where the plan is gone, it has been believed before.
        if self.plan.is_null() || sign == self.sign().as_bytes() {
            return Ok(Some(end));
        }
        match self.are_objects() {
            // One of an earlier conversion, written late, says nothing.
            true => Ok(None),
            // As the first versions wrote it.
            false if text.is_empty() => Ok(Some(End::Published)),
            false => {
                let found = "it is of another plan, or was cut short".to_owned();
                Err(damaged(&path, "the end of these parts", found))
            }
        }
    }

    /// Keeps all who have not begun a part from beginning one, where no lock does.
    pub(in crate::convert) fn give_up(&self) -> Result<()> {
        if !self.are_objects() {
            return Ok(());
        }
        let path = self.dir_file("published");
        let text = format!("{}{GIVEN_UP}", self.sign());
        // One that is published is only to be tidied up.
        if self.notes.create(&path, &text)? || self.end()?.is_some() {
            return Ok(());
        }
        // The note of an earlier conversion is in the way.
        self.notes.write(&path, &text)
    }

    /// Removes everything. If it is interrupted, it can be repeated.
    ///
    /// # Errors
    ///
    /// [`Invalid`](ErrorKind::Invalid) if there is a file that is not ours; then nothing is removed.
    pub(in crate::convert) fn remove(self) -> Result<()> {
        if self.are_objects() {
            return self.remove_objects();
        }
        // Another process that came in between may have made a new lock.
        for _ in 0..5 {
            if self.remove_files()? {
                return Ok(());
            }
        }
        Err(Error::io(&self.dir, std::io::ErrorKind::DirectoryNotEmpty.into()))
    }

    fn remove_objects(&self) -> Result<()> {
        // Else another process has removed this one, and a plan may be of the next conversion.
        if self.id.is_empty() || self.is_there()? {
            let sets_aside = self.plan["options"]["bad"] == "quarantine";
            let notes = self.all_and_joint()?.into_iter().flat_map(|part| {
                let older = self.is_older.then(|| self.file(part, "shards"));
                let bad = sets_aside.then(|| self.file(part, "quarantine.jsonl"));
                older.into_iter().chain(bad).chain([self.note_of(part)])
            });
            self.notes.remove(&notes.chain([self.commit_note()]).collect::<Vec<_>>())?;
            // By the plan the others are found.
            self.notes.remove(&[self.dir_file("plan.json")])?;
        }
        match self.end()? {
            Some(_) => self.notes.remove(&[self.dir_file("published")]),
            None => Ok(()),
        }
    }

    /// Removes the files of the folder, and then the folder. Says whether it was empty.
    fn remove_files(&self) -> Result<bool> {
        check_dir(&self.dir)?;
        let storage = &**self.notes.storage();
        let paths = storage.list(&self.dir)?;
        if let Some(other) = paths.iter().find(|path| !is_ours(path)) {
            let message = "expected only files of parts here, found something else; move it away";
            return Err(Error::new(ErrorKind::Invalid, message).at(other));
        }
        // The locks hold as long as there is something that they guard.
        let others = paths.iter().filter(|path| !is_lock(path) && !path.ends_with("published"));
        for path in others.chain(paths.iter().filter(|path| is_lock(path))) {
            // Of a link it is the link that goes.
            gone(match storage.lstat(path)? {
                Some(found) if found.is_dir() => storage::remove_all(storage, path),
                _ => storage.remove(path),
            })?;
        }
        // After a power failure the rest must not be there without it: by it a commit removes the rest.
        storage.sync_dir(&self.dir)?;
        gone(storage.remove(&self.dir.join("published")))?;
        remove_empty_dir(&self.notes, &self.dir)
    }

    /// Removes a folder with nothing but locks in it, which a removal leaves that lost power at its last
    /// step. One in which a process writes a plan, or that has a lock which is held, stays.
    pub(in crate::convert) fn remove_empty(output: &Path) -> Result<()> {
        let (notes, path) = Notes::of(output)?;
        let dir = dir_of(&path);
        if notes.are_objects() || !check_dir(&dir)? {
            return Ok(());
        }
        let storage = notes.storage();
        let mut locks = Vec::new();
        for path in storage.list(&dir)? {
            if !is_lock(&path) {
                return Ok(());
            }
            match storage.lock(&path) {
                Ok(Some(lock)) => locks.push((path, lock)),
                Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
                _ => return Ok(()),
            }
        }
        // While they are held: who has one open finds that it guards nothing any more.
        for (path, _) in &locks {
            gone(storage.remove(path))?;
        }
        // Another process may have begun parts meanwhile.
        remove_empty_dir(&notes, &dir).map(drop)
    }
}

/// Whether the folder is gone: it stays if something is in it.
fn remove_empty_dir(notes: &Notes, dir: &Path) -> Result<bool> {
    match gone(notes.storage().remove_dir(dir)) {
        Err(error) if error.io_kind() == Some(std::io::ErrorKind::DirectoryNotEmpty) => Ok(false),
        removed => removed.map(|()| true),
    }
}

/// Takes a member out of an object; null if it has no such member.
fn take(plan: &mut Json, member: &str) -> Json {
    plan.as_object_mut().and_then(|plan| plan.remove(member)).unwrap_or_default()
}

/// Whether nothing but what a process leaves that was killed before it had written a plan is in a folder of
/// parts.
fn is_unbegun(notes: &Notes, dir: &Path) -> Result<bool> {
    let is_leftover = |path: &PathBuf| is_unfinished(&name_of(path), &["plan"]) || is_lock(path);
    Ok(notes.storage().list(dir)?.iter().all(is_leftover))
}

/// Whether a file in a folder of parts is a lock.
fn is_lock(path: &Path) -> bool {
    let name = name_of(path);
    let of_note = name.strip_suffix(".lock").is_some_and(is_note);
    name == "lock" || of_note || (name.starts_with("part-") && name.ends_with(".lock"))
}

fn is_note(name: &str) -> bool {
    matches!(name, "plan.json" | "commit" | "published")
}

/// Whether this is the name of one of these notes while it is written.
fn is_unfinished(name: &str, notes: &[&str]) -> bool {
    let name = name.strip_suffix(".partial").or_else(|| name.strip_suffix(".new"));
    name.and_then(|name| name.split_once('.')).is_some_and(|(note, _)| notes.contains(&note))
}

/// The error for parts without a plan, which says what they are parts of.
fn without_plan(dir: &Path) -> Error {
    let message = "expected plan.json, the plan of the parts in this folder, found none";
    Error::new(ErrorKind::Interrupted, message).at(dir).advise(
        "any of the parts, run once more by the same command, writes it again: parts that are finished stay",
    )
}

pub(in crate::convert) fn name_of(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// Whether this is the name of something in a folder of parts.
fn is_ours(path: &Path) -> bool {
    let name = name_of(path);
    let number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let part = |rest: &str| {
        let (numbers, _) = rest.split_once('.')?;
        let (part, of) = numbers.split_once("-of-")?;
        (number(part) && number(of)).then_some(())
    };
    let joined = |rest: &str| rest.split_once('.').filter(|(at, _)| number(at)).map(drop);
    is_note(&name)
        || is_lock(path)
        || is_unfinished(&name, &["plan", "commit", "published"])
        || name.strip_prefix("part-").and_then(part).is_some()
        || name.strip_prefix("joined-").and_then(joined).is_some()
}

/// Whether there is a folder of parts: fails if there is something else in its place, such as a
/// link to where others have their files.
fn check_dir(dir: &Path) -> Result<bool> {
    let Some(found) = LocalStorage::positioned().lstat(dir)? else { return Ok(false) };
    match found.is_dir() {
        true => storage::expect_ours(dir),
        false => {
            let message = format!("expected a folder of parts, found {}", found.kind);
            Err(Error::new(ErrorKind::Invalid, message).at(dir))
        }
    }
}

/// A file of a directory, or an object whose name begins like that.
fn file_in(dir: &Path, name: &str) -> PathBuf {
    match storage::is_url(dir) {
        true => PathBuf::from(format!("{}/{name}", dir.display())),
        false => dir.join(name),
    }
}

fn dir_of(output: &Path) -> PathBuf {
    let mut name = output.as_os_str().to_os_string();
    name.push(".parts");
    PathBuf::from(name)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use serde_json::json;

    use super::*;

    #[test]
    fn parts_of_another_plan_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let dataset = dir.path().join("x.msgpack");
        assert!(Journal::open(&dataset).unwrap().is_none());
        let plan = serde_json::json!({"a": 1});
        let parts = Journal::create(&dataset, &plan).unwrap();
        let again = Journal::create(&dataset, &plan).unwrap();
        assert!(again.done(Part::whole()).unwrap().is_none());
        assert!(parts.finish(Part::whole(), &Done::default()).is_err());
        let _lock = parts.take(Part::whole()).unwrap();
        parts.finish(Part::whole(), &Done { samples: 7, ..Done::default() }).unwrap();
        assert_eq!(again.done(Part::whole()).unwrap().unwrap().samples, 7);
        let other = serde_json::json!({"a": 2});
        assert_eq!(Journal::create(&dataset, &other).unwrap_err().kind(), ErrorKind::Invalid);
        fs::write(parts.dir().join("plan.json"), "{\"a\":2,\"journal\":2}").unwrap();
        let changed = Journal::open(&dataset).unwrap().unwrap();
        assert_eq!(changed.done(Part::whole()).unwrap_err().kind(), ErrorKind::Invalid);
        changed.remove().unwrap();
        assert!(!dataset.with_extension("msgpack.parts").exists());
    }

    #[test]
    fn only_what_is_of_parts_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        let dataset = dir.path().join("x.msgpack");
        let open = || Journal::open(&dataset).unwrap().unwrap();
        let parts = Journal::create(&dataset, &json!({"parts": 2})).unwrap();
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
            let error = Journal::open(&dataset).unwrap_err();
            assert!(error.to_string().ends_with("found a symbolic link"), "{error}");
            assert!(Journal::create(&dataset, &json!({"parts": 2})).is_err());
        }
    }
}
