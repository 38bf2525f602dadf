//! Images in a zip archive.

#![cfg(feature = "zip")]

use std::collections::{BTreeSet, HashMap, HashSet};
use std::io::{self, Read};
use std::path::Path;

use super::files::{Found, Place, is_metadata};
use super::options::{FolderOptions, are_splits, first_of, names_files};
use super::read::ImageFolderReader;
use crate::convert::carried::{LeftOut, RemarkLog};
use crate::convert::file_names::{Media, is_image};
use crate::convert::source_file::storage_of;
use crate::convert::{natural_order, split_names};
use crate::error::{Error, ErrorKind, Result};
use crate::reader::{Filter, LabelPattern, NamePattern, Reader, ZipDirectory, ZipReader};
use crate::storage;

impl FolderOptions {
    /// Opens the files of an archive that match these patterns, by
    /// [`NamePattern`](crate::reader::NamePattern): `{LABEL}/*` are all files below a folder. Without a
    /// pattern, the label is the outermost folder that does not contain all images; or metadata files
    /// decide, as in a [folder](Self::folder). Feature `zip`.
    ///
    /// # Errors
    ///
    /// Those of [`FileOptions::open_zip`](crate::reader::FileOptions::open_zip);
    /// [`Invalid`](ErrorKind::Invalid) if there is no such file, and
    /// [`Damaged`](ErrorKind::Damaged) if files share their bytes, as in small archives that unpack
    /// to petabytes.
    pub fn zip<S: AsRef<str>>(
        self,
        archive: impl AsRef<Path>,
        patterns: impl IntoIterator<Item = S>,
    ) -> Result<ImageFolderReader> {
        let (storage, archive) = storage_of(archive.as_ref())?;
        let directory = ZipDirectory::open(&*storage, &archive)?;
        let patterns: Vec<String> =
            patterns.into_iter().map(|pattern| pattern.as_ref().to_owned()).collect();
        let mut options = self.without_hidden(&patterns).with_media(&directory)?;
        if let Some(split) = &options.split {
            let names = options.files_in(&directory, false)?;
            let names: Vec<&str> = names.iter().map(|(_, name)| *name).collect();
            options.below = format!("{}{split}/", folder_above(&names));
        }
        let metadata = options.metadata_in(&directory)?;
        let reader = match patterns.is_empty() && !metadata.is_empty() {
            true => options.described_zip(&directory, metadata)?,
            false if options.split.is_some() => options.split_zip(&directory)?,
            false => options.matching_zip(&directory, patterns)?,
        };
        if let Some((count, first)) = directory.backslashed() {
            let place = || format!("{}: {first}", storage::shown(&archive).display());
            reader.remarks.note(0, LeftOut::BackslashName, None, count, place);
        }
        Ok(reader)
    }

    /// The splits of an archive of images: the outermost folders that do not contain all of them, if they are called
    /// like some. If metadata are next to these folders, there are none.
    pub(in crate::convert) fn splits_of_zip(self, archive: &Path) -> Result<Vec<String>> {
        let (storage, archive) = storage_of(archive)?;
        let directory = ZipDirectory::open(&*storage, &archive)?;
        let options = self.without_hidden(&[]).with_media(&directory)?;
        let names = options.files_in(&directory, false)?;
        let names: Vec<&str> = names.iter().map(|(_, name)| *name).collect();
        let above = folder_above(&names);
        let is_next = |name: &str| name.strip_prefix(&above).is_none_or(|rest| !rest.contains('/'));
        if options.metadata_in(&directory)?.iter().any(|(_, name)| is_next(name)) {
            return Ok(Vec::new());
        }
        let folder = |name: &&str| {
            let (folder, _) = name.strip_prefix(&above)?.split_once('/')?;
            Some(folder.to_owned())
        };
        let folders: BTreeSet<String> = names.iter().filter_map(folder).collect();
        let mut folders: Vec<String> = folders.into_iter().collect();
        folders.sort_by(|a, b| natural_order(a, b));
        Ok(if are_splits(&folders) { folders } else { Vec::new() })
    }

    /// The images of a split, whose keys begin below its folder: in folders of labels as on disk, or right in it.
    fn split_zip(self, directory: &ZipDirectory) -> Result<ImageFolderReader> {
        let (images, all) = (self.files_in(directory, false)?, self.files_in(directory, true)?);
        let below = |name: &str| name[self.below.len()..].to_owned();
        let has_labels = images.iter().any(|(_, name)| below(name).contains('/'));
        let (mut found, mut chosen) = (Vec::new(), Vec::new());
        for (number, name) in images {
            let key = below(name);
            let label = key.split_once('/').map(|(label, _)| label.to_owned());
            if label.is_some() == has_labels {
                chosen.push((number, key.clone()));
                found.push(Found::new(key, label));
            }
        }
        let skipped = all.len().saturating_sub(chosen.len()) + self.rest_of_zip(directory)?;
        let reader = ZipReader::of_members(directory.clone(), chosen, self.max_bytes)?;
        reader.check_sizes()?;
        let (place, remarks) = (Place::Zip(Box::new(reader)), RemarkLog::default());
        self.finish(place, found, Vec::new(), skipped as u64, remarks)
    }

    /// How many images are in no split, if they are counted here.
    fn rest_of_zip(&self, directory: &ZipDirectory) -> Result<usize> {
        if !self.counts_rest {
            return Ok(0);
        }
        let split = self.split.as_deref().unwrap_or_default();
        let above = self.below.strip_suffix(&format!("{split}/")).unwrap_or_default().to_owned();
        let all = FolderOptions { below: above.clone(), ..self.clone() };
        let names = all.files_in(directory, false)?;
        Ok(names.iter().filter(|(_, name)| !name[above.len()..].contains('/')).count())
    }

    /// The files of an archive that match these patterns, or all images.
    fn matching_zip(
        self,
        directory: &ZipDirectory,
        mut patterns: Vec<String>,
    ) -> Result<ImageFolderReader> {
        let mut images = 0;
        if patterns.is_empty() {
            let names = self.files_in(directory, false)?;
            let names: Vec<&str> = names.iter().map(|(_, name)| *name).collect();
            patterns.push(guess_pattern(&names));
            images = names.len();
        }
        let named = patterns.iter().all(|pattern| names_files(pattern));
        let patterns = LabelPattern::all(&patterns)?;
        let zip = ZipReader::options().numeric_labels(false).max_bytes(self.max_bytes);
        let zip = zip.filter(self.zip_filter(named));
        let reader = zip.open_directory(directory.clone(), &patterns)?;
        reader.check_sizes()?;
        let loose = images.saturating_sub(reader.len());
        let skipped = match named || !self.filter.include.is_empty() {
            true => 0,
            false => directory.list(&patterns, &self.zip_filter(true)).count() - reader.len(),
        };
        let found = reader.entries().iter();
        let found = found.map(|entry| Found::new(entry.key.clone(), entry.label.clone()));
        let (found, skipped) = (found.collect(), (skipped + loose) as u64);
        let (place, remarks) = (Place::Zip(Box::new(reader)), RemarkLog::default());
        self.finish(place, found, Vec::new(), skipped, remarks)
    }

    /// The images that metadata files in an archive list.
    fn described_zip(
        self,
        directory: &ZipDirectory,
        metadata: Vec<(usize, &str)>,
    ) -> Result<ImageFolderReader> {
        // Metadata may list files that are no images by their names.
        let images = self.files_in(directory, true)?;
        let every = ZipReader::of_members(
            directory.clone(),
            images.iter().map(|(number, name)| (*number, (*name).to_owned())),
            self.max_bytes,
        )?;
        every.check_sizes()?;
        let names = images.iter().chain(&metadata).map(|(_, name)| *name);
        let root = shared_folder(names.collect());
        let below = |name: &str| name[root.len()..].to_owned();
        let members: HashMap<String, usize> =
            images.iter().map(|(number, name)| (below(name), *number)).collect();
        let files: HashMap<String, usize> =
            metadata.iter().map(|(number, name)| (below(name), *number)).collect();
        let open = |name: &str| -> Result<Box<dyn Read + Send>> {
            let number = files.get(name).copied().unwrap_or_default();
            Ok(Box::new(io::Cursor::new(directory.read(number, self.max_bytes)?)))
        };
        let remarks = RemarkLog::default();
        let place = directory.path().join(&root);
        let found = self.listed(&place, files.keys().cloned().collect(), &open, &remarks)?;
        let mut chosen = Vec::with_capacity(found.len());
        for file in &found {
            let number = members.get(file.path()).copied().ok_or_else(|| {
                let found = file.path();
                let message = format!("expected {found:?} in the archive, found no such image");
                let error = Error::new(ErrorKind::NotFound, message);
                match &file.row {
                    Some(row) => row.locate(error),
                    None => error,
                }
                .at(directory.path())
            })?;
            chosen.push((number, file.key.clone()));
        }
        let told: HashSet<usize> = chosen.iter().map(|(number, _)| *number).collect();
        let is_untold = |(name, number): &(&String, &usize)| {
            // As in a folder, where files next to the images may be anything.
            let is_counted = is_image(name) || name.contains('/');
            is_counted && !told.contains(*number) && !files.contains_key(*name)
        };
        let untold = members.iter().filter(is_untold).count() as u64;
        let reader = ZipReader::of_members(directory.clone(), chosen, self.max_bytes)?;
        self.finish(Place::Zip(Box::new(reader)), found, Vec::new(), untold, remarks)
    }

    /// The same options for what an archive holds: images, if there is one. Otherwise audio, video or text.
    fn with_media(mut self, directory: &ZipDirectory) -> Result<FolderOptions> {
        if self.filter.include.is_empty() && self.files_in(directory, false)?.is_empty() {
            let names = self.files_in(directory, true)?;
            let media = names.iter().map(|(_, name)| Media::of(name));
            self.media = first_of(&media.collect::<Vec<_>>());
        }
        Ok(self)
    }

    /// Numbers and names of the images, or of all files, in an archive.
    fn files_in<'a>(
        &self,
        directory: &'a ZipDirectory,
        all: bool,
    ) -> Result<Vec<(usize, &'a str)>> {
        let anywhere = LabelPattern::all(["*"])?;
        let filter = self.zip_filter(all);
        let images = directory.list(&anywhere, &filter);
        let images = images.map(|(number, name, _)| (number, name));
        Ok(images.filter(|(_, name)| name.starts_with(&self.below)).collect())
    }

    /// Numbers and names of the metadata files in an archive.
    fn metadata_in<'a>(&self, directory: &'a ZipDirectory) -> Result<Vec<(usize, &'a str)>> {
        let (anywhere, mut filter) = (LabelPattern::all(["*"])?, self.zip_filter(true));
        filter.include.clear();
        let files = directory.list(&anywhere, &filter).map(|(number, name, _)| (number, name));
        let last = |name: &str| is_metadata(name.rsplit('/').next().unwrap_or_default());
        Ok(files.filter(|(_, name)| last(name) && name.starts_with(&self.below)).collect())
    }

    /// Which files of an archive to read: all that are not excluded, or only images.
    fn zip_filter(&self, all: bool) -> Filter {
        let mut filter = self.filter.clone();
        if !all && filter.include.is_empty() {
            let endings = self.media.endings().iter();
            filter.include = NamePattern::all(endings.map(|e| any_case(e)));
        }
        // macOS adds a file of metadata for each file, with the same extension.
        filter.exclude.push(NamePattern::new("__MACOSX/*"));
        filter
    }

    /// The same options without hidden files and folders, unless these patterns ask for some: as
    /// in folders on disk.
    fn without_hidden(mut self, patterns: &[String]) -> FolderOptions {
        let is_hidden = |pattern: &String| pattern.split('/').any(|part| part.starts_with('.'));
        if !patterns.iter().any(is_hidden) {
            self.filter.exclude.extend(NamePattern::all([".*", "*/.*"]));
        }
        self
    }
}

/// The folder that all of these files are in, with a slash at the end.
fn shared_folder(names: Vec<&str>) -> String {
    let folder = |name: &str| name.rfind('/').map_or(0, |slash| slash + 1);
    let first = names.first().map_or("", |name| &name[..folder(name)]);
    let ends = first.match_indices('/').map(|(at, _)| at + 1);
    let is_shared = |end: &usize| names.iter().all(|name| name.starts_with(&first[..*end]));
    first[..ends.take_while(is_shared).last().unwrap_or(0)].to_owned()
}

/// The pattern of an extension in upper or lower case.
fn any_case(extension: &str) -> String {
    let letter = |c: char| match c.is_ascii_alphabetic() {
        true => format!("[{c}{}]", c.to_ascii_uppercase()),
        false => c.to_string(),
    };
    format!("*.{}", extension.chars().map(letter).collect::<String>())
}

/// Where the labels of an archive are: at the first folder that does not contain all images. So it
/// does not matter whether the archive was made inside the folder of the images or next to it.
/// Images next to the folders are skipped, as on disk.
fn guess_pattern(images: &[&str]) -> String {
    match label_depth(images) {
        Some(depth) => "*/".repeat(depth) + "{LABEL}/*",
        None => "*".to_owned(),
    }
}

/// How many folders contain all images, besides the folder of an image itself; `None` without folders.
fn label_depth(images: &[&str]) -> Option<usize> {
    let names = || images.iter().copied();
    let depth = names().map(|name| name.matches('/').count()).filter(|&depth| depth > 0).min()?;
    let first = names().find(|name| name.contains('/'))?;
    let ends = first.match_indices('/').map(|(at, _)| at + 1).take(depth - 1);
    let is_shared = |end: &usize| names().all(|name| name.starts_with(&first[..*end]));
    Some(ends.take_while(is_shared).count())
}

/// The folders that contain all images, up to one that is called like a split, with slashes.
fn folder_above(images: &[&str]) -> String {
    let first = images.first().copied().unwrap_or_default();
    let mut above = 0;
    while let Some((folder, _)) = first[above..].split_once('/') {
        let end = above + folder.len() + 1;
        let is_shared = images.iter().all(|name| name.starts_with(&first[..end]));
        if !is_shared || split_names::is_split(folder) {
            break;
        }
        above = end;
    }
    first[..above].to_owned()
}
