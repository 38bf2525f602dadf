//! Samples that lie in files of another format: all are read, and their keys compared.

use rayon::prelude::*;

use super::digests::Digested;
use super::{Files, Unfinished, VerifyProblem, VerifyReport};
use crate::dataset::reader::DatasetReader;
use crate::dataset::staging;
use crate::error::{Error, ErrorKind, Result};
use crate::format::msgpack;
use crate::reader::Reader;
use crate::storage::Source;

/// Samples that are read at the same time.
const AT_ONCE: usize = 4096;

impl Files<'_> {
    /// Checks an index of samples in place.
    pub(super) fn report_in_place(&mut self, data: &Source) -> Result<VerifyReport> {
        let Digested { mut problems, remarks, files: digests } = self.check_digests(data)?;
        let missing = self.missing()?;
        let reader = DatasetReader::options().storage(self.storage.clone()).open(&self.path);
        let mut samples = 0;
        match reader {
            Ok(reader) => {
                samples = reader.len() as u64;
                self.check_lengths(&reader.source()?, &mut problems)?;
                self.check_records(&reader, &mut problems)?;
            }
            Err(error) if is_of_system(&error) => return Err(error),
            Err(error) => problems.push(VerifyProblem::new(&self.path, error.to_string())),
        }
        let being_written = staging::is_being_written(&*self.storage, &self.path)?;
        let mut leftover = None;
        if !being_written {
            match self.check_unfinished()? {
                Unfinished::Nothing => {}
                Unfinished::Leftover(dir) => leftover = Some(dir),
                Unfinished::Write(problem) => problems.insert(0, problem),
            }
        }
        Ok(VerifyReport {
            samples,
            bytes: data.len(),
            problems,
            remarks,
            missing,
            digests,
            checksums: 0,
            deep: true,
            being_written,
            leftover,
        })
    }

    /// Reads all samples, whose keys their readers compare with `.key_hashes`, and compares them with `.keys`.
    fn check_records(
        &self,
        reader: &DatasetReader,
        problems: &mut Vec<VerifyProblem>,
    ) -> Result<()> {
        let mut listed = reader.keys();
        for start in (0..reader.len()).step_by(AT_ONCE) {
            let end = reader.len().min(start + AT_ONCE);
            if reader.is_remote() {
                reader.prefetch(&(start..end).collect::<Vec<_>>());
            }
            let keys: Vec<Result<String>> = listed
                .by_ref()
                .take(end - start)
                .map(|key| key.map(|key| key.into_owned()))
                .collect();
            let check =
                |(index, listed): (usize, &Result<String>)| -> Result<Option<VerifyProblem>> {
                    let flaw = match reader.get_raw(index) {
                        Ok(raw) => match (msgpack::check_sample(&raw), listed) {
                            (Ok(key), Ok(listed)) if key == listed => return Ok(None),
                            (Ok(key), Ok(listed)) => {
                                format!("expected the key {listed:?}, as .keys says, found {key:?}")
                            }
                            (Err(error), _) => error.to_string(),
                            (_, Err(error)) => error.to_string(),
                        },
                        Err(error) if is_of_system(&error) => return Err(error),
                        Err(error) => error.to_string(),
                    };
                    let problem = VerifyProblem::new(&self.path, flaw).index(index);
                    Ok(Some(match listed {
                        Ok(key) => problem.key(key.as_bytes()),
                        Err(_) => problem,
                    }))
                };
            let pairs: Vec<(usize, &Result<String>)> = (start..end).zip(&keys).collect();
            let found: Vec<Result<Option<VerifyProblem>>> =
                pairs.into_par_iter().map(check).collect();
            for problem in found {
                problems.extend(problem?);
            }
        }
        Ok(())
    }
}

/// Whether nothing was found to be wrong with the bytes, as there are none.
fn is_of_system(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Io | ErrorKind::Cancelled | ErrorKind::Interrupted)
}
