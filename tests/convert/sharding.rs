//! Conversions to datasets of many files: the same bytes however they are cut, one manifest.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use kiste::convert::{
    BadInput, Conversion, Duplicates, Monitor, Part, Progress, Report, Silent, Split, commit,
    remove_unfinished_shards, unfinished_shards,
};
use kiste::{DatasetReader, ErrorKind, Result, verify};
use tempfile::TempDir;

/// Six files of JSON lines, one of them empty: 300 samples.
fn with_lines() -> (TempDir, Vec<PathBuf>) {
    let dir = tempfile::tempdir().unwrap();
    let mut paths = Vec::new();
    for file in 0..6 {
        let lines: String = (0..file * 20)
            .map(|i| format!("{{\"key\":\"{file}-{i}\",\"x\":\"{}\"}}\n", "x".repeat(i * 7 % 40)))
            .collect();
        paths.push(dir.path().join(format!("{file}.jsonl")));
        fs::write(&paths[file], lines).unwrap();
    }
    (dir, paths)
}

/// All files whose names begin like this, by their names.
fn files(dir: &Path, prefix: &str) -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap());
    let name = |entry: &fs::DirEntry| entry.file_name().into_string().unwrap();
    entries
        .filter(|entry| name(entry).starts_with(prefix))
        .map(|entry| (name(&entry), fs::read(entry.path()).unwrap_or_default()))
        .collect()
}

fn remove(dir: &Path, prefix: &str) {
    for name in files(dir, prefix).into_keys() {
        fs::remove_file(dir.join(name)).unwrap();
    }
}

/// Fails unless it is good and has the samples of the other one, in this order.
fn assert_same_samples(many: &Path, one: &Path) {
    assert_eq!(verify::verify(many).unwrap().problems, []);
    let (many, one) = (DatasetReader::open(many).unwrap(), DatasetReader::open(one).unwrap());
    assert_eq!(many.len(), one.len());
    assert!(many.iter_raw(..).map(Result::unwrap).eq(one.iter_raw(..).map(Result::unwrap)));
    for index in 0..one.len() {
        assert_eq!(many.find(&one.key(index).unwrap()).unwrap(), Some(index));
    }
}

/// Stops after being asked this many times.
struct Stops(Cell<usize>);

impl Monitor for Stops {
    fn is_cancelled(&self) -> bool {
        self.0.set(self.0.get().saturating_sub(1));
        self.0.get() == 0
    }

    fn progress(&mut self, _: Progress) {}
}

/// Conversions, how many shards each makes where that is known, and how many samples.
fn forms(lines: &[PathBuf], out: &Path) -> Vec<(Conversion, Option<usize>, usize)> {
    let conversion = || Conversion::new(lines, out).durable(false);
    let limited = conversion().shard_size(2000).lookup(true).checksums(true).limit(120);
    vec![
        (conversion(), Some(1), 300),
        (conversion().shard_size(4000), None, 300),
        (conversion().shards(1), Some(1), 300),
        (conversion().shards(4), Some(4), 300),
        (conversion().shards(9), Some(9), 300),
        (limited, None, 120),
        (conversion().shard_samples(70), Some(5), 300),
        (conversion().shard_samples(50).shard_size(2000), None, 300),
        (conversion().shard_size(5000).digests(false), None, 300),
    ]
}

#[test]
fn shards_hold_the_samples_of_one_dataset() {
    let (dir, lines) = with_lines();
    let (many, one) = (dir.path().join("many.shards.json"), dir.path().join("one.msgpack"));
    let each = (Conversion::new(&lines, &many).shard_size(1), Some(300), 300);
    for (conversion, shards, samples) in forms(&lines, &many).into_iter().chain([each]) {
        let whole = Conversion::new(&lines, &one).overwrite(true).limit(samples as u64);
        whole.run(&mut Silent).unwrap();
        let report = conversion.run(&mut Silent).unwrap();
        let made = DatasetReader::open(&many).unwrap();
        assert!(shards.map_or(made.shards() >= 2, |n| made.shards() == n), "{conversion:?}");
        let output = &report.outputs[0];
        assert_eq!((output.samples as usize, output.files.len()), (samples, made.shards()));
        assert_same_samples(&many, &one);
        assert!(!dir.path().join("many.shards.json.parts").exists());
        // Nothing is replaced.
        let again = conversion.run(&mut Silent).unwrap_err();
        assert_eq!(again.kind(), ErrorKind::AlreadyExists, "{again}");
        assert_same_samples(&many, &one);
        remove(dir.path(), "many");
    }
}

#[test]
fn stopped_anywhere_and_resumed_it_makes_the_same_bytes() {
    let (dir, lines) = with_lines();
    let many = dir.path().join("many.shards.json");
    for (conversion, ..) in forms(&lines, &many) {
        conversion.run(&mut Silent).unwrap();
        let whole = files(dir.path(), "many");
        remove(dir.path(), "many");
        let mut after = 1;
        loop {
            let stopped = conversion.clone().resume(true).run(&mut Stops(Cell::new(after)));
            let Err(error) = stopped else { break };
            assert_eq!(error.kind(), ErrorKind::Cancelled, "{error}");
            assert!(!many.exists());
            // Without resuming it is no continuation.
            let error = conversion.run(&mut Silent).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Interrupted, "{error}");
            let resumed = conversion.clone().resume(true).run(&mut Silent).unwrap();
            assert!(!resumed.was_complete);
            assert!(files(dir.path(), "many") == whole, "{conversion:?} {after}");
            let again = conversion.clone().resume(true).run(&mut Silent).unwrap();
            assert!(again.was_complete);
            remove(dir.path(), "many");
            after += 1 + after / 3;
        }
        remove(dir.path(), "many");
        // One that is not resumed leaves nothing.
        let error = conversion.run(&mut Stops(Cell::new(4))).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Cancelled);
        assert_eq!(files(dir.path(), "many"), BTreeMap::new());
    }
}

#[test]
fn parts_write_their_shards_in_place_and_commit_writes_the_manifest() {
    let (dir, lines) = with_lines();
    let (many, one) = (dir.path().join("many.shards.json"), dir.path().join("one.msgpack"));
    Conversion::new(&lines, &one).run(&mut Silent).unwrap();
    let whole = || Conversion::new(&lines, &many).durable(false);
    for conversion in [whole(), whole().shard_size(2000), whole().shard_samples(3)] {
        for (number, part) in Part::all(64).enumerate() {
            // Some are stopped, some of them twice.
            for _ in 0..number % 3 {
                let stopped = conversion.run_part(part, &mut Stops(Cell::new(1 + number % 4)));
                if let Err(error) = stopped {
                    assert_eq!(error.kind(), ErrorKind::Cancelled, "{error}");
                }
            }
            if number == 40 {
                let error = commit(&many, &mut Silent).unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Interrupted, "{error}");
            }
            conversion.run_part(part, &mut Silent).unwrap();
        }
        let before = files(dir.path(), "many-");
        let report: Report = commit(&many, &mut Silent).unwrap();
        assert_eq!(report.outputs[0].samples, 300);
        assert_eq!(files(dir.path(), "many-"), before, "no shard is touched");
        assert_same_samples(&many, &one);
        assert!(!dir.path().join("many.shards.json.parts").exists());
        remove(dir.path(), "many");
    }
}

#[test]
fn keys_that_two_shards_have_are_found_at_the_end() {
    let (dir, lines) = with_lines();
    let many = dir.path().join("many.shards.json");
    let text = fs::read_to_string(&lines[1]).unwrap();
    fs::write(&lines[1], text + "{\"key\":\"4-2\"}\n").unwrap();
    let conversion = Conversion::new(&lines, &many).shard_size(500);
    let error = conversion.run(&mut Silent).unwrap_err();
    assert_eq!((error.kind(), error.key()), (ErrorKind::DuplicateKey, Some("4-2")), "{error}");
    assert_eq!(files(dir.path(), "many"), BTreeMap::new());
    for part in Part::all(3) {
        Conversion::new(&lines, &many).run_part(part, &mut Silent).unwrap();
    }
    assert_eq!(commit(&many, &mut Silent).unwrap_err().kind(), ErrorKind::DuplicateKey);
    assert!(!many.exists());
    let found = unfinished_shards(&many).unwrap().unwrap();
    assert_eq!((found.shards.len(), found.samples), (3, 301));
    remove_unfinished_shards(&many).unwrap();
    assert_eq!(files(dir.path(), "many"), BTreeMap::new());
}

#[test]
fn an_append_adds_shards_and_a_manifest_with_all() {
    let (dir, lines) = with_lines();
    let (many, one) = (dir.path().join("many.shards.json"), dir.path().join("one.msgpack"));
    Conversion::new(&lines[..3], &many).shards(2).run(&mut Silent).unwrap();
    let before = files(dir.path(), "many-");
    let append = |sources: &[PathBuf]| {
        Conversion::new(sources, &many).append(true).shard_size(900).durable(false)
    };
    let report = append(&lines[3..]).run(&mut Silent).unwrap();
    Conversion::new(&lines, &one).run(&mut Silent).unwrap();
    assert_same_samples(&many, &one);
    assert_eq!((report.outputs[0].added, report.outputs[0].samples), (240, 300));
    let after = files(dir.path(), "many-");
    assert!(before.iter().all(|(name, bytes)| after[name] == *bytes) && after.len() > before.len());
    // Keys that are there already are refused, and nothing is left of it.
    let error = append(&lines[..2]).run(&mut Silent).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::DuplicateKey, "{error}");
    assert_eq!(files(dir.path(), "many-"), after);
    assert_same_samples(&many, &one);
    // A manifest of a newer kiste would lose what this one does not know.
    let text = fs::read_to_string(&many).unwrap();
    fs::write(&many, text.replacen("\"version\":1", "\"version\":1,\"filters\":[]", 1)).unwrap();
    let other = dir.path().join("other.jsonl");
    fs::write(&other, "{\"key\":\"other\"}\n").unwrap();
    let error = append(&[other]).run(&mut Silent).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    assert_same_samples(&many, &one);
    let missing = Conversion::new(&lines, dir.path().join("none.shards.json")).append(true);
    assert_eq!(missing.run(&mut Silent).unwrap_err().kind(), ErrorKind::NotFound);
}

/// What the dataset has next to its shards, an append makes for its own, or the columns would be gone for all.
#[test]
fn appended_shards_have_the_side_files_of_those_that_are_there() {
    let (dir, lines) = with_lines();
    let many = dir.path().join("many.shards.json");
    let made = Conversion::new(&lines[..3], &many).shards(2).lengths(["len(x)"]).checksums(true);
    made.run(&mut Silent).unwrap();
    Conversion::new(&lines[3..5], &many).append(true).shard_size(900).run(&mut Silent).unwrap();
    let part = |n| {
        let append = Conversion::new(&lines[5..], &many).append(true);
        append.run_part(Part::new(n, 2).unwrap(), &mut Silent).unwrap()
    };
    part(1);
    part(2);
    commit(&many, &mut Silent).unwrap();
    let reader = DatasetReader::options().checksums(true).open(&many).unwrap();
    let column = reader.lengths("len(x)").unwrap().unwrap();
    assert_eq!((column.len(), reader.len()), (300, 300));
    let mut found = Vec::new();
    column.gather(&(0..300).collect::<Vec<_>>(), &mut found).unwrap();
    let text = |at| reader.field(at, "x").unwrap().unwrap().as_str().map(str::len).unwrap();
    assert!((0..300).all(|at| found[at] as usize == text(at)));
    // Where a sample has no such number, nothing is appended.
    let bad = dir.path().join("bad.jsonl");
    fs::write(&bad, "{\"key\":\"bad\",\"x\":1}\n").unwrap();
    let error = Conversion::new([&bad], &many).append(true).run(&mut Silent).unwrap_err();
    assert!(error.to_string().contains("field \"x\" has no length"), "{error}");
    assert_eq!(DatasetReader::open(&many).unwrap().len(), 300);
}

/// Parts add their shards behind those that are there, and a commit lists all of them.
#[test]
fn an_append_is_divided_into_parts() {
    let (dir, lines) = with_lines();
    let one = dir.path().join("one.msgpack");
    Conversion::new(&lines, &one).run(&mut Silent).unwrap();
    for size in [None, Some(900)] {
        let many = dir.path().join(format!("many{}.shards.json", size.unwrap_or(0)));
        Conversion::new(&lines[..3], &many).shards(2).run(&mut Silent).unwrap();
        let stem = format!("many{}-", size.unwrap_or(0));
        let before = files(dir.path(), &stem);
        let part = |number| {
            let append = Conversion::new(&lines[3..], &many).append(true).durable(false);
            let append = size.into_iter().fold(append, Conversion::shard_size);
            append.run_part(Part::new(number, 2).unwrap(), &mut Silent).unwrap()
        };
        // Given up, nothing is left of it.
        let made = part(2).outputs[0].samples;
        assert_eq!(remove_unfinished_shards(&many).unwrap().unwrap().samples, made);
        assert_eq!(files(dir.path(), &stem), before);
        for _ in 0..2 {
            part(2);
            part(1);
        }
        assert_eq!(DatasetReader::open(&many).unwrap().len(), 60);
        let report = commit(&many, &mut Silent).unwrap();
        assert_eq!((report.outputs[0].added, report.outputs[0].samples), (240, 300));
        assert_same_samples(&many, &one);
        let after = files(dir.path(), &stem);
        assert!(before.iter().all(|(name, bytes)| after[name] == *bytes));
        assert_eq!(verify::verify(&many).unwrap().problems, []);
    }
    // Pieces of one file go with their folder, and the dataset that is there stays.
    let before = files(dir.path(), "one.msgpack");
    let again = Conversion::new(&lines, &one).overwrite(true);
    let made = again.run_part(Part::new(1, 2).unwrap(), &mut Silent).unwrap().outputs[0].samples;
    assert_eq!(unfinished_shards(&one).unwrap().unwrap().samples, made);
    let removed = remove_unfinished_shards(&one).unwrap().unwrap();
    assert_eq!((removed.samples, removed.foreign.len()), (made, 0));
    assert!(!dir.path().join("one.msgpack.parts").exists());
    assert_eq!(files(dir.path(), "one.msgpack"), before);
}

#[test]
fn of_several_that_append_at_once_one_wins() {
    let (dir, lines) = with_lines();
    let many = dir.path().join("many.shards.json");
    Conversion::new(&lines[..2], &many).run(&mut Silent).unwrap();
    let append = |source: &PathBuf| {
        Conversion::new([source], &many).append(true).durable(false).run(&mut Silent)
    };
    let results: Vec<Result<Report>> = std::thread::scope(|scope| {
        let append = &append;
        let threads: Vec<_> =
            lines[2..6].iter().map(|source| scope.spawn(move || append(source))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    // Only one conversion to a dataset runs at a time, and each of them appends to what it has seen.
    assert!(results.iter().any(Result::is_ok), "{results:?}");
    let added: u64 = results.iter().flatten().map(|report| report.outputs[0].added).sum();
    assert_eq!(DatasetReader::open(&many).unwrap().len() as u64, 20 + added);
    assert_eq!(verify::verify(&many).unwrap().problems, []);
}

#[test]
fn only_what_the_notes_prove_is_removed() {
    let (dir, lines) = with_lines();
    let many = dir.path().join("many.shards.json");
    let conversion = Conversion::new(&lines, &many).shard_size(2000).durable(false);
    conversion.clone().resume(true).run(&mut Stops(Cell::new(12))).unwrap_err();
    let found = unfinished_shards(&many).unwrap().unwrap();
    assert!(found.shards.len() >= 2 && found.foreign.is_empty(), "{found:?}");
    // A dataset with the name of the next shard, and another one in the place of a shard.
    let mine = dir.path().join("many-00077.msgpack");
    Conversion::new(&lines[1..2], &mine).run(&mut Silent).unwrap();
    let first = found.shards[0].clone();
    Conversion::new(&lines[1..2], &first).overwrite(true).run(&mut Silent).unwrap();
    let removed = remove_unfinished_shards(&many).unwrap().unwrap();
    assert!(removed.foreign == [&*first], "{removed:?}");
    assert_eq!(unfinished_shards(&many).unwrap(), None);
    for path in [&mine, &first] {
        assert_eq!(DatasetReader::open(path).unwrap().len(), 20);
    }
    let left: Vec<String> =
        files(dir.path(), "many").into_keys().filter(|name| name.ends_with(".msgpack")).collect();
    assert_eq!(left, ["many-00000.msgpack", "many-00077.msgpack"]);
    // What is in the place of a shard is not replaced.
    let error = conversion.run(&mut Silent).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AlreadyExists, "{error}");
    assert_eq!(DatasetReader::open(&first).unwrap().len(), 20);
}

#[test]
fn what_makes_no_sense_is_refused() {
    let (dir, lines) = with_lines();
    let many = dir.path().join("many.shards.json");
    let conversion = || Conversion::new(&lines, &many);
    for wrong in [
        conversion().shards(0),
        conversion().shard_size(0),
        conversion().shards(2).shard_size(2),
        conversion().split(Split::new().ratio("a", 1.0)),
        Conversion::new(&lines, dir.path().join("one.msgpack")).shards(3),
        Conversion::new(&lines, dir.path().join("one.msgpack")).shard_size(3),
        Conversion::new(&lines, dir.path().join("one.tar")).shards(3),
    ] {
        let error = wrong.run(&mut Silent).unwrap_err();
        assert!(error.option().is_some(), "{error}");
    }
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), lines.len());
}

/// A dataset of many files is replaced by new shards under new names; then the old shards go.
#[test]
fn a_dataset_of_many_files_is_replaced() {
    let (dir, lines) = with_lines();
    let (many, one) = (dir.path().join("many.shards.json"), dir.path().join("one.msgpack"));
    let other = dir.path().join("many-2.shards.json");
    Conversion::new(&lines[1..3], &other).shards(2).run(&mut Silent).unwrap();
    let replace = |sources: &[PathBuf]| {
        Conversion::new(sources, &many).overwrite(true).shard_size(900).durable(false)
    };
    let whole = |sources: &[PathBuf], with: &str| {
        Conversion::new(sources, &one).overwrite(true).run(&mut Silent).unwrap();
        assert_same_samples(&many, &one);
        let reader = DatasetReader::open(&many).unwrap();
        let mut left = files(dir.path(), "many-");
        left.retain(|name, _| name.ends_with(".msgpack") && !name.starts_with("many-2"));
        assert_eq!(left.len(), reader.shards(), "{with}: {:?}", left.keys());
        assert!(!dir.path().join("many.shards.json.parts").exists());
    };
    // One that is not there, and one that is.
    for sources in [&lines[..3], &lines[3..], &lines[3..]] {
        let report = replace(sources).run(&mut Silent).unwrap();
        assert_eq!(report.outputs[0].added, report.outputs[0].samples);
        whole(sources, "a run");
    }
    // What was begun and given up leaves the one that is there.
    let before = files(dir.path(), "many");
    for resume in [false, true] {
        let stopped = replace(&lines[..3]).resume(resume).run(&mut Stops(Cell::new(6)));
        assert_eq!(stopped.unwrap_err().kind(), ErrorKind::Cancelled);
        assert_eq!(fs::read(&many).unwrap(), before["many.shards.json"]);
        let removed = remove_unfinished_shards(&many).unwrap();
        assert_eq!(removed.is_some(), resume);
        assert!(files(dir.path(), "many") == before);
    }
    replace(&lines[..3]).resume(true).run(&mut Stops(Cell::new(6))).unwrap_err();
    replace(&lines[..3]).resume(true).run(&mut Silent).unwrap();
    whole(&lines[..3], "a run that was resumed");
    for part in Part::all(3) {
        replace(&lines).run_part(part, &mut Silent).unwrap();
        whole_is_there(&many, 60);
    }
    commit(&many, &mut Silent).unwrap();
    whole(&lines, "parts");
    // Of shards whose names no conversion to this manifest gives, another manifest may know.
    let text = fs::read_to_string(&other).unwrap();
    fs::write(&many, text).unwrap();
    remove(dir.path(), "many-0");
    replace(&lines[3..]).run(&mut Silent).unwrap();
    whole(&lines[3..], "shards of another name");
    assert_eq!(DatasetReader::open(&other).unwrap().len(), 60);
    assert_eq!(verify::verify(&other).unwrap().problems, []);
}

fn whole_is_there(many: &Path, samples: usize) {
    assert_eq!(verify::verify(many).unwrap().problems, []);
    assert_eq!(DatasetReader::open(many).unwrap().len(), samples);
}

/// One run leaves out keys that earlier shards have, also shards of earlier runs.
#[test]
fn keys_that_come_twice_are_skipped_in_all_shards_of_a_run() {
    let (dir, lines) = with_lines();
    let (many, one) = (dir.path().join("many.shards.json"), dir.path().join("one.msgpack"));
    let twice: Vec<PathBuf> = [2, 3, 1, 2, 5, 3, 4, 5].map(|at: usize| lines[at].clone()).into();
    let skip = |conversion: Conversion| conversion.on_duplicates(Duplicates::Skip).durable(false);
    let convert = || skip(Conversion::new(&twice, &many).shard_size(900));
    let single = skip(Conversion::new(&twice, &one)).run(&mut Silent).unwrap();
    let report = convert().run(&mut Silent).unwrap();
    assert_eq!(report.skipped_duplicates, single.skipped_duplicates);
    assert_eq!((report.skipped_duplicates, report.different_duplicates), (200, 0));
    assert_same_samples(&many, &one);
    let whole = files(dir.path(), "many");
    remove(dir.path(), "many");
    for after in [3, 5, 8, 12, 17, 23] {
        if convert().resume(true).run(&mut Stops(Cell::new(after))).is_ok() {
            break;
        }
        let report = convert().resume(true).run(&mut Silent).unwrap();
        assert_eq!(report.skipped_duplicates, 200, "{after}");
        assert!(files(dir.path(), "many") == whole, "{after}");
        remove(dir.path(), "many");
    }
    // Behind shards that are there.
    Conversion::new(&lines[1..3], &many).shards(2).run(&mut Silent).unwrap();
    let append = skip(Conversion::new(&twice, &many).append(true).shard_size(900));
    let report = append.run(&mut Silent).unwrap();
    assert_eq!((report.outputs[0].added, report.skipped_duplicates), (240, 260));
    assert_eq!(verify::verify(&many).unwrap().problems, []);
}

/// Parts know nothing of each other: shards with keys that an earlier part has, or behind the limit, are rewritten
/// when they are joined, also by a commit that was stopped anywhere.
#[test]
fn parts_skip_keys_and_keep_to_a_limit_as_one_run_does() {
    let (dir, lines) = with_lines();
    let (many, one) = (dir.path().join("many.shards.json"), dir.path().join("one.msgpack"));
    let changed = dir.path().join("changed.jsonl");
    let text = fs::read_to_string(&lines[2]).unwrap();
    fs::write(&changed, text.replacen("\"x\":\"", "\"x\":\"changed", 3)).unwrap();
    let mut sources: Vec<PathBuf> = [2, 3, 1, 2, 5, 3, 4].map(|at: usize| lines[at].clone()).into();
    sources.insert(3, changed);
    let limits = [None, Some(300), Some(299), Some(131), Some(41), Some(40), Some(7)];
    let mut seen = [0; 3];
    for (number, limit) in limits.into_iter().enumerate() {
        let with = |conversion: Conversion| {
            let conversion = conversion.on_duplicates(Duplicates::Skip).durable(false);
            limit.into_iter().fold(conversion, Conversion::limit)
        };
        let single =
            with(Conversion::new(&sources, &one).overwrite(true)).run(&mut Silent).unwrap();
        let size = [None, Some(900)][number % 2];
        for count in [2, 3, 8, 11] {
            let conversion = || {
                let conversion = with(Conversion::new(&sources, &many));
                size.into_iter().fold(conversion, Conversion::shard_size)
            };
            let run = || {
                for part in Part::all(count) {
                    conversion().run_part(part, &mut Silent).unwrap();
                }
            };
            run();
            for stop in 1..count {
                match commit(&many, &mut Stops(Cell::new(stop))) {
                    Err(error) => assert_eq!(error.kind(), ErrorKind::Cancelled, "{error}"),
                    Ok(_) => break,
                }
                seen[0] += 1;
                assert!(!many.exists());
                // One that is given up leaves nothing.
                if stop % 3 == 2 {
                    remove_unfinished_shards(&many).unwrap().unwrap();
                    assert_eq!(files(dir.path(), "many"), BTreeMap::new());
                    run();
                }
            }
            if !many.exists() {
                let report = commit(&many, &mut Silent).unwrap();
                let (found, expected) = (report.skipped_duplicates, single.skipped_duplicates);
                assert_eq!(found, expected, "limit {limit:?}, {count} parts");
                assert_eq!(report.outputs[0].samples, single.outputs[0].samples);
                seen[1] += report.skipped_duplicates;
                seen[2] += report.different_duplicates;
            }
            assert_same_samples(&many, &one);
            let is_data = |name: &String| name.ends_with(".msgpack");
            let left: Vec<String> = files(dir.path(), "many").into_keys().filter(is_data).collect();
            let text = fs::read_to_string(&many).unwrap();
            assert_eq!(text.matches(".msgpack").count(), left.len(), "{left:?} {text}");
            assert!(left.iter().all(|name| text.contains(name)), "{left:?} {text}");
            remove(dir.path(), "many");
        }
    }
    assert!(seen[0] > 10 && seen[1] > 500 && seen[2] > 10, "{seen:?}");
}

/// All of a part, or of all parts, may be there already.
#[test]
fn parts_that_are_appended_skip_keys_that_are_there() {
    let (dir, lines) = with_lines();
    let (many, one) = (dir.path().join("many.shards.json"), dir.path().join("one.msgpack"));
    Conversion::new(&lines[..4], &many).shards(2).run(&mut Silent).unwrap();
    Conversion::new(&lines, &one).run(&mut Silent).unwrap();
    let append = |sources: &[PathBuf]| {
        for part in Part::all(3) {
            let append = Conversion::new(sources, &many).append(true);
            append.on_duplicates(Duplicates::Skip).run_part(part, &mut Silent).unwrap();
        }
        commit(&many, &mut Silent).unwrap()
    };
    let twice = [&lines[1..5], &lines[4..], &lines[2..3]].concat();
    let report = append(&twice);
    assert_eq!((report.outputs[0].added, report.outputs[0].samples), (180, 300));
    assert_eq!(report.skipped_duplicates, 120 + 80 + 40);
    assert_same_samples(&many, &one);
    let report = append(&twice);
    assert_eq!((report.outputs[0].added, report.outputs[0].samples), (0, 300));
    assert_same_samples(&many, &one);
}

/// What is bad is listed next to the manifest, as next to a dataset of one file, also after a kill.
#[test]
fn bad_lines_are_listed_in_any_number_of_parts() {
    let (dir, mut inputs) = with_lines();
    let bad = dir.path().join("bad.jsonl");
    fs::write(&bad, "{\"key\": \"good\"}\nno sample\n{\"key\": 7\n{\"key\": \"z\"}\n").unwrap();
    inputs.insert(1, bad);
    let read = |name: &str| fs::read(dir.path().join(format!("{name}.quarantine.jsonl"))).unwrap();
    let conversion = |name: &str| {
        let out = dir.path().join(name);
        Conversion::new(&inputs, out).durable(false).on_bad_input(BadInput::Quarantine)
    };
    let one = conversion("one.msgpack").run(&mut Silent).unwrap();
    assert_eq!(
        (one.bad.count, read("one.msgpack").iter().filter(|b| **b == b'\n').count()),
        (2, 2)
    );
    for (name, parts) in [("run.shards.json", 1), ("parts.shards.json", 3), ("file.msgpack", 3)] {
        let conversion = match parts {
            1 => conversion(name).shard_size(200),
            _ => conversion(name),
        };
        let report = match parts {
            1 => conversion.run(&mut Silent).unwrap(),
            _ => {
                Part::all(parts)
                    .for_each(|part| drop(conversion.run_part(part, &mut Silent).unwrap()));
                commit(conversion.output(), &mut Silent).unwrap()
            }
        };
        assert_eq!((report.bad.count, read(name)), (2, read("one.msgpack")), "{name}");
        assert_eq!(report.outputs[0].samples, one.outputs[0].samples);
        // One without bad input has no list, and the older one would be taken for its own.
        let good = Conversion::new(&inputs[2..], dir.path().join(name)).overwrite(true);
        let good = good.on_bad_input(BadInput::Quarantine);
        Part::all(2).for_each(|part| drop(good.run_part(part, &mut Silent).unwrap()));
        assert_eq!(commit(good.output(), &mut Silent).unwrap().quarantine, None);
        assert!(!dir.path().join(format!("{name}.quarantine.jsonl")).exists(), "{name}");
    }
}

#[test]
fn what_cannot_be_kept_is_refused_before_any_work() {
    let (dir, inputs) = with_lines();
    let out = dir.path().join("out.shards.json");
    // No manifest could list such a shard.
    let named = Conversion::new(&inputs, dir.path().join("at-12:00.shards.json"));
    let error = named.run(&mut Silent).unwrap_err();
    assert!(error.to_string().contains("relative to the manifest"), "{error}");
    let error = Conversion::new(&inputs, &out).shards(1 << 20).run(&mut Silent).unwrap_err();
    assert!(error.to_string().contains("expected at most 262144"), "{error}");
    assert_eq!(files(dir.path(), "out").len() + files(dir.path(), "at").len(), 0);
}

#[test]
fn what_another_conversion_has_begun_stays() {
    let (dir, inputs) = with_lines();
    let (theirs, out) = (dir.path().join("out-00000.msgpack"), dir.path().join("out.shards.json"));
    let other = Conversion::new(&inputs, &theirs).resume(true);
    let stopped = other.run(&mut Stops(Cell::new(3))).unwrap_err();
    assert_eq!(stopped.kind(), ErrorKind::Cancelled);
    let begun = fs::read(dir.path().join("out-00000.msgpack.partial/data")).unwrap();
    for resume in [false, true, true] {
        let ours = Conversion::new(&inputs, &out).shard_size(1000).resume(resume);
        assert_eq!(ours.run(&mut Silent).unwrap_err().kind(), ErrorKind::Interrupted);
        let there = fs::read(dir.path().join("out-00000.msgpack.partial/data")).unwrap();
        assert!(there == begun);
    }
    other.run(&mut Silent).unwrap();
    assert_eq!(DatasetReader::open(&theirs).unwrap().len(), 300);
}
