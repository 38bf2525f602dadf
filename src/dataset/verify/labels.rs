//! Whether the names of labels name all labels that samples have.

use rayon::prelude::*;

use crate::dataset::labels::{labels_path, read_labels_from};
use crate::error::Result;
use crate::format::msgpack::{self, Cursor, Kind, sample};
use crate::storage::Source;

use super::{Files, VerifyProblem};

/// The field whose numbers are named.
const LABEL: &str = "label";

impl Files<'_> {
    /// Looks for labels without a name, if there are names. `ends` are the offsets of the samples.
    pub(super) fn check_labels(
        &self,
        data: &Source,
        ends: &[u64],
        problems: &mut Vec<VerifyProblem>,
    ) -> Result<()> {
        let path = labels_path(&self.path);
        let names = match read_labels_from(&*self.storage, &self.path) {
            Ok(Some(names)) => names.len() as u64,
            Ok(None) => return Ok(()),
            Err(error) => {
                problems.push(VerifyProblem::new(&path, error.message()));
                return Ok(());
            }
        };
        let unnamed = |(index, pair): (usize, &[u64])| -> Result<Option<(usize, u64)>> {
            // Problems of positions and samples are reported elsewhere.
            if pair[0] > pair[1] || pair[1] > self.end {
                return Ok(None);
            }
            let label = label_of(&data.read(pair[0]..pair[1])?);
            Ok(label.filter(|label| *label >= names).map(|label| (index, label)))
        };
        let windows: Vec<(usize, &[u64])> = ends.windows(2).enumerate().collect();
        let found: Vec<Option<(usize, u64)>> =
            windows.into_par_iter().with_min_len(64).map(unnamed).collect::<Result<_>>()?;
        for (index, label) in found.into_iter().flatten() {
            let message = format!("expected a name for label {label}, found {names} names");
            problems.push(VerifyProblem::new(&path, message).index(index));
        }
        Ok(())
    }
}

/// The label of a sample, if that is a number from 0 on.
fn label_of(packed: &[u8]) -> Option<u64> {
    msgpack::check_sample(packed).ok()?;
    let mut value = Cursor::new(sample::field(packed, LABEL).ok()??);
    match value.peek().ok()? {
        Kind::Int => value.read_u64().ok(),
        _ => None,
    }
}
