//! [`Export`]: samples in another format than a dataset, next to their place until they are complete.

use std::fs;
use std::path::{Path, PathBuf};

use super::carried::ChangedValues;
use super::export_dir::ExportDir;
use super::export_form::ExportForm;
use super::format::{Format, Output};
use super::writer::SampleWriter;
use super::{Journal, Place};
use crate::error::{Error, ErrorKind, Remedy, Result};
use crate::regular;
use crate::storage::{LocalStorage, Storage};

/// An output in a directory next to its place: it is moved there when it is complete, and removed if
/// it never is.
pub(super) struct Export {
    form: ExportForm,
    path: PathBuf,
    overwrite: bool,
    // Writers remove their own files when they are dropped, so the writer has to go before the
    // directory.
    writer: Box<dyn SampleWriter>,
    dir: ExportDir,
}

impl Export {
    /// Begins it, if nothing is in its place, or something that may be replaced.
    ///
    /// `labels` are the names of the numeric labels in the samples.
    pub(super) fn create(
        form: ExportForm,
        path: &Path,
        overwrite: bool,
        labels: Option<&[String]>,
    ) -> Result<Export> {
        check_place(form, path, overwrite)?;
        let (dir, path) = (ExportDir::begin(path)?, path.to_path_buf());
        form.format.check_available()?;
        let inner = dir.path().join(path.file_name().unwrap_or_default());
        let writer = form.writer(&inner, labels)?;
        Ok(Export { form, path, overwrite, writer, dir })
    }

    /// Values that became something else so far.
    pub(super) fn changes(&self) -> Vec<ChangedValues> {
        self.writer.changes()
    }

    pub(super) fn writer(&mut self) -> &mut dyn SampleWriter {
        &mut *self.writer
    }

    /// Moves the output to its place. Returns its files, or its directory. Everything is on the disk
    /// before anything gets its name, and `publishing` is called first for each with both names.
    pub(super) fn finish(
        self,
        publishing: impl FnMut(&Path, &Path) -> Result<()>,
    ) -> Result<Vec<PathBuf>> {
        self.writer.finish()?;
        self.dir.sync()?;
        // A file may have appeared there meanwhile, and replacing it was not allowed.
        check_place(self.form, &self.path, self.overwrite)?;
        match self.form.output() {
            Output::Directory if self.path.symlink_metadata().is_ok() => {
                // No file system replaces a directory in one step. This one is removed with the
                // directory of the export, after the new one has its name.
                self.dir.set_aside(&self.path)?;
                let published = publish(&self.dir, &self.path, publishing);
                published.inspect_err(|_| self.dir.put_back(&self.path))
            }
            Output::Shards if self.overwrite => {
                let old = self.form.shards(&self.path)?;
                let files = publish(&self.dir, &self.path, publishing)?;
                remove_for_good(&self.path, old.iter().filter(|shard| !files.contains(shard)))?;
                Ok(files)
            }
            _ => publish(&self.dir, &self.path, publishing),
        }
    }

    /// The same for a trial that is read and thrown away: it is not synced.
    #[cfg(feature = "stat")]
    pub(super) fn finish_trial(self) -> Result<Vec<PathBuf>> {
        self.writer.finish()?;
        publish(&self.dir, &self.path, |_, _| Ok(()))
    }
}

/// Removes shards that were there, more than the new ones: they would be read as part of those. On the disk too, as
/// nothing looks for them once the end is noted.
fn remove_for_good<'a>(path: &Path, old: impl Iterator<Item = &'a PathBuf>) -> Result<()> {
    for old in old {
        fs::remove_file(old).map_err(|error| Error::io(old, error))?;
    }
    LocalStorage::mapped().sync_dir(path.parent().unwrap_or(Path::new("")))
}

fn publish(
    dir: &ExportDir,
    path: &Path,
    mut publishing: impl FnMut(&Path, &Path) -> Result<()>,
) -> Result<Vec<PathBuf>> {
    let names = dir.entries()?;
    let pairs: Vec<(PathBuf, PathBuf)> =
        names.iter().map(|name| (dir.path().join(name), path.with_file_name(name))).collect();
    for (from, to) in &pairs {
        publishing(from, to)?;
    }
    for (from, to) in &pairs {
        fs::rename(from, to).map_err(|error| Error::io(to, error))?;
    }
    let parent = path.parent().unwrap_or(Path::new(""));
    LocalStorage::mapped().sync_dir(parent)?;
    Ok(pairs.into_iter().map(|(_, to)| to).collect())
}

/// Fails if something is there that must stay, before anything is read.
pub(super) fn check_place(form: ExportForm, path: &Path, overwrite: bool) -> Result<()> {
    let exists = |path: &Path| Error::new(ErrorKind::AlreadyExists, "exists already").at(path);
    match form.output() {
        Output::Shards => {
            if let Some(found) = path.metadata().ok().filter(|found| !found.is_file()) {
                let found = regular::name_of(found.file_type());
                let message = format!("expected the name of files to number, found {found}");
                return Err(Error::new(ErrorKind::Invalid, message).at(path));
            }
            match &form.shards(path)?[..] {
                [] => Ok(()),
                _ if overwrite => Ok(()),
                [one] => Err(exists(one).with_remedy(Remedy::Overwrite)),
                [first, .., last] => {
                    let message = format!("exists already, as do all up to {}", last.display());
                    let error = Error::new(ErrorKind::AlreadyExists, message).at(first);
                    Err(error.with_remedy(Remedy::OverwriteAll))
                }
            }
        }
        _ if path.symlink_metadata().is_err() => Ok(()),
        Output::Directory if form.format == Format::Mds => {
            check_is_mds(path)?;
            if overwrite { Ok(()) } else { Err(exists(path).with_remedy(Remedy::Overwrite)) }
        }
        Output::Directory => Err(exists(path).advise(
            "remove it first, or name another: a folder of images is never replaced, as its files \
             may have come from anywhere",
        )),
        _ if path.is_dir() => {
            let message = "expected a file to make, found a directory";
            Err(Error::new(ErrorKind::Invalid, message).at(path))
        }
        _ if overwrite => match path.metadata() {
            Ok(found) if !found.is_file() => {
                let found = regular::name_of(found.file_type());
                let message = format!("expected a regular file to replace, found {found}");
                Err(Error::new(ErrorKind::Invalid, message).at(path))
            }
            _ => Ok(()),
        },
        _ => Err(exists(path)),
    }
}

/// Fails unless this is a folder of MDS with nothing else in it, which would be lost.
fn check_is_mds(path: &Path) -> Result<()> {
    let at = |error| Error::io(path, error);
    let foreign = |found: &Path| {
        let message = "exists already, and is not a folder of MDS alone";
        let error = Error::new(ErrorKind::AlreadyExists, message).at(found);
        error.advise("remove it first, or name another")
    };
    if !path.symlink_metadata().map_err(at)?.is_dir() || !path.join("index.json").is_file() {
        return Err(foreign(path));
    }
    for entry in fs::read_dir(path).map_err(at)? {
        let entry = entry.map_err(at)?;
        let name = entry.file_name();
        let number = name.to_str().and_then(|name| {
            let (number, _) = name.strip_prefix("shard.")?.split_once(".mds")?;
            Some(number.to_owned())
        });
        let is_shard =
            number.is_some_and(|n| n.len() >= 5 && n.bytes().all(|byte| byte.is_ascii_digit()));
        if !(is_shard || name == "index.json") || !entry.file_type().map_err(at)?.is_file() {
            return Err(foreign(&entry.path()));
        }
    }
    Ok(())
}

/// Clears the places of exports that an earlier commit of the same parts began: removes what it
/// published, if that was not everything. True if it was, so that nothing is left to do.
///
/// Of several outputs all are made again: what one cannot hold counts for all of them.
pub(super) fn clear_places(form: ExportForm, paths: &[PathBuf], parts: &Journal) -> Result<bool> {
    paths.iter().try_for_each(|path| ExportDir::clear(path))?;
    let mut all = true;
    for path in paths {
        all &= is_made(form, path, parts)?;
    }
    paths.iter().try_for_each(|path| clear_place(form, path, all, parts))?;
    Ok(all)
}

/// What was about to be published of an output.
fn made_of(form: ExportForm, path: &Path, parts: &Journal) -> Result<Vec<PathBuf>> {
    let made = parts.made()?.into_iter().map(|name| path.with_file_name(name));
    // Of the other outputs of a split nothing is asked here.
    Ok(made.filter(|made| form.is_of(path, made)).collect())
}

/// Whether all of an output is there.
fn is_made(form: ExportForm, path: &Path, parts: &Journal) -> Result<bool> {
    let made = made_of(form, path, parts)?;
    let places: Vec<Place> = made.iter().map(|path| parts.place(path)).collect::<Result<_>>()?;
    Ok(!made.is_empty() && places.into_iter().all(|place| place == Place::Made))
}

/// Removes what is in the place of an output: all that the commit has put there, or if that is to stay, what was
/// there before.
fn clear_place(form: ExportForm, path: &Path, stays: bool, parts: &Journal) -> Result<()> {
    let made = made_of(form, path, parts)?;
    let there = form.files_of(path)?;
    if stays {
        let old: Vec<&PathBuf> = there.iter().filter(|old| !made.contains(old)).collect();
        for old in &old {
            if parts.place(old)? != Place::Before {
                return Err(foreign(old));
            }
        }
        return remove_for_good(path, old.into_iter());
    }
    for path in there {
        let removed = match parts.place(&path)? {
            Place::Free | Place::Before => Ok(()),
            Place::Made if path.is_dir() => fs::remove_dir_all(&path),
            Place::Made => fs::remove_file(&path),
            // Only datasets are published by repairs.
            Place::Begun | Place::Foreign => return Err(foreign(&path)),
        };
        removed.map_err(|error| Error::io(&path, error))?;
    }
    Ok(())
}

/// Something was put in the place of the output after its parts began to be joined.
pub(super) fn foreign(path: &Path) -> Error {
    let message = "something was put in this place after the parts began to be joined";
    Error::new(ErrorKind::Foreign, message)
        .at(path)
        .advise("move it elsewhere, then join the parts again: then the two can be compared")
}
