//! [`FolderOptions`]: which files there are, in which order, and what their labels are.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use rayon::prelude::*;

use super::files::{Found, ImageFile, Place, is_metadata};
use super::labels::Spellings;
use super::read::ImageFolderReader;
use crate::Value;
use crate::convert::carried::{LeftOut, RemarkLog};
use crate::convert::decoded::TextEncoding;
use crate::convert::file_names::{Media, is_about};
use crate::convert::formats::files::MAX_BYTES;
use crate::convert::kept_fields::KeptFields;
use crate::convert::{natural_order, split_names};
use crate::error::{Error, ErrorKind, Remedy, Result};
use crate::reader::labels::LabelMap;
use crate::reader::links::Links;
use crate::reader::{DirectoryReader, FileEntry, Filter, Labels, NamePattern};

/// Where the images of an [`ImageFolderReader`] come from, and which of them are read.
///
/// | | order | key | label |
/// | --- | --- | --- | --- |
/// | [`folder`](Self::folder) | natural, label by label | path below the folder | folder |
/// | [`patterns`](Self::patterns) | natural, pattern by pattern | path from `{LABEL}` on | what `{LABEL}` is |
/// | [`list`](Self::list) | of the list | path as listed | a column |
/// | `zip` (feature `zip`) | of the archive | name from `{LABEL}` on | what `{LABEL}` is |
///
/// Files without the extension of an image are skipped and counted, unless a pattern or
/// [`include`](Self::include) asks for them by more than `*` or `**`; the files of a list are all
/// read. Images next to the folders of labels are skipped and counted too. Labels are numbered in
/// [natural order](natural_order), or as they are [given](Self::labels). If no file has a label,
/// samples have none.
#[derive(Debug, Clone)]
#[must_use]
pub struct FolderOptions {
    pub(super) root: PathBuf,
    pub(super) outside: bool,
    pub(super) filter: Filter,
    pub(super) labels: Labels,
    pub(super) text_labels: bool,
    pub(super) delimiter: Option<u8>,
    pub(super) header: Option<bool>,
    pub(super) guess_types: bool,
    pub(super) quoting: bool,
    /// The encoding of text; `None` is UTF-8.
    pub(super) encoding: Option<TextEncoding>,
    pub(super) own_keys: bool,
    /// The fields that the conversion needs.
    pub(super) kept: KeptFields,
    pub(super) max_bytes: u64,
    /// The only split that is read.
    pub(super) split: Option<String>,
    /// The folder of the split in an archive, with a slash.
    #[cfg(feature = "zip")]
    pub(super) below: String,
    /// Whether images that are of no split are counted here.
    pub(super) counts_rest: bool,
    /// Whether other folders share the labels.
    pub(super) shares_labels: bool,
    /// What the files of folders are.
    pub(super) media: Media,
    /// Whether two spellings of a label are one: yes, unless the caller lists the labels.
    pub(super) joins_spellings: bool,
}

impl Default for FolderOptions {
    fn default() -> FolderOptions {
        FolderOptions {
            root: PathBuf::new(),
            outside: false,
            filter: Filter::default(),
            labels: Labels::Sorted,
            text_labels: false,
            delimiter: None,
            header: None,
            guess_types: false,
            quoting: true,
            encoding: None,
            own_keys: true,
            kept: KeptFields::default(),
            max_bytes: MAX_BYTES,
            split: None,
            #[cfg(feature = "zip")]
            below: String::new(),
            counts_rest: false,
            shares_labels: false,
            media: Media::Image,
            joins_spellings: true,
        }
    }
}

/// The files found in folders.
#[derive(Default)]
struct Walk {
    images: Vec<String>,
    /// Metadata files.
    metadata: Vec<String>,
    /// Files that are no images by their names.
    skipped: Vec<String>,
    /// Images, and folders, whose names cannot be part of a key.
    unnamed: Vec<PathBuf>,
    /// Whether a file was named like an image, kept or not.
    has_image: bool,
    /// Folders below which no file is.
    empty: Vec<String>,
}

/// What was found on the way to the first image; `None` stands for files of another kind.
#[derive(Default)]
struct Look {
    found: Vec<Option<Media>>,
    /// Where links lead that were followed.
    targets: HashSet<PathBuf>,
}

impl Walk {
    /// Whether this is a metadata file, which is added then.
    fn is_metadata(&mut self, path: &str, options: &FolderOptions) -> bool {
        let name = path.rsplit('/').next().unwrap_or_default();
        let is_metadata = is_metadata(name) && !options.excludes(path);
        if is_metadata {
            self.metadata.push(path.to_owned());
        }
        is_metadata
    }
}

impl ImageFolderReader {
    /// Opens a folder with one folder of images for each label: [`FolderOptions::folder`] with
    /// default options.
    ///
    /// # Errors
    ///
    /// Those of [`FolderOptions::folder`].
    pub fn open(root: impl AsRef<Path>) -> Result<ImageFolderReader> {
        ImageFolderReader::options().folder(root)
    }

    /// The options, to be changed before a folder, patterns, a list or an archive is opened.
    pub fn options() -> FolderOptions {
        FolderOptions::default()
    }
}

impl FolderOptions {
    /// The folder that patterns and the paths in lists are relative to. Default: the working
    /// directory, and for a list its own folder.
    pub fn root(mut self, root: impl AsRef<Path>) -> Self {
        self.root = root.as_ref().to_path_buf();
        self
    }

    /// Whether the files that a list or a `metadata.jsonl` names may be anywhere: outside of the folder,
    /// also by a symbolic link, or at URLs. Allow it for lists from people whom you trust: what they
    /// name is read into samples. Default: no.
    pub fn allow_outside(mut self, yes: bool) -> Self {
        self.outside = yes;
        self
    }

    /// Keeps only files that match one of these patterns, by [`NamePattern`](crate::reader::NamePattern).
    /// What must match is the path below the folder or root, or the name in the archive. Default:
    /// all.
    pub fn include<S: Into<String>>(mut self, patterns: impl IntoIterator<Item = S>) -> Self {
        self.filter.include = NamePattern::all(patterns);
        self
    }

    /// Leaves out files that match one of these patterns, even if they are included.
    pub fn exclude<S: Into<String>>(mut self, patterns: impl IntoIterator<Item = S>) -> Self {
        self.filter.exclude = NamePattern::all(patterns);
        self
    }

    /// The labels in the order of their numbers. A file with another label is an error. Default:
    /// all that occur.
    pub fn labels(mut self, labels: Labels) -> Self {
        self.joins_spellings = labels == Labels::Sorted;
        self.labels = labels;
        self
    }

    /// Whether samples have the name of the label instead of its number. Default: no.
    pub fn text_labels(mut self, text_labels: bool) -> Self {
        self.text_labels = text_labels;
        self
    }

    /// The byte between the columns of a list. Default: a comma if its name ends in `.csv`, or in
    /// that and `.bz2`, `.gz` or `.zst`; otherwise a tab.
    pub fn delimiter(mut self, delimiter: u8) -> Self {
        self.delimiter = Some(delimiter);
        self
    }

    /// Whether the first row of a list has the names of the columns. Default: yes if one of them is
    /// `path`, `file`, `file_name`, `filename` or `image`, and no file has that name.
    pub fn header(mut self, header: bool) -> Self {
        self.header = Some(header);
        self
    }

    /// Whether the columns of a list that hold numbers become numbers, as in
    /// [tables](crate::convert::Conversion::guess_types), that of the labels too. Default: no; they are
    /// strings, and labels are numbered.
    pub fn guess_types(mut self, yes: bool) -> Self {
        self.guess_types = yes;
        self
    }

    /// The encoding of text: of lists, metadata files and text files. Default: UTF-8.
    pub fn encoding(mut self, encoding: TextEncoding) -> Self {
        self.encoding = encoding.unless_utf8();
        self
    }

    /// Whether quotes around a value of a list do not belong to it. Default: yes.
    pub fn quotes(mut self, yes: bool) -> Self {
        self.quoting = yes;
        self
    }

    /// Whether a column `key` of metadata is the key. Else it is a field like others, `_key`. Default:
    /// yes.
    pub(in crate::convert) fn own_keys(mut self, yes: bool) -> Self {
        self.own_keys = yes;
        self
    }

    /// Reads only the fields of `metadata.jsonl` that the conversion needs: the others are nil.
    pub(in crate::convert) fn kept(mut self, kept: KeptFields) -> Self {
        self.kept = kept;
        self
    }

    /// Reads only the images of this split.
    pub(in crate::convert) fn split(mut self, split: &str) -> Self {
        self.split = Some(split.to_owned());
        self
    }

    /// Counts images that are next to the folders of splits.
    pub(in crate::convert) fn counts_rest(mut self, yes: bool) -> Self {
        self.counts_rest = yes;
        self
    }

    /// Whether a file is kept, by its path below the folder that is read: filters are for the path below the one that
    /// was named.
    pub(super) fn keeps(&self, path: &str) -> bool {
        match &self.split {
            Some(split) => self.filter.keeps(&format!("{split}/{path}")),
            None => self.filter.keeps(path),
        }
    }

    fn excludes(&self, path: &str) -> bool {
        match &self.split {
            Some(split) => self.filter.excludes(&format!("{split}/{path}")),
            None => self.filter.excludes(path),
        }
    }

    /// The names of the labels of several folders, which have the same numbers in all of them.
    pub(in crate::convert) fn shared_labels(mut self, labels: &[String]) -> Self {
        self.labels = Labels::given(labels.iter().cloned());
        self.shares_labels = true;
        self
    }

    /// Refuses files with more bytes than this. Default: 1 GiB.
    pub fn max_bytes(mut self, max_bytes: u64) -> Self {
        self.max_bytes = max_bytes.min(u64::from(u32::MAX));
        self
    }

    /// Opens the images of a folder: `{label}/name.ext`, where deeper folders belong to the label
    /// above them. Hidden files are skipped. Images next to the folders of labels are skipped and
    /// counted; if there are no others, they are read as images without labels. Links to folders
    /// are followed, except to folders that contain them.
    ///
    /// If there is a `metadata.jsonl` or, with the feature `formats`, a `metadata.csv`, in the
    /// folder or below it, its rows decide which images there are and their order, as in Hugging
    /// Face's `imagefolder`. `file_name`, or `x_file_name` for a field `x`, is the path of the
    /// image relative to the metadata file; the other columns are fields, in that order. A column
    /// `key` of strings is the key and a column `label` of strings is the label; folders are not
    /// labels then. Values are in the notation of [`format::jsonl`](crate::format::jsonl); columns
    /// of numbers in CSV are numbers. To ignore such a file, [exclude](Self::exclude) it.
    ///
    /// # Errors
    ///
    /// [`Invalid`](ErrorKind::Invalid) if there is no image. An image or a folder whose name is not
    /// UTF-8, and so cannot be part of a key, is an error when it is read, before all others.
    pub fn folder(mut self, root: impl AsRef<Path>) -> Result<ImageFolderReader> {
        self.media = self.media_in(root.as_ref())?;
        let root = match &self.split {
            Some(split) => root.as_ref().join(split),
            None => root.as_ref().to_path_buf(),
        };
        let (mut labels, mut loose) = (Vec::new(), Vec::new());
        let (mut found, mut walk, mut links) = (Vec::new(), Walk::default(), Links::default());
        for entry in self.entries(&root, &mut walk)? {
            if entry.is_dir { labels.push(entry.name) } else { loose.push(entry.name) }
        }
        labels.sort_by(|a, b| natural_order(a, b));
        loose.retain(|name| !walk.is_metadata(name, &self));
        for label in &labels {
            let dir = root.join(label);
            walk.has_image = false;
            links.enter(&dir, |links| self.collect(&dir, label, &mut walk, links))?;
            if !walk.has_image {
                walk.empty.push(label.clone());
            }
            let mut keys = std::mem::take(&mut walk.images);
            keys.par_sort_unstable_by(|a, b| natural_order(a, b));
            let label = || Some(label.clone());
            found.extend(keys.into_iter().map(|key| Found::new(key, label())));
        }
        if walk.metadata.is_empty() && self.labels == Labels::Sorted {
            check_is_no_pair(&labels, &walk.empty, &root)?;
        }
        let mut skipped = walk.skipped.len() as u64 + self.rest_of_folder(&root)?;
        if !walk.metadata.is_empty() {
            loose.retain(|name| self.keeps(name) && self.is_media(name));
            loose.extend(found.into_iter().map(|file: Found| file.key));
            // Metadata may list files that are no images by their names.
            loose.append(&mut walk.skipped);
            let reader = self.described(&root, walk.metadata, &loose)?;
            return Ok(reader.with_unnamed(walk.unnamed));
        }
        if found.is_empty() {
            loose.retain(|name| self.keeps(name));
            let files = loose.len();
            let others = loose.iter().filter(|name| !self.takes(name)).cloned();
            walk.skipped.extend(others);
            loose.retain(|name| self.takes(name));
            skipped += (files - loose.len()) as u64;
            loose.sort_by(|a, b| natural_order(a, b));
            found.extend(loose.into_iter().map(|key| Found::new(key, None)));
            labels.clear();
        } else {
            let images = loose.iter().filter(|name| self.keeps(name) && self.is_media(name));
            skipped += images.count() as u64;
        }
        if found.is_empty() {
            // A folder has its entries in any order.
            let first = walk.skipped.iter().min();
            return Err(no_images(first.map(String::as_str), skipped).at(root));
        }
        // A folder without images has a number too, so that two halves of a data set agree.
        let (labels, is_given) = match &self.labels {
            Labels::Sorted => (Labels::given(labels), false),
            given => (given.clone(), true),
        };
        let (place, remarks) = (Place::walked(root), RemarkLog::default());
        self.labels = labels;
        let reader = self.finish(place, found, Vec::new(), skipped, remarks)?;
        if !is_given && reader.labels.is_some() {
            reader.note_empty(&walk.empty);
        }
        Ok(reader.with_unnamed(walk.unnamed))
    }

    /// How many images are next to the folders of splits, if they are counted here.
    fn rest_of_folder(&self, root: &Path) -> Result<u64> {
        let Some(above) = root.parent().filter(|_| self.split.is_some() && self.counts_rest) else {
            return Ok(0);
        };
        let above = if above.as_os_str().is_empty() { Path::new(".") } else { above };
        let entries = self.entries(above, &mut Walk::default())?;
        let is_image = |entry: &&Entry| !entry.is_dir && self.is_media(&entry.name);
        Ok(entries.iter().filter(is_image).count() as u64)
    }

    /// The splits of a folder of images: its folders, if they are called like some and have images. A folder with
    /// metadata has none, as its rows say what there is.
    pub(in crate::convert) fn splits_of_folder(mut self, root: &Path) -> Result<Vec<String>> {
        self.media = self.media_in(root)?;
        let mut walk = Walk::default();
        let entries = self.entries(root, &mut walk)?;
        if entries.iter().any(|entry| !entry.is_dir && is_metadata(&entry.name)) {
            return Ok(Vec::new());
        }
        let folders = entries.into_iter().filter(|entry| entry.is_dir).map(|entry| entry.name);
        let folders: Vec<String> = folders.collect();
        if !are_splits(&folders) {
            return Ok(Vec::new());
        }
        let (mut links, mut with_images) = (Links::default(), Vec::new());
        for folder in folders {
            let (dir, mut walk) = (root.join(&folder), Walk::default());
            links.enter(&dir, |links| self.collect(&dir, &folder, &mut walk, links))?;
            if !(walk.images.is_empty() && walk.unnamed.is_empty()) {
                with_images.push(folder);
            }
        }
        with_images.sort_by(|a, b| natural_order(a, b));
        Ok(if are_splits(&with_images) { with_images } else { Vec::new() })
    }

    /// Opens the files that match these patterns, as [`DirectoryReader`] does.
    ///
    /// # Errors
    ///
    /// Those of [`FileOptions::open`](crate::reader::FileOptions::open), and
    /// [`Invalid`](ErrorKind::Invalid) if there is no such file.
    pub fn patterns<S: AsRef<str>>(
        self,
        patterns: impl IntoIterator<Item = S>,
    ) -> Result<ImageFolderReader> {
        let patterns: Vec<String> =
            patterns.into_iter().map(|pattern| pattern.as_ref().to_owned()).collect();
        let options = DirectoryReader::options().root(&self.root).numeric_labels(false);
        let options = options.allow_outside(self.outside);
        let options = options.filter(self.filter.clone());
        let mut unnamed = Vec::new();
        let reader = options.open_noting(&patterns, &mut unnamed)?;
        unnamed.retain(|path| path.is_dir() || self.takes(&path.to_string_lossy()));
        let (found, skipped) = self.found(&patterns, reader.entries(), &self.root)?;
        if found.is_empty() {
            let message =
                format!("expected images, found none that match {}", patterns.join(" or "));
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        let (place, remarks) = (Place::walked(self.root.clone()), RemarkLog::default());
        let reader = self.finish(place, found, Vec::new(), skipped, remarks)?;
        Ok(reader.with_unnamed(unnamed))
    }

    /// This build cannot read archives, as it says when it opens one.
    #[cfg(not(feature = "zip"))]
    pub(in crate::convert) fn splits_of_zip(self, _: &Path) -> Result<Vec<String>> {
        Ok(Vec::new())
    }

    /// This build cannot read archives.
    #[cfg(not(feature = "zip"))]
    pub(in crate::convert) fn zip<S: AsRef<str>>(
        self,
        archive: impl AsRef<Path>,
        _patterns: impl IntoIterator<Item = S>,
    ) -> Result<ImageFolderReader> {
        Err(unavailable("zip archives", "zip", archive.as_ref()))
    }

    /// This build cannot read lists.
    #[cfg(not(feature = "formats"))]
    pub(in crate::convert) fn list(self, list: impl AsRef<Path>) -> Result<ImageFolderReader> {
        Err(unavailable("lists of files", "formats", list.as_ref()))
    }

    /// The entries of a reader, without those that are not images and were not asked for by name.
    fn found(
        &self,
        patterns: &[String],
        entries: &[FileEntry],
        root: &Path,
    ) -> Result<(Vec<Found>, u64)> {
        let named = patterns.iter().all(|pattern| names_files(pattern));
        let (mut found, mut skipped) = (Vec::new(), 0);
        for entry in entries {
            if !named && !self.takes(&entry.key) {
                skipped += 1;
                continue;
            }
            let path = Path::new(&entry.path).strip_prefix(root).ok().and_then(Path::to_str);
            let path = path.unwrap_or(&entry.path);
            found.push(Found {
                key: entry.key.clone(),
                path: (path != entry.key).then(|| path.to_owned()),
                label: entry.label.clone(),
                extra: Vec::new(),
                row: None,
            });
        }
        Ok((found, skipped))
    }

    /// The entries of a folder that are not hidden, in any order. Of those whose names are not
    /// UTF-8, folders and images are noted, and other files skipped.
    fn entries(&self, dir: &Path, walk: &mut Walk) -> Result<Vec<Entry>> {
        let at = |error| Error::io(dir, error);
        let mut entries = Vec::new();
        for entry in fs::read_dir(dir).map_err(at)? {
            let entry = entry.map_err(at)?;
            let name = entry.file_name();
            if name.as_encoded_bytes().starts_with(b".") {
                continue;
            }
            // The folder has the kind of each entry, except what a link leads to.
            let kind = entry.file_type().map_err(at)?;
            let is_dir = if kind.is_symlink() { entry.path().is_dir() } else { kind.is_dir() };
            match name.to_str() {
                Some(name) => entries.push(Entry { name: name.to_owned(), is_dir }),
                None if is_dir || self.takes(&name.to_string_lossy()) => {
                    walk.has_image = true;
                    walk.unnamed.push(entry.path());
                }
                None => walk.skipped.push(name.to_string_lossy().into_owned()),
            }
        }
        // A folder has its entries in any order.
        walk.unnamed.sort();
        Ok(entries)
    }

    /// Adds the images below a folder.
    fn collect(&self, dir: &Path, key: &str, walk: &mut Walk, links: &mut Links) -> Result<()> {
        for entry in self.entries(dir, walk)? {
            let key = format!("{key}/{}", entry.name);
            if entry.is_dir {
                let dir = dir.join(entry.name);
                links.enter(&dir, |links| self.collect(&dir, &key, walk, links))?;
            } else if !walk.is_metadata(&key, self) {
                walk.has_image |= self.takes(&key);
                if !self.keeps(&key) {
                    continue;
                }
                if self.takes(&key) { walk.images.push(key) } else { walk.skipped.push(key) }
            }
        }
        Ok(())
    }

    /// Whether the name is an image file's, or was asked for.
    fn takes(&self, name: &str) -> bool {
        !self.filter.include.is_empty() || self.is_media(name)
    }

    fn is_media(&self, name: &str) -> bool {
        Media::of(name) == Some(self.media)
    }

    /// What a folder holds: images, if there is one. Otherwise audio, video or text.
    fn media_in(&self, root: &Path) -> Result<Media> {
        let mut look = Look::default();
        if self.filter.include.is_empty() {
            self.look_for_image(root, "", &mut look)?;
        }
        Ok(first_of(&look.found))
    }

    /// Notes what there is in a folder, up to the first image.
    fn look_for_image(&self, dir: &Path, below: &str, look: &mut Look) -> Result<()> {
        let mut folders = Vec::new();
        for entry in self.entries(dir, &mut Walk::default())? {
            let name = format!("{below}{}", entry.name);
            if entry.is_dir {
                folders.push((dir.join(&entry.name), name));
                continue;
            }
            let media = Media::of(&name);
            let is_left_out = is_about(&entry.name) || self.filter.excludes(&name);
            if !is_left_out && !look.found.contains(&media) {
                look.found.push(media);
            }
        }
        for (dir, name) in folders {
            if look.found.contains(&Some(Media::Image)) {
                break;
            }
            // Each folder that links lead to once.
            let target = dir.is_symlink().then(|| dir.canonicalize().ok()).flatten();
            if target.is_none_or(|target| look.targets.insert(target)) {
                self.look_for_image(&dir, &(name + "/"), look)?;
            }
        }
        Ok(())
    }

    /// Numbers the labels.
    pub(super) fn finish(
        mut self,
        place: Place,
        mut found: Vec<Found>,
        columns: Vec<String>,
        skipped: u64,
        remarks: RemarkLog,
    ) -> Result<ImageFolderReader> {
        if found.is_empty() {
            return Err(place.blame(Error::new(ErrorKind::Invalid, "expected images, found none")));
        }
        let media = media_of(&found);
        if columns.iter().any(|name| name == media.field()) {
            let message =
                format!("expected columns of different names, found {:?} again", media.field());
            return Err(place.blame(Error::new(ErrorKind::Invalid, message)));
        }
        let given = match &self.labels {
            Labels::Given(labels) => labels.iter().filter_map(Value::as_str).collect(),
            _ => Vec::new(),
        };
        let occurring = found.iter().filter_map(|file| file.label.as_deref());
        let spellings = match self.joins_spellings {
            true => Spellings::of(given.into_iter().chain(occurring)),
            // A list says how labels are spelled.
            false => Spellings::default(),
        };
        if let Some((count, label, other)) = spellings.replaced() {
            let at = || format!("\"{label}\" next to \"{other}\"");
            remarks.note(0, LeftOut::AlikeLabel, None, count, at);
            found.iter_mut().filter_map(|file| file.label.as_mut()).for_each(|label| {
                *label = spellings.chosen(label).to_owned();
            });
            if let Labels::Given(labels) = &mut self.labels {
                let chosen = labels.iter().map(|label| match label.as_str() {
                    Some(label) => spellings.chosen(label).into(),
                    None => label.clone(),
                });
                let mut chosen: Vec<Value> = chosen.collect();
                let mut seen = HashSet::new();
                chosen.retain(|label| seen.insert(label.to_string()));
                *labels = chosen;
            }
        }
        let values: Vec<Value> =
            found.iter().filter_map(|file| file.label.as_deref().map(Value::from)).collect();
        let labelled = !values.is_empty();
        let map = match labelled || self.shares_labels {
            true => LabelMap::new(&self.labels, values.iter(), true)?,
            false => LabelMap::default(),
        };
        let label = |file: &Found| match &file.label {
            Some(label) => Ok(map.number(&Value::from(&**label))?.try_into().ok()),
            None if !labelled || self.text_labels || file.row.is_some() => Ok(None),
            None => {
                let message = "this file has no label, but others have";
                Err(Error::new(ErrorKind::Invalid, message))
            }
        };
        let mut files = Vec::with_capacity(found.len());
        for file in found {
            let label = label(&file).map_err(|error| place.blame(error).with_key(&file.key))?;
            files.push(ImageFile {
                key: file.key.into(),
                path: file.path.map(Into::into),
                label,
                extra: file.extra.into_iter().map(Into::into).collect(),
                row: file.row.map(Box::new),
            });
        }
        let names = map.labels().iter().map(|label| match label.as_str() {
            Some(name) => name.to_owned(),
            None => label.to_string(),
        });
        let reader = ImageFolderReader {
            labels: (labelled || (self.shares_labels && !map.labels().is_empty()))
                .then(|| names.collect()),
            remarks,
            place,
            files,
            text_labels: self.text_labels,
            columns,
            skipped,
            max_bytes: self.max_bytes,
            encoding: self.encoding,
            stamps: OnceLock::new(),
            unnamed: Vec::new(),
            media,
        };
        // A file says what each number means.
        if !matches!(self.labels, Labels::File(_)) {
            reader.note_labels();
        }
        Ok(reader)
    }
}

/// Fails for a folder of images and one of their masks, by what they are called: they would be labels.
fn check_is_no_pair(folders: &[String], empty: &[String], root: &Path) -> Result<()> {
    const IMAGES: [&str; 6] = ["images", "image", "imgs", "img", "jpegimages", "inputs"];
    const MASKS: [&str; 7] =
        ["masks", "mask", "annotations", "segmentationclass", "segmentations", "labels", "targets"];
    let find = |names: &[&str]| {
        let is_one = |name: &&String| names.contains(&&name.to_lowercase()[..]);
        folders.iter().filter(|name| !empty.contains(name)).find(is_one)
    };
    let (2, Some(images), Some(masks)) = (folders.len(), find(&IMAGES), find(&MASKS)) else {
        return Ok(());
    };
    let message =
        format!("has the folders {images} and {masks}, which seem to be images and their masks");
    Err(Error::new(ErrorKind::Invalid, message).at(root).advise(
        "name the folder of the images, and the masks by --masks 'FOLDER/*.png'; if both names are labels: \
         --pattern '{LABEL}/**'",
    ))
}

/// Files, but no images: how many, and the first of them.
fn no_images(first: Option<&str>, skipped: u64) -> Error {
    let expected = "expected folders of images ({label}/name.ext), found";
    let Some(first) = first else {
        return Error::new(ErrorKind::Invalid, format!("{expected} none"));
    };
    let files = if skipped == 1 { "file" } else { "files" };
    let message = format!("{expected} {skipped} other {files} such as {first}");
    let error = Error::new(ErrorKind::Invalid, message);
    match Path::new(first).extension().and_then(|ending| ending.to_str()) {
        Some(ending) => error.with_remedy(Remedy::IncludeFiles(format!(".{ending}"))),
        None => error,
    }
}

/// The media that come first in the order of all, images if there are none.
///
/// Texts are next to many things: with other files they are none.
pub(super) fn first_of(found: &[Option<Media>]) -> Media {
    let is_found = |media: &Media| match media {
        Media::Text => found == [Some(Media::Text)],
        media => found.contains(&Some(*media)),
    };
    Media::ALL.into_iter().find(is_found).unwrap_or(Media::Image)
}

/// What all of these files are by their names; images if they differ.
fn media_of(found: &[Found]) -> Media {
    let first = found.first().and_then(|file| Media::of(file.path())).unwrap_or(Media::Image);
    match found.iter().all(|file| Media::of(file.path()) == Some(first)) {
        true => first,
        false => Media::Image,
    }
}

/// Whether folders are splits and no labels: all are called so, or two of them for different purposes.
pub(super) fn are_splits(folders: &[String]) -> bool {
    let mut names = folders.iter().map(String::as_str);
    !folders.is_empty() && (split_names::divide(names.clone()) || names.all(split_names::is_split))
}

/// Whether a pattern asks for files by their names, and not only for a folder.
pub(super) fn names_files(pattern: &str) -> bool {
    let last = pattern.rsplit('/').next().unwrap_or_default();
    !matches!(last, "*" | "**" | "{LABEL}")
}

/// The error of a part that this build does not have.
#[cfg(not(all(feature = "zip", feature = "formats")))]
fn unavailable(what: &str, feature: &'static str, path: &Path) -> Error {
    Error::new(ErrorKind::Unsupported, format!("this build of kiste cannot read {what}"))
        .at(path)
        .with_remedy(crate::error::Remedy::Feature(feature))
}

struct Entry {
    name: String,
    is_dir: bool,
}
