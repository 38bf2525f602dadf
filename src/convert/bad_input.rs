//! [`BadInput`]: what happens to input that is bad, and what is counted meanwhile.

use serde::{Deserialize, Serialize};

use super::carried::Remarks;
use crate::array::ArrayTally;
use crate::error::{Error, ErrorKind};
use crate::note::required;

/// What happens to samples that are damaged, or that the output cannot hold.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum BadInput {
    /// The first one stops the conversion.
    #[default]
    Stop,
    /// They are left out and counted.
    Skip,
    /// They are left out, and `OUTPUT.quarantine.jsonl` lists them with the reasons.
    Quarantine,
}

/// How many reasons a report has.
const REASONS: usize = 5;

/// The counts so far. A resumed run continues from them.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Tally {
    pub(super) skipped_duplicates: u64,
    /// Those of the first among them that differ from the sample that stays.
    #[serde(default)]
    pub(super) different_duplicates: u64,
    /// Samples that are bad, and among them places after which a file could not be read.
    pub(super) bad: u64,
    /// Those among them that may be sound, but are of a kind that cannot be read here.
    #[serde(default)]
    pub(super) unsupported: u64,
    pub(super) cut: u64,
    /// The faults of the first ones, with their places.
    pub(super) first: Vec<String>,
    /// Bytes of the quarantine file.
    pub(super) quarantined: u64,
    #[serde(deserialize_with = "required")]
    pub(super) arrays: Option<ArrayTally>,
    pub(super) unseen: Vec<String>,
    /// Contents of the sources that were left out or changed.
    #[serde(default, skip_serializing_if = "Remarks::is_empty")]
    pub(super) remarks: Remarks,
}

impl Tally {
    pub(super) fn note(&mut self, error: &Error) {
        self.bad += 1;
        self.unsupported += u64::from(error.kind() == ErrorKind::Unsupported);
        self.cut += u64::from(error.ends_unit());
        if self.first.len() < REASONS {
            self.first.push(error.to_string());
        }
    }

    /// Adds what was counted for later samples.
    pub(super) fn add(&mut self, later: Tally) {
        let sum = |sum: &mut u64, more: u64| *sum = sum.saturating_add(more);
        sum(&mut self.skipped_duplicates, later.skipped_duplicates);
        sum(&mut self.different_duplicates, later.different_duplicates);
        sum(&mut self.bad, later.bad);
        sum(&mut self.unsupported, later.unsupported);
        sum(&mut self.cut, later.cut);
        sum(&mut self.quarantined, later.quarantined);
        self.first.extend(later.first);
        self.first.truncate(REASONS);
        if let Some(arrays) = later.arrays {
            *self.arrays.get_or_insert_default() += arrays;
        }
        self.remarks.add(&later.remarks);
        // A field that one part has not seen, another one may have.
        self.unseen.retain(|name| later.unseen.contains(name));
    }
}
