//! `split`, `merge` and `sample`: datasets of parts of datasets.

use std::collections::BTreeSet;

use super::order_shuffle::{assert_passed_through, keys, numbered, open};
use super::*;

fn numbers(dir: &TempDir, name: &str) -> Vec<usize> {
    keys(dir, name).iter().map(|key| key.parse().unwrap()).collect()
}

#[test]
fn a_split_at_positions_has_every_sample_once() {
    let dir = scratch();
    numbered(&dir, "n.msgpack", 10);
    let made = run(&dir, ["split", "n.msgpack", "3", "7", "--json"]).exits(0);
    assert_eq!(made.err.lines().count(), 3);
    assert_eq!(made.json()[1]["file"], "n-1.msgpack");
    // Python has 3 in the first part as well, and fails after having written.
    assert_eq!(numbers(&dir, "n-0.msgpack"), [0, 1, 2]);
    assert_eq!(numbers(&dir, "n-1.msgpack"), [3, 4, 5, 6]);
    assert_eq!(numbers(&dir, "n-2.msgpack"), [7, 8, 9]);
    for part in ["n-0.msgpack", "n-1.msgpack", "n-2.msgpack"] {
        assert_passed_through(&dir, part, &["n.msgpack"]);
    }
    let before = snapshot(dir.path());
    run(&dir, ["split", "n.msgpack", "3"]).fails(2, "n-0.msgpack: the dataset exists already");
    for wrong in [&["0"][..], &["10"], &["11"], &["5", "5"], &["5", "4"], &["3", "10"]] {
        let args = [&["split", "n.msgpack", "--force"], wrong].concat();
        run(&dir, args).fails(2, "expected ascending positions from 1 to 9");
    }
    run(&dir, ["split", "n.msgpack"]).exits(2);
    let few = ["split", "n.msgpack", "3", "-o", "a.msgpack"];
    run(&dir, few).fails(2, "1 name for 2 parts");
    let same = ["split", "n.msgpack", "3", "-o", "a.msgpack", "n.msgpack", "--force"];
    run(&dir, same).fails(2, "is both read and written");
    let twice = ["split", "n.msgpack", "3", "-o", "a.msgpack", "a.msgpack"];
    run(&dir, twice).fails(2, "two parts would have this name");
    assert_eq!(snapshot(dir.path()), before);
    run(&dir, ["split", "n.msgpack", "9", "-o", "a.msgpack", "sub/b.msgpack"]).exits(0);
    assert_eq!(numbers(&dir, "sub/b.msgpack"), [9]);
    run(&dir, ["split", "n.msgpack", "5", "-y"]).exits(0);
    assert_eq!(numbers(&dir, "n-0.msgpack").len(), 5);
}

#[test]
fn a_split_by_ratio_is_random_stratified_or_keeps_groups_whole() {
    let dir = scratch();
    numbered(&dir, "n.msgpack", 100);
    let all = |parts: &[&str]| -> Vec<Vec<usize>> {
        parts.iter().map(|part| numbers(&dir, part)).collect()
    };
    let names = ["n-0.msgpack", "n-1.msgpack", "n-2.msgpack"];
    let split = |options: &[&str]| {
        run(&dir, [&["split", "n.msgpack", "-y", "--ratio"], options].concat()).exits(0);
    };
    split(&["0.8,0.1,0.1"]);
    let parts = all(&names);
    assert_eq!(parts.iter().map(Vec::len).collect::<Vec<_>>(), [80, 10, 10]);
    assert_eq!(parts.concat().into_iter().collect::<BTreeSet<_>>().len(), 100);
    assert!(parts.iter().all(|part| part.is_sorted()));
    assert_ne!(parts[0], (0..80).collect::<Vec<_>>());
    split(&["8,1,1"]);
    assert_eq!(all(&names), parts);
    split(&["8,1,1", "--seed=1"]);
    assert_ne!(all(&names), parts);

    split(&["2,1", "--stratify", "label"]);
    for part in all(&names[..2]) {
        let of_class = |class| part.iter().filter(|index| *index % 3 == class).count() * 3;
        assert!((0..3).all(|class| of_class(class).abs_diff(part.len()) <= 3), "{part:?}");
    }
    split(&["2,1", "--by-group", "label"]);
    let classes = |part: &Vec<usize>| part.iter().map(|i| i % 3).collect::<BTreeSet<usize>>();
    let parts = all(&names[..2]);
    assert!(classes(&parts[0]).is_disjoint(&classes(&parts[1])));
    assert_eq!((classes(&parts[0]).len(), classes(&parts[1]).len()), (2, 1));
    run(&dir, ["split", "n.msgpack", "-y", "--ratio", "1,0"]).fails(2, "ratios [1.0, 0.0]");
    let missing = ["split", "n.msgpack", "-y", "--ratio", "1,1", "--stratify", "labl"];
    run(&dir, missing).fails(2, "n.msgpack: sample 0: there is no field \"labl\"");
    run(&dir, ["split", "n.msgpack", "5", "--ratio", "1,1"]).exits(2);
    run(&dir, ["split", "n.msgpack", "5", "--by-group", "label"]).exits(2);
}

/// The names of labels name the parts, and the syntax of `convert` deals samples out as `convert` does.
#[test]
fn parts_have_names() {
    let dir = scratch();
    numbered(&dir, "n.msgpack", 60);
    fs::write(dir.path().join("n.msgpack.labels"), "cat\ndog\nemu/x\n").unwrap();
    run(&dir, ["split", "n.msgpack", "--by-class", "label"]).exits(0);
    assert_eq!(numbers(&dir, "n-dog.msgpack")[..2], [1, 4]);
    assert_eq!(numbers(&dir, "n-emu_x.msgpack")[..2], [2, 5]);
    run(&dir, ["split", "n.msgpack", "--split", "train=0.8,val=0.2"]).exits(0);
    run(&dir, ["convert", "n.msgpack", "c.msgpack", "--split", "train=0.8,val=0.2"]).exits(0);
    for part in ["train", "val"] {
        let found = numbers(&dir, &format!("n-{part}.msgpack"));
        assert!(!found.is_empty() && found == numbers(&dir, &format!("c-{part}.msgpack")));
    }
    for (wrong, says) in [
        ("train", "expected NAME=RATIO"),
        ("a=0", "expected NAME=RATIO"),
        ("a=1,a=2", "two parts would have this name"),
    ] {
        run(&dir, ["split", "n.msgpack", "--split", wrong, "-f"]).fails(2, says);
    }
    run(&dir, ["split", "n.msgpack", "5", "--split", "a=1"]).exits(2);
}

#[test]
fn a_split_by_class_has_a_part_for_each() {
    let dir = scratch();
    numbered(&dir, "n.msgpack", 8);
    run(&dir, ["split", "n.msgpack", "--by-class", "label"]).exits(0);
    assert_eq!(numbers(&dir, "n-0.msgpack"), [0, 3, 6]);
    assert_eq!(numbers(&dir, "n-1.msgpack"), [1, 4, 7]);
    assert_eq!(numbers(&dir, "n-2.msgpack"), [2, 5]);
    let input = b"{\"key\":\"a\",\"c\":\"x/y\"}\n{\"key\":\"b\",\"c\":\"x y\"}";
    run_with(&dir, ["convert", "-", "t.msgpack"], input).exits(0);
    run(&dir, ["split", "t.msgpack", "--by-class", "c"]).fails(2, "two parts would have this name");
    run(&dir, ["split", "t.msgpack", "--by-class", "c", "-o", "1.msgpack", "2.msgpack"]).exits(0);
    // " " before "/".
    assert_eq!(keys(&dir, "1.msgpack"), ["b"]);
}

#[test]
fn a_merge_is_a_concatenation_or_an_interleaving() {
    let dir = scratch();
    numbered(&dir, "all.msgpack", 300);
    run(&dir, ["split", "all.msgpack", "200", "-o", "a.msgpack", "b.msgpack"]).exits(0);
    let merge = |options: &[&str]| {
        let args = ["merge", "a.msgpack", "b.msgpack", "merged.msgpack", "-y", "--json"];
        let made = run(&dir, [&args[..], options].concat()).exits(0).json();
        assert_eq!((&made["samples"], &made["skipped_duplicates"]), (&300.into(), &0.into()));
        assert_passed_through(&dir, "merged.msgpack", &["all.msgpack"]);
        numbers(&dir, "merged.msgpack")
    };
    assert_eq!(merge(&[]), (0..300).collect::<Vec<_>>());
    for options in [&["--strategy=random"][..], &["--weights=1,3"]] {
        let merged = merge(options);
        assert_eq!(merged, merge(options));
        assert_ne!(merged, merge(&[options, &["--seed=1"]].concat()));
        let (first, second): (Vec<usize>, Vec<usize>) =
            merged.iter().partition(|index| **index < 200);
        assert!(first.is_sorted() && second.is_sorted());
        let early = merged[..100].iter().filter(|index| **index >= 200).count();
        let expected = if options[0].starts_with("--strategy") { 20..47 } else { 60..90 };
        assert!(expected.contains(&early), "{early}");
    }
    let args = ["merge", "a.msgpack", "b.msgpack", "x.msgpack"];
    run(&dir, [&args[..], &["--weights=1"]].concat()).fails(2, "expected 2 positive numbers");
    run(&dir, [&args[..], &["--strategy=weighted"]].concat()).fails(2, "needs --weights");
    run(&dir, ["merge", "a.msgpack"]).exits(2);
    run(&dir, ["merge", "a.msgpack", "b.msgpack", "a.msgpack", "-y"]).fails(2, "both read and");
    run(&dir, ["merge", "a.msgpack", "b.msgpack", "merged.msgpack"]).fails(2, "exists already");
}

#[test]
fn a_duplicate_in_a_merge_names_both_inputs() {
    let dir = scratch();
    numbered(&dir, "n.msgpack", 10);
    run(&dir, ["split", "n.msgpack", "5"]).exits(0);
    let before = names(dir.path());
    let args = ["merge", "n-1.msgpack", "n.msgpack", "m.msgpack"];
    let failed = run(&dir, args)
        .fails(2, "key \"5\" comes twice: n-1.msgpack: sample 0 and n.msgpack: sample 5");
    assert!(failed.err.contains("hint: --skip-duplicates"), "{failed:?}");
    assert_eq!(names(dir.path()), before);
    let made = run(&dir, [&args[..], &["--skip-duplicates"]].concat()).exits(0);
    assert!(made.err.contains("skipped 5 samples whose key was there before"), "{made:?}");
    assert_eq!(numbers(&dir, "m.msgpack"), [5, 6, 7, 8, 9, 0, 1, 2, 3, 4]);
    run(&dir, ["merge", "n.msgpack", "n.msgpack", "x.msgpack"]).fails(2, "key \"0\" comes twice");
}

#[test]
fn inputs_with_different_labels_are_not_mixed() {
    let dir = scratch();
    let labelled = |name: &str, labels: &[u64], names: &str| {
        let lines = labels.iter().enumerate();
        let lines = lines.map(|(n, l)| format!("{{\"key\":\"{name}{n}\",\"label\":{l}}}\n"));
        let (file, lines) = (format!("{name}.msgpack"), lines.collect::<String>());
        run_with(&dir, ["convert", "-", &file, "--force"], lines.as_bytes()).exits(0);
        fs::write(dir.path().join(format!("{file}.labels")), names).unwrap();
    };
    let labels = |name: &str| {
        let samples = run(&dir, ["cat", name, "--jsonl"]).quietly().jsonl();
        samples.iter().map(|sample| sample["label"].clone()).collect::<Vec<_>>()
    };
    labelled("a", &[0, 1], "cat\ndog\n");
    labelled("b", &[0, 1, 2], "dog\nemu\ncat\n");
    let before = names(dir.path());
    let args = ["merge", "a.msgpack", "b.msgpack", "m.msgpack"];
    let failed = run(&dir, args).fails(
        2,
        "label 0 is \"cat\" in a.msgpack.labels, but \"dog\" in b.msgpack.labels, so a number does \
         not mean the same",
    );
    assert!(
        failed.err.contains("hint: --remap-labels numbers labels by their names"),
        "{failed:?}"
    );
    assert_eq!(names(dir.path()), before);

    run(&dir, ["convert", "a.msgpack", "b.msgpack", "m.msgpack"])
        .fails(2, "a.msgpack and b.msgpack have different labels");

    run(&dir, [&args[..], &["--remap-labels"]].concat()).exits(0);
    assert_eq!(labels("m.msgpack"), [0, 1, 1, 2, 0]);
    let written = fs::read_to_string(dir.path().join("m.msgpack.labels")).unwrap();
    assert_eq!(written, "cat\ndog\nemu\n");

    run(&dir, [&args[..], &["-f", "--no-labels"]].concat()).exits(0);
    assert_eq!(labels("m.msgpack"), [0, 1, 0, 1, 2]);
    assert!(!dir.path().join("m.msgpack.labels").exists());

    // A number without a name has no place in the new list, and a name that is there twice none in
    // particular.
    labelled("b", &[3], "dog\nemu\ncat\n");
    let remap = [&args[..], &["-f", "--remap-labels"]].concat();
    let expected = "expected the number of a label, below 3, found 3";
    let failed = run(&dir, &remap).fails(2, expected);
    assert!(failed.err.contains("b.msgpack") && failed.err.contains("label"), "{failed:?}");
    labelled("b", &[0], "dog\ndog\n");
    run(&dir, &remap).fails(2, "b.msgpack.labels: expected labels of different names");

    fs::remove_file(dir.path().join("b.msgpack.labels")).unwrap();
    run(&dir, args).fails(2, "a.msgpack.labels exists, but b.msgpack.labels does not");
    run(&dir, &remap).fails(2, "expected no label, as none has a name, found 0");
    let unlabelled = "{\"key\":\"c\"}\n";
    run_with(&dir, ["convert", "-", "b.msgpack", "--force"], unlabelled.as_bytes()).exits(0);
    run(&dir, &remap).exits(0);
    assert_eq!(labels("m.msgpack"), [0.into(), 1.into(), Json::Null]);
    let written = fs::read_to_string(dir.path().join("m.msgpack.labels")).unwrap();
    assert_eq!(written, "cat\ndog\n");
    labelled("b", &[1, 0], "cat\ndog\n");
    run(&dir, [&args[..], &["-f"]].concat()).exits(0);
    assert_eq!(labels("m.msgpack"), [0, 1, 1, 0]);
    assert!(dir.path().join("m.msgpack.labels").exists());
}

#[test]
fn a_sample_is_the_front_of_a_shuffle() {
    let dir = scratch();
    numbered(&dir, "n.msgpack", 200);
    let sample = |options: &[&str]| {
        run(&dir, [&["sample", "n.msgpack", "s.msgpack", "-y"], options].concat()).exits(0);
        assert_passed_through(&dir, "s.msgpack", &["n.msgpack"]);
        keys(&dir, "s.msgpack")
    };
    let order = run(&dir, ["order", "n.msgpack", "--seed=5"]).quietly().out;
    let order: Vec<&str> = order.lines().collect();
    assert_eq!(sample(&["30", "--seed=5"]), order[..30]);
    assert_eq!(sample(&["0.15", "--seed=5"]), order[..30]);
    assert_eq!(sample(&["15%", "--seed=5"]), order[..30]);
    assert_eq!(sample(&["3", "--strategy=sequential"]), ["0", "1", "2"]);
    assert!(sample(&["0"]).is_empty());
    let stratified = sample(&["31", "--stratify=label", "--seed=5"]);
    for class in 0..3 {
        let of_class = |key: &&String| key.parse::<usize>().unwrap() % 3 == class;
        assert!([10, 11].contains(&stratified.iter().filter(of_class).count()));
    }
    let all = run(&dir, ["sample", "n.msgpack", "s.msgpack", "-y", "500"]).exits(0);
    assert!(all.err.contains("warning: n.msgpack: has only 200 samples"), "{all:?}");
    assert_eq!(open(&dir, "s.msgpack").len(), 200);
    run(&dir, ["sample", "n.msgpack", "s.msgpack", "5"]).fails(2, "exists already");
    run(&dir, ["sample", "n.msgpack", "n.msgpack", "5", "-y"]).fails(2, "both read and written");
    run(&dir, ["sample", "n.msgpack", "t.msgpack", "1.5"]).exits(2);
}

#[test]
fn an_empty_dataset_has_empty_parts() {
    let dir = with_empty();
    run(&dir, ["split", "empty.msgpack", "1"]).fails(2, "position 1");
    run(&dir, ["split", "empty.msgpack", "--ratio", "1,1"]).exits(0);
    assert!(keys(&dir, "empty-1.msgpack").is_empty());
    run(&dir, ["split", "empty.msgpack", "--by-class", "label"]).exits(0);
    for strategy in ["concat", "random"] {
        let args = ["merge", "empty.msgpack", "empty-0.msgpack", "m.msgpack", "-y", "-s", strategy];
        run(&dir, args).exits(0);
        assert!(keys(&dir, "m.msgpack").is_empty());
    }
    for amount in ["0", "10", "50%"] {
        run(&dir, ["sample", "empty.msgpack", "s.msgpack", amount, "-y", "--stratify=x"]).exits(0);
        assert!(keys(&dir, "s.msgpack").is_empty());
    }
}
