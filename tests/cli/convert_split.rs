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

/// Each of the outputs is what the dataset of that side becomes, however it is made.
#[test]
fn other_formats_are_split_as_datasets_are() {
    let dir = with_samples(300);
    let split = ["--split", "a=2,b=1"];
    let all = |args: &[&str]| run(&dir, [&["convert", "all.jsonl"], args, &split].concat());
    all(&["d.msgpack"]).exits(0);
    for (side, samples) in [("a", 100..300), ("b", 30..170)] {
        assert!(samples.contains(&keys(&dir, &format!("d-{side}.msgpack")).len()), "{side}");
    }
    for (name, of) in [("csv", "csv"), ("jsonl", "jsonl"), ("webdataset", "tar"), ("mds", "mds")] {
        let ending = if of == "mds" { "" } else { of };
        let file = |stem: &str, side: &str| match of {
            "tar" => format!("{stem}{side}-000000.tar"),
            "mds" => format!("{stem}{side}"),
            _ => format!("{stem}{side}.{of}"),
        };
        let output = |stem: &str| format!("{stem}.{ending}").trim_end_matches('.').to_owned();
        // In one run, in parts, and as the datasets of the split become it.
        let made = all(&["--to", name, "--json", &output("one")]).exits(0).json();
        assert_eq!(made.as_array().unwrap().len(), 2, "{made}");
        for part in ["2/2", "1/2"] {
            all(&["--to", name, "--part", part, &output("two")]).exits(0);
        }
        run(&dir, ["commit", &output("two")]).exits(0);
        for side in ["-a", "-b"] {
            let from = format!("d{side}.msgpack");
            run(&dir, ["convert", &from, &output(&format!("by{side}")), "--to", name]).exits(0);
            let content = |stem: &str| match dir.path().join(file(stem, side)) {
                folder if of == "mds" => snapshot(&folder),
                made => vec![(PathBuf::new(), fs::read(made).unwrap())],
            };
            assert_eq!(content("one"), content("by"), "{of}{side}");
            assert_eq!(content("two"), content("by"), "{of}{side}");
        }
        let rest = names(dir.path());
        assert!(!rest.iter().any(|name| name.contains(".parts") || name.contains(".partial")));
    }
    for folder in names(dir.path()).iter().map(|name| dir.path().join(name)).filter(|f| f.is_dir())
    {
        fs::remove_dir_all(folder).unwrap();
    }
    // None of them is replaced unless that is asked for, and then no other file.
    let before = snapshot(dir.path());
    all(&["one.tar"]).fails(2, "one-a-000000.tar: exists already");
    all(&["one.csv"]).fails(2, "one-a.csv: exists already");
    assert_eq!(snapshot(dir.path()), before);
    fs::write(dir.path().join("one-b.csv"), "old").unwrap();
    all(&["one.csv", "--force"]).exits(0);
    assert_eq!(snapshot(dir.path()), before);
}

#[test]
fn a_side_without_samples_is_refused_where_a_format_must_have_some() {
    let dir = with_samples(5);
    fs::write(dir.path().join("none.txt"), "").unwrap();
    let split = ["--split-list", "val=none.txt"];
    let before = snapshot(dir.path());
    run(&dir, [&["convert", "all.jsonl", "d.tar"], &split[..]].concat())
        .fails(2, "d-val.tar: expected samples to write, found none");
    let left: Vec<String> =
        names(dir.path()).into_iter().filter(|name| name.starts_with("d-")).collect();
    assert!(left.is_empty(), "{left:?}");
    assert_eq!(snapshot(dir.path()), before);
    fs::write(dir.path().join("val.txt"), "3\nnope\n").unwrap();
    let args = ["convert", "all.jsonl", "d.jsonl", "--split-list", "val=val.txt"];
    let made = run(&dir, args).exits(0);
    assert!(made.err.contains("no samples for 1 key, such as \"nope\""), "{made:?}");
    assert_eq!(fs::read_to_string(dir.path().join("d-val.jsonl")).unwrap().lines().count(), 1);
    assert_eq!(fs::read_to_string(dir.path().join("d-rest.jsonl")).unwrap().lines().count(), 4);
}

/// A run that is not to be resumed leaves nothing when it fails, so what its hint says can be done.
#[test]
fn a_run_in_pieces_that_fails_leaves_everything_as_it_was() {
    let dir = with_samples(20);
    let all = fs::read_to_string(dir.path().join("all.jsonl")).unwrap();
    fs::write(dir.path().join("bad.jsonl"), format!("{all}{{bad\n")).unwrap();
    fs::write(dir.path().join("twice.jsonl"), format!("{all}{{\"key\":\"7\",\"n\":7}}\n")).unwrap();
    let before = snapshot(dir.path());
    for (output, made) in [("d.msgpack", "d-a.msgpack"), ("d.csv", "d-a.csv")] {
        for (source, says, cure) in [
            ("bad.jsonl", "hint: --bad skip", &["--bad", "skip"][..]),
            ("twice.jsonl", "hint: --skip-duplicates", &["--skip-duplicates"]),
        ] {
            let args = ["convert", source, output, "--split", "a=1,b=1"];
            let failed = run(&dir, args);
            assert!(matches!(failed.code, Some(1 | 2)), "{failed:?}");
            assert!(failed.err.contains(says), "{failed:?}");
            assert_eq!(names(dir.path()).len(), before.len(), "{:?}", names(dir.path()));
            assert_eq!(snapshot(dir.path()), before);
            let code = i32::from(source == "bad.jsonl");
            run(&dir, [&args[..], cure].concat()).exits(code);
            assert!(dir.path().join(made).exists());
            for name in names(dir.path()).iter().filter(|name| name.starts_with("d-")) {
                fs::remove_file(dir.path().join(name)).unwrap();
            }
            assert_eq!(snapshot(dir.path()), before);
        }
    }
    // One that is to be resumed keeps its pieces.
    let args = ["convert", "bad.jsonl", "d.csv", "--split", "a=1,b=1", "--resume"];
    run(&dir, args).exits(1);
    assert!(dir.path().join("d.csv.parts/plan.json").exists());
}

/// Before any work is done, also in parts, which could not be joined.
#[test]
fn splits_that_make_no_sense_are_refused_at_once() {
    let dir = with_samples(20);
    fs::write(dir.path().join("one.txt"), "1\n2\n").unwrap();
    fs::write(dir.path().join("two.txt"), "2\n").unwrap();
    let before = snapshot(dir.path());
    let twice = ["--split", "a=1,a=2"];
    let lists = ["--split-list", "x=one.txt", "--split-list", "y=two.txt"];
    for (output, split, says) in [
        ("d.msgpack", &twice[..], "--split has a twice"),
        ("d.csv", &twice, "--split has a twice"),
        ("d.msgpack", &lists, "two.txt: the key \"2\" is in another list too"),
        ("d.csv", &lists, "two.txt: the key \"2\" is in another list too"),
        ("d --to webdataset", &["--split", "x=1,x.tar=1"], "two outputs would have the same name"),
        ("d --to mds", &["--split", "x=1,x.partial=1"], "or one that the other needs"),
    ] {
        for part in [&[][..], &["--part", "1/2"]] {
            let args = [&["convert", "all.jsonl"], split, part].concat();
            let args = args.into_iter().chain(output.split(' '));
            run(&dir, args).fails(2, says);
            assert_eq!(snapshot(dir.path()), before, "{output} {split:?}");
        }
    }
}
