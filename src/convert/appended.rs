//! Appends of conversions in pieces: what a dataset was when its commit began, and what is behind that by now.

use std::path::{Path, PathBuf};

use super::Journal;
use super::compared::sizes;
use super::conversion::Conversion;
use super::job::Appends;
use super::quarantine::Quarantine;
use super::report::WrittenOutput;
use super::writer::Appended;
use crate::dataset::repair::{Leftover, Repair};
use crate::dataset::{DatasetReader, Writer, staging};
use crate::error::{Error, ErrorKind, Remedy, Result};
use crate::storage::{self, LocalStorage};

impl Conversion {
    /// Undoes what a commit has appended to a dataset that was cut short; fails if that is of another program.
    pub(super) fn undo_append(
        &self,
        parts: &Journal,
        path: &Path,
        left: Option<Leftover>,
    ) -> Result<()> {
        match left {
            None => Ok(()),
            // Without a sample nothing is lost.
            Some(Leftover::Samples { base: Some(_), bytes, .. })
                if bytes == 0 || parts.appends(&journal_of(path)?, path)? =>
            {
                Repair::of(path).undo()
            }
            Some(_) => Err(staging::unfinished_error(&LocalStorage::positioned(), path)),
        }
    }

    /// Notes which writes append to these datasets.
    pub(super) fn will_append(&self, parts: &Journal, paths: &[PathBuf]) -> Result<()> {
        let journal = |path: &PathBuf| Ok((journal_of(path)?, path.clone()));
        parts.will_append(&paths.iter().map(journal).collect::<Result<Vec<_>>>()?)
    }

    /// The samples of a dataset before a commit appended to it: none of another one.
    pub(super) fn samples_before(&self, parts: &Journal, path: &Path) -> Result<u64> {
        match self.options.append {
            true => Ok(parts.base(path)?.map_or(0, |(samples, _)| samples)),
            false => Ok(0),
        }
    }

    /// Whether a commit has appended to one of the outputs.
    pub(super) fn has_appended(&self, parts: &Journal) -> Result<bool> {
        for path in self.targets() {
            if parts.base(&path)?.is_some_and(|base| self.base_of(&path).ok() != Some(base)) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The samples and bytes of a dataset that is appended to.
    pub(super) fn base_of(&self, path: &Path) -> Result<(u64, u64)> {
        let reader = DatasetReader::open(path).map_err(|error| match error.kind() {
            ErrorKind::NotFound => error.with_remedy(Remedy::Create),
            _ => error,
        })?;
        self.writer_options()?.check_append(path)?;
        Ok((reader.len() as u64, reader.data_len()))
    }

    /// What a commit appends to.
    pub(super) fn appends(&self) -> Result<Appends> {
        if !self.options.append {
            return Ok(Appends::default());
        }
        let base = |path: PathBuf| match Repair::of(&path).leftover()? {
            Some(_) => Err(staging::unfinished_error(&LocalStorage::positioned(), &path)),
            None => Ok((path.clone(), self.base_of(&path)?)),
        };
        let bases = self.targets().into_iter().map(base).collect::<Result<_>>()?;
        Ok(Appends { bases, listed: self.listed()? })
    }

    /// Bytes of the list of bad input that is there.
    pub(super) fn listed(&self) -> Result<u64> {
        let (storage, path) = storage::of(Quarantine::path_of(&self.output))?;
        Ok(storage.stat(&path)?.map_or(0, |list| list.len))
    }

    /// The samples that a dataset has by now which is appended to, behind those that it had when the commit began.
    fn appended(parts: &Journal, path: &Path, writer: &Writer) -> Result<Option<Appended>> {
        let (found, base) = ((writer.len(), writer.bytes()), parts.base(path)?);
        let Some(base) = base.filter(|base| *base != found) else { return Ok(None) };
        let reader = DatasetReader::open(path)?;
        let next = usize::try_from(base.0).unwrap_or(usize::MAX);
        let is_longer = next < reader.len() && reader.byte_range(next)?.start == base.1;
        if !is_longer {
            let (base, found) = (sizes(base), sizes(found));
            let message =
                format!("expected {base}, as when this commit began to append, found {found}");
            return Err(Error::new(ErrorKind::Foreign, message).at(path));
        }
        Ok(Some(Appended::new(reader, next)))
    }

    /// The same of all, each with its writer.
    pub(super) fn all_appended(
        &self,
        parts: &Journal,
        paths: &[PathBuf],
        writers: &[Option<Writer>],
    ) -> Result<Vec<Option<Appended>>> {
        if !self.options.append {
            return Ok(Vec::new());
        }
        let appended = |(path, writer): (&PathBuf, &Option<Writer>)| match writer {
            Some(writer) => Conversion::appended(parts, path, writer),
            None => Ok(None),
        };
        paths.iter().zip(writers).map(appended).collect()
    }

    /// Another program has changed what this commit appends to: keys tell which samples it has by now.
    pub(super) fn in_new_parts(&self, parts: &Journal, error: Error) -> Error {
        match (error.kind(), self.options.append) {
            (ErrorKind::Foreign, true) if self.options.limit.is_some() => error.advise(
                "restore it as it was before, then join the parts again: new parts would count towards the limit \
                 from 0",
            ),
            (ErrorKind::Foreign, true) => {
                let (remedy, dir) = (Remedy::SkipDuplicates, parts.dir().to_path_buf());
                error.with_remedy(Remedy::NewParts(Box::new(remedy), dir))
            }
            _ => error,
        }
    }

    /// The same dataset, without what was there before in the counts of what is new.
    pub(super) fn added(
        &self,
        parts: &Journal,
        path: &Path,
        output: WrittenOutput,
    ) -> Result<WrittenOutput> {
        if !self.options.append {
            return Ok(output);
        }
        let (samples, bytes) = parts.base(path)?.unwrap_or_default();
        let added = output.added.saturating_sub(samples);
        Ok(WrittenOutput { added, added_bytes: output.added_bytes.saturating_sub(bytes), ..output })
    }
}

/// The journal of the write of a dataset, which may be next to what a link leads to.
fn journal_of(path: &Path) -> Result<PathBuf> {
    Ok(staging::dir_of(&staging::home(&LocalStorage::positioned(), path)?).join("journal"))
}
