//! [`AddMasks`]: images get the masks that are in files of their names.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use rayon::prelude::*;

use super::changed::Change;
use super::source_file::{self, FileStamp, stamp};
use crate::error::{Error, ErrorKind, Result};
use crate::format::msgpack::{self, Cursor, sample};

/// The field of the mask.
pub(super) const FIELD: &str = "mask";

/// Where masks are: a path in which `*` stands for the path of the image below its folder, without its ending.
#[derive(Debug, Clone)]
pub(super) struct MaskPattern {
    before: String,
    after: String,
}

impl FromStr for MaskPattern {
    type Err = Error;

    fn from_str(pattern: &str) -> Result<MaskPattern> {
        match pattern.split_once('*') {
            Some((before, after)) if !after.contains('*') => {
                Ok(MaskPattern { before: before.to_owned(), after: after.to_owned() })
            }
            _ => {
                let message = format!(
                    "needs a * for the name of the image, such as 'masks/*.png' or '*_mask.png', found {pattern:?}"
                );
                Err(Error::new(ErrorKind::Invalid, message).with_option("masks"))
            }
        }
    }
}

impl MaskPattern {
    /// Whether masks are next to their images.
    fn is_next_to_images(&self) -> bool {
        self.before.is_empty()
    }

    /// The mask of an image in this folder.
    fn path(&self, folder: &Path, image: &str) -> PathBuf {
        let name = image.rsplit('/').next().unwrap_or_default();
        let ending = name.rfind('.').map_or(0, |dot| name.len() - dot);
        let stem = &image[..image.len() - ending];
        let path = format!("{}{stem}{}", self.before, self.after);
        if self.is_next_to_images() { folder.join(path) } else { PathBuf::from(path) }
    }
}

/// Adds the mask of each image, whose key is its path.
pub(super) struct AddMasks {
    pattern: MaskPattern,
    max_bytes: u64,
    stamps: Vec<FileStamp>,
}

impl Change for AddMasks {
    type Place = PathBuf;

    const GROWS: bool = true;

    fn place(&self, folder: Option<&Path>) -> PathBuf {
        folder.unwrap_or(Path::new("")).to_path_buf()
    }

    fn identify(&self, add: &mut dyn FnMut(&[u8])) {
        source_file::identify(&self.stamps, add);
    }

    fn change(&self, folder: &PathBuf, packed: Vec<u8>) -> Result<Vec<u8>> {
        self.add(folder, &packed).map_err(|error| error.with_raw(packed))
    }
}

impl AddMasks {
    /// The masks of images of these paths below a folder.
    pub(super) fn new<'a>(
        pattern: MaskPattern,
        max_bytes: u64,
        folder: &Path,
        images: impl Iterator<Item = &'a str>,
    ) -> AddMasks {
        let images: Vec<&str> = images.collect();
        let stamp = |image: &&str| stamp(&pattern.path(folder, image));
        let stamps = images.par_iter().map(stamp).collect();
        AddMasks { pattern, max_bytes, stamps }
    }

    fn add(&self, folder: &Path, packed: &[u8]) -> Result<Vec<u8>> {
        let key = msgpack::check_sample(packed)?;
        let path = self.pattern.path(folder, key);
        let mut mask = Vec::new();
        let read = source_file::read_whole(&path, self.max_bytes, |len| {
            msgpack::write_bin_len(len, &mut mask)?;
            Ok(std::mem::take(&mut mask))
        });
        let mask = read.map_err(|error| error.at(&path).with_key(key).with_field(FIELD))?;
        let mut fields: Vec<(&str, &[u8])> = Vec::new();
        for field in sample::fields(packed)? {
            let (name, value) = field?;
            let name = Cursor::new(name).read_str()?;
            if name == FIELD {
                let message = format!("two fields would be named {FIELD:?}");
                return Err(Error::new(ErrorKind::Invalid, message).with_key(key));
            }
            if name != sample::KEY {
                fields.push((name, value));
            }
        }
        fields.push((FIELD, &mask));
        super::reshape::pack(key, &fields)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_are_named_after_images() {
        let path = |pattern: &str, image: &str| {
            let pattern: MaskPattern = pattern.parse().unwrap();
            pattern.path(Path::new("d"), image)
        };
        assert_eq!(path("m/*.png", "a/b.c.jpg"), Path::new("m/a/b.c.png"));
        assert_eq!(path("*_mask.png", "a.b/c.jpg"), Path::new("d/a.b/c_mask.png"));
        assert_eq!(path("m/*", "a.b/c"), Path::new("m/a.b/c"));
        assert_eq!(path("*.seg.png", "a.jpg"), Path::new("d/a.seg.png"));
        for wrong in ["masks", "*/*.png", ""] {
            assert!(wrong.parse::<MaskPattern>().is_err(), "{wrong}");
        }
    }
}
