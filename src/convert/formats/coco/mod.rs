//! COCO: one JSON object with images, annotations and categories.

mod json;
mod read;

use std::fs;
use std::path::{Path, PathBuf};

pub use read::CocoReader;

use crate::convert::carried::{Handling as H, LeftOut as L};
use crate::convert::compressed;
use crate::convert::formats::def::{FormatDef, Keys, Opening, READ};
use crate::convert::loaded::LoadFiles;
use crate::convert::samples::Samples;
use crate::error::{Error, Remedy, Result};
use crate::storage;

/// Bytes of a file that are looked at.
const HEAD: usize = 1 << 20;

pub(in crate::convert) static COCO: FormatDef = FormatDef {
    name: "coco",
    title: "images with annotations of COCO",
    is_named: |file| file.ends(".json") && is_coco(file.path),
    keys: Keys::Own,
    leaves_out: &[
        (L::Metadata, H::Remarked),
        (L::SameName, H::Refused),
        (L::OtherEncoding, H::Refused),
    ],
    open: |sources| open(sources),
    ..READ
};

fn open(sources: &Opening<'_>) -> Result<Samples> {
    let read = sources.read;
    Samples::of_each(sources.paths, |path, _| {
        let reader = CocoReader::open_asked(path, sources)?;
        let loads = sources.kept.needs(read::IMAGE);
        if loads && sources.stops && read.root.is_none() {
            check_has_images(path, reader.first_image())?;
        }
        let samples = Samples::units(reader);
        if !loads {
            return Ok(samples);
        }
        Ok(samples.changed(LoadFiles {
            fields: vec![read::IMAGE.to_owned()],
            in_key: Vec::new(),
            root: read.root.clone(),
            stream: path.to_path_buf(),
            outside: read.allow_outside,
            max_bytes: read.max_bytes,
        }))
    })
}

/// Fails if the first image is not next to the annotations, and looks for it in the folders that it is usually in.
fn check_has_images(path: &Path, first: Option<&str>) -> Result<()> {
    let Some(first) = first.filter(|_| !storage::is_url(path)) else { return Ok(()) };
    let folder = path.parent().unwrap_or(Path::new(""));
    let image = folder.join(first);
    let Err(error) = image.metadata() else { return Ok(()) };
    let error = Error::io(&image, error);
    let here = |dir: &Path| if dir.as_os_str().is_empty() { ".".into() } else { dir.to_path_buf() };
    let above = folder.parent().map_or_else(|| PathBuf::from(".."), here);
    let parts = |dir: &Path| -> Vec<PathBuf> {
        let entries = fs::read_dir(dir).into_iter().flatten().flatten();
        let paths = entries.map(|entry| entry.path()).filter(|path| path.is_dir());
        paths.map(|path| path.strip_prefix(".").map_or(path.clone(), Path::to_path_buf)).collect()
    };
    let mut folders = [vec![above.clone()], parts(&here(folder)), parts(&above)].concat();
    // Annotations are often called after the folder: `instances_val2017.json`.
    let name = path.file_stem().unwrap_or_default().to_string_lossy();
    let is_other = |folder: &PathBuf| {
        let folder = folder.file_name().unwrap_or_default().to_string_lossy();
        folder.is_empty() || !name.contains(&*folder)
    };
    folders.retain(|folder| folder.join(first).is_file());
    let named: Vec<&PathBuf> = folders.iter().filter(|folder| !is_other(folder)).collect();
    // Images of the same names may be in several.
    let found = match (&named[..], &folders[..]) {
        ([one], _) => Some((*one).clone()),
        ([], [one]) => Some(one.clone()),
        _ => None,
    };
    Err(error.with_remedy(Remedy::Root(found)))
}

/// Whether this is one object that has images or annotations, which are objects themselves. In lines of JSON such an
/// object is one of several.
fn is_coco(path: &Path) -> bool {
    let head = compressed::head(path, HEAD).unwrap_or_default();
    let (members, rest) = json::first_members(&head);
    let has = |name: &str| members.iter().any(|(member, is_list)| *is_list && member == name);
    let is_sample = members.iter().any(|(member, _)| member == "key");
    rest.is_empty() && !is_sample && (has("images") || has("annotations"))
}
