//! `.lengths` against the dataset, and its columns against their checksums.

use super::super::index::{FoundLengths, stale_lengths};
use super::{Files, VerifyProblem};
use crate::error::Result;
use crate::format::dataset::{SideFile, crc};

impl Files<'_> {
    /// Checks `.lengths`, if there is one. The numbers are not made again.
    pub(super) fn check_lengths(
        &self,
        now: &crc::Source,
        problems: &mut Vec<VerifyProblem>,
    ) -> Result<()> {
        let Some((path, source)) = self.open(SideFile::Lengths)? else { return Ok(()) };
        // All evidence is compared, also where less would do for reading.
        let now = crc::Source { md5: now.md5.filter(|md5| *md5 != [0; 16]), ..*now };
        let problem = |flaw: String| VerifyProblem::new(&path, flaw);
        match FoundLengths::look(source, &now, || Ok(now.offsets))? {
            FoundLengths::Missing => {}
            FoundLengths::Stale(e, _) => problems.push(problem(stale_lengths(&e))),
            FoundLengths::Damaged(e) => problems.push(problem(e.to_string())),
            FoundLengths::Current(file) => {
                if file.header.source().offsets != now.offsets {
                    let (now, then) = (now.offsets, file.header.source().offsets);
                    let flaw =
                        format!("expected the checksum of .offsets {now:08x}, found {then:08x}");
                    problems.push(problem(flaw));
                }
                for column in 0..file.header.columns().len() {
                    if let Err(e) = file.scan(column, |_, _| Ok(()))? {
                        problems.push(problem(e.to_string()));
                    }
                }
            }
        }
        Ok(())
    }
}
