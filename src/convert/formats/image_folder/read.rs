//! Reads samples from files of images.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use rayon::prelude::*;

use super::files::{ImageFile, Place};
use crate::convert::carried::{RemarkLog, Remarks};
use crate::convert::decoded::TextEncoding;
use crate::convert::encoding;
use crate::convert::file_names::{Media, is_image};
use crate::convert::formats::image_bytes::flaw;
use crate::convert::input::{Emit, Input};
use crate::convert::source_file::{self, FileStamp, stamp};
use crate::error::{Error, ErrorKind, Result};
use crate::format::msgpack::{self, sample::KEY};
use crate::format::sample_fields::stored_name;
use crate::storage;

/// Files in a unit: few enough that this many photographs fit into what
/// [`InOrder`](crate::convert::InOrder) reads of a unit ahead. A thread that waits in the middle of
/// its unit reads nothing meanwhile.
const RUN: usize = 32;
/// Files behind URLs that a unit reads at a time.
const TOGETHER: usize = 16;

/// Reads samples `{"key": "label/name.ext", "image": the file's bytes, "label": number}`.
///
/// Files come from a folder with one folder for each label, from patterns with `{LABEL}`, from a
/// list, or from a zip archive: see [`FolderOptions`](super::FolderOptions). They are listed first and read later; units
/// are short runs of them.
///
/// ```
/// use kiste::convert::{ImageFolderReader, InOrder, Input, Source};
///
/// # let dir = tempfile::tempdir()?;
/// for name in ["cat/1.jpg", "cat/10.jpg", "cat/2.jpg", "dog/1.jpg"] {
///     # std::fs::create_dir_all(dir.path().join(name).parent().unwrap())?;
///     std::fs::write(dir.path().join(name), b"an image")?;
/// }
/// let folder = ImageFolderReader::open(dir.path())?;
/// assert_eq!(folder.label_names().unwrap(), ["cat", "dog"]);
/// let batch = InOrder::new(folder).next_batch()?;
/// assert_eq!(kiste::format::msgpack::key(batch[2].as_ref().unwrap())?, Some("cat/10.jpg"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(alias = "ImageFolder")]
#[must_use]
pub struct ImageFolderReader {
    pub(super) place: Place,
    pub(super) files: Vec<ImageFile>,
    pub(super) labels: Option<Vec<String>>,
    /// Whether samples have the name of the label and not its number.
    pub(super) text_labels: bool,
    /// The names of the columns of a list, except path and label.
    pub(super) columns: Vec<String>,
    pub(super) skipped: u64,
    pub(super) max_bytes: u64,
    /// The encoding of text; `None` is UTF-8.
    pub(super) encoding: Option<TextEncoding>,
    /// Size and time of each file of a folder, once they were needed.
    pub(super) stamps: OnceLock<Vec<FileStamp>>,
    /// Files whose names cannot be part of a key. If there are any, they are the first unit.
    pub(super) unnamed: Vec<PathBuf>,
    pub(super) remarks: RemarkLog,
    /// What the files are.
    pub(super) media: Media,
}

impl ImageFolderReader {
    /// The number of skipped files, whose names are no image files' and were not asked
    /// for, and images without a label because they are next to the folders of labels.
    pub fn skipped(&self) -> u64 {
        self.skipped
    }

    /// The same reader, which reports these first.
    pub(super) fn with_unnamed(self, unnamed: Vec<PathBuf>) -> ImageFolderReader {
        ImageFolderReader { unnamed, ..self }
    }

    /// The paths of all files, which are their keys.
    pub(super) fn keys(&self) -> impl Iterator<Item = &str> {
        self.files.iter().map(|file| &*file.key)
    }

    /// The folder of the files.
    pub(super) fn folder(&self) -> &Path {
        self.place.path()
    }

    /// The files of a unit; `None` for the unit of those without a name.
    fn files_of(&self, unit: usize) -> Option<Range<usize>> {
        let unit = unit.checked_sub(usize::from(!self.unnamed.is_empty()))?;
        let start = unit.saturating_mul(RUN).min(self.files.len());
        Some(start..start.saturating_add(RUN).min(self.files.len()))
    }

    /// Sizes and times of all files of a folder. For cached files of 4 KiB this takes a third of
    /// the time of reading them. On a disk it mostly waits, for what opening the files would wait
    /// for as well, so it is done on all cores.
    fn stamps(&self) -> Option<&[FileStamp]> {
        // Behind a URL it would be a request for each.
        #[cfg_attr(
            not(feature = "zip"),
            expect(irrefutable_let_patterns, reason = "archives need the feature zip")
        )]
        let Place::Folder(root) = &self.place else { return None };
        if storage::is_url(root.folder()) {
            return None;
        }
        let all = || self.files.par_iter().map(|file| stamp(&root.join(file.path()))).collect();
        Some(self.stamps.get_or_init(all))
    }

    /// Whether reading any of these files is a round trip over a network.
    fn is_remote(&self, files: Range<usize>) -> bool {
        match &self.place {
            Place::Folder(root) if storage::is_url(root.folder()) => true,
            Place::Folder(_) => self.files[files].iter().any(|file| storage::is_url(file.path())),
            #[cfg(feature = "zip")]
            Place::Zip(archive) => archive.is_remote(),
        }
    }

    /// Reads files behind URLs: several at a time, as each is a round trip or two.
    fn read_together(&self, unit: usize, files: Range<usize>, emit: &mut Emit<'_>) -> Result<()> {
        #[cfg(feature = "zip")]
        if let Place::Zip(archive) = &self.place {
            let mut fetched = files.start;
            for index in files.clone() {
                if index == fetched {
                    fetched += archive.fetch(index..files.end)?;
                }
                emit(self.sample(unit, index))?;
            }
            return Ok(());
        }
        for start in files.clone().step_by(TOGETHER) {
            let some = start..files.end.min(start + TOGETHER);
            let some: Vec<usize> = some.collect();
            let samples = storage::in_parallel(&some, TOGETHER, |&index| self.sample(unit, index));
            samples.into_iter().try_for_each(&mut *emit)?;
        }
        Ok(())
    }

    /// The packed sample of a file.
    fn sample(&self, unit: usize, index: usize) -> Result<Vec<u8>> {
        let file = &self.files[index];
        let located = |error: Error| match &self.place {
            Place::Folder(root) => error.at(storage::shown(&root.join(file.path()))),
            #[cfg(feature = "zip")]
            Place::Zip(archive) => error.at(archive.path()).with_key(&*file.key),
        };
        let told = |error: Error| match &file.row {
            Some(row) => row.locate(error),
            None => error,
        };
        let (mut out, image) = self.content(index).map_err(|error| located(told(error)))?;
        self.look_at(unit, file, &out[image..]);
        if self.is_text(file) {
            make_text(&mut out, image, self.encoding).map_err(located)?;
        }
        if let Some(row) = &file.row {
            row.tail(&self.packed_label(file)?, &mut out);
            return Ok(out);
        }
        if file.label.is_some() {
            msgpack::write_text("label", &mut out)?;
            self.write_label(file, &mut out)?;
        }
        for (name, value) in self.columns.iter().zip(&file.extra) {
            msgpack::write_text(stored_name(name), &mut out)?;
            out.extend_from_slice(value);
        }
        Ok(out)
    }

    fn is_text(&self, file: &ImageFile) -> bool {
        match &file.row {
            Some(_) => Media::of(file.path()) == Some(Media::Text),
            None => self.media == Media::Text,
        }
    }

    /// Whether anything of it is text in files: samples, or rows about them.
    pub(super) fn has_text(&self) -> bool {
        self.files.iter().any(|file| file.row.is_some() || self.is_text(file))
    }

    /// Notes what is hardly an image.
    fn look_at(&self, unit: usize, file: &ImageFile, image: &[u8]) {
        // What was asked for by another name is something else.
        let Some(flaw) = Some(image).filter(|_| is_image(file.path())).and_then(flaw) else {
            return;
        };
        let path = || match &self.place {
            Place::Folder(root) => root.join(file.path()),
            #[cfg(feature = "zip")]
            Place::Zip(archive) => archive.path().join(file.path()),
        };
        let place = || storage::Shown::of(&path()).to_string();
        self.remarks.note(unit, flaw, None, 1, place);
    }

    /// The packed sample up to the end of the image, and where that begins.
    fn content(&self, index: usize) -> Result<(Vec<u8>, usize)> {
        let file = &self.files[index];
        match &self.place {
            Place::Folder(root) => {
                let content = self.content_of(file, &root.path(file.path())?);
                content.map_err(|error| error.shown_at(root.join(file.path())))
            }
            #[cfg(feature = "zip")]
            Place::Zip(archive) => {
                let image = archive.read(index)?;
                let mut out = self.head(file, image.len())?;
                let start = out.len();
                out.extend_from_slice(&image);
                Ok((out, start))
            }
        }
    }

    /// The same for a file on disk, which is read directly into the sample: a copy would cost as
    /// much as reading.
    fn content_of(&self, file: &ImageFile, path: &Path) -> Result<(Vec<u8>, usize)> {
        let mut before = 0;
        let out = source_file::read_whole(path, self.max_bytes, |len| {
            let head = self.head(file, len)?;
            before = head.len();
            Ok(head)
        })?;
        Ok((out, before))
    }

    /// Writes the label as it is in samples, if there is one.
    fn write_label(&self, file: &ImageFile, out: &mut Vec<u8>) -> Result<()> {
        match (file.label, &self.labels) {
            (Some(label), Some(labels)) if self.text_labels => {
                msgpack::write_text(&labels[label as usize], out)?;
            }
            (Some(label), _) => msgpack::encode(&label.into(), out)?,
            (None, _) => {}
        }
        Ok(())
    }

    fn packed_label(&self, file: &ImageFile) -> Result<Vec<u8>> {
        let mut out = Vec::new();
        self.write_label(file, &mut out)?;
        Ok(out)
    }

    /// The packed sample up to the start of an image of `len` bytes, with room for the image.
    fn head(&self, file: &ImageFile, len: usize) -> Result<Vec<u8>> {
        if let Some(row) = &file.row {
            let label = self.packed_label(file)?;
            let mut out = Vec::with_capacity(16 + row.size() + label.len() + len);
            row.head(&label, len, &mut out)?;
            return Ok(out);
        }
        let extra: usize = file.extra.iter().map(|value| value.len()).sum();
        let names: usize = self.columns.iter().map(|name| name.len() + 5).sum();
        let label = match (file.label, &self.labels) {
            (Some(label), Some(labels)) if self.text_labels => labels[label as usize].len(),
            _ => 0,
        };
        let mut out = Vec::with_capacity(65 + file.key.len() + extra + names + label + len);
        let fields = 2 + usize::from(file.label.is_some()) + file.extra.len();
        msgpack::write_map(fields, &mut out)?;
        msgpack::write_text(KEY, &mut out)?;
        msgpack::write_text(&file.key, &mut out)?;
        msgpack::write_text(self.media.field(), &mut out)?;
        msgpack::write_bin_len(len, &mut out)?;
        Ok(out)
    }
}

/// Makes a string of the bytes that a sample ends with, which begin here. A byte order mark is no part of it.
fn make_text(out: &mut Vec<u8>, start: usize, encoding: Option<TextEncoding>) -> Result<()> {
    let bytes = out.split_off(start);
    let header = match bytes.len() {
        0..=0xff => 2,
        0x100..=0xffff => 3,
        _ => 5,
    };
    out.truncate(start - header);
    if let Some(encoding) = encoding {
        return Ok(msgpack::write_text(&encoding.text(&bytes)?, out)?);
    }
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&bytes);
    match std::str::from_utf8(bytes) {
        Ok(text) => Ok(msgpack::write_text(text, out)?),
        Err(_) => {
            Err(encoding::flaw(bytes, None)
                .unwrap_or_else(|| encoding::wide_error("UTF-8", "UTF-16")))
        }
    }
}

impl Input for ImageFolderReader {
    fn units(&self) -> usize {
        self.files.len().div_ceil(RUN) + usize::from(!self.unnamed.is_empty())
    }

    fn read(&self, unit: usize, emit: &mut Emit<'_>) -> Result<()> {
        let Some(files) = self.files_of(unit) else {
            let error = |path| {
                let message = "expected a name in UTF-8, which keys are made of, found other bytes";
                Error::new(ErrorKind::Invalid, message).at(path)
            };
            return self.unnamed.iter().try_for_each(|path| emit(Err(error(path))));
        };
        if self.is_remote(files.clone()) {
            return self.read_together(unit, files, emit);
        }
        for index in files {
            emit(self.sample(unit, index))?;
        }
        Ok(())
    }

    fn remarks(&self, unit: usize) -> Remarks {
        self.remarks.take(unit)
    }

    /// Keys are paths below the folder, so the folder is all that is missing.
    fn path(&self, _unit: usize) -> Option<&Path> {
        Some(match &self.place {
            Place::Folder(root) => root.folder(),
            #[cfg(feature = "zip")]
            Place::Zip(archive) => archive.path(),
        })
    }

    /// A missing file counts as empty: reading it reports the error.
    fn bytes(&self, unit: usize) -> Option<u64> {
        let stamps = self.stamps()?;
        let Some(files) = self.files_of(unit) else { return Some(0) };
        Some(stamps[files].iter().flatten().map(|(bytes, _)| bytes).sum())
    }

    /// Names, labels, and sizes and times of files, which show whether an image has changed.
    fn identify(&self, add: &mut dyn FnMut(&[u8])) {
        source_file::identify(self.stamps().unwrap_or_default(), add);
        for file in &self.files {
            add(file.path().as_bytes());
            add(file.key.as_bytes());
            add(&file.label.unwrap_or(u32::MAX).to_le_bytes());
            file.extra.iter().for_each(|value| add(value));
            file.row.iter().for_each(|row| add(row.bytes()));
        }
        self.labels.iter().flatten().for_each(|label| add(label.as_bytes()));
        self.unnamed.iter().for_each(|path| add(path.as_os_str().as_encoded_bytes()));
    }

    fn len_hint(&self) -> Option<u64> {
        Some(self.files.len() as u64)
    }

    fn label_names(&self) -> Option<&[String]> {
        self.labels.as_deref().filter(|_| !self.text_labels)
    }
}
