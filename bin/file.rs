//! Files that are written whole or not at all.

use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use kiste::convert::Format;
use kiste::format::dataset::SideFile;
use kiste::storage::{LocalStorage, ReplaceFile, Storage};

use crate::exit::{Failure, Outcome, quoted};

/// Writes a file next to its place, syncs it and gives it its name. An existing file is replaced only
/// with `force`.
pub(crate) fn write(path: &Path, bytes: &[u8], force: bool) -> Outcome<()> {
    write_with(path, force, |file| Ok(file.write_all(bytes)?))
}

/// The same for content that is written piece by piece.
pub(crate) fn write_with(
    path: &Path,
    force: bool,
    content: impl FnOnce(&mut Named) -> Outcome<()>,
) -> Outcome<()> {
    refuse_existing(path, force)?;
    let mut file = Named { new: ReplaceFile::create(path)?, error: None };
    match content(&mut file) {
        Ok(()) => Ok(file.new.finish()?),
        Err(failure) => Err(file.error.map_or(failure, |error| Failure::io(path, error))),
    }
}

/// Fails if there is a file that may not be replaced.
pub(crate) fn refuse_existing(path: &Path, force: bool) -> Outcome<()> {
    if !force && path.symlink_metadata().is_ok() {
        let message = format!("{}: the file exists already", path.display());
        return Err(Failure::trouble(message).hint("--force replaces it"));
    }
    Ok(())
}

/// A file that remembers which of its errors came first: on the way up it is not told from one of
/// standard output.
pub(crate) struct Named {
    new: ReplaceFile<'static>,
    error: Option<io::Error>,
}

impl Named {
    fn note<T>(&mut self, result: io::Result<T>) -> io::Result<T> {
        result.map_err(|error| {
            let again = io::Error::new(error.kind(), "the file cannot be written");
            if error.kind() != io::ErrorKind::Interrupted {
                self.error.get_or_insert(error);
            }
            again
        })
    }
}

impl Write for Named {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let result = self.new.write(bytes);
        self.note(result)
    }

    fn flush(&mut self) -> io::Result<()> {
        let result = self.new.flush();
        self.note(result)
    }
}

impl Seek for Named {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let result = self.new.seek(to);
        self.note(result)
    }
}

/// Opens a file for reading that is a regular one.
pub(crate) fn open_regular(path: &Path) -> Outcome<File> {
    kiste::convert::open_regular(path).map_err(|error| Failure::io(path, error))
}

/// Fails for a path that is no data file, with a hint for those who name a side file.
pub(crate) fn check_is_data(path: &Path) -> Outcome<()> {
    if kiste::storage::is_url(path) {
        // Not named here: there may be a password in it.
        let message =
            "expected the name of a file, found a URL, from which kiste only reads datasets";
        return Err(Failure::trouble(message));
    }
    let checked = kiste::convert::check_data_path(path);
    checked.map_err(|error| {
        let data = path.with_extension("");
        let is_side = kiste::format::dataset::SideFile::of(path).is_some() && data.is_file();
        match is_side {
            true => Failure::from(error).hint(format!("the data file is {}", data.display())),
            false => error.into(),
        }
    })
}

/// The same for commands that need a dataset that was finished.
pub(crate) fn check_is_finished(path: &Path) -> Outcome<()> {
    check_is_data(path)?;
    kiste::convert::check_finished(path)?;
    check_is_no_other(path)
}

/// Fails for a file of another format: without side files to contradict it, any bytes could be
/// taken for packed values.
fn check_is_no_other(path: &Path) -> Outcome<()> {
    let has_side = || SideFile::ALL.iter().any(|file| file.path(path).exists());
    if !path.is_file() || has_side() {
        return Ok(());
    }
    match Format::of_input(path) {
        Ok(format) if format != Format::Dataset => {
            let (name, title) = (path.display(), format.title());
            let message = format!("{name}: expected a dataset, found {title}");
            let hint = format!(
                "\"kiste convert {} {}\" makes one of it",
                quoted(path),
                quoted(&path.with_extension("msgpack"))
            );
            Err(Failure::trouble(message).hint(hint))
        }
        _ => Ok(()),
    }
}

/// Set once, before any command runs.
static BY_CALLS: AtomicBool = AtomicBool::new(false);

/// Says whether datasets are read by calls, and not through memory maps.
pub(crate) fn read_by_calls(yes: bool) {
    BY_CALLS.store(yes, Relaxed);
}

/// Whether datasets are read by calls.
pub(crate) fn reads_by_calls() -> bool {
    BY_CALLS.load(Relaxed)
}

/// How datasets are read.
pub(crate) fn storage() -> Arc<dyn Storage> {
    Arc::new(match reads_by_calls() {
        true => LocalStorage::positioned(),
        false => LocalStorage::mapped(),
    })
}

/// How a name is printed: a URL without what is secret in it.
pub(crate) fn shown(path: &Path) -> String {
    kiste::storage::shown(path).display().to_string()
}

/// Where the files of a dataset are, and its name there: for a URL the URL without what is secret in
/// it. A local dataset must be finished.
pub(crate) fn locate(path: &Path) -> Outcome<(Arc<dyn Storage>, PathBuf)> {
    let (found, place) = kiste::storage::of(path)?;
    if kiste::storage::is_url(path) {
        return Ok((found, place));
    }
    // Each of many files is checked when it is opened.
    if !kiste::dataset::names_shards(&place) {
        check_is_finished(&place)?;
    }
    Ok((storage(), place))
}

/// Opens a dataset, by its name or its URL.
pub(crate) fn open(path: &Path) -> Outcome<kiste::DatasetReader> {
    let (storage, place) = locate(path)?;
    Ok(kiste::DatasetReader::options().storage(storage).open(place)?)
}
