//! Files of images: in a folder with one folder for each label, by patterns, in a list, or in a zip
//! archive.
//!
//! `files` is what is known of files, `options` finds them and their labels, `list` reads lists of files, `metadata` reads what
//! is known about images from files next to them, and `labels` says what labels may have been meant as.
//! [`ImageFolderReader`] makes samples of the files, and [`ImageFolderWriter`] files of samples. Absent on
//! purpose: anything about the content of images, which is for `image_bytes` and `Images`.

mod archive;
mod files;
mod labels;
mod list;
mod metadata;
mod options;
mod read;
mod write;

use std::path::Path;

pub(in crate::convert) use files::is_metadata;
pub use options::FolderOptions;
pub use read::ImageFolderReader;
pub use write::ImageFolderWriter;

use crate::convert::carried::{Carried, Handling as H, LeftOut as L, ValueKind as V, ValuePlace};
use crate::convert::file_names::is_image;
#[cfg(feature = "formats")]
use crate::convert::formats::csv;
use crate::convert::formats::def::{FormatDef, Keys, Opening, Output, READ, given};
use crate::convert::formats::files::MAX_BYTES;
use crate::convert::masks::{self, AddMasks};
use crate::convert::read_options::{ReadOptions, TEXTS, misplaced};
use crate::convert::samples::Samples;
use crate::error::{Error, ErrorKind, Remedy, Result};
use crate::reader::Labels;
use crate::storage;

pub(in crate::convert) static IMAGES: FormatDef = FormatDef {
    name: "images",
    aliases: &["imagefolder"],
    title: "a folder, a zip archive or patterns of images",
    is_called: is_pattern,
    begins: |file| file.is_zip(".zip"),
    misnamed: |file| {
        let hint = (
            "this is one image, which is no set of samples",
            Remedy::Advice(
                "images are read from the folder that they are in, a zip archive, a pattern such as \
                 'photos/{LABEL}/**' or a table that lists them",
            ),
        );
        is_image(file.plain).then_some(hint)
    },
    never_empty: &[".zip"],
    keys: Keys::Own,
    leaves_out: &[
        (L::EmptyFile, H::Remarked),
        (L::NoImage, H::Remarked),
        (L::CutImage, H::Remarked),
        (L::OtherFile, H::Remarked),
        (L::EmptyLabel, H::Remarked),
        (L::NumberLabel, H::Remarked),
        (L::AlikeLabel, H::Remarked),
        (L::BackslashName, H::Remarked),
    ],
    splits: splits_of,
    open: |sources| {
        let folder = open_folder(sources)?;
        if sources.read.encoding.is_some() && !folder.has_text() {
            return Err(misplaced("encoding", TEXTS, "images"));
        }
        sources.skipped_files = folder.skipped();
        with_masks(folder, sources, sources.paths.iter().all(|path| path.is_dir()))
    },
    output: Output::Directory,
    keeps_labels: true,
    carries,
    create: |new| {
        let writer = ImageFolderWriter::create(new.path)?;
        Ok(Box::new(given(writer, new.labels, ImageFolderWriter::labels)))
    },
    ..READ
};

pub(in crate::convert) static LIST: FormatDef = FormatDef {
    name: "list",
    title: "a table that lists images",
    keys: Keys::Own,
    leaves_out: &[
        (L::SameName, H::Refused),
        (L::TextAfterQuote, H::Remarked),
        (L::LinesInQuotes, H::Remarked),
        (L::JoinedRows, H::Refused),
        (L::OtherLength, H::Refused),
        (L::OtherEncoding, H::Refused),
        (L::EmptyFile, H::Remarked),
        (L::NoImage, H::Remarked),
        (L::CutImage, H::Remarked),
        (L::NumberLabel, H::Remarked),
        (L::AlikeLabel, H::Remarked),
    ],
    #[cfg(feature = "formats")]
    notices: |sources| csv::notices(sources, list::delimiter_of),
    open: |sources| {
        let list = sources.only("a list of files")?;
        with_masks(open_list(sources.read, list)?, sources, true)
    },
    ..READ
};

/// All but the image and its label are fields of lines in the notation.
pub(super) fn carries(kind: V, _: ValuePlace) -> Carried {
    Carried::in_notation(kind)
}

/// Whether this is no file but a pattern of some.
pub(in crate::convert) fn is_pattern(path: &Path) -> bool {
    let is_name = |_: &&str| !storage::is_url(path) && path.symlink_metadata().is_err();
    let pattern = path.to_str().filter(is_name);
    pattern.is_some_and(|pattern| pattern.contains("{LABEL}") || pattern.contains(['*', '?', '[']))
}

/// The splits of a folder or an archive, unless options say where the labels are.
fn splits_of(sources: &Opening<'_>) -> Result<Vec<String>> {
    let read = sources.read;
    let [path] = sources.paths else { return Ok(Vec::new()) };
    if !read.pattern.is_empty() || read.list_option().is_some() || is_pattern(path) {
        return Ok(Vec::new());
    }
    let options = folder_options(read);
    match path.is_dir() {
        true => options.splits_of_folder(path),
        false => options.splits_of_zip(path).map_err(|error| no_folder(path, error)),
    }
}

/// The error of what is no archive: behind a URL it may be a folder.
fn no_folder(path: &Path, error: Error) -> Error {
    match error.kind() {
        ErrorKind::NotFound if storage::is_url(path) => error.advise(
            "folders behind URLs are not listed: read a table that lists the images, as --from list \
             does",
        ),
        _ => error,
    }
}

/// Images of a folder, of patterns, or of an archive.
fn open_folder(sources: &Opening<'_>) -> Result<ImageFolderReader> {
    let read = sources.read;
    if let Some(option) = read.list_option() {
        return Err(misplaced(option, "list", "images"));
    }
    let options = folder_options(read).own_keys(!sources.replaces_key).kept(sources.kept.clone());
    let options =
        given(options, sources.split, FolderOptions::split).counts_rest(sources.counts_rest);
    let options = match sources.labels {
        Some(labels) if read.labels.is_none() => options.shared_labels(labels),
        _ => options,
    };
    if sources.paths.iter().all(|path| is_pattern(path)) {
        if let Some(pattern) = read.pattern.first() {
            let message = format!("{pattern} was given, but the source is a pattern too");
            return Err(Error::new(ErrorKind::Invalid, message)
                .with_option("pattern")
                .advise("give the folder as the source"));
        }
        return options.patterns(sources.paths.iter().filter_map(|path| path.to_str()));
    }
    let [path] = sources.paths else {
        let expected = "expected a folder, an archive, or patterns alone";
        let message = format!("{expected}, found {} names", sources.paths.len());
        return Err(Error::new(ErrorKind::Invalid, message));
    };
    match read.pattern.is_empty() {
        _ if storage::is_url(path) => {
            options.zip(path, &read.pattern).map_err(|error| no_folder(path, error))
        }
        _ if path.is_file() => options.zip(path, &read.pattern),
        true => options.folder(path),
        false => options.root(path).patterns(&read.pattern),
    }
}

/// The samples of images, with their masks. Their keys are paths, but for archives and patterns.
fn with_masks(
    images: ImageFolderReader,
    sources: &Opening<'_>,
    are_paths: bool,
) -> Result<Samples> {
    let pattern = sources.read.masks.as_deref().filter(|_| sources.kept.needs(masks::FIELD));
    let Some(pattern) = pattern else { return Ok(Samples::units(images)) };
    if !are_paths || !sources.read.pattern.is_empty() {
        let message = "is for images in a folder or a list of files, without patterns";
        return Err(Error::new(ErrorKind::Invalid, message).with_option("masks"));
    }
    let max_bytes = sources.read.max_bytes.unwrap_or(MAX_BYTES);
    let masks = AddMasks::new(pattern.parse()?, max_bytes, images.folder(), images.keys());
    Ok(Samples::units(images).changed(masks))
}

/// Images of a list.
fn open_list(read: &ReadOptions, list: &Path) -> Result<ImageFolderReader> {
    if !read.pattern.is_empty() {
        return Err(misplaced("pattern", "images", "list"));
    }
    let options = folder_options(read).guess_types(read.guess_types).quotes(!read.plain_quotes);
    let options = given(options, read.root.as_ref(), FolderOptions::root);
    let options = given(options, read.header, FolderOptions::header);
    #[cfg(feature = "formats")]
    let options = options.delimiter(csv::delimiter(read, list::delimiter_of(list))?);
    options.list(list)
}

fn folder_options(read: &ReadOptions) -> FolderOptions {
    // Masks next to images are none themselves.
    let masks = read.masks.iter().filter(|masks| masks.starts_with('*'));
    // What is a class of characters to a pattern of names is itself here.
    let masks: Vec<String> =
        masks.map(|masks| masks.replace('[', "[[]").replace('?', "[?]")).collect();
    let options = ImageFolderReader::options()
        .text_labels(read.text_labels)
        .include(&read.include)
        .exclude(read.exclude.iter().chain(&masks))
        .allow_outside(read.allow_outside);
    let options = given(options, read.labels.as_ref().map(Labels::file), FolderOptions::labels);
    let options = given(options, read.encoding, FolderOptions::encoding);
    given(options, read.max_bytes, FolderOptions::max_bytes)
}
