//! Names of sources that stand for several: braces, and patterns of files.

use std::path::{Path, PathBuf};

use super::file_names::{expand_braces, is_image};
use super::format::{self, Format};
use super::formats::image_folder::is_pattern;
use crate::dataset::names_shards;
use crate::error::{Error, ErrorKind, Result};
use crate::reader::{PathPattern, check_named};

/// All sources with their braces expanded, and for a pattern the files that match it, in natural order. A
/// source that is there as named is neither. Patterns of images stay: the part of a path that they match is
/// its key. `images` says whether images are asked for.
pub(super) fn expand(
    sources: &[PathBuf],
    from: Option<Format>,
    images: bool,
) -> Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    for source in sources {
        let Some(name) = source.to_str().filter(|_| !source.exists()) else {
            paths.push(source.clone());
            continue;
        };
        for name in expand_braces(name)? {
            match files_of(&name, from, images)? {
                Some(files) => paths.extend(files.into_iter().map(PathBuf::from)),
                None => paths.push(PathBuf::from(name)),
            }
        }
    }
    Ok(paths)
}

/// The files that a pattern matches, unless it is one of images, or of the shards of a dataset.
fn files_of(pattern: &str, from: Option<Format>, images: bool) -> Result<Option<Vec<String>>> {
    let path = Path::new(pattern);
    let of_shards = path.extension().is_some_and(|ending| ending == "msgpack");
    let stays = !is_pattern(path)
        || images
        || from == Some(Format::Images)
        || (of_shards && names_shards(path) && from.is_none_or(|from| from == Format::Dataset));
    if stays {
        return Ok(None);
    }
    let mut unnamed = Vec::new();
    let found = PathPattern::parse(pattern)?.glob_noting(Path::new(""), &mut unnamed)?;
    let files: Vec<String> = found.into_iter().map(|(file, _)| file).collect();
    if from.is_none() {
        // One image is enough, as folders of images have other files too.
        if files.is_empty() || files.iter().any(|file| is_image(file)) {
            return Ok(None);
        }
        if pattern.contains("{LABEL}") {
            return labelled(pattern, &files).map(|()| None);
        }
    }
    // They match, and would be missing.
    check_named(&unnamed)?;
    match files.is_empty() {
        true => {
            let message = format!("expected files, found none that match {pattern}");
            Err(Error::new(ErrorKind::NotFound, message))
        }
        false => Ok(Some(files)),
    }
}

/// Fails for files with labels that are certainly not images, even if they are named like images.
fn labelled(pattern: &str, files: &[String]) -> Result<()> {
    let formats = files.iter().map(|file| format::detect(file.as_ref()));
    let formats = formats.collect::<Result<Vec<_>>>().unwrap_or_default();
    match formats.split_first() {
        Some((found, rest)) if rest.iter().all(|other| other == found) => {
            let message = format!("{pattern} is a pattern of images, but matches {found}");
            Err(Error::new(ErrorKind::Invalid, message))
        }
        _ => Ok(()),
    }
}
