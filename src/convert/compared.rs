//! [`Compared`]: compares the samples of parts with the notes of the finished parts.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};

use super::Source;
use super::monitor::counted;
use crate::error::{Error, ErrorKind, Result};

/// Hands on what a source has, part by part. What differs is an error before the last batch of the part is
/// handed on, so before anything is published or removed.
pub(super) struct Compared {
    source: Box<dyn Source>,
    parts: VecDeque<Noted>,
    crc: crc32fast::Hasher,
    /// Samples of the first part that were handed on.
    samples: u64,
}

/// A dataset of samples of a part, as its note says.
#[derive(Debug, Clone)]
pub(super) struct Noted {
    /// Where it is.
    pub(super) path: PathBuf,
    pub(super) samples: u64,
    pub(super) bytes: u64,
    /// Parts of builds before the first release have none.
    pub(super) crc32: Option<u32>,
}

impl Noted {
    /// Fails if it has other samples or bytes.
    pub(super) fn check_size(&self, found: (u64, u64)) -> Result<()> {
        let noted = (self.samples, self.bytes);
        match found == noted {
            true => Ok(()),
            false => Err(not_noted(&self.path, sizes(noted), sizes(found))),
        }
    }

    /// Fails unless this is the checksum of its samples.
    pub(super) fn check(&self, found: u32) -> Result<()> {
        match self.crc32 {
            Some(noted) if noted != found => {
                let what = format!("samples with the checksum {noted:08x}");
                Err(not_noted(&self.path, what, format!("{found:08x}")))
            }
            _ => Ok(()),
        }
    }
}

/// Samples and bytes as text.
pub(super) fn sizes((samples, bytes): (u64, u64)) -> String {
    format!("{} in {bytes} bytes", counted(samples, "sample"))
}

/// The error for a part that differs from its note.
pub(super) fn not_noted(path: &Path, expected: String, found: String) -> Error {
    let message =
        format!("expected {expected}, as noted when the part was finished, found {found}");
    Error::new(ErrorKind::Damaged, message).at(path).advise(
        "nothing was joined or removed: remove the note of this part, which ends in .json, and make the part \
         again",
    )
}

impl Compared {
    pub(super) fn new(source: Box<dyn Source>, parts: Vec<Noted>) -> Compared {
        Compared { source, parts: parts.into(), crc: crc32fast::Hasher::new(), samples: 0 }
    }

    fn add(&mut self, packed: &[u8]) -> Result<()> {
        self.crc.update(packed);
        self.samples += 1;
        self.end_parts()
    }

    /// Compares parts once all of their samples were seen.
    fn end_parts(&mut self) -> Result<()> {
        while self.parts.front().is_some_and(|part| part.samples == self.samples) {
            let Some(part) = self.parts.pop_front() else { break };
            part.check(std::mem::take(&mut self.crc).finalize())?;
            self.samples = 0;
        }
        Ok(())
    }
}

impl Source for Compared {
    fn next_batch(&mut self) -> Result<Vec<Result<Vec<u8>>>> {
        let batch = self.source.next_batch()?;
        // One that cannot be read is an error of its own.
        for packed in batch.iter().flatten() {
            self.add(packed)?;
        }
        if batch.is_empty() {
            self.end_parts()?;
        }
        Ok(batch)
    }

    fn inner(&self) -> Option<&dyn Source> {
        Some(&*self.source)
    }
}
