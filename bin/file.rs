//! Files that are written whole or not at all.

use kiste::storage::Shown;
use std::io::Write;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use kiste::DatasetReader;
use kiste::compose::{View, is_recipe};
use kiste::dataset::labels_path;
use kiste::format::dataset::SideFile;
use kiste::reader::Reader;
use kiste::storage::{LocalStorage, ReplaceFile, Storage};

use crate::exit::{Failure, Outcome, quoted};
use crate::output::Output;
use crate::view_progress::ViewProgress;

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

/// Fails for a recipe, which has no files of its own to work on.
pub(crate) fn check_is_no_recipe(path: &Path) -> Outcome<()> {
    match is_recipe(path) {
        true => {
            let message = format!("{}: expected a dataset, found a recipe", shown(path));
            Err(Failure::trouble(message).hint("the datasets that it is made of have files"))
        }
        false => Ok(()),
    }
}

/// Where the files of a dataset are, and its name there: for a URL the URL without what is secret in
/// it. A local dataset must be finished.
pub(crate) fn locate(path: &Path) -> Outcome<(Arc<dyn Storage>, PathBuf)> {
    check_is_no_recipe(path)?;
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

/// What a command reads: a dataset, or others that a recipe makes one of.
pub(crate) struct Input {
    /// As it was named.
    pub(crate) path: PathBuf,
    pub(crate) view: View,
    /// The same, if it is a dataset.
    pub(crate) dataset: Option<DatasetReader>,
}

impl Input {
    /// The file of the names of labels, or what has them.
    pub(crate) fn labels_place(&self) -> PathBuf {
        match &self.dataset {
            Some(dataset) => labels_path(dataset.path()),
            None => self.path.clone(),
        }
    }
}

impl Deref for Input {
    type Target = dyn Reader;

    fn deref(&self) -> &(dyn Reader + 'static) {
        match &self.dataset {
            // One step less for each sample.
            Some(dataset) => dataset,
            None => &**self.view.reader(),
        }
    }
}

/// Opens a dataset or a recipe, by its name or its URL.
pub(crate) fn open_view(path: &Path, output: &Output) -> Outcome<View> {
    let options = View::options().untrusted(reads_by_calls()).allow_outside(allows_outside());
    let progress = ViewProgress::new(output);
    Ok(options.open(path, &mut |doing| progress.hear(doing))?)
}

/// The same, to read samples. Says why that took long where it did.
pub(crate) fn open(path: &Path, output: &Output) -> Outcome<Input> {
    if !is_recipe(path) && !kiste::storage::is_url(path) && !kiste::dataset::names_shards(path) {
        check_is_finished(path)?;
    }
    let view = open_view(path, output)?;
    let dataset = view.dataset().cloned();
    if dataset.as_ref().is_some_and(DatasetReader::is_walked) {
        let name = Shown::of(&path);
        let read = "there is no .offsets, so all of the data was read to open it";
        output.warn(format_args!("{name}: {read}"));
        output.hint(format_args!("\"kiste index {}\" makes it", quoted(path)));
    }
    Ok(Input { path: path.to_path_buf(), view, dataset })
}
