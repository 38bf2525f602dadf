//! The places of the outputs while parts are joined: a commit that was cut short replaces files that were
//! there before it and its own, and nothing that has come there since.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value as Json;

use super::journal::{Fate, Journal, name_of};
use super::notes::Lost;
use super::part_note::{parse, render};
use crate::convert::split::is_default;
use crate::error::{Error, ErrorKind, Result};
use crate::note;
use crate::storage::{FileId, Stamp, random};

/// The content of `commit`, by the names of the files and folders.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Commit {
    /// The digest of the plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    plan: Option<String>,
    /// The files that were there when it began.
    before: BTreeMap<String, Option<Noted>>,
    /// The files that it puts there.
    made: BTreeMap<String, Noted>,
    /// The numbers of the files in which each dataset was written, by one run after the other: a repair may
    /// have published one.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    begun: BTreeMap<String, Vec<FileId>>,
    /// In an object store: the numbers of the writes of each dataset. The last one may still be running.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    writes: BTreeMap<String, Vec<u64>>,
    /// Shards that are removed once the new manifest is there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    replaced: Vec<String>,
    /// The datasets that it appends to: their samples and bytes before.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    bases: BTreeMap<String, (u64, u64)>,
    /// The journals of the writes that append to them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    journals: BTreeMap<String, Noted>,
    /// Bytes of the list of bad input that it appends to.
    #[serde(default, skip_serializing_if = "is_default")]
    listed: u64,
}

/// What a commit appends to.
#[derive(Debug, Default)]
pub(in crate::convert) struct Appends {
    /// Datasets, with their samples and bytes.
    pub(in crate::convert) bases: Vec<(PathBuf, (u64, u64))>,
    /// Bytes of the list of bad input.
    pub(in crate::convert) listed: u64,
}

/// A stamp, also one of an earlier version.
#[derive(Debug, Serialize)]
#[serde(transparent)]
struct Noted(Stamp);

impl<'de> Deserialize<'de> for Noted {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Noted, D::Error> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Older {
            id: FileId,
            bytes: u64,
            /// Seconds and nanoseconds.
            modified: (u64, u32),
            #[serde(default)]
            content: Option<String>,
        }
        let noted = Json::deserialize(from)?;
        let stamp = match noted.get("bytes") {
            None => serde_json::from_value(noted),
            Some(_) => serde_json::from_value::<Older>(noted).map(|older| {
                let modified = i128::from(older.modified.0) * 1_000_000_000;
                let modified = modified + i128::from(older.modified.1);
                let content = older.content.unwrap_or_default();
                Stamp::noted(older.bytes, older.id, modified, content)
            }),
        };
        stamp.map(Noted).map_err(serde::de::Error::custom)
    }
}

/// The contents of an output's place since its parts began to be joined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::convert) enum Place {
    /// Nothing.
    Free,
    /// The same as when that began.
    Before,
    /// The output, made of the parts.
    Made,
    /// A dataset that a repair published after a commit was cut short, and that others may have changed since.
    Begun,
    /// Something else.
    Foreign,
}

impl Journal {
    /// Notes that these files or folders are about to be made: from here on they may be there. What
    /// is there now may be replaced, and nothing that comes there later.
    pub(in crate::convert) fn begin_commit(
        &self,
        targets: &[PathBuf],
        appends: Appends,
    ) -> Result<()> {
        let before = targets.iter().map(|path| Ok((name_of(path), self.stamp(path)?.map(Noted))));
        let before = before.collect::<Result<_>>()?;
        let plan = Some(self.digest().to_owned());
        let Appends { bases, listed } = appends;
        let bases = bases.into_iter().map(|(path, base)| (name_of(&path), base)).collect();
        let commit = Commit { plan, before, bases, listed, ..Commit::default() };
        match self.are_objects() {
            false => self.note_commit(&commit),
            // Another process may have begun, and noted its writes, which must not be lost.
            true => {
                let text = note::sealed(&render(&commit));
                let is_new = self.notes().create(&self.commit_note(), &text)?;
                if is_new && self.fate()? == Fate::Removed {
                    // Nobody else would find this note.
                    self.notes().remove(&[self.commit_note()])?;
                    return Err(self.joined());
                }
                Ok(())
            }
        }
    }

    /// What a dataset that is appended to was before: its samples and bytes.
    pub(in crate::convert) fn base(&self, target: &Path) -> Result<Option<(u64, u64)>> {
        Ok(self.read_commit()?.bases.get(&name_of(target)).copied())
    }

    /// Bytes that were there before of the list of bad input that is appended to.
    pub(in crate::convert) fn listed(&self) -> Result<u64> {
        Ok(self.read_commit()?.listed)
    }

    /// Notes the journals of writes that append to datasets.
    pub(in crate::convert) fn will_append(&self, journals: &[(PathBuf, PathBuf)]) -> Result<()> {
        let mut commit = self.read_commit()?;
        for (journal, target) in journals {
            if let Some(stamp) = self.stamp(journal)? {
                commit.journals.insert(name_of(target), Noted(stamp));
            }
        }
        self.note_commit(&commit)
    }

    /// Whether this is the journal of the write that [appends](Self::will_append) to a dataset.
    pub(in crate::convert) fn appends(&self, journal: &Path, target: &Path) -> Result<bool> {
        let commit = self.read_commit()?;
        let noted = commit.journals.get(&name_of(target));
        let (Some(noted), Some(found)) = (noted, self.stamp(journal)?) else { return Ok(false) };
        Ok(found.is_of_write(&noted.0))
    }

    /// Notes in which files datasets are being written, each with the name that it will have.
    pub(in crate::convert) fn are_begun<'a>(
        &self,
        datasets: impl IntoIterator<Item = (PathBuf, &'a PathBuf)>,
    ) -> Result<()> {
        let mut commit = self.read_commit()?;
        for (staged, target) in datasets {
            let stamp = self.stamp(&staged)?.map(|stamp| stamp.id());
            if let Some(id) = stamp.filter(|id| *id != (0, 0)) {
                commit.begun.entry(name_of(target)).or_default().push(id);
            }
        }
        self.note_commit(&commit)
    }

    /// Notes that what is now at `staged` is about to be renamed to `target`, so that it is known
    /// there.
    pub(in crate::convert) fn will_publish(&self, staged: &Path, target: &Path) -> Result<()> {
        let mut commit = self.read_commit()?;
        // Published by an earlier run, which had others left to do: it may be replaced.
        let now = self.stamp(target)?;
        if now.is_some() && self.place(target)? == Place::Made {
            commit.before.insert(name_of(target), now.map(Noted));
        }
        if let Some(stamp) = self.stamp(staged)? {
            commit.made.insert(name_of(target), Noted(stamp));
        }
        self.note_commit(&commit)
    }

    fn joined(&self) -> Error {
        let message = "another process joins these parts, or has joined or removed them";
        Error::new(ErrorKind::Locked, message).at(self.dir())
    }

    /// Notes which shards go when the manifest that lists them is replaced.
    pub(in crate::convert) fn will_replace(&self, shards: Vec<String>) -> Result<()> {
        let plan = Some(self.digest().to_owned());
        self.note_commit(&Commit { plan, replaced: shards, ..self.read_commit()? })?;
        match self.fate()? {
            Fate::Removed => {
                // No other process would find this note.
                self.notes().remove(&[self.commit_note()])?;
                Err(self.joined())
            }
            _ => Ok(()),
        }
    }

    /// The shards that [go](Self::will_replace).
    pub(in crate::convert) fn replaced(&self) -> Result<Vec<String>> {
        Ok(self.read_commit()?.replaced)
    }

    /// In an object store: notes that a dataset is about to be written, and returns the number of this write and
    /// those that it continues.
    pub(in crate::convert) fn begin_write(&self, target: &Path) -> Result<(u64, Vec<u64>)> {
        let (path, write) = (self.commit_note(), random());
        let earlier = RefCell::new(Vec::new());
        let taken = self.notes().take(&path, |text| {
            // The note of the commit that this one has found begun, or has begun.
            let Some(text) = text else { return Err(self.joined()) };
            let mut commit = self.commit_of(&text)?;
            let writes = commit.writes.entry(name_of(target)).or_default();
            *earlier.borrow_mut() = writes.clone();
            writes.push(write);
            Ok(note::sealed(&render(&commit)))
        })?;
        let busy = |Lost| Error::new(ErrorKind::Locked, "another process joins these parts");
        taken.map_err(|lost| busy(lost).at(self.dir()))?;
        Ok((write, earlier.into_inner()))
    }

    /// In an object store: fails unless this is still the last write of a dataset that was
    /// [begun](Self::begin_write). A later one may have published the dataset before this one took its place.
    pub(in crate::convert) fn check_write(&self, target: &Path, write: u64) -> Result<()> {
        match self.writes()?.get(&name_of(target)).and_then(|writes| writes.last()) {
            Some(last) if *last == write => Ok(()),
            _ => Err(self.joined()),
        }
    }

    /// In an object store: the writes of all datasets that a commit has begun, by their names.
    pub(in crate::convert) fn writes(&self) -> Result<BTreeMap<String, Vec<u64>>> {
        Ok(self.read_commit()?.writes)
    }

    /// The contents of the place of a file or folder that is made of the parts.
    pub(in crate::convert) fn place(&self, target: &Path) -> Result<Place> {
        let Some(stamp) = self.stamp(target)? else { return Ok(Place::Free) };
        let commit = self.read_commit()?;
        let name = name_of(target);
        Ok(match (commit.made.get(&name), commit.before.get(&name)) {
            (Some(made), _) if stamp.is_still(&made.0) => Place::Made,
            (_, Some(Some(before))) if stamp.is_still(&before.0) => Place::Before,
            _ if commit.begun.get(&name).is_some_and(|begun| begun.contains(&stamp.id())) => {
                Place::Begun
            }
            _ => Place::Foreign,
        })
    }

    /// The names of all that was [about to be published](Self::will_publish).
    pub(in crate::convert) fn made(&self) -> Result<Vec<String>> {
        Ok(self.read_commit()?.made.into_keys().collect())
    }

    fn stamp(&self, path: &Path) -> Result<Option<Stamp>> {
        Stamp::of_tree(&**self.notes().storage(), path)
    }

    fn note_commit(&self, commit: &Commit) -> Result<()> {
        self.notes().write(&self.commit_note(), &note::sealed(&render(commit)))
    }

    fn read_commit(&self) -> Result<Commit> {
        let path = self.commit_note();
        self.commit_of(&self.notes().read(&path)?.unwrap_or_default())
    }

    fn commit_of(&self, text: &[u8]) -> Result<Commit> {
        let path = self.commit_note();
        // Earlier versions said nothing in it, so nothing is known.
        if text.is_empty() {
            return Ok(Commit::default());
        }
        let commit: Commit = parse(text, &path, "the note of a commit")?;
        match &commit.plan {
            Some(plan) if plan != self.digest() => {
                Err(Error::new(ErrorKind::Invalid, "the commit of another plan").at(&path))
            }
            _ => Ok(commit),
        }
    }

    /// Whether it was begun before.
    pub(in crate::convert) fn commit_begun(&self) -> Result<bool> {
        Ok(self.notes().storage().stat(&self.commit_note())?.is_some())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn what_is_in_the_place_of_the_result_is_known_again() {
        let dir = tempfile::tempdir().unwrap();
        let dataset = dir.path().join("x.msgpack");
        let parts = Journal::create(&dataset, &serde_json::json!({"a": 1})).unwrap();
        let target = std::slice::from_ref(&dataset);
        fs::write(&dataset, "old").unwrap();
        parts.begin_commit(target, Appends::default()).unwrap();
        assert_eq!(parts.place(&dataset).unwrap(), Place::Before);
        let staged = dir.path().join("staged");
        fs::write(&staged, "new").unwrap();
        parts.will_publish(&staged, &dataset).unwrap();
        assert_eq!(parts.place(&dataset).unwrap(), Place::Before);
        fs::rename(&staged, &dataset).unwrap();
        assert_eq!(parts.place(&dataset).unwrap(), Place::Made);
        assert_eq!(parts.made().unwrap(), ["x.msgpack"]);
        fs::remove_file(&dataset).unwrap();
        assert_eq!(parts.place(&dataset).unwrap(), Place::Free);
        fs::write(&dataset, "other").unwrap();
        assert_eq!(parts.place(&dataset).unwrap(), Place::Foreign);
    }

    /// As kiste before its first release noted them.
    #[test]
    fn an_older_stamp_is_read() {
        let older = r#"{"id":[5,7],"bytes":3,"modified":[1,2],"content":"ab"}"#;
        let Noted(stamp) = serde_json::from_str(older).unwrap();
        assert_eq!(stamp, Stamp::noted(3, (5, 7), 1_000_000_002, "ab".to_owned()));
        let now = serde_json::to_string(&Noted(stamp.clone())).unwrap();
        assert_eq!(serde_json::from_str::<Noted>(&now).unwrap().0, stamp);
        assert!(serde_json::from_str::<Noted>(r#"{"id":[5,7],"bytes":3}"#).is_err());
    }
}
