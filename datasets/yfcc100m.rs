//! YFCC100m: a hundred million photos that people put on Flickr for all to use.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};

use super::parts::{Emit, Sample, Samples, Zip};
use super::{Dataset, Opening, Pass, Split, Take};
use crate::Value;
use crate::error::{Error, ErrorKind, Result};
use crate::format::msgpack;
use crate::regular;

/// YFCC100m.
pub(super) static YFCC100M: Dataset = Dataset {
    name: "YFCC100m",
    title: "100 million photos from Flickr",
    notes: "Python datadings reads the zip files of a release before the first as they are and has no \
            writer. Here all zip files in INDIR become one dataset, with the keys, images and order of \
            that reader. --rejected leaves out images: a list of lines \"ZIP NUMBER\", the name of the \
            zip without .zip and the place of the image in it, or a msgpack file as that of the wheel \
            of datadings (YFCC100m_rejected_images.msgpack.xz, unpacked by xz -d), which names those \
            that are damaged or empty. Without it all images are written.",
    url: "https://multimediacommons.wordpress.com/yfcc100m-core-dataset/",
    licence: "Creative Commons, another one for each photo",
    citation: "Bart Thomee et al.: YFCC100M: The New Data in Multimedia Research. \
               Communications of the ACM 59(2), 2016",
    files: &[],
    splits: &[Split::uncounted("YFCC100m")],
    fields: &[
        ("key", "the name in the archive: ZIP/HASH"),
        ("image", "JPEG as it is in the archive"),
    ],
    classes: &[],
    takes: &[Take::Rejected],
    read,
};

/// Places of images that are left out, by the name of their zip.
type Rejected = HashMap<String, HashSet<u64>>;

fn read(opening: &Opening<'_>) -> Result<Vec<Pass>> {
    let archives = archives(opening.dir)?;
    let rejected = match &opening.options.rejected {
        Some(path) => rejected(path)?,
        None => Rejected::new(),
    };
    let limits = opening.options.limits;
    let files = archives.clone();
    let read = move |path: &PathBuf, emit: &mut Emit<'_, (Zip, String)>| {
        let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
        let rejected = rejected.get(stem);
        let zip = Zip::open(path, limits)?;
        for (at, name) in (0u64..).zip(zip.names().filter(|name| is_image(name))) {
            if !rejected.is_some_and(|rejected| rejected.contains(&at)) {
                emit((zip.clone(), name.to_owned()))?;
            }
        }
        Ok(())
    };
    let make = |(zip, name): (Zip, String)| {
        let image = zip.read(&name)?;
        Sample::new(name).bytes("image", &image).pack()
    };
    Ok(vec![Pass::new(&YFCC100M.splits[0], Samples::streams(archives, read, make).files(files))])
}

/// Images have names of hexadecimal digits in a folder.
fn is_image(name: &str) -> bool {
    let digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    let file = name.rsplit_once('/').map(|(_, file)| file);
    file.is_some_and(|file| !file.is_empty() && file.bytes().all(digit))
}

/// The zip files in a folder, by name.
fn archives(dir: &Path) -> Result<Vec<PathBuf>> {
    let at = |error| Error::io(dir, error);
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).map_err(at)? {
        let path = entry.map_err(at)?.path();
        if path.extension().is_some_and(|extension| extension == "zip") {
            found.push(path);
        }
    }
    if found.is_empty() {
        let message = "expected zip files of YFCC100m, found none";
        return Err(Error::new(ErrorKind::NotFound, message).at(dir));
    }
    found.sort();
    Ok(found)
}

/// Reads a list of images that are left out: text, or a map of lists in msgpack.
fn rejected(path: &Path) -> Result<Rejected> {
    let bytes = regular::read(path).map_err(|error| Error::io(path, error))?;
    let damaged = |message: String| Error::new(ErrorKind::Damaged, message).at(path);
    if let Ok(text) = std::str::from_utf8(&bytes) {
        return lines(text).map_err(damaged);
    }
    let value = msgpack::decode(&bytes).map_err(|error| Error::from(error).at(path))?;
    let map = value.as_map().and_then(|map| map.iter().map(entry).collect());
    map.ok_or_else(|| damaged("expected a map of names to lists of numbers".to_owned()))
}

fn lines(text: &str) -> Result<Rejected, String> {
    let mut found = Rejected::new();
    for (at, line) in text.lines().enumerate() {
        let pair = line.split_once(' ').map(|(zip, number)| (zip, number.parse()));
        let Some((zip, Ok(number))) = pair else {
            return Err(format!("line {}: expected \"ZIP NUMBER\", found {line:?}", at + 1));
        };
        found.entry(zip.to_owned()).or_default().insert(number);
    }
    Ok(found)
}

fn entry((zip, numbers): &(Value, Value)) -> Option<(String, HashSet<u64>)> {
    let numbers = numbers.as_array()?.iter().map(Value::as_u64).collect::<Option<_>>()?;
    Some((zip.as_str()?.to_owned(), numbers))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_images() {
        for (name, expected) in [
            ("00024a73d1/0a1", true),
            ("a/b/0123456789abcdef", true),
            ("0a1", false),
            ("a/", false),
            ("a/0A1", false),
            ("a/0a1.jpg", false),
        ] {
            assert_eq!(is_image(name), expected, "{name}");
        }
    }

    #[test]
    fn both_forms_of_the_list() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("list");
        let expected = Rejected::from([("a".into(), HashSet::from([1, 300]))]);
        fs::write(&path, "a 1\na 300\n").unwrap();
        assert_eq!(rejected(&path).unwrap(), expected);
        fs::write(&path, b"\x81\xa1a\x92\x01\xcd\x01\x2c").unwrap();
        assert_eq!(rejected(&path).unwrap(), expected);
        for bad in [&b"a b\n"[..], b"a\n", b"\x81\xa1a\xc3", b"\x81\xff\x90"] {
            fs::write(&path, bad).unwrap();
            assert_eq!(rejected(&path).unwrap_err().kind(), ErrorKind::Damaged, "{bad:?}");
        }
    }
}
