//! `convert --split`.

use std::collections::BTreeSet;

use super::*;

fn with_samples(samples: usize) -> TempDir {
    let dir = scratch();
    let lines: String = (0..samples).map(|i| format!("{{\"key\":\"{i}\",\"n\":{i}}}\n")).collect();
    fs::write(dir.path().join("all.jsonl"), lines).unwrap();
    run(&dir, ["convert", "all.jsonl", "all.msgpack"]).exits(0);
    dir
}

fn keys(dir: &TempDir, name: &str) -> Vec<String> {
    run(dir, ["ls", name]).quietly().out.lines().map(str::to_owned).collect()
}

#[test]
fn a_sample_always_goes_to_the_same_side() {
    let dir = with_samples(1000);
    let split = ["--split", "train=0.9,val=0.1"];
    run(&dir, [&["convert", "all.msgpack", "d.msgpack"], &split[..]].concat()).exits(0);
    assert_eq!(names(dir.path()).iter().filter(|name| name.ends_with(".md5")).count(), 3);
    let (train, val) = (keys(&dir, "d-train.msgpack"), keys(&dir, "d-val.msgpack"));
    assert!((60..140).contains(&val.len()), "{}", val.len());
    let all: BTreeSet<&String> = train.iter().chain(&val).collect();
    assert_eq!(all.len(), 1000);
    run(&dir, ["verify", "--deep", "d-train.msgpack", "d-val.msgpack"]).quietly();

    // In another order, with fewer samples, from another source.
    let lines = fs::read_to_string(dir.path().join("all.jsonl")).unwrap();
    let some: Vec<&str> = lines.lines().rev().step_by(2).collect();
    let args = [&["convert", "-", "e.msgpack", "--json"], &split[..]].concat();
    let made = run_with(&dir, args, some.join("\n").as_bytes()).exits(0).json();
    assert_eq!(made[1]["file"], "e-val.msgpack");
    let known: BTreeSet<&String> = val.iter().collect();
    assert!(keys(&dir, "e-val.msgpack").iter().all(|key| known.contains(key)));
    assert!(!keys(&dir, "e-train.msgpack").iter().any(|key| known.contains(key)));
    assert!(!names(dir.path()).iter().any(|name| name.ends_with(".parts")));

    run(&dir, [&["convert", "all.msgpack", "d.msgpack"], &split[..]].concat())
        .fails(2, "d-train.msgpack: the dataset exists already");
    let salted =
        [&["convert", "all.msgpack", "s.msgpack", "--split-salt", "x"], &split[..]].concat();
    run(&dir, salted).exits(0);
    assert_ne!(keys(&dir, "s-val.msgpack"), val);
}

#[test]
fn lists_say_where_samples_go() {
    let dir = with_samples(50);
    fs::write(dir.path().join("val.txt"), "7\n3\nnope\n").unwrap();
    let args = ["convert", "all.msgpack", "d.msgpack", "--split-list", "val=val.txt"];
    let run_ = run(&dir, args).exits(0);
    assert!(run_.err.contains("no samples for 1 key, such as \"nope\""), "{run_:?}");
    assert_eq!(keys(&dir, "d-val.msgpack"), ["3", "7"]);
    assert_eq!(keys(&dir, "d-rest.msgpack").len(), 48);
    run(&dir, ["convert", "all.msgpack", "d.tar", "--split", "a=1"])
        .fails(2, "--split cannot be combined with an output of another format");
    run(&dir, ["convert", "all.msgpack", "d.msgpack", "--split", "a/b=1"]).exits(2);
}

#[test]
fn it_is_the_same_split_for_any_number_of_parts() {
    let dir = with_samples(3000);
    let split = ["--split", "a=1,b=1"];
    run(&dir, [&["convert", "all.msgpack", "x.msgpack"], &split[..]].concat()).exits(0);
    for number in ["2/2", "1/2"] {
        let args =
            [&["convert", "all.msgpack", "y.msgpack", "--part", number], &split[..]].concat();
        run(&dir, args).exits(0);
    }
    run(&dir, ["commit", "y.msgpack"]).exits(0);
    for side in ["a", "b"] {
        let file = |name: &str| dir.path().join(format!("{name}-{side}.msgpack"));
        assert_same_dataset(&file("x"), &file("y"));
        assert_ne!(keys(&dir, &format!("x-{side}.msgpack")).first(), None);
    }
}

/// A conversion could also shuffle before the first release. Its parts are neither joined in another
/// order nor removed.
#[test]
fn parts_of_a_shuffle_are_left_to_the_version_that_wrote_them() {
    let dir = with_samples(30);
    run(&dir, ["convert", "all.msgpack", "x.msgpack", "--part", "1/1"]).exits(0);
    let plan = dir.path().join("x.msgpack.parts/plan.json");
    let mut json: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(&plan).unwrap()).unwrap();
    json.as_object_mut().unwrap().remove("checksum");
    json["options"]["split"] = serde_json::json!({"shuffle": 7});
    fs::write(&plan, json.to_string()).unwrap();
    let parts = dir.path().join("x.msgpack.parts");
    let before = snapshot(&parts);
    let failed = run(&dir, ["commit", "x.msgpack"]).fails(2, "a field that is not known here");
    assert!(failed.err.contains("by the version that wrote them"), "{failed:?}");
    let mut after = snapshot(&parts);
    after.retain(|file| before.contains(file));
    assert_eq!(after, before);
    assert!(!dir.path().join("x.msgpack").exists());
}

#[test]
fn other_formats_are_made_of_what_was_split() {
    let dir = scratch();
    let lines: String = (0..40).map(|i| format!("{{\"key\":\"{i}\",\"n\":{i}}}\n")).collect();
    fs::write(dir.path().join("n.jsonl"), lines).unwrap();
    let before = snapshot(dir.path());
    let failed = run(&dir, ["convert", "n.jsonl", "n.csv", "--split", "a=1,b=1"])
        .fails(2, "--split cannot be combined with an output of another format");
    assert!(failed.err.contains("kiste convert each of them to DST"), "{failed:?}");
    assert_eq!(snapshot(dir.path()), before);
    // As the hint says.
    run(&dir, ["convert", "n.jsonl", "some.msgpack", "--split", "a=1,b=1"]).exits(0);
    let mut keys = Vec::new();
    for name in ["a", "b"] {
        let (from, to) = (format!("some-{name}.msgpack"), format!("{name}.csv"));
        run(&dir, ["convert", &from, &to]).exits(0);
        let table = fs::read_to_string(dir.path().join(to)).unwrap();
        keys.extend(table.lines().skip(1).map(|row| row.split(',').next().unwrap().to_owned()));
    }
    let expected: Vec<String> = (0..40).map(|i| i.to_string()).collect();
    assert_ne!(keys, expected);
    keys.sort_by_key(|key| key.parse::<u32>().unwrap());
    assert_eq!(keys, expected);
}
