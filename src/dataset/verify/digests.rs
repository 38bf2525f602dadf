//! The files of a dataset against `.md5`.

use std::path::PathBuf;

use rayon::prelude::*;

use crate::error::{ErrorKind, Result};
use crate::format::dataset::{Digests, SideFile};
use crate::format::hex;
use crate::format::md5::Md5;
use crate::storage::Source;

use super::super::index;
use super::{Files, VerifyProblem};

impl Files<'_> {
    /// Compares every file that has a digest with it.
    pub(super) fn check_digests(
        &self,
        data: &Source,
    ) -> Result<(Vec<VerifyProblem>, Vec<PathBuf>)> {
        let Some((path, source)) = self.open(SideFile::Md5)? else { return Ok(Default::default()) };
        let text = source.read(0..source.len())?;
        let digests = match Digests::parse(&text) {
            Ok(digests) => digests,
            Err(e) => return Ok((vec![VerifyProblem::at_format(&path, e)], Vec::new())),
        };
        let mut problems = Vec::new();
        let data_name = self.path.file_name().unwrap_or_default().to_string_lossy();
        let mut listed = vec![data_name.to_string()];
        for file in SideFile::WRITTEN.into_iter().filter(|file| *file != SideFile::Md5) {
            if self.open(file)?.is_some() {
                listed.push(format!("{data_name}{}", file.suffix()));
            }
        }
        for name in listed.iter().filter(|name| digests.get(name).is_none()) {
            problems.push(VerifyProblem::new(
                &path,
                format!("expected a digest of {name}, found none"),
            ));
        }
        // Names come from a file: only those that are files of this dataset are opened.
        let ours = |name: &str| {
            let suffix = name.strip_prefix(&*data_name)?;
            let known = suffix.is_empty() || SideFile::ALL.iter().any(|f| f.suffix() == suffix);
            known.then(|| self.path.with_file_name(name))
        };
        let compared: Vec<Result<(PathBuf, Option<VerifyProblem>)>> = digests
            .iter()
            .map(|(name, digest)| (name, *digest))
            .collect::<Vec<_>>()
            .into_par_iter()
            .with_max_len(1)
            .map(|(name, expected)| {
                let Some(file) = ours(name) else {
                    let message = format!("expected names of this dataset, found {name:?}");
                    return Ok((path.clone(), Some(VerifyProblem::new(&path, message))));
                };
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
                        Some(VerifyProblem::new(&file, "has a digest but is not there"))
                    }
                    Err(e) => return Err(e),
                };
                Ok((file, problem))
            })
            .collect();
        let mut files = Vec::new();
        for result in compared {
            let (file, problem) = result?;
            problems.extend(problem);
            if file != path {
                files.push(file);
            }
        }
        Ok((problems, files))
    }

    pub(super) fn digest_data(&self, data: &Source) -> Result<[u8; 16]> {
        let mut md5 = Md5::new();
        for piece in self.passes.pieces(0..self.end) {
            index::digest_into(&mut md5, data, piece?)?;
        }
        Ok(md5.finish())
    }
}
