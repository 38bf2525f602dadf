//! [`UnfinishedShards`]: what a conversion to a manifest has left that was cut short, and its removal.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::job::{Made, at_once};
use super::piece_home::Home;
use super::pieces::Progress;
use super::scattered::{is_scattered_to, remove_scattered};
use super::{Journal, Part};
use crate::dataset::names::{ReadManifest, shard_path};
use crate::error::Result;
use crate::format::dataset::shards::is_manifest;
use crate::storage::{LocalStorage, Lock};

/// Leftovers of a conversion in pieces that was cut short: shards, or pieces that are joined later.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct UnfinishedShards {
    /// Shards that no manifest lists and that the conversion has written, or other pieces.
    pub shards: Vec<PathBuf>,
    /// Samples in those that are complete.
    pub samples: u64,
    /// Files that the conversion was about to write, but that are not what it has written: they stay.
    pub foreign: Vec<PathBuf>,
    /// Whether the first pass of a shuffle in parts has written something.
    pub is_shuffle: bool,
    /// The directory that it wrote to, if it is not on this machine: nothing in it was removed.
    pub elsewhere: Option<PathBuf>,
}

impl UnfinishedShards {
    /// Of a shuffle whose second pass has not begun.
    fn of_shuffle(manifest: &Path) -> Result<Option<UnfinishedShards>> {
        let is_shuffle = is_scattered_to(manifest)?;
        Ok(is_shuffle.then(|| UnfinishedShards { is_shuffle, ..UnfinishedShards::default() }))
    }
}

/// Finds what a conversion in pieces to this output has left that was cut short, if there is anything.
///
/// # Errors
///
/// [`Locked`](crate::ErrorKind::Locked) if the conversion is still at work. In an object store that cannot be
/// known.
pub fn unfinished_shards(manifest: impl AsRef<Path>) -> Result<Option<UnfinishedShards>> {
    let manifest = manifest.as_ref();
    match Journal::open(manifest)? {
        Some(parts) => {
            let unfinished = Found::of(&parts, manifest, false)?.unfinished;
            Ok(Some(UnfinishedShards { is_shuffle: is_scattered_to(manifest)?, ..unfinished }))
        }
        None => UnfinishedShards::of_shuffle(manifest),
    }
}

/// Removes what a conversion in pieces to this output has left that was cut short: pieces that are what it has
/// written, and its notes. Shards that a manifest lists stay, and so does what is not its own, and a dataset
/// that is complete.
///
/// In an object store it removes what was being uploaded as well, and a conversion that is still at work
/// ends with an error.
///
/// # Errors
///
/// Those of [`unfinished_shards`].
pub fn remove_unfinished_shards(manifest: impl AsRef<Path>) -> Result<Option<UnfinishedShards>> {
    let manifest = manifest.as_ref();
    let Some(parts) = Journal::open(manifest)? else {
        let found = UnfinishedShards::of_shuffle(manifest)?;
        let elsewhere = remove_scattered(manifest)?;
        return Ok(found.map(|found| UnfinishedShards { elsewhere, ..found }));
    };
    parts.give_up()?;
    let found = Found::of(&parts, manifest, true)?;
    // On a disk, pieces that are joined later go with the folder of their journal.
    if !found.home.is_own || parts.are_objects() {
        at_once(&found.ours, |(path, writes)| found.home.remove(path, writes))?;
    }
    remove_begun(&parts, &found.home)?;
    found.home.remove_replaced(&parts.replaced()?, &found.made)?;
    drop(found.locks);
    let elsewhere = remove_scattered(manifest)?;
    parts.remove()?;
    Ok(Some(UnfinishedShards { elsewhere, ..found.unfinished }))
}

/// In an object store: removes the datasets that a commit has begun, and not published.
fn remove_begun(parts: &Journal, home: &Home) -> Result<()> {
    if !home.is_own || !parts.are_objects() {
        return Ok(());
    }
    for (name, writes) in parts.writes()? {
        home.remove_unfinished(&shard_path(parts.dir(), &name), &writes)?;
    }
    Ok(())
}

/// In an object store: removes the pieces of all parts, which were joined.
pub(super) fn remove_pieces(parts: &Journal) -> Result<()> {
    let home = Home::of_journal(parts, Arc::new(LocalStorage::mapped()));
    at_once(&parts.all()?, |part| {
        let progress = parts.progress::<Progress>(*part)?.unwrap_or_default();
        let made = progress.shards.iter().map(|made| (&made.name, vec![made.id.1]));
        let begun = progress.begun.iter().map(|begun| (&begun.name, begun.writes.clone()));
        let mut all = made.chain(begun);
        all.try_for_each(|(name, writes)| home.remove(&home.path(name), &writes))
    })
    .map(drop)
}

/// The files that the notes of the parts claim, each checked to be theirs.
struct Found {
    home: Home,
    unfinished: UnfinishedShards,
    /// The files to remove, and in an object store the writes that made them.
    ours: Vec<(PathBuf, Vec<u64>)>,
    /// The complete pieces that are, or were to be, in the manifest.
    made: Vec<Made>,
    /// Which keep all parts from being written.
    locks: Vec<Lock>,
}

/// A shard that a part has noted.
enum Noted {
    /// With these samples, and made by these writes.
    Ours(PathBuf, u64, Vec<u64>),
    Foreign(PathBuf),
}

impl Found {
    /// In an object store the parts are taken from those who write them only if `takes`.
    fn of(parts: &Journal, output: &Path, takes: bool) -> Result<Found> {
        let files = Arc::new(LocalStorage::mapped());
        let home = match output.to_str().is_some_and(is_manifest) {
            true => Home::of(output, files)?,
            false => Home::of_journal(parts, files),
        };
        let mut locks: Vec<Lock> = parts.lock_all()?.into_iter().collect();
        let Home { storage, manifest, is_own } = &home;
        let listed: BTreeSet<String> = match storage.lstat(manifest)? {
            Some(_) if !is_own => {
                let read = ReadManifest::open(&**storage, manifest)?;
                read.manifest.shards().iter().map(|entry| entry.name.clone()).collect()
            }
            _ => BTreeSet::new(),
        };
        let all = parts.all_and_joint()?;
        let of_part = |part: &Part| {
            // No process writes it, and none has.
            if !parts.is_begun(*part)? {
                return Ok((None, Vec::new(), Vec::new()));
            }
            let lock = if takes { parts.take(*part)? } else { parts.lock(*part)? };
            let Some(progress) = parts.progress::<Progress>(*part)? else {
                return Ok((lock, Vec::new(), Vec::new()));
            };
            Ok((lock, noted(&home, &progress, &listed)?, progress.shards))
        };
        let (mut unfinished, mut ours, mut made) =
            (UnfinishedShards::default(), Vec::new(), Vec::new());
        // A commit may have put others in the places of some of them.
        let joint = all.last().map(|joint| parts.done(*joint)).transpose()?.flatten();
        for (lock, noted, of_part) in at_once(&all, of_part)? {
            locks.extend(lock);
            made.extend(of_part);
            for noted in noted {
                match noted {
                    Noted::Ours(path, samples, writes) => {
                        unfinished.samples += samples;
                        unfinished.shards.push(path.clone());
                        ours.push((path, writes));
                    }
                    Noted::Foreign(path) => unfinished.foreign.push(path),
                }
            }
        }
        let made = joint.and_then(|joint| joint.shards).unwrap_or(made);
        Ok(Found { home, unfinished, ours, made, locks })
    }
}

/// The shards that a part has noted and that exist, except those that the manifest lists.
fn noted(home: &Home, progress: &Progress, listed: &BTreeSet<String>) -> Result<Vec<Noted>> {
    if home.is_own && !home.is_object_store() {
        // Nothing else is in the folder of a journal.
        let ours = |made: &Made| Noted::Ours(home.path(&made.name), made.samples, Vec::new());
        return Ok(progress.shards.iter().map(ours).collect());
    }
    let mut found = Vec::new();
    for made in progress.shards.iter().filter(|made| !listed.contains(&made.name)) {
        let path = home.path(&made.name);
        match home.is_made(&made.name, made.id, made.md5()?, (made.samples, made.bytes))? {
            Some(true) => found.push(Noted::Ours(path, made.samples, vec![made.id.1])),
            Some(false) => found.push(Noted::Foreign(path)),
            None => {}
        }
    }
    if let Some(begun) = progress.begun.as_ref().filter(|begun| !listed.contains(&begun.name)) {
        let path = home.path(&begun.name);
        if home.is_begun(begun)? {
            found.push(Noted::Ours(path, 0, begun.writes.clone()));
        } else if home.storage.lstat(&path)?.is_some() {
            found.push(Noted::Foreign(path));
        }
    }
    Ok(found)
}
