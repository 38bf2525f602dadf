//! [`Tar`] and [`TarIndex`]: files of a tar archive, as they come or by their names.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::Limits;
use crate::convert::archive::{Archive, Bytes};
use crate::error::{Error, ErrorKind, Result};
use crate::format::tar::Entry;
use crate::regular::open_regular;
use crate::storage::{LocalStorage, Source, Storage};

/// A tar archive that is read from front to back. It may be compressed by gzip or Zstandard.
///
/// Links, devices and names that lead elsewhere are refused.
pub struct Tar {
    archive: Archive<'static>,
    limits: Limits,
}

/// A file in a [`Tar`], not yet read; what is not read is passed over.
pub struct TarFile<'a, 'b> {
    entry: Entry,
    archive: &'a mut Archive<'b>,
    consumed: &'a mut bool,
    limits: Limits,
}

impl Tar {
    /// Opens an archive.
    pub fn open(path: impl AsRef<Path>, limits: Limits) -> Result<Tar> {
        // Archives within are read as they come, and may be as large as they like.
        Ok(Tar { archive: Archive::open(path.as_ref(), u64::MAX)?, limits })
    }

    /// Shows every file to `each`, in order; stops at the first error.
    pub fn for_each(mut self, each: impl FnMut(TarFile<'_, 'static>) -> Result<()>) -> Result<()> {
        walk(&mut self.archive, self.limits, each)
    }
}

fn walk<'b>(
    archive: &mut Archive<'b>,
    limits: Limits,
    mut each: impl FnMut(TarFile<'_, 'b>) -> Result<()>,
) -> Result<()> {
    while let Some(entry) = archive.next()? {
        let entry = entry?;
        let (size, mut consumed) = (entry.size, false);
        each(TarFile { entry, archive, consumed: &mut consumed, limits })?;
        if !consumed {
            archive.skip(size)?;
        }
    }
    Ok(())
}

impl<'b> TarFile<'_, 'b> {
    /// The name in the archive.
    pub fn name(&self) -> &str {
        &self.entry.name
    }

    /// Its bytes.
    ///
    /// # Errors
    ///
    /// [`Limit`](ErrorKind::Limit) for more bytes than was allowed.
    pub fn read(self) -> Result<Vec<u8>> {
        let within = |error: Error| error.within(format_args!("file {:?}", self.entry.name));
        self.limits.check_bytes(self.entry.size).map_err(within)?;
        *self.consumed = true;
        self.archive.read(self.entry.size)
    }

    /// Shows the files of the archive that this file is to `each`, as they come.
    pub fn for_each(self, each: impl FnMut(TarFile<'_, '_>) -> Result<()>) -> Result<()> {
        *self.consumed = true;
        let read = |inner: &mut Archive<'_>| walk(inner, self.limits, each);
        self.archive.nested(&self.entry, u64::MAX, read)
    }
}

/// A tar archive that is not compressed. Any number of threads may read its files, in any
/// order. Clones are the same archive.
#[derive(Clone)]
pub struct TarIndex {
    inner: Arc<Index>,
}

struct Index {
    path: PathBuf,
    source: Source,
    names: Vec<String>,
    /// Where a file begins, and its bytes. Of several with one name the last one counts, as for
    /// Python.
    files: HashMap<String, (u64, u64)>,
}

/// A file that can skip unwanted bytes without reading them.
struct Plain(File);

impl Read for Plain {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }
}

impl Bytes for Plain {
    fn pass(&mut self, size: u64) -> io::Result<u64> {
        let at = self.0.stream_position()?;
        let there = self.0.metadata()?.len().saturating_sub(at).min(size);
        self.0.seek(SeekFrom::Start(at + there))?;
        Ok(there)
    }
}

impl TarIndex {
    /// Finds all files; reads nothing but what is between them.
    pub fn open(path: impl AsRef<Path>, limits: Limits) -> Result<TarIndex> {
        let path = path.as_ref();
        let source = LocalStorage::mapped().open(path)?;
        let file = open_regular(path).map_err(|error| Error::io(path, error))?;
        let mut archive = Archive::over(path, Box::new(Plain(file)), limits.bytes);
        let (mut names, mut files) = (Vec::new(), HashMap::new());
        while let Some(entry) = archive.next()? {
            let Entry { name, size, .. } = entry?;
            files.insert(name.clone(), (archive.position(), size));
            names.push(name);
            archive.skip(size)?;
        }
        let inner = Index { path: path.to_path_buf(), source, names, files };
        Ok(TarIndex { inner: Arc::new(inner) })
    }

    /// Where the archive is.
    pub fn path(&self) -> &Path {
        &self.inner.path
    }

    /// The names of all files in the order of the archive.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.inner.names.iter().map(String::as_str)
    }

    /// The bytes of a file.
    ///
    /// # Errors
    ///
    /// [`Damaged`](ErrorKind::Damaged) if no file has this name.
    pub fn read(&self, name: &str) -> Result<Vec<u8>> {
        let Some(&(start, size)) = self.inner.files.get(name) else {
            let message = format!("expected a file {name:?}, found none");
            return Err(Error::new(ErrorKind::Damaged, message).at(self.path()));
        };
        let bytes = self.inner.source.read(start..start + size);
        bytes.map(|bytes| bytes.to_vec())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::tar::{BLOCK, file_header, padding};

    fn archive(files: &[(&str, &[u8])]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (name, content) in files {
            bytes.extend(file_header(name, content.len() as u64).unwrap());
            bytes.extend(*content);
            bytes.resize(bytes.len() + padding(content.len() as u64), 0);
        }
        bytes.resize(bytes.len() + 2 * BLOCK, 0);
        bytes
    }

    fn nested(dir: &tempfile::TempDir) -> PathBuf {
        let one = archive(&[("a/1.jpg", b"one"), ("a/2.jpg", b"two")]);
        let two = archive(&[("b/1.jpg", &[7; 5000])]);
        let outer = [("x.txt", &b"x"[..]), ("a.tar", &one), ("b.tar", &two), ("last", b"end")];
        let path = dir.path().join("outer.tar");
        std::fs::write(&path, archive(&outer)).unwrap();
        path
    }

    #[test]
    fn archives_in_archives_are_read_as_they_come() {
        let dir = tempfile::tempdir().unwrap();
        let path = nested(&dir);
        let mut found = Vec::new();
        let walked =
            Tar::open(&path, Limits::default()).unwrap().for_each(|file| match file.name() {
                "a.tar" => file.for_each(|inner| {
                    let name = inner.name().to_owned();
                    inner.read().map(|bytes| found.push((name, bytes.len())))
                }),
                // Passed over, at first in whole and then in part.
                "x.txt" => Ok(()),
                "b.tar" => file.for_each(|_| Ok(())),
                name => {
                    let name = name.to_owned();
                    file.read().map(|bytes| found.push((name, bytes.len())))
                }
            });
        walked.unwrap();
        let names = [("a/1.jpg", 3), ("a/2.jpg", 3), ("last", 3)];
        assert_eq!(found, names.map(|(name, len)| (name.to_owned(), len)));
    }

    #[test]
    fn files_by_their_names() {
        let dir = tempfile::tempdir().unwrap();
        let tar = TarIndex::open(nested(&dir), Limits::default()).unwrap();
        assert_eq!(tar.names().collect::<Vec<_>>(), ["x.txt", "a.tar", "b.tar", "last"]);
        assert_eq!(
            (tar.read("last").unwrap(), tar.read("x.txt").unwrap()),
            ("end".into(), "x".into())
        );
        assert!(tar.read("a.tar").is_ok() && tar.read("a/1.jpg").is_err());
        assert_eq!(tar.read("b").unwrap_err().kind(), ErrorKind::Damaged);
    }

    #[test]
    fn what_is_cut_short_is_an_error_inside_too() {
        let dir = tempfile::tempdir().unwrap();
        let path = nested(&dir);
        let whole = std::fs::read(&path).unwrap();
        for len in (0..whole.len() - BLOCK).step_by(97) {
            std::fs::write(&path, &whole[..len]).unwrap();
            let walked =
                Tar::open(&path, Limits::default()).unwrap().for_each(|file| match file.name() {
                    "a.tar" | "b.tar" => file.for_each(|inner| inner.read().map(drop)),
                    _ => file.read().map(drop),
                });
            assert_eq!(walked.unwrap_err().kind(), ErrorKind::Damaged, "{len}");
            assert_eq!(
                TarIndex::open(&path, Limits::default()).err().unwrap().kind(),
                ErrorKind::Damaged,
                "{len}"
            );
        }
    }
}
