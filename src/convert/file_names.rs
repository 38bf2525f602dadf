//! Names of files: braces, keys, which names are safe, and which are images.

use std::collections::HashSet;
use std::ops::Range;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use super::source_file::size_of;
use crate::error::{Error, ErrorKind, Result};
use crate::storage;
pub use crate::text::braces::expand_braces;

/// Whether a relative name stays inside its folder, on any system.
#[cfg(feature = "zip")]
pub(super) fn stays_within(name: &str) -> bool {
    let is_drive = matches!(name.as_bytes(), [letter, b':', ..] if letter.is_ascii_alphabetic());
    let leads = |part: &str| matches!(part, "" | "." | "..");
    !is_drive && !name.split(['/', '\\']).any(leads) && !name.contains(char::is_control)
}

/// The extensions of images.
pub(super) const IMAGES: &[&str] = &[
    "avif", "bmp", "gif", "jpeg", "jpg", "jp2", "jxl", "png", "ppm", "pgm", "tif", "tiff", "webp",
];

/// What a file holds, by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Media {
    Image,
    Audio,
    Video,
    Text,
}

impl Media {
    /// In the order in which a folder is searched for them.
    pub(super) const ALL: [Media; 4] = [Media::Image, Media::Audio, Media::Video, Media::Text];

    /// The media of a file of this name.
    pub(super) fn of(name: &str) -> Option<Media> {
        let last = name.rsplit('/').next().unwrap_or_default();
        let (_, extension) = last.rsplit_once('.')?;
        let has = |media: &Media| media.endings().iter().any(|e| extension.eq_ignore_ascii_case(e));
        Media::ALL.into_iter().find(has)
    }

    /// The extensions of its files.
    pub(super) fn endings(self) -> &'static [&'static str] {
        match self {
            Media::Image => IMAGES,
            Media::Audio => {
                &["aac", "aif", "aiff", "flac", "m4a", "mp3", "oga", "ogg", "opus", "wav", "wma"]
            }
            Media::Video => &["avi", "m4v", "mkv", "mov", "mp4", "mpeg", "mpg", "webm"],
            Media::Text => &["txt"],
        }
    }

    /// The name of the field.
    pub(super) fn field(self) -> &'static str {
        match self {
            Media::Image => "image",
            Media::Audio => "audio",
            Media::Video => "video",
            Media::Text => "text",
        }
    }
}

/// Whether a file of this name is about data, and has none.
pub(super) fn is_about(name: &str) -> bool {
    matches!(name.split('.').next(), Some("README" | "LICENSE"))
}

/// Whether a file of this name is an image.
pub(super) fn is_image(name: &str) -> bool {
    let last = name.rsplit('/').next().unwrap_or_default();
    is_image_extension(last.rsplit_once('.').map_or("", |(_, extension)| extension))
}

/// Whether this is the extension of an image.
pub(super) fn is_image_extension(extension: &str) -> bool {
    IMAGES.iter().any(|known| extension.eq_ignore_ascii_case(known))
}

/// The files of these patterns. All must exist: it is better to know before hours of work.
pub(super) fn files<P: AsRef<Path>>(patterns: impl IntoIterator<Item = P>) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for pattern in patterns {
        let path = pattern.as_ref();
        let names: Vec<PathBuf> = match path.to_str() {
            // A file of exactly this name needs no expansion.
            Some(pattern) if !path.is_file() => {
                expand_braces(pattern)?.into_iter().map(PathBuf::from).collect()
            }
            _ => vec![path.to_path_buf()],
        };
        for name in names {
            size_of(&name).map_err(|error| Error::io(&name, error))?;
            files.push(name);
        }
    }
    match files.is_empty() {
        true => Err(Error::new(ErrorKind::Invalid, "expected files to read, found none")),
        false => Ok(files),
    }
}

/// Endings that files may have after the ending of their format.
const COMPRESSED: [&str; 3] = ["bz2", "gz", "zst"];

/// The names of the files of a conversion in keys: one for each, and no two are the same unless the
/// files are.
///
/// It is the name of the file without the ending of its format. Where that is the same for two files, all
/// have the path below their common folder; and where even that is, as for `a.csv` and `a.tsv`, the path
/// with its ending.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct KeyNames(Arc<[Option<String>]>);

impl KeyNames {
    pub(super) fn of<P: AsRef<Path>>(paths: &[P]) -> KeyNames {
        let own = paths.iter().map(|path| {
            let name = path.as_ref().file_name().and_then(|name| name.to_str());
            name.map(|name| without_ending(name).to_owned())
        });
        let own: Vec<Option<String>> = own.collect();
        if are_distinct(&own) {
            return KeyNames(own.into());
        }
        let whole = below_common_folder(paths);
        let bare: Vec<Option<String>> =
            whole.iter().map(|path| Some(bare(path.as_ref()?))).collect();
        KeyNames(if are_distinct(&bare) { bare } else { whole }.into())
    }

    /// The name of one of these files.
    pub(super) fn get(&self, file: usize) -> Option<&str> {
        self.0.get(file).and_then(Option::as_deref)
    }

    /// The same, where a key is made of it.
    pub(super) fn name(&self, file: usize, path: &Path) -> Result<&str> {
        self.get(file).ok_or_else(|| {
            let message = "expected a file name in UTF-8, as keys begin with it, found another";
            Error::new(ErrorKind::Invalid, message).at(path)
        })
    }

    /// The names of some of these files.
    pub(super) fn range(&self, files: Range<usize>) -> KeyNames {
        KeyNames(self.0.get(files).unwrap_or_default().into())
    }
}

fn are_distinct(names: &[Option<String>]) -> bool {
    let mut seen = HashSet::with_capacity(names.len());
    names.iter().flatten().all(|name| seen.insert(name))
}

/// The name of a file without the ending of its format, and of its compression: what looks like one, so
/// that files with other endings have the same keys as ever.
fn without_ending(name: &str) -> &str {
    let split = |name: &'_ str, is_ending: fn(&str) -> bool| {
        let at = name.rfind('.').filter(|at| *at > 0 && is_ending(&name[at + 1..]));
        at.unwrap_or(name.len())
    };
    let is_compression = |ending: &str| COMPRESSED.contains(&&*ending.to_lowercase());
    let name = &name[..split(name, is_compression)];
    &name[..split(name, is_ending)]
}

/// The ending of a name, in lower case.
pub(super) fn ending(path: &Path) -> String {
    path.extension().unwrap_or_default().to_string_lossy().to_lowercase()
}

/// A name in lower case without the ending of its compression.
pub(super) fn uncompressed(name: &str) -> &str {
    let plain = COMPRESSED.iter().find_map(|ending| name.strip_suffix(ending)?.strip_suffix('.'));
    plain.unwrap_or(name)
}

/// Letters and digits, but no number and no version: `v1.0-train` and `d.0` have no ending. Files of MNIST
/// are named `images.idx3-ubyte`.
pub(super) fn is_ending(ending: &str) -> bool {
    let letters = ending.strip_suffix("-ubyte").unwrap_or(ending);
    letters.starts_with(|c: char| c.is_ascii_alphabetic())
        && letters.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

fn bare(path: &str) -> String {
    let name = path.rfind('/').map_or(0, |slash| slash + 1);
    format!("{}{}", &path[..name], without_ending(&path[name..]))
}

/// The paths below the folder that has all of them, with slashes.
fn below_common_folder<P: AsRef<Path>>(paths: &[P]) -> Vec<Option<String>> {
    let paths: Vec<Option<Vec<String>>> =
        paths.iter().map(|path| components(path.as_ref())).collect();
    let mut common: Option<&[String]> = None;
    for path in paths.iter().flatten() {
        let folders = &path[..path.len().saturating_sub(1)];
        let shared = common.map_or(folders.len(), |common| {
            common.iter().zip(folders).take_while(|(a, b)| a == b).count()
        });
        common = Some(&folders[..shared]);
    }
    let shared = common.map_or(0, <[String]>::len);
    paths.iter().map(|path| Some(path.as_ref()?[shared..].join("/"))).collect()
}

/// The components of a path or URL from the root on, without those that lead back.
fn components(path: &Path) -> Option<Vec<String>> {
    let path = match storage::is_url(path) {
        true => path.to_path_buf(),
        false => std::path::absolute(path).ok()?,
    };
    let mut components = Vec::new();
    for component in path.components() {
        match component {
            Component::ParentDir => drop(components.pop()),
            Component::CurDir | Component::RootDir => {}
            other => components.push(other.as_os_str().to_str()?.to_owned()),
        }
    }
    Some(components)
}

/// The name of a file without folders and up to its first dot: what keys begin with in datasets of earlier
/// versions, where two files could have the same.
pub(super) fn stem(path: &Path) -> Option<&str> {
    let name = path.file_name()?.to_str()?;
    name.split('.').next().filter(|stem| !stem.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(paths: &[&str]) -> Vec<String> {
        let names = KeyNames::of(paths);
        (0..paths.len()).map(|file| names.get(file).unwrap().to_owned()).collect()
    }

    #[test]
    fn a_file_is_called_by_its_name_without_the_ending_of_its_format() {
        for (path, expected) in [
            ("data.jsonl", "data"),
            ("x/a.b/data.jsonl", "data"),
            ("train-00.tar.gz", "train-00"),
            ("train-00.tgz", "train-00"),
            ("rows.CSV.GZ", "rows"),
            ("adult.data", "adult"),
            ("train.tfrecord-00000-of-00002", "train.tfrecord-00000-of-00002"),
            ("d.0.csv", "d.0"),
            ("v1.0-train.parquet", "v1.0-train"),
            ("v1.0-train", "v1.0-train"),
            ("log.2024-01-01.jsonl.zst", "log.2024-01-01"),
            ("t10k-images.idx3-ubyte", "t10k-images"),
            ("t10k-images-idx3-ubyte.gz", "t10k-images-idx3-ubyte"),
            ("data_batch_1", "data_batch_1"),
            ("shard.00000.mds", "shard.00000"),
            (".tar", ".tar"),
            ("s3://b/x/data.jsonl", "data"),
        ] {
            assert_eq!(names(&[path]), [expected], "{path}");
        }
    }

    #[test]
    fn files_of_one_name_are_called_by_their_paths() {
        for (paths, expected) in [
            (&["a/data.jsonl", "b/data.jsonl"][..], &["a/data", "b/data"][..]),
            (&["/x/a/d.csv", "/x/b/c/d.csv", "/x/b/e.csv"], &["a/d", "b/c/d", "b/e"]),
            (&["d.csv", "x/d.csv"], &["d", "x/d"]),
            (&["a.csv", "a.tsv"], &["a.csv", "a.tsv"]),
            (&["y/a.csv", "y/a.csv.gz", "y/b.csv"], &["a.csv", "a.csv.gz", "b.csv"]),
            (&["s3://b/u/d.csv", "s3://b/v/d.csv"], &["u/d", "v/d"]),
            (&["x/../a/d.csv", "./b/d.csv"], &["a/d", "b/d"]),
            // The same file: its keys do collide.
            (&["d.csv", "./d.csv"], &["d.csv", "d.csv"]),
        ] {
            assert_eq!(names(paths), expected, "{paths:?}");
        }
    }

    /// The keys of any two files are distinct.
    #[test]
    fn different_files_are_called_differently() {
        let (folders, names) =
            (["", "a/", "a/b/", "b/"], ["d", "d.csv", "d.0.csv", "d.0", "d.csv.gz"]);
        let all: Vec<String> =
            folders.iter().flat_map(|folder| names.map(|name| format!("{folder}{name}"))).collect();
        for (at, first) in all.iter().enumerate() {
            for second in &all[at + 1..] {
                let names = KeyNames::of(&[first, second]);
                assert_ne!(names.get(0), names.get(1), "{first} {second}");
            }
        }
        let names = KeyNames::of(&all);
        let distinct: HashSet<_> = (0..all.len()).map(|file| names.get(file)).collect();
        assert_eq!(distinct.len(), all.len());
    }

    #[test]
    fn older_names_end_at_the_first_dot() {
        assert_eq!(stem(Path::new("a.b/train-00.tar.gz")), Some("train-00"));
        assert_eq!(stem(Path::new(".tar")), None);
    }
}
