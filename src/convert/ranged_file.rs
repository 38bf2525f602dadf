//! [`Partial`]: a file from which only a few ranges, known in advance, are read.
//!
//! The libraries that read such files jump about in them, and read some bytes twice. Behind a URL each of
//! these reads would be a round trip, so the ranges are copied to a disk first, all of them in few requests.

use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};

use super::source_file::{AT_ONCE, check_version, storage_of};
use crate::error::{Error, Result};
use crate::regular;
use crate::storage::{self, Announced, ScratchDir, Source};

/// A file from which a few ranges are read, in any order and repeatedly: itself on a disk, and for an object a
/// temporary file that has the ranges in their places, and nothing between them.
pub(in crate::convert) struct Partial {
    path: PathBuf,
    file: File,
    /// Where the rest is.
    object: Option<Source>,
    /// The temporary file is in it, where a file that is open cannot be removed.
    scratch: Option<ScratchDir>,
}

impl Partial {
    /// Opens a regular file, or an object, copying nothing yet. The last 16 KiB cost no
    /// request of their own, if they are read `from_end`.
    pub(in crate::convert) fn open(path: &Path, from_end: bool) -> Result<Partial> {
        let at = |error| Error::io(path, error);
        if !storage::is_url(path) {
            let file = regular::open_regular(path).map_err(at)?;
            return Ok(Partial { path: path.to_path_buf(), file, object: None, scratch: None });
        }
        let (storage, path) = storage_of(path)?;
        let announced = [Announced { suffix: "", end: true }];
        let ends = if from_end { storage.open_together(&path, &announced)? } else { None };
        let object = match ends.and_then(|mut opened| opened.pop().flatten()) {
            Some(file) => Source::Positioned(Box::new(file)),
            None => storage.open(&path)?,
        };
        check_version(&path, object.id()).map_err(|error| error.at(&path))?;
        let scratch = ScratchDir::create()?;
        let name = scratch.path().join("copy");
        let at = |error| Error::io(&name, error);
        let file = File::options().read(true).write(true).create_new(true).open(&name);
        let file = file.map_err(at)?;
        file.set_len(object.len()).map_err(at)?;
        // Where a name can go while the file is open, a process that is killed leaves nothing.
        let scratch = if cfg!(unix) { None } else { Some(scratch) };
        Ok(Partial { path, file, object: Some(object), scratch })
    }

    /// Bytes of the whole file.
    pub(in crate::convert) fn len(&self) -> Result<u64> {
        match &self.object {
            Some(object) => Ok(object.len()),
            None => {
                self.file.metadata().map(|found| found.len()).map_err(|e| Error::io(&self.path, e))
            }
        }
    }

    /// Copies these ranges, which are within the file. In memory there is never more than a part of them.
    pub(in crate::convert) fn fetch(&mut self, ranges: &[Range<u64>]) -> Result<()> {
        let Some(object) = &self.object else { return Ok(()) };
        let (mut together, mut bytes) = (Vec::new(), 0);
        for range in ranges {
            let mut start = range.start;
            while start < range.end {
                let end = range.end.min(start.saturating_add(AT_ONCE - bytes));
                together.push(start..end);
                (bytes, start) = (bytes + (end - start), end);
                if bytes == AT_ONCE {
                    copy(object, &together, &mut self.file)?;
                    (together, bytes) = (Vec::new(), 0);
                }
            }
        }
        copy(object, &together, &mut self.file)
    }

    /// The file.
    pub(in crate::convert) fn file(&mut self) -> &mut File {
        &mut self.file
    }

    /// The file, for a reader that keeps it.
    pub(in crate::convert) fn into_file(self) -> (File, Option<ScratchDir>) {
        (self.file, self.scratch)
    }
}

/// Copies these bytes of an object to the same places of a file.
fn copy(object: &Source, ranges: &[Range<u64>], file: &mut File) -> Result<()> {
    object.fetch(ranges)?;
    for range in ranges {
        let bytes = object.read(range.clone())?;
        let copied = file.seek(SeekFrom::Start(range.start)).and_then(|_| file.write_all(&bytes));
        copied.map_err(|error| Error::io(std::env::temp_dir(), error))?;
    }
    Ok(())
}
