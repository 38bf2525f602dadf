//! The format of sources, by their names and first bytes: each format is asked for itself, in their order.

use std::fs;
use std::io;
use std::path::Path;

use super::{Format, all, find};
use crate::convert::compressed;
use crate::convert::file_names::uncompressed;
use crate::convert::formats::def::{FormatDef, Glance};
use crate::convert::source_file::size_of;
use crate::error::{Error, ErrorKind, Remedy, Result};
use crate::storage;

/// The format that all of these certainly are.
pub(in crate::convert) fn detect_all(paths: &[impl AsRef<Path>]) -> Result<Format> {
    let mut known: Option<(Format, &Path)> = None;
    for path in paths {
        let path = path.as_ref();
        let found = detect(path)?;
        match known {
            Some((first, at)) if first != found => {
                let message =
                    format!("{} is {first}, but {} is {found}", at.display(), path.display());
                return Err(
                    Error::new(ErrorKind::Invalid, message).advise("convert one after the other")
                );
            }
            _ => known = Some((found, path)),
        }
    }
    known
        .map(|(format, _)| format)
        .ok_or_else(|| Error::new(ErrorKind::Invalid, "expected something to read"))
}

/// Bytes at the start of a file that are looked at: no format needs more than the 12 bytes of the
/// header of a TFRecord.
const HEAD: usize = 12;

pub(super) fn detect(path: &Path) -> Result<Format> {
    if let Some(format) = find(|def| (def.is_called)(path)) {
        return Ok(format);
    }
    if path.is_dir() {
        return detect_directory(path);
    }
    let by_index = || find(|def| (def.index)(path).is_some_and(|index| index.is_ok()));
    if let Some(format) = path.ends_with("index.json").then(by_index).flatten() {
        return Ok(format);
    }
    // A pipe can be read only once.
    let is_file = match size_of(path) {
        // Objects below a URL that is no object itself.
        Err(error) if error.kind() == io::ErrorKind::NotFound && storage::is_url(path) => {
            return by_index().ok_or_else(|| {
                Error::io(path, error).advise(
                "folders behind URLs are not listed: name the files, such as shard-{000..063}.tar",
            )
            });
        }
        size => size.map_err(|error| Error::io(path, error))?.is_some(),
    };
    let head = if is_file { compressed::head(path, HEAD) } else { Ok(Vec::new()) };
    let head = &head.map_err(|error| Error::io(path, error))?[..];
    let name = &path.file_name().unwrap_or_default().to_string_lossy().to_lowercase()[..];
    let is_empty = is_file && head.is_empty();
    let file = Glance { path, name, plain: uncompressed(name), head, is_empty };
    if let Some(format) = find(|def| (def.begins)(&file)) {
        return Ok(format);
    }
    let mut never_empty = all().flat_map(|def| def.never_empty);
    if is_empty && never_empty.any(|ending| file.plain.ends_with(ending)) {
        return Err(Error::new(ErrorKind::Damaged, "the file is empty").at(path));
    }
    find(|def| (def.is_named)(&file)).ok_or_else(|| unknown(&file))
}

fn detect_directory(path: &Path) -> Result<Format> {
    let index = |def: &FormatDef| (def.index)(path);
    if let Some(format) = find(|def| index(def).is_some_and(|index| index.is_ok())) {
        return Ok(format);
    }
    for entry in fs::read_dir(path).map_err(|error| Error::io(path, error))? {
        let shard = entry.map_err(|error| Error::io(path, error))?.path();
        let ending = shard.extension().unwrap_or_default();
        let is_its_shard = |def: &FormatDef| def.shard.is_some_and(|of| ending == of);
        let Some(format) = find(is_its_shard) else { continue };
        // An index that cannot be read says why.
        index(format.def()).transpose()?;
        let message =
            format!("holds shards such as {}, so it is no folder of images", shard.display());
        let formats = vec!["images", "mds", "parquet", "arrow"];
        return Err(Error::new(ErrorKind::Invalid, message)
            .at(path)
            .with_remedy(Remedy::NameInput(formats)));
    }
    Ok(Format::Images)
}

/// Says what it could be: by its name, or else by its bytes.
fn unknown(file: &Glance<'_>) -> Error {
    let misnamed = all().find_map(|def| (def.misnamed)(file));
    let hint = misnamed.or_else(|| all().find_map(|def| (def.resembled)(file)));
    let (flaw, remedy) = hint.unwrap_or_else(|| {
        let names = Format::readable().map(Format::name).collect();
        ("its name and first bytes do not show which format it has", Remedy::NameInput(names))
    });
    Error::new(ErrorKind::Invalid, flaw).at(file.path).with_remedy(remedy)
}
