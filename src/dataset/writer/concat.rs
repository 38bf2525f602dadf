//! Whole datasets, one behind the other: no sample is decoded.

use super::Writer;
use crate::dataset::DatasetReader;
use crate::error::{Error, ErrorKind, Result};
use crate::format::msgpack::sample;

impl Writer {
    /// Adds all samples of a dataset as they are, in order. Their keys and where they begin come from its side
    /// files; a key that is not the one of its sample is an error. `hear` gets each sample before it
    /// is added, and its error stops the copy.
    ///
    /// # Errors
    ///
    /// [`DuplicateKey`](ErrorKind::DuplicateKey) if a sample with one of the keys was written;
    /// [`Damaged`](ErrorKind::Damaged) if the side files belong to other data; and errors of
    /// reading.
    pub(crate) fn write_dataset(
        &mut self,
        dataset: &DatasetReader,
        mut hear: impl FnMut(&[u8]) -> Result<()>,
    ) -> Result<()> {
        for (index, key) in dataset.keys().enumerate() {
            let (key, packed) = (key?, dataset.get_raw(index)?);
            hear(&packed)?;
            if !sample::has_plain_key(&packed, &key) {
                self.expect_key(&packed, &key).map_err(|error| error.at(dataset.path()))?;
            }
            self.write_raw_unchecked(&key, &packed)?;
        }
        Ok(())
    }

    /// Looks at all of a sample whose key is not found in a few steps.
    #[cold]
    fn expect_key(&self, packed: &[u8], key: &str) -> Result<()> {
        let found = match sample::check_sample(packed) {
            Ok(found) if found == key => return Ok(()),
            Ok(found) => format!("one with {found:?}"),
            Err(error) => error.to_string(),
        };
        let message = format!("expected a sample with the key that .keys says, found {found}");
        Err(Error::new(ErrorKind::Damaged, message).with_key(key))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_two_fields_with_the_name_of_the_key_the_last_counts() {
        let dir = tempfile::tempdir().unwrap();
        let (from, to) = (dir.path().join("a.msgpack"), dir.path().join("b.msgpack"));
        let mut writer = Writer::create(&from).unwrap();
        writer.write_raw("b", b"\x82\xa3key\xa1a\xa3key\xa1b").unwrap();
        writer.finish().unwrap();
        let copy = || {
            let mut writer = Writer::create(&to).unwrap();
            let reader = DatasetReader::open(&from).unwrap();
            let copied = writer.write_dataset(&reader, |_| Ok(()));
            writer.abort().unwrap();
            copied
        };
        copy().unwrap();
        let keys = dir.path().join("a.msgpack.keys");
        let text = std::fs::read(&keys).unwrap();
        assert!(text.ends_with(b"\xa1b"));
        std::fs::write(&keys, [&text[..text.len() - 1], b"a"].concat()).unwrap();
        assert_eq!(copy().unwrap_err().kind(), ErrorKind::Damaged);
    }
}
