//! Side files that grow with every sample: written through a buffer, never held.

#[cfg(feature = "convert")]
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use crate::error::{Error, ErrorKind, Result};
use crate::format::dataset::{keys, offsets};
use crate::storage::{Sink, Source, Storage};

/// Bytes gathered before they are written.
const BUFFER: usize = 256 << 10;

/// A file that is appended to in small pieces.
pub(crate) struct Spool {
    pub(super) path: PathBuf,
    sink: Box<dyn Sink>,
    buffer: Vec<u8>,
    len: u64,
}

impl Spool {
    pub(crate) fn new(path: PathBuf, sink: Box<dyn Sink>) -> Spool {
        Spool { path, sink, buffer: Vec::with_capacity(BUFFER + 1024), len: 0 }
    }

    /// Bytes so far.
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// Adds what this appends. It stays in the buffer until the next call, so that it can be
    /// [taken back](Self::take_back).
    #[inline]
    pub(crate) fn push(&mut self, with: impl FnOnce(&mut Vec<u8>)) -> Result<()> {
        if self.buffer.len() >= BUFFER {
            self.flush()?;
        }
        let before = self.buffer.len();
        with(&mut self.buffer);
        self.len += (self.buffer.len() - before) as u64;
        Ok(())
    }

    /// Takes back as many bytes of those that were pushed last, before anything else was called.
    fn take_back(&mut self, bytes: usize) {
        self.buffer.truncate(self.buffer.len() - bytes);
        self.len -= bytes as u64;
    }

    pub(crate) fn flush(&mut self) -> Result<()> {
        if !self.buffer.is_empty() {
            self.sink.append(&self.buffer)?;
            self.buffer.clear();
        }
        Ok(())
    }

    /// Overwrites bytes that were written before.
    pub(crate) fn patch(&mut self, bytes: &[u8], at: u64) -> Result<()> {
        self.flush()?;
        self.sink.write_at(bytes, at)
    }

    pub(crate) fn finish(mut self, sync: bool) -> Result<()> {
        self.flush()?;
        if sync {
            self.sink.sync()?;
        }
        Ok(())
    }
}

/// `.offsets` as it grows.
pub(crate) struct OffsetSpool(Spool);

impl OffsetSpool {
    pub(crate) fn new(mut spool: Spool) -> Result<OffsetSpool> {
        spool.push(|out| out.extend_from_slice(&offsets::encode(0)))?;
        Ok(OffsetSpool(spool))
    }

    /// The sample ends here.
    #[inline]
    pub(crate) fn push(&mut self, end: u64) -> Result<()> {
        self.0.push(|out| out.extend_from_slice(&offsets::encode(end)))
    }

    /// Takes back the sample that was pushed last.
    pub(crate) fn take_back(&mut self) {
        self.0.take_back(offsets::ENTRY as usize);
    }

    /// The bytes of the data that are the sample of this index.
    #[cfg(feature = "convert")]
    pub(crate) fn range(&mut self, storage: &dyn Storage, index: u64) -> Result<Range<u64>> {
        self.0.flush()?;
        let at = index.saturating_mul(offsets::ENTRY);
        let file = storage.open(&self.0.path)?;
        let ends = file.read(at..at.saturating_add(2 * offsets::ENTRY))?;
        let end = |at: usize| {
            let entry = ends.get(at..).and_then(|rest| rest.first_chunk());
            entry.map_or(0, |entry| u64::from_be_bytes(*entry))
        };
        Ok(end(0)..end(offsets::ENTRY as usize))
    }

    pub(crate) fn finish(self, sync: bool) -> Result<()> {
        self.0.finish(sync)
    }
}

/// Room for the longest array header of `.keys`, whose length is known only at the end.
const HEADER_ROOM: u64 = 5;
/// How many keys apart places in the file are remembered, to read a key back.
const STRIDE: usize = 64;

/// `.keys` as it grows; it can be read at any time.
pub(crate) struct KeySpool {
    storage: Arc<dyn Storage>,
    spool: Spool,
    count: u64,
    /// Where the last one begins.
    last: u64,
    marks: Vec<u64>,
    reader: Option<Source>,
}

impl KeySpool {
    pub(crate) fn new(storage: Arc<dyn Storage>, mut spool: Spool) -> Result<KeySpool> {
        spool.push(|out| out.extend_from_slice(&[0; HEADER_ROOM as usize]))?;
        Ok(KeySpool { storage, spool, count: 0, last: 0, marks: Vec::new(), reader: None })
    }

    #[inline]
    pub(crate) fn push(&mut self, key: &str) -> Result<()> {
        self.last = self.spool.len();
        if self.count % STRIDE as u64 == 0 {
            self.marks.push(self.last);
        }
        self.count += 1;
        let mut packed = Ok(());
        self.spool.push(|out| packed = keys::push_key(out, key).map_err(Error::from))?;
        packed
    }

    /// Takes back the key that was pushed last.
    pub(crate) fn take_back(&mut self) {
        self.count -= 1;
        if self.count % STRIDE as u64 == 0 {
            self.marks.pop();
        }
        self.spool.take_back((self.spool.len() - self.last) as usize);
    }

    /// Whether the key of this index is `key`.
    #[cold]
    pub(crate) fn is(&mut self, index: u32, key: &str) -> Result<bool> {
        let index = index as usize;
        let Some(&start) = self.marks.get(index / STRIDE) else { return Ok(false) };
        let end = self.marks.get(index / STRIDE + 1).copied().unwrap_or(self.spool.len());
        self.spool.flush()?;
        let stale = self.reader.as_ref().is_none_or(|source| source.len() < end);
        if stale {
            self.reader = Some(self.storage.open(&self.spool.path)?);
        }
        let Some(source) = &self.reader else { return Ok(false) };
        let bytes = source.read(start..end)?;
        match keys::Keys::part(&bytes, start, STRIDE as u64).nth(index % STRIDE) {
            Some(found) => Ok(found? == key),
            None => Ok(false),
        }
    }

    /// Completes the file: the header goes before the keys. `reopened` opens the file again, empty,
    /// for the case that the header is shorter than the room left for it.
    pub(crate) fn finish(
        mut self,
        sync: bool,
        reopened: impl FnOnce() -> Result<Box<dyn Sink>>,
    ) -> Result<()> {
        let header = keys::header(self.count)?;
        if header.len() as u64 == HEADER_ROOM {
            self.spool.patch(&header, 0)?;
            return self.spool.finish(sync);
        }
        // Fewer than 65,536 keys: moving them costs little.
        self.spool.flush()?;
        let old = self.storage.open(&self.spool.path)?;
        let mut new = Spool::new(self.spool.path.clone(), reopened()?);
        new.push(|out| out.extend_from_slice(&header))?;
        let body = HEADER_ROOM..old.len();
        let failed = old.scan(body, BUFFER as u64, |part, _| {
            part.chunks(BUFFER).find_map(|p| new.push(|out| out.extend_from_slice(p)).err())
        })?;
        match failed {
            Some(error) => Err(error),
            None => new.finish(sync),
        }
    }
}

/// The limit of the format on the number of samples.
pub(crate) fn check_count(samples: u64) -> Result<()> {
    if samples >= u64::from(u32::MAX) {
        let message = "the dataset is full: the format holds at most 4,294,967,295 samples";
        return Err(Error::new(ErrorKind::Limit, message));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::storage::MemoryStorage;

    fn spool(storage: &MemoryStorage, name: &str) -> Spool {
        Spool::new(name.into(), storage.create(Path::new(name)).unwrap())
    }

    #[test]
    fn what_is_taken_back_leaves_no_trace() {
        let storage = MemoryStorage::new();
        let shared: Arc<dyn Storage> = Arc::new(storage.clone());
        let mut keys = KeySpool::new(shared.clone(), spool(&storage, "keys")).unwrap();
        let mut offsets = OffsetSpool::new(spool(&storage, "offsets")).unwrap();
        // Some are as large as the buffer, so that it is full before and after one that is taken back.
        let key = |i: u64| format!("{i}{}", "x".repeat(if i % 50 == 49 { BUFFER } else { 0 }));
        let mut end = 0;
        for i in 0..300 {
            keys.push("not this one").unwrap();
            offsets.push(u64::MAX).unwrap();
            keys.take_back();
            offsets.take_back();
            // Reading a key back writes what there is.
            if i > 0 && i % 7 == 0 {
                assert!(keys.is(0, &key(0)).unwrap());
                assert!(!keys.is(i as u32 - 1, "not this one").unwrap());
            }
            end += 100 + i;
            keys.push(&key(i)).unwrap();
            offsets.push(end).unwrap();
            if i % 64 == 0 {
                assert!(keys.is(i as u32, &key(i)).unwrap());
            }
        }
        keys.finish(false, || {
            storage.remove(Path::new("keys"))?;
            storage.create(Path::new("keys"))
        })
        .unwrap();
        offsets.finish(false).unwrap();

        let read = |name: &str| storage.get(name).unwrap();
        let found = read("keys");
        let found = keys::Keys::parse(&found).unwrap();
        let found: Vec<String> = found.map(|key| key.unwrap().to_string()).collect();
        assert!(found == (0..300).map(key).collect::<Vec<_>>());
        let ends = (0..300_u64).scan(0, |end, i| {
            *end += 100 + i;
            Some(*end)
        });
        let expected: Vec<u8> = [0].into_iter().chain(ends).flat_map(offsets::encode).collect();
        assert!(read("offsets") == expected);
    }
}
