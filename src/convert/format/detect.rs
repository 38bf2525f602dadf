//! The format of sources, by their names and first bytes: each format is asked for itself, in their order.

use std::fs;
use std::io;
use std::path::Path;

use super::{Format, all, find};
use crate::convert::compressed;
use crate::convert::file_names::uncompressed;
use crate::convert::formats::def::Glance;
use crate::convert::source_file::size_of;
use crate::error::{Error, ErrorKind, Remedy, Result};
use crate::storage;

/// Bytes at the start of a file that are looked at: no format needs more than the 12 bytes of the
/// header of a TFRecord.
const HEAD: usize = 12;

pub(in crate::convert) fn detect(path: &Path) -> Result<Format> {
    if let Some(format) = find(|def| (def.is_called)(path)) {
        return Ok(format);
    }
    if path.is_dir() {
        return detect_directory(path);
    }
    if let Some(format) = path.ends_with("index.json").then(|| of_index(path)).flatten() {
        return Ok(format);
    }
    // A pipe can be read only once.
    let is_file = match size_of(path) {
        // Objects below a URL that is no object itself.
        Err(error) if error.kind() == io::ErrorKind::NotFound && storage::is_url(path) => {
            return of_index(path).ok_or_else(|| {
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
    if let Some(format) = of_index(path) {
        return Ok(format);
    }
    for entry in fs::read_dir(path).map_err(|error| Error::io(path, error))? {
        let file = entry.map_err(|error| Error::io(path, error))?.path();
        let name = file.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
        let Some(format) = in_folder(&name, &file).filter(|_| name != "index.json") else {
            continue;
        };
        // An index that cannot be read says why.
        (format.def().index)(path).transpose()?;
        return Ok(format);
    }
    Ok(Format::Images)
}

/// The format of a folder or URL that an index says by itself.
pub(in crate::convert) fn of_index(path: &Path) -> Option<Format> {
    find(|def| (def.index)(path).is_some_and(|index| index.is_ok()))
}

/// The format of a file in a folder by its name, which is in lower case.
pub(in crate::convert) fn in_folder(name: &str, path: &Path) -> Option<Format> {
    let file = Glance { path, name, plain: uncompressed(name), head: &[], is_empty: false };
    find(|def| def.in_folder.is_some_and(|is_its| is_its(&file)))
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
