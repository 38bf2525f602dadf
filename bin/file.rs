//! Files that are written whole or not at all.

use kiste::storage::Shown;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use kiste::format::dataset::SideFile;
use kiste::storage::{LocalStorage, ReplaceFile, Storage};

use crate::exit::{Failure, Outcome, quoted};
use crate::output::Output;

/// Writes a file next to its place, syncs it and gives it its name. An existing file is replaced only
/// with `force`.
pub(crate) fn write(path: &Path, bytes: &[u8], force: bool) -> Outcome<()> {
    check_is_name(path)?;
    if !force && path.symlink_metadata().is_ok() {
        let message = format!("{}: the file exists already", Shown::of(&path));
        return Err(Failure::trouble(message).hint("--force replaces it"));
    }
    let mut file = ReplaceFile::create(path)?;
    // Without the name it would pass for an error of standard output.
    file.write_all(bytes).map_err(|error| Failure::io(path, error))?;
    Ok(file.finish()?)
}

/// Fails for `-`, which stands for a pipe: a file of this name would be a surprise.
pub(crate) fn check_is_name(path: &Path) -> Outcome<()> {
    match path == Path::new("-") {
        true => Err(Failure::trouble(
            "expected the name of a file to make, found -: nothing is written to a pipe",
        )),
        false => Ok(()),
    }
}

/// Fails for a path that is no data file, with a hint for those who name a side file.
pub(crate) fn check_is_data(path: &Path) -> Outcome<()> {
    if kiste::storage::is_url(path) {
        // Not named here: there may be a password in it.
        let message = "expected the name of a file, found a URL: this needs files on a disk";
        return Err(Failure::trouble(message));
    }
    kiste::dataset::check_data_path(path).map_err(|error| {
        let data = SideFile::data_of(path);
        match data != path && data.is_file() {
            true => Failure::from(error).hint(format!("the data file is {}", Shown::of(&data))),
            false => error.into(),
        }
    })
}

/// The same for commands that need a dataset that was finished.
pub(crate) fn check_is_finished(path: &Path) -> Outcome<()> {
    check_is_data(path)?;
    Ok(kiste::convert::check_is_dataset(path)?)
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

/// Set once, before any command runs.
static OUTSIDE: AtomicBool = AtomicBool::new(false);

/// Says whether names in data may lead out of their folder.
pub(crate) fn allow_outside(yes: bool) {
    OUTSIDE.store(yes, Relaxed);
}

/// Whether names in data may lead out of their folder.
pub(crate) fn allows_outside() -> bool {
    OUTSIDE.load(Relaxed)
}

/// How datasets are read.
pub(crate) fn storage() -> Arc<dyn Storage> {
    Arc::new(match reads_by_calls() {
        true => LocalStorage::positioned().allow_outside(allows_outside()),
        false => LocalStorage::mapped().allow_outside(allows_outside()),
    })
}

/// How a name is printed: a URL without what is secret in it.
pub(crate) fn shown(path: &Path) -> String {
    Shown::of(path).to_string()
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

/// Opens a dataset, by its name or its URL. Says why that took long where it did.
pub(crate) fn open(path: &Path, output: &Output) -> Outcome<kiste::DatasetReader> {
    let (storage, place) = locate(path)?;
    let reader = kiste::DatasetReader::options().storage(storage).open(place)?;
    if reader.is_walked() {
        let name = Shown::of(&path);
        let read = "there is no .offsets, so all of the data was read to open it";
        output.warn(format_args!("{name}: {read}"));
        output.hint(format_args!("\"kiste index {}\" makes it", quoted(path)));
    }
    Ok(reader)
}
