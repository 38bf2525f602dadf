//! The temporary files between the two passes of a shuffle in parts: their place, names and removal.
//!
//! The note of a part is a [fence](super::job::notes): a run that starts a part replaces the note of an earlier
//! run, which then ends with an error when it next writes a note. Objects are not listed: a plan next to the
//! manifest says how many parts there are and where.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::Part;
use super::job::at_once;
use super::job::notes::{Lost, Notes, TRIES, gone};
use crate::error::{Error, ErrorKind, Remedy, Result};
use crate::note::{self, required};
use crate::storage::{
    self, Create, Expected, ReplaceFile, ReplaceOptions, Sink, Source, Storage, UploadNote,
};

/// The most bytes of a plan.
const MAX_PLAN: u64 = 64 << 10;

/// The default directory.
fn dir_of(output: &Path) -> PathBuf {
    let mut name = output.as_os_str().to_os_string();
    name.push(".scatter");
    name.into()
}

/// Where the parts of a shuffle are, and how many, so that `commit` and `repair` can remove them. The default
/// directory on a disk has no such note, as it can be listed.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Plan {
    version: u32,
    parts: usize,
    dir: String,
    /// The number of the folder in a directory that the user has named: other shuffles may use it too.
    #[serde(deserialize_with = "required")]
    folder: Option<u64>,
    /// Tells this shuffle from one that is started after this one was abandoned.
    #[serde(default)]
    run: u64,
    /// Set while parts are removed; a run that sees it stops.
    #[serde(default)]
    ended: bool,
}

impl Plan {
    fn path(output: &Path) -> Result<(Arc<dyn Storage>, PathBuf)> {
        let (storage, path) = storage::of(dir_of(output).join("plan.json"))?;
        if !storage.is_object_store() {
            storage::expect_ours(path.parent().unwrap_or(Path::new("")))?;
        }
        Ok((storage, path))
    }

    fn read(output: &Path) -> Result<Option<Plan>> {
        Ok(Plan::find(output)?.map(|(plan, _)| plan))
    }

    /// Also returns the open file; while it is open its inode cannot be reused.
    fn find(output: &Path) -> Result<Option<(Plan, Source)>> {
        let (storage, path) = Plan::path(output)?;
        let Some(found) = storage.open_if_exists(&path)? else { return Ok(None) };
        let text = found.read(0..found.len().min(MAX_PLAN))?;
        let plan: Plan = note::parsed(&text).map_err(|found| {
            let message = format!("not the plan of a shuffle: {found}");
            Error::new(ErrorKind::Damaged, message).at(&path)
        })?;
        // Its parts are removed by name.
        match plan.version == 1 && Part::new(1, plan.parts).is_ok() {
            true => Ok(Some((plan, found))),
            false => {
                let message = "expected the plan of a shuffle, of version 1";
                Err(Error::new(ErrorKind::Damaged, message).at(&path))
            }
        }
    }

    /// Where the parts are.
    fn place(&self) -> PathBuf {
        let dir = PathBuf::from(&self.dir);
        match self.folder {
            Some(number) => dir.join(format!("kiste-scatter-{number:016x}")),
            None => dir,
        }
    }

    /// Whether a run that was given this directory, or none, belongs to it.
    fn is_of(&self, dir: Option<&Path>) -> bool {
        dir.is_none_or(|dir| self.folder.is_some() && Path::new(&self.dir) == dir)
    }

    /// Writes it unless another part has, and returns the one that exists then.
    fn put(self, output: &Path) -> Result<Plan> {
        let (storage, path) = Plan::path(output)?;
        if !storage.is_object_store() {
            storage::make_ours(path.parent().unwrap_or(Path::new("")), false)?;
        }
        match storage.put_if(&path, &self.render(&path)?, Expected::Absent) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            put => return put.map(|_| self),
        }
        let given = self.folder.map(|_| Path::new(&self.dir));
        match Plan::read(output)? {
            Some(there) if there.ended => Err(ended(output)),
            Some(there) if there.parts == self.parts && there.is_of(given) => Ok(there),
            _ => Err(another(output)),
        }
    }

    /// Marks the shuffle as ended. `None` if there is no plan, else whether it was marked already.
    fn end(output: &Path) -> Result<Option<(Plan, bool)>> {
        let mut tries = 0;
        loop {
            let Some((plan, there)) = Plan::find(output)? else { return Ok(None) };
            if plan.ended {
                return Ok(Some((plan, true)));
            }
            let plan = Plan { ended: true, ..plan };
            let (storage, path) = Plan::path(output)?;
            let put = storage.put_if(&path, &plan.render(&path)?, Expected::Version(there.id()));
            drop(there);
            tries += 1;
            match put {
                Ok(_) => return Ok(Some((plan, false))),
                // Another process removes it as well.
                Err(error)
                    if tries < TRIES
                        && matches!(error.kind(), ErrorKind::Replaced | ErrorKind::NotFound) => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn render(&self, path: &Path) -> Result<Vec<u8>> {
        let text = serde_json::to_string(self).map_err(|error| Error::io(path, error.into()))?;
        Ok(note::sealed(&text).into_bytes())
    }
}

/// The error for a part that starts while its shuffle is being removed.
fn ended(output: &Path) -> Error {
    let message = "the shuffle to this manifest is being removed";
    let error = Error::new(ErrorKind::Invalid, message).at(storage::shown(output));
    error.with_remedy(Remedy::UndoShuffle)
}

/// The error for a part of another shuffle than the one that was started.
fn another(output: &Path) -> Error {
    let message =
        "another shuffle to this manifest was started, with another directory or number of parts";
    let error = Error::new(ErrorKind::Invalid, message).at(storage::shown(output));
    error.with_remedy(Remedy::OtherShuffle)
}

/// The files of a shuffle between its passes.
#[derive(Debug)]
pub(super) struct Scatter {
    dir: PathBuf,
    notes: Arc<Notes>,
    storage: Arc<dyn Storage>,
    /// The manifest that it belongs to, and the plan next to that.
    plan: Option<(PathBuf, Plan)>,
}

/// The note of a run before a part is finished.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Begun {
    /// The run, so that the notes of two differ.
    run: u64,
    #[serde(deserialize_with = "required")]
    upload: Option<String>,
}

/// The samples of a part, while they are written.
pub(super) struct Scattering<'a> {
    home: &'a Scatter,
    part: Part,
    /// The number of the run.
    write: u64,
    file: NewFile<'a>,
    len: u64,
}

/// A file that has its name once it is whole.
enum NewFile<'a> {
    File(ReplaceFile<'a>),
    Object(Box<dyn Sink>),
}

impl Scatter {
    /// For the first pass to this manifest.
    pub(super) fn create(output: &Path, dir: Option<&Path>, parts: usize) -> Result<Scatter> {
        let given = dir.map_or_else(|| dir_of(output), Path::to_path_buf);
        let plan = if dir.is_some() || storage::is_url(output) {
            let name = given.to_str().ok_or_else(|| {
                let message = "expected the name of a directory in UTF-8";
                Error::new(ErrorKind::Invalid, message).at(&given)
            })?;
            let folder = dir.map(|_| storage::random());
            let (dir, run) = (name.to_owned(), storage::random());
            Some(Plan { version: 1, parts, dir, folder, run, ended: false }.put(output)?)
        } else {
            let plan = Plan::read(output)?;
            match &plan {
                Some(plan) if plan.ended => return Err(ended(output)),
                Some(plan) if plan.parts != parts => return Err(another(output)),
                _ => plan,
            }
        };
        let mut scatter = Scatter::at(plan.as_ref().map_or(given, Plan::place))?;
        scatter.plan = plan.map(|plan| (output.to_path_buf(), plan));
        if !scatter.notes.are_objects() {
            storage::make_ours(&scatter.dir, false)?;
        }
        Ok(scatter)
    }

    /// For the second pass: where the first pass put its files.
    pub(super) fn find(output: &Path, dir: Option<&Path>) -> Result<Scatter> {
        match Plan::read(output)? {
            Some(plan) if plan.ended => Err(ended(output)),
            Some(plan) if !plan.is_of(dir) => Err(another(output)),
            Some(plan) => Scatter::at(plan.place()),
            None => Scatter::at(dir.map_or_else(|| dir_of(output), Path::to_path_buf)),
        }
    }

    fn at(dir: PathBuf) -> Result<Scatter> {
        let (notes, _) = Notes::of(&dir)?;
        let (storage, dir) = storage::of(&dir)?;
        if !notes.are_objects() {
            storage::expect_ours_if_linked(&dir)?;
        }
        Ok(Scatter { dir, notes: Arc::new(notes), storage, plan: None })
    }

    /// The file of a part: `samples`, or its note.
    pub(super) fn file(&self, part: Part, ending: &str) -> PathBuf {
        self.dir.join(format!("part-{}-of-{}.{ending}", part.number(), part.of()))
    }

    pub(super) fn open(&self, part: Part) -> Result<Source> {
        self.storage.open(&self.file(part, "samples"))
    }

    /// The note of a part that is finished.
    pub(super) fn note(&self, part: Part) -> Result<Option<Vec<u8>>> {
        let noted = self.notes.read(&self.file(part, "json"))?;
        Ok(noted.filter(|text| begun(text).is_none()))
    }

    /// Whether the samples of a part exist, with this length.
    pub(super) fn has(&self, part: Part, len: u64) -> Result<bool> {
        let there = self.storage.stat(&self.file(part, "samples"))?;
        Ok(there.is_some_and(|there| there.len == len))
    }

    /// Whether the shuffle has not ended since this process has found it.
    fn goes_on(&self) -> Result<bool> {
        match &self.plan {
            Some((output, plan)) => Ok(Plan::read(output)?.as_ref() == Some(plan)),
            None => Ok(true),
        }
    }

    /// Starts a part, and replaces what an earlier run left of it. `vain` is the note of a finished part whose
    /// samples are gone.
    pub(super) fn begin(&self, part: Part, vain: Option<&[u8]>) -> Result<Scattering<'_>> {
        let (path, note) = (self.file(part, "samples"), self.file(part, "json"));
        if !self.goes_on()? {
            return Err(given_up(part, &path));
        }
        let (write, upload) = (storage::random(), RefCell::new(None));
        let first = |before: Option<Vec<u8>>| {
            let begun_before = before.as_deref().map(begun);
            if let (Some(None), true) = (&begun_before, before.as_deref() != vain) {
                return Err(lost(part, &path));
            }
            *upload.borrow_mut() = begun_before.flatten().and_then(|begun| begun.upload);
            render(&Begun { run: write, upload: None }, &path)
        };
        self.notes.take(&note, first)?.map_err(|Lost| lost(part, &path))?;
        if let Some(upload) = upload.into_inner() {
            self.storage.abort_upload(&path, &upload)?;
        }
        // Finished, but not noted.
        gone(self.storage.remove(&path))?;
        // From here on who ends the shuffle finds the note of this part.
        if !self.goes_on()? {
            // A shuffle that has begun since may have taken it.
            if self.notes.holds(&note)? {
                self.notes.remove(&[note])?;
            }
            return Err(given_up(part, &path));
        }
        let file = match self.notes.are_objects() {
            true => {
                let how = Create::new().write(write).note(self.noting(part, write));
                NewFile::Object(self.storage.create_with(&path, how)?)
            }
            false => {
                let options = ReplaceOptions::default().overwrite(false);
                NewFile::File(ReplaceFile::create_in(&*self.storage, path, &options)?)
            }
        };
        Ok(Scattering { home: self, part, write, file, len: 0 })
    }

    /// Notes the upload of a part.
    fn noting(&self, part: Part, run: u64) -> UploadNote {
        let (note, path) = (self.file(part, "json"), self.file(part, "samples"));
        let notes = self.notes.clone();
        Arc::new(move |id| {
            let text = render(&Begun { run, upload: Some(id.to_owned()) }, &path)?;
            notes.replace(&note, &text)?.map_err(|Lost| lost(part, &path))
        })
    }

    /// Removes all of these parts that exist.
    fn remove(&self, parts: usize) -> Result<()> {
        if !self.notes.are_objects() {
            return remove_files(&*self.storage, &self.dir);
        }
        let parts: Vec<Part> = Part::all(parts).collect();
        at_once(&parts, |part| {
            let (note, samples) = (self.file(*part, "json"), self.file(*part, "samples"));
            if self.notes.read(&note)?.is_none() {
                return Ok(());
            }
            // One that is at work ends with an error.
            let upload = RefCell::new(None);
            let taken = self.notes.take(&note, |before| {
                *upload.borrow_mut() = before.as_deref().and_then(begun).and_then(|b| b.upload);
                render(&Begun::default(), &note)
            })?;
            taken.map_err(|Lost| lost(*part, &samples))?;
            if let Some(upload) = upload.into_inner() {
                self.storage.abort_upload(&samples, &upload)?;
            }
            self.storage.remove(&samples)?;
            self.storage.remove(&note)
        })
        .map(drop)
    }
}

impl Scattering<'_> {
    pub(super) fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.len += bytes.len() as u64;
        match &mut self.file {
            NewFile::File(file) => file.append(bytes),
            NewFile::Object(sink) => sink.append(bytes),
        }
    }

    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// The part is finished.
    pub(super) fn finish(self, note: &str) -> Result<()> {
        let Scattering { home, part, write, file, .. } = self;
        let (path, samples) = (home.file(part, "json"), home.file(part, "samples"));
        if !home.goes_on()? {
            return Err(given_up(part, &path));
        }
        let finished = match file {
            // Else these samples would take the place that the other run needs.
            NewFile::File(_) if !home.notes.holds(&path)? => return Err(lost(part, &samples)),
            NewFile::File(file) => file.finish(),
            NewFile::Object(sink) => sink.finish(),
        };
        finished.map_err(|error| match error.kind() {
            // An earlier run was alive after all.
            ErrorKind::AlreadyExists => lost(part, &samples),
            _ => error,
        })?;
        if home.notes.replace(&path, note)?.is_ok() {
            return Ok(());
        }
        // Who has taken the note, or has ended the shuffle, may have removed the samples before they were
        // there: another run could not put its own.
        let there = home.storage.open_if_exists(&samples)?;
        if there.is_some_and(|there| there.write_id() == Some(write)) {
            home.storage.remove(&samples)?;
        }
        Err(lost(part, &samples))
    }
}

fn render(begun: &Begun, path: &Path) -> Result<String> {
    let text = serde_json::to_string(begun).map_err(|error| Error::io(path, error.into()))?;
    Ok(note::sealed(&text))
}

/// The content of the note of a part that is not finished.
fn begun(note: &[u8]) -> Option<Begun> {
    note::parsed(note).ok()
}

/// The error for a run whose part another run has taken over.
fn lost(part: Part, path: &Path) -> Error {
    let message = format!("another run writes part {part} of the first pass");
    let error = Error::new(ErrorKind::Locked, message).at(path);
    error.advise("if it was killed, run the part again")
}

/// The error for a run whose shuffle was abandoned.
fn given_up(part: Part, path: &Path) -> Error {
    let message =
        format!("the shuffle was removed before part {part} of the first pass was finished");
    Error::new(ErrorKind::Interrupted, message).at(path)
}

/// Removes the files of the first pass of a shuffle to this manifest, if there was one. Returns the directory
/// in its plan if this machine has no such directory.
pub(super) fn remove_scattered(output: &Path) -> Result<Option<PathBuf>> {
    let mut elsewhere = None;
    // First, so that a part that begins now finds out.
    if let Some((plan, was_ended)) = Plan::end(output)? {
        let scatter = Scatter::at(plan.place())?;
        let is_there = scatter.notes.are_objects() || scatter.dir.is_dir();
        elsewhere = (!is_there && !was_ended).then(|| scatter.dir.clone());
        scatter.remove(plan.parts)?;
        // Another process may have removed it as well, and a new shuffle have begun.
        if Plan::read(output)?.as_ref() == Some(&plan) {
            let (storage, path) = Plan::path(output)?;
            gone(storage.remove(&path))?;
        }
    }
    if storage::is_url(output) {
        return Ok(elsewhere);
    }
    let (storage, dir) = storage::of(dir_of(output))?;
    storage::remove_dead_lock(&*storage, &dir.join("plan.json"))?;
    remove_files(&*storage, &dir)?;
    Ok(elsewhere)
}

/// Whether a shuffle to this manifest was started.
pub(super) fn is_scattered_to(output: &Path) -> Result<bool> {
    if Plan::read(output)?.is_some() {
        return Ok(true);
    }
    if storage::is_url(output) {
        return Ok(false);
    }
    let (storage, dir) = storage::of(dir_of(output))?;
    Ok(scattered_in(&*storage, &dir)?.is_some_and(|files| !files.is_empty()))
}

/// Removes the files of a first pass, and their directory if nothing else is in it.
fn remove_files(storage: &dyn Storage, dir: &Path) -> Result<()> {
    let Some(files) = scattered_in(storage, dir)? else { return Ok(()) };
    files.iter().try_for_each(|file| gone(storage.remove(file)))?;
    // Something that is not ours may be there.
    let _ = storage.remove_dir(dir);
    Ok(())
}

/// The files of a first pass in this directory, if there is one.
fn scattered_in(storage: &dyn Storage, dir: &Path) -> Result<Option<Vec<PathBuf>>> {
    let mut files = match storage.list(dir) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        files => files?,
    };
    files.retain(|file| file.file_name().and_then(|name| name.to_str()).is_some_and(is_scattered));
    Ok(Some(files))
}

/// Whether the first pass gives a file this name: `part-3-of-8.samples`, and while it is written
/// `part-3-of-8.samples.0123456789abcdef.partial`, which a pass that is killed leaves. What it leaves of the
/// plan has such a name too.
fn is_scattered(name: &str) -> bool {
    let unfinished = name.strip_suffix(".partial").and_then(|name| name.rsplit_once('.'));
    let is_number = |text: &str| text.len() == 16 && text.bytes().all(|b| b.is_ascii_hexdigit());
    let unfinished = unfinished.filter(|(_, number)| is_number(number)).map(|(name, _)| name);
    if unfinished == Some("plan.json") {
        return true;
    }
    let name = unfinished.unwrap_or_else(|| name.strip_suffix(".lock").unwrap_or(name));
    let middle = |ending| name.strip_prefix("part-")?.strip_suffix(ending);
    let numbers = middle(".samples").or_else(|| middle(".json")).and_then(|m| m.split_once("-of-"));
    numbers.is_some_and(|(part, of)| format!("{part}/{of}").parse::<Part>().is_ok())
}
