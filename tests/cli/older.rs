//! Work that an earlier version left half done, in `tests/data/kiste-0.1.0-bc0d5446`, is finished or undone.

use super::*;

const GOLDEN: &str = "tests/data/kiste-0.1.0-bc0d5446";
const SOURCES: [&str; 3] = ["a.jsonl", "b.jsonl", "c.jsonl"];

/// What is in one of its folders, with the sources.
fn left(folder: &str) -> TempDir {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join(GOLDEN);
    let dir = scratch();
    copy(&golden.join(folder), dir.path());
    for source in SOURCES {
        let path = dir.path().join(source);
        fs::copy(golden.join(source), &path).unwrap();
        let time = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_700_000_000);
        fs::File::options().write(true).open(path).unwrap().set_modified(time).unwrap();
    }
    dir
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let to = to.join(path.file_name().unwrap());
        match path.is_dir() {
            true => copy(&path, &to),
            false => drop(fs::copy(&path, &to).unwrap()),
        }
    }
}

fn convert(dir: &TempDir, output: &str, options: &[&str]) -> Run {
    let args = ["convert"].into_iter().chain(SOURCES).chain([output]);
    run(dir, args.chain(options.iter().copied()))
}

#[test]
fn a_part_of_a_file_is_taken_as_it_is() {
    let dir = left("part");
    let again = convert(&dir, "x.msgpack", &["--part", "1/2"]).exits(0);
    assert!(again.err.contains("is finished already"), "{again:?}");
    // Its plan is lost: as the hint says, any part writes it again, and what is finished stays.
    fs::remove_file(dir.path().join("x.msgpack.parts/plan.json")).unwrap();
    let lost = run(&dir, ["commit", "x.msgpack"]).fails(2, "expected plan.json");
    assert!(lost.err.contains("parts that are finished stay"), "{lost:?}");
    let again = convert(&dir, "x.msgpack", &["--part", "1/2"]).exits(0);
    assert!(again.err.contains("is finished already"), "{again:?}");
    convert(&dir, "x.msgpack", &["--part", "2/2"]).exits(0);
    run(&dir, ["commit", "x.msgpack"]).exits(0);
    convert(&dir, "whole.msgpack", &[]).exits(0);
    assert_same_dataset(&dir.path().join("whole.msgpack"), &dir.path().join("x.msgpack"));
    assert!(!dir.path().join("x.msgpack.parts").exists());
}

/// The commit had published the dataset, and not yet noted that.
#[cfg(unix)]
#[test]
fn a_commit_knows_its_dataset_by_its_number_and_time() {
    use std::os::unix::fs::MetadataExt;

    let dir = left("commit");
    // As copied it is no file that the note knows, and there is no digest.
    run(&dir, ["commit", "x.msgpack"]).fails(2, "was put in this place after");
    let path = dir.path().join("x.msgpack.parts/commit");
    let mut note: Json = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    let there = fs::metadata(dir.path().join("x.msgpack")).unwrap();
    let made = &mut note["made"]["x.msgpack"];
    made["id"] = serde_json::json!([there.dev(), there.ino()]);
    made["modified"] = serde_json::json!([there.mtime(), there.mtime_nsec()]);
    fs::write(&path, note.to_string()).unwrap();
    let done = run(&dir, ["commit", "x.msgpack"]).exits(0);
    assert!(done.err.contains("was joined before"), "{done:?}");
    run(&dir, ["verify", "x.msgpack"]).exits(0);
    assert!(!dir.path().join("x.msgpack.parts").exists());
}

/// All shards are there; of the second part it was not yet noted that it is finished.
#[test]
fn shards_are_listed_or_removed() {
    let options = |part| ["--shard-size", "300", "--part", part];
    let dir = left("shards");
    convert(&dir, "x.shards.json", &options("1/2")).exits(0);
    run(&dir, ["commit", "x.shards.json"]).fails(1, "1 of 2 parts is missing: 2/2");
    convert(&dir, "x.shards.json", &options("2/2")).exits(0);
    run(&dir, ["commit", "x.shards.json"]).exits(0);
    for part in ["1/2", "2/2"] {
        convert(&dir, "whole.shards.json", &options(part)).exits(0);
    }
    run(&dir, ["commit", "whole.shards.json"]).exits(0);
    let same = run(&dir, ["diff", "whole.shards.json", "x.shards.json"]).exits(0);
    assert!(same.err.contains("same"), "{same:?}");
    let count = |dir: &TempDir| {
        let names = fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name());
        names.filter(|name| name.to_str().unwrap().starts_with("x-0000")).count()
    };
    assert!(count(&dir) > 0);

    let dir = left("shards");
    assert!(count(&dir) > 0);
    run(&dir, ["repair", "x.shards.json", "--undo"]).exits(0);
    assert_eq!(count(&dir), 0);
    assert!(!dir.path().join("x.shards.json.parts").exists());
}
