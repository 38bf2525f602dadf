//! [`Monitor`]: progress, warnings and cancellation, to be drawn or logged.

use crate::error::Shown;
use std::fmt;
use std::path::{Path, PathBuf};

use super::Part;
use super::carried::{ChangedValues, Remark};
use crate::error::{Error, ErrorKind, Result};

/// Watches a conversion: a progress bar, a log, a window with a button to stop.
///
/// Every method does nothing by default. They are called on the thread that runs the conversion, a
/// few times a second at most for each core, so they may take a lock or print.
///
/// A closure is a monitor that hears of progress alone, and [`Silent`] one that hears of nothing.
///
/// ```
/// use kiste::convert::{Conversion, Progress};
///
/// # let dir = tempfile::tempdir()?;
/// # let (lines, out) = (dir.path().join("a.jsonl"), dir.path().join("a.msgpack"));
/// # std::fs::write(&lines, "{\"key\": \"a\"}\n")?;
/// let mut last = 0;
/// Conversion::new([&lines], &out).run(&mut |progress: Progress| last = progress.samples)?;
/// assert_eq!(last, 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Monitor {
    /// A phase begins, and the one before it is over.
    fn begin(&mut self, phase: Phase, total: Total) {
        let _ = (phase, total);
    }

    /// How far the present phase is.
    fn progress(&mut self, progress: Progress) {
        let _ = progress;
    }

    /// Something that a person should know.
    fn notice(&mut self, notice: Notice) {
        let _ = notice;
    }

    /// Whether to stop: asked before each batch of samples. The conversion then ends with
    /// [`Cancelled`](ErrorKind::Cancelled), and leaves what an error would leave, or what
    /// [`keep_cancelled`](super::Conversion::keep_cancelled) says.
    fn is_cancelled(&self) -> bool {
        false
    }
}

/// A monitor that hears of nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct Silent;

impl Monitor for Silent {}

impl<F: FnMut(Progress)> Monitor for F {
    fn progress(&mut self, progress: Progress) {
        self(progress);
    }
}

/// The phase that a conversion is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Phase {
    /// Reads the input and writes samples.
    Converting,
    /// The same for one part.
    Part(Part),
    /// Joins parts.
    Joining,
    /// The first pass of a shuffle in parts, of one part.
    Scattering(Part),
    /// Waits for the disk and publishes what was written.
    Finishing,
}

/// How much there is to do in a phase, where that is known in advance.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Total {
    /// Samples, those that are there already included.
    pub samples: Option<u64>,
    /// Bytes of input.
    pub input_bytes: Option<u64>,
}

/// How far a phase is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Progress {
    /// Samples that have been written.
    pub samples: u64,
    /// Bytes that have been written.
    pub bytes: u64,
    /// Bytes of input that have been read; 0 where that is not known.
    pub input_bytes: u64,
}

/// Something that a person should know about a conversion. Prints as one line without a full stop.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Notice {
    /// The output is complete: there is nothing to resume.
    Complete(PathBuf),
    /// It continues after this many samples.
    Resumes {
        /// The output.
        path: PathBuf,
        /// Samples that are there.
        samples: u64,
    },
    /// The part was finished before.
    PartFinished {
        /// The output.
        path: PathBuf,
        /// The part.
        part: Part,
    },
    /// The parts were joined before; only their directory was left to remove.
    Joined(PathBuf),
    /// The names of the labels are lost, as the output has no place for them.
    LabelsLost,
    /// A field of the first samples changes on the way, or is lost.
    FieldChanges {
        /// The output.
        path: PathBuf,
        /// The field and its change, in words.
        change: String,
    },
    /// Values of a field became something else, as the format has no exact form for them.
    ValuesChanged {
        /// The output.
        path: PathBuf,
        /// The kinds before and after, and the number of values.
        changed: ChangedValues,
    },
    /// Something in the sources was left out, or changed on the way to the samples.
    Remarked(Remark),
    /// The key becomes a field like others, called `key`. A conversion back makes it the key again
    /// with [`key_field`](super::Conversion::key_field).
    KeyBecomesField(PathBuf),
    /// Names of files in WebDataset end at their first dot, so dots in keys are written as `%2E`, and read as dots
    /// again by kiste alone.
    KeysEscaped(PathBuf),
    /// Keys that the source itself has are replaced by others, and are in no field.
    KeysReplaced,
    /// More fields change: [`dry_run`](super::Conversion::dry_run) lists all.
    MoreFieldsChange,
    /// A table has one column, in which another delimiter occurs in every row.
    OneColumn {
        /// The table.
        path: PathBuf,
        /// The likely delimiter.
        delimiter: char,
    },
    /// The name of the output has an ending that names no format, so it is a dataset.
    OtherEnding(PathBuf),
    /// The directory that the first pass of a shuffle wrote to is not on this machine, so nothing in it was
    /// removed.
    ScatterElsewhere(PathBuf),
    /// Keys in lists of a split that no sample has.
    UnusedListKeys {
        /// How many.
        keys: u64,
        /// The first of them.
        first: String,
    },
}

impl Notice {
    /// Whether something may be other than expected. Else it is only for information.
    pub fn is_warning(&self) -> bool {
        matches!(
            self,
            Notice::LabelsLost
                | Notice::Remarked(_)
                | Notice::OneColumn { .. }
                | Notice::ScatterElsewhere(_)
                | Notice::UnusedListKeys { .. }
        )
    }
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Notice::Complete(path) => {
                write!(f, "{}: complete already, nothing to resume", Shown::of(&path))
            }
            Notice::Resumes { path, samples } => {
                write!(f, "{}: resuming after {}", Shown::of(&path), counted(*samples, "sample"))
            }
            Notice::PartFinished { path, part } => {
                write!(f, "{}: part {part} is finished already", Shown::of(&path))
            }
            Notice::Joined(path) => write!(f, "{}: was joined before", Shown::of(&path)),
            Notice::OtherEnding(path) => {
                write!(
                    f,
                    "{}: the ending names no format, so a dataset is written",
                    Shown::of(&path)
                )
            }
            Notice::LabelsLost => f.write_str(
                "the names of the labels are lost, as this format has no place for them",
            ),
            Notice::FieldChanges { path, change } => write!(f, "{}: {change}", Shown::of(&path)),
            Notice::ValuesChanged { path, changed } => write!(f, "{}: {changed}", Shown::of(&path)),
            Notice::Remarked(remark) => remark.fmt(f),
            Notice::KeyBecomesField(path) => {
                write!(f, "{}: the key becomes a field \"key\"", Shown::of(&path))
            }
            Notice::KeysEscaped(path) => write!(
                f,
                "{}: dots in keys become %2E, as names of samples end at a dot",
                Shown::of(&path)
            ),
            Notice::KeysReplaced => f.write_str("the keys of the source are replaced, not kept"),
            Notice::MoreFieldsChange => f.write_str("more fields change; a dry run lists all"),
            Notice::OneColumn { path, delimiter } => {
                let path = Shown::of(&path);
                write!(f, "{path}: has one column, whose values may be separated by {delimiter:?}")
            }
            Notice::ScatterElsewhere(dir) => {
                let dir = Shown::of(&dir);
                write!(f, "{dir}: not found on this machine: remove it where the shuffle wrote it")
            }
            Notice::UnusedListKeys { keys, first } => {
                write!(f, "no samples for {}, such as {first:?}", counted(*keys, "key"))
            }
        }
    }
}

/// `1 sample`, `1,000 samples`
pub(super) fn counted(count: u64, noun: &str) -> String {
    counted_as(count, noun, &format!("{noun}s"))
}

/// The same of a noun whose plural does not end in `s`.
pub(super) fn counted_as(count: u64, one: &str, many: &str) -> String {
    let digits = count.to_string();
    let mut grouped = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at) % 3 == 0 {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    format!("{grouped} {}", if count == 1 { one } else { many })
}

/// The message for a conversion that a monitor stopped.
const INTERRUPTED: &str = "interrupted";

/// Says of a conversion that was stopped what stays of it.
pub(super) fn kept(error: Error, path: &Path, what: impl fmt::Display) -> Error {
    match error.kind() == ErrorKind::Cancelled && error.message() == INTERRUPTED {
        true => error.note(what).at(path),
        false => error,
    }
}

/// Fails if the monitor wants to stop.
pub(super) fn check_cancelled(monitor: &dyn Monitor) -> Result<()> {
    match monitor.is_cancelled() {
        true => Err(Error::new(ErrorKind::Cancelled, INTERRUPTED)),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_have_commas() {
        for (count, text) in [(0, "0 keys"), (1, "1 key"), (999, "999 keys"), (1000, "1,000 keys")]
        {
            assert_eq!(counted(count, "key"), text);
        }
        assert_eq!(counted(1_234_567, "key"), "1,234,567 keys");
    }
}
