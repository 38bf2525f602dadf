//! [`Quarantine`]: the list of bad input next to an output.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::Value;
use crate::error::{Error, ErrorKind, Result, Shown};
use crate::format::jsonl;
use crate::regular::{self, open_regular};
use crate::storage::{self, Create, Expected, LocalStorage, ScratchDir, Storage};

/// Bytes of an object that are copied at a time.
const STEP: u64 = 1 << 20;
/// The file in the directory for temporary files.
const TEMPORARY: &str = "quarantine.jsonl";
/// The most bytes of the list of a part in an object store, which goes up as a whole each time.
const MAX_OBJECT: u64 = 1 << 30;

/// Bad input as JSON lines. They are collected in a file next to the one of an earlier conversion, which
/// they replace when the new dataset is there. An append adds to the file that is there.
///
/// For an object store they are collected in a temporary file. The list of a part is an object again after each
/// sync, so that a later run continues it.
pub(super) struct Quarantine {
    path: PathBuf,
    /// The file that collects them, unless it is the final one.
    beside: Option<PathBuf>,
    file: File,
    /// Bytes that were there before.
    start: u64,
    /// Bytes that are on the disk for certain.
    synced: u64,
    /// The object store that it goes to, if it goes to one, and the place of the temporary file.
    store: Option<(Arc<dyn Storage>, ScratchDir)>,
}

impl Quarantine {
    /// The name of the file next to a dataset.
    pub(super) fn path_of(dataset: &Path) -> PathBuf {
        let mut name = dataset.as_os_str().to_os_string();
        name.push(".quarantine.jsonl");
        PathBuf::from(name)
    }

    /// Starts a file that replaces the one that is there, or continues one after this many bytes.
    pub(super) fn begin(path: PathBuf, bytes: u64) -> Result<Quarantine> {
        let beside = beside(&path);
        if bytes == 0 {
            remove_file(&beside)?;
        }
        Quarantine::open(path, Some(beside), bytes)
    }

    /// The same, or an object in an object store.
    pub(super) fn begin_in(
        storage: &Arc<dyn Storage>,
        path: PathBuf,
        bytes: u64,
    ) -> Result<Quarantine> {
        if !storage.is_object_store() {
            return Quarantine::begin(path, bytes);
        }
        let scratch = ScratchDir::create()?;
        let temporary = scratch.path().join(TEMPORARY);
        let file = File::create_new(&temporary).map_err(|error| Error::io(&temporary, error))?;
        let store = Some((storage.clone(), scratch));
        let (beside, start, synced) = (None, bytes, bytes);
        let mut quarantine = Quarantine { path, beside, file, start, synced, store };
        if bytes > 0 {
            let from = quarantine.path.clone();
            quarantine.add_object(&from, bytes)?;
        }
        Ok(quarantine)
    }

    /// Adds the first bytes of an object.
    fn add_object(&mut self, from: &Path, bytes: u64) -> Result<()> {
        let Some((storage, _)) = &self.store else { return Ok(()) };
        let source = storage.open_if_exists(from)?;
        let found = source.as_ref().map_or(0, |source| source.len());
        let Some(source) = source.filter(|_| bytes <= found) else {
            return Err(cut(from, bytes, found));
        };
        let mut at = 0;
        while at < bytes {
            let end = bytes.min(at + STEP);
            let read = source.read(at..end)?;
            self.file.write_all(&read).map_err(|error| Error::io(&self.path, error))?;
            at = end;
        }
        Ok(())
    }

    /// Adds to the file that is there.
    pub(super) fn append(path: PathBuf) -> Result<Quarantine> {
        let bytes = path.metadata().map_or(0, |found| found.len());
        Quarantine::open(path, None, bytes)
    }

    fn open(path: PathBuf, beside: Option<PathBuf>, bytes: u64) -> Result<Quarantine> {
        let own = beside.as_ref().unwrap_or(&path);
        let at = |error| Error::io(own, error);
        let mut options = OpenOptions::new();
        let file = match own.symlink_metadata() {
            // A link here could have been placed by someone else, to have another file written to.
            Ok(found) if !found.is_file() => {
                let message = "expected a regular file, found something else";
                return Err(Error::new(ErrorKind::Foreign, message).at(own));
            }
            Ok(_) => {
                storage::expect_owned(own)?;
                options.append(true).open(own)
            }
            Err(_) => options.append(true).create_new(true).open(own),
        };
        let file = file.map_err(at)?;
        let found = file.metadata().map_err(at)?.len();
        if found < bytes {
            return Err(cut(own, bytes, found));
        }
        // A new file has nothing to cut off, and would stay if that failed.
        if found > bytes {
            file.set_len(bytes).map_err(at)?;
        }
        Ok(Quarantine { path, beside, file, start: bytes, synced: bytes, store: None })
    }

    /// Publishes what an earlier run collected and only had left to publish: all of it, or this many
    /// bytes.
    pub(super) fn settle(path: PathBuf, bytes: Option<u64>) -> Result<Option<PathBuf>> {
        let beside = beside(&path);
        match beside.symlink_metadata() {
            Ok(found) => {
                let bytes = bytes.unwrap_or(found.len());
                Quarantine::open(path, Some(beside), bytes)?.finish()
            }
            Err(_) => Ok(Some(path).filter(|path| bytes != Some(0) && path.exists())),
        }
    }

    /// Adds this many bytes of another file, or of an object in an object store.
    pub(super) fn add_all(&mut self, from: &Path, bytes: u64) -> Result<()> {
        if bytes == 0 {
            return Ok(());
        }
        if self.store.is_some() {
            return self.add_object(from, bytes);
        }
        let file = open_regular(from).map_err(|error| Error::io(from, error))?;
        let copied = io::copy(&mut file.take(bytes), &mut self.file);
        match copied.map_err(|error| Error::io(&self.path, error))? {
            found if found < bytes => Err(cut(from, bytes, found)),
            _ => Ok(()),
        }
    }

    /// Syncs what was added, before the log counts it: the log must never know more than the disk.
    pub(super) fn sync(&mut self, bytes: u64) -> Result<()> {
        if self.synced != bytes {
            match &self.store {
                None => self.file.sync_all().map_err(|error| Error::io(&self.path, error))?,
                Some((storage, scratch)) => {
                    if bytes > MAX_OBJECT {
                        let message =
                            format!("expected at most {MAX_OBJECT} bytes of bad input, found more");
                        return Err(Error::new(ErrorKind::Limit, message).at(&self.path));
                    }
                    let temporary = scratch.path().join(TEMPORARY);
                    let text = regular::read(&temporary).map_err(|e| Error::io(&temporary, e))?;
                    storage.put_if(&self.path, &text, Expected::Anything)?;
                }
            }
            self.synced = bytes;
        }
        Ok(())
    }

    /// Adds what is bad; how many bytes that took.
    pub(super) fn add(&mut self, error: &Error) -> Result<u64> {
        let mut fields: Vec<(Value, Value)> = Vec::new();
        if let Some(path) = error.path() {
            fields.push(("file".into(), Shown::of(&path).to_string().into()));
        }
        if let Some(key) = error.key() {
            fields.push(("sample".into(), key.into()));
        }
        fields.push(("reason".into(), error.reason().into()));
        if error.ends_unit() {
            fields.push(("rest_unread".into(), true.into()));
        }
        if let Some(raw) = error.raw() {
            let raw = std::str::from_utf8(raw).map_or_else(|_| raw.into(), Value::from);
            fields.push(("raw".into(), raw));
        }
        let mut line = Vec::new();
        // Strings and bytes alone, and JSON lines can hold all of them.
        let _ = jsonl::write(&Value::Map(fields), &mut line);
        line.push(b'\n');
        self.file.write_all(&line).map_err(|error| Error::io(&self.path, error))?;
        Ok(line.len() as u64)
    }

    /// Syncs it and gives it its name; if nothing was bad, no file is left.
    pub(super) fn finish(self) -> Result<Option<PathBuf>> {
        let at = |error| Error::io(&self.path, error);
        let bytes = self.file.metadata().map_err(at)?.len();
        let some = bytes > 0;
        if let Some((storage, _)) = &self.store {
            // The list of a part went up when it was noted.
            if !some || self.synced != bytes {
                storage.remove(&self.path)?;
            }
            if some && self.synced != bytes {
                self.send()?;
            }
            return Ok(some.then_some(self.path));
        }
        if some {
            self.file.sync_all().map_err(at)?;
        }
        match &self.beside {
            Some(beside) if some => fs::rename(beside, &self.path).map_err(at)?,
            Some(beside) => {
                remove_file(&self.path)?;
                remove_file(beside)?;
            }
            None if some => {}
            None => remove_file(&self.path)?,
        }
        let parent = self.path.parent().unwrap_or(Path::new(""));
        LocalStorage::positioned().sync_dir(parent)?;
        Ok(some.then_some(self.path))
    }

    /// Uploads the list, of any length.
    fn send(&self) -> Result<()> {
        let Some((storage, scratch)) = &self.store else { return Ok(()) };
        let temporary = scratch.path().join(TEMPORARY);
        let list = LocalStorage::positioned().open(&temporary)?;
        let mut sink = storage.create_with(&self.path, Create::new())?;
        let mut at = 0;
        while at < list.len() {
            let end = list.len().min(at + STEP);
            sink.append(&list.read(at..end)?)?;
            at = end;
        }
        sink.finish()
    }

    /// Takes back what was added. In an object store nothing was, but for a part, which a later run continues.
    pub(super) fn abort(self) {
        if self.store.is_some() {
            return;
        }
        // If it cannot be removed, the next run replaces it.
        let _ = match (&self.beside, self.start) {
            (Some(beside), _) => fs::remove_file(beside),
            (None, 0) => fs::remove_file(&self.path),
            (None, start) => self.file.set_len(start),
        };
    }
}

/// The error for a list that has less than was noted.
fn cut(path: &Path, bytes: u64, found: u64) -> Error {
    let message = format!("expected at least {bytes} bytes to continue after, found {found}");
    let error = Error::new(ErrorKind::Invalid, message).at(path);
    error.advise("restore the file, or start over")
}

fn beside(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_os_string();
    name.push(".new");
    PathBuf::from(name)
}

fn remove_file(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Error::io(path, error)),
        _ => Ok(()),
    }
}

/// Settles the quarantine of a dataset after a [repair](crate::repair): if the write was finished, or
/// its samples kept, the quarantine gets its name; if it was undone, the quarantine is removed.
pub fn settle_quarantine(dataset: &Path, is_undone: bool) -> Result<()> {
    if super::Journal::open(dataset).is_ok_and(|parts| parts.is_some()) {
        // It is of a commit that was cut short, which makes it again.
        return Ok(());
    }
    let path = Quarantine::path_of(dataset);
    match beside(&path).symlink_metadata() {
        Ok(found) if found.is_file() && is_undone => remove_file(&beside(&path)),
        Ok(found) if found.is_file() => Quarantine::settle(path, None).map(drop),
        _ => Ok(()),
    }
}
