//! Samples that stay in other files: only their keys and addresses are written, and an index in place of the data.

use std::path::Path;

use super::{Stats, Writer, WriterOptions, open};
use crate::error::Result;

impl WriterOptions {
    /// Starts an index of samples in place, over one that is there. What an earlier run has left is not kept, as all of it
    /// is made again.
    pub(crate) fn create_index(mut self, path: &Path) -> Result<Writer> {
        (self.in_place, self.overwrite) = (true, true);
        self.create(path)
    }
}

impl Writer {
    /// Writes the key of a sample that is elsewhere, and the address that it ends at.
    ///
    /// # Errors
    ///
    /// [`DuplicateKey`](crate::ErrorKind::DuplicateKey).
    pub(crate) fn place(&mut self, key: &str, end: u64) -> Result<()> {
        let hash = self.key_set.prepare(key.as_bytes());
        let spools = &mut open(&mut self.open, self.broken, &self.path)?.spools;
        let noted = spools.note_new(&self.key_set, hash, (key, end), self.samples);
        self.broken = noted.is_err();
        noted??;
        self.count(hash, end, Ok(()))
    }

    /// Publishes the samples that were placed, with this text in place of their bytes. After an error nothing is left
    /// of them, as they can be placed again.
    pub(crate) fn finish_index(mut self, text: &[u8]) -> Result<Stats> {
        let files = open(&mut self.open, self.broken, &self.path)?;
        files.data.append(text).map_err(|error| error.shown_at(&self.path))?;
        self.finish_whole()
    }
}

#[cfg(test)]
mod tests {
    use crate::ErrorKind;
    use crate::dataset::Writer;
    use crate::repair::Repair;

    /// As if the process had been killed: what is left is not taken for samples.
    #[test]
    fn an_unfinished_index_is_made_again() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.inplace.json");
        let mut writer = Writer::options().create_index(&path).unwrap();
        writer.place("a", 10).unwrap();
        assert_eq!(writer.place("a", 20).unwrap_err().kind(), ErrorKind::DuplicateKey);
        drop(writer);
        assert!(!path.exists() && std::fs::read_dir(dir.path()).unwrap().count() == 1);
        assert_eq!(Repair::of(&path).finish().unwrap(), None);
        assert!(!path.exists());
        let mut writer = Writer::options().create_index(&path).unwrap();
        writer.place("a", 10).unwrap();
        let stats = writer.finish_index(b"{}").unwrap();
        assert_eq!((stats.samples, std::fs::read(&path).unwrap()), (1, b"{}".to_vec()));
        assert_eq!(Repair::of(&path).leftover().unwrap(), None);
    }
}
