//! Writers that die anywhere, and leftovers that no writer made: a repair leaves the dataset that was
//! there or the one that was being written, to the byte, and never touches the file of another name.
#![no_main]

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use kiste::index::IndexOptions;
use kiste::repair::{Leftover, Repair};
use kiste::storage::{MemoryStorage, Storage};
use kiste::verify::Verify;
use kiste::{DatasetReader, Result, Writer, WriterOptions};
use libfuzzer_sys::arbitrary::{self, Arbitrary};
use libfuzzer_sys::fuzz_target;

const DATA: &str = "d/x";
/// Beside it, and with names that begin as its own do.
const OTHERS: [&str; 3] = ["d/y", "d/x.other", "d/x2.offsets"];

#[derive(Debug, Arbitrary)]
enum Input {
    Crash(Crash),
    Foreign(Foreign),
}

/// A write that is cut short at any operation, and then its repair.
#[derive(Debug, Arbitrary)]
struct Crash {
    before: Option<Vec<u8>>,
    act: Act,
    after: u8,
    power: Option<u64>,
    keep: bool,
    /// Repairs that are cut short as well.
    again: Vec<(u8, Option<u64>)>,
}

#[derive(Debug, Arbitrary)]
enum Act {
    Overwrite { samples: Vec<u8>, options: Options },
    Append { samples: Vec<u8>, options: Options },
    Index { force: bool, lookup: bool },
}

#[derive(Debug, Arbitrary)]
struct Options {
    digests: bool,
    lookup: bool,
    sync_every: u8,
    labels: Option<Option<Vec<u8>>>,
}

/// A directory NAME.partial with anything in it.
#[derive(Debug, Arbitrary)]
struct Foreign {
    before: Option<Vec<u8>>,
    journal: Option<Note>,
    commit: Option<Note>,
    staged: Vec<(u8, Staged)>,
    others: Vec<(u8, Vec<u8>)>,
    finish: bool,
}

#[derive(Debug, Arbitrary)]
enum Note {
    Text(Vec<u8>),
    Journal { version: u8, base: Option<(u8, u16)>, side_files_only: bool },
    Commit { version: u8, publish: Vec<u8>, remove: Vec<u8> },
}

#[derive(Debug, Arbitrary)]
enum Staged {
    /// Of the dataset of so many samples.
    Whole(u8),
    Cut(u8, u16),
    Bytes(Vec<u8>),
}

const SUFFIXES: [&str; 10] = [
    "",
    ".offsets",
    ".keys",
    ".key_hashes",
    ".filter",
    ".md5",
    ".lookup",
    ".index",
    ".labels",
    "/../y",
];

type Files = BTreeMap<PathBuf, Option<Vec<u8>>>;

fn snapshot(storage: &MemoryStorage) -> Files {
    storage.names().into_iter().map(|name| (name.clone(), storage.get(name))).collect()
}

fn restore(files: &Files) -> MemoryStorage {
    let storage = MemoryStorage::new();
    for (name, content) in files {
        match content {
            Some(bytes) => storage.put(name, bytes.clone()),
            None => {
                (&storage as &dyn kiste::storage::Storage).create_dir_all(name).unwrap();
                storage.sync_dir(name.parent().unwrap()).unwrap();
            }
        }
    }
    storage
}

fn shared(storage: &MemoryStorage) -> Arc<dyn Storage> {
    Arc::new(storage.clone())
}

fn options(storage: &MemoryStorage) -> WriterOptions {
    Writer::options().storage(shared(storage))
}

fn repair(storage: &MemoryStorage) -> Repair {
    Repair::of(DATA).storage(shared(storage))
}

fn fill(mut writer: Writer, prefix: &str, samples: &[u8], sync_every: u8) -> Result<()> {
    for (i, payload) in samples.iter().take(12).enumerate() {
        let key = format!("{prefix}{i}");
        let mut packed = b"\x82\xa3key".to_vec();
        packed.push(0xa0 | key.len() as u8);
        packed.extend(key.as_bytes());
        packed.extend(b"\xa1v\xc4");
        packed.push(*payload);
        packed.extend(vec![i as u8; usize::from(*payload)]);
        writer.write_raw(&key, &packed)?;
        if sync_every > 0 && i % usize::from(sync_every) == 0 {
            writer.sync()?;
        }
    }
    writer.finish().map(drop)
}

fn begin(before: &Option<Vec<u8>>) -> MemoryStorage {
    let storage = MemoryStorage::new();
    OTHERS.iter().for_each(|name| storage.put(name, "mine"));
    if let Some(samples) = before {
        let writer = options(&storage).durable(false).create(DATA).unwrap();
        fill(writer, "old", samples, 0).unwrap();
    }
    restore(&snapshot(&storage))
}

impl Act {
    fn run(&self, storage: &MemoryStorage) -> Result<()> {
        let (mut writer, samples, options) = match self {
            Act::Index { force, lookup } => {
                let options = IndexOptions::default().force(*force).lookup(*lookup);
                return options.storage(shared(storage)).build(DATA).map(drop);
            }
            Act::Overwrite { samples, options: o } => {
                let options = options(storage).digests(o.digests).lookup(o.lookup);
                (options.overwrite(true).create(DATA)?, samples, o)
            }
            Act::Append { samples, options: o } => {
                let options = options(storage).digests(o.digests).lookup(o.lookup);
                (options.append(DATA)?, samples, o)
            }
        };
        if let Some(labels) = &options.labels {
            let names =
                labels.as_ref().map(|names| names.iter().map(u8::to_string).collect::<Vec<_>>());
            writer.set_labels(names.as_deref())?;
        }
        fill(writer, "new", samples, options.sync_every)
    }
}

fn mend(storage: &MemoryStorage, keep: bool) -> Result<()> {
    let repair = repair(storage);
    match repair.leftover()? {
        None => Ok(()),
        Some(Leftover::Committed) => repair.finish().map(drop),
        Some(Leftover::Samples { .. }) if keep => {
            let whole = repair.whole_samples()?;
            match repair.finish()? {
                Some(stats) => assert!(stats.samples >= whole),
                None => assert_eq!(whole, 0),
            }
            Ok(())
        }
        Some(_) => repair.undo(),
    }
}

fn strike(storage: &MemoryStorage, power: Option<u64>) {
    match power {
        Some(seed) => storage.lose_power(seed),
        None => storage.restart(),
    }
}

fn samples_in(storage: &MemoryStorage) -> Result<Vec<Vec<u8>>> {
    let reader = DatasetReader::options().storage(shared(storage)).open(DATA)?;
    reader.iter_raw(..).map(|raw| raw.map(|raw| raw.into_owned())).collect()
}

fn assert_sound(storage: &MemoryStorage) {
    let report = Verify::of(DATA).deep(true).storage(shared(storage)).run().unwrap();
    assert!(report.problems.is_empty(), "{report:?}");
}

fn crash(input: &Crash) {
    let storage = begin(&input.before);
    let old = snapshot(&storage);
    let complete = restore(&old);
    if input.act.run(&complete).is_err() {
        // What cannot be done has done nothing.
        assert!(snapshot(&complete) == old);
        return;
    }
    let new = snapshot(&complete);
    let power = input.power;
    storage.fail_after(u64::from(input.after));
    let done = input.act.run(&storage).is_ok();
    strike(&storage, power);
    if done {
        assert!(snapshot(&storage) == new, "it was done, and then it was not");
        return;
    }
    for (after, power) in input.again.iter().take(3) {
        storage.fail_after(u64::from(*after));
        let _ = mend(&storage, input.keep);
        strike(&storage, *power);
    }
    mend(&storage, input.keep).unwrap();
    let now = snapshot(&storage);
    if now == old || now == new {
        return;
    }
    assert!(input.keep, "neither the old dataset nor the new one");
    let samples = samples_in(&storage).unwrap();
    assert!(samples_in(&complete).unwrap().starts_with(&samples));
    assert_sound(&storage);
    assert!(repair(&storage).leftover().unwrap().is_none());
    OTHERS.iter().for_each(|name| assert!(now[&PathBuf::from(name)] == old[&PathBuf::from(name)]));
}

/// The journal of a writer that has just begun, with all that is said of the dataset that is there.
fn real_journal(storage: &MemoryStorage) -> serde_json::Value {
    let storage = restore(&snapshot(storage));
    let writer = options(&storage).overwrite(true).create(DATA).unwrap();
    let text = storage.get(format!("{DATA}.partial/journal")).unwrap();
    drop(writer);
    let mut journal: serde_json::Value = serde_json::from_slice(&text).unwrap();
    // A note that has none is read without it.
    journal.as_object_mut().unwrap().remove("checksum");
    journal
}

impl Note {
    fn text(&self, storage: &MemoryStorage) -> Vec<u8> {
        // Mostly the version that is read.
        let known = |version: u8| if version % 8 == 0 { version } else { 2 };
        match self {
            Note::Text(bytes) => bytes.clone(),
            Note::Journal { version, base, side_files_only } => {
                let base = base.map(
                    |(samples, bytes)| serde_json::json!({"samples": samples, "bytes": bytes}),
                );
                let mut journal = real_journal(storage);
                journal["version"] = known(*version).into();
                journal["base"] = base.into();
                journal["side_files_only"] = (*side_files_only).into();
                journal.to_string().into_bytes()
            }
            Note::Commit { version, publish, remove } => {
                let old = real_journal(storage)["old"].clone();
                let mut steps = serde_json::Map::new();
                let suffix = |i: &u8| SUFFIXES[usize::from(*i) % SUFFIXES.len()];
                // As if each file were published over that of another suffix, or removed.
                for (i, which) in publish.iter().take(12).enumerate() {
                    let new = old.get(suffix(which)).cloned();
                    let was = old.get(suffix(&(which.wrapping_add(i as u8 % 2)))).cloned();
                    let step = serde_json::json!({ "new": new, "old": was });
                    steps.insert(suffix(which).to_owned(), step);
                }
                for which in remove.iter().take(12) {
                    let step = serde_json::json!({ "new": null, "old": null });
                    steps.insert(suffix(which).to_owned(), step);
                }
                let in_place = old.get("").filter(|_| version % 2 == 0);
                let commit = serde_json::json!({
                    "version": known(*version), "steps": steps, "in_place": in_place,
                });
                commit.to_string().into_bytes()
            }
        }
    }
}

fn foreign(input: &Foreign) {
    let storage = begin(&input.before);
    let old = snapshot(&storage);
    for (name, note) in [("journal", &input.journal), ("commit", &input.commit)] {
        if let Some(note) = note {
            let text = note.text(&restore(&old));
            storage.put(format!("{DATA}.partial/{name}"), text);
        }
    }
    for (which, staged) in input.staged.iter().take(10) {
        let suffix = SUFFIXES[usize::from(*which) % 9];
        let of = |len: u8| {
            let other = MemoryStorage::new();
            let writer = options(&other).durable(false).lookup(true).create("x").unwrap();
            fill(writer, "new", &vec![3; usize::from(len % 12)], 0).unwrap();
            other.get(format!("x{suffix}")).unwrap_or_default()
        };
        let bytes = match staged {
            Staged::Whole(len) => of(*len),
            Staged::Cut(len, at) => {
                let mut bytes = of(*len);
                bytes.truncate(usize::from(*at) % (bytes.len() + 1));
                bytes
            }
            Staged::Bytes(bytes) => bytes.clone(),
        };
        let name = suffix.strip_prefix('.').unwrap_or("data");
        storage.put(format!("{DATA}.partial/{name}"), bytes);
    }
    for (which, bytes) in input.others.iter().take(4) {
        let name = ["scratch-0", "units", "journal.new", "lock", "x", "commit.new"]
            [usize::from(*which) % 6];
        storage.put(format!("{DATA}.partial/{name}"), bytes.clone());
    }
    let repair = repair(&storage);
    let before = snapshot(&storage);
    let left = repair.leftover();
    let _ = repair.whole_samples();
    let without_lock = |files: Files| -> Files {
        files.into_iter().filter(|(name, _)| !name.ends_with("lock")).collect()
    };
    assert!(without_lock(snapshot(&storage)) == without_lock(before), "to look changes something");
    let done = if input.finish { repair.finish().map(drop) } else { repair.undo() };
    let now = snapshot(&storage);
    let dataset = |files: &Files| -> Files {
        let of = |name: &PathBuf| !name.starts_with(format!("{DATA}.partial"));
        files.iter().filter(|(name, _)| of(name)).map(|(n, c)| (n.clone(), c.clone())).collect()
    };
    OTHERS.iter().for_each(|name| assert!(now[&PathBuf::from(name)] == old[&PathBuf::from(name)]));
    if dataset(&now) == old {
        return;
    }
    assert!(done.is_ok() && input.finish, "an undone write changed the dataset");
    assert!(matches!(left, Ok(Some(Leftover::Samples { .. }))), "{left:?}");
    assert_sound(&storage);
}

fuzz_target!(|input: Input| {
    match &input {
        Input::Crash(input) => crash(input),
        Input::Foreign(input) => foreign(input),
    }
});
