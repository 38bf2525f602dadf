//! A folder of images, one folder a label: `{label}/name.ext`.

use std::fs;
use std::path::{Path, PathBuf};

use rayon::prelude::*;
use serde::Serialize;

use super::{Source, natural_order};
use crate::error::{Error, ErrorKind, Result};

/// Files that are read at a time.
const BATCH: usize = 256;
/// What is taken for an image.
const EXTENSIONS: &[&str] = &[
    "avif", "bmp", "gif", "jpeg", "jpg", "jp2", "jxl", "png", "ppm", "pgm", "tif", "tiff", "webp",
];

/// Reads samples `{"key": "label/name.ext", "image": the file's bytes, "label": number}`.
///
/// Labels are the names of the folders, numbered in [natural order](natural_order); the images of
/// a label come in that order too. Deeper folders belong to the label above them. Hidden files,
/// and files that are no images by their extension, are skipped and counted.
pub struct ImageFolder {
    root: PathBuf,
    /// Paths below the root, with `/` between the parts, and labels.
    files: std::vec::IntoIter<(String, u32)>,
    labels: Vec<String>,
    skipped: u64,
    len: u64,
}

#[derive(Serialize)]
struct Sample<'a> {
    key: &'a str,
    #[serde(serialize_with = "as_bytes")]
    image: &'a [u8],
    label: u32,
}

fn as_bytes<S: serde::Serializer>(bytes: &&[u8], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_bytes(bytes)
}

impl ImageFolder {
    /// Lists the images; none is read yet.
    ///
    /// # Errors
    ///
    /// [`Invalid`](ErrorKind::Invalid) if there is no folder with an image in it, or a name that
    /// is not UTF-8 and so cannot be a key.
    pub fn open(root: impl AsRef<Path>) -> Result<ImageFolder> {
        let root = root.as_ref().to_path_buf();
        let mut labels = Vec::new();
        for entry in list(&root)? {
            if entry.is_dir() {
                labels.push(name_of(&entry)?);
            }
        }
        labels.sort_by(|a, b| natural_order(a, b));
        let mut files = Vec::new();
        let mut skipped = 0;
        for (label, name) in (0u32..).zip(&labels) {
            let mut found = Vec::new();
            collect(&root.join(name), name, &mut found, &mut skipped)?;
            found.sort_by(|a, b| natural_order(a, b));
            files.extend(found.into_iter().map(|path| (path, label)));
        }
        if files.is_empty() {
            let message = "expected folders of images ({label}/name.ext), found none";
            return Err(Error::new(ErrorKind::Invalid, message).at(root));
        }
        let len = files.len() as u64;
        Ok(ImageFolder { root, files: files.into_iter(), labels, skipped, len })
    }

    /// Files that are no images by their name.
    pub fn skipped(&self) -> u64 {
        self.skipped
    }
}

fn list(dir: &Path) -> Result<Vec<PathBuf>> {
    let at = |e| Error::io(dir, e);
    let entries = fs::read_dir(dir).map_err(at)?;
    let visible = |path: &PathBuf| {
        path.file_name().is_some_and(|name| !name.as_encoded_bytes().starts_with(b"."))
    };
    let paths = entries.map(|entry| entry.map(|e| e.path()).map_err(at));
    paths.filter(|path| path.as_ref().map_or(true, visible)).collect()
}

fn collect(dir: &Path, key: &str, files: &mut Vec<String>, skipped: &mut u64) -> Result<()> {
    for path in list(dir)? {
        let key = format!("{key}/{}", name_of(&path)?);
        if path.is_dir() {
            collect(&path, &key, files, skipped)?;
        } else if is_image(&path) {
            files.push(key);
        } else {
            *skipped += 1;
        }
    }
    Ok(())
}

fn name_of(path: &Path) -> Result<String> {
    let name = path.file_name().unwrap_or_default();
    name.to_str().map(str::to_string).ok_or_else(|| {
        Error::new(ErrorKind::Invalid, "the name is not UTF-8, so it cannot be a key").at(path)
    })
}

fn is_image(path: &Path) -> bool {
    let extension = path.extension().and_then(|e| e.to_str()).unwrap_or_default();
    EXTENSIONS.iter().any(|known| extension.eq_ignore_ascii_case(known))
}

impl Source for ImageFolder {
    fn next_batch(&mut self) -> Result<Vec<Result<Vec<u8>>>> {
        let batch: Vec<_> = self.files.by_ref().take(BATCH).collect();
        let root = &self.root;
        let pack = |(key, label): (String, u32)| -> Result<Vec<u8>> {
            let path = root.join(&key);
            let image = fs::read(&path).map_err(|e| Error::io(&path, e))?;
            let sample = Sample { key: &key, image: &image, label };
            rmp_serde::to_vec_named(&sample)
                .map_err(|e| Error::new(ErrorKind::Invalid, e.to_string()).at(path))
        };
        Ok(batch.into_par_iter().map(pack).collect())
    }

    /// Keys are paths below the root, so this is all that is missing.
    fn locate(&self, _item: usize, error: Error) -> Error {
        error.at(&self.root)
    }

    fn len_hint(&self) -> Option<u64> {
        Some(self.len)
    }

    fn label_names(&self) -> Option<&[String]> {
        Some(&self.labels)
    }
}
