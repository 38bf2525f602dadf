//! A dataset of many files: its manifest, and all shards as one.
//!
//! [`Shards`] is what a `DatasetReader` has inside where a name stands for many files. Each shard is a
//! [`OneFile`], opened when it is first needed, and then compared with the manifest. Those that are mapped
//! stay open, as they hold no file descriptor; of others a limited number stays open at a time.
//!
//! Absent on purpose: what is in a manifest, which is a format, and writing shards, which is a
//! conversion.

use crate::error::Shown;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock, TryLockError};
use std::thread;

use crate::error::{Error, ErrorKind, Result};
use crate::format::dataset::shards::ShardEntry;
use crate::format::dataset::{SideFile, offsets};
use crate::storage::{Confined, FileId, Source, Storage, fetch_together, in_parallel, read_ahead};

use super::super::index::recorded_md5;
use super::super::names::{ReadManifest, shard_path, shards_of};
use super::accelerators::Filter;
use super::files::{Files, Opened};
use super::one::{OneFile, Opening};

mod unique;

/// Samples that are believed of a manifest before a shard is opened.
const UNPROVEN: u64 = 1 << 24;
/// Shards that are looked at together.
const PROVING: usize = 16;
/// Shards that are open at a time, where an open one holds file descriptors.
const OPEN: usize = 128;
/// The same behind a URL, where it holds some kilobytes of memory, and opening it again costs a round trip
/// and what was fetched ahead of it.
const OPEN_REMOTE: usize = 1 << 14;
/// Remote shards that are asked for keys before what they say is looked at.
const ASKING: usize = 32;

/// All shards of a dataset, each opened on first need.
pub(crate) struct Shards {
    path: PathBuf,
    /// Which manifest it is; `None` for a pattern.
    id: Option<FileId>,
    /// Open, so that no other file is given its identity.
    #[expect(dead_code, reason = "held for its drop")]
    manifest: Option<Source>,
    /// Where its shards may be.
    folder: Option<Confined>,
    how: Opening,
    storage: Arc<dyn Storage>,
    shards: Vec<Shard>,
    /// The index of the first sample of each shard, and the number of all.
    starts: Vec<usize>,
    data_len: u64,
    is_remote: bool,
    /// Whether there is one without offsets.
    is_walked: bool,
    /// Counts uses, to find the shard that was not used for longest.
    clock: AtomicU64,
    lent: AtomicUsize,
    most: usize,
}

struct Shard {
    path: PathBuf,
    entry: ShardEntry,
    /// A shard that is mapped: stays open.
    kept: OnceLock<OneFile>,
    /// One that is not, as long as there is room.
    lent: Mutex<Option<Arc<OneFile>>>,
    used: AtomicU64,
    filter: OnceLock<Option<Filter>>,
}

impl Shard {
    fn new(path: PathBuf, entry: ShardEntry) -> Shard {
        Shard {
            path,
            entry,
            kept: OnceLock::new(),
            lent: Mutex::new(None),
            used: AtomicU64::new(0),
            filter: OnceLock::new(),
        }
    }

    /// What is in the slot. Another thread holds the lock for a few instructions; in a process that
    /// was forked meanwhile it stays locked for ever, and then there is no slot.
    fn slot<T>(&self, with: impl FnOnce(&mut Option<Arc<OneFile>>) -> T) -> Option<T> {
        for _ in 0..SPINS {
            match self.lent.try_lock() {
                Ok(mut slot) => return Some(with(&mut slot)),
                Err(TryLockError::Poisoned(poisoned)) => {
                    return Some(with(&mut poisoned.into_inner()));
                }
                Err(TryLockError::WouldBlock) => thread::yield_now(),
            }
        }
        None
    }
}

/// How often a lock is tried that is held for a few instructions.
const SPINS: usize = 1000;

impl Shards {
    /// The shards of a manifest, none of which is opened.
    pub(crate) fn of_manifest(
        storage: Arc<dyn Storage>,
        path: &Path,
        how: impl Into<Opening>,
    ) -> Result<Shards> {
        let read = ReadManifest::open(&*storage, path)?;
        let shard = |entry: &ShardEntry| Shard::new(shard_path(path, &entry.name), entry.clone());
        let shards = read.manifest.shards().iter().map(shard).collect();
        let (id, is_remote) = (Some(read.id()), read.file.is_remote());
        let (manifest, folder) = (Some(read.file), Some(shards_of(&*storage, path)));
        let shards = Shards {
            id,
            manifest,
            folder,
            ..Shards::of(storage, path, how.into(), shards, is_remote)?
        };
        shards.prove_counts()?;
        Ok(shards)
    }

    /// Compares the sizes of the largest shards in the manifest with their offsets, until few samples are left.
    ///
    /// Who has the number of samples allocates and loops by it, long before the first shard is opened.
    fn prove_counts(&self) -> Result<()> {
        let mut left = self.len() as u64;
        if left <= UNPROVEN {
            return Ok(());
        }
        let mut claims: Vec<&Shard> = self.shards.iter().collect();
        claims.sort_by_key(|shard| std::cmp::Reverse(shard.entry.samples));
        let first = claims.iter().position(|shard| {
            let is_few = left <= UNPROVEN;
            left -= if is_few { 0 } else { shard.entry.samples };
            is_few
        });
        claims.truncate(first.unwrap_or(claims.len()));
        let threads = self.storage.connections().max(PROVING);
        in_parallel(&claims, threads, |shard| self.prove_count(shard)).into_iter().collect()
    }

    fn prove_count(&self, shard: &Shard) -> Result<()> {
        let path = SideFile::Offsets.path(&shard.path);
        let claimed = shard.entry.samples;
        let (kind, found) = match self.storage.stat(&path)? {
            Some(stat) => match offsets::count(stat.len) {
                Ok(count) if count == claimed => return Ok(()),
                Ok(count) => (ErrorKind::Replaced, count.to_string()),
                Err(error) => return Err(Error::from(error).at(path)),
            },
            None => (ErrorKind::NotFound, "no such file".to_owned()),
        };
        let manifest = Shown::of(&self.path);
        let message = format!("expected {claimed} samples, as {manifest} says, found {found}");
        Err(Error::new(kind, message).at(path))
    }

    /// Shards that no manifest lists yet.
    #[cfg(feature = "convert")]
    pub(crate) fn of_entries(
        storage: Arc<dyn Storage>,
        path: &Path,
        how: impl Into<Opening>,
        entries: &[ShardEntry],
    ) -> Result<Shards> {
        let shard = |entry: &ShardEntry| Shard::new(shard_path(path, &entry.name), entry.clone());
        let (shards, is_remote) = (entries.iter().map(shard).collect(), storage.is_object_store());
        Shards::of(storage, path, how.into(), shards, is_remote)
    }

    /// Opens every shard, to compare it with its entry.
    #[cfg(feature = "convert")]
    pub(crate) fn check_all(&self) -> Result<()> {
        let numbers: Vec<usize> = (0..self.count()).collect();
        let open = |number: &usize| self.open(*number).map(drop);
        in_parallel(&numbers, self.storage.connections(), open).into_iter().collect()
    }

    /// These datasets, all of which are opened now: nothing else says how many samples they have.
    pub(crate) fn of_files(
        storage: Arc<dyn Storage>,
        path: &Path,
        how: impl Into<Opening>,
        files: Vec<PathBuf>,
    ) -> Result<Shards> {
        let how = how.into();
        let open = |path: &PathBuf| OneFile::open(&how, storage.clone(), path);
        // Behind a URL each would wait for an answer before the next is asked.
        let opened = in_parallel(&files, storage.connections(), open);
        let opened = opened.into_iter().collect::<Result<Vec<_>>>()?;
        let is_remote = opened.iter().any(Files::is_remote);
        let is_walked = opened.iter().any(|file| file.is_walked);
        let most = most_open(&how, is_remote);
        let shards = files.into_iter().zip(opened).enumerate().map(|(at, (path, file))| {
            let (samples, bytes) = (file.len as u64, file.data_len);
            let name = path.to_string_lossy().into_owned();
            let shard = Shard::new(path, ShardEntry::new(name, samples, bytes));
            if file.is_mapped() {
                let _ = shard.kept.set(file);
            } else if at < most {
                let _ = shard.slot(|slot| *slot = Some(Arc::new(file)));
            }
            shard
        });
        let shards: Vec<Shard> = shards.collect();
        let lent = shards.iter().filter(|shard| shard.kept.get().is_none()).count().min(most);
        let shards = Shards::of(storage, path, how, shards, is_remote)?;
        Ok(Shards { lent: AtomicUsize::new(lent), is_walked, ..shards })
    }

    fn of(
        storage: Arc<dyn Storage>,
        path: &Path,
        how: Opening,
        shards: Vec<Shard>,
        is_remote: bool,
    ) -> Result<Shards> {
        let (mut starts, mut end, mut data_len) = (vec![0], 0usize, 0u64);
        for shard in &shards {
            let samples = usize::try_from(shard.entry.samples).ok();
            end = samples.and_then(|samples| end.checked_add(samples)).ok_or_else(|| {
                let message = "more samples than this machine can address";
                Error::new(ErrorKind::Limit, message).at(path)
            })?;
            data_len = data_len.saturating_add(shard.entry.bytes);
            starts.push(end);
        }
        let (path, most) = (path.to_path_buf(), most_open(&how, is_remote));
        let (clock, lent) = (AtomicU64::new(0), AtomicUsize::new(0));
        let (id, manifest, folder) = (None, None, None);
        Ok(Shards {
            path,
            id,
            manifest,
            folder,
            how,
            storage,
            shards,
            starts,
            data_len,
            is_remote,
            is_walked: false,
            clock,
            lent,
            most,
        })
    }

    /// The data files, and their entries.
    #[cfg(feature = "arrays")]
    pub(crate) fn entries(&self) -> impl Iterator<Item = (&Path, &ShardEntry)> {
        self.shards.iter().map(|shard| (&*shard.path, &shard.entry))
    }

    /// The data file that a sample is in.
    pub(crate) fn file_of(&self, index: usize) -> &Path {
        self.shard_of(index).map_or(&*self.path, |(shard, _)| &*self.shards[shard].path)
    }

    /// About how many bytes the samples before this one have: exact at the start of a shard, and in
    /// between by its average sample. No shard is opened for it.
    pub(crate) fn bytes_before(&self, index: usize) -> u64 {
        let shard =
            self.starts.partition_point(|&start| start <= index).clamp(1, self.starts.len()) - 1;
        let before: u64 = self.shards[..shard].iter().map(|shard| shard.entry.bytes).sum();
        let Some(Shard { entry, .. }) = self.shards.get(shard) else { return before };
        let within = u128::from(entry.bytes) * (index - self.starts[shard]) as u128;
        before + (within / u128::from(entry.samples.max(1))) as u64
    }

    /// How many shards are open.
    pub(crate) fn open_count(&self) -> usize {
        let is_open = |shard: &&Shard| {
            shard.kept.get().is_some() || shard.slot(|slot| slot.is_some()).unwrap_or(false)
        };
        self.shards.iter().filter(is_open).count()
    }

    /// The number of the shard that a sample is in, and its index there.
    pub(crate) fn shard_of(&self, index: usize) -> Result<(usize, usize)> {
        if index >= self.len() {
            let message = format!("there is no sample {index}: the dataset has {}", self.len());
            return Err(Error::new(ErrorKind::Invalid, message).at(&self.path));
        }
        // Of several that start here all but the last are empty.
        let shard = self.starts.partition_point(|&start| start <= index) - 1;
        Ok((shard, index - self.starts[shard]))
    }

    /// A sample's shard, open, and the index there.
    #[inline]
    pub(super) fn at(&self, index: usize) -> Result<(Opened<'_>, usize)> {
        let (shard, index) = self.shard_of(index)?;
        Ok((self.open(shard)?, index))
    }

    /// A shard that is open and stays so.
    #[cfg(feature = "arrow")]
    pub(super) fn kept(&self, number: usize) -> Option<&OneFile> {
        self.shards.get(number)?.kept.get()
    }

    #[inline]
    pub(crate) fn open(&self, number: usize) -> Result<Opened<'_>> {
        match self.shards[number].kept.get() {
            Some(file) => Ok(Opened::Kept(file)),
            None => self.open_or_borrow(number),
        }
    }

    fn open_or_borrow(&self, number: usize) -> Result<Opened<'_>> {
        let shard = &self.shards[number];
        shard.used.store(self.clock.fetch_add(1, Relaxed) + 1, Relaxed);
        if let Some(Some(file)) = shard.slot(|slot| slot.clone()) {
            return Ok(Opened::Lent(file));
        }
        let file = self.open_shard(shard)?;
        if file.is_mapped() {
            // Another thread may have been faster: what it opened is as good.
            return Ok(Opened::Kept(shard.kept.get_or_init(|| file)));
        }
        let file = Arc::new(file);
        // Counted before it can be closed, so that the count is never less than what is open.
        self.lent.fetch_add(1, Relaxed);
        match shard.slot(|slot| slot.replace(file.clone()).is_none()) {
            Some(true) => self.close_surplus(number),
            _ => {
                self.lent.fetch_sub(1, Relaxed);
            }
        }
        Ok(Opened::Lent(file))
    }

    /// Closes the shards that were not used for longest, but not this one, until few enough are open.
    fn close_surplus(&self, but: usize) {
        while self.lent.load(Relaxed) > self.most {
            let others = self.shards.iter().enumerate().filter(|(number, _)| *number != but);
            let open = others.filter(|(_, shard)| shard.slot(|slot| slot.is_some()) == Some(true));
            let oldest = open.min_by_key(|(_, shard)| shard.used.load(Relaxed));
            let Some((_, oldest)) = oldest else { return };
            // Another thread may have closed this one at the same moment: then look again.
            if let Some(Some(_)) = oldest.slot(Option::take) {
                self.lent.fetch_sub(1, Relaxed);
            }
        }
    }

    /// Opens a shard, which must be the one that the manifest is about.
    fn open_shard(&self, shard: &Shard) -> Result<OneFile> {
        if let Some(folder) = &self.folder {
            folder.resolve(&*self.storage, &shard.path)?;
        }
        let open = || OneFile::open(&self.how, self.storage.clone(), &shard.path);
        let digest = || match shard.entry.md5 {
            Some(_) => recorded_md5(&self.storage, &shard.path),
            None => Ok(None),
        };
        let (file, recorded) = match self.is_remote {
            false => (open()?, digest()?),
            true => thread::scope(|scope| {
                let context = read_ahead::context();
                let digest = scope.spawn(move || context.run(digest));
                let file = open();
                let digest = digest.join().unwrap_or_else(|p| std::panic::resume_unwind(p));
                Ok::<_, Error>((file?, digest?))
            })?,
        };
        let ShardEntry { samples, bytes, md5, .. } = &shard.entry;
        let found = (file.len as u64, file.data_len);
        if found != (*samples, *bytes) {
            let message = format!(
                "expected {samples} samples and {bytes} bytes, as {} says, found {} and {}: the shard \
                 was replaced",
                Shown::of(&self.path),
                found.0,
                found.1
            );
            return Err(Error::new(ErrorKind::Replaced, message).at(&shard.path));
        }
        if let (Some(expected), Some(found)) = (md5, recorded) {
            if *expected != found {
                let message = format!(
                    "expected the MD5 that {} says, found another one in .md5: the shard was replaced",
                    Shown::of(&self.path)
                );
                return Err(Error::new(ErrorKind::Replaced, message).at(&shard.path));
            }
        }
        Ok(file)
    }

    /// Asks the filter of every shard whose range of keys the key is in, and opens those that say perhaps. A
    /// key that none of these has is absent only if two witnesses agree for each of the others.
    pub(super) fn find_many(&self, keys: &[&str]) -> Result<Vec<Option<usize>>> {
        let mut found: Vec<Option<usize>> = vec![None; keys.len()];
        let numbers: Vec<usize> = (0..self.shards.len()).collect();
        for some in numbers.chunks(ASKING) {
            let ask = |shard: &Shard, key: &str| match is_outside(shard, key) {
                true => Ok(Answer::Absent),
                false => self.ask(shard, key),
            };
            for (&number, answers) in some.iter().zip(self.ask_all(some, keys, ask)) {
                // For the keys that are in no shard, those that say no are asked once more. Of a key that an earlier
                // shard has no other is asked.
                let perhaps = answers?.into_iter().enumerate();
                let perhaps = perhaps
                    .filter(|&(at, answer)| answer == Answer::Perhaps && found[at].is_none());
                let perhaps: Vec<usize> = perhaps.map(|(at, _)| at).collect();
                if perhaps.is_empty() {
                    continue;
                }
                let wanted: Vec<&str> = perhaps.iter().map(|&at| keys[at]).collect();
                let indices = self.open(number)?.find_many(&wanted)?;
                for (at, index) in perhaps.into_iter().zip(indices) {
                    found[at] = index.map(|index| self.starts[number] + index);
                }
            }
            if found.iter().all(Option::is_some) {
                return Ok(found);
            }
        }
        let missing = keys.iter().zip(&found).filter(|(_, found)| found.is_none());
        let missing: Vec<&str> = missing.map(|(key, _)| *key).collect();
        for some in numbers.chunks(ASKING).filter(|_| !missing.is_empty()) {
            let answers = self.ask_all(some, &missing, |shard, key| self.ask(shard, key));
            for (&number, answers) in some.iter().zip(answers) {
                // Not looked for before, as the manifest says that they are not there.
                let mut outside = Vec::new();
                for (&key, answer) in missing.iter().zip(answers?) {
                    match answer {
                        Answer::Denied => self.confirm_absent(number, key)?,
                        Answer::Perhaps if is_outside(&self.shards[number], key) => {
                            outside.push(key);
                        }
                        Answer::Perhaps | Answer::Absent => {}
                    }
                }
                self.confirm_outside(number, &outside)?;
            }
        }
        Ok(found)
    }

    /// All indices of samples with this key, ascending: more than one if several shards have it.
    pub(super) fn find_all(&self, key: &str) -> Result<Vec<usize>> {
        let Some(first) = self.find_many(&[key])?.into_iter().flatten().next() else {
            return Ok(Vec::new());
        };
        let mut all = vec![first];
        for number in self.shard_of(first)?.0 + 1..self.shards.len() {
            let shard = &self.shards[number];
            if !is_outside(shard, key) && self.ask(shard, key)? == Answer::Perhaps {
                let found = self.open(number)?.find_many(&[key])?.into_iter().flatten();
                all.extend(found.map(|index| self.starts[number] + index));
            }
        }
        Ok(all)
    }

    /// What these shards say of the keys.
    fn ask_all(
        &self,
        some: &[usize],
        keys: &[&str],
        ask: impl Fn(&Shard, &str) -> Result<Answer> + Sync,
    ) -> Vec<Result<Vec<Answer>>> {
        let asked =
            |number: &usize| keys.iter().map(|key| ask(&self.shards[*number], key)).collect();
        match self.is_remote {
            true => in_parallel(some, self.storage.connections(), asked),
            false => some.iter().map(asked).collect(),
        }
    }

    /// What filter and range of keys say, without opening the shard.
    fn ask(&self, shard: &Shard, key: &str) -> Result<Answer> {
        if shard.entry.samples == 0 {
            return Ok(Answer::Absent);
        }
        // An open shard has its own filter, and hashes.
        let filter = match shard.filter.get() {
            Some(filter) => filter,
            None => {
                let filter = Filter::of_shard(&*self.storage, &shard.path, shard.entry.samples)?;
                match filter {
                    // It would hold a file descriptor.
                    Some(filter) if !filter.is_cheap() => {
                        return Shards::answer(shard, &filter, key);
                    }
                    filter => shard.filter.get_or_init(|| filter),
                }
            }
        };
        match filter {
            Some(filter) => Shards::answer(shard, filter, key),
            None => Ok(Answer::Perhaps),
        }
    }

    fn answer(shard: &Shard, filter: &Filter, key: &str) -> Result<Answer> {
        Ok(match filter.contains(key)? {
            true => Answer::Perhaps,
            false if is_outside(shard, key) || filter.trusted.load(Relaxed) => Answer::Absent,
            false => Answer::Denied,
        })
    }

    /// The filter of this shard denies a key that no other shard has: its digest says whether it can be
    /// believed, and else the shard itself does.
    fn confirm_absent(&self, number: usize, key: &str) -> Result<()> {
        let shard = &self.shards[number];
        if let (Some(Some(filter)), Some(md5)) = (shard.filter.get(), shard.entry.md5) {
            if filter.trusted.load(Relaxed)
                || (!self.is_remote && filter.trust_of_shard(&self.storage, &shard.path, md5)?)
            {
                return Ok(());
            }
        }
        if !self.open(number)?.contains(key)? {
            return Ok(());
        }
        let error = Error::new(ErrorKind::Damaged, "the filter lacks this key");
        Err(error.at(SideFile::Filter.path(&shard.path)).with_key(key))
    }

    /// The filter of this shard says perhaps of keys that the manifest says are not in its range.
    fn confirm_outside(&self, number: usize, keys: &[&str]) -> Result<()> {
        if keys.is_empty() {
            return Ok(());
        }
        let found = self.open(number)?.find_many(keys)?;
        let is_there = keys.iter().zip(found).find(|(_, found)| found.is_some());
        let Some((key, _)) = is_there else { return Ok(()) };
        let (path, name) = (self.path.clone(), &self.shards[number].entry.name);
        let message = format!("expected the range of keys of {name} to include its key {key:?}");
        Err(Error::new(ErrorKind::Damaged, message).at(path))
    }

    /// These samples by shard, each by its index in there, in their order.
    fn by_shard(&self, indices: &[usize]) -> Vec<(usize, Vec<usize>)> {
        let mut of_shard: Vec<(usize, Vec<usize>)> = Vec::new();
        let mut places: Vec<_> =
            indices.iter().filter_map(|&index| self.shard_of(index).ok()).collect();
        // Stable: the order within a shard stays.
        places.sort_by_key(|(shard, _)| *shard);
        for (shard, index) in places {
            match of_shard.last_mut() {
                Some((last, indices)) if *last == shard => indices.push(index),
                _ => of_shard.push((shard, vec![index])),
            }
        }
        of_shard
    }
}

impl Files for Shards {
    fn path(&self) -> &Path {
        &self.path
    }

    fn storage(&self) -> &Arc<dyn Storage> {
        &self.storage
    }

    fn len(&self) -> usize {
        self.starts[self.shards.len()]
    }

    fn data_len(&self) -> u64 {
        self.data_len
    }

    fn is_walked(&self) -> bool {
        self.is_walked
    }

    fn is_remote(&self) -> bool {
        self.is_remote
    }

    fn count(&self) -> usize {
        self.shards.len()
    }

    fn file(&self, number: usize) -> Result<Opened<'_>> {
        self.open(number)
    }

    /// Compares the manifest.
    fn check_current(&self) -> Result<()> {
        let Some(id) = self.id else { return Ok(()) };
        match self.storage.stat(&self.path)? {
            Some(now) if now.id == id => Ok(()),
            _ => {
                let message = "the dataset was replaced while it was open: open it again";
                Err(Error::new(ErrorKind::Replaced, message).at(&self.path))
            }
        }
    }

    fn prefetch(&self, indices: &[usize]) {
        let of_shard = self.by_shard(indices);
        // What fails is reported when it is read.
        if !self.is_remote {
            return of_shard.iter().for_each(|(shard, indices)| {
                if let Ok(file) = self.open(*shard) {
                    file.prefetch(indices);
                }
            });
        }
        let locate = |(shard, indices): &(usize, Vec<usize>)| {
            let file = self.open(*shard).ok()?;
            let ranges = file.ranges(indices).ok()?;
            Some((file, ranges))
        };
        let located = in_parallel(&of_shard, self.storage.connections(), locate);
        let located: Vec<_> = located.into_iter().flatten().collect();
        let wanted = located.iter().map(|(file, ranges)| (&file.data, ranges.clone()));
        let _ = fetch_together(&wanted.collect::<Vec<_>>(), true);
    }

    #[cfg(feature = "convert")]
    fn fetch_offsets(&self, indices: &[usize]) -> Result<()> {
        if !self.is_remote {
            return Ok(());
        }
        let fetch =
            |(shard, indices): &(usize, Vec<usize>)| self.open(*shard)?.fetch_offsets(indices);
        let of_shard = self.by_shard(indices);
        in_parallel(&of_shard, self.storage.connections(), fetch).into_iter().collect()
    }
}

/// Whether the manifest says that the shard has no such key.
fn is_outside(shard: &Shard, key: &str) -> bool {
    let range = shard.entry.keys.as_ref();
    range.is_some_and(|(first, last)| key < first.as_str() || last.as_str() < key)
}

/// What is known of a key without opening a shard.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Answer {
    Perhaps,
    /// The filter says no, and nothing else does yet.
    Denied,
    /// Two witnesses say no.
    Absent,
}

/// How many shards may be open at a time.
fn most_open(how: &Opening, is_remote: bool) -> usize {
    let default = if is_remote { OPEN_REMOTE } else { OPEN };
    how.most_open.unwrap_or(default).max(1)
}

impl fmt::Debug for Shards {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (count, len) = (self.shards.len(), self.len());
        write!(f, "Shards({}, {count} shards, {len} samples)", Shown::of(&self.path))
    }
}
