//! The places of pieces. [`Home`] knows what differs between a disk and an object store, and between the
//! folder of a journal, where nothing else is, and the place of a manifest.
//!
//! A shard is identified by its data file: on a disk by the inode number, in an object store by the number of
//! the write that made it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::job::notes::gone;
use super::job::{Journal, Made, at_once};
use crate::dataset::names::{ReadManifest, shard_path};
use crate::dataset::repair::{Leftover, Repair};
use crate::dataset::{DatasetFile, DatasetReader, index, staging, writer};
use crate::error::{Error, ErrorKind, Result};
use crate::note::required;
use crate::storage::{self, FileId, Storage};

/// A piece that is being written.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Begun {
    pub(super) name: String,
    /// Identifies its data file, which may have been renamed. `None` until it is created.
    #[serde(deserialize_with = "required")]
    pub(super) id: Option<FileId>,
    /// In an object store: the writes that started it; the last may still be running.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) writes: Vec<u64>,
}

impl Begun {
    pub(super) fn new(name: String) -> Begun {
        Begun { name, id: None, writes: Vec::new() }
    }
}

/// The storage of pieces, and their place in it.
#[derive(Debug, Clone)]
pub(super) struct Home {
    pub(super) storage: Arc<dyn Storage>,
    /// The file that they are next to: the manifest that lists them, or the notes of their journal.
    pub(super) manifest: PathBuf,
    /// Whether they are in the folder of a journal, until they are joined.
    pub(super) is_own: bool,
}

impl Home {
    /// Of a manifest, which may be a URL; `files` is where it is otherwise.
    pub(super) fn of(manifest: &Path, files: Arc<dyn Storage>) -> Result<Home> {
        let (storage, manifest) = match storage::is_url(manifest) {
            true => storage::of(manifest)?,
            false => (files, manifest.to_path_buf()),
        };
        Ok(Home { storage, manifest, is_own: false })
    }

    /// Of pieces that are joined later; `files` is where they are if they are on a disk.
    pub(super) fn of_journal(journal: &Journal, files: Arc<dyn Storage>) -> Home {
        let storage = match journal.are_objects() {
            true => journal.notes().storage().clone(),
            false => files,
        };
        Home { storage, manifest: journal.commit_note(), is_own: true }
    }

    pub(super) fn is_object_store(&self) -> bool {
        self.storage.is_object_store()
    }

    /// The data file of a piece.
    pub(super) fn path(&self, name: &str) -> PathBuf {
        shard_path(&self.manifest, name)
    }

    pub(super) fn open(&self, path: &Path) -> Result<DatasetReader> {
        DatasetReader::options().storage(self.storage.clone()).open(path)
    }

    /// Fails if there is something of this name.
    pub(super) fn check_free(&self, path: &Path) -> Result<()> {
        match self.storage.lstat(path)? {
            Some(_) => {
                let error = Error::new(ErrorKind::AlreadyExists, "the dataset exists already");
                Err(error.at(path).advise("write to another name, or remove the dataset first"))
            }
            None => Ok(()),
        }
    }

    /// On a disk: removes the shard that an earlier run started, if the file is that one.
    pub(super) fn remove_begun(&self, begun: &Begun) -> Result<()> {
        match self.is_begun(begun)? {
            true => self.remove(&self.path(&begun.name), &[]),
            false => Ok(()),
        }
    }

    /// On a disk: fails if another conversion has left a file in the place of a shard, as it may resume.
    pub(super) fn check_left(&self, path: &Path) -> Result<()> {
        match self.storage.lstat(&staging::dir_of(path))? {
            Some(_) => {
                let error = Error::new(ErrorKind::Interrupted, "an unfinished write is left here");
                Err(error.at(path))
            }
            None => Ok(()),
        }
    }

    /// Identifies a complete shard.
    pub(super) fn id_of(&self, path: &Path) -> Result<Option<FileId>> {
        match self.is_object_store() {
            true => {
                let found = self.storage.open_if_exists(path)?;
                // One without a number is of another program, or of a store that keeps none.
                Ok(found.map(|found| of_write(found.write_id().unwrap_or(0))))
            }
            false => Ok(self.storage.lstat(path)?.map(|stat| stat.id)),
        }
    }

    /// Identifies a shard that has no name yet.
    pub(super) fn staged_id(&self, path: &Path) -> Result<Option<FileId>> {
        match staging::staged_data(&*self.storage, path)? {
            Some(data) => Ok(self.storage.lstat(&data)?.map(|stat| stat.id)),
            None => Ok(None),
        }
    }

    /// Whether the shard of this name is the one that was noted when it was complete; `None` without a shard.
    pub(super) fn is_made(
        &self,
        name: &str,
        id: FileId,
        md5: Option<[u8; 16]>,
        (samples, bytes): (u64, u64),
    ) -> Result<Option<bool>> {
        let path = self.path(name);
        if self.is_object_store() {
            return Ok(match writer::write_of(&*self.storage, &path)? {
                writer::WrittenBy::Nothing => None,
                writer::WrittenBy::One(write) => Some(of_write(write) == id),
                writer::WrittenBy::Others => Some(false),
            });
        }
        if !self.id_of(&path)?.is_some_and(|found| is_same(found, id))
            && !self.has_md5(&path, md5)?
        {
            return Ok(self.storage.lstat(&path)?.map(|_| false));
        }
        let Ok(reader) = self.open(&path) else { return Ok(Some(false)) };
        Ok(Some((reader.len() as u64, reader.data_len()) == (samples, bytes)))
    }

    /// Whether the shard of this name has this digest: recognises copies.
    fn has_md5(&self, path: &Path, md5: Option<[u8; 16]>) -> Result<bool> {
        Ok(md5.is_some() && index::recorded_md5(&self.storage, path)? == md5)
    }

    /// Whether the file in the place of a shard, finished or not, is the one that was started.
    pub(super) fn is_begun(&self, begun: &Begun) -> Result<bool> {
        let path = self.path(&begun.name);
        if self.is_object_store() {
            return writer::is_of_writes(&*self.storage, &path, &begun.writes);
        }
        let there = self.id_of(&path)?;
        Ok(match begun.id {
            Some(id) => match there {
                Some(there) => is_same(there, id),
                None => match self.staged_id(&path)? {
                    Some(staged) => is_same(staged, id),
                    // It was being removed.
                    None => matches!(Repair::of(&path).leftover()?, Some(Leftover::Nothing)),
                },
            },
            // It was noted just before there was a file, so it never had its name.
            None => there.is_none() && Repair::of(&path).leftover()?.is_some(),
        })
    }

    /// In an object store: whether a dataset is complete, and of one of these writes.
    pub(super) fn is_written(&self, path: &Path, writes: &[u64]) -> Result<bool> {
        let is_claimed = self.storage.stat(&staging::dir_of(path))?.is_some();
        Ok(!is_claimed
            && match writer::write_of(&*self.storage, path)? {
                writer::WrittenBy::One(write) => writes.contains(&write),
                writer::WrittenBy::Nothing | writer::WrittenBy::Others => false,
            })
    }

    /// Removes a shard, finished or not: in an object store, the objects of these writes.
    pub(super) fn remove(&self, path: &Path, writes: &[u64]) -> Result<()> {
        if self.is_object_store() {
            return writer::remove_writes(&*self.storage, path, writes);
        }
        let repair = Repair::of(path);
        if repair.leftover()?.is_some() {
            repair.undo()?;
        }
        // The data file last: as long as it is there, it says whose the rest is.
        let files = DatasetFile::all().filter(|file| *file != DatasetFile::Data);
        let mut files = files.chain([DatasetFile::Data]);
        files.try_for_each(|file| gone(self.storage.remove(&file.path(path))))
    }

    /// In an object store: removes what these writes have left of a dataset, unless that is complete.
    pub(super) fn remove_unfinished(&self, path: &Path, writes: &[u64]) -> Result<()> {
        writer::remove_unfinished_writes(&*self.storage, path, writes)
    }

    /// Removes shards that the manifest listed before the one with the new shards replaced it. Does nothing if
    /// that has not happened, or was undone.
    pub(super) fn remove_replaced(&self, replaced: &[String], new: &[Made]) -> Result<()> {
        if replaced.is_empty() || self.storage.stat(&self.manifest)?.is_none() {
            return Ok(());
        }
        let manifest = ReadManifest::open(&*self.storage, &self.manifest)?.manifest;
        let listed: BTreeSet<&str> = manifest.shards().iter().map(|entry| &*entry.name).collect();
        if new.is_empty() || !new.iter().all(|made| listed.contains(&*made.name)) {
            return Ok(());
        }
        let gone: Vec<&String> =
            replaced.iter().filter(|name| !listed.contains(&***name)).collect();
        at_once(&gone, |name| self.remove_any(&self.path(name)))?;
        match self.is_object_store() {
            true => Ok(()),
            // Else a power failure could bring them back after the note of the end, which nothing follows.
            false => self.storage.sync_dir(self.manifest.parent().unwrap_or(Path::new(""))),
        }
    }

    /// Removes a complete dataset of any write.
    fn remove_any(&self, path: &Path) -> Result<()> {
        if !self.is_object_store() {
            return self.remove(path, &[]);
        }
        match writer::write_of(&*self.storage, path)? {
            writer::WrittenBy::Nothing => Ok(()),
            writer::WrittenBy::One(write) => self.remove(path, &[write]),
            // Of a store that keeps no numbers.
            writer::WrittenBy::Others => {
                DatasetFile::all().try_for_each(|file| self.storage.remove(&file.path(path)))
            }
        }
    }
}

/// Identifies a shard that this write made.
pub(super) fn of_write(write: u64) -> FileId {
    (0, write)
}

/// Whether these are one file of one directory. The number of the file system differs between machines that
/// share the directory.
fn is_same(a: FileId, b: FileId) -> bool {
    if cfg!(unix) { a.1 == b.1 } else { a == b }
}
