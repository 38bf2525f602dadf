//! Notes that kiste writes for itself, each of them changed in every way: what is odd is refused, and nothing
//! that was finished is removed or published in part.
//!
//! Not here, as other tests change each of their bytes: versions and tables of arrays (`arrays/damage.rs`),
//! records of the cache (`remote/cache.rs`). Notes of downloads are in `src/convert/fetch/tests.rs`, those in object
//! stores in `remote/parts.rs`.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use kiste::convert::{
    Conversion, Monitor, Part, PartedShuffle, Progress, Silent, Split, commit,
    remove_unfinished_shards,
};
use kiste::repair::Repair;
use kiste::storage::MemoryStorage;
use kiste::{DatasetReader, ErrorKind, Result, Writer};
use serde_json::{Value as Json, json};
use tempfile::TempDir;

use crate::support::packed;

/// All files below a directory.
type Tree = BTreeMap<PathBuf, Vec<u8>>;

fn tree(root: &Path) -> Tree {
    fn add(root: &Path, dir: &Path, found: &mut Tree) {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => add(root, &path, found),
                false => {
                    let name = path.strip_prefix(root).unwrap().to_path_buf();
                    found.insert(name, fs::read(&path).unwrap());
                }
            }
        }
    }
    let mut found = Tree::new();
    add(root, root, &mut found);
    found
}

/// Makes a directory hold these files alone. What is as it was stays untouched.
fn put(root: &Path, files: &Tree) {
    for name in tree(root).keys().filter(|name| !files.contains_key(*name)) {
        fs::remove_file(root.join(name)).unwrap();
    }
    for entry in fs::read_dir(root).unwrap() {
        let path = entry.unwrap().path();
        let name = path.strip_prefix(root).unwrap();
        if path.is_dir() && !files.keys().any(|file| file.starts_with(name)) {
            fs::remove_dir_all(path).unwrap();
        }
    }
    for (name, bytes) in files {
        let path = root.join(name);
        if fs::read(&path).ok().as_ref() != Some(bytes) {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, bytes).unwrap();
        }
    }
}

/// A note, and what is done with it.
struct Case {
    /// Its file, from the root.
    note: &'static str,
    /// Makes the state in which it is read.
    make: fn(&Path),
    /// The same for another conversion, whose note this one takes for its own.
    other: Option<fn(&Path)>,
    /// Reads it.
    act: fn(&Path) -> Result<()>,
    /// Whether what the act has left is right.
    is_right: fn(&Path) -> bool,
    /// What is finished: after an error it is all there.
    is_finished: fn(&str) -> bool,
}

/// A note as text with one thing changed, and what that is.
fn mutations(text: &[u8]) -> Vec<(String, Vec<u8>)> {
    let mut all: Vec<(String, Vec<u8>)> = Vec::new();
    let step = (text.len() / 40).max(1);
    for at in (0..text.len()).step_by(step).chain([text.len().saturating_sub(1)]) {
        all.push((format!("cut at {at}"), text[..at].to_vec()));
        let mut other = text.to_vec();
        other[at] ^= 1;
        all.push((format!("another byte at {at}"), other));
    }
    let lines: Vec<&[u8]> = text.split_inclusive(|byte| *byte == b'\n').collect();
    let parsed: Vec<Option<Json>> =
        lines.iter().map(|line| serde_json::from_slice(line).ok()).collect();
    // A log has a note on each line; others are one note over all lines.
    let is_log = lines.len() > 1 && parsed.iter().all(Option::is_some);
    let (notes, lines) = match is_log {
        true => (parsed, lines),
        false => (vec![serde_json::from_slice(text).ok()], vec![text]),
    };
    for (line, note) in notes.into_iter().enumerate() {
        let Some(note) = note else { continue };
        for (what, changed) in fields(&note) {
            for is_sealed in [false, true] {
                // As of kiste 0.1.0, which wrote no checksums; or with one that is no longer right.
                let mut lines: Vec<Vec<u8>> = lines.iter().map(|line| line.to_vec()).collect();
                lines[line] = match is_sealed {
                    true => changed.clone().into_bytes(),
                    false => unsealed(&changed).into_bytes(),
                };
                if is_log {
                    lines[line].push(b'\n');
                }
                all.push((format!("{what} (sealed: {is_sealed})"), lines.concat()));
            }
        }
    }
    all
}

/// Without its checksum, if that is the last member.
fn unsealed(text: &str) -> String {
    match text.rfind(",\"checksum\":\"") {
        Some(at) => format!("{}}}", &text[..at]),
        None => text.to_owned(),
    }
}

/// An object with each of its fields changed, and those of the objects in it.
fn fields(note: &Json) -> Vec<(String, String)> {
    let mut changed = Vec::new();
    for path in paths(note) {
        let (last, parent) = path.split_last().unwrap();
        let pointer: String = parent.iter().map(|name| format!("/{name}")).collect();
        let edited = |edit: &dyn Fn(&mut serde_json::Map<String, Json>)| {
            let mut note = note.clone();
            edit(note.pointer_mut(&pointer).unwrap().as_object_mut().unwrap());
            // The checksum last, where it was.
            let sum = note.as_object_mut().unwrap().remove("checksum");
            let text = note.to_string();
            match sum {
                Some(sum) => format!("{},\"checksum\":{sum}}}", text.strip_suffix('}').unwrap()),
                None => text,
            }
        };
        let place = path.join(".");
        for value in [
            Json::Null,
            json!(0),
            json!(-1),
            json!(1u64 << 40),
            json!(u64::MAX),
            json!(18446744073709551616.0),
            json!("x"),
            json!([]),
            json!(true),
        ] {
            let what = format!("{place} is {value}");
            changed
                .push((what, edited(&|object| drop(object.insert(last.clone(), value.clone())))));
        }
        changed.push((format!("{place} is missing"), edited(&|object| drop(object.remove(last)))));
        changed.push((
            format!("{place} has another name"),
            edited(&|object| {
                let value = object.remove(last).unwrap();
                object.insert(format!("{last}x"), value);
            }),
        ));
        if parent.is_empty() {
            let whole = edited(&|_| ());
            let twice = format!("{{\"{last}\":0,{}", &whole[1..]);
            changed.push((format!("{place} is there twice"), twice));
        }
    }
    changed
}

/// The fields of an object, and of objects in it.
fn paths(note: &Json) -> Vec<Vec<String>> {
    let Some(object) = note.as_object() else { return Vec::new() };
    let mut paths = Vec::new();
    for (name, value) in object.iter().filter(|(name, _)| *name != "checksum") {
        paths.push(vec![name.clone()]);
        let below = paths_below(value);
        paths.extend(below.into_iter().map(|path| [vec![name.clone()], path].concat()));
    }
    paths
}

fn paths_below(value: &Json) -> Vec<Vec<String>> {
    match value {
        // File names as keys may have anything in them.
        Json::Object(object) if object.keys().all(|key| !key.contains(['/', '~'])) => paths(value),
        _ => Vec::new(),
    }
}

impl Case {
    fn check(&self) {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        (self.make)(root);
        let before = tree(root);
        let note = before[Path::new(self.note)].clone();
        (self.act)(root).unwrap_or_else(|error| panic!("{}: {error}", self.note));
        assert!((self.is_right)(root), "{} as it is", self.note);
        let mut all = mutations(&note);
        if let Some(make) = self.other {
            let other = tempfile::tempdir().unwrap();
            make(other.path());
            all.push((
                "of another conversion".into(),
                tree(other.path())[Path::new(self.note)].clone(),
            ));
        }
        let mut refused = 0;
        for (what, text) in all {
            let mut state = before.clone();
            state.insert(self.note.into(), text.clone());
            put(root, &state);
            let said = || format!("{}: {what}: {}", self.note, String::from_utf8_lossy(&text));
            match (self.act)(root) {
                Ok(()) => assert!((self.is_right)(root), "{}", said()),
                Err(error) => {
                    refused += 1;
                    let after = tree(root);
                    for (name, bytes) in &state {
                        if (self.is_finished)(name.to_str().unwrap()) {
                            assert_eq!(
                                after.get(name),
                                Some(bytes),
                                "{name:?}: {}: {error}",
                                said()
                            );
                        }
                    }
                }
            }
        }
        assert!(refused > 0, "{}: nothing was refused", self.note);
    }
}

const SAMPLES: usize = 30;

/// Three files of JSON lines, which are three units.
fn sources(root: &Path) -> Vec<PathBuf> {
    let names = ["a.jsonl", "b.jsonl", "c.jsonl"];
    let paths: Vec<PathBuf> = names.iter().map(|name| root.join(name)).collect();
    for (number, path) in paths.iter().enumerate() {
        let line = |at| format!("{{\"key\":\"{number}-{at}\",\"n\":{at}}}\n");
        let text: String = (0..SAMPLES / 3).map(line).collect();
        if fs::read(path).ok() != Some(text.clone().into_bytes()) {
            fs::write(path, text).unwrap();
            let file = fs::File::options().write(true).open(path).unwrap();
            file.set_modified(std::time::UNIX_EPOCH).unwrap();
        }
    }
    paths
}

fn keys(path: &Path) -> Vec<String> {
    let reader = DatasetReader::open(path).unwrap();
    reader.keys().map(|key| key.unwrap().into_owned()).collect()
}

fn is_whole(path: &Path) -> bool {
    let expected: Vec<String> =
        (0..SAMPLES).map(|at| format!("{}-{}", at / (SAMPLES / 3), at % (SAMPLES / 3))).collect();
    path.exists() && keys(path) == expected
}

fn run_parts(root: &Path, output: &str) {
    for part in Part::all(2) {
        Conversion::new(sources(root), root.join(output)).run_part(part, &mut Silent).unwrap();
    }
}

fn parts(root: &Path) {
    run_parts(root, "x.msgpack");
}

fn other_parts(root: &Path) {
    for part in Part::all(2) {
        let conversion = Conversion::new(sources(root), root.join("x.msgpack")).limit(5);
        conversion.run_part(part, &mut Silent).unwrap();
    }
}

fn join(root: &Path) -> Result<()> {
    commit(root.join("x.msgpack"), &mut Silent).map(drop)
}

fn is_joined(root: &Path) -> bool {
    is_whole(&root.join("x.msgpack"))
}

fn is_part(name: &str) -> bool {
    name.starts_with("x.msgpack.parts/part-") && !name.ends_with(".lock")
}

#[test]
fn a_plan_of_parts() {
    let note = "x.msgpack.parts/plan.json";
    let other: Option<fn(&Path)> = Some(other_parts);
    let make = parts;
    let case = Case { note, make, other, act: join, is_right: is_joined, is_finished: is_part };
    case.check();
}

#[test]
fn the_end_of_a_part() {
    let note = "x.msgpack.parts/part-1-of-2.json";
    let other: Option<fn(&Path)> = Some(other_parts);
    Case { note, make: parts, other, act: join, is_right: is_joined, is_finished: is_part }.check();
}

/// All is published, and the parts are about to be removed.
fn published(root: &Path) {
    parts(root);
    let mine = root.join("x.msgpack.parts/mine");
    fs::write(&mine, "").unwrap();
    join(root).unwrap_err();
    fs::remove_file(mine).unwrap();
}

fn published_without_a_note(root: &Path) {
    published(root);
    fs::remove_file(root.join("x.msgpack.parts/published")).unwrap();
}

fn is_part_or_dataset(name: &str) -> bool {
    is_part(name) || (name.starts_with("x.msgpack") && !name.contains(".parts/"))
}

#[test]
fn the_note_of_a_commit() {
    let note = "x.msgpack.parts/commit";
    let make = published_without_a_note;
    let is_finished = is_part_or_dataset;
    Case { note, make, other: None, act: join, is_right: is_joined, is_finished }.check();
}

#[test]
fn the_note_that_all_is_published() {
    let note = "x.msgpack.parts/published";
    let is_finished = is_part_or_dataset;
    Case { note, make: published, other: None, act: join, is_right: is_joined, is_finished }
        .check();
}

fn shards(root: &Path) {
    run_parts(root, "x.shards.json");
}

fn join_shards(root: &Path) -> Result<()> {
    commit(root.join("x.shards.json"), &mut Silent).map(drop)
}

fn are_joined(root: &Path) -> bool {
    is_whole(&root.join("x.shards.json"))
}

fn is_shard(name: &str) -> bool {
    name.starts_with("x-0000") || name.starts_with("x.shards.json.parts/part-1-of-2.json")
}

#[test]
fn the_plan_and_the_ends_of_parts_that_are_shards() {
    for note in ["x.shards.json.parts/plan.json", "x.shards.json.parts/part-2-of-2.json"] {
        let (act, is_right, is_finished) = (join_shards, are_joined, is_shard);
        Case { note, make: shards, other: None, act, is_right, is_finished }.check();
    }
}

/// By the note a repair removes shards: all of them or, if it is odd, none. What is not theirs stays.
#[test]
fn how_far_a_part_is() {
    fn make(root: &Path) {
        shards(root);
        let mut writer = Writer::create(root.join("mine.msgpack")).unwrap();
        writer.write_raw("a", &packed("a", 1)).unwrap();
        writer.finish().unwrap();
    }
    fn act(root: &Path) -> Result<()> {
        remove_unfinished_shards(root.join("x.shards.json")).map(drop)
    }
    fn is_right(root: &Path) -> bool {
        let left = tree(root);
        let is_mine = |name: &&PathBuf| name.to_str().unwrap().starts_with("mine.msgpack");
        left.keys().filter(is_mine).count() > 4 && !left.contains_key(Path::new("x.shards.json"))
    }
    fn is_finished(name: &str) -> bool {
        name.starts_with("x-0000") || name.starts_with("mine")
    }
    let note = "x.shards.json.parts/part-1-of-2.json";
    Case { note, make, other: None, act, is_right, is_finished }.check();
}

fn shuffle(root: &Path) -> PartedShuffle {
    let source = root.join("all.msgpack");
    if !source.exists() {
        Conversion::new(sources(root), &source).run(&mut Silent).unwrap();
    }
    let shuffle = PartedShuffle::new(&source, root.join("x.shards.json"), 2).unwrap();
    shuffle.scatter_dir(root.join("between")).unwrap()
}

fn scattered(root: &Path) {
    fs::create_dir_all(root.join("between")).unwrap();
    let shuffle = shuffle(root);
    for part in Part::all(2) {
        shuffle.scatter(part, &mut Silent).unwrap();
    }
    // The name of the folder in it is drawn, and no part of what is tested here.
    let plan = root.join("x.shards.json.scatter/plan.json");
    let text = fs::read_to_string(&plan).unwrap();
    let found: Json = serde_json::from_str(&text).unwrap();
    let folder = format!("kiste-scatter-{:016x}", found["folder"].as_u64().unwrap());
    fs::rename(
        root.join("between").join(folder),
        root.join("between/kiste-scatter-0000000000000007"),
    )
    .unwrap();
    let mut known = found.clone();
    known["folder"] = 7.into();
    known.as_object_mut().unwrap().remove("checksum");
    fs::write(&plan, known.to_string()).unwrap();
}

fn gather(root: &Path) -> Result<()> {
    let shuffle = shuffle(root);
    for part in Part::all(2) {
        shuffle.gather(part, &mut Silent)?;
    }
    shuffle.commit(&mut Silent).map(drop)
}

fn is_gathered(root: &Path) -> bool {
    let mut found = keys(&root.join("x.shards.json"));
    let mut all = keys(&root.join("all.msgpack"));
    let is_shuffled = found != all;
    found.sort();
    all.sort();
    is_shuffled && found == all
}

#[test]
fn the_plan_and_the_ends_of_a_first_pass() {
    fn is_finished(name: &str) -> bool {
        name.starts_with("all.msgpack") || name.starts_with("between/")
    }
    for note in [
        "x.shards.json.scatter/plan.json",
        "between/kiste-scatter-0000000000000007/part-1-of-2.json",
    ] {
        let (act, is_right) = (gather, is_gathered);
        Case { note, make: scattered, other: None, act, is_right, is_finished }.check();
    }
}

/// Stops a conversion after some batches.
struct Stop(usize);

impl Monitor for Stop {
    fn progress(&mut self, _: Progress) {
        self.0 += 1;
    }

    fn is_cancelled(&self) -> bool {
        self.0 >= 2
    }
}

#[test]
fn the_log_of_units() {
    fn make(root: &Path) {
        let conversion = Conversion::new(sources(root), root.join("x.msgpack"));
        let stopped = conversion.resume(true).run(&mut Stop(0));
        assert_eq!(stopped.unwrap_err().kind(), ErrorKind::Cancelled);
    }
    fn act(root: &Path) -> Result<()> {
        let conversion = Conversion::new(sources(root), root.join("x.msgpack"));
        conversion.resume(true).run(&mut Silent).map(drop)
    }
    fn is_finished(name: &str) -> bool {
        name.ends_with(".jsonl")
    }
    let note = "x.msgpack.partial/units";
    Case { note, make, other: None, act, is_right: is_joined, is_finished }.check();
}

/// What a writer in memory has left when this many operations had succeeded.
fn killed_after(
    operations: u64,
    before: fn(&MemoryStorage) -> Result<()>,
    act: fn(&MemoryStorage) -> Result<()>,
) -> MemoryStorage {
    let storage = MemoryStorage::new();
    before(&storage).unwrap();
    storage.fail_after(operations);
    let _ = act(&storage);
    storage.restart();
    storage
}

fn write(storage: &MemoryStorage, append: bool, keys: std::ops::Range<u64>) -> Result<()> {
    let options =
        Writer::options().storage(std::sync::Arc::new(storage.clone())).overwrite(!append);
    let path = Path::new("x.msgpack");
    let mut writer = if append { options.append(path)? } else { options.create(path)? };
    for at in keys {
        writer.write_raw(&format!("k{at}"), &packed(&format!("k{at}"), at))?;
    }
    writer.sync()?;
    writer.finish().map(drop)
}

fn write_five(storage: &MemoryStorage) -> Result<()> {
    write(storage, false, 0..5)
}

fn append_three(storage: &MemoryStorage) -> Result<()> {
    write(storage, true, 5..8)
}

fn write_three(storage: &MemoryStorage) -> Result<()> {
    write(storage, false, 5..8)
}

/// Puts on a disk what the writer has left when this file was there, and that one not.
fn left_with(root: &Path, act: fn(&MemoryStorage) -> Result<()>, there: &str, absent: &str) {
    let name = |file: &str| PathBuf::from(format!("x.msgpack.partial/{file}"));
    for operations in 0..500 {
        let storage = killed_after(operations, write_five, act);
        let names = storage.names();
        let has_data = there != "journal"
            || names.contains(&name("data"))
            || storage.get("x.msgpack").unwrap().len() > 55;
        if names.contains(&name(there)) && !names.contains(&name(absent)) && has_data {
            for path in names {
                // Directories have names too.
                let Some(bytes) = storage.get(&path) else { continue };
                let path = root.join(path);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                if !path.is_dir() {
                    fs::write(path, bytes).unwrap();
                }
            }
            return;
        }
    }
    panic!("{there} was never there without {absent}");
}

fn repair(root: &Path) -> Result<()> {
    let repair = Repair::of(root.join("x.msgpack"));
    let repaired = repair.plan(None)?.run()?;
    assert!(!repaired.cut_short);
    Ok(())
}

/// The old dataset or the new one, and nothing next to it.
fn is_old_or_new(root: &Path) -> bool {
    let found = keys(&root.join("x.msgpack"));
    let of = |range: std::ops::Range<u64>| range.map(|at| format!("k{at}")).collect::<Vec<_>>();
    let report = kiste::verify::verify(root.join("x.msgpack")).unwrap();
    report.is_good() && [of(0..5), of(0..8), of(5..8)].contains(&found)
}

/// The data of the old dataset, or the file in which they are by then.
fn keeps_old(name: &str) -> bool {
    ["x.msgpack", "x.msgpack.partial/old-data"].contains(&name)
}

#[test]
fn the_journal_of_an_append_and_of_a_replacement() {
    let cases: [fn(&Path); 2] = [
        |root| left_with(root, append_three, "journal", "complete"),
        |root| left_with(root, write_three, "journal", "complete"),
    ];
    for make in cases {
        let note = "x.msgpack.partial/journal";
        let (act, is_right, is_finished) = (repair, is_old_or_new, keeps_old);
        Case { note, make, other: None, act, is_right, is_finished }.check();
    }
}

#[test]
fn the_note_of_a_publication() {
    let cases: [fn(&Path); 2] = [
        |root| left_with(root, append_three, "commit", "old-keys"),
        |root| left_with(root, write_three, "old-data", "nothing"),
    ];
    for make in cases {
        let note = "x.msgpack.partial/commit";
        let (act, is_right, is_finished) = (repair, is_old_or_new, keeps_old);
        Case { note, make, other: None, act, is_right, is_finished }.check();
    }
}

/// Files of the dataset that the note calls new ones are not moved away: there are no others.
#[test]
fn a_note_of_a_publication_that_calls_the_old_files_new() {
    let note = "x.msgpack.partial/commit";
    let storage = (0..500).map(|operations| killed_after(operations, write_five, write_three));
    let storage = storage.into_iter().find(|storage| storage.get(note).is_some()).unwrap();
    let mut commit: Json = serde_json::from_slice(&storage.get(note).unwrap()).unwrap();
    commit.as_object_mut().unwrap().remove("checksum");
    for step in commit["steps"].as_object_mut().unwrap().values_mut() {
        step["new"] = step["old"].clone();
    }
    // Where the offsets are new, readers have seen the dataset, and it is finished.
    commit["steps"].as_object_mut().unwrap().remove(".offsets");
    storage.put(note, commit.to_string());
    let files = || {
        let names = storage.names().into_iter().filter(|name| !name.ends_with("lock"));
        names.map(|name| (storage.get(&name), name)).collect::<Vec<_>>()
    };
    let before = files();
    for act in [Repair::undo, |repair: &Repair| repair.finish().map(drop)] {
        let repair = Repair::of("x.msgpack").storage(std::sync::Arc::new(storage.clone()));
        let error = act(&repair).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Damaged, "{error}");
        assert!(files() == before);
    }
}

/// One that is odd says nothing: then the write counts as cut short, and the old dataset stays.
#[test]
fn the_note_that_all_samples_are_there() {
    fn make(root: &Path) {
        left_with(root, append_three, "complete", "commit");
    }
    let dir = tempfile::tempdir().unwrap();
    make(dir.path());
    let note = dir.path().join("x.msgpack.partial/complete");
    let (before, text) = (tree(dir.path()), fs::read(&note).unwrap());
    repair(dir.path()).unwrap();
    assert_eq!(keys(&dir.path().join("x.msgpack")).len(), 8);
    for (what, text) in mutations(&text) {
        put(dir.path(), &before);
        fs::write(&note, text).unwrap();
        repair(dir.path()).unwrap_or_else(|error| panic!("{what}: {error}"));
        assert!(is_old_or_new(dir.path()), "{what}");
    }
}

/// Parts of kiste 0.1.0 have notes without checksums, and nothing to compare their samples with.
#[test]
fn notes_of_the_version_before_are_read() {
    let dir: TempDir = tempfile::tempdir().unwrap();
    let parts_dir = dir.path().join("x.msgpack.parts");
    parts(dir.path());
    for name in ["plan.json", "part-1-of-2.json", "part-2-of-2.json"] {
        let path = parts_dir.join(name);
        let mut note: Json = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        note.as_object_mut().unwrap().remove("checksum").unwrap();
        for piece in note.pointer_mut("/finished/shards").into_iter().flat_map(Json::as_array_mut) {
            piece[0].as_object_mut().unwrap().remove("crc32").unwrap();
        }
        fs::write(&path, serde_json::to_string_pretty(&note).unwrap() + "\n").unwrap();
    }
    let part = Part::new(1, 2).unwrap();
    let conversion = Conversion::new(sources(dir.path()), dir.path().join("x.msgpack"));
    assert!(conversion.run_part(part, &mut Silent).unwrap().was_complete);
    join(dir.path()).unwrap();
    assert!(is_joined(dir.path()) && !parts_dir.exists());
}

/// What was finished is compared before it is joined.
#[test]
fn samples_of_a_part_that_were_exchanged_are_not_joined() {
    let swap = |root: &Path, file: &str| {
        let path = root.join("x.msgpack.parts").join(file);
        let mut bytes = fs::read(&path).unwrap();
        // The number of a sample, which is as good as another one to who reads it.
        let at = bytes.windows(2).position(|pair| pair == b"n\x03").unwrap() + 1;
        bytes[at] = 4;
        fs::write(path, bytes).unwrap();
    };
    for (of, split) in [(2, Split::default()), (1, Split::default().ratio("a", 1.0))] {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        for part in Part::all(of) {
            let conversion = Conversion::new(sources(root), root.join("x.msgpack"));
            conversion.split(split.clone()).run_part(part, &mut Silent).unwrap();
        }
        swap(root, &format!("part-{of}-of-{of}.00000.msgpack"));
        let before = tree(root);
        let error = join(root).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Damaged);
        assert!(error.path().unwrap().to_str().unwrap().contains("parts/part-"), "{error}");
        let after = tree(root);
        assert!(before.iter().all(|(name, bytes)| after.get(name) == Some(bytes)));
        assert!(!root.join("x.msgpack").exists());
    }
}

/// Joining takes keys from the side files of the parts, but not unseen.
#[test]
fn keys_of_a_part_that_are_not_those_of_its_samples_are_not_joined() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    parts(root);
    let path = root.join("x.msgpack.parts/part-2-of-2.00000.msgpack.keys");
    let mut bytes = fs::read(&path).unwrap();
    let at = bytes.windows(3).position(|key| key == b"2-1").unwrap();
    bytes[at] = b'x';
    fs::write(&path, bytes).unwrap();
    let before = tree(root);
    let error = join(root).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Damaged);
    assert!(
        error.to_string().contains("the key that .keys says, found one with \"2-1\""),
        "{error}"
    );
    let after = tree(root);
    assert!(before.iter().all(|(name, bytes)| after.get(name) == Some(bytes)));
    assert!(!root.join("x.msgpack").exists());
}

/// Keys are found wherever they are in a sample, however long.
#[test]
fn parts_of_samples_of_any_form_are_joined_as_one_run_writes_them() {
    let dir = tempfile::tempdir().unwrap();
    let (from, whole) = (dir.path().join("a.msgpack"), dir.path().join("whole.msgpack"));
    let mut writer = kiste::Writer::create(&from).unwrap();
    for n in 0..40u32 {
        let key = match n % 3 {
            0 => format!("{n}"),
            1 => format!("{n}-{}", "x".repeat(300)),
            _ => format!("{n}-\u{e9}"),
        };
        let (key, n) = (("key".into(), kiste::Value::from(key)), ("n".into(), n.into()));
        let fields = if writer.len() % 2 == 0 { vec![key, n] } else { vec![n, key] };
        writer.write_value(&kiste::Value::Map(fields)).unwrap();
    }
    writer.finish().unwrap();
    Conversion::new([&from], &whole).run(&mut Silent).unwrap();
    let joined = dir.path().join("x.msgpack");
    for part in Part::all(3) {
        Conversion::new([&from], &joined).run_part(part, &mut Silent).unwrap();
    }
    join(dir.path()).unwrap();
    for (file, expected) in
        crate::support::files_of(&joined).into_iter().zip(crate::support::files_of(&whole))
    {
        if !file.to_str().unwrap().ends_with(".md5") {
            assert_eq!(fs::read(&file).unwrap(), fs::read(expected).unwrap(), "{file:?}");
        }
    }
}

#[test]
fn a_folder_of_parts_without_a_plan_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    parts(root);
    fs::remove_file(root.join("x.msgpack.parts/plan.json")).unwrap();
    let error = join(root).unwrap_err();
    assert!(error.to_string().contains("expected plan.json, the plan of the parts"), "{error}");
    // Any part writes it again, and those that are finished stay.
    parts(root);
    join(root).unwrap();
    assert!(is_joined(root));
    // Killed before it had written one: nothing has begun.
    fs::create_dir(root.join("y.msgpack.parts")).unwrap();
    fs::write(root.join("y.msgpack.parts/plan.00ff.new"), "{").unwrap();
    let error = commit(root.join("y.msgpack"), &mut Silent).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
}
