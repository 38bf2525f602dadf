//! A crash at every step of every write: what was there before is still there, or the new dataset
//! is, after at most a repair; never a mixture, and nothing is left over.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use kiste::format::dataset::SideFile;
use kiste::index::IndexOptions;
use kiste::rearrange::external_shuffle;
use kiste::repair::{Leftover, Repair};
use kiste::sampler::{Sampler, Shuffle};
use kiste::storage::MemoryStorage;
use kiste::{ErrorKind, Result, Writer, WriterOptions};

use crate::support::{Snapshot, one_in, open_in, packed, restore, snapshot};

/// How a process ends.
#[derive(Debug, Clone, Copy)]
enum Crash {
    /// `kill -9`: what was written stays.
    Death,
    /// What was not synced may be lost, as the seed decides.
    PowerLoss(u64),
}

const CRASHES: [Crash; 4] =
    [Crash::Death, Crash::PowerLoss(0), Crash::PowerLoss(1), Crash::PowerLoss(2)];

impl Crash {
    fn strike(self, storage: &MemoryStorage) {
        match self {
            Crash::Death => storage.restart(),
            Crash::PowerLoss(seed) => storage.lose_power(seed),
        }
    }

    /// The same kind of crash, with other losses each time.
    fn vary(self, by: u64) -> Crash {
        match self {
            Crash::PowerLoss(seed) if seed > 0 => Crash::PowerLoss(seed * 1000 + by),
            other => other,
        }
    }
}

/// One kind of write: what was there before, and what it does.
struct Scenario {
    before: fn(&MemoryStorage) -> Result<()>,
    act: fn(&MemoryStorage) -> Result<()>,
}

fn dataset() -> PathBuf {
    PathBuf::from("x.msgpack")
}

fn options(storage: &MemoryStorage) -> WriterOptions {
    Writer::options().storage(Arc::new(storage.clone()))
}

fn repair(storage: &MemoryStorage) -> Repair {
    Repair::of(dataset()).storage(Arc::new(storage.clone()))
}

/// Writes samples `from..to`, flushing now and then so that they reach the file before the end.
fn fill(mut writer: Writer, from: u64, to: u64, value: u64) -> Result<()> {
    for i in from..to {
        writer.write_raw(&format!("k{i}"), &packed(&format!("k{i}"), value + i))?;
        if i % 3 == 2 {
            writer.sync()?;
        }
    }
    writer.finish().map(drop)
}

fn nothing(_: &MemoryStorage) -> Result<()> {
    Ok(())
}

fn write_old(storage: &MemoryStorage) -> Result<()> {
    fill(options(storage).lookup(true).checksums(true).create(dataset())?, 0, 5, 100)
}

fn write_new(storage: &MemoryStorage) -> Result<()> {
    fill(options(storage).checksums(true).create(dataset())?, 0, 7, 0)
}

fn overwrite(storage: &MemoryStorage) -> Result<()> {
    fill(options(storage).overwrite(true).create(dataset())?, 0, 7, 0)
}

fn overwrite_checked(storage: &MemoryStorage) -> Result<()> {
    fill(options(storage).overwrite(true).checksums(true).create(dataset())?, 0, 7, 0)
}

fn overwrite_without_digests(storage: &MemoryStorage) -> Result<()> {
    fill(options(storage).overwrite(true).digests(false).create(dataset())?, 0, 7, 0)
}

fn append(storage: &MemoryStorage) -> Result<()> {
    fill(options(storage).append(dataset())?, 5, 9, 0)
}

fn with_labels(writer: Result<Writer>, to: u64, names: Option<&[&str]>) -> Result<()> {
    let mut writer = writer?;
    writer.set_labels(names)?;
    fill(writer, 0, to, 0)
}

fn write_labelled(storage: &MemoryStorage) -> Result<()> {
    with_labels(options(storage).create(dataset()), 5, Some(&["cat", "dog"]))
}

fn overwrite_labelled(storage: &MemoryStorage) -> Result<()> {
    with_labels(options(storage).overwrite(true).create(dataset()), 7, Some(&["cow"]))
}

fn overwrite_unlabelled(storage: &MemoryStorage) -> Result<()> {
    with_labels(options(storage).overwrite(true).create(dataset()), 7, None)
}

fn source() -> PathBuf {
    PathBuf::from("source.msgpack")
}

fn write_source(storage: &MemoryStorage) -> Result<()> {
    fill(options(storage).create(source())?, 0, 7, 0)
}

fn write_source_and_old(storage: &MemoryStorage) -> Result<()> {
    write_source(storage)?;
    write_old(storage)
}

/// Of a source that is larger than the memory: there are scratch files.
fn shuffle(storage: &MemoryStorage) -> Result<()> {
    let reader = open_in(storage, &source())?;
    let order = Shuffle::new(reader.len() as u64, 3).order(0)?;
    let mut writer = options(storage).overwrite(true).create(dataset())?;
    external_shuffle(&reader, &*order, 150, &mut writer, |_| Ok(()))?;
    writer.finish().map(drop)
}

fn write_legacy(storage: &MemoryStorage) -> Result<()> {
    let mut data = Vec::new();
    let mut index = vec![0x85];
    for i in 0..5 {
        let key = format!("k{i}");
        index.push(0xa0 | key.len() as u8);
        index.extend_from_slice(key.as_bytes());
        index.push(data.len() as u8);
        data.extend_from_slice(&packed(&key, i));
    }
    storage.put(dataset(), data);
    storage.put(SideFile::Index.path(&dataset()), index);
    Ok(())
}

fn write_partly_indexed(storage: &MemoryStorage) -> Result<()> {
    write_old(storage)?;
    let mut files = snapshot(storage);
    for lost in [SideFile::Filter, SideFile::KeyHashes] {
        files.remove(&lost.path(&dataset()));
    }
    let data = files[&dataset()].clone().unwrap();
    files.insert(dataset(), Some(data));
    replace(storage, &files);
    Ok(())
}

fn write_without_checksums(storage: &MemoryStorage) -> Result<()> {
    write_old(storage)?;
    let mut files = snapshot(storage);
    files.remove(&SideFile::Crc.path(&dataset()));
    replace(storage, &files);
    Ok(())
}

/// The checksums are of data that is no longer there.
fn write_stale_checksums(storage: &MemoryStorage) -> Result<()> {
    write_new(storage)?;
    let crc = SideFile::Crc.path(&dataset());
    let stale = storage.get(&crc);
    overwrite(storage)?;
    fill(options(storage).overwrite(true).create(dataset())?, 0, 5, 100)?;
    storage.put(crc, stale.unwrap());
    Ok(())
}

fn write_data_alone(storage: &MemoryStorage) -> Result<()> {
    write_old(storage)?;
    let files = snapshot(storage).into_iter().filter(|(name, _)| *name == dataset()).collect();
    replace(storage, &files);
    Ok(())
}

/// Makes these the only files.
fn replace(storage: &MemoryStorage, files: &Snapshot) {
    use kiste::storage::Storage;
    for name in storage.names() {
        if !files.contains_key(&name) {
            storage.remove(&name).unwrap();
        }
    }
    storage.sync_dir(Path::new("")).unwrap();
}

fn index(storage: &MemoryStorage) -> Result<()> {
    IndexOptions::default().storage(Arc::new(storage.clone())).build(dataset()).map(drop)
}

fn index_force(storage: &MemoryStorage) -> Result<()> {
    let options = IndexOptions::default().force(true).lookup(true);
    options.storage(Arc::new(storage.clone())).build(dataset()).map(drop)
}

fn index_checksums(storage: &MemoryStorage) -> Result<()> {
    let options = IndexOptions::default().checksums(true);
    options.storage(Arc::new(storage.clone())).build(dataset()).map(drop)
}

/// The samples that a reader sees, by every way there is.
fn samples_in(storage: &MemoryStorage) -> Result<Vec<(String, Vec<u8>)>> {
    let reader = open_in(storage, &dataset())?;
    let mut samples = Vec::new();
    for (index, key) in reader.keys().enumerate() {
        let key = key?.into_owned();
        assert_eq!(reader.find(&key)?, Some(index));
        assert!(reader.contains_key(&key)?);
        assert_eq!(reader.key(index)?, key);
        samples.push((key, reader.get_raw(index)?.into_owned()));
    }
    assert_eq!(samples.len(), reader.len());
    assert!(!reader.contains_key("absent")?);
    Ok(samples)
}

/// What Python datadings would see: it knows nothing of `NAME.partial`, and opens whatever has
/// offsets (or a legacy index) and keys. All of the files it looks at must be of one dataset.
fn assert_python_sees_no_mixture(now: &Snapshot, old: &Snapshot, new: &Snapshot, what: &str) {
    let file = |side: SideFile| side.path(&dataset());
    let opens = |files: &Snapshot| {
        files.contains_key(&file(SideFile::Offsets)) || files.contains_key(&file(SideFile::Index))
    };
    if !opens(now) {
        return;
    }
    let same = |then: &Snapshot| {
        let data = match (now.get(&dataset()), then.get(&dataset())) {
            // An append writes behind the end that the offsets know.
            (Some(Some(now)), Some(Some(then))) => now.starts_with(then),
            (now, then) => now.is_none() && then.is_none(),
        };
        // Side files that only came or went without the data are no mixture.
        let sides = SideFile::WRITTEN.iter().all(|side| {
            let (now, then) = (now.get(&file(*side)), then.get(&file(*side)));
            now == then || (now.is_none() && *side == SideFile::Md5)
        });
        data && sides
    };
    let same_data = old.get(&dataset()) == new.get(&dataset());
    assert!(same_data || same(old) || same(new), "Python sees a mixture after {what}");
}

/// Repairs as a user would: an earlier dataset wins, samples of a first write are kept on demand.
fn repair_once(storage: &MemoryStorage, keep: bool) -> Result<()> {
    let repair = repair(storage);
    match repair.leftover()? {
        None => Ok(()),
        Some(Leftover::Committed) => repair.finish().map(drop),
        Some(Leftover::Samples { .. }) if keep => repair.finish().map(drop),
        Some(_) => repair.undo(),
    }
}

impl Scenario {
    /// Before and after, and how many operations lie between.
    fn run(&self) -> (Snapshot, Snapshot, u64) {
        let storage = MemoryStorage::new();
        (self.before)(&storage).unwrap();
        let old = snapshot(&storage);
        let before = storage.operations();
        (self.act)(&storage).unwrap();
        (old, snapshot(&storage), storage.operations() - before)
    }

    /// The state after a crash at operation `k`.
    fn crash(&self, old: &Snapshot, k: u64, crash: Crash) -> MemoryStorage {
        let storage = restore(old);
        storage.fail_after(k);
        assert!((self.act)(&storage).is_err(), "operation {k} was not noticed");
        crash.strike(&storage);
        storage
    }

    fn check(&self) {
        let (old, new, operations) = self.run();
        assert!(operations > 10, "{operations}");
        let samples = |files: &Snapshot| samples_in(&restore(files)).ok();
        let (old_samples, new_samples) = (samples(&old), samples(&new));
        for k in 0..operations {
            for crash in CRASHES.map(|crash| crash.vary(k)) {
                let what = format!("{crash:?} at {k} of {operations}");
                let storage = self.crash(&old, k, crash);
                let left = snapshot(&storage);
                assert_python_sees_no_mixture(&left, &old, &new, &what);
                match samples_in(&storage) {
                    Ok(found) => {
                        let found = Some(found);
                        assert!(found == old_samples || found == new_samples, "{what}");
                    }
                    Err(e) if e.kind() == ErrorKind::Interrupted => {}
                    Err(e) => assert!(
                        e.kind() == ErrorKind::NotFound && old_samples.is_none(),
                        "{what}: {e:?}"
                    ),
                }
                repair_once(&storage, false).unwrap_or_else(|e| panic!("{what}: {e:?}"));
                let repaired = snapshot(&storage);
                assert_whole(&repaired, &old, &new, &what);
                if repaired == old {
                    (self.act)(&storage).unwrap_or_else(|e| panic!("{what}: {e:?}"));
                    assert_whole(&snapshot(&storage), &new, &new, &what);
                }
            }
        }
    }

    /// As `check`, but the samples that had been written are kept.
    fn check_finish(&self) {
        let (old, new, operations) = self.run();
        let new_samples = samples_in(&restore(&new)).unwrap();
        let old_len = samples_in(&restore(&old)).map_or(0, |samples| samples.len());
        let mut kept_some = false;
        for k in 0..operations {
            for crash in CRASHES.map(|crash| crash.vary(k)) {
                let what = format!("{crash:?} at {k} of {operations}");
                let storage = self.crash(&old, k, crash);
                repair_once(&storage, true).unwrap_or_else(|e| panic!("{what}: {e:?}"));
                let now = snapshot(&storage);
                if now == old {
                    continue;
                }
                let found = samples_in(&storage).unwrap_or_else(|e| panic!("{what}: {e:?}"));
                assert!(new_samples.starts_with(&found), "{what}");
                assert_eq!(found.len() == new_samples.len(), now == new, "{what}");
                assert!(!now.keys().any(|name| name.to_str().unwrap().contains("partial")));
                let report = kiste::verify::Verify::of(dataset()).deep(true);
                let report = report.storage(Arc::new(storage.clone())).run().unwrap();
                assert!(report.problems.is_empty() && report.missing.is_empty(), "{what}");
                kept_some |= found.len() > old_len && found.len() < new_samples.len();
            }
        }
        assert!(kept_some);
    }

    /// Crashes again at every operation of the repair.
    fn check_repair(&self, keep: bool) {
        let (old, new, operations) = self.run();
        let new_samples = samples_in(&restore(&new)).unwrap();
        for k in (0..operations).step_by(2) {
            for first in [Crash::Death, Crash::PowerLoss(1 + k)] {
                let left = snapshot(&self.crash(&old, k, first));
                let storage = restore(&left);
                let before = storage.operations();
                repair_once(&storage, keep).unwrap();
                // Another one each time, so that all of them come up.
                let step = one_in(4);
                for j in (k / 2 % step as u64..storage.operations() - before).step_by(step) {
                    for second in [Crash::Death, Crash::PowerLoss(j)] {
                        let what = format!("{first:?} at {k}, then {second:?} at {j}");
                        let storage = restore(&left);
                        storage.fail_after(j);
                        // May well succeed: the last steps of tidying up fail silently at most.
                        let _ = repair_once(&storage, keep);
                        second.strike(&storage);
                        repair_once(&storage, keep).unwrap_or_else(|e| panic!("{what}: {e:?}"));
                        let now = snapshot(&storage);
                        if keep && now != old {
                            let found = samples_in(&storage).unwrap();
                            assert!(new_samples.starts_with(&found), "{what}");
                        } else {
                            assert_whole(&now, &old, &new, &what);
                        }
                    }
                }
            }
        }
    }
}

fn assert_whole(now: &Snapshot, old: &Snapshot, new: &Snapshot, what: &str) {
    if now != old && now != new {
        let names: Vec<_> = now.keys().collect();
        let differ = |then: &Snapshot| -> Vec<PathBuf> {
            then.iter().filter(|(n, c)| now.get(*n) != Some(c)).map(|(n, _)| n.clone()).collect()
        };
        panic!("neither old nor new after {what}: {names:?}, {:?}, {:?}", differ(old), differ(new));
    }
}

const CREATE: Scenario = Scenario { before: nothing, act: write_new };
const OVERWRITE: Scenario = Scenario { before: write_old, act: overwrite };
const OVERWRITE_CHECKED: Scenario = Scenario { before: write_old, act: overwrite_checked };
const OVERWRITE_WITHOUT_DIGESTS: Scenario =
    Scenario { before: write_old, act: overwrite_without_digests };
const OVERWRITE_LEGACY: Scenario = Scenario { before: write_legacy, act: overwrite };
const APPEND: Scenario = Scenario { before: write_old, act: append };
const APPEND_TO_STALE: Scenario = Scenario { before: write_stale_checksums, act: append };
const APPEND_TO_LEGACY: Scenario = Scenario { before: write_legacy, act: append };
const APPEND_TO_DATA_ALONE: Scenario = Scenario { before: write_data_alone, act: append };
const SHUFFLE: Scenario = Scenario { before: write_source, act: shuffle };
const SHUFFLE_OVER: Scenario = Scenario { before: write_source_and_old, act: shuffle };
const INDEX: Scenario = Scenario { before: write_partly_indexed, act: index };
const INDEX_FORCE: Scenario = Scenario { before: write_old, act: index_force };
const INDEX_CHECKSUMS: Scenario =
    Scenario { before: write_without_checksums, act: index_checksums };
const INDEX_STALE: Scenario = Scenario { before: write_stale_checksums, act: index_checksums };
const INDEX_DATA_ALONE: Scenario = Scenario { before: write_data_alone, act: index };
const INDEX_LEGACY: Scenario = Scenario { before: write_legacy, act: index };

#[test]
fn a_first_write() {
    CREATE.check();
}

#[test]
fn an_overwrite() {
    OVERWRITE.check();
    OVERWRITE_CHECKED.check();
    OVERWRITE_WITHOUT_DIGESTS.check();
    OVERWRITE_LEGACY.check();
}

#[test]
fn labels_come_and_go_with_their_dataset() {
    let write = Scenario { before: nothing, act: write_labelled };
    let replace = Scenario { before: write_labelled, act: overwrite_labelled };
    let remove = Scenario { before: write_labelled, act: overwrite_unlabelled };
    let labels = kiste::dataset::labels_path(&dataset());
    let found = |scenario: &Scenario| scenario.run().1.get(&labels).cloned().flatten();
    assert_eq!(found(&write).as_deref(), Some(&b"cat\ndog\n"[..]));
    assert_eq!(found(&replace).as_deref(), Some(&b"cow\n"[..]));
    assert_eq!(found(&remove), None);
    for scenario in [write, replace, remove] {
        scenario.check();
    }
    let mut writer = options(&MemoryStorage::new()).create(dataset()).unwrap();
    assert_eq!(writer.set_labels(Some(&["a\nb"])).unwrap_err().kind(), ErrorKind::Invalid);
}

/// What a writer had staged of its labels when it died does not keep the next one from its own.
#[test]
fn a_write_with_labels_goes_on_wherever_it_was_cut_short() {
    let write = Scenario { before: nothing, act: write_labelled };
    let (old, new, operations) = write.run();
    let mut resumed = 0;
    for k in 0..operations {
        for crash in CRASHES.map(|crash| crash.vary(k)) {
            let storage = write.crash(&old, k, crash);
            // Otherwise there was nothing yet, or nothing is left to write.
            let Ok(mut writer) = options(&storage).resume(dataset()) else { continue };
            writer.set_labels(Some(&["cat", "dog"])).unwrap();
            let from = writer.len();
            fill(writer, from, 5, 0).unwrap_or_else(|e| panic!("{crash:?} at {k}: {e:?}"));
            assert_whole(&snapshot(&storage), &new, &new, &format!("{crash:?} at {k}"));
            resumed += 1;
        }
    }
    assert!(resumed > 40, "{resumed}");
}

#[test]
fn an_append() {
    APPEND.check();
    APPEND_TO_STALE.check();
}

#[test]
fn checksums_come_and_go_with_their_dataset() {
    let crc = SideFile::Crc.path(&dataset());
    let has = |files: &Snapshot| files.contains_key(&crc);
    for (scenario, before, after) in [
        (&CREATE, false, true),
        (&OVERWRITE, true, false),
        (&OVERWRITE_CHECKED, true, true),
        (&APPEND, true, true),
        (&APPEND_TO_STALE, true, true),
        (&INDEX, true, true),
        (&INDEX_FORCE, true, true),
        (&INDEX_CHECKSUMS, false, true),
        (&INDEX_STALE, true, true),
        (&INDEX_DATA_ALONE, false, false),
    ] {
        let (old, new, _) = scenario.run();
        assert_eq!((has(&old), has(&new)), (before, after));
        if after {
            let storage = Arc::new(restore(&new));
            kiste::DatasetReader::options()
                .storage(storage)
                .checksums(true)
                .open(dataset())
                .unwrap();
        }
    }
}

#[test]
fn an_append_to_a_dataset_without_offsets() {
    APPEND_TO_LEGACY.check();
    APPEND_TO_DATA_ALONE.check();
}

#[test]
fn an_external_shuffle() {
    // It does leave something to be cleaned up: of three buckets the first stays in memory.
    let (old, _, operations) = SHUFFLE.run();
    let scratch_after = |k| {
        let storage = SHUFFLE.crash(&old, k, Crash::Death);
        let names = storage.names().into_iter().map(|name| name.display().to_string());
        names.filter(|name| name.contains("partial/scratch-")).count()
    };
    assert_eq!((0..operations).map(scratch_after).max(), Some(2));
    SHUFFLE.check();
    SHUFFLE_OVER.check();
    SHUFFLE.check_repair(true);
}

#[test]
fn making_side_files() {
    let checksums = [INDEX_CHECKSUMS, INDEX_STALE];
    for scenario in
        [INDEX, INDEX_FORCE, INDEX_DATA_ALONE, INDEX_LEGACY].into_iter().chain(checksums)
    {
        scenario.check();
    }
}

#[test]
fn whole_samples_of_a_write_that_died_are_kept_on_demand() {
    for scenario in [CREATE, OVERWRITE, OVERWRITE_CHECKED, APPEND, APPEND_TO_STALE] {
        scenario.check_finish();
    }
}

#[test]
fn a_crash_during_the_repair_too() {
    OVERWRITE.check_repair(false);
    APPEND.check_repair(false);
    APPEND.check_repair(true);
}
