//! The one side file that is made for a dataset at a URL: `.lookup`. Without it, looking up a key
//! takes all of `.key_hashes`.
//!
//! All other files exist once a dataset is published, and an object cannot be exchanged together
//! with others. The writer's place is held until the new file is uploaded, so that the dataset is
//! not replaced before the new file is next to it.

use std::path::Path;
use std::sync::Arc;

use super::super::writer::Place;
use super::build::lookup_content;
use super::{IndexOptions, Indexed, samples};
use crate::error::{Error, ErrorKind, Result};
use crate::format::dataset::SideFile;
use crate::storage::{self, Create, Storage};

pub(super) fn build(options: &IndexOptions, url: &Path) -> Result<Indexed> {
    let (storage, path) = storage::of(url)?;
    let unsupported = |message: &str| Error::new(ErrorKind::Unsupported, message);
    if options.force {
        let message = "is not possible at a URL, where only a missing .lookup is made";
        return Err(unsupported(message).with_option("force"));
    }
    // A missing dataset is reported first.
    storage.open(&path)?;
    let asked = [(options.digests, SideFile::Md5), (options.checksums, SideFile::Crc)];
    let asked = asked.into_iter().filter(|(asked, _)| *asked).map(|(_, file)| file);
    let needed = SideFile::WRITTEN.into_iter().filter(|file| *file != SideFile::Md5);
    for file in needed.chain(asked) {
        if storage.stat(&file.path(&path))?.is_none() {
            let message = "is missing, and only .lookup is made at a URL";
            let error = unsupported(message).at(file.path(&path));
            return Err(error.advise("make it next to a copy of the dataset, and upload it"));
        }
    }
    let samples = samples(&*storage, &path)?;
    let lookup = SideFile::Lookup.path(&path);
    if options.lookup != Some(true) || storage.stat(&lookup)?.is_some() {
        return Ok(Indexed { samples, made: Vec::new(), dropped_lengths: Vec::new() });
    }
    let place = Place::take(&storage, &path)?;
    let made = put_lookup(&storage, &path, &lookup, samples);
    let released = place.give_back();
    made?;
    released.map_err(|error| {
        error.note("the file is complete, but the mark that it is being written was not removed")
    })?;
    Ok(Indexed { samples, made: vec![lookup], dropped_lengths: Vec::new() })
}

/// Creates the missing file, marked with the write that made the others.
fn put_lookup(storage: &Arc<dyn Storage>, path: &Path, lookup: &Path, samples: u64) -> Result<()> {
    let (belongs, places) = super::lookup::read(storage, path, samples)?;
    let content = lookup_content(&belongs, &places)?;
    let file = storage.open(&SideFile::KeyHashes.path(path))?;
    let mut sink = match file.write_id() {
        Some(write) => storage.create_with(lookup, Create::new().write(write))?,
        None => storage.create(lookup)?,
    };
    sink.append(&content)?;
    sink.finish()
}
