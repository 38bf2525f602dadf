//! Where the samples are: `.offsets`, the legacy `.index`, or the data itself.

use crate::error::Result;
use crate::format::dataset::{SideFile, legacy_index, offsets};
use crate::storage::Source;

use super::super::walk::{NoMessage, messages};
use super::{Files, VerifyProblem};

impl Files<'_> {
    /// The offsets, if they can be used: `None` without `.offsets` or if their size is wrong.
    pub(super) fn check_offsets(
        &self,
        data_len: u64,
        problems: &mut Vec<VerifyProblem>,
    ) -> Result<Option<Vec<u64>>> {
        let Some((path, file)) = self.open(SideFile::Offsets)? else { return Ok(None) };
        let count = match offsets::count_within(file.len(), data_len) {
            Ok(count) => count,
            Err(e) => {
                problems.push(VerifyProblem::at_format(&path, e));
                return Ok(None);
            }
        };
        let bytes = file.read(0..file.len())?;
        let ends: Vec<u64> =
            (0..=count as usize).filter_map(|i| offsets::entry(&bytes, i)).collect();
        let (first, last) = (ends[0], ends[count as usize]);
        if let Err(e) = offsets::check_ends(count, first, last, data_len) {
            problems.push(VerifyProblem::at_format(&path, e));
        }
        for (index, pair) in ends.windows(2).enumerate() {
            if pair[0] > pair[1] || pair[1] > data_len {
                let message = format!(
                    "expected ascending offsets of at most {data_len}, found {} and {}",
                    pair[0], pair[1]
                );
                let at = index as u64 * offsets::ENTRY;
                let bytes = at..at + 2 * offsets::ENTRY;
                problems.push(VerifyProblem::new(&path, message).index(index).bytes(bytes));
            }
        }
        Ok(Some(ends))
    }

    /// The offsets by the legacy index, compared with the others.
    pub(super) fn check_legacy(
        &self,
        data_len: u64,
        ends: Option<&[u64]>,
        problems: &mut Vec<VerifyProblem>,
    ) -> Result<Option<Vec<u64>>> {
        let Some((path, file)) = self.open(SideFile::Index)? else { return Ok(None) };
        let bytes = file.read(0..file.len())?;
        let entries = legacy_index::Entries::parse(&bytes);
        let parsed = entries.and_then(|entries| entries.map(|e| e.map(|e| e.1)).collect());
        let mut legacy: Vec<u64> = match parsed {
            Ok(starts) => starts,
            Err(e) => {
                problems.push(VerifyProblem::at_format(&path, e));
                return Ok(None);
            }
        };
        if let Some(start) = legacy.last().filter(|start| **start > data_len) {
            let message = format!("expected offsets of at most {data_len}, found {start}");
            problems.push(VerifyProblem::new(&path, message));
        }
        legacy.push(data_len);
        if ends.is_some_and(|ends| ends != legacy) {
            problems.push(VerifyProblem::new(&path, "does not agree with .offsets"));
        }
        Ok(Some(legacy))
    }

    /// Where the samples are, without offsets: one after another until something is wrong.
    pub(super) fn walk(
        &self,
        data: &Source,
        problems: &mut Vec<VerifyProblem>,
    ) -> Result<Vec<u64>> {
        let bytes = data.read(0..self.end)?;
        let mut ends = vec![0];
        for message in messages(&bytes) {
            match message {
                Ok(message) => ends.push(message.end),
                Err(NoMessage { start, error }) => {
                    let problem = VerifyProblem::at_format(&self.path, error).index(ends.len() - 1);
                    problems.push(problem.bytes(start..self.end));
                }
            }
        }
        Ok(ends)
    }
}
