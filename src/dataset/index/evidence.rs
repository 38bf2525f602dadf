//! Evidence that the data was changed: digests, checksums, offsets and keys that contradict it.
//!
//! They are the only trace of damage or loss. Files that are made of the data as it is would agree with
//! it, so nothing is made then, unless [`trust_data`](super::IndexOptions::trust_data) gives that trace
//! up.

use super::super::staging::{Staging, journal_of};
use super::{Rebuild, recorded_md5};
use crate::error::{Error, ErrorKind, Remedy, Result};
use crate::format::dataset::{Digest, SideFile, keys, offsets};
use crate::storage::Source;
use crate::text::units::counted;

impl Rebuild<'_> {
    /// Fails if the data has another size than `.offsets` says: for files that are made from the data.
    pub(super) fn check_size(&self) -> Result<()> {
        let path = SideFile::Offsets.path(self.path);
        let Some(file) = self.options.storage.open_if_exists(&path)? else { return Ok(()) };
        let ends = Ends::of(&file).map_err(|e| e.at(&path))?;
        if ends.last == self.data.len() || self.is_appended(&ends)? {
            return Ok(());
        }
        offsets::check_ends(ends.count, ends.first, ends.last, self.data.len()).map_err(|e| {
            let error = Error::from(e).at(path);
            if ends.first == 0 { error.with_remedy(Remedy::Salvage) } else { error }
        })
    }

    /// Whether a writer is appending after the end of the offsets, or was when it was killed.
    fn is_appended(&self, ends: &Ends) -> Result<bool> {
        let base = journal_of(&*self.options.storage, self.path)?.and_then(|journal| journal.base);
        Ok(base.is_some_and(|base| (base.samples, base.bytes) == (ends.count, ends.last)))
    }

    /// Checksums say of data that it is good, so what there is to compare it with must agree:
    /// `recorded`, the line of `.md5`, and the checksums so far, which are of data with the MD5
    /// `old`, if that was known, and differ first at the sample `differs`.
    pub(super) fn refuse_damage(
        &self,
        recorded: Option<Digest>,
        md5: Option<Digest>,
        old: Option<Digest>,
        differs: Option<u64>,
    ) -> Result<()> {
        if self.options.trust_data && self.options.force {
            return Ok(());
        }
        let error = if recorded.is_some() && md5 != recorded {
            // The line may be wrong: with `force` it is made again.
            if self.options.force && md5 == old {
                return Ok(());
            }
            no_match()
        } else {
            // A match with the line proves the data, unless the line may be younger than damage.
            let proven = recorded.is_some() && (self.options.force || old.is_some());
            if proven || differs.is_none() {
                return Ok(());
            }
            contradicts("the sample does not match its checksum")
        };
        // Checksums of other data prove nothing.
        match differs.filter(|_| recorded.is_none() || old.is_none() || old == recorded) {
            Some(index) => Err(error.with_index(index)),
            None => Err(error),
        }
    }

    /// Fails if there are other offsets or keys than the staged ones, or another MD5 than `md5`,
    /// the MD5 of the data. `old` is the MD5 of the data that the old checksums belong to.
    pub(super) fn refuse_contradiction(
        &self,
        staging: &Staging,
        md5: Option<Digest>,
        old: Option<Digest>,
    ) -> Result<()> {
        if self.options.trust_data && self.options.force {
            return Ok(());
        }
        match recorded_md5(&self.options.storage, self.path)? {
            // A file that differs from such data is itself damaged.
            Some(recorded) if md5 == Some(recorded) => Ok(()),
            Some(_) if self.options.force && old.is_some() && md5 == old => Ok(()),
            Some(_) => Err(no_match()),
            None => {
                self.compare(staging, SideFile::Offsets, |file| {
                    let ends = Ends::of(file)?;
                    Ok(ends.is_sorted(file)?.then(|| ends.to_string()))
                })?;
                self.compare(staging, SideFile::Keys, |file| {
                    let bytes = file.read(0..file.len())?;
                    let whole = keys::Keys::parse(&bytes)
                        .and_then(|keys| keys.collect::<std::result::Result<Vec<_>, _>>());
                    Ok(whole.ok().map(|keys| format!("{} other keys", keys.len())))
                })
            }
        }
    }

    /// Fails if a file that is there differs from the staged one, though it makes sense: then this is
    /// what it says, in words.
    fn compare(
        &self,
        staging: &Staging,
        side: SideFile,
        says: impl Fn(&Source) -> Result<Option<String>>,
    ) -> Result<()> {
        let storage = &self.options.storage;
        let path = side.path(self.path);
        let Some(old) = storage.open_if_exists(&path)? else { return Ok(()) };
        let new = storage.open(&staging.path(side))?;
        if old.len() == new.len() && old.read(0..old.len())? == new.read(0..new.len())? {
            return Ok(());
        }
        match says(&old) {
            Ok(Some(expected)) => {
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                let found = says(&new)?.unwrap_or_default();
                let message = format!("expected {expected}, as {name:?} says, found {found}");
                Err(contradicts(message).at(self.path))
            }
            // Damaged itself, it says nothing.
            _ => Ok(()),
        }
    }
}

/// The first and the last of the offsets.
struct Ends {
    count: u64,
    first: u64,
    last: u64,
}

impl std::fmt::Display for Ends {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} in {} bytes", counted(self.count, "sample"), self.last)
    }
}

impl Ends {
    fn of(file: &Source) -> Result<Ends> {
        let count = offsets::count(file.len())?;
        let entry = |i: u64| -> Result<u64> {
            let at = i * offsets::ENTRY;
            let bytes = file.read(at..at + offsets::ENTRY)?;
            Ok(offsets::entry(&bytes, 0).unwrap_or_default())
        };
        Ok(Ends { count, first: entry(0)?, last: entry(count)? })
    }

    /// Whether all offsets make sense.
    fn is_sorted(&self, file: &Source) -> Result<bool> {
        let bytes = file.read(0..file.len())?;
        let ends = (0..=self.count as usize).map_while(|i| offsets::entry(&bytes, i));
        Ok(self.first == 0 && ends.is_sorted())
    }
}

fn contradicts(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::Damaged, message).with_remedy(Remedy::TrustData)
}

fn no_match() -> Error {
    contradicts("the data does not match its MD5, so nothing was made of it")
}
