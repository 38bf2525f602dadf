//! Every sample, decoded.

use rayon::prelude::*;

use crate::error::Result;
use crate::format::dataset::lookup;
use crate::format::msgpack;
#[cfg(feature = "arrays")]
use crate::format::msgpack::numpy;
use crate::storage::Source;

use super::keys::same_hashes;
use super::{Files, VerifyProblem};

impl Files<'_> {
    /// Decodes every sample, and compares its key.
    pub(super) fn check_samples(
        &self,
        data: &Source,
        ends: Option<&[u64]>,
        listed: Option<&[&[u8]]>,
        problems: &mut Vec<VerifyProblem>,
    ) -> Result<usize> {
        let walked;
        let ends = match ends {
            Some(ends) => ends,
            None => {
                walked = self.walk(data, problems)?;
                &walked
            }
        };
        // The hashes of keys that no list has, to find those that come twice.
        let is_unlisted = listed.is_none();
        let check = |(index, pair): (usize, &[u64])| -> Result<(Option<u64>, Vec<VerifyProblem>)> {
            let range = pair[0]..pair[1];
            if range.start > range.end || range.end > self.end {
                return Ok((None, Vec::new())); // reported already
            }
            self.passes.add(range.end - range.start)?;
            let raw = data.read(range.clone())?;
            let listed = listed.and_then(|listed| listed.get(index));
            let problem = match msgpack::check_sample(&raw) {
                Ok(key) if listed.is_none_or(|listed| *listed == key.as_bytes()) => {
                    let hash = is_unlisted.then(|| lookup::hash(key.as_bytes()));
                    #[cfg(feature = "arrays")]
                    return Ok((hash, self.check_arrays(&raw, index, key, range.start)));
                    #[cfg(not(feature = "arrays"))]
                    return Ok((hash, Vec::new()));
                }
                Ok(key) => {
                    let listed = String::from_utf8_lossy(listed.unwrap_or(&&[][..]));
                    VerifyProblem::new(
                        &self.path,
                        format!("expected the key {listed:?}, found {key:?}"),
                    )
                }
                Err(e) => {
                    let problem = VerifyProblem::at_format(&self.path, e);
                    listed.map_or(problem.clone(), |key| problem.key(key))
                }
            };
            Ok((None, vec![problem.index(index).bytes(range)]))
        };
        let windows: Vec<(usize, &[u64])> = ends.windows(2).enumerate().collect();
        let found: Vec<(Option<u64>, Vec<VerifyProblem>)> =
            windows.into_par_iter().with_min_len(16).map(check).collect::<Result<_>>()?;
        let hashes = found.iter().enumerate().filter_map(|(i, (hash, _))| Some((i, (*hash)?)));
        let (indices, hashes): (Vec<usize>, Vec<u64>) = hashes.unzip();
        problems.extend(found.into_iter().flat_map(|(_, problems)| problems));
        for (first, second) in same_hashes(&hashes) {
            let (first, second) = (indices[first], indices[second]);
            let bytes = |index: usize| ends[index]..ends[index + 1];
            let (one, other) = (data.read(bytes(first))?, data.read(bytes(second))?);
            let Ok(key) = msgpack::check_sample(&other) else { continue };
            if msgpack::check_sample(&one) == Ok(key) {
                let message = format!("sample {first} has the same key");
                let problem = VerifyProblem::new(&self.path, message);
                problems.push(problem.index(second).key(key.as_bytes()).bytes(bytes(second)));
            }
        }
        Ok(ends.len().saturating_sub(1))
    }

    /// Decodes every array of a sample that is well-formed and begins at this byte of the file.
    #[cfg(feature = "arrays")]
    pub(super) fn check_arrays(
        &self,
        raw: &[u8],
        index: usize,
        key: &str,
        start: u64,
    ) -> Vec<VerifyProblem> {
        let Ok(arrays) = numpy::arrays_in(raw) else { return Vec::new() };
        let flawed = arrays.filter_map(|stored| {
            let stored = stored.ok()?;
            let flaw = stored.check().err()?;
            let message = format!("field {:?}: {flaw}", stored.field_name());
            let bytes = start + stored.range.start as u64..start + stored.range.end as u64;
            let problem = VerifyProblem::new(&self.path, message).index(index);
            Some(problem.key(key.as_bytes()).bytes(bytes))
        });
        flawed.collect()
    }
}
