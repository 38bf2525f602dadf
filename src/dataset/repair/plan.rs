//! Repairs of an unfinished write: decided first, and carried out when the caller has seen the
//! plan.

use std::fmt;

use serde::Serialize;

use super::{Leftover, Repair};
use crate::dataset::DatasetReader;
use crate::error::{Error, ErrorKind, Result};
use crate::format::dataset::SideFile;
use crate::storage::shown;

/// How an unfinished write ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// The samples that were written whole are published: all, or the beginning of a write that was cut
    /// short.
    Finish,
    /// The new samples are removed, and the earlier dataset stays.
    Undo,
}

/// The action of [`RepairPlan::run`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum RepairAction {
    /// Nothing is unfinished.
    None,
    /// Finishes the write.
    Finish,
    /// Undoes the write, and removes this many bytes of samples.
    Undo {
        /// Bytes of samples that are lost.
        drops: u64,
    },
    /// Refuses: there are whole samples and no earlier dataset, so a person has to choose an
    /// [`Ending`].
    Choose,
    /// Refuses: another program has written the dataset since. Only [`Ending::Undo`] continues.
    Refuse,
}

/// The findings and the action of a repair: see [`Repair::plan`].
#[derive(Debug, Clone)]
#[must_use]
pub struct RepairPlan<'a> {
    repair: &'a Repair,
    /// The files that a killed writer left.
    pub leftover: Option<Leftover>,
    /// Samples of an unfinished write that reached the file whole.
    pub whole_samples: u64,
    /// Whether these are all that it was to have. If not, it was cut short, and to finish it publishes a
    /// beginning.
    pub complete: bool,
    /// The action that a repair takes.
    pub action: RepairAction,
}

/// The result of a repair.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Repaired {
    /// How the unfinished write ended.
    pub did: Settled,
    /// Samples of the dataset now; `None` without a dataset.
    pub samples: Option<u64>,
    /// Bytes of samples that were removed.
    pub dropped_bytes: u64,
    /// Whether the write that was finished had been cut short, so that samples are missing.
    pub cut_short: bool,
}

/// The outcome for an unfinished write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Settled {
    /// There was no unfinished write.
    Nothing,
    /// It was finished.
    Finished,
    /// It was undone.
    Undone,
}

impl fmt::Display for Settled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Settled::Nothing => "nothing",
            Settled::Finished => "finished",
            Settled::Undone => "undone",
        })
    }
}

/// Whether a dataset was written to its end: see [`Repair::state`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum WriteState {
    /// No sign of an unfinished write was found.
    Finished,
    /// There is an unfinished write, which can be finished or undone.
    Unfinished,
    /// A killed writer left something of no worth.
    Leftover,
    /// A writer is at work.
    BeingWritten,
    /// Something is in the place of an unfinished write that no writer of this crate made.
    Foreign,
}

impl Repair {
    /// Whether the dataset was written to its end, for one who only asks.
    ///
    /// # Errors
    ///
    /// The errors of the system.
    pub fn state(&self) -> Result<WriteState> {
        match self.leftover() {
            Ok(None) => Ok(WriteState::Finished),
            Ok(Some(Leftover::Committed | Leftover::Samples { .. })) => Ok(WriteState::Unfinished),
            Ok(Some(_)) => Ok(WriteState::Leftover),
            Err(error) if error.kind() == ErrorKind::Locked => Ok(WriteState::BeingWritten),
            Err(error) if error.kind() == ErrorKind::Foreign => Ok(WriteState::Foreign),
            Err(error) => Err(error),
        }
    }

    /// Decides what to do about an unfinished write. One that has all its samples is finished. Of any other
    /// the dataset that was there before stays, if there was one; if not, and whole
    /// samples were written, it needs `ending`.
    ///
    /// ```
    /// use kiste::repair::{Ending, Repair, RepairAction, Settled};
    ///
    /// # let dir = tempfile::tempdir()?;
    /// # let path = dir.path().join("cut-short.msgpack");
    /// let mut writer = kiste::Writer::create(&path)?;
    /// writer.write_raw("a", b"\x81\xa3key\xa1a")?;
    /// drop(writer); // as if the process had been killed
    ///
    /// let repair = Repair::of(&path);
    /// let plan = repair.plan(None)?;
    /// assert_eq!((plan.action, plan.complete), (RepairAction::Choose, false));
    /// let repaired = repair.plan(Some(Ending::Finish))?.run()?;
    /// assert_eq!((repaired.did, repaired.samples), (Settled::Finished, Some(1)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The errors of [`leftover`](Self::leftover), and [`NotFound`](ErrorKind::NotFound) if there is neither
    /// a dataset nor a leftover.
    pub fn plan(&self, ending: Option<Ending>) -> Result<RepairPlan<'_>> {
        // The plan holds no lock: a program that asks a person may wait for long. `run` looks again.
        let leftover = self.leftover()?;
        let undo = ending == Some(Ending::Undo);
        let (mut whole_samples, mut complete) = (0, matches!(leftover, Some(Leftover::Committed)));
        let action = match &leftover {
            None if !self.is_there()? => {
                let message = "no such file or directory";
                return Err(Error::new(ErrorKind::NotFound, message).at(shown(&self.path)));
            }
            None => RepairAction::None,
            Some(Leftover::Committed) if !undo => RepairAction::Finish,
            Some(Leftover::Foreign { .. }) if !undo => RepairAction::Refuse,
            Some(Leftover::Samples { bytes, earlier, .. }) => {
                (whole_samples, complete) = self.found()?;
                match ending {
                    None if complete && whole_samples > 0 => RepairAction::Finish,
                    Some(Ending::Finish) if whole_samples > 0 => RepairAction::Finish,
                    None if whole_samples > 0 && !earlier => RepairAction::Choose,
                    // An empty dataset is no replacement for one that has samples.
                    _ => RepairAction::Undo { drops: *bytes },
                }
            }
            Some(_) => RepairAction::Undo { drops: 0 },
        };
        Ok(RepairPlan { repair: self, leftover, whole_samples, complete, action })
    }

    fn is_there(&self) -> Result<bool> {
        if let Some((storage, path)) = self.objects()? {
            // Data alone are no dataset there: `.offsets` comes last.
            return Ok(storage.stat(&SideFile::Offsets.path(&path))?.is_some());
        }
        Ok(self.files().stat(&self.path)?.is_some())
    }
}

impl RepairPlan<'_> {
    /// Does what was decided.
    ///
    /// # Errors
    ///
    /// [`Interrupted`](ErrorKind::Interrupted) where the action is [`RepairAction::Choose`],
    /// [`Foreign`](ErrorKind::Foreign) where it is [`RepairAction::Refuse`], and the errors of
    /// [`Repair::finish`] and [`Repair::undo`].
    pub fn run(self) -> Result<Repaired> {
        let repair = self.repair;
        let refused = |kind, message: &str| Err(Error::new(kind, message).at(shown(&repair.path)));
        let (did, dropped_bytes) = match self.action {
            RepairAction::None => (Settled::Nothing, 0),
            RepairAction::Finish => {
                repair.finish()?;
                (Settled::Finished, 0)
            }
            RepairAction::Undo { drops } => {
                repair.undo()?;
                (Settled::Undone, drops)
            }
            RepairAction::Choose => {
                return refused(ErrorKind::Interrupted, "expected how the unfinished write ends");
            }
            RepairAction::Refuse => {
                let message =
                    "another program has written this dataset since a write was cut short";
                return refused(ErrorKind::Foreign, message);
            }
        };
        let samples = match repair.is_there()? {
            true => {
                let here = || (repair.files().clone(), repair.path.clone());
                let (storage, path) = repair.objects()?.unwrap_or_else(here);
                Some(DatasetReader::options().storage(storage).open(path)?.len() as u64)
            }
            false => None,
        };
        let cut_short = did == Settled::Finished && !self.complete;
        Ok(Repaired { did, samples, dropped_bytes, cut_short })
    }
}
