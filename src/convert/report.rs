//! [`Report`]: what a conversion did.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};

use super::bad_input::Tally;
use super::carried::{ChangedValues, Remark};
use super::monitor::{Monitor, Notice};
use super::output_checks::present_labels;
use crate::array::ArrayTally;
use crate::dataset::labels_path;
use crate::storage::{self, Shown};

/// Remarks that are passed to a monitor one by one: a table has any number of fields.
const TOLD: usize = 20;

/// The result of a conversion.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct Report {
    /// The outputs: one, or those that a split makes. A part that is not yet joined
    /// has the file of the part.
    pub outputs: Vec<WrittenOutput>,
    /// Whether all of it was there before, so that nothing had to be done.
    pub was_complete: bool,
    /// Samples that were skipped because their key was there before.
    pub skipped_duplicates: u64,
    /// How many of them differ from the sample that stays; of more than a thousand at least this many.
    pub different_duplicates: u64,
    /// Bad samples that were left out.
    pub bad: BadSamples,
    /// The file that lists them, if there is one.
    pub quarantine: Option<PathBuf>,
    /// Files of a folder that were not read: no images by their names, or outside of the folders of
    /// labels, or not in the metadata.
    pub skipped_files: u64,
    /// Counts of arrays, if they were to be stored differently.
    pub arrays: Option<ArrayTally>,
    /// Values that became something else, as the output has no exact form for them.
    pub changes: Vec<ChangedValues>,
    /// Contents of the sources that the samples lack or have changed.
    pub remarks: Vec<Remark>,
    /// How long this run took, from its start to its end.
    pub duration: Duration,
    /// Whether earlier runs have read or written some of it: then the duration is not the total.
    pub resumed: bool,
}

/// An output that was written.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct WrittenOutput {
    /// The output, as it was named.
    pub path: PathBuf,
    /// Its files: the data file, a directory, or all shards.
    pub files: Vec<PathBuf>,
    /// Samples it has.
    pub samples: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// Samples that are new: all, unless they were appended.
    pub added: u64,
    /// Bytes of them.
    pub added_bytes: u64,
    /// Whether it is a dataset.
    pub is_dataset: bool,
    /// The file of the labels of a dataset, if there is one.
    pub labels: Option<PathBuf>,
}

/// Bad samples that were left out.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct BadSamples {
    /// How many.
    pub count: u64,
    /// Those among them that may be sound, but are of a kind that cannot be read here.
    pub unsupported: u64,
    /// Places after which the rest of a file could not be read.
    pub unread_places: u64,
    /// The first errors, with their places.
    pub first: Vec<String>,
}

impl WrittenOutput {
    pub(crate) fn dataset(path: PathBuf, samples: u64, bytes: u64) -> WrittenOutput {
        let labels = present_labels(&path);
        WrittenOutput {
            files: vec![path.clone()],
            path,
            samples,
            bytes,
            added: samples,
            added_bytes: bytes,
            is_dataset: true,
            labels,
        }
    }

    /// The same of a dataset that was just written, with or without labels: behind a URL nothing is
    /// asked.
    pub(crate) fn written(path: &Path, samples: u64, bytes: u64, labels: bool) -> WrittenOutput {
        let path = storage::shown(path);
        let labels = match storage::is_url(&path) {
            true => labels.then(|| labels_path(&path)),
            false => present_labels(&path),
        };
        WrittenOutput { labels, ..WrittenOutput::dataset(path, samples, bytes) }
    }
}

/// The files as they are printed.
fn shown_all(files: &[PathBuf]) -> Vec<Shown> {
    files.iter().map(Shown::of).collect()
}

impl Report {
    /// The outputs as JSON: an object, or a list of objects for several outputs. `None` if nothing was
    /// written.
    pub fn to_json(&self) -> Option<Value> {
        let mut outputs = self.outputs.iter().map(|made| match made.is_dataset {
            true => self.dataset_json(made),
            false => self.export_json(made),
        });
        match self.outputs.len() {
            0 | 1 => outputs.next(),
            _ => Some(outputs.collect()),
        }
    }

    fn export_json(&self, made: &WrittenOutput) -> Value {
        json!({
            "files": shown_all(&made.files),
            "samples": made.samples,
            "bad": self.bad.count,
            "quarantine": self.quarantine.as_ref().map(Shown::of),
            "changes": self.changes_in_words(),
            "remarks": self.remarks,
            "seconds": self.duration.as_secs_f64(),
        })
    }

    fn dataset_json(&self, made: &WrittenOutput) -> Value {
        json!({
            "file": Shown::of(&made.path),
            "samples": made.samples,
            "bytes": made.bytes,
            "added": made.added,
            "added_bytes": made.added_bytes,
            "skipped_duplicates": self.skipped_duplicates,
            "different_duplicates": self.different_duplicates,
            "bad": self.bad.count,
            "quarantine": self.quarantine.as_ref().map(Shown::of),
            "changes": self.changes_in_words(),
            "remarks": self.remarks,
            "skipped_files": self.skipped_files,
            "labels": made.labels.as_ref().map(Shown::of),
            "arrays": self.arrays,
            "seconds": self.duration.as_secs_f64(),
        })
    }

    fn changes_in_words(&self) -> Vec<String> {
        self.changes.iter().map(ToString::to_string).collect()
    }

    /// Adds what a conversion of [another split](super::Conversion::each_split) did. The list of bad samples is the first
    /// that there is.
    pub fn add(&mut self, other: Report) {
        if self.outputs.is_empty() {
            *self = other;
            return;
        }
        self.outputs.extend(other.outputs);
        self.was_complete &= other.was_complete;
        self.skipped_duplicates += other.skipped_duplicates;
        self.different_duplicates += other.different_duplicates;
        self.bad.count += other.bad.count;
        self.bad.unsupported += other.bad.unsupported;
        self.bad.unread_places += other.bad.unread_places;
        self.bad.first.extend(other.bad.first);
        self.quarantine = self.quarantine.take().or(other.quarantine);
        self.skipped_files += other.skipped_files;
        self.arrays = match (self.arrays.take(), other.arrays) {
            (Some(mut sum), Some(more)) => {
                sum += more;
                Some(sum)
            }
            (one, other) => one.or(other),
        };
        self.changes.extend(other.changes);
        self.remarks.extend(other.remarks);
        self.duration += other.duration;
        self.resumed |= other.resumed;
    }

    /// Whether the input had no samples: none was written, and none left out.
    pub fn is_empty(&self) -> bool {
        let written =
            |made: &WrittenOutput| if made.is_dataset { made.added } else { made.samples };
        let left_out = self.bad.count + self.skipped_duplicates;
        left_out == 0 && self.outputs.iter().all(|made| written(made) == 0)
    }

    /// The same report, after the monitor was told its first remarks.
    pub(super) fn told(self, monitor: &mut dyn Monitor) -> Report {
        for remark in self.remarks.iter().take(TOLD).cloned() {
            monitor.notice(Notice::Remarked(remark));
        }
        self
    }

    /// The counts.
    pub(super) fn of(tally: Tally) -> Report {
        Report {
            skipped_duplicates: tally.skipped_duplicates,
            different_duplicates: tally.different_duplicates,
            bad: BadSamples {
                count: tally.bad,
                unsupported: tally.unsupported,
                unread_places: tally.cut,
                first: tally.first,
            },
            arrays: tally.arrays,
            remarks: tally.remarks.list(),
            ..Report::default()
        }
    }
}
