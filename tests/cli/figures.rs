//! Figures, counts and values in what is printed are those of what happened.

use super::*;

fn lines(dir: &TempDir, name: &str, samples: usize) {
    let text: String = (0..samples)
        .map(|n| format!("{{\"n\":{n},\"text\":\"{}\"}}\n", "x".repeat(n % 9)))
        .collect();
    fs::write(dir.path().join(name), text).unwrap();
}

fn counts(dir: &TempDir, stem: &str) -> Vec<u64> {
    let shards = names(dir.path());
    let shards = shards.iter().filter(|name| name.starts_with(stem) && name.ends_with(".msgpack"));
    let count =
        |name: &String| run(dir, ["info", name, "--json"]).exits(0).json()["samples"].clone();
    shards.map(|name| count(name).as_u64().unwrap()).collect()
}

/// However small the input is, and whether its length is known or not.
#[test]
fn shards_that_are_asked_for_are_about_as_large_as_each_other() {
    let dir = scratch();
    lines(&dir, "a.jsonl", 210);
    lines(&dir, "b.jsonl", 90);
    run(&dir, ["convert", "a.jsonl", "b.jsonl", "all.msgpack"]).exits(0);
    for (sources, slack) in [
        (&["a.jsonl", "b.jsonl"][..], 25),
        (&["all.msgpack"], 0),
        (&["all.csv"], 25),
        (&["all.tfrecord"], 25),
        (&["all.parquet"], 0),
        (&["all-000000.tar"], 25),
    ] {
        if sources[0].ends_with(".parquet") && !cfg!(feature = "parquet") {
            continue;
        }
        if !dir.path().join(sources[0]).exists() {
            let name = sources[0].replace("-000000", "");
            run(&dir, ["convert", "all.msgpack", &name]).exits(0);
        }
        for shards in [1, 3, 7] {
            let output = format!("s{shards}.shards.json");
            let count = shards.to_string();
            run(&dir, [&["convert"], sources, &[&output, "--shards", &count]].concat()).exits(0);
            let found = counts(&dir, &format!("s{shards}-"));
            assert_eq!((found.len(), found.iter().sum::<u64>()), (shards, 300), "{sources:?}");
            let even = 300 / shards as u64;
            let is_even = |count: &u64| count.abs_diff(even) <= slack.max(1);
            assert!(found.iter().all(is_even), "{sources:?}: {found:?}");
            let texts = |name: &str| {
                let rows = run(&dir, ["cat", name, "--jsonl"]).exits(0).jsonl().into_iter();
                rows.map(|row| row["n"].to_string().replace('"', "")).collect::<Vec<_>>()
            };
            assert_eq!(texts(&output), texts("all.msgpack"), "{sources:?}");
            for name in names(dir.path()).iter().filter(|n| n.starts_with(&format!("s{shards}"))) {
                fs::remove_file(dir.path().join(name)).unwrap();
            }
        }
    }
}

/// Fewer samples than shards: no shard has two while another has none.
#[test]
fn few_samples_are_dealt_out_one_by_one() {
    let dir = with_words();
    run(&dir, ["convert", "words.msgpack", "s.shards.json", "--shards", "5"]).exits(0);
    assert_eq!(counts(&dir, "s-"), [1, 1, 1, 0, 0]);
    run(&dir, ["convert", "words.msgpack", "t.shards.json", "--shards", "2", "--limit", "2"])
        .exits(0);
    assert_eq!(counts(&dir, "t-"), [1, 1]);
}

/// What parts and earlier runs have done is not what this run did.
#[test]
fn a_commit_claims_no_speed() {
    let dir = scratch();
    lines(&dir, "a.jsonl", 300);
    for output in ["p.msgpack", "s.shards.json"] {
        for part in ["1/2", "2/2"] {
            run(&dir, ["convert", "a.jsonl", output, "--part", part]).exits(0);
        }
        let made = run(&dir, ["commit", output]).exits(0);
        assert!(
            made.err.contains("300 samples") && made.err.contains("; this run took "),
            "{made:?}"
        );
        assert!(!made.err.contains("/s"), "{made:?}");
    }
    let made = run(&dir, ["convert", "a.jsonl", "d.msgpack"]).exits(0);
    assert!(made.err.contains("samples/s") && made.err.contains("B/s"), "{made:?}");
}

#[test]
fn files_that_metadata_lists_are_not_skipped() {
    let dir = scratch();
    let write = |name: &str, text: &str| {
        let path = dir.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    for name in ["a", "b", "c"] {
        write(&format!("sounds/all/{name}.wav"), "RIFF");
    }
    let rows = "{\"file_name\":\"all/a.wav\"}\n{\"file_name\":\"all/b.wav\"}\n";
    write("sounds/metadata.jsonl", rows);
    let made = run(&dir, ["convert", "sounds", "s.msgpack"]).exits(0);
    assert!(made.err.contains("2 samples") && made.err.contains("skipped 1 file:"), "{made:?}");
    fs::remove_file(dir.path().join("sounds/all/c.wav")).unwrap();
    let made = run(&dir, ["convert", "sounds", "s.msgpack", "-f"]).exits(0);
    assert!(!made.err.contains("skipped"), "{made:?}");
}

#[test]
fn a_hint_repeats_what_was_typed() {
    let dir = scratch();
    run_with(&dir, ["convert", "-", "t.msgpack"], b"{\"key\":\"a\",\"age\":\"31\"}\n").exits(0);
    let made = run(&dir, ["filter", "t.msgpack", "o.msgpack", "age > 30"]).exits(0);
    assert!(made.err.contains("compared by code points: '30'"), "{made:?}");
    // Not the value of another condition. The time that it took is in another line.
    let hint = made.err.lines().find(|line| line.starts_with("hint: "));
    assert!(!hint.unwrap().contains("80"), "{made:?}");
}

#[test]
fn labels_without_a_name_are_a_problem() {
    let dir = scratch();
    let rows: String = (0..9).map(|n| format!("{{\"key\":\"{n}\",\"label\":{n}}}\n")).collect();
    run_with(&dir, ["convert", "-", "d.msgpack"], rows.as_bytes()).exits(0);
    run(&dir, ["verify", "d.msgpack"]).exits(0);
    fs::write(dir.path().join("d.msgpack.labels"), "a\nb\nc\nd\n").unwrap();
    for options in [&[][..], &["--deep"]] {
        let found = run(&dir, [&["verify", "d.msgpack"], options].concat()).exits(1);
        let says = "d.msgpack.labels: sample 4: expected a name for label 4, found 4 names";
        assert!(found.out.contains(says), "{found:?}");
        assert!(
            found.err.contains("hint: d.msgpack.labels has a line for each label"),
            "{found:?}"
        );
        assert!(!found.err.contains("kiste index"), "{found:?}");
    }
    let names: String = (0..9).map(|n| format!("name {n}\n")).collect();
    fs::write(dir.path().join("d.msgpack.labels"), names).unwrap();
    run(&dir, ["verify", "d.msgpack", "--deep"]).exits(0);
}
