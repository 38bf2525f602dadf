//! The files of a dataset against `.md5`.

use std::path::{Path, PathBuf};

use rayon::prelude::*;

use crate::error::{ErrorKind, Result};
use crate::format::dataset::{Digest, Digests, SideFile, offsets};
use crate::format::hex;
use crate::format::md5::Md5;
use crate::storage::Source;

use super::super::files::DatasetFile;
use super::super::index;
use super::{Files, VerifyProblem};

/// The result of comparing files with their digests.
#[derive(Default)]
pub(super) struct Digested {
    pub(super) problems: Vec<VerifyProblem>,
    pub(super) remarks: Vec<VerifyProblem>,
    /// Files that were compared.
    pub(super) files: Vec<PathBuf>,
}

impl Files<'_> {
    /// Compares every file that has a digest with it.
    pub(super) fn check_digests(&self, data: &Source) -> Result<Digested> {
        let Some((path, source)) = self.open(SideFile::Md5)? else { return Ok(Default::default()) };
        let text = source.read(0..source.len())?;
        let digests = match Digests::parse(&text) {
            Ok(digests) => digests,
            Err(e) => {
                let problems = vec![VerifyProblem::at_format(&path, e)];
                return Ok(Digested { problems, ..Digested::default() });
            }
        };
        let data_name = self.path.file_name().unwrap_or_default().to_string_lossy();
        let mut all = Digested::default();
        self.check_names(&path, &digests, &data_name, &mut all)?;
        // Names come from a file: only those that are files of this dataset are opened.
        let own = |(name, digest): (&str, &Digest)| {
            let suffix = name.strip_prefix(digests.name_of(&data_name))?;
            Some((DatasetFile::of_suffix(suffix)?, *digest))
        };
        let lines: Vec<(DatasetFile, Digest)> = digests.iter().filter_map(own).collect();
        let compare = |(file, expected): (DatasetFile, Digest)| {
            let file = file.path(&self.path);
            if self.is_oversized(&file)? {
                let message = "more samples than the data can hold: its MD5 was not computed";
                let problem = VerifyProblem::new(&file, message);
                return Ok((file, Some(problem)));
            }
            let digest = match file == self.path {
                true => self.digest_data(data),
                false => index::digest(&self.storage, &file),
            };
            let problem = match digest {
                Ok(found) if found == expected => None,
                Ok(found) => {
                    let message =
                        format!("expected the MD5 {}, found {}", hex(&expected), hex(&found));
                    Some(VerifyProblem::new(&file, message))
                }
                Err(e) if e.kind() == ErrorKind::NotFound => {
                    Some(VerifyProblem::new(&file, "has a digest but does not exist"))
                }
                Err(e) => return Err(e),
            };
            Ok((file, problem))
        };
        let compared: Vec<Result<(PathBuf, Option<VerifyProblem>)>> =
            lines.into_par_iter().with_max_len(1).map(compare).collect();
        for result in compared {
            let (file, problem) = result?;
            all.problems.extend(problem);
            all.files.push(file);
        }
        Ok(all)
    }

    /// Which files have no line, and which lines are of files that are none of this dataset.
    fn check_names(
        &self,
        path: &Path,
        digests: &Digests,
        data_name: &str,
        all: &mut Digested,
    ) -> Result<()> {
        let mut suffixes = vec![""];
        for file in SideFile::WRITTEN.into_iter().filter(|file| *file != SideFile::Md5) {
            if self.open(file)?.is_some() {
                suffixes.push(file.suffix());
            }
        }
        for suffix in suffixes.iter().filter(|suffix| digests.get_of(data_name, suffix).is_none()) {
            let message = format!("expected a digest of {data_name}{suffix}, found none");
            all.problems.push(VerifyProblem::new(path, message));
        }
        let own = digests.name_of(data_name);
        let is_own = |name: &str| {
            name.strip_prefix(own).is_some_and(|suffix| DatasetFile::of_suffix(suffix).is_some())
        };
        // The lines that a copy has from before it was renamed say no less for that.
        let is_repeated = |name: &str, digest: &Digest| {
            let files = DatasetFile::all().filter(|file| name.ends_with(file.suffix()));
            files
                .last()
                .is_some_and(|file| digests.get_of(data_name, file.suffix()) == Some(digest))
        };
        let mut old_name = (own != data_name).then_some(own);
        for (name, digest) in digests.iter().filter(|(name, _)| !is_own(name)) {
            match is_repeated(name, digest) {
                true => old_name = old_name.or(Some(name)),
                false => {
                    let message = format!("expected names of this dataset, found {name:?}");
                    all.problems.push(VerifyProblem::new(path, message));
                }
            }
        }
        all.remarks.extend(old_name.map(|old_name| {
            let message = format!("the dataset was renamed: there are digests of {old_name:?}");
            VerifyProblem::new(path, message)
        }));
        Ok(())
    }

    /// Whether a side file has entries for more samples than the data can hold. Nothing is gained
    /// by hashing it, and a hole may be of any size.
    fn is_oversized(&self, file: &Path) -> Result<bool> {
        let sides = [SideFile::Offsets, SideFile::KeyHashes];
        let Some(side) = sides.into_iter().find(|side| side.path(&self.path) == file) else {
            return Ok(false);
        };
        let found = self.open(side)?;
        // Both have eight bytes for each sample, and eight more.
        Ok(found.is_some_and(|(_, file)| {
            offsets::count(file.len()).is_ok()
                && offsets::count_within(file.len(), self.end).is_err()
        }))
    }

    pub(super) fn digest_data(&self, data: &Source) -> Result<[u8; 16]> {
        let mut md5 = Md5::new();
        for piece in self.passes.pieces(0..self.end) {
            index::digest_into(&mut md5, data, piece?)?;
        }
        Ok(md5.finish())
    }
}
