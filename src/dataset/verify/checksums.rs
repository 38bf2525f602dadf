//! The samples of a dataset against `.crc`.

use std::path::PathBuf;

use rayon::prelude::*;

use crate::error::Result;
use crate::format::dataset::{SideFile, crc};
use crate::format::hex;
use crate::storage::Source;

use super::super::index::{self, Found};
use super::{Files, VerifyProblem};

/// The result of comparing samples with their checksums.
pub(super) struct Compared {
    /// The `.crc`.
    path: PathBuf,
    pub(super) samples: u64,
    /// The MD5 that the data had when the checksums were made, if it was known.
    md5: Option<[u8; 16]>,
    /// A problem for each sample that differs.
    wrong: Vec<VerifyProblem>,
}

impl Files<'_> {
    /// Compares every sample with its checksum, if there is a `.crc` of these offsets.
    pub(super) fn compare(
        &self,
        data: &Source,
        ends: &[u64],
        listed: Option<&[&[u8]]>,
        problems: &mut Vec<VerifyProblem>,
    ) -> Result<Option<Compared>> {
        let path = SideFile::Crc.path(&self.path);
        let found = index::open_checksums(&*self.storage, &self.path, || {
            Ok(crc::Source {
                count: ends.len().saturating_sub(1) as u64,
                data_len: self.end,
                // Which MD5 the data has is not known yet.
                md5: None,
                offsets: index::checksum_of_offsets(ends),
            })
        })?;
        let checksums = match found {
            Found::Current(checksums) => checksums,
            Found::Missing => return Ok(None),
            Found::Stale(e) => {
                problems.push(VerifyProblem::new(&path, index::stale(&e)));
                return Ok(None);
            }
            Found::Damaged(e) => {
                problems.push(VerifyProblem::new(&path, index::damaged(&e)));
                return Ok(None);
            }
        };
        let check = |(index, pair): (usize, &[u64])| -> Result<Option<VerifyProblem>> {
            let range = pair[0]..pair[1];
            if range.start > range.end || range.end > self.end {
                return Ok(None); // reported already
            }
            self.passes.add(range.end - range.start)?;
            let raw = data.read(range.clone())?;
            let Some(mismatch) = checksums.compare(index, &raw)? else { return Ok(None) };
            let problem =
                VerifyProblem::new(&self.path, mismatch.to_string()).index(index).bytes(range);
            let key = listed.and_then(|listed| listed.get(index));
            Ok(Some(key.map_or(problem.clone(), |key| problem.key(key))))
        };
        let pairs = ends.par_windows(2).with_min_len(16).enumerate();
        let wrong = pairs.filter_map(|pair| check(pair).transpose()).collect::<Result<_>>()?;
        let samples = ends.len().saturating_sub(1) as u64;
        Ok(Some(Compared { path, samples, md5: checksums.of().md5, wrong }))
    }

    /// Compares checksums and digests, and concludes which of them is wrong, or the data. Returns
    /// whether the checksums can be believed.
    ///
    /// `intact`: whether the data has the MD5 that `.md5` says, if it says any.
    pub(super) fn judge(
        &self,
        data: &Source,
        compared: Compared,
        intact: Option<bool>,
        problems: &mut Vec<VerifyProblem>,
    ) -> Result<bool> {
        let Compared { path, samples, md5: then, wrong } = compared;
        let recorded = index::recorded_md5(&self.storage, &self.path)?;
        if let (Some(then), Some(recorded)) = (then, recorded) {
            if then != recorded {
                let (expected, found) = (hex(&recorded), hex(&then));
                if intact == Some(false) && self.digest_data(data)? == then {
                    let md5 = SideFile::Md5.path(&self.path);
                    let message = format!(
                        "the line of the data is wrong, not the data: .crc is of data with the \
                         MD5 {found}, and so is this"
                    );
                    problems.push(VerifyProblem::new(&md5, message));
                    return Ok(true);
                }
                let message =
                    format!("of data with another MD5, expected {expected}, found {found}");
                problems.push(VerifyProblem::new(&path, message));
                return Ok(false);
            }
        }
        let count = wrong.len() as u64;
        if count == 0 {
            return Ok(true);
        }
        let mut believed = false;
        if intact == Some(true) {
            let message =
                format!("{count} of {samples} checksums are wrong, as the data has its MD5");
            problems.push(VerifyProblem::new(&path, message));
        } else if count == samples && samples > 1 && then.is_none() {
            let message = "no sample has the checksum it is to have: these are of another version \
                           of the dataset, which is for you to remove, or all of the data is wrong";
            problems.push(VerifyProblem::new(&path, message));
        } else {
            problems.extend(wrong);
            believed = true;
        }
        Ok(believed)
    }
}
