//! [`Zip`]: files of a zip archive by their names.

use std::path::Path;
use std::sync::Arc;

use super::Limits;
use crate::error::{Error, ErrorKind, Result};
use crate::reader::{Reader, ZipReader};

/// A zip archive. Any number of threads may read its files. Clones are the same archive.
///
/// Like [`ZipReader`], it believes nothing that an archive says about sizes, and compares
/// checksums whenever a file is read. Files that share their bytes are refused.
#[derive(Clone)]
pub struct Zip {
    reader: Arc<ZipReader>,
    limits: Limits,
}

impl Zip {
    /// Reads the list of files.
    pub fn open(path: impl AsRef<Path>, limits: Limits) -> Result<Zip> {
        let options = ZipReader::options().max_bytes(limits.bytes).numeric_labels(false);
        let reader = options.open_zip(path, ["*"])?;
        reader.check_sizes()?;
        Ok(Zip { reader: Arc::new(reader), limits })
    }

    /// Where the archive is.
    pub fn path(&self) -> &Path {
        self.reader.path()
    }

    /// How large its files may be, and images in them.
    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// The names of all files in the order of the archive, as Python's `namelist` without folders.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.reader.entries().iter().map(|entry| entry.path.as_str())
    }

    /// Whether there is a file of this name.
    pub fn has(&self, name: &str) -> bool {
        matches!(self.reader.find(name), Ok(Some(_)))
    }

    /// The bytes of a file.
    ///
    /// # Errors
    ///
    /// [`Damaged`](ErrorKind::Damaged) if no file has this name, or it is not whole.
    pub fn read(&self, name: &str) -> Result<Vec<u8>> {
        match self.reader.find(name)? {
            Some(index) => self.reader.read(index),
            None => {
                let message = format!("expected a file {name:?}, found none");
                Err(Error::new(ErrorKind::Damaged, message).at(self.path()))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use zip::write::SimpleFileOptions;

    use super::*;

    #[test]
    fn files_by_their_names() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.zip");
        let mut writer = zip::ZipWriter::new(std::fs::File::create(&path).unwrap());
        writer.add_directory("d", SimpleFileOptions::default()).unwrap();
        for (name, content) in [("d/b", "one"), (".a", "two"), ("c/d/e.txt", "")] {
            writer.start_file(name, SimpleFileOptions::default()).unwrap();
            writer.write_all(content.as_bytes()).unwrap();
        }
        writer.finish().unwrap();
        let zip = Zip::open(&path, Limits::default()).unwrap();
        assert_eq!(zip.names().collect::<Vec<_>>(), ["d/b", ".a", "c/d/e.txt"]);
        assert_eq!(
            (zip.read(".a").unwrap(), zip.read("c/d/e.txt").unwrap()),
            ("two".into(), vec![])
        );
        assert!(zip.has("d/b") && !zip.has("d/") && !zip.has("b"));
        let error = zip.read("b").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Damaged);
        assert!(error.to_string().ends_with("a.zip: expected a file \"b\", found none"), "{error}");
    }
}
