//! Finishing or undoing the write of a killed writer.

use std::path::Path;
use std::sync::Arc;

use crate::error::Result;
use crate::storage::Storage;

use super::publish::Publication;
use super::{Journal, Staging, dir_of, foreign, is_half_published, journal_of};

/// An unfinished write, as found next to a dataset.
#[derive(Debug)]
pub(crate) enum Unfinished {
    /// Everything was written; publishing it was cut short.
    Committed,
    /// The writer was killed before it was done.
    Uncommitted(Journal),
    /// The writer was killed before it wrote anything.
    Nothing,
}

/// The work of a killed writer, with its lock taken; `None` if nothing was left.
pub(crate) fn unfinished(
    storage: &Arc<dyn Storage>,
    target: &Path,
) -> Result<Option<(Staging, Unfinished)>> {
    let dir = dir_of(target);
    if storage.lstat(&dir)?.is_none() {
        return Ok(None);
    }
    let staging = Staging::take_over(storage.clone(), target)?;
    let state = if is_half_published(&**storage, target)? {
        Unfinished::Committed
    } else {
        match journal_of(&**storage, target)? {
            Some(journal) => Unfinished::Uncommitted(journal),
            None => Unfinished::Nothing,
        }
    };
    Ok(Some((staging, state)))
}

impl Staging {
    /// Why a publication that was cut short can be neither finished nor taken back: another program
    /// has written the dataset since. `None` if it can.
    pub(crate) fn overtaken(&self) -> Result<Option<String>> {
        Publication::read(self)?.overtaken()
    }

    /// Finishes a publication that was cut short; where a step fails, takes it back.
    ///
    /// # Errors
    ///
    /// [`Foreign`](crate::ErrorKind::Foreign) if another program has written the dataset since.
    pub(crate) fn finish(self) -> Result<()> {
        let publication = Publication::read(&self)?;
        // Offsets go last, so all else is at its place.
        if publication.is_visible()? {
            return self.clear();
        }
        if let Some(why) = publication.overtaken()? {
            return Err(foreign(&self.target, overtaken_message(&why)));
        }
        // Before the first step: once the old files are moved away, a lost new file would leave no
        // dataset.
        publication.check_staged()?;
        match publication.forward() {
            Ok(()) => self.clear(),
            Err(error) => Err(self.take_back(&publication, error)),
        }
    }

    /// Takes back a publication that was cut short, and removes what was staged. Where readers may
    /// have seen the new dataset it is finished instead; where another program has written the
    /// dataset since, that stays as it is.
    pub(crate) fn undo(self) -> Result<()> {
        let publication = Publication::read(&self)?;
        if publication.is_visible()? {
            return self.finish();
        }
        // The dataset of the other program stays, and ours has no place to return to.
        if publication.is_replaced()? {
            return self.clear();
        }
        publication.back()?;
        self.abort()
    }
}

/// The message if another program has written the dataset since.
pub(crate) fn overtaken_message(why: &str) -> String {
    format!(
        "another program has written this dataset since that write was cut short, so nothing was \
         touched: {why}"
    )
}
