//! [`ReadOptions`]: how a conversion reads its sources.

use serde::{Deserialize, Serialize};

use super::decoded::TextEncoding;
use super::image_choices::{ChromaSubsampling, Resize, StoredAs};
use super::split::is_default;
use crate::error::{Error, ErrorKind};

/// How sources are read: see `option_list`.
macro_rules! read_options {
    ($make:ident) => {
        $crate::convert::option_list::$make! {
            ReadOptions, options.read,
            /// The features of TFRecord that are strings. Default: none; byte strings stay bytes.
            texts: names,
            /// The features of TFRecord that stay lists and arrays even if they have one value, as features of varying
            /// length should. Default: none; one value is that value.
            lists: names,
            /// Whether columns of CSV, TSV and lists that hold numbers become numbers, for which tables are
            /// read twice. Default: no; they are strings.
            guess_types: flag,
            delimiter: own(Option<char>),
            /// Whether quotes around a value of CSV, TSV and lists do not belong to it. Without, a quote is a
            /// character like others, and each line is a row. Default: yes.
            plain_quotes: unless as quotes,
            /// Whether names that begin with `$` have no meaning in JSON lines, as other programs write them.
            /// Default: no; they have the meaning of [`format::jsonl`](crate::format::jsonl).
            plain_json: flag,
            /// The encoding of the text in CSV, TSV, lists, JSON lines, COCO and folders of text files. Bytes that it does not
            /// have are bad input. Default: UTF-8. A byte order mark is no part of the text.
            encoding: value(encoding: TextEncoding),
            /// Refuses a file, line, row, record, page, batch or shard that is larger than this when
            /// decompressed. Default: 1 GiB; 4 GiB for shards of MDS and files of MNIST, 16 GiB for all
            /// arrays of an npz together.
            max_bytes: value(bytes: u64),
            /// Only these splits, where folders, names of files or arrays divide the sources into such as `train` and
            /// `test`. Default: all; several are an error unless they are [merged](Self::merge_splits).
            splits: names,
            /// Whether several splits become one dataset: samples get a field `split`, and its name in front of their
            /// keys, unless these are made of fields. Default: no; they are an error that names them.
            merge_splits: flag,
            /// The files below a directory, or in a zip archive, that are images: patterns such as
            /// `train/{LABEL}/**`. Default: `{LABEL}/**`.
            pattern: names,
            /// Only the images that match one of these patterns. Default: all.
            include: names,
            /// None of the images that match one of these patterns. Default: none.
            exclude: names,
            /// The fields that name files, one or a list of them, in samples of any format: they become the bytes of
            /// these files. A key that is made of such a field is made of the path. Default: none.
            load: names,
            /// Where the masks of images in a folder or list are: a path in which `*` stands for the path of the image,
            /// without its ending, such as `masks/*.png`; next to the images if it begins with `*`, as
            /// `*_mask.png` does. They become the field `mask`. Default: there are no masks.
            masks: text,
            /// The directory that paths in a list are relative to, and files that are [loaded](Self::load). Without the
            /// latter, a source that is a file is a list then. Default: the directory of the list or table.
            root: path,
            /// Whether names in the sources may lead out of their folder: the files of a list, a table, an index or a
            /// manifest. Then they may be anywhere on this machine, also behind symbolic links, and names in a list
            /// also at URLs. For trusted sources only. Default: no.
            allow_outside: flag,
            /// Whether the first row of a list names the columns. Default: detected.
            header: value(yes: bool),
            /// A file with all labels of images, one per line, in the order of their numbers, from 0. Default: the labels
            /// that occur, in natural order.
            labels: path,
            /// Whether samples hold labels as strings instead of numbers: labels of images, and in sources that name their
            /// labels the fields `label` and `labels`. Default: no.
            text_labels: flag,
            /// Resizes images.
            resize: value(size: Resize),
            /// Whether small images become larger too. Default: no.
            upscale: flag,
            /// Encodes images in another format. Default: [`Keep`](StoredAs::Keep).
            image_format: value(format: StoredAs),
            /// The quality of encoded JPEG, 1 to 100. Default: 90.
            quality: value(quality: u8),
            /// The chroma subsampling of encoded JPEG. Default: 4:2:0, [`Both`](ChromaSubsampling::Both).
            subsampling: value(ratio: ChromaSubsampling),
            /// Whether all images are decoded, to find those that are damaged. Default: no.
            verify_images: flag,
            /// The fields that hold images. Default: all that begin like an image.
            image_fields: names,
            /// Refuses images of more pixels than this. Default: 200 million.
            max_pixels: value(pixels: u64),
        }
    };
}

read_options!(fields);
pub(super) use read_options;

impl ReadOptions {
    /// The encoding of text, if it must be decoded.
    #[cfg(feature = "formats")]
    pub(super) fn decoding(&self) -> Option<TextEncoding> {
        self.encoding.and_then(TextEncoding::unless_utf8)
    }

    /// An option for images or lists that was given.
    pub(super) fn folder_option(&self) -> Option<&'static str> {
        match () {
            () if !self.pattern.is_empty() => Some("pattern"),
            () if !self.include.is_empty() => Some("include"),
            () if !self.exclude.is_empty() => Some("exclude"),
            () if self.labels.is_some() => Some("labels"),
            () if self.masks.is_some() => Some("masks"),
            () => self.list_option(),
        }
    }

    /// Whether an option was given that only images have.
    pub(super) fn asks_for_images(&self) -> bool {
        self.list_option().is_none() && self.folder_option().is_some()
    }

    /// An option that only lists have, and that was given.
    pub(super) fn list_option(&self) -> Option<&'static str> {
        match () {
            () if self.root.is_some() => Some("root"),
            () if self.header.is_some() => Some("header"),
            () => None,
        }
    }
}

/// What an encoding is for.
pub(super) const TEXTS: &str = "csv, tsv, list, jsonl, coco and folders of text files";

/// An option was given that is for other formats.
pub(super) fn misplaced(option: &'static str, formats: &str, format: &str) -> Error {
    let message = format!("is for {formats}, but this is {format}");
    Error::new(ErrorKind::Invalid, message).with_option(option)
}
