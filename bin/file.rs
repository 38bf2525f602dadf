//! Small files that are written whole or not at all.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

use crate::exit::{Failure, Outcome, quoted};

/// Writes a file beside, syncs it and gives it its name. An existing one is replaced only if
/// `force` is set.
pub(crate) fn write(path: &Path, bytes: &[u8], force: bool) -> Outcome<()> {
    if !force && path.symlink_metadata().is_ok() {
        let message = format!("{}: the file exists already", path.display());
        return Err(Failure::trouble(message).hint("--force replaces it"));
    }
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(format!(".{}.new", std::process::id()));
    let beside = path.with_file_name(name);
    let written = File::create_new(&beside).and_then(|mut file| {
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&beside, path)
    });
    written.map_err(|error| {
        // What cannot be written can perhaps not be removed either; the first error is told.
        let _ = fs::remove_file(&beside);
        Failure::io(path, error)
    })
}

/// Says what a user probably meant who names something that is no data file.
pub(crate) fn check_is_data(path: &Path) -> Outcome<()> {
    if path.is_dir() {
        return Err(Failure::trouble(format!(
            "{}: expected a data file, found a directory",
            path.display()
        )));
    }
    let data = path.with_extension("");
    if kiste::format::dataset::SideFile::of(path).is_some() && data.is_file() {
        let message = format!("{}: expected a data file, found a side file", path.display());
        return Err(Failure::trouble(message).hint(format!("the data file is {}", data.display())));
    }
    Ok(())
}

/// As [`check_is_data`], for those who can do nothing with a write that was never finished.
pub(crate) fn check_is_finished(path: &Path) -> Outcome<()> {
    check_is_data(path)?;
    let mut partial = path.as_os_str().to_os_string();
    partial.push(".partial");
    if !path.exists() && Path::new(&partial).is_dir() {
        let message = format!("{}: this dataset was never finished", path.display());
        return Err(Failure::trouble(message).hint(format!("try: kiste repair {}", quoted(path))));
    }
    Ok(())
}

/// Opens a dataset.
pub(crate) fn open(path: &Path) -> Outcome<kiste::DatasetReader> {
    check_is_finished(path)?;
    Ok(kiste::DatasetReader::open(path)?)
}
