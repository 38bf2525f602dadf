//! `convert --bad`: what becomes of input that is bad.

use super::*;

/// Good samples, and some lines that are none.
const SOME: &str =
    "{\"key\":\"a\"}\n{\"key\":\nnot json\n{\"key\":\"b\"}\n{\"no\":\"key\"}\n{\"key\":\"c\"}\n";

#[test]
fn bad_lines_stop_are_skipped_or_set_aside() {
    let dir = scratch();
    fs::write(dir.path().join("some.jsonl"), SOME).unwrap();
    let before = snapshot(dir.path());
    let failed = run(&dir, ["convert", "some.jsonl", "x.msgpack"]).fails(1, "some.jsonl: line 2: ");
    assert!(failed.err.contains("hint: --bad skip"), "{failed:?}");
    assert_eq!(snapshot(dir.path()), before);

    let args = ["convert", "some.jsonl", "x.msgpack", "--bad", "skip", "--json"];
    let run_ = run(&dir, args).exits(1);
    assert!(
        run_.err.contains("warning: left out 3 bad samples\n  some.jsonl: line 2: "),
        "{run_:?}"
    );
    let made = run_.json();
    assert_eq!((&made["samples"], &made["bad"]), (&3.into(), &3.into()));
    assert_eq!(run(&dir, ["ls", "x.msgpack"]).quietly().out, "a\nb\nc\n");
    assert!(!dir.path().join("x.msgpack.quarantine.jsonl").exists());

    let args = ["convert", "some.jsonl", "x.msgpack", "--bad", "quarantine", "--force"];
    let run_ = run(&dir, args).exits(1);
    assert!(run_.err.contains("see x.msgpack.quarantine.jsonl"), "{run_:?}");
    let aside = fs::read_to_string(dir.path().join("x.msgpack.quarantine.jsonl")).unwrap();
    let aside: Vec<Json> = aside.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let raw: Vec<&str> = aside.iter().map(|bad| bad["raw"].as_str().unwrap()).collect();
    assert_eq!(raw, ["{\"key\":", "not json", "{\"no\":\"key\"}"]);
    assert_eq!(aside[2]["file"], "some.jsonl");
    assert!(aside[2]["reason"].as_str().unwrap().starts_with("line 5: expected a \"key\""));

    // Nothing is bad: no file, and the exit code says so.
    fs::write(dir.path().join("some.jsonl"), "{\"key\":\"a\"}").unwrap();
    run(&dir, args).exits(0);
    assert!(!dir.path().join("x.msgpack.quarantine.jsonl").exists());
}

#[test]
fn what_was_set_aside_before_stays() {
    let dir = scratch();
    fs::write(dir.path().join("some.jsonl"), SOME).unwrap();
    let aside = |name: &str| fs::read(dir.path().join(format!("{name}.quarantine.jsonl"))).unwrap();

    // The second time nothing can be made, as it is there.
    let args = ["convert", "some.jsonl", "x.csv", "--bad", "quarantine"];
    run(&dir, args).exits(1);
    let first = aside("x.csv");
    assert!(run(&dir, args).exits(2).err.contains("exists already"));
    assert_eq!(aside("x.csv"), first);

    // What is bad in more samples is added; an error takes it back.
    run(&dir, ["convert", "some.jsonl", "x.msgpack", "--bad", "quarantine"]).exits(1);
    assert_eq!(aside("x.msgpack"), first);
    fs::write(dir.path().join("more.jsonl"), "nothing\n{\"key\":\"d\"}\n").unwrap();
    let args = ["convert", "more.jsonl", "x.msgpack", "--bad", "quarantine", "--append"];
    run(&dir, args).exits(1);
    let both = aside("x.msgpack");
    assert!(both.starts_with(&first) && both.len() > first.len());
    assert!(run(&dir, args).exits(2).err.contains("--skip-duplicates"));
    assert_eq!(aside("x.msgpack"), both);
}

#[test]
fn lines_of_a_pipe_too() {
    let dir = scratch();
    let args = ["convert", "-", "x.msgpack", "--bad", "skip"];
    run_with(&dir, args, SOME.as_bytes()).exits(1);
    assert_eq!(run(&dir, ["ls", "x.msgpack"]).quietly().out, "a\nb\nc\n");
}

#[test]
fn rows_and_records_and_entries_are_left_out_one_by_one() {
    let dir = scratch();
    fs::write(dir.path().join("t.csv"), "name,age\nann,7\nbob\ncid,x,y\ndot,9\n").unwrap();
    let skip = |source: &str| {
        let args = ["convert", source, "x.msgpack", "--bad", "quarantine", "--force", "--json"];
        run(&dir, args)
    };
    let made = skip("t.csv").exits(1).json();
    assert_eq!((&made["samples"], &made["bad"]), (&2.into(), &2.into()));

    // A record whose data were changed; the length before them has a checksum of its own.
    let lines = "{\"key\":\"a\",\"n\":1}\n{\"key\":\"b\",\"n\":2}\n{\"key\":\"c\",\"n\":3}\n";
    run_with(&dir, ["convert", "-", "w.msgpack"], lines.as_bytes()).exits(0);
    run(&dir, ["convert", "w.msgpack", "w.tfrecord"]).exits(0);
    let path = dir.path().join("w.tfrecord");
    let mut bytes = fs::read(&path).unwrap();
    let record = bytes.len() / 3;
    bytes[record + 20] ^= 1;
    fs::write(&path, &bytes).unwrap();
    let made = skip("w.tfrecord").exits(1).json();
    assert_eq!((&made["samples"], &made["bad"]), (&2.into(), &1.into()));

    // A damaged length: nothing tells where the next record begins.
    bytes[record] ^= 1;
    fs::write(&path, &bytes).unwrap();
    let cut = skip("w.tfrecord").exits(1);
    assert_eq!(cut.json()["samples"], 1);
    assert!(cut.err.contains("warning: from 1 place on, the rest of a file"), "{cut:?}");

    // A name that leads out of the archive.
    run(&dir, ["convert", "w.msgpack", "w.tar"]).exits(0);
    let path = dir.path().join("w-000000.tar");
    let mut tar = fs::read(&path).unwrap();
    let at = tar.windows(2).position(|name| name == b"b.").unwrap();
    let name = b"../b.n.cls";
    tar[at..at + name.len()].copy_from_slice(name);
    let sum = tar[at..at + 512].iter().enumerate();
    let sum: u64 =
        sum.map(|(i, byte)| if (148..156).contains(&i) { 32 } else { u64::from(*byte) }).sum();
    tar[at + 148..at + 156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    fs::write(&path, tar).unwrap();
    let made = skip("w-000000.tar").exits(1).json();
    assert_eq!((&made["samples"], &made["bad"]), (&2.into(), &1.into()));
    assert!(!dir.path().parent().unwrap().join("b.n.cls").exists());
}

#[test]
fn bad_samples_are_left_out_of_other_formats_too() {
    let dir = scratch();
    fs::write(dir.path().join("some.jsonl"), SOME).unwrap();
    let made = run(&dir, ["convert", "some.jsonl", "y.jsonl", "--bad", "skip", "--json"]).exits(1);
    assert_eq!((&made.json()["samples"], &made.json()["bad"]), (&3.into(), &3.into()));
    assert_eq!(fs::read_to_string(dir.path().join("y.jsonl")).unwrap().lines().count(), 3);
}

#[test]
fn parts_set_the_same_aside() {
    let dir = scratch();
    for file in 0..5 {
        let bad = format!("{{\"key\":\"{file}\"}}\nbad {file}\n{{\"key\":\"{file}b\"}}\n");
        fs::write(dir.path().join(format!("{file}.jsonl")), bad).unwrap();
    }
    let files = "{0..4}.jsonl";
    let aside = |name: &str| fs::read(dir.path().join(format!("{name}.quarantine.jsonl"))).unwrap();
    run(&dir, ["convert", files, "whole.msgpack", "--bad", "quarantine"]).exits(1);
    for number in ["3/3", "1/3", "2/3"] {
        let part = ["convert", files, "p.msgpack", "--bad", "quarantine", "--part", number];
        run(&dir, part).exits(0);
    }
    let made = run(&dir, ["commit", "p.msgpack", "--json"]).exits(1).json();
    assert_eq!((&made["samples"], &made["bad"]), (&10.into(), &5.into()));
    assert_eq!(aside("whole.msgpack"), aside("p.msgpack"));
}

#[test]
fn where_all_is_bad_the_reasons_are_told() {
    let dir = scratch();
    fs::write(dir.path().join("bad.jsonl"), "no sample\nnor this\n").unwrap();
    let said = "expected samples to write, found none that are not bad";
    for to in ["mds", "images", "npz"] {
        let part =
            ["convert", "bad.jsonl", "p", "--to", to, "--bad", "quarantine", "--part", "1/1"];
        for skip in [true, false] {
            let bad = if skip { "skip" } else { "quarantine" };
            let one_go = ["convert", "bad.jsonl", "p", "--to", to, "--bad", bad];
            let failed = run(&dir, one_go).fails(1, said);
            assert!(failed.err.contains("; 2 are: "), "{failed:?}");
            assert!(failed.err.contains("bad.jsonl: line 2: "), "{failed:?}");
            let aside = dir.path().join("p.quarantine.jsonl");
            assert_eq!(aside.exists(), !skip);
            if !skip {
                let one_go = fs::read(&aside).unwrap();
                fs::remove_file(&aside).unwrap();
                run(&dir, part).exits(0);
                let failed = run(&dir, ["commit", "p"]).fails(1, said);
                assert!(failed.err.contains("bad.jsonl: line 2: "), "{failed:?}");
                assert!(fs::read(&aside).unwrap() == one_go);
            }
        }
        for left in ["p.parts", "p.quarantine.jsonl"] {
            let path = dir.path().join(left);
            if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) }.unwrap();
        }
    }
    assert_eq!(names(dir.path()), ["bad.jsonl"]);
}

#[test]
fn what_the_system_refuses_is_not_passed_over() {
    let dir = with_words();
    let args = ["convert", "words.msgpack", "no/such/../../words.msgpack/x", "--bad", "skip"];
    run(&dir, args).exits(2);
    run(&dir, ["convert", "words.msgpack", "x", "--bad", "ignore"]).exits(2);
}

#[test]
fn progress_for_programs_is_lines_of_json() {
    let dir = scratch();
    fs::write(dir.path().join("some.jsonl"), "{\"key\":\"a\"}\n{\"key\":\"b\"}\n").unwrap();
    let args = ["convert", "some.jsonl", "x.msgpack", "--progress", "json"];
    let run_ = run(&dir, args).exits(0);
    let told = run_.err.lines().filter(|line| line.starts_with('{'));
    let told: Vec<Json> = told.map(|line| serde_json::from_str(line).unwrap()).collect();
    let last = told.last().unwrap();
    assert_eq!((&last["samples"], &last["done"]), (&2.into(), &1.0.into()), "{run_:?}");
    assert!(last["samples_per_second"].as_f64().unwrap() > 0.0);
    // Every command that has a bar has them.
    for (args, doing) in [
        (&["verify", "x.msgpack"][..], "verifying"),
        (&["shuffle", "x.msgpack", "y.msgpack", "--seed", "1"], "shuffling"),
        (&["stat", "x.msgpack"], "reading"),
    ] {
        let run_ = run(&dir, [args, &["--progress", "json"]].concat()).exits(0);
        let told = run_.err.lines().filter(|line| line.starts_with('{'));
        let told: Vec<Json> = told.map(|line| serde_json::from_str(line).unwrap()).collect();
        let last = told.last().unwrap_or_else(|| panic!("{run_:?}"));
        assert!(told[0]["doing"].as_str().unwrap().starts_with(doing), "{run_:?}");
        // What is verified in a moment was never in between.
        assert!(doing == "verifying" || last["done"] == 1.0, "{run_:?}");
    }
}

/// Two samples that are alike, and between them one that some formats have no place for.
const MISFIT: &str =
    "{\"key\":\"a\",\"v\":1}\n{\"key\":\"../b\",\"v\":[[{}],true]}\n{\"key\":\"d\",\"v\":3}\n";

#[test]
fn what_the_format_cannot_hold_is_left_out_too() {
    let dir = scratch();
    fs::write(dir.path().join("some.jsonl"), MISFIT).unwrap();
    let mut targets = vec!["x.csv", "x.tfrecord", "x.npz", "x.tar", "mds"];
    if cfg!(feature = "parquet") {
        targets.extend(["x.parquet", "x.arrow"]);
    }
    for target in targets {
        let to = if target == "mds" { &["--to", "mds"][..] } else { &[] };
        let convert =
            |more: &[&str]| run(&dir, [&["convert", "some.jsonl", target], to, more].concat());
        let failed = convert(&[]).exits(2);
        assert!(failed.err.contains("../b") && failed.err.contains("hint: --"), "{failed:?}");
        let made = convert(&["--bad", "quarantine", "--json"]).exits(1);
        assert!(made.err.contains("left out 1 bad sample"), "{made:?}");
        assert_eq!((&made.json()["samples"], &made.json()["bad"]), (&2.into(), &1.into()));
        let aside = dir.path().join(format!("{target}.quarantine.jsonl"));
        let one_go = fs::read_to_string(&aside).unwrap();
        let bad: Json = serde_json::from_str(&one_go).unwrap();
        assert_eq!(bad["sample"], "../b", "{target}");
        assert!(!bad["reason"].as_str().unwrap().is_empty() && bad.get("raw").is_some());

        // In parts this shows when they are joined.
        let again = format!("again-{target}");
        let args = ["convert", "some.jsonl", &again, "--bad", "quarantine", "--part", "1/1"];
        run(&dir, [&args[..], to].concat()).exits(0);
        let joined = run(&dir, ["commit", &again, "--json"]).exits(1);
        assert_eq!((&joined.json()["samples"], &joined.json()["bad"]), (&2.into(), &1.into()));
        let aside = fs::read_to_string(dir.path().join(format!("{again}.quarantine.jsonl")));
        let joined: Json = serde_json::from_str(&aside.unwrap()).unwrap();
        assert_eq!((&joined["sample"], &joined["raw"]), (&bad["sample"], &bad["raw"]));
    }
}

#[test]
fn two_samples_of_one_image_file_are_one_too_many() {
    let dir = scratch();
    let image = "{\"$bin\":\"/9j/\"}";
    let lines = format!(
        "{{\"key\":\"a\",\"image\":{image}}}\n{{\"key\":\"a.jpg\",\"image\":{image}}}\n{{\"key\":\"b\",\"image\":{image}}}\n{{\"key\":\"c\",\"image\":1}}\n"
    );
    fs::write(dir.path().join("some.jsonl"), lines).unwrap();
    let args = ["convert", "some.jsonl", "images", "--to", "images", "--bad", "skip", "--json"];
    let made = run(&dir, args).exits(1).json();
    assert_eq!((&made["samples"], &made["bad"]), (&2.into(), &2.into()));
    let metadata = fs::read_to_string(dir.path().join("images/metadata.jsonl")).unwrap();
    assert_eq!(names(&dir.path().join("images")), ["a.jpg", "b.jpg", "metadata.jsonl"]);
    assert_eq!(metadata.lines().count(), 2);
    let part =
        ["convert", "some.jsonl", "joined", "--to", "images", "--bad", "skip", "--part", "1/1"];
    run(&dir, part).exits(0);
    let joined = run(&dir, ["commit", "joined", "--json"]).exits(1).json();
    assert_eq!((&joined["samples"], &joined["bad"]), (&2.into(), &2.into()));
    assert_eq!(snapshot(&dir.path().join("joined")).len(), 3);
}

#[test]
fn a_folder_of_images_can_be_read_back_whatever_was_left_out() {
    let dir = scratch();
    let line = |key: &str, more: &str| {
        format!("{{\"key\":\"{key}\",\"image\":{{\"$bin\":\"/9j/\"}},{more}}}\n")
    };
    // Columns of these names would be paths of images.
    for more in ["\"orig_file_name\":\"x\"", "\"file_name\":\"x\"", "\"file_name\":1"] {
        fs::write(dir.path().join("some.jsonl"), line("a", more)).unwrap();
        let args = ["convert", "some.jsonl", "images", "--to", "images"];
        run(&dir, args).fails(2, "a column of that name has the path of an image");
        assert!(!dir.path().join("images").exists());
    }
    // With the label of the sample that is left out these would be 0, 1, 2, and need no file.
    let lines = [("0/a", 0), ("1/../b", 1), ("2/c", 2)]
        .map(|(key, label)| line(key, &format!("\"label\":{label}")));
    fs::write(dir.path().join("some.jsonl"), lines.concat()).unwrap();
    let args = ["convert", "some.jsonl", "images", "--to", "images", "--bad", "skip"];
    run(&dir, args).exits(1);
    run(&dir, ["convert", "images", "back.msgpack"]).exits(0);
    let back = run(&dir, ["cat", "--jsonl", "back.msgpack"]).quietly().out;
    let labels: Vec<Json> = back
        .lines()
        .map(|line| serde_json::from_str::<Json>(line).unwrap()["label"].clone())
        .collect();
    assert_eq!(labels, [0, 2]);
}

/// A file without samples is no error, but seldom what somebody meant; one that was cut to nothing
/// is damaged, whatever its format.
#[test]
fn inputs_without_samples_are_alike() {
    let dir = with_words();
    for (name, content) in [
        ("e.jsonl", ""),
        ("e.csv", ""),
        ("h.csv", "a,b\n"),
        ("e.tsv", ""),
        ("e.tfrecord", ""),
        ("e.msgpack", ""),
    ] {
        fs::write(dir.path().join(name), content).unwrap();
        let made = run(&dir, ["convert", name, "x.msgpack", "--force"]).exits(0);
        assert!(made.err.contains("warning: x.msgpack: the input has no samples"), "{made:?}");
        let made = run(&dir, ["convert", name, "x.jsonl", "--force"]).exits(0);
        assert!(made.err.contains("warning: x.jsonl: the input has no samples"), "{made:?}");
        run(&dir, ["convert", name, "x.tar"]).fails(2, "expected samples to write, found none");
    }
    let mut cut = vec!["e.tar", "e.npz", "e.zip", "e.tar.gz"];
    if cfg!(feature = "parquet") {
        cut.extend(["e.parquet", "e.arrow"]);
    }
    for name in cut {
        fs::write(dir.path().join(name), "").unwrap();
        run(&dir, ["convert", name, "x.msgpack"]).fails(1, &format!("{name}: the file is empty"));
    }
    fs::write(dir.path().join("list.csv"), "path,label\n").unwrap();
    run(&dir, ["convert", "list.csv", "x.msgpack", "--from", "list"])
        .fails(2, "list.csv: expected images, found none");
}

/// What is damaged ends with 1 in all formats.
#[test]
fn damage_has_one_exit_code() {
    let dir = scratch();
    for (name, content) in [
        ("x.jsonl", "{\"key\":\"a\"}\n{\"key\":\n"),
        ("x.csv", "a,b\n1,2\n3\n"),
        ("x.tsv", "a\tb\n1\t2\n3\n"),
        ("list.csv", "path,label\na.jpg,cat\nb.jpg\n"),
    ] {
        fs::write(dir.path().join(name), content).unwrap();
        let from: &[&str] = if name == "list.csv" { &["--from", "list"] } else { &[] };
        let args = [&["convert", name, "x.msgpack"], from].concat();
        assert_eq!(run(&dir, args).code, Some(1), "{name}");
    }
}
