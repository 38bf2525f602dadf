//! A shuffle in parts: with any number of them, in any order, the samples come out as `Shuffle` orders them.

use std::fs;
use std::path::{Path, PathBuf};

use kiste::convert::{Part, PartedShuffle, Silent, commit};
use kiste::sampler::{Order, Sampler, Shuffle};
use kiste::{DatasetReader, ErrorKind, Writer};
use serde_json::json;
use tempfile::TempDir;

/// A dataset with samples of different sizes, some of them large.
fn dataset(samples: usize) -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("in.msgpack");
    let mut writer = Writer::create(&path).unwrap();
    for n in 0..samples {
        let text = "x".repeat(if n % 50 == 7 { 5_000 } else { n * 7 % 90 });
        writer.write(&json!({"key": format!("key {n}"), "n": n, "text": text})).unwrap();
    }
    writer.set_labels(Some(&["cat".to_owned(), "dog".to_owned()])).unwrap();
    writer.finish().unwrap();
    (dir, path)
}

fn check(input: &Path, output: &Path, seed: u64, shards: usize) {
    let (input, output) =
        (DatasetReader::open(input).unwrap(), DatasetReader::open(output).unwrap());
    let order = Shuffle::new(input.len() as u64, seed).order(0).unwrap();
    assert_eq!((output.len(), output.shards()), (input.len(), shards));
    for position in 0..input.len() {
        let index = order.index_at(position as u64) as usize;
        assert_eq!(output.get_raw(position).unwrap(), input.get_raw(index).unwrap());
    }
    assert_eq!(output.labels().unwrap(), input.labels().unwrap());
    let first = input.key(0).unwrap();
    assert_eq!(output.find(&first).unwrap(), order.position_of(0).map(|at| at as usize));
}

fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name());
    entries.map(|name| name.into_string().unwrap()).collect()
}

#[test]
fn any_number_of_parts_makes_the_order_of_one_shuffle() {
    let (dir, input) = dataset(500);
    for (parts, memory) in [(1, 1 << 30), (1, 1), (3, 10_000), (8, 1 << 20), (64, 2_000)] {
        let output = dir.path().join(format!("{parts}-{memory}.shards.json"));
        let shuffle = PartedShuffle::new(&input, &output, parts).unwrap().seed(42).memory(memory);
        let report = shuffle.run(&mut Silent).unwrap();
        assert_eq!(report.outputs[0].samples, 500);
        check(&input, &output, 42, parts);
    }
    let left = names(dir.path());
    assert!(
        !left.iter().any(|name| name.contains("scatter") || name.contains("parts")),
        "{left:?}"
    );
}

#[test]
fn fewer_samples_than_parts_and_none_at_all() {
    for samples in [0, 1, 3] {
        let (dir, input) = dataset(samples);
        let output = dir.path().join("out.shards.json");
        PartedShuffle::new(&input, &output, 5).unwrap().run(&mut Silent).unwrap();
        let output = DatasetReader::open(&output).unwrap();
        assert_eq!((output.len(), output.shards()), (samples, 5));
    }
}

#[test]
fn parts_run_in_any_order_and_again() {
    let (dir, input) = dataset(300);
    let output = dir.path().join("out.shards.json");
    // As on machines of their own.
    let shuffle = || PartedShuffle::new(&input, &output, 4).unwrap().seed(7).memory(4_000);
    let part = |number| Part::new(number, 4).unwrap();
    for number in [3, 1, 4, 1] {
        shuffle().scatter(part(number), &mut Silent).unwrap();
    }
    let error = shuffle().gather(part(1), &mut Silent).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Interrupted);
    assert!(error.to_string().contains("part 2/4 of the first pass is not finished"), "{error}");
    // A part that was killed has no note, even if it has written samples.
    let scatter = dir.path().join("out.shards.json.scatter");
    fs::write(scatter.join("part-2-of-4.samples"), "half of it").unwrap();
    shuffle().scatter(part(2), &mut Silent).unwrap();
    for number in [4, 2, 2, 3] {
        shuffle().gather(part(number), &mut Silent).unwrap();
    }
    assert_eq!(commit(&output, &mut Silent).unwrap_err().kind(), ErrorKind::Interrupted);
    assert!(!output.exists() && scatter.exists());
    shuffle().gather(part(1), &mut Silent).unwrap();
    fs::write(scatter.join("notes.txt"), "mine").unwrap();
    // Of a pass that was killed, and another one that only looks like it.
    fs::write(scatter.join("part-3-of-4.samples.0123456789abcdef.partial"), "half").unwrap();
    fs::write(scatter.join("part-3-of-4.samples.mine.partial"), "mine").unwrap();
    commit(&output, &mut Silent).unwrap();
    check(&input, &output, 7, 4);
    let mut left = names(&scatter);
    left.sort();
    assert_eq!(left, ["notes.txt", "part-3-of-4.samples.mine.partial"]);
    let error = shuffle().scatter(part(1), &mut Silent).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AlreadyExists);
}

#[test]
fn parts_of_another_shuffle_are_refused() {
    let (dir, input) = dataset(100);
    let output = dir.path().join("out.shards.json");
    let shuffle = PartedShuffle::new(&input, &output, 2).unwrap();
    let part = Part::new(1, 2).unwrap();
    shuffle.scatter(part, &mut Silent).unwrap();
    let error = shuffle.clone().seed(1).scatter(part, &mut Silent).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.to_string().contains("another source, seed or number of parts"), "{error}");
    let (_other, other) = dataset(101);
    let other = PartedShuffle::new(&other, &output, 2).unwrap();
    assert_eq!(other.scatter(part, &mut Silent).unwrap_err().kind(), ErrorKind::Invalid);
    let third = Part::new(1, 3).unwrap();
    assert_eq!(shuffle.scatter(third, &mut Silent).unwrap_err().kind(), ErrorKind::Invalid);
    let name = PartedShuffle::new(&input, dir.path().join("out.msgpack"), 2).unwrap_err();
    assert_eq!(name.kind(), ErrorKind::Invalid);
}

#[test]
fn damage_between_the_passes_is_an_error_and_never_a_sample() {
    let (dir, input) = dataset(200);
    let output = dir.path().join("out.shards.json");
    let shuffle = PartedShuffle::new(&input, &output, 2).unwrap().memory(3_000);
    for part in Part::all(2) {
        shuffle.scatter(part, &mut Silent).unwrap();
    }
    let scatter = dir.path().join("out.shards.json.scatter");
    for name in ["part-1-of-2.samples", "part-1-of-2.json"] {
        let path = scatter.join(name);
        let whole = fs::read(&path).unwrap();
        let mut flipped = whole.clone();
        flipped[whole.len() / 2] ^= 1;
        for damaged in [&whole[..whole.len() - 1], &whole[..0], &flipped] {
            fs::write(&path, damaged).unwrap();
            let failed = Part::all(2).map(|part| shuffle.gather(part, &mut Silent));
            let failed: Vec<_> = failed.filter_map(Result::err).collect();
            assert!(!failed.is_empty(), "{name}");
            assert!(
                failed.iter().all(|error| error.to_string().contains("part-1-of-2")),
                "{failed:?}"
            );
            fs::remove_dir_all(dir.path().join("out.shards.json.parts")).ok();
            for shard in names(dir.path()).iter().filter(|name| name.starts_with("out-")) {
                fs::remove_file(dir.path().join(shard)).unwrap();
            }
        }
        fs::write(&path, &whole).unwrap();
    }
    shuffle.run(&mut Silent).unwrap();
    check(&input, &output, 0, 2);
}
