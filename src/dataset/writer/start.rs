//! How a writer begins: with a new dataset, after a finished one, or where another one was killed.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::{Error, ErrorKind, Result};
use crate::format::dataset::SideFile;
use crate::format::dataset::shards::is_manifest;
use crate::storage::{FileKind, LocalStorage, ScratchDir, Storage};

use super::super::files::DatasetFile;
use super::super::index::{self, FoundLengths};
use super::super::names::names_index;
use super::super::reader::DatasetReader;
use super::super::staging::{self, Base, Journal, Labels, Staging, Unfinished};
use super::super::walk::whole_samples;
use super::destination::Destination;
use super::options::WriterOptions;
use super::upload::{Upload, no_append};
use super::{Start, Writer, gave_up, measure};

impl WriterOptions {
    /// Starts a new dataset. Missing parent directories are created. The name may be a URL: see
    /// [`Writer`].
    ///
    /// # Errors
    ///
    /// [`AlreadyExists`](ErrorKind::AlreadyExists) without [`overwrite`](Self::overwrite);
    /// [`Interrupted`](ErrorKind::Interrupted) if an earlier writer was killed here;
    /// [`Locked`](ErrorKind::Locked) if one is at work;
    /// [`Invalid`](ErrorKind::Invalid) for a name that ends like a side file.
    pub fn create(self, path: impl AsRef<Path>) -> Result<Writer> {
        let (options, path) = self.resolved(path.as_ref())?;
        match options.storage.is_object_store() {
            true => options.create_object(&path),
            false => options.create_file(&path),
        }
    }

    fn create_file(self, path: &Path) -> Result<Writer> {
        self.check_name(path)?;
        index::check_names(&self.lengths)?;
        let old = self.storage.stat(path)?;
        if old.is_some_and(|old| old.is_dir()) {
            let message = "there is a directory of this name";
            return Err(Error::new(ErrorKind::AlreadyExists, message).at(path));
        }
        if self.overwrite {
            discard_unfinished(&self.storage, path)?;
        } else {
            self.refuse_existing(path)?;
        }
        let destination =
            Destination::disk(Staging::begin(self.storage.clone(), path, self.durable)?);
        // Another writer may have finished before this one had the lock.
        if let (false, Err(error)) = (self.overwrite, self.refuse_existing(path)) {
            destination.abort()?;
            return Err(error);
        }
        let mut journal =
            Journal::samples(None, self.digests, self.lookup).replacing(self.overwrite);
        (journal.checksums, journal.lengths) = (self.checksums, self.names_of_lengths());
        // The names of the labels belong to the dataset that is replaced.
        if old.is_some() {
            journal.labels = Labels::Go;
        }
        let begun = |staging: &Staging| {
            let journal = staging.journal(journal, staging.observe()?)?;
            Ok((journal, staging.create(DatasetFile::Data)?))
        };
        match begun(destination.staging()) {
            Ok((journal, data)) => {
                Writer::start(self, path, destination, journal, data, Start::New)
            }
            Err(error) => Err(gave_up(destination, error)),
        }
    }

    fn create_object(mut self, path: &Path) -> Result<Writer> {
        self.check_name(path)?;
        index::check_names(&self.lengths)?;
        let (storage, scratch) = (self.storage.clone(), ScratchDir::create()?);
        let beside = scratch.path().join(path.file_name().unwrap_or_default());
        let upload = Upload::begin(&self, path, scratch)?;
        let local = Arc::new(LocalStorage::mapped());
        let staging = Staging::begin(local.clone(), &beside, false)?;
        let journal = Journal::samples(None, self.digests, self.lookup)
            .checksums(self.checksums)
            .lengths(self.names_of_lengths());
        let journal = staging.journal(journal, staging.observe()?)?;
        let data = storage.create_with(path, upload.how(DatasetFile::Data))?;
        (self.storage, self.durable) = (local, false);
        let destination = Destination::object_store(staging, upload);
        Writer::start(self, path, destination, journal, data, Start::New)
    }

    fn check_name(&self, path: &Path) -> Result<()> {
        if !self.in_place && names_index(path) {
            let message =
                "expected the name of a data file, found the name of an index of samples in place";
            return Err(Error::new(ErrorKind::Invalid, message).at(path));
        }
        check_name(path)
    }

    fn refuse_existing(&self, path: &Path) -> Result<()> {
        if self.storage.stat(path)?.is_some() {
            let message = "the dataset exists already and overwriting it was not asked for";
            return Err(Error::new(ErrorKind::AlreadyExists, message).at(path));
        }
        Ok(())
    }

    /// Continues a write that was cut short: all whole samples that had reached the file are kept,
    /// and more can be written. Digests, lookup, checksums and lengths are made if that write was to make
    /// them.
    ///
    /// # Errors
    ///
    /// [`NotFound`](ErrorKind::NotFound) if nothing was left here, [`Locked`](ErrorKind::Locked)
    /// if its writer is alive, [`Invalid`](ErrorKind::Invalid) if all that is missing is to publish
    /// it ([`Repair::finish`](crate::repair::Repair::finish)), and if that write was to make lengths that are neither
    /// [asked for](Self::lengths) nor [known](Self::known_lengths).
    pub fn resume(self, path: impl AsRef<Path>) -> Result<Writer> {
        self.resume_until(path.as_ref(), |new| new.len() as u64)
    }

    /// As [`resume`](Self::resume), but of the data that had reached the file only as many bytes
    /// as `until` says of them, which must be the end of a sample.
    pub(crate) fn resume_until(
        self,
        path: &Path,
        until: impl FnOnce(&[u8]) -> u64,
    ) -> Result<Writer> {
        let (this, path) = self.resolved(path)?;
        this.refuse_objects(&path)?;
        if names_index(&path) {
            let message = "an index of samples in place that was not finished cannot be continued";
            let error = Error::new(ErrorKind::Unsupported, message).at(&path);
            return Err(error.advise("index the files again: what is left of it is removed then"));
        }
        this.resume_file(&path, until)
    }

    fn resume_file(mut self, path: &Path, until: impl FnOnce(&[u8]) -> u64) -> Result<Writer> {
        let (staging, journal) = match staging::unfinished(&self.storage, path)? {
            Some((staging, Unfinished::Uncommitted(journal))) if !journal.side_files_only => {
                (staging, journal)
            }
            // Its writer was killed before it had written anything: nothing is lost by tidying up.
            Some((staging, Unfinished::Nothing)) => {
                staging.abort()?;
                return Err(nothing_unfinished(path));
            }
            Some(_) => {
                let message = "there are no samples to continue with";
                return Err(Error::new(ErrorKind::Invalid, message).at(path));
            }
            None => return Err(nothing_unfinished(path)),
        };
        if let Some(why) = staging.rewritten(&journal)? {
            let message = staging::overtaken_message(&why);
            return Err(Error::new(ErrorKind::Foreign, message).at(path));
        }
        self.digests &= journal.digests;
        self.lookup = self.lookup.max(journal.lookup);
        self.checksums |= journal.checksums;
        let unknown = self.add_lengths(&journal.lengths);
        // A repair saves the samples all the same.
        if !unknown.is_empty() && self.was_complete.is_none() {
            let message = format!(
                "expected the columns that the write began with, found none for {}",
                unknown.join(", ")
            );
            return Err(Error::new(ErrorKind::Invalid, message).with_option("lengths").at(path));
        }
        index::check_names(&self.lengths)?;
        staging.discard_side_files()?;
        if self.was_complete != Some(true) {
            staging.withdraw()?;
        }
        staging.scratch().clear()?;
        let data_path = match journal.base {
            Some(_) => path.to_path_buf(),
            None => staging.path(DatasetFile::Data),
        };
        // The writer may have been killed before it created the file.
        if self.storage.stat(&data_path)?.is_none() {
            staging.create(DatasetFile::Data)?;
        }
        let storage = self.storage.clone();
        let old = match journal.base {
            Some(_) => Some(DatasetReader::options().storage(storage.clone()).open(path)?),
            None => None,
        };
        let start = journal.base.map_or(0, |base| base.bytes);
        let data = storage.open(&data_path)?;
        let bytes = data.read(start..data.len().max(start))?;
        let until = usize::try_from(until(&bytes)).unwrap_or(usize::MAX).min(bytes.len());
        let whole = whole_samples(&bytes[..until]).last().map_or(0, |(_, range)| range.end);
        let end = start + whole;
        // No byte beyond is looked at again, as in a moment it is no longer in the file.
        let bytes = &bytes[..whole as usize];
        // Cut first: what is appended goes to where the file ended when it was opened.
        let mut sink = storage.reopen(&data_path)?;
        sink.set_len(end)?;
        let (destination, start_at) = (Destination::disk(staging), Start::Resumed(end));
        let mut writer = Writer::start(self, path, destination, journal, sink, start_at)?;
        if let Some(old) = &old {
            writer.note_all(old)?;
        }
        for (key, range) in whole_samples(bytes) {
            let sample = &bytes[range.start as usize..range.end as usize];
            let sum = writer.checksum(sample);
            measure(&writer.options.lengths, &mut writer.row, key, sample)?;
            writer.note(key, start + range.end, sum)?;
        }
        Ok(writer)
    }

    /// Continues a finished dataset: the result is the same as if it had been written in one go.
    ///
    /// A `.lookup` that is there is rebuilt. New samples go behind the data that is
    /// there, so nothing large is copied; but the digest of the data needs all of it to be read
    /// again when [`digests`](Self::digests) is on. That pass also compares the old data with its
    /// digest, and refuses to bless damage.
    ///
    /// A `.crc` that is there gets the new samples and keeps the checksums of the old ones, which
    /// need not be read. Where it is damaged or of another version of the dataset, and where
    /// [`checksums`](Self::checksums) asks for one that is not there, the old samples are read.
    ///
    /// A `.lengths` that is there is made again, with the columns that are [asked for](Self::lengths) or
    /// [known](Self::known_lengths), for which the old samples are read; others are not kept.
    ///
    /// A symbolic link is followed: the dataset that it leads to is appended to, under its own
    /// name.
    ///
    /// # Errors
    ///
    /// The errors of [`DatasetReader::open`] and [`create`](Self::create);
    /// [`Invalid`](ErrorKind::Invalid) if the data file has more than one name (hard links), as a
    /// copy made by `cp -l` has: what is appended to one is appended to all, whose side files know
    /// nothing of it.
    pub fn append(self, path: impl AsRef<Path>) -> Result<Writer> {
        let (this, path) = self.resolved(path.as_ref())?;
        this.refuse_objects(&path)?;
        this.append_file(&path)
    }

    fn refuse_objects(&self, path: &Path) -> Result<()> {
        match self.storage.is_object_store() {
            true => Err(no_append(path)),
            false => Ok(()),
        }
    }

    fn append_file(mut self, path: &Path) -> Result<Writer> {
        let path = &*self.follow(path)?;
        self.check_name(path)?;
        let storage = self.storage.clone();
        let open = || DatasetReader::options().storage(storage.clone()).open(path);
        // A dataset that cannot be appended to is an error before anything is made.
        let before = open()?;
        self = self.like(&before)?;
        index::check_names(&self.lengths)?;
        let staging = Staging::begin(self.storage.clone(), path, self.durable)?;
        let begun = || {
            // Another writer may have finished before this one had the lock.
            before.check_current()?;
            self.refuse_hard_links(path)?;
            let observed = staging.observe()?;
            let old = open()?;
            let base = Base { samples: old.len() as u64, bytes: old.data_len() };
            let journal = Journal::samples(Some(base), self.digests, self.lookup)
                .checksums(self.checksums)
                .lengths(self.names_of_lengths());
            let journal = staging.journal(journal, observed)?;
            let data = self.storage.reopen(path)?;
            // New samples go to the file that was just opened.
            match staging.rewritten(&journal)? {
                None => Ok((old, journal, data)),
                Some(why) => {
                    let message = format!("another program is writing this dataset: {why}");
                    Err(Error::new(ErrorKind::Foreign, message).at(path))
                }
            }
        };
        let (old, journal, data) = match begun() {
            Ok(begun) => begun,
            Err(error) => return Err(gave_up(Destination::disk(staging), error)),
        };
        let (destination, start) = (Destination::disk(staging), Start::Appended(old.data_len()));
        let mut writer = Writer::start(self, path, destination, journal, data, start)?;
        match writer.note_all(&old) {
            Ok(()) => Ok(writer),
            Err(error) => {
                // The first error is the one to tell.
                let _ = writer.abort();
                Err(error)
            }
        }
    }

    /// Makes the optional side files that a dataset of one file has, in this storage. Of its lengths, the columns that
    /// are known.
    pub(crate) fn like(mut self, there: &DatasetReader) -> Result<WriterOptions> {
        let has =
            |file: SideFile| Ok::<_, Error>(self.storage.stat(&file.path(there.path()))?.is_some());
        let (lookup, checksums) = (has(SideFile::Lookup)?, has(SideFile::Crc)?);
        if lookup {
            self.lookup = Some(true);
        }
        self.checksums |= checksums;
        if let FoundLengths::Current(file) = there.find_lengths()? {
            self.add_lengths(&file.header.names());
        }
        Ok(self)
    }

    /// The dataset that a symbolic link leads to; any other path stays as it is.
    fn follow(&self, path: &Path) -> Result<PathBuf> {
        if !self.storage.lstat(path)?.is_some_and(|stat| stat.kind == FileKind::Link) {
            return Ok(path.to_path_buf());
        }
        let real = self.storage.resolve(path)?;
        for file in SideFile::ALL {
            let (link, of_real) = (file.path(path), file.path(&real));
            let stat = |path: &Path| self.storage.stat(path);
            let Some(found) = stat(&link)? else { continue };
            if stat(&of_real)?.map(|stat| stat.id) != Some(found.id) {
                let message = format!(
                    "is next to a link to {}, whose own side files are next to it: append to that \
                     file",
                    real.display()
                );
                return Err(Error::new(ErrorKind::Invalid, message).at(link));
            }
        }
        Ok(real)
    }

    /// Fails for a dataset that [`append`](Self::append) would refuse for what its name is.
    #[cfg(feature = "convert")]
    pub(crate) fn check_append(&self, path: &Path) -> Result<()> {
        self.refuse_hard_links(&self.follow(path)?)
    }

    fn refuse_hard_links(&self, path: &Path) -> Result<()> {
        let stat = self.storage.stat(path)?;
        match stat.map_or(1, |stat| stat.links) {
            0 | 1 => Ok(()),
            links => {
                let message = format!(
                    "the data file has {links} names (hard links), and appending to one appends to \
                     all: copy it, and append to the copy"
                );
                Err(Error::new(ErrorKind::Invalid, message).at(path))
            }
        }
    }
}

fn nothing_unfinished(path: &Path) -> Error {
    Error::new(ErrorKind::NotFound, "there is no unfinished write").at(path)
}

pub(super) fn check_name(path: &Path) -> Result<()> {
    let named_like_ours = path.extension().is_some_and(|e| e == "partial");
    if SideFile::of(path).is_some() || named_like_ours || path.file_name().is_none() {
        let message = "a data file cannot be named like one of its side files";
        return Err(Error::new(ErrorKind::Invalid, message).at(path));
    }
    if path.to_str().is_some_and(is_manifest) {
        let message = "expected the name of a data file, found a manifest: a conversion writes \
                       a dataset of many files";
        return Err(Error::new(ErrorKind::Invalid, message).at(path));
    }
    Ok(())
}

fn discard_unfinished(storage: &Arc<dyn Storage>, path: &Path) -> Result<()> {
    match staging::unfinished(storage, path)? {
        None => Ok(()),
        // It may hold the only whole dataset by now: complete it, then replace it. One that
        // another program has overtaken is about nothing that is still there.
        Some((staging, Unfinished::Committed)) => match staging.overtaken()? {
            None => staging.finish(),
            Some(_) => staging.undo(),
        },
        Some((staging, _)) => staging.abort(),
    }
}
